"""What a session has set, read once a statement.

On classic Spark `spark.conf.getAll` costs 15 to 25 ms: PySpark walks a Java map until an exception ends it, and
compares that with fourteen classes, which Java looks for in all of Spark's jars each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from bucketlake.errors import InvalidError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_read: ContextVar[dict[int, tuple[SparkSession, Mapping[str, str]]] | None] = ContextVar("settings", default=None)


@contextmanager
def settings_stay() -> Iterator[None]:
    """While this lasts, `settings_of` is what it was when it was asked first."""
    before = _read.set({})
    try:
        yield
    finally:
        _read.reset(before)


def require_running(spark: SparkSession) -> None:
    """InvalidError for a session that was stopped."""
    if _is_stopped(spark):
        raise InvalidError("the Spark session was stopped", remedy="bucketlake.connect(…) takes or makes another")


def _is_stopped(spark: SparkSession) -> bool:
    try:
        told = getattr(spark, "is_stopped", None)  # of Spark Connect alone
        return bool(told) if told is not None else not spark.sparkContext.applicationId
    except AttributeError:  # its context holds no Java object any more
        return True
    except Exception:  # asked beside another error, which says more
        return False


def settings_of(spark: SparkSession) -> Mapping[str, str]:
    """All that the session has set, by key."""
    kept = _read.get()
    if kept is None:
        return dict(spark.conf.getAll)
    if id(spark) not in kept:
        kept[id(spark)] = (spark, dict(spark.conf.getAll))
    return kept[id(spark)][1]
