"""Who may speak to the page's server: one ASGI door before everything else.

    Door(app, Access(...))      wraps an application

A request passes if its Host is the server's own (a name that was bound to this address by somebody's DNS is not), if it
comes from no other page (Origin, Sec-Fetch-Site), if it bears the cookie that the token of the printed URL gives,
and, where it changes something, if it repeats the token of its session in a header, which no form can. Every answer
forbids the page to load or run what is not the server's.

Spec: docs/page.md#who-may-look
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import field
from typing import Any
from urllib.parse import parse_qs

from bucketlake.values import dataclass

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LONGEST_QUERY = 8_192  # bytes
LONGEST_HEADERS = 16_384
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
# A page of this origin goes on to the page proper: a redirect of a link from elsewhere would not bear a strict cookie.
ENTER = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Bucketlake</title>'
    '<meta http-equiv="refresh" content="0;url=/"></head><body><p><a href="/">Go on to the page</a></p></body></html>'
)
REFUSED = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Bucketlake</title></head><body>'
    "<h1>Please open the address that was printed</h1><p>This page belongs to whoever started it. The command"
    " has printed an address that ends in <code>?token=…</code>: open that one.</p></body></html>"
)


def _secret() -> str:
    return secrets.token_urlsafe(32)


@dataclass(frozen=True, slots=True)
class Access:
    """What opens the door. `hosts`: as browsers write them into Host, with the port; `token`: of the URL; `session`: of
    the cookie; `csrf`: of changes. The secrets live as long as the process."""

    hosts: frozenset[str]
    port: int
    token: str = field(default_factory=_secret, repr=False)
    session: str = field(default_factory=_secret, repr=False)
    csrf: str = field(default_factory=_secret, repr=False)

    @classmethod
    def of(cls, host: str, port: int, names: Iterable[str] = ()) -> Access:
        """For a server on an address; `names`: others by which it is reached (`page.example:8443`)."""
        loopback = host in ("127.0.0.1", "::1", "localhost")
        own = ["127.0.0.1", "localhost", "[::1]"] if loopback else [f"[{host}]" if ":" in host else host]
        hosts = [f"{name}:{port}" for name in own] + (own if port == 80 else [])
        return cls(frozenset(name.lower() for name in [*hosts, *names]), port)

    @property
    def cookie(self) -> str:
        """The cookie's name: cookies do not tell ports apart, so that each server has its own."""
        return f"bucketlake_{self.port}"


class Door:
    """The application, for those who may speak to it."""

    def __init__(self, app: App, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no web sockets here
            await send({"type": "websocket.close", "code": 1008})
            return
        guarded = _with_headers(send)
        refusal = self._refusal(scope)
        if refusal is not None:
            await _answer(guarded, *refusal)
        elif scope["path"] == "/favicon.ico":  # browsers ask for it whatever a page says
            await _answer(guarded, 204, "")
        elif self._enters(scope):
            cookie = f"{self._access.cookie}={self._access.session}; HttpOnly; SameSite=Strict; Path=/"
            await _answer(guarded, 200, ENTER, (b"set-cookie", cookie.encode()))
        elif not self._known(scope):
            await _answer(guarded, 401, REFUSED)
        else:
            await self._app(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """What is wrong with a request whoever sends it."""
        headers = _headers(scope)
        if len(scope["query_string"]) > LONGEST_QUERY or sum(map(len, headers.values())) > LONGEST_HEADERS:
            return 414, "The address is too long."
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, "Only GET and POST."
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        host = headers.get("host", "").lower()
        if len(hosts) != 1 or host not in self._access.hosts:
            return 403, "This server does not go by that name."
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
            return 403, "Another page may not ask."
        entering = scope["path"] == "/" and scope["method"] == "GET"
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and not entering:
            return 403, "Another page may not ask."
        if scope["method"] == "POST":
            given = headers.get("x-csrf-token", "")
            same = secrets.compare_digest(given.encode(), self._access.csrf.encode())
            kind = headers.get("content-type", "").partition(";")[0].strip()
            if origin is None or not same or kind != "application/json":
                return 403, "A change needs the token of this page."
        return None

    def _enters(self, scope: Scope) -> bool:
        """Whether a request bears the token."""
        if scope["path"] != "/" or scope["method"] != "GET":
            return False
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])
        return secrets.compare_digest(given[0].encode(), self._access.token.encode())

    def _known(self, scope: Scope) -> bool:
        """Whether a request bears the cookie, whatever the other servers of this machine have set beside it."""
        pairs = (one.strip().partition("=") for one in _headers(scope).get("cookie", "").split(";"))
        given = [value for name, _, value in pairs if name == self._access.cookie]
        return any(secrets.compare_digest(one.encode(), self._access.session.encode()) for one in given)


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def _with_headers(send: Send) -> Send:
    async def guarded(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", []))
            if not any(name.lower() == b"cache-control" for name, _ in headers):
                headers.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*headers, *HEADERS]}
        await send(message)

    return guarded


async def _answer(send: Send, status: int, text: str, *headers: tuple[bytes, bytes]) -> None:
    body = text.encode()
    kind = b"text/html; charset=utf-8" if text.startswith("<") else b"text/plain; charset=utf-8"
    length = str(len(body)).encode()
    start = [(b"content-type", kind), (b"content-length", length), *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})
