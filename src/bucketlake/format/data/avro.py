"""Avro data files: schemas as Paimon writes them, rows encoded by columns (`avro_rows.py`) and decoded by polars.

Polars knows neither zstd nor logical types nor maps, but the encoding of rows does not depend on them: blocks are
unpacked here, the schema is reduced to the encoding (`_bare`), and values get their types back as Arrow.

Spec: docs/spec/datafile.md#avro
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.format.avro.container import (
    CODECS,
    Block,
    Header,
    encode_block,
    encode_header,
    read_blocks,
    read_header,
)
from bucketlake.format.data.avro_rows import encoded_rows
from bucketlake.format.data.file_format import BatchSize, FileFormat
from bucketlake.format.data.layout import map_leaves
from bucketlake.lazy import pl
from bucketlake.types.model import LISTS, DataField, DataType, Root, arrow_type, canonical_batch, type_text

WHOLE = "row"
RECORD = "org.apache.paimon.avro.generated.record"
BLOCK_ROWS = 16_384
BLOCK_BYTES = 1 << 20
_PRIMITIVES = {
    Root.BOOLEAN: "boolean",
    Root.TINYINT: "int",
    Root.SMALLINT: "int",
    Root.INT: "int",
    Root.BIGINT: "long",
    Root.FLOAT: "float",
    Root.DOUBLE: "double",
    Root.CHAR: "string",
    Root.VARCHAR: "string",
    Root.BINARY: "bytes",
    Root.VARBINARY: "bytes",
    Root.BLOB: "bytes",
}
_INTS = (Root.TINYINT, Root.SMALLINT, Root.DATE, Root.TIME)
_STAMPS = {Root.TIMESTAMP: "timestamp", Root.TIMESTAMP_LTZ: "local-timestamp"}  # the names Paimon gives them


# ---------------------------------------------------------------------------------------------- schemas


def avro_schema(fields: Sequence[DataField]) -> dict[str, Any]:
    """The record schema of columns as Paimon writes it.

    Raises: UnsupportedError for timestamps beyond microseconds and TIME beyond milliseconds.
    """
    return _record(RECORD, fields)


def _record(name: str, fields: Sequence[DataField]) -> dict[str, Any]:
    members = []
    for item in fields:
        member: dict[str, Any] = {"name": item.name, "type": _schema(item.type, f"{name}_{item.name}")}
        if item.type.nullable:
            member["default"] = None
        members.append(member)
    return {"type": "record", "name": name, "fields": members}


def _schema(t: DataType, name: str) -> Any:
    plain = _not_null(t, name)
    return ["null", plain] if t.nullable else plain


def _not_null(t: DataType, name: str) -> Any:
    if t.root in _PRIMITIVES:
        return _PRIMITIVES[t.root]
    if t.root is Root.DECIMAL:
        return {"type": "bytes", "logicalType": "decimal", "precision": t.precision, "scale": t.scale}
    if t.root is Root.DATE:
        return {"type": "int", "logicalType": "date"}
    if t.root is Root.TIME and (t.precision or 0) <= 3:
        return {"type": "int", "logicalType": "time-millis"}
    if t.root in _STAMPS and _precision(t) <= 6:
        unit = "millis" if _precision(t) <= 3 else "micros"
        return {"type": "long", "logicalType": f"{_STAMPS[t.root]}-{unit}"}
    if t.root is Root.ROW:
        return _record(name, t.fields)
    if t.root in LISTS and t.element is not None:
        return {"type": "array", "items": _schema(t.element, name)}
    if t.root is Root.MAP and t.key is not None and t.element is not None:
        if t.key.root in (Root.CHAR, Root.VARCHAR):
            return {"type": "map", "values": _schema(t.element, name)}
        value: dict[str, Any] = {"name": "value", "type": _schema(t.element, f"{name}_value")}
        if t.element.nullable:
            value["default"] = None
        key = {"name": "key", "type": _schema(t.key, f"{name}_key")}
        entry = {"type": "record", "name": name, "fields": [key, value]}
        return {"type": "array", "items": entry, "logicalType": "map"}
    raise UnsupportedError("type is not supported in avro files", type=type_text(t), remedy="use parquet")


def _precision(t: DataType) -> int:
    return 6 if t.precision is None else t.precision


def _bare(schema: Any, numbers: Iterator[int]) -> Any:
    """The schema of the same encoding without logical types; maps become arrays of entries."""
    if isinstance(schema, list):
        return [_bare(branch, numbers) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema["type"]
    if kind == "record":
        fields = [{"name": f["name"], "type": _bare(f["type"], numbers)} for f in schema["fields"]]
        return {"type": "record", "name": f"r{next(numbers)}", "fields": fields}
    if kind == "array":
        return {"type": "array", "items": _bare(schema["items"], numbers)}
    if kind == "map":
        fields = [{"name": "key", "type": "string"}, {"name": "value", "type": _bare(schema["values"], numbers)}]
        return {"type": "array", "items": {"type": "record", "name": f"r{next(numbers)}", "fields": fields}}
    return _bare(kind, numbers)


# ---------------------------------------------------------------------------------------------- writing


class AvroSink:
    """Writes tables in canonical layout as blocks of one avro file."""

    def __init__(self, out: BinaryIO, fields: Sequence[DataField], form: FileFormat) -> None:
        name = (form.setting("avro.codec") or form.compression).strip().lower()
        if name not in CODECS:
            remedy = f"use one of {', '.join(sorted(CODECS))}"
            raise UnsupportedError("compression is not supported in avro", compression=name, remedy=remedy)
        self._fields = tuple(fields)
        schema = avro_schema(fields)
        sync = hashlib.md5(json.dumps(schema).encode(), usedforsecurity=False).digest()
        self._header = Header(schema, CODECS[name], sync)
        self._level = form.zstd_level
        self._out = out
        self._out.write(encode_header(self._header))

    def write(self, table: pa.Table) -> None:
        """Append rows, in blocks."""
        rows = max(1, min(BLOCK_ROWS, int(BLOCK_BYTES * table.num_rows / max(table.nbytes, 1))))
        for batch in table.to_batches(max_chunksize=rows):
            if batch.num_rows:
                columns = [map_leaves(batch.column(i), item.type, _to_bare) for i, item in enumerate(self._fields)]
                bare = pa.RecordBatch.from_arrays(columns, names=[item.name for item in self._fields])
                data = encoded_rows(bare, self._fields)
                self._out.write(encode_block(Block(batch.num_rows, data), self._header, self._level))

    def close(self) -> None:
        """Nothing is left to write."""


def _to_bare(array: pa.Array, t: DataType) -> pa.Array:
    if t.root in _INTS:
        return array.cast(pa.int32())
    if t.root in _STAMPS:
        return array.cast(pa.int64())
    if t.root is Root.DECIMAL:
        return decimal_bytes(array)
    return array


# ---------------------------------------------------------------------------------------------- reading


class AvroSource:
    """One open avro file. `fields`: the columns wanted, as the file's schema has them. `most`: more rows than these are
    refused. `rows`: how many were read so far."""

    def __init__(self, file: BinaryIO, fields: Sequence[DataField], most: int | None = None) -> None:
        self.rows = 0
        self._most = most
        self._file = file
        self._fields = tuple(fields)
        self._header = read_header(file)
        schema = self._header.schema
        self._nullable = isinstance(schema, list) and len(schema) == 2 and schema[0] == "null"
        record = schema[1] if self._nullable else schema
        if not isinstance(record, dict) or record.get("type") != "record":
            raise CorruptError("avro file does not hold records")
        found = {member["name"]: member["type"] for member in record["fields"]}
        for item in self._fields:
            if item.name not in found:
                raise CorruptError("avro file lacks a column", column=item.name)
        # A record of one member is encoded as that alone.
        whole = {"type": "record", "fields": [{"name": WHOLE, "type": schema}]} if self._nullable else schema
        self._plain = encode_header(Header(_bare(whole, itertools.count()), "null", bytes(16)))

    def batches(self, size: BatchSize) -> Iterator[pa.RecordBatch]:
        """Rows in file order, canonical."""
        pending: list[Block] = []
        for block in read_blocks(self._file, self._header):
            pending.append(block)
            self.rows += block.rows
            if self._most is not None and self.rows > self._most:
                raise CorruptError("a data file has more rows than its manifest says", recorded=self._most)
            if sum(b.rows for b in pending) >= size.rows or sum(len(b.data) for b in pending) >= size.bytes:
                yield from self._decoded(pending, size)
                pending = []
        yield from self._decoded(pending, size)

    def _decoded(self, blocks: list[Block], size: BatchSize) -> Iterator[pa.RecordBatch]:
        if not blocks:
            return
        plain = Header(None, "null", bytes(16))
        data = self._plain + b"".join(encode_block(block, plain, 0) for block in blocks)
        wanted = [WHOLE] if self._nullable else [item.name for item in self._fields]
        rows = pl.read_avro(io.BytesIO(data), columns=wanted).to_arrow().combine_chunks()
        if rows.num_rows != sum(block.rows for block in blocks):
            raise CorruptError("an avro file's blocks have other rows than they say", rows=rows.num_rows)
        for batch in rows.to_batches(max_chunksize=size.rows):
            if self._nullable:
                batch = _members(batch)
            columns = {item.name: map_leaves(batch.column(item.name), item.type, _from_bare) for item in self._fields}
            yield canonical_batch(pa.RecordBatch.from_pydict(columns), self._fields, trusted=True)


def _members(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that are the values of a column. Raises: CorruptError if one is null."""
    column = batch.column(WHOLE)
    if column.null_count:
        raise CorruptError("avro file holds a row that is null")
    return pa.RecordBatch.from_struct_array(column)


