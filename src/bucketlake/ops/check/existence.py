"""What should be there against what is: files of every root, and files that no root knows.

Spec: docs/maintenance.md#metadata
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from bucketlake.env.storage import FileInfo
from bucketlake.errors import BucketlakeError
from bucketlake.format.data.blob_references import is_pack
from bucketlake.format.index.index_manifest import HASH, IndexEntry
from bucketlake.format.metadata.manifest import FileKind, ManifestEntry
from bucketlake.format.numbers import distinct, is_among, members
from bucketlake.ops.check.faults import FAULTS, Mend
from bucketlake.ops.check.findings import Findings, Place, shown
from bucketlake.ops.check.inventory import (
    MISSING,
    Hashes,
    Inventory,
    all_files,
    in_bucket,
    path_hashes,
)
from bucketlake.ops.check.reach import Reach, partition_text, recorded_size
from bucketlake.ops.check.roots import CHANGELOG, SNAPSHOT, TAG, Root, attempted
from bucketlake.ops.clean.orphans import DAY
from bucketlake.ops.table.newest import CLAIM
from bucketlake.ops.table.store import Store
from bucketlake.paths import MAIN
from bucketlake.values import dataclass

_KEPT = {name: f"{name}-" for name in ("snapshot", "changelog", "schema", "tag", "consumer", "stream")}
_REFERRED = ("manifest", "index", "statistics")
_HINTS = ("EARLIEST", "LATEST")
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}\.tmp|\.probe-[0-9a-f]{32}|\.staging-.*")


def check_existence(store: Store, reach: Reach, there: Inventory, findings: Findings) -> None:
    """Findings for data, changelog and index files, and what lies beside them, that are missing or of another size;
    and for roots that need them."""
    paths, recorded, beside = reach.expected()
    found = there.sizes(paths)
    gone = paths[found == MISSING]
    wrong = paths[(found != MISSING) & (recorded > 0) & (found != recorded)]
    lost = beside[there.sizes(beside) == MISSING]
    if len(gone) or len(wrong) or len(lost):
        _Named(reach, there, findings, gone, wrong, lost).tell()
    _check_indexes(store, reach, there, findings)
    _check_dead(reach, findings)


@dataclass(slots=True)
class _Named:
    """Gives names to hashes of files that are missing or wrong: manifests are read once more."""

    reach: Reach
    there: Inventory
    findings: Findings
    gone: Hashes
    wrong: Hashes
    lost: Hashes

    def tell(self) -> None:
        """A finding for each file, of the newest root that needs it."""
        told: set[tuple[str, str]] = set()
        own = self.reach.store.branch_name
        order = sorted(enumerate(self.reach.roots), key=lambda item: _rank(item[1][0], own))
        ids = sorted(
            root.snapshot.id for root, _, _ in self.reach.roots if root.kind == SNAPSHOT and root.branch == own
        )
        for number, (root, data, changes) in order:
            if not root.stands():
                continue
            for code, path, entry, what in self._damaged(data, changes):
                if code == "changelog-file-missing" and root.may_lack:
                    continue
                if code == "data-file-missing":
                    self.reach.dead.add(number)
                if (code, path) in told:
                    continue
                told.add((code, path))
                newer = _newer(root, own, ids) if FAULTS[code].mend is not Mend.NONE else None
                place = self.reach.place(entry, path, snapshot=root.snapshot.id, holder=root.label, newer=newer)
                self.findings.add(code, what, place)

    def _damaged(self, data: Sequence[str], changes: Sequence[str]) -> Iterator[tuple[str, str, ManifestEntry, str]]:
        """What is wrong with files that the manifests of a root name: code, path, entry and text."""
        every = np.concatenate([self.gone, self.wrong])
        for names, tells in ((data, False), (changes, True)):
            parts = [(name, part) for name in names if (part := self.reach.parts.get(name)) is not None]
            suspects = [part.keys[is_among(part.paths, every)] for _, part in parts]
            suspects += [part.keys[part.owners[is_among(part.beside, self.lost)]] for _, part in parts]
            keys = distinct(suspects)
            if not len(keys):
                continue
            known, counts = self.reach.net(names, keys)
            live = keys if tells else known[counts > 0]
            for name, part in parts:
                chosen = np.flatnonzero(part.adds & is_among(part.keys, live))
                if len(chosen):
                    yield from self._of_manifest(name, chosen.tolist(), tells)

    def _of_manifest(
        self, name: str, chosen: Sequence[int], tells: bool
    ) -> Iterator[tuple[str, str, ManifestEntry, str]]:
        entries = self.reach.store.manifest(name)
        own = [entries[place] for place in chosen]
        for entry, path in zip(own, self.reach.paths_of(own), strict=True):
            size = self.there.size(path)
            if size == MISSING:
                code = "changelog-file-missing" if tells else "data-file-missing"
                rows = entry.file.row_count
                yield code, path, entry, "1 row was in it" if rows == 1 else f"{rows} rows were in it"
            elif size != (recorded := recorded_size(entry.file)) > 0:
                word = "cut short" if size < recorded else "longer"
                yield "data-file-size", path, entry, f"{size} bytes, {recorded} are recorded: it is {word}"
            for extra in entry.file.extra_files:
                beside = f"{path.rsplit('/', 1)[0]}/{extra}"
                if self.there.size(beside) == MISSING:
                    yield "file-index-missing", beside, entry, f"it belongs to {entry.file.file_name}"


def _rank(root: Root, own: str) -> tuple[Any, ...]:
    """Newest snapshots of the handle's branch first."""
    return root.branch != own, root.branch != MAIN, (SNAPSHOT, TAG, CHANGELOG).index(root.kind), -root.snapshot.id


