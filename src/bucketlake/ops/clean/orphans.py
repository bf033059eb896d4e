"""Removing what nothing refers to: files of writers that died, of commits that lost, of expiries that stopped midway.

    remove_orphans(store, before, dry_run=False, threads=None, run=None, on_progress=None) -> OrphanFiles

Read all that is referred to, walk the table's folders, and before anything goes read what was committed meanwhile. A
file that a commit refers to afterwards was written lately, and is too young. Names are compared by 64-bit hashes: two
alike keep a file that could go, never the other way round. With `run` folders are walked, and many files removed, in
tasks; what is referred to is read in the driver all the same.

Where a file that is told of is missing, a damaged manifest may tell of one beside it by a wrong name: nothing in that
folder goes.

No symbolic link is followed, and links themselves stay.

Spec: docs/spec/expiry.md#orphans
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np

from bucketlake.env.storage import FileInfo
from bucketlake.errors import InvalidError
from bucketlake.format.data.blob_references import is_pack
from bucketlake.format.guard import LARGEST_LONG
from bucketlake.format.numbers import distinct, members, without
from bucketlake.ops.clean.references import Hashes, References, external_places, hashes
from bucketlake.ops.clean.removal import BATCH as REMOVED_TOGETHER
from bucketlake.ops.clean.removal import delete_files, remove_empty_folders
from bucketlake.ops.progress import Meter, OnProgress
from bucketlake.ops.rows.places import HASHED, is_hashed
from bucketlake.ops.table.store import Store
from bucketlake.values import dataclass

__all__ = ["OrphanFiles", "oldest_kept", "remove_orphans"]

DAY = 24 * 3600 * 1000
BATCH = 20_000  # files that are looked up together, or removed before the next look for new commits
SHIPPED_BYTES = 1 << 20  # of hashes that travel with a task; more go through the storage
STAGING = ".staging-"
_TEMPORARY = re.compile(r"\.(.+\.[0-9a-f]{32}\.tmp|probe-[0-9a-f]{32})")
_FOLDERS = ("manifest", "index", "statistics")
_NAMED = {"snapshot": "snapshot-", "changelog": "changelog-", "schema": "", "tag": "", "consumer": ""}
_HINTS = ("EARLIEST", "LATEST")

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
        references = References(store, meter)
        references.refresh()
        orphans = _found(references, before, run)
        if run is not None and not dry_run and len(orphans) > REMOVED_TOGETHER:
            batches = _in_batches(orphans, REMOVED_TOGETHER)
            meter.expect(len(batches))
            done = sum(run(partial(_removed, store, dry_run, threads), batches), OrphanFiles())
            meter.add(len(batches), 0, done.size)
            return done
        done = OrphanFiles()
        for batch in _in_batches(orphans, BATCH):
            references.refresh()
            removed = _removed(store, dry_run, threads, _unknown(batch, references.used))
            meter.add(0, 0, removed.size)
            done += removed
        return done


def _in_batches(orphans: Sequence[_Candidate], size: int) -> list[Sequence[_Candidate]]:
    return [orphans[at : at + size] for at in range(0, len(orphans), size)]


def _removed(store: Store, dry_run: bool, threads: int | None, orphans: Sequence[_Candidate]) -> OrphanFiles:
    infos = [orphan.info for orphan in orphans]
    if not dry_run:
        delete_files(store, [info.path for info in infos], threads)
        remove_empty_folders(store, (o.info.path.rsplit("/", 1)[0] for o in orphans if o.in_bucket))
        for folder in sorted({o.staging for o in orphans if o.staging}):
            store.env.storage.delete_empty(folder)
    return OrphanFiles(len(infos), sum(info.size for info in infos), tuple(info.path for info in infos))


# ---------------------------------------------------------------------------------------------- looking for them


def _found(references: References, before: int, run: Run | None) -> list[_Candidate]:
    """The orphans by path: names known neither before the walk nor after it, in folders that lack nothing."""
    store, meter, told = references.store, references.meter, references.told
    folders, loose = _folders(store)
    meter.expect(len(folders))
    walked = []
    if run is None:
        for folder in folders:
            walked.append(_walked(store, before, references.used, folder))
            meter.add()
    else:
        with _shared(store, references.used) as used:
            walked = run(partial(_walked, store, before, used), folders)
        meter.add(len(folders))
    references.refresh()
    strays = [*_fitting(store, before, loose), *chain.from_iterable(one.strays for one in walked)]
    orphans = sorted(_unknown(strays, references.used), key=lambda orphan: orphan.info.path)
    if all(orphan.sure for orphan in orphans):
        return orphans
    missing = without(told, distinct([one.seen for one in walked]))
    lacking = references.folders_lacking(missing)
    if lacking:  # or expired since they were told of
        now = References(store, Meter.of_table("remove orphans", store.paths.root, store.env.clock))
        now.refresh()
        lacking = now.folders_lacking(missing[members(now.told, missing)])
    kept = [orphan for orphan in orphans if not orphan.sure and _folder(orphan) in lacking]
    if kept:
        warnings.warn(
            f"{store.paths.root}: {len(kept)} files that nothing refers to stay: files are missing beside them, so "
            f"damaged manifests may tell wrong names (the first stays in {_folder(kept[0])}); CALL sys.fsck tells what "
            "is missing",
            stacklevel=3,
        )
    return [orphan for orphan in orphans if orphan.sure or _folder(orphan) not in lacking]


def _folders(store: Store) -> tuple[list[tuple[str, str]], list[tuple[str, FileInfo]]]:
    """What tasks walk, as (place, folder), and the files that lie in none of these folders."""
    root, data_root = store.paths.root, store.paths.data_root
    folders, loose = [], []
    for place, top in [
        (root, root),
        *([(root, data_root)] if data_root != root else []),
        *((place, place) for place in external_places(store)),
    ]:
        for info in store.env.storage.list(top):
            if info.is_link:
                continue  # what it leads to is not ours
            if not info.is_dir:
                loose.append((place, info))
            elif not f"{data_root}/".startswith(f"{info.path}/"):
                folders.append((place, info.path))
    return folders, loose


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


@dataclass(frozen=True, slots=True)
class _Walked:
    """What a folder holds: the files that are old enough and have no known name, and which known names it has."""

    strays: list[_Candidate]
    seen: Hashes


def _walked(store: Store, before: int, used: Hashes | str, unit: tuple[str, str]) -> _Walked:
    """Look through a folder; what a task does."""
    place, folder = unit
    known = np.frombuffer(store.env.storage.read(used, 0, LARGEST_LONG), np.int64) if isinstance(used, str) else used
    files = store.env.storage.walk(folder)
    strays: list[_Candidate] = []
    seen = [np.zeros(0, np.int64)]
    while batch := list(islice(files, BATCH)):
        names = hashes(info.name for info in batch)
        seen.append(names[members(known, names)])
        strays += _unknown(list(_fitting(store, before, ((place, info) for info in batch))), known)
    return _Walked(strays, np.concatenate(seen))


# ---------------------------------------------------------------------------------------------- what is there


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A file old enough. `sure`: nothing can refer to such a file."""

    info: FileInfo
    sure: bool = False
    in_bucket: bool = False
    staging: str = ""


def _fitting(store: Store, before: int, files: Iterable[tuple[str, FileInfo]]) -> Iterator[_Candidate]:
    """The candidates among the files of places: the table's folder, and those outside."""
    root = store.paths.root
    for place, info in files:
        if info.modified_millis < before:
            inside = place == root
            found = (inside and _metadata(info, root)) or _data(store, info, store.paths.data_root if inside else place)
            if found:
                yield found


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


def _folder(candidate: _Candidate) -> str:
    return candidate.info.path.rpartition("/")[0]


def _unknown(candidates: Sequence[_Candidate], used: Hashes) -> list[_Candidate]:
    """Those that nothing refers to, by the ascending hashes of what is used."""
    names = hashes(candidate.info.name for candidate in candidates)
    places = np.searchsorted(used, names)
    found = np.zeros(len(names), np.bool_)
    inside = places < len(used)
    found[inside] = used[places[inside]] == names[inside]
    return [c for c, known in zip(candidates, found.tolist(), strict=True) if c.sure or not known]
