"""Blob files of one column that become one: their records are copied as they are, sums and all.

    merge_blobs(store, place, files)     the one file, of the rows of all

Spec: docs/spec/blob.md#compacting-blob-files
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from bucketlake.errors import CorruptError
from bucketlake.file_names import own_uuid
from bucketlake.format.data.blob import BLOB, ending
from bucketlake.format.data.datafile import WrittenFile
from bucketlake.format.metadata.manifest import DataFile, FileSource
from bucketlake.format.metadata.stats import ColumnStats
from bucketlake.lazy import np
from bucketlake.ops.rows.blob_columns import BlobColumn, filled
from bucketlake.ops.rows.column_files import held, row_span
from bucketlake.ops.rows.places import Places
from bucketlake.ops.rows.roll import described
from bucketlake.ops.rows.units import Place
from bucketlake.ops.table.store import Store
from bucketlake.types.model import DataField

STEP = 1 << 18  # rows at once


def merge_blobs(store: Store, place: Place, files: Sequence[DataFile]) -> DataFile:
    """One file with the values of the rows that some blob files of one column hold, without a gap between them: of each
    row the newest; null where none has it. On an error nothing stays."""
    item = _column(store, files)
    spans = [row_span(file) for file in files]
    first, end = min(first for first, _ in spans), max(end for _, end in spans)
    column = BlobColumn(store, item, store.paths.bucket_dir(place.partition, place.bucket), files, first)
    name = store.paths.data_file_name(own_uuid(store.env.clock.new_uuid()), 0, BLOB, "none")
    new = Places(store, place.partition, place.bucket).next(name)
    out = store.env.storage.open_output(new.path)
    try:
        size, lengths = 0, []
        for start in range(0, end - first, STEP):
            positions = np.arange(start, min(start + STEP, end - first))
            for part in filled(positions, column.sizes(positions)):
                own, pieces = column.records(part)
                for piece in pieces:
                    out.write(piece)
                    size += len(piece)
                lengths.append(own)
        index = ending(np.concatenate(lengths))
        out.write(index)
        out.close()
    except BaseException:
        with suppress(Exception):
            out.close()
        store.env.storage.delete_all([new.path])
        raise
    narrow = store.with_schema(replace(store.schema, fields=(item,), partition_keys=()))
    return replace(
        described(narrow, name, WrittenFile(name, size + len(index), end - first, (ColumnStats(),))),
        file_source=FileSource.COMPACT,
        first_row_id=first,
        write_cols=(item.name,),
        external_path=new.external,
        min_sequence_number=min(file.min_sequence_number for file in files),
        max_sequence_number=max(file.max_sequence_number for file in files),
    )


def _column(store: Store, files: Sequence[DataFile]) -> DataField:
    ids = {item.id for file in files for item in held(store.schema_of(file.schema_id), file)}
    found = [item for item in store.schema.blob_fields if item.id in ids]
    if len(ids) != 1 or len(found) != 1:
        raise CorruptError("blob files hold other columns than one", files=[file.file_name for file in files])
    return found[0]
