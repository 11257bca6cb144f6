"""`NeighborSampler`: against the naive sampler, and by the properties that define it."""

from __future__ import annotations

import pickle
import threading

import files
import numpy as np
import pytest
import reference
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphzero as gz

FANOUT = st.one_of(st.just(-1), st.integers(1, 6))


@st.composite
def cases(draw):
    num_nodes = draw(st.integers(1, 25))
    node = st.integers(0, num_nodes - 1)
    return {
        "num_nodes": num_nodes,
        "edges": np.array(
            draw(st.lists(st.tuples(node, node), max_size=80)), dtype=np.int64
        ).reshape(-1, 2),
        "seeds": np.array(draw(st.lists(node, max_size=12)), dtype=np.int64),
        "fanouts": draw(st.lists(FANOUT, min_size=1, max_size=3)),
        "replace": draw(st.booleans()),
        "directed": draw(st.booleans()),
        "order": draw(st.sampled_from(["input", "hot"])),
        "numbers": [draw(st.integers(0, 2**40)) for _ in range(3)],
    }


def check_properties(case, batch):
    """What must hold whatever is drawn."""
    edges, fanouts, seeds = case["edges"], case["fanouts"], case["seeds"]
    sources, targets = batch.n_id[batch.edge_index]
    rows = edges[batch.e_id]
    forwards = (rows == np.stack([targets, sources], axis=1)).all(axis=1)
    backwards = (rows == np.stack([sources, targets], axis=1)).all(axis=1)
    assert (forwards if case["directed"] else forwards | backwards).all()
    assert batch.n_id[: batch.batch_size].tolist() == seeds.tolist()
    beyond = batch.n_id[batch.batch_size :].tolist()
    assert len(beyond) == len(set(beyond))
    assert not set(beyond) & set(seeds.tolist())
    assert sum(batch.num_sampled_nodes) == len(batch.n_id)
    assert sum(batch.num_sampled_edges) == batch.edge_index.shape[1]

    degrees = np.array([len(row) for row in case["naive"].rows], dtype=np.int64)
    degrees = degrees[case["naive"].node_rank]
    begin_node = begin_edge = 0
    for fanout, num_nodes, num_edges in zip(
        fanouts, batch.num_sampled_nodes, batch.num_sampled_edges, strict=False
    ):
        expanded = batch.n_id[begin_node : begin_node + num_nodes]
        got = np.bincount(
            batch.edge_index[1, begin_edge : begin_edge + num_edges] - begin_node,
            minlength=num_nodes,
        )
        degree = degrees[expanded]
        if fanout < 0:
            expected = degree
        elif case["replace"]:
            expected = np.where(degree > 0, fanout, 0)
        else:
            expected = np.minimum(degree, fanout)
        assert got[:num_nodes].tolist() == expected.tolist()
        begin_node, begin_edge = begin_node + num_nodes, begin_edge + num_edges
    if not case["replace"]:
        pairs = list(zip(batch.edge_index[1].tolist(), batch.e_id.tolist(), strict=True))
        assert len(pairs) == len(set(pairs))


@given(case=cases())
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_batches_equal_the_naive_ones(tmp_path_factory, case):
    path = tmp_path_factory.mktemp("hypothesis") / "g.gl"
    case["naive"] = files.write_graph(
        path, case["edges"], case["num_nodes"], directed=case["directed"], order=case["order"]
    )
    seed, epoch, batch_id = case["numbers"]
    sampler = gz.NeighborSampler(
        gz.Graph(path), case["fanouts"], replace=case["replace"], seed=seed
    )
    batch = sampler.sample(case["seeds"], epoch=epoch, batch=batch_id)
    expected = reference.sample(
        case["naive"],
        case["seeds"],
        case["fanouts"],
        replace=case["replace"],
        seed=seed,
        epoch=epoch,
        batch=batch_id,
    )
    for name, value in expected.items():
        np.testing.assert_array_equal(getattr(batch, name), value, err_msg=name)
    check_properties(case, batch)
    path.unlink()


