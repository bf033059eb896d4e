"""DataFrames one after the other as one, over which statements may ask what they ask of a table.

A list of columns that stands right on a union is put below it by Spark's first rule, subqueries and all: one that names
the row outside (`SELECT (SELECT max(v) FROM u WHERE u.k = t.k) FROM t`) ends there in `NoSuchElementException: key not
found` (Spark 4.3). A filter of no condition in between is gone by the next rules, when the subquery is a join. EXISTS
and IN in such a list become joins in Spark's last rules only: what `apart` puts in between stays until then.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_ONE = "__bucketlake_one"


def united(frames: Iterable[DataFrame]) -> DataFrame:
    """The rows of all frames, of one schema; one alone as it is. There is at least one."""
    first, *others = frames
    return reduce(DataFrame.union, others, first).where(F.lit(True)) if others else first


def apart(frame: DataFrame) -> DataFrame:
    """The rows of a frame, below which Spark puts conditions, but no list of columns with its subqueries: a generator
    of one value stands between, which no rule removes and which makes nothing depend on chance."""
    return frame.withColumn(_ONE, F.explode(F.array(F.lit(1)))).drop(_ONE)
