"""The rows of files at fault, in the order in which they should have been: whatever is recorded of them.

Spec: docs/maintenance.md#repair
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from bucketlake.errors import CorruptError
from bucketlake.format.index.deletion_vector import positions_of
from bucketlake.format.metadata.manifest import DataFile, FileSource, ManifestEntry
from bucketlake.lsm.changelog import TrackedRun, Tracking, merge_tracked, settles
from bucketlake.lsm.engines.engines import without_retracts
from bucketlake.lsm.engines.rules import engine_of, order_of
from bucketlake.lsm.levels import Levels, key_range_of
from bucketlake.lsm.merge import merge_runs, sort_and_merge
from bucketlake.ops.check.vectors import Marks
from bucketlake.ops.rewrite.rebucket import renumbered
from bucketlake.ops.rows.deletions import Mask
from bucketlake.ops.rows.one_file import file_layout, read_numbered_file
from bucketlake.ops.rows.roll import Rolling, rolled
from bucketlake.ops.table.made import remove_files
from bucketlake.ops.table.store import Store
from bucketlake.schema.clustering import refuse_clustered
from bucketlake.schema.schema import SEQUENCE_FIELD, BucketMode
from bucketlake.types.model import DataField, arrow_schema

Rows = Iterable[pa.RecordBatch]
MOST_AGE = 126


class BucketRows:
    """Reads files; what had to be sorted is kept in files of its own until `tidy`. `shifts`: by the number of buckets
    that a file counts, how far sequence numbers of its rows are moved."""

    def __init__(self, store: Store, marks: Marks) -> None:
        refuse_clustered(store.schema, "repairing rows of a table")
        self._store, self._marks = store, marks
        self._order = order_of(store.schema, store.options) if store.schema.primary_keys else None
        self._passing: list[tuple[bytes, int, DataFile]] = []
        self.shifts: Mapping[int, int] = {}

    def plain(self, entry: ManifestEntry) -> Iterator[pa.RecordBatch]:
        """The rows of an append file, less those that are deleted."""
        return self._read(entry, self._store.schema.fields)

    def keys(self, entry: ManifestEntry) -> Iterator[pa.RecordBatch]:
        """The key columns of a file, deleted rows included."""
        return self._read(entry, self._store.schema.key_fields, marked=False)

    def sorted_file(self, entry: ManifestEntry) -> Iterator[pa.RecordBatch]:
        """The rows of a file by key, each key once, deletes included. Memory: the file."""
        assert self._order is not None
        fields = self._store.schema.key_value_fields
        batches = list(self._read(entry, fields))
        rows = pa.Table.from_batches(batches, arrow_schema(fields)).combine_chunks().to_batches()
        for batch in rows:
            yield sort_and_merge(batch, self._order, engine_of(self._store.schema, self._store.options))

    def merged(self, entries: Sequence[ManifestEntry], names: set[str]) -> Iterator[pa.RecordBatch]:
        """The rows of files above level 0 merged by the engine's rule, deletes dropped. `names`: files that may be in
        no order; these are sorted first, one at a time."""
        assert self._order is not None
        runs = self._runs(entries, names)
        engine, options = engine_of(self._store.schema, self._store.options), self._store.options
        if len(runs) == 1:
            yield from (without_retracts(batch) for batch in runs[0])
        elif settles(options) and engine.computes:
            tracked = [TrackedRun(run, min(len(runs) - number, MOST_AGE)) for number, run in enumerate(runs)]
            for changed in merge_tracked(tracked, self._order, engine, Tracking(True, changelog=False)):
                yield changed.rows
        else:
            yield from merge_runs(runs, self._order, engine, drop_deletes=True)

    def tidy(self) -> None:
        """Remove the files that were made on the way, best effort."""
        for partition, bucket, file in self._passing:
            remove_files(self._store, partition, bucket, [file])
        self._passing = []

    def _runs(self, entries: Sequence[ManifestEntry], names: set[str]) -> list[Rows]:
        """Sorted runs, oldest first: files that are in order and overlap nothing of their level and bucket together,
        all others alone."""
        groups: dict[tuple[int, int], list[ManifestEntry]] = {}
        for entry in entries:
            groups.setdefault((-entry.file.level, entry.bucket), []).append(entry)
        runs: list[Rows] = []
        for _, group in sorted(groups.items()):
            group.sort(key=lambda entry: (entry.file.max_sequence_number, entry.file.file_name))
            sound = [entry for entry in group if entry.file.file_name not in names]
            try:
                levels = Levels.of([e.file for e in sound], key_range_of(self._store.schema.key_fields))
            except CorruptError:
                levels = None
            for entry in group:
                if entry not in sound or levels is None:
                    runs.append(self._in_order(entry) if entry not in sound else self._stored(entry))
            if levels is not None and sound:
                by_name = {entry.file.file_name: entry for entry in sound}
                ordered = [by_name[file.file_name] for file in levels.files()]
                runs.append(batch for entry in ordered for batch in self._stored(entry))
        return runs

    def _stored(self, entry: ManifestEntry) -> Iterator[pa.RecordBatch]:
        return self._read(entry, self._store.schema.key_value_fields)

    def _in_order(self, entry: ManifestEntry) -> Iterator[pa.RecordBatch]:
        """A file's rows by key, by way of a sorted copy, so that one file at a time is in memory."""
        rolling = Rolling(source=FileSource.COMPACT)
        files = rolled(self._store, entry.partition, entry.bucket, self.sorted_file(entry), rolling)
        self._passing += [(entry.partition, entry.bucket, file) for file in files]
        return (b for file in files for b in self._stored(replace(entry, file=file, total_buckets=0)))

    def _read(self, entry: ManifestEntry, fields: Sequence[DataField], marked: bool = True) -> Iterator[pa.RecordBatch]:
        """A file's rows, whatever number of rows or bytes is recorded, less those that its deletion vector names."""
        layout = replace(file_layout(self._store, entry.file, fields), row_count=None, size=None)
        path = self._store.paths.file_path(self._store.paths.bucket_dir(entry.partition, entry.bucket), entry.file)
        unaware = self._store.schema.bucket_mode is BucketMode.UNAWARE
        place = (entry.partition, 0 if unaware else entry.bucket)
        vector = self._marks.of(place).get(entry.file.file_name) if marked else None
        positions = None if vector is None else positions_of(vector)
        shift = self.shifts.get(entry.total_buckets, 0) if SEQUENCE_FIELD in fields else 0
        for first, batch in read_numbered_file(self._store, path, layout, None):
            rows = renumbered(layout.rows(batch), shift)
            if positions is not None:
                low, high = np.searchsorted(positions, [first, first + batch.num_rows])
                dead: Mask = np.zeros(batch.num_rows, np.bool_)
                dead[positions[low:high] - first] = True
                rows = rows.filter(pa.array(~dead))
            yield rows
