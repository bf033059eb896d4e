"""Blobs of tables with a primary key: values go into packs beside the data files, descriptors of them into the rows.

    Packing(store)              takes the values out of rows on their way to their buckets
    PackReferences(store)       which packs the rows of one data file point at

A pack is written once, by one task, and is a blob file of single values; rewriting rows keeps their descriptors. Which
rows point at a pack nobody knows in advance, so no pack is removed but with its table.

Spec: docs/spec/blob.md#primary-keys
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count, pairwise

from bucketlake.errors import CorruptError
from bucketlake.file_names import own_uuid
from bucketlake.format.data import descriptor
from bucketlake.format.data.blob import EXTRA, HEAD
from bucketlake.format.data.blob_references import MANAGED, encode_references
from bucketlake.lazy import np, npt, pa, pc
from bucketlake.ops.rows.blob_columns import uri_of
from bucketlake.ops.rows.blob_files import BlobWriter
from bucketlake.ops.rows.described import with_elements
from bucketlake.ops.rows.places import Place
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import KIND_FIELD
from bucketlake.types.arrow import list_offsets, pairs_of
from bucketlake.types.model import DataField

Numbers = npt.NDArray["np.int64"]
MOST_OPEN = 64
_RETRACTS = (1, 3)  # -U, -D
Key = tuple[bytes, int]


class Packing:
    """Writes the values of BLOB columns of one task's rows into packs, those of each bucket and column into others.

    `finish` closes what is open; after a failure comes `abort`, which removes all of them.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.fields = store.schema.managed_fields
        self._unique = own_uuid(store.env.clock.new_uuid()) if self.fields else ""
        self._numbers = count()
        self._open: dict[tuple[Key, str], _Packs] = {}
        self._made: list[_Packs] = []

    def stored(self, rows: pa.RecordBatch, codes: npt.NDArray[np.int32], groups: Sequence[Key]) -> pa.RecordBatch:
        """Rows with descriptors in the place of values. `codes`: of which group each row is. Rows that take others back
        have none where null is allowed."""
        if not self.fields or not rows.num_rows:
            return rows
        retracts = pc.is_in(rows.column(KIND_FIELD.name), pa.array(_RETRACTS, pa.int8()))
        for item in self.fields:
            place = rows.schema.get_field_index(item.name)
            values = rows.column(place)
            if item.type.nullable:
                values = pc.if_else(retracts, pa.scalar(None, values.type), values)
            rows = rows.set_column(place, rows.schema.field(place), self._of(item, values, codes, groups))
        if len(self._open) > MOST_OPEN:
            self.finish()
        return rows

    def finish(self) -> None:
        """Close all packs."""
        while self._open:
            self._open.popitem()[1].finish()

    def abort(self) -> None:
        """Remove all packs."""
        for packs in self._made:
            packs.abort()

    def _of(self, item: DataField, values: pa.Array, codes: npt.NDArray[np.int32], groups: Sequence[Key]) -> pa.Array:
        if not pa.types.is_nested(values.type):
            return self._packed(item, values, codes, groups)
        entries = pairs_of(values) if pa.types.is_map(values.type) else values
        bounds = list_offsets(entries).to_numpy(zero_copy_only=False).astype(np.int64)
        flat = entries.flatten()
        keys = flat.field(0) if pa.types.is_map(values.type) else None
        found = self._packed(item, flat if keys is None else flat.field(1), np.repeat(codes, np.diff(bounds)), groups)
        return with_elements(values, bounds, keys, found)

    def _packed(
        self, item: DataField, values: pa.Array, codes: npt.NDArray[np.int32], groups: Sequence[Key]
    ) -> pa.Array:
        """Descriptors of values that are in packs now, group by group."""
        there = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        order = there[np.argsort(codes[there], kind="stable")]
        parts = [pa.array([], pa.binary())]
        cuts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        for start, end in pairwise([*cuts.tolist(), len(order)]):
            packs = self._packs(groups[int(codes[order[start]])], item)
            parts.append(packs.take(values.take(pa.array(order[start:end]))))
        ranks = np.zeros(len(values), np.int64)
        ranks[order] = np.arange(len(order))
        missing = np.ones(len(values), np.bool_)
        missing[order] = False
        return pa.concat_arrays(parts).take(pa.array(ranks, mask=missing))

    def _packs(self, group: Key, item: DataField) -> _Packs:
        known = self._open.get((group, item.name))
        if known is None:
            single = replace(item, type=item.type.element or item.type)
            known = self._open[(group, item.name)] = _Packs(self._store, single, self._places(group))
            self._made.append(known)
        return known

    def _places(self, group: Key) -> Callable[[], Place]:
        folder = self._store.paths.bucket_dir(*group)

        def place() -> Place:
            name = self._store.paths.data_file_name(self._unique, next(self._numbers), MANAGED, "none")
            return Place(f"{folder}/{name}")

        return place


class _Packs(BlobWriter):
    """Packs of one bucket and column, one after the other."""

    _told: list[tuple[str, int, Numbers]]

    def take(self, values: pa.Array) -> pa.Array:
        """Append values; their descriptors."""
        self._told = []
        self.write(values)
        parts = [self._descriptors(*one) for one in self._told]
        return pa.concat_arrays([pa.array([], pa.binary()), *parts])

    def _count(self, current: object, size: int, lengths: Numbers) -> None:
        open_file = self._current()
        self._told.append((open_file.place.path, open_file.size, lengths))
        super()._count(open_file, size, lengths)

    def _descriptors(self, path: str, start: int, lengths: Numbers) -> pa.Array:
        sizes = np.maximum(lengths, 0)
        offsets = start + np.cumsum(sizes) - sizes
        found = descriptor.describe(uri_of(path), offsets + HEAD, lengths - EXTRA)
        return found if (lengths >= 0).all() else pc.if_else(pa.array(lengths >= 0), found, None)


class PackReferences:
    """The packs that the rows of one data file point at."""

    def __init__(self, store: Store) -> None:
        self._fields = store.schema.managed_fields
        self._uris: set[str] = set()

    def add(self, rows: pa.RecordBatch) -> None:
        """Rows that go into the file. Raises CorruptError for a value that is no descriptor."""
        for item in self._fields:
            values = rows.column(item.name)
            if pa.types.is_map(values.type):
                values = pairs_of(values).flatten().field(1)
            elif pa.types.is_nested(values.type):
                values = values.flatten()
            values = values.drop_null()
            if not len(values):
                continue
            if not descriptor.holds(values).all():
                raise CorruptError("a blob of a table with a primary key that is no descriptor", column=item.name)
            self._uris.update(pc.unique(descriptor.parsed(values)[0]).to_pylist())

    def encoded(self) -> bytes:
        """The file that says so."""
        return encode_references(self._uris)
