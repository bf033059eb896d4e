"""Avro object files of metadata records, named and laid out as Paimon's Java writer does it.

fastavro encodes and decodes records; blocks are packed by `avro_container`, so that no codec library is needed.

Spec: docs/spec/manifest.md#container
"""

from __future__ import annotations

import datetime as dt
import io
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.format.avro_container import (
    CODECS,
    Block,
    Header,
    encode_block,
    encode_header,
    read_blocks,
    read_header,
)

NAMESPACE = "org.apache.paimon.avro.generated"
BLOCK_BYTES = 1 << 20
ZSTD_LEVEL = 1
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MILLISECOND = dt.timedelta(milliseconds=1)
_BROKEN = (
    ValueError,
    LookupError,
    EOFError,
    TypeError,
    StopIteration,
    OverflowError,
    MemoryError,
    OSError,
    struct.error,
    SchemaParseException,
    UnknownType,
    AttributeError,
)
T = TypeVar("T")


def record(path: str, fields: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A record schema; `path` is where it is nested: "_FILE__KEY_STATS", empty for the outermost."""
    if path:
        return {"type": "record", "name": f"record_{path}", "fields": list(fields)}
    return {"type": "record", "name": "record", "namespace": NAMESPACE, "fields": list(fields)}


def optional(name: str, kind: Any) -> dict[str, Any]:
    """A field that may be null, which is its default."""
    return {"name": name, "type": ["null", kind], "default": None}


def millis(value: Any) -> int | None:
    """Epoch milliseconds of a decoded timestamp-millis."""
    return (value - _EPOCH) // _MILLISECOND if isinstance(value, dt.datetime) else value


def encode_records(schema: Mapping[str, Any], rows: Iterable[Mapping[str, Any]], compression: str) -> bytes:
    """An object file of the rows. UnsupportedError for a compression that Avro metadata does not come in."""
    codec = CODECS.get(compression.lower())
    if codec is None:
        raise UnsupportedError("manifest.compression", value=compression, remedy="use zstd, snappy, deflate or none")
    plain = io.BytesIO()
    fastavro.writer(plain, dict(schema), rows, codec="null", sync_interval=BLOCK_BYTES)
    plain.seek(0)
    found = read_header(plain)
    header = Header(schema, codec, found.sync)
    return encode_header(header) + b"".join(encode_block(b, header, ZSTD_LEVEL) for b in read_blocks(plain, found))


def decode_records(
    data: bytes, source: str, versions: Sequence[int], make: Callable[[Mapping[str, Any]], T]
) -> list[T]:
    """`make` of every record of an object file. UnsupportedError for a `_VERSION` not among `versions`, CorruptError
    for what is no such file; both name `source`."""
    try:
        rows: list[Any] = list(fastavro.reader(io.BytesIO(_unpacked(data))))
        for row in rows:
            if row["_VERSION"] not in versions:
                raise UnsupportedError(
                    "metadata file of another format version",
                    path=source,
                    version=row["_VERSION"],
                    supported=list(versions),
                    remedy="upgrade bucketlake",
                )
        return [make(row) for row in rows]
    except (CorruptError, UnsupportedError) as error:
        raise type(error)(error.what, remedy=error.remedy, **{"path": source, **error.details}) from error
    except _BROKEN as error:
        raise CorruptError("not a metadata file", path=source, reason=str(error) or type(error).__name__) from error


def _unpacked(data: bytes) -> bytes:
    """The same object file with codec null."""
    file = io.BytesIO(data)
    packed = read_header(file)
    if packed.codec == "null":
        return data
    header = Header(packed.schema, "null", packed.sync)
    blocks = (encode_block(Block(b.rows, b.data), header, ZSTD_LEVEL) for b in read_blocks(file, packed))
    return encode_header(header) + b"".join(blocks)
