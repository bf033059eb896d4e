"""Types as MySQL names them, which canal and Debezium's column propagation hand on, as a table's types."""

from __future__ import annotations

import re

from bucketlake.errors import UnsupportedError
from bucketlake.types.model import BIGINT, BYTES, INT, MAX_LENGTH, STRING, TINYINT, DataType, Root
from bucketlake.values import dataclass

BOOLEAN = DataType(Root.BOOLEAN)
SMALLINT = DataType(Root.SMALLINT)
FLOAT = DataType(Root.FLOAT)
DOUBLE = DataType(Root.DOUBLE)
DATE = DataType(Root.DATE)
MOST_DIGITS = 38
_DATED = 19  # characters of "2023-03-23 17:20:00": some drivers give the length of the text for a precision

_SIMPLE: dict[str, DataType] = {
    "BOOLEAN": BOOLEAN,
    "BOOL": BOOLEAN,
    "TINYINT UNSIGNED": SMALLINT,
    "SMALLINT": SMALLINT,
    "SMALLINT UNSIGNED": INT,
    "INT": INT,
    "INTEGER": INT,
    "MEDIUMINT": INT,
    "YEAR": INT,
    "INT UNSIGNED": BIGINT,
    "INTEGER UNSIGNED": BIGINT,
    "MEDIUMINT UNSIGNED": BIGINT,
    "BIGINT": BIGINT,
    "LONG": BIGINT,
    "FLOAT": FLOAT,
    "REAL": DOUBLE,
    "DOUBLE": DOUBLE,
    "DOUBLE PRECISION": DOUBLE,
    "DATE": DATE,
    **dict.fromkeys(("TINYTEXT", "TEXT", "MEDIUMTEXT", "JSON", "ENUM", "STRING"), STRING),
    **dict.fromkeys(("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"), BYTES),
    "SET": DataType(Root.ARRAY, element=STRING),
}
_GEOMETRY = ("GEOMETRY", "POINT", "LINESTRING", "POLYGON", "GEOMETRYCOLLECTION")
_GEOMETRIES = frozenset((*_GEOMETRY, "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON", "GEOMCOLLECTION"))
_DECIMALS = ("NUMERIC", "FIXED", "DECIMAL", "DEC")


@dataclass(frozen=True, slots=True)
class MySqlType:
    """A type's text, taken apart: name in capitals without ZEROFILL, numbers in brackets, members of ENUM and SET."""

    name: str
    length: int | None = None
    scale: int | None = None
    members: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> MySqlType:
        """From "decimal(10,2) unsigned", "enum('a','b')", …"""
        found = re.fullmatch(r"\s*([A-Za-z][A-Za-z0-9_ ]*?)\s*(?:\((.*)\)\s*([A-Za-z0-9_ ]*))?\s*", text, re.DOTALL)
        if found is None:
            raise UnsupportedError("not a MySQL type", type=text[:100])
        name = _words(f"{found[1]} {found[3] or ''}")
        inside = found[2]
        if name in ("ENUM", "SET"):
            members = re.findall(r"'((?:[^']|'')*)'", inside or "")
            return cls(name, members=tuple(item.replace("''", "'") for item in members))
        numbers = [int(item) for item in re.findall(r"\d+", inside or "")]
        if not numbers and name.removesuffix(" UNSIGNED") in _DECIMALS:
            numbers = [38, 18]  # what is not said must hold any
        length, scale = (*numbers, None, None)[:2]
        return cls(name, length, scale)


def _words(text: str) -> str:
    words = [word for word in text.upper().split() if word not in ("ZEROFILL", "SIGNED")]
    for place, word in enumerate(words):
        if word in ("CHARACTER", "CHARSET", "COLLATE") and place:
            words = words[:place]
            break
    return " ".join(words)


def mysql_type(found: MySqlType, modes: frozenset[str] = frozenset()) -> DataType:
    """The table type of a MySQL type under the `modes` of type mapping; UnsupportedError for one that there is not."""
    name, length = found.name, found.length
    plain = name.removesuffix(" UNSIGNED")
    if "to-string" in modes:
        return STRING
    if name == "TINYINT":
        return BOOLEAN if length == 1 and "tinyint1-not-bool" not in modes else TINYINT
    if name == "BIT":
        return BOOLEAN if length in (None, 0, 1) else DataType(Root.BINARY, length=(length + 7) // 8)
    if name in ("BIGINT UNSIGNED", "SERIAL"):
        wide = DataType(Root.DECIMAL, precision=20, scale=0)
        return BIGINT if "bigint-unsigned-to-bigint" in modes else wide
    if plain in _DECIMALS:
        return decimal_or_text(length, found.scale)
    if name in ("DATETIME", "TIMESTAMP"):
        return DataType(Root.TIMESTAMP, precision=_digits(length or 0, name))
    if name == "TIME":
        return DataType(Root.TIME, precision=min(length or 0, 9))
    if name in ("CHAR", "VARCHAR"):
        if not length or "char-to-string" in modes:
            return STRING
        return DataType(Root(name), length=length)
    if name in ("BINARY", "VARBINARY"):
        return DataType(Root.VARBINARY, length=length or MAX_LENGTH)
    if name == "LONGTEXT":
        return BYTES if "longtext-to-bytes" in modes else STRING
    if name in _GEOMETRIES:
        return STRING
    simple = _SIMPLE.get(name) or (
        _SIMPLE.get(plain) if plain in ("FLOAT", "REAL", "DOUBLE", "DOUBLE PRECISION") else None
    )
    if simple is None:
        raise UnsupportedError("this type of MySQL has no counterpart", type=name, remedy="type_mapping=['to-string']")
    return simple


def decimal_or_text(precision: int | None, scale: int | None) -> DataType:
    """DECIMAL(precision, scale), or STRING where it has more digits than a decimal here may have."""
    if not precision or precision > MOST_DIGITS:
        return STRING
    return DataType(Root.DECIMAL, precision=precision, scale=min(max(scale or 0, 0), precision))


def _digits(length: int, name: str) -> int:
    if length > _DATED:
        length -= _DATED + 1
    elif length == _DATED:
        length = 0
    if length > 9:
        raise UnsupportedError("no such precision of a time", type=f"{name}({length})")
    return length
