"""Where events come from: Kafka by Spark's own source, folders of files by Spark's file stream, or any streaming
DataFrame with Kafka's columns.

Spec: docs/cdc.md#sources
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import field

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bucketlake.cdc import avro
from bucketlake.cdc.avro import Registry
from bucketlake.cdc.formats import AVRO, check_format
from bucketlake.errors import InvalidError, NotFoundError
from bucketlake.values import dataclass

KAFKA_METADATA = ("topic", "partition", "offset", "timestamp", "timestamp_type")
EVENT_METADATA = ("database_name", "table_name", "schema_name", "op_ts")
_TIMESTAMP_TYPES = {0: "CreateTime", 1: "LogAppendTime"}
_NO_KAFKA = ("KAFKA_DATA_SOURCE_NOT_ENABLED", "Failed to find data source: kafka")  # this by PySpark 4.1


@dataclass(frozen=True)
class Source:
    """A stream of events. `kind`: "kafka", "files" or "frame"; `options`: of Spark's source; `registry`: of avro
    schemas, a URL or a function from an id to the schema's JSON."""

    kind: str
    format: str
    what: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold secrets
    registry: Registry | None = None
    frame: DataFrame | None = None

    @property
    def metadata(self) -> tuple[str, ...]:
        """The metadata columns that there are."""
        return (*(KAFKA_METADATA if self.kind != "files" else ("file",)), *EVENT_METADATA)

    def load(self, spark: SparkSession) -> DataFrame:
        """The events as a streaming DataFrame: `value`, `key`, `at` (their order) and where each was found."""
        if self.kind == "files":
            return _of_files(spark, self)
        if self.frame is not None:
            return kafka_shaped(self.frame)
        try:
            return kafka_shaped(spark.readStream.format("kafka").options(**self.options).load())
        except AnalysisException as error:
            if not any(told in str(error) for told in _NO_KAFKA):
                raise
            package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
            remedy = f"set spark.jars.packages to {package} before the session is made"
            raise InvalidError("Spark has no package for Kafka", remedy=remedy) from error


def kafka(
    servers: str | Sequence[str],
    topics: str | Sequence[str],
    format: str,
    starting: str = "earliest",
    registry: Registry | None = None,
    **options: str,
) -> Source:
    """Topics of Kafka: names, with commas or in a list, or `pattern:` and a regular expression. `starting`: where a new
    checkpoint begins, "earliest", "latest" or Spark's JSON of offsets. `options`: of Spark's source, as it names them
    (`maxOffsetsPerTrigger="100000"`, `**{"kafka.security.protocol": "SASL_SSL"}`).

    Spark needs the package org.apache.spark:spark-sql-kafka-0-10_2.13 of its own version.
    """
    named = topics if isinstance(topics, str) else ",".join(topics)
    pattern = named.removeprefix("pattern:") if named.startswith("pattern:") else None
    chosen = {"subscribePattern": pattern} if pattern is not None else {"subscribe": named}
    if not named.strip() or pattern == "":
        raise InvalidError("no topic is named", remedy="name topics, or pattern:<regular expression>")
    if starting not in ("earliest", "latest") and not starting.lstrip().startswith("{"):
        raise InvalidError("starting is earliest, latest, or Spark's JSON of offsets", given=starting)
    where = servers if isinstance(servers, str) else ",".join(servers)
    given = {"kafka.bootstrap.servers": where, "startingOffsets": starting, **chosen, **options}
    return _checked(Source("kafka", format, f"kafka {named} at {where}", given, registry))


def files(path: str, format: str, **options: str) -> Source:
    """A folder that files of JSON lines come to, each once it is whole, read in the order of their modification times.
    `options`: of Spark's file stream, as it names them (`maxFilesPerTrigger="10"`, `pathGlobFilter="*.json"`)."""
    if format == AVRO:
        raise InvalidError("debezium-avro comes from Kafka, not as lines of text", format=format)
    where = absolute(path)
    return _checked(Source("files", format, f"files {where}", {**options, "path": where}))


def absolute(path: str) -> str:
    """A path of this machine from its root: Spark's own working folder may be another. URIs as they are."""
    return path if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:", path) else os.path.abspath(path)


