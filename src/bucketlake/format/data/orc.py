"""ORC data files, written and read by pyarrow's ORC library.

Spec: docs/spec/datafile.md#orc
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, BinaryIO

import pyarrow as pa

from bucketlake.errors import UnsupportedError
from bucketlake.format.data.file_format import BatchSize, FileFormat
from bucketlake.format.data.layout import ORC_ID, map_leaves, stored_schema
from bucketlake.lazy import pa_orc, pc
from bucketlake.types.model import DataField, DataType, Root, canonical_batch

CODECS = {
    "none": "uncompressed",
    "uncompressed": "uncompressed",
    "zstd": "zstd",
    "snappy": "snappy",
    "zlib": "zlib",
    "lz4": "lz4",
}


class OrcSink:
    """Writes tables in canonical layout into one ORC file, stripes as they fill."""

    def __init__(self, out: BinaryIO, fields: Sequence[DataField], form: FileFormat) -> None:
        self._fields = tuple(fields)
        schema = stored_schema(fields, ORC_ID, all_nullable=True)
        self._schema = pa.schema([f.with_type(_stored_type(f.type)) for f in schema])
        codec = CODECS.get((form.setting("orc.compress") or form.compression).strip().lower())
        if codec is None:
            remedy = f"use one of {', '.join(sorted(CODECS))}"
            raise UnsupportedError("compression is not supported in orc", compression=form.compression, remedy=remedy)
        self._writer = pa_orc.ORCWriter(
            out,
            compression=codec,
            stripe_size=form.group_bytes,
            compression_block_size=form.number("orc.compress.size", 1 << 18),
            row_index_stride=form.number("orc.row.index.stride", 10_000),
            dictionary_key_size_threshold=float(form.setting("orc.dictionary.key.threshold") or 0.0),
        )
        self._empty = True

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        try:
            self._writer.write(self._prepared(table))
        except pa.ArrowInvalid as error:
            raise UnsupportedError(
                "value does not fit an orc file", reason=str(error), remedy="use parquet for such timestamps"
            ) from error
        self._empty = False

    def _prepared(self, table: pa.Table) -> pa.Table:
        """The stored types. pyarrow misplaces values that lie under null rows: they become nulls too."""
        columns = [
            pa.chunked_array([map_leaves(chunk, item.type, partial(_readable, item.name)) for chunk in column.chunks])
            if item.type.fields or item.type.element is not None or item.type.root in _INSTANTS
            else column
            for column, item in zip(table.columns, self._fields, strict=True)
        ]
        return pa.Table.from_arrays(columns, names=table.schema.names).cast(self._schema)

    def close(self) -> None:
        """Write what is buffered and the footer."""
        if self._empty:
            self._writer.write(self._schema.empty_table())
        self._writer.close()


_INSTANTS = (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)


def _readable(column: str, array: pa.Array, t: DataType) -> pa.Array:
    """The same array. pyarrow stores instants before 1970 with a negative fraction, on which Paimon fails where it is
    finer than a millisecond: refused."""
    if t.root in _INSTANTS and (t.precision is None or t.precision > 3):
        nanos = array.cast(pa.timestamp("ns")).cast(pa.int64())
        fine = pc.not_equal(pc.multiply(pc.divide(nanos, 1_000_000), 1_000_000), nanos)
        early = nanos.filter(pc.and_(pc.less(nanos, 0), fine))
        if len(early):
            raise UnsupportedError(
                "orc cannot hold instants before 1970 finer than a millisecond",
                column=column,
                nanoseconds=early[0].as_py(),
                remedy="use parquet for such timestamps",
            )
    return array


def _stored_type(kind: pa.DataType) -> pa.DataType:
    """TIME is INT in ORC files, timestamps are nanoseconds (also so that what cannot be read back is refused)."""
    if pa.types.is_time32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ns", tz=kind.tz)
    if pa.types.is_map(kind):
        key, value = kind.key_field, kind.item_field
        return pa.map_(key.with_type(_stored_type(key.type)), value.with_type(_stored_type(value.type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_stored_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([kind.field(i).with_type(_stored_type(kind.field(i).type)) for i in range(kind.num_fields)])
    return kind


class OrcSource:
    """One open ORC file. `fields`: the columns wanted, as the file's schema has them."""

    def __init__(self, file: BinaryIO, fields: Sequence[DataField]) -> None:
        self._file = pa_orc.ORCFile(file)
        self._fields = tuple(fields)

    @property
    def rows(self) -> int:
        """Rows of the file."""
        return int(self._file.nrows)

    def batches(self, size: BatchSize) -> Iterator[pa.RecordBatch]:
        """Rows in file order, canonical."""
        names = [item.name for item in self._fields]
        for number in range(self._file.nstripes):
            stripe = self._stripe(number, names)
            rows = max(1024, min(size.rows, int(size.bytes * stripe.num_rows / max(stripe.nbytes, 1))))
            for start in range(0, stripe.num_rows, rows):
                yield self._canonical(stripe.slice(start, rows))

    def _stripe(self, number: int, names: list[str]) -> Any:
        try:
            return self._file.read_stripe(number, columns=names)
        except pa.ArrowInvalid as error:
            if "out of range" in str(error):
                raise UnsupportedError("timestamp does not fit 64-bit nanoseconds", reason=str(error)) from error
            raise

    def _canonical(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = {
            item.name: map_leaves(batch.column(item.name), item.type, _unpadded)
            if _has_root(item.type, Root.CHAR)
            else batch.column(item.name)
            for item in self._fields
        }
        return canonical_batch(pa.RecordBatch.from_pydict(columns), self._fields, trusted=True)


def _has_root(t: DataType, *roots: Root) -> bool:
    parts = (t.key, t.element, *(item.type for item in t.fields))
    return t.root in roots or any(_has_root(part, *roots) for part in parts if part is not None)


def _unpadded(array: pa.Array, t: DataType) -> pa.Array:
    """CHAR values lose their padding in ORC, whose readers take trailing spaces off."""
    return pc.utf8_rtrim(array, " ") if t.root is Root.CHAR else array
