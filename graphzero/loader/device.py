"""`Sender` and `DeviceLoader`: mini-batches that come out on a device.

The arrays of a mini-batch lie in one block of page-locked memory, which goes over in one copy, on a
stream of its own, while the model works. What the training loop gets are views of what arrived.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import groupby, pairwise
from queue import SimpleQueue
from typing import Any

import torch
from torch import Tensor

from graphzero.loader.host_blocks import HostBlock, room
from graphzero.loader.mini_batch import apply_to_tensors, give_stats, tensors_of
from graphzero.loader.stats import BatchStats
from graphzero.sampling.threads import WorkerThreads, run_outside
from graphzero.units import as_count

# Who keeps a smaller tensor of a mini-batch, such as the labels, does not keep its rows.
_LARGE_BYTES = 1 << 20


def as_device(device: Any) -> torch.device:
    """A torch device that can be used; an accelerator by its number.

    Raises
    ------
    ValueError
        If there is no such device.
    """
    try:
        return torch.empty(0, device=torch.device(device)).device
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        accelerator = torch.accelerator.current_accelerator(check_available=True)
        usable = "the CPU alone" if accelerator is None else f"the CPU and {accelerator.type}"
        raise ValueError(
            f"device={device!r} cannot be used here ({reason}): this machine has {usable} for torch"
        ) from None


class Streams:
    """Copies to an accelerator beside what its current stream does.

    Parameters
    ----------
    device : torch.device
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._module = torch.get_device_module(device)
        self._copies = self._module.Stream(device)

    def copying(self) -> AbstractContextManager[object]:
        """Meanwhile this thread's operations are those of the stream of copies."""
        stream: AbstractContextManager[object] = self._module.stream(self._copies)
        return stream

    def mark(self) -> torch.Event:
        """An event after all that the stream of copies has been given."""
        event: torch.Event = self._module.Event(enable_timing=True)
        event.record(self._copies)
        return event

    def read(self, tensors: Iterable[Tensor]) -> None:
        """The stream of copies reads tensors, whose memory is not lent again before it has."""
        for tensor in tensors:
            tensor.record_stream(self._copies)

    def receive(self, arrival: torch.Event | None, tensors: Iterable[Tensor]) -> None:
        """The current stream waits for an event, and uses tensors of the stream of copies."""
        stream = self._module.current_stream(self._device)
        stream.wait_event(arrival)
        for tensor in tensors:
            tensor.record_stream(stream)


class _NoStreams:
    """The same for memory of the processor, and for devices without streams."""

    def copying(self) -> AbstractContextManager[object]:
        return nullcontext()

    def mark(self) -> None:
        return None

    def read(self, tensors: Iterable[Tensor]) -> None:
        del tensors

    def receive(self, arrival: torch.Event | None, tensors: Iterable[Tensor]) -> None:
        del arrival, tensors


def _streams_of(device: torch.device) -> Streams | _NoStreams:
    has_streams = device.type != "cpu" and hasattr(torch.get_device_module(device), "Stream")
    return Streams(device) if has_streams else _NoStreams()


class Sent:
    """A mini-batch on its way to a device.

    Attributes
    ----------
    batch : object
        Its tensors must not be used before `Sender.receive`.
    tensors : list of Tensor
        Those of it that are on the device.
    num_bytes : int
        That go over.
    """

    def __init__(
        self,
        batch: Any,
        device: torch.device,
        num_bytes: int,
        start: torch.Event | None,
        arrival: torch.Event | None,
    ) -> None:
        self.batch = batch
        self.tensors = [tensor for tensor in tensors_of(batch) if tensor.device == device]
        self.num_bytes = num_bytes
        self.arrival = arrival
        self._start = start

    @property
    def copy_seconds(self) -> float:
        """That the device took to copy it; 0 where the copy has not ended yet."""
        if self._start is None or self.arrival is None or not self.arrival.query():
            return 0.0
        milliseconds: float = self._start.elapsed_time(self.arrival)
        return milliseconds / 1000


