"""What becomes of each row: the first clause whose condition holds, and the values that it gives.

    outcome(frame, clauses, scope)   the frame's rows as rows of the table, with `KIND`: the row kind that is written
                                     for each, -1 for a row that no clause takes

Conditions and values are evaluated by Spark over the frame, whose columns are what their text may name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.schema.schema import KIND_FIELD, SEQUENCE_FIELD, TableSchema
from bucketlake.spark.assignment import Rules, check_assignment, is_final, members
from bucketlake.spark.conform import require_one_row, stored
from bucketlake.spark.merge.clauses import DELETE, INSERT, NAME, UPDATE, Clause, Value, expression
from bucketlake.spark.types import as_nullable, quoted, spark_type
from bucketlake.types.instants import as_instants
from bucketlake.types.model import DataField, DataType, Root
from bucketlake.values import dataclass

KIND = KIND_FIELD.name
NONE = -1
_WHICH, _PROBE = "__bucketlake_clause", "__bucketlake_probe_"
# The types whose nulls are written as text: as what, if not by their own names.
_NULLS: dict[type[T.DataType], str] = {
    **dict.fromkeys((T.BooleanType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType), ""),
    **dict.fromkeys((T.DecimalType, T.StringType, T.BinaryType, T.DateType, T.TimestampNTZType), ""),
    T.TimestampType: "TIMESTAMP_LTZ",  # the session says what TIMESTAMP is
}
_STAYS = "Update to partition columns is not supported for data evolution tables."
_MOVED = "Can't update the primary key column: a row's new value differs from its old one"


@dataclass(frozen=True, slots=True)
class Scope:
    """`target`: the name of the target's columns in the frame; `more`: further columns to keep, name → column.
    `deletes_rows`: a deleted row is written with all its values; else these are null. `given`: as `Merge.given`.
    `fields`: the columns that are asked for, where these are not all."""

    schema: TableSchema
    rules: Rules
    target: str
    more: Mapping[str, Column] = field(default_factory=dict)
    deletes_rows: bool = True
    given: Mapping[str, Column] = field(default_factory=dict)
    fields: tuple[DataField, ...] | None = None

    @property
    def asked(self) -> tuple[DataField, ...]:
        """The columns that are asked for."""
        return self.schema.fields if self.fields is None else self.fields

    def expr(self, text: str, name: str | None = None) -> Column:
        """A text of the statement as a column, by a name where one is given."""
        return expression(text, self.given, name)

    def old(self, name: str) -> Column:
        """A column of the target, as it is stored."""
        column = F.col(f"{quoted(self.target)}.{quoted(name)}")
        cast = self._cast(name)
        return column if cast is None else column.cast(as_nullable(spark_type(cast)))

    def old_text(self, name: str) -> str | None:
        """`old` as text, None where it is more than a column."""
        return f"{quoted(self.target)}.{quoted(name)}" if self._cast(name) is None else None

    def _cast(self, name: str) -> DataType | None:
        """The type that a column of the target is cast to, None for one that is shown as it is stored."""
        kinds = [item.type for item in self.schema.fields if self.rules.instants and item.name == name]
        return kinds[0] if kinds and kinds[0].holds(Root.TIMESTAMP) else None


def outcome(frame: DataFrame, clauses: Sequence[Clause], scope: Scope) -> DataFrame:
    """The rows in the table's columns and types, `KIND`, then `scope.more`.

    Errors: what Spark says of a text, InvalidError for values that their columns cannot take.
    """
    types = _types(frame, clauses, scope)
    certain = clauses[0].condition is None  # the first clause takes every row
    if not certain:
        frame = frame.withColumn(_WHICH, _which(clauses, scope))
    columns = [_column(clauses, item, scope, types, certain) for item in scope.asked]
    kind = _switch_text([str(clause.kind) for clause in clauses], str(NONE), certain)
    columns.append(F.expr(f"CAST({kind} AS TINYINT) AS {KIND}"))
    return frame.select(*columns, *[column.alias(name) for name, column in scope.more.items()])


def _column(
    clauses: Sequence[Clause], item: DataField, scope: Scope, types: Mapping[str, T.DataType], certain: bool
) -> Column:
    """The value of the clause that applies, in the column's type: as one text, where that can be, as each part of a
    Column costs ten calls of Java."""
    texts = [_text(clause, item, scope, types) for clause in clauses]
    words = [text for text in texts if text is not None]
    plain = certain and is_final([item])
    if len(words) == len(texts):
        text = words[0] if plain else _switch_text(words, _null_text(item), certain)
        return F.expr(f"{text} AS {quoted(item.name)}")
    values = [_value(clause, item, scope, types) for clause in clauses]
    return (values[0] if plain else _chosen(values, item, certain)).alias(item.name)


def _types(frame: DataFrame, clauses: Sequence[Clause], scope: Scope) -> dict[str, T.DataType]:
    """The type of each value by its text; lets Spark say what is wrong with any text. InvalidError for one that is made
    of several rows, or makes several."""
    texts = dict.fromkeys(value.text for clause in clauses for value in clause.values)
    conditions = dict.fromkeys(clause.condition for clause in clauses if clause.condition is not None)
    # No text names these, which Spark would take for what stands before them in the list.
    probes = [scope.expr(text, f"{_PROBE}{place}") for place, text in enumerate(texts)]
    checks = [F.when(scope.expr(text), 1).alias(f"{_PROBE}c{place}") for place, text in enumerate(conditions)]
    if not probes and not checks:
        return {}
    calls = [text for text in (*texts, *conditions) if "(" in text or text.strip() in scope.given]
    require_one_row(frame, [scope.expr(text) for text in calls])
    try:
        schema = frame.select(*probes, *checks).schema
    except AnalysisException:
        for text in conditions:  # of one that is no truth it tells our own words
            _ = frame.where(scope.expr(text)).schema
        raise
    return {text: schema.fields[place].dataType for place, text in enumerate(texts)}


def _which(clauses: Sequence[Clause], scope: Scope) -> Column:
    """The place of the first clause that applies, -1 for none."""
    found: Column = F.lit(NONE)
    for place, clause in reversed(list(enumerate(clauses))):
        found = (
            F.lit(place) if clause.condition is None else F.when(scope.expr(clause.condition), place).otherwise(found)
        )
    return found


def _switch_text(values: Sequence[str], otherwise: str, certain: bool) -> str:
    """`_switch` of texts. `certain`: the first one is taken, but may be null to Spark as any other."""
    which = ["true"] if certain else [f"{_WHICH} = {place}" for place in range(len(values))]
    whens = " ".join(f"WHEN {found} THEN {value}" for found, value in zip(which, values, strict=False))
    return f"CASE {whens} ELSE {otherwise} END"


def _switch(values: Sequence[Column], otherwise: Column) -> Column:
    result = otherwise
    for place, value in reversed(list(enumerate(values))):
        result = F.when(F.col(_WHICH) == place, value).otherwise(result)
    return result


def _chosen(values: Sequence[Column], item: DataField, certain: bool) -> Column:
    """The value of the clause that applies, in the column's type."""
    nothing = F.lit(None).cast(spark_type(item.type))
    return F.when(F.lit(True), values[0]).otherwise(nothing) if certain else _switch(values, nothing)


