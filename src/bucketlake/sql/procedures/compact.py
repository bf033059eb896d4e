"""CALL sys.compact.

Spec: docs/sql/procedures.md#compact
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bucketlake.errors import InvalidError
from bucketlake.ops.scan.partition_choice import parse_specs
from bucketlake.options.options import parse_duration
from bucketlake.sql.procedures.arguments import check_choice, flag, parse_options, table_of
from bucketlake.sql.procedures.registry import (
    DONE,
    OPTIONS,
    PARTITIONS,
    TABLE,
    WHERE,
    Argument,
    Arguments,
    Procedure,
    Rows,
)

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake


def _check_compact(given: Arguments) -> None:
    strategy, order = given.get("compact_strategy", "full").lower(), given.get("order_strategy", "none").lower()
    if strategy not in ("full", "minor"):
        raise InvalidError(f"The compact strategy only supports 'full' or 'minor', but '{strategy}' is configured.")
    if order == "none" and "order_by" in given:
        raise InvalidError('order_strategy "none" cannot work with order_by columns.')
    if order != "none" and "partition_idle_time" in given:
        raise InvalidError("sort compact do not support 'partition_idle_time'.")
    if "partitions" in given and "where" in given:
        raise InvalidError("partitions and where cannot be used together.")
    if "partition_idle_time" in given:
        parse_duration(given["partition_idle_time"])
    parse_options(given.get("options", ""))
    if order != "none" and "buckets" in given:
        raise InvalidError("Specifying buckets is not supported for sort compact.", buckets=given["buckets"])


def _compact(lake: Lake, given: Arguments) -> Rows:
    strategy = given.get("compact_strategy")
    table_of(lake, given).with_options(parse_options(given.get("options", ""))).compact(
        partitions=given.get("partitions"),
        where=given.get("where"),
        full=None if strategy is None else strategy.lower() == "full",
        idle=given.get("partition_idle_time"),
        buckets=given.get("buckets"),
        order_by=given.get("order_by"),
        order_strategy=given.get("order_strategy", "none"),
    )
    return DONE


def _check_choice(given: Arguments) -> None:
    check_choice(given)
    parse_options(given.get("options", ""))


def _check_chain(given: Arguments) -> None:
    flag(given, "overwrite")
    specs = parse_specs(given["partition"])
    if len(specs) > 1:
        raise InvalidError(
            "compact_chain_table only supports a single partition, but multiple partitions were provided: "
            f"{given['partition']}"
        )


def _compact_chain(lake: Lake, given: Arguments) -> Rows:
    (partition,) = parse_specs(given["partition"])
    done = table_of(lake, given).compact_chain(partition, flag(given, "overwrite"))
    return [(done is not None,)]


def _materialize(lake: Lake, given: Arguments) -> Rows:
    table = table_of(lake, given).with_options(parse_options(given.get("options", "")))
    table.materialize_deletion_vectors(given.get("partitions"), given.get("where"))
    return DONE


def _check_specs(given: Arguments) -> None:
    if "partitions" in given:
        parse_specs(given["partitions"])


def _reassign(lake: Lake, given: Arguments) -> Rows:
    table = table_of(lake, given)
    done = table.reassign_row_ids(parse_specs(given["partitions"]) if "partitions" in given else None)
    if done.snapshot is None:
        return [
            (
                f"Skipped. Row IDs for table '{table.name}' were not reassigned because {done.reason}: "
                f"snapshot {done.previous} unchanged, nextRowId={done.next}.",
            )
        ]
    return [
        (
            f"Success. Reassigned row IDs for table '{table.name}': snapshot {done.previous} -> {done.snapshot}, "
            f"nextRowId {done.first} -> {done.next}, files={done.files}, rows={done.rows}, indexFiles=0.",
        )
    ]


PROCEDURES = (
    Procedure(
        "reassign_row_id",
        "Gives the rows of each partition consecutive ids, in a table with `data-evolution.enabled`.",
        (TABLE, PARTITIONS),
        _reassign,
        "result string",
        _check_specs,
    ),
    Procedure(
        "compact_chain_table",
        "Writes a partition of a chain table, merged, into its snapshot branch. False where there is nothing to do.",
        (
            TABLE,
            Argument("partition", "one spec, of all or some partition columns: `dt=20250811`", required=True),
            Argument("overwrite", "replace the partition where it is there", "boolean", default="false"),
        ),
        _compact_chain,
        check=_check_chain,
    ),
    Procedure(
        "materialize_deletion_vectors",
        "Removes deleted rows from the files of a table with `data-evolution.enabled`; rows beside them get new ids.",
        (TABLE, PARTITIONS, OPTIONS, WHERE),
        _materialize,
        check=_check_choice,
    ),
    Procedure(
        "compact",
        "Merges each bucket's sorted runs of a primary-key table, or small files of an append table.",
        (
            TABLE,
            PARTITIONS,
            Argument(
                "compact_strategy",
                "`full`: all files; `minor`: what the table's policy picks; by default `full`, and `minor` with "
                "`clustering.incremental`",
            ),
            Argument("order_strategy", "rows of append tables in `order`, `zorder` or `hilbert`", default="none"),
            Argument("order_by", "columns of the order, separated by commas"),
            WHERE,
            OPTIONS,
            Argument("partition_idle_time", "only partitions that got no file for so long, such as `1 d`"),
            Argument("buckets", "only these buckets, of a table with a fixed number: `0-3,7`"),
        ),
        _compact,
        check=_check_compact,
        flink=(
            *("table", "partitions", "order_strategy", "order_by", "options", "where", "partition_idle_time"),
            "compact_strategy",
        ),
    ),
)
