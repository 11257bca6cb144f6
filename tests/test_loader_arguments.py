"""The table of PyG's arguments, wrong names and wrong datasets, and PyG's own batches."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import files
import numpy as np
import pytest

import graphzero as gz

torch = pytest.importorskip("torch")

from graphzero.loader.arguments import NO_EFFECT, REFUSED  # noqa: E402

LOADERS = {"NeighborLoader": gz.NeighborLoader, "LinkNeighborLoader": gz.LinkNeighborLoader}
PAGE = Path(__file__).resolve().parents[1] / "docs" / "loaders.md"

ONLY_IN = {("NeighborLoader",): " (nodes)", ("LinkNeighborLoader",): " (links)"}

# The C code that these loaders reach is sanitized by the tests of their open form.
pytestmark = pytest.mark.no_asan


@pytest.fixture
def ds(dataset):
    with gz.open(dataset[0]) as opened:
        yield opened


def make(name, ds, **options):
    return LOADERS[name](ds, [3], **options)


def parameters(function):
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    found = inspect.signature(function).parameters.values()
    return {each.name for each in found if each.kind not in kinds} - {"self"}


def refused_by(name):
    return {each: note for each, (note, loaders) in REFUSED.items() if name in loaders}


@pytest.mark.parametrize("name", LOADERS)
def test_every_argument_of_pyg_and_torch_is_known(name):
    loader = pytest.importorskip("torch_geometric.loader")
    base = {"NeighborLoader": loader.NodeLoader, "LinkNeighborLoader": loader.LinkLoader}[name]
    theirs = {
        *parameters(getattr(loader, name).__init__),
        *parameters(base.__init__),
        *parameters(torch.utils.data.DataLoader.__init__),
    }
    assert not theirs - {*parameters(LOADERS[name]), "data", *NO_EFFECT, *refused_by(name)}


@pytest.mark.parametrize("name", LOADERS)
def test_what_has_no_effect_and_what_is_refused(name, ds):
    own = parameters(LOADERS[name])
    for argument in NO_EFFECT:
        assert argument not in own
        make(name, ds, **{argument: True})
    for argument, note in refused_by(name).items():
        assert argument not in own
        make(name, ds, **{argument: True if argument == "in_order" else None})
        with pytest.raises(TypeError, match=f"no {argument}: {re.escape(note)}"):
            make(name, ds, **{argument: False if argument == "in_order" else object()})


def test_the_page_says_what_becomes_of_every_argument():
    rows = {}
    for line in PAGE.read_text().splitlines():
        found = re.fullmatch(r"\| `(\w+)`(.*?) \| (implemented|no effect|refused) \| (.*) \|", line)
        if found:
            rows.setdefault(found[3], {})[found[1], found[2]] = found[4]
    assert rows["no effect"] == {(name, ""): note for name, note in NO_EFFECT.items()}
    assert rows["refused"] == {
        (name, ONLY_IN.get(loaders, "")): note for name, (note, loaders) in REFUSED.items()
    }
    of_nodes, of_links = (parameters(each) | {"data"} for each in LOADERS.values())
    for name, only_in in rows["implemented"]:
        assert (name in of_nodes) == (only_in != " (links)")
        assert (name in of_links) == (only_in != " (nodes)")


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ("fanouts", "use num_neighbors"),
        ("seeds", "use input_nodes"),
        ("batchsize", "did you mean batch_size"),
        ("num_worker", "did you mean num_workers"),
        ("neg_sampling", "no argument 'neg_sampling'"),
        ("xyzzy", "no argument 'xyzzy'$"),
    ],
)
def test_unknown_names_of_the_loader(ds, given, answer):
    with pytest.raises(TypeError, match=answer):
        make("NeighborLoader", ds, **{given: 1})


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ("num_neighbors", "use fanouts"),
        ("input_nodes", "use seeds"),
        ("time_attr", "use input_time"),
        ("weight_attr", "use weighted=True"),
        ("batchsize", "did you mean batch_size"),
        ("temporal_strateg", "did you mean temporal_strategy"),
        ("options", "no argument"),
    ],
)
def test_unknown_names_of_the_datasets(ds, given, answer):
    with pytest.raises(TypeError, match=f"NeighborDataset.*{answer}"):
        gz.NeighborDataset(ds, **{given: 1})
    with pytest.raises(TypeError, match=f"LinkNeighborDataset.*{answer}"):
        gz.LinkNeighborDataset(ds, [[0], [1]], **{given: 1})


def test_what_is_no_dataset(dataset, ds):
    with pytest.raises(TypeError, match=r"gz\.open\('data/'\)"):
        gz.NeighborLoader("data/", [3])
    with pytest.raises(TypeError, match=r"gz\.open"):
        gz.NeighborLoader(dataset[0], [3])
    with pytest.raises(TypeError, match="first argument is missing"):
        gz.NeighborLoader(num_neighbors=[3])
    with pytest.raises(TypeError, match="must be a Dataset"):
        gz.NeighborLoader(ds.graph, [3])
    with pytest.raises(TypeError, match="two names"):
        gz.NeighborLoader(ds, [3], data=ds)
    assert len(gz.NeighborLoader(data=ds, num_neighbors=[3]).dataset) == 500
    with pytest.raises(TypeError, match="num_neighbors is missing"):
        gz.NeighborLoader(ds)
    with pytest.raises(TypeError, match="edge types"):
        gz.NeighborLoader(ds, {("paper", "cites", "paper"): [3]})
    for wrong in ([-2], [1.5], "ab"):
        with pytest.raises(ValueError, match="fanout"):
            gz.NeighborLoader(ds, wrong)


def test_graphs_of_pyg():
    data = pytest.importorskip("torch_geometric.data")
    for graph in (data.Data(), data.HeteroData()):
        with pytest.raises(TypeError, match=r"import from_data; ds = from_data\(data, "):
            gz.NeighborLoader(graph, [3])


@pytest.fixture
def both(tmp_path):
    """A directed graph as a dataset, and as PyG's Data; its loaders need a sampler of PyG."""
    pyg = pytest.importorskip("torch_geometric")
    if not (pyg.typing.WITH_PYG_LIB or pyg.typing.WITH_TORCH_SPARSE):
        pytest.skip("PyG's loaders need pyg-lib or torch-sparse")
    edges = np.asarray(files.random_edges(60, 400)).T
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 3)).astype(np.float32), rng.integers(0, 4, 60)
    data = pyg.data.Data(
        x=torch.from_numpy(x), edge_index=torch.from_numpy(edges), y=torch.from_numpy(y)
    )
    options = {"features": x, "labels": y, "edge_ids": True}
    with gz.build(tmp_path / "d", edges, num_nodes=60, **options) as ds:
        yield ds, data


