"""Which texts are scripts, `BEGIN … END`, and which of these only query.

Those that do are one statement to Spark, over tables of the lake as they are when it begins.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bucketlake.sql.text.scripts import opens_script
from bucketlake.sql.text.tokens import QUERIES, Token, tokenize

_FLOW = {
    *("BEGIN", "END", "DECLARE", "IF", "ELSE", "ELSEIF", "CASE", "WHEN", "WHILE", "UNTIL", "REPEAT", "LOOP", "FOR"),
    *("LEAVE", "ITERATE", "OPEN", "FETCH", "CLOSE", "SIGNAL", "RESIGNAL", "GET"),
}
_CHANGES = {"INSERT", "UPDATE", "DELETE", "MERGE"}  # behind the queries of a WITH
_OPENS = {"BEGIN", "DO", "LOOP"}  # a statement follows
_MAY_OPEN = {"THEN", "ELSE", "REPEAT"}  # a statement follows, or an expression
_EXPRESSIONS = {"NOT", "INTERVAL", "CASE"}  # that go on with a word of their own
_GOES_ON = {
    *("END", "ELSE", "WHEN", "AND", "OR", "IN", "IS", "NOT", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN", "DIV"),
    *("COLLATE", "XOR", "AT", "FROM"),
}  # behind an expression that is one word


def is_compound(statement: str) -> bool:
    """Whether a text is a script in Spark's language: `[label:] BEGIN … END`, and no statement of several."""
    return opens_script(tokenize(statement)) is not None


def is_read_only(statement: str) -> bool:
    """Whether a script holds queries alone, and what directs them: no statement that may change tables of the lake, or
    refer to Spark's own tables of these names."""
    tokens = tokenize(statement)
    return not any(_changes(tokens, at) for at in range(len(tokens)))


def names_one_of(statement: str, catalogs: Collection[str]) -> bool:
    """Whether a name in the text may begin with one of these catalogs."""
    return any(token.kind in ("word", "quoted") and token.value.lower() in catalogs for token in tokenize(statement))


def _changes(tokens: Sequence[Token], at: int) -> bool:
    """Whether a statement that is no query begins behind this token."""
    token, following = tokens[at], tokens[at + 1 : at + 3]
    word = token.value.upper() if token.kind == "word" else token.value
    if not following:
        return False
    if word == ";" or word in _OPENS:
        return _begins_change(tokens[at + 1 :])
    if word == "HANDLER":
        return _begins_change(_handled(tokens[at + 1 :]))
    first, second = following[0], following[-1]
    if word in _MAY_OPEN and len(following) > 1 and not (word == "REPEAT" and first.value == "("):
        alone = second.kind not in ("word", "quoted") or second.value.upper() in _GOES_ON
        return not alone and first.value.upper() not in _EXPRESSIONS and _begins_change(tokens[at + 1 :])
    behind = word == ")" or first.is_word("INSERT")
    changes = first.kind == "word" and first.value.upper() in _CHANGES
    return changes and behind and len(following) > 1 and second.kind in ("word", "quoted")


def _begins_change(tokens: Sequence[Token]) -> bool:
    """Whether what begins here is neither a query nor directs the script."""
    if len(tokens) > 1 and tokens[1].value == ":":
        return _begins_change(tokens[2:])
    if not tokens or tokens[0].value in ("(", ";"):
        return False
    word = tokens[0].value.upper()
    if word == "SET":
        return not _sets_variables(tokens)
    return not (tokens[0].kind == "word" and (word in QUERIES or word in _FLOW))


def _sets_variables(tokens: Sequence[Token]) -> bool:
    """Whether a SET is of variables of the script or session; settings change what queries behind it read."""
    known = {"CATALOG", "TIME", "ROLE", "PATH"}
    target = [token for token in tokens[1:] if not (token.is_word("VAR") or token.is_word("VARIABLE"))][:2]
    return len(target) == 2 and target[0].value.upper() not in known and target[1].value in ("=", "(", ",", ")")


def _handled(tokens: Sequence[Token]) -> Sequence[Token]:
    """What is behind the conditions of a handler: `FOR SQLSTATE VALUE '22012', DIVIDE_BY_ZERO, NOT FOUND`."""
    place = 1
    while place < len(tokens):
        if tokens[place].is_word("NOT"):
            place += 1
        elif tokens[place].is_word("SQLSTATE"):
            place += 1 + tokens[place + 1 : place + 2][0].is_word("VALUE") if tokens[place + 1 : place + 2] else 1
        place += 1
        if place >= len(tokens) or tokens[place].value not in (",", "."):
            break
        place += 1
    return tokens[place:]
