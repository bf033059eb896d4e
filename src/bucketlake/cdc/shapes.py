"""What an event says of its columns: names, types and how their texts are read; a shape is what many events share.

An event's types stand beside it: Debezium's `schema` (Kafka Connect's), canal's `mysqlType`. Without them a column is
STRING where it is new, and what the table says where it is not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any

from bucketlake.cdc.mysql import DATE, DOUBLE, FLOAT, MOST_DIGITS, SMALLINT, MySqlType, decimal_or_text, mysql_type
from bucketlake.errors import InvalidError
from bucketlake.types.model import BIGINT, BYTES, INT, STRING, TINYINT, DataType, Root
from bucketlake.values import dataclass


class Coding(str, Enum):
    """How a value is written in an event."""

    TEXT = "text"  # as its type is written
    BASE64 = "base64"
    BITS = "bits"  # base64 of bytes, the lowest first
    UNSCALED = "unscaled"  # a decimal: base64 of its digits as a number, or the number itself
    DAYS = "days"  # since 1970-01-01
    MILLIS = "millis"  # since 1970-01-01
    MICROS = "micros"
    NANOS = "nanos"
    DAY_MILLIS = "millis of the day"
    DAY_MICROS = "micros of the day"
    DAY_NANOS = "nanos of the day"
    INSTANT = "instant"  # 2020-05-13T17:32:10.9Z
    LATIN1 = "latin1"  # bytes as characters
    MEMBER = "member"  # of an ENUM: its number, or itself
    MEMBERS = "members"  # of a SET: a number with a bit each, or themselves with commas
    NUMBER = "number"  # bits as a number


@dataclass(frozen=True, slots=True)
class Reading:
    """How a column's texts are read. `members`: of ENUM and SET; `scale`: of decimals as whole numbers."""

    coding: Coding = Coding.TEXT
    members: tuple[str, ...] = ()
    scale: int = 0


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column as events have it. `type`: None where they do not say; `members`: of ENUM and SET; `scale`: of a
    decimal."""

    name: str
    type: DataType | None = None
    coding: Coding = Coding.TEXT
    members: tuple[str, ...] = ()
    scale: int = 0
    comment: str | None = None

    @property
    def reading(self) -> Reading:
        """What decides how its values are read."""
        return Reading(self.coding, self.members, self.scale)


@dataclass(frozen=True, slots=True)
class Shape:
    """What events of one kind say. `number`: of the shape in its batch; `keys`: of the primary key, empty where they
    are not said; `columns`: empty for events without a row."""

    number: int
    database: str | None
    table: str | None
    columns: tuple[SourceColumn, ...] = ()
    keys: tuple[str, ...] = ()


def columns_of(names: str | None, types: str | None, modes: frozenset[str]) -> tuple[SourceColumn, ...]:
    """The columns that a shape's texts say. `names`: a JSON list; `types`: Debezium's schema, canal's types, or None.

    Errors: InvalidError, UnsupportedError naming the column.
    """
    listed = [str(name) for name in json.loads(names)] if names else []
    if types is None:
        return tuple(SourceColumn(name) for name in listed)
    told = json.loads(types)
    if "fields" in told:
        return _of_connect(told, modes)
    return tuple(_of_mysql(name, str(text), modes) for name, text in told.items())


# ---------------------------------------------------------------------------------------------- Debezium


_PLAIN: dict[str, DataType] = {
    "int8": TINYINT,
    "int16": SMALLINT,
    "int32": INT,
    "int64": BIGINT,
    "float": FLOAT,
    "float32": FLOAT,
    "float64": DOUBLE,
    "double": DOUBLE,
    "boolean": DataType(Root.BOOLEAN),
    "bytes": BYTES,
    "string": STRING,
}


def _time(precision: int) -> DataType:
    return DataType(Root.TIME, precision=precision)


def _timestamp(precision: int) -> DataType:
    return DataType(Root.TIMESTAMP, precision=precision)


_LOGICAL: dict[str, tuple[DataType, Coding]] = {
    "io.debezium.time.Date": (DATE, Coding.DAYS),
    "org.apache.kafka.connect.data.Date": (DATE, Coding.DAYS),
    "io.debezium.time.Timestamp": (_timestamp(3), Coding.MILLIS),
    "org.apache.kafka.connect.data.Timestamp": (_timestamp(3), Coding.MILLIS),
    "io.debezium.time.MicroTimestamp": (_timestamp(6), Coding.MICROS),
    "io.debezium.time.NanoTimestamp": (_timestamp(9), Coding.NANOS),
    "io.debezium.time.ZonedTimestamp": (_timestamp(6), Coding.INSTANT),
    "io.debezium.time.Time": (_time(3), Coding.DAY_MILLIS),
    "org.apache.kafka.connect.data.Time": (_time(3), Coding.DAY_MILLIS),
    "io.debezium.time.MicroTime": (_time(6), Coding.DAY_MICROS),
    "io.debezium.time.NanoTime": (_time(9), Coding.DAY_NANOS),
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_BITS = "io.debezium.data.Bits"


def _of_connect(told: Mapping[str, Any], modes: frozenset[str]) -> tuple[SourceColumn, ...]:
    """From the schema of an envelope: that of `after`, else of `before`."""
    rows = {item.get("field"): item.get("fields") for item in told.get("fields") or [] if isinstance(item, dict)}
    fields = rows.get("after") or rows.get("before")
    if not fields:
        raise InvalidError("an event's schema says neither the fields of 'after' nor of 'before'")
    return tuple(_connect_column(item, modes) for item in fields)


def _connect_column(told: Mapping[str, Any], modes: frozenset[str]) -> SourceColumn:
    name, kind, logical = str(told.get("field")), str(told.get("type")), told.get("name")
    found, coding = _connect_type(kind, logical, told.get("parameters") or {})
    if "to-string" in modes:
        found = STRING
    scale = int((told.get("parameters") or {}).get("scale") or 0) if coding is Coding.UNSCALED else 0
    return SourceColumn(name, found, coding, scale=scale, comment=told.get("doc"))


def _connect_type(kind: str, logical: str | None, parameters: Mapping[str, Any]) -> tuple[DataType, Coding]:
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if logical == _BITS:
        return DataType(Root.BINARY, length=(int(parameters.get("length") or 8) + 7) // 8), Coding.BITS
    if logical == _DECIMAL:
        precision = parameters.get("connect.decimal.precision")
        scale = int(parameters.get("scale") or 0)
        if precision is None:
            return DataType(Root.DECIMAL, precision=MOST_DIGITS, scale=scale), Coding.UNSCALED
        return decimal_or_text(int(precision), scale), Coding.UNSCALED
    if kind == "bytes":
        return BYTES, Coding.BASE64
    return _PLAIN.get(kind, STRING), Coding.TEXT


# ---------------------------------------------------------------------------------------------- canal


def _of_mysql(name: str, text: str, modes: frozenset[str]) -> SourceColumn:
    found = MySqlType.parse(text)
    kind = mysql_type(found, modes)
    coding = Coding.TEXT
    if found.name == "ENUM":
        coding = Coding.MEMBER
    elif found.name == "SET":
        coding = Coding.MEMBERS
    elif found.name == "BIT" and kind.root is Root.BINARY:
        coding = Coding.NUMBER
    elif kind.root in (Root.VARBINARY, Root.BINARY) and found.name != "LONGTEXT":
        coding = Coding.LATIN1
    return SourceColumn(name, kind, coding, found.members)
