"""Rows of parquet files that tasks read themselves: the rows that Spark reads, and only where that is proved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.profile import later

from bucketlake.errors import BucketlakeError, CorruptError, InvalidError
from bucketlake.spark.session import Lake
from bucketlake.spark.write import file_columns, tasks
from bucketlake.spark.write.parquet_rows import Piece, Share, few_rows
from bucketlake.types.model import STRING, DataField

pytestmark = pytest.mark.spark

ROWS = 25_000  # more than a task sends back to the driver
DDL = (
    "k BIGINT NOT NULL, flag BOOLEAN, i8 TINYINT, i16 SMALLINT, i32 INT, f FLOAT, d DOUBLE, short DECIMAL(9, 2), "
    "long DECIMAL(30, 5), text STRING, bytes BINARY, day DATE, instant TIMESTAMP, local TIMESTAMP_NTZ"
)
KINDS = {
    "append": "'bucket' = '-1'",
    "fixed": "'primary-key' = 'k', 'bucket' = '3'",
    "dynamic": "'primary-key' = 'k', 'bucket' = '-1', 'dynamic-bucket.target-row-num' = '20000'",
    "postpone": "'primary-key' = 'k', 'bucket' = '-2'",
    "vectors": "'primary-key' = 'k', 'bucket' = '2', 'deletion-vectors.enabled' = 'true'",
}


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tasks read files themselves, a number for each write that asked."""
    found: list[int] = []
    asked = tasks.shares_of

    def shares_of(*given: Any) -> Any:
        shares = asked(*given)
        found.append(0 if shares is None else len(shares))
        return shares

    monkeypatch.setattr(tasks, "shares_of", shares_of)
    return found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two files of every plain type, with nulls, in several row groups."""
    folder = tmp_path_factory.mktemp("plain rows é%20")
    rows = _rows(2 * ROWS)
    pq.write_table(rows.slice(0, ROWS), folder / "a b.parquet", row_group_size=6_000)
    views = rows.schema.set(9, pa.field("text", pa.string_view())).set(10, pa.field("bytes", pa.large_binary()))
    new = {"use_dictionary": False, "data_page_version": "2.0", "store_decimal_as_integer": True}
    pq.write_table(rows.slice(ROWS).cast(views), folder / "c.parquet", row_group_size=9_000, compression="zstd", **new)
    yield str(folder)


def _rows(count: int) -> pa.Table:
    random = np.random.default_rng(5)

    def some(values: Any, kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind, mask=random.random(count) < 0.1)

    whole = random.integers(-(10**8), 10**8, count)
    times = random.integers(-(10**15), 10**15, count)
    wide = np.array([Decimal(int(value)).scaleb(-5) * 10**12 for value in whole], object)
    return pa.table(
        {
            "k": pa.array(random.permutation(count), pa.int64()),
            "flag": some(whole > 0, pa.bool_()),
            "i8": some(whole % 256 - 128, pa.int8()),
            "i16": some(whole % 65_536 - 32_768, pa.int16()),
            "i32": some(whole, pa.int32()),
            "f": some((whole / 7).astype(np.float32), pa.float32()),
            "d": some(np.where(whole % 5 == 0, -0.0, whole / 7), pa.float64()),
            "short": some(
                np.array([Decimal(int(value) % 10**8).scaleb(-2) for value in whole], object), pa.decimal128(9, 2)
            ),
            "long": some(wide, pa.decimal128(30, 5)),
            "text": some([f"é{value % 999}" for value in whole], pa.string()),
            "bytes": some([bytes([value % 256]) * 3 for value in whole], pa.binary()),
            "day": some((whole % 200_000 - 100_000).astype(np.int32), pa.int32()).cast(pa.date32()),
            "instant": some(times, pa.int64()).cast(pa.timestamp("us", "Europe/Paris")),
            "local": some(times, pa.int64()).cast(pa.timestamp("us")),
        }
    )


def _same(frame: DataFrame, other: DataFrame) -> bool:
    columns = other.columns
    hashed = [F.sum(F.xxhash64(*[F.col(f"`{name}`") for name in columns]).cast("decimal(38, 0)")), F.count("*")]
    return frame.select(*[f"`{name}`" for name in columns]).agg(*hashed).collect() == other.agg(*hashed).collect()


@pytest.mark.parametrize("kind", later(list(KINDS), 2))
def test_rows_are_those_that_spark_reads(classic: Lake, looked: list[int], files: str, kind: str) -> None:
    frame = classic.spark.read.parquet(files)
    frame.createOrReplaceTempView("given")
    classic.sql(f"CREATE TABLE db.t ({DDL}) TBLPROPERTIES ({KINDS[kind]})")
    classic.sql("INSERT INTO db.t SELECT * FROM given")
    assert looked == [2]
    assert _same(classic.read_table("db.t"), frame)
    if kind != "append":
        assert set(classic.sql("SELECT bucket, level FROM `db`.`t$files`").collect())
    classic.table("db.t").write(frame, mode="overwrite")
    classic.write_table(frame, "db.made")
    assert looked == [2, 2, 2]
    assert _same(classic.read_table("db.t"), frame) and _same(classic.read_table("db.made"), frame)


DEALT = {
    "fixed": ("", "'primary-key' = 'k', 'bucket' = '80'"),
    "appended": ("PARTITIONED BY (flag)", "'bucket-key' = 'text', 'bucket' = '40'"),
    "dynamic": ("", "'primary-key' = 'k', 'bucket' = '-1', 'dynamic-bucket.target-row-num' = '900'"),
    "cross": ("PARTITIONED BY (flag)", "'primary-key' = 'k', 'bucket' = '-1'"),
}


@pytest.mark.parametrize("kind", later(list(DEALT), 2))
def test_rows_reach_their_owners_without_spark(
    classic: Lake, looked: list[int], files: str, tmp_path: Path, kind: str
) -> None:
    """Two writes: the second one's rows go where the first one's are known to lie."""
    parts, options = DEALT[kind]
    frame = classic.spark.read.parquet(files)
    classic.sql(f"CREATE TABLE db.t ({DDL}) {parts} TBLPROPERTIES ({options}, 'write-only' = 'true')")
    table = classic.table("db.t")
    table.write(frame)
    assert _same(table.read(), frame)
    rows = _rows(2 * ROWS)
    other = rows.set_column(1, "flag", pa.array(np.arange(2 * ROWS) % 2 == 0)).slice(ROWS // 2)
    pq.write_table(other, tmp_path / "other.parquet", row_group_size=7_000)
    changed = classic.spark.read.parquet(str(tmp_path / "other.parquet"))
    table.write(changed)
    assert looked == [2, 2]
    kept = frame if kind == "appended" else frame.join(changed, "k", "left_anti").select(*frame.columns)
    assert _same(table.read(), kept.unionAll(changed))
    if kind == "dynamic":
        assert not table.table.fsck("keys").findings
    if kind != "appended":
        places = "SELECT partition, bucket, count(*) FROM `db`.`t$files` GROUP BY ALL HAVING count(*) > 2"
        assert not classic.sql(places).collect(), "a file of a bucket and write"


def test_of_rows_with_one_key_in_several_files_the_last_stays_where_it_says(
    classic: Lake, looked: list[int], tmp_path: Path
) -> None:
    for number in range(3):
        keys = np.random.default_rng(number).permutation(30_000)
        rows = pa.table({"k": keys, "p": (keys + number) % 3, "n": np.full(len(keys), number)})
        (tmp_path / "rows").mkdir(exist_ok=True)
        pq.write_table(rows, tmp_path / "rows" / f"{number}.parquet", row_group_size=8_000)
    options = "'primary-key' = 'k', 'bucket' = '-1'"
    classic.sql(f"CREATE TABLE db.t (k BIGINT, p BIGINT, n BIGINT) PARTITIONED BY (p) TBLPROPERTIES ({options})")
    classic.table("db.t").write(classic.spark.read.parquet(str(tmp_path / "rows")))
    assert looked == [2]
    found = "SELECT count(*), count(DISTINCT k), count_if(n = 2 AND p = (k + 2) % 3) FROM db.t"
    assert classic.sql(found).collect() == [(30_000, 30_000, 30_000)]


def test_what_lies_beside_the_files_is_not_looked_through(
    classic: Lake, looked: list[int], files: str, tmp_path: Path
) -> None:
    """Folders that look like partitions, which Spark refuses to read together with the files."""
    path = tmp_path / "mixed"
    (path / "x=1").mkdir(parents=True)
    pq.write_table(pa.table({"k": [1]}), path / "x=1" / "part.parquet")
    pq.write_table(_rows(2 * ROWS), path / "rows.parquet", row_group_size=9_000)
    classic.sql(f"CREATE TABLE db.t ({DDL})")
    for frame in (found := classic.spark.read.parquet(str(path / "rows.parquet")), found.where("k >= 0")):
        classic.table("db.t").write(frame, mode="overwrite")
        assert _same(classic.read_table("db.t"), frame)
    assert looked == [2, 0]


def test_columns_go_by_place_and_by_name(classic: Lake, looked: list[int], files: str) -> None:
    frame = classic.spark.read.parquet(files)
    frame.createOrReplaceTempView("given")
    renamed = ", ".join(f"c{place} {column.split()[1]}" for place, column in enumerate(_columns()))
    classic.sql(f"CREATE TABLE db.places ({renamed})")
    classic.sql("INSERT INTO db.places SELECT * FROM given")
    classic.sql(f"CREATE TABLE db.names ({', '.join(reversed(_columns()))})")
    classic.sql("INSERT INTO db.names BY NAME SELECT * FROM given")
    assert looked == [2, 2]
    assert _same(classic.read_table("db.places").toDF(*frame.columns), frame)
    assert _same(classic.read_table("db.names"), frame)


def _columns() -> list[str]:
    return [
        column.strip().replace("~", ",") for column in DDL.replace("9, 2", "9~2").replace("30, 5", "30~5").split(",")
    ]


def test_of_rows_with_one_key_the_last_in_the_file_stays(classic: Lake, looked: list[int], tmp_path: Path) -> None:
    keys = np.tile(np.arange(20_000), 3)
    pq.write_table(pa.table({"k": keys, "n": np.arange(len(keys))}), tmp_path / "rows.parquet")
    classic.sql("CREATE TABLE db.t (k BIGINT NOT NULL, n BIGINT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '2')")
    classic.table("db.t").write(classic.spark.read.parquet(str(tmp_path / "rows.parquet")))
    assert looked == [1]  # a row group is one task's
    assert classic.sql("SELECT count(*), count_if(n = k + 40000) FROM db.t").collect() == [(20_000, 20_000)]


LISTED: dict[str, Callable[[DataFrame], DataFrame]] = {
    "some": lambda frame: frame.select("text", "k", "d"),
    "left out": lambda frame: frame.drop("long", "local"),
    "renamed": lambda frame: frame.withColumnRenamed("i32", "number"),
    "twice": lambda frame: frame.withColumn("again", F.col("bytes")),
    "swapped": lambda frame: frame.select("k", F.col("i8").alias("flags"), F.col("text").alias("other"), "text"),
    "spelled": lambda frame: frame.select("K", "TEXT"),
}


@pytest.mark.parametrize("how", later(list(LISTED), 2))
def test_columns_of_files_under_any_names(
    classic: Lake, looked: list[int], files: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_columns, "LEAST_BYTES", 0)
    whole = classic.spark.read.parquet(files)
    frame = LISTED[how](whole)
    classic.write_table(frame, "db.t")
    assert looked == [0 if how == "spelled" else 2]
    assert classic.read_table("db.t").columns == frame.columns
    assert _same(classic.read_table("db.t"), frame)
    key = next(name for name in frame.columns if name.lower() == "k")
    options = f"'primary-key' = '{key}', 'bucket' = '2'"
    columns = ", ".join(f"{item.name} {item.dataType.simpleString()}" for item in frame.schema)
    classic.sql(f"CREATE TABLE db.keyed ({columns}) TBLPROPERTIES ({options})")
    frame.createOrReplaceTempView("given")
    classic.sql("INSERT INTO db.keyed SELECT * FROM given")
    assert _same(classic.read_table("db.keyed"), frame)
    assert len(looked) == 2


def test_columns_that_exchange_their_names(
    classic: Lake, looked: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_columns, "LEAST_BYTES", 0)
    numbers = np.arange(30_000)
    pq.write_table(pa.table({"a": numbers, "b": -numbers, "c": numbers * 2}), tmp_path / "rows.parquet")
    whole = classic.spark.read.parquet(str(tmp_path / "rows.parquet"))
    classic.sql("CREATE TABLE db.t (a BIGINT, b BIGINT, c BIGINT)")
    for columns in (("b", "a", "c"), ("b", "c", "a"), ("b", "b", "b")):
        frame = whole.select(*[F.col(name).alias(shown) for name, shown in zip(columns, "abc", strict=True)])
        classic.table("db.t").write(frame, mode="overwrite")
        assert _same(classic.read_table("db.t"), frame)
    classic.table("db.t").write(
        whole.withColumnRenamed("a", "x").withColumnRenamed("b", "a").select("a", "c", F.col("x").alias("b")),
        mode="overwrite",
    )
    assert classic.sql("SELECT count(*), sum(a), sum(b) FROM db.t").collect() == [(30_000, -449985000, 449985000)]


@pytest.mark.parametrize("told", [None, "[" * 100_000, '{"type": "struct", "fields": [{"name": 7}]}', "{}", "é"])
def test_files_of_which_spark_reads_some_columns_alone(
    classic: Lake, looked: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str | None
) -> None:
    """Names that differ in case alone, and notes that are no columns."""
    monkeypatch.setattr(file_columns, "LEAST_BYTES", 0)
    rows = pa.table({"a": np.arange(30_000), "b": np.arange(30_000), "B": np.arange(30_000)})
    notes = None if told is None else {"org.apache.spark.sql.parquet.row.metadata": told}
    pq.write_table(rows.replace_schema_metadata(notes), tmp_path / "rows.parquet")
    frame = classic.spark.read.schema("a BIGINT").parquet(str(tmp_path / "rows.parquet")).withColumnRenamed("a", "z")
    classic.write_table(frame, "db.t")
    assert looked == [0]
    assert _same(classic.read_table("db.t"), frame)


def test_names_are_those_that_a_frame_lists(classic: Lake) -> None:
    """Spark hands rows to Python under the names that they have below."""
    few = classic.spark.createDataFrame([(1, "x")], "id int, v string").select("ID", "V")
    many = classic.spark.range(ROWS).selectExpr("id", "CAST(id AS STRING) AS v").where("id > 0").select("ID", "V")
    for name, frame in (("few", few), ("many", many)):
        classic.write_table(frame, f"db.{name}")
        assert classic.read_table(f"db.{name}").columns == ["ID", "V"]
        classic.table(f"db.{name}").write(frame)
        assert classic.read_table(f"db.{name}").count() == 2 * frame.count()


def test_columns_of_files_that_spark_keeps_or_pads(
    classic: Lake, looked: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows kept in memory are those of then, and CHAR(n) is padded as it is read."""
    monkeypatch.setattr(file_columns, "LEAST_BYTES", 0)
    path, padded = str(tmp_path / "rows"), str(tmp_path / "padded")
    classic.spark.range(30_000).selectExpr("id", "'a' AS text").write.parquet(path)
    whole = classic.spark.read.parquet(path).cache()
    assert whole.count() == 30_000
    classic.sql("CREATE TABLE db.t (number BIGINT, text STRING)")
    try:
        classic.table("db.t").write(whole.withColumnRenamed("id", "number"))
    finally:
        whole.unpersist()
    kind = {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}
    classic.spark.range(30_000).select("id", F.lit("a").alias("text", metadata=kind)).write.parquet(padded)
    bare = F.col("text").alias("other", metadata={})
    frame = classic.spark.read.parquet(padded).select(F.col("id").alias("number"), bare)
    classic.sql("CREATE TABLE db.u (number BIGINT, other STRING)")
    classic.table("db.u").write(frame)
    assert looked == [0, 0]
    assert _same(classic.read_table("db.u"), frame)


