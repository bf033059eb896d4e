"""CREATE, DROP, TRUNCATE, USE and COMMENT ON for databases and tables of the lake. ALTER stands in `alter`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bucketlake.errors import NotFoundError
from bucketlake.schema import schema as core
from bucketlake.sql.query import query
from bucketlake.sql.tables.create import LAKE_PROVIDERS, parse_create_table
from bucketlake.sql.tables.create_table import TableCreation
from bucketlake.sql.text import names
from bucketlake.sql.text.parsed import Statement
from bucketlake.sql.text.text import Cursor
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake


def create(cursor: Cursor) -> Statement | None:
    """CREATE …: databases and tables are the lake's, a table USING another provider and everything else Spark's."""
    cursor.expect("CREATE")
    if accept_database(cursor):
        return _create_database(cursor)
    if any(cursor.sees(*words) for words in (("TABLE",), ("OR", "REPLACE", "TABLE"), ("EXTERNAL", "TABLE"))):
        if _provider(cursor.text) not in (None, *LAKE_PROVIDERS):
            return None
        return TableCreation(parse_create_table(cursor))
    return _temp_view(cursor) if _is_temp_view(cursor) else None


def accept_database(cursor: Cursor) -> bool:
    """Step over one of the words for a database."""
    return cursor.accept("DATABASE") or cursor.accept("SCHEMA") or cursor.accept("NAMESPACE")


def _provider(statement: str) -> str | None:
    """The word after the first USING outside brackets and before AS, or None."""
    cursor = Cursor(statement)
    cursor.until("USING", "AS")
    return cursor.identifier().lower() if cursor.accept("USING") else None


@dataclass(frozen=True, slots=True)
class _CreateDatabase:
    parts: tuple[str, ...]
    if_not_exists: bool
    properties: dict[str, str]

    def run(self, lake: Lake, name: names.LakeName) -> None:
        lake.catalog.create_database(
            names.database(lake, self.parts), ignore_if_exists=self.if_not_exists, properties=self.properties
        )


def _create_database(cursor: Cursor) -> Statement:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    parts = cursor.name()
    properties: dict[str, str] = {}
    while not cursor.done:
        if cursor.accept("COMMENT"):
            properties["comment"] = cursor.string()
        elif cursor.accept("LOCATION"):
            properties["location"] = cursor.string()
        elif cursor.accept("WITH", "DBPROPERTIES") or cursor.accept("WITH", "PROPERTIES"):
            properties.update(cursor.options())
        else:
            cursor.fail("clause is not part of CREATE DATABASE")
    return _CreateDatabase(parts, if_not_exists, properties)


def _is_temp_view(cursor: Cursor) -> bool:
    words = [token.value.upper() for token in cursor.tokens[1:7]]
    return "VIEW" in words and ("TEMP" in words or "TEMPORARY" in words) and "GLOBAL" not in words


@dataclass(frozen=True, slots=True)
class _TempView:
    view: str
    query: str
    replace: bool
    if_not_exists: bool

    def run(self, lake: Lake, name: names.LakeName) -> None:
        """A view holds the bound query: its text could not name lake tables."""
        frame = query.run(lake, self.query)
        if self.if_not_exists and names.is_temp_view(lake, self.view):
            return
        if self.replace:
            frame.createOrReplaceTempView(self.view)
        else:
            frame.createTempView(self.view)


def _temp_view(cursor: Cursor) -> Statement | None:
    """CREATE [OR REPLACE] TEMP VIEW [IF NOT EXISTS] v AS query; other forms are Spark's."""
    replace = cursor.accept("OR", "REPLACE")
    cursor.at += 1
    cursor.expect("VIEW")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name()
    if len(name) > 1 or not cursor.accept("AS"):
        return None
    return _TempView(name[0], cursor.rest(), replace, if_not_exists)


