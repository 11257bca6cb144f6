"""The naive twins of the draws of negatives."""

from __future__ import annotations

import numpy as np
import reference


def _allowed(graph, source, positive):
    if graph.incoming:
        targets = {v for v, row in enumerate(graph.rows) if any(e[0] == source for e in row)}
    else:
        targets = {entry[0] for entry in graph.rows[source]}
    taken = targets | {source, positive}
    return [node for node in range(graph.num_nodes) if node not in taken]


def destinations(graph, sources, positives, amount, *, seed=0, epoch=0, batch=0):
    """Destinations in the user's ids for each source in turn."""
    key_, out = reference.key(reference.NEGATIVE, seed, epoch, batch), []
    for i in range(len(sources) * amount):
        stream_ = reference.stream(key_, i)
        allowed = _allowed(
            graph, graph.node_rank[sources[i // amount]], graph.node_rank[positives[i // amount]]
        )
        for t in range(64):
            node = reference.bounded(reference.draw(stream_, t), graph.num_nodes)
            if node in allowed:
                break
        else:
            node = allowed[reference.bounded(reference.draw(stream_, 64), len(allowed))]
        out.append(graph.node_ids[node])
    return np.array(out, dtype=np.int64)


def pairs(graph, count, *, seed=0, epoch=0, batch=0):
    """Pairs in the user's ids, (2, count)."""
    key_, out = reference.key(reference.NEGATIVE, seed, epoch, batch), []
    listed = [{entry[0] for entry in row} for row in graph.rows]
    nodes = range(graph.num_nodes)
    every = [(u, v) for u in nodes for v in nodes if v != u and v not in listed[u]]
    for i in range(count):
        stream_ = reference.stream(key_, i)
        for t in range(64):
            pair = tuple(
                reference.bounded(reference.draw(stream_, 2 * t + end), graph.num_nodes)
                for end in (0, 1)
            )
            if pair in every:
                break
        else:
            pair = every[reference.bounded(reference.draw(stream_, 128), len(every))]
        # The list of the first is read: that of the target, where lists have sources.
        out.append(graph.node_ids[list(pair[::-1] if graph.incoming else pair)])
    return np.array(out, dtype=np.int64).reshape(-1, 2).T
