"""Every merge engine and order of rows, with what it makes of a row in plain Python: one row after the other into a dict.

An engine here says which rows have an outcome that does not depend on where flushes and compactions cut: Paimon leaves a
row alone in its merge as it is, drops deletes in the top level and forgets what they carried, so some histories (a row
of an older sequence after a compacted delete, columns of a sequence group without a sequence) have no single outcome.
`Engine.admit` keeps histories clear of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = 0, 1, 2, 3
ADDS = (INSERT, UPDATE_AFTER)
ALL_KINDS = (INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE)
COLUMNS = {"p": "STRING", "k": "BIGINT", "v": "BIGINT", "w": "BIGINT", "s": "BIGINT", "r": "BIGINT", "t": "STRING"}
KEYS = ("p", "k")
VALUES = tuple(name for name in COLUMNS if name not in KEYS)

Values = dict[str, Any]
Step = Callable[[Values, int, Values], "Values | None"]
Order = tuple[tuple[bool, int], ...]


def order(values: Mapping[str, Any], fields: tuple[str, ...], sign: int = 1) -> Order:
    """What `sequence.field` compares: nulls are older than everything in both directions."""
    return tuple((values[name] is not None, sign * (values[name] or 0)) for name in fields)


@dataclass(frozen=True)
class Engine:
    """`step`: the row held, a new row's kind and values -> the row held then, None: it is gone.

    `kinds`: what may be written. `ignored`: kinds that are left out. `blind`: -U and -D may be written of keys that are
    not there. `sequence`: of all rows, `sign` -1: descending. `ascending`: rows come in its order. `groups`: columns
    that are null wherever their sequence fields are. `forgets`: rows behind a -U or -D of a key have one outcome only
    once that is compacted away. `unretracted`: columns that are null in -U and -D. `removing`: sequence fields in which
    a -D is never old. `deletes`, `updates`: the statements.
    """

    options: Mapping[str, str]
    step: Step
    kinds: tuple[int, ...] = ADDS
    ignored: tuple[int, ...] = ()
    blind: bool = False
    sequence: tuple[str, ...] = ()
    sign: int = 1
    ascending: bool = False
    groups: Mapping[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    forgets: bool = False
    unretracted: tuple[str, ...] = ()
    removing: tuple[str, ...] = ()
    deletes: bool = False
    updates: bool = False

    def order(self, values: Mapping[str, Any]) -> Order:
        """The row's place in the order of its key."""
        return order(values, self.sequence, self.sign)

    def tidy(self, kind: int, values: Values, held: Values | None) -> Values:
        """The row in a form that has one outcome."""
        found = dict(values)
        if self.ascending:
            for name in self.sequence:
                found[name] = max(found[name] or 0, 0 if held is None else held[name] or 0)
        if kind == DELETE:
            for name in self.removing:
                found[name] = max(found[name] or 0, 0 if held is None else held[name] or 0)
        for fields, columns in self.groups.items():
            if all(found[name] is None for name in fields):
                found.update(dict.fromkeys(columns))
        if kind not in ADDS:
            found.update(dict.fromkeys(self.unretracted))
        return found


def newest(held: Values, kind: int, new: Values) -> Values | None:
    return new if kind in ADDS else None


def oldest(held: Values, kind: int, new: Values) -> Values:
    return held


def non_null(held: Values, kind: int, new: Values) -> Values | None:
    if kind not in ADDS:
        return None
    return {name: held[name] if value is None else value for name, value in new.items()}


def by_sequence(fields: tuple[str, ...], sign: int = 1) -> Step:
    def step(held: Values, kind: int, new: Values) -> Values | None:
        if order(new, fields, sign) < order(held, fields, sign):
            return held
        return newest(held, kind, new)

    return step


def aggregate(function: str, held: Any, new: Any, retracts: bool) -> Any:
    if function == "last_value":
        return None if retracts else new
    if function == "first_value":
        return held
    if new is None:
        return held
    if function == "last_non_null_value":
        return None if retracts else new
    if retracts and function == "sum":
        return (held or 0) - new
    if retracts:  # ignored, by the options that come with it
        return held
    if held is None:
        return new
    if function == "listagg":
        return f"{held},{new}"
    return {"sum": lambda: held + new, "max": lambda: max(held, new), "min": lambda: min(held, new)}[function]()


def aggregated(functions: Mapping[str, str], removes: bool = False) -> Step:
    def step(held: Values, kind: int, new: Values) -> Values | None:
        if removes and kind == DELETE:
            return None
        retracts = kind not in ADDS
        return {
            **new,
            **{name: aggregate(function, held[name], new[name], retracts) for name, function in functions.items()},
        }

    return step


def grouped(
    groups: Mapping[tuple[str, ...], tuple[str, ...]], sums: tuple[str, ...] = (), removing: tuple[str, ...] = ()
) -> Step:
    """`groups`: sequence fields -> their columns; `sums` of these are added up; a -D new in `removing` removes."""
    inside = {name for fields, columns in groups.items() for name in (*fields, *columns)}

    def step(held: Values, kind: int, new: Values) -> Values | None:
        adds = kind in ADDS
        if kind == DELETE and removing and has(new, removing) and order(new, removing) >= order(held, removing):
            return None
        found = dict(held)
        if adds:
            found.update({name: value for name, value in new.items() if name not in inside and value is not None})
        for fields, columns in groups.items():
            if not has(new, fields):
                continue
            later = order(new, fields) >= order(held, fields)
            for name in columns:
                if name in sums:
                    found[name] = aggregate("sum", held[name], new[name], not adds)
                elif later:
                    found[name] = new[name] if adds else None
            if later:
                found.update({name: new[name] for name in fields})
        return found

    return step


