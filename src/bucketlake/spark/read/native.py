"""Spark's own vectorised scan over data files that need no merge: explicit file lists, an explicit schema a group.

Files are grouped by (schema id, format): a group has one layout, and what the table's schema has since renamed, widened
or added is a projection over it.
Spec: docs/spec/reading.md#native-scans
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.env.local import checked_sizes
from bucketlake.errors import CorruptError
from bucketlake.format.data.file_format import format_of
from bucketlake.format.data.pieces import piece_of
from bucketlake.format.guard import check_size
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.ops.rows.one_file import gone
from bucketlake.ops.scan.pruning import dates_from, free_of_zeros_and_nan
from bucketlake.ops.table.known import is_newer
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.store import Store
from bucketlake.options.map_layout import map_layouts
from bucketlake.schema.evolution import ReadColumn, read_mapping
from bucketlake.schema.schema import ROW_ID_FIELD, SEQUENCE_FIELD
from bucketlake.spark.read.united import united
from bucketlake.spark.settings import LISTED, setting_of
from bucketlake.spark.types import CHAR_METADATA, declared, noted, quoted, spark_type
from bucketlake.types.model import LISTS, DataField, DataType, Root
from bucketlake.values import dataclass

FILE_PATH = "__bucketlake_path"
FILE_SIZE = "__bucketlake_size"
ROW_INDEX = "__bucketlake_row"
_METADATA = "_metadata"
_OF_FILE = {FILE_PATH: "file_path", FILE_SIZE: "file_size", ROW_INDEX: "row_index"}
_USUALLY_LISTED = 32
_MOST_SCANS = 8
_GLOB = re.compile(r"([{}\[\]*?\\])")
# Whatever the session says, a scan of a table's files loses none and reads them as Paimon wrote them.
_OPTIONS = {
    "recursiveFileLookup": "true",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "mergeSchema": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
_GREGORIAN = -141_427  # 1582-10-15, days: Spark takes earlier dates in ORC files for Julian ones, and Paimon does not
_EVERYWHERE = {
    Root.BOOLEAN,
    Root.TINYINT,
    Root.SMALLINT,
    Root.INT,
    Root.BIGINT,
    Root.FLOAT,
    Root.DOUBLE,
    Root.DECIMAL,
    Root.VARCHAR,
    Root.BINARY,
    Root.VARBINARY,
    Root.DATE,
}
_WIDENINGS = (
    (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT),
    (Root.FLOAT, Root.DOUBLE),
)


@dataclass(frozen=True, slots=True)
class FileAt:
    """A data file, its full path and its partition."""

    path: str
    file: DataFile
    partition: bytes = b""

    @property
    def format(self) -> str:
        """`parquet`, `orc` or `avro`, by the name's suffix."""
        return format_of(self.file.file_name)


def files_at(store: Store, split: Split) -> list[FileAt]:
    """The files of a split with their paths."""
    return [FileAt(store.paths.file_path(split.bucket_path, file), file, split.partition) for file in split.files]


def is_native(store: Store, found: FileAt, fields: Sequence[DataField]) -> bool:
    """Whether Spark's scan reads these columns of a file exactly as the table means them."""
    if not found.path.startswith("/") or found.format not in ("parquet", "orc"):
        return False
    if piece_of(found.file.file_name) is not None:
        return False
    if any(store.options.get(f"scan.ignore-{which}-files") for which in ("lost", "corrupt")):
        return False
    if any(item.id == ROW_ID_FIELD.id or item.id == SEQUENCE_FIELD.id for item in fields):
        return False
    written = store.schema_of(found.file.schema_id)
    stored = written.fields
    # Before 4.2, Spark opens no ORC file that has such a column, whichever is asked for.
    if found.format == "orc" and any(item.type.holds(Root.TIMESTAMP_LTZ) for item in stored):
        return False
    columns = read_mapping(stored, fields, newer=is_newer(store, found.file.schema_id))
    if not all(_column_is_native(column, found.format) for column in columns):
        return False
    shredded = map_layouts(written.options)
    if any(column.source is not None and column.source.name in shredded for column in columns):
        return False
    dates = [c.source.id for c in columns if c.source is not None and c.source.type.root is Root.DATE]
    return found.format == "parquet" or all(dates_from(store, found.file, number, _GREGORIAN) for number in dates)


