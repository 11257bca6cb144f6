"""Reading rows and training on data larger than memory, under a limit that the kernel enforces.

Run ``python -m benchmarks.out_of_core`` from the repository's root, with graphzero installed, where
a memory cgroup can be made: as root, in a delegated group, or with systemd-run. It writes the data,
measures the disk with fio, and runs every contestant in its own process with limited memory, page
cache included. ``--quick`` takes a minute; ``--nodes 111e6 --edges 1.6e9`` has the size of
ogbn-papers100M, and ``--nodes 11e6 --edges 160e6 --limit 1.6e9`` a tenth of it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil

from benchmarks import disk_contestants as who
from benchmarks.contestants import GRAPHZERO02, PYG
from benchmarks.disk_inputs import (
    DiskInputs,
    build_order,
    prepare_disk,
    write_features02,
    write_pyg_graph,
)
from benchmarks.disk_results import (
    RowsResult,
    TrainResult,
    rows_result,
    rows_table,
    train_result,
    train_table,
)
from benchmarks.disk_run import Runner, Training
from benchmarks.fio import NoFio, ReadRate, read_rate
from benchmarks.machine import (
    describe_disk,
    describe_machine,
    others_share,
    read_usage,
    versions,
)
from benchmarks.meter import Plan
from benchmarks.options import count, list_of, require_positive
from benchmarks.report import machine_lines, versions_line
from graphzero.report.tuning.limited_memory import NoMemoryGroup, memory_group

ORDERS = ("input", "hot", "presample")
LIMIT_SHARE = 5 / 16  # 640 MiB of 2 GiB
QUICK_LIMIT = 16 << 20  # of 32 MiB: the kernel's own tables take a part of a small limit
BASELINE_ORDER = "input"


def build_orders(
    inputs: DiskInputs, options: argparse.Namespace, notes: dict[str, str]
) -> dict[str, Path]:
    """Folders of the datasets by order, always with input order, which the peers need."""
    datasets = {}
    for order in dict.fromkeys([BASELINE_ORDER, *options.orders]):
        try:
            datasets[order] = build_order(inputs, order, options.build_memory)
        except ValueError as error:
            notes[f"order {order}"] = str(error)
    return datasets


def save_all_batches(
    inputs: DiskInputs, datasets: dict[str, Path], options: argparse.Namespace, folder: Path
) -> dict[str, str]:
    """Paths of the sampled batches by order."""
    import graphzero as gz
    from benchmarks.saved_batches import save_batches

    with ExitStack() as stack:
        opened = {order: stack.enter_context(gz.open(path)) for order, path in datasets.items()}
        stores = {order: ds.features for order, ds in opened.items() if ds.features is not None}
        return save_batches(
            folder,
            opened[BASELINE_ORDER],
            stores,
            inputs.train,
            fanouts=options.fanouts,
            batch_size=options.batch_size,
            count=plan_of(options).total,
        )


def plan_of(options: argparse.Namespace) -> Plan:
    """The number of batches that a contestant reads."""
    return Plan(
        options.warm_up, options.runs, options.batches, options.checked, options.most_seconds
    )


def make_runner(
    inputs: DiskInputs, options: argparse.Namespace, scratch: Path
) -> tuple[Runner, list[who.Contestant]]:
    """Data and contestants; what is unavailable is noted."""
    import graphzero as gz

    notes: dict[str, str] = {}
    datasets = build_orders(inputs, options, notes)
    found, missing = who.strategies(options.resident, options.prefetch)
    contestants = who.chosen([*found, *who.baselines()], options.only)
    notes |= {
        name: why for name, why in missing.items() if not options.only or name in options.only
    }
    pyg_graph: dict[str, str] = {}
    names = {one.name for one in contestants} if "rows" in options.parts else set()
    if GRAPHZERO02 in names:
        write_features02(inputs)
    if PYG in names:
        with gz.open(datasets[BASELINE_ORDER]) as ds:
            pyg_graph = write_pyg_graph(inputs, ds)
    runner = Runner(
        inputs=inputs,
        datasets=datasets,
        batches=save_all_batches(inputs, datasets, options, scratch),
        pyg_graph=pyg_graph,
        limit=options.limit,
        threads=options.threads,
        plan=plan_of(options),
        training=Training(
            options.fanouts,
            options.batch_size,
            options.hidden,
            options.epochs,
            options.epoch_batches,
        ),
        peer_dir=options.peer_dir,
        scratch=scratch,
        notes=notes,
    )
    return runner, contestants


def run_rows(
    runner: Runner, contestants: Sequence[who.Contestant], orders: Sequence[str]
) -> list[RowsResult]:
    """Every contestant in every order that it reads."""
    results = []
    for one in contestants:
        for order in orders if one.any_order else [BASELINE_ORDER]:
            print(f"rows: {one.name}, {order} ...", file=sys.stderr)
            done = runner.rows(one, order)
            if done is not None:
                whole = runner.rows_of_batch if one.parts > 1 else None
                batches = runner.plan.batches
                results.append(rows_result(one.name, order, batches, *done, whole=whole))
                print(f"    {results[-1].median:.3f} s/batch", file=sys.stderr)
    return results


def run_training(
    runner: Runner,
    contestants: Sequence[who.Contestant],
    orders: Sequence[str],
    only: Sequence[str],
    sleeps: Sequence[int],
) -> list[TrainResult]:
    """Every strategy in every order, and everything in memory; "auto" with sleeps as well."""
    trained = [one for one in contestants if one.operation == "pipeline"]
    if not only or who.RAM in only:
        size = sum(path.stat().st_size for path in runner.datasets[BASELINE_ORDER].iterdir())
        if size < psutil.virtual_memory().available // 2:
            trained.insert(0, who.Contestant(who.RAM, "pipeline", {"strategy": "none"}))
        else:
            runner.notes[who.RAM] = "the data do not fit into this machine's memory"
    if not only or who.PACKED in only:
        trained.append(who.Contestant(who.PACKED, "packed", {"strategy": "auto"}))
    slept = [one for one in trained if one.name in (who.RAM, "auto")]
    trained += [replace(one, sleep_ms=sleep) for sleep in sleeps for one in slept]
    results = []
    for one in trained:
        for order in orders:
            print(f"training: {one.name}, {order}, {one.step} ...", file=sys.stderr)
            done = runner.train(one, order)
            if done is not None:
                results.append(train_result(one.name, order, one.step, *done))
                print(f"    {results[-1].cold:.1f} s, {results[-1].warm:.1f} s", file=sys.stderr)
    return results


def ask_fio(path: Path, options: argparse.Namespace, notes: dict[str, str]) -> ReadRate | None:
    """The disk's rate; None, with a note, if fio cannot measure it."""
    try:
        return read_rate(path, seconds=options.fio_seconds)
    except NoFio as error:
        notes["fio"] = str(error)
        print(f"without fio: {error}", file=sys.stderr)
        return None


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Runs everything; results as plain values, but for `rows` and `training`."""
    inputs = prepare_disk(
        options.data, num_nodes=options.nodes, num_edges=options.edges, dim=options.dim
    )
    with tempfile.TemporaryDirectory(dir=options.data) as scratch:
        runner, contestants = make_runner(inputs, options, Path(scratch))
        orders = [order for order in options.orders if order in runner.datasets]
        features = inputs.path("features.npy")
        rate = ask_fio(features, options, runner.notes)
        usage = read_usage()
        rows = run_rows(runner, contestants, orders) if "rows" in options.parts else []
        again = ask_fio(features, options, runner.notes) if rate is not None else None
        training = []
        if "train" in options.parts:
            names = options.only if options.trained is None else options.trained
            trained = who.chosen(contestants, names)
            training = run_training(runner, trained, orders, names, options.sleeps)
        others = others_share(usage, read_usage(), os.cpu_count() or 1)
    return {
        **describe(options, inputs, runner),
        "fio": {"before": rate and asdict(rate), "after": again and asdict(again)},
        "disk_rate": rate and max(rate.median, (again or rate).median),
        "others_processor_share": others,
        "rows": rows,
        "training": training,
    }


def describe(options: argparse.Namespace, inputs: DiskInputs, runner: Runner) -> dict[str, Any]:
    """Machine, disk, cache, limit, settings and versions, as plain values."""
    import graphzero as gz

    plain = {name: value for name, value in vars(options).items() if not isinstance(value, Path)}
    return {
        "benchmark": "out_of_core",
        "machine": describe_machine(),
        "disk": describe_disk(options.data),
        "cache": "dropped before each contestant; rows after warm-up batches, first epochs cold",
        "graph": {"kind": "R-MAT, directed, scrambled ids", **asdict(inputs), "folder": None},
        "memory": {
            "group": runner.kind,
            "limit": runner.limit,
            "own_anonymous": runner.own,
            "features_bytes": inputs.features_bytes,
        },
        "settings": plain,
        "counters": "read bytes: /proc/self/io of the process; IOPS: the device's, by anyone",
        "versions": {"graphzero": gz.__version__, **versions(["numpy", "torch"])},
        "peer_versions": runner.versions,
        "notes": runner.notes,
    }


def heading(found: dict[str, Any]) -> str:
    """What was measured on what, in a few lines."""
    disk, settings = found["disk"], found["settings"]
    graph, memory, fio = found["graph"], found["memory"], found["fio"]
    own = ", ".join(f"{kind} {size / 2**20:,.0f}" for kind, size in memory["own_anonymous"].items())
    lines = [
        *machine_lines(found),
        f"data on {disk['file_system']} ({disk['device']}), the kernel reads on by up to "
        f"{disk['read_ahead_kb']} KiB, cache {found['cache']}",
        f"{graph['kind']}, {graph['num_nodes']:,} nodes, {graph['num_edges']:,} edges, "
        f"{graph['dim']} float32 columns ({memory['features_bytes'] / 2**20:,.0f} MiB)",
        f"limit {memory['limit'] / 2**20:,.0f} MiB by {memory['group'] or 'none'}, plus the "
        f"process's own anonymous memory, measured first (MiB): {own}",
        f"{settings['threads']} threads, batches of {settings['batch_size']} seeds, fanouts "
        f"{settings['fanouts']}; rows: {settings['warm_up']} batches to warm up, then "
        f"{settings['runs']} runs of {settings['batches']}, median (lowest to highest); training: "
        f"{settings['epochs']} epochs of {settings['epoch_batches']} batches, hidden "
        f"{settings['hidden']}, OMP_WAIT_POLICY=passive",
        versions_line(found["versions"] | found["peer_versions"]),
    ]
    for when in ("before", "after"):
        if fio[when] is not None:
            iops = ", ".join(f"{rate:,.0f}" for rate in fio[when]["iops"])
            lines.append(
                f"{fio[when]['version']} {when}: {iops} random reads/s of 4 KiB "
                f"(O_DIRECT, depth 128, {fio[when]['engine']})"
            )
    return "\n".join([*lines, *(f"{name}: {why}" for name, why in found["notes"].items())])


def _fields(text: str) -> dict[str, Any]:
    """gap_pages=3,advice=normal as a dict; numbers as numbers."""
    found: dict[str, Any] = {}
    for pair in filter(None, text.split(",")):
        name, equals, value = pair.partition("=")
        if not equals:
            raise argparse.ArgumentTypeError(f"{pair!r} is not FIELD=VALUE")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    here = Path(__file__).parent
    parser = argparse.ArgumentParser(prog="python -m benchmarks.out_of_core", description=__doc__)
    add = parser.add_argument
    add("--nodes", type=count, default=1 << 22, help="such as 11e6")
    add("--scale", type=int, help="2^SCALE nodes")
    add("--edges", type=count, default=64_000_000, help="such as 64e6")
    add("--dim", type=int, default=128, help="float32 columns of the rows")
    add("--limit", type=count, help="bytes; default: 5/16 of those of the rows")
    add("--orders", type=list_of(ORDERS), default=list(ORDERS), help=",".join(ORDERS))
    add("--only", type=list_of(who.all_names()), default=[], help="contestants, by their names")
    add("--trained", type=list_of(who.all_names()), help="of these; default: all that can train")
    add("--parts", type=list_of(("rows", "train")), default=["rows", "train"], help="rows,train")
    add("--resident", type=float, default=0.2, help="share of the rows in the resident prefix")
    add(
        "--prefetch",
        type=_fields,
        default={},
        help="more fields, such as gap_pages=3,lookahead=2",
    )
    add("--fanouts", type=int, nargs="+", default=[15, 10, 5])
    add("--batch-size", type=int, default=1024)
    add("--runs", type=int, default=5, help="counted runs of each contestant")
    add("--batches", type=int, default=2, help="batches of a run")
    add("--warm-up", type=int, default=6, help="batches before the first run, not counted")
    add(
        "--checked", type=int, default=1, help="batches after the runs; all their bytes are checked"
    )
    add("--most-seconds", type=float, default=120.0, help="a slower contestant makes fewer runs")
    add("--epochs", type=int, default=4, help="of training; the first one starts with a cold cache")
    add("--epoch-batches", type=int, default=20, help="batches of an epoch")
    add("--hidden", type=int, default=256)
    add(
        "--sleeps",
        type=count,
        nargs="*",
        default=[20, 50],
        help='"auto" is trained with these sleeps too, in ms a batch, in place of a model',
    )
    add("--threads", type=int, default=2)
    add("--fio-seconds", type=float, default=4.0, help="of each of three runs, before and after")
    add("--build-memory", help="memory limit of graphzero.build, such as 2GB")
    add("--data", type=Path, default=here / ".data", help="folder for the data")
    add("--peer-dir", type=Path, default=here / ".peer", help="folder for peers")
    add("--json", type=Path, help="write the results there as well")
    add("--quick", action="store_true", help="2^16 nodes, 1 M edges, small batches: a smoke test")
    options = parser.parse_args(arguments)
    if options.quick:
        options.nodes, options.edges, options.scale = 1 << 16, 1_000_000, None
        options.batch_size, options.fanouts = 32, [5, 5]
        options.epochs, options.epoch_batches, options.fio_seconds = 3, 5, 0.5
        options.limit = options.limit or QUICK_LIMIT
    if options.scale is not None:
        options.nodes = 1 << options.scale
    positive = ["nodes", "edges", "dim", "runs", "batches", "epoch_batches", "threads"]
    require_positive(parser, options, positive)
    if options.epochs < 2:
        parser.error("--epochs must be at least 2: the first one is reported by itself")
    if options.limit is None:
        options.limit = int(options.nodes * options.dim * 4 * LIMIT_SHARE)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints."""
    options = parse(arguments)
    os.makedirs(options.data, exist_ok=True)
    try:
        with memory_group(1 << 30):
            pass
    except NoMemoryGroup as error:
        print(f"stopped: this benchmark needs a memory limit; {error}", file=sys.stderr)
        return 1
    found = measure(options)
    print(heading(found), end="\n\n")
    if found["rows"]:
        print(rows_table(found["rows"], who.BASELINE, found["disk_rate"]), end="\n\n")
    if found["training"]:
        print(train_table(found["training"], who.RAM))
    if options.json is not None:
        plain = {
            **found,
            "rows": [{**asdict(one), "median": one.median} for one in found["rows"]],
            "training": [asdict(one) for one in found["training"]],
        }
        options.json.write_text(json.dumps(plain, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # leave no group and no process behind
    sys.exit(main())
