"""The naive sampler of typed graphs: one edge at a time, with the draws of the documentation."""

from __future__ import annotations

import numpy as np
import reference
from reference import Tree, key_of, stream

MOST_HOPS = 64


def _trees(num_seeds, types, disjoint, times):
    """The tree of each seed of all types in order; one for all unless they are disjoint."""

    def new(number):
        return Tree(number, {node_type: {} for node_type in types}, times and times[number])

    if not disjoint and times is None:
        return [new(0)] * num_seeds
    return [new(i) for i in range(num_seeds)]


def sample(
    graph,
    seeds,
    fanouts,
    *,
    replace=False,
    weighted=False,
    labor=False,
    disjoint=False,
    temporal_strategy="uniform",
    strictly_before=False,
    batch_dependency=1,
    times=None,
    seed=0,
    epoch=0,
    batch=0,
):
    """Dictionary of the arrays of a `TypedSubgraph`; `seeds` and `times` are dicts."""
    types, numbers = list(graph.num_nodes), (seed, epoch, batch)
    is_disjoint = disjoint or times is not None
    all_times = times and [time for t in types for time in times.get(t, [])]
    trees = _trees(sum(len(each) for each in seeds.values()), types, disjoint, all_times)
    lists = {edge_type: graph.naive(edge_type).rows for edge_type in graph.edges}
    nodes = {t: [int(graph.rank(t)[node]) for node in seeds.get(t, [])] for t in types}
    tree_of, first_tree = {}, 0
    for t in types:
        tree_of[t] = trees[first_tree : first_tree + len(nodes[t])]
        first_tree += len(nodes[t])
        for i, (node, tree) in enumerate(zip(nodes[t], tree_of[t], strict=True)):
            tree.local[t].setdefault(node, i)

    def draw_from(row, node, tree, part, fanout, edges):
        stream_ = stream(key_of(node, part, batch_dependency, numbers), node)
        if is_disjoint:
            stream_ = stream(stream_, tree.number)
        if times is not None and edges.times is not None:
            last = temporal_strategy == "last"
            return reference._draw_until(
                stream_, row, fanout, replace, tree.until, last, strictly_before
            )
        if weighted and edges.weights is not None:
            return reference.draw_weighted(stream_, [entry[2] for entry in row], fanout, replace)
        if labor and 0 <= fanout < len(row):
            keys = [key_of(t, part, batch_dependency, numbers) for t, *_ in row]
            draws = [reference.draw(key_, entry[0]) for key_, entry in zip(keys, row, strict=True)]
            return [i for i, r in enumerate(draws) if r * len(row) < fanout << 64]
        return reference.draw_positions(stream_, len(row), fanout, replace)

    num_nodes = {t: [len(nodes[t])] for t in types}
    found = {edge_type: [] for edge_type in graph.edges}
    num_edges = {edge_type: [] for edge_type in graph.edges}
    begin = dict.fromkeys(types, 0)
    for hop in range(len(next(iter(fanouts.values())))):
        end = {t: len(nodes[t]) for t in types}
        for number, (edge_type, edges) in enumerate(graph.edges.items()):
            owner, other = graph.ends(edge_type)
            before, fanout = len(found[edge_type]), fanouts[edge_type][hop]
            for target in range(begin[owner], end[owner]) if fanout else ():
                node, tree = nodes[owner][target], tree_of[owner][target]
                row, part = lists[edge_type][node], hop + number * MOST_HOPS
                for position in draw_from(row, node, tree, part, fanout, edges):
                    neighbor, edge_id = row[position][:2]
                    if neighbor not in tree.local[other]:
                        tree.local[other][neighbor] = len(nodes[other])
                        nodes[other].append(neighbor)
                        tree_of[other].append(tree)
                    found[edge_type].append((tree.local[other][neighbor], target, edge_id))
            num_edges[edge_type].append(len(found[edge_type]) - before)
        for t in types:
            num_nodes[t].append(len(nodes[t]) - end[t])
        begin = end
    columns = {t: np.array(e, dtype=np.int64).reshape(-1, 3).T for t, e in found.items()}
    return {
        "stored_id": {t: np.array(nodes[t], np.int64) for t in types},
        "n_id": {t: graph.node_ids(t)[np.array(nodes[t], np.int64)] for t in types},
        "edge_index": {t: each[:2] for t, each in columns.items()},
        "e_id": {t: each[2] for t, each in columns.items()},
        "num_sampled_nodes": num_nodes,
        "num_sampled_edges": num_edges,
        "batch": {t: np.array([tree.number for tree in tree_of[t]], np.int64) for t in types}
        if is_disjoint
        else None,
    }