class Sender:
    """Sends mini-batches to a device, in one pass.

    Parameters
    ----------
    device : torch.device
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._streams = _streams_of(device)
        self._is_asynchronous = not isinstance(self._streams, _NoStreams)

    def read(self, tensors: Iterable[Tensor]) -> None:
        """What is sent will be computed from tensors that are on the device already."""
        self._streams.read(tensors)

    def block(self, num_bytes: int) -> HostBlock:
        """Memory that the device copies from."""
        with self._streams.copying():  # page-locked by this device, not by another one
            return HostBlock(num_bytes, pinned=self._is_asynchronous)

    def send(
        self,
        batch: object,
        block: HostBlock | None = None,
        finish: Callable[[Any], object] | None = None,
    ) -> Sent:
        """Begins to send the tensors of a mini-batch.

        Parameters
        ----------
        batch : object
            A mini-batch, a graph of PyG, a tensor, or tuples, lists and dictionaries of these.
        block : HostBlock, optional
            In which most of its tensors lie, with room for the others.
        finish : callable, optional
            Gets the mini-batch of the device's tensors, and computes what depends on them.
        """
        tensors = [tensor for tensor in tensors_of(batch) if _is_plain(tensor)]
        if block is None:
            block = self.block(sum(room(tensor.nbytes) for tensor in tensors))
        begins = [block.place(tensor) if tensor.numel() else 0 for tensor in tensors]
        with self._streams.copying():
            start = self._streams.mark()
            arrived = block.used.to(self.device, non_blocking=self._is_asynchronous)
            views = iter(_arrived(arrived, begins, tensors))
            batch = apply_to_tensors(
                lambda tensor: next(views) if _is_plain(tensor) else tensor.to(self.device), batch
            )
            if finish is not None:
                batch = finish(batch)
            arrival = self._streams.mark()
        return Sent(batch, self.device, arrived.nbytes, start, arrival)

    def receive(self, sent: Sent) -> Any:
        """The mini-batch, for the current stream of this thread."""
        self._streams.receive(sent.arrival, sent.tensors)
        return sent.batch


def _is_plain(tensor: Tensor) -> bool:
    """Whether it is numbers in the processor's memory, and no more; others go by themselves."""
    is_dense = type(tensor) is Tensor and tensor.layout == torch.strided
    return is_dense and tensor.device.type == "cpu"


