"""What the arguments of PyG's loaders and of torch's ``DataLoader`` mean to graphzero's loaders."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from graphzero.graph.sampling_options import Sampling

__all__ = ["ARGUMENTS", "Argument", "arguments_of", "check_keywords", "refuse_keywords"]

Status = Literal["implemented", "no effect", "refused"]
_BOTH = frozenset({"NeighborLoader", "LinkNeighborLoader"})
_NODES = frozenset({"NeighborLoader"})
_LINKS = frozenset({"LinkNeighborLoader"})


@dataclass(frozen=True)
class Argument:
    """What becomes of one argument.

    Attributes
    ----------
    name : str
    status : {"implemented", "no effect", "refused"}
    note : str
        What it does here, why it has no effect, or what to use instead.
    loaders : frozenset of str
        Which of the two loaders have it.
    """

    name: str
    status: Status
    note: str
    loaders: frozenset[str] = _BOTH


def _rows(
    status: Status, rows: Mapping[str, str | tuple[str, frozenset[str]]]
) -> tuple[Argument, ...]:
    return tuple(
        Argument(name, status, *((note,) if isinstance(note, str) else note))
        for name, note in rows.items()
    )


ARGUMENTS: tuple[Argument, ...] = (
    *_rows(
        "implemented",
        {
            "dataset": "a Dataset, from gz.open or gz.build",
            "data": "another name of dataset",
            "num_neighbors": "neighbours per node in each hop, as a list, or by edge type as a "
            "dict (its entry 'default' is for all others) or PyG's NumNeighbors; -1 for all",
            "input_nodes": (
                "None (all nodes), ids, a bool mask, or the name of a split such as 'train'; in a "
                "typed graph a node type, or (node type, any of these)",
                _NODES,
            ),
            "input_time": (
                "a time for each seed, in the unit of the times that drive the sampling",
                _NODES,
            ),
            "input_id": "batch.input_id has these values instead of positions in the seeds",
            "edge_label_index": (
                "(2, n) seed edges, the name of an edge split, or None for all edges, in both "
                "directions where the graph is undirected; in a typed graph an edge type, or "
                "(edge type, any of these)",
                _LINKS,
            ),
            "edge_label": ("labels of the seed edges", _LINKS),
            "edge_label_time": ("a time for each seed edge", _LINKS),
            "neg_sampling": (
                "None, 'binary', 'triplet', (mode, amount, src_weight, dst_weight), a dict, or "
                "PyG's NegativeSampling; negatives are never edges",
                _LINKS,
            ),
            "neg_sampling_ratio": ("the same as neg_sampling=('binary', ratio)", _LINKS),
            "replace": "draw neighbours with replacement",
            "disjoint": "a tree of its own for each seed; times imply it",
            "temporal_strategy": "'uniform' or 'last'",
            "time_attr": "the name of the times that drive the sampling, which the build chooses; "
            "times of edges need input_time or edge_label_time, times of nodes edge_label_time",
            "weight_attr": "the name of the weights that drive the sampling, which the build "
            "chooses; edges of other types are drawn uniformly",
            "subgraph_type": "'directional', or without types 'induced'; 'bidirectional' is "
            "refused",
            "directed": "False is the former name of subgraph_type='induced'",
            "transform": "gets the batch, in the worker, and may return anything",
            "batch_size": "seeds in a batch; 1 if it is left out, as in PyG",
            "shuffle": "another order of the seeds in every pass",
            "drop_last": "drop a short last batch",
            "num_workers": "0 is the recommendation: threads prepare the batches",
            "pin_memory": "as in torch",
            "timeout": "as in torch",
            "worker_init_fn": "as in torch; it changes no draws",
            "multiprocessing_context": "as in torch",
            "generator": "seeds the draws, if seed is left out",
            "prefetch_factor": "as in torch: batches a worker prepares ahead",
            "persistent_workers": "as in torch",
        },
    ),
    *_rows(
        "no effect",
        {
            "is_sorted": "neighbour lists are sorted when they are built",
            "filter_per_worker": "rows are always gathered where the batch was sampled",
            "pin_memory_device": "deprecated in torch, which uses the current accelerator",
        },
    ),
    *_rows(
        "refused",
        {
            "transform_sampler_output": "use transform, which gets the batch with its n_id, "
            "edge_index and e_id",
            "neighbor_sampler": "the dataset brings its own sampler: leave it out; "
            "gz.NeighborSampler samples without a loader",
            "node_sampler": ("the dataset brings its own sampler: leave it out", _NODES),
            "link_sampler": ("the dataset brings its own sampler: leave it out", _LINKS),
            "custom_cls": "use transform, which may return an object of any class",
            "sampler": "use input_nodes or edge_label_index with shuffle, seed_weights=, or "
            "distributed=True",
            "batch_sampler": "use batch_size, shuffle and drop_last",
            "collate_fn": "use transform, which gets the batch; for your own collate function, "
            "the open form: gz.NeighborDataset in a DataLoader",
            "in_order": "batches come in their order, which makes them repeatable: leave it out",
        },
    ),
)


def arguments_of(loader: str) -> dict[str, Argument]:
    """The rows of one of the two loaders, by the name of the argument."""
    return {each.name: each for each in ARGUMENTS if loader in each.loaders}


# Values with which a refused argument asks for nothing.
_NEUTRAL: dict[str, Any] = {"in_order": True}

# What users of one interface type in the other one.
_OTHER_NAMES = {
    "fanouts": "num_neighbors",
    "seeds": "input_nodes",
    "weighted": "weight_attr='edge_weight'",
    "amount": "neg_sampling=(mode, amount)",
    "src_weight": "neg_sampling=(mode, amount, src_weight, dst_weight)",
    "dst_weight": "neg_sampling=(mode, amount, src_weight, dst_weight)",
    "gather": "NeighborDataset with Collate, the open form",
}
_OF_DATASETS = {
    "num_neighbors": "fanouts",
    "input_nodes": "seeds",
    "data": "dataset, the first argument",
    "time_attr": "input_time: the times that the build chose drive the sampling by any name",
    "weight_attr": "weighted=True: the weights that the build chose drive the sampling by any name",
    "directed": "subgraph_type='induced', which is what directed=False meant",
    "neg_sampling_ratio": "neg_sampling='binary', amount=ratio",
    "num_workers": "the DataLoader's num_workers",
    "pin_memory": "the DataLoader's pin_memory",
    "persistent_workers": "the DataLoader's persistent_workers",
    "transform": "a collate_fn that calls gz.Collate(ds) first",
}


def check_keywords(loader: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuses keywords that a loader does not have.

    Parameters
    ----------
    loader : str
        "NeighborLoader" or "LinkNeighborLoader".
    given : mapping
        Keywords that are not in its signature, with their values.
    known : iterable of str
        Those that are.

    Raises
    ------
    TypeError
        That says what to use instead, or which names are close.
    """
    rows = arguments_of(loader)
    for name, value in given.items():
        argument = rows.get(name)
        if argument is None:
            what = f"{loader} has no argument {name!r}"
            if name in _OTHER_NAMES:
                raise TypeError(f"{what}: use {_OTHER_NAMES[name]}")
            raise TypeError(what + _closest(name, {*known, *rows}))
        if argument.status == "refused" and value != _NEUTRAL.get(name):
            raise TypeError(f"{loader} takes no {name}: {argument.note}")


def refuse_keywords(dataset: type, options: Iterable[str]) -> None:
    """Refuses keywords that a dataset of seeds does not have, such as those of PyG's loaders.

    Parameters
    ----------
    dataset : type
        Its class.
    options : iterable of str
        Names that are not in its signature.

    Raises
    ------
    TypeError
        That says which name it has here, or which names are close.
    """
    of_sampling = {field.name for field in fields(Sampling)}
    for name in options:
        if name in of_sampling:
            continue
        what = f"{dataset.__name__} has no argument {name!r}"
        if name in _OF_DATASETS:
            raise TypeError(
                f"{what}: use {_OF_DATASETS[name]} (gz.NeighborLoader and gz.LinkNeighborLoader "
                f"have PyG's names)"
            )
        own = set(inspect.signature(dataset).parameters) - {"options"}
        raise TypeError(what + _closest(name, own | of_sampling))


def _closest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, sorted(known))
    return f": did you mean {' or '.join(close)}?" if close else ""
