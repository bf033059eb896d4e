"""CREATE, DROP, ALTER, TRUNCATE and USE for databases and tables of the lake."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bucketlake import schema as core
from bucketlake.errors import InvalidError, NotFoundError, UnsupportedError
from bucketlake.spark.types import field_types
from bucketlake.sql import names, query
from bucketlake.sql.create import LAKE_PROVIDERS, CreateTable, parse_create_table
from bucketlake.sql.text import Cursor
from bucketlake.types import DataField, parse_type_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.spark.session import Lake


def create(lake: Lake, statement: str) -> DataFrame | None:
    """CREATE …: databases and tables are the lake's, a table USING another provider and everything else Spark's."""
    cursor = Cursor(statement)
    cursor.expect("CREATE")
    if cursor.accept("DATABASE") or cursor.accept("SCHEMA") or cursor.accept("NAMESPACE"):
        _create_database(lake, cursor)
        return None
    if any(cursor.sees(*words) for words in (("TABLE",), ("OR", "REPLACE", "TABLE"), ("EXTERNAL", "TABLE"))):
        if _provider(statement) not in (None, *LAKE_PROVIDERS):
            return query.run(lake, statement)
        _create_table(lake, parse_create_table(cursor))
        return None
    if _is_temp_view(cursor):
        return _create_temp_view(lake, cursor)
    return query.run(lake, statement)


def _provider(statement: str) -> str | None:
    """The word after the first USING outside brackets and before AS, or None."""
    cursor = Cursor(statement)
    cursor.until("USING", "AS")
    return cursor.identifier().lower() if cursor.accept("USING") else None


def _create_database(lake: Lake, cursor: Cursor) -> None:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = names.database(lake, cursor.name())
    properties: dict[str, str] = {}
    while not cursor.done:
        if cursor.accept("COMMENT"):
            properties["comment"] = cursor.string()
        elif cursor.accept("WITH", "DBPROPERTIES") or cursor.accept("WITH", "PROPERTIES"):
            properties.update(cursor.options())
        else:
            cursor.fail("clause is not part of CREATE DATABASE")
    lake.catalog.create_database(name, ignore_if_exists=if_not_exists, properties=properties)


def _create_table(lake: Lake, clause: CreateTable) -> None:
    name = names.target(lake, clause.name)
    if clause.location is not None:
        raise UnsupportedError(
            "LOCATION: tables of a warehouse lie in it", table=name.full, remedy="leave LOCATION out"
        )
    exists = lake.catalog.table_exists(name.full)
    if exists and clause.if_not_exists:
        return
    if exists and clause.replace:
        raise UnsupportedError(
            "CREATE OR REPLACE TABLE over an existing table", table=name.full, remedy="drop it first"
        )
    frame = query.run(lake, clause.query) if clause.query is not None else None
    fields = _fields(lake, clause, frame)
    primary = clause.primary_keys or _listed(clause.options.pop("primary-key", ""))
    partitions = clause.partition_keys or _listed(clause.options.pop("partition", ""))
    lake.catalog.create_table(
        name.full,
        fields,
        partition_keys=partitions,
        primary_keys=primary,
        options=clause.options,
        comment=clause.comment,
        ignore_if_exists=clause.if_not_exists,
    )
    if frame is not None:
        try:
            lake.table(name.full).write(frame.toDF(*[f.name for f in fields]))
        except BaseException:
            lake.catalog.drop_table(name.full, ignore_if_missing=True)
            raise


def _listed(value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]


def _fields(lake: Lake, clause: CreateTable, frame: DataFrame | None) -> list[DataField]:
    """Columns with provisional ids: the catalog numbers them."""
    if clause.like is not None:
        source = names.find(lake, clause.like)
        if source is None:
            raise NotFoundError("no such table", table=".".join(clause.like), remedy="name a table of the lake")
        schema = lake.table(source.full).schema
        clause.partition_keys = list(schema.partition_keys)
        clause.primary_keys = list(schema.primary_keys)
        clause.options = {**schema.options, **clause.options}
        clause.comment = schema.comment if clause.comment is None else clause.comment
        return list(schema.fields)
    if frame is not None:
        if clause.columns:
            raise InvalidError("CREATE TABLE … AS takes its columns from the query", remedy="leave the column list out")
        return field_types(frame.schema)
    if not clause.columns:
        raise InvalidError("table has no columns", table=".".join(clause.name), remedy="list the columns")
    return [
        DataField(place, column.name, kind, column.comment, column.default)
        for place, (column, kind) in enumerate(clause.column_types())
    ]


def _is_temp_view(cursor: Cursor) -> bool:
    words = [token.value.upper() for token in cursor.tokens[1:7]]
    return "VIEW" in words and ("TEMP" in words or "TEMPORARY" in words) and "GLOBAL" not in words


def _create_temp_view(lake: Lake, cursor: Cursor) -> DataFrame | None:
    """CREATE [OR REPLACE] TEMP VIEW v AS query: a view holds the bound query, its text could not name lake tables."""
    replace = cursor.accept("OR", "REPLACE")
    cursor.at += 1
    cursor.expect("VIEW")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name()
    if len(name) > 1 or cursor.sees("(") or cursor.sees("USING") or not cursor.accept("AS"):
        return query.run(lake, cursor.text)
    frame = query.run(lake, cursor.rest())
    if if_not_exists and names.is_temp_view(lake, name[0]):
        return None
    if replace:
        frame.createOrReplaceTempView(name[0])
    else:
        frame.createTempView(name[0])
    return None


def drop(lake: Lake, statement: str) -> DataFrame | None:
    """DROP DATABASE | TABLE of the lake; other DROPs, and tables that only Spark has, go to Spark."""
    cursor = Cursor(statement)
    cursor.expect("DROP")
    if cursor.accept("DATABASE") or cursor.accept("SCHEMA") or cursor.accept("NAMESPACE"):
        if_exists = cursor.accept("IF", "EXISTS")
        name = names.database(lake, cursor.name())
        cascade = cursor.accept("CASCADE")
        cursor.accept("RESTRICT")
        cursor.end()
        lake.catalog.drop_database(name, cascade=cascade, ignore_if_missing=if_exists)
        return None
    if not cursor.accept("TABLE"):
        return lake.spark.sql(statement)
    if_exists = cursor.accept("IF", "EXISTS")
    parts = cursor.name()
    cursor.accept("PURGE")
    cursor.end()
    found = names.find(lake, parts)
    if found is None and names.is_sparks(lake, parts):
        return lake.spark.sql(statement)
    if found is None and if_exists:
        return None
    lake.catalog.drop_table((found or names.target(lake, parts)).full, ignore_if_missing=if_exists)
    return None


def truncate(lake: Lake, statement: str) -> DataFrame | None:
    """TRUNCATE TABLE t [PARTITION (k = v, …)]."""
    cursor = Cursor(statement)
    cursor.expect("TRUNCATE", "TABLE")
    found = names.find(lake, cursor.name())
    if found is None:
        return lake.spark.sql(statement)
    table = lake.table(found.full)
    if cursor.accept("PARTITION"):
        table.drop_partitions([_partition(cursor)])
    else:
        table.truncate()
    cursor.end()
    return None


def _partition(cursor: Cursor) -> dict[str, str | None]:
    """`(k = 'v', …)` as column -> text, None for NULL."""
    cursor.expect("(")
    spec: dict[str, str | None] = {}
    while not cursor.accept(")"):
        key = cursor.identifier()
        cursor.expect("=")
        if cursor.sees("DATE") or cursor.sees("TIMESTAMP"):
            cursor.at += 1
        quoted = (token := cursor.peek()) is not None and token.kind == "string"
        value = cursor.literal()
        spec[key] = None if value.upper() == "NULL" and not quoted else value
        if not cursor.sees(")"):
            cursor.expect(",")
    return spec


def use(lake: Lake, statement: str) -> DataFrame | None:
    """USE [DATABASE | SCHEMA | NAMESPACE] db: a database of the lake, else Spark's."""
    cursor = Cursor(statement)
    cursor.expect("USE")
    if len(cursor.tokens) > 2 and (cursor.accept("DATABASE") or cursor.accept("SCHEMA") or cursor.accept("NAMESPACE")):
        pass
    parts = cursor.name()
    cursor.end()
    if len(parts) == 1 and parts[0].lower() in names.CATALOG_NAMES and not lake.catalog.database_exists(parts[0]):
        lake.current_database = names.DEFAULT_DATABASE
        return None
    name = names.database(lake, parts) if len(parts) <= 2 else parts[-1]
    if not lake.catalog.database_exists(name):
        raise NotFoundError("no such database", database=name, remedy="CREATE DATABASE first, or SHOW DATABASES")
    lake.current_database = name
    return None


