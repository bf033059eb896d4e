"""Rows of a frame that several actions look at: the one place that says how they are kept.

    decided(frame)         something was found among the rows (which change, that none is wrong, how many there are)
                           that must hold of those that are written: a lost executor is a ConflictError
    shaped(frame)          what is found gives files their shape alone (buckets of new partitions, ranges of an order),
                           or the rows follow from decided ones: a lost executor evaluates its own anew

Rows that are evaluated anew can be others: chance, times, a source that has changed. So the first are kept by the
executors without the means to make them again (`localCheckpoint`, classic and Connect alike): nothing of the statement
is committed then, and it begins anew as a whole, as where others' commits came first. Until it ends they take memory
and disk of the executors as rows, not as packed columns, and cost one pass before the first look.

Spec: docs/spec/writing.md#rows-that-are-looked-at-twice
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame

from bucketlake.spark.actions import lost_told


def decided(frame: DataFrame) -> DataFrame:
    """The frame's rows, evaluated now and never again; they are freed with the frame."""
    with lost_told():
        return frame.localCheckpoint(eager=True)


def decided_later(frame: DataFrame) -> DataFrame:
    """As `decided`, by the job that looks at the frame first, which spares a pass: nothing may come between."""
    return frame.localCheckpoint(eager=False)


@contextmanager
def shaped(frame: DataFrame) -> Iterator[DataFrame]:
    """The frame, its rows kept from the first action on until the block ends."""
    try:
        yield frame.persist()
    finally:
        frame.unpersist()
