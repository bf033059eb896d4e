"""A cursor over a statement's tokens, and what is read with it out of the midst of others: hints, samples."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TypeVar

from bucketlake.errors import InvalidError
from bucketlake.sql.text import between, habits, verbs
from bucketlake.sql.text.tokens import QUERIES, Token, blank, tokenize
from bucketlake.values import dataclass

Item = TypeVar("Item")
_SUFFIX = re.compile("(?:BD|[LSYFD])$", re.IGNORECASE)
_TYPED = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ")


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
        ways = (("TABLESAMPLE",), ("TABLESAMPLE", "BERNOULLI"), ("TABLESAMPLE", "SYSTEM"))
        way = next((way for way in ways if self.sees(*way, "(")), None)
        if way is None:
            return None
        self.at += len(way)
        for _ in range(2):
            self.expect("(")
            self.until(")")
            self.expect(")")
            end = self.tokens[self.at - 1].end
            if not self.accept("REPEATABLE"):
                break
        return end

    def expect(self, *words: str, among: Sequence[str] = ()) -> None:
        """Step over these words or signs, or raise InvalidError at this place. `among`: what else might stand here."""
        if self.accept(*words):
            return
        ahead = next(at for at in range(len(words)) if not self.sees(*words[: at + 1]))
        near = self.tokens[max(self.at + ahead - 1, 0) : self.at + ahead + 1]
        written = [token.value for token in reversed(near) if token.kind == "word"]
        self.fail(f"expected {' '.join(words)}", habits.expected(written, [words[ahead], *among]))

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
