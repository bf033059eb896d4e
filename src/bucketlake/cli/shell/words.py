"""What may come next at the prompt: keywords, tables, columns, procedures and their arguments, options.

Known(catalog)                 names of the warehouse, looked up once a prompt
suggestions(before, known)     (what, how it is shown) for the text before the cursor; never an error
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from bucketlake.errors import BucketlakeError
from bucketlake.lazy import lazy

if TYPE_CHECKING:
    from bucketlake.catalog import Catalog
    from bucketlake.ops.system import registry
    from bucketlake.options import options
    from bucketlake.sql.procedures import catalogue
    from bucketlake.sql.text import printed
else:
    printed = lazy("bucketlake.sql.text.printed")
    registry = lazy("bucketlake.ops.system.registry")
    catalogue = lazy("bucketlake.sql.procedures.catalogue")
    options = lazy("bucketlake.options.options")

_LISTED = (
    "ADD COLUMN,ALTER TABLE,ANALYZE TABLE,AND,AS,BETWEEN,BY,CALL,CASE,CAST,COMPUTE STATISTICS,COUNT,"
    "CREATE DATABASE,CREATE TABLE,CREATE TAG,DELETE FROM,DESC,DESCRIBE,DISTINCT,DROP DATABASE,DROP TABLE,ELSE,"
    "END,EXISTS,EXPLAIN,FROM,FULL JOIN,GROUP BY,HAVING,IF EXISTS,IF NOT EXISTS,IN,INNER JOIN,INSERT INTO,"
    "INSERT OVERWRITE,IS NOT NULL,IS NULL,JOIN,LEFT JOIN,LIKE,LIMIT,MERGE INTO,NOT,NULL,ON,OR,ORDER BY,OVER,"
    "PARTITION,PARTITIONED BY,RENAME COLUMN,SELECT,SET,SHOW CREATE TABLE,SHOW DATABASES,SHOW PARTITIONS,"
    "SHOW TABLES,SHOW TBLPROPERTIES,TBLPROPERTIES,THEN,TIMESTAMP AS OF,TRUNCATE TABLE,UNION ALL,UPDATE,USE,"
    "USING,VALUES,VERSION AS OF,WHEN,WHEN MATCHED THEN,WHEN NOT MATCHED THEN,WHERE,WITH"
)
KEYWORDS = tuple(_LISTED.split(","))
_WORD = re.compile(r"[\w.$`]*\Z")
_KEY = re.compile(r"'([\w.-]*)\Z")
_TABLE_NEXT = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE|TABLE|DESCRIBE|DESC|OVERWRITE|USING)\s+[\w.$`]*\Z", re.IGNORECASE)
_DATABASE_NEXT = re.compile(r"\b(?:USE|DATABASE|SCHEMA|TABLES\s+IN)\s+\w*\Z", re.IGNORECASE)
_CALL_NEXT = re.compile(r"\bCALL\s+[\w.]*\Z", re.IGNORECASE)
_ARGUMENT_NEXT = re.compile(r"\bCALL\s+(?:\w+\.)?sys\.(\w+)\s*\((?:[^()']|'[^']*')*?(\w*)\Z", re.IGNORECASE)
_OPTION_NEXT = re.compile(r"\b(?:TBLPROPERTIES|OPTIONS|WITH|UNSET)\s*\((?:[^()']|'[^']*')*'[\w.-]*\Z", re.IGNORECASE)
_USED = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE|TABLE|USING)\s+((?:`[^`]*`|[\w.$])+)", re.IGNORECASE)


class Known:
    """Names of a warehouse as of this prompt. `database`: of names without one."""

    def __init__(self, catalog: Catalog, database: Callable[[], str]) -> None:
        self._catalog, self._database = catalog, database
        self._tables: dict[str, list[str]] = {}
        self._columns: dict[str, list[str]] = {}

    @cached_property
    def databases(self) -> list[str]:
        """All databases."""
        return _safely(lambda: [*self._catalog.list_databases(), "sys"])

    def tables(self, database: str | None = None) -> list[str]:
        """The tables of a database."""
        wanted = database or self._database()
        if wanted not in self._tables:
            self._tables[wanted] = _safely(lambda: self._catalog.list_tables(wanted))
        return self._tables[wanted]

    def columns(self, table: str) -> list[str]:
        """The columns of a table."""
        name = table.replace("`", "")
        full = name if "." in name else f"{self._database()}.{name}"
        if full not in self._columns:
            self._columns[full] = _safely(lambda: list(self._catalog.table(full).schema.field_names))
        return self._columns[full]


def _safely(look: Callable[[], list[str]]) -> list[str]:
    try:
        return look()
    except (BucketlakeError, OSError, ValueError):
        return []


def word_before(text: str) -> str:
    """The piece of text that a suggestion replaces."""
    key = _KEY.search(text)
    if key is not None and _OPTION_NEXT.search(text):
        return key.group(1)
    found = _WORD.search(text)
    return found.group() if found else ""


def suggestions(text: str, known: Known) -> Iterator[tuple[str, str]]:
    """What may stand in the place of `word_before(text)`, the text before the cursor, with a word on what it is."""
    before = word_before(text)
    start = before.replace("`", "").lower()
    for name, kind in _found(text, before, known):
        plain = name.replace("`", "").lower()
        if plain.startswith(start) and plain != start:
            yield name, kind


def _quoted(*parts: str) -> str:
    """A name as SQL takes it."""
    return ".".join(printed.quoted_if_needed(part) for part in parts)


def _found(text: str, before: str, known: Known) -> Iterator[tuple[str, str]]:
    if _OPTION_NEXT.search(text):
        yield from ((key, options.OPTIONS[key].kind) for key in sorted(options.OPTIONS))
        return
    argument = _ARGUMENT_NEXT.search(text)
    if argument is not None:
        procedure = catalogue.PROCEDURES.get(argument.group(1).lower())
        if procedure is not None:
            yield from ((f"{one.name} => ", one.kind) for one in procedure.arguments)
        return
    if _CALL_NEXT.search(text):
        yield from ((f"sys.{name}(", "procedure") for name, one in sorted(catalogue.PROCEDURES.items()) if one.run)
        return
    if _DATABASE_NEXT.search(text):
        yield from ((_quoted(name), "database") for name in known.databases)
        return
    if _TABLE_NEXT.search(text):
        yield from _tables(before, known)
        return
    used = list(_USED.findall(text))
    if "." in before:
        alias = before.partition(".")[0]
        named = [name for name in used if name.rpartition(".")[2].strip("`").lower() == alias.lower()]
        for name in named or used:
            yield from ((f"{alias}.{_quoted(column)}", "column") for column in known.columns(name))
        return
    for name in dict.fromkeys(used):
        yield from ((_quoted(column), "column") for column in known.columns(name))
    if before:
        yield from ((word, "") for word in KEYWORDS)


def _tables(before: str, known: Known) -> Iterator[tuple[str, str]]:
    database, dot, short = before.replace("`", "").rpartition(".")
    parts = (database,) if dot else ()
    table, dollar, _ = short.partition("$")
    if dollar:
        yield from ((_quoted(*parts, f"{table}${name}"), "system table") for name in registry.NAMES)
        return
    yield from ((_quoted(*parts, name), "table") for name in known.tables(database or None))
    if not dot:
        yield from ((f"{_quoted(name)}.", "database") for name in known.databases)
