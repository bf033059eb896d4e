"""Where what is told of tables goes, beside services (`env.http`): lines of a local file, a page on this machine."""

from __future__ import annotations

import http.server
import os
import threading
from collections.abc import Callable

from bucketlake.errors import StorageError


def append_line(path: str, line: bytes) -> None:
    """Add a line to a local file, which is made where it is missing; lines of several processes do not mix."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, line + b"\n")
        finally:
            os.close(handle)
    except OSError as error:
        raise StorageError("cannot add to a file", path=path, reason=str(error)) from error


class Page:
    """One text served over HTTP at one path, by a thread of its own, until `close`."""

    def __init__(self, host: str, port: int, path: str, body: Callable[[], tuple[str, bytes]]) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.partition("?")[0] != path:
                    self.send_error(404)
                    return
                kind, data = body()
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        try:
            self._server = http.server.ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise StorageError("cannot listen", host=host, port=port, reason=str(error)) from error
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="bucketlake-page", daemon=True).start()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()
