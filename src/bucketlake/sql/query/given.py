"""What a caller hands over beside a statement's text: values for `:name` and `?`, and what braces stand for.

    read_braces("… FROM {df}", {"df": frame})    the text with names in the braces' places
    with_values(text, args)                      the text with literals in the markers' places
    with_identifiers(text, args)                 the text with names in the places of IDENTIFIER(…)

Queries reach Spark with both as they were given. Statements of the table language are read here: they see names of
temporary views for DataFrames, and literals for values.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from decimal import Decimal
from math import isfinite
from string import Formatter
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.sql.query.named import passing_views
from bucketlake.sql.query.travel import travels
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.tokens import Token, splice, tokenize
from bucketlake.types.model import quote_identifier, quote_text
from bucketlake.values import dataclass

_ROOT = re.compile(r"\w+")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MICROSECOND = dt.timedelta(microseconds=1)
_CONSTANT = {"CONCAT", "CONCAT_WS", "COALESCE", "FORMAT_STRING", "LOWER", "REPLACE", "SUBSTRING", "TRIM", "UPPER"}
_SIGNS = {"(", ")", ",", ".", ":", "|", "||"}
_BEYOND_DECIMALS = 10**38
_VALUES = (int, float, str, bytes, bytearray, Decimal, dt.date, dt.time, dt.timedelta, list, tuple, Mapping, Set)
_COLUMN = re.compile(r"\[([^\]]+)\]")


@dataclass(frozen=True, slots=True)
class Written:
    """A value as Spark's SQL writes it, with its type."""

    text: str


@dataclass(frozen=True, slots=True)
class Braces:
    """A text whose fields in braces are names instead. `fields`: what stood there, by the name that stands for it;
    `given`: what that means."""

    text: str
    fields: Mapping[str, str]
    given: Mapping[str, Any]

    def bound(self, text: str, frames: Mapping[str, DataFrame]) -> tuple[str, dict[str, Any]]:
        """The text for Spark with braces again, and what all of them mean: `frames` are those that stand in it as
        braces already, none: its braces are letters."""
        if not frames:
            text = text.replace("{", "{{").replace("}", "}}")
        for name, source in self.fields.items():
            text = text.replace(name, "{given_" + source + "}")
        return text, {**frames, **{f"given_{key}": value for key, value in self.given.items()}}

    def told(self, message: str) -> str:
        """What PySpark says of what stands in braces, by the user's names."""
        return re.sub(r"\bgiven_(?=\w)", "", message)

    @contextmanager
    def named(self, spark: SparkSession) -> Iterator[str]:
        """The text while its DataFrames are temporary views; values are literals in it."""
        text = self.text
        with passing_views(spark) as views:
            for name, source in self.fields.items():
                root = _root(source)
                value = self.given[root]
                if not _is_frame(value):
                    text = text.replace(name, literal(value, root))
                    continue
                column = _COLUMN.search(source)
                view = f"{name}_view" if column is None else next(n for n, s in self.fields.items() if s == root)
                if column is None:
                    views.append(view)
                    value.createOrReplaceTempView(view)
                    text = text.replace(name, view)
                else:
                    text = text.replace(name, f"{view}_view.`{column.group(1)}`")
            yield text


def read_braces(text: str, given: Mapping[str, Any], mark: str) -> Braces:
    """The statement with a name made of `mark` in place of each field; InvalidError for a field that is not given."""
    names: dict[str, str] = {}
    parts: list[str] = []
    try:
        pieces = list(Formatter().parse(text))
    except ValueError as error:
        raise InvalidError("SQL: braces do not pair", reason=str(error), remedy="write {{ for a brace") from error
    for plain, field, spec, conversion in pieces:
        parts.append(plain)
        if field is None:
            continue
        if spec or conversion or _root(field) not in given:
            known = ", ".join(sorted(given))
            raise InvalidError("SQL: nothing is given for a field in braces", field=field, given=known)
        for source in (_root(field), field):  # a column's table first
            names.setdefault(source, f"given_{mark}_{len(names)}_")
        parts.append(names[field])
    return Braces("".join(parts), {name: source for source, name in names.items()}, given)


def _root(field: str) -> str:
    found = _ROOT.match(field)
    return found.group() if found is not None else field


def _is_frame(value: Any) -> bool:
    return hasattr(value, "createOrReplaceTempView")


