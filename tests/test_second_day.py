"""What scripts for PyG use on their second day: fewer attributes, ranks, layer-wise inference."""

from __future__ import annotations

import copy
import multiprocessing
import os
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

import graphzero as gz

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

import torch_geometric.transforms as T  # noqa: E402
from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.nn.models import GAT, GraphSAGE  # noqa: E402

import graphzero.api  # noqa: E402
import graphzero.pyg  # noqa: E402
from graphzero.pyg import NeighborLoader, from_data  # noqa: E402
from graphzero.store.atomic import folder_lock  # noqa: E402

# The C code that these loaders reach is sanitized by the tests of their open form.
pytestmark = pytest.mark.no_asan


def make_data(num_nodes=90, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return Data(
        x=torch.randn(num_nodes, 6, generator=rng),
        edge_index=torch.randint(0, num_nodes, (2, 7 * num_nodes), generator=rng),
        edge_attr=torch.rand(7 * num_nodes, 2, generator=rng),
        y=torch.randint(0, 3, (num_nodes,), generator=rng),
        flag=torch.rand(num_nodes, generator=rng) < 0.5,
        train_mask=torch.rand(num_nodes, generator=rng) < 0.4,
    )


def make_typed():
    data, plain = HeteroData(), make_data()
    data["a"].x, data["b"].x = plain.x, plain.x[:40]
    data["a", "to", "b"].edge_index = plain.edge_index % 40
    data["b", "of", "a"].edge_index = plain.edge_index.flip(0) % 40
    return data


@pytest.fixture
def stored(tmp_path):
    with from_data(make_data(), tmp_path / "store") as data:
        yield data


@pytest.fixture
def typed(tmp_path):
    with from_data(make_typed(), tmp_path / "typed") as data:
        yield data


# --- gather=, and hops without neighbours


@pytest.mark.parametrize("room", [gz, graphzero.pyg])
@pytest.mark.parametrize("loader", ["NeighborLoader", "LinkNeighborLoader"])
def test_loaders_have_the_attributes_that_gather_names(stored, room, loader):
    seeds = torch.arange(8) if loader == "NeighborLoader" else torch.arange(16).view(2, 8)
    options = {"batch_size": 8, "seed": 1}
    make = getattr(room, loader)
    (every,) = make(stored, [3], seeds, **options)
    for names in ([], ["x"], ["y", "edge_attr"], ["flag"]):
        (batch,) = make(stored, [3], seeds, gather=names, **options)
        assert {*batch.keys()} & {"x", "y", "edge_attr", "flag"} == set(names)
        assert all(torch.equal(batch[name], every[name]) for name in names)
        assert torch.equal(batch.edge_index, every.edge_index)
        assert torch.equal(batch.n_id, every.n_id)
    with pytest.raises(ValueError, match=r"gather names \['z'\]"):
        make(stored, [3], seeds, gather=["z"])


@pytest.mark.parametrize("room", [gz, graphzero.pyg])
@pytest.mark.parametrize("hops", [[], [0], [0, 0], [0, 5]])
def test_batches_without_neighbours(stored, typed, room, hops):
    (batch,) = room.NeighborLoader(stored, hops, torch.tensor([7, 3]), batch_size=2, disjoint=True)
    assert batch.n_id.tolist() == [7, 3]
    assert torch.equal(batch.x, stored.x[[7, 3]])
    assert batch.edge_index.shape == (2, 0)
    assert batch.num_sampled_nodes == [2, *(0 for _ in hops)]
    assert batch.num_sampled_edges == [0 for _ in hops]
    (batch,) = room.NeighborLoader(typed, hops, ("b", torch.tensor([5])), batch_size=1)
    assert batch["b"].n_id.tolist() == [5]
    assert batch["a"].x.shape == (0, 6)
    assert batch["a", "to", "b"].edge_index.shape == (2, 0)
    assert batch["a"].num_sampled_nodes == [0, *(0 for _ in hops)]
    assert batch["a", "to", "b"].num_sampled_edges == [0 for _ in hops]
    (batch,) = room.LinkNeighborLoader(stored, hops, torch.tensor([[1], [2]]), batch_size=1)
    assert batch.n_id.tolist() == [1, 2]
    assert batch.edge_label_index.tolist() == [[0], [1]]


# --- ranks that build one folder

RING = np.array([[0, 1], [1, 2], [2, 0]])


def in_ranks(tmp_path, work, count=2, ending=0):
    """What `work` returns, or the text of its error, in each rank of a group that does not end."""
    context = multiprocessing.get_context("fork")
    results, write = context.SimpleQueue(), graphzero.api.write_dataset

    def noted(*arguments, **options):
        with open(tmp_path / "log", "a") as file:
            file.write("built ")
        time.sleep(0.2)
        return write(*arguments, **options)

    def run(rank):
        graphzero.api.write_dataset = noted  # in a process of its own
        init = f"file://{tmp_path}/init"
        torch.distributed.init_process_group("gloo", init, rank=rank, world_size=count)
        try:
            results.put((rank, work(rank)))
        except Exception as error:
            results.put((rank, f"{type(error).__name__}: {error}"))

    processes = [context.Process(target=run, args=(rank,)) for rank in range(count)]
    for process in processes:
        process.start()
    found = dict(results.get() for _ in range(count - ending))
    for process in processes:
        process.join()
    return [found[rank] for rank in sorted(found)]


@pytest.mark.parametrize("late", [0, 1])
def test_one_rank_builds_and_no_rank_opens_what_was_there_before(tmp_path, late):
    from_data(make_data(30), tmp_path / "store").close()

    def work(rank):
        time.sleep(0.6 * (rank == late))  # when the other one has built
        with from_data(make_data(50), tmp_path / "store") as data:
            first = data.x.tolist(), data.train_mask.tolist()
        torch.distributed.barrier()
        with gz.build(tmp_path / "store", RING) as ds:
            return (*first, ds.num_nodes)

    data = make_data(50)
    assert in_ranks(tmp_path, work) == [(data.x.tolist(), data.train_mask.tolist(), 3)] * 2
    assert (tmp_path / "log").read_text() == "built " * 2


def test_ranks_that_wait_have_the_error_of_the_one_that_builds(tmp_path):
    told, own = sorted(in_ranks(tmp_path, lambda rank: gz.build(tmp_path / "store", -RING)))
    assert told.startswith("RuntimeError: ")
    assert own.startswith("ValueError: ")
    assert told.endswith(f"failed: {own}")
    assert (tmp_path / "log").read_text() == "built "


def test_ranks_do_not_wait_for_one_that_has_ended(tmp_path):
    begun = multiprocessing.get_context("fork").Event()

    def end(*_, **__):
        begun.set()
        os._exit(1)

    def work(rank):
        if rank == 0:
            graphzero.api.write_dataset = end
        else:
            assert begun.wait(60)
        gz.build(tmp_path / "store", RING)

    (told,) = in_ranks(tmp_path, work, ending=1)
    assert "it has ended meanwhile" in told


@pytest.mark.extended
@pytest.mark.parametrize("shared", [True, False])
def test_hosts_that_do_not_share_the_folder_build_one_each(tmp_path, shared):
    def work(rank):
        disk = tmp_path / ("" if shared else f"disk{rank % 2}")
        disk.mkdir(exist_ok=True)
        os.chdir(disk)
        socket.gethostname = lambda: f"host{rank % 2}"
        os.path.realpath = lambda path, **_: path  # the same name on all hosts
        with gz.build("store", RING) as ds:
            return ds.num_edges

    assert in_ranks(tmp_path, work, count=4) == [3] * 4
    assert (tmp_path / "log").read_text() == "built " * (1 if shared else 2)


def test_a_rank_may_build_alone_or_a_folder_of_its_own(tmp_path):
    def work(rank):
        if rank == 1:
            gz.build(tmp_path / "store", RING).close()
        torch.distributed.barrier()
        with gz.open(tmp_path / "store") as ds, gz.build(tmp_path / str(rank), RING) as own:
            return ds.num_edges + own.num_edges

    assert in_ranks(tmp_path, work) == [6, 6]


@pytest.mark.extended
def test_a_folder_that_was_built_again_is_not_opened_for_the_first_build(tmp_path):
    built = multiprocessing.get_context("fork").Event()

    def work(rank):
        assert rank == 0 or built.wait(60)
        for size in (30, 40):
            from_data(make_data(size), tmp_path / "store").close()
        built.set()

    assert "has changed before all ranks had opened it" in in_ranks(tmp_path, work)[1]


SCRIPT = """
import sys, torch, graphzero.api, numpy
write = graphzero.api.write_dataset
def noted(*arguments, **options):
    with open(sys.argv[1] + ".log", "a") as file:
        file.write("built ")
    return write(*arguments, **options)
graphzero.api.write_dataset = noted
graphzero.api.build(sys.argv[1], numpy.array([[0, 1], [1, 2], [2, 0]])).close()
"""


@pytest.mark.extended
def test_ranks_of_torchrun_before_there_is_a_group(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [str(tmp_path / "script.py"), str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "store.log").read_text() == "built "


def test_without_torch_nothing_imports_it_and_ranks_are_told(tmp_path):
    gz.build(tmp_path, RING).close()
    with (
        folder_lock(tmp_path),
        pytest.raises(BlockingIOError, match="init_process_group: then one"),
    ):
        gz.build(tmp_path, RING)
    code = f"import sys, graphzero as gz; gz.build({str(tmp_path)!r}, [[0, 1, 2], [1, 2, 0]])"
    code += "; assert 'torch' not in sys.modules"
    environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=tmp_path)


# --- names of PyG on batches and stored graphs


def test_only_the_named_tensors_move(stored, typed):
    (batch,) = gz.NeighborLoader(stored, [3], np.arange(5), batch_size=5)
    assert batch.to("meta", "x", "y", "absent") is batch
    assert {name for name, one in batch if getattr(one, "is_meta", False)} == {"x", "y"}
    (batch,) = gz.NeighborLoader(typed, [3], ("a", np.arange(5)), batch_size=5)
    batch.to("meta", "x")
    assert [one.is_meta for one in batch.x_dict.values()] == [True, True]
    assert not batch["a"].n_id.is_meta


def test_attributes_of_batches_are_deleted_and_nodes_are_not(stored, typed):
    (batch,) = gz.NeighborLoader(stored, [3], np.arange(5), batch_size=5)
    (of_types,) = gz.NeighborLoader(typed, [3], ("a", np.arange(5)), batch_size=5)
    del batch.x, batch["y"], batch.flag, of_types["a"].x, of_types["b"]["x"]
    assert batch.x is None
    assert batch.y is None
    assert not {"x", "y", "flag"} & {*batch.keys(), *batch.to_pyg().keys(), *of_types.keys()}
    with pytest.raises(AttributeError, match="no 'flag' here"):
        del batch.flag
    with pytest.raises(KeyError, match="no 'flag' here"):
        del batch["flag"]
    for store, count in ((batch, batch.num_nodes), (of_types["a"], of_types["a"].num_nodes)):
        store.num_nodes, store.n_id = count, store.n_id + 1
        for name, value in (("num_nodes", count + 1), ("n_id", store.n_id[1:])):
            with pytest.raises(AttributeError, match=f"{name} cannot be set.* {count} nodes"):
                setattr(store, name, value)
        with pytest.raises(AttributeError, match="n_id cannot be deleted"):
            del store.n_id
    del batch.edge_index
    assert batch.num_edges == 0


def test_transforms_of_pyg_get_its_batches(stored, typed):
    options = {"batch_size": 9, "seed": 1}
    transform = T.Compose([T.NormalizeFeatures(), T.ToUndirected()])
    for ds, seeds in ((stored, np.arange(9)), (typed, ("a", np.arange(9)))):
        (ours,) = gz.NeighborLoader(ds, [3], seeds, transform=transform, **options)
        (theirs,) = NeighborLoader(ds, [3], seeds, transform=transform, **options)
        assert type(ours) is type(theirs)
        assert ours.stats is not None
        pairs = [(ours["a"], theirs["a"])] if ds is typed else [(ours, theirs)]
        assert all(torch.equal(one.x, other.x) for one, other in pairs)
        assert ours.num_edges == theirs.num_edges
        (batch,) = gz.NeighborLoader(ds, [3], seeds, **options)
        for each in (T.NormalizeFeatures(), T.AddSelfLoops(), T.ToUndirected()):
            with pytest.raises(AttributeError, match=r"use batch.to_pyg\(\), or the loaders"):
                each(batch)
        for each in (T.ToUndirected(), T.NormalizeFeatures(), T.AddSelfLoops()):
            with pytest.raises(AttributeError, match="before `from_data`"):
                each(ds)


def test_what_is_set_and_deleted_on_a_stored_graph_is_done_or_refused(stored, typed):
    for data, whole in ((stored, stored), (typed["b"], typed)):
        data.n_id, data.num_nodes = torch.arange(data.num_nodes), data.num_nodes
        for name, value in (("n_id", torch.arange(data.num_nodes).flip(0)), ("num_nodes", 7)):
            with pytest.raises(AttributeError, match=f"{name} cannot be set"):
                setattr(data, name, value)
        with pytest.raises(AttributeError, match=r"x cannot be deleted.*gather=.*copy.copy"):
            del data.x
        with pytest.raises(AttributeError, match="x cannot be deleted"):
            del data["x"]
        assert len(NeighborLoader(whole, [2], "b" if whole is typed else None)) == data.num_nodes


@pytest.mark.parametrize("workers", [0, 1])
def test_batches_lack_what_is_deleted_from_a_copy(stored, typed, workers):
    data, of_types = copy.copy(stored), copy.copy(typed)
    options = {"batch_size": 90, "num_workers": workers, "persistent_workers": workers > 0}
    loader = NeighborLoader(data, [2], **options)
    (batch,) = loader
    assert {"x", "y", "train_mask"} < {*batch.keys()}
    del loader.data.x, data["train_mask"], of_types["b"].x
    with pytest.raises(AttributeError, match="no attribute 'x' to delete"):
        del data.x
    (batch,) = loader
    assert "y" in batch
    assert not {"x", "train_mask"} & {*batch.keys(), *data.keys()}
    (batch,) = NeighborLoader(of_types, [2], "b", **options)
    assert list(batch.x_dict) == ["a"]
    assert {"x", "train_mask"} < {*stored.keys()}
    assert "x" in typed["b"]


# --- layer-wise inference


@pytest.mark.parametrize(
    ("model", "options"), [(GAT, {}), (GraphSAGE, {"cache": True, "embedding_device": "cpu"})]
)
def test_inference_of_pygs_models_is_the_full_forward(stored, model, options):
    torch.manual_seed(0)
    net = model(6, 16, num_layers=3, out_channels=4).eval()
    data = make_data()
    with torch.no_grad():
        expected = net(data.x, data.edge_index)
    loader = NeighborLoader(stored, [-1], batch_size=16, gather=[], num_workers=0)
    for one in (loader, copy.copy(loader)):
        found = net.inference(one, **options)
        assert torch.allclose(found, expected, atol=1e-5)
    assert all("x" not in batch for batch in loader)


def test_inference_refuses_loaders_whose_batches_are_not_all_nodes_in_order(stored):
    net = GraphSAGE(6, 16, num_layers=2, out_channels=4).eval()
    ranks = {"rank": 0, "world_size": 2, "seed": 0}
    backwards = {"input_nodes": torch.arange(90).flip(0)}
    for options in ({"shuffle": True}, {"drop_last": True}, backwards, ranks):
        with pytest.raises(ValueError, match="inference takes .* in their order"):
            net.inference(NeighborLoader(stored, [-1], batch_size=16, **options))
