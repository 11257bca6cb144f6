"""``graphzero verify``."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from graphzero.commands.parsing import add_option, shows_progress
from graphzero.report.verify import verify_path
from graphzero.units import format_bytes, print_lines

HELP = (
    "check a dataset or a file: every checksum, neighbour lists, ids, weights, times, and all "
    "that dataset.json says; exit code 1 if there is a fault"
)
EXAMPLES = """\
  graphzero verify data/
  graphzero verify data/features.gd
  graphzero verify data/ --json
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds its options."""
    add_option(parser, "path", "a dataset folder, a .gl or a .gd file, or a pack")
    add_option(parser, "--json", "print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Checks every file, even after a faulty one; returns 1 if any is faulty."""
    result = verify_path(args.path, progress=shows_progress(args))
    if args.json:
        content = {"ok": not result.findings, **asdict(result)}
        print(json.dumps(content, indent=2))
    else:
        for finding in result.findings:
            print_lines(f"graphzero: {finding}", file=sys.stderr)
        faulty = {finding.path for finding in result.findings}
        for path, size in result.files.items():
            if not args.quiet and path not in faulty:
                print_lines(f"{path}: intact, {format_bytes(size)}")
    return 1 if result.findings else 0