def stream(frame: DataFrame, format: str, name: str = "stream", registry: Registry | None = None) -> Source:
    """Any streaming DataFrame with Kafka's columns: `value`, `topic`, `partition`, `offset`, and perhaps `key`,
    `timestamp`, `timestampType`; the rows of a partition in the order of their offsets. `name`: what it is, the same
    for as long as the checkpoint."""
    if not frame.isStreaming:
        raise InvalidError("not a streaming DataFrame", source=name)
    lacking = [column for column in ("value", "topic", "partition", "offset") if column not in frame.columns]
    if lacking:
        raise InvalidError("the stream lacks columns of Kafka's", columns=lacking, source=name)
    return _checked(Source("frame", format, name, registry=registry, frame=frame))


def _checked(source: Source) -> Source:
    check_format(source.format)
    if (source.format == AVRO) != (source.registry is not None):
        raise InvalidError(
            "debezium-avro, and only that, has a schema registry", format=source.format, remedy="registry="
        )
    return source


def kafka_shaped(frame: DataFrame) -> DataFrame:
    """A frame with Kafka's columns as events: `value`, `key`, `at` (their order) and where each was found."""
    have = set(frame.columns)
    kind = F.lit(None).cast("string")
    for code, name in _TIMESTAMP_TYPES.items():
        if "timestampType" in have:
            kind = F.when(F.col("timestampType") == code, F.lit(name)).otherwise(kind)
    return frame.select(
        F.col("value"),
        (F.col("key") if "key" in have else F.lit(None).cast("string")).alias("key"),
        F.struct("topic", "partition", "offset").alias("at"),
        F.col("topic"),
        F.col("partition").cast("int").alias("partition"),
        F.col("offset").cast("bigint").alias("offset"),
        (F.col("timestamp") if "timestamp" in have else F.lit(None)).cast("timestamp").alias("timestamp"),
        kind.alias("timestamp_type"),
        F.lit(None).cast("string").alias("file"),
    )


def decoded(frame: DataFrame, registry: Registry) -> DataFrame:
    """A batch of debezium-avro's messages with texts of debezium-json for them. Errors: as `avro.schemas`."""
    ids = []
    for name in ("value", "key"):
        head = F.substring(F.col(name), 1, avro.HEAD)
        number = F.when(
            F.hex(F.substring(head, 1, 1)) == "00", F.conv(F.hex(F.substring(head, 2, 4)), 16, 10).cast("long")
        )
        found = (
            frame.where(number.isNotNull()).select(number.alias("id")).distinct().limit(avro.MOST_SCHEMAS + 1).collect()
        )
        if len(found) > avro.MOST_SCHEMAS:
            raise InvalidError("too many schemas in one batch", most=avro.MOST_SCHEMAS, remedy="take smaller batches")
        ids.append(avro.schemas(registry, [int(row[0]) for row in found]))
    texts = frame.select(
        *[F.lit("").alias(name) if name in ("value", "key") else F.col(name) for name in frame.columns]
    )
    return frame.mapInArrow(avro.Decoding(*ids), texts.schema)


def numbered(frame: DataFrame, files: bool) -> DataFrame:
    """A batch of a source's events with texts for values and, where they are lines of files, `at.line`: rising numbers
    within each block of a file."""
    if not files:
        return frame.withColumn("value", F.col("value").cast("string")).withColumn("key", F.col("key").cast("string"))
    return frame.withColumn("at", F.col("at").withField("line", F.monotonically_increasing_id()))


def _of_files(spark: SparkSession, source: Source) -> DataFrame:
    try:
        lines = spark.readStream.format("text").options(**source.options).load()
    except AnalysisException as error:  # Spark Connect looks later
        if error.getCondition() == "PATH_NOT_FOUND":
            raise NotFoundError(
                "no such folder",
                path=source.options["path"],
                remedy="make it before the stream begins; events may come later",
            ) from error
        raise
    place = F.struct(
        F.col("_metadata.file_modification_time").alias("time"),
        F.col("_metadata.file_path").alias("file"),
        F.col("_metadata.file_block_start").alias("block"),
    )
    nothing = F.lit(None)
    return lines.select(
        F.col("value"),
        nothing.cast("string").alias("key"),
        place.alias("at"),
        nothing.cast("string").alias("topic"),
        nothing.cast("int").alias("partition"),
        nothing.cast("bigint").alias("offset"),
        nothing.cast("timestamp").alias("timestamp"),
        nothing.cast("string").alias("timestamp_type"),
        F.col("_metadata.file_path").alias("file"),
    )
