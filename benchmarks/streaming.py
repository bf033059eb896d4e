"""Streams at work: sustained upserts against plain parquet, commit latency, reading back, lookups, memory.

    python -m benchmarks.streaming                      all parts, at most five minutes each
    python -m benchmarks.streaming --seconds 1200 --rate 40000 upserts
    python -m benchmarks.streaming commits              500 batches: is the last commit as quick as the first?
    python -m benchmarks.streaming source               a table followed against Spark's own parquet file stream
    python -m benchmarks.streaming latency              from a write to a reader of its changelog
    python -m benchmarks.streaming lookup               lookups of one key and of 100,000

Each part ends with a line of Markdown for RESULTS.md: what was measured, the mark, the median with its spread,
versions. `upserts`: Spark's rate source, Zipf keys of a 200M space, triggers of 5 s, 8 buckets, with compaction, expiry
and tags, in turns with `foreachBatch` that writes parquet. Rows a second are those that were processed, by the time
that batches took: give a --rate above what the machine can take.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import bucketlake
from bucketlake.spark.session import Lake

KEYS = 200_000_000
HUNDRED = 100


@dataclass(frozen=True)
class Given:
    """What is asked for. `rate`: rows a second that come; `rows`: of the table followed; `batches`: of `commits`."""

    seconds: float
    rate: int
    rows: int
    batches: int
    rounds: int


def spread(values: Sequence[float], digits: int = 2) -> str:
    """The median with the least and the greatest."""
    shown = [f"{value:,.{digits}f}" for value in (statistics.median(values), min(values), max(values))]
    return f"{shown[0]} ({shown[1]} to {shown[2]})"


def line(what: str, mark: str, measured: str, met: bool | None = None) -> str:
    """A line of RESULTS.md, with versions."""
    names = ("pyspark", "pyarrow", "numpy")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    told = "" if met is None else "met" if met else "missed"
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {versions}"
    return f"| {what} | {mark} | {measured} | {told} ({machine}) |"


def tree_mb() -> int:
    """The memory that this process and all that it started hold now: the JVM, Python workers."""
    parents, sizes = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                told = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)], sizes[int(entry.name)] = int(told[1]), int(told[21])
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(sizes.get(pid, 0) for pid in mine) * os.sysconf("SC_PAGE_SIZE") >> 20


def own_mb() -> int:
    """The memory that this process alone holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def zipf_rows(spark: SparkSession, rate: int) -> DataFrame:
    """Rows with skewed keys: the share of a key falls with its rank (exponent about 1)."""
    drawn = F.pow(F.lit(float(KEYS)), F.rand()).cast("bigint")
    spread = F.pmod(F.xxhash64(drawn), F.lit(KEYS))
    stream = spark.readStream.format("rate").option("rowsPerSecond", rate).load()
    value = F.concat(F.lit("value-"), F.col("value").cast("string"))
    return stream.select(
        spread.alias("k"), "value", value.alias("text"), F.rand().alias("x"), F.col("timestamp").alias("at")
    )


def quantiles(millis: Sequence[float]) -> dict[str, float]:
    """p50 and p99 of some latencies, in milliseconds."""
    if not millis:
        return {}
    return {"p50": round(statistics.median(millis)), "p99": round(float(np.percentile(millis, 99)))}


def _run(query: Any, seconds: float) -> None:
    query.awaitTermination(int(seconds))
    query.stop()
    if query.exception() is not None:
        raise RuntimeError(str(query.exception()))


def _speeds(query: Any) -> list[float]:
    """Rows by second of each batch that had rows, the first apart: what the machine could take, whatever came."""
    done = [p for p in query.recentProgress if p["numInputRows"]][1:]
    return [p["numInputRows"] / max(p["durationMs"]["triggerExecution"], 1) * 1000 for p in done]


def _overall(queries: Sequence[Any]) -> float:
    done = [p for query in queries for p in [p for p in query.recentProgress if p["numInputRows"]][1:]]
    millis = sum(p["durationMs"]["triggerExecution"] for p in done)
    return sum(p["numInputRows"] for p in done) / max(millis, 1) * 1000


