"""Removing what nothing refers to: files of writers that died, of commits that lost, of expiries that stopped midway.

    remove_orphans(store, before, dry_run=False, threads=None, run=None, on_progress=None) -> OrphanFiles

Read all that is referred to, walk the table's folders, and before anything goes read what was committed meanwhile. A
file that a commit refers to afterwards was written lately, and is too young. Names are compared by 64-bit hashes: two
alike keep a file that could go, never the other way round. With `run` folders are walked, and many files removed, in
tasks; what is referred to is read in the driver all the same.

No symbolic link is followed, and links themselves stay.

Spec: docs/spec/expiry.md#orphans
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from functools import partial
from hashlib import blake2b
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from bucketlake.env.storage import FileInfo
from bucketlake.errors import CorruptError, InvalidError, NotFoundError
from bucketlake.format.data.blob_references import is_pack
from bucketlake.format.guard import LARGEST_LONG
from bucketlake.format.metadata.manifest import FileKind, FileRef
from bucketlake.format.metadata.snapshot import Snapshot, decode_snapshot
from bucketlake.ops.clean.removal import BATCH as REMOVED_TOGETHER
from bucketlake.ops.clean.removal import delete_files, readable_list, remove_empty_folders
from bucketlake.ops.progress import Meter, OnProgress
from bucketlake.ops.rows.places import HASHED, is_hashed
from bucketlake.ops.table.store import Store, parallel
from bucketlake.paths import MAIN
from bucketlake.values import dataclass

__all__ = ["OrphanFiles", "oldest_kept", "remove_orphans"]

DAY = 24 * 3600 * 1000
READ_TOGETHER = 64  # manifests whose entries are in memory at once
BATCH = 20_000  # files that are looked up, and removed, together
SHIPPED_BYTES = 1 << 20  # of hashes that travel with a task; more go through the storage
STAGING = ".staging-"
_TEMPORARY = re.compile(r"\.(.+\.[0-9a-f]{32}\.tmp|probe-[0-9a-f]{32})")
_FOLDERS = ("manifest", "index", "statistics")
_NAMED = {"snapshot": "snapshot-", "changelog": "changelog-", "schema": "", "tag": "", "consumer": ""}
_HINTS = ("EARLIEST", "LATEST")

Hashes = npt.NDArray[np.int64]
Run = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]  # the results of an action for each unit, in any order


@dataclass(frozen=True, slots=True)
class OrphanFiles:
    """What was removed, or would be. `size` in bytes."""

    count: int = 0
    size: int = 0
    paths: tuple[str, ...] = ()

    def __add__(self, other: OrphanFiles) -> OrphanFiles:
        return OrphanFiles(self.count + other.count, self.size + other.size, self.paths + other.paths)


def oldest_kept(store: Store, older_than: int | None) -> int:
    """The time (epoch milliseconds) that files must be older than to go: a day ago where None is given.

    Raises InvalidError for a time that is not past: files that are being written would go.
    """
    now = store.env.clock.now_millis()
    if older_than is None:
        return now - DAY
    if older_than >= now:
        raise InvalidError(
            "The arg olderThan must be less than now, because dataFiles that are currently being written and not "
            "referenced by snapshots will be mistakenly cleaned up.",
            older_than=older_than,
            now=now,
        )
    return older_than


def remove_orphans(
    store: Store,
    before: int,
    dry_run: bool = False,
    threads: int | None = None,
    run: Run | None = None,
    on_progress: OnProgress | None = None,
) -> OrphanFiles:
    """Remove files of the table, all branches, that nothing refers to and that were last written before `before`.

    `before`: epoch milliseconds; a write that takes longer than from then till now is in danger. `run`: how tasks are
    run, None for this process. `on_progress` is told of snapshots (tags, changelogs) read and folders looked through as
    units, and of the bytes of orphans; what it raises leaves the rest. Memory: some bytes for each file that is
    referred to, and the orphans' paths. Errors: CorruptError where files of what is there are missing;
    StorageError. What was removed until then were orphans.
    """
    meter = Meter.of_table("remove orphans", store.paths.root, store.env.clock, on_progress)
    with meter.ending():
        references = _References(store, meter)
        references.refresh()
        if run is None:
            return _removed_here(references, before, dry_run, threads)
        orphans = _found_by_tasks(references, before, run)
        batches = [orphans]
        if not dry_run and len(orphans) > REMOVED_TOGETHER:
            batches = [orphans[at : at + REMOVED_TOGETHER] for at in range(0, len(orphans), REMOVED_TOGETHER)]
        meter.expect(len(batches))
        if len(batches) == 1:
            done = _removed(store, dry_run, threads, orphans)
        else:
            done = sum(run(partial(_removed, store, dry_run, threads), batches), OrphanFiles())
        meter.add(len(batches), 0, done.size)
        return done


def _removed_here(references: _References, before: int, dry_run: bool, threads: int | None) -> OrphanFiles:
    """Walk and remove in this process, so many files at a time."""
    done, store = OrphanFiles(), references.store
    files = _candidates(references, before)
    while batch := list(islice(files, BATCH)):
        orphans = _unknown(batch, references.used)
        if orphans:
            references.refresh()
            orphans = _unknown(orphans, references.used)
        removed = _removed(store, dry_run, threads, orphans)
        references.meter.add(0, 0, removed.size)
        done = done + removed
    return done


def _removed(store: Store, dry_run: bool, threads: int | None, orphans: Sequence[_Candidate]) -> OrphanFiles:
    infos = [orphan.info for orphan in orphans]
    if not dry_run:
        delete_files(store, [info.path for info in infos], threads)
        remove_empty_folders(store, (o.info.path.rsplit("/", 1)[0] for o in orphans if o.in_bucket))
        for folder in sorted({o.staging for o in orphans if o.staging}):
            store.env.storage.delete_empty(folder)
    return OrphanFiles(len(infos), sum(info.size for info in infos), tuple(info.path for info in infos))


# ---------------------------------------------------------------------------------------------- in tasks


def _found_by_tasks(references: _References, before: int, run: Run) -> list[_Candidate]:
    """The orphans by path: names known before the walk, and once more afterwards, make none."""
    store = references.store
    folders, loose = _folders(store)
    references.meter.expect(len(folders))
    with _shared(store, references.used) as used:
        found = run(partial(_strays, store, before, used), folders)
    references.meter.add(len(folders))
    references.refresh()
    orphans = _unknown([*_fitting(store, before, loose), *chain.from_iterable(found)], references.used)
    return sorted(orphans, key=lambda orphan: orphan.info.path)


def _folders(store: Store) -> tuple[list[tuple[str, str]], list[tuple[str, FileInfo]]]:
    """What tasks walk, as (place, folder), and the files that lie in none of these folders."""
    root, data_root = store.paths.root, store.paths.data_root
    folders, loose = [], []
    for place, top in [(root, root), *([(root, data_root)] if data_root != root else []), *_external(store)]:
        for info in store.env.storage.list(top):
            if info.is_link:
                continue  # what it leads to is not ours
            if not info.is_dir:
                loose.append((place, info))
            elif not f"{data_root}/".startswith(f"{info.path}/"):
                folders.append((place, info.path))
    return folders, loose


def _external(store: Store) -> list[tuple[str, str]]:
    return [(place, place) for place in _external_places(store)]


@contextmanager
def _shared(store: Store, used: Hashes) -> Iterator[Hashes | str]:
    """Hashes for tasks: themselves, or the path of a file that goes afterwards."""
    if used.nbytes <= SHIPPED_BYTES:
        yield used
        return
    path = f"{store.paths.root}/{STAGING}{store.env.clock.new_uuid()}/known"
    store.env.storage.write(path, used.tobytes())
    try:
        yield path
    finally:
        store.env.storage.delete_tree(path.rsplit("/", 1)[0])


def _strays(store: Store, before: int, used: Hashes | str, unit: tuple[str, str]) -> list[_Candidate]:
    """The files of a folder that are old enough and have no known name; what a task does."""
    place, folder = unit
    known = np.frombuffer(store.env.storage.read(used, 0, LARGEST_LONG), np.int64) if isinstance(used, str) else used
    files = _fitting(store, before, ((place, info) for info in store.env.storage.walk(folder)))
    found: list[_Candidate] = []
    while batch := list(islice(files, BATCH)):
        found += _unknown(batch, known)
    return found


# ---------------------------------------------------------------------------------------------- what is there


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A file old enough. `sure`: nothing can refer to such a file."""

    info: FileInfo
    sure: bool = False
    in_bucket: bool = False
    staging: str = ""


