"""SQL text with positions: words, quoted names and literals, a cursor over them, and splicing.

Spark's tokens come from sqlglot's tokenizer. Statements that Spark has are never printed anew: they are cut and
spliced, so that what Spark parses is what the user wrote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import ClassVar, TypeVar

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokens import TokenType

from bucketlake.errors import InvalidError
from bucketlake.sql.text import between, habits, verbs
from bucketlake.values import dataclass

Item = TypeVar("Item")
QUERIES = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE")  # that a query begins with, or a bracket
_WORD = re.compile(r"\w+")
_SUFFIX = re.compile("(?:BD|[LSYFD])$", re.IGNORECASE)
_TIMESTAMPS = {"TIMESTAMP": "TIMESTAMP_NTZ", "TIMESTAMP_LTZ": "TIMESTAMP_LTZ", "TIMESTAMP_NTZ": "TIMESTAMP_NTZ"}
_TYPED = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ")
_ZONES = (
    (("WITHOUT", "TIME", "ZONE"), "TIMESTAMP_NTZ"),
    (("WITH", "LOCAL", "TIME", "ZONE"), "TIMESTAMP_LTZ"),
)


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of SQL: `kind` is word, quoted, string, number or sign; `text[start:end]` of the statement made it."""

    kind: str
    value: str
    start: int
    end: int

    def is_word(self, word: str) -> bool:
        """Whether this is the keyword `word` (upper case), not quoted."""
        return self.kind == "word" and self.value.upper() == word