_KEPT = (
    "'primary-key'='k', 'bucket'='8', 'tag.automatic-creation'='process-time', 'tag.creation-period'='hourly', "
    "'snapshot.num-retained.min'='5', 'snapshot.num-retained.max'='20', 'changelog-producer'='none'"
)
_COLUMNS = "k BIGINT, value BIGINT, text STRING, x DOUBLE, at TIMESTAMP"


def upserts(lake: Lake, folder: Path, given: Given) -> tuple[dict[str, Any], str]:
    """Sustained upserts; before and after, an eighth of the time each, `foreachBatch` writing parquet."""
    lake.sql(f"CREATE TABLE bench.upserts ({_COLUMNS}) TBLPROPERTIES ({_KEPT})")
    table, memory = lake.table("bench.upserts"), []

    def plain(frame: DataFrame, number: int) -> None:
        frame.write.mode("append").parquet(str(folder / "plain"))

    def beside(name: str) -> Any:
        stream = zipf_rows(lake.spark, given.rate).writeStream.foreachBatch(plain).trigger(processingTime="5 seconds")
        query = stream.option("checkpointLocation", str(folder / name)).start()
        _run(query, max(given.seconds / 8, 15))
        return query

    before = beside("plain-before")
    query = table.write_stream(
        zipf_rows(lake.spark, given.rate),
        str(folder / "upserts"),
        trigger={"processingTime": "5 seconds"},
        on_batch=lambda done: memory.append(tree_mb()),
    )
    _run(query, given.seconds)
    after = beside("plain-after")
    batches, own, other = [done for done in query.batches if done.rows], _overall([query]), _overall([before, after])
    found = {
        "rows/s": round(own),
        "plain parquet rows/s": [round(_overall([one])) for one in (before, after)],
        "ratio": round(own / max(other, 1), 2),
        "batches": len(batches),
        "commit ms": quantiles([done.commit_millis for done in batches]),
        "batch ms": quantiles([done.millis for done in batches]),
        "most runs": max((done.runs for done in batches), default=0),
        "compaction behind, most": max((done.behind for done in batches), default=0),
        "MB of all processes, by quarter": [
            round(float(np.mean(part))) for part in np.array_split(memory, 4) if len(part)
        ],
    }
    speeds = f"{own:,.0f} rows/s (batches {spread(_speeds(query), 0)}), parquet {found['plain parquet rows/s']}"
    memory_told = f", memory by quarter {found['MB of all processes, by quarter']} MB"
    measured = f"{own / max(other, 1):.2f}: {speeds}{memory_told}"
    return found, line(f"upserts, 5 s triggers, {given.seconds:.0f} s", "≥ 0.6", measured, own >= 0.6 * other)