def edges_of(batch):
    """The edges in global ids, with their positions in the edge list."""
    ends = batch.n_id[batch.edge_index]
    return sorted(zip(*ends.tolist(), batch.e_id.tolist(), strict=True))


@pytest.mark.parametrize("seeds", ["all", "ids", "mask"])
def test_batches_with_all_neighbors_are_those_of_pyg(both, seeds):
    from torch_geometric.loader import NeighborLoader

    ds, data = both
    mask = torch.zeros(60, dtype=torch.bool)
    mask[[3, 50, 7, 20, 21]] = True
    given = {"all": None, "ids": torch.tensor([50, 3, 7, 21]), "mask": mask}[seeds]
    loaders = [
        kind(graph, num_neighbors=[-1, -1], input_nodes=given, batch_size=3)
        for kind, graph in ((gz.NeighborLoader, ds), (NeighborLoader, data))
    ]
    ours, theirs = loaders
    assert len(ours) == len(theirs)
    assert len(ours.dataset) == len(theirs.dataset)
    pairs = [*zip(ours, theirs, strict=True), (ours([2, 0]), theirs([2, 0]))]
    for one, other in pairs:
        size = one.batch_size
        assert size == other.batch_size
        assert torch.equal(one.input_id, other.input_id)
        assert torch.equal(one.n_id[:size], other.n_id[:size])
        if "num_sampled_nodes" in other:  # with pyg-lib
            assert one.num_sampled_nodes == other.num_sampled_nodes
            assert one.num_sampled_edges == other.num_sampled_edges
        assert sorted(one.n_id.tolist()) == sorted(other.n_id.tolist())
        assert edges_of(one) == edges_of(other)
        assert torch.equal(one.x[:size], other.x[:size])
        assert set(other.keys()) - {"batch"} <= set(one.keys()) | {"seed_time"}


def test_seed_edges_are_those_of_pyg(both):
    pytest.importorskip("torch_geometric.sampler")
    from torch_geometric.loader import LinkNeighborLoader
    from torch_geometric.sampler import NegativeSampling

    ds, data = both
    for neg_sampling in (None, NegativeSampling("binary", 2), NegativeSampling("triplet", 2)):
        ours, theirs = (
            kind(graph, num_neighbors=[-1], neg_sampling=neg_sampling, batch_size=90)
            for kind, graph in ((gz.LinkNeighborLoader, ds), (LinkNeighborLoader, data))
        )
        assert len(ours.dataset) == len(theirs.dataset) == 400
        for one, other in zip(ours, theirs, strict=True):
            assert torch.equal(one.input_id, other.input_id)
            names = (
                "edge_label_index",
                "edge_label",
                "src_index",
                "dst_pos_index",
                "dst_neg_index",
            )
            for name in names:
                if getattr(other, name, None) is not None:
                    assert getattr(one, name).shape == getattr(other, name).shape
                    assert getattr(one, name).dtype == getattr(other, name).dtype
            if neg_sampling is None:
                ends = [batch.n_id[batch.edge_label_index] for batch in (one, other)]
                assert torch.equal(*ends)
