"""Data files of any format: one writer, one reader, and what a written file is known by.

Rows go in and come out in the canonical Arrow layout of the file's columns: append tables hold the value columns;
primary-key tables `_KEY_*` (not in thin mode), `_SEQUENCE_NUMBER`, `_VALUE_KIND`, then the values.

Spec: docs/spec/datafile.md
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, BinaryIO, Protocol

import pyarrow as pa

from bucketlake.env.storage import Storage
from bucketlake.errors import CorruptError, InvalidError, UnsupportedError
from bucketlake.format.data.avro import AvroSink, AvroSource
from bucketlake.format.data.blob import BLOB, read_values
from bucketlake.format.data.file_format import BatchSize, FileFormat, file_format, format_of
from bucketlake.format.data.map_metadata import ARROW_SCHEMA, described
from bucketlake.format.data.map_writing import ShreddingColumns
from bucketlake.format.data.orc import OrcSink, OrcSource
from bucketlake.format.data.parquet import Mask, ParquetSource
from bucketlake.format.data.parquet_bounds import footer_stats
from bucketlake.format.data.parquet_writing import ParquetSink
from bucketlake.format.data.pieces import open_piece
from bucketlake.format.guard import check_size, decoding
from bucketlake.format.metadata.stats import ColumnStats, StatsCollector, StatsMode, limited
from bucketlake.predicate.tree import Predicate
from bucketlake.types.arrow import null_in
from bucketlake.types.encoded import alike, plain, plain_schema
from bucketlake.types.model import DataField, arrow_schema
from bucketlake.values import dataclass

__all__ = [
    "BatchSize",
    "DataFileWriter",
    "FileFormat",
    "Recorded",
    "WrittenFile",
    "file_format",
    "format_of",
    "read_recorded",
    "stats_from_parquet_footer",
]

FIRST_GROUP_SHARE = 8  # until the ratio of bytes to Arrow bytes is known, a group is at most this part of the target
GROUP_ROWS = 100  # at least, however few bytes a group is to have: as parquet's Java library looks at the size
NO_GROUP = 0.25  # of a group: so much more than some groups does not make one more
GROUPS_A_FILE = 4  # at least, so that a wrong ratio shows before the file is full
NEARLY_FULL = 0.05
ORC_STEP_BYTES = 1 << 20
HEADER_BYTES = 64  # what says nothing of the rows: orc puts out its magic at the first of them
DEFAULT_BATCH = BatchSize()
BROKEN = "data file cannot be read"


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """What a finished file is known by: bytes, rows, and statistics by column of the file."""

    path: str
    size: int
    rows: int
    stats: tuple[ColumnStats, ...]


class _Sink(Protocol):
    def write(self, table: pa.Table) -> None: ...

    def close(self) -> None: ...


_SINKS: dict[str, Any] = {"parquet": ParquetSink, "orc": OrcSink, "avro": AvroSink}


def check_form(form: FileFormat, fields: Sequence[DataField]) -> None:
    """UnsupportedError, InvalidError for what no file of these columns could be written as, by a codec that the format
    lacks or a type that it cannot hold; nothing is written."""
    _SINKS[form.name](io.BytesIO(), fields, form).close()


class _Counted:
    """A writer that counts its bytes; closing it is left to its owner."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self.size = 0
        self.closed = False

    def write(self, data: Any) -> int:
        """Pass the bytes on."""
        self._out.write(data)
        length = len(data) if isinstance(data, (bytes, bytearray)) else memoryview(data).nbytes
        self.size += length
        return length

    def tell(self) -> int:
        """Bytes so far."""
        return self.size

    def flush(self) -> None:
        """The owner closes, and so flushes."""

    def readable(self) -> bool:
        """No."""
        return False

    def writable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """No."""
        return False

    def close(self) -> None:
        """Left to the owner."""


