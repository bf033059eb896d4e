"""Avro's container of blocks, apart from what the blocks hold.

    file   := "Obj" 1, metadata map, sync[16], block*
    block  := long rows, long size, size bytes (compressed by the codec), sync[16]

Spec: docs/spec/datafile.md#avro
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, BinaryIO

from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.format.avro import zstd
from bucketlake.format.varints import varint
from bucketlake.lazy import lazy, pa
from bucketlake.values import dataclass

if TYPE_CHECKING:
    import bz2
    import lzma
else:  # few files need them, and some Pythons lack them
    bz2, lzma = lazy("bz2"), lazy("lzma")

MAGIC = b"Obj\x01"
RECORDS = "bucketlake.records"
LONG_BITS = 70  # ten bytes of seven
LONG_DIGITS = 19
MOST_ENTRIES = 1000  # of a header
KNOWN_SCHEMA = 1 << 16  # bytes of a schema that is worth remembering
MOST_DEPTH = 64  # of a schema: a column's types nest through two or three of its levels each
LEAST_LIMIT = 64 << 20  # blocks are flushed at 64 KB to 1 MB, or after one record
MOST_UNPACKED = 1 << 30
MOST_RATIO = 1024
XZ_MEMORY = 128 << 20  # for its dictionary: 65 MB at the highest level
SNAPPY_RATIO = 64  # what the format's largest copies can reach
CODECS = {
    "none": "null",
    "null": "null",
    "uncompressed": "null",
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "snappy": "snappy",
    "deflate": "deflate",
    "bzip2": "bzip2",
    "xz": "xz",
}


@dataclass(frozen=True, slots=True)
class Header:
    """What stands before the blocks. `records`: how many follow, where the file says so, as metadata written here does:
    the format itself cannot tell that a file was cut between two blocks. `text`: the schema as JSON, if it is known.
    """

    schema: Any
    codec: str
    sync: bytes
    records: int | None = None
    text: bytes | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one block, uncompressed."""

    rows: int
    data: bytes


def encode_long(value: int) -> bytes:
    """An Avro long: zigzag, seven bits a byte."""
    return varint(value << 1 if value >= 0 else ~value << 1 | 1)


def read_long(file: BinaryIO) -> int | None:
    """The next Avro long, None at the end of the file. Raises: CorruptError."""
    result = shift = 0
    while True:
        byte = file.read(1)
        if not byte:
            if shift:
                raise CorruptError("avro file is cut off")
            return None
        result |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (result >> 1) ^ -(result & 1)
        shift += 7
        if shift >= LONG_BITS:
            raise CorruptError("avro number of more than 64 bits")


def encode_header(header: Header, records: int | None = None) -> bytes:
    """The bytes before the first block. `records`: how many there are, for `Header.records`."""
    entries = {"avro.schema": header.text or json.dumps(header.schema).encode(), "avro.codec": header.codec.encode()}
    if records is not None:
        entries[RECORDS] = str(records).encode()
    pairs = b"".join(
        encode_long(len(key)) + key.encode() + encode_long(len(value)) + value for key, value in entries.items()
    )
    return MAGIC + encode_long(len(entries)) + pairs + encode_long(0) + header.sync


def read_header(file: BinaryIO) -> Header:
    """The header of an open file, which then stands at its first block. The schema is within bounds: it nests no deeper
    than `MOST_DEPTH`, does not contain itself, and every record takes at least a byte. Raises: CorruptError."""
    left = _size_of(file)
    if file.read(4) != MAGIC:
        raise CorruptError("not an avro file")
    entries: dict[str, bytes] = {}
    while count := _size(file):
        if count < 0:
            _size(file)
        if abs(count) > MOST_ENTRIES:
            raise CorruptError("avro header of too many entries", entries=abs(count))
        for _ in range(abs(count)):
            key = _exactly(file, _size(file), left).decode()
            entries[key] = _exactly(file, _size(file), left)
            if len(entries) > MOST_ENTRIES:
                raise CorruptError("avro header of too many entries", entries=len(entries))
    if "avro.schema" not in entries:
        raise CorruptError("avro file without a schema")
    text = entries["avro.schema"]
    schema, again = _known_schema(text) if len(text) <= KNOWN_SCHEMA else _checked_schema(text)
    told = entries.get(RECORDS, b"")
    records = int(told) if told.isdigit() and len(told) < LONG_DIGITS else None
    return Header(schema, entries.get("avro.codec", b"null").decode(), _exactly(file, 16, left), records, again)


