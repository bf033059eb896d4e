"""Sorted data files of one bucket, asked for keys: where in them keys lie, and the rows there.

    KeyedFiles(store, folder)
        .bounds(files) -> [Ranged]                        files with their least and greatest key
        .match(file, keys, view, offset, gone)            numbers of keys and positions in the file
        .rows(file, positions, fields)                    rows at positions, whole parts read

Only row groups whose key range meets the keys are opened; of these key columns are read once a process, as far as they
fit a bounded cache.

Spec: docs/spec/changelog.md#lookup
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.format.data.chunks import ChunkedFile, open_chunks
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.row.binary_rows import decode_columns
from bucketlake.lazy import pc
from bucketlake.lsm.keys import Bound, KeyOrder, KeyView
from bucketlake.lsm.words import integers_of
from bucketlake.ops.rows.one_file import FileLayout, file_layout
from bucketlake.ops.table.cache import Cache
from bucketlake.ops.table.decoded import identity
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import SEQUENCE_FIELD
from bucketlake.types.encoded import plain
from bucketlake.types.model import DataField, Root
from bucketlake.values import dataclass

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Whole = Callable[[DataFile, int, Sequence[DataField]], Iterable[pa.RecordBatch]]
"""All rows of one part of a file, in these columns."""

CACHE_BYTES = 128 << 20
FEWER = 4  # a file's keys over those asked for, from where on most of them are left out before they are compared whole
_CACHE = Cache(capacity=CACHE_BYTES)


def clear_cache() -> None:
    """Forget every decoded key column of this process (tests, benchmarks)."""
    _CACHE.clear()


@dataclass(frozen=True, slots=True)
class Ranged:
    """A file and its key range."""

    file: DataFile
    low: Bound
    high: Bound


@dataclass(slots=True)
class Part:
    """One part of a file: where it begins, and the least and greatest value of its first key column, None: unknown."""

    number: int
    start: int
    low: Any
    high: Any


class KeyedFiles:
    """The sorted files of a bucket's folder. Memory: the cache, and a part's keys."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store, self._folder = store, folder
        self.order = KeyOrder(store.schema.key_fields)

    def bounds(self, files: Sequence[DataFile]) -> list[Ranged]:
        """The files with their least and greatest key, comparable with those of a view."""
        fields = self._store.schema.key_fields
        keys = [key for file in files for key in (file.min_key, file.max_key)]
        columns = decode_columns(keys, [item.type for item in fields], range(len(fields)))
        view = self.order.view(pa.RecordBatch.from_arrays(columns, names=[item.name for item in fields]))
        return [Ranged(file, view.at(2 * i), view.at(2 * i + 1)) for i, file in enumerate(files)]

    def match(
        self, file: DataFile, keys: pa.RecordBatch, view: KeyView, offset: int, gone: Mask | None = None
    ) -> tuple[Indices, Indices]:
        """(numbers of keys, positions in the file) of keys that have a live row there, ascending both. `keys`:
        ascending, all different, rows of `view` from `offset` on; `gone`: rows that count as deleted."""
        found: list[tuple[Indices, Indices]] = []
        firsts = _Firsts(view, offset, keys.num_rows)
        for part in self.parts(file):
            start = 0 if part.low is None else bisect_left(firsts, part.low)
            stop = keys.num_rows if part.high is None else bisect_right(firsts, part.high)
            if start < stop:
                left, right = _join(self.order, keys.slice(start, stop - start), self._keys(file, part))
                found.append((left + start, right + part.start))
        within = np.concatenate([left for left, _ in found]) if found else np.zeros(0, np.int64)
        positions = np.concatenate([right for _, right in found]) if found else within
        if gone is None or not len(within):
            return within, positions
        live = ~gone[positions]
        return within[live], positions[live]

    def rows(
        self, file: DataFile, positions: Indices, fields: Sequence[DataField], whole: Whole | None = None
    ) -> pa.RecordBatch:
        """The rows at ascending positions, at least one. `whole`: gives all rows of a part, if they are kept."""
        whole = whole or self._encoded
        starts = [part.start for part in self.parts(file)]
        number = np.searchsorted(starts, positions, side="right") - 1
        batches: list[pa.RecordBatch] = []
        for part in np.unique(number).tolist():
            within = positions[number == part] - starts[part]
            first = 0
            for batch in whole(file, part, fields):
                low, high = np.searchsorted(within, [first, first + batch.num_rows])
                if low < high:
                    batches.append(plain(pc.take(batch, pa.array(within[low:high] - first), boundscheck=False)))
                first += batch.num_rows
        return batches[0] if len(batches) == 1 else pa.concat_batches(batches)

    def read(self, file: DataFile, part: int, fields: Sequence[DataField]) -> Iterator[pa.RecordBatch]:
        """All rows of one part of a file, in these columns."""
        layout = file_layout(self._store, file, fields)
        return (layout.rows(batch) for batch in self._open(file, layout, part))

    def _encoded(self, file: DataFile, part: int, fields: Sequence[DataField]) -> Iterator[pa.RecordBatch]:
        """As `read`, with columns that may be encoded, of which few rows are taken for less."""
        layout = file_layout(self._store, file, fields).encoding({item.name for item in fields})
        return (layout.rows(batch) for batch in self._open(file, layout, part))

    def path(self, file: DataFile) -> str:
        """Where a file lies."""
        return self._store.paths.file_path(self._folder, file)

    def parts(self, file: DataFile) -> list[Part]:
        """The parts of a file that are read by themselves: row groups, or all of it."""
        key = self._key(file, None)
        found: list[Part] | None = _CACHE.get(key)
        if found is None:
            found = self._read_parts(file)
            _CACHE.put(key, 256 * len(found) + 256, found)
        return found

    def _key(self, file: DataFile, part: int | None) -> Hashable:
        return identity(self._store.env.storage), self.path(file), file.file_size, part, self._store.schema.id

    def _read_parts(self, file: DataFile) -> list[Part]:
        layout = file_layout(self._store, file, self._store.schema.key_fields)
        with self._opened(file, layout) as source:
            starts = source.starts.tolist()
            first = layout.columns[0]
            exact = first.source is not None and not first.cast
            exact = exact and first.field.type.root not in (Root.FLOAT, Root.DOUBLE)  # no NaN in a footer's bounds
            bounds = source.bounds(first.source) if first.source is not None and exact else None
        count = len(starts) - 1
        lows, highs = (self._first_words(side, count) for side in bounds or (None, None))
        return [Part(i, starts[i], lows[i], highs[i]) for i in range(count)]

    def _first_words(self, values: pa.Array | None, count: int) -> list[Any]:
        """Values of the first key column as a view gives them; None where there is none."""
        if values is None:
            return [None] * count
        item = self._store.schema.key_fields[0]
        order = KeyOrder([item])
        known = order.view(pa.RecordBatch.from_arrays([values.drop_null()], names=[item.name]))
        given = iter(range(known.rows))
        return [known.at(next(given))[0] if valid else None for valid in values.is_valid().to_pylist()]

    def _keys(self, file: DataFile, part: Part) -> pa.RecordBatch:
        key = self._key(file, part.number)
        found: pa.RecordBatch | None = _CACHE.get(key)
        if found is None:
            layout = file_layout(self._store, file, self._store.schema.key_fields)
            batches = [layout.rows(batch) for batch in self._open(file, layout, part.number)]
            found = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
            if found.nbytes < CACHE_BYTES // 4:
                _CACHE.put(key, found.nbytes, found)
        return found

    def _open(self, file: DataFile, layout: FileLayout, part: int) -> Iterator[pa.RecordBatch]:
        with self._opened(file, layout) as source:
            yield from source.rows(part)

    def _opened(self, file: DataFile, layout: FileLayout) -> AbstractContextManager[ChunkedFile]:
        return open_chunks(self._store.env.storage, layout.recorded(self.path(file)), layout.stored_columns)


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
    if left.num_rows * FEWER < right.num_rows and _has_one_form(right.column(0).type):
        # To sort all of a file's keys for a few takes longer than to leave out most of them first.
        first = left.column(0).cast(right.column(0).type)
        some = np.flatnonzero(pc.is_in(right.column(0), first).to_numpy(zero_copy_only=False))
        within, places = _joined(order, left, right.take(pa.array(some)))
        return within, some[places]
    return _joined(order, left, right)


def _joined(order: KeyOrder, left: pa.RecordBatch, right: pa.RecordBatch) -> tuple[Indices, Indices]:
    """As `_join`, by sorting both sides."""
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


def _has_one_form(kind: pa.DataType) -> bool:
    """Whether values are the same key where Arrow takes them for equal, and only there."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_date(kind)
    )


def _is_fixed(kind: pa.DataType) -> bool:
    """Whether values are integers of up to 64 bits to `integers_of`."""
    return not (
        pa.types.is_string(kind) or pa.types.is_binary(kind) or (pa.types.is_decimal(kind) and kind.precision > 18)
    )
