"""CALL sys.expire_snapshots, sys.expire_changelogs, sys.remove_orphan_files.

Spec: docs/procedures.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bucketlake.errors import InvalidError
from bucketlake.ops.clean.orphans import OrphanFiles
from bucketlake.ops.scan.select import epoch_millis
from bucketlake.sql.procedures.arguments import Arguments, flag, parse_options, table_name, whole_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.spark.session import Lake

SNAPSHOTS = ("table", "retain_max", "retain_min", "older_than", "max_deletes", "options")
CHANGELOGS = ("table", "retain_max", "retain_min", "older_than", "max_deletes", "delete_all")
ORPHANS = ("table", "older_than", "dry_run", "parallelism", "mode")
_MODES = ("DISTRIBUTED", "LOCAL")
_NUMBERS = ("retain_max", "retain_min", "max_deletes", "parallelism")


def check(given: Arguments) -> None:
    """InvalidError for arguments of these procedures that cannot be meant."""
    for name in _NUMBERS:
        whole_number(given, name)
    for name in ("dry_run", "delete_all"):
        flag(given, name)
    epoch_millis(given.get("older_than"))
    parse_options(given.get("options", ""))
    mode = given.get("mode", "LOCAL")
    if mode.upper() not in _MODES:
        raise InvalidError(f"Unknown mode: {mode}. Only 'DISTRIBUTED' and 'LOCAL' are supported.")


def expire_snapshots(lake: Lake, given: Arguments) -> DataFrame:
    """One row: how many snapshots went."""
    table = lake.table(table_name(lake, given["table"])).with_options(parse_options(given.get("options", "")))
    done = table.expire_snapshots(
        whole_number(given, "retain_max"),
        whole_number(given, "retain_min"),
        given.get("older_than"),
        whole_number(given, "max_deletes"),
    )
    return lake.spark.createDataFrame([(done.snapshots,)], "deleted_snapshots_count int")


def expire_changelogs(lake: Lake, given: Arguments) -> DataFrame:
    """One row: how many changelogs went."""
    done = lake.table(table_name(lake, given["table"])).expire_changelogs(
        whole_number(given, "retain_max"),
        whole_number(given, "retain_min"),
        given.get("older_than"),
        whole_number(given, "max_deletes"),
        flag(given, "delete_all"),
    )
    return lake.spark.createDataFrame([(done.changelogs,)], "deleted_changelogs_count int")


def remove_orphan_files(lake: Lake, given: Arguments) -> DataFrame:
    """One row: how many files went, or would with `dry_run`, and their bytes."""
    done = OrphanFiles()
    for name in _tables(lake, given["table"]):
        table = lake.table(name)
        threads = whole_number(given, "parallelism")
        distributed = given.get("mode", "LOCAL").upper() == "DISTRIBUTED"
        done = done + table.remove_orphan_files(given.get("older_than"), flag(given, "dry_run"), threads, distributed)
    layout = "deletedFileCount bigint, deletedFileTotalLenInBytes bigint"
    return lake.spark.createDataFrame([(done.count, done.size)], layout)


def _tables(lake: Lake, text: str) -> list[str]:
    """The table, or all tables of a database for `database.*`."""
    database, star = text.strip().rsplit(".", 1) if "." in text else ("", text)
    if star != "*":
        return [table_name(lake, text)]
    database = database.strip("`") or lake.current_database
    return [f"`{database}`.`{name}`" for name in lake.catalog.list_tables(database)]
