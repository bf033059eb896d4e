"""UPDATE of append tables: rows stay where they are, their files are written once more."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.profile import later, seeds
from tests.sim.clock import FakeClock
from tests.sim.storage import (
    FAIL_AFTER,
    FAIL_BEFORE,
    KILL_AFTER,
    KILL_BEFORE,
    FaultStorage,
    Killed,
    MapStorage,
    fault_at,
)
from tests.sim.tables import ROOT, create_table, make_store, table_schema

from bucketlake.catalog import Catalog
from bucketlake.errors import BucketlakeError, InvalidError
from bucketlake.format.index.deletion_vector import vector_of
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.ops.change.append_rows import update_rows
from bucketlake.ops.change.new_values import NewValues, rewrite_changed
from bucketlake.ops.change.touched import Touched
from bucketlake.ops.scan.scan import Scan, plan
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.change import AddColumn, RenameColumn, SetOption
from bucketlake.table import Table
from bucketlake.types.model import INT, arrow_schema

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int32()), ("t", pa.string()), ("x", pa.float64()), ("p", pa.int32())])
KINDS: dict[str, dict[str, str]] = {
    "parquet": {},
    "bucketed": {"bucket": "2", "bucket-key": "id"},
    "orc": {"file.format": "orc"},
    "avro": {"file.format": "avro"},
    "indexed": {"file-index.bloom-filter.columns": "t", "file-index.in-manifest-threshold": "1 b"},
    "small groups": {"parquet.block.size": "1 kb"},
    "dense": {"metadata.stats-dense-store": "true", "metadata.stats-mode": "counts", "fields.n.stats-mode": "full"},
    "snappy": {"file.compression": "snappy"},
}


def rows_of(ids: Iterator[int] | range, part: int = 0) -> pa.Table:
    known = list(ids)
    return pa.table(
        {
            "id": known,
            "n": [i % 7 for i in known],
            "t": [None if i % 5 == 0 else f"text {i}" for i in known],
            "x": [i / 4 for i in known],
            "p": [part] * len(known),
        },
        SCHEMA,
    )


def files(table: Table) -> list[DataFile]:
    return [file for split in plan(table.refresh().store, Scan()).splits for file in split.files]


def stored(table: Table) -> list[tuple[Any, ...]]:
    """The rows in the order in which they lie."""
    return [tuple(row.values()) for row in table.refresh().to_arrow().to_pylist()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by", [(), ("p",)])
def test_rows_stay_where_they_are(catalog: Catalog, kind: str, by: tuple[str, ...]) -> None:
    table = catalog.create_table("db.t", SCHEMA, partition_keys=by, options=KINDS[kind])
    for part in (0, 1):
        table.write_arrow(rows_of(range(part * 100, part * 100 + 50), part))
    before, names = stored(table), {file.file_name for file in files(table)}
    snapshot = table.update({"t": "new", "x": None}, "n = 3 AND id < 100")
    assert snapshot is not None and (snapshot.commit_kind.name, snapshot.total_record_count) == ("OVERWRITE", 100)
    expected = [(*row[:2], "new", None, row[4]) if row[1] == 3 and row[0] < 100 else row for row in before]
    for first in (0, 100):  # what is written once more comes behind other files
        own = [row for row in stored(table) if first <= row[0] < first + 100]
        assert own == [row for row in expected if first <= row[0] < first + 100]
    kept = names & {file.file_name for file in files(table)}
    assert len(files(table)) == len(names) and 0 < len(kept) < len(names)
    assert not table.refresh().fsck(level="rows").findings
    found = table.refresh().to_arrow(where="t = 'new'")["id"].to_pylist()
    assert sorted(found) == [row[0] for row in sorted(before, key=lambda row: row[0]) if row[1] == 3 and row[0] < 100]


def test_other_columns_are_copied_as_bytes(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA, options={})
    table.write_arrow(rows_of(range(5000)))

    def chunk(column: int) -> bytes:
        (path,) = [path for path in Path(table.path).rglob("*.parquet") if path.name == files(table)[0].file_name]
        found = pq.read_metadata(path).row_group(0).column(column)
        start = found.dictionary_page_offset or found.data_page_offset
        return path.read_bytes()[start : start + found.total_compressed_size]

    before = [chunk(column) for column in range(5)]
    table.update({"n": 99}, "id = 4000")
    assert [chunk(column) == old for column, old in enumerate(before)] == [True, False, True, True, True]
    assert table.to_arrow(where="n = 99")["id"].to_pylist() == [4000]


def test_columns_that_place_rows_move_them(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA, partition_keys=["p"], options={"bucket": "2", "bucket-key": "id"})
    table.write_arrow(rows_of(range(20)))
    table.update({"p": 5}, "id < 3")
    table.update({"id": 77}, "id = 9")
    assert sorted(table.refresh().to_arrow(where="p = 5")["id"].to_pylist()) == [0, 1, 2]
    assert table.to_arrow(where="id = 77")["n"].to_pylist() == [2]
    assert not table.refresh().fsck(level="rows").findings


def test_files_of_an_older_schema(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA, options={})
    table.write_arrow(rows_of(range(10)))
    table.alter(AddColumn("more", INT), RenameColumn("t", "words"))
    table = catalog.table("db.t")
    table.update({"more": 4, "words": "w"}, "id = 3")
    found = table.refresh().to_arrow(columns=["id", "words", "more"]).to_pylist()
    assert found[3] == {"id": 3, "words": "w", "more": 4} and found[4]["more"] is None
    assert len(files(table)) == 1 and not table.refresh().fsck(level="rows").findings


def test_rows_that_older_vectors_name_do_not_come_back(catalog: Catalog) -> None:
    options = {"deletion-vectors.enabled": "true", "deletion-vectors.modifiable": "true"}
    table = catalog.create_table("db.t", SCHEMA, options=options)
    table.write_arrow(rows_of(range(10)))
    table.delete("id = 2 OR id = 5")
    table.alter(SetOption("deletion-vectors.enabled", "false"))
    table = catalog.table("db.t")
    assert table.update({"n": 50}, "id >= 4") is not None
    assert [(row[0], row[1]) for row in stored(table)] == [
        (0, 0), (1, 1), (3, 3), (4, 50), (6, 50), (7, 50), (8, 50), (9, 50)
    ]  # fmt: skip


def test_small_files_become_one(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA, options={})
    for start in range(0, 50, 10):
        table.write_arrow(rows_of(range(start, start + 10)))
    before = stored(table)
    table.update({"n": -1}, "id IN (5, 15, 16, 48)")
    assert sorted(stored(table), key=lambda row: row[0]) == [
        (row[0], -1, *row[2:]) if row[0] in (5, 15, 16, 48) else row for row in before
    ]
    assert len(files(table)) == 3


def test_values_are_checked(catalog: Catalog) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int32())])
    table = catalog.create_table("db.t", schema, options={})
    table.write_arrow(pa.table({"id": [1], "n": [1]}, schema))
    for values in ({"id": None}, {"n": 1 << 40}, {"n": "text"}):
        with pytest.raises(InvalidError):
            table.update(values)
    assert stored(table) == [(1, 1)]
    assert len(list(Path(table.path).rglob("*.parquet"))) == 1


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_values_that_do_not_fit_are_no_fault_of_a_file(catalog: Catalog, kind: str) -> None:
    """Tasks tell errors of rows apart from damage: they would be tried again."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int32())])
    table = catalog.create_table("db.t", schema, options=KINDS[kind])
    table.write_arrow(pa.table({"id": [1, 2], "n": [1, 2]}, schema))
    (split,) = plan(table.store, Scan()).splits
    touched = Touched(
        split, split.files[0], vector_of(np.array([1]), bits64=False), vector_of(np.array([], np.int64), bits64=False)
    )
    row = {"id": pa.array([None], pa.int64()), "file": pa.array([0]), "position": pa.array([1])}
    values = NewValues(table.schema.fields[:1], pa.table(row).to_batches())
    with pytest.raises(InvalidError, match="id"):
        rewrite_changed(table.store, [(0, touched)], values)
    assert len(list(Path(table.path).rglob("data-*"))) == 1


