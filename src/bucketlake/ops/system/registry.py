"""The system tables over a table's metadata, by the name behind `$`."""

from __future__ import annotations

from difflib import get_close_matches

from bucketlake.errors import InvalidError, NotFoundError
from bucketlake.ops.scan.system_tables import ROW_VIEWS
from bucketlake.ops.system import files, history, summaries
from bucketlake.ops.system.model import SystemTable
from bucketlake.ops.table.store import Store

SYSTEM_TABLES: dict[str, SystemTable] = {
    table.name: table
    for table in (
        history.SNAPSHOTS,
        history.SCHEMAS,
        history.OPTIONS,
        files.FILES,
        files.KEY_RANGES,
        files.FILE_INDEXES,
        summaries.MANIFESTS,
        summaries.PARTITIONS,
        summaries.BUCKETS,
        history.TAGS,
        history.BRANCHES,
        history.CONSUMERS,
        history.STATISTICS,
        history.AGGREGATIONS,
        summaries.TABLE_INDEXES,
    )
}
NAMES = (*ROW_VIEWS, *SYSTEM_TABLES)


def system_table(name: str, table: str) -> SystemTable | None:
    """The system table of this name, None for one over rows (and the table itself). `table`: its full name, for errors.

    Raises: NotFoundError with the nearest name.
    """
    wanted = name.lower()
    if wanted in ROW_VIEWS:
        return None
    found = SYSTEM_TABLES.get(wanted)
    if found is None:
        near = get_close_matches(wanted, NAMES, 1)
        remedy = f"did you mean '${near[0]}'?" if near else f"choose from {sorted(NAMES)}"
        raise NotFoundError("no such system table", table=table, name=name, remedy=remedy)
    return found


def check_row_tracking(store: Store, table: str) -> None:
    """InvalidError for `t$row_tracking` of a table without the feature."""
    if not store.schema.tracks_rows:
        raise InvalidError(
            f"Table {table.partition('$')[0]} does not support row tracking, please enable 'row-tracking.enabled' "
            "option to use 'with_metadata' table.",
            table=table,
        )
