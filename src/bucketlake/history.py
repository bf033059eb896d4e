"""What a table's handles offer about its history: tags, branches, going back, consumers, old partitions.

The same methods stand on a table without Spark and on one of a lake; both say which store they are about.

Spec: docs/spec/tags.md
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from bucketlake.errors import CorruptError, InvalidError, check_flags, check_threads, check_types
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.lazy import lazy
from bucketlake.ops.progress import OnProgress
from bucketlake.ops.scan.partition_choice import PartitionSpecs, chosen_partitions, listed
from bucketlake.ops.scan.select import epoch_millis
from bucketlake.ops.table.store import Store
from bucketlake.options.options import given_options, parse_duration
from bucketlake.paths import MAIN

if TYPE_CHECKING:
    from bucketlake.ops.clean import consumers as reading
    from bucketlake.ops.clean import done as marking
    from bucketlake.ops.clean import expire as expiring
    from bucketlake.ops.clean import missing, orphans, partitions
    from bucketlake.ops.clean.expire import ExpireResult
    from bucketlake.ops.commit import commit as commits
    from bucketlake.ops.compact import manifest_compact
    from bucketlake.ops.compact import reformat as reformatting
    from bucketlake.ops.compact import reindex as reindexing
    from bucketlake.ops.compact.reformat import Reformatted
    from bucketlake.ops.compact.reindex import Reindexed
    from bucketlake.ops.refs import branches as branching
    from bucketlake.ops.refs import rollback, upkeep
    from bucketlake.ops.refs import tags as tagging
    from bucketlake.ops.write import prepare as preparing
    from bucketlake.predicate import parse as parsing
else:  # loaded by the calls that need them: most look at a table and go
    rollback = lazy("bucketlake.ops.refs.rollback")
    upkeep = lazy("bucketlake.ops.refs.upkeep")
    tagging = lazy("bucketlake.ops.refs.tags")
    branching = lazy("bucketlake.ops.refs.branches")
    partitions = lazy("bucketlake.ops.clean.partitions")
    reading = lazy("bucketlake.ops.clean.consumers")
    marking = lazy("bucketlake.ops.clean.done")
    expiring = lazy("bucketlake.ops.clean.expire")
    missing = lazy("bucketlake.ops.clean.missing")
    orphans = lazy("bucketlake.ops.clean.orphans")
    commits = lazy("bucketlake.ops.commit.commit")
    manifest_compact = lazy("bucketlake.ops.compact.manifest_compact")
    reformatting = lazy("bucketlake.ops.compact.reformat")
    reindexing = lazy("bucketlake.ops.compact.reindex")
    preparing = lazy("bucketlake.ops.write.prepare")
    parsing = lazy("bucketlake.predicate.parse")

Lifetime = (
    str | timedelta | None
)  # "7 d", or a span of time; None: the table's tag.default-time-retained, else for ever


class History(ABC):
    """Methods of a handle on a table that look at, name and change its history."""

    @abstractmethod
    def with_options(self, options: Mapping[str, Any] | None = None, **more: Any) -> History:
        """The handle with dynamic options."""

    @abstractmethod
    def _history(self, writing: bool = False) -> Store:
        """The store that the methods are about; `writing`: refused where the table cannot be written here."""

    @abstractmethod
    def _branch_store(self, name: str) -> Store:
        """The store of another branch with its own schema, for writing."""

    def _there(self, writing: bool = False) -> Store:
        """As `_history`, of a table that is still there: NotFoundError for one that was dropped since, ConflictError
        for another in its place."""
        store = self._history(writing)
        with suppress(CorruptError):  # what is damaged is there
            store.check_here()
        return store

    # ---- tags

    def tags(self) -> dict[str, Snapshot]:
        """All tags by name, and the snapshots that they hold."""
        return self._there().tags()

    def create_tag(
        self, name: str, snapshot_id: int | None = None, time_retained: Lifetime = None, *, if_not_exists: bool = False
    ) -> None:
        """Give a snapshot, the newest by default, a name that keeps its files when it expires.

        `time_retained`: after so long the tag goes. AlreadyExistsError for a name that is taken, NotFoundError for a
        snapshot that is neither there nor held by another tag.
        Spec: docs/spec/tags.md#tags
        """
        check_flags(if_not_exists=if_not_exists)
        store = self._there(writing=True)
        lifetime = _lifetime(store, time_retained)
        tagging.create_tag(store, name, snapshot_id, lifetime, if_absent=if_not_exists)

    def replace_tag(self, name: str, snapshot_id: int | None = None, time_retained: Lifetime = None) -> None:
        """Let a tag hold another snapshot (the newest by default), for another time."""
        given = None if time_retained is None else _millis(time_retained)
        tagging.replace_tag(self._there(writing=True), name, snapshot_id, given)

    def rename_tag(self, name: str, target: str) -> None:
        """Give a tag another name that is free."""
        tagging.rename_tag(self._there(writing=True), name, target)

    def delete_tag(self, name: str) -> bool:
        """Remove a tag, and the files that only it kept; False if there is none."""
        return tagging.delete_tag(self._there(writing=True), name)

    def expire_tags(self, older_than: str | datetime | None = None) -> list[str]:
        """Remove tags whose time is over, and those made before `older_than`; the names of what went."""
        return tagging.expire_tags(self._there(writing=True), epoch_millis(older_than))

    def trigger_tag_automatic_creation(self) -> None:
        """Make the tags that `tag.automatic-creation` asks for now, and drop those whose time is over."""
        store = self._there(writing=True)
        upkeep.run_auto_tags(store)
        upkeep.drop_old_tags(store)

    # ---- branches

    def branches(self) -> list[str]:
        """Names of all branches but the main one."""
        return self._there().branches()

    def create_branch(self, name: str, tag: str | None = None, *, if_not_exists: bool = False) -> None:
        """Make a branch, empty or with what a tag of this branch holds; read and written as `t$branch_<name>`.

        Spec: docs/spec/tags.md#branches
        """
        check_flags(if_not_exists=if_not_exists)
        branching.create_branch(self._there(writing=True), name, tag, if_absent=if_not_exists)

    def delete_branch(self, name: str, *others: str) -> None:
        """Remove a branch, or several: none of them where one is not there. Files that they alone have are orphans."""
        branching.delete_branches(self._there(writing=True), (name, *others))

    def rename_branch(self, name: str, target: str) -> None:
        """Give a branch another name that is free."""
        branching.rename_branch(self._there(writing=True), name, target)

    def fast_forward(self, branch: str) -> None:
        """Replace this branch's history, from the other's first snapshot on, by the other's."""
        branching.fast_forward(self._there(writing=True), branch)

    def merge_branch(self, source: str, target: str = MAIN) -> Snapshot | None:
        """Append a branch's files to another branch of an append table; None where it has them all."""
        return branching.merge_branch(self._there(writing=True), source, target, self._branch_store)

    # ---- going back

    def rollback_to(
        self,
        version: int | str | None = None,
        *,
        timestamp: int | str | datetime | None = None,
        watermark: int | None = None,
    ) -> Snapshot:
        """Make an older snapshot the newest: what came later goes, tags included. The snapshot.

        `version`: a snapshot's id or a tag's name; `timestamp`: the newest snapshot not later (epoch milliseconds, or
        text in this machine's time zone); `watermark`: the newest whose watermark is not later.
        Spec: docs/spec/tags.md#rollback
        """
        if sum(one is not None for one in (version, timestamp, watermark)) != 1:
            raise InvalidError(
                "only can set one of version, timestamp and watermark", remedy="give one, as in rollback_to(3)"
            )
        store = self._there(writing=True)
        rollback.latest_or_refuse(store)
        if isinstance(version, int):
            target = rollback.find_version(store, version)
        elif version is not None:
            target = store.tag(version)
        elif timestamp is not None:
            millis = timestamp if isinstance(timestamp, int) else epoch_millis(timestamp)
            target = rollback.earlier_than(store, millis or 0)
        else:
            target = rollback.earlier_watermark(store, watermark or 0)
        rollback.rollback(store, target, version if isinstance(version, str) else None)
        return tagging.plain_snapshot(target)

    def rollback_to_as_latest(self, version: int | str) -> Snapshot:
        """Publish a snapshot that holds what an older one, by id or tag, held; nothing is taken away.

        Spec: docs/spec/tags.md#rollback
        """
        store = self._there(writing=True)
        rollback.latest_or_refuse(store)
        tagged = isinstance(version, str)
        target = store.tag(version) if isinstance(version, str) else rollback.find_version(store, version)
        return rollback.rollback_as_latest(store, tagging.plain_snapshot(target), tagged)

    # ---- who reads, what is old

    def consumers(self) -> dict[str, reading.Consumer]:
        """The snapshot that each consumer reads next, a number with its lag: `snapshots`, `rows`, `millis`."""
        return reading.consumer_lags(self._there())

    def reset_consumer(self, name: str, next_snapshot: int | None = None) -> None:
        """Let a consumer go on with a snapshot, or forget it."""
        check_types((int, type(None)), "give the snapshot's id, or None", next_snapshot=next_snapshot)
        reading.reset_consumer(self._there(writing=True), name, next_snapshot)

    def clear_consumers(self, including: str | None = None, excluding: str | None = None) -> list[str]:
        """Forget consumers whose names match; the names."""
        check_types((str, type(None)), "give a regular expression, as a text", including=including, excluding=excluding)
        return reading.clear_consumers(self._there(writing=True), including, excluding)

    def expire_partitions(
        self, options: Mapping[str, str] | None = None, on_progress: OnProgress | None = None
    ) -> list[dict[str, str]]:
        """Drop partitions that are too old by `partition.expiration-*`, `options` laid over; what went.

        Spec: docs/spec/tags.md#partitions
        """
        table = self.with_options(given_options(options))
        return partitions.expire_partitions(table._there(writing=True), on_progress)

    def mark_partitions_done(self, specs: PartitionSpecs) -> None:
        """Say of partitions that they are done, as `partition.mark-done-action` says."""
        marking.mark_partitions_done(self._there(writing=True), listed(specs))

    def compact_manifests(self) -> Snapshot | None:
        """Tell the newest snapshot's files by fewer manifests; the COMPACT snapshot, None where nothing is to merge."""
        return manifest_compact.compact_manifests(self._there(writing=True))

    def rewrite_file_index(self, where: str | None = None) -> Reindexed:
        """Build the file indexes that the table's options ask for on files that are there: of all partitions, or of
        those that a condition over partition columns is true for.

        Spec: docs/spec/file_index.md#rewriting
        """
        store = self._there(writing=True)
        predicate = None if where is None else parsing.parse_where(where, store.schema.fields)
        return reindexing.reindex(store, chosen_partitions(store, None, predicate))

    def rewrite(
        self, where: str | None = None, *, every: bool = False, options: Mapping[str, Any] | None = None
    ) -> Reformatted:
        """Write files anew in the format, compression and row groups that the options ask for: all of them, or those of
        the partitions that a condition is true for. `every`: also those that have format and compression already.
        `options`: of this call. Writers go on, rows stay as they are.

        Spec: docs/spec/rewrite.md
        """
        check_flags(every=every)
        store = self._there(writing=True).with_options(given_options(options))
        predicate = None if where is None else parsing.parse_where(where, store.schema.fields)
        return reformatting.reformat(store, chosen_partitions(store, None, predicate), every=every)

    def remove_unexisting_files(self, dry_run: bool = False, threads: int | None = None) -> list[str]:
        """Take data files that something else has removed out of the table; their paths. Their rows are lost."""
        check_flags(dry_run=dry_run)
        check_threads(threads)
        return missing.remove_missing_files(self._there(writing=True), dry_run, threads)

    def remove_unexisting_manifests(self) -> list[str]:
        """Take manifests that something else has removed out of the newest snapshot; their names. What they told of is
        lost; what they deleted may be back."""
        return missing.remove_missing_manifests(self._there(writing=True))

    def repair_earliest_snapshot(self, snapshot_id: int) -> int:
        """Let the history begin with a snapshot that follows a gap; the id that it began with."""
        check_types(int, "give the snapshot's id, a whole number", snapshot_id=snapshot_id)
        return missing.repair_earliest(self._there(writing=True), snapshot_id)

    def purge(self) -> None:
        """Remove all rows for good: branches, tags, consumers, snapshots but the newest (an empty one), files.

        No writer may be at work: what it has not committed yet is removed, too.
        """
        store = self._there(writing=True)
        for name in store.branches():
            branching.delete_branch(store, name)
        for name in store.tag_names():
            tagging.delete_tag(store, name)
        reading.clear_consumers(store)
        commits.Commit(store, preparing.new_commit_user(store)).truncate()
        expiring.expire_changelogs(store, everything=True)
        now = store.env.clock.now_millis()
        expiring.expire_snapshots(store, expiring.ExpireConfig.of(store, expiring.Limits(1, 1, now, 2**31 - 1)))
        orphans.remove_orphans(store, now, False, None)

    # ---- what is not needed any more

    def expire_snapshots(
        self,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: str | datetime | None = None,
        max_deletes: int | None = None,
        on_progress: OnProgress | None = None,
        **options: Any,
    ) -> ExpireResult:
        """Remove snapshots, and files that only they need; what went.

        The newest `retain_min` stay, those beyond the newest `retain_max` go, and between these what was followed by
        another one before `older_than` (text: in this machine's time zone), at most `max_deletes`; the table's
        `snapshot.*` options where left out. Tags, branches, consumers and changelogs keep what they need.
        Spec: docs/spec/expiry.md
        """
        store = self.with_options(options)._there(writing=True)
        limits = expiring.Limits(retain_max, retain_min, epoch_millis(older_than), max_deletes)
        return expiring.expire_snapshots(store, expiring.ExpireConfig.of(store, limits), on_progress)

    def expire_changelogs(
        self,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: str | datetime | None = None,
        max_deletes: int | None = None,
        everything: bool = False,
        on_progress: OnProgress | None = None,
    ) -> ExpireResult:
        """Remove changelogs that outlived their snapshots: as `expire_snapshots`, by `changelog.*`; `everything`: all.

        Spec: docs/spec/expiry.md#changelogs
        """
        check_flags(everything=everything)
        limits = expiring.Limits(retain_max, retain_min, epoch_millis(older_than), max_deletes)
        store = self._there(writing=True)
        return expiring.expire_changelogs(
            store, expiring.ExpireConfig.of_changelogs(store, limits), everything, on_progress
        )


def _lifetime(store: Store, given: Lifetime) -> int | None:
    return store.options.get("tag.default-time-retained") if given is None else _millis(given)


def _millis(span: str | timedelta) -> int:
    check_types((str, timedelta), "give a text as '7 d', or a timedelta", time_retained=span)
    return parse_duration(span) if isinstance(span, str) else span // timedelta(milliseconds=1)
