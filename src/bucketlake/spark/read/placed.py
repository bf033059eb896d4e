"""Native scans whose rows know their file: for what is the same for all rows of a file, and not in it.

    scan(spark, store, files, fields)         partition columns are the partition's, whatever the files hold
    scan_without(…, fields, bits, dead)       less the rows that are dead by the bits of their files
    scan_with_positions(…, fields, values)    with rows' positions, and a value a file for each of its rows

Partition columns are constants of a file: those of migrated tables lack them. They are literals where all files have
one value, read from files whose statistics prove that they are there, and else joined like any value of a file.
Spec: docs/spec/reading.md#partition-columns
"""

from __future__ import annotations

import datetime as dt
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.ops.scan.pruning import proved_partitions
from bucketlake.ops.table.partitions import partition_columns
from bucketlake.ops.table.store import Store
from bucketlake.spark.arrow_rows import arrow_frame, framed, spark_batch
from bucketlake.spark.conform import literal
from bucketlake.spark.raised import FILE_CHANGED
from bucketlake.spark.read import native
from bucketlake.spark.read.native import FileAt
from bucketlake.spark.read.united import united
from bucketlake.spark.types import noted, quoted, spark_type
from bucketlake.types.model import DataField, Root

MOST_SCANS = 4  # for files of one size; more of them are told apart by path
MOST_LOOKED_UP = 64  # files that an expression looks through for each row
LITERAL_BYTES = 16 << 20  # of a value that each task gets for itself
FILE = "__bucketlake_file"  # of a row: its file's number
_KEY = "__bucketlake_key"
_BITS = "__bucketlake_bits"
_CONSTANT = "__bucketlake_partition_"  # before a column's place
_CHANGED = f"raise_error('{FILE_CHANGED}')"
_AS_TEXT = {Root.VARCHAR, Root.CHAR, Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.DATE, Root.BOOLEAN}
_LITERAL = (str, int, bool, dt.date, type(None))
_IN_URI = "/-_.!~*'();:@&=+$,"  # what Java leaves as it is in a URI's path


def scan(spark: SparkSession, store: Store, files: Sequence[FileAt], fields: Sequence[DataField]) -> DataFrame:
    """The rows of native files, in the layout of `fields`."""
    frames = []
    for some, columns in _by_constants(store, files, fields):
        found = [files[at] for at in some]
        known = _joined(spark, store, found, fields) if columns is None else native.scan(spark, store, found, fields)
        frames.append(_with(known, columns or {}))
    return united(frames)


def scan_without(
    spark: SparkSession,
    store: Store,
    files: Sequence[FileAt],
    fields: Sequence[DataField],
    bits: pa.Array,
    dead: Callable[[Column, Column], Column],
) -> DataFrame:
    """As `scan`, of parquet files, less the rows that are `dead`: by their file's element of `bits`, and their position
    in the file."""
    frames = []
    for some, columns in _by_constants(store, files, fields):
        found, own = [files[at] for at in some], bits.take(pa.array(some))
        parts = _told_apart(found)
        by_size = all(place == native.FILE_SIZE for _, place in parts)
        if columns is None or not by_size or len(some) > MOST_LOOKED_UP or own.nbytes > LITERAL_BYTES:
            frame = _joined(spark, store, found, fields, {_BITS: own})
            frame = frame.where(~dead(F.col(_BITS), F.col(native.ROW_INDEX)))
            frames.append(frame.drop(_BITS, native.ROW_INDEX))
            continue
        for part, _ in parts:
            members = [found[at] for at in part]
            kept = _kept(spark, members, own.take(pa.array(part)), dead)
            frames.append(_with(native.scan(spark, store, members, fields, kept), columns))
    return united(frames)


def _by_constants(
    store: Store, files: Sequence[FileAt], fields: Sequence[DataField]
) -> list[tuple[list[int], Mapping[str, Column] | None]]:
    """The places of files with what takes the place of their partition columns; None: these must be joined."""
    every = list(range(len(files)))
    constants = _constants(store, files, fields)
    literals = _literals(store, constants)
    rest = [name for name in constants if name not in literals]
    if not rest:
        return [(every, literals)]
    proved = proved_partitions(store, [(found.partition, found.file) for found in files], rest).tolist()
    checked = {name: F.expr(f"coalesce({quoted(name)}, {_CHANGED})") for name in rest}
    groups: list[tuple[list[int], Mapping[str, Column] | None]] = [
        ([at for at in every if proved[at]], {**literals, **checked})
    ]
    others = [at for at in every if not proved[at]]
    if others:
        own = _constants(store, [files[at] for at in others], fields)
        known = _literals(store, own)
        groups.append((others, known if len(known) == len(own) else None))
    return [(some, columns) for some, columns in groups if some]


def scan_with_positions(
    spark: SparkSession,
    store: Store,
    files: Sequence[FileAt],
    fields: Sequence[DataField],
    values: Mapping[str, pa.Array],
) -> DataFrame:
    """As `scan`, of parquet files, with each row's position in its file (`ROW_INDEX`) and columns `values`, a value a
    file in the order of `files`."""
    return _joined(spark, store, files, fields, values)


