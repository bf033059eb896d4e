"""Global indexes: which rows, by their ids, have values in question, so that a plan leaves out the files of others.

An index covers ranges of ids. Rows that none covers are always read, and all rows that are read are compared again, so
an index decides how much is read and never what is found. It must not be out of date, though: of rows whose column was
changed after the snapshot that was indexed it says nothing. Of indexes that other programs built nobody knows that
snapshot; they are asked as long as the table wants updates to be refused, or to drop them.

Spec: docs/spec/global_index.md#reading
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from bucketlake.errors import UnsupportedError
from bucketlake.format.data.blob import is_blob
from bucketlake.format.guard import decoding
from bucketlake.format.index.bitmap_index import BITMAP, BitmapFile
from bucketlake.format.index.blocks import Parts, Unselective
from bucketlake.format.index.btree import BTREE, BTreeFile
from bucketlake.format.index.index_manifest import IndexEntry, IndexFile
from bucketlake.format.index.sorted_keys import Recorded
from bucketlake.format.metadata.manifest import DataFile, ManifestEntry
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.lazy import np, npt
from bucketlake.ops.rows.column_files import held
from bucketlake.ops.rows.index_conditions import Asked, asked_of, by_column
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.store import Store
from bucketlake.predicate.tree import And, Or, Predicate
from bucketlake.schema.schema import TableSchema
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

Ints = npt.NDArray["np.int64"]
Mask = npt.NDArray["np.bool_"]
KINDS = (BTREE, BITMAP)
MOST_FILES = 1000  # index files that one condition asks
ONE_BLOCK = 64 << 10  # bytes of an index file, which are read whatever they save
FEW_BYTES = 1 << 20  # that are read where the data files are as large
_REMEDY = "drop the index, or set 'global-index.enabled' = 'false'"
SHARE = 8  # of so many bytes of data files, one of an index file is read


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
    every = np.ones(len(groups), np.bool_)
    if where is None or not groups or not store.options.get("global-index.enabled"):
        return every
    entries = [entry for entry in store.index_manifest(snapshot) if entry.file.index_type in KINDS]
    if not entries:
        return every
    fields = {item.name: item for item in store.schema.fields}
    return Search(store, entries, _Spans.of(store, groups), fields).left(where, every)


class Spans(Protocol):
    """Groups of rows by the ids that indexes name, from the first to behind the last; `sizes`: bytes of their files."""

    @property
    def starts(self) -> Ints:
        """Their first ids."""

    @property
    def ends(self) -> Ints:
        """Those behind their last."""

    @property
    def sizes(self) -> Ints:
        """Bytes of their files."""

    def covered(self, entries: Sequence[IndexEntry], field: DataField) -> Mask:
        """Whether indexes of a column cover all rows of a group, and speak of the values that it has now."""


@dataclass(frozen=True, slots=True)
class Search:
    """Groups that are left by the indexes of a snapshot."""

    store: Store
    entries: Sequence[IndexEntry]
    spans: Spans
    fields: dict[str, DataField]

    def left(self, where: Predicate, wanted: Mask) -> Mask:
        """Those of the groups wanted in which the predicate may be true for a row."""
        if isinstance(where, Or):
            return self._left_by_any(where, wanted)
        found, others = by_column(where, self.fields)
        for asked in found.values():
            wanted = self._answered(asked, wanted)
        for child in others:
            if isinstance(child, Or):
                wanted = self._left_by_any(child, wanted)
        return wanted

    def _left_by_any(self, where: Or, wanted: Mask) -> Mask:
        """Columns are asked one after the other, each once, for what is not kept by those before."""
        by_field: dict[int, list[Predicate]] = {}
        kept = np.zeros(len(wanted), np.bool_)
        for child in where.children:
            asked = asked_of(child, self.fields)
            if asked is not None:
                by_field.setdefault(asked.field.id, []).append(child)
            elif isinstance(child, (And, Or)):
                kept |= self.left(child, wanted & ~kept)
            else:
                return wanted
        for children in by_field.values():
            asked = asked_of(Or(tuple(children)), self.fields)
            kept |= wanted if asked is None else self._answered(asked, wanted & ~kept)
        return kept

    def _answered(self, asked: Asked, wanted: Mask) -> Mask:
        """Those of the groups wanted that may have a row of what is asked for. A group is asked for once: by the first
        kind of index that covers it."""
        unasked = wanted
        for kind in KINDS:
            own = [e for e in self.entries if e.file.index_type == kind and indexed_ids(e) == (asked.field.id,)]
            if not own or not unasked.any() or not _has_one_type(self.store, asked.field):
                continue
            covered = self.spans.covered(own, asked.field) & unasked
            unasked = unasked & ~covered
            wanted = wanted & (~covered | self._found(kind, own, asked, covered))
        return wanted

    def _found(self, kind: str, entries: Sequence[IndexEntry], asked: Asked, covered: Mask) -> Mask:
        """The groups, of those that indexes cover, of which these name a row."""
        places = np.flatnonzero(covered)
        places = places[np.argsort(self.spans.starts[places])]
        rows = _Rows(self.spans.starts[places], self.spans.ends[places], self.spans.sizes[places])
        parts = [(entry, rows.within(*range_of(entry.file))) for entry in entries]
        parts = [(entry, part) for entry, part in parts if part.start < part.stop]
        limit = _most_scanned(self.store, kind) // max(1, len(parts))
        result = np.zeros(len(covered), np.bool_)
        if len(parts) > MOST_FILES or (asked.is_broad and not limit):
            return covered

        def ask(item: tuple[IndexEntry, slice]) -> Mask:
            entry, part = item
            own = rows.some(part)
            most = own.most(entry.file.file_size)
            return own.named(_ids(self.store, entry, asked, min(most, limit) if asked.is_broad else most))

        for (_, part), found in zip(parts, parallel(ask, parts), strict=True):
            result[places[part]] |= found
        return result


def _most_scanned(store: Store, kind: str) -> int:
    """Bytes of the files of an index that a range may read."""
    if kind == BTREE:
        return int(store.options.get("btree-index.fallback-scan-max-size"))
    return int(store.options.get("bitmap-index.fallback-scan-max-size"))


@dataclass(frozen=True, slots=True)
class _Rows:
    """Ids of groups in their order, from the first to behind the last, and their bytes."""

    starts: Ints
    ends: Ints
    sizes: Ints

    def within(self, first: int, end: int) -> slice:
        """The groups that have ids from one to before another."""
        return slice(
            int(np.searchsorted(self.ends, first, side="right")), int(np.searchsorted(self.starts, end, side="left"))
        )

    def some(self, part: slice) -> _Rows:
        """Groups that follow one another."""
        return _Rows(self.starts[part], self.ends[part], self.sizes[part])

    def most(self, size: int) -> int:
        """Bytes of an index file of a size that may be read to leave some of the groups out: a small part of theirs,
        and no more than what names half of the rows."""
        own = int(self.sizes.sum())
        most = max(ONE_BLOCK, min(FEW_BYTES, own), own // SHARE)
        return most if most <= FEW_BYTES else max(FEW_BYTES, min(most, size // 2))

    def named(self, ids: Iterator[Ints]) -> Mask:
        """The groups that have one of these ids, which are looked at until all groups are named."""
        found = np.zeros(len(self.starts), np.bool_)
        try:
            for some in ids:
                place = np.searchsorted(self.starts, some, side="right") - 1
                inside = (place >= 0) & (some < self.ends[np.maximum(place, 0)])
                found[place[inside]] = True
                if found.all():
                    break
        except (Unselective, UnsupportedError):  # so do blocks that only others can read
            found[:] = True
        return found


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
    """Ids of groups of rows, from the first to behind the last. `files`: of each group, those that are no blobs;
    `sizes`: bytes of these."""

    store: Store
    starts: Ints
    ends: Ints
    sizes: Ints
    files: list[list[DataFile]]

    @classmethod
    def of(cls, store: Store, groups: Sequence[Sequence[ManifestEntry]]) -> _Spans:
        """Of groups whose first files hold all their rows."""
        files = [[entry.file for entry in group if not is_blob(entry.file.file_name)] for group in groups]
        starts = np.array([own[0].first_row_id for own in files], np.int64)
        ends = starts + np.array([own[0].row_count for own in files], np.int64)
        sizes = np.array([sum(file.file_size for file in own) for own in files], np.int64)
        return cls(store, starts, ends, sizes, files)

    def covered(self, entries: Sequence[IndexEntry], field: DataField) -> Mask:
        """Whether indexes of a column cover all rows of a group, and speak of the values that it has now."""
        snapshots = {entry.file.file_name: _snapshot(self.store, entry) for entry in entries}
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


def _snapshot(store: Store, entry: IndexEntry) -> int | None:
    """The snapshot whose rows an index file names, if that is known."""
    path, known = store.paths.index_path(entry.partition, entry.bucket, entry.file), entry.file.global_index or {}
    with decoding("not what is recorded of a sorted index", path, remedy=_REMEDY):
        return Recorded.of(known.get("_INDEX_META") or b"").snapshot


def _update_action(schema: TableSchema) -> str:
    return schema.options.get("global-index.column-update-action", "").upper()


def _ids(store: Store, entry: IndexEntry, asked: Asked, most: int) -> Iterator[Ints]:
    """The ids of the rows that an index file names. Raises as the file's `find`."""
    path, known = store.paths.index_path(entry.partition, entry.bucket, entry.file), entry.file.global_index or {}
    first, end = range_of(entry.file)
    kind = asked.field.type
    what = f"not a {entry.file.index_type} index file"
    with decoding(what, path, remedy=_REMEDY):
        recorded = Recorded.of(known.get("_INDEX_META") or b"")
        spans, nulls = recorded.met(asked.spans, kind), asked.nulls and recorded.has_nulls
        if not spans and not nulls:
            return
        parts = Parts(lambda offset, length: store.env.storage.read(path, offset, length), entry.file.file_size)
        file: BTreeFile | BitmapFile
        if entry.file.index_type == BTREE:
            file = BTreeFile(parts, end - first, kind)
        else:
            file = BitmapFile(parts, end - first, kind, recorded.snapshot is not None)
        for ids in file.find(spans, nulls, most):
            yield ids + first


def merged_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges (first, behind the last) in order, those that meet as one; empty ones are left out."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(ranges):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        elif first < end:
            found.append((first, end))
    return found
