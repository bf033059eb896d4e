"""The lock of a SQL catalog: one row a table, as Apache Paimon's JDBC catalog takes it around commits and alterations.

Whoever inserts the row `<catalog-key>.<database>.<table>` holds the lock, for at most `expire_time_seconds` by the
database's own clock: then anybody may remove the row and insert another. So:

- a holder that dies keeps others waiting for its lease, and no longer;
- a holder that is slow asks the database whether the row is still its own just before it publishes; if not, it takes
  the lock again;
- the row's time tells whose it is, so that nobody releases another's lock (Apache Paimon removes it by name alone);
- no clock of this machine decides anything, but how long to wait for the lock.

What is published takes its name by put-if-absent as everywhere: between writers of ours the lock is not needed. It is
for others, whose commits on some storages are a look and a rename.

Spec: docs/catalogs.md#the-lock
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from bucketlake.catalogs.names import Identifier
from bucketlake.catalogs.sql_rows import LOCKS, Rows
from bucketlake.env.database import POSTGRESQL, SQLITE
from bucketlake.env.env import Clock
from bucketlake.env.keeper import Publication, sealed
from bucketlake.env.new_file import put_new
from bucketlake.env.storage import Storage
from bucketlake.errors import AlreadyExistsError, BucketlakeError, CommitError, UnsupportedError
from bucketlake.schema.schema import TableSchema
from bucketlake.values import dataclass

FIRST_PAUSE_MILLIS = 50
LOST = 5  # times that a lease may be lost before a commit gives up
_AGE = {
    SQLITE: "strftime('%s', 'now') - strftime('%s', acquired_at)",
    POSTGRESQL: "EXTRACT(EPOCH FROM AGE(NOW(), acquired_at))",
}
_AGE_ELSE = "TIMESTAMPDIFF(SECOND, acquired_at, NOW())"


@dataclass(frozen=True, slots=True)
class Locks:
    """The locks of one catalog. `timeout_millis`: how long to wait for one, and how long one is held at most;
    `sleep_millis`: the longest pause between two looks. Not enabled: nothing is locked."""

    rows: Rows
    clock: Clock
    enabled: bool
    timeout_millis: int = 8 * 60_000
    sleep_millis: int = 8_000

    @contextmanager
    def held(self, *names: Identifier) -> Iterator[Callable[[], bool]]:
        """Hold the locks of some tables, in one order for everybody; gives what asks whether they still are held.

        CommitError where a lock is not to be had in time, StorageError where the database fails.
        """
        if not self.enabled:
            yield lambda: True
            return
        taken: list[tuple[str, Any]] = []
        keys = sorted({f"{self.rows.key}.{name.database}.{name.table}" for name in names})
        try:
            for key in keys:
                taken.append((key, self._acquire(key)))
            yield lambda: all(self._is_held(key, since) for key, since in taken)
        finally:
            for key, since in reversed(taken):
                with suppress(BucketlakeError):  # the lease ends it
                    self._release(key, since)

    def _acquire(self, key: str) -> Any:
        """When the lock was taken, by the database's clock."""
        pause, started = FIRST_PAUSE_MILLIS, self.clock.now_millis()
        while True:
            since = self._tried(key)
            if since is not None:
                return since
            waited = self.clock.now_millis() - started
            if waited > self.timeout_millis:
                raise CommitError(
                    "the table's lock is held by another writer",
                    lock=key,
                    waited_millis=waited,
                    remedy=f"wait for it, raise lock-acquire-timeout, or look at its row in {LOCKS}",
                )
            pause = min(pause * 2, self.sleep_millis)
            self.clock.sleep(pause * (0.5 + self.clock.jitter() / 2) / 1000)

    def _tried(self, key: str) -> Any:
        database = self.rows.database
        age = _AGE.get(database.kind, _AGE_ELSE)
        database.change(f"DELETE FROM {LOCKS} WHERE {age} > expire_time_seconds AND lock_id = ?", (key,))
        try:
            database.change(
                f"INSERT INTO {LOCKS} (lock_id, expire_time_seconds) VALUES (?, ?)", (key, self.timeout_millis // 1000)
            )
        except AlreadyExistsError:
            return None
        rows = database.query(f"SELECT acquired_at FROM {LOCKS} WHERE lock_id = ?", (key,))
        return rows[0][0] if rows else None

    def _is_held(self, key: str, since: Any) -> bool:
        rows = self.rows.database.query(f"SELECT acquired_at FROM {LOCKS} WHERE lock_id = ?", (key,))
        return bool(rows) and rows[0][0] == since

    def _release(self, key: str, since: Any) -> None:
        self.rows.database.change(f"DELETE FROM {LOCKS} WHERE lock_id = ? AND acquired_at = ?", (key, since))


@dataclass(frozen=True, slots=True)
class SqlKeeper:
    """A SQL catalog's say over one table: its lock is held while a name is taken, and its properties follow schemas.
    `sync`: whether the database is told of them."""

    locks: Locks
    name: Identifier
    sync: bool

    manages = False

    def publish(self, storage: Storage, publication: Publication) -> bool:
        """See Keeper."""
        return self._locked(publication.branch, lambda: storage.put_if_absent(publication.path, publication.data))

    def put_schema(self, storage: Storage, path: str, data: bytes) -> bool:
        """See Keeper. The database is told what the newest schema is, best effort: nobody reads rows by it."""

        def put() -> bool:
            done = put_new(storage, path, data)
            if done and self.sync and "/branch/branch-" not in path:
                schema = TableSchema.decode(data, path)
                with suppress(BucketlakeError):
                    self.locks.rows.set_properties(self.name.database, self.name.table, told(schema))
            return done

        return self._locked("main", put)

    def newest(self, branch: str) -> bytes | None:
        """See Keeper: not asked."""
        return None

    def call(self, operation: str, branch: str, **given: Any) -> Any:
        """See Keeper: not asked."""
        raise UnsupportedError("a SQL catalog leaves this to the table's files", operation=operation)

    def _locked(self, branch: str, put: Callable[[], bool]) -> bool:
        own = self.name if branch == "main" else Identifier(self.name.database, f"{self.name.table}$branch_{branch}")
        for _ in range(LOST):
            with self.locks.held(own) as is_held:
                if is_held():
                    return put()
        raise CommitError(
            "the table's lock was lost each time before the commit",
            table=self.name.text,
            remedy="raise lock-acquire-timeout, which is also how long the lock is held",
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return sealed, ()


def told(schema: TableSchema) -> dict[str, str]:
    """What the catalog's database is told of a schema: its options and keys."""
    keys = {"primary-key": schema.primary_keys, "partition": schema.partition_keys}
    return {**schema.options, **{key: ",".join(names) for key, names in keys.items() if names}}