def alter(lake: Lake, statement: str) -> DataFrame | None:
    """ALTER TABLE: options, columns, name and partitions of a lake table; other ALTERs go to Spark."""
    cursor = Cursor(statement)
    cursor.expect("ALTER")
    if cursor.accept("DATABASE") or cursor.accept("SCHEMA") or cursor.accept("NAMESPACE"):
        name = names.database(lake, cursor.name())
        cursor.expect("SET")
        if not cursor.accept("DBPROPERTIES"):
            cursor.expect("PROPERTIES")
        lake.catalog.alter_database(name, cursor.options())
        return None
    if not cursor.accept("TABLE"):
        return lake.spark.sql(statement)
    cursor.accept("IF", "EXISTS")
    found = names.find(lake, cursor.name())
    if found is None:
        return lake.spark.sql(statement)
    for words, action in _ALTERATIONS:
        if cursor.accept(*words):
            action(lake, found, cursor)
            cursor.end()
            return None
    cursor.fail("this ALTER TABLE is not supported on lake tables")
    return None


def _rename(lake: Lake, name: names.LakeName, cursor: Cursor) -> None:
    parts = cursor.name()
    lake.catalog.rename_table(
        name.full, names.LakeName(name.database, parts[0]).full if len(parts) == 1 else ".".join(parts)
    )


