"""Parts of a data file that can be read by themselves: row groups of parquet; other formats are one part.

    with open_chunks(storage, recorded, fields) as file:      fields: the columns wanted, as the file has them
        file.starts           row number where each part begins, and the number of rows at last (int64)
        file.bounds(field)    (least, greatest) of a column by part; None where the file does not say
        file.rows(part) -> Iterator[RecordBatch]

Spec: docs/spec/datafile.md#reading
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.env.storage import Storage
from bucketlake.errors import CorruptError
from bucketlake.format.data.datafile import BROKEN, BatchSize, Recorded, check_length, read_recorded
from bucketlake.format.data.parquet import ParquetSource
from bucketlake.format.guard import decoding
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

__all__ = ["ChunkedFile", "open_chunks"]

Positions = npt.NDArray[np.int64]
DEFAULT_BATCH = BatchSize()


@dataclass(frozen=True)
class ChunkedFile:
    """One open data file, read by the columns `fields`."""

    storage: Storage
    recorded: Recorded
    fields: tuple[DataField, ...]
    starts: Positions
    source: ParquetSource | None = None

    @property
    def path(self) -> str:
        """Where the file lies."""
        return self.recorded.path

    def bounds(self, field: DataField) -> tuple[pa.Array, pa.Array] | None:
        """The least and the greatest value of an atomic column in every part, nulls where a part does not say."""
        if self.source is None:
            return None
        found = self.source.bounds([field]).get(field.name)
        return None if found is None else (found.mins, found.maxs)

    def rows(self, part: int) -> Iterator[pa.RecordBatch]:
        """The rows of a part in file order, in batches of bounded size; of columns that `recorded.encoded` names the
        values may be encoded."""
        with decoding(BROKEN, self.path):
            if self.source is None:
                yield from (batch for _, batch in read_recorded(self.storage, self.recorded, self.fields))
            else:
                yield from self.source.group(part, DEFAULT_BATCH)


@contextmanager
def open_chunks(storage: Storage, recorded: Recorded, fields: Sequence[DataField]) -> Iterator[ChunkedFile]:
    """Open a data file for some of its columns; its manifest says how many rows it has.

    Raises: NotFoundError, StorageError naming the path; CorruptError where the file is not what was recorded, which of
    other formats than parquet is found when its rows are read.
    """
    rows = recorded.rows
    assert rows is not None
    if recorded.format != "parquet":
        yield ChunkedFile(storage, recorded, tuple(fields), np.array([0, rows]))
        return
    path = recorded.path
    with decoding(BROKEN, path), storage.open_input(path) as file:
        check_length(file, recorded)
        source = ParquetSource(file, fields, remote="://" in path, encoded=recorded.encoded)
        counts = [source.metadata.row_group(number).num_rows for number in range(source.metadata.num_row_groups)]
        starts = np.concatenate(([0], np.cumsum(counts, dtype=np.int64))).astype(np.int64)
        if starts[-1] != rows:
            raise CorruptError("a data file has a different number of rows than its manifest says", path=path)
        yield ChunkedFile(storage, recorded, tuple(fields), starts, source)