def _from_bare(array: pa.Array, t: DataType) -> pa.Array:
    if t.root is Root.DECIMAL:
        return decimals(array.cast(pa.binary()), t)
    if t.root in _INTS or t.root in _STAMPS:
        return array.cast(arrow_type(t))
    return array


# ---------------------------------------------------------------------------------------------- decimals


def decimal_bytes(array: pa.Array) -> pa.Array:
    """decimal128 values as the fewest big-endian two's complement bytes that hold them."""
    size = len(array)
    stored = np.frombuffer(array.buffers()[1] or b"", np.int64)[array.offset * 2 : (array.offset + size) * 2]
    low, high = stored.reshape(size, 2).T  # little-endian: the lower half first
    valid = np.asarray(array.is_valid()) if array.null_count else None
    if valid is not None:
        low, high = np.where(valid, low, 0), np.where(valid, high, 0)
    sign = high >> 63
    lengths = _byte_counts(low ^ sign)
    if np.array_equal(low >> 63, high):
        halves = low.reshape(size, 1)
    else:
        halves = np.stack([high, low], axis=1)
        lengths = np.where(high != sign, 8 + _byte_counts(high ^ sign), lengths)
    if valid is not None:
        lengths = np.where(valid, lengths, 0)
    offsets = np.zeros(size + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    width = 8 * halves.shape[1]
    data = halves.astype(">i8").view(np.uint8).reshape(size, width)[np.arange(width) >= width - lengths[:, None]]
    nulls = None if valid is None else pa.array(valid).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), size, [nulls, pa.py_buffer(offsets), pa.py_buffer(data)])