def commits(lake: Lake, folder: Path, given: Given) -> tuple[dict[str, Any], str]:
    """Micro-batches of 1,000 rows one after the other, with compaction, expiry and tags: the last beside the first."""
    lake.sql(f"CREATE TABLE bench.commits ({_COLUMNS}) TBLPROPERTIES ({_KEPT})")
    table, memory, own, done, files = lake.table("bench.commits"), [], [], [], folder / "small"
    files.mkdir()
    for number in range(given.batches):
        ids = np.arange(1000)
        columns = {"k": (ids * 7919 + number) % 100_000, "value": ids, "text": [f"text-{value}" for value in ids]}
        times = pa.array(ids, pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({**columns, "x": ids / 7, "at": times}), files / f"{number:05}.parquet")

    def told(batch: Any) -> None:
        done.append(batch)
        if len(done) % 25 == 0:
            memory.append(tree_mb())
            own.append(own_mb())

    rows = lake.spark.readStream.schema(table.read().schema).option("maxFilesPerTrigger", 1).parquet(str(files))
    query = table.write_stream(rows, str(folder / "commits"), trigger={"availableNow": True}, on_batch=told)
    query.awaitTermination()
    part = min(HUNDRED, max(len(done) // 5, 1))
    ends = (done[part // 10 : part], done[-part:])
    commit = [[batch.commit_millis for batch in some] for some in ends]
    whole = [[batch.millis for batch in some] for some in ends]
    ratio = statistics.median(commit[1]) / max(statistics.median(commit[0]), 1)
    found = {
        "batches": len(done),
        "commit ms": [quantiles(some) for some in commit],
        "batch ms": [quantiles(some) for some in whole],
        "compaction behind, most": max(batch.behind for batch in done),
        "MB of all processes": memory,
        "MB of the driver's Python": own,
    }
    parts = [f"commit {' and '.join(spread(some, 0) for some in commit)} ms"]
    parts.append(f"whole batch {' and '.join(spread(some, 0) for some in whole)} ms")
    parts.append(f"memory {memory[:1]} to {memory[-1:]} MB, of the driver's Python {own[:1]} to {own[-1:]} MB")
    measured = f"{ratio:.2f}: {'; '.join(parts)}"
    return found, line(f"{len(done)} batches, the first and the last {part}", "≤ 1.2", measured, ratio <= 1.2)


def latency(lake: Lake, folder: Path, given: Given) -> tuple[dict[str, Any], str]:
    """From a commit of rows to a reader that has their changes, by way of a changelog."""
    options = "'primary-key'='k', 'bucket'='4', 'changelog-producer'='lookup'"
    lake.sql(f"CREATE TABLE bench.told (k BIGINT, at BIGINT) TBLPROPERTIES ({options})")
    table, seen = lake.table("bench.told"), []

    def body(frame: DataFrame, number: int) -> None:
        newest = frame.agg(F.max("at")).first()
        if newest is not None and newest[0] is not None:
            seen.append(time.time() * 1000 - newest[0])

    process = table.process_stream(
        body, str(folder / "told"), trigger={"processingTime": "200 ms"}, read_changelog=True
    )
    until, keys = time.monotonic() + given.seconds, np.random.default_rng(7)
    while time.monotonic() < until and process.exception is None:
        drawn = np.unique(keys.integers(0, 100_000, 1000))
        table.table.write_arrow(pa.table({"k": drawn, "at": np.full(len(drawn), int(time.time() * 1000))}))
        time.sleep(0.5)
    process.stop()
    if process.exception is not None:
        raise process.exception
    warm = seen[min(3, len(seen) - 1) :]
    found = {"write to changelog to read, ms": quantiles(warm), "batches": len(seen)}
    return found, line(
        "a write to its reader, by a changelog", "–", f"{spread(warm, 0)} ms, p99 {quantiles(warm)['p99']} ms"
    )


def source(lake: Lake, folder: Path, given: Given) -> tuple[dict[str, Any], str]:
    """Rows a second of an append table followed from its beginning, against Spark's own stream of the same files: while
    the query runs, which is from the end of its first batch on, and over all of it, its start included."""
    commits = 10
    rows = given.rows // commits
    lake.sql("CREATE TABLE bench.appended (k BIGINT, value BIGINT, text STRING, x DOUBLE)")
    table = lake.table("bench.appended")
    for number in range(commits):
        made = lake.spark.range(number * rows, (number + 1) * rows, 1, 2)
        table.write(made.selectExpr("id AS k", "id * 7 AS value", "concat('text-', id) AS text", "rand() AS x"))
    plain = folder / "files"
    plain.mkdir()
    for found in table.files():
        shutil.copy(found.path, plain / Path(found.path).name)
    columns, counted = table.read().schema, []

    def total(frame: DataFrame, number: int) -> None:
        row = frame.agg(F.sum("value"), F.max("text"), F.sum("x"), F.count(F.lit(1))).first()
        counted.append((time.perf_counter(), row[3]))

    def followed(stream: DataFrame, name: str) -> None:
        query = stream.writeStream.foreachBatch(total).option("checkpointLocation", str(folder / name))
        query.trigger(availableNow=True).start().awaitTermination()

    def by_spark(name: str) -> None:
        followed(lake.spark.readStream.schema(columns).option("maxFilesPerTrigger", 4).parquet(str(plain)), name)

    def by_python(name: str) -> None:
        followed(table.read_stream(read_stream_maxFilesPerTrigger=4), name)

    def by_process(name: str) -> None:
        process = table.process_stream(
            total, str(folder / name), trigger={"availableNow": True}, read_stream_maxFilesPerTrigger=4
        )
        process.awaitTermination()

    ways = {"spark": by_spark, "read_stream": by_python, "process_stream": by_process}
    running: dict[str, list[float]] = {name: [] for name in ways}
    whole: dict[str, list[float]] = {name: [] for name in ways}
    first: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(given.rounds + 1):  # the first is not counted
        for name, run in ways.items():
            counted.clear()
            start = time.perf_counter()
            taken = _timed(run, f"{name}-{turn}")
            if sum(count for _, count in counted) != commits * rows:
                raise RuntimeError(f"{name}: {counted} rows of {commits * rows}")
            if turn:
                (begun, once), (ended, _) = counted[0], counted[-1]
                running[name].append((commits * rows - once) / (ended - begun))
                whole[name].append(commits * rows / taken)
                first[name].append(begun - start)
    ratios = [_ratios(found) for found in (running, whole)]
    told = [", ".join(f"`{name}` {spread(found)}" for name, found in one.items()) for one in ratios]
    measured = f"{told[0]}; start included {told[1]}; Spark's {spread(running['spark'], 0)} rows/s"
    found = {
        "rows/s": {name: [round(one) for one in some] for name, some in running.items()},
        "rows/s, start included": {name: [round(one) for one in some] for name, some in whole.items()},
        "s to the end of the first batch": {name: [round(one, 2) for one in some] for name, some in first.items()},
    }
    met = all(statistics.median(some) >= 0.8 for some in ratios[0].values())
    return found, line(f"{given.rows:,} rows followed, against Spark's parquet file stream", "≥ 0.8", measured, met)


def _ratios(speeds: dict[str, list[float]]) -> dict[str, list[float]]:
    """What each way reaches of Spark's own, turn by turn."""
    floor = speeds["spark"]
    return {n: [own / by for own, by in zip(s, floor, strict=True)] for n, s in speeds.items() if n != "spark"}


def lookup(lake: Lake, folder: Path, given: Given) -> tuple[dict[str, Any], str]:
    """One key, and 100,000 keys at once, of a table of as many rows as asked: cold, then warm."""
    lake.sql("CREATE TABLE bench.dim (k BIGINT, name STRING, x DOUBLE) TBLPROPERTIES ('primary-key'='k', 'bucket'='4')")
    table, rows = lake.table("bench.dim"), given.rows // 5
    table.write(lake.spark.range(rows).selectExpr("id AS k", "concat('name-', id) AS name", "rand() AS x"))
    plain = table.table
    many = pa.table({"k": np.random.default_rng(3).integers(0, 2 * rows, 100_000)})

    def one(key: int) -> None:
        if plain.lookup({"k": [key]}).column("name").to_pylist() != [f"name-{key}"]:
            raise RuntimeError(f"key {key} was not found")

    found = {
        "one key, first s": [_timed(one, 17)],
        "one key, warm s": [_timed(one, key) for key in (18, rows - 100, 18, rows // 2, 19)],
        "one key by Spark's read, s": [_timed(lambda k: table.read(where=f"k = {k}").collect(), 18) for _ in range(4)][
            1:
        ],
        "100,000 keys, first s": [_timed(plain.lookup, many)],
        "100,000 keys, warm s": [_timed(plain.lookup, many) for _ in range(3)],
    }
    told = "; ".join(f"{name.removesuffix(' s')} {spread(times, 3)} s" for name, times in found.items())
    return found, line(f"lookups in {rows:,} rows", "–", told)


def _timed(action: Callable[[Any], object], given: Any) -> float:
    start = time.perf_counter()
    action(given)
    return time.perf_counter() - start


PARTS = {"upserts": upserts, "commits": commits, "latency": latency, "source": source, "lookup": lookup}


def main() -> None:
    """Run parts; print what they found as JSON, and then as a line of Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of {list(PARTS)}; all by default")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--rate", type=int, default=40_000, help="rows a second that come")
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the table that is followed, or looked into")
    parser.add_argument("--batches", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", default=None)
    asked = parser.parse_args()
    given = Given(asked.seconds, asked.rate, asked.rows, asked.batches, asked.rounds)
    folder = Path(tempfile.mkdtemp(prefix="bucketlake-streaming-", dir=asked.folder))
    try:
        lake = bucketlake.connect(str(folder / "warehouse"))
        lake.sql("CREATE DATABASE bench")
        for name in asked.parts or PARTS:
            found, told = PARTS[name](lake, folder, given)
            print(json.dumps({name: found}, indent=2), told, sep="\n", flush=True)
        lake.spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
