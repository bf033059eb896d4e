"""MERGE of few rows in the driver: pairs are found by their keys there, and what clauses make of them is gathered where
it is columns as they are. Spark evaluates only other values and conditions, over the pairs.

    joined = Joined.of(merge, scope, identity, target, source)     None where the condition or a type says more
    joined.matched(spark), joined.inserted(spark)                  None where Spark has to look at names

Pairs go to Spark as rows of two members, named as the tables are: `t.c` means in them what it means in the statement.

Spec: docs/spec/row_changes.md#merge
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.lazy import pc
from bucketlake.spark.arrow_rows import arrow_layout, spread
from bucketlake.spark.assignment import is_final
from bucketlake.spark.changes import PLACE
from bucketlake.spark.conform import char_mark
from bucketlake.spark.merge.clauses import INSERT, NAME, Clause, Merge, Side, Value
from bucketlake.spark.merge.held import NUMBER, Held, Target, held_here, hold
from bucketlake.spark.merge.outcome import KIND, Scope, outcome
from bucketlake.spark.merge.pruning import as_column, equals_alike, mentioned
from bucketlake.spark.types import spark_type
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

Identity = Mapping[str, tuple[str, T.DataType]]
"""Columns that say which row of the target it is: their names in an outcome → the target's columns and types."""
_WHOLE = [T.ByteType(), T.ShortType(), T.IntegerType(), T.LongType()]  # each wider than the last
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Joined:
    """Both sides' rows, and their places in pairs: `left` among those of the target, `right` of the source. A row of
    the source is in `right` once for each row that it matches; no row of the target twice."""

    merge: Merge
    scope: Scope
    identity: Identity
    target: pa.Table
    source: Held
    left: np.ndarray
    right: np.ndarray

    @classmethod
    def of(cls, merge: Merge, scope: Scope, identity: Identity, target: Target, source: Held) -> Joined | None:
        """The pairs of few rows, if the condition is the equality of columns whose equal values are the same
        everywhere, and a row of the target can match one of the source at most."""
        if target.data is None or source.data is None or not merge.only or merge.of(Side.NOT_MATCHED_BY_SOURCE):
            return None
        names = [name.lower() for name in source.schema.names]
        if len(set(names)) < len(names) or not is_final(scope.schema.fields):
            return None
        kinds = {item.name: item.dataType for item in source.schema.fields}
        pairs = {item.column: item.source for item in merge.equalities if item.source is not None}
        if len(pairs) < len(merge.equalities) or not pairs:
            return None
        fields = [scope.schema.field(name) for name in pairs]
        if any(pairs[f.name] not in kinds or not equals_alike(f.type, kinds[pairs[f.name]]) for f in fields):
            return None
        left = target.data.select([field.name for field in fields])
        right = [as_column(f.type, source.data.column(pairs[f.name])) for f in fields]
        found = _paired(left, pa.Table.from_arrays(right, names=left.column_names))
        return None if found is None else cls(merge, scope, identity, target.data, source, *found)

    # ---- the two sides

    def matched(self, spark: SparkSession) -> Held | None:
        """Every pair as what the MATCHED clauses make of it, with `NUMBER` of the source's row."""
        clauses = self.merge.of(Side.MATCHED)
        certain = clauses[0].condition is None  # the first clause takes every pair
        clauses = clauses[:1] if certain else clauses
        plain = {item.name: self._plain(clauses, item, certain) for item in self.scope.asked}
        asked = [item for item in self.scope.asked if plain[item.name] is None]
        told: pa.Table | None = None
        if asked or not certain:
            told = self._evaluated(spark, clauses, asked)
            if told is None:
                return None
        columns: dict[str, pa.ChunkedArray] = {}
        for item in self.scope.asked:
            found = plain[item.name]
            if found is None:
                assert told is not None
                columns[item.name] = told.column(item.name)
            else:
                columns[item.name] = self._gathered(found, self.left, self.right)
        kinds = pa.chunked_array([np.full(len(self.left), clauses[0].kind, np.int8)])
        columns[KIND] = kinds if told is None else told.column(KIND)
        for name, (own, _) in self.identity.items():
            columns[name] = self.target.column(own).take(self.left)
        assert self.source.data is not None
        columns[NUMBER] = self.source.data.column(NUMBER).take(self.right)
        return self._held(spark, self.scope.asked, columns, {NUMBER: T.LongType()})

    def inserted(self, spark: SparkSession) -> Held | None:
        """The source's rows that match none as what the NOT MATCHED clause makes of them; None where it says more than
        columns of the source."""
        clauses = self.merge.of(Side.NOT_MATCHED)
        if clauses[0].condition is not None:
            return None
        values = {value.path: value for value in clauses[0].values}
        unmatched = np.ones(self.source.count, np.bool_)
        unmatched[self.right] = False
        rest = np.flatnonzero(unmatched)
        columns: dict[str, pa.ChunkedArray] = {}
        for item in self.scope.schema.fields:
            value = values.get((item.name,))
            side = None if value is None else self._side(value, item)
            if value is None:
                columns[item.name] = _nulls(_layout(item), len(rest))
            elif side is not None and side[0] == self.merge.source:
                columns[item.name] = self._gathered(side, _NONE, rest)
            else:
                return None
        columns[KIND] = pa.chunked_array([np.full(len(rest), INSERT, np.int8)])
        for name, (own, _) in self.identity.items():
            columns[name] = _nulls(self.target.schema.field(own).type, len(rest))
        return self._held(spark, self.scope.schema.fields, columns, {})

    # ---- columns

    def _plain(self, clauses: Sequence[Clause], item: DataField, certain: bool) -> tuple[str, str] | None:
        """The table and its column that give this column of every pair; None where that is not one column."""
        own = [value for clause in clauses for value in clause.values if value.path[0] == item.name]
        old = self.merge.target, item.name
        if not own:
            return old
        side = self._side(own[0], item) if certain and len(own) == 1 else None
        if side is None:
            return None
        if item.name in self.scope.schema.primary_keys:
            same = any(e.column == item.name and side == (self.merge.source, e.source) for e in self.merge.equalities)
            return old if same or side == old else None
        return side

    def _side(self, value: Value, item: DataField) -> tuple[str, str] | None:
        """The table and column that a value is, of the column's own type."""
        if len(value.path) > 1 or value.keeps or value.text.strip() in self.merge.given:
            return None
        match = NAME.fullmatch(value.text)
        found = self._columns.get(tuple(part.lower() for part in match.groups() if part)) if match else None
        return found[:2] if found is not None and _becomes(found[2], spark_type(item.type)) else None

    @cached_property
    def _columns(self) -> dict[tuple[str, ...], tuple[str, str, T.DataType]]:
        """Columns by the folded texts that mean them alone: the table, the column, its type."""
        merge, schema = self.merge, self.scope.schema
        mine = [(merge.target, f.name, spark_type(f.type)) for f in schema.fields if f.name in self.target.column_names]
        theirs = [(merge.source, f.name, f.dataType) for f in self.source.schema.fields if f.name != NUMBER]
        both = [*mine, *theirs]
        times = Counter((side.lower(), name.lower()) for side, name, _ in both)
        known = {(side.lower(), name.lower()): (side, name, kind) for side, name, kind in both}
        return {text: found for text, found in known.items() if times[text] == 1}

    def _gathered(self, side: tuple[str, str], left: np.ndarray, right: np.ndarray) -> pa.ChunkedArray:
        table, name = side
        if table == self.merge.source:
            assert self.source.data is not None
            return self.source.data.column(name).take(right)
        if name not in self.target.column_names:  # nothing is kept of rows that are deleted
            return _nulls(_layout(self.scope.schema.field(name)), len(left))
        return self.target.column(name).take(left)

    def _evaluated(self, spark: SparkSession, clauses: Sequence[Clause], asked: Sequence[DataField]) -> pa.Table | None:
        """What Spark makes of these columns of each pair, and `KIND`, in the pairs' order."""
        merge, schema = self.merge, self.scope.schema
        if not merge.qualified or merge.given:
            return None
        assert self.source.data is not None
        kept = {item.name for item in asked}
        texts = [value.text for clause in clauses for value in clause.values]
        words = " ".join([*texts, *(clause.condition or "" for clause in clauses)]).lower()
        mine = [f for f in schema.fields if f.name in kept or mentioned(words, f.name)]
        mine = [f for f in mine if f.name in self.target.column_names]
        theirs = [f for f in self.source.schema.fields if f.name != NUMBER and mentioned(words, f.name)]
        if any(char_mark(f) for f in theirs):
            return None  # a member of a struct is compared without its padding
        sides = {
            merge.target: (self.target, self.left, [T.StructField(f.name, spark_type(f.type)) for f in mine]),
            merge.source: (self.source.data, self.right, [T.StructField(f.name, f.dataType) for f in theirs]),
        }
        layout, arrays, names = T.StructType(), [], []
        for name, (rows, places, fields) in sides.items():
            if fields:
                some = rows.select([field.name for field in fields]).take(places).combine_chunks()
                arrays.append(some.to_struct_array())
                names.append(name)
                layout = layout.add(name, T.StructType(fields))
        layout = layout.add(PLACE, T.LongType())
        pairs = pa.table([*arrays, pa.array(np.arange(len(self.left)))], names=[*names, PLACE])
        scope = replace(self.scope, fields=tuple(asked), more={PLACE: F.col(PLACE)})
        try:
            found = hold(spark, outcome(spread(spark, pairs, layout), clauses, scope), most=len(self.left)).data
        except AnalysisException:
            return None  # Spark says what is wrong, in the statement's own words, over the tables themselves
        if found is None:
            return None
        return found.take(pc.sort_indices(found.column(PLACE)))

    def _held(
        self,
        spark: SparkSession,
        fields: Sequence[DataField],
        columns: dict[str, pa.ChunkedArray],
        more: dict[str, T.DataType],
    ) -> Held:
        layout = arrow_layout(fields)
        plain = [columns[f.name].cast(kind) for f, kind in zip(fields, layout.types, strict=True)]
        stored = frozenset(layout.names)
        rest = {name: column for name, column in columns.items() if name not in stored}
        data = pa.Table.from_arrays([*plain, *rest.values()], names=[*layout.names, *rest])
        kinds = {KIND: T.ByteType(), **{name: kind for name, (_, kind) in self.identity.items()}, **more}
        schema = T.StructType([T.StructField(f.name, spark_type(f.type)) for f in fields])
        for name in rest:
            schema = schema.add(name, kinds[name])
        return held_here(spark, data, schema)