def scan(
    spark: SparkSession,
    store: Store,
    files: Sequence[FileAt],
    fields: Sequence[DataField],
    kept: Callable[[Column], Column] | None = None,
) -> DataFrame:
    """The rows of native files as their columns have them, in the layout of `fields`; those of which `kept` is true,
    a function of Spark's `_metadata` of a row."""
    return united(_project(group, kept=kept) for group in _groups(spark, store, files, fields))


def scan_with_places(
    spark: SparkSession, store: Store, files: Sequence[FileAt], fields: Sequence[DataField], places: Sequence[str]
) -> DataFrame:
    """As `scan`, with `places` behind the columns: each row's position in its file (`ROW_INDEX`, parquet only), the
    file's size or URI (`FILE_SIZE`, `FILE_PATH`)."""
    return united(_project(group, places) for group in _groups(spark, store, files, fields))


@dataclass(frozen=True, slots=True)
class _Group:
    """A scan of files of one layout. `columns`: how they become those of the table; `free`: field ids of columns that
    hold neither zeros nor NaN."""

    frame: DataFrame
    columns: Sequence[ReadColumn]
    free: frozenset[int]


def _groups(
    spark: SparkSession, store: Store, files: Sequence[FileAt], fields: Sequence[DataField]
) -> Iterable[_Group]:
    groups: dict[tuple[int, str], list[FileAt]] = {}
    for found in files:
        groups.setdefault((found.file.schema_id, found.format), []).append(found)
    for (schema_id, kind), members in groups.items():
        columns = read_mapping(store.schema_of(schema_id).fields, fields, newer=is_newer(store, schema_id))
        stored = [
            T.StructField(c.source.name, spark_type(c.source.type), True, _note(c))
            for c in columns
            if c.source is not None
        ]
        reader = spark.read.format(kind).schema(T.StructType(stored)).options(**_OPTIONS)
        for alike, free in _by_zeros(store, schema_id, members, columns):
            for part in _parts(spark, alike):
                yield _Group(_load(reader, store, part), columns, free)


def _by_zeros(
    store: Store, schema_id: int, files: list[FileAt], columns: Sequence[ReadColumn]
) -> Iterable[tuple[list[FileAt], frozenset[int]]]:
    """The files without zeros and NaN in any FLOAT or DOUBLE column, and the others, with the columns without any."""
    ids = [c.source.id for c in columns if c.source is not None and c.source.type.root in (Root.FLOAT, Root.DOUBLE)]
    if not ids:
        return [(files, frozenset())]
    proved = free_of_zeros_and_nan(store, schema_id, [found.file for found in files], ids)
    whole = proved.all(axis=1)
    parts = []
    for chosen in (whole, ~whole):
        if chosen.any():
            members = [files[place] for place in np.flatnonzero(chosen)]
            free = np.flatnonzero(proved[chosen].all(axis=0))
            parts.append((members, frozenset(ids[place] for place in free)))
    return parts


