"""Upstream's session as its tests see it: settings, frames of values and their words, streams in memory."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyspark.sql.types as T
from pyspark.sql import DataFrame, SparkSession

from .functions import Instance
from .values import Byte, Float, JavaList, Long, Option, Small, Unknown, shown

if TYPE_CHECKING:
    from .harness import Bench


class Pattern:
    """java.time.format.DateTimeFormatter."""

    PARTS = (("yyyy", "%Y"), ("MM", "%m"), ("dd", "%d"), ("HH", "%H"), ("mm", "%M"), ("ss", "%S"), ("SSS", "%f"))

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        for word, ours in self.PARTS:
            self.pattern = self.pattern.replace(word, ours)

    def format(self, value: Any) -> str:
        return str(value.strftime(self.pattern))


class SparkConf(dict[str, str]):
    def set(self, key: str, value: Any) -> SparkConf:
        return SparkConf({**self, key: shown(value)})


class Conf:
    def __init__(self, session: SparkSession) -> None:
        self.conf = session.conf

    def set(self, key: str, value: Any) -> None:
        self.conf.set(key, shown(value))

    def get(self, key: Any, *other: Any) -> Any:
        return self.conf.get(key, *(shown(one) for one in other))

    def unset(self, key: str) -> None:
        self.conf.unset(key)

    def getOption(self, key: str) -> Option:
        return Option(value) if (value := self.conf.get(key, None)) is not None else Option()


class Session:
    """`spark`: statements through `lake.sql`, everything else through the attached session."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.session = bench, bench.session
        self.conf = Conf(bench.session)
        self.own_catalog = False  # the suite has Paimon's catalog behind the name `spark_catalog`

    def sql(self, statement: str) -> DataFrame:
        if self.own_catalog:
            statement = re.sub(r"\bspark_catalog\b", "paimon", statement)
        self.bench.said.append(statement.strip())
        frame = self.bench.lake.sql(statement)
        frame._replayed = statement
        return frame

    def sessionState(self) -> Any:
        return SimpleNamespace(
            catalogManager=SimpleNamespace(currentNamespace=[self.bench.lake.current_database]), conf=self.conf
        )

    def createDataFrame(self, rows: Any, *schema: Any) -> DataFrame:
        rows = rows.collect() if hasattr(rows, "getNumPartitions") else rows
        if schema and isinstance(schema[0], T.StructType):
            return self.session.createDataFrame([plain(tuple(one)) for one in rows], schema[0])
        return to_frame(self.session, rows, None)

    def emptyDataFrame(self) -> DataFrame:
        return self.session.createDataFrame([], T.StructType([]))

    def close(self) -> None:
        """A suite's own session ends; the bench's stays."""

    stop = close

    def __getattr__(self, word: str) -> Any:
        if word in (
            "streams",
            "sharedState",
            "listenerManager",
            "experimental",
            "sqlContext",
            "udf",
            "newSession",
            "cloneSession",
        ):
            raise Unknown(f"spark.{word}")
        return getattr(self.session, word)


def spark_type(value: Any) -> T.DataType | None:
    """The type that Spark's encoders give a value; None for null."""
    if value is None:
        return None
    if isinstance(value, Option):
        return spark_type(value.value[0]) if value.value else None
    for kind, made in (
        (bool, T.BooleanType()),
        (Long, T.LongType()),
        (Byte, T.ByteType()),
        (Small, T.ShortType()),
        (int, T.IntegerType()),
        (Float, T.FloatType()),
        (float, T.DoubleType()),
        (str, T.StringType()),
        (Decimal, T.DecimalType(38, 18)),
        (datetime, T.TimestampType()),
        (date, T.DateType()),
        (bytes | bytearray, T.BinaryType()),
    ):
        if isinstance(value, kind):
            return made
    if isinstance(value, dict):
        key, item = next(iter(value.items()), (None, None))
        return T.MapType(spark_type(key) or T.StringType(), spark_type(item) or T.StringType())
    if isinstance(value, Instance):
        return T.StructType(
            [T.StructField(name, spark_type(one) or T.StringType()) for name, one in value.given.items()]
        )
    if isinstance(value, tuple):
        return T.StructType(
            [T.StructField(f"_{at + 1}", spark_type(one) or T.StringType()) for at, one in enumerate(value)]
        )
    if isinstance(value, list):
        return T.ArrayType(next((kind for one in value if (kind := spark_type(one))), T.StringType()))
    raise Unknown(f"a DataFrame of {type(value).__name__}")


def plain(value: Any) -> Any:
    if isinstance(value, Option):
        return plain(value.value[0]) if value.value else None
    if isinstance(value, Instance):
        return tuple(plain(one) for one in value.given.values())
    if isinstance(value, tuple):
        return tuple(plain(one) for one in value)
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {plain(key): plain(one) for key, one in value.items()}
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return float(value) if isinstance(value, float) else int(value)


