"""A MERGE as plain values: its two tables by name, its condition, its WHEN clauses in order; and what follows from the
text of the condition.

Texts are SQL of the user's, with blanks before them where the statement has other text: positions in errors stay true.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import Enum

from pyspark.sql import Column
from pyspark.sql import types as T

from bucketlake.errors import InvalidError
from bucketlake.ops.rows.among import has_one_form
from bucketlake.schema.schema import TableSchema
from bucketlake.spark.assignment import Rules
from bucketlake.spark.column_text import expression_of
from bucketlake.spark.types import quoted, spark_type
from bucketlake.values import dataclass

TWICE = "DATATYPE_MISMATCH.INVALID_ROW_LEVEL_OPERATION_ASSIGNMENTS"  # Spark's condition for columns that are set so
INSERT, UPDATE, DELETE = 0, 2, 3  # the row kind that a clause writes
NAME = re.compile(r"\s*(?:`([^`.]+)`|(\w+))\s*\.\s*(?:`([^`.]+)`|(\w+))\s*")  # of a column, by its table's


class Side(Enum):
    """Which rows a clause is about."""

    MATCHED = "MATCHED"
    NOT_MATCHED = "NOT MATCHED"
    NOT_MATCHED_BY_SOURCE = "NOT MATCHED BY SOURCE"


@dataclass(frozen=True, slots=True)
class Value:
    """An assignment. `path`: the column, and the member of it, by the table's names; `keeps`: members of ROW that the
    value lacks stay as they are."""

    path: tuple[str, ...]
    text: str
    keeps: bool = False


@dataclass(frozen=True, slots=True)
class Clause:
    """A WHEN clause. `kind`: INSERT, UPDATE or DELETE; `star`: all columns from the source's of the same name."""

    side: Side
    kind: int
    condition: str | None = None
    values: tuple[Value, ...] = ()
    star: bool = False


@dataclass(frozen=True, slots=True)
class Equality:
    """`target = source` in the condition: a column of the target, and what stands beside it: a column of the source, or
    any other text (None)."""

    column: str
    source: str | None


@dataclass(frozen=True, slots=True)
class Merge:
    """A MERGE. `target`, `source`: the names that qualify columns; `equalities`: parts of `on` that must all hold;
    `only`: they are all of it. `words`: what a column may be named by anywhere in the statement, folded;
    `given`: Columns by the texts that stand for them. `qualified`: the clauses name each column by its table;
    `named`: the columns of the target that they name, None where that is not certain."""

    target: str
    source: str
    on: str
    clauses: tuple[Clause, ...]
    equalities: tuple[Equality, ...] = ()
    only: bool = False
    words: str = ""
    given: Mapping[str, Column] = field(default_factory=dict)
    qualified: bool = False
    named: frozenset[str] | None = None

    def expr(self, text: str) -> Column:
        """A text as a column, or the Column that it stands for."""
        return expression(text, self.given)

    def of(self, side: Side) -> list[Clause]:
        """The clauses about these rows, in order."""
        return [clause for clause in self.clauses if clause.side is side]

    def text_of(self, side: Side) -> str | None:
        """All that the condition and the clauses about these rows say, folded; None where Columns say a part."""
        parts = [self.on]
        for clause in self.of(side):
            parts += [] if clause.condition is None else [clause.condition]
            parts += [value.text for value in clause.values]
        return None if self.given else " ".join(parts).lower()

    @property
    def counts_matches(self) -> bool:
        """Whether a row of the target may match one source row at most: not so where all that match are deleted."""
        matched = self.of(Side.MATCHED)
        return bool(matched) and not (len(matched) == 1 and matched[0].kind == DELETE and matched[0].condition is None)


def expression(text: str, given: Mapping[str, Column], name: str | None = None) -> Column:
    """A text as a column, or the Column that it stands for; by a name where one is given."""
    found = given.get(text.strip()) if given else None
    if found is None:
        return expression_of(text, name)
    return found if name is None else found.alias(name)


def expanded(merge: Merge, schema: TableSchema, source: Sequence[str], rules: Rules) -> Merge:
    """The MERGE with each star as assignments. `source`: the source's columns; those that the table lacks are left out.

    Raises InvalidError for a column of the table that the source lacks, unless the rules fill what is missing.
    """
    clauses = [
        replace(clause, values=tuple(_of_star(merge, clause, schema, source, rules)), star=False)
        if clause.star
        else clause
        for clause in merge.clauses
    ]
    return replace(merge, clauses=tuple(clauses))


