"""ALTER TABLE: options, columns, name and partitions of a lake table; ALTER DATABASE; COMMENT ON.

Columns are changed in Spark's spelling (ALTER, CHANGE) and Flink's (ADD (…), MODIFY, DROP (…), RENAME a TO b). All
changes of a statement become one new schema.

Spec: docs/sql/ddl.md#alter-table
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from bucketlake.errors import AlreadyExistsError, InvalidError, NotFoundError, UnsupportedError
from bucketlake.schema import change as core
from bucketlake.schema.default import stored_default
from bucketlake.schema.schema import TableSchema
from bucketlake.spark.assignment import Rules
from bucketlake.spark.instants import of_session
from bucketlake.sql.query import query
from bucketlake.sql.tables import partitions, tags
from bucketlake.sql.tables.columns import Sensitive, has_column, refuse_alike, spelled
from bucketlake.sql.tables.create import refuse_computed
from bucketlake.sql.tables.create_table import COMMENT
from bucketlake.sql.tables.ddl import accept_database, partition_spec
from bucketlake.sql.tables.views import alter_view
from bucketlake.sql.text import habits, names
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.parsed import Statement
from bucketlake.sql.text.tokens import Token
from bucketlake.types.model import DataField, DataType
from bucketlake.types.parse import Dialect, column_type
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.spark.session import Lake


@dataclass(frozen=True, slots=True)
class _AlterDatabase:
    parts: tuple[str, ...]
    properties: dict[str, str]

    @property
    def place(self) -> tuple[str, ...]:
        """The catalog that is named."""
        return names.catalog_of(self.parts)

    def run(self, lake: Lake, name: names.LakeName) -> None:
        database = names.database(lake, self.parts)
        lake.catalog.database_properties(database)
        lake.catalog.alter_database(database, self.properties)


@dataclass(frozen=True, slots=True)
class _Default:
    """A column's default as SQL text, which means what the column's type makes of it."""

    column: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class _Dated:
    """A change whose type depends on what the session takes TIMESTAMP for: Spark's own, with local time zone, or
    `legacy` the zoneless one."""

    change: core.AddColumn | core.UpdateColumnType
    legacy: core.AddColumn | core.UpdateColumnType


Edit = core.SchemaChange | _Default | _Dated


def _dated(make: Callable[[Dialect], core.AddColumn | core.UpdateColumnType]) -> Edit:
    change, legacy = make("spark"), make("spark legacy")
    return change if change == legacy else _Dated(change, legacy)


@dataclass(frozen=True, slots=True)
class _Change:
    """Schema changes in order. `if_exists`: columns that are dropped may be missing. `if_not_exists`: those that are
    added may be there. `flink`: in Flink's spelling, which may give a table that nothing was written to a primary
    key, and whose types may be null where they do not say otherwise and are of no key."""

    changes: tuple[Edit, ...]
    if_exists: bool = False
    if_not_exists: bool = False
    flink: bool = False

    def run(self, lake: Lake, name: names.LakeName) -> None:
        schema = lake.table(name.full).schema

        def sensitive() -> bool:
            return Rules.of(lake.spark).sensitive

        changes = [
            change if self.flink and isinstance(change, core.SetOption) else meant(schema, change, sensitive)
            for change in (self._of_session(lake, change) for change in self.changes)
            if not self._idle(schema, change, sensitive)
        ]
        added = [(_parts(one.column), one.type) for one in changes if isinstance(one, core.AddColumn)]
        if added and not sensitive():
            for parent in {path[:-1] for path, _ in added}:
                refuse_alike([DataField(0, path[-1], kind) for path, kind in added if path[:-1] == parent], parent)
        if changes:
            lake.catalog.alter_table(name.full, *changes)

    def _of_session(self, lake: Lake, change: Edit) -> core.SchemaChange | _Default:
        if not isinstance(change, _Dated):
            return change
        return change.legacy if of_session(lake.spark) else change.change

    def _idle(self, schema: TableSchema, change: core.SchemaChange | _Default, sensitive: Sensitive) -> bool:
        if isinstance(change, core.UpdateColumnNullability) and self.flink and change.nullable:
            return spelled(schema, _parts(change.column), sensitive)[0] in schema.primary_keys
        if isinstance(change, core.UpdateColumnType) and len(path := _parts(change.column)) == 1:
            present = schema.field(spelled(schema, path, sensitive)[0]).type
            return bool(present.with_nullable(True) == change.type.with_nullable(True))
        if isinstance(change, core.DropColumn):
            return self.if_exists and not has_column(schema, change.column)
        return isinstance(change, core.AddColumn) and self.if_not_exists and has_column(schema, change.column)


def _parts(column: str | Sequence[str]) -> tuple[str, ...]:
    return (column,) if isinstance(column, str) else tuple(column)


def meant(schema: TableSchema, change: core.SchemaChange | _Default, sensitive: Sensitive) -> core.SchemaChange:
    """The change with the columns' own spelling, as the session reads names."""
    if isinstance(change, _Default):
        path = spelled(schema, change.column, sensitive)
        if len(path) > 1:
            raise UnsupportedError("defaults of members of ROW columns", column=".".join(path))
        return core.UpdateColumnDefault(path, stored_default(change.text, schema.field(path[0])))
    if isinstance(change, (core.SetOption, core.RemoveOption)):
        if change.key == "primary-key":
            raise UnsupportedError("Alter primary key is not supported", remedy="REPLACE TABLE gives it another one")
        return change
    if isinstance(change, core.DropPrimaryKey) or change.column is None:
        return change
    path = _parts(change.column)
    if isinstance(change, core.AddColumn):
        parent = spelled(schema, path[:-1], sensitive) if len(path) > 1 else ()
        if has_column(schema, (*parent, path[-1]), sensitive):
            raise AlreadyExistsError("column exists", column=".".join(path), remedy="ADD COLUMN IF NOT EXISTS")
        after = change.after
        if after is not None and has_column(schema, (*parent, after), sensitive):
            after = spelled(schema, (*parent, after), sensitive)[-1]
        return replace(change, column=(*parent, path[-1]), after=after)
    path = spelled(schema, path, sensitive)
    if isinstance(change, core.RenameColumn) and change.name.lower() != path[-1].lower():
        target = (*path[:-1], change.name)
        if has_column(schema, target, sensitive):
            raise AlreadyExistsError("column exists", column=".".join(target), remedy="choose another name")
    if isinstance(change, core.UpdatePosition) and change.after is not None:
        beside = spelled(schema, (*path[:-1], change.after), sensitive)[-1]
        return replace(change, column=path, after=beside)
    return replace(change, column=path)


