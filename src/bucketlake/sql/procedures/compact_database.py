"""CALL sys.compact_database: the tables of databases, one after the other or all of them by the same Spark jobs.

Spec: docs/sql/procedures.md#compact_database
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from bucketlake.catalogs.names import written
from bucketlake.errors import InvalidError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.clean.expire import after_commit
from bucketlake.ops.cluster.incremental import is_incremental
from bucketlake.ops.compact.job import Job, run_jobs
from bucketlake.options.options import parse_duration
from bucketlake.spark.maintain.compaction import Request, prepared
from bucketlake.spark.maintain.jobs import runner
from bucketlake.sql.procedures.arguments import parse_options, pattern
from bucketlake.sql.procedures.registry import Argument, Arguments, Procedure, Rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bucketlake.spark.session import Lake
    from bucketlake.spark.table import LakeTable

_MODES = ("divided", "combined")


def _check(given: Arguments) -> None:
    for name in ("including_databases", "including_tables", "excluding_tables"):
        pattern(given, name, ".*")
    for name in ("options", "table_options"):
        parse_options(given.get(name, ""))
    if given.get("mode", _MODES[0]).lower() not in _MODES:
        raise InvalidError("unknown mode", mode=given["mode"], known=list(_MODES))
    strategy = given.get("compact_strategy", "full").lower()
    if strategy not in ("full", "minor"):
        raise InvalidError(f"The compact strategy only supports 'full' or 'minor', but '{strategy}' is configured.")
    if "partition_idle_time" in given:
        parse_duration(given["partition_idle_time"])


def _chosen(lake: Lake, given: Arguments) -> Iterator[str]:
    """`db.table` of the tables that the patterns choose."""
    databases, tables = pattern(given, "including_databases", ".*"), pattern(given, "including_tables", ".*")
    excluded = pattern(given, "excluding_tables", "(?!)")
    for database in filter(databases.fullmatch, lake.catalog.list_databases()):
        for table in lake.catalog.list_tables(database):
            name = f"{database}.{table}"  # as the patterns have it
            if tables.fullmatch(name) and not excluded.fullmatch(name):
                yield written(database, table)


def _compact_tables(
    spark: SparkSession,
    names: Sequence[str],
    opened: Callable[[str], LakeTable],
    combined: bool,
    full: bool | None,
    idle: str | None,
) -> dict[str, Exception]:
    """Compact tables as `LakeTable.compact` does; what went wrong, by name: one that fails stops no other. `combined`:
    their units together, largest first, each table with commits of its own; those that are put in order by themselves.
    Interrupts are raised, with what is finished committed."""
    failed: dict[str, Exception] = {}
    jobs: dict[str, tuple[Job, Snapshot | None]] = {}
    for name in names:
        try:
            found = opened(name)
            if combined and not is_incremental(found.table.store):
                jobs[name] = prepared(spark, found.table, Request(full=full is not False, idle=idle))
            else:
                found.compact(full=full, idle=idle)
        except Exception as error:
            failed[name] = error
    run_jobs([job for job, _ in jobs.values()], runner(spark))
    for name, (job, placed) in jobs.items():
        try:
            after_commit(job.store, job.finish() or placed, dedicated=True)
        except Exception as error:
            failed[name] = error
    return failed


def _compact_database(lake: Lake, given: Arguments) -> Rows:
    options = {**parse_options(given.get("options", "")), **parse_options(given.get("table_options", ""))}
    strategy = given.get("compact_strategy")
    full = None if strategy is None else strategy.lower() == "full"
    names = list(_chosen(lake, given))

    def opened(name: str) -> LakeTable:
        return lake.table(name).with_options(options)

    combined = given.get("mode", "").lower() == "combined"
    failed = _compact_tables(lake.spark, names, opened, combined, full, given.get("partition_idle_time"))
    for name, error in failed.items():
        warnings.warn(f"{name} was not compacted: {error}", stacklevel=2)
    done = len(names) - len(failed)
    return [(f"Compact database finished. Success: {done}, Failed: {len(failed)}",)]


PROCEDURES = (
    Procedure(
        "compact_database",
        "Compacts the tables of databases. A failure stops no other table.",
        (
            Argument("including_databases", "a regular expression for whole names", default=".*"),
            Argument("including_tables", "a regular expression for whole `db.table`", default=".*"),
            Argument("excluding_tables", "a regular expression for `db.table` that are left out"),
            Argument("options", "options of the tables for this call: `k1=v1,k2=v2`"),
            Argument(
                "mode",
                "`divided`: one table after the other; `combined`: units of all tables by the same Spark jobs",
                default="divided",
                engine="flink",
            ),
            Argument("table_options", "as `options`", engine="flink"),
            Argument("partition_idle_time", "only partitions that got no file for so long: `1 d`", engine="flink"),
            Argument(
                "compact_strategy",
                "`full`: all files; `minor`: what each table's policy picks; by default as `sys.compact`",
                engine="flink",
            ),
        ),
        _compact_database,
        "result string",
        _check,
        flink=(
            *("including_databases", "mode", "including_tables", "excluding_tables", "table_options"),
            *("partition_idle_time", "compact_strategy"),
        ),
    ),
)
