"""Tables with deletion vectors through Spark: its own scan, filtered by bitmaps, and what is too small or no parquet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bucketlake.format.index.deletion_vector import vector_of
from bucketlake.ops.commit.commit import Commit
from bucketlake.ops.rows.deletions import write_vectors
from bucketlake.ops.scan.scan import plan
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.spark.read import filtered as live
from bucketlake.spark.read import native, reader
from bucketlake.spark.session import Lake

SCHEMA = pa.schema([pa.field("id", pa.int64()), ("pt", pa.string()), ("v", pa.int32())])
ROWS = 300_000


def make(lake: Lake, rows: int = ROWS, **options: str):
    given = {"deletion-vectors.enabled": "true", **{key.replace("_", "-"): value for key, value in options.items()}}
    lake.catalog.create_table("db.t", SCHEMA, ["pt"], [], given)
    table = lake.table("db.t")
    for part in range(3):
        ids = range(part * rows // 3, (part + 1) * rows // 3)
        data = pa.table({"id": ids, "pt": [f"p{part}"] * len(ids), "v": pa.array(ids, pa.int32())}, schema=SCHEMA)
        table.table.write_arrow(data)
    return table


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The files that Spark scanned with positions, and under "whole" those without."""
    seen: list[list[str]] = []
    plain, positioned = native.scan, live.scan_without

    def scan(*given: Any) -> Any:
        if len(given) == 4:  # with a fifth it leaves rows out
            seen.append(["whole", *(found.path for found in given[2])])
        return plain(*given)

    monkeypatch.setattr(native, "scan", scan)
    monkeypatch.setattr(
        live, "scan_without", lambda *a: (seen.append(["marked", *(f.path for f in a[2])]), positioned(*a))[1]
    )
    return seen


def test_large_files_are_filtered_in_spark_s_scan(lake: Lake, scans: list[list[str]]) -> None:
    table = make(lake)
    table.table.delete("id >= 1000 AND id < 31000")
    table.read()
    assert [(scan[0], len(scan) - 1) for scan in sorted(scans)] == [("marked", 1), ("whole", 2)]
    scans.clear()
    table.table.delete("id >= 250000 AND id < 250001")
    frame = table.read()
    assert [(scan[0], len(scan) - 1) for scan in scans] == [("marked", 3)]  # the third is read with the others
    assert frame.count() == ROWS - 30_001
    found = frame.selectExpr("sum(id)", "min(v)", "max(v)", "count(distinct pt)").collect()[0]
    gone = sum(range(1000, 31_000)) + 250_000
    assert tuple(found) == (ROWS * (ROWS - 1) // 2 - gone, 0, ROWS - 1, 3)
    assert table.read(where="id >= 30990 AND id < 31010").count() == 10
    assert table.read(columns=["v"], where="id = 250000").collect() == []
    assert lake.sql("SELECT count(*) FROM db.t WHERE pt = 'p0'").collect()[0][0] == ROWS // 3 - 30_000


def test_a_column_may_be_named_as_spark_s_own_metadata(lake: Lake) -> None:
    """Rows are told apart by what Spark says of their file, not by what a column of that name says."""
    kind = "STRUCT<file_size: BIGINT, row_index: BIGINT>"
    lake.sql(
        f"CREATE TABLE db.m (id BIGINT NOT NULL, `_metadata` {kind}, PRIMARY KEY (id) NOT ENFORCED) "
        "WITH ('bucket' = '1', 'write-only' = 'true')"
    )
    for rows, value in ((ROWS, 1), (1000, 2)):
        made = lake.spark.range(rows).selectExpr(
            "id", f"named_struct('file_size', {value}L, 'row_index', id) AS _metadata"
        )
        lake.write_table(made, "db.m")
    counted = lake.sql("SELECT _metadata.file_size, count(*) FROM db.m GROUP BY 1 ORDER BY 1").collect()
    assert [tuple(row) for row in counted] == [(1, ROWS - 1000), (2, 1000)]


def test_files_without_a_row_left_are_not_opened(lake: Lake, scans: list[list[str]]) -> None:
    table = make(lake)
    (split,) = table.plan(where="pt = 'p1'").splits
    table.table.delete("id >= 100000 AND id < 199999")
    table.table.delete("id = 199999")
    assert table.read().count() == ROWS * 2 // 3
    assert all(split.files[0].file_name not in path for scan in scans for path in scan)


@pytest.mark.parametrize("format", ["orc", "avro"])
def test_other_formats_cross_as_arrow(lake: Lake, format: str) -> None:
    table = make(lake, 150_000, **{"file.format": format})
    table.table.delete("id >= 20000 AND id < 30000")
    assert table.read().count() == 140_000
    assert table.read(where="id >= 19999 AND id <= 30000").count() == 2


def test_small_tables_and_limits(lake: Lake) -> None:
    table = make(lake, 300)
    table.table.delete("id >= 10")
    assert sorted(row.id for row in table.read().collect()) == list(range(10))
    assert len(table.read(limit=8).collect()) == 8
    assert len(table.read(limit=50).collect()) == 10


def test_a_limit_opens_as_many_files_as_it_needs(lake: Lake) -> None:
    table = make(lake)
    table.table.delete("id >= 5 AND id < 100000")
    assert table.read(limit=60_000).count() == 60_000
    assert len(table.read(limit=7).collect()) == 7


def test_merge_on_read_lets_no_deleted_row_win(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Level 0 merged over files with vectors: a vector also hides rows that nothing supersedes."""
    lake.catalog.create_table("db.k", SCHEMA, ["pt"], ["pt", "id"], {"bucket": "1", "write-only": "true"})
    table = lake.table("db.k")
    for low, value in ((0, 1), (500, 2)):
        ids = range(low, low + 1000)
        table.table.write_arrow(pa.table({"id": ids, "pt": ["p"] * 1000, "v": pa.array([value] * 1000, pa.int32())}))
    store = table.table.store
    (split,) = plan(store).splits
    first = min(split.files, key=lambda file: file.min_sequence_number)
    last = max(split.files, key=lambda file: file.min_sequence_number)
    marks = {
        first.file_name: vector_of(np.arange(100), bits64=False),
        last.file_name: vector_of(np.array([0, 999]), bits64=False),
    }
    index = tuple(write_vectors(store, split.partition, 0, marks))
    Commit(store, "me").commit([CommitMessage(split.partition, 0, 1, new_index_files=index)])
    expected = [(k, 1) for k in range(100, 501)] + [(k, 2) for k in range(501, 1499)]
    monkeypatch.setattr(reader, "LARGE_MERGE_ROWS", 0)
    for small in (1 << 30, 0):
        monkeypatch.setattr(reader, "SMALL_ROWS", small)
        live.forget()
        for _ in range(2):
            assert sorted((row.id, row.v) for row in table.read().collect()) == expected
