"""UPDATE of an append table of wide rows, whose new values Spark works out.

python -m benchmarks.wide_updates [--rows 200000] [--columns 60] [--runs 3]

A third of the rows gets new values, in five columns and in all of them.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time

from pyspark.sql import functions as F

import bucketlake
from bucketlake.spark.session import Lake

KINDS = ("bigint", "string", "double", "decimal(12,2)")


def made(lake: Lake, rows: int, columns: int) -> None:
    """The table."""
    kinds = [KINDS[place % len(KINDS)] for place in range(columns)]
    values = [((F.col("id") * (place + 7)) % 1_000_003).cast(kind) for place, kind in enumerate(kinds)]
    frame = lake.spark.range(rows).select("id", *[value.alias(f"c{place}") for place, value in enumerate(values)])
    lake.catalog.create_database("bench")
    lake.write_table(frame, "bench.wide")


def update(columns: int) -> str:
    """The statement that sets so many columns."""
    texts = [f"coalesce(c{i}, c{i})" if KINDS[i % len(KINDS)] == "string" else f"c{i} + 1" for i in range(columns)]
    return "UPDATE bench.wide SET " + ", ".join(f"c{i} = {text}" for i, text in enumerate(texts)) + " WHERE id % 3 = 0"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--columns", type=int, default=60)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lake = bucketlake.connect(f"{folder}/warehouse")
        made(lake, given.rows, given.columns)
        for count in (min(5, given.columns), given.columns):
            statement, found = update(count), []
            for _ in range(given.runs + 1):
                start = time.perf_counter()
                lake.sql(statement)
                found.append(time.perf_counter() - start)
            warm = found[1:]
            told = f"{statistics.median(warm):.2f} ({min(warm):.2f} to {max(warm):.2f}) s"
            print(f"{count} of {given.columns} columns: {told}; the first {found[0]:.2f} s")
        lake.spark.stop()


if __name__ == "__main__":
    main()
