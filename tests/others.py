"""Other processes for tests: children that wait, and code that runs as another user."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import graphzero as gz

NOBODY = 65534


@contextmanager
def child_of_this(prepare=None):
    """The pid of a forked child that has run `prepare`, and waits until the context ends."""
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _kept = prepare() if prepare else None
            os.write(told, b"x")
            while True:
                signal.pause()  # what was prepared lives as long
        finally:
            os._exit(1)
    os.close(told)
    try:
        assert os.read(ready, 1) == b"x", "the child has failed"
        yield child
    finally:
        os.close(ready)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def in_child(call):
    """What `call` returns, as JSON has it, in a forked child."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = json.dumps(call()).encode()
        except BaseException as error:
            answer = json.dumps(f"failed: {error!r}").encode()
        os.write(writer, answer)
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        answer = file.read()
    os.waitpid(child, 0)
    return json.loads(answer)


def output_of(script, *arguments, folders=(), cwd=None, timeout=280, **environment):
    """What a script prints, with `folders` and ours on its path, and further variables."""
    path = os.pathsep.join(map(str, [*folders, Path(gz.__file__).parents[1]]))
    done = subprocess.run(
        [sys.executable, *map(str, (script, *arguments))],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-8000:]
    return done.stdout


def last_figure(script, *arguments, **how):
    """The last figure with four decimals that a script prints."""
    return float(re.findall(r"\d\.\d{4}", output_of(script, *arguments, **how))[-1])


def become_nobody():
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def as_nobody(call):
    """The same in a child that is another user; needs root."""
    return in_child(lambda: become_nobody() or call())


def alive():
    """Threads of graphzero in this process."""
    return [t for t in threading.enumerate() if t.name.startswith("graphzero")]


def wait_until(condition):
    """Until it is true, for a minute at most."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.002)


def keep(queue, answers):
    """A process that gets a tensor from the one that got it from the worker."""
    tensor = queue.get()
    answers.put("has it")
    queue.get()
    answers.put(int(tensor.sum()))
