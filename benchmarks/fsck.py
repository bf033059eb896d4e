"""Check the metadata of a synthetic table of many files: `python -m benchmarks.fsck [files] [manifests] [--keyed]`.

Prints seconds of wall clock and of the processor, and peak memory, of `fsck` and `usage` with cold caches.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.planning import build
from bucketlake.ops.check.fsck import FsckRequest, fsck
from bucketlake.ops.check.usage import usage
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.table.store import Store, clear_cache


def fill(store: Store) -> int:
    """Put a file of the recorded size, without blocks of its own, where each data file is to lie; how many."""
    newest = store.latest_snapshot()
    entries = [] if newest is None else live_entries(store, newest)
    for item in entries:
        folder = Path(store.paths.bucket_dir(item.partition, item.bucket))
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / item.file.file_name).open("wb") as file:
            file.truncate(item.file.file_size)
    return len(entries)


def timed(name: str, action: Callable[[], object]) -> None:
    """Run with cold caches, and say how long it took."""
    clear_cache()
    wall, cpu = time.perf_counter(), time.process_time()
    found = action()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{name:8} {wall:6.2f} s, {cpu:6.2f} s of a core, peak {peak} MB: {found}")


def main(arguments: list[str]) -> None:
    """As the module says."""
    numbers = [int(one) for one in arguments if one.isdigit()]
    files, manifests = (*numbers, 100_000, 100)[:2] if len(numbers) != 1 else (numbers[0], 100)
    with tempfile.TemporaryDirectory() as folder:
        store = build(f"{folder}/t", files, manifests, "--keyed" in arguments)
        print(f"{fill(store):,} files in {manifests} manifests")
        timed("fsck", lambda: sorted(fsck(store, FsckRequest()).codes))
        timed("usage", lambda: usage(store).total)


if __name__ == "__main__":
    main(sys.argv[1:])
