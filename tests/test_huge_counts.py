"""Fanouts, lengths and amounts whose sums and products overflow: an error that names them."""

from __future__ import annotations

import json
import subprocess
import sys

import files
import numpy as np
import pytest

import graphzero as gz

NODES = 3000  # more than one range of a parallel loop
SIZES = (2**31, 2**40, 2**62, 2**63 - 1)

# Every case runs where it cannot harm: in a process with little address space, which may crash.
SCRIPT = """
import json, resource, sys
import numpy as np
import graphzero as gz
from graphzero.loader.seed_batches import BatchRequest

graph = gz.Graph(sys.argv[1] + "/g.gl")
nodes, one = np.arange(graph.num_nodes), np.array([1])
times = np.full(graph.num_nodes, 1 << 40)
sampler = gz.NeighborSampler
if "gz.Link" in sys.argv[2]:
    ds = gz.Dataset(graph)
    edges = np.stack([nodes[:100], nodes[1:101]])
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), used + (2 << 30)))
for call in json.loads(sys.argv[2]):
    for size in json.loads(sys.argv[3]):
        try:
            eval(call)
            outcome = "nothing was raised", ""
        except Exception as error:
            outcome = type(error).__name__, str(error)
        print(json.dumps([call, size, *outcome]), flush=True)
"""
CALLS = {
    "fanout": [
        f"graph.sample_neighbors({seeds}, size, replace=True{kind}, num_threads={threads})"
        for seeds in ("nodes", "one")
        for kind in ("", ", weighted=True")
        for threads in (1, 2)
    ]
    + [
        f"sampler(graph, {fanouts}, replace=True{kind}, num_threads={threads}).sample({seeds})"
        for fanouts, seeds, threads in (("[size]", "nodes", 1), ("[size, size]", "nodes[:4]", 2))
        for kind in ("", ", weighted=True, disjoint=True", ", subgraph_type='induced'")
    ]
    + [
        f"sampler(graph, [2, size], replace=True{strictly}).sample(nodes, seed_time=times)"
        for strictly in ("", ", strictly_before=True")
    ],
    "length": [
        f"graph.random_walk({start}, size{kind}, num_threads={threads})"
        for start in ("nodes", "one", "nodes[:0]")
        for kind in ("", ", weighted=True", ", p=0.5", ", restart=0.1")
        for threads in (1, 2)
    ]
    + ["graph.batch_random_walk(nodes, size)", "graph.batch_random_walk(one, size)"],
    "K": ["graph.batch_random_fanout(nodes, size)", "graph.batch_random_fanout(one, size)"],
    "amount": [
        f"gz.LinkNeighborDataset(ds, edges, [2], neg_sampling={mode!r}, amount=size, {rest})"
        ".sample(BatchRequest(positions=np.arange(100), epoch=0, batch=0))"
        for mode in ("binary", "triplet")
        for rest in ("batch_size=100", "batch_size=size")
    ],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("huge")
    rng = np.random.default_rng(0)
    edges = rng.integers(0, NODES, (4 * NODES, 2))
    files.write_graph(
        path / "g.gl", edges, NODES, weights=np.ones(len(edges)), times=np.arange(len(edges))
    )
    return path


def outcomes_of(folder, calls, sizes):
    command = [sys.executable, "-c", SCRIPT, str(folder), json.dumps(calls), json.dumps(sizes)]
    # elsewhere than in the source tree, whose uncompiled package would be imported
    found = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, cwd=folder
    )
    assert found.returncode == 0, (found.returncode, found.stdout[-500:], found.stderr[-500:])
    outcomes = [json.loads(line) for line in found.stdout.splitlines()]
    assert len(outcomes) == len(calls) * len(sizes)
    return outcomes


@pytest.mark.parametrize("name", CALLS)
def test_what_cannot_be_counted_or_kept_is_an_error_that_names_it(folder, name):
    for call, size, kind, message in outcomes_of(folder, CALLS[name], SIZES):
        if "[:0]" in call and size < 2**62:
            continue  # an array without elements may be long
        assert kind == "MemoryError", (call, size, kind, message)
        assert name in message, message
        assert "smaller" in message or "fewer" in message, message


def test_what_does_not_fit_63_bits_is_an_error_that_says_so(folder):
    calls = [
        "graph.sample_neighbors(nodes, size, replace=True)",
        "graph.sample_neighbors(nodes, 2, num_threads=size)",
        "sampler(graph, [2, size])",
        "sampler(graph, [2], num_threads=size)",
        "sampler(graph, [2]).sample(nodes, epoch=size)",
        "sampler(graph, [2]).sample(nodes, batch=size)",
        "graph.random_walk(nodes, size)",
        "graph.batch_random_fanout(nodes, size)",
    ]
    for call, size, kind, message in outcomes_of(folder, calls, [2**63, 2**64 + 1, 2**200]):
        assert kind == "ValueError", (call, kind, message)
        assert f"not {size}" in message, message


@pytest.mark.parametrize("size", [2**31, 2**63 - 1])
@pytest.mark.parametrize("kind", [{}, {"weighted": True}])
def test_without_replacement_a_huge_fanout_is_all_neighbours(folder, kind, size):
    nodes = np.arange(NODES)
    with gz.Graph(folder / "g.gl") as graph:
        all_of_them = graph.sample_neighbors(nodes, -1, **kind)
        found = graph.sample_neighbors(nodes, size, **kind)
        np.testing.assert_array_equal(found.indices, all_of_them.indices)
        batch = gz.NeighborSampler(graph, [size, size], **kind).sample(nodes[:5])
        whole = gz.NeighborSampler(graph, [-1, -1], **kind).sample(nodes[:5])
        np.testing.assert_array_equal(batch.n_id, whole.n_id)
        if not kind:
            labor = gz.NeighborSampler(graph, [size], labor=True).sample(nodes[:5])
            assert labor.edge_index.shape[1] == all_of_them.indptr[5]


def test_nodes_without_neighbours_draw_nothing_however_large_the_fanout(tmp_path):
    files.write_graph(tmp_path / "g.gl", np.array([[0, 1]]), NODES)
    nodes = np.arange(1, NODES)
    with gz.Graph(tmp_path / "g.gl") as graph:
        assert graph.sample_neighbors(nodes, 2**62, replace=True).indices.size == 0
        batch = gz.NeighborSampler(graph, [2**62] * 2, replace=True).sample(nodes)
        assert batch.edge_index.shape == (2, 0)
