"""What becomes of the files that a compaction picked: moved to another level, or merged into new ones.

    Rewrite(store, unit place, rule, levels, vectors).run(pick) -> Outcome(before, after, changelog, vectors changed)

Spec: docs/spec/compaction.md#tasks, docs/spec/changelog.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import field, replace

import numpy as np
import pyarrow as pa

from bucketlake.format.index.deletion_vector import Vector
from bucketlake.format.metadata.manifest import DataFile, FileSource
from bucketlake.lsm.changelog import Lookup, TrackedRun, Tracking, merge_tracked, settles
from bucketlake.lsm.compaction import (
    CompactionPick,
    CompactionRule,
    Section,
    Upgrade,
    plan_task,
    tracks_changes,
    upgrade_of,
)
from bucketlake.lsm.engines.engines import without_retracts
from bucketlake.lsm.engines.rules import engine_of, order_of
from bucketlake.lsm.levels import Levels, SortedRun, sections
from bucketlake.lsm.merge import merge_runs
from bucketlake.ops.rows.carried import carried_columns
from bucketlake.ops.rows.deletions import deleted_mask, new_vector
from bucketlake.ops.rows.lookup import PreviousRows, Wanted
from bucketlake.ops.rows.one_file import read_key_values
from bucketlake.ops.rows.record_expiry import RowExpiry
from bucketlake.ops.rows.roll import Roller, Rolling
from bucketlake.ops.rows.started import started
from bucketlake.ops.table.store import Store
from bucketlake.values import dataclass

__all__ = ["Bucket", "Outcome", "Rewrite"]


@dataclass(frozen=True, slots=True)
class Bucket:
    """Which bucket, its live files by level, and its deletion vectors by file name with the index file's path. `tells`:
    changes that lookup finds are told, if the table says so; `check`: is shown all rows that are read."""

    partition: bytes
    number: int
    levels: Levels
    vectors: dict[str, Vector] = field(default_factory=dict)
    index: str = ""
    tells: bool = True
    check: Callable[[pa.RecordBatch], None] | None = None


@dataclass(slots=True)
class Outcome:
    """What a compaction did. `vectors`: the bucket's deletion vectors afterwards, None where they did not change."""

    before: list[DataFile] = field(default_factory=list)
    after: list[DataFile] = field(default_factory=list)
    changelog: list[DataFile] = field(default_factory=list)
    vectors: dict[str, Vector] | None = None


