"""The rows of a MERGE: which match, which do not, and what becomes of each.

    matched pairs         target ⋈ source ON …                     MATCHED
    source less pairs     by the rows' numbers                     NOT MATCHED
    target less source    target left anti join source ON …        NOT MATCHED BY SOURCE

The target is not looked through for rows that only the source has, so that a small source is sent to the target's rows
and these stay where they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.errors import InvalidError
from bucketlake.lazy import pc
from bucketlake.schema.schema import TableSchema
from bucketlake.spark import actions
from bucketlake.spark.assignment import Rules
from bucketlake.spark.conform import as_key
from bucketlake.spark.instants import shown_schema
from bucketlake.spark.merge.clauses import INSERT, Merge, Side
from bucketlake.spark.merge.held import NUMBER, Held, Target, hold
from bucketlake.spark.merge.joined import Identity, Joined
from bucketlake.spark.merge.outcome import KIND, Scope, outcome
from bucketlake.spark.merge.pruning import extra_columns, mentioned
from bucketlake.spark.read.hidden import hidden_fields
from bucketlake.spark.types import quoted
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

_MATCHED = "__bucketlake_matched"


@dataclass(frozen=True, slots=True)
class Rows:
    """All that a MERGE changes: `parts`, the rows of each side with `KIND` and `Scope.more`. `pairs`: every matched
    pair, those that no clause takes included."""

    parts: Mapping[Side, Held]
    pairs: Held | None = None

    @property
    def few(self) -> bool:
        """Whether the driver has them all."""
        return all(part.few for part in self.parts.values())

    def data(self, *kinds: int) -> pa.Table | None:
        """The rows of these kinds, where the driver has them all."""
        if not self.parts or not self.few:
            return None
        found = []
        for part in self._of(kinds) or list(self.parts.values()):
            assert part.data is not None
            some = part.data.filter(pc.is_in(part.data.column(KIND), pa.array(kinds, pa.int8())))
            found.append(pa.Table.from_arrays(some.columns, names=some.column_names))
        return pa.concat_tables(found)

    def frame(self, *kinds: int) -> DataFrame | None:
        """The rows of these kinds, None where there can be none."""
        frames = [part.frame.where(F.col(KIND).isin(*kinds)) for part in self._of(kinds) if part.count]
        return reduce(DataFrame.union, frames) if frames else None

    def _of(self, kinds: Sequence[int]) -> list[Held]:
        """The rows of the sides that can have these kinds: only what no row of the target matches is inserted."""
        inserts, others = INSERT in kinds, bool(set(kinds) - {INSERT})
        return [part for side, part in self.parts.items() if (inserts if side is Side.NOT_MATCHED else others)]


@dataclass(frozen=True)
class Stages:
    """A MERGE over frames, or in the driver where that is all it takes (`Joined`). `identity`: further columns of the
    target that say which of its rows it is; null for rows that are not in the target. `single`: no row of the source
    matches two of the target, for certain. `asked`: the columns that are asked of matched rows, where not all."""

    spark: SparkSession
    merge: Merge
    scope: Scope
    identity: Identity
    single: bool = False
    asked: tuple[DataField, ...] | None = None

    def rows(self, target: Target, source: Held) -> Rows:
        """Evaluate every clause, each row once."""
        merge = self.merge
        scope = replace(self.scope, more={name: self.scope.old(own) for name, (own, _) in self.identity.items()})
        matched = replace(scope, fields=self.asked)
        joined = Joined.of(merge, matched, self.identity, target, source)
        parts: dict[Side, Held] = {}
        pairs: Held | None = None
        if merge.of(Side.MATCHED):
            pairs = joined.matched(self.spark) if joined is not None else None
            if pairs is None:
                both = self._both(target, source, Side.MATCHED)
                more = {**matched.more, NUMBER: F.col(NUMBER)}
                # Few match few in most cases; where not, what was found of them in vain is soon enough to be bounded.
                found = outcome(both, merge.of(Side.MATCHED), replace(matched, more=more))
                pairs = hold(self.spark, found, small=source.few, most=source.count if self.single else None)
            parts[Side.MATCHED] = pairs.without(NUMBER)
        if merge.of(Side.NOT_MATCHED):
            part = joined.inserted(self.spark) if joined is not None else None
            if part is None:
                few = source.few and (target.few if pairs is None else pairs.few)
                part = hold(self.spark, self.inserted(self._unmatched(target, source, pairs)), small=few)
            parts[Side.NOT_MATCHED] = part
        if merge.of(Side.NOT_MATCHED_BY_SOURCE):
            alone = self._both(target, source, Side.NOT_MATCHED_BY_SOURCE)
            clauses = merge.of(Side.NOT_MATCHED_BY_SOURCE)
            found = _taken(outcome(alone, clauses, scope))
            parts[Side.NOT_MATCHED_BY_SOURCE] = hold(self.spark, found, small=target.few)
        return Rows(parts, pairs)

    def _both(self, target: Target, source: Held, side: Side) -> DataFrame:
        """Matched pairs, or the rows of the target without one. The target's rows stay where they are if every task can
        be sent the columns of the source that are looked at, or those that ON compares: what equals none of them
        is left out then before the join."""
        merge, left, right = self.merge, target.frame.alias(self.merge.target), source.frame
        text = merge.text_of(side)
        if source.is_slight(lambda name: name == NUMBER or text is None or mentioned(text, name)):
            right = F.broadcast(right)
        elif side is Side.MATCHED and not target.few:
            left = self._alike(left, source).alias(merge.target)
        how = "inner" if side is Side.MATCHED else "left_anti"
        return left.join(right.alias(merge.source), merge.expr(merge.on), how)

    def _alike(self, target: DataFrame, source: Held) -> DataFrame:
        """The rows of the target that equal some row of the source in what ON compares, if these values are slight."""
        names = [name.lower() for name in source.schema.names]
        pairs = {
            item.column: item.source
            for item in self.merge.equalities
            if item.source is not None and names.count(item.source.lower()) == 1
        }
        if not pairs or not source.is_slight(lambda name: name in pairs.values()):
            return target
        keys = source.frame.select(*map(quoted, dict.fromkeys(pairs.values()))).alias(self.merge.source)
        ours, theirs = quoted(self.merge.target), quoted(self.merge.source)
        same = " AND ".join(f"{ours}.{quoted(own)} = {theirs}.{quoted(other)}" for own, other in pairs.items())
        return target.join(F.broadcast(keys), F.expr(same), "left_semi")

    def _unmatched(self, target: Target, source: Held, pairs: Held | None) -> DataFrame:
        """The rows of the source that match none."""
        own = source.frame.alias(self.merge.source)
        if pairs is None:
            return own.join(target.frame.alias(self.merge.target), self.merge.expr(self.merge.on), "left_anti")
        if source.data is not None and pairs.data is not None:
            return source.less(self.spark, pairs.data.column(NUMBER)).alias(self.merge.source)
        numbers = pairs.frame.select(F.col(NUMBER).alias(_MATCHED))
        return own.join(numbers, F.expr(f"{NUMBER} = {_MATCHED}"), "left_anti")

    def inserted(self, source: DataFrame) -> DataFrame:
        """What the NOT MATCHED clauses make of rows of the source."""
        clauses = self.merge.of(Side.NOT_MATCHED)
        absent = {name: F.lit(None).cast(kind) for name, (_, kind) in self.identity.items()}
        rows = outcome(source, clauses, replace(self.scope, more=absent))
        return rows if clauses[-1].condition is None else _taken(rows)


def _taken(rows: DataFrame) -> DataFrame:
    """The rows that a clause takes."""
    return rows.where(F.col(KIND) >= 0)


def violation() -> InvalidError:
    """Spark's error for a row of the target that several source rows match."""
    return InvalidError(
        "[MERGE_CARDINALITY_VIOLATION] The ON search condition of the MERGE statement matched a single row from the "
        "target table with multiple rows of the source table. This could result in the target row being operated on "
        "more than once with an update or delete operation and is not allowed. (Some target rows match more than one "
        "source rows.)",
        remedy="make the source's rows unique by what ON compares",
    )


