"""Indexes of a keyed bucket, kept with its files: one a column and level, of all rows of the level's compacted files.

    kept_indexes(store, place, files, known, snapshot_id) -> IndexChange(added, removed)

Spec: docs/spec/keyed_index.md
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa

from bucketlake.errors import BucketlakeError, CorruptError
from bucketlake.format.index.index_manifest import IndexFile
from bucketlake.format.index.sources import Sources
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.ops.rows.keyed_index import is_current, sources_of
from bucketlake.ops.rows.one_file import file_layout, read_numbered_file
from bucketlake.ops.rows.sorted_index import encoded_index, index_blocks
from bucketlake.ops.table.entries import BucketKey
from bucketlake.ops.table.store import Store
from bucketlake.schema.keyed_indexes import KeyedIndex, keyed_indexes
from bucketlake.values import dataclass

MOST_BYTES = 256 << 20  # of a level's values, all of which are in memory while they are sorted


@dataclass(frozen=True, slots=True)
class IndexChange:
    """The index files that a compaction adds to a bucket, and takes out."""

    added: tuple[IndexFile, ...] = ()
    removed: tuple[IndexFile, ...] = ()


def kept_indexes(
    store: Store, place: BucketKey, files: Iterable[DataFile], known: Sequence[IndexFile], snapshot_id: int
) -> IndexChange:
    """What makes the indexes of a bucket those of its files. `files`: all that it has afterwards; `known`: the index
    files that it has. A level whose values do not fit into memory has no index, with a warning. On an error nothing
    stays."""
    levels = sources_of(files)
    current: set[str] = set()
    added: list[IndexFile] = []
    try:
        for index in keyed_indexes(store.schema):
            for sources, own in levels.values():
                found = next((one for one in known if is_current(one, index, sources)), None)
                if found is None:
                    added += _built(store, place, index, sources, own, snapshot_id)
                else:
                    current.add(found.file_name)
    except BaseException:
        remove_indexes(store, place, added)
        raise
    return IndexChange(tuple(added), tuple(file for file in known if file.file_name not in current))


def remove_indexes(store: Store, place: BucketKey, files: Iterable[IndexFile]) -> None:
    """Remove index files that no commit will name, best effort."""
    for file in files:
        with suppress(BucketlakeError):
            store.env.storage.delete(store.paths.index_path(*place, file))


def _built(
    store: Store,
    place: BucketKey,
    index: KeyedIndex,
    sources: Sources,
    files: Sequence[DataFile],
    snapshot_id: int,
) -> list[IndexFile]:
    """The index file of a level, none where its values are too many."""
    batches: list[pa.RecordBatch] = []
    size = first = 0
    for file in files:
        layout = file_layout(store, file, [index.field])
        path = store.paths.file_path(store.paths.bucket_dir(*place), file)
        rows = 0
        for at, batch in read_numbered_file(store, path, layout, None):
            values = layout.rows(batch)
            ids = np.arange(first + at, first + at + values.num_rows, dtype=np.int64)
            batches.append(pa.RecordBatch.from_arrays([values.column(0), pa.array(ids)], names=["value", "id"]))
            size, rows = size + batches[-1].nbytes, rows + values.num_rows
            if size > MOST_BYTES:
                what = f"no {index.kind} index of {index.field.name}: its values are more than {MOST_BYTES >> 20} MiB"
                warnings.warn(f"{what} [bucket={place[1]}, level={sources.level}]: use more buckets", stacklevel=2)
                return []
        if rows != file.row_count:
            raise CorruptError("a data file has another number of rows than recorded", path=path, rows=rows)
        first += rows
    values = pa.concat_batches(batches)
    blocks = index_blocks(index.options, index.kind)
    data, recorded = encoded_index(index.field, index.kind, values, 0, snapshot_id, blocks)
    about = {
        "_ROW_RANGE_START": 0,
        "_ROW_RANGE_END": sources.rows - 1,
        "_INDEX_FIELD_ID": index.field.id,
        "_EXTRA_FIELD_IDS": None,
        "_INDEX_META": recorded,
        "_SOURCE_META": sources.encode(),
    }
    made = IndexFile(index.kind, store.paths.new_index(store.env), len(data), sources.rows, global_index=about)
    store.env.storage.write(store.paths.index_path(*place, made), data)
    return [made]
