"""Deletion vectors of a table's buckets: load them, write them, and put them to rows while these are read.

    load_vectors(store, index entries) -> {data file name: vector}         all vectors of these index files
    load_deletions(store, split.deletions) -> {data file name: vector}     those of a split
    write_vectors(store, partition, bucket, vectors) -> [IndexFile]        none for no vectors
    dead_words(vector, file, index) -> uint64 words                        bit i & 63 of word i >> 6: row i is deleted

Spec: docs/spec/deletion_vector.md
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.errors import CorruptError
from bucketlake.format.index.deletion_vector import (
    VERSION,
    Vector,
    decode_vector,
    encode_vectors,
    positions_of,
    stored_range,
    vector_of,
)
from bucketlake.format.index.index_manifest import DELETION_VECTORS, DeletionVectorRange, IndexEntry, IndexFile
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.ops.table.messages import DeletionFile
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import BucketMode

__all__ = [
    "Mask",
    "Words",
    "dead_words",
    "deleted_mask",
    "load_all_deletions",
    "load_deletions",
    "load_vectors",
    "new_vector",
    "packed",
    "vector_entries",
    "without_deleted",
    "write_vectors",
]

WINDOW = 1 << 24  # positions that are spread out at once
MOST_BYTES = 1 << 33  # of an index file
MOST_ROWS = 1 << 32  # of a data file with deleted rows

Mask = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]


def vector_entries(entries: Iterable[IndexEntry], partition: bytes, bucket: int) -> list[IndexEntry]:
    """Those of a snapshot's index files that hold deletion vectors of this bucket (bucket 0 of unaware tables)."""
    return [
        entry
        for entry in entries
        if entry.file.index_type == DELETION_VECTORS and (entry.partition, entry.bucket) == (partition, bucket)
    ]


def load_vectors(store: Store, entries: Sequence[IndexEntry]) -> dict[str, Vector]:
    """All vectors of these index files, by data file name.

    Raises NotFoundError for an index file that is gone, CorruptError naming it and the data file for a damaged one.
    """
    found: dict[str, DeletionFile] = {}
    for entry in entries:
        if entry.file.index_type == DELETION_VECTORS:
            path = store.paths.index_path(entry.partition, entry.bucket, entry.file)
            found.update({part.data_file_name: DeletionFile(path, part) for part in entry.file.dv_ranges or ()})
    return load_deletions(store, found)


def load_deletions(store: Store, deletions: Mapping[str, DeletionFile]) -> dict[str, Vector]:
    """Vectors by data file name, given where they lie; every index file is read once. Errors as `load_vectors`."""
    return load_all_deletions(store, [deletions])[0]


def load_all_deletions(store: Store, buckets: Sequence[Mapping[str, DeletionFile]]) -> list[dict[str, Vector]]:
    """As `load_deletions` for several splits: a name tells a file within its bucket only."""
    by_path: dict[str, list[DeletionVectorRange]] = {}
    for deletion in chain.from_iterable(deletions.values() for deletions in buckets):
        by_path.setdefault(deletion.path, []).append(deletion.range)
    loaded = dict(zip(by_path, parallel(lambda item: _load(store, *item), list(by_path.items())), strict=True))
    return [
        {name: loaded[found.path][found.range.data_file_name] for name, found in deletions.items()}
        for deletions in buckets
    ]


def _load(store: Store, path: str, ranges: list[DeletionVectorRange]) -> dict[str, Vector]:
    end = max(stored_range(part)[1] for part in ranges)
    data = store.env.storage.read(path, 0, min(end, MOST_BYTES))
    if data[:1] != bytes([VERSION]):
        raise CorruptError(
            "not an index file of deletion vectors: unknown version",
            path=path,
            version=data[:1].hex() or "none",
            data_file=ranges[0].data_file_name,
            remedy="restore the index file; its deleted rows are not known otherwise",
        )
    return {part.data_file_name: decode_vector(data, part, path) for part in ranges}


