"""Sort compaction of lineitem on two columns beside Spark's own range sort of the same rows; what queries open then.

python -m benchmarks.sort_compaction [--scale 0.1] [--runs 3]
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import bucketlake
from benchmarks.data import lineitem
from benchmarks.measure import Measurements
from bucketlake.spark.session import new_session

COLUMNS = ["l_shipdate", "l_partkey"]
MARKS = {"order": 1.15, "zorder": 1.3, "hilbert": None}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="sort-compaction-"))
    try:
        measure(lineitem(given.scale), folder, Measurements(given.runs))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(source: str, folder: Path, measurements: Measurements) -> None:
    """All cases; the floor is measured again before every run."""
    spark = new_session(**{"spark.driver.memory": "4g"})
    lake = bucketlake.connect(str(folder / "lake"), spark=spark)
    plain = str(folder / "plain")
    spark.read.parquet(source).write.option("compression", "zstd").parquet(plain)

    def floor() -> None:
        rows = spark.read.parquet(plain).repartitionByRange(*COLUMNS).sortWithinPartitions(*COLUMNS)
        rows.write.mode("overwrite").option("compression", "zstd").parquet(str(folder / "floor"))

    measurements.measure("S: repartitionByRange + sort + write", floor, warm=1)
    measurements.floor("S", "S: repartitionByRange + sort + write", floor)
    lake.write_table(spark.read.parquet(source), "lineitem", mode="append")
    table = lake.table("lineitem").with_options({"target-file-size": "4 mb"})
    for strategy, mark in MARKS.items():
        name = f"{strategy} by {', '.join(COLUMNS)}"
        measurements.measure(
            name,
            lambda strategy=strategy: table.compact(order_by=COLUMNS, order_strategy=strategy),
            floor="S",
            mark=mark,
            warm=1,
        )
        files = len(table.files())
        opened = {where: len(table.files(where)) for where in ("l_shipdate = DATE '1995-06-17'", "l_partkey = 777")}
        measurements.note(name, files=files, **{f"opened for {where}": count for where, count in opened.items()})
    spark.stop()


if __name__ == "__main__":
    main()
