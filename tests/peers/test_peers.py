"""The peers start, and read alike what Flink wrote; if these fail, no other peer test means anything."""

from __future__ import annotations

from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.peers.flink import FlinkPaimon
from tests.peers.python_peers import PaimonRust, PyPaimon
from tests.peers.rpc import PeerError

pytestmark = pytest.mark.peer

ROWS = [(1, "c", Decimal("1.50")), (2, "b", None), (3, "d", Decimal("-3.25"))]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for this module's tables."""
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="module")
def table(flink: FlinkPaimon, warehouse: Path) -> str:
    """A primary-key table of three commits, written by Flink."""
    flink.use(warehouse).run(
        [
            "CREATE DATABASE IF NOT EXISTS db",
            "CREATE TABLE db.t (k INT, v STRING, d DECIMAL(5, 2), PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '2')",
            "INSERT INTO db.t VALUES (1, 'a', 1.5), (2, 'b', CAST(NULL AS DECIMAL(5, 2)))",
            "INSERT INTO db.t VALUES (1, 'c', 1.5), (3, 'd', -3.25), (4, 'gone', 0)",
            "DELETE FROM db.t WHERE k = 4",
        ]
    )
    return "t"


def _rows(read: pa.Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in read.to_pylist())


def test_flink_reads_what_it_wrote(flink: FlinkPaimon, warehouse: Path, table: str) -> None:
    result = flink.use(warehouse).sql(f"SELECT * FROM db.{table} ORDER BY k")
    assert result.columns == ["k", "v", "d"]
    assert result.rows == ROWS
    assert flink.sql(f"SELECT COUNT(*) FROM db.`{table}$snapshots`").scalar() == 3


def test_pypaimon_reads_the_same(pypaimon: PyPaimon, warehouse: Path, table: str) -> None:
    assert _rows(pypaimon.use(warehouse).read("db", table)) == ROWS
    assert {file["bucket"] for file in pypaimon.plan("db", table)} <= {0, 1}


def test_rust_reads_the_same(paimon_rust: PaimonRust, warehouse: Path, table: str) -> None:
    assert _rows(paimon_rust.use(warehouse).read("db", table)) == ROWS
    assert {file["bucket"] for file in paimon_rust.plan("db", table)} <= {0, 1}


def test_python_peers_write_what_flink_reads(
    flink: FlinkPaimon, pypaimon: PyPaimon, paimon_rust: PaimonRust, warehouse: Path
) -> None:
    flink.use(warehouse).sql("CREATE TABLE shared (k INT, v STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket'='1')")
    schema = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.string())])
    pypaimon.use(warehouse).write("default", "shared", pa.table({"k": [1, 2], "v": ["p", "p"]}, schema))
    paimon_rust.use(warehouse).write("default", "shared", pa.table({"k": [2, 3], "v": ["r", "r"]}, schema))
    assert flink.sql("SELECT * FROM shared ORDER BY k").rows == [(1, "p"), (2, "r"), (3, "r")]


def test_values_arrive_faithfully(flink: FlinkPaimon) -> None:
    result = flink.sql(
        "SELECT TIMESTAMP '2020-01-02 03:04:00', TIMESTAMP '2020-01-02 03:04:05.123456789',"
        " CAST(TIMESTAMP '2020-01-02 03:04:05.123456' AS TIMESTAMP_LTZ(6)), TIME '01:02:00', DATE '1969-12-31',"
        " x'00ff', CAST('NaN' AS DOUBLE), ARRAY[1, CAST(NULL AS INT)], MAP[1, 'a'],"
        " ROW(CAST(1.50 AS DECIMAL(5, 2)), 'x')"
    )
    (row,) = result.rows
    assert row[:6] == (
        datetime(2020, 1, 2, 3, 4),
        "2020-01-02T03:04:05.123456789",
        datetime(2020, 1, 2, 3, 4, 5, 123456, tzinfo=timezone.utc),
        time(1, 2),
        date(1969, 12, 31),
        b"\x00\xff",
    )
    assert row[6] != row[6]
    assert row[7:] == ([1, None], {1: "a"}, (Decimal("1.50"), "x"))


def test_a_failure_names_its_root_cause_and_the_session_goes_on(flink: FlinkPaimon) -> None:
    with pytest.raises(PeerError, match="Object 'nowhere' not found"):
        flink.sql("SELECT * FROM nowhere")
    assert flink.sql("SELECT 1").scalar() == 1


@pytest.mark.slow
def test_procedures_and_streaming_reads(flink: FlinkPaimon, tmp_path: Path) -> None:
    flink.use(tmp_path).run(
        [
            "CREATE TABLE s (k INT, v INT, PRIMARY KEY (k) NOT ENFORCED)"
            " WITH ('bucket' = '1', 'changelog-producer' = 'input')",
            "INSERT INTO s VALUES (1, 1), (2, 2)",
            "INSERT INTO s VALUES (1, 3)",
        ]
    )
    assert flink.sql("CALL sys.compact(`table` => 'default.s')").rows == [("Success",)]
    assert {row["level"] for row in flink.sql("SELECT level FROM `s$files`").dicts()} == {5}
    changes = flink.collect("SELECT * FROM s /*+ OPTIONS('scan.mode' = 'latest-full') */", 2, timeout=120)
    assert sorted(zip(changes.kinds, changes.rows, strict=True)) == [("+I", (1, 3)), ("+I", (2, 2))]
    assert set(flink.collect("SELECT * FROM s", 10, timeout=2).rows) <= {(1, 3), (2, 2)}  # as many as came by then
    assert flink.sql("SELECT COUNT(*) FROM s").scalar() == 2


def test_paimons_api_writes_and_reads_without_a_job(flink: FlinkPaimon, tmp_path: Path) -> None:
    """Rows of one table into another, with their kinds; compaction, an ALTER, a tag."""
    place = {"warehouse": str(tmp_path)}
    flink.use(tmp_path).run(
        [
            "CREATE DATABASE db",
            "CREATE TABLE db.t (k INT, v STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '2')",
            "CREATE TABLE db.staged (k INT, v STRING, kind INT)",
            "INSERT INTO db.staged VALUES (1, 'a', 0), (2, 'b', 0), (1, 'a', 3)",
        ]
    )
    flink.api("write", **place, name="db.t", staged="db.staged", options={}, overwrite=None, kinds=True)
    flink.api("compact", **place, name="db.t", options={}, full=True)
    flink.api("alter", **place, name="db.t", changes=[["addColumn", "w", 'type:"BIGINT"']])
    flink.api("call", **place, name="db.t", method="createTag", arguments=["one"])
    path = tmp_path / "read.parquet"
    assert flink.api("read", **place, name="db.t", path=str(path), options={}) == [
        ["k", "INT NOT NULL"],
        ["v", "STRING"],
        ["w", "BIGINT"],
    ]
    assert pq.read_table(path).to_pylist() == [{"k": 2, "v": "b", "w": None}]
    with pytest.raises(PeerError, match="no_such"):
        flink.api("read", **place, name="db.no_such", path=str(path), options={})
