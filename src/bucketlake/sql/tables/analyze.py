"""ANALYZE TABLE: statistics of a table's rows, computed by Spark as its own ANALYZE computes them, stored as Paimon's.

Spec: docs/spec/statistics.md
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from bucketlake.errors import InvalidError, UnsupportedError, did_you_mean
from bucketlake.format.metadata.statistics import ColumnStatistics, TableStatistics
from bucketlake.ops.clean.expire import after_commit
from bucketlake.ops.commit.analyze import commit_statistics
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.table.retry import on_newest
from bucketlake.ops.write.prepare import new_commit_user
from bucketlake.spark import actions
from bucketlake.spark.assignment import Rules
from bucketlake.spark.types import quoted, spark_type
from bucketlake.sql.tables.columns import Sensitive, has_column, spelled
from bucketlake.sql.tables.ddl import partition_spec
from bucketlake.sql.text import names
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.parsed import Statement
from bucketlake.types.instants import LEGACY_TIMESTAMPS
from bucketlake.types.model import DataField, Root
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import Row

    from bucketlake.spark.session import Lake
    from bucketlake.table import Table

# Bytes that Spark takes a value of a type to have; of texts and binaries where there are no values.
_SIZES = {
    Root.BOOLEAN: 1,
    Root.TINYINT: 1,
    Root.SMALLINT: 2,
    Root.INT: 4,
    Root.BIGINT: 8,
    Root.FLOAT: 4,
    Root.DOUBLE: 8,
    Root.DATE: 4,
    Root.TIMESTAMP: 8,
    Root.TIMESTAMP_LTZ: 8,
}
_TEXTS = {Root.CHAR: 20, Root.VARCHAR: 20, Root.BINARY: 100, Root.VARBINARY: 100}
_LONG_DECIMAL = 18  # digits that a long holds
_NDV_ERROR = "spark.sql.statistics.ndv.maxError"


def analyze(cursor: Cursor) -> Statement | None:
    """ANALYZE TABLE t [PARTITION (…)] COMPUTE STATISTICS [NOSCAN | FOR COLUMNS a, b | FOR ALL COLUMNS]."""
    cursor.expect("ANALYZE")
    if cursor.sees("TABLES"):
        return _Tables(cursor.rest())
    cursor.expect("TABLE")
    cursor.table()
    partition = cursor.accept("PARTITION")
    if partition:
        _partition(cursor)
    cursor.expect("COMPUTE", "STATISTICS")
    scan = not cursor.accept("NOSCAN")
    if cursor.accept("FOR", "ALL", "COLUMNS"):
        return _Analyze(None, partition, scan)
    wanted = cursor.listed(cursor.identifier) if cursor.accept("FOR", "COLUMNS") else []
    return _Analyze(tuple(wanted), partition, scan)


def _partition(cursor: Cursor) -> None:
    """A specification, of which columns may have no value."""
    at = cursor.at
    try:
        partition_spec(cursor)
    except InvalidError:
        cursor.at = at
        cursor.names()


@dataclass(frozen=True, slots=True)
class _Tables:
    statement: str

    def run(self, lake: Lake, name: names.LakeName) -> None:
        raise UnsupportedError("ANALYZE TABLES", remedy="ANALYZE TABLE t COMPUTE STATISTICS, table by table")


@dataclass(frozen=True, slots=True)
class _Analyze:
    columns: tuple[str, ...] | None  # None: all
    partition: bool
    scan: bool

    def run(self, lake: Lake, name: names.LakeName) -> None:
        table = lake.table(name.full).table.for_writing()
        if self.partition:
            raise UnsupportedError("Analyze table partition is not supported", table=table.name)
        if not self.scan:
            raise InvalidError("NOSCAN is ineffective with paimon", remedy="leave NOSCAN out")
        fields = _analyzed(table, self.columns, lambda: Rules.of(lake.spark).sensitive)
        found = on_newest(table.store, lambda: _computed(lake, table, fields))
        if found is not None:
            store = table.store
            after_commit(store, commit_statistics(store, new_commit_user(store), found))


def _analyzed(table: Table, wanted: Sequence[str] | None, sensitive: Sensitive) -> list[DataField]:
    """The columns to look at; InvalidError for missing ones, UnsupportedError for types that have no statistics."""
    if wanted is None:
        fields = list(table.schema.fields)
    else:
        for one in wanted:
            if not has_column(table.schema, one, sensitive):
                own_names = list(table.schema.field_names)
                what = f"Column {one} not found in {table.name}."
                raise InvalidError(what, columns=own_names, remedy=did_you_mean(one, own_names))
        own = dict.fromkeys(spelled(table.schema, (one,), sensitive)[0] for one in wanted)
        fields = [table.schema.field(one) for one in own]
    for item in fields:
        if item.type.root not in _SIZES and item.type.root not in _TEXTS and item.type.root is not Root.DECIMAL:
            shown = spark_type(item.type).simpleString()
            raise UnsupportedError(f"Analyzing on col: {item.name}, data type: {shown} is not supported.")
    return fields


def _computed(lake: Lake, table: Table, fields: Sequence[DataField]) -> TableStatistics | None:
    """The statistics of the newest snapshot, None where there is none."""
    snapshot = table.latest_snapshot()
    if snapshot is None:
        return None
    size = sum(entry.file.file_size for entry in live_entries(table.store, snapshot))
    handle = lake.table(table.name, {LEGACY_TIMESTAMPS: False}).with_options({"scan.snapshot-id": str(snapshot.id)})
    known = {item.name for item in handle.table.as_of()[0].schema.fields}
    fields = [item for item in fields if item.name in known]  # of a snapshot older than a column
    error = float(str(lake.spark.conf.get(_NDV_ERROR, "0.05")))
    expressions = [F.count(F.lit(1))]
    for item in fields:
        expressions += _expressions(item, error)
    frame = handle.read(columns=[item.name for item in fields] or None)
    row = actions.rows(frame.select(*expressions))[0]
    count = int(row[0])
    total = snapshot.total_record_count or 0
    columns = {item.name: _column(item, row, 1 + 6 * place) for place, item in enumerate(fields)}
    return TableStatistics(snapshot.id, snapshot.schema_id, count, int(size * count / total) if total else 0, columns)


def _expressions(item: DataField, error: float) -> list[Column]:
    """Six aggregates of a column: distinct values, least, greatest, nulls, average and greatest length."""
    column = F.col(quoted(item.name))
    if item.type.root is Root.CHAR and item.type.length:
        column = F.rpad(column, item.type.length, " ")  # as Spark reads it
    least, greatest = _text(F.min(column), item), _text(F.max(column), item)
    default = _TEXTS.get(item.type.root)
    if default is None:
        fixed = _SIZES.get(item.type.root) or (8 if (item.type.precision or 0) <= _LONG_DECIMAL else 16)
        average = longest = F.lit(fixed).cast("bigint")
    else:
        least = greatest = F.lit(None).cast("string")
        length = F.length(column)
        average = F.coalesce(F.ceil(F.avg(length)).cast("bigint"), F.lit(default).cast("bigint"))
        longest = F.coalesce(F.max(length).cast("bigint"), F.lit(default).cast("bigint"))
    distinct = F.least(F.approx_count_distinct(column, error), F.count(column))
    return [distinct, least, greatest, F.count(F.lit(1)) - F.count(column), average, longest]


def _text(value: Column, item: DataField) -> Column:
    """The value as Paimon writes it down."""
    if item.type.root is Root.DATE:
        return F.unix_date(value).cast("string")
    if item.type.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        return F.date_format(value, "yyyy-MM-dd HH:mm:ss.SSSSSS")
    return value.cast("string")


def _column(item: DataField, row: Row, at: int) -> ColumnStatistics:
    distinct, least, greatest, nulls, average, longest = row[at : at + 6]
    return ColumnStatistics(item.id, distinct, least, greatest, nulls, average, longest)
