"""`WorkerThreads`, which end when they are closed or the program ends.

`concurrent.futures` cannot serve: at the end of the main thread it waits for threads that nobody
has closed, and takes no more work, although other threads may still train.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

_T = TypeVar("_T")
_is_exiting = False
_here = threading.local()  # `is_worker`: not asked of `threading`, which may have to take a lock


class _Call:
    """A call, and where its result goes."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.future: Future[Any] = Future()
        self._function = function
        self._args = args

    def run(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self._function(*self._args)
        except BaseException as error:
            self.future.set_exception(error)
            del self  # the error's traceback has this frame, whose future has the error
        else:
            self.future.set_result(result)


class _State:
    """What the threads share. It does not refer to `WorkerThreads`, which can thus be dropped."""

    def __init__(self, on_stop: Callable[[], object] | None) -> None:
        # Its `put` may interrupt another `put` of the same thread, as the garbage collector does.
        self.calls: SimpleQueue[_Call | None] = SimpleQueue()
        self.threads: list[_Worker] = []
        self.is_stopped = False
        self.process = os.getpid()
        self._on_stop = on_stop

    def stop(self) -> None:
        """Cancels the calls that have not begun, and has the threads end; waits for nothing."""
        if self.is_stopped or self.process != os.getpid():
            return
        self.is_stopped = True
        on_stop, self._on_stop = self._on_stop, None  # what it refers to ends with the iteration
        if on_stop is not None:
            on_stop()
        try:
            while True:
                call = self.calls.get_nowait()
                if call is not None:
                    call.future.cancel()
        except Empty:
            for _ in self.threads:
                self.calls.put(None)


class _Worker(threading.Thread):
    def __init__(self, state: _State, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.state = state

    def run(self) -> None:
        _here.is_worker = True
        _show_name(self.name)
        while not self.state.is_stopped:
            call = self.state.calls.get()
            if call is None:
                return
            call.run()
            del call  # its result may be large


def _show_name(name: str) -> None:
    """Gives this thread the name that ``top``, ``perf`` and profilers show: at most 15 bytes."""
    with suppress(OSError), open("/proc/thread-self/comm", "wb", 0) as file:  # Linux
        file.write(name.replace("graphzero-", "gz-").encode()[:15])


class _Closer(threading.Thread):
    """Does for a worker thread what it must not do itself, see `run_outside`."""

    def __init__(self, function: Callable[[], object]) -> None:
        super().__init__(name="graphzero-close", daemon=True)
        self._function = function

    def run(self) -> None:
        self._function()


class WorkerThreads:
    """Threads that make calls in the background, in the order in which they were submitted.

    They start with the calls, and end with `close`; when the object is dropped; or at the end of
    the program, once all threads have ended that are not daemons, whatever they are waiting for.
    A forked child has none of them: there, no call is made, and `close` does nothing.

    Parameters
    ----------
    num_threads : int
        Calls that may run at the same time.
    name : str
    on_stop : callable, optional
        Wakes calls that wait for something that others do. They must then return, because closing
        waits for them. It must not refer to this object.
    """

    def __init__(
        self, num_threads: int, name: str, *, on_stop: Callable[[], object] | None = None
    ) -> None:
        self._num_threads = num_threads
        self._name = name
        self._state = _State(on_stop)
        self._starting = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether calls are made: not once it was closed, at exit, or in a forked child."""
        state = self._state
        return not (state.is_stopped or _is_exiting or state.process != os.getpid())

    def submit(self, function: Callable[..., _T], *args: Any) -> Future[_T]:
        """Has a call made by a thread; never waits.

        Returns
        -------
        Future
            Its result or exception. Cancelled unless `is_open`; cancelled by `close` if the call
            has not begun by then.

        Raises
        ------
        RuntimeError
            If the system allows no more threads.
        """
        call = _Call(function, args)
        if not self.is_open:
            call.future.cancel()
            return call.future
        if len(self._state.threads) < self._num_threads:
            self._start_thread()
        self._state.calls.put(call)
        if self._state.is_stopped:  # meanwhile: perhaps by a thread that did not see this call
            call.future.cancel()
        return call.future

    def _start_thread(self) -> None:
        with self._starting:
            threads = self._state.threads
            if len(threads) == self._num_threads:
                return
            thread = _Worker(self._state, f"{self._name}_{len(threads)}")
            threads.append(thread)  # before it starts, because Ctrl-C may end the start
            try:
                thread.start()
            except RuntimeError:
                threads.remove(thread)
                raise

    def stop(self) -> None:
        """Cancels the calls that have not begun, and has the threads end; waits for nothing."""
        self._state.stop()

    def close(self) -> None:
        """Stops, and waits for the calls that run; may be called again, and by any thread.

        A thread of some `WorkerThreads` does not wait: others may wait for the call that it is in.
        """
        self.stop()
        if self._state.process == os.getpid() and not _is_worker():
            for thread in list(self._state.threads):
                _join(thread)

    def __del__(self) -> None:
        if hasattr(self, "_state"):  # else Ctrl-C came before it was made
            run_outside(self._state.stop)


def run_outside(function: Callable[[], object]) -> None:
    """Calls a function that waits for calls of `WorkerThreads` or takes locks that they hold.

    The garbage collector may end an iteration in one of its own threads, in the middle of a call.
    Then another thread calls the function, and nobody waits for it.
    """
    if not _is_worker():
        function()
    elif not _is_exiting:
        _Closer(function).start()


def _is_worker() -> bool:
    return getattr(_here, "is_worker", False)


def _join(thread: threading.Thread) -> None:
    with suppress(RuntimeError):  # if it has not started yet: it will find that it must end
        thread.join()


@atexit.register
def _end_all() -> None:
    """Ends all threads: the interpreter would tear them down in the middle of a call."""
    global _is_exiting
    _is_exiting = True
    threads = [each for each in threading.enumerate() if isinstance(each, _Worker | _Closer)]
    for thread in threads:  # all of them first: a call may wait for one of other threads
        if isinstance(thread, _Worker):
            thread.state.stop()
    for thread in threads:
        _join(thread)
