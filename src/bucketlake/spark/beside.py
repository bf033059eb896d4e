"""What a statement that changes rows looks at beside these rows.

Spec: docs/spec/row_changes.md#concurrent-writers
"""

from __future__ import annotations

from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.table.known import check_read_once
from bucketlake.ops.table.store import Store
from bucketlake.values import dataclass


@dataclass(frozen=True, slots=True)
class Beside:
    """`extra`: metadata columns; `subqueries`: there are any, so that which rows it means hangs on more than these
    rows; `own`: they may read the table that is changed; `columns`: of the rows, that may be looked at (None: all)."""

    extra: tuple[str, ...] = ()
    subqueries: bool = False
    own: bool = False
    columns: frozenset[str] | None = None

    def check(self, store: Store, base: Snapshot | None) -> None:
        """ConflictError where subqueries may have read another snapshot than this one, in which rows are looked for, or
        other columns."""
        if self.own:
            check_read_once(store, base, "a subquery read the table")


NOTHING = Beside()
