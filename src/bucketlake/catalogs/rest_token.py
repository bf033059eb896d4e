"""A table's own storage where a REST server hands out credentials for it: data tokens, renewed before they expire.

What travels to tasks holds the token of the moment, good for one table and for its time, and no way to the server. A
token that is about to expire is renewed before it is sent.

Spec: docs/catalogs.md#data-tokens
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from bucketlake.env.env import Clock
from bucketlake.env.object_store import storage_for
from bucketlake.errors import BucketlakeError, StorageError
from bucketlake.values import dataclass

SAFE_MILLIS = 3_600_000  # as Apache Paimon: a token is renewed an hour before it ends, or after half of a shorter life


@dataclass(frozen=True, slots=True)
class DataToken:
    """Options of a storage, and until when they are good."""

    options: Mapping[str, str] = field(repr=False)
    expires_millis: int
    renew_millis: int

    @classmethod
    def of(cls, options: Mapping[str, str], expires_millis: int, now: int) -> DataToken:
        """A token as it was just handed out."""
        return cls(options, expires_millis, expires_millis - min(SAFE_MILLIS, max(0, expires_millis - now) // 2))


class TokenStorage:
    """The storage of one table: every call goes to one that has the newest token. `ask` gets another one, None in
    processes that cannot; `place`: what tells this storage from others."""

    def __init__(
        self,
        path: str,
        options: Mapping[str, str],
        clock: Clock,
        ask: Callable[[], tuple[Mapping[str, str], int]] | None,
        roots: tuple[str, ...] = (),
    ) -> None:
        self._path, self._options, self._clock, self._ask, self._roots = path, dict(options), clock, ask, roots
        self._token: DataToken | None = None
        self._storage: Any = None
        self._lock = threading.Lock()

    @property
    def settings(self) -> Mapping[str, str]:
        """Those of the catalog: a token is of its table's files alone."""
        return dict(self._options)

    def within(self, roots: Sequence[str]) -> TokenStorage:
        """The same files, of these folders only."""
        made = TokenStorage(self._path, self._options, self._clock, self._ask, tuple(roots))
        made._token = self._token
        return made

    def _current(self) -> Any:
        now = self._clock.now_millis()
        token = self._token
        if token is not None and now < token.renew_millis and self._storage is not None:
            return self._storage
        with self._lock:
            if self._token is None or (self._ask is not None and now >= self._token.renew_millis):
                self._renew(now)
            elif now >= self._token.expires_millis:
                raise StorageError(
                    "the table's data token has expired, and this process cannot get another one",
                    path=self._path,
                    remedy="read or write less at once, or have the server's tokens live longer",
                )
            if self._storage is None and self._token is not None:
                found, _ = storage_for(self._path, {**self._options, **self._token.options})
                within = getattr(found, "within", None)
                self._storage = found if within is None or not self._roots else within(self._roots)
            return self._storage

    def _renew(self, now: int) -> None:
        if self._ask is None:
            raise StorageError("there is no data token for the table", path=self._path)
        try:
            options, expires = self._ask()
        except BucketlakeError as error:
            if self._token is not None and now < self._token.expires_millis:
                return  # the present one is good for a while
            # It says nothing of the file that is asked for: neither that it is not there, nor that it is damaged.
            raise StorageError(
                "there is no data token for the table's files",
                path=self._path,
                reason=str(error),
                remedy="look at the catalog's 'token' and whether the table is still there, then try again",
            ) from error
        self._token, self._storage = DataToken.of(options, expires, now), None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._current(), name)

    def __getstate__(self) -> dict[str, Any]:
        self._current()
        own = {key: value for key, value in self.__dict__.items() if key not in ("_lock", "_storage", "_ask")}
        return {**own, "_ask": None, "_storage": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TokenStorage) and (self._path, self._roots) == (other._path, other._roots)

    def __hash__(self) -> int:
        return hash((self._path, self._roots))

    def __repr__(self) -> str:
        return f"TokenStorage({self._path!r})"
