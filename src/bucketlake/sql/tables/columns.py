"""Which column of a schema a statement's name means: its own spelling, whatever case the statement has it in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bucketlake.errors import InvalidError, NotFoundError, did_you_mean
from bucketlake.schema.schema import TableSchema
from bucketlake.types.model import DataField, DataType, Root

Sensitive = Callable[[], bool]  # asks the session whether names differ by case, only where it matters


def _never() -> bool:
    return False


def spelled(schema: TableSchema, path: Sequence[str], sensitive: Sensitive = _never) -> tuple[str, ...]:
    """The path as the schema spells it; `element`, `key` and `value` step into ARRAY and MAP.

    Errors: NotFoundError suggests the nearest name, InvalidError for a name that means several columns.
    """
    members: dict[str, DataType] = {item.name: item.type for item in schema.fields}
    found: list[str] = []
    for step in path:
        own = _member(members, step, sensitive, path)
        found.append(own)
        members = _inside(members[own])
    return tuple(found)


def has_column(schema: TableSchema, path: str | Sequence[str], sensitive: Sensitive = _never) -> bool:
    """Whether the path means a column."""
    try:
        spelled(schema, (path,) if isinstance(path, str) else path, sensitive)
    except NotFoundError:
        return False
    return True


def refuse_alike(fields: Sequence[DataField], path: tuple[str, ...] = ()) -> None:
    """InvalidError for columns, or members of rows, whose names differ in case alone: a session that reads names
    without it could not ask for any of them."""
    taken: dict[str, str] = {}
    for item in fields:
        other = taken.setdefault(item.name.lower(), item.name)
        if other != item.name:
            raise InvalidError(
                f"[COLUMN_ALREADY_EXISTS] The column `{'.'.join((*path, item.name.lower()))}` already exists",
                columns=[other, item.name],
                remedy="choose another name: SET spark.sql.caseSensitive = true tells them apart",
            )
        _refuse_alike_within(item.type, (*path, item.name))


def _refuse_alike_within(kind: DataType, path: tuple[str, ...]) -> None:
    refuse_alike(kind.fields, path)
    for part in (kind.key, kind.element):
        if part is not None:
            _refuse_alike_within(part, path)


def _member(members: dict[str, DataType], step: str, sensitive: Sensitive, path: Sequence[str]) -> str:
    if step in members:
        return step
    alike = [name for name in members if name.lower() == step.lower()]
    if alike and sensitive():
        alike = []
    if len(alike) > 1:
        raise InvalidError("a name means several columns", column=".".join(path), columns=alike)
    if alike:
        return alike[0]
    remedy = did_you_mean(step, members)
    raise NotFoundError("no such column", column=".".join(path), columns=list(members), remedy=remedy)


def _inside(kind: DataType) -> dict[str, DataType]:
    if kind.root is Root.ROW:
        return {item.name: item.type for item in kind.fields}
    if kind.root is Root.ARRAY and kind.element is not None:
        return {"element": kind.element}
    if kind.root is Root.MAP and kind.element is not None and kind.key is not None:
        return {"key": kind.key, "value": kind.element}
    return {}