@dataclass(frozen=True, slots=True)
class _DropDatabase:
    parts: tuple[str, ...]
    if_exists: bool
    cascade: bool

    def run(self, lake: Lake, name: names.LakeName) -> None:
        lake.catalog.drop_database(
            names.database(lake, self.parts), cascade=self.cascade, ignore_if_missing=self.if_exists
        )


@dataclass(frozen=True, slots=True)
class _DropTable:
    if_exists: bool

    def run(self, lake: Lake, name: names.LakeName) -> None:
        lake.catalog.drop_table(name.full, ignore_if_missing=self.if_exists)


def drop(cursor: Cursor) -> Statement | None:
    """DROP DATABASE | TABLE of the lake; other DROPs, and tables that only Spark has, go to Spark."""
    cursor.expect("DROP")
    if accept_database(cursor):
        if_exists = cursor.accept("IF", "EXISTS")
        parts = cursor.name()
        cascade = cursor.accept("CASCADE")
        if not cascade:
            cursor.accept("RESTRICT")
        return _DropDatabase(parts, if_exists, cascade)
    if not cursor.accept("TABLE"):
        return None
    if_exists = cursor.accept("IF", "EXISTS")
    cursor.table()
    cursor.accept("PURGE")
    return _DropTable(if_exists)


@dataclass(frozen=True, slots=True)
class _Truncate:
    partition: dict[str, str | None] | None

    def run(self, lake: Lake, name: names.LakeName) -> None:
        table = lake.table(name.full)
        if self.partition is None:
            table.truncate()
        else:
            table.drop_partitions([self.partition])


def truncate(cursor: Cursor) -> Statement:
    """TRUNCATE TABLE t [PARTITION (k = v, …)]."""
    cursor.expect("TRUNCATE", "TABLE")
    cursor.table()
    return _Truncate(partition_spec(cursor) if cursor.accept("PARTITION") else None)


def partition_spec(cursor: Cursor) -> dict[str, str | None]:
    """`(k = 'v', …)` as column -> text, None for NULL; at least one column, each once."""
    spec: dict[str, str | None] = {}

    def pair() -> None:
        key = cursor.identifier()
        if key.lower() in {other.lower() for other in spec}:
            cursor.fail(f"partition column {key} is given twice")
        cursor.expect("=")
        spec[key] = cursor.constant()[1]

    cursor.bracketed(pair)
    return spec


@dataclass(frozen=True, slots=True)
class _Use:
    parts: tuple[str, ...]

    def run(self, lake: Lake, name: names.LakeName) -> None:
        parts = self.parts
        if len(parts) == 1 and parts[0].lower() in names.CATALOG_NAMES and not lake.catalog.database_exists(parts[0]):
            lake.current_database = names.DEFAULT_DATABASE
            return
        database = names.database(lake, parts) if len(parts) <= 2 else parts[-1]
        if not lake.catalog.database_exists(database):
            raise NotFoundError(
                "no such database", database=database, remedy="CREATE DATABASE first, or SHOW DATABASES"
            )
        lake.current_database = database


def use(cursor: Cursor) -> Statement:
    """USE [DATABASE | SCHEMA | NAMESPACE] db: a database of the lake."""
    cursor.expect("USE")
    if len(cursor.tokens) > 2:
        accept_database(cursor)
    return _Use(cursor.name())


@dataclass(frozen=True, slots=True)
class _CommentOnTable:
    comment: str | None

    def run(self, lake: Lake, name: names.LakeName) -> None:
        lake.catalog.alter_table(name.full, core.UpdateComment(None, self.comment))


def comment_on(cursor: Cursor) -> Statement | None:
    """COMMENT ON TABLE t IS 'text' | NULL; other COMMENTs go to Spark."""
    cursor.expect("COMMENT")
    if not cursor.accept("ON", "TABLE"):
        return None
    cursor.table()
    cursor.expect("IS")
    return _CommentOnTable(None if cursor.accept("NULL") else cursor.string())
