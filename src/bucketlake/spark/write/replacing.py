"""What an overwrite replaces: the condition of `replaceWhere` or REPLACE WHERE, as the partition that it names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.predicate.parse import parse_where
from bucketlake.predicate.tree import And, Compare, Constant, Predicate, is_exact
from bucketlake.table import Table
from bucketlake.types.model import DataField, Root

DYNAMIC_OVERWRITE = "dynamic-partition-overwrite"  # the option: just the partitions that rows are in


def replaced_partition(condition: str, table: Table) -> dict[str, Any] | None:
    """The values of partition columns to which the condition pins what is replaced, None for all rows (`true`).

    Errors: UnsupportedError for conditions other than partition columns equal to constants, each once; InvalidError for
    unknown columns and text that is no condition.
    """
    found = parse_where(condition, [_as_written(item) for item in table.schema.fields])
    if found == Constant(True):
        return None
    partition: dict[str, Any] = {}
    for part in found.children if isinstance(found, And) else (found,):
        compare = _equality(part, condition)
        if compare.column not in table.schema.partition_keys:
            raise UnsupportedError(
                "Only support Overwrite filters on partition column "
                f"{', '.join(table.schema.partition_keys)}, but got a filter on {compare.column}",
                condition=condition,
                remedy="DELETE the rows, then INSERT",
            )
        if compare.column in partition:
            raise UnsupportedError(
                "Only support Overwrite with one filter for each partition column",
                condition=condition,
                remedy="name each column once",
            )
        partition[compare.column] = compare.literal
    return partition


def _as_written(item: DataField) -> DataField:
    """A column of which a text names one value: CHAR, too."""
    return replace(item, type=replace(item.type, root=Root.VARCHAR)) if item.type.root is Root.CHAR else item


def _equality(part: Predicate, condition: str) -> Compare:
    if not is_exact(part):
        raise UnsupportedError(
            "Table does not support overwrite by expression", condition=condition, remedy="compare with constants"
        )
    if not isinstance(part, Compare) or part.op not in ("=", "<=>"):
        raise UnsupportedError(
            "Only support Overwrite filters with Equal and EqualNullSafe",
            condition=condition,
            remedy="name a partition by column = value",
        )
    if part.literal is None:
        raise InvalidError("a column equals no NULL", condition=condition)
    return part
