"""Rows of a table as the page shows them: few, as texts, cut where they are long.

sample(table, snapshot, limit) -> dict
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from bucketlake.report.history import cut
from bucketlake.table import Table
from bucketlake.values import dataclass

MOST_ROWS = 500
MOST_COLUMNS = 100
CELL = 200  # characters
NUMBERS = ("int", "uint", "float", "double", "halffloat", "decimal")


@dataclass(frozen=True, slots=True)
class Seen:
    """A few rows. `numeric`: which columns hold numbers; `more`: there are other rows."""

    columns: list[str]
    numeric: list[bool]
    rows: list[list[str | None]]
    more: bool
    left_out_columns: int

    @classmethod
    def of(cls, table: pa.Table, limit: int) -> Seen:
        """The first rows of what was read, one more than the limit where there are more."""
        names = table.column_names[:MOST_COLUMNS]
        shown = table.select(range(len(names))).slice(0, limit)
        columns = [[text_of(value) for value in column.to_pylist()] for column in shown.columns]
        return cls(
            [cut(name) for name in names],
            [str(column.type).startswith(NUMBERS) for column in shown.columns],
            [list(row) for row in zip(*columns, strict=True)],
            table.num_rows > limit,
            table.num_columns - len(names),
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        return {
            "columns": self.columns,
            "numeric": self.numeric,
            "rows": self.rows,
            "more": self.more,
            "left_out_columns": self.left_out_columns,
        }


def text_of(value: Any) -> str | None:
    """A value as text; None for null. Bytes are hexadecimal digits, nested values as JSON writes them."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return _hex(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, dict)):
        return cut(json.dumps(_plain(value), ensure_ascii=False), CELL)
    return cut(value if isinstance(value, str) else str(value), CELL)


def _hex(value: bytes) -> str:
    shown = value[: CELL // 4].hex()
    return f"0x{shown}" if len(value) <= CELL // 4 else f"0x{shown}… ({len(value):,} bytes)"


def _plain(value: Any) -> Any:
    """As JSON takes it: of long ones the beginning, maps by their keys."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in list(value.items())[:CELL]}
    if isinstance(value, list):
        if value and all(isinstance(one, tuple) for one in value):  # a map, as Arrow gives it
            return {str(key): _plain(one) for key, one in value[:CELL]}
        return [_plain(one) for one in value[:CELL]]
    return value if value is None or isinstance(value, (bool, int, float)) else text_of(value)


def sample(table: Table, snapshot: int | None, limit: int) -> dict[str, Any]:
    """Some rows, as of a snapshot or the newest, in no particular order. Errors: those of reading."""
    options = {} if snapshot is None else {"scan.snapshot-id": str(snapshot)}
    read, selection = table.as_of(options)
    found = read.to_arrow(limit=limit + 1, columns=list(read.schema.field_names[:MOST_COLUMNS]))
    shown = selection.snapshot.id if selection.snapshot is not None else None
    left_out = len(read.schema.fields) - found.num_columns
    return {"snapshot": shown, **Seen.of(found, limit).to_dict(), "left_out_columns": left_out}
