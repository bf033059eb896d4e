"""CREATE, DROP, SHOW and DESCRIBE of persistent views, where the catalog stores them (SQL and REST catalogs).

A view is its columns and its text. Bare names in the text are of the view's own database; where a statement is written
in another one, they are stored in full.

Spec: docs/catalogs.md#views
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from bucketlake.catalogs.model import View
from bucketlake.errors import InvalidError, NotFoundError
from bucketlake.spark import actions
from bucketlake.spark.instants import of_session
from bucketlake.spark.settings import is_case_sensitive
from bucketlake.spark.types import field_types
from bucketlake.sql.query import query
from bucketlake.sql.query.views import DIALECT, columns_behind, has_star, in_full, text_of, uses, with_views
from bucketlake.sql.text import names
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.printed import quoted_if_needed
from bucketlake.sql.text.tokens import splice, tokenize
from bucketlake.types.instants import local_fields
from bucketlake.types.model import quote_identifier, quote_text, type_text
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake


@dataclass(frozen=True, slots=True)
class ViewText:
    """What a CREATE VIEW says."""

    parts: tuple[str, ...]
    query: str
    columns: tuple[tuple[str, str | None], ...]
    comment: str | None
    options: Mapping[str, str]
    replace: bool
    if_not_exists: bool


def read_view(statement: str) -> ViewText:
    """A CREATE VIEW statement; InvalidError where it is none to its end."""
    cursor = Cursor(statement)
    cursor.expect("CREATE")
    replaces = cursor.accept("OR", "REPLACE")
    cursor.expect("VIEW")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    parts = cursor.name()
    columns = cursor.bracketed(lambda: view_column(cursor)) if cursor.sees("(") else []
    comment: str | None = None
    options: dict[str, str] = {}
    while not cursor.sees("AS"):
        if cursor.accept("COMMENT"):
            comment = cursor.string()
        elif cursor.accept("TBLPROPERTIES"):
            options.update(cursor.options())
        else:
            cursor.fail("clause is not part of CREATE VIEW")
    cursor.expect("AS")
    if replaces and if_not_exists:
        cursor.fail("CREATE VIEW with both IF NOT EXISTS and REPLACE is not allowed")
    return ViewText(
        parts, cursor.query("CREATE VIEW … AS").strip(), tuple(columns), comment, options, replaces, if_not_exists
    )


def view_column(cursor: Cursor) -> tuple[str, str | None]:
    """A column of a view, and its comment."""
    name = cursor.identifier()
    return name, cursor.string() if cursor.accept("COMMENT") else None


def stores_views(lake: Lake) -> bool:
    """Whether the catalog has a place for views."""
    return lake.catalog.metastore.kind != "filesystem"


def place_of(lake: Lake, parts: tuple[str, ...]) -> names.LakeName | None:
    """The lake's name for a view, None for one of Spark's own."""
    if lake.in_spark_catalog and len(parts) < 3:
        return None
    if len(parts) > 3 or (len(parts) == 3 and parts[0].lower() not in lake.catalog_names):
        return None
    if len(parts) == 2 and not lake.catalog.database_exists(parts[0]):
        return None
    return names.target(lake, parts)


def create(lake: Lake, told: ViewText, name: names.LakeName) -> None:
    """Store the view; AlreadyExistsError where its name is taken."""
    if told.if_not_exists and lake.catalog.view(name.full) is not None:
        return
    for use in uses(lake, told.query):
        if len(use.parts) == 1 and names.is_temp_view(lake, use.parts[0]):
            raise InvalidError(
                "a persistent view cannot be made from a temporary one", view=name.full, temporary=use.parts[0]
            )
    _refuse_functions(lake, told.query, name)
    with_views(lake, told.query, seen=(name.full,))  # raises for one that would be made of itself
    made = query.run(lake, told.query)
    fields = list(field_types(made.schema, as_declared=True))
    fields = local_fields(fields) if of_session(lake.spark) else fields
    if told.columns:
        if len(told.columns) != len(fields):
            raise InvalidError(
                "the view names a different number of columns than its query has",
                columns=[column for column, _ in told.columns],
                query=[item.name for item in fields],
            )
        if has_star(told.query):
            columns_behind(
                name.full, [column for column, _ in told.columns], made.columns, is_case_sensitive(lake.spark)
            )
        named = zip(fields, told.columns, strict=True)
        fields = [replace(item, name=column, description=comment) for item, (column, comment) in named]
    text = _stored(lake, told.query, name)
    view = View(tuple(fields), text, {DIALECT: text}, told.comment, dict(told.options))
    lake.catalog.create_view(name.full, view, told.replace, told.if_not_exists)


def _refuse_functions(lake: Lake, text: str, name: names.LakeName) -> None:
    """InvalidError for a query that calls a temporary function: other sessions have none, or another one."""
    tokens = tokenize(text)
    called = {token.value.strip("`").lower() for token, behind in pairwise(tokens) if behind.value == "("}
    own = {row[0].lower() for row in actions.rows(lake.spark.sql("SHOW USER FUNCTIONS"))} if called else set()
    found = sorted(called & own)  # those that a catalog keeps are listed by their whole names
    if found:
        raise InvalidError(
            "a persistent view cannot be made from a temporary function", view=name.full, temporary=found[0]
        )


def _stored(lake: Lake, text: str, name: names.LakeName) -> str:
    """A view's query as other sessions read it, whatever they call the catalog and which database is theirs: tables by
    `db.t`, those of the view's own database by `t` if it was written so."""
    pieces = []
    for use in uses(lake, text):
        known = len(use.parts) == 3 and use.parts[0].lower() in lake.catalog_names
        if lake.in_spark_catalog and len(use.parts) < 3:
            remedy = f"write {lake.catalog_names[0]}.db.table for a table of the lake"
            raise InvalidError(
                "names in the view's query are those of Spark's catalog now",
                view=name.full,
                name=".".join(use.parts),
                remedy=remedy,
            )
        if known:
            pieces.append((use.start, use.end, ".".join(map(quote_identifier, use.parts[1:]))))
    text = splice(text, pieces) if pieces else text
    own = lake.in_spark_catalog or name.database == lake.current_database
    return text if own else in_full(lake, text, lake.current_database)


