"""How tables of each kind change rows, in words: what EXPLAIN of a change says before Spark's plan.

Spec: docs/spec/row_changes.md#explain
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bucketlake.ops.change.row_changes import deletes_by_rewrite
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.schema.schema import TableSchema

_ANEW = "files that hold such rows are written anew"
_MARKED = "rows are marked in deletion vectors"


@dataclass(frozen=True, slots=True)
class Explained:
    """What EXPLAIN says of a change to a table: `told`, how rows change; `query`, the one that finds or brings them,
    None where no row is looked at."""

    table: str
    told: str
    query: str | None


def deleted(schema: TableSchema) -> str:
    """How rows go."""
    if schema.primary_keys and not deletes_by_rewrite(schema):
        return "a row of kind -D is written for each"
    return _MARKED if _has_vectors(schema) else _ANEW


def updated(schema: TableSchema, columns: Sequence[str]) -> str:
    """How rows get new values in columns."""
    if schema.primary_keys:
        return "each is written with its new values, of kind +U"
    if schema.data_evolution:
        return f"{', '.join(columns)} alone are written, beside the files that hold the other columns"
    return f"{_MARKED}, and written with their new values" if _has_vectors(schema) else _ANEW


def _has_vectors(schema: TableSchema) -> bool:
    return schema.data_evolution or bool(schema.table_options.get("deletion-vectors.enabled"))
