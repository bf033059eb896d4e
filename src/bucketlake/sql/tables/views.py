"""What a session remembers of lake tables: temporary views, cached tables. Persistent views are refused by name.

A temporary view holds the query as it was bound: it shows one snapshot of each table, whatever is committed later.

Spec: docs/sql/ddl.md#views
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from bucketlake.errors import InvalidError, NotFoundError, UnsupportedError
from bucketlake.sql.query import query
from bucketlake.sql.tables import catalog_views
from bucketlake.sql.tables.catalog_views import view_column
from bucketlake.sql.text import names
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.parsed import Statement
from bucketlake.types.model import quote_identifier
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.spark.session import Lake


def view(cursor: Cursor) -> Statement | None:
    """`[OR REPLACE] [[GLOBAL] TEMPORARY] VIEW …`, the cursor behind CREATE; None for what is no view."""
    replace = cursor.accept("OR", "REPLACE")
    scope = cursor.accept("GLOBAL")
    temporary = cursor.accept("TEMP") or cursor.accept("TEMPORARY")
    if not cursor.accept("VIEW"):
        return None
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    parts = cursor.name()
    if not temporary:
        cursor.rest()
        return _PersistentView(cursor.text, parts)
    if _is_of_files(cursor):
        return None
    columns = cursor.bracketed(lambda: view_column(cursor)) if cursor.sees("(") else []
    while cursor.sees("COMMENT") or cursor.sees("TBLPROPERTIES"):
        if cursor.accept("COMMENT"):
            cursor.string()  # Spark keeps none for a temporary view of a query
        elif cursor.accept("TBLPROPERTIES"):
            cursor.options()
    cursor.expect("AS")
    if len(parts) > 1:
        cursor.fail("a temporary view's name has one part")
    return _TempView(parts[0], cursor.query("CREATE VIEW … AS"), (replace, if_not_exists, scope), tuple(columns))


def _is_of_files(cursor: Cursor) -> bool:
    """Whether `[(name type, …)] USING` comes next: a view of Spark's own."""
    depth = 0
    for token in cursor.tokens[cursor.at :]:
        depth += (token.value == "(") - (token.value == ")")
        if depth == 0 and token.value != ")":
            return token.kind == "word" and token.value.upper() == "USING"
    return False


@dataclass(frozen=True, slots=True)
class _TempView:
    view: str
    query: str
    flags: tuple[bool, bool, bool]  # OR REPLACE, IF NOT EXISTS, GLOBAL
    columns: tuple[tuple[str, str | None], ...]

    def run(self, lake: Lake, name: names.LakeName) -> None:
        """A view holds the bound query: its text could not name lake tables."""
        replace, if_not_exists, scope = self.flags
        frame = _renamed(query.run(lake, self.query), self.columns)
        if if_not_exists and not scope and names.is_temp_view(lake, self.view):
            return
        if scope:
            if if_not_exists and names.is_sparks(lake, ("global_temp", self.view)):
                return
            (frame.createOrReplaceGlobalTempView if replace else frame.createGlobalTempView)(
                quote_identifier(self.view)
            )
        else:
            (frame.createOrReplaceTempView if replace else frame.createTempView)(quote_identifier(self.view))


def _renamed(frame: DataFrame, columns: tuple[tuple[str, str | None], ...]) -> DataFrame:
    """The frame with a view's own column names and comments."""
    if not columns:
        return frame
    if len(columns) != len(frame.columns):
        raise InvalidError(
            "the view names a different number of columns than its query has",
            columns=[name for name, _ in columns],
            query=frame.columns,
        )
    frame = frame.toDF(*[name for name, _ in columns])
    if all(comment is None for _, comment in columns):
        return frame
    quoted = [(name, quote_identifier(name), comment) for name, comment in columns]
    return frame.select(
        *[F.col(q) if text is None else F.col(q).alias(name, metadata={"comment": text}) for name, q, text in quoted]
    )


class _OfView:
    """A statement about the view `parts`."""

    __slots__ = ()
    parts: tuple[str, ...]

    @property
    def place(self) -> tuple[str, ...]:
        """The catalog that is named."""
        return self.parts[:-2]


@dataclass(frozen=True, slots=True)
class _PersistentView(_OfView):
    statement: str
    parts: tuple[str, ...]

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame | None:
        """A view of Spark's own tables is Spark's; one that reads lake tables has no place in a file-system catalog."""
        parts = self.parts
        place = catalog_views.place_of(lake, parts) if catalog_views.stores_views(lake) else None
        if place is not None:
            catalog_views.create(lake, catalog_views.read_view(self.statement), place)
            return None
        if in_the_lake(lake, parts) or query.bind(lake, self.statement)[1]:
            raise UnsupportedError(
                "Persistent views are not supported by a file-system catalog: CREATE VIEW",
                view=".".join(parts),
                remedy="CREATE TEMPORARY VIEW, which lasts as long as the session",
            )
        return query.run(lake, self.statement)


def in_the_lake(lake: Lake, parts: tuple[str, ...]) -> bool:
    """Whether a name says that it is of a database of the lake, and of none of Spark's own."""
    if len(parts) == 2:
        return lake.catalog.database_exists(parts[0]) and not _is_sparks_database(lake, parts[0])
    return len(parts) == 3 and parts[0].lower() in lake.catalog_names


def _is_sparks_database(lake: Lake, database: str) -> bool:
    return bool(lake.spark.catalog.databaseExists(f"spark_catalog.`{database.replace('`', '``')}`"))


def drop_view(cursor: Cursor) -> Statement | None:
    """`[IF EXISTS] v`, the cursor behind DROP VIEW: views are Spark's, a lake table is none."""
    if_exists = cursor.accept("IF", "EXISTS")
    return _DropView(cursor.text, cursor.name(), if_exists)


