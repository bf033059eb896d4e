"""Indexes of a keyed bucket's files: which of them speak of the files that there are, and which files they leave out.

    sources_of(files)                         by level: the files that an index of the level names, in its order
    is_current(file, index, sources)          whether an index file is of exactly these
    left_by_index(store, snapshot, where, …)  the files in which a row may match

Spec: docs/spec/keyed_index.md
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from bucketlake.errors import CorruptError, NotFoundError
from bucketlake.format.index.index_manifest import IndexEntry, IndexFile
from bucketlake.format.index.sources import Sources
from bucketlake.format.metadata.manifest import DataFile, FileSource, ManifestEntry
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.rows.global_index import KINDS, Search, range_of
from bucketlake.ops.table.entries import BucketKey, bucket_key
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.store import Store
from bucketlake.predicate.tree import Predicate
from bucketlake.schema.keyed_indexes import KeyedIndex, keyed_indexes
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


def sources_of(files: Iterable[DataFile]) -> dict[int, tuple[Sources, list[DataFile]]]:
    """By level, the files that compaction wrote, by name: such as only moved up from level 0 are in no index."""
    levels: dict[int, list[DataFile]] = {}
    for file in files:
        if file.level > 0 and file.file_source is FileSource.COMPACT:
            levels.setdefault(file.level, []).append(file)
    found = {}
    for level, own in sorted(levels.items()):
        own.sort(key=lambda file: file.file_name)
        named = tuple((file.file_name, file.row_count) for file in own)
        if sum(rows for _, rows in named):
            found[level] = Sources(level, named), own
    return found


def is_keyed(file: IndexFile) -> bool:
    """Whether an index file is one of a keyed bucket, of a type that is kept here."""
    return file.index_type in KINDS and (file.global_index or {}).get("_SOURCE_META") is not None


def is_current(file: IndexFile, index: KeyedIndex, sources: Sources) -> bool:
    """Whether an index file is one of this index, and of exactly these files."""
    known = file.global_index or {}
    if file.index_type != index.kind or known.get("_INDEX_FIELD_ID") != index.field.id or not is_keyed(file):
        return False
    try:
        return Sources.of(known["_SOURCE_META"], file.file_name) == sources
    except CorruptError:
        return False  # as Paimon has it: the files are read without


@dataclass(frozen=True, slots=True)
class _FileSpans:
    """Files by the ids of their rows in an index."""

    starts: Ints
    ends: Ints
    sizes: Ints

    def covered(self, entries: Sequence[IndexEntry], field: DataField) -> Mask:
        """All: files never change, and an index names them."""
        return np.ones(len(self.starts), np.bool_)


def left_by_index(store: Store, snapshot: Snapshot, where: Predicate | None, entries: Sequence[ManifestEntry]) -> Mask:
    """Per file of a table with a primary key, whether the indexes of a snapshot leave room for a row for which the
    predicate is true; true for files that no index names. An index that cannot be read says nothing, with a warning.

    Requires: no row of a file is superseded by one of another, but for what deletion vectors say.
    """
    left = np.ones(len(entries), np.bool_)
    if where is None or not keyed_indexes(store.schema) or not store.options.get("global-index.enabled"):
        return left
    known: dict[tuple[BucketKey, bytes], list[IndexEntry]] = {}
    for index in store.index_manifest(snapshot):
        if is_keyed(index.file):
            meta = (index.file.global_index or {})["_SOURCE_META"]
            known.setdefault(((index.partition, index.bucket), bytes(meta)), []).append(index)
    places: dict[BucketKey, dict[str, int]] = {}
    for place, entry in enumerate(entries):
        if entry.file.level > 0:
            places.setdefault(bucket_key(entry), {})[entry.file.file_name] = place
    fields = {item.name: item for item in store.schema.fields}

    def ask(item: tuple[tuple[BucketKey, bytes], list[IndexEntry]]) -> tuple[Ints, Mask] | None:
        (bucket, meta), indexes = item
        own = places.get(bucket)
        if own is None:
            return None
        try:
            sources = Sources.of(meta, indexes[0].file.file_name)
            for index in indexes:
                if range_of(index.file) != (0, sources.rows):
                    raise CorruptError("an index has other ids than its files rows", index=index.file.file_name)
            chosen, spans = _spans(sources, entries, own)
            search = Search(store, indexes, spans, fields)
            return (chosen, search.left(where, np.ones(len(chosen), np.bool_))) if len(chosen) else None
        except (CorruptError, NotFoundError) as error:
            warnings.warn(f"an index is passed over: {error}", stacklevel=2)
            return None

    for found in parallel(ask, list(known.items())):
        if found is not None:
            left[found[0]] &= found[1]
    return left


def _spans(sources: Sources, entries: Sequence[ManifestEntry], own: dict[str, int]) -> tuple[Ints, _FileSpans]:
    """Those of a bucket's files that an index names, as places among the entries, and the ids of their rows."""
    chosen, starts, first = [], [], 0
    for name, rows in sources.files:
        place = own.get(name)
        if place is not None and entries[place].file.row_count == rows and rows:
            chosen.append(place)
            starts.append(first)
        first += rows
    sizes = np.array([entries[place].file.file_size for place in chosen], np.int64)
    begin = np.array(starts, np.int64)
    ends = begin + np.array([entries[place].file.row_count for place in chosen], np.int64)
    return np.array(chosen, np.int64), _FileSpans(begin, ends, sizes)
