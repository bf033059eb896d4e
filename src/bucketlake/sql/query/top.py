"""`SELECT columns FROM t ORDER BY c LIMIT n`: rows that statistics show to lie behind the first n are left out.

Where n rows are certain to have values up to some bound, no row beyond it is among the first n, whatever stands behind
`c` in ORDER BY. So the bound becomes a condition of the plan. Nulls are always kept.

Spec: docs/spec/pushdown.md#first-rows
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.metadata.stats import decode_stats_columns
from bucketlake.lazy import pc
from bucketlake.predicate.tree import Compare, IsNull, Or, Predicate
from bucketlake.sql.query.parser import Source
from bucketlake.sql.query.pushdown import Proof
from bucketlake.types.model import DataField, Root
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.ops.scan.scan import Plan
    from bucketlake.ops.table.store import Store

WORTH_ROWS = 100_000  # of a table: of fewer a plan costs more than it saves
MOST_ROWS = 10_000  # of a LIMIT: more are rarely in few files
LEAST_FILES = 2
# Types whose values Spark and statistics order alike, and whose bounds are values or beyond them.
_ORDERED = {Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.DATE, Root.DECIMAL, Root.TIMESTAMP}
_MICROSECONDS = 6


@dataclass(frozen=True, slots=True)
class Top:
    """The first `rows` rows of a table are wanted by one of its columns, the least or (`falling`) greatest first."""

    field: DataField
    falling: bool
    rows: int


def top(proved: Proof, source: Source) -> Top | None:
    """What a statement wants of a table, if it is the first rows and no more. `source`: as for `Proof.limit`."""
    ordered = proved.ordered(source)
    if ordered is None:
        return None
    field, falling, rows = ordered
    precise = field.type.root is Root.TIMESTAMP and (field.type.precision or 0) > _MICROSECONDS
    if field.type.root not in _ORDERED or precise or not 0 < rows <= MOST_ROWS:
        return None
    return Top(field, falling, rows)


def bounded(store: Store, plan: Plan, wanted: Top) -> Predicate | None:
    """A condition that all rows meet which may be among the first; None where statistics do not tell."""
    forgiving = any(store.options.get(f"scan.ignore-{which}-files") for which in ("lost", "corrupt"))
    if plan.beside or forgiving or wanted.field.name in store.schema.partition_keys:
        return None
    parts = [part for part in (_values(store, group, wanted) for group in _groups(store, plan)) if part is not None]
    if sum(len(values) for values, _ in parts) < LEAST_FILES:
        return None
    values, rows = pa.concat_arrays([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    order = pc.sort_indices(values, sort_keys=[("", "descending" if wanted.falling else "ascending")])
    reached = np.cumsum(rows[order.to_numpy()])
    place = int(np.searchsorted(reached, wanted.rows))
    if place == len(reached):
        return None
    bound = values[order[place].as_py()].as_py()
    return Or((Compare(wanted.field.name, ">=" if wanted.falling else "<=", bound), IsNull(wanted.field.name)))


def _groups(store: Store, plan: Plan) -> Iterator[list[tuple[DataFile, int]]]:
    """Files whose rows count as they are, each with the rows that are deleted of it; those of one layout together."""
    keyed = bool(store.schema.primary_keys)
    found: dict[Any, list[tuple[DataFile, int]]] = {}
    for split in plan.splits:
        if not split.raw or split.before is not None or split.changes or split.parts or split.bucket < 0:
            continue
        for file in split.files:
            deletions = split.deletions.get(file.file_name)
            gone = 0 if deletions is None else deletions.range.cardinality
            if gone is not None and not (keyed and file.delete_row_count != 0):
                found.setdefault((file.schema_id, file.stats_columns), []).append((file, gone))
    yield from found.values()


def _values(store: Store, group: list[tuple[DataFile, int]], wanted: Top) -> tuple[pa.Array, Any] | None:
    """Of each file the value up to which its rows reach, and how many rows of it have one at least."""
    first = group[0][0]
    schema = store.schema_of(first.schema_id)
    fields = schema.stats_fields(first.stats_columns)
    at = next((place for place, item in enumerate(fields) if item.id == wanted.field.id), None)
    if at is None or fields[at].type.with_nullable(True) != wanted.field.type.with_nullable(True):
        return None
    stats = [file.value_stats for file, _ in group]
    if any(int.from_bytes(row[:4], "big") != len(fields) for s in stats for row in (s.min_values, s.max_values)):
        return None
    column = decode_stats_columns(stats, [item.type for item in fields], [at])[0]
    rows = np.array([file.row_count - gone for file, gone in group], np.int64)
    bounds = column.mins if wanted.falling else column.maxs
    told = pc.and_(bounds.is_valid(), column.null_counts.is_valid())
    counts = np.maximum(rows - pc.fill_null(column.null_counts, 0).to_numpy(zero_copy_only=False), 0)
    return bounds.filter(told), counts[told.to_numpy(zero_copy_only=False)]