def with_values(text: str, args: Any) -> str:
    """The statement with literals in place of its markers; InvalidError for markers and values that do not match."""
    if not args:
        return text
    tokens = tokenize(text)
    by_name = isinstance(args, Mapping)
    values: Any = args if by_name else list(args)
    pieces: list[tuple[int, int, str]] = []
    used = 0
    for at, token in enumerate(tokens):
        if by_name and _is_marker(tokens, at) and tokens[at + 1].value in values:
            name = tokens[at + 1].value
            pieces.append((token.start, tokens[at + 1].end, literal(values[name], name)))
        elif not by_name and token.kind == "sign" and token.value == "?":
            if used == len(values):
                raise InvalidError("[UNBOUND_SQL_PARAMETER] SQL: more markers than values", values=len(values))
            pieces.append((token.start, token.end, literal(values[used], str(used + 1))))
            used += 1
    return splice(text, pieces)


def with_identifiers(text: str, args: Any, evaluated: Callable[[str], Any] = lambda _: None) -> tuple[str, Any]:
    """The statement with names in place of IDENTIFIER('name'), IDENTIFIER(:marker), IDENTIFIER(?), and the values that
    are left for its other markers. `evaluated`: what an expression of texts, named markers and variables gives, None
    where it gives no text. What else stands in such brackets is Spark's to evaluate."""
    tokens = tokenize(text) if "identifier" in text.lower() else []
    pieces: list[tuple[int, int, str]] = []
    spent: set[int] = set()
    marks = -1  # the place of the last `?`, from 0
    for at, token in enumerate(tokens):
        marks += _is_sign(tokens, at, "?")
        if not token.is_word("IDENTIFIER") or not _is_sign(tokens, at + 1, "(") or _is_sign(tokens, at - 1, "."):
            continue
        value, end = _stated(tokens, at + 2, args, marks + 1)
        if not _is_sign(tokens, end, ")"):
            end = _constant_until(tokens, at + 2)
            value = evaluated(text[tokens[at + 2].start : tokens[end - 1].end]) if end else None
        name = _dotted(value)
        if name is not None:
            pieces.append((token.start, tokens[end].end, name))
            spent.update([marks + 1] if _is_sign(tokens, at + 2, "?") else [])
    left = args if not spent else [value for at, value in enumerate(args) if at not in spent]
    return splice(text, pieces), left


def with_travels(text: str, args: Any) -> tuple[str, Any]:
    """The statement with literals in place of the markers behind AS OF, which say what is read before Spark sees any,
    and the values that are left for its other markers."""
    tokens = tokenize(text) if args and "of" in text.lower() else []
    spans = [(one.start, one.end) for one in travels(text, tokens)]
    pieces: list[tuple[int, int, str]] = []
    spent: set[int] = set()
    marks = -1  # the place of the last `?`, from 0
    for at, token in enumerate(tokens):
        marks += _is_sign(tokens, at, "?")
        if not any(start <= token.start < end for start, end in spans):
            continue
        value, behind = _marked(tokens, at, args, marks)
        if behind > at:
            end = tokens[behind - 1].end
            pieces.append((token.start, end, literal(value, text[token.start : end])))
            spent.update([] if isinstance(args, Mapping) else [marks])
    left = args if not spent else [value for at, value in enumerate(args) if at not in spent]
    return splice(text, pieces), left


def _constant_until(tokens: Sequence[Token], start: int) -> int:
    """Where the bracket closes of an expression that is the same for all rows; 0 for others."""
    depth = 0
    for at in range(start, len(tokens)):
        token = tokens[at]
        opens = token.kind == "word" and _is_sign(tokens, at + 1, "(")
        if token.is_word("SELECT") or (opens and token.value.upper() not in _CONSTANT):
            return 0
        if token.kind == "sign" and token.value not in _SIGNS:
            return 0
        depth += _is_sign(tokens, at, "(") - _is_sign(tokens, at, ")")
        if depth < 0:
            return at
    return 0


def _is_sign(tokens: Sequence[Token], at: int, sign: str) -> bool:
    return 0 <= at < len(tokens) and tokens[at].kind == "sign" and tokens[at].value == sign


def _stated(tokens: Sequence[Token], at: int, args: Any, place: int) -> tuple[Any, int]:
    """The value of a literal or of a marker, the one at `place` where it has no name, and where the token behind is."""
    if at < len(tokens) and tokens[at].kind == "string":
        return tokens[at].value, at + 1
    return _marked(tokens, at, args, place)


def _marked(tokens: Sequence[Token], at: int, args: Any, place: int) -> tuple[Any, int]:
    if isinstance(args, Mapping):
        known = at < len(tokens) and _is_marker(tokens, at) and tokens[at + 1].value in args
        return (args[tokens[at + 1].value], at + 2) if known else (None, at)
    return (args[place], at + 1) if args and _is_sign(tokens, at, "?") and place < len(args) else (None, at)


def _dotted(value: Any) -> str | None:
    """A text as Spark reads it for a name of several parts, quoted; None for what is none."""
    if not isinstance(value, str):
        return None
    try:
        cursor = Cursor(value)
        parts = cursor.name()
    except InvalidError:
        return None
    return ".".join(map(quote_identifier, parts)) if cursor.done else None


