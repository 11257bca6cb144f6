"""`time_attr` and `weight_attr`: which attributes drive sampling, with and without types."""

from __future__ import annotations

import numpy as np
import pytest

import graphzero as gz

torch = pytest.importorskip("torch")

USERS, FILMS, EDGES = 50, 30, 400
RATES = ("user", "rates", "film")
LIKED = ("film", "rev_rates", "user")
KNOWS = ("user", "knows", "user")


def parts():
    rng = np.random.default_rng(0)
    rates = np.stack([rng.integers(0, USERS, EDGES), rng.integers(0, FILMS, EDGES)])
    stamps = rng.integers(0, 100, EDGES)
    weights = (rng.random(EDGES) < 0.5).astype(np.float32)  # 0: never drawn
    joined = rng.integers(0, 100, USERS)
    return rates, rng.integers(0, USERS, (2, EDGES)), stamps, weights, joined


def typed(path, *, level="edge", **options):
    rates, knows, stamps, weights, joined = parts()
    more = {name: options.pop(name) for name in ("when", "strength") if name in options}
    attributes = {"stamp": stamps, "score": weights} if level == "edge" else {"score": weights}
    nodes = {
        "user": {"num_nodes": USERS, "joined": joined},
        "film": {"num_nodes": FILMS, "x": np.ones((FILMS, 1))},
    }
    edges = {
        RATES: {"edge_index": rates, **attributes},
        LIKED: {"edge_index": rates[::-1].copy(), **attributes},
        KNOWS: {"edge_index": knows, **more},
    }
    return gz.build(path, nodes=nodes, edges=edges, edge_ids=True, order="hot", **options)


def untyped(path, *, level="edge", **options):
    _, knows, stamps, weights, joined = parts()
    edges = {"edge_index": knows, "score": weights}
    if level == "edge":
        edges["stamp"] = stamps
    nodes = {"x": np.ones((USERS, 1)), "joined": joined}
    return gz.build(path, nodes=nodes, edges=edges, edge_ids=True, **options)


def test_times_of_typed_edges(tmp_path):
    seen = 0
    with typed(tmp_path / "d", time_attrs="stamp") as ds:
        times = np.arange(USERS) * 2
        how = {"time_attr": "stamp", "input_time": times, "batch_size": 8}
        loader = gz.NeighborLoader(ds, [-1, -1], "user", **how)
        for batch in loader:
            assert torch.equal(batch["user"].seed_time, torch.from_numpy(times)[batch.input_id])
            for kind in (RATES, LIKED):
                tree = batch[kind[2]].batch[batch[kind].edge_index[1]]
                assert (batch[kind].stamp <= batch["user"].seed_time[tree]).all()
                seen += batch[kind].num_edges
        assert seen > 0
        with pytest.raises(ValueError, match="time of edges.*give input_time"):
            gz.NeighborLoader(ds, [2], "user", time_attr="stamp")


@pytest.mark.parametrize("has_types", [False, True])
def test_seeds_have_the_times_of_their_own_nodes(tmp_path, has_types):
    joined = parts()[-1]
    make = typed if has_types else untyped
    with make(tmp_path / "d", time_attrs="joined", level="node") as ds:
        seeds = np.array([7, 3, 40, 3])
        given = ("user", seeds) if has_types else seeds
        loader = gz.NeighborLoader(ds, [-1, -1], given, time_attr="joined", batch_size=3)
        for batch in loader:
            nodes = batch["user"] if has_types else batch
            expected = joined[nodes.n_id[: batch.batch_size]]
            np.testing.assert_array_equal(nodes.seed_time, expected)
            assert (joined[nodes.n_id] <= nodes.seed_time[nodes.batch].numpy()).all()
        how = {"time_attr": "joined", "input_time": [1, 2, 3, 4], "batch_size": 4}
        (batch,) = gz.NeighborLoader(ds, [-1], given, **how)
        assert (batch["user"] if has_types else batch).seed_time.tolist() == [1, 2, 3, 4]
        if has_types:
            (every,) = gz.NeighborLoader(ds, [-1], "user", time_attr="joined", batch_size=USERS)
            np.testing.assert_array_equal(every["user"].seed_time, joined)
            knows = parts()[1]
            assert every[KNOWS].num_edges == (joined[knows[0]] <= joined[knows[1]]).sum() > 0
            with pytest.raises(ValueError, match="'film' do not have it: give input_time"):
                gz.NeighborLoader(ds, [2], "film", time_attr="joined")


