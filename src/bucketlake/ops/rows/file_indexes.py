"""File indexes of data files: which of a plan's files they leave out, and which indexes a table's writers build.

An index lies in the manifest entry, or beside its data file as `<data file>.index`, then listed in `extra_files`.
Those beside are read by ranges, a bounded number in one plan.

Spec: docs/spec/file_index.md#reading
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bucketlake.errors import CorruptError
from bucketlake.format.file_index.container import FileIndex
from bucketlake.format.metadata.manifest import ManifestEntry
from bucketlake.lazy import np, npt
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.store import Store
from bucketlake.paths import FILE_INDEX_SUFFIX
from bucketlake.predicate.tree import Predicate, columns_of, rename, restrict

Mask = npt.NDArray["np.bool_"]
MOST_BESIDE = 1000  # indexes beside data files that one plan reads
FRONT = 8 << 10  # bytes of such an index that are read at once: its head, and small indexes whole


def may_match_by_index(store: Store, predicate: Predicate, entries: Sequence[ManifestEntry]) -> Mask:
    """Per file whether its indexes leave room for a row for which the predicate is true; true without an index.

    Raises: CorruptError naming the index.
    Spec: docs/spec/file_index.md#reading
    """
    result = np.ones(len(entries), np.bool_)
    if not store.options.get("file-index.read.enabled"):
        return result
    conditions: dict[int, Predicate | None] = {}
    beside: list[tuple[int, Predicate]] = []
    for number, entry in enumerate(entries):
        file = entry.file
        if file.embedded_index is None and not file.extra_files:
            continue
        if file.schema_id not in conditions:
            conditions[file.schema_id] = _stored_condition(store, predicate, file.schema_id)
        condition = conditions[file.schema_id]
        if condition is None:
            continue
        if file.embedded_index is not None:
            result[number] = _embedded(store, condition, entry)
        elif any(name.endswith(FILE_INDEX_SUFFIX) for name in file.extra_files):
            beside.append((number, condition))
    asked = beside[:MOST_BESIDE]
    result[[number for number, _ in asked]] = parallel(lambda one: _beside(store, one[1], entries[one[0]]), asked)
    return result


def _stored_condition(store: Store, predicate: Predicate, schema_id: int) -> Predicate | None:
    """The strongest part of the predicate over columns as the files of a schema have them, by their names there.
    Partition columns are not the files' affair."""
    stored = {item.id: item for item in store.schema_of(schema_id).fields}
    names, fixed = {}, store.schema.partition_keys
    for item in store.schema.fields:
        old = stored.get(item.id)
        same = old is not None and old.type.with_nullable(True) == item.type.with_nullable(True)
        if old is not None and same and item.name in columns_of(predicate) and item.name not in fixed:
            names[item.name] = old.name
    part = restrict(predicate, names)
    return None if part is None else rename(part, names)


def _embedded(store: Store, condition: Predicate, entry: ManifestEntry) -> bool:
    data = entry.file.embedded_index or b""
    place = store.paths.file_path(store.paths.bucket_dir(entry.partition, entry.bucket), entry.file)
    name = f"{place} (embedded)"
    return _may_match(store, condition, entry, lambda start, length: data[start : start + length], name)


def _beside(store: Store, condition: Predicate, entry: ManifestEntry) -> bool:
    names = [name for name in entry.file.extra_files if name.endswith(FILE_INDEX_SUFFIX)]
    if len(names) > 1:
        raise CorruptError("a data file has more than one index", file=entry.file.file_name, indexes=names)
    path = store.paths.extra_path(store.paths.bucket_dir(entry.partition, entry.bucket), entry.file, names[0])
    storage = store.env.storage
    front = storage.read(path, 0, FRONT)

    def read(start: int, length: int) -> bytes:
        end = start + length
        return front[start:end] if end <= len(front) else storage.read(path, start, length)

    return _may_match(store, condition, entry, read, path)


def _may_match(
    store: Store, condition: Predicate, entry: ManifestEntry, read: Callable[[int, int], bytes], name: str
) -> bool:
    fields = store.schema_of(entry.file.schema_id).fields
    rows = FileIndex(read, fields, entry.file.row_count, name).matching(condition)
    return rows is None or len(rows) > 0
