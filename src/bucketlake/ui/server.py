"""The server of the page: routes, limits, errors.

    app = application(catalog, access, Limits())          ASGI
    serve(catalog, Address("127.0.0.1", 8765), say=print)      until Ctrl-C

Every answer is made in a thread, for so long and of so many bytes at most. Needs the extra `ui`, no Spark and no Java.

Spec: docs/page.md
"""

from __future__ import annotations

import errno
import json
import signal
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from importlib import resources
from types import FrameType
from typing import Any

import anyio
import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bucketlake.catalog import Catalog
from bucketlake.catalogs.names import written
from bucketlake.errors import (
    AlreadyExistsError,
    BucketlakeError,
    ConflictError,
    CorruptError,
    InvalidError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from bucketlake.ops.check import remedy
from bucketlake.redaction import redact
from bucketlake.report.history import cut
from bucketlake.ui.guard import Access, App, Door
from bucketlake.ui.jobs import Jobs
from bucketlake.ui.look import ANSWERS, Query, place_of
from bucketlake.ui.punctual import Punctual
from bucketlake.values import dataclass

PORT = 8765
GONE = ("no such file", "a data file is gone")  # of errors of a table that is there
TRIED = 20  # ports, where the usual one is taken
KEEP_ALIVE_SECONDS = 20  # until a connection asks again
BODY_SECONDS = 10.0  # until a request that changes something is there whole
STATUS: tuple[tuple[type[Exception], int, str], ...] = (
    (InvalidError, 400, "invalid"),
    (NotFoundError, 404, "missing"),
    (AlreadyExistsError, 409, "exists"),
    (ConflictError, 409, "conflict"),
    (UnsupportedError, 422, "unsupported"),
    (CorruptError, 500, "damaged"),
    (StorageError, 503, "storage"),
    (BucketlakeError, 500, "failed"),
)
TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """How long an answer may take and how large it may be; how many are made at once; whether the page may maintain."""

    seconds: float = 30.0
    bytes: int = 16 << 20
    at_once: int = 4
    request_bytes: int = 64 << 10
    allow_maintenance: bool = False


def application(catalog: Catalog, access: Access, limits: Limits | None = None) -> App:
    """The page over a catalog, behind its door."""
    limits = limits or Limits()
    server = _Server(catalog, access, limits)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await anyio.to_thread.run_sync(server.jobs.close)

    routes = [Route("/", server.page), Route("/static/{name}", server.file)]
    routes += [Route(f"/api/{name}", server.question(name)) for name in ANSWERS]
    routes += [Route("/api/session", server.session), Route("/api/jobs", server.listed)]
    routes += [Route("/api/start", server.start, methods=["POST"]), Route("/api/stop", server.stop, methods=["POST"])]
    app = Starlette(routes=routes, lifespan=lifespan)
    app.router.redirect_slashes = False  # what is no place of the page is none
    return Door(app, access)


class _Server:
    def __init__(self, catalog: Catalog, access: Access, limits: Limits) -> None:
        self._catalog, self._access, self._limits = catalog, access, limits
        self._files = _files()
        self._threads: anyio.CapacityLimiter | None = None
        self.jobs = Jobs(catalog)

    async def page(self, request: Request) -> Response:
        """The page itself."""
        return _file(self._files["index.html"], "index.html")

    async def file(self, request: Request) -> Response:
        """A file of the page: one of those that it has, by its name."""
        name = request.path_params["name"]
        found = self._files.get(name)
        return _failure(404, "missing", "no such file") if found is None else _file(found, name)

    async def session(self, request: Request) -> Response:
        """What the page must know to begin."""
        told = {
            "warehouse": redact(self._catalog.warehouse),
            "maintenance": self._limits.allow_maintenance,
            "to_maintain": remedy.shell_line("ui", place_of(self._catalog), [], ["--allow-maintenance"]),
        }
        return self._sent(_body(lambda: {**told, "csrf": self._access.csrf}))

    def question(self, name: str) -> Callable[[Request], Awaitable[Response]]:
        """The endpoint of a question."""
        answer = ANSWERS[name]

        async def endpoint(request: Request) -> Response:
            query = Query(dict(request.query_params))
            return await self._answered(partial(answer, self._catalog, query), self._check_of(query))

        return endpoint

    def _check_of(self, query: Query) -> str | None:
        """The command that checks the table which a question is about."""
        database, table = query.given.get("database"), query.given.get("table")
        if not database or not table:
            return None
        return cut(remedy.shell_line("fsck", place_of(self._catalog), [written(database, table)]), 2_000)

    async def listed(self, request: Request) -> Response:
        """The jobs of this process."""
        return self._sent(_body(lambda: {"jobs": self.jobs.listed()}))

    async def start(self, request: Request) -> Response:
        """Start a job."""
        given = await self._given(request)
        if isinstance(given, Response):
            return given
        action = given.pop("action", "")
        return await self._answered(lambda: {"job": self.jobs.start(action, given)})

    async def stop(self, request: Request) -> Response:
        """Stop a job."""
        given = await self._given(request)
        if isinstance(given, Response):
            return given

        def stop() -> dict[str, Any]:
            self.jobs.stop(Query(given).whole("job"))
            return {}

        return await self._answered(stop)

    async def _given(self, request: Request) -> dict[str, str] | Response:
        """The texts of a request that changes something, or why it is refused."""
        if not self._limits.allow_maintenance:
            return _failure(403, "read-only", "the page is read-only: start it with --allow-maintenance")
        body = b""
        with anyio.move_on_after(BODY_SECONDS) as waiting:
            async for part in request.stream():
                body += part
                if len(body) > self._limits.request_bytes:
                    return _failure(413, "invalid", "the request is too large")
        if waiting.cancelled_caught:
            return _failure(408, "slow", "the request did not come to its end")
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            return _failure(400, "invalid", "not JSON")
        if not isinstance(found, dict) or any(not isinstance(value, str) for value in found.values()):
            return _failure(400, "invalid", "an object of texts is wanted")
        return found

    async def _answered(self, make: Callable[[], Mapping[str, Any]], check: str | None = None) -> Response:
        """An answer that is made in a thread, within the limits. `check`: what to do about a damaged table."""
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(self._limits.at_once)
        made: list[bytes] = []
        with anyio.move_on_after(self._limits.seconds):
            try:
                work = partial(_body, make)
                made.append(await anyio.to_thread.run_sync(work, limiter=self._threads, abandon_on_cancel=True))
            except Exception as error:  # whatever it is, the page says so
                return _failed(error, check)
        if not made:
            return _failure(504, "slow", f"no answer within {self._limits.seconds:.0f} seconds")
        return self._sent(made[0])

    def _sent(self, body: bytes) -> Response:
        if len(body) > self._limits.bytes:
            return _failure(507, "large", "the answer is larger than the page takes")
        return Response(body, media_type="application/json")


def _body(make: Callable[[], Mapping[str, Any]]) -> bytes:
    text = json.dumps(make(), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def _failed(error: Exception, check: str | None = None) -> Response:
    if check is not None and isinstance(error, NotFoundError) and error.what in GONE:
        return _failure(500, "damaged", cut(str(error), 2_000), error.remedy or check)
    for kind, status, word in STATUS:
        if isinstance(error, kind):
            remedy = error.remedy if isinstance(error, BucketlakeError) else None
            remedy = remedy or (check if kind is CorruptError else None)
            return _failure(status, word, cut(str(error), 2_000), remedy)
    return _failure(500, "failed", cut(redact(f"{type(error).__name__}: {error}"), 500))


def _failure(status: int, kind: str, message: str, remedy: str | None = None) -> Response:
    body = json.dumps({"error": {"kind": kind, "message": message, "remedy": remedy}}).encode()
    return Response(body, status, media_type="application/json")


def _files() -> dict[str, bytes]:
    folder = resources.files("bucketlake.ui") / "static"
    return {item.name: item.read_bytes() for item in folder.iterdir() if item.name.rpartition(".")[2] in TYPES}


def _file(data: bytes, name: str) -> Response:
    return Response(data, media_type=TYPES[name.rpartition(".")[2]], headers={"cache-control": "no-cache"})


# ---------------------------------------------------------------------------------------------- running it


EVERYWHERE = ("0.0.0.0", "::")  # hosts to listen on, no names to reach one by


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server listens. `port` None: the usual one, or the next that is free; 0: any."""

    host: str = "127.0.0.1"
    port: int | None = None
    names: tuple[str, ...] = ()

    def bound(self) -> socket.socket:
        """A socket on it. Errors: StorageError where the port is taken or the address is none of this machine."""
        ports = [self.port] if self.port is not None else [*range(PORT, PORT + TRIED), 0]
        failure: OSError | None = None
        for port in ports:
            family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
            found = socket.socket(family, socket.SOCK_STREAM)
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                found.bind((self.host, port))
                found.listen(128)  # who comes before the server has started waits
                return found
            except OSError as error:
                found.close()
                failure = error
        named = isinstance(failure, socket.gaierror) or getattr(failure, "errno", None) == errno.EADDRNOTAVAIL
        remedy = "give an address of this machine as --host" if named else "choose another --port"
        raise StorageError(
            "cannot listen", host=self.host, port=self.port, detail=str(failure), remedy=remedy
        ) from failure


@contextmanager
def _hung_up(stop: Callable[[], None]) -> Iterator[None]:
    """In the block SIGHUP stops the server, as uvicorn has it of SIGINT and SIGTERM alone, and comes behind the block;
    not where it is ignored, nor in another thread than the main one."""
    number = getattr(signal, "SIGHUP", None)
    mine = threading.current_thread() is threading.main_thread()
    if number is None or not mine or signal.getsignal(number) in (signal.SIG_IGN, None):
        yield
        return
    came: list[int] = []

    def hang_up(number: int, frame: FrameType | None) -> None:
        came.append(number)
        stop()

    before = signal.signal(number, hang_up)
    try:
        yield
    finally:
        signal.signal(number, before)
    if came:
        signal.raise_signal(number)


class Running:
    """A server that is bound already: `url` bears the token; `run` returns when it ends, `stop` lets it."""

    def __init__(self, catalog: Catalog, address: Address | None = None, limits: Limits | None = None) -> None:
        address = address or Address()
        self._socket = address.bound()
        port = int(self._socket.getsockname()[1])
        access = Access.of(address.host, port, address.names)
        host = f"[{address.host}]" if ":" in address.host else address.host
        reached = address.names[0] if address.host in EVERYWHERE and address.names else f"{host}:{port}"
        self.origin = f"http://{reached}"
        self.url = f"{self.origin}/?token={access.token}"
        config = uvicorn.Config(
            application(catalog, access, limits),
            log_level="error",
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            http=Punctual,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            limit_concurrency=100,
            timeout_graceful_shutdown=3,
            ws="none",
        )
        self._server = uvicorn.Server(config)

    def run(self) -> None:
        """Serve until Ctrl-C, SIGTERM, SIGHUP or `stop`; a signal is raised once the server has ended."""
        with _hung_up(self.stop):
            self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """End soon."""
        self._server.should_exit = True
