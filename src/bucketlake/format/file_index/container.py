"""The file index of a data file: a container of indexes by column and type, built while writing, asked when reading.

    file-index := 1493475289347502: i64, 1: i32, head length: i32, columns: i32, column*, redundant: i32, u8*, body
    column     := name: utf, indexes: i32, (type: utf, start: i32, length: i32)*

Big-endian; utf is Java's modified UTF-8 after its length as u16. `start` counts from the first byte of all; -1 says
that the column holds no value. The head ends where the body begins.

Spec: docs/spec/file_index.md#container
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from pyroaring import BitMap

from bucketlake.errors import InvalidError
from bucketlake.format.file_index.bitmap import BitmapIndex, encode_bitmap
from bucketlake.format.file_index.bloom import BloomFilter, BloomWriter, bits_of
from bucketlake.format.file_index.bsi import BitSliced, encode_bsi
from bucketlake.format.file_index.keys import STAMPS, TEXTS
from bucketlake.format.file_index.range_bitmap import RangeBitmap, encode_range_bitmap
from bucketlake.format.guard import decoding
from bucketlake.lazy import pa, pc
from bucketlake.predicate.tree import And, Compare, In, IsNotNull, IsNull, Not, Or, Predicate
from bucketlake.schema.file_indexes import (
    BITMAP,
    BLOOM_FILTER,
    BSI,
    RANGE_BITMAP,
    IndexSpec,
    indexed_field,
    indexed_type,
    option_value,
)
from bucketlake.types.model import DataField, DataType

MAGIC = 1493475289347502
VERSION = 1
NO_VALUES = -1
_LONGEST_NAME = (1 << 16) - 1
_FIXED_HEAD = 16
MOST_BYTES = 1 << 30  # of one index: places in it are of 4 bytes, and readers take it whole
_OUTWARD = {"<": "<=", ">": ">="}

Indexes = Mapping[str, Mapping[str, "bytes | None"]]


# ---------------------------------------------------------------------------------------------- the container


def encode_file_index(indexes: Indexes) -> bytes:
    """Column -> type -> index, in their order; None for a column without any value."""
    sizes = 4 + 4 + sum(len(_utf(name)) + 4 for name in indexes)
    head_length = _FIXED_HEAD + sizes + sum(len(_utf(kind)) + 8 for found in indexes.values() for kind in found)
    head = [struct.pack(">qiii", MAGIC, VERSION, head_length, len(indexes))]
    body: list[bytes] = []
    at = head_length
    for name, found in indexes.items():
        head.append(_utf(name) + struct.pack(">i", len(found)))
        for kind, data in found.items():
            head.append(_utf(kind) + struct.pack(">ii", NO_VALUES if data is None else at, len(data or b"")))
            body.append(data or b"")
            at += len(data or b"")
    return b"".join([*head, struct.pack(">i", 0), *body])


def _utf(text: str) -> bytes:
    units = text.encode("utf-16-be", "surrogatepass")
    signs = (chr(int.from_bytes(units[i : i + 2], "big")) for i in range(0, len(units), 2))
    data = b"".join(b"\xc0\x80" if sign == "\0" else sign.encode("utf-8", "surrogatepass") for sign in signs)
    if len(data) > _LONGEST_NAME:
        raise InvalidError("a column's name is too long for a file index", bytes=len(data), remedy="rename the column")
    return struct.pack(">H", len(data)) + data


def _read_utf(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">H", data, at)
    raw = data[at + 2 : at + 2 + length]
    if len(raw) < length:
        raise ValueError("a name is cut off")
    text = raw.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be"), at + 2 + length


class IndexReader(Protocol):
    """One index that was read. Bitmaps hold at least the rows asked for; None: any row may be one."""

    def known(self) -> BitMap | None:
        """Rows that are not null."""

    def equal(self, literal: Any) -> BitMap | None:
        """Rows that equal a literal."""

    def compare(self, op: str, literal: Any) -> BitMap | None:
        """Rows for which `value op literal` is true; `op` one of < <= > >=."""


class _NoValues:
    """All rows are null."""

    def known(self) -> BitMap | None:
        return BitMap()

    def equal(self, literal: Any) -> BitMap | None:
        return BitMap()

    def compare(self, op: str, literal: Any) -> BitMap | None:
        return BitMap()


class _Bloom:
    """A bloom filter knows only what is not there."""

    def __init__(self, data: bytes, kind: DataType) -> None:
        self._filter = BloomFilter(data, kind)

    def known(self) -> BitMap | None:
        return None

    def equal(self, literal: Any) -> BitMap | None:
        return None if self._filter.may_hold(literal) else BitMap()

    def compare(self, op: str, literal: Any) -> BitMap | None:
        return None


_READERS: dict[str, Callable[[bytes, DataType], IndexReader]] = {
    BLOOM_FILTER: _Bloom,
    BITMAP: BitmapIndex,
    RANGE_BITMAP: RangeBitmap,
    BSI: BitSliced,
}


class FileIndex:
    """The index of one data file. `read`: bytes from a start on, at most so many; `fields`: the columns of the file;
    `rows`: those of the file; `name`: what errors call it.

    Indexes of types that are not known are passed over. Raises: CorruptError naming it.
    """

    def __init__(self, read: Callable[[int, int], bytes], fields: Sequence[DataField], rows: int, name: str) -> None:
        self._read, self._rows, self._name = read, rows, name
        self._types = {item.name: item.type for item in fields}
        self._loaded: dict[str, list[IndexReader]] = {}
        with self._named():
            magic, version, length = struct.unpack(">qii", self._exactly(0, _FIXED_HEAD))
            if magic != MAGIC or version != VERSION:
                raise ValueError("it does not begin as one")
            self.places = _head(self._exactly(_FIXED_HEAD, length - _FIXED_HEAD))

    @property
    def columns(self) -> frozenset[str]:
        """The columns that are indexed; `m[key]` for a key of a map."""
        return frozenset(self.places)

    def index(self, column: str, kind: str) -> bytes | None:
        """The bytes of one index, None for a column without values. KeyError if there is none."""
        start, length = self.places[column][kind]
        with self._named():
            return None if start == NO_VALUES else self._exactly(start, length)

    def matching(self, predicate: Predicate) -> BitMap | None:
        """Positions of the rows that may satisfy a predicate over the file's columns; None: all may."""
        with self._named():
            return self._evaluate(predicate)

    def _evaluate(self, predicate: Predicate) -> BitMap | None:
        if isinstance(predicate, And):
            found: BitMap | None = None
            for child in predicate.children:
                part = self._evaluate(child)
                found = part if found is None else found if part is None else found & part
                if found is not None and not found:
                    break
            return found
        if isinstance(predicate, Or):
            whole = BitMap()
            for child in predicate.children:
                part = self._evaluate(child)
                if part is None:
                    return None
                whole |= part
            return whole
        leaf = predicate.child if isinstance(predicate, Not) else predicate
        column = getattr(leaf, "column", None)
        if not isinstance(leaf, (Compare, In, IsNull, IsNotNull)) or column not in self.places:
            return None
        kind = self._types[column]
        coarse = kind.root in STAMPS and (kind.precision or 0) > 6  # indexed by microseconds
        found = None
        for reader in self._column(column, kind):
            part = _rows(reader, predicate, self._rows, coarse)
            found = part if found is None else found if part is None else found & part
        return found

    def _column(self, column: str, kind: DataType) -> list[IndexReader]:
        readers = self._loaded.get(column)
        if readers is None:
            readers = []
            for name, (start, length) in self.places[column].items():
                make = _READERS.get(name)
                if start == NO_VALUES:
                    readers.append(_NoValues())
                elif make is not None:
                    reader = make(self._exactly(start, length), kind)
                    if getattr(reader, "rows", self._rows) != self._rows:
                        raise ValueError(f"its {name} index of {column} is of another file: not {self._rows} rows")
                    readers.append(reader)
            self._loaded[column] = readers
        return readers

    def _exactly(self, start: int, length: int) -> bytes:
        data = self._read(start, length) if start >= 0 and length >= 0 else b""
        if len(data) != length:
            raise ValueError(f"{length} bytes from {start} on are not there")
        return data

    @contextmanager
    def _named(self) -> Iterator[None]:
        remedy = "set 'file-index.read.enabled' = 'false' to read without it"
        with decoding("file index cannot be read", self._name, remedy):
            yield


