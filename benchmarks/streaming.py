"""Streams at work: sustained upserts against plain parquet, commit latency, reading back, memory.

    python -m benchmarks.streaming                      everything for a minute each
    python -m benchmarks.streaming --seconds 1200 --rate 40000 upserts
    python -m benchmarks.streaming source               a table followed against Spark's own parquet file stream
    python -m benchmarks.streaming lookup               lookups of one key and of 100,000

`upserts`: Spark's rate source, Zipf keys of a 200M space, triggers of 5 s, 8 buckets, with compaction, expiry and tags;
then the same into `foreachBatch` that writes parquet. Rows a second are those that were processed, by the time that
batches took: give a --rate above what the machine can take.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import bucketlake
from bucketlake.spark.session import Lake

KEYS = 200_000_000
HUNDRED = 100


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


def peak_mb() -> int:
    """The most memory that this process (not the JVM) has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _run(query: Any, seconds: float) -> None:
    query.awaitTermination(int(seconds))
    query.stop()
    if query.exception() is not None:
        raise RuntimeError(str(query.exception()))


def _throughput(query: Any) -> float:
    """Rows by second of batches that had rows: what the machine could take, whatever came."""
    done = [p for p in query.recentProgress if p["numInputRows"]][1:]
    millis = sum(p["durationMs"]["triggerExecution"] for p in done)
    return sum(p["numInputRows"] for p in done) / max(millis, 1) * 1000


def upserts(lake: Lake, folder: Path, seconds: float, rate: int) -> dict[str, Any]:
    """Sustained upserts against `foreachBatch` writing parquet."""
    options = "'primary-key'='k', 'bucket'='8', 'tag.automatic-creation'='process-time', 'tag.creation-period'='hourly'"
    kept = "'snapshot.num-retained.min'='5', 'snapshot.num-retained.max'='20', 'changelog-producer'='none'"
    lake.sql(
        "CREATE TABLE bench.upserts (k BIGINT, value BIGINT, text STRING, x DOUBLE, at TIMESTAMP) "
        f"TBLPROPERTIES ({options}, {kept})"
    )
    table, memory = lake.table("bench.upserts"), []
    query = table.write_stream(
        zipf_rows(lake.spark, rate),
        str(folder / "upserts"),
        trigger={"processingTime": "5 seconds"},
        on_batch=lambda done: memory.append(peak_mb()),
    )
    _run(query, seconds)
    batches = [done for done in query.batches if done.rows]
    found = {
        "rows/s": round(_throughput(query)),
        "batches": len(batches),
        "commit ms, first": quantiles([done.commit_millis for done in batches[:HUNDRED]]),
        "commit ms, last": quantiles([done.commit_millis for done in batches[-HUNDRED:]]),
        "batch ms": quantiles([done.millis for done in batches]),
        "most runs": max((done.runs for done in batches), default=0),
        "compaction behind, most": max((done.behind for done in batches), default=0),
        "python MB, first and last": [memory[0], memory[-1]] if memory else [],
    }

    def plain(frame: DataFrame, number: int) -> None:
        frame.write.mode("append").parquet(str(folder / "plain"))

    stream = zipf_rows(lake.spark, rate).writeStream.foreachBatch(plain).trigger(processingTime="5 seconds")
    other = stream.option("checkpointLocation", str(folder / "plain-checkpoint")).start()
    _run(other, min(seconds, 120))
    found["plain parquet rows/s"] = round(_throughput(other))
    found["ratio"] = round(found["rows/s"] / max(found["plain parquet rows/s"], 1), 2)
    return found


def latency(lake: Lake, folder: Path, seconds: float, rate: int) -> dict[str, Any]:
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
    until, keys = time.monotonic() + seconds, np.random.default_rng(7)
    while time.monotonic() < until:
        drawn = np.unique(keys.integers(0, 100_000, 1000))
        table.table.write_arrow(pa.table({"k": drawn, "at": np.full(len(drawn), int(time.time() * 1000))}))
        time.sleep(0.5)
    process.stop()
    return {"write to changelog to read, ms": quantiles(seen[1:]), "batches": len(seen)}


