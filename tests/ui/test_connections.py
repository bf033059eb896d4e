"""Connections that do not say what they want, or not to the end."""

from __future__ import annotations

import json
import re
import socket
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from bucketlake.ui import server
from bucketlake.ui.punctual import Punctual

PATIENCE = 60  # seconds, in which nothing is closed unless the server means to


@pytest.fixture
def running(shop: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[server.Running]:
    monkeypatch.setattr(Punctual, "seconds", 0.3)
    monkeypatch.setattr(server, "BODY_SECONDS", 0.3)
    monkeypatch.setattr(server, "KEEP_ALIVE_SECONDS", 1)
    found = server.Running(shop, server.Address(port=0), server.Limits(allow_maintenance=True))
    thread = threading.Thread(target=found.run)
    thread.start()
    yield found
    found.stop()
    thread.join()


def place(running: server.Running) -> tuple[str, int]:
    host, port = running.origin.removeprefix("http://").split(":")
    return host, int(port)


def answer(running: server.Running, sent: bytes) -> bytes:
    """What comes until the server closes the connection."""
    with socket.create_connection(place(running), timeout=PATIENCE) as connection:
        connection.sendall(sent)
        got = b""
        while part := connection.recv(65_536):
            got += part
        return got


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: x", b"GET / HTTP/1.1\r\nHost: x\r\n"])
def test_a_connection_that_asks_nothing_is_closed(running: server.Running, sent: bytes) -> None:
    assert answer(running, sent) == b""


def test_a_second_request_must_come_to_its_end_too(running: server.Running) -> None:
    host = ":".join(map(str, place(running)))
    got = answer(running, f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\nGET / HT".encode())
    assert got.startswith(b"HTTP/1.1 401") and got.count(b"HTTP/1.1") == 1


def test_a_change_that_breaks_off_is_answered(running: server.Running) -> None:
    with urllib.request.urlopen(running.url, timeout=PATIENCE) as entered:
        cookie = entered.headers["set-cookie"].partition(";")[0]
    asked = urllib.request.Request(f"{running.origin}/api/session", headers={"cookie": cookie})
    with urllib.request.urlopen(asked, timeout=PATIENCE) as told:
        csrf = json.load(told)["csrf"]
    host = ":".join(map(str, place(running)))
    head = (
        f"POST /api/start HTTP/1.1\r\nHost: {host}\r\nOrigin: {running.origin}\r\nCookie: {cookie}\r\n"
        f"X-CSRF-Token: {csrf}\r\nContent-Type: application/json\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{{"
    )
    assert re.match(rb"HTTP/1.1 408 .*did not come to its end", answer(running, head.encode()), re.DOTALL)
