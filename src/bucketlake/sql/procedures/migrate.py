"""CALL sys.migrate_table, sys.migrate_database, sys.migrate_file: Spark's own tables, and folders, become the lake's.

Spec: docs/spec/migration.md
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from bucketlake.catalogs.migrate import Draft, migrate_folder
from bucketlake.env.object_store import storage_for
from bucketlake.errors import AlreadyExistsError, BucketlakeError, InvalidError, NotFoundError, UnsupportedError
from bucketlake.ops.migrate.migrate import journal_of, refuse_rest
from bucketlake.ops.migrate.source import Source, check_source, data_files, partition_keys_of
from bucketlake.options.catalog import table_defaults
from bucketlake.spark.types import field_types
from bucketlake.sql.procedures.arguments import flag, pairs_of, parse_options, whole_number
from bucketlake.sql.procedures.registry import DONE, Argument, Arguments, Procedure, Rows
from bucketlake.sql.text import names
from bucketlake.types.model import quote_identifier
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake

_SOURCES = ("hive", "spark")
_FOREIGN = ("iceberg", "hudi", "delta")
_ASIDE = "_paimon_"  # what a table is called until the folder of its name is free
_FOLDER = re.compile(r"(?P<format>\w+)\.`(?P<path>[^`]+)`")


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of Spark's own: `name` as Spark takes it, what its files hold, and what it is told by."""

    name: str
    source: Source
    draft: Draft
    managed: bool


# ---------------------------------------------------------------------------------------------- arguments


def _check(given: Arguments) -> None:
    kind = given["source_type"].strip().lower()
    if kind not in _SOURCES:
        raise UnsupportedError(
            f"Unsupported connector {given['source_type']}",
            **({"reason": "its files are not all of its rows"} if kind in _FOREIGN else {}),
            known=list(_SOURCES),
            remedy="CREATE TABLE … AS SELECT copies the rows",
        )
    _options(given)
    threads = whole_number(given, "parallelism")
    if threads is not None and threads < 1:
        raise InvalidError("parallelism must be greater than 0", parallelism=given["parallelism"])


def _options(given: Arguments) -> dict[str, str]:
    return {**parse_options(given.get("options", "")), **pairs_of(given.get("options_map", ""))}


# ---------------------------------------------------------------------------------------------- Spark's tables


def _spark_name(lake: Lake, parts: tuple[str, ...]) -> str | None:
    """A table of Spark's as it takes its name; None if it has none. A table of the database that is in use here is
    looked for as Spark finds its bare name, too: in Spark's own current database."""
    if len(parts) == 3 and parts[0].lower() == names.SPARK_CATALOG:
        parts = parts[1:]
    if len(parts) not in (1, 2):
        return None
    tries = [parts]
    if (
        len(parts) == 2
        and parts[0] == lake.current_database
        and not lake.spark.catalog.databaseExists(".".join(map(quote_identifier, parts[:1])))
    ):
        tries = [parts[1:]]
    for one in tries:
        found = one if len(one) == 2 else (lake.spark.catalog.currentDatabase(), *one)
        name = ".".join(map(quote_identifier, (names.SPARK_CATALOG, *found)))
        if lake.spark.catalog.tableExists(name):
            return name
    return None


def _told(lake: Lake, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lake.spark.sql(f"DESCRIBE TABLE EXTENDED {name} AS JSON").collect()[0][0])
    return found


def _table(lake: Lake, name: str, options: Mapping[str, str]) -> _Table:
    """What Spark says of one of its tables; UnsupportedError for views and other formats."""
    told = _told(lake, name)
    if told.get("type") == "VIEW" or not told.get("location"):
        raise UnsupportedError("a view, or a table without files, cannot be migrated", table=name)
    lake.spark.catalog.refreshTable(name)
    frame = lake.spark.table(name)
    location = storage_for(told["location"], lake.catalog.options)[1]
    keys = tuple(told.get("partition_columns") or ())
    source = Source(location, str(told.get("provider", "")).lower(), keys)
    check_source(lake.catalog.env.storage, source)
    _check_files(lake, name, source, frame.inputFiles())
    fields = field_types(frame.schema, as_declared=True)
    return _Table(name, source, Draft(fields, keys, dict(options), told.get("comment")), told.get("type") == "MANAGED")


