"""What Spark says of names that it does not know, in terms of the lake: the nearest table, the catalog meant."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, PySparkException

from bucketlake.catalogs.near import meant_system_table, meant_table
from bucketlake.errors import NotFoundError, did_you_mean
from bucketlake.spark.raised import ToldError
from bucketlake.sql.query import functions, max_pt, sys_functions

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake

_NAME = r"((?:`(?:[^`]|``)+`\.?)+)"
_MISSING = re.compile(rf"\[TABLE_OR_VIEW_NOT_FOUND\] The table or view {_NAME} cannot be found")
# Spark 4.1 names the namespace alone, later ones the whole identifier.
_NAMESPACE = re.compile(rf"requires a single-part namespace, but got (?:identifier )?{_NAME}")
_MEANT = re.compile(r"did you mean '(.+)'\?")
_PART = re.compile(r"`((?:[^`]|``)+)`")
_ROUTINE = re.compile(rf"\[(UNRESOLVED_ROUTINE|UNRESOLVABLE_TABLE_VALUED_FUNCTION)\] [\w ]+? {_NAME}")
_UNSEARCHED = "vector and full-text indexes are not supported; ORDER BY a distance … LIMIT n finds the nearest"
_SEARCHES = ("vector_search", "full_text_search", "hybrid_search")  # of Paimon's
_CHANGES = ("table_changes", "table_changes_by_path")  # as Databricks names them
_FILES = re.compile(r"(read|scan)_(csv|json|ndjson|parquet|files|avro|orc)(_auto)?", re.IGNORECASE)  # as DuckDB does
_OF_FILES = (
    "rows of a file are csv.`path`, json.`path`, parquet.`path`; CREATE TEMPORARY VIEW … USING csv takes options"
)


class UnknownNameError(ToldError, NotFoundError, AnalysisException):  # type: ignore[misc]
    """A name that neither the lake nor Spark knows: Spark's own error to those who look for that."""


def explained(lake: Lake, error: Exception) -> UnknownNameError | None:
    """A better error than Spark's for a name that it looked for in its own catalog; None where there is none."""
    text = str(error)
    missing, namespace = _MISSING.search(text), _NAMESPACE.search(text)
    if missing is not None:
        return _missing(lake, missing.group(1))
    return None if namespace is None else _elsewhere(lake, _parts(namespace.group(1)))


def meant_function(lake: Lake, error: Exception) -> str | None:
    """The remedy of an error about a function that Spark does not know: the nearest one. None for other errors."""
    found = _ROUTINE.search(str(error)) if isinstance(error, PySparkException) else None
    if found is None:
        return None
    name = _parts(found[2])[-1]
    ours = tuple(functions.FUNCTIONS)
    if found[1] != "UNRESOLVED_ROUTINE":
        remedy = f"{ours[0]}('table', startSnapshotId, endSnapshotId)" if name.lower() in _CHANGES else None
        remedy = _UNSEARCHED if name.lower() in _SEARCHES else remedy
        remedy = _OF_FILES if _FILES.fullmatch(name) else remedy
        return remedy or did_you_mean(name, ours)
    own = [f"sys.{one}" for one in (*sys_functions.NAMES, max_pt.NAME)]
    known = [str(row[0]) for row in lake.spark.sql("SHOW FUNCTIONS").collect()]
    return did_you_mean(f"sys.{name}" if len(_parts(found[2])) > 1 else name, [*own, *known])


def _parts(quoted: str) -> list[str]:
    return [part.replace("``", "`") for part in _PART.findall(quoted)]


def _missing(lake: Lake, quoted: str) -> UnknownNameError | None:
    parts = _parts(quoted)
    if len(parts) == 3 and parts[0].lower() in lake.catalog_names:
        parts = parts[1:]
    if len(parts) > 2 or parts[-1].startswith("_pyspark_"):
        return None
    what = f"[TABLE_OR_VIEW_NOT_FOUND] The table or view {quoted} cannot be found"
    database = parts[0] if len(parts) == 2 else lake.current_database
    if not lake.catalog.database_exists(database):
        meant = meant_system_table(lake.catalog, parts, lake.current_database)
        if meant is not None:
            return UnknownNameError(what, database=database, remedy=meant)
        near = get_close_matches(database, lake.catalog.list_databases(), 1)
        remedy = f"did you mean the database '{near[0]}'?" if near else "SHOW DATABASES lists the databases"
        return UnknownNameError(what, database=database, warehouse=lake.catalog.warehouse, remedy=remedy)
    known = lake.catalog.list_tables(database)
    if lake.in_spark_catalog:
        return UnknownNameError(what, remedy=_by_whole_name(lake, database, parts[-1], known))
    if parts[-1] in known:
        remedy = "it is a table of the lake, which is found where the statement itself names it"
        return UnknownNameError(what, database=database, remedy=remedy)
    table, dollar, view = parts[-1].partition("$")
    view_meant = did_you_mean(table, _views(lake)) if len(parts) == 1 and did_you_mean(table, known) is None else None
    meant = view_meant or meant_table(lake.catalog, database, table, known)
    remedy = meant or "SHOW TABLES lists the tables, SHOW VIEWS temporary views"
    if dollar and remedy.endswith("'?"):
        remedy = remedy.removesuffix("'?") + f"${view}'?"
    return UnknownNameError(what, database=database, remedy=remedy)


def _by_whole_name(lake: Lake, database: str, table: str, known: list[str]) -> str:
    """What a name of Spark's catalog, whose names short ones are, may mean of the lake's."""
    own = lake.catalog_names[0]
    if table in known:
        return f"names of one and two parts are Spark's behind USE spark_catalog: write {own}.{database}.{table}"
    meant = _MEANT.fullmatch(meant_table(lake.catalog, database, table, known) or "")
    if meant is None:
        return f"names of one and two parts are Spark's behind USE spark_catalog, until USE {own}"
    return f"did you mean '{own}.{meant[1] if '.' in meant[1] else f'{database}.{meant[1]}'}'?"


def _views(lake: Lake) -> list[str]:
    """The session's temporary views."""
    return [row.viewName for row in lake.spark.sql("SHOW VIEWS").where("isTemporary").select("viewName").collect()]


def _elsewhere(lake: Lake, parts: list[str]) -> UnknownNameError:
    if parts[0].lower() in lake.catalog_names:
        meant = meant_system_table(lake.catalog, parts[1:], lake.current_database)
        remedy = meant or "write db.table"
        return UnknownNameError("Paimon only support single namespace", name=".".join(parts), remedy=remedy)
    meant = meant_system_table(lake.catalog, parts, lake.current_database)
    return UnknownNameError(
        f"Current catalog is {lake.catalog_names[0]}, catalog {parts[0]} does not exist",
        name=".".join(parts),
        remedy=meant or f"write db.table or {lake.catalog_names[0]}.db.table",
    )
