"""Ids of new rows, given out as a snapshot is published: on every base anew, so that no two rows ever get the same.

Spec: docs/spec/row_tracking.md#commit
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.format.data.blob import is_blob
from bucketlake.format.guard import LARGEST_LONG
from bucketlake.format.metadata.manifest import DataFile, FileKind, FileSource, ManifestEntry
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import ROW_ID_FIELD, SEQUENCE_FIELD


def free_row_id(store: Store, base: Snapshot | None) -> int:
    """The first row id that no row has: the base's next one, or where that is damaged one behind those that its
    manifests tell of."""
    if base is None:
        return 0
    told = (manifest.max_row_id for manifest in store.data_manifests(base))
    return max(base.next_row_id or 0, 1 + max((last for last in told if last is not None), default=-1))


def with_row_ids(
    entries: Sequence[ManifestEntry], snapshot_id: int, free: int, grouped: bool
) -> tuple[ManifestEntry, ...]:
    """The entries of a snapshot with first row ids for the files whose rows have none yet, from the first free one on,
    and its id as the number of all rows that are new or changed. `grouped`: partition by partition.

    Raises UnsupportedError for a compacted file without ids: its rows had some. CorruptError where none are left.
    """
    blobs = _Blobs()
    found = []
    for entry in _by_partition(entries) if grouped else entries:
        if entry.kind == FileKind.ADD:
            file = _numbered(entry.file, snapshot_id)
            if not _has_ids(file):
                if file.file_source is not FileSource.APPEND:
                    raise UnsupportedError(
                        "this would lose the ids of a table's rows", file=file.file_name, snapshot=snapshot_id
                    )
                if is_blob(file.file_name):
                    file = replace(file, first_row_id=blobs.place(file))
                else:
                    blobs.close()
                    file = replace(file, first_row_id=free)
                    blobs.begin(file)
                    free += file.row_count
            entry = replace(entry, file=file)
        found.append(entry)
    blobs.close()
    if free > LARGEST_LONG:
        raise CorruptError("no ids are left for new rows", snapshot=snapshot_id, next=free)
    return tuple(found)


class _Blobs:
    """Gives blob files the ids of the rows in the file of new rows before them, column by column."""

    def __init__(self) -> None:
        self._rows: DataFile | None = None
        self._free: dict[str, int] = {}

    def begin(self, file: DataFile) -> None:
        """The blob files that follow are of this file's rows."""
        self._rows, self._free = file, {}

    def place(self, file: DataFile) -> int:
        """The id of the first row of a blob file."""
        if self._rows is None or self._rows.first_row_id is None:
            raise CorruptError("a blob file comes without the rows that it is of", file=file.file_name)
        (column,) = file.write_cols or ("",)
        first = self._free.get(column, self._rows.first_row_id)
        self._free[column] = first + file.row_count
        return first

    def close(self) -> None:
        """Raise CorruptError where the blob files do not have as many values as there are rows."""
        if self._rows is None or self._rows.first_row_id is None:
            return
        end = self._rows.first_row_id + self._rows.row_count
        wrong = {column: free - self._rows.first_row_id for column, free in self._free.items() if free != end}
        if wrong:
            raise CorruptError(
                "blob files have a different number of values than there are rows",
                file=self._rows.file_name,
                rows=self._rows.row_count,
                values=wrong,
            )


def next_row_id(entries: Sequence[ManifestEntry], least: int) -> int:
    """The first row id that is free once these entries are committed; `least`: so many were taken."""
    given = (
        entry.file.first_row_id + entry.file.row_count
        for entry in entries
        if entry.kind == FileKind.ADD and entry.file.first_row_id is not None
    )
    return max(least, max(given, default=0))


def _by_partition(entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    groups: dict[bytes, list[ManifestEntry]] = {}
    for entry in entries:
        groups.setdefault(entry.partition, []).append(entry)
    return [entry for group in groups.values() for entry in group]


def _has_ids(file: DataFile) -> bool:
    return file.first_row_id is not None or ROW_ID_FIELD.name in (file.write_cols or ())


def _numbered(file: DataFile, snapshot_id: int) -> DataFile:
    """The snapshot in place of what is not known: both bounds of a new file and of one with new columns of rows that
    are there, those of changed rows in a file that holds numbers."""
    if SEQUENCE_FIELD.name not in (file.write_cols or ()):
        if file.first_row_id is not None and (file.min_sequence_number or file.max_sequence_number):
            return file
        return replace(file, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id)
    low = file.min_sequence_number or snapshot_id
    return replace(file, min_sequence_number=low, max_sequence_number=file.max_sequence_number or snapshot_id)
