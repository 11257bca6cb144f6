"""Random PyG graphs through `from_data` and the loaders: batches of everything are the input."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch_geometric.data import Data, HeteroData  # noqa: E402

from graphzero.pyg import LinkNeighborLoader, NeighborLoader, from_data  # noqa: E402

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32]
DTYPES += [torch.int16, torch.uint8, torch.bool]
TYPES = [("a", "to", "b"), ("b", "back to", "a"), ("a", "to", "a"), ("a", "other", "a")]

# The C code that these loaders reach is sanitized by the tests of their open form.
pytestmark = pytest.mark.no_asan


def numbers(rng, count, dtype, row_shape):
    values = torch.from_numpy(rng.integers(0, 200, (count, *row_shape)))
    return (values % 2 == 0) if dtype == torch.bool else values.to(dtype)


attributes = st.dictionaries(
    st.sampled_from(["height", "kind", "patches", "level"]),
    st.tuples(st.sampled_from(DTYPES), st.sampled_from([(), (1,), (3,), (2, 2)])),
    max_size=3,
)
# What sampling could be driven by, in all dtypes that it could be confused by.
driving = st.fixed_dictionaries(
    {},
    optional={
        "edge_weight": st.tuples(st.sampled_from(DTYPES[:2] + DTYPES[4:6]), st.just(())),
        "edge_time": st.tuples(st.sampled_from([torch.int64, torch.float32]), st.just(())),
        "edge_attr": st.tuples(st.sampled_from(DTYPES), st.sampled_from([(), (2,)])),
    },
)
of_nodes = st.fixed_dictionaries(
    {},
    optional={
        "x": st.tuples(st.sampled_from(DTYPES[:4]), st.sampled_from([(3,), ()])),
        "y": st.tuples(st.sampled_from([torch.int64, torch.float32]), st.sampled_from([(), (2,)])),
        "time": st.tuples(st.just(torch.int64), st.just(())),
    },
)
seeds = st.integers(0, 2**32 - 1)


def fill(store, rng, count, names):
    for name, (dtype, row_shape) in names.items():
        store[name] = numbers(rng, count, dtype, row_shape)


def edges(rng, count, sources, targets):
    return torch.from_numpy(
        np.stack([rng.integers(0, sources, count), rng.integers(0, targets, count)])
    )


@st.composite
def data(draw):
    rng = np.random.default_rng(draw(seeds))
    nodes, count = draw(st.integers(1, 20)), draw(st.integers(0, 40))
    graph = Data(edge_index=edges(rng, count, nodes, nodes), num_nodes=nodes)
    fill(graph, rng, nodes, draw(of_nodes))
    if count != nodes:  # PyG takes what could be of both for one of the nodes
        fill(graph, rng, count, {f"edge_{k}": v for k, v in draw(attributes).items()})
        fill(graph, rng, count, draw(driving))
    if draw(st.booleans()):
        graph.train_mask = numbers(rng, nodes, torch.bool, ())
    return graph


@st.composite
def hetero(draw):
    rng = np.random.default_rng(draw(seeds))
    graph = HeteroData()
    for kind in ("a", "b"):
        nodes = draw(st.integers(1, 12))
        fill(graph[kind], rng, nodes, draw(of_nodes))
        fill(graph[kind], rng, nodes, draw(attributes))
        if draw(st.booleans()):
            graph[kind].train_mask = numbers(rng, nodes, torch.bool, ())
        graph[kind].num_nodes = nodes
    for kind in draw(st.lists(st.sampled_from(TYPES), min_size=1, unique=True)):
        count = draw(st.integers(0, 25))
        ends = [graph[kind[end]].num_nodes for end in (0, 2)]
        graph[kind].edge_index = edges(rng, count, *ends)
        fill(graph[kind], rng, count, draw(attributes))
        fill(graph[kind], rng, count, draw(driving))
    return graph


def check_rows(part, given, ids, count, chosen=()):
    """Every attribute of a part of a batch is that of its nodes or edges in the input."""
    for name in given.keys():  # noqa: SIM118 - PyG iterates over the values
        if name in ("edge_index", "num_nodes") or given[name].shape[:1] != (count,):
            continue
        expected = given[name][ids]
        assert torch.equal(part[name].to(expected.dtype), expected), name
        assert part[name].dtype == expected.dtype or name in chosen, name


def parts_of(graph):
    """(source type, target type, nodes, edges) of all edge types; of a Data, one without types."""
    if isinstance(graph, Data):
        return [(None, lambda batch: (batch, batch, batch))]
    return [
        (kind, lambda batch, kind=kind: (batch[kind[0]], batch[kind], batch[kind[2]]))
        for kind in graph.edge_types
    ]


def check_all(graph, stored, chosen=()):
    """All nodes as seeds and all their neighbours: every edge comes once, at its target."""
    kinds = [None] if isinstance(graph, Data) else graph.node_types
    seen = {kind: [] for kind, _ in parts_of(graph)}
    for node_type in kinds:
        loader = NeighborLoader(
            stored, num_neighbors=[-1], input_nodes=node_type, batch_size=5, shuffle=True, seed=1
        )
        for batch in loader:
            assert type(batch) is type(graph)
            for one in kinds:
                part, given = (batch, graph) if one is None else (batch[one], graph[one])
                check_rows(part, given, part.n_id, given.num_nodes)
            for kind, find in parts_of(graph):
                source, part, target = find(batch)
                given = graph if kind is None else graph[kind]
                ends = torch.stack(
                    [source.n_id[part.edge_index[0]], target.n_id[part.edge_index[1]]]
                )
                assert torch.equal(ends, given.edge_index[:, part.e_id])
                if kind is not None or given.num_edges != given.num_nodes:
                    check_rows(part, given, part.e_id, given.num_edges, chosen)
                seen[kind] += part.e_id.tolist()
    for kind, positions in seen.items():
        number = (graph if kind is None else graph[kind]).num_edges
        assert sorted(positions) == list(range(number)), kind


def check_whole(graph, stored, chosen=()):
    """What `from_data` returns answers with the input."""
    kinds = [None] if isinstance(graph, Data) else [*graph.node_types, *graph.edge_types]
    for kind in kinds:
        given, found = (graph, stored) if kind is None else (graph[kind], stored[kind])
        for name in given.keys():  # noqa: SIM118
            if name == "num_nodes":
                assert found.num_nodes == given.num_nodes
                continue
            whole = getattr(found, name)
            assert torch.equal(whole.to(given[name].dtype), given[name]), name
            assert whole.dtype == given[name].dtype or name in chosen, name


SLOW = settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@SLOW
@given(graph=st.one_of(data(), hetero()))
def test_every_edge_and_every_attribute_come_back(graph, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stored = from_data(graph, tmp_path / "store")
    with stored:
        check_whole(graph, stored)
        check_all(graph, stored)
        if isinstance(graph, HeteroData):
            assert stored.metadata() == graph.metadata()


@SLOW
@given(graph=hetero(), which=st.integers(0, 3), rng=seeds)
def test_seed_edges_and_their_negatives_are_of_their_type(graph, which, rng, tmp_path):
    kind = graph.edge_types[which % len(graph.edge_types)]
    given = graph[kind].edge_index
    with from_data(graph, tmp_path / "store") as stored:
        loader = LinkNeighborLoader(
            stored,
            num_neighbors=[2, 2],
            edge_label_index=(kind, given),
            edge_label=torch.arange(given.shape[1]),
            batch_size=4,
            seed=rng,
        )
        at = 0
        for batch in loader:
            pairs = batch[kind].edge_label_index
            ends = torch.stack([batch[kind[0]].n_id[pairs[0]], batch[kind[2]].n_id[pairs[1]]])
            assert torch.equal(ends, given[:, at : at + 4])
            assert batch[kind].edge_label.tolist() == list(range(at, at + ends.shape[1]))
            at += ends.shape[1]
            for one in graph.node_types:
                check_rows(batch[one], graph[one], batch[one].n_id, graph[one].num_nodes)
        assert at == given.shape[1]
