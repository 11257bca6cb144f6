"""The scripts of examples/pyg on PyG and on graphzero: their accuracy over some seeds.

On PyG they run with the lines that graphzero changes put back: a comment ``# PyG: LINE`` stands
before each of these, and says what the line was. PyG needs pyg-lib or torch-sparse for them.

    python -m benchmarks.pyg_scripts DATA --seeds 5
    python -m benchmarks.pyg_scripts DATA --seeds 30 --same-weights
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
    assert "from_data(" not in code
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


def with_same_weights(text: str) -> str:
    """A script whose weights depend on its seed alone, and not on what the loaders have drawn."""
    changed, count = re.subn(
        r"^model = ", "torch.manual_seed(args.seed + 1000)\nmodel = ", text, flags=re.MULTILINE
    )
    assert count == 1
    return changed


def compare(data: Path, what: str, seeds: int, *, same_weights: bool) -> dict[str, list[float]]:
    """Figures of both versions, one for each seed, in turns."""
    name, graph, arguments = COMPARED[what]
    found: dict[str, list[float]] = {"PyG": [], "graphzero": []}
    texts = {"PyG": on_pyg(name), "graphzero": (FOLDER / f"{name}.py").read_text()}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(seeds):
            for who, text in texts.items():
                script = Path(folder) / f"{name}_{who}.py"
                script.write_text(with_same_weights(text) if same_weights else text)
                given = [*arguments, "--seed", str(seed)]
                found[who].append(last_figure(script, data / graph, given, Path(folder)))
                print(f"{what}, seed {seed}, {who}: {found[who][-1]:.4f}", file=sys.stderr)
    return found


def _cell(values: list[float], root: float = 1.0) -> str:
    """Mean, and standard deviation divided by `root`."""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.4f} ± {spread / root:.4f}"


def main() -> None:
    """Prints a table of means and standard deviations."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("data", type=Path, help="folder of graphs, as GRAPHZERO_TEST_DATA")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=list(COMPARED), default=list(COMPARED))
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--same-weights", action="store_true", help="begin with the same weights")
    options = parser.parse_args()
    found = {
        what: compare(options.data, what, options.seeds, same_weights=options.same_weights)
        for what in options.only
    }
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    print("| graph and model | PyG | graphzero | difference |\n|---|---|---|---|")
    for what, figures in found.items():
        pairs = zip(figures["graphzero"], figures["PyG"], strict=True)
        difference = _cell([ours - theirs for ours, theirs in pairs], options.seeds**0.5)
        cells = _cell(figures["PyG"]), _cell(figures["graphzero"]), difference
        print(f"| {what} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
