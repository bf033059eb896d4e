"""Bitmap index: the rows of every distinct value of one column of one file.

    bitmap v2 := 2: u8, rows: i32, values: i32, has null: u8, [null offset: i32, null length: i32],
                 blocks: i32, (first key, block offset: i32)*, body offset: i32, block*, bitmap*
    block     := entries: i32, (key, offset: i32, length: i32)*     at most `index-block-size` bytes, keys ascending
    bitmap v1 := 1: u8, rows: i32, values: i32, has null: u8, [null offset: i32], (key, offset: i32)*, bitmap*

Big-endian. Block offsets count from the first block, bitmap offsets from the first bitmap. A negative offset -1 - row
stands for that single row, without a bitmap; its length is -1. The bitmap of nulls comes first.

Spec: docs/spec/file_index.md#bitmap
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from pyroaring import BitMap

from bucketlake.format.file_index.keys import Keys, distinct, places, read_key, records
from bucketlake.format.roaring import read_bitmap, serialize_bitmap, serialize_bitmaps
from bucketlake.lazy import np, npt, pa
from bucketlake.types.model import DataType

Ints = npt.NDArray["np.int64"]


def encode_bitmap(chunks: Sequence[pa.Array], kind: DataType, version: int, block_size: int) -> bytes:
    """The index of a column given as canonical arrays. `block_size`: bytes of a block of version 2."""
    found = distinct(chunks, kind)
    counts = np.bincount(found.codes + 1, minlength=len(found.keys) + 1)
    rows = np.argsort(found.codes, kind="stable")
    nulls, rows = rows[: counts[0]], rows[counts[0] :]
    starts = np.append(0, np.cumsum(counts[1:]))
    many = counts[1:] > 1
    kept = np.repeat(many, counts[1:])
    bodies, ends = serialize_bitmaps(rows[kept], np.append(0, np.cumsum(counts[1:][many])))

    null_body = serialize_bitmap(nulls)
    shift = len(null_body) if len(nulls) > 1 else 0
    offsets, lengths = -1 - rows[starts[:-1]], np.full(len(found.keys), -1, np.int64)
    offsets[many] = ends[:-1] + shift
    lengths[many] = np.diff(ends)

    head = struct.pack(">biib", version, len(found.codes), len(found.keys), len(nulls) > 0)
    null_offset = 0 if len(nulls) != 1 else -1 - int(nulls[0])
    if version == 1:
        head += struct.pack(">i", null_offset) if len(nulls) else b""
        head += records((), found.keys, (offsets,)).data.tobytes()
    else:
        head += struct.pack(">ii", null_offset, len(null_body)) if len(nulls) else b""
        head += _blocks(found.keys, offsets, lengths, block_size)
    return head + (null_body if len(nulls) > 1 else b"") + bodies.tobytes()


def _blocks(keys: Keys, offsets: Ints, lengths: Ints, limit: int) -> bytes:
    """The directory of blocks and the blocks; every block holds at least one entry."""
    entries = records((), keys, (offsets, lengths))
    starts = [0] if len(keys) else []
    while starts:
        reach = int(np.searchsorted(entries.offsets, entries.offsets[starts[-1]] + limit - 4, side="right")) - 1
        following = max(reach, starts[-1] + 1)
        if following >= len(keys):
            break
        starts.append(following)
    firsts = np.array(starts, np.int64)
    sizes = np.diff(np.append(firsts, len(keys)))
    bounds = np.append(entries.offsets[firsts], entries.offsets[-1]) if starts else np.zeros(1, np.int64)
    blocks = records((sizes,), Keys(entries.data, bounds))
    directory = records((), keys.take(firsts), (blocks.offsets[:-1],))
    body = struct.pack(">i", int(blocks.offsets[-1])) + blocks.data.tobytes()
    return struct.pack(">i", len(firsts)) + directory.data.tobytes() + body


class BitmapIndex:
    """An index that was read. ValueError or struct.error if it is none."""

    def __init__(self, data: bytes, kind: DataType) -> None:
        self._data, self._kind = data, kind
        version, self.rows, self._count, has_null = struct.unpack_from(">biib", data)
        if version not in (1, 2):
            raise ValueError(f"bitmap index has version {version}")
        at = 10
        self._null: tuple[int, int] | None = None
        if has_null:
            (offset,) = struct.unpack_from(">i", data, at)
            length = struct.unpack_from(">i", data, at + 4)[0] if version == 2 else -1
            self._null = offset, length
            at += 8 if version == 2 else 4
        self._entries: dict[Any, tuple[int, int]] | None = None
        self._firsts: list[Any] = []
        self._places: list[int] = []
        if version == 1:
            self._entries = self._read_all(at)
        else:
            self._read_directory(at)

    def _read_all(self, at: int) -> dict[Any, tuple[int, int]]:
        found: dict[Any, tuple[int, int]] = {}
        for _ in range(self._count):
            key, at = read_key(self._data, at, self._kind)
            found[key] = (struct.unpack_from(">i", self._data, at)[0], -1)
            at += 4
        self._body = at
        return found

    def _read_directory(self, at: int) -> None:
        (blocks,) = struct.unpack_from(">i", self._data, at)
        at += 4
        for _ in range(blocks):
            key, at = read_key(self._data, at, self._kind)
            self._firsts.append(key)
            self._places.append(struct.unpack_from(">i", self._data, at)[0])
            at += 4
        self._blocks = at + 4
        self._body = self._blocks + int(struct.unpack_from(">i", self._data, at)[0])

    def _entry(self, key: Any) -> tuple[int, int] | None:
        if self._entries is not None:
            return self._entries.get(key)
        block = bisect_right(self._firsts, key) - 1
        if block < 0:
            return None
        at = self._blocks + self._places[block]
        (entries,) = struct.unpack_from(">i", self._data, at)
        at += 4
        for _ in range(entries):
            found, at = read_key(self._data, at, self._kind)
            if found == key:
                offset, length = struct.unpack_from(">ii", self._data, at)
                return offset, length
            at += 8
        return None

    def _bitmap(self, entry: tuple[int, int] | None) -> BitMap:
        if entry is None:
            return BitMap()
        offset, length = entry
        if offset < 0:
            return BitMap([-1 - offset])
        end = None if length < 0 else self._body + offset + length
        found, last = read_bitmap(self._data, self._body + offset)
        if end is not None and last > end:
            raise ValueError("a bitmap is longer than the directory says")
        return found

    def equal(self, literal: Any) -> BitMap | None:
        """Rows that equal the literal, None where it cannot be told."""
        at = places(literal, self._kind)
        if at is None:
            return None
        return BitMap.union(BitMap(), *(self._bitmap(self._entry(key)) for key in dict.fromkeys(at)))

    def known(self) -> BitMap:
        """Rows that are not null."""
        return BitMap(range(self.rows)) - self._bitmap(self._null)

    def compare(self, op: str, literal: Any) -> BitMap | None:
        """None: the index knows no order."""
        return None
