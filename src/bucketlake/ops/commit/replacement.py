"""REPLACE TABLE: another definition in a table's place, with its history kept.

Two files decide what a table is, its newest snapshot and its newest schema, and no storage switches both at once. So
the old rows go first, by an OVERWRITE snapshot of the old schema, and only then the next schema is published: at every
moment each reader sees rows of the schema that it has, or none. The new columns have ids that no old file has.

Spec: docs/spec/catalog.md#replace-table
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace

from bucketlake.env.keeper import refuse_managed
from bucketlake.errors import CommitError, ConflictError, NotFoundError, StorageError, UnsupportedError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.lsm.engines.rules import check_merges
from bucketlake.ops.commit.alter import stay_in_table
from bucketlake.ops.commit.commit import Check, Commit
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.known import is_altered
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.publishing import publish_schema
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.prepare import new_commit_user
from bucketlake.schema.schema import TableSchema
from bucketlake.schema.validation import refuse_undelivered
from bucketlake.types.ids import with_fresh_ids
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

# What decides where files of all snapshots lie and how they are named: expiry finds old files by the newest schema.
_PLACES = (
    "data-file.path-directory",
    "data-file.external-paths",
    "data-file.external-paths.strategy",
    "data-file.external-paths.specific-fs",
    "index-file-in-data-file-dir",
    "partition.default-name",
    "partition.legacy-name",
    "type",
)


@dataclass(frozen=True, slots=True)
class Replacement:
    """A table as it is, and the one that is to take its place: checked, and not there yet."""

    old: Store
    new: Store
    name: str
    _gone: list[int] = field(default_factory=list)  # the snapshot of the old rows, once they have gone

    @contextmanager
    def finished_or_told(self) -> Iterator[None]:
        """What fails in the block is told, from the moment on that the old rows went: CommitError. It is nothing to do
        again by itself: a query over the table would find no rows."""
        try:
            yield
        except (StorageError, ConflictError, NotFoundError) as error:
            if not self._gone:
                raise
            raise CommitError(
                "the old rows are out of the table that was to be replaced, and the new ones are not in it",
                table=self.name,
                reason=str(error),
                remedy=f"do it again; a query over the table itself must read its VERSION AS OF {self._gone[0]}",
            ) from error

    def switch(self, check: Check | None = None) -> None:
        """Remove the old rows and publish the new schema: the table is empty then, and older snapshots stay.

        Errors: ConflictError where the table was altered, dropped or renamed since it was drafted; those of `check`,
        which is asked before the old rows go, and of `Commit.truncate`. Until the old rows went, nothing has changed; a
        process that dies between both steps leaves an empty table.
        """
        new = self.new
        if self.old.latest_schema().id != self.old.schema.id:
            raise self._altered()
        before = self.old.latest_snapshot()
        if before is not None:
            made = self._truncate(self.old, self._unaltered(check))
            self._gone.append(made.id - 1)
        if not publish_schema(new, new.schema):
            raise self._altered()
        stay_in_table(self.old, new.schema, self.name)

    def _unaltered(self, check: Check | None) -> Check:
        """What is asked right before the old rows go, too: whether the new schema would still follow."""

        def asked(messages: Sequence[CommitMessage], view: View) -> None:
            if is_altered(self.old):
                raise self._altered()
            if check is not None:
                check(messages, view)

        return asked

    def finish(self) -> None:
        """Remove what another writer committed between the two steps of `switch`."""
        snapshot = self.new.latest_snapshot()
        if snapshot is not None and any(True for _ in live_entries(self.new, snapshot)):
            self._truncate(self.new)

    @staticmethod
    def _truncate(store: Store, check: Check | None = None) -> Snapshot:
        return Commit(store, new_commit_user(store), check=check).truncate()

    def _altered(self) -> ConflictError:
        return ConflictError("the table was altered while it was to be replaced", table=self.name, remedy="try again")


def draft_replacement(old: Store, made: TableSchema, name: str) -> Replacement:
    """What is to replace a table, checked as a new table is; nothing has changed yet. `old`: as it is stored, without
    dynamic options; `made`: as `create_schema` made it.

    Errors: UnsupportedError for another partitioning, and for what is not honoured of either.
    """
    refuse_managed(old.env.keeper, "REPLACE TABLE", "drop the table and create it anew", table=name)
    refuse_undelivered(made)
    check_merges(made)
    refuse_undelivered(old.schema)
    _check_same_partitions(old.schema, made, name)
    fresh, highest = with_fresh_ids(made.fields, old.schema.next_field_id)
    now = old.env.clock.now_millis()
    schema = replace(made, id=old.schema.id + 1, fields=fresh, highest_field_id=highest, time_millis=now)
    return Replacement(old, old.with_schema(schema), name)


def _check_same_partitions(old: TableSchema, new: TableSchema, table: str) -> None:
    """Manifests hold partitions as bytes, which the newest schema reads: its partition columns must be the old ones."""

    def columns(schema: TableSchema) -> list[tuple[str, DataField]]:
        return [(f.name, replace(f, id=0, type=f.type.with_nullable(True))) for f in schema.partition_fields]

    before, after = ([(n, f.type) for n, f in columns(schema)] for schema in (old, new))
    if before != after:
        raise UnsupportedError(
            f"Cannot replace table {table}: replaceTable does not support changing partition keys "
            f"(old={list(old.partition_keys)}, new={list(new.partition_keys)}) or their types",
            table=table,
            remedy="keep the partitioning, or drop the table and create it anew, which loses its history",
        )
    differing = [key for key in _PLACES if old.options.get(key) != new.options.get(key)]
    if differing:
        raise UnsupportedError(
            f"Cannot replace table {table}: files of older snapshots are found by these options",
            options=differing,
            table=table,
            remedy="give them the values that they have",
        )
