"""Work that `test_build_killed` kills: at one of its steps, where it waits, or at any moment.

Its steps are files that are complete, files of the earlier dataset set aside, and renames.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet  # noqa: F401  # before the clock starts

import graphzero as gz
from graphzero.ingest import build_dataset, reorder_dataset
from graphzero.store.format import FileWriter


def work(what: str, folder: Path, target: Path, limit: str) -> None:
    """Builds a dataset from the inputs in a folder, or reorders it."""
    if what == "reorder":
        presample = gz.Presample(fanouts=(5,), batch_size=64)
        reorder_dataset(target, "presample", presample=presample, memory_limit=limit)
        return
    build_dataset(
        target,
        {"edge_index": folder / "edges.npy", "kind": folder / "kind.npy"},
        labels=folder / "labels.parquet",
        splits={"train": folder / "train.npy"},
        ids="map",
        neighbors="both",
        memory_limit=limit,
    )


def main(what: str, folder: str, target: str, stop: str, limit: str) -> None:
    """Prints "begin", "step" where it waits, and at the end all steps and the seconds."""
    steps: list[str] = []

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def step(*values: Any) -> Any:
            steps.append(name)
            if len(steps) == int(stop):
                print("step", flush=True)
                time.sleep(600)
            return function(*values)

        return step

    os.rename = noted("set aside", os.rename)
    os.replace = noted("rename", os.replace)
    FileWriter.seal = noted("seal", FileWriter.seal)  # type: ignore[method-assign]
    print("begin", flush=True)
    began = time.monotonic()
    work(what, Path(folder), Path(target), limit)
    print(json.dumps([steps, time.monotonic() - began]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