@dataclass(frozen=True, slots=True)
class _DropView(_OfView):
    statement: str
    parts: tuple[str, ...]
    if_exists: bool

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame | None:
        found = names.find(lake, self.parts)
        if found is not None:
            raise InvalidError("not a view", table=found.full, remedy="use DROP TABLE")
        if catalog_views.drop(lake, self.parts):
            return None
        if len(self.parts) > 1 and not names.is_sparks(lake, self.parts):
            if self.if_exists:
                return None
            raise NotFoundError("no such view", view=".".join(self.parts), remedy="SHOW VIEWS lists the session's")
        return query.run(lake, self.statement)


def alter_view(cursor: Cursor) -> Statement:
    """`v …`, the cursor behind ALTER VIEW: Spark's, and those that the catalog stores are made anew instead."""
    parts = cursor.name()
    cursor.rest()
    return _AlterView(cursor.text, parts)


@dataclass(frozen=True, slots=True)
class _AlterView(_OfView):
    statement: str
    parts: tuple[str, ...]

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame:
        place = catalog_views.place_of(lake, self.parts)
        hidden = len(self.parts) == 1 and names.is_temp_view(lake, self.parts[0])
        if place is not None and not hidden and catalog_views.find(lake, place) is not None:
            raise UnsupportedError(
                "ALTER VIEW is not supported for views that the catalog stores",
                view=place.full,
                remedy="CREATE OR REPLACE VIEW",
            )
        return query.run(lake, self.statement)


def show_views(cursor: Cursor) -> Statement | None:
    """`SHOW VIEWS [IN db] [LIKE 'p']`, the cursor behind VIEWS: in a lake's database there are temporary ones only."""
    named = cursor.accept("IN") or cursor.accept("FROM")
    parts = cursor.name() if named else ()
    pattern = cursor.rest().strip()
    return _ShowViews(cursor.text, parts, pattern)


@dataclass(frozen=True, slots=True)
class _ShowViews:
    statement: str
    parts: tuple[str, ...]
    pattern: str

    @property
    def place(self) -> tuple[str, ...]:
        """The catalog that is named."""
        return self.parts[:-1]

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame:
        if not self.parts:
            if lake.in_spark_catalog or not catalog_views.stores_views(lake):
                return query.run(lake, self.statement)
            return _ShowViews(self.statement, (lake.current_database,), self.pattern).run(lake, name)
        last = self.parts[-1]
        stores = catalog_views.stores_views(lake) and lake.catalog.database_exists(last)
        if len(self.parts) > 2 or (_is_sparks_database(lake, last) and not stores) or last.lower() == "global_temp":
            return query.run(lake, self.statement)
        database = names.database(lake, self.parts)
        lake.catalog.database_properties(database)
        found = query.run(lake, f"SHOW VIEWS {self.pattern}").where("isTemporary")
        stored = catalog_views.listed(lake, database, self.pattern)
        return found.union(lake.spark.createDataFrame(stored, found.schema)) if stored else found


# ---------------------------------------------------------------------------------------------- cached, refreshed


def cache(cursor: Cursor) -> Statement | None:
    """CACHE [LAZY] TABLE t [OPTIONS (…)] [[AS] query]."""
    cursor.expect("CACHE")
    lazy = cursor.accept("LAZY")
    cursor.expect("TABLE")
    parts = cursor.name()
    if cursor.accept("OPTIONS"):
        cursor.options()
    if cursor.accept("AS") or not cursor.done:
        if len(parts) > 1:
            cursor.fail("the name of a cached query has one part")
        return _CacheQuery(parts[0], cursor.query("CACHE TABLE … AS"), lazy)
    cursor.subject = parts
    return _Cache(parts, lazy)


@dataclass(frozen=True, slots=True)
class _CacheQuery:
    view: str
    query: str
    lazy: bool

    def run(self, lake: Lake, name: names.LakeName) -> None:
        view = quote_identifier(self.view)
        query.run(lake, self.query).createTempView(view)
        lake.spark.catalog.cacheTable(view)
        if not self.lazy:
            lake.spark.table(view).count()


@dataclass(frozen=True, slots=True)
class _Cache:
    """The rows of the snapshot as of now: queries that read this snapshot use them, later ones read the table."""

    parts: tuple[str, ...]
    lazy: bool

    def run(self, lake: Lake, name: names.LakeName) -> None:
        frame = lake.table(name.full).read()
        known = lake.cached.pop(name.full, None)
        if known is not None:
            known.unpersist()
        lake.cached[name.full] = frame.cache()
        if not self.lazy:
            frame.count()


def uncache(cursor: Cursor) -> Statement:
    """UNCACHE TABLE [IF EXISTS] t."""
    cursor.expect("UNCACHE", "TABLE")
    if_exists = cursor.accept("IF", "EXISTS")
    cursor.table()
    return _Uncache(if_exists)


@dataclass(frozen=True, slots=True)
class _Uncache:
    if_exists: bool

    def run(self, lake: Lake, name: names.LakeName) -> None:
        if not self.if_exists:
            lake.table(name.full)
        known = lake.cached.pop(name.full, None)
        if known is not None:
            known.unpersist()


def refresh(cursor: Cursor) -> Statement | None:
    """REFRESH [TABLE] t: tables are looked up anew by every statement; of Spark's tables and paths Spark knows."""
    cursor.expect("REFRESH")
    if not cursor.accept("TABLE"):
        return None
    cursor.table()
    return _Refresh()


@dataclass(frozen=True, slots=True)
class _Refresh:
    def run(self, lake: Lake, name: names.LakeName) -> None:
        lake.table(name.full)
