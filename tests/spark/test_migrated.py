"""Migrated tables through Spark's own scan: files of one name in many partitions, without the partition columns."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.migrated import migrated, rows_of, write_file
from tests.profile import first

from bucketlake.errors import CorruptError
from bucketlake.format.row.binary_row import serialized
from bucketlake.ops.commit.commit import Commit
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.write.prepare import new_commit_user
from bucketlake.spark.read import filtered as live
from bucketlake.spark.read import native, placed, reader
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark
PARTITIONS = 120
VECTORS = {"deletion-vectors.enabled": "true"}
PARTS: dict[Any, list[pa.Table]] = {
    "a": [rows_of(0, 100)],
    "b c%41ü": [rows_of(100, 200)],
    None: [rows_of(200, 300)],
    "d": [rows_of(300, 450)],
}


@pytest.fixture(autouse=True)
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything goes to Spark's scan."""
    monkeypatch.setattr(reader, "SMALL_ROWS", 0)
    live.forget()


@pytest.fixture(params=first([VECTORS, {}], 1), ids=first(["vectors", "rewrite"], 1))
def kind(request: pytest.FixtureRequest) -> dict[str, str]:
    return dict(request.param)


def keys(lake: Lake, where: str = "true") -> list[int]:
    return sorted(row[0] for row in lake.sql(f"SELECT k FROM db.t WHERE {where}").collect())


@pytest.mark.parametrize("file_format", first(["orc", "parquet", "avro"], 1))
def test_partition_columns_are_the_partition_s(classic: Lake, file_format: str) -> None:
    migrated(classic.catalog, PARTS, {"file.format": file_format}, name="db.t")
    assert keys(classic, "pt = 'a'") == list(range(100))
    assert keys(classic, "pt = 'b c%41ü' AND k < 103") == [100, 101, 102]
    assert keys(classic, "pt IS NULL") == list(range(200, 300))
    assert keys(classic, "pt <> 'd'") == list(range(200))
    found = classic.sql("SELECT pt, count(*), min(v) FROM db.t GROUP BY pt").collect()
    assert {(row[0], row[1], row[2]) for row in found} == {
        ("a", 100, "x"),
        ("b c%41ü", 100, "x"),
        (None, 100, "x"),
        ("d", 150, "x"),
    }
    assert classic.sql("SELECT DISTINCT pt FROM db.t").count() == 4
    assert classic.sql("SELECT count(*) FROM db.t").collect()[0][0] == 450


def test_rows_are_deleted_and_updated_where_they_lie(classic: Lake, kind: dict[str, str]) -> None:
    migrated(classic.catalog, PARTS, kind, name="db.t")
    left = list(range(450))
    for where, gone in {
        "pt = 'a' AND k < 10": range(10),
        "k % 100 = 50": range(50, 450, 100),
        "concat(pt, 'x') = 'dx' AND k > 440": range(441, 450),
        "pt IS NULL AND k + 0 > 290": range(291, 300),
    }.items():
        classic.sql(f"DELETE FROM db.t WHERE {where}")
        left = [k for k in left if k not in gone]
        assert keys(classic) == left
    classic.sql("UPDATE db.t SET v = concat(pt, '!') WHERE k % 100 = 20")
    assert keys(classic, "v = concat(pt, '!')") == [20, 120, 320, 420]
    classic.sql("UPDATE db.t SET pt = 'e' WHERE v = 'd!'")
    assert keys(classic, "pt = 'e'") == [320, 420]
    assert keys(classic) == left


def test_rows_survive_compaction_by_tasks(classic: Lake, kind: dict[str, str]) -> None:
    migrated(classic.catalog, PARTS, kind, name="db.t")
    classic.sql("DELETE FROM db.t WHERE k % 100 = 50")
    classic.sql("INSERT INTO db.t SELECT k + 1000, v, pt FROM db.t")
    classic.table("db.t").with_options({"compaction.min.file-num": "1"}).compact()
    old = [k for k in range(450) if k % 100 != 50]
    assert keys(classic) == [*old, *(k + 1000 for k in old)]
    assert keys(classic, "pt = 'a'") == [k for k in [*range(100), *range(1000, 1100)] if k % 100 != 50]


