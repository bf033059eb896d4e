"""ALTER TABLE: options, columns, name and partitions of a lake table; ALTER DATABASE; other ALTERs go to Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from bucketlake.errors import UnsupportedError
from bucketlake.schema import schema as core
from bucketlake.schema.default import stored_default
from bucketlake.sql.tables.create_table import COMMENT
from bucketlake.sql.tables.ddl import accept_database, partition_spec
from bucketlake.sql.text import names
from bucketlake.sql.text.parsed import Statement
from bucketlake.sql.text.text import Cursor
from bucketlake.types.model import parse_type_text
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake


@dataclass(frozen=True, slots=True)
class _AlterDatabase:
    parts: tuple[str, ...]
    properties: dict[str, str]

    def run(self, lake: Lake, name: names.LakeName) -> None:
        lake.catalog.alter_database(names.database(lake, self.parts), self.properties)


@dataclass(frozen=True, slots=True)
class _Change:
    """Schema changes in order. `if_exists`: columns that are dropped may be missing."""

    changes: tuple[core.SchemaChange, ...]
    if_exists: bool = False

    def run(self, lake: Lake, name: names.LakeName) -> None:
        changes = self.changes
        if self.if_exists:
            known = lake.table(name.full).schema
            changes = tuple(c for c in changes if not isinstance(c, core.DropColumn) or known.has_column(c.column))
        if changes:
            lake.catalog.alter_table(name.full, *changes)


@dataclass(frozen=True, slots=True)
class _SetDefaults:
    """Defaults of columns by their SQL text, which is read by the columns' types."""

    defaults: tuple[tuple[tuple[str, ...], str], ...]

    def run(self, lake: Lake, name: names.LakeName) -> None:
        schema = lake.table(name.full).schema
        changes = []
        for column, text in self.defaults:
            if len(column) > 1:
                raise UnsupportedError("defaults of members of ROW columns", column=".".join(column), table=name.full)
            changes.append(core.UpdateColumnDefault(column, stored_default(text, schema.field(column[0]))))
        lake.catalog.alter_table(name.full, *changes)


@dataclass(frozen=True, slots=True)
class _Rename:
    parts: tuple[str, ...]

    def run(self, lake: Lake, name: names.LakeName) -> None:
        bare = len(self.parts) == 1
        target = names.LakeName(name.database, self.parts[0]) if bare else names.target(lake, self.parts)
        lake.catalog.rename_table(name.full, target.full)


@dataclass(frozen=True, slots=True)
class _DropPartitions:
    specs: tuple[dict[str, str | None], ...]

    def run(self, lake: Lake, name: names.LakeName) -> None:
        lake.table(name.full).drop_partitions(self.specs)


@dataclass(frozen=True, slots=True)
class _IfExists:
    """A statement about a table that need not be there."""

    statement: Statement

    def run(self, lake: Lake, name: names.LakeName) -> None:
        if lake.catalog.table_exists(name.full):
            self.statement.run(lake, name)


def alter(cursor: Cursor) -> Statement | None:
    """ALTER TABLE | DATABASE …; other ALTERs are Spark's."""
    cursor.expect("ALTER")
    if accept_database(cursor):
        parts = cursor.name()
        cursor.expect("SET")
        if not cursor.accept("DBPROPERTIES"):
            cursor.expect("PROPERTIES")
        return _AlterDatabase(parts, cursor.options())
    if not cursor.accept("TABLE"):
        return None
    if_exists = cursor.accept("IF", "EXISTS")
    cursor.table()
    for words, parse in _ALTERATIONS:
        if cursor.accept(*words):
            found = parse(cursor)
            return _IfExists(found) if if_exists else found
    cursor.fail("this ALTER TABLE is not supported on lake tables")
    return None


def _rename(cursor: Cursor) -> Statement:
    return _Rename(cursor.name())


def _set(cursor: Cursor) -> Statement:
    return _Change(
        tuple(
            core.UpdateComment(None, value) if key == COMMENT else core.SetOption(key, value)
            for key, value in cursor.options().items()
        )
    )


def _reset(cursor: Cursor) -> Statement:
    cursor.accept("IF", "EXISTS")
    keys = cursor.bracketed(cursor.key)
    return _Change(tuple(core.UpdateComment(None, None) if key == COMMENT else core.RemoveOption(key) for key in keys))


def _add_columns(cursor: Cursor) -> Statement:
    bracket = cursor.sees("(")
    columns = cursor.bracketed(lambda: _added(cursor)) if bracket else cursor.listed(lambda: _added(cursor))
    return _Change(tuple(columns))


_COLUMN_CLAUSES = (",", ")", "NOT", "COMMENT", "FIRST", "AFTER", "DEFAULT")


