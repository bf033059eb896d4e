"""Rows on their way to Python."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from bucketlake.spark.arrow_rows import BATCH_ROWS
from bucketlake.spark.session import Lake
from bucketlake.spark.write import narrow, tasks
from bucketlake.spark.write.narrow import BATCH_BYTES, UNLIMITED

pytestmark = pytest.mark.spark
KEYED = "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')"


def limits(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """What the limit is while rows cross."""
    seen: list[str | None] = []
    run = tasks.run_tasks

    def watched(*arguments: object) -> list[object]:
        seen.append(lake.spark.conf.get(BATCH_BYTES, None))
        return run(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(tasks, "run_tasks", watched)
    return seen


def test_a_write_leaves_the_session_as_it_was(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.sql(f"CREATE TABLE db.t (id BIGINT, v STRING) {KEYED}")
    rows = lake.spark.range(50_000).select("id", F.lit("v").alias("v"))
    seen = limits(lake, monkeypatch)
    lake.table("db.t").write(rows)
    assert lake.spark.conf.get(BATCH_BYTES, None) is None
    with pytest.raises(Exception, match="broken"):
        lake.table("db.t").write(rows.withColumn("v", F.raise_error(F.lit("broken")).cast("string")))
    assert lake.spark.conf.get(BATCH_BYTES, None) is None
    assert seen == [UNLIMITED, UNLIMITED]
    assert lake.table("db.t").read().count() == 50_000


def test_a_limit_that_was_set_holds(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.sql(f"CREATE TABLE db.t (id BIGINT) {KEYED}")
    seen = limits(lake, monkeypatch)
    lake.spark.conf.set(BATCH_BYTES, "1000000")
    try:
        lake.table("db.t").write(lake.spark.range(50_000))
        assert lake.spark.conf.get(BATCH_BYTES) == "1000000" == seen[0]
    finally:
        lake.spark.conf.unset(BATCH_BYTES)


@pytest.mark.parametrize("rows", ["-1", "0"])
def test_batches_without_a_limit_of_rows(lake: Lake, rows: str) -> None:
    lake.spark.conf.set(BATCH_ROWS, rows)
    try:
        lake.sql(f"CREATE TABLE db.t (id BIGINT, v STRING) {KEYED}")
        lake.sql("INSERT INTO db.t SELECT id, 'a' FROM range(6)")
        lake.sql("UPDATE db.t SET v = 'b' WHERE id % 3 = 0")
        lake.sql("DELETE FROM db.t WHERE id = 2")
        lake.sql(
            "MERGE INTO db.t USING (SELECT 1 AS id UNION ALL SELECT 9) s ON t.id = s.id "
            "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'm')"
        )
        assert [tuple(row) for row in lake.sql("SELECT * FROM db.t ORDER BY id").collect()] == [
            (0, "b"), (3, "b"), (4, "a"), (5, "a"), (9, "m")]  # fmt: skip
        assert lake.sql("SELECT count(*) FROM db.t").first()[0] == 5
        assert lake.sql("SHOW TABLES IN db").count() == 1
        assert lake.spark.conf.get(BATCH_ROWS) == rows
    finally:
        lake.spark.conf.unset(BATCH_ROWS)


@pytest.mark.parametrize("column", ["BINARY", "ARRAY<STRING>", "STRING"])
def test_wide_rows_keep_the_limit(lake: Lake, monkeypatch: pytest.MonkeyPatch, column: str) -> None:
    monkeypatch.setattr(narrow, "WIDE_ROW", 40)
    lake.sql(f"CREATE TABLE db.t (id BIGINT, v {column}) {KEYED}")
    seen = limits(lake, monkeypatch)
    value = F.concat(*[F.xxhash64("id", F.lit(n)).cast("string") for n in range(8)])
    wide = value.cast("binary") if column == "BINARY" else F.array(value) if column.startswith("ARRAY") else value
    rows = lake.spark.range(0, 24_000, 1, 1).select("id", wide.alias("v"))
    lake.table("db.t").write(rows)
    lake.table("db.t").write(rows)
    assert seen == [UNLIMITED if column == "STRING" else None, None], "of texts it is known once there are files"