def _snapshots(reach: Reach) -> list[int]:
    """The ids of the handle's branch's snapshots, in order."""
    own = reach.store.branch_name
    return sorted(root.snapshot.id for root, _, _ in reach.roots if root.kind == SNAPSHOT and root.branch == own)


def _newer(root: Root, own: str, ids: Sequence[int]) -> int | None:
    """How many snapshots of the handle's branch, whose ids are given in order, are newer than this one: None for the
    newest, which a repair mends, 0 for what is no snapshot of it."""
    if root.kind != SNAPSHOT or root.branch != own:
        return 0
    return len(ids) - bisect_right(ids, root.snapshot.id) or None


# ---------------------------------------------------------------------------------------------- index files


def index_path(store: Store, entry: IndexEntry) -> str | BucketlakeError:
    """Where an index file lies, or why it cannot."""
    return attempted(lambda: store.paths.index_path(entry.partition, entry.bucket, entry.file))


def _check_indexes(store: Store, reach: Reach, there: Inventory, findings: Findings) -> None:
    told: set[str] = set()
    own, ids = store.branch_name, _snapshots(reach)
    for root, _, _ in sorted(reach.roots, key=lambda item: _rank(item[0], own)):
        for entry in reach.indexes.get(root.snapshot.index_manifest or "") or ():
            path = index_path(store, entry)
            text = partition_text(store, entry.partition)
            name = entry.file.file_name if isinstance(path, BucketlakeError) else path
            if name in told:
                continue
            told.add(name)
            place = Place(name, entry.partition, text, entry.bucket, None, root.snapshot.id, root.label)
            if isinstance(path, BucketlakeError):
                findings.add("data-file-outside", shown(path), place)
                continue
            kind = "hash" if entry.file.index_type == HASH else "vector"
            place = replace(place, newer=_newer(root, own, ids))
            size = there.size(path)
            if size == MISSING and root.stands():
                findings.add(f"{kind}-file-missing", f"index of type {entry.file.index_type}", place)
            elif size != MISSING and size != entry.file.file_size > 0:
                cause = f"{size} bytes, {entry.file.file_size} are recorded"
                findings.add(f"{kind}-file-size", cause, place)


def _check_dead(reach: Reach, findings: Findings) -> None:
    """Tags that cannot be read, and branches whose newest snapshot cannot."""
    newest: dict[str, int] = {}
    for number, (root, _, _) in enumerate(reach.roots):
        if root.kind == SNAPSHOT and root.branch != MAIN:
            newest[root.branch] = number
        if root.kind == TAG and number in reach.dead:
            path = root.store.paths.tag(root.name)
            findings.add("tag-dead", "files that it needs are missing or damaged", Place(path, holder=root.label))
    for branch, number in newest.items():
        if number in reach.dead:
            root = reach.roots[number][0]
            path = root.store.paths.branch(branch)
            cause = f"files that its snapshot {root.snapshot.id} needs are missing or damaged"
            findings.add("branch-dead", cause, Place(path, holder=f"branch {branch}"))


# ---------------------------------------------------------------------------------------------- unknown files


def check_unknown(store: Store, reach: Reach, there: Inventory, findings: Findings) -> None:
    """Findings for files that nothing refers to, and for those that lie where none should."""
    before = store.env.clock.now_millis() - DAY
    known = known_hashes(store, reach)
    for info in there.loose:
        _tell_loose(store, info, known, before, findings)
    strange = there.hashes[~members(known, there.hashes)]
    loose = path_hashes(info.path for info in there.loose)
    if len(strange) > is_among(strange, loose).sum():
        for info in all_files(store):
            if not in_bucket(info.path) or is_pack(info.path):  # which rows point at packs only their values tell
                continue
            if not bool(members(known, path_hashes([info.path]))[0]):
                _tell(info, "orphan-file", before, findings)


