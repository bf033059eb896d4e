"""Global indexes: Apache Paimon on Flink and pypaimon search those that are built here, and their own are searched."""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.peers.flink import FlinkPaimon
from tests.peers.python_peers import PyPaimon
from tests.profile import SLOW, later

import bucketlake
from bucketlake.ops.scan.select import select_snapshot
from bucketlake.table import Table

pytestmark = pytest.mark.peer

OPTIONS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"}
DAY, MOMENT = dt.date(1969, 12, 30), dt.datetime(1969, 12, 31, 23, 59, 58, 750_001)
# By column: its type, the value of row k, the value that is searched, and how Flink writes it.
COLUMNS: dict[str, tuple[pa.DataType, Any, Any, str]] = {
    "tiny": (pa.int8(), lambda k: k % 200 - 100, -7, "CAST(-7 AS TINYINT)"),
    "small": (pa.int16(), lambda k: k % 2000 - 1000, -300, "CAST(-300 AS SMALLINT)"),
    "whole": (pa.int32(), lambda k: 3 * k - 2000, 256, "256"),
    "long": (pa.int64(), lambda k: (k - 500) << 33, -(7 << 33), str(-(7 << 33))),
    "yes": (pa.bool_(), lambda k: k % 3 == 0, True, "TRUE"),
    "single": (pa.float32(), lambda k: (k - 500) / 4, -2.5, "CAST(-2.5 AS FLOAT)"),
    "double": (pa.float64(), lambda k: (500 - k) / 8, -1.25, "CAST(-1.25 AS DOUBLE)"),
    "money": (pa.decimal128(12, 2), lambda k: Decimal(k - 700) / 4, Decimal("-3.25"), "CAST(-3.25 AS DECIMAL(12, 2))"),
    "riches": (
        pa.decimal128(30, 2),
        lambda k: (k - 300) * Decimal("123456789012345678.25"),
        -5 * Decimal("123456789012345678.25"),
        "CAST('-617283945061728391.25' AS DECIMAL(30, 2))",
    ),
    "text": (pa.string(), lambda k: "ä" * (k % 7) + str(k % 500), "ä77", "'ä77'"),
    "day": (pa.date32(), lambda k: DAY + dt.timedelta(k % 900), dt.date(1970, 1, 1), "DATE '1970-01-01'"),
    "second": (
        pa.timestamp("ms"),
        lambda k: dt.datetime(1969, 12, 31) + dt.timedelta(minutes=3 * k),
        dt.datetime(1969, 12, 31, 21, 3),
        "TIMESTAMP '1969-12-31 21:03:00.000'",
    ),
    "moment": (
        pa.timestamp("us"),
        lambda k: MOMENT + dt.timedelta(microseconds=1001 * k),
        MOMENT + dt.timedelta(microseconds=77_077),
        "TIMESTAMP '1969-12-31 23:59:58.827078'",
    ),
}
SCHEMA = pa.schema([("k", pa.int32()), *((name, kind) for name, (kind, *_) in COLUMNS.items())])


def some(first: int, end: int) -> pa.Table:
    """Rows of which each seventh is null in all columns but k."""
    rows = {"k": list(range(first, end))}
    for name, (_, value, *_) in COLUMNS.items():
        rows[name] = [None if k % 7 == 5 else value(k) for k in range(first, end)]
    return pa.table(rows, SCHEMA)


def made(path: Path, **options: str) -> Table:
    lake = bucketlake.open(path)
    lake.create_database("default", ignore_if_exists=True)
    lake.create_table("default.t", SCHEMA, options={**OPTIONS, **options})
    table = lake.table("default.t")
    for first in range(0, 1000, 250):
        table.write_arrow(some(first, first + 250))
    return table


def equal(column: str) -> list[int]:
    return holding(column, lambda value, wanted: value == wanted)


def holding(column: str, op: Callable[[Any, Any], Any]) -> list[int]:
    """The rows whose value compares so with the one that is searched."""
    _, value, wanted, _ = COLUMNS[column]
    return [k for k in range(1000) if k % 7 != 5 and op(value(k), wanted)]


def files(table: Table, where: str) -> int:
    return len(table.planned(table.predicate(where), select_snapshot(table.store)).entries)


def condition(column: str, op: str = "=") -> str:
    """As this package's conditions are written."""
    value = COLUMNS[column][3].removeprefix("CAST(").split(" AS ")[0]
    return f"{column} {op} {value.strip(chr(39)) if column == 'riches' else value}"


SMALL = {"btree-index.block-size": "200 b", "bitmap-index.dictionary-block-size": "200 b"}
FEW = ("text", "riches", "small")
SIDES: dict[str, Callable[[Any, Any], Any]] = {"<": operator.lt, ">=": operator.ge, "<>": operator.ne}


