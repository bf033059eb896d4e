"""ALTER: the next schema of a table, and whether rows that came meanwhile may have it.

Some changes are allowed by what a table holds: where it has no rows, where no key is below zero, where nothing is
pending, where no bucket has files in several levels. A commit may come between that look and the schema. So it is
looked at again once the schema is there: a commit that comes later sees the schema, and checks its files by it
(`publish.py`); one that came before is seen here, and the schema is taken back where its rows do not allow the change.

Spec: docs/spec/schema.md#evolution
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from bucketlake.errors import ConflictError, InvalidError, NotFoundError, already_done
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.lsm.engines.rules import check_merges
from bucketlake.ops.commit.schemas import refuse_leaving_pending, refuse_other_merges
from bucketlake.ops.scan import fallback, key_types
from bucketlake.ops.table.newest import newest_schema
from bucketlake.ops.table.publishing import alter_managed, publish_schema
from bucketlake.ops.table.store import Store
from bucketlake.schema.change import SchemaChange
from bucketlake.schema.schema import TableSchema
from bucketlake.schema.versions import apply, refuse_change
from bucketlake.values import dataclass

ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Alter:
    """A change of a table's schema. `find`: the changes of its newest schema. `merges`: rows brought the columns, which
    may retype keys."""

    store: Store
    name: str
    find: Callable[[TableSchema], Sequence[SchemaChange]]
    merges: bool = False

    def publish(self) -> None:
        """Publish the next schema, if there is anything to change.

        Concurrent changes are put one after the other; ConflictError if that keeps failing, or where rows came
        meanwhile that do not allow the change. Errors: see `schema.apply`, `Store.check_here`.
        """
        for _ in range(ATTEMPTS):
            base = newest_schema(self.store.env, self.store.paths)
            self.store.check_here()  # behind the look: what was found is this table's
            changes = self.find(base)
            if not changes:
                return
            snapshot = self.store.latest_snapshot()
            following = self._following(base, changes, snapshot)
            refuse_change(base, following, changes)
            check_merges(following, base)
            fallback.check_branches(self.store, base.options, following.options)
            if alter_managed(self.store, changes):
                return
            if publish_schema(self.store, following):
                with already_done(
                    "the schema is changed, but it could not be seen whether rows that came meanwhile allow it",
                    "look at the table's columns; do not repeat the change",
                    table=self.name,
                    schema=following.id,
                ):
                    stay_in_table(replace(self.store, schema=base), following, self.name)
                    self._check_meanwhile(base, changes, following, snapshot)
                return
        raise ConflictError("the schema keeps changing", table=self.name, remedy="try again")

    def _following(self, base: TableSchema, changes: Sequence[SchemaChange], snapshot: Snapshot | None) -> TableSchema:
        """The next schema, which rows of a snapshot allow."""
        now = self.store.env.clock.now_millis()
        stored = replace(self.store, schema=base)
        free = key_types.retypable(stored, changes, snapshot) if self.merges else frozenset[str]()
        used = snapshot is not None
        following = apply(base, changes, has_snapshots=used, time_millis=now, table=self.name, retypable=free)
        if snapshot is not None:
            for refuse in (refuse_leaving_pending, refuse_other_merges):
                refuse(self.store, snapshot, (base, following), "CALL sys.compact on the table first")
        return following

    def _check_meanwhile(
        self, base: TableSchema, changes: Sequence[SchemaChange], following: TableSchema, seen: Snapshot | None
    ) -> None:
        """Take the schema back where rows were committed under the one before, since `seen`, that do not allow it."""
        latest = self.store.latest_snapshot()
        if latest is None or (seen is not None and latest.id == seen.id):
            return
        past = (one for one in self.store.snapshots(newest_first=True) if one.schema_id < following.id)
        came = next(past, None)
        if came is None or (seen is not None and came.id <= seen.id):
            return
        try:
            self._following(base, changes, came)
        except InvalidError as error:
            number, now = following.id + 1, self.store.env.clock.now_millis()
            restored = replace(base, id=number, highest_field_id=following.highest_field_id, time_millis=now)
            undone = publish_schema(self.store, restored)
            raise ConflictError(
                "rows that do not allow the change were committed while the schema was changed",
                table=self.name,
                snapshot=came.id,
                reason=str(error),
                remedy="the schema is as it was: try again"
                if undone
                else f"take back what schema {following.id} changed",
            ) from error


def stay_in_table(store: Store, following: TableSchema, name: str) -> None:
    """Take away a schema that was just published behind a store's own where the table was dropped or renamed meanwhile,
    which is not brought back, or another of its name was made anew, which keeps its columns: ConflictError then."""
    try:
        store.check_same()
    except (NotFoundError, ConflictError) as error:
        storage, path = store.env.storage, store.paths.schema(following.id)
        with suppress(NotFoundError):
            if storage.read(path) == following.encode():
                storage.delete(path)
        for folder in (store.paths.schema_dir, store.paths.root):
            storage.delete_empty(folder)
        raise ConflictError(
            "the table was dropped, renamed or made anew while its schema was changed",
            table=name,
            path=store.paths.root,
            remedy="look where it is, and for a schema with this change; else try again",
            schema=following.id,
        ) from error
