"""The ready-made loaders on typed graphs: seeds by type, fanouts by edge type, passes, states."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from ready_loaders import open_form

import graphzero as gz

torch = pytest.importorskip("torch")

PAPERS, AUTHORS = 120, 60
WRITES, WRITTEN, CITES = (
    ("author", "writes", "paper"),
    ("paper", "written_by", "author"),
    ("paper", "cites", "paper"),
)
TRAIN = np.arange(0, PAPERS, 2)[::-1].copy()
FANOUTS = {WRITES: [4, 3], CITES: [3, 2], WRITTEN: [2, 2]}
OPTIONS = {"batch_size": 16, "seed": 3}

# The C code that these loaders reach is sanitized by the tests of their open form.
pytestmark = pytest.mark.no_asan


def edges_of():
    rng = np.random.default_rng(1)
    writes = np.stack([rng.integers(0, AUTHORS, 500), rng.integers(0, PAPERS, 500)])
    return writes, rng.integers(0, PAPERS, (2, 700))


@pytest.fixture(scope="module", params=["input", "hot"])
def ds(request, tmp_path_factory):
    writes, cites = edges_of()
    labels = np.where(np.arange(PAPERS) < 12, 1, 0)
    labels[50] = -1
    with gz.build(
        tmp_path_factory.mktemp("typed") / "d",
        nodes={
            "paper": {"x": np.arange(PAPERS * 2.0).reshape(PAPERS, 2), "y": labels},
            "author": {"x": np.arange(AUTHORS * 3.0).reshape(AUTHORS, 3)},
        },
        edges={WRITES: writes, WRITTEN: writes[::-1].copy(), CITES: cites},
        splits={
            "train": {"paper": TRAIN, "author": np.arange(5)},
            "val": {"paper": np.array([3, 1])},
            "paper": {"author": np.array([7])},
        },
        edge_splits={"test": {WRITES: np.array([400, 7, 7 + 100])}},
        order=request.param,
        edge_ids=True,
    ) as dataset:
        yield dataset


def nodes_loader(ds, input_nodes=("paper", "train"), workers=0, method="fork", **options):
    if workers:
        options.update(num_workers=workers, multiprocessing_context=method)
    return gz.NeighborLoader(ds, FANOUTS, input_nodes, **{**OPTIONS, **options})


def links_loader(ds, given=WRITES, workers=0, method="fork", **options):
    if workers:
        options.update(num_workers=workers, multiprocessing_context=method)
    return gz.LinkNeighborLoader(ds, FANOUTS, given, **{**OPTIONS, **options})


def nodes_source(ds, seeds=("paper", TRAIN), **options):
    return gz.NeighborDataset(ds, seeds, FANOUTS, **{**OPTIONS, **options})


def links_source(ds, given=WRITES, **options):
    return gz.LinkNeighborDataset(ds, given, FANOUTS, **{**OPTIONS, **options})


def plain(batch):
    """All attributes of all types, as values that compare."""
    return {
        (key, name): (value.dtype, value.shape, value.numpy().tobytes())
        if isinstance(value, torch.Tensor)
        else value
        for key, store in batch.to_dict().items()
        for name, value in store.items()
    }


def all_same(batches, others):
    batches, others = list(map(plain, batches)), list(map(plain, others))
    assert len(batches) > 0
    return batches == others


@pytest.mark.parametrize("kind", ["nodes", "links"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_pass_is_resumed(ds, kind, workers):
    make = {"nodes": nodes_loader, "links": links_loader}[kind]
    loader = make(ds, workers=workers, shuffle=True)
    iterator = iter(loader)
    next(iterator), next(iterator)
    resumed = make(ds, shuffle=True)
    resumed.load_state_dict(loader.state_dict())
    assert all_same(resumed, iterator)
    state = loader.state_dict()
    other = {"nodes": ("author", "train"), "links": CITES}[kind]
    with pytest.raises(ValueError, match=r"seeds|input_type"):
        make(ds, other, shuffle=True).load_state_dict(state)


def seeds_of(loader):
    kind = loader._source.sample(np.arange(1), epoch=0, batch=0).input_type
    return kind, [
        int(node) for batch in loader for node in batch[kind].n_id[: batch[kind].batch_size]
    ]


def test_seeds_by_type(ds):
    mask = np.zeros(PAPERS, bool)
    mask[TRAIN] = True
    for given, kind, expected in (
        ("author", "author", range(AUTHORS)),
        (("author", None), "author", range(AUTHORS)),
        (["author", [3, 1]], "author", [3, 1]),
        (("paper", torch.tensor([5, 2])), "paper", [5, 2]),
        (("paper", "train"), "paper", TRAIN),
        (("author", "train"), "author", range(5)),
        ("val", "paper", [3, 1]),
        ("paper", "paper", range(PAPERS)),  # also the name of a split of another type
        (("author", "paper"), "author", [7]),
        (("paper", torch.from_numpy(mask)), "paper", sorted(TRAIN)),
    ):
        assert seeds_of(nodes_loader(ds, given)) == (kind, list(expected))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, r"the node types are \['paper', 'author'\], their splits {'paper'"),
        ([1, 2, 3], "of one node type"),
        ([1, 2], "of one node type"),
        ("train", r"several node types.*\('paper', 'train'\), \('author', 'train'\)"),
        ("test", "not 'test'"),
        (("paper", "test"), r"no split of the node type 'paper': there are \['train', 'val'\]"),
        (("venue", [1]), "not 'venue'; the node types are"),
        (("paper", np.ones(3, bool)), "mask"),
    ],
)
def test_seeds_of_no_type(ds, given, message):
    with pytest.raises(ValueError, match=message):
        nodes_loader(ds, given)


def test_input_ids(ds):
    mask = np.zeros(PAPERS, bool)
    mask[TRAIN] = True
    for batch in nodes_loader(ds, ("paper", mask)):
        store = batch["paper"]
        assert torch.equal(store.input_id, store.n_id[: store.batch_size])
        assert store.batch_size == batch.batch_size == len(store.input_id)
    named = torch.arange(len(TRAIN)) + 1000
    ids = [batch["paper"].input_id for batch in nodes_loader(ds, input_id=named)]
    assert torch.equal(torch.cat(ids), named)
    ids = [batch[CITES].input_id for batch in links_loader(ds, CITES, input_id=range(700))]
    assert torch.equal(torch.cat(ids), torch.arange(700))


def as_num_neighbors(values, default=None):
    """As PyG's NumNeighbors has them."""
    return SimpleNamespace(values=values, default=default, get_mapped_values=None)