def new_vector(store: Store, positions: npt.NDArray[np.integer], old: Vector | None = None) -> Vector:
    """The vector of these positions and of those in `old`, in the layout of `deletion-vectors.bitmap64`."""
    if old is not None:
        positions = np.concatenate([positions_of(old), positions.astype(np.int64)])
    return vector_of(positions, bits64=bool(store.options.get("deletion-vectors.bitmap64")))


def write_vectors(store: Store, partition: bytes, bucket: int, vectors: Mapping[str, Vector]) -> list[IndexFile]:
    """Index files with these vectors, none for none: one file in bucketed tables whatever its size, in unaware tables
    as many as `deletion-vector.index-file.target-size` asks for. Vectors are written in the table's layout.

    Nothing is visible before a commit; on an error what was written is removed.
    Spec: docs/spec/deletion_vector.md#index-files
    """
    bits64 = bool(store.options.get("deletion-vectors.bitmap64"))
    pending = {name: _in_layout(vector, bits64) for name, vector in vectors.items() if len(vector)}
    if not pending:
        return []
    if store.schema.bucket_mode is not BucketMode.UNAWARE:
        return [_write(store, partition, bucket, pending)]
    target = store.options.get("deletion-vector.index-file.target-size")
    files: list[IndexFile] = []
    try:
        for group in _rolled(pending, target):
            files.append(_write(store, partition, bucket, group))
    except BaseException:
        store.env.storage.delete_all([store.paths.index_path(partition, bucket, file) for file in files])
        raise
    return files


def _in_layout(vector: Vector, bits64: bool) -> Vector:
    return vector_of(positions_of(vector), bits64=bits64)


def _rolled(vectors: Mapping[str, Vector], target: int) -> list[dict[str, Vector]]:
    """Consecutive vectors together until they pass the target size."""
    groups: list[dict[str, Vector]] = []
    filled = target + 1
    for name, vector in vectors.items():
        if filled > target:
            groups.append({})
            filled = 1
        groups[-1][name] = vector
        start, end = stored_range(encode_vectors({name: vector})[1][0])
        filled += end - start
    return groups


def _write(store: Store, partition: bytes, bucket: int, vectors: Mapping[str, Vector]) -> IndexFile:
    data, ranges = encode_vectors(vectors)
    name = store.paths.new_index(store.env)
    file = IndexFile(DELETION_VECTORS, name, len(data), len(ranges), ranges)
    store.env.storage.write(store.paths.index_path(partition, bucket, file), data)
    return file


# ---- while reading


def deleted_mask(vector: Vector, file: DataFile, index: str) -> Mask:
    """One boolean a row of the file: whether it is deleted. `index`: path of the vector's index file.

    Raises CorruptError naming both files for a vector that speaks of rows which the file does not have.
    """
    rows = int(vector.max()) + 1 if len(vector) else 0
    if rows > file.row_count or file.row_count > MOST_ROWS:
        raise CorruptError(
            "the deletion vector speaks of rows that the data file does not have",
            path=index,
            data_file=file.file_name,
            row=rows - 1,
            rows=file.row_count,
        )
    mask = np.zeros(file.row_count, np.bool_)
    if len(vector) <= WINDOW:
        mask[positions_of(vector)] = True
        return mask
    for start in range(0, rows, WINDOW):
        part: Any = vector
        mask[positions_of(part & type(vector)(range(start, start + WINDOW)))] = True
    return mask


def dead_words(vector: Vector, file: DataFile, index: str) -> Words:
    """The deleted rows as words: bit `i & 63` of word `i >> 6` is set if row i is; words without a bit at the end are
    left out. Errors as `deleted_mask`."""
    return packed(deleted_mask(vector, file, index))


def packed(mask: Mask) -> Words:
    """Booleans as words, as `dead_words` says."""
    octets = np.packbits(mask, bitorder="little")
    padded = np.zeros(-(-len(octets) // 8) * 8, np.uint8)
    padded[: len(octets)] = octets
    return np.trim_zeros(padded.view(np.uint64), "b")


def without_deleted(batch: pa.RecordBatch, first: int, deleted: Mask) -> pa.RecordBatch:
    """The rows of a batch that starts at row `first` of its file, less those deleted."""
    mask = deleted[first : first + batch.num_rows]
    return batch.filter(pa.array(~mask)) if mask.any() else batch
