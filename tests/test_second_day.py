"""What scripts for PyG use on their second day: fewer attributes, ranks, layer-wise inference."""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import graphzero as gz

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.data import Data, HeteroData  # noqa: E402

import graphzero.api  # noqa: E402
import graphzero.pyg  # noqa: E402
from graphzero.ingest.folder import folder_lock  # noqa: E402
from graphzero.pyg import from_data  # noqa: E402

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


def test_no_hop_of_an_induced_subgraph_has_the_edges_between_the_seeds(stored):
    (batch,) = gz.NeighborLoader(stored, [], np.arange(20), batch_size=20, subgraph_type="induced")
    inside = (stored.edge_index < 20).all(dim=0)
    found, expected = batch.n_id[batch.edge_index].T.tolist(), stored.edge_index[:, inside].T
    assert sorted(found) == sorted(expected.tolist())


# --- ranks that build one folder

RING = np.array([[0, 1], [1, 2], [2, 0]])


def in_ranks(tmp_path, work, *arguments, count=2):
    """What `work` returns, or the text of its error, in each rank of a process group."""
    context = multiprocessing.get_context("fork")
    results = context.Queue()

    def run(rank):
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{tmp_path}/init", rank=rank, world_size=count
        )
        try:
            results.put((rank, work(rank, *arguments)))
        except Exception as error:
            results.put((rank, f"{type(error).__name__}: {error}"))

    processes = [context.Process(target=run, args=(rank,)) for rank in range(count)]
    for process in processes:
        process.start()
    found = dict(results.get(timeout=100) for _ in processes)
    for process in processes:
        process.join()
    return [found[rank] for rank in range(count)]


def noting(log, *, slow=0.3):
    """Builds of this process are noted in a file from now on, and take a while."""
    write = graphzero.api.write_dataset

    def noted(*arguments, **options):
        with open(log, "a") as file:
            file.write("built\n")
        time.sleep(slow)
        return write(*arguments, **options)

    graphzero.api.write_dataset = noted  # in a process of its own


@pytest.mark.parametrize("late", [0, 1])
def test_one_rank_builds_and_no_rank_opens_what_was_there_before(tmp_path, late):
    from_data(make_data(30), tmp_path / "store").close()
    log = tmp_path / "log"

    def work(rank):
        noting(log)
        time.sleep(0.6 * (rank == late))  # when the other one has built
        with from_data(make_data(50), tmp_path / "store") as data:
            mask = data.train_mask.tolist()
            first = (data.num_nodes, data.x.sum().item(), mask)
        torch.distributed.barrier()
        with gz.build(tmp_path / "store", RING) as ds:
            return (*first, ds.num_nodes)

    zero, one = in_ranks(tmp_path, work)
    data = make_data(50)
    assert zero == one == (50, pytest.approx(data.x.sum().item()), data.train_mask.tolist(), 3)
    assert log.read_text() == "built\n" * 2


def test_ranks_that_wait_have_the_error_of_the_one_that_builds(tmp_path):
    def work(rank):
        noting(tmp_path / "log")
        return gz.build(tmp_path / "store", -RING)

    found = sorted(in_ranks(tmp_path, work))
    assert found[0].startswith("RuntimeError: ")
    assert "was not built: process" in found[0]
    assert found[1].startswith("ValueError: ")
    assert found[0].endswith(found[1])
    assert (tmp_path / "log").read_text() == "built\n"


def test_ranks_do_not_wait_for_one_that_has_ended(tmp_path):
    def work(rank, begun):
        def die(*_, **__):
            begun.set()
            os._exit(1)

        if rank == 0:
            graphzero.api.write_dataset = die
        else:
            assert begun.wait(60)
        with pytest.raises(RuntimeError, match="it has ended meanwhile"):
            gz.build(tmp_path / "store", RING)
        os._exit(7)

    context = multiprocessing.get_context("fork")
    begun = context.Event()

    def run(rank):
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{tmp_path}/init", rank=rank, world_size=2
        )
        work(rank, begun)

    processes = [context.Process(target=run, args=(rank,)) for rank in range(2)]
    for process in processes:
        process.start()
    processes[1].join(timeout=100)
    assert processes[1].exitcode == 7


@pytest.mark.parametrize("shared", [True, False])
def test_hosts_that_do_not_share_the_folder_build_one_each(tmp_path, shared):
    log = tmp_path / "log"
    for rank in range(4):
        (tmp_path / str(rank % 2)).mkdir(exist_ok=True)

    def work(rank):
        noting(log, slow=0)
        os.chdir(tmp_path if shared else tmp_path / str(rank % 2))
        socket.gethostname = lambda: f"host{rank % 2}"
        os.path.realpath = lambda path: path  # the same name on all hosts
        with gz.build("store", RING) as ds:
            return ds.num_edges

    assert in_ranks(tmp_path, work, count=4) == [3] * 4
    assert log.read_text() == "built\n" * (1 if shared else 2)


def test_a_rank_may_build_alone_or_a_folder_of_its_own(tmp_path):
    def work(rank):
        if rank == 1:
            gz.build(tmp_path / "store", RING).close()
        torch.distributed.barrier()
        with gz.open(tmp_path / "store") as ds, gz.build(tmp_path / str(rank), RING) as own:
            return ds.num_edges + own.num_edges

    assert in_ranks(tmp_path, work) == [6, 6]


def test_a_folder_that_was_built_again_is_not_opened_for_the_first_build(tmp_path):
    def work(rank):
        for size in (30, 40):
            if rank == 1:
                time.sleep(1)
            from_data(make_data(size), tmp_path / "store").close()

    assert "was built again before all ranks had opened it" in in_ranks(tmp_path, work)[1]


SCRIPT = """
import sys
import graphzero as gz
import graphzero.api
import numpy as np
if sys.argv[2] == "torch":
    import torch
write = gz.api.write_dataset
def noted(*arguments, **options):
    with open(sys.argv[1] + ".log", "a") as file:
        file.write("built\\n")
    return write(*arguments, **options)
gz.api.write_dataset = noted
with gz.build(sys.argv[1], np.array([[0, 1], [1, 2], [2, 0]])) as ds:
    assert ds.num_edges == 3
assert ("torch" in sys.modules) == (sys.argv[2] == "torch")
"""


@pytest.mark.extended
@pytest.mark.parametrize("imported", ["torch", "no torch"])
def test_ranks_of_torchrun_before_there_is_a_group(tmp_path, imported):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [str(tmp_path / "script.py"), str(tmp_path / "store"), imported]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    told = "one rank builds, and the others wait" in done.stderr
    assert done.returncode == 0 or (imported != "torch" and told), done.stderr
    if imported == "torch":  # else each in turn, or the second is told
        assert Path(tmp_path / "store.log").read_text() == "built\n"


def test_ranks_that_cannot_know_of_each_other_are_told_how_they_would(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    gz.build(tmp_path, RING).close()
    with folder_lock(tmp_path), pytest.raises(BlockingIOError) as caught:
        gz.build(tmp_path, RING)
    assert "init_process_group before" in caught.value.__notes__[0]
