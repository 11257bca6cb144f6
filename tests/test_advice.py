"""Messages that name a remedy: the bad input raises, and what the message says then works."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import graphzero as gz

pandas = pytest.importorskip("pandas")
sparse = pytest.importorskip("scipy.sparse")
geometric = pytest.importorskip("torch_geometric")
pytestmark = pytest.mark.no_asan

EDGES = np.array([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])
PAIRS = set(zip(*EDGES.tolist(), strict=True))
TEXTS = np.array(["d", "b", "c", "a"])  # of nodes 0 to 3: not in the order of their numbers
SPARSE, SMALL = EDGES * 10**8, EDGES[:, :2]
X = np.arange(8, dtype=np.float32).reshape(4, 2)
CLASSES = ["u", "v", "u", "w"]
NEGATIVE = np.float32([1, -1, 1, 1, 1])
FRAME = pandas.DataFrame({"src": EDGES[0], "dst": EDGES[1], "amount": NEGATIVE})
MATRIX = sparse.coo_matrix((np.ones(5), EDGES), shape=(4, 4))
LETTERS = pandas.DataFrame({"src": TEXTS[EDGES[0]], "dst": TEXTS[EDGES[1]]})
CATEGORIES = LETTERS.astype("category")  # each column has codes of its own
INDEXED = FRAME[["src", "dst"]].set_index("src")
KINDS = pandas.DataFrame(dict.fromkeys("ab", pandas.Categorical([*CLASSES, "u"])))
ENDS = torch.tensor(EDGES)
MASK, NODES = np.array([True, False, True, False]), [0, 1, 2, 3]
AMOUNT = "edge_attrs=['amount']"
VIEW = "array.view([('bfloat16', '<u2')])"
BITS, TENSOR = X.astype(np.float16).view("V2"), torch.tensor(X).to_sparse()
YIELDED = {"src": EDGES[0], "dst": EDGES[1], "w": np.float32([1, 2, 3, 4, 5])}
WEIGHTED = {"edge_index": EDGES, "edge_weight": NEGATIVE}


def pairs_of(edges):
    return set(zip(*np.asarray(edges).tolist(), strict=True))


def edges_of(ds):
    """The edges, with the ids that the input had."""
    (store,) = ds.edges.values()
    ids = [ds.nodes[kind].node_ids for kind in (store.edge_type[0], store.edge_type[2])]
    ends = zip(ids, store.all_edges(), strict=True)
    return pairs_of([one if of is None else list(of[one]) for of, one in ends])


# What is given, what is said, what is then given instead, and what is meant: edges, or attributes.
TO_MAP, NAMED = {"ids": "map"}, pairs_of(TEXTS[EDGES])
NUMBERS = np.unique(CLASSES, return_inverse=True)[1]
BUILDS = {
    "texts": ({"edges": LETTERS}, "ids='map'", TO_MAP, NAMED),
    "array of texts": ({"edges": TEXTS[EDGES].T}, "ids='map'", TO_MAP, NAMED),
    "categories": ({"edges": CATEGORIES}, "ids='map'", TO_MAP, NAMED),
    "sparse ids": ({"edges": SPARSE}, "ids='map'", TO_MAP, pairs_of(SPARSE)),
    "negative ids": ({"edges": -EDGES}, "ids='map'", TO_MAP, pairs_of(-EDGES)),
    "floats": ({"edges": EDGES * 1.0}, "edges.astype(numpy.int64)", {"edges": EDGES}, PAIRS),
    "columns": ({"edges": SMALL}, "{'edge_index': edges}", {"edges": {"edge_index": SMALL}}, None),
    "records": ({"edges": SMALL.T}, "edges.T}", {"edges": {"edge_index": SMALL.T.T}}, None),
    "index": ({"edges": INDEXED}, "reset_index()", {"edges": INDEXED.reset_index()}, PAIRS),
    "negative column": (
        *(
            {"edges": FRAME, "weight": "amount"},
            "weight=False ignores the column, and edge_attrs= stores it",
        ),
        *({"weight": False, "edge_attrs": ["amount"]}, {"amount": NEGATIVE}),
    ),
    "negative weights": (
        *({"edges": WEIGHTED}, "weight_attrs=[]"),
        *({"weight_attrs": []}, {"edge_weight": NEGATIVE}),
    ),
    "yielded": (
        *(
            {"edges": iter([[*YIELDED.values()]]), "weight": "w"},
            "{'src': ..., 'dst': ..., 'weight': ...}",
        ),
        *({"edges": iter([YIELDED])}, {"edge_weight": YIELDED["w"]}),
    ),
    "beside": (
        *({"edges": np.vstack([EDGES, YIELDED["w"]]).T}, "{'edge_index': ..., 'weight': ...}"),
        *({"edges": {"edge_index": EDGES, "weight": YIELDED["w"]}}, {"weight": YIELDED["w"]}),
    ),
    "unused": ({"edges": FRAME}, AMOUNT, {"edge_attrs": ["amount"]}, {"amount": NEGATIVE}),
    "matrix": ({"edges": MATRIX, **TO_MAP}, "leave out ids='map'", {"ids": "dense"}, PAIRS),
    "dense": ({"features": TENSOR}, "to_dense()", {"features": TENSOR.to_dense()}, {"x": X}),
    "edge texts": (
        {"edges": {"edge_index": EDGES, "kind": iter([np.array([*CLASSES, "u"])])}},
        "numpy.unique(labels, return_inverse=True)[1]",
        {"edges": {"edge_index": EDGES, "kind": [*NUMBERS, 0]}},
        {"kind": [*NUMBERS, 0]},
    ),
    "columns of texts": (
        {"edges": {"edge_index": EDGES, "kind": KINDS}},
        "numpy.unique(column, return_inverse=True)[1]",
        {"edges": {"edge_index": EDGES, "kind": [*NUMBERS, 0]}},
        {"kind": [*NUMBERS, 0]},
    ),
    "bytes": ({"nodes": {"b": BITS}}, VIEW, {"nodes": {"b": eval(VIEW, {"array": BITS})}}, PAIRS),
    "mask": (
        *({"edges": SPARSE, **TO_MAP, "splits": {"train": X[:, 0] > 2}}, "give the ids"),
        *({"splits": {"train": [2 * 10**8, 3 * 10**8]}}, {"train": [2, 3]}),
    ),
    "no nodes": (
        *(
            {"nodes": {"a": {"num_nodes": 4}}, "edges": {("a", "to", "p"): EDGES}},
            "nodes={'p': {}}",
        ),
        *({"nodes": {"a": {"num_nodes": 4}, "p": {}}}, PAIRS),
    ),
}


@pytest.mark.filterwarnings("error:.*columns that are not used:UserWarning")
@pytest.mark.parametrize("name", BUILDS)
def test_advice_on_a_build_gives_the_graph_that_was_meant(name, tmp_path):
    given, advice, change, expected = BUILDS[name]
    given = {"edges": EDGES, **given}
    with pytest.raises((ValueError, TypeError, UserWarning)) as said:
        gz.build(tmp_path / "bad", **given)
    assert advice in str(said.value)
    ds = gz.build(tmp_path / "good", edge_ids=True, **{**given, **change})
    if not isinstance(expected, dict):
        assert edges_of(ds) == (expected or pairs_of(SMALL))
        return
    batch = next(iter(gz.NeighborLoader(ds, [-1], batch_size=4)))
    for attribute, values in expected.items():
        found = ds.splits["train"] if attribute == "train" else batch[attribute]
        at = batch.e_id if len(values) == 5 else slice(None)
        assert np.asarray(found).tolist() == np.asarray(values)[at].tolist()


def refused(advice, call, *args, **options):
    with pytest.raises((ValueError, TypeError)) as said:
        call(*args, **options)
    assert advice in str(said.value)


def seeds_of(ds, kind=gz.NeighborLoader, **options):
    loader = kind(ds, **{"num_neighbors": [-1], "batch_size": 4, **options})
    return [node for b in loader for node in b.n_id[: b.batch_size].tolist()]


def test_advice_on_graphs_of_pyg_gives_the_graph_that_was_meant(tmp_path):
    from graphzero.pyg import NeighborLoader, from_data

    def data_of(edge_index=ENDS, **more):
        return geometric.data.Data(x=torch.tensor(X), edge_index=edge_index, **more)

    def kept(data, name, **options):
        return edges_of(from_data(data, tmp_path / name, edge_ids=True, **options))

    for kind in (NeighborLoader, gz.NeighborLoader):
        refused("from graphzero.pyg import from_data", seeds_of, data_of(), kind)
    data = from_data(data_of(train_mask=torch.tensor(MASK)), tmp_path / "store")
    data.train_mask.fill_(True)
    refused("data.train_mask.clone(), such as a mask for", seeds_of, data, NeighborLoader)
    data = from_data(data_of(train_mask=torch.tensor(MASK)), tmp_path / "store")
    mask = data.train_mask.clone().fill_(True)
    assert seeds_of(data, NeighborLoader, input_nodes=mask) == seeds_of(data) == NODES
    targets = torch.sparse_coo_tensor(ENDS.flip(0), torch.ones(5), (4, 4))
    refused("name it adj_t", kept, data_of(targets), "targets")
    assert kept(data_of(None, adj_t=targets.coalesce()), "targets") == PAIRS
    refused(
        "torch_geometric.utils.to_edge_index(edge_index)[0]", kept, data_of(targets.T), "sources"
    )
    ends = geometric.utils.to_edge_index(targets.T.coalesce())[0]
    assert kept(data_of(ends), "sources") == PAIRS
    twice = data_of(torch.hstack([ENDS, ENDS]))
    refused("data = data.coalesce()", kept, twice, "once", coalesce=True)
    assert kept(twice.coalesce(), "once") == PAIRS
    refused("data.edge_index = data.edge_index.flip(0)", kept, data_of(), "turned", reverse=True)
    assert kept(data_of(ENDS.flip(0)), "turned") == pairs_of(EDGES[::-1])
