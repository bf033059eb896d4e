"""What a table's handles offer about its health: whether it is whole, mending, advice, and where its bytes are.

The same methods stand on a table without Spark and on one of a lake, which looks at files by tasks.

Spec: docs/maintenance.md
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bucketlake.errors import check_flags, check_types
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.history import History
from bucketlake.lazy import lazy
from bucketlake.ops.progress import OnProgress
from bucketlake.ops.scan.partition_choice import PartitionSpecs, chosen_partitions
from bucketlake.ops.table.store import Store
from bucketlake.predicate.tree import Predicate
from bucketlake.schema.schema import TableSchema
from bucketlake.shown import table_html, table_text

if TYPE_CHECKING:
    from bucketlake.ops.change import chain_compact as chains
    from bucketlake.ops.check import advise as advising
    from bucketlake.ops.check import findings as found_by
    from bucketlake.ops.check import fsck as checks
    from bucketlake.ops.check import repair as mending
    from bucketlake.ops.check import usage as space
    from bucketlake.ops.check.advise import Advice
    from bucketlake.ops.check.findings import Finding, Report
    from bucketlake.ops.check.fsck import Run
    from bucketlake.ops.check.repair import Repair
    from bucketlake.ops.check.usage import Usage
    from bucketlake.ops.clean import expire
    from bucketlake.ops.compact import compaction as compactions
    from bucketlake.ops.compact import job as jobs
    from bucketlake.ops.compact import maintain as upkeep
    from bucketlake.ops.compact import reassign as reassigning
    from bucketlake.ops.compact import running
    from bucketlake.ops.compact.reassign import Reassigned
    from bucketlake.ops.compact.running import Runner
    from bucketlake.ops.global_index import build as indexing
    from bucketlake.plot import plots
    from bucketlake.predicate import parse as parsing
    from bucketlake.report import report as reports
else:  # workers have no use for it, nor has who only lists a table's files
    chains = lazy("bucketlake.ops.change.chain_compact")
    advising = lazy("bucketlake.ops.check.advise")
    found_by = lazy("bucketlake.ops.check.findings")
    checks = lazy("bucketlake.ops.check.fsck")
    mending = lazy("bucketlake.ops.check.repair")
    space = lazy("bucketlake.ops.check.usage")
    expire = lazy("bucketlake.ops.clean.expire")
    compactions = lazy("bucketlake.ops.compact.compaction")
    jobs = lazy("bucketlake.ops.compact.job")
    upkeep = lazy("bucketlake.ops.compact.maintain")
    reassigning = lazy("bucketlake.ops.compact.reassign")
    running = lazy("bucketlake.ops.compact.running")
    indexing = lazy("bucketlake.ops.global_index.build")
    plots = lazy("bucketlake.plot.plots")
    parsing = lazy("bucketlake.predicate.parse")
    reports = lazy("bucketlake.report.report")


class Health(History):
    """Methods of a handle on a table that look at its state as a whole."""

    @abstractmethod
    def _called(self) -> str:
        """The table's name, as statements may write it."""

    @abstractmethod
    def with_options(self, options: Mapping[str, Any] | None = None, **more: Any) -> Health:
        """The table with dynamic options."""

    @abstractmethod
    def _shown(self) -> tuple[TableSchema, Store | None]:
        """The schema that is shown, and the store whose newest snapshot is."""

    def __repr__(self) -> str:
        return table_text(type(self).__name__, self._called(), self._shown)

    def _repr_html_(self) -> str:
        return table_html(self._called(), self._shown)

    def _checks(self) -> Run:
        """How units of a check are run."""
        return checks.run_here

    def materialize_deletion_vectors(
        self,
        partitions: PartitionSpecs | None = None,
        where: str | Predicate | None = None,
        on_progress: OnProgress | None = None,
    ) -> Snapshot | None:
        """Be rid of the deleted rows of a table with `data-evolution.enabled`, which a compaction keeps: rows beside
        them get new ids, and the global indexes of their partitions go. The COMPACT snapshot, None where there are
        none. `partitions`, `where`: as `compact`.

        Errors: InvalidError for other tables, UnsupportedError, ConflictError.
        Spec: docs/spec/row_tracking.md#deleted-rows-for-good
        """
        store = self._history(writing=True)
        condition = parsing.parse_where(where, store.schema.fields) if isinstance(where, str) else where
        wanted = compactions.Compaction(partitions=chosen_partitions(store, partitions, condition), deleted=True)
        done = jobs.run_job(compactions.compaction_job(store, wanted, on_progress))
        return expire.after_commit(store, done, dedicated=True)

    def reassign_row_ids(self, partitions: PartitionSpecs | None = None) -> Reassigned:
        """Give the rows of each partition of a table with `data-evolution.enabled` ids that lie side by side; what
        became of it. Manifests are rewritten, no data file is.

        Errors: InvalidError for other tables, UnsupportedError, those of a commit.
        Spec: docs/spec/row_tracking.md#ids-given-out-anew
        """
        store = self._history(writing=True)
        return reassigning.reassign_row_ids(store, chosen_partitions(store, partitions, None))

    def _runner(self) -> Runner:
        """How units of a job are run."""
        return running.here

    def compact_chain(self, partition: Mapping[str, str], overwrite: bool = False) -> Snapshot | None:
        """Write a partition of a chain table (several, where some partition columns are named) whole into its snapshot
        branch: what reads merge of the partition before it and the deltas behind that. The snapshot, None where there
        is nothing to do: the delta branch has no such partition, or the snapshot branch has one already. `overwrite`:
        the latter is replaced, by what is before it and the deltas.

        Errors: InvalidError (columns, values, no chain table), ConflictError, those of a commit.
        Spec: docs/spec/chain_table.md#compaction
        """
        check_flags(overwrite=overwrite)
        found = chains.compact_chain(self._there(writing=True), partition, overwrite, self._runner())
        store, done, messages = found or (None, None, [])
        if store is None or done is None:
            return None
        return expire.after_commit(store, upkeep.after_write(store, done, messages) or done, wrote=messages)

    def create_global_index(
        self,
        column: str,
        index_type: str = "btree",
        partitions: PartitionSpecs | None = None,
        **options: Any,
    ) -> int:
        """Index a column of a table with `data-evolution.enabled`, in these partitions, where no index of this type
        (btree, or bitmap for columns of few values) covers it yet: reads with a condition on it then open the files
        that hold such rows. How many index files were added. `options`: of the table for this call, such as
        `sorted_index_records_per_range`.

        Errors: InvalidError (columns, table), UnsupportedError (types), ConflictError, those of a commit.
        Spec: docs/spec/global_index.md
        """
        store = self.with_options(options)._history(writing=True)
        chosen = chosen_partitions(store, partitions, None)
        check_types(str, "give a column's name; of several, with commas between", column=column)
        done = indexing.create_index(store, column.split(","), index_type, chosen, self._runner())
        expire.after_change(store, done.snapshot)
        return done.files

    def drop_global_index(
        self,
        column: str,
        index_type: str = "btree",
        partitions: PartitionSpecs | None = None,
        dry_run: bool = False,
    ) -> int:
        """Take the index of a column (of several with commas between) out of the table, in these partitions, whoever
        built it; how many files of it, with `dry_run` how many it would be.

        Errors: InvalidError (columns), ConflictError, those of a commit.
        """
        check_flags(dry_run=dry_run)
        store = self._history(writing=True)
        chosen = chosen_partitions(store, partitions, None)
        check_types(str, "give a column's name; of several, with commas between", column=column)
        done = indexing.drop_index(store, column.split(","), index_type, chosen, dry_run)
        expire.after_change(store, done.snapshot)
        return done.files

    def fsck(
        self,
        level: str = "metadata",
        partitions: PartitionSpecs | None = None,
        snapshot: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> Report:
        """Check that the table is whole: its findings, each with cause, consequence and remedy.

        `level`: "metadata", "footers", "keys" or "rows", each with all before. The files looked at are those of the
        newest snapshot, or of `snapshot`, in all partitions or in `partitions`, named by all or some partition columns.
        `on_progress` is told how far it is. A damaged file is a finding. Errors: InvalidError, NotFoundError
        (snapshot), StorageError.
        Spec: docs/maintenance.md#fsck
        """
        store = self._history()
        request = checks.FsckRequest(level, chosen_partitions(store, partitions, None), snapshot)
        return replace(checks.fsck(store, request, self._checks(), on_progress), table=self._called())

    def repair(
        self, found: Report | Sequence[Finding] | None = None, allow: Sequence[str] = (), dry_run: bool = True
    ) -> Repair:
        """Mend what a check found (None: one is made, of all keys), in one commit; what is done about each finding.

        `allow`: codes whose repair loses rows, or what else may be wanted. `dry_run`: only say what would be done.
        Errors: InvalidError (`allow`), ConflictError, those of a commit.
        Spec: docs/maintenance.md#repair
        """
        check_flags(dry_run=dry_run)
        check_types(Iterable, "give a list of codes", allow=allow)
        told = "give what table.fsck() found"
        check_types((found_by.Report, Iterable, type(None)), told, found=found)
        store = self._history(writing=True)
        report = self.fsck("keys") if found is None else found
        findings = tuple(report.findings if isinstance(report, found_by.Report) else report)
        for finding in findings:
            check_types(found_by.Finding, told, found=finding)
        done = mending.repair(store, findings, mending.RepairRequest(frozenset(allow), dry_run))
        if done.snapshot is not None:
            expire.after_commit(store, done.snapshot)
        return done

    def advise(self) -> list[Advice]:
        """What would make the table better, the most pressing first: measure, threshold, reason, and the steps.

        From metadata and the history that is there; no data file is read. Spec: docs/maintenance.md#advice
        """
        return advising.advise_table(self._there(), self._called())

    def usage(self) -> Usage:
        """Where the bytes of the table's folder are, each counted once: live files, what tags, branches and older
        snapshots hold, changelogs, indexes, metadata, orphans. Spec: docs/maintenance.md#space"""
        return space.usage(self._there())

    @property
    def report(self) -> reports.TableReport:
        """Plain facts to draw and to print: commits, buckets, levels, sizes, schemas, options. From metadata alone, and
        bounded. Spec: docs/page.md#the-facts-in-python"""
        return reports.TableReport(self._history(), self._called())

    @property
    def plot(self) -> plots.TablePlots:
        """Pictures of what `report` tells, by matplotlib. Spec: docs/plots.md"""
        return plots.TablePlots(self.report)