def repeats(held: Held, columns: Sequence[str]) -> bool:
    """Whether two rows have one key in these columns."""
    if held.data is not None:
        groups = held.data.select(list(columns)).group_by(list(columns)).aggregate([])
        return bool(groups.num_rows < held.data.num_rows)
    kinds = {field.name: field.dataType for field in held.schema.fields}
    keys: list[Column] = [as_key(F.col(quoted(name)), kinds[name]) for name in columns]
    return bool(actions.count(held.frame.groupBy(*keys).count().where("count > 1").limit(1)))


def has_nulls(held: Held, columns: Sequence[str]) -> bool:
    """Whether a row is null in one of these columns."""
    if held.data is not None:
        return any(held.data.column(name).null_count for name in columns)
    some = reduce(lambda left, right: left | right, [F.col(quoted(name)).isNull() for name in columns])
    return bool(actions.count(held.frame.where(some).limit(1)))


def check(spark: SparkSession, merge: Merge, schema: TableSchema, source: T.StructType, rules: Rules) -> None:
    """Let Spark and the rules say what is wrong with a MERGE into a table of this schema, before anything is done."""
    extra = hidden_fields(extra_columns(merge, schema), schema)
    fields = [*shown_schema(schema.fields, schema.table_options).fields, *extra]
    target = spark.createDataFrame([], T.StructType(fields)).alias(merge.target)
    other = spark.createDataFrame([], source).alias(merge.source)
    both = target.join(other, merge.expr(merge.on), "inner")
    for side, frame in ((Side.MATCHED, both), (Side.NOT_MATCHED, other), (Side.NOT_MATCHED_BY_SOURCE, target)):
        _ = (
            outcome(frame, merge.of(side), Scope(schema, rules, merge.target, given=merge.given)).schema
            if merge.of(side)
            else None
        )
