"""`sys.max_pt('t')`: the greatest value of a table's first partition column, among partitions that have data.

A call is replaced by its value before the statement is read any further, so that it prunes like a literal.

Spec: docs/sql/system-tables.md#max_pt
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from bucketlake.errors import InvalidError
from bucketlake.lazy import pc
from bucketlake.ops.scan.fallback import shown_branches
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.scan.select import Selection
from bucketlake.ops.system.texts import cast_texts
from bucketlake.ops.table.partitions import partition_columns
from bucketlake.ops.table.retry import on_newest
from bucketlake.ops.table.store import Store
from bucketlake.sql.query.sys_functions import called
from bucketlake.sql.text import names
from bucketlake.sql.text.tokens import Token, tokenize
from bucketlake.types.model import Root

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake

NAME = "max_pt"


def pieces(lake: Lake, statement: str) -> list[tuple[int, int, str]]:
    """The calls of a statement with what to write in their place: their values, strings. InvalidError for calls that
    have none."""
    if NAME not in statement.lower():
        return []
    tokens = tokenize(statement)
    found = []
    for at in range(len(tokens)):
        first = _first(lake, tokens, at)
        if first is not None:
            table, end = _argument(tokens, at)
            found.append((tokens[first].start, tokens[end].end, literal(max_partition(lake, table))))
    return found


def _first(lake: Lake, tokens: list[Token], at: int) -> int | None:
    """Where a call's name begins if this token ends it: `[catalog.]sys.max_pt(`, or `max_pt(` where Spark has none."""
    call = called(lake, tokens, at, NAME)
    if call is None or (not call[1] and lake.spark.catalog.functionExists(NAME)):
        return None
    return call[0]


def _argument(tokens: list[Token], at: int) -> tuple[str, int]:
    """The table's name in a call, and where the call ends."""
    inner = tokens[at + 2 : at + 4]
    if len(inner) < 2 or inner[0].kind != "string" or inner[1].value != ")":
        raise InvalidError("max_pt takes one argument: Table name must be a literal", remedy="write sys.max_pt('db.t')")
    return inner[0].value, at + 3


def max_partition(lake: Lake, text: str) -> str:
    """The greatest value of the first partition column, as text; nulls do not count."""
    name = names.target(lake, names.parts_of(text))
    store = lake.table(name.full).table.store
    if not store.schema.partition_keys:
        raise InvalidError(f"{name.full} is not a partitioned table", table=name.full)
    found = on_newest(store, lambda: _greatest(store))
    if found is None:
        raise InvalidError(f"{name.full} has no partitions or none of the partitions have any data", table=name.full)
    return found


def _greatest(store: Store) -> str | None:
    shown = shown_branches(store, Selection(store.latest_snapshot()))
    entries = [entry for branch, snapshot, _ in shown for entry in live_entries(branch, snapshot)]
    partitions = list(dict.fromkeys(entry.partition for entry in entries))
    if not partitions:
        return None
    values = partition_columns(store, partitions)[0].drop_null()
    if not len(values):
        return None
    kind = store.schema.partition_fields[0].type
    order = values.cast(pa.binary()) if kind.root in (Root.CHAR, Root.VARCHAR) else values
    greatest = values.take(pc.sort_indices(order, sort_keys=[("", "descending")])[:1])
    found = str(cast_texts(greatest, kind)[0].as_py())
    if kind.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ) and "." in found:
        return found.rstrip("0").rstrip(".")
    return found


def literal(text: str) -> str:
    """A string literal that means this text whatever the session says of escapes."""
    if "'" not in text and "\\" not in text and "\n" not in text and "\r" not in text:
        return f"'{text}'"
    return f"CAST(X'{text.encode().hex().upper()}' AS STRING)"
