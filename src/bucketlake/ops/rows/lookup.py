"""Previous rows of keys in the sorted files of one bucket, without a row-at-a-time probe.

    PreviousRows(store, folder, runs, wanted).find(keys) -> Found
    .marked                                   positions found, by file name

Keys come sorted, a slice at a time. Only files and row groups whose key range meets them are opened; of these only key
columns are read, once a process as far as they fit a bounded cache, and whole rows where their values are needed.

Spec: docs/spec/changelog.md#lookup
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.format.data.chunks import open_chunks
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.row.binary_rows import decode_columns
from bucketlake.lazy import pc
from bucketlake.lsm.changelog import Found
from bucketlake.lsm.keys import Bound, KeyOrder, KeyView
from bucketlake.lsm.levels import SortedRun
from bucketlake.lsm.words import integers_of
from bucketlake.ops.rows.read import FileLayout, file_layout
from bucketlake.ops.table.store import Cache, Store
from bucketlake.schema.schema import SEQUENCE_FIELD
from bucketlake.types.model import DataField, Root, arrow_schema
from bucketlake.values import dataclass

__all__ = ["PreviousRows", "Wanted", "clear_cache"]

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

CACHE_BYTES = 128 << 20
_CACHE = Cache(capacity=CACHE_BYTES)


def clear_cache() -> None:
    """Forget every decoded key column of this process (tests, benchmarks)."""
    _CACHE.clear()


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a lookup is for. `values`: whole rows, in the layout of `schema.key_value_fields`; else existence and
    position. `deleted`: by file name, which rows are gone already. `counts`: which of the rows found count at all
    (None: all); the others are marked, and not given."""

    values: bool = False
    deleted: Mapping[str, Mask] = field(default_factory=dict)
    counts: Callable[[pa.RecordBatch], Mask | None] | None = None


@dataclass(frozen=True, slots=True)
class _Ranged:
    """A file and its key range."""

    file: DataFile
    low: Bound
    high: Bound


