"""INSERT INTO and INSERT OVERWRITE: the query's columns meet the table's by position or name, as Spark has it."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from bucketlake.errors import InvalidError
from bucketlake.spark.assignment import Rules, matched, positional
from bucketlake.spark.types import quoted, spark_type
from bucketlake.spark.write.writer import DYNAMIC_OVERWRITE, OVERWRITE_MODE, WriteRequest, write
from bucketlake.sql.query import query
from bucketlake.sql.query.travel import session_options
from bucketlake.sql.text import names
from bucketlake.sql.text.parsed import Statement
from bucketlake.sql.text.text import Cursor, blank, option_hints, splice, tokenize
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from bucketlake.schema.schema import TableSchema
    from bucketlake.spark.session import Lake
    from bucketlake.spark.table import LakeTable


@dataclass(slots=True)
class Insert:
    """A parsed INSERT. `partition`: column -> the constant's text, or None where the value comes from the query."""

    overwrite: bool
    partition: dict[str, str | None] | None = None
    columns: list[str] | None = None
    by_name: bool = False
    query: str = ""
    options: dict[str, str] = field(default_factory=dict)

    def run(self, lake: Lake, name: names.LakeName) -> None:
        """One commit."""
        table = lake.table(name.full)
        static = _static(self, table)
        frame = query.run(lake, self.query)
        if not self.by_name:
            frame = frame.toDF(*[f"__column_{place}" for place in range(len(frame.columns))])  # its own may repeat
        frame = frame.select(*_assigned(frame, self, table.schema, static, Rules.of(lake.spark)))
        options = {**session_options(lake, name), **self.options}
        request = WriteRequest(local=Cursor(self.query).sees("VALUES"))
        if self.overwrite:
            dynamic = _dynamic(lake, self, table.schema, static)
            options[DYNAMIC_OVERWRITE] = str(dynamic).lower()
            partition = _static_values(lake, static, table) or None
            request = replace(request, mode="overwrite", partition=partition, dynamic=dynamic)
        elif static:
            _static_values(lake, static, table)
        write(lake.spark, table.with_options(options).table, frame, request)


def parse(cursor: Cursor) -> Statement | None:
    """Read an INSERT; the query is left in place, everything before it blanked. INSERT OVERWRITE DIRECTORY is Spark's
    own statement over files."""
    cursor.expect("INSERT")
    overwrite = cursor.accept("OVERWRITE")
    if overwrite and (cursor.sees("DIRECTORY") or cursor.sees("LOCAL", "DIRECTORY")):
        return None
    if not overwrite:
        cursor.expect("INTO")
    else:
        cursor.accept("INTO")
    cursor.accept("TABLE")
    cursor.table()
    found = Insert(overwrite)
    head = cursor.tokens[cursor.at - 1].end
    if cursor.accept("PARTITION"):
        found.partition = _partition(cursor)
    if cursor.accept("IF", "NOT", "EXISTS"):
        cursor.fail("INSERT OVERWRITE … IF NOT EXISTS is not supported")
    if cursor.accept("BY", "NAME"):
        found.by_name = True
    elif cursor.sees("(") and not _query_follows(cursor):
        found.columns = cursor.names()
    if cursor.sees("REPLACE", "WHERE") or cursor.sees("REPLACE", "ON") or cursor.sees("REPLACE", "USING"):
        cursor.fail("INSERT … REPLACE is not supported on lake tables; delete, then insert")
    first = cursor.peek()
    if first is None:
        cursor.fail("INSERT needs a query or VALUES")
    start = first.start if first is not None else 0
    own = [hint for hint in option_hints(cursor.text, cursor.tokens) if head <= hint.start < start]
    for hint in own:
        found.options.update(hint.options)
    found.query = _without_defaults(blank(cursor.rest(), [(hint.start, hint.end) for hint in own]))
    return found


def _partition(cursor: Cursor) -> dict[str, str | None]:
    spec: dict[str, str | None] = {}

    def pair() -> None:
        name = cursor.identifier()
        if name.lower() in {other.lower() for other in spec}:
            cursor.fail(f"partition column {name} is given twice")
        spec[name] = cursor.constant()[0] if cursor.accept("=") else None

    cursor.bracketed(pair)
    return spec