def _checked_schema(text: bytes) -> tuple[Any, bytes]:
    """A schema that was looked at, and its text made anew: other libraries may read the given one otherwise."""
    schema = json.loads(text)
    check_schema(schema)
    return schema, json.dumps(schema).encode()


_known_schema = lru_cache(maxsize=64)(_checked_schema)  # a table's files have one; nobody changes what this gives


def read_blocks(file: BinaryIO, header: Header) -> Iterator[Block]:
    """The blocks that follow, uncompressed, none larger than `unpacked_limit` allows nor with more records than bytes.

    Raises: CorruptError, also where the header counts other records; UnsupportedError for another codec.
    """
    left = _size_of(file)
    found = 0
    while (rows := read_long(file)) is not None:
        packed = _exactly(file, _size(file), left)
        if _exactly(file, 16, left) != header.sync:
            raise CorruptError("avro block without its sync marker")
        data = decompress(packed, header.codec)
        if not 0 <= rows <= len(data):
            raise CorruptError("avro block of more records than bytes", records=rows, bytes=len(data))
        found += rows
        if rows:  # at a block without any, libraries take the file to end
            yield Block(rows, data)
    if header.records is not None and found != header.records:
        raise CorruptError(
            "avro file has a different number of records than it says", found=found, expected=header.records
        )


def encode_block(block: Block, header: Header, level: int) -> bytes:
    """One block, compressed. `level` is that of zstd. UnsupportedError for one that `decompress` would not take."""
    data = compress(block.data, header.codec, level)
    if header.codec != "null" and len(block.data) > unpacked_limit(len(data)):
        raise UnsupportedError(
            "a value repeats itself so often that an avro file with it, compressed, would not be read again",
            bytes=len(block.data),
            compressed=len(data),
            remedy="set 'file.compression' to none, or another 'file.format'",
        )
    return encode_long(block.rows) + encode_long(len(data)) + data + header.sync


def compress(data: bytes, codec: str, level: int) -> bytes:
    """A block's bytes as the codec has them."""
    if codec == "zstandard":
        return bytes(pa.Codec("zstd", compression_level=level).compress(data, asbytes=True))
    if codec == "snappy":
        return bytes(pa.compress(data, "snappy", asbytes=True)) + zlib.crc32(data).to_bytes(4, "big")
    if codec == "deflate":
        packer = zlib.compressobj(wbits=-15)
        return packer.compress(data) + packer.flush()
    if codec in ("bzip2", "xz"):
        try:
            return bz2.compress(data) if codec == "bzip2" else lzma.compress(data)
        except ImportError as error:
            raise _lacking(codec) from error
    if codec == "null":
        return data
    raise UnsupportedError("compression is not supported in avro", compression=codec)


def decompress(data: bytes, codec: str) -> bytes:
    """What `compress` was given. Raises: CorruptError, also beyond `unpacked_limit`; UnsupportedError."""
    limit = unpacked_limit(len(data))
    try:
        if codec == "null":
            return data
        if codec in _UNPACKERS:
            unpacked = _UNPACKERS[codec](data, limit)
            if unpacked is None:
                raise CorruptError("avro block unpacks to too much", codec=codec, size=len(data), limit=limit)
            return unpacked
        if codec == "snappy":
            size = _snappy_size(data)
            if size > min(limit, SNAPPY_RATIO * len(data)):
                raise CorruptError("avro block unpacks to too much", codec=codec, size=len(data), unpacked=size)
            plain = pa.decompress(data[:-4], decompressed_size=size, codec="snappy", asbytes=True)
            if zlib.crc32(plain) != int.from_bytes(data[-4:], "big"):
                raise CorruptError("avro block with a wrong checksum")
            return bytes(plain)
    except ImportError as error:
        raise _lacking(codec) from error
    except (zlib.error, OSError, ValueError, pa.ArrowException) as error:
        raise CorruptError("avro block does not decompress", codec=codec, reason=str(error)) from error
    raise UnsupportedError("compression is not supported in avro", compression=codec)


def _lacking(codec: str) -> UnsupportedError:
    return UnsupportedError(
        "this Python was built without a compression", compression=codec, remedy="use another Python, or another codec"
    )


