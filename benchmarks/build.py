"""The one-time build and ``graphzero verify``: speed, memory, and growth with size.

The parts, all by default:

- rate: edges a second from one CSV in the page cache: graphzero, graphzero 0.2.0's
  `convert_csv_to_gl`, and DuckDB's ``COPY (SELECT ... ORDER BY src, dst)`` to Parquet, in turns;
- memory: the peak of anonymous memory of builds with several memory limits, in a memory cgroup of
  that limit, so that page cache is bounded too but not counted;
- size: seconds per edge from the smallest to the largest edge list, from CSV and from ``.npy``;
- append: seconds to append 1 % of the edges to the largest graph in 1 GB of memory, page cache
  included; to copy its files; and to build it;
- verify: GB a second of ``gz.verify`` on files in the page cache, against a plain read of them.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import machine, timing
from benchmarks.inputs import edge_chunk, write_csv, write_edges
from benchmarks.peers import DUCKDB, GRAPHZERO02, PeerError, Worker, start_own, start_peer
from graphzero.report.limited_memory import NoMemoryGroup, limited_group

GOALS = {GRAPHZERO02: 5.0, DUCKDB: 2.0}
MOST_GROWTH = 1.3
APPEND_BYTES = 1_000_000_000
VERIFIED_EDGES, VERIFIED_SCALE = 16_000_000, 20


def written(path: Path, write: Callable[[Path], object]) -> Path:
    """A file that the first call writes, whole or not at all."""
    if not path.exists():
        unfinished = path.with_suffix(".unfinished.npy")
        write(unfinished)
        unfinished.rename(path)
    return path


def edges_npy(options: argparse.Namespace, edges: int) -> Path:
    """An edge list as ``.npy``."""
    path = options.data / f"edges_{options.scale}_{edges}.npy"
    return written(path, lambda to: write_edges(to, options.scale, edges))


def edges_csv(options: argparse.Namespace, edges: int) -> Path:
    """The same edge list as CSV."""
    source = edges_npy(options, edges)
    path = source.with_suffix(".csv")
    return written(path, lambda to: write_csv(to, np.load(source, mmap_mode="r")))


def one_build(
    worker: Worker, out: Path, num_edges: int, **arguments: Any
) -> tuple[timing.Run, Any]:
    """One build by one process, into a path that is removed before and after."""

    def remove() -> None:
        shutil.rmtree(out, ignore_errors=True)
        with suppress(OSError):
            out.unlink()

    remove()
    try:
        answer = worker.call("convert", out=str(out), **arguments)
    finally:
        remove()
    if answer["num_edges"] != num_edges:
        raise PeerError(f"{worker.name} has {answer['num_edges']} edges of {num_edges}")
    return timing.Run(num_edges, answer["seconds"], answer["processor_seconds"]), answer


def rate(options: argparse.Namespace) -> timing.Comparison:
    """Edges a second from one CSV, in the page cache for everyone."""
    path, folder = edges_csv(options, options.edges), options.data
    notes: dict[str, list[str]] = {}
    with ExitStack() as stack:
        own = stack.enter_context(start_own(folder=folder, threads=options.threads))
        workers = {"graphzero": own}
        for name in options.peers:
            try:
                peer = start_peer(name, options.peer_dir, folder=folder, threads=options.threads)
                workers[name] = stack.enter_context(peer)
            except PeerError as error:
                notes[name] = [str(error)]

        def contestant(name: str) -> Callable[[int], timing.Run]:
            extra = {"threads": options.threads} if name == DUCKDB else {}
            out = folder / f"out_{name}"

            def run(_: int) -> timing.Run:
                try:
                    return one_build(workers[name], out, options.edges, edges=str(path), **extra)[0]
                except PeerError as error:
                    if name == "graphzero":
                        raise
                    raise timing.Dropped(str(error)) from error

            return run

        return timing.compare(
            f"{options.edges:,} edges from CSV",
            "edges/s",
            {name: contestant(name) for name in workers},
            options.runs,
            goals={name: GOALS[name] for name in options.peers},
            notes=notes,
        )


def memory(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The peak of anonymous memory of the whole process, by memory limit."""
    path = edges_csv(options, options.edges)
    found: list[dict[str, Any]] = []
    for limit in options.limits:
        try:
            with ExitStack() as stack:
                group = stack.enter_context(limited_group(limit))
                worker = stack.enter_context(
                    start_own(folder=options.data, threads=options.threads, prefix=group.prefix)
                )
                run, answer = one_build(
                    worker, options.data / "out", options.edges, edges=str(path), memory_limit=limit
                )
                found.append({"limit": limit, "peak": answer["peak_anonymous"], "rate": run.rate})
        except (NoMemoryGroup, PeerError) as error:
            found.append({"limit": limit, "error": str(error)})
    return found


