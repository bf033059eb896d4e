"""Keys whose type has changed: whether what was made of the old type's bytes still holds.

Buckets, bounds of keys and hashes come from a key's BinaryRow. A key that becomes a wider whole number keeps its bytes
where it is not below zero, and a text or DECIMAL that gets longer keeps them always; any other lies in the bucket of
another hash. So a write that merges schemas retypes a key only where the files prove that (`retypable`), and files that
do not prove it are not read as if they did (`check_keys`): Paimon retypes the keys of a table that is opened by its
path, whatever they are.

Spec: docs/spec/schema.md#merging
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from enum import Enum

from bucketlake.errors import ConflictError, NotFoundError, UnsupportedError
from bucketlake.format.metadata.manifest import FileKind, ManifestEntry, ManifestFile
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.scan.pruning import not_negative
from bucketlake.ops.table.entries import fold
from bucketlake.ops.table.store import Store
from bucketlake.schema.change import SchemaChange, UpdateColumnType
from bucketlake.schema.merging import Merging, merging
from bucketlake.schema.schema import TableSchema
from bucketlake.schema.versions import apply
from bucketlake.types.model import DataField, DataType, Root, type_text

_WHOLE = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)
_TEXTS = (Root.VARCHAR, Root.VARBINARY)
_COMPACT_DIGITS = 18  # a DECIMAL of more lies behind the row, not in it


class _Same(Enum):
    """Which values have the same bytes in another type."""

    ALL = "all"
    NOT_NEGATIVE = "not negative"
    NONE = "none"


def _same_bytes(written: DataType, wanted: DataType) -> _Same:
    if written.with_nullable(True) == wanted.with_nullable(True):
        return _Same.ALL
    if written.root in _WHOLE and wanted.root in _WHOLE:
        return _Same.NOT_NEGATIVE if _WHOLE.index(written.root) < _WHOLE.index(wanted.root) else _Same.NONE
    if written.root is not wanted.root:
        return _Same.NONE
    if written.root in _TEXTS:
        return _Same.ALL if (written.length or 1) <= (wanted.length or 1) else _Same.NONE
    if written.root is Root.DECIMAL and written.scale == wanted.scale:
        digits = written.precision or 0, wanted.precision or 0
        compact = [number <= _COMPACT_DIGITS for number in digits]
        return _Same.ALL if digits[0] <= digits[1] and compact[0] == compact[1] else _Same.NONE
    return _Same.NONE


def _keys(schema: TableSchema) -> tuple[DataField, ...]:
    """The columns that buckets and bounds of keys are made of."""
    return schema.select(tuple(dict.fromkeys((*schema.trimmed_primary_keys, *schema.bucket_keys))))


def retypable(base: Store, changes: Sequence[SchemaChange], snapshot: Snapshot | None) -> frozenset[str]:
    """The key columns that changes of a schema may give another type. `base`: with the schema that is changed; files of
    the snapshot are looked at only where a change retypes a key."""
    keys = {item.name: item for item in _keys(base.schema)}
    wanted = {}
    for change in changes:
        if isinstance(change, UpdateColumnType):
            path = (change.column,) if isinstance(change.column, str) else tuple(change.column)
            if len(path) == 1 and path[0] in keys:
                wanted[path[0]] = change.type
    live = [] if snapshot is None or not wanted else _live(base.manifests(base.data_manifests(snapshot)))
    return frozenset(name for name, t in wanted.items() if not _unproved(base, live, [(keys[name], t)]))


def merged_schema(base: Store, given: Sequence[DataField], rules: Merging, table: str) -> TableSchema | None:
    """The schema that would hold rows of the columns `given`, too; None if the present one does. `table` names it in
    errors: those of `merging` and `apply`."""
    changes = merging(base.schema.fields, given, rules)
    if not changes:
        return None
    free = retypable(base, changes, base.latest_snapshot())
    return apply(base.schema, changes, table=table, retypable=free)


def check_keys(store: Store, manifests: Sequence[ManifestFile], entries: Sequence[Sequence[ManifestEntry]]) -> None:
    """Refuse live files of the manifests whose keys may have other bytes in their present type. `entries`: those of
    each manifest.

    Raises: UnsupportedError naming a file and its column.
    """
    keys = _keys(store.schema)
    if not keys:
        return
    numbers = frozenset[int]().union(*map(store.schemas_in, manifests, entries)) - {store.schema.id}
    foreign = {number: columns for number in sorted(numbers) if (columns := _retyped(store, number, keys))}
    if not foreign:
        return
    live = _live(entries, foreign)
    for number, columns in foreign.items():
        found = _unproved(store, [entry for entry in live if entry.file.schema_id == number], columns)
        if found is not None:
            raise _other_keys(*found)


def check_added(store: Store, newest: TableSchema, changes: Sequence[ManifestEntry]) -> None:
    """Refuse to commit files whose keys may have other bytes in the type that another writer has given them meanwhile.

    `newest`: the table's schema now. Raises: ConflictError.
    """
    if newest.id == store.schema.id:
        return
    now = replace(store, schema=newest)
    keys = _keys(newest)
    added = [entry for entry in changes if entry.kind == FileKind.ADD]
    for number in {entry.file.schema_id for entry in added} - {newest.id}:
        own = [entry for entry in added if entry.file.schema_id == number]
        found = _unproved(now, own, _retyped(now, number, keys))
        if found is not None:
            entry, column, wanted = found
            raise ConflictError(
                "another writer has given a key column another type, in which rows lie in other buckets",
                column=column.name,
                was=type_text(column.type),
                type=type_text(wanted),
                file=entry.file.file_name,
                remedy="open the table again and write the rows again",
            )


def _other_keys(entry: ManifestEntry, column: DataField, wanted: DataType) -> UnsupportedError:
    return UnsupportedError(
        "a key column had another type when a file was written, in which its values may lie in other buckets",
        column=column.name,
        was=type_text(column.type),
        type=type_text(wanted),
        file=entry.file.file_name,
        remedy="roll back to a snapshot before it, read the past (VERSION AS OF), or INSERT OVERWRITE the rows",
    )


def _live(manifests: Iterable[Iterable[ManifestEntry]], schemas: Collection[int] | None = None) -> list[ManifestEntry]:
    """The live files of manifests, of some schemas alone."""
    entries = (entry for part in manifests for entry in part)
    found = fold(entry for entry in entries if schemas is None or entry.file.schema_id in schemas)
    return [entry for entry in found.values() if entry.kind == FileKind.ADD]


def _retyped(store: Store, schema_id: int, keys: Sequence[DataField]) -> list[tuple[DataField, DataType]]:
    """The key columns that had another type in a schema, as they were, and their type now. A schema that is lost is
    told of by who reads its files; one without the columns is of a table that was replaced."""
    try:
        written = {item.id: item for item in store.schema_of(schema_id).fields}
    except NotFoundError:
        return []
    found = [(written[item.id], item.type) for item in keys if item.id in written]
    return [(was, wanted) for was, wanted in found if _same_bytes(was.type, wanted) is not _Same.ALL]


def _unproved(
    store: Store, live: Sequence[ManifestEntry], columns: Sequence[tuple[DataField, DataType]]
) -> tuple[ManifestEntry, DataField, DataType] | None:
    """The first file whose values of a column may have other bytes in the type wanted."""
    for column, wanted in columns:
        same = _same_bytes(column.type, wanted)
        if same is _Same.ALL or not live:
            continue
        if same is _Same.NONE:
            return live[0], column, wanted
        proved = not_negative(store, [entry.file for entry in live], column.id)
        if not proved.all():
            return live[int(proved.argmin())], column, wanted
    return None