def test_weights_of_typed_edges(tmp_path):
    weights = parts()[3]
    with typed(tmp_path / "d", weight_attrs="score", time_attrs=[]) as ds:
        loader = gz.NeighborLoader(ds, [3], "user", weight_attr="score", batch_size=USERS)
        (batch,) = loader
        assert len(batch[LIKED].e_id) > 20
        assert weights[batch[LIKED].e_id].all()  # those of weight 0 are not drawn
        assert batch[KNOWS].num_edges > 0
        (uniform,) = gz.NeighborLoader(ds, [3], "user", batch_size=USERS)
        assert not weights[uniform[LIKED].e_id].all()


@pytest.mark.parametrize("has_types", [False, True])
@pytest.mark.parametrize("links", [False, True])
def test_what_cannot_drive_is_refused_by_name(tmp_path, has_types, links):
    def make(**options):
        if not links:
            return gz.NeighborLoader(ds, [2], "user" if has_types else None, **options)
        return gz.LinkNeighborLoader(ds, [2], KNOWS if has_types else None, **options)

    build = typed if has_types else untyped
    with build(tmp_path / "d", weight_attrs="score", time_attrs="stamp") as ds:
        for options, message in (
            ({"time_attr": "score"}, r"build the dataset with time_attrs='score'"),
            ({"time_attr": "year"}, r"'year' is none of the times that drive .*\['stamp'\]: build"),
            ({"weight_attr": "w"}, r"'w' is none of the weights that drive .*\['score'\]: build"),
        ):
            with pytest.raises(ValueError, match=message):
                make(**options)
        missing = "edge_label_time" if links else "input_time"
        with pytest.raises(ValueError, match=f"give {missing}"):
            make(time_attr="stamp")
        if has_types:  # names that stand for the only one are of graphs without types
            with pytest.raises(ValueError, match="none of the weights"):
                make(weight_attr="edge_weight")
        else:
            assert len(list(make(weight_attr="edge_weight", batch_size=500))) == 1


def test_a_name_of_nodes_and_of_edges_is_refused(tmp_path):
    _, knows, stamps, _, joined = parts()
    with gz.build(
        tmp_path / "d",
        nodes={"user": {"num_nodes": USERS, "time": joined}},
        edges={KNOWS: {"edge_index": knows, "time": stamps}},
    ) as ds:
        for make, given in ((gz.NeighborLoader, "user"), (gz.LinkNeighborLoader, KNOWS)):
            with pytest.raises(ValueError, match="of nodes and of edges"):
                make(ds, [2], given, time_attr="time")


def test_edges_that_others_drive_are_named(tmp_path):
    other = {"when": np.arange(EDGES), "strength": np.ones(EDGES, np.float32)}
    drivers = {"time_attrs": ["stamp", "when"], "weight_attrs": ["score", "strength"]}
    with typed(tmp_path / "d", **drivers, **other) as ds:
        with pytest.raises(ValueError, match=r"knows.*'when'.*time_attrs='stamp'"):
            gz.NeighborLoader(ds, [2], "user", time_attr="stamp", input_time=np.arange(USERS))
        with pytest.raises(ValueError, match=r"knows.*'strength'.*weight_attrs='score'"):
            gz.NeighborLoader(ds, [2], "user", weight_attr="score")


@pytest.mark.parametrize("mode", ["binary", "triplet"])
def test_negatives_are_not_later_than_their_seed_edge(tmp_path, mode):
    """Where nodes have the times, as in PyG."""
    _, knows, _, _, joined = parts()
    times = np.maximum(joined[knows[0]], joined[knows[1]])
    existing, seen = set(zip(*knows.tolist(), strict=True)), 0
    with typed(tmp_path / "d", time_attrs="joined", level="node") as ds:
        late = times >= 30  # before, there are few nodes
        options = {"time_attr": "joined", "edge_label_time": times[late], "batch_size": 50}
        options["neg_sampling"] = (mode, 2)
        for batch in gz.LinkNeighborLoader(ds, [2], (KNOWS, knows[:, late]), **options):
            nodes, store = batch["user"], batch[KNOWS]
            at = times[late][store.input_id]
            if mode == "binary":
                ends = nodes.n_id[store.edge_label_index[:, len(at) :]].numpy()
                until = np.resize(at, ends.shape[1])
            else:
                ends = nodes.n_id[nodes.dst_neg_index].numpy().reshape(1, -1)
                until = at.repeat(2)
                sources = nodes.n_id[nodes.src_index].numpy().repeat(2)
                assert not existing & set(zip(sources, ends[0], strict=True))
            assert (joined[ends] <= until).all()
            seen += ends.shape[1]
    assert seen == 2 * late.sum()
