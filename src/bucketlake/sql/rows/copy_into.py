"""COPY INTO, as Paimon's Spark connector has it:

    COPY INTO t [(columns)] FROM 'folder' FILE_FORMAT = (TYPE = CSV, …) [PATTERN = '…'] [FORCE = TRUE]
        [ON_ERROR = ABORT_STATEMENT | CONTINUE | SKIP_FILE]
    COPY INTO 'folder' FROM {t | (query)} FILE_FORMAT = (TYPE = CSV, …) [OVERWRITE = TRUE]

Spec: docs/sql/copy-into.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.spark.copy.export import RESULT as EXPORTED
from bucketlake.spark.copy.export import export
from bucketlake.spark.copy.formats import FileFormat, Value
from bucketlake.spark.copy.load import ABORT, CONTINUE, RESULT, SKIP_FILE, Load, load
from bucketlake.sql.query import query
from bucketlake.sql.query.travel import session_options
from bucketlake.sql.text import names
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.parsed import Statement
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.spark.session import Lake

_READING = ("SELECT", "VALUES", "TABLE", "WITH", "FROM", "(")
_CHANGING = ("INSERT", "MERGE", "UPDATE", "DELETE")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}


@dataclass(frozen=True, slots=True)
class _Load:
    request: Load

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame:
        """At most one commit; a row a file."""
        table = lake.table(name.full).table.with_options(session_options(lake, name)).for_writing()
        return lake.spark.createDataFrame(load(lake.spark, table, self.request), RESULT)


@dataclass(frozen=True, slots=True)
class _Export:
    target: str
    query: str
    format: FileFormat
    overwrite: bool

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame:
        """The folder, its files and rows."""
        frame = query.run(lake, self.query)
        row = export(frame, self.target, self.format, self.overwrite, lake.catalog.warehouse)
        return lake.spark.createDataFrame([row], EXPORTED)


def parse(cursor: Cursor) -> Statement:
    """Read a COPY INTO."""
    cursor.expect("COPY")
    cursor.expect("INTO")
    token = cursor.peek()
    return _export(cursor) if token is not None and token.kind == "string" else _load(cursor)


def _load(cursor: Cursor) -> Statement:
    cursor.table()
    columns = cursor.names() if cursor.sees("(") else None
    cursor.expect("FROM")
    source, form = _string(cursor), _format(cursor)
    pattern = _string(cursor) if _clause(cursor, "PATTERN") else None
    force = _flag(cursor) if _clause(cursor, "FORCE") else False
    on_error = ABORT
    if _clause(cursor, "ON_ERROR"):
        on_error = cursor.identifier().upper()
        if on_error not in (ABORT, CONTINUE, SKIP_FILE):
            raise UnsupportedError(f"ON_ERROR = {on_error}", remedy=f"use {ABORT}, {CONTINUE} or {SKIP_FILE}")
    form.reader_options()
    return _Load(Load(source, form, columns, pattern, force, on_error))


def _export(cursor: Cursor) -> Statement:
    target = _string(cursor)
    cursor.expect("FROM")
    start = cursor.tokens[cursor.at].start if not cursor.done else 0
    if cursor.accept("("):
        if cursor.accept(")"):
            raise InvalidError(
                "COPY INTO <location> FROM (<query>) requires a non-empty query", remedy="write a SELECT in brackets"
            )
        text = cursor.expression(")")
        cursor.expect(")")
        _refuse_changes(text)
    else:
        cursor.name()
        text = f"SELECT * FROM {cursor.text[start : cursor.tokens[cursor.at - 1].end]}"
    form = _format(cursor)
    overwrite = _flag(cursor) if _clause(cursor, "OVERWRITE") else False
    form.writer_options()
    return _Export(target, text, form, overwrite)


def _refuse_changes(text: str) -> None:
    """InvalidError for what is no query: it would run once more than it was asked for."""
    tokens = Cursor(text).tokens
    depth, words = 0, []
    for token in tokens:
        depth += (token.value == "(") - (token.value == ")") if token.kind == "sign" else 0
        if depth == 0 and token.kind == "word":
            words.append(token.value.upper())
    first = tokens[0].value.upper()
    if first not in _READING or (first in ("WITH", "FROM") and any(word in words for word in _CHANGING)):
        raise InvalidError(f"COPY INTO <location> FROM (<query>) only supports read-only queries: {text}")


def _clause(cursor: Cursor, word: str) -> bool:
    if not cursor.accept(word):
        return False
    cursor.expect("=")
    return True


def _flag(cursor: Cursor) -> bool:
    if not (cursor.sees("TRUE") or cursor.sees("FALSE")):
        cursor.fail("expected TRUE or FALSE")
    return cursor.next().value.upper() == "TRUE"


def _format(cursor: Cursor) -> FileFormat:
    """`FILE_FORMAT = (key = value, …)`."""
    cursor.expect("FILE_FORMAT")
    cursor.expect("=")
    given: dict[str, Value] = {}

    def option() -> None:
        key = cursor.identifier().upper()
        if key in given:
            raise InvalidError(f"Duplicate FILE_FORMAT option: {key}", remedy="give each option once")
        cursor.expect("=")
        given[key] = _value(cursor)

    cursor.expect("(")
    cursor.listed(option)
    if not cursor.sees(")"):
        cursor.fail("expected , or )", "write commas between options, and values of several words as texts")
    cursor.expect(")")
    return FileFormat.of(given)


def _value(cursor: Cursor) -> Value:
    token = cursor.peek()
    if cursor.sees("("):
        return tuple(cursor.bracketed(lambda: _string(cursor)))
    if token is not None and token.kind == "string":
        return _string(cursor)
    if token is None or token.kind == "sign":
        cursor.fail("expected a value")
    value = cursor.next().value
    return value.upper() if value.upper() in ("TRUE", "FALSE") else value


def _string(cursor: Cursor) -> str:
    """A literal as Paimon's parser reads it: a backslash stays before what it does not escape, so that `'.*\\.csv'` and
    `'\\N'` are what they look like."""
    cursor.string()
    token = cursor.tokens[cursor.at - 1]
    source = cursor.text[token.start : token.end]
    mark, inner = source[0], source[1:-1]
    if mark not in "'\"":
        return token.value
    found, at = [], 0
    while at < len(inner):
        sign, after = inner[at], inner[at + 1 : at + 2]
        if sign == "\\" and (after in _ESCAPES or after == mark):
            found.append(_ESCAPES.get(after, after))
            at += 2
        elif sign == mark and after == mark:
            found.append(mark)
            at += 2
        else:
            found.append(sign)
            at += 1
    return "".join(found)
