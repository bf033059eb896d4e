"""`python -m benchmarks.key_index`: how a cross-partition write starts in a fresh process, as the table grows.

For each size a table is loaded and written to once, which leaves the key index in its cache; then fresh processes
upsert 1,000 rows each, opened from nothing. The time should not grow with the table.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa

import bucketlake

PARTITIONS = 7
STEPS = 10


def rows(keys: np.ndarray) -> pa.Table:
    """Rows of these keys, each in a partition that follows from the key."""
    return pa.table({"id": keys, "pt": (keys % PARTITIONS).astype(np.int32), "v": keys * 0.5})


def load(warehouse: str, count: int) -> None:
    """A table of so many keys, in ten writes."""
    catalog = bucketlake.open(warehouse)
    catalog.create_database("db")
    table = catalog.create_table(
        "db.t", rows(np.arange(1)).schema, ["pt"], ["id"], {"bucket": "-1", "write-only": "true"}
    )
    for part in np.array_split(np.arange(count, dtype=np.int64), STEPS):
        table.write_arrow(rows(part))


def upsert(warehouse: str, seed: int, count: int) -> float:
    """Seconds of opening the table and upserting 1,000 rows, half of which move to another partition."""
    keys = np.random.default_rng(seed).choice(count, 1000, replace=False).astype(np.int64)
    changed = rows(keys)
    moved = pa.array(np.where(keys % 2 == 0, 0, keys % PARTITIONS).astype(np.int32))
    start = time.perf_counter()
    bucketlake.open(warehouse).table("db.t").write_arrow(changed.set_column(1, "pt", moved))
    return time.perf_counter() - start


def main() -> None:
    """Measure, or be one of the fresh processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1000000,10000000", help="keys of each table")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--child", nargs=3, metavar=("WAREHOUSE", "SEED", "COUNT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        warehouse, seed, count = arguments.child
        print(upsert(warehouse, int(seed), int(count)))
        return
    for size in map(int, arguments.sizes.split(",")):
        with tempfile.TemporaryDirectory(prefix="bucketlake-bench-") as folder:
            start = time.perf_counter()
            load(folder, size)
            print(f"{size:,} keys: loaded in {time.perf_counter() - start:.1f} s", flush=True)
            found = [_fresh(folder, seed, size) for seed in range(arguments.runs + 1)]
            kept = found[1:]
            later = f"{statistics.median(kept):.2f} s ({min(kept):.2f} to {max(kept):.2f})"
            print(f"  1,000 rows in a fresh process: first {found[0]:.2f} s, then {later}", flush=True)


def _fresh(folder: str, seed: int, size: int) -> float:
    command = [sys.executable, "-m", "benchmarks.key_index", "--child", folder, str(seed), str(size)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


if __name__ == "__main__":
    main()
