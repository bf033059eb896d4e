"""CALL sys.repair: what a SQL catalog's database has lost, taken up from the warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bucketlake.catalogs.repair import repair
from bucketlake.sql.procedures.registry import DONE, Argument, Arguments, Procedure, Rows

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake


def _repair(lake: Lake, given: Arguments) -> Rows:
    for name in given.get("database_or_table", "").split(","):
        repair(lake.catalog, name.strip())
    return DONE


PROCEDURES = (
    Procedure(
        "repair",
        "Adds tables that lie in the warehouse, and that the database of a SQL catalog lacks, to that database.",
        (
            Argument(
                "database_or_table",
                "databases or tables, separated by commas: `db`, `db.t`; the whole warehouse if left out",
                alias="table",
            ),
        ),
        _repair,
    ),
)
