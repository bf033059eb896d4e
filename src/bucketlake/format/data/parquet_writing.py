"""Parquet data files, written: Paimon's physical schema by pyarrow.

Spec: docs/spec/datafile.md#parquet
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, BinaryIO

import pyarrow as pa

from bucketlake.errors import UnsupportedError
from bucketlake.format.data.file_format import FileFormat
from bucketlake.format.data.layout import PARQUET_ID, stored_schema
from bucketlake.format.data.parquet_encoding import NESTED, dictionary_columns
from bucketlake.format.data.parquet_footer import annotate_timestamps, is_nanos, is_timestamp
from bucketlake.lazy import pq
from bucketlake.types.arrow import filled_table
from bucketlake.types.encoded import fitting
from bucketlake.types.model import BYTES, DataField, DataType, Root, arrow_type

CODECS = {
    "none": "none",
    "uncompressed": "none",
    "zstd": "zstd",
    "snappy": "snappy",
    "gzip": "gzip",
    "lz4": "lz4",
    "lz4_raw": "lz4",
    "brotli": "brotli",
}
PAGE_BYTES = 1 << 20
PAGE_ROWS = 100_000  # more than parquet-mr's 20,000: every page costs a reader as much as thousands of rows


def _leaves(t: DataType) -> list[DataType]:
    """The atomic parts in the order of parquet's leaf columns."""
    if t.root is Root.VARIANT:
        return [BYTES, BYTES]
    parts = [part for part in (t.key, t.element, *(item.type for item in t.fields)) if part is not None]
    return [leaf for part in parts for leaf in _leaves(part)] if parts else [t]


class ParquetSink:
    """Writes tables in canonical layout as the row groups of one file.

    `told`: the columns whose statistics the footer has as we need them; after `close`, `metadata` is that footer. It
    leaves NaN out of floats' bounds and knows nothing of INT96 and of whole nested columns.
    """

    def __init__(self, out: BinaryIO, fields: Sequence[DataField], form: FileFormat) -> None:
        leaves = [leaf for item in fields for leaf in _leaves(item.type)]
        nanos = any(is_nanos(leaf) for leaf in leaves)
        self._patched: dict[int, tuple[str, bool]] = {}
        if nanos:
            self._patched = {
                number: (arrow_type(leaf).unit, leaf.root is Root.TIMESTAMP_LTZ)
                for number, leaf in enumerate(leaves)
                if is_timestamp(leaf) and not is_nanos(leaf)
            }
        self._out = _TailHolder(out) if self._patched else out
        schema = stored_schema(fields, PARQUET_ID)
        self._plain = pa.schema([f.with_type(_integer_type(f.type)) for f in schema]) if self._patched else schema
        self._nanos, self._form, self._fields = nanos, form, tuple(fields)
        self._settings = _settings(form, [item.name for item in fields])
        self.told = frozenset(item.name for item in fields if _is_told(item.type, patched=bool(self._patched)))
        self.metadata: pq.FileMetaData | None = None
        self._footers: list[pq.FileMetaData] = []
        self._writer: pq.ParquetWriter | None = None  # opened by the first rows, which choose the encodings

    def write(self, table: pa.Table) -> None:
        """Append one row group. The first says which columns go into the file as they are encoded."""
        table = filled_table(table)
        writer = self._opened(table)
        if self._patched or not table.schema.equals(writer.schema):
            table = _as_schema(table, writer.schema)
        # A column chunk has one dictionary: with a second the rest of it would be stored plainly.
        writer.write_table(table.unify_dictionaries(), row_group_size=max(1, table.num_rows))

    @property
    def schema(self) -> pa.Schema:
        """The file's columns, with their ids."""
        return stored_schema(self._fields, PARQUET_ID)

    def close(self, notes: Mapping[str, str] | None = None) -> None:
        """Write the footer, with `notes` by key."""
        writer = self._opened(self._plain.empty_table())
        if notes:
            writer.add_key_value_metadata(dict(notes))
        if isinstance(self._out, _TailHolder):
            self._out.hold()
            writer.close()
            self._out.release(lambda tail: annotate_timestamps(tail, self._patched))
        else:
            writer.close()
        self.metadata = self._footers[0] if self._footers else None

    def _opened(self, table: pa.Table) -> pq.ParquetWriter:
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._out,
                fitting(self._plain, table.columns),
                use_deprecated_int96_timestamps=self._nanos,
                metadata_collector=self._footers,
                use_dictionary=dictionary_columns(table, self._fields, self._form),
                **self._settings,
            )
        return self._writer


