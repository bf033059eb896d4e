"""What a writer holds: the process gets its own memory pool back, however writers in threads overlap, and the memory of
a task is bounded by its buffer, whatever it writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.profile import first

from bucketlake.ops.buckets.hash_spill import HashSpill
from bucketlake.ops.table.memory import joined, large_buffers


def test_the_last_of_overlapping_writers_gives_the_pool_back() -> None:
    usual = pa.default_memory_pool().backend_name
    first, second = large_buffers(), large_buffers()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert pa.default_memory_pool().backend_name == "system"
    second.__exit__(None, None, None)
    assert pa.default_memory_pool().backend_name == usual


def test_a_failure_gives_it_back() -> None:
    usual = pa.default_memory_pool().backend_name
    with pytest.raises(ValueError, match="no"), large_buffers():
        raise ValueError("no")
    assert pa.default_memory_pool().backend_name == usual


def test_hashes_come_back_whole_and_once_each_however_often_they_were_put_aside() -> None:
    random = np.random.default_rng(7)
    for limit in (1, 400, 1 << 20):
        spill, expected = HashSpill(limit), {}
        for _ in range(30):
            group = int(random.integers(3))
            hashes = random.integers(-50, 50, int(random.integers(1, 40)), dtype=np.int32)
            spill.add(group, hashes)
            expected.setdefault(group, set()).update(hashes.tolist())
        for group, known in expected.items():
            assert spill.of(group).tolist() == sorted(known)
        assert spill.of("nothing").tolist() == []
        spill.clear()
        assert spill.of(0).tolist() == []


def test_joining_empties_the_list_and_keeps_the_rows() -> None:
    parts = [pa.record_batch({"a": [n, n + 1], "b": [str(n), None], "c": [[n], []]}) for n in range(4)]
    whole = pa.Table.from_batches(parts).to_pylist()
    assert joined(parts).to_pylist() == whole
    assert parts == []


BOUNDED = """
import sys, threading
from dataclasses import replace
import numpy as np, pyarrow as pa
import bucketlake
from bucketlake.ops.rows.assign import EMPTY_PARTITION
from bucketlake.ops.write.prepare import prepare_write
from bucketlake.ops.write.write import write_batches

folder, buffer, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
catalog = bucketlake.open(folder)
catalog.create_database("db")
schema = pa.schema([("k", pa.int64()), *((f"v{n}", pa.int64()) for n in range(10)), ("s", pa.string())])
keys = [] if kind == "append" else ["k"]
options = {"write-buffer-size": f"{buffer} mb", "bucket": "-1" if kind == "first" else "12", "bucket-key": "k"}
if kind == "first":
    del options["bucket-key"]
store = catalog.create_table("db.t", schema, primary_keys=keys, options=options).store
task = prepare_write(store, None)
if kind == "first":
    task = replace(task, first_load={EMPTY_PARTITION: 40})

def rows(number, count=20_000):
    random = np.random.default_rng(number)
    columns = [pa.array(random.permutation(count) + number * count)]
    columns += [pa.array(random.integers(0, 1 << 40, count)) for _ in range(10)]
    return pa.record_batch([*columns, pa.array([f"text {n}" for n in range(count)])], schema=schema)

def anonymous():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon")) // 1024

def watch():
    while not stop.wait(0.01):
        peaks.append(anonymous())

write_batches(store, [rows(0)], task)  # what a first write imports is no part of it
stop, peaks, base = threading.Event(), [0], anonymous()
watcher = threading.Thread(target=watch)
watcher.start()
messages = write_batches(store, (rows(n) for n in range(90)), task)
stop.set()
watcher.join()
print(sum(f.row_count for m in messages for f in m.new_files), max(peaks) - base)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux what memory is in use")
@pytest.mark.parametrize("kind", first(["first", "append", "fixed"], 2))
def test_a_task_stays_within_three_buffers(kind: str, tmp_path: Path) -> None:
    buffer = 24  # MB; the rows take 190
    done = subprocess.run(
        [sys.executable, "-c", BOUNDED, str(tmp_path), str(buffer), kind], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows, grown = map(int, done.stdout.split())
    assert rows == 90 * 20_000
    assert grown < 3 * buffer + 150, f"{grown} MB more than before the write"


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))  # as PySpark does in its workers
import numpy as np, pyarrow as pa
import bucketlake
from bucketlake.ops.write.prepare import prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.spark.cluster import roomy

catalog = bucketlake.open(sys.argv[1])
catalog.create_database("db")
schema = pa.schema([pa.field("id", pa.int64(), False), ("s", pa.string())])
store = catalog.create_table("db.t", schema, primary_keys=["id"], options={"bucket": "2"}).store
texts = pa.array([f"{n:08} " * 14 for n in range(10_000)])
rows = (pa.record_batch([np.arange(n, n + 10_000), texts], schema=schema) for n in range(0, 4_000_000, 10_000))
print(sum(f.row_count for m in write_batches(roomy(store), rows, prepare_write(store, None)) for f in m.new_files))
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems do not limit what a process may map")
def test_a_worker_whose_memory_is_limited_puts_rows_aside(tmp_path: Path) -> None:
    """`spark.executor.pyspark.memory`: a buffer of the usual size would not fit."""
    done = subprocess.run([sys.executable, "-c", LIMITED, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-1000:]
    assert done.stdout.split() == ["4000000"]