def _rename(cursor: Cursor) -> Statement:
    """`TO t`, or Flink's `a TO b` for a column."""
    if cursor.accept("TO"):
        return _Rename(cursor.name())
    return _rename_column(cursor)


@dataclass(frozen=True, slots=True)
class _Rename:
    parts: tuple[str, ...]

    def run(self, lake: Lake, name: names.LakeName) -> None:
        bare = len(self.parts) == 1
        if len(self.parts) == 3 and self.parts[0].lower() not in lake.catalog_names:
            at = lake.catalog_names[0]
            raise InvalidError("Only supports operations within the same catalog", target=self.parts[0], current=at)
        target = names.LakeName(name.database, self.parts[0]) if bare else names.target(lake, self.parts)
        lake.catalog.rename_table(name.full, target.full)


@dataclass(frozen=True, slots=True)
class _DropPartitions:
    specs: tuple[dict[str, str | None], ...]
    if_exists: bool

    def run(self, lake: Lake, name: names.LakeName) -> None:
        partitions.drop(lake, lake.table(name.full).table, self.specs, self.if_exists)


@dataclass(frozen=True, slots=True)
class _AddPartitions:
    specs: tuple[dict[str, str | None], ...]
    if_not_exists: bool

    def run(self, lake: Lake, name: names.LakeName) -> None:
        partitions.add(lake, lake.table(name.full).table, self.specs, self.if_not_exists)


