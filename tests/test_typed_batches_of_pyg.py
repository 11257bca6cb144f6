"""Batches of a typed graph with all neighbours, beside those of PyG's loaders on a HeteroData."""

from __future__ import annotations

import numpy as np
import pytest

import graphzero as gz

torch = pytest.importorskip("torch")
pyg = pytest.importorskip("torch_geometric")

from torch_geometric import loader as pyg_loader  # noqa: E402

PAPERS, AUTHORS = 50, 30
WRITES, WRITTEN, CITES = (
    ("author", "writes", "paper"),
    ("paper", "written_by", "author"),
    ("paper", "cites", "paper"),
)
# What PyG's batches have only with pyg-lib, and what it sets to None.
NOT_IN_TORCH_SPARSE = {"num_sampled_nodes", "num_sampled_edges", "batch"}

# The C code that these loaders reach is sanitized by the tests of their open form.
pytestmark = pytest.mark.no_asan


def inputs():
    rng = np.random.default_rng(1)
    writes = np.stack([rng.integers(0, AUTHORS, 120), rng.integers(0, PAPERS, 120)])
    cites = rng.integers(0, PAPERS, (2, 150))
    nodes = {
        "paper": {
            "x": rng.standard_normal((PAPERS, 3)).astype(np.float32),
            "y": rng.integers(0, 4, PAPERS),
            "year": rng.integers(0, 20, PAPERS),
        },
        "author": {"x": rng.standard_normal((AUTHORS, 2)).astype(np.float32)},
    }
    edges = {
        WRITES: {"edge_index": writes, "edge_attr": rng.random((120, 2), np.float32)},
        WRITTEN: {"edge_index": writes[::-1].copy()},
        CITES: {"edge_index": cites, "edge_weight": rng.random(150, np.float32)},
    }
    return nodes, edges


def hetero_data():
    data = pyg.data.HeteroData()
    for part in inputs():
        for key, attributes in part.items():
            for name, value in attributes.items():
                data[key][name] = torch.from_numpy(value)
    return data


@pytest.fixture(scope="module", params=["input", "hot"])
def ds(request, tmp_path_factory):
    nodes, edges = inputs()
    path = tmp_path_factory.mktemp("pyg") / "d"
    with gz.build(path, nodes=nodes, edges=edges, order=request.param, edge_ids=True) as dataset:
        yield dataset


needs_sampler = pytest.mark.skipif(
    not (pyg.typing.WITH_PYG_LIB or pyg.typing.WITH_TORCH_SPARSE),
    reason="PyG's loaders need pyg-lib or torch-sparse",
)


def edges_of(batch, kind):
    """The edges in global ids, with their positions in the edge list."""
    store = batch[kind]
    ends = batch[kind[0]].n_id[store.edge_index[0]], batch[kind[2]].n_id[store.edge_index[1]]
    return sorted(zip(*(each.tolist() for each in (*ends, store.e_id)), strict=True))


def check_same(ours, theirs, seeds=()):
    """The same nodes, edges and attributes, whatever the order of those that were sampled."""
    for kind in theirs.node_types:
        one, other = ours[kind], theirs[kind]
        assert sorted(one.n_id.tolist()) == sorted(other.n_id.tolist())
        ranks = [each.n_id.argsort() for each in (one, other)]
        for name in inputs()[0][kind]:
            assert one[name].dtype == other[name].dtype
            assert torch.equal(one[name][ranks[0]], other[name][ranks[1]])
        check_names(one, other)
    for kind in theirs.edge_types:
        assert edges_of(ours, kind) == edges_of(theirs, kind)
        one, other = ours[kind], theirs[kind]
        ranks = [each.e_id.argsort() for each in (one, other)]
        for name in set(inputs()[1][kind]) - {"edge_index"}:
            assert torch.equal(one[name][ranks[0]], other[name][ranks[1]])
        check_names(one, other)
    for kind in seeds:
        size = len(torch.unique(ours[kind].n_id[: ours[kind].num_sampled_nodes[0]]))
        assert torch.equal(ours[kind].n_id[:size], theirs[kind].n_id[:size])


def check_names(one, other):
    """The names of attributes in a store: all that PyG has, and none that it does not know."""
    names = {name for name in other.keys() if other[name] is not None}  # noqa: SIM118
    assert set(one.keys()) - NOT_IN_TORCH_SPARSE - {"num_nodes"} == names - NOT_IN_TORCH_SPARSE


MASK = torch.zeros(PAPERS, dtype=torch.bool)
MASK[[3, 40, 7, 20, 21]] = True


