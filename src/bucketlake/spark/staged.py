"""Append tables without buckets: Spark's own parquet writer, whose files are then given Paimon's names and places.

Each write has a folder of its own (Spark jobs that share one can abort each other). The driver moves the finished
files to their partitions, with statistics from their footers; what a killed driver leaves lies in `.staging-…` folders
that no reader looks into.

Spark writes the same physical types as Paimon for the types of `_SAME`; tables with others take the Python way.
Spec: docs/spec/writing.md#staging
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bucketlake.errors import InvalidError
from bucketlake.format.manifest import DataFile
from bucketlake.ops.messages import CommitMessage
from bucketlake.ops.store import Store, parallel
from bucketlake.schema import BucketMode
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
_ENOUGH_ROWS = 10_000
_UNBOUNDED = 2147483647
BUCKET = 0  # where files of unaware tables lie


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that Spark wrote, where it lies, and the BinaryRow of the partition that its rows are of."""

    path: str
    partition: bytes


def is_possible(spark: SparkSession, store: Store) -> bool:
    """Whether Spark's writer writes this table's files as Paimon would."""
    schema, options = store.schema, store.options
    return (
        schema.bucket_mode is BucketMode.UNAWARE
        and store.paths.root.startswith("/")
        and options.get("file.format") == "parquet"
        and options.get("file.compression") in _CODECS
        and not any(key.startswith(("file-index.", "data-file.external-paths")) for key in schema.options)
        and str(spark.conf.get("spark.sql.parquet.writeLegacyFormat", "false")).lower() == "false"
        and all(_is_same(item.type) for item in schema.fields)
    )


def write_staged(spark: SparkSession, store: Store, frame: DataFrame) -> list[CommitMessage]:
    """Write the frame's rows, in the table's columns and Spark types; the messages of the files.

    Errors: InvalidError for nulls in NOT NULL columns and texts that are too long; then nothing remains.
    """
    folder = f"{store.paths.root}/.staging-{store.env.clock.new_uuid()}"
    try:
        _spark_write(store, frame, folder)
        files = parallel(lambda path: _located(store, path), _parquet_files(store, folder))
        return _messages(spark, store, [file for file in files if file is not None])
    finally:
        store.env.storage.delete_tree(folder)


def _spark_write(store: Store, frame: DataFrame, folder: str) -> None:
    schema, options = store.schema, store.options
    columns = [_column(item) for item in schema.fields]
    groups = [_PARTITION + str(place) for place in range(len(schema.partition_keys))]
    for name, key in zip(groups, schema.partition_keys, strict=True):
        value = F.col(quoted(key))
        columns.append(F.concat(F.lit("v"), F.coalesce(value.cast("string"), F.lit(""))).alias(name))
        columns[-1] = F.when(value.isNull(), F.lit("n")).otherwise(columns[-1]).alias(name)
    target = options.get("target-file-size")
    writer = (
        frame.select(*columns)
        .write.option("compression", options.get("file.compression"))
        .option("parquet.compression.codec.zstd.level", str(options.get("file.compression.zstd-level")))
        .option("parquet.block.size", str(min(options.get("file.block-size") or 128 << 20, target)))
        .option("maxRecordsPerFile", str(max(1, int(target / _row_width(store)))))
    )
    if groups:
        writer = writer.partitionBy(*groups)
    writer.parquet(folder)


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
    snapshot = store.latest_snapshot()
    if snapshot is not None:
        added = [
            entry.file
            for manifest in store.manifests(store.manifest_list(snapshot.delta_manifest_list))
            for entry in manifest
        ]
        rows = sum(file.row_count for file in added)
        if rows >= _ENOUGH_ROWS:
            return max(sum(file.file_size for file in added) / rows, 0.01)
    return sum(_width(item.type) for item in store.schema.fields)


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
