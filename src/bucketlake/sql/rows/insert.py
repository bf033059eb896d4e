"""INSERT INTO and INSERT OVERWRITE: the query's columns meet the table's by position or name, as Paimon's connector has
it.

Spec: docs/sql/insert.md
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from bucketlake.errors import BucketlakeError, ConflictError, InvalidError, UnsupportedError, did_you_mean
from bucketlake.ops.change.row_conflicts import EMPTY, Read, made_anew
from bucketlake.ops.table.known import is_altered
from bucketlake.schema.merging import MERGE_SCHEMA
from bucketlake.spark import instants
from bucketlake.spark.assignment import positional
from bucketlake.spark.settings import require_quotes
from bucketlake.spark.types import quoted, spark_type
from bucketlake.spark.write.parquet_rows import Source
from bucketlake.spark.write.replacing import DYNAMIC_OVERWRITE, replaced_partition
from bucketlake.spark.write.writer import OVERWRITE_MODE, WriteRequest, write
from bucketlake.sql.query import query
from bucketlake.sql.query.travel import session_options
from bucketlake.sql.rows import plain_values
from bucketlake.sql.rows.target import may_read
from bucketlake.sql.rows.upsert import upserted, upserts
from bucketlake.sql.rows.ways import Explained
from bucketlake.sql.text import names
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.tokens import tokenize
from bucketlake.types.model import Root
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from bucketlake.schema.schema import TableSchema
    from bucketlake.spark.session import Lake
    from bucketlake.spark.table import LakeTable

_Planned = tuple["LakeTable", "DataFrame | pa.Table", WriteRequest]
_LOOKS = 5
HIVE_STYLE = "write.hive-style-dynamic-partition.enabled"


@dataclass(slots=True)
class Insert:
    """A parsed INSERT. `partition`: column -> the constant's text, or None where the value comes from the query;
    `replaced`: the condition of REPLACE WHERE; `named`: the query, where its word DEFAULT may be a column's name;
    `evolves`: WITH SCHEMA EVOLUTION."""

    overwrite: bool
    partition: dict[str, str | None] | None = None
    columns: list[str] | None = None
    by_name: bool = False
    replaced: str | None = None
    query: str = ""
    named: str = ""
    options: dict[str, str] = field(default_factory=dict)
    evolves: bool = False

    def run(self, lake: Lake, name: names.LakeName) -> None:
        """One commit. Rows that replace those that they are made of are made again where others changed these."""
        if self.made_of(lake, name) is None:
            self.prepared(lake, name)()
            return
        table = lake.table(name.full).with_options(self._options(lake, name))
        made_anew(table.table.store, partial(self.prepared, lake, name))

    def made_of(self, lake: Lake, name: names.LakeName) -> Read | None:
        """The table's snapshot as of now, where the INSERT replaces rows and its query may read the table."""
        table = lake.table(name.full)
        if not (self.overwrite or self.replaced is not None) or not may_read(lake, table, self.query):
            return None
        store = table.with_options(self._options(lake, name)).table.store
        return store.latest_snapshot() or EMPTY

    def prepared(self, lake: Lake, name: names.LakeName, read: Read | None = None) -> Callable[[], None]:
        """What remains to be done once the query's tables are read as of now: one commit. `read`: the snapshot of the
        table that what replaces its rows is made of."""
        return partial(_write, lake, *self._planned(lake, name, read))

    def explained(self, lake: Lake, name: names.LakeName) -> Explained:
        """What the rows become and replace, nothing done.

        Spec: docs/spec/row_changes.md#explain
        """
        table, _, request = self._planned(lake, name, None)
        return Explained(name.full, f"INSERT{self._effect(table, request)}", self._read(lake)[0])

    def _options(self, lake: Lake, name: names.LakeName) -> dict[str, str]:
        """The session's options for the table and the statement's own."""
        evolution = {MERGE_SCHEMA: "true"} if self.evolves else {}
        return {**session_options(lake, name), **self.options, **evolution}

    def _effect(self, table: LakeTable, request: WriteRequest) -> str:
        """What becomes of rows that are there."""
        if self.replaced is not None:
            return f", in the place of the rows where {self.replaced}"
        if request.partition:
            parts = ", ".join(f"{key}={value}" for key, value in request.partition.items())
            return f"{', in the place of' if self.overwrite else ' into'} partition {parts}"
        if self.overwrite:
            return f", in the place of {'the partitions that rows come for' if request.dynamic else 'all rows'}"
        if upserts(table):
            return ", rows whose key is there update its row"
        engine = table.schema.table_options.get("merge-engine")
        return f", rows of one key are merged ({engine})" if table.schema.primary_keys else ", rows are added"

    def _planned(self, lake: Lake, name: names.LakeName, read: Read | None) -> _Planned:
        """The table, the rows that go into it, and how. ConflictError where its columns keep changing."""
        for _ in range(_LOOKS):
            table, rows, request = self._looked(lake, name, read)
            own = not isinstance(rows, pa.Table) and may_read(lake, table, self.query)
            if not (own and is_altered(table.table.store)):  # else the query's look at it may be of other columns
                return table, rows, request
        raise ConflictError("the table's columns keep changing", table=name.full, remedy="try again")

    def _looked(self, lake: Lake, name: names.LakeName, read: Read | None) -> _Planned:
        options = self._options(lake, name)
        table = lake.table(name.full).with_options(options)
        if table.table.view is not None:
            table.table.for_writing()  # refuses it, whatever the rows
        rows = self._plain_rows(table)
        if rows is not None:
            return table, rows, WriteRequest(local=True)
        static = _static(self, table)
        _, frame = self._read(lake)
        source = None
        if self.by_name:
            values = [F.expr(_static_cast(text, column, table.schema)).alias(column) for column, text in static.items()]
            frame = frame.select("*", *values) if values else frame
        else:
            listed = _listed(self, _order(frame, self, table, static))
            brought = _brought(self, frame, listed, table)
            listed += brought
            source = None if brought else Source(frame, tuple(listed))
            frame = positioned(frame, listed, table, static)
        partition = _static_values(lake, static, table) or None
        evolves = self.by_name or self.evolves
        request = WriteRequest(local=Cursor(self.query).sees("VALUES"), evolves=evolves, read=read, source=source)
        if self.replaced is not None:
            require_quotes(lake.spark, [self.replaced])
            partition = replaced_partition(self.replaced, table.table)
            request = replace(request, mode="overwrite", partition=partition, dynamic=False)
        elif self.overwrite:
            dynamic = _dynamic(lake.spark, self, table.schema, static)
            options[DYNAMIC_OVERWRITE] = str(dynamic).lower()
            request = replace(request, mode="overwrite", partition=partition, dynamic=dynamic)
        return table.with_options(options), frame, request

    def _read(self, lake: Lake) -> tuple[str, DataFrame]:
        """The query and its rows. DEFAULT is a column that is called so, as Spark has it, before it is a default."""
        if self.named:
            with suppress(AnalysisException, BucketlakeError):
                frame = query.run(lake, self.named)
                _ = frame.schema  # Connect says only now that there is none
                return self.named, frame
        return self.query, query.run(lake, self.query)

    def _plain_rows(self, table: LakeTable) -> pa.Table | None:
        """The rows to append, where their text alone tells them; None where Spark has to."""
        placed = self.by_name or self.partition is not None or table.options.get(HIVE_STYLE)
        tokens = tokenize(self.query)
        if self.overwrite or self.replaced is not None or placed or not tokens or not tokens[0].is_word("VALUES"):
            return None
        if upserts(table) or instants.rules(table.spark, table.options).policy != "CAST":
            return None
        listed = _listed(self, list(table.schema.field_names))
        return plain_values.rows_of(tokens, self.query, listed, table.schema)


