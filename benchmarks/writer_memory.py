"""Anonymous memory and core seconds of one writer task: `python -m benchmarks.writer_memory --buffer 256 --rows 8`.

Rows of lineitem, as often as it takes, go through `write_batches` as Spark gives them to a task: 10,000 at a time.
Kinds: `first` (the first load of a dynamic table), `dynamic` (its assigner), `fixed`, `append`. Linux only: asks /proc.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

import bucketlake
from benchmarks.data import lineitem
from bucketlake.ops.rows.assign import EMPTY_PARTITION
from bucketlake.ops.write.prepare import prepare_write
from bucketlake.ops.write.write import write_batches

KEYS = ["l_orderkey", "l_linenumber"]


def anonymous() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) >> 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--buffer", type=int, default=256, help="write-buffer-size in MB")
    parser.add_argument("--rows", type=float, default=8, help="millions")
    parser.add_argument("--buckets", type=int, default=60)
    parser.add_argument("--kind", choices=["first", "dynamic", "fixed", "append"], default="first")
    given = parser.parse_args()
    source, total = lineitem(1), int(given.rows * 1e6)
    kept = pq.read_schema(source)
    schema = pa.schema([pa.field(f.name, pa.string() if "string" in str(f.type) else f.type) for f in kept])
    options = {"write-buffer-size": f"{given.buffer} mb", "bucket": str(given.buckets)}
    if given.kind in ("first", "dynamic"):
        options |= {"bucket": "-1", "dynamic-bucket.target-row-num": str(total // given.buckets + 1)}
    if given.kind == "append":
        options["bucket-key"] = KEYS[0]

    def rows() -> Iterator[pa.RecordBatch]:
        count = 0
        while count < total:
            for batch in pq.ParquetFile(source).iter_batches(10_000):
                yield batch
                count += batch.num_rows
                if count >= total:
                    return

    stop, peaks = threading.Event(), [0]

    def watch() -> None:
        while not stop.wait(0.02):
            peaks.append(anonymous())

    with tempfile.TemporaryDirectory() as folder:
        catalog = bucketlake.open(folder)
        keys = [] if given.kind == "append" else KEYS
        store = catalog.create_table("default.t", schema, primary_keys=keys, options=options).store
        task = prepare_write(store, None)
        if given.kind == "first":
            task = replace(task, first_load={EMPTY_PARTITION: given.buckets})
        watcher = threading.Thread(target=watch)
        watcher.start()
        cpu, wall = time.process_time(), time.perf_counter()
        messages = write_batches(store, rows(), task)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        stop.set()
        watcher.join()
    files = sum(len(message.new_files) for message in messages)
    print(f"{given}: peak {max(peaks)} MB, {cpu:.1f} core s, {wall:.1f} s, {files} files in {len(messages)} buckets")


if __name__ == "__main__":
    main()
