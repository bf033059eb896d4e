"""A table with a column of every type, nulls and NaN among its values, in overlapping files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from bucketlake import Catalog, Table
from bucketlake.ops.rows import one_file

UTC = dt.timezone.utc
EVERY = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("part", pa.string()),
        ("s", pa.string()),
        ("f", pa.float64()),
        ("f4", pa.float32()),
        ("i8", pa.int8()),
        ("i16", pa.int16()),
        ("i32", pa.int32()),
        ("d", pa.date32()),
        ("ts", pa.timestamp("ms")),
        ("ns", pa.timestamp("ns")),
        ("tz", pa.timestamp("us", "UTC")),
        ("dec", pa.decimal128(10, 2)),
        ("b", pa.bool_()),
        ("tm", pa.time32("ms")),
        ("bi", pa.binary()),
        ("l", pa.list_(pa.int32())),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("st", pa.struct([("a", pa.int32()), ("b", pa.string())])),
    ]
)


def row(i: int) -> dict[str, Any]:
    """One row of the table, by its key."""
    there = i % 7 != 3
    start = dt.datetime(2020, 1, 1)
    return {
        "id": i,
        "part": "ab"[i % 2],
        "s": f"s{i}" if there else None,
        "f": float("nan") if i % 5 == 0 else -0.0 if i % 5 == 1 else i / 4 if there else None,
        "f4": float(i) if there else None,
        "i8": i % 100 if there else None,
        "i16": i if there else None,
        "i32": i * 1000 if there else None,
        "d": start.date() + dt.timedelta(i % 50) if there else None,
        "ts": start + dt.timedelta(hours=i) if there else None,
        "ns": start + dt.timedelta(minutes=i) if there else None,
        "tz": start.replace(tzinfo=UTC) + dt.timedelta(hours=i) if there else None,
        "dec": Decimal(i) / 4 if there else None,
        "b": [True, False, None][i % 3],
        "tm": dt.time(i % 24, i % 60, 0, 1000) if there else None,
        "bi": bytes([i % 256]) if there else None,
        "l": [i, None] if there else None,
        "m": [("k", i)] if there else None,
        "st": {"a": i, "b": None} if there else None,
    }


def every(catalog: Catalog, rows: int = 400, **options: str) -> Table:
    """The table: two commits, the second overwrites half of the first, and nothing compacted."""
    catalog.create_database("db", ignore_if_exists=True)
    table = catalog.create_table(
        "db.every", EVERY, ["part"], ["part", "id"], options={"bucket": "1", "write-only": "true", **options}
    )
    for start in range(2):
        first = start * rows // 2
        table.write_arrow(pa.Table.from_pylist([row(i) for i in range(first, first + rows)], EVERY))
    return table


@contextmanager
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The data files that are opened meanwhile, and the columns read of each."""
    paths: list[str] = []
    plain = one_file.read_recorded

    def told(storage: Any, file: Any, stored: Any, names: Any, *more: Any) -> Any:
        paths.append(f"{file.path}: {','.join(names)}")
        return plain(storage, file, stored, names, *more)

    with monkeypatch.context() as patch:
        patch.setattr(one_file, "read_recorded", told)
        yield paths


_CONNECTIONS: list[Any] = []


def connected() -> Any:
    """A DuckDB connection that lives on: older versions end their relations with the connection."""
    _CONNECTIONS.append(duckdb.connect())
    return _CONNECTIONS[-1]
