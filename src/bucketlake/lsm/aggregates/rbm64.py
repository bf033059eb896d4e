"""64-bit Roaring bitmaps as Java's `Roaring64Bitmap` serializes them (RoaringBitmap 1.x), to and from pyroaring.

    decode(data) -> BitMap64      encode(bitmap) -> bytes

Numbers are little-endian unless said otherwise; a value's high 48 bits are a key, its low 16 bits lie in a container.

    bitmap     := 0 (u8), if empty | 1 (u8) keys:u64 node* arrays
    node       := type:u8 count:u16 prefix_length:u8 prefix:bytes body     keys in pre-order, children by byte
        type 0 to 3, a branch of up to 4, 16, 48, 256 children; its children follow it
            0      body is 4 bytes, last child first        1      body is two u64 of 8 bytes each, last child first
            2      body is 256 bytes in u64s, last first: byte -> number of the child, 255 for none
            3      body is 256 bits in u64s
        type 4, a leaf; count and prefix length are 0; body is the whole key:6 bytes big-endian, container:u64
    arrays     := number:i32 array* containers:u64 last_array:i32 last_slot:i32
    array      := -2 (i8) slots:i32 slot*
    slot       := 0 (u8) | 1 (u8) kind:u8 cardinality:i32 container      a leaf's number is array << 32 | slot
    container  := kind 0: runs:u16, (first:u16 length - 1:u16)* | 1: 1024 u64 of bits | 2: the values, u16 each

Containers lie as they do in the portable format that pyroaring reads, so only what surrounds them is rewritten.
Written trees have the smallest branches that hold their children, and one array without empty slots.

Spec: docs/spec/aggregates.md#rbm64
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from pyroaring import BitMap64

__all__ = ["decode", "encode"]

_RUN, _BITS, _VALUES = range(3)
_LEAF = 4
_BODIES = (4, 16, 256, 32)
_CHILDREN = (4, 16, 48, 256)
_BITS_SIZE = 8192
_PLAIN, _WITH_RUNS = 12346, 12347
_OFFSETS_FROM = 4


class _Container(NamedTuple):
    kind: int
    cardinality: int
    data: bytes


def decode(data: bytes) -> BitMap64:
    """The bitmap of its bytes. Raises ValueError for bytes that are none."""
    try:
        return BitMap64.deserialize(_portable(_containers(data)))
    except (struct.error, LookupError) as error:
        raise ValueError("not a serialized 64-bit Roaring bitmap") from error


def encode(bitmap: BitMap64) -> bytes:
    """The bytes of a bitmap; containers in the form that pyroaring holds them in."""
    containers = dict(_parsed(bitmap.serialize()))
    if not containers:
        return b"\0"
    keys = sorted(containers)
    numbers = {key: number for number, key in enumerate(keys)}
    parts = [struct.pack("<BQ", 1, len(keys)), *_nodes([key.to_bytes(6, "big") for key in keys], 0, numbers)]
    parts.append(struct.pack("<ibi", 1, -2, len(keys)))
    for key in keys:
        kind, cardinality, body = containers[key]
        parts += [struct.pack("<BBi", 1, kind, cardinality), body]
    parts.append(struct.pack("<Qii", len(keys), 0, len(keys) - 1))
    return b"".join(parts)


def _containers(data: bytes) -> dict[int, _Container]:
    """Containers by key."""
    if data[0] == 0:
        return {}
    if data[0] != 1:
        raise ValueError("not a serialized 64-bit Roaring bitmap")
    (count,) = struct.unpack_from("<Q", data, 1)
    at, leaves = 9, dict[int, int]()
    while len(leaves) < count:
        kind, prefix = data[at], data[at + 3]
        at += 4 + prefix
        if kind == _LEAF:
            leaves[int.from_bytes(data[at : at + 6], "big")] = struct.unpack_from("<Q", data, at + 6)[0]
            at += 14
        else:
            at += _BODIES[kind]
    slots = _slots(data, at)
    return {key: slots[number] for key, number in leaves.items()}


def _slots(data: bytes, at: int) -> dict[int, _Container]:
    (arrays,) = struct.unpack_from("<i", data, at)
    at += 4
    found = {}
    for array in range(arrays):
        (size,) = struct.unpack_from("<i", data, at + 1)
        at += 5
        for slot in range(size):
            used, at = data[at], at + 1
            if used:
                kind, cardinality = struct.unpack_from("<Bi", data, at)
                at += 5
                length = _length(kind, cardinality, data, at)
                if length < 0:  # it would lead back to where it was read, as often as the array says
                    raise ValueError("not a serialized 64-bit Roaring bitmap")
                found[array << 32 | slot] = _Container(kind, cardinality, data[at : at + length])
                at += length
    return found


def _length(kind: int, cardinality: int, data: bytes, at: int) -> int:
    if kind == _RUN:
        return 2 + 4 * int(struct.unpack_from("<H", data, at)[0])
    return _BITS_SIZE if kind == _BITS else 2 * cardinality


def _nodes(keys: Sequence[bytes], depth: int, numbers: dict[int, int]) -> Iterator[bytes]:
    """The tree of sorted keys that share their first `depth` bytes, in pre-order."""
    if len(keys) == 1:
        key = keys[0]
        yield struct.pack("<BHB6sQ", _LEAF, 0, 0, key, numbers[int.from_bytes(key, "big")])
        return
    shared = depth
    while keys[0][shared] == keys[-1][shared]:
        shared += 1
    children = [(byte, list(group)) for byte, group in groupby(keys, key=lambda key: key[shared])]
    yield _branch([byte for byte, _ in children], keys[0][depth:shared])
    for _, group in children:
        yield from _nodes(group, shared + 1, numbers)


def _branch(children: Sequence[int], prefix: bytes) -> bytes:
    kind = next(kind for kind, most in enumerate(_CHILDREN) if len(children) <= most)
    head = struct.pack("<BHB", kind, len(children), len(prefix)) + prefix
    if kind == 3:
        return head + sum(1 << byte for byte in children).to_bytes(32, "little")
    body = bytearray(b"\xff" * 256 if kind == 2 else bytes(_BODIES[kind]))
    for number, byte in enumerate(children):
        body[byte if kind == 2 else number] = number if kind == 2 else byte
    word = 4 if kind == 0 else 8
    return head + b"".join(body[at : at + word][::-1] for at in range(0, len(body), word))


def _portable(containers: dict[int, _Container]) -> bytes:
    """The portable serialization of a 64-bit bitmap: 32-bit bitmaps by the high 32 bits of their values."""
    keys = sorted(containers)
    halves = [(high, list(group)) for high, group in groupby(keys, key=lambda key: key >> 16)]
    parts = [struct.pack("<Q", len(halves))]
    for high, group in halves:
        parts += [struct.pack("<I", high), *_portable_32([(key & 0xFFFF, containers[key]) for key in group])]
    return b"".join(parts)


def _portable_32(containers: Sequence[tuple[int, _Container]]) -> list[bytes]:
    count = len(containers)
    runs = sum(1 << at for at, (_, one) in enumerate(containers) if one.kind == _RUN)
    if runs:
        head = struct.pack("<I", _WITH_RUNS | count - 1 << 16) + runs.to_bytes((count + 7) // 8, "little")
    else:
        head = struct.pack("<II", _PLAIN, count)
    head += b"".join(struct.pack("<HH", key, one.cardinality - 1) for key, one in containers)
    if not runs or count >= _OFFSETS_FROM:
        offset = len(head) + 4 * count
        for _, one in containers:
            head += struct.pack("<I", offset)
            offset += len(one.data)
    return [head, *(one.data for _, one in containers)]


def _parsed(data: bytes) -> Iterator[tuple[int, _Container]]:
    """The containers of a portable serialization with their keys."""
    (halves,) = struct.unpack_from("<Q", data)
    at = 8
    for _ in range(halves):
        high, cookie = struct.unpack_from("<II", data, at)
        at += 8
        runs = 0
        if cookie & 0xFFFF == _WITH_RUNS:
            count = (cookie >> 16) + 1
            size = (count + 7) // 8
            runs, at = int.from_bytes(data[at : at + size], "little"), at + size
        else:
            (count,) = struct.unpack_from("<I", data, at)
            at += 4
        heads = [struct.unpack_from("<HH", data, at + 4 * i) for i in range(count)]
        at += 4 * count
        if not runs or count >= _OFFSETS_FROM:
            at += 4 * count
        for i, (key, less) in enumerate(heads):
            kind = _RUN if runs >> i & 1 else _VALUES if less < 4096 else _BITS
            length = _length(kind, less + 1, data, at)
            yield high << 16 | key, _Container(kind, less + 1, data[at : at + length])
            at += length
