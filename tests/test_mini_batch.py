"""`MiniBatch` and what it is made of: no field is named a second time in the code."""

from __future__ import annotations

from dataclasses import fields, replace

import files
import numpy as np
import pytest
import torch

import graphzero as gz
from graphzero.sampling.subgraph import Subgraph


@pytest.fixture(scope="module")
def batch(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mini_batch") / "ds"
    ds = gz.build(folder, edges=files.random_edges(50, 400), features=np.eye(50, dtype=np.float32))
    return gz.Collate(ds)(next(iter(gz.NeighborDataset(ds, range(8), [3], disjoint=True))))


def optional_fields(of):
    return {field.name for field in fields(of) if field.default is None}


def test_a_batch_has_every_optional_array_of_its_subgraph():
    assert optional_fields(Subgraph) == {"batch"}
    assert optional_fields(Subgraph) <= optional_fields(gz.MiniBatch)


def test_every_tensor_goes_to_the_device_and_no_field_is_lost(batch):
    names = optional_fields(gz.MiniBatch)
    assert len(names) > 5
    full = replace(batch, y=torch.ones(3), e_id=torch.ones(3), **dict.fromkeys(names, batch.n_id))
    moved = full.to("meta")
    for field in fields(full):
        value, after = getattr(full, field.name), getattr(moved, field.name)
        if isinstance(value, torch.Tensor):
            assert after.device.type == "meta", field.name
        else:
            assert after is value, field.name
    assert set(full.optional_tensors) == names


def test_tensors_that_a_batch_lacks_stay_none(batch):
    assert set(batch.optional_tensors) == {"batch"}
    assert batch.to("meta").seed_time is None


def test_an_optional_array_of_the_subgraph_reaches_the_batch(batch):
    assert batch.batch.tolist()[:8] == list(range(8))


def test_a_batch_is_shown_by_its_shapes(batch):
    text = repr(batch)
    assert text.startswith(f"MiniBatch(n_id=[{batch.num_nodes}], edge_index=[2, {batch.num_edges}]")
    assert f"x=[{batch.num_nodes}, 50]" in text
    assert "batch_size=8" in text
    assert "seed_time" not in text
    assert len(text) < 300
