"""Queries from a random source: every kind of relation, nested, with answers that do not depend on the rows' order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.queries.conditions import Column, condition, text_literal

TABLES: dict[str, tuple[tuple[str, str], ...]] = {
    "t": (("k", "int"), ("a", "int"), ("s", "text"), ("d", "double"), ("p", "text")),
    "u": (("k", "int"), ("n", "decimal"), ("s", "text"), ("b", "flag"), ("q", "date")),
    "w": (("k", "int"), ("at", "local"), ("zt", "zoned"), ("m", "int"), ("f", "double")),
    "v": (("a", "int"), ("A", "int"), ("s", "text")),
}
_SIDES = (
    "JOIN",
    "INNER JOIN",
    "LEFT JOIN",
    "RIGHT OUTER JOIN",
    "FULL JOIN",
    "LEFT SEMI JOIN",
    "LEFT ANTI JOIN",
    "CROSS JOIN",
)


@dataclass(frozen=True)
class Relation:
    """Text for FROM, the name that qualifies its columns, and these as (name, kind)."""

    text: str
    name: str
    columns: tuple[tuple[str, str], ...]

    def qualified(self) -> list[Column]:
        """Its columns behind its name."""
        return [Column(f"{self.name}.{name}", kind) for name, kind in self.columns]


@dataclass
class Maker:
    """Makes queries. `number` counts aliases."""

    chance: Random
    number: int = 0
    ctes: tuple[Relation, ...] = ()

    def alias(self) -> str:
        """A name that is not in use, now and then one of a table."""
        self.number += 1
        return f"x{self.number}"

    def pick(self, *ways: str) -> str:
        """One of these texts."""
        return self.chance.choice(ways)

    def cased(self, name: str) -> str:
        """A name in some case and quoting."""
        return self.pick(name, name, name, name.upper(), f"`{name}`")

    # ---- relations

    def table(self) -> Relation:
        """A table or a common table expression, aliased in some way."""
        if self.ctes and self.chance.random() < 0.3:
            found = self.chance.choice(self.ctes)
            return Relation(found.text, found.name, found.columns)
        name = self.chance.choice(("t", "t", "t", "u", "u", "w", "v"))
        columns = TABLES[name]
        if name == "v":
            columns = columns[2:]
        shape = self.chance.random()
        if shape < 0.3:
            return Relation(self.pick(name, f"`{name}`"), name, columns)
        alias = self.alias()
        if shape < 0.85 or name == "v":
            return Relation(f"{name} {self.pick('', 'AS ')}{alias}", alias, columns)
        swapped = [(f"c{place}", kind) for place, (_, kind) in enumerate(columns)]
        if self.chance.random() < 0.5:  # the table's own names, in another order
            names = [column for column, _ in columns]
            self.chance.shuffle(names)
            swapped = [(column, kind) for column, (_, kind) in zip(names, columns, strict=True)]
        return Relation(f"{name} AS {alias}({', '.join(c for c, _ in swapped)})", alias, tuple(swapped))

    def relation(self, depth: int) -> Relation:
        """Anything that may stand in FROM."""
        shape = self.chance.random()
        if depth == 0 or shape < 0.6:
            return self.table()
        alias = self.alias()
        if shape < 0.85:
            text, columns = self.query(depth - 1)
            return Relation(f"({text}) {self.pick('', 'AS ')}{alias}", alias, columns)
        if shape < 0.9:
            values = ", ".join(f"({self.chance.randint(0, 5)}, {text_literal(self.chance, 'x')})" for _ in range(2))
            return Relation(f"(VALUES {values}) AS {alias}(k, s)", alias, (("k", "int"), ("s", "text")))
        if shape < 0.95:
            columns = (("s", "text"), ("key", "text"), ("val", "int"))
            return Relation(
                f"(SELECT s, key, val FROM t UNPIVOT (val FOR key IN (k, a)) WHERE {self.pick('key', 'KEY')} = 'a')"
                f" {alias}",
                alias,
                columns,
            )
        pivot = "(SELECT * FROM (SELECT p, a, k FROM t) PIVOT (sum(a) AS sa FOR p IN ('x' AS px, 'y' AS py)))"
        return Relation(f"{pivot} {alias}", alias, (("k", "int"), ("px", "int"), ("py", "int")))

    # ---- queries

    def query(self, depth: int) -> tuple[str, tuple[tuple[str, str], ...]]:
        """A query and its columns."""
        shape = self.chance.random()
        if depth > 0 and shape < 0.12:
            return self.union(depth)
        if depth > 0 and shape < 0.25:
            return self.with_(depth)
        if shape < 0.32:
            return self.pipe()
        if shape < 0.40:
            return self.aggregate(depth)
        if shape < 0.46:
            return self.lateral(depth)
        return self.select(depth)

    def select(self, depth: int) -> tuple[str, tuple[tuple[str, str], ...]]:
        """SELECT … FROM one to three relations, joined in some way."""
        text, shown, relations = self.joined(depth)
        where = self.where(shown, depth)
        if len(relations) == 1 and self.chance.random() < 0.12:
            order = ", ".join(column.text for column in shown)
            limit = self.chance.randint(0, 4)
            return f"SELECT * FROM {text}{where} ORDER BY {order} LIMIT {limit}", relations[0].columns
        if len(relations) == 1 and self.chance.random() < 0.2:
            return f"SELECT {self.pick('', 'DISTINCT ')}* FROM {text}{where}", relations[0].columns
        chosen = self.chance.sample(shown, min(len(shown), self.chance.randint(1, 4)))
        items, columns = [], []
        for place, column in enumerate(chosen):
            name = self.pick("k", "a", "s", "p", "n") + str(place)
            items.append(f"{column.text} {self.pick('', 'AS ')}{name}")
            columns.append((name, column.kind))
        if self.chance.random() < 0.12:
            items.append(
                f"row_number() OVER (PARTITION BY {shown[0].text} ORDER BY {', '.join(c.text for c in shown)}) AS rn"
            )
            columns.append(("rn", "int"))
        hint = self.pick("", "", "", "", f"/*+ BROADCAST({relations[0].name}) */ ")
        return f"SELECT {hint}{self.pick('', '', 'DISTINCT ')}{', '.join(items)} FROM {text}{where}", tuple(columns)

    def joined(self, depth: int) -> tuple[str, list[Column], list[Relation]]:
        """FROM's text, the columns that may be named, and the relations."""
        first = self.relation(depth)
        relations = [first]
        text = first.text
        shown = first.qualified()
        if self.chance.random() < 0.5:
            plain = [Column(self.cased(name), kind) for name, kind in first.columns]
        else:
            plain = []
        count = self.chance.choice((1, 1, 1, 2, 2, 3))
        for _ in range(count - 1):
            other = self.relation(depth)
            if any(found.name == other.name for found in relations):
                continue
            plain = []
            nested = ""
            if self.chance.random() < 0.15:
                third = self.relation(0)
                if third.name != other.name and all(found.name != third.name for found in relations):
                    nested = f"({other.text} JOIN {third.text} ON {self.match(other.qualified(), third.qualified())})"
            side = self.chance.choice((*_SIDES, ","))
            inside = other.qualified() + (third.qualified() if nested else [])
            on = ""
            if side not in (",", "CROSS JOIN"):
                on = f" ON {self.match(shown, inside)}"
                common = {name for name, _ in other.columns} & {name for name, _ in first.columns}
                if not nested and len(relations) == 1 and common and self.chance.random() < 0.3:
                    on = f" USING ({self.chance.choice(sorted(common))})"
            text += f"{'' if side == ',' else ' '}{side} {nested or other.text}{on}"
            if "SEMI" not in side and "ANTI" not in side:
                relations.append(other)
                shown = shown + inside
            else:
                relations.append(other)
        return text, plain or shown, relations

    def match(self, left: Sequence[Column], right: Sequence[Column]) -> str:
        """A join's condition."""
        one = self.chance.choice(left)
        same = [column for column in right if column.kind == one.kind]
        if not same:
            return condition(self.chance, [*left, *right], 0)
        text = f"{one.text} = {self.chance.choice(same).text}"
        return text if self.chance.random() < 0.7 else f"{text} AND {condition(self.chance, list(right), 0)}"

    def where(self, shown: list[Column], depth: int) -> str:
        """A WHERE clause or none."""
        if self.chance.random() < 0.25:
            return ""
        found = condition(self.chance, shown)
        if depth > 0 and self.chance.random() < 0.15:
            inner = self.table()
            kinds = {kind for _, kind in inner.columns}
            outer = [column for column in shown if column.kind in kinds and "." in column.text]
            if outer:
                column = self.chance.choice(outer)
                name = self.chance.choice([name for name, kind in inner.columns if kind == column.kind])
                tail = condition(self.chance, inner.qualified(), 0)
                found += self.pick(
                    f" AND {column.text} IN (SELECT {inner.name}.{name} FROM {inner.text} WHERE {tail})",
                    f" AND {self.pick('', 'NOT ')}EXISTS (SELECT 1 FROM {inner.text} WHERE {inner.name}.{name} = {column.text} AND {tail})",
                    f" AND {column.text} > (SELECT min({inner.name}.{name}) FROM {inner.text} WHERE {tail})",
                )
        return f" WHERE {found}"

    def aggregate(self, depth: int) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Counts, with and without groups."""
        text, shown, _ = self.joined(depth)
        where = self.where(shown, depth)
        shape = self.chance.random()
        column = self.chance.choice(shown)
        if shape < 0.3:
            limit = self.pick("", " LIMIT 1")
            return f"SELECT count(*) AS c FROM {text}{where}{limit}", (("c", "int"),)
        if shape < 0.5:
            return f"SELECT c FROM (SELECT count(*) AS c FROM {text}{where}) LIMIT 1", (("c", "int"),)
        if shape < 0.6:
            inner = f"SELECT {column.text} AS g FROM {text}{where} LIMIT {self.chance.randint(0, 4)}"
            return f"SELECT count(*) AS c FROM ({inner})", (("c", "int"),)
        other = self.chance.choice(shown).text
        group = f"SELECT {column.text} AS g, count({other}) AS c, max({other}) AS m FROM {text}{where} GROUP BY {column.text}"
        return group + self.pick("", " HAVING count(*) > 1"), (("g", column.kind), ("c", "int"))

    def union(self, depth: int) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Set operations over one column of each side, and counts of what they give."""
        sides = []
        for _ in range(2):
            relation = self.relation(depth - 1)
            name = next((name for name, kind in relation.columns if kind == "int"), None)
            column = f"{relation.name}.{name}" if name else "1"
            sides.append(f"SELECT {column} AS g FROM {relation.text}{self.where(relation.qualified(), 0)}")
        kind = self.pick("UNION ALL", "UNION", "EXCEPT", "INTERSECT", "MINUS", "EXCEPT ALL")
        both = f"{sides[0]} {kind} {self.pick(sides[1], f'({sides[1]})')}"
        if self.chance.random() < 0.25:
            return f"SELECT count(*) AS g FROM ({both} LIMIT 2)", (("g", "int"),)
        return both, (("g", "int"),)

    def with_(self, depth: int) -> tuple[str, tuple[tuple[str, str], ...]]:
        """A common table expression, now and then of a table's name."""
        text, columns = self.query(depth - 1)
        name = self.pick("t", "u", self.alias(), self.alias())
        before = self.ctes
        kept = tuple(cte for cte in before if cte.name != name)
        found = Relation(name, name, columns)
        self.ctes = (*kept, found)
        if name in TABLES:  # the body would name the hidden table's columns
            relation = found
            body = f"SELECT * FROM {name}{self.where(relation.qualified(), 0)}"
            shown = columns
        else:
            body, shown = self.query(depth - 1)
        self.ctes = before
        return f"WITH {name} AS ({text}) {body}", shown

    def pipe(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Pipes."""
        columns = TABLES["t"]
        text = "FROM t"
        plain = [Column(name, kind) for name, kind in columns]
        for _ in range(self.chance.randint(1, 3)):
            text += self.pick(
                f" |> WHERE {condition(self.chance, plain)}",
                " |> AS z",
                " |> EXTEND 1 AS e |> DROP e",
                " |> ORDER BY k |> LIMIT 3",
            )
        if self.chance.random() < 0.5:
            return text + " |> AGGREGATE count(*) AS c", (("c", "int"),)
        return text, columns

    def lateral(self, depth: int) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Lateral views and lateral subqueries, samples whose answers are counts."""
        shape = self.chance.random()
        relation = self.table()
        names = relation.qualified()
        where = self.where(names, depth)
        if shape < 0.35:
            view = self.pick(
                "LATERAL VIEW explode(array(1, 2)) lv AS e", "LATERAL VIEW OUTER explode(array(k)) lv AS k2"
            )
            column = self.chance.choice(names)
            return f"SELECT {column.text} AS g FROM {relation.text} {view}{where}", (("g", column.kind),)
        if shape < 0.7:
            other = self.table()
            if other.name == relation.name:
                return self.select(0)
            inner = f"SELECT count(*) AS c FROM {other.text} WHERE {self.match(names, other.qualified())}"
            join = self.pick(", LATERAL", "CROSS JOIN LATERAL", "LEFT JOIN LATERAL")
            on = " ON true" if "LEFT" in join else ""
            return f"SELECT {names[0].text} AS g, c FROM {relation.text} {join} ({inner}) l{on}{where}", (
                ("g", names[0].kind),
                ("c", "int"),
            )
        table, sample = self.pick("t", "u", "w"), self.pick("(100 PERCENT)", "(1 ROWS)", "(3 ROWS)", "(0 PERCENT)")
        return f"SELECT count(*) AS c FROM {table} TABLESAMPLE {sample} {self.pick('', 'z')}", (("c", "int"),)


def query(seed: int) -> str:
    """The query of a seed."""
    maker = Maker(Random(seed))
    return maker.query(maker.chance.choice((0, 1, 1, 2, 2, 3)))[0]
