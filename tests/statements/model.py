"""A table as a list of rows, whose columns come and go, with the rules of its merge engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from tests.statements.terms import Name, Term

Row = dict[str, Any]  # under the ids of columns


@dataclass(frozen=True)
class Column:
    """`place`: what it is known by in rows, whatever its name becomes. `members` of a ROW, all optional: name -> type.
    `values`: of a key or partition of another type, all that it may have. `default`: of rows that are written without."""

    place: str
    name: str
    kind: str
    members: tuple[tuple[str, str], ...] = ()
    values: tuple[Any, ...] = ()
    default: Any = None

    @property
    def sql(self) -> str:
        if self.kind != "ROW":
            return self.kind
        return "STRUCT<" + ", ".join(f"{name}: {kind}" for name, kind in self.members) + ">"


COMPARED = ("INT", "BIGINT", "STRING")
FIRST = (
    Column("k", "k", "INT"),
    Column("p", "p", "STRING"),
    Column("v", "v", "BIGINT"),
    Column("s", "s", "STRING"),
    Column("x", "x", "ROW", (("a", "INT"), ("b", "STRING"))),
    Column("n", "n", "INT"),
)


def _newest(held: Row, new: Row) -> Row:
    return new


def _oldest(held: Row, new: Row) -> Row:
    return held


def _filled(held: Row, new: Row) -> Row:
    return {place: held.get(place) if value is None else value for place, value in new.items()}


def _summed(held: Row, new: Row) -> Row:
    found = _filled(held, new)
    if held.get("v") is not None and new.get("v") is not None:
        found["v"] = held["v"] + new["v"]
    return found


ENGINES: Mapping[str, Callable[[Row, Row], Row]] = {
    "deduplicate": _newest,
    "first-row": _oldest,
    "partial-update": _filled,
    "aggregation": _summed,
}


@dataclass
class Model:
    """`key`: of a table with one, places; else rows may be there many times."""

    key: tuple[str, ...]
    engine: str
    columns: list[Column] = field(default_factory=lambda: list(FIRST))
    rows: list[Row] = field(default_factory=list)

    def names(self, prefix: str = "", table: str = "t") -> list[Name]:
        """The columns as terms know them, members of rows as well."""
        found = []
        for column in self.columns:
            if column.values:
                found.append(Name(prefix + column.name, "", _of(table, column.place), column.values))
            elif column.kind in COMPARED:
                found.append(Name(prefix + column.name, _kind(column.kind), _of(table, column.place)))
            for name, kind in column.members:
                found.append(Name(f"{prefix}{column.name}.{name}", _kind(kind), _of(table, column.place, name)))
        return found

    def keyed(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[place] for place in self.key)

    def whole(self, row: Row) -> Row:
        """The row in the columns of now."""
        found: Row = {}
        for column in self.columns:
            held = row.get(column.place)
            found[column.place] = (
                {name: held.get(name) for name, _ in column.members} if isinstance(held, dict) else held
            )
        return found

    def put(self, rows: Iterable[Row]) -> None:
        """Rows are written, one after the other."""
        if not self.key:
            self.rows += [self.whole(row) for row in rows]
            return
        held = {self.keyed(row): row for row in self.rows}
        for row in map(self.whole, rows):
            at = self.keyed(row)
            held[at] = ENGINES[self.engine](held[at], row) if at in held else row
        self.rows = list(held.values())

    def filled(self, row: Row) -> Row:
        """A row that is written with some columns alone."""
        return {**{column.place: column.default for column in self.columns if column.default is not None}, **row}

    def at(self, place: str) -> int:
        return next(at for at, column in enumerate(self.columns) if column.place == place)

    def settle(self) -> None:
        """After the columns have changed."""
        self.rows = [self.whole(row) for row in self.rows]

    def copy(self) -> Model:
        return deepcopy(self)

    def shown(self, rows: Iterable[Row] | None = None) -> Counter[str]:
        """The rows as they are compared."""
        return Counter(
            repr([self.whole(row)[column.place] for column in self.columns])
            for row in (self.rows if rows is None else rows)
        )


def assigned(model: Model, row: Row, sets: Mapping[str, Term], env: Mapping[str, Any]) -> Row:
    """The row with these columns and members set."""
    found = dict(row)
    for column in model.columns:
        if column.name in sets:
            found[column.place] = sets[column.name].value(env)
        for name, _ in column.members:
            if (term := sets.get(f"{column.name}.{name}")) is not None:
                held = found[column.place] or {}
                found[column.place] = {**{one: held.get(one) for one, _ in column.members}, name: term.value(env)}
    return found


def _kind(kind: str) -> str:
    return "text" if kind == "STRING" else "int"


def _of(table: str, place: str, member: str | None = None) -> Callable[[Mapping[str, Any]], Any]:
    def found(env: Mapping[str, Any]) -> Any:
        held = env[table].get(place)
        return held if member is None or held is None else held.get(member)

    return found
