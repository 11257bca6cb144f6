"""Mini-batches through the standard DataLoader."""

from __future__ import annotations

import pickle
import subprocess
import sys

import files
import numpy as np
import pytest
import reference
import reference_rows
from hypothesis import given
from hypothesis import strategies as st
from loaders import loader_of

import graphzero as gz
from graphzero.sampling import order as gz_order

torch = pytest.importorskip("torch")
DataLoader = torch.utils.data.DataLoader
pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.no_asan,  # what is tested is Python; its C code runs there in other tests
]

OPTIONS = {"fanouts": [4, 3], "batch_size": 16, "shuffle": True, "seed": 5}


def make_loader(folder, *, workers=0, method=None, persistent=False, split="train", **options):
    ds = gz.open(folder)
    batches = gz.NeighborDataset(ds, ds.splits[split], **{**OPTIONS, **options})
    return loader_of(batches, workers, method, persistent_workers=persistent)


def fingerprint(batch):
    tensors = [batch.n_id, batch.edge_index, batch.e_id, batch.input_id, batch.x, batch.y]
    return b"".join(tensor.numpy().tobytes() for tensor in tensors)


def epoch_bytes(loader):
    return [fingerprint(batch) for batch in loader]


def test_batches_equal_the_naive_ones(tmp_path, order):
    rng = np.random.default_rng(1)
    features, labels = rng.standard_normal((200, 5)).astype(np.float32), rng.integers(0, 3, 200)
    train = rng.permutation(200)[:50]
    naive = files.write_dataset(
        tmp_path / "data",
        files.random_edges(200, 2000),
        200,
        features=features,
        labels=labels,
        splits={"train": train},
        order=order,
    )
    loader = make_loader(tmp_path / "data")
    loader.dataset.set_epoch(3)
    shuffled = reference.permutation(50, reference.key(reference.SHUFFLE, 5, 3, 0))
    for i, batch in enumerate(loader):
        positions = shuffled[16 * i : 16 * i + 16]
        expected = reference.sample(naive, train[positions], [4, 3], seed=5, epoch=3, batch=i)
        assert batch.input_id.tolist() == positions.tolist()
        np.testing.assert_array_equal(batch.n_id, expected["n_id"])
        np.testing.assert_array_equal(batch.edge_index, expected["edge_index"])
        np.testing.assert_array_equal(batch.e_id, expected["e_id"])
        assert batch.num_sampled_nodes == expected["num_sampled_nodes"]
        assert batch.num_sampled_edges == expected["num_sampled_edges"]
        np.testing.assert_array_equal(batch.x, reference_rows.gather(features, batch.n_id.numpy()))
        np.testing.assert_array_equal(batch.y, reference_rows.gather(labels, batch.n_id.numpy()))
        assert (batch.num_nodes, batch.num_edges) == (len(batch.x), batch.edge_index.shape[1])
    assert i == 3


@pytest.mark.parametrize(
    ("order", "workers", "method", "persistent"),
    [
        ("input", 1, "fork", False),
        ("hot", 3, "fork", False),
        ("input", 3, "fork", True),
        pytest.param("hot", 1, "spawn", False, marks=pytest.mark.extended),
        pytest.param("input", 3, "spawn", True, marks=pytest.mark.extended),
    ],
    indirect=["order"],
)
def test_workers_do_not_change_a_byte(dataset, workers, method, persistent):
    folder, _, _ = dataset
    plain = make_loader(folder)
    loader = make_loader(folder, workers=workers, method=method, persistent=persistent)
    epochs = []
    for epoch in (0, 1):
        plain.dataset.set_epoch(epoch)
        loader.dataset.set_epoch(epoch)
        assert len(loader) == 13
        epochs.append(epoch_bytes(loader))
        assert epochs[-1] == epoch_bytes(plain)
    assert epochs[0] != epochs[1]


def test_threads_and_prefetch_do_not_change_a_byte(dataset):
    folder, _, _ = dataset
    expected = epoch_bytes(make_loader(folder, num_threads=1))
    settings_ = [
        gz.Prefetch(strategy="none"),
        gz.Prefetch(lookahead=0),
        gz.Prefetch(lookahead=50),
        gz.Prefetch(readahead_limit=0),
        gz.Prefetch(gap_pages=3, advice="normal"),
    ]
    for num_threads, prefetch in zip([2, 4, 1, 2, 4], settings_, strict=True):
        loader = make_loader(folder, num_threads=num_threads, prefetch=prefetch)
        assert epoch_bytes(loader) == expected