def _of_star(merge: Merge, clause: Clause, schema: TableSchema, source: Sequence[str], rules: Rules) -> Iterator[Value]:
    places = {name if rules.sensitive else name.lower(): name for name in source}
    for name in schema.field_names:
        found = places.get(name if rules.sensitive else name.lower())
        if found is not None:
            keeps = rules.fill and clause.kind == UPDATE
            yield Value((name,), f"{quoted(merge.source)}.{quoted(found)}", keeps)
        elif not rules.fill:
            verb = "UPDATE" if clause.kind == UPDATE else "INSERT"
            raise InvalidError(
                f"Cannot {verb} * target column '{name}': source is missing this column",
                column=name,
                source=list(source),
                remedy="name the columns, or set 'write.merge-schema' = 'true'",
            )


def check_values(clause: Clause) -> None:
    """InvalidError where a clause assigns a column twice, or a column and a member of it."""
    seen: list[tuple[str, ...]] = []
    for value in clause.values:
        for other in seen:
            shorter = min(len(value.path), len(other))
            if value.path == other:
                raise InvalidError(
                    f"[{TWICE}] Multiple assignments for '{'.'.join(other)}'",
                    remedy="assign each column once in a clause",
                )
            if value.path[:shorter] == other[:shorter]:
                raise InvalidError(
                    f"[{TWICE}] Conflicting assignments for '{'.'.join(value.path[:shorter])}'",
                    remedy="assign the column or its members",
                )
        seen.append(value.path)


def assigned(clauses: Collection[Clause]) -> set[str]:
    """The columns that clauses of these set in rows that are there."""
    return {value.path[0] for clause in clauses if clause.kind == UPDATE for value in clause.values}


def unchanged(merge: Merge, schema: TableSchema, source: T.StructType) -> frozenset[str]:
    """The columns that clauses set, in rows that match, to what these hold: to the column itself, or to the column of
    the source that the condition says it equals, if both are of one type whose equal values have one form."""
    theirs: dict[str, list[T.DataType]] = {}
    for item in source.fields:
        theirs.setdefault(item.name.lower(), []).append(item.dataType)
    same = {(item.column, item.source.lower()) for item in merge.equalities if item.source is not None}
    mine = [name.lower() for name in schema.field_names]

    def is_held(value: Value) -> bool:
        name, found = value.path[0], NAME.fullmatch(value.text)
        if len(value.path) > 1 or value.text.strip() in merge.given or found is None:
            return False
        table, column = (part.lower() for part in found.groups() if part)
        if table == merge.target.lower():
            return column == name.lower() and mine.count(column) == 1
        kind = schema.field(name).type
        equal = (name, column) in same and has_one_form(kind)
        return equal and table == merge.source.lower() and theirs.get(column) == [spark_type(kind)]

    changes = [clause for clause in merge.of(Side.MATCHED) if clause.kind == UPDATE]
    values = [value for clause in changes for value in clause.values]
    return frozenset(assigned(changes).difference(value.path[0] for value in values if not is_held(value)))


def check_keys(merge: Merge, schema: TableSchema) -> None:
    """InvalidError where a column of the primary key may change: it is set, and the condition does not say that it
    equals something of the source. Where it does, each row's value is checked.

    Columns set to themselves are none of these."""
    keyed = {item.column for item in merge.equalities}
    for clause in merge.clauses:
        if clause.kind != UPDATE:
            continue
        found = sorted(
            {
                value.path[0]
                for value in clause.values
                if value.path[0] in schema.primary_keys and not _is_itself(merge, value, schema)
            }
        )
        if found and (clause.side is not Side.MATCHED or not keyed.issuperset(schema.primary_keys)):
            raise InvalidError(
                "Can't update the primary key column in update clause.",
                columns=found,
                remedy="let the ON condition compare the whole primary key, or leave these columns out",
            )


def _is_itself(merge: Merge, value: Value, schema: TableSchema) -> bool:
    """Whether a column is set to itself; another may differ from it by case."""
    text, name = value.text.strip().replace("`", ""), value.path[0]
    own = (name, f"{merge.target}.{name}")
    alone = [other.lower() for other in schema.field_names].count(name.lower()) == 1
    return text in own or (alone and text.lower() in (part.lower() for part in own))