def _byte_counts(magnitudes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many bytes hold 64-bit numbers, taken as unsigned, and a bit for the sign of each."""
    found = magnitudes.view(np.uint64)
    lengths = np.ones(len(found), np.int64)
    for place in range(1, int(found.max(initial=0)).bit_length() // 8 + 1):
        lengths += found >= np.uint64(1 << 8 * place - 1)
    return lengths


def decimals(array: pa.Array, t: DataType) -> pa.Array:
    """The decimals whose big-endian bytes an array holds. Raises: CorruptError if one is longer than 16."""
    size = len(array)
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + size + 1]
    lengths = np.diff(offsets).astype(np.int64)
    longest = int(lengths.max(initial=0))
    if longest > 16:
        raise CorruptError("decimal of more than 16 bytes", type=type_text(t))
    data = np.concatenate([np.zeros(16, np.uint8), np.frombuffer(array.buffers()[2] or b"", np.uint8)])
    ends = offsets[1:].astype(np.int64) + 16
    values = np.empty((size, 2), np.int64)
    values[:, 0] = _halves(data, ends, lengths)
    values[:, 1] = values[:, 0] >> 63
    if longest > 8:
        values[:, 1] = np.where(lengths > 8, _halves(data, ends - 8, lengths - 8), values[:, 1])
    nulls = pa.array(np.asarray(array.is_valid())).buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(pa.decimal128(t.precision, t.scale), size, [nulls, pa.py_buffer(values)])


def _halves(
    data: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """The big-endian numbers of at most 8 bytes before each end; of longer ones the last 8."""
    every = np.ndarray(len(data) - 7, ">i8", data, strides=(1,))  # what begins at each byte
    spare = 8 * (8 - np.clip(lengths, 1, 8))
    found = every[ends - 8].astype(np.int64) << spare >> spare
    return np.where(lengths > 0, found, 0)
