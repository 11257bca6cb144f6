"""The one-time build: against graphzero 0.2.0 and DuckDB, under memory limits, and by size.

``python -m benchmarks.build`` writes an R-MAT edge list and measures, in one run:

- edges a second from one CSV: graphzero, graphzero 0.2.0's `convert_csv_to_gl`, and DuckDB's
  ``COPY (SELECT ... ORDER BY src, dst)`` to Parquet, in turns;
- the peak of anonymous memory of builds with several memory limits, in a memory cgroup of that
  limit, so that page cache is bounded too but not counted;
- seconds per edge from the smallest to the largest edge list, from CSV and from ``.npy``;
- rows of features a second, against a plain copy of the same bytes, both from the disk and synced.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.build_inputs import copy_bytes, edges_csv, edges_npy, features_npy
from benchmarks.machine import (
    describe_disk,
    describe_machine,
    drop_cached,
    others_share,
    read_usage,
)
from benchmarks.options import QUICK_EDGES, QUICK_SCALE, count, list_of, require_positive
from benchmarks.peers import Peer, PeerError, Worker, install
from benchmarks.report import machine_lines, markdown, rate_table, ratio_table, to_json
from benchmarks.timing import Comparison, Dropped, Run, compare
from graphzero.report.tuning.limited_memory import NoMemoryGroup, memory_group

PARTS = ("rate", "memory", "size", "features")
GOALS = {"graphzero02": 5.0, "duckdb": 2.0}
MOST_GROWTH, LEAST_DISK_SHARE = 1.3, 0.8
OWN = Peer("graphzero", (), "session_build.py")
PEERS = (
    Peer("graphzero02", (("graphzero==0.2.0", "numpy"),), "peer_graphzero02_build.py"),
    Peer("duckdb", (("duckdb",),), "peer_duckdb_build.py"),
)


def _work(
    worker: Worker, out: Path, num_edges: int, **arguments: Any
) -> tuple[Run, dict[str, Any]]:
    """One build by one process, into a path that is empty before and after."""
    _remove(out)
    try:
        answer = worker.call("convert", out=str(out), **arguments)
        if answer["num_edges"] != num_edges:
            raise PeerError(f"{worker.name} has {answer['num_edges']} edges of {num_edges}")
    finally:
        _remove(out)
    return Run(num_edges, answer["seconds"], answer["processor_seconds"]), answer


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        path.unlink()


def _own_worker(folder: Path, threads: int, prefix: Sequence[str] = ()) -> Worker:
    return Worker(
        OWN,
        sys.executable,
        log=folder / "graphzero.log",
        threads=threads,
        prefix=prefix,
        isolated=False,
    )


def rate(options: argparse.Namespace, folder: Path) -> Comparison:
    """Edges a second from one CSV, in the page cache for everyone."""
    path = edges_csv(folder, options.scale, options.edges)
    notes: dict[str, list[str]] = {}
    with ExitStack() as stack:
        own = stack.enter_context(_own_worker(folder, options.threads))
        workers = {"graphzero": own}
        for peer in PEERS:
            if peer.name not in options.peers:
                continue
            try:
                python = install(peer, options.environments)
            except PeerError as error:
                notes[peer.name] = [str(error)]
                continue
            log = folder / f"{peer.name}.log"
            worker = Worker(peer, python, log=log, threads=options.threads)
            workers[peer.name] = stack.enter_context(worker)

        def contestant(name: str) -> Callable[[int], Run]:
            extra = {"threads": options.threads} if name == "duckdb" else {}
            out = folder / f"out_{name}"

            def run(_: int) -> Run:
                try:
                    return _work(workers[name], out, options.edges, edges=str(path), **extra)[0]
                except PeerError as error:
                    if name == "graphzero":
                        raise
                    raise Dropped(str(error)) from error

            return run

        return compare(
            f"{options.edges:,} edges from CSV",
            "edges/s",
            {name: contestant(name) for name in workers},
            options.runs,
            goals=GOALS,
            notes=notes,
        )


def memory(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """The peak of anonymous memory of the whole process, by memory limit."""
    path = edges_csv(folder, options.scale, options.edges)
    found: list[dict[str, Any]] = []
    for limit in options.limits:
        try:
            with (
                memory_group(limit) as group,
                _own_worker(folder, options.threads, group.prefix) as worker,
            ):
                run, answer = _work(
                    worker, folder / "out", options.edges, edges=str(path), memory_limit=limit
                )
                peak = answer["peak_anonymous"]
                found.append({"limit": limit, "peak": peak, "rate": run.rate, "group": group.kind})
        except (NoMemoryGroup, PeerError) as error:
            found.append({"limit": limit, "error": str(error)})
    return found


def size(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Seconds per edge by size and kind of file, medians; inputs beyond the others are removed."""
    found = []
    with _own_worker(folder, options.threads) as worker:
        for edges in options.sizes:
            for kind, make in (("npy", edges_npy), ("csv", edges_csv)):
                path = make(folder, options.scale, edges)
                runs = [
                    _work(worker, folder / "out", edges, edges=str(path))[0]
                    for _ in range(options.size_runs)
                ]
                seconds = statistics.median(run.seconds for run in runs) / edges
                found.append({"kind": kind, "edges": edges, "seconds_per_edge": seconds})
            if edges != options.edges:
                for kind in ("npy", "csv"):
                    (folder / f"edges_{options.scale}_{edges}.{kind}").unlink()
    for entry in found:
        first = next(one for one in found if one["kind"] == entry["kind"])
        entry["growth"] = entry["seconds_per_edge"] / first["seconds_per_edge"]
    return found


