"""Tables whose rows may have their columns in several files (`data-evolution.enabled`): which files, which columns.

    row_groups(files)                 files by the rows that they hold columns of
    blob_columns(store, …)            the columns of a group that lie in blob files
    narrowed(store, split, names)     a split without the blob files that nobody asks for
    columns_of_files(store, …)        which file of a group gives which column
    aligned(streams)                  batches of several files, cut alike

All files of a group hold the same rows in the same order: those with the ids from the group's first row id on; blob
files hold some of them. A column is the newest file's that has it. Deletion vectors are those of the oldest file.
Spec: docs/spec/row_tracking.md#columns-in-several-files
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TypeVar

from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.format.data.blob import is_blob
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.lazy import pa
from bucketlake.ops.rows.blob_columns import BlobColumn
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import ROW_ID_FIELD, TRACKING, TableSchema
from bucketlake.types.model import DataField

T = TypeVar("T")


def refuse_changes(schema: TableSchema, what: str) -> None:
    """UnsupportedError for what looks at single commits of such a table: they may hold some columns of a row."""
    if schema.data_evolution:
        raise UnsupportedError(
            f"{what} of tables with data-evolution.enabled",
            remedy="read snapshots whole; `t$row_tracking` says by _SEQUENCE_NUMBER what changed since one",
        )


def refuse_rewriting(schema: TableSchema, what: str, remedy: str = "CALL sys.compact merges their files") -> None:
    """UnsupportedError for what takes files of such a table one by one: they may hold some columns of a row."""
    if schema.data_evolution:
        raise UnsupportedError(f"{what} of tables with data-evolution.enabled", remedy=remedy)


def grouped(items: Iterable[T], file_of: Callable[[T], DataFile]) -> list[list[T]]:
    """Things that have a file each, in groups of files with the same rows, newest file first, behind them the blob
    files of these rows; by ascending row id.

    Raises CorruptError for files without a first row id, or that hold parts of each other's rows.
    """
    groups: list[list[T]] = []
    spans: list[tuple[int, int]] = []
    ordered = sorted(items, key=lambda item: row_span(file_of(item)))
    for item in ordered:
        if is_blob(file_of(item).file_name):
            continue
        own = row_span(file_of(item))
        if groups and own == spans[-1]:
            groups[-1].append(item)
            continue
        if groups and own[0] < spans[-1][1]:
            raise _overlapping(file_of(item), spans[-1])
        groups.append([item])
        spans.append(own)
    found = [sorted(group, key=lambda item: _age(file_of(item)), reverse=True) for group in groups]
    for item in ordered:
        if is_blob(file_of(item).file_name):
            own = row_span(file_of(item))
            place = bisect_right(spans, own[0], key=lambda span: span[0]) - 1
            if place < 0 or own[1] > spans[place][1]:
                raise _overlapping(file_of(item), spans[place] if place >= 0 else None)
            found[place].append(item)
    return found


def _overlapping(file: DataFile, others: tuple[int, int] | None) -> CorruptError:
    return CorruptError(
        "files hold columns of overlapping rows", file=file.file_name, rows=row_span(file), others=others
    )


def rows_files(group: Iterable[DataFile]) -> list[DataFile]:
    """The files of a group that hold all its rows: those that are no blob files."""
    return [file for file in group if not is_blob(file.file_name)]


def anchor_of(group: Sequence[DataFile]) -> DataFile:
    """The file of a group that a deletion vector names: the oldest that is no blob file."""
    return rows_files(group)[-1]


def row_groups(files: Iterable[DataFile]) -> list[list[DataFile]]:
    """As `grouped`, of files."""
    return grouped(files, lambda file: file)


def row_span(file: DataFile) -> tuple[int, int]:
    """The ids of a file's rows, from one to behind another. CorruptError."""
    if file.first_row_id is None:
        raise CorruptError("a file of a table with data-evolution.enabled has no first row id", file=file.file_name)
    return file.first_row_id, file.first_row_id + file.row_count


def holds_columns(file: DataFile) -> bool:
    """Whether a file says which columns it holds of rows whose ids it only counts: others may hold the rest."""
    return file.first_row_id is not None and file.write_cols is not None and ROW_ID_FIELD.name not in file.write_cols


def _age(file: DataFile) -> tuple[int, str]:
    return file.max_sequence_number, file.file_name


def held(written: TableSchema, file: DataFile) -> tuple[DataField, ...]:
    """The columns of the table, without ids, that a file written with this schema has. CorruptError where it names
    others, or none."""
    names = None if file.write_cols is None else set(file.write_cols)
    if names is not None and (not names or not names <= {*(item.name for item in written.fields), *TRACKING}):
        raise CorruptError(
            "a manifest says that a file has columns which its schema has not, or none at all",
            file=file.file_name,
            schema=written.id,
            columns=list(file.write_cols or ())[:10],
        )
    apart = () if is_blob(file.file_name) else written.blob_fields
    fields = (f for f in written.fields if f.name not in TRACKING and f not in apart)
    return tuple(f for f in fields if names is None or f.name in names)


def blob_columns(
    store: Store, folder: str, group: Sequence[DataFile], wanted: Sequence[DataField]
) -> dict[str, BlobColumn]:
    """Those of some columns that lie in blob files, by name; none of these is opened."""
    files: dict[int, list[DataFile]] = {}
    for file in group:
        if is_blob(file.file_name):
            for item in held(store.schema_of(file.schema_id), file):
                files.setdefault(item.id, []).append(file)
    found, apart = {}, {item.id for item in store.schema.blob_fields}
    for item in wanted:
        if item.id in apart:
            own = files.get(item.id, ())
            found[item.name] = BlobColumn(store, item, folder, own, group[0].first_row_id or 0)
    return found


def narrowed(store: Store, split: Split, names: Collection[str]) -> list[Split]:
    """A split as these columns are read of it, in the order of its rows: where none of them lies in blob files, these
    are left out, and what is one file then is read raw."""
    if split.raw or not store.schema.blob_fields or any(item.name in names for item in store.schema.blob_fields):
        return [split]
    found = []
    for alone, groups in groupby(row_groups(rows_files(split.files)), lambda group: len(group) == 1):
        files = tuple(file for group in groups for file in group)
        deletions = {f.file_name: split.deletions[f.file_name] for f in files if f.file_name in split.deletions}
        found.append(replace(split, files=files, raw=alone, deletions=deletions))
    return found


def columns_of_files(
    store: Store, group: Sequence[DataFile], wanted: Sequence[DataField]
) -> list[tuple[DataFile, list[DataField]]]:
    """The files to read for some columns that lie in no blob files, each with those that it gives; columns of none, and
    the ids, are the newest file's. At least one file."""
    group = rows_files(group)
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
