"""What goes with expired snapshots or changelogs: their files, less those that anything left still needs.

    removal = snapshots_removal(store, span)     or changelogs_removal(store, span); reads only
    remove(store, removal)                        data files, empty folders, then metadata

What is left: the snapshots from `span.kept` on, tags, other branches, changelogs that outlive their snapshots. Files
are live over one stretch of snapshots, so that of a line only its members next to the span have to be asked; unless a
rollback adds files again (Paimon's `rollback_to_as_latest`): of what it brought back every later OVERWRITE is asked,
and every tag that is older than the span and not older than the file.

Spec: docs/spec/expiry.md#what-goes
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import field
from functools import cache
from itertools import pairwise

from bucketlake.errors import CorruptError, NotFoundError, StorageError
from bucketlake.format.index.index_manifest import IndexEntry
from bucketlake.format.metadata.manifest import FileKind, FileRef, FileSource, ManifestFile
from bucketlake.format.metadata.snapshot import CommitKind, Snapshot, encode_snapshot
from bucketlake.ops.commit.strays import is_open
from bucketlake.ops.scan.line import follows
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.partition_stats import may_hold
from bucketlake.ops.table.store import Store
from bucketlake.paths import MAIN
from bucketlake.values import dataclass

FileKey = tuple[bytes, int, str]  # partition, bucket, file name
ATTEMPTS = 5
BATCH = 1000  # files that one call of the storage deletes
THREADS = 16
TRIED = 64  # files that are deleted before more threads are started
QUICK = 0.1  # milliseconds that each of these may take, so that none are
CLOCKS = 48 * 3600_000  # by how much clocks, and the zones that files' times are in, may differ


@dataclass(frozen=True, slots=True)
class Span:
    """`gone`: snapshots, or changelogs, that expire, ascending, oldest of their line; `kept`: the next one, None if
    none is left. `decoupled`: changelogs outlive their snapshots; `produces`: the table writes changelog files."""

    gone: tuple[Snapshot, ...]
    kept: Snapshot | None
    decoupled: bool = False
    produces: bool = True

    @property
    def lists_stay(self) -> bool:
        """Whether the files of a commit itself are its changelog, and stay as long as that."""
        return self.decoupled and not self.produces


@dataclass(frozen=True, slots=True)
class Removal:
    """Paths to delete. `buckets`: whose folders may be empty afterwards."""

    data: tuple[str, ...] = ()
    metadata: tuple[str, ...] = ()
    buckets: frozenset[tuple[bytes, int]] = frozenset()


def snapshots_removal(store: Store, span: Span, tags: Sequence[Snapshot]) -> Removal:
    """What goes with snapshots. `tags`: all that there are.

    Raises NotFoundError if something that is left vanishes meanwhile: look again.
    """
    assert span.kept is not None
    going = _Candidates(store)
    for snapshot in (*span.gone[1:], span.kept):
        going.dropped_by(snapshot, only_compacted=span.lists_stay)
    if not _is_line(store, (*span.gone, span.kept)):
        going.keep_live(store, span.kept)  # one of them may belong to no history: what it deletes is not deleted
    if not span.decoupled:
        for snapshot in span.gone:
            going.added_as_changelog(snapshot)
    names = _Names(store)
    for snapshot in span.gone:
        if not span.lists_stay:
            names.offer_data(snapshot)
        if not span.decoupled:
            names.offer_changelog(snapshot)
        names.offer_indexes(snapshot)
    names.keep(span.kept)
    kept = span.kept
    later = cache(lambda: store.snapshots_after(kept.id))
    _keep_for_rollbacks(later, going, names)
    _keep_for_forks(store, (kept, later), going, names)
    leftover = () if span.decoupled else tuple(store.changelogs())
    for changelog in leftover:
        going.keep_changelog(changelog)
        names.keep_changelog(changelog)
    _keep_for_others(store, span, tags, going, names)
    return going.removal(names)


def changelogs_removal(store: Store, span: Span, earliest: Snapshot, tags: Sequence[Snapshot]) -> Removal:
    """What goes with changelogs that had outlived their snapshots. `earliest`: the oldest snapshot; `tags`: all.

    Raises NotFoundError if something that is left vanishes meanwhile: look again.
    """
    going = _Candidates(store)
    names = _Names(store)
    for changelog in span.gone:
        if changelog.changelog_manifest_list is not None:
            going.added_as_changelog(changelog)
            names.offer_changelog(changelog)
        if changelog.changelog_manifest_list is None or not span.produces:
            going.dropped_by(changelog)
            names.offer_data(changelog)
    names.keep(earliest)
    if span.kept is not None:
        going.keep_changelog(span.kept)
        names.keep_changelog(span.kept)
        first = span.kept.id
        _keep_for_rollbacks(lambda: (one for one in store.changelogs() if one.id >= first), going, names)
    _keep_for_rollbacks(lambda: store.snapshots_after(earliest.id - 1), going, names)
    _keep_for_others(store, span, tags, going, names)
    return going.removal(names)


def tag_removal(store: Store, tag: Snapshot) -> Removal:
    """What goes with a tag whose name is gone and whose snapshot has expired: what no branch, its own included, has in
    a snapshot, a tag or a changelog.

    Raises NotFoundError if something that is left vanishes meanwhile: look again.
    """
    going = _Candidates(store)
    going.live_in(tag)
    names = _Names(store)
    names.offer_data(tag)
    names.offer_indexes(tag)
    own = store.branch_name
    for branch in dict.fromkeys((own, MAIN, *store.branches())):
        _keep_for_branch(store if branch == own else store.on_branch(branch), going, names)
    return going.removal(names)


def _is_line(store: Store, snapshots: Sequence[Snapshot]) -> bool:
    """Whether each snapshot was made on the one before it."""
    return all(follows(store, left, right) for left, right in pairwise(snapshots))


def _keep_for_rollbacks(later: Callable[[], Iterable[Snapshot]], going: _Candidates, names: _Names) -> None:
    """Take out what later commits add again, data files and index files."""
    if going.files or names.indexes:
        for snapshot in later():
            if snapshot.commit_kind is CommitKind.OVERWRITE:
                going.keep_added(snapshot.delta_manifest_list)
                names.keep_indexes(snapshot)


def _keep_for_forks(
    store: Store, left: tuple[Snapshot, Callable[[], list[Snapshot]]], going: _Candidates, names: _Names
) -> None:
    """Take out what later snapshots need that do not stand on the ones before them: one that was put above a rollback,
    by a writer that died then, and below which another filled the gap. Only pairs are looked into that do not fit.
    `left`: the next snapshot, and the later ones."""
    if not (going.files or names.offered):
        return
    kept, later = left
    for before, right in pairwise((kept, *later())):
        if _fits(before, right) or follows(store, before, right):
            continue
        try:
            going.keep_live(store, right)
            names.keep(right, changelog=True)
        except NotFoundError:
            if not _is_there(store, right):
                raise  # it went meanwhile


def _fits(left: Snapshot, right: Snapshot) -> bool:
    """Whether times and counts of a snapshot follow from those of the one before it."""
    if right.id != left.id + 1 or right.time_millis < left.time_millis:
        return False
    return right.total_record_count == left.total_record_count + right.delta_record_count


def _keep_for_others(store: Store, span: Span, tags: Sequence[Snapshot], going: _Candidates, names: _Names) -> None:
    """Take out what tags and other branches need."""
    if not (going.files or names.offered):
        return
    beside, far = _by_nearness(store, tags, span)
    for tag in beside:
        going.keep_live(store, tag)
        names.keep(tag)
    for tag in far:
        going.keep_live(store, tag, older_only=True)
        if names.indexes:
            names.keep_indexes(tag)
    own = store.branch_name
    for branch in (MAIN, *store.branches()):
        if branch != own and (going.files or names.offered):
            _keep_for_branch(store.on_branch(branch), going, names)


def _by_nearness(store: Store, tags: Sequence[Snapshot], span: Span) -> tuple[list[Snapshot], list[Snapshot]]:
    """Tags that share files with the span if anything does: those within it, the last one before it, and later ones of
    a history that was rolled back; and the older ones, with which it shares what a rollback has brought back."""
    ordered = sorted(tags, key=lambda tag: tag.id)
    ids = [tag.id for tag in ordered]
    first = max(bisect_left(ids, span.gone[0].id) - 1, 0)
    end = len(ids) if span.kept is None else bisect_left(ids, span.kept.id)
    strange = [tag for tag in ordered[end:] if not _is_there(store, tag)]
    return [*ordered[first:end], *strange], ordered[:first]


def _is_there(store: Store, tag: Snapshot) -> bool:
    """Whether a tag's snapshot is still one of the table's."""
    found = store.find_snapshot(tag.id)
    return found is not None and found.uuid == tag.uuid


def _keep_for_branch(branch: Store, going: _Candidates, names: _Names) -> None:
    """Another branch needs what is live in its oldest snapshot, and in each that does not stand on the one before, what
    the others add, its tags, its changelogs."""
    previous: Snapshot | None = None
    for snapshot in branch.snapshots():
        names.keep(snapshot, changelog=True)
        if previous is None or not (_fits(previous, snapshot) or follows(branch, previous, snapshot)):
            going.keep_live(branch, snapshot)
        else:
            going.keep_added(snapshot.delta_manifest_list)
        if snapshot.changelog_manifest_list is not None:
            going.keep_added(snapshot.changelog_manifest_list)
        previous = snapshot
    for tag in branch.tags().values():
        names.keep(tag, changelog=True)
        going.keep_live(branch, tag)
    for changelog in branch.changelogs():
        names.keep_changelog(changelog)
        going.keep_changelog(changelog)


# ---------------------------------------------------------------------------------------------- data files


@dataclass(slots=True)
class _Candidates:
    """Data and changelog files that may go: key → paths of the file and of what lies beside it."""

    store: Store
    files: dict[FileKey, list[str]] = field(default_factory=dict)
    _created: dict[FileKey, int | None] = field(default_factory=dict)
    _folders: dict[tuple[bytes, int], str] = field(default_factory=dict)

    def dropped_by(self, snapshot: Snapshot, only_compacted: bool = False) -> None:
        """Files that a commit removed. One that it adds again, at another level, stays."""
        added: set[FileKey] = set()
        for entry in _readable(self.store, snapshot.delta_manifest_list):
            if entry.kind == FileKind.ADD:
                added.add(_key(entry))
            elif not (only_compacted and entry.file_source is not FileSource.COMPACT):
                self._add(entry)
        for key in added & self.files.keys():
            del self.files[key]

    def live_in(self, snapshot: Snapshot) -> None:
        """Files that are live in a snapshot; nothing of manifests that are gone."""
        counts: dict[FileKey, int] = {}
        for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
            for entry in _readable(self.store, name):
                key, added = _key(entry), entry.kind == FileKind.ADD
                counts[key] = counts.get(key, 0) + (1 if added else -1)
                if added:
                    self._add(entry)
        self.files = {key: paths for key, paths in self.files.items() if counts[key] > 0}

    def added_as_changelog(self, snapshot: Snapshot) -> None:
        """The changelog files of a commit."""
        if snapshot.changelog_manifest_list is not None:
            for entry in _readable(self.store, snapshot.changelog_manifest_list):
                if entry.kind == FileKind.ADD:
                    self._add(entry)

    def _add(self, entry: FileRef) -> None:
        paths, place, key = self.store.paths, (entry.partition, entry.bucket), _key(entry)
        folder = self._folders.get(place) or self._folders.setdefault(place, paths.bucket_dir(*place))
        beside = [paths.extra_path(folder, entry, name) for name in entry.extra_files]
        self.files[key] = [paths.file_path(folder, entry), *beside]
        self._created[key] = entry.creation_time

    def keep_changelog(self, changelog: Snapshot) -> None:
        """Keep what a changelog that outlives its snapshot shows."""
        shown = changelog.changelog_manifest_list
        self.keep_added(changelog.delta_manifest_list if shown is None else shown)

    def keep_added(self, list_name: str) -> None:
        """Keep files that the manifests of a list add. Those that are gone need nothing any more."""
        if not self.files:
            return
        manifests = [m for m in readable_list(self.store, list_name) if m.num_added_files]
        for manifest in self._may_hold(self.store, manifests, self.files):
            for entry in _readable_entries(self.store, manifest):
                if entry.kind == FileKind.ADD:
                    self.files.pop(_key(entry), None)

    def keep_live(self, store: Store, snapshot: Snapshot, older_only: bool = False) -> None:
        """Keep files that are live in a snapshot. `older_only`: the only ones looked for are those that were made
        before it, by their writers' clocks."""
        wanted: Collection[FileKey] = self.files.keys()
        if older_only:
            latest = snapshot.time_millis + CLOCKS
            wanted = {key for key in self.files if (self._created.get(key) or 0) <= latest}
        if not wanted:
            return
        counts: dict[FileKey, int] = {}
        for manifest in self._may_hold(store, store.data_manifests(snapshot), wanted):
            for entry in _within(store, manifest, store.refs(manifest, keep=True)):
                key = _key(entry)
                if key in wanted:
                    counts[key] = counts.get(key, 0) + (1 if entry.kind == FileKind.ADD else -1)
        for key, count in counts.items():
            if count > 0:
                del self.files[key]

    @staticmethod
    def _may_hold(store: Store, manifests: Iterable[ManifestFile], wanted: Collection[FileKey]) -> list[ManifestFile]:
        partitions = {key[0] for key in wanted}
        types = [item.type for item in store.schema.partition_fields]
        return [manifest for manifest in manifests if may_hold(manifest, partitions, types)]

    def removal(self, names: _Names) -> Removal:
        """What is left to remove."""
        data = tuple(path for paths in self.files.values() for path in paths)
        return Removal(data, tuple(names.paths()), frozenset((part, bucket) for part, bucket, _ in self.files))


