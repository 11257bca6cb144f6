"""Typed sampling refuses by name what it cannot do; files of edge types are no graphs."""

from __future__ import annotations

import pickle

import files
import numpy as np
import pytest
from typed_graphs import Edges, TypedGraph, write_typed

import graphzero as gz
from graphzero.graph.graph import EdgeTypeGraph
from graphzero.sampling.sampler import NeighborSampler

RATES, BY = ("user", "rates", "film"), ("film", "by", "user")
USERS, FILMS = 3, 5
TIMES = [1, 2, 3, 4]


def a_graph(weights=None, times=None):
    rates = np.array([[0, 0], [0, 4], [1, 4], [2, 2]])
    by = np.array([[4, 1], [4, 2], [0, 2]])
    edges = {RATES: Edges(rates, weights, times, incoming=False), BY: Edges(by, incoming=False)}
    return TypedGraph({"user": USERS, "film": FILMS}, edges)


@pytest.fixture
def opened():
    """Writes a graph, and closes its files in the end."""
    found = []

    def write(folder, *payload):
        found.append(a_graph(*payload).write(folder))
        return found[-1]

    yield write
    for lists in found:
        lists.close()


@pytest.fixture
def plain(opened, tmp_path):
    return opened(tmp_path)


# ---- the sampler


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weighted": True}, "weighted=True needs weights, and no edge type has them: .*'rates'"),
        ({"subgraph_type": "induced"}, "subgraph_type='induced' is available for graphs without"),
    ],
)
def test_options_without_a_meaning(plain, options, message):
    with pytest.raises(ValueError, match=message):
        NeighborSampler(plain, [2], **options)


@pytest.mark.parametrize(
    ("times", "call", "error", "message"),
    [
        (None, {"seeds": [0]}, ValueError, r"of a typed graph must be a dict.*'user': \[0, 1\]"),
        (None, {"seeds": {"users": [0]}}, ValueError, r"'users', but the node types are \['user'"),
        (None, {"seeds": {"user": [USERS]}}, IndexError, r"seeds\['user'\]\[0\] = 3 is out of ra"),
        (None, {"seeds": {"film": [0.5]}}, ValueError, r"seeds\['film'\] must be integers"),
        (None, {"seed_time": {"user": [1]}}, ValueError, "timestamps, and no edge type has them"),
        (TIMES, {"seed_time": {"user": [1, 2]}}, ValueError, r"a time for each of the 1 seeds"),
        (TIMES, {"seed_time": {"film": [1]}}, ValueError, r"\['user'\], not \['film'\]"),
        (TIMES, {"seed_time": {}}, ValueError, "seed_time must have the node types of seeds"),
    ],
)
def test_calls_without_a_meaning(opened, tmp_path, times, call, error, message):
    sampler = NeighborSampler(opened(tmp_path, None, times), [2])
    with pytest.raises(error, match=message):
        sampler.sample(**{"seeds": {"user": [0]}, **call})


@pytest.mark.parametrize(
    ("payload", "section", "options", "call", "message"),
    [
        ([[1.0] * 4], "cum_weights", {"weighted": True}, {}, "no weights to draw by"),
        ([None, [1] * 4], "time_order", {}, {"seed_time": {"user": [1]}}, "without their order"),
    ],
)
def test_silent_uniform_draws_would_be_a_wrong_model(
    opened, tmp_path, payload, section, options, call, message
):
    """Where weights lack their sums, and times their order."""
    lists = opened(tmp_path, *payload)
    lists.edges[RATES].graph.close()
    write_typed(tmp_path / "0.gl", a_graph(*payload).naive(RATES), FILMS, {section})
    vars(lists.edges[RATES])["graph"] = EdgeTypeGraph(tmp_path / "0.gl")
    with pytest.raises(ValueError, match=message):
        NeighborSampler(lists, [2], **options).sample({"user": [0]}, **call)


# ---- corrupt files


@pytest.mark.parametrize(
    ("section", "at", "value"), [("indices", 2, FILMS), ("indptr", 1, 2**32 - 1)]
)
def test_the_edge_type_of_a_corrupt_file_is_named(plain, section, at, value):
    sampler = NeighborSampler(plain, [-1, -1])
    files.damage(plain.edges[RATES].graph.path, section, at, value)
    with pytest.raises(gz.FormatError, match=r"edge type \('user', 'rates', 'film'\): .*0\.gl is"):
        sampler.sample({"user": [0, 1, 2]})
    sampler.sample({"film": [1]})  # reads nothing of it
    # The bound of `by` is the users', of whom there are fewer than lists.
    files.damage(plain.edges[BY].graph.path, "indices", 1, USERS)
    with pytest.raises(gz.FormatError, match=r"edge type \('film', 'by', 'user'\): .* 1 entries"):
        NeighborSampler(plain, [-1]).sample({"film": [4]})


def test_a_batch_without_memory_says_which_fanouts(plain):
    sampler = NeighborSampler(plain, {"default": [2**62]}, replace=True)
    with pytest.raises(MemoryError, match=r"no memory for fanouts=.*4611686018427387904.* 2 seeds"):
        sampler.sample({"user": [0, 1]})


def test_files_are_held_while_they_are_sampled_and_then_let_go(plain):
    sampler = NeighborSampler(plain, [1])
    sampler.sample({"user": [0, 1]})
    first, second = [edges.graph for edges in plain.edges.values()]
    second.close()
    with pytest.raises(ValueError, match="closed"):
        sampler.sample({"user": [0, 1]})
    first.close()  # not held after the error


# ---- the files


def test_an_edge_type_is_no_graph_and_a_graph_no_edge_type(plain, tmp_path):
    with pytest.raises(gz.FormatError, match=r"0\.gl is an edge type.*graphzero\.open"):
        gz.Graph(plain.edges[RATES].graph.path)
    files.write_graph(tmp_path / "g.gl", [[0, 1]], 2, order="hot")
    with pytest.raises(gz.FormatError, match="is no edge type of a typed graph"):
        EdgeTypeGraph(tmp_path / "g.gl")


def test_what_follows_neighbours_as_nodes_is_refused(plain):
    """These would read beyond the lists: film 4 has none among the 3 lists of the users."""
    graph, some = plain.edges[RATES].graph, np.array([0])
    offsets = np.empty(0, np.int64)
    for call in (
        lambda: graph.random_walk([0], 3),
        lambda: graph.random_walk([0], 3, p=0.5),
        lambda: graph._csr.negative_counts(some, some, 1),
        lambda: graph._csr.negative_destinations(some, some, 1, 0),
        lambda: graph._csr.negative_pairs(1, offsets, 0),
        lambda: gz.NeighborSampler(graph, [2]).sample([0]),
    ):
        with pytest.raises(ValueError, match="is an edge type of a typed graph"):
            call()


def test_an_edge_type_is_pickled_by_its_path(plain):
    again = pickle.loads(pickle.dumps(plain.edges[RATES].graph))
    assert again.num_neighbors == FILMS
    assert again.neighbors(1).tolist() == [4]
