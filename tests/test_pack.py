"""Packed batches are those of a `NeighborDataset`, byte for byte, and come from the pack."""

from __future__ import annotations

import time
from contextlib import closing

import files
import numpy as np
import pytest

import graphzero as gz
from graphzero.io import plan as io_plan
from graphzero.io.memory import BUDGET
from graphzero.io.prefetch import direct_reader
from graphzero.packs.pack_file import open_pack
from graphzero.sampling.order import num_batches
from graphzero.store.format import read_file

pytest.importorskip("torch")
pytestmark = pytest.mark.no_asan  # Python, over code that runs there in test_row_io

NODES, DIM, BATCH = 6000, 64, 32  # 256 bytes a row
SEEDS = np.random.default_rng(3).integers(0, NODES, 150)  # some repeated, a short last batch
SEEDS[5:9] = SEEDS[0]
SAMPLING = {"batch_size": BATCH, "shuffle": True, "seed": 5}
FANOUTS = [6, 4]
EPOCHS = range(2, 5)
# less than rows, topology and batches take, and an iteration itself
MEMORY = io_plan.ITERATION_BYTES + 1_400_000


def write_dataset(folder):
    rng = np.random.default_rng(0)
    files.write_dataset(
        folder,
        files.random_edges(NODES, 60_000),
        NODES,
        features=rng.standard_normal((NODES, DIM)).astype(np.float32),
        labels=rng.integers(0, 5, NODES),
        order="hot",
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packed") / "data"
    write_dataset(folder)
    return folder


@pytest.fixture(scope="module", params=[0, 0.3, 1.0])
def packed(request, folder, tmp_path_factory):
    """(folder, pack); nothing, a part and all of the rows are resident."""
    out = tmp_path_factory.mktemp("pack") / "p.gd"
    with gz.open(folder) as ds:
        make_pack(ds, out, resident=request.param)
    return folder, out


def make_pack(ds, out, seeds=SEEDS, **options):
    given = {"epochs": len(EPOCHS), "first_epoch": EPOCHS[0], **SAMPLING, **options}
    return gz.pack(ds, out, seeds, FANOUTS, **given)


def fingerprint(batch):
    tensors = [batch.n_id, batch.edge_index, batch.e_id, batch.input_id, batch.x, batch.y]
    return b"".join(tensor.numpy().tobytes() for tensor in tensors if tensor is not None)


def epoch_of(batches, epoch):
    batches.set_epoch(epoch)
    collate = gz.Collate(batches.dataset)
    return [fingerprint(collate(sampled)) for sampled in batches]


@pytest.fixture(scope="module")
def expected(folder):
    """Fingerprints of the batches of each packed epoch."""
    plain = gz.NeighborDataset(gz.open(folder), SEEDS, FANOUTS, **SAMPLING)
    return {epoch: epoch_of(plain, epoch) for epoch in EPOCHS}


@pytest.mark.parametrize(
    ("strategy", "lookahead"),
    [("none", 0), ("willneed", 3), ("pread", 0), ("uring", 3), ("auto", 1)],
)
def test_every_strategy_gives_the_same_bytes(packed, expected, strategy, lookahead):
    folder, out = packed
    files.drop_from_cache(out)
    prefetch = gz.Prefetch(strategy, lookahead=lookahead)
    batches = gz.PackedDataset(gz.open(folder), out, SEEDS, prefetch=prefetch)
    assert len(batches) == 5
    for epoch in EPOCHS:
        assert epoch_of(batches, epoch) == expected[epoch]


def test_the_file_holds_the_rows_of_each_batch(packed):
    """Read by the pure-Python reader, and compared with what a sampler and an array say."""
    folder, out = packed
    ds = gz.open(folder)
    header, arrays = read_file(out)
    pack = open_pack(out)
    resident = pack.info.resident_rows
    assert header.num_nodes == pack.store.num_nodes
    rows, offsets = arrays["rows"].reshape(-1, DIM), arrays["batch_offsets"]
    stored = ds.features.get_tensor(stored_order=True)
    np.testing.assert_array_equal(rows[:resident], stored[:resident])
    plain = gz.NeighborDataset(ds, SEEDS, FANOUTS, gather=(), **SAMPLING)
    at = 0
    for epoch in EPOCHS:
        plain.set_epoch(epoch)
        for sampled in plain:
            wanted = sampled.subgraph.stored_id
            wanted = wanted[wanted >= resident]
            np.testing.assert_array_equal(rows[offsets[at] : offsets[at + 1]], stored[wanted])
            at += 1
    assert at == len(offsets) - 1 == len(EPOCHS) * num_batches(len(SEEDS), BATCH, False)
    assert offsets[-1] == len(rows)


def test_a_packed_batch_is_one_run(folder, tmp_path):
    """Its bytes and the pages at both ends, in reads of 64 KiB."""
    ds = gz.open(folder)
    out = make_pack(ds, tmp_path / "p.gd", resident=0)
    pack = open_pack(out)
    batches = gz.PackedDataset(ds, out, SEEDS, prefetch=gz.Prefetch("pread"))
    plain = gz.NeighborDataset(ds, SEEDS, FANOUTS, prefetch=gz.Prefetch("pread"), **SAMPLING)
    for each in (batches, plain):
        each.set_epoch(2)
    for packed, unpacked in zip(batches, plain, strict=True):
        row_bytes = len(packed.subgraph.n_id) * DIM * 4
        assert row_bytes / 4096 <= packed.stats.pages_missed <= row_bytes / 4096 + 2
        assert unpacked.stats.pages_missed > 2 * packed.stats.pages_missed
    reader = direct_reader(pack.store, "pread", 2)
    for begin, end in zip(pack.offsets[:-1], pack.offsets[1:], strict=True):
        _, pages, reads = reader.fetch(np.arange(begin, end)).counts
        assert reads == -(-pages // 16)
    reader.close()


def test_resident_rows_are_those_of_the_plan(folder, expected, tmp_path):
    """All that was left out of the batches; less where memory, or the user, allows less."""
    ds = gz.open(folder)
    head = 3072  # whole pages
    out = make_pack(ds, tmp_path / "p.gd", resident=head * DIM * 4)
    assert open_pack(out).info.resident_rows == head

    def rows_kept(wanted, strategy="pread", **prefetch):
        prefetch = gz.Prefetch(strategy, lookahead=0, **prefetch)
        batches = gz.PackedDataset(ds, out, SEEDS, prefetch=prefetch)
        assert epoch_of(batches, 2) == expected[2]
        row_bytes = batches._pack.store.row_bytes
        with closing(iter(batches)) as iterator:
            io = next(iterator).stats.io
            (lease,) = BUDGET.leases
            deadline = time.monotonic() + 20  # rows are kept in the background
            while True:
                rows = lease.prefixes[-1].kept_bytes // row_bytes
                if wanted(rows) or time.monotonic() > deadline:
                    break
                time.sleep(0.01)
        assert epoch_of(batches, 3) == expected[3]
        assert wanted(rows)
        return io

    rows_kept(head.__eq__)
    rows_kept((head // 2).__eq__, resident=0.5)
    rows_kept(head.__eq__, resident=1 << 30)
    rows_kept((0).__eq__, resident=0)
    assert "; 0 bytes of memory available" in rows_kept((0).__eq__, memory_limit=0)
    # without the buffers of direct reads, which are larger than this file
    io = rows_kept(lambda rows: 0 < rows < head, "willneed", memory_limit=MEMORY)
    assert "for resident rows" in io


def test_later_epochs_are_packed_ones_again(packed, expected):
    folder, out = packed
    batches = gz.PackedDataset(gz.open(folder), out, SEEDS)
    for epoch, of in ((5, 2), (7, 4), (0, 3), (1, 4), (302, 2)):
        assert batches.sampled_epoch(epoch) == of
        assert epoch_of(batches, epoch) == expected[of]
        assert batches.epoch == epoch + 1  # the next pass is the next epoch


@pytest.mark.parametrize(
    "options",
    [{"replace": True}, {"labor": True, "drop_last": True}, {"disjoint": True, "shuffle": False}],
)
def test_sampling_options_are_the_packs(folder, tmp_path, options):
    ds = gz.open(folder)
    out = make_pack(ds, tmp_path / "p.gd", resident=0.1, **options)
    plain = gz.NeighborDataset(ds, SEEDS, FANOUTS, **{**SAMPLING, **options})
    batches = gz.PackedDataset(ds, out, SEEDS)
    assert epoch_of(batches, 2) == epoch_of(plain, 2)
    assert len(batches) == len(plain)


def test_features_beside_a_graph_in_another_order(folder, tmp_path):
    """An .npy, whose head is not that of the graph's order."""
    with gz.open(folder) as whole:
        np.save(tmp_path / "x.npy", whole.features[:])
    ds = gz.Dataset(gz.Graph(folder / "graph.gl"), gz.FeatureStore(tmp_path / "x.npy"))
    out = make_pack(ds, tmp_path / "p.gd", resident=0.2)
    plain = gz.NeighborDataset(ds, SEEDS, FANOUTS, **SAMPLING)

    def xs(batches):
        return [sampled.rows["x"].tobytes() for sampled in batches]

    batches = gz.PackedDataset(ds, out, SEEDS, prefetch=gz.Prefetch("pread"))
    for each in (batches, plain):
        each.set_epoch(3)
    assert xs(batches) == xs(plain)


@pytest.mark.parametrize("dtype", [np.int8, np.float64, gz.BFLOAT16])
def test_a_vector_of_any_dtype_is_packed(tmp_path, dtype):
    """Rows shorter and longer than those of other tests, and one-dimensional features."""
    values = np.random.default_rng(0).integers(-100, 100, NODES)
    values = values.astype(np.uint16 if dtype == gz.BFLOAT16 else dtype).view(dtype)
    files.write_dataset(
        tmp_path / "data", files.random_edges(NODES, 20_000), NODES, features=values, order="hot"
    )
    ds = gz.open(tmp_path / "data")
    out = make_pack(ds, tmp_path / "p.gd", resident=100)
    for sampled in gz.PackedDataset(ds, out, SEEDS, prefetch=gz.Prefetch("pread")):
        assert sampled.rows["x"].dtype == dtype
        np.testing.assert_array_equal(sampled.rows["x"], values[sampled.subgraph.n_id])
    converted = gz.PackedDataset(ds, out, SEEDS, feature_dtype="float32")
    for sampled in converted:
        expected = ds.features.gather(sampled.subgraph.n_id, dtype="float32")
        np.testing.assert_array_equal(sampled.rows["x"], expected)
        assert sampled.rows["x"].dtype == np.float32
