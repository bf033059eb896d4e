"""Requests to services that a user's options name: HTTP and HTTPS alone, with a time limit, redirects not followed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bucketlake.errors import InvalidError, StorageError
from bucketlake.lazy import lazy

_request = lazy("urllib.request")
_error = lazy("urllib.error")
_parse = lazy("urllib.parse")

SECONDS = 30.0
LARGEST = 1 << 20  # bytes of an answer that are looked at


def post(url: str, body: bytes, headers: Mapping[str, str], seconds: float = SECONDS) -> tuple[int, bytes]:
    """Send a body; the status, whatever it is, and the answer's first megabyte.

    InvalidError for what is no URL of HTTP; StorageError, which names the host alone, where there is no answer in time.
    """
    parts = _parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidError("not a URL of a service", scheme=parts.scheme, remedy="http://host/… or https://host/…")
    made = _request.Request(url, body, dict(headers), method="POST")
    try:
        with _opener().open(made, timeout=seconds) as answer:
            return int(answer.status), bytes(answer.read(LARGEST))
    except _error.HTTPError as error:
        with error:
            return int(error.code), bytes(error.read(LARGEST))
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise StorageError(
            "no answer from a service", host=parts.hostname, seconds=seconds, reason=str(reason)
        ) from error


def _opener() -> Any:
    """Follows no redirect: an option names who is told, nobody else does."""

    def refuse(*_: Any) -> None:
        return None

    redirects = _request.HTTPRedirectHandler()
    redirects.redirect_request = refuse
    return _request.build_opener(redirects)
