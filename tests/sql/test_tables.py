"""Databases and tables by statement: CREATE in both spellings, CTAS, ALTER, SHOW, DESCRIBE, DROP, TRUNCATE."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

from bucketlake.errors import AlreadyExistsError, BucketlakeError, InvalidError, NotFoundError, UnsupportedError
from bucketlake.schema.versions import create_schema
from bucketlake.spark.session import Lake
from bucketlake.types.model import INT, DataField, quote_identifier, quote_text, type_text


def columns(lake: Lake, name: str) -> dict[str, str]:
    return {f.name: type_text(f.type) for f in lake.table(name).schema.fields}


def names(lake: Lake, text: str, column: str) -> list[str]:
    return [row[column] for row in lake.sql(text).collect()]


def test_sparks_spelling(lake: Lake) -> None:
    lake.sql("""
        CREATE TABLE IF NOT EXISTS db.t (
          id BIGINT NOT NULL COMMENT 'the key', name VARCHAR(10), at TIMESTAMP, plain TIMESTAMP_NTZ, price DECIMAL(32, 2),
          tags ARRAY<STRING>, props MAP<STRING, INT>, nested STRUCT<a: INT, b: STRUCT<c: DOUBLE>>, dt STRING
        ) USING paimon PARTITIONED BY (dt) COMMENT 'a table'
        TBLPROPERTIES ('primary-key' = 'dt,id', 'bucket' = '4', 'file.format' = 'parquet')""")
    schema = lake.table("db.t").schema
    assert (schema.primary_keys, schema.partition_keys, schema.comment) == (("dt", "id"), ("dt",), "a table")
    assert "primary-key" not in schema.options
    assert schema.options["bucket"] == "4"
    found = columns(lake, "db.t")
    assert found["id"] == "BIGINT NOT NULL"
    assert found["at"] == "TIMESTAMP(6) WITH LOCAL TIME ZONE"
    assert found["plain"] == "TIMESTAMP(6)"
    assert found["dt"] == "STRING NOT NULL"
    assert schema.field("id").description == "the key"


def test_flinks_spelling(lake: Lake) -> None:
    lake.sql("""
        CREATE TABLE db.t (
          id BIGINT, ts TIMESTAMP(3), at TIMESTAMP, ltz TIMESTAMP_LTZ(3), name STRING, pt INT,
          WATERMARK FOR ts AS ts - INTERVAL '5' SECOND,
          PRIMARY KEY (pt, id) NOT ENFORCED
        ) PARTITIONED BY (pt) WITH ('bucket' = '2')""")
    found = columns(lake, "db.t")
    assert found["ts"] == "TIMESTAMP(3)"
    assert found["at"] == "TIMESTAMP(6)"
    assert found["ltz"] == "TIMESTAMP(3) WITH LOCAL TIME ZONE"
    assert lake.table("db.t").schema.primary_keys == ("pt", "id")


def test_types_may_have_comments_in_them(lake: Lake) -> None:
    lake.sql("""
        CREATE TABLE db.t (
          id DECIMAL(10 /* digits */, 2), -- the key
          s STRUCT<
            a: INT, -- first's
            b: ARRAY<STRING> /* of /* all */ */
          >
        )""")
    lake.sql("ALTER TABLE db.t ADD COLUMN m MAP<STRING, -- key\n INT>")
    lake.sql("ALTER TABLE db.t ALTER COLUMN id TYPE DECIMAL(12, /* as many */ 2)")
    found = columns(lake, "db.t")
    assert (found["id"], found["m"]) == ("DECIMAL(12, 2)", "MAP<STRING NOT NULL, INT>")
    assert lake.sql("SELECT s.* FROM db.t").columns == ["a", "b"]


def test_ctas_and_like(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.a TBLPROPERTIES ('bucket'='-1') AS SELECT id, id * 2 AS twice FROM range(3)")
    lake.sql("CREATE TABLE db.b PARTITIONED BY (twice) AS SELECT * FROM db.a WHERE id > 0")
    assert {tuple(r) for r in lake.sql("SELECT * FROM db.b").collect()} == {(1, 2), (2, 4)}
    assert columns(lake, "db.b") == {"id": "BIGINT", "twice": "BIGINT"}  # whatever the query has at first
    lake.sql("CREATE TABLE db.c LIKE db.b")
    assert lake.table("db.c").schema.partition_keys == ("twice",)
    assert lake.sql("SELECT * FROM db.c").count() == 0


def test_like_takes_the_keys_that_the_statement_gives(lake: Lake) -> None:
    lake.sql(
        "CREATE TABLE db.a (id INT NOT NULL, day STRING NOT NULL) PARTITIONED BY (day) TBLPROPERTIES ('bucket' = '-1')"
    )
    lake.sql("CREATE TABLE db.b LIKE db.a TBLPROPERTIES ('primary-key' = 'day,id', 'bucket' = '2')")
    schema = lake.table("db.b").schema
    assert (schema.primary_keys, schema.partition_keys, schema.options["bucket"]) == (("day", "id"), ("day",), "2")
    with pytest.raises(NotFoundError, match=r"db\.bb.*did you mean 'b'"):
        lake.sql("CREATE TABLE db.c LIKE db.bb")


def test_like_a_table_or_view_of_sparks(lake: Lake, tmp_path: Path) -> None:
    """As Spark's own LIKE, and the comment, as Paimon's connector; which of Spark's properties are none of ours."""
    spark = lake.spark
    spark.sql(f"""CREATE TABLE spark_catalog.default.source (
        id INT COMMENT 'which', name VARCHAR(10) DEFAULT 'x', code CHAR(3), day DATE, pair STRUCT<a: INT, b: STRING>
    ) USING parquet PARTITIONED BY (day) LOCATION '{tmp_path / "source"}' COMMENT 'all' TBLPROPERTIES ('bucket' = '9')""")
    try:
        for name in ("spark_catalog.default.source", "default.source"):
            lake.sql("DROP TABLE IF EXISTS db.a")
            lake.sql(f"CREATE TABLE db.a LIKE {name}")
            schema = lake.table("db.a").schema
            assert {f.name: (type_text(f.type), f.description, f.default) for f in schema.fields} == {
                "id": ("INT", "which", None),
                "name": ("VARCHAR(10)", None, "'x'"),
                "code": ("CHAR(3)", None, None),
                "pair": ("ROW<`a` INT, `b` STRING>", None, None),
                "day": ("DATE", None, None),
            }
            assert (schema.partition_keys, schema.comment, dict(schema.options)) == (("day",), "all", {})
        lake.sql(
            "CREATE TABLE db.b LIKE spark_catalog.default.source COMMENT 'own'"
            " TBLPROPERTIES ('primary-key' = 'day,id', 'bucket' = '2')"
        )
        schema = lake.table("db.b").schema
        assert (schema.primary_keys, schema.comment, dict(schema.options)) == (("day", "id"), "own", {"bucket": "2"})
        lake.sql("INSERT INTO db.b (id, day) VALUES (1, DATE '2025-01-01')")
        assert lake.sql("SELECT id, name FROM db.b").collect() == [(1, "x")]
        lake.sql("CREATE TABLE db.d AS SELECT id, name FROM spark_catalog.default.source")
        assert [f.description for f in lake.table("db.d").schema.fields] == ["which", None]
    finally:
        spark.sql("DROP TABLE spark_catalog.default.source")
    with pytest.raises(AnalysisException, match="`spark_catalog`.`default`.`source` cannot be found"):
        lake.sql("CREATE TABLE db.e LIKE spark_catalog.default.source")  # its catalog was said to be unknown
    spark.sql("SELECT id, CAST(id AS STRING) AS name FROM range(3)").createOrReplaceTempView("few")
    lake.sql("CREATE TABLE db.c LIKE few TBLPROPERTIES ('primary-key' = 'id')")
    assert columns(lake, "db.c") == {"id": "BIGINT NOT NULL", "name": "STRING"}
    spark.catalog.dropTempView("few")