def _joined(
    spark: SparkSession,
    store: Store,
    files: Sequence[FileAt],
    fields: Sequence[DataField],
    values: Mapping[str, pa.Array] | None = None,
) -> DataFrame:
    """The rows with their partition columns and the `values` of their files; with any, with their positions.

    A row's file is known by the file's size, a number that the scan has for nothing; reading its name costs as much as
    two columns. Files of one size go to different scans; a row of a file with another size than planned is an error.
    """
    constants = _constants(store, files, fields)
    table = {**(values or {}), **{f"{_CONSTANT}{place}": column for place, column in enumerate(constants.values())}}
    kinds: list[T.DataType] = [
        T.LongType() if pa.types.is_integer(given.type) else T.ArrayType(T.LongType())
        for given in (values or {}).values()
    ]
    kinds += [spark_type(store.schema.field(name).type) for name in constants]
    more = [] if values is None else [native.ROW_INDEX]
    frames = []
    for some, place in _told_apart(files):
        frame = native.scan_with_places(spark, store, [files[at] for at in some], fields, [place, *more])
        keys = pa.array([_size(files[at]) if place == native.FILE_SIZE else _uri(files[at].path) for at in some])
        known = pa.table({_KEY: keys, **{name: column.take(pa.array(some)) for name, column in table.items()}})
        schema = T.StructType([T.StructField(_KEY, T.LongType() if place == native.FILE_SIZE else T.StringType())])
        for name, kind in zip(table, kinds, strict=True):  # Spark would take moments without a zone for instants
            schema = schema.add(name, kind)
        frame = frame.join(F.broadcast(framed(spark, known, schema)), F.expr(f"{place} = {_KEY}"), "left")
        if values:
            frame = frame.where(f"CASE WHEN {_KEY} IS NULL THEN CAST({_CHANGED} AS BOOLEAN) ELSE true END")
        known_values = (
            f"CASE WHEN {_KEY} IS NULL THEN {_CHANGED} ELSE {_CONSTANT}{at} END" for at in range(len(constants))
        )
        fixed = {
            name: noted(F.expr(text), store.schema.field(name))
            for name, text in zip(constants, known_values, strict=True)
        }
        frames.append(_with(frame, fixed).drop(place, _KEY, *(f"{_CONSTANT}{at}" for at in range(len(constants)))))
    return united(frames)


def _kept(
    spark: SparkSession, files: Sequence[FileAt], bits: pa.Array, dead: Callable[[Column, Column], Column]
) -> Callable[[Column], Column]:
    """Whether a row of files of different sizes is not dead, by one value for all rows. Where the bits were joined,
    Spark would take the rows for as many as those of both sides multiplied: too many for any other join to send them to
    all tasks, which it would do with a small table. And it would move joins below this one."""
    sizes = pa.array([_size(found) for found in files], pa.int64())
    by_size = pa.MapArray.from_arrays(pa.array([0, len(files)], pa.int32()), sizes, bits)
    known = arrow_frame(spark, pa.table({_BITS: by_size})).scalar()
    unplanned = F.expr(f"CAST({_CHANGED} AS ARRAY<BIGINT>)")

    def kept(metadata: Column) -> Column:
        own = F.coalesce(F.try_element_at(known, metadata.getField("file_size")), unplanned)
        return ~dead(own, metadata.getField("row_index"))

    return kept


def _told_apart(files: Sequence[FileAt]) -> list[tuple[list[int], str]]:
    """The places of files in scans, with what tells the files of each scan apart."""
    by_size: dict[int, list[int]] = {}
    for at, found in enumerate(files):
        by_size.setdefault(_size(found), []).append(at)
    few = [same for same in by_size.values() if len(same) <= MOST_SCANS]
    rounds = [[same[number] for same in few if number < len(same)] for number in range(MOST_SCANS)]
    many = [at for same in by_size.values() if len(same) > MOST_SCANS for at in same]
    parts = [(some, native.FILE_SIZE) for some in rounds] + [(many, native.FILE_PATH)]
    return [(some, place) for some, place in parts if some]


def _size(found: FileAt) -> int:
    return found.file.file_size


def _with(frame: DataFrame, columns: Mapping[str, Column]) -> DataFrame:
    return frame.withColumns(dict(columns)) if columns else frame


def _constants(store: Store, files: Sequence[FileAt], fields: Sequence[DataField]) -> dict[str, pa.Array]:
    """The partition columns among `fields`, a value a file, as DataFrames have them."""
    wanted = {item.name for item in fields}
    if not wanted & set(store.schema.partition_keys):
        return {}
    own = store.schema.partition_fields
    columns = partition_columns(store, [found.partition for found in files])
    rows = spark_batch(pa.RecordBatch.from_arrays(columns, names=[item.name for item in own]), own)
    return {item.name: rows.column(place) for place, item in enumerate(own) if item.name in wanted}


def _literals(store: Store, constants: Mapping[str, pa.Array]) -> dict[str, Column]:
    found = {name: _literal(store, name, values) for name, values in constants.items()}
    return {name: value for name, value in found.items() if value is not None}


def _literal(store: Store, name: str, values: pa.Array) -> Column | None:
    """The one value of all files as a literal; None where there are several, or Spark's literals might not be it."""
    item = store.schema.field(name)
    found = values.unique()
    if len(found) != 1 or item.type.root not in _AS_TEXT:
        return None
    try:
        value = found[0].as_py()
    except (ValueError, OverflowError):  # a date that Python lacks
        return None
    return noted(literal(value, spark_type(item.type)), item) if isinstance(value, _LITERAL) else None


def _uri(path: str) -> str:
    """A local path as Spark's `_metadata.file_path` has it: escaped as Java's URIs are."""
    escaped = (sign if _is_plain(sign) else quote(sign, safe=_IN_URI) for sign in path)
    return "file:" + "".join(escaped)


def _is_plain(sign: str) -> bool:
    return ord(sign) > 0x7F and unicodedata.category(sign) not in ("Zs", "Zl", "Zp", "Cc")
