"""The files of one split as batches: the rows of a file less those that are deleted, as the table's schema has them.

    SplitFiles(store, split, fields, only, encoded)

Spec: docs/spec/reading.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Protocol

import numpy as np
import pyarrow as pa

from bucketlake.format.metadata.manifest import DataFile
from bucketlake.ops.rows.blob_columns import filled
from bucketlake.ops.rows.deletions import Mask, deleted_mask, load_deletions, without_deleted
from bucketlake.ops.rows.described import Sources, followed, named
from bucketlake.ops.rows.one_file import FileLayout, file_layout, read_file, read_numbered_file
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.partitions import partition_columns
from bucketlake.ops.table.store import Store
from bucketlake.predicate.evaluate import mask
from bucketlake.predicate.tree import Predicate, rename, restrict
from bucketlake.schema.schema import KIND_FIELD, SEQUENCE_FIELD
from bucketlake.types.encoded import fitting
from bucketlake.types.model import DataField, arrow_schema


class KeyFilter(Protocol):
    """Gives of each file of a split only the rows of some keys."""

    def rows(
        self, split: Split, file: DataFile, fields: Sequence[DataField], gone: Mask | None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a file that have one of the keys, as these columns, in their order; `gone`: rows that are
        deleted."""


class SplitFiles:
    """The files of one split as the columns `fields` of the table's schema; `only`: what of each file; `encoded`:
    columns that may be given encoded."""

    def __init__(
        self,
        store: Store,
        split: Split,
        fields: Sequence[DataField],
        only: KeyFilter | None = None,
        encoded: Set[str] = frozenset(),
    ) -> None:
        self.store, self.split, self.fields, self._only = store, split, tuple(fields), only
        self._encoded = encoded
        self._target = arrow_schema(fields)
        self.described = followed(store, [item.name for item in fields])
        values = partition_columns(store, [split.partition]) if store.schema.partition_keys else ()
        self._partition = {name: one[0] for name, one in zip(store.schema.partition_keys, values, strict=True)}
        self.values = [item for item in fields if item.name not in self._partition]  # that files have
        self.vectors = load_deletions(store, split.deletions) if split.deletions else {}

    def of_part(self, part: Split) -> SplitFiles:
        """The same columns of the files of another split, read by the store of its branch if it has one."""
        store = part.store or self.store
        known = {item.name: item for item in (KIND_FIELD, SEQUENCE_FIELD)}
        fields = [known.get(item.name) or store.schema.field(item.name) for item in self.fields]
        return SplitFiles(store, part, fields, self._only)

    def file(
        self, file: DataFile, fields: Sequence[DataField], predicate: Predicate | None
    ) -> Iterator[pa.RecordBatch]:
        """One file's rows as `fields`: value columns, or key, sequence and kind columns of the file; deleted rows are
        left out."""
        vector = self.vectors.get(file.file_name)
        if self._only is not None:
            gone = None if vector is None else deleted_mask(vector, file, self.split.deletions[file.file_name].path)
            yield from self._only.rows(self.split, file, fields, gone)
            return
        layout, path, condition = self.plan(file, fields, predicate)
        if vector is None:
            yield from (layout.rows(batch) for batch in read_file(self.store, path, layout, condition))
            return
        deleted: Mask | None = None
        for first, batch in read_numbered_file(self.store, path, layout, condition):
            if deleted is None:  # now the file is known to have the rows that its manifest speaks of
                deleted = deleted_mask(vector, file, self.split.deletions[file.file_name].path)
            yield layout.rows(without_deleted(batch, first, deleted))

    def columns(self, file: DataFile, fields: Sequence[DataField]) -> Iterator[pa.RecordBatch]:
        """All rows of a file, deleted ones too."""
        layout, path, _ = self.plan(file, fields, None)
        return (layout.rows(batch) for _, batch in read_numbered_file(self.store, path, layout, None))

    def plan(
        self, file: DataFile, fields: Sequence[DataField], predicate: Predicate | None
    ) -> tuple[FileLayout, str, Predicate | None]:
        """What to read of a file, where it lies, and the condition that its row groups can be tested with."""
        layout = file_layout(self.store, file, fields).encoding(self._encoded)
        own = [name for name in layout.renamed if name not in self.described]
        pushed = None if predicate is None else restrict(predicate, own)
        condition = None if pushed is None else rename(pushed, layout.renamed)
        return layout, self.store.paths.file_path(self.split.bucket_path, file), condition

    def rows(self, batch: pa.RecordBatch, names: Sequence[str] | None = None) -> pa.RecordBatch:
        """The columns wanted (of them those named): from the file, from its key columns, or the partition's
        constants."""
        chosen = [
            (item, target)
            for item, target in zip(self.fields, self._target, strict=True)
            if names is None or item.name in names
        ]
        if not chosen:
            return batch.select([])
        arrays = []
        places = {name: place for place, name in enumerate(batch.schema.names)}
        for item, target in chosen:
            if item.name in self._partition:
                arrays.append(pa.repeat(self._partition[item.name].cast(target.type), batch.num_rows))
            else:
                place = places.get(item.name)
                arrays.append(batch.column(places[f"_KEY_{item.name}"] if place is None else place))
        schema = pa.schema([target for _, target in chosen])
        return pa.RecordBatch.from_arrays(arrays, schema=fitting(schema, arrays) if self._encoded else schema)

    def followed(self, rows: pa.RecordBatch, predicate: Predicate | None) -> Iterator[pa.RecordBatch]:
        """Rows with what the columns of descriptors name, in parts that go into memory; only those for which the
        predicate is true as far as it looks at the other columns."""
        if not self.described or not rows.num_rows:
            yield rows
            return
        known = [item.name for item in self.fields if item.name not in self.described]
        below = None if predicate is None else restrict(predicate, known)
        if below is not None:
            rows = rows.filter(mask(below, rows))
        places = {name: rows.schema.get_field_index(name) for name in self.described}
        found = {p: named(Sources(self.store, name, True), rows.column(p)) for name, p in places.items()}
        sizes = sum((one.sizes for one in found.values()), np.zeros(rows.num_rows, np.int64))
        start = 0
        for part in filled(np.arange(rows.num_rows), sizes):
            piece = rows.slice(start, len(part))
            for place, one in found.items():
                piece = piece.set_column(place, rows.schema.field(place), one.take(start, start + len(part)))
            start += len(part)
            yield piece
