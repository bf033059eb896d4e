"""Persistent views of the catalog in queries: a view's name becomes its query, in brackets, as the user could write it.

    SELECT v.id FROM db.v WHERE …    ->    SELECT v.id FROM (SELECT * FROM (
                                           <the view's query, its tables named in full>
                                           ) AS __view(`id`)) AS `v` WHERE …

The names in a view's query are those of the database that the view is in. What a table of the lake, a temp view or a
common table expression hides is none. Catalogs without views are asked nothing.

A view keeps the names of its columns, which go by place. A star gives what its tables have today: columns that came
behind the view's are left out, and where others stand in their places the view is refused.

Spec: docs/catalogs.md#views
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from bucketlake.catalogs.names import written
from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.file_names import parts_of
from bucketlake.spark.settings import is_case_sensitive
from bucketlake.sql.query.qualified import token_pieces
from bucketlake.sql.query.travel import travels
from bucketlake.sql.query.tree import named_tables, parsed_of
from bucketlake.sql.text import names
from bucketlake.sql.text.cursor import sample_end
from bucketlake.sql.text.tokens import explain_length, splice, tokenize
from bucketlake.types.model import quote_identifier
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.catalogs.model import View
    from bucketlake.spark.session import Lake

DEEPEST = 20  # views over views
DIALECT = "spark"


@dataclass(frozen=True, slots=True)
class Use:
    """A table's name in a query: its parts, where they stand, and whether it has an alias."""

    parts: tuple[str, ...]
    start: int
    end: int
    aliased: bool


Names = Callable[[str], Sequence[str] | None]  # of the columns that a query has today; None: it has none


def with_views(lake: Lake, statement: str, names_of: Names | None = None, seen: tuple[str, ...] = ()) -> str:
    """The statement with each persistent view's query in its place."""
    pieces = view_pieces(lake, statement, names_of, seen)
    return splice(statement, pieces) if pieces else statement


def view_pieces(
    lake: Lake, statement: str, names_of: Names | None = None, seen: tuple[str, ...] = ()
) -> list[tuple[int, int, str]]:
    """What is spliced into a statement for the persistent views that it names. Without `names_of` the columns of views
    are not looked at: the text is not for Spark."""
    if lake.catalog.metastore.kind == "filesystem":
        return []
    pieces = []
    bare: dict[tuple[int, int], names.LakeName] = {}
    for use in uses(lake, statement):
        found = _view(lake, use.parts, lake.current_database)
        if found is None:
            continue
        full, view = found
        if full in seen or len(seen) >= DEEPEST:
            raise InvalidError("a view is made of itself, or of too many", view=full, views=[*seen, full])
        pieces.append((use.start, use.end, f"({_query(lake, full, view, names_of, (*seen, full))})"))
        behind = _clause_end(statement, use, full)
        if not use.aliased:
            pieces.append((behind, behind, f" AS {quote_identifier(use.parts[-1])}"))
            bare[use.start, use.end] = names.LakeName(parts_of(full)[0], use.parts[-1])
    if bare:
        pieces.extend(token_pieces(statement, bare, lake.catalog_names))
    return pieces


def _clause_end(statement: str, use: Use, full: str) -> int:
    """Where a view's name ends, with a TABLESAMPLE clause behind it; UnsupportedError for AS OF."""
    for travel in travels(statement, tokenize(statement)):
        if travel.start >= use.end and not statement[use.end : travel.start].strip():
            remedy = "write it behind a table that the view's query names"
            raise UnsupportedError(f"{travel.kind.upper()} AS OF of a view", view=full, remedy=remedy)
    return sample_end(statement, use.end) or use.end


def _query(lake: Lake, full: str, view: View, names_of: Names | None, seen: tuple[str, ...]) -> str:
    """A view's query as it stands in another database: its names in full, views among them resolved."""
    database = parts_of(full)[0]
    own = text_of(view)
    if not _is_closed(own):
        raise InvalidError(
            "a view's text is not a whole query", view=full, remedy="make it anew: CREATE OR REPLACE VIEW"
        )
    told = with_views(lake, in_full(lake, own, database), names_of, seen)
    columns = [item.name for item in view.fields]
    if not columns:
        return told
    today = names_of(told) if names_of is not None and has_star(own) else None
    later = 0 if today is None else columns_behind(full, columns, today, is_case_sensitive(lake.spark))
    listed = ", ".join(map(quote_identifier, columns))
    behind = "".join(f", `__behind_{place}`" for place in range(later))
    return f"SELECT {listed if later else '*'} FROM (\n{told}\n) AS __view({listed}{behind})"


