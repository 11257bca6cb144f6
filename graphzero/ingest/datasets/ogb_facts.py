"""What the files of OGB's datasets do not say: facts from the tables of the ogb package.

``ogb`` keeps them in ``master.csv`` beside its code, not in the folders of the datasets. These are
the rows of https://github.com/snap-stanford/ogb, ``ogb/nodeproppred/master.csv`` and
``ogb/linkproppred/master.csv``, in release 1.3.6 of the package.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KNOWN", "Facts"]


@dataclass(frozen=True)
class Facts:
    """One dataset.

    Attributes
    ----------
    download : str
        Name of the archive on OGB's server, without ``.zip``.
    inverse : bool
        ``add_inverse_edge``: each edge of an undirected graph is stored once, and OGB's readers add
        the inverse.
    split : str
        Folder of the split that OGB prescribes.
    classes : bool
        Whether the labels are the classes of one task.
    binary : bool
        Whether the graph is in ``raw/data.npz``.
    """

    download: str
    inverse: bool
    split: str
    classes: bool = False
    binary: bool = False


KNOWN = {
    "ogbn-arxiv": Facts("arxiv", False, "time", classes=True),
    "ogbn-mag": Facts("mag", False, "time", classes=True),
    "ogbn-papers100M": Facts("papers100M-bin", False, "time", classes=True, binary=True),
    "ogbn-products": Facts("products", True, "sales_ranking", classes=True),
    "ogbn-proteins": Facts("proteins", True, "species"),
    "ogbl-biokg": Facts("biokg", False, "random"),
    "ogbl-citation2": Facts("citation-v2", False, "time"),
    "ogbl-collab": Facts("collab", True, "time"),
    "ogbl-ddi": Facts("ddi", True, "target"),
    "ogbl-ppa": Facts("ppassoc", True, "throughput"),
    # Its list has both directions already: https://github.com/snap-stanford/ogb/issues/241
    "ogbl-vessel": Facts("vessel", False, "spatial", binary=True),
    "ogbl-wikikg2": Facts("wikikg-v2", False, "time"),
}
