"""Data files as tests read them: all rows, whatever is recorded of the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from bucketlake.env.storage import Storage
from bucketlake.format.data.datafile import Recorded, read_recorded
from bucketlake.predicate.tree import Predicate
from bucketlake.types.model import DataField


def read_data_file(
    storage: Storage,
    path: str,
    format: str,
    fields: Sequence[DataField],
    columns: Sequence[str] | None = None,
    *,
    row_filter: Predicate | None = None,
) -> Iterator[pa.RecordBatch]:
    """As `read_recorded`, of the batches alone."""
    return (batch for _, batch in read_recorded(storage, Recorded(path, format), fields, columns, row_filter))
