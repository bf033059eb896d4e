"""Columns as SQL text: the same values and types, on both kinds of session, or no text."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType
from pyspark.sql.window import Window

import bucketlake
from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.spark.column_text import alias_of, column_text
from bucketlake.spark.session import Lake

ROWS = (
    "VALUES (1, 'a', 1.5D, 1.25BD, DATE'2024-01-01', TIMESTAMP'2024-01-01 01:02:03.000004', array(1, 2), map('k', 7), "
    "named_struct('x', 1, 'y z', 'q')), (-2, 'it''s \\\\ \"b', -0.0D, -3.5BD, DATE'1969-12-31', "
    "TIMESTAMP'1969-12-31 23:59:59.999999', array(), map(), named_struct('x', 2, 'y z', 'r')), "
    "(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) AS t(i, s, d, m, day, ts, a, k, `r.s`)"
)


def told() -> list[Any]:
    c = F.col
    return [
        c("i") == 1,
        c("s") != "it's \\ \"b",
        ~(c("i") > 0) & c("s").isNotNull() | c("i").isNull(),
        c("i").eqNullSafe(None),
        c("i").isin(1, -2, 5),
        c("i").between(-2, 0),
        c("day") >= dt.date(1970, 1, 1),
        c("ts") < dt.datetime(2024, 1, 1, 1, 2, 3, 5),
        c("m") < Decimal("1.26"),
        c("m") == Decimal("-3.50"),
        c("s") != "${i}",
        F.lit("$ {i} ${"),
        c("d") == 1.5,
        c("d") > -1.0,
        c("d") <= float("inf"),
        c("d") == float("nan"),
        c("i") + 2**40,
        -c("i") * 3 - 1,
        c("i") % 2 / 4,
        F.upper("s") == F.lit("A"),
        F.concat(c("s"), F.lit("!"), F.lit(None)),
        F.coalesce("i", F.lit(-3)),
        c("i").cast("string"),
        c("s").try_cast("int") if hasattr(c("s"), "try_cast") else c("i"),
        c("s").startswith("a"),
        c("s").like("%\\\\%"),
        c("s").rlike("^[a-z]$"),
        c("s").substr(1, 2),
        F.get("a", F.lit(0)),
        c("k")["k"],
        c("`r.s`.x"),
        c("`r.s`")["y z"],
        c("`r.s`.`y z`") == "q",
        F.when(c("i") == 1, "one").when(c("i") < 0, F.lit(None)).otherwise("rest"),
        F.when(c("i") == 1, 2),
        F.expr("i = 1 OR s = 'a'"),
        F.expr("i > 1 OR i < 0") & (c("i") < 5),
        F.lit(True),
        F.lit(None),
    ]


def test_texts_mean_the_same(lake: bucketlake.Lake) -> None:
    frame = lake.spark.sql(f"SELECT * FROM {ROWS}")
    columns = told()
    texts = [column_text(column) for column in columns]
    assert None not in texts, [str(column) for column, text in zip(columns, texts, strict=True) if text is None]
    pairs = [(column.alias("v"), F.expr(str(text)).alias("v")) for column, text in zip(columns, texts, strict=True)]
    one, other = (frame.select(*side) for side in zip(*pairs, strict=True))
    for place, text in enumerate(texts):
        assert one.schema[place].dataType == other.schema[place].dataType, text
    for left, right in zip(one.collect(), other.collect(), strict=True):
        for place, text in enumerate(texts):
            assert repr(left[place]) == repr(right[place]), text


def test_what_is_not_certain_has_no_text(lake: bucketlake.Lake) -> None:
    frame = lake.spark.range(3)
    unknown = [
        F.udf(lambda x: x, "bigint")("id"),
        F.row_number().over(Window.orderBy("id")),
        F.count_distinct("id"),
        F.col("id").alias("x"),
        F.col("*"),
        F.col("id").isin([]),
        frame["id"] == 1,
        F.expr("id = 1) OR (id = 2") & F.lit(True),
        F.expr("'it' = 'a' -- b") | F.lit(True),
        F.transform(F.array(F.lit(1)), lambda x: x + 1),
    ]
    assert [column_text(column) for column in unknown] == [None] * len(unknown)
    other = lake.spark.range(3)
    assert column_text(frame["id"] == 1, frame, "s") == "(`s`.`id` = 1)"
    assert column_text(other["id"] == 1, frame, "s") is None
    assert (alias_of(frame.alias("s")), alias_of(frame)) == ("s", None)


def test_instants_that_spark_takes_for_others_have_no_text(classic: bucketlake.Lake) -> None:
    """PySpark hands them over as Java's, and Spark reads their days by the Julian calendar."""
    for day in (dt.datetime(1500, 1, 1), dt.datetime(1582, 10, 10, 1), dt.datetime(1, 1, 2)):
        assert column_text(F.col("ts") == day) is None
    assert column_text(F.col("ts") == dt.datetime(1900, 1, 2)) is not None


