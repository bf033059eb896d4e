"""A parquet file once more with other values in some columns: all other column chunks are copied as bytes.

    file := "PAR1", column chunk*, column index*, offset index*, footer, its length, "PAR1"

    found = ReplacedColumns.of(opened, fields, form)    None where the file holds these columns otherwise
    writing = Writing([found], out)                     of several files that hold the same: one behind the other
    writing.add(table)                                  the next row group: the columns' new table, None: as they are
    writing.finish()                                    the footer, and how many bytes there are

Neither decoding nor encoding the columns that stay is what makes a change of few columns cheap; a row group without a
change is copied whole. What moves are offsets: of chunks and, in their offset indexes, of pages. Bloom filters, which
few writers give a length, are left out, as they are when rows are written anew.

Spec: docs/spec/datafile.md#replaced-columns
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa

from bucketlake.errors import CorruptError
from bucketlake.format.data import thrift
from bucketlake.format.data.file_format import FileFormat
from bucketlake.format.data.parquet_footer import MAGIC, closed, split_tail
from bucketlake.format.data.parquet_writing import ParquetSink
from bucketlake.format.data.thrift import I32, I64, LIST, STRUCT, Struct, get, put, remove
from bucketlake.lazy import pq
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

COPIED = 8 << 20  # bytes that are read at once
# Fields of a footer: FileMetaData, RowGroup, ColumnChunk, ColumnMetaData, SchemaElement, OffsetIndex, PageLocation.
_SCHEMA, _ROWS, _GROUPS, _ENCRYPTION = 2, 3, 4, 8
_CHUNKS, _TOTAL_BYTES, _GROUP_ROWS, _SORTING, _GROUP_OFFSET, _GROUP_COMPRESSED, _ORDINAL = 1, 2, 3, 4, 5, 6, 7
_ELSEWHERE, _CHUNK_OFFSET, _META, _OFFSET_INDEX, _COLUMN_INDEX, _CRYPTO = 1, 2, 3, (4, 5), (6, 7), (8, 9)
_PLAIN_BYTES, _COMPRESSED, _DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE, _BLOOM = 6, 7, 9, 10, 11, (14, 15)
_NAME, _CHILDREN, _FIELD_ID = 4, 5, 9
_LOCATIONS, _PAGE_OFFSET = 1, 1


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A column chunk and where its bytes are. `tree`: what the footer says of it."""

    tree: Struct
    source: BinaryIO
    start: int
    end: int

    @property
    def meta(self) -> Struct:
        """Its ColumnMetaData."""
        meta: Struct = _known(get(self.tree, _META))
        return meta

    def index(self, fields: tuple[int, int]) -> bytes | None:
        """Its column index or offset index, None where it has none."""
        at, length = (get(self.tree, number) for number in fields)
        if at is None or length is None:
            return None
        return _read(self.source, at, at + length)


