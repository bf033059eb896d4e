"""CREATE TABLE as far as the schema, in Spark's spelling (USING … TBLPROPERTIES) and Flink's (PRIMARY KEY … WITH)."""

from __future__ import annotations

from dataclasses import field

from bucketlake.errors import UnsupportedError
from bucketlake.sql.text.cursor import Cursor
from bucketlake.types.model import DataType
from bucketlake.types.parse import Dialect, column_type
from bucketlake.values import dataclass

LAKE_PROVIDERS = ("paimon", "bucketlake")
_OF_PAIMON = "org.apache.paimon.hive."  # its SerDe and formats for Hive
_REPEATED = ("TBLPROPERTIES", "OPTIONS", "WITH")
_COLUMN_END = (",", ")", "NOT", "NULL", "COMMENT", "DEFAULT", "PRIMARY", "GENERATED")


@dataclass(slots=True)
class ColumnClause:
    """One column as the statement defines it; `type_text` still in its dialect."""

    name: str
    type_text: str
    nullable: bool = True
    comment: str | None = None
    default: str | None = None


@dataclass(slots=True)
class CreateTable:
    """A parsed CREATE or REPLACE TABLE. `query` is the text after AS in place (CTAS), `provider` the word after USING.
    `replace`: in the place of one that is there; `create`: where there is none."""

    name: tuple[str, ...]
    if_not_exists: bool = False
    replace: bool = False
    create: bool = True
    columns: list[ColumnClause] = field(default_factory=list)
    primary_keys: list[str] = field(default_factory=list)
    partition_keys: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    comment: str | None = None
    location: str | None = None
    provider: str | None = None
    flink: bool = False
    like: tuple[str, ...] | None = None
    like_options: bool = True  # whether the other table's are taken over
    query: str | None = None
    literals: tuple[str, ...] = ()  # those outside of the query, as written

    @property
    def operation(self) -> str:
        """What a snapshot with the query's rows says it is, in Paimon's words."""
        verb = "REPLACE" if self.replace else "CREATE"
        return f"{'CREATE_OR_' if self.replace and self.create else ''}{verb}_TABLE_AS_SELECT"

    def column_types(self, legacy: bool = False) -> list[tuple[ColumnClause, DataType]]:
        """Each column with its type; the WITH spelling and PRIMARY KEY … NOT ENFORCED take Flink's types. `legacy`:
        Spark's TIMESTAMP is the zoneless one."""
        dialect: Dialect = "flink" if self.flink else "spark legacy" if legacy else "spark"
        keys = set(self.primary_keys)
        typed = []
        for column in self.columns:
            parsed = column_type(column.name, column.type_text, dialect)
            typed.append(
                (column, parsed.with_nullable(parsed.nullable and column.nullable and column.name not in keys))
            )
        return typed


def parse_create_table(cursor: Cursor) -> CreateTable:
    """Read `CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name …` or `REPLACE TABLE name …` to the end."""
    create = not cursor.accept("REPLACE")
    replace = not create
    if create:
        cursor.expect("CREATE")
        replace = cursor.accept("OR", "REPLACE")
        cursor.accept("EXTERNAL")
    cursor.expect("TABLE")
    if_not_exists = not replace and cursor.accept("IF", "NOT", "EXISTS")
    found = CreateTable(cursor.name(), if_not_exists=if_not_exists, replace=replace, create=create)
    if cursor.accept("LIKE"):
        found.like = cursor.name()
        if cursor.sees("(", "EXCLUDING") or cursor.sees("(", "INCLUDING"):
            _like_options(cursor, found)
    if cursor.sees("("):
        cursor.bracketed(lambda: _item(cursor, found), empty=True)
    seen: set[str] = set()
    own = cursor.tokens
    while not cursor.done:
        start = cursor.at
        _clause(cursor, found)
        clause = cursor.tokens[start].value.upper()
        if clause in seen and clause not in _REPEATED:
            cursor.at = start
            cursor.fail(f"{clause} is given twice")
        seen.add(clause)
        if found.query is not None:
            own = cursor.tokens[:start]
    if found.like is not None and (found.columns or found.partition_keys or found.query is not None):
        cursor.fail("CREATE TABLE … LIKE takes its columns and keys from the other table")
    found.literals = tuple(cursor.text[one.start : one.end] for one in own if one.kind == "string" and one.value)
    return found


def _like_options(cursor: Cursor, found: CreateTable) -> None:
    """Flink's `(EXCLUDING OPTIONS)` and `(INCLUDING …)`, which says what is done anyhow."""
    cursor.expect("(")
    while not cursor.accept(")"):
        taken = cursor.accept("INCLUDING")
        if not taken:
            cursor.expect("EXCLUDING")
        what = cursor.identifier().upper()
        if not taken and what != "OPTIONS":
            raise UnsupportedError(f"CREATE TABLE … LIKE … (EXCLUDING {what})", remedy="write the columns and keys")
        found.like_options = taken if what in ("OPTIONS", "ALL") else found.like_options


