"""Types as they are read: from the JSON of schema files, and from SQL text in the dialects of engines.

Spec: docs/spec/types.md
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.types.elsewhere import meant
from bucketlake.types.model import BYTES, SIZED, STRING, DataField, DataType, Root, checked

MOST_DEPTH, SHOWN = 50, 500  # types within types, as everything that handles them recurses; characters in an error
Dialect = Literal["spark", "flink", "spark legacy"]

# ---------------------------------------------------------------------------------------------- schema JSON


def parse_type(json: str | Mapping[str, Any]) -> DataType:
    """The type that a schema JSON value stands for: a text for atomic types, an object for constructed ones.

    ROW members without an "id" are numbered in order of appearance.
    Raises: InvalidError for what is no type.
    Spec: docs/spec/types.md#schema-json
    """
    return _from_json(json, iter(range(1 << 31)))


def _from_json(json: Any, ids: Iterator[int]) -> DataType:
    if isinstance(json, str):
        return parse_type_text(json, "flink")
    if isinstance(json, Mapping) and isinstance(json.get("type"), str):
        head, _, rest = json["type"].partition(" ")
        nullable = "NOT NULL" not in rest
        if head in ("ARRAY", "MULTISET"):
            return DataType(Root(head), nullable, element=_from_json(json["element"], ids))
        if head == "VECTOR":
            element = _from_json(json["element"], ids)
            return checked(DataType(Root.VECTOR, nullable, int(json["length"]), element=element))
        if head == "MAP":
            key = _from_json(json["key"], ids)
            return DataType(Root.MAP, nullable, key=key, element=_from_json(json["value"], ids))
        if head == "ROW":
            return DataType(Root.ROW, nullable, fields=tuple(_field_from_json(f, ids) for f in json["fields"]))
    raise InvalidError("cannot parse type", type=json, remedy="use a type of Paimon's schema files")


def parse_field(json: Mapping[str, Any]) -> DataField:
    """One element of "fields" in a schema file."""
    return _field_from_json(json, iter(range(1 << 31)))


def _field_from_json(json: Mapping[str, Any], ids: Iterator[int]) -> DataField:
    number = json["id"] if "id" in json else next(ids)
    return DataField(
        int(number), json["name"], _from_json(json["type"], ids), json.get("description"), json.get("defaultValue")
    )


# ---------------------------------------------------------------------------------------------- SQL text


def parse_type_text(sql: str, dialect: Dialect = "spark") -> DataType:
    """The type that an SQL text names, e.g. "DECIMAL(10,2) NOT NULL", "ARRAY<INT>", "STRUCT<a: INT, b STRING>".

    Dialects differ as engines do: bare TIMESTAMP and TIMESTAMP(n) are local-zoned in "spark", zoneless in "flink";
    BINARY without a length is BYTES or BINARY(1); keys of maps are NOT NULL, or where they say so. "spark legacy": as
    Spark where its TIMESTAMP is zoneless, and TIMESTAMP_LTZ the same to it. ROW members get ids in order.
    Raises: InvalidError with the position; UnsupportedError for INTERVAL and the like.
    Spec: docs/spec/types.md#sql-text
    """
    return _TypeText(sql, dialect).parse()


def column_type(column: str, sql: str, dialect: Dialect = "spark") -> DataType:
    """The type that a statement gives a column; what is wrong with it names the column."""
    try:
        return parse_type_text(sql, dialect)
    except (InvalidError, UnsupportedError) as error:
        raise type(error)(error.what, remedy=error.remedy, **{"column": column, **error.details}) from error


_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|('(?:[^']|'')*')|(\d+)|([^\W\d]\w*)|([<>(),:]))")
_NAMES = {
    "INTEGER": Root.INT,
    "LONG": Root.BIGINT,
    "SHORT": Root.SMALLINT,
    "BYTE": Root.TINYINT,
    "REAL": Root.FLOAT,
    "DEC": Root.DECIMAL,
    "NUMERIC": Root.DECIMAL,
    "CHARACTER": Root.CHAR,
    "STRUCT": Root.ROW,
}
_PLAIN = {Root.BOOLEAN, Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.FLOAT, Root.DOUBLE, Root.DATE}


class _TypeText:
    """A recursive-descent parser over the tokens of one type text."""

    def __init__(self, sql: str, dialect: Dialect) -> None:
        self.sql, self.dialect = sql, dialect
        self.tokens: list[tuple[str, int]] = []
        self.at = self.depth = 0
        self.ids = iter(range(1 << 31))
        cursor = 0
        end = len(sql.rstrip())
        while cursor < end:
            found = _TOKEN.match(sql, cursor)
            if found is None:
                raise self.error("unexpected character", cursor)
            self.tokens.append((found[found.lastindex or 0], found.start(found.lastindex or 0)))
            cursor = found.end()

    def error(self, what: str, position: int | None = None, remedy: str | None = None) -> InvalidError:
        at = self.tokens[self.at][1] if self.at < len(self.tokens) else len(self.sql)
        place = {"type": self.sql[:SHOWN], "position": at if position is None else position}
        return InvalidError(f"cannot parse type: {what}", remedy=remedy, **place)

    def peek(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        if self.at >= len(self.tokens):
            raise self.error("unexpected end")
        self.at += 1
        return self.tokens[self.at - 1][0]

    def accept(self, *words: str) -> bool:
        ahead = tuple(token.upper() for token, _ in self.tokens[self.at : self.at + len(words)])
        if ahead != words:
            return False
        self.at += len(words)
        return True

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise self.error(f"expected {word}")

    def parse(self) -> DataType:
        parsed = self.nullable_type()
        if self.peek():
            raise self.error(f"unexpected {self.peek()}")
        return parsed

    def nullable_type(self) -> DataType:
        outside, self.depth = self.depth, self.depth + 1
        parsed = self.nullability(self.base())
        while self.peek().upper() in ("ARRAY", "MULTISET"):
            self.depth += 1
            parsed = self.nullability(DataType(Root(self.next().upper()), element=parsed))
        self.depth = outside
        return parsed

    def nullability(self, parsed: DataType) -> DataType:
        if self.depth > MOST_DEPTH:
            raise self.error(f"nested more than {MOST_DEPTH} deep")
        if self.accept("NOT", "NULL"):
            return parsed.with_nullable(False)
        self.accept("NULL")
        return parsed

    def numbers(self) -> list[int]:
        if not self.accept("("):
            return []
        found = [self.number()]
        while self.accept(","):
            found.append(self.number())
        self.expect(")")
        return found

    def number(self) -> int:
        if not self.peek().isdecimal() or len(self.peek()) > 10:
            raise self.error("expected a number")
        return int(self.next())

    def base(self) -> DataType:
        start = self.at
        word = self.next().upper() if self.depth <= MOST_DEPTH else ""
        if word == "STRING":
            return self.by_bytes(STRING)
        if word == "BYTES":
            return BYTES
        if word in ("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "TIME"):
            return self.time(word)
        try:
            root = _NAMES.get(word) or Root(word)
        except ValueError:
            self.at = start
            what = f"unknown type {word}" if word else f"nested more than {MOST_DEPTH} deep"
            raise self.error(what, None, meant(word, [*_NAMES, *(str(one.value) for one in Root)])) from None
        if root in _PLAIN or root in (Root.VARIANT, Root.BLOB):
            if root is Root.DOUBLE:
                self.accept("PRECISION")
            return DataType(root)
        if root is Root.DECIMAL:
            precision, scale, *_ = [*self.numbers(), 0, 0] if self.peek() == "(" else [10, 0]
            return checked(DataType(root, precision=precision, scale=scale))
        if root in SIZED:
            if root is Root.BINARY and self.dialect != "flink" and self.peek() != "(":
                return BYTES
            if root in (Root.CHAR, Root.VARCHAR) and self.dialect != "flink" and self.peek() != "(":
                raise self.error(f"{word} needs a length", None, f"write {word}(20), or STRING")
            sized = checked(DataType(root, length=(self.numbers() or [1])[0]))
            return self.by_bytes(sized) if root in (Root.CHAR, Root.VARCHAR) else sized
        return self.constructed(root)

    def by_bytes(self, parsed: DataType) -> DataType:
        """The type of a text, behind which Spark may write that texts are compared by their bytes, as all are here."""
        if self.dialect == "flink" or not self.accept("COLLATE"):
            return parsed
        name = self.next().strip("`")
        if name.upper() != "UTF8_BINARY":
            remedy = "leave COLLATE out of the type, and write it where texts are compared"
            raise UnsupportedError("tables store no collation", type=self.sql[:SHOWN], collation=name, remedy=remedy)
        return parsed

    def time(self, word: str) -> DataType:
        default = 0 if word == "TIME" else 6
        precision = (self.numbers() or [default])[0]
        root = Root.TIME if word == "TIME" else Root.TIMESTAMP
        zoned = {"spark": ("TIMESTAMP", "TIMESTAMP_LTZ"), "flink": ("TIMESTAMP_LTZ",)}
        if word in zoned.get(self.dialect, ()):
            root = Root.TIMESTAMP_LTZ
        if self.accept("WITHOUT", "TIME", "ZONE"):
            root = Root.TIME if word == "TIME" else Root.TIMESTAMP
        elif word == "TIMESTAMP" and self.accept("WITH", "LOCAL", "TIME", "ZONE"):
            root = Root.TIMESTAMP_LTZ
        return checked(DataType(root, precision=precision))

    def constructed(self, root: Root) -> DataType:
        closing = ")" if root is Root.ROW and self.peek() == "(" else ">"
        self.expect("(" if closing == ")" else "<")
        if root is Root.ROW:
            members: list[DataField] = []
            while not self.accept(closing):
                if members:
                    self.expect(",")
                members.append(self.member())
            return DataType(root, fields=tuple(members))
        element = self.nullable_type()
        if root is Root.MAP:
            self.expect(",")
            key = element if self.dialect == "flink" else element.with_nullable(False)  # as keys of Spark are
            parsed = DataType(root, key=key, element=self.nullable_type())
        elif root is Root.VECTOR:
            self.expect(",")
            parsed = checked(DataType(root, length=self.number(), element=element))
        else:
            parsed = DataType(root, element=element)
        self.expect(closing)
        return parsed

    def member(self) -> DataField:
        number = next(self.ids)
        name = self.next()
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        self.accept(":")
        kind = self.nullable_type()
        self.accept("COMMENT")
        comment = self.next()[1:-1].replace("''", "'") if self.peek().startswith("'") else None
        return DataField(number, name, kind, comment)
