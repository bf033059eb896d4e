"""Compaction of keyed buckets whose files lie in the order of other columns: option 'pk-clustering-override'.

    picked_clustered(store, files, …) -> CompactionPick       which of a bucket's files are rewritten, None: none
    ClusteredRewrite(store, bucket, …).run(pick) -> Outcome   what becomes of them

New rows (level 0) are merged by key, their keys are looked up among those of level 1, where deletion vectors then leave
the older rows out, and they are written in order. Files of level 1 that overlap, or are small neighbours, are merged.

Spec: docs/spec/clustering.md#keyed-tables
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import field
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.format.index.deletion_vector import Vector
from bucketlake.format.metadata.manifest import DataFile, FileSource
from bucketlake.lsm.compaction import CompactionPick
from bucketlake.lsm.engines.engines import Deduplicate, without_retracts
from bucketlake.lsm.engines.rules import engine_of, order_of
from bucketlake.lsm.keys import Bound, KeyOrder
from bucketlake.lsm.levels import KeyRange, key_range_of, sections
from bucketlake.lsm.merge import merge_runs, slices
from bucketlake.ops.cluster.order import SortOrder
from bucketlake.ops.cluster.rows import in_order
from bucketlake.ops.rewrite.rewrite import Outcome
from bucketlake.ops.rows.deletions import deleted_mask, new_vector
from bucketlake.ops.rows.one_file import file_layout, read_key_values, read_numbered_file
from bucketlake.ops.rows.pending import PendingRuns
from bucketlake.ops.rows.roll import TARGET_KEYED, Roller, Rolling
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import KIND_FIELD, SEQUENCE_FIELD
from bucketlake.types.model import BIGINT, DataField
from bucketlake.values import dataclass

__all__ = ["ClusteredBucket", "ClusteredRewrite", "picked_clustered"]

Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]
SORTED = 1  # the level of rows in order
_FILE, _POSITION = DataField(-1, "__file", BIGINT), DataField(-2, "__position", BIGINT)


def picked_clustered(store: Store, files: Sequence[DataFile], *, full: bool, marked: Set[str]) -> CompactionPick | None:
    """What to compact of a bucket: all new files, and the groups of `_merge_groups`; `full`: all, unless nothing is
    new, overlaps or is `marked` by a deletion vector. From metadata alone."""
    new = [file for file in files if file.level == 0]
    upper = [file for file in files if file.level > 0]
    groups = _merge_groups(store, upper)
    if full and (new or groups or any(file.file_name in marked for file in upper)):
        groups = [upper]
    chosen = [*new, *(file for group in groups for file in group)]
    return CompactionPick(tuple(chosen), SORTED, drop_deletes=True) if chosen else None


def _merge_groups(store: Store, files: Sequence[DataFile]) -> list[list[DataFile]]:
    """Files in order that are to be merged: such as overlap, and neighbours of less than half the target size. All,
    where some are in the order of other columns."""
    own = store.schema.bound_fields(SORTED)
    written = [store.schema_of(number).bound_fields(SORTED) for number in {file.schema_id for file in files}]
    if len(files) < 2:
        return []
    if any([(f.id, f.type) for f in fields] != [(f.id, f.type) for f in own] for fields in written):
        return [list(files)]
    small = (store.options.get("target-file-size") or TARGET_KEYED) // 2
    groups: list[list[DataFile]] = [[]]
    for section in _overlapping(files, key_range_of(own)):
        if len(section) > 1 or section[0].file_size < small:
            groups[-1] += section
        else:
            groups.append([])
    return [group for group in groups if len(group) > 1]


def _overlapping(files: Sequence[DataFile], key_range: KeyRange) -> list[list[DataFile]]:
    """Files in order, those together whose ranges overlap. Where one ends with what the next begins with, they do not:
    so do the files of one run, as often as not."""
    ranged = sorted((*key_range(file), number) for number, file in enumerate(files))
    found: list[list[DataFile]] = []
    end: Bound | None = None
    for low, high, number in ranged:
        if end is not None and low < end:
            found[-1].append(files[number])
            end = max(end, high)
        else:
            found.append([files[number]])
            end = high
    return found


@dataclass(frozen=True, slots=True)
class ClusteredBucket:
    """Which bucket, its live files, its deletion vectors by file name with the index file's path. `check`: is shown all
    rows that are read."""

    partition: bytes
    number: int
    files: tuple[DataFile, ...]
    vectors: dict[str, Vector] = field(default_factory=dict)
    index: str = ""
    check: Callable[[pa.RecordBatch], None] | None = None


class ClusteredRewrite:
    """One compaction of one such bucket. `abort` removes every file that it wrote. Memory: two write buffers."""

    def __init__(self, store: Store, bucket: ClusteredBucket) -> None:
        self._store, self._bucket = store, bucket
        self._folder = store.paths.bucket_dir(bucket.partition, bucket.number)
        self._engine = engine_of(store.schema, store.options)
        self._order = order_of(store.schema, store.options)
        self._first_wins = store.options.get("merge-engine") == "first-row"
        self._upper = [file for file in bucket.files if file.level > 0]
        self._marks: dict[str, list[Positions]] = {}
        self._gone: dict[str, Mask] = {
            file.file_name: deleted_mask(bucket.vectors[file.file_name], file, bucket.index)
            for file in bucket.files
            if file.file_name in bucket.vectors
        }
        self._rollers: list[Roller] = []

    def run(self, pick: CompactionPick) -> Outcome:
        """Do all of it. Errors: as reading and writing files; then call `abort`."""
        chosen = {file.file_name for file in pick.files}
        outcome = Outcome(before=list(pick.files))
        rows = self._new_rows([file for file in pick.files if file.level == 0])
        if len(chosen) == len(self._bucket.files):
            # What is marked on the way is known before the first of the old rows is read.
            outcome.after += self._written(chain(rows, self._old_rows(self._upper)))
        else:
            outcome.after += self._written(rows)
            for group in _merge_groups(self._store, self._upper):
                if chosen.issuperset(file.file_name for file in group):
                    outcome.after += self._written(self._old_rows(group))
        outcome.vectors = self._vectors(chosen)
        return outcome

    def abort(self) -> None:
        """Remove what was written."""
        for roller in self._rollers:
            roller.abort()

    # ---- rows

    def _written(self, rows: Iterable[pa.RecordBatch]) -> list[DataFile]:
        """The files of rows, which are put in order."""
        options, schema = self._store.options, self._store.schema
        order = SortOrder.of(schema, "order", options.names("clustering.columns"), options)
        rolling = Rolling(level=SORTED, source=FileSource.COMPACT)
        roller = Roller(self._store, self._bucket.partition, self._bucket.number, rolling)
        self._rollers.append(roller)
        for batch in in_order(rows, order, self._store):
            roller.write(batch)
        return roller.close()

    def _old_rows(self, files: Iterable[DataFile]) -> Iterator[pa.RecordBatch]:
        """The live rows of files above level 0; delete rows of other writers have nothing left to delete."""
        for file in files:
            for batch in read_key_values(self._store, self._folder, file, self._deleted(file)):
                yield without_retracts(self._shown(batch))

    def _new_rows(self, files: Sequence[DataFile]) -> Iterator[pa.RecordBatch]:
        """The rows of level 0 that stand, by key; rows of level 1 that they take the place of are marked."""
        if not files:
            return
        merged = self._merged(files)
        if not self._upper:
            yield from (without_retracts(batch) for batch in merged)
            return
        order = KeyOrder(self._store.schema.key_fields)
        known = PendingRuns.of(order, Deduplicate(), self._store.options)
        try:
            for batch in self._keys():
                known.take(batch)
            known.close()
            old = merge_runs(known.runs(0), order, Deduplicate(), drop_deletes=False, ordered=True)
            for ours, theirs in slices([merged, old], order):
                for batch in self._settled(ours, theirs, order):
                    yield without_retracts(batch)
        finally:
            known.clear()

    def _merged(self, files: Sequence[DataFile]) -> Iterator[pa.RecordBatch]:
        """The newest row of each key of level 0 (with first-row the oldest), delete rows too, in the order of keys."""
        for section in sections(files, key_range_of(self._store.schema.key_fields)):
            runs = [self._read(run.files) for run in section]
            yield from merge_runs(runs, self._order, self._engine, drop_deletes=False, ordered=True)

    def _read(self, files: Iterable[DataFile]) -> Iterator[pa.RecordBatch]:
        for file in files:
            for batch in read_key_values(self._store, self._folder, file, self._deleted(file)):
                yield self._shown(batch)

    def _shown(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._bucket.check is not None:
            self._bucket.check(batch)
        return batch

    def _keys(self) -> Iterator[pa.RecordBatch]:
        """The keys of all live rows above level 0, with where they stand."""
        fields = [*self._store.schema.key_fields, SEQUENCE_FIELD, KIND_FIELD]
        for number, file in enumerate(self._upper):
            layout = file_layout(self._store, file, fields)
            path, gone = self._store.paths.file_path(self._folder, file), self._deleted(file)
            for first, batch in read_numbered_file(self._store, path, layout, None):
                rows = layout.rows(batch)
                places = np.arange(first, first + rows.num_rows, dtype=np.int64)
                rows = rows.append_column(_FILE.name, pa.array(np.full(rows.num_rows, number, np.int64)))
                rows = rows.append_column(_POSITION.name, pa.array(places))
                yield rows if gone is None else rows.filter(pa.array(~gone[places]))

    def _settled(
        self, ours: Sequence[pa.RecordBatch], theirs: Sequence[pa.RecordBatch], order: KeyOrder
    ) -> Iterator[pa.RecordBatch]:
        """Of new and old rows of a stretch of keys: the new ones that stand. Both have each key once."""
        if not ours or not theirs:
            yield from ours
            return
        names = [*(item.name for item in order.fields), SEQUENCE_FIELD.name]
        keys = pa.concat_batches([batch.select(names) for batch in (*ours, *theirs)])
        count = sum(batch.num_rows for batch in ours)
        places, starts = order.sort(keys)
        if starts is None:
            yield from ours
            return
        places = np.arange(keys.num_rows) if places is None else places
        least, greatest = np.minimum.reduceat(places, starts), np.maximum.reduceat(places, starts)
        both = least != greatest
        if self._first_wins:
            stands = np.ones(count, np.bool_)
            stands[least[both]] = False
            yield pa.concat_batches(list(ours)).filter(pa.array(stands))
            return
        self._mark(pa.concat_batches(list(theirs)), greatest[both] - count)
        yield from ours

    # ---- deletion vectors

    def _mark(self, old: pa.RecordBatch, rows: Positions) -> None:
        files = old.column(_FILE.name).to_numpy()[rows]
        positions = old.column(_POSITION.name).to_numpy()[rows]
        for number in np.unique(files).tolist():
            self._marks.setdefault(self._upper[number].file_name, []).append(positions[files == number])

    def _deleted(self, file: DataFile) -> Mask | None:
        """The rows of a file that do not count: those that its vector names, and those marked so far."""
        gone, marks = self._gone.get(file.file_name), self._marks.get(file.file_name)
        if not marks:
            return gone
        gone = np.zeros(file.row_count, np.bool_) if gone is None else gone.copy()
        gone[np.concatenate(marks)] = True
        return gone

    def _vectors(self, rewritten: Set[str]) -> dict[str, Vector] | None:
        """The bucket's deletion vectors afterwards, None where they did not change."""
        known, marks = self._bucket.vectors, {k: v for k, v in self._marks.items() if k not in rewritten}
        if not marks and rewritten.isdisjoint(known):
            return None
        vectors = {name: vector for name, vector in known.items() if name not in rewritten}
        for name, positions in marks.items():
            vectors[name] = new_vector(self._store, np.sort(np.concatenate(positions)), vectors.get(name))
        return vectors
