"""What a table's handles offer to streams: rows looked up by key.

The same methods stand on a table without Spark and on one of a lake, which looks the rows of DataFrames up, too.

Spec: docs/streaming.md#look-up-rows
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bucketlake.errors import InvalidError
from bucketlake.health import Health
from bucketlake.lazy import lazy, pa
from bucketlake.ops.table.retry import on_newest
from bucketlake.ops.table.store import Store
from bucketlake.schema.validation import refuse_undelivered

if TYPE_CHECKING:
    from bucketlake.ops.lookup import lookup as lookups
    from bucketlake.ops.lookup import request as requests
    from bucketlake.ops.lookup.request import LookupRequest, On
    from bucketlake.ops.rows import given as given_rows
else:
    lookups = lazy("bucketlake.ops.lookup.lookup")
    requests = lazy("bucketlake.ops.lookup.request")
    given_rows = lazy("bucketlake.ops.rows.given")

OWN = ("scan", "prefix", "cache_bytes")


class Streams(Health):
    """Methods of a handle on a table that streams use."""

    def lookup(
        self,
        rows: Any,
        on: On = None,
        columns: Sequence[str] | None = None,
        how: str = "left",
        **options: Any,
    ) -> pa.Table:
        """Rows with the table's columns behind their own, by its primary key as of the newest snapshot: many at once.

        `rows`: Arrow data, a DataFrame of pandas, columns or rows in Python. `on`: the key columns, or a mapping from
        the rows' columns to them; the key under its own names by default. `columns`: of the table, all others by
        default; `prefix`: in front of their names. `how`: "left", rows without a match have nulls, or "inner". A key
        with nulls matches nothing. `scan=True`: by other columns, or part of the key; a row may match several.
        `cache_bytes`: the most that decoded rows take in this process (256 MiB). `options`: `scan.*` and others.
        Errors: InvalidError.
        Spec: docs/streaming.md#look-up-rows
        """
        store, request = self._asks(on, columns, how, options)
        data = given_rows.arrow_input(rows)
        given = data if isinstance(data, pa.Table) else _table(data)
        return on_newest(store, lambda: lookups.lookup_of(store, request).find(given))

    def _asks(
        self, on: On, columns: Sequence[str] | None, how: str, options: dict[str, Any]
    ) -> tuple[Store, LookupRequest]:
        """What a lookup is in, and about."""
        own = {name: options.pop(name) for name in OWN if name in options}
        handle: Any = self.with_options(options) if options else self
        store: Store = handle._looked_up()
        refuse_undelivered(store.schema, for_writing=False)
        return store, requests.LookupRequest.of(store.schema, on, columns, how, **own)

    def _looked_up(self) -> Store:
        if getattr(getattr(self, "table", self), "view", None) is not None:
            raise InvalidError("a system table has no lookup", table=self._called(), remedy="look the table itself up")
        return self._history()


def _table(data: Any) -> pa.Table:
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    parts = []
    for part in data:
        if not isinstance(part, (pa.Table, pa.RecordBatch)):
            remedy = "give an Arrow table, a data frame, a dict of columns or a list of dicts"
            raise InvalidError("not rows to look up", type=type(part).__name__, remedy=remedy)
        parts.append(part if isinstance(part, pa.Table) else pa.Table.from_batches([part]))
    if not parts:
        raise InvalidError("no rows, and so no columns, to look up", remedy="give an Arrow table")
    return pa.concat_tables(parts)
