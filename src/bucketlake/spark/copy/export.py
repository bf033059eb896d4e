"""COPY INTO a folder: rows written as CSV, JSON or parquet by Spark.

Spec: docs/sql/copy-into.md#exports
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.env.object_store import overlaps
from bucketlake.errors import InvalidError
from bucketlake.spark.copy.formats import FileFormat
from bucketlake.spark.copy.sources import list_files

RESULT = T.StructType(
    [
        T.StructField("output_path", T.StringType(), False),
        T.StructField("file_count", T.IntegerType(), False),
        T.StructField("rows_written", T.LongType(), False),
    ]
)


def export(frame: DataFrame, target: str, form: FileFormat, overwrite: bool, warehouse: str) -> tuple[str, int, int]:
    """Write a frame's rows to a folder; a row of `RESULT`. `warehouse`: where tables lie, which no export may touch.

    Errors: InvalidError (options, a folder of the warehouse), and what Spark says of a folder that is there.
    """
    options = form.writer_options()
    refuse_warehouse(target, warehouse)
    counted = Observation()
    writer = frame.observe(counted, F.count(F.lit(1)).alias("rows")).write.options(**options)
    if overwrite:  # else a folder that is there is an error, to both kinds of Spark
        writer = writer.mode("overwrite")
    writer.format(form.name.lower()).save(target)
    parts = [file for file in list_files(_session(frame), target) if file.name.startswith("part-")]
    return target, len(parts), int(counted.get["rows"])


def refuse_warehouse(target: str, warehouse: str) -> None:
    """InvalidError for a folder within the warehouse, or around it: an export may replace what lies there."""
    if overlaps(target, warehouse):
        raise InvalidError(
            "an export may not write where tables lie", path=target, remedy="name a folder outside of the warehouse"
        )


def _session(frame: DataFrame) -> SparkSession:
    return frame.sparkSession