def test_ways_to_give_fanouts(ds):
    expected = open_form(nodes_source(ds))
    words = {"__".join(kind): hops for kind, hops in FANOUTS.items()}
    for given in (
        words,
        {kind: torch.tensor(hops) for kind, hops in FANOUTS.items()},
        as_num_neighbors(words),
        {WRITES: [4, 3], CITES: [3, 2], "default": [2, 2]},
        as_num_neighbors({k: v for k, v in words.items() if "_by" not in k}, [2, 2]),
    ):
        assert all_same(gz.NeighborLoader(ds, given, ("paper", "train"), **OPTIONS), expected)
    alike = open_form(gz.NeighborDataset(ds, ("paper", TRAIN), [2, 2], **OPTIONS))
    for given in ([2, 2], as_num_neighbors([2, 2])):
        loader = gz.NeighborLoader(ds, given, ("paper", "train"), **OPTIONS)
        assert all_same(loader, alike)
    for given, message in (
        ({WRITES: [2]}, "lack the edge types"),
        ({("author", "reads", "paper"): [2], "default": [1]}, "name one of"),
        (as_num_neighbors({"author__reads__paper": [2]}, [1]), "name one of"),
    ):
        with pytest.raises(ValueError, match=message):
            gz.NeighborLoader(ds, given, "paper")


