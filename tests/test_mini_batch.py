"""`MiniBatch`: what a training loop does with one."""

from __future__ import annotations

import copy

import files
import numpy as np
import pytest
import torch

import graphzero as gz


@pytest.fixture(scope="module")
def batch(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mini_batch") / "ds"
    ds = gz.build(folder, edges=files.random_edges(50, 400), features=np.eye(50, dtype=np.float32))
    return gz.Collate(ds)(next(iter(gz.NeighborDataset(ds, range(8), [3], disjoint=True))))


def test_every_tensor_goes_to_the_device_and_no_field_is_lost(batch):
    own = batch.clone()
    for name in ("y", "e_id", "seed_time", "edge_label", "src_index"):
        own[name] = own.n_id
    before = dict(vars(own))
    moved = own.to("meta")
    assert vars(moved).keys() == before.keys()
    for name, value in before.items():
        after = getattr(moved, name)
        if isinstance(value, torch.Tensor):
            assert after.device.type == "meta", name
        else:
            assert after == value, name
    assert batch.clone().to("meta").seed_time is None
    assert batch.batch.tolist()[:8] == list(range(8))  # an optional array of the subgraph


def test_attributes_can_be_set_as_in_pyg(batch):
    own = batch.clone()
    own.x = own.x * 2
    own["mask"] = own.n_id > 3
    own.parts = {"a": [own.n_id, 1], "b": (own.n_id,)}
    assert torch.equal(own.x, batch.x * 2)
    assert own["mask"] is own.mask
    assert {"mask", "parts", "x", "n_id", "batch_size", "input_id"} <= set(own.keys())
    assert "mask" in own
    assert "mask" not in batch
    assert dict(own) == own.to_dict() == {name: own[name] for name in own.keys()}  # noqa: SIM118
    assert own.to("meta") is own  # whoever ignores what it returns has moved the batch as well
    assert own.mask.is_meta
    assert (own.parts["a"][0].is_meta, own.parts["a"][1]) == (True, 1)
    assert own.num_sampled_nodes == batch.num_sampled_nodes


def test_what_a_batch_lacks_is_no_key(batch):
    assert not {"y", "e_id", "seed_time", "stats"} & set(batch.keys())
    assert "y" not in batch
    with pytest.raises(KeyError, match=r"no 'y' here, but n_id, edge_index"):
        batch["y"]
    assert batch.y is batch.edge_weight is batch.edge_attr is None
    with pytest.raises(AttributeError, match="there is no 'edge_wieght' here, but n_id"):
        batch.edge_wieght  # noqa: B018


def test_a_clone_shares_nothing(batch):
    own = batch.clone()
    own.x.zero_()
    own.mark = 1
    assert batch.x.any()
    assert not hasattr(batch, "mark")
    assert torch.equal(own.edge_index, batch.edge_index)
    assert own.cpu() is own


def test_features_are_counted_as_pyg_counts_them(batch):
    assert batch.num_features == 50
    own = batch.clone()
    own.x = batch.x[:, 0]
    assert own.num_features == own.num_node_features == 1
    del own.x
    assert own.num_features == 0
    assert own.x is None


def test_pyg_gets_what_was_set_without_copies(batch):
    pytest.importorskip("torch_geometric")
    own = batch.clone()
    own.mask = own.n_id > 3
    data = own.to_pyg()
    assert (data.mask is own.mask, data.x is own.x) == (True, True)
    assert sorted({*own.keys(), "num_nodes"}) == sorted(data.keys())


def test_a_loader_without_the_collate_function_says_what_is_missing(tmp_path):
    ds = gz.build(tmp_path / "ds", edges=files.random_edges(50, 400))
    batches = gz.NeighborDataset(ds, range(8), [3], batch_size=4)
    for sampled in torch.utils.data.DataLoader(batches, batch_size=None):
        with pytest.raises(AttributeError, match=r"'x': pass collate_fn=gz\.Collate\(ds\)"):
            sampled.x  # noqa: B018
        assert not hasattr(sampled, "edge_index")
        assert copy.deepcopy(sampled).input_id.tolist() == sampled.input_id.tolist()
