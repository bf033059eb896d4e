"""A query's frames under the names that the user gave their tables, so that what Spark says when rows are asked for
(`== SQL ==`, plans) names tables: PySpark's own way names frames by chance.

The names are those of temporary views that are there while Spark reads the text, and made only where none of that name
is. A frame that cannot have its name this way gets none: PySpark's own way remains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyspark.errors import AnalysisException

from bucketlake.errors import is_interrupt
from bucketlake.spark.cluster import is_connect
from bucketlake.spark.types import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LEFT: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()
_LAZY = re.compile(
    r"[\s(]*(SELECT|WITH|FROM|VALUES)\b", re.IGNORECASE
)  # what begins like this keeps no view by its name


def named_query(
    spark: SparkSession, text: str, args: Any, frames: Mapping[str, DataFrame], titles: Mapping[str, str]
) -> DataFrame | None:
    """The query with `{t0}` … standing for frames that Spark knows by their titles; None where that cannot be: also
    where Spark refuses the query, of which it is to speak as of any other."""
    if is_connect(spark) or not frames or _LAZY.match(text) is None:
        return None
    names = _distinct(frames, titles)
    lowered = text.lower()
    if any(quoted(name).lower() in lowered for name in names.values()):
        return None  # somebody else's name
    with passing_views(spark) as made, suppress(AnalysisException):
        for key, frame in frames.items():
            made.append(names[key])
            if not _create(frame, names[key]):
                made.pop()  # somebody else's, which stays
                return None
        plain = text.format(**{key: quoted(name) for key, name in names.items()})
        return spark.sql(plain, args) if args else spark.sql(plain)
    return None


@contextmanager
def passing_views(spark: SparkSession) -> Iterator[list[str]]:
    """A list of the temporary views of a statement, named before each is made: they are dropped when the block ends.

    Ctrl-C ends a call, not what Spark does for it: a view may be made after it was dropped. What an interrupted block
    named is dropped again by the session's next one."""
    left = _LEFT.setdefault(spark, set())
    for name in tuple(left):
        left.discard(name)
        spark.catalog.dropTempView(name)
    made: list[str] = []
    try:
        try:
            yield made
        finally:
            for name in made:
                with suppress(Exception):  # the statement's own error tells more
                    spark.catalog.dropTempView(name)
    except BaseException as error:
        left.update(made if is_interrupt(error) else ())
        raise


def _create(frame: DataFrame, name: str) -> bool:
    """Whether a temporary view could be made of the frame: there may be one of this name."""
    try:
        frame.createTempView(quoted(name))
    except AnalysisException:
        return False
    return True


def _distinct(frames: Mapping[str, DataFrame], titles: Mapping[str, str]) -> dict[str, str]:
    """A name for each frame: its title, with a number where an earlier one has it."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for key in frames:
        name, count = titles[key], 1
        while name.lower() in taken:
            count += 1
            name = f"{titles[key]} ({count})"
        taken.add(name.lower())
        names[key] = name
    return names
