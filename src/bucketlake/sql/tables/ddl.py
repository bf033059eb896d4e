"""CREATE, REPLACE, DROP, TRUNCATE and USE for databases and tables of the lake. ALTER and COMMENT ON: `alter`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bucketlake.catalog import SYSTEM_DATABASE
from bucketlake.errors import InvalidError, NotFoundError, UnsupportedError, did_you_mean
from bucketlake.spark.settings import setting_of
from bucketlake.spark.types import quoted
from bucketlake.sql.tables import partitions
from bucketlake.sql.tables.create import LAKE_PROVIDERS, parse_create_table
from bucketlake.sql.tables.create_table import OtherProvider, TableCreation
from bucketlake.sql.tables.functions import function
from bucketlake.sql.tables.views import drop_view, view
from bucketlake.sql.text import names
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.parsed import Statement
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake


def create(cursor: Cursor) -> Statement | None:
    """CREATE …: databases and tables are the lake's, a table USING another provider and everything else Spark's."""
    cursor.expect("CREATE")
    if accept_database(cursor):
        return _create_database(cursor)
    if any(cursor.sees(*words) for words in (("TABLE",), ("OR", "REPLACE", "TABLE"), ("EXTERNAL", "TABLE"))):
        cursor.at = 0
        return _table(cursor)
    return function(cursor) or view(cursor)


def replace_table(cursor: Cursor) -> Statement | None:
    """REPLACE TABLE …"""
    return _table(cursor)


def _table(cursor: Cursor) -> Statement | None:
    """A table of the lake, or one USING another provider."""
    provider = _provider(cursor.text)
    if provider not in (None, *LAKE_PROVIDERS):
        name, lenient = _named(cursor.text)
        return OtherProvider(name, cursor.rest(), provider, lenient)
    return TableCreation(parse_create_table(cursor))


def accept_database(cursor: Cursor) -> bool:
    """Step over one of the words for a database."""
    return cursor.accept("DATABASE") or cursor.accept("SCHEMA") or cursor.accept("NAMESPACE")


def _provider(statement: str) -> str | None:
    """The word after the first USING outside brackets and before AS, or None."""
    cursor = Cursor(statement)
    cursor.until("USING", "AS")
    return cursor.identifier().lower() if cursor.accept("USING") else None


def _named(statement: str) -> tuple[tuple[str, ...], bool]:
    """The name after the first TABLE, and whether IF NOT EXISTS stands before it."""
    cursor = Cursor(statement)
    cursor.until("TABLE")
    cursor.expect("TABLE")
    lenient = cursor.accept("IF", "NOT", "EXISTS")
    return cursor.name(), lenient


@dataclass(frozen=True, slots=True)
class _CreateDatabase:
    parts: tuple[str, ...]
    if_not_exists: bool
    properties: dict[str, str]

    @property
    def place(self) -> tuple[str, ...]:
        """The catalog that is named."""
        return names.catalog_of(self.parts)

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


@dataclass(frozen=True, slots=True)
class _DropDatabase:
    parts: tuple[str, ...]
    if_exists: bool
    cascade: bool

    @property
    def place(self) -> tuple[str, ...]:
        """The catalog that is named."""
        return names.catalog_of(self.parts)

    def run(self, lake: Lake, name: names.LakeName) -> None:
        lake.catalog.drop_database(
            names.database(lake, self.parts), cascade=self.cascade, ignore_if_missing=self.if_exists
        )


@dataclass(frozen=True, slots=True)
class _DropTable:
    if_exists: bool

    def run(self, lake: Lake, name: names.LakeName) -> None:
        lake.catalog.drop_table(name.full, ignore_if_missing=self.if_exists)


@dataclass(frozen=True, slots=True)
class _DropIndex:
    def run(self, lake: Lake, name: names.LakeName) -> None:
        raise UnsupportedError(
            "DROP INDEX on a lake table",
            table=lake.table(name.full).name,
            remedy="indexes are options of a table: ALTER TABLE … UNSET TBLPROPERTIES ('file-index.…');"
            " CALL sys.drop_global_index takes the global ones",
        )


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
    if cursor.accept("VIEW"):
        return drop_view(cursor)
    if cursor.accept("INDEX"):
        return _drop_index(cursor)
    if not cursor.accept("TABLE"):
        return None
    if_exists = cursor.accept("IF", "EXISTS")
    cursor.table()
    cursor.accept("PURGE")
    return _DropTable(if_exists)


def _drop_index(cursor: Cursor) -> Statement:
    """`[IF EXISTS] i ON [TABLE] t`, the cursor behind DROP INDEX."""
    cursor.accept("IF", "EXISTS")
    cursor.identifier()
    cursor.expect("ON")
    cursor.accept("TABLE")
    cursor.table()
    return _DropIndex()


@dataclass(frozen=True, slots=True)
class _Truncate:
    partition: dict[str, str | None] | None

    def run(self, lake: Lake, name: names.LakeName) -> None:
        table = lake.table(name.full)
        if self.partition is None:
            table.truncate()
        else:
            partitions.truncate(lake, table.table, self.partition)


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
        if key in spec:
            cursor.fail(f"partition column {key} is given twice", condition="DUPLICATE_KEY")
        cursor.expect("=")
        spec[key] = cursor.constant()[1]

    cursor.bracketed(pair)
    return spec


@dataclass(frozen=True, slots=True)
class _Use:
    """`of_catalog`: the name is a catalog's."""

    parts: tuple[str, ...]
    of_catalog: bool = False

    def run(self, lake: Lake, name: names.LakeName) -> None:
        parts = self.parts
        first = parts[0].lower()
        bare = len(parts) == 1 and (self.of_catalog or not lake.catalog.database_exists(parts[0]))
        if self.of_catalog and first not in (names.SPARK_CATALOG, *lake.catalog_names):
            if setting_of(lake.spark, f"spark.sql.catalog.{parts[0]}") is not None:
                lake.spark.sql(f"SET CATALOG {quoted(parts[0])}")
                return
            own = lake.catalog_names[0]
            remedy = f"the lake's is {own}; bucketlake.connect opens another warehouse"
            raise InvalidError("no such catalog", catalog=parts[0], remedy=remedy)
        if (first == names.SPARK_CATALOG and (bare or len(parts) == 2)) or (
            lake.in_spark_catalog and first not in lake.catalog_names
        ):
            lake.spark.sql(f"USE {'.'.join(quoted(part) for part in parts)}")
            lake.in_spark_catalog = True
            return
        if bare and first in lake.catalog_names:
            lake.current_database, lake.in_spark_catalog = lake.default_database, False
            return
        database = names.database(lake, parts) if len(parts) <= 2 else parts[-1]
        if database != SYSTEM_DATABASE and not lake.catalog.database_exists(database):
            known = lake.catalog.list_databases()
            remedy = did_you_mean(database, known) or "CREATE DATABASE first, or SHOW DATABASES"
            raise NotFoundError("no such database", database=database, remedy=remedy)
        lake.current_database, lake.in_spark_catalog = database, False


def use(cursor: Cursor) -> Statement:
    """USE [DATABASE | SCHEMA | NAMESPACE] db: a database of the lake; `spark_catalog[.db]`: names are Spark's own.

    So they stay until a USE says `bucketlake` or `paimon`. USE CATALOG, Flink's, takes a catalog's name alone.
    """
    cursor.expect("USE")
    if len(cursor.tokens) == 3 and cursor.accept("CATALOG"):
        return _Use((cursor.identifier(),), of_catalog=True)
    if len(cursor.tokens) > 2:
        accept_database(cursor)
    return _Use(cursor.name())


def set_catalog(cursor: Cursor) -> Statement | None:
    """`SET CATALOG name | 'name'`, the cursor behind SET: as USE CATALOG; else None, the cursor where it was."""
    if len(cursor.tokens) != 3 or not cursor.accept("CATALOG"):
        return None
    token = cursor.peek()
    text = token is not None and token.kind == "string"
    return _Use((cursor.string() if text else cursor.identifier(),), of_catalog=True)
