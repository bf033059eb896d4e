"""DELETE FROM: by metadata alone where it can, else the rows that the condition finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from bucketlake.errors import ConflictError
from bucketlake.ops.change.row_changes import deletes_by_rewrite, is_everything, refuse_delete
from bucketlake.spark import actions, changes
from bucketlake.spark.read.partition_rows import PARTITION, partitions_frame
from bucketlake.spark.write.column_updates import MINE, ColumnChange
from bucketlake.sql.rows.target import Target, parse_condition, parse_target
from bucketlake.sql.rows.ways import Explained, deleted
from bucketlake.sql.text import names
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.parsed import Statement
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.predicate.tree import Predicate
    from bucketlake.spark.session import Lake
    from bucketlake.spark.table import LakeTable


def parse(cursor: Cursor) -> Statement:
    """Read `DELETE FROM t [[AS] a] [WHERE …]`."""
    cursor.expect("DELETE")
    cursor.expect("FROM")
    target = parse_target(cursor, "WHERE")
    target.condition = parse_condition(cursor)
    return _Delete(target)


@dataclass(frozen=True, slots=True)
class _Delete:
    target: Target

    def run(self, lake: Lake, name: names.LakeName) -> None:
        """At most one commit.

        Spec: docs/spec/row_changes.md#delete
        """
        target = self.target
        table = target.table(lake, name)
        known = target.predicate(lake, table)
        if changes.delete_known(table.table, known) or _delete_partitions(lake, target, table):
            return
        if not deletes_by_rewrite(table.schema):
            refuse_delete(table.schema)
        _delete_rows(lake, target, table, known)

    def explained(self, lake: Lake, name: names.LakeName) -> Explained:
        """How rows go, nothing done.

        Spec: docs/spec/row_changes.md#explain
        """
        target = self.target
        table = target.table(lake, name)
        schema = table.schema
        table.table.for_writing()
        if is_everything(target.predicate(lake, table)):
            return Explained(name.full, "DELETE of all rows, by metadata alone", None)
        if _is_about_partitions(target, table):
            listed = {key: target.column(key) for key in schema.partition_keys}
            return Explained(name.full, "DELETE of whole partitions, by metadata alone", target.text(listed))
        if not deletes_by_rewrite(schema):
            refuse_delete(schema)
        columns = {item: target.column(item) for item in schema.field_names}
        target.check(lake, table, columns)
        listed = {key: columns[key] for key in schema.primary_keys} or {"found": "true"}
        return Explained(name.full, f"DELETE, {deleted(schema)}", target.text(listed))


def _is_about_partitions(target: Target, table: LakeTable) -> bool:
    return target.is_about(table.schema.partition_keys) and not table.options.get("delete.force-produce-changelog")


def _delete_partitions(lake: Lake, target: Target, table: LakeTable) -> bool:
    """Drop the partitions that a condition over partition columns finds, by whatever subquery; False: it cannot say."""
    if not _is_about_partitions(target, table):
        return False
    base = table.table.latest_snapshot()
    partitions, own = partitions_frame(lake.spark, table.table)
    try:
        found = actions.rows(target.rows(lake, {PARTITION: target.column(PARTITION)}, own))
        target.beside(lake, table).check(table.table.store, base)
    except (AnalysisException, ConflictError):
        return False  # a subquery looks at the row's other columns, or at other partitions than are listed
    if found:
        table.drop_partitions([partitions[row[0]] for row in found])
    return True


def _delete_rows(lake: Lake, target: Target, table: LakeTable, known: Predicate) -> None:
    schema = table.schema
    columns = {item: target.column(item) for item in schema.field_names}
    target.check(lake, table, columns)
    if schema.data_evolution:
        mine = {MINE: target.column(MINE)}
        texts, beside = (target.condition or "",), target.beside(lake, table)
        change = ColumnChange(lake.spark, table.table.for_writing(), known, texts, beside)
        change.delete(lambda own: target.rows(lake, mine, own))
        return
    if not schema.primary_keys or deletes_by_rewrite(schema):
        changes.delete_places(
            lake.spark,
            table.table.for_writing(),
            known,
            lambda rows: target.places(lake, rows),
            target.beside(lake, table),
        )
        return
    keys = target.keys(lake, table)
    changes.delete_rows(lake.spark, table.table.for_writing(), lambda: target.rows(lake, columns), keys)
