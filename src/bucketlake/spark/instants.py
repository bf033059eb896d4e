"""TIMESTAMP columns as Spark's own TIMESTAMP, where a session or call says so (`legacy-timestamp-mapping.enabled`).

A value is the instant at which clocks of the session's zone show the local time that is stored; what is written is the
local time of an instant. Handles carry the option: what shows rows of one, or takes rows for it, looks there. One that
a table has stored says nothing.

Spec: docs/spec/types.md#legacy
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.errors import UnsupportedError
from bucketlake.options.options import TableOptions
from bucketlake.options.session import PREFIXES
from bucketlake.predicate.tree import Predicate, without
from bucketlake.spark import actions
from bucketlake.spark.assignment import Rules
from bucketlake.spark.conform import char_columns
from bucketlake.spark.settings import setting_of
from bucketlake.spark.types import as_nullable, field_types, quoted, spark_schema, spark_type
from bucketlake.types.instants import LEGACY_TIMESTAMPS, as_instants, has_local_times, local_fields
from bucketlake.types.model import DataField, DataType, Root

UTC = ("UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT", "UCT", "Etc/UCT", "Zulu", "+00:00")

_SPELLINGS = (LEGACY_TIMESTAMPS, LEGACY_TIMESTAMPS.replace("-", "_").replace(".", "_"))  # of options, and in Python

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bucketlake.schema.schema import TableSchema
    from bucketlake.table import Table


def of_session(spark: SparkSession) -> bool:
    """Whether the session takes TIMESTAMP for its own."""
    value = setting_of(spark, *(prefix + LEGACY_TIMESTAMPS for prefix in PREFIXES))
    return value is not None and shows_instants(TableOptions({LEGACY_TIMESTAMPS: value}))


def of_call(spark: SparkSession, options: Mapping[str, Any]) -> bool:
    """Whether a call with these options does, or else the session."""
    own = next((options[key] for key in _SPELLINGS if options.get(key) is not None), None)
    return of_session(spark) if own is None else shows_instants(TableOptions({LEGACY_TIMESTAMPS: str(own)}))


def told(spark: SparkSession, table: Table, options: Mapping[str, Any]) -> Table:
    """The table, which was opened with these options, with what the session says of its TIMESTAMP columns."""
    if not has_local_times(table.schema.fields):
        return table
    wanted = of_call(spark, options)
    if wanted == shows_instants(table.options):
        return table
    return table.with_options({LEGACY_TIMESTAMPS: str(wanted).lower()})


def shows_instants(options: TableOptions) -> bool:
    """Whether a handle with these options does."""
    return bool(options.get(LEGACY_TIMESTAMPS))


def tells_otherwise(schema: TableSchema) -> bool:
    """Whether a handle with this schema shows columns otherwise than they are stored."""
    return shows_instants(schema.table_options) and has_local_times(schema.fields)


def rules(spark: SparkSession, options: TableOptions) -> Rules:
    """The session's rules for what a handle with these options takes."""
    found = Rules.of(spark)
    return replace(found, instants=True) if shows_instants(options) else found


def shown_type(t: DataType, options: TableOptions) -> DataType:
    """The type of a column as a handle with these options shows it."""
    return as_instants(t) if shows_instants(options) else t


def shown_schema(fields: Sequence[DataField], options: TableOptions) -> T.StructType:
    """The schema of what a handle with these options shows of columns."""
    return spark_schema([replace(item, type=shown_type(item.type, options)) for item in fields])


def made_fields(schema: T.StructType, options: TableOptions, table: Sequence[DataField] = ()) -> list[DataField]:
    """Columns for a DataFrame's, which come to a table by a handle with these options. `table`: its own columns."""
    found = field_types(schema)
    return local_fields(found, table) if shows_instants(options) else found


def unproved(fields: Sequence[DataField], options: TableOptions) -> frozenset[str]:
    """The columns of which a comparison in Spark says nothing about what is stored."""
    if not shows_instants(options):
        return frozenset()
    return frozenset(item.name for item in fields if item.type.holds(Root.TIMESTAMP))


def known_part(found: Predicate | None, fields: Sequence[DataField], options: TableOptions) -> Predicate | None:
    """A condition over columns as they are shown, as one over what is stored: parts that this says nothing of are
    opaque. CHAR is shown, and compared, as the session says."""
    names = unproved(fields, options).union(item.name for item in fields if item.type.root is Root.CHAR)
    return without(found, names) if found is not None and names else found


