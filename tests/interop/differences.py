"""What differs between what two engines say of a table: rows, cells of system tables."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

PLACE = ("file_path", "file_name", "snapshot_id", "schema_id", "partition", "bucket", "tag_name", "key", "level")
BYTES_OBJECT = re.compile(r"\[B@[0-9a-f]+")  # what Paimon shows of bytes among statistics


def different(left: Any, right: Any) -> str:
    """What is in one only."""
    if isinstance(left, str) or isinstance(right, str):
        return f"{left if isinstance(left, str) else len(left)} | {right if isinstance(right, str) else len(right)}"
    first, second = Counter(left), Counter(right)
    return f"first only {list((first - second).elements())[:3]}, second only {list((second - first).elements())[:3]}"


def differing(names: Sequence[str], ours: Sequence[Sequence[Any]], theirs: Sequence[Sequence[Any]]) -> list[str]:
    """Cells of a system table that are not alike: column, ours, theirs."""
    if len(ours) != len(theirs):
        return [f"{len(ours)} rows | {len(theirs)}"]
    keys = [at for at, name in enumerate(names) if name in PLACE] or [0]
    shown = [
        sorted(
            ([_shown(*cell) for cell in zip(names, row, strict=True)] for row in side),
            key=lambda row: repr([row[at] for at in keys]),
        )
        for side in (ours, theirs)
    ]
    return [
        f"{name}: {mine} | {other}"
        for left, right in zip(*shown, strict=True)
        for name, mine, other in zip(names, left, right, strict=True)
        if mine != other and not _hidden(mine, other)
    ][:5]


def _shown(column: str, value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return None if column in ("creation_time", "create_time", "last_update_time") else value.replace(tzinfo=None)
    if isinstance(value, str) and column.endswith("path"):
        return value.removeprefix("file:")
    if isinstance(value, dict):
        return [_shown("", item) for item in value.values()]
    if isinstance(value, (list, tuple)):
        return [_shown("", item) for item in value]
    return value


def _hidden(ours: Any, theirs: Any) -> bool:
    """Whether theirs is the same text but for bytes, of which Paimon shows where they lay in memory."""
    if not isinstance(ours, str) or not isinstance(theirs, str) or not BYTES_OBJECT.search(theirs):
        return False
    return bool(re.fullmatch("[0-9A-F]*".join(map(re.escape, BYTES_OBJECT.split(theirs))), ours))
