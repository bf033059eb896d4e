"""One table without Spark: read it as Arrow, write Arrow to it, look at its snapshots and files, change its schema.

Spec: docs/spec/catalog.md, docs/spec/reading.md, docs/spec/writing.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from bucketlake.env.env import Env
from bucketlake.errors import InvalidError, UnsupportedError, already_done, no_attribute
from bucketlake.format.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from bucketlake.frames.handle import Frames
from bucketlake.frames.table_scan import threads
from bucketlake.lazy import lazy, pa, pl
from bucketlake.ops.commit.loads import Loading
from bucketlake.ops.commit.outcome import Outcome, owned
from bucketlake.ops.refs import read_tags
from bucketlake.ops.scan import fallback
from bucketlake.ops.scan.partition_choice import PartitionSpecs, listed
from bucketlake.ops.scan.scan import EntryFilter, Plan, Scan, live_entries, newest_rows
from bucketlake.ops.scan.select import TRAVEL_KEYS, Selection
from bucketlake.ops.scan.system_tables import RowView
from bucketlake.ops.stream.batches import BatchName, Once
from bucketlake.ops.system.model import SystemTable
from bucketlake.ops.table.known import renewed
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.newest import newest_schema
from bucketlake.ops.table.partitions import spec_filter
from bucketlake.ops.table.retry import on_newest
from bucketlake.ops.table.store import Store
from bucketlake.ops.table.table_file import TableFile
from bucketlake.options.map_layout import refuse_other_layout
from bucketlake.options.options import TableOptions, given_options, option_keys, warn_of_undone
from bucketlake.paths import MAIN, TablePaths
from bucketlake.predicate.tree import Predicate
from bucketlake.schema.change import SchemaChange, SetOption
from bucketlake.schema.clustering import refuse_other_order
from bucketlake.schema.column_options import under_options
from bucketlake.schema.merging import Merging, merging
from bucketlake.schema.schema import TableSchema, column_names
from bucketlake.schema.validation import refuse_undelivered
from bucketlake.schema.versions import apply, is_replaced
from bucketlake.shown import OF_OTHERS
from bucketlake.streams import Streams
from bucketlake.types.model import DataField, arrow_schema
from bucketlake.upkeep import Upkeep
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.ops.change import append_rows, column_updates, row_changes, row_conflicts
    from bucketlake.ops.change.row_conflicts import Read
    from bucketlake.ops.clean import expire as expiring
    from bucketlake.ops.cluster import order as ordering
    from bucketlake.ops.cluster import rows as ordered_rows
    from bucketlake.ops.commit import alter as altering
    from bucketlake.ops.commit import commit as commits
    from bucketlake.ops.compact import append_compact
    from bucketlake.ops.compact import maintain as upkeep
    from bucketlake.ops.rows import assign as assigning
    from bucketlake.ops.rows import given as given_rows
    from bucketlake.ops.rows import incoming
    from bucketlake.ops.rows import read as reading
    from bucketlake.ops.write import postpone_write as pending
    from bucketlake.ops.write import prepare as preparing
    from bucketlake.predicate import parse as parsing
else:  # loaded by the calls that need them: most look at a table and go
    append_rows = lazy("bucketlake.ops.change.append_rows")
    column_updates = lazy("bucketlake.ops.change.column_updates")
    row_changes = lazy("bucketlake.ops.change.row_changes")
    row_conflicts = lazy("bucketlake.ops.change.row_conflicts")
    expiring = lazy("bucketlake.ops.clean.expire")
    ordering = lazy("bucketlake.ops.cluster.order")
    ordered_rows = lazy("bucketlake.ops.cluster.rows")
    altering = lazy("bucketlake.ops.commit.alter")
    commits = lazy("bucketlake.ops.commit.commit")
    upkeep = lazy("bucketlake.ops.compact.maintain")
    assigning = lazy("bucketlake.ops.rows.assign")
    given_rows = lazy("bucketlake.ops.rows.given")
    incoming = lazy("bucketlake.ops.rows.incoming")
    reading = lazy("bucketlake.ops.rows.read")
    pending = lazy("bucketlake.ops.write.postpone_write")
    preparing = lazy("bucketlake.ops.write.prepare")
    parsing = lazy("bucketlake.predicate.parse")
    append_compact = lazy("bucketlake.ops.compact.append_compact")

_NAMES = {
    **OF_OTHERS,
    **{"read": "table.to_arrow(), or bucketlake.connect(…).table(name).read()", "write": "table.write_arrow(rows)"},
    **{"append": "table.write_arrow(rows)", "upsert": "table.write_arrow(rows), which upserts"},
    **{"overwrite": 'table.write_arrow(rows, mode="overwrite")', "columns": "table.arrow_schema.names"},
    "merge": "bucketlake.connect(…).table(name).merge(…)",
}
Arrow = Any  # Arrow data, a pandas DataFrame, columns or rows in Python: see ops.given


@dataclass(frozen=True)
class Table(Upkeep, Streams, Frames):
    """A handle on one table: its schema as it was opened, its options with dynamic ones laid over. Immutable.

    `view`: the system table over its rows or metadata that this handle reads, None: the table itself."""

    store: Store
    name: str
    view: RowView | SystemTable | None = None

    # ---- what it is

    @property
    def schema(self) -> TableSchema:
        """The schema that reads and writes of this handle use."""
        return self.store.schema if self.view is None else self.view.schema(self.store)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema of `to_arrow` without projection."""
        return arrow_schema(self.schema.fields)

    @property
    def options(self) -> TableOptions:
        """Effective options."""
        return self.store.options

    @property
    def path(self) -> str:
        """The table's folder."""
        return self.store.paths.root

    def with_options(self, options: Mapping[str, Any] | None = None, **more: Any) -> Table:
        """The table with dynamic options; a key may also be written as a Python name (`scan_snapshot_id`).

        Raises InvalidError for unknown Python names, values that do not parse, and keys that cannot be changed.
        """
        given = option_keys(given_options(options, **more))
        if "partition" in given:  # an option of tables that are made, which no handle can take
            remedy = "partitions=… of what is done to some of them, where=… of rows that are read"
            raise InvalidError("no argument of this call", argument="partition", table=self.name, remedy=remedy)
        if self.view is not None:
            self.view.check_options(given)
        if isinstance(self.view, SystemTable) and self.view.of_catalog:
            return self
        branch = given.pop("branch", None)
        if branch is not None and str(branch) != self.options.text("branch"):
            given = {**self.store.dynamic_options(), **given, "branch": branch}
            return replace(open_table(self.path, self.store.env, name=self.name, options=given), view=self.view)
        changes = [SetOption(key, value) for key, value in given.items() if value is not None]
        if not changes:
            return self
        refuse_other_layout(self.options.raw, given)
        refuse_other_order(self.store.schema, given)
        changed = apply(self.store.schema, changes, table=self.name)
        schema = replace(self.store.schema, options=changed.options)
        return replace(self, store=self.store.with_schema(schema))

    def as_of(self, options: Mapping[str, Any] | None = None, **more: Any) -> tuple[Table, Selection]:
        """The table as a read with these options sees it, and the snapshot or span that it reads: with time travel the
        schema is the snapshot's, else the handle's."""
        table = self.with_options(options, **more)
        if isinstance(table.view, SystemTable):
            return table, Selection(None)
        refuse_undelivered(table.store.schema, for_writing=False)
        selection = fallback.selected(table.store)
        travels = any(table.options.is_set(key) for key in (*TRAVEL_KEYS, "scan.version"))
        snapshot = selection.snapshot
        if snapshot is None or not travels or snapshot.schema_id == table.schema.id:
            return table, selection
        current, past = table.store.schema, table.store.schema_of(snapshot.schema_id)
        stored = past if is_replaced(past, current) else under_options(past, current)
        options = {**stored.options, **table.store.dynamic_options()}
        return replace(table, store=table.store.with_schema(replace(past, options=options))), selection

    def refresh(self) -> Table:
        """The table with its newest schema and without dynamic options."""
        if isinstance(self.view, SystemTable) and self.view.of_catalog:
            return self
        branch = self.store.schema.options.get("branch")
        given = {"branch": branch} if branch else None
        return replace(open_table(self.path, self.store.env, name=self.name, options=given), view=self.view)

    # ---- look

    def snapshots(self) -> list[Snapshot]:
        """All snapshots that have not expired, oldest first. NotFoundError for a table that was dropped."""
        found = list(self.store.snapshots())
        if not found:
            self.store.check_holds(None)
        return found

    def latest_snapshot(self) -> Snapshot | None:
        """The newest snapshot, None if nothing was committed. NotFoundError for a table that was dropped."""
        found = self.store.latest_snapshot()
        if found is None:
            self.store.check_holds(None)
        return found

    def plan(self, where: str | Predicate | None = None, columns: Sequence[str] | None = None, **options: Any) -> Plan:
        """What a read with these arguments would open, pruned by partition, bucket, key and statistics."""
        return self._planned(where, columns, options)[1]

    def files(self, where: str | Predicate | None = None, **options: Any) -> list[TableFile]:
        """The live data files that may hold matching rows, by partition and bucket, newest last."""
        table, planned, _ = self._planned(where, None, options)
        found: dict[str, TableFile] = {}  # of a chain, one file may be read for several partitions
        for store, part in planned.parts(table.store):
            for entry in part.entries:
                path = store.paths.file_path(store.paths.bucket_dir(entry.partition, entry.bucket), entry.file)
                texts = store.paths.shown_texts(entry.partition)
                found[path] = TableFile(texts, entry.bucket, entry.total_buckets, path, entry.file)
        read_tags.release(self.store, planned)
        return sorted(
            found.values(), key=lambda f: (*f.partition.values(), f.bucket, f.file.min_sequence_number, f.path)
        )

    def _planned(
        self, where: str | Predicate | None, columns: Sequence[str] | None, options: Mapping[str, Any]
    ) -> tuple[Table, Plan, Predicate | None]:
        def once() -> tuple[Table, Plan, Predicate | None]:
            table, selection = self.as_of(options)
            column_names(table.schema, columns)
            predicate = table.predicate(where)
            return table, table.scanned(predicate, selection), predicate

        return on_newest(self.store, once)

    def planned(self, predicate: Predicate | None, selection: Selection) -> Plan:
        """What a read of this handle opens of the snapshot or span selected."""
        scan = Scan(predicate, selection)
        if isinstance(self.view, SystemTable):
            raise InvalidError("a system table of metadata is read without a plan", table=self.name)
        return fallback.plan_branches(self.store, scan, self.view)

    def scanned(self, predicate: Predicate | None, selection: Selection) -> Plan:
        """As `planned`, of a read that `read.allow.fullScan` may refuse and a tag may protect."""
        found = self.planned(predicate, selection)
        fallback.forbid_full_scan(self.store, found)
        if selection.span is None:
            read_tags.protect(self.store, found)
        return found

    def partitions(self) -> list[dict[str, str]]:
        """The partitions that have files, as column → text as SHOW PARTITIONS prints it, sorted."""
        if not self.store.schema.partition_keys:
            return []
        snapshot = self.latest_snapshot()
        self.store.check_holds(snapshot)
        shown = fallback.shown_branches(self.store, Selection(snapshot))
        only = [(store, snapshot, EntryFilter(partitions=chosen)) for store, snapshot, chosen in shown]
        found = {entry.partition for store, snapshot, some in only for entry in live_entries(store, snapshot, some)}
        texts = [self.store.paths.shown_texts(partition) for partition in found]
        return sorted(texts, key=lambda item: list(item.values()))

    def predicate(self, where: str | Predicate | None) -> Predicate | None:
        """A SQL condition as a predicate over this table's columns; InvalidError names the column and the place,
        UnsupportedError what only Spark can evaluate."""
        return None if where is None else parsing.exact_where(where, self.schema.fields)

    # ---- write

    def write_arrow(
        self,
        data: Arrow,
        mode: str = "append",
        partition: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Snapshot | None:
        """Write rows and commit them; the new snapshot (of the compaction, where one followed), or None where there was
        nothing to commit.

        `mode` "overwrite" replaces: with `partition` (all or some partition columns) just that, else the partitions
        that the rows lie in, or the whole table if it has none or `dynamic-partition-overwrite` is false. Columns that
        `partition` fixes may be left out of the rows. On failure the table is as it was.
        Errors: InvalidError (rows, options), UnsupportedError, ConflictError, CommitError, CommitUnknownError.
        Spec: docs/spec/writing.md
        """
        if mode not in ("append", "overwrite"):
            remedy = "use 'append', which upserts where there is a primary key, or 'overwrite'"
            raise InvalidError("unknown write mode", mode=mode, remedy=remedy)
        table = self.with_options(options).for_writing()
        table.store.check_holds(None)  # before rows are asked for
        if mode == "append":
            preparing.refuse_plain_append(table.store)
        data = given_rows.arrow_input(data)
        if Merging.of(table.options) is not None:
            table = table.evolved(given_rows.given_fields(data), sensitive=True)
        store = table.store
        batches: Iterable[pa.RecordBatch] = given_rows.record_batches(data, partition or {}, table.schema)
        touched: frozenset[bytes] | None = None
        if isinstance(data, (pa.Table, pa.RecordBatch)):
            batches = list(batches)
            touched = assigning.touched_partitions(table.schema, batches)
        order = ordering.write_order(store.schema, store.options)
        if order is not None:
            batches = ordered_rows.incoming_in_order(batches, order, store)
        user = preparing.new_commit_user(store)
        overwrite = mode == "overwrite"
        prepared = partial(preparing.prepare_write, store, commit_user=user, overwrite=overwrite, partitions=touched)
        task = on_newest(store, lambda: prepared(store.latest_snapshot()))
        messages = pending.write_counted(
            store, batches, replace(task, options={"threads": threads()}), overwrite=overwrite
        )
        return table.compacted(table.commit(messages, user, mode=mode, partition=partition), messages)

    def for_writing(self) -> Table:
        """The same table, as one that reads its own branch alone, or UnsupportedError if it has options that writers
        here do not honour; InvalidError for a system table."""
        self._check_writable()
        return self if fallback.is_alone(self.store) else self.with_options(fallback.ALONE)

    def for_changing(self, rows: bool = False) -> Table:
        """As `for_writing`, under the table's newest schema, dynamic options kept: what puts rows in the place of
        others must know all their columns. `rows`: reads see the newest version of each, compacted or not. Without:
        NotFoundError for a table that was dropped since, ConflictError for another in its place."""
        current = renewed(self._rows("write to").store)
        if rows:
            current = current.with_options(newest_rows(current))
        else:
            current.check_here()  # who reads the rows asks by that
        return (self if current is self.store else replace(self, store=current)).for_writing()

    def _check_writable(self) -> None:
        refuse_undelivered(self._rows("write to").schema)
        warn_of_undone(self.name, self.path, self.schema.options)

    def _rows(self, action: str) -> Table:
        if self.view is not None:
            raise InvalidError(f"Cannot {action} system table '{self.name}', please use data table.", table=self.name)
        return self

    def commit(
        self,
        messages: Sequence[CommitMessage],
        commit_user: str | BatchName | Loading,
        mode: str = "append",
        partition: Mapping[str, Any] | None = None,
        operation: str | None = "WRITE",
        read: Read | None = None,
    ) -> Snapshot | None:
        """Publish what tasks wrote, rebasing on concurrent commits; on failure their files are removed, unless the
        commit may have landed (CommitUnknownError). `mode`: "append"; "overwrite static", all of `partition`, or
        "overwrite dynamic", of it just the partitions that rows are in, or "overwrite", which of them the option
        says. `read`: rows are changes of this snapshot's, or made of it where they replace; ConflictError if others
        have changed these, or any. `commit_user`: a stream's batch is committed under its name, once; so are loads."""
        check = row_conflicts.check_of(self.store, read, mode != "append", operation)
        user, identifier, watermark = str(commit_user), BATCH_COMMIT_IDENTIFIER, None
        if isinstance(commit_user, BatchName):
            check = Once(self.store, commit_user).check
            user, identifier, watermark = commit_user.query, commit_user.number, commit_user.watermark
        elif isinstance(commit_user, Loading):
            check, user = commit_user.check, commit_user.user
        checked = mode == "append" or read is not None  # a batch that overwrites may come again
        commit = commits.Commit(self.store, user, check=check if checked else None)
        operation = "OVERWRITE" if operation == "WRITE" and mode != "append" else operation
        notes, outcome = commits.CommitProperties(watermark=watermark, operation=operation), Outcome()
        with owned(outcome, lambda: commit.abort(messages)):
            if mode == "append":
                self._refuse_strangers(messages, partition)
                return commit.commit(messages, identifier, notes=notes, outcome=outcome)
            own = partition is None and bool(self.options.get("dynamic-partition-overwrite"))
            dynamic = own if mode == "overwrite" else mode == "overwrite dynamic"
            self._refuse_strangers(messages, partition if mode == "overwrite dynamic" else None)
            return commit.overwrite(
                messages, partition, dynamic=dynamic, identifier=identifier, notes=notes, outcome=outcome
            )

    def _refuse_strangers(self, messages: Sequence[CommitMessage], partition: Mapping[str, Any] | None) -> None:
        within = spec_filter(self.store, [partition]) if partition else None
        if within is not None and not all(within(message.partition) for message in messages):
            raise InvalidError("rows do not belong to the partition that is written", partition=dict(partition or {}))

    def delete(self, where: str | Predicate, **options: Any) -> Snapshot | None:
        """Delete the matching rows as of now; None if none match. `where`: a SQL condition, "true" for all rows.

        Append tables mark them in deletion vectors if these are enabled, else rewrite the files that hold them; with
        concurrent writers the delete is planned again, as often as is reasonable, before ConflictError is raised.
        Spec: docs/spec/deletion_vector.md#deleting
        """
        table = self.with_options(options).for_changing(rows=True)
        store, predicate = table.store, table.predicate(row_changes.required(where))
        if not table.schema.primary_keys:
            delete = column_updates.delete_evolving if table.schema.data_evolution else append_rows.delete_rows
            return expiring.after_change(store, delete(store, predicate))
        row_changes.refuse_delete(table.schema)
        return table._change(lambda: table._rows_now(predicate), "DELETE", incoming.DELETE)

    def _rows_now(self, predicate: Predicate | None) -> Iterator[pa.RecordBatch]:
        """The matching rows as of now; what protects them goes with the last."""
        scan = self._now(lambda: self.scan(predicate).planned())
        try:
            yield from scan.scan_batches()
        finally:
            if scan.plan is not None:
                read_tags.release(scan.table.store, scan.plan)

    def _change(self, read: Callable[[], Iterable[pa.RecordBatch]], operation: str, kind: int) -> Snapshot | None:
        """Write and commit new versions of rows; again where others changed them meanwhile."""

        def commit(made: Sequence[CommitMessage], user: str, base: Snapshot | None) -> Snapshot | None:
            return self.commit(made, user, operation=operation, read=base)

        snapshot, messages = row_conflicts.write_changes(self.store, read, kind, commit)
        return upkeep.after_no_change(self.store) if snapshot is None else self.compacted(snapshot, messages)

    def update(
        self, assignments: Mapping[str, Any], where: str | Predicate | None = None, **options: Any
    ) -> Snapshot | None:
        """Set columns of the matching rows (all without `where`) to constants, as of now; None if none match.

        Columns of the primary key cannot be set. Rows of append tables may move to another partition or bucket; those
        of a primary-key table need Spark for that. Concurrent writers: as `delete`.
        Errors: InvalidError (columns, values), UnsupportedError (merge engine), and those of `write_arrow`.
        """
        table = self.with_options(options).for_changing(rows=True)
        store, assign = table.store, append_rows.assign_values(table.schema, assignments)
        predicate = table.predicate(where)
        if not table.schema.primary_keys:
            if table.schema.data_evolution:
                changed = column_updates.update_columns(store, predicate, assign, assignments)
            else:
                changed = append_rows.update_rows(store, predicate, assignments)
            return expiring.after_change(store, changed)
        row_changes.refuse_update(table.schema, assignments)
        moving = sorted(set(assignments) & set(table.schema.partition_keys))
        if moving:
            raise UnsupportedError("rows that move to another partition", columns=moving, remedy="use lake.update")
        return table._change(lambda: map(assign, table._rows_now(predicate)), "UPDATE", incoming.UPDATE_AFTER)

    def compacted(self, snapshot: Snapshot | None, messages: Sequence[CommitMessage]) -> Snapshot | None:
        """Compact and expire what is due after a write was committed as `snapshot`; the newest of both snapshots."""
        if snapshot is None:
            return None
        if not self.schema.primary_keys:
            compacted = append_compact.after_write(self.store, messages)
        else:
            compacted = upkeep.after_write(self.store, snapshot, messages)
        return expiring.after_commit(self.store, compacted or snapshot, wrote=messages)

    def truncate(self) -> Snapshot:
        """Remove all rows."""
        done = self._removal().truncate()
        expiring.after_commit(self.store, done)
        return done

    def _removal(self) -> commits.Commit:
        store = self.for_writing().store
        store.check_here()
        return commits.Commit(store, preparing.new_commit_user(self.store))

    def drop_partitions(self, partitions: PartitionSpecs) -> Snapshot | None:
        """Remove all rows of the partitions; None where none of them is there. A specification may name some partition
        columns only, not none."""
        done = self._removal().drop_partitions(listed(partitions))
        return expiring.after_change(self.store, done)

    def _history(self, writing: bool = False) -> Store:
        if writing:
            self._check_writable()
        return self.store

    def _called(self) -> str:
        return self.name

    def _shown(self) -> tuple[TableSchema, Store | None]:
        return self.schema, None if isinstance(self.view, SystemTable) else self.store

    __repr__ = Streams.__repr__

    if not TYPE_CHECKING:  # a checker must know which names there are

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, {"table.to_arrow()": pa.Table, "table.to_polars()": pl.LazyFrame}, _NAMES)

    def _branch_store(self, name: str) -> Store:
        return self.with_options(branch=name).for_writing().store

    def alter(self, *changes: SchemaChange) -> Table:
        """Publish the next schema and return the table with it; no data file is touched. Options of a table that cannot
        be written here may be altered, as far as they are not refused themselves.

        Concurrent changes are put one after the other; ConflictError if that keeps failing. Errors: see
        `schema.apply`.
        """
        altering.Alter(self._rows("alter").store, self.name, lambda _: changes).publish()
        with already_done("the schema is changed, but cannot be read", "open the table again", table=self.name):
            return self.refresh()

    def evolved(self, given: Sequence[DataField], sensitive: bool = False) -> Table:
        """The table with its newest schema, widened for rows of the columns `given` by one more schema where the option
        `write.merge-schema` is set; dynamic options stay. Errors: those of `merging` and `alter`."""
        rules = Merging.of(self.options, sensitive)
        if rules is None:
            return self
        store = self._rows("alter").store
        altering.Alter(store, self.name, lambda base: merging(base.fields, given, rules), merges=True).publish()
        return self.refresh().with_options(self.store.dynamic_options())


