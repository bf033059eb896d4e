"""Buckets computed by Spark are those that the engine computes."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from tests.profile import later
from tests.sql.sessions import session
from tests.table.test_first_schemas import first_table

from bucketlake.errors import InvalidError
from bucketlake.format.row.hashing import assign_buckets
from bucketlake.schema.schema import TableSchema
from bucketlake.schema.versions import create_schema
from bucketlake.spark.read import reader
from bucketlake.spark.session import Lake
from bucketlake.spark.types import field_types
from bucketlake.spark.write import placement
from bucketlake.spark.write.bucketing import bucket_column
from bucketlake.types.model import DataField, canonical_batch

LONG = [0, 1, -1, 255, 256, -(2**63), 2**63 - 1, 0x0102030405060708, None]
INT = [0, 1, -1, 127, -128, 2**31 - 1, -(2**31), 65_536, None]
TEXT = ["", "a", "1234567", "12345678", "123456789", "é", "漢字漢字漢", "x" * 1000, None]
CASES = {
    "bigint": ("a long", [(v,) for v in LONG]),
    "int": ("a int", [(v,) for v in INT]),
    "smallint": ("a smallint", [(v,) for v in (0, -1, 32767, -32768, None)]),
    "tinyint": ("a tinyint", [(v,) for v in (0, -1, 127, -128, None)]),
    "boolean": ("a boolean", [(True,), (False,), (None,)]),
    "string": ("a string", [(v,) for v in TEXT]),
    "date": ("a date", [(dt.date(1969, 12, 31),), (dt.date(2024, 2, 29),), (None,)]),
    "two strings": ("a string, b string", [(a, b) for a in TEXT for b in reversed(TEXT)]),
    "mixed": ("a string, b int, c long, d string", list(zip(TEXT, INT, LONG, reversed(TEXT), strict=True))),
    "fifty-six": (", ".join(f"c{n} int" for n in range(56)), [(7,) * 56, (None,) * 56, (*(7,) * 55, None)]),
    "many strings": (", ".join(f"c{n} string" for n in range(17)), [("123456789",) * 17, (*("",) * 16, None)]),
    "decimal": ("a decimal(10,2)", [(Decimal("1.25"),), (Decimal("-1.25"),), (None,)]),
    "wide decimal": ("a decimal(38,3)", [(Decimal("12345678901234567890.125"),), (None,)]),
    "timestamp": ("a timestamp_ntz, b int", [(dt.datetime(2024, 1, 1, 1, 2, 3, 456_789), 1), (None, 2)]),
    "double": ("a double", [(1.5,), (-0.0,), (None,)]),
    "binary": ("a binary", [(b"",), (b"12345678",), (None,)]),
}


FEW = ("bigint", "string", "mixed", "fifty-six", "wide decimal", "timestamp", "double", "binary")


@pytest.mark.parametrize("case", later([*FEW, *(name for name in CASES if name not in FEW)], len(FEW)))
def test_buckets_are_those_of_the_engine(lake: Lake, case: str) -> None:
    columns, rows = CASES[case]
    frame = lake.spark.createDataFrame(rows, columns)
    fields = field_types(frame.schema)
    schema = _schema(fields)
    found = frame.withColumn("bucket", bucket_column(schema, 7)).toArrow().combine_chunks().to_batches()[0]
    batch = canonical_batch(found.drop_columns(["bucket"]), fields)
    assert found.column("bucket").to_pylist() == assign_buckets(batch, fields, 7).tolist()


def test_settings_of_binary_functions_move_no_row(lake: Lake) -> None:
    frame = lake.spark.createDataFrame([(text, text) for text in TEXT], "a string, b string")
    column = bucket_column(_schema(field_types(frame.schema)), 7)
    expected = frame.select(column).toArrow().column(0)
    functions = ("spark.sql.legacy.lpadRpadAlwaysReturnString", "spark.sql.function.concatBinaryAsString")
    with session(lake, {"spark.sql.ansi.enabled": "false", **dict.fromkeys(functions, "true")}):
        assert frame.select(column).toArrow().column(0) == expected


@pytest.mark.parametrize("function", ["mod", "hive"])
def test_other_bucket_functions(lake: Lake, function: str) -> None:
    frame = lake.spark.createDataFrame([(v,) for v in LONG if v is not None], "a long")
    fields = field_types(frame.schema)
    schema = _schema(fields, function)
    found = frame.select(bucket_column(schema, 7).alias("bucket")).toArrow().column("bucket").to_pylist()
    batch = pa.RecordBatch.from_arrays([pa.array([v for v in LONG if v is not None])], ["a"])
    assert found == assign_buckets(batch, fields, 7, function).tolist()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("DOUBLE", "'bucket' = '-1'"),
        ("DECIMAL(10, 2)", "'bucket' = '2'"),
        ("INT", "'bucket' = '2', 'bucket-function.type' = 'mod'"),
    ],
)
def test_a_null_key_is_refused_by_name(classic: Lake, kind: str, options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether Spark or Python computes the bucket."""
    monkeypatch.setattr(placement, "FEW_FILES", 0)
    classic.sql(f"CREATE TABLE default.t (k {kind}, v BIGINT) TBLPROPERTIES ('primary-key' = 'k', {options})")
    classic.sql("INSERT INTO default.t VALUES (1, 1)")
    with pytest.raises(InvalidError, match=r"Cannot write null to non-null column\(k\)"):
        classic.sql(f"INSERT INTO default.t SELECT CAST(NULL AS {kind}), id FROM range(3)")
    assert len(classic.table("default.t").snapshots()) == 1


def test_one_bucket_needs_no_key(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of Paimon 0.7, written by tasks."""
    for module, name in ((placement, "FEW_FILES"), (reader, "SMALL_ROWS")):
        monkeypatch.setattr(module, name, 0)
    name = first_table(Path(classic.catalog.warehouse))
    classic.sql(f"INSERT INTO {name} SELECT CAST(id AS INT), 'a' FROM range(0, 30, 1, 3)")
    frame = classic.spark.range(30, 40).selectExpr("CAST(id AS INT) AS k", "'b' AS v")
    frame.write.format("bucketlake").mode("append").save(classic.table(name).path)
    classic.sql(f"DELETE FROM {name} WHERE k % 3 = 0")
    classic.sql(f"MERGE INTO {name} t USING (SELECT 4 AS k) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = 'c'")
    found = classic.sql(
        f"SELECT count(*), sum(k), sum(CASE WHEN v = 'c' THEN k END) FROM {name} WHERE k < 39"
    ).collect()
    left = [k for k in range(39) if k % 3]
    assert [tuple(row) for row in found] == [(len(left), sum(left), 4)]
    assert {entry.bucket for entry in classic.catalog.table(name).plan().entries} == {0}


def _schema(fields: list[DataField], function: str = "default") -> TableSchema:
    names = ",".join(field.name for field in fields)
    options = {"bucket": "7", "bucket-key": names, "bucket-function.type": function}
    found: TableSchema = SimpleNamespace(  # type: ignore[assignment]
        table_options=create_schema(fields, (), (), options).table_options,
        bucket_keys=tuple(field.name for field in fields),
        select=lambda names: tuple(fields),
    )
    return found
