"""Sustained upserts by Apache Paimon's sink on Flink, the peer of `benchmarks.streaming upserts`.

    python -m benchmarks.stream_peers [--rows 5000000]

Flink runs in one process with a heap of 4 GB, two tasks, a checkpoint every 5 s, rows from `datagen` as fast as they
come, keys by Zipf of 200M, 8 buckets. Each run goes on in the table of the one before; the first starts cold.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from tests.peers import flink

from benchmarks.streaming import KEYS

_TABLE = """CREATE TABLE t (k BIGINT, `value` BIGINT, text STRING, x DOUBLE, `at` TIMESTAMP(6),
PRIMARY KEY (k) NOT ENFORCED)
WITH ('bucket' = '8', 'snapshot.num-retained.min' = '5', 'snapshot.num-retained.max' = '20')"""
_SOURCE = """CREATE TEMPORARY TABLE src (`value` BIGINT, `at` TIMESTAMP(6)) WITH ('connector' = 'datagen',
'number-of-rows' = '{rows}', 'rows-per-second' = '100000000',
'fields.value.kind' = 'sequence', 'fields.value.start' = '1', 'fields.value.end' = '{rows}')"""
_INSERT = f"""INSERT INTO t SELECT MOD(ABS(CAST(POWER(CAST({KEYS} AS DOUBLE), x) AS BIGINT) * 2654435761), {KEYS}),
`value`, CONCAT('value-', CAST(`value` AS STRING)), x, `at` FROM (SELECT `value`, RAND() AS x, `at` FROM src)"""


def main() -> None:
    """Run the insert three times; print seconds and rows a second of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    rows = parser.parse_args().rows
    flink.JVM = f"-Xmx4g -Duser.timezone=UTC -Xbootclasspath/a:{flink.NO_DEFAULTS}"  # as it runs in earnest
    folder = Path(tempfile.mkdtemp(prefix="bucketlake-flink-"))
    try:
        with flink.FlinkPaimon(folder / "warehouse", parallelism=2) as engine:
            checkpoints = {"storage": "filesystem", "dir": (folder / "checkpoints").as_uri(), "interval": "5 s"}
            engine.configure({f"execution.checkpointing.{key}": value for key, value in checkpoints.items()})
            engine.run([_TABLE, _SOURCE.format(rows=rows)], streaming=True)
            for run in range(3):
                start = time.perf_counter()
                engine.sql(_INSERT, streaming=True, timeout=3600)
                seconds = time.perf_counter() - start
                print(f"run {run + 1}: {seconds:.1f} s, {rows / seconds:,.0f} rows/s", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
