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
BUCKET = 0  # where files of unaware tables lie
