"""Kinds of sampling on real graphs: no edge of the future in a million, LABOR's fewer nodes."""

from __future__ import annotations

import numpy as np
import pytest

import graphzero as gz


@pytest.fixture(scope="module")
def citations(real_data, tmp_path_factory):
    """(graph, time of each row of the edge list) of cit_hepph, both directions."""
    table = real_data / "cit_hepph" / "edges.csv"
    ds = gz.build(
        tmp_path_factory.mktemp("cit_hepph") / "data",
        edges=table,
        directed=False,
        edge_ids=True,
        order="hot",
        progress=False,
    )
    times = np.loadtxt(table, delimiter=",", skiprows=1, usecols=2, dtype=np.int64)
    with ds:
        yield ds.graph, times


@pytest.mark.parametrize("subgraph_type", ["directional", "induced"])
@pytest.mark.parametrize("strategy", ["uniform", "last"])
@pytest.mark.parametrize("strictly_before", [False, True])
def test_no_edge_of_the_future_in_a_million(citations, strategy, strictly_before, subgraph_type):
    graph, times = citations
    sampler = gz.NeighborSampler(
        graph,
        [10, 10],
        temporal_strategy=strategy,
        strictly_before=strictly_before,
        subgraph_type=subgraph_type,
        num_threads=1,
    )
    rng = np.random.default_rng(0)
    checked = at_the_time = number = 0
    while checked < 1_000_000:
        seeds = rng.integers(0, graph.num_nodes, 1024)
        seed_time = rng.choice(times, 1024)  # moments at which there are edges
        got = sampler.sample(seeds, seed_time=seed_time, batch=number)
        of_edge, of_tree = times[got.e_id], seed_time[got.batch[got.edge_index[1]]]
        assert (of_edge < of_tree).all() if strictly_before else (of_edge <= of_tree).all()
        np.testing.assert_array_equal(got.batch[got.edge_index[0]], got.batch[got.edge_index[1]])
        at_the_time += int((of_edge == of_tree).sum())
        checked, number = checked + of_edge.size, number + 1
    assert at_the_time == 0 if strictly_before else at_the_time > 1000


def test_labor_needs_fewer_nodes_for_its_edges(real_data, tmp_path):
    ds = gz.build(
        tmp_path / "data", edges=real_data / "soc_slashdot0902" / "edges.csv", progress=False
    )
    with ds:
        seeds = np.random.default_rng(0).permutation(ds.num_nodes)[:1024]
        plain, labor = (
            np.mean(
                [
                    gz.NeighborSampler(ds.graph, [10, 10, 10], labor=kind)
                    .sample(seeds, batch=number)
                    .n_id.shape[0]
                    for number in range(5)
                ]
            )
            for kind in (False, True)
        )
        assert labor < 0.85 * plain
