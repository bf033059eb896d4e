"""Avro object files of metadata records, named and laid out as Paimon's Java writer does it.

fastavro encodes and decodes records; blocks are packed by `container.py`, so that no codec library is needed.

Spec: docs/spec/manifest.md#container
"""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.format.avro.container import CODECS, Header, encode_block, encode_header, read_blocks, read_header
from bucketlake.format.guard import decoding, nearly
from bucketlake.lazy import fastavro
from bucketlake.values import dataclass

NAMESPACE = "org.apache.paimon.avro.generated"
BLOCK_BYTES = 1 << 20
ZSTD_LEVEL = 1
LEAST_TOTAL = 128 << 20
MOST_TOTAL = 1 << 30
TOTAL_RATIO = 1024
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MILLISECOND = dt.timedelta(milliseconds=1)
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
        raise UnsupportedError(
            "manifest.compression", value=compression, remedy="use zstd, snappy, deflate, bzip2, xz or null"
        )
    plain = io.BytesIO()
    fastavro.writer(plain, dict(schema), rows, codec="null", sync_interval=BLOCK_BYTES)
    plain.seek(0)
    found = read_header(plain)
    header = Header(schema, codec, found.sync)
    blocks = list(read_blocks(plain, found))
    head = encode_header(header, sum(block.rows for block in blocks))
    return head + b"".join(encode_block(block, header, ZSTD_LEVEL) for block in blocks)


@dataclass(frozen=True, slots=True)
class Kind:
    """What a decoder expects of an object file. `what`: the file, as errors call it; `ranges`: least and greatest value
    of numbers, by field, in the outermost record or in `inner`."""

    what: str
    versions: tuple[int, ...]
    schema: Mapping[str, Any]
    ranges: Mapping[str, tuple[int, int]]
    inner: str | None = None


def decode_records(data: bytes, source: str, kind: Kind, make: Callable[[Mapping[str, Any]], T]) -> list[T]:
    """`make` of every record of an object file. UnsupportedError for a `_VERSION` that is not known, CorruptError
    for what is no such file; both name `source`."""
    with decoding(f"not {kind.what}", source):
        return records_of(*unpacked(data), kind, make)


def records_of(plain: bytes, header: Header, kind: Kind, make: Callable[[Mapping[str, Any]], T]) -> list[T]:
    """As `decode_records`, of a file that is `unpacked`; errors name no source."""
    rows: list[Any] = list(fastavro.reader(io.BytesIO(plain)))
    for row in rows:
        if row["_VERSION"] not in kind.versions:
            raise UnsupportedError(
                "metadata file of another format version",
                version=row["_VERSION"],
                supported=list(kind.versions),
                remedy="upgrade bucketlake",
            )
    check_types(header.schema, kind.schema)
    for row in rows:
        _check_ranges(row, kind)
    return [make(row) for row in rows]


def unpacked(data: bytes) -> tuple[bytes, Header]:
    """The same object file with codec null, and its header with the number of records as counted. No more records than
    bytes, and bounded as `total_limit` says. Raises: CorruptError."""
    file = io.BytesIO(data)
    packed = read_header(file)
    header = Header(packed.schema, "null", packed.sync, text=packed.text)
    limit = total_limit(len(data))
    parts, size, records = [encode_header(header)], 0, 0
    for block in read_blocks(file, packed):
        parts.append(encode_block(block, header, ZSTD_LEVEL))
        size, records = size + len(block.data), records + block.rows
        if size > limit or records > len(data):
            raise CorruptError("it unpacks to too much", size=len(data), unpacked=size, records=records)
    return b"".join(parts), Header(packed.schema, packed.codec, packed.sync, records)


def total_limit(size: int) -> int:
    """The most that a metadata file of so many bytes may unpack to: records that say the same over and over pack well,
    but each names another file."""
    return max(LEAST_TOTAL, min(TOTAL_RATIO * size, MOST_TOTAL), 64 * size)


# ---- what records must be like


MOST_FITTING = 256
_FITTING: dict[tuple[int, int], tuple[Any, Any]] = {}  # schemas that were compared, and fit; files share them


def check_types(found: Any, expected: Any) -> None:
    """The fields that a file has in common with `expected` must be of its types, and those that must not be null there;
    whole numbers count as one type, and any part may be nullable. Raises: CorruptError."""
    key = (id(found), id(expected))
    if key in _FITTING:
        return
    _check_types(found, expected, "")
    if len(_FITTING) >= MOST_FITTING:
        _FITTING.clear()
    _FITTING[key] = (found, expected)  # held, so that nothing else gets their ids


def _check_types(found: Any, expected: Any, path: str) -> None:
    found, expected = _plain(found), _plain(expected)
    if expected.get("type") == "record" and found.get("type") == "record":
        by_name = {field["name"]: field["type"] for field in found["fields"]}
        absent = [field["name"] for field in expected["fields"] if field["name"] not in by_name]
        spoilt = [name for name in by_name if any(nearly(name, other) for other in absent)]
        if spoilt:
            raise CorruptError("its records have damaged field names", fields=spoilt)
        for field in expected["fields"]:
            name = field["name"]
            if name in by_name:
                _check_types(by_name[name], field["type"], f"{path}{name}.")
            elif not isinstance(field["type"], list):
                raise CorruptError("its records lack a field", field=path + name)
    elif expected.get("type") == "array" and found.get("type") == "array":
        _check_types(found["items"], expected["items"], path)
    elif _atom(found) != _atom(expected):
        raise CorruptError("a field is of another type", field=path.rstrip("."), found=_atom(found))


def _plain(schema: Any) -> dict[str, Any]:
    if isinstance(schema, list):
        schema = next(part for part in schema if part != "null")
    if isinstance(schema, str):
        return {"type": schema}
    inner = schema["type"]
    return _plain(inner) if isinstance(inner, (dict, list)) else dict(schema)


def _atom(schema: Mapping[str, Any]) -> str:
    return "int" if schema["type"] in ("int", "long") else str(schema["type"])


def _check_ranges(row: Mapping[str, Any], kind: Kind) -> None:
    record = row if kind.inner is None else {**row, **row[kind.inner]}
    for name, (low, high) in kind.ranges.items():
        value = millis(record.get(name))
        if value is not None and not low <= value <= high:
            raise CorruptError("a number is out of its range", field=name, value=value)
    _check_present(row, kind.schema)


def _check_present(row: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    for field in schema["fields"]:
        name, inner = field["name"], field["type"]
        value = row.get(name)
        if value is None and not isinstance(inner, list):
            raise CorruptError("a field is null", field=name)
        if isinstance(inner, dict) and inner["type"] == "record":
            _check_present(row[name], inner)
        elif isinstance(inner, dict) and inner["type"] == "array" and None in row[name]:
            raise CorruptError("a field is null", field=name)
