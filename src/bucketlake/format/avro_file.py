"""Avro object files of metadata records, named and laid out as Paimon's Java writer does it."""

from __future__ import annotations

import datetime as dt
import io
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import fastavro

from bucketlake.errors import CorruptError, UnsupportedError

NAMESPACE = "org.apache.paimon.avro.generated.record"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MILLISECOND = dt.timedelta(milliseconds=1)
_CODECS = {
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "snappy": "snappy",
    "deflate": "deflate",
    "none": "null",
    "null": "null",
    "uncompressed": "null",
}
T = TypeVar("T")


def record(path: str, fields: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A record schema; `path` is where it is nested: "_FILE__KEY_STATS", empty for the outermost."""
    return {"type": "record", "name": f"{NAMESPACE}_{path}" if path else NAMESPACE, "fields": list(fields)}


def optional(name: str, kind: Any) -> dict[str, Any]:
    """A field that may be null, which is its default."""
    return {"name": name, "type": ["null", kind], "default": None}


def millis(value: Any) -> int | None:
    """Epoch milliseconds of a decoded timestamp-millis."""
    return (value - _EPOCH) // _MILLISECOND if isinstance(value, dt.datetime) else value


def encode_records(schema: Mapping[str, Any], rows: Iterable[Mapping[str, Any]], compression: str) -> bytes:
    """An object file of the rows. UnsupportedError for a compression that Avro metadata does not come in."""
    codec = _CODECS.get(compression.lower())
    if codec is None:
        raise UnsupportedError(
            "manifest.compression", value=compression, remedy="use zstd, snappy, deflate or none"
        )
    sink = io.BytesIO()
    fastavro.writer(sink, fastavro.parse_schema(dict(schema)), rows, codec=codec)
    return sink.getvalue()


def decode_records(
    data: bytes, source: str, versions: Sequence[int], make: Callable[[Mapping[str, Any]], T]
) -> list[T]:
    """`make` of every record of an object file. UnsupportedError for a `_VERSION` not among `versions`, CorruptError
    for what is no such file; both name `source`."""
    try:
        rows: list[Any] = list(fastavro.reader(io.BytesIO(data)))
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
    except UnsupportedError:
        raise
    except (ValueError, KeyError, IndexError, EOFError, TypeError, StopIteration, zlib.error, OSError) as error:
        raise CorruptError("not a metadata file", path=source, reason=str(error) or type(error).__name__) from error
