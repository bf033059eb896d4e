"""A MERGE said in Python, clause by clause, with the names of Spark's `DataFrame.mergeInto`:

    t.merge(changes, "t.id = source.id").whenMatched("source.gone").delete().whenMatched().updateAll() \\
        .whenNotMatched().insertAll().merge()

Clauses apply in the order in which they are given. Nothing happens before `merge()`.

Spec: docs/sql/merge.md#dataframes
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql import Column, DataFrame

from bucketlake.errors import InvalidError, no_attribute
from bucketlake.spark.merge.clauses import DELETE, INSERT, UPDATE, Side
from bucketlake.spark.raised import told_as_ours
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.format.metadata.snapshot import Snapshot

VALUES = """values are SQL expressions, in which a text stands in quotes: {"column": "'text'"}"""
Expression: TypeAlias = "str | Column"  # SQL text, or a column over the two tables' names


@dataclass(frozen=True, slots=True)
class Asked:
    """One clause. `values`: column → expression or constant, None: all columns from the source's of the same name."""

    side: Side
    kind: int
    condition: Expression | None = None
    values: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class MergeBuilder:
    """A MERGE of a DataFrame into a table; immutable: each call gives another. `target`, `source`: the names that
    qualify columns; `run`: what `merge` calls."""

    frame: DataFrame
    on: Expression
    target: str
    source: str
    run: Callable[[MergeBuilder], Snapshot | None]
    clauses: tuple[Asked, ...] = ()
    evolves: bool = False

    def __repr__(self) -> str:
        clauses = f"{len(self.clauses)} clause{'' if len(self.clauses) == 1 else 's'}"
        return f"MergeBuilder({self.target!r}, on={self.on!r}, {clauses}: merge() does it)"

    def whenMatched(self, condition: Expression | None = None) -> WhenMatched:
        """Rows of the target that a row of the source matches, and that the condition is true for."""
        return WhenMatched(self, condition)

    def whenNotMatched(self, condition: Expression | None = None) -> WhenNotMatched:
        """Rows of the source that match none of the target."""
        return WhenNotMatched(self, condition)

    def whenNotMatchedBySource(self, condition: Expression | None = None) -> WhenNotMatchedBySource:
        """Rows of the target that no row of the source matches."""
        return WhenNotMatchedBySource(self, condition)

    def withSchemaEvolution(self) -> MergeBuilder:
        """Columns that only the source has are added to the table."""
        return replace(self, evolves=True)

    def merge(self) -> Snapshot | None:
        """Do it, in at most one commit; its snapshot, None where nothing was to change.

        Errors: those of MERGE INTO.
        """
        if not self.clauses:
            raise InvalidError("a merge without clauses", remedy="add whenMatched(), whenNotMatched(), …")
        with told_as_ours(VALUES):
            return self.run(self)

    def plus(self, clause: Asked) -> MergeBuilder:
        """With one clause more."""
        return replace(self, clauses=(*self.clauses, clause))

    if not TYPE_CHECKING:  # a checker must know which names there are

        def __getattr__(self, name: str) -> Any:
            meant = _meant(MergeBuilder, name, _RUNS)
            raise no_attribute(self, name, {}, {} if meant is None else {name: meant})


@dataclass(frozen=True, slots=True)
class _When:
    builder: MergeBuilder
    condition: Expression | None

    def _then(self, side: Side, kind: int, values: Mapping[str, Any] | None) -> MergeBuilder:
        if values is not None and not values and kind != DELETE:
            raise InvalidError("a clause that sets nothing", remedy="give column → expression")
        return self.builder.plus(Asked(side, kind, self.condition, values))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            meant = _meant(type(self), name, {})
            raise no_attribute(self, name, {}, {} if meant is None else {name: meant})


@dataclass(frozen=True, slots=True)
class WhenMatched(_When):
    """What becomes of matched rows."""

    def update(self, assignments: Mapping[str, Any]) -> MergeBuilder:
        """Set columns, or members of ROW columns ("a.b"), to SQL text, Columns, or constants that are no text."""
        return self._then(Side.MATCHED, UPDATE, assignments)

    def updateAll(self) -> MergeBuilder:
        """Set all columns from the source's of the same name."""
        return self._then(Side.MATCHED, UPDATE, None)

    def delete(self) -> MergeBuilder:
        """Delete them."""
        return self._then(Side.MATCHED, DELETE, {})


@dataclass(frozen=True, slots=True)
class WhenNotMatched(_When):
    """What becomes of rows that only the source has."""

    def insert(self, assignments: Mapping[str, Any]) -> MergeBuilder:
        """Insert them with these columns, values as for `update`; others are null."""
        return self._then(Side.NOT_MATCHED, INSERT, assignments)

    def insertAll(self) -> MergeBuilder:
        """Insert them as they are."""
        return self._then(Side.NOT_MATCHED, INSERT, None)


@dataclass(frozen=True, slots=True)
class WhenNotMatchedBySource(_When):
    """What becomes of rows that only the target has."""

    def update(self, assignments: Mapping[str, Any]) -> MergeBuilder:
        """Set columns, to values as of `WhenMatched.update`."""
        return self._then(Side.NOT_MATCHED_BY_SOURCE, UPDATE, assignments)

    def delete(self) -> MergeBuilder:
        """Delete them."""
        return self._then(Side.NOT_MATCHED_BY_SOURCE, DELETE, {})


_RUNS = {"execute": "merge()", "run": "merge()"}  # as other libraries end the sentence
_CLAUSES = {
    "whenNotMatchedBySource": WhenNotMatchedBySource,
    "whenNotMatched": WhenNotMatched,
    "whenMatched": WhenMatched,
}


def _meant(owner: type, name: str, others: Mapping[str, str]) -> str | None:
    """What a name is here: of another spelling (`when_matched`), or Delta's of a clause and what it does in one
    (`whenMatchedUpdateAll`); None where nothing is known."""
    letters = name.replace("_", "").lower()
    if letters in others:
        return others[letters]
    for clause, kind in _CLAUSES.items():
        behind = letters.removeprefix(clause.lower())
        does = _spelled(kind, behind)
        if owner is MergeBuilder and does is not None and behind != letters:
            return f"{clause}(…).{does}"
    return _spelled(owner, letters)


def _spelled(owner: type, letters: str) -> str | None:
    return next((f"{one}(…)" for one in dir(owner) if one.lower() == letters and not one.startswith("_")), None)
