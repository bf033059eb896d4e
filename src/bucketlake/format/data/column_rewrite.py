"""A data file once more with new values in some rows of some columns, its other columns copied as bytes.

    replace_columns(storage, file, path, Replacement(fields, modes, form), change) -> WrittenFile | None

Only parquet files, and only those that hold the columns just as they would be written now. None says that a file is not
of these: nothing was written then, and its rows have to be written anew.

Spec: docs/spec/datafile.md#replaced-columns
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from bucketlake.env.storage import Storage
from bucketlake.format.data.datafile import BROKEN, DEFAULT_BATCH, Recorded, WrittenFile, check_length, check_rows
from bucketlake.format.data.file_format import FileFormat
from bucketlake.format.data.parquet import ParquetSource, footer_stats
from bucketlake.format.data.parquet_columns import ReplacedColumns
from bucketlake.format.guard import decoding
from bucketlake.format.metadata.stats import StatsCollector, StatsMode, limited
from bucketlake.types.model import DataField, arrow_schema
from bucketlake.values import dataclass

Change = Callable[[int, int], tuple[np.ndarray, pa.Table]]
"""New values of the rows of a file from one position to before another: the positions of the rows, ascending, and a
table of as many rows, of the replaced columns in canonical layout. Asked in the order of the file."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """The columns that get new values, the statistics that are kept of each, and how files are written."""

    fields: tuple[DataField, ...]
    modes: tuple[StatsMode, ...]
    form: FileFormat


def replace_columns(
    storage: Storage, file: Recorded, path: str, replacement: Replacement, change: Change
) -> WrittenFile | None:
    """Write a data file to `path` with new values; statistics are of the replaced columns. On failure nothing stays.

    Raises: NotFoundError, CorruptError, StorageError, naming the file that is read."""
    reading = partial(decoding, BROKEN, file.path)  # not around `change`: values that do not fit are no fault of a file
    with storage.open_input(file.path) as opened:
        with reading():
            check_length(opened, file)
            columns = ReplacedColumns.of(opened, replacement.fields, replacement.form)
            if columns is None:
                return None
            found = _Groups(opened, file, replacement, columns.told)
        out = storage.open_output(path)
        try:
            writing = columns.to(out)
            for number, (first, end) in enumerate(found.bounds):
                places, new = change(first, end)
                with reading():
                    writing.add(found.values(number, places, new))
            with reading():
                metadata, size = writing.finish()
            out.close()
        except BaseException:
            with suppress(Exception):
                out.close()
            storage.delete_all([path])
            raise
        told = iter(footer_stats(metadata, [item for item in replacement.fields if item.name in columns.told]))
        other = iter(found.collector.result())
        stats = [
            limited(next(told), mode) if item.name in columns.told else next(other)
            for item, mode in zip(replacement.fields, replacement.modes, strict=True)
        ]
        return WrittenFile(path, size, metadata.num_rows, tuple(stats))


class _Groups:
    """The new values of a file's row groups, one after the other; `collector` takes what the footer does not tell."""

    def __init__(self, opened: BinaryIO, file: Recorded, replacement: Replacement, told: Set[str]) -> None:
        self._source = ParquetSource(opened, replacement.fields, remote="://" in file.path)
        check_rows(file, self._source.metadata.num_rows)
        self._fields = replacement.fields
        modes = zip(replacement.fields, replacement.modes, strict=True)
        untold = [(item, mode) for item, mode in modes if item.name not in told]
        self.collector = StatsCollector([item for item, _ in untold], [mode for _, mode in untold])
        self._looks_at_all = bool(untold)
        ends = np.cumsum([0, *self._source.group_rows]).tolist()
        self.bounds = list(pairwise(ends))  # of each row group: its first row, and that behind it

    def values(self, number: int, places: np.ndarray, new: pa.Table) -> pa.Table | None:
        """The columns of a row group with new values at these positions of the file; None where they stay."""
        if not len(places) and not self._looks_at_all:
            return None
        batches = list(self._patched(number, places - self.bounds[number][0], new))
        for batch in batches if self._looks_at_all else ():
            self.collector.update(batch)
        return pa.Table.from_batches(batches, arrow_schema(self._fields)) if len(places) else None

    def _patched(self, number: int, places: np.ndarray, new: pa.Table) -> Iterator[pa.RecordBatch]:
        at = 0
        for batch in self._source.group(number, DEFAULT_BATCH):
            low, high = np.searchsorted(places, [at, at + batch.num_rows]).tolist()
            yield with_values(batch, places[low:high] - at, new.slice(low, high - low))
            at += batch.num_rows


def with_values(batch: pa.RecordBatch, places: np.ndarray, new: pa.Table) -> pa.RecordBatch:
    """The rows with new values of some columns, found by name, at these places."""
    if not len(places):
        return batch
    index = np.arange(batch.num_rows)
    index[places] = batch.num_rows + np.arange(len(places))
    arrays: list[pa.Array] = batch.columns
    for name in new.column_names:
        at = batch.schema.get_field_index(name)
        arrays[at] = pa.concat_arrays([arrays[at], *new.column(name).chunks]).take(pa.array(index))
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
