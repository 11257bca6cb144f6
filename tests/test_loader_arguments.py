"""The table of PyG's arguments, wrong names and wrong datasets."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

import graphzero as gz

torch = pytest.importorskip("torch")

from graphzero.loader.arguments import NO_EFFECT, REFUSED  # noqa: E402

LOADERS = {"NeighborLoader": gz.NeighborLoader, "LinkNeighborLoader": gz.LinkNeighborLoader}

# The C code that these loaders reach is sanitized by the tests of their open form.
pytestmark = pytest.mark.no_asan


def make(name, ds, **options):
    return LOADERS[name](ds, [3], **options)


def parameters(function):
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    found = inspect.signature(function).parameters.values()
    options = getattr(getattr(function, "_options", None), "__annotations__", ())
    return {*options, *(each.name for each in found if each.kind not in kinds)} - {"self"}


@pytest.mark.parametrize("name", LOADERS)
def test_every_argument_of_pyg_and_torch_is_known(name):
    loader = pytest.importorskip("torch_geometric.loader")
    base = {"NeighborLoader": loader.NodeLoader, "LinkNeighborLoader": loader.LinkLoader}[name]
    theirs = {
        *parameters(getattr(loader, name).__init__),
        *parameters(base.__init__),
        *parameters(torch.utils.data.DataLoader.__init__),
    }
    assert not theirs - {*parameters(LOADERS[name]), "data", *NO_EFFECT, *REFUSED}


@pytest.mark.parametrize("name", LOADERS)
def test_what_has_no_effect_and_what_is_refused(name, ds):
    own = parameters(LOADERS[name])
    for argument in NO_EFFECT:
        assert argument not in own
        make(name, ds, **{argument: True})
    for argument, note in REFUSED.items():
        assert argument not in own
        make(name, ds, **{argument: True if argument == "in_order" else None})
        with pytest.raises(TypeError, match=f"no {argument}: {re.escape(note)}"):
            make(name, ds, **{argument: False if argument == "in_order" else object()})


@pytest.mark.parametrize(
    ("owner", "given", "answer"),
    [
        ("NeighborLoader", "fanouts", "did you mean num_neighbors"),
        ("NeighborLoader", "seeds", "did you mean input_nodes"),
        ("NeighborLoader", "neg_sampling", "no argument 'neg_sampling'"),
        ("NeighborLoader", "xyzzy", r"no argument 'xyzzy': it has \['batch_dependency', "),
        ("NeighborDataset", "num_neighbors", "did you mean fanouts"),
        ("NeighborDataset", "weight_attr", "did you mean weighted"),
        ("LinkNeighborDataset", "temporal_strateg", "did you mean temporal_strategy"),
    ],
)
def test_unknown_names(ds, owner, given, answer):
    with pytest.raises(TypeError, match=f"{owner}.*{answer}"):
        getattr(gz, owner)(ds, [[0], [1]], **{given: 1})


def test_what_is_no_dataset(dataset, ds):
    for wrong in ("data/", dataset[0], None, ds.graph):
        with pytest.raises(TypeError, match=r"must be an open Dataset, as of gz\.open"):
            gz.NeighborLoader(wrong, [3])
    with pytest.raises(TypeError, match="two names"):
        gz.NeighborLoader(ds, [3], data=ds)
    assert len(gz.NeighborLoader(data=ds, num_neighbors=[3]).dataset) == 500
    with pytest.raises(TypeError, match="num_neighbors is missing"):
        gz.NeighborLoader(ds)
    for wrong in ([-2], [1.5], "ab", {("paper", "cites", "paper"): [3]}):
        with pytest.raises(ValueError, match="fanout"):
            gz.NeighborLoader(ds, wrong)


NODE_LOADERS = {
    "NeighborLoader": lambda ds, nodes: gz.NeighborLoader(ds, [2], nodes),
    "NeighborDataset": lambda ds, nodes: gz.NeighborDataset(ds, nodes, [2]),
    "WalkLoader": lambda ds, nodes: gz.WalkLoader(ds, walk_length=2, context_size=2, seeds=nodes),
    "SubgraphLoader": lambda ds, nodes: gz.SubgraphLoader(ds, [[0, 1], nodes]),
    "pyg.NeighborLoader": lambda ds, nodes: pyg().NeighborLoader(ds, [2], nodes),
    "ShaDow": lambda ds, nodes: pyg().ShaDowKHopSampler(ds, 1, 2, node_idx=nodes),
}


def pyg():
    pytest.importorskip("torch_geometric")
    return pytest.importorskip("graphzero.pyg")


@pytest.mark.parametrize("name", NODE_LOADERS)
@pytest.mark.parametrize("dtype", ["uint8", "int64"])
def test_a_mask_of_integers_is_no_list_of_nodes(tmp_path, name, dtype):
    with gz.build(tmp_path, [[0, 1], [1, 2], [2, 0]], neighbors="both") as ds:
        with pytest.raises(ValueError, match="looks like a mask of integers"):
            NODE_LOADERS[name](ds, torch.from_numpy(np.array([1, 0, 1], dtype)))
        NODE_LOADERS[name](ds, np.array([1, 0], dtype))


def test_a_mask_of_integers_of_a_node_type(tmp_path):
    nodes = {"a": {"num_nodes": 3}, "b": {"num_nodes": 2}}
    with gz.build(tmp_path, nodes=nodes, edges={("a", "to", "b"): [[0, 1], [1, 1], [2, 0]]}) as ds:
        with pytest.raises(ValueError, match="looks like a mask of integers"):
            gz.NeighborLoader(ds, [2], ("a", [0, 0, 1]))
        gz.NeighborLoader(ds, [2], ("b", [1, 0]))  # both nodes