class DataFileWriter:
    """Writes one data file. `modes`: the statistics kept of each column.

    Batches are gathered and encoded group by group, so `size_estimate` is exact but for the last group. `ratio`: file
    bytes per Arrow byte as far as known, e.g. from the file before. Any error leaves nothing behind but what `abort`
    removes.
    """

    def __init__(
        self,
        storage: Storage,
        path: str,
        fields: Sequence[DataField],
        form: FileFormat,
        modes: Sequence[StatsMode],
        ratio: float | None = None,
    ) -> None:
        self.path = path
        self.rows = 0
        self.ratio = ratio
        self._storage = storage
        self._fields = tuple(fields)
        self._schema = arrow_schema(fields)
        self._form = form
        self._modes = tuple(modes)
        self._bytes = 0
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._inside_bytes = 0  # handed to the format's writer, which has not put them out yet
        self._raw = storage.open_output(path)
        self._out = _Counted(self._raw)
        try:
            self._maps = ShreddingColumns(fields, form.maps)
            self._sink: _Sink = _SINKS[form.name](self._out, self._maps.physical, form)
        except BaseException:
            self.abort()
            raise
        told = self._sink.told if isinstance(self._sink, ParquetSink) else frozenset()
        collected = [(item, mode) for item, mode in zip(fields, modes, strict=True) if item.name not in told]
        self._stats = StatsCollector([item for item, _ in collected], [mode for _, mode in collected])

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows in the canonical layout of the file's columns, texts encoded or not. Raises: InvalidError for
        another layout, and for nulls in columns that are NOT NULL, which nobody could read."""
        if not batch.schema.equals(self._schema):
            if not plain_schema(batch.schema).equals(self._schema):
                raise InvalidError("batch does not have the file's layout", path=self.path, expected=self._schema.names)
            batch = batch if isinstance(self._sink, ParquetSink) else plain(batch)
        if not batch.num_rows:
            return
        self._refuse_nulls(batch)
        self._pending.append(batch)
        size = batch.nbytes
        self._bytes += size
        self._pending_bytes += size
        self.rows += batch.num_rows
        if self._pending_bytes >= self._form.group_bytes:
            self.flush()

    def _refuse_nulls(self, batch: pa.RecordBatch) -> None:
        for at, item in enumerate(self._schema):
            if not item.nullable and batch.column(at).null_count:
                raise InvalidError(
                    null_in(item.name),
                    path=self.path,
                    remedy="merged rows are null where the column's aggregate function takes values back, or a row is "
                    f"only a part: let {item.name} be nullable, or set 'fields.{item.name}.ignore-retract' = 'true'",
                )

    @property
    def pending_bytes(self) -> int:
        """Arrow bytes that are gathered and not encoded yet."""
        return self._pending_bytes

    @property
    def size_estimate(self) -> int:
        """Bytes written, and those that the rows not yet written are expected to take."""
        inside = self._inside_bytes * self.ratio if self.ratio else min(self._inside_bytes, self._form.group_bytes)
        return int(self._out.size + self._pending_bytes * (self.ratio or 1.0) + inside)

    def flush(self) -> None:
        """Encode what is gathered; orc may keep it until a stripe is full."""
        if not self._pending:
            return
        table = pa.Table.from_batches(alike(self._pending))
        self._stats.update(table)
        # A batch may be larger than a group. Orc cuts stripes itself, and is given small steps, to see what one took.
        step, least = (ORC_STEP_BYTES, 1) if self._form.name == "orc" else (self._form.group_bytes, GROUP_ROWS)
        steps = max(1, math.ceil(self._pending_bytes / step - NO_GROUP))
        rows = max(least, math.ceil(table.num_rows / steps))
        self._pending, self._pending_bytes = [], 0
        row_bytes = table.nbytes / table.num_rows
        for piece in self._maps.pieces(table):
            for start in range(0, piece.num_rows, rows):
                self._encode(piece.slice(start, rows), row_bytes)

    def _encode(self, table: pa.Table, row_bytes: float) -> None:
        """`row_bytes`: of a row as it was given."""
        before = self._out.size
        self._sink.write(table)
        self._inside_bytes += int(table.num_rows * row_bytes)
        written = self._out.size - before
        if written > HEADER_BYTES:
            self.ratio = written / max(self._inside_bytes, 1)
            self._inside_bytes = 0

    def room(self, batch: pa.RecordBatch, target: int) -> int:
        """How many rows of a batch still go into a file of `target` bytes; 0 says that it is full.

        An empty file takes at least one row. May encode what is gathered, to know its size.
        """
        if batch.num_rows == 0 or (self.rows and self._maps.is_full):
            return 0
        step = max(target // (GROUPS_A_FILE if self.ratio else FIRST_GROUP_SHARE), 1)
        gathered = self._pending_bytes * (self.ratio or 1.0)
        if gathered >= step or self.size_estimate >= target * (1 - NEARLY_FULL):
            self.flush()
            gathered = 0
        left = target - self.size_estimate
        if self.rows and left <= target * NEARLY_FULL:
            return 0
        row_bytes = max(batch.nbytes / batch.num_rows, 1 / 8) * (self.ratio or 1.0)
        fitting: int = max(1, min(batch.num_rows, int(min(left, step - gathered) / row_bytes)))
        return fitting

    def close(self) -> WrittenFile:
        """Finish the file."""
        self.flush()
        if self._maps and isinstance(self._sink, (ParquetSink, OrcSink)):
            told = described(self._sink.schema, self._maps.maps(), self._form.compression)
            self._sink.close({ARROW_SCHEMA: told})
        else:
            self._sink.close()
        self._raw.close()
        if self._inside_bytes:
            self.ratio = self._out.size / self._bytes
        found = iter(self._stats.result())
        stats = [
            next(found) if known is None else limited(known, mode)
            for known, mode in zip(self._footer_stats(), self._modes, strict=True)
        ]
        return WrittenFile(self.path, self._out.size, self.rows, tuple(stats))

    @property
    def widths(self) -> dict[str, int]:
        """By shredded MAP column the most keys that a row of the file has."""
        return self._maps.widths

    def _footer_stats(self) -> list[ColumnStats | None]:
        """By column what the format's writer has found, None for those that are collected here."""
        if not isinstance(self._sink, ParquetSink) or self._sink.metadata is None:
            return [None] * len(self._fields)
        told = footer_stats(self._sink.metadata, [item for item in self._fields if item.name in self._sink.told])
        found = iter(told)
        return [next(found) if item.name in self._sink.told else None for item in self._fields]

    def abort(self) -> None:
        """Remove what was written, best effort; harmless after `close`."""
        sink: _Sink | None = getattr(self, "_sink", None)
        with suppress(Exception):
            if sink is not None:  # else the library's own finalizer writes to a closed file
                sink.close()
        with suppress(Exception):
            self._raw.close()
        self._storage.delete_all([self.path])


