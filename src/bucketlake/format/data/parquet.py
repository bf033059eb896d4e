"""Parquet data files, read: Paimon's physical schema by pyarrow.

Spec: docs/spec/datafile.md#parquet
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.env.remote_input import ask_ahead
from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.format.data.dictionary_pages import longest_text
from bucketlake.format.data.file_format import BatchSize
from bucketlake.format.data.layout import map_leaves
from bucketlake.format.data.map_reading import ShreddedColumns
from bucketlake.format.data.parquet_bounds import check_bounds, column_bounds, leaf_paths
from bucketlake.format.data.parquet_footer import int96_as_bytes, int96_to_timestamps, is_timestamp
from bucketlake.lazy import pc, pq
from bucketlake.predicate.evaluate import Bounds, mask, may_match_all
from bucketlake.predicate.tree import Predicate, columns_of, is_exact
from bucketlake.types.arrow import canonical_array
from bucketlake.types.encoded import fitting, is_small
from bucketlake.types.model import DataField, DataType, Root, arrow_field, arrow_type, canonical_batch

Mask = npt.NDArray[np.bool_]
_STREAM_BUFFER = 1 << 20
_THREADED = 1 << 20  # bytes of a row group from which its columns are decoded by several threads
_FIRST = 3  # how many times the columns of a filter must go into all that are read to be looked at first
_ENCODED_ROW = 1.5  # bytes of a row that a column stored as places takes at most; stored plainly, a text takes over 4
_ENCODED_CHUNK = 64 << 10  # of a chunk, whatever its rows: the dictionary
_LONG_BATCHES = 8  # times the bytes wanted of a batch that it may have where texts are much longer than stored
_PLACES = {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}
_WIDTHS = {"INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}


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
        self._next: list[int] = []  # row groups that are read after the one that is read
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
        chosen = list(map(int, np.flatnonzero(kept)))
        for turn, number in enumerate(chosen):
            if row_filter is None and turn:  # who reads a second group reads on
                self._next = chosen[turn + 1 : turn + 2]
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

    def _chunks(self, numbers: Sequence[int], leaves: Sequence[int]) -> list[tuple[int, int]]:
        """Where some column chunks of these row groups lie, and how many bytes they take."""
        for number in numbers:
            self._check(number, leaves)
        groups = [self.metadata.row_group(number) for number in numbers]
        return [_place(group.column(leaf)) for group in groups for leaf in leaves]

    def group(
        self, number: int, size: BatchSize, fields: Sequence[DataField] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one row group, canonical, of all columns wanted or these of them."""
        fields, leaves = (self.fields, self._leaves) if fields is None else (fields, self._leaves_of(fields))
        ask_ahead(self._opened, partial(self._chunks, [number, *self._next], leaves))
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
        tops = [path.split(".")[0] for path in leaf_paths(self.metadata)]
        leaves = [number for number, name in enumerate(tops) if name in names]
        for number in range(len(self._group_rows)) if leaves else ():
            self._check(number, leaves)
        check_bounds(self.metadata, leaves)
        return column_bounds(self.metadata, fields)

    def codecs(self, groups: int | None = None) -> set[str]:
        """What all columns of the first row groups, or of all, are compressed by, as Arrow names it."""
        leaves = range(self.metadata.num_columns)
        found: set[str] = set()
        for number in range(len(self._group_rows))[:groups]:
            self._check(number, leaves)
            group = self.metadata.row_group(number)
            found.update(group.column(leaf).compression for leaf in leaves)
        return found

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


def _place(chunk: pq.ColumnChunkMetaData) -> tuple[int, int]:
    """Where a column chunk lies in its file, and how many bytes it takes."""
    starts = (chunk.data_page_offset, chunk.dictionary_page_offset if chunk.has_dictionary_page else None)
    return min((start for start in starts if start), default=0), chunk.total_compressed_size


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
    if is_timestamp(t) and pa.types.is_fixed_size_binary(array.type):
        return int96_to_timestamps(array, arrow_type(t))
    return array
