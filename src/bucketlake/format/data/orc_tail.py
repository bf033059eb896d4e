"""The parts of an ORC file that say where its streams lie, as trees: read, change, write again.

    file   := "ORC", stripe*, metadata, footer, postscript, length of the postscript (1 byte)
    stripe := streams, in the order of its footer; stripe footer
    message (protobuf) := (varint number << 3 | wire, value)*
    framed := (3 bytes length << 1 | plain, bytes)*   where the file has a codec, else the bytes themselves

A message is a list of [field number, wire type, value]: ints of wire type 0, else bytes; messages within are bytes.

Spec: docs/spec/datafile.md#orc
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Container, Iterable, Mapping
from dataclasses import field
from typing import Any, BinaryIO

import pyarrow as pa

from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.format.varints import varint
from bucketlake.lazy import pa_orc
from bucketlake.values import dataclass

MAGIC = b"ORC"
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED = {FIXED64: 8, FIXED32: 4}
_LONGEST = 70  # bits of a varint: ten bytes of seven
_HEADER = 3  # of a chunk
_MOST_CHUNK = 64 << 20
_MOST_PLAIN = 1 << 30  # of one message, as in ORC for Java: statistics hold the least and the greatest text whole
_MOST_ROWS = (1 << 63) - 1
_MOST_DIGITS = 38
_MOST_FIELDS = 1 << 18  # a footer has some for each column and stripe
NONE, ZLIB, SNAPPY, LZ4, ZSTD = 0, 1, 2, 4, 5
LONG, TIMESTAMP, DECIMAL, TIMESTAMP_INSTANT = 4, 9, 14, 18
PRESENT, DATA, SECONDARY, ROW_INDEX, FIRST_INDEX = 0, 1, 5, 6, 6
LAST_INDEX = 8
_NOTES = 5

Message = list[list[Any]]


def parse(data: bytes) -> Message:
    """A message's fields. Raises: CorruptError."""
    found: Message = []
    at = 0
    while at < len(data):
        if len(found) >= _MOST_FIELDS:
            raise CorruptError("orc message of too many fields", limit=_MOST_FIELDS)
        key, at = _varint(data, at)
        wire = key & 7
        if wire == VARINT:
            value, at = _varint(data, at)
            found.append([key >> 3, wire, value])
            continue
        if wire == BYTES:
            size, at = _varint(data, at)
        elif wire in _FIXED:
            size = _FIXED[wire]
        else:
            raise CorruptError("orc message of an unknown wire type", wire=wire)
        if size > len(data) - at:
            raise CorruptError("orc message is cut off", size=size, left=len(data) - at)
        found.append([key >> 3, wire, data[at : at + size]])
        at += size
    return found


def encode(message: Message) -> bytes:
    """The bytes of a message."""
    out = bytearray()
    for number, wire, value in message:
        out += varint(number << 3 | wire)
        if wire == VARINT:
            out += varint(value)
        else:
            out += (varint(len(value)) if wire == BYTES else b"") + value
    return bytes(out)


def numbers(message: Message, number: int) -> list[int]:
    """The values of a repeated number, packed or not."""
    found: list[int] = []
    for kind, wire, value in message:
        if kind != number:
            continue
        if wire == VARINT:
            found.append(value)
            continue
        at = 0
        while at < len(value):
            one, at = _varint(value, at)
            found.append(one)
    return found


def number_of(message: Message, number: int) -> int:
    """A number, 0 if it is absent; the last of several."""
    found = [value for kind, wire, value in message if kind == number and wire == VARINT]
    return found[-1] if found else 0


def parts_of(message: Message, number: int) -> list[bytes]:
    """The values of a repeated text or message."""
    return [value for kind, wire, value in message if kind == number and wire == BYTES]


