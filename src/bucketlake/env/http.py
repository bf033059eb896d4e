"""Requests to services that a user's options name: HTTP and HTTPS alone, with a time limit, redirects not followed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from bucketlake.errors import InvalidError, NotWrittenError, StorageError
from bucketlake.lazy import lazy
from bucketlake.values import dataclass

_request = lazy("urllib.request")
_error = lazy("urllib.error")
_parse = lazy("urllib.parse")
_addresses = lazy("ipaddress")
_client = lazy("http.client")

SECONDS = 30.0
LARGEST = 1 << 20  # bytes of an answer that are looked at


def post(url: str, body: bytes, headers: Mapping[str, str], seconds: float = SECONDS) -> tuple[int, bytes]:
    """Send a body; the status, whatever it is, and the answer's first megabyte.

    InvalidError for what is no URL of HTTP; StorageError, which names the host alone, where there is no answer in time.
    """
    answer = request(Request("POST", url, headers, body), seconds)
    return answer.status, answer.body


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `headers` may hold secrets."""

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, whatever the status; `headers` by their names in lower case; `whole`: whether `body` is all."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    whole: bool = True


def request(asked: Request, seconds: float = SECONDS, most: int = LARGEST) -> Answer:
    """Send a request; its answer with at most so many bytes of body.

    InvalidError for what is no URL of HTTP; StorageError, which names the host alone, where there is no answer in time:
    NotWrittenError where it was refused before anything was sent.
    """
    parts = _parse.urlsplit(asked.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidError("not a URL of a service", scheme=parts.scheme, remedy="http://host/… or https://host/…")
    made = _request.Request(asked.url, asked.body, dict(asked.headers), method=asked.method)
    try:
        with _opener().open(made, timeout=seconds) as answer:
            return _answer(int(answer.status), answer, most)
    except _error.HTTPError as error:
        with error:
            return _answer(int(error.code), error, most)
    except (OSError, ValueError, _client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        kind = NotWrittenError if isinstance(reason, ConnectionRefusedError) else StorageError
        late = isinstance(reason, TimeoutError) and reason.errno is None  # by our limit; what is refused comes at once
        raise kind(
            "no answer from a service",
            host=parts.hostname,
            **({"seconds": seconds} if late else {}),
            reason=str(reason),
            remedy="look whether it runs and is reached from here, then try again",
        ) from error


def _answer(status: int, answer: Any, most: int) -> Answer:
    body = bytes(answer.read(most + 1))
    headers = {name.lower(): value for name, value in answer.headers.items()}
    return Answer(status, headers, body[:most], len(body) <= most)


def is_private(url: str) -> bool:
    """Whether what is sent to a URL can be read by nobody on the way: TLS, or this machine itself."""
    parts = _parse.urlsplit(url)
    if parts.scheme == "https":
        return True
    host = parts.hostname or ""
    try:
        return host == "localhost" or bool(_addresses.ip_address(host).is_loopback)
    except ValueError:
        return False


def _opener() -> Any:
    """Follows no redirect: an option names who is told, nobody else does."""

    def refuse(*_: Any) -> None:
        return None

    redirects = _request.HTTPRedirectHandler()
    redirects.redirect_request = refuse
    return _request.build_opener(redirects)
