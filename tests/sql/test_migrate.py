"""CALL sys.migrate_table and its like: tables of Spark's own catalog become the lake's, in place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.profile import later

import bucketlake
from bucketlake.errors import AlreadyExistsError, CorruptError, InvalidError, NotFoundError, UnsupportedError
from bucketlake.spark.maintain import reformat
from bucketlake.spark.session import Lake

DATABASE = "hive_db"


@pytest.fixture
def hive(classic: Lake) -> Iterator[Lake]:
    yield from _with_database(classic)


def _with_database(lake: Lake) -> Iterator[Lake]:
    lake.spark.sql(f"DROP DATABASE IF EXISTS {DATABASE} CASCADE")
    lake.spark.sql(f"CREATE DATABASE {DATABASE}")
    yield lake
    lake.spark.sql(f"DROP DATABASE IF EXISTS {DATABASE} CASCADE")


def make(lake: Lake, name: str, file_format: str = "parquet", partitioned: bool = False) -> str:
    full = f"spark_catalog.{DATABASE}.{name}"
    by = "PARTITIONED BY (pt)" if partitioned else ""
    lake.spark.sql(f"CREATE TABLE {full} (id STRING COMMENT 'the id', name STRING, pt INT) USING {file_format} {by}")
    lake.spark.sql(f"INSERT INTO {full} VALUES ('1', 'a', 1), ('2', 'b', NULL)")
    return f"{DATABASE}.{name}"


def rows(lake: Lake, name: str, where: str = "true") -> list[tuple[object, ...]]:
    return [tuple(row) for row in lake.sql(f"SELECT * FROM {name} WHERE {where} ORDER BY id").collect()]


BOTH = [("1", "a", 1), ("2", "b", None)]


def test_a_table_of_spark_s_becomes_the_lake_s(lake: Lake) -> None:
    for lake in _with_database(lake):
        name = make(lake, "t", partitioned=True)
        call = f"CALL sys.migrate_table(source_type => 'hive', table => '{name}', options => 'file.format=orc', "
        done = lake.sql(call + "options_map => map('orc.encrypt', 'pii:id,name'), parallelism => 2)")
        assert [tuple(row) for row in done.collect()] == [(True,)]
        assert rows(lake, name) == BOTH
        assert rows(lake, name, "pt = 1") == BOTH[:1]
        assert rows(lake, name, "pt IS NULL") == BOTH[1:]
        assert not lake.spark.catalog.tableExists(f"spark_catalog.{name}")
        text = lake.sql(f"SHOW CREATE TABLE {name}").collect()[0][0]
        assert "'orc.encrypt' = 'pii:id,name'" in text
        assert "the id" in text
        lake.sql(f"INSERT INTO {name} VALUES ('3', 'c', 1)")
        lake.sql(f"DELETE FROM {name} WHERE id = '1'")
        assert rows(lake, name) == [BOTH[1], ("3", "c", 1)]


@pytest.mark.spark
@pytest.mark.parametrize("file_format", later(["parquet", "orc"], 1))
def test_files_go_to_a_table_that_is_there(hive: Lake, file_format: str) -> None:
    for partitioned in (False, True):
        name = make(hive, f"s{partitioned}", file_format, partitioned)
        by = "PARTITIONED BY (pt)" if partitioned else ""
        hive.sql(f"CREATE TABLE db.t{partitioned} (id STRING, name STRING, pt INT) USING paimon {by}")
        hive.sql(f"INSERT INTO db.t{partitioned} VALUES ('3', 'c', 1)")
        hive.sql(f"CALL sys.migrate_table('hive', '{name}', 'db.t{partitioned}', '', 1, false)")  # Flink's order
        assert rows(hive, f"db.t{partitioned}") == [*BOTH, ("3", "c", 1)]
        assert rows(hive, f"spark_catalog.{name}") == []
        hive.spark.sql(f"INSERT INTO spark_catalog.{name} VALUES ('4', 'd', 7)")
        call = f"CALL sys.migrate_file('hive', '{name}', 'db.t{partitioned}')"
        hive.sql(call)
        assert rows(hive, f"db.t{partitioned}", "pt = 7") == [("4", "d", 7)]
        with pytest.raises(NotFoundError, match="Source hive table does not exist"):
            hive.sql(call)


@pytest.mark.spark
def test_a_database(hive: Lake) -> None:
    make(hive, "a")
    make(hive, "b", "orc", partitioned=True)
    hive.spark.sql(f"CREATE TABLE spark_catalog.{DATABASE}.c (id INT) USING csv")
    with pytest.warns(UserWarning, match=r"c was not migrated: .*csv"):
        done = hive.sql(f"CALL sys.migrate_database(source_type => 'hive', database => '{DATABASE}')").collect()
    assert done[0].result == "migrate database is finished, success cnt: 2 , failed cnt: 1"
    assert rows(hive, f"{DATABASE}.a") == rows(hive, f"{DATABASE}.b") == BOTH


@pytest.mark.spark
def test_a_source_in_the_place_of_its_table(hive: Lake) -> None:
    """Spark's warehouse is the lake's: the folder of the table's name is the source's own."""
    hive.catalog.create_database(DATABASE, ignore_if_exists=True)
    place = hive.catalog.table_path(f"{DATABASE}.t")
    hive.spark.sql(f"DROP DATABASE {DATABASE}")
    hive.spark.sql(f"CREATE DATABASE {DATABASE} LOCATION '{Path(place).parent}'")
    name = make(hive, "t", partitioned=True)
    hive.sql(f"CALL sys.migrate_table('hive', '{name}')")
    assert rows(hive, name) == BOTH
    assert hive.catalog.table(name).path == place
    assert hive.catalog.list_tables(DATABASE) == ["t"]


@pytest.mark.spark
def test_a_folder(hive: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    hive.spark.sql("SELECT id, string(id) AS name, id % 2 AS p FROM range(4)").write.partitionBy("p").parquet(
        str(folder)
    )
    hive.sql(f"CALL sys.migrate_table('hive', 'parquet.`{folder}`', target_table => 'db.t')")
    assert hive.sql("SELECT id, p FROM db.t WHERE p = 1 ORDER BY id").collect() == [(1, 1), (3, 1)]


@pytest.mark.spark
def test_what_is_refused_leaves_the_source(hive: Lake) -> None:
    name = make(hive, "t", partitioned=True)
    hive.spark.sql(f"CREATE VIEW spark_catalog.{DATABASE}.v AS SELECT 1 AS id")
    hive.sql("CREATE TABLE db.taken (id STRING)")
    calls = {
        f"'iceberg', '{name}'": (UnsupportedError, "Unsupported connector iceberg"),
        f"'hive', '{name}', 'bucket=1'": (InvalidError, "Hive migrator only support unaware-bucket target table"),
        f"'hive', '{name}', target_table => 'db.taken'": (InvalidError, "partition keys not match"),
        f"'hive', '{DATABASE}.v'": (UnsupportedError, "a view"),
        "'hive', 'db.none'": (NotFoundError, "does not exist"),
        f"'hive', '{name}', parallelism => 0": (InvalidError, "parallelism"),
        "'hive', 'parquet.`/nowhere`'": (InvalidError, "target_table"),
    }
    for call, (error, words) in calls.items():
        with pytest.raises(error, match=words):
            hive.sql(f"CALL sys.migrate_table({call})")
    folder = Path(hive.spark.sql(f"DESCRIBE TABLE EXTENDED {name}").where("col_name = 'Location'").first()[1][5:])
    broken = folder / "pt=1" / "zz.parquet"
    broken.write_text("no parquet")
    with pytest.raises(CorruptError, match=r"zz\.parquet"):
        hive.sql(f"CALL sys.migrate_table('hive', '{name}')")
    broken.unlink()
    (folder / "pt=9").mkdir()
    (folder / "pt=9" / "x.parquet").write_text("unknown to Spark")
    with pytest.raises(InvalidError, match="Spark does not know"):
        hive.sql(f"CALL sys.migrate_table('hive', '{name}')")
    (folder / "pt=9" / "x.parquet").unlink()
    assert rows(hive, f"spark_catalog.{name}") == BOTH
    hive.catalog.create_database(DATABASE)
    hive.sql(f"CREATE TABLE {name} (id STRING)")
    with pytest.raises(AlreadyExistsError, match="the lake has a table"):
        hive.sql(f"CALL sys.migrate_table('hive', '{name}')")


@pytest.mark.spark
def test_clones_of_a_table_and_a_database(hive: Lake, tmp_path: Path) -> None:
    hive.sql("CREATE TABLE db.s (p INT, k INT, v STRING) PARTITIONED BY (p) TBLPROPERTIES ('primary-key'='p,k')")
    hive.sql("INSERT INTO db.s VALUES (1, 1, 'a'), (2, 2, 'b')")
    hive.sql("CALL sys.create_tag('db.s', 'first')")
    hive.sql("INSERT INTO db.s VALUES (1, 3, 'c')")
    assert hive.sql("CALL sys.clone('db', 's', '', 'other', 't')").collect() == [("Success",)]
    assert rows_of(hive, "other.t") == [(1, 1, "a"), (1, 3, "c"), (2, 2, "b")]
    hive.sql(
        "CALL sys.clone('db', 's', target_database => 'other', target_table => 'u', where => 'p = 1', tag => 'first')"
    )
    assert rows_of(hive, "other.u") == [(1, 1, "a")]
    hive.sql(f"CALL sys.copy_files(database => 'other', target_warehouse => '{tmp_path}/backup')")
    backup = bucketlake.open(f"{tmp_path}/backup")
    assert backup.list_tables("other") == ["t", "u"]
    assert backup.table("other.t").to_arrow().num_rows == 3
    for call, (error, words) in {
        "table => 's'": (InvalidError, "without its database"),
        "'db', 's', prefer_file_format => 'orc'": (UnsupportedError, "prefer_file_format"),
        "'db', 's', clone_from => 'hive'": (UnsupportedError, "clone_from 'hive'"),
        "'db', 's', 'metastore=hive,uri=x'": (InvalidError, "without its warehouse"),
        "'db', 's', 'metastore=hive,uri=x,warehouse=/nowhere'": (UnsupportedError, "catalog option 'metastore'"),
        "'db', 's', snapshot_id => 1, tag => 'x'": (InvalidError, "only one of"),
        "'db', where => 'p = 1'": (InvalidError, "of one table"),
        "'db', included_tables => 'db.s,db.gone'": (NotFoundError, "no such table .*db.gone"),
        "'db', 's', target_database => 'new', snapshot_id => 99": (NotFoundError, "99"),
    }.items():
        with pytest.raises(error, match=words):
            hive.sql(f"CALL sys.clone({call})")
    assert "new" not in hive.catalog.list_databases()


@pytest.mark.spark
def test_a_table_is_rewritten_in_another_format(hive: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    hive.sql("CREATE TABLE db.s (p INT, k INT, v STRING) PARTITIONED BY (p) TBLPROPERTIES ('primary-key'='p,k')")
    hive.sql("INSERT INTO db.s SELECT id % 3, id, string(id) FROM range(30)")
    expected = rows_of(hive, "db.s")
    done = hive.sql("CALL sys.rewrite('db.s', partitions => 'p=1', options => 'file.format=orc')").collect()
    assert done[0].rewritten_files == 1
    monkeypatch.setattr(reformat, "DRIVER_BYTES", 0)  # by tasks
    done = hive.sql("CALL sys.rewrite('db.s', options => 'file.format=orc')").collect()
    assert done[0].rewritten_files == 2
    assert rows_of(hive, "db.s") == expected
    with pytest.raises(InvalidError, match="cannot be used together"):
        hive.sql("CALL sys.rewrite('db.s', 'p=1', 'p = 1')")


def rows_of(lake: Lake, name: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in lake.sql(f"SELECT * FROM {name}").collect())