@dataclass(frozen=True, slots=True)
class _IfExists:
    """A statement about a table that need not be there."""

    statement: Statement

    def run(self, lake: Lake, name: names.LakeName) -> None:
        if lake.catalog.table_exists(name.full):
            self.statement.run(lake, name)


def alter(cursor: Cursor) -> Statement | None:
    """ALTER TABLE | DATABASE | VIEW …; other ALTERs are Spark's."""
    cursor.expect("ALTER")
    if accept_database(cursor):
        return _database(cursor)
    if cursor.accept("VIEW"):
        return alter_view(cursor)
    if not cursor.accept("TABLE"):
        return None
    if_exists = cursor.accept("IF", "EXISTS")
    cursor.table()
    for words, parse in _ALTERATIONS:
        if cursor.accept(*words):
            found = parse(cursor)
            return _IfExists(found) if if_exists else found
    for words, message in _REFUSED:
        if cursor.sees(*words):
            raise UnsupportedError(message)
    for words, parse in _SHORT:
        if cursor.accept(*words):
            found = parse(cursor)
            return _IfExists(found) if if_exists else found
    token = cursor.peek()
    place = token.start if token is not None else len(cursor.text)
    cursor.fail("this ALTER TABLE is not supported on lake tables", habits.remedy(cursor.text, place) or _meant(cursor))
    return None


def _meant(cursor: Cursor) -> str | None:
    """What a misspelt alteration is meant to be; None where none is near."""
    given = [token.value.upper() for token in cursor.tokens[cursor.at :]]
    near = [
        (SequenceMatcher(None, " ".join(given[: len(words)]), " ".join(words)).ratio(), " ".join(words))
        for words, _ in (*_ALTERATIONS, *_SHORT)
    ]
    ratio, meant = max(near)
    return f"did you mean {meant}?" if ratio > _NEAR else None


def _back(cursor: Cursor) -> Cursor:
    cursor.at -= 1
    return cursor


def _database(cursor: Cursor) -> Statement:
    """`d SET DBPROPERTIES (…) | SET LOCATION '…'`, `d UNSET DBPROPERTIES (…)`: a file-system catalog refuses all."""
    parts = cursor.name()
    if cursor.accept("UNSET"):
        if not cursor.accept("DBPROPERTIES"):
            cursor.expect("PROPERTIES")
        cursor.accept("IF", "EXISTS")
        return _AlterDatabase(parts, dict.fromkeys(cursor.bracketed(cursor.key), ""))
    cursor.expect("SET")
    if cursor.accept("LOCATION"):
        return _AlterDatabase(parts, {"location": cursor.string()})
    if not cursor.sees("(") and not cursor.accept("DBPROPERTIES"):  # Flink's has no word there
        cursor.expect("PROPERTIES")
    return _AlterDatabase(parts, cursor.options())


def _set(cursor: Cursor) -> _Change:
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
    """`[IF NOT EXISTS] c type …` or a list of these in brackets."""
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    bracket = cursor.sees("(")
    columns = cursor.bracketed(lambda: _added(cursor)) if bracket else cursor.listed(lambda: _added(cursor))
    return _Change(tuple(columns), if_not_exists=if_not_exists)


_COLUMN_CLAUSES = (",", ")", "NOT", "NULL", "COMMENT", "FIRST", "AFTER", "DEFAULT")


