"""What the roots of a table lead to: manifests, read once each, and the files that they speak of, as hashes.

    reach = Reach(store, findings); reach.follow(root) for every root; reach.settle()
    reach.files(root) -> (hashes, sizes)      the data files that are live in a root
    reach.expected() -> (hashes, sizes)       all that should be there: live in some root, or of a changelog

Of a file that no manifest deletes nothing more is to be asked; the others are counted root by root.

Spec: docs/maintenance.md#metadata
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

import numpy as np
import numpy.typing as npt

from bucketlake.errors import BucketlakeError, NotFoundError
from bucketlake.format.data.pieces import piece_of
from bucketlake.format.index.index_manifest import IndexEntry
from bucketlake.format.metadata.manifest import DataFile, FileKind, ManifestEntry, ManifestFile
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.format.metadata.statistics import TableStatistics, decode_statistics
from bucketlake.format.numbers import distinct, is_among, members
from bucketlake.ops.check.findings import Findings, Place, shown
from bucketlake.ops.check.inventory import Hashes, Sizes, path_hashes
from bucketlake.ops.check.roots import CHANGELOG, Root, attempted
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.partition_stats import may_hold
from bucketlake.ops.table.store import Store
from bucketlake.values import dataclass

_LEVEL = np.int64(0x9E3779B97F4A7C15 - (1 << 64))


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """The entries of one manifest. `keys`: which file at which level; `paths`: where it lies; `adds`: which entries
    add; `beside`: paths of what lies beside files that are added, and the entry that each belongs to."""

    keys: Hashes
    paths: Hashes
    sizes: Sizes
    adds: npt.NDArray[np.bool_]
    beside: Hashes
    owners: Hashes
    schemas: frozenset[int] = frozenset()
    rows: int = 0


@dataclass(slots=True)
class Reach:
    """Manifests by name, and the roots that name them."""

    store: Store
    findings: Findings
    lists: dict[str, tuple[ManifestFile, ...] | None] = field(default_factory=dict)
    parts: dict[str, Part | None] = field(default_factory=dict)
    roots: list[tuple[Root, tuple[str, ...], tuple[str, ...]]] = field(default_factory=list)  # data, changelog
    indexes: dict[str, tuple[IndexEntry, ...] | None] = field(default_factory=dict)
    metadata: dict[str, int] = field(default_factory=dict)  # path → the root that named it first
    dead: set[int] = field(default_factory=set)  # roots of which metadata is missing or broken
    _folders: dict[tuple[bytes, int], str] = field(default_factory=dict)
    _expected: tuple[Hashes, Sizes, Hashes] | None = None
    _deleted: Hashes = field(default_factory=lambda: np.zeros(0, np.int64))

    def follow_all(self, roots: Sequence[Root]) -> None:
        """Read what roots name."""
        for root in roots:
            self._follow(root)
        gone = [part.keys[~part.adds] for part in self.parts.values() if part is not None]
        self._deleted = distinct(gone)

    def _follow(self, root: Root) -> None:
        number, snapshot = len(self.roots), root.snapshot
        loose = root.kind == CHANGELOG
        data: list[str] = []
        changes: list[str] = []
        if loose:
            listed = snapshot.changelog_manifest_list
            shows = [(listed, snapshot.changelog_manifest_list_size)] if listed else []
            shows = shows or [(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)]
            for name, size in shows:
                changes += self._listed(root, number, name, size, root.may_lack)
            self._note(number, [snapshot.base_manifest_list, snapshot.delta_manifest_list])
        else:
            data += self._listed(root, number, snapshot.base_manifest_list, snapshot.base_manifest_list_size)
            data += self._listed(root, number, snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
            if snapshot.changelog_manifest_list is not None:
                size, dead = snapshot.changelog_manifest_list_size, number in self.dead
                changes += self._listed(root, number, snapshot.changelog_manifest_list, size, root.may_lack)
                if not dead:  # its rows are read without what it tells of changes
                    self.dead.discard(number)
            self._index(root, number)
            self._statistics(root, number)
        self.roots.append((root, tuple(data), tuple(changes)))

    def _note(self, number: int, names: Iterable[str | None]) -> None:
        for name in names:
            if name is not None:
                self.metadata.setdefault(self.store.paths.manifest(name), number)

    def _broken(self, kind: str, path: str, root: Root, number: int, error: BucketlakeError) -> None:
        """Say that a file that a root names is gone or damaged, unless the root is gone, too."""
        if not root.stands():
            return
        self.dead.add(number)
        what = "missing" if isinstance(error, NotFoundError) else "broken"
        self.findings.add(f"{kind}-{what}", shown(error), Place(path, snapshot=root.snapshot.id, holder=root.label))

    def _listed(self, root: Root, number: int, name: str, size: int | None, expires: bool = False) -> list[str]:
        """Names of the manifests of a list; they are read. `expires`: it may be gone in part (`Root.may_lack`)."""
        path = self.store.paths.manifest(name)
        if expires and self.store.env.storage.info(path) is None:
            return []
        self.metadata.setdefault(path, number)
        if name not in self.lists:
            found = attempted(lambda: self.store.manifest_list(name, size))
            if isinstance(found, BucketlakeError):
                self.lists[name] = None
                self._broken("manifest-list", path, root, number, found)
            else:
                self.lists[name] = found
        listed = self.lists[name]
        if listed is None:
            self.dead.add(number)
            return []
        new = [item for item in listed if item.file_name not in self.parts]
        gone = set()
        for item, part in zip(new, parallel(self._part, new, self.store.manifest_threads), strict=True):
            if expires and isinstance(part, NotFoundError):
                gone.add(item.file_name)
                continue
            path = self.store.paths.manifest(item.file_name)
            self.metadata.setdefault(path, number)
            if isinstance(part, BucketlakeError):
                self.parts[item.file_name] = None
                self._broken("manifest", path, root, number, part)
            else:
                self.parts[item.file_name] = part
                self._check_bounds(item, root)
        names = [item.file_name for item in listed if item.file_name not in gone]
        if any(self.parts[name] is None for name in names):
            self.dead.add(number)
        return names

    def _part(self, item: ManifestFile) -> Part | BucketlakeError:
        found = attempted(lambda: self.store.manifest(item))
        return found if isinstance(found, BucketlakeError) else self.part_of(found)

    def part_of(self, entries: Sequence[ManifestEntry]) -> Part:
        """Entries as hashes."""
        paths = self.paths_of(entries)
        hashes = path_hashes(paths)
        count = len(entries)
        levels = np.fromiter((entry.file.level for entry in entries), np.int64, count)
        extra = [(place, name) for place, entry in enumerate(entries) for name in entry.file.extra_files]
        beside = [f"{paths[place].rsplit('/', 1)[0]}/{name}" for place, name in extra]
        with np.errstate(over="ignore"):
            keys = hashes + (levels + 1) * _LEVEL
        return Part(
            keys=keys,
            paths=hashes,
            sizes=np.fromiter((recorded_size(entry.file) for entry in entries), np.int64, count),
            adds=np.fromiter((entry.kind == FileKind.ADD for entry in entries), np.bool_, count),
            beside=path_hashes(beside),
            owners=np.fromiter((place for place, _ in extra), np.int64, len(extra)),
            schemas=frozenset(entry.file.schema_id for entry in entries),
            rows=sum(e.file.row_count if e.kind == FileKind.ADD else -e.file.row_count for e in entries),
        )

    def paths_of(self, entries: Sequence[ManifestEntry]) -> list[str]:
        """Where entries' files lie; what may not lie where it does goes to the findings."""
        found = []
        for entry in entries:
            folder = self.folder(entry.partition, entry.bucket)
            if entry.file.external_path is None and piece_of(entry.file.file_name) is None:
                found.append(f"{folder}/{entry.file.file_name}")
                continue
            path = attempted(lambda e=entry, f=folder: self.store.paths.file_path(f, e.file))  # type: ignore[misc]
            if isinstance(path, BucketlakeError):
                self.findings.add("data-file-outside", shown(path), self.place(entry, entry.file.external_path))
                path = entry.file.external_path or entry.file.file_name
            found.append(path)
        return found

    def folder(self, partition: bytes, bucket: int) -> str:
        """The folder of a bucket."""
        known = self._folders.get((partition, bucket))
        if known is None:
            known = self._folders[partition, bucket] = self.store.paths.bucket_dir(partition, bucket)
        return known

    def place(self, entry: ManifestEntry, path: str | None = None, **more: object) -> Place:
        """The place of an entry's file."""
        path = path or f"{self.folder(entry.partition, entry.bucket)}/{entry.file.file_name}"
        text = partition_text(self.store, entry.partition)
        return Place(path, entry.partition, text, entry.bucket, entry.file.level, **more)  # type: ignore[arg-type]

    # ---- other metadata

    def _index(self, root: Root, number: int) -> None:
        name = root.snapshot.index_manifest
        if name is None:
            return
        path = self.store.paths.manifest(name)
        self.metadata.setdefault(path, number)
        if name not in self.indexes:
            found = attempted(lambda: self.store.index_entries(name))
            if isinstance(found, BucketlakeError):
                self.indexes[name] = None
                self._broken("index-manifest", path, root, number, found)
            else:
                self.indexes[name] = found
        if self.indexes[name] is None:
            self.dead.add(number)

    def _statistics(self, root: Root, number: int) -> None:
        name = root.snapshot.statistics
        if name is None or self.store.paths.statistics(name) in self.metadata:
            return
        path = self.store.paths.statistics(name)
        self.metadata[path] = number
        found = attempted(lambda: decode_statistics(self.store.env.storage.read(path), path))
        cause = shown(found) if isinstance(found, BucketlakeError) else self._stranger(found, root.snapshot)
        if cause and root.stands():
            what = "missing" if isinstance(found, NotFoundError) else "broken"
            place = Place(path, snapshot=root.snapshot.id, holder=root.label)
            self.findings.add(f"statistics-{what}", cause, place)

    def _stranger(self, found: TableStatistics, snapshot: Snapshot) -> str | None:
        """Why statistics are not of what a snapshot holds: they are taken of it, or of one before, by its schema."""
        if not 0 < found.snapshot_id <= snapshot.id:
            return f"they are of snapshot {found.snapshot_id}"
        schema = attempted(lambda: self.store.schema_of(found.schema_id))
        if isinstance(schema, BucketlakeError):
            return f"they are of schema {found.schema_id}, which is not there"
        own = {(one.name, one.id) for one in schema.fields}
        other = [name for name, one in found.columns.items() if (name, one.column_id) not in own]
        return f"they are of columns that schema {schema.id} has not: {', '.join(other)}" if other else None

    def _check_bounds(self, item: ManifestFile, root: Root) -> None:
        """What the list says of a manifest must hold all its entries: reads pass it over otherwise."""
        entries = self.store.manifest(item)
        lies = [*_outside("bucket", item.min_bucket, item.max_bucket, [e.bucket for e in entries])]
        lies += _outside("level", item.min_level, item.max_level, [e.file.level for e in entries])
        types = [one.type for one in self.store.schema.partition_fields]
        if types and entries:
            partitions = {entry.partition for entry in entries}
            hidden = attempted(lambda: [p for p in partitions if not may_hold(item, [p], types)])
            if isinstance(hidden, BucketlakeError):
                lies.append(f"its partition statistics cannot be read: {shown(hidden)}")
            elif hidden:
                lies.append(f"partition {partition_text(self.store, hidden[0])} is not within its statistics")
        if lies:
            place = Place(self.store.paths.manifest(item.file_name), snapshot=root.snapshot.id, holder=root.label)
            self.findings.add("manifest-bounds", "; ".join(lies), place)

    # ---- what is live

    def net(self, names: Sequence[str], only: Hashes | None = None) -> tuple[Hashes, Hashes]:
        """(keys, how often added less how often deleted) over manifests; `only`: of these keys."""
        known = [part for name in names if (part := self.parts.get(name)) is not None]
        keys = np.concatenate([np.zeros(0, np.int64), *(part.keys for part in known)])
        signs = np.concatenate([np.zeros(0, np.int64), *(np.where(part.adds, 1, -1) for part in known)])
        if only is not None:
            chosen = is_among(keys, only)
            keys, signs = keys[chosen], signs[chosen]
        distinct, inverse = np.unique(keys, return_inverse=True)
        return distinct, np.bincount(inverse, signs, len(distinct)).astype(np.int64)

    def live(self, names: Sequence[str]) -> Hashes:
        """Keys of the files that are live after these manifests."""
        keys, counts = self.net(names)
        return keys[counts > 0]

    def expected(self) -> tuple[Hashes, Sizes, Hashes]:
        """(paths, recorded sizes) of data and changelog files that some root needs; paths of what lies beside them."""
        if self._expected is not None:
            return self._expected
        used = self._used()
        paths, sizes, beside = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for part in self._parts(data=True):
            chosen = part.adds & members(used, part.keys)
            paths.append(part.paths[chosen])
            sizes.append(part.sizes[chosen])
            beside.append(part.beside[chosen[part.owners]])
        for part in self._parts(data=False):
            paths.append(part.paths[part.adds])
            sizes.append(part.sizes[part.adds])
            beside.append(part.beside[part.adds[part.owners]])
        joined, first = np.unique(np.concatenate(paths), return_index=True)
        self._expected = joined, np.concatenate(sizes)[first], distinct(beside)
        return self._expected

    def _parts(self, *, data: bool) -> list[Part]:
        names = dict.fromkeys(name for _, own, changes in self.roots for name in (own if data else changes))
        return [part for name in names if (part := self.parts.get(name)) is not None]

    def _used(self) -> Hashes:
        """Keys live in at least one root."""
        added = [part.keys[part.adds] for part in self._parts(data=True)]
        every = distinct(added)
        again = members(self._deleted, every)
        doubtful, certain = every[again], every[~again]
        if not len(doubtful):
            return certain
        kept = [certain]
        for names in dict.fromkeys(names for _, names, _ in self.roots):
            keys, counts = self.net(names, doubtful)
            kept.append(keys[counts > 0])
        return distinct(kept)


def recorded_size(file: DataFile) -> int:
    """How long a data file is by its manifest, 0 where that does not tell: of a piece the whole file."""
    return file.file_size if piece_of(file.file_name) is None else 0


def partition_text(store: Store, partition: bytes) -> str | None:
    """A partition as SHOW PARTITIONS names it, None for a table without any; one that cannot be read is its hexadecimal
    digits."""
    if not store.schema.partition_keys:
        return None
    found = attempted(lambda: store.paths.shown_texts(partition))
    if isinstance(found, BucketlakeError):
        return partition.hex()
    return "/".join(f"{name}={text}" for name, text in found.items())


def _outside(what: str, low: int | None, high: int | None, values: Sequence[int]) -> list[str]:
    if not values or low is None or high is None or (low <= min(values) and max(values) <= high):
        return []
    return [f"it has {what}s {min(values)} to {max(values)}, its list says {low} to {high}"]
