"""Previous rows of keys in the sorted files of one bucket, without a row-at-a-time probe.

    PreviousRows(store, folder, runs, wanted).find(keys) -> Found
    .marked                                   positions found, by file name

Keys come sorted, a slice at a time. Only files and row groups whose key range meets them are opened; of these only key
columns are read, once a process as far as they fit a bounded cache, and whole rows where their values are needed.

Spec: docs/spec/changelog.md#lookup
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

import numpy as np
import pyarrow as pa

from bucketlake.format.metadata.manifest import DataFile
from bucketlake.lazy import pc
from bucketlake.lsm.changelog import Found
from bucketlake.lsm.levels import SortedRun
from bucketlake.ops.rows.keyed_files import Indices, KeyedFiles, Mask, Ranged, clear_cache
from bucketlake.ops.table.store import Store
from bucketlake.types.model import DataField, arrow_schema
from bucketlake.values import dataclass

__all__ = ["PreviousRows", "Wanted", "clear_cache"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a lookup is for. `values`: whole rows, in the layout of `schema.key_value_fields`; else existence and
    position. `deleted`: by file name, which rows are gone already. `counts`: which of the rows found count at all
    (None: all); the others are marked, and not given."""

    values: bool = False
    deleted: Mapping[str, Mask] = field(default_factory=dict)
    counts: Callable[[pa.RecordBatch], Mask | None] | None = None


@dataclass(slots=True)
class _Hits:
    """Which of the keys asked for have a row, and what is known of it."""

    places: list[Indices] = field(default_factory=list)
    rows: list[pa.RecordBatch] = field(default_factory=list)


class PreviousRows:
    """The newest row that each key has in `runs`: sorted runs, the newest first, each a level above 0.

    `folder`: of the bucket's files. Not for several threads. Memory: the cache, a row group's keys, and a row
    group a level where values are wanted.
    """

    def __init__(self, store: Store, folder: str, runs: Sequence[SortedRun], wanted: Wanted) -> None:
        self._wanted = wanted
        self._files = KeyedFiles(store, folder)
        self._runs = [self._files.bounds(run.files) for run in runs if run.files]
        self._fields = store.schema.key_value_fields
        self._schema = arrow_schema(store.schema.key_value_fields)
        self._held: dict[str, tuple[int, list[pa.RecordBatch], int]] = {}
        self.marked: dict[str, list[Indices]] = {}

    def find(self, keys: pa.RecordBatch) -> Found:
        """The previous rows of keys: the table's key columns, ascending, all different.

        Rows that are found are noted in `marked`, by file, ascending.
        Errors: NotFoundError, CorruptError, StorageError naming the file.
        """
        hits = _Hits()
        pending = np.arange(keys.num_rows)
        for run in self._runs:
            if not len(pending):
                break
            asked = keys if len(pending) == keys.num_rows else pc.take(keys, pa.array(pending), boundscheck=False)
            taken = self._find_in(run, asked, pending, hits)
            pending = pending[~taken]
        places = np.concatenate(hits.places) if hits.places else np.zeros(0, np.int64)
        sequence = np.argsort(places, kind="stable")
        if not self._wanted.values:
            return Found(places[sequence])
        if not hits.rows:
            return Found(places, pa.RecordBatch.from_pylist([], schema=self._schema))
        rows = hits.rows[0] if len(hits.rows) == 1 else pa.concat_batches(hits.rows)
        if len(hits.rows) > 1:
            rows = pc.take(rows, pa.array(sequence), boundscheck=False)
        return Found(places[sequence], rows)

    def _find_in(self, run: Sequence[Ranged], keys: pa.RecordBatch, places: Indices, hits: _Hits) -> Mask:
        """Look into one run; which of the keys it settles."""
        taken = np.zeros(keys.num_rows, np.bool_)
        view = self._files.order.view(keys)
        for item in run:
            start = bisect_left(range(view.rows), item.low, key=view.at)
            stop = view.upper(item.high, start)
            if start == stop:
                continue
            gone = self._wanted.deleted.get(item.file.file_name)
            within, positions = self._files.match(item.file, keys.slice(start, stop - start), view, start, gone)
            if not len(within):
                continue
            taken[start + within] = True
            self._take(item.file, places[start + within], positions, hits)
        return taken

    def _take(self, file: DataFile, places: Indices, positions: Indices, hits: _Hits) -> None:
        self.marked.setdefault(file.file_name, []).append(positions)
        if not self._wanted.values:
            hits.places.append(places)
            return
        rows = self._files.rows(file, positions, self._fields, self._whole)
        counts = None if self._wanted.counts is None else self._wanted.counts(rows)
        if counts is not None:
            rows, places = rows.filter(pa.array(counts)), places[counts]
        hits.places.append(places)
        hits.rows.append(rows)

    def _whole(self, file: DataFile, part: int, fields: Sequence[DataField]) -> Iterable[pa.RecordBatch]:
        """All rows of a part. Where parts are row groups the last one stays decoded: the next slice often needs it."""
        held = self._held.get(file.file_name)
        if held is not None and held[0] == part:
            return held[1]
        batches = self._files.read(file, part, fields)
        if len(self._files.parts(file)) == 1:
            return batches
        kept = list(batches)
        self._held = {name: known for name, known in self._held.items() if known[2] != file.level}
        self._held[file.file_name] = (part, kept, file.level)
        return kept