def size(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Seconds per edge by size and kind of file, medians."""
    found: list[dict[str, Any]] = []
    with start_own(folder=options.data, threads=options.threads) as worker:
        for edges in options.sizes:
            for kind, make in (("npy", edges_npy), ("csv", edges_csv)):
                path = make(options, edges)
                runs = [
                    one_build(worker, options.data / "out", edges, edges=str(path))[0]
                    for _ in range(options.runs)
                ]
                seconds = median(run.seconds for run in runs) / edges
                first = next((one for one in found if one["kind"] == kind), None)
                growth = seconds / first["seconds_per_edge"] if first else 1.0
                found.append(
                    {"kind": kind, "edges": edges, "seconds_per_edge": seconds, "growth": growth}
                )
    return found


def append(options: argparse.Namespace) -> dict[str, list[float]]:
    """Seconds of appending in a memory group, of a copy, and of a build, in turns."""
    edges, out = max(options.sizes), options.data / "out"
    base, new = options.data / "base", edges_npy(options, edges // 100)
    seconds: dict[str, list[float]] = {"copy": [], "append": [], "build": []}
    with ExitStack() as stack:
        group = stack.enter_context(limited_group(APPEND_BYTES))
        how: dict[str, Any] = {"threads": options.threads, "prefix": group.prefix}
        worker = stack.enter_context(start_own(folder=options.data, **how))
        limit = {"memory_limit": APPEND_BYTES // 2}
        for _ in range(options.runs):
            for folder in (base, out):
                shutil.rmtree(folder, ignore_errors=True)
            path = str(edges_npy(options, edges))
            requests: dict[str, dict[str, Any]] = {
                "build": {"op": "convert", "edges": path, "out": str(base), **limit},
                "copy": {"dataset": str(base), "out": str(out)},
                "append": {"dataset": str(out), "edges": str(new), **limit},
            }
            for name, request in requests.items():
                seconds[name].append(worker.call(**{"op": name, **request})["seconds"])
    for folder in (base, out):
        shutil.rmtree(folder)
    return seconds


def verify(options: argparse.Namespace) -> list[dict[str, Any]]:
    """GB a second of `gz.verify` and of a plain read, for several kinds of datasets."""
    import graphzero as gz

    scale = min(options.scale, VERIFIED_SCALE)
    rng = np.random.default_rng(0)
    edges = edge_chunk(rng, scale, min(options.edges, VERIFIED_EDGES))
    weights, times = rng.random(len(edges), np.float32), rng.integers(0, 2**40, len(edges))
    kinds: dict[str, dict[str, Any]] = {
        "lists of in-neighbours": {},
        "and edge ids": {"edge_ids": True},
        "both directions": {"neighbors": "both", "edge_ids": True},
        "undirected": {"directed": False},
        "weights and times": {"weight": weights, "timestamp": times},
        f"rows of {options.dim} float32": {
            "features": rng.standard_normal((1 << scale, options.dim), np.float32)
        },
    }
    found = []
    folder = options.data / "verified"
    for name, how in kinds.items():
        gz.build(folder, edges, num_nodes=1 << scale, **how).close()
        files = [path for path in folder.iterdir() if path.suffix in (".gl", ".gd")]
        num_bytes = sum(path.stat().st_size for path in files)
        seconds: dict[str, list[float]] = {"verify": [], "read": []}
        machine.read_through(files)
        for _ in range(options.runs):
            begin = time.perf_counter()
            errors = gz.verify(folder)
            seconds["verify"].append(time.perf_counter() - begin)
            assert not errors, errors
            begin = time.perf_counter()
            machine.read_through(files)
            seconds["read"].append(time.perf_counter() - begin)
        shutil.rmtree(folder)
        rates = {key: num_bytes / median(values) for key, values in seconds.items()}
        found.append({"dataset": name, "bytes": num_bytes, **rates})
    return found


PARTS: Mapping[str, Callable[[argparse.Namespace], Any]] = {
    "rate": rate,
    "memory": memory,
    "size": size,
    "append": append,
    "verify": verify,
}


VERDICTS = {True: "met", False: "missed"}


def tables(found: Mapping[str, Any]) -> str:
    """The results as Markdown."""
    shown: list[str] = []
    if "rate" in found:
        result = found["rate"]
        names = ["graphzero", *GOALS]
        shown += [timing.rate_table([result], names), timing.ratio_table([result], names)]
    if "memory" in found:
        cells = [["memory limit", "peak of anonymous memory", "edges/s", "goal"]]
        for one in found["memory"]:
            row = [one.get("error", ""), "-", "-"]
            if "peak" in one:
                met = VERDICTS[one["peak"] <= one["limit"]]
                row = [f"{one['peak'] / 1e6:,.0f} MB", f"{one['rate']:,.0f}", met]
            cells.append([f"{one['limit'] / 1e6:,.0f} MB", *row])
        shown.append(timing.markdown(cells))
    if "size" in found:
        cells = [["edges", "file", "ns/edge", "of the smallest", f"goal {MOST_GROWTH}x"]]
        for one in found["size"]:
            nanoseconds, met = one["seconds_per_edge"] * 1e9, VERDICTS[one["growth"] <= MOST_GROWTH]
            growth = f"{one['growth']:.2f}x"
            cells.append([f"{one['edges']:,}", one["kind"], f"{nanoseconds:.1f}", growth, met])
        shown.append(timing.markdown(cells))
    if "append" in found:
        middle = {name: median(values) for name, values in found["append"].items()}
        cells = [["1 % of the edges appended", "seconds, medians", "of a copy"]]
        for name, value in middle.items():
            cells.append([name, f"{value:.2f}", f"{value / middle['copy']:.2f}x"])
        shown.append(timing.markdown(cells))
    if "verify" in found:
        cells = [["dataset", "size", "verify, GB/s", "plain read, GB/s"]]
        for one in found["verify"]:
            speeds = [f"{one[name] / 1e9:.3g}" for name in ("verify", "read")]
            cells.append([one["dataset"], f"{one['bytes'] / 1e6:,.0f} MB", *speeds])
        shown.append(timing.markdown(cells))
    return "\n\n".join(shown)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = timing.parser_of("benchmarks.build", __doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--sizes", type=timing.count, nargs="+", default=[4_000_000, 32_000_000, 256_000_000])
    add(
        "--limits",
        type=timing.count,
        nargs="+",
        default=[256_000_000, 10**9, 4 * 10**9],
        help="bytes",
    )
    add("--peers", type=timing.list_of(list(GOALS), "peer"), default=list(GOALS), help="none: ,")
    add(
        "--parts",
        type=timing.list_of(list(PARTS), "part"),
        default=list(PARTS),
        help=",".join(PARTS),
    )
    add("--peer-dir", type=Path, default=timing.PEERS, help="folder for peers")
    options = parser.parse_args(arguments)
    if options.quick:
        options.edges, options.scale, options.dim = timing.QUICK_EDGES, timing.QUICK_SCALE, 16
        options.runs = 1
        options.sizes, options.limits = [250_000, timing.QUICK_EDGES], [256_000_000]
    timing.require_positive(parser, options, ["edges", "dim", "runs", "threads"])
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints the tables, and writes the JSON file."""
    options = parse(arguments)
    options.data.mkdir(parents=True, exist_ok=True)
    found = machine.conditions("build", options.data, settings=timing.settings(options))
    with machine.OtherProcesses() as others:
        for name in options.parts:
            print(f"{name} ...", file=sys.stderr)
            found[name] = PARTS[name](options)
    found["others_share"] = others.share
    print(machine.heading(found), tables(found), sep="\n\n")
    timing.write_json(options, found | ({"rate": found["rate"].plain()} if "rate" in found else {}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