def _candidates(references: _References, before: int) -> Iterator[_Candidate]:
    """Files of the folders that a table owns, old enough; what lies elsewhere is not ours."""
    store, meter = references.store, references.meter
    if not meter.is_watched:
        places = [store.paths.root, *_external_places(store)]
        yield from _fitting(store, before, ((place, at) for place in places for at in store.env.storage.walk(place)))
        return
    folders, loose = _folders(store)
    meter.expect(len(folders))
    yield from _fitting(store, before, loose)
    for place, folder in folders:
        yield from _fitting(store, before, ((place, info) for info in store.env.storage.walk(folder)))
        meter.add()


def _fitting(store: Store, before: int, files: Iterable[tuple[str, FileInfo]]) -> Iterator[_Candidate]:
    """The candidates among the files of places: the table's folder, and those outside."""
    root = store.paths.root
    for place, info in files:
        if info.modified_millis < before:
            inside = place == root
            found = (inside and _metadata(info, root)) or _data(store, info, store.paths.data_root if inside else place)
            if found:
                yield found


def _external_places(store: Store) -> list[str]:
    """Folders outside of the table that it writes data files to: none unless its strategy uses them, and of these
    those alone that the session allows."""
    if store.options.get("data-file.external-paths.strategy") == "none":
        return []
    places = store.paths.external_roots
    return [place for place in places if not f"{place}/".startswith(f"{store.paths.root}/")]


