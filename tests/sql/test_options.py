"""Options in SQL and of DataFrames: every door that sets one checks it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

import bucketlake
from bucketlake.errors import InvalidError, NotFoundError, UnsupportedError
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark


def _of(lake: Lake, statement: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in lake.sql(statement).collect()]


def test_a_refused_option_is_refused_at_every_door(classic: Lake) -> None:
    lake, key = classic, "scan.partitions"
    lake.sql("CREATE TABLE t (id BIGINT, dt STRING) PARTITIONED BY (dt)")
    lake.sql("INSERT INTO t VALUES (1, 'a')")
    path = lake.table("t").path
    frame = lake.spark.createDataFrame([(2, "b")], "id BIGINT, dt STRING")
    doors = [
        lambda: lake.sql(f"CREATE TABLE u (id BIGINT) TBLPROPERTIES ('{key}' = '7 d')"),
        lambda: lake.sql(f"CREATE TABLE u WITH ('{key}' = '7 d') AS SELECT 1 AS id"),
        lambda: lake.sql(f"ALTER TABLE t SET TBLPROPERTIES ('{key}' = '7 d')"),
        lambda: lake.sql(f"SELECT * FROM t /*+ OPTIONS('{key}' = '7 d') */").collect(),
        lambda: lake.sql(f"INSERT INTO t /*+ OPTIONS('{key}' = '7 d') */ VALUES (3, 'c')"),
        lambda: lake.sql(f"DELETE FROM t /*+ OPTIONS('{key}' = '7 d') */ WHERE id = 1"),
        lambda: lake.sql(f"CALL sys.compact(table => 't', options => '{key}=7 d')"),
        lambda: lake.table("t").read(**{key: "7 d"}),
        lambda: lake.table("t").write(frame, **{key: "7 d"}),
        lambda: lake.spark.read.format("bucketlake").option(key, "7 d").load(path).collect(),
        lambda: frame.write.format("bucketlake").mode("append").option(key, "7 d").save(path),
    ]
    for door in doors:
        with pytest.raises(Exception, match=rf"'{key}' is not supported") as caught:
            door()
        assert isinstance(caught.value, UnsupportedError) or "PySpark" in repr(caught) or "Analysis" in repr(caught)
    lake.spark.conf.set(f"spark.paimon.{key}", "7 d")
    try:
        with pytest.raises(UnsupportedError, match=f"'{key}'"):
            lake.sql("SELECT * FROM t").collect()
        with pytest.raises(UnsupportedError, match=f"'{key}'"):
            lake.sql("INSERT INTO t VALUES (3, 'c')")
    finally:
        lake.spark.conf.unset(f"spark.paimon.{key}")
    assert _of(lake, "SELECT id, dt FROM t") == [(1, "a")]
    assert lake.catalog.list_tables() == ["t"]
    assert len(lake.table("t").snapshots()) == 1


def test_connect_looks_at_its_options_first(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="'metastore'"):
        bucketlake.connect(tmp_path, options={"metastore": "hive"})
    with pytest.raises(UnsupportedError, match="'uri'"):
        bucketlake.connect(tmp_path, uri="thrift://host:9083")
    with pytest.raises(InvalidError, match="two warehouses"):
        bucketlake.connect(tmp_path, options={"warehouse": "/elsewhere"})


def test_the_branch_of_a_hint(classic: Lake) -> None:
    lake = classic
    lake.sql("CREATE TABLE t (id BIGINT)")
    lake.sql("INSERT INTO t VALUES (1)")
    table = lake.table("t")
    for door in (
        lambda: lake.sql("SELECT * FROM t /*+ OPTIONS('branch' = 'nope') */").collect(),
        lambda: lake.sql("INSERT INTO t /*+ OPTIONS('branch' = 'nope') */ VALUES (2)"),
        lambda: lake.sql("DELETE FROM t /*+ OPTIONS('branch' = 'nope') */ WHERE id = 1"),
        lambda: table.read(branch="nope"),
    ):
        with pytest.raises(NotFoundError, match="nope"):
            door()
    folder = Path(table.path, "branch", "branch-b", "schema")
    folder.mkdir(parents=True)
    (folder / "schema-0").write_text(Path(table.path, "schema", "schema-0").read_text())
    lake.sql("INSERT INTO t /*+ OPTIONS('branch' = 'b') */ VALUES (2)")
    assert _of(lake, "SELECT * FROM t /*+ OPTIONS('branch' = 'b') */") == [(2,)]
    assert _of(lake, "SELECT * FROM `t$branch_b`") == [(2,)]
    assert _of(lake, "SELECT * FROM t") == [(1,)]
    lake.sql("DELETE FROM t /*+ OPTIONS('branch' = 'b') */")
    assert _of(lake, "SELECT * FROM t /*+ OPTIONS('branch' = 'b') */") == []
    assert _of(lake, "SELECT * FROM t") == [(1,)]


def test_the_comment_of_a_table(classic: Lake) -> None:
    lake = classic
    lake.sql("CREATE TABLE t (id BIGINT) TBLPROPERTIES ('comment' = 'first')")
    assert (lake.table("t").schema.comment, dict(lake.table("t").schema.options)) == ("first", {})
    lake.sql("ALTER TABLE t SET TBLPROPERTIES ('comment' = 'second')")
    assert lake.table("t").schema.comment == "second"
    lake.sql("CREATE TABLE u LIKE t")
    lake.sql("CREATE TABLE v LIKE t COMMENT 'own'")
    assert (lake.table("u").schema.comment, lake.table("v").schema.comment) == ("second", "own")
    lake.sql("ALTER TABLE t UNSET TBLPROPERTIES ('comment')")
    assert lake.table("t").schema.comment is None
    lake.sql("CREATE TABLE w (id BIGINT) COMMENT 'clause' TBLPROPERTIES ('comment' = 'property')")
    assert lake.table("w").schema.comment == "clause"


def test_files_by_time_of_creation(classic: Lake) -> None:
    lake = classic
    lake.sql("CREATE TABLE t (id BIGINT, n INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    for n in (1, 2, 3):
        lake.sql(f"INSERT INTO t VALUES (1, {n}), ({n}, {n})")
    last = lake.table("t").latest_snapshot()
    assert last is not None
    old = f"/*+ OPTIONS('scan.file-creation-time-millis' = '{last.time_millis - 600_000}') */"
    new = f"/*+ OPTIONS('scan.file-creation-time-millis' = '{last.time_millis + 600_000}') */"
    assert sorted(_of(lake, f"SELECT id, n FROM t {old}")) == [(1, 3), (2, 2), (3, 3)]
    assert _of(lake, f"SELECT id, n FROM t {new}") == []
    assert sorted(_of(lake, "SELECT id, n FROM t")) == [(1, 3), (2, 2), (3, 3)]


def test_options_of_a_session_in_flinks_spelling(classic: Lake) -> None:
    lake = classic
    lake.sql("CREATE TABLE t (id BIGINT)")
    lake.sql("CREATE TABLE u (id BIGINT)")
    for table in ("t", "u"):
        for n in (1, 2):
            lake.sql(f"INSERT INTO {table} VALUES ({n})")
    both = "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM u)"
    said = {
        "'scan.snapshot-id'": (1, 1),  # of all tables
        "'paimon.*.default.t.scan.snapshot-id'": (1, 2),
        "'paimon.paimon.default.u.scan.snapshot-id'": (2, 1),
        "'execution.checkpointing.interval'": (2, 2),
    }
    for key, expected in said.items():
        try:
            lake.sql(f"SET {key} = '1'")
            assert _of(lake, both) == [expected], key
        finally:
            lake.sql(f"RESET {key}")
        assert _of(lake, both) == [(2, 2)], key
    for key in ("'paimon.elsewhere.default.u.scan.snapshot-id'", "spark.paimon.elsewhere.default.u.scan.snapshot-id"):
        with pytest.raises(InvalidError, match="in no known catalog.*elsewhere"):
            lake.sql(f"SET {key} = '1'")
    lake.spark.conf.set("spark.sql.catalog.elsewhere", "some.Catalog")
    try:
        lake.sql("SET spark.paimon.elsewhere.default.u.scan.snapshot-id = 1")
        assert _of(lake, both) == [(2, 2)]
    finally:
        lake.spark.conf.unset("spark.sql.catalog.elsewhere")
        lake.sql("RESET spark.paimon.elsewhere.default.u.scan.snapshot-id")


def test_a_comment_before_a_statement_changes_nothing(classic: Lake) -> None:
    lake = classic
    lake.sql("CREATE TABLE t (id BIGINT)")
    for n in (1, 2):
        lake.sql(f"INSERT INTO t VALUES ({n})")
    for lead in ("-- of one table\n", "/* of */ /* one\ntable */ ", "-- a\n-- b\n\n  "):
        try:
            lake.sql(f"{lead}SET spark.paimon.*.default.t.scan.snapshot-id=1")
            assert _of(lake, f"{lead}SELECT id FROM t") == [(1,)], lead
        finally:
            lake.sql(f"{lead}RESET spark.paimon.*.default.t.scan.snapshot-id;")
        assert _of(lake, f"{lead}SELECT count(*) FROM t") == [(2,)]
        plan = str(_of(lake, f"{lead}EXPLAIN SELECT id FROM t"))
        assert "default.t" in plan, plan
    with pytest.raises(AnalysisException, match="line 2, column 8"):
        lake.sql("-- what\nSELECT nope FROM t")


def test_each_query_reads_by_what_is_set_when_it_is_run(classic: Lake) -> None:
    lake, key = classic, "spark.paimon.scan.snapshot-id"
    lake.sql("CREATE TABLE t (id BIGINT)")
    for number in (1, 2, 3):
        lake.sql(f"INSERT INTO t VALUES ({number})")
    asked = ("SELECT max(id) FROM t", "WITH w AS (SELECT * FROM t) SELECT max(id) FROM w", "FROM t SELECT max(id)")
    try:
        for value, expected in (("1", 1), ("2", 2), (None, 3), ("2", 2), ("7", None), (None, 3)):
            lake.spark.conf.set(key, value) if value else lake.spark.conf.unset(key)
            for query in asked:
                if expected is None:
                    with pytest.raises(NotFoundError, match="7"):
                        lake.sql(query)
                else:
                    assert _of(lake, query) == [(expected,)], (value, query)
    finally:
        lake.spark.conf.unset(key)


def test_what_begins_like_a_query_is_run_once_whatever_was_set_before(classic: Lake, tmp_path: Path) -> None:
    lake, key = classic, "spark.paimon.scan.snapshot-id"
    lake.sql("CREATE TABLE t (id BIGINT)")
    lake.sql("INSERT INTO t VALUES (1)")
    lake.sql("INSERT INTO t VALUES (2)")
    lake.spark.sql(f"CREATE TABLE spark_catalog.default.once (id BIGINT) USING parquet LOCATION '{tmp_path / 'once'}'")
    try:
        assert _of(lake, "SELECT count(*) FROM t") == [(2,)]
        lake.spark.conf.set(key, "1")
        lake.sql("WITH w AS (SELECT id FROM t) INSERT INTO spark_catalog.default.once SELECT id FROM w")
        lake.spark.conf.unset(key)
        lake.sql("FROM t INSERT INTO spark_catalog.default.once SELECT id WHERE id = 2")
        assert sorted(row.id for row in lake.spark.table("spark_catalog.default.once").collect()) == [1, 2]
    finally:
        lake.spark.conf.unset(key)
        lake.spark.sql("DROP TABLE spark_catalog.default.once")