def features(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Bytes of rows a second: those of a build, less the build without them, and of a copy."""
    edges = edges_npy(folder, options.scale, min(options.edges, 1 << options.scale))
    path = features_npy(folder, 1 << options.scale, options.dim)
    num_edges, nodes = min(options.edges, 1 << options.scale), 1 << options.scale
    seconds: dict[str, list[float]] = {"copy": [], "without": [], "input": [], "hot": []}
    kinds: Mapping[str, dict[str, Any]] = {
        "without": {"order": "hot", "num_nodes": nodes},
        "input": {"order": "input", "features": str(path)},
        "hot": {"order": "hot", "features": str(path)},
    }
    with _own_worker(folder, options.threads) as worker:
        for _ in range(options.runs):
            drop_cached([path])
            begin = time.perf_counter()
            copied = copy_bytes(path, folder / "copy")
            seconds["copy"].append(time.perf_counter() - begin)
            (folder / "copy").unlink()
            for name, given in kinds.items():
                drop_cached([path])
                run, _ = _work(worker, folder / "out", num_edges, edges=str(edges), **given)
                seconds[name].append(run.seconds)
    median = {name: statistics.median(values) for name, values in seconds.items()}
    rows = {name: copied / max(1e-9, median[name] - median["without"]) for name in ("input", "hot")}
    return {"bytes": copied, "seconds": seconds, "copy_rate": copied / median["copy"], **rows}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All requested parts, as plain values."""
    folder = Path(options.data)
    folder.mkdir(parents=True, exist_ok=True)
    machine, before = describe_machine(), read_usage()
    found: dict[str, Any] = {"machine": machine, "disk": describe_disk(folder)}
    parts: Mapping[str, Callable[[argparse.Namespace, Path], Any]] = {
        "rate": rate,
        "memory": memory,
        "size": size,
        "features": features,
    }
    for name in options.parts:
        print(f"{name} ...", file=sys.stderr)
        found[name] = parts[name](options, folder)
    found["others_processor_share"] = others_share(before, read_usage(), machine["cores"])
    return found


def _verdict(holds: bool) -> str:
    return "met" if holds else "missed"


def tables(found: Mapping[str, Any]) -> str:
    """The results as Markdown."""
    shown = machine_lines(found)
    if "rate" in found:
        result = replace(found["rate"], goals=GOALS)
        names = ["graphzero", *(peer.name for peer in PEERS)]
        shown += ["", rate_table([result], names), "", ratio_table([result], names)]
    if "memory" in found:
        rows = [["memory limit", "peak of anonymous memory", "edges/s", "goal"]]
        for one in found["memory"]:
            cells = [one.get("error", ""), "-", "-"]
            if "peak" in one:
                met = _verdict(one["peak"] <= one["limit"])
                cells = [f"{one['peak'] / 1e6:,.0f} MB", f"{one['rate']:,.0f}", met]
            rows.append([f"{one['limit'] / 1e6:,.0f} MB", *cells])
        shown += ["", markdown(rows)]
    if "size" in found:
        rows = [["edges", "file", "ns/edge", "of the smallest", f"goal {MOST_GROWTH}x"]]
        for one in found["size"]:
            nanoseconds, met = one["seconds_per_edge"] * 1e9, _verdict(one["growth"] <= MOST_GROWTH)
            growth = f"{one['growth']:.2f}x"
            rows.append([f"{one['edges']:,}", one["kind"], f"{nanoseconds:.1f}", growth, met])
        shown += ["", markdown(rows)]
    if "features" in found:
        copy = found["features"]["copy_rate"]
        rows = [["rows", "MB/s", "of the copy", f"goal {LEAST_DISK_SHARE}"]]
        rows.append(["plain copy, synced", f"{copy / 1e6:,.0f}", "1.00", "-"])
        for name in ("input", "hot"):
            share = found["features"][name] / copy
            rows.append(
                [
                    f"build, order={name}",
                    f"{found['features'][name] / 1e6:,.0f}",
                    f"{share:.2f}",
                    _verdict(share >= LEAST_DISK_SHARE),
                ]
            )
        shown += ["", markdown(rows)]
    return "\n".join(shown)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--edges", type=count, default=32_000_000, help="of the comparison, such as 32e6")
    add("--scale", type=int, default=21, help="edge lists have 2^SCALE nodes")
    add("--dim", type=int, default=128, help="float32 columns of the rows")
    add("--sizes", type=count, nargs="+", default=[4_000_000, 32_000_000, 256_000_000])
    add("--limits", type=count, nargs="+", default=[256_000_000, 10**9, 4 * 10**9], help="bytes")
    add("--runs", type=int, default=5, help="counted runs of each contestant")
    add("--size-runs", type=int, default=3, help="runs of each size")
    add("--threads", type=int, default=len(os.sched_getaffinity(0)))
    names = [peer.name for peer in PEERS]
    add("--peers", type=list_of(names, "peer"), default=names, help="such as duckdb; none: ,")
    add("--parts", type=list_of(PARTS, "part"), default=list(PARTS), help=",".join(PARTS))
    add(
        "--data",
        default=str(Path(__file__).parent / ".data" / "build"),
        help="folder of inputs; needs 30 GB for 256e6",
    )
    add("--environments", default=str(Path(__file__).parent / ".peer"), help="folder of the peers")
    add("--json", help="file for all results")
    add("--quick", action="store_true", help="a smoke test; its figures mean nothing")
    options = parser.parse_args(arguments)
    if options.quick:
        options.edges, options.scale, options.runs, options.size_runs = (
            QUICK_EDGES,
            QUICK_SCALE,
            1,
            1,
        )
        options.sizes, options.limits, options.dim = [250_000, QUICK_EDGES], [256_000_000], 16
    require_positive(parser, options, ["edges", "dim", "runs", "size_runs", "threads"])
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints the tables, and writes the JSON file."""
    options = parse(arguments)
    found = measure(options)
    print(tables(found))
    if options.json:
        plain = {**found, "rate": to_json(found["rate"])} if "rate" in found else found
        Path(options.json).write_text(json.dumps(plain, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
