"""What merging sorted runs costs on one core, and how much memory, without Spark.

    python -m benchmarks.merge [--rows 1000000] [--runs 5] [--repeat 5] [--keys bigint,composite,…] [--json]

Per kind of key: core seconds of the merge alone (runs in memory; median), of read + merge + write of parquet files,
and of reading and writing the same rows with pyarrow, in turns in one process, and their ratio. Then the peak of
Arrow's memory over a bucket of one block budget and of ten. With --engines: the merge alone for each merge engine, on
the same rows, without nulls and with half of the values null.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bucketlake.lsm.aggregates.functions import AggregateOptions, aggregate
from bucketlake.lsm.engines.aggregation import Aggregation
from bucketlake.lsm.engines.engines import Deduplicate, FirstRow, MergeEngine
from bucketlake.lsm.engines.partial_update import PartialUpdate, SequenceGroup
from bucketlake.lsm.keys import KeyOrder
from bucketlake.lsm.live_rows import live_rows
from bucketlake.lsm.merge import BlockSize, merge_runs
from bucketlake.schema.schema import KIND_FIELD, SEQUENCE_FIELD
from bucketlake.types.model import BIGINT, INT, STRING, DataField, DataType, Root

BATCH = 1 << 16
ROW_GROUP = 1 << 19  # what a writer gathers before it writes


def _strings(numbers: np.ndarray, template: str) -> pa.Array:
    digits = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 10, "0")
    return pc.binary_join_element_wise(template, digits, "")


def _hashed(numbers: np.ndarray) -> np.ndarray:
    return (numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)


def _uuid(numbers: np.ndarray) -> pa.Array:
    hexed = np.frombuffer(_hashed(numbers).astype(">i8").tobytes().hex().encode(), np.uint8)
    content = np.concatenate([hexed.reshape(-1, 16)] * 2, axis=1)
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * 32
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(content.tobytes()))


KEYS: dict[str, list[tuple[DataType, Callable[[np.ndarray], pa.Array]]]] = {
    "bigint": [(BIGINT, lambda n: pa.array(n))],
    "composite": [(BIGINT, lambda n: pa.array(n // 4)), (INT, lambda n: pa.array((n % 4).astype(np.int32)))],
    "hashed": [(BIGINT, lambda n: pa.array(_hashed(n // 4))), (BIGINT, lambda n: pa.array(_hashed(n % 4)))],
    "string": [(STRING, lambda n: _strings(n, "user-"))],
    "uuid": [(STRING, _uuid)],
    "string+bigint": [(STRING, lambda n: _strings(n // 1000, "shop")), (BIGINT, lambda n: pa.array(n % 1000))],
    "double": [(DataType(Root.DOUBLE), lambda n: pa.array(n / 8.0))],
}


def table_of(key: str, rows: int, run: int, space: int) -> tuple[KeyOrder, pa.Table]:
    """One sorted run: distinct keys drawn from `space` numbers, 8 value columns, sequence numbers above older runs'."""
    rng = np.random.default_rng(run)
    numbers = np.sort(rng.choice(space, rows, replace=False)).astype(np.int64)
    fields = [DataField(i, f"_KEY_k{i}", kind.with_nullable(False)) for i, (kind, _) in enumerate(KEYS[key])]
    columns = {field.name: make(numbers) for field, (_, make) in zip(fields, KEYS[key], strict=True)}
    columns[SEQUENCE_FIELD.name] = pa.array(run * rows + rng.permutation(rows))
    columns[KIND_FIELD.name] = pa.array(np.zeros(rows, np.int8))
    columns.update({field.name[5:]: columns[field.name] for field in fields})
    columns["price"] = pa.array(rng.random(rows))
    columns["flag"] = pa.array(["A", "N", "R"]).take(pa.array(rng.integers(0, 3, rows)))
    columns["mode"] = pa.array(["TRUCK", "RAIL", "REG AIR", "SHIP"]).take(pa.array(rng.integers(0, 4, rows)))
    columns["quantity"] = pa.array(rng.integers(1, 50, rows))
    order = KeyOrder(fields)
    table = pa.table(columns)
    rows_sorted = table.combine_chunks().to_batches()[0]
    positions, _ = order.sort(rows_sorted)
    return order, table if positions is None else table.take(pa.array(positions)).combine_chunks()


def median(work: Callable[[], object], repeat: int) -> float:
    times = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times)


def measure_merge(tables: list[pa.Table], order: KeyOrder, repeat: int) -> dict[str, float]:
    keys = [table.select([*order.columns, KIND_FIELD.name]) for table in tables]

    def merged(ordered: bool) -> int:
        runs = [table.to_batches(BATCH) for table in tables]
        return sum(b.num_rows for b in merge_runs(runs, order, Deduplicate(), drop_deletes=True, ordered=ordered))

    return {
        "merge_s": median(lambda: merged(True), repeat),
        "unordered_s": median(lambda: merged(False), repeat),
        "live_rows_s": median(lambda: live_rows([table.to_batches(BATCH) for table in keys], order), repeat),
        "rows_out": merged(True),
    }


VALUES = {"price": DataType(Root.DOUBLE), "quantity": BIGINT, "flag": STRING, "mode": STRING}


