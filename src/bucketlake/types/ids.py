"""Field ids: every column and ROW member of a table has its own, for good.

Spec: docs/spec/types.md#field-ids
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bucketlake.types.model import DataField, DataType


def with_fresh_ids(fields: Sequence[DataField], start: int = 0) -> tuple[tuple[DataField, ...], int]:
    """The same columns with new ids counted from `start`, each before its nested ones, and the highest id given.

    Spec: docs/spec/types.md#field-ids
    """
    ids = _Counter(start)
    return tuple(_renumbered(item, ids) for item in fields), ids.next - 1


class _Counter:
    def __init__(self, start: int) -> None:
        self.next = start

    def take(self) -> int:
        self.next += 1
        return self.next - 1


def highest_id(fields: Sequence[DataField]) -> int:
    """The highest id that columns have, nested ones included; -1 where there are none."""
    return max((max(item.id, _highest_inside(item.type)) for item in fields), default=-1)


def _highest_inside(t: DataType) -> int:
    inner = [_highest_inside(part) for part in (t.key, t.element) if part is not None]
    return max([highest_id(t.fields or ()), *inner])


def _renumbered(item: DataField, ids: _Counter) -> DataField:
    number = ids.take()
    return replace(item, id=number, type=_renumbered_type(item.type, ids))


def _renumbered_type(t: DataType, ids: _Counter) -> DataType:
    if t.key is not None:
        t = replace(t, key=_renumbered_type(t.key, ids))
    if t.element is not None:
        t = replace(t, element=_renumbered_type(t.element, ids))
    if t.fields:
        # Paimon numbers a member after the members inside it.
        members = []
        for item in t.fields:
            inner = _renumbered_type(item.type, ids)
            members.append(replace(item, type=inner, id=ids.take()))
        t = replace(t, fields=tuple(members))
    return t