def _arrived(
    block: Tensor, begins: Sequence[int | None], tensors: Sequence[Tensor]
) -> list[Tensor]:
    """The tensors over a block that arrived; small ones have memory of their own.

    Those that the block had no room for are copied by themselves.

    Each operation of torch lets the GIL go, which costs the loop: they are as few as can be.
    """
    words = block.view(torch.int64)
    pieces: dict[int, Tensor] = {}
    sizes = {
        begin // words.itemsize: tensor.nbytes
        for begin, tensor in zip(begins, tensors, strict=True)
        if begin is not None and tensor.nbytes
    }
    for is_large, run in groupby(sorted(sizes), lambda first: sizes[first] >= _LARGE_BYTES):
        firsts = list(run)
        ends = [first + -(-sizes[first] // words.itemsize) for first in firsts]
        cuts = [place for pair in zip(firsts, ends, strict=True) for place in pair]
        # every other one is a gap between two tensors
        lengths = [end - begin for begin, end in pairwise(cuts)]
        cut = torch.split_with_sizes if is_large else torch.split_with_sizes_copy
        parts = cut(words[cuts[0] : cuts[-1]], lengths)
        assert parts is not None
        pieces.update(zip(firsts, parts[::2], strict=True))
    arrived = []
    for begin, tensor in zip(begins, tensors, strict=True):
        piece = None if begin is None else pieces.get(begin // words.itemsize)
        arrived.append(tensor.to(block.device) if piece is None else _as(piece, tensor))
    return arrived


def _as(piece: Tensor, tensor: Tensor) -> Tensor:
    """The words of a piece as a tensor of the dtype and shape of another."""
    if tensor.dtype != piece.dtype:
        piece = piece.view(tensor.dtype)
    if tensor.shape == piece.shape:
        return piece
    return piece.as_strided(tensor.shape, _stride(tensor.shape))


def _stride(shape: torch.Size) -> list[int]:
    """Of a contiguous tensor."""
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


class _Ended:
    """There are no more mini-batches."""


class SendingIterator(Iterator[Any]):
    """The mini-batches of an iterator on a device, sent by a thread before they are wanted.

    Parameters
    ----------
    batches : iterator
        Only the thread uses it from now on.
    sender : Sender
    ahead : int
        Mini-batches that are on their way, or wait on the device, besides the one that is wanted.
    """

    def __init__(self, batches: Iterator[Any], sender: Sender, ahead: int) -> None:
        self._sender = sender
        self._wanted: SimpleQueue[bool] = SimpleQueue()
        self._results: SimpleQueue[Sent | _Ended | BaseException] = SimpleQueue()
        self._is_over = False
        wanted, results = self._wanted, self._results

        def stop() -> None:
            wanted.put(False)
            results.put(_stopped())

        self._threads = WorkerThreads(1, "graphzero-send", on_stop=stop)
        for _ in range(ahead):
            wanted.put(True)
        self._threads.submit(_send_all, batches, sender, wanted, results)

    def __next__(self) -> Any:
        if self._is_over:
            raise StopIteration
        self._wanted.put(True)
        # what was begun by the process that forked this one will never arrive here
        result = self._results.get() if self._threads.is_open else _stopped()
        if isinstance(result, Sent):
            return self._sender.receive(result)
        self.close()
        if isinstance(result, _Ended):
            raise StopIteration
        raise result

    def close(self) -> None:
        """Ends the thread, after the mini-batch that it waits for."""
        self._is_over = True
        self._threads.close()

    def __del__(self) -> None:
        if hasattr(self, "_threads"):  # else Ctrl-C came before they were made
            run_outside(self._threads.close)  # persistent workers serve the next pass after that


def _stopped() -> RuntimeError:
    return RuntimeError(
        "the thread that sends mini-batches has ended: the program is about to end, or this "
        "process was forked during the iteration"
    )


def _send_all(
    batches: Iterator[Any],
    sender: Sender,
    wanted: SimpleQueue[bool],
    results: SimpleQueue[Sent | _Ended | BaseException],
) -> None:
    """Until a False is wanted."""
    try:
        while wanted.get():
            batch = next(batches)
            sent = sender.send(batch)
            stats = vars(batch).get("stats") if hasattr(batch, "__dict__") else None
            if isinstance(stats, BatchStats):
                give_stats(sent.batch, replace(stats, sent_bytes=sent.num_bytes))
            results.put(sent)
            del batch, sent
    except StopIteration:
        results.put(_Ended())
    except BaseException as error:
        results.put(error.with_traceback(None))


class DeviceLoader(Iterable[Any]):
    """The mini-batches of a DataLoader on a device, sent while the model works on earlier ones.

    It is for a plain ``torch.utils.data.DataLoader``, and for any other iterable of mini-batches:
    graphzero's own, graphs of PyG, tensors, or tuples, lists and dictionaries of these.
    graphzero's ready-made loaders have ``device=``, which also writes rows straight into the memory
    that is sent.

    Parameters
    ----------
    loader : iterable
        Each pass over it is one pass here. ``pin_memory=True`` would copy once more.
    device : torch device
    lookahead : int
        Mini-batches that are sent before they are wanted.

    Raises
    ------
    ValueError
        If there is no such device, or if the loader has ``device=`` itself or a state that would
        count mini-batches which the training loop was not given.
    """

    def __init__(self, loader: Iterable[Any], device: Any, *, lookahead: int = 2) -> None:
        if hasattr(loader, "device_cache"):
            raise ValueError(
                f"{type(loader).__name__} has device= itself: give it there, and leave "
                "DeviceLoader out"
            )
        if hasattr(loader, "state_dict"):
            raise ValueError(
                f"the state of a {type(loader).__name__} would count mini-batches that are still "
                "on their way: use gz.NeighborLoader(..., device=), whose state counts those that "
                "the loop was given, or a DataLoader without a state"
            )
        self.loader = loader
        self.device = as_device(device)
        self.lookahead = as_count(lookahead, "lookahead", 0)

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        return SendingIterator(iter(self.loader), Sender(self.device), self.lookahead)
