"""The read path of one split: raw files or merged sections → drop deletes → filter → project.

Spec: docs/spec/reading.md
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.errors import BucketlakeError, CorruptError, NotFoundError
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.lazy import pc
from bucketlake.ops.rows.blob_columns import BlobColumn, in_parts
from bucketlake.ops.rows.column_files import aligned, anchor_of, blob_columns, columns_of_files, row_groups
from bucketlake.ops.rows.deletions import Mask, deleted_mask, without_deleted
from bucketlake.ops.rows.described import AS_DESCRIPTOR
from bucketlake.ops.rows.merged_split import MergedSplit
from bucketlake.ops.rows.one_file import read_file, read_numbered_file
from bucketlake.ops.rows.row_ids import tracked
from bucketlake.ops.rows.split_files import KeyFilter, SplitFiles
from bucketlake.ops.rows.started import pays, started
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.store import Store
from bucketlake.options.options import TableOptions
from bucketlake.paths import POSTPONE_BUCKET
from bucketlake.predicate.evaluate import mask
from bucketlake.predicate.tree import And, Predicate, columns_of, conjunction, is_exact, restrict
from bucketlake.schema.schema import KIND_FIELD, SEQUENCE_FIELD, TRACKING, column_names
from bucketlake.types.encoded import plain
from bucketlake.types.model import DataField, arrow_schema

Positions = npt.NDArray[np.int64]
POSITION = pa.field("__position", pa.int64(), nullable=False)  # of a row in its group of files


def read_split(
    store: Store, split: Split, columns: Sequence[str] | None = None, predicate: Predicate | None = None
) -> Iterator[pa.RecordBatch]:
    """The live rows of a split that satisfy the predicate, in the layout of `store.schema`, `columns` in their order.
    Rows that deletion vectors name are left out before anything else is done with a file's rows.

    Empty batches are left out; memory stays within a few blocks whatever the split's size. Opaque parts of the
    predicate are left to the caller.
    Raises InvalidError for unknown columns, NotFoundError or CorruptError for files that are gone or damaged.
    Spec: docs/spec/reading.md, docs/spec/deletion_vector.md#reading
    """
    return _matching(store, split, column_names(store.schema, columns), predicate, deletes=False)


def read_kinds(
    store: Store, split: Split, columns: Sequence[str], predicate: Predicate | None = None, deletes: bool = True
) -> Iterator[pa.RecordBatch]:
    """As `read_split` for tables with a primary key, with `deletes` rows that take others back (-U, -D) too. `columns`
    may name `_VALUE_KIND` and `_SEQUENCE_NUMBER`. Splits of changes give every row of their files, in order.

    Spec: docs/spec/incremental.md#audit-log
    """
    special = (KIND_FIELD.name, SEQUENCE_FIELD.name)
    column_names(store.schema, [name for name in columns if name not in special])
    return _matching(store, split, list(columns), predicate, deletes)


def _matching(
    store: Store,
    split: Split,
    wanted: list[str],
    predicate: Predicate | None,
    deletes: bool,
    only: KeyFilter | None = None,
) -> Iterator[pa.RecordBatch]:
    predicate = None if predicate is None else exact_part(predicate)
    needed = list(dict.fromkeys([*wanted, *(columns_of(predicate) if predicate is not None else ())]))
    special = {item.name: item for item in (KIND_FIELD, SEQUENCE_FIELD)} if store.schema.primary_keys else {}
    files = SplitFiles(store, split, [special.get(name) or store.schema.field(name) for name in needed], only)
    for batch in _all_of(files, predicate, deletes):
        rows = batch if predicate is None else batch.filter(mask(predicate, batch))
        if rows.num_rows:
            yield rows.select(wanted)


def _all_of(files: SplitFiles, predicate: Predicate | None, deletes: bool) -> Iterator[pa.RecordBatch]:
    """The rows as the split says they are to be read; the predicate only leaves out what is cheap to leave out."""
    split = files.split
    if split.before is not None:
        return MergedSplit(files).differing(split.before, predicate, deletes)
    if split.bucket == POSTPONE_BUCKET and not split.changes:
        return MergedSplit(files).with_pending(predicate, deletes)
    if split.chained:
        return MergedSplit(files).chained(predicate, deletes)
    if split.raw:
        return RawSplit(files).rows(predicate, deletes)
    if files.store.schema.primary_keys:
        return MergedSplit(files).rows(predicate, deletes)
    return RawSplit(files).joined(predicate)


def read_keys(store: Store, split: Split, columns: Sequence[str], keys: KeyFilter) -> Iterator[pa.RecordBatch]:
    """As `read_split`, of a table with a primary key: the live rows of some keys, merged by key."""
    return _matching(store, split, column_names(store.schema, columns), None, deletes=False, only=keys)


def matching_positions(store: Store, split: Split, file: DataFile, predicate: Predicate) -> Positions:
    """The positions in one file of a raw split of the rows that the predicate is true for, ascending; those that
    deletion vectors name count like any other. The predicate must be exact. Errors as `read_split`."""
    names = columns_of(predicate)
    if not names.isdisjoint(TRACKING):
        store = tracked(store)
    fields = [item for item in store.schema.fields if item.name in names]
    return RawSplit(SplitFiles(store, split, fields)).positions(file, predicate)


def read_rows(
    store: Store, split: Split, file: DataFile, left_out: Mask, fields: Sequence[DataField] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of one file of a raw split, less those of the mask, with all columns of `store.schema` or these."""
    wanted = store.schema.fields if fields is None else fields
    names = frozenset(item.name for item in wanted)
    files = SplitFiles(store, replace(split, deletions={}), wanted, encoded=names)
    return map(plain, RawSplit(files).rows_of(file, left_out))


