"""The forms of INSERT: alone, behind WITH, and behind FROM, where several may follow that share it.

    INSERT [WITH SCHEMA EVOLUTION] {INTO | OVERWRITE [INTO]} [TABLE] t [WITH ('k' = 'v', …)] [PARTITION (…)]
        [BY NAME | (columns)] query
    INSERT [WITH SCHEMA EVOLUTION] INTO [TABLE] t [WITH (…)] [BY NAME] REPLACE WHERE condition query
    [WITH …] INSERT … ; [WITH …] FROM … {INSERT … SELECT …} …

Spec: docs/sql/insert.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from bucketlake.errors import InvalidError
from bucketlake.sql.query import query
from bucketlake.sql.rows.insert import Insert
from bucketlake.sql.text import names
from bucketlake.sql.text.cursor import Cursor, option_hints
from bucketlake.sql.text.parsed import NO_TABLE, Statement
from bucketlake.sql.text.tokens import QUERIES, Token, blank, splice, tokenize
from bucketlake.sql.text.verbs import EVOLUTION, is_insert
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake


def parse(cursor: Cursor) -> Statement | None:
    """Read an INSERT to its end; None for INSERT OVERWRITE DIRECTORY, Spark's own statement over files."""
    cursor.expect("INSERT")
    read = _insert(cursor)
    if read is None:
        return None
    found, hints = read
    found.query, found.named = _without_defaults(blank(cursor.rest(), hints))
    return found


def parse_led(cursor: Cursor) -> Statement | None:
    """Read a statement that WITH or FROM leads: None where no INSERT follows, which is a query then."""
    tokens = cursor.tokens
    outside = list(_outside(cursor))
    places = [at for at in outside if is_insert(tokens, at)]
    if not places:
        return None
    if len(places) > 1 and not any(tokens[at].is_word("FROM") for at in outside if at < places[0]):
        cursor.at = places[1]
        cursor.fail("a second INSERT needs a FROM that both share")
    starts = [tokens[at].start for at in places]
    spans = list(zip(starts, [*starts[1:], len(cursor.text)], strict=True))
    found = [_branch(cursor.text, start, [span for span in spans if span[0] != start]) for start, _ in spans]
    cursor.at = len(tokens)
    if len(found) > 1:
        return Branches(found)
    cursor.subject = found[0].parts
    return found[0].insert


def _branch(text: str, start: int, others: list[tuple[int, int]]) -> Branch:
    """The INSERT at a place, read as if the others were not there."""
    alone = Cursor(blank(text, [(0, start), *others]))
    alone.expect("INSERT")
    read = _insert(alone)
    first = alone.peek()
    if read is None or first is None:
        raise InvalidError(
            "SQL: INSERT OVERWRITE DIRECTORY behind WITH or FROM", remedy="make it a statement by itself"
        )
    found, hints = read
    whole = blank(text, others)
    body = blank(whole, [(start, first.start), *hints]).rstrip().rstrip(";")
    if first.is_word("WITH"):  # a query of its own, beside the names that stand before INSERT
        body = f"{body[: first.start - 1]}({body[first.start :]})"
    found.query, found.named = _without_defaults(body)
    return Branch(found, alone.subject or (), whole)


def _outside(cursor: Cursor) -> Iterator[int]:
    """The places of the tokens that stand in no bracket."""
    depth = 0
    for at, token in enumerate(cursor.tokens):
        if token.kind == "sign":
            depth += token.value.count("(") - token.value.count(")")
        elif depth == 0:
            yield at


@dataclass(slots=True)
class Branch:
    """One of the INSERTs that share a FROM; `statement`: as if it stood alone."""

    insert: Insert
    parts: tuple[str, ...]
    statement: str


@dataclass(slots=True)
class Branches:
    """INSERTs that share a FROM: all read what there was before the first of them wrote, and commit one by one."""

    branches: list[Branch]

    def run(self, lake: Lake, _name: names.LakeName = NO_TABLE) -> None:
        """One commit each, in order; those into Spark's own tables are Spark's."""
        found: list[Callable[[], object]] = []
        places = [names.find(lake, branch.parts) for branch in self.branches]
        for branch, name in zip(self.branches, places, strict=True):
            if name is None and names.is_sparks(lake, branch.parts):
                found.append(partial(query.run, lake, branch.statement))
                continue
            # What replaces the rows that it is made of is refused beside another writer: nothing is done twice here.
            alone = name is not None and [place.full for place in places if place is not None].count(name.full) == 1
            name = name or names.target(lake, branch.parts)
            found.append(branch.insert.prepared(lake, name, branch.insert.made_of(lake, name) if alone else None))
        for write in found:
            write()


