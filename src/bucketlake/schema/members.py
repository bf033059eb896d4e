"""Columns and members of ROW columns, found and changed by their paths.

Spec: docs/spec/schema.md#evolution
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from bucketlake.errors import NotFoundError, did_you_mean
from bucketlake.types.model import DataField, DataType, Root


def place_of(members: Sequence[DataField], name: str, table: str) -> int:
    """Where a column or member of this name is. Raises NotFoundError with the nearest names."""
    for i, item in enumerate(members):
        if item.name == name:
            return i
    names = [item.name for item in members]
    raise NotFoundError("no such column", column=name, table=table, columns=names, remedy=did_you_mean(name, names))


def change_members(
    members: list[DataField], path: tuple[str, ...], change: Callable[[list[DataField]], None], table: str
) -> None:
    """Change, in place, the list that the last name of the path is of. Raises NotFoundError."""
    if len(path) == 1:
        change(members)
        return
    at = place_of(members, path[0], table)
    members[at] = replace(members[at], type=_change_row(members[at].type, path[1:], change, table))


def _change_row(t: DataType, path: tuple[str, ...], change: Callable[[list[DataField]], None], table: str) -> DataType:
    """The type with the ROW inside changed; `element` and `value` in the path step into ARRAY and MAP."""
    if t.root is Root.ROW:
        inner = list(t.fields)
        change_members(inner, path, change, table)
        return replace(t, fields=tuple(inner))
    step = {Root.ARRAY: "element", Root.MAP: "value"}.get(t.root)
    if t.element is None or path[0] != step or len(path) == 1:
        raise NotFoundError("no such column", column=".".join(path), table=table)
    return replace(t, element=_change_row(t.element, path[1:], change, table))


def inner_depth(fields: Sequence[DataField], path: tuple[str, ...]) -> int:
    """How many trailing names of the path step into ARRAY elements and MAP values rather than name a member."""
    depth, members = 0, {item.name: item.type for item in fields}
    current: DataType | None = None
    for name in path:
        if current is None or current.root is Root.ROW:
            members = members if current is None else {item.name: item.type for item in current.fields}
            current, depth = members.get(name), 0
        elif current.element is not None:
            current, depth = current.element, depth + 1
        if current is None:
            return 0
    return depth


def change_inner(t: DataType, depth: int, change: Callable[[DataType], DataType]) -> DataType:
    """The type with what lies so many ARRAY elements and MAP values deep changed."""
    if depth == 0 or t.element is None:
        return change(t)
    return replace(t, element=change_inner(t.element, depth - 1, change))