@dataclass(slots=True)
class _Part:
    """One part of a file: where it begins, and the least and greatest value of its first key column, None: unknown."""

    number: int
    start: int
    low: Any
    high: Any


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
        self._store, self._folder, self._wanted = store, folder, wanted
        self._order = KeyOrder(store.schema.key_fields)
        self._runs = [self._ranged(run) for run in runs if run.files]
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

    def _find_in(self, run: Sequence[_Ranged], keys: pa.RecordBatch, places: Indices, hits: _Hits) -> Mask:
        """Look into one run; which of the keys it settles."""
        taken = np.zeros(keys.num_rows, np.bool_)
        view = self._order.view(keys)
        for item in run:
            start = bisect_left(range(view.rows), item.low, key=view.at)
            stop = view.upper(item.high, start)
            if start == stop:
                continue
            within, positions = self._match(item.file, keys.slice(start, stop - start), view, start)
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
        rows = self._rows(file, positions)
        counts = None if self._wanted.counts is None else self._wanted.counts(rows)
        if counts is not None:
            rows, places = rows.filter(pa.array(counts)), places[counts]
        hits.places.append(places)
        hits.rows.append(rows)

    def _match(self, file: DataFile, keys: pa.RecordBatch, view: KeyView, offset: int) -> tuple[Indices, Indices]:
        """(numbers of keys, positions in the file) of keys that have a live row there."""
        found: list[tuple[Indices, Indices]] = []
        firsts = _Firsts(view, offset, keys.num_rows)
        for part in self._parts(file):
            start = 0 if part.low is None else bisect_left(firsts, part.low)
            stop = keys.num_rows if part.high is None else bisect_right(firsts, part.high)
            if start < stop:
                left, right = _join(self._order, keys.slice(start, stop - start), self._keys(file, part))
                found.append((left + start, right + part.start))
        within = np.concatenate([left for left, _ in found]) if found else np.zeros(0, np.int64)
        positions = np.concatenate([right for _, right in found]) if found else within
        gone = self._wanted.deleted.get(file.file_name)
        if gone is None or not len(within):
            return within, positions
        live = ~gone[positions]
        return within[live], positions[live]

    # ---- one file

    def _ranged(self, run: SortedRun) -> list[_Ranged]:
        """The files of a run with their least and greatest key, comparable with those of a view."""
        fields = self._store.schema.key_fields
        keys = [key for file in run.files for key in (file.min_key, file.max_key)]
        columns = decode_columns(keys, [item.type for item in fields], range(len(fields)))
        view = self._order.view(pa.RecordBatch.from_arrays(columns, names=[item.name for item in fields]))
        return [_Ranged(file, view.at(2 * i), view.at(2 * i + 1)) for i, file in enumerate(run.files)]

    def _path(self, file: DataFile) -> str:
        return self._store.paths.file_path(self._folder, file)

    def _parts(self, file: DataFile) -> list[_Part]:
        key = (self._path(file), None, self._store.schema.id)
        found: list[_Part] | None = _CACHE.get(key)
        if found is None:
            found = self._read_parts(file)
            _CACHE.put(key, 256 * len(found) + 256, found)
        return found

    def _read_parts(self, file: DataFile) -> list[_Part]:
        layout = file_layout(self._store, file, self._store.schema.key_fields)
        with open_chunks(self._store.env.storage, self._path(file), _stored(layout), file.row_count) as source:
            starts = source.starts.tolist()
            first = layout.columns[0]
            exact = first.source is not None and not first.cast
            exact = exact and first.field.type.root not in (Root.FLOAT, Root.DOUBLE)  # no NaN in a footer's bounds
            bounds = source.bounds(first.source) if first.source is not None and exact else None
        count = len(starts) - 1
        lows, highs = (self._first_words(side, count) for side in bounds or (None, None))
        return [_Part(i, starts[i], lows[i], highs[i]) for i in range(count)]

    def _first_words(self, values: pa.Array | None, count: int) -> list[Any]:
        """Values of the first key column as a view gives them; None where there is none."""
        if values is None:
            return [None] * count
        item = self._store.schema.key_fields[0]
        order = KeyOrder([item])
        known = order.view(pa.RecordBatch.from_arrays([values.drop_null()], names=[item.name]))
        given = iter(range(known.rows))
        return [known.at(next(given))[0] if valid else None for valid in values.is_valid().to_pylist()]

    def _keys(self, file: DataFile, part: _Part) -> pa.RecordBatch:
        key = (self._path(file), part.number, self._store.schema.id)
        found: pa.RecordBatch | None = _CACHE.get(key)
        if found is None:
            layout = file_layout(self._store, file, self._store.schema.key_fields)
            batches = [layout.rows(batch) for batch in self._open(file, layout, part.number)]
            found = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
            if found.nbytes < CACHE_BYTES // 4:
                _CACHE.put(key, found.nbytes, found)
        return found

    def _rows(self, file: DataFile, positions: Indices) -> pa.RecordBatch:
        """Whole rows at ascending positions."""
        starts = [part.start for part in self._parts(file)]
        number = np.searchsorted(starts, positions, side="right") - 1
        batches: list[pa.RecordBatch] = []
        for part in np.unique(number).tolist():
            within = positions[number == part] - starts[part]
            first = 0
            for batch in self._whole(file, part):
                low, high = np.searchsorted(within, [first, first + batch.num_rows])
                if low < high:
                    batches.append(pc.take(batch, pa.array(within[low:high] - first), boundscheck=False))
                first += batch.num_rows
        return batches[0] if len(batches) == 1 else pa.concat_batches(batches)

    def _whole(self, file: DataFile, part: int) -> Iterable[pa.RecordBatch]:
        """All rows of a part. Where parts are row groups the last one stays decoded: the next slice often needs it."""
        held = self._held.get(file.file_name)
        if held is not None and held[0] == part:
            return held[1]
        layout = file_layout(self._store, file, self._store.schema.key_value_fields)
        batches = (layout.rows(batch) for batch in self._open(file, layout, part))
        if len(self._parts(file)) == 1:
            return batches
        kept = list(batches)
        self._held = {name: known for name, known in self._held.items() if known[2] != file.level}
        self._held[file.file_name] = (part, kept, file.level)
        return kept

    def _open(self, file: DataFile, layout: FileLayout, part: int) -> Iterator[pa.RecordBatch]:
        with open_chunks(self._store.env.storage, self._path(file), _stored(layout), file.row_count) as source:
            yield from source.rows(part)


def _stored(layout: FileLayout) -> list[DataField]:
    by_name = {item.name: item for item in layout.stored}
    return [by_name[name] for name in layout.names]


class _Firsts(Sequence[Any]):
    """The first key column of rows of a view, one value at a time."""

    def __init__(self, view: KeyView, start: int, rows: int) -> None:
        self._view, self._start, self._rows = view, start, rows

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, row: Any) -> Any:
        return self._view.at(self._start + row)[0]


def _join(order: KeyOrder, left: pa.RecordBatch, right: pa.RecordBatch) -> tuple[Indices, Indices]:
    """Row numbers, in both, of the keys that are on both sides; on each side they ascend and are all different."""
    if len(order.fields) == 1 and _is_fixed(left.column(0).type):
        return _join_integers(integers_of(left.column(0)), integers_of(right.column(0)))
    both = pa.concat_batches([left, right.cast(left.schema)])
    both = both.append_column(SEQUENCE_FIELD.name, pa.array(np.zeros(both.num_rows, np.int64)))
    ordered, starts = order.sort(both)
    if starts is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    ordered = np.arange(both.num_rows) if ordered is None else ordered
    pairs = starts[np.diff(starts, append=both.num_rows) == 2]
    return ordered[pairs], ordered[pairs + 1] - left.num_rows


def _join_integers(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> tuple[Indices, Indices]:
    if not len(right):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    places = np.minimum(np.searchsorted(right, left), len(right) - 1)
    hits = np.flatnonzero(right[places] == left)
    return hits, places[hits]


def _is_fixed(kind: pa.DataType) -> bool:
    """Whether values are integers of up to 64 bits to `integers_of`."""
    return not (
        pa.types.is_string(kind) or pa.types.is_binary(kind) or (pa.types.is_decimal(kind) and kind.precision > 18)
    )
