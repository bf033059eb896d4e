"""Batches of change data against what a Spark job of one's own would do with the same events.

    python -m benchmarks.cdc [--events 300000] [--batches 4] [--runs 3] [--format debezium-json]

Each batch is a file of events: the first inserts, later ones update half of the rows and delete some. The floor
`parse` reads the same file by Spark's `from_json` into typed columns and writes them as parquet: it follows no schema,
counts nothing, and merges nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import bucketlake
from bucketlake import cdc
from bucketlake.spark.session import Lake

from .streaming import spread

ROW = "id BIGINT, name STRING, city STRING, price DOUBLE, amount INT, at STRING, note STRING, flag BOOLEAN"
SCHEMA = f"before STRUCT<{ROW}>, after STRUCT<{ROW}>, op STRING, ts_ms BIGINT"


def row(number: int, version: int) -> dict[str, Any]:
    """One row of the source."""
    return {
        "id": number,
        "name": f"customer {number}",
        "city": ("Oslo", "Rome", "Kyiv", "Lima")[number % 4],
        "price": number * 0.25 + version,
        "amount": number % 1000,
        "at": f"2026-11-{number % 28 + 1:02d} 10:00:00",
        "note": f"as of version {version}, one of many",
        "flag": number % 3 == 0,
    }


def debezium(op: str, before: Any, after: Any, at: int) -> dict[str, Any]:
    """An event as Debezium has it, without its schema."""
    source = {"db": "shop", "table": "orders", "ts_ms": at}
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": at}


def canal(op: str, before: Any, after: Any, at: int) -> dict[str, Any]:
    """An event as canal has it."""
    words = {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}
    data, old = [{k: str(v) for k, v in (after or before).items()}], None
    if op == "u":
        old = [{k: str(v) for k, v in before.items() if after[k] != v}]
    found = {"data": data, "old": old, "database": "shop", "table": "orders", "type": words[op]}
    return {**found, "es": at, "pkNames": ["id"], "isDdl": False}


FORMATS: dict[str, Callable[[str, Any, Any, int], dict[str, Any]]] = {"debezium-json": debezium, "canal-json": canal}


def write_events(path: Path, count: int, version: int, event: Callable[[str, Any, Any, int], dict[str, Any]]) -> None:
    """A batch: inserts first, then updates of half as many rows, inserts and a few deletes."""
    draw = random.Random(version)
    with path.open("w") as out:
        for place in range(count):
            at = version * count + place
            if version == 0 or place % 2 == 0:
                made = event("c", None, row(at, version), at)
            else:
                key = draw.randrange(version * count)
                op = "d" if place % 50 == 1 else "u"
                made = event(op, row(key, version - 1), None if op == "d" else row(key, version), at)
            out.write(json.dumps(made, separators=(",", ":")) + "\n")


def parsed(lake: Lake, path: Path, out: Path) -> None:
    """The floor."""
    events: DataFrame = lake.spark.read.text(str(path)).select(F.from_json("value", SCHEMA).alias("e"))
    events.select("e.op", F.coalesce("e.after", "e.before").alias("r")).select("op", "r.*").write.parquet(str(out))


def run(lake: Lake, folder: Path, given: argparse.Namespace, number: int) -> list[tuple[float, float]]:
    """Seconds of each batch, and of the floor before it."""
    arriving, found = folder / f"events{number}", []
    arriving.mkdir()
    for version in range(given.batches):
        made = folder / f"batch{version}.json"
        if not made.exists():
            write_events(made, given.events, version, FORMATS[given.format])
        start = time.perf_counter()
        if given.format == "debezium-json":
            parsed(lake, made, folder / f"floor{number}.{version}")
        middle = time.perf_counter()
        (arriving / f"{version}.json").hardlink_to(made)
        source = cdc.files(str(arriving), format=given.format)
        query = cdc.sync_table(
            lake,
            source,
            f"shop.t{number}",
            primary_keys="id",
            checkpoint=str(folder / f"checkpoint{number}"),
            trigger={"availableNow": True},
        )
        query.awaitTermination()
        found.append((time.perf_counter() - middle, middle - start))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=300_000)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--format", choices=tuple(FORMATS), default="debezium-json")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        lake = bucketlake.connect(str(folder / "warehouse"))
        lake.sql("CREATE DATABASE shop")
        runs = [run(lake, folder, given, number) for number in range(given.runs)]
        for version, all_of in enumerate(zip(*runs, strict=True)):
            times, floors = [list(one) for one in zip(*all_of, strict=True)]
            rate = given.events / statistics.median(times)
            print(f"batch {version}: {spread(times)} s, {rate:,.0f} events/s; parse {spread(floors)} s", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
