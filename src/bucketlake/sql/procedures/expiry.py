"""CALL sys.expire_snapshots, sys.expire_changelogs, sys.remove_orphan_files.

Spec: docs/sql/procedures.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bucketlake.errors import InvalidError
from bucketlake.ops.clean.orphans import OrphanFiles
from bucketlake.ops.scan.select import epoch_millis
from bucketlake.sql.procedures.arguments import flag, parse_options, table_name, whole_number
from bucketlake.sql.procedures.registry import OPTIONS, TABLE, Argument, Arguments, Procedure, Rows

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake

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
    mode = given.get("mode", "DISTRIBUTED")
    if mode.upper() not in _MODES:
        raise InvalidError(f"Unknown mode: {mode}. Only 'DISTRIBUTED' and 'LOCAL' are supported.")


def expire_snapshots(lake: Lake, given: Arguments) -> Rows:
    """One row: how many snapshots went."""
    table = lake.table(table_name(lake, given["table"])).with_options(parse_options(given.get("options", "")))
    done = table.expire_snapshots(
        whole_number(given, "retain_max"),
        whole_number(given, "retain_min"),
        given.get("older_than"),
        whole_number(given, "max_deletes"),
    )
    return [(done.snapshots,)]


def expire_changelogs(lake: Lake, given: Arguments) -> Rows:
    """One row: how many changelogs went."""
    done = lake.table(table_name(lake, given["table"])).expire_changelogs(
        whole_number(given, "retain_max"),
        whole_number(given, "retain_min"),
        given.get("older_than"),
        whole_number(given, "max_deletes"),
        flag(given, "delete_all"),
    )
    return [(done.changelogs,)]


def remove_orphan_files(lake: Lake, given: Arguments) -> Rows:
    """One row: how many files went, or would with `dry_run`, and their bytes."""
    done = OrphanFiles()
    for name in _tables(lake, given["table"]):
        table = lake.table(name)
        threads = whole_number(given, "parallelism")
        distributed = given.get("mode", "DISTRIBUTED").upper() == "DISTRIBUTED"
        done = done + table.remove_orphan_files(given.get("older_than"), flag(given, "dry_run"), threads, distributed)
    return [(done.count, done.size)]


def _tables(lake: Lake, text: str) -> list[str]:
    """The table, or all tables of a database for `database.*`."""
    database, star = text.strip().rsplit(".", 1) if "." in text else ("", text)
    if star != "*":
        return [table_name(lake, text)]
    database = database.strip("`") or lake.current_database
    return [f"`{database}`.`{name}`" for name in lake.catalog.list_tables(database)]


_LIMITS = (
    Argument("retain_max", "the most to keep", "int"),
    Argument("retain_min", "the fewest to keep, at least 1", "int"),
    Argument("older_than", "keep what was the newest state then, and later; in this machine's time zone"),
    Argument("max_deletes", "the most to remove", "int"),
)

PROCEDURES = (
    Procedure(
        "expire_snapshots",
        "Removes snapshots, and the files that only they need.",
        (TABLE, *_LIMITS, OPTIONS),
        expire_snapshots,
        "deleted_snapshots_count int not null",
        check,
    ),
    Procedure(
        "expire_changelogs",
        "Removes changelogs that have outlived their snapshots.",
        (TABLE, *_LIMITS, Argument("delete_all", "remove them all", "boolean", default="false")),
        expire_changelogs,
        "deleted_changelogs_count int",
        check,
        engines="Flink",
    ),
    Procedure(
        "remove_orphan_files",
        "Removes files that no snapshot, tag, branch or changelog refers to.",
        (
            Argument("table", "the table, or `db.*` for all tables of a database", required=True),
            Argument(
                "older_than",
                "only files last written before this time; in this machine's time zone",
                default="a day ago",
            ),
            Argument("dry_run", "only count", "boolean", default="false"),
            Argument("parallelism", "threads that delete, in each task where tasks do", "int"),
            Argument(
                "mode", "`distributed`: Spark's tasks list and remove; `local`: the driver", default="distributed"
            ),
        ),
        remove_orphan_files,
        "deletedFileCount bigint, deletedFileTotalLenInBytes bigint",
        check,
    ),
)