def _parts(spark: SparkSession, files: list[FileAt]) -> list[list[FileAt]]:
    """Spark starts a job to look at many paths: several scans of fewer cost less, up to a point. One costs least, where
    the session allows for it."""
    if len(files) <= _USUALLY_LISTED:
        return [files]
    listed = max(1, int(setting_of(spark, LISTED) or _USUALLY_LISTED))
    count = -(-len(files) // listed)
    if count > _MOST_SCANS or listed > _USUALLY_LISTED:
        return [files]
    return [files[number::count] for number in range(count)]


def _load(reader: DataFrameReader, store: Store, files: Sequence[FileAt]) -> DataFrame:
    _check_lengths(store, files)
    try:
        return reader.load([_literal(found.path) for found in files])
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise gone(store, error) from error
        raise


def _check_lengths(store: Store, files: Sequence[FileAt]) -> None:
    """CorruptError for a file that is not as long as recorded: Spark passes over empty ones and takes others."""
    for found, size in zip(files, checked_sizes(store.env.storage, [one.path for one in files]), strict=True):
        if size is not None:
            check_size(found.path, size, found.file.file_size)
        if size == 0:
            raise CorruptError("a data file is empty", path=found.path, remedy="restore the file")


def _project(group: _Group, places: Sequence[str] = (), kept: Callable[[Column], Column] | None = None) -> DataFrame:
    """The table's columns and the places. Naming a column costs calls to the JVM: where files have just these columns
    none is named."""
    frame = group.frame
    metadata = _metadata(group) if places or kept is not None else None
    if metadata is not None and kept is not None:
        frame = frame.where(kept(metadata))
    more = [] if metadata is None else [metadata.getField(_OF_FILE[place]).alias(place) for place in places]
    if all(_is_same(column, group.free) for column in group.columns):
        return frame.select("*", *more) if more else frame
    return frame.select(*[_value(column, group.free) for column in group.columns], *more)


def _metadata(group: _Group) -> Column:
    """What Spark says of the file of a row, and of its place there; a column of the file may have the same name."""
    named = any(column.source is not None and column.source.name.lower() == _METADATA for column in group.columns)
    return group.frame.metadataColumn(_METADATA) if named else F.col(_METADATA)


def _is_same(column: ReadColumn, free: frozenset[int]) -> bool:
    source = column.source
    if source is None or column.cast or source.name != column.field.name:
        return False
    return source.id in free or not _holds_zeros(source.type)


def _value(column: ReadColumn, free: frozenset[int]) -> Column:
    target = spark_type(column.field.type)
    if column.source is None:
        return noted(F.lit(None).cast(target), column.field)
    name = quoted(column.source.name)
    value = F.col(name) if column.source.id in free else _unpushed(F.col(name), column.source.type)
    return noted(value.cast(target) if column.cast else value, column.field)


def _note(column: ReadColumn) -> dict[str, str] | None:
    """What is declared of a column, as far as it may be said of what its files hold, too: most need no projection for
    it."""
    text = column.source is not None and column.source.type.root is Root.VARCHAR
    notes = declared(column.field) or {}
    return {key: note for key, note in notes.items() if text or key != CHAR_METADATA} or None


def _holds_zeros(t: DataType) -> bool:
    """Whether values are FLOAT or DOUBLE, or rows that have such members."""
    return t.root in (Root.FLOAT, Root.DOUBLE) or (t.root is Root.ROW and any(_holds_zeros(f.type) for f in t.fields))


def _unpushed(value: Column, t: DataType) -> Column:
    """The same value as an expression that Spark does not push to the files' reader. There -0.0 and 0.0 differ: by
    dictionaries and statistics it passes over rows of -0.0 that `= 0` means, and the other way round; and footers may
    leave NaN out of their bounds. What is pushed of such columns has pruned whole files already, in the table's own
    order of values."""
    if not _holds_zeros(t):
        return value
    if t.root is not Root.ROW:
        return F.nanvl(value, value)
    members = [_unpushed(value.getField(field.name), field.type).alias(field.name) for field in t.fields]
    return F.when(value.isNotNull(), F.struct(*members))


def _literal(path: str) -> str:
    return _GLOB.sub(r"\\\1", path)


def _column_is_native(column: ReadColumn, kind: str) -> bool:
    if column.source is None:
        return True
    if not _type_is_native(column.source.type, kind):
        return False
    return not column.cast or _widens(column.source.type, column.field.type)


def _type_is_native(t: DataType, kind: str) -> bool:
    if t.root in _EVERYWHERE:
        return True
    if kind != "parquet":
        return False
    if t.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        return (t.precision if t.precision is not None else 6) <= 6  # finer ones are INT96
    if t.root in (*LISTS, Root.MAP, Root.ROW):
        return all(_type_is_native(part, kind) for part in t.parts)
    return t.root in (Root.CHAR, Root.TIME, Root.VARIANT)


def _widens(source: DataType, target: DataType) -> bool:
    """Whether Spark's cast of the values is the table's."""
    if source.root is target.root and source.root in (Root.VARCHAR, Root.VARBINARY):
        return (target.length or 0) >= (source.length or 0)
    return any(
        source.root in family and target.root in family and family.index(source.root) <= family.index(target.root)
        for family in _WIDENINGS
    )