def test_a_type_is_the_same_in_every_session(classic: bucketlake.Lake) -> None:
    spark = classic.spark
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        text = column_text(F.col("id").cast(TimestampType()))
        found = spark.range(1).select(F.expr(str(text)).alias("v")).schema["v"].dataType
    finally:
        spark.conf.unset("spark.sql.timestampType")
    assert found == TimestampType()


def test_rows_are_deleted_and_updated_by_columns(lake: bucketlake.Lake) -> None:
    lake.sql("CREATE TABLE db.t (id INT, v STRING, at TIMESTAMP) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    lake.sql("INSERT INTO db.t SELECT id, concat('v', id), timestamp_micros(id * 1000000) FROM range(6)")
    table = lake.table("db.t")
    table.delete(F.col("id").isin(1, 2))
    table.delete(F.col("at") >= dt.datetime.fromtimestamp(5))
    table.update({"v": F.upper("v")}, where=(F.col("v") == "v3") | F.col("v").isNull())
    assert sorted(tuple(row) for row in table.read(columns=["id", "v"]).collect()) == [(0, "v0"), (3, "V3"), (4, "v4")]
    with pytest.raises(UnsupportedError, match="give it as SQL text"):
        table.delete(F.udf(lambda x: True, "boolean")("id"))
    assert table.read().count() == 3


def test_merges_by_columns_prune_as_texts_do(lake: bucketlake.Lake) -> None:
    lake.sql("CREATE TABLE db.t (id INT, v STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    lake.sql("INSERT INTO db.t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    changes = lake.spark.createDataFrame([(2, "B"), (3, None), (4, "D")], "id int, v string")
    merge = lake.table("db.t").merge(changes, F.col("t.id") == changes["id"])
    merge = merge.whenMatched(changes["v"].isNull()).delete().whenMatched().update({"v": F.lower(changes["v"])})
    merge.whenNotMatched().insert({"id": changes["id"], "v": F.concat(F.col("v"), F.lit("!"))}).merge()
    assert sorted(tuple(row) for row in lake.sql("SELECT * FROM db.t").collect()) == [(1, "a"), (2, "b"), (4, "D!")]


def test_columns_are_set_to_constants_of_python(classic: Lake) -> None:
    classic.sql(
        "CREATE TABLE db.c (id INT, i INT, l BIGINT, d DOUBLE, m DECIMAL(20, 2), b BOOLEAN, y BINARY, day DATE, ts TIMESTAMP,"
        " n TIMESTAMP_NTZ, s STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')"
    )
    zoned = dt.datetime(2024, 1, 1, 1, 2, 3, 4, dt.timezone(dt.timedelta(hours=5)))
    local = dt.datetime(2024, 7, 1, 12)  # as it is, whatever the zones of the session and of this process
    values = {
        **{"i": -(2**31), "l": np.int64(2**40), "d": -0.5, "m": Decimal("-12.5"), "b": True, "y": b"a\0'"},
        **{"day": dt.date(999, 1, 1), "ts": zoned, "n": local, "s": None},
    }
    table = classic.table("db.c")
    merge = table.merge([{"id": 1}], "c.id = source.id").whenNotMatched().insert({"id": "source.id", **values})
    merge.whenMatched().update(values).merge()
    classic.sql("INSERT INTO db.c (id, s) VALUES (2, 'b')")
    table.update(values, "id = 2")
    merge.whenMatched().update({"s": None, "d": float("inf")}).merge()
    shown = "id, i, l, d, m, b, y, CAST(day AS STRING), unix_micros(ts), CAST(n AS STRING), s"
    micros = (zoned - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)) // dt.timedelta(microseconds=1)
    expected = (
        -(2**31),
        2**40,
        -0.5,
        Decimal("-12.50"),
        True,
        b"a\0'",
        "0999-01-01",
        micros,
        "2024-07-01 12:00:00",
        None,
    )
    found = classic.sql(f"SELECT {shown} FROM db.c ORDER BY id").collect()
    assert [tuple(row) for row in found] == [(1, *expected[:2], float("inf"), *expected[3:]), (2, *expected)]
    for other in (np.datetime64("2024-01-01"), dt.timedelta(1), {1}, Decimal("NaN"), 10**40, dt.time(1)):
        with pytest.raises(InvalidError, match="no value for a column"):
            table.update({"i": other})
