"""What a table's snapshots, tags, branches and changelogs refer to.

    References(store, meter).refresh()      read it
    references.used, references.told        hashes of names: of all of it, and of what must be there
    references.folders_lacking(missing)     where files that are told of are not

Spec: docs/spec/expiry.md#orphans
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import partial
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from bucketlake.errors import CorruptError, InvalidError, NotFoundError
from bucketlake.format.data.pieces import piece_of
from bucketlake.format.metadata.manifest import FileKind, FileRef, ManifestFile
from bucketlake.format.metadata.snapshot import Snapshot, decode_snapshot
from bucketlake.format.numbers import distinct, is_among, members, without
from bucketlake.ops.clean.removal import readable_list
from bucketlake.ops.progress import Meter
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.store import Store
from bucketlake.paths import MAIN
from bucketlake.values import dataclass

__all__ = ["Hashes", "References", "external_places", "hashes"]

READ_TOGETHER = 64  # manifests whose entries are in memory at once

Hashes = npt.NDArray[np.int64]
_NONE = np.zeros(0, np.int64)


def external_places(store: Store) -> list[str]:
    """Folders outside of the table that it writes data files to: none unless its strategy uses them, and of these
    those alone that the session allows."""
    if store.options.get("data-file.external-paths.strategy") == "none":
        return []
    places = store.paths.external_roots
    return [place for place in places if not f"{place}/".startswith(f"{store.paths.root}/")]


@dataclass(slots=True)
class References:
    """Names that snapshots, tags, branches and changelogs refer to, as hashes. A file of the manifests counts where it
    is live in at least one of them."""

    store: Store
    meter: Meter
    seen: set[tuple[str | None, ...]] = field(default_factory=set)
    names: set[int] = field(default_factory=set)  # of metadata, and of files whatever happens to them
    changes: list[Hashes] = field(default_factory=list)  # of changelog files, whether they must be there or not
    shown: dict[str, _Manifest] = field(default_factory=dict)  # manifests of changelogs whose files must be there
    manifests: dict[str, _Manifest] = field(default_factory=dict)  # by their names
    roots: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)  # each snapshot's file, and its manifests
    indexes: dict[str, _Indexes] = field(default_factory=dict)  # index manifests, by their names
    used: Hashes = field(default_factory=lambda: _NONE)
    told: Hashes = field(default_factory=lambda: _NONE)  # of `used`, what must be there
    settled: int = -1  # how many of `seen` are in `used`

    def refresh(self) -> None:
        """Add what there is that was not there before; where nothing is new it costs a look at the folders.

        Raises CorruptError where something exists and its files do not, or was there and is lost: nothing can be told
        then; NotFoundError for a table that was dropped. Of a branch without schemas, which nobody can open (half made,
        half deleted, or written to as it was deleted), what is left is kept.
        """
        branches = [MAIN, *self.store.branches()]
        stores = [self.store.on_branch(name) for name in branches]
        shut = {n for n, s in zip(branches, stores, strict=True) if not s.env.storage.list(s.paths.schema_dir)}
        if MAIN in shut:
            if not self.store.snapshot_ids():
                self.store.check_same()
            raise CorruptError("a table without schemas", path=self.store.paths.root, remedy="CALL sys.fsck")
        for name, store in zip(branches, stores, strict=True):
            if name not in shut:
                _refuse_lost(store)
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
                found = parallel(partial(_Manifest.read, store), some, store.manifest_threads)
                self.manifests.update(zip((m.file_name for m in some), found, strict=True))
            listed = snapshot.index_manifest
            indexes = None if listed is None else self.indexes.get(listed) or _Indexes.read(store, listed)
            self._add_changes(store, snapshot.changelog_manifest_list, strict)
        except NotFoundError as error:
            now = _held(store, path)
            self.seen.discard(_files_of("snapshot", snapshot))  # a tag, or a branch, of the same files is still to come
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
        self.roots.append((path, tuple(m.file_name for m in data)))
        self._name([snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.index_manifest])
        self._name([snapshot.statistics, *(m.file_name for m in data)])
        if indexes is not None:
            self.indexes[indexes.name] = indexes

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
                manifest = _Manifest.read(store, file)
            except NotFoundError:
                if strict:
                    raise
                continue
            self.changes.append(manifest.added)
            if strict:
                self.shown[file.file_name] = manifest
        self._name([list_name, *(file.file_name for file in files)])

    def _name(self, names: Iterable[str | None]) -> None:
        self.names.update(hashes(name for name in names if name is not None).tolist())

    def _settle(self) -> None:
        """Compute `used`, and `told`: what is added and never deleted, and of the rest what is live in a root."""
        read = self.manifests.values()
        added = np.concatenate([_NONE, *(manifest.added for manifest in read)])
        deleted = distinct([manifest.deleted for manifest in read])
        live = [without(added, deleted)]
        self._refuse_doubled()
        if len(deleted):
            self._refuse_contradictions()
            doubtful = {name: one.added[members(deleted, one.added)] for name, one in self.manifests.items()}
            live += [_live(root, doubtful, self.manifests) for _, root in self.roots]
        named = np.fromiter(self.names, np.int64, len(self.names))
        live += [manifest.added for manifest in self.shown.values()]
        live += [manifest.added for manifest in self.indexes.values()]
        self.told = distinct(live)
        self.used = distinct([self.told, named, *self.changes])

    def _refuse_contradictions(self) -> None:
        """Raise CorruptError where a snapshot's manifests delete what they have not added: no reader takes them, and
        what is live of the rest is not known."""
        gone = distinct([manifest.gone for manifest in self.manifests.values()])
        came = {name: one.came[members(gone, one.came)] for name, one in self.manifests.items()}
        for path, root in self.roots:
            counts = _counted([came[name] for name in root], [self.manifests[name].gone for name in root])[1]
            if (counts < 0).any():
                raise CorruptError(
                    "cannot tell what is referred to: manifests delete files that they have not added",
                    found_in=path,
                    remedy="CALL sys.fsck tells which; repair or remove what refers to them, then call again",
                )

    def _refuse_doubled(self) -> None:
        """Raise CorruptError where a snapshot's manifests add a file twice: one of them may have told of another file
        before it was damaged, which would be nobody's now."""
        came = np.sort(np.concatenate([_NONE, *(manifest.came for manifest in self.manifests.values())]))
        often = distinct([came[1:][came[1:] == came[:-1]]])  # most of all those of manifests that were merged
        some = {
            name: (one.came[members(often, one.came)], one.gone[members(often, one.gone)])
            for name, one in self.manifests.items()
            if len(often)
        }
        held = [frozenset(root) for _, root in self.roots]
        for place, (path, root) in enumerate(self.roots):
            doubled = len(held[place]) < len(root)
            later = held[place + 1] if place + 1 < len(held) else frozenset()
            # The next one shows it too, where it has all these manifests and takes none of these files away.
            shown = held[place] <= later and not any(len(some[name][1]) for name in later - held[place] if some)
            if some and not shown:
                counts = _counted([some[name][0] for name in root], [some[name][1] for name in root])[1]
                doubled = doubled or bool((counts > 1).any())
            if doubled:
                raise CorruptError(
                    "cannot tell what is referred to: manifests add a file twice",
                    found_in=path,
                    remedy="CALL sys.fsck tells which; repair or remove what refers to it, then call again",
                )

    def folders_lacking(self, missing: Hashes) -> set[str]:
        """The folders in which a file that is told of is not, of those with these names. Costs nothing without them."""
        lacking: set[str] = set()
        names = frozenset(missing.tolist())
        if names:
            told: list[_Manifest | _Indexes] = [*self.manifests.values(), *self.shown.values()]
            told += self.indexes.values()
            for one in told:
                if is_among(one.added, missing).any():
                    lacking |= _folders_lacking(one.store, one.paths(names))
        return lacking