def _added(cursor: Cursor) -> core.AddColumn:
    """`name type [NOT NULL] [COMMENT 'c'] [FIRST | AFTER d]`, clauses in any order, each once."""
    column = cursor.name()
    added = core.AddColumn(column, parse_type_text(cursor.until(*_COLUMN_CLAUSES), "spark"))
    seen: set[str] = set()
    while (token := cursor.peek()) is not None and token.kind == "word":
        clause = "AFTER" if token.is_word("FIRST") else token.value.upper()
        if clause in seen:
            cursor.fail(f"{clause} is given twice")
        seen.add(clause)
        if cursor.accept("NOT", "NULL"):
            added = replace(added, type=added.type.with_nullable(False))
        elif cursor.accept("COMMENT"):
            added = replace(added, comment=cursor.string())
        elif cursor.sees("FIRST") or cursor.sees("AFTER"):
            first, after = _position(cursor)
            added = replace(added, first=first, after=after)
        elif cursor.sees("DEFAULT"):
            # Rows that are there already would read null: Paimon has no place for a default of the past.
            raise UnsupportedError(
                f"Cannot add column {'.'.join(column)} with default value.",
                remedy="add the column, then ALTER COLUMN … SET DEFAULT: it holds for rows written from then on",
            )
        else:
            break
    return added


def _position(cursor: Cursor) -> tuple[bool, str | None]:
    """FIRST | AFTER c -> (first, after)."""
    if cursor.accept("FIRST"):
        return True, None
    cursor.expect("AFTER")
    return False, cursor.identifier()


def _drop_columns(cursor: Cursor) -> Statement:
    if_exists = cursor.accept("IF", "EXISTS")
    columns = cursor.bracketed(cursor.name) if cursor.sees("(") else cursor.listed(cursor.name)
    return _Change(tuple(core.DropColumn(column) for column in columns), if_exists)


def _rename_column(cursor: Cursor) -> Statement:
    column = cursor.name()
    cursor.expect("TO")
    return _Change((core.RenameColumn(column, cursor.identifier()),))


def _alter_column(cursor: Cursor) -> Statement:
    """`c action {, d action}`; defaults are set by themselves."""
    column = cursor.name()
    if cursor.accept("SET", "DEFAULT"):
        return _SetDefaults(((column, cursor.expression(",")),))
    changes = [_changed(cursor, column)]
    while cursor.accept(","):
        changes.append(_changed(cursor, cursor.name()))
    return _Change(tuple(changes))


def _changed(cursor: Cursor, column: tuple[str, ...]) -> core.SchemaChange:
    if cursor.accept("TYPE"):
        return core.UpdateColumnType(column, parse_type_text(cursor.until(",", "COMMENT", "FIRST", "AFTER"), "spark"))
    if cursor.accept("COMMENT"):
        return core.UpdateComment(column, cursor.string())
    if cursor.accept("SET", "NOT", "NULL"):
        return core.UpdateColumnNullability(column, False)
    if cursor.accept("DROP", "NOT", "NULL"):
        return core.UpdateColumnNullability(column, True)
    if cursor.accept("DROP", "DEFAULT"):
        return core.UpdateColumnDefault(column, None)
    if not (cursor.sees("FIRST") or cursor.sees("AFTER")):
        cursor.fail("this change of a column is not supported")
    return core.UpdatePosition(column, *_position(cursor))


def _drop_partitions(cursor: Cursor) -> Statement:
    specs = [partition_spec(cursor)]
    while cursor.accept(",", "PARTITION") or cursor.accept("PARTITION"):
        specs.append(partition_spec(cursor))
    cursor.accept("PURGE")
    return _DropPartitions(tuple(specs))


_ALTERATIONS: list[tuple[tuple[str, ...], Callable[[Cursor], Statement]]] = [
    (("SET", "TBLPROPERTIES"), _set),
    (("UNSET", "TBLPROPERTIES"), _reset),
    (("SET",), _set),
    (("RESET", "TBLPROPERTIES"), _reset),
    (("RESET",), _reset),
    (("RENAME", "TO"), _rename),
    (("RENAME", "COLUMN"), _rename_column),
    (("ADD", "COLUMNS"), _add_columns),
    (("ADD", "COLUMN"), _add_columns),
    (("DROP", "PARTITION"), _drop_partitions),
    (("DROP", "IF", "EXISTS", "PARTITION"), _drop_partitions),
    (("DROP", "COLUMNS"), _drop_columns),
    (("DROP", "COLUMN"), _drop_columns),
    (("ALTER", "COLUMN"), _alter_column),
    (("CHANGE", "COLUMN"), _alter_column),
]
