"""The scripts of examples/pyg on PyG and on graphzero: their accuracy over some seeds.

On PyG they run with the lines that graphzero changes put back: a comment ``# PyG: LINE`` stands
before each of these, and says what the line was. PyG needs pyg-lib or torch-sparse for them.

    python -m benchmarks.pyg_scripts DATA --seeds 5
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples" / "pyg"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "graphs")
MARK = "# PyG: "


def changed_lines(name: str) -> list[tuple[str, str]]:
    """Pairs of the line on PyG and the line on graphzero."""
    lines = (FOLDER / f"{name}.py").read_text().splitlines()
    found = []
    for before, line in pairwise(lines):
        if before.strip().startswith(MARK):
            found.append((before.strip().removeprefix(MARK), line.strip()))
    return found


def on_pyg(name: str) -> str:
    """The text of a script with PyG's lines."""
    result: list[str] = []
    replaced = False
    for line in (FOLDER / f"{name}.py").read_text().splitlines():
        if line.strip().startswith(MARK):
            result.append(line.replace(MARK, "", 1))
            replaced = True
        elif replaced or line.startswith("from graphzero.pyg import"):
            replaced = False  # the line after the comment; ruff cuts imports with "as" in two
        else:
            result.append(line)
    text = "\n".join(result) + "\n"
    code = text.split('"""', 2)[2]
    assert "graphzero.pyg" not in code
    assert "from_data" not in code
    return text


# What is compared: script, graph and arguments.
COMPARED = {
    "cora, SAGEConv": ("node_classification", "cora", ["--conv", "sage"]),
    "cora, GCNConv": ("node_classification", "cora", ["--conv", "gcn"]),
    "tolokers, SAGEConv": (
        "node_classification",
        "tolokers",
        ["--batch-size", "512", "--epochs", "15"],
    ),
    "cora, links": ("link_prediction", "cora", []),
    "openflights, typed": ("typed", "openflights", []),
    "openflights, typed links": ("typed_links", "openflights", []),
}


def last_figure(script: Path, graph: Path, arguments: list[str], folder: Path) -> float:
    """The last number of four decimals that a script prints.

    Raises
    ------
    RuntimeError
        If the script fails; with what it printed.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(FOLDER), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, str(script), str(graph), *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    return float(re.findall(r"\d\.\d{4}", done.stdout)[-1])


def compare(data: Path, what: str, seeds: int) -> dict[str, list[float]]:
    """Figures of both versions, one for each seed, in turns."""
    name, graph, arguments = COMPARED[what]
    found: dict[str, list[float]] = {"PyG": [], "graphzero": []}
    with tempfile.TemporaryDirectory() as folder:
        original = Path(folder) / f"{name}.py"
        original.write_text(on_pyg(name))
        for seed in range(seeds):
            for who, script in (("PyG", original), ("graphzero", FOLDER / f"{name}.py")):
                given = [*arguments, "--seed", str(seed)]
                found[who].append(last_figure(script, data / graph, given, Path(folder)))
                print(f"{what}, seed {seed}, {who}: {found[who][-1]:.4f}", file=sys.stderr)
    return found


def _cell(values: list[float]) -> str:
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.4f} ± {spread:.4f}"


def main() -> None:
    """Prints a table of means and standard deviations."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("data", type=Path, help="folder of graphs, as GRAPHZERO_TEST_DATA")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=list(COMPARED), default=list(COMPARED))
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    options = parser.parse_args()
    found = {what: compare(options.data, what, options.seeds) for what in options.only}
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    print("| graph and model | PyG | graphzero |\n|---|---|---|")
    for what, figures in found.items():
        print(f"| {what} | {_cell(figures['PyG'])} | {_cell(figures['graphzero'])} |")


if __name__ == "__main__":
    main()