def _insert(cursor: Cursor) -> tuple[Insert, list[tuple[int, int]]] | None:
    """Read from behind INSERT up to the query, which is left, and where hints stand before it; None for a DIRECTORY."""
    evolves = cursor.accept(*EVOLUTION)
    overwrite = cursor.accept("OVERWRITE")
    if overwrite and (cursor.sees("DIRECTORY") or cursor.sees("LOCAL", "DIRECTORY")):
        return None
    if not overwrite:
        cursor.expect("INTO")
    else:
        cursor.accept("INTO")
    cursor.accept("TABLE")
    cursor.table()
    found = Insert(overwrite, evolves=evolves)
    head = cursor.tokens[cursor.at - 1].end
    if cursor.sees("WITH", "("):
        cursor.expect("WITH")
        found.options.update(cursor.options())
    if cursor.accept("PARTITION"):
        found.partition = _partition(cursor)
    if cursor.accept("IF", "NOT", "EXISTS"):
        cursor.fail("Cannot write, IF NOT EXISTS is not supported for lake tables")
    if cursor.accept("BY", "NAME"):
        found.by_name = True
    elif cursor.sees("(") and not _query_follows(cursor):
        found.columns = cursor.names()
    if cursor.sees("REPLACE", "ON") or cursor.sees("REPLACE", "USING"):
        cursor.fail("INSERT … REPLACE ON and USING are not supported on lake tables; use MERGE, or DELETE and INSERT")
    if cursor.accept("REPLACE", "WHERE"):
        if overwrite or found.partition is not None or found.columns is not None:
            cursor.fail("REPLACE WHERE goes with INSERT INTO, without PARTITION and a column list")
        found.replaced = cursor.expression(*QUERIES)
    cursor.expect_query("INSERT")
    start = cursor.tokens[cursor.at].start
    own = [hint for hint in option_hints(cursor.text, cursor.tokens) if head <= hint.start < start]
    for hint in own:
        found.options.update(hint.options)
    return found, [(hint.start, hint.end) for hint in own]


def _partition(cursor: Cursor) -> dict[str, str | None]:
    spec: dict[str, str | None] = {}

    def pair() -> None:
        name = cursor.identifier()
        if name in spec:
            cursor.fail(f"partition column {name} is given twice", condition="DUPLICATE_KEY")
        spec[name] = cursor.constant()[0] if cursor.accept("=") else None

    cursor.bracketed(pair)
    return spec


def _query_follows(cursor: Cursor) -> bool:
    """Whether the bracket here opens a query rather than a column list."""
    ahead = 1
    while (token := cursor.peek(ahead)) is not None and token.value == "(":
        ahead += 1
    return token is not None and any(token.is_word(word) for word in QUERIES)


def _without_defaults(query_text: str) -> tuple[str, str]:
    """VALUES and the list of a SELECT with NULL for the word DEFAULT: a null becomes its column's default. Then the
    text as it was, if a column may be called so: what the SELECT reads may have one; else an empty one."""
    tokens, depth = tokenize(query_text), 0
    values: bool | None = None  # whether the query is VALUES, once its first word outside of brackets is met
    row = False  # whether the brackets here are those of a row, not a call's
    pieces = []
    for at, token in enumerate(tokens):
        if token.kind == "sign":
            row = row if depth else tokens[at - 1].value == "," or tokens[at - 1].is_word("VALUES")
            depth += token.value.count("(") - token.value.count(")")
        elif values is None:
            if depth == 0 and (token.is_word("VALUES") or token.is_word("SELECT")):
                values = token.is_word("VALUES")
        elif not values and depth == 0 and (token.is_word("FROM") or token.is_word("WHERE")):
            break
        elif token.is_word("DEFAULT") and depth == int(row and bool(values)) and _stands_alone(tokens, at, values):
            pieces.append((token.start, token.end, "NULL".ljust(token.end - token.start)))
    return splice(query_text, pieces), query_text if pieces and not values else ""


def _stands_alone(tokens: Sequence[Token], at: int, values: bool) -> bool:
    """Whether the word is a whole item of a row of VALUES, or of the list of a SELECT."""
    before, after = tokens[at - 1], tokens[at + 1] if at + 1 < len(tokens) else None
    if values:
        return before.value in ("(", ",") and after is not None and after.value in (")", ",")
    ends = after is None or after.value == "," or any(map(after.is_word, ("FROM", "WHERE", "AS")))
    return ends and (before.value == "," or before.is_word("SELECT"))
