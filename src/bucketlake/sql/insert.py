"""INSERT INTO and INSERT OVERWRITE: the query's columns meet the table's as Spark's ANSI store assignment has it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from bucketlake.errors import InvalidError
from bucketlake.spark.assignment import check_assignment
from bucketlake.spark.types import spark_type
from bucketlake.spark.writer import WriteRequest, write
from bucketlake.sql import names, query
from bucketlake.sql.text import Cursor, blank, option_hints
from bucketlake.sql.travel import session_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from bucketlake.spark.session import Lake
    from bucketlake.spark.table import LakeTable
    from bucketlake.types import DataField


@dataclass(slots=True)
class Insert:
    """A parsed INSERT. `partition`: column -> value text, or None where the value comes from the query."""

    name: tuple[str, ...]
    overwrite: bool
    partition: dict[str, str | None] | None = None
    columns: list[str] | None = None
    by_name: bool = False
    query: str = ""
    options: dict[str, str] = field(default_factory=dict)


def parse_insert(statement: str) -> Insert:
    """Read an INSERT; the query is left in place, everything before it blanked."""
    cursor = Cursor(statement)
    cursor.expect("INSERT")
    overwrite = cursor.accept("OVERWRITE")
    if not overwrite:
        cursor.expect("INTO")
    elif cursor.accept("INTO"):
        pass
    cursor.accept("TABLE")
    found = Insert(cursor.name(), overwrite)
    head = cursor.tokens[cursor.at - 1].end
    if cursor.accept("PARTITION"):
        found.partition = _partition(cursor)
    if cursor.accept("IF", "NOT", "EXISTS"):
        cursor.fail("INSERT OVERWRITE … IF NOT EXISTS is not supported")
    if cursor.accept("BY", "NAME"):
        found.by_name = True
    elif cursor.sees("(") and not _query_follows(cursor):
        found.columns = cursor.names()
    if cursor.sees("REPLACE", "WHERE"):
        cursor.fail("INSERT … REPLACE WHERE is not supported on lake tables; delete, then insert")
    first = cursor.peek()
    if first is None:
        cursor.fail("INSERT needs a query or VALUES")
    start = first.start if first is not None else 0
    own = [hint for hint in option_hints(statement, cursor.tokens) if head <= hint.start < start]
    for hint in own:
        found.options.update(hint.options)
    found.query = blank(cursor.rest(), [(hint.start, hint.end) for hint in own])
    return found


def _partition(cursor: Cursor) -> dict[str, str | None]:
    cursor.expect("(")
    spec: dict[str, str | None] = {}
    while not cursor.accept(")"):
        name = cursor.identifier()
        if name in spec:
            cursor.fail(f"partition column {name} is given twice")
        spec[name] = cursor.until(",", ")") if cursor.accept("=") else None
        if not cursor.sees(")"):
            cursor.expect(",")
    return spec


def _query_follows(cursor: Cursor) -> bool:
    """Whether the bracket here opens a query rather than a column list."""
    ahead = 1
    while (token := cursor.peek(ahead)) is not None and token.value == "(":
        ahead += 1
    return token is not None and any(token.is_word(word) for word in ("SELECT", "WITH", "VALUES", "TABLE", "FROM"))


def run(lake: Lake, statement: str) -> DataFrame | None:
    """Run an INSERT into a lake table: one commit. A table that only Spark has is Spark's to write."""
    insert = parse_insert(statement)
    name = names.find(lake, insert.name)
    if name is None and names.is_sparks(lake, insert.name):
        return query.run(lake, statement)
    name = name or names.target(lake, insert.name)
    table = lake.table(name.full)
    frame = query.run(lake, insert.query)
    fields = table.schema.fields
    static = _static(insert, table)
    columns = _assigned(frame, insert, fields, static)
    if not insert.by_name:
        frame = frame.toDF(*_places(len(frame.columns)))
    frame = frame.select(*columns)
    options = {**session_options(lake, name), **insert.options}
    request = WriteRequest(local=Cursor(insert.query).sees("VALUES"))
    if insert.overwrite:
        options["dynamic-partition-overwrite"] = str(_dynamic(lake, insert, table)).lower()
        request = replace(request, mode="overwrite", partition=_static_values(lake, static, table) or None)
    write(lake.spark, table.with_options(options).table, frame, request)
    return None


