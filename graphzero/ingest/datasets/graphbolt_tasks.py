"""The sets of a task in ``metadata.yaml``: splits and labels of nodes, or seeds of links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphzero.ingest.datasets.task_labels import TaskLabels
from graphzero.ingest.sources.array_opening import open_array

__all__ = ["GraphBoltTask", "find_task"]

_SETS = {"train_set": "train", "validation_set": "val", "test_set": "test"}
# Of seeds: today, and before DGL 2.2.
_SEEDS = ("seeds", "seed_nodes", "node_pairs")


@dataclass
class GraphBoltTask:
    """What a task has.

    Attributes
    ----------
    splits : dict
        Of nodes, by name, and by type in typed graphs.
    seeds : dict
        Arrays of sets of edges, by split, by edge type in typed graphs, and by name.
    notes : tuple of str
    """

    splits: dict[str, Any] = field(default_factory=dict)
    seeds: dict[str, dict[Any, Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def find_task(
    metadata: Any,
    tasks: Sequence[Mapping[str, Any]],
    task: str | int | None,
    nodes: dict[Any, dict[str, Any]],
    *,
    typed: bool,
) -> GraphBoltTask:
    """The chosen task; labels of nodes are added to `nodes` as "y".

    Raises
    ------
    ValueError
        If it is not clear which task is meant, or its sets are not as documented.
    """
    found = GraphBoltTask()
    chosen = _chosen(metadata, tasks, task)
    if chosen is None:
        return found
    labels: dict[Any, list[tuple[str, Any, Any]]] = {}
    for name, split in _SETS.items():
        for entry in metadata.entries(chosen, name):
            kind = entry.get("type", entry.get("type_name"))
            if (kind is not None) != typed:
                raise ValueError(f"{metadata.path}: {name} has type {kind!r}")
            data = _arrays(metadata, entry, name)
            of_nodes = kind in nodes and _are_nodes(data, f"{metadata.path}: {name}")
            if of_nodes:
                _add_nodes(found, split, kind, data, f"{metadata.path}: {name}", labels)
            else:
                _add_links(metadata, found, split, kind, data, typed=typed)
    for kind, parts in labels.items():
        if "y" in nodes[kind]:
            raise ValueError(
                f"{metadata.path}: both feature_data and the task have labels, 'y': name those of "
                f"feature_data otherwise, names={{'y': 'label'}}"
            )
        nodes[kind]["y"] = TaskLabels(nodes[kind]["num_nodes"], parts)
    return found


def _chosen(
    metadata: Any, tasks: Sequence[Mapping[str, Any]], task: str | int | None
) -> Mapping[str, Any] | None:
    if task is None and len(tasks) < 2:
        return tasks[0] if tasks else None
    names = [each.get("name") for each in tasks]
    if isinstance(task, int) and 0 <= task < len(tasks):
        return tasks[task]
    if isinstance(task, str) and names.count(task) == 1:
        return tasks[names.index(task)]
    wrong = "" if task is None else f", not task={task!r}"
    raise ValueError(
        f"{metadata.path} has the tasks {names}: choose one with task=, by name or position{wrong}"
    )


def _arrays(metadata: Any, entry: Mapping[str, Any], where: str) -> dict[str, str]:
    """The files of a set, by name."""
    found: dict[str, str] = {}
    for data in metadata.entries(entry, "data"):
        name = metadata.text(data, "name", f"{where}.data (such as 'seeds' or 'labels')")
        if name in found:
            raise ValueError(f"{metadata.path}: {where} has {name!r} twice")
        found[name] = metadata.array(data, f"{where} {name!r}")
    return found


def _seeds(data: Mapping[str, str], where: str) -> str:
    found = [name for name in _SEEDS if name in data]
    if len(found) != 1:
        raise ValueError(f"{where} has {', '.join(data) or 'no data'}: 'seeds' is needed")
    return found[0]


def _are_nodes(data: Mapping[str, str], where: str) -> bool:
    """Whether the seeds are nodes; those of links are pairs."""
    name = _seeds(data, where)
    return name != "node_pairs" and open_array(data[name], name).ndim == 1


def _add_nodes(
    found: GraphBoltTask,
    split: str,
    kind: Any,
    data: Mapping[str, str],
    where: str,
    labels: dict[Any, list[tuple[str, Any, Any]]],
) -> None:
    seeds = data[_seeds(data, where)]
    if kind is None:
        found.splits[split] = seeds
    else:
        found.splits.setdefault(split, {})[kind] = seeds
    if "labels" in data:
        part = f"{where} ({data['labels']})"
        arrays = (open_array(seeds, "seeds"), open_array(data["labels"], "labels"))
        labels.setdefault(kind, []).append((part, *arrays))
    others = sorted(set(data) - {*_SEEDS, "labels"})
    if others:
        found.notes += (f"{where} has {', '.join(others)}, which is not stored",)


def _add_links(
    metadata: Any,
    found: GraphBoltTask,
    split: str,
    kind: Any,
    data: Mapping[str, str],
    *,
    typed: bool,
) -> None:
    if not typed:
        found.seeds[split] = dict(data)
        return
    parts = tuple(str(kind).split(":"))
    if len(parts) != 3:
        raise ValueError(f"{metadata.path}: a set has type {kind!r}, which the graph has not")
    found.seeds.setdefault(split, {})[parts] = dict(data)