def has_star(query: str) -> bool:
    """Whether the columns of a query may be those that its tables have, whatever these are."""
    tokens = tokenize(query)
    whole = [token.is_word("TABLE") or token.is_word("FROM") for token in tokens[:1]]
    starred = (
        token.value == "*" and (before.value in (",", ".") or before.value.upper() in ("SELECT", "DISTINCT", "ALL"))
        for before, token in pairwise(tokens)
        if token.kind == "sign"
    )
    return any(whole) or any(starred) or any(token.is_word("TABLE") for token in tokens)


def columns_behind(full: str, columns: Sequence[str], today: Sequence[str], sensitive: bool) -> int:
    """How many columns a view's query has today behind the view's own. A view has its query's names, or a name of its
    own for every column, or for those that are called alike; InvalidError for what else stands in their places."""
    own, now = ([name if sensitive else name.lower() for name in each] for each in (columns, today))
    renamed = [other for one, other in zip(own, now, strict=False) if one != other]
    named = not set(own).intersection(now) or all(now.count(other) > 1 for other in renamed)
    if len(now) < len(own) or (renamed and (len(now) > len(own) or not named)):
        raise InvalidError(
            "a view's query has other columns than the view",
            view=full,
            columns=list(columns),
            query=list(today),
            remedy="CREATE OR REPLACE VIEW, with the columns in place of the star",
        )
    return len(now) - len(own)


def text_of(view: View) -> str:
    """The view's text for Spark: its own dialect before the one for all."""
    return view.dialects.get(DIALECT) or view.query


def _is_closed(query: str) -> bool:
    """Whether a text stays within the brackets that it is put into."""
    depth = 0
    try:
        tokens = tokenize(query)
    except InvalidError:  # a literal or comment that does not end
        return False
    for token in tokens:
        if token.kind not in ("string", "quoted"):
            depth += (token.value == "(") - (token.value == ")")
            if depth < 0 or token.value == ";":
                return False
    return depth == 0


def in_full(lake: Lake, query: str, database: str) -> str:
    """A query whose bare names of tables and views of a database are said in full; where names of two parts are those
    of Spark's catalog, with the lake's."""
    pieces = []
    catalog = (lake.catalog_names[0],) if lake.in_spark_catalog else ()
    for use in uses(lake, query):
        if len(use.parts) > 1 + len(catalog):
            continue
        *given, own = use.parts
        place = given or [database]
        name = f"{quote_identifier(place[0])}.{quote_identifier(own.split('$')[0])}"
        if lake.catalog.table_exists(name) or lake.catalog.view(name) is not None:
            pieces.append((use.start, use.end, ".".join(map(quote_identifier, (*catalog, *place, own)))))
    return splice(query, pieces) if pieces else query


def _view(lake: Lake, parts: tuple[str, ...], database: str) -> tuple[str, View] | None:
    """The view that a name means, and what it is called in full; None for what is no view."""
    if lake.in_spark_catalog and len(parts) < 3:
        return None
    if len(parts) == 3 and parts[0].lower() in lake.catalog_names:
        parts = parts[1:]
    if len(parts) > 2 or any("$" in part or "/" in part or "." in part for part in parts):
        return None
    if len(parts) == 1 and names.is_temp_view(lake, parts[0]):
        return None
    full = written(*(parts if len(parts) == 2 else (database, parts[0])))
    found = lake.catalog.view(full)
    return None if found is None else (full, found)


def uses(lake: Lake, statement: str) -> Iterator[Use]:
    """The tables that a statement names, in their order."""
    plain = _without_explain(statement)
    parsed = parsed_of(plain)
    tree = None if parsed is None else parsed.tree
    found = named_tables(plain, tree, is_case_sensitive(lake.spark))
    for one in sorted(found, key=lambda item: item.start):
        if one.table:
            yield Use(one.parts, one.start, one.end, one.node is not None and bool(one.node.alias))


def _without_explain(statement: str) -> str:
    """The statement with EXPLAIN and its mode blanked, so that places stay."""
    tokens = tokenize(statement)
    count = explain_length(tokens)
    end = tokens[count - 1].end if count else 0
    return " " * end + statement[end:]
