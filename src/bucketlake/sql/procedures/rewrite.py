"""CALL sys.rewrite: a table's files in another format, compression or row-group size.

Spec: docs/spec/rewrite.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bucketlake.spark.maintain.reformat import rewrite
from bucketlake.sql.procedures.arguments import check_choice, flag, parse_options, table_of
from bucketlake.sql.procedures.registry import OPTIONS, PARTITIONS, TABLE, WHERE, Argument, Arguments, Procedure, Rows

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake


def _check(given: Arguments) -> None:
    check_choice(given)
    parse_options(given.get("options", ""))


def _rewrite(lake: Lake, given: Arguments) -> Rows:
    done = rewrite(
        lake.spark,
        table_of(lake, given).table,
        given.get("partitions"),
        given.get("where"),
        flag(given, "every"),
        parse_options(given.get("options", "")),
    )
    return [(done.files, done.before, done.after)]


PROCEDURES = (
    Procedure(
        "rewrite",
        "Rewrites files in the format, compression and row groups that the options ask for, while writers go on.",
        (
            TABLE,
            PARTITIONS,
            WHERE,
            OPTIONS,
            Argument(
                "every", "also rewrite files that have that format and compression already", "boolean", default="false"
            ),
        ),
        _rewrite,
        "rewritten_files bigint, bytes_before bigint, bytes_after bigint",
        _check,
        engines="",
    ),
)
