"""Expire a backlog of snapshots: `python -m benchmarks.expiry [snapshots] [files] [--commits]`.

Each snapshot replaces the files of the one before. Prints seconds and what memory grew by for one call of
`expire_snapshots` that leaves a single snapshot; with `--commits` the latency of commits upon the backlog, with expiry
left out, synchronous (bounded by `snapshot.expire.limit`) and asynchronous.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.sim.tables import NO_PARTITION, create_table, data_file, table_schema

from bucketlake.env.env import SystemClock
from bucketlake.env.local import LocalStorage
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.ops.clean.expire import ExpireConfig, Limits, after_commit, expire_snapshots
from bucketlake.ops.commit.commit import Commit
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.store import Store, clear_cache


def build(root: str, snapshots: int, files: int) -> Store:
    """A table whose snapshots each replace all files; nothing is synced to the disk meanwhile."""
    synced, os.fsync = os.fsync, lambda _: None
    options = {"commit.force-create-snapshot": "true", "scan.manifest.parallelism": "4"}
    schema = table_schema(keyed=False, partitioned=False, bucket=-1, options=options)
    store = create_table(LocalStorage(), SystemClock(), schema, root)
    before: tuple[DataFile, ...] = ()
    for _ in range(snapshots):
        before = replaced(store, before, files)
    os.fsync = synced
    return store


def replaced(store: Store, before: tuple[DataFile, ...], files: int) -> tuple[DataFile, ...]:
    """One commit in which new files take the place of those before; the new ones."""
    folder = Path(store.paths.bucket_dir(NO_PARTITION, 0))
    folder.mkdir(parents=True, exist_ok=True)
    stem = uuid.uuid4()
    added = tuple(data_file(f"data-{stem}-{k}.parquet") for k in range(files))
    for file in added:
        (folder / file.file_name).write_bytes(b"rows")
    Commit(store, "bench").commit([CommitMessage(NO_PARTITION, 0, -1, compact_before=before, compact_after=added)])
    return added


def expire(store: Store) -> None:
    """One line: how long the whole backlog takes, and how much memory."""
    expire_snapshots(store, ExpireConfig.of(store, Limits(max_deletes=1)))  # imports
    clear_cache()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    done = expire_snapshots(store, ExpireConfig.of(store, Limits(1, 1, 2**62, 2**31 - 1)))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) / 1024
    print(f"{done.snapshots} snapshots, {done.files} files: {wall:.2f} s, {cpu:.2f} core s, {grown:.0f} MB more")


def commits(store: Store) -> None:
    """Commits upon a backlog: milliseconds with no expiry, a synchronous one, one beside."""
    for name, extra in {
        "none": {"write-only": "true"},
        "sync": {"snapshot.num-retained.max": "10"},
        "async": {"snapshot.num-retained.max": "10", "snapshot.expire.execution-mode": "async"},
    }.items():
        handle, times = store.with_options(extra), []
        for _ in range(9):
            start = time.perf_counter()
            after_commit(handle, Commit(handle, "bench").commit([]))
            times.append(1000 * (time.perf_counter() - start))
        print(f"{name:6} median {statistics.median(times):7.1f} ms, most {max(times):7.1f} ms")


def main() -> None:
    """Build, then expire."""
    numbers = [int(arg) for arg in sys.argv[1:] if arg.isdigit()]
    snapshots, files = (numbers + [1_000, 100][len(numbers) :])[:2]
    with tempfile.TemporaryDirectory() as root:
        store = build(root + "/db.db/t", snapshots, files)
        if "--commits" in sys.argv:
            commits(store)
        else:
            expire(store)


if __name__ == "__main__":
    main()
