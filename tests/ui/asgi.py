"""Requests to an ASGI application without a socket, with every header as the test has it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import anyio

HOST = "127.0.0.1:8765"


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def request(
    app: Any, path: str, headers: dict[str, str] | None = None, method: str = "GET", body: bytes = b""
) -> Reply:
    """What the application answers."""
    path, _, query = path.partition("?")
    given = {"host": HOST, **(headers or {})}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "scheme": "http",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in given.items()],
        "server": ("127.0.0.1", 8765),
        "client": ("127.0.0.1", 1),
    }
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    async def run() -> None:
        await app(scope, receive, send)

    anyio.run(run)
    start = next(message for message in sent if message["type"] == "http.response.start")
    data = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
    return Reply(start["status"], {name.decode(): value.decode() for name, value in start["headers"]}, data)