def _metadata(info: FileInfo, root: str) -> _Candidate | None:
    """A file of a metadata folder, of the table or of a branch, or of a writer's staging folder."""
    parts = info.path[len(root) + 1 :].split("/")
    if parts[0].startswith(STAGING):
        return _Candidate(info, sure=True, staging=f"{root}/{parts[0]}")
    if _TEMPORARY.fullmatch(parts[-1]):  # wherever a write was cut short
        return _Candidate(info, sure=True, in_bucket=parts[-2:-1] != [] and parts[-2].startswith("bucket-"))
    if len(parts) == 2 and parts[0] in _FOLDERS:
        return _Candidate(info)
    if len(parts) == 4 and parts[0] == "branch" and parts[1].startswith("branch-"):
        parts = parts[2:]
    prefix = _NAMED.get(parts[0]) if len(parts) == 2 else None
    if prefix is None:
        return None
    name = parts[1]
    if prefix and not name.startswith(prefix) and name not in _HINTS:
        return _Candidate(info, sure=True)
    return None


def _data(store: Store, info: FileInfo, place: str) -> _Candidate | None:
    """A file directly in a bucket's folder, but for packs of blobs: which rows point at them only their values tell."""
    if not info.path.startswith(f"{place}/") or is_pack(info.path):
        return None
    parts = _below(store, info.path[len(place) + 1 :].split("/"), place)
    partitions, bucket = parts[:-2], parts[-2] if len(parts) > 1 else ""
    fits = len(partitions) == len(store.schema.partition_fields) and all("=" in part for part in partitions)
    return _Candidate(info, in_bucket=True) if fits and bucket.startswith("bucket-") else None


def _below(store: Store, parts: list[str], place: str) -> list[str]:
    """A file's path below the folder of partitions and buckets: outside of the table's folder writers make the table's
    data directory too, and folders of a hash below the bucket's."""
    paths = store.paths
    if place == paths.data_root:
        return parts
    directory = paths.data_root[len(paths.root) + 1 :].split("/") if paths.data_root != paths.root else []
    if directory and parts[: len(directory)] == directory:
        parts = parts[len(directory) :]
    return [*parts[:-HASHED], parts[-1]] if is_hashed(parts[-HASHED:-1]) else parts


# ---------------------------------------------------------------------------------------------- what is referred to


