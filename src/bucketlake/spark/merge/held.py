"""Rows that are evaluated once and used several times: in the driver where they are few, else kept by the executors.

What the executors keep cannot be computed again: with a lost executor the statement begins anew as a whole, rather than
that rows which are made by chance come out otherwise in part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.errors import UnsupportedError
from bucketlake.lazy import pc
from bucketlake.spark import actions
from bucketlake.spark.arrow_rows import collected, framed
from bucketlake.spark.conform import char_columns, char_mark
from bucketlake.spark.types import as_nullable, field_types, quoted
from bucketlake.spark.write.kept import decided, decided_later
from bucketlake.spark.write.parquet_rows import few_rows
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

FEW_ROWS = 1 << 16
MOST_VALUES = 1 << 22  # of a column that executors keep, brought to the driver: 32 MiB of numbers
FEW_BYTES = 32 << 20
BROADCAST_BYTES = 64 << 20
NUMBER = "__bucketlake_number"  # of a row, among those held


@dataclass(frozen=True)
class Held:
    """Rows, each with a `NUMBER` of its own where asked for. `schema`: their columns, whose names may repeat; `data`:
    the rows themselves, where they are few; `make`: gives the frame."""

    schema: T.StructType
    data: pa.Table | None
    count: int
    make: Callable[[], DataFrame]

    @cached_property
    def frame(self) -> DataFrame:
        """The rows as a frame, made when it is first asked for: of rows in the driver it costs some calls."""
        return self.make()

    @property
    def few(self) -> bool:
        """Whether the driver has them."""
        return self.data is not None

    @property
    def alone(self) -> list[str]:
        """The columns' names, empty where another column has the same in other letters at most."""
        times = Counter(name.lower() for name in self.schema.names)
        return [name if times[name.lower()] == 1 else "" for name in self.schema.names]

    def values(self, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
        """All values of columns that are `alone`: of rows in the driver, and of others where they are no texts and not
        too many; columns that are not told are left out."""
        if self.data is not None:
            return {name: self.data.column(name) for name in names}
        kinds = {field.name: field.dataType for field in self.schema.fields}
        small = [name for name in names if self.count <= MOST_VALUES and not isinstance(kinds[name], T.StringType)]
        data = _head(self.frame.select(*map(quoted, small))) if small else None
        return {} if data is None else dict(zip(small, data.columns, strict=True))

    def ends(self, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
        """The least and the most value of columns that are `alone`, nulls where all are; none the driver refuses."""
        if not names:
            return {}
        row = _head(self.frame.select(*[take(quoted(name)) for name in names for take in (F.min, F.max)]))
        if row is None:
            return {}
        pairs = zip(row.columns[::2], row.columns[1::2], strict=True)
        return {
            name: pa.chunked_array([*a.chunks, *b.chunks], a.type) for name, (a, b) in zip(names, pairs, strict=True)
        }

    def without(self, column: str) -> Held:
        """The same rows without a column."""
        schema = T.StructType([field for field in self.schema.fields if field.name != column])
        data = None if self.data is None else self.data.drop_columns([column])
        return Held(schema, data, self.count, lambda: self.frame.drop(column))

    def less(self, spark: SparkSession, numbers: pa.ChunkedArray) -> DataFrame:
        """The rows whose `NUMBER` is none of these, of few rows."""
        assert self.data is not None
        rest = self.data.filter(pc.invert(pc.is_in(self.data.column(NUMBER), value_set=numbers)))
        return _frame(spark, rest, self.schema)

    def is_slight(self, asked: Callable[[str], bool]) -> bool:
        """Whether every task can be sent the columns that are asked for, by what values of their types take mostly."""
        width = sum(_width(field.dataType) for field in self.schema.fields if asked(field.name))
        return self.few or self.count * width <= BROADCAST_BYTES


@dataclass(frozen=True)
class Target:
    """The rows of the target that can matter. `few`: finding them anew costs little; `data`: the rows themselves, in
    the layout of frames, where the driver has them; `make`: gives the frame."""

    make: Callable[[], DataFrame]
    few: bool
    data: pa.Table | None = None

    @classmethod
    def here(cls, spark: SparkSession, data: pa.Table, schema: T.StructType, fields: Sequence[DataField]) -> Target:
        """Rows that the driver has. `fields`: the columns of the table among theirs."""
        return cls(lambda: char_columns(framed(spark, data, schema), fields), True, data)

    @cached_property
    def frame(self) -> DataFrame:
        """The rows as a frame, made when it is first asked for."""
        return self.make()


def held_here(spark: SparkSession, data: pa.Table, schema: T.StructType) -> Held:
    """Rows that the driver has."""
    return Held(schema, data, data.num_rows, lambda: _frame(spark, data, schema))


def hold(
    spark: SparkSession, frame: DataFrame, numbered: bool = False, small: bool = True, most: int | None = None
) -> Held:
    """Evaluate a frame, whose column names may repeat. `small`: its rows are probably few, or cheap to find again;
    `most`: it has no more rows, for certain."""
    names = frame.columns
    plain = frame.toDF(*_places(names)) if _repeat(names) else frame
    schema = as_nullable(plain.schema)
    if not small:
        plain = decided_later(_numbered(plain) if numbered else plain)
    if _fits(schema):
        known = most is not None and most <= FEW_ROWS  # a limit brings all rows to one task first
        head = _head(plain if known else plain.limit(FEW_ROWS + 1))
        if head is not None and head.num_rows <= FEW_ROWS and head.nbytes <= FEW_BYTES:
            return _local(spark, head, names, schema, numbered)
    if small:
        plain = decided(_numbered(plain) if numbered else plain)
    found = plain.toDF(*names, *([NUMBER] if numbered else [])) if _repeat(names) else plain
    return Held(found.schema, None, actions.count(plain), lambda: found)


def hold_source(spark: SparkSession, frame: DataFrame, of_nothing: bool = False) -> Held:
    """Evaluate a frame as it was given, and number its rows: few rows of plain parquet files without a job of Spark's.
    `of_nothing`: it reads no table, so that to make its rows again costs less than to have Spark keep them.

    Errors: CorruptError for a file that cannot be read.
    """
    schema = as_nullable(frame.schema)
    data = few_rows(spark, frame, FEW_ROWS, FEW_BYTES) if _fits(schema) else None
    if data is None:
        return hold(spark, frame, numbered=True, small=of_nothing or frame.isLocal())
    return _local(spark, data, frame.columns, schema, numbered=True)


def _head(frame: DataFrame) -> pa.Table | None:
    """The rows, None where few are more than the driver takes."""
    try:
        return collected(frame)
    except Exception as error:
        if not actions.is_too_large(error):
            raise
        return None


def _numbered(frame: DataFrame) -> DataFrame:
    return frame.withColumn(NUMBER, F.monotonically_increasing_id())


def _local(spark: SparkSession, data: pa.Table, names: list[str], schema: T.StructType, numbered: bool) -> Held:
    schema = T.StructType([T.StructField(f.name, f.dataType, True, char_mark(f)) for f in schema.fields])
    data = data.select(schema.names)
    if numbered:
        data = data.append_column(NUMBER, pa.array(np.arange(data.num_rows)))
        schema, names = schema.add(NUMBER, T.LongType(), True), [*names, NUMBER]
    named = zip(names, schema.fields, strict=True)
    schema = T.StructType([T.StructField(name, f.dataType, True, char_mark(f)) for name, f in named])
    return held_here(spark, data.rename_columns(names), schema)


def _frame(spark: SparkSession, data: pa.Table, schema: T.StructType) -> DataFrame:
    """A frame of rows in the driver, whose column names may repeat."""
    if not _repeat(schema.names):
        return framed(spark, data, schema)
    kinds = zip(_places(schema.names), schema.fields, strict=True)
    plain = T.StructType([T.StructField(place, f.dataType, True, char_mark(f)) for place, f in kinds])
    return framed(spark, data.rename_columns(plain.names), plain).toDF(*schema.names)


def _repeat(names: Sequence[str]) -> bool:
    """Whether columns have one name. Others are named apart only then: each name is a call to the JVM."""
    return len({name.lower() for name in names}) < len(names)


def _places(names: Sequence[str]) -> list[str]:
    return [f"c{place}" for place in range(len(names))]


def _fits(schema: T.StructType) -> bool:
    """Whether all columns are of types that come back from the driver as they were."""
    try:
        field_types(schema)
    except UnsupportedError:
        return False
    return True


def _width(kind: T.DataType) -> int:
    if isinstance(kind, T.StructType):
        return sum(_width(field.dataType) for field in kind.fields)
    if isinstance(kind, (T.ArrayType, T.MapType)):
        return 200
    return 40 if isinstance(kind, (T.StringType, T.BinaryType)) else 12
