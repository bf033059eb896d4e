"""Random conditions and values as SQL and as functions of rows, with Spark's three values of truth."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

Env = Mapping[str, Any]  # table's name in the statement -> its row, column -> value
Value = Callable[[Env], Any]


@dataclass(frozen=True)
class Name:
    """A column, or a member of one, as a statement names it; `kind`: "int", "text", or of `constants` alone."""

    text: str
    kind: str
    value: Value
    constants: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Term:
    """SQL, and what it comes to."""

    text: str
    value: Value


TEXTS = ("a", "b", "", "O'Brien", "a%", "zz")


CARRIED: Mapping[str, tuple[Any, ...]] = {  # types of which values are only carried along
    "BOOLEAN": (True, False),
    "TINYINT": (-128, 127),
    "DECIMAL(10,2)": (Decimal("1.50"), Decimal("-99999999.99"), Decimal("0.07")),
    "DECIMAL(30,5)": (Decimal("1234567890123456789012345.00001"), Decimal("-0.10000")),
    "DOUBLE": (-0.0, float("nan"), 1e300, 0.1),
    "FLOAT": (0.5, float("inf")),
    "DATE": (dt.date(1969, 12, 31), dt.date(2020, 2, 29)),
    "TIMESTAMP_NTZ": (dt.datetime(1969, 12, 31, 23, 59, 59, 1), dt.datetime(2020, 2, 29, 12)),
    "BINARY": (b"", b"\x00\xff"),
    "VARCHAR(3)": ("", "äöü", "a b"),
    "CHAR(2)": ("ab", "éa"),  # ORC keeps no blanks
    "ARRAY<INT>": ([], [1, None, 3]),
    "MAP<STRING, INT>": ([], [("a", 1), ("b", None)]),
}


PLACED: Mapping[
    str, tuple[Any, ...]
] = {  # types of keys and partitions; a table with a key is partitioned by the first two
    "STRING": ("", "a ", "é=1", "Ω/x", " ", "%41", "null", "A"),
    "DATE": tuple(dt.date(1969, 12, 31) + dt.timedelta(days) for days in (0, 1, 2, 18000, -100000, 9, 2000000, 33)),
    "TIMESTAMP_NTZ": tuple(
        dt.datetime(1969, 12, 31, 23, 59, 59, 999) + dt.timedelta(seconds=seconds)
        for seconds in (0, 1, 86400, 10**9, -(10**10), 7, 10**6, 33)
    ),
    "DECIMAL(10,2)": tuple(Decimal(number).scaleb(-2) for number in (0, 150, -1, 9999999999, -9999999999, 10, 1, 1000)),
    "DECIMAL(25,0)": tuple(map(Decimal, (0, 10**24, -(10**24), 1, 7, 8, 9, 10))),
    "BINARY": (b"", b"a", b"\x00", b"a\x00", b"\x80", b"\xff\xff", b"/", b"="),
    "BOOLEAN": (False, True),
    "CHAR(2)": ("ab", "éa", "a/", "AB", "zz", "%4", "..", "a="),
    "BIGINT": (0, -(1 << 62), 1 << 62, 1, -1, 2, 1 << 40, 255),
    "SMALLINT": (0, -32768, 32767, 1, -1, 2, 256, 255),
}


def literal(value: Any) -> str:
    """A value of a row as SQL; a struct as a dict, a map as a list of pairs."""
    if isinstance(value, dict):
        return "named_struct(" + ", ".join(f"'{name}', {literal(item)}" for name, item in value.items()) + ")"
    if isinstance(value, list):
        pairs = bool(value) and isinstance(value[0], tuple)
        items = [item for pair in value for item in pair] if pairs else value
        return f"{'map' if pairs else 'array'}({', '.join(map(literal, items))})"
    if isinstance(value, str):
        return "'" + value.replace("'", "\\'") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, float):
        return f"double('{value}')"
    if isinstance(value, Decimal):
        return f"{value}BD"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP_NTZ'{value}'"
    if isinstance(value, dt.date):
        return f"DATE'{value}'"
    return "NULL" if value is None else str(value)


def condition(chance: Random, names: list[Name], depth: int = 2) -> Term:
    """A condition over these names."""
    draw = chance.random()
    if depth and draw < 0.35:
        one, two = condition(chance, names, depth - 1), condition(chance, names, depth - 1)
        if chance.random() < 0.5:
            return Term(f"({one.text} AND {two.text})", lambda env: _and(one.value(env), two.value(env)))
        return Term(f"({one.text} OR {two.text})", lambda env: _or(one.value(env), two.value(env)))
    if depth and draw < 0.42:
        inner = condition(chance, names, depth - 1)
        return Term(f"NOT ({inner.text})", lambda env: _not(inner.value(env)))
    return _leaf(chance, chance.choice(names))


def _leaf(chance: Random, name: Name) -> Term:
    got = name.value
    form = chance.randrange(6)
    if form == 0:
        return Term(f"{name.text} IS NULL", lambda env: got(env) is None)
    if form == 1:
        return Term(f"{name.text} IS NOT NULL", lambda env: got(env) is not None)
    if form == 2:
        items = [_constant(chance, name) for _ in range(3)]
        text = ", ".join(map(literal, items))
        return Term(f"{name.text} IN ({text})", _known(got, lambda value: value in items))
    one = _constant(chance, name)
    if form == 3:
        return Term(f"{name.text} <=> {literal(one)}", lambda env: got(env) == one)
    if name.kind == "int" and form == 4:
        return Term(f"abs({name.text}) % 3 = 1", _known(got, lambda value: abs(value) % 3 == 1))
    if name.kind == "text" and form == 4:
        return Term(f"{name.text} LIKE 'a%'", _known(got, lambda value: value.startswith("a")))
    sign, compare = chance.choice(COMPARISONS)
    return Term(f"{name.text} {sign} {literal(one)}", _known(got, lambda value: compare(value, one)))


def typed(value: Any, kind: str) -> str:
    """A value of a column of this type as SQL."""
    return "map()" if value == [] and kind.startswith("MAP") else literal(value)


COMPARISONS: tuple[tuple[str, Callable[[Any, Any], bool]], ...] = (
    ("=", lambda a, b: a == b),
    ("<>", lambda a, b: a != b),
    ("<", lambda a, b: a < b),
    (">=", lambda a, b: a >= b),
)


def value(chance: Random, kind: str, names: list[Name]) -> Term:
    """A value of a kind over these names."""
    if kind in CARRIED:
        carried = chance.choice([None, *CARRIED[kind]])
        return Term(f"CAST({typed(carried, kind)} AS {kind})", lambda env: carried)
    same = [name for name in names if name.kind == kind]
    form = chance.randrange(5)
    if form == 0 or not same:
        constant = chance.choice([None, 5, -1]) if kind == "int" else chance.choice([None, "w", "it's"])
        return Term(literal(constant), lambda env: constant)
    name = chance.choice(same)
    got = name.value
    if kind == "text":
        if form < 3:
            return Term(f"concat('a', substring({name.text}, 1, 3))", _known(got, lambda text: "a" + text[:3]))
        return Term(name.text, got)
    if form == 1:
        return Term(f"({name.text} + 1) % 1000", _known(got, lambda number: _remainder(number + 1, 1000)))
    if form == 2:
        return Term(f"coalesce({name.text}, 0) - 2", lambda env: (got(env) or 0) - 2)
    if form == 3:
        test = condition(chance, names, 1)
        text = f"CASE WHEN {test.text} THEN {name.text} ELSE -7 END"
        return Term(text, lambda env: got(env) if test.value(env) else -7)
    return Term(name.text, got)


def _constant(chance: Random, name: Name) -> Any:
    if name.constants:
        return chance.choice(name.constants)
    return chance.randrange(-2, 9) if name.kind == "int" else chance.choice(TEXTS)


def _known(got: Value, of: Callable[[Any], Any]) -> Value:
    def found(env: Env) -> Any:
        held = got(env)
        return None if held is None else of(held)

    return found


def _remainder(number: int, by: int) -> int:
    """As SQL has it: the sign is the number's."""
    return number % by if number >= 0 else -(-number % by)


def _and(one: Any, two: Any) -> Any:
    return False if one is False or two is False else None if None in (one, two) else True


def _or(one: Any, two: Any) -> Any:
    return True if one or two else None if None in (one, two) else False


def _not(one: Any) -> Any:
    return None if one is None else not one
