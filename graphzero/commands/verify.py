"""``graphzero verify``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tqdm import tqdm

from graphzero.commands.options import SubParsers, add_command, shows_progress
from graphzero.dataset import open_dataset
from graphzero.errors import FormatError
from graphzero.format import verify_file
from graphzero.manifest import read_manifest
from graphzero.units import format_bytes

__all__ = ["add_parser"]

_EXAMPLES = """\
  graphzero verify data/
  graphzero verify data/features.gd
"""


def add_parser(commands: SubParsers) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "verify",
        run,
        help="read every byte of a dataset or file and compare it with its checksums",
        examples=_EXAMPLES,
    )
    parser.add_argument("path", help="a dataset folder, a .gl or a .gd file")


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return [entry.resolve(path) for entry in read_manifest(path).entries()]


def _is_intact(path: Path, *, progress: bool) -> bool:
    size = path.stat().st_size
    with tqdm(
        total=size, desc=path.name, unit="B", unit_scale=True, leave=False, disable=not progress
    ) as bar:
        try:
            verify_file(path, bar.update)
        except FormatError as error:
            print(f"graphzero: {error}", file=sys.stderr)
            return False
    return True


def run(args: argparse.Namespace) -> int:
    """Goes on after a corrupt file, so that all of them are named; 1 if there was one."""
    path = Path(args.path)
    code = 0
    for file in _files(path):
        if not _is_intact(file, progress=shows_progress(args)):
            code = 1
        elif not args.quiet:
            print(f"{file}: intact, {format_bytes(file.stat().st_size)}")
    if code == 0 and path.is_dir():
        open_dataset(path).close()  # intact files may still not belong together
    return code
