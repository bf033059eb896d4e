"""Conditions as this package reads them, against Spark over the same values."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.peers.python_peers import PyPaimon
from tests.profile import first

from bucketlake.predicate.evaluate import mask
from bucketlake.predicate.parse import parse_where
from bucketlake.predicate.tree import is_exact
from bucketlake.spark.read import reader
from bucketlake.spark.session import Lake
from bucketlake.types.model import DataField, arrow_schema
from bucketlake.types.parse import parse_type_text

VALUES: dict[str, list[Any]] = {
    "TINYINT": [-128, -1, 0, 1, 127],
    "INT": [-(1 << 31), 0, 2, 3, (1 << 31) - 1],
    "BIGINT": [-(1 << 63), -1, 0, (1 << 53) + 1, (1 << 63) - 1],
    "DECIMAL(10,2)": [Decimal("-99999999.99"), Decimal("0.10"), Decimal("2.50"), Decimal("2.56"), None],
    "DECIMAL(38,18)": [Decimal("-99999999999999999999.999999999999999999"), Decimal("1E-18"), Decimal("0.1"),
                       Decimal("99999999999999999999.999999999999999999"), Decimal("2.5")],
    "DECIMAL(38,0)": [Decimal(10**38 - 1), Decimal(-5), Decimal((1 << 53) + 1), Decimal(0), None],
    "DOUBLE": [0.1, -0.0, 2.5, float("inf"), float("nan")],
    "FLOAT": [0.1, 2.5, float("nan"), 16777216.0, None],
}  # fmt: skip
LITERALS = [
    "0", "2.5", "0.1", "128", "9223372036854775808", "-9223372036854775808", "0.0000000000000000005",
    "0.00000000000000000049", "100000000000000000000", "-99999999999999999999.999999999999999999", "2.5e0", "1e-1",
    "9.2233720368547758E18", "9007199254740993", "1E300", "2.555", "1E-18BD", "0.1D", "2.5F", "1E-30BD",
    "99999999999999999999999999999999999999", "'2'", "CAST('NaN' AS DOUBLE)", "CAST(2.5 AS DECIMAL(38,20))",
]  # fmt: skip
OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "<=>"]


def test_numbers_compare_as_in_spark(classic: Any) -> None:
    spark = classic.spark
    fields = {kind: DataField(i, f"c{i}", parse_type_text(kind)) for i, kind in enumerate(VALUES)}
    schema = arrow_schema(list(fields.values()))
    rows = pa.RecordBatch.from_arrays([pa.array(v, f.type) for v, f in zip(VALUES.values(), schema, strict=True)],
                                      schema=schema)  # fmt: skip
    table = pa.Table.from_batches([rows]).append_column("i", pa.array(range(5), pa.int32()))
    spark.createDataFrame(table).createOrReplaceTempView("numbers_of_every_type")
    compared = 0
    for kind, field in fields.items():
        beyond = "DECIMAL(38,20)" if kind in ("DECIMAL(38,0)", "DECIMAL(38,18)") else None  # overflows in Spark
        texts = [
            f"{field.name} {op} {text}" for text in LITERALS if not beyond or beyond not in text for op in OPERATORS
        ]
        read = [(text, found) for text in texts if is_exact(found := parse_where(text, [field]))]
        query = f"SELECT array({', '.join(text for text, _ in read)}) AS hits FROM numbers_of_every_type ORDER BY i"
        expected = [row.hits for row in spark.sql(query).collect()]
        for at, (text, found) in enumerate(read):
            assert mask(found, rows).to_pylist() == [hits[at] for hits in expected], (kind, text)
        compared += len(read)
    assert compared > 1200


def test_lists_of_texts_are_read_by_the_mode(classic: Lake) -> None:
    """Spark compares as text where ANSI mode is off: `01` is no 1, a day no midnight."""
    classic.sql("CREATE TABLE db.t (i INT, d DATE, z TIMESTAMP_NTZ) TBLPROPERTIES ('bucket' = '-1')")
    classic.sql("INSERT INTO db.t VALUES (1, DATE '2020-01-03', TIMESTAMP_NTZ '2020-01-03 00:00:00')")
    conditions = ("i NOT IN ('01')", "d NOT IN ('2020-1-3', '2020-01-04')", "z NOT IN ('2020-01-03')")
    try:
        for ansi, rows in (("false", 1), ("true", 0)):
            classic.spark.conf.set("spark.sql.ansi.enabled", ansi)
            for where in conditions:
                asked = classic.sql(f"SELECT * FROM db.t WHERE {where}").count()
                assert asked == classic.table("db.t").read(where=where).count() == rows, (ansi, where)
    finally:
        classic.spark.conf.unset("spark.sql.ansi.enabled")


def test_a_condition_may_name_columns_of_which_it_says_nothing(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.t (id INT, n INT, `a``b` STRING) TBLPROPERTIES ('bucket' = '-1')")
    classic.sql("INSERT INTO db.t VALUES (1, 2, 'x'), (2, NULL, 'y')")
    table = classic.table("db.t")
    for where, found in {
        "n <> NULL": [],
        "n <=> 99999999999": [],
        "n <=> 0.5 OR `A``B` = 'x'": [1],
        "NOT (n <=> 1e-50)": [1, 2],
    }.items():
        assert [row.id for row in table.read(columns=["id"], where=where).sort("id").collect()] == found, where
    classic.sql("SET spark.sql.parser.escapedStringLiterals = true")
    try:
        assert [row.id for row in table.read(columns=["id"], where=r"`a``b` RLIKE '\w' AND n = 2").collect()] == [1]
    finally:
        classic.sql("RESET spark.sql.parser.escapedStringLiterals")


@pytest.mark.parametrize("zone", ["+05:30", "UTC-3", "PST"])
def test_conditions_in_every_zone_of_sparks(classic: Lake, zone: str) -> None:
    classic.sql("CREATE TABLE db.t (id INT, z TIMESTAMP_LTZ) TBLPROPERTIES ('bucket' = '-1')")
    classic.sql("INSERT INTO db.t VALUES (1, TIMESTAMP '2025-07-01 12:00:00 UTC')")
    classic.spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        local = classic.sql("SELECT CAST(z AS STRING) FROM db.t").collect()[0][0]
        assert classic.table("db.t").read(where=f"z = '{local}'").count() == 1
        assert classic.table("db.t").read(where="id = 2").count() == 0
    finally:
        classic.spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_a_negative_zero_is_zero_in_sparks_own_scans(
    classic: Lake, file_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's readers of files tell the zeros apart by dictionaries and statistics, where a filter is pushed to them."""
    lake = classic
    monkeypatch.setattr(reader, "SMALL_ROWS", 0)
    lake.sql(
        f"""CREATE TABLE db.t (k INT, d DOUBLE, f FLOAT, s STRUCT<`a.b`: DOUBLE, y: STRUCT<z: FLOAT>>)
        TBLPROPERTIES ('file.format' = '{file_format}')"""
    )
    lake.sql(
        """INSERT INTO db.t SELECT k, -0.0D, CAST('-0.0' AS FLOAT),
        named_struct('a.b', -0.0D, 'y', named_struct('z', CAST('-0.0' AS FLOAT))) FROM VALUES (1), (2), (3) v(k)"""
    )
    conditions = ["0.0 = d", "d >= 0.0D", "d IN (0.0D, 7D)", "d <=> 0.0D", "f = 0", "s.`a.b` = 0", "s.y.z >= 0"]
    counted = " UNION ALL ".join(f"SELECT count(*) FROM db.t WHERE {condition}" for condition in conditions)
    assert [row[0] for row in lake.sql(counted).collect()] == [3] * len(conditions)
    read = lake.table("db.t").read()
    assert read.where("d = 0").count() == 3 and str(read.first().d) == "-0.0" and str(read.first().s["y"].z) == "-0.0"
    lake.sql("DELETE FROM db.t WHERE d = 0.0 AND k < 3")
    assert [row.k for row in lake.table("db.t").read().collect()] == [3]


