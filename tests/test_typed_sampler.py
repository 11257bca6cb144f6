"""`TypedNeighborSampler`: against the naive sampler, and by the properties that define it."""

from __future__ import annotations

import numpy as np
import pytest
import typed_reference
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kinds import KINDS, options_of
from typed_graphs import Edges, TypedGraph

from graphzero.sampling.typed_sampler import TypedNeighborSampler

TYPED_KINDS = [name for name in KINDS if KINDS[name].get("subgraph_type") != "induced"]
FIXTURE = [HealthCheck.function_scoped_fixture]
FANOUT = st.one_of(st.just(-1), st.just(0), st.integers(1, 6))


@st.composite
def typed_graphs(draw):
    types = "abc"[: draw(st.integers(1, 3))]
    num_nodes = {t: draw(st.integers(1, 12)) for t in types}
    some = st.sampled_from(types)
    edge_types = draw(
        st.lists(st.tuples(some, st.sampled_from("rs"), some), min_size=1, max_size=5, unique=True)
    )
    edges = {}
    for edge_type in edge_types:
        source, _, target = edge_type
        pair = st.tuples(
            st.integers(0, num_nodes[source] - 1), st.integers(0, num_nodes[target] - 1)
        )
        ends = draw(st.lists(pair, max_size=40))
        weight, time = st.sampled_from([0.0, 0.5, 1.0, 3.0]), st.integers(-3, 3)
        edges[edge_type] = Edges(
            np.array(ends, dtype=np.int64).reshape(-1, 2),
            [draw(weight) for _ in ends] if draw(st.booleans()) else None,
            [draw(time) for _ in ends] if draw(st.booleans()) else None,
            draw(st.booleans()),
        )
    ranks = {t: np.array(draw(st.permutations(range(n)))) for t, n in num_nodes.items()}
    return TypedGraph(num_nodes, edges, ranks)


@st.composite
def cases(draw):
    graph = draw(typed_graphs())
    seeds, times = {}, {}
    for t in draw(st.lists(st.sampled_from(list(graph.num_nodes)), unique=True)):
        seeds[t] = draw(st.lists(st.integers(0, graph.num_nodes[t] - 1), max_size=6))
        times[t] = [draw(st.integers(-3, 3)) for _ in seeds[t]]
    hops = draw(st.integers(1, 3))
    return {
        "graph": graph,
        "seeds": seeds,
        "times": times,
        "fanouts": {t: [draw(FANOUT) for _ in range(hops)] for t in graph.edges},
        "numbers": dict(
            zip(
                ("seed", "epoch", "batch"),
                (draw(st.integers(0, 2**40)) for _ in "123"),
                strict=True,
            )
        ),
    }


def assert_equal(got, expected):
    for name, value in expected.items():
        actual = getattr(got, name)
        if not isinstance(value, dict):
            assert actual == value, name
            continue
        assert list(actual) == list(value), name
        for key, each in value.items():
            np.testing.assert_array_equal(actual[key], each, err_msg=f"{name}[{key}]")


@pytest.mark.parametrize("kind", TYPED_KINDS)
@given(case=cases())
@settings(max_examples=60, deadline=None, suppress_health_check=FIXTURE)
def test_every_kind_equals_the_naive_one(tmp_path_factory, kind, case):
    options, timed = options_of(kind)
    graph = case["graph"]
    needed = "times" if timed else "weights" if options.get("weighted") else None
    if needed and all(getattr(edges, needed) is None for edges in graph.edges.values()):
        return  # refused: see test_typed_refusals
    lists = graph.write(tmp_path_factory.mktemp("typed"))
    times = case["times"] if timed else None
    numbers = dict(case["numbers"])
    sampler = TypedNeighborSampler(
        lists, case["fanouts"], seed=numbers["seed"], num_threads=1, **options
    )
    got = sampler.sample(
        case["seeds"], seed_time=times, epoch=numbers["epoch"], batch=numbers["batch"]
    )
    expected = typed_reference.sample(
        graph, case["seeds"], case["fanouts"], times=times, **numbers, **options
    )
    assert_equal(got, expected)