def test_larger_batches_equal_the_naive_ones(small):
    graph, naive, _ = small
    seeds = np.random.default_rng(0).permutation(300)[:64]
    batch = gz.NeighborSampler(graph, [15, 10, 5], seed=11).sample(seeds, epoch=2, batch=3)
    expected = reference.sample(naive, seeds, [15, 10, 5], seed=11, epoch=2, batch=3)
    for name, value in expected.items():
        np.testing.assert_array_equal(getattr(batch, name), value, err_msg=name)


@pytest.mark.parametrize("num_threads", [2, 4])
@pytest.mark.parametrize("replace", [False, True])
def test_threads_do_not_change_a_byte(tmp_path, num_threads, replace, order):
    files.write_graph(tmp_path / "g.gl", files.random_edges(20_000, 100_000), 20_000, order=order)
    graph = gz.Graph(tmp_path / "g.gl")
    seeds = np.random.default_rng(0).permutation(20_000)[:3000]
    one, many = (
        gz.NeighborSampler(graph, [10, 5], replace=replace, num_threads=n).sample(seeds)
        for n in (1, num_threads)
    )
    for name in ("n_id", "edge_index", "e_id", "stored_id"):
        assert getattr(one, name).tobytes() == getattr(many, name).tobytes()


def test_repeated_seeds_each_get_their_neighbourhood(tmp_path):
    files.write_graph(tmp_path / "g.gl", [[0, 1], [1, 2], [1, 3]], 4)
    batch = gz.NeighborSampler(gz.Graph(tmp_path / "g.gl"), [-1]).sample([1, 0, 1])
    assert batch.n_id.tolist() == [1, 0, 1, 2, 3]
    assert batch.edge_index.tolist() == [[3, 4, 0, 3, 4], [0, 0, 1, 2, 2]]
    assert batch.batch_size == 3


def test_draws_differ_between_batches_epochs_and_hops(small):
    graph, _, _ = small
    sampler = gz.NeighborSampler(graph, [2])
    seeds = np.arange(300)
    drawn = {
        sampler.sample(seeds, epoch=epoch, batch=batch).e_id.tobytes()
        for epoch in range(3)
        for batch in range(3)
    }
    assert len(drawn) == 9


def test_one_sampler_serves_many_threads(small):
    graph, _, _ = small
    sampler = gz.NeighborSampler(graph, [5, 5], num_threads=1)
    seeds = np.arange(100)
    expected = [sampler.sample(seeds, batch=i).n_id for i in range(20)]
    results: dict[int, np.ndarray] = {}

    def run(first):
        for i in range(first, 20, 4):
            results[i] = sampler.sample(seeds, batch=i).n_id

    threads = [threading.Thread(target=run, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(20):
        np.testing.assert_array_equal(results[i], expected[i])


def test_samplers_are_pickled_with_their_graph(small):
    graph, _, _ = small
    sampler = gz.NeighborSampler(graph, [5, 5], seed=3)
    sampler.sample([1])
    copy = pickle.loads(pickle.dumps(sampler))
    np.testing.assert_array_equal(copy.sample([1, 2]).n_id, sampler.sample([1, 2]).n_id)


def test_files_without_edge_ids_have_none(tmp_path):
    files.write_graph(tmp_path / "g.gl", [[0, 1]], 2, edge_ids=False)
    graph = gz.Graph(tmp_path / "g.gl")
    assert not graph.has_edge_ids
    assert gz.NeighborSampler(graph, [1]).sample([0]).e_id is None


def test_bad_sampler_options_are_named(small):
    graph, _, _ = small
    with pytest.raises(ValueError, match="at least one hop"):
        gz.NeighborSampler(graph, [])
    sampler = gz.NeighborSampler(graph, [2])
    with pytest.raises(ValueError, match="epoch must be at least 0"):
        sampler.sample([0], epoch=-1)
