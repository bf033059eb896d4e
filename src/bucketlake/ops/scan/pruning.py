"""Which files can hold a matching row: by partition, bucket, key statistics, value statistics and file indexes.

Spec: docs/spec/commit.md#planning
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, TypeVar

from bucketlake.file_names import is_own
from bucketlake.format.data.file_format import format_of
from bucketlake.format.metadata.manifest import DataFile, ManifestEntry, ManifestFile, SimpleStats
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.format.metadata.stats import decode_stats_columns
from bucketlake.format.row.hashing import assign_buckets
from bucketlake.lazy import lazy, np, npt, pa, pc
from bucketlake.ops.rows.row_ids import id_bounds
from bucketlake.ops.table.partitions import partition_columns
from bucketlake.ops.table.store import Store
from bucketlake.options.merge import COMPUTING
from bucketlake.predicate.evaluate import Bounds, fitted, may_match_all
from bucketlake.predicate.tree import Predicate, columns_of, key_values, of_padded, restrict
from bucketlake.schema.schema import BucketMode, TableSchema
from bucketlake.types.model import DataField, Root, arrow_schema
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.ops.rows import file_indexes, global_index, keyed_index
else:  # a plan without a condition prunes nothing
    file_indexes = lazy("bucketlake.ops.rows.file_indexes")
    global_index = lazy("bucketlake.ops.rows.global_index")
    keyed_index = lazy("bucketlake.ops.rows.keyed_index")

Mask = npt.NDArray["np.bool_"]
T = TypeVar("T")


def manifests_may_match(store: Store, predicate: Predicate, manifests: Sequence[ManifestFile]) -> Mask:
    """Per manifest, whether it may have entries of a partition that satisfies the predicate."""
    fields, names = store.schema.partition_fields, columns_of(predicate)
    stats = [manifest.partition_stats for manifest in manifests]
    counts = np.array([m.num_added_files + m.num_deleted_files for m in manifests], np.int64)
    bounds = {f.name: _bounds(stats, fields, i) for i, f in enumerate(fields) if f.name in names}
    return may_match_all(predicate, bounds, counts)


def _bounds(stats: Sequence[SimpleStats], fields: Sequence[DataField], index: int) -> Bounds:
    (found,) = decode_stats_columns(stats, [item.type for item in fields], [index])
    return Bounds(found.mins, found.maxs, found.null_counts)


@dataclass
class BucketChooser:
    """Which buckets can hold rows whose bucket key is one of a few values."""

    fields: tuple[DataField, ...]
    batch: pa.RecordBatch
    function: str
    _known: dict[int, frozenset[int] | None] = field(default_factory=dict)

    @classmethod
    def of(cls, store: Store, where: Predicate | None) -> BucketChooser | None:
        """None where the predicate does not pin the bucket key, or the table's buckets are not a function of it."""
        schema = store.schema
        if where is None or schema.bucket_mode is not BucketMode.FIXED:
            return None
        fields = schema.select(schema.bucket_keys)
        target = arrow_schema([DataField(f.id, f.name, f.type.with_nullable(True)) for f in fields])
        where = of_padded(where, _chars(fields))  # rows lie where they were put with their blanks
        values = key_values(fitted(where, {item.name: item.type for item in target}), schema.bucket_keys)
        if values is None:
            return None
        known = [row for row in values if all(value is not None for value in row)]
        arrays = [pa.array([row[i] for row in known], target.field(i).type) for i in range(len(fields))]
        batch = pa.RecordBatch.from_arrays(arrays, schema=target)
        return cls(fields, batch, store.options.get("bucket-function.type"))

    def buckets(self, total: int) -> frozenset[int] | None:
        """The buckets out of `total`, None: any."""
        if total <= 0:
            return None
        if total not in self._known:
            found = assign_buckets(self.batch, self.fields, total, self.function)
            self._known[total] = frozenset(int(bucket) for bucket in np.unique(found))
        return self._known[total]


