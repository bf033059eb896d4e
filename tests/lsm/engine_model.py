"""The merge engines in plain Python, a row at a time: what becomes of a key's rows, oldest first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = 0, 1, 2, 3
Values = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """A row of one key: kind and values by column."""

    kind: int
    values: Values

    @property
    def retracts(self) -> bool:
        return self.kind in (UPDATE_BEFORE, DELETE)


class Refused(Exception):
    """The engine does not take these rows."""


@dataclass
class Fold:
    """One column's aggregate: what it holds is kept outside; `begun` is whether it ever took a value."""

    name: str
    begun: bool = False

    def add(self, held: Any, value: Any) -> Any:
        if self.name == "last_value":
            return value
        if self.name == "last_non_null_value":
            return held if value is None else value
        if self.name == "first_value":
            took, self.begun = self.begun, True
            return held if took else value
        if self.name == "first_non_null_value":
            if self.begun or value is None:
                return held
            self.begun = True
            return value
        if held is None or value is None:
            return value if held is None else held
        return held + value if self.name == "sum" else max(held, value)

    def add_late(self, held: Any, value: Any) -> Any:
        return self.add(value, held)

    def retract(self, held: Any, value: Any) -> Any:
        if self.name == "sum":
            if value is None:
                return held
            return -value if held is None else held - value
        if self.name == "last_value":
            return None
        if self.name == "last_non_null_value":
            return held if value is None else None
        raise Refused(self.name)


RETRACTING = ("sum", "last_value", "last_non_null_value")


def fold(rows: Sequence[Row], engine: Callable[[Sequence[Row]], Row | None]) -> Row | None:
    """One merge: a row alone stays as it is."""
    return rows[0] if len(rows) == 1 else engine(rows)


def deduplicate(rows: Sequence[Row], ignore_delete: bool = False) -> Row | None:
    return next((row for row in reversed(rows) if not (ignore_delete and row.retracts)), None)


def first_row(rows: Sequence[Row], ignore_delete: bool = False) -> Row | None:
    if not ignore_delete and any(row.retracts for row in rows):
        raise Refused("delete")
    return next((row for row in rows if not row.retracts), None)


def aggregation(rows: Sequence[Row], functions: Mapping[str, str], removes: bool = False) -> Row:
    folds = {name: Fold(function) for name, function in functions.items()}
    held: Values = dict.fromkeys(rows[0].values)
    removed = False
    for row in rows:
        removed = removes and row.kind == DELETE
        if removed:
            held = dict(row.values)
            continue
        for name, value in row.values.items():
            if name not in folds:
                held[name] = value
            else:
                step = folds[name].retract if row.retracts else folds[name].add
                held[name] = step(held[name], value)
    return Row(DELETE if removed else INSERT, held)


@dataclass(frozen=True)
class Group:
    fields: tuple[str, ...]
    columns: tuple[str, ...]
    removes: bool = False


@dataclass(frozen=True)
class Partial:
    """The partial-update engine with its options."""

    groups: Sequence[Group] = ()
    functions: Mapping[str, str] = field(default_factory=dict)
    ignores: bool = False
    removes: bool = False
    key: str = "k"

    def __call__(self, rows: Sequence[Row]) -> Row:
        folds = {name: Fold(function) for name, function in self.functions.items()}
        grouped = {name for group in self.groups for name in (*group.fields, *group.columns)}
        held: Values = dict.fromkeys(rows[0].values)
        filled = added = removed = False
        for row in rows:
            removed = False
            if row.retracts:
                if not filled:
                    held, filled = dict(row.values), True
                if self.ignores:
                    continue
                if self.groups:
                    removed = self._retract(row, held, folds)
                elif self.removes:
                    removed = row.kind == DELETE
                else:
                    raise Refused("delete")
                if removed:
                    held = dict(row.values)
                continue
            for name, value in row.values.items():
                if name not in grouped and value is not None:
                    held[name] = value
            for group in self.groups:
                if any(row.values[name] is not None for name in group.fields):
                    self._add(row, held, group, folds)
            added = filled = True
        return Row(DELETE if removed or not added else INSERT, held)

    def _add(self, row: Row, held: Values, group: Group, folds: Mapping[str, Fold]) -> None:
        newer = _order(row.values, group) >= _order(held, group)
        for name in group.columns:
            value = row.values[name]
            if name in folds:
                step = folds[name].add if newer else folds[name].add_late
                held[name] = step(held[name], value)
            elif newer:
                held[name] = value
        if newer:
            held.update({name: row.values[name] for name in group.fields})

    def _retract(self, row: Row, held: Values, folds: Mapping[str, Fold]) -> bool:
        """Take the row back from what is held; whether it removes the record."""
        present = [g for g in self.groups if any(row.values[name] is not None for name in g.fields)]
        newer = {group: _order(row.values, group) >= _order(held, group) for group in present}
        if row.kind == DELETE and any(group.removes and newer[group] for group in present):
            return True
        for group in present:
            for name in group.columns:
                if name in folds:
                    held[name] = folds[name].retract(held[name], row.values[name])
                elif newer[group]:
                    held[name] = None
            if newer[group]:
                held.update({name: row.values[name] for name in group.fields})
        return False


def _order(values: Values, group: Group) -> tuple[Any, ...]:
    return tuple((values[name] is not None, values[name] or 0) for name in group.fields)
