"""Mutated datasets on an HTTP server, and the program that fetches and opens them.

``python fuzz_fetch.py URL FOLDER FIRST COUNT`` prints what is wrong in cases from the first on. A
case is a function of its number and of the server's seed; 0 is the dataset as it was published.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
import urllib.request
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import graphzero as gz
from graphzero.store import format as gz_format
from graphzero.store import remote_files

SECONDS, RSS_KB, MEMORY_IS_FULL, MOST_FAULTS = 60, 300_000, 3, 30
MANIFEST = "dataset.json"
NAMES = (
    *("train.py", "notes.txt", "link", "fetched.json", MANIFEST, "../x.gd", "../train.py"),
    *("/etc/x.gl", ".gl", ".gd", "", ".", "..", "a/b.gl", "x\0.gl", "x.gl\0.py", "n" * 300 + ".gl"),
    *(
        "n" * 5000 + ".gd",
        "graph.GL",
        "graph.gl.exe",
        "x.gd\n",
        "\ud800.gl",
        "graph.gl",
        "graph.gd",
    ),
    *(".x.gz-staged", "../.x.gz-staged", "/etc/.x.gz-staged", ".\0.gz-staged"),
)
VALUES = (None, True, -1, 0.5, 2**63, "", "x", [], {}, [[]], {"name": "train.py", "staged": ".x"})
TEXTS = ("[" * 200_000, "[" * 9999 + "]" * 9999, "9" * 100_000, "9" * 30, "NaN", "1e999", "")
SIZES = (0, 1, 4096, 2**20, 2**29, 2**31, 2**32, 2**40, 2**50, 2**62, 2**63 - 1, 2**64 - 1)
# What a fetch may write, relative to the folder of a case.
_NAME = r"[^./][^/]*\.g[ld]|\.[^/]*\.gz-staged|dataset\.json|fetched\.json"
PERMITTED = re.compile(rf"cache/data-[^/]+|(fetched|cache/data-[^/]+)/({_NAME})", re.DOTALL)


# --- mutations


@dataclass
class Served:
    """A file as the server sends it.

    Attributes
    ----------
    body : bytes
    size : int or None
        What the server says of its size, where that is wrong.
    share : float
        How much of what is asked for comes.
    padding : int
        Zeros that come after it.
    breaks : bool
        Whether more is announced than comes; with padding, nothing is.
    """

    body: bytes
    size: int | None = None
    share: float = 1.0
    padding: int = 0
    breaks: bool = False


Files = dict[str, Served]


def places(content: Any) -> Iterator[tuple[Any, Any]]:
    """Containers of a JSON value, and the keys in them."""
    if isinstance(content, dict | list):
        for key in [*content] if isinstance(content, dict) else range(len(content)):
            yield content, key
            yield from places(content[key])


def data_file(rng: random.Random, files: Files) -> str:
    return rng.choice(sorted(files.keys() - {MANIFEST}))


def change_value(rng: random.Random, files: Files) -> None:
    content = json.loads(files[MANIFEST].body)
    values = [*places(content)]
    names = [place for place in values if place[1] in ("name", "staged")]
    others = [table[key] for table, key in names]
    table, key = rng.choice(rng.choice((values, names)))
    table[key] = rng.choice(rng.choice((NAMES, NAMES, VALUES, others, ("HERE", "DROP"))))
    if table[key] == "DROP":
        del table[key]
    text = json.dumps(content).replace('"HERE"', rng.choice(TEXTS))
    files[MANIFEST].body = text.encode()


def add_key(rng: random.Random, files: Files) -> None:
    text = files[MANIFEST].body.decode()
    end = rng.choice([match.start() for match in re.finditer("}", text)])
    key = rng.choice(("name", "staged", *re.findall(r"[a-z_]+", text)))
    value = json.dumps(rng.choice((rng.choice(NAMES), *VALUES)))
    files[MANIFEST].body = f'{text[:end]}, "{key}": {value}{text[end:]}'.encode()


def change_bytes(rng: random.Random, files: Files) -> None:
    served = files[rng.choice((MANIFEST, data_file(rng, files)))]
    body = bytearray(served.body)
    for _ in range(rng.choice((0, 1, 3, 20))):
        body[rng.randrange(min(len(body), 4096))] ^= 1 << rng.randrange(8)
    served.body = bytes(body[: rng.choice((len(body), rng.randrange(len(body))))])


def set_page(files: Files, name: str, page: bytes) -> None:
    """Replaces a header, with its checksum, also where the manifest should have it."""
    page = page[:-4] + struct.pack("<I", zlib.crc32(page[:-4]))
    body, text = files[name].body, files[MANIFEST].body
    of_old, of_new = (struct.unpack("<I", header[-4:]) for header in (body[:4096], page))
    for form in (b"%d", b"%08x"):
        text = text.replace(form % of_old, form % of_new)
    files[MANIFEST].body, files[name].body = text, page + body[4096:]


def change_header(rng: random.Random, files: Files) -> None:
    name = data_file(rng, files)
    page = bytearray(files[name].body[:4096])
    at = rng.randrange(8, 64 + 4 * 64, 4)
    page[at : at + 8] = struct.pack("<Q", rng.choice(SIZES))
    set_page(files, name, bytes(page))


def grow_header(rng: random.Random, files: Files) -> None:
    """A header that does not contradict itself, of a file of another size."""
    name, size = data_file(rng, files), rng.choice(SIZES[3:10])
    kind = "graph" if name.endswith(".gl") else "features"
    header = gz_format.decode_header(files[name].body[:4096], None, kind)
    *others, last = header.sections
    item_bytes = gz_format.DTYPES[last.dtype].itemsize
    count = (size - last.offset) // item_bytes
    sections = (*others, replace(last, count=count, length=count * item_bytes))
    page = gz_format.encode_header(replace(header, file_bytes=size, sections=sections))
    set_page(files, name, page)
    files[name].size = rng.choice((None, size))


def change_answers(rng: random.Random, files: Files) -> None:
    served = files[rng.choice((MANIFEST, data_file(rng, files)))]
    served.share = rng.choice((1.0, 1.0, 1.0, 0.0, 0.5, 0.99))
    served.padding = rng.choice((0, 1, 5000, 1 << 22, 1 << 30)) if served.share == 1.0 else 0
    served.breaks = rng.random() < 0.5
    served.size = rng.choice((None, None, *SIZES))


MUTATIONS = (
    *(change_value, change_value, change_value, change_value, add_key, change_bytes),
    *(change_header, change_header, grow_header, change_answers, change_answers),
)


# --- the server


class FuzzServer(ThreadingHTTPServer):
    """Serves the files of the case that was begun last, by ``/begin/NUMBER``."""

    daemon_threads = True

    def __init__(self, published: Path, seed: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.published = {path.name: path.read_bytes() for path in published.iterdir()}
        self.seed, self.files = seed, Files()

    def begin(self, number: int) -> str:
        """Makes the files of a case, and says what is wrong with them."""
        rng = random.Random(f"{self.seed} {number}")
        self.files = {name: Served(body) for name, body in self.published.items()}
        mutate = rng.choice(MUTATIONS)
        if number > 0:
            mutate(rng, self.files)
        return mutate.__name__

    def handle_error(self, *_: object) -> None:
        """Broken connections are no news here."""


class _Handler(BaseHTTPRequestHandler):
    server: FuzzServer

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        folder, _, name = unquote(self.path).rpartition("/")
        if folder == "/begin":
            served = Served(self.server.begin(int(name)).encode())
        else:  # whatever the manifest names is here
            files = self.server.files
            served = files.get(name, files["graph.gl" if name.endswith(".gl") else "labels.gd"])
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        body, size = served.body, len(served.body) if served.size is None else served.size
        self.send_response(206 if asked else 200)
        if asked:
            begin, end = int(asked[1]), int(asked[2] or len(body) - 1) + 1
            body = body[begin:end]
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{size}")
        sent = body[: int(len(body) * served.share)]
        announced = len(body if served.breaks else sent) + served.padding
        is_head = self.command == "HEAD"
        self.send_header("Accept-Ranges", "bytes")
        if is_head or not (served.padding and served.breaks):
            self.send_header("Content-Length", str(size if is_head else announced))
        self.end_headers()
        if not is_head:
            self.wfile.write(sent)
            for begin in range(0, served.padding, 1 << 20):
                self.wfile.write(bytes(min(1 << 20, served.padding - begin)))


# --- the program


def tree(folder: Path) -> dict[str, object]:
    """What must not change: folders, links, and bytes of files, by path."""
    found: dict[str, object] = {"/etc": sorted(Path("/etc").glob("*x.g*"))}
    for place, folders, names in os.walk(folder):
        for path in (Path(place, name) for name in (*folders, *names)):
            inside = path.relative_to(folder).as_posix()
            if PERMITTED.fullmatch(inside):
                continue
            is_link, is_folder = path.is_symlink(), path.is_dir()
            found[inside] = path.readlink() if is_link else is_folder or path.read_bytes()
    return found


def prepare(url: str, base: Path) -> None:
    """Folders to begin with, with a user's files: empty, with the dataset, or with links in it."""
    gz.fetch(url, base / "copied" / "fetched")
    gz.open(url, cache=base / "copied" / "cache").close()
    staged = re.findall(rb'"staged": "(.*?)"', (base / "copied/fetched" / MANIFEST).read_bytes())
    for top in (base / "empty", base / "linked"):
        for folder in (top / "fetched", top / "cache"):
            folder.mkdir(parents=True)
    for name in map(os.fsdecode, staged):
        (base / "linked" / "fetched" / name).symlink_to("../x.txt")
    for top in (base / "empty", base / "linked", base / "copied"):
        for folder in (top, *(path for path in top.rglob("*") if path.is_dir())):
            for name in ("train.py", "notes.txt", "x.txt"):
                (folder / name).write_text(f"a user's {name}")
            (folder / "link").symlink_to(os.path.relpath(top / "x.txt", folder))