def _dynamic(lake: Lake, insert: Insert, table: LakeTable) -> bool:
    """Whether only the partitions that the query yields are replaced: Spark's partitionOverwriteMode says."""
    if not table.schema.partition_keys:
        return False
    mode = insert.options.get("dynamic-partition-overwrite")
    if mode is not None:
        return mode.lower() == "true"
    found = lake.spark.conf.get("spark.sql.sources.partitionOverwriteMode", "static")
    return str(found).lower() == "dynamic"


def _static(insert: Insert, table: LakeTable) -> dict[str, str]:
    """The PARTITION clause's given values by the table's column names; InvalidError for other columns."""
    if insert.partition is None:
        return {}
    keys = {key.lower(): key for key in table.schema.partition_keys}
    found: dict[str, str] = {}
    for column, value in insert.partition.items():
        if column.lower() not in keys:
            raise InvalidError(
                "PARTITION names a column that does not partition the table",
                table=table.name,
                column=column,
                partition_keys=list(keys.values()),
                remedy="name partition columns only",
            )
        if value is not None:
            found[keys[column.lower()]] = value
    return found


def _static_values(lake: Lake, static: dict[str, str], table: LakeTable) -> dict[str, object]:
    """The PARTITION values cast to their columns' types, as Python values."""
    if not static:
        return {}
    casts = [
        f"CAST({value} AS {spark_type(table.schema.field(column).type).simpleString()}) AS `{column}`"
        for column, value in static.items()
    ]
    return dict(lake.spark.sql("SELECT " + ", ".join(casts)).collect()[0].asDict())


def _assigned(frame: DataFrame, insert: Insert, fields: tuple[DataField, ...], static: dict[str, str]) -> list[Column]:
    """One column a table field: from the query by position or name, the static partition, or the default."""
    own = [f.name for f in fields if f.name not in static]
    if insert.by_name:
        source = {name.lower(): name for name in frame.columns}
        _refuse_unknown(frame.columns, own)
        given = {name: frame[f"`{source[name.lower()]}`"] for name in own if name.lower() in source}
        types = {f.name.lower(): f.dataType for f in frame.schema.fields}
    else:
        listed = _listed(insert, own)
        if len(frame.columns) != len(listed):
            raise InvalidError(
                "INSERT has another number of columns than its query",
                table=".".join(insert.name),
                columns=len(listed),
                query_columns=len(frame.columns),
                remedy=f"give values for {', '.join(listed)}",
            )
        types = {name.lower(): f.dataType for name, f in zip(listed, frame.schema.fields, strict=True)}
        given = {name: F.col(place) for name, place in zip(listed, _places(len(listed)), strict=True)}
    columns = []
    for f in fields:
        kind = spark_type(f.type)
        if f.name in given:
            check_assignment(types[f.name.lower()], kind, f.name)
            columns.append(given[f.name].cast(kind).alias(f.name))
        else:
            text = static.get(f.name) or f.default or "NULL"
            columns.append(F.expr(text).cast(kind).alias(f.name))
    return columns


def _places(count: int) -> list[str]:
    """Names for the query's columns by position: its own may repeat."""
    return [f"__column_{place}" for place in range(count)]


def _listed(insert: Insert, own: list[str]) -> list[str]:
    """The target columns in the query's order."""
    if insert.columns is None:
        return own
    known = {name.lower(): name for name in own}
    _refuse_unknown(insert.columns, own)
    listed = [known[name.lower()] for name in insert.columns]
    if len(set(listed)) != len(listed):
        raise InvalidError("INSERT names a column twice", columns=insert.columns, remedy="name each column once")
    return listed


def _refuse_unknown(given: list[str], own: list[str]) -> None:
    known = {name.lower() for name in own}
    for name in given:
        if name.lower() not in known:
            raise InvalidError("no such column", column=name, columns=own, remedy="use the table's column names")
