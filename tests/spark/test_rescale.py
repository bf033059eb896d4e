"""Rescale through Spark: as tasks and in the driver, and as a statement."""

from __future__ import annotations

import pytest
from tests.profile import later

import bucketlake
from bucketlake.errors import BucketlakeError, InvalidError
from bucketlake.spark.maintain import jobs

pytestmark = pytest.mark.spark

ADVICE = ["partition", "rows", "bytes", "buckets", "skew", "sorted_runs", "recommended", "reason"]


def totals(lake: bucketlake.Lake) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for file in lake.table("db.t").files():
        found.setdefault(file.partition.get("pt", ""), set()).add(file.total_buckets)
    return found


@pytest.mark.parametrize("driver_bytes", later([0, 1 << 30], 1), ids=["tasks", "driver"])
def test_rescale(lake: bucketlake.Lake, monkeypatch: pytest.MonkeyPatch, driver_bytes: int) -> None:
    monkeypatch.setattr(jobs, "DRIVER_BYTES", driver_bytes)
    lake.sql(
        "CREATE TABLE db.t (id BIGINT, v BIGINT, pt STRING) PARTITIONED BY (pt) "
        "TBLPROPERTIES ('primary-key' = 'pt,id', 'bucket' = '4', 'write-only' = 'true')"
    )
    lake.sql("INSERT INTO db.t SELECT id, id, 'a' FROM range(2000)")
    lake.sql("INSERT INTO db.t SELECT id, id + 1, 'a' FROM range(1000)")
    lake.sql("INSERT INTO db.t SELECT id, id, 'b' FROM range(100)")
    before = lake.sql("SELECT pt, count(*), sum(v) FROM db.t GROUP BY pt ORDER BY pt").collect()
    table = lake.table("db.t")
    kept = {f.path for f in table.files("pt = 'b'")}
    snapshot = table.rescale(8, where="pt = 'a'")
    assert snapshot is not None and snapshot.commit_kind.value == "OVERWRITE"
    assert totals(lake) == {"a": {8}, "b": {4}} and {f.path for f in table.files("pt = 'b'")} == kept
    assert len(table.files("pt = 'a'")) == 8, "one run a bucket"
    assert lake.sql("SELECT pt, count(*), sum(v) FROM db.t GROUP BY pt ORDER BY pt").collect() == before
    table.rescale(3, partitions="pt=a")
    assert totals(lake) == {"a": {3}, "b": {4}}
    assert lake.sql("SELECT pt, count(*), sum(v) FROM db.t GROUP BY pt ORDER BY pt").collect() == before
    advice = lake.sql("CALL sys.advise_buckets('db.t')")
    assert advice.columns == ADVICE
    assert [(row.partition, row.rows, row.buckets, row.recommended) for row in advice.collect()] == [
        ("pt=a", 2000, 3, 1),
        ("pt=b", 100, 4, 1),
    ]


@pytest.mark.parametrize(
    "call",
    later(
        [
            "CALL sys.rescale('db.t', 8)",
            "CALL sys.rescale('db.t', 8, 'pt=1', 2, 2)",
            "CALL paimon.sys.rescale(`table` => 'db.t', `bucket_num` => 8, `partition` => 'pt=1', `sink_parallelism` => 2)",
            "CALL sys.rescale('db.t', 8, '', 'pt = 1')",
            "CALL sys.rescale('db.t', 8, 'pt=1')",
            "CALL sys.rescale(table => 'db.t', bucket_num => '8', partitions => 'pt=1;pt=7')",
        ],
        3,
    ),
)
def test_both_engines_arguments(classic: bucketlake.Lake, call: str) -> None:
    classic.sql(
        "CREATE TABLE db.t (id INT, pt INT) PARTITIONED BY (pt) TBLPROPERTIES ('bucket' = '2', 'bucket-key' = 'id')"
    )
    with pytest.raises(InvalidError, match="has no snapshot"):
        classic.sql(call)
    classic.sql("INSERT INTO db.t SELECT cast(id AS INT), 1 FROM range(50)")
    assert [tuple(row) for row in classic.sql(call).collect()] == [(True,)]
    assert totals(classic) == {"1": {8}}
    assert classic.sql("SELECT count(*), sum(id) FROM db.t").collect()[0][:] == (50, 1225)
    with pytest.raises(BucketlakeError, match="set the option 'bucket' to 8"):
        classic.sql("INSERT INTO db.t VALUES (1, 1)")


def test_compaction_follows_the_data(classic: bucketlake.Lake) -> None:
    with pytest.raises(InvalidError, match=r"bucket\.auto"):
        classic.sql("CREATE TABLE db.a (id INT) TBLPROPERTIES ('bucket' = '-1', 'bucket.auto' = 'true')")
    classic.sql("CREATE TABLE db.t (id INT, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '8')")
    classic.sql("ALTER TABLE db.t SET TBLPROPERTIES ('bucket.auto' = 'true')")
    classic.sql("INSERT INTO db.t SELECT cast(id AS INT), 1 FROM range(500)")
    classic.sql("CALL sys.compact('db.t')")
    assert totals(classic) == {"": {1}}
    classic.sql("INSERT INTO db.t SELECT cast(id AS INT), 2 FROM range(400, 600)")
    assert totals(classic) == {"": {1}}, "writers go by what is there"
    assert classic.sql("SELECT count(*), sum(v) FROM db.t").collect()[0][:] == (600, 800)
    found = classic.table("db.t").snapshots()
    classic.sql("CALL sys.compact('db.t')")
    new = classic.table("db.t").snapshots()[len(found) :]
    assert {snapshot.commit_kind.value for snapshot in new} <= {"COMPACT"}, "nothing more to rescale"