@needs_sampler
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("typed_output", ["TypedMiniBatch", "HeteroData"])
@pytest.mark.parametrize(
    "given",
    ["paper", ("author", torch.tensor([20, 3, 7, 21])), ("paper", MASK), ("author", None)],
    ids=["type", "ids", "mask", "none"],
)
def test_nodes(ds, given, typed_output):
    import graphzero.pyg

    kind = gz.NeighborLoader if typed_output == "TypedMiniBatch" else graphzero.pyg.NeighborLoader
    input_type = given if isinstance(given, str) else given[0]
    fanouts = {key: [-1, -1] for key in (WRITES, WRITTEN, CITES)}
    loaders = [
        make(graph, num_neighbors=fanouts, input_nodes=given, batch_size=3)
        for make, graph in ((kind, ds), (pyg_loader.NeighborLoader, hetero_data()))
    ]
    ours, theirs = loaders
    assert len(ours) == len(theirs)
    assert len(ours.dataset) == len(theirs.dataset)
    for one, other in [*zip(ours, theirs, strict=True), (ours([2, 0]), theirs([2, 0]))]:
        assert one.metadata() == other.metadata()
        assert one[input_type].batch_size == other[input_type].batch_size
        assert torch.equal(one[input_type].input_id, other[input_type].input_id)
        check_same(one, other, [input_type])


@needs_sampler
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [WRITES, CITES])
def test_links(ds, kind):
    data = hetero_data()
    for given in (kind, (kind, None), (kind, data[kind].edge_index[:, 5:40])):
        ours, theirs = (
            make(graph, num_neighbors=[-1, -1], edge_label_index=given, batch_size=8)
            for make, graph in (
                (gz.LinkNeighborLoader, ds),
                (pyg_loader.LinkNeighborLoader, data),
            )
        )
        assert len(ours.dataset) == len(theirs.dataset)
        for one, other in zip(ours, theirs, strict=True):
            assert torch.equal(one[kind].input_id, other[kind].input_id)
            assert torch.equal(one[kind].edge_label_index, other[kind].edge_label_index)
            del one[kind].batch_size  # which PyG's batches of links lack
            check_same(one, other, {kind[0], kind[2]})


def reached(seed, time, fanouts_hops, times_of):
    """Naive tree of a paper with all neighbours: edges (kind, position) of two hops."""
    _, edges = inputs()
    tree, front = set(), {("paper", seed)}
    seen = set(front)
    for _ in range(fanouts_hops):
        found = set()
        for kind, given in edges.items():
            sources, targets = given["edge_index"]
            for at, (source, target) in enumerate(zip(sources, targets, strict=True)):
                if (kind[2], target) in front and times_of(kind, at) <= time:
                    tree.add((kind, at))
                    found.add((kind[0], int(source)))
        front = found - seen
        seen |= found
    return tree


@pytest.mark.parametrize("level", ["edge", "node"])
def test_times_beside_a_naive_twin(tmp_path, level):
    """PyG samples by time with pyg-lib only, which no package registry has."""
    nodes, edges = inputs()
    stamps = {kind: np.arange(120) % 20 for kind in (WRITES, WRITTEN)}
    if level == "edge":
        for kind, each in stamps.items():
            edges[kind]["stamp"] = each
    name = "stamp" if level == "edge" else "year"

    def time_of(kind, at):
        if level == "edge":
            return stamps[kind][at] if kind in stamps else -1
        source = edges[kind]["edge_index"][0][at]
        return nodes["paper"]["year"][source] if kind[0] == "paper" else -1

    seeds = np.array([4, 9, 30, 9])
    own = nodes["paper"]["year"][seeds]
    times = {} if level == "node" else {"input_time": own}
    with gz.build(
        tmp_path / "d", nodes=nodes, edges=edges, time_attrs=name, edge_ids=True, order="hot"
    ) as ds:
        loader = gz.NeighborLoader(
            ds, [-1, -1], ("paper", seeds), time_attr=name, batch_size=2, **times
        )
        found = {}
        for number, batch in enumerate(loader):
            assert batch["paper"].seed_time.tolist() == own[2 * number :][:2].tolist()
            for kind in edges:
                trees = batch[kind[2]].batch[batch[kind].edge_index[1]] + 2 * number
                for tree, at in zip(trees.tolist(), batch[kind].e_id.tolist(), strict=True):
                    found.setdefault(tree, set()).add((kind, at))
    for tree, (seed, time) in enumerate(zip(seeds.tolist(), own.tolist(), strict=True)):
        assert found.get(tree, set()) == reached(seed, time, 2, time_of)
    assert any(found.values())
