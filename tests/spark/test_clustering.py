"""Sort compaction and clustering by Spark's tasks: rows stay exact, files lie in order, and peers read them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark import SparkFiles

from bucketlake import Lake
from bucketlake.errors import CorruptError, InvalidError, StorageError, UnsupportedError
from bucketlake.format.metadata.snapshot import CommitKind
from bucketlake.format.row.binary_row import encode_rows
from bucketlake.format.row.hashing import hash_rows
from bucketlake.ops.rows.spill import Spill
from bucketlake.spark import sort_compaction
from bucketlake.spark.write import ordered
from bucketlake.spark.write.aside import scratch
from bucketlake.table import Table
from bucketlake.types.model import BIGINT

pytestmark = pytest.mark.spark

SMALL = {"target-file-size": "8 kb", "parquet.enable.dictionary": "false", "write-only": "true"}
ROWS = 2000


@pytest.fixture
def by_tasks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is small enough for the driver, and several ranges are worth their tasks."""
    monkeypatch.setattr(sort_compaction, "DRIVER_BYTES", 0)
    monkeypatch.setattr(ordered, "LEAST_RANGE", 4 << 10)
    monkeypatch.setattr("bucketlake.spark.read.reader.SMALL_ROWS", 10)
    yield


def aside() -> list[Path]:
    """Folders of rows that tasks have put aside."""
    return [path for path in Path(SparkFiles.getRootDirectory()).glob("bucketlake-*") if path.is_dir()]  # no archives


def everything(rows: int) -> pa.Table:
    """Columns of many types, with nulls; `fine` and `fines` are finer than Spark's timestamps, `day` has a time."""
    rng = np.random.default_rng(4)
    some = [None if x % 7 == 0 else int(x) for x in rng.integers(-500, 500, rows)]
    fine = [None if x is None else x * 1_000_000_007 for x in some]
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "k": pa.array(some, pa.int32()),
            "x": pa.array([None if x is None else (float("nan") if x % 11 == 0 else x / 3) for x in some]),
            "s": pa.array([None if x is None else f"https://example.org/{x}" for x in some]),
            "price": pa.array([None if x is None else f"{x}.25" for x in some]).cast(pa.decimal128(9, 2)),
            "fine": pa.array(fine, pa.int64()).cast(pa.timestamp("ns")),
            "fines": pa.array([None if x is None else [x, None] for x in fine], pa.list_(pa.int64())).cast(
                pa.list_(pa.timestamp("ns"))
            ),
            "day": pa.array([x % 2 for x in range(rows)], pa.int32()),
            "noon": pa.array([dt.time(12, 0, 0, 5000)] * rows, pa.time32("ms")),
        }
    )


def sorted_rows(made: Table) -> pa.Table:
    """All rows; numbers as their bits, for which NaN is NaN."""
    rows = made.refresh().to_arrow().sort_by("id").combine_chunks()
    if "x" in rows.column_names:
        place = rows.column_names.index("x")
        bits = rows["x"].fill_null(-5.5).to_numpy().view(np.int64)
        rows = rows.set_column(place, "x", pa.array(bits))
    return rows


def ranges(made: Table, column: str) -> list[tuple[Any, Any]]:
    """The least and greatest value of every file in the order in which files are read, nulls left out."""
    found = []
    for entry in made.plan().splits:
        for file in entry.files:
            path = made.store.paths.file_path(entry.bucket_path, file)
            values = [x for x in pa.parquet.read_table(path, columns=[column])[column].to_pylist() if x is not None]
            if values:
                found.append((min(values), max(values)))
    return found