def replaced(message: Message, values: Mapping[int, int | bytes | list[bytes]]) -> Message:
    """The message with other values of some fields; several for a sequence."""
    kept = [item for item in message if item[0] not in values]
    for number, value in values.items():
        if isinstance(value, int):
            kept.append([number, VARINT, value])
        else:
            kept.extend([number, BYTES, one] for one in ([value] if isinstance(value, bytes) else value))
    return sorted(kept, key=lambda item: item[0])


def noted(footer: Message, notes: Mapping[str, str]) -> Message:
    """A file's footer with texts of its user by key."""
    told = [encode([[1, BYTES, key.encode()], [2, BYTES, value.encode()]]) for key, value in notes.items()]
    return replaced(footer, {_NOTES: [*parts_of(footer, _NOTES), *told]})


def packed(values: Iterable[int]) -> bytes:
    """The bytes of a packed field of numbers."""
    return b"".join(map(varint, values))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while at < len(data) and shift < _LONGEST:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7
    raise CorruptError("orc message with a broken number", size=len(data))


@dataclass(frozen=True, slots=True)
class Kind:
    """One node of a file's types, which are numbered in the order of their tree: its kind, its children's numbers, and
    their names if it is a struct."""

    kind: int
    children: tuple[int, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stream:
    """Bytes of one column of a stripe."""

    kind: int
    column: int
    data: bytes

    @property
    def is_index(self) -> bool:
        """Whether it stands in the part of a stripe that only helps to skip rows."""
        return is_index(self.kind)


def is_index(kind: int) -> bool:
    """Whether streams of this kind only help to skip rows."""
    return FIRST_INDEX <= kind <= LAST_INDEX


@dataclass(frozen=True, slots=True)
class Stripe:
    """Streams with what their footer says of them. `zone`: the writer's time zone, "" if it says none."""

    rows: int
    streams: tuple[Stream, ...]
    footer: Message = field(default_factory=list)

    @property
    def zone(self) -> str:
        """The time zone in which its writer was."""
        return b"".join(parts_of(self.footer, 3)[-1:]).decode()

    def encoded(self, tail: Tail, at: int) -> tuple[bytes, bytes]:
        """Its bytes, framed as a file's are, and what the file's footer says of them. `at`: where they will stand."""
        ordered = sorted(self.streams, key=lambda one: not one.is_index)
        told = [numbered(one.kind, one.column, len(one.data)) for one in ordered]
        footer = tail.framed(encode(replaced(self.footer, {1: told})))
        index = sum(len(one.data) for one in ordered if one.is_index)
        data = sum(len(one.data) for one in ordered) - index
        body = b"".join([*(one.data for one in ordered), footer])
        return body, numbered(at, index, data, len(footer), self.rows)


def numbered(*values: int) -> bytes:
    """A message of numbers, the first of them in field 1."""
    return encode([[at, VARINT, value] for at, value in enumerate(values, 1)])


@dataclass(frozen=True, slots=True)
class Tail:
    """What stands behind a file's stripes. `body`: how many bytes stand before it."""

    body: int
    postscript: Message
    footer: Message
    metadata: Message

    @property
    def codec(self) -> int:
        """The number of the compression."""
        return number_of(self.postscript, 2)

    @property
    def block(self) -> int:
        """The most that a chunk unpacks to."""
        return number_of(self.postscript, 3)

    def kinds(self) -> list[Kind]:
        """The types: the first is that of a row. Raises: CorruptError where they are no tree in order."""
        found = []
        for at, data in enumerate(parts_of(self.footer, 4)):
            message = parse(data)
            names = tuple(name.decode() for name in parts_of(message, 3))
            found.append(Kind(number_of(message, 1), tuple(numbers(message, 2)), names))
            if any(child <= at for child in found[-1].children):
                raise CorruptError("orc types are not in order", type=at)
        if not found or any(child >= len(found) for one in found for child in one.children):
            raise CorruptError("orc types are not a tree", types=len(found))
        return found

    def framed(self, data: bytes) -> bytes:
        """A message as the file holds it, uncompressed."""
        if self.codec == NONE:
            return data
        step = max(min(self.block, (1 << 23) - 1), 1)
        chunks = (data[start : start + step] for start in range(0, len(data), step))
        return b"".join((len(chunk) << 1 | 1).to_bytes(_HEADER, "little") + chunk for chunk in chunks)

    def closed(self, footer: Message, metadata: Message) -> bytes:
        """The end of a file with this one's codec and version."""
        told, about = self.framed(encode(metadata)), self.framed(encode(footer))
        end = encode(replaced(self.postscript, {1: len(about), 5: len(told), 7: []}))
        return told + about + end + bytes([len(end)])


def read_tail(file: BinaryIO) -> Tail:
    """The tail of an open file. Raises: CorruptError, UnsupportedError for a codec that no reader here has."""
    size, end, postscript = _postscript(file)
    footer, metadata = number_of(postscript, 1), number_of(postscript, 5)
    tail = Tail(end - footer - metadata, postscript, [], [])
    return Tail(
        tail.body,
        postscript,
        parse(unpacked(tail, _at(file, end - footer, footer, size))),
        parse(unpacked(tail, _at(file, end - footer - metadata, metadata, size))),
    )


def _postscript(file: BinaryIO) -> tuple[int, int, Message]:
    """The size of a file, where its postscript begins, and that."""
    size = file.seek(0, 2)
    length = _at(file, size - 1, 1, size)[0]
    end = size - 1 - length
    return size, end, parse(_at(file, end, length, size))


def open_orc(file: BinaryIO) -> Any:
    """A file as the library has it. Raises: CorruptError where its end says what the library takes as it comes: stripes
    of other rows than the file has, of which it gives those of the stripes, and lengths, rows and digits that there
    cannot be, over which it ends the process. Of a file in a codec that no reader here has, lengths alone are seen.
    """
    _check_tail(file)
    return pa_orc.ORCFile(file)


def _check_tail(file: BinaryIO) -> None:
    size, end, postscript = _postscript(file)
    about, told = number_of(postscript, 1), number_of(postscript, 5)
    data = _at(file, end - about, about, size)
    _at(file, end - about - told, 0, size)
    try:
        footer = parse(unpacked(Tail(0, postscript, [], []), data))
    except UnsupportedError:
        return
    rows = [number_of(parse(stripe), 5) for stripe in parts_of(footer, 3)]
    if sum(rows) != number_of(footer, 6) or sum(rows) > _MOST_ROWS:
        raise CorruptError("an orc file's stripes have other rows than it says", rows=sum(rows))
    for kind in map(parse, parts_of(footer, 4)):
        precision, scale = number_of(kind, 5), number_of(kind, 6)
        if number_of(kind, 1) == DECIMAL and max(precision, scale) > _MOST_DIGITS:
            what = "an orc file's decimals have more digits than there are"
            raise CorruptError(what, precision=precision, scale=scale)


def read_stripe(file: BinaryIO, tail: Tail, number: int, columns: range) -> Stripe:
    """One stripe with the streams of some columns. Raises: CorruptError."""
    size, rows, footer, places = _stripe(file, tail, number)
    streams = [
        Stream(kind, column, _at(file, start, width, size))
        for kind, column, start, width in places
        if column in columns
    ]
    return Stripe(rows, tuple(streams), footer)


def stream_ranges(file: BinaryIO, tail: Tail, number: int, names: Container[str]) -> list[tuple[int, int]]:
    """Where the values of some columns of a row lie in a stripe, and how many bytes they take. Raises: CorruptError."""
    row = tail.kinds()[0]
    tops = [*row.children, sys.maxsize]
    wanted = [range(*tops[at : at + 2]) for at, name in enumerate(row.names) if name in names]
    places = _stripe(file, tail, number)[3]
    return [
        (start, width)
        for kind, column, start, width in places
        if not is_index(kind) and any(column in one for one in wanted)
    ]


def _stripe(file: BinaryIO, tail: Tail, number: int) -> tuple[int, int, Message, list[tuple[int, int, int, int]]]:
    """The file's size, a stripe's rows, its footer, and of each of its streams: kind, column, place, bytes."""
    size = file.seek(0, 2)
    found = parse(parts_of(tail.footer, 3)[number])
    start, index, data, length, rows = (number_of(found, at) for at in (1, 2, 3, 4, 5))
    footer = parse(unpacked(tail, _at(file, start + index + data, length, size)))
    places = []
    for one in map(parse, parts_of(footer, 1)):
        kind, column, width = (number_of(one, at) for at in (1, 2, 3))
        places.append((kind, column, start, width))
        start += width
    return size, rows, footer, places


def _at(file: BinaryIO, start: int, length: int, size: int) -> bytes:
    """Bytes of the file; asking for more than it has would reserve them."""
    if not 0 <= start <= start + length <= size:
        raise CorruptError("orc file names bytes that it does not have", offset=start, length=length, size=size)
    file.seek(start)
    data = file.read(length)
    if len(data) != length:
        raise CorruptError("orc file is cut off", offset=start, length=length)
    return data


def unpacked(tail: Tail, data: bytes) -> bytes:
    """What was framed. Raises: CorruptError, UnsupportedError."""
    if tail.codec == NONE:
        return data
    parts = []
    at = whole = 0
    while at < len(data):
        header = int.from_bytes(data[at : at + _HEADER], "little")
        at += _HEADER
        chunk = data[at : at + (header >> 1)]
        if len(chunk) != header >> 1:
            raise CorruptError("orc chunk is cut off", size=header >> 1, left=len(chunk))
        at += len(chunk)
        parts.append(chunk if header & 1 else _chunk(chunk, tail.codec, tail.block))
        whole += len(parts[-1])
        if whole > _MOST_PLAIN:
            raise CorruptError("orc message unpacks to too much", size=len(data), limit=_MOST_PLAIN)
    return b"".join(parts)


def _chunk(data: bytes, codec: int, block: int) -> bytes:
    """One chunk, no larger than `block`."""
    limit = min(block, _MOST_CHUNK)
    plain = b""
    size = 0
    if codec == ZLIB:
        plain = zlib.decompressobj(-15).decompress(data, limit + 1)
    elif codec == ZSTD:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            plain = stream.read(limit + 1)
    elif codec in (SNAPPY, LZ4):
        size = _varint(data, 0)[0] if codec == SNAPPY else _lz4_size(data)
        if size <= limit:
            plain = pa.decompress(data, size, "snappy" if codec == SNAPPY else "lz4_raw", asbytes=True)
    else:
        raise UnsupportedError("compression is not supported in orc", compression=codec)
    if max(size, len(plain)) > limit:
        raise CorruptError("orc chunk unpacks to more than a block", block=block, size=len(data))
    return bytes(plain)


def _lz4_size(data: bytes) -> int:
    """What an LZ4 block unpacks to: it is not written anywhere. Raises: CorruptError."""
    at = whole = 0
    try:
        while True:  # a sequence: literals, then a copy; the last one is without
            token = data[at]
            literals, at = _lz4_length(data, token >> 4, at + 1)
            whole, at = whole + literals, at + literals
            if at >= len(data):
                return whole
            copied, at = _lz4_length(data, token & 15, at + 2)
            whole += copied + 4
    except IndexError as error:
        raise CorruptError("orc chunk does not decompress", size=len(data)) from error


def _lz4_length(data: bytes, length: int, at: int) -> tuple[int, int]:
    """A length whose first part stood in four bits, and where the next thing stands."""
    if length < 15:
        return length, at
    while data[at] == 255:
        length, at = length + 255, at + 1
    return length + data[at], at + 1
