"""Data files of any format: one writer, one reader, and what a written file is known by.

Rows go in and come out in the canonical Arrow layout of the file's columns. Layouts of columns: append tables hold the
value columns; primary-key tables `_KEY_*`, `_SEQUENCE_NUMBER`, `_VALUE_KIND`, then the values.

Spec: docs/spec/datafile.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from bucketlake.env import Storage
from bucketlake.errors import BucketlakeError, CorruptError, InvalidError, StorageError, UnsupportedError
from bucketlake.format.avro import AvroSink, AvroSource
from bucketlake.format.file_format import FORMATS, BatchSize, FileFormat, file_format, format_of
from bucketlake.format.orc import OrcSink, OrcSource
from bucketlake.format.parquet import ParquetSink, ParquetSource, column_bounds
from bucketlake.format.stats import ColumnStats, StatsCollector, StatsMode
from bucketlake.predicate import Predicate
from bucketlake.types import DataField

__all__ = [
    "FORMATS",
    "BatchSize",
    "DataFileWriter",
    "FileFormat",
    "WrittenFile",
    "file_format",
    "format_of",
    "read_data_file",
    "stats_from_parquet_footer",
]
