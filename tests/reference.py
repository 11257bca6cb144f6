"""Naive versions of what the compiled core does: slow, short, and written from the documentation.

Every loop visits one item at a time; nothing is shared with the package. Random draws follow the
rules of ``include/graphzero/rng.h``, so that results can be compared number by number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

# ---- random numbers

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
SAMPLE, WALK, SHUFFLE, NEGATIVE, PHASE = 1, 2, 3, 4, 5


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def stream(key, item):
    return mix(key ^ mix((item * 0xD1342543DE82EF95 + _GOLDEN) & _MASK))


def draw(stream_, i):
    return mix((stream_ + (i + 1) * _GOLDEN) & _MASK)


def bounded(value, bound):
    return (value * bound) >> 64


def unit(value):
    return (value >> 11) * 2.0**-53


def key(purpose, seed, epoch, batch):
    result = 0
    for item in (purpose, seed, epoch, batch):
        result = stream(result, item)
    return result


def permutation(count, key_):
    ids = list(range(count))
    for last in range(count - 1, 0, -1):
        other = bounded(draw(key_, last), last + 1)
        ids[last], ids[other] = ids[other], ids[last]
    return np.array(ids, dtype=np.int64)


# ---- adjacency


@dataclass
class Adjacency:
    """Lists of (neighbour, edge id, weight, time) per node, in stored ids."""

    rows: list
    node_ids: np.ndarray  # stored -> user
    node_rank: np.ndarray  # user -> stored
    incoming: bool = False  # lists have the sources of incoming edges

    @property
    def num_nodes(self):
        return len(self.rows)

    @property
    def indptr(self):
        return np.cumsum([0, *(len(row) for row in self.rows)])

    def column(self, at, dtype):
        return np.array([entry[at] for row in self.rows for entry in row], dtype=dtype)

    @property
    def sums(self):
        """Running sums of the weights of each list, entry by entry."""
        return [s for row in self.rows for s in _sums_and_weights([e[2] for e in row])[0]]

    @property
    def time_order(self):
        """Offsets within each list, the oldest edge first, equal times in list order."""
        return [
            i for row in self.rows for i in sorted(range(len(row)), key=lambda i: (row[i][3], i))
        ]

    @property
    def indices(self):
        return self.column(0, np.int64)


def adjacency(
    edges, num_nodes, *, directed=True, incoming=False, order="input", weights=None, times=None
):
    """Neighbour lists by one end of the edges, ascending, parallel edges in input order."""
    entries = []
    for i, ends in enumerate(np.asarray(edges, dtype=np.int64).reshape(-1, 2).tolist()):
        owner, neighbor = ends[::-1] if incoming else ends
        payload = (i, 0.0 if weights is None else weights[i], 0 if times is None else times[i])
        entries.append((owner, neighbor, *payload))
        if not directed and owner != neighbor:
            entries.append((neighbor, owner, *payload))
    node_ids = np.arange(num_nodes)
    if order == "hot":
        listed = np.zeros(num_nodes, dtype=np.int64)
        for entry in entries:
            listed[entry[1]] += 1
        node_ids = np.array(
            sorted(range(num_nodes), key=lambda node: (-listed[node], node)), dtype=np.int64
        )
    rank = np.empty(num_nodes, dtype=np.int64)
    for stored, user in enumerate(node_ids):
        rank[user] = stored
    rows = [[] for _ in range(num_nodes)]
    for owner, neighbor, *payload in entries:
        rows[rank[owner]].append((int(rank[neighbor]), *payload))
    for row in rows:
        row.sort(key=lambda entry: entry[0])  # stable
    return Adjacency(rows, node_ids, rank, incoming)


# ---- sampling


def draw_positions(stream_, degree, fanout, replace):
    """Positions in a list of `degree` entries that one node draws."""
    if fanout >= 0 and replace:
        return [bounded(draw(stream_, i), degree) for i in range(fanout)] if degree else []
    if fanout < 0 or degree <= fanout:
        return list(range(degree))
    picks = []
    if fanout <= 256:
        for i in range(fanout):
            last = degree - fanout + i
            pick = bounded(draw(stream_, i), last + 1)
            picks.append(last if pick in picks else pick)
        return picks
    for i in range(degree):
        if bounded(draw(stream_, i), degree - i) < fanout - len(picks):
            picks.append(i)
    return picks


def _find(sums, x):
    """The first entry whose running sum is above x."""
    return next(i for i, sum_ in enumerate(sums) if sum_ > x)


def _skip_picked(sums, weights, picks, x):
    """x on the line without the picked entries -> x on the whole line."""
    for pick in sorted(picks):
        if x < (sums[pick - 1] if pick else 0.0):
            break
        x += weights[pick]
    return x


def _cut_picks(stream_, sums, weights, fanout):
    picks, left = [], sums[-1]
    for i in range(fanout + 16):
        if len(picks) == fanout or left < 2.0**-20 * sums[-1]:
            break
        x = _skip_picked(sums, weights, picks, unit(draw(stream_, i)) * left)
        if x >= sums[-1] or _find(sums, x) in picks:
            continue
        picks.append(_find(sums, x))
        left -= weights[picks[-1]]
    return picks


def _sums_and_weights(row_weights):
    """Running sums of a list's weights, and the weights as the differences of the sums."""
    sums, sum_ = [], 0.0
    for weight in row_weights:
        sum_ += float(np.float32(weight))
        sums.append(sum_)
    return sums, [sum_ - before for sum_, before in zip(sums, [0.0, *sums], strict=False)]