@pytest.mark.parametrize("seed", seeds(6, 200))
def test_any_updates_against_a_model(catalog: Catalog, seed: int) -> None:
    """Updates, appends and deletes of every kind of table; row by row the same as a list of rows."""
    chance = random.Random(seed)
    kind = chance.choice(list(KINDS))
    by = chance.choice([(), ("p",)])
    table = catalog.create_table("db.t", SCHEMA, partition_keys=by, options={**KINDS[kind], "write-only": "true"})
    model: dict[int, list[Any]] = {}
    for step in range(12):
        if step % 3 == 0:
            part, start = chance.randrange(2), len(model)
            new = rows_of(range(start, start + chance.randrange(1, 400)), part)
            table.write_arrow(new)
            model |= {row["id"]: list(row.values()) for row in new.to_pylist()}
            continue
        low = chance.randrange(len(model) + 1)
        where, picked = chance.choice(
            [
                (f"id = {low}", lambda row, low=low: row[0] == low),
                (f"n = {low % 8}", lambda row, low=low: row[1] == low % 8),
                (f"id BETWEEN {low} AND {low + 60}", lambda row, low=low: low <= row[0] <= low + 60),
                ("t IS NULL", lambda row: row[2] is None),
            ]
        )
        values = {
            name: value
            for name, value in {"n": chance.randrange(9), "t": chance.choice([None, "", "ü" * 40]), "x": 0.5}.items()
            if chance.random() < 0.5
        } or {"n": 8}
        table.update(values, where)
        for row in model.values():
            if picked(row):
                row[1], row[2], row[3] = (values.get(name, old) for name, old in zip("ntx", row[1:4], strict=True))
        assert sorted(stored(table), key=lambda row: row[0]) == [tuple(row) for _, row in sorted(model.items())]
    assert not table.refresh().fsck(level="rows").findings


