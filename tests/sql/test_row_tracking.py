"""`_ROW_ID` and `_SEQUENCE_NUMBER` in statements: who names them, which rows keep them."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException
from tests.profile import later

from bucketlake.errors import BucketlakeError, InvalidError
from bucketlake.spark import sort_compaction
from bucketlake.spark.read import hidden, reader
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark

WITH = "TBLPROPERTIES ('row-tracking.enabled' = 'true', 'compaction.min.file-num' = '2'"
ALL = "SELECT *, _ROW_ID, _SEQUENCE_NUMBER FROM t ORDER BY id"
Rows = list[tuple[Any, ...]]


def rows(lake: Lake, statement: str = ALL) -> Rows:
    return [tuple(row) for row in lake.sql(statement).collect()]


@pytest.mark.parametrize("vectors", later(["true", "false"], 1))
def test_statements_keep_ids(classic: Lake, vectors: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that the driver changes by itself in one table, and tasks in the other."""
    lake, more = classic, f", 'deletion-vectors.enabled' = '{vectors}')"
    if vectors == "false":
        for module, name in ((reader, "SMALL_ROWS"), (hidden, "SMALL_ROWS"), (sort_compaction, "DRIVER_BYTES")):
            monkeypatch.setattr(module, name, -1)
    lake.sql(f"CREATE TABLE t (id INT, v STRING) {WITH}{more}")
    lake.sql("INSERT INTO t SELECT /*+ REPARTITION(1) */ id, 'a' FROM range(1, 5)")
    assert rows(lake) == [(n, "a", n - 1, 1) for n in range(1, 5)]
    assert rows(lake, "SELECT _row_id, t.id FROM t WHERE _Row_Id > 1 AND id < 4") == [(2, 3)]
    assert rows(lake, "SELECT * FROM t WHERE _SEQUENCE_NUMBER = 1 AND id = 1") == [(1, "a")]
    lake.sql("UPDATE t SET v = concat(v, id, _ROW_ID) WHERE id = 2")
    lake.sql("UPDATE t SET v = 'c' WHERE _ROW_ID = 2")
    lake.sql("DELETE FROM t WHERE _ROW_ID = 0")
    expected = [(2, "a21", 1, 2), (3, "c", 2, 3), (4, "a", 3, 1)]
    assert rows(lake) == expected
    lake.sql("MERGE INTO t USING (SELECT * FROM VALUES (3, 'm'), (4, 'd'), (5, 'n') AS s(id, v)) s ON t.id = s.id "
             "WHEN MATCHED AND s.v = 'd' THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v "
             "WHEN NOT MATCHED THEN INSERT *")  # fmt: skip
    expected = [(2, "a21", 1, 2), (3, "m", 2, 5), (5, "n", 4, 5)]
    assert rows(lake) == expected
    lake.sql("CALL sys.compact(table => 't')")
    assert rows(lake) == expected
    assert rows(lake, "SELECT * FROM `t$row_tracking` WHERE _ROW_ID >= 2 ORDER BY id") == expected[1:]
    lake.sql("CALL sys.compact(table => 't', order_strategy => 'zorder', order_by => 'id')")
    assert rows(lake) == expected
    lake.sql("MERGE INTO t USING (SELECT 4 AS k) s ON t._ROW_ID = s.k WHEN MATCHED THEN UPDATE SET v = 'z' "
             "WHEN NOT MATCHED BY SOURCE AND t.id = 2 THEN UPDATE SET v = 'y'")  # fmt: skip
    found = lake.table("t").latest_snapshot().id
    assert rows(lake) == [(2, "y", 1, found), (3, "m", 2, 5), (5, "z", 4, found)]
    lake.table("t").update({"v": "upper(v)"}, "id = 2")
    lake.sql("INSERT INTO t VALUES (6, 'i')")
    assert [row[:3] for row in rows(lake)] == [(2, "Y", 1), (3, "m", 2), (5, "z", 4), (6, "i", 5)]
    found = lake.table("t").read(columns=["_ROW_ID", "id"], where="id > 5").collect()
    assert [tuple(row) for row in found] == [(5, 6)]


def test_changed_rows_stay_in_their_file(classic: Lake) -> None:
    lake = classic
    lake.sql(f"CREATE TABLE t (id INT, v STRING) {WITH})")
    lake.sql("INSERT INTO t SELECT /*+ REPARTITION(1) */ id, 'a' FROM range(0, 4)")
    lake.sql("UPDATE t SET v = concat(v, id) WHERE id % 2 = 1")
    source = "(SELECT * FROM VALUES (0, 'm'), (3, 'n') AS s(id, v)) s"
    lake.sql(f"MERGE INTO t USING {source} ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v")
    assert rows(lake, "SELECT min_sequence_number, max_sequence_number FROM `t$files`") == [(1, 3)]
    assert rows(lake) == [(0, "m", 0, 3), (1, "a1", 1, 2), (2, "a", 2, 1), (3, "n", 3, 3)]


def test_what_is_no_metadata_column(classic: Lake) -> None:
    lake = classic
    lake.sql("CREATE TABLE plain (id INT)")
    lake.sql("INSERT INTO plain VALUES (1)")
    with pytest.raises((AnalysisException, BucketlakeError)):
        lake.sql("SELECT _ROW_ID FROM plain").collect()
    with pytest.raises(InvalidError, match="primary-key"):
        lake.sql(f"CREATE TABLE k (id INT) {WITH}, 'primary-key' = 'id')")
    lake.sql(f"CREATE TABLE j (id INT, v STRING) {WITH})")
    lake.sql("INSERT INTO j VALUES (1, 'x')")
    joined = "SELECT j.*, plain.id, j._ROW_ID FROM j JOIN plain ON j.id = plain.id"
    assert rows(lake, joined) == [(1, "x", 1, 0)]
    with pytest.raises(BucketlakeError):
        lake.sql("UPDATE j SET _ROW_ID = 7")
    loaded = lake.spark.read.format("bucketlake").load(f"{lake.table('j').path}$row_tracking")
    assert [tuple(row) for row in loaded.collect()] == [(1, "x", 0, 1)]