def find(lake: Lake, name: names.LakeName) -> View | None:
    """The view of this name, None where the catalog has none."""
    return lake.catalog.view(name.full) if stores_views(lake) else None


def columns(view: View) -> list[tuple[str, str, str | None]]:
    """Rows of DESCRIBE: name, type and comment of every column."""
    return [(item.name, type_text(item.type), item.description) for item in view.fields]


def details(view: View, name: names.LakeName) -> list[tuple[str, str, str | None]]:
    """What DESCRIBE EXTENDED adds, as Paimon's connector says it."""
    options = ", ".join(f"{key}={value}" for key, value in sorted(view.options.items()))
    return [
        ("", "", ""),
        ("# Detailed View Information", "", ""),
        ("Name", name.full, ""),
        ("Comment", view.comment or "", ""),
        ("View Text", text_of(view), ""),
        ("View Query Output Columns", f"[{', '.join(item.name for item in view.fields)}]", ""),
        ("View Properties", f"[{options}]", ""),
    ]


def statement(view: View, name: names.LakeName) -> str:
    """The CREATE VIEW that makes the view anew."""

    def lines(items: Iterable[str]) -> str:
        return "(\n  " + ",\n  ".join(items) + ")\n"

    text = f"CREATE VIEW {quoted_if_needed(name.database)}.{quoted_if_needed(name.table)} "
    text += lines(
        quoted_if_needed(item.name) + (f" COMMENT {quote_text(item.description)}" if item.description else "")
        for item in view.fields
    )
    if view.comment is not None:
        text += f"COMMENT {quote_text(view.comment)}\n"
    if view.options:
        text += "TBLPROPERTIES " + lines(f"{quote_text(k)} = {quote_text(v)}" for k, v in sorted(view.options.items()))
    return f"{text}AS\n{text_of(view)}\n"


def drop(lake: Lake, parts: tuple[str, ...]) -> bool:
    """Remove the view of this name; False where the catalog has none."""
    name = place_of(lake, parts) if stores_views(lake) else None
    if name is None or lake.catalog.view(name.full) is None:
        return False
    try:
        lake.catalog.drop_view(name.full)
    except NotFoundError:
        return False
    return True


def listed(lake: Lake, database: str, pattern: str) -> list[tuple[str, str, bool]]:
    """Rows of SHOW VIEWS: the database's persistent views whose names match `[LIKE] 'pattern'`."""
    if not stores_views(lake):
        return []
    cursor = Cursor(pattern)
    cursor.accept("LIKE")
    wanted = cursor.string() if not cursor.done else "*"
    alternatives = [re.escape(part.strip()).replace(r"\*", ".*") for part in wanted.split("|")]
    match = re.compile("|".join(alternatives), re.IGNORECASE)
    return [(database, name, False) for name in lake.catalog.list_views(database) if match.fullmatch(name)]