def _head(data: bytes) -> dict[str, dict[str, tuple[int, int]]]:
    (columns,) = struct.unpack_from(">i", data)
    at = 4
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for _ in range(columns):
        name, at = _read_utf(data, at)
        (indexes,) = struct.unpack_from(">i", data, at)
        at += 4
        for _ in range(indexes):
            kind, at = _read_utf(data, at)
            start, length = struct.unpack_from(">ii", data, at)
            found.setdefault(name, {})[kind] = (start, length)
            at += 8
    return found


def _rows(reader: IndexReader, predicate: Predicate, rows: int, coarse: bool) -> BitMap | None:
    """The rows for which a leaf, or the negation of one, is true. `coarse`: values equal in the index may differ."""
    if isinstance(predicate, IsNotNull):
        return reader.known()
    if isinstance(predicate, IsNull):
        return _without(BitMap(range(rows)), reader.known())
    if isinstance(predicate, Compare):
        if predicate.op in ("=", "<=>"):
            return reader.equal(predicate.literal)
        if predicate.op == "<>":
            return reader.known() if coarse else _without(reader.known(), reader.equal(predicate.literal))
        return reader.compare(_OUTWARD.get(predicate.op, predicate.op) if coarse else predicate.op, predicate.literal)
    if isinstance(predicate, In):
        return _union([reader.equal(value) for value in predicate.values if value is not None])
    leaf = predicate.child if isinstance(predicate, Not) else predicate
    if coarse:
        return None
    if isinstance(leaf, In):
        values = [reader.equal(value) for value in leaf.values if value is not None]
        return BitMap() if None in leaf.values else _without(reader.known(), _union(values))
    if isinstance(leaf, Compare) and leaf.op == "<=>":
        return _without(BitMap(range(rows)), reader.equal(leaf.literal))
    return None