UNPROVED: dict[str, Callable[[DataFrame], DataFrame]] = {
    "filtered": lambda frame: frame.where("k % 2 = 0"),
    "limited": lambda frame: frame.limit(30_000),
    "twice": lambda frame: frame.unionAll(frame),
    "changed": lambda frame: frame.withColumn("i32", F.col("i32") + 1),
    "swapped": lambda frame: frame.withColumns(
        {"i8": F.lit(None).cast("tinyint"), "i16": F.col("i8").cast("smallint")}
    ),
    "counted": lambda frame: frame.sample(0.5, seed=3),
    "cast": lambda frame: frame.withColumn("i32", F.col("i32").cast("bigint")),
    "last": lambda frame: frame.orderBy("k").offset(10),
}


@pytest.mark.parametrize("how", later(list(UNPROVED), 3))
def test_rows_of_which_files_do_not_say_all_go_through_spark(
    classic: Lake, looked: list[int], files: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_columns, "LEAST_BYTES", 0)
    frame = UNPROVED[how](classic.spark.read.parquet(files))
    classic.sql(f"CREATE TABLE db.t ({DDL.replace(' NOT NULL', '')})")
    classic.table("db.t").write(frame)
    assert not any(looked)
    assert _same(classic.read_table("db.t"), frame.withColumn("i32", F.col("i32").cast("int")))


