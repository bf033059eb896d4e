"""Data files against plain pyarrow on the same table: rates and ratios.

python -m benchmarks.datafile [--scale 0.1] [--runs 3]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data import lineitem
from bucketlake.env.env import Env
from bucketlake.env.local import LocalStorage
from bucketlake.format.data.datafile import DataFileWriter, FileFormat, Recorded, format_of, read_recorded
from bucketlake.format.metadata.stats import StatsMode
from bucketlake.format.row.binary_row import encode_row, with_arity_header
from bucketlake.ops.rows.roll import Roller
from bucketlake.ops.table.store import Store
from bucketlake.options.options import TableOptions
from bucketlake.paths import TablePaths
from bucketlake.schema.versions import create_schema
from bucketlake.types.model import DataField, canonical_batch, from_arrow_type

STORAGE = LocalStorage()
BATCH = 65_536


def seconds(action: Callable[[], Any], runs: int) -> float:
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def write(path: Path, fields: list[DataField], batches: list[pa.RecordBatch], mode: str) -> None:
    path.unlink(missing_ok=True)
    modes = [StatsMode.parse(mode)] * len(fields)
    writer = DataFileWriter(STORAGE, str(path), fields, FileFormat(format_of(path.name)), modes)
    for batch in batches:
        writer.write(batch)
    writer.close()


def read(path: Path, fields: list[DataField]) -> int:
    return sum(b.num_rows for _, b in read_recorded(STORAGE, Recorded(str(path), format_of(path.name)), fields))


def plain_write(path: Path, table: pa.Table) -> None:
    with pq.ParquetWriter(path, table.schema, compression="zstd", compression_level=1) as writer:
        for batch in table.to_batches(1 << 18):
            writer.write_table(pa.Table.from_batches([batch]))


def roll(folder: Path, fields: list[DataField], batches: list[pa.RecordBatch], target: str) -> list[int]:
    shutil.rmtree(folder, ignore_errors=True)
    schema = create_schema(fields, (), (), {"bucket": "-1", "target-file-size": target})
    store = Store(Env(), TablePaths(str(folder)), schema, TableOptions(schema.options))
    roller = Roller(store, with_arity_header(encode_row((), []), 0), 0)
    for batch in batches:
        roller.write(batch)
    return [file.file_size for file in roller.close()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--runs", type=int, default=3)
    chosen = parser.parse_args()
    source = pq.read_table(lineitem(chosen.scale))
    fields = [DataField(i, f.name, from_arrow_type(f.type, f.nullable)) for i, f in enumerate(source.schema)]
    batches = [canonical_batch(batch, fields, trusted=True) for batch in source.to_batches(BATCH)]
    table = pa.Table.from_batches(batches)
    pa.set_cpu_count(1)
    folder = Path(tempfile.mkdtemp(prefix="bucketlake-bench-"))
    try:
        floor_path = folder / "plain.parquet"
        floor = {
            "write": seconds(lambda: plain_write(floor_path, table), chosen.runs),
            "read": seconds(lambda: pq.read_table(floor_path, use_threads=False), chosen.runs),
        }
        rows = table.num_rows
        print(f"{rows} rows x {table.num_columns} columns")
        for what, took in floor.items():
            print(f"plain pyarrow parquet {what:<6} {took:7.3f} s {rows / took / 1e6:6.2f} M rows/s")
        cases: list[tuple[str, str, Callable[[], Any]]] = []
        for name in ("parquet", "orc", "avro"):
            path = folder / f"ours.{name}"
            for mode in ("truncate(16)", "none") if name == "parquet" else ("truncate(16)",):
                cases.append((f"{name} {mode}", "write", lambda p=path, m=mode: write(p, fields, batches, m)))
            cases.append((name, "read", lambda p=path: read(p, fields)))
        cases.append(("plain file, our reader", "read", lambda: read(floor_path, fields)))
        for label, what, action in cases:
            took = seconds(action, chosen.runs)
            print(f"{label:<24} {what:<6} {took:7.3f} s {rows / took / 1e6:6.2f} M rows/s {took / floor[what]:6.2f} x")
        for target in ("4 mb", "16 mb", "32 mb"):
            print(f"rolled at {target}: {roll(folder / 'rolled', fields, batches, target)}")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
