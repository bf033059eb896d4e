"""The time that a statement sees: one, however many queries of Spark's it takes.

Spark fixes it for each query that it plans. So texts that several queries evaluate say it as a number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from bucketlake.sql.text.tokens import Token, splice, tokenize

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MICROS = "timestamp_micros({})"
_AS: dict[str, str] = {  # what the functions without arguments give, by a number of microseconds
    "CURRENT_TIMESTAMP": _MICROS,
    "NOW": _MICROS,
    "CURRENT_DATE": f"CAST({_MICROS} AS DATE)",
    "CURDATE": f"CAST({_MICROS} AS DATE)",
    "LOCALTIMESTAMP": f"CAST({_MICROS} AS TIMESTAMP_NTZ)",
    "UNIX_TIMESTAMP": f"unix_seconds({_MICROS})",
}
_BARE = frozenset({"CURRENT_TIMESTAMP", "CURRENT_DATE", "LOCALTIMESTAMP"})  # that need no brackets


def at_moment(text: str, millis: int, columns: Collection[str]) -> str:
    """An expression that sees a moment, of epoch milliseconds, wherever it asks what time it is. `columns`: names that
    columns have, which such a word without brackets means then."""
    return _told(_called(text, {name.upper() for name in columns}), millis)


def asks_time(text: str) -> bool:
    """Whether a text may ask what time it is."""
    return any(name in text.upper() for name in _AS)


def query_at_moment(spark: SparkSession, text: str, frames: Mapping[str, DataFrame], millis: int) -> DataFrame:
    """A query over the frames that it names, as of a moment, of epoch milliseconds; its columns keep their names. Words
    without brackets are let be where one is a name."""
    found, called = spark.sql(text, **frames), _called(text, ())
    if called != text and not _is_same(spark, found, called, frames):
        called = text
    return spark.sql(_told(called, millis), **frames).toDF(*found.columns)


def _is_same(spark: SparkSession, found: DataFrame, text: str, frames: Mapping[str, DataFrame]) -> bool:
    try:
        return bool(found.sameSemantics(spark.sql(text, **frames)))
    except AnalysisException:
        return False


def _called(text: str, columns: Collection[str]) -> str:
    """The text with brackets behind each word that asks for the time without, and is none of these columns."""
    return splice(
        text,
        [
            (token.end, token.end, "()")
            for token, following in _asking(text)
            if token.value.upper() in _BARE.difference(columns) and following[:1] not in (["("], ["."])
        ],
    )


def _told(text: str, millis: int) -> str:
    """The text with what calls give at a moment in their place."""
    return splice(
        text,
        [
            (token.start, text.index(")", token.end) + 1, _AS[token.value.upper()].format(1000 * millis))
            for token, following in _asking(text)
            if following == ["(", ")"]
        ],
    )


def _asking(text: str) -> Iterator[tuple[Token, list[str]]]:
    """The words that may ask for the time, each with the two tokens behind it."""
    tokens = tokenize(text) if asks_time(text) else []
    for at, token in enumerate(tokens):
        if token.kind == "word" and token.value.upper() in _AS and not (at and tokens[at - 1].value == "."):
            yield token, [one.value for one in tokens[at + 1 : at + 3]]
