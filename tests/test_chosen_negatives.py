"""Negatives whose nodes are drawn by weight: never edges, in proportion, the same everywhere."""

from __future__ import annotations

import chi_square
import numpy as np
import pytest

import graphzero as gz

pytestmark = pytest.mark.core  # under AddressSanitizer, too

torch = pytest.importorskip("torch")

USERS, FILMS, EDGES = 12, 9, 45
RATES, KNOWS = ("user", "rates", "film"), ("user", "knows", "user")


def inputs():
    rng = np.random.default_rng(0)
    rates = np.stack([rng.integers(0, USERS, EDGES), rng.integers(0, FILMS, EDGES)])
    return rates, rng.integers(0, USERS, (2, EDGES))


@pytest.fixture(scope="module", params=["input", "hot"])
def typed(request, tmp_path_factory):
    rates, knows = inputs()
    with gz.build(
        tmp_path_factory.mktemp("negatives") / "d",
        nodes={"user": {"num_nodes": USERS}, "film": {"num_nodes": FILMS}},
        edges={RATES: rates, ("film", "by", "user"): rates[::-1].copy(), KNOWS: knows},
        order=request.param,
    ) as ds:
        yield ds


@pytest.fixture(params=["in", "out", "undirected"])
def plain(request, tmp_path):
    """The graph of `KNOWS` without types."""
    _, knows = inputs()
    undirected = request.param == "undirected"
    direction = {"directed": False} if undirected else {"neighbors": request.param}
    with gz.build(tmp_path / "d", knows, num_nodes=USERS, order="hot", **direction) as ds:
        yield ds


def is_edge(edges, sources, targets, directed=True):
    found = np.zeros((sources, targets), bool)
    found[tuple(edges)] = True
    return found if directed else found | found.T


def drawn_pairs(loader, kind=None):
    """The negatives of an epoch, (2, n)."""
    pairs = []
    for batch in loader:
        source, target, links = (batch,) * 3
        if kind is not None:
            source, target, links = batch[kind[0]], batch[kind[2]], batch[kind]
        if "dst_neg_index" in target:
            negatives = target.dst_neg_index.reshape(len(source.src_index), -1)
            sources = source.src_index[:, None].expand_as(negatives)
            ends = sources.reshape(-1), negatives.reshape(-1)
        else:
            ends = links.edge_label_index[:, len(links.input_id) :]
        pairs.append(torch.stack([source.n_id[ends[0]], target.n_id[ends[1]]]).numpy())
    return np.hstack(pairs)


def assert_in_proportion(pairs, expected):
    shares = dict(np.ndenumerate(expected / expected.sum()))
    assert chi_square.p_value(map(tuple, pairs.T.tolist()), shares) > 1e-6


def weights_of(count, seed):
    rng = np.random.default_rng(seed)
    weights = rng.random(count) + 0.2
    weights[0] = 0
    return weights


@pytest.mark.parametrize("given", [(True, True), (True, False), (False, True)])
def test_pairs_between_two_types(typed, given):
    rates, _ = inputs()
    sizes = (USERS, FILMS)
    each = [
        weights_of(count, i) if has else np.ones(count)
        for i, (has, count) in enumerate(zip(given, sizes, strict=True))
    ]
    weights = [torch.from_numpy(one) if has else None for has, one in zip(given, each, strict=True)]
    loader = gz.LinkNeighborLoader(
        typed, [1], RATES, neg_sampling=("binary", 400, *weights), batch_size=EDGES, seed=2
    )
    expected = np.outer(*each) * ~is_edge(rates, *sizes)
    assert_in_proportion(drawn_pairs(loader, RATES), expected)


def test_pairs_of_one_type(plain):
    _, knows = inputs()
    weights = weights_of(USERS, 1), weights_of(USERS, 2)
    loader = gz.LinkNeighborLoader(
        plain, [1], knows, neg_sampling=("binary", 400, *weights), batch_size=EDGES, seed=2
    )
    allowed = ~is_edge(knows, USERS, USERS, plain.graph.is_directed)
    np.fill_diagonal(allowed, False)
    assert_in_proportion(drawn_pairs(loader), np.outer(*weights) * allowed)


