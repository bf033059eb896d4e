"""A script as values: what a block declares, the statements in it, conditions and loops.

read(text) -> Block

Statements, conditions and queries stay text, by their places in the script.
Grammar: `SqlBaseParser.g4: compoundStatement` of Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from bucketlake.errors import UnsupportedError
from bucketlake.sql.text.cursor import Cursor
from bucketlake.values import dataclass


@dataclass(frozen=True, slots=True)
class Text:
    """A statement, condition or query: what it says, and where in the script."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Run:
    """A statement. `variables`: it is a SET of these, which outside of scripts would be of settings."""

    said: Text
    variables: bool = False


@dataclass(frozen=True, slots=True)
class Declared:
    """Variables of one DECLARE: their names, and the type and default as written."""

    names: tuple[str, ...]
    rest: Text


@dataclass(frozen=True, slots=True)
class Handler:
    """What runs in the place of the rest of its block for an error that one of `conditions` names: `SQLEXCEPTION`,
    `NOT FOUND`, five letters of an SQLSTATE, or the name of a condition, each in upper case."""

    conditions: tuple[str, ...]
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """`[label:] BEGIN … END`."""

    label: str
    declared: tuple[Declared, ...]
    handlers: tuple[Handler, ...]
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """IF, or CASE: the body of the first condition that is true. `value`: each condition is what it is compared to."""

    value: Text | None
    cases: tuple[tuple[Text, tuple[Node, ...]], ...]
    otherwise: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """WHILE (`first`), REPEAT, or LOOP without a condition."""

    label: str
    condition: Text | None
    first: bool
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Each:
    """FOR: the body once a row of a query."""

    label: str
    row: str
    query: Text
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Jump:
    """LEAVE, or ITERATE (`again`)."""

    label: str
    again: bool


Node = Run | Block | Branch | Loop | Each | Jump

HIDES = "a handler where one variable hides another"  # Spark takes the outer one there, of others the inner
DEEPEST = 64  # statements in one another: each is a few calls of Python's
_SPARKS = {"OPEN", "FETCH", "CLOSE", "SIGNAL", "RESIGNAL", "GET"}
_FORBIDDEN = ("builtin", "session")
_LABELLED = ("BEGIN", "WHILE", "REPEAT", "LOOP", "FOR")


def read(text: str) -> Block:
    """A script, read to its end. InvalidError with its place for what is none."""
    reader = _Reader(Cursor(text))
    if reader.label():
        reader.cursor.at = 0
        reader.cursor.fail("a script begins with BEGIN, without a label", "label a block within it")
    reader.cursor.expect("BEGIN")
    found = reader.block("")
    reader.cursor.end()
    return found