def _write(lake: Lake, table: LakeTable, rows: DataFrame | pa.Table, request: WriteRequest) -> None:
    if request.mode == "append" and upserts(table) and not isinstance(rows, pa.Table):
        upserted(table, rows)
        return
    write(lake.spark, table.table, rows, request)


def _dynamic(spark: SparkSession, insert: Insert, schema: TableSchema, static: dict[str, str]) -> bool:
    """Whether only the partitions that the query yields are replaced: Spark's partitionOverwriteMode says, unless the
    statement names a partition whole."""
    if len(static) >= len(schema.partition_keys):
        return False
    mode = insert.options.get(DYNAMIC_OVERWRITE)
    if mode is not None:
        return mode.lower() == "true"
    return str(spark.conf.get(OVERWRITE_MODE, "static")).lower() == "dynamic"


def _static(insert: Insert, table: LakeTable) -> dict[str, str]:
    """The PARTITION clause's given values by the table's column names; InvalidError for other columns."""
    if insert.partition is None:
        return {}
    keys = table.schema.partition_keys
    found: dict[str, str] = {}
    for column, value in names.own_spelling(insert.partition, keys).items():
        if column not in keys:
            raise InvalidError(
                "[NON_PARTITION_COLUMN] PARTITION names a column that does not partition the table",
                table=table.name,
                column=column,
                partition_keys=list(keys),
                remedy=did_you_mean(column, keys) or "name partition columns only",
            )
        if value is not None:
            found[column] = value
    return found


def _static_cast(value: str, column: str, schema: TableSchema) -> str:
    """The value as Spark takes those of partition specifications: as a text, so that 1.9 is no INT."""
    kind = schema.field(column).type
    shown = instants.shown_type(kind, schema.table_options)
    said = value if kind.root in (Root.BINARY, Root.VARBINARY) else f"CAST({value} AS STRING)"
    text = f"try_cast({said} AS {spark_type(shown).simpleString()})"
    return text if shown == kind else f"CAST({text} AS {spark_type(kind).simpleString()})"


