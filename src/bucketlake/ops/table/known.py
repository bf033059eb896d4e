"""Whether a handle knows the columns of what it is about to rewrite.

A table's handle keeps the schema that it was opened with. For reading, and for rows that are added, that is what is
meant. Whoever puts rows in the place of others (compaction, clustering, rescale, UPDATE, MERGE) must know every column
that these may have: of a column that another commit brought meanwhile all values would be lost.

    is_altered(store)            whether another schema came since the handle was opened
    check_read_once(store, snapshot, what) ConflictError where rows or columns changed between two looks at a table
    renewed(store)               the table under its newest schema, its dynamic options kept
    knowing(store, snapshot)     that, where the snapshot was committed under columns that the handle does not have
    check_known(store, snapshot) ConflictError there: for what has been told its columns already
    is_newer(store, schema_id)   whether a file is of a later schema; ConflictError where REPLACE TABLE came between
    check_columns(store, messages) the same of what was written: asked of every commit of messages
    of_one_before(store, snapshot) whether REPLACE TABLE came after a snapshot: its rows have no column of the handle's

Spec: docs/conflicts.md#columns-that-come-meanwhile
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from bucketlake.env.storage import is_there
from bucketlake.errors import ConflictError, InvalidError
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.newest import newest_schema
from bucketlake.ops.table.retry import has_moved
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import TableSchema
from bucketlake.schema.versions import is_replaced
from bucketlake.types.model import DataField, DataType


def renewed(store: Store) -> Store:
    """The table under its newest schema; options that were laid over its own stay. Errors: as `Store.check_here`."""
    if not is_altered(store):
        return store
    newest = newest_schema(store.env, store.paths)
    store.check_here()  # behind the look: what was found is this table's
    return store.with_schema(replace(newest, options={**newest.options, **store.dynamic_options()}))


def is_altered(store: Store) -> bool:
    """Whether the table has another schema than the one that the handle was opened with."""
    return is_there(store.env.storage, store.paths.schema(store.schema.id + 1))


class AlteredError(ConflictError):
    """The table was altered while it was read: from the same handle that is so again, whatever the base."""


def check_read_once(store: Store, base: Snapshot | None, what: str) -> None:
    """Raise ConflictError where `what`, which looks at a table for itself, may not have seen this snapshot of it, and
    AlteredError where it may have seen other columns than the handle's: names would mean these."""
    if has_moved(store, base):
        raise ConflictError(f"another commit came while {what}", table=store.paths.root)
    if is_altered(store):
        raise AlteredError(f"the table was altered while {what}", table=store.paths.root, remedy="try again")


def knowing(store: Store, snapshot: Snapshot | None) -> Store:
    """The store, or where a snapshot may hold columns that its schema has not, the same table under the newest one."""
    return store if knows(store, snapshot) else renewed(store)


def knowing_order(store: Store, snapshot: Snapshot | None, columns: Iterable[DataField]) -> Store:
    """As `knowing`, for what looks at these columns by itself: ConflictError where one is not what it was."""
    known = knowing(store, snapshot)
    if not all(item in known.schema.fields for item in columns):
        check_known(store, snapshot)
    return known


def check_kept(store: Store, names: Iterable[str]) -> None:
    """Raise InvalidError where one of these columns, or a member of it, was dropped since a store was opened: its
    values would be written for nobody."""
    newest = renewed(store)
    kept, given = set(_names_by_id(newest.schema.fields)), {name.lower() for name in names}
    brought = [item for item in store.schema.fields if item.name.lower() in given]
    gone = [name for number, name in _names_by_id(brought).items() if number not in kept]
    if newest is not store and gone:
        raise InvalidError(
            "columns that the rows bring were dropped since the table was opened",
            table=store.paths.root,
            columns=gone,
            remedy="open the table again, and leave these columns out (a stream's query: start it again without them)",
        )


def _names_by_id(fields: Iterable[DataField], within: str = "") -> dict[int, str]:
    found: dict[int, str] = {}
    for item in fields:
        name = f"{within}{item.name}"
        found |= {item.id: name, **_inside(item.type, f"{name}.")}
    return found


def _inside(t: DataType, within: str) -> dict[int, str]:
    found = _names_by_id(t.fields, within)
    for part in (t.key, t.element):
        found |= {} if part is None else _inside(part, within)
    return found


def check_known(store: Store, snapshot: Snapshot | None) -> None:
    """Raise ConflictError where a snapshot may hold columns that a store's schema has not, or has otherwise."""
    if snapshot is not None and not knows(store, snapshot):
        raise ConflictError(
            "the table's columns have changed since it was opened",
            table=store.paths.root,
            schema=store.schema.id,
            newest=snapshot.schema_id,
            remedy="open the table again and repeat the change",
        )


def check_columns(store: Store, messages: Iterable[CommitMessage]) -> None:
    """Raise ConflictError where files take the place of others that were written under newer columns."""
    gone: dict[bytes, list[DataFile]] = {}
    made: dict[bytes, list[DataFile]] = {}
    for message in messages:
        gone.setdefault(message.partition, []).extend((*message.compact_before, *message.deleted_files))
        made.setdefault(message.partition, []).extend((*message.compact_after, *message.new_files))
    for partition, old in gone.items():
        names = {file.file_name for file in old}  # one that only changes its level stays what it is
        oldest = min((file.schema_id for file in made[partition] if file.file_name not in names), default=None)
        newest = max((file.schema_id for file in old), default=0)
        if oldest is None or oldest >= newest or _has(store.schema_of(oldest), store.schema_of(newest)):
            continue
        raise ConflictError(
            "rows were rewritten under an older schema than they have",
            table=store.paths.root,
            schema=oldest,
            newest=newest,
            remedy="open the table again and repeat the change",
        )


def is_newer(store: Store, schema_id: int) -> bool:
    """Whether a file was written under a schema that came after the one that the handle has. ConflictError where the
    table was replaced in between: the file's rows have nothing of what the handle calls its columns."""
    if schema_id <= store.schema.id:
        return False
    if is_replaced(store.schema, store.schema_of(schema_id), strictly=True):
        raise ConflictError(
            "the table was replaced since it was opened",
            table=store.paths.root,
            schema=store.schema.id,
            newest=schema_id,
            remedy="open the table again; a stream's query, start it again from a new read_stream",
        )
    return True


def refuse_replaced(store: Store, snapshot: Snapshot | None) -> None:
    """ConflictError where REPLACE TABLE came between the handle's schema and a snapshot: its buckets, keys and
    statistics are none of what the handle takes them for, even where no row is read."""
    if snapshot is not None:
        is_newer(store, snapshot.schema_id)


def of_one_before(store: Store, snapshot: Snapshot) -> bool:
    """Whether REPLACE TABLE came between a snapshot and the handle's schema: under that its rows would be nulls.
    ConflictError where it came after the handle was opened."""
    return not is_newer(store, snapshot.schema_id) and is_replaced(store.schema_of(snapshot.schema_id), store.schema)


def knows(store: Store, snapshot: Snapshot | None) -> bool:
    """Whether a store has the columns of every file of a snapshot, which names the newest schema of its time."""
    if snapshot is None or snapshot.schema_id <= store.schema.id:
        return True
    return _has(store.schema, store.schema_of(snapshot.schema_id))


def _has(schema: TableSchema, newer: TableSchema) -> bool:
    """Whether a schema has all columns of a newer one, as these are."""
    return all(item in schema.fields for item in newer.fields)
