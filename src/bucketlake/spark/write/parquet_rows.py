"""Rows that are nothing but those of parquet files: the tasks that write them read the files themselves.

Handing rows to Python costs Spark more than reading the files, sorting and encoding together. Only what is proved goes
this way: Spark itself says that the rows are those of `spark.read.parquet`, or of one list of its columns
(`DataFrame.sameSemantics`), nothing of them is cached, its settings are those under which both readers say the same,
and every column is of one of the plain types below, in the files as in the table. All else goes through Spark.

Spec: docs/spec/writing.md#parquet-files
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from os.path import getsize, isfile, split
from urllib.parse import unquote, urlsplit
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from bucketlake.env.local import LocalStorage
from bucketlake.errors import BucketlakeError, CorruptError
from bucketlake.format.data.row_groups import read_row_groups
from bucketlake.ops.table.store import Store
from bucketlake.spark import instants
from bucketlake.spark.arrow_rows import arrow_layout, spark_batch
from bucketlake.spark.cluster import Action, runs_here, unpickled
from bucketlake.spark.settings import setting_of
from bucketlake.spark.types import field_types, spark_type
from bucketlake.spark.write.file_columns import UNREADABLE, columns_of_files
from bucketlake.types.model import MAX_LENGTH, DataField, Root, arrow_type
from bucketlake.values import dataclass

MOST_FILES = 1_000  # whose footers the driver reads
_CHUNK = 1 << 20  # of a column of a row group that is read at once
_PLAIN = {
    *(Root.BOOLEAN, Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.FLOAT, Root.DOUBLE, Root.DECIMAL),
    *(Root.VARCHAR, Root.VARBINARY, Root.DATE, Root.TIMESTAMP, Root.TIMESTAMP_LTZ),
}
_SUMS_MAGIC, _SUMS_HEAD = b"crc\0", 8  # Hadoop's `ChecksumFileSystem`: the bytes of a sum follow, then CRC-32s
_TIMES = {Root.DATE, Root.TIMESTAMP, Root.TIMESTAMP_LTZ}
_MICROSECONDS = 6
_ENCRYPTION = ("spark.hadoop.parquet.crypto.factory.class", "parquet.crypto.factory.class")  # Spark has the keys
# What Spark must say: with others it passes over files, or over names, or takes days for those of another calendar.
_SETTINGS = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.fieldId.read.enabled": "false",
}
_REBASE = "spark.sql.parquet.datetimeRebaseModeInRead"
_SPARK_VERSION = b"org.apache.spark.version"
_OF_TODAY = re.compile(rb"([3-9]|\d\d)(\.|$)")  # before 3 all times are of the old calendar
_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


@dataclass(frozen=True, slots=True)
class Source:
    """Rows as they came to a write. `columns`: the table's column that each of the frame's becomes, in its order."""

    frame: DataFrame
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """Row groups of one file, of `length` bytes when it was looked at."""

    path: str
    length: int
    groups: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Group:
    """A row group: its file, of `length` bytes, its number there, its rows and their bytes as encoded."""

    path: str
    length: int
    number: int
    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class _Proved:
    """Row groups, and the column of theirs that each of a frame's is."""

    columns: tuple[str, ...]
    groups: list[_Group]


