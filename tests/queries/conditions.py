"""Conditions and literals in every spelling, wrong types among them: text from a random source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

TEXTS = ("x", "y", "O'Brien", "a%", "a_", 'q"q', "back\\slash", "", "é", "--x", "/*", "a;b", "{t0}", "null", "1", "ab")


@dataclass(frozen=True)
class Column:
    """A column that a condition may name: how it is written, and the kind of its values."""

    text: str
    kind: str


def text_literal(chance: Random, value: str) -> str:
    """A string in one of its spellings."""
    plain = value.replace("\\", "\\\\")
    ways = ["'" + plain.replace("'", "''") + "'", "'" + plain.replace("'", "\\'") + "'"]
    ways.append('"' + plain.replace('"', '""') + '"')
    ways.append("'" + "".join(f"\\u{ord(char):04x}" for char in value) + "'")
    if "'" not in value:
        ways.append(chance.choice("rR") + "'" + value + "'")
    if '"' not in value:
        ways.append('r"' + value + '"')
    if len(value) > 1 and "\\" not in value and "'" not in value:
        ways.append(f"'{value[:1]}' '{value[1:]}'")
    return chance.choice(ways[:1] * 4 + ways)


def literal(chance: Random, kind: str) -> str:
    """A constant of a kind, now and then of another kind or NULL."""
    if chance.random() < 0.03:
        kind = chance.choice(("int", "text", "double", "decimal", "date", "local", "zoned", "flag"))
    if chance.random() < 0.04:
        return chance.choice(("NULL", "null", "CAST(NULL AS INT)"))
    if kind == "int":
        number = chance.choice((0, 1, 2, 3, 5, 7, -1, 20, 300, 2147483647, -2147483648, 3000000000))
        suffix = chance.choice(("", "", "", "", "", "L", ".0", ".5", "e0", "D", "BD"))
        return chance.choice((f"{number}{suffix}", f"({number}{suffix})", f"CAST({number} AS BIGINT)", f"{number}"))
    if kind == "double":
        return chance.choice(
            (
                "0.0",
                "-0.0",
                "1.5",
                "0.1",
                "1e0",
                "-1.5",
                "2",
                "1.5D",
                "1.5F",
                "CAST('NaN' AS DOUBLE)",
                "1E1",
                ".5",
                "2.",
            )
        )
    if kind == "decimal":
        return chance.choice(
            ("1.50", "1.5", "2", "-3.25", "0.005", "1.505", "99999999.99", "1e0", "1.5BD", "100000000")
        )
    if kind == "flag":
        return chance.choice(("true", "FALSE", "True"))
    if kind == "date":
        day = f"2020-01-0{chance.randint(1, 6)}"
        ways = (f"DATE '{day}'", f"date'{day}'", f"'{day}'", f"CAST('{day}' AS DATE)", f"'{day}'::date", "'2020-1-3'")
        return chance.choice((*ways, "'2020-01'", f"TIMESTAMP '{day} 00:00:00'", f"DATE '{day}' + INTERVAL 1 DAY"))
    if kind in ("local", "zoned"):
        at = f"2020-01-0{chance.randint(1, 6)} 0{chance.randint(0, 3)}:30:00"
        ways = (f"TIMESTAMP '{at}'", f"TIMESTAMP_NTZ '{at}'", f"TIMESTAMP_LTZ '{at}'", f"'{at}'", f"'{at}.5'")
        return chance.choice((*ways, f"DATE '{at[:10]}'", f"'{at[:10]}'", f"TIMESTAMP '{at}+02:00'"))
    return text_literal(chance, chance.choice(TEXTS))


def operand(chance: Random, columns: list[Column], kind: str) -> str:
    """A column of some kind, or something made of one."""
    same = [column for column in columns if column.kind == kind] or columns
    column = chance.choice(same).text
    if chance.random() < 0.85:
        return column
    if kind == "int":
        return chance.choice(
            (f"abs({column})", f"{column} + 1", f"-{column}", f"coalesce({column}, 0)", f"CAST({column} AS STRING)")
        )
    if kind == "text":
        return chance.choice((f"upper({column})", f"concat({column}, '')", f"{column} || 'x'", f"length({column})"))
    return f"({column})"


def condition(
    chance: Random, columns: list[Column], depth: int = 2, literal: Callable[[Random, str], str] = literal
) -> str:
    """A boolean expression over columns. `literal`: what makes a constant of a kind."""
    if depth and chance.random() < 0.35:
        left, right = (condition(chance, columns, depth - 1, literal) for _ in range(2))
        return chance.choice(
            (f"{left} AND {right}", f"({left}) AND {right}", f"({left} OR {right})", f"{left} AND ({right})")
        )
    if chance.random() < 0.1:
        return chance.choice(("NOT ", "! ", "not")) + f"({condition(chance, columns, 0, literal)})"
    kind = chance.choice([column.kind for column in columns])
    left, right = operand(chance, columns, kind), literal(chance, kind)
    shape = chance.random()
    if shape < 0.45:
        op = chance.choice(("=", "=", "=", "==", "<", "<=", ">", ">=", "<>", "!=", "<=>"))
        gap = chance.choice(("", " ", " /* c */ ", "\n", " -- c'\n"))
        return chance.choice((f"{left} {op}{gap}{right}", f"{left}{gap}{op} {right}", f"{right} {op} {left}"))
    if shape < 0.6:
        some = ", ".join(literal(chance, kind) for _ in range(chance.randint(1, 3)))
        return f"{left} {chance.choice(('IN', 'in', 'NOT IN'))} ({right}, {some})"
    if shape < 0.7:
        return f"{left} {chance.choice(('', 'NOT '))}BETWEEN {right} AND {literal(chance, kind)}"
    if shape < 0.82:
        return f"{left} IS {chance.choice(('', 'NOT '))}NULL"
    if shape < 0.87:
        pattern = chance.choice(
            ("'a%'", "'%b'", "'%'", "'a_'", "'a\\\\%'", "'%r%'", "'x'", '"O\'%"', "'a!%' ESCAPE '!'")
        )
        texts = [column.text for column in columns if column.kind == "text"]
        return f"{chance.choice(texts)} {chance.choice(('LIKE', 'NOT LIKE', 'ILIKE'))} {pattern}" if texts else "true"
    flags = [column.text for column in columns if column.kind == "flag"]
    if shape < 0.92 and flags:
        return chance.choice(("", "NOT ")) + chance.choice(flags) + chance.choice(("", " IS TRUE", " = true"))
    if shape < 0.95:
        return f"{left} = {operand(chance, columns, kind)}"
    return chance.choice(
        (f"CASE WHEN {left} IS NULL THEN true ELSE {left} = {right} END", "1 = 1", "true", f"{left} = {right} IS NULL")
    )
