"""Random MERGE statements: their text, and what they make of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from bucketlake.errors import InvalidError

from .model import Column, Row, assigned
from .terms import Name, Term, condition

if TYPE_CHECKING:
    from .history import History

Env = dict[str, Any]
TABLE = "db.t"


@dataclass(frozen=True)
class Clause:
    """`sets` of None: the row is deleted; "*": it is the source's; else column or member -> value."""

    text: str
    where: Term | None
    sets: Any


class Merge:
    """One MERGE into the table of a history."""

    def __init__(self, history: History) -> None:
        self.history, self.chance, self.model = history, history.chance, history.model
        self.kind = history.kind
        self.brought: Column | None = None  # by the source, of WITH SCHEMA EVOLUTION
        self.source, self.using = self._source()
        self.whole_key = bool(self.kind.key) and self.chance.random() < 0.7
        self.on_text, self.on = self._on()
        mine, theirs = self.model.names("t."), self.model.names("s.", "s")
        self.matched = self._clauses("MATCHED", mine + theirs)
        self.inserting = self._clauses("NOT MATCHED", theirs)
        self.others = self._clauses("NOT MATCHED BY SOURCE", mine)

    # ---- the statement

    def _source(self) -> tuple[list[Row], str]:
        """Rows, none of a key twice, and the table or query that has them."""
        columns = list(self.model.columns)
        form = self.chance.randrange(4)
        if form == 0:  # the table itself
            where = condition(self.chance, self.model.names("i."))
            rows = [row for row in self.model.rows if where.value({"t": row})]
            return rows, f"(SELECT i.* FROM {TABLE} i WHERE {where.text}) s"
        rows = self.history.some_rows()
        if not self.kind.key and self.chance.random() < 0.7:
            rows = list({(row["k"], row["p"]): row for row in rows}.values())
        if self.chance.random() < 0.2:
            self.history.added += 1
            self.brought = Column(f"c{self.history.added}", f"c{self.history.added}", "INT")
            rows = [{**row, self.brought.place: self.chance.choice([None, 1, 2])} for row in rows]
            columns.append(self.brought)
        query = self.history.values(rows, columns)
        if form == 1:
            self.history.lake.spark.sql(query).createOrReplaceTempView("source_rows")
            self.history.told.append(f"-- source_rows: {query}")
            return rows, "source_rows AS s"
        if form == 2:
            return rows, f"(SELECT y.* FROM ({query}) y LEFT JOIN (SELECT count(*) c FROM {TABLE}) z ON z.c >= 0) s"
        return rows, f"({query}) s"

    def _on(self) -> tuple[str, Callable[[Env], Any]]:
        if self.whole_key:
            key = self.kind.key
            return " AND ".join(f"t.{name} = s.{name}" for name in key), lambda env: all(
                env["t"][name] == env["s"][name] is not None for name in key
            )
        more = condition(self.chance, self.model.names("t.")) if self.chance.random() < 0.3 else None
        parts = self.chance.random() < 0.6

        def holds(env: Env) -> Any:
            same = env["t"]["k"] is not None and env["t"]["k"] == env["s"]["k"]
            same = same and (not parts or env["t"]["p"] == env["s"]["p"])
            return same and (more is None or more.value(env))

        text = "t.k = s.k" + (" AND t.p <=> s.p" if parts else "") + (f" AND {more.text}" if more else "")
        return text, holds

    def _clauses(self, kind: str, names: list[Name]) -> list[Clause]:
        found = []
        for last in [False] * self.chance.randrange(3) + [True] * self.chance.randrange(2):
            where = None if last else condition(self.chance, names, 1)
            sets, text = self._action(kind, names)
            if text:
                found.append(Clause(f"WHEN {kind}{f' AND {where.text}' if where else ''} THEN {text}", where, sets))
        return found

    def _action(self, kind: str, names: list[Name]) -> tuple[Any, str]:
        if kind == "NOT MATCHED":
            return self._insertion(names)
        draw = self.chance.random()
        if draw < 0.3 and self._deletes():
            return None, "DELETE"
        if draw < 0.55 and kind == "MATCHED" and self._stars():
            return "*", "UPDATE SET *"
        sets: dict[str, Term] = {}
        for column in self.chance.sample(self.model.columns, len(self.model.columns)):
            if len(sets) < 2 and self._may_set(column):
                name, member = column.name, ""
                if column.kind == "ROW" and self.chance.random() < 0.7:
                    part, member = self.chance.choice(column.members)
                    name = f"{name}.{part}"
                sets[name] = self.history._value(column, names, member)
        return sets, "UPDATE SET " + ", ".join(f"{name} = {term.text}" for name, term in sets.items())

    def _insertion(self, names: list[Name]) -> tuple[Any, str]:
        if self.chance.random() < 0.5:
            return "*", "INSERT *"
        sets: dict[str, Term] = {}
        for column in self.model.columns:
            if column.place in ("k", "p") and self.kind.key:
                sets[column.name] = next(
                    Term(name.text, name.value) for name in names if name.text == f"s.{column.name}"
                )
            elif column.kind != "ROW" and self.chance.random() < 0.6:
                sets[column.name] = self.history._value(column, names)
        if not sets:
            return "*", "INSERT *"
        texts = ", ".join(term.text for term in sets.values())
        return sets, f"INSERT ({', '.join(sets)}) VALUES ({texts})"

    def _deletes(self) -> bool:
        if self.kind.has("data-evolution.enabled"):
            return self.kind.has("deletion-vectors.enabled")
        return self.kind.engine != "partial-update" or self.kind.has("partial-update.remove-record-on-delete")

    def _stars(self) -> bool:
        if self.kind.key:
            return self.whole_key
        return not (self.history.partitioned and self.kind.has("data-evolution.enabled"))

    def _may_set(self, column: Column) -> bool:
        return self.history._may_set(column)

    # ---- run

    def run(self) -> None:
        clauses = [*self.matched, *self.inserting, *self.others]
        if not clauses:
            return
        texts = " ".join(clause.text for clause in clauses)
        evolves = " WITH SCHEMA EVOLUTION" if self.brought else ""
        statement = f"MERGE{evolves} INTO {TABLE} t USING {self.using} ON {self.on_text} {texts}"
        if self._ambiguous():
            self.history.told.append(statement)
            with pytest.raises(InvalidError, match="MERGE_CARDINALITY_VIOLATION"):
                self.history.lake.sql(statement)
            self._widen(clauses)
            return
        stay, new = self._outcome()
        if self.kind.key and len({self.model.keyed(row) for row in new}) < len(new):
            return  # which of two new rows of a key stays is nobody's promise
        if self.kind.engine == "partial-update" and self._replaces(stay, new):
            return  # refused: it would be one row
        self.history.say(statement)
        self._widen(clauses)
        self.model.rows = stay
        self.model.put(new)

    def _widen(self, clauses: list[Clause]) -> None:
        """Columns come before rows are looked at, and stay."""
        if self.brought and any(clause.sets == "*" for clause in clauses):
            self.model.columns.append(self.brought)

    def _pairs(self, row: Row) -> list[int]:
        return [place for place, one in enumerate(self.source) if self.on({"t": row, "s": one})]

    def _ambiguous(self) -> bool:
        single = len(self.matched) == 1 and self.matched[0].sets is None and self.matched[0].where is None
        return bool(self.matched) and not single and any(len(self._pairs(row)) > 1 for row in self.model.rows)

    def _outcome(self) -> tuple[list[Row], list[Row]]:
        """The rows that the statement leaves alone, and those that it writes."""
        stay: list[Row] = []
        new: list[Row] = []
        used: set[int] = set()
        for row in self.model.rows:
            found = self._pairs(row)
            used.update(found)
            env = {"t": row, "s": self.source[found[0]]} if found else {"t": row}
            after = self._after(row, env, self.matched if found else self.others)
            if after is row:
                stay.append(row)
            elif after is not None:
                new.append(after)
                if self.kind.key and self.kind.engine != "deduplicate":
                    stay.append(row)
        for place, one in enumerate(self.source):
            if place not in used:
                after = self._after({}, {"s": one}, self.inserting)
                if after:
                    new.append(self.model.filled(after))
        return stay, new

    def _replaces(self, stay: list[Row], new: list[Row]) -> bool:
        """Whether a row comes under the key of one that is deleted."""
        left = {self.model.keyed(row) for row in self.model.rows} - {self.model.keyed(row) for row in stay}
        return any(self.model.keyed(row) in left for row in new)

    def _after(self, row: Row, env: Env, clauses: list[Clause]) -> Row | None:
        for clause in clauses:
            if clause.where is None or clause.where.value(env):
                if clause.sets == "*":
                    return dict(env["s"])
                return None if clause.sets is None else assigned(self.model, row, clause.sets, env)
        return row