def _check_files(lake: Lake, name: str, source: Source, read: list[str]) -> None:
    """InvalidError where the folder holds other files than Spark reads: a table's rows are what Spark says they are."""
    storage = lake.catalog.env.storage
    if journal_of(storage, source.location) is not None:
        return
    listed = {file.path for file in data_files(storage, source)} if storage.info(source.location) is not None else set()
    told = {storage_for(unquote(path), lake.catalog.options)[1] for path in read}
    for path in sorted(listed ^ told)[:1]:
        where = "a partition lies outside of the table's folder" if path in told else "Spark does not know of a file"
        raise InvalidError(
            f"{where}; nothing was moved",
            table=name,
            path=path,
            remedy="MSCK REPAIR TABLE, or move the file; else CREATE TABLE … AS SELECT copies the rows",
        )


# ---------------------------------------------------------------------------------------------- one table


def _migrate(lake: Lake, parts: tuple[str, ...], target: str | None, given: Arguments, drop: bool) -> None:
    found = _spark_name(lake, parts)
    goal = _own_name(lake, names.parts_of(target) if target else parts)
    aside = f"{names.LakeName(goal.database, goal.table + _ASIDE).full}"
    if found is None:
        if target is None and not lake.catalog.table_exists(goal.full) and lake.catalog.table_exists(aside):
            lake.catalog.rename_table(aside, goal.full)  # where an earlier call ended
            return
        raise NotFoundError(
            "Source hive table does not exist", table=".".join(parts), remedy="name a table of Spark's own"
        )
    table = _table(lake, found, _options(given))
    storage, threads = lake.catalog.env.storage, whole_number(given, "parallelism")
    name = goal.full
    made = target is None and not lake.catalog.database_exists(goal.database)
    if target is None:
        if drop and table.managed and _within(lake.catalog.table_path(goal.full), table.source.location):
            name = aside
        journal = journal_of(storage, table.source.location)
        if lake.catalog.table_exists(name) and (journal is None or journal.table != lake.catalog.table_path(name)):
            raise AlreadyExistsError(
                "the lake has a table of this name", table=name, remedy="give target_table to add the files to it"
            )
        lake.catalog.create_database(goal.database, ignore_if_exists=True)
    try:
        migrate_folder(lake.catalog, table.source.location, name, table.source.file_format, table.draft, threads)
    except BaseException:
        if made:
            with suppress(Exception):  # it is not dropped where a table is in it
                lake.catalog.drop_database(goal.database)
        raise
    if drop:
        refuse_rest(storage, table.source)
        lake.spark.sql(f"DROP TABLE {found}").collect()
    else:
        lake.spark.catalog.refreshTable(found)
    if name == aside:
        lake.catalog.rename_table(aside, goal.full)


def _own_name(lake: Lake, parts: tuple[str, ...]) -> names.LakeName:
    """The lake's table of a name, whichever catalog the session is in: a table of Spark's and what it becomes have the
    same database and name."""
    if len(parts) == 3 and parts[0].lower() in (names.SPARK_CATALOG, *lake.catalog_names):
        parts = parts[1:]
    if len(parts) == 1:
        in_use = lake.spark.catalog.currentDatabase() if lake.in_spark_catalog else lake.current_database
        return names.LakeName(in_use, parts[0])
    if len(parts) == 2:
        return names.LakeName(parts[0], parts[1])
    raise InvalidError("not a table name", name=".".join(parts), remedy="write database.table")


def _within(path: str, location: str) -> bool:
    return f"{path}/".startswith(f"{location.rstrip('/')}/")


