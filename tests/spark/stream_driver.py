"""A Spark driver with four streaming queries that may be killed at any moment, and is started again.

    python -m tests.spark.stream_driver '{"root", "kind", "seed", "files", "die", "jobs", "last"}'

Files of lines arrive in a folder. One query appends them to a table, one merges them into a table in a `foreachBatch` of
the user's own, one follows the first table with a keyed one, and one writes down what that one tells of its changes.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.spark.driver_job import at_change, death

import bucketlake
from bucketlake.errors import BucketlakeError
from bucketlake.spark.read import reader
from bucketlake.spark.session import Lake

EVENTS = pa.schema([("n", pa.int64()), ("k", pa.int32()), ("v", pa.int64())])
LINES = "n BIGINT, k INT, v BIGINT"
KEYED = pa.schema([pa.field("k", pa.int32(), False), ("n", pa.int64()), ("v", pa.int64())])
COUNTED = pa.schema([pa.field("k", pa.int32(), False), ("v", pa.int64())])
LOG = pa.schema([("kind", pa.string()), *KEYED, ("batch", pa.int64()), ("place", pa.int64())])
FEW = {"snapshot.num-retained.min": "3", "snapshot.num-retained.max": "8", "num-sorted-run.compaction-trigger": "3"}
KEYS, ROWS, WRONG = 8, 3, 3
KINDS: dict[str, dict[str, str]] = {  # options of the keyed table
    "lookup": {"bucket": "2", "changelog-producer": "lookup"},
    "full": {"bucket": "1", "changelog-producer": "full-compaction", "full-compaction.delta-commits": "2"},
    "vectors": {"bucket": "2", "changelog-producer": "lookup", "deletion-vectors.enabled": "true"},
    "dynamic": {"bucket": "-1", "changelog-producer": "lookup", "dynamic-bucket.target-row-num": "3"},
    "beside": {"bucket": "2", "changelog-producer": "lookup", "lookup-wait": "false"},
    "postponed": {"bucket": "-2"},
    "none": {"bucket": "2"},
}


def lines_of(seed: int, number: int) -> list[tuple[int, int, int]]:
    """The rows of a file that arrives: a number that grows, a key, a value."""
    chance = random.Random(f"lines {seed} {number}")
    return [(number * ROWS + place, chance.randrange(KEYS), chance.randrange(1000)) for place in range(ROWS)]


def prepare(root: Path, kind: str) -> None:
    """Make the tables and the folder that files arrive in."""
    (root / "in").mkdir()
    catalog = bucketlake.open(str(root / "warehouse"))
    catalog.create_database("db")
    sums = {"bucket": "2", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    catalog.create_table("db.events", EVENTS, options=FEW)
    catalog.create_table("db.merged", KEYED, (), ["k"], {**FEW, "bucket": "2"})
    catalog.create_table("db.sums", COUNTED, (), ["k"], {**FEW, **sums})
    catalog.create_table("db.state", KEYED, (), ["k"], {**FEW, **KINDS[kind], "sequence.field": "n"})
    catalog.create_table("db.log", LOG, options={**FEW, "compaction.min.file-num": "4"})


class Feeder(threading.Thread):
    """Lets files arrive, the last one, too, where they are all to be there."""

    def __init__(self, root: Path, seed: int, files: int) -> None:
        super().__init__(daemon=True)
        self.root, self.seed, self.files, self.ends = root, seed, files, threading.Event()

    def run(self) -> None:
        """One after the other, as slowly as batches run."""
        for number in range(self.files):
            place = self.root / "in" / f"{number:05}.json"
            if not place.exists():
                text = "".join(
                    json.dumps(dict(zip("nkv", row, strict=True))) + "\n" for row in lines_of(self.seed, number)
                )
                (self.root / "in" / f"_{number}").write_text(text)
                (self.root / "in" / f"_{number}").rename(place)
                if self.ends.wait(0.4):
                    return


class Queries:
    """The four queries."""

    def __init__(self, root: Path, lake: Lake) -> None:
        self.root, self.lake = root, lake

    def run(self, trigger: dict[str, Any]) -> None:
        """Everything that is there, through all of them."""
        queries = [self._events(trigger), self._merged(trigger)]
        for query in queries:
            query.awaitTermination()
        for follow in (self._state, self._log):
            follow(trigger).awaitTermination()

    def _lines(self) -> DataFrame:
        lines = self.lake.spark.readStream.schema(LINES).option("maxFilesPerTrigger", 2)
        return lines.json(str(self.root / "in"))

    def _at(self, name: str) -> str:
        return str(self.root / f"checkpoint-{name}")

    def _events(self, trigger: dict[str, Any]) -> Any:
        return self.lake.table("db.events").write_stream(self._lines(), self._at("events"), trigger=trigger)

    def _merged(self, trigger: dict[str, Any]) -> Any:
        lake, sums = self.lake, self.lake.table("db.sums")

        def body(frame: DataFrame, number: int) -> None:
            sums.write_batch(frame.select("k", "v"), "sums", number)
            last = frame.groupBy("k").agg(F.max("n").alias("n"), F.max_by("v", "n").alias("v"))
            lake.sql(
                "MERGE INTO db.merged t USING {df} s ON t.k = s.k WHEN MATCHED AND s.n >= t.n THEN UPDATE SET * "
                "WHEN NOT MATCHED THEN INSERT *",
                df=last,
            ).collect()

        started = self._lines().writeStream.foreachBatch(body).option("checkpointLocation", self._at("merged"))
        return started.trigger(**trigger).start()

    def _state(self, trigger: dict[str, Any]) -> Any:
        changes = self.lake.table("db.events").read_stream(read_stream_maxFilesPerTrigger=2, consumer_id="state")
        rows = changes.select("k", "n", "v")
        return self.lake.table("db.state").write_stream(rows, self._at("state"), trigger=trigger)

    def _log(self, trigger: dict[str, Any]) -> Any:
        log, name = self.lake.table("db.log"), "log"

        def body(frame: DataFrame, number: int) -> None:
            told = frame.withColumnRenamed("rowkind", "kind").withColumn("batch", F.lit(number).cast("long"))
            log.write_batch(told.withColumn("place", F.monotonically_increasing_id()), name, number)

        options = {"read_changelog": True, "consumer_id": "log", "read_stream_maxFilesPerTrigger": 3}
        return self.lake.table("db.state").process_stream(body, self._at("log"), trigger, **options)


def after_steps(root: Path, number: int, then: Callable[[], None]) -> None:
    """Do something once so many batches more have been begun or done, or snapshots published."""
    wait, wanted = threading.Event(), number + steps(root)
    while steps(root) < wanted:
        wait.wait(0.005)
    then()


def steps(root: Path) -> int:
    """How many batches were begun and done, and snapshots published."""
    places = ("checkpoint-*/offsets/*", "checkpoint-*/commits/*", "warehouse/*/*/snapshot/snapshot-*")
    return sum(len([*root.glob(place)]) for place in places)


def main(job: dict[str, Any]) -> None:
    """Live once: until a death, or all is through where it is the last life."""
    root = Path(job["root"])
    lake = bucketlake.connect(str(root / "warehouse"))
    if job["jobs"]:
        reader.SMALL_ROWS = 0  # nothing stays in the driver
    die = job["die"]
    if die and "at" in die:
        at_change(die["at"], str(root), death(die["whom"]))
    elif die:
        threading.Thread(target=after_steps, args=(root, die["steps"], death(die["whom"])), daemon=True).start()
    feeder = Feeder(root, job["seed"], job["files"])
    feeder.start()
    tries = 0
    while True:
        if job["last"]:
            feeder.join()
        fed, before = not feeder.is_alive(), steps(root)
        try:
            Queries(root, lake).run({"availableNow": True})
        except (BucketlakeError, PySparkException) as error:
            tries += 1
            print(f"{type(error).__name__} {str(error)[:1500]}", flush=True)
            if tries > 20:
                traceback.print_exc()
                os._exit(WRONG)
            continue
        if job["last"]:
            lake.table("db.state").compact(full=True)
            Queries(root, lake).run({"availableNow": True})
            os._exit(0)
        if die and fed and steps(root) == before:
            death(die["whom"])()  # an earlier life was through: what this one waits for may never come


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