class Pruner:
    """Leaves out files that cannot hold a row for which the predicate is true."""

    def __init__(self, store: Store, where: Predicate | None) -> None:
        schema = store.schema
        self._store = store
        self._where = where
        named = frozenset() if where is None else columns_of(where)
        self._chars = _chars([item for item in schema.fields if item.name in named])
        keys = schema.trimmed_primary_keys if schema.primary_keys else ()
        self._key_part = restrict(where, keys) if where is not None and keys else None
        vectors = store.options.get("deletion-vectors.enabled")
        self._newest_decides = bool(vectors) or store.options.get("merge-engine") not in COMPUTING

    def by_key(self, entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
        """Files whose keys may match; all files of tables without primary key."""
        if self._key_part is None:
            return list(entries)
        part = self._of_stored(self._key_part, entries)
        return self._indexed(part, _kept(entries, self._mask(part, entries, _key_stats)))

    def by_value(self, entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
        """Files whose rows may match, each by itself: right where every row is final."""
        if self._where is None:
            return list(entries)
        where = self._of_stored(self._where, entries)
        return self._indexed(where, _kept(entries, self._mask(where, entries, _value_stats)))

    def _of_stored(self, predicate: Predicate, entries: Sequence[ManifestEntry]) -> Predicate:
        """The predicate over values as statistics and indexes have them: ORC takes the blanks behind CHAR values off as
        they are read."""
        loses = bool(self._chars) and any(format_of(entry.file.file_name) == "orc" for entry in entries)
        return of_padded(predicate, self._chars) if loses else predicate

    def _indexed(self, predicate: Predicate, entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
        return _kept(entries, file_indexes.may_match_by_index(self._store, predicate, entries))

    def by_global_index(self, snapshot: Snapshot, groups: Sequence[list[ManifestEntry]]) -> list[list[ManifestEntry]]:
        """Groups of files, each of the same rows, in which global indexes leave room for a row."""
        if self._where is None:
            return list(groups)
        return _kept(groups, global_index.groups_by_index(self._store, snapshot, self._where, groups))

    def by_keyed_index(self, snapshot: Snapshot, entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
        """Files of a table with a primary key in which its indexes leave room for a row; no row of a file must be
        superseded by one of another."""
        if self._where is None:
            return list(entries)
        return _kept(entries, keyed_index.left_by_index(self._store, snapshot, self._where, entries))

    def sections(self, sections: Sequence[list[ManifestEntry]]) -> set[int]:
        """The `id`s of the sections in which some row, after merging, may match."""
        if self._where is None:
            return {id(section) for section in sections}
        entries = [entry for section in sections for entry in section]
        where = self._of_stored(self._where, entries)
        hits = self._mask(where, entries, _value_stats)
        maybe = np.flatnonzero(hits)
        hits[maybe] = file_indexes.may_match_by_index(self._store, where, [entries[i] for i in maybe.tolist()])
        kept, at = set(), 0
        for section in sections:
            single = len(section) == 1
            if hits[at : at + len(section)].any() or not (single or self._newest_decides):
                kept.add(id(section))
            at += len(section)
        return kept

    def _mask(self, predicate: Predicate, entries: Sequence[ManifestEntry], source: _Source) -> Mask:
        groups: dict[tuple[int, tuple[str, ...] | None], list[int]] = {}
        for index, entry in enumerate(entries):
            groups.setdefault((entry.file.schema_id, entry.file.stats_columns), []).append(index)
        result = np.ones(len(entries), np.bool_)
        for (schema_id, stats_columns), indexes in groups.items():
            part = [entries[i] for i in indexes]
            schema = self._store.schema_of(schema_id)
            fields, stats = source(schema, stats_columns, part)
            bounds = self._columns(predicate, schema, fields, stats, part)
            rows = np.array([entry.file.row_count for entry in part], np.int64)
            result[indexes] = may_match_all(predicate, bounds, rows)
        return result

    def _columns(
        self,
        predicate: Predicate,
        schema: TableSchema,
        fields: Sequence[DataField],
        stats: Sequence[SimpleStats],
        entries: Sequence[ManifestEntry],
    ) -> dict[str, Bounds]:
        """Bounds by today's column names; a column that the files lack is all null, a retyped one unknown. Partition
        columns are constants of the files, whatever statistics say: the files of migrated tables lack them."""
        places = {item.id: i for i, item in enumerate(fields)}
        stored = {item.id for item in schema.fields}
        known = {}
        fixed = self._store.schema.partition_keys
        if columns_of(predicate) & set(fixed):
            constants = partition_columns(self._store, [entry.partition for entry in entries])
            rows = pa.array([entry.file.row_count for entry in entries], pa.int64())
            known = {
                name: Bounds(values, values, pc.if_else(values.is_null(), rows, 0))
                for name, values in zip(fixed, constants, strict=True)
            }
        if self._store.schema.tracks_rows:
            known |= id_bounds([entry.file for entry in entries], columns_of(predicate))
        for name in columns_of(predicate) & set(self._store.schema.field_names) - set(fixed):
            wanted = self._store.schema.field(name)
            if wanted.id not in stored:
                empty = pa.nulls(len(entries), arrow_schema([wanted]).field(0).type)
                counts = pa.array([entry.file.row_count for entry in entries], pa.int64())
                known[name] = Bounds(empty, empty, counts)
            elif wanted.id in places and _same_type(fields[places[wanted.id]], wanted):
                arity = len(fields)
                if all(_arity(s.min_values) == arity == _arity(s.max_values) for s in stats):
                    known[name] = _bounds(stats, fields, places[wanted.id])
        return known


def proved_partitions(store: Store, files: Sequence[tuple[bytes, DataFile]], names: Sequence[str]) -> Mask:
    """Per file (with its partition), whether its statistics show that it holds these partition columns, and in them no
    other values than the partition's. Files of migrated tables do not: there the partition alone knows them."""
    proved = np.zeros(len(files), np.bool_)
    constants = dict(zip(store.schema.partition_keys, partition_columns(store, [one for one, _ in files]), strict=True))
    groups: dict[tuple[int, tuple[str, ...] | None], list[int]] = {}
    for index, (_, file) in enumerate(files):
        groups.setdefault((file.schema_id, file.stats_columns), []).append(index)
    for (schema_id, stats_columns), indexes in groups.items():
        schema = store.schema_of(schema_id)
        fields = schema.stats_fields(stats_columns)
        places = {item.id: place for place, item in enumerate(fields)}
        stats = [files[index][1].value_stats for index in indexes]
        wanted = [store.schema.field(name) for name in names]
        if any(item.id not in places or not _same_type(fields[places[item.id]], item) for item in wanted):
            continue
        if any(_arity(one) != len(fields) for found in stats for one in (found.min_values, found.max_values)):
            continue
        kept = np.ones(len(indexes), np.bool_)
        for item in wanted:
            bounds, values = _bounds(stats, fields, places[item.id]), constants[item.name].take(pa.array(indexes))
            inside = pc.and_(pc.less_equal(bounds.mins, values), pc.less_equal(values, bounds.maxs))
            kept &= pc.fill_null(inside, False).to_numpy(zero_copy_only=False)
        proved[indexes] = kept
    return proved


def free_of_zeros_and_nan(store: Store, schema_id: int, files: Sequence[DataFile], ids: Sequence[int]) -> Mask:
    """Per file of one schema and FLOAT or DOUBLE column (by field id), whether its statistics show that no value is
    0.0, -0.0 or NaN: NaN is the greatest value in bounds that were written here, others' may leave it out."""
    schema = store.schema_of(schema_id)
    proved = np.zeros((len(files), len(ids)), np.bool_)
    groups: dict[tuple[str, ...] | None, list[int]] = {}
    for index, file in enumerate(files):
        groups.setdefault(file.stats_columns, []).append(index)
    for stats_columns, indexes in groups.items():
        fields = schema.stats_fields(stats_columns)
        places = {item.id: place for place, item in enumerate(fields)}
        stats = [files[index].value_stats for index in indexes]
        if any(_arity(one) != len(fields) for found in stats for one in (found.min_values, found.max_values)):
            continue
        for column, number in enumerate(ids):
            if number in places:
                bounds = _bounds(stats, fields, places[number])
                above = pc.and_not(pc.greater(bounds.mins, 0.0), pc.is_nan(bounds.maxs))
                aside = pc.or_(above, pc.less(bounds.maxs, 0.0))
                proved[indexes, column] = pc.fill_null(aside, False).to_numpy(zero_copy_only=False)
    return proved & np.array([[is_own(file.file_name)] for file in files], np.bool_).reshape(-1, 1)


def not_negative(store: Store, files: Sequence[DataFile], number: int) -> Mask:
    """Per file, whether its statistics show that no value of a whole-number column (by field id) is below zero."""
    proved = np.zeros(len(files), np.bool_)
    groups: dict[tuple[int, tuple[str, ...] | None], list[int]] = {}
    for index, file in enumerate(files):
        groups.setdefault((file.schema_id, file.stats_columns), []).append(index)
    for (schema_id, stats_columns), indexes in groups.items():
        schema, own = store.schema_of(schema_id), [files[index] for index in indexes]
        for fields, stats in (
            (schema.stats_fields(stats_columns), [file.value_stats for file in own]),
            (schema.select(schema.trimmed_primary_keys), [file.key_stats for file in own]),
        ):
            place = next((place for place, item in enumerate(fields) if item.id == number), None)
            arity = len(fields)
            if place is not None and all(_arity(s.min_values) == arity == _arity(s.max_values) for s in stats):
                found = _bounds(stats, fields, place)
                empty = pc.equal(found.null_counts, pa.array([file.row_count for file in own], pa.int64()))
                kept = pc.or_kleene(pc.greater_equal(found.mins, pa.scalar(0, found.mins.type)), empty)
                proved[indexes] |= pc.fill_null(kept, False).to_numpy(zero_copy_only=False)
    return proved


def dates_from(store: Store, file: DataFile, number: int, day: int) -> bool:
    """Whether a file's statistics show that no value of a DATE column (by field id) is before a day."""
    fields = store.schema_of(file.schema_id).stats_fields(file.stats_columns)
    place = next((place for place, item in enumerate(fields) if item.id == number), None)
    stats = file.value_stats
    if place is None or any(_arity(one) != len(fields) for one in (stats.min_values, stats.max_values)):
        return False
    least = _bounds([stats], fields, place).mins[0]
    return bool(least.is_valid and least.cast(pa.int32()).as_py() >= day)


_Source = Callable[
    [TableSchema, "tuple[str, ...] | None", Sequence[ManifestEntry]],
    "tuple[Sequence[DataField], Sequence[SimpleStats]]",
]


def _key_stats(
    schema: TableSchema, columns: tuple[str, ...] | None, entries: Sequence[ManifestEntry]
) -> tuple[Sequence[DataField], Sequence[SimpleStats]]:
    return schema.select(schema.trimmed_primary_keys), [entry.file.key_stats for entry in entries]


def _value_stats(
    schema: TableSchema, columns: tuple[str, ...] | None, entries: Sequence[ManifestEntry]
) -> tuple[Sequence[DataField], Sequence[SimpleStats]]:
    return schema.stats_fields(columns), [entry.file.value_stats for entry in entries]


def _chars(fields: Sequence[DataField]) -> dict[str, int]:
    """The lengths of the CHAR columns."""
    return {item.name: item.type.length or 1 for item in fields if item.type.root is Root.CHAR}


def _kept(items: Sequence[T], hits: Mask) -> list[T]:
    return [item for item, hit in zip(items, hits.tolist(), strict=True) if hit]


def _same_type(stored: DataField, wanted: DataField) -> bool:
    return stored.type.with_nullable(True) == wanted.type.with_nullable(True)


def _arity(row: bytes) -> int:
    return int.from_bytes(row[:4], "big") if len(row) >= 4 else -1
