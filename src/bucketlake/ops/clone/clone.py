"""A snapshot of a table as another table: the same files, bytes, levels, vectors and indexes.

    protect    a tag at the source holds the snapshot's files while they are copied
    copy       data files, what lies beside them, index files; sizes checked; what an earlier run copied stays
    publish    the schemas, the newest first, where the table is new
    commit     one snapshot: it replaces the partitions that were copied, in a table that is there

A new table is not there before its files are. It has the source's schemas under their numbers, so that the files mean
what they meant. A table that is there takes files whose columns are, by number, those of one of its own schemas; they
get new names there, because its older snapshots may have had files of the old ones.

Spec: docs/spec/clone.md
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import field, replace
from typing import Any

from bucketlake.env.new_file import put_new
from bucketlake.errors import BucketlakeError, ConflictError, InvalidError, UnsupportedError
from bucketlake.format.index.index_manifest import IndexEntry, IndexFile
from bucketlake.format.index.sorted_keys import of_no_snapshot
from bucketlake.format.metadata.manifest import DataFile, ManifestEntry
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.buckets.postpone import in_commit_order
from bucketlake.ops.clean.orphans import Run
from bucketlake.ops.clone.files import CopyFiles, FileCopy, copy_all, copy_here
from bucketlake.ops.commit.commit import Commit, CommitProperties
from bucketlake.ops.refs.tags import create_tag, delete_tag
from bucketlake.ops.rows.global_index import KINDS
from bucketlake.ops.scan.chain import CHAIN_KEYS
from bucketlake.ops.scan.scan import check_vectors, live_entries
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store
from bucketlake.options.map_layout import map_layouts
from bucketlake.paths import EXTERNAL, INDEXES_EXTERNAL, POSTPONE_BUCKET
from bucketlake.schema.schema import TableSchema
from bucketlake.values import dataclass

_KEPT_MILLIS = 7 * 86_400_000  # a protecting tag that a killed run left
_PLACES = ("path", "branch", EXTERNAL, f"{EXTERNAL}.strategy", INDEXES_EXTERNAL, *CHAIN_KEYS)
_UNIQUE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class CloneRequest:
    """What of a table is cloned, and how. `snapshot`: None for the newest; `partitions`: only those that it is true
    for; `options`: of a new table, over the source's; `where`: the partitions' condition as given, to tell runs apart;
    `meta_only`: the schemas alone."""

    snapshot: Snapshot | None = None
    partitions: PartitionFilter | None = None
    where: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    meta_only: bool = False
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class Cloned:
    """What was done. `snapshot`: the clone's, None where there was nothing to copy."""

    files: int
    bytes: int
    snapshot: Snapshot | None


def cloned_schemas(source: Store, options: Mapping[str, str]) -> list[TableSchema]:
    """The schemas of a new clone, oldest first: the source's, without what says where its files lie."""
    found = []
    for info in source.env.storage.list(source.paths.schema_dir):
        number = info.name.removeprefix("schema-")
        if number.isdigit() and number != info.name:
            schema = source.schema_of(int(number))
            own = {key: value for key, value in schema.options.items() if key not in _PLACES}
            found.append(replace(schema, options={**own, **options}))
    return sorted(found, key=lambda schema: schema.id)


def clone_new(
    source: Store, target: Store, schemas: list[TableSchema], request: CloneRequest, run: Run = copy_here
) -> Cloned:
    """Clone into a folder that holds no table yet. `target`: of the newest of `schemas`."""
    done = _Clone(source, target, request, run, {schema.id: schema.id for schema in schemas})

    def publish() -> None:
        storage = target.env.storage
        for schema in reversed(schemas):
            path = target.paths.schema(schema.id)
            if not put_new(storage, path, schema.encode()) and storage.read(path) != schema.encode():
                raise ConflictError("another table was made here meanwhile", path=path)

    return done.run(publish, fresh=True)


def clone_into(source: Store, target: Store, request: CloneRequest, run: Run = copy_here) -> Cloned:
    """Clone over the partitions of a table that is there. InvalidError where its columns or buckets are others."""
    return _Clone(source, target, request, run, _mapped(source, target)).run(lambda: None, fresh=False)


