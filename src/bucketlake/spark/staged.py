"""Rows that no one sorts or merges, those of append tables without buckets and pending ones of postpone tables: Spark's
own parquet writer, whose files are then given Paimon's names and places.

Each write has a folder of its own (Spark jobs that share one can abort each other). The driver moves the finished
files to their partitions, with statistics from their footers, and writes the rows of small ones again together; what a
killed driver leaves lies in `.staging-…` folders that no reader looks into.

Spark writes the same physical types as Paimon for the types of `_SAME`; tables with others take the Python way.
Spec: docs/spec/writing.md#staging
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bucketlake.errors import InvalidError
from bucketlake.format.binary_row import EMPTY_ROW, encode_rows, serialized, with_arity_header
from bucketlake.format.datafile import WrittenFile, file_format, read_data_file, stats_from_parquet_footer
from bucketlake.format.stats import StatsMode, limited
from bucketlake.ops.messages import CommitMessage, WriteTask
from bucketlake.ops.postpone import pending_store, writes_pending
from bucketlake.ops.postpone_write import pending_file
from bucketlake.ops.roll import TARGET_APPEND, TARGET_KEYED, described, stats_modes
from bucketlake.ops.scan import row_width
from bucketlake.ops.store import Store, parallel
from bucketlake.ops.write import default_total, write_batches
from bucketlake.ops.write_plan import MOST_LOAD, tasks_for
from bucketlake.paths import POSTPONE_BUCKET
from bucketlake.schema import KIND_FIELD, SEQUENCE_FIELD, BucketMode, TableSchema
from bucketlake.schema_file_index import index_specs
from bucketlake.spark.cluster import ensure_package, parallelism, run_tasks, spread, unpickled
from bucketlake.spark.placement import count_partitions
from bucketlake.spark.tasks import COLLECTED_BYTES, SMALL_ROWS, discard
from bucketlake.spark.types import quoted
from bucketlake.types import DataField, DataType, Root, type_text

_SAME = {
    Root.BOOLEAN,
    Root.TINYINT,
    Root.SMALLINT,
    Root.INT,
    Root.BIGINT,
    Root.FLOAT,
    Root.DOUBLE,
    Root.DECIMAL,
    Root.CHAR,
    Root.VARCHAR,
    Root.BINARY,
    Root.VARBINARY,
    Root.DATE,
}
_CODECS = {"zstd", "snappy", "gzip", "lz4", "none", "uncompressed"}
_PARTITION = "__bucketlake_partition_"
_FIELD_ID = "parquet.field.id"
# Bytes that a value takes in a compressed file, for the first files of a table; later ones go by those that are there.
_WIDTHS = {Root.BOOLEAN: 1, Root.TINYINT: 1, Root.SMALLINT: 2, Root.INT: 3, Root.FLOAT: 4, Root.DATE: 2}
_OTHER_WIDTH = 6
_TEXT_WIDTH = 10
_MOST_ROWS = (1 << 31) - 1
_OVERSIZE = 2  # times the target
_UNBOUNDED = 2147483647
BUCKET = 0  # where files of unaware tables lie


def is_possible(spark: SparkSession, store: Store, kinds: str | None = None) -> bool:
    """Whether Spark's writer writes this table's files as Paimon would. `kinds`: the column of row kinds, if any."""
    schema, options = store.schema, store.options
    form = file_format(options)
    return (
        (schema.bucket_mode is BucketMode.UNAWARE or (kinds is None and _is_plainly_pending(schema)))
        and store.paths.root.startswith("/")
        and form.name == "parquet"
        and form.compression in _CODECS
        and not any(key.startswith("data-file.external-paths") for key in schema.options)
        and not index_specs(schema.options)
        and str(spark.conf.get("spark.sql.parquet.writeLegacyFormat", "false")).lower() == "false"
        and all(_is_same(item.type) for item in schema.fields)
    )


def _is_plainly_pending(schema: TableSchema) -> bool:
    """Whether all rows are pending inserts that keep their order: Spark sorts rows by partition."""
    return writes_pending(schema) and not schema.partition_keys and not schema.table_options.get("rowkind.field")


def write_staged(spark: SparkSession, store: Store, frame: DataFrame, template: WriteTask) -> list[CommitMessage]:
    """Write the frame's rows, in the table's columns and Spark types; the messages of the files.

    Errors: InvalidError for nulls in NOT NULL columns and texts that are too long; then nothing remains.
    """
    folder = f"{store.paths.root}/.staging-{store.env.clock.new_uuid()}"
    try:
        _spark_write(store, _by_partition(spark, store, frame), folder, template)
        return _messages(spark, store, _parquet_files(store, folder), template)
    finally:
        store.env.storage.delete_tree(folder)


def _by_partition(spark: SparkSession, store: Store, frame: DataFrame) -> DataFrame:
    """The rows, those of a partition together where there are so many partitions that tasks would each write a small
    file of all of them."""
    template = WriteTask("", tasks=parallelism(spark) + 1)
    if not store.schema.partition_keys:
        return frame
    partitions = count_partitions(spark, store.schema, frame, template)
    if partitions is None or partitions <= MOST_LOAD:
        return frame
    tasks = tasks_for(partitions, 1, parallelism(spark))
    return frame.repartition(tasks, *[F.col(quoted(name)) for name in store.schema.partition_keys])


def _spark_write(store: Store, frame: DataFrame, folder: str, template: WriteTask) -> None:
    schema, options, form = store.schema, store.options, file_format(store.options)
    columns = [*_system_columns(schema, template), *(_column(item) for item in schema.fields)]
    groups = [_PARTITION + str(place) for place in range(len(schema.partition_keys))]
    for name, key in zip(groups, schema.partition_keys, strict=True):
        value = F.col(quoted(key))
        columns.append(F.concat(F.lit("v"), F.coalesce(value.cast("string"), F.lit(""))).alias(name))
        columns[-1] = F.when(value.isNull(), F.lit("n")).otherwise(columns[-1]).alias(name)
    target = target_size(store)
    rows = max(1, min(int(target / _row_width(store)), options.get("target-file-row-num")))
    writer = (
        frame.select(*columns)
        .write.option("compression", form.compression)
        .option("parquet.compression.codec.zstd.level", str(options.get("file.compression.zstd-level")))
        .option("parquet.block.size", str(min(options.get("file.block-size") or 128 << 20, target)))
        .option("maxRecordsPerFile", str(min(rows, _MOST_ROWS)))
    )
    if groups:
        writer = writer.partitionBy(*groups)
    writer.parquet(folder)


def _system_columns(schema: TableSchema, template: WriteTask) -> list[Column]:
    """What primary-key files hold before the table's columns. Sequence numbers of pending rows say nothing."""
    sources = {
        SEQUENCE_FIELD.name: F.lit(template.first_sequence).cast("long"),
        KIND_FIELD.name: F.lit(0).cast("tinyint"),
        **{item.name: F.col(quoted(item.name.removeprefix("_KEY_"))) for item in schema.key_fields},
    }
    system = schema.file_fields[: len(schema.file_fields) - len(schema.fields)]
    return [sources[item.name].alias(item.name, metadata={_FIELD_ID: item.id}) for item in system]