class Rewrite:
    """One compaction of one bucket. `abort` removes every file that it wrote."""

    def __init__(self, store: Store, bucket: Bucket, rule: CompactionRule) -> None:
        self._store, self._bucket, self._rule = store, bucket, rule
        self._folder = store.paths.bucket_dir(bucket.partition, bucket.number)
        self._engine = engine_of(store.schema, store.options)
        self._order = order_of(store.schema, store.options)
        self._expiry = RowExpiry.of(store)
        self._carried = frozenset() if self._engine.computes else carried_columns(store)
        self._producer = store.options.get("changelog-producer")
        self._first_wins = store.options.get("merge-engine") == "first-row"
        files = [file for run in bucket.levels.runs for file in run.files] + list(bucket.levels.level0)
        self._deleted = {
            file.file_name: deleted_mask(bucket.vectors[file.file_name], file, bucket.index)
            for file in files
            if file.file_name in bucket.vectors
        }
        self._outcome = Outcome()
        self._rollers: list[Roller] = []
        self._previous: PreviousRows | None = None
        self._top = bucket.levels.max_level

    def run(self, pick: CompactionPick) -> Outcome:
        """Do all of it. Errors: as reading and writing files; then call `abort`."""
        concerned = self._expiry.concerns if self._expiry is not None else None
        expired = {} if concerned is None else {"expired": concerned}
        plan = plan_task(pick, self._bucket.levels, self._rule, **expired)
        self._previous = self._lookup(pick.output_level)
        for group in plan.rewrite:
            tracked = tracks_changes(group, pick.output_level, self._top, self._rule)
            self._rewrite(group, pick.output_level, pick.drop_deletes, tracked)
        for file in plan.upgrade:
            self._upgrade(file, pick.output_level)
        self._outcome.before += pick.sinks
        self._outcome.after += [replace(file, level=self._top) for file in pick.sinks]
        self._settle_vectors()
        return self._outcome

    def merged(self) -> Iterator[pa.RecordBatch]:
        """The rows of the whole bucket by key, as a full compaction would write them; nothing is written or told."""
        files = self._bucket.levels.files()
        for section in sections(files, self._bucket.levels.key_range):
            yield from self._plain(tuple(section), drop_deletes=not self._rule.keeps_deletes)

    def abort(self) -> None:
        """Remove what was written."""
        for roller in self._rollers:
            roller.abort()

    # ---- the two ways

    def _upgrade(self, file: DataFile, level: int) -> None:
        """Move a file to another level, reading it only where its changes must be known."""
        way = upgrade_of(file, level, self._top, self._rule)
        section: Section = (SortedRun((file,)),)
        if way is Upgrade.REWRITE_WITH_CHANGELOG:
            drops = self._rule.deletion_vectors and not self._rule.keeps_deletes
            self._rewrite((section,), level, drops, True)
            return
        if way is Upgrade.MOVE_WITH_CHANGELOG and (self._tells or self._previous is not None):
            changes = self._roller(level, changelog=True) if self._tells else None
            for changelog in self._tracked(section, False, None):
                if changes is not None and changelog is not None:
                    changes.write(changelog)
            self._close(changes, self._outcome.changelog)
        self._outcome.before.append(file)
        self._outcome.after.append(replace(file, level=level))

    def _rewrite(self, group: Sequence[Section], level: int, drop_deletes: bool, tracked: bool) -> None:
        """Merge sections into new files of a level, with their changelog where it is told."""
        rows = self._roller(level)
        changes = self._roller(level, changelog=True) if tracked and self._tells else None
        for section in group:
            if tracked:
                for changelog in self._tracked(section, drop_deletes, rows):
                    if changes is not None and changelog is not None:
                        changes.write(changelog)
            else:
                for batch in self._plain(section, drop_deletes):
                    rows.write(batch)
        self._outcome.before += [file for section in group for run in section for file in run.files]
        self._close(rows, self._outcome.after)
        self._close(changes, self._outcome.changelog)

    def _plain(self, section: Section, drop_deletes: bool) -> Iterator[pa.RecordBatch]:
        runs = [self._read(run.files, self._carried) for run in section]
        if len(runs) > 1:
            if not (settles(self._store.options) and self._engine.computes):
                runs = list(started(runs, len(runs))) if self._store.waits else runs
                return merge_runs(runs, self._order, self._engine, drop_deletes=drop_deletes)
            tracking = Tracking(drop_deletes, changelog=False)
            merged = merge_tracked(self._by_level(section), self._order, self._engine, tracking)
            return (changed.rows for changed in merged)
        return (without_retracts(batch) for batch in runs[0]) if drop_deletes else runs[0]

    def _tracked(self, section: Section, drop_deletes: bool, rows: Roller | None) -> Iterator[pa.RecordBatch | None]:
        """Merge one section, write its rows (None: they are not asked for) and give the changes, slice by slice."""
        looks = settles(self._store.options)
        tracking = Tracking(
            drop_deletes,
            changelog=self._tells,
            settles=looks,
            alone=looks and rows is not None,  # a file that is only moved keeps its rows, and is told as it is
            first_wins=self._first_wins,
            compared=self._compared(),
        )
        lookup: Lookup | None = None if self._previous is None else self._previous.find
        for changed in merge_tracked(self._by_level(section), self._order, self._engine, tracking, lookup):
            if rows is not None:
                rows.write(changed.rows)
            yield changed.changelog

    # ---- what tracking needs

    @property
    def _tells(self) -> bool:
        """Whether compaction writes changelog files."""
        return self._producer == "full-compaction" or (self._producer == "lookup" and self._bucket.tells)

    def _compared(self) -> tuple[str, ...] | None:
        options = self._store.options
        if not options.get("changelog-producer.row-deduplicate"):
            return None
        ignored = options.names("changelog-producer.row-deduplicate-ignore-fields")
        return tuple(name for name in self._store.schema.field_names if name not in ignored)

    def _by_level(self, section: Section) -> list[TrackedRun]:
        """The files of a section as runs, oldest first, each of one age: its level, or whether it is the top one."""
        files = [file for run in section for file in run.files]
        runs = Levels.of(files, self._bucket.levels.key_range).sorted_runs()
        return [TrackedRun(self._read(run.files), self._age(level)) for level, run in reversed(runs)]

    def _age(self, level: int) -> int:
        if self._rule.full_changelog:
            return int(level == self._top)
        return min(level, 126)

    def _lookup(self, level: int) -> PreviousRows | None:
        """How to find previous rows in the files above a level, None where nothing asks for them."""
        vectors, rule = self._rule.deletion_vectors, self._rule
        values = self._producer == "lookup" or self._engine.computes or bool(self._order.sequence)
        values = values and not self._first_wins
        if not rule.lookup or rule.full_changelog or level == 0 or not (vectors or self._first_wins or values):
            return None
        runs = [run for run in self._bucket.levels.runs[level:] if run.files]
        if not runs:
            return None
        stays = None if self._expiry is None else self._expiry.stays
        return PreviousRows(self._store, self._folder, runs, Wanted(values, self._deleted, stays))

    def _settle_vectors(self) -> None:
        """Vectors of files that were rewritten go, also of a table that has them no longer; positions that new rows
        supersede come."""
        stay = {file.file_name for file in self._outcome.after}
        gone = {file.file_name for file in self._outcome.before} - stay
        marked = self._previous.marked if self._previous is not None and self._rule.deletion_vectors else {}
        if not marked and not gone & self._bucket.vectors.keys():
            return
        vectors = {name: vector for name, vector in self._bucket.vectors.items() if name not in gone}
        for name, positions in marked.items():
            vectors[name] = new_vector(self._store, np.concatenate(positions), vectors.get(name))
        self._outcome.vectors = vectors

    # ---- files

    def _read(self, files: Iterable[DataFile], encoded: Set[str] = frozenset()) -> Iterator[pa.RecordBatch]:
        """The live rows of files, one after the other."""
        for file in files:
            deleted = self._deleted.get(file.file_name)
            for rows in read_key_values(self._store, self._folder, file, deleted, encoded):
                if self._bucket.check is not None:
                    self._bucket.check(rows)
                yield rows if self._expiry is None else self._expiry.kept(rows)

    def _roller(self, level: int, *, changelog: bool = False) -> Roller:
        source = FileSource.APPEND if changelog else FileSource.COMPACT
        rolling = Rolling(level=level, source=source, changelog=changelog)
        roller = Roller(self._store, self._bucket.partition, self._bucket.number, rolling)
        self._rollers.append(roller)
        return roller

    def _close(self, roller: Roller | None, files: list[DataFile]) -> None:
        if roller is not None:
            files += roller.close()