def _mapped(source: Store, target: Store) -> dict[int, int]:
    """By schema of the source: the target's schema with the same columns, which files have in the same way."""
    ours, theirs = source.schema, target.schema
    differ = [
        what
        for what, one, other in (
            ("primary keys", ours.primary_keys, theirs.primary_keys),
            ("partition keys", ours.partition_keys, theirs.partition_keys),
            ("bucket mode", ours.bucket_mode, theirs.bucket_mode),
            ("bucket keys", ours.bucket_keys, theirs.bucket_keys),
            ("thin mode", ours.thin_mode, theirs.thin_mode),
            ("row tracking", ours.tracks_rows, theirs.tracks_rows),
        )
        if one != other
    ]
    if differ:
        raise InvalidError(
            f"the table that is there has other {' and '.join(differ)} than the source",
            table=target.paths.root,
            source=source.paths.root,
            remedy="drop it, or copy the rows: CALL sys.copy",
        )
    known = {_columns(schema): schema.id for schema in cloned_schemas(target, {})}
    return {schema.id: known[_columns(schema)] for schema in cloned_schemas(source, {}) if _columns(schema) in known}


def _columns(schema: TableSchema) -> str:
    shredded = sorted(map_layouts(schema.options))
    return repr([(item.id, item.name, item.type, item.name in shredded) for item in schema.fields])


