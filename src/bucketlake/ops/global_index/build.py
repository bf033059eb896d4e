"""Building a global index: of rows that it does not cover yet, stretch by stretch of row ids.

    create_index(store, columns, kind, chosen, run) -> Committed     the files that were added, in one snapshot
    drop_index(store, columns, kind, chosen) -> Committed            those that were taken out

A stretch is read in the order of its ids; as many rows as the index's option or memory allow become one file, with a
range of ids of its own. Other programs go on: what they change of the column meanwhile has its rows read again.

Spec: docs/spec/global_index.md#building
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from bucketlake.errors import BucketlakeError, ConflictError, InvalidError, UnsupportedError, check_types
from bucketlake.format.index.btree import BTREE
from bucketlake.format.index.index_manifest import IndexEntry, IndexFile
from bucketlake.format.index.sorted_keys import check_indexed
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.change.column_updates import Changed, dropping, groups_at, until_done
from bucketlake.ops.commit.commit import Check, Commit
from bucketlake.ops.commit.outcome import Attempt, Attempts
from bucketlake.ops.compact.running import Runner, Task, all_of, here
from bucketlake.ops.rows.column_roll import first_id
from bucketlake.ops.rows.global_index import KINDS, indexed_ids, merged_ranges, range_of
from bucketlake.ops.rows.read import read_split
from bucketlake.ops.rows.row_ids import tracked
from bucketlake.ops.rows.sorted_index import encoded_index, index_blocks
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.messages import CommitMessage, Split
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import ROW_ID_FIELD, TableSchema
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

ROW_ID = ROW_ID_FIELD.name
MOST_ROWS = 2 << 20  # of one file, whatever the option says: some hundred bytes a row are in memory while it is made
MOST_BYTES = 256 << 20  # of its values
OTHERS = ("full-text", "lumina", "lumina-vector-ann", "es-index", "diskann")  # that Paimon builds, others than here

__all__ = ["create_index", "drop_index"]


@dataclass(frozen=True, slots=True)
class Committed:
    """A snapshot, None where nothing changed, and how many index files came, or went."""

    snapshot: Snapshot | None
    files: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows to index that lie side by side: those of `groups` from `first` on, up to `end`. `kind`: of the index."""

    column: str
    kind: str
    groups: tuple[Split, ...]
    first: int
    end: int

    @property
    def snapshot(self) -> int:
        """The one that is read."""
        return self.groups[0].snapshot_id

    @property
    def size(self) -> int:
        """Bytes of the files, other columns included."""
        return sum(group.size for group in self.groups)


def create_index(
    store: Store, columns: Sequence[str], kind: str = BTREE, chosen: PartitionFilter | None = None, run: Runner = here
) -> Committed:
    """Index a column where no index of its kind covers it, in the partitions chosen; the files that were added.

    Errors: InvalidError (columns), UnsupportedError (table, kind, type), ConflictError where others changed the column
    too often meanwhile, and those of a commit.
    """
    field, kind = _field(store.schema, columns, _kind(kind)), _kind(kind)
    index_blocks(store.options, kind)
    added = 0

    def once(base: Snapshot | None, attempt: Attempt) -> Changed:
        nonlocal added
        if base is None:
            return Changed(())
        covered = _covered(store.index_manifest(base), field, kind)
        groups = [group for group in groups_at(store, base, None) if chosen is None or chosen(group.partition)]
        stretches = list(_stretches(store, (field.name, kind), groups, covered))
        made = all_of([Task(store, indexed, stretch) for stretch in stretches], run)
        added = sum(len(message.new_index_files) for message in made)
        attempt.made(made)
        read = [group for stretch in stretches for group in stretch.groups]
        return Changed(attempt.messages, read, more=_check_free(store, field, kind))

    snapshot = until_done(store, once, frozenset({field.id}), None)
    return Committed(snapshot, 0 if snapshot is None else added)


