"""Compaction of an append table without buckets by one that stays: what is small is remembered from look to look.

    Coordinator(store).look() -> [AppendUnit]      what came since the last look, and what is worth merging now

The first look reads the newest snapshot, later ones what was committed since. Memory holds what is small, and has too
few neighbours yet: partitions that nothing came to for five looks are merged as they are, a file that stays alone for
ten is forgotten. What others took away is forgotten at once; a look that cannot follow (snapshots that expired, a
rollback, vectors that changed, more files than the limit) reads the newest snapshot again.

Spec: docs/spec/append_compaction.md#coordinator
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from bucketlake.errors import NotFoundError
from bucketlake.format.metadata.manifest import FileKind, ManifestEntry
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.compact.append_compact import (
    AppendRule,
    AppendUnit,
    Vectors,
    is_worth,
    pick_unaware,
    rewritten,
    unit_of,
)
from bucketlake.ops.compact.job import Compacting
from bucketlake.ops.compact.running import Work
from bucketlake.ops.scan.line import line
from bucketlake.ops.scan.scan import check_apart, chosen_entries, delta_entries
from bucketlake.ops.table.entries import BucketKey
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store
from bucketlake.values import dataclass

__all__ = ["COMPACT_AGE", "REMOVE_AGE", "CoordinatedPlan", "Coordinator"]

COMPACT_AGE = 5  # looks without anything to merge, after which few files are merged too
REMOVE_AGE = 10  # looks after which a partition is forgotten


@dataclass(slots=True)
class _Partition:
    """Small files by name, and for how many looks nothing was to be merged."""

    files: dict[str, ManifestEntry] = field(default_factory=dict)
    age: int = 0


class Coordinator:
    """What is small in one table, for one process. `partitions`: only these."""

    def __init__(self, store: Store, partitions: PartitionFilter | None = None) -> None:
        self._store, self._filter = store, partitions
        self._rule = AppendRule.of(store.options)
        self._seen: Snapshot | None = None
        self.partitions: dict[bytes, _Partition] = {}

    def look(self, newest: Snapshot | None = None) -> list[AppendUnit]:
        """Units that are due, largest first, of the newest snapshot or the one given; what they hold is not remembered
        any more: what becomes of it is seen by the next look."""
        newest = newest or self._store.latest_snapshot()
        if newest is None:
            return []
        vectors = Vectors.of(self._store, newest)
        self._follow(newest, vectors)
        units: list[AppendUnit] = []
        for partition, state in list(self.partitions.items()):
            units += [self._unit(state, names, vectors) for names in self._picked(partition, state, vectors)]
            if not state.files or state.age > REMOVE_AGE:
                del self.partitions[partition]
        return sorted(units, key=lambda unit: unit.size, reverse=True)

    def forget(self) -> None:
        """Begin anew: what was planned did not come true."""
        self._seen, self.partitions = None, {}

    # ---- what came

    def _follow(self, newest: Snapshot, vectors: Vectors) -> None:
        """Take in what was committed since the last look."""
        seen = self._seen
        try:
            between = None if seen is None else self._since(seen, newest)
        except NotFoundError:
            between = None
        if between is None:
            self.partitions = {}
            there = chosen_entries(self._store, newest, lambda entry: self._counts(entry, vectors))
            check_apart(self._store, newest, there)
            whole = self._add(there)
        else:
            whole = True
            for entries in between:
                self._remove(entry for entry in entries if entry.kind == FileKind.DELETE)
                came = (e for e in entries if e.kind == FileKind.ADD and self._counts(e, vectors))
                whole = self._add(came) and whole
        self._seen = newest if whole else None

    def _since(self, seen: Snapshot, newest: Snapshot) -> list[list[ManifestEntry]] | None:
        """What each commit since changed; None where that cannot be told, or vectors of older files changed."""
        if newest.id < seen.id or newest.index_manifest != seen.index_manifest:
            return None
        known = self._store.find_snapshot(seen.id)
        if known is None or known.uuid != seen.uuid or known.time_millis != seen.time_millis:
            return None
        later = line(self._store, seen.id, newest)
        return None if later is None else [delta_entries(self._store, one) for one in later]

    def _counts(self, entry: ManifestEntry, vectors: Vectors) -> bool:
        chosen = self._filter is None or self._filter(entry.partition)
        return chosen and is_worth(entry, vectors, self._rule)

    def _add(self, entries: Iterable[ManifestEntry]) -> bool:
        """Remember files, `compaction.file-num-limit` at most; whether these are all."""
        for place, entry in enumerate(entries):
            if place == self._rule.limit:
                return False
            state = self.partitions.setdefault(entry.partition, _Partition())
            state.files[entry.file.file_name] = entry
            state.age = 0
        return True

    def _remove(self, entries: Iterable[ManifestEntry]) -> None:
        for entry in entries:
            state = self.partitions.get(entry.partition)
            if state is not None:
                state.files.pop(entry.file.file_name, None)

    # ---- what is due

    def _picked(self, partition: bytes, state: _Partition, vectors: Vectors) -> list[list[str]]:
        """The names of files that become one each time."""
        files = [entry.file for entry in state.files.values()]
        bins = pick_unaware(files, vectors.holders((partition, 0)), self._rule)
        if not bins:
            state.age += 1
            if state.age > COMPACT_AGE and len(files) > 1:
                bins = [files]
        return [[file.file_name for file in group] for group in bins]

    def _unit(self, state: _Partition, names: Sequence[str], vectors: Vectors) -> AppendUnit:
        entries = [state.files.pop(name) for name in names]
        return unit_of(entries[0], [entry.file for entry in entries], vectors)


@dataclass(frozen=True)
class CoordinatedPlan(Compacting):
    """What a coordinator's look finds, as a job. Where units are lost it begins anew."""

    coordinator: Coordinator
    work: Work = rewritten

    def units(self, store: Store, base: Snapshot, only: frozenset[BucketKey] | None) -> list[AppendUnit]:
        """See Plan."""
        if only is not None:
            self.coordinator.forget()
        return self.coordinator.look(base)
