"""SHOW and DESCRIBE for databases and tables of the lake, with Spark's columns."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from typing import TYPE_CHECKING

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.schema.default import default_sql
from bucketlake.spark.types import spark_type
from bucketlake.sql.tables.ddl import accept_database, partition_spec
from bucketlake.sql.text import names
from bucketlake.sql.text.parsed import Statement
from bucketlake.sql.text.text import Cursor
from bucketlake.types.model import MAX_LENGTH, DataField, DataType, Root, parse_type_text, spark_ddl, type_text
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame

    from bucketlake.spark.session import Lake
    from bucketlake.spark.table import LakeTable


def show(cursor: Cursor) -> Statement | None:
    """SHOW DATABASES | TABLES | COLUMNS | PARTITIONS | TBLPROPERTIES | CREATE TABLE; other SHOWs go to Spark."""
    cursor.expect("SHOW")
    if cursor.accept("DATABASES") or cursor.accept("SCHEMAS") or cursor.accept("NAMESPACES"):
        return _ShowDatabases(_pattern(cursor))
    if cursor.accept("TABLES"):
        return _ShowTables(cursor.name() if _accept_in(cursor) else None, _pattern(cursor))
    if cursor.accept("CREATE", "TABLE"):
        cursor.table()
        return None if cursor.accept("AS", "SERDE") else _OfTable(_create_table)
    if cursor.accept("COLUMNS"):
        if not _accept_in(cursor):
            cursor.fail("expected IN or FROM")
        return _columns_of(cursor)
    if cursor.accept("PARTITIONS"):
        cursor.table()
        spec = partition_spec(cursor) if cursor.accept("PARTITION") else {}
        return _OfTable(lambda lake, name: _partitions(lake, lake.table(name.full), spec))
    if cursor.accept("TBLPROPERTIES"):
        cursor.table()
        keys = cursor.bracketed(cursor.key) if cursor.sees("(") else []
        if len(keys) > 1:
            cursor.fail("SHOW TBLPROPERTIES takes one key")
        return _OfTable(lambda lake, name: _properties(lake, lake.table(name.full), keys))
    return None


@dataclass(frozen=True, slots=True)
class _ShowDatabases:
    pattern: str

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame:
        found = _matching(lake.catalog.list_databases(), self.pattern)
        return _frame(lake, "namespace string", [(database,) for database in found])


@dataclass(frozen=True, slots=True)
class _ShowTables:
    database: tuple[str, ...] | None
    pattern: str

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame:
        database = lake.current_database if self.database is None else names.database(lake, self.database)
        rows = [(database, table, False) for table in _matching(lake.catalog.list_tables(database), self.pattern)]
        return _frame(lake, "namespace string, tableName string, isTemporary boolean", rows)


@dataclass(frozen=True, slots=True)
class _OfTable:
    """What is shown of one table."""

    rows: Callable[[Lake, names.LakeName], DataFrame]

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame:
        return self.rows(lake, name)


def _accept_in(cursor: Cursor) -> bool:
    return cursor.accept("IN") or cursor.accept("FROM")


def _columns_of(cursor: Cursor) -> Statement:
    """`t [{IN | FROM} db]`."""
    parts = cursor.table()
    if _accept_in(cursor):
        database = cursor.name()
        if len(parts) > 1 and parts[:-1] != database:
            cursor.fail("two databases are named")
        cursor.subject = (*database, parts[-1])
    return _OfTable(lambda lake, name: _columns(lake, lake.table(name.full)))


def _frame(lake: Lake, schema: str, rows: Sequence[tuple[object, ...]]) -> DataFrame:
    return lake.spark.createDataFrame(list(rows), schema)


def _pattern(cursor: Cursor) -> str:
    """[LIKE] 'a*|b*', Spark's pattern; `*` where none is given."""
    given = cursor.accept("LIKE")
    return "*" if cursor.done and not given else cursor.string()


def _matching(found: Iterable[str], pattern: str) -> list[str]:
    wanted = [part.strip().lower().replace("%", "*") for part in pattern.split("|")]
    return sorted(name for name in found if any(fnmatch.fnmatchcase(name.lower(), part) for part in wanted))


def _columns(lake: Lake, table: LakeTable) -> DataFrame:
    return _frame(lake, "col_name string", [(f.name,) for f in table.schema.fields])


def _properties(lake: Lake, table: LakeTable, keys: list[str]) -> DataFrame:
    rows = sorted(table.schema.options.items())
    for wanted in keys:
        rows = [(wanted, dict(rows).get(wanted, f"Table {table.name} does not have property: {wanted}"))]
    return _frame(lake, "key string, value string", rows)


def _partitions(lake: Lake, table: LakeTable, spec: dict[str, str | None]) -> DataFrame:
    found = [p for p in table.partitions() if all(p.get(key) == value for key, value in spec.items())]
    rows = [("/".join(f"{key}={'null' if value is None else value}" for key, value in part.items()),) for part in found]
    return _frame(lake, "partition string", sorted(rows))


