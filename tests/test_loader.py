"""Mini-batches through the standard DataLoader."""

from __future__ import annotations

import files
import numpy as np
import pytest
from loaders import loader_of

import graphzero as gz

torch = pytest.importorskip("torch")
DataLoader = torch.utils.data.DataLoader
pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.no_asan,  # what is tested is Python; its C code runs there in other tests
]

OPTIONS = {"fanouts": [4, 3], "batch_size": 16, "shuffle": True, "seed": 5}


def make_loader(folder, **options):
    ds = gz.open(folder)
    return loader_of(gz.NeighborDataset(ds, ds.splits["train"], **{**OPTIONS, **options}))


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


@pytest.mark.parametrize(
    ("options", "error", "part"),
    [
        ({"seeds": [500]}, IndexError, r"seeds\[0\] = 500"),
        ({"fanouts": 5}, ValueError, r"one fanout for each hop, such as \[15, 10\], not 5"),
        ({"gather": ["z"]}, ValueError, r"gather names \['z'\].*'x', 'y'"),
        ({"gather": "x"}, ValueError, "gather names several"),
    ],
)
def test_bad_loader_options_are_named(dataset, options, error, part):
    with pytest.raises(error, match=part):
        gz.NeighborDataset(gz.open(dataset[0]), **options)


def test_a_loader_that_batches_again_is_told(dataset):
    ds = gz.open(dataset[0])
    loader = DataLoader(gz.NeighborDataset(ds, [1, 2]), collate_fn=gz.Collate(ds))
    with pytest.raises(TypeError, match="batch_size=None"):
        next(iter(loader))


def test_pin_memory_reaches_the_batch(dataset, monkeypatch):
    """Without a GPU torch pins nothing: that it would be asked is what can be seen."""
    pinned = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: pinned.append(self) or self)
    batch = next(iter(make_loader(dataset[0])))
    batch.pin_memory()
    assert len(pinned) == 6


def test_batches_do_not_alias_the_files(dataset):
    folder, features, _ = dataset
    for batch in make_loader(folder):
        batch.x.zero_()
        batch.n_id.zero_()
        batch.input_id.zero_()
    ds = gz.open(folder)
    np.testing.assert_array_equal(np.asarray(ds.features), features)


def test_workers_forked_after_parallel_sampling_do_not_hang(tmp_path):
    # Large enough that hops span several ranges, and so really run on two threads.
    edges, x = files.random_edges(5000, 60_000), np.arange(40_000, dtype=np.float32)
    files.write_dataset(tmp_path / "data", edges, 5000, features=x.reshape(5000, 8))
    batches = gz.NeighborDataset(
        gz.open(tmp_path / "data"), None, [4, 3], batch_size=32, num_threads=2
    )

    def sums(workers):
        batches.set_epoch(0)
        return [batch.x.sum().item() for batch in loader_of(batches, workers, **options)]

    options = {}
    first = sums(0)
    batches.dataset.graph.random_walk(range(5000), 5, num_threads=2)
    for _ in range(3):
        options = {"timeout": 60}
        assert sums(2) == first
        options = {}
        assert sums(0) == first  # the parent's own pool must work again after each fork