def _text(clause: Clause, item: DataField, scope: Scope, types: Mapping[str, T.DataType]) -> str | None:
    """What `_value` gives as text, where it is a column as it stands, or null: nothing of these can fail."""
    kind = spark_type(item.type)
    if type(kind) not in _NULLS:
        return None
    own = [value for value in clause.values if value.path[0] == item.name]
    nothing = _null_text(item)
    if not own:
        keeps = scope.deletes_rows if clause.kind == DELETE else clause.kind == UPDATE and item.id != SEQUENCE_FIELD.id
        return scope.old_text(item.name) if keeps else nothing
    checked = (*scope.schema.primary_keys, *(scope.schema.partition_keys if scope.schema.data_evolution else ()))
    if clause.kind == UPDATE and item.name in checked:
        return None
    text = own[0].text
    given = text.strip() in scope.given or len(own[0].path) > 1 or NAME.fullmatch(text) is None
    return None if given or types[text] != kind else f"({text.strip()})"  # what cannot fail needs no place


def _null_text(item: DataField) -> str:
    kind = spark_type(item.type)
    return f"CAST(NULL AS {_NULLS[type(kind)] or kind.simpleString()})"


def _value(clause: Clause, item: DataField, scope: Scope, types: Mapping[str, T.DataType]) -> Column:
    """What a clause makes of a column."""
    own = [value for value in clause.values if value.path[0] == item.name]
    if clause.kind == DELETE:
        return scope.old(item.name) if scope.deletes_rows else F.lit(None).cast(spark_type(item.type))
    if not own and clause.kind == UPDATE and item.id == SEQUENCE_FIELD.id:
        return F.lit(None).cast(spark_type(item.type))  # its commit's
    if not own:
        return F.lit(None).cast(spark_type(item.type)) if clause.kind == INSERT else scope.old(item.name)
    kind = types[own[0].text]
    if len(own[0].path) == 1 and own[0].keeps and isinstance(kind, T.StructType) and item.type.root is Root.ROW:
        value = _kept(scope.expr(own[0].text), kind, scope.old(item.name), item, scope.rules)
    elif len(own[0].path) == 1:
        value = stored(scope.expr(own[0].text), types[own[0].text], item, scope.rules)
    else:
        value = _members(scope.old(item.name), item, own, 1, scope, types)
    if clause.kind == UPDATE and item.name in scope.schema.primary_keys:
        refused = F.raise_error(F.lit(f"{_MOVED} [column={item.name}]")).cast(spark_type(item.type))
        # The old value, not its equal: -0.0 equals 0.0 and is another key.
        value = F.when(value.eqNullSafe(scope.old(item.name)), scope.old(item.name)).otherwise(refused)
    if clause.kind == UPDATE and scope.schema.data_evolution and item.name in scope.schema.partition_keys:
        refused = F.raise_error(F.lit(f"{_STAYS} [column={item.name}]")).cast(spark_type(item.type))
        value = F.when(value.eqNullSafe(scope.old(item.name)), scope.old(item.name)).otherwise(refused)
    return value


