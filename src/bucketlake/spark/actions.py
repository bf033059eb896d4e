"""The Spark actions of statements and tables: a file that vanished under one is told as any other that is not there.

    to_arrow(frame), rows(frame), count(frame)
    with lost_told(): …                             any other action

Another writer may expire a snapshot while Spark reads it. Spark tells that by a trace of the JVM; told as NotFoundError
it lets a statement begin anew on the newest snapshot (`ops.commit.outcome.Attempts`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import DataFrame, Row

from bucketlake.errors import BucketlakeError, NotFoundError
from bucketlake.ops.rows.one_file import READ_AGAIN

_LOST = re.compile(
    r"\[FAILED_READ_FILE\.FILE_NOT_EXIST\] Encountered error while reading file (?P<spark>.+?)\. File does not exist"
    r"|^(?:Caused by: )?java\.(?:io\.FileNotFound|nio\.file\.NoSuchFile)Exception: (?P<java>.*)$"
    r"|^bucketlake\.errors\.NotFoundError: (?P<worker>.*)$",
    re.MULTILINE,
)


def to_arrow(frame: DataFrame) -> pa.Table:
    """The rows of a frame in the driver. NotFoundError for files that have vanished."""
    with lost_told():
        return frame.toArrow()


def rows(frame: DataFrame) -> list[Row]:
    """The rows of a frame as Spark's. NotFoundError for files that have vanished."""
    with lost_told():
        found: list[Row] = frame.collect()
        return found


def count(frame: DataFrame) -> int:
    """How many rows a frame has. NotFoundError for files that have vanished."""
    with lost_told():
        return int(frame.count())


def is_too_large(error: Exception) -> bool:
    """Whether an action failed because its rows are more than the driver takes."""
    return "spark.driver.maxResultSize" in str(error)  # of Py4J's class or of PySpark's, by the session's kind


@contextmanager
def lost_told() -> Iterator[None]:
    """NotFoundError in the place of what Spark raises for a file that has vanished."""
    try:
        yield
    except BucketlakeError:
        raise
    except Exception as error:
        lost = _LOST.search(str(error))
        if lost is None:
            raise
        raise NotFoundError(
            "a data file is gone",
            reason=lost["spark"] or lost["java"] or lost["worker"],
            remedy=READ_AGAIN,
        ) from error