def _paired(left: pa.Table, right: pa.Table) -> tuple[np.ndarray, np.ndarray] | None:
    """The places of rows with one key, ascending on the left; None where two on the right have one. Columns one beside
    the other; a null equals nothing."""
    keys = [f"k{place}" for place in range(left.num_columns)]
    kinds = zip(right.columns, left.schema.types, strict=True)
    own = pa.Table.from_arrays([column.cast(kind) for column, kind in kinds], names=keys)
    own = own.append_column("right", pa.array(np.arange(own.num_rows))).drop_null()
    if own.num_rows and own.group_by(keys, use_threads=False).aggregate([]).num_rows < own.num_rows:
        return None
    rows = left.rename_columns(keys).append_column("left", pa.array(np.arange(left.num_rows)))
    found = rows.join(own, keys=keys, join_type="inner", use_threads=False)
    places, others = (found.column(name).to_numpy() for name in ("left", "right"))
    order = np.argsort(places, kind="stable")
    return places[order], others[order]


def _becomes(kind: T.DataType, target: T.DataType) -> bool:
    """Whether Arrow makes of every value of a type the one of the other that Spark makes."""
    if kind == target:
        return True
    if kind in _WHOLE and target in _WHOLE:
        return _WHOLE.index(kind) < _WHOLE.index(target)
    if not isinstance(kind, T.DecimalType) or not isinstance(target, T.DecimalType):
        return False
    return bool(kind.scale <= target.scale and kind.precision - kind.scale <= target.precision - target.scale)


def _layout(item: DataField) -> pa.DataType:
    return arrow_layout([item]).types[0]


def _nulls(kind: pa.DataType, count: int) -> pa.ChunkedArray:
    return pa.chunked_array([pa.nulls(count, kind)])