def _key(entry: FileRef) -> FileKey:
    return entry.partition, entry.bucket, entry.file_name


# ---------------------------------------------------------------------------------------------- metadata


@dataclass(slots=True)
class _Names:
    """Metadata files that may go, by name, and those that stay."""

    store: Store
    offered: dict[str, str] = field(default_factory=dict)  # name → path, in the order of deletion
    kept: set[str] = field(default_factory=set)
    indexes: bool = False  # index files or statistics are among them, which a rollback may bring back

    def offer_data(self, snapshot: Snapshot) -> None:
        """The manifest lists of a snapshot and their manifests."""
        for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
            self._offer_list(name)

    def offer_changelog(self, snapshot: Snapshot) -> None:
        """The manifest list of a snapshot's changelog and its manifests."""
        if snapshot.changelog_manifest_list is not None:
            self._offer_list(snapshot.changelog_manifest_list)

    def _offer_list(self, name: str) -> None:
        paths = self.store.paths
        for manifest in readable_list(self.store, name):
            self.offered[manifest.file_name] = paths.manifest(manifest.file_name)
        self.offered[name] = paths.manifest(name)

    def offer_indexes(self, snapshot: Snapshot) -> None:
        """A snapshot's index files, index manifest and statistics."""
        paths = self.store.paths
        self.indexes = self.indexes or snapshot.index_manifest is not None or snapshot.statistics is not None
        if snapshot.index_manifest is not None:
            for entry in _readable_indexes(self.store, snapshot.index_manifest):
                path = paths.index_path(entry.partition, entry.bucket, entry.file)
                self.offered[entry.file.file_name] = path
            self.offered[snapshot.index_manifest] = paths.manifest(snapshot.index_manifest)
        if snapshot.statistics is not None:
            self.offered[snapshot.statistics] = paths.statistics(snapshot.statistics)

    def keep(self, snapshot: Snapshot, changelog: bool = False) -> None:
        """Keep all metadata of a snapshot, and if told what is left of its changelog's. NotFoundError if it is not
        all there."""
        if changelog and snapshot.changelog_manifest_list is not None:
            self._keep_readable(snapshot.changelog_manifest_list)
        self.kept.update((snapshot.base_manifest_list, snapshot.delta_manifest_list))
        self.kept.update(manifest.file_name for manifest in self.store.data_manifests(snapshot))
        if snapshot.index_manifest is not None:
            self.kept.add(snapshot.index_manifest)
            self.kept.update(entry.file.file_name for entry in self.store.index_manifest(snapshot))
        if snapshot.statistics is not None:
            self.kept.add(snapshot.statistics)

    def keep_indexes(self, snapshot: Snapshot) -> None:
        """Keep the index files and the statistics of a snapshot, which another one may share that is far from it."""
        if snapshot.index_manifest is not None:
            self.kept.add(snapshot.index_manifest)
            found = _readable_indexes(self.store, snapshot.index_manifest)
            self.kept.update(entry.file.file_name for entry in found)
        if snapshot.statistics is not None:
            self.kept.add(snapshot.statistics)

    def keep_changelog(self, changelog: Snapshot) -> None:
        """Keep what is left of the metadata of a changelog that outlives its snapshot."""
        shown = changelog.changelog_manifest_list
        lists = [changelog.base_manifest_list, changelog.delta_manifest_list] if shown is None else [shown]
        for name in lists:
            self._keep_readable(name)

    def _keep_readable(self, name: str) -> None:
        self.kept.add(name)
        self.kept.update(manifest.file_name for manifest in readable_list(self.store, name))

    def paths(self) -> Iterator[str]:
        """What goes."""
        return (path for name, path in self.offered.items() if name not in self.kept)