@dataclass(slots=True)
class ReplacedColumns:
    """An open parquet file whose columns `fields` can be replaced. `told`: those whose statistics its footer will have
    as we need them; `leaves`: the numbers of their leaf columns."""

    file: BinaryIO
    fields: tuple[DataField, ...]
    form: FileFormat
    told: frozenset[str]
    leaves: frozenset[int]
    tree: Struct
    _end: int

    @classmethod
    def of(
        cls, file: BinaryIO, fields: Sequence[DataField], form: FileFormat, held: Sequence[DataField] = ()
    ) -> ReplacedColumns | None:
        """None where the file does not hold each of these columns just as it would be written now, or is encrypted.
        `held`: the columns that it must hold so, and no others.

        Raises: CorruptError."""
        size = file.seek(0, io.SEEK_END)
        tail = _read(file, max(size - 8, 0), size)
        length = struct.unpack("<I", tail[:4])[0] if len(tail) == 8 else 0
        _, footer = split_tail(_read(file, max(size - 8 - length, 0), size))
        tree = thrift.decode_struct(footer)
        if get(tree, _ENCRYPTION) is not None:
            return None
        data = io.BytesIO()
        sink = ParquetSink(data, held or fields, form)  # what a file of these columns would say
        sink.close()
        own, there = _columns(_tree(data.getvalue())[0]), _columns(tree)
        if any(name not in there or there[name][0] != shape for name, (shape, _) in own.items()):
            return None
        if held and list(there) != list(own):
            return None
        leaves = frozenset(leaf for item in fields for leaf in there[item.name][1])
        found = cls(file, tuple(fields), form, sink.told, leaves, tree, size - 8 - length)
        return found if found._is_plain() else None

    @property
    def group_rows(self) -> list[int]:
        """The rows of each row group."""
        return [_known(get(group, _GROUP_ROWS)) for group in self.groups]

    @property
    def groups(self) -> list[Struct]:
        """The footer's row groups."""
        found = get(self.tree, _GROUPS)
        return found[1] if found is not None else []

    def _is_plain(self) -> bool:
        """Whether every chunk lies in this file, readable by everyone."""
        chunks = [chunk for group in self.groups for chunk in _known(get(group, _CHUNKS))[1]]
        return all(get(chunk, number) is None for chunk in chunks for number in (_ELSEWHERE, *_CRYPTO))

    def write_group(self, out: _Output, number: int, table: pa.Table | None) -> list[tuple[_Chunk, int]]:
        """Write a row group's chunks in their order; each with the distance by which its bytes have moved."""
        group = self.groups[number]
        rows = _known(get(group, _GROUP_ROWS))
        chunks = [_chunk(tree, self.file, self._end) for tree in _known(get(group, _CHUNKS))[1]]
        if table is not None:
            if table.num_rows != rows:
                raise CorruptError("new values of another number of rows", rows=table.num_rows, expected=rows)
            new = iter(self._encoded(table) if rows else [])
            chunks = [next(new, chunk) if leaf in self.leaves else chunk for leaf, chunk in enumerate(chunks)]
        start = out.size
        written = [(chunk, moved) for run in _runs(chunks) for chunk, moved in _copied(out, run)]
        for chunk, moved in written:
            _move(chunk, moved)
        put(group, _CHUNKS, LIST, (STRUCT, [chunk.tree for chunk in chunks]))
        put(group, _TOTAL_BYTES, I64, sum(_known(get(chunk.meta, _PLAIN_BYTES)) for chunk in chunks))
        if get(group, _GROUP_OFFSET) is not None:
            put(group, _GROUP_OFFSET, I64, start)
        if get(group, _GROUP_COMPRESSED) is not None:
            put(group, _GROUP_COMPRESSED, I64, sum(_known(get(chunk.meta, _COMPRESSED)) for chunk in chunks))
        remove(group, _SORTING)
        return written

    def _encoded(self, table: pa.Table) -> list[_Chunk]:
        """The columns' chunks with new values, in the order of the file's leaves."""
        data = io.BytesIO()
        sink = ParquetSink(data, self.fields, self.form)
        sink.write(table)
        sink.close()
        tree, end = _tree(data.getvalue())
        (group,) = _known(get(tree, _GROUPS))[1]
        return [_chunk(chunk, data, end) for chunk in _known(get(group, _CHUNKS))[1]]


class Writing:
    """A file with replaced columns on its way out, row group by row group. Of several sources, which hold the same
    columns, it has the row groups of all, in their order."""

    def __init__(self, sources: Sequence[ReplacedColumns], out: BinaryIO) -> None:
        self._sources, self._out = sources, _Output(out)
        self._written: list[tuple[_Chunk, int]] = []
        self._rest = ((source, number) for source in sources for number in range(len(source.groups)))
        self._out.write(MAGIC)

    def add(self, table: pa.Table | None) -> None:
        """Write the next row group. `table`: new values of the columns, as many as it has rows."""
        source, number = next(self._rest)
        self._written += source.write_group(self._out, number, table)

    def finish(self) -> tuple[pq.FileMetaData, int]:
        """Write what stands behind the row groups; the footer and how many bytes the file has."""
        for fields in (_COLUMN_INDEX, _OFFSET_INDEX):
            for chunk, moved in self._written:
                _write_index(self._out, chunk, fields, moved)
        tree = self._sources[0].tree
        if len(self._sources) > 1:
            rows = sum(sum(source.group_rows) for source in self._sources)
            groups = [group for source in self._sources for group in source.groups]
            for group in groups:
                remove(group, _ORDINAL)
            put(tree, _GROUPS, LIST, (STRUCT, groups))
            put(tree, _ROWS, I64, rows)
        footer = closed(thrift.encode_struct(tree))
        self._out.write(footer)
        return pq.read_metadata(pa.BufferReader(MAGIC + footer)), self._out.size