_CLOSED = re.compile(  # up to a literal or comment that is not closed
    r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/|[^'"`/-]|/(?!\*)|-(?!-))*""", re.DOTALL
)
_NO_BYTES = re.compile(r"""(?i)(?<![\w'"`])x(['"])(?![0-9a-f]*\1)""")
_RAW = (TokenType.RAW_STRING, TokenType.NATIONAL_STRING)
_NUMBERS = (TokenType.NUMBER, TokenType.HEX_STRING, TokenType.BIT_STRING, TokenType.BYTE_STRING)


def tokenize(text: str) -> list[Token]:
    """The tokens of a statement, comments and hints left out; InvalidError on an unterminated literal."""
    return list(_tokens(text))


def explained(tokens: Sequence[Token]) -> int:
    """How many of a statement's first tokens are EXPLAIN and its mode: none of other statements."""
    if not tokens or not tokens[0].is_word("EXPLAIN"):
        return 0
    return (
        1 + any(tokens[1].is_word(mode) for mode in ("EXTENDED", "CODEGEN", "COST", "FORMATTED")) if tokens[1:] else 1
    )


class _Tokenizer(Spark.Tokenizer):  # type: ignore[misc]  # sqlglot makes it at import
    """Spark's. It does not take the rest of SHOW, CALL, EXECUTE and the like for one opaque text, not behind a
    semicolon or BEGIN either."""

    COMMANDS: ClassVar[set[TokenType]] = set()


@lru_cache(maxsize=8)  # every room that looks at a statement asks for its tokens
def _tokens(text: str) -> tuple[Token, ...]:
    try:
        raw = _Tokenizer(Spark()).tokenize(text)
    except TokenError as error:
        closed = _CLOSED.match(text)
        at, remedy = closed.end() if closed else 0, "close the literal or comment"
        if at == len(text) and (bytes_ := _NO_BYTES.search(text)):
            at, remedy = bytes_.start(), "write bytes as X'1F'"
        raise InvalidError("SQL text cannot be read", **habits.told_place(text, at), remedy=remedy) from error
    tokens: list[Token] = []
    for token in raw:
        start, end = token.start, token.end + 1
        if tokens and start < tokens[-1].end:
            continue  # 1.5D is said again as a cast
        source = text[start:end]
        if token.token_type == TokenType.STRING:
            _append_string(tokens, Token("string", token.text, start, end), text)
        elif token.token_type == TokenType.IDENTIFIER:
            tokens.append(Token("quoted", token.text, start, end))
        elif token.token_type in _RAW:
            tokens.append(Token("string", token.text, start, end))
        elif token.token_type in _NUMBERS:
            tokens.append(Token("number", source, start, end))
        elif source[:1].isalnum() or source[:1] == "_":  # Spark's names may begin with digits
            tokens.extend(
                Token("word", word.group(), start + word.start(), start + word.end()) for word in _WORD.finditer(source)
            )
        elif token.token_type != TokenType.HINT:
            tokens.append(Token("sign", source, start, end))
    return tuple(tokens)


def _append_string(tokens: list[Token], token: Token, text: str) -> None:
    last, quote = tokens[-1] if tokens else None, text[token.start]
    if last is not None and last.kind == "string" and last.end == token.start and text[last.start] == quote:  # 'it''s'
        token = Token("string", tokens.pop().value + quote + token.value, last.start, token.end)
    tokens.append(token)


@dataclass(frozen=True, slots=True)
class Hint:
    """`/*+ OPTIONS('k'='v', …) */` at `start:end`."""

    start: int
    end: int
    options: dict[str, str]


def option_hints(text: str, tokens: list[Token]) -> list[Hint]:
    """The OPTIONS hints of a statement, wherever they stand between tokens."""
    hints = []
    for found in between.hints(text, tokens):
        cursor = Cursor("(" + found.group(1) + ")")
        hints.append(Hint(found.start(), found.end(), cursor.options(empty=True)))
        cursor.end()
    return hints


def blank(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text with the spans overwritten by spaces, line ends kept: positions stay true."""
    for start, end in spans:
        text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    return text


def splice(text: str, pieces: Iterable[tuple[int, int, str]]) -> str:
    """The text with each `text[start:end]` replaced; pieces do not overlap."""
    for start, end, piece in sorted(pieces, reverse=True):
        text = text[:start] + piece + text[end:]
    return text


def opens_script(tokens: Sequence[Token], at: int = 0) -> int | None:
    """The place of BEGIN where a script of Spark's, `[label:] BEGIN … END`, begins here; None where none does."""
    begin = at + 2 if [token.value for token in tokens[at + 1 : at + 2]] == [":"] else at
    if len(tokens) <= begin + 1 or not tokens[begin].is_word("BEGIN"):
        return None
    following = tokens[begin + 1]
    return None if following.value == ";" or following.is_word("TRANSACTION") or following.is_word("WORK") else begin


def statement_places(text: str) -> list[tuple[int, int]]:
    """Where the statements of a script begin and end, without the blanks around them: cut at semicolons between
    tokens, so at none in literals and comments, and at none before the END of a BEGIN. What holds comments alone is
    left out."""
    places: list[tuple[int, int]] = []
    start, said = 0, False
    opened, depth = len(text), 0  # BEGIN of the script here, by its token, and what is open of it
    tokens = [*tokenize(text), Token("sign", ";", len(text), len(text))]
    for at, token in enumerate(tokens):
        begin = None if said else opens_script(tokens, at)
        opened = opened if begin is None else begin
        if at == opened or (at > opened and depth):
            depth += _opened(tokens, at)
        if token.kind != "sign" or token.value != ";" or (depth and at < len(tokens) - 1):
            said = True
            continue
        if said:
            piece = text[start : token.start]
            places.append((start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())))
        start, said, opened, depth = token.end, False, len(text), 0
    return places


def _opened(tokens: Sequence[Token], at: int) -> int:
    """By how much a token of a script changes how many BEGIN and CASE are open."""
    token, before = tokens[at], tokens[at - 1] if at else None
    if token.kind != "word" or (before is not None and before.value == "."):
        return 0
    if token.is_word("END"):
        return -(not any(tokens[at + 1].is_word(word) for word in ("IF", "WHILE", "LOOP", "REPEAT", "FOR")))
    ends = before is not None and before.is_word("END")
    return int(token.is_word("BEGIN") or (token.is_word("CASE") and not ends))


def split_statements(text: str) -> list[str]:
    """The statements of a script: see `statement_places`."""
    return [text[start:end] for start, end in statement_places(text)]


def past_comments(text: str) -> str:
    """The text with blanks for the comments before its first word: what a statement is, its beginning says."""
    lead = text[: tokenize(text)[0].start]
    return text if not lead.strip() else blank(text, [(0, len(lead))])


def with_quoted(text: str) -> str:
    """The text, names with `$` in backticks, as Spark reads them: Flink's `SELECT * FROM t$snapshots`."""
    if "$" not in text:
        return text
    tokens = tokenize(text)
    pieces: list[tuple[int, int, str]] = []
    start = end = 0  # of the name that the last tokens are
    for at, token in enumerate(tokens):
        goes_on = at > 1 and token.kind == "word" and end == tokens[at - 1].start and token.start == tokens[at - 1].end
        if goes_on and tokens[at - 1].value == "$":
            pieces = pieces[:-1] if pieces and pieces[-1][0] == start else pieces
            end = token.end
            pieces.append((start, end, f"`{text[start:end]}`"))
        elif token.kind == "word":
            start, end = token.start, token.end
    return splice(text, pieces)


def plain_pieces(text: str) -> list[tuple[int, int, str]]:
    """What is spliced into a query for what Spark, or whoever looks for names behind FROM, has no word for."""
    return [*timestamp_pieces(text), *_tables(text)]


def timestamp_pieces(text: str) -> Iterator[tuple[int, int, str]]:
    """Casts to Flink's `TIMESTAMP(n)` and `TIMESTAMP_LTZ(n)` as Spark's types: Spark knows one precision."""
    tokens = tokenize(text)
    for at in range(1, len(tokens) - 3):
        before, word, opens, number, closes = tokens[at - 1 : at + 4]
        if not (before.is_word("AS") or before.value == "::") or opens.value != "(" or closes.value != ")":
            continue
        if number.kind != "number" or word.kind != "word" or word.value.upper() not in _TIMESTAMPS:
            continue
        kind, end = _TIMESTAMPS[word.value.upper()], closes.end
        for suffix, named in _ZONES:
            following = tokens[at + 4 : at + 4 + len(suffix)]
            if len(following) == len(suffix) and all(t.is_word(w) for t, w in zip(following, suffix, strict=True)):
                kind, end = named, following[-1].end
        yield word.start, end, kind


_SET_OPERATORS = ("UNION", "EXCEPT", "MINUS", "INTERSECT")
_EXPLAINS = ("EXPLAIN", "EXTENDED", "CODEGEN", "COST", "FORMATTED", "QUERY")  # EXPLAIN FORMATTED, DESCRIBE QUERY
# What may stand before a query's bracket: any other word there is the name of a function.
_BEFORE_BRACKET = re.compile(
    "AS|FROM|JOIN|IN|EXISTS|LATERAL|ANY|SOME|ALL|DISTINCT|SELECT|WHERE|AND|OR|NOT|ON|HAVING|CASE|WHEN|THEN|ELSE|SET|BY"
    "|BETWEEN|LIKE|VALUES|UNION|EXCEPT|MINUS|INTERSECT|EXPLAIN|EXTENDED|CODEGEN|COST|FORMATTED|QUERY"
)


def _tables(text: str) -> Iterator[tuple[int, int, str]]:
    """Queries `TABLE t` as `SELECT * FROM t`, wherever a query may stand, and a function's `TABLE(t)` as
    `TABLE(SELECT * FROM t)`."""
    if "table" not in text.lower():
        return
    tokens = tokenize(text)
    for at, token in enumerate(tokens[:-1]):
        if not token.is_word("TABLE"):
            continue
        before = tokens[at - 1] if at else None
        if tokens[at + 1].kind in ("word", "quoted"):
            if _begins_query(tokens, at):
                yield token.start, token.end, "SELECT * FROM"
        elif before is not None and before.value in ("(", ",", "=>", ">") and _is_argument(tokens, at + 1):
            yield tokens[at + 1].end, tokens[at + 1].end, "SELECT * FROM "


def _begins_query(tokens: Sequence[Token], at: int) -> bool:
    """Whether a query may begin at this token."""
    if not at:
        return True
    before = tokens[at - 1]
    if before.is_word("ALL") or before.is_word("DISTINCT"):
        before = tokens[at - 2] if at > 1 else before
    if before.kind == "word":
        word = before.value.upper()
        return word in _SET_OPERATORS or (word in _EXPLAINS and at <= 2)
    if before.kind != "sign" or before.value not in ("(", ")"):
        return False
    opens = at - 1
    if before.value == ")":  # behind common table expressions: name AS (…)
        depth = 0
        for opens in range(at - 1, -1, -1):
            token = tokens[opens]
            depth += {")": 1, "(": -1}.get(token.value, 0) if token.kind == "sign" else 0
            if not depth:
                break
        return opens > 0 and tokens[opens - 1].is_word("AS")
    outer = tokens[opens - 1] if opens else None
    if outer is None or outer.kind not in ("word", "quoted"):
        return True
    return outer.kind == "word" and _BEFORE_BRACKET.fullmatch(outer.value.upper()) is not None


def _is_argument(tokens: Sequence[Token], at: int) -> bool:
    """Whether these tokens are a name in brackets."""
    if tokens[at].value != "(" or tokens[at].kind != "sign":
        return False
    for place in range(at + 1, len(tokens)):
        token = tokens[place]
        if (place - at) % 2 == 0:
            if token.value != ".":
                return token.value == ")" and token.kind == "sign"
        elif token.kind not in ("word", "quoted"):
            return False
    return False


def sample_end(text: str, start: int) -> int | None:
    """Where the TABLESAMPLE clause that follows `start` ends; None if none does."""
    return Cursor(blank(text, [(0, start)])).sample()


def _number_text(source: str) -> str:
    """What Spark makes of a number, or of bytes, that a partition specification has: it takes all values as texts."""
    if source[:1] in ("x", "X"):
        return bytes.fromhex(source[2:-1].zfill((len(source) - 2) // 2 * 2)).decode(errors="replace")
    plain = _SUFFIX.sub("", source)
    try:
        number = Decimal(plain)
        real = source[len(plain) :].upper() in ("D", "F") or (source == plain and "E" in plain.upper())
    except ArithmeticError:
        return plain
    if not real:
        return str(number)
    return str(float(number)) if not number or Decimal("0.001") <= abs(number) < 10**7 else plain


class Cursor:
    """Reads one statement from left to right. Words are compared without case.

    `subject`: the table that the statement is about, once its name has been read by `table`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        if self.tokens and self.tokens[-1].value == ";" and self.tokens[-1].kind == "sign":
            self.tokens.pop()
        self.at = 0
        self.subject: tuple[str, ...] | None = None

    @property
    def done(self) -> bool:
        """Whether every token has been read."""
        return self.at >= len(self.tokens)

    def peek(self, ahead: int = 0) -> Token | None:
        """The token `ahead` places from here, None past the end."""
        place = self.at + ahead
        return self.tokens[place] if place < len(self.tokens) else None

    def sees(self, *words: str) -> bool:
        """Whether the next tokens are these words or signs."""
        for ahead, word in enumerate(words):
            token = self.peek(ahead)
            if token is None or not (token.is_word(word) or (token.kind == "sign" and token.value == word)):
                return False
        return True

    def accept(self, *words: str) -> bool:
        """Step over these words or signs if they come next."""
        if self.sees(*words):
            self.at += len(words)
            return True
        return False

    def sample(self) -> int | None:
        """Step over a TABLESAMPLE clause if one comes next: where it ends."""
        if not self.sees("TABLESAMPLE", "("):
            return None
        self.at += 1
        for _ in range(2):
            self.expect("(")
            self.until(")")
            self.expect(")")
            end = self.tokens[self.at - 1].end
            if not self.accept("REPEATABLE"):
                break
        return end

    def expect(self, *words: str) -> None:
        """Step over these words or signs, or raise InvalidError at this place."""
        if not self.accept(*words):
            self.fail(f"expected {' '.join(words)}")

    def next(self) -> Token:
        """The next token, stepped over; InvalidError at the end."""
        token = self.peek()
        if token is None:
            self.fail("statement ends too early")
        assert token is not None
        self.at += 1
        return token

    def identifier(self) -> str:
        """One name, quoted or not."""
        token = self.next()
        if token.kind not in ("word", "quoted"):
            self.at -= 1
            self.fail("expected a name")
        return token.value

    def name(self) -> tuple[str, ...]:
        """A dotted name: `db`.t -> ("db", "t")."""
        parts = [self.identifier()]
        while self.accept("."):
            parts.append(self.identifier())
        return tuple(parts)

    def table(self) -> tuple[str, ...]:
        """The name of the table that the statement is about."""
        self.subject = self.name()
        return self.subject

    def string(self) -> str:
        """One string literal's value."""
        token = self.next()
        if token.kind != "string":
            self.at -= 1
            self.fail("expected a string literal")
        return token.value

    def literal(self) -> str:
        """A literal or bare word as text: option values, partition values. NULL stays the word NULL."""
        sign = "-" if self.accept("-") else ""
        token = self.next()
        if token.kind == "sign":
            self.at -= 1
            self.fail("expected a value")
        return sign + token.value

    def constant(self) -> tuple[str, str | None]:
        """A constant as Spark's partition specifications take it: source text, and value as text, None for NULL."""
        first = self.peek()
        if first is not None and first.kind == "word" and first.value.upper() in _TYPED:
            self.at += 1
            value: str | None = self.string()
        elif first is not None and first.kind == "string":
            value = self.string()
            while self.at < len(self.tokens) and self.tokens[self.at].kind == "string":
                value += self.string()
        elif self.accept("NULL"):
            value = None
        elif self.sees("TRUE") or self.sees("FALSE"):
            value = self.next().value.lower()
        else:
            sign = "-" if self.accept("-") else ""
            sign += "." if self.accept(".") else ""
            token = self.next()
            if token.kind != "number":
                self.at -= 1
                self.fail("expected a constant")
            value = _number_text(sign + token.value)
        start = first.start if first is not None else 0
        return self.text[start : self.tokens[self.at - 1].end], value

    def bracketed(self, item: Callable[[], Item], empty: bool = False) -> list[Item]:
        """`(item {, item})`, each read by `item`; `()` only if `empty`."""
        self.expect("(")
        if empty and self.accept(")"):
            return []
        found = self.listed(item)
        self.expect(")")
        return found

    def listed(self, item: Callable[[], Item]) -> list[Item]:
        """`item {, item}`, each read by `item`."""
        found = [item()]
        while self.accept(","):
            found.append(item())
        return found

    def options(self, empty: bool = False) -> dict[str, str]:
        """`('k'='v', a.b = 1, 'flag' true)` -> a dict, in order; a key that is given twice is refused."""
        found: dict[str, str] = {}

        def pair() -> None:
            key = self.key()
            self.accept("=")
            if key in found:
                self.fail(f"key {key!r} is given twice")
            found[key] = self.literal()

        self.bracketed(pair, empty)
        return found

    def key(self) -> str:
        """The key of an option, in quotes or bare."""
        token = self.peek()
        return self.string() if token is not None and token.kind == "string" else self._bare_key()

    def _bare_key(self) -> str:
        if (token := self.peek()) is not None and token.kind == "sign":
            self.fail("expected the key of an option")
        start = self.next()
        end = start
        while (token := self.peek()) is not None and token.start == end.end and token.value not in ("=", ",", ")"):
            end = self.next()
        return start.value if start is end and start.kind == "quoted" else self.text[start.start : end.end]

    def names(self) -> list[str]:
        """`(a, b, c)` -> the names."""
        return self.bracketed(self.identifier)

    def expression(self, *stops: str) -> str:
        """The source text of one expression, up to the first of these words or signs outside all brackets and all
        CASE … END.

        Only its brackets are looked at: they pair, so that the text in brackets is one operand or Spark's error."""
        first = self.peek()
        begin = self.at
        open_brackets: list[str] = []
        cases = 0
        while (token := self.peek()) is not None:
            if not open_brackets and not cases and any(self.sees(stop) for stop in stops):
                break
            if not open_brackets and not (self.at > begin and self.tokens[self.at - 1].value == "."):
                cases = cases + 1 if token.is_word("CASE") else max(cases - token.is_word("END"), 0)
            if token.kind == "sign" and token.value in ("(", "["):
                open_brackets.append(token.value)
            elif token.kind == "sign" and token.value in (")", "]"):
                if not open_brackets or open_brackets.pop() + token.value not in ("()", "[]"):
                    self.fail("a bracket closes that was not opened")
            elif token.kind == "sign" and token.value == ";":
                self.fail("unexpected text")
            self.at += 1
        if open_brackets:
            self.fail("a bracket is not closed")
        if first is None or self.at == begin:
            self.fail("needs an expression")
        return self.text[self.tokens[begin].start : self.ends]

    @property
    def ends(self) -> int:
        """Where what was read ends, with the OPTIONS hints of a table that was its last word."""
        end, following = self.tokens[self.at - 1].end, self.peek()
        gap = self.text[end : None if following is None else following.start]
        return end + max((hint.end() for hint in between.hints(gap, ())), default=0)

    def until(self, *stops: str) -> str:
        """The source text up to the first of these words or signs outside all brackets, not stepping over it, with
        blanks for comments."""
        first = self.peek()
        if first is None:
            return ""
        depth, end = 0, first.start
        while (token := self.peek()) is not None:
            if depth == 0 and any(
                token.is_word(stop) or (token.kind == "sign" and token.value == stop) for stop in stops
            ):
                break
            if token.kind == "sign":
                depth += sum(token.value.count(sign) for sign in "(<[") - sum(token.value.count(sign) for sign in ")>]")
            end = token.end
            self.at += 1
        said = [place for place in between.comments(self.text, self.tokens) if first.start <= place[0] < end]
        return blank(self.text, said)[first.start : end]

    def rest(self) -> str:
        """What is left, in place: everything before is blanked so that error positions stay true."""
        token = self.peek()
        start = token.start if token is not None else len(self.text)
        self.at = len(self.tokens)
        return blank(self.text, [(0, start)]).rstrip().rstrip(";")

    def expect_query(self, of: str) -> None:
        """Raise InvalidError unless a query follows: whatever else stood there Spark would do."""
        first = self.peek()
        if first is None or not (self.sees("(") or any(first.is_word(word) for word in QUERIES)):
            self.fail(f"{of} needs a query")
        change = verbs.change_in(self.tokens, self.at)
        if change is not None:
            self.at = change
            self.fail(f"{of} needs a query, which changes no table")

    def query(self, of: str) -> str:
        """What is left, a query, in place."""
        self.expect_query(of)
        return self.rest()

    def end(self) -> None:
        """Raise InvalidError unless every token has been read."""
        if not self.done:
            self.fail("unexpected text")

    def fail(self, what: str, remedy: str | None = None, condition: str = "") -> None:
        """Raise InvalidError naming this place; what to do about it is guessed where it is not said. `condition`:
        Spark's for it."""
        token = self.peek()
        place = token.start if token is not None else len(self.text)
        remedy = remedy or habits.remedy(self.text, place) or "correct the statement"
        head = f"[{condition}] " if condition else ""
        raise InvalidError(f"{head}SQL: {what}", **habits.told_place(self.text, place), remedy=remedy)
