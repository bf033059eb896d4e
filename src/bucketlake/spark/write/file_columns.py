"""Which columns of parquet files the columns of a DataFrame are: what is guessed, and what proves it.

PySpark shows no plan, but compares two (`DataFrame.sameSemantics`): a guess is made as a DataFrame of its own, and
counts if Spark says that both are the same.

Spec: docs/spec/writing.md#parquet-files
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import islice, product
from os import scandir
from os.path import dirname

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.errors import BucketlakeError
from bucketlake.spark.types import quoted, spark_type
from bucketlake.types.model import from_arrow_type

LEAST_BYTES = 64 << 20  # of files for which more is tried than one comparison
UNREADABLE = (OSError, ValueError, KeyError, pa.ArrowException)  # what damaged files make Arrow raise
_MOST_GUESSES = 8
_MOST_NAMES = 400  # in all guesses together
_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_MOST_ROOTS = 32  # more are listed by a job of Spark's
_PATTERN = re.compile(r"[][*?{}\\]")  # what Spark takes for one in a path


def columns_of_files(spark: SparkSession, frame: DataFrame, sizes: Mapping[str, int]) -> Sequence[str] | None:
    """The columns, by name, of these files (path → bytes) that the frame's are, where its rows are all of the files',
    read now; None where that is not proved."""
    folders = sorted({dirname(path) for path in sizes})
    roots = [folders, list(sizes)] if _are_all(folders, sizes.keys()) else [list(sizes)]
    roots = [paths for paths in roots if len(paths) <= _MOST_ROOTS and not any(map(_PATTERN.search, paths))]
    for paths in roots:
        base = spark.read.schema(frame.schema).parquet(*paths)
        listed = base.select("*")  # as if its columns were named: they are the frame's
        if frame.sameSemantics(base) or frame.sameSemantics(listed):
            return None if _are_kept(frame, base, listed) else frame.columns
    if sum(sizes.values()) < LEAST_BYTES:
        return None
    try:
        return _listed(spark, frame, roots, _schema_of(min(sizes)))
    except AnalysisException:  # Spark reads no such columns together, as two whose names differ in case
        return None


def _listed(
    spark: SparkSession, frame: DataFrame, roots: Sequence[Sequence[str]], stored: T.StructType | None
) -> Sequence[str] | None:
    """The columns of files that a list of columns over them gives; None where it is not proved that the frame is one.
    `stored`: all that the files have."""
    if stored is None:
        return None
    guesses = max(1, min(_MOST_GUESSES, _MOST_NAMES // max(len(frame.columns), 1)))
    for paths in roots:
        whole = spark.read.schema(stored).parquet(*paths)
        for names in islice(_guesses(frame.schema, stored), guesses):
            pairs = zip(names, frame.columns, strict=True)
            columns = [quoted(name) if name == own else F.col(quoted(name)).alias(own) for name, own in pairs]
            listed = whole.select(*columns)
            if frame.sameSemantics(listed):
                return None if _are_kept(frame, whole, listed) else names
    return None


def _schema_of(path: str) -> T.StructType | None:
    """What Spark takes a file's columns for, probably; None where nobody can tell."""
    try:
        with pq.ParquetFile(path) as file:
            told = (file.metadata.metadata or {}).get(_SCHEMA)
            if told is not None:
                return T.StructType.fromJson(json.loads(told))
            kinds = [T.StructField(item.name, spark_type(from_arrow_type(item.type))) for item in file.schema_arrow]
            return T.StructType(kinds)
    except (*UNREADABLE, TypeError, AttributeError, RecursionError, BucketlakeError):
        return None


def _guesses(shown: T.StructType, stored: T.StructType) -> Iterator[Sequence[str]]:
    """Columns of files that a frame's may be: each one of its name, else one of its type, first those that no other
    is."""
    plain = [item for item in stored.fields if not set(item.metadata or ()) - {"comment"}]
    named = {item.name.lower(): item for item in plain}
    taken = {item.name.lower() for item in shown.fields}
    rest = sorted(plain, key=lambda item: item.name.lower() in taken)
    choices = []
    for item in shown.fields:
        own = named.get(item.name.lower())
        if own is not None and own.dataType == item.dataType:
            choices.append([own.name])
        else:
            choices.append([other.name for other in rest if other.dataType == item.dataType])
    return product(*choices)


def _are_kept(*frames: DataFrame) -> bool:
    """Whether the rows of one of these are cached."""
    levels = [frame.storageLevel for frame in frames]
    return any(level.useMemory or level.useDisk or level.useOffHeap for level in levels)


def _are_all(folders: Sequence[str], paths: Set[str]) -> bool:
    """Whether the folders hold these files and nothing else that Spark would read or look through."""
    left = len(paths)
    try:
        for folder in folders:
            with scandir(folder) as entries:
                for entry in entries:
                    hidden = entry.name.startswith((".", "_")) and "=" not in entry.name
                    if hidden and not entry.name.endswith("_metadata"):
                        continue
                    if entry.path not in paths:
                        return False
                    left -= 1
    except OSError:
        return False
    return left == 0
