"""MERGE into a table whose columns lie in several files: of rows that it changes, only the columns that it sets are
written, beside the files that are there; rows that it adds are new files, rows that go are marked.

Spec: docs/spec/row_changes.md#merge
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.change.column_updates import (
    AddingRead,
    Changed,
    delete_ids,
    named_columns,
    refuse_deletes,
    until_done,
    used_columns,
)
from bucketlake.ops.clean.expire import after_change
from bucketlake.ops.commit.outcome import Attempt
from bucketlake.ops.rows.column_roll import first_id, groups_of
from bucketlake.ops.table.messages import Split
from bucketlake.predicate.tree import Predicate
from bucketlake.schema.schema import TableSchema
from bucketlake.spark import instants
from bucketlake.spark.assignment import Rules
from bucketlake.spark.merge.clauses import DELETE, INSERT, UPDATE, Merge, Side, assigned
from bucketlake.spark.merge.held import Target
from bucketlake.spark.merge.keyed import TakeSource
from bucketlake.spark.merge.outcome import Scope
from bucketlake.spark.merge.pruning import extra_columns
from bucketlake.spark.merge.stages import Rows, Stages, repeats, violation
from bucketlake.spark.read.hidden import hidden_fields
from bucketlake.spark.read.reader import rows_of
from bucketlake.spark.types import quoted
from bucketlake.spark.write.append_changes import write_rows
from bucketlake.spark.write.column_updates import (
    MINE,
    as_stored,
    is_small,
    named_rows,
    plan_at,
    rows_with_ids,
    write_found,
)
from bucketlake.table import Table
from bucketlake.values import dataclass


def _layout(schema: TableSchema, extra: Sequence[str]) -> T.StructType:
    """The columns of a target without rows."""
    mine = T.StructField(MINE, T.LongType())
    own = instants.shown_schema(schema.fields, schema.table_options).fields
    return T.StructType([*own, *hidden_fields(extra, schema), mine])


@dataclass(frozen=True)
class EvolvingMerge:
    """A MERGE with its stars expanded."""

    spark: SparkSession
    table: Table
    merge: Merge
    rules: Rules

    def run(self, take: TakeSource, prune: Predicate | None) -> Snapshot | None:
        """At most one commit; planned and evaluated anew where others changed what it has read. `prune`: what is known
        of the rows that matter before the source is looked at.

        Errors: UnsupportedError for rows that would move to other partitions, or go from a table without vectors.
        """
        schema, merge, store = self.table.schema, self.merge, self.table.store
        if any(clause.kind == DELETE for clause in merge.clauses):
            refuse_deletes(schema, "MERGE")
        used = used_columns(schema, self._needed)
        inserting = bool(merge.of(Side.NOT_MATCHED))

        def once(base: Snapshot | None, attempt: Attempt) -> Changed:
            changed = self._attempted(base, attempt, take, prune)
            return replace(changed, more=AddingRead(store, base, used=used).check) if inserting else changed

        return after_change(store, until_done(store, once, used, "MERGE", self._columns))

    @property
    def _needed(self) -> set[str]:
        """The columns of the target that it may look at: those that it sets are among them."""
        schema = self.table.schema
        return {*assigned(self.merge.clauses), *named_columns(schema, [self.merge.words])}

    @property
    def _columns(self) -> list[str]:
        """The columns that are written: no row leaves its partition."""
        schema, found = self.table.schema, assigned(self.merge.clauses)
        return [name for name in schema.field_names if name in found and name not in schema.partition_keys]

    def _attempted(self, base: Snapshot | None, attempt: Attempt, take: TakeSource, prune: Predicate | None) -> Changed:
        store, merge = self.table.store, self.merge
        rows, groups = self._rows(base, take, prune)
        touched: dict[int, Split] = {}
        changed = rows.frame(UPDATE) if self._columns else None
        if changed is not None:
            changed = as_stored(changed, store.schema, self._columns, self.rules)
            own = named_rows(changed.select(MINE), groups, rows.few)
            touched |= {first_id(group): group for group, _ in own}
            found = list(touched.values())
            attempt.made(write_found(self.spark, store, found, self._columns, changed, rows.few and is_small(found)))
        gone = rows.frame(DELETE) if any(clause.kind == DELETE for clause in merge.clauses) else None
        if gone is not None and base is not None:
            own = named_rows(gone.select(MINE), groups, rows.few)
            touched |= {first_id(group): group for group, _ in own}
            for message in delete_ids(store, base, own):
                attempt.made([message])
        new = rows.frame(INSERT) if merge.of(Side.NOT_MATCHED) else None
        if new is not None:
            new = new.select(*map(quoted, store.schema.field_names))
            attempt.made(write_rows(self.spark, store, base, new, rows.few))
        return Changed(attempt.messages, list(touched.values()))

    def _rows(self, base: Snapshot | None, take: TakeSource, prune: Predicate | None) -> tuple[Rows, list[Split]]:
        """What becomes of each row, and the groups that were looked at."""
        groups: list[Split] = []
        schema, extra = self.table.schema, extra_columns(self.merge, self.table.schema)
        source = take(base)
        if base is None:
            target = self.spark.createDataFrame([], _layout(schema, extra))
        else:
            plan = plan_at(self.table, base, prune)
            instants.refuse_skipped(self.spark, schema, lambda: rows_of(self.spark, self.table.store, plan))
            groups += groups_of(plan.splits)
            target = rows_with_ids(self.spark, self.table, plan, self._needed, extra)
        scope = Scope(schema, self.rules, self.merge.target, deletes_rows=False, given=self.merge.given)
        stages = Stages(self.spark, self.merge, scope, {MINE: (MINE, T.LongType())})
        rows = stages.rows(Target(lambda: target, is_small(groups)), source)
        if rows.pairs is not None and self.merge.counts_matches and repeats(rows.pairs, [MINE]):
            raise violation()
        return rows, groups
