"""CALL sys.rescale and sys.advise_buckets.

Spec: docs/sql/procedures.md#rescale, docs/sql/procedures.md#advise_buckets
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bucketlake.errors import InvalidError
from bucketlake.sql.procedures.arguments import table_name, whole_number
from bucketlake.sql.procedures.registry import DONE, PARTITIONS, TABLE, WHERE, Argument, Arguments, Procedure, Rows

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake

_ADVICE = "`partition` string, `rows` bigint, `bytes` bigint, buckets int, skew double, sorted_runs int"
_PARTS = ("partition", "partitions", "where")


def check_rescale(given: Arguments) -> None:
    """InvalidError for numbers that are none, and for two ways to say which partitions."""
    for name in ("bucket_num", "scan_parallelism", "sink_parallelism"):
        number = whole_number(given, name)
        if number is not None and number < 1:
            raise InvalidError(f"{name} must be greater than 0", value=number)
    named = [name for name in _PARTS if name in given]
    if len(named) > 1:
        raise InvalidError(f"{' and '.join(named)} cannot be used together.")


def rescale(lake: Lake, given: Arguments) -> Rows:
    """One row: whether it was done."""
    lake.table(table_name(lake, given["table"])).rescale(
        whole_number(given, "bucket_num"),
        partitions=given.get("partitions", given.get("partition")),
        where=given.get("where"),
    )
    return DONE


def advise(lake: Lake, given: Arguments) -> Rows:
    """One row a partition, largest first."""
    return [
        (
            "/".join(f"{name}={text}" for name, text in advice.partition.items()),
            *(advice.rows, advice.bytes, advice.buckets, advice.skew, advice.sorted_runs),
            *(advice.recommended, advice.reason),
        )
        for advice in lake.table(table_name(lake, given["table"])).advise_buckets()
    ]


PROCEDURES = (
    Procedure(
        "rescale",
        "Changes the number of buckets of partitions.",
        (
            TABLE,
            Argument("bucket_num", "the new number; required for postpone tables", "int", default="bucket"),
            PARTITIONS,
            WHERE,
            Argument("partition", "as `partitions`", engine="flink"),
            Argument(
                "scan_parallelism", "accepted, without effect: work is distributed by bucket", "int", engine="flink"
            ),
            Argument(
                "sink_parallelism", "accepted, without effect: work is distributed by bucket", "int", engine="flink"
            ),
        ),
        rescale,
        check=check_rescale,
        flink=("table", "bucket_num", "partition", "scan_parallelism", "sink_parallelism"),
    ),
    Procedure(
        "advise_buckets",
        "Lists what every partition holds and how many buckets it should have, largest first.",
        (TABLE,),
        advise,
        f"{_ADVICE}, recommended int, reason string",
        engines="",
    ),
)
