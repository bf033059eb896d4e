"""Blob files: the values of one column, each as a record of its own, and their lengths at the end.

    file     := record* index index_length: i32 version: u8 (1)
    record   := magic: i32 (0x584E424F) payload length: i64 (of the record, 16 more than the payload's) crc: i32
    payload  := the value, or what `blob_elements` says of those of an ARRAY or MAP
    index    := the lengths, as `varints` has them
    length   := of the record; -1: null, -2: placeholder (an older file has the value): both have no record

Little endian. `crc` is CRC-32 of all before it in the record; pypaimon leaves the length out of it.

    is_blob(name)                          whether a file is one
    encoded(*parts)                        records of an array, one after the other, and their lengths
    Record(out)                            one record, its value in pieces
    ending(lengths)                        what closes a file
    read_lengths(storage, path, …)         the lengths of a file's records
    read_values(storage, path, …)          all values of a file
    payloads(data, lengths, path)          the values of records, checked

Spec: docs/spec/blob.md#blob-files
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import repeat
from typing import Any, BinaryIO

from bucketlake.env.storage import Storage
from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.format.data.blob_elements import fixed, opened
from bucketlake.format.guard import check_size, decoding
from bucketlake.format.varints import packed, unpacked
from bucketlake.lazy import np, npt, pa, pc
from bucketlake.types.arrow import binary_bounds, binary_content
from bucketlake.types.model import DataType, Root

__all__ = [
    "BLOB",
    "BROKEN",
    "EXTRA",
    "HEAD",
    "NULL",
    "PLACEHOLDER",
    "Record",
    "encoded",
    "ending",
    "is_blob",
    "payloads",
    "read_lengths",
    "read_values",
]

Lengths = npt.NDArray["np.int64"]
BLOB = "blob"
NULL, PLACEHOLDER = -1, -2
HEAD, TAIL = 4, 12
EXTRA = HEAD + TAIL
"""Bytes of a record beside its payload."""

_MAGIC = (1481511375).to_bytes(4, "little")
_VERSION = 1
_FOOTER = 5
BROKEN = "blob file cannot be read"
_MOST = (1 << 31) - 1 - EXTRA  # what an Arrow array can hold
_STEP = 1 << 18  # values read at once
_INDEX = 1 << 16  # bytes of an index that are read with the footer
_PART = 32 << 20  # bytes of values read at once
_PLAIN = DataType(Root.BLOB)


def is_blob(name: str) -> bool:
    """Whether this is the name of a blob file."""
    return name.endswith(f".{BLOB}")


# ---------------------------------------------------------------------------------------------- records


def encoded(*parts: pa.Array) -> tuple[memoryview, Lengths]:
    """The records of binary values one after the other, and the length of each; `NULL` for nulls, which have none.
    `parts`: what a value is put together of, null where the first of them is."""
    wide = [part.cast(pa.large_binary()) for part in parts]
    sizes = sum(
        pc.fill_null(pc.binary_length(part), 0).to_numpy(zero_copy_only=False).astype(np.int64) for part in wide
    )
    lengths: Lengths = np.where(wide[0].is_valid().to_numpy(zero_copy_only=False), sizes + EXTRA, NULL)
    magic, nothing = pa.scalar(_MAGIC, pa.large_binary()), pa.scalar(b"", pa.large_binary())
    ends = fixed(lengths.astype("<i8"))
    summed = pc.binary_join_element_wise(magic, *wide, ends, nothing)
    records = pc.binary_join_element_wise(summed, fixed(_sums(summed)), nothing)
    return binary_content(records), lengths


def _sums(parts: pa.Array) -> npt.NDArray[np.uint32]:
    """CRC-32 of each part; of nulls that of nothing."""
    offsets = binary_bounds(parts)
    view = memoryview(parts.buffers()[2] or b"")
    return np.fromiter(_crcs(view, offsets[:-1], offsets[1:]), np.uint32, len(parts))


def _crcs(view: memoryview, starts: Lengths, ends: Lengths, seeds: npt.NDArray[np.uint32] | None = None) -> map[int]:
    """CRC-32 of parts of a buffer; `map` keeps the loop in C, and each call runs over a whole value."""
    parts = map(view.__getitem__, map(slice, starts.tolist(), ends.tolist()))
    return map(zlib.crc32, parts, repeat(0) if seeds is None else seeds.tolist())


class Record:
    """A record whose value comes in pieces; `close` gives its length."""

    def __init__(self, out: BinaryIO) -> None:
        self._out, self._size, self._sum = out, 0, 0
        self.write(_MAGIC)

    def write(self, piece: bytes | memoryview) -> None:
        """Append a part of the value."""
        self._out.write(piece)
        self._size += len(piece)
        self._sum = zlib.crc32(piece, self._sum)

    def close(self) -> int:
        """End the record."""
        length = self._size + TAIL
        self.write(length.to_bytes(8, "little"))
        self._out.write(self._sum.to_bytes(4, "little"))
        return length


def payloads(data: memoryview, lengths: Lengths, path: str, kind: DataType = _PLAIN) -> pa.Array:
    """The values of records that lie one after the other in `data`, as a column of type `kind` has them.

    Raises CorruptError for what is no record, or not what was written; UnsupportedError for a value of 2 GiB.
    """
    large = lengths.max(initial=0)
    if large > _MOST:
        raise UnsupportedError(
            "a blob of 2 GiB and more cannot be a value",
            path=path,
            bytes=int(large - EXTRA),
            remedy="read it in parts: 'blob-as-descriptor' = 'true' says where it lies",
        )
    ends: Lengths = np.cumsum(lengths)
    if len(data) != (int(ends[-1]) if len(ends) else 0):
        raise CorruptError("a blob file is cut short", path=path, bytes=len(data))
    starts = ends - lengths
    _check(data, starts, ends, path)
    if kind.root is not Root.BLOB:
        return opened(data, starts + HEAD, ends - TAIL, kind, path)
    offsets = pa.py_buffer(np.append(starts, len(data)).astype(np.int64))
    records = pa.Array.from_buffers(pa.large_binary(), len(lengths), [None, offsets, pa.py_buffer(data)])
    return pc.binary_slice(records, HEAD, -TAIL).cast(pa.binary())


def _check(data: memoryview, starts: Lengths, ends: Lengths, path: str) -> None:
    raw = np.frombuffer(data, np.uint8)

    def at(places: Lengths, kind: str) -> npt.NDArray[Any]:
        width = np.dtype(kind).itemsize
        found: npt.NDArray[Any] = raw[places[:, None] + np.arange(width)].view(kind).reshape(-1)
        return found

    if len(starts) == 0:
        return
    good = at(starts, "<u4") == int.from_bytes(_MAGIC, "little")
    good &= at(ends - TAIL, "<i8") == ends - starts
    found = at(ends - 4, "<u4")
    short = np.fromiter(_crcs(data, starts, ends - TAIL), np.uint32, len(starts))
    whole = np.fromiter(_crcs(data, ends - TAIL, ends - 4, short), np.uint32, len(starts))
    good &= (found == whole) | (found == short)
    if not good.all():
        raise CorruptError("a record of a blob file is damaged", path=path, record=int(np.argmin(good)))


# ---------------------------------------------------------------------------------------------- the index


def ending(lengths: Lengths) -> bytes:
    """What closes a file with records of these lengths."""
    index, _ = packed(lengths, np.array([0, len(lengths)]))
    return index + len(index).to_bytes(4, "little") + bytes([_VERSION])


def read_lengths(storage: Storage, path: str, size: int | None, rows: int | None) -> Lengths:
    """The lengths of a file's records, row by row. `size`, `rows`: what its manifest says, None where it does not.

    Raises: NotFoundError, StorageError; CorruptError for what is no such file; UnsupportedError for a newer version.
    """
    with decoding(BROKEN, path):
        info = storage.info(path)
        there = size if info is None else info.size  # where the file is gone, reading says so
        check_size(path, there or 0, size)
        end = (there or 0) - _FOOTER
        tail = storage.read(path, max(end - _INDEX, 0), _INDEX + _FOOTER)
        footer = tail[-_FOOTER:]
        if end < 0 or len(tail) != min(_INDEX, end) + _FOOTER:
            raise CorruptError("a blob file is cut short", path=path, size=there)
        if footer[4] != _VERSION:
            raise UnsupportedError("blob file of another version", path=path, version=footer[4], known=_VERSION)
        length = int.from_bytes(footer[:4], "little", signed=True)
        if not 0 <= length <= end:
            raise CorruptError("the index of a blob file has no such length", path=path, length=length, size=there)
        if length > len(tail) - _FOOTER:
            tail = storage.read(path, end - length, length + _FOOTER)
        return _lengths(tail[-_FOOTER - length : -_FOOTER], end - length, rows, path)


def read_values(
    storage: Storage, path: str, size: int | None, rows: int | None, kind: DataType = _PLAIN
) -> Iterator[tuple[int, pa.Array]]:
    """All values of a file in parts of bounded size, each with the number of its first; placeholders as nulls. Errors:
    as `read_lengths` and `payloads`."""
    lengths = read_lengths(storage, path, size, rows)
    ends = np.cumsum(np.maximum(lengths, 0))
    start, done = 0, 0
    while start < len(lengths):
        end = max(start + 1, min(int(np.searchsorted(ends, done + _PART, side="right")), start + _STEP))
        part, stop = lengths[start:end], int(ends[end - 1])
        with decoding(BROKEN, path):
            held = part >= 0
            data = storage.read(path, done, stop - done) if stop > done else b""
            order = np.cumsum(held) - 1
            yield start, payloads(memoryview(data), part[held], path, kind).take(pa.array(order, mask=~held))
        start, done = end, stop


def _lengths(index: bytes, space: int, rows: int | None, path: str) -> Lengths:
    """Lengths of records that fill `space` bytes."""
    lengths, _ = unpacked(np.frombuffer(index, np.uint8), np.array([len(index)]))
    if rows is not None and len(lengths) != rows:
        raise CorruptError(
            "a blob file has a different number of values than its manifest says", path=path, recorded=rows
        )
    if not len(lengths):
        return lengths
    wrong = (lengths < PLACEHOLDER) | ((lengths >= 0) & (lengths < EXTRA)) | (lengths > space)
    sums = np.cumsum(np.maximum(lengths, 0).astype(np.float64))  # beyond 2^53 it is no longer exact, and far too much
    if wrong.any() or sums[-1] > 2.0**62 or int(np.maximum(lengths, 0).sum()) != space:
        raise CorruptError("the index of a blob file does not fit its records", path=path, bytes=space)
    return lengths