class _Output:
    """Where the file goes; counts its bytes."""

    def __init__(self, out: BinaryIO) -> None:
        self._out, self.size = out, 0

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._out.write(data)
        self.size += len(data)


def _tree(data: bytes) -> tuple[Struct, int]:
    """The footer of a file in memory, and where it begins."""
    start, footer = split_tail(data)
    return thrift.decode_struct(footer), start


def _columns(tree: Struct) -> dict[str, tuple[list[Struct], list[int]]]:
    """By top-level column: how the schema describes it, field ids apart, and the numbers of its leaves."""
    elements = _known(get(tree, _SCHEMA))[1]
    found: dict[str, tuple[list[Struct], list[int]]] = {}
    at, leaf = 1, 0
    while at < len(elements):
        first, open_elements = at, 1
        leaves = []
        while open_elements:
            children = get(elements[at], _CHILDREN) or 0
            if not children:
                leaves.append(leaf)
                leaf += 1
            open_elements += children - 1
            at += 1
        shape = [[part for part in element if part[0] != _FIELD_ID] for element in elements[first:at]]
        found[_known(get(elements[first], _NAME)).decode()] = shape, leaves
    return found


def _chunk(tree: Struct, source: BinaryIO, limit: int) -> _Chunk:
    """A chunk whose bytes lie before `limit`."""
    meta = _known(get(tree, _META))
    start, dictionary = _known(get(meta, _DATA_PAGE)), get(meta, _DICTIONARY_PAGE)
    if dictionary is not None and 0 < dictionary < start:
        start = dictionary
    length = _known(get(meta, _COMPRESSED))
    if length < 0 or not len(MAGIC) <= start <= limit - length:
        raise CorruptError("a column chunk lies outside of its file", offset=start, size=length)
    return _Chunk(tree, source, start, start + length)


def _runs(chunks: Sequence[_Chunk]) -> Iterator[list[_Chunk]]:
    """Chunks that lie one behind the other in one source."""
    run: list[_Chunk] = []
    for chunk in chunks:
        if run and (chunk.source is not run[-1].source or chunk.start != run[-1].end):
            yield run
            run = []
        run.append(chunk)
    if run:
        yield run


def _copied(out: _Output, run: Sequence[_Chunk]) -> list[tuple[_Chunk, int]]:
    """Copy a run; its chunks with the distance that they have moved."""
    start, end = run[0].start, run[-1].end
    moved = out.size - start
    for at in range(start, end, COPIED):
        out.write(_read(run[0].source, at, min(at + COPIED, end)))
    return [(chunk, moved) for chunk in run]


def _move(chunk: _Chunk, by: int) -> None:
    """Say where a chunk's pages are now."""
    for number in (_DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE):
        at = get(chunk.meta, number)
        if at is not None:
            put(chunk.meta, number, I64, at + by if at > 0 else at)
    remove(chunk.meta, *_BLOOM)
    at = get(chunk.tree, _CHUNK_OFFSET)
    put(chunk.tree, _CHUNK_OFFSET, I64, at + by if at else 0)


def _write_index(out: _Output, chunk: _Chunk, fields: tuple[int, int], moved: int) -> None:
    """Write a chunk's index and say where it is."""
    data = chunk.index(fields)
    if data is None:
        return
    if fields == _OFFSET_INDEX:
        tree = thrift.decode_struct(data)
        for page in _known(get(tree, _LOCATIONS))[1]:
            put(page, _PAGE_OFFSET, I64, _known(get(page, _PAGE_OFFSET)) + moved)
        data = thrift.encode_struct(tree)
    put(chunk.tree, fields[0], I64, out.size)
    put(chunk.tree, fields[1], I32, len(data))
    out.write(data)


def _read(source: BinaryIO, start: int, end: int) -> bytes:
    """Bytes of a file, all of them."""
    if start < 0 or end < start:
        raise CorruptError("a part of a parquet file lies outside of it", start=start, end=end)
    source.seek(start)
    data = source.read(end - start)
    if len(data) < end - start:
        raise CorruptError("a part of a parquet file lies outside of it", start=start, end=end)
    return data


def _known(value: Any) -> Any:
    """A value that a footer must have."""
    if value is None:
        raise CorruptError("a parquet footer lacks a part that all have")
    return value