@pytest.mark.slow
def test_many_partitions_are_few_scans(classic: Lake, kind: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of the same name and the same size in every partition."""
    scans, plain = [], native.scan_with_places
    monkeypatch.setattr(native, "scan_with_places", lambda *given: (scans.append(given), plain(*given))[1])
    parts = {f"p{number:03d}": [rows_of(number * 10, number * 10 + 10)] for number in range(PARTITIONS)}
    migrated(classic.catalog, parts, kind, name="db.t")
    frame = classic.sql("SELECT pt, sum(k) FROM db.t GROUP BY pt")
    assert len(scans) <= placed.MOST_SCANS + 1
    assert dict(frame.collect()) == {f"p{number:03d}": number * 100 + 45 for number in range(PARTITIONS)}
    classic.sql("DELETE FROM db.t WHERE pt >= 'p118' AND k + 0 >= 1185")
    assert keys(classic, "k + 0 > 1170") == list(range(1171, 1185))
    assert keys(classic) == list(range(1185))


def test_every_type_of_partition(classic: Lake) -> None:
    schema = pa.schema(
        [
            ("k", pa.int64()),
            ("s", pa.string()),
            ("i", pa.int32()),
            ("b", pa.bool_()),
            ("d", pa.date32()),
            ("n", pa.decimal128(38, 18)),
            ("f", pa.float64()),
            ("t", pa.timestamp("us")),
            ("z", pa.timestamp("us", "UTC")),
        ]
    )
    low = ("a", -1, False, dt.date(1969, 1, 1), Decimal("-1.5"), -0.5, dt.datetime(1960, 1, 1, 1, 1, 1, 5))
    high = ("b", 1, True, dt.date(2069, 1, 1), Decimal("1.5"), float("inf"), dt.datetime(2060, 1, 1))
    lows = (*low, dt.datetime(1960, 1, 1, tzinfo=dt.timezone.utc))
    highs = (*high, dt.datetime(2060, 1, 1, 1, tzinfo=dt.timezone.utc))
    parts = {lows: [rows_of(0, 50).select(["k"])], highs: [rows_of(50, 120).select(["k"])]}
    table = migrated(classic.catalog, parts, {}, schema=schema, keys=schema.names[1:], name="db.t")
    for where in ("true", "k < 50", "s = 'a'", "s = 'b'"):
        expected = table.to_arrow(where=None if where == "true" else where).sort_by("k")
        assert (
            classic.sql(f"SELECT * FROM db.t WHERE {where}")
            .toArrow()
            .cast(expected.schema)
            .sort_by("k")
            .equals(expected)
        )
    assert expected.num_rows == 70


def test_old_and_new_files_of_one_partition(classic: Lake, kind: dict[str, str]) -> None:
    """Files that hold the column beside files that do not, and one that holds another value."""
    table = migrated(classic.catalog, PARTS, kind, name="db.t")
    wrong = rows_of(2000, 2010).append_column("pt", pa.array(["zzz"] * 10))
    partition = serialized(("a",), [item.type for item in table.schema.partition_fields])
    file = write_file(table, partition, 0, wrong, stats=False, name="other")
    Commit(table.store, new_commit_user(table.store)).commit([CommitMessage(partition, 0, -1, new_files=(file,))])
    classic.sql("INSERT INTO db.t SELECT k + 1000, 'new', pt FROM db.t WHERE k < 2000")
    assert keys(classic, "pt = 'zzz'") == []
    assert keys(classic, "pt = 'a'") == [*range(100), *range(1000, 1100), *range(2000, 2010)]
    classic.sql("DELETE FROM db.t WHERE pt = 'a' AND (v = 'new' OR k % 10 = 9)")
    assert keys(classic, "pt = 'a'") == [k for k in [*range(100), *range(2000, 2010)] if k % 10 != 9]
    assert keys(classic, "pt <> 'a'") == [*range(100, 200), *range(300, 450), *range(1100, 1200), *range(1300, 1450)]


def test_a_file_that_is_not_what_its_metadata_says_is_an_error(classic: Lake) -> None:
    table = migrated(classic.catalog, PARTS, {}, name="db.t")
    found = next(one for one in table.files() if "pt=a" in one.path)
    pa.parquet.write_table(rows_of(0, 101), found.path)
    for where in ("true", "pt >= 'a'", "pt < 'd'"):
        with pytest.raises(CorruptError, match="longer than recorded"):
            classic.sql(f"SELECT * FROM db.t WHERE {where}").collect()
