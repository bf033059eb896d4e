"""The read path of one split: raw files or merged sections → drop deletes → filter → project.

Spec: docs/spec/reading.md
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from operator import itemgetter
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.errors import BucketlakeError, CorruptError, NotFoundError
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.row.hashing import assign_buckets
from bucketlake.lazy import pc
from bucketlake.lsm.changelog import TrackedRun, merge_settled, settles
from bucketlake.lsm.difference import DELETE, difference
from bucketlake.lsm.engines.engines import Deduplicate, MergeEngine
from bucketlake.lsm.engines.rules import engine_of, order_of
from bucketlake.lsm.keys import KeyOrder
from bucketlake.lsm.levels import Levels, key_range_of, sections
from bucketlake.lsm.merge import merge_runs
from bucketlake.ops.rows.among import has_one_form
from bucketlake.ops.rows.blob_columns import BlobColumn, filled, in_parts
from bucketlake.ops.rows.column_files import aligned, anchor_of, blob_columns, columns_of_files, row_groups
from bucketlake.ops.rows.deletions import Mask, deleted_mask, load_deletions, without_deleted
from bucketlake.ops.rows.described import AS_DESCRIPTOR, Sources, followed, named
from bucketlake.ops.rows.key_bounds import within_bounds
from bucketlake.ops.rows.one_file import FileLayout, file_layout, read_file, read_numbered_file
from bucketlake.ops.rows.pending import PendingRuns
from bucketlake.ops.rows.residues import residue_of
from bucketlake.ops.rows.row_ids import tracked
from bucketlake.ops.rows.started import pays, started
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.partitions import partition_columns
from bucketlake.ops.table.store import Store
from bucketlake.options.options import TableOptions
from bucketlake.paths import POSTPONE_BUCKET
from bucketlake.predicate.evaluate import mask
from bucketlake.predicate.tree import And, Predicate, columns_of, conjunction, is_exact, key_values, rename, restrict
from bucketlake.schema.clustering import refuse_clustered
from bucketlake.schema.schema import KIND_FIELD, SEQUENCE_FIELD, TRACKING, column_names
from bucketlake.types.encoded import fitting, plain
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
    store: Store, split: Split, columns: Sequence[str], predicate: Predicate | None = None
) -> Iterator[pa.RecordBatch]:
    """As `read_split` for tables with a primary key, with rows that take others back (-U, -D) too. `columns` may name
    `_VALUE_KIND` and `_SEQUENCE_NUMBER`. Splits of changes give every row of their files, in order.

    Spec: docs/spec/incremental.md#audit-log
    """
    special = (KIND_FIELD.name, SEQUENCE_FIELD.name)
    column_names(store.schema, [name for name in columns if name not in special])
    return _matching(store, split, list(columns), predicate, deletes=True)


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
    reader = SplitReader(store, split, [special.get(name) or store.schema.field(name) for name in needed], only)
    if split.before is not None:
        batches = reader.differing(split.before, predicate, deletes)
    elif split.bucket == POSTPONE_BUCKET and not split.changes:
        batches = reader.with_pending(predicate, deletes)
    elif split.chained:
        batches = reader.chained(predicate, deletes)
    else:
        joins = not split.raw and not store.schema.primary_keys
        merged = partial(reader.joined, predicate) if joins else partial(reader.merged, predicate, deletes)
        batches = reader.raw(predicate, deletes) if split.raw else merged()
    for batch in batches:
        rows = batch if predicate is None else batch.filter(mask(predicate, batch))
        if rows.num_rows:
            yield rows.select(wanted)


class KeyFilter(Protocol):
    """Gives of each file of a split only the rows of some keys."""

    def rows(
        self, split: Split, file: DataFile, fields: Sequence[DataField], gone: Mask | None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a file that have one of the keys, as these columns, in their order; `gone`: rows that are
        deleted."""


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
    return SplitReader(store, split, fields).positions(file, predicate)


