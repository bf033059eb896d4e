"""Thrift's compact protocol as a tree, as far as parquet footers use it: read, change a field, write again.

    struct = (field header, value)* 0        header = (id delta << 4 | type), or type, zigzag id
    list   = (size << 4 | type), or (0xF0 | type), varint size; then values
    int    = zigzag varint     binary = varint length, bytes     double = 8 bytes     bool = in the header's type

A struct is a list of [field id, type, value] in ascending order of ids, a list the tuple (element type, values).

Spec: docs/spec/datafile.md#parquet-footers
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

from bucketlake.errors import CorruptError
from bucketlake.format.varints import varint

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12
_BOOLS, _INTS, _LISTS = (TRUE, FALSE), (I16, I32, I64), (LIST, SET)
_LONG_LIST = 15
_LONGEST = 70  # bits of a varint: ten bytes of seven

Struct = list[list[Any]]


def get(struct: Struct, number: int) -> Any:
    """A field's value, None if it is absent. Lists are (element type, values)."""
    return next((value for found, _, value in struct if found == number), None)


def put(struct: Struct, number: int, kind: int, value: Any) -> None:
    """Give a field a value, in its place among the others."""
    remove(struct, number)
    struct.append([number, kind, value])
    struct.sort(key=lambda item: item[0])


def remove(struct: Struct, *numbers: int) -> None:
    """Take fields away; absent is fine."""
    struct[:] = [item for item in struct if item[0] not in numbers]


def decode_struct(data: bytes) -> Struct:
    """The struct that the bytes begin with. Raises: CorruptError."""
    try:
        return _Reader(data).struct()
    except IndexError as error:
        raise CorruptError("a thrift struct ends early", size=len(data)) from error


def encode_struct(struct: Struct) -> bytes:
    """The bytes of a struct."""
    out = bytearray()
    _write_struct(out, struct)
    return bytes(out)


class _Bytes:
    """Bytes that are read one after the other; IndexError past the end."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def _byte(self) -> int:
        found = self._data[self._at]
        self._at += 1
        return found

    def _varint(self) -> int:
        found = shift = 0
        while True:
            part = self._byte()
            found |= (part & 127) << shift
            if part < 128:
                return found
            shift += 7
            if shift >= _LONGEST:
                raise CorruptError("a thrift number of more than 64 bits")

    def _int(self) -> int:
        raw = self._varint()
        return (raw >> 1) ^ -(raw & 1)


class Walk(_Bytes):
    """A struct's fields one after the other, as far as they are wanted: what is passed over is not decoded, which takes
    a third of the time. IndexError past the end."""

    __slots__ = ()

    def fields(self, wanted: Container[int]) -> Iterator[tuple[int, int]]:
        """(id, type) of the wanted fields of the struct that begins here; whoever asks goes over the value, by
        `fields`, `size`, `values` or `skip`, before the next."""
        number = 0
        while header := self._byte():
            delta = header >> 4
            number = number + delta if delta else self._int()
            if number in wanted:
                yield number, header & 15
            else:
                self.skip(header & 15)

    def values(self) -> Iterator[int]:
        """The place of each of a list's values, which the asker goes over; their type is known."""
        size = self._byte() >> 4
        yield from range(self._varint() if size == _LONG_LIST else size)

    def size(self) -> int:
        """Go over a binary: how many bytes it has."""
        size = self._varint()
        self._at += size
        return size

    def skip(self, kind: int) -> None:
        """Go over a value."""
        self._at = _end(self._data, self._at, kind)


def _end(data: bytes, at: int, kind: int) -> int:
    """Where a value ends."""
    if kind in _INTS:
        while data[at] > 127:
            at += 1
        return at + 1
    if kind == BINARY or kind in _LISTS:
        size, inner = (_LONG_LIST, BINARY) if kind == BINARY else (data[at] >> 4, data[at] & 15)
        at += kind != BINARY
        if size == _LONG_LIST:
            size, shift = data[at] & 127, 7
            while data[at] > 127:
                at += 1
                size |= (data[at] & 127) << shift
                shift += 7
            at += 1
        if kind == BINARY:
            return at + size
        for _ in range(size):
            at = _end(data, at, BYTE if inner in _BOOLS else inner)
        return at
    if kind != STRUCT:
        return at if kind in _BOOLS else at + (8 if kind == DOUBLE else 1)
    while header := data[at]:
        at += 1
        if header < 16:
            at = _end(data, at, I64)
        header &= 15
        if header in _INTS:
            while data[at] > 127:
                at += 1
            at += 1
        elif header not in _BOOLS:
            at = _end(data, at, header)
    return at + 1


class _Reader(_Bytes):
    """Reads values one after the other."""

    def struct(self) -> Struct:
        found: Struct = []
        number = 0
        while header := self._byte():
            kind, delta = header & 15, header >> 4
            number = number + delta if delta else self._int()
            found.append([number, kind, kind == TRUE if kind in _BOOLS else self._value(kind)])
        return found

    def _value(self, kind: int) -> Any:
        if kind in _INTS:
            return self._int()
        if kind == BINARY:
            return self._bytes(self._varint())
        if kind == STRUCT:
            return self.struct()
        if kind in _LISTS:
            return self._list()
        if kind == DOUBLE:
            return self._bytes(8)
        if kind in (BYTE, *_BOOLS):
            return self._byte()
        raise CorruptError("unknown thrift type", type=kind)

    def _list(self) -> tuple[int, list[Any]]:
        header = self._byte()
        kind, size = header & 15, header >> 4
        if size == _LONG_LIST:
            size = self._varint()
        return kind, [self._value(kind) for _ in range(size)]

    def _bytes(self, size: int) -> bytes:
        found = self._data[self._at : self._at + size]
        if len(found) < size:
            raise IndexError(size)
        self._at += size
        return found


def _write_struct(out: bytearray, struct: Struct) -> None:
    last = 0
    for number, kind, value in struct:
        wire = (TRUE if value else FALSE) if kind in _BOOLS else kind
        if 0 < number - last <= 15:
            out.append((number - last) << 4 | wire)
        else:
            out.append(wire)
            _write_int(out, number)
        last = number
        if kind not in _BOOLS:
            _write_value(out, kind, value)
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in _INTS:
        _write_int(out, value)
    elif kind == BINARY:
        out += varint(len(value))
        out += value
    elif kind == STRUCT:
        _write_struct(out, value)
    elif kind in _LISTS:
        _write_list(out, *value)
    elif kind == DOUBLE:
        out += value
    else:
        out.append(value)


def _write_list(out: bytearray, kind: int, values: list[Any]) -> None:
    if len(values) < _LONG_LIST:
        out.append(len(values) << 4 | kind)
    else:
        out.append(_LONG_LIST << 4 | kind)
        out += varint(len(values))
    for value in values:
        _write_value(out, kind, value)


def _write_int(out: bytearray, value: int) -> None:
    out += varint(value << 1 if value >= 0 else ~(value << 1))