def test_rows_that_spark_keeps_are_those_it_keeps(classic: Lake, looked: list[int], tmp_path: Path) -> None:
    path = str(tmp_path / "rows")
    classic.spark.range(30_000).write.parquet(path)
    frame = classic.spark.read.parquet(path).cache()
    assert frame.count() == 30_000
    for file in Path(path).glob("*.parquet"):
        count = pq.read_metadata(file).num_rows
        pq.write_table(pa.table({"id": np.full(count, 7)}), file)
        file.with_name(f".{file.name}.crc").unlink()
    classic.sql("CREATE TABLE db.t (id BIGINT)")
    try:
        classic.table("db.t").write(classic.spark.read.parquet(path))
    finally:
        frame.unpersist()
    assert looked == [0]
    assert classic.sql("SELECT count(DISTINCT id) FROM db.t").collect() == [(30_000,)]


def test_a_file_that_is_read_twice_gives_its_rows_twice(classic: Lake, looked: list[int], files: str) -> None:
    for roots in ([files, files], [f"{files}/c.parquet", f"{files}/c.parquet"], [files, f"{files}/c.parquet"]):
        frame = classic.spark.read.parquet(*roots)
        classic.sql(f"CREATE OR REPLACE TABLE db.t ({DDL})")
        classic.table("db.t").write(frame)
        assert looked.pop() == 0
        assert classic.read_table("db.t").count() == frame.count() > 2 * ROWS - 1