def _readable(store: Store, list_name: str) -> Iterator[FileRef]:
    """Entries of the manifests of a list; nothing of what another expiry has removed already."""

    def entries(manifest: ManifestFile) -> Sequence[FileRef]:
        return _readable_entries(store, manifest)

    for part in parallel(entries, readable_list(store, list_name), store.manifest_threads):
        yield from part


def _readable_entries(store: Store, manifest: ManifestFile) -> Sequence[FileRef]:
    try:
        return _within(store, manifest, store.refs(manifest))
    except NotFoundError:
        return ()


def _within(store: Store, manifest: ManifestFile, entries: Sequence[FileRef]) -> Sequence[FileRef]:
    """The entries of a manifest. CorruptError where one is of a partition that its list says it has none of: what is
    live would be told by which manifests are passed over."""
    types = [item.type for item in store.schema.partition_fields]
    if types:
        for partition in {entry.partition for entry in entries}:
            if not may_hold(manifest, [partition], types):
                raise CorruptError(
                    "a manifest has an entry of a partition that its manifest list says it has none of",
                    path=store.paths.manifest(manifest.file_name),
                    partition=store.paths.partition_path(partition),
                    remedy="nothing was removed; CALL sys.fsck tells of all such entries",
                )
    return entries


def readable_list(store: Store, name: str) -> tuple[ManifestFile, ...]:
    """The manifests of a list; none if it is gone."""
    try:
        return store.manifest_list(name)
    except NotFoundError:
        return ()


