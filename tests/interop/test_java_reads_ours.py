"""Apache Paimon on Flink, pypaimon and paimon-rust read what Bucketlake wrote without Spark; Flink writes on in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from tests.interop.cases import Maker
from tests.interop.catalogue import catalogue
from tests.interop.engines import (
    COPIES,
    DATABASE,
    described,
    insert_all,
    keys_by_bucket,
    listed_here,
    listing,
    read_by_flink,
)
from tests.interop.values import arrow_rows, canonical
from tests.peers.flink import FlinkPaimon
from tests.peers.rpc import PeerError

import bucketlake
from bucketlake import Table

pytestmark = pytest.mark.peer

CASES = {case.name: case for case in catalogue()}
COPIED = [name for name, case in CASES.items() if case.copied]
KEYED = [name for name in COPIED if CASES[name].options["bucket"] != "-1"]


@dataclass
class World:
    """All tables, made once, and what Flink read of them."""

    made: dict[str, Maker]
    copies: dict[str, Table]
    failures: dict[str, PeerError]
    rows: dict[str, list[str] | PeerError]
    files: dict[str, list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def world(flink: FlinkPaimon, tmp_path_factory: pytest.TempPathFactory) -> World:
    """Every case made by Bucketlake, and those that are `copied` filled by Flink from ours."""
    catalog = bucketlake.open(tmp_path_factory.mktemp("interop"))
    for database in (DATABASE, COPIES):
        catalog.create_database(database)
    made = {name: case.make(catalog, DATABASE) for name, case in CASES.items()}
    copies = {name: CASES[name].create(catalog, COPIES) for name in COPIED}
    flink.use(catalog.warehouse)
    failures = insert_all(flink, [(f"{DATABASE}.{name}", f"{COPIES}.{name}") for name in COPIED])
    rows = read_by_flink(flink, [maker.table for name, maker in made.items() if name not in COPIED])
    files = listing(flink, [f"{DATABASE}.{name}" for name in CASES])
    return World(made, copies, failures, rows, files)


@pytest.mark.parametrize("name", [name for name in CASES if name not in COPIED])
def test_flink_reads_equal_rows(world: World, name: str) -> None:
    found = world.rows[f"{DATABASE}.{name}"]
    if isinstance(found, PeerError):
        raise found
    assert found == world.made[name].expected()


@pytest.mark.parametrize("name", COPIED)
def test_flink_reads_equal_rows_into_a_copy(world: World, name: str) -> None:
    """Flink read ours to fill the copy; that holds the rows that ours should."""
    if f"{COPIES}.{name}" in world.failures:
        raise world.failures[f"{COPIES}.{name}"]
    table = world.copies[name]
    assert canonical(arrow_rows(table.to_arrow(), table.schema.fields)) == world.made[name].expected()


@pytest.mark.parametrize("name", KEYED)
def test_every_key_lies_in_the_bucket_that_flink_gives_it(world: World, name: str) -> None:
    table = world.made[name].table
    columns = table.schema.primary_keys or table.schema.bucket_keys
    ours, theirs = keys_by_bucket(table, columns), keys_by_bucket(world.copies[name], columns)
    assert ours == theirs
    assert len({folder.rsplit("/", 1)[-1] for folder in ours}) > 1


@pytest.mark.parametrize("name", [name for name in COPIED if name.startswith("pt_")])
def test_partitions_lie_in_the_folders_that_flink_gives_them(world: World, name: str) -> None:
    assert keys_by_bucket(world.made[name].table, ["k"]) == keys_by_bucket(world.copies[name], ["k"])


@pytest.mark.parametrize("name", CASES)
def test_flink_lists_the_files_that_bucketlake_lists(world: World, name: str) -> None:
    assert world.files[f"{DATABASE}.{name}"] == listed_here(world.made[name].table)


@pytest.mark.parametrize("name", COPIED)
def test_files_and_statistics_are_those_that_flink_writes(world: World, name: str) -> None:
    """Equal in all, but for statistics that only one of both has."""
    ours, theirs = described(world.made[name].table), described(world.copies[name])
    assert [facts for facts, _ in ours] == [facts for facts, _ in theirs]
    for (_, mine), (_, other) in zip(ours, theirs, strict=True):
        differing = {
            column: (mine[column], other[column])
            for column in mine.keys() & other.keys()
            if any(a != b and None not in (a, b) for a, b in zip(mine[column], other[column], strict=True))
        }
        assert differing == {}
        assert other.keys() <= mine.keys()
