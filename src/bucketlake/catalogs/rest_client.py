"""A REST catalog's server over HTTP, by Apache Paimon's document of its interface: requests, pages, errors, retries.

    client = connected(options, clock)       the handshake: what the server adds to the options, and its prefix
    client.get(…), client.post(…), client.remove(…), client.pages(…)

What is asked for is asked again where the answer is lost, a bounded number of times; what changes something is sent
once, and whoever sent it looks what became of it. Again only where the server has certainly not taken it in: it refuses
connections, or answers 429. The token goes to the server named in `uri` and nowhere else:
redirects are not followed, and plain HTTP is for this machine alone. What the server says is bounded, and read as what
the document says it is.

Spec: docs/catalogs.md#rest
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any
from urllib.parse import quote_plus, urlencode

from bucketlake.env.env import Clock
from bucketlake.env.http import Answer, Request, is_private, request
from bucketlake.errors import (
    AlreadyExistsError,
    BucketlakeError,
    CorruptError,
    InvalidError,
    NotFoundError,
    NotWrittenError,
    StorageError,
    UnsupportedError,
)
from bucketlake.format.guard import decoding
from bucketlake.redaction import HIDDEN, holds_password, redact
from bucketlake.values import dataclass

HEADER = "header."
LARGEST_ANSWER = 64 << 20
TRIES = 4
FIRST_PAUSE = 0.2  # seconds; doubled for each try
LONGEST_PAUSE = 10.0
MOST_PAGES = 100_000
_BUSY = (429, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class RestClient:
    """One server, and how it is spoken to. Errors, by what the server says:

    InvalidError (400, 401, 403), NotFoundError, AlreadyExistsError, UnsupportedError (405, 406, 501); StorageError
    where it failed or did not answer: then nobody knows whether it did what it was told.
    """

    base: str
    clock: Clock
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    prefix: str = ""

    def get(self, *path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """What the server has at a place; asked again where it does not answer."""
        return self._tried(lambda: self._read(self._sent("GET", self._url(path, query), None), path), StorageError)

    def post(self, *path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Tell the server to do something, once."""
        sent = json.dumps(body, ensure_ascii=False).encode()
        return self._read(self._sent("POST", self._url(path, None), sent), path)

    def post_change(self, what: str, *path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Tell the server to do something, once, where nobody looks what became of it. `what`: for the error."""
        try:
            return self._tried(lambda: self.post(*path, body=body), NotWrittenError)
        except NotWrittenError:
            raise
        except StorageError as error:
            raise StorageError(
                f"it is not known whether the catalog's server did this: {what}",
                request="/".join(path),
                reason=str(error),
                remedy="look whether it is done before trying again",
            ) from error

    def remove(self, *path: str, wanted: str | None = None) -> bool:
        """Remove what is at a place and has an id; False where nothing is. What was put there by others once it was
        gone stays, also where an answer is lost. `wanted`: its id, None: of what is there now."""
        try:
            there = self.get(*path).get("id")
        except NotFoundError:
            return False
        if wanted is not None and there != wanted:
            return False

        def stays() -> bool:
            try:
                return bool(self.get(*path).get("id") == there)
            except NotFoundError:
                return False

        return self.delete(*path, stays=stays)

    def delete(self, *path: str, stays: Callable[[], bool] | None = None) -> bool:
        """Remove what is at a place; False where nothing is. What an earlier try has removed counts as removed; `stays`
        is asked after one whose answer is lost."""
        lost = False
        for number in range(TRIES):
            try:
                self._read(self._sent("DELETE", self._url(path, None), None), path)
                return True
            except NotFoundError:
                return lost
            except StorageError as error:
                if number == TRIES - 1:
                    raise
                lost = lost or not isinstance(error, NotWrittenError)
                self._pause(number, error)
                if stays is not None and not stays():
                    return True
        return False

    def pages(self, part: str, *path: str) -> Iterator[Any]:
        """The items of a list, page after page. `part`: what the server calls them."""
        query: dict[str, str] = {}
        for _ in range(MOST_PAGES):
            page = self.get(*path, query=query)
            items = page.get(part)
            with decoding("not a list of a REST catalog", "/".join(path)):
                if items is not None and not isinstance(items, list):
                    raise ValueError(f"'{part}' is not a list")
            yield from items or ()
            token = page.get("nextPageToken")
            if not token or token == query.get("pageToken"):
                return
            query = {"pageToken": str(token)}
        raise CorruptError("a list of a REST catalog does not end", path="/".join(path), pages=MOST_PAGES)

    def names(self, part: str, *path: str) -> list[str]:
        """The names in a list, sorted."""
        return sorted({str(item) for item in self.pages(part, *path)})

    # ---- parts

    def _tried(self, ask: Callable[[], dict[str, Any]], kind: type[StorageError]) -> dict[str, Any]:
        """What is answered; asked again where such an error comes."""
        for number in range(TRIES):
            try:
                return ask()
            except kind as error:
                if number == TRIES - 1:
                    raise
                self._pause(number, error)
        return {}

    def _pause(self, number: int, error: StorageError) -> None:
        told = error.details.get("retry_after")
        wait = FIRST_PAUSE * 2**number * (1 + self.clock.jitter())
        self.clock.sleep(min(LONGEST_PAUSE, max(wait, float(told) if told is not None else 0.0)))

    def _url(self, path: Sequence[str], query: Mapping[str, str] | None) -> str:
        parts = [self.base, "v1", *([quote_plus(self.prefix, safe="*")] if self.prefix else [])]
        if path == ("config",):
            parts = [self.base, "v1"]
        text = "/".join([*parts, *(quote_plus(part, safe="*") for part in path)])
        return f"{text}?{urlencode(query)}" if query else text

    def _sent(self, method: str, url: str, body: bytes | None) -> Answer:
        headers = {"Accept": "application/json", **self.headers}
        if body is not None:
            headers["Content-Type"] = "application/json"
        return request(Request(method, url, headers, body), most=LARGEST_ANSWER)

    def _read(self, answer: Answer, path: Sequence[str]) -> dict[str, Any]:
        place = "/".join(path)
        if not 200 <= answer.status < 300:
            raise _error_of(answer, place, [value for text in self.headers.values() for value in text.split()])
        if not answer.whole:
            raise CorruptError("an answer of a REST catalog is too long", path=place, most=LARGEST_ANSWER)
        if not answer.body.strip():
            return {}
        with decoding("not an answer of a REST catalog", place):
            found = json.loads(answer.body)
            if not isinstance(found, dict):
                raise ValueError("no object")
            return found


def _error_of(answer: Answer, place: str, secrets: Sequence[str]) -> BucketlakeError:
    """The error that the server's answer tells of. Nothing of a body that is no `ErrorResponse` is shown, and nothing
    of what was sent with the request."""
    told: dict[str, Any] = {}
    try:
        found = json.loads(answer.body)
        told = found if isinstance(found, dict) else {}
    except (ValueError, RecursionError):
        pass
    code = told.get("code")
    code = code if isinstance(code, int) and 400 <= code < 600 else answer.status
    message = told.get("message")
    details: dict[str, Any] = {"request": place, "status": code}
    if isinstance(told.get("resourceType"), str):
        details["resource"] = told["resourceType"]
    if isinstance(told.get("resourceName"), str):
        details["name"] = told["resourceName"][:200]
    if isinstance(message, str) and message:
        for secret in [word for word in secrets if len(word) > 7]:
            message = message.replace(secret, HIDDEN)
        details["message"] = redact(message[:500])
    if 300 <= code < 400:
        remedy = "name the server itself in 'uri': redirects are not followed"
        return InvalidError("the catalog's server redirects", remedy=remedy, **details)
    if code == 404:
        return NotFoundError("the catalog's server does not have it", **details)
    if code == 409:
        return AlreadyExistsError("the catalog's server has it already", **details)
    if code in (405, 406, 501):
        return UnsupportedError("the catalog's server does not offer this", **details)
    if code in (401, 403):
        what = "is not accepted" if code == 401 else "may not do this"
        return InvalidError(f"the token {what}: the catalog's server refuses", remedy="look at 'token'", **details)
    if 400 <= code < 500 and code not in _BUSY:
        return InvalidError("the catalog's server refuses the request", **details)
    wait = answer.headers.get("retry-after", "")
    if wait.isascii() and wait.isdigit():
        details["retry_after"] = int(wait)
    if answer.status == 429:
        return NotWrittenError("the catalog's server takes in no more requests for now", **details)
    return StorageError("the catalog's server failed", **details)


def connected(options: Mapping[str, str], clock: Clock) -> tuple[RestClient, dict[str, str]]:
    """A client after the handshake, and the options with what the server says: its defaults under the user's, its
    overrides over them. `uri` and `token` stay the user's."""
    uri = (options.get("uri") or "").strip().rstrip("/")
    if not uri:
        raise InvalidError("a REST catalog needs the option 'uri'", remedy="https://host:port")
    base = uri if "://" in uri else f"https://{uri}"
    if holds_password(base):
        raise InvalidError("credentials in the URL of a REST catalog", remedy="give a token: token=…")
    if not is_private(base):
        raise InvalidError(
            "a REST catalog is spoken to by https: others could read the token and the table's",
            uri=base,
            remedy="https://…; plain http is for this machine alone",
        )
    own = {"header": _headers(options), "token": options.get("token")}
    client = RestClient(base, clock, _with_token(own["header"], own["token"]))
    warehouse = options.get("warehouse") or ""
    told = client.get("config", query={"warehouse": warehouse} if warehouse else None)
    merged = {**_texts(told, "defaults"), **options, **_texts(told, "overrides")}
    kept = {key: options[key] for key in ("uri", "token", "token.provider", "metastore") if key in options}
    merged = {**merged, **kept}
    headers = _with_token(_headers(merged), own["token"])
    return replace(client, headers=headers, prefix=merged.get("prefix", "")), merged


def _headers(options: Mapping[str, str]) -> dict[str, str]:
    return {key[len(HEADER) :]: value for key, value in options.items() if key.startswith(HEADER)}


def _with_token(headers: Any, token: Any) -> dict[str, str]:
    return {**headers, **({"Authorization": f"Bearer {token}"} if token else {})}


def _texts(told: Mapping[str, Any], part: str) -> dict[str, str]:
    found = told.get(part) or {}
    with decoding("not a configuration of a REST catalog", "config"):
        if not isinstance(found, dict):
            raise ValueError(f"'{part}' is not an object")
        return {str(key): str(value) for key, value in found.items() if value is not None}
