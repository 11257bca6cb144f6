"""Mini-batches of one shape: what `pad=` adds changes nothing of what is real."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import ready_loaders

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

import torch.nn.functional as F  # noqa: E402
from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch_geometric import nn  # noqa: E402
from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.utils import trim_to_layer  # noqa: E402

import graphzero as gz  # noqa: E402
import graphzero.pyg  # noqa: E402

DIM, CLASSES = 5, 3
TYPES = [("a", "to", "b"), ("b", "back", "a"), ("a", "of", "a")]
SOME = settings(
    deadline=None,
    max_examples=8,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
numbers = st.integers(0, 2**32 - 1)


def edges(rng, count, sources, targets):
    ends = [rng.integers(0, sources, count), rng.integers(0, targets, count)]
    return torch.from_numpy(np.stack(ends))


def fill(store, rng, count):
    store.x = torch.from_numpy(rng.standard_normal((count, DIM)))
    store.y = torch.from_numpy(rng.integers(0, CLASSES, count))


def graph(rng, num_nodes=40, num_edges=200):
    data = Data(edge_index=edges(rng, num_edges, num_nodes, num_nodes))
    data.edge_attr = torch.from_numpy(rng.standard_normal((num_edges, 2)))
    fill(data, rng, num_nodes)
    return data


def typed_graph(rng, num_nodes=30, num_edges=120):
    data = HeteroData()
    for kind in ("a", "b"):
        fill(data[kind], rng, num_nodes)
    for kind in TYPES:
        data[kind].edge_index = edges(rng, num_edges, num_nodes, num_nodes)
    return data


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("padding") / "data"
    with graphzero.pyg.from_data(graph(np.random.default_rng(0), 400, 3000), folder) as ds:
        yield ds


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("padding") / "typed"
    with graphzero.pyg.from_data(typed_graph(np.random.default_rng(0), 200, 900), folder) as ds:
        yield ds


def pairs(ds, seeds=None, kind=gz.NeighborLoader, **options):
    """Mini-batches, without and with padding."""
    pad = options.pop("pad", "auto")
    plain = kind(ds, input_nodes=seeds, seed=3, shuffle=True, **options)
    padded = kind(ds, input_nodes=seeds, seed=3, shuffle=True, pad=pad, **options)
    return list(zip(plain, padded, strict=True))


def outcome(model, run, batch, count):
    """Outputs of so many seeds, and the gradients of all parameters."""
    model.zero_grad()
    scores, labels = run(model, batch)
    F.cross_entropy(scores[: batch.batch_size], labels[: batch.batch_size]).backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    return [scores[:count].detach(), *(grad.clone() for grad in grads)]


def check_same(model, run, plain, padded, dtype):
    bound, zero = (1e-9, 1e-6) if dtype == torch.float64 else (1e-5, 1e-3)
    one = outcome(model, run, plain, plain.batch_size)
    other = outcome(model, run, padded, plain.batch_size)
    assert len(one) == len(other) > 1
    for expected, value in zip(one, other, strict=True):
        # below `zero` it is none but for rounding, as that of attention to a single neighbour
        assert (value - expected).abs().max() <= bound * expected.abs().max().clamp(min=zero)


def run_plain(model, batch):
    return model(batch.x.to(model.dtype), batch.edge_index), batch.y


def run_trimmed(model, batch):
    counts = {
        "num_sampled_nodes_per_hop": batch.num_sampled_nodes,
        "num_sampled_edges_per_hop": batch.num_sampled_edges,
    }
    if isinstance(model, gz.GraphSAGE):
        counts = {name.removesuffix("_per_hop"): value for name, value in counts.items()}
    return model(batch.x.to(model.dtype), batch.edge_index, **counts), batch.y


MODELS = {
    "ours": lambda hops: gz.GraphSAGE(DIM, 8, CLASSES, hops, dropout=0.0),
    "GCN": lambda hops: nn.GCN(DIM, 8, hops, CLASSES),
    "GAT": lambda hops: nn.GAT(DIM, 8, hops, CLASSES, heads=2),
    "GIN": lambda hops: nn.GIN(DIM, 8, hops, CLASSES),
} | {
    f"SAGE {aggr}": lambda hops, aggr=aggr: nn.GraphSAGE(DIM, 8, hops, CLASSES, aggr=aggr)
    for aggr in ("mean", "max", "sum")
}


def model_of(make, dtype):
    torch.manual_seed(0)
    model = make().to(dtype)
    model.dtype = dtype
    return model


# --- what is added changes nothing


@SOME
@given(
    seed=numbers,
    num_nodes=st.integers(3, 60),
    num_edges=st.integers(1, 300),
    fanouts=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    batch_size=st.integers(1, 12),
    room=st.integers(1, 9),
)
def test_outputs_and_gradients_are_those_without_padding(
    tmp_path, seed, num_nodes, num_edges, fanouts, batch_size, room
):
    with graphzero.pyg.from_data(
        graph(np.random.default_rng(seed), num_nodes, num_edges), tmp_path / "store"
    ) as ds:
        options = {"num_neighbors": fanouts, "batch_size": batch_size}
        plain = list(gz.NeighborLoader(ds, seed=3, shuffle=True, **options))
        hops = [[b.num_sampled_nodes for b in plain], [b.num_sampled_edges for b in plain]]
        nodes, edge_counts = ([max(n) + room for n in zip(*h, strict=True)] for h in hops)
        nodes[0] = max(nodes[0], batch_size + 1)
        batches = pairs(ds, pad={"nodes": nodes, "edges": edge_counts}, **options)
        for name, make in MODELS.items():
            model = model_of(lambda make=make: make(len(fanouts)), torch.float64)
            for run in (run_plain, run_trimmed):
                for one, other in (batches[0], batches[-1]):
                    assert other.num_sampled_nodes == nodes, name
                    check_same(model, run, one, other, torch.float64)


@pytest.mark.parametrize("name", MODELS)
def test_outputs_in_float32_are_those_without_padding(stored, name):
    model = model_of(lambda: MODELS[name](2), torch.float32)
    for one, other in pairs(stored, num_neighbors=[5, 4], batch_size=48)[-3:]:
        for run in (run_plain, run_trimmed):
            check_same(model, run, one, other, torch.float32)


class TypedSAGE(torch.nn.Module):
    """Two layers for each edge type, trimmed."""

    dtype = torch.float64

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            nn.HeteroConv({kind: nn.SAGEConv((-1, -1), size) for kind in TYPES})
            for size in (8, CLASSES)
        )

    def forward(self, batch):
        x = {kind: rows.to(self.dtype) for kind, rows in batch.x_dict.items()}
        edge_index = batch.edge_index_dict
        for i, layer in enumerate(self.layers):
            x, edge_index, _ = trim_to_layer(
                i, batch.num_sampled_nodes_dict, batch.num_sampled_edges_dict, x, edge_index
            )
            x = {kind: rows.relu() for kind, rows in layer(x, edge_index).items()}
        return x["a"]


def run_typed(model, batch):
    return model(batch), batch["a"].y


def run_hetero(model, batch):
    x = {kind: rows.double() for kind, rows in batch.x_dict.items()}
    return model(x, batch.edge_index_dict)["a"], batch["a"].y


@SOME
@given(seed=numbers, fanouts=st.lists(st.integers(1, 4), min_size=2, max_size=2))
def test_a_typed_model_has_the_outputs_and_gradients_without_padding(tmp_path, seed, fanouts):
    with graphzero.pyg.from_data(typed_graph(np.random.default_rng(seed)), tmp_path / "s") as ds:
        batches = pairs(ds, "a", num_neighbors=fanouts, batch_size=7)
        sage = nn.GraphSAGE((-1, -1), 8, 2, CLASSES)
        hetero = nn.to_hetero(sage, ds.metadata()).double()
        for model, run in ((TypedSAGE().double(), run_typed), (hetero, run_hetero)):
            with torch.no_grad():
                run(model, batches[0][0])  # its parameters have their sizes then
            for one, other in (batches[0], batches[-1]):
                assert other["a"].real_nodes == one["a"].num_sampled_nodes
                check_same(model, run, one, other, torch.float64)


# --- what is added


def check_rows(one, other):
    """The rows of real nodes and edges are as they were; those of others change nothing."""
    edge_mask = torch.cat(
        [
            torch.arange(size) < real
            for size, real in zip(other.num_sampled_edges, other.real_edges, strict=True)
        ]
    )
    assert other.real_nodes == one.num_sampled_nodes
    assert other.real_edges == one.num_sampled_edges
    for names, mask in ((("n_id", "x", "y"), other.node_mask), (("e_id", "edge_attr"), edge_mask)):
        for name in names:
            added = {"n_id": one.n_id[0], "e_id": one.e_id[0], "y": -100}.get(name, 0)
            assert torch.equal(other[name][mask], one[name]), name
            assert (other[name][~mask] == added).all(), name
    return edge_mask


def ends_of(store, shift):
    """Of each node its local id without added ones, its hop, whether it is real; the shift."""
    mask = store.node_mask
    hops = torch.cat([torch.full((n,), h) for h, n in enumerate(store.num_sampled_nodes)])
    return mask.cumsum(0) - 1, hops, mask, shift


@pytest.mark.parametrize(
    "how",
    [
        {"prefetch": gz.Prefetch(strategy="willneed")},
        {"prefetch": gz.Prefetch(strategy="pread"), "num_workers": 2},
        {"device": "cpu"},
        {"device": "cpu", "device_cache": 0.3},
    ],
)
def test_added_nodes_and_edges_follow_the_real_ones_of_their_hop(stored, how):
    for one, other in pairs(stored, num_neighbors=[4, 3], batch_size=48, **how):
        real = check_rows(one, other)
        sources, targets = ends_of(other, 1), ends_of(other, 0)
        for row, (places, hops, mask, shift) in enumerate((sources, targets)):
            ends = other.edge_index[row]
            assert torch.equal(places[ends[real]], one.edge_index[row])
            hop = torch.cat([torch.full((n,), h) for h, n in enumerate(other.num_sampled_edges)])
            assert not mask[ends[~real]].any()
            assert torch.equal(hops[ends[~real]], hop[~real] + shift)
            for h in range(2):  # no added node has many more edges than another
                counts = ends[~real & (hop == h)].bincount()
                assert counts.max() <= counts[counts > 0].min() + 1
        assert (other.edge_index[1].diff() >= 0).all()


def test_the_last_mini_batch_has_as_many_seeds_where_labels_are_classes(stored):
    options = {"num_neighbors": [3], "batch_size": 48, "pad": "auto", "seed": 1}
    *_, last = gz.NeighborLoader(stored, **options)
    assert last.batch_size == 48
    assert len(last.input_id) == 400 % 48  # writing by it what was added is an error
    assert last.real_nodes[0] == 400 % 48 == last.stats.num_seeds
    assert (last.y[last.real_nodes[0] : 48] == -100).all()
    *_, last = gz.NeighborLoader(stored, gather=["x"], **options)
    assert last.batch_size == 400 % 48 == len(last.input_id)


# --- sizes


def test_auto_takes_sizes_from_the_first_mini_batches(stored):
    loader = gz.NeighborLoader(stored, [4, 3], batch_size=48, seed=2, shuffle=True, pad="auto")
    first, second, third = loader.sizes
    for size in (first, second, third):
        assert all(count % 64 == 0 for counts in size.values() for count in counts)
    for before, after in ((first, second), (second, third)):
        for name, counts in after.items():
            assert counts == [math.ceil(1.25 * n / 64) * 64 for n in before[name]]
    batches = list(loader)
    known = [(size["nodes"], size["edges"]) for size in loader.sizes]
    assert all((b.num_sampled_nodes, b.num_sampled_edges) in known for b in batches)
    ranks = gz.NeighborDataset(
        *(stored, None, [4, 3]),
        batch_size=48,
        seed=2,
        shuffle=True,
        pad="auto",
        rank=1,
        world_size=2,
    )
    assert ranks.sizes == loader.sizes  # a function of seed and options alone
    same = gz.NeighborLoader(stored, [4, 3], batch_size=48, seed=2, shuffle=True, pad=loader.sizes)
    assert ready_loaders.all_same(same, batches)


def test_a_larger_mini_batch_takes_the_next_size_or_comes_as_it_is(stored):
    plain = list(gz.NeighborLoader(stored, [4], batch_size=40, seed=2))
    nodes, counts = (
        [b.num_sampled_nodes[1] for b in plain],
        [b.num_sampled_edges[0] for b in plain],
    )
    middle, largest = sorted(nodes)[len(nodes) // 2], max(nodes)
    small = {"nodes": [41, middle], "edges": [max(counts)]}
    large = {"nodes": [41, largest], "edges": [max(counts)]}
    batches = list(gz.NeighborLoader(stored, [4], batch_size=40, seed=2, pad=[small, large]))
    for count, one, batch in zip(nodes, plain, batches, strict=True):
        if count == largest:
            assert ready_loaders.same(batch, one)
            assert batch.stats.oversized == 1
            assert batch.node_mask.all()
        else:
            assert batch.num_sampled_nodes[1] == (middle if count < middle else largest)
            assert batch.stats.oversized == 0


def test_a_pass_is_resumed_with_its_sizes(stored):
    options = {"batch_size": 48, "seed": 2, "shuffle": True, "pad": "auto"}
    loader = gz.NeighborLoader(stored, [4, 3], **options)
    batches = list(loader)
    loader.set_epoch(0)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    other = gz.NeighborLoader(stored, [4, 3], **options)
    other.load_state_dict(state)
    assert ready_loaders.all_same(other, batches[1:])
    unpadded = gz.NeighborLoader(stored, [4, 3], **{**options, "pad": None})
    with pytest.raises(ValueError, match="pad"):
        unpadded.load_state_dict(state)


def test_typed_sizes_are_those_of_the_types_that_seeds_reach(typed):
    loader = gz.NeighborLoader(typed, [3, 2], "a", batch_size=9, seed=1, pad="auto")
    size = loader.sizes[0]
    assert [n > 0 for n in size["nodes"]["b"]] == [False, True, True]
    assert [n > 0 for n in size["edges"]["a", "to", "b"]] == [False, True]
    again = gz.NeighborLoader(typed, [3, 2], "a", batch_size=9, seed=1, pad=size)
    assert again.sizes == [size]
    sizes = copy.deepcopy(size)
    sizes["edges"]["a", "to", "b"][0] = 5
    with pytest.raises(ValueError, match=r"must be 0 in hop 0"):
        gz.NeighborLoader(typed, [3, 2], "a", batch_size=9, pad=sizes)


SIZES = {"nodes": [9, 20, 40], "edges": [20, 40]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pad": "most"}, "pad must be"),
        ({"pad": {"nodes": [9, 20, 40]}}, "pad must be"),
        ({"pad": {**SIZES, "nodes": [9, 20]}}, "must be 3 sizes, one for each hop"),
        ({"pad": {**SIZES, "edges": [20, 0]}}, "must be at least 1 in hop 1"),
        ({"pad": {**SIZES, "nodes": [9, -1, 4]}}, "at least 0"),
        ({"pad": {**SIZES, "nodes": [8, 20, 40]}}, "above the batch size, 8"),
        ({"pad": SIZES, "disjoint": True}, "pad excludes disjoint"),
        ({"pad": SIZES, "subgraph_type": "induced"}, "pad excludes subgraph_type='induced'"),
    ],
)
def test_what_cannot_be_filled_up_is_refused(stored, options, message):
    with pytest.raises(ValueError, match=message):
        gz.NeighborLoader(stored, [3, 2], batch_size=8, **options)


# --- other loaders


def test_links_have_their_seeds_in_padded_mini_batches(stored):
    options = {"neg_sampling": "binary", "batch_size": 30, "seed": 4}
    plain = gz.LinkNeighborLoader(stored, [3, 2], **options)
    padded = gz.LinkNeighborLoader(stored, [3, 2], pad="auto", **options)
    for one, other in zip(plain, padded, strict=True):
        assert one.n_id[one.edge_label_index].equal(other.n_id[other.edge_label_index])
        assert one.edge_label.equal(other.edge_label)
        assert other.real_nodes == one.num_sampled_nodes
    with pytest.raises(ValueError, match="pad excludes exclude_seed_edges"):
        gz.LinkNeighborLoader(stored, [3, 2], pad="auto", exclude_seed_edges=True, **options)


def test_loaders_of_pyg_have_masks_of_real_nodes(tmp_path):
    data = graph(np.random.default_rng(1))
    data.train_mask = torch.ones(40, dtype=torch.bool)
    with graphzero.pyg.from_data(data, tmp_path / "data") as ds:
        options = {"num_neighbors": [3], "batch_size": 16, "seed": 1}
        for batch in graphzero.pyg.NeighborLoader(ds, pad="auto", **options):
            assert isinstance(batch, Data)
            assert batch.node_mask.sum() == sum(batch.real_nodes)
            assert torch.equal(batch.train_mask, batch.node_mask)


def test_one_mini_batch_is_padded_as_those_of_a_pass(stored):
    loader = gz.NeighborLoader(stored, [4, 3], batch_size=48, seed=2, pad="auto")
    batch = loader(np.arange(48))
    assert batch.num_sampled_nodes == loader.sizes[0]["nodes"]
    assert not batch.x[~batch.node_mask].any()
    assert (batch.y[~batch.node_mask] == -100).all()