def read_rows(
    store: Store, split: Split, file: DataFile, left_out: Mask, fields: Sequence[DataField] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of one file of a raw split, less those of the mask, with all columns of `store.schema` or these."""
    wanted = store.schema.fields if fields is None else fields
    names = frozenset(item.name for item in wanted)
    return map(plain, SplitReader(store, replace(split, deletions={}), wanted, encoded=names).rows_of(file, left_out))


class SplitReader:
    """Reads the files of one split as the columns `fields` of the table's schema; `only`: what of each file; `encoded`:
    columns that may be given encoded."""

    def __init__(
        self,
        store: Store,
        split: Split,
        fields: Sequence[DataField],
        only: KeyFilter | None = None,
        encoded: Set[str] = frozenset(),
    ) -> None:
        self._store, self._split, self._fields, self._only = store, split, tuple(fields), only
        self._encoded = encoded
        self._schema = store.schema
        self._target = arrow_schema(fields)
        self._descriptors = bool(store.options.get(AS_DESCRIPTOR))
        self._described = followed(store, [item.name for item in fields])
        values = partition_columns(store, [split.partition]) if store.schema.partition_keys else ()
        self._partition = {name: one[0] for name, one in zip(store.schema.partition_keys, values, strict=True)}
        self._vectors = load_deletions(store, split.deletions) if split.deletions else {}

    def raw(self, predicate: Predicate | None, deletes: bool = False) -> Iterator[pa.RecordBatch]:
        """File by file; row groups that cannot match are skipped. `deletes`: rows of kind -U and -D too."""
        values = [item for item in self._fields if item.name not in self._partition]
        ignored = () if self._split.replaced else _ignored(self._store.options)
        parts = (self._of_file(file, values, predicate, deletes, ignored) for file in self._split.files)
        for part in started(parts) if self._store.waits and pays(self._split.files) else parts:
            yield from part

    def _of_file(
        self,
        file: DataFile,
        values: Sequence[DataField],
        predicate: Predicate | None,
        deletes: bool,
        ignored: tuple[type[BucketlakeError], ...],
    ) -> Iterator[pa.RecordBatch]:
        drops = bool(self._schema.primary_keys) and file.delete_row_count != 0 and not deletes
        try:
            for batch in self._file(file, [*values, KIND_FIELD] if drops else values, predicate):
                yield from self._followed(self._rows(_without_deletes(batch) if drops else batch), predicate)
        except ignored as error:
            warnings.warn(f"left out: {error}", stacklevel=2)

    def joined(self, predicate: Predicate | None) -> Iterator[pa.RecordBatch]:
        """Rows whose columns lie in several files, group by group; blobs of rows for which the predicate is true alone.
        Spec: docs/spec/row_tracking.md, docs/spec/blob.md#reading"""
        values = [item for item in self._fields if item.name not in self._partition]
        for group in row_groups(self._split.files):
            blobs = blob_columns(self._store, self._split.bucket_path, group, values)
            for batch in self._aligned(group, [item for item in values if item.name not in blobs]):
                for rows in self._with_blobs(batch, blobs, predicate) if blobs else [self._rows(batch)]:
                    yield from self._followed(rows, predicate)

    def _aligned(self, group: Sequence[DataFile], values: Sequence[DataField]) -> Iterator[pa.RecordBatch]:
        """The live rows of a group by columns that lie in no blob files, behind them `POSITION`."""
        layout = arrow_schema(values).append(POSITION)
        parts = columns_of_files(self._store, group, values)
        place = {item.name: (at, n) for at, (_, own) in enumerate(parts) for n, item in enumerate(own)}
        anchor = anchor_of(group)
        vector = self._vectors.get(anchor.file_name)
        first, deleted = 0, None
        for batches in aligned([self._columns(file, own) for file, own in parts]):
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
        known = [item.name for item in self._fields if item.name not in blobs and item.name not in self._described]
        below = None if predicate is None else restrict(predicate, known)
        if below is not None:
            batch = batch.filter(mask(below, self._rows(batch, known)))
        positions = batch.column(POSITION.name).to_numpy()
        done = 0
        for part in in_parts(list(blobs.values()), positions, self._descriptors):
            rows = batch.slice(done, len(part))
            done += len(part)
            for column in blobs.values():
                rows = rows.append_column(column.arrow, column.take(part, self._descriptors))
            yield self._rows(rows)

    def _followed(self, rows: pa.RecordBatch, predicate: Predicate | None) -> Iterator[pa.RecordBatch]:
        """Rows with what the columns of descriptors name, in parts that go into memory; only those for which the
        predicate is true as far as it looks at the other columns."""
        if not self._described or not rows.num_rows:
            yield rows
            return
        known = [item.name for item in self._fields if item.name not in self._described]
        below = None if predicate is None else restrict(predicate, known)
        if below is not None:
            rows = rows.filter(mask(below, rows))
        places = {name: rows.schema.get_field_index(name) for name in self._described}
        found = {p: named(Sources(self._store, name, True), rows.column(p)) for name, p in places.items()}
        sizes = sum((one.sizes for one in found.values()), np.zeros(rows.num_rows, np.int64))
        start = 0
        for part in filled(np.arange(rows.num_rows), sizes):
            piece = rows.slice(start, len(part))
            for place, one in found.items():
                piece = piece.set_column(place, rows.schema.field(place), one.take(start, start + len(part)))
            start += len(part)
            yield piece

    def _columns(self, file: DataFile, fields: Sequence[DataField]) -> Iterator[pa.RecordBatch]:
        """All rows of a file, deleted ones too."""
        layout, path, _ = self._plan(file, fields, None)
        return (layout.rows(batch) for _, batch in read_numbered_file(self._store, path, layout, None))

    def positions(self, file: DataFile, predicate: Predicate) -> Positions:
        """Where in a file the predicate is true, whatever its deletion vector."""
        values = [item for item in self._fields if item.name not in self._partition]
        found = [np.zeros(0, np.int64)]
        layout, path, condition = self._plan(file, values, predicate)
        for first, batch in read_numbered_file(self._store, path, layout, condition):
            for rows in self._followed(self._rows(layout.rows(batch)), None):
                hits = pc.fill_null(mask(predicate, rows), False)
                found.append(first + np.flatnonzero(hits.to_numpy(zero_copy_only=False)))
                first += rows.num_rows
        return np.concatenate(found)

    def rows_of(self, file: DataFile, left_out: Mask) -> Iterator[pa.RecordBatch]:
        """A file's rows, less those of the mask."""
        values = [item for item in self._fields if item.name not in self._partition]
        layout, path, _ = self._plan(file, values, None)
        for batch in read_file(self._store, path, layout, None, left_out):
            if batch.num_rows:
                yield from self._followed(self._rows(layout.rows(batch)), None)

    def merged(self, predicate: Predicate | None, deletes: bool = False) -> Iterator[pa.RecordBatch]:
        """Sorted runs merged by key, section by section; only conditions on the key go below the merge. `deletes`:
        results of kind -U and -D too."""
        for batch in self._sorted(predicate, [item.name for item in self._fields], deletes, ordered=deletes):
            yield from self._followed(self._rows(batch), predicate)

    def chained(self, predicate: Predicate | None, deletes: bool = False) -> Iterator[pa.RecordBatch]:
        """The files of the split's parts merged by key, each read by the store of its branch. `deletes`: as `merged`.

        Spec: docs/spec/chain_table.md#reading
        """
        engine, order = engine_of(self._schema, self._store.options), order_of(self._schema, self._store.options)
        names, below = [item.name for item in self._fields], self._key_part(predicate)
        readers = [self._of_part(part) for part in self._split.parts]
        layouts = [reader._merge_layout(engine, order, names) for reader in readers]
        owner = {id(file): at for at, part in enumerate(self._split.parts) for file in part.files}
        files = [file for part in self._split.parts for file in part.files]
        for section in sections(files, key_range_of(order.fields)):
            runs = [
                chain.from_iterable(
                    readers[owner[id(file)]]._run([file], layouts[owner[id(file)]], below) for file in run.files
                )
                for run in section
            ]
            for batch in merge_runs(runs, order, engine, drop_deletes=not deletes, ordered=deletes):
                yield self._rows(batch)

    def _of_part(self, part: Split) -> SplitReader:
        store = part.store or self._store
        known = {item.name: item for item in (KIND_FIELD, SEQUENCE_FIELD)}
        fields = [known.get(item.name) or store.schema.field(item.name) for item in self._fields]
        return SplitReader(store, part, fields, self._only)

    def differing(self, before: Split, predicate: Predicate | None, deletes: bool) -> Iterator[pa.RecordBatch]:
        """The rows that this split has and `before` has not, in key order; with `deletes` also those that only `before`
        has, as -D. Rows are compared by all columns. Pending rows are `before` of a split without files only.

        Spec: docs/spec/incremental.md#diff
        """
        older = SplitReader(self._store, before, self._fields)
        if before.bucket == POSTPONE_BUCKET:
            for batch in older.with_pending(predicate) if deletes else ():
                yield _as_deletes(batch)
            return
        names = self._schema.field_names
        order = order_of(self._schema, self._store.options)
        left, right = (side._of_buckets(predicate, names, deletes, order) for side in (older, self))
        for batch in difference(left, right, order, keep_deletes=deletes):
            yield from self._followed(self._rows(batch), predicate)

    def _of_buckets(
        self, predicate: Predicate | None, wanted: Sequence[str], deletes: bool, order: KeyOrder
    ) -> Iterator[pa.RecordBatch]:
        """As `_sorted`; of parts, which have no row in common, without deletes: one of them may have a row that was
        deleted in another."""
        if not self._split.parts:
            return self._sorted(predicate, wanted, deletes, ordered=True)
        parts = [self._of_part(part)._sorted(predicate, wanted, False, ordered=True) for part in self._split.parts]
        return merge_runs(parts, order, Deduplicate())

    def _sorted(
        self, predicate: Predicate | None, wanted: Sequence[str], deletes: bool, ordered: bool
    ) -> Iterator[pa.RecordBatch]:
        """The merged rows as keys, sequence number, kind and what the merge needs of the other columns."""
        engine, order = engine_of(self._schema, self._store.options), order_of(self._schema, self._store.options)
        layout, below = self._merge_layout(engine, order, wanted), self._key_part(predicate)
        if self._schema.clustered:
            with self._by_key(layout, below, order) as runs:
                yield from merge_runs(runs, order, engine, drop_deletes=not deletes, ordered=ordered)
            return
        settled = engine.computes and settles(self._store.options)
        alone = self._asks_one_key(below, order, engine)
        for section in sections(self._split.files, key_range_of(order.fields)):
            if settled and len(section) > 1:
                old = self._by_level(layout, below, order, [file for run in section for file in run.files])
                yield from merge_settled(old, order, engine, drop_deletes=not deletes)
            else:
                runs = [self._run(run.files, layout, below) for run in section]
                if self._store.waits and len(runs) > 1:
                    runs = list(started(runs, len(runs)))
                elif alone and len(runs) > 1:
                    runs = self._newest([run.files for run in section], layout, below)
                yield from merge_runs(runs, order, engine, drop_deletes=not deletes, ordered=ordered)

    def _asks_one_key(self, below: Predicate | None, order: KeyOrder, engine: MergeEngine) -> bool:
        """Whether all rows that may match have one key, of which the row with the highest number is all that counts."""
        if below is None or order.sequence or self._store.options.get("sequence.snapshot-ordering"):
            return False
        exact = all(has_one_form(item.type) for item in order.fields)
        names = self._schema.trimmed_primary_keys
        return exact and engine == Deduplicate() and len(key_values(below, names) or ()) == 1

    def _newest(
        self, runs: Sequence[Sequence[DataFile]], layout: Sequence[DataField], below: Predicate | None
    ) -> list[Iterator[pa.RecordBatch]]:
        """The rows of one key in sorted runs, oldest run first: files are read from the newest on, until a row is found
        whose number is above all that the others record."""
        waiting = sorted(
            ((file.max_sequence_number, place, file) for place, run in enumerate(runs) for file in run),
            key=itemgetter(0, 1),
        )
        found: dict[int, list[pa.RecordBatch]] = {}
        while waiting:
            _, place, file = waiting.pop()
            rows = [batch for batch in self._run([file], layout, below) if batch.num_rows]
            found[place] = [*found.get(place, ()), *rows]
            numbers = [pc.max(batch.column(SEQUENCE_FIELD.name)).as_py() for batch in rows]
            if waiting and max(numbers, default=-1) > waiting[-1][0]:
                break
        return [iter(found[place]) for place in sorted(found)]

    @contextmanager
    def _by_key(
        self, layout: Sequence[DataField], below: Predicate | None, order: KeyOrder
    ) -> Iterator[list[Iterator[pa.RecordBatch]]]:
        """The files of a clustered table as runs sorted by key; rows of files above level 0, which have no key twice,
        are sorted for it.

        Spec: docs/spec/clustering.md#keyed-tables
        """
        waiting = PendingRuns.of(order, Deduplicate(), self._store.options)
        fresh = sorted((f for f in self._split.files if f.level == 0), key=lambda file: file.max_sequence_number)
        try:
            for batch in self._run((file for file in self._split.files if file.level > 0), layout, below):
                waiting.take(batch)
            waiting.close()
            yield [*waiting.runs(0), *(self._run([file], layout, below) for file in fresh)]
        finally:
            waiting.clear()

    def with_pending(self, predicate: Predicate | None, deletes: bool = False) -> Iterator[pa.RecordBatch]:
        """Pending rows, sorted into runs by bucket, merged over the runs of the real buckets. `deletes`: as `merged`.

        Spec: docs/spec/postpone.md#reading
        """
        refuse_clustered(self._schema, "pending rows are not merged over the buckets of a table")
        engine, order = engine_of(self._schema, self._store.options), order_of(self._schema, self._store.options)
        names = [item.name for item in self._fields]
        layout, below = self._merge_layout(engine, order, names), self._key_part(predicate)
        options = self._store.options
        pending = PendingRuns.of(order, engine, options)
        parts = {part.bucket: part for part in self._split.parts}
        try:
            for batch, buckets in self._pending_rows(layout, below):
                pending.take(batch, buckets)
            for bucket in sorted(pending.close() | parts.keys()):
                part = parts.get(bucket)
                old = (
                    []
                    if part is None
                    else SplitReader(self._store, part, self._fields, self._only)._by_level(layout, below, order)
                )
                new = [TrackedRun(run) for run in pending.runs(bucket)]
                if engine.computes and settles(options):
                    merged = merge_settled([*old, *new], order, engine, drop_deletes=not deletes)
                else:
                    runs = [run.batches for run in (*old, *new)]
                    merged = merge_runs(runs, order, engine, drop_deletes=not deletes, ordered=deletes)
                for batch in merged:
                    yield self._rows(batch)
        finally:
            pending.clear()

    def _pending_rows(
        self, layout: Sequence[DataField], below: Predicate | None
    ) -> Iterator[tuple[pa.RecordBatch, Positions]]:
        """The pending rows, numbered on in their order after all rows of the real buckets, and the bucket of each: -1
        for those of other shares."""
        number = 1 + max((f.max_sequence_number for part in self._split.parts for f in part.files), default=-1)
        by_name = {item.name.removeprefix("_KEY_"): item for item in self._schema.key_fields}
        fields = [by_name[name] for name in self._schema.bucket_keys]
        function, total = self._store.options.get("bucket-function.type"), self._split.total_buckets
        own, shares = self._split.share
        for file in self._split.files:
            residue = residue_of(self._store, file) if shares > 1 else None
            for batch in self._run([file], layout, below):
                buckets = assign_buckets(batch, fields, total, function).astype(np.int64)
                if residue is not None:
                    residue.check(buckets, total, file)
                place = batch.schema.get_field_index(SEQUENCE_FIELD.name)
                numbers = pa.array(np.arange(number, number + batch.num_rows, dtype=np.int64))
                yield (
                    batch.set_column(place, batch.schema.field(place), numbers),
                    np.where(buckets % shares == own, buckets, -1),
                )
                number += batch.num_rows

    def _by_level(
        self, layout: Sequence[DataField], below: Predicate | None, order: KeyOrder, files: Sequence[DataFile] = ()
    ) -> list[TrackedRun]:
        """The files (all of the split by default) as sorted runs with their levels, oldest first."""
        levels = Levels.of(files or self._split.files, key_range_of(order.fields)).sorted_runs()
        return [TrackedRun(self._run(run.files, layout, below), level) for level, run in reversed(levels)]

    def _merge_layout(self, engine: MergeEngine, order: KeyOrder, wanted: Sequence[str]) -> list[DataField]:
        """The columns that a merge reads: keys, number, kind, what is asked for, and what the engine needs for it."""
        keys = self._schema.trimmed_primary_keys
        names = dict.fromkeys([*wanted, *(item.name for item in order.sequence)])
        for special in (SEQUENCE_FIELD, KIND_FIELD):
            names.pop(special.name, None)
        names.update(dict.fromkeys(engine.requires(list(names))))
        values = [self._schema.field(name) for name in names if name not in keys and name not in self._partition]
        return [*self._schema.key_fields, SEQUENCE_FIELD, KIND_FIELD, *values]

    def _key_part(self, predicate: Predicate | None) -> Predicate | None:
        """What a predicate says of keys alone: that may be asked before rows of one key are merged."""
        return None if predicate is None else restrict(predicate, self._schema.trimmed_primary_keys)

    def _run(
        self, files: Iterable[DataFile], fields: Sequence[DataField], predicate: Predicate | None
    ) -> Iterator[pa.RecordBatch]:
        names = {key.name.removeprefix("_KEY_"): key.name for key in self._schema.key_fields}
        condition = None if predicate is None else rename(predicate, names)
        for file in files:
            rows = self._file(file, fields, predicate)
            for batch in within_bounds(self._store, self._split.bucket_path, file, rows):
                yield batch if condition is None else batch.filter(mask(condition, batch))

    def _file(
        self, file: DataFile, fields: Sequence[DataField], predicate: Predicate | None
    ) -> Iterator[pa.RecordBatch]:
        """One file's rows as `fields`: value columns, or key, sequence and kind columns of the file; deleted rows are
        left out."""
        vector = self._vectors.get(file.file_name)
        if self._only is not None:
            gone = None if vector is None else deleted_mask(vector, file, self._split.deletions[file.file_name].path)
            yield from self._only.rows(self._split, file, fields, gone)
            return
        layout, path, condition = self._plan(file, fields, predicate)
        if vector is None:
            yield from (layout.rows(batch) for batch in read_file(self._store, path, layout, condition))
            return
        deleted: Mask | None = None
        for first, batch in read_numbered_file(self._store, path, layout, condition):
            if deleted is None:  # now the file is known to have the rows that its manifest speaks of
                deleted = deleted_mask(vector, file, self._split.deletions[file.file_name].path)
            yield layout.rows(without_deleted(batch, first, deleted))

    def _plan(
        self, file: DataFile, fields: Sequence[DataField], predicate: Predicate | None
    ) -> tuple[FileLayout, str, Predicate | None]:
        """What to read of a file, where it lies, and the condition that its row groups can be tested with."""
        layout = file_layout(self._store, file, fields).encoding(self._encoded)
        own = [name for name in layout.renamed if name not in self._described]
        pushed = None if predicate is None else restrict(predicate, own)
        condition = None if pushed is None else rename(pushed, layout.renamed)
        return layout, self._store.paths.file_path(self._split.bucket_path, file), condition

    def _rows(self, batch: pa.RecordBatch, names: Sequence[str] | None = None) -> pa.RecordBatch:
        """The columns wanted (of them those named): from the file, from its key columns, or the partition's
        constants."""
        chosen = [
            (item, target)
            for item, target in zip(self._fields, self._target, strict=True)
            if names is None or item.name in names
        ]
        if not chosen:
            return batch.select([])
        arrays = []
        places = {name: place for place, name in enumerate(batch.schema.names)}
        for item, target in chosen:
            if item.name in self._partition:
                arrays.append(pa.repeat(self._partition[item.name].cast(target.type), batch.num_rows))
            else:
                place = places.get(item.name)
                arrays.append(batch.column(places[f"_KEY_{item.name}"] if place is None else place))
        schema = pa.schema([target for _, target in chosen])
        return pa.RecordBatch.from_arrays(arrays, schema=fitting(schema, arrays) if self._encoded else schema)


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


def _as_deletes(batch: pa.RecordBatch) -> pa.RecordBatch:
    place = batch.schema.get_field_index(KIND_FIELD.name)
    if place < 0:
        return batch
    kinds = pa.array(np.full(batch.num_rows, DELETE, np.int8))
    return batch.set_column(place, batch.schema.field(place), kinds)


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
