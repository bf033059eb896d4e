"""Connections to the SQL databases that can hold a catalog: SQLite, PostgreSQL, MySQL and MariaDB.

    Database(settings)          query, change, transaction; one connection per call for SQLite, a small pool for others

Statements are written with `?` for values and hold no other question mark, and no percent sign but in SQLite's own.
Nothing of a connection is ever pickled: who needs the database opens it where it is needed. No error shows a password.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from typing import Any

from bucketlake.errors import AlreadyExistsError, BucketlakeError, InvalidError, StorageError
from bucketlake.lazy import lazy
from bucketlake.redaction import HIDDEN
from bucketlake.values import dataclass

_sqlite = lazy("sqlite3")
_psycopg = lazy("psycopg")
_pymysql = lazy("pymysql")

SQLITE, POSTGRESQL, MYSQL = "sqlite", "postgresql", "mysql"
_IDLE_SECONDS = 5.0  # a connection that rested longer is asked whether it is alive
_MISSING = {
    "psycopg": "pip install 'bucketlake[postgresql]'",
    "pymysql": "pip install 'bucketlake[mysql]'",
}
Values = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Settings:
    """How a database is reached. `kind`: sqlite, postgresql, mysql; `given`: arguments of its driver, `shown`: what may
    be said of it in errors; `pool`: how many idle connections are kept."""

    kind: str
    given: Mapping[str, Any] = field(repr=False)
    shown: str
    pool: int = 2


class Database:
    """One database. Every call is a transaction of its own; StorageError where it fails, AlreadyExistsError where a row
    of that key is there."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._idle: list[tuple[Any, float]] = []
        self._owner = os.getpid()
        self._lock = threading.Lock()

    @property
    def kind(self) -> str:
        """sqlite, postgresql or mysql."""
        return self.settings.kind

    def query(self, statement: str, values: Values = ()) -> list[tuple[Any, ...]]:
        """The rows of a SELECT."""
        with self._connection() as connection:
            return _rows(connection, self._text(statement), values)

    def change(self, statement: str, values: Values = ()) -> int:
        """Run a statement that changes rows or tables; how many rows it changed."""
        with self._connection() as connection:
            return _changed(connection, self._text(statement), values)

    @contextmanager
    def transaction(self) -> Iterator[Callable[[str, Values], int]]:
        """Several changes, all or none: `with database.transaction() as change: change(statement, values)`."""
        with self._connection() as connection:
            _run(connection, "BEGIN IMMEDIATE" if self.kind == SQLITE else "BEGIN")
            try:
                yield lambda statement, values: _changed(connection, self._text(statement), values)
            except BaseException:
                with suppress(Exception):
                    _run(connection, "ROLLBACK")
                raise
            _run(connection, "COMMIT")

    def close(self) -> None:
        """Give idle connections back; the database can be used again."""
        with self._lock:
            idle, self._idle = self._idle, []
        if os.getpid() == self._owner:
            for connection, _ in idle:
                _close(connection)

    def __reduce__(self) -> tuple[Any, ...]:
        raise InvalidError(
            "a connection to a catalog's database does not leave its process",
            database=self.settings.shown,
            remedy="open the catalog where it is used; tables can be sent, and are read there",
        )

    def __repr__(self) -> str:
        return f"Database({self.settings.shown!r})"

    # ---- connections

    def _text(self, statement: str) -> str:
        return statement if self.kind == SQLITE else statement.replace("?", "%s")

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        """A connection that goes back to the pool unless the block fails."""
        connection: Any = None
        try:
            connection = self._taken()
            yield connection
        except BaseException as error:
            told = self._translated(error) if _is_drivers(error) else None
            if connection is not None:
                (self._keep if isinstance(told, AlreadyExistsError) else _close)(connection)
            if told is None:
                raise
            raise told from None  # the cause may show what the driver was given
        self._keep(connection)

    def _taken(self) -> Any:
        with self._lock:
            if self._owner != os.getpid():  # a fork: these are the parent's
                self._idle, self._owner = [], os.getpid()
            idle = self._idle.pop() if self._idle else None
        if idle is not None:
            connection, since = idle
            if time.monotonic() - since < _IDLE_SECONDS or _is_alive(connection):
                return connection
            _close(connection)
        return self._connected()

    def _keep(self, connection: Any) -> None:
        with self._lock:
            if self.kind != SQLITE and len(self._idle) < self.settings.pool:
                self._idle.append((connection, time.monotonic()))
                return
        _close(connection)

    def _connected(self) -> Any:
        given = dict(self.settings.given)
        try:
            if self.kind == SQLITE:
                return _sqlite.connect(**given, isolation_level=None, check_same_thread=False)
            if self.kind == POSTGRESQL:
                connection = _psycopg.connect(**given, autocommit=True)
                _run(connection, f"SET TIME ZONE INTERVAL '{_offset()}' HOUR TO MINUTE")
                return connection
            return _pymysql.connect(**given, autocommit=True)
        except ImportError as error:
            raise InvalidError(
                f"this catalog needs the Python package {error.name}", remedy=_MISSING.get(error.name or "")
            ) from error

    def _translated(self, error: BaseException) -> BucketlakeError:
        """What a driver raised, without its secrets."""
        reason = " ".join(str(error).split())[:500]
        for key in ("password", "passwd", "sslpassword"):
            secret = self.settings.given.get(key)
            if secret:
                reason = reason.replace(str(secret), HIDDEN)
        if type(error).__name__ in ("IntegrityError", "UniqueViolation"):
            return AlreadyExistsError("the catalog's database has such a row", reason=reason)
        return StorageError(
            "the catalog's database failed",
            database=self.settings.shown,
            reason=f"{type(error).__name__}: {reason}",
            remedy="look whether it runs, is reached from here and takes these credentials, then try again",
        )


def _is_drivers(error: BaseException) -> bool:
    return isinstance(error, Exception) and not isinstance(error, BucketlakeError)


def _run(connection: Any, statement: str) -> None:
    cursor = connection.cursor()
    try:
        cursor.execute(statement)
    finally:
        cursor.close()


def _rows(connection: Any, statement: str, values: Values) -> list[tuple[Any, ...]]:
    cursor = connection.cursor()
    try:
        cursor.execute(statement, tuple(values))
        return [tuple(row) for row in cursor.fetchall()]
    finally:
        cursor.close()


def _changed(connection: Any, statement: str, values: Values) -> int:
    cursor = connection.cursor()
    try:
        cursor.execute(statement, tuple(values))
        return int(cursor.rowcount)
    finally:
        cursor.close()


def _is_alive(connection: Any) -> bool:
    try:
        _rows(connection, "SELECT 1", ())
    except Exception:
        return False
    return True


def _close(connection: Any) -> None:
    with suppress(Exception):
        connection.close()


def _offset() -> str:
    """This machine's offset from UTC, as a JVM gives it to PostgreSQL: times in locks have no zone of their own."""
    minutes = time.localtime().tm_gmtoff // 60
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