def test_pygs_num_neighbors(ds):
    num_neighbors = pytest.importorskip("torch_geometric.sampler").NumNeighbors
    given = num_neighbors({k: v for k, v in FANOUTS.items() if k != WRITTEN}, default=[2, 2])
    loader = gz.NeighborLoader(ds, given, ("paper", "train"), **OPTIONS)
    assert all_same(loader, open_form(nodes_source(ds)))


def test_seed_edges_by_type(ds):
    writes, cites = edges_of()
    for given, kind, expected in (
        (WRITES, WRITES, writes),
        ((WRITES, None), WRITES, writes),
        ("author__writes__paper", WRITES, writes),
        ((CITES, torch.from_numpy(cites[:, :9])), CITES, cites[:, :9]),
        ((CITES, tuple(torch.from_numpy(cites[:, :9]))), CITES, cites[:, :9]),
        ((WRITES, "test"), WRITES, writes[:, [400, 7, 107]]),
        (("author__writes__paper", "test"), WRITES, writes[:, [400, 7, 107]]),
        ([["author", "paper"], "test"], WRITES, writes[:, [400, 7, 107]]),
        (list(WRITES), WRITES, writes),
        (("author", "paper"), WRITES, writes),
        ([list(CITES), cites.tolist()], CITES, cites),
    ):
        source = links_loader(ds, given)._source
        assert source.edge_type == kind
        np.testing.assert_array_equal(source.edge_label_index, expected)
    for given, message in (
        (None, "of one edge type"),
        (writes, "of one edge type"),
        ((CITES, "test"), r"no split of the edges of the edge type .*: there are \[\]"),
        ((("author", "reads", "paper"), None), "no edge type"),
        ((("author", "reads", "paper"), "test"), "edge type"),
        (("author", "venue"), "no edge type"),
        (tuple(writes), "of one edge type"),
        ((CITES, cites.T), r"shape \(2, n\)"),
        ((WRITES, [[AUTHORS], [0]]), r"edge_label_index\[0\]"),
        ((WRITES, [[0], [PAPERS]]), r"edge_label_index\[1\]"),
    ):
        with pytest.raises((ValueError, IndexError), match=message):
            links_loader(ds, given)


def test_labels_and_negatives(ds):
    labels = torch.arange(500) % 3
    options = {"edge_label": labels.numpy(), "neg_sampling": "binary", "amount": 2}
    expected = open_form(links_source(ds, **options))
    loader = links_loader(ds, edge_label=labels, neg_sampling=("binary", 2))
    assert all_same(loader, expected)
    triplets = open_form(links_source(ds, neg_sampling="triplet", amount=3))
    assert all_same(links_loader(ds, neg_sampling={"mode": "triplet", "amount": 3}), triplets)


@pytest.mark.parametrize("workers", [0, 2])
def test_graphzero_pyg_yields_hetero_data(ds, workers):
    data = pytest.importorskip("torch_geometric.data")
    import graphzero.pyg

    seen = []
    options = {"num_workers": workers, **OPTIONS}
    nodes = graphzero.pyg.NeighborLoader(ds, FANOUTS, ("paper", "train"), **options)
    links = graphzero.pyg.LinkNeighborLoader(
        ds, FANOUTS, WRITES, neg_sampling="triplet", transform=lambda one: (one, 1), **options
    )
    for batch, expected in zip(nodes, nodes_loader(ds), strict=True):
        assert isinstance(batch, data.HeteroData)
        seen.append(batch["paper"].input_id)
        assert torch.equal(batch["paper"].x, expected["paper"].x)
        assert batch["paper"].batch_size == expected.batch_size
    assert torch.equal(torch.cat(seen), torch.arange(len(TRAIN)))
    for batch, one in links:
        assert isinstance(batch, data.HeteroData)
        assert one == 1
        assert len(batch["author"].src_index) == len(batch[WRITES].input_id)


def test_induced_subgraphs_are_refused(ds):
    with pytest.raises(ValueError, match="without types only"):
        nodes_loader(ds, subgraph_type="induced")