def _members(
    base: Column, item: DataField, values: Sequence[Value], depth: int, scope: Scope, types: Mapping[str, T.DataType]
) -> Column:
    """A ROW with some members set; of a null one the others are null."""
    parts = []
    for member in item.type.fields:
        own = [value for value in values if value.path[depth] == member.name]
        part = base.getField(member.name)
        if own and len(own[0].path) == depth + 1:
            part = stored(scope.expr(own[0].text), types[own[0].text], member, scope.rules)
        elif own and member.type.root is Root.ROW:
            part = _members(part, member, own, depth + 1, scope, types)
        parts.append(part.cast(spark_type(member.type)).alias(member.name))
    return F.struct(*parts)


def _kept(new: Column, source: T.StructType, old: Column, item: DataField, rules: Rules) -> Column:
    """The new value of a ROW, with the old one's members where it has none. Null where it is null and keeps nothing."""
    check_assignment(source, spark_type(as_instants(item.type) if rules.instants else item.type), item.name, rules)
    own = members(source, T.StructType(spark_type(item.type).fields), rules, item.name)
    parts = []
    for given, member in zip(own, item.type.fields, strict=True):
        if given is None:
            part = old.getField(member.name)
        elif isinstance(given.dataType, T.StructType) and member.type.root is Root.ROW:
            part = _kept(new.getField(given.name), given.dataType, old.getField(member.name), member, rules)
        else:
            part = stored(new.getField(given.name), given.dataType, member, rules)
        parts.append(part.cast(spark_type(member.type)).alias(member.name))
    gone = new.isNull() & old.isNull() if _keeps(source, item, rules) else new.isNull()
    return F.when(~gone, F.struct(*parts))


def _keeps(source: T.StructType, item: DataField, rules: Rules) -> bool:
    """Whether a ROW has members, at any depth, that the source lacks."""
    own = members(source, T.StructType(spark_type(item.type).fields), rules, item.name)
    return any(
        given is None
        or (
            isinstance(given.dataType, T.StructType)
            and member.type.root is Root.ROW
            and _keeps(given.dataType, member, rules)
        )
        for given, member in zip(own, item.type.fields, strict=True)
    )
