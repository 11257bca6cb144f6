"""`CapturedStep` where nothing can be captured, and with a recorder in place of a GPU's."""

from __future__ import annotations

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

import torch.nn.functional as F  # noqa: E402
from torch import distributed  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch_geometric.nn import GraphSAGE  # noqa: E402

import graphzero as gz  # noqa: E402
import graphzero.pyg  # noqa: E402
from graphzero.training import captured_step  # noqa: E402


@pytest.fixture
def order():
    return "hot"


@pytest.fixture
def batches(ds):
    """Mini-batches of a few sizes; one of them is larger than these."""
    plain = gz.NeighborLoader(ds, [4, 3], batch_size=40, seed=1)
    nodes = sorted(batch.num_sampled_nodes[2] for batch in plain)
    edges = [160, 600]
    sizes = [{"nodes": [41, 160, count], "edges": edges} for count in (nodes[4], nodes[-1])]
    loader = gz.NeighborLoader(ds, [4, 3], batch_size=40, seed=1, pad=sizes)
    found = list(loader)
    assert [batch.stats.oversized for batch in found].count(1) == 1
    assert len({tuple(batch.num_sampled_nodes) for batch in found}) == 3
    return found


def model_of():
    torch.manual_seed(0)
    return GraphSAGE(7, 8, 2, 4, dropout=0.2)


def loss_of(model, batch):
    counts = (batch.num_sampled_nodes, batch.num_sampled_edges)
    scores = model(
        *(batch.x, batch.edge_index),
        num_sampled_nodes_per_hop=counts[0],
        num_sampled_edges_per_hop=counts[1],
    )
    return F.cross_entropy(scores[: batch.batch_size], batch.y[: batch.batch_size].long())


def autocast_loss(model, batch):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return loss_of(model, batch).float()


def sgd(parameters):
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)

    def clip(optimizer, args, kwargs):
        torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 0.5)

    optimizer.register_step_pre_hook(clip)
    return optimizer


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.01)


def trained(batches, make, loss, step_of):
    """Losses and weights after three passes, with a schedule."""
    model = model_of()
    optimizer = make(model.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.7)
    step = step_of(model, optimizer, loss)
    torch.manual_seed(1)
    losses = []
    for _ in range(3):
        losses += [step(batch) for batch in batches]
        schedule.step()
    return [*losses, *model.state_dict().values()]


def usual(model, optimizer, loss):
    def step(batch):
        optimizer.zero_grad()
        value = loss(model, batch)
        value.backward()
        optimizer.step()
        return value.detach()

    return step


def same(values, others):
    return all(map(torch.equal, values, others)) and len(values) == len(others)


@pytest.fixture
def recorder(monkeypatch):
    """Captures on the processor: a replay calls the function, and writes where it had written."""
    recorded = []

    def record(run, device):
        state = torch.get_rng_state()
        result = run()
        torch.set_rng_state(state)
        recorded.append(run)
        return (lambda: result.copy_(run())), result

    monkeypatch.setattr(captured_step, "can_capture", lambda device: True)
    monkeypatch.setattr(captured_step, "_record", record)
    return recorded


@pytest.mark.parametrize(("make", "loss"), [(adam, loss_of), (sgd, loss_of), (sgd, autocast_loss)])
def test_a_device_that_cannot_capture_runs_the_step_as_usual(batches, make, loss):
    expected = trained(batches, make, loss, usual)
    assert same(trained(batches, make, loss, gz.CapturedStep), expected)


@pytest.mark.parametrize("loss", [loss_of, autocast_loss])
def test_captured_steps_give_the_same_numbers(batches, recorder, loss):
    expected = trained(batches, sgd, loss, usual)
    assert same(trained(batches, sgd, loss, gz.CapturedStep), expected)
    assert len(recorder) == 2  # sizes; the larger mini-batch runs as usual


def test_batches_of_pyg_and_of_types_are_captured(ds, recorder):
    loader = graphzero.pyg.NeighborLoader(ds, [4, 3], batch_size=40, seed=1, pad="auto")
    batches = list(loader)
    expected = trained(batches, sgd, loss_of, usual)
    assert same(trained(batches, sgd, loss_of, gz.CapturedStep), expected)
    assert len(recorder) >= 1