def draw_weighted(stream_, row_weights, fanout, replace):
    """Positions in a list with these weights that one node draws."""
    sums, weights = _sums_and_weights(row_weights)
    drawable = [i for i, weight in enumerate(weights) if weight > 0]
    if fanout >= 0 and replace:
        if not drawable:
            return []
        return [_find(sums, unit(draw(stream_, i)) * sums[-1]) for i in range(fanout)]
    if fanout < 0 or len(drawable) < fanout or len(weights) == fanout == len(drawable):
        return drawable
    picks = _cut_picks(stream_, sums, weights, fanout) if fanout <= 256 else []
    keys = [
        (-math.log(1.0 - unit(draw(stream_, 2**32 + i))) / weights[i], i)
        for i in drawable
        if i not in picks
    ]
    return picks + [i for _, i in sorted(keys)[: fanout - len(picks)]]


def key_of(item, hop, dependency, numbers):
    """The key that an item draws from in one hop of the batch (seed, epoch, batch)."""
    seed, epoch, batch = numbers
    group, place = divmod(batch, dependency)
    phase = stream(key(PHASE, seed, epoch, 0), hop)
    if place + bounded(draw(phase, item), dependency) >= dependency:
        group += 1
    return stream(key(SAMPLE, seed, epoch, group), hop)


def is_until(time, until, strictly):
    return time < until if strictly else time <= until


def _draw_until(stream_, row, fanout, replace, until, last, strictly):
    """Positions in a list that one node of a tree with a time draws."""
    by_time = sorted(range(len(row)), key=lambda i: row[i][3])  # stable
    eligible = [i for i in by_time if is_until(row[i][3], until, strictly)]
    if last:
        return eligible[::-1][: len(eligible) if fanout < 0 else fanout]
    return [eligible[rank] for rank in draw_positions(stream_, len(eligible), fanout, replace)]


MOST_HOPS = 64


@dataclass
class Tree:
    """Which nodes of each type a seed's tree has, and its time; one for all unless disjoint."""

    number: int
    local: dict
    until: int | None = None


def _trees(num_seeds, types, disjoint, times):
    """The tree of each seed of all types in order; one for all unless they are disjoint."""

    def new(number):
        return Tree(number, {node_type: {} for node_type in types}, times and times[number])

    if not disjoint and times is None:
        return [new(0)] * num_seeds
    return [new(i) for i in range(num_seeds)]


