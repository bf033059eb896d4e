"""MERGE of a DataFrame: the builder's clauses read as the statement's are, and run by the same engine.

The texts stand one after the other, as if they were a statement. A Column that has no
certain text has a name that stands for it, which the engine looks up.

Spec: docs/sql/merge.md#dataframes
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame

from bucketlake.errors import InvalidError
from bucketlake.file_names import parts_of
from bucketlake.spark.column_text import column_text, expression_given, value_given
from bucketlake.spark.merge.builder import Asked, Expression, MergeBuilder
from bucketlake.spark.settings import substituted
from bucketlake.sql.rows.merge import MergeInto, Source, Text, When, check_order
from bucketlake.sql.rows.target import Target
from bucketlake.sql.text.cursor import Cursor
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.format.metadata.snapshot import Snapshot
    from bucketlake.spark.session import Lake
    from bucketlake.spark.table import LakeTable

_GIVEN = "__bucketlake_given_"


@dataclass(frozen=True, slots=True)
class _Frame(Source):
    """A DataFrame as the source. It reads what it was made to read."""

    given: DataFrame | None = None

    def frame(self, lake: Lake, millis: int | None = None) -> DataFrame:
        """Its rows, made before the statement."""
        assert self.given is not None
        return self.given


@dataclass(slots=True)
class _Reader:
    """The texts read so far, and the Columns by the names that stand for them. `frame`, `source`: what is merged, and
    what it is called."""

    frame: DataFrame
    source: str
    text: str = ""
    given: dict[str, Column] = field(default_factory=dict)

    def read(self, expression: Expression) -> Text:
        """An expression at its place. InvalidError for text that is not one expression."""
        text = expression if isinstance(expression, str) else column_text(expression, self.frame, self.source)
        if text is not None:
            cursor = Cursor(substituted(self.frame.sparkSession, text))
            found = cursor.expression()
            cursor.end()
        else:
            found = f"{_GIVEN}{len(self.given)}"
            self.given[found] = expression
        start = len(self.text)
        self.text += found + "\n"
        return Text(found, start)

    def clause(self, asked: Asked) -> When:
        """A clause as the statement's."""
        condition = None if asked.condition is None else self.read(expression_given(asked.condition))
        if asked.values is None:
            return When(asked.side, asked.kind, condition, None)
        columns = tuple(_path(name) for name in asked.values)
        values = [value_given(value, column=name) for name, value in asked.values.items()]
        return When(asked.side, asked.kind, condition, columns, tuple(map(self.read, values)))


def merge(lake: Lake, table: LakeTable, asked: MergeBuilder) -> Snapshot | None:
    """Run a MERGE that was said in Python. Errors: those of MERGE INTO."""
    table = replace(table, table=table.table.for_changing(rows=True))
    reader = _Reader(asked.frame, asked.source)
    on = reader.read(expression_given(asked.on))
    clauses = tuple(map(reader.clause, asked.clauses))
    check_order(clauses)
    parts = tuple(parts_of(table.name)) or (table.name,)
    target = Target(parts, table.name, asked.target, "", {})
    source = _Frame("", asked.source, given=asked.frame)
    statement = MergeInto(reader.text, target, source, on, clauses, asked.evolves, reader.given)
    return statement.apply(lake, table)


def _path(name: str) -> tuple[str, ...]:
    cursor = Cursor(name)
    try:
        parts = cursor.name()
        cursor.end()
    except InvalidError:
        return (name,)
    return parts
