"""Tables whose rows may have their columns in several files (`data-evolution.enabled`): which files, which columns.

    row_groups(files)                 files by the rows that they hold columns of
    columns_of_files(store, …)        which file of a group gives which column
    aligned(streams)                  batches of several files, cut alike

All files of a group hold the same rows in the same order: those with the ids from the group's first row id on. A column
is the newest file's that has it. Deletion vectors are those of the oldest file.
Spec: docs/spec/row_tracking.md#columns-in-several-files
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.lazy import pa
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import TRACKING, TableSchema
from bucketlake.types.model import DataField

T = TypeVar("T")


def refuse_changes(schema: TableSchema, what: str) -> None:
    """UnsupportedError for what looks at single commits of such a table: they may hold some columns of a row."""
    if schema.data_evolution:
        raise UnsupportedError(
            f"{what} of tables with data-evolution.enabled",
            remedy="read snapshots whole; `t$row_tracking` says by _SEQUENCE_NUMBER what changed since one",
        )


def refuse_rewriting(schema: TableSchema, what: str) -> None:
    """UnsupportedError for what writes files of such a table anew one by one: they may hold some columns of a row."""
    if schema.data_evolution:
        raise UnsupportedError(
            f"{what} of tables with data-evolution.enabled", remedy="CALL sys.compact merges their files"
        )


def grouped(items: Iterable[T], file_of: Callable[[T], DataFile]) -> list[list[T]]:
    """Things that have a file each, in groups of files with the same rows, newest file first; by ascending row id.

    Raises CorruptError for files without a first row id, or that hold parts of each other's rows.
    """
    groups: list[list[T]] = []
    span = (-1, -1)
    for item in sorted(items, key=lambda item: _span(file_of(item))):
        own = _span(file_of(item))
        if groups and own == span:
            groups[-1].append(item)
            continue
        if own[0] < span[1]:
            raise CorruptError(
                "files hold columns of overlapping rows", file=file_of(item).file_name, rows=own, others=span
            )
        groups.append([item])
        span = own
    return [sorted(group, key=lambda item: _age(file_of(item)), reverse=True) for group in groups]


def row_groups(files: Iterable[DataFile]) -> list[list[DataFile]]:
    """As `grouped`, of files."""
    return grouped(files, lambda file: file)


def _span(file: DataFile) -> tuple[int, int]:
    if file.first_row_id is None:
        raise CorruptError("a file of a table with data-evolution.enabled has no first row id", file=file.file_name)
    return file.first_row_id, file.first_row_id + file.row_count


def _age(file: DataFile) -> tuple[int, str]:
    return file.max_sequence_number, file.file_name


def held(written: TableSchema, file: DataFile) -> tuple[DataField, ...]:
    """The columns of the table, without ids, that a file written with this schema has."""
    names = None if file.write_cols is None else set(file.write_cols)
    return tuple(f for f in written.fields if f.name not in TRACKING and (names is None or f.name in names))


def columns_of_files(
    store: Store, group: Sequence[DataFile], wanted: Sequence[DataField]
) -> list[tuple[DataFile, list[DataField]]]:
    """The files to read for some columns, each with those that it gives; columns of none, and the ids, are the newest
    file's. At least one file."""
    chosen: list[list[DataField]] = [[] for _ in group]
    ids = [{item.id for item in held(store.schema_of(file.schema_id), file)} for file in group]
    for item in wanted:
        chosen[next((place for place, own in enumerate(ids) if item.id in own), 0)].append(item)
    found = [(file, own) for file, own in zip(group, chosen, strict=True) if own]
    return found or [(group[0], [])]


def aligned(streams: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[list[pa.RecordBatch]]:
    """Batches of the same rows, one of each stream at a time. CorruptError where one has more rows than another."""
    heads = [_filled(stream) for stream in streams]
    while all(head is not None for head in heads):
        rows = min(head.num_rows for head in heads if head is not None)
        yield [head.slice(0, rows) for head in heads if head is not None]
        heads = [
            head.slice(rows) if head is not None and head.num_rows > rows else _filled(stream)
            for head, stream in zip(heads, streams, strict=True)
        ]
    if any(head is not None for head in heads):
        raise CorruptError("files that hold columns of the same rows have different numbers of rows")


def _filled(stream: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return next((batch for batch in stream if batch.num_rows), None)