def sample_types(
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
    subgraph_type="directional",
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
            return _draw_until(stream_, row, fanout, replace, tree.until, last, strictly_before)
        if weighted and edges.weights is not None:
            return draw_weighted(stream_, [entry[2] for entry in row], fanout, replace)
        if labor and 0 <= fanout < len(row):
            keys = [key_of(t, part, batch_dependency, numbers) for t, *_ in row]
            draws = [draw(key_, entry[0]) for key_, entry in zip(keys, row, strict=True)]
            return [i for i, r in enumerate(draws) if r * len(row) < fanout << 64]
        return draw_positions(stream_, len(row), fanout, replace)

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
    for edge_type in found if subgraph_type == "induced" else ():
        owner, other = graph.ends(edge_type)
        num_edges[edge_type] = None
        found[edge_type] = [
            (tree.local[other][neighbor], target, edge_id)
            for target, (node, tree) in enumerate(zip(nodes[owner], tree_of[owner], strict=True))
            for neighbor, edge_id, _, time in lists[edge_type][node]
            if neighbor in tree.local[other]
            and (times is None or is_until(time, tree.until, strictly_before))
        ]
    columns = {t: np.array(e, dtype=np.int64).reshape(-1, 3).T for t, e in found.items()}
    trees_of_nodes = {t: np.array([tree.number for tree in tree_of[t]], np.int64) for t in types}
    return {
        "stored_id": {t: np.array(nodes[t], np.int64) for t in types},
        "n_id": {t: graph.node_ids(t)[np.array(nodes[t], np.int64)] for t in types},
        "edge_index": {t: each[:2] for t, each in columns.items()},
        "e_id": {t: each[2] for t, each in columns.items()},
        "num_sampled_nodes": num_nodes,
        "num_sampled_edges": num_edges,
        "batch": trees_of_nodes if is_disjoint else None,
    }


class _OneType:
    """A graph without types as one of a node type and an edge type, with weights and times."""

    weights = times = ()

    def __init__(self, naive):
        self.num_nodes, self.edges = {"": naive.num_nodes}, {"": self}
        self.ends, self.naive = lambda _: ("", ""), lambda _: naive
        self.rank, self.node_ids = lambda _: naive.node_rank, lambda _: naive.node_ids


def sample(naive, seeds, fanouts, *, times=None, **options):
    """Dictionary of the arrays of a `Subgraph`."""
    times = None if times is None else {"": times}
    found = sample_types(_OneType(naive), {"": seeds}, {"": fanouts}, times=times, **options)
    return {name: value and value[""] for name, value in found.items()}


# ---- walks


def _step_weight(graph, previous, neighbor, p, q):
    if neighbor == previous:
        return 1 / p
    if any(entry[0] == neighbor for entry in graph.rows[previous]):
        return 1.0
    return 1 / q


def _pick(sums, value, weighted):
    """Entry of a list that one draw stands for."""
    return _find(sums, unit(value) * sums[-1]) if weighted else bounded(value, len(sums))


def _biased_step(graph, stream_, draws, previous, node, p, q, weighted):
    row = graph.rows[node]
    sums, weights = _sums_and_weights([entry[2] if weighted else 1.0 for entry in row])
    if not row or sums[-1] == 0:
        return -1, draws
    if len(row) == 1:
        return row[0][0], draws
    largest = max(1.0, 1 / p, 1 / q)
    for _ in range(64):
        neighbor = row[_pick(sums, draw(stream_, draws), weighted)][0]
        coin = unit(draw(stream_, draws + 1))
        draws += 2
        if coin < _step_weight(graph, previous, neighbor, p, q) / largest:
            return neighbor, draws
    weights = [
        weight * _step_weight(graph, previous, entry[0], p, q) / largest
        for entry, weight in zip(row, weights, strict=True)
    ]
    goal, sum_ = unit(draw(stream_, draws)) * sum(weights), 0.0
    chosen = -1
    for i, weight in enumerate(weights):
        if weight > 0 and sum_ <= goal:
            chosen = i
            sum_ += weight
    return row[chosen][0], draws + 1


def _first_order_step(graph, stream_, step, node, weighted, plain):
    row = graph.rows[node]
    sums, _ = _sums_and_weights([entry[2] if weighted else 1.0 for entry in row])
    if not row or sums[-1] == 0:
        return -1
    return row[_pick(sums, draw(stream_, step if plain else 2 * step + 1), weighted)][0]


def walk(graph, start, length, *, p=1.0, q=1.0, weighted=False, restart=0.0, seed=0):
    """Walks in the user's ids, (n, length + 1), -1 after a dead end."""
    walk_key = key(WALK, seed, 0, 0)
    first_order = p == q == 1.0
    plain = first_order and not weighted and restart == 0
    out = np.full((len(start), length + 1), -1, dtype=np.int64)
    for i, first in enumerate(start):
        stream_, draws, since = stream(walk_key, i), 0, 0
        previous = node = int(graph.node_rank[first])
        out[i, 0] = first
        for step in range(length):
            following = -1
            restarts = False
            if restart > 0:
                restarts = unit(draw(stream_, 2 * step if first_order else draws)) < restart
                draws += 1
            if not restarts and first_order:
                following = _first_order_step(graph, stream_, step, node, weighted, plain)
            elif not restarts:
                biases = (1.0, 1.0) if since == 0 else (p, q)
                following, draws = _biased_step(
                    graph, stream_, draws, previous, node, *biases, weighted
                )
            previous, node, since = node, following, since + 1
            if node < 0 and restart == 0:
                break
            if node < 0:
                node, since = int(graph.node_rank[first]), 0
            out[i, step + 1] = graph.node_ids[node]
    return out