def drop_index(
    store: Store,
    columns: Sequence[str],
    kind: str = BTREE,
    chosen: PartitionFilter | None = None,
    dry_run: bool = False,
) -> Committed:
    """Take the files of an index out of the table, in one snapshot, whoever built it; with `dry_run` how many it would
    be. Expiry removes them. Errors: InvalidError (columns), and those of a commit."""
    ids = tuple(item.id for item in _known(store.schema, columns))
    kind, found = _kind(kind), 0

    def once(attempt: Attempt) -> Snapshot | None:
        nonlocal found
        base = attempt.on(store.latest_snapshot())
        entries = [
            entry
            for entry in store.index_manifest(base)
            if entry.file.index_type == kind
            and indexed_ids(entry) == ids
            and (chosen is None or chosen(entry.partition))
        ]
        found = len(entries)
        if dry_run or not entries:
            return None
        user = f"drop-global-index-{store.env.clock.new_uuid()}"
        return Commit(store, user).commit(dropping(store, entries), outcome=attempt.outcome)

    return Committed(Attempts(store).run(once), found)


# ---------------------------------------------------------------------------------------------- what is asked


def _field(schema: TableSchema, columns: Sequence[str], kind: str) -> DataField:
    if not schema.tracks_rows:
        raise InvalidError(
            "Table must enable 'row-tracking.enabled=true' before creating global index.",
            remedy="create the table with 'row-tracking.enabled' = 'true' and 'data-evolution.enabled' = 'true'",
        )
    if not schema.data_evolution:
        raise UnsupportedError(
            "a global index of a table without 'data-evolution.enabled', which no reader would use",
            remedy="create the table with 'data-evolution.enabled' = 'true'",
        )
    fields = _known(schema, columns)
    if kind not in KINDS:
        known = kind in OTHERS or kind.startswith("ivf-")
        raise UnsupportedError(
            f"global indexes of type '{kind}'" if known else f"unknown type of a global index: '{kind}'",
            remedy="build one of type 'btree' or 'bitmap'",
        )
    if len(fields) > 1:
        raise InvalidError(f"Index type '{kind}' does not support multi-column index, got columns: {list(columns)}")
    check_indexed(fields[0].type)
    if fields[0].name in schema.partition_keys:
        raise InvalidError("a partition column needs no index", column=fields[0].name)
    return fields[0]


def _known(schema: TableSchema, columns: Sequence[str]) -> list[DataField]:
    names = [name.strip() for name in columns if name.strip()]
    if not names:
        raise InvalidError("At least one column required.")
    if len(set(names)) < len(names):
        raise InvalidError(f"Duplicate index columns are not allowed: {names}")
    for name in names:
        if name not in schema.field_names:
            raise InvalidError(f"Column '{name}' does not exist in table.", columns=list(schema.field_names))
    return [schema.field(name) for name in names]


def _kind(text: str) -> str:
    check_types(str, "give btree or bitmap", index_type=text)
    return text.strip().lower()


def _covered(entries: Sequence[IndexEntry], field: DataField, kind: str) -> list[tuple[int, int]]:
    """The ids that an index of the column covers."""
    own = (e for e in entries if e.file.index_type == kind and indexed_ids(e) == (field.id,))
    return merged_ranges(range_of(entry.file) for entry in own)


def _check_free(store: Store, field: DataField, kind: str) -> Check:
    """ConflictError where another program has indexed rows of a stretch meanwhile."""

    def check(messages: Sequence[CommitMessage], view: View) -> None:
        there = _covered(view.indexes, field, kind)
        for first, end in (range_of(file) for message in messages for file in message.new_index_files):
            if any(low < end and first < high for low, high in there):
                raise ConflictError(
                    "another program has indexed these rows meanwhile",
                    table=store.paths.root,
                    first_row_id=first,
                    remedy="index what is left",
                )

    return check