def _item(cursor: Cursor, found: CreateTable) -> None:
    """One column or constraint of the list."""
    if cursor.sees("PRIMARY", "KEY") or cursor.sees("CONSTRAINT"):
        _table_constraint(cursor, found)
    elif cursor.sees("WATERMARK", "FOR"):
        cursor.until(",", ")")  # Flink's event time: no meaning for storage
    else:
        _column(cursor, found)


def _table_constraint(cursor: Cursor, found: CreateTable) -> None:
    if cursor.accept("CONSTRAINT"):
        cursor.identifier()
    cursor.expect("PRIMARY", "KEY")
    _set_primary_keys(cursor, found, cursor.names())
    if cursor.accept("NOT", "ENFORCED"):
        found.flink = True


def _set_primary_keys(cursor: Cursor, found: CreateTable, names: list[str]) -> None:
    if found.primary_keys:
        cursor.fail("a second PRIMARY KEY")
    found.primary_keys = names


def refuse_computed(cursor: Cursor, column: str) -> None:
    """UnsupportedError where a column's name is followed by AS, as Flink computes one."""
    if cursor.sees("AS"):
        remedy = "store the value, or compute it in a view or query"
        raise UnsupportedError("computed columns are not supported", column=column, remedy=remedy)


def _column(cursor: Cursor, found: CreateTable) -> None:
    name = cursor.identifier()
    refuse_computed(cursor, name)
    kind = cursor.until(*_COLUMN_END)
    if not kind:
        cursor.fail(f"column {name} needs a type")
    column = ColumnClause(name, kind)
    while True:
        if cursor.accept("NOT", "NULL"):
            column.nullable = False
        elif cursor.accept("NULL"):
            column.nullable = True
        elif cursor.accept("COMMENT"):
            column.comment = cursor.string()
        elif cursor.accept("DEFAULT"):
            column.default = cursor.expression(",", ")", "NOT", "COMMENT", "PRIMARY")
        elif cursor.accept("PRIMARY", "KEY"):
            _set_primary_keys(cursor, found, [name])
            found.flink = cursor.accept("NOT", "ENFORCED") or found.flink
        elif cursor.sees("GENERATED"):
            cursor.fail("generated columns are not part of Paimon")
        else:
            break
    found.columns.append(column)


def _clause(cursor: Cursor, found: CreateTable) -> None:
    """One clause after the column list."""
    if cursor.accept("USING"):
        found.provider = cursor.identifier().lower()
    elif cursor.accept("COMMENT"):
        found.comment = cursor.string()
    elif cursor.accept("PARTITIONED", "BY"):
        _partitions(cursor, found)
    elif cursor.accept("LOCATION"):
        found.location = cursor.string()
    elif cursor.accept("TBLPROPERTIES") or cursor.accept("OPTIONS"):
        found.options.update(cursor.options())
    elif cursor.sees("WITH", "("):
        cursor.accept("WITH")
        found.flink = True
        found.options.update(cursor.options(empty=True))
    elif cursor.sees("STORED") or cursor.sees("ROW", "FORMAT"):
        _hive_format(cursor, found)
    elif cursor.accept("AS") or cursor.sees("SELECT") or cursor.sees("WITH"):
        found.query = cursor.query("CREATE TABLE … AS")
    else:
        cursor.fail("clause is not part of CREATE TABLE for lake tables")


def _hive_format(cursor: Cursor, found: CreateTable) -> None:
    """Hive's words for how rows are stored, as it shows a table of Paimon's: its classes say nothing new.

    UnsupportedError for any others.
    """
    stored = cursor.accept("STORED", "AS", "INPUTFORMAT")
    if found.like is None and (stored or cursor.accept("ROW", "FORMAT", "SERDE")):
        classes = [cursor.string()]
        if stored and cursor.accept("OUTPUTFORMAT"):
            classes.append(cursor.string())
        if not stored and cursor.accept("WITH", "SERDEPROPERTIES"):
            cursor.options()  # how its classes write rows as text: Paimon's write none
        if all(name.startswith(_OF_PAIMON) for name in classes):
            return
    if found.like is not None:
        what = "CREATE TABLE LIKE ... STORED AS is not supported for SparkCatalog."
    else:
        what = f"{'STORED AS' if stored or cursor.sees('STORED') else 'ROW FORMAT'} is not supported for lake tables"
    raise UnsupportedError(what, remedy="set 'file.format' among the TBLPROPERTIES")


def _partitions(cursor: Cursor, found: CreateTable) -> None:
    """`(dt, hour)` or Hive's `(dt STRING COMMENT '…')`, which also defines the columns."""

    def column() -> None:
        name = cursor.identifier()
        if cursor.sees("("):
            raise UnsupportedError(
                f"Unsupported partition transform: {name}",
                remedy="partition by a column of the table",
            )
        kind = cursor.until(",", ")", "COMMENT")
        if kind:
            found.columns.append(ColumnClause(name, kind))
            if cursor.accept("COMMENT"):
                found.columns[-1].comment = cursor.string()
        found.partition_keys.append(name)

    cursor.bracketed(column)