def source(lake: Lake, folder: Path, seconds: float, rate: int) -> dict[str, Any]:
    """Rows a second of an append table followed from its beginning, against Spark's own stream of the same files."""
    files, rows = 10, 1_000_000
    lake.sql("CREATE TABLE bench.appended (k BIGINT, value BIGINT, text STRING, x DOUBLE)")
    table = lake.table("bench.appended")
    for number in range(files):
        given = lake.spark.range(number * rows, (number + 1) * rows, 1, 2)
        table.write(given.selectExpr("id AS k", "id * 7 AS value", "concat('text-', id) AS text", "rand() AS x"))
    plain = folder / "files"
    plain.mkdir()
    for found in table.files():
        shutil.copy(found.path, plain / Path(found.path).name)
    columns = table.read().schema

    def total(frame: DataFrame, number: int) -> None:
        frame.agg(F.sum("value"), F.max("text"), F.sum("x")).collect()

    def by_spark(name: str) -> None:
        stream = lake.spark.readStream.schema(columns).option("maxFilesPerTrigger", 4).parquet(str(plain))
        query = stream.writeStream.foreachBatch(total).option("checkpointLocation", str(folder / name))
        query.trigger(availableNow=True).start().awaitTermination()

    def by_python(name: str) -> None:
        stream = table.read_stream(read_stream_maxFilesPerTrigger=4)
        query = stream.writeStream.foreachBatch(total).option("checkpointLocation", str(folder / name))
        query.trigger(availableNow=True).start().awaitTermination()

    def by_process(name: str) -> None:
        process = table.process_stream(
            total, str(folder / name), trigger={"availableNow": True}, read_stream_maxFilesPerTrigger=4
        )
        process.awaitTermination()

    speeds = {}
    for name, run in (("spark", by_spark), ("read_stream", by_python), ("process_stream", by_process)):
        taken = min(_timed(run, f"{name}-{turn}") for turn in range(3))
        speeds[f"{name} rows/s"] = round(files * rows / taken)
    speeds["read_stream ratio"] = round(speeds["read_stream rows/s"] / speeds["spark rows/s"], 2)
    speeds["process_stream ratio"] = round(speeds["process_stream rows/s"] / speeds["spark rows/s"], 2)
    return speeds


def lookup(lake: Lake, folder: Path, seconds: float, rate: int) -> dict[str, Any]:
    """One key, and 100,000 keys at once, of a table of 2M rows: cold, then warm."""
    lake.sql("CREATE TABLE bench.dim (k BIGINT, name STRING, x DOUBLE) TBLPROPERTIES ('primary-key'='k', 'bucket'='4')")
    table = lake.table("bench.dim")
    table.write(lake.spark.range(2_000_000).selectExpr("id AS k", "concat('name-', id) AS name", "rand() AS x"))
    plain = table.table
    many = pa.table({"k": np.random.default_rng(3).integers(0, 4_000_000, 100_000)})
    found = {"one key, first s": _timed(lambda key: plain.lookup({"k": [key]}), 17)}
    found["one key, warm s"] = min(_timed(lambda key: plain.lookup({"k": [key]}), key) for key in (18, 1_900_000, 18))
    found["one key by Spark's read, warm s"] = min(
        _timed(lambda k: table.read(where=f"k = {k}").collect(), 18) for _ in range(3)
    )
    found["100,000 keys, first s"] = _timed(plain.lookup, many)
    found["100,000 keys, warm s"] = min(_timed(plain.lookup, many) for _ in range(3))
    return {name: round(value, 4) for name, value in found.items()}


def _timed(action: Callable[[Any], object], given: Any) -> float:
    start = time.perf_counter()
    action(given)
    return time.perf_counter() - start


PARTS = {"upserts": upserts, "latency": latency, "source": source, "lookup": lookup}


def main() -> None:
    """Run parts and print what they found, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of {list(PARTS)}; all by default")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=int, default=20_000, help="rows a second that come")
    parser.add_argument("--folder", default=None)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bucketlake-streaming-", dir=given.folder))
    try:
        lake = bucketlake.connect(str(folder / "warehouse"))
        lake.sql("CREATE DATABASE bench")
        for name in given.parts or PARTS:
            print(json.dumps({name: PARTS[name](lake, folder, given.seconds, given.rate)}, indent=2), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
