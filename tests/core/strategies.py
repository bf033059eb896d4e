"""Hypothesis strategies for types, columns and values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from hypothesis import strategies as st

from bucketlake.types.model import DataField, DataType, Root
from bucketlake.types.parse import parse_type_text

ATOMIC = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(10, 2)",
    "DECIMAL(38, 18)",
    "CHAR(3)",
    "VARCHAR(20)",
    "STRING",
    "BINARY(4)",
    "VARBINARY(9)",
    "BYTES",
    "DATE",
    "TIME(3)",
    "TIMESTAMP(0)",
    "TIMESTAMP(3)",
    "TIMESTAMP(6)",
    "TIMESTAMP(9)",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE",
]


def column(name: str, text: str, number: int = 0) -> DataField:
    """A column of a Flink-spelled type."""
    return DataField(number, name, parse_type_text(text, "flink"))


def columns(**types: str) -> list[DataField]:
    """Columns numbered in order."""
    return [column(name, text, i) for i, (name, text) in enumerate(types.items())]


names = st.text("abcxyz_ÄΩ '`", min_size=1, max_size=6).filter(lambda name: name.strip() != "")


@st.composite
def types(draw: st.DrawFn, depth: int = 2) -> DataType:
    nullable = draw(st.booleans())
    kind = draw(st.sampled_from(["atomic", "atomic", "array", "map", "row"])) if depth else "atomic"
    if kind == "atomic":
        return parse_type_text(draw(st.sampled_from(ATOMIC)), "flink").with_nullable(nullable)
    inner = types(depth - 1)
    if kind == "array":
        return DataType(Root.ARRAY, nullable, element=draw(inner))
    if kind == "map":
        return DataType(Root.MAP, nullable, key=draw(inner), element=draw(inner))
    members = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    described = st.none() | st.text("ab'\"ü", max_size=3)
    fields = tuple(DataField(i, name, draw(inner), draw(described)) for i, name in enumerate(members))
    return DataType(Root.ROW, nullable, fields=fields)


VALUES = {
    "BOOLEAN": st.booleans(),
    "INT": st.integers(-5, 5),
    "BIGINT": st.sampled_from([-(2**63), -3, 0, 1, 2, 3, 2**63 - 1]),
    "DOUBLE": st.sampled_from([float("nan"), float("-inf"), -1.5, -0.0, 0.0, 1.5, 2.0, float("inf")]),
    "DECIMAL(10, 2)": st.sampled_from([Decimal("-1.50"), Decimal("0.00"), Decimal("0.01"), Decimal("99999999.99")]),
    "STRING": st.sampled_from(["", "a", "ab", "abc", "b", "ba", "zä", "a%b", "\U0001f600", "￿"]),
    "DATE": st.sampled_from([dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29)]),
    "TIMESTAMP(6)": st.sampled_from([dt.datetime(1969, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 0, 1)]),
}