def _union(parts: Sequence[BitMap | None]) -> BitMap | None:
    known = [part for part in parts if part is not None]
    return BitMap.union(BitMap(), *known) if len(known) == len(parts) else None


def _without(rows: BitMap | None, removed: BitMap | None) -> BitMap | None:
    """`rows` less `removed`. Only for exact `removed`: indexes that give bitmaps are, bloom filters give none."""
    return None if rows is None or removed is None else rows - removed


# ---------------------------------------------------------------------------------------------- building


class _Gathered:
    """Keeps a column until the file is full; text by its distinct values."""

    def __init__(self, kind: DataType, encode: Callable[[list[pa.Array]], bytes]) -> None:
        self._kind, self._encode = kind, encode
        self._chunks: list[pa.Array] = []

    def update(self, array: pa.Array) -> None:
        self._chunks.append(array.dictionary_encode() if self._kind.root in TEXTS else array)

    def finish(self) -> bytes:
        return self._encode(self._chunks)


class FileIndexBuilder:
    """Builds the index of one data file from its batches. `fields`: the columns that `specs` name, among others.

    Raises: InvalidError where the filters that `specs` ask for are more than an index may have, or name no column."""

    def __init__(self, specs: Sequence[IndexSpec], fields: Sequence[DataField]) -> None:
        by_name = {item.name: item for item in fields}
        filters = [spec for spec in specs if spec.kind == BLOOM_FILTER]
        _check_size(sum(bits_of(option_value(spec, "items"), option_value(spec, "fpp")) // 8 for spec in filters))
        self._writers = [(spec, _writer(spec, indexed_type(spec, indexed_field(spec, by_name)))) for spec in specs]

    def update(self, batch: pa.RecordBatch) -> None:
        """Add rows in the canonical layout of the columns. Raises: InvalidError naming a column whose values an index
        cannot hold."""
        for spec, writer in self._writers:
            array = batch.column(spec.column)
            writer.update(array if spec.key is None else pc.map_lookup(array, pa.scalar(spec.key), "last"))

    def finish(self) -> bytes:
        """The container's bytes."""
        found: dict[str, dict[str, bytes | None]] = {}
        size = 0
        for spec, writer in self._writers:
            try:
                data = writer.finish()
            except InvalidError as error:
                raise InvalidError(error.what, column=spec.name, index=spec.kind, remedy=error.remedy) from error
            size += len(data)
            _check_size(size)
            found.setdefault(spec.name, {})[spec.kind] = data
        return encode_file_index(found)


def _check_size(size: int) -> None:
    if size > MOST_BYTES:
        remedy = (
            "index fewer columns, or let bloom filters expect fewer values: 'file-index.bloom-filter.<column>.items'"
        )
        raise InvalidError("the file indexes of a data file are too large", bytes=size, most=MOST_BYTES, remedy=remedy)


def _writer(spec: IndexSpec, kind: DataType) -> _Gathered | BloomWriter:
    if spec.kind == BLOOM_FILTER:
        return BloomWriter(kind, option_value(spec, "items"), option_value(spec, "fpp"))
    if spec.kind == BITMAP:
        version, size = option_value(spec, "version"), option_value(spec, "index-block-size")
        return _Gathered(kind, lambda chunks: encode_bitmap(chunks, kind, version, size))
    if spec.kind == RANGE_BITMAP:
        chunk_size = option_value(spec, "chunk-size")
        return _Gathered(kind, lambda chunks: encode_range_bitmap(chunks, kind, chunk_size))
    return _Gathered(kind, lambda chunks: encode_bsi(chunks, kind))