def _create_table(lake: Lake, name: names.LakeName) -> DataFrame:
    """The statement that makes this table's schema anew, in Spark's spelling."""
    schema = lake.table(name.full).schema
    columns = ",\n  ".join(_column_clause(f) for f in schema.fields)
    text = f"CREATE TABLE {name.database}.{name.table} (\n  {columns})\nUSING paimon\n"
    if schema.partition_keys:
        text += f"PARTITIONED BY ({', '.join(_quoted(key) for key in schema.partition_keys)})\n"
    if schema.comment:
        text += f"COMMENT {_literal(schema.comment)}\n"
    options = dict(schema.options)
    if schema.primary_keys:
        options["primary-key"] = ",".join(schema.primary_keys)
    if options:
        listed = ",\n  ".join(f"{_literal(key)} = {_literal(value)}" for key, value in sorted(options.items()))
        text += f"TBLPROPERTIES (\n  {listed})\n"
    return _frame(lake, "createtab_stmt string", [(text,)])


def _column_clause(field: DataField) -> str:
    text = f"{_quoted(field.name)} {_declared(field.type)}"
    if not field.type.nullable:
        text += " NOT NULL"
    if field.default is not None:
        text += f" DEFAULT {_default(field, field.default)}"
    if field.description:
        text += f" COMMENT {_literal(field.description)}"
    return text


def _default(field: DataField, text: str) -> str:
    """The default as SQL; text that is no value of the column, of a schema that others wrote, as a text."""
    try:
        return default_sql(field)
    except (InvalidError, UnsupportedError):
        return _literal(text)


def _declared(t: DataType) -> str:
    """The type as CREATE TABLE takes it: Spark's name, or Paimon's where that says more (VARCHAR(10), TIMESTAMP(3))."""
    plain = t.with_nullable(True)
    spark = spark_ddl(plain)
    return spark if parse_type_text(spark, "spark") == plain else type_text(plain)


def _shown(t: DataType) -> str:
    """The type as DESCRIBE shows it."""
    if t.root in (Root.CHAR, Root.VARCHAR) and t.length != MAX_LENGTH:
        return f"{t.root.value.lower()}({t.length})"
    return str(spark_type(t).simpleString())


def _quoted(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else "`" + name.replace("`", "``") + "`"


def _literal(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def describe(cursor: Cursor) -> Statement | None:
    """DESC[RIBE] [TABLE] [EXTENDED | FORMATTED] t [column], DESC DATABASE d; queries and functions go to Spark."""
    cursor.at += 1
    if accept_database(cursor):
        cursor.accept("EXTENDED")
        return _DescribeDatabase(cursor.name())
    if any(cursor.sees(word) for word in ("FUNCTION", "QUERY", "SELECT", "WITH", "FROM", "VALUES", "(")):
        return None
    cursor.accept("TABLE")
    extended = cursor.accept("EXTENDED") or cursor.accept("FORMATTED")
    cursor.table()
    column = None if cursor.done else cursor.identifier()
    return _Describe(extended, column)


@dataclass(frozen=True, slots=True)
class _DescribeDatabase:
    parts: tuple[str, ...]

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame:
        return _describe_database(lake, names.database(lake, self.parts))


@dataclass(frozen=True, slots=True)
class _Describe:
    extended: bool
    column: str | None

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame:
        table = lake.table(name.full)
        if self.column is None:
            rows = _describe_rows(table, name, self.extended)
            return _frame(lake, "col_name string, data_type string, comment string", rows)
        field = table.schema.field(self.column)
        shown = [("col_name", field.name), ("data_type", _shown(field.type)), ("comment", field.description or "NULL")]
        return _frame(lake, "info_name string, info_value string", shown)


def _describe_rows(table: LakeTable, name: names.LakeName, extended: bool) -> list[tuple[str, str, str | None]]:
    schema = table.schema

    def row(field: DataField) -> tuple[str, str, str | None]:
        return field.name, _shown(field.type), field.description

    rows = [row(field) for field in schema.fields]
    if schema.partition_keys:
        rows += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
        rows += [row(schema.field(key)) for key in schema.partition_keys]
    if extended:
        options = dict(schema.options)
        if schema.primary_keys:
            options["primary-key"] = ",".join(schema.primary_keys)
        listed = ",".join(f"{key}={value}" for key, value in sorted(options.items()))
        rows += [
            ("", "", ""),
            ("# Detailed Table Information", "", ""),
            ("Name", name.full, ""),
            ("Type", "MANAGED", ""),
            ("Location", table.path, ""),
            ("Provider", "paimon", ""),
            ("Table Properties", f"[{listed}]", ""),
        ]
        if schema.comment:
            rows.append(("Comment", schema.comment, ""))
        rows.append(("Paimon Types", ", ".join(f"{f.name} {type_text(f.type)}" for f in schema.fields), ""))
    return rows


def _describe_database(lake: Lake, database: str) -> DataFrame:
    properties = lake.catalog.database_properties(database)
    rows = [
        ("Namespace Name", database),
        ("Comment", properties.get("comment", "")),
        ("Location", lake.catalog.database_path(database)),
    ]
    listed = ", ".join(f"({key},{value})" for key, value in sorted(properties.items()) if key != "comment")
    if listed:
        rows.append(("Properties", f"({listed})"))
    return _frame(lake, "info_name string, info_value string", rows)
