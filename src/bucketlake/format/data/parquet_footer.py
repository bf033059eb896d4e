"""Parquet footers edited where pyarrow's writer or reader cannot say what Paimon's files say.

Paimon writes INT96 for timestamps of precision 7 to 9 only; pyarrow writes it for all timestamps or none. So files that
mix both are written with plain INT64 columns, which `annotate_timestamps` labels in the footer. And pyarrow's INT96
wraps around silently outside of 64-bit nanoseconds: `int96_as_bytes` makes such columns 12-byte binaries, which hold
the same pages, and `int96_to_timestamps` decodes them exactly.

Spec: docs/spec/datafile.md#parquet-footers
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.format.data import thrift
from bucketlake.lazy import pq
from bucketlake.types.model import DataType, Root

MAGIC = b"PAR1"
INT96, FIXED = 3, 7
INT96_WIDTH = 12
_JULIAN_EPOCH = 2_440_588
_UNITS = {"ms": (1, 9), "us": (2, 10)}  # logical unit, legacy converted type
_PER_DAY = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_WRAPPED = 1e15  # far above what rounding to floats moves, far below 2^64
_NANOS = {"ms": 1_000_000, "us": 1_000, "ns": 1}


def is_nanos(t: DataType) -> bool:
    """Whether the type is a timestamp that needs nanoseconds: INT96 in parquet files."""
    return t.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ) and (6 if t.precision is None else t.precision) > 6


def is_timestamp(t: DataType) -> bool:
    """With or without a zone."""
    return t.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)


def annotate_timestamps(tail: bytes, leaves: Mapping[int, tuple[str, bool]]) -> bytes:
    """The end of a parquet file (with all of its footer) where INT64 leaves have become timestamps.

    `leaves`: by number of the leaf column, unit "ms" or "us" and whether it is an instant (adjusted to UTC).
    """
    start, footer = split_tail(tail)
    tree = thrift.decode_struct(footer)
    found = [element for element in thrift.get(tree, 2)[1] if thrift.get(element, 5) is None]
    for number, (unit, instant) in leaves.items():
        code, converted = _UNITS[unit]
        if instant:
            thrift.put(found[number], 6, thrift.I32, converted)
        kind = [[1, thrift.TRUE, instant], [2, thrift.STRUCT, [[code, thrift.STRUCT, []]]]]
        thrift.put(found[number], 10, thrift.STRUCT, [[8, thrift.STRUCT, kind]])
    return tail[:start] + closed(thrift.encode_struct(tree))


def int96_as_bytes(file: BinaryIO) -> pq.FileMetaData:
    """The footer of an open parquet file, its INT96 columns declared as binaries of 12 bytes."""
    file.seek(0, 2)
    size = file.tell()
    file.seek(max(size - 8, 0))
    length = struct.unpack("<I", file.read(8)[:4])[0]
    file.seek(max(size - 8 - length, 0))
    _, footer = split_tail(file.read())
    tree = thrift.decode_struct(footer)
    for element in thrift.get(tree, 2)[1]:
        if thrift.get(element, 1) == INT96 and thrift.get(element, 5) is None:
            thrift.put(element, 1, thrift.I32, FIXED)
            thrift.put(element, 2, thrift.I32, INT96_WIDTH)
    for group in thrift.get(tree, 4)[1]:
        for column in thrift.get(group, 1)[1]:
            meta = thrift.get(column, 3)
            if meta is not None and thrift.get(meta, 1) == INT96:
                thrift.put(meta, 1, thrift.I32, FIXED)
                thrift.remove(meta, 12)
                thrift.remove(column, 4, 5, 6, 7)
    return pq.read_metadata(pa.BufferReader(MAGIC + closed(thrift.encode_struct(tree))))


def int96_to_timestamps(array: pa.Array, target: pa.TimestampType) -> pa.Array:
    """INT96 values (nanoseconds of the day, Julian day) as timestamps, cut to the target's unit.

    Nanoseconds before 0 are what Paimon writes ahead of 1970. Raises: UnsupportedError for what 64 bits do not hold.
    """
    valid = np.asarray(array.is_valid())
    raw = np.frombuffer(array.buffers()[1] or b"", np.uint8)
    raw = raw[array.offset * INT96_WIDTH : (array.offset + len(array)) * INT96_WIDTH].reshape(-1, INT96_WIDTH)
    nanos = np.ascontiguousarray(raw[:, :8]).view("<i8").reshape(-1)
    days = np.ascontiguousarray(raw[:, 8:]).view("<i4").reshape(-1).astype(np.int64) - _JULIAN_EPOCH
    parts = np.floor_divide(nanos, _NANOS[target.unit])
    per_day = _PER_DAY[target.unit]
    values = days * per_day + parts
    rough = days.astype(np.float64) * per_day + parts
    outside = valid & (np.abs(values - rough) > _WRAPPED)
    if outside.any():
        raise UnsupportedError(
            "timestamp does not fit 64-bit nanoseconds", days=int(days[outside][0]), precision=target.unit
        )
    values[~valid] = 0
    return pa.Array.from_buffers(target, len(array), [pa.array(valid).buffers()[1], pa.py_buffer(values)])


def split_tail(tail: bytes) -> tuple[int, bytes]:
    """Where the footer begins in the last bytes of a parquet file, and the footer. CorruptError without one."""
    if len(tail) < 8 or tail[-4:] != MAGIC:
        raise CorruptError("not a parquet file: no footer")
    length = struct.unpack("<I", tail[-8:-4])[0]
    start = len(tail) - 8 - length
    if start < 0:
        raise CorruptError("not a parquet file: the footer is cut off")
    return start, tail[start:-8]


def closed(footer: bytes) -> bytes:
    """A footer with what ends a file."""
    return footer + struct.pack("<I", len(footer)) + MAGIC