def _query_follows(cursor: Cursor) -> bool:
    """Whether the bracket here opens a query rather than a column list."""
    ahead = 1
    while (token := cursor.peek(ahead)) is not None and token.value == "(":
        ahead += 1
    return token is not None and any(token.is_word(word) for word in ("SELECT", "WITH", "VALUES", "TABLE", "FROM"))


def _without_defaults(query_text: str) -> str:
    """VALUES with NULL for the word DEFAULT: a null becomes its column's default."""
    tokens = tokenize(query_text)
    if not tokens or not tokens[0].is_word("VALUES"):
        return query_text
    pieces = [
        (token.start, token.end, "NULL".ljust(token.end - token.start))
        for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if token.is_word("DEFAULT") and before.value in ("(", ",") and after.value in (")", ",")
    ]
    return splice(query_text, pieces)


def _dynamic(lake: Lake, insert: Insert, schema: TableSchema, static: dict[str, str]) -> bool:
    """Whether only the partitions that the query yields are replaced: Spark's partitionOverwriteMode says, unless the
    statement names a partition whole."""
    if len(static) >= len(schema.partition_keys):
        return False
    mode = insert.options.get(DYNAMIC_OVERWRITE)
    if mode is not None:
        return mode.lower() == "true"
    return str(lake.spark.conf.get(OVERWRITE_MODE, "static")).lower() == "dynamic"


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


def _static_cast(value: str, column: str, schema: TableSchema) -> str:
    return f"try_cast({value} AS {spark_type(schema.field(column).type).simpleString()})"


def _static_values(lake: Lake, static: dict[str, str], table: LakeTable) -> dict[str, object]:
    """The PARTITION values cast to their columns' types, as Python values; InvalidError for one that does not fit."""
    if not static:
        return {}
    casts = [f"{_static_cast(value, column, table.schema)} AS {quoted(column)}" for column, value in static.items()]
    found = dict(lake.spark.sql("SELECT " + ", ".join(casts)).collect()[0].asDict())
    for column, value in static.items():
        if found[column] is None and value.upper() != "NULL":
            raise InvalidError(
                "the PARTITION value is none of its column", table=table.name, column=column, value=value[:200]
            )
    return found


def _assigned(
    frame: DataFrame, insert: Insert, schema: TableSchema, static: dict[str, str], rules: Rules
) -> list[Column]:
    """The table's columns that the query or the PARTITION clause gives, under their names; members of rows too, where
    the query is taken by position."""
    own = [name for name in schema.field_names if name not in static]
    if insert.by_name:
        places = matched(frame.columns, own, rules)
        columns = [F.col(quoted(frame.columns[place])).alias(name) for name, place in places.items()]
    else:
        columns = _by_position(frame, insert, schema, own)
    return columns + [F.expr(_static_cast(value, name, schema)).alias(name) for name, value in static.items()]


def _by_position(frame: DataFrame, insert: Insert, schema: TableSchema, own: list[str]) -> list[Column]:
    listed = _listed(insert, own)
    given = frame.schema.fields
    if len(given) != len(listed):
        raise InvalidError(
            "INSERT has another number of columns than its query",
            columns=len(listed),
            query_columns=len(given),
            remedy=f"give values for {', '.join(listed)}",
        )
    columns = []
    for name, source in zip(listed, given, strict=True):
        kind = positional(source.dataType, spark_type(schema.field(name).type))
        column = F.col(source.name)
        columns.append((column if kind == source.dataType else column.cast(kind)).alias(name))
    return columns


def _listed(insert: Insert, own: list[str]) -> list[str]:
    """The target columns in the query's order."""
    if insert.columns is None:
        return own
    known = {name.lower(): name for name in own}
    unknown = [name for name in insert.columns if name.lower() not in known]
    if unknown:
        raise InvalidError("no such column", column=unknown[0], columns=own, remedy="use the table's column names")
    listed = [known[name.lower()] for name in insert.columns]
    if len(set(listed)) != len(listed):
        raise InvalidError("INSERT names a column twice", columns=insert.columns, remedy="name each column once")
    return listed