@dataclass(frozen=True, slots=True)
class _Manifest:
    """A manifest, and the names that it adds and deletes; what lies beside a file is with it. `came`, `gone`: the
    entries themselves, by all that tells one from another."""

    store: Store
    file: ManifestFile
    added: Hashes
    deleted: Hashes
    came: Hashes
    gone: Hashes

    @classmethod
    def read(cls, store: Store, file: ManifestFile) -> _Manifest:
        """NotFoundError where it is gone."""
        refs = store.refs(file)
        added = [ref for ref in refs if ref.kind == FileKind.ADD]
        deleted = [ref for ref in refs if ref.kind != FileKind.ADD]
        return cls(store, file, _hashes_of(added), _hashes_of(deleted), _entries_of(added), _entries_of(deleted))

    def paths(self, names: frozenset[int]) -> list[str]:
        """Where the files with these names lie, with what lies beside them; none where the manifest is gone by now:
        what it told of may go too."""
        found = []
        with suppress(NotFoundError):
            for ref in self.store.refs(self.file):
                if ref.kind == FileKind.ADD and not names.isdisjoint(_hashes_of([ref]).tolist()):
                    found += _paths(self.store, ref)
        return found


@dataclass(frozen=True, slots=True)
class _Indexes:
    """An index manifest, and the names of the files that it tells of."""

    store: Store
    name: str
    added: Hashes

    @classmethod
    def read(cls, store: Store, name: str) -> _Indexes:
        """NotFoundError where it is gone."""
        return cls(store, name, hashes(entry.file.file_name for entry in store.index_entries(name)))

    def paths(self, names: frozenset[int]) -> list[str]:
        """See `_Manifest.paths`."""
        found = []
        with suppress(NotFoundError):
            for entry in self.store.index_entries(self.name):
                if not names.isdisjoint(hashes([entry.file.file_name]).tolist()):
                    with suppress(InvalidError):  # the session does not allow to look there
                        found.append(self.store.paths.index_path(entry.partition, entry.bucket, entry.file))
        return found


