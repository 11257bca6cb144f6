"""`CapturedStep`: a training step that a GPU is told once for each size of mini-batches."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

_WARM_UPS = 3  # steps before a capture, as torch advises
_OF_COUNTS = ("real_nodes", "real_edges", "input_id")  # as many as are real
_NOT_CONSTANT = ("params", "lr", "initial_lr")  # of an optimizer's groups


def can_capture(device: torch.device) -> bool:
    """Whether steps on a device are captured; on others they run as usual."""
    return device.type == "cuda"


class CapturedStep:
    """A training step whose operations a GPU is told once for each size of mini-batches.

    A step of a graph neural network is many small operations, and launching them from Python takes
    longer than the work. Mini-batches of a loader with ``pad=`` have few sizes. The first one of
    each size is trained on as usual; at the second, forward, backward and the optimizer's step are
    captured as a CUDA graph, which all later ones replay on a copy of their tensors. On a device
    that cannot capture, and for mini-batches that are not padded, steps run as usual, and give the
    same numbers.

    In a captured step

    - all tensors of a batch but `input_id` vary, and everything else is a constant: options of
      the optimizer but for its learning rate, which becomes a tensor that schedulers change; what
      Python computes. ``real_nodes``, ``real_edges`` and ``input_id`` cannot be read;
      ``node_mask`` can where the batch was given it (``transform``:
      ``batch.node_mask = batch.node_mask``);
    - shapes must not depend on values: no boolean masks, no ``nonzero``, no ``item``. PyG's
      ``GCNConv`` and ``GATConv`` need ``add_self_loops=False``;
    - dropout draws anew in every step; gradients are clipped by a hook,
      ``optimizer.register_step_pre_hook``; autocast belongs into `loss`.

    Parameters
    ----------
    model : torch.nn.Module
    optimizer : torch.optim.Optimizer
        Of its parameters; where steps are captured, its groups become ``capturable``.
    loss : callable
        Gets the model and a mini-batch, and returns the scalar to minimise.

    Raises
    ------
    ValueError
        If the model is a ``DistributedDataParallel``, on a device that captures.
    """

    def __init__(
        self, model: nn.Module, optimizer: Optimizer, loss: Callable[[Any, Any], Tensor]
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.loss = loss
        self.device = next((p.device for p in model.parameters()), torch.device("cpu"))
        self._seen: set[str] = set()
        self._captured: dict[str, _Captured] = {}
        if can_capture(self.device):
            if isinstance(model, DistributedDataParallel):
                raise ValueError(
                    "a DistributedDataParallel cannot be captured: its hooks exchange gradients "
                    "outside of the captured stream. Call loss, backward and step in the loop"
                )
            self._make_capturable()

    def __call__(self, batch: Any) -> Tensor:
        """One step: the gradients of the loss, and the optimizer's step.

        Parameters
        ----------
        batch : MiniBatch, TypedMiniBatch, Data or HeteroData
            On the device of the model.

        Returns
        -------
        Tensor
            The loss, detached; a later step does not change it.

        Raises
        ------
        RuntimeError
            If the step cannot be captured; names the operation. The model, the optimizer and its
            state are then as they were before the step.
        ValueError
            If an option of the optimizer has changed that is a constant of the captured step.
        """
        if not can_capture(self.device) or not _is_padded(batch):
            return self._run(batch).clone()
        key = self._key(batch)
        if key not in self._captured:
            if key not in self._seen:  # this step makes the optimizer's state as well
                self._seen.add(key)
                return self._run(batch).clone()
            self._captured[key] = self._capture(batch)
        captured = self._captured[key]
        self._keep_rates(captured)
        for static, value in zip(_tensors(captured.batch), _tensors(batch), strict=True):
            static.copy_(value)
        captured.replay()
        for parameter, gradient in captured.gradients:
            parameter.grad = gradient
        return captured.loss.clone()

    def _run(self, batch: Any) -> Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.model, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()

    def _key(self, batch: Any) -> str:
        """What a captured step was captured for: shapes, and whatever else is constant."""
        parts: list[object] = [self.model.training]
        for store in _stores(batch):
            for name, value in store.items():
                is_tensor = isinstance(value, Tensor)
                if name not in _OF_COUNTS:
                    parts += [name, (value.shape, value.dtype) if is_tensor else value]
        return repr(parts)

    def _make_capturable(self) -> None:
        for group in self.optimizer.param_groups:
            if "capturable" in group:
                group["capturable"] = True
        for state in self.optimizer.state.values():
            if isinstance(state.get("step"), Tensor):
                state["step"] = state["step"].to(self.device)

    def _capture(self, batch: Any) -> _Captured:
        static = batch.clone()
        for store in _stores(static):
            for name in _OF_COUNTS:
                if name in store:
                    store[name] = _Varying(name)
        for group in self.optimizer.param_groups:
            if not isinstance(group["lr"], Tensor):
                group["lr"] = torch.tensor(group["lr"], device=self.device)
        changed = [*self.model.parameters(), *self.model.buffers()]
        for state in self.optimizer.state.values():
            changed += [value for value in state.values() if isinstance(value, Tensor)]
        before = [value.detach().clone() for value in changed]
        try:
            replay, loss = _record(partial(self._run, static), self.device)
        except RuntimeError as error:
            raise RuntimeError(
                f"the step cannot be captured: {_operation_of(error)} failed ({error}). Shapes "
                f"must not depend on values, and nothing may be copied to the processor; without "
                f"CapturedStep it runs as usual"
            ) from error
        finally:
            with torch.no_grad():
                for value, former in zip(changed, before, strict=True):
                    value.copy_(former)
        return _Captured(
            static,
            replay,
            loss,
            [(p, p.grad) for p in self.model.parameters()],
            [group["lr"] for group in self.optimizer.param_groups],
            self._constants(),
        )

    def _constants(self) -> list[dict[str, Any]]:
        groups = self.optimizer.param_groups
        return [{k: v for k, v in options.items() if k not in _NOT_CONSTANT} for options in groups]

    def _keep_rates(self, captured: _Captured) -> None:
        """Learning rates that were set since go where the captured step reads them."""
        for group, rate in zip(self.optimizer.param_groups, captured.rates, strict=True):
            if group["lr"] is not rate:
                rate.copy_(torch.as_tensor(group["lr"]))
                group["lr"] = rate
        if captured.constants != self._constants():
            raise ValueError(
                f"options of the optimizer are constants of a captured step, and have changed: "
                f"{captured.constants}, now {self._constants()}. Make another CapturedStep"
            )


@dataclass(frozen=True)
class _Captured:
    """A step that was captured for one size.

    Attributes
    ----------
    batch : MiniBatch, TypedMiniBatch, Data or HeteroData
        Its tensors are those that the step reads.
    replay : callable
    loss : Tensor
        What the step writes.
    gradients : list of (Parameter, Tensor or None)
    rates : list of Tensor
        The learning rates that it reads.
    constants : list of dict
        Other options of the optimizer's groups.
    """

    batch: Any
    replay: Callable[[], None]
    loss: Tensor
    gradients: list[tuple[nn.Parameter, Tensor | None]]
    rates: list[Tensor]
    constants: list[dict[str, Any]]


class _Varying:
    """Stands for numbers that differ in every batch: a captured step would keep the first ones."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _refuse(self, *_: object) -> Any:
        raise RuntimeError(f"{self._name} differs in every batch, and cannot be a constant")

    __bool__ = __len__ = __iter__ = __getitem__ = _refuse


def _record(run: Callable[[], Tensor], device: torch.device) -> tuple[Callable[[], None], Tensor]:
    """Captures a function, after it has warmed up: what repeats it, and its result.

    Random numbers are drawn as if it had not run yet.
    """
    with torch.cuda.device(device), torch.random.fork_rng(devices=[device]):
        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                run()
        torch.cuda.current_stream(device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = run()
    return graph.replay, result


def _operation_of(error: BaseException) -> str:
    """The line of code that has failed, in Python."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.line!r} ({frame.filename}:{frame.lineno})"


def _stores(batch: Any) -> list[Any]:
    """The attributes of a batch: of each type, or of all."""
    is_typed = isinstance(getattr(batch, "node_types", None), list)
    return [*batch.node_stores, *batch.edge_stores] if is_typed else [batch]


def _tensors(batch: Any) -> list[Tensor]:
    return [
        value
        for store in _stores(batch)
        for name, value in store.items()
        if isinstance(value, Tensor) and name not in _OF_COUNTS
    ]


def _is_padded(batch: Any) -> bool:
    return any("real_nodes" in store for store in _stores(batch))