def to_frame(session: SparkSession, rows: Any, names: Any, kinds: list[T.DataType] | None = None) -> DataFrame:
    found = list(rows)
    columns = [
        tuple(one.given.values()) if isinstance(one, Instance) else one if isinstance(one, tuple) else (one,)
        for one in found
    ]
    width = len(columns[0]) if columns else len(kinds or names or ())
    types = kinds or [
        next((kind for row in columns if (kind := spark_type(row[at]))), T.StringType()) for at in range(width)
    ]
    if not names:
        if found and isinstance(found[0], Instance):
            names = list(found[0].given)
        else:
            names = (
                ["value"]
                if width == 1 and not (found and isinstance(found[0], tuple))
                else [f"_{at + 1}" for at in range(width)]
            )
    if len(names) != width:
        raise Unknown("toDF of other columns")
    schema = T.StructType([T.StructField(name, kind) for name, kind in zip(names, types, strict=True)])
    return session.createDataFrame([plain(tuple(row)) for row in columns], schema)


NAMED_TYPES = {
    "Int": T.IntegerType(),
    "Long": T.LongType(),
    "String": T.StringType(),
    "Boolean": T.BooleanType(),
    "Double": T.DoubleType(),
    "Float": T.FloatType(),
}


class Writer:
    """DataStreamWriter, with Scala's words."""

    def __init__(self, writer: Any) -> None:
        self.writer = writer

    def __getattr__(self, word: str) -> Any:
        if word == "trigger":
            return lambda given: self.then(self.writer.trigger(**given.said))
        if word == "foreachBatch":
            return lambda function: self.then(self.writer.foreachBatch(function))
        found = getattr(self.writer, word)

        def call(*values: Any, **names: Any) -> Any:
            return self.then(found(*(shown(one) if word == "option" else one for one in values), **names))

        return call

    def then(self, value: Any) -> Any:
        return Writer(value) if type(value).__name__ == "DataStreamWriter" else value


class Local:
    """A Dataset of plain values."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values


def frame_words(bench: Bench) -> dict[str, Callable[..., Any]]:
    def mapped(frame: DataFrame, function: Any) -> Local:
        return Local([function(one) for one in frame.collect()])

    def as_values(frame: DataFrame, *_: Any, types: Any = ()) -> Any:
        if types and (types[0] in NAMED_TYPES or types[0].startswith("(")):
            rows = frame.collect()
            return Local([one[0] for one in rows] if types[0] in NAMED_TYPES else [tuple(one) for one in rows])
        return frame.alias(_[0]) if _ else frame

    def no_plan(*_: Any) -> Any:
        raise Unknown("plans")

    return {
        "collect": lambda a: a.collect(),
        "collectAsList": lambda a: JavaList(a.collect()),
        "takeAsList": lambda a, n: JavaList(a.take(n)),
        "show": lambda a, *b: a.collect() and None,
        "as": as_values,
        "map": mapped,
        "toDF": lambda a, *b: a.toDF(*b) if b else a,
        "foreach": lambda a, f: [f(one) for one in a.collect()] and None,
        "queryExecution": no_plan,
        "explain": no_plan,
        "rdd": no_plan,
        "inputFiles": lambda a: a.inputFiles(),
        "head": lambda a, *n: a.head(*n),
        "isEmpty": lambda a: a.isEmpty(),
        "apply": lambda a, b: a[b],
        "columns": lambda a: list(a.columns),
        "count": lambda a: a.count(),
        "writeStream": lambda a: Writer(a.writeStream),
    }


LOCAL = {
    "collect": lambda a: a.values,
    "collectAsList": lambda a: JavaList(a.values),
    "head": lambda a: a.values[0],
    "first": lambda a: a.values[0],
    "count": lambda a: len(a.values),
    "toSeq": lambda a: a.values,
    "toLocalIterator": lambda a: a.values,
}

COLUMN = {
    "equalTo": lambda a, b: a == b,
    "===": lambda a, b: a == b,
    "=!=": lambda a, b: a != b,
    "gt": lambda a, b: a > b,
    "lt": lambda a, b: a < b,
    "geq": lambda a, b: a >= b,
    "leq": lambda a, b: a <= b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "as": lambda a, b: a.alias(b),
    "isin": lambda a, *b: a.isin(*b),
}

FIELD = {
    "getComment": lambda a: Option(a.metadata["comment"]) if "comment" in (a.metadata or {}) else Option(),
    "name": lambda a: a.name,
    "metadata": lambda a: a.metadata,
}
STRUCT = {
    "fieldNames": lambda a: list(a.names),
    "fields": lambda a: list(a.fields),
    "names": lambda a: list(a.names),
    "apply": lambda a, b: a[b],
    "add": lambda a, name, kind, *more: T.StructType(
        [
            *a.fields,
            T.StructField(name, kind if isinstance(kind, T.DataType) else T._parse_datatype_string(kind), *more[:1]),
        ]
    ),
    "map": lambda a, f: [f(one) for one in a.fields],
    "find": lambda a, f: next((Option(one) for one in a.fields if f(one)), Option()),
    "exists": lambda a, f: any(f(one) for one in a.fields),
    "toDDL": lambda a: a.simpleString(),
    "length": len,
    "size": len,
    "sql": lambda a: a.simpleString().upper(),
    "head": lambda a: a.fields[0],
}