def _inflated(data: bytes, limit: int) -> bytes | None:
    unpacker = zlib.decompressobj(-15)
    plain = unpacker.decompress(data, limit)
    return None if unpacker.unconsumed_tail else plain + unpacker.flush()


def _unzipped(data: bytes, limit: int) -> bytes | None:
    return _whole(bz2.BZ2Decompressor(), data, limit)


def _unxzed(data: bytes, limit: int) -> bytes | None:
    try:
        return _whole(lzma.LZMADecompressor(lzma.FORMAT_XZ, XZ_MEMORY), data, limit)
    except lzma.LZMAError as error:
        raise ValueError(str(error)) from error


def _whole(unpacker: Any, data: bytes, limit: int) -> bytes | None:
    plain: bytes = unpacker.decompress(data, limit + 1)
    if len(plain) > limit:
        return None
    if not unpacker.eof:
        raise ValueError("it ends too early")
    return plain


# By codec: a block's bytes, None where they are more than the limit.
_UNPACKERS: Mapping[str, Callable[[bytes, int], bytes | None]] = {
    "deflate": _inflated,
    "zstandard": lambda data, limit: zstd.unpack(data, limit),
    "bzip2": _unzipped,
    "xz": _unxzed,
}


def unpacked_limit(size: int) -> int:
    """The most that so many bytes of a block may unpack to: `MOST_RATIO` times as much, less if that is absurd."""
    return max(LEAST_LIMIT, min(MOST_RATIO * size, MOST_UNPACKED), 16 * size)


def _snappy_size(data: bytes) -> int:
    result = shift = 0
    for byte in data[:5]:
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result
        shift += 7
    raise CorruptError("avro block does not decompress", codec="snappy")


def _size_of(file: BinaryIO) -> int:
    """How many bytes the whole file has: no part of it has more."""
    at = file.tell()
    size = file.seek(0, 2)
    file.seek(at)
    return size


def _size(file: BinaryIO) -> int:
    found = read_long(file)
    if found is None:
        raise CorruptError("avro file is cut off")
    return found


def _exactly(file: BinaryIO, size: int, most: int) -> bytes:
    """So many bytes; asking a file for more than it has would reserve them."""
    data = file.read(size) if 0 <= size <= most else b""
    if len(data) != size:
        raise CorruptError("avro file is cut off", wanted=size)
    return data


# ---------------------------------------------------------------------------------------------- schemas

_ATOMS = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})


def check_schema(schema: Any) -> None:
    """Refuse schemas that no table file has and whose records cannot be bounded by their bytes: parts without a width,
    unions of more than one type and null, records inside of themselves, endless nesting. Raises: CorruptError."""
    _check_part(schema, set(), set(), 0)


def _check_part(schema: Any, known: set[str], around: set[str], depth: int) -> None:
    """`known`: records defined so far by name; `around`: those that this part lies in."""
    if depth > MOST_DEPTH:
        raise CorruptError("avro schema nests too deeply", limit=MOST_DEPTH)
    if isinstance(schema, str):
        if schema not in _ATOMS and (schema not in known or schema in around):
            raise CorruptError("avro schema of an unknown type", type=schema[:100])
    elif isinstance(schema, list):
        parts = [part for part in schema if part != "null"]
        if len(parts) != 1 or len(schema) > 2:
            raise CorruptError("avro schema with a union of other than null and one type")
        _check_part(parts[0], known, around, depth + 1)
    elif not isinstance(schema, dict):
        raise CorruptError("avro schema of an unknown type", type=str(schema)[:100])
    elif schema.get("type") == "record":
        names = {str(schema.get("name")), f"{schema.get('namespace')}.{schema.get('name')}"}
        fields = schema.get("fields")
        if not isinstance(fields, list) or not fields:
            raise CorruptError("avro record without fields")
        for field in fields:
            if not isinstance(field, dict) or not isinstance(field.get("name"), str):
                raise CorruptError("avro record with a field without a name")
            _check_part(field.get("type"), known, around | names, depth + 1)
        known |= names
    elif schema.get("type") in ("array", "map"):
        _check_part(schema.get("items" if schema["type"] == "array" else "values"), known, around, depth + 1)
    else:
        _check_part(schema.get("type"), known, around, depth + 1)
