"""`python -m benchmarks.merged_read`: a merged read without Spark, beside paimon-rust where its Python is named.

A table of two buckets gets five writes of a million rows each, without compaction; then it is read whole, as Arrow,
several times in one process. `--rust PYTHON`: a Python that has pypaimon_rust (the tests install one in `.peers/rust`);
it reads the same table in a process of its own.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time

import numpy as np
import pyarrow as pa

import bucketlake

WRITES = 5
RUST = """
import sys, time
from pypaimon_rust.datafusion import PaimonCatalog
warehouse, runs = sys.argv[1], int(sys.argv[2])
for _ in range(runs):
    start = time.perf_counter()
    builder = PaimonCatalog({"warehouse": warehouse}).get_table("db.t").new_read_builder(None)
    batches = builder.new_read().read(builder.new_scan().plan().splits())
    seconds = time.perf_counter() - start
    print(seconds, sum(batch.num_rows for batch in batches))
"""


def rows(generator: np.random.Generator, count: int) -> pa.Table:
    """Rows of random keys: a bigint, an int, a double, a decimal, two texts."""
    keys = generator.choice(count * 2, count, replace=False).astype(np.int64)
    texts = pa.array(keys % 1000).cast(pa.string())
    return pa.table(
        {
            "id": keys,
            "n": (keys % 97).astype(np.int32),
            "x": keys * 0.5,
            "d": pa.array(keys % 10_000).cast(pa.decimal128(21, 2)).cast(pa.decimal128(12, 2)),
            "s": texts,
            "c": pa.array(keys).cast(pa.string()),
        }
    )


def load(warehouse: str, count: int) -> None:
    """A table with as many sorted runs in each bucket as there are writes."""
    catalog = bucketlake.open(warehouse)
    catalog.create_database("db")
    generator = np.random.default_rng(7)
    first = rows(generator, count)
    table = catalog.create_table("db.t", first.schema, [], ["id"], {"bucket": "2", "write-only": "true"})
    table.write_arrow(first)
    for _ in range(WRITES - 1):
        table.write_arrow(rows(generator, count))


def ours(warehouse: str, runs: int) -> list[tuple[float, int]]:
    """Seconds and rows of each read."""
    found = []
    for _ in range(runs):
        start = time.perf_counter()
        read = bucketlake.open(warehouse).table("db.t").to_arrow()
        found.append((time.perf_counter() - start, read.num_rows))
    return found


def theirs(python: str, warehouse: str, runs: int) -> list[tuple[float, int]]:
    """The same by paimon-rust."""
    told = subprocess.run([python, "-c", RUST, warehouse, str(runs)], check=True, capture_output=True, text=True)
    lines = [line.split() for line in told.stdout.splitlines()]
    return [(float(seconds), int(count)) for seconds, count in lines]


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of each of the five writes")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rust", metavar="PYTHON", help="a Python that has pypaimon_rust")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bucketlake-bench-") as folder:
        load(folder, arguments.rows)
        found = {"bucketlake": ours(folder, arguments.runs + 1)[1:]}
        if arguments.rust:
            found["paimon-rust"] = theirs(arguments.rust, folder, arguments.runs + 1)[1:]
    for name, reads in found.items():
        seconds = [taken for taken, _ in reads]
        spread = f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"
        print(f"{name:12} {spread}, {reads[0][1]:,} of {WRITES * arguments.rows:,} rows")
    if len({reads[0][1] for reads in found.values()}) > 1:
        raise SystemExit("the readers disagree")


if __name__ == "__main__":
    main()