@dataclass(slots=True)
class _References:
    """Names that snapshots, tags, branches and changelogs refer to, as hashes. A file of the manifests counts where it
    is live in at least one of them."""

    store: Store
    meter: Meter
    seen: set[tuple[str | None, ...]] = field(default_factory=set)
    names: set[int] = field(default_factory=set)  # of metadata, and of files whatever happens to them
    changes: list[Hashes] = field(default_factory=list)  # changelog files
    manifests: dict[str, tuple[Hashes, Hashes]] = field(default_factory=dict)  # name → files added, files deleted
    roots: list[tuple[str, ...]] = field(default_factory=list)  # the manifests of each snapshot
    used: Hashes = field(default_factory=lambda: np.zeros(0, np.int64))
    settled: int = -1  # how many of `seen` are in `used`

    def refresh(self) -> None:
        """Add what there is that was not there before; where nothing is new it costs a look at the folders.

        Raises CorruptError where something exists and its files do not: nothing can be told then; NotFoundError for a
        table that was dropped. Of a branch without
        schemas, which nobody can open (half made, half deleted, or written to as it was deleted), what is left is kept.
        """
        branches = [MAIN, *self.store.branches()]
        stores = [self.store.on_branch(name) for name in branches]
        shut = {n for n, s in zip(branches, stores, strict=True) if not s.env.storage.list(s.paths.schema_dir)}
        if MAIN in shut:
            if not self.store.snapshot_ids():
                self.store.check_same()
            raise CorruptError("a table without schemas", path=self.store.paths.root, remedy="CALL sys.fsck")
        for name, store in zip(branches, stores, strict=True):
            snapshots = _existing(store.snapshot_ids(), store.find_snapshot, store)
            for path, snapshot in self._new({store.paths.snapshot(found.id): found for found in snapshots}):
                self._add_rest(store, snapshot) if name in shut else self._add(store, snapshot, path, name == MAIN)
            tags = store.tags().items()  # and changelogs: looked for once the snapshots are read, which become these
            for path, tag in self._new({store.paths.tag(called): tag for called, tag in tags}):
                self._add_rest(store, tag) if name in shut else self._add(store, tag, path, strict=False)
            changelogs = _existing(store.changelog_ids(), store.find_changelog, store)
            for _, changelog in self._new(
                {store.paths.changelog(found.id): found for found in changelogs}, "changelog"
            ):
                self._add_changelog(store, changelog)
        if self.settled != len(self.seen):
            self._settle()
            self.settled = len(self.seen)

    def _new(self, found: Mapping[str, Snapshot], kind: str = "snapshot") -> Iterator[tuple[str, Snapshot]]:
        """Those, by path, whose files are not known yet; from now on they are."""
        keys = {path: _files_of(kind, snapshot) for path, snapshot in found.items()}
        fresh = [path for path, key in keys.items() if key not in self.seen]
        self.meter.expect(len(fresh))
        for path in fresh:
            if keys[path] not in self.seen:
                self.seen.add(keys[path])
                yield path, found[path]
            self.meter.add()

    def _add(self, store: Store, snapshot: Snapshot, path: str, strict: bool) -> None:
        """All of a snapshot or tag; `strict`: its changelog's too must be there."""
        try:
            data = store.data_manifests(snapshot)
            new = [m for m in data if m.file_name not in self.manifests]
            for some in (new[start : start + READ_TOGETHER] for start in range(0, len(new), READ_TOGETHER)):
                found = parallel(lambda manifest: _split(store.refs(manifest)), some, store.manifest_threads)
                self.manifests.update(zip((m.file_name for m in some), found, strict=True))
            indexes = [entry.file.file_name for entry in store.index_manifest(snapshot)]
            self._add_changes(store, snapshot.changelog_manifest_list, strict)
        except NotFoundError as error:
            now = _held(store, path)
            if now is None:
                return  # expired, or removed, meanwhile
            self.store.check_here()
            if now != snapshot:  # of another history: a rollback came between
                self._add(store, now, path, strict)
                return
            raise CorruptError(
                "cannot tell what is referred to: a file is missing",
                snapshot=snapshot.id,
                found_in=path,
                reason=str(error),
                remedy="remove or repair what refers to it, then call again",
            ) from error
        self.roots.append(tuple(m.file_name for m in data))
        self._name([snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.index_manifest])
        self._name([snapshot.statistics, *indexes, *(m.file_name for m in data)])

    def _add_rest(self, store: Store, snapshot: Snapshot) -> None:
        """What is left of the files that a snapshot names, whatever became of them later."""
        for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list):
            self._add_changes(store, name, strict=False)
        with suppress(NotFoundError):
            self._name(entry.file.file_name for entry in store.index_manifest(snapshot))
        self._name([snapshot.index_manifest, snapshot.statistics])

    def _add_changelog(self, store: Store, changelog: Snapshot) -> None:
        """What is left of a changelog that outlives its snapshot."""
        shown = changelog.changelog_manifest_list
        self._add_changes(store, changelog.delta_manifest_list if shown is None else shown, strict=False)
        for name in (changelog.base_manifest_list, changelog.delta_manifest_list):
            self._name([name, *(m.file_name for m in readable_list(store, name))])

    def _add_changes(self, store: Store, list_name: str | None, strict: bool) -> None:
        """Files that the manifests of a list add, whatever becomes of them later."""
        if list_name is None:
            return
        files = store.manifest_list(list_name) if strict else readable_list(store, list_name)
        for file in files:
            try:
                added, _ = _split(store.refs(file))
            except NotFoundError:
                if strict:
                    raise
                continue
            self.changes.append(added)
        self._name([list_name, *(file.file_name for file in files)])

    def _name(self, names: Iterable[str | None]) -> None:
        self.names.update(_hashes(name for name in names if name is not None).tolist())

    def _settle(self) -> None:
        """Compute `used`: files that are added and never deleted, and of the others those live in a root."""
        empty = np.zeros(0, np.int64)
        added = np.concatenate([empty, *(add for add, _ in self.manifests.values())])
        deleted = np.unique(np.concatenate([empty, *(gone for _, gone in self.manifests.values())]))
        certain = [added[~np.isin(added, deleted)], np.fromiter(self.names, np.int64, len(self.names)), *self.changes]
        if len(deleted):
            doubtful = {name: add[np.isin(add, deleted)] for name, (add, _) in self.manifests.items()}
            certain += [_live(root, doubtful, self.manifests) for root in self.roots]
        self.used = np.unique(np.concatenate(certain))


