"""Queries that are stopped within a batch: Spark has to see that they were, and did not fail."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from bucketlake.errors import BucketlakeError
from bucketlake.spark.raised import JobCancelledError, brief_in_batch
from bucketlake.spark.session import Lake

CALL = "py4j.protocol.Py4JJavaError: An error occurred while calling"
FRAMES = "\n\tat java.base/java.util.concurrent.locks.AbstractQueuedSynchronizer.acquire(Unknown Source)" * 200


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:Cannot infer the eval type")
def test_a_batch_that_waits_for_its_job(classic: Lake, tmp_path: Path) -> None:
    lake, begun = classic, tmp_path / "begun"
    lake.sql("CREATE TABLE arriving (id INT)")
    lake.sql("CREATE TABLE kept (id INT)")
    lake.sql("INSERT INTO arriving VALUES (1)")

    def waits(value: int) -> int:
        begun.touch()
        while begun.exists():  # Spark ends the worker, with its job
            time.sleep(0.05)
        return value

    rows = lake.table("arriving").read_stream().withColumn("id", F.udf(waits, "int")("id"))
    query = lake.table("kept").write_stream(rows, str(tmp_path / "checkpoint"))
    while not begun.exists():
        assert query.isActive
        time.sleep(0.05)
    query.stop()
    begun.unlink()
    assert (query.status["message"], query.exception()) == ("Stopped", None)
    assert lake.table("kept").read().count() == 0


def test_what_a_batch_says_is_short() -> None:
    """Spark looks through what follows the words of Py4J by an expression that overflows on a long text."""
    stopped = f"{CALL} o1.collect.\n: java.lang.InterruptedException{FRAMES}"
    cancelled = f"{CALL} o1.collect.\n: org.apache.spark.SparkException: Job 1 cancelled part of cancelled job group G"
    failed = f"{CALL} o1.collect.\n: org.apache.spark.SparkException: awaited:{FRAMES}"
    failed += f"\nCaused by: java.io.IOException: no space left{FRAMES}"
    for kind, text, told in (
        (RuntimeError, stopped, f"{CALL}: java.lang.InterruptedException"),
        (
            RuntimeError,
            cancelled + FRAMES,
            "org.apache.spark.SparkException: Job 1 cancelled part of cancelled job group G",
        ),
        (JobCancelledError, "Job 1 cancelled part of G", "org.apache.spark.SparkException: Job 1 cancelled part of G"),
        (RuntimeError, failed, "java.io.IOException: no space left"),
    ):
        with pytest.raises(BucketlakeError) as raised, brief_in_batch():
            raise kind(text)
        assert told in str(raised.value)
        assert len(str(raised.value)) < 300
        assert raised.value.__cause__ is None
    with pytest.raises(ValueError, match="the user's own"), brief_in_batch():
        raise ValueError("the user's own")
    with pytest.raises(ValueError, match="what the user makes of it") as own, brief_in_batch():
        try:
            raise RuntimeError(failed)
        except RuntimeError:
            raise ValueError("what the user makes of it")
    assert own.value.__suppress_context__, "the frames of the JVM are not told along"
