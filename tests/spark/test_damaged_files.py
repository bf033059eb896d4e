"""Data files that Spark's own scan reads, exchanged, emptied or damaged: an error that names the file, and no statement goes
on with the rows that are left."""

from __future__ import annotations

from pathlib import Path

import pytest

from bucketlake.errors import CorruptError
from bucketlake.spark.read import reader
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark
KINDS = {
    "append": "TBLPROPERTIES ('file.compression' = 'none')",
    "orc": "TBLPROPERTIES ('file.format' = 'orc')",
    "keyed": "TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'file.compression' = 'none')",
}
STATEMENTS = (
    "SELECT * FROM t",
    "SELECT count(k) FROM t WHERE v || k <> 'y'",
    "UPDATE t SET v = 'y' WHERE v || k LIKE 'x%'",
    "DELETE FROM t WHERE v || k LIKE 'x%'",
    "INSERT INTO t SELECT k + 1000, v FROM t",
    "INSERT OVERWRITE t SELECT k, v || '!' AS v FROM t",
)


@pytest.fixture(params=KINDS)
def file(request: pytest.FixtureRequest, classic: Lake, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One of the files of a table `t`, none of which is small enough for the driver."""
    monkeypatch.setattr(reader, "SMALL_ROWS", 0)
    classic.sql(f"CREATE TABLE t (k INT, v STRING) {KINDS[request.param]}")
    for start in (0, 100):
        classic.sql(f"INSERT INTO t SELECT CAST(id AS INT), concat('x', id) FROM range({start}, {start + 40})")
    return Path(next(one.path for one in classic.table("t").table.files() if one.row_count == 40))


def refused(lake: Lake, path: Path) -> None:
    """Every statement names the file; once it is restored, all rows are as they were."""
    damaged, before = path.read_bytes(), lake.table("t").table.latest_snapshot()
    for statement in STATEMENTS:
        with pytest.raises(CorruptError, match=path.name):
            lake.sql(statement).collect()
        assert lake.table("t").table.latest_snapshot() == before, statement
    assert path.read_bytes() == damaged


def test_an_empty_file_is_no_file_without_rows(classic: Lake, file: Path) -> None:
    file.write_bytes(b"")
    refused(classic, file)


def test_a_file_of_another_table_with_the_same_columns(classic: Lake, file: Path) -> None:
    properties = next(text for text in KINDS.values() if ("orc" in text) == (file.suffix == ".orc"))
    classic.sql(f"CREATE TABLE u (k INT, v STRING) {properties}")
    classic.sql("INSERT INTO u SELECT CAST(id AS INT), 'x' FROM range(7)")
    (other,) = classic.table("u").table.files()
    file.write_bytes(Path(other.path).read_bytes())
    refused(classic, file)


def test_damage_that_keeps_the_length(classic: Lake, file: Path) -> None:
    """What Spark says of it in a statement names the file, without a trace of the JVM."""
    data = file.read_bytes()
    file.write_bytes(data[:-60] + b"\xff" * 50 + data[-10:])
    for statement in STATEMENTS[2:]:
        with pytest.raises(CorruptError, match=file.name) as raised:
            classic.sql(statement).collect()
        assert "\tat " not in str(raised.value)
    file.write_bytes(data)
    assert classic.sql("SELECT count(*) FROM t").collect()[0][0] == 80