def _readable_indexes(store: Store, name: str) -> tuple[IndexEntry, ...]:
    try:
        return store.index_entries(name)
    except NotFoundError:
        return ()


# ---------------------------------------------------------------------------------------------- deleting


def remove(store: Store, removal: Removal, clean_folders: bool = False) -> int:
    """Delete what goes, data first; how many files went. What cannot be deleted is left as an orphan.

    `clean_folders`: remove bucket folders, and those of partitions, that are empty then.
    """
    done = delete_files(store, removal.data)
    if clean_folders:
        remove_empty_folders(store, (store.paths.bucket_dir(*bucket) for bucket in removal.buckets))
    return done + delete_files(store, removal.metadata)


def delete_files(store: Store, paths: Sequence[str], threads: int | None = None) -> int:
    """Delete files, several at a time; how many the storage took. Failures leave them as orphans.

    Unless their number is said, there are several threads only where the first files show that each takes a while: on a
    local disk threads wait for each other at the folder.
    """
    threads, done = threads or store.options.get("file-operation.thread-num"), 0
    if threads is None:
        head, paths, clock = paths[:TRIED], paths[TRIED:], store.env.clock
        started = clock.now_millis()
        done = store.env.storage.delete_all(head) if head else 0
        threads = 1 if clock.now_millis() - started <= QUICK * len(head) else THREADS
    size = min(BATCH, -(-len(paths) // threads)) or 1
    batches = [paths[start : start + size] for start in range(0, len(paths), size)]
    return done + sum(parallel(store.env.storage.delete_all, batches, threads))


def delete_name(store: Store, path: str) -> None:
    """Delete a file that readers find by its name, again if the storage fails: what follows relies on it."""
    for attempt in range(ATTEMPTS):
        try:
            store.env.storage.delete(path)
        except StorageError:
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return


def take_names(store: Store, gone: Sequence[tuple[int, Snapshot | bytes]], kept: int) -> int:
    """Take the names of the oldest snapshots away, ascending, while `kept` stands behind them; how many went. `gone`:
    ids, and what their files hold.

    Where `kept` is gone a rollback takes it back, and the rest stays. The rollback may have gone to the one that went
    last, between two looks: where nothing else is left of a table that was not dropped its name is put back.
    """
    for place, (number, held) in enumerate(gone):
        if place == 0 and not store.has_snapshot(kept):
            return 0
        delete_name(store, store.paths.snapshot(number))
        if not store.has_snapshot(kept):
            if not store.snapshot_ids() and is_open(store):
                data = held if isinstance(held, bytes) else encode_snapshot(held)
                store.env.storage.put_if_absent(store.paths.snapshot(number), data)
            return place + 1
    return len(gone)


def remove_empty_folders(store: Store, buckets: Iterable[str]) -> None:
    """Remove bucket folders that are empty, and the folders of partitions above that then are."""
    for folder in sorted(set(buckets)):
        for _ in range(len(store.schema.partition_fields) + 1):
            if not store.env.storage.delete_empty(folder):
                break
            folder = folder.rsplit("/", 1)[0]
