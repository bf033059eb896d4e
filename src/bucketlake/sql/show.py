"""SHOW and DESCRIBE for databases and tables of the lake, with Spark's columns."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING

from bucketlake.spark.types import spark_type
from bucketlake.sql import names, query
from bucketlake.sql.text import Cursor
from bucketlake.types import MAX_LENGTH, DataField, DataType, Root, parse_type_text, spark_ddl, type_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame

    from bucketlake.spark.session import Lake
    from bucketlake.spark.table import LakeTable


def show(lake: Lake, statement: str) -> DataFrame:
    """SHOW DATABASES | TABLES | COLUMNS | PARTITIONS | TBLPROPERTIES | CREATE TABLE; other SHOWs go to Spark."""
    cursor = Cursor(statement)
    cursor.expect("SHOW")
    if cursor.accept("DATABASES") or cursor.accept("SCHEMAS") or cursor.accept("NAMESPACES"):
        found = _matching(lake.catalog.list_databases(), _pattern(cursor))
        return _frame(lake, "namespace string", [(name,) for name in found])
    if cursor.accept("TABLES"):
        database = (
            names.database(lake, cursor.name())
            if cursor.accept("IN") or cursor.accept("FROM")
            else lake.current_database
        )
        found = _matching(lake.catalog.list_tables(database), _pattern(cursor))
        rows = [(database, name, False) for name in found]
        return _frame(lake, "namespace string, tableName string, isTemporary boolean", rows)
    if cursor.accept("CREATE", "TABLE"):
        name = names.find(lake, cursor.name())
        return query.run(lake, statement) if name is None else _create_table(lake, name)
    for word, action in (("COLUMNS", _columns), ("PARTITIONS", _partitions), ("TBLPROPERTIES", _properties)):
        if cursor.accept(word):
            if word == "COLUMNS" and not (cursor.accept("IN") or cursor.accept("FROM")):
                cursor.fail("expected IN or FROM")
            name = names.find(lake, cursor.name())
            return lake.spark.sql(statement) if name is None else action(lake, lake.table(name.full), cursor)
    return lake.spark.sql(statement)


def _frame(lake: Lake, schema: str, rows: Sequence[tuple[object, ...]]) -> DataFrame:
    return lake.spark.createDataFrame(list(rows), schema)


def _pattern(cursor: Cursor) -> str:
    """[LIKE] 'a*|b*', Spark's pattern; `*` where none is given."""
    cursor.accept("LIKE")
    return "*" if cursor.done else cursor.string()


def _matching(found: Iterable[str], pattern: str) -> list[str]:
    wanted = [part.strip().lower().replace("%", "*") for part in pattern.split("|")]
    return sorted(name for name in found if any(fnmatch.fnmatchcase(name.lower(), part) for part in wanted))


def _columns(lake: Lake, table: LakeTable, cursor: Cursor) -> DataFrame:
    return _frame(lake, "col_name string", [(f.name,) for f in table.schema.fields])


def _properties(lake: Lake, table: LakeTable, cursor: Cursor) -> DataFrame:
    rows = sorted(table.schema.options.items())
    if cursor.accept("("):
        wanted = cursor.literal()
        rows = [(wanted, dict(rows).get(wanted, f"Table {table.name} does not have property: {wanted}"))]
    return _frame(lake, "key string, value string", rows)


def _partitions(lake: Lake, table: LakeTable, cursor: Cursor) -> DataFrame:
    spec: dict[str, str] = {}
    if cursor.accept("PARTITION"):
        spec = cursor.options()
    found = [p for p in table.partitions() if all(str(p.get(key)) == value for key, value in spec.items())]
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
        text += f" DEFAULT {field.default}"
    if field.description:
        text += f" COMMENT {_literal(field.description)}"
    return text


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


def describe(lake: Lake, statement: str) -> DataFrame:
    """DESC[RIBE] [TABLE] [EXTENDED | FORMATTED] t [column], DESC DATABASE d; queries and functions go to Spark."""
    cursor = Cursor(statement)
    cursor.at += 1
    if cursor.accept("DATABASE") or cursor.accept("SCHEMA") or cursor.accept("NAMESPACE"):
        cursor.accept("EXTENDED")
        return _describe_database(lake, names.database(lake, cursor.name()))
    if cursor.sees("FUNCTION") or cursor.sees("QUERY") or cursor.sees("SELECT") or cursor.sees("WITH"):
        return query.run(lake, statement)
    cursor.accept("TABLE")
    extended = cursor.accept("EXTENDED") or cursor.accept("FORMATTED")
    name = names.find(lake, cursor.name())
    if name is None:
        return lake.spark.sql(statement)
    table = lake.table(name.full)
    column = None if cursor.done else cursor.identifier()
    cursor.end()
    if column is not None:
        field = table.schema.field(column)
        rows = [
            ("col_name", field.name),
            ("data_type", _shown(field.type)),
            ("comment", field.description or "NULL"),
        ]
        return _frame(lake, "info_name string, info_value string", rows)
    return _frame(lake, "col_name string, data_type string, comment string", _describe_rows(table, name, extended))


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