@given(
    num_seeds=st.integers(0, 60),
    batch_size=st.integers(1, 20),
    drop_last=st.booleans(),
    world_size=st.integers(1, 4),
    num_workers=st.integers(1, 4),
)
def test_shares_partition_the_epoch(num_seeds, batch_size, drop_last, world_size, num_workers):
    count = gz_order.num_batches(num_seeds, batch_size, drop_last)
    order = gz_order.epoch_order(num_seeds, True, 1, 2)
    dealt, positions = [], []
    for rank in range(world_size):
        of_rank = gz_order.batch_ids(count, gz_order.Share(rank, world_size))
        of_workers = [
            list(gz_order.batch_ids(count, gz_order.Share(rank, world_size, w, num_workers)))
            for w in range(num_workers)
        ]
        # the DataLoader asks its workers in turn
        in_turn = [
            batches[turn]
            for turn in range(len(of_rank))
            for batches in of_workers
            if turn < len(batches)
        ]
        assert in_turn == list(of_rank)
        dealt += in_turn
    assert sorted(dealt) == list(range(count))
    for batch in dealt:
        positions += gz_order.batch_positions(order, batch, batch_size).tolist()
    assert len(set(positions)) == len(positions)
    assert len(positions) == (num_seeds // batch_size * batch_size if drop_last else num_seeds)


def test_the_last_short_batch_is_kept_or_dropped(dataset):
    folder, _, _ = dataset
    kept, dropped = make_loader(folder), make_loader(folder, drop_last=True)
    assert [batch.batch_size for batch in kept] == [16] * 12 + [11]
    assert [batch.batch_size for batch in dropped] == [16] * 12
    assert (len(kept), len(dropped)) == (13, 12)


def test_every_epoch_has_every_seed_once_in_another_order(dataset):
    folder, _, _ = dataset
    loader = make_loader(folder)
    seen = []
    for epoch in range(3):
        loader.dataset.set_epoch(epoch)
        seen.append(torch.cat([batch.n_id[: batch.batch_size] for batch in loader]).tolist())
    train = gz.open(folder).splits["train"].tolist()
    assert [sorted(ids) for ids in seen] == [sorted(train)] * 3
    assert seen[0] != seen[1] != seen[2]
    unshuffled = make_loader(folder, shuffle=False)
    in_order = torch.cat([batch.n_id[: batch.batch_size] for batch in unshuffled])
    assert in_order.tolist() == train


@pytest.mark.parametrize(("gather", "message"), [("x", "several"), (["z"], r"\['z'\].*'x', 'y'")])
def test_attributes_that_are_gathered_are_checked(dataset, gather, message):
    with pytest.raises(ValueError, match=message):
        gz.NeighborDataset(gz.open(dataset[0]), [1, 2], [2], gather=gather)


def test_features_in_another_order_than_the_graph(dataset, tmp_path):
    """An .npy beside a hot graph, and a hot .gd beside a graph in input order."""
    folder, features, _ = dataset
    np.save(tmp_path / "x.npy", features)
    rank = np.random.default_rng(5).permutation(500)
    files.write_rows(tmp_path / "x.gd", features, rank=rank)
    graph = gz.Graph(folder / "graph.gl")
    for name in ("x.npy", "x.gd"):
        ds = gz.Dataset(graph, gz.FeatureStore(tmp_path / name))
        loader = DataLoader(
            gz.NeighborDataset(ds, None, [3], batch_size=100), None, collate_fn=gz.Collate(ds)
        )
        for batch in loader:
            np.testing.assert_array_equal(batch.x, features[batch.n_id.numpy()])


def test_seeds_as_mask_tensor_or_default(dataset):
    folder, _, _ = dataset
    ds = gz.open(folder)
    mask = np.zeros(500, bool)
    mask[[3, 7]] = True
    assert gz.NeighborDataset(ds, mask, [2]).seeds.tolist() == [3, 7]
    assert gz.NeighborDataset(ds, torch.tensor([9, 9]), [2]).seeds.tolist() == [9, 9]
    assert gz.NeighborDataset(ds).seeds.tolist() == list(range(500))
    assert list(gz.NeighborDataset(ds, [], [2])) == []


@pytest.mark.parametrize(
    ("options", "error", "part"),
    [
        ({"seeds": [500]}, IndexError, r"seeds\[0\] = 500"),
        ({"seeds": np.ones(3, bool)}, ValueError, "seed mask must have shape"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1"),
        ({"fanouts": 5}, ValueError, r"one fanout for each hop, such as \[15, 10\], not 5"),
        ({"fanouts": [3, -2]}, ValueError, "fanout must be"),
        ({"seed": None}, ValueError, "seed must be an integer"),
        ({"gather": ["z"]}, ValueError, "gather names"),
    ],
)
def test_bad_loader_options_are_named(dataset, options, error, part):
    with pytest.raises(error, match=part):
        gz.NeighborDataset(gz.open(dataset[0]), **options)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"strategy": "magic"}, "strategy must be one of"),
        ({"lookahead": -1}, "lookahead must be at least 0"),
        ({"lookahead": 2**63 - 1}, "lookahead must be at most"),
        ({"readahead_limit": 0.5}, "readahead_limit must be an integer"),
        ({"advice": "maybe"}, "advice must be one of"),
    ],
)
def test_bad_prefetch_options_are_named(options, part):
    with pytest.raises(ValueError, match=part):
        gz.Prefetch(**options)


def test_a_loader_that_batches_again_is_told(dataset):
    ds = gz.open(dataset[0])
    loader = DataLoader(gz.NeighborDataset(ds, [1, 2]), collate_fn=gz.Collate(ds))
    with pytest.raises(TypeError, match="batch_size=None"):
        next(iter(loader))


