"""`device=`, `device_cache=` and `DeviceLoader`, with the processor as the device, and on a GPU."""

from __future__ import annotations

import gc
import os
import threading
import time

import files
import numpy as np
import pytest
from ready_loaders import OPTIONS, all_same, loader_of, reference, same

import graphzero as gz

torch = pytest.importorskip("torch")

from loaders import loader_of as plain_loader  # noqa: E402
from loaders import refused  # noqa: E402

from graphzero import _core  # noqa: E402
from graphzero.loader import device as devices  # noqa: E402
from graphzero.loader.device_rows import _RESIDENT  # noqa: E402
from graphzero.loader.host_blocks import HostBlock  # noqa: E402

pytestmark = pytest.mark.no_asan

CPU = torch.device("cpu")
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=on_gpu)]


@pytest.fixture
def hot(tmp_path):
    """A dataset in hot order with float16 features, labels and edge attributes."""
    rng = np.random.default_rng(4)
    with gz.build(
        tmp_path / "hot",
        {"edge_index": files.random_edges(400, 5000, seed=4), "edge_attr": rng.random((5000, 2))},
        rng.standard_normal((400, 20)).astype(np.float16),
        rng.integers(0, 3, 400),
        {"train": rng.permutation(400)[:150]},
    ) as ds:
        yield ds


@pytest.fixture
def typed(tmp_path):
    rng = np.random.default_rng(5)
    nodes = {"u": {"x": rng.random((90, 3), np.float32)}, "v": {"x": rng.random((60, 5))}}
    edges = {
        ("u", "to", "v"): np.stack([rng.integers(0, 90, 700), rng.integers(0, 60, 700)]),
        ("v", "of", "u"): np.stack([rng.integers(0, 60, 500), rng.integers(0, 90, 500)]),
    }
    splits = {"train": {"v": np.arange(40)}}
    with gz.build(tmp_path / "typed", nodes=nodes, edges=edges, splits=splits) as ds:
        yield ds


def at_home(batches):
    return [batch.to("cpu") for batch in batches]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "options",
    [
        *({}, {"num_workers": 2}, {"num_workers": 2, "persistent_workers": True}),
        *({"feature_dtype": "float32"}, {"gather": ["y"]}, {"disjoint": True}),
        *({"device_cache": 0.3}, {"device_cache": 1.0, "feature_dtype": "float32"}),
        *({"device_cache": "1kB"}, {"device_cache": 0.0}, {"prefetch": gz.Prefetch(lookahead=0)}),
        {"device_cache": 0.5, "prefetch": gz.Prefetch("uring", resident=0.2)},
        {"input_id": np.zeros((150, 50))},  # more than a block has room for
    ],
)
def test_batches_on_a_device_are_the_same(hot, device, options):
    plain = {name: value for name, value in options.items() if name != "device_cache"}
    expected = loader_of(hot, shuffle=True, **plain)
    loader = loader_of(hot, shuffle=True, device=device, **options)
    assert loader.device.type == device
    for _ in range(2):
        batches = list(loader)
        assert {
            value.device for batch in batches for _, value in batch if torch.is_tensor(value)
        } == {loader.device}
        assert all_same(at_home(batches), expected)
    assert same(at_home([loader([3, 1])])[0], expected([3, 1]))


def test_rows_that_a_device_has_are_not_kept_in_memory_as_well(tmp_path):
    path = files.write_random(tmp_path / "large", 20_000, 200_000, 128, order="hot")  # 10 MB
    with gz.open(path) as ds:
        sizes = {}
        for cache in (None, 0.5, 1.0):
            prefetch = gz.Prefetch("pread", resident=1.0, memory_limit="30MB")
            how = {"device": "cpu", "device_cache": cache, "prefetch": prefetch}
            loader = gz.NeighborLoader(ds, [5], np.arange(2000), batch_size=64, **how)
            for batch in loader:
                np.testing.assert_array_equal(batch.x, ds.features.gather(batch.n_id.numpy()))
            _, after, text = batch.stats.io.partition("pread, ")
            sizes[cache] = text.split(" of rows")[0] if after else "nothing"
    assert sizes == {None: "10 MB", 0.5: "5.1 MB", 1.0: "nothing"}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("cache", [None, 0.4, 1.0])
def test_typed_batches_on_a_device_are_the_same(typed, device, cache):
    fanouts = [3, 2]
    loader = gz.NeighborLoader(
        typed, fanouts, "train", device=device, device_cache=cache, **OPTIONS
    )
    assert all_same(at_home(loader), gz.NeighborLoader(typed, fanouts, "train", **OPTIONS))