@dataclass(slots=True)
class _Column:
    """A column as a clause defines it; None: not said."""

    path: tuple[str, ...]
    type_text: str
    nullable: bool | None = None
    comment: str | None = None
    place: tuple[bool, str | None] | None = None
    default: str | None = None

    def type(self, dialect: Dialect = "spark") -> DataType:
        """Of Spark's words or Flink's (`TIMESTAMP(3)`), nullable unless it is said."""
        found = column_type(".".join(self.path), self.type_text, dialect)
        return found if self.nullable is None else found.with_nullable(self.nullable)


def _column(cursor: Cursor) -> _Column:
    """`name type [[NOT] NULL] [COMMENT 'c'] [DEFAULT d] [FIRST | AFTER d]`, clauses in any order, each once."""
    path = cursor.name()
    refuse_computed(cursor, ".".join(path))
    found = _Column(path, cursor.until(*_COLUMN_CLAUSES))
    if not found.type_text:
        cursor.fail(f"column {'.'.join(found.path)} needs a type")
    seen: set[str] = set()
    while (token := cursor.peek()) is not None and token.kind == "word":
        clause = {"FIRST": "AFTER", "NULL": "NOT"}.get(token.value.upper(), token.value.upper())
        if clause in seen:
            cursor.fail(f"{clause} is given twice")
        seen.add(clause)
        if cursor.accept("NOT", "NULL"):
            found.nullable = False
        elif cursor.accept("NULL"):
            found.nullable = True
        elif cursor.accept("COMMENT"):
            found.comment = cursor.string()
        elif cursor.sees("FIRST") or cursor.sees("AFTER"):
            found.place = _position(cursor)
        elif cursor.accept("DEFAULT"):
            found.default = cursor.expression(",", ")", "NOT", "COMMENT", "FIRST", "AFTER")
        else:
            break
    return found


def _added(cursor: Cursor) -> Edit:
    found = _column(cursor)
    if found.default is not None:
        # Rows that are there already would read null: Paimon has no place for a default of the past.
        raise UnsupportedError(
            f"Unsupported table change: Cannot add column [{'.'.join(found.path)}] with default value.",
            remedy="add the column, then ALTER COLUMN … SET DEFAULT: it holds for rows written from then on",
        )
    first, after = found.place or (False, None)
    return _dated(lambda dialect: core.AddColumn(found.path, found.type(dialect), found.comment, first, after))


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
    """`c action {, d action}`."""
    return _Change(tuple(cursor.listed(lambda: _altered(cursor, cursor.name()))))


def _altered(cursor: Cursor, column: tuple[str, ...]) -> Edit:
    if cursor.accept("SET", "DEFAULT"):
        return _Default(column, cursor.expression(","))
    if cursor.accept("TYPE"):
        text = cursor.until(",", "COMMENT", "FIRST", "AFTER")
        named = ".".join(column)
        return _dated(lambda dialect: core.UpdateColumnType(column, column_type(named, text, dialect)))
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


def _change_column(cursor: Cursor) -> Statement:
    """Hive's `CHANGE [COLUMN] a a type [COMMENT 'c'] [FIRST | AFTER d]`, or an action as ALTER COLUMN has it."""
    column = cursor.name()
    if any(cursor.sees(*words) for words in _ACTIONS):
        return _Change((_altered(cursor, column), *_more(cursor)))
    found = _column(cursor)
    changes: list[Edit] = list(_redefined(replace(found, path=column)))
    if found.path[-1] != column[-1]:
        raise UnsupportedError(
            "CHANGE COLUMN that renames",
            column=".".join(column),
            name=found.path[-1],
            remedy="use RENAME COLUMN a TO b",
        )
    return _Change(tuple(changes))


_ACTIONS = (("TYPE",), ("COMMENT",), ("SET",), ("DROP",), ("FIRST",), ("AFTER",))


def _more(cursor: Cursor) -> list[Edit]:
    return cursor.listed(lambda: _altered(cursor, cursor.name())) if cursor.accept(",") else []