def _paths(store: Store, ref: FileRef) -> list[str]:
    folder = store.paths.bucket_dir(ref.partition, ref.bucket)
    with suppress(InvalidError):  # the session does not allow to look there
        path = store.paths.file_path(folder, ref)
        return [path, *(store.paths.extra_path(folder, ref, name) for name in ref.extra_files)]
    return []


def _folders_lacking(store: Store, paths: Sequence[str]) -> set[str]:
    there = parallel(lambda path: store.env.storage.info(path) is not None, paths, store.manifest_threads)
    return {path.rpartition("/")[0] for path, found in zip(paths, there, strict=True) if not found}


def _files_of(kind: str, snapshot: Snapshot) -> tuple[str | None, ...]:
    """What two snapshots have in common that refer to the same files."""
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list)
    return kind, *lists, snapshot.index_manifest, snapshot.statistics


def _live(root: Sequence[str], added: Mapping[str, Hashes], manifests: Mapping[str, _Manifest]) -> Hashes:
    """Of the files that some manifest deletes, those live in one snapshot: added once more than deleted."""
    names, counts = _counted([added[name] for name in root], [manifests[name].deleted for name in root])
    return names[counts > 0]


def _counted(plus: Sequence[Hashes], minus: Sequence[Hashes]) -> tuple[Hashes, Hashes]:
    """Each once, and how much more often it is in `plus` than in `minus`."""
    names, places = np.unique(np.concatenate([_NONE, *plus, *minus]), return_inverse=True)
    weights = np.repeat([1, -1], [sum(map(len, plus)), sum(map(len, minus))])
    return names, np.bincount(places, weights, len(names)).astype(np.int64)


def _hashes_of(files: Iterable[FileRef]) -> Hashes:
    return hashes(name for file in files for name in _names_of(file))


def _entries_of(files: Sequence[FileRef]) -> Hashes:
    """By Python's own hashes, quicker than digests: they are compared in this process alone."""
    told = ((f.partition, f.bucket, f.level, f.file_name, f.extra_files, f.external_path) for f in files)
    return np.fromiter(map(hash, told), np.int64, len(files))


def _names_of(file: FileRef) -> tuple[str, ...]:
    """Of a piece the name of the whole; of a file that lies elsewhere also what its path ends with: a damaged manifest
    may tell two names."""
    piece = piece_of(file.file_name)
    name = file.file_name if piece is None else piece.file_name
    if file.external_path is None or piece is not None:
        return (name, *file.extra_files)
    return (name, file.external_path.rpartition("/")[2], *file.extra_files)


def hashes(names: Iterable[str]) -> Hashes:
    """Of each name 64 bits, the same in every process."""
    return np.frombuffer(b"".join(map(_digest, names)), np.int64)


def _digest(name: str) -> bytes:
    return blake2b(name.encode(), digest_size=8).digest()


def _refuse_lost(store: Store) -> None:
    """Raise CorruptError where the hint names a later snapshot than there is: a rollback lowers it before it takes one
    away, so that one was lost, and its files are no orphans."""
    if store.env.keeper is not None and store.env.keeper.manages:
        return
    says = store.hint(store.paths.latest_hint)
    if says is None or store.has_snapshot(says) or max(store.snapshot_ids(), default=0) >= says:
        return
    if store.hint(store.paths.latest_hint) == says:
        raise CorruptError(
            "cannot tell what is referred to: the hint names a newest snapshot that is not there",
            path=store.paths.latest_hint,
            snapshot=says,
            remedy=f"restore snapshot-{says} from a copy; where nobody needs it, CALL sys.repair_table sets the hint",
        )


def _existing(ids: Sequence[int], find: Callable[[int], Snapshot | None], store: Store) -> list[Snapshot]:
    return [item for item in parallel(find, ids, store.manifest_threads) if item is not None]


def _held(store: Store, path: str) -> Snapshot | None:
    """What a snapshot's, or a tag's, file holds by now, None where it is gone."""
    try:
        return decode_snapshot(store.env.storage.read(path), path)
    except NotFoundError:
        return None
