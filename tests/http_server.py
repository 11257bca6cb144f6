"""An HTTP server of a folder, which can break off, change its files and count what it sends."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote


class FolderServer(ThreadingHTTPServer):
    """Serves the files of a folder.

    Attributes
    ----------
    sent : Counter
        Bytes of the bodies, by file name.
    left : int or None
        Bytes that are still sent before every connection breaks off, in the middle of a body.
    breaks : int
        How often each part of a file is broken off in the middle before it is sent whole.
    damages : str
        The file whose parts, but for its header, have a wrong last byte when they are first sent.
    ranges : bool
        Whether parts of files are served.
    says_size : bool
        Whether answers say how large a file is.
    before : callable or None
        Called with the name of a file, and how often it was asked for, before it is sent.
    """

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.sent, self.asked = folder, Counter[str](), Counter[str]()
        self.parts: Counter[tuple[str, str | None]] = Counter()
        self.left: int | None = None
        self.breaks, self.damages = 0, ""
        self.ranges = self.says_size = True
        self.before: Callable[[str, int], object] | None = None
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: object) -> None:
        """Broken connections are no news here."""

    def allowed(self, name: str, part: str | None, size: int) -> int:
        """How many bytes of a body are sent."""
        with self.lock:
            self.parts[name, part] += 1
            if self.parts[name, part] <= self.breaks:
                size //= 2
            if self.left is not None:
                size = min(size, self.left)
                self.left -= size
            self.sent[name] += size
            return size


class _Handler(BaseHTTPRequestHandler):
    server: FolderServer

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        path = self.server.folder / unquote(self.path.partition("?")[0]).lstrip("/")
        with self.server.lock:
            self.server.asked[path.name] += 1
            asked = self.server.asked[path.name]
        if self.server.before is not None:
            self.server.before(path.name, asked)
        if not path.is_file():
            self.send_error(404)
            return
        data = path.read_bytes()
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if found and self.server.ranges:
            begin, end = int(found[1]), int(found[2] or len(data) - 1) + 1
            data = data[begin:end]
            self.send_response(206)
            size = path.stat().st_size if self.server.says_size else "*"
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{size}")
        else:
            self.send_response(200)
        part = path.name, self.headers.get("Range")
        is_header = part[1] == "bytes=0-4095"
        if path.name == self.server.damages and not (is_header or self.server.parts[part]):
            data = data[:-1] + bytes([data[-1] ^ 1])
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: self.server.allowed(*part, len(data))])


@contextmanager
def serving(folder: Path) -> Iterator[FolderServer]:
    """A server of a folder, for as long as the block runs."""
    server = FolderServer(folder)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
