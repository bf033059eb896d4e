"""Statements that the table language has not: Spark's own go to Spark, but none about a table of the lake does."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.sql.text import habits, names
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.tokens import QUERIES, Token, explain_length

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake

# Statements whose table names are found by themselves, or that name none.
_READS = frozenset(
    ["SELECT", "WITH", "FROM", "VALUES", "TABLE", "EXPLAIN", "MAP", "REDUCE", "SET", "RESET", "ADD", "LIST", "CLEAR"]
)
_BEFORE = ("TABLE", "INTO", "ON")
# That name a table, or make one.
_NAMING = frozenset(
    ["ALTER", "ANALYZE", "CREATE", "DESC", "DESCRIBE", "DROP", "REFRESH", "REPLACE", "SHOW", "TRUNCATE"]
)
EXPLAINED = "EXPLAIN takes queries, INSERT, UPDATE, DELETE, MERGE and CREATE TABLE … AS"
# Between such a verb and the table.
_LEADS = frozenset(
    [
        *("INTO", "FROM", "IN", "TABLE", "OVERWRITE", "OR", "REPLACE", "IF", "NOT", "EXISTS"),
        *("EXTENDED", "FORMATTED", "CREATE", "COLUMNS", "PARTITIONS", "TAGS", "TBLPROPERTIES"),
    ]
)


def refuse_unknown(lake: Lake, statement: str, tokens: list[Token]) -> None:
    """UnsupportedError for a statement that is not known here and names a table of the lake where tables stand.
    Spark reads a misspelt one, and says where it is wrong."""
    first = tokens[0]
    if first.kind != "word" or first.value.upper() in _READS or habits.misspelt(statement):
        return
    cursor = Cursor(statement)
    word = cursor.next().value.upper()
    while not cursor.done:
        before = cursor.tokens[cursor.at - 1]
        token = cursor.peek()
        stands = cursor.at == 1 or (before.kind == "word" and before.value.upper() in _BEFORE)
        if token is None or token.kind not in ("word", "quoted") or not stands:
            cursor.at += 1
            continue
        try:
            parts = cursor.name()
        except InvalidError:
            return
        found = names.find(lake, parts)
        if found is not None:
            remedy = habits.remedy(statement)
            if remedy is not None and "'" not in found.full:
                remedy = remedy.replace("'t'", f"'{found.full}'")
            raise UnsupportedError(f"{word} on a lake table", table=found.full, remedy=remedy)


def refuse_folder(lake: Lake, path: Any, holds: bool = True) -> None:
    """UnsupportedError for a lake table's folder, and those in it: files of Spark's own would end the table, or lie
    there unread. `holds`: for the folders of a database and of the warehouse, too, which an overwrite would empty."""
    if not isinstance(path, str):
        return
    tables = (names.of_folder(lake, folder) for folder in names.table_folders(path))
    table = next((found for found in tables if found is not None), None)
    if table is not None:
        remedy = 'write to the table: INSERT INTO, .format("paimon") before .save, or saveAsTable with its name'
        raise UnsupportedError("files of another format in a lake table", table=table.full, remedy=remedy)
    if holds and names.holds_tables(lake, path):
        remedy = "write to a folder that holds no tables"
        raise UnsupportedError("files of another format where the lake has its tables", folder=path, remedy=remedy)


def refuse_directory(lake: Lake, statement: str) -> None:
    """UnsupportedError for an INSERT OVERWRITE DIRECTORY into a lake table's folder."""
    before = ""
    for token in takewhile(lambda token: token.value.upper() not in QUERIES, Cursor(statement).tokens):
        if token.kind == "string":
            refuse_folder(lake, token.value, holds=before in ("DIRECTORY", "PATH"))
        if token.value != "=":
            before = token.value.upper()


def refuse_like(lake: Lake, statement: str) -> None:
    """UnsupportedError for a table of Spark's own that is to be LIKE one of the lake, whose catalog Spark has not."""
    cursor = Cursor(statement)
    if not cursor.accept("CREATE"):
        return
    cursor.accept("EXTERNAL")
    if not cursor.accept("TABLE"):
        return
    cursor.accept("IF", "NOT", "EXISTS")
    made = cursor.name()
    found = names.find(lake, cursor.name()) if cursor.accept("LIKE") else None
    if found is not None:
        raise UnsupportedError(
            "CREATE TABLE … LIKE a lake table, as a table of Spark's own",
            table=".".join(made),
            like=found.full,
            remedy=f"CREATE TABLE {'.'.join(made)} USING parquet AS SELECT * FROM {found.full} LIMIT 0",
        )


def refuse_explained(lake: Lake, statement: str) -> None:
    """UnsupportedError for EXPLAIN of what makes, alters or describes a table of the lake: Spark does not know it."""
    cursor = Cursor(statement)
    cursor.at = explain_length(cursor.tokens)
    verb = cursor.peek()
    if verb is None or verb.value.upper() not in _NAMING:
        return
    cursor.next()
    while (token := cursor.peek()) is not None and token.value.upper() in _LEADS:
        cursor.next()
    try:
        found = names.find(lake, cursor.name())
    except InvalidError:
        return
    if found is not None:
        raise UnsupportedError(
            f"EXPLAIN of {verb.value.upper()} on a lake table",
            table=found.full,
            remedy=EXPLAINED,
        )
