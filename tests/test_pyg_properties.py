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

from graphzero.pyg import NeighborLoader, from_data  # noqa: E402

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
DTYPES = [*FLOATS, torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool]
TYPES = [("a", "to", "b"), ("b", "back to", "a"), ("a", "to", "a"), ("a", "other", "a")]
# What batches have besides the attributes of the graph.
OF_BATCHES = {"n_id", "e_id", "input_id", "batch_size", "num_sampled_nodes", "num_sampled_edges"}

# The C code that these loaders reach is sanitized by the tests of their open form.
pytestmark = pytest.mark.no_asan


def numbers(rng, count, dtype, row_shape):
    values = torch.from_numpy(rng.integers(0, 200, (count, *row_shape)))
    return (values % 2 == 0) if dtype == torch.bool else values.to(dtype)


def some(**names):
    """Some of these attributes: each name with its dtypes and the shapes of its rows."""
    options = {name: st.tuples(*map(st.sampled_from, of)) for name, of in names.items()}
    return st.fixed_dictionaries({}, optional=options)


NUMBERS = (torch.int64, torch.float32)
any_of = (DTYPES, [(), (1,), (3,), (2, 2)])
attributes = some(height=any_of, kind=any_of, patches=any_of)
# What sampling could be driven by, in all dtypes that it could be confused by.
driving = some(
    edge_weight=([*NUMBERS, torch.float64, torch.int32], [()]),
    edge_time=(NUMBERS, [()]),
    edge_attr=(DTYPES, [(), (2,)]),
)
of_nodes = some(x=(FLOATS, [(3,), ()]), y=(NUMBERS, [(), (2,)]), time=([torch.int64], [()]))
seeds = st.integers(0, 2**32 - 1)


def fill(store, rng, count, names):
    for name, (dtype, row_shape) in names.items():
        store[name] = numbers(rng, count, dtype, row_shape)


def edges(rng, count, sources, targets):
    ends = [rng.integers(0, sources, count), rng.integers(0, targets, count)]
    return torch.from_numpy(np.stack(ends))


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
        fill(graph[kind], rng, nodes, {**draw(of_nodes), **draw(attributes)})
        if draw(st.booleans()):
            graph[kind].train_mask = numbers(rng, nodes, torch.bool, ())
        graph[kind].num_nodes = nodes
    for kind in draw(st.lists(st.sampled_from(TYPES), min_size=1, unique=True)):
        count = draw(st.integers(0, 25))
        ends = [graph[kind[end]].num_nodes for end in (0, 2)]
        graph[kind].edge_index = edges(rng, count, *ends)
        fill(graph[kind], rng, count, {**draw(attributes), **draw(driving)})
    return graph


def check_rows(part, given, ids, count):
    """Every attribute of a part of a batch is that of its nodes or edges in the input."""
    for name in given.keys():  # noqa: SIM118 - PyG iterates over the values
        if name in ("edge_index", "num_nodes") or given[name].shape[:1] != (count,):
            continue
        assert torch.equal(part[name], given[name][ids]), name
        assert part[name].dtype == given[name].dtype, name
    assert {*part.keys()} - OF_BATCHES <= {*given.keys(), "num_nodes"}


def check_all(graph, stored):
    """All nodes as seeds and all their neighbours: every edge comes once, at its target."""
    is_typed = isinstance(graph, HeteroData)
    seen = [[] for _ in graph.edge_stores]
    for kind in graph.node_types if is_typed else [None]:
        how = {"input_nodes": kind, "batch_size": 5, "shuffle": True, "seed": 1}
        for batch in NeighborLoader(stored, num_neighbors=[-1], **how):
            assert type(batch) is type(graph)
            for part, of in zip(batch.node_stores, graph.node_stores, strict=True):
                check_rows(part, of, part.n_id, of.num_nodes)
            for i, part in enumerate(batch.edge_stores):
                of, key = graph.edge_stores[i], part._key
                source, target = (batch[key[0]], batch[key[2]]) if is_typed else (batch, batch)
                rows = [source.n_id[part.edge_index[0]], target.n_id[part.edge_index[1]]]
                assert torch.equal(torch.stack(rows), of.edge_index[:, part.e_id])
                if is_typed or graph.num_edges != graph.num_nodes:
                    check_rows(part, of, part.e_id, of.num_edges)
                seen[i] += part.e_id.tolist()
    for positions, of in zip(seen, graph.edge_stores, strict=True):
        assert sorted(positions) == list(range(of.num_edges))


def check_whole(graph, stored):
    """What `from_data` returns answers with the input."""
    for of in graph.stores:
        found = stored if of._key is None else stored[of._key]
        for name in of.keys():  # noqa: SIM118
            if name == "num_nodes":
                assert found.num_nodes == of.num_nodes
            else:
                assert torch.equal(found[name], of[name]), name
                assert found[name].dtype == of[name].dtype, name


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
