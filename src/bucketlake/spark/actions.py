"""The Spark actions of statements and tables: files that vanish under one, or are damaged, are told as ours.

    to_arrow(frame), rows(frame), count(frame)
    with lost_told(): …                             any other action

Another writer may expire a snapshot while Spark reads it. Spark tells that by a trace of the JVM; told as NotFoundError
it lets a statement begin anew on the newest snapshot (`ops.commit.outcome.Attempts`). So does a ConflictError, for rows
that an executor kept for several actions (`spark.write.kept`) and took with it as it died: nothing is committed then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import DataFrame, Row

from bucketlake.errors import BucketlakeError, ConflictError, CorruptError, NotFoundError
from bucketlake.format.data.datafile import BROKEN
from bucketlake.ops.rows.one_file import READ_AGAIN

_LOST = re.compile(
    r"\[FAILED_READ_FILE\.FILE_NOT_EXIST\] Encountered error while reading file (?P<spark>.+?)\. File does not exist"
    r"|^(?:Caused by: )?java\.(?:io\.FileNotFound|nio\.file\.NoSuchFile)Exception: (?P<java>.*)$"
    r"|^bucketlake\.errors\.NotFoundError: (?P<worker>.*)$",
    re.MULTILINE,
)
_DAMAGED = re.compile(
    r"\[(?:FAILED_READ_FILE\.\w+|CANNOT_READ_FILE_FOOTER)\] "
    r"(?:Encountered error while reading file|Could not read footer for file:) "
    r"(?:file:/*(?=/))?(?P<path>\S+?)\.?(?: |$)",
    re.MULTILINE,
)
_CAUSE = re.compile(r"^Caused by: (?:[\w$]+\.)*(?P<what>\S.*)$", re.MULTILINE)
_KEPT = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"


def to_arrow(frame: DataFrame) -> pa.Table:
    """The rows of a frame in the driver. NotFoundError for files that have vanished, CorruptError for damaged ones,
    ConflictError for rows that were kept."""
    with lost_told():
        return frame.toArrow()


def rows(frame: DataFrame) -> list[Row]:
    """The rows of a frame as Spark's. Errors: as `to_arrow`."""
    with lost_told():
        found: list[Row] = frame.collect()
        return found


def count(frame: DataFrame) -> int:
    """How many rows a frame has. Errors: as `to_arrow`."""
    with lost_told():
        return int(frame.count())


def is_too_large(error: Exception) -> bool:
    """Whether an action failed because its rows are more than the driver takes."""
    return "spark.driver.maxResultSize" in str(error)  # of Py4J's class or of PySpark's, by the session's kind


@contextmanager
def lost_told() -> Iterator[None]:
    """In the place of what Spark raises: NotFoundError for a file that has vanished, CorruptError for a damaged one,
    ConflictError for kept rows."""
    try:
        yield
    except BucketlakeError:
        raise
    except Exception as error:
        text = str(error)
        if _KEPT in text:
            raise ConflictError(
                "an executor died that kept rows of the statement, which must not be evaluated anew in part",
                remedy="run the statement again: nothing was committed",
            ) from error
        lost, damaged = _LOST.search(text), _DAMAGED.search(text)
        if lost is None and damaged is not None:
            reason = _CAUSE.findall(text)[-1:] or ["Spark cannot read it"]
            raise CorruptError(BROKEN, path=damaged["path"], reason=reason[0], remedy="restore the file") from error
        if lost is None:
            raise
        raise NotFoundError(
            "a data file is gone",
            reason=lost["spark"] or lost["java"] or lost["worker"],
            remedy=READ_AGAIN,
        ) from error
