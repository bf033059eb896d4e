"""What tests of blobs share: options, rows as tuples, the blob files of a table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bucketlake.format.data.blob import is_blob
from bucketlake.table import Table

EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "compaction.min.file-num": "2"}
SMALL = {"blob.target-file-size": "2 kb", "target-file-row-num": "40"}


def listed(*tables: pa.Table) -> list[tuple[Any, ...]]:
    """The rows, in their order."""
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


def rows_of(table: Table, columns: list[str], **given: Any) -> list[tuple[Any, ...]]:
    """The rows of a table as of now, by the column `id`."""
    return listed(table.refresh().to_arrow(columns=columns, **given).sort_by("id"))


def blobs(table: Table) -> list[Any]:
    """The blob files of a table as of now."""
    return [file for file in table.refresh().files() if is_blob(file.path)]
