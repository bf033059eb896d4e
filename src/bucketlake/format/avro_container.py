"""Avro's container of blocks, apart from what the blocks hold.

    file   := "Obj" 1, metadata map, sync[16], block*
    block  := long rows, long size, size bytes (compressed by the codec), sync[16]

Spec: docs/spec/datafile.md#avro
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from bucketlake.errors import CorruptError, UnsupportedError

MAGIC = b"Obj\x01"
CODECS = {
    "none": "null",
    "null": "null",
    "uncompressed": "null",
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "snappy": "snappy",
    "deflate": "deflate",
}


@dataclass(frozen=True, slots=True)
class Header:
    """What stands before the blocks."""

    schema: Any
    codec: str
    sync: bytes


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one block, uncompressed."""

    rows: int
    data: bytes


def encode_long(value: int) -> bytes:
    """An Avro long: zigzag, seven bits a byte."""
    value = value << 1 if value >= 0 else ~value << 1 | 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_long(file: BinaryIO) -> int | None:
    """The next Avro long, None at the end of the file."""
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


def encode_header(header: Header) -> bytes:
    """The bytes before the first block."""
    entries = {"avro.schema": json.dumps(header.schema).encode(), "avro.codec": header.codec.encode()}
    pairs = b"".join(
        encode_long(len(key)) + key.encode() + encode_long(len(value)) + value for key, value in entries.items()
    )
    return MAGIC + encode_long(len(entries)) + pairs + encode_long(0) + header.sync


def read_header(file: BinaryIO) -> Header:
    """The header of an open file, which then stands at its first block. Raises: CorruptError."""
    if file.read(4) != MAGIC:
        raise CorruptError("not an avro file")
    entries: dict[str, bytes] = {}
    while count := _size(file):
        if count < 0:
            _size(file)
        for _ in range(abs(count)):
            key = _exactly(file, _size(file)).decode()
            entries[key] = _exactly(file, _size(file))
    if "avro.schema" not in entries:
        raise CorruptError("avro file without a schema")
    schema = json.loads(entries["avro.schema"])
    return Header(schema, entries.get("avro.codec", b"null").decode(), _exactly(file, 16))


def read_blocks(file: BinaryIO, header: Header) -> Iterator[Block]:
    """The blocks that follow, uncompressed. Raises: CorruptError, UnsupportedError for another codec."""
    while (rows := read_long(file)) is not None:
        data = _exactly(file, _size(file))
        if _exactly(file, 16) != header.sync:
            raise CorruptError("avro block without its sync marker")
        yield Block(rows, decompress(data, header.codec))


def encode_block(block: Block, header: Header, level: int) -> bytes:
    """One block, compressed. `level` is that of zstd."""
    data = compress(block.data, header.codec, level)
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
    if codec == "null":
        return data
    raise UnsupportedError("compression is not supported in avro", compression=codec)


def decompress(data: bytes, codec: str) -> bytes:
    """What `compress` was given. Raises: CorruptError, UnsupportedError."""
    try:
        if codec == "null":
            return data
        if codec == "deflate":
            return zlib.decompress(data, wbits=-15)
        if codec == "zstandard":
            with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
                return bytes(stream.read())
        if codec == "snappy":
            size = _snappy_size(data)
            plain = pa.decompress(data[:-4], decompressed_size=size, codec="snappy", asbytes=True)
            if zlib.crc32(plain) != int.from_bytes(data[-4:], "big"):
                raise CorruptError("avro block with a wrong checksum")
            return bytes(plain)
    except (zlib.error, OSError, pa.ArrowException) as error:
        raise CorruptError("avro block does not decompress", codec=codec, reason=str(error)) from error
    raise UnsupportedError("compression is not supported in avro", compression=codec)


def _snappy_size(data: bytes) -> int:
    result = shift = 0
    for byte in io.BytesIO(data[:5]).read():
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result
        shift += 7
    raise CorruptError("avro block does not decompress", codec="snappy")


def _size(file: BinaryIO) -> int:
    found = read_long(file)
    if found is None:
        raise CorruptError("avro file is cut off")
    return found


def _exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size) if size >= 0 else b""
    if len(data) != size:
        raise CorruptError("avro file is cut off")
    return data