def _migrate_table(lake: Lake, given: Arguments) -> Rows:
    folder = _FOLDER.fullmatch(given["table"].strip())
    if folder is None:
        drop = "delete_origin" not in given or flag(given, "delete_origin")
        _migrate(lake, names.parts_of(given["table"]), given.get("target_table"), given, drop)
        return DONE
    if "target_table" not in given:
        raise InvalidError("a folder has no table's name", folder=folder["path"], remedy="give target_table")
    goal = _own_name(lake, names.parts_of(given["target_table"])).full
    draft, threads = None, whole_number(given, "parallelism")
    location, kind = storage_for(folder["path"], lake.catalog.options)[1], folder["format"].lower()
    check_source(lake.catalog.env.storage, Source(location, kind))
    if not lake.catalog.table_exists(goal):
        frame = lake.spark.read.format(kind).load(folder["path"])
        keys = partition_keys_of(lake.catalog.env.storage, location)
        draft = Draft(
            field_types(frame.schema, as_declared=True),
            keys,
            {**table_defaults(lake.catalog.options), **_options(given)},
        )
    migrate_folder(lake.catalog, location, goal, kind, draft, threads)
    return DONE


def _migrate_file(lake: Lake, given: Arguments) -> Rows:
    if not lake.catalog.table_exists(_own_name(lake, names.parts_of(given["target_table"])).full):
        raise NotFoundError("no such table", table=given["target_table"], remedy="CREATE TABLE first, or migrate_table")
    return _migrate_table(lake, {**given, "table": given["source_table"]})


def _migrate_database(lake: Lake, given: Arguments) -> Rows:
    """One row: how many tables were migrated, and how many not. Why not is warned of."""
    database, done, failed = given["database"].strip("`"), 0, 0
    name = ".".join(map(quote_identifier, (names.SPARK_CATALOG, database)))
    if not lake.spark.catalog.databaseExists(name):
        raise NotFoundError("no such database of Spark's own", database=database)
    views = {row.viewName for row in lake.spark.sql(f"SHOW VIEWS IN {name}").collect()}
    tables = [row.tableName for row in lake.spark.sql(f"SHOW TABLES IN {name}").collect()]
    for table in [table for table in tables if table not in views]:
        try:
            _migrate(lake, (database, table), None, given, drop=True)
            done += 1
        except BucketlakeError as error:
            failed += 1
            warnings.warn(f"{database}.{table} was not migrated: {error}", stacklevel=2)
    return [(f"migrate database is finished, success cnt: {done} , failed cnt: {failed}",)]


_TYPE = Argument("source_type", "`hive`: tables of Spark's own catalog", required=True, alias="connector")
_GIVEN = Argument("options", "options of the new table: `k1=v1,k2=v2`")
_MAP = Argument("options_map", "options of the new table, as a map", "map")
_THREADS = Argument("parallelism", "threads that look at files and move them", "int")
_DROP = Argument("delete_origin", "drop the source; its files are moved in any case", "boolean", default="true")

PROCEDURES = (
    Procedure(
        "migrate_table",
        "Turns one of Spark's tables of Parquet or ORC files into a lake table, in place.",
        (
            _TYPE,
            Argument("table", "the table, or a folder: ``parquet.`/path` ``", required=True, alias="source_table"),
            _GIVEN,
            _DROP,
            Argument("target_table", "the lake table, which may exist; the source's name if left out"),
            _MAP,
            _THREADS,
        ),
        _migrate_table,
        check=_check,
        flink=("source_type", "table", "target_table", "options", "parallelism", "delete_origin"),
    ),
    Procedure(
        "migrate_database",
        "Turns all tables of one of Spark's databases into lake tables, as `migrate_table` does.",
        (
            _TYPE,
            Argument("database", "the database", required=True, alias="source_database"),
            _GIVEN,
            _MAP,
            _THREADS,
        ),
        _migrate_database,
        "result string",
        _check,
        flink=("source_type", "database", "options", "parallelism"),
    ),
    Procedure(
        "migrate_file",
        "Adds the files of one of Spark's tables to an existing lake table; otherwise as `migrate_table`.",
        (
            _TYPE,
            Argument("source_table", "the table, or a folder: ``parquet.`/path` ``", required=True),
            Argument("target_table", "the lake table", required=True),
            _DROP,
            _THREADS,
        ),
        _migrate_file,
        check=_check,
        engines="Spark, Flink of earlier releases",
    ),
)