def has(values: Values, fields: tuple[str, ...]) -> bool:
    return any(values[name] is not None for name in fields)


def functions(**chosen: str) -> dict[str, str]:
    return {f"fields.{name}.aggregate-function": function for name, function in chosen.items()}


FOLDS = {"v": "sum", "w": "max", "s": "min", "r": "first_value", "t": "listagg"}
ORDERED = {"v": "sum", "w": "first_value", "r": "last_value", "t": "last_non_null_value"}
RETRACTED = {"v": "sum", "w": "sum", "s": "last_value", "r": "last_value", "t": "last_non_null_value"}
TWO_GROUPS = {("s",): ("v",), ("r",): ("w",)}
PAIR = {("s", "r"): ("v", "w")}
ONE_GROUP = {("s",): ("v", "w")}
PARTIAL = {"merge-engine": "partial-update"}
AGGREGATION = {"merge-engine": "aggregation"}
FIRST_ROW = {"merge-engine": "first-row"}

ENGINES: dict[str, Engine] = {
    "deduplicate": Engine({}, newest, ALL_KINDS, blind=True, deletes=True, updates=True),
    "sequence": Engine(
        {"sequence.field": "s"},
        by_sequence(("s",)),
        ALL_KINDS,
        blind=True,
        sequence=("s",),
        deletes=True,
        updates=True,
    ),
    "sequence-descending": Engine(
        {"sequence.field": "s", "sequence.field.sort-order": "descending"},
        by_sequence(("s",), -1),
        ALL_KINDS,
        blind=True,
        sequence=("s",),
        sign=-1,
        deletes=True,
    ),
    "sequence-two": Engine(
        {"sequence.field": "r,s"},
        by_sequence(("r", "s")),
        ALL_KINDS,
        blind=True,
        sequence=("r", "s"),
        deletes=True,
    ),
    "ignore-delete": Engine(
        {"ignore-delete": "true"}, newest, ALL_KINDS, ignored=(UPDATE_BEFORE, DELETE), blind=True, updates=True
    ),
    "ignore-update-before": Engine(
        {"ignore-update-before": "true"}, newest, ALL_KINDS, ignored=(UPDATE_BEFORE,), blind=True, deletes=True
    ),
    "partial": Engine(PARTIAL, non_null, updates=True),
    "partial-sequence": Engine(
        {**PARTIAL, "sequence.field": "s"}, non_null, sequence=("s",), ascending=True, updates=True
    ),
    "partial-removes": Engine(
        {**PARTIAL, "partial-update.remove-record-on-delete": "true"},
        non_null,
        (*ADDS, DELETE),
        forgets=True,
        deletes=True,
    ),
    "partial-ignores": Engine(
        {**PARTIAL, "ignore-delete": "true"}, non_null, ALL_KINDS, ignored=(UPDATE_BEFORE, DELETE), blind=True
    ),
    "groups": Engine(
        {
            **PARTIAL,
            "fields.s.sequence-group": "v",
            "fields.r.sequence-group": "w",
            **functions(w="sum"),
        },
        grouped(TWO_GROUPS, ("w",)),
        ALL_KINDS,
        groups=TWO_GROUPS,
        forgets=True,
    ),
    "groups-of-two": Engine(
        {**PARTIAL, "fields.s,r.sequence-group": "v,w", **functions(w="sum")},
        grouped(PAIR, ("w",)),
        groups=PAIR,
        updates=True,
    ),
    "groups-remove": Engine(
        {
            **PARTIAL,
            "fields.s.sequence-group": "v,w",
            "partial-update.remove-record-on-sequence-group": "s",
        },
        grouped(ONE_GROUP, (), ("s",)),
        (*ADDS, DELETE),
        groups=ONE_GROUP,
        removing=("s",),
        forgets=True,
        deletes=True,
        updates=True,
    ),
    "aggregation": Engine({**AGGREGATION, **functions(**FOLDS)}, aggregated(FOLDS)),
    "aggregation-sequence": Engine(
        {**AGGREGATION, "sequence.field": "s", **functions(**ORDERED)},
        aggregated(ORDERED),
        sequence=("s",),
        ascending=True,
    ),
    "aggregation-retracts": Engine(
        {**AGGREGATION, **functions(**RETRACTED)}, aggregated(RETRACTED), ALL_KINDS, unretracted=("t",)
    ),
    "aggregation-removes": Engine(
        {**AGGREGATION, "aggregation.remove-record-on-delete": "true", **functions(**RETRACTED)},
        aggregated(RETRACTED, removes=True),
        (*ADDS, DELETE),
        forgets=True,
        deletes=True,
    ),
    "aggregation-ignores": Engine(
        {
            **AGGREGATION,
            "fields.default-aggregate-function": "max",
            **{f"fields.{name}.ignore-retract": "true" for name in VALUES},
        },
        aggregated(dict.fromkeys(VALUES, "max")),
        ALL_KINDS,
    ),
    "first-row": Engine(FIRST_ROW, oldest),
    "first-row-ignores": Engine(
        {**FIRST_ROW, "ignore-delete": "true"}, oldest, ALL_KINDS, ignored=(UPDATE_BEFORE, DELETE), blind=True
    ),
}