OTHER_FILES: dict[str, tuple[dict[str, pa.Array], str, dict[str, Any]]] = {
    "unsigned": ({"n": pa.array(range(30_000), pa.uint16())}, "n INT", {}),
    "old times": (
        {"n": pa.array(range(30_000), pa.timestamp("us"))},
        "n TIMESTAMP_NTZ",
        {"use_deprecated_int96_timestamps": True},
    ),
    "milliseconds": ({"n": pa.array(range(30_000), pa.timestamp("ms"))}, "n TIMESTAMP_NTZ", {}),
    "categories": ({"n": pa.array(["a", "b", None] * 10_000).dictionary_encode()}, "n STRING", {}),
    "a point": ({"a.b": pa.array(range(30_000)), "a": pa.array(range(30_000))}, "`a.b` BIGINT, a BIGINT", {}),
    "a default": ({"n": pa.array([None, 1, 2] * 10_000, pa.int64())}, "n BIGINT DEFAULT 5", {}),
    "lengths": ({"n": pa.array(["a ", "b"] * 15_000)}, "n CHAR(3)", {}),
    "nested": ({"n": pa.array([[1], None] * 15_000)}, "n ARRAY<BIGINT>", {}),
}


@pytest.mark.parametrize("what", later(list(OTHER_FILES), 3))
def test_columns_of_other_types_go_through_spark(classic: Lake, looked: list[int], tmp_path: Path, what: str) -> None:
    columns, ddl, how = OTHER_FILES[what]
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet", **how)
    frame = classic.spark.read.parquet(str(tmp_path))
    if what == "old times":
        frame = frame.select(F.col("n").cast("timestamp_ntz"))
    frame.createOrReplaceTempView("given")
    classic.sql(f"CREATE TABLE db.t ({ddl})")
    classic.sql("INSERT INTO db.t SELECT * FROM given")
    assert not any(looked)
    expected = frame.fillna(5) if what == "a default" else frame
    if what == "lengths":
        expected = frame.select(F.rpad("n", 3, " ").alias("n"))
    assert _same(classic.read_table("db.t"), expected)


