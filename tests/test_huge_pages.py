"""``gz.open(..., topology="huge")``: the same samples, from pages that the kernel may take back."""

import multiprocessing
import pickle
import threading
import warnings

import numpy as np
import pytest

import graphzero as gz
from graphzero.store import huge_pages

NODES = 200_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    edges = np.random.default_rng(1).integers(0, NODES, (3_000_000, 2))
    path = tmp_path_factory.mktemp("huge") / "data"
    gz.build(path, edges=edges, num_nodes=NODES, neighbors="both").close()
    return path


def open_huge(folder):
    with warnings.catch_warnings():  # this kernel may not have such pages
        warnings.simplefilter("ignore", RuntimeWarning)
        ds = gz.open(folder, topology="huge")
        assert 0 <= ds.huge_topology.wait() <= ds.huge_topology.num_bytes
    return ds


def samples(ds):
    seeds = np.arange(3000)
    subgraph = gz.NeighborSampler(ds.graph, [5, 3]).sample(seeds)
    walks = ds.graph.random_walk(seeds, 6, p=0.5)
    return [subgraph.n_id, subgraph.edge_index, walks]


def assert_equal(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_same_is_sampled(folder):
    with gz.open(folder) as plain:
        expected = samples(plain)
        assert plain.huge_topology is None
    with open_huge(folder) as ds:
        sizes = [ds.graph.mapping.size, ds.graph.out_lists.mapping.size]
        assert ds.huge_topology.num_bytes == sum(sizes)
        pages = [file.mapping.resident_pages() for file in (ds.graph, ds.graph.out_lists)]
        assert [count * 4096 >= size for count, size in zip(pages, sizes, strict=True)] == [
            True
        ] * 2
        assert_equal(samples(ds), expected)
        if ds.huge_topology.shortfall is None:
            assert ds.huge_topology.huge_bytes >= 0.8 * sum(sizes)
        with ds.reload() as again:
            assert again.huge_topology is not None


def _in_worker(ds, queue):
    queue.put((ds.huge_topology is None, samples(ds)))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_share_the_pages(folder, method):
    context = multiprocessing.get_context(method)
    with open_huge(folder) as ds:
        expected, queue = samples(ds), context.Queue()
        worker = context.Process(target=_in_worker, args=(ds, queue))
        worker.start()
        has_none, found = queue.get(timeout=120)
        worker.join()
        assert has_none == (method == "spawn")
        assert_equal(found, expected)
        assert pickle.loads(pickle.dumps(ds)).huge_topology is None


def test_closing_while_it_reads(folder):
    for _ in range(5):
        gz.open(folder, topology="huge").close()
    assert not [each for each in threading.enumerate() if each.name == "graphzero-huge"]


def test_a_dropped_dataset_ends_the_thread(folder):
    ds = open_huge(folder)
    thread = ds.huge_topology._thread
    del ds
    thread.join(60)
    assert not thread.is_alive()


def shortfall(folder, match):
    """What is missing after all was tried, of which there is a warning; samples are made."""

    def opened():
        ds = gz.open(folder, topology="huge")
        ds.huge_topology.wait()
        return ds

    with pytest.warns(RuntimeWarning, match=match):
        ds = opened()
    with ds:
        assert samples(ds)
        return ds.huge_topology.shortfall


def test_where_the_kernel_keeps_small_pages(folder, monkeypatch):
    monkeypatch.setattr(huge_pages, "huge_bytes", lambda mapping: 0)
    assert "ext4 from Linux 6.16" in shortfall(folder, "small pages")


def test_where_memory_is_short(folder, monkeypatch):
    monkeypatch.setattr(huge_pages, "_is_kept", lambda mapping, num_bytes: False)
    assert "is short" in shortfall(folder, "takes back")


def test_another_topology_is_refused(folder):
    with pytest.raises(ValueError, match="'mapped' or 'huge', not 'locked'"):
        gz.open(folder, topology="locked")


def test_sums_of_huge_pages():
    lines = """7f0000000000-7f0000400000 r--s 00000000 fe:00 1  /a/graph.gl
Size:               4096 kB
FilePmdMapped:      2048 kB
VmFlags: rd mr
7f0000400000-7f0000800000 r--s 00400000 fe:00 1  /a/graph.gl
FilePmdMapped:      4096 kB
7f0000a00000-7f0000c00000 r--s 00000000 fe:00 2  /a/other
FilePmdMapped:      2048 kB""".splitlines()
    assert huge_pages._huge_between(0x7F0000000000, 0x7F0000800000, lines) == 6 << 20
    assert huge_pages._huge_between(0x7F0000A00000, 0x7F0000A00001, lines) == 2 << 20
    assert huge_pages._huge_between(0, 0, lines) == 0