class RawSplit:
    """Reads the rows of a split whose files have no row twice."""

    def __init__(self, files: SplitFiles) -> None:
        self._files, self._store, self._split = files, files.store, files.split
        self._descriptors = bool(files.store.options.get(AS_DESCRIPTOR))

    def rows(self, predicate: Predicate | None, deletes: bool = False) -> Iterator[pa.RecordBatch]:
        """File by file; row groups that cannot match are skipped. `deletes`: rows of kind -U and -D too."""
        ignored = () if self._split.replaced else _ignored(self._store.options)
        parts = (self._of_file(file, predicate, deletes, ignored) for file in self._split.files)
        for part in started(parts) if self._store.waits and pays(self._split.files) else parts:
            yield from part

    def _of_file(
        self,
        file: DataFile,
        predicate: Predicate | None,
        deletes: bool,
        ignored: tuple[type[BucketlakeError], ...],
    ) -> Iterator[pa.RecordBatch]:
        drops = bool(self._store.schema.primary_keys) and file.delete_row_count != 0 and not deletes
        fields = [*self._files.values, KIND_FIELD] if drops else self._files.values
        try:
            for batch in self._files.file(file, fields, predicate):
                rows = self._files.rows(_without_deletes(batch) if drops else batch)
                yield from self._files.followed(rows, predicate)
        except ignored as error:
            warnings.warn(f"left out: {error}", stacklevel=2)

    def joined(self, predicate: Predicate | None) -> Iterator[pa.RecordBatch]:
        """Rows whose columns lie in several files, group by group; blobs of rows for which the predicate is true alone.
        Spec: docs/spec/row_tracking.md, docs/spec/blob.md#reading"""
        for group in row_groups(self._split.files):
            blobs = blob_columns(self._store, self._split.bucket_path, group, self._files.values)
            for batch in self._aligned(group, [item for item in self._files.values if item.name not in blobs]):
                for rows in self._with_blobs(batch, blobs, predicate) if blobs else [self._files.rows(batch)]:
                    yield from self._files.followed(rows, predicate)

    def _aligned(self, group: Sequence[DataFile], values: Sequence[DataField]) -> Iterator[pa.RecordBatch]:
        """The live rows of a group by columns that lie in no blob files, behind them `POSITION`."""
        layout = arrow_schema(values).append(POSITION)
        parts = columns_of_files(self._store, group, values)
        place = {item.name: (at, n) for at, (_, own) in enumerate(parts) for n, item in enumerate(own)}
        anchor = anchor_of(group)
        vector = self._files.vectors.get(anchor.file_name)
        first, deleted = 0, None
        for batches in aligned([self._files.columns(file, own) for file, own in parts]):
            rows = batches[0].num_rows
            arrays = [batches[place[item.name][0]].column(place[item.name][1]) for item in values]
            positions = pa.array(np.arange(first, first + rows, dtype=np.int64))
            batch = pa.RecordBatch.from_arrays([*arrays, positions], schema=layout)
            if vector is not None:
                if deleted is None:
                    deleted = deleted_mask(vector, anchor, self._split.deletions[anchor.file_name].path)
                batch = without_deleted(batch, first, deleted)
            first += rows
            yield batch

    def _with_blobs(
        self, batch: pa.RecordBatch, blobs: Mapping[str, BlobColumn], predicate: Predicate | None
    ) -> Iterator[pa.RecordBatch]:
        """Rows with their blobs, in parts that go into memory."""
        later = {*blobs, *self._files.described}
        known = [item.name for item in self._files.fields if item.name not in later]
        below = None if predicate is None else restrict(predicate, known)
        if below is not None:
            batch = batch.filter(mask(below, self._files.rows(batch, known)))
        positions = batch.column(POSITION.name).to_numpy()
        done = 0
        for part in in_parts(list(blobs.values()), positions, self._descriptors):
            rows = batch.slice(done, len(part))
            done += len(part)
            for column in blobs.values():
                rows = rows.append_column(column.arrow, column.take(part, self._descriptors))
            yield self._files.rows(rows)

    def positions(self, file: DataFile, predicate: Predicate) -> Positions:
        """Where in a file the predicate is true, whatever its deletion vector."""
        found = [np.zeros(0, np.int64)]
        layout, path, condition = self._files.plan(file, self._files.values, predicate)
        for first, batch in read_numbered_file(self._store, path, layout, condition):
            for rows in self._files.followed(self._files.rows(layout.rows(batch)), None):
                hits = pc.fill_null(mask(predicate, rows), False)
                found.append(first + np.flatnonzero(hits.to_numpy(zero_copy_only=False)))
                first += rows.num_rows
        return np.concatenate(found)

    def rows_of(self, file: DataFile, left_out: Mask) -> Iterator[pa.RecordBatch]:
        """A file's rows, less those of the mask."""
        layout, path, _ = self._files.plan(file, self._files.values, None)
        for batch in read_file(self._store, path, layout, None, left_out):
            if batch.num_rows:
                yield from self._files.followed(self._files.rows(layout.rows(batch)), None)


def exact_part(predicate: Predicate) -> Predicate | None:
    """The strongest part that can be evaluated here: what only Spark can stays with the caller."""
    if is_exact(predicate):
        return predicate
    parts = predicate.children if isinstance(predicate, And) else ()
    return conjunction(part for part in parts if is_exact(part))


def _ignored(options: TableOptions) -> tuple[type[BucketlakeError], ...]:
    """What of a raw file's failures the options say to pass over."""
    lost = (NotFoundError,) if options.get("scan.ignore-lost-files") else ()
    return (*lost, CorruptError) if options.get("scan.ignore-corrupt-files") else lost


@cache
def _kept_kinds() -> pa.Array:
    return pa.array([0, 2], pa.int8())  # +I, +U


def _without_deletes(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pc.is_in(batch.column(KIND_FIELD.name), _kept_kinds()))


def first_rows(batches: Iterable[pa.RecordBatch], schema: pa.Schema, limit: int) -> pa.Table:
    """At most `limit` rows of batches, which are taken as far as that needs."""
    taken: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if rows >= limit:
            break
        taken.append(batch.slice(0, min(limit - rows, batch.num_rows)))
        rows += taken[-1].num_rows
    return pa.Table.from_batches(taken, schema)
