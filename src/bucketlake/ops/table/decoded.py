"""Manifests and their like as they were decoded and checked, kept for as long as this process asks for them.

Their names hold a uuid: such a file never changes. Snapshots and tags are kept while their file's size and time stay.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Literal, TypeVar, cast

from bucketlake.env.storage import FileInfo, Storage
from bucketlake.errors import CorruptError, NotFoundError
from bucketlake.file_names import check_names, fault_of_path
from bucketlake.format.guard import check_size, decoding
from bucketlake.format.index.index_manifest import IndexEntry, decode_index_manifest
from bucketlake.format.metadata.manifest import (
    DataFile,
    FileKind,
    FileRef,
    ManifestEntry,
    ManifestFile,
    decode_manifest,
    decode_manifest_list,
)
from bucketlake.format.metadata.manifest_columns import decode_columns, decode_refs
from bucketlake.format.row.binary_rows import check_rows
from bucketlake.ops.table.cache import Cache
from bucketlake.schema.schema import TableSchema

T = TypeVar("T")
SchemaOf = Callable[[int], TableSchema]
Decoded = Literal["manifest list", "entries", "references", "index"]

MANIFEST_ENTRIES = 400_000  # about 1 KB each
MANIFEST_CALLS = 20_000  # five plans of a table with as many manifests as fit; about 100 small commits
_ENTRY_BYTES = 1 << 10
_BYTES = "bytes"  # in keys of what is not decoded yet
CACHE = Cache(MANIFEST_ENTRIES, MANIFEST_CALLS)


def identity(storage: object) -> Hashable:
    """What tells one storage from another in a key."""
    try:
        hash(storage)
    except TypeError:
        return type(storage).__qualname__, repr(storage)
    return storage


# ---------------------------------------------------------------------------------------------- kept


def kept(
    storage: Storage,
    path: str,
    kind: Decoded,
    decode: Callable[[bytes, str], tuple[T, ...]],
    size: int | None = None,
    share: int | None = 1,
) -> tuple[T, ...]:
    """A decoded file, as what it was asked for: another list may name it for something else, which `decode` refuses.
    `size`: the bytes that it must have; None, 0 and -1 say that they are not known. `share`: how many of its items
    weigh as much as an entry of a manifest; None: it is not kept."""
    key = (identity(storage), path, kind)
    found = CACHE.get(key)
    if found is None:
        data = cast("bytes | None", CACHE.take((*key[:2], _BYTES))) or storage.read(path)
        check_size(path, len(data), size)
        found = len(data), decode(data, path)
        if share is not None:
            CACHE.put(key, len(found[1]) // share + 1, found)
    check_size(path, found[0], size)
    return cast("tuple[T, ...]", found[1])


def remember(storage: Storage, path: str, data: bytes) -> None:
    """Keep what this process has just written until it is asked for: the steps after a commit do, and a store would be
    asked."""
    CACHE.put((identity(storage), path, _BYTES), len(data) // _ENTRY_BYTES + 1, data)


def is_kept(storage: Storage, path: str, kind: Decoded) -> bool:
    """Whether a file need not be read again."""
    return (identity(storage), path, kind) in CACHE


def while_unchanged(storage: Storage, info: FileInfo, read: Callable[[], T | None]) -> T | None:
    """What `read` makes of a file, once a process as long as the file's size and time stay."""
    key = (identity(storage), info.path, info.size, info.modified_millis)
    found = cast("T | None", CACHE.get(key) if info.modified_millis else None)
    if found is None and (found := read()) is not None:
        CACHE.put(key, 1, found)
    return found


# ---------------------------------------------------------------------------------------------- decoded and checked


def manifest_files(data: bytes, path: str) -> tuple[ManifestFile, ...]:
    """The manifests that a manifest list names."""
    files = tuple(decode_manifest_list(data, path))
    check_names([file.file_name for file in files], path)
    return files


