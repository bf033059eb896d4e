"""moto's S3 as a process, behind a gate that watches, loses answers, and plays a store without conditional puts.

`python server.py` prints the port that it listens on, at 127.0.0.1, and serves until it is killed. `POST /-/control` sets the
faults, `GET /-/log` gives the puts that came since, `GET /-/deletes` the deletes, `GET /-/looks` what was asked for.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

CARELESS = "/careless/"  # the bucket that ignores conditions
ERROR = b"<Error><Code>InternalError</Code></Error>"


@dataclass
class Gate:
    """A WSGI application around moto.

    `faults`: what happens to puts of paths with a part: "lose" (done, but the answer is an error), "refuse" (an error
    and not done), "busy" (409 and not done), each so many times; "refuse" of "?delete": requests that delete a list;
    "cut" of "?list" and of "?get": answers that end too soon; "lose" of "?complete": what ends an upload in parts. Puts with a
    condition are served one at a time: moto looks and writes in two steps.
    """

    inner: Any
    faults: list[dict[str, Any]] = field(default_factory=list)
    puts: list[tuple[str, str, int]] = field(default_factory=list)  # path, condition, status
    deletes: list[list[str]] = field(default_factory=list)  # method, path
    looks: list[str] = field(default_factory=list)  # path and what is asked of it, of every GET and HEAD
    lock: Any = field(default_factory=threading.RLock)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/-/control":
            self.faults = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
            self.puts, self.deletes, self.looks = [], [], []
            return _answer(start_response, "200 OK", b"")
        if path == "/-/log":
            return _answer(start_response, "200 OK", json.dumps(self.puts).encode())
        if path == "/-/deletes":
            return _answer(start_response, "200 OK", json.dumps(self.deletes).encode())
        if path == "/-/looks":
            return _answer(start_response, "200 OK", json.dumps(self.looks).encode())
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            self.looks.append(f"{path}?{environ.get('QUERY_STRING', '')}".rstrip("?"))
        if environ["REQUEST_METHOD"] == "DELETE" or _is_list_of_deletes(environ):
            self.deletes.append([environ["REQUEST_METHOD"], path])
            if environ["REQUEST_METHOD"] == "POST" and self._fault("?delete"):
                return _answer(
                    start_response, "501 Not Implemented", ERROR.replace(b"InternalError", b"NotImplemented")
                )
        if "list-type=2" in environ.get("QUERY_STRING", "") and self._fault("?list"):
            return self._cut(environ, start_response)
        if environ["REQUEST_METHOD"] == "GET" and self._fault("?get"):
            return self._cut(environ, start_response)
        if environ["REQUEST_METHOD"] == "POST" and "uploadId=" in environ["QUERY_STRING"] and self._fault("?complete"):
            list(self.inner(environ, lambda *answer: None))
            return _answer(start_response, "500 Internal Server Error", ERROR)
        if environ["REQUEST_METHOD"] != "PUT":
            return self.inner(environ, start_response)
        if path.startswith(CARELESS):
            environ.pop("HTTP_IF_NONE_MATCH", None)
        with self.lock:
            return self._put(path, environ, start_response)

    def _put(self, path: str, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        answered: list[Any] = []
        fault = self._fault(path)
        if fault not in ("refuse", "busy"):
            body = list(self.inner(environ, lambda *answer: answered.extend(answer)))
        status = {None: 0, "busy": 409}.get(fault, 500) or int(answered[0].split()[0])
        self.puts.append((path, environ.get("HTTP_IF_NONE_MATCH", ""), status))
        if fault == "busy":
            return _answer(
                start_response, "409 Conflict", ERROR.replace(b"InternalError", b"ConditionalRequestConflict")
            )
        if fault:
            return _answer(start_response, "500 Internal Server Error", ERROR)
        start_response(*answered)
        return body

    def _cut(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Half of an answer, where all of it was promised: the server ends the connection."""
        answered: list[Any] = []
        body = b"".join(self.inner(environ, lambda *answer: answered.extend(answer[:2])))
        start_response(*answered)
        return [body[: len(body) // 2]]

    def _fault(self, path: str) -> str | None:
        for fault in self.faults:
            if fault["part"] in path and fault["times"] > 0:
                fault["times"] -= 1
                return fault["fault"]
        return None


def _is_list_of_deletes(environ: dict[str, Any]) -> bool:
    return environ["REQUEST_METHOD"] == "POST" and environ.get("QUERY_STRING", "").startswith("delete")


def _answer(start_response: Any, status: str, body: bytes) -> Iterable[bytes]:
    start_response(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
    return [body]


def main() -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, Gate(DomainDispatcherApplication(create_backend_app)), threaded=True)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