def test_a_failed_ctas_leaves_no_table(lake: Lake) -> None:
    with pytest.raises(Exception, match="(?i)divi"):
        lake.sql("CREATE TABLE db.bad AS SELECT CAST(raise_error('division') AS INT) AS y FROM range(3)")
    assert names(lake, "SHOW TABLES IN db", "tableName") == []


def test_databases(lake: Lake) -> None:
    lake.sql("CREATE DATABASE shop")
    lake.sql("CREATE DATABASE IF NOT EXISTS shop")
    with pytest.raises(AlreadyExistsError):
        lake.sql("CREATE SCHEMA shop")
    assert names(lake, "SHOW DATABASES", "namespace") == ["db", "default", "shop"]
    assert names(lake, "SHOW DATABASES LIKE 's*'", "namespace") == ["shop"]
    lake.sql("USE shop")
    lake.sql("CREATE TABLE t (a INT)")
    assert lake.sql("SHOW TABLES").collect()[0][:] == ("shop", "t", False)
    with pytest.raises(InvalidError, match="not empty"):
        lake.sql("DROP DATABASE shop")
    lake.sql("DROP DATABASE shop CASCADE")
    with pytest.raises(NotFoundError):
        lake.sql("DROP DATABASE shop")
    lake.sql("DROP DATABASE IF EXISTS shop")