@pytest.mark.parametrize("kind", [RATES, KNOWS])
def test_destinations(typed, kind):
    edges = inputs()[0 if kind == RATES else 1]
    count = FILMS if kind == RATES else USERS
    weights = weights_of(count, 3)
    allowed = ~is_edge(edges, USERS, count)
    if kind == KNOWS:
        np.fill_diagonal(allowed, False)
    seeds = edges[:, edges[0] == edges[0, 0]][:, :1]
    negatives = {"mode": "triplet", "amount": 5000, "dst_weight": weights}
    loader = gz.LinkNeighborLoader(typed, [1], (kind, seeds), neg_sampling=negatives)
    pairs = drawn_pairs(loader, kind)
    assert (pairs[0] == seeds[0]).all()
    expected = np.zeros((USERS, count))
    expected[seeds[0, 0]] = weights * allowed[seeds[0, 0]]
    assert_in_proportion(pairs, expected)


def test_the_positive_is_no_negative(typed):
    """Also where it is no edge of the graph."""
    rates, _ = inputs()
    missing = np.argwhere(~is_edge(rates, USERS, FILMS))[:1].T
    loader = gz.LinkNeighborLoader(
        typed, [1], (RATES, missing), neg_sampling=("triplet", 500, None, np.ones(FILMS))
    )
    drawn = set(drawn_pairs(loader, RATES)[1])
    assert missing[1, 0] not in drawn
    assert len(drawn) > 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("binary", 1, np.ones(FILMS)), r"src_weight must hold a number for each of the 12 nodes"),
        (("binary", 1, None, np.ones(USERS)), r"dst_weight must hold .* 9 nodes"),
        (("binary", 1, -np.ones(USERS)), r"src_weight\[0\] = -1"),
        (("binary", 1, np.zeros(USERS)), "add up to 0"),
        (("triplet", 1, np.ones(USERS)), "leave src_weight out"),
        ({"mode": "binary", "weight": 1}, "weight"),
    ],
)
def test_wrong_weights(typed, given, message):
    with pytest.raises(ValueError, match=message):
        gz.LinkNeighborLoader(typed, [1], RATES, neg_sampling=given)
    with pytest.raises(ValueError, match="give neg_sampling"):
        gz.LinkNeighborDataset(typed, RATES, [1], src_weight=np.ones(USERS))


@pytest.mark.parametrize(
    ("mode", "message"),
    [("binary", "no negative was found in .* draws: .*are edges"), ("triplet", "for the source 0")],
)
def test_weights_that_leave_edges_only(tmp_path, mode, message):
    edges = np.stack([np.repeat(np.arange(4), 5), np.tile(np.arange(5), 4)])
    inside = np.r_[np.ones(4), np.zeros(4)]
    with gz.build(tmp_path / "d", edges, num_nodes=8) as ds:
        given = (mode, 1, inside if mode == "binary" else None, inside)
        loader = gz.LinkNeighborLoader(ds, [1], edges, neg_sampling=given, batch_size=4)
        with pytest.raises(ValueError, match=message):
            next(iter(loader))


def test_pygs_negative_sampling(typed):
    negative_sampling = pytest.importorskip("torch_geometric.sampler").NegativeSampling
    weights = torch.from_numpy(weights_of(USERS, 5))
    given = negative_sampling("binary", 2, src_weight=weights)
    ours, same = (
        gz.LinkNeighborLoader(typed, [1], RATES, neg_sampling=each, batch_size=9, seed=0)
        for each in (given, ("binary", 2, weights.numpy()))
    )
    np.testing.assert_array_equal(drawn_pairs(ours, RATES), drawn_pairs(same, RATES))
