"""Blob files of a table: the values of BLOB columns beside the rows that they are of, as they are written.

    BlobFiles(store, …)     the files of the rows that go into one file of the table's format
    BlobWriter(store, …)    values, one after the other

A blob file holds one column of rows that follow one another in their ids, within those of a file of the table's format.
Where several hold a row's, the newest that has no placeholder counts.
Spec: docs/spec/blob.md#writing
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, replace
from itertools import pairwise
from typing import Any, BinaryIO

from bucketlake.format.data import descriptor
from bucketlake.format.data.blob import BLOB, NULL, PLACEHOLDER, Record, encoded, ending
from bucketlake.format.data.blob_elements import Rows, refuse_keys
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.lazy import np, npt, pa
from bucketlake.ops.rows.described import Sources
from bucketlake.ops.rows.places import Place
from bucketlake.ops.table.store import Store
from bucketlake.types.model import DataField, Root
from bucketlake.values import dataclass

Positions = npt.NDArray["np.int64"]
LARGE = 256 << 10  # values of so many bytes are written one by one, without copies

Described = Callable[[Store, str, int, int], DataFile]
"""What a manifest says of a file with the columns of a store: its name, bytes and rows."""


@dataclass
class _OpenFile:
    """A blob file being written."""

    place: Place
    out: BinaryIO
    size: int = 0
    lengths: list[Positions] = field(default_factory=list)


class BlobWriter:
    """Writes one column, file by file: each is closed behind the value with which it reaches the target size."""

    def __init__(self, store: Store, item: DataField, places: Callable[[], Place]) -> None:
        options = store.options
        self._env, self._places = store.env, places
        self._name, self._type = item.name, item.type
        self._sources = Sources(store, item.name, (item.type.element or item.type).nullable)
        self._target = options.get("blob.target-file-size") or options.get("target-file-size") or 256 << 20
        self._open: _OpenFile | None = None
        self.made: list[str] = []

    def write(self, values: pa.Array, skipped: Positions | None = None) -> None:
        """Append the values of rows; descriptors stand for what they describe. `skipped`: how many rows before each
        keep the value that they have."""
        before = np.zeros(len(values), np.int64) if skipped is None else skipped
        if self._type.root is not Root.BLOB:
            self._write_nested(Rows.of(values, self._type), before)
            return
        for start, end, marked in _runs(descriptor.holds(values)):
            part = values.slice(start, end - start)
            if marked:
                self._copy(part, before[start:end])
            elif part.nbytes > LARGE * len(part):
                for value, rows in zip(part, before[start:end].tolist(), strict=True):
                    self.skip(rows)
                    self._one([value.as_buffer()] if value.is_valid else None)
            else:
                data, lengths = encoded(part)
                self._append(data, _apart(lengths, before[start:end]))

    def _write_nested(self, rows: Rows, before: Positions) -> None:
        """Append rows of an ARRAY or MAP."""
        described = descriptor.holds(rows.values)
        marks = np.concatenate([np.zeros(1, np.int64), np.cumsum(described)])[rows.bounds]
        for start, end, marked in _runs(np.diff(marks) > 0):
            if marked or rows.mean(start, end) > LARGE:
                for row, skipped in enumerate(before[start:end].tolist(), start):
                    self.skip(skipped)
                    self._one(self._elements(rows, row, described) if rows.valid[row] else None)
            else:
                data, lengths = encoded(*rows.parts(start, end))
                self._append(data, _apart(lengths, before[start:end]))

    def _elements(self, rows: Rows, row: int, described: descriptor.Mask) -> Iterator[bytes | memoryview]:
        """The payload of one row in pieces; values that are no descriptors are not copied."""
        first, last = int(rows.bounds[row]), int(rows.bounds[row + 1])
        lengths = rows.lengths[first:last].copy()
        yield rows.front(row)
        for start, end, marked in _runs(described[first:last]):
            if not marked:
                yield rows.data[rows.starts[first + start] : rows.starts[first + end]]
                continue
            uris, *numbers = descriptor.parsed(rows.values.slice(first + start, end - start))
            for place, uri, offset, length in zip(
                range(start, end), uris.to_pylist(), *(part.tolist() for part in numbers), strict=True
            ):
                pieces = self._sources.pieces(uri, offset, length)
                lengths[place] = NULL if pieces is None else 0
                for piece in pieces or ():
                    lengths[place] += len(piece)
                    yield piece
        yield rows.back(row, lengths)

    def skip(self, rows: int) -> None:
        """Rows that keep the value that they have."""
        if rows:
            self._append(memoryview(b""), np.full(rows, PLACEHOLDER))

    def _append(self, data: memoryview, lengths: Positions) -> None:
        ends = np.cumsum(np.maximum(lengths, 0))
        start, done = 0, 0
        while start < len(lengths):
            current = self._current()
            place = int(np.searchsorted(ends, done + self._target - current.size))  # the value that fills the file
            end = min(place + 1, len(lengths))
            stop = int(ends[end - 1])
            current.out.write(data[done:stop])
            self._count(current, stop - done, lengths[start:end])
            start, done = end, stop
            if current.size >= self._target:
                self.finish()

    def _copy(self, values: pa.Array, skipped: Positions) -> None:
        """Append what descriptors describe."""
        uris, *numbers = descriptor.parsed(values)
        places = (part.tolist() for part in (*numbers, skipped))
        for uri, offset, length, before in zip(uris.to_pylist(), *places, strict=True):
            self.skip(before)
            self._one(self._sources.pieces(uri, offset, length))

    def _one(self, pieces: Iterable[Any] | None) -> None:
        """Append a value in pieces, which are not held together; None: null."""
        current, length = self._current(), NULL
        if pieces is not None:
            record = Record(current.out)
            for piece in pieces:
                record.write(memoryview(piece))
            length = record.close()
        self._count(current, max(length, 0), np.array([length], np.int64))
        if current.size >= self._target:
            self.finish()

    def _count(self, current: _OpenFile, size: int, lengths: Positions) -> None:
        """Records of so many bytes were written."""
        current.size += size
        current.lengths.append(lengths)

    def _current(self) -> _OpenFile:
        if self._open is None:
            place = self._places()
            self._open = _OpenFile(place, self._env.storage.open_output(place.path))
        return self._open

    def finish(self) -> None:
        """Close the open file."""
        if self._open is None:
            return
        current = self._open
        lengths = np.concatenate([np.zeros(0, np.int64), *current.lengths])
        end = ending(lengths)
        current.out.write(end)
        current.out.close()
        self._open = None
        self.made.append(current.place.path)
        self._closed(current.place, current.size + len(end), len(lengths))

    def _closed(self, place: Place, size: int, rows: int) -> None:
        """A file of so many bytes is done."""

    def abort(self) -> None:
        """Remove all files, best effort."""
        if self._open is not None:
            path = self._open.place.path
            _close_quietly(self._open.out)
            self._open = None
            self.made.append(path)
        self._env.storage.delete_all(self.made)


class _Column(BlobWriter):
    """A column's blob files, with what manifests say of them."""

    def __init__(self, store: Store, item: DataField, places: Callable[[], Place], describe: Described) -> None:
        refuse_keys(item.type)
        super().__init__(store, item, places)
        self._describe = describe
        self._store = store.with_schema(replace(store.schema, fields=(item,), partition_keys=()))
        self.files: list[DataFile] = []

    def _closed(self, place: Place, size: int, rows: int) -> None:
        name = place.path.rsplit("/", 1)[-1]
        file = self._describe(self._store, name, size, rows)
        self.files.append(replace(file, write_cols=(self._name,), external_path=place.external))


