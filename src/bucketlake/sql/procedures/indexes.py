"""CALL sys.create_global_index, sys.drop_global_index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bucketlake.ops.scan.partition_choice import parse_specs
from bucketlake.sql.procedures.arguments import flag, parse_options, table_of
from bucketlake.sql.procedures.registry import (
    DONE,
    OPTIONS,
    PARTITIONS,
    TABLE,
    Argument,
    Arguments,
    Procedure,
    Rows,
)

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake

_COLUMN = Argument("index_column", "the column", required=True)
_KIND = Argument("index_type", "the type of the index, `btree` or `bitmap`", required=True)


def _check(given: Arguments) -> None:
    parse_specs(given.get("partitions", ""))
    parse_options(given.get("options", ""))


def _partitions(given: Arguments) -> list[dict[str, str]] | None:
    return parse_specs(given["partitions"]) if "partitions" in given else None


def _create(lake: Lake, given: Arguments) -> Rows:
    table = table_of(lake, given)
    options = parse_options(given.get("options", ""))
    table.create_global_index(given["index_column"], given["index_type"], _partitions(given), **options)
    return DONE


def _drop(lake: Lake, given: Arguments) -> Rows:
    dry_run = flag(given, "dry_run")
    table = table_of(lake, given)
    found = table.drop_global_index(given["index_column"], given["index_type"], _partitions(given), dry_run)
    return [(True, found)]


PROCEDURES = (
    Procedure(
        "create_global_index",
        "Indexes a column of a table with `data-evolution.enabled`, where no index of this type covers it yet.",
        (TABLE, _COLUMN, _KIND, PARTITIONS, OPTIONS),
        _create,
        check=_check,
    ),
    Procedure(
        "drop_global_index",
        "Takes the files of a global index out of the table, whoever built it.",
        (
            TABLE,
            Argument("index_column", "the column, or those of an index of several, with commas between", required=True),
            Argument("index_type", "the type of the index", required=True),
            PARTITIONS,
            Argument("dry_run", "only say how many files it would be", "boolean", default="false"),
        ),
        _drop,
        "result boolean, dropped_file_count bigint",
        _check,
    ),
)
