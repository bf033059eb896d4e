"""Files with replaced columns, ours and Apache Paimon's own, are read by Apache Paimon: whole and by conditions, which it
puts to row groups and page indexes."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.peers.flink import FlinkPaimon
from tests.profile import later

import bucketlake
from bucketlake.catalog import Catalog

pytestmark = pytest.mark.peer

ROWS = 30_000
COLUMNS = "k BIGINT, n INT, t STRING, few STRING, d DECIMAL(12, 2), x DOUBLE, m TIMESTAMP(6), z TIMESTAMP(9)"
OPTIONS = {"parquet.block.size": "65536", "parquet.page.row.count.limit": "500", "write-only": "true"}
CONDITIONS = (
    "k = 15000", "k BETWEEN 9990 AND 10010", "n = 77", "n = -5", "t = 'changed'", "t = '20001'", "few = 'third'",
    "d = 12345.00", "d = -1.00", "x = 2500.0", "m = TIMESTAMP '2020-02-02 02:02:02.020202'", "x IS NULL",
    "k > 29990 AND few = 'odd'",
)  # fmt: skip


@pytest.fixture(scope="module")
def catalog(flink: FlinkPaimon, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    folder = tmp_path_factory.mktemp("new_values")
    flink.use(folder)
    return bucketlake.open(folder)


def rows() -> pa.Table:
    ids = range(ROWS)
    moment = datetime(2024, 1, 1, 0, 0, 0, 123456)
    return pa.table(
        {
            "k": pa.array(ids, pa.int64()),
            "n": pa.array([i // 100 for i in ids], pa.int32()),
            "t": [str(i) for i in ids],
            "few": ["even" if i % 2 == 0 else "odd" for i in ids],
            "d": pa.array([Decimal(i) for i in ids], pa.decimal128(12, 2)),
            "x": [i / 4 for i in ids],
            "m": pa.array([moment] * ROWS, pa.timestamp("us")),
            "z": pa.array([moment] * ROWS, pa.timestamp("ns")),
        }
    )


@pytest.mark.parametrize("writer", later(["ours", "theirs"], 1))
def test_paimon_reads_what_is_replaced(flink: FlinkPaimon, catalog: Catalog, writer: str) -> None:
    name = f"default.t_{writer}"
    options = ", ".join(f"'{key}' = '{value}'" for key, value in OPTIONS.items())
    flink.sql(f"CREATE TABLE t_{writer} ({COLUMNS}) WITH ({options})")
    table = catalog.table(name)
    if writer == "ours":
        table.write_arrow(rows())
    else:
        table.write_arrow(rows(), **{"file.format": "orc"})
        flink.sql(f"CREATE TABLE by_flink ({COLUMNS}) WITH ({options})")
        flink.sql("INSERT INTO by_flink SELECT * FROM t_theirs")
        table = catalog.table("default.by_flink")
        name = "default.by_flink"
    before = {path.name for path in Path(table.path).rglob("*.parquet")}
    table.update({"t": "changed", "d": -1}, "k IN (3, 14999, 15000, 29999)")
    table.refresh().update({"n": -5}, "k BETWEEN 20000 AND 20100")
    table.refresh().update({"few": "third"}, "n = 120")
    table.refresh().update({"x": None, "m": datetime(2020, 2, 2, 2, 2, 2, 20202)}, "k = 25000")
    table = table.refresh()
    (newest,) = [p for p in Path(table.path).rglob("*.parquet") if p.name not in before and _is_live(catalog, name, p)]
    found = pq.read_metadata(newest)
    assert found.num_row_groups > (1 if writer == "theirs" else 0) and found.row_group(0).column(0).has_offset_index
    own = name.rpartition(".")[2]
    assert flink.sql(f"SELECT COUNT(*), SUM(k), COUNT(DISTINCT t) FROM {own}").rows == [
        (ROWS, sum(range(ROWS)), ROWS - 3)
    ]
    for condition in CONDITIONS:
        theirs = flink.sql(f"SELECT k, n, t, few, d, x FROM {own} WHERE {condition}").rows
        ours = table.to_arrow(where=condition, columns=["k", "n", "t", "few", "d", "x"]).to_pylist()
        assert sorted(map(str, theirs)) == sorted(str(tuple(row.values())) for row in ours), condition
        assert theirs, condition


def _is_live(catalog: Catalog, name: str, path: Path) -> bool:
    files = catalog.table(f"{name}$files").to_arrow()["file_path"].to_pylist()
    return any(str(file).endswith(path.name) for file in files)


@pytest.mark.parametrize("peer", ["pypaimon", "paimon_rust"])
def test_python_peers_read_what_is_replaced(request: pytest.FixtureRequest, tmp_path: Path, peer: str) -> None:
    own = bucketlake.open(tmp_path)
    own.create_database("db")
    given = rows().drop_columns(["z"])
    table = own.create_table("db.t", given.schema, options=OPTIONS)
    table.write_arrow(given)
    table.update({"t": "changed", "d": -1, "x": None}, "k IN (7, 1007, 29007)")
    reader = request.getfixturevalue(peer).use(tmp_path)
    found = reader.read("db", "t").sort_by("k").to_pylist()
    assert found == table.refresh().to_arrow().sort_by("k").to_pylist()
    assert [row["k"] for row in found if row["t"] == "changed"] == [7, 1007, 29007]
