"""Random DELETE, UPDATE and INSERT statements, and a model that Spark evaluates over copied rows."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.queries.conditions import TEXTS, Column, condition, text_literal

COLUMNS = (("k", "int"), ("n", "int"), ("s", "text"), ("d", "double"), ("q", "date"))
SCHEMA = "k BIGINT, n INT, s STRING, d DOUBLE, q DATE"
_SET = {
    "n": ("n + 1", "7", "NULL", "abs(n)"),
    "s": ("'O''Brien'", "concat(s, 'x')", '"a""b"', "r'\\n'", "NULL"),
    "d": ("d * 2", "-0.0", "CAST('NaN' AS DOUBLE)"),
}


@dataclass(frozen=True)
class Change:
    """A statement over the table `{t}` and the query over `{m}` that gives the rows that it leaves; `{own}` is the table
    or the model in subqueries. `keys`: what an INSERT replaces."""

    statement: str
    model: str
    keys: tuple[int, ...] = ()


def change(seed: int) -> Change:
    """The change of a seed."""
    chance = Random(seed)
    alias = chance.choice(("", "", " x", " AS x"))
    name = "x." if alias else ""
    columns = [Column(chance.choice((column, name + column)), kind) for column, kind in COLUMNS]
    shape = chance.random()
    if shape < 0.3:
        keys = tuple(chance.sample(range(40), 4))
        rows = ", ".join(_row(chance, key) for key in keys)
        typed = "SELECT CAST(k AS BIGINT) k, CAST(n AS INT) n, CAST(s AS STRING) s, CAST(d AS DOUBLE) d, q"
        typed += f" FROM VALUES {rows} AS v(k, n, s, d, q)"
        model = (
            f"SELECT * FROM {{m}} m WHERE NOT EXISTS (SELECT 1 FROM ({typed}) v WHERE v.k = m.k) UNION ALL ({typed})"
        )
        return Change(f"INSERT INTO {{t}} {typed}", model, keys)
    where = condition(chance, columns)
    if shape < 0.6 and chance.random() < 0.3:
        inner = condition(chance, [Column("y." + column, kind) for column, kind in COLUMNS], 0)
        where = f"({where}) AND {columns[0].text} {chance.choice(('IN', 'NOT IN'))} (SELECT y.k FROM {{own}} y WHERE {inner})"
    if shape < 0.6:
        statement = f"DELETE FROM {{t}}{alias} WHERE {where}"
        return Change(statement, f"SELECT * FROM {{m}}{alias} WHERE NOT coalesce({where}, false)")
    column = chance.choice(sorted(_SET))
    value = chance.choice(_SET[column])
    listed = ", ".join(
        f"CASE WHEN {where} THEN CAST({value} AS {kind}) ELSE {item} END AS {item}" if item == column else item
        for item, kind in (part.split(" ") for part in SCHEMA.split(", "))
    )
    return Change(f"UPDATE {{t}}{alias} SET {column} = {value} WHERE {where}", f"SELECT {listed} FROM {{m}}{alias}")


def _row(chance: Random, key: int) -> str:
    text = text_literal(chance, chance.choice(TEXTS[:10]))
    number = chance.choice(("1", "2", "CAST(NULL AS INT)"))
    return f"({key}, {number}, {text}, {chance.choice(('0.5D', '-0.0D', 'double(1)'))}, DATE '2020-01-0{key % 5 + 1}')"