@pytest.mark.parametrize(
    ("kind", "codec"),
    later([("btree", "zstd"), ("bitmap", "lz4"), ("bitmap", "none")], 1),
)
def test_flink_searches_ours(flink: FlinkPaimon, tmp_path: Path, kind: str, codec: str) -> None:
    flink.use(tmp_path)
    table = made(tmp_path)
    columns = {name: COLUMNS[name] for name in COLUMNS if codec != "lz4" or name in FEW}
    for column in columns:
        assert table.create_global_index(column, kind, **SMALL, **{f"{kind}-index.compression": codec}) == 1
    table.write_arrow(some(0, 1000))  # that no index covers
    for column, (_, _, _, text) in columns.items():
        for mode, times in (("fast", 1), ("full", 2)) if SLOW or column in FEW else (("fast", 1),):
            hint = f"/*+ OPTIONS('scalar-index.search-mode' = '{mode}') */"
            found = flink.sql(f"SELECT k FROM t {hint} WHERE `{column}` = {text} ORDER BY k").rows
            asked = times if column != "yes" else 2  # Flink hands no condition on BOOLEAN on
            assert [k for (k,) in found] == sorted(equal(column) * asked), (column, mode)
            nulls = flink.sql(f"SELECT k FROM t {hint} WHERE `{column}` IS NULL").rows
            assert len(nulls) == times * len(range(5, 1000, 7)), (column, mode)
        for op, holds in SIDES.items() if column in ("text", "riches", "small", "moment", "single") else ():
            hint = "/*+ OPTIONS('scalar-index.search-mode' = 'fast') */"
            found = flink.sql(f"SELECT k FROM t {hint} WHERE `{column}` {op} {text} ORDER BY k").rows
            assert [k for (k,) in found] == holding(column, holds), (column, op)


@pytest.mark.parametrize("kind", ["btree", "bitmap"])
def test_pypaimon_searches_ours(pypaimon: PyPaimon, tmp_path: Path, kind: str) -> None:
    pypaimon.use(tmp_path)
    table = made(tmp_path)
    for column in ("text", "whole", "riches"):
        table.create_global_index(column, kind, sorted_index_records_per_range=400)
    table.write_arrow(some(0, 1000))
    fast = {"scalar-index.search-mode": "fast"}
    for column in ("text", "whole", "riches"):
        for method, holds in (("equal", operator.eq), ("less_than", operator.lt), ("not_equal", operator.ne)):
            found = pypaimon.read("default", "t", where=(column, method, COLUMNS[column][2]), options=fast)
            assert sorted(found.column("k").to_pylist()) == holding(column, holds), (column, method)


@pytest.mark.parametrize("kind", ["btree", "bitmap"])
def test_ours_searches_pypaimons(pypaimon: PyPaimon, tmp_path: Path, kind: str) -> None:
    """Its bitmap indexes have the keys in the order of their bytes."""
    pypaimon.use(tmp_path)
    table = made(tmp_path)
    for column in ("text", "whole", "riches", "tiny"):
        sizes = {"bitmap-index.dictionary-block-size": "200 b"} if kind == "bitmap" else {}
        assert pypaimon.create_global_index("default", "t", column, kind, **sizes) > 0
    table = table.refresh()
    table.write_arrow(some(0, 1000))
    for column in ("text", "whole", "riches", "tiny"):
        assert files(table, condition(column)) < 8
        for op, holds in {"=": operator.eq, **SIDES}.items():
            found = table.to_arrow(condition(column, op), columns=["k"]).column(0).to_pylist()
            assert sorted(found) == sorted(2 * holding(column, holds)), (column, op)
        assert table.to_arrow(f"{column} IS NULL").num_rows == 2 * len(range(5, 1000, 7))


@pytest.mark.parametrize(
    ("records", "kind", "codec"),
    later([("100", "bitmap", "none"), ("10000000", "btree", "zstd"), ("100", "btree", "lz4")], 1),
)
def test_ours_searches_flinks(flink: FlinkPaimon, tmp_path: Path, records: str, kind: str, codec: str) -> None:
    flink.use(tmp_path)
    table = made(tmp_path)
    for column in COLUMNS:
        flink.sql(
            f"CALL sys.create_global_index(`table` => 'default.t', index_column => '{column}', index_type => '{kind}', "
            f"options => 'sorted-index.records-per-range={records};btree-index.block-size=200 b;"
            f"bitmap-index.dictionary-block-size=200 b;{kind}-index.compression={codec}')"
        )
    counted = "SELECT count(DISTINCT index_field_name) FROM `t$table_indexes`"
    assert any(flink.sql(counted).scalar() == len(COLUMNS) for _ in range(100)), "its jobs go on behind the calls"
    table = table.refresh()
    for column in COLUMNS:
        found = table.to_arrow(condition(column), columns=["k"]).column(0).to_pylist()
        assert sorted(found) == equal(column), column
        for op, holds in SIDES.items():
            found = table.to_arrow(condition(column, op), columns=["k"]).column(0).to_pylist()
            assert sorted(found) == holding(column, holds), (column, op)
        assert table.to_arrow(f"{column} IS NULL").num_rows == len(range(5, 1000, 7))
    assert files(table, "text > 'ä77' AND text < 'ä78'") < 4
    assert files(table, "text = 'ä77'") == len({k // 250 for k in equal("text")}) < 4
    assert files(table, "text = 'no such text'") == 0
    assert table.create_global_index("text", kind) == 0
    table.write_arrow(some(0, 1000))
    assert sorted(table.to_arrow("text = 'ä77'", columns=["k"]).column(0).to_pylist()) == sorted(equal("text") * 2)
    assert table.create_global_index("text", kind) == 1
    flink.sql(f"CALL sys.drop_global_index(`table` => 'default.t', index_column => 'text', index_type => '{kind}')")
    assert table.refresh().drop_global_index("text", kind, dry_run=True) == 0
    assert table.refresh().drop_global_index("whole", kind) > 0
    assert np.unique(table.refresh().to_arrow("`whole` = 256", columns=["k"]).column(0)).tolist() == equal("whole")
