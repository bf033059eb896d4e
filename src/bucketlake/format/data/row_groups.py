"""Rows of parquet files of other programs, in batches that stay small whatever the file is like."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_ROWS = 1 << 14
_BYTES = 4 << 20
_LOOKED_AT = 1 << 8  # rows that tell how wide others are


def read_row_groups(
    file: pq.ParquetFile, groups: Iterable[int], columns: Sequence[str], threads: bool = False
) -> Iterator[pa.RecordBatch]:
    """The rows of these row groups, in order. Row groups are read one by one, as Arrow keeps what it has read of those
    that are asked for together. A batch has at most 16,384 rows, and some 4 MiB if its rows are as wide in memory as
    those before it: large values that a dictionary repeats from a later group on make one larger batch.

    Errors: those of Arrow over damaged files.
    """
    width = 0  # bytes of a row
    for number in groups:
        batches = partial(file.iter_batches, row_groups=[number], columns=list(columns), use_threads=threads)
        group = file.metadata.row_group(number)
        if not width:
            width = max(map(_width, islice(batches(_LOOKED_AT), 1)), default=0)
        encoded = group.total_byte_size // max(group.num_rows, 1)
        for batch in batches(max(min(_ROWS, _BYTES // max(width, encoded, 1)), 1)):
            yield batch
            width = _width(batch)


def _width(batch: pa.RecordBatch) -> int:
    width: int = batch.nbytes // max(batch.num_rows, 1)
    return width