@pytest.mark.parametrize("device", DEVICES)
def test_every_loader_has_a_device(hot, device):
    pyg = pytest.importorskip("graphzero.pyg")
    links = {"num_neighbors": [3], "neg_sampling": "binary", "batch_size": 50, "seed": 1}
    for kind in (gz.LinkNeighborLoader, pyg.LinkNeighborLoader):
        loader = kind(hot, device=device, device_cache=0.5, **links)
        assert all_same(at_home(loader), kind(hot, **links))
    neighbors = {"num_neighbors": [4, 3], "input_nodes": "train", **OPTIONS}
    loader = pyg.NeighborLoader(hot, device=device, device_cache=0.5, **neighbors)
    assert all_same(at_home(loader), pyg.NeighborLoader(hot, **neighbors))
    sets = {"sets": [[1, 2, 3], [5, 8]], "seed": 1}
    subgraphs = gz.SubgraphLoader(hot, device=device, **sets)
    assert all_same(at_home(subgraphs), gz.SubgraphLoader(hot, **sets))


def test_a_transform_gets_what_arrived(hot):
    seen = []
    loader = loader_of(hot, device="cpu", transform=lambda batch: seen.append(batch) or batch.y)
    labels = [batch.y for batch in loader_of(hot)]
    assert all(map(torch.equal, loader, labels))
    assert seen[0].stats.sent_bytes > seen[0].x.nbytes


def test_a_cache_is_not_sent(hot):
    sent = [
        sum(batch.stats.sent_bytes for batch in loader_of(hot, device="cpu", device_cache=share))
        for share in (0.2, 0.5, 1.0)
    ]
    assert sent[0] > sent[1] > sent[2] > 0
    assert all(
        batch.stats.row_bytes == 0
        for batch in loader_of(hot, device="cpu", device_cache=1.0, gather=["x"])
    )


def test_loaders_share_what_is_on_a_device(hot, tmp_path):
    gc.collect()
    one = loader_of(hot, device="cpu", device_cache=0.5)
    with gz.open(tmp_path / "hot") as again:
        other = loader_of(again, device="cpu", device_cache=0.5)
        assert all_same(one, other)
        assert len(_RESIDENT) == 1
        gz.set_attribute(tmp_path / "hot", "x", np.ones((400, 20), np.float16))
        third = loader_of(again.reload(), device="cpu", device_cache=0.5)
        assert all(bool((batch.x == 1).all()) for batch in third)
    del one, other, third
    gc.collect()
    assert len(_RESIDENT) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "nothing"}, "this machine has"),
        ({"device": 2.5}, "this machine has"),
        ({"device": "cpu", "device_cache": 1.5}, "fraction from 0 to 1"),
        ({"device": "cpu", "device_cache": -1}, "fraction from 0 to 1"),
        ({"device": "cpu", "device_cache": "4 GX"}, "device_cache '4 GX' is not a size"),
        ({"device_cache": 0.5}, "give device= as well"),
        ({"device": "cpu", "device_cache": 0.5, "num_workers": 1}, "leave num_workers out"),
    ],
)
def test_what_a_device_cannot_do(hot, options, message):
    with pytest.raises(ValueError, match=message):
        loader_of(hot, **options)


@pytest.mark.parametrize("order", ["input"], indirect=True)
def test_a_cache_needs_hot_order(ds):
    with pytest.raises(ValueError, match="graphzero reorder DIR --order hot"):
        loader_of(ds, device="cpu", device_cache=0.5)


def test_a_cache_must_fit(hot, monkeypatch):
    monkeypatch.setattr("graphzero.loader.device_rows.available_memory", lambda: 4000)
    with pytest.raises(ValueError, match=r"16 kB does not fit on cpu, which has 4\.0 kB free"):
        loader_of(hot, device="cpu", device_cache=1.0)
    assert len(list(loader_of(hot, device="cpu", device_cache=0.2))) == 8


def test_who_keeps_labels_keeps_no_rows(tmp_path):
    rows = np.ones((3000, 512), np.float32)
    edges = files.random_edges(3000, 30000)
    with gz.build(tmp_path / "data", edges, rows, np.arange(3000)) as ds:
        loader = gz.NeighborLoader(ds, [10, 5], batch_size=500, device="cpu")
        before, kept = _core.pool_state()[0], []
        for batch in loader:
            kept += [batch.y, batch.n_id, batch.input_id]
            large = batch.x.untyped_storage().data_ptr()
        del batch
        assert large not in {tensor.untyped_storage().data_ptr() for tensor in kept}
        assert sum(tensor.untyped_storage().nbytes() for tensor in kept) < rows.nbytes / 10
        assert _core.pool_state()[0] == before


class Recorded:
    """In place of streams: what is asked of them, and by which thread."""

    def __init__(self):
        self.calls = []

    def _note(self, call):
        self.calls.append((call, threading.current_thread() is threading.main_thread()))

    def __enter__(self):
        self._note("copy")

    def __exit__(self, *_):
        self._note("end")

    def copying(self):
        return self

    def mark(self):
        self._note("mark")

    def read(self, tensors):
        self.resident = [len(tensor) for tensor in tensors]

    def receive(self, arrival, tensors):
        self._note(f"receive {sorted(tensor.numel() for tensor in tensors)[-1]}")