def _as_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table's columns in these types, encoded where these are."""
    columns = [
        column.dictionary_encode() if pa.types.is_dictionary(kind) and column.type != kind else column.cast(kind)
        for column, kind in zip(table.columns, schema.types, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _is_told(t: DataType, *, patched: bool) -> bool:
    untold = (Root.FLOAT, Root.DOUBLE, *NESTED)
    return t.root not in untold and not is_nanos(t) and not (patched and is_timestamp(t))


class _TailHolder:
    """A sink that keeps back what is written from `hold` on until `release` has changed it."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._tail: list[bytes] | None = None
        self._held = 0
        self.closed = False

    def write(self, data: Any) -> int:
        if self._tail is None:
            self._out.write(data)
        else:
            self._tail.append(bytes(data))
            self._held += len(data)
        return len(data)

    def tell(self) -> int:
        return self._out.tell() + self._held

    def flush(self) -> None:
        """Nothing is kept longer than said."""

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True

    def hold(self) -> None:
        self._tail = []

    def release(self, change: Any) -> None:
        tail, self._tail, self._held = b"".join(self._tail or []), None, 0
        self._out.write(change(tail))


def _integer_type(kind: pa.DataType) -> pa.DataType:
    """The type with INT64 for timestamps that are not nanoseconds."""
    if pa.types.is_timestamp(kind):
        return kind if kind.unit == "ns" else pa.int64()
    if pa.types.is_map(kind):
        key, value = kind.key_field, kind.item_field
        return pa.map_(key.with_type(_integer_type(key.type)), value.with_type(_integer_type(value.type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_integer_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(_integer_type(f.type)) for f in kind.fields])
    return kind


_VERSIONS = {"PARQUET_1_0": "1.0", "PARQUET_2_0": "2.0", "V1": "1.0", "V2": "2.0"}


def _settings(form: FileFormat, names: Sequence[str]) -> dict[str, Any]:
    """Arguments of pyarrow's writer; those that the installed one does not know are left out."""
    compression = _codec(form.setting("parquet.compression") or form.compression)
    level = form.number("parquet.compression.codec.zstd.level", form.zstd_level)
    codecs = {name: _codec(form.setting(f"parquet.compression#{name}") or compression) for name in names}
    one = set(codecs.values()) == {compression}
    arguments = {
        "version": "2.6",
        "store_schema": False,
        "store_decimal_as_integer": True,
        "write_time_adjusted_to_utc": True,
        "write_page_index": True,
        "compression": compression if one else codecs,
        "compression_level": level if one and compression == "zstd" else None,
        "data_page_size": form.number("parquet.page.size", PAGE_BYTES),
        "max_rows_per_page": form.number("parquet.page.row.count.limit", PAGE_ROWS),
        "dictionary_pagesize_limit": form.number("parquet.dictionary.page.size", PAGE_BYTES),
        "data_page_version": _VERSIONS.get((form.setting("parquet.writer.version") or "V1").upper(), "1.0"),
    }
    if not one:
        levels = {name: level for name, codec in codecs.items() if codec == "zstd"}
        arguments["compression_level"] = levels or None
    return {key: value for key, value in arguments.items() if key in _known_arguments() or key == "data_page_size"}


@cache
def _known_arguments() -> frozenset[str]:
    return frozenset(inspect.signature(pq.ParquetWriter.__init__).parameters)


def _codec(name: str) -> str:
    found = CODECS.get(name.strip().lower())
    if found is None:
        remedy = f"use one of {', '.join(sorted(CODECS))}"
        raise UnsupportedError("compression is not supported in parquet", compression=name, remedy=remedy)
    return found
