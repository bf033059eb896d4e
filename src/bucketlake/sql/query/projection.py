"""`SELECT columns FROM t LIMIT n`, the statement that is typed most: its rows are the frame of the one table that it
names, so that Spark needs no view of it and no text. Whatever says more is for Spark's own parser.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from bucketlake.spark.cluster import is_connect
from bucketlake.spark.settings import is_set
from bucketlake.sql.text.tokens import is_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_QUOTED = r"`(?:[^`{}]|``)+`"
_NAME = rf"(?:[A-Za-z_][A-Za-z0-9_]*|{_QUOTED})"
_GAP, _ANY = r"[ \t\r\n]+", r"[ \t\r\n]*"  # of the spaces that there are, those of Spark's lexer
_PLAIN = re.compile(
    rf"{_ANY}SELECT{_GAP}(?P<columns>\*|{_NAME}(?:{_ANY},{_ANY}{_NAME})*){_GAP}FROM{_GAP}\{{t0\}}"
    rf"{_GAP}AS{_GAP}`(?P<table>(?:[^`{{}}]|``)+)`(?:{_GAP}LIMIT{_GAP}(?P<limit>[0-9]{{1,9}}))?[ \t\r\n;]*",
    re.IGNORECASE | re.ASCII,
)
_MOST_NAMES = 50  # each costs a call


def projected(spark: SparkSession, text: str, frames: Mapping[str, DataFrame]) -> DataFrame | None:
    """What a query gives in which `{t0}` stands for its one frame; None for queries that are not as plain as this,
    and where Spark refuses it, of which it is to speak as of any other."""
    found = _PLAIN.fullmatch(text) if len(frames) == 1 else None
    if found is None:
        return None
    names = [] if found["columns"] == "*" else re.findall(_NAME, found["columns"])
    if names and is_connect(spark):
        return None  # which refuses no column before it is asked for rows
    words = [name for name in names if not name.startswith("`")]
    reserved = is_set(spark, "spark.sql.ansi.enforceReservedKeywords")
    if len(names) > _MOST_NAMES or (words and reserved) or not all(map(is_name, words)):
        return None
    frame = frames["t0"].alias(found["table"].replace("``", "`"))
    if names:
        try:
            frame = frame.selectExpr(*names)
        except AnalysisException:
            return None
    return frame if found["limit"] is None else frame.limit(int(found["limit"]))
