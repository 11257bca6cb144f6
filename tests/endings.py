"""Program that ends in many ways with an iterator that lives, and says how that went.

``python endings.py FOLDER CASES`` forks a child for each case (JSON: a name, and the arguments of
`begin`), which goes on to the end of this file, as any script does. It prints JSON: by name, how
the child ended, what it wrote, and the processes that are left.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import files
import psutil
import pytest
import torch.utils.data  # noqa: F401  here, so that not every child must
from loaders import loader_of

import graphzero as gz

SECONDS = 60  # in which each must have ended


def wait_for(child):
    """Its exit code, negative for a signal; None if it had to be killed."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def watch(child, output, ready):
    """Interrupts a child when it asks for that, and reports how it ended."""
    if os.read(ready, 1) == b"i":
        os.killpg(child, signal.SIGINT)
    os.close(ready)
    code = wait_for(child)
    left = [process for process in psutil.process_iter() if in_group(process.pid, child)]
    _, left = psutil.wait_procs(left, timeout=20)
    output.seek(0)
    return {"code": code, "left": len(left), "output": output.read().decode()}


def in_group(pid, group):
    try:
        return os.getpgid(pid) == group
    except ProcessLookupError:
        return False


def run_cases(folder, cases):
    """Outcomes by name; in a child, the arguments of its case."""
    outcomes = {}
    for name, case in cases.items():
        for path in Path(folder).iterdir():
            files.drop_from_cache(path)
        ready, say = os.pipe()
        with tempfile.TemporaryFile() as output:
            child = os.fork()
            if child == 0:
                os.setpgid(0, 0)
                for stream in (1, 2):
                    os.dup2(output.fileno(), stream)
                signal.signal(signal.SIGINT, signal.default_int_handler)
                return None, {**case, "say": say}
            os.close(say)
            outcomes[name] = watch(child, output, ready)
    return outcomes, None


def make_loader(folder, workers, persistent, prefetch):
    ds = gz.open(folder)
    options = {"batch_size": 32, "shuffle": True, "num_threads": 4}
    options["prefetch"] = gz.Prefetch(**prefetch)
    batches = gz.NeighborDataset(ds, ds.splits["train"], [5, 3], **options)
    return loader_of(batches, workers, persistent_workers=persistent)


def train(loader, main, epochs=2):
    """Ends long after the main thread, and begins iterations then."""
    main.join()
    for _ in range(epochs):
        count = sum(1 for _ in loader)
        assert count == len(loader)
    print("trained", flush=True)


def fork_children(iterator):
    """Each inherits an iterator, and ends in another way."""
    for way in ("drop", "close", "next", "exit"):
        child = os.fork()
        if child == 0:
            inner = iterator._dataset_fetcher.dataset_iter
            if way == "close":
                inner.close()
            elif way == "next":
                with pytest.raises(RuntimeError, match="begin another"):
                    next(inner)
            elif way == "exit":
                sys.exit(0)
            del iterator, inner
            return None
        code = wait_for(child)
        assert code == 0, (way, code)
    return iterator


outcomes, case = run_cases(sys.argv[1], json.loads(sys.argv[2]))
if outcomes is not None:
    print(json.dumps(outcomes))
    sys.exit()

loader = make_loader(sys.argv[1], case["workers"], case["persistent"], case["prefetch"])
ending = case["ending"]
iterator = iter(loader)
batch = next(iterator)
if not case["workers"]:
    print(threading.active_count(), batch.stats.io)
if ending == "interrupt":
    os.write(case["say"], b"i")
    while True:
        time.sleep(0.01)
os.close(case["say"])
if ending == "exit":
    sys.exit(3)
elif ending == "exception":
    raise KeyError("training failed")
elif ending == "killed worker":
    psutil.Process().children()[0].kill()
    list(iterator)
    time.sleep(SECONDS)  # torch raises an error as soon as it hears of it
elif ending == "fork":
    iterator = fork_children(iterator)
elif ending == "thread":
    thread = threading.Thread(target=train, args=(loader, threading.main_thread()))
    thread.start()
elif ending == "daemon":
    thread = threading.Thread(target=lambda: [None for _ in range(1000) for _ in loader])
    thread.daemon = True
    thread.start()
    time.sleep(0.05)
