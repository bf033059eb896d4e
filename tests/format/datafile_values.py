"""Tables of any types and null patterns, as Arrow in canonical layout."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from bucketlake.types.model import DataField, DataType, Root, arrow_schema
from bucketlake.types.parse import parse_type_text

ATOMIC = [
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5, 2)", "DECIMAL(18, 4)",
    "DECIMAL(20, 0)", "DECIMAL(38, 10)", "VARCHAR(20)", "STRING", "BINARY(4)", "BYTES", "DATE", "TIME(3)",
    "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)", "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE", "TIMESTAMP(9) WITH LOCAL TIME ZONE",
]  # fmt: skip
NANOS = 2**63 - 1
YEARS = (-62_135_596_800, 253_402_300_800)  # seconds: 1 to 9999
WIDE = Context(prec=76)
_INTS = {Root.TINYINT: 7, Root.SMALLINT: 15, Root.INT: 31, Root.BIGINT: 63}


def kind(text: str) -> DataType:
    return parse_type_text(text, "flink")


@st.composite
def types(draw: st.DrawFn, depth: int = 2, nanos: bool = True) -> DataType:
    shape = draw(st.sampled_from(["atomic", "atomic", "array", "map", "row"])) if depth else "atomic"
    nullable = draw(st.booleans())
    if shape == "atomic":
        found = kind(draw(st.sampled_from([t for t in ATOMIC if nanos or "(9)" not in t])))
        return found.with_nullable(nullable)
    inner = types(depth - 1, nanos)
    if shape == "array":
        return DataType(Root.ARRAY, nullable, element=draw(inner))
    if shape == "map":
        key = kind(draw(st.sampled_from(["STRING", "INT", "DATE", "DECIMAL(20, 0)"]))).with_nullable(False)
        return DataType(Root.MAP, nullable, key=key, element=draw(inner))
    members = draw(st.lists(inner, min_size=1, max_size=3))
    return DataType(Root.ROW, nullable, fields=tuple(DataField(100 + i, f"f{i}", m) for i, m in enumerate(members)))


def _plain(t: DataType, far: bool) -> st.SearchStrategy[Any]:
    if t.root in _INTS:
        bound = 2 ** _INTS[t.root]
        return st.integers(-bound, bound - 1)
    if t.root is Root.DECIMAL:
        bound = 10 ** (t.precision or 1) - 1
        return st.integers(-bound, bound).map(lambda n: Decimal(n).scaleb(-(t.scale or 0), WIDE))
    if t.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        unit = 10**6 if (t.precision or 0) <= 3 else 10**3 if (t.precision or 0) <= 6 else 1
        if not far:
            return st.integers(-NANOS // unit + 1, NANOS // unit)
        second = 10**9 // unit
        low, high = (-NANOS + second, NANOS) if unit == 1 else (YEARS[0] * second, YEARS[1] * second - 1)
        near = st.integers(-3 * second, 3 * second)
        return (near | st.integers(low, high)).map(lambda v: v - second if -second < v < 0 else v)
    found: dict[Root, st.SearchStrategy[Any]] = {
        Root.BOOLEAN: st.booleans(),
        Root.FLOAT: st.floats(width=32, allow_nan=False),
        Root.DOUBLE: st.floats(allow_nan=False),
        Root.VARCHAR: st.text(max_size=20),
        Root.BINARY: st.binary(min_size=4, max_size=4),
        Root.VARBINARY: st.binary(max_size=12),
        Root.DATE: st.integers(-(10**5), 10**5),
        Root.TIME: st.integers(0, 86_399_999),
    }
    return found[t.root]


def values(t: DataType, far: bool = False) -> st.SearchStrategy[Any]:
    """Python values that pa.array takes for the canonical type; None where the type is nullable. `far`: instants of all
    years too, and many about 1970, but none of the last second before, which orc has in part."""
    if t.root is Root.ARRAY and t.element is not None:
        plain: st.SearchStrategy[Any] = st.lists(values(t.element, far), max_size=3)
    elif t.root is Root.MAP and t.key is not None and t.element is not None:
        plain = st.lists(
            st.tuples(values(t.key, far), values(t.element, far)), max_size=3, unique_by=lambda pair: pair[0]
        )
    elif t.root is Root.ROW:
        plain = st.fixed_dictionaries({item.name: values(item.type, far) for item in t.fields})
    else:
        plain = _plain(t, far)
    return st.none() | plain if t.nullable else plain


@st.composite
def tables(
    draw: st.DrawFn, nanos: bool = True, depth: int = 2, far: bool = False
) -> tuple[list[DataField], pa.RecordBatch]:
    kinds = draw(st.lists(types(depth, nanos), min_size=1, max_size=4))
    fields = [DataField(i, f"c{i}", t) for i, t in enumerate(kinds)]
    rows = draw(st.integers(0, 6))
    columns = [draw(st.lists(values(item.type, far), min_size=rows, max_size=rows)) for item in fields]
    schema = arrow_schema(fields)
    arrays = [pa.array(column, target.type) for column, target in zip(columns, schema, strict=True)]
    return fields, pa.RecordBatch.from_arrays(arrays, schema=schema)