def _files_of(kind: str, snapshot: Snapshot) -> tuple[str | None, ...]:
    """What two snapshots have in common that refer to the same files."""
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list)
    return kind, *lists, snapshot.index_manifest, snapshot.statistics


def _unknown(candidates: Sequence[_Candidate], used: Hashes) -> list[_Candidate]:
    """Those that nothing refers to, by the ascending hashes of what is used."""
    names = _hashes(candidate.info.name for candidate in candidates)
    places = np.searchsorted(used, names)
    found = np.zeros(len(names), np.bool_)
    inside = places < len(used)
    found[inside] = used[places[inside]] == names[inside]
    return [c for c, known in zip(candidates, found.tolist(), strict=True) if c.sure or not known]


def _live(root: Sequence[str], added: dict[str, Hashes], manifests: dict[str, tuple[Hashes, Hashes]]) -> Hashes:
    """Of the files that some manifest deletes, those live in one snapshot: added once more than deleted."""
    plus = [added[name] for name in root]
    minus = [manifests[name][1] for name in root]
    names, places = np.unique(np.concatenate([np.zeros(0, np.int64), *plus, *minus]), return_inverse=True)
    weights = np.repeat([1, -1], [sum(map(len, plus)), sum(map(len, minus))])
    return names[np.bincount(places, weights, len(names)) > 0]


def _split(refs: Sequence[FileRef]) -> tuple[Hashes, Hashes]:
    """Hashes of the files that entries add, and of those that they delete; what lies beside a file is with it."""
    added = [ref for ref in refs if ref.kind == FileKind.ADD]
    deleted = [ref for ref in refs if ref.kind != FileKind.ADD]
    return _hashes_of(added), _hashes_of(deleted)


def _hashes_of(files: Iterable[FileRef]) -> Hashes:
    return _hashes(name for file in files for name in (file.file_name, *file.extra_files))


def _hashes(names: Iterable[str]) -> Hashes:
    return np.frombuffer(b"".join(map(_digest, names)), np.int64)


def _digest(name: str) -> bytes:
    """8 bytes that are the same in every process."""
    return blake2b(name.encode(), digest_size=8).digest()


def _existing(ids: Sequence[int], find: Callable[[int], Snapshot | None], store: Store) -> list[Snapshot]:
    return [item for item in parallel(find, ids, store.manifest_threads) if item is not None]


def _held(store: Store, path: str) -> Snapshot | None:
    """What a snapshot's, or a tag's, file holds by now, None where it is gone."""
    try:
        return decode_snapshot(store.env.storage.read(path), path)
    except NotFoundError:
        return None