def manifest_entries(data: bytes, path: str, schema: TableSchema, schema_of: SchemaOf) -> tuple[ManifestEntry, ...]:
    """The entries of a manifest of a table with this schema."""
    fast = decode_columns(data, path)
    entries = tuple(decode_manifest(data, path) if fast is None else fast)
    with decoding("not a manifest", path):
        check_rows(list({e.partition for e in entries}), [item.type for item in schema.partition_fields])
        if schema.primary_keys:
            _check_keys(entries, schema, schema_of)
    _check_files([entry.file for entry in entries], path)
    return entries


def manifest_refs(data: bytes, path: str, schema: TableSchema, schema_of: SchemaOf) -> tuple[FileRef, ...]:
    """Of the entries of a manifest only what finds the files."""
    fast = decode_refs(data, path)
    if fast is None:
        return tuple(map(FileRef.of, manifest_entries(data, path, schema, schema_of)))
    with decoding("not a manifest", path):
        check_rows(list({ref.partition for ref in fast}), [item.type for item in schema.partition_fields])
    _check_files(fast, path)
    return tuple(fast)


def index_entries(data: bytes, path: str, schema: TableSchema) -> tuple[IndexEntry, ...]:
    """The entries of an index manifest of a table with this schema."""
    entries = tuple(decode_index_manifest(data, path))
    with decoding("not an index manifest", path):
        check_rows(list({e.partition for e in entries}), [item.type for item in schema.partition_fields])
    check_names([entry.file.file_name for entry in entries], path)
    _check_external([entry.file.external_path for entry in entries if entry.file.external_path is not None], path)
    return entries


def check_counts(file: ManifestFile, kinds: Sequence[FileKind], path: str) -> None:
    """CorruptError unless a manifest has as many entries of each kind as its list says."""
    added = sum(kind == FileKind.ADD for kind in kinds)
    if (added, len(kinds) - added) != (file.num_added_files, file.num_deleted_files):
        raise CorruptError(
            "a manifest has other entries than its manifest list says",
            path=path,
            added=added,
            deleted=len(kinds) - added,
            expected=f"{file.num_added_files} and {file.num_deleted_files}",
        )


def _check_keys(entries: Sequence[ManifestEntry], schema: TableSchema, schema_of: SchemaOf) -> None:
    """Keys are those of this schema, or of a table that was replaced: of the schema a file was written with."""
    try:
        _check_keys_of(entries, schema)
    except CorruptError:
        by_schema: dict[int, list[ManifestEntry]] = {}
        for entry in entries:
            by_schema.setdefault(entry.file.schema_id, []).append(entry)
        if set(by_schema) == {schema.id}:
            raise
        for schema_id, own in by_schema.items():
            try:
                written = schema_of(schema_id)
            except NotFoundError:
                written = schema
            if written.primary_keys:
                _check_keys_of(own, written)


def _check_keys_of(entries: Sequence[ManifestEntry], schema: TableSchema) -> None:
    levels = {entry.file.level > 0 for entry in entries} if schema.clustered else {False}
    for above in levels:
        own = [entry.file for entry in entries if not schema.clustered or (entry.file.level > 0) is above]
        keys = [key for file in own for key in (file.min_key, file.max_key)]
        check_rows(keys, [item.type for item in schema.bound_fields(int(above))])


def _check_files(files: Sequence[DataFile] | Sequence[FileRef], path: str) -> None:
    check_names([file.file_name for file in files], path)
    check_names([name for file in files for name in file.extra_files or ()], path)
    _check_external([file.external_path for file in files if file.external_path is not None], path)


def _check_external(paths: Sequence[str], source: str) -> None:
    """Which folders a table's files may lie in `TablePaths` says; that a path leads where it says, is said here."""
    for path in paths:
        fault = fault_of_path(path)
        if fault is not None:
            raise CorruptError("a file names what is no path", path=source, name=repr(path), reason=fault)