def _column(item: DataField) -> Column:
    """The column with its field id; texts checked against the length of their type."""
    value = F.col(quoted(item.name))
    if item.type.root in (Root.CHAR, Root.VARCHAR) and (item.type.length or 0) < _UNBOUNDED:
        message = f"text is too long [column={item.name}, type={type_text(item.type)}]: shorten it"
        refused = F.raise_error(F.lit(message)).cast("string")
        value = F.when(F.char_length(value) > F.lit(item.type.length), refused).otherwise(value)
    return value.alias(item.name, metadata={_FIELD_ID: item.id})


def _row_width(store: Store) -> float:
    """Bytes a row takes in a file, by the table's newest files or else by its types."""
    known = row_width(store)
    return sum(_width(item.type) for item in store.schema.fields) if known is None else max(known, 0.01)


def _width(t: DataType) -> float:
    if t.root in (Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY):
        return min(_TEXT_WIDTH, t.length or _TEXT_WIDTH)
    return _WIDTHS.get(t.root, _OTHER_WIDTH)


def _is_same(t: DataType) -> bool:
    if t.root is Root.TIMESTAMP:
        return 4 <= (6 if t.precision is None else t.precision) <= 6
    return t.root in _SAME


def _parquet_files(store: Store, folder: str) -> list[str]:
    return sorted(info.path for info in store.env.storage.walk(folder) if info.name.endswith(".parquet"))