@pytest.mark.parametrize("version", ["x", "2.4.8", "9" * 5_000, ""])
def test_files_of_odd_versions_of_spark_are_spark_s(
    classic: Lake, looked: list[int], tmp_path: Path, version: str
) -> None:
    rows = pa.table({"n": np.arange(30_000)}).replace_schema_metadata({"org.apache.spark.version": version})
    pq.write_table(rows, tmp_path / "rows.parquet")
    classic.sql("CREATE TABLE db.t (n BIGINT)")
    classic.table("db.t").write(classic.spark.read.schema("n BIGINT").parquet(str(tmp_path)))
    assert looked == [0]
    assert classic.sql("SELECT count(*), sum(n) FROM db.t").collect() == [(30_000, 449_985_000)]


def test_days_of_the_old_calendar_are_spark_s(classic: Lake, looked: list[int], tmp_path: Path) -> None:
    path, mode = str(tmp_path / "rows"), "spark.sql.parquet.datetimeRebaseModeInWrite"
    classic.spark.conf.set(mode, "LEGACY")
    try:
        classic.spark.range(30_000).selectExpr("date'1400-01-01' + int(id % 9) AS day").write.parquet(path)
    finally:
        classic.spark.conf.unset(mode)
    frame = classic.spark.read.parquet(path)
    classic.sql("CREATE TABLE db.t (day DATE)")
    classic.table("db.t").write(frame)
    assert looked == [0]
    assert _same(classic.read_table("db.t"), frame)


