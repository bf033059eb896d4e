"""UPDATE: the rows that the condition finds, with the expressions of SET in place of their columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from bucketlake.errors import InvalidError
from bucketlake.ops.change.row_changes import refuse_update
from bucketlake.schema.default import default_sql
from bucketlake.spark import changes, instants
from bucketlake.spark.conform import require_assignable
from bucketlake.spark.merge.clauses import TWICE
from bucketlake.spark.settings import is_case_sensitive
from bucketlake.spark.types import quoted
from bucketlake.spark.write.column_updates import MINE, ColumnChange
from bucketlake.sql.rows import plain_values
from bucketlake.sql.rows.target import Target, column_path, is_default, parse_condition, parse_target
from bucketlake.sql.rows.ways import Explained, updated
from bucketlake.sql.text import names
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.parsed import Statement
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from bucketlake.schema.schema import TableSchema
    from bucketlake.spark.session import Lake
    from bucketlake.spark.table import LakeTable
    from bucketlake.types.model import DataField, DataType

_MEMBER = "__bucketlake_member_"


@dataclass(slots=True)
class Update:
    """A parsed UPDATE. `assignments`: (column's name as written, SQL text), in order."""

    target: Target
    assignments: list[tuple[tuple[str, ...], str]]

    def run(self, lake: Lake, name: names.LakeName) -> None:
        """At most one commit.

        Spec: docs/spec/row_changes.md#update
        """
        target, table, assigned = self._read(lake, name)
        schema = table.schema
        if _is_set_here(lake, table, target, assigned):
            return
        columns = self._checked(lake, table, assigned)
        if schema.data_evolution:
            _update_columns(lake, table, target, assigned, columns)
            return
        if not schema.primary_keys:
            written = columns | changes.kept_ids(schema, target.column)

            def project(rows: DataFrame, whole: bool) -> DataFrame:
                some = written if whole else {name: columns[name] for name in assigned.names}
                return _with_members(target.rows(lake, some | target.placed, rows, every=True), schema, assigned)

            kept = {*schema.field_names}.difference(assigned.names)
            beside = target.beside(lake, table, *[text for name, text in columns.items() if name not in kept])
            own = changes.Assigning(assigned.names, lambda rows: target.places(lake, rows), project, beside)
            changes.update_places(lake.spark, table.table.for_writing(), target.predicate(lake, table), own)
            return
        keys = _keys(lake, table, target, assigned)
        new = {name: columns[name] for name in assigned.columns} | {changes.PLACE: target.column(changes.PLACE)}
        if changes.moves(schema, assigned.names):
            columns |= {changes.OLD + item: target.column(item) for item in schema.field_names}
        changes.update_rows(
            lake.spark,
            table.table.for_writing(),
            lambda: _with_members(target.rows(lake, columns), schema, assigned),
            keys,
            changes.NewValues(
                assigned.names,
                list(assigned.columns.values()),
                lambda rows: target.rows(lake, new, rows, every=True),
            ),
        )

    def explained(self, lake: Lake, name: names.LakeName) -> Explained:
        """How rows get their new values, nothing done.

        Spec: docs/spec/row_changes.md#explain
        """
        target, table, assigned = self._read(lake, name)
        schema = table.schema
        table.table.for_writing()
        columns = self._checked(lake, table, assigned)
        new = {key: columns[key] for key in schema.primary_keys}
        new |= {item: text for item, text in columns.items() if item in assigned.columns or item.startswith(_MEMBER)}
        return Explained(name.full, f"UPDATE, {updated(schema, assigned.names)}", target.text(new))

    def _read(self, lake: Lake, name: names.LakeName) -> tuple[Target, LakeTable, _Assigned]:
        table = self.target.table(lake, name)
        assigned = _assigned(table.schema, self, is_case_sensitive(lake.spark))
        refuse_update(table.schema, assigned.names)
        return self.target, table, assigned

    def _checked(self, lake: Lake, table: LakeTable, assigned: _Assigned) -> dict[str, str]:
        """The columns of the new rows and what goes into members, as SQL text that Spark has looked at."""
        columns = {
            item: f"({assigned.columns[item]})" if item in assigned.columns else self.target.column(item)
            for item in table.schema.field_names
        }
        for place, (_, _, text) in enumerate(assigned.members):
            columns[f"{_MEMBER}{place}"] = f"({text})"
        values = [*assigned.columns.values(), *(text for _, _, text in assigned.members)]
        seen = self.target.check(lake, table, columns, values)
        fields = [item for item in table.schema.fields if item.name in assigned.columns]
        fields += [
            replace(_member(table.schema.field(column), path), name=f"{_MEMBER}{place}")
            for place, (column, path, _) in enumerate(assigned.members)
        ]
        require_assignable(seen, fields, instants.rules(lake.spark, table.options))
        return columns


def _is_set_here(lake: Lake, table: LakeTable, target: Target, assigned: _Assigned) -> bool:
    """Whether the update sets columns of few rows to plain literals, and is done."""
    if assigned.members or instants.rules(lake.spark, table.options).policy != "CAST":
        return False
    values = plain_values.constants_of(assigned.columns, table.schema)
    return values is not None and changes.update_known(table.table, target.predicate(lake, table), values)


def _keys(lake: Lake, table: LakeTable, target: Target, assigned: _Assigned) -> changes.Keys | None:
    """How to find the rows by their keys; None where the statement looks at more than columns of its table, or says
    nothing of them, and where rows may move."""
    schema, beside = table.schema, target.beside(lake, table, *assigned.columns.values())
    apart = target.condition is None or beside.extra or beside.subqueries or assigned.members
    return None if apart or changes.moves(schema, assigned.names) else target.keys(lake, table)


def _update_columns(
    lake: Lake, table: LakeTable, target: Target, assigned: _Assigned, columns: Mapping[str, str]
) -> None:
    """Write the assigned columns alone, beside the files that are there."""
    members = [name for name in columns if name.startswith(_MEMBER)]
    written = {name: columns[name] for name in (*assigned.names, *members)} | {MINE: target.column(MINE)}
    texts = (target.condition or "", *assigned.columns.values(), *(text for _, _, text in assigned.members))
    change = ColumnChange(
        lake.spark, table.table.for_writing(), target.predicate(lake, table), texts, target.beside(lake, table, *texts)
    )
    change.update(lambda own: _with_members(target.rows(lake, written, own), table.schema, assigned), assigned.names)


@dataclass(slots=True)
class _Assigned:
    """The assignments by column. `members`: (column, member path, SQL text) of assignments into ROW columns."""

    columns: dict[str, str] = field(default_factory=dict)
    members: list[tuple[str, tuple[str, ...], str]] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The columns that change."""
        return list(dict.fromkeys([*self.columns, *(column for column, _, _ in self.members)]))


def parse(cursor: Cursor) -> Statement:
    """Read `UPDATE t [[AS] a] SET c = expression, … [WHERE …]`."""
    cursor.expect("UPDATE")
    target = parse_target(cursor, "SET")
    cursor.expect("SET")

    def assignment() -> tuple[tuple[str, ...], str]:
        name = cursor.name()
        cursor.expect("=")
        return name, cursor.expression(",", "WHERE")

    assignments = cursor.listed(assignment)
    target.condition = parse_condition(cursor)
    return Update(target, assignments)


def _with_members(frame: DataFrame, schema: TableSchema, assigned: _Assigned) -> DataFrame:
    """The rows with the values of members in their ROW columns."""
    values: dict[str, dict[tuple[str, ...], Column]] = {}
    for place, (column, path, _) in enumerate(assigned.members):
        values.setdefault(column, {})[path] = F.col(f"{_MEMBER}{place}")
    for column, own in values.items():
        frame = frame.withColumn(column, _row(F.col(quoted(column)), schema.field(column).type, own))
    return frame.drop(*(f"{_MEMBER}{place}" for place in range(len(assigned.members))))


def _member(item: DataField, path: tuple[str, ...]) -> DataField:
    """The member of a ROW column that a path leads to."""
    for name in path:
        item = next(member for member in item.type.fields if member.name == name)
    return item


def _row(base: Column, row: DataType, values: Mapping[tuple[str, ...], Column]) -> Column:
    """A ROW with some members set, by their paths in it; of a null one the others are null."""
    parts = []
    for member in row.fields:
        own = {path[1:]: value for path, value in values.items() if path[0] == member.name}
        part = base.getField(member.name)
        if own:
            part = own[()] if () in own else _row(part, member.type, own)
        parts.append(part.alias(member.name))
    return F.struct(*parts)


def _assigned(schema: TableSchema, update: Update, sensitive: bool) -> _Assigned:
    """The assignments by the table's columns; InvalidError for unknown ones and for two that set the same."""
    found = _Assigned()
    paths: list[tuple[str, ...]] = []
    for written, text in update.assignments:
        path = column_path(schema, update.target, written, "UPDATE", sensitive)
        for other in paths:
            shorter = min(len(path), len(other))
            if path[:shorter] == other[:shorter]:
                raise InvalidError(
                    f"[{TWICE}] Conflicting assignments for '{path[0]}'", remedy="assign each column once"
                )
        paths.append(path)
        value = _default(schema, path, text)
        if len(path) == 1:
            found.columns[path[0]] = value
        else:
            found.members.append((path[0], path[1:], value))
    return found


def _default(schema: TableSchema, path: tuple[str, ...], text: str) -> str:
    """The text, for the word DEFAULT the column's default."""
    if not is_default(text, schema.field_names):
        return text
    return default_sql(schema.field(path[0])) if len(path) == 1 else "NULL"