def test_show_and_describe(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.t (id INT COMMENT 'key', v STRING, dt STRING, c VARCHAR(7), s STRUCT<Aa: INT>, "
             "ts TIMESTAMP(3), at TIMESTAMP) PARTITIONED BY (dt) "
             "TBLPROPERTIES ('primary-key'='dt,id', 'bucket'='1')")  # fmt: skip
    lake.sql("INSERT INTO db.t (id, v, dt) VALUES (1, 'a', 'x'), (2, 'b', 'y')")
    described = [tuple(r) for r in lake.sql("DESCRIBE TABLE db.t").collect()]
    assert described[:3] == [("id", "int", "key"), ("v", "string", None), ("dt", "string", None)]
    assert described[3:5] == [("c", "varchar(7)", None), ("s", "struct<Aa:int>", None)]
    assert ("# Partition Information", "", "") in described
    extended = {r.col_name: r.data_type for r in lake.sql("DESC EXTENDED db.t").collect()}
    assert extended["Provider"] == "paimon"
    assert "primary-key=dt,id" in extended["Table Properties"]
    assert names(lake, "SHOW COLUMNS IN db.t", "col_name") == ["id", "v", "dt", "c", "s", "ts", "at"]
    assert names(lake, "SHOW PARTITIONS db.t", "partition") == ["dt=x", "dt=y"]
    assert dict(tuple(r) for r in lake.sql("SHOW TBLPROPERTIES db.t").collect())["bucket"] == "1"
    statement = lake.sql("SHOW CREATE TABLE db.t").collect()[0][0]
    before = columns(lake, "db.t")
    lake.sql("DROP TABLE db.t")
    lake.sql(statement)
    assert columns(lake, "db.t") == before
    assert lake.table("db.t").schema.primary_keys == ("dt", "id")


def test_alter_options(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.t (id INT, v STRING)")
    lake.sql("ALTER TABLE db.t SET TBLPROPERTIES ('target-file-size' = '64 mb')")
    lake.sql("ALTER TABLE db.t SET ('write-buffer-size'='32 mb')")
    assert lake.table("db.t").schema.options == {"target-file-size": "64 mb", "write-buffer-size": "32 mb"}
    lake.sql("ALTER TABLE db.t UNSET TBLPROPERTIES ('target-file-size')")
    lake.sql("ALTER TABLE db.t RESET ('write-buffer-size')")
    assert lake.table("db.t").schema.options == {}
    with pytest.raises(BucketlakeError):
        lake.sql("ALTER TABLE db.t SET ('target-file-size' = 'a lot')")


def test_alter_columns(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.t (id INT, v STRING)")
    lake.sql("INSERT INTO db.t VALUES (1, 'old')")
    lake.sql("ALTER TABLE db.t ADD COLUMNS (w INT COMMENT 'new', x DOUBLE FIRST)")
    lake.sql("ALTER TABLE db.t RENAME COLUMN v TO name")
    lake.sql("ALTER TABLE db.t ALTER COLUMN id TYPE BIGINT")
    lake.sql("ALTER TABLE db.t DROP COLUMN w")
    assert columns(lake, "db.t") == {"x": "DOUBLE", "id": "BIGINT", "name": "STRING"}
    lake.sql("INSERT INTO db.t VALUES (1.5, 10000000000, 'new')")
    assert {tuple(r) for r in lake.sql("SELECT * FROM db.t").collect()} == {(None, 1, "old"), (1.5, 10000000000, "new")}
    lake.sql("ALTER TABLE db.t RENAME TO db.u")
    assert names(lake, "SHOW TABLES IN db", "tableName") == ["u"]


def test_truncate_and_drop_partition(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.t (id INT, dt STRING) PARTITIONED BY (dt)")
    lake.sql("INSERT INTO db.t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, NULL)")
    lake.sql("ALTER TABLE db.t DROP PARTITION (dt = 'a'), PARTITION (dt = 'b')")
    assert {r.id for r in lake.sql("SELECT id FROM db.t").collect()} == {3, 4}
    lake.sql("TRUNCATE TABLE db.t PARTITION (dt = 'c')")
    assert {r.id for r in lake.sql("SELECT id FROM db.t").collect()} == {4}
    lake.sql("TRUNCATE TABLE db.t")
    assert lake.sql("SELECT * FROM db.t").count() == 0


def test_sparks_own_tables_stay_sparks(lake: Lake) -> None:
    lake.sql("CREATE TABLE spark_catalog.default.own_of_spark (a INT) USING parquet")
    try:
        lake.sql("INSERT INTO own_of_spark VALUES (1)")
        lake.sql("CREATE TABLE db.t AS SELECT a FROM own_of_spark")
        assert {tuple(r) for r in lake.sql("SELECT t.a FROM db.t JOIN own_of_spark o ON t.a = o.a").collect()} == {(1,)}
    finally:
        lake.sql("DROP TABLE own_of_spark")
    assert not lake.spark.catalog.tableExists("own_of_spark")
    for name in ("stray", "db.stray", "paimon.db.stray"):
        with pytest.raises(UnsupportedError, match="does not support format table.*USING paimon"):
            lake.sql(f"CREATE TABLE {name} (a INT) USING csv")
    with pytest.raises(UnsupportedError, match="Provider 'kudu' is not supported"):
        lake.sql("CREATE OR REPLACE TABLE db.t (a INT) USING kudu")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("CREATE TABLE db.t (a INT, a STRING)", InvalidError),
        ("CREATE TABLE db.t (a INT) TBLPROPERTIES ('bucket'='many')", InvalidError),
        ("CREATE TABLE db.t (a INT) TBLPROPERTIES ('primary-key'='b')", InvalidError),
        ("CREATE TABLE db.t (a INT) PARTITIONED BY (b)", InvalidError),
        ("CREATE TABLE db.t (a INT) PARTITIONED BY (days(a))", UnsupportedError),
        ("CREATE TABLE db.t (a NOTATYPE)", InvalidError),
        ("CREATE TABLE db.t", InvalidError),
        ("CREATE TABLE nowhere.t (a INT)", NotFoundError),
        ("CREATE TABLE db.t (a INT) LOCATION '/x'", UnsupportedError),
        ("CREATE TABLE db.t (a INT) TBLPROPERTIES ('blob-field'='a')", InvalidError),
        ("ALTER TABLE db.gone SET ('bucket'='1')", Exception),
        ("DROP TABLE db.gone", NotFoundError),
        ("CALL sys.compact('db.gone')", NotFoundError),
        ("CALL sys.create_tag('db.t', 'x')", NotFoundError),
    ],
)
def test_bad_statements_change_nothing(lake: Lake, text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        lake.sql(text)
    assert names(lake, "SHOW TABLES IN db", "tableName") == []


def test_names_may_begin_with_digits(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.7x (1a INT, b STRING) TBLPROPERTIES ('primary-key' = '1a')")
    lake.sql("INSERT INTO db.7x VALUES (1, 'x'), (2, 'y'), (3, 'z')")
    lake.sql("ALTER TABLE db.7x ADD COLUMN 2c BIGINT")
    lake.sql("UPDATE db.7x SET 2c = 1a + 1 WHERE 7x.1a > 1")
    lake.sql("DELETE FROM db.7x WHERE 1a = 3")
    found = lake.sql("SELECT 1a, 7x.2c FROM db.7x WHERE 1a IN (1, 2, 3)").collect()
    assert {tuple(row) for row in found} == {(1, None), (2, 3)}
    assert lake.sql("SHOW CREATE TABLE db.7x").collect()[0][0].startswith("CREATE TABLE ")


@pytest.mark.parametrize("name", ["a.b", "né", "a`b"])
def test_names_that_need_quotes(classic: Lake, name: str) -> None:
    """Tables, their system tables, branches, columns and members, temporary views and cached queries."""
    q = quote_identifier
    table = f"db.{q(name)}"
    classic.sql(f"CREATE TABLE {table} (id INT, {q(name)} STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    classic.sql(f"INSERT INTO {table} SELECT 1, 'x'")
    classic.sql(f"UPDATE {table} SET {q(name)} = 'y' WHERE {q(name)}.{q(name)} = 'x'")
    classic.sql(
        f"MERGE INTO {table} t USING (SELECT 2 AS id, 'z' AS {q(name)}) ON t.id = 2 WHEN NOT MATCHED THEN INSERT *"
    )
    classic.sql(f"DELETE FROM {table} WHERE id = 2 AND id IN (SELECT id FROM {table})")
    merge = classic.table(table).merge(classic.spark.range(1, 2), f"{q(name)}.id = source.id")
    merge.whenMatched().update({q(name): "'w'"}).merge()
    classic.sql(f"CALL sys.compact({quote_text(table)})")
    assert names(classic, f"SELECT {q(name)} FROM db.{q(name + '$ro')}", name) == ["w"]
    classic.sql("CALL sys.compact_database()")
    for view in (f"CREATE TEMPORARY VIEW {q('v' + name)} AS", f"CACHE TABLE {q('c' + name)} AS"):
        classic.sql(f"{view} SELECT * FROM {table}")
    assert names(classic, f"SELECT * FROM {q('v' + name)} JOIN {q('c' + name)} USING (id)", "id") == [1]
    assert names(classic, "SHOW TABLES IN db", "tableName")[0] == name
    again = classic.sql(f"SHOW CREATE TABLE {table}").collect()[0][0]
    classic.sql(f"DROP TABLE {table}")
    classic.sql(again)
    assert [classic.table(one).schema.field_names for one in classic.tables()] == [("id", name)]
    for view in ("v", "c"):
        classic.sql(f"DROP VIEW {q(view + name)}")


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:option 'primaryKey' is not known")
def test_a_table_like_another_takes_its_properties_as_they_are(classic: Lake) -> None:
    """Words that CREATE TABLE refuses may stand in a table of another engine."""
    theirs = create_schema([DataField(0, "id", INT)], [], [], {"primaryKey": "id"}, None)
    classic.catalog.create_table("db.theirs", theirs)
    classic.sql("CREATE TABLE db.l LIKE db.theirs")
    classic.sql("CREATE OR REPLACE TABLE db.l LIKE db.theirs")
    assert classic.catalog.table("db.l").schema.options["primaryKey"] == "id"
    with pytest.raises(InvalidError, match="the option is 'primary-key'"):
        classic.sql("CREATE TABLE db.m LIKE db.theirs TBLPROPERTIES ('pk' = 'id')")


KINDS = {
    "append": "",
    "vectors": "TBLPROPERTIES ('deletion-vectors.enabled' = 'true')",
    "keyed": "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'write-only' = 'true')",
    "avro": "TBLPROPERTIES ('file.format' = 'avro')",
}


@pytest.mark.parametrize("kind", KINDS)
def test_comments_of_columns_go_with_rows(kind: str, lake: Lake) -> None:
    lake.sql(
        f"CREATE TABLE db.t (id INT COMMENT 'a', c CHAR(3) COMMENT 'b', v VARCHAR(5) COMMENT 'c', n INT) {KINDS[kind]}"
    )
    said = {"id": "a", "c": "b", "v": "c", "n": None, "late": "d"}
    lake.sql("INSERT INTO db.t VALUES (1, 'x', 'y', 2)")
    lake.sql("ALTER TABLE db.t ADD COLUMN late INT COMMENT 'd'")
    lake.sql("INSERT INTO db.t VALUES (1, 'x', 'y', 2, 3)")
    lake.sql("DELETE FROM db.t WHERE late IS NULL AND n = 3")
    for frame in (
        lake.sql("SELECT * FROM db.t"),
        lake.sql("SELECT * FROM db.t WHERE id > 5"),
        lake.table("db.t").read(),
        lake.spark.read.format("bucketlake").load(lake.table("db.t").path),
    ):
        assert {field.name: field.metadata.get("comment") for field in frame.schema} == said
    lake.sql("CREATE TABLE db.made AS SELECT id AS key, c, v, n + 1 AS n, late FROM db.t")
    made = lake.table("db.made").schema
    assert [item.description for item in made.fields] == ["a", "b", "c", None, "d"]
    assert [type_text(item.type) for item in made.fields][1:3] == ["CHAR(3)", "VARCHAR(5)"]
    lake.sql("CREATE TABLE db.own (id INT COMMENT 'own', n INT)")
    lake.table("db.own").write(lake.sql("SELECT id, n, late FROM db.t"), **{"write.merge-schema": "true"})
    source = "(SELECT id, n, late, v AS more FROM db.t LIMIT 1) AS s"
    lake.sql(
        f"MERGE WITH SCHEMA EVOLUTION INTO db.own AS o USING {source} ON o.id = s.id WHEN MATCHED THEN UPDATE SET *"
    )
    evolved = lake.table("db.own").schema
    assert [item.description for item in evolved.fields] == ["own", None, "d", "c"]
    rows = lake.sql("DESC QUERY SELECT id, late FROM db.t").collect()
    assert [row.comment for row in rows] == ["a", "d"]
