"""The door of `lake.sql`: the first word of a statement says which room reads it.

A room only reads: what it makes of the text is run by `parsed.execute`, once the text was read to its end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from bucketlake.errors import AlreadyExistsError, BucketlakeError, InvalidError, NotFoundError
from bucketlake.options.model import ENGINE
from bucketlake.options.options import find_option
from bucketlake.options.session import PREFIXES, refuse_slip
from bucketlake.spark.handed import given_to
from bucketlake.spark.raised import RaisedError, StatementSyntaxError, as_sparks, interrupts_stay, of_task
from bucketlake.spark.settings import (
    require_quotes,
    require_running,
    require_values_as_text,
    setting_of,
    settings_stay,
    substituted,
)
from bucketlake.sql import compound, explained
from bucketlake.sql.procedures import call
from bucketlake.sql.query import as_written, current, immediate, query, unknown
from bucketlake.sql.query.given import Braces, read_braces, sparks_values, with_identifiers, with_travels, with_values
from bucketlake.sql.query.retold import retold, with_condition
from bucketlake.sql.rows import copy_into, delete, insert_forms, merge_forms, row_forms, update
from bucketlake.sql.tables import alter, analyze, ddl, describe, foreign, show, views
from bucketlake.sql.text import names
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.habits import told_place
from bucketlake.sql.text.parsed import Parse, Statement, execute
from bucketlake.sql.text.plain import before_quotes, with_quoted
from bucketlake.sql.text.scripts import split_statements
from bucketlake.sql.text.tokens import Token, past_comments, splice, tokenize
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.spark.session import Lake

_ROWS = ("DELETE", "UPDATE", "MERGE", "WITH", "EXPLAIN")
_QUERIES = ("WITH", "FROM", "EXPLAIN")  # that may begin a query, or a statement
# Statements that Spark never sees: what their literals mean is decided here.
_UNSEEN = ("ALTER", "ANALYZE", "CALL", "COMMENT", "COPY", "DESC", "DESCRIBE", "DROP", "SHOW", "TRUNCATE")
# Keys that Flink users set out of habit; they say nothing about a batch on Spark.
_FLINK_PREFIXES = (
    "execution.",
    "parallelism.",
    "table.",
    "sql-client.",
    "pipeline.",
    "state.",
    "taskmanager.",
    "restart-strategy",
)
_OPTION = re.compile(
    r"\s*(?P<word>SET|RESET)\s+(?P<key>spark\.(?:paimon|bucketlake)\.[^\s=`;'\"]+)(?:\s*=\s*(?P<value>[^;]*?))?\s*;?\s*",
    re.IGNORECASE | re.DOTALL,
)


def run(lake: Lake, statement: str, args: Any = None, given: Mapping[str, Any] | None = None) -> DataFrame:
    """Run one statement: Spark SQL where Spark has it, and the table language. Statements that yield no rows
    return an empty DataFrame, as Spark's own do. `args` binds `:name` and `?` markers, `given` what stands in braces:
    DataFrames, columns and values, as `spark.sql` takes them by name."""
    require_running(lake.spark)
    args = sparks_values(args) if args else args
    if not given:
        statement = substituted(lake.spark, statement)
    is_script = not given and compound.is_compound(statement)
    statements = [statement] if is_script else split_statements(statement)
    if len(statements) != 1:
        remedy = "call sql once a statement, or use sql_script" if statements else "there is none in the text"
        raise InvalidError("SQL: expected one statement", found=len(statements), remedy=remedy)
    written = past_comments(statements[0])
    text = with_quoted(written)
    try:
        mark = lake.catalog.env.clock.new_uuid().replace("-", "") if given else ""
        if is_script:  # its statements are read by themselves, by the settings of their time
            return compound.run(lake, text, args)
        with settings_stay(), interrupts_stay():
            told = given_to(lake.spark, given, mark) if given else {}
            result = _run(lake, text, args, read_braces(text, told, mark) if given else None)
    except PySparkException as error:
        found = of_task(error) or retold(error, text, unknown.meant_function(lake, error))
        if found is None:
            raise
        if isinstance(found, StatementSyntaxError) and not given and tokenize(text)[0].value.upper() in _ROWS:
            whole = as_written.syntax_error(lake, text)  # parts of these are read by themselves, in brackets
            found = found if whole is None else retold(whole, text) or found
        if isinstance(found, RaisedError) and text != written and found.place is not None:
            end = before_quotes(written, found.place + found.length)
            found.place = before_quotes(written, found.place)
            found.length = end - found.place
            found.point(written, 0)
        raise found from None  # the one that Spark raised is of a text that the user did not write
    except BucketlakeError as error:
        if isinstance(error, (NotFoundError, AlreadyExistsError)):
            with_condition(error, text)
        own = as_sparks(_as_written(error, text, written))
        if own is error:
            raise
        raise own.with_traceback(error.__traceback__) from None
    return result if result is not None else lake.nothing


def _as_written(error: BucketlakeError, text: str, written: str) -> BucketlakeError:
    """An error about `text`, names with `$` in backticks, as one about what was written; others as they are."""
    told = dict(error.details)
    if text == written:
        return error
    if told.get("statement") == text:
        told["statement"] = written
    line, column = told.get("line"), told.get("column")
    if isinstance(line, int) and isinstance(column, int):
        place = sum(map(len, text.splitlines(keepends=True)[: line - 1])) + column - 1
        if all(told.get(key) == value for key, value in told_place(text, place).items()):
            told.update(told_place(written, before_quotes(written, place)))
    return error if told == error.details else type(error)(error.what, remedy=error.remedy, **told)


def _run(lake: Lake, statement: str, args: Any, braces: Braces | None) -> DataFrame | None:
    if braces is not None:
        statement = substituted(lake.spark, braces.text)
    statement, args = with_identifiers(statement, args, partial(_text, lake, args))
    statement, args = with_travels(statement, args)
    tokens = tokenize(statement)
    led = any(tokens[0].is_word(word) for word in ("WITH", "EXPLAIN")) and any(map(_is_merge, tokens))
    if led or _is_merge(tokens[0]):
        statement = splice(statement, current.pieces(lake, statement))  # its conditions and values are no queries
        tokens = tokenize(statement)
    braces = None if braces is None else replace(braces, text=statement)

    def read() -> DataFrame:
        if tokens[0].is_word("CREATE"):
            foreign.refuse_like(lake, statement)
        if tokens[0].is_word("EXPLAIN"):
            foreign.refuse_explained(lake, statement)
        if tokens[0].is_word("INSERT"):
            foreign.refuse_directory(lake, statement)
        return query.run(lake, statement, args, given=braces)

    first = tokens[0]
    parse = ROOMS.get(first.value.upper()) if first.kind == "word" else None
    if parse is None:
        foreign.refuse_unknown(lake, statement, tokens)
        return read()
    if first.value.upper() in _UNSEEN:
        literals = [statement[one.start : one.end] for one in tokens if one.kind == "string" and one.value]
        require_quotes(lake.spark, literals)
    if not args and braces is None:
        return execute(lake, statement, parse, read)
    if first.value.upper() in _QUERIES and parse(Cursor(statement)) is None:
        return read()
    for values in (args, None if braces is None else braces.given):
        require_values_as_text(lake.spark, values)
    with nullcontext(statement) if braces is None else braces.named(lake.spark) as named:
        return execute(lake, with_values(named, args), parse, read)


def _is_merge(token: Token) -> bool:
    return token.is_word("MERGE")


def _text(lake: Lake, args: Any, expression: str) -> Any:
    """What a constant expression gives; None where Spark does not know it."""
    try:
        return lake.spark.sql(f"SELECT ({expression})", args if isinstance(args, Mapping) else None).collect()[0][0]
    except PySparkException:
        return None


@dataclass(frozen=True, slots=True)
class _Set:
    key: str
    value: str | None

    def run(self, lake: Lake, name: names.LakeName) -> None:
        if self.key.startswith(_FLINK_PREFIXES):
            return
        if self.value is None:
            lake.spark.conf.unset(self.key)
            return
        _refuse_other_catalogs(lake, self.key)
        _refuse_slip(lake, self.key)
        lake.spark.conf.set(self.key, self.value)


def _refuse_other_catalogs(lake: Lake, key: str) -> None:
    """InvalidError for an option of a table in a catalog that nobody knows: it would say nothing to any table."""
    own = next((key[len(prefix) :] for prefix in PREFIXES if key.startswith(prefix)), "")
    catalog, *place = own.split(".", 3)
    if len(place) < 3 or catalog == "*" or catalog.lower() in lake.catalog_names:
        return
    if find_option(own) is not None or find_option(place[2]) is None:
        return
    if setting_of(lake.spark, f"spark.sql.catalog.{catalog}") is None:
        remedy = f"the lake's is {lake.catalog_names[0]}, and * stands for any"
        raise InvalidError("an option of a table in no known catalog", option=key, catalog=catalog, remedy=remedy)


def _refuse_slip(lake: Lake, key: str) -> None:
    """InvalidError for a misspelt option of tables, before statements fail for it that say nothing of it."""
    own = next((key[len(prefix) :] for prefix in PREFIXES if key.startswith(prefix)), None)
    if own is None:
        return
    catalog, *place = own.split(".", 3)
    of_table = len(place) == 3 and (catalog == "*" or catalog.lower() in lake.catalog_names)
    refuse_slip(place[2] if of_table else own, key, remedy="")


def _set(cursor: Cursor) -> Statement | None:
    """`SET 'k' = 'v'` and `RESET 'k'`, Flink's spelling: its own keys are accepted without effect, options of tables
    are the session's for lake tables, others are Spark's; options of lake tables, whose keys need no quotes here; and
    SET CATALOG. Spark's spelling of others is Spark's."""
    option = _OPTION.fullmatch(cursor.text)
    if option is not None:
        cursor.at = len(cursor.tokens)
        reset = option["word"].upper() == "RESET"
        return _Set(option["key"], None if reset else option["value"]) if reset == (option["value"] is None) else None
    word = cursor.next()
    token = cursor.peek()
    if token is None or token.kind != "string":
        return ddl.set_catalog(cursor) if word.is_word("SET") else None
    key = cursor.string()
    if word.is_word("RESET"):
        return _Set(_session_key(key), None)
    cursor.expect("=")
    return _Set(_session_key(key), cursor.string())


def _session_key(key: str) -> str:
    """What a session calls the option that Flink sets: `paimon.<catalog>.<database>.<table>.<key>` of one table, its
    bare key of all."""
    if key.startswith("paimon."):
        return f"spark.{key}"
    option = find_option(key)
    return key if option is None or option.effect == ENGINE else f"spark.paimon.{key}"


ROOMS: dict[str, Parse] = {
    "CREATE": ddl.create,
    "DROP": ddl.drop,
    "ALTER": alter.alter,
    "TRUNCATE": ddl.truncate,
    "USE": ddl.use,
    "COMMENT": alter.comment_on,
    "REPLACE": ddl.replace_table,
    "CACHE": views.cache,
    "UNCACHE": views.uncache,
    "REFRESH": views.refresh,
    "INSERT": insert_forms.parse,
    "WITH": row_forms.parse_led,
    "EXPLAIN": explained.parse,
    "FROM": insert_forms.parse_led,
    "ANALYZE": analyze.analyze,
    "CALL": call.parse,
    "DELETE": delete.parse,
    "UPDATE": update.parse,
    "MERGE": merge_forms.parse,
    "SET": _set,
    "RESET": _set,
    "SHOW": show.show,
    "DESC": describe.describe,
    "DESCRIBE": describe.describe,
    "COPY": copy_into.parse,
    "EXECUTE": immediate.execute,
}