def attempt(url: str, folder: Path) -> Iterator[str]:
    """Fetches and opens, and says what is wrong."""
    before = tree(folder)
    for name in ("fetch", "open"):
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            if name == "fetch":
                gz.fetch(url, folder / "fetched")
            else:
                gz.open(url, cache=folder / "cache").close()
        except (ValueError, OSError):  # and FormatError
            pass
        except Exception as error:
            yield f"{name} raises {error!r:.300}"
        faulthandler.cancel_dump_traceback_later()
    after = tree(folder)
    for path in sorted(before.keys() | after.keys()):
        if before.get(path, "") != after.get(path, ""):
            yield f"{path!r:.300} was changed"


def main(url: str, base: Path, first: int, count: int) -> None:
    warnings.simplefilter("ignore")  # an earlier copy serves
    remote_files.FIRST_PAUSE = 0.001
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    for number in range(first, count + 1):
        with urllib.request.urlopen(f"{url}/begin/{number}") as answer:
            print(json.dumps({"case": number, "mutation": answer.read().decode()}), flush=True)
        if number == 0:
            prepare(f"{url}/data", base)
            continue
        folder = base / "case"
        start = "linked" if number % 8 == 0 else ("copied", "empty")[number % 2]
        shutil.copytree(base / start, folder, symlinks=True)
        faults = [*attempt(f"{url}/data", folder)]
        peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
        if peak > RSS_KB:
            faults.append(f"the process had {peak:,} kB of memory")
        print(json.dumps({"faults": faults}), flush=True)
        shutil.rmtree(folder)
        if peak > RSS_KB:
            sys.exit(MEMORY_IS_FULL)  # the next process begins with little


def run(url: str, base: Path, count: int) -> list[str]:
    """What is wrong in all cases, of processes that follow one another."""
    found: list[str] = []
    first = 0
    while first <= count and len(found) < MOST_FAULTS:
        command = [sys.executable, __file__, url, str(base), str(first), str(count)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        shutil.rmtree(base / "case", ignore_errors=True)
        case: dict[str, Any] = {"case": first, "mutation": ""}
        for line in map(json.loads, done.stdout.splitlines()):
            case = line if "case" in line else case
            found += [f"{case}: {fault}" for fault in line.get("faults", [])]
        if done.returncode not in (0, MEMORY_IS_FULL):
            found.append(f"{case}: ended with {done.returncode}: {done.stderr[-2000:]}")
        first = case["case"] + 1
    return found


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