# ---- faults

FAULTY = table_schema(keyed=False, bucket=-1, options={"commit.max-retries": "4"})


def prepared() -> tuple[MapStorage, Any]:
    clear_cache()
    inner = MapStorage()
    store = create_table(inner, FakeClock(), FAULTY)
    rows = {"pt": [number % 2 + 1 for number in range(9)], "k": range(9), "v": ["old"] * 9}
    Table(store, "t").write_arrow(pa.table(rows, arrow_schema(FAULTY.fields)))
    return inner, store


def data_files(inner: MapStorage) -> set[str]:
    return {info.path for info in inner.walk(ROOT) if info.path.endswith(".parquet")}


def values_of(inner: MapStorage) -> list[str]:
    clear_cache()
    found = Table(make_store(inner, FakeClock(9), FAULTY), "t").to_arrow()
    assert sorted(found["k"].to_pylist()) == list(range(9))
    return sorted(set(found["v"].to_pylist()))


@pytest.mark.parametrize("fault", later([KILL_AFTER, FAIL_BEFORE, FAIL_AFTER, KILL_BEFORE], 2))
def test_every_call_fails_is_lost_or_the_last(fault: str) -> None:
    """The table is as it was or as it shall be, an error leaves no file that no snapshot has, and the update can be
    repeated."""
    inner, _ = prepared()
    counting = FaultStorage(inner)
    update_rows(make_store(counting, FakeClock(1), FAULTY), None, {"v": "new"})
    assert len(counting.calls) > 10
    for call in range(len(counting.calls)):
        inner, _ = prepared()
        before = data_files(inner)
        storage = FaultStorage(inner, fault_at(call, fault))
        with suppress(BucketlakeError, Killed):
            update_rows(make_store(storage, FakeClock(1), FAULTY), None, {"v": "new"})
        found = values_of(inner)
        assert found in (["old"], ["new"])
        if found == ["old"] and fault == FAIL_BEFORE:
            assert data_files(inner) == before, call
        update_rows(make_store(inner, FakeClock(2), FAULTY), None, {"v": "newer"})
        assert values_of(inner) == ["newer"]
