"""The strangest values of every type as key, partition, sequence and value: written, read, filtered, deleted, compacted.

Dates and timestamps go beyond Python's years 1 to 9999, so rows are compared as integers of their units.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.profile import later

import bucketlake
from bucketlake import Catalog, Table
from bucketlake.types.model import DataField
from bucketlake.types.parse import parse_type_text


@dataclass(frozen=True)
class Kind:
    """A type, values in ascending order as integers of its unit or as they are, and one of them as SQL has it."""

    sql: str
    values: Sequence[Any]
    plain: int  # the position of a value that has a literal
    literal: str
    arrow: pa.DataType
    units: pa.DataType | None = None

    def array(self, places: Sequence[int]) -> pa.Array:
        values = [self.values[place] for place in places]
        return pa.array(values, self.arrow) if self.units is None else pa.array(values, self.units).view(self.arrow)


NAN, INF = float("nan"), float("inf")
DAY = 86_400_000_000
LONG = "ż" * 33_000  # more than 64 KiB
KINDS = {
    "boolean": Kind("BOOLEAN", [False, True], 1, "TRUE", pa.bool_()),
    "float": Kind("FLOAT", [-INF, -1.0, 1.0, 3.5, INF, NAN], 3, "3.5", pa.float32()),
    "double": Kind("DOUBLE", [-INF, -1e308, 5e-324, 2.5, INF, NAN], 3, "2.5", pa.float64()),
    "zero": Kind("DOUBLE", [-1.0, -0.0, 0.0, 1.0], 3, "1.0", pa.float64()),
    "decimal(38,18)": Kind(
        "DECIMAL(38, 18)",
        [Decimal("-99999999999999999999.999999999999999999"), Decimal("-1E-18"), Decimal("1E-18"),
         Decimal("99999999999999999999.999999999999999999")],
        3, "99999999999999999999.999999999999999999", pa.decimal128(38, 18),
    ),
    "string": Kind("STRING", ["", "\0", "a", "a\0", "z", "\uffff", "\U0001f600", ], 2, "'a'", pa.string()),
    "long string": Kind("STRING", ["", "a", LONG, LONG + "a"], 1, "'a'", pa.string()),
    "binary": Kind("BYTES", [b"", b"\0", b"\x0f", b"\x7f", b"\x80\0", b"\xff" * 300], 2, "X'F'", pa.binary()),
    "date": Kind("DATE", [-(1 << 31), -800_000, 0, 19_723, 3_000_000, (1 << 31) - 1], 3, "DATE '2024-01-01'",
                 pa.date32(), pa.int32()),
    "time": Kind("TIME(3)", [0, 1, 86_399_999], 1, "1", pa.time32("ms"), pa.int32()),
    "timestamp(3)": Kind("TIMESTAMP_NTZ(3)", [-(1 << 62), -1, 0, 1_704_067_200_000, 1 << 62], 3, "'2024-01-01'",
                         pa.timestamp("ms"), pa.int64()),
    "timestamp(6)": Kind("TIMESTAMP_NTZ(6)", [-(1 << 62), -800_000 * DAY, -1, 0, 1_704_067_200_000_000, 1 << 62], 4,
                         "'2024-01-01'", pa.timestamp("us"), pa.int64()),
    "timestamp_ltz(6)": Kind("TIMESTAMP_LTZ(6)", [-(1 << 62), -1, 0, 1_704_067_200_000_000, 3_000_000 * DAY], 3,
                             "'2024-01-01'", pa.timestamp("us", tz="UTC"), pa.int64()),
    "timestamp(9)": Kind("TIMESTAMP_NTZ(9)", [-(1 << 62), -1, 0, 1_704_067_200_000_000_000, 1 << 62], 3,
                         "'2024-01-01'", pa.timestamp("ns"), pa.int64()),
}  # fmt: skip
every_kind = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "long string" else name for name in KINDS]
)


def made(folder: Path, kind: Kind, keys: Sequence[str], partitions: Sequence[str] = (), **options: str) -> Table:
    catalog: Catalog = bucketlake.open(folder)
    columns = {"x": kind.sql, "k": "INT", "v": "INT"}
    fields = [DataField(i, name, parse_type_text(text)) for i, (name, text) in enumerate(columns.items())]
    return catalog.create_table("t", fields, list(partitions), list(keys), {"bucket": "2", **options})


def rows(kind: Kind, places: Sequence[int], v: int = 0) -> pa.Table:
    return pa.table(
        {"x": kind.array(places), "k": pa.array(places, pa.int32()), "v": pa.array([v] * len(places), pa.int32())}
    )


def bits(kind: Kind, table: pa.Table, *columns: str) -> list[tuple[Any, ...]]:
    """Rows that compare: dates and stamps as integers, floats by their bits, one NaN."""
    x = table["x"].combine_chunks()
    x = x.view(kind.units) if kind.units is not None else x
    values = [struct.pack(">d", v) if isinstance(v, float) else v for v in x.to_pylist()]
    return sorted(zip(values, *(table[c].to_pylist() for c in columns), strict=True))


def nameable(kind: Kind) -> Kind:
    """Timestamps whose years a folder's name can tell."""
    if not pa.types.is_timestamp(kind.arrow):
        return kind
    last = {"ms": 253_402_300_799_999, "us": 253_402_300_799_999_999, "ns": 1 << 63}[kind.arrow.unit]
    values = [value for value in kind.values if -last // 5 < value <= last]
    return replace(kind, values=values, plain=values.index(kind.values[kind.plain]))


REFUSED = {("partition", "binary"), ("partition", "long string")}  # as a folder's name


@every_kind
@pytest.mark.parametrize("role", later(["partition", "key", "sequence"], 2))
def test_a_table_of_strange_values_stays_of_use(tmp_path: Path, name: str, role: str) -> None:
    if (role, name) in REFUSED:
        return
    kind = KINDS[name] if role != "partition" else nameable(KINDS[name])
    every = list(range(len(kind.values)))
    keys = {"key": ["x"], "partition": ["x", "k"], "sequence": ["k"]}[role]
    options = {"sequence.field": "x"} if role == "sequence" else {}
    table = made(tmp_path, kind, keys, ["x"] if role == "partition" else [], **options)
    table.write_arrow(rows(kind, every, 1))
    for places in (every[::2], every[1::2]):
        table.write_arrow(rows(kind, places, 2))
    expected = bits(kind, rows(kind, every, 2), "v")
    assert bits(kind, table.to_arrow(), "v") == expected
    here = bits(kind, rows(kind, [kind.plain], 2), "v")
    assert bits(kind, table.to_arrow(where=f"x = {kind.literal}"), "v") == here
    assert bits(kind, table.to_arrow(where=f"x <> {kind.literal}"), "v") == [r for r in expected if r not in here]
    above = [place for place in every if place > kind.plain]
    assert table.to_arrow(where=f"x > {kind.literal}").num_rows == len(above)
    table.compact(full=True)
    assert bits(kind, table.to_arrow(), "v") == expected
    assert table.to_arrow(where=f"x < {kind.literal}").num_rows == kind.plain
    table.delete(f"x = {kind.literal}")
    rest = [r for r in expected if r not in here]
    assert bits(kind, table.to_arrow(), "v") == rest
    table.write_arrow(rows(kind, every, 3))
    table.compact(full=True)
    assert bits(kind, table.to_arrow(), "v") == bits(kind, rows(kind, every, 3), "v")
    assert len(table.partitions()) == (len(every) if role == "partition" else 0)
    assert pc.all(pc.is_valid(table.to_arrow()["x"])).as_py()
