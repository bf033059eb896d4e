"""CALL sys.clone, sys.copy_files: tables of a catalog copied file by file, to other names or another warehouse.

Spec: docs/spec/clone.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bucketlake.catalog import Catalog, open_catalog
from bucketlake.catalogs.clone import Cloning, clone_table
from bucketlake.errors import InvalidError, NotFoundError, UnsupportedError
from bucketlake.ops.clone.files import copy_here
from bucketlake.predicate.parse import parse_where
from bucketlake.spark.maintain.jobs import DRIVER_BYTES
from bucketlake.spark.maintain.orphans import run_each
from bucketlake.sql.procedures.arguments import flag, parse_options, whole_number
from bucketlake.sql.procedures.registry import Argument, Arguments, Procedure, Rows

if TYPE_CHECKING:
    from bucketlake.ops.clean.orphans import Run
    from bucketlake.spark.session import Lake

_WAREHOUSE = "warehouse"


def _check(given: Arguments) -> None:
    kind = given.get("clone_from", "paimon").lower()
    if kind != "paimon":
        raise UnsupportedError(
            f"clone_from '{kind}' is not supported",
            remedy="sys.migrate_table takes Spark's own tables; CREATE TABLE … AS SELECT copies rows of any source",
        )
    if "prefer_file_format" in given:
        raise UnsupportedError(
            "a clone has the source's files: prefer_file_format is not supported",
            remedy="CALL sys.rewrite on the clone",
        )
    threads = whole_number(given, "parallelism")
    if threads is not None and threads < 1:
        raise InvalidError("parallelism must be greater than 0", parallelism=given["parallelism"])
    for name in ("catalog_conf", "target_catalog_conf", "target_table_conf"):
        parse_options(given.get(name, ""))
    if "snapshot_id" in given and "tag" in given:
        raise InvalidError("only one of snapshot_id and tag can be given")
    _check_names(given)


def _check_names(given: Arguments) -> None:
    if "table" in given and "database" not in given:
        raise InvalidError("a table is given without its database", table=given["table"])
    if "target_table" in given and ("table" not in given or "target_database" not in given):
        raise InvalidError("target_table needs table and target_database")
    if "target_database" in given and "database" not in given:
        raise InvalidError("target_database needs database")
    if ("where" in given or "snapshot_id" in given or "tag" in given) and "table" not in given:
        raise InvalidError("where, snapshot_id and tag are of one table: give table")


def _catalog(lake: Lake, given: Arguments, warehouse: str, conf: str) -> Catalog:
    """The catalog that a call names; the lake's where it names none."""
    options = parse_options(given.get(conf, ""))
    place = given.get(warehouse) or options.pop(_WAREHOUSE, None)
    if place is None:
        if options:
            raise InvalidError("options of a catalog without its warehouse", argument=conf, remedy="add warehouse=…")
        return lake.catalog
    return open_catalog(place, options)


def _named(given: Arguments, source: Catalog) -> Iterator[tuple[str, str]]:
    """Names of the tables to clone, and what each is called then."""
    included, excluded = _listed(given.get("included_tables")), _listed(given.get("excluded_tables"))
    for name in sorted(included or ()):
        if not source.table_exists(name):
            raise NotFoundError(
                "no such table", argument="included_tables", table=name, remedy="write db.table,db.table"
            )
    for database in [given["database"]] if "database" in given else source.list_databases():
        goal = given.get("target_database", database)
        for table in [given["table"]] if "table" in given else source.list_tables(database):
            full = f"{database}.{table}"
            if (included is None or full in included) and full not in (excluded or ()):
                yield f"`{database}`.`{table}`", f"`{goal}`.`{given.get('target_table', table)}`"


def _listed(text: str | None) -> set[str] | None:
    return None if text is None else {part.strip().replace("`", "") for part in text.split(",") if part.strip()}


