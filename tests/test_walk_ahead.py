"""Walks and translation of ids where the file is not in memory: the same as in memory."""

import resource

import numpy as np
import pytest
from peak_memory import peak_of

import graphzero as gz

NODES, EDGES = 2_200_000, 2_400_000  # each array is larger than what counts as small


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(1)
    hubs = rng.integers(0, 1000, EDGES // 2)
    edges = np.stack(
        [np.concatenate([hubs, rng.integers(0, NODES, EDGES // 2)]), rng.integers(0, NODES, EDGES)],
        axis=1,
    )
    edges[::3, 1] = edges[::3, 0][::-1]  # towards nodes with neighbours
    path = tmp_path_factory.mktemp("walks") / "data"
    weights = rng.integers(0, 4, EDGES).astype(np.float32)
    how = {"num_nodes": NODES, "neighbors": "out", "order": "hot"}
    gz.build(path, edges=edges, weight=weights, **how).close()
    return path


def cold(folder):
    """The dataset, whose topology is not in memory."""
    ds = gz.open(folder)
    ds.graph.mapping.advise("random")
    ds.graph.mapping.advise("release")
    if ds.graph.mapping.resident_pages() * 4096 > 0.1 * ds.graph.mapping.size:
        pytest.skip("the file system keeps its files in memory")
    return ds


def major_faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt


@pytest.mark.parametrize(
    "options",
    [
        {"p": 0.25, "q": 4.0, "restart": 0.1, "weighted": True},
        *(
            pytest.param(options, marks=pytest.mark.extended)
            for options in (
                {},
                {"restart": 0.3},
                {"weighted": True},
                {"p": 1.0, "q": 0.5},
                {"p": 4.0, "q": 0.25, "num_threads": 2},
            )
        ),
    ],
    ids=str,
)
def test_walks_beyond_memory_are_those_in_memory(folder, options):
    start = np.random.default_rng(2).integers(0, 1200, 70_000)
    start[::7] += 1_000_000
    with cold(folder) as ds:
        before = major_faults()
        walks = ds.graph.random_walk(start, 3, seed=3, **options)
        faults = major_faults() - before
        assert faults < 0.3 * np.unique(walks).size  # a fault for each would have read it
        assert ds.graph.mapping.advice == "random"
        ds.graph.mapping.advise("populate")
        again = ds.graph.random_walk(start, 3, seed=3, **options)
        np.testing.assert_array_equal(walks, again)
    with cold(folder) as ds:  # few walkers: many threads
        few = ds.graph.random_walk(start[:3000], 3, seed=3, **options)
        np.testing.assert_array_equal(walks[:3000], few)
    assert (walks[:, 1] >= 0).mean() > 0.5


MANY_WALKS = """
with gz.open(sys.argv[1]) as ds:
    ds.graph.mapping.advise("random")
    ds.graph.mapping.advise(sys.argv[2])
    ds.graph.random_walk(np.arange(1 << 19) % 1000, 1, p=0.5)
"""


@pytest.mark.extended
def test_memory_for_walkers_follows_the_file(folder, tmp_path):
    cold(folder).close()
    imports = "import numpy as np\nimport graphzero as gz"
    ahead, plain = (
        peak_of(tmp_path, imports, MANY_WALKS, folder, advice) for advice in ("release", "populate")
    )
    assert ahead - plain < 16e6  # 64 bytes for each of the walkers would be 34 MB


def test_more_walks_than_step_together(folder):
    start = np.resize(np.random.default_rng(6).integers(0, 1000, 5000), (1 << 20) + 70_000)
    with cold(folder) as ds:
        walks = ds.graph.random_walk(start, 2, p=0.5)
        ds.graph.mapping.advise("populate")
        np.testing.assert_array_equal(walks, ds.graph.random_walk(start, 2, p=0.5))


def test_a_walk_loader_beyond_memory(folder):
    seeds = np.arange(0, 3000)
    options = {"walk_length": 5, "batch_size": 1500, "shuffle": True, "seed": 1}
    found = []
    for strategy in ("willneed", "none"):
        with cold(folder) as ds:
            prefetch = gz.Prefetch(strategy=strategy, memory_limit=0)
            batches = list(gz.WalkLoader(ds, seeds, prefetch=prefetch, **options))
            found.append(np.concatenate([batch.pos_rw.numpy() for batch in batches]))
    np.testing.assert_array_equal(*found)