def refuse_stored(schema: TableSchema, what: str) -> None:
    """UnsupportedError where a handle shows columns otherwise than they are stored, for what gives those."""
    if tells_otherwise(schema):
        raise UnsupportedError(
            f"{what} with option '{LEGACY_TIMESTAMPS}'",
            option=LEGACY_TIMESTAMPS,
            columns=[item.name for item in schema.fields if item.type.holds(Root.TIMESTAMP)],
            remedy=f"RESET spark.paimon.{LEGACY_TIMESTAMPS}: TIMESTAMP is TIMESTAMP_NTZ then, which casts",
        )


def refuse_skipped(spark: SparkSession, schema: TableSchema, rows: Callable[[], DataFrame]) -> None:
    """UnsupportedError where rows that are written again, as they are shown, hold a local time that clocks of the
    session's zone skip: another one would be stored. `rows`: as they are stored."""
    if not tells_otherwise(schema):
        return
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    if zone in UTC:
        return
    items = [item for item in schema.fields if item.type.holds(Root.TIMESTAMP)]
    lost = reduce(
        lambda left, right: left | right, [_is_skipped(F.col(quoted(item.name)), item.type) for item in items]
    )
    if actions.count(rows().where(lost).limit(1)):
        raise UnsupportedError(
            "rows with local times that the session's zone skips, where clocks go forward, cannot be written again as "
            "instants of it",
            columns=[item.name for item in items],
            zone=zone,
            remedy=f"SET spark.sql.session.timeZone = UTC, or RESET spark.paimon.{LEGACY_TIMESTAMPS}",
        )


def _is_skipped(column: Column, t: DataType) -> Column:
    again = column.cast(as_nullable(spark_type(as_instants(t)))).cast(as_nullable(spark_type(t)))
    if t.root is not Root.TIMESTAMP:  # Spark compares no maps
        column, again = column.cast("string"), again.cast("string")
    return F.coalesce(column != again, F.lit(False))


def shown(frame: DataFrame, fields: Sequence[DataField], options: TableOptions) -> DataFrame:
    """Rows of a table, and what else is in the frame, as Spark sees them in the session. `fields`: the table's."""
    return as_shown(char_columns(frame, fields), options)


def as_shown(frame: DataFrame, options: TableOptions) -> DataFrame:
    """As `shown`, of rows that are no CHAR values of a table."""
    if not shows_instants(options):
        return frame
    return _recast(frame, T.TimestampNTZType, T.TimestampType())


def as_stored(frame: DataFrame) -> DataFrame:
    """Rows that a table is made of, instants as local times of the session's zone."""
    return _recast(frame, T.TimestampType, T.TimestampNTZType())


def on_clocks(frame: DataFrame) -> DataFrame:
    """Rows to look at, instants as the session's clocks show them: Arrow's are in UTC, and Python's in the zone
    of the process."""
    if all(_with(kind, T.TimestampType, T.TimestampNTZType()) == kind for kind in (f.dataType for f in frame.schema)):
        return frame
    numbers = [str(place) for place in range(len(frame.columns))]  # names may occur more than once
    return as_stored(frame.toDF(*numbers)).toDF(*frame.columns)


def _recast(frame: DataFrame, old: type[T.DataType], new: T.DataType) -> DataFrame:
    columns = []
    for item in frame.schema.fields:
        kind, column = _with(item.dataType, old, new), F.col(quoted(item.name))
        columns.append(column if kind == item.dataType else column.cast(as_nullable(kind)).alias(item.name))
    return frame.select(*columns)


def _with(kind: T.DataType, old: type[T.DataType], new: T.DataType) -> T.DataType:
    """The type with `new` in the place of `old`, at any depth."""
    if isinstance(kind, T.StructType):
        members = [T.StructField(f.name, _with(f.dataType, old, new), f.nullable, f.metadata) for f in kind.fields]
        return T.StructType(members)
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_with(kind.elementType, old, new), kind.containsNull)
    if isinstance(kind, T.MapType):
        key, value = (_with(part, old, new) for part in (kind.keyType, kind.valueType))
        return T.MapType(key, value, kind.valueContainsNull)
    return new if isinstance(kind, old) else kind
