"""Columns of rows that lie in blob files, read by position.

    BlobColumn(store, item, folder, …)      one column of a group of rows
    in_parts(columns, positions, …)         positions of rows whose values go into memory together
    filled(positions, sizes)                the same, where the sizes are known

Spec: docs/spec/blob.md#reading
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property
from itertools import pairwise

from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.format.data import descriptor
from bucketlake.format.data.blob import BROKEN, EXTRA, HEAD, NULL, PLACEHOLDER, payloads, read_lengths
from bucketlake.format.data.blob_elements import (
    FRONT,
    Elements,
    back_size,
    check_sizes,
    index_sizes,
    listed,
    located,
    ragged,
)
from bucketlake.format.guard import decoding
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.lazy import np, npt, pa
from bucketlake.ops.table.store import Store
from bucketlake.types.model import DataField, Root, arrow_field
from bucketlake.values import dataclass

Positions = npt.NDArray["np.int64"]
Bytes = npt.NDArray["np.uint8"]
AT_ONCE = 32 << 20  # bytes of values in memory
ROWS_AT_ONCE = 1 << 12  # arrays and maps that are looked into for their descriptors
_WINDOW = 256  # bytes of each end of a payload that are read to look into it
_MOST = (1 << 31) - 1  # bytes of an Arrow array


@dataclass
class BlobColumn:
    """The column `item` of the rows with ids from `first` on; `files`: all that hold values of it, in any order. Opens
    the files of rows that are asked for, and reads their values alone."""

    store: Store
    item: DataField
    folder: str
    files: Sequence[DataFile]
    first: int
    _indexes: dict[int, tuple[Positions, Positions]] = field(default_factory=dict)
    _seen: dict[str, tuple[Positions, Elements, Bytes | None]] = field(default_factory=dict)

    @property
    def arrow(self) -> pa.Field:
        """What `take` gives."""
        return arrow_field(self.item.name, self.item.type)

    @property
    def nested(self) -> bool:
        """Whether it is an ARRAY or MAP."""
        return self.item.type.root is not Root.BLOB

    @cached_property
    def _order(self) -> list[int]:
        return _newest_first(self.files)

    def _path(self, number: int) -> str:
        return self.store.paths.file_path(self.folder, self.files[number])

    def _index(self, number: int) -> tuple[Positions, Positions]:
        """Where the records of a file begin, and how long they are."""
        if number not in self._indexes:
            file = self.files[number]
            lengths = read_lengths(self.store.env.storage, self._path(number), file.file_size, file.row_count)
            held = np.maximum(lengths, 0)
            self._indexes[number] = np.cumsum(held) - held, lengths
        return self._indexes[number]

    def _places(self, positions: Positions) -> tuple[Positions, Positions, Positions]:
        """By row: which file has its value (-1: null), where its record begins there, and how long that is. Opens the
        files that may have these rows, the newest first, until each is found."""
        found = np.full((3, len(positions)), -1, np.int64)
        left = np.arange(len(positions))
        for number in self._order:
            file = self.files[number]
            rows = positions[left] - ((file.first_row_id or 0) - self.first)
            within = np.flatnonzero((rows >= 0) & (rows < file.row_count))
            if not len(within):
                continue
            offsets, lengths = self._index(number)
            own = rows[within]
            here = lengths[own] != PLACEHOLDER
            held = own[here]
            found[:, left[within[here]]] = np.where(lengths[held] == NULL, -1, number), offsets[held], lengths[held]
            left = np.delete(left, within[here])
            if not len(left):
                break
        return found[0], found[1], np.maximum(found[2], 0)

    def sizes(self, positions: Positions) -> Positions:
        """Bytes that the values of rows take, by their positions in the group."""
        return self._places(positions)[2]

    def described_sizes(self, positions: Positions) -> Positions:
        """Bytes that the descriptors of the values of arrays or maps take. Looks into each."""
        files, offsets, lengths = self._places(positions)
        found = np.zeros(len(positions), np.int64)
        for number in np.unique(files[files >= 0]).tolist():
            own = np.flatnonzero(files == number)
            path = self._path(number)
            elements, _ = self._looked(path, offsets[own], lengths[own])
            found[own] = np.diff(elements.bounds) * _described_size(path) + elements.key_sizes()
        return found

    def take(self, positions: Positions, descriptors: bool = False) -> pa.Array:
        """The values of rows, or what says where these lie."""
        files, offsets, lengths = self._places(positions)
        parts, places = [], [np.zeros(0, np.int64)]
        for number in np.unique(files[files >= 0]).tolist():
            own = np.flatnonzero(files == number)
            read = self._described if descriptors else self._read
            parts.append(read(self._path(number), offsets[own], lengths[own]))
            places.append(own)
        if len(parts) == 1 and len(parts[0]) == len(positions):
            return parts[0]
        order = np.full(len(positions), -1, np.int64)
        known = np.concatenate(places)
        order[known] = np.arange(len(known))
        return pa.concat_arrays(parts or [pa.nulls(0, self.arrow.type)]).take(pa.array(order, mask=order < 0))

    def _read(self, path: str, offsets: Positions, lengths: Positions) -> pa.Array:
        data = self._joined(path, offsets, lengths)
        with decoding(BROKEN, path):
            return payloads(data, lengths, path, self.item.type)

    def _joined(self, path: str, offsets: Positions, lengths: Positions) -> memoryview:
        """Records one after the other."""
        ends = offsets + lengths
        begins = np.flatnonzero(np.append(True, offsets[1:] != ends[:-1]))
        last = np.append(begins[1:], len(offsets)) - 1
        ranges = list(zip(offsets[begins].tolist(), (ends[last] - offsets[begins]).tolist(), strict=True))
        found = self.store.env.storage.read_ranges(path, ranges)
        return memoryview(found[0] if len(found) == 1 else b"".join(found))

    def records(self, positions: Positions) -> tuple[Positions, Iterator[bytes]]:
        """The records of values as they lie in the files, one after the other, and the length of each, `NULL` for
        nulls. The pieces of more than one value go into memory together."""
        files, offsets, lengths = self._places(positions)
        return np.where(files < 0, NULL, lengths), self._copied(files, offsets, lengths)

    def _copied(self, files: Positions, offsets: Positions, lengths: Positions) -> Iterator[bytes]:
        held = np.flatnonzero(files >= 0)
        files, offsets, lengths = files[held], offsets[held], lengths[held]
        ends = offsets + lengths
        begins = np.flatnonzero((np.diff(files, prepend=-1) != 0) | (offsets != np.append(-1, ends[:-1])))
        last = np.append(begins[1:], len(files))[: len(begins)] - 1
        owners, starts, sizes = files[begins], offsets[begins], ends[last] - offsets[begins]
        if len(begins) == 1:
            yield from self._pieces(int(owners[0]), int(starts[0]), int(sizes[0]))
            return
        found: list[bytes] = [b""] * len(begins)
        for number in np.unique(owners).tolist():
            own = np.flatnonzero(owners == number)
            ranges = list(zip(starts[own].tolist(), sizes[own].tolist(), strict=True))
            parts = self.store.env.storage.read_ranges(self._path(number), ranges)
            for place, (_, size), part in zip(own.tolist(), ranges, parts, strict=True):
                found[place] = self._whole(part, size, number)
        yield from found

    def _pieces(self, number: int, start: int, size: int) -> Iterator[bytes]:
        for done in range(0, size, AT_ONCE):
            wanted = min(AT_ONCE, size - done)
            data = self.store.env.storage.read(self._path(number), start + done, wanted)
            yield self._whole(data, wanted, number)

    def _whole(self, data: bytes, size: int, number: int) -> bytes:
        if len(data) != size:
            raise CorruptError("a blob file is cut short", path=self._path(number), bytes=len(data))
        return data

    def _described(self, path: str, offsets: Positions, lengths: Positions) -> pa.Array:
        if not self.nested:
            return descriptor.describe(uri_of(path), offsets + HEAD, lengths - EXTRA)
        found, keys = self._looked(path, offsets, lengths)
        held = found.lengths >= 0
        starts = np.repeat(offsets + HEAD, np.diff(found.bounds)) + found.starts
        if int(np.count_nonzero(held)) * _described_size(path) > _MOST:
            raise UnsupportedError("an array or map of more blobs than have descriptors in 2 GiB", path=path)
        with decoding(BROKEN, path):
            known = descriptor.describe(uri_of(path), starts[held], found.lengths[held])
            values = known.take(pa.array(np.cumsum(held) - 1, mask=~held))
            return listed(self.item.type, found, values, keys)

    def _looked(self, path: str, offsets: Positions, lengths: Positions) -> tuple[Elements, Bytes | None]:
        """Where the values of arrays or maps lie in their payloads, and the bytes of the keys; no value is read but
        what lies near the ends. What was looked at last is kept."""
        seen = self._seen.get(path)
        if seen is None or not np.array_equal(seen[0], offsets):
            self._seen[path] = seen = (offsets, *self._look(path, offsets, lengths))
        return seen[1], seen[2]

    def _look(self, path: str, offsets: Positions, lengths: Positions) -> tuple[Elements, Bytes | None]:
        kind, last = self.item.type, back_size(self.item.type)
        starts, sizes = offsets + HEAD, lengths - EXTRA
        check_sizes(sizes, kind, path)
        if int(sizes.sum()) <= 2 * _WINDOW * len(sizes):
            ends, windows = np.frombuffer(self._joined(path, offsets, lengths), np.uint8), sizes
            begins = np.cumsum(lengths) - lengths + HEAD
            stops = begins + sizes
            if len(ends) != int(lengths.sum()):
                raise CorruptError("a blob file is cut short", path=path, bytes=len(ends))
        else:
            windows = np.minimum(sizes, _WINDOW)
            ends = self._ranges(path, np.stack([starts, starts + sizes - windows]), np.stack([windows, windows]))
            stops = np.cumsum(2 * windows)
            begins = stops - 2 * windows
        with decoding(BROKEN, path):
            fronts = ends[begins[:, None] + np.arange(FRONT)]
            spans = index_sizes(fronts, ends[stops[:, None] + np.arange(-last, 0)], sizes, kind, path)
        whole = spans.sum(axis=1)
        if (whole + last <= windows).all():
            indexes = ragged(ends, stops - last - whole, whole)
        else:
            indexes = self._ranges(path, (starts + sizes - last - whole)[None], whole[None])
        with decoding(BROKEN, path):
            found = located(fronts, indexes, sizes, spans, kind, path)
        if found.keys is None:
            return found, None
        keyed = found.key_sizes()
        if (FRONT + keyed <= windows).all():
            return found, ragged(ends, begins + FRONT, keyed)
        return found, self._ranges(path, (starts + FRONT)[None], keyed[None])

    def _ranges(self, path: str, starts: Positions, sizes: Positions) -> Bytes:
        """Ranges of a file, those of a row (a column) behind one another."""
        ranges = list(zip(starts.T.reshape(-1).tolist(), sizes.T.reshape(-1).tolist(), strict=True))
        data = b"".join(self.store.env.storage.read_ranges(path, ranges))
        if len(data) != int(sizes.sum()):
            raise CorruptError("a blob file is cut short", path=path, bytes=len(data))
        return np.frombuffer(data, np.uint8)


def uri_of(path: str) -> str:
    """A file as descriptors name it."""
    return f"file:{path}" if path.startswith("/") else path


def _described_size(path: str) -> int:
    return descriptor.size_of(uri_of(path))


def _newest_first(files: Sequence[DataFile]) -> list[int]:
    """The numbers of files, the newest first. CorruptError where two of one commit hold the same rows."""
    spans = sorted((f.max_sequence_number, f.first_row_id or 0, f.row_count, n) for n, f in enumerate(files))
    for one, two in pairwise(spans):
        if one[0] == two[0] and two[1] < one[1] + one[2]:
            names = [files[one[3]].file_name, files[two[3]].file_name]
            raise CorruptError("blob files of one commit hold values of the same rows", files=names)
    return [span[3] for span in reversed(spans)]


def in_parts(columns: Sequence[BlobColumn], positions: Positions, descriptors: bool) -> Iterator[Positions]:
    """The positions in parts whose values go into memory; a large value is a part of its own."""
    if not descriptors:
        yield from filled(positions, sum(column.sizes(positions) for column in columns))
        return
    nested = [column for column in columns if column.nested]
    step = ROWS_AT_ONCE if nested else max(1, len(positions))
    for start in range(0, len(positions), step):
        chunk = positions[start : start + step]
        if nested:
            yield from filled(chunk, sum(column.described_sizes(chunk) for column in nested))
        else:
            yield chunk


def filled(positions: Positions, sizes: Positions | int) -> Iterator[Positions]:
    """The positions in parts of about `AT_ONCE` bytes; `sizes`: of each."""
    filled = np.cumsum(sizes)
    start = 0
    while start < len(positions):
        before = filled[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(filled, before + AT_ONCE, side="right")))
        yield positions[start:end]
        start = end