@pytest.mark.parametrize("workers", [0, 1])
def test_the_loop_only_receives(hot, monkeypatch, workers):
    streams = Recorded()
    monkeypatch.setattr(devices, "_streams_of", lambda device: streams)
    monkeypatch.setattr(devices, "HostBlock", lambda size, pinned: HostBlock(size, pinned=False))
    batches = []
    cache = None if workers else 0.5
    for batch in loader_of(hot, device="cpu", num_workers=workers, device_cache=cache):
        batches.append(batch)
        assert streams.calls.count((f"receive {batch.x.numel()}", True)) > 0
    of_loop = [call for call, is_main in streams.calls if is_main]
    assert len(of_loop) == len(batches)
    assert workers or streams.resident == [hot.num_nodes // 2]
    assert all(call.startswith("receive") for call in of_loop)
    assert [call for call, is_main in streams.calls if not is_main].count("mark") == 2 * len(
        batches
    )


@pytest.mark.parametrize("device", DEVICES)
def test_a_device_loader_sends_batches_of_any_loader(hot, device):
    source = reference(hot)
    expected = list(plain_loader(source))
    loader = gz.DeviceLoader(plain_loader(source, 2), device)
    assert len(loader) == len(expected)
    source.set_epoch(0)
    assert all_same(at_home(loader), expected)
    data = pytest.importorskip("torch_geometric.data")
    sparse = torch.eye(3).to_sparse()
    graph = data.Data(x=torch.rand(3, 2), name="first")
    items = [
        {"a": [torch.ones(2), 5], "b": (torch.zeros(2, 0), None)},
        graph,
        torch.arange(4),
        sparse,
    ]
    sent = list(gz.DeviceLoader(items, device))
    assert (sent[0]["a"][0].tolist(), sent[0]["a"][1], sent[0]["b"][1]) == ([1, 1], 5, None)
    assert (sent[0]["b"][0].shape, sent[0]["b"][0].device.type) == ((2, 0), device)
    assert torch.equal(sent[1].x.cpu(), graph.x)
    assert torch.equal(sent[3].to_dense().cpu(), torch.eye(3))
    assert (sent[1].name, sent[1] is graph, sent[2].tolist()) == ("first", False, [0, 1, 2, 3])
    assert len(list(loader)) == len(expected)  # another pass


def test_loaders_that_need_no_device_loader(hot):
    with pytest.raises(ValueError, match="NeighborLoader has device= itself"):
        gz.DeviceLoader(loader_of(hot), "cpu")
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    with pytest.raises(ValueError, match="still on their way"):
        gz.DeviceLoader(
            stateful(reference(hot), batch_size=None, collate_fn=gz.Collate(hot)), "cpu"
        )


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_comes_in_its_place(hot, workers):
    def fail(batch):
        if batch.input_id[0] > 0:
            raise ArithmeticError("not of the first one")
        return batch

    batches = iter(loader_of(hot, device="cpu", num_workers=workers, transform=fail))
    next(batches)
    with refused(ArithmeticError, "not of the first one"):
        next(batches)
    del batches

    def items():
        yield torch.ones(1)
        raise ArithmeticError("the second")

    sent = iter(gz.DeviceLoader(items(), "cpu"))
    next(sent)
    with pytest.raises(ArithmeticError, match="the second"):
        next(sent)
    with pytest.raises(StopIteration):
        next(sent)


@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (2, False), (2, True)])
def test_passes_that_are_left(hot, workers, persistent):
    options = {"shuffle": True, "num_workers": workers, "persistent_workers": persistent}
    loader = loader_of(hot, device="cpu", **options)
    held = iter(loader)
    first = next(held)
    if not persistent:  # which serve one pass at a time
        del held
    for _ in loader:
        break
    state = loader.state_dict()
    expected = loader_of(hot, shuffle=True)
    expected.set_epoch(2)
    assert all_same(loader, expected)
    loader.load_state_dict(state)
    expected.set_epoch(1)
    assert all_same(loader, list(expected)[1:])
    expected.set_epoch(0)
    assert same(first, next(iter(expected)))


def left_behind():
    gc.collect()
    names = [thread.name for thread in threading.enumerate() if "graphzero" in thread.name]
    return len(names), len(os.listdir("/proc/self/fd")), _core.pool_state()[0]


@pytest.mark.parametrize("passes", [pytest.param(10_000, marks=pytest.mark.extended), 100])
def test_passes_leave_nothing_behind(hot, passes):
    loader = loader_of(hot, device="cpu", device_cache=0.5)
    plain = gz.DeviceLoader(plain_loader(reference(hot)), "cpu")
    before = left_behind()
    for number in range(passes):
        for _ in plain if number % 2 else loader:
            break
        iter(loader)
        iter(plain)
    del _
    end = time.monotonic() + 60
    while left_behind() != before and time.monotonic() < end:
        time.sleep(0.01)  # what was dropped ends by itself
    assert left_behind() == before


@on_gpu
def test_pinned_batches_are_made_so(hot):
    batches = list(loader_of(hot, pin_memory=True))
    assert all(value.is_pinned() for _, value in batches[0] if torch.is_tensor(value))
    assert all_same(batches, loader_of(hot))
