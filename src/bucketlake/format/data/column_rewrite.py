"""A data file once more with new values in some rows of some columns, its other columns copied as bytes.

    replace_columns(storage, file, path, Replacement(fields, modes, form), change) -> WrittenFile | None
    join_files(storage, [Part(file, first), …], path, Joining(…)) -> WrittenFile | None

The second puts files one behind the other and numbers their rows anew. It decodes all columns, for their statistics and
so that nothing damaged is passed on as whole; what it saves is encoding them, which takes longer.

Only parquet files, and only those that hold the columns just as they would be written now. None says that a file is not
of these: nothing was written then, and its rows have to be written anew.

Spec: docs/spec/datafile.md#replaced-columns
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import pairwise
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from bucketlake.env.storage import Storage
from bucketlake.errors import CorruptError
from bucketlake.format.data.datafile import BROKEN, DEFAULT_BATCH, Recorded, WrittenFile, check_length, check_rows
from bucketlake.format.data.file_format import FileFormat
from bucketlake.format.data.parquet import ParquetSource
from bucketlake.format.data.parquet_bounds import footer_stats
from bucketlake.format.data.parquet_columns import ReplacedColumns, Writing
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
        with _output(storage, path) as out:
            writing = Writing([columns], out)
            for number, (first, end) in enumerate(found.bounds):
                places, new = change(first, end)
                with reading():
                    writing.add(found.values(number, places, new))
            with reading():
                metadata, size = writing.finish()
        told = iter(footer_stats(metadata, [item for item in replacement.fields if item.name in columns.told]))
        other = iter(found.collector.result())
        stats = [
            limited(next(told), mode) if item.name in columns.told else next(other)
            for item, mode in zip(replacement.fields, replacement.modes, strict=True)
        ]
        return WrittenFile(path, size, metadata.num_rows, tuple(stats))


@contextmanager
def _output(storage: Storage, path: str) -> Iterator[BinaryIO]:
    """A new file; it is gone where an error comes before its end."""
    out = storage.open_output(path)
    try:
        yield out
        out.close()
    except BaseException:
        with suppress(Exception):
            out.close()
        storage.delete_all([path])
        raise


@dataclass(frozen=True, slots=True)
class Part:
    """A file that is joined to others, and the number of its first row."""

    file: Recorded
    first: int


@dataclass(frozen=True, slots=True)
class Joining:
    """All columns that files have, the statistics that are kept of each, how files are written, and the column that
    numbers rows. `before_group` is called before each row group."""

    fields: tuple[DataField, ...]
    modes: tuple[StatsMode, ...]
    form: FileFormat
    numbers: DataField
    before_group: Callable[[], None]


def join_files(storage: Storage, parts: Sequence[Part], path: str, joining: Joining) -> WrittenFile | None:
    """Write the rows of these files, in their order, to `path`, numbered on from each part's first number, all else
    copied as bytes; statistics are of all columns. None, and nothing is written, where a file holds other columns or
    has another compression than it would be written with now. On failure nothing stays.

    Raises: NotFoundError, CorruptError, StorageError, naming the file that is read."""
    with ExitStack() as stack:
        sources: list[_Source] = []
        for part in parts:
            opened = stack.enter_context(storage.open_input(part.file.path))
            with decoding(BROKEN, part.file.path):
                source = _Source.of(opened, part, joining)
            if source is None:
                return None
            sources.append(source)
        kept = [(f, m) for f, m in zip(joining.fields, joining.modes, strict=True) if f.name != joining.numbers.name]
        collector = StatsCollector([item for item, _ in kept], [mode for _, mode in kept])
        with _output(storage, path) as out:
            writing = Writing([source.columns for source in sources], out)
            for source in sources:
                at = source.part.first
                for number, rows in enumerate(source.columns.group_rows):
                    joining.before_group()
                    with decoding(BROKEN, source.part.file.path):
                        for batch in source.batches(number, rows):
                            collector.update(batch)
                        numbers = pa.array(np.arange(at, at + rows))
                        writing.add(pa.table([numbers], arrow_schema([joining.numbers])))
                    at += rows
            with decoding(BROKEN, path):
                metadata, size = writing.finish()
        stats = dict(zip((item.name for item, _ in kept), collector.result(), strict=True))
        stats[joining.numbers.name] = footer_stats(metadata, [joining.numbers])[0]
        return WrittenFile(path, size, metadata.num_rows, tuple(stats[item.name] for item in joining.fields))


@dataclass(frozen=True, slots=True)
class _Source:
    """An open file that can be joined to others, and its rows."""

    part: Part
    columns: ReplacedColumns
    reader: ParquetSource

    @classmethod
    def of(cls, opened: BinaryIO, part: Part, joining: Joining) -> _Source | None:
        """None where its column chunks cannot be taken over as they are."""
        check_length(opened, part.file)
        columns = ReplacedColumns.of(opened, [joining.numbers], joining.form, joining.fields)
        if columns is None:
            return None
        reader = ParquetSource(opened, joining.fields, remote="://" in part.file.path)
        check_rows(part.file, reader.metadata.num_rows)
        check_rows(part.file, sum(columns.group_rows))
        return cls(part, columns, reader) if reader.codecs() <= {joining.form.compression.upper()} else None

    def batches(self, number: int, rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of a row group, so many."""
        for batch in self.reader.group(number, DEFAULT_BATCH):
            rows -= batch.num_rows
            yield batch
        if rows:
            raise CorruptError("a row group holds other rows than the footer says", path=self.part.file.path)


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
