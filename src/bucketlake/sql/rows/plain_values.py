"""Rows of VALUES that are plain literals, without Spark, which takes longer to hand them back than it takes to write.

What is read here means one thing whatever the session has set, and fits its column by each rule of store assignment
that casts. All else, and all that is wrong, is Spark's to read and to speak of.

Spec: docs/sql/insert.md#values
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bucketlake.errors import BucketlakeError
from bucketlake.schema.default import default_scalar
from bucketlake.spark.arrow_rows import arrow_layout
from bucketlake.sql.text import lexemes
from bucketlake.sql.text.tokens import Token, tokenize
from bucketlake.types.model import MAX_LENGTH, Root

if TYPE_CHECKING:
    from bucketlake.schema.schema import TableSchema
    from bucketlake.types.model import DataField, DataType

MOST_TOKENS = 1_000_000  # of a statement; Spark's parser takes longer for each than the loop here
_INT, _LONG = 2**31 - 1, 2**63 - 1
_LIMITS = {Root.TINYINT: 2**7, Root.SMALLINT: 2**15, Root.INT: 2**31, Root.BIGINT: 2**63}
_DIGITS = 15  # of each side of a decimal's point: what Spark makes of a column of such is no longer than 38, and exact
_DAY = re.compile(r"[12][0-9]{3}-[0-9]{2}-[0-9]{2}")
_ODD = re.compile(r"/\*|--|\$\{|[\x00\ud800-\udfff]")  # hints, comments, variables, what is no text
_NULLS = (  # of which any may be null, or missing
    *_LIMITS,
    Root.BOOLEAN,
    Root.FLOAT,
    Root.DOUBLE,
    Root.DECIMAL,
    Root.CHAR,
    Root.VARCHAR,
    Root.BINARY,
    Root.VARBINARY,
    Root.DATE,
    Root.TIMESTAMP,
    Root.TIMESTAMP_LTZ,
)
Value = int | Decimal | str | bool | dt.date | None


def rows_of(tokens: Sequence[Token], text: str, listed: Sequence[str], schema: TableSchema) -> pa.Table | None:
    """The rows of `VALUES (literal, …), …`, as `conform` makes them, for these columns of the table in order; None
    where Spark has to read them. `tokens`: all of the statement, which is `text`."""
    if not tokens or not tokens[0].is_word("VALUES") or len(tokens) > MOST_TOKENS or _ODD.search(text):
        return None
    found = _rows(tokens, text)
    if found is None or any(len(row) != len(listed) for row in found):
        return None
    given = dict(zip(listed, zip(*found, strict=True), strict=True))
    layout = arrow_layout(schema.fields)
    arrays = []
    for item, stored in zip(schema.fields, layout, strict=True):
        values = given.get(item.name, (None,) * len(found))
        array = _column(values, item, stored.type)
        if array is None:
            return None
        arrays.append(array)
    return pa.Table.from_arrays(arrays, schema=layout)


def constants_of(texts: Mapping[str, str], schema: TableSchema) -> dict[str, pa.Scalar] | None:
    """What columns of the table are set to, by their names, of texts that are plain literals; None where one is not."""
    found: dict[str, pa.Scalar] = {}
    layout = arrow_layout(schema.fields)
    for name, text in texts.items():
        if _ODD.search(text):
            return None
        tokens, item = tokenize(text), schema.field(name)
        read = _literal(tokens, 0, text)
        if read is None or read[1] != len(tokens) or item.type.root not in _MADE:
            return None
        if read[0] is None and item.default is not None:
            return None
        array = _column([read[0]], item, layout.field(name).type)
        if array is None:
            return None
        found[name] = array[0]
    return found


def _column(values: Sequence[Value], item: DataField, kind: pa.DataType) -> pa.Array | None:
    """The values in a column of the table, its default for nulls; None where Spark has to make them."""
    some = [value for value in values if value is not None]
    made = _of_type(some, item.type)
    if made is None or (len(some) < len(values) and item.type.root not in _NULLS):
        return None
    each = iter(made)
    array = pa.array([None if value is None else next(each) for value in values], kind)
    if array.null_count and item.default is not None:
        try:
            array = array.fill_null(default_scalar(item).cast(kind)) if item.type.root in _MADE else None
        except (BucketlakeError, pa.ArrowInvalid):
            return None
    return array if array is None or item.type.nullable or not array.null_count else None


def _rows(tokens: Sequence[Token], text: str) -> list[list[Value]] | None:
    """Read the whole statement; None for anything else in it."""
    found: list[list[Value]] = []
    at = 1
    while True:
        if not _is_sign(tokens, at, "("):
            return None
        row: list[Value] = []
        while True:
            read = _literal(tokens, at + 1, text)
            if read is None:
                return None
            value, at = read
            row.append(value)
            if _is_sign(tokens, at, ")"):
                break
            if not _is_sign(tokens, at, ","):
                return None
        found.append(row)
        at += 1
        if at == len(tokens):
            return found
        if not _is_sign(tokens, at, ","):
            return None
        at += 1


def _is_sign(tokens: Sequence[Token], at: int, sign: str) -> bool:
    return at < len(tokens) and tokens[at].kind == "sign" and tokens[at].value == sign


def _literal(tokens: Sequence[Token], at: int, text: str) -> tuple[Value, int] | None:
    """The literal at a place and where the next token is; None for anything else."""
    negative = _is_sign(tokens, at, "-")
    at += negative
    if at >= len(tokens):
        return None
    token = tokens[at]
    source = text[token.start : token.end]
    if token.kind == "number":
        number = lexemes.number(source, "-" if negative else "")
        return None if number is None or isinstance(number, float) else (number, at + 1)
    if negative:
        return None
    if token.kind == "string":
        told = _text(source)
        return None if told is None else (told, at + 1)
    word = token.value.upper() if token.kind == "word" else ""
    if word in ("TRUE", "FALSE"):
        return word == "TRUE", at + 1
    if word == "NULL":
        return None, at + 1
    if word == "DATE" and at + 1 < len(tokens) and tokens[at + 1].kind == "string":
        day = _day(_text(text[tokens[at + 1].start : tokens[at + 1].end]))
        return None if day is None else (day, at + 2)
    return None


def _text(source: str) -> str | None:
    """What a literal in single quotes means: by a setting two of them within are none, and a backslash is a letter."""
    return lexemes.string(source) if source[:1] == "'" and "''" not in source[1:-1] else None


def _day(text: str | None) -> dt.date | None:
    if text is None or not _DAY.fullmatch(text):
        return None
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        return None


def _of_type(values: list[Any], kind: DataType) -> list[Any] | None:
    """The values of one column, none of them null, as its type has them; None where Spark has to make them."""
    if not values:
        return values
    made = _MADE.get(kind.root)
    return None if made is None else made(values, kind)


def _whole(values: list[Any], kind: DataType) -> list[Any] | None:
    limit = _LIMITS[kind.root]
    wide = _LONG if kind.root is Root.BIGINT else _INT  # literals that are longer are no INT, or no BIGINT
    fits = all(type(value) is int and abs(value) <= wide and -limit <= value < limit for value in values)
    return values if fits else None


def _exact(values: list[Any], kind: DataType) -> list[Decimal] | None:
    whole, scale = (kind.precision or 0) - (kind.scale or 0), kind.scale or 0
    found = [_decimal(value) for value in values]
    if any(value is None or _places(value) > scale or abs(value) >= 10**whole for value in found):
        return None
    return [value for value in found if value is not None]


def _real(values: list[Any], _kind: DataType) -> list[float] | None:
    found = [_decimal(value) for value in values]
    # A DECIMAL has no zero below zero.
    return None if None in found else [float(value) + 0.0 for value in found if value is not None]


def _decimal(value: Any) -> Decimal | None:
    """An INT, BIGINT or DECIMAL literal that no column of such makes Spark round."""
    if type(value) is int:
        value = Decimal(value)
    if not isinstance(value, Decimal) or abs(value) >= 10**_DIGITS or _places(value) > _DIGITS:
        return None
    return value


def _places(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    return -exponent if isinstance(exponent, int) and exponent < 0 else 0


def _texts(values: list[Any], kind: DataType) -> list[Any] | None:
    return values if kind.length == MAX_LENGTH and all(isinstance(value, str) for value in values) else None


def _truths(values: list[Any], _kind: DataType) -> list[Any] | None:
    return values if all(isinstance(value, bool) for value in values) else None


def _days(values: list[Any], _kind: DataType) -> list[Any] | None:
    if all(isinstance(value, str) for value in values):
        values = [_day(value) for value in values]
    return values if all(isinstance(value, dt.date) for value in values) else None


_MADE: dict[Root, Callable[[list[Any], DataType], list[Any] | None]] = {
    **dict.fromkeys(_LIMITS, _whole),
    Root.DECIMAL: _exact,
    Root.DOUBLE: _real,
    Root.VARCHAR: _texts,
    Root.BOOLEAN: _truths,
    Root.DATE: _days,
}