def marker_names(text: str) -> list[str]:
    """The names of the statement's `:name` markers, in their order."""
    tokens = tokenize(text)
    return list(dict.fromkeys(tokens[at + 1].value for at in range(len(tokens)) if _is_marker(tokens, at)))


def _is_marker(tokens: Sequence[Token], at: int) -> bool:
    """Whether `:name` starts here: not the path of a variant, `v:name`."""
    token = tokens[at]
    if token.kind != "sign" or token.value != ":" or at + 1 == len(tokens) or tokens[at + 1].kind != "word":
        return False
    before = tokens[at - 1] if at else None
    joined = before is not None and before.end == token.start and (before.kind != "sign" or before.value in (")", "]"))
    return tokens[at + 1].start == token.end and not joined


def _is_sparks(value: Any) -> bool:
    """Whether it is an object of PySpark's, a Column, which has every attribute and no truth."""
    return type(value).__module__.startswith("pyspark.")


def _plain(value: Any) -> Any:
    """Numbers, texts and arrays of numpy's, and a Timestamp of pandas', as Python's own; NaT is None."""
    if not _is_sparks(value) and getattr(getattr(value, "dtype", None), "kind", "") in tuple("biufUS"):
        return value.tolist()
    if isinstance(value, dt.datetime) and hasattr(value, "to_pydatetime"):
        return None if value != value else value.to_pydatetime(warn=False)
    return value


def sparks_values(args: Any) -> Any:
    """The values for a query's markers, as `functions.lit` takes them: numpy's and pandas' as Python's. InvalidError
    for what is no value of SQL's, of which Spark would speak as of an object without an attribute of its own."""
    if isinstance(args, Mapping):
        return {name: _sparks(value, str(name)) for name, value in args.items()}
    return [_sparks(value, str(at)) for at, value in enumerate(args, 1)] if isinstance(args, (list, tuple)) else args


def _sparks(value: Any, name: str) -> Any:
    if isinstance(value, list):
        return [_sparks(item, name) for item in value]
    if value is None or isinstance(value, Written) or _is_sparks(value) or getattr(value, "ndim", 0) > 0:
        return value
    value = _plain(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        if abs(value) >= _BEYOND_DECIMALS:
            raise InvalidError("no value of SQL's: an integer of more than 38 digits", parameter=name)
        return Decimal(value)  # as Spark reads such a literal
    if value is not None and not isinstance(value, _VALUES):
        remedy = "give a number, text, date, time or list of these"
        raise InvalidError("no value of SQL's", parameter=name, type=type(value).__name__, remedy=remedy)
    return value


def _zoned(value: dt.datetime, name: str) -> dt.datetime:
    try:
        return value if value.tzinfo is not None else value.astimezone()
    except (ValueError, OverflowError) as error:  # Python asks what the zone was a day before
        remedy = f"give it with a time zone, or as text: CAST(:{name} AS TIMESTAMP_NTZ)"
        raise InvalidError("the zone of so early or late a time is not known", parameter=name, remedy=remedy) from error


def literal(value: Any, name: str) -> str:
    """A Python value as Spark's SQL writes it, as `functions.lit` takes it."""
    if isinstance(value, Written):
        return value.text
    value = _plain(value)
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).upper()
    if isinstance(value, int):
        return f" {value}" if value < 0 else str(value)
    if isinstance(value, float):
        text = repr(value) + "D" if isfinite(value) else f"double('{value}')"
        return f" {text}" if text.startswith("-") else text
    if isinstance(value, str):
        return quote_text(value)
    if isinstance(value, (bytes, bytearray)):
        return f"X'{bytes(value).hex()}'"
    if isinstance(value, Decimal) and value.is_finite():
        return f" {value:f}BD" if value < 0 else f"{value:f}BD"
    if isinstance(value, dt.datetime):  # one without a zone is of this machine's, as in DataFrames
        return f"timestamp_micros({(_zoned(value, name) - _EPOCH) // _MICROSECOND})"
    if isinstance(value, dt.date):
        return f"DATE'{value.isoformat()}'"
    if isinstance(value, dt.time):
        return f"TIME'{value.isoformat()}'"
    if isinstance(value, dt.timedelta):
        seconds = Decimal(value.seconds) + Decimal(value.microseconds).scaleb(-6)
        return f"make_dt_interval({value.days}, 0, 0, {seconds:f}BD)"
    if isinstance(value, (list, tuple)):
        return f"array({', '.join(literal(item, name) for item in value)})"
    raise UnsupportedError(
        f"a {type(value).__name__} as a value in a statement that is not a query",
        parameter=name,
        remedy="give a number, text, date, time or list of these",
    )