@pytest.mark.slow
@pytest.mark.parametrize("file_format", first(["parquet", "orc"], 1))
def test_filters_reach_the_files_that_hold_no_zero(
    classic: Lake, file_format: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = classic
    monkeypatch.setattr(reader, "SMALL_ROWS", 0)
    lake.sql(f"CREATE TABLE db.t (k INT, d DOUBLE, f FLOAT) TBLPROPERTIES ('file.format' = '{file_format}')")
    files = [["-0.0", "1"], ["5", "6"], ["-3", "-1"], ["'NaN'", "7"], ["NULL", "NULL"], ["-1", "1"]]
    for number, values in enumerate(files):
        rows = ", ".join(f"({number}, CAST({v} AS DOUBLE), CAST({v} AS FLOAT))" for v in values)
        lake.sql(f"INSERT INTO db.t VALUES {rows}")
    lake.spark.createDataFrame(lake.catalog.table("db.t").to_arrow()).createOrReplaceTempView("as_rows")
    conditions = [
        f"{c} {text}" for c in "df" for text in ("= 0", ">= 0", "< 0", "> 4", "<= -1", "<> 0", "IN (0, 6)", "IS NULL")
    ]
    for condition in [
        *first(conditions, 5),
        "d = double('NaN')",
        "d > 10",
        "f > 10",
        "d >= 7",
        "d > 4 AND f < 7",
        "NOT (d < 5)",
    ]:
        wanted = lake.spark.sql(f"SELECT * FROM as_rows WHERE {condition}").count()
        assert lake.sql(f"SELECT * FROM db.t WHERE {condition}").count() == wanted, condition
        assert lake.table("db.t").read().where(condition).count() == wanted, condition
    lake.table("db.t").read(where="d > 4 AND d < 100").where("d > 4").explain("formatted")
    told = capsys.readouterr().out
    assert "GreaterThan(d,4.0)" in told


@pytest.mark.slow
@pytest.mark.peer
def test_nan_that_a_peers_statistics_leave_out_is_found(
    classic: Lake, pypaimon: PyPaimon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pypaimon's bounds pass over NaN, which is the greatest value; Spark's readers go by such bounds, too."""
    monkeypatch.setattr(reader, "SMALL_ROWS", 0)
    classic.sql("CREATE TABLE db.t (d DOUBLE, f FLOAT) TBLPROPERTIES ('metadata.stats-mode' = 'full')")
    nan = float("nan")
    pypaimon.use(tmp_path / "warehouse").write("db", "t", pa.table({"d": [5.0, nan], "f": pa.array([nan, 7.0], "f4")}))
    table = classic.table("db.t")
    for condition in ["d > 10", "f > 10", "d >= 10 AND d <> 1", "f = float('NaN')", "NOT (d < 6)"]:
        assert classic.sql(f"SELECT * FROM db.t WHERE {condition}").count() == 1, condition
        assert table.read(where=condition).count() == table.read().where(condition).count() == 1, condition
    assert classic.catalog.table("db.t").to_arrow(where="d > 10").num_rows == 1