@dataclass(slots=True)
class _Clone:
    source: Store
    target: Store
    request: CloneRequest
    run_units: Run
    schemas: Mapping[int, int]
    renamed: str = ""  # what new names are made of; "": names are kept

    def run(self, publish: Any, fresh: bool) -> Cloned:
        """Protect, copy, publish, commit."""
        snapshot = self.request.snapshot or self.source.latest_snapshot()
        if snapshot is None or self.request.meta_only:
            publish()
            return Cloned(0, 0, None)
        base = None if fresh else self.target.latest_snapshot()
        user = self._user(snapshot)
        if base is not None and base.commit_user != user and self.target.schema.tracks_rows:
            raise UnsupportedError(
                "rows with ids cannot be cloned over a table that has snapshots: both gave out the same ids",
                table=self.target.paths.root,
                remedy="drop it, or copy the rows: CALL sys.copy",
            )
        if base is not None and base.commit_user == user:
            return Cloned(0, 0, base)  # its answer was lost
        self.renamed = "" if base is None else f"{user}-{base.id}-{base.uuid}"
        tag = f"clone-{user}"
        protected = self._protect(tag, snapshot)
        try:
            copies, messages = self._planned(snapshot)
            action = CopyFiles(
                self.source.env.storage, self.target.env.storage, self.target.env.clock, self.request.threads
            )
            size = copy_all(action, copies, self.run_units)
            publish()
            made = self._committed(snapshot, messages, user)
        finally:
            if protected:
                with suppress(BucketlakeError):  # its time ends by itself
                    delete_tag(self.source, tag)
        return Cloned(len(copies), size, made)

    def _user(self, snapshot: Snapshot) -> str:
        told = "\0".join([self.source.paths.meta_root, self.target.paths.root, str(snapshot.uuid), self.request.where])
        return f"clone-{hashlib.sha256(told.encode()).hexdigest()[:32]}-{snapshot.id}"

    def _protect(self, tag: str, snapshot: Snapshot) -> bool:
        """Whether a tag holds the snapshot; without one, where the source cannot be written, a missing file tells."""
        with suppress(BucketlakeError):
            create_tag(self.source, tag, snapshot.id, _KEPT_MILLIS, if_absent=True)
            return True
        return False

    def _committed(self, snapshot: Snapshot, messages: list[CommitMessage], user: str) -> Snapshot | None:
        taken = snapshot.next_row_id or 0 if self.target.schema.tracks_rows else 0
        notes = CommitProperties(watermark=snapshot.watermark, operation="WRITE", taken_row_ids=taken)
        dynamic = bool(self.target.schema.partition_keys)
        if not messages and (dynamic or not self.renamed):
            return None
        return Commit(self.target, user).overwrite(messages, dynamic=dynamic, notes=notes)

    def _planned(self, snapshot: Snapshot) -> tuple[list[FileCopy], list[CommitMessage]]:
        wanted = self.request.partitions
        entries = [e for e in live_entries(self.source, snapshot) if wanted is None or wanted(e.partition)]
        indexes = [e for e in self.source.index_manifest(snapshot) if wanted is None or wanted(e.partition)]
        self._check(entries)
        check_vectors(self.source, snapshot, entries)
        entries = in_commit_order(self.source, snapshot, entries)
        buckets: dict[tuple[bytes, int], tuple[list[ManifestEntry], list[IndexEntry]]] = {}
        for entry in entries:
            buckets.setdefault((entry.partition, entry.bucket), ([], []))[0].append(entry)
        for index in indexes:
            buckets.setdefault((index.partition, index.bucket), ([], []))[1].append(index)
        copies: list[FileCopy] = []
        messages = []
        for (partition, bucket), (data, beside) in buckets.items():
            names = {entry.file.file_name for entry in data}
            kept = [found for entry in beside if (found := _of_files(entry, names)) is not None]
            total = data[0].total_buckets if data else int(self.target.options.get("bucket"))
            messages.append(
                CommitMessage(
                    partition,
                    bucket,
                    total,
                    new_files=tuple(self._data(entry, copies) for entry in data),
                    new_index_files=tuple(self._index(entry, copies) for entry in kept),
                )
            )
        return copies, messages

    def _check(self, entries: Iterable[ManifestEntry]) -> None:
        for entry in entries:
            if entry.file.schema_id not in self.schemas:
                raise InvalidError(
                    "the table that is there never had the columns of a file",
                    table=self.target.paths.root,
                    file=entry.file.file_name,
                    remedy="drop it, or copy the rows: CALL sys.copy",
                )
            if entry.bucket == POSTPONE_BUCKET and self.renamed:
                raise UnsupportedError(
                    "pending rows cannot be cloned into a table that has snapshots",
                    table=self.target.paths.root,
                    remedy="CALL sys.compact on the source first, or clone to a new table",
                )

    def _data(self, entry: ManifestEntry, copies: list[FileCopy]) -> DataFile:
        file, source, target = entry.file, self.source.paths, self.target.paths
        folder = source.bucket_dir(entry.partition, entry.bucket)
        name = self._named(file.file_name)
        extra = tuple(
            name + one.removeprefix(file.file_name) if one.startswith(file.file_name) else self._named(one)
            for one in file.extra_files
        )
        made = replace(
            file, file_name=name, extra_files=extra, external_path=None, schema_id=self.schemas[file.schema_id]
        )
        place = target.bucket_dir(entry.partition, entry.bucket)
        copies.append(FileCopy(source.file_path(folder, file), target.file_path(place, made), file.file_size))
        for old, new in zip(file.extra_files, extra, strict=True):
            copies.append(FileCopy(source.extra_path(folder, file, old), target.extra_path(place, made, new), None))
        return made

    def _index(self, entry: IndexEntry, copies: list[FileCopy]) -> IndexFile:
        file = entry.file
        ranges = file.dv_ranges
        if ranges is not None:
            ranges = tuple(replace(one, data_file_name=self._named(one.data_file_name)) for one in ranges)
        known = file.global_index
        if known is not None and file.index_type in KINDS:
            known = {**known, "_INDEX_META": of_no_snapshot(known.get("_INDEX_META") or b"")}
        made = replace(
            file, file_name=self._named(file.file_name), dv_ranges=ranges, external_path=None, global_index=known
        )
        source = self.source.paths.index_path(entry.partition, entry.bucket, file)
        target = self.target.paths.index_path(entry.partition, entry.bucket, made)
        copies.append(FileCopy(source, target, file.file_size))
        return made

    def _named(self, name: str) -> str:
        """The name in the clone: another identifier in place of the writer's, the same for the same run."""
        if not self.renamed:
            return name
        digest = hashlib.sha256(f"{self.renamed}\0{name}".encode()).hexdigest()[:32]
        fresh = str(uuid.UUID(digest))
        return _UNIQUE.sub(fresh, name, count=1) if _UNIQUE.search(name) else f"{fresh}-{name}"


def _of_files(entry: IndexEntry, names: Set[str]) -> IndexEntry | None:
    """An index file without vectors left over, of files that its bucket does not have; None where it has no other."""
    ranges = entry.file.dv_ranges
    own = tuple(part for part in ranges or () if part.data_file_name in names)
    if not ranges or len(own) == len(ranges):
        return entry
    return replace(entry, file=replace(entry.file, dv_ranges=own, row_count=len(own))) if own else None