def test_mini_batches_move_as_a_whole(dataset):
    batch = next(iter(make_loader(dataset[0])))
    moved = batch.clone().to("meta")
    assert {t.device.type for t in (moved.n_id, moved.edge_index, moved.x, moved.y)} == {"meta"}
    assert (moved.batch_size, moved.stats) == (batch.batch_size, batch.stats)
    assert batch.x.device.type == "cpu"
    copy = pickle.loads(pickle.dumps(batch))
    assert fingerprint(copy) == fingerprint(batch)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU to pin memory for")
def test_mini_batches_are_pinned(dataset):
    batch = next(iter(make_loader(dataset[0]))).pin_memory()
    assert batch.x.is_pinned()
    assert batch.edge_index.is_pinned()


def test_pin_memory_reaches_the_batch(dataset, monkeypatch):
    """Without a GPU torch pins nothing: that it would be asked is what can be seen."""
    pinned = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: pinned.append(self) or self)
    batch = next(iter(make_loader(dataset[0])))
    batch.pin_memory()
    assert len(pinned) == 6


def test_pyg_gets_its_own_type(dataset):
    pytest.importorskip("torch_geometric")
    batch = next(iter(make_loader(dataset[0])))
    data = batch.to_pyg()
    assert data.num_nodes == batch.num_nodes
    assert data.batch_size == 16
    assert torch.equal(data.edge_index, batch.edge_index)
    assert data.validate()


def test_batches_do_not_alias_the_files(dataset):
    folder, features, _ = dataset
    for batch in make_loader(folder):
        batch.x.zero_()
        batch.n_id.zero_()
        batch.input_id.zero_()
    ds = gz.open(folder)
    np.testing.assert_array_equal(np.asarray(ds.features), features)


def test_stats_count_what_was_missing(dataset):
    folder, _, _ = dataset
    batch = next(iter(make_loader(folder)))
    assert batch.stats.sampled > 0
    assert batch.stats.gathered > 0
    assert batch.stats.pages_missed >= 0


SCRIPT_FORK = """
import sys
import torch
import graphzero as gz

if __name__ == "__main__":
    ds = gz.open(sys.argv[1])
    batches = gz.NeighborDataset(ds, None, [4, 3], batch_size=32, num_threads=2)
    first = [b.x.sum().item() for b in map(gz.Collate(ds), batches)]
    ds.graph.random_walk(range(5000 % ds.num_nodes), 5, num_threads=2)
    for _ in range(3):
        loader = torch.utils.data.DataLoader(
            batches, batch_size=None, num_workers=2, collate_fn=gz.Collate(ds),
            multiprocessing_context="fork", timeout=60)
        batches.set_epoch(0)
        assert [b.x.sum().item() for b in loader] == first
        # the parent's own pool must work again after each fork
        batches.set_epoch(0)
        assert [b.x.sum().item() for b in map(gz.Collate(ds), batches)] == first
    print("done", len(first))
"""


def test_workers_forked_after_parallel_sampling_do_not_hang(tmp_path):
    rng = np.random.default_rng(0)
    # Large enough that hops span several ranges, and so really run on two threads.
    files.write_dataset(
        tmp_path / "data",
        files.random_edges(5000, 60_000),
        5000,
        features=rng.standard_normal((5000, 8)).astype(np.float32),
    )
    (tmp_path / "script.py").write_text(SCRIPT_FORK)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "data")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("done 157")


SCRIPT_RANKS = """
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import graphzero as gz

def run(rank, folder, init):
    dist.init_process_group("gloo", init_method=init, rank=rank, world_size=2)
    ds = gz.open(folder)
    batches = gz.NeighborDataset(
        ds, ds.splits["train"], [2], batch_size=16, shuffle=True, distributed=True, even=False)
    for epoch, (workers, method) in enumerate(((0, None), (1, "spawn"), (2, "fork"))):
        batches.set_epoch(epoch)
        loader = torch.utils.data.DataLoader(
            batches, batch_size=None, num_workers=workers, collate_fn=gz.Collate(ds),
            multiprocessing_context=method)
        ids = [b.input_id.tolist() for b in loader]
        assert len(ids) == len(loader) == (7 if rank == 0 else 6), (rank, len(ids), len(loader))
        both = [None, None]
        dist.all_gather_object(both, ids)
        seen = sorted(sum(both[0] + both[1], []))
        assert seen == list(range(203)), seen
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(run, args=(sys.argv[1], "file://" + sys.argv[2]), nprocs=2)
    print("done")
"""


@pytest.mark.extended
@pytest.mark.parametrize("order", ["hot"], indirect=True)
def test_ranks_partition_the_epoch(dataset, tmp_path):
    if not torch.distributed.is_available():
        pytest.skip("this torch has no distributed")
    (tmp_path / "script.py").write_text(SCRIPT_RANKS)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py"), str(dataset[0]), str(tmp_path / "init")],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "done" in done.stdout