def _redefined(column: _Column) -> list[Edit]:
    """The changes that give a column this definition; what it does not say stays."""
    changes: list[Edit] = [
        _dated(lambda dialect: core.UpdateColumnType(column.path, column.type(dialect).with_nullable(True)))
    ]
    if column.nullable is not None:
        changes.append(core.UpdateColumnNullability(column.path, column.nullable))
    if column.comment is not None:
        changes.append(core.UpdateComment(column.path, column.comment))
    if column.default is not None:
        changes.append(_Default(column.path, column.default))
    if column.place is not None:
        changes.append(core.UpdatePosition(column.path, *column.place))
    return changes


def _modify(cursor: Cursor) -> Statement:
    """Flink's `MODIFY c type …` or a list of these in brackets."""
    if cursor.sees("(", "WATERMARK") or cursor.sees("WATERMARK"):
        cursor.fail("a watermark has no meaning for storage")
    if cursor.sees("COLUMN") and _names_column(cursor.peek(1), cursor.peek(2)):
        cursor.fail("COLUMN does not follow MODIFY", "ALTER COLUMN c TYPE BIGINT, or MODIFY c BIGINT")
    found = cursor.bracketed(lambda: _column(cursor)) if cursor.sees("(") else [_column(cursor)]
    whole = [replace(column, nullable=column.nullable is not False) for column in found]
    return _Change(tuple(change for column in whole for change in _redefined(column)), flink=True)


def _names_column(name: Token | None, following: Token | None) -> bool:
    """Whether a name and its type stand here, rather than the type of a column that is called COLUMN."""
    named = name is not None and name.kind in ("word", "quoted")
    return named and following is not None and following.kind == "word" and following.value.upper() not in _BEHIND_TYPE


def _specs(cursor: Cursor) -> tuple[dict[str, str | None], ...]:
    specs = [partition_spec(cursor)]
    while cursor.accept(",", "PARTITION") or cursor.accept("PARTITION"):
        specs.append(partition_spec(cursor))
    return tuple(specs)


def _drop_partitions(cursor: Cursor, if_exists: bool = False) -> Statement:
    found = _DropPartitions(_specs(cursor), if_exists)
    cursor.accept("PURGE")
    return found


def _add_partitions(cursor: Cursor, if_not_exists: bool = False) -> Statement:
    found = _AddPartitions(_specs(cursor), if_not_exists)
    if cursor.sees("LOCATION"):
        raise UnsupportedError("ADD PARTITION … LOCATION: partitions lie in their table")
    return found


