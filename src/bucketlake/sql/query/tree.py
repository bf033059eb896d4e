"""Which tables a statement names, and where: by the parser's tree, and by the tokens alone where there is none."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import takewhile, zip_longest

from sqlglot import exp
from sqlglot.tokens import TokenType

from bucketlake.sql.query.parser import Parsed, parse
from bucketlake.sql.query.travel import FOLLOWS
from bucketlake.sql.text.clauses import Clauses
from bucketlake.sql.text.cursor import Cursor
from bucketlake.sql.text.tokens import Token, tokenize
from bucketlake.values import dataclass

_PARSED = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "INSERT", "CREATE", "(")

_STRICT = (  # Spark's keywords that name no table (`strictNonReserved`)
    *("ANTI", "CROSS", "EXCEPT", "FULL", "INNER", "INTERSECT", "JOIN", "LATERAL", "LEFT", "NATURAL", "ON", "RIGHT"),
    *("SEMI", "MINUS", "UNION", "USING"),
)


@dataclass(frozen=True, slots=True)
class Named:
    """What stands where a table may: the name's parts, where they start and end, its node with its alias if it has one.
    `table`: it is no common table expression and no function, as far as the text tells."""

    parts: tuple[str, ...]
    start: int
    end: int
    node: exp.Table | None
    table: bool


def parsed_of(statement: str) -> Parsed | None:
    """The statement's tree; None for what sqlglot does not know, merges as it reads, or takes for a clause where Spark
    reads a name."""
    first = tokenize(statement)[:1]
    if not first or first[0].value.upper() not in _PARSED or "|>" in statement:
        return None
    found = parse(statement)
    return None if found is None or any(_unlike_spark(found)) else found


def _unlike_spark(parsed: Parsed) -> Iterator[bool]:
    """FETCH, ASOF JOIN, AS that no name follows, TABLESAMPLE without brackets: to Spark, the words are aliases."""
    yield parsed.tree.find(exp.Fetch) is not None
    yield any(join.method == "ASOF" for join in parsed.tree.find_all(exp.Join))
    for token, behind in zip_longest(parsed.tokens, parsed.tokens[1:]):
        if token.token_type is TokenType.ALIAS:
            yield behind is None or behind.token_type in (TokenType.R_PAREN, TokenType.COMMA)
        elif token.token_type is TokenType.TABLE_SAMPLE:
            yield behind is None or behind.token_type is not TokenType.L_PAREN


def lists_predicates(statement: str, tree: exp.Expr | None) -> bool:
    """Whether EXISTS or IN of a query may stand elsewhere than in WHERE: in a list of columns."""
    if tree is None:
        return any(_asks_query(tokenize(statement)))
    return any(
        isinstance(node.args.get("query") if isinstance(node, exp.In) else node.this, exp.Query) and not _in_where(node)
        for node in tree.find_all(exp.Exists, exp.In)
    )


def _asks_query(tokens: Sequence[Token]) -> Iterator[bool]:
    for at, token in enumerate(tokens):
        if token.is_word("EXISTS") or token.is_word("IN"):
            inside = list(takewhile(lambda item: item.value == "(", tokens[at + 1 : at + 9]))
            after = tokens[at + 1 + len(inside) : at + 2 + len(inside)]
            yield bool(inside and after) and after[0].value.upper() in _PARSED


def _in_where(node: exp.Expr) -> bool:
    """Whether a node belongs to a condition on rows: WHERE, not that of an aggregate's FILTER."""
    found = node.find_ancestor(exp.Where, exp.Query)
    return isinstance(found, exp.Where) and not isinstance(found.parent, exp.Filter)


def named_tables(statement: str, tree: exp.Expr | None, sensitive: bool = False) -> Iterator[Named]:
    """What a statement has where tables may stand. `sensitive`: names differ in case. Names in hints are none.
    None as a tree: what follows FROM, JOIN and commas, and Spark says what is wrong with the rest."""
    clauses = Clauses(tokenize(statement), sensitive)
    return _of_tokens(statement, clauses) if tree is None else _of_tree(tree, clauses)


def _of_tree(tree: exp.Expr, clauses: Clauses) -> Iterator[Named]:
    for node in tree.find_all(exp.Table):
        found = [part for part in node.parts if isinstance(part, exp.Identifier)]
        if len(found) != len(node.parts) or not found or not all("start" in part.meta for part in found):
            continue
        if node.find_ancestor(exp.Hint) is not None:
            continue  # BROADCAST(t): a name of the query, and its place counts from the hint
        parts, start = tuple(part.name for part in found), found[0].meta["start"]
        yield Named(parts, start, found[-1].meta["end"] + 1, node, not clauses.is_cte(parts, start))


def _of_tokens(statement: str, clauses: Clauses) -> Iterator[Named]:
    cursor = Cursor(statement)
    script = cursor.sees("BEGIN") or [token.value for token in cursor.tokens[1:3]] == [":", "BEGIN"]
    follows = FOLLOWS | {"DO"} if script else FOLLOWS  # FOR r AS SELECT … FROM t DO …
    listed = [False]  # of each bracket that is open: whether a comma goes on with FROM's list
    expects = False
    while not cursor.done:
        at = cursor.at
        if cursor.sees("("):
            expects = expects and not clauses.opens_query(at + 1)
            listed.append(False)
        elif cursor.sees(")"):
            listed = listed[:-1] or [False]
        elif expects and cursor.tokens[at].kind in ("word", "quoted") and not cursor.sees("LATERAL"):
            expects = False
            yield _named(cursor, clauses, follows)
            continue
        elif clauses.is_from(at):
            listed[-1] = expects = True
        else:
            expects = cursor.sees("JOIN") or (listed[-1] and cursor.sees(","))  # LATERAL names no table
            listed[-1] = listed[-1] and not clauses.ends_from(at)
        cursor.at += 1


def _named(cursor: Cursor, clauses: Clauses, follows: Collection[str]) -> Named:
    """The name at the cursor, and its alias."""
    start = cursor.tokens[cursor.at].start
    parts = cursor.name()
    end = cursor.tokens[cursor.at - 1].end
    table = not cursor.sees("(") and not clauses.is_cte(parts, start)
    cursor.sample()  # it stands between a name and its alias
    return Named(parts, start, end, _alias(cursor, follows), table)


def _alias(cursor: Cursor, follows: Collection[str]) -> exp.Table | None:
    """The alias that stands at the cursor, stepped over. `follows`: words that are none, unless nothing follows them
    that they could begin: in `FROM t LIMIT` it is one, as in Spark's grammar."""
    token, behind = cursor.peek(), cursor.peek(1)
    if token is None or token.kind not in ("word", "quoted"):
        return None
    ends = behind is None or (behind.kind == "sign" and behind.value in (")", ",", ";"))
    named = token.kind == "quoted" or (ends and token.value.upper() not in _STRICT)
    if not named and not cursor.accept("AS") and token.value.upper() in follows:
        return None
    if not cursor.done:
        cursor.at += 1
    name = exp.to_identifier("x")
    name.meta["end"] = cursor.tokens[cursor.at - 1].end - 1  # as sqlglot tells it
    return exp.Table(this=exp.to_identifier("x"), alias=exp.TableAlias(this=name))