def _messages(spark: SparkSession, store: Store, paths: Sequence[str], template: WriteTask) -> list[CommitMessage]:
    """Move the files into their buckets. Those far over the target size are cut by tasks instead, and the rows of small
    ones written here together: a small commit makes few files."""
    known = parallel(lambda path: _known(store, path), paths)
    written = [found for found in known if found.rows]
    limit = _OVERSIZE * target_size(store)
    large = [found.path for found in written if found.size > limit]
    small = [found for found in written if found.rows <= SMALL_ROWS]
    if len(small) < 2 or sum(found.size for found in small) > COLLECTED_BYTES:
        small = []
    unique = store.env.clock.new_uuid()
    moved: list[CommitMessage] = []
    try:
        for number, found in enumerate(one for one in written if one.size <= limit and one not in small):
            moved.append(_moved(store, found, (unique, number), template))
        if small:
            moved += write_batches(store, _rows(store, [found.path for found in small]), template)
        return moved + (_cut(spark, store, large, template) if large else [])
    except BaseException:
        discard(store, moved)
        raise


def _rows(store: Store, paths: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of staged files, one file after the other."""
    for path in paths:
        fields, names = store.schema.file_fields, store.schema.field_names
        yield from read_data_file(store.env.storage, path, "parquet", fields, names)


def _known(store: Store, path: str) -> WrittenFile:
    """The footer's statistics of the table's columns; InvalidError for nulls where there must be none."""
    fields = store.schema.fields
    found = stats_from_parquet_footer(store.env.storage, path, fields, [StatsMode("full")] * len(fields))
    for item, stats in zip(fields, found.stats, strict=True):
        if not item.type.nullable and stats.null_count:
            raise InvalidError(
                "null in a NOT NULL column", column=item.name, nulls=stats.null_count, remedy="fill or filter the nulls"
            )
    return found


def _moved(store: Store, found: WrittenFile, number: tuple[str, int], template: WriteTask) -> CommitMessage:
    """Give a file its name, by the write's identifier and the file's number, and its place."""
    schema, form = store.schema, file_format(store.options)
    if schema.primary_keys:
        partition, bucket = EMPTY_ROW, POSTPONE_BUCKET
        name = pending_store(store).paths.data_file_name(*number, form.name, form.compression)
        file = pending_file(store, name, found, _key_bounds(store, found), template.first_sequence)
    else:
        partition, bucket = _partition_of(store, found.path), BUCKET
        name = store.paths.data_file_name(*number, form.name, form.compression)
        modes = stats_modes(schema, store.options)
        stats = tuple(limited(column, mode) for column, mode in zip(found.stats, modes, strict=True))
        file = described(store, name, replace(found, stats=stats))
    store.env.storage.rename(found.path, store.paths.file_path(store.paths.bucket_dir(partition, bucket), file))
    return CommitMessage(partition, bucket, default_total(schema), new_files=(file,))


def _partition_of(store: Store, path: str) -> bytes:
    """The partition of a file whose rows are all of one, by its first row."""
    keys = store.schema.partition_fields
    return _first_row(store, path, keys) if keys else EMPTY_ROW


def _key_bounds(store: Store, found: WrittenFile) -> tuple[bytes, bytes]:
    """Keys around those of a file; where its footer does not tell any, the first row's, for pending files need none."""
    schema = store.schema
    keys = schema.select(schema.trimmed_primary_keys)
    by_name = dict(zip(schema.field_names, found.stats, strict=True))
    bounds = [by_name[item.name] for item in keys]
    if any(column.min is None or column.max is None for column in bounds):
        first = _first_row(store, found.path, keys)
        return first, first
    types = [item.type for item in keys]
    return serialized([column.min for column in bounds], types), serialized([column.max for column in bounds], types)


def _first_row(store: Store, path: str, fields: Sequence[DataField]) -> bytes:
    """Some columns of a file's first row, serialized."""
    names = [item.name for item in fields]
    rows = read_data_file(store.env.storage, path, "parquet", store.schema.file_fields, names)
    first = next(rows).slice(0, 1)
    encoded = encode_rows(first.columns, [item.type for item in fields])
    return with_arity_header(encoded.row(0), len(fields))


def _cut(spark: SparkSession, store: Store, paths: Sequence[str], template: WriteTask) -> list[CommitMessage]:
    """Rewrite files into several of the target size, one task a file."""
    ensure_package(spark)

    def action(batches: Iterator[pa.RecordBatch]) -> Iterator[list[CommitMessage]]:
        for path in unpickled(batches):
            yield write_batches(store, _rows(store, [path]), template)

    return [message for messages in run_tasks(spread(spark, list(paths)), action) for message in messages]


def target_size(store: Store) -> int:
    """Bytes that a file of the table should have."""
    usual = TARGET_KEYED if store.schema.primary_keys else TARGET_APPEND
    return int(store.options.get("target-file-size") or usual)
