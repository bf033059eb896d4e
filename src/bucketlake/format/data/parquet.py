"""Parquet data files: Paimon's physical schema, written and read by pyarrow.

Spec: docs/spec/datafile.md#parquet
"""

from __future__ import annotations

import inspect
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from decimal import Context, Decimal
from functools import cache, partial
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.format.data.dictionary_pages import longest_text
from bucketlake.format.data.file_format import BatchSize, FileFormat
from bucketlake.format.data.layout import PARQUET_ID, map_leaves, stored_schema
from bucketlake.format.data.map_reading import ShreddedColumns
from bucketlake.format.data.parquet_encoding import NESTED, dictionary_columns
from bucketlake.format.data.parquet_footer import annotate_timestamps, int96_as_bytes, int96_to_timestamps
from bucketlake.format.metadata.stats import ColumnStats
from bucketlake.format.row.binary_row import typed_value
from bucketlake.lazy import pc, pq
from bucketlake.predicate.evaluate import Bounds, mask, may_match_all
from bucketlake.predicate.tree import Predicate, columns_of, is_exact
from bucketlake.types.arrow import canonical_array, filled_table
from bucketlake.types.encoded import fitting, is_small
from bucketlake.types.model import BYTES, DataField, DataType, Root, arrow_field, arrow_type, canonical_batch

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
Mask = npt.NDArray[np.bool_]
_STREAM_BUFFER = 1 << 20
_THREADED = 1 << 20  # bytes of a row group from which its columns are decoded by several threads
_FIRST = 3  # how many times the columns of a filter must go into all that are read to be looked at first
_WIDE = Context(prec=76)
_ENCODED_ROW = 1.5  # bytes of a row that a column stored as places takes at most; stored plainly, a text takes over 4
_ENCODED_CHUNK = 64 << 10  # of a chunk, whatever its rows: the dictionary
_LONG_BATCHES = 8  # times the bytes wanted of a batch that it may have where texts are much longer than stored
_PLACES = {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}
_WIDTHS = {"INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}


def is_nanos(t: DataType) -> bool:
    """Whether the type is a timestamp that needs nanoseconds: INT96 in parquet files."""
    return t.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ) and (6 if t.precision is None else t.precision) > 6


def _is_timestamp(t: DataType) -> bool:
    return t.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)


def _leaves(t: DataType) -> list[DataType]:
    """The atomic parts in the order of parquet's leaf columns."""
    if t.root is Root.VARIANT:
        return [BYTES, BYTES]
    parts = [part for part in (t.key, t.element, *(item.type for item in t.fields)) if part is not None]
    return [leaf for part in parts for leaf in _leaves(part)] if parts else [t]


# ---------------------------------------------------------------------------------------------- writing


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
                if _is_timestamp(leaf) and not is_nanos(leaf)
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
    return t.root not in untold and not is_nanos(t) and not (patched and _is_timestamp(t))


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


# ---------------------------------------------------------------------------------------------- reading


def _parquet_file(file: BinaryIO, options: Mapping[str, Any]) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(file, **options)
    except pa.ArrowInvalid as error:
        if "Map keys must be annotated as required" not in str(error):
            raise
        raise UnsupportedError(
            "the keys of a MAP column may be null in this file, as Apache Paimon before 0.9 wrote them",
            remedy="let Apache Paimon compact the table in full, which writes its files anew",
        ) from error