@dataclass(slots=True)
class _Reader:
    cursor: Cursor
    labels: list[tuple[str, bool]] = field(default_factory=list)  # of what encloses this place; whether it is a loop
    rows: list[str] = field(default_factory=list)  # of the FORs that enclose it
    names: list[str] = field(default_factory=list)  # of the variables that are declared around it
    handling: bool = False  # this is in the body of a handler
    depth: int = 0  # of the statements that enclose it

    def label(self) -> str:
        """The label before a block or loop, "" where there is none."""
        following, opens = self.cursor.peek(1), self.cursor.peek(2)
        if following is None or following.value != ":" or opens is None or opens.value.upper() not in _LABELLED:
            return ""
        name = self._named()
        self.cursor.expect(":")
        return name

    def _named(self) -> str:
        """The name of a label or of a FOR's rows, in lower case."""
        name = self.cursor.identifier().lower()
        if name in _FORBIDDEN or name.startswith("sys"):
            self.cursor.at -= 1
            self.cursor.fail("no label or FOR may have this name", "choose another name")
        if name in self.rows or any(name == other for other, _loop in self.labels):
            self.cursor.fail(f"a label or FOR of the name {name!r} encloses this place", "choose another name")
        return name

    def block(self, label: str) -> Block:
        """What follows BEGIN, up to its END and label."""
        cursor = self.cursor
        if cursor.accept("NOT"):
            cursor.expect("ATOMIC")
        self.labels.append((label, False))
        declared: list[Declared] = []
        handlers: list[Handler] = []
        outer = len(self.names)
        while cursor.accept("DECLARE"):
            if cursor.sees("EXIT", "HANDLER") or cursor.sees("CONTINUE", "HANDLER"):
                handlers.append(self._handler())
            else:
                if handlers:
                    cursor.fail("a variable is declared behind a handler", "declare it before")
                declared.append(self._declared())
                self.names.extend(name.lower() for name in declared[-1].names)
        if (handlers or self.handling) and len(set(self.names)) < len(self.names):
            self._unsupported(HIDES)
        body = self._body("END", empty=True)
        del self.names[outer:]
        cursor.expect("END")
        self._closed(label)
        return Block(label, tuple(declared), tuple(handlers), body)

    def _closed(self, label: str) -> None:
        """Step over the label behind an END, which has to be the one before its beginning."""
        self.labels.pop()
        token = self.cursor.peek()
        if token is not None and token.kind in ("word", "quoted"):
            if token.value.lower() != label:
                self.cursor.fail("not the label of this block or loop")
            self.cursor.next()

    def _declared(self) -> Declared:
        cursor = self.cursor
        if cursor.sees("OR", "REPLACE"):
            cursor.fail("variables of a script cannot be replaced", "declare it once")
        following = cursor.peek(1)
        if following is not None and not (cursor.sees("VARIABLE") or cursor.sees("VAR")):
            self._refuse_others(following.value.upper())
        if (cursor.sees("VARIABLE") or cursor.sees("VAR")) and following is not None and following.value != ",":
            cursor.next()
        names = cursor.listed(cursor.identifier)
        if cursor.sees("."):
            cursor.fail("a variable is declared without a label before it", "leave the label out")
        rest = self._upto(";")
        cursor.expect(";")
        return Declared(tuple(names), rest)

    def _refuse_others(self, word: str) -> None:
        if word in ("CONDITION", "CURSOR", "ASENSITIVE", "INSENSITIVE"):
            self._unsupported(f"DECLARE … {word}")

    def _unsupported(self, what: str) -> None:
        raise UnsupportedError(
            f"{what} in a script (BEGIN … END) that changes tables",
            remedy="direct the statements from Python, or take it out",
        )

    def _handler(self) -> Handler:
        cursor = self.cursor
        if cursor.accept("CONTINUE"):
            self._unsupported("a CONTINUE handler")
        cursor.accept("EXIT")
        cursor.expect("HANDLER")
        cursor.expect("FOR")
        conditions = tuple(cursor.listed(self._condition))
        around, self.handling = self.handling, True
        body = self._statement()
        self.handling = around
        return Handler(conditions, (body,))

    def _condition(self) -> str:
        cursor = self.cursor
        if cursor.accept("NOT"):
            cursor.expect("FOUND")
            return "NOT FOUND"
        if cursor.accept("SQLSTATE"):
            cursor.accept("VALUE")
            return cursor.string().upper()
        return ".".join(cursor.name()).upper()

    def _body(self, *ends: str, empty: bool = False) -> tuple[Node, ...]:
        """Statements up to one of these words."""
        found: list[Node] = []
        while not any(self.cursor.sees(end) for end in ends):
            if self.cursor.sees("DECLARE"):
                self.cursor.fail("DECLARE stands at the beginning of a block", "declare it there")
            found.append(self._statement())
        if not found and not empty:
            self.cursor.fail("needs a statement")
        return tuple(found)

    def _statement(self) -> Node:
        """One statement with its semicolon."""
        cursor = self.cursor
        if self.depth == DEEPEST:
            cursor.fail(f"statements are nested more than {DEEPEST} deep")
        self.depth += 1
        label = self.label()
        token = cursor.peek()
        word = token.value.upper() if token is not None and token.kind == "word" else ""
        if word in _SPARKS:
            self._unsupported(word)
        found: Node
        if word in self._compounds():
            cursor.next()
            found = self._compounds()[word](label)
        elif word in ("LEAVE", "ITERATE"):
            cursor.next()
            found = self._jump(word == "ITERATE")
        elif cursor.accept("SET"):
            following = cursor.peek(1)
            if (cursor.sees("VAR") or cursor.sees("VARIABLE")) and following is not None and following.kind != "sign":
                cursor.fail("SET in a script is of variables without saying so", "leave this word out")
            found = Run(self._upto(";"), variables=True)
        else:
            found = Run(self._upto(";"))
        cursor.expect(";")
        self.depth -= 1
        return found

    def _compounds(self) -> dict[str, Callable[[str], Node]]:
        return {
            "BEGIN": self.block,
            "IF": self._if,
            "CASE": self._case,
            "WHILE": self._while,
            "REPEAT": self._repeat,
            "LOOP": self._loop,
            "FOR": self._for,
        }

    def _jump(self, again: bool) -> Jump:
        label = self.cursor.identifier().lower()
        if (label, True) not in self.labels and (again or (label, False) not in self.labels):
            self.cursor.fail(f"no {'loop' if again else 'block or loop'} of this label encloses it")
        return Jump(label, again)

    def _if(self, _label: str) -> Branch:
        cursor = self.cursor
        cases = []
        otherwise: tuple[Node, ...] = ()
        while True:
            condition = self._upto("THEN")
            cursor.expect("THEN")
            cases.append((condition, self._body("ELSEIF", "ELSE", "END")))
            if not cursor.accept("ELSEIF"):
                break
        if cursor.accept("ELSE"):
            otherwise = self._body("END")
        cursor.expect("END", "IF")
        return Branch(None, tuple(cases), otherwise)

    def _case(self, _label: str) -> Branch:
        cursor = self.cursor
        value = None if cursor.sees("WHEN") else self._upto("WHEN")
        cases = []
        otherwise: tuple[Node, ...] = ()
        cursor.expect("WHEN")
        while True:
            condition = self._upto("THEN")
            cursor.expect("THEN")
            cases.append((condition, self._body("WHEN", "ELSE", "END")))
            if not cursor.accept("WHEN"):
                break
        if cursor.accept("ELSE"):
            otherwise = self._body("END")
        cursor.expect("END", "CASE")
        return Branch(value, tuple(cases), otherwise)

    def _looped(self, label: str, word: str) -> tuple[Node, ...]:
        """The body of a loop, up to its END."""
        self.labels.append((label, True))
        body = self._body("END")
        self.cursor.expect("END", word)
        self._closed(label)
        return body

    def _while(self, label: str) -> Loop:
        condition = self._upto("DO")
        self.cursor.expect("DO")
        return Loop(label, condition, True, self._looped(label, "WHILE"))

    def _repeat(self, label: str) -> Loop:
        self.labels.append((label, True))
        body = self._body("UNTIL")
        self.cursor.expect("UNTIL")
        condition = self._upto("END")
        self.cursor.expect("END", "REPEAT")
        self._closed(label)
        return Loop(label, condition, False, body)

    def _loop(self, label: str) -> Loop:
        return Loop(label, None, True, self._looped(label, "LOOP"))

    def _for(self, label: str) -> Each:
        cursor = self.cursor
        following = cursor.peek(1)
        row = ""
        if following is not None and following.is_word("AS") and not cursor.sees("("):
            row = self._named()
            cursor.expect("AS")
        query = self._upto("DO")
        cursor.expect("DO")
        self.rows.append(row)
        body = self._looped(label, "FOR")
        self.rows.pop()
        return Each(label, row, query, body)

    def _upto(self, stop: str) -> Text:
        """Text up to this word or sign, outside of all brackets and all CASE … END."""
        token = self.cursor.peek()
        start = token.start if token is not None else len(self.cursor.text)
        return Text(self.cursor.expression(stop), start)