def _run_with(lake: Lake) -> Run:
    """Few bytes are copied in the driver, others by tasks."""

    def run(action: Any, units: Sequence[Any]) -> list[Any]:
        small = sum(file.size or 0 for unit in units for file in unit) <= DRIVER_BYTES
        return copy_here(action, units) if small else run_each(lake.spark)(action, units)

    return run


def _clone(lake: Lake, given: Arguments) -> Rows:
    source = _catalog(lake, given, _WAREHOUSE, "catalog_conf")
    target = _catalog(lake, given, "target_warehouse", "target_catalog_conf")
    scan = {"scan.snapshot-id": given.get("snapshot_id"), "scan.tag-name": given.get("tag")}
    for name, goal in list(_named(given, source)):
        table = source.table(name)
        zone = str(lake.spark.conf.get("spark.sql.session.timeZone"))
        where = parse_where(given["where"], table.schema.fields, zone) if "where" in given else None
        table.as_of({key: value for key, value in scan.items() if value is not None})  # it is there
        how = Cloning(
            where=where,
            scan={key: value for key, value in scan.items() if value is not None},
            options=parse_options(given.get("target_table_conf", "")),
            meta_only=flag(given, "meta_only"),
            if_exists="clone_if_exists" not in given or flag(given, "clone_if_exists"),
            threads=whole_number(given, "parallelism"),
        )
        target.create_database(goal.split("`")[1], ignore_if_exists=True)
        clone_table(table, target, goal, how, _run_with(lake))
    return [("Success",)]


def _optional(name: str, doc: str, kind: str = "string") -> Argument:
    return Argument(name, doc, kind)


_DATABASE = _optional("database", "the database; all of them if left out")
_TABLE = _optional("table", "the table, or a branch of it; all of the database if left out")
_CONF = _optional("catalog_conf", "the source's catalog: `warehouse=…,s3.access-key=…`; the lake's if left out")
_TARGET_DATABASE = _optional("target_database", "the database of the clones; of the same name if left out")
_TARGET_TABLE = _optional("target_table", "the clone's name; the same if left out")
_TARGET_CONF = _optional("target_catalog_conf", "the clones' catalog: `warehouse=…`; the lake's if left out")
_THREADS = _optional("parallelism", "threads that copy, in each task where tasks do", "int")
_ID = _optional("snapshot_id", "the snapshot that is cloned; the newest if left out", "bigint")
_TAG = _optional("tag", "the tag that is cloned")

PROCEDURES = (
    Procedure(
        "clone",
        "Copies tables file by file, with their schemas, vectors and indexes. Partitions of existing tables are "
        "replaced. If it fails, call it again.",
        (
            *(_DATABASE, _TABLE, _CONF, _TARGET_DATABASE, _TARGET_TABLE, _TARGET_CONF, _THREADS),
            _optional("where", "a condition over partition columns"),
            _optional("included_tables", "only these: `db.t,db.u`"),
            _optional("excluded_tables", "all but these"),
            _optional("prefer_file_format", "refused: files are copied as they are"),
            Argument("clone_from", "`paimon`", default="paimon"),
            Argument("meta_only", "only the schemas", "boolean", default="false"),
            Argument("clone_if_exists", "false: leave existing tables alone", "boolean", default="true"),
            _optional("target_table_conf", "options of new tables, over the source's: `k1=v1`"),
            *(_ID, _TAG),
        ),
        _clone,
        "result string",
        _check,
        engines="Flink",
    ),
    Procedure(
        "copy_files",
        "Copies tables file by file to another warehouse, as `clone`.",
        (
            _optional("warehouse", "the source's warehouse; the lake's if left out"),
            *(_DATABASE, _TABLE, _CONF),
            Argument("target_warehouse", "the warehouse of the copies", required=True),
            *(_TARGET_DATABASE, _TARGET_TABLE, _TARGET_CONF, _THREADS, _ID, _TAG),
        ),
        _clone,
        "result string",
        _check,
        engines="Flink",
    ),
)