def open_table(path: str, env: Env, *, name: str | None = None, options: Mapping[str, Any] | None = None) -> Table:
    """The table that lies in a folder, with its newest schema. NotFoundError if the folder holds none.

    `options`: dynamic options; "branch" opens that branch.
    """
    given = option_keys(given_options(options))
    branch = given.pop("branch", None)
    place = {} if branch is None else {"branch": str(branch)}
    path = path.rstrip("/") or path
    env = env.of_table(path)
    paths = TablePaths(path, options=place)
    schema = newest_schema(env, paths)
    if not place and schema.options.get("branch", MAIN) != MAIN:  # Paimon stores it, and then mixes both branches
        raise UnsupportedError(
            "the table's schema says that its rows are a branch's",
            path=paths.schema(schema.id),
            branch=schema.options["branch"],
            remedy="ALTER TABLE … RESET ('branch') with Apache Paimon; rows of the branch are read as t$branch_<name>",
        )
    schema = replace(schema, options={**schema.options, **place})
    return Table(Store.of(env, path, schema), name or path.rsplit("/", 1)[-1]).with_options(given)


def new_table(env: Env, path: str, schema: TableSchema, name: str) -> Table:
    """The table with this schema that lies, or is to lie, in a folder."""
    return Table(Store.of(env, path, schema), name)