_NEAR = 0.8
_ALTERATIONS: list[tuple[tuple[str, ...], Callable[[Cursor], Statement]]] = [
    *tags.ALTERATIONS,
    (("SET", "TBLPROPERTIES"), _set),
    (("UNSET", "TBLPROPERTIES"), _reset),
    (("SET", "("), lambda cursor: replace(_set(_back(cursor)), flink=True)),
    (("RESET", "TBLPROPERTIES"), _reset),
    (("RESET",), _reset),
    (("RENAME", "COLUMN"), _rename_column),
    (("RENAME",), _rename),
    (("ADD", "COLUMNS"), _add_columns),
    (("ADD", "COLUMN"), _add_columns),
    (("ADD", "PARTITION"), _add_partitions),
    (("ADD", "IF", "NOT", "EXISTS", "PARTITION"), lambda cursor: _add_partitions(cursor, True)),
    (("DROP", "PARTITION"), _drop_partitions),
    (("DROP", "IF", "EXISTS", "PARTITION"), lambda cursor: _drop_partitions(cursor, True)),
    (("DROP", "COLUMNS"), _drop_columns),
    (("DROP", "COLUMN"), _drop_columns),
    (("ALTER", "COLUMN"), _alter_column),
    (("CHANGE", "COLUMN"), _change_column),
    (("CHANGE",), _change_column),
    (("MODIFY",), _modify),
]
_BEHIND_TYPE = (
    "NOT",
    "NULL",
    "COMMENT",
    "FIRST",
    "AFTER",
    "PRECISION",
    "WITH",
    "WITHOUT",
    "PRIMARY",
    "COLLATE",
    "DEFAULT",
)
_REPLACE_COLUMNS = (
    "ALTER TABLE ... REPLACE COLUMNS is not supported for Paimon tables. Please use RENAME COLUMN, ALTER COLUMN TYPE, "
    "DROP COLUMN, and ADD COLUMN instead."
)
_REFUSED = (
    (("SET", "LOCATION"), "ALTER TABLE ... SET LOCATION is not supported for Paimon tables."),
    (("REPLACE", "COLUMNS"), _REPLACE_COLUMNS),
    (("PARTITION",), "ALTER TABLE ... PARTITION is not supported for Paimon tables: partitions are what rows say"),
    (("RECOVER", "PARTITIONS"), "ALTER TABLE ... RECOVER PARTITIONS is not supported for Paimon tables."),
    (("SET", "SERDE"), "ALTER TABLE ... SET SERDE is not supported for Paimon tables."),
    (("SET", "SERDEPROPERTIES"), "ALTER TABLE ... SET SERDEPROPERTIES is not supported for Paimon tables."),
    (("CLUSTER", "BY"), "ALTER TABLE ... CLUSTER BY is not supported for Paimon tables: set 'clustering.columns'"),
    (("ADD", "PRIMARY", "KEY"), "Alter primary key is not supported: REPLACE TABLE gives the table another one"),
    (("ADD", "CONSTRAINT"), "ALTER TABLE ... ADD CONSTRAINT is not supported for Paimon tables."),
    (("DROP", "CONSTRAINT"), "ALTER TABLE ... DROP CONSTRAINT is not supported for Paimon tables."),
    (("DROP", "WATERMARK"), "ALTER TABLE ... DROP WATERMARK: a watermark has no meaning for storage"),
    (("ADD", "WATERMARK"), "ALTER TABLE ... ADD WATERMARK: a watermark has no meaning for storage"),
)
# Flink's short spellings, after all that begins with the same word.
_SHORT: list[tuple[tuple[str, ...], Callable[[Cursor], Statement]]] = [
    (("DROP", "PRIMARY", "KEY"), lambda cursor: _Change((core.DropPrimaryKey(),))),
    (("ADD",), _add_columns),
    (("DROP",), _drop_columns),
]


# ---------------------------------------------------------------------------------------------- comments


def comment_on(cursor: Cursor) -> Statement | None:
    """COMMENT ON TABLE t | DATABASE d | COLUMN t.c IS 'text' | NULL; other COMMENTs go to Spark."""
    cursor.expect("COMMENT")
    if not cursor.accept("ON"):
        return None
    if cursor.accept("TABLE"):
        cursor.table()
        return _Change((core.UpdateComment(None, _comment(cursor)),))
    if accept_database(cursor):
        parts = cursor.name()
        return _AlterDatabase(parts, {COMMENT: _comment(cursor) or ""})
    if not cursor.accept("COLUMN"):
        return None
    path = cursor.name()
    return _CommentOnColumn(cursor.text, path, _comment(cursor))


def _comment(cursor: Cursor) -> str | None:
    cursor.expect("IS")
    return None if cursor.accept("NULL") else cursor.string()


@dataclass(frozen=True, slots=True)
class _CommentOnColumn:
    statement: str
    path: tuple[str, ...]
    comment: str | None

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame | None:
        """The table is what the longest part of the path names that is one."""
        for length in range(min(3, len(self.path) - 1), 0, -1):
            found = names.find(lake, self.path[:length])
            if found is not None:
                _Change((core.UpdateComment(self.path[length:], self.comment),)).run(lake, found)
                return None
        if len(self.path) > 1 and names.is_sparks(lake, self.path[:-1]):
            return query.run(lake, self.statement)
        raise NotFoundError("no such table", table=".".join(self.path[:-1]), remedy="name the column as table.column")
