"""Spark's SQL scripts, `BEGIN … END`: those that only query go to Spark, those that change tables are run here.

run(lake, text, args) -> DataFrame     the rows of the script's last query
is_compound(text) -> bool
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bucketlake.spark.raised import interrupts_stay
from bucketlake.spark.settings import settings_stay
from bucketlake.sql.compound.queries import is_compound, is_read_only, names_one_of
from bucketlake.sql.compound.run import Script
from bucketlake.sql.compound.tree import read
from bucketlake.sql.query import query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.spark.session import Lake

__all__ = ["is_compound", "run"]


def run(lake: Lake, text: str, args: Any = None) -> DataFrame:
    """The rows of a script's last query, of none where it has none. A script is read to its end before it begins; each
    of its statements commits by itself.

    Errors: InvalidError for what is no script, UnsupportedError for what only Spark's own scripts may hold.
    """
    theirs = lake.in_spark_catalog and not names_one_of(text, lake.catalog_names)
    if theirs or is_read_only(text):
        with settings_stay(), interrupts_stay():
            return query.run(lake, text, args, prune=False)
    with interrupts_stay():
        return Script(lake, text, args).run(read(text))