@dataclass(frozen=True, slots=True)
class Recorded:
    """A data file and what its manifest says of it: bytes (None, 0, -1: it does not) and rows (None: it does not).
    `encoded`: columns that its reader takes encoded, too. `start`: where its bytes begin in the file, of a piece."""

    path: str
    format: str
    size: int | None = None
    rows: int | None = None
    encoded: frozenset[str] = frozenset()
    start: int | None = None


def read_recorded(
    storage: Storage,
    file: Recorded,
    fields: Sequence[DataField],
    columns: Sequence[str] | None = None,
    row_filter: Predicate | None = None,
    left_out: Mask | None = None,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of a file in batches of bounded size, each with the position in the file of its first row, counted
    from 0; `columns` in their order (all of `fields` by default).

    `fields`: the columns that the file was written with. Rows that `row_filter` (names as in the file) is not true for
    may be left out, group-wise, and some of the rows `left_out`; the caller still filters.
    Raises: NotFoundError, StorageError, UnsupportedError naming the path; CorruptError also where the file is not as
    long as recorded or has other rows: before the first batch, of avro files after the last.
    Spec: docs/spec/datafile.md#reading
    """
    by_name = {item.name: item for item in fields}
    wanted = [by_name[name] for name in columns] if columns is not None else list(fields)
    read = wanted or list(fields[:1])
    if not read:
        raise InvalidError("a data file is read by at least one column", path=file.path)
    if file.format == BLOB:
        for first, values in read_values(storage, file.path, file.size, file.rows, read[0].type):
            yield (
                first,
                pa.RecordBatch.from_arrays([values], schema=arrow_schema(read[:1])).select(
                    [item.name for item in wanted]
                ),
            )
        return
    with decoding(BROKEN, file.path), storage.open_input(file.path) as opened:
        if file.start is not None:
            opened = open_piece(opened, file.path, file.start, file.size or 0)
        check_length(opened, file)
        for first, batch in _numbered(opened, file, read, fields, row_filter, left_out):
            yield first, batch if wanted else batch.select([])


def check_length(opened: BinaryIO, file: Recorded) -> None:
    """CorruptError where an open file is not as long as recorded."""
    if file.size is not None and file.size > 0:
        check_size(file.path, opened.seek(0, 2), file.size)
        opened.seek(0)


def _numbered(
    opened: BinaryIO,
    file: Recorded,
    read: Sequence[DataField],
    fields: Sequence[DataField],
    row_filter: Predicate | None,
    left_out: Mask | None,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    if file.format == "parquet":
        parquet = ParquetSource(opened, read, remote="://" in file.path, encoded=file.encoded)
        check_rows(file, parquet.metadata.num_rows)
        yield from parquet.numbered(DEFAULT_BATCH, row_filter, fields, left_out)
    elif file.format == "orc":
        orc = OrcSource(opened, read)
        check_rows(file, orc.rows)
        yield from _counted(orc.batches(DEFAULT_BATCH))
    elif file.format == "avro":
        avro = AvroSource(opened, read, most=file.rows)
        yield from _counted(avro.batches(DEFAULT_BATCH))
        check_rows(file, avro.rows)
    else:
        raise UnsupportedError("file format is not supported", format=file.format, remedy="use parquet, orc or avro")


def check_rows(file: Recorded, found: int) -> None:
    """CorruptError where a file has other rows than its manifest says."""
    if file.rows is not None and found != file.rows:
        raise CorruptError(
            "a data file has a different number of rows than its manifest says",
            path=file.path,
            rows=found,
            recorded=file.rows,
        )


def _counted(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches of a source that leaves out no rows, with their first row's position."""
    at = 0
    for batch in batches:
        yield at, batch
        at += batch.num_rows


def stats_from_parquet_footer(
    storage: Storage, path: str, fields: Sequence[DataField], modes: Sequence[StatsMode]
) -> WrittenFile:
    """What is known of a parquet file that another writer made, from its footer alone.

    Columns for which the footer has no bounds (INT96, nested, …) get null bounds.
    Raises: NotFoundError, CorruptError.
    """
    with decoding(BROKEN, path), storage.open_input(path) as file:
        source = ParquetSource(file, ())
        source.bounds(fields)
        metadata = source.metadata
        found = footer_stats(metadata, fields)
        stats = tuple(limited(column, mode) for column, mode in zip(found, modes, strict=True))
        return WrittenFile(path, file.seek(0, 2), metadata.num_rows, stats)
