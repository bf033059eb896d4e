"""What a table's handle without Spark does for its files: compaction, other numbers of buckets, orphans.

Spec: docs/spec/maintenance.md
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from bucketlake.errors import check_flags, check_threads
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.lazy import lazy
from bucketlake.ops.progress import OnProgress
from bucketlake.ops.scan.partition_choice import PartitionSpecs, both, chosen_partitions
from bucketlake.ops.scan.select import epoch_millis
from bucketlake.ops.table.store import Store
from bucketlake.predicate.tree import Predicate
from bucketlake.schema.schema import BucketMode

if TYPE_CHECKING:
    from bucketlake.ops.clean import expire as expiring
    from bucketlake.ops.clean import orphans
    from bucketlake.ops.clean import partitions as clean_partitions
    from bucketlake.ops.clean.orphans import OrphanFiles
    from bucketlake.ops.cluster import request as clusterings
    from bucketlake.ops.compact import compaction as compactions
    from bucketlake.ops.compact import job as jobs
    from bucketlake.ops.compact import postpone_compact as postponed
    from bucketlake.ops.rescale import advise as advising
    from bucketlake.ops.rescale import rescale as rescaling
    from bucketlake.ops.rescale.advise import BucketAdvice
else:  # loaded by the calls that need them: most look at a table and go
    expiring = lazy("bucketlake.ops.clean.expire")
    clean_partitions = lazy("bucketlake.ops.clean.partitions")
    orphans = lazy("bucketlake.ops.clean.orphans")
    clusterings = lazy("bucketlake.ops.cluster.request")
    compactions = lazy("bucketlake.ops.compact.compaction")
    jobs = lazy("bucketlake.ops.compact.job")
    postponed = lazy("bucketlake.ops.compact.postpone_compact")
    advising = lazy("bucketlake.ops.rescale.advise")
    rescaling = lazy("bucketlake.ops.rescale.rescale")


class Upkeep(ABC):
    """Methods of a handle that put a table's files in better shape."""

    store: Store

    @abstractmethod
    def with_options(self, options: Mapping[str, Any] | None = None, **more: Any) -> Upkeep:
        """The table with dynamic options."""

    @abstractmethod
    def _history(self, writing: bool = False) -> Store:
        """The table's store."""

    @abstractmethod
    def for_writing(self) -> Upkeep:
        """The table, where it can be written here."""

    @abstractmethod
    def predicate(self, where: str | Predicate | None) -> Predicate | None:
        """A SQL condition over the table's columns."""

    @abstractmethod
    def for_changing(self, rows: bool = False) -> Upkeep:
        """As `for_writing`, under the newest schema."""

    def compact(
        self,
        partitions: PartitionSpecs | None = None,
        where: str | Predicate | None = None,
        full: bool | None = None,
        on_progress: OnProgress | None = None,
        order_by: str | Sequence[str] | None = None,
        **options: Any,
    ) -> Snapshot | None:
        """Compact the buckets of a primary-key table, merge small files of an append table; the COMPACT snapshot, None
        where there is nothing to do.

        `partitions`: of these only, named by all or some partition columns; `where`: of those that a condition over
        partition columns is true for. `full`: into one sorted run (the default, but for tables that are clustered
        incrementally); else what is due by the table's policy. `order_by`: rows of an append table in the order of
        these columns, by `order_strategy` order (the default), zorder or hilbert; an OVERWRITE snapshot. Pending
        rows of a postpone table go to their buckets first. Concurrent writers go on; what another commit takes away is
        compacted anew, as often as is reasonable. What is finished is committed on the way (`compaction.commit-size`,
        `compaction.commit-interval`), and before Ctrl-C or an error of `on_progress` ends the call.
        Errors: InvalidError, UnsupportedError, ConflictError.
        Spec: docs/spec/maintenance.md, docs/spec/compaction.md, docs/spec/append_compaction.md
        """
        check_flags(full=full is not None and full)
        request = clusterings.OrderRequest(order_by, options.pop("order_strategy", None))
        table = self.with_options(options).for_changing()
        chosen = chosen_partitions(table.store, partitions, table.predicate(where))
        job = clusterings.clustering_job(table.store, request, full, chosen, on_progress)
        if job is not None:
            return expiring.after_commit(table.store, clusterings.perform(table.store, job), dedicated=True)
        full, chosen = full is not False, both(chosen, clean_partitions.worth_compacting(table.store))
        placed: Snapshot | None = None
        if table.store.schema.bucket_mode is BucketMode.POSTPONE:
            plan = postponed.PendingPlan(chosen)
            placed = jobs.run_job(jobs.Job.of(table.store, plan, "place pending rows", on_progress))
        elif table.store.schema.primary_keys:
            placed = rescaling.rescale_due(table.store, chosen, on_progress=on_progress)
        elif removal := compactions.removal_before(table.store, chosen, on_progress):
            placed = jobs.run_job(removal)
        due = compactions.compaction_job(table.store, compactions.Compaction(full, chosen), on_progress)
        done = jobs.run_job(due) or placed
        return expiring.after_commit(table.store, done, dedicated=True)

    def rescale(
        self,
        bucket_num: int | None = None,
        partitions: PartitionSpecs | None = None,
        where: str | Predicate | None = None,
        on_progress: OnProgress | None = None,
        **options: Any,
    ) -> Snapshot | None:
        """Put the rows of partitions into another number of buckets while others read and write; the OVERWRITE
        snapshot, None where the partitions hold nothing.

        `bucket_num`: the option `bucket` by default, which itself is not changed. `partitions`, `where`: as `compact`.
        It is one commit: Ctrl-C, or an error of `on_progress`, before it leaves the table as it was.
        Errors: InvalidError, UnsupportedError, ConflictError, CommitError, CommitUnknownError.
        Spec: docs/spec/rescale.md
        """
        table = self.with_options(options).for_changing()
        chosen = chosen_partitions(table.store, partitions, table.predicate(where))
        request = rescaling.RescaleRequest(bucket_num, chosen)
        return expiring.after_commit(
            table.store, rescaling.rescale(table.store, request, on_progress=on_progress), dedicated=True
        )

    def advise_buckets(self) -> list[BucketAdvice]:
        """Rows, bytes, skew, sorted runs and the recommended number of buckets of every partition, with the reason,
        largest first; from metadata alone. Spec: docs/spec/rescale.md#advice"""
        store = self._history()
        store.check_here()
        return advising.advise(store)

    def remove_orphan_files(
        self,
        older_than: str | datetime | None = None,
        dry_run: bool = False,
        threads: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> OrphanFiles:
        """Remove files that no snapshot, tag, branch or changelog refers to, and that are older than `older_than` (a
        day by default; text: in this machine's time zone). `dry_run`: only say which. `on_progress` is told of
        snapshots read and folders looked through, with the bytes of orphans.

        Errors: InvalidError (`older_than`), CorruptError where files of what is there are missing: nothing was removed.
        Spec: docs/spec/expiry.md#orphans
        """
        check_flags(dry_run=dry_run)
        check_threads(threads)
        store = self.for_writing().store
        before = orphans.oldest_kept(store, epoch_millis(older_than))
        return orphans.remove_orphans(store, before, dry_run, threads, on_progress=on_progress)