def _static_values(lake: Lake, static: dict[str, str], table: LakeTable) -> dict[str, object]:
    """The PARTITION values cast to their columns' types, as Python values; InvalidError for one that does not fit."""
    if not static:
        return {}
    casts = [f"{_static_cast(value, column, table.schema)} AS {quoted(column)}" for column, value in static.items()]
    row = lake.spark.sql("SELECT " + ", ".join(casts)).toArrow()
    try:
        found: dict[str, object] = row.cast(pa.schema([_in_utc(item) for item in row.schema])).to_pylist()[0]
    except OverflowError as error:
        raise UnsupportedError(
            "a PARTITION value lies outside of the years 1 to 9999",
            table=table.name,
            values=dict(static),
            remedy="give it as a column of the query, with a dynamic overwrite where rows are replaced",
        ) from error
    for column, value in static.items():
        if found[column] is None and value.upper() != "NULL":
            raise InvalidError(
                "[CAST_INVALID_INPUT] the PARTITION value is not of its column's type",
                table=table.name,
                column=column,
                value=value[:200],
            )
    return found


def _in_utc(item: pa.Field) -> pa.Field:
    """Instants as partitions have them, whatever the session's zone is."""
    return item.with_type(pa.timestamp("us", "UTC")) if getattr(item.type, "tz", None) else item


def positioned(frame: DataFrame, listed: Sequence[str], table: LakeTable, static: dict[str, str]) -> DataFrame:
    """The frame under the names of the table's columns that it gives, place by place at every level, with the values
    of the PARTITION clause; InvalidError for a different number of columns."""
    known = {field.name: field.type for field in table.schema.fields}
    given = frame.schema.fields
    if len(given) != len(listed):
        kind = "NOT_ENOUGH" if len(given) < len(listed) else "TOO_MANY"
        raise InvalidError(
            f"[INSERT_COLUMN_ARITY_MISMATCH.{kind}_DATA_COLUMNS] Cannot write to `{table.name}`, the number of data "
            f"columns ({len(given)}) doesn't match the table schema's ({len(listed)})",
            columns=list(listed),
            remedy=f"give values for {', '.join(listed)}"
            + (", or match BY NAME, which may add columns" if table.options.get(MERGE_SCHEMA) else ""),
        )
    columns: list[Column | str] = []
    for name, source in zip(listed, given, strict=True):
        kind = positional(source.dataType, spark_type(known[name])) if name in known else source.dataType
        same = kind == source.dataType
        columns.append(quoted(name) if same else F.col(quoted(name)).cast(kind).alias(name))
    values = [F.expr(_static_cast(text, name, table.schema)).alias(name) for name, text in static.items()]
    frame = frame if frame.columns == list(listed) else frame.toDF(*listed)
    plain = not values and all(isinstance(column, str) for column in columns)
    return frame if plain else frame.select(*columns, *values)


def _brought(insert: Insert, frame: DataFrame, listed: Sequence[str], table: LakeTable) -> list[str]:
    """The columns behind the table's that WITH SCHEMA EVOLUTION adds to it, by the query's names."""
    if not insert.evolves or insert.partition is not None or insert.columns is not None:
        return []
    own, brought = {name.lower() for name in table.schema.field_names}, frame.columns[len(listed) :]
    return [] if any(name.lower() in own for name in brought) else brought


def _order(frame: DataFrame, insert: Insert, table: LakeTable, static: dict[str, str]) -> list[str]:
    """The columns in which a query is taken by position: the table's, without those that PARTITION gives.

    Hive takes the partition columns that the query gives last. So is a query whose names are just these, in this
    order, where PARTITION names columns without values; and with the option one whose names are not in the table's
    order: with a PARTITION clause any, else, overwriting dynamically, one whose names are in Hive's."""
    own = [name for name in table.schema.field_names if name not in static]
    if insert.columns is not None or not (insert.partition or table.options.get(HIVE_STYLE)):
        return own
    clause = names.own_spelling(insert.partition or {}, table.schema.partition_keys)
    moved = [name for name in table.schema.partition_keys if name in own and (not clause or name in clause)]
    hive = [*(name for name in own if name not in moved), *moved]
    given = [name.lower() for name in frame.columns]
    if given == [name.lower() for name in own]:
        return own
    if insert.partition is None:
        dynamic = insert.overwrite and _dynamic(table.spark, insert, table.schema, static)
        return hive if dynamic and given == [name.lower() for name in hive] else own
    return hive if table.options.get(HIVE_STYLE) or given == [name.lower() for name in hive] else own


def _listed(insert: Insert, own: list[str]) -> list[str]:
    """The target columns in the query's order."""
    if insert.columns is None:
        return own
    known = {name.lower(): name for name in own}
    written = [name if name in own else name.lower() for name in insert.columns]  # of names alike in case, its own
    known.update({name: name for name in own})
    unknown = [name for name, key in zip(insert.columns, written, strict=True) if key not in known]
    if unknown:
        what = "[UNRESOLVED_COLUMN.WITH_SUGGESTION] no such column"
        raise InvalidError(what, column=unknown[0], columns=own, remedy=did_you_mean(unknown[0], own))
    listed = [known[key] for key in written]
    if len(set(listed)) != len(listed):
        what = "[COLUMN_ALREADY_EXISTS] INSERT names a column twice"
        raise InvalidError(what, columns=insert.columns, remedy="name each column once")
    return listed
