"""What the brackets of a statement say of its names: which mean common table expressions, and where FROM is a clause.

Read from tokens, as Spark's grammar has it (`ctes`, `namedQuery`), not from the parser's tree: a name that a query
hides must never be taken for a table's, whether or not the parser knows the rest of the statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bucketlake.sql.text.tokens import QUERIES, Token
from bucketlake.values import dataclass

_NAMES = ("word", "quoted")
_LIMIT = ("MAX", "RECURSION", "LEVEL")
_TAKE_FROM = ("EXTRACT", "TRIM", "SUBSTR", "SUBSTRING", "OVERLAY")  # functions with FROM between their arguments
_BEHIND_FROM = (  # words that end the list of FROM
    *("SELECT", "WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE"),
    *("LIMIT", "OFFSET", "UNION", "EXCEPT", "MINUS", "INTERSECT"),
)


@dataclass(frozen=True, slots=True)
class _Named:
    """A common table expression: its name means it from one place of the text to another."""

    name: str
    start: int
    end: int


class Clauses:
    """The brackets of a statement's tokens. `sensitive`: names differ in case, as `spark.sql.caseSensitive` has it."""

    def __init__(self, tokens: Sequence[Token], sensitive: bool = False) -> None:
        self._tokens = tokens
        self._sensitive = sensitive
        self._closing: dict[int, int] = {}  # an opening bracket -> its closing one
        self._around: list[int] = []  # of each token the bracket that it stands in, -1: none
        self._match()
        self._named = list(self._common())

    def is_cte(self, parts: Sequence[str], start: int) -> bool:
        """Whether a name at this place of the text means a common table expression."""
        if len(parts) != 1:
            return False
        name = self._folded(parts[0])
        return any(one.name == name and one.start <= start < one.end for one in self._named)

    def is_from(self, at: int) -> bool:
        """Whether a token is the word that a query's tables follow."""
        if not self._is_word(at, "FROM") or self._is_sign(at - 1, "."):
            return False
        if self._is_word(at - 1, "DISTINCT") and (self._is_word(at - 2, "IS") or self._is_word(at - 2, "NOT")):
            return False
        opens = self._around[at]
        called = opens > 0 and any(self._is_word(opens - 1, word) for word in _TAKE_FROM)
        return not called or self.opens_query(opens + 1)

    def ends_from(self, at: int) -> bool:
        """Whether a token says that the list of FROM is over: commas behind it separate no tables."""
        if self._is_sign(at, "|>") or (self._is_sign(at, "|") and self._is_sign(at + 1, ">")):
            return True
        if self._is_word(at, "VIEW"):
            return self._is_word(at - 1, "LATERAL")
        return not self._is_sign(at - 1, ".") and any(self._is_word(at, word) for word in _BEHIND_FROM)

    def opens_query(self, at: int) -> bool:
        """Whether a query begins at a token."""
        return any(self._is_word(at, word) for word in QUERIES)

    def _match(self) -> None:
        opened: list[int] = []
        for at, token in enumerate(self._tokens):
            if token.kind == "sign" and token.value == ")" and opened:
                self._closing[opened.pop()] = at
            self._around.append(opened[-1] if opened else -1)
            if token.kind == "sign" and token.value == "(":
                opened.append(at)

    def _common(self) -> Iterator[_Named]:
        for at in range(len(self._tokens)):
            if self._is_word(at, "WITH") and not self._is_sign(at - 1, "."):
                yield from self._of_clause(at)

    def _of_clause(self, at: int) -> Iterator[_Named]:
        """The names of the WITH at a token; none where the word means something else."""
        closing = self._closing.get(self._around[at], len(self._tokens))
        end = self._tokens[closing].start if closing < len(self._tokens) else self._tokens[-1].end
        recursive = self._is_word(at + 1, "RECURSIVE") and self._kind(at + 2) in _NAMES
        at += 2 if recursive else 1
        while self._kind(at) in _NAMES:
            opens = self._body(at + 1)
            if opens is None:
                return
            closes = self._closing.get(opens)
            start = self._tokens[opens].start if recursive or closes is None else self._tokens[closes].end
            yield _Named(self._folded(self._tokens[at].value), start, end)
            if closes is None or not self._is_sign(closes + 1, ","):
                return
            at = closes + 2

    def _body(self, at: int) -> int | None:
        """The bracket that a common table expression's query opens with, of which the name stands before `at`."""
        closes = self._closing.get(at)
        if closes is not None and self._is_list(at + 1, closes):
            at = closes + 1
        if all(self._is_word(at + place, word) for place, word in enumerate(_LIMIT)):
            at += len(_LIMIT) + 1
        at += self._is_word(at, "AS")
        return at if self._is_sign(at, "(") else None

    def _is_list(self, at: int, closes: int) -> bool:
        """Whether what lies up to a closing bracket are column names, and not the query itself."""
        inside = range(at, closes)
        if not inside or len(inside) % 2 == 0:
            return False
        if not all(self._is_sign(p, ",") if (p - at) % 2 else self._kind(p) in _NAMES for p in inside):
            return False
        behind = closes + 1
        return self._is_sign(behind, "(") or self._is_word(behind, "AS") or self._is_word(behind, _LIMIT[0])

    def _folded(self, name: str) -> str:
        return name if self._sensitive else name.lower()

    def _kind(self, at: int) -> str:
        return self._tokens[at].kind if 0 <= at < len(self._tokens) else ""

    def _is_word(self, at: int, word: str) -> bool:
        return 0 <= at < len(self._tokens) and self._tokens[at].is_word(word)

    def _is_sign(self, at: int, sign: str) -> bool:
        return self._kind(at) == "sign" and self._tokens[at].value == sign
