"""REPLACE, ALTER in all spellings, SHOW and DESCRIBE of partitions, views, cached tables, ANALYZE, as statements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, SparkRuntimeException

import bucketlake
from bucketlake.errors import (
    AlreadyExistsError,
    BucketlakeError,
    CommitError,
    InvalidError,
    NotFoundError,
    UnsupportedError,
)
from bucketlake.ops.commit import replacement
from bucketlake.schema.change import SetOption
from bucketlake.spark.read import reader
from bucketlake.spark.session import Lake
from bucketlake.sql.query.unknown import explained
from bucketlake.types.model import type_text


def rows(lake: Lake, text: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in lake.sql(text).collect()), key=str)


def columns(lake: Lake, name: str) -> dict[str, str]:
    return {f.name: type_text(f.type) for f in lake.table(name).schema.fields}


def refused(lake: Lake, cases: list[tuple[str, type[Exception], str]]) -> None:
    for statement, error, message in cases:
        with pytest.raises(error, match=message):
            lake.sql(statement)


def test_replace(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.t (id BIGINT, data STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')")
    lake.sql("INSERT INTO db.t VALUES (1, 'old'), (2, 'x')")
    place = lake.table("db.t").path
    lake.sql("REPLACE TABLE db.t (id STRING, amount INT) COMMENT 'new' TBLPROPERTIES ('bucket' = '-1')")
    assert lake.table("db.t").path == place
    assert columns(lake, "db.t") == {"id": "STRING", "amount": "INT"}
    assert lake.table("db.t").schema.comment == "new"
    assert rows(lake, "SELECT * FROM db.t") == []
    assert rows(lake, "SELECT id, data FROM db.t VERSION AS OF 1") == [(1, "old"), (2, "x")]
    # The query sees the table as it was, or as of the snapshot that it names.
    lake.sql("CREATE OR REPLACE TABLE db.t TBLPROPERTIES ('primary-key' = 'data,id') AS "
             "SELECT id, data FROM db.t VERSION AS OF 1")  # fmt: skip
    assert rows(lake, "SELECT * FROM db.t") == [(1, "old"), (2, "x")]
    lake.sql("CREATE OR REPLACE TABLE db.t AS WITH c AS (SELECT * FROM db.t) SELECT id, 7 AS n FROM c WHERE id = 2")
    assert rows(lake, "SELECT * FROM db.t") == [(2, 7)]
    lake.sql("CREATE OR REPLACE TABLE db.made AS SELECT 1 AS one")
    assert rows(lake, "SELECT * FROM db.made") == [(1,)]


def test_an_alteration_amid_a_replacement_does_not_have_its_query_read_the_emptied_table(
    classic: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    classic.sql("CREATE TABLE db.r (id INT)")
    classic.sql("INSERT INTO db.r VALUES (1), (2)")
    real, came = replacement.publish_schema, []

    def meanwhile(*given: Any) -> bool:
        if not came:
            came.append(classic.catalog.table("db.r").alter(SetOption("comment", "other")))
        return real(*given)

    monkeypatch.setattr(replacement, "publish_schema", meanwhile)
    with pytest.raises(CommitError, match=r"out of the table.*VERSION AS OF 1"):
        classic.sql("CREATE OR REPLACE TABLE db.r AS SELECT id + 1 AS id FROM db.r")
    classic.sql("CREATE OR REPLACE TABLE db.r AS SELECT id + 1 AS id FROM db.r VERSION AS OF 1")
    assert rows(classic, "SELECT * FROM db.r") == [(2,), (3,)]


def test_a_replacement_that_fails_changes_nothing(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.q (id INT, dt STRING) PARTITIONED BY (dt)")
    classic.sql("INSERT INTO db.q VALUES (1, 'a'), (2, 'b')")
    refused(
        classic,
        [
            ("REPLACE TABLE db.q AS SELECT * FROM db.q WHERE dt = 'a'", UnsupportedError, "Cannot replace table"),
            ("REPLACE TABLE db.missing (id BIGINT)", NotFoundError, "no such table"),
            ("CREATE TABLE db.q (id BIGINT)", AlreadyExistsError, "exists"),
            ("REPLACE TABLE db.q (id INT, dt STRING) PARTITIONED BY (substr(dt, 1))", UnsupportedError, "transform"),
            ("REPLACE TABLE db.q PARTITIONED BY (dt) AS SELECT CAST(raise_error('no') AS INT) id, dt FROM db.q",
             Exception, "no"),
            ("CREATE TABLE db.l (id INT) LOCATION '/elsewhere'", UnsupportedError, "table path"),
            ("CREATE TABLE db.l LIKE db.q STORED AS PARQUET", UnsupportedError, "STORED AS is not supported"),
            ("CREATE TABLE db.l (id INT) STORED AS ORC", UnsupportedError, "STORED AS .*file.format"),
            ("CREATE TABLE db.l (id INT) STORED AS INPUTFORMAT 'a.B' OUTPUTFORMAT 'a.C'", UnsupportedError, "STORED AS"),
            ("CREATE TABLE db.l (id INT) ROW FORMAT SERDE 'a.B' WITH SERDEPROPERTIES ('x' = '1')", UnsupportedError,
             "ROW FORMAT .*file.format"),
            ("CREATE TABLE db.l (id INT) ROW FORMAT DELIMITED FIELDS TERMINATED BY ','", UnsupportedError, "ROW FORMAT"),
            ("CREATE TABLE db.l (id INT) USING nothing_such", UnsupportedError, "Provider 'nothing_such' is not supported"),
        ],
    )  # fmt: skip
    assert [s.id for s in classic.table("db.q").snapshots()] == [1]
    assert rows(classic, "SELECT * FROM db.q") == [(1, "a"), (2, "b")]
    classic.sql("REPLACE TABLE db.q PARTITIONED BY (dt) AS SELECT * FROM db.q WHERE dt = 'a'")
    assert rows(classic, "SELECT * FROM db.q") == [(1, "a")]


def test_a_definition_that_hive_shows_of_a_table_of_paimon(classic: Lake) -> None:
    classic.sql(
        "CREATE TABLE IF NOT EXISTS `db`.`shown` (`id` BIGINT COMMENT 'id') PARTITIONED BY (`dt` STRING COMMENT 'dt')"
        " ROW FORMAT SERDE 'org.apache.paimon.hive.PaimonSerDe' WITH SERDEPROPERTIES ('serialization.format' = '1')"
        " STORED AS INPUTFORMAT 'org.apache.paimon.hive.mapred.PaimonInputFormat'"
        " OUTPUTFORMAT 'org.apache.paimon.hive.mapred.PaimonOutputFormat'"
        " TBLPROPERTIES ('primary-key' = 'dt,id', 'bucket' = '2')"
    )
    shown = classic.catalog.table("db.shown").schema
    assert (shown.primary_keys, shown.partition_keys, dict(shown.options)) == (("dt", "id"), ("dt",), {"bucket": "2"})


def test_columns_in_every_spelling(classic: Lake) -> None:
    classic.sql(
        "CREATE TABLE db.t (a INT NOT NULL, b BIGINT, v STRUCT<f1: INT, f2: STRUCT<g: STRING>>,"
        " l ARRAY<STRUCT<x: INT>>, m MAP<INT, STRUCT<y: INT>>)"
    )
    classic.sql("INSERT INTO db.t VALUES (1, 2, struct(3, struct('s')), array(struct(4)), map(5, struct(6)))")
    for statement in [
        "ADD COLUMNS (c INT COMMENT 'c', d STRING FIRST)",
        "ADD COLUMN IF NOT EXISTS C STRING",
        "ADD (e INT, f STRING AFTER a)",
        "ADD g INT",
        "DROP (e, f)",
        "DROP g",
        "DROP COLUMN IF EXISTS nothing",
        "RENAME c TO cc",
        "MODIFY (cc BIGINT COMMENT 'changed', B DOUBLE FIRST)",
        "MODIFY d STRING COMMENT 'd'",
        "CHANGE COLUMN v.f1 f1 BIGINT COMMENT 'inside'",
        "ALTER COLUMN v.f2.g COMMENT 'deep', A COMMENT 'key'",
        "ADD COLUMN v.f2.h INT",
        "RENAME COLUMN l.element.x TO xx",
        "CHANGE COLUMN m.value.y y BIGINT",
        "ALTER COLUMN A DROP NOT NULL",
        "ALTER COLUMN d SET DEFAULT 'q', cc SET DEFAULT 1 + 1",
        "ALTER COLUMN d DROP DEFAULT",
    ]:
        classic.sql(f"ALTER TABLE db.t {statement}")
    assert list(columns(classic, "db.t")) == ["b", "d", "a", "v", "l", "m", "cc"]
    schema = classic.table("db.t").schema
    assert (schema.field("a").description, schema.field("cc").default, schema.field("d").default) == ("key", "2", None)
    found = classic.sql("SELECT b, a, v.f1, v.f2.g, v.f2.h, l[0].xx, m[5].y, cc FROM db.t").collect()
    assert [tuple(row) for row in found] == [(2.0, 1, 3, "s", None, 4, 6, None)]
    classic.sql("COMMENT ON COLUMN db.t.v.f1 IS 'said'")
    assert classic.table("db.t").schema.field("v").type.fields[0].description == "said"
    refused(
        classic,
        [
            ("ALTER TABLE db.t ALTER COLUMN bb TYPE INT", NotFoundError, r"\[UNRESOLVED_COLUMN.*`bb`.*no such column"),
            ("ALTER TABLE db.t DROP COLUMN v.zz", AnalysisException, r"\[UNRESOLVED_COLUMN.*`v`.`zz`.*no such column"),
            ("ALTER TABLE db.t ALTER COLUMN aa COMMENT 'x'", NotFoundError, "did you mean 'a'"),
            ("ALTER TABLE db.t ADD COLUMN A INT", AlreadyExistsError, r"\[FIELD_ALREADY_EXISTS\].*column exists"),
            ("ALTER TABLE db.t RENAME COLUMN a TO b", AnalysisException, r"\[FIELD_ALREADY_EXISTS\].*column exists"),
            (
                "ALTER TABLE db.t ADD COLUMN n INT NOT NULL",
                InvalidError,
                "Column n cannot specify NOT NULL in the db.t",
            ),
            ("ALTER TABLE db.t ADD COLUMN n INT DEFAULT 1", UnsupportedError, r"change: Cannot add column \[n\] with"),
            ("ALTER TABLE db.t ALTER COLUMN a AFTER a", InvalidError, "Cannot move itself for column a"),
            ("ALTER TABLE db.t SET TBLPROPERTIES ('primary-key'='a')", UnsupportedError, "Alter primary key"),
            ("ALTER TABLE db.t UNSET TBLPROPERTIES ('primary-key')", UnsupportedError, "Alter primary key"),
            ("ALTER TABLE db.t SET LOCATION '/x'", UnsupportedError, "SET LOCATION is not supported for Paimon"),
            ("ALTER TABLE db.t REPLACE COLUMNS (a INT)", UnsupportedError, "REPLACE COLUMNS is not supported"),
            ("ALTER TABLE db.t RENAME TO other.db.u", InvalidError, "within the same catalog"),
            ("ALTER DATABASE db SET DBPROPERTIES ('a'='b')", UnsupportedError, "Alter database is not supported"),
            ("ALTER DATABASE db SET ('a'='b')", UnsupportedError, "Alter database is not supported"),
            ("ALTER DATABASE db SET LOCATION '/x'", UnsupportedError, "Alter database is not supported"),
            ("ALTER DATABASE nothing SET LOCATION '/x'", NotFoundError, "no such database"),
            ("COMMENT ON DATABASE db IS 'x'", UnsupportedError, "Alter database is not supported"),
            ("ALTER TABLE db.t ADD g INT and more", InvalidError, "cannot parse type"),
        ],
    )


def test_partitions(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.t (id INT) PARTITIONED BY (dt STRING, at TIMESTAMP, n BIGINT) "
                "TBLPROPERTIES ('partition.default-name' = '__none__')")  # fmt: skip
    classic.sql("INSERT INTO db.t VALUES (1, 'a/b', TIMESTAMP'2024-06-01 10:30:01', 1), (2, NULL, NULL, 2), "
                "(3, 'c', NULL, 3), (4, 'c', NULL, 4)")  # fmt: skip
    shown = ["dt=a%2Fb/at=2024-06-01 10%3A30%3A01/n=1", "dt=c/at=null/n=3", "dt=c/at=null/n=4", "dt=null/at=null/n=2"]
    assert [r[0] for r in classic.sql("SHOW PARTITIONS db.t").collect()] == shown
    assert rows(classic, "SHOW PARTITIONS db.t PARTITION (N = '03')") == [(shown[1],)]
    assert rows(classic, "SHOW PARTITIONS db.t PARTITION (at = '2024-06-01 10:30:01')") == [(shown[0],)]
    assert rows(classic, "SHOW PARTITIONS db.t PARTITION (dt = NULL)") == [(shown[3],)]
    described = classic.sql("DESCRIBE FORMATTED db.t PARTITION (dt = 'c', at = NULL, n = 3)").collect()
    found = {row.col_name: row.data_type for row in described}
    assert found["Partition Values"] == "[dt=c, at=null, n=3]"
    assert "recordCount=1" in found["Partition Parameters"]
    extended = classic.sql("SHOW TABLE EXTENDED IN db LIKE 't' PARTITION (dt='c', at=null, n=4)").collect()
    assert "Partition Statistics: 1 rows" in extended[0].information
    classic.sql("ALTER TABLE db.t ADD IF NOT EXISTS PARTITION (dt = 'c', at = NULL, n = 3)")
    classic.sql("ALTER TABLE db.t DROP IF EXISTS PARTITION (dt = 'zz', at = NULL, n = 3)")
    refused(
        classic,
        [
            ("ALTER TABLE db.t DROP PARTITION (n = 3)", InvalidError, "Partition spec is invalid"),
            ("ALTER TABLE db.t DROP PARTITION (dt='c', at=NULL, n=9), PARTITION (dt='a/b')", NotFoundError, "PARTITIONS_NOT"),
            ("ALTER TABLE db.t DROP PARTITION (x = 3)", NotFoundError, "PARTITIONS_NOT_FOUND.*`x`.*partition_keys"),
            ("ALTER TABLE db.t ADD PARTITION (dt = 'c', at = NULL, n = 3)", AlreadyExistsError, "already exists"),
            ("SHOW TABLE EXTENDED IN db LIKE 't' PARTITION (dt='c')", InvalidError, "Partition spec is invalid"),
            ("DESC FORMATTED db.t PARTITION (dt='c')", InvalidError, "all the correct partition columns"),
        ],
    )  # fmt: skip
    assert classic.sql("SHOW PARTITIONS db.t").count() == 4
    classic.sql("ALTER TABLE db.t DROP PARTITION (dt = 'c'), PARTITION (dt = NULL, at = NULL, n = '2')")
    assert rows(classic, "SELECT id FROM db.t") == [(1,)]
    classic.sql("TRUNCATE TABLE db.t PARTITION (n = 1)")
    assert rows(classic, "SELECT id FROM db.t") == []


UNFIT = ["TRUNCATE TABLE db.t {}", "SHOW PARTITIONS db.t {}", "DESCRIBE db.t {}", "DESC FORMATTED db.t {}",
         "SHOW TABLE EXTENDED IN db LIKE 't' {}", "ALTER TABLE db.t ADD IF NOT EXISTS {}",
         "ALTER TABLE db.t DROP IF EXISTS {}", "INSERT OVERWRITE db.t {} SELECT 1"]  # fmt: skip


def test_a_partition_value_of_another_type_is_refused_whether_there_are_partitions_or_not(classic: Lake) -> None:
    """A table without rows did nothing and said nothing of a value that no partition can have; DESCRIBE never did."""
    classic.sql("CREATE TABLE db.t (id INT) PARTITIONED BY (p INT)")
    for value in ("'x'", "1.5"):
        for statement in UNFIT:
            with pytest.raises(SparkRuntimeException, match="column=p") as raised:
                classic.sql(statement.format(f"PARTITION (p = {value})"))
            assert raised.value.getCondition() == "CAST_INVALID_INPUT", statement
    for statement in UNFIT[:-1]:
        with pytest.raises(AnalysisException, match="did you mean 'p'") as raised:
            classic.sql(statement.format("PARTITION (pp = 1)"))
        assert raised.value.getCondition() == "PARTITIONS_NOT_FOUND", statement
    classic.sql("CREATE TABLE db.plain (id INT)")
    statements = ["SHOW PARTITIONS db.plain", "SHOW PARTITIONS db.plain PARTITION (id = 1)",
                  "ALTER TABLE db.plain DROP PARTITION (id = 1)"]  # fmt: skip
    refused(classic, [(statement, InvalidError, "not partitioned") for statement in statements])


def test_shown_again(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.t (id INT NOT NULL COMMENT 'key', name STRING DEFAULT 'Bob', l ARRAY<INT> DEFAULT "
                "array(1, 2)) PARTITIONED BY (y INT) COMMENT 'said' TBLPROPERTIES ('k1' = 'v1')")  # fmt: skip
    statement = classic.sql("SHOW CREATE TABLE db.t").collect()[0][0]
    place = classic.table("db.t").path
    assert statement == (
        "CREATE TABLE paimon.db.t (\n  id INT NOT NULL COMMENT 'key',\n  name STRING DEFAULT 'Bob',\n"
        "  l ARRAY<INT> DEFAULT ARRAY(1, 2),\n  y INT)\nUSING paimon\nPARTITIONED BY (y)\nCOMMENT 'said'\n"
        f"LOCATION '{place}'\nTBLPROPERTIES (\n  'k1' = 'v1',\n  'path' = '{place}')\n"
    )
    before = classic.table("db.t").schema
    classic.sql("DROP TABLE db.t")
    classic.sql(statement)
    assert classic.table("db.t").schema.fields == before.fields
    extended = rows(classic, "DESCRIBE EXTENDED db.t")
    assert {("name", "string", "'Bob'"), ("id", "int", "NOT NULL"), ("Comment", "said", "")} <= set(extended)
    assert rows(classic, "SHOW TABLE EXTENDED IN db LIKE 't|u*'")[0][:3] == ("db", "t", False)
    information = classic.sql("SHOW TABLE EXTENDED IN db LIKE 't'").collect()[0].information
    assert "Catalog: paimon\nNamespace: db\nTable: t\n" in information
    assert " |-- id: integer (nullable = false)" in information
    classic.sql("USE db")
    for word in ("NAMESPACE", "SCHEMA", "DATABASE"):
        assert rows(classic, f"SHOW CURRENT {word}") == [("paimon", "db")]
    assert ("paimon",) in rows(classic, "SHOW CATALOGS") and ("spark_catalog",) in rows(classic, "SHOW CATALOGS")
    assert rows(classic, "SHOW CATALOGS LIKE 'p*n'") == [("paimon",)]
    classic.sql("REFRESH TABLE t")
    refused(classic, [("REFRESH TABLE tt", NotFoundError, "did you mean 't'")])


def test_views(lake: Lake, tmp_path: Path) -> None:
    lake.sql("CREATE TABLE db.t (id INT, name STRING)")
    lake.sql("INSERT INTO db.t VALUES (1, 'a'), (2, 'b')")
    lake.sql("CREATE OR REPLACE TEMPORARY VIEW kept (k COMMENT 'key', v) AS SELECT * FROM db.t WHERE id > 0")
    lake.sql("INSERT INTO db.t VALUES (3, 'c')")
    assert rows(lake, "SELECT k FROM kept WHERE k >= (SELECT max(k) FROM kept)") == [(2,)]  # of its snapshot
    assert lake.spark.table("kept").schema["k"].metadata["comment"] == "key"
    lake.sql("CREATE OR REPLACE TEMP VIEW kept AS SELECT * FROM db.t")
    assert rows(lake, "SELECT count(*) FROM kept") == [(3,)]
    assert rows(lake, "SHOW VIEWS IN db LIKE 'kep*'") == [("", "kept", True)]
    Path(tmp_path / "f.csv").write_text("1,a\n")
    for columns in (
        "(k INT, v STRING)",
        "(k DECIMAL(10, 2), v STRING COMMENT 'x')",
        "",
    ):  # typed ones were a syntax error
        lake.sql(f"CREATE OR REPLACE TEMP VIEW files {columns} USING csv OPTIONS (path '{tmp_path}/f.csv')")
        assert [str(value) for value in lake.sql("SELECT * FROM files").collect()[0]] in (["1", "a"], ["1.00", "a"])
    lake.sql("CREATE GLOBAL TEMP VIEW everywhere AS SELECT id FROM db.t")
    assert rows(lake, "SELECT max(id) FROM global_temp.everywhere") == [(3,)]
    lake.sql("DROP VIEW global_temp.everywhere")
    for statement in ["CREATE VIEW v AS SELECT * FROM db.t", "CREATE VIEW db.v AS SELECT 1 AS one"]:
        with pytest.raises(UnsupportedError, match="file-system catalog"):
            lake.sql(statement)
    for statement in [
        "CREATE OR REPLACE TEMPORARY FUNCTION f(k INT) RETURNS INT RETURN SELECT max(id) FROM db.t WHERE id > k",
        "CREATE FUNCTION db.f(x INT) RETURNS INT RETURN x + 1",
    ]:
        with pytest.raises(UnsupportedError, match="CREATE FUNCTION"):
            lake.sql(statement)
    lake.sql("DROP VIEW kept")
    lake.sql("DROP VIEW IF EXISTS db.kept")
    with pytest.raises(InvalidError, match="DROP TABLE"):
        lake.sql("DROP VIEW db.t")


def test_cached(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.t (id INT)")
    classic.sql("INSERT INTO db.t VALUES (1)")
    classic.sql("CACHE TABLE db.t")
    assert classic.cached["db.t"].is_cached
    classic.sql("INSERT INTO db.t VALUES (2)")
    assert rows(classic, "SELECT * FROM db.t") == [(1,), (2,)]  # what is cached is a snapshot, never the answer
    classic.sql("UNCACHE TABLE db.t")
    assert classic.cached == {}
    classic.sql("CACHE LAZY TABLE part AS SELECT * FROM db.t WHERE id = 2")
    assert rows(classic, "SELECT * FROM part") == [(2,)]
    classic.sql("UNCACHE TABLE part")
    classic.sql("DROP VIEW part")


def test_analyze(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.t (id STRING, i INT, d DECIMAL(10, 5), at TIMESTAMP, c CHAR(20), b BINARY, dt DATE) "
                "TBLPROPERTIES ('primary-key' = 'id')")  # fmt: skip
    classic.sql("ANALYZE TABLE db.t COMPUTE STATISTICS FOR ALL COLUMNS")
    assert classic.table("db.t").snapshots() == []
    classic.sql(
        "INSERT INTO db.t VALUES ('1', 1, 12.12345, TIMESTAMP'2020-01-01 00:00:00', 'a', NULL, DATE'2020-01-01')"
    )
    classic.sql("INSERT INTO db.t VALUES ('1', 1, 12.12345, TIMESTAMP'2020-01-02 00:00:00', 'a', NULL, NULL), "
                "('222', NULL, 22.12345, NULL, 'bbbb', CAST('xyz' AS BINARY), DATE'2020-01-02')")  # fmt: skip
    classic.sql("ANALYZE TABLE db.t COMPUTE STATISTICS FOR ALL COLUMNS")
    table = classic.table("db.t")
    snapshot = table.snapshots()[-1]
    assert snapshot.commit_kind.value == "ANALYZE"
    text = Path(table.path, "statistics", str(snapshot.statistics)).read_text()
    found = json.loads(text)
    assert (found["snapshotId"], found["schemaId"], found["mergedRecordCount"]) == (snapshot.id - 1, 0, 2)
    assert found["mergedRecordSize"] > 0
    fixed = {"nullCount": 0, "avgLen": 8, "maxLen": 8}
    assert found["colStats"] == {
        "id": {"colId": 0, "distinctCount": 2, "nullCount": 0, "avgLen": 2, "maxLen": 3},
        "i": {"colId": 1, "distinctCount": 1, "min": "1", "max": "1", "nullCount": 1, "avgLen": 4, "maxLen": 4},
        "d": {"colId": 2, "distinctCount": 2, "min": "12.12345", "max": "22.12345", **fixed},
        "at": {"colId": 3, "distinctCount": 1, "min": "2020-01-02 00:00:00.000000",
               "max": "2020-01-02 00:00:00.000000", **fixed, "nullCount": 1},
        "c": {"colId": 4, "distinctCount": 2, "nullCount": 0, "avgLen": 20, "maxLen": 20},
        "b": {"colId": 5, "distinctCount": 1, "nullCount": 1, "avgLen": 3, "maxLen": 3},
        "dt": {"colId": 6, "distinctCount": 1, "min": "18263", "max": "18263", "nullCount": 1, "avgLen": 4, "maxLen": 4},
    }  # fmt: skip
    classic.sql("ANALYZE TABLE db.t COMPUTE STATISTICS")
    latest = table.latest_snapshot()
    assert latest is not None
    assert json.loads(Path(table.path, "statistics", str(latest.statistics)).read_text())["colStats"] == {}
    assert rows(classic, "SELECT id FROM db.t") == [("1",), ("222",)]
    classic.sql("CREATE TABLE db.m (id INT, m MAP<INT, INT>)")
    refused(
        classic,
        [
            ("ANALYZE TABLE db.t COMPUTE STATISTICS NOSCAN", InvalidError, "NOSCAN is ineffective with paimon"),
            ("ANALYZE TABLE db.t PARTITION (i = 1) COMPUTE STATISTICS", UnsupportedError, "partition is not supported"),
            ("ANALYZE TABLE db.t COMPUTE STATISTICS FOR COLUMNS fake", InvalidError, "Column fake not found"),
            ("ANALYZE TABLE db.m COMPUTE STATISTICS FOR COLUMNS m", UnsupportedError, "not supported"),
            ("ANALYZE TABLE db.m COMPUTE STATISTICS FOR ALL COLUMNS", UnsupportedError, "not supported"),
        ],
    )


def test_every_sparks_words_for_a_catalog_that_nobody_knows(classic: Lake) -> None:
    for words, name in (("identifier ", "`x`.`db`.`t`"), ("", "`x`.`db`")):  # later Sparks', Spark 4.1's
        text = f"[REQUIRES_SINGLE_PART_NAMESPACE] spark_catalog requires a single-part namespace, but got {words}"
        for catalog, said in (
            ("nowhere", "catalog nowhere does not exist"),
            ("paimon", "only support single namespace"),
        ):
            told = explained(classic, AnalysisException(f"{text}`{catalog}`.{name}. SQLSTATE: 42K05"))
            assert told is not None and said in str(told)


def test_names_that_nobody_knows(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.orders (id INT)")
    refused(
        classic,
        [
            ("SELECT * FROM db.order", AnalysisException, "cannot be found.*did you mean 'orders'"),
            ("SELECT * FROM dbb.orders", NotFoundError, "did you mean the database 'db'"),
            (
                "SELECT * FROM nowhere.db.orders",
                AnalysisException,
                "catalog nowhere does not exist|SINGLE_PART_NAMESPACE",
            ),
            ("SELECT * FROM paimon.x.db.orders", AnalysisException, "Paimon only support single namespace"),
            ("MSCK REPAIR TABLE db.orders", UnsupportedError, "MSCK on a lake table"),
            ("LOAD DATA INPATH '/x' INTO TABLE db.orders", UnsupportedError, "LOAD on a lake table"),
            ("VACUUM db.orders", UnsupportedError, "VACUUM on a lake table"),
            (
                "OPTIMIZE db.orders ZORDER BY (id)",
                UnsupportedError,
                r"sys\.compact\(table => 'db\.orders', order_strategy",
            ),
            ("CREATE TABLE db.copy CLONE db.orders", InvalidError, r"CALL sys\.clone\(database => "),
            *[
                (f"EXPLAIN {verb} db.orders", UnsupportedError, "EXPLAIN of .* on a lake table.*EXPLAIN takes queries")
                for verb in ("DESC", "DESCRIBE TABLE EXTENDED", "SHOW COLUMNS IN", "SHOW CREATE TABLE", "ANALYZE TABLE")
            ],
            ("OPTIMIZE db.orders", UnsupportedError, r"sys\.compact\(table => 'db\.orders'\)"),
            ("COMPACT TABLE db.orders", UnsupportedError, r"sys\.compact\(table => 'db\.orders'\)"),
        ],
    )
    with pytest.raises(BucketlakeError):
        classic.sql("DESCRIBE HISTORY db.orders")


def test_like_a_branch(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.t (id INT, pt STRING) COMMENT 'said' PARTITIONED BY (pt) "
                "TBLPROPERTIES ('primary-key' = 'id,pt', 'bucket' = '5')")  # fmt: skip
    place = Path(classic.table("db.t").path)
    branch = place / "branch" / "branch-b" / "schema"
    branch.mkdir(parents=True)
    (branch / "schema-0").write_bytes((place / "schema" / "schema-0").read_bytes())
    classic.sql("ALTER TABLE db.`t$branch_b` ADD COLUMNS (extra STRING)")
    classic.sql("CREATE TABLE paimon.db.u LIKE paimon.db.`t$branch_b` TBLPROPERTIES ('bucket' = '8')")
    made = classic.table("db.u").schema
    assert (made.field_names, made.primary_keys, made.comment) == (("id", "pt", "extra"), ("id", "pt"), "said")
    assert made.options == {"bucket": "8"}
    assert "extra" not in columns(classic, "db.t")


@pytest.mark.parametrize("small", [True, False])
def test_tables_of_queries_keep_lengths(classic: Lake, small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not small:
        monkeypatch.setattr(reader, "SMALL_ROWS", -1)
    classic.sql("CREATE TABLE db.a (id INT, b VARCHAR(10), c CHAR(4), p VARCHAR(3)) PARTITIONED BY (p)")
    classic.sql("INSERT INTO db.a VALUES (1, 'a', 'b', 'x')")
    classic.sql("ALTER TABLE db.a ADD COLUMN n VARCHAR(5)")
    classic.sql("CREATE TABLE db.b AS SELECT *, b AS d, concat(b, p) AS e FROM db.a")
    assert list(columns(classic, "db.b").values()) == [
        *("INT", "VARCHAR(10)", "CHAR(4)", "VARCHAR(3)", "VARCHAR(5)", "VARCHAR(10)", "STRING")
    ]
    assert rows(classic, "SELECT * FROM db.b") == [(1, "a", "b   ", "x", None, "a", "ax")]
    classic.sql("CREATE TABLE db.c (id INT, b STRING)")
    merges = {"write.merge-schema": True, "write.merge-schema.type-widening": True}
    classic.table("db.c").write(classic.sql("SELECT id, b, n FROM db.a"), **merges)
    assert columns(classic, "db.c") == {"id": "INT", "b": "STRING", "n": "STRING"}  # what comes is text


@pytest.mark.parametrize("attach", [False, True])
def test_databases_of_sparks_own_catalog_are_sparks(classic: Lake, tmp_path: Path, attach: bool) -> None:
    lake = bucketlake.attach(classic.spark, tmp_path / "attached") if attach else classic
    one, call = "spark_catalog.sparks", "CALL sys.migrate_database(source_type => 'hive', database => 'sparks')"
    try:
        lake.sql(f"CREATE DATABASE {one} COMMENT 'before'")
        lake.sql(f"CREATE TABLE {one}.t USING parquet AS SELECT 1 AS id")
        lake.sql(f"ALTER DATABASE {one} SET DBPROPERTIES ('k' = 'v')")
        lake.sql(f"COMMENT ON DATABASE {one} IS 'Sparks'")
        told = dict(tuple(row) for row in lake.sql(f"DESCRIBE DATABASE EXTENDED {one}").collect())
        assert (told["Comment"], told["Properties"]) == ("Sparks", "((k,v))")
        assert [row.tableName for row in lake.sql(f"SHOW TABLES IN {one}").collect() if not row.isTemporary] == ["t"]
        assert lake.sql(f"SHOW TABLE EXTENDED IN {one} LIKE 't'").count() == 1
        assert "sparks" in [row[0] for row in lake.sql("SHOW DATABASES IN spark_catalog").collect()]
        assert "sparks" not in [row[0] for row in lake.sql("SHOW NAMESPACES FROM paimon").collect()]
        assert lake.sql(call).collect()[0][0] == "migrate database is finished, success cnt: 1 , failed cnt: 0"
        assert [row.id for row in lake.sql("SELECT * FROM sparks.t").collect()] == [1]
        assert lake.sql("SHOW NAMESPACES IN default").count() == 0  # databases have none in them
        for statement, kind, told in (
            ("SHOW TABLES IN nowhere.db", InvalidError, r"no such catalog \[name=nowhere.db\]"),
            ("SHOW DATABASES IN nowhere.db", InvalidError, r"no such catalog \[name=nowhere.db\]"),
            ("SHOW DATABASES IN nowhere", NotFoundError, r"no such database \[database=nowhere\]"),
        ):
            with pytest.raises(kind, match=told):
                lake.sql(statement)
    finally:
        lake.sql(f"DROP DATABASE IF EXISTS {one} CASCADE")
        if attach:
            bucketlake.detach(classic.spark)
    assert not classic.spark.catalog.databaseExists(one)


def test_a_catalog_by_name(classic: Lake) -> None:
    lake = classic
    lake.sql("CREATE TABLE db.mine (id INT)")
    lake.sql("CREATE DATABASE paimon")  # a name that a catalog has, too
    spark_has = "SELECT count(*) FROM range(3)"
    for ours in ("USE CATALOG paimon", "SET CATALOG bucketlake", "SET CATALOG 'paimon'"):
        for theirs in ("SET CATALOG spark_catalog", "USE CATALOG spark_catalog"):
            lake.sql("USE db")
            lake.sql(theirs)
            try:
                assert lake.sql("SHOW CURRENT NAMESPACE").collect()[0][0] == "spark_catalog"
                assert lake.sql(spark_has).collect()[0][0] == 3
            finally:
                lake.sql(ours)
            assert tuple(lake.sql("SHOW CURRENT NAMESPACE").collect()[0]) == ("paimon", "default"), ours
    for statement in ("USE CATALOG `my-catalog`", "SET CATALOG 'my-catalog'"):
        with pytest.raises(InvalidError, match="no such catalog.*my-catalog"):
            lake.sql(statement)
    assert tuple(lake.sql("SHOW CURRENT NAMESPACE").collect()[0]) == ("paimon", "default")


def test_options_in_empty_brackets(classic: Lake) -> None:
    lake = classic
    lake.sql("CREATE TABLE t (id BIGINT) WITH (\n  -- 'file.format' = 'orc'\n)")
    assert dict(lake.table("t").schema.options) == {}
    with pytest.raises(InvalidError, match="expected the key of an option"):
        lake.sql("CREATE TABLE u (id BIGINT) TBLPROPERTIES ()")


def test_flinks_like_with_options_or_without(classic: Lake) -> None:
    lake = classic
    lake.sql(
        "CREATE TABLE t (id BIGINT, dt STRING, PRIMARY KEY (dt, id) NOT ENFORCED) PARTITIONED BY (dt) "
        "COMMENT 'of days' WITH ('bucket' = '3', 'file.format' = 'orc')"
    )
    said = {
        "(EXCLUDING OPTIONS)": {},
        "(INCLUDING ALL EXCLUDING OPTIONS) WITH ('bucket' = '2')": {"bucket": "2"},
        "(INCLUDING ALL)": {"bucket": "3", "file.format": "orc"},
    }
    for place, (text, options) in enumerate(said.items()):
        lake.sql(f"CREATE TABLE u{place} LIKE t {text}")
        schema = lake.table(f"u{place}").schema
        assert dict(schema.options) == options, text
        assert (schema.primary_keys, schema.partition_keys, schema.comment) == (("dt", "id"), ("dt",), "of days")
    with pytest.raises(UnsupportedError, match="EXCLUDING CONSTRAINTS"):
        lake.sql("CREATE TABLE v LIKE t (EXCLUDING CONSTRAINTS)")


def test_flinks_modify_says_what_may_be_null(classic: Lake) -> None:
    lake = classic
    lake.sql(
        "CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, c FLOAT NOT NULL, r ROW<n INT NOT NULL> NOT NULL) "
        "WITH ('alter-column-null-to-not-null.disabled' = 'false')"
    )
    nullable = {}
    for statement in (
        "MODIFY c DOUBLE",
        "MODIFY c DOUBLE NOT NULL",
        "MODIFY (ID INT COMMENT 'key', C DOUBLE COMMENT 'of c')",
        "CHANGE COLUMN r.n n BIGINT",  # Hive's: what it does not say stays
        "ALTER COLUMN c SET NOT NULL",
    ):
        lake.sql(f"ALTER TABLE t {statement}")
        fields = lake.table("t").schema.fields
        nullable[statement.partition(" ")[2]] = tuple(field.type.nullable for field in fields)
    assert list(nullable.values()) == [
        (False, True, False),
        (False, False, False),
        (False, True, False),
        (False, True, False),
        (False, False, False),
    ]
    schema = lake.table("t").schema
    assert not schema.field("r").type.fields[0].type.nullable
    assert (schema.field("id").description, schema.field("c").description) == ("key", "of c")
    with pytest.raises(InvalidError, match="Cannot update primary key"):
        lake.sql("ALTER TABLE t MODIFY id BIGINT")


def test_what_flink_computes_is_refused_by_name(classic: Lake) -> None:
    lake = classic
    lake.sql("CREATE TABLE t (log_ts STRING)")
    for statement in (
        "CREATE TABLE u (log_ts STRING, ts AS TO_TIMESTAMP(log_ts)) WITH ('bucket' = '-1')",
        "ALTER TABLE t ADD (ts AS TO_TIMESTAMP(log_ts) AFTER log_ts, WATERMARK FOR ts AS ts - INTERVAL '1' HOUR)",
        "ALTER TABLE t ADD ts AS TO_TIMESTAMP(log_ts)",
    ):
        with pytest.raises(UnsupportedError, match="computed columns are not supported.*ts"):
            lake.sql(statement)
    with pytest.raises(UnsupportedError, match="'type' is not supported.*object-table"):
        lake.sql("CREATE TABLE objects WITH ('type' = 'object-table')")
    assert lake.table("t").schema.field_names == ("log_ts",)