@pytest.mark.parametrize("harm", ["cut", "replaced", "gone"])
def test_a_file_that_changes_meanwhile_fails_the_write(
    classic: Lake, looked: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"n": np.arange(60_000)}), file, row_group_size=20_000)
    classic.sql("CREATE TABLE db.t (n BIGINT)")
    asked = tasks.shares_of

    def shares_of(*given: Any) -> Any:
        shares = asked(*given)
        if harm == "cut":
            file.write_bytes(file.read_bytes()[:-100])
        elif harm == "replaced":
            pq.write_table(pa.table({"n": np.arange(50_000).astype(np.int32)}), file)
        else:
            file.unlink()
        return shares

    monkeypatch.setattr(tasks, "shares_of", shares_of)
    with pytest.raises(CorruptError, match=r"rows\.parquet"):
        classic.table("db.t").write(classic.spark.read.parquet(str(file)))
    assert looked == [2]
    assert classic.table("db.t").latest_snapshot() is None


def test_a_footer_is_as_the_checksums_beside_it_say(classic: Lake, looked: list[int], tmp_path: Path) -> None:
    path = str(tmp_path / "rows")
    classic.spark.range(60_000).coalesce(1).write.parquet(path)
    frame = classic.spark.read.parquet(path)
    classic.sql("CREATE TABLE db.t (id BIGINT)")
    classic.table("db.t").write(frame)
    file = next(Path(path).glob("*.parquet"))
    assert looked == [1] and file.with_name(f".{file.name}.crc").exists()
    whole = file.read_bytes()
    for place in (len(whole) - 40, len(whole) // 2):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(Exception, match=file.name):
            classic.table("db.t").write(frame)
    assert looked[1:] == [0, 1]  # Spark says what is wrong with footers
    assert classic.sql("SELECT count(*) FROM db.t").collect() == [(60_000,)]


def test_rows_that_do_not_fit_are_refused(classic: Lake, looked: list[int], tmp_path: Path) -> None:
    path = str(tmp_path / "rows.parquet")
    pq.write_table(pa.table({"k": pa.array([*range(29_999), None], pa.int64())}), path)
    classic.sql("CREATE TABLE db.t (k BIGINT NOT NULL)")
    errors: list[BucketlakeError] = []
    for frame in (classic.spark.read.parquet(path), classic.spark.read.parquet(path).where("true")):
        with pytest.raises(InvalidError) as found:
            classic.table("db.t").write(frame)
        errors.append(found.value)
    assert str(errors[0]) == str(errors[1])
    assert looked[0] == 1
    assert classic.table("db.t").latest_snapshot() is None


def test_settings_under_which_spark_leaves_files_out(classic: Lake, looked: list[int], tmp_path: Path) -> None:
    for number in range(2):
        pq.write_table(pa.table({"n": np.arange(30_000)}), tmp_path / f"{number}.parquet")
    frame = classic.spark.read.parquet(str(tmp_path))
    (tmp_path / "1.parquet").unlink()
    classic.sql("CREATE TABLE db.t (n BIGINT)")
    classic.spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        classic.table("db.t").write(frame)
    finally:
        classic.spark.conf.unset("spark.sql.files.ignoreMissingFiles")
    assert looked == [0]
    assert classic.read_table("db.t").count() == 30_000


def test_few_rows_are_read_by_the_driver_as_spark_brings_them(classic: Lake, files: str, tmp_path: Path) -> None:
    frame = classic.spark.read.parquet(files)
    found = few_rows(classic.spark, frame, 2 * ROWS, 1 << 30)
    assert found is not None
    assert found.schema.equals(frame.toArrow().schema)
    assert _same(classic.spark.createDataFrame(found, frame.schema), frame)
    assert few_rows(classic.spark, frame, 2 * ROWS - 1, 1 << 30) is None
    for how in UNPROVED.values():
        assert few_rows(classic.spark, how(frame), 1 << 20, 1 << 30) is None
    pq.write_table(pa.table({"text": ["x" * 100_000] * 5_000}), tmp_path / "repeated.parquet")  # once in a dictionary
    assert few_rows(classic.spark, classic.spark.read.parquet(str(tmp_path)), ROWS, 32 << 20) is None


@pytest.mark.parametrize("kind", later(["append", "fixed", "vectors"], 1))
def test_a_merge_of_files_is_one_of_the_rows_in_them(classic: Lake, files: str, kind: str) -> None:
    whole = classic.spark.read.parquet(files)
    whole.where("k % 3 = 0").createOrReplaceTempView("old")
    whole.createOrReplaceTempView("given")
    for name, source in (("t", "given"), ("u", "(SELECT * FROM given WHERE true)")):
        classic.sql(f"CREATE TABLE db.{name} ({DDL}) TBLPROPERTIES ({KINDS[kind]})")
        classic.sql(f"INSERT INTO db.{name} SELECT * FROM old")
        classic.sql(
            f"MERGE INTO db.{name} t USING {source} s ON t.k = s.k "
            "WHEN MATCHED AND s.flag THEN DELETE WHEN MATCHED THEN UPDATE SET text = concat(s.text, t.text), d = s.f "
            "WHEN NOT MATCHED AND s.i8 > 0 THEN INSERT *"
        )
    assert classic.read_table("db.t").count() > ROWS // 2
    assert _same(classic.read_table("db.t"), classic.read_table("db.u"))


def test_a_merge_of_a_damaged_file_names_it(classic: Lake, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"k": np.arange(1_000), "n": np.arange(1_000)}), path, write_page_checksum=True)
    frame = classic.spark.read.parquet(str(path))
    data = bytearray(path.read_bytes())
    data[2_000] ^= 1
    path.write_bytes(data)
    frame.createOrReplaceTempView("given")
    classic.sql("CREATE TABLE db.t (k BIGINT, n BIGINT)")
    classic.sql("INSERT INTO db.t VALUES (1, 1)")
    with pytest.raises(CorruptError, match=r"rows\.parquet"):
        classic.sql("MERGE INTO db.t t USING given s ON t.k = s.k WHEN MATCHED THEN UPDATE SET n = s.n")
    assert classic.read_table("db.t").collect() == [(1, 1)]


def test_memory_does_not_grow_with_row_groups(tmp_path: Path) -> None:
    path = str(tmp_path / "rows.parquet")
    pq.write_table(pa.table({"text": [f"{n:x}" * 40 for n in range(200_000)]}), path, row_group_size=500)
    length = Path(path).stat().st_size
    share = Share((Piece(path, length, tuple(range(400))),), ("text",), (DataField(0, "text", STRING),))
    before, most = pa.total_allocated_bytes(), 0
    for batch in share.batches():
        most = max(most, pa.total_allocated_bytes() - before)
        del batch
    assert 0 < most < length / 4


def test_batches_are_small_where_large_values_repeat(tmp_path: Path) -> None:
    path = str(tmp_path / "rows.parquet")
    texts = ["x" * 100_000] * 3_000  # once in each row group's dictionary
    pq.write_table(pa.table({"text": texts}), path, row_group_size=1_000)
    share = Share((Piece(path, Path(path).stat().st_size, (0, 1, 2)),), ("text",), (DataField(0, "text", STRING),))
    sizes = [(batch.num_rows, batch.nbytes) for batch in share.batches()]
    assert sum(rows for rows, _ in sizes) == 3_000
    assert max(size for _, size in sizes) < 8 << 20