def test_what_differs_in_every_batch_is_refused(batches, recorder):
    def of_real_nodes(model, batch):
        return loss_of(model, batch) / sum(batch.real_nodes)

    def of_mask(model, batch):
        return loss_of(model, batch) * batch.node_mask.float().mean()

    padded = [batch for batch in batches if not batch.stats.oversized]
    for loss, name in ((of_real_nodes, "real_nodes"), (of_mask, "real_nodes")):
        model = model_of()
        step = gz.CapturedStep(model, sgd(model.parameters()), loss)
        with pytest.raises(RuntimeError, match=f"{name} differs in every batch"):
            list(map(step, padded))
    for batch in padded:
        batch.node_mask = batch.node_mask
    masked = [trained(padded, sgd, of_mask, kind) for kind in (usual, gz.CapturedStep)]
    assert same(*masked)


def test_an_error_names_the_operation_and_leaves_all_as_it_was(batches, recorder):
    model = model_of()
    optimizer = sgd(model.parameters())
    fails = []

    def loss(model, batch):
        value = loss_of(model, batch)
        if fails:
            raise RuntimeError("operation not permitted when stream is capturing")  # of nonzero
        return value

    padded = [batch for batch in batches if batch.num_sampled_nodes == batches[0].num_sampled_nodes]
    step = gz.CapturedStep(model, optimizer, loss)
    step(padded[0])
    before = copy.deepcopy([model.state_dict(), optimizer.state_dict()["state"]])
    fails.append(True)
    with pytest.raises(RuntimeError, match=r"cannot be captured: 'raise RuntimeError.*of nonzero"):
        step(padded[1])
    after = [model.state_dict(), optimizer.state_dict()["state"]]
    assert same(list(before[0].values()), list(after[0].values()))
    assert torch.equal(before[1][0]["momentum_buffer"], after[1][0]["momentum_buffer"])


def test_an_option_that_changes_after_the_capture_is_refused(batches, recorder):
    model = model_of()
    optimizer = sgd(model.parameters())
    step = gz.CapturedStep(model, optimizer, loss_of)
    for batch in batches:
        step(batch)
    optimizer.param_groups[0]["lr"] = 0.0  # as a loop sets it by hand
    before = copy.deepcopy(model.state_dict())
    for batch in batches:
        step(batch)
    assert same(list(before.values()), list(model.state_dict().values()))
    optimizer.param_groups[0]["momentum"] = 0.5
    with pytest.raises(ValueError, match="constants of a captured step, and have changed"):
        list(map(step, batches))


def test_a_model_of_several_processes_is_refused(recorder):
    store = distributed.HashStore()
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        model = DistributedDataParallel(model_of())
        with pytest.raises(ValueError, match="DistributedDataParallel cannot be captured"):
            gz.CapturedStep(model, sgd(model.parameters()), loss_of)
    finally:
        distributed.destroy_process_group()


# --- compilers count shapes


def padded_batches(ds, **options):
    return list(gz.NeighborLoader(ds, [4, 3], batch_size=40, seed=1, pad="auto", **options))


@pytest.mark.parametrize("name", ["GraphSAGE", "GIN", "GCN", "GAT"])
def test_a_model_is_compiled_once_for_each_size(ds, name):
    from torch_geometric import nn

    graphs = []

    def count(module, inputs):
        graphs.append(module)
        return module.forward

    torch._dynamo.reset()
    options = {} if name in ("GraphSAGE", "GIN") else {"add_self_loops": False}
    model = getattr(nn, name)(7, 8, 2, 4, **options)
    compiled = torch.compile(model, backend=count, dynamic=False, fullgraph=True)
    batches = padded_batches(ds, shuffle=True)
    for batch in batches:
        scores = compiled(batch.x, batch.edge_index)
        torch.testing.assert_close(scores, model(batch.x, batch.edge_index))
    shapes = {batch.x.shape for batch in batches}
    assert len(graphs) == len(shapes) <= 3


def test_jax_traces_a_function_once_for_each_size(ds):
    jax = pytest.importorskip("jax")
    traced = []

    @jax.jit
    def mean_of_neighbors(x, edge_index):
        traced.append(x.shape)
        sums = jax.ops.segment_sum(x[edge_index[0]], edge_index[1], num_segments=len(x))
        degrees = jax.numpy.bincount(edge_index[1], length=len(x))
        return sums / jax.numpy.maximum(degrees, 1)[:, None]

    batches = padded_batches(ds, shuffle=True)
    for batch in batches:
        means = mean_of_neighbors(batch.x.numpy(), batch.edge_index.numpy())
        assert np.isfinite(means).all()
    assert len(traced) == len({batch.x.shape for batch in batches}) <= 3