def _runs(marks: descriptor.Mask) -> Iterator[tuple[int, int, bool]]:
    """Where equal marks lie side by side: from, to, which."""
    cuts = np.flatnonzero(np.diff(marks, prepend=not marks[0])).tolist() if len(marks) else []
    for start, end in pairwise([*cuts, len(marks)]):
        yield start, end, bool(marks[start])


def _apart(lengths: Positions, skipped: Positions) -> Positions:
    """Lengths with so many placeholders before each."""
    if not skipped.any():
        return lengths
    places = np.cumsum(skipped + 1) - 1
    found = np.full(int(places[-1]) + 1, PLACEHOLDER, np.int64)
    found[places] = lengths
    return found


def _close_quietly(out: BinaryIO) -> None:
    try:
        out.close()
    except Exception:  # what it wrote is removed
        return


class BlobFiles:
    """Writes BLOB columns of rows, all that the store has. `places`: gives the place of a new file by the suffix of its
    name. `taken` ends the files where the file of the other columns ends; after a failure comes `abort`."""

    def __init__(self, store: Store, places: Callable[[str], Place], describe: Described) -> None:
        self._columns = {
            item.name: _Column(store, item, lambda: places(BLOB), describe) for item in store.schema.blob_fields
        }

    def write(self, rows: pa.RecordBatch, skipped: Positions | None = None) -> None:
        """Append rows of the table. `skipped`: how many rows before each keep the values that they have."""
        for name, column in self._columns.items():
            column.write(rows.column(name), skipped)

    def skip(self, rows: int) -> None:
        """Rows that keep the values that they have."""
        for column in self._columns.values():
            column.skip(rows)

    def taken(self) -> list[DataFile]:
        """Close the open files; those closed since the last call, column by column."""
        found: list[DataFile] = []
        for column in self._columns.values():
            column.finish()
            found += column.files
            column.files = []
        return found

    def abort(self) -> None:
        """Remove every file, those taken too."""
        for column in self._columns.values():
            column.abort()
