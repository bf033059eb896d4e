"""What a session has set, read once a statement; what quotes in texts mean by it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.predicate.parse import parse_where
from bucketlake.predicate.scan import names_in
from bucketlake.predicate.tree import Opaque, Predicate
from bucketlake.types.model import DataField, quote_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LISTED = "spark.sql.sources.parallelPartitionDiscovery.threshold"  # paths at which Spark looks without a job
_ESCAPED = "spark.sql.parser.escapedStringLiterals"  # a literal is what stands between its quotes, letter by letter
_UNLIKE = re.compile(r"""\\|\b[rR]['"]""")  # what means something else then, as a doubled quote does
_REFERENCE = re.compile(r"\$\{(?:(\w+?):)?(\S+?)\}", re.ASCII)
_OF_SESSION = (None, "spark", "sparkconf", "hivevar", "hiveconf")
_OF_JAVA = {"env": "getenv", "system": "getProperty"}
_SETTINGS = "all that is set"
_asked_once: ContextVar[dict[tuple[SparkSession, Any], Any] | None] = ContextVar("asked once", default=None)
T = TypeVar("T")
# what was set when it was asked last: Java's map, and ours
_found: WeakKeyDictionary[SparkSession, tuple[Any, Mapping[str, str]]] = WeakKeyDictionary()


@contextmanager
def settings_stay() -> Iterator[None]:
    """While this lasts, a statement, `settings_of` and `once` give what they gave first."""
    before = _asked_once.set({})
    try:
        yield
    finally:
        _asked_once.reset(before)


def once(spark: SparkSession, what: Any, ask: Callable[[], T]) -> T:
    """What a session answers, asked once a statement; each time outside of one. `what`: names the question."""
    kept = _asked_once.get()
    if kept is None:
        return ask()
    if (spark, what) not in kept:
        kept[spark, what] = ask()
    found: T = kept[spark, what]
    return found


def setting_of(spark: SparkSession, *keys: str) -> str | None:
    """The value of the first of these keys that the session has set."""
    known = settings_of(spark)
    return next((known[key] for key in keys if key in known), None)


def is_case_sensitive(spark: SparkSession) -> bool:
    """Whether names that differ in case alone are different names in this session."""
    return is_set(spark, "spark.sql.caseSensitive")


def quotes_hold(text: str, is_on: Callable[[str], bool]) -> bool:
    """Whether quotes in a text of the user's mean what they do by default. `is_on`: whether the session has a setting
    on."""
    if "`" in text and is_on("spark.sql.parser.quotedRegexColumnNames"):
        return False
    return _misread(text, is_on) is None


def require_quotes(spark: SparkSession, texts: Iterable[str]) -> None:
    """UnsupportedError where quotes in a text that Spark never sees mean something else by the session's settings."""
    for text in texts:
        found = _misread(text, partial(is_set, spark))
        if found is not None:
            raise UnsupportedError(
                f"quotes or backslashes in this text, while '{found}' is on", text=text, remedy=f"SET {found} = false"
            )


def _misread(text: str, is_on: Callable[[str], bool]) -> str | None:
    """The setting by which Spark reads literals otherwise than by default."""
    doubled = "''" in text or '""' in text
    asked = {
        "spark.sql.ansi.doubleQuotedIdentifiers": '"' in text,
        _ESCAPED: doubled or _UNLIKE.search(text) is not None,
        "spark.sql.legacy.consecutiveStringLiterals.enabled": doubled,
    }
    return next((key for key, matters in asked.items() if matters and is_on(key)), None)


def condition_of(spark: SparkSession, where: str, fields: Sequence[DataField]) -> Predicate:
    """The predicate of a condition as the session reads it: with its variables, its quotes, times of day in its zone,
    lists of texts by its ANSI mode.

    Errors: as `parse_where`."""
    text = substituted(spark, where)
    if not quotes_hold(text, partial(is_set, spark)):
        return Opaque(where, tuple(sorted(names_in(text, [item.name for item in fields]))))
    ansi = str(spark.conf.get("spark.sql.ansi.enabled")).lower() == "true"
    return parse_where(text, fields, str(spark.conf.get("spark.sql.session.timeZone")), ansi)


def is_set(spark: SparkSession, key: str, default: str = "false") -> bool:
    """Whether a setting is on, `default` where it is not set."""
    return (setting_of(spark, key) or default).lower() == "true"


def require_values_as_text(spark: SparkSession, given: Mapping[str, Any] | Iterable[Any] | None) -> None:
    """UnsupportedError for values that cannot stand in a statement as literals: where these have no escapes, there is
    none for a quote."""
    values = given.values() if isinstance(given, Mapping) else given or ()
    flat = [one for value in values for one in (value if isinstance(value, (list, tuple)) else [value])]
    odd = [one for one in flat if isinstance(one, str) and quote_text(one) != f"'{one}'"]
    if odd and is_set(spark, _ESCAPED):
        raise UnsupportedError(
            f"a value with quotes or backslashes in a statement that is not a query, while '{_ESCAPED}' is on",
            value=odd[0],
            remedy=f"SET {_ESCAPED} = false",
        )


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
    return once(spark, _SETTINGS, partial(_asked, spark))


def _asked(spark: SparkSession) -> Mapping[str, str]:
    """`spark.conf.getAll`, which on classic Spark costs 10 to 25 ms: PySpark walks a Java map until an exception ends
    it, and compares that with fourteen classes, which Java looks for in all of Spark's jars each time. So Java is asked
    whether what was set last still is, a tenth of a millisecond, and else the walk ends where the map does."""
    java = getattr(spark.conf, "_jconf", None)
    if java is None:  # Spark Connect, which asks once for all of them
        return dict(spark.conf.getAll)
    now, (before, told) = java.getAllAsJava(), _found.get(spark, (None, {}))
    if before is None or not now.equals(before):
        told = {key: now[key] for key in islice(now.keySet(), len(now))}
        _found[spark] = now, told
    return told


def substituted(spark: SparkSession, text: str) -> str:
    """The text with values in the places of `${name}`, as Spark's parser has it before it reads anything: those of the
    session's settings, nothing for a name that is not set, of the environment and of Java's properties for `${env:…}`
    and `${system:…}`. It stays as it is where the session says so.

    Raises: InvalidError for a value that refers to itself.
    Source: `org.apache.spark.sql.internal.VariableSubstitution`
    """
    if "${" not in text or str(spark.conf.get("spark.sql.variable.substitute", "true")).lower() != "true":
        return text
    return _filled(spark, text, ())


def _filled(spark: SparkSession, text: str, within: tuple[str, ...]) -> str:
    def value(found: re.Match[str]) -> str:
        kind, name = found.groups()
        reference = found.group()[2:-1]
        stands: str | None = None
        if reference in within:
            raise InvalidError("a variable refers to itself", variable=reference, remedy="set another value")
        if kind in _OF_SESSION:
            stands = spark.conf.get(name, "")
        elif kind in _OF_JAVA:
            asked = f"SELECT java_method('java.lang.System', '{_OF_JAVA[kind]}', {quote_text(name)})"
            told = str(spark.sql(asked).collect()[0][0])
            stands = None if told == "null" else told
        return found.group() if stands is None else _filled(spark, stands, (*within, reference))

    return _REFERENCE.sub(value, text)
