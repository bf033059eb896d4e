"""Plan a synthetic table of many files: `python benchmarks/planning.py [files] [manifests] [--keyed]`.

Prints seconds and peak memory for a cold plan (manifests decoded), a warm one (cached) and pruned ones.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.sim.tables import create_table, table_schema

from bucketlake.env.env import SystemClock
from bucketlake.env.local import LocalStorage
from bucketlake.format.metadata.manifest import DataFile, FileKind, ManifestEntry, SimpleStats
from bucketlake.format.metadata.snapshot import encode_snapshot
from bucketlake.format.row.binary_row import encode_row, with_arity_header
from bucketlake.ops.commit.commit import Commit
from bucketlake.ops.commit.manifests import encoded_list, write_files, write_manifests
from bucketlake.ops.scan.scan import Scan, plan
from bucketlake.ops.table.store import Store, clear_cache
from bucketlake.predicate.parse import parse_where
from bucketlake.types.model import BIGINT, INT, STRING


def build(root: str, files: int, manifests: int, keyed: bool) -> Store:
    """A table of 100 partitions whose files lie in key order; every manifest holds files of a few partitions."""
    schema = table_schema(keyed=keyed, bucket=10 if keyed else -1, options={"scan.manifest.parallelism": "4"})
    store = create_table(LocalStorage(), SystemClock(), schema, root)
    each = files // manifests
    written = []
    for m in range(manifests):
        entries = [entry(n, files, keyed) for n in range(m * each, (m + 1) * each)]
        written += write_manifests(store, entries)
    snapshot = Commit(store, "bench").truncate()
    base, data = encoded_list(store, written)
    write_files(store, [(base.name, data)])
    total = files * 1000
    full = replace(snapshot, base_manifest_list=base.name, base_manifest_list_size=base.size, total_record_count=total)
    store.env.storage.write(store.paths.snapshot(1), encode_snapshot(full))
    return store


def entry(n: int, files: int, keyed: bool) -> ManifestEntry:
    """File n of the table: partition, bucket and keys ascend with n."""
    part = n * 100 // files
    low, high = (with_arity_header(encode_row((v,), [BIGINT]), 1) for v in (n * 1000, n * 1000 + 999))
    values = [
        with_arity_header(encode_row((part, v, f"text-{v:012d}"), [INT, BIGINT, STRING]), 3)
        for v in (n * 1000, n * 1000 + 999)
    ]
    file = DataFile(
        file_name=f"data-2f1e0c55-7a4b-4a53-9d3e-{n:012d}-0.parquet",
        file_size=20_000_000,
        row_count=1000,
        min_key=low if keyed else with_arity_header(encode_row((), []), 0),
        max_key=high if keyed else with_arity_header(encode_row((), []), 0),
        key_stats=SimpleStats(low, high, (0,)),
        value_stats=SimpleStats(values[0], values[1], (0, 0, 0)),
        min_sequence_number=n * 1000,
        max_sequence_number=n * 1000 + 999,
        schema_id=0,
        level=5 if n % 2 else 0,
        creation_time=1_700_000_000_000,
    )
    place = (with_arity_header(encode_row((part,), [INT]), 1), n % 10 if keyed else 0, 10 if keyed else -1)
    return ManifestEntry(FileKind.ADD, *place, file)


def measure(name: str, store: Store, where: str | None) -> None:
    """One line: seconds of wall clock, seconds of all cores, what the plan holds."""
    scan = Scan(None if where is None else parse_where(where, store.schema.fields))
    wall, cpu = time.perf_counter(), time.process_time()
    found = plan(store, scan)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    what = f"{len(found.entries):7} files {len(found.splits):6} splits"
    print(f"{name:34} {wall:6.2f} s {cpu:6.2f} cpu {what} {peak:6.0f} MB")


def main() -> None:
    """Build, then plan."""
    numbers = [int(arg) for arg in sys.argv[1:] if arg.isdigit()]
    files, manifests = (numbers + [100_000, 1_000][len(numbers) :])[:2]
    with tempfile.TemporaryDirectory() as root:
        store = build(root + "/db.db/t", files, manifests, "--keyed" in sys.argv)
        plan(store, Scan(parse_where("pt = 1", store.schema.fields)))  # imports
        clear_cache()
        measure("one partition, cold", store, "pt = 42")
        clear_cache()
        measure("whole table, cold", store, None)
        measure("whole table, warm", store, None)
        measure("one key of any partition, warm", store, f"k = {files * 500}")
        measure("text range, warm", store, "v >= 'text-000050000000' AND v < 'text-000050100000'")


if __name__ == "__main__":
    main()