@pytest.mark.usefixtures("by_tasks")
def test_rows_of_all_types_stay_exact_and_files_are_disjoint(lake: Lake) -> None:
    data = everything(ROWS)
    options = {**SMALL, "deletion-vectors.enabled": "true", "metadata.stats-mode": "full"}  # the texts begin alike
    made = lake.catalog.create_table("t", data.schema, ["day"], [], options)
    for start in range(0, ROWS, ROWS // 3):
        made.write_arrow(data.slice(start, ROWS // 3))
    lake.sql("DELETE FROM t WHERE id % 100 = 3")
    expected = sorted_rows(made)
    assert expected.num_rows == ROWS - ROWS // 100
    for strategy, columns in (("hilbert", "fine,price"), ("order", "s")):
        lake.sql(f"CALL sys.compact(table => 't', order_strategy => '{strategy}', order_by => '{columns}')")
        assert sorted_rows(made).equals(expected)
    assert made.latest_snapshot().commit_kind is CommitKind.OVERWRITE  # type: ignore[union-attr]
    for day in (0, 1):
        files = made.files(f"day = {day}")
        hit = made.files(f"day = {day} and s = 'https://example.org/77'")
        assert len(files) >= 3 and len(hit) <= 2


@pytest.mark.usefixtures("by_tasks")
@pytest.mark.parametrize("buffer", ["256 mb", "16 kb"])
def test_rows_are_sorted_on_this_machines_disk(classic: Lake, monkeypatch: pytest.MonkeyPatch, buffer: str) -> None:
    """Without Spark's shuffle: what tasks put aside is read once more, in one piece or run by run, and then gone."""
    made_here: list[int] = []
    asked = sort_compaction.write_ranges

    def write_ranges(*given: Any) -> Any:
        messages = asked(*given)
        made_here.append(sum(len(message.new_files) for message in messages))
        return messages

    monkeypatch.setattr(sort_compaction, "write_ranges", write_ranges)
    data = everything(ROWS).drop_columns(["fine", "fines"])
    options = {**SMALL, "deletion-vectors.enabled": "true", "metadata.stats-mode": "full", "write-buffer-size": buffer}
    made = classic.catalog.create_table("t", data.schema, ["day"], [], options)
    for start in range(0, ROWS, ROWS // 3):
        made.write_arrow(data.slice(start, ROWS // 3))
    classic.sql("DELETE FROM t WHERE id % 100 = 3")
    expected = sorted_rows(made)
    for strategy, columns in (("zorder", "k,price"), ("hilbert", "k,x"), ("order", "s,id")):
        classic.sql(f"CALL sys.compact(table => 't', order_strategy => '{strategy}', order_by => '{columns}')")
        assert sorted_rows(made).equals(expected)
        assert made_here.pop() >= 4
        assert not aside()
    for day in (0, 1):
        found = [row["s"] for row in made.to_arrow(where=f"day = {day}").to_pylist()]
        assert found == sorted(found, key=lambda text: (text is not None, text))
        assert len(made.files(f"day = {day} and s = 'https://example.org/77'")) <= 2


@pytest.mark.usefixtures("by_tasks")
def test_a_task_that_fails_leaves_nothing_aside(classic: Lake) -> None:
    data = everything(ROWS).drop_columns(["fine", "fines"])
    made = classic.catalog.create_table("t", data.schema, ["day"], [], SMALL)
    for start in range(0, ROWS, ROWS // 3):
        made.write_arrow(data.slice(start, ROWS // 3))
    split = made.plan().splits[-1]
    path = Path(made.store.paths.file_path(split.bucket_path, split.files[-1]))
    whole, before = path.read_bytes(), made.latest_snapshot()
    path.write_bytes(whole[:2000] + bytes(100) + whole[2100:])
    with pytest.raises(CorruptError, match=path.name):
        classic.sql("CALL sys.compact(table => 't', order_strategy => 'order', order_by => 's')")
    assert not aside()
    assert made.refresh().latest_snapshot() == before
    path.write_bytes(whole)
    assert sorted_rows(made).num_rows == ROWS


@pytest.mark.usefixtures("classic")
def test_a_task_that_writes_on_finds_its_folder_gone() -> None:
    """As after Ctrl-C: the write has ended in the driver, and its tasks have not noticed yet."""
    rows = pa.record_batch({"n": [1, 2]})
    with scratch() as folder:
        spill = Spill(within=folder)
        spill.write([(0, [rows])])
        assert aside() == [Path(folder)]
    with pytest.raises(StorageError, match="cannot create"):
        spill.write([(0, [rows])])
    assert not aside()


@pytest.mark.usefixtures("by_tasks")
@pytest.mark.parametrize("whole", [True, False])
def test_files_and_frames_are_written_in_order(
    classic: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, whole: bool
) -> None:
    """Files that tasks read themselves, and what Spark filters out of them."""
    kinds: list[str] = []
    for name in ("of_shares", "of_frame"):
        made = getattr(ordered, name)
        monkeypatch.setattr(ordered, name, lambda *given, made=made: kinds.append(made.__name__) or made(*given))
    data = everything(ROWS).select(["id", "k", "s", "price"])
    pa.parquet.write_table(data, tmp_path / "rows.parquet", row_group_size=300)
    classic.catalog.create_table(
        "t", data.schema, [], [], {**SMALL, "clustering.columns": "s,id", "clustering.strategy": "order"}
    )
    frame = classic.spark.read.parquet(str(tmp_path / "rows.parquet"))
    classic.table("t").write(frame if whole else frame.where("id % 10 > 0"))
    assert kinds == ["of_shares" if whole else "of_frame"]
    made = classic.table("t").table
    assert len(made.files()) > 1
    wanted = frame if whole else frame.where("id % 10 > 0")
    assert classic.sql("SELECT * FROM t ORDER BY id").toArrow().equals(wanted.orderBy("id").toArrow())
    found = [(row["s"] is not None, row["s"], row["id"]) for row in made.to_arrow().to_pylist()]
    assert found == sorted(found, key=lambda row: (row[0], row[1] or "", row[2]))


@pytest.mark.usefixtures("by_tasks")
def test_one_key_is_spread_over_files_of_about_one_size(classic: Lake) -> None:
    data = pa.table({"id": pa.array(range(ROWS), pa.int64()), "k": pa.array([5] * ROWS)})
    made = classic.catalog.create_table("t", data.schema, [], [], SMALL)
    made.write_arrow(data)
    classic.table("t").compact(order_by=["k"], **{"sort-compaction.range-strategy": "quantity"})
    counts = [entry.file.row_count for entry in made.plan().entries]
    assert sorted_rows(made)["id"].to_pylist() == list(range(ROWS))
    assert len(counts) > 1 and max(counts) < 1.6 * min(counts)


@pytest.mark.usefixtures("by_tasks")
def test_clustering_by_tasks(classic: Lake) -> None:
    options = {
        **SMALL,
        "clustering.columns": "k",
        "clustering.incremental": "true",
        "num-sorted-run.compaction-trigger": "2",
    }
    data = everything(900).drop_columns(["fines"])
    for number, more in enumerate(
        [
            {"num-levels": "4"},
            {"num-levels": "4", "clustering.incremental.mode": "local-sort"},
            {"num-levels": "4", "bucket": "2", "bucket-key": "id", "bucket-append-ordered": "false"},
        ]
    ):
        made = classic.catalog.create_table(f"t{number}", data.schema, [], [], {**options, **more})
        for start in range(0, 900, 300):
            made.write_arrow(data.slice(start, 300))
        before = sorted_rows(made)
        assert classic.table(f"t{number}").compact() is not None
        assert sorted_rows(made).equals(before)
        assert {entry.file.level for entry in made.plan().entries} == {3}
        assert made.latest_snapshot().commit_kind is CommitKind.COMPACT  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.usefixtures("by_tasks")
def test_writes_cluster_by_tasks(classic: Lake) -> None:
    classic.sql(
        "CREATE TABLE t (id BIGINT, k INT) TBLPROPERTIES ('clustering.columns'='k', 'target-file-size'='8 kb', "
        "'parquet.enable.dictionary'='false')"
    )
    classic.sql(f"INSERT INTO t SELECT id, cast(hash(id) % 1000 AS INT) FROM range({ROWS})")
    made = classic.table("t").table
    assert sorted_rows(made)["id"].to_pylist() == list(range(ROWS))
    found = ranges(made, "k")
    assert len(found) > 1 and all(left[1] <= right[0] for left, right in pairwise(found))
    frame = classic.spark.range(50).selectExpr("id", "cast(50 - id AS INT) AS k").coalesce(1)
    frame.write.format("bucketlake").mode("overwrite").save(made.path)
    assert [row[0] for row in classic.sql("SELECT k FROM t").collect()] == list(range(1, 51))
    classic.sql("INSERT OVERWRITE t SELECT 1L, 2 UNION ALL SELECT 3L, 1")
    assert [tuple(row) for row in classic.sql("SELECT * FROM t").collect()] == [(3, 1), (1, 2)]


def test_statements_as_paimon_takes_them(classic: Lake) -> None:
    sql = classic.sql
    sql("CREATE TABLE t (id INT, value STRING, pt STRING) PARTITIONED BY (pt)")
    sql("INSERT INTO t VALUES (3, 'c', 'p1'), (1, 'a', 'p1'), (2, 'b', 'p2')")
    for text, words in (
        ("order_strategy => 'sort', order_by => 'pt'", "order_by should not contain partition cols"),
        ("order_strategy => 'sort', order_by => 'id'", "cannot match order type"),
        ("order_strategy => 'sort', order_by => 'id', partition_idle_time => '5s'", "sort compact do not support"),
        ("order_strategy => 'none', order_by => 'id'", 'order_strategy "none" cannot work'),
        ("order_strategy => 'order', order_by => 'no'", "Can't find column no"),
        ("order_strategy => 'order', order_by => 'id', where => 'id = 1'", "Only partition predicate is supported"),
        ("order_by => 'id'", 'order_strategy "none" cannot work'),
        (
            "order_strategy => 'order', order_by => 'id', options => 'sort-compaction.local-sample.magnification=10'",
            "greater than or equal to 20 is needed",
        ),
    ):
        with pytest.raises(InvalidError, match=words):
            sql(f"CALL sys.compact(table => 't', {text})")
    sql("CREATE TABLE keyed (id INT, v INT) TBLPROPERTIES ('primary-key'='id', 'bucket'='1')")
    with pytest.raises(UnsupportedError, match="only support unaware-bucket append-only table"):
        sql("CALL sys.compact(table => 'keyed', order_strategy => 'order', order_by => 'id')")
    assert sql("CALL sys.compact(table => 't', order_strategy => 'order', order_by => 'id')").collect()[0][0] is True
    assert [row[0] for row in sql("SELECT id FROM t WHERE pt = 'p1'").collect()] == [1, 3]
    assert sql("SELECT commit_kind FROM `t$snapshots` ORDER BY snapshot_id").collect()[-1][0] == "OVERWRITE"


def test_incremental_clustering_by_statement(classic: Lake) -> None:
    sql = classic.sql
    sql(
        "CREATE TABLE t (a INT, b INT, pt INT) PARTITIONED BY (pt) TBLPROPERTIES ('num-levels'='6', "
        "'num-sorted-run.compaction-trigger'='2', 'clustering.columns'='a,b', 'clustering.strategy'='zorder', "
        "'clustering.incremental'='true')"
    )
    for a in range(3):
        for b in range(3):
            sql(f"INSERT INTO t VALUES ({a}, {b}, 0), ({a}, {b}, 1)")
    sql("CALL sys.compact(table => 't', where => 'pt = 0')")
    levels = "SELECT DISTINCT partition, level FROM `t$files` ORDER BY partition"
    assert [tuple(row) for row in sql(levels).collect()] == [("{0}", 5), ("{1}", 0)]
    sql("CALL sys.compact(table => 't', compact_strategy => 'full')")
    assert [tuple(row) for row in sql(levels).collect()] == [("{0}", 5), ("{1}", 5)]
    expected = [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2), (2, 0), (2, 1), (2, 2)]
    assert [tuple(row) for row in sql("SELECT a, b FROM t WHERE pt = 1").collect()] == expected
    with pytest.raises(InvalidError, match="has enabled incremental clustering"):
        sql("CALL sys.compact(table => 't', order_strategy => 'order', order_by => 'a')")


@pytest.mark.usefixtures("by_tasks")
@pytest.mark.parametrize("strategy", ["order", "zorder"])
def test_a_large_partition_of_a_dynamic_table_by_ranges(classic: Lake, strategy: str) -> None:
    """Keys that share a hash stay in one bucket, however far they lie from each other in the order."""
    many = np.unique(np.random.default_rng(4).integers(0, 1 << 62, 300_000))
    hashes = hash_rows(encode_rows([pa.array(many)], [BIGINT]))
    order = np.argsort(hashes, kind="stable")
    _, places, counts = np.unique(hashes[order], return_inverse=True, return_counts=True)
    shared = many[order][counts[places] > 1]  # two by two
    assert len(shared) > 4
    keys = np.unique(np.concatenate([many[:2000], shared]))
    turned = np.where(np.isin(keys, shared[::2]), -keys, keys)  # one of two at the beginning, one at the end
    data = pa.table({"id": keys, "v": turned, "w": keys % 7})
    options = {"dynamic-bucket.target-row-num": "300", "write-only": "true"}
    made = classic.catalog.create_table("t", data.schema, (), ["id"], options)
    made.write_arrow(data)
    made.write_arrow(data.slice(0, 100))
    before = sorted_rows(made)
    classic.sql(f"CALL sys.compact(table => 't', order_strategy => '{strategy}', order_by => 'v')")
    assert sorted_rows(made).equals(before)
    buckets = {file.bucket for file in made.files()}
    assert {bucket % 2 for bucket in buckets} == {0, 1} and len(made.files(f"v = {keys[1500]}")) <= 2
    made.refresh().write_arrow(data)
    assert sorted_rows(made).equals(before)
    assert not made.refresh().fsck("keys").findings


@pytest.mark.usefixtures("by_tasks")
def test_partitions_of_a_dynamic_table_by_tasks(classic: Lake) -> None:
    data = everything(600).drop_columns(["fines"])
    options = {"dynamic-bucket.target-row-num": "60", "write-only": "true"}
    made = classic.catalog.create_table("t", data.schema, ["day"], ["id", "day"], options)
    made.write_arrow(data)
    made.write_arrow(data.slice(0, 100))
    before = sorted_rows(made)
    classic.sql("CALL sys.compact(table => 't', order_strategy => 'order', order_by => 'k')")
    assert sorted_rows(made).equals(before)
    files = made.files("day = 1")
    assert len(files) >= 5 and len(made.files("day = 1 and k = 400")) <= 2
