"""Where a table's bytes are: each counted once, all of the folder.

    usage(store) -> Usage          .live, .history, .changelog, .index, .metadata, .orphans, .foreign, .total

A data file that several hold counts for the first: the newest snapshot, branches, tags, older snapshots from the newest
on, changelogs.

Spec: docs/maintenance.md#space
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.format.numbers import distinct, members
from bucketlake.ops.check.existence import index_paths, is_kept
from bucketlake.ops.check.findings import Findings
from bucketlake.ops.check.inventory import Hashes, Inventory, in_bucket, path_hashes
from bucketlake.ops.check.reach import Part, Reach
from bucketlake.ops.check.roots import CHANGELOG, SNAPSHOT, TAG, Root, find_roots
from bucketlake.ops.table.store import Store
from bucketlake.paths import MAIN
from bucketlake.values import dataclass

LIVE, HISTORY, CHANGES, INDEX, METADATA, ORPHANS, FOREIGN = (
    *("live", "history", "changelog", "index", "metadata"),
    *("orphans", "foreign"),
)
_REFERRED = ("manifest", "index", "statistics")
SCHEMA = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("holder", pa.string()),
        pa.field("files", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class Held:
    """Files of one kind that one holder keeps; of the history: the snapshot, tag or branch. `bytes`: theirs."""

    kind: str
    holder: str | None
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Usage:
    """All files of a table's folder, and of those outside that its files lie in."""

    held: tuple[Held, ...]

    def of(self, kind: str) -> int:
        """Bytes of one kind."""
        return sum(one.bytes for one in self.held if one.kind == kind)

    @property
    def live(self) -> int:
        """Data files of the newest snapshot, and what lies beside them."""
        return self.of(LIVE)

    @property
    def history(self) -> int:
        """Data files that only older snapshots, tags and branches need."""
        return self.of(HISTORY)

    @property
    def changelog(self) -> int:
        """Changelog files."""
        return self.of(CHANGES)

    @property
    def index(self) -> int:
        """Hash indexes, deletion vectors, cached key indexes."""
        return self.of(INDEX)

    @property
    def metadata(self) -> int:
        """Snapshots, manifests, schemas, statistics and the like."""
        return self.of(METADATA)

    @property
    def orphans(self) -> int:
        """Files where a table has its own, and to which nothing refers; young ones may belong to a writer."""
        return self.of(ORPHANS)

    @property
    def foreign(self) -> int:
        """Files where a table has none."""
        return self.of(FOREIGN)

    @property
    def total(self) -> int:
        """All of them."""
        return sum(one.bytes for one in self.held)

    def to_arrow(self) -> pa.Table:
        """A row a holder."""
        columns = [[getattr(one, name) for one in self.held] for name in SCHEMA.names]
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def usage(store: Store) -> Usage:
    """Where the bytes of a table are, all branches. What is damaged counts for nothing, and its files as orphans.

    Errors: StorageError.
    """
    reach = Reach(store.on_branch(MAIN), Findings())
    reach.follow_all(find_roots(store, reach.findings))
    return _Count(reach, Inventory.of(store)).counted()


class _Count:
    def __init__(self, reach: Reach, there: Inventory) -> None:
        self._reach, self._there = reach, there
        self._free: npt.NDArray[np.bool_] = np.ones(len(there.hashes), np.bool_)
        self._held: list[Held] = []

    def counted(self) -> Usage:
        """All files, kind by kind."""
        for root, names, kind in self._holders():
            self._take(kind, root.label if kind == HISTORY else None, self._paths(names))
        changed = dict.fromkeys(name for _, _, names in self._reach.roots for name in names)
        changes = [part for name in changed if (part := self._part(name)) is not None]
        self._take(CHANGES, None, np.concatenate([np.zeros(0, np.int64), *(p.paths for p in changes)]))
        self._take(CHANGES, None, np.concatenate([np.zeros(0, np.int64), *(p.beside for p in changes)]))
        self._take(INDEX, None, path_hashes(index_paths(self._reach.store, self._reach)))
        self._take(METADATA, None, path_hashes(self._reach.metadata))
        self._loose()
        self._take(ORPHANS, None, self._there.hashes)
        merged: dict[tuple[str, str | None], Held] = {}
        for one in self._held:
            old = merged.get((one.kind, one.holder), Held(one.kind, one.holder, 0, 0))
            merged[one.kind, one.holder] = Held(one.kind, one.holder, old.files + one.files, old.bytes + one.bytes)
        return Usage(tuple(merged.values()))

    def _part(self, name: str) -> Part | None:
        return self._reach.parts.get(name)

    def _holders(self) -> Iterator[tuple[Root, Sequence[str], str]]:
        """Roots with data files, in the order in which they count."""
        own = [(root, names) for root, names, _ in self._reach.roots if root.kind != CHANGELOG]
        snapshots = [item for item in own if item[0].kind == SNAPSHOT]
        newest: dict[str, tuple[Root, Sequence[str]]] = {item[0].branch: item for item in snapshots}
        if MAIN in newest:
            yield *newest.pop(MAIN), LIVE
        for branch in sorted(newest):
            yield *newest[branch], HISTORY
        for item in sorted((i for i in own if i[0].kind == TAG), key=lambda i: (i[0].branch != MAIN, i[0].snapshot.id)):
            yield *item, HISTORY
        for item in sorted(snapshots, key=lambda i: (i[0].branch != MAIN, -i[0].snapshot.id)):
            yield *item, HISTORY

    def _paths(self, names: Sequence[str]) -> Hashes:
        """Paths of what is live after manifests, and lies beside it."""
        live = self._reach.live(names)
        found = [np.zeros(0, np.int64)]
        for name in names:
            part = self._part(name)
            if part is not None:
                chosen = part.adds & members(live, part.keys)
                found += [part.paths[chosen], part.beside[chosen[part.owners]]]
        return np.concatenate(found)

    def _take(self, kind: str, holder: str | None, paths: Hashes) -> None:
        """Count what is still free of these paths."""
        hits = self._free & members(distinct([paths]), self._there.hashes)
        if hits.any():
            self._held.append(Held(kind, holder, int(hits.sum()), int(self._there.bytes[hits].sum())))
            self._free &= ~hits

    def _loose(self) -> None:
        """Files that the table has without naming them, and those that are not its own."""
        root = self._reach.store.paths.root
        kept: dict[str, list[str]] = {INDEX: [], METADATA: [], FOREIGN: []}
        for info in self._there.loose:
            parts = info.path[len(root) + 1 :].split("/") if info.path.startswith(f"{root}/") else [info.path]
            if "key-index" in parts[:3]:
                kept[INDEX].append(info.path)
            elif is_kept(parts):
                kept[METADATA].append(info.path)
            elif parts[0] not in _REFERRED and not parts[0].startswith(".") and not in_bucket(info.path):
                kept[FOREIGN].append(info.path)
        for kind, paths in kept.items():
            self._take(kind, None, path_hashes(paths))
