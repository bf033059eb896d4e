"""DESCRIBE EXTENDED … AS JSON: what programs read of a lake table is what they read of Spark's own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bucketlake.errors import UnsupportedError
from bucketlake.spark.session import Lake

COLUMNS = """id BIGINT COMMENT 'the key', name STRING, price DECIMAL(10, 2) DEFAULT 1.25, at TIMESTAMP, local TIMESTAMP_NTZ,
  tags ARRAY<STRUCT<a: INT COMMENT 'inner', b: MAP<STRING, DECIMAL(5, 1)>>>, raw BINARY, flag BOOLEAN, small TINYINT,
  day DATE"""


def told(rows: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(rows.collect()[0].json_metadata)
    return found


def test_columns_are_told_as_sparks(classic: Lake) -> None:
    if int(classic.spark.version.split(".")[0]) < 4:
        pytest.skip("Spark 3 has no AS JSON")
    classic.sql(f"CREATE TABLE db.t ({COLUMNS}) PARTITIONED BY (day) COMMENT 'a table' TBLPROPERTIES ('a.b' = 'c')")
    classic.sql("DROP TABLE IF EXISTS spark_catalog.default.told")
    classic.sql(
        f"CREATE TABLE spark_catalog.default.told ({COLUMNS}) USING parquet PARTITIONED BY (day) COMMENT 'a table'"
    )
    spark = told(classic.spark.sql("DESC EXTENDED spark_catalog.default.told AS JSON"))
    classic.sql("DROP TABLE spark_catalog.default.told")
    ours = told(classic.sql("DESCRIBE TABLE FORMATTED db.t AS JSON"))
    assert ours["columns"] == spark["columns"]
    same = {"comment", "type", "partition_columns"}
    assert {key: ours[key] for key in same} == {key: spark[key] for key in same}
    assert (ours["table_name"], ours["namespace"], ours["schema_name"]) == ("t", ["db"], "db")
    assert ours["table_properties"]["a.b"] == "c"
    assert ours["location"] == classic.table("db.t").path


def test_of_keys_and_lengths(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.t (k INT NOT NULL, c CHAR(3), v VARCHAR(5)) TBLPROPERTIES ('primary-key' = 'k')")
    found = told(classic.sql("DESC EXTENDED db.t AS JSON"))
    assert found["columns"] == [
        {"name": "k", "type": {"name": "int"}, "nullable": False},
        {"name": "c", "type": {"name": "char", "length": 3}, "nullable": True},
        {"name": "v", "type": {"name": "varchar", "length": 5}, "nullable": True},
    ]
    assert found["table_properties"]["primary-key"] == "k"
    assert "partition_columns" not in found


def test_what_it_is_not_for(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.t (k INT, p INT) PARTITIONED BY (p)")
    with pytest.raises(UnsupportedError, match="leave out AS JSON"):
        classic.sql("DESC EXTENDED db.t PARTITION (p = 1) AS JSON")
    for statement in ("DESC db.t AS JSON", "DESC EXTENDED db.t k AS JSON"):
        with pytest.raises(Exception, match="JSON"):
            classic.sql(statement)