def _stretches(
    store: Store, index: tuple[str, str], groups: Sequence[Split], covered: Sequence[tuple[int, int]]
) -> Iterator[Stretch]:
    """What is not covered of groups, rows that lie side by side in a partition together, as many as become a file.
    `index`: its column and kind."""
    most = _most_rows(store)
    pieces = [
        (group.partition, first, end, group)
        for group in groups
        for first, end in _without(first_id(group), first_id(group) + group.files[0].row_count, covered)
    ]
    pieces.sort(key=lambda piece: piece[:3])
    held: list[Split] = []
    start = stop = 0
    for partition, first, end, group in pieces:
        if held and (held[-1].partition != partition or first != stop or end - start > most):
            yield Stretch(*index, tuple(held), start, stop)
            held = []
        if not held:
            start = first
        held.append(group)
        stop = end
    if held:
        yield Stretch(*index, tuple(held), start, stop)


def _without(first: int, end: int, covered: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for low, high in covered:
        if high <= first:
            continue
        if low >= end:
            break
        if low > first:
            yield first, low
        first = max(first, high)
    if first < end:
        yield first, end


def _most_rows(store: Store) -> int:
    return max(1, min(MOST_ROWS, int(store.options.get("sorted-index.records-per-range"))))


# ---------------------------------------------------------------------------------------------- one stretch


def indexed(store: Store, stretch: Stretch) -> list[CommitMessage]:
    """Write the files of a stretch; a message with those, none where no row lives. On an error nothing stays."""
    group = stretch.groups[0]
    files: list[IndexFile] = []
    try:
        for file in _files(store, stretch):
            files.append(file)
    except BaseException:
        for file in files:
            with suppress(BucketlakeError):
                store.env.storage.delete(_path(store, stretch, file))
        raise
    if not files:
        return []
    return [CommitMessage(group.partition, group.bucket, group.total_buckets, new_index_files=tuple(files))]


def _files(store: Store, stretch: Stretch) -> Iterator[IndexFile]:
    most, first = _most_rows(store), stretch.first
    held: list[pa.RecordBatch] = []
    count = size = 0
    for rows in _rows(store, stretch):
        start = 0
        while start < rows.num_rows:
            own = rows.slice(start, most - count)
            held.append(own)
            start, count, size = start + own.num_rows, count + own.num_rows, size + own.nbytes
            if count == most or size >= MOST_BYTES:
                end = int(own.column(1)[-1].as_py()) + 1
                yield _written(store, stretch, held, (first, end))
                first, held, count, size = end, [], 0, 0
    if held:
        yield _written(store, stretch, held, (first, stretch.end))


def _rows(store: Store, stretch: Stretch) -> Iterator[pa.RecordBatch]:
    """Values with their ids, ascending."""
    rows = tracked(store)
    for group in stretch.groups:
        for batch in read_split(rows, replace(group, raw=False), [stretch.column, ROW_ID]):
            ids = batch.column(1).to_numpy()
            inside = (ids >= stretch.first) & (ids < stretch.end)
            own = batch if inside.all() else batch.filter(pa.array(inside))
            if own.num_rows:
                yield own


def _written(store: Store, stretch: Stretch, batches: Sequence[pa.RecordBatch], span: tuple[int, int]) -> IndexFile:
    """The file of some rows, which are all that live in a span of ids."""
    field = store.schema.field(stretch.column)
    rows = pa.concat_batches(batches)
    blocks = index_blocks(store.options, stretch.kind)
    data, recorded = encoded_index(field, stretch.kind, rows, span[0], stretch.snapshot, blocks)
    name = store.paths.new_global_index(store.env, stretch.kind)
    known_as = {
        "_ROW_RANGE_START": span[0],
        "_ROW_RANGE_END": span[1] - 1,
        "_INDEX_FIELD_ID": field.id,
        "_EXTRA_FIELD_IDS": None,
        "_INDEX_META": recorded,
        "_SOURCE_META": None,
    }
    outside = store.paths.external_index(name)
    file = IndexFile(stretch.kind, name, len(data), rows.num_rows, external_path=outside, global_index=known_as)
    store.env.storage.write(_path(store, stretch, file), data)
    return file


def _path(store: Store, stretch: Stretch, file: IndexFile) -> str:
    group = stretch.groups[0]
    return store.paths.index_path(group.partition, group.bucket, file)