def _set(lake: Lake, name: names.LakeName, cursor: Cursor) -> None:
    cursor.accept("TBLPROPERTIES")
    options = cursor.options()
    lake.catalog.alter_table(name.full, *[core.SetOption(key, value) for key, value in options.items()])


def _reset(lake: Lake, name: names.LakeName, cursor: Cursor) -> None:
    cursor.accept("TBLPROPERTIES")
    cursor.accept("IF", "EXISTS")
    cursor.expect("(")
    keys = []
    while not cursor.accept(")"):
        keys.append(
            cursor.literal() if (token := cursor.peek()) is not None and token.kind == "string" else cursor._bare_key()
        )
        if not cursor.sees(")"):
            cursor.expect(",")
    lake.catalog.alter_table(name.full, *[core.RemoveOption(key) for key in keys])


def _add_columns(lake: Lake, name: names.LakeName, cursor: Cursor) -> None:
    bracket = cursor.accept("(")
    changes: list[core.SchemaChange] = []
    while True:
        column = cursor.name()
        kind = parse_type_text(cursor.until(",", ")", "NOT", "COMMENT", "FIRST", "AFTER", "DEFAULT"), "spark")
        if cursor.accept("NOT", "NULL"):
            kind = kind.with_nullable(False)
        comment = cursor.string() if cursor.accept("COMMENT") else None
        changes.append(core.AddColumn(column, kind, comment, *_move(cursor)))
        if not cursor.accept(","):
            break
    if bracket:
        cursor.expect(")")
    lake.catalog.alter_table(name.full, *changes)


def _move(cursor: Cursor) -> tuple[bool, str | None]:
    """FIRST | AFTER c -> (first, after)."""
    if cursor.accept("FIRST"):
        return True, None
    return False, cursor.identifier() if cursor.accept("AFTER") else None


def _drop_columns(lake: Lake, name: names.LakeName, cursor: Cursor) -> None:
    cursor.accept("IF", "EXISTS")
    bracket = cursor.accept("(")
    columns = [cursor.name()]
    while cursor.accept(","):
        columns.append(cursor.name())
    if bracket:
        cursor.expect(")")
    lake.catalog.alter_table(name.full, *[core.DropColumn(column) for column in columns])


def _rename_column(lake: Lake, name: names.LakeName, cursor: Cursor) -> None:
    column = cursor.name()
    cursor.expect("TO")
    lake.catalog.alter_table(name.full, core.RenameColumn(column, cursor.identifier()))


def _alter_column(lake: Lake, name: names.LakeName, cursor: Cursor) -> None:
    column = cursor.name()
    change: core.SchemaChange
    if cursor.accept("TYPE"):
        change = core.UpdateColumnType(column, parse_type_text(cursor.until("COMMENT", "FIRST", "AFTER"), "spark"))
    elif cursor.accept("COMMENT"):
        change = core.UpdateComment(column, cursor.string())
    elif cursor.accept("SET", "NOT", "NULL"):
        change = core.UpdateColumnNullability(column, False)
    elif cursor.accept("DROP", "NOT", "NULL"):
        change = core.UpdateColumnNullability(column, True)
    elif cursor.sees("FIRST") or cursor.sees("AFTER"):
        change = core.UpdatePosition(column, *_move(cursor))
    else:
        cursor.fail("this change of a column is not supported")
        return
    lake.catalog.alter_table(name.full, change)


def _drop_partitions(lake: Lake, name: names.LakeName, cursor: Cursor) -> None:
    specs = [_partition(cursor)]
    while cursor.accept(",", "PARTITION") or cursor.accept("PARTITION"):
        specs.append(_partition(cursor))
    cursor.accept("PURGE")
    lake.table(name.full).drop_partitions(specs)


_ALTERATIONS: list[tuple[tuple[str, ...], Callable[..., None]]] = [
    (("SET", "TBLPROPERTIES"), _set),
    (("UNSET", "TBLPROPERTIES"), _reset),
    (("SET",), _set),
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