class ParquetSource:
    """One open parquet file. `fields`: the columns wanted, as the file's schema has them; `encoded`: those of them that
    may be given encoded, as the file has them, where that pays."""

    def __init__(
        self, file: BinaryIO, fields: Sequence[DataField], *, remote: bool = False, encoded: Set[str] = frozenset()
    ) -> None:
        # Each column's buffer is allocated whole, however small the file is.
        streamed = {"pre_buffer": False, "buffer_size": max(1, min(_STREAM_BUFFER, file.seek(0, io.SEEK_END)))}
        options = {"pre_buffer": True} if remote else streamed
        self._opened, self._remote, self._streamed = file, remote, streamed
        self._file = _parquet_file(file, options)
        self.fields = tuple(fields)
        self._checked: set[tuple[int, int]] = set()  # (row group, leaf)
        self._shredded = ShreddedColumns(self._file.metadata.metadata, self._file.schema_arrow, fields)
        tops = self._tops = _tops(self._file.schema_arrow)
        self._leaves = self._leaves_of(fields)
        schema = self._file.schema
        self._int96 = {tops[number] for number in self._leaves if schema.column(number).physical_type == "INT96"}
        if self._int96:
            self._file = pq.ParquetFile(file, metadata=int96_as_bytes(file), **options)
        self._checker = pq.ParquetFile(file, metadata=self._file.metadata, **streamed) if remote else self._file
        metadata = self._file.metadata
        self._group_rows = np.array([metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)], np.int64)
        if (self._group_rows < 0).any() or int(self._group_rows.sum()) != metadata.num_rows:
            raise CorruptError("a parquet file's row groups have other rows than it says", rows=metadata.num_rows)
        self._kept = self._encoded_of([item for item in fields if item.name in encoded])
        if self._kept:
            self._file = pq.ParquetFile(file, metadata=metadata, read_dictionary=list(self._kept), **options)

    @property
    def metadata(self) -> pq.FileMetaData:
        """The footer."""
        return self._file.metadata

    @property
    def group_rows(self) -> list[int]:
        """The rows of each row group."""
        return list(map(int, self._group_rows))

    def batches(
        self, size: BatchSize, row_filter: Predicate | None = None, known: Sequence[DataField] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Rows in file order, canonical; row groups without a match may be left out. `known`: columns of the filter."""
        return (batch for _, batch in self.numbered(size, row_filter, known))

    def numbered(
        self,
        size: BatchSize,
        row_filter: Predicate | None = None,
        known: Sequence[DataField] = (),
        left_out: Mask | None = None,
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """As `batches`, each with the position in the file of its first row. `left_out`: rows of the file that are not
        wanted; row groups of such rows alone are left out.

        Columns of the filter that are a small part of what is read are looked at first: other columns of a row group
        are decoded up to the last row that it is true for. Where most groups have such rows, this is given up."""
        rows = self._group_rows
        kept = np.ones(len(rows), np.bool_)
        if row_filter is not None and len(rows):
            named = columns_of(row_filter)
            bounds = self.bounds([item for item in known if item.name in named])
            kept = may_match_all(row_filter, bounds, rows)
        starts = np.cumsum(rows) - rows
        if left_out is not None:
            kept &= [not left_out[at : at + count].all() for at, count in zip(starts, rows, strict=True)]
        met = missed = 0
        for number in map(int, np.flatnonzero(kept)):
            at, end = int(starts[number]), int(rows[number])
            if row_filter is not None and met <= missed + 1 and (own := self._looked_at_first(number, row_filter)):
                end = _end([mask(row_filter, batch) for batch in self.group(number, size, own)])
                met, missed = (met + 1, missed) if end else (met, missed + 1)
            for batch in self.group(number, BatchSize(min(size.rows, end), size.bytes)) if end else ():
                yield at, batch
                at += batch.num_rows
                if at >= starts[number] + end:
                    break

    def _looked_at_first(self, number: int, row_filter: Predicate) -> list[DataField]:
        """The columns of a filter; none where these alone do not decide it, or are much of what is read."""
        named = columns_of(row_filter)
        own = [item for item in self.fields if item.name in named]
        if not own or len(own) < len(named) or not is_exact(row_filter):
            return []
        self._check(number, self._leaves)
        return own if self._width(number, self._leaves_of(own)) * _FIRST <= self._width(number, self._leaves) else []

    def _encoded_of(self, fields: Sequence[DataField]) -> set[str]:
        """Those columns of text that the file holds as places in small dictionaries throughout; all are looked at
        together, since a look at one takes work that grows with the columns of the file."""
        arrow, metadata = self._file.schema_arrow, self._file.metadata
        texts = {item.name for item in fields if item.type.root in (Root.CHAR, Root.VARCHAR) and "." not in item.name}
        leaves = Counter(self._tops)
        flat = {leaf: top for leaf, top in enumerate(self._tops) if top in texts and leaves[top] == 1}
        found = {leaf: top for leaf, top in flat.items() if arrow.field(top).type == pa.string()}
        for number, rows in enumerate(self._group_rows.tolist()):
            self._check(number, list(found))
            chunks, most = metadata.row_group(number), _ENCODED_ROW * rows + _ENCODED_CHUNK
            found = {leaf: top for leaf, top in found.items() if _is_placed(chunks.column(leaf), most)}
        return set(found.values())

    def _leaves_of(self, fields: Sequence[DataField]) -> list[int]:
        chosen = {item.name for item in fields}
        return [number for number, name in enumerate(self._tops) if name in chosen]

    def _width(self, number: int, leaves: Sequence[int]) -> int:
        """Bytes of some columns of a row group that has been checked: as stored, or of their values where all have one
        width, of which runs take less."""
        chunks = [self.metadata.row_group(number).column(leaf) for leaf in leaves]
        return sum(
            max(one.total_uncompressed_size, one.num_values * _WIDTHS.get(one.physical_type, 0)) for one in chunks
        )

    def _fitting(self, number: int, leaves: Sequence[int], rows: int, size: BatchSize) -> int:
        """So many rows of a group at most that texts, each as long as the longest in a dictionary, take no more than a
        few times the bytes that are wanted."""
        most, group, row = _LONG_BATCHES * size.bytes, self.metadata.row_group(number), 0
        for leaf in leaves:
            chunk = group.column(leaf)
            if chunk.physical_type != "BYTE_ARRAY" or rows * chunk.total_uncompressed_size <= most:
                continue
            if self._remote and _PLACES.isdisjoint(chunk.encodings):
                continue  # it says that it has no dictionary: not worth a request
            look = partial(self._as_places, number, leaf)
            values = -(-chunk.num_values // max(1, group.num_rows))
            row += values * longest_text(self._opened, chunk, most // (rows * max(1, values)), look)
        return rows if rows * row <= most else max(1, most // row)

    def _as_places(self, number: int, leaf: int) -> pa.DictionaryArray | None:
        """The first row of a column as a place in its dictionary; None of one that has columns above it."""
        path = self._file.schema.column(leaf).path
        if path not in self._file.schema_arrow.names:
            return None
        file = pq.ParquetFile(self._opened, metadata=self.metadata, read_dictionary=[path], **self._streamed)
        batch = next(iter(file.iter_batches(1, row_groups=[number], columns=[path], use_threads=False)))
        return batch.column(0) if isinstance(batch.column(0), pa.DictionaryArray) else None

    def group(
        self, number: int, size: BatchSize, fields: Sequence[DataField] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one row group, canonical, of all columns wanted or these of them."""
        fields, leaves = (self.fields, self._leaves) if fields is None else (fields, self._leaves_of(fields))
        self._check(number, leaves)
        group, wide = self.metadata.row_group(number), self._width(number, leaves)
        rows = max(1024, min(size.rows, int(size.bytes * group.num_rows / max(wide, 1))))
        rows = self._shredded.most(self._fitting(number, leaves, min(rows, max(1, group.num_rows)), size))
        names = [item.name for item in fields]
        found = 0
        threads = wide >= _THREADED  # else to start them takes longer than to decode
        for batch in self._file.iter_batches(rows, row_groups=[number], columns=names, use_threads=threads):
            found += batch.num_rows
            yield self._canonical(batch, fields)
        if found != group.num_rows:
            raise CorruptError("a row group has other rows than it says", rows=found, recorded=group.num_rows)

    def bounds(self, fields: Sequence[DataField]) -> dict[str, Bounds]:
        """What the footer says of atomic columns, as `column_bounds`."""
        names = {item.name for item in fields}
        tops = [path.split(".")[0] for path in _paths(self.metadata)]
        leaves = [number for number, name in enumerate(tops) if name in names]
        for number in range(len(self._group_rows)) if leaves else ():
            self._check(number, leaves)
        return column_bounds(self.metadata, fields)

    def _check(self, number: int, leaves: Sequence[int]) -> None:
        """Raise where the footer's description of column chunks is damaged: to look at one through `RowGroupMetaData`
        ends the process then, whereas opening it for reading, here for batches of no rows, raises. To ask for no column
        in batches of no rows ends it, too: what a file of another program lacks is told where its rows are read."""
        leaves = [leaf for leaf in leaves if (number, leaf) not in self._checked]
        if not leaves:
            return
        list(self._checker.reader.iter_batches(0, [number], column_indices=leaves, use_threads=False))
        group, schema = self.metadata.row_group(number), self._file.schema
        for leaf in leaves:  # its statistics are made of both
            if group.column(leaf).physical_type != schema.column(leaf).physical_type:
                raise CorruptError("a column chunk is of another type than its column", column=schema.column(leaf).path)
        self._checked.update((number, leaf) for leaf in leaves)

    def _canonical(self, batch: pa.RecordBatch, fields: Sequence[DataField]) -> pa.RecordBatch:
        physical = self._shredded.of(fields)
        if self._int96:
            columns = {name: batch.column(name) for name in batch.schema.names}
            for item in physical:
                if item.name in self._int96:
                    columns[item.name] = map_leaves(columns[item.name], item.type, _from_int96)
            batch = pa.RecordBatch.from_pydict(columns)
        if not self._kept:
            return self._shredded.logical(canonical_batch(batch, physical, trusted=True), fields)
        arrays = [_taken(batch.column(item.name), item, item.name in self._kept) for item in physical]
        targets = pa.schema([arrow_field(item.name, item.type) for item in physical])
        return self._shredded.logical(pa.RecordBatch.from_arrays(arrays, schema=fitting(targets, arrays)), fields)


def _is_placed(chunk: pq.ColumnChunkMetaData, most: int) -> bool:
    return bool(chunk.has_dictionary_page) and chunk.total_uncompressed_size <= most


def _taken(array: pa.Array, item: DataField, keep: bool) -> pa.Array:
    """A column in canonical layout; if it may be kept, encoded where it is and its dictionary is small."""
    target = arrow_field(item.name, item.type)
    if keep and isinstance(array, pa.DictionaryArray):
        places = pc.min_max(array.indices).as_py()
        if array.null_count < len(array) and not 0 <= places["min"] <= places["max"] < len(array.dictionary):
            raise CorruptError("a text lies outside of its column's dictionary", column=item.name)
        if is_small(array) and (target.nullable or not array.null_count):
            return array
    return canonical_array(array, target, item.name, trusted=True)


def _end(masks: Sequence[pa.BooleanArray]) -> int:
    """How many rows there are up to the last that is true."""
    found = np.flatnonzero(pa.chunked_array(masks, pa.bool_()).fill_null(False).to_numpy())
    return int(found[-1]) + 1 if len(found) else 0


def _tops(schema: pa.Schema) -> list[str]:
    """The top-level column of every leaf."""
    return [field.name for field in schema for _ in range(_leaf_count(field.type))]


def _leaf_count(kind: pa.DataType) -> int:
    return sum(_leaf_count(kind.field(i).type) for i in range(kind.num_fields)) if kind.num_fields else 1


def _from_int96(array: pa.Array, t: DataType) -> pa.Array:
    """INT96 values, which arrive as 12-byte binaries, as timestamps."""
    if _is_timestamp(t) and pa.types.is_fixed_size_binary(array.type):
        return int96_to_timestamps(array, arrow_type(t))
    return array


# ---------------------------------------------------------------------------------------------- footer statistics


def column_bounds(metadata: pq.FileMetaData, fields: Sequence[DataField]) -> dict[str, Bounds]:
    """What the footer says of atomic columns, one entry a row group; null where it says nothing."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    if not groups:
        return {}
    places = {path: number for number, path in enumerate(_paths(metadata))}
    timed = any(_is_timestamp(item.type) for item in fields)
    units = {one.name: one.type for one in metadata.schema.to_arrow_schema()} if timed else {}
    found = {}
    for item in fields:
        place = places.get(item.name)
        if place is None or item.type.root in NESTED:
            continue
        statistics = [group.column(place).statistics for group in groups]
        bounded = [_is_bounded(s, item.type) for s in statistics]
        pairs = list(zip(statistics, bounded, strict=True))
        stored = metadata.schema.column(place).physical_type, units.get(item.name)
        mins = _bound_array([s.min_raw if known else None for s, known in pairs], item.type, *stored)
        maxs = _bound_array([s.max_raw if known else None for s, known in pairs], item.type, *stored)
        nulls = [s.null_count if s is not None and s.has_null_count else None for s in statistics]
        if mins is not None and maxs is not None:
            found[item.name] = Bounds(mins, maxs, pa.array(nulls, pa.int64()))
    return found


def _is_bounded(statistics: Any, t: DataType) -> bool:
    """Whether a row group tells both bounds of a column as values of its type; of text, others may store or cut bounds
    that are not UTF-8."""
    if statistics is None or not statistics.has_min_max or statistics.physical_type == "INT96":
        return False
    if t.root not in (Root.CHAR, Root.VARCHAR) or statistics.physical_type != "BYTE_ARRAY":
        return True
    try:
        statistics.min_raw.decode(), statistics.max_raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _paths(metadata: pq.FileMetaData) -> list[str]:
    return [metadata.schema.column(number).path for number in range(metadata.num_columns)]


def footer_stats(metadata: pq.FileMetaData, fields: Sequence[DataField]) -> list[ColumnStats]:
    """The statistics of each column over the whole file, exact as far as the footer is; None where it is silent.

    Bounds are left out where one row group with values has none.
    """
    bounds = column_bounds(metadata, fields)
    rows = pa.array([metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)], pa.int64())
    return [_merged(bounds[item.name], item.type, rows) if item.name in bounds else ColumnStats() for item in fields]


def _merged(bounds: Bounds, t: DataType, rows: pa.Array) -> ColumnStats:
    nulls = pc.sum(bounds.null_counts).as_py() if bounds.null_counts.null_count == 0 else None
    if len(rows) == 1:
        low, high = bounds.mins[0], bounds.maxs[0]
    else:
        silent = pc.and_(bounds.mins.is_null(), pc.fill_null(pc.less(bounds.null_counts, rows), True))
        low, high = (None, None) if pc.any(silent).as_py() else (pc.min(bounds.mins), pc.max(bounds.maxs))
    if low is None or not low.is_valid:
        return ColumnStats(None, None, nulls)
    if t.root in (Root.DATE, Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        return ColumnStats(typed_value(low.value, t), typed_value(high.value, t), nulls)
    return ColumnStats(low.as_py(), high.as_py(), nulls)


def _bound_array(raw: list[Any], t: DataType, physical: str, unit: pa.DataType | None) -> pa.Array | None:
    """Physical values as the column's type, None if the file's physical type is not the one of the column. `unit`: what
    Arrow makes of a file's timestamps."""
    target = arrow_type(t)
    whole = physical in ("INT32", "INT64")
    if t.root is Root.DECIMAL:
        if not whole:
            raw = [None if value is None else int.from_bytes(value, "big", signed=True) for value in raw]
        scale = t.scale or 0
        values = [None if value is None else Decimal(value).scaleb(-scale, _WIDE) for value in raw]
        return pa.array(values, target)
    if _is_timestamp(t):
        timed = whole and unit is not None and pa.types.is_timestamp(unit)
        return pa.array(raw, pa.int64()).cast(unit).cast(target) if timed else None
    if t.root in (Root.DATE, Root.TIME):
        return pa.array(raw, pa.int32()).view(target) if physical == "INT32" else None
    if t.root in (Root.CHAR, Root.VARCHAR):
        return pa.array(raw, pa.binary()).cast(target) if physical == "BYTE_ARRAY" else None
    if t.root in (Root.BINARY, Root.VARBINARY):
        return pa.array(raw, target) if physical == "BYTE_ARRAY" else None
    expected = {"BOOLEAN": Root.BOOLEAN, "FLOAT": Root.FLOAT, "DOUBLE": Root.DOUBLE}.get(physical)
    if whole or expected is t.root:
        return pa.array(raw, target)
    return None
