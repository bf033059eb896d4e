"""What a session has set, read once a statement.

On classic Spark `spark.conf.getAll` costs 15 to 25 ms: PySpark walks a Java map until an exception ends it, and
compares that with fourteen classes, which Java looks for in all of Spark's jars each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

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


def setting_of(spark: SparkSession, *keys: str) -> str | None:
    """The value of the first of these keys that the session has set."""
    kept = (_read.get() or {}).get(id(spark))
    values = (spark.conf.get(key, None) if kept is None else kept[1].get(key) for key in keys)
    return next((str(value) for value in values if value is not None), None)


def settings_of(spark: SparkSession) -> Mapping[str, str]:
    """All that the session has set, by key."""
    kept = _read.get()
    if kept is None:
        return dict(spark.conf.getAll)
    if id(spark) not in kept:
        kept[id(spark)] = (spark, dict(spark.conf.getAll))
    return kept[id(spark)][1]
