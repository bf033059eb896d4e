"""`python -m benchmarks.queries`: TPC-H's 22 queries by `lake.sql`, beside `spark.sql` over the parquet files that the
tables were loaded from.

Each query is run over views of these files, append tables, compacted primary-key tables, and primary-key tables with
three upserts of a tenth each that reads merge; what it gives must be the same. Times are those until the rows are here.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import bucketlake
from benchmarks.data import table
from benchmarks.measure import Measurements
from bucketlake.spark.session import Lake, new_session

KEYS = {
    "customer": "c_custkey",
    "lineitem": "l_orderkey,l_linenumber",
    "nation": "n_nationkey",
    "orders": "o_orderkey",
    "part": "p_partkey",
    "partsupp": "ps_partkey,ps_suppkey",
    "region": "r_regionkey",
    "supplier": "s_suppkey",
}
BUCKETS = {"lineitem": 4, "orders": 2}
KINDS = ("append", "keyed", "merged")
UPSERTS = 3


def queries() -> Mapping[str, str]:
    """The texts of `tpch.sql` by name."""
    text = (Path(__file__).parent / "tpch.sql").read_text()
    found = re.findall(r"^-- (Q\d+)\n(.*?);$", text, re.MULTILINE | re.DOTALL)
    return dict(found)


def load(lake: Lake, kind: str, scale: float) -> None:
    """A database of tables of one kind."""
    lake.sql(f"CREATE DATABASE {kind}")
    for name, keys in KEYS.items():
        rows, target = lake.spark.read.parquet(table(name, scale)), f"{kind}.{name}"
        if kind == "append":
            lake.write_table(rows, target, mode="create")
            continue
        options = {"primary_key": keys, "bucket": BUCKETS.get(name, 1)}
        lake.write_table(rows, target, mode="create", **options, write_only=kind == "merged")
        for part in range(UPSERTS if kind == "merged" else 0):
            lake.write_table(rows.where(f"pmod(hash({keys}), 10) = {part}"), target)


def comparable(rows: list[Any]) -> list[tuple[Any, ...]]:
    """Rows in an order of their own, with numbers as far as the order of an addition leaves them alone."""
    told = [tuple(f"{value:.6g}" if isinstance(value, float | Decimal) else value for value in row) for row in rows]
    return sorted(told, key=str)


def main() -> None:
    """Run the queries."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor; 1 is 6.0M rows of lineitem")
    parser.add_argument("--runs", type=int, default=3, help="runs of a query after a first one; medians count")
    parser.add_argument("--memory", default="6g", help="memory of the Spark driver")
    arguments = parser.parse_args()
    measurements = Measurements(arguments.runs)
    spark = new_session(**{"spark.driver.memory": arguments.memory})
    with tempfile.TemporaryDirectory(prefix="bucketlake-bench-") as folder:
        lake = bucketlake.connect(folder, spark=spark)
        plain = {name: spark.read.parquet(table(name, arguments.scale)) for name in KEYS}
        for kind in KINDS:
            load(lake, kind, arguments.scale)
        for query, text in queries().items():
            for name, frame in plain.items():
                frame.createOrReplaceTempView(name)
            run = lambda text=text: spark.sql(text).collect()  # noqa: E731
            wanted = measurements.measure(f"{query}, plain", run, warm=1)
            for name in KEYS:  # it would hide the tables
                spark.catalog.dropTempView(name)
            for kind in KINDS:
                case = f"{query}, {kind}"
                lake.sql(f"USE {kind}")
                run = lambda text=text: lake.sql(text).collect()  # noqa: E731
                rows = measurements.measure(case, run, floor=f"{query}, plain", warm=1)
                if comparable(rows) != comparable(wanted):
                    raise SystemExit(f"{case}: other rows than of plain files")
        for kind in ("plain", *KINDS):
            total = sum(case.median for name, case in measurements.cases.items() if name.endswith(f", {kind}"))
            print(f"all 22, {kind:<10} {total:7.1f} s", flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
