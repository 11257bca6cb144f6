"""Every kind of sampling through the DataLoader."""

from __future__ import annotations

import files
import numpy as np
import pytest
from kinds import options_of

import graphzero as gz

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.no_asan,  # what is tested is Python; its C code runs there in test_kinds
]

NODES, EDGES, SEEDS = 500, 6000, 200


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(3)
    folder = tmp_path_factory.mktemp("kinds") / "data"
    files.write_dataset(
        folder,
        files.random_edges(NODES, EDGES),
        NODES,
        order="hot",
        weights=rng.random(EDGES),
        times=rng.integers(0, 100, EDGES),
        features=rng.standard_normal((NODES, 4)).astype(np.float32),
    )
    return folder


def make(folder, kind, **more):
    options, timed = options_of(kind)
    ds = gz.open(folder)
    seeds = np.random.default_rng(0).permutation(NODES)[:SEEDS]
    return ds, gz.NeighborDataset(
        ds,
        seeds,
        [4, 3],
        batch_size=16,
        shuffle=True,
        seed=9,
        input_time=np.arange(SEEDS) % 100 if timed else None,
        **options,
        **more,
    )


def test_batches_know_their_trees_and_times(folder):
    ds, batches = make(folder, "until")
    batch = gz.Collate(ds)(next(iter(batches)))
    assert batch.batch.shape == batch.n_id.shape
    assert batch.batch[: batch.batch_size].tolist() == list(range(16))
    np.testing.assert_array_equal(batch.seed_time, batches.input_time[batch.input_id])
    np.testing.assert_array_equal(batch.x, ds.features.gather(batch.n_id.numpy()))
    moved = batch.to("cpu")
    assert torch.equal(moved.batch, batch.batch)
    assert torch.equal(moved.seed_time, batch.seed_time)


def test_trees_and_times_are_passed_on_to_pyg(folder):
    pytest.importorskip("torch_geometric")
    ds, batches = make(folder, "until")
    batch = gz.Collate(ds)(next(iter(batches)))
    data = batch.to_pyg()
    assert torch.equal(data.batch, batch.batch)
    assert torch.equal(data.seed_time, batch.seed_time)
    ds, batches = make(folder, "induced")
    assert "num_sampled_edges" not in gz.Collate(ds)(next(iter(batches))).to_pyg()


def test_a_resumed_epoch_must_have_the_same_options_and_times(folder):
    _, timed = make(folder, "until")
    timed.set_epoch(0)
    state = timed.state_after(2)
    _, other = make(folder, "last until")
    with pytest.raises(ValueError, match="temporal_strategy"):
        other.resume(state)
    ds = timed.dataset
    late = gz.NeighborDataset(
        ds, timed.seeds, [4, 3], batch_size=16, shuffle=True, seed=9, input_time=np.full(SEEDS, 5)
    )
    with pytest.raises(ValueError, match="times_crc"):
        late.resume(state)
    make(folder, "until")[1].resume(state)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_time": [1, 2]}, f"a time for each of the {SEEDS} seeds"),
        (
            {"input_time": np.zeros(SEEDS, int), "labor": True},
            "labor sampling does not support times",
        ),
        ({"labor": True, "replace": True}, "labor excludes replace"),
    ],
)
def test_bad_options_are_named_before_the_first_batch(folder, options, message):
    with pytest.raises(ValueError, match=message):
        gz.NeighborDataset(gz.open(folder), np.arange(SEEDS), [2], **options)


def test_link_batches_take_the_options_too(folder):
    ds = gz.open(folder)
    edges = files.random_edges(NODES, 50, seed=5).T
    induced, labor = (
        gz.Collate(ds)(next(iter(gz.LinkNeighborDataset(ds, edges, [3], batch_size=50, **options))))
        for options in ({"subgraph_type": "induced"}, {"labor": True})
    )
    assert induced.num_sampled_edges is None
    assert labor.num_sampled_edges is not None