@dataclass(frozen=True, slots=True)
class Share:
    """What one task reads; picklable. `columns`: those of the files, which may come twice, and `fields`: the table's
    that they become."""

    pieces: tuple[Piece, ...]
    columns: tuple[str, ...]
    fields: tuple[DataField, ...]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, under the table's names; CorruptError for a file that cannot be read, or is another by now."""
        layout = pa.schema([(field.name, arrow_type(field.type)) for field in self.fields])
        for piece in self.pieces:
            try:
                for batch in _read(piece, self.columns, self.fields):
                    columns = [
                        batch.column(name).cast(kind) for name, kind in zip(self.columns, layout.types, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(columns, schema=layout)
            except UNREADABLE as error:
                raise CorruptError("cannot read a parquet file", file=piece.path, cause=str(error)) from error


@dataclass(frozen=True)
class ReadThen:
    """An action of tasks whose rows are those of shares."""

    action: Action

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[object]:
        """The action, once over all rows of the task's share, or the error in its files."""
        try:
            yield from self.action(batch for share in unpickled(batches) for batch in share.batches())
        except CorruptError as error:
            yield error


def shares_of(spark: SparkSession, store: Store, source: Source, tasks: int) -> list[Share] | None:
    """The rows for at most `tasks` tasks, in the files' order; None where it is not proved that the files alone say
    what they are."""
    fields = _targets(store, source)
    if fields is None or not runs_here(spark):
        return None
    if any(field.type.root is Root.TIMESTAMP for field in fields) and instants.rules(spark, store.options).instants:
        return None
    found = _proved(spark, source.frame, fields)
    if found is None:
        return None
    return [Share(pieces, found.columns, fields) for pieces in _dealt(found.groups, tasks)]


def few_rows(spark: SparkSession, frame: DataFrame, rows: int, size: int) -> pa.Table | None:
    """All rows, as Spark would bring them to the driver, which reads the files itself; None where there are more, or
    more bytes, or it is not proved that the files alone say what they are.

    Errors: CorruptError for a file that cannot be read.
    """
    if not runs_here(spark):
        return None
    fields = field_types(frame.schema)
    if not _are_plain(frame, fields):
        return None
    proved = _proved(spark, frame, fields, size)
    if proved is None or sum(group.rows for group in proved.groups) > rows:
        return None
    found, left = [], size
    for pieces in _dealt(proved.groups, 1):
        for batch in Share(pieces, proved.columns, tuple(fields)).batches():
            left -= batch.nbytes
            if left < 0:
                return None
            found.append(spark_batch(batch, fields))
    return pa.Table.from_batches(found, schema=arrow_layout(fields)).combine_chunks()


def _proved(
    spark: SparkSession, frame: DataFrame, fields: Sequence[DataField], most: int | None = None
) -> _Proved | None:
    """What of which files the frame's rows are, whose columns become these fields; None where that is not proved, or
    files have more bytes than `most`."""
    sizes = _lengths(frame)
    if sizes is None or (most is not None and sum(sizes.values()) > most):
        return None
    if setting_of(spark, *_ENCRYPTION) is not None:
        return None
    rebased = any(field.type.root in _TIMES for field in fields)
    settings = {**_SETTINGS, _REBASE: "CORRECTED"} if rebased else _SETTINGS
    if any(str(spark.conf.get(key)).upper() != value.upper() for key, value in settings.items()):
        return None
    columns = columns_of_files(spark, frame, sizes)
    if columns is None:
        return None
    groups: list[_Group] = []
    for path, length in sizes.items():
        try:
            with pq.ParquetFile(path) as file:
                if not _fits(file, columns, fields) or not _footer_is_sound(path, length):
                    return None
                found = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        except (*UNREADABLE, BucketlakeError):
            return None  # Spark says what is wrong with it
        told = [(group.num_rows, max(group.total_byte_size, 0)) for group in found]
        groups += [_Group(path, length, number, *sizes) for number, sizes in enumerate(told)]
    return _Proved(tuple(columns), groups)


def _targets(store: Store, source: Source) -> tuple[DataField, ...] | None:
    """The table's column of each of the frame's, where all of both are there and no value changes on its way."""
    by_name = {field.name: field for field in store.schema.fields}
    found = tuple(by_name[name] for name in source.columns if name in by_name)
    if not len(source.frame.columns) == len(found) == len(by_name) == len(set(source.columns)):
        return None
    return found if _are_plain(source.frame, found) else None


def _are_plain(frame: DataFrame, fields: Sequence[DataField]) -> bool:
    """Whether the frame's columns are found by their names in files, and these fields take all of their values as they
    are."""
    given = frame.schema.fields
    if len({item.name.lower() for item in given}) < len(given):
        return False
    if any(set(item.metadata or ()) - {"comment"} for item in given):
        return False  # Spark pads CHAR as it reads, and fills in defaults
    return all(
        _is_plain(field) and item.dataType == spark_type(field.type) for item, field in zip(given, fields, strict=True)
    )


def _is_plain(field: DataField) -> bool:
    """Whether the column takes every value of its Spark type as it is."""
    kind = field.type
    if kind.root not in _PLAIN or field.default is not None:
        return False
    if kind.root in (Root.VARCHAR, Root.VARBINARY):
        return kind.length == MAX_LENGTH
    return kind.root not in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ) or kind.precision in (None, _MICROSECONDS)


def _lengths(frame: DataFrame) -> dict[str, int] | None:
    """The frame's files on this machine, by path, and their lengths; None where it has none, others or too many."""
    files = frame.inputFiles()
    if not 0 < len(files) <= MOST_FILES:
        return None
    found = {}
    for url in sorted(files):
        parts = urlsplit(url)
        path = unquote(parts.path)
        if parts.scheme != "file" or parts.netloc or parts.query or parts.fragment or not isfile(path):
            return None
        found[path] = getsize(path)
    return found


def _fits(file: pq.ParquetFile, columns: Sequence[str], fields: Sequence[DataField]) -> bool:
    """Whether each column is a plain one of the field's own type, and no time one of another calendar."""
    leaves = [file.schema.column(number) for number in range(len(file.schema))]
    flat = {leaf.path: leaf for leaf in leaves if leaf.path == leaf.name and leaf.max_repetition_level == 0}
    arrow, tops = file.schema_arrow, [name.lower() for name in file.schema_arrow.names]
    if any("." in name for name in columns):
        return False  # a path to Arrow
    notes = file.metadata.metadata or {}
    if any(key in notes for key in _LEGACY) or not _OF_TODAY.match(notes.get(_SPARK_VERSION, b"4")):
        return False
    for name, field in zip(columns, fields, strict=True):
        leaf = flat.get(name)
        if leaf is None or tops.count(name.lower()) > 1 or leaf.max_definition_level > 1:
            return False
        if leaf.physical_type == "INT96" or not _is_of(arrow.field(name).type, field):
            return False
    return True


def _footer_is_sound(path: str, length: int) -> bool:
    """Whether the footer is as Hadoop's checksums of the file say, where it wrote some beside it; those of the pages
    lie within them."""
    folder, name = split(path)
    beside = f"{folder}/.{name}.crc"
    if not isfile(beside):
        return True
    disk = LocalStorage()
    with disk.open_input(beside) as sums, disk.open_input(path) as file:
        head = sums.read(_SUMS_HEAD)
        step = int.from_bytes(head[4:], "big")
        file.seek(max(length - 8, 0))
        start = length - 8 - int.from_bytes(file.read(4), "little")
        if head[:4] != _SUMS_MAGIC or step < 1 or start < 0:
            return False
        first = start // step
        file.seek(first * step)
        sums.seek(_SUMS_HEAD + 4 * first)
        parts = iter(partial(file.read, step), b"")
        return b"".join(crc32(part).to_bytes(4, "big") for part in parts) == sums.read()


def _is_of(found: pa.DataType, field: DataField) -> bool:
    if field.type.root is Root.TIMESTAMP_LTZ:
        return bool(pa.types.is_timestamp(found)) and found.unit == "us" and found.tz is not None
    if field.type.root is Root.VARCHAR:
        return found in (pa.string(), pa.large_string(), pa.string_view())
    if field.type.root is Root.VARBINARY:
        return found in (pa.binary(), pa.large_binary(), pa.binary_view())
    return bool(found == arrow_type(field.type))


def _dealt(groups: Sequence[_Group], tasks: int) -> list[tuple[Piece, ...]]:
    """Row groups in runs of about the same bytes, each by file."""
    total = sum(group.size for group in groups) or 1
    shares: list[dict[tuple[str, int], list[int]]] = [{} for _ in range(max(tasks, 1))]
    before = 0
    for group in groups:
        place = min((before + group.size // 2) * len(shares) // total, len(shares) - 1)
        shares[place].setdefault((group.path, group.length), []).append(group.number)
        before += group.size
    return [tuple(Piece(*file, tuple(numbers)) for file, numbers in share.items()) for share in shares if share]


def _read(piece: Piece, columns: Sequence[str], fields: Sequence[DataField]) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(piece.path, buffer_size=_CHUNK, page_checksum_verification=True) as file:
        found = file.metadata
        if getsize(piece.path) != piece.length or found.num_row_groups <= max(piece.groups):
            raise OSError("the file is another than when the write began")
        if not _fits(file, columns, fields):
            raise OSError("the file has other columns than when the write began")
        yield from read_row_groups(file, piece.groups, list(dict.fromkeys(columns)))