def engines() -> dict[str, MergeEngine]:
    """One of each kind, over the four value columns."""

    def aggregation(functions: dict[str, str]) -> MergeEngine:
        fields = [DataField(9, name, VALUES[name]) for name in functions]
        return Aggregation({f.name: aggregate(functions[f.name], f, AggregateOptions()) for f in fields})

    last = {"flag": "last_non_null_value", "mode": "last_non_null_value"}
    return {
        "deduplicate": Deduplicate(),
        "first-row": FirstRow(),
        "aggregation, sums": aggregation({"price": "sum", "quantity": "sum", **last}),
        "aggregation, max": aggregation({"price": "max", "quantity": "max", **last}),
        "partial-update": PartialUpdate(tuple(VALUES)),
        "sequence group": PartialUpdate(("price",), (SequenceGroup(("quantity",), ("flag", "mode")),)),
    }


def half_null(table: pa.Table) -> pa.Table:
    """The table with about half of the values of its value columns taken out."""
    rng = np.random.default_rng(7)
    for name in VALUES:
        column = table.column(name).combine_chunks()
        place = table.schema.get_field_index(name)
        gone = pa.array(rng.random(len(column)) < 0.5)
        table = table.set_column(place, name, pc.if_else(gone, pa.scalar(None, column.type), column))
    return table.combine_chunks()


def measure_engines(tables: list[pa.Table], order: KeyOrder, repeat: int) -> Iterator[dict[str, object]]:
    """Core seconds of the merge for each engine, and the ratio to deduplicate."""
    for values, rows in (("all there", tables), ("half null", [half_null(table) for table in tables])):
        first = 0.0
        for name, engine in engines().items():

            def merged(rows: list[pa.Table] = rows, engine: MergeEngine = engine) -> int:
                runs = [table.to_batches(BATCH) for table in rows]
                return sum(b.num_rows for b in merge_runs(runs, order, engine, drop_deletes=True))

            merged()
            seconds = median(merged, repeat)
            first = first or seconds
            yield {"engine": name, "values": values, "merge_s": seconds, "ratio": seconds / first}


def measure_files(tables: list[pa.Table], order: KeyOrder, repeat: int, folder: Path) -> dict[str, float]:
    paths = [folder / f"run-{i}.parquet" for i in range(len(tables))]
    for path, table in zip(paths, tables, strict=True):
        pq.write_table(table, path, compression="zstd")
    runs = [table.to_batches(BATCH) for table in tables]
    result = pa.Table.from_batches(merge_runs(runs, order, Deduplicate()))

    def read(path: Path) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(BATCH, use_threads=False)

    def write(batches: Iterator[pa.RecordBatch], path: Path) -> None:
        with pq.ParquetWriter(path, result.schema, compression="zstd") as writer:
            held: list[pa.RecordBatch] = []
            for batch in batches:
                held.append(batch)
                if sum(batch.num_rows for batch in held) >= ROW_GROUP:
                    writer.write_table(pa.Table.from_batches(held))
                    held = []
            if held:
                writer.write_table(pa.Table.from_batches(held))

    def floor() -> None:
        for path in paths:
            for _ in read(path):
                pass
        write(iter(result.to_batches()), folder / "floor.parquet")

    def ours() -> None:
        write(merge_runs([read(path) for path in paths], order, Deduplicate()), folder / "ours.parquet")

    pairs = [(median(floor, 1), median(ours, 1)) for _ in range(repeat)]
    return {
        "floor_s": statistics.median(a for a, _ in pairs),
        "read_merge_write_s": statistics.median(b for _, b in pairs),
        "ratio": statistics.median(b / a for a, b in pairs),
    }


def measure_memory(key: str, factor: int, runs: int) -> dict[str, int]:
    """Peak bytes that Arrow held over what was there before, for runs of `factor` blocks made batch by batch."""
    block = BlockSize(rows=1 << 15)
    total = factor * block.rows
    pool = pa.default_memory_pool()
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{run}.arrow" for run in range(runs)]
        for run, path in enumerate(paths):
            order, table = table_of(key, total, run, 3 * total)
            with pa.ipc.new_file(path, table.schema) as writer:
                for batch in table.to_batches(8192):
                    writer.write_batch(batch)
        del table

        def read(path: Path) -> Iterator[pa.RecordBatch]:
            with pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as reader:
                for number in range(reader.num_record_batches):
                    yield reader.get_batch(number)

        before, peak = pool.bytes_allocated(), 0
        for _ in merge_runs([read(path) for path in paths], order, Deduplicate(), block=block):
            peak = max(peak, pool.bytes_allocated() - before)
    return {"rows": total * runs, "peak_bytes": peak}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows a run")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--keys", default=",".join(KEYS))
    parser.add_argument("--engines", action="store_true", help="compare the merge engines on bigint keys instead")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    args = parser.parse_args()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    if args.engines:
        made = [table_of("bigint", args.rows, run, 3 * args.rows) for run in range(args.runs)]
        for found in measure_engines([table for _, table in made], made[0][0], args.repeat):
            show(found, args.json)
        return
    for key in args.keys.split(","):
        made = [table_of(key, args.rows, run, 3 * args.rows) for run in range(args.runs)]
        order, tables = made[0][0], [table for _, table in made]
        found = {"key": key, **measure_merge(tables, order, args.repeat)}
        with tempfile.TemporaryDirectory() as folder:
            found.update(measure_files(tables, order, args.repeat, Path(folder)))
        found["peak_1_block"] = measure_memory(key, 1, args.runs)["peak_bytes"]
        found["peak_10_blocks"] = measure_memory(key, 10, args.runs)["peak_bytes"]
        show(found, args.json)


def show(found: dict[str, object], as_json: bool) -> None:
    """One line of figures."""
    if as_json:
        print(json.dumps(found))
        return
    shown = ((name, f"{value:.3f}" if isinstance(value, float) else value) for name, value in found.items())
    print("  ".join(f"{name} {value}" for name, value in shown))


if __name__ == "__main__":
    main()
