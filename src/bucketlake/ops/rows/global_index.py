"""Global indexes: which rows, by their ids, have one of a few values, so that a plan leaves out the files of others.

An index covers ranges of ids. Rows that none covers are always read, and all rows that are read are compared again, so
an index decides how much is read and never what is found. It must not be out of date, though: of rows whose column was
changed after the snapshot that was indexed it says nothing. Of indexes that other programs built nobody knows that
snapshot; they are asked as long as the table wants updates to be refused, or to drop them.

Spec: docs/spec/global_index.md#reading
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bucketlake.errors import UnsupportedError
from bucketlake.format.data.blob import is_blob
from bucketlake.format.file_index.keys import FLOATS, literal_array
from bucketlake.format.guard import decoding
from bucketlake.format.index.btree import BTREE, BTreeFile, Recorded, check_indexed, encoded_keys, place_of
from bucketlake.format.index.index_manifest import IndexEntry, IndexFile
from bucketlake.format.metadata.manifest import DataFile, ManifestEntry
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.lazy import np, npt
from bucketlake.ops.rows.column_files import held
from bucketlake.ops.table.store import Store, parallel
from bucketlake.predicate.tree import And, Compare, In, IsNull, Predicate
from bucketlake.schema.schema import TableSchema
from bucketlake.types.model import DataField, Root
from bucketlake.values import dataclass

Ints = npt.NDArray["np.int64"]
Mask = npt.NDArray["np.bool_"]
MOST_VALUES = 1000  # that one condition may compare a column with
MOST_FILES = 1000  # index files that one condition asks


def indexed_ids(entry: IndexEntry) -> tuple[int, ...]:
    """Field ids of the columns of a global index, the first first; none for other indexes."""
    known = entry.file.global_index
    return () if known is None else (known["_INDEX_FIELD_ID"], *(known.get("_EXTRA_FIELD_IDS") or ()))


def range_of(file: IndexFile) -> tuple[int, int]:
    """The ids that a file of a global index covers, from the first to behind the last."""
    known = file.global_index
    return (0, 0) if known is None else (known["_ROW_RANGE_START"], known["_ROW_RANGE_END"] + 1)


def stale_indexes(
    entries: Iterable[IndexEntry], written: frozenset[int], partitions: frozenset[bytes] | None = None
) -> list[IndexEntry]:
    """The global indexes that speak of columns that get new values in these partitions (None: in any)."""
    found = []
    for entry in entries:
        ids = set(indexed_ids(entry))
        if (ids & written or None in ids) and (partitions is None or entry.partition in partitions):
            found.append(entry)
    return found


def groups_by_index(
    store: Store, snapshot: Snapshot, where: Predicate | None, groups: Sequence[Sequence[ManifestEntry]]
) -> Mask:
    """Per group of files, which hold the same rows, whether the global indexes of a snapshot leave room for a row for
    which the predicate is true; true where none says anything.

    Raises: CorruptError naming the index.
    """
    result = np.ones(len(groups), np.bool_)
    if where is None or not groups or not store.options.get("global-index.enabled"):
        return result
    indexes = [entry for entry in store.index_manifest(snapshot) if entry.file.index_type == BTREE]
    if not indexes:
        return result
    spans, fields = _Spans.of(store, groups), {item.name: item for item in store.schema.fields}
    for leaf in where.children if isinstance(where, And) else (where,):
        asked = _asked(leaf, fields)
        own = [] if asked is None else [entry for entry in indexes if indexed_ids(entry) == (asked.field.id,)]
        if asked is None or not own or len(own) > MOST_FILES or not _has_one_type(store, asked.field):
            continue
        try:
            found = parallel(lambda entry, asked=asked: _ids(store, entry, asked), own)  # type: ignore[misc]
        except UnsupportedError:
            continue  # blocks that only others can read
        ids = np.unique(np.concatenate(found))
        hit = np.searchsorted(ids, spans.starts) < np.searchsorted(ids, spans.ends)
        result &= hit | ~spans.covered(own, asked.field)
    return result


def _has_one_type(store: Store, field: DataField) -> bool:
    """Whether a column has always been of its type, so that keys of any age are read for what they are."""
    return all(
        item.type.with_nullable(True) == field.type.with_nullable(True)
        for schema in _schemas(store)
        for item in schema.fields
        if item.id == field.id
    )


def _schemas(store: Store) -> list[TableSchema]:
    return parallel(store.schema_of, range(store.schema.id + 1))


@dataclass(frozen=True, slots=True)
class _Spans:
    """Ids of groups of rows, from the first to behind the last. `files`: of each group, those that are no blobs."""

    store: Store
    starts: Ints
    ends: Ints
    files: list[list[DataFile]]

    @classmethod
    def of(cls, store: Store, groups: Sequence[Sequence[ManifestEntry]]) -> _Spans:
        """Of groups whose first files hold all their rows."""
        files = [[entry.file for entry in group if not is_blob(entry.file.file_name)] for group in groups]
        starts = np.array([own[0].first_row_id for own in files], np.int64)
        return cls(store, starts, starts + np.array([own[0].row_count for own in files], np.int64), files)

    def covered(self, entries: Sequence[IndexEntry], field: DataField) -> Mask:
        """Whether indexes of a column cover all rows of a group, and speak of the values that it has now."""
        snapshots = {entry.file.file_name: _snapshot(entry) for entry in entries}
        changed, alone = self._changed(field.id)
        result = np.zeros(len(self.starts), np.bool_)
        for snapshot in {known for known in snapshots.values() if known is not None}:
            own = [entry for entry in entries if (snapshots[entry.file.file_name] or 0) >= snapshot]
            result |= self._within(own) & (changed <= snapshot)
        others = [entry for entry in entries if snapshots[entry.file.file_name] is None]
        if others and not any(
            "IGNORE" in _update_action(schema) for schema in (*_schemas(self.store), self.store.schema)
        ):
            result |= self._within(others) & alone
        return result

    def _changed(self, field_id: int) -> tuple[Ints, Mask]:
        """Per group the last snapshot that may have changed a column, and whether only inserts can have."""
        known: dict[tuple[int, tuple[str, ...] | None], bool] = {}
        changed, alone = [], []
        for files in self.files:
            own = []
            for file in files:
                key = (file.schema_id, file.write_cols)
                if key not in known:
                    written = self.store.schema_of(file.schema_id)
                    known[key] = any(item.id == field_id for item in held(written, file))
                if known[key]:
                    own.append(file)
            changed.append(max((file.max_sequence_number for file in own), default=0))
            alone.append(len(own) < 2)
        return np.array(changed, np.int64), np.array(alone, np.bool_)

    def _within(self, entries: Iterable[IndexEntry]) -> Mask:
        merged = merged_ranges(range_of(entry.file) for entry in entries)
        lows = np.array([low for low, _ in merged], np.int64)
        highs = np.array([high for _, high in merged], np.int64)
        place = np.searchsorted(lows, self.starts, side="right") - 1
        found: Mask = (place >= 0) & (self.ends <= highs[np.maximum(place, 0)])
        return found


def _snapshot(entry: IndexEntry) -> int | None:
    """The snapshot whose rows an index file names, if that is known."""
    known = entry.file.global_index or {}
    with decoding("not what is recorded of a btree index", entry.file.file_name):
        return Recorded.of(known.get("_INDEX_META") or b"").snapshot


def _update_action(schema: TableSchema) -> str:
    return schema.options.get("global-index.column-update-action", "").upper()


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a condition asks of a column: keys, by their places, ascending, or rows without one."""

    field: DataField
    places: tuple[Any, ...]
    nulls: bool = False


