"""Instants before 1970 and beyond 64-bit nanoseconds in ORC, between Bucketlake and Apache Paimon on Flink."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.interop.cases import Case, Maker
from tests.interop.catalogue import CODECS
from tests.interop.engines import DATABASE, insert_all, read_by_flink, result_rows
from tests.interop.values import arrow_rows, canonical
from tests.peers.flink import FlinkPaimon

import bucketlake
from bucketlake.table import Table

pytestmark = [pytest.mark.peer, pytest.mark.slow]

COLUMNS = {
    "id": "INT",
    "t3": "TIMESTAMP(3)",
    "t6": "TIMESTAMP(6)",
    "t9": "TIMESTAMP(9)",
    "l6": "TIMESTAMP_LTZ(6)",
    "a": "ARRAY<TIMESTAMP(6)>",
    "r": "ROW<s STRING, t TIMESTAMP(9), l ARRAY<TIMESTAMP_LTZ(3)>>",
    "m": "MAP<STRING, TIMESTAMP(6)>",
}
EPOCH = dt.datetime(1970, 1, 1)
SECOND = 10**6
# Seconds: the first and last of Paimon's years, about the bounds of 64-bit nanoseconds and of 1582, and near 1970.
SECONDS = [-62_135_596_800, -12_219_292_801, -9_223_372_037, -9_223_372_036, -2, 0, 9_223_372_036, 253_402_300_799]
FRACTIONS = [0, 1, 999, 1_000, 1_001, 123_456, 500_000, 999_000, 999_999]
# Of the 999 milliseconds before 1970 ORC has whole milliseconds only.
MICROS = [second * SECOND + fraction for second in SECONDS for fraction in FRACTIONS] + [
    *(-SECOND + fraction for fraction in (0, 1, 999, 1_000, 500_000, 999_000)),
]
NANOS = [-(2**63) + 1, -9_000_000_000_123_456_789, -2_000_000_001, -1_999_000_001, -1_000_000_001, -999_999_999]
MANY = 4000


def _row(at: int, micros: int) -> tuple[Any, ...]:
    stamp = EPOCH + dt.timedelta(microseconds=micros)
    coarse = EPOCH + dt.timedelta(milliseconds=micros // 1000)
    fine = NANOS[at % len(NANOS)]
    local = stamp.replace(tzinfo=dt.timezone.utc)
    row = {"s": str(at), "t": fine, "l": [coarse.replace(tzinfo=dt.timezone.utc), None]} if at % 5 else None
    listed = [stamp, None, stamp] if at % 3 else []
    return (at, coarse, stamp, fine, local, listed, row, [(f"k{at}", stamp)] if at % 4 else [])


ROWS = [*(_row(at, micros) for at, micros in enumerate(MICROS)), (len(MICROS), *(None for _ in range(7)))]


def _many() -> list[tuple[Any, ...]]:
    """Several row groups, nulls among them."""
    rows = [_row(at, -at * 7_654_321 - 2 * SECOND) for at in range(MANY)]
    return [row if row[0] % 7 else (row[0], None, None, *row[3:]) for row in rows]


@dataclass(frozen=True)
class World:
    """What both engines say of the tables of each."""

    made: dict[str, Maker]
    theirs: dict[str, Table]
    rows: dict[str, Any]


def _cases() -> list[Case]:
    append = {"bucket": "-1", "file.format": "orc"}
    upsert = {"bucket": "1", "file.format": "orc"}

    def upserted(maker: Maker) -> None:
        maker.write(*ROWS)
        maker.write(*ROWS[10:30])
        maker.delete("id in (3, 12)", lambda row: row["id"] in (3, 12))

    found = [
        Case(f"orc_{codec}", "", COLUMNS, lambda m: m.write(*ROWS), options={**append, "file.compression": codec})
        for codec in CODECS["orc"]
    ]
    many = {**append, "orc.row.index.stride": "1000"}
    found.append(Case("orc_many", "", COLUMNS, lambda m: m.write(*_many()), options=many))
    found.append(Case("orc_upserted", "", COLUMNS, upserted, keys=["id"], options=upsert))
    found.append(Case("orc_key", "", {"t9": "TIMESTAMP(9)", "id": "INT"}, _keyed, keys=["t9"], options=upsert))
    return found


def _keyed(maker: Maker) -> None:
    maker.write(*((nanos, at) for at, nanos in enumerate(NANOS)))
    maker.write(*((nanos, at + 100) for at, nanos in enumerate(NANOS[2:])))


@pytest.fixture(scope="module")
def world(flink: FlinkPaimon, tmp_path_factory: pytest.TempPathFactory) -> World:
    """Ours, and what Flink wrote of them."""
    folder: Path = tmp_path_factory.mktemp("orc")
    catalog = bucketlake.open(folder)
    for database in (DATABASE, "flink"):
        catalog.create_database(database)
    flink.use(folder)
    made = {case.name: case.make(catalog, DATABASE) for case in _cases()}
    theirs = {case.name: case.create(catalog, "flink") for case in _cases()}
    failures = insert_all(flink, [(f"{DATABASE}.{name}", f"flink.{name}") for name in made])
    assert not failures
    tables = [*(maker.table for maker in made.values()), *theirs.values()]
    return World(made, {name: table.refresh() for name, table in theirs.items()}, read_by_flink(flink, tables))


NAMES = [case.name for case in _cases()]


def _rows(table: Table) -> list[str]:
    return canonical(arrow_rows(table.to_arrow(), table.schema.fields))


@pytest.mark.parametrize("name", NAMES)
def test_flink_and_bucketlake_read_what_bucketlake_wrote(world: World, name: str) -> None:
    maker = world.made[name]
    assert _rows(maker.table) == maker.expected()
    assert world.rows[f"{DATABASE}.{name}"] == maker.expected()


@pytest.mark.parametrize("name", NAMES)
def test_bucketlake_reads_what_flink_reads_of_its_own(world: World, name: str) -> None:
    """Not what it was given: Java moves dates before 1582, and the last second before 1970."""
    assert _rows(world.theirs[name]) == world.rows[f"flink.{name}"]


def test_flink_skips_row_groups_of_ours_rightly(world: World, flink: FlinkPaimon) -> None:
    """The conditions are put to ORC's reader, which seeks to the groups that may match."""
    table = world.made["orc_many"].table
    asked = "id >= 1700 AND id < 1710"
    kept = canonical(arrow_rows(table.to_arrow(where=asked), table.schema.fields))
    assert len(kept) == 10
    assert result_rows(flink.sql(f"SELECT * FROM {table.name} WHERE {asked}")) == kept
    stamp = next(row[2] for row in _many() if row[0] == 2203)
    literal = f"TIMESTAMP '{stamp.isoformat(' ', 'microseconds')}'"
    assert result_rows(flink.sql(f"SELECT id FROM {table.name} WHERE t6 = {literal}")) == canonical([(2203,)])
