"""One table's files as values: snapshots, tags, schemas, manifests. Reads only; immutable files are cached.

The newest snapshot is found from the hint `snapshot/LATEST` by probing forward, and by listing where the hint is
absent, unreadable or wrong: a hint is never trusted.

Spec: docs/spec/commit.md#finding-the-newest-snapshot
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from functools import partial
from typing import Any, cast

from bucketlake.env.env import Env
from bucketlake.env.storage import WAITING, FileInfo, is_there, waits
from bucketlake.errors import ConflictError, CorruptError, NotFoundError, StorageError
from bucketlake.file_names import fault_of, number_of
from bucketlake.format.guard import decoding, json_object
from bucketlake.format.index.index_manifest import IndexEntry
from bucketlake.format.metadata.consumer import next_snapshot
from bucketlake.format.metadata.manifest import FileRef, ManifestEntry, ManifestFile
from bucketlake.format.metadata.snapshot import Snapshot, decode_snapshot
from bucketlake.ops.table.decoded import (
    CACHE,
    check_counts,
    identity,
    index_entries,
    is_kept,
    kept,
    manifest_entries,
    manifest_files,
    manifest_refs,
    while_unchanged,
)
from bucketlake.ops.table.overwritten import read_overwritten
from bucketlake.ops.table.parallel import ahead, at_once, by_cores, parallel
from bucketlake.ops.table.remedies import tag_remedy
from bucketlake.options.options import TableOptions
from bucketlake.paths import TablePaths
from bucketlake.schema.schema import TableSchema
from bucketlake.values import dataclass

FIRST_SNAPSHOT_ID = 1
HINT_BYTES = 64  # a hint holds a number: what is longer is none
_HINT = "hint"
MAX_PROBES = 16  # a hint further behind than this costs less by listing


def clear_cache() -> None:
    """Forget every decoded manifest of this process (tests, benchmarks)."""
    CACHE.clear()


@dataclass(frozen=True)
class Store:
    """One table (or branch): where its files lie, its schema as the caller opened it, its effective options.

    Picklable; travels to tasks. `schema_of(id)` caches within the object, manifests are cached per process by path
    (their names hold a uuid, so they never change). Options also decide how files are named: they are changed by
    `with_options` and `with_schema` alone, which derive schema, paths and options from one text.
    """

    env: Env
    paths: TablePaths
    schema: TableSchema
    options: TableOptions
    _schemas: dict[int, TableSchema] = field(default_factory=dict, init=False, compare=False, repr=False)
    _held: list[Snapshot] = field(default_factory=list, init=False, compare=False, repr=False)

    @classmethod
    def of(cls, env: Env, root: str, schema: TableSchema) -> Store:
        """The store of the table with this schema that lies in the folder `root`."""
        paths = TablePaths(root, schema.partition_fields, schema.options, env.external)
        return cls(env.of_table(root), paths, schema, TableOptions(schema.options))

    def with_schema(self, schema: TableSchema) -> Store:
        """The same table with this schema, its options included."""
        return Store.of(self.env, self.paths.root, schema)

    def with_options(self, extra: Mapping[str, Any]) -> Store:
        """The same table with other options laid over its own, unchecked; None takes a key away."""
        return self.with_schema(replace(self.schema, options=self.options.with_(extra).raw))

    @property
    def branch_name(self) -> str:
        """The branch that this handle is of."""
        return self.paths.branch_name

    @property
    def place(self) -> Hashable:
        """What tells this table's branch from every other that the process knows, in other storages too."""
        return identity(self.env.storage), self.paths.meta_root

    @property
    def waits(self) -> bool:
        """Whether each look at a file is a request that waits, so that several at once take the time of one."""
        return waits(self.paths.root)

    # ---- snapshots

    def latest_snapshot(self) -> Snapshot | None:
        """The newest snapshot, None for a table without one. Where a catalog manages the table, it is asked."""
        if (keeper := self.env.keeper) is not None and keeper.manages:
            data = keeper.newest(self.branch_name)
            return None if data is None else decode_snapshot(data, self.paths.snapshot_dir)
        return self._latest_from_hint() or self._edge_by_listing(newest=True)

    def latest_snapshot_id(self) -> int | None:
        """The newest snapshot's id, None for a table without one."""
        return None if (found := self.latest_snapshot()) is None else found.id

    def newest_id(self) -> int | None:
        """As `latest_snapshot_id`, also where the newest snapshot's file is damaged."""
        try:
            return self.latest_snapshot_id()
        except CorruptError:
            return max(self.snapshot_ids(), default=None)

    def earliest_snapshot(self) -> Snapshot | None:
        """The oldest snapshot not yet expired, None for a table without one."""
        hint = self.hint(self.paths.earliest_hint)
        if hint is not None and not self.has_snapshot(hint - 1):
            found = self.find_snapshot(hint)
            if found is not None:
                return found
        return self._edge_by_listing(newest=False)

    def find_snapshot(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot, or None if it does not exist (never did, or has expired)."""
        if snapshot_id < FIRST_SNAPSHOT_ID:
            return None
        path = self.paths.snapshot(snapshot_id)
        try:
            data = read_overwritten(self.env, path)
        except NotFoundError:
            return None
        return _own(decode_snapshot(data, path), snapshot_id, path)

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """The snapshot; NotFoundError names the ids that exist."""
        found = self.find_snapshot(snapshot_id)
        if found is not None:
            return found
        ids = self.snapshot_ids()
        what, remedy = "There is currently no snapshot.", None
        if ids:
            span, remedy = f"[{ids[0]}, {ids[-1]}]", "choose a snapshot that exists, or a tag"
            what = f"The specified scan snapshotId {snapshot_id} is out of available snapshotId range {span}"
        raise NotFoundError(what, table=self.paths.root, snapshot=snapshot_id, remedy=remedy)

    def has_snapshot(self, snapshot_id: int) -> bool:
        """Whether the snapshot's file exists."""
        return snapshot_id >= FIRST_SNAPSHOT_ID and is_there(self.env.storage, self.paths.snapshot(snapshot_id))

    def snapshot_ids(self) -> list[int]:
        """Ids of all snapshots, ascending."""
        return self._ids(self.paths.snapshot_dir, "snapshot-")

    def _ids(self, folder: str, prefix: str) -> list[int]:
        return numbers_of(self.env.storage.list(folder), prefix)

    def snapshots(self, *, newest_first: bool = False) -> Iterator[Snapshot]:
        """All snapshots by id; those that expire meanwhile are left out."""
        ids = self.snapshot_ids()
        found = ahead(self.find_snapshot, ids[::-1] if newest_first else ids, self.manifest_threads)
        yield from (snapshot for snapshot in found if snapshot is not None)

    def snapshots_after(self, snapshot_id: int) -> list[Snapshot]:
        """Those with greater ids, ascending, that do not expire meanwhile. Each is read once a process, as long as its
        file's size and time stay."""
        listed = self.env.storage.list(self.paths.snapshot_dir)
        names = {f"snapshot-{number}": number for number in numbers_of(listed, "snapshot-") if number > snapshot_id}
        infos = [info for info in listed if info.name in names]

        def read(info: FileInfo) -> Snapshot | None:
            return while_unchanged(self.env.storage, info, lambda: self.find_snapshot(names[info.name]))

        found = parallel(read, sorted(infos, key=lambda info: names[info.name]), self.manifest_threads)
        return [snapshot for snapshot in found if snapshot is not None]

    def snapshot_at(self, millis: int) -> Snapshot | None:
        """The newest snapshot committed at or before `millis`, None if all are later."""
        ids = self.snapshot_ids()
        best: Snapshot | None = None
        low, high = 0, len(ids) - 1
        while low <= high:
            middle = (low + high) // 2
            found = self.find_snapshot(ids[middle])
            if found is None or found.time_millis <= millis:
                best = found or best
                low = middle + 1
            else:
                high = middle - 1
        return best

    # ---- changelogs that outlive their snapshots

    def changelog_ids(self) -> list[int]:
        """Ids of the changelogs kept of expired snapshots, ascending."""
        return self._ids(self.paths.changelog_dir, "changelog-")

    def find_changelog(self, snapshot_id: int) -> Snapshot | None:
        """What is kept of an expired snapshot's changes, or None.

        Of its fields only those that lead to the changes are good: `changelog_manifest_list`, and where that is None
        `delta_manifest_list`, if the table has no changelog producer.
        """
        path = self.paths.changelog(snapshot_id)
        try:
            data = read_overwritten(self.env, path)
        except NotFoundError:
            return None
        return _own(decode_snapshot(data, path), snapshot_id, path)

    def changelogs(self) -> Iterator[Snapshot]:
        """All changelogs kept of expired snapshots, by id; those that expire meanwhile are left out."""
        found = ahead(self.find_changelog, self.changelog_ids(), self.manifest_threads)
        yield from (changelog for changelog in found if changelog is not None)

    def find_changes(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot, or what is kept of its changes if it has expired, or None."""
        return self.find_snapshot(snapshot_id) or self.find_changelog(snapshot_id)

    def changelog_ends(self) -> tuple[int, int] | None:
        """Ids of the oldest and the newest changelog kept of expired snapshots, None without any."""
        low, high = self.hint(self.paths.changelog_earliest_hint), self.hint(self.paths.changelog_latest_hint)
        if low is not None and high is not None:
            exists = [is_there(self.env.storage, self.paths.changelog(i)) for i in (low, high, high + 1)]
            if exists == [True, True, False]:
                return low, high
        return (ids[0], ids[-1]) if (ids := self.changelog_ids()) else None

    # ---- consumers and branches

    def consumers(self) -> dict[str, int]:
        """The snapshot that each consumer reads next, by its name."""
        found = {}
        for name in self.consumer_names():
            path = self.paths.consumer(name)
            with suppress(NotFoundError):
                found[name] = next_snapshot(read_overwritten(self.env, path), path)
        return found

    def consumer_names(self) -> list[str]:
        """Names of all consumers, sorted; whatever their files hold."""
        return self._names(self.paths.consumer_dir, "consumer")

    def branches(self) -> list[str]:
        """Names of all branches but the main one, sorted."""
        return self._names(self.paths.branch_dir, "branch", folders=True)

    def _names(self, folder: str, what: str, folders: bool = False) -> list[str]:
        """What the files of a folder are named behind `<what>-`, sorted. CorruptError where nobody can ask for one by
        that: what it may hold on to is not known, and left out it would be taken for nothing."""
        prefix, infos = f"{what}-", self.env.storage.list(folder)
        names = [info.name for info in infos if info.is_dir == folders and info.name.startswith(prefix)]
        found = sorted(name.removeprefix(prefix) for name in names if name != prefix)
        for name in found:
            if (fault := fault_of(name)) is not None:
                raise CorruptError(
                    f"a {'folder' if folders else 'file'} has a name that no {what} has",
                    path=f"{folder}/{prefix}{name}",
                    reason=fault,
                    remedy=f"rename it, if its {what} is needed, or remove it: by hand, as no call can name it",
                )
        return found

    def on_branch(self, name: str) -> Store:
        """The snapshots, tags and manifests of another branch ("main" too). The schema stays this handle's: it is for
        looking up files, not for reading rows."""
        return self.with_options({"branch": name})

    # ---- tags and schemas

    def tag(self, name: str) -> Snapshot:
        """The snapshot that a tag holds; its own fields are in `unknown`. NotFoundError if there is no such tag."""
        found = self.find_tag(name)
        if found is None:
            remedy = tag_remedy(name, self.tag_names())
            raise NotFoundError(f"Tag '{name}' doesn't exist.", table=self.paths.root, remedy=remedy)
        return found

    def find_tag(self, name: str) -> Snapshot | None:
        """The snapshot that a tag holds, or None. CorruptError with what to do where its file is damaged."""
        path = self.paths.tag(name)
        try:
            data = read_overwritten(self.env, path)
        except NotFoundError:
            return None
        try:
            return decode_snapshot(data, path)
        except CorruptError as error:
            remedy = "restore the tag's file from a copy, or delete the tag"
            raise CorruptError(error.what, **error.details, remedy=remedy) from error

    def tags(self) -> dict[str, Snapshot]:
        """All tags by name."""
        names = self.tag_names()
        found = parallel(self.find_tag, names, self.manifest_threads)
        return {name: tag for name, tag in zip(names, found, strict=True) if tag is not None}

    def known_tags(self) -> dict[str, Snapshot]:
        """As `tags`, each read once a process as long as its file's size and time stay: for looks that may be late."""
        listed = [info for info in self.env.storage.list(self.paths.tag_dir) if not info.is_dir]
        infos = {name: info for info in listed if (name := info.name.removeprefix("tag-")) not in ("", info.name)}

        def read(name: str) -> Snapshot | None:
            return while_unchanged(self.env.storage, infos[name], partial(self.find_tag, name))

        found = parallel(read, list(infos), self.manifest_threads)
        return {name: tag for name, tag in zip(infos, found, strict=True) if tag is not None}

    def tag_names(self) -> list[str]:
        """Names of all tags, sorted."""
        return self._names(self.paths.tag_dir, "tag")

    def schema_of(self, schema_id: int) -> TableSchema:
        """The schema with this id, cached."""
        if schema_id == self.schema.id:
            return self.schema
        cached = self._schemas.get(schema_id)
        if cached is None:
            path = self.paths.schema(schema_id)
            cached = TableSchema.decode(self.env.storage.read(path), path, schema_id)
            self._schemas[schema_id] = cached
        return cached

    def schema_ids(self) -> list[int]:
        """Ids of all schemas, ascending."""
        return self._ids(self.paths.schema_dir, "schema-")

    def dynamic_options(self) -> dict[str, str]:
        """The options of this handle that its stored schema has not, or has otherwise."""
        stored = self.stored_schema().options
        return {key: value for key, value in self.schema.options.items() if stored.get(key) != value}

    def stored_schema(self) -> TableSchema:
        """The schema of this handle as it is stored, without dynamic options."""
        path = self.paths.schema(self.schema.id)
        return TableSchema.decode(self.env.storage.read(path), path)

    def latest_schema(self) -> TableSchema:
        """The newest schema of the table that was opened. Errors as `check_same`."""
        newest = self.schema.id
        altered, _ = at_once(self.waits, lambda: self._has_schema(newest + 1), self.check_same)
        if altered:
            while self._has_schema(newest + 1):
                newest += 1
            self.check_same()  # these may be another table's
        return self.schema_of(newest)

    def _has_schema(self, schema_id: int) -> bool:
        return is_there(self.env.storage, self.paths.schema(schema_id))

    def check_same(self) -> None:
        """NotFoundError if the folder holds no table, ConflictError if it holds another one than was opened: its schema
        of the same number was made at another time. CorruptError."""
        self._forget_replaced()
        path = self.paths.schema(self.schema.id)
        try:
            data = self.env.storage.read(path)
        except NotFoundError as error:
            remedy = "it was dropped or renamed since"
            raise NotFoundError("no such table", path=self.paths.root, remedy=remedy) from error
        with decoding("not a schema file", path):
            made = json_object(data).get("timeMillis")
        if made and self.schema.time_millis and made != self.schema.time_millis:  # 0: a catalog did not say
            remedy = "it was dropped and made anew, or became a branch: open it again, and write anew"
            raise ConflictError("another table lies here than was opened", table=self.paths.root, remedy=remedy)

    def check_here(self) -> None:
        """As `check_same`; a table that a catalog manages is looked for by that."""
        if self.env.keeper is None or not self.env.keeper.manages:
            self.check_same()
        else:
            self._forget_replaced()

    def _forget_replaced(self) -> None:
        """Forget later schemas than the handle's own where a fast-forward put those of a branch into their place. All
        up to one that both have are the same, so that the last tells of the others."""
        later = [number for number in self._schemas if number > self.schema.id]
        if not later:
            return
        path, known = self.paths.schema(max(later)), self._schemas.get(max(later))
        try:
            found = TableSchema.decode(self.env.storage.read(path), path, max(later))
        except (NotFoundError, CorruptError):
            found = None
        if found != known:
            for number in later:
                self._schemas.pop(number, None)

    def check_holds(self, snapshot: Snapshot | None) -> None:
        """As `check_here`, of a table whose snapshot this is: one that was dropped is no empty one, and rows of one
        that was made anew have other columns. What was seen to be this table's is not asked again."""
        if snapshot in self._held:
            return
        self.check_here()
        self.note_held(snapshot)

    def note_held(self, snapshot: Snapshot | None) -> None:
        """Keep that a snapshot was seen to be this table's, see `check_holds`."""
        self._held[:] = [] if snapshot is None else [snapshot]

    # ---- manifests

    def manifest_list(self, name: str, size: int | None = None) -> tuple[ManifestFile, ...]:
        """The manifests that a manifest list names, cached. `size`: its bytes, where they are recorded."""
        return kept(self.env.storage, self.paths.manifest(name), "manifest list", manifest_files, size)

    def manifest(self, file: ManifestFile | str) -> tuple[ManifestEntry, ...]:
        """The entries of a manifest, cached. CorruptError where they are not as many as its list says, or its file is
        not as long; a mere name is not checked."""
        if isinstance(file, str):
            return kept(self.env.storage, self.paths.manifest(file), "entries", self._entries)
        path = self.paths.manifest(file.file_name)
        found = kept(self.env.storage, path, "entries", self._entries, file.file_size)
        check_counts(file, [entry.kind for entry in found], path)
        return found

    def refs(self, file: ManifestFile, keep: bool = False) -> tuple[FileRef, ...]:
        """As `manifest`, but only what finds the files, which is less work. `keep`: cached, too."""
        path = self.paths.manifest(file.file_name)
        if is_kept(self.env.storage, path, "entries"):
            return tuple(map(FileRef.of, self.manifest(file)))
        found = kept(self.env.storage, path, "references", self._refs, file.file_size, 4 if keep else None)
        check_counts(file, [ref.kind for ref in found], path)
        return found

    def _entries(self, data: bytes, path: str) -> tuple[ManifestEntry, ...]:
        with self.fitting():
            return manifest_entries(data, path, self.schema, self.schema_of)

    def _indexes(self, data: bytes, path: str) -> tuple[IndexEntry, ...]:
        with self.fitting():
            return index_entries(data, path, self.schema)

    def _refs(self, data: bytes, path: str) -> tuple[FileRef, ...]:
        with self.fitting():
            return manifest_refs(data, path, self.schema, self.schema_of)

    @contextmanager
    def fitting(self) -> Iterator[None]:
        """Around what is decoded under this table's schema: what does not fit may be another table's that was
        made in its place. Errors as `check_same` then."""
        try:
            yield
        except CorruptError:
            self.check_here()
            raise

    def manifests(self, files: Sequence[ManifestFile]) -> list[tuple[ManifestEntry, ...]]:
        """The entries of several manifests, in order; those that are not cached are read in parallel."""
        storage, path = self.env.storage, self.paths.manifest
        new = [file for file in files if not is_kept(storage, path(file.file_name), "entries")]
        read = dict(
            zip((file.file_name for file in new), parallel(self.manifest, new, self.manifest_threads), strict=True)
        )
        return [read[file.file_name] if file.file_name in read else self.manifest(file) for file in files]

    def schemas_in(self, file: ManifestFile, entries: Iterable[ManifestEntry]) -> frozenset[int]:
        """Ids of the schemas that the files of a manifest, which has these entries, were written with, cached."""
        key = (identity(self.env.storage), self.paths.manifest(file.file_name), "schemas")
        found = CACHE.get(key)
        if found is None:
            found = frozenset(entry.file.schema_id for entry in entries)
            CACHE.put(key, 1, found)
        return cast("frozenset[int]", found)

    def data_manifests(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        """All manifests of a snapshot's table files: base, then delta."""
        return self.base_manifests(snapshot) + self.delta_manifests(snapshot)

    def base_manifests(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        """The manifests of what was there before a snapshot."""
        return self.manifest_list(snapshot.base_manifest_list, snapshot.base_manifest_list_size)

    def delta_manifests(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        """The manifests of what a snapshot itself added and deleted."""
        return self.manifest_list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)

    def changelog_manifests(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        """The manifests of a snapshot's changelog files."""
        if snapshot.changelog_manifest_list is None:
            return ()
        return self.manifest_list(snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size)

    def index_manifest(self, snapshot: Snapshot | None) -> tuple[IndexEntry, ...]:
        """The index files of a snapshot, cached; empty without one."""
        return self.index_entries(None if snapshot is None else snapshot.index_manifest)

    def index_entries(self, name: str | None) -> tuple[IndexEntry, ...]:
        """The entries of an index manifest, cached; empty for None."""
        if name is None:
            return ()
        return kept(self.env.storage, self.paths.manifest(name), "index", self._indexes)

    def check_index_manifest(self, name: str) -> None:
        """NotFoundError unless an index manifest is there; no request where it has been read."""
        path = self.paths.manifest(name)
        if not is_kept(self.env.storage, path, "index") and not is_there(self.env.storage, path):
            raise NotFoundError(
                "no such file",
                path=path,
                table=self.paths.root,
                remedy="the newest snapshot names it: restore either, or roll back; `bucketlake fsck` tells to which",
            )

    @property
    def manifest_threads(self) -> int | None:
        """Option `scan.manifest.parallelism`; None: by the number of cores. More where each manifest is a request that
        waits."""
        given = cast("int | None", self.options.get("scan.manifest.parallelism"))
        return max(WAITING, by_cores()) if given is None and self.waits else given

    # ---- finding the ends

    def hint(self, path: str) -> int | None:
        """The id in a hint, which may be wrong; None for one that is absent or unreadable."""
        try:
            number = number_of(self.env.storage.read(path, 0, HINT_BYTES).decode("ascii").strip())
        except (NotFoundError, StorageError, CorruptError, UnicodeDecodeError):
            return None
        return number if number is not None and number >= FIRST_SNAPSHOT_ID else None

    def note_hint(self, snapshot_id: int) -> None:
        """Keep what the hint to the newest snapshot says, so that the snapshot can be asked for beside it."""
        if self.waits:
            CACHE.put(self._hinted, 1, snapshot_id)

    @property
    def _hinted(self) -> Hashable:
        return identity(self.env.storage), self.paths.latest_hint, _HINT

    def _latest_from_hint(self) -> Snapshot | None:
        known = cast("int | None", CACHE.get(self._hinted) if self.waits else None)
        looks: list[Callable[[], Any]] = [partial(self.hint, self.paths.latest_hint)]
        if known is not None:
            looks += [partial(self._looked_up, known), partial(self._looked_up, known + 1)]
        hint, *pair = at_once(self.waits, *looks)
        if hint is None:
            return None
        if hint != known or any(isinstance(one, Exception) for one in pair):
            pair = parallel(self.find_snapshot, [hint, hint + 1], 2 if self.waits else 1)
            self.note_hint(hint)
        found: Snapshot | None = pair[0]
        following: Snapshot | None = pair[1]
        for _ in range(MAX_PROBES):
            if found is None or following is None:
                return found
            found, following = following, self.find_snapshot(following.id + 1)
        return None

    def _looked_up(self, snapshot_id: int) -> Snapshot | Exception | None:
        """As `find_snapshot`; an error is given: it counts only if the hint still says so."""
        try:
            return self.find_snapshot(snapshot_id)
        except (CorruptError, StorageError) as error:
            return error

    def _edge_by_listing(self, newest: bool) -> Snapshot | None:
        """The newest or the oldest of those listed. A LIST may name some that are gone, for long where it is late: they
        are passed over, unless one that is newer than all of them came meanwhile: they may have expired."""
        ids = self.snapshot_ids()
        for _ in range(3):
            if not ids:
                return None
            ordered = ids[::-1] if newest else ids
            found = self.find_snapshot(ordered[0])
            if found is not None:
                return found
            left = ahead(self.find_snapshot, ordered[1:], self.manifest_threads)
            found = next((snapshot for snapshot in left if snapshot is not None), None)
            before, ids = ids[-1], self.snapshot_ids()
            if (found is not None and not newest) or max(ids, default=0) <= before:
                return found
        raise StorageError("snapshots vanish while they are looked up", path=self.paths.snapshot_dir)


def numbers_of(infos: Iterable[FileInfo], prefix: str) -> list[int]:
    """The numbers behind a prefix in the names of files, ascending."""
    found = [number_of(info.name.removeprefix(prefix)) for info in infos if info.name.startswith(prefix)]
    return sorted(number for number in found if number is not None)


def _own(snapshot: Snapshot, snapshot_id: int, path: str) -> Snapshot:
    """The snapshot, if its file is named after it and it names files by names."""
    if snapshot.id != snapshot_id:
        raise CorruptError(
            "a snapshot says another id than its file's name",
            path=path,
            id=snapshot.id,
            remedy="remove the file, or restore it",
        )
    return snapshot