def _asked(leaf: Predicate, fields: dict[str, DataField]) -> _Asked | None:
    """None for what is no comparison with few values that a column of its type can have."""
    if isinstance(leaf, IsNull) and leaf.column in fields:
        return _Asked(fields[leaf.column], (), True)
    if isinstance(leaf, Compare) and leaf.op == "=":
        values: tuple[Any, ...] = (leaf.literal,)
    elif isinstance(leaf, In):
        values = tuple(value for value in leaf.values if value is not None)
    else:
        return None
    field = fields.get(leaf.column)
    if field is None or field.type.root is Root.CHAR or len(values) > MOST_VALUES:
        return None  # texts of other lengths may be equal as CHAR
    try:
        check_indexed(field.type)
    except UnsupportedError:
        return None
    found: set[Any] = set()
    for value in values:
        array = literal_array(value, field.type)
        if array is None:
            return None
        place = place_of(encoded_keys(array, field.type)[0].as_py(), field.type)
        found |= {-1, 0} if field.type.root in FLOATS and place in (-1, 0) else {place}  # the zeros are equal
    return _Asked(field, tuple(sorted(found)))


def _ids(store: Store, entry: IndexEntry, asked: _Asked) -> Ints:
    """The ids of the rows that an index file names."""
    path, known = store.paths.index_path(entry.partition, entry.bucket, entry.file), entry.file.global_index or {}
    first, end = range_of(entry.file)
    kind = asked.field.type
    with decoding("not a btree index file", path, remedy="drop the index, or set 'global-index.enabled' = 'false'"):
        recorded = Recorded.of(known.get("_INDEX_META") or b"")
        places = [place for place in asked.places if recorded.may_hold(place, kind)]
        nulls = asked.nulls and recorded.has_nulls
        if not places and not nulls:
            return np.zeros(0, np.int64)

        def read(offset: int, length: int) -> bytes:
            return store.env.storage.read(path, offset, length)

        return BTreeFile(read, entry.file.file_size, end - first, kind).find(places, nulls) + first


def merged_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges (first, behind the last) in order, those that meet as one; empty ones are left out."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(ranges):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        elif first < end:
            found.append((first, end))
    return found