def known_hashes(store: Store, reach: Reach) -> Hashes:
    """Hashes of all paths that the roots lead to."""
    paths, _, beside = reach.expected()
    names = [*reach.metadata, *(path for path in index_paths(store, reach))]
    return distinct([paths, beside, path_hashes(names)])


def index_paths(store: Store, reach: Reach) -> Iterable[str]:
    """Where all index files lie."""
    entries = {id(e): e for found in reach.indexes.values() for e in found or ()}
    for entry in entries.values():
        path = index_path(store, entry)
        if not isinstance(path, BucketlakeError):
            yield path


def is_kept(parts: Sequence[str]) -> bool:
    """Whether a path below the table's root, in no bucket, is of a file that the table has without naming it: roots,
    schemas, hints, progress, marks of partitions that are done, notes of loads and streams, claims of branches."""
    if len(parts) == 3 and parts[0] == "branch" and parts[2] == CLAIM:
        return True
    if len(parts) == 4 and parts[0] == "branch" and parts[1].startswith("branch-"):
        parts = parts[2:]
    if "key-index" in parts[:3] or parts[-1] == "_SUCCESS" or parts[-2:-1] == ["tag-success-file"]:
        return True
    if parts[:2] in (["copy-into", "history"], ["copy-into", "intents"]):
        return len(parts) == 3 and parts[2].startswith("load-")
    prefix = _KEPT.get(parts[0]) if len(parts) == 2 else None
    return prefix is not None and (parts[1].startswith(prefix) or parts[1] in _HINTS)


def _tell_loose(store: Store, info: FileInfo, known: Hashes, before: int, findings: Findings) -> None:
    root = store.paths.root
    parts = info.path[len(root) + 1 :].split("/") if info.path.startswith(f"{root}/") else [info.path]
    if is_kept(parts) or bool(members(known, path_hashes([info.path]))[0]):
        return
    passing = any(_TEMPORARY.fullmatch(part) for part in parts)
    orphan = passing or (len(parts) == 2 and parts[0] in _REFERRED)
    _tell(info, "orphan-file" if orphan else "foreign-file", before, findings)


def _tell(info: FileInfo, code: str, before: int, findings: Findings) -> None:
    if code == "foreign-file" or info.modified_millis < before:
        findings.add(code, f"{info.size} bytes", Place(info.path))


# ---------------------------------------------------------------------------------------------- the chain


def check_chain(reach: Reach, findings: Findings) -> None:
    """Findings where a snapshot does not begin with what the one before ended with: manifests that both name cancel,
    what merging replaced must say the same."""
    roots = [(root, data) for root, data, _ in reach.roots if root.kind == SNAPSHOT and not root.stray]
    for (before, old), (after, new) in pairwise(roots):
        if before.branch != after.branch or before.snapshot.id + 1 != after.snapshot.id:
            continue
        listed = reach.lists.get(after.snapshot.base_manifest_list)
        if listed is None or any(reach.parts.get(name) is None for name in (*old, *new)):
            continue
        base = [item.file_name for item in listed]
        same = set(old) & set(base)
        left, right = [n for n in old if n not in same], [n for n in base if n not in same]
        if left or right:
            _compare(reach, (before, left), (after, right), findings)


def _compare(
    reach: Reach, before: tuple[Root, Sequence[str]], after: tuple[Root, Sequence[str]], findings: Findings
) -> None:
    keys, counts = reach.net(before[1])
    others, again = reach.net(after[1])
    every = distinct([keys, others])
    net = np.zeros(len(every), np.int64)
    net[np.searchsorted(every, others)] += again
    net[np.searchsorted(every, keys)] -= counts
    root = after[0]
    place = Place(root.store.paths.snapshot(root.snapshot.id), snapshot=root.snapshot.id, holder=root.label)
    for code, chosen in (("chain-lost", every[net < 0]), ("chain-extra", every[net > 0])):
        if len(chosen):
            names = _names(reach, (*before[1], *after[1]), chosen)
            cause = f"{len(chosen)} files between it and {before[0].label}: {', '.join(names)}"
            findings.add(code, cause, place, len(chosen))


def _names(reach: Reach, manifests: Iterable[str], keys: Hashes, most: int = 3) -> list[str]:
    found: list[str] = []
    for name in manifests:
        part = reach.parts[name]
        if part is not None and len(found) < most:
            entries = reach.store.manifest(name)
            hits = np.flatnonzero(is_among(part.keys, keys))[:most].tolist()
            found += [entries[hit].file.file_name for hit in hits if entries[hit].kind == FileKind.ADD]
    return list(dict.fromkeys(found))[:most]
