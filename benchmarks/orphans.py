"""Look for orphans among many files: `python -m benchmarks.orphans [files] [manifests]`.

Metadata lies on disk, data files exist in listings alone: a store that answers at once. One file in a hundred is an
orphan. Prints seconds and peak memory of a dry run in this process.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.planning import build
from bucketlake.env.env import Env
from bucketlake.env.local import LocalStorage
from bucketlake.env.storage import FileInfo
from bucketlake.ops.clean.orphans import remove_orphans
from bucketlake.ops.table.store import Store, clear_cache

NAME = "data-2f1e0c55-7a4b-4a53-9d3e-{:012d}-0.parquet"  # as planning names them
OLD = 1_000_000_000_000


class Listed:
    """A local storage with data files that only listings show."""

    def __init__(self, store: Store, files: int) -> None:
        self.inner, self.store, self.files = LocalStorage(), store, files

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def walk(self, path: str) -> Iterator[FileInfo]:
        """What is there, as if it were old, and the data files."""
        for info in self.inner.walk(path):
            yield replace(info, modified_millis=OLD)
        for n in range(self.files):
            folder = f"{self.store.paths.root}/pt={n * 100 // self.files}/bucket-0"
            yield FileInfo(f"{folder}/{NAME.format(n)}", 1, OLD)
            if n % 100 == 0:
                yield FileInfo(f"{folder}/data-lost-{n}.parquet", 1, OLD)


def main() -> None:
    """Build, then look."""
    numbers = [int(arg) for arg in sys.argv[1:] if arg.isdigit()]
    files, manifests = (numbers + [1_000_000, 1_000][len(numbers) :])[:2]
    with tempfile.TemporaryDirectory() as root:
        synced, os.fsync = os.fsync, lambda _: None
        built = build(root + "/db.db/t", files, manifests, False)
        os.fsync = synced
        listing = Listed(built, files)
        wall = time.perf_counter()
        listed = sum(1 for _ in listing.walk(built.paths.root))
        wall = time.perf_counter() - wall
        store = Store(Env(listing, built.env.clock), built.paths, built.schema, built.options)  # type: ignore[arg-type]
        clear_cache()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start, cpu = time.perf_counter(), time.process_time()
        found = remove_orphans(store, OLD + 1, dry_run=True)
        start, cpu = time.perf_counter() - start, time.process_time() - cpu
        more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) / 1024
        print(f"{listed} files, listed alone in {wall:.1f} s; {found.count} orphans: {start:.1f} s, {cpu:.1f} core s")
        print(f"{more:.0f} MB more than building")


if __name__ == "__main__":
    main()
