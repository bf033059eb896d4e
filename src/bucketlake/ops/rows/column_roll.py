"""Files that hold some columns of rows that are there: one for a range of row ids, however large.

    ColumnRoller(store, place, columns)     rows in the order of their ids; `close` gives the one file
    BlobPatches(store, place, columns, …)   new values of BLOB columns, by row id; `close` gives their files
    groups_of(splits)                       splits of one group of files each
    newest_schema_of(store, files)          the table under the newest schema of these files

Spec: docs/spec/row_tracking.md#writing-columns
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from bucketlake.errors import CorruptError
from bucketlake.file_names import own_uuid
from bucketlake.format.data.datafile import WrittenFile
from bucketlake.format.metadata.manifest import DataFile, FileSource
from bucketlake.format.metadata.stats import ColumnStats
from bucketlake.ops.rows.blob_files import BlobFiles
from bucketlake.ops.rows.column_files import anchor_of, row_groups
from bucketlake.ops.rows.places import Place, Places
from bucketlake.ops.rows.roll import Roller, Rolling, described
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.store import Store
from bucketlake.options.options import TableOptions
from bucketlake.schema.column_options import under_options
from bucketlake.schema.schema import ROW_ID_FIELD
from bucketlake.types.model import canonical_batch

UNLIMITED = {"target-file-size": f"{(1 << 62) - 1} b", "target-file-row-num": str((1 << 62) - 1)}
INDEXES = "file-index."


def newest_schema_of(store: Store, files: Iterable[DataFile]) -> Store:
    """The table under the newest schema that one of these files was written with, if that is newer: what is written in
    their place must not lack a column of theirs."""
    newest = max((file.schema_id for file in files), default=store.schema.id)
    if newest <= store.schema.id:
        return store
    return store.with_schema(under_options(store.schema_of(newest), store.schema))


def groups_of(splits: Iterable[Split]) -> list[Split]:
    """Splits of one group of files each, as `row_groups` orders them, with the group's deletion vector."""
    found = []
    for split in splits:
        for group in row_groups(split.files):
            anchor = anchor_of(group).file_name
            deletions = {anchor: split.deletions[anchor]} if anchor in split.deletions else {}
            found.append(replace(split, files=tuple(group), raw=False, deletions=deletions))
    return found


def first_id(group: Split) -> int:
    """The id of a group's first row."""
    first = group.files[0].first_row_id
    assert first is not None  # groups are made by it
    return first


class ColumnRoller:
    """Writes the rows of a range of ids as one file. `names`: the columns that it holds, None for all of the table's
    but those in blob files (`_WRITE_COLS` is null where there are none). A failed write must be followed by `abort`."""

    def __init__(
        self, store: Store, partition: bytes, names: Sequence[str] | None, source: FileSource = FileSource.APPEND
    ) -> None:
        schema, wanted = store.schema.without_blobs, frozenset(names or ())
        options = {**schema.options, **UNLIMITED}
        self._names = None if names is None else tuple(name for name in schema.field_names if name in wanted)
        self._listed = schema.field_names if names is None and store.schema.blob_fields else self._names
        if self._names is not None:
            options = {key: value for key, value in options.items() if not key.startswith(INDEXES)}
            fields = tuple(item for item in schema.fields if item.name in wanted)
            schema = replace(schema, fields=fields, partition_keys=(), options=options)
        narrow = replace(store, schema=replace(schema, options=options), options=TableOptions(options))
        self._fields, self._rows = schema.fields, 0
        self._roller = Roller(narrow, partition, 0, Rolling(source=source))

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; columns that are null where they must not be are an InvalidError."""
        self._rows += batch.num_rows
        self._roller.write(canonical_batch(batch, self._fields))

    def abort(self) -> None:
        """Remove the file."""
        self._roller.abort()

    def close(self, first: int, numbers: tuple[int, int] = (0, 0)) -> DataFile:
        """The file of the rows from the id `first` on. `numbers`: the least and greatest sequence number, 0 for the
        number of the commit."""
        files = self._roller.close()
        if len(files) != 1:
            self._roller.abort()
            raise CorruptError("rows of one range became several files", files=len(files), rows=self._rows)
        low, high = numbers
        return replace(
            files[0],
            first_row_id=first,
            write_cols=self._listed,
            min_sequence_number=low,
            max_sequence_number=high,
        )


class BlobPatches:
    """Writes BLOB columns of the rows with ids from `first` to `end` - 1, of which some change; the others keep their
    values, which older files have. A failed write must be followed by `abort`."""

    def __init__(self, store: Store, partition: bytes, names: Sequence[str], first: int, end: int) -> None:
        wanted = frozenset(names)
        self._fields = tuple(item for item in store.schema.blob_fields if item.name in wanted)
        narrow = store.with_schema(replace(store.schema, fields=self._fields, partition_keys=()))
        self._store, self._places = store, Places(store, partition, 0)
        self._unique, self._count = own_uuid(store.env.clock.new_uuid()), 0
        self._blobs = BlobFiles(narrow, self._place, self._described)
        self._first, self._next, self._end = first, first, end

    def write(self, patch: pa.RecordBatch) -> None:
        """New values, by ascending `_ROW_ID`; nulls where none may be are an InvalidError."""
        ids = patch.column(ROW_ID_FIELD.name).to_numpy()
        rows = canonical_batch(patch.select([item.name for item in self._fields]), self._fields)
        self._blobs.write(rows, np.diff(ids, prepend=self._next - 1) - 1)
        self._next = int(ids[-1]) + 1

    def close(self, numbers: tuple[int, int] = (0, 0)) -> list[DataFile]:
        """The files, column by column. `numbers`: as `ColumnRoller.close`."""
        self._blobs.skip(self._end - self._next)
        free: dict[tuple[str, ...] | None, int] = {}
        found = []
        for file in self._blobs.taken():
            first = free.get(file.write_cols, self._first)
            free[file.write_cols] = first + file.row_count
            low, high = numbers
            found.append(replace(file, first_row_id=first, min_sequence_number=low, max_sequence_number=high))
        return found

    def abort(self) -> None:
        """Remove the files."""
        self._blobs.abort()

    def _place(self, form: str) -> Place:
        name = self._store.paths.data_file_name(self._unique, self._count, form, "none")
        self._count += 1
        return self._places.next(name)

    def _described(self, store: Store, name: str, size: int, rows: int) -> DataFile:
        return described(store, name, WrittenFile(name, size, rows, (ColumnStats(),)))
