"""Rows of a split that has keys more than once: sorted runs merged by key, with pending rows, beside another snapshot.

    MergedSplit(files).rows(predicate) / .chained(…) / .with_pending(…) / .differing(before, …)

Spec: docs/spec/reading.md, docs/spec/postpone.md#reading, docs/spec/chain_table.md#reading
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, zip_longest
from operator import itemgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.row.hashing import assign_buckets
from bucketlake.lazy import pc
from bucketlake.lsm.changelog import TrackedRun, merge_settled, settles
from bucketlake.lsm.difference import DELETE, difference
from bucketlake.lsm.engines.engines import Deduplicate, MergeEngine
from bucketlake.lsm.engines.rules import engine_of, order_of
from bucketlake.lsm.keys import KeyOrder
from bucketlake.lsm.levels import Levels, SortedRun, key_range_of, sections
from bucketlake.lsm.merge import merge_runs
from bucketlake.ops.rows.among import has_one_form
from bucketlake.ops.rows.key_bounds import within_bounds
from bucketlake.ops.rows.pending import PendingRuns
from bucketlake.ops.rows.residues import residue_of
from bucketlake.ops.rows.split_files import SplitFiles
from bucketlake.ops.rows.started import begun_ahead, pays, started
from bucketlake.ops.table.messages import Split
from bucketlake.paths import POSTPONE_BUCKET
from bucketlake.predicate.evaluate import mask
from bucketlake.predicate.tree import Predicate, key_values, rename, restrict
from bucketlake.schema.clustering import refuse_clustered
from bucketlake.schema.schema import KIND_FIELD, SEQUENCE_FIELD
from bucketlake.types.model import DataField

Rows = Callable[[DataFile], Iterator[pa.RecordBatch]]


class MergedSplit:
    """Reads a split of a table with a primary key, each key once; `like`: by its engine and order instead of those of
    the files' own schema."""

    def __init__(self, files: SplitFiles, like: MergedSplit | None = None) -> None:
        self._files, self._store, self._split, self._schema = files, files.store, files.split, files.store.schema
        self._engine: MergeEngine = like._engine if like else engine_of(self._schema, self._store.options)
        self._order: KeyOrder = like._order if like else order_of(self._schema, self._store.options)

    def rows(self, predicate: Predicate | None, deletes: bool = False) -> Iterator[pa.RecordBatch]:
        """Sorted runs merged by key, section by section; only conditions on the key go below the merge. `deletes`:
        results of kind -U and -D too."""
        for batch in self._sorted(predicate, [item.name for item in self._files.fields], deletes, ordered=deletes):
            yield from self._files.followed(self._files.rows(batch), predicate)

    def chained(self, predicate: Predicate | None, deletes: bool = False) -> Iterator[pa.RecordBatch]:
        """The files of the split's parts merged by key, each read by the store of its branch. `deletes`: as `rows`.

        Spec: docs/spec/chain_table.md#reading
        """
        names, below = [item.name for item in self._files.fields], self._key_part(predicate)
        readers = [self._part(part) for part in self._split.parts]
        layouts = [reader._merge_layout(names) for reader in readers]
        owner = {id(file): at for at, part in enumerate(self._split.parts) for file in part.files}
        files = [file for part in self._split.parts for file in part.files]
        for section in sections(files, key_range_of(self._order.fields)):
            runs = [
                chain.from_iterable(
                    readers[owner[id(file)]]._file(layouts[owner[id(file)]], below, file) for file in run.files
                )
                for run in section
            ]
            for batch in merge_runs(runs, self._order, self._engine, drop_deletes=not deletes, ordered=deletes):
                yield self._files.rows(batch)

    def _part(self, part: Split) -> MergedSplit:
        return MergedSplit(self._files.of_part(part), self)

    def differing(self, before: Split, predicate: Predicate | None, deletes: bool) -> Iterator[pa.RecordBatch]:
        """The rows that this split has and `before` has not, in key order; with `deletes` also those that only `before`
        has, as -D. Rows are compared by all columns. Pending rows are `before` of a split without files only.

        Spec: docs/spec/incremental.md#diff
        """
        older = MergedSplit(SplitFiles(self._store, before, self._files.fields), self)
        if before.bucket == POSTPONE_BUCKET:
            for batch in older.with_pending(predicate) if deletes else ():
                yield _as_deletes(batch)
            return
        names = self._schema.field_names
        left, right = (side._of_buckets(predicate, names, deletes) for side in (older, self))
        for batch in difference(left, right, self._order, keep_deletes=deletes):
            yield from self._files.followed(self._files.rows(batch), predicate)

    def _of_buckets(
        self, predicate: Predicate | None, wanted: Sequence[str], deletes: bool
    ) -> Iterator[pa.RecordBatch]:
        """As `_sorted`; of parts, which have no row in common, without deletes: one of them may have a row that was
        deleted in another."""
        if not self._split.parts:
            return self._sorted(predicate, wanted, deletes, ordered=True)
        parts = [self._part(part)._sorted(predicate, wanted, False, ordered=True) for part in self._split.parts]
        return merge_runs(parts, self._order, Deduplicate())

    def _sorted(
        self, predicate: Predicate | None, wanted: Sequence[str], deletes: bool, ordered: bool
    ) -> Iterator[pa.RecordBatch]:
        """The merged rows as keys, sequence number, kind and what the merge needs of the other columns."""
        layout, below = self._merge_layout(wanted), self._key_part(predicate)
        if self._schema.clustered:
            with self._by_key(layout, below) as runs:
                yield from merge_runs(runs, self._order, self._engine, drop_deletes=not deletes, ordered=ordered)
            return
        settled = self._engine.computes and settles(self._store.options)
        alone = self._asks_one_key(below)
        every = sections(self._split.files, key_range_of(self._order.fields))
        with self._opened(every, layout, below) as rows:
            for section in every:
                if settled and len(section) > 1:
                    old = self._by_level(rows, [file for run in section for file in run.files])
                    yield from merge_settled(old, self._order, self._engine, drop_deletes=not deletes)
                    continue
                runs = [chain.from_iterable(map(rows, run.files)) for run in section]
                if len(runs) > 1 and self._store.waits:
                    runs = runs if self._begins_ahead else list(started(runs, len(runs)))
                elif len(runs) > 1 and alone:
                    runs = self._newest([run.files for run in section], rows)
                yield from merge_runs(runs, self._order, self._engine, drop_deletes=not deletes, ordered=ordered)

    @property
    def _begins_ahead(self) -> bool:
        """Whether files are asked for before their turn: small ones, each a request that waits."""
        return self._store.waits and pays(self._split.files)

    @contextmanager
    def _opened(
        self, every: Sequence[Sequence[SortedRun]], layout: Sequence[DataField], below: Predicate | None
    ) -> Iterator[Rows]:
        """What gives the rows of each file of these sections."""
        rows = partial(self._file, layout, below)
        if not self._begins_ahead:
            yield rows
            return
        turns = [turn for section in every for turn in zip_longest(*(run.files for run in section))]
        with begun_ahead([file for turn in turns for file in turn if file is not None], rows) as ahead:
            yield ahead

    def _asks_one_key(self, below: Predicate | None) -> bool:
        """Whether all rows that may match have one key, of which the row with the highest number is all that counts."""
        if below is None or self._order.sequence or self._store.options.get("sequence.snapshot-ordering"):
            return False
        exact = all(has_one_form(item.type) for item in self._order.fields)
        names = self._schema.trimmed_primary_keys
        return exact and self._engine == Deduplicate() and len(key_values(below, names) or ()) == 1

    def _newest(self, runs: Sequence[Sequence[DataFile]], read: Rows) -> list[Iterator[pa.RecordBatch]]:
        """The rows of one key in sorted runs, oldest run first: files are read from the newest on, until a row is found
        whose number is above all that the others record."""
        waiting = sorted(
            ((file.max_sequence_number, place, file) for place, run in enumerate(runs) for file in run),
            key=itemgetter(0, 1),
        )
        found: dict[int, list[pa.RecordBatch]] = {}
        while waiting:
            _, place, file = waiting.pop()
            rows = [batch for batch in read(file) if batch.num_rows]
            found[place] = [*found.get(place, ()), *rows]
            numbers = [pc.max(batch.column(SEQUENCE_FIELD.name)).as_py() for batch in rows]
            if waiting and max(numbers, default=-1) > waiting[-1][0]:
                break
        return [iter(found[place]) for place in sorted(found)]

    @contextmanager
    def _by_key(self, layout: Sequence[DataField], below: Predicate | None) -> Iterator[list[Iterator[pa.RecordBatch]]]:
        """The files of a clustered table as runs sorted by key; rows of files above level 0, which have no key twice,
        are sorted for it.

        Spec: docs/spec/clustering.md#keyed-tables
        """
        waiting = PendingRuns.of(self._order, Deduplicate(), self._store.options)
        fresh = sorted((f for f in self._split.files if f.level == 0), key=lambda file: file.max_sequence_number)
        try:
            for file in self._split.files:
                for batch in self._file(layout, below, file) if file.level > 0 else ():
                    waiting.take(batch)
            waiting.close()
            yield [*waiting.runs(0), *(self._file(layout, below, file) for file in fresh)]
        finally:
            waiting.clear()

    def with_pending(self, predicate: Predicate | None, deletes: bool = False) -> Iterator[pa.RecordBatch]:
        """Pending rows, sorted into runs by bucket, merged over the runs of the real buckets. `deletes`: as `rows`.

        Spec: docs/spec/postpone.md#reading
        """
        refuse_clustered(self._schema, "pending rows are not merged over the buckets of a table")
        names = [item.name for item in self._files.fields]
        layout, below = self._merge_layout(names), self._key_part(predicate)
        options = self._store.options
        pending = PendingRuns.of(self._order, self._engine, options)
        parts = {part.bucket: part for part in self._split.parts}
        try:
            for batch, buckets in self._pending_rows(layout, below):
                pending.take(batch, buckets)
            for bucket in sorted(pending.close() | parts.keys()):
                part = parts.get(bucket)
                old = [] if part is None else self._part(part)._all_by_level(layout, below)
                new = [TrackedRun(run) for run in pending.runs(bucket)]
                if self._engine.computes and settles(options):
                    merged = merge_settled([*old, *new], self._order, self._engine, drop_deletes=not deletes)
                else:
                    runs = [run.batches for run in (*old, *new)]
                    merged = merge_runs(runs, self._order, self._engine, drop_deletes=not deletes, ordered=deletes)
                for batch in merged:
                    yield self._files.rows(batch)
        finally:
            pending.clear()

    def _pending_rows(
        self, layout: Sequence[DataField], below: Predicate | None
    ) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]:
        """The pending rows, numbered on in their order after all rows of the real buckets, and the bucket of each: -1
        for those of other shares."""
        number = 1 + max((f.max_sequence_number for part in self._split.parts for f in part.files), default=-1)
        by_name = {item.name.removeprefix("_KEY_"): item for item in self._schema.key_fields}
        fields = [by_name[name] for name in self._schema.bucket_keys]
        function, total = self._store.options.get("bucket-function.type"), self._split.total_buckets
        own, shares = self._split.share
        for file in self._split.files:
            residue = residue_of(self._store, file) if shares > 1 else None
            for batch in self._file(layout, below, file):
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

    def _by_level(self, rows: Rows, files: Sequence[DataFile]) -> list[TrackedRun]:
        """The files as sorted runs with their levels, oldest first."""
        levels = Levels.of(files, key_range_of(self._order.fields)).sorted_runs()
        return [TrackedRun(chain.from_iterable(map(rows, run.files)), level) for level, run in reversed(levels)]

    def _all_by_level(self, layout: Sequence[DataField], below: Predicate | None) -> list[TrackedRun]:
        return self._by_level(partial(self._file, layout, below), self._split.files)

    def _merge_layout(self, wanted: Sequence[str]) -> list[DataField]:
        """The columns that a merge reads: keys, number, kind, what is asked for, and what the engine needs for it."""
        known = {*self._schema.trimmed_primary_keys, *self._schema.partition_keys}
        names = dict.fromkeys([*wanted, *(item.name for item in self._order.sequence)])
        for special in (SEQUENCE_FIELD, KIND_FIELD):
            names.pop(special.name, None)
        names.update(dict.fromkeys(self._engine.requires(list(names))))
        values = [self._schema.field(name) for name in names if name not in known]
        return [*self._schema.key_fields, SEQUENCE_FIELD, KIND_FIELD, *values]

    def _key_part(self, predicate: Predicate | None) -> Predicate | None:
        """What a predicate says of keys alone: that may be asked before rows of one key are merged."""
        return None if predicate is None else restrict(predicate, self._schema.trimmed_primary_keys)

    def _file(
        self, fields: Sequence[DataField], predicate: Predicate | None, file: DataFile
    ) -> Iterator[pa.RecordBatch]:
        names = {key.name.removeprefix("_KEY_"): key.name for key in self._schema.key_fields}
        condition = None if predicate is None else rename(predicate, names)
        rows = self._files.file(file, fields, predicate)
        for batch in within_bounds(self._store, self._split.bucket_path, file, rows):
            yield batch if condition is None else batch.filter(mask(condition, batch))


def _as_deletes(batch: pa.RecordBatch) -> pa.RecordBatch:
    place = batch.schema.get_field_index(KIND_FIELD.name)
    if place < 0:
        return batch
    kinds = pa.array(np.full(batch.num_rows, DELETE, np.int8))
    return batch.set_column(place, batch.schema.field(place), kinds)
