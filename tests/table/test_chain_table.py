"""Chain tables: which partitions make up which, what conditions leave out, what is refused; histories against a model."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.profile import seeds
from tests.table.chain import DAILY, DELETE, DELTA, HOURLY, INSERT, MAIN, WHOLE, Chain, Row, paimons_example

import bucketlake
from bucketlake import InvalidError, UnsupportedError
from bucketlake.schema.change import AddColumn, RenameColumn
from bucketlake.types.model import INT


def test_a_partition_is_the_nearest_whole_one_and_the_deltas_behind_it(tmp_path: Path) -> None:
    tables = Chain(tmp_path)
    paimons_example(tables)

    def day(number: str, **more: Any) -> list[Row]:
        return [row[1:] for row in tables.rows(where=f"dt = '202508{number}'", **more)]

    assert day("09") == [(1, 1, "1"), (2, 1, "1")]  # no whole partition before it: all deltas up to it
    assert day("10") == [(1, 1, "1"), (2, 1, "1")]  # of the main branch, which comes first
    assert day("11") == [(1, 2, "1-1"), (2, 2, "1-1"), (3, 1, "1"), (4, 1, "1")]
    assert day("12") == [(1, 2, "1-1"), (2, 2, "1-1"), (3, 2, "1-1"), (4, 2, "1-1")]  # whole as it is, without d7
    assert day("13")[4:] == [(5, 1, "1"), (6, 1, "1")] and len(day("13")) == 6
    assert day("14")[4:] == [(5, 1, "1"), (6, 1, "1")]
    assert len(tables.rows()) == 24
    assert tables.rows(DELTA, where="dt = '20250811'") == [("20250811", 2, 2, "1-1"), ("20250811", 4, 1, "1")]
    assert {row[0] for row in tables.rows()} == set(tables.partitions(MAIN)) == {f"202508{d:02}" for d in range(9, 15)}


def test_conditions_are_about_rows_after_they_were_merged(tmp_path: Path) -> None:
    tables = Chain(tmp_path)
    paimons_example(tables)
    assert tables.rows(where="dt = '20250811' AND k = 1") == [("20250811", 1, 2, "1-1")]
    assert tables.rows(where="dt = '20250811' AND k = 7") == []
    assert tables.rows(where="dt IN ('20250811', '20250812') AND k = 1") == [
        ("20250811", 1, 2, "1-1"),
        ("20250812", 1, 2, "1-1"),
    ]
    assert tables.rows(where="v = 'd7'") == []  # a delta has it, of a partition that is there whole
    assert tables.rows(where="dt = '20250811' AND s = 1") == [("20250811", 3, 1, "1"), ("20250811", 4, 1, "1")]
    assert tables.rows(where="(dt = '20250811' AND k = 2) OR (dt = '20250809' AND k = 1)") == [
        ("20250809", 1, 1, "1"),
        ("20250811", 2, 2, "1-1"),
    ]
    opened = tables.catalog.table(MAIN).files(where="dt = '20250811' AND k = 4")
    every = [file.path for file in tables.catalog.table(MAIN).files()]
    assert len(every) == len(set(every))
    assert 0 < len(opened) < len(tables.catalog.table(MAIN).files(where="dt = '20250811'"))
    assert len(tables.rows(where="dt = '20250811'", columns=["v"], limit=2)) == 2


def test_groups_are_chains_of_their_own(tmp_path: Path) -> None:
    tables = Chain(tmp_path, ("region", "dt"), **{"chain-table.chain-partition-keys": "dt"})
    tables.write(WHOLE, ("CN", "20250810", 1, 1, "cn"), ("US", "20250812", 9, 1, "us"))
    tables.write(DELTA, ("CN", "20250811", 2, 1, "d"), ("US", "20250811", 8, 1, "d"), ("UK", "20250811", 5, 1, "d"))
    tables.write(DELTA, ("US", "20250813", 9, 2, "new"), ("CN", "20250813", 1, 2, "new"))
    assert tables.rows(where="dt = '20250811'") == [
        ("CN", "20250811", 1, 1, "cn"),
        ("CN", "20250811", 2, 1, "d"),
        ("UK", "20250811", 5, 1, "d"),
        ("US", "20250811", 8, 1, "d"),
    ]
    assert tables.rows(where="dt = '20250813'") == [
        ("CN", "20250813", 1, 2, "new"),
        ("CN", "20250813", 2, 1, "d"),
        ("US", "20250813", 9, 2, "new"),
    ]
    assert tables.rows(where="region = 'US' AND dt = '20250813'") == [("US", "20250813", 9, 2, "new")]


def test_several_columns_chain(tmp_path: Path) -> None:
    tables = Chain(tmp_path, ("dt", "hh"), **HOURLY)
    tables.write(WHOLE, ("20250810", "22", 1, 1, "whole"))
    tables.write(
        DELTA, ("20250810", "21", 9, 1, "before"), ("20250810", "23", 2, 1, "d"), ("20250811", "00", 1, 2, "e")
    )
    assert tables.rows(where="dt = '20250811'") == [("20250811", "00", 1, 2, "e"), ("20250811", "00", 2, 1, "d")]
    assert tables.rows(where="hh = '21'") == [("20250810", "21", 9, 1, "before")]


@pytest.mark.parametrize("vectors", ["false", "true"])
def test_a_delete_in_a_delta_outlives_compaction(tmp_path: Path, vectors: str) -> None:
    tables = Chain(tmp_path, **{"deletion-vectors.enabled": vectors})
    tables.write(WHOLE, ("20250810", 1, 1, "a"), ("20250810", 2, 1, "a"))
    tables.change(DELTA, (DELETE, ("20250811", 1, 2, "a")), (INSERT, ("20250811", 3, 1, "b")))
    expected = [("20250811", 2, 1, "a"), ("20250811", 3, 1, "b")]
    assert tables.rows(where="dt = '20250811'") == expected
    for name in (DELTA, WHOLE):
        tables.catalog.table(name).compact()
    assert tables.rows(where="dt = '20250811'") == expected
    assert tables.rows(DELTA) == [("20250811", 3, 1, "b")]
    shown = tables.rows(f"{MAIN}$audit_log", where="dt = '20250811'")
    assert [row for row in shown if row[0] == "+I"] == [("+I", *row) for row in expected]


def test_a_read_of_everything_can_be_forbidden(tmp_path: Path) -> None:
    tables = Chain(tmp_path)
    paimons_example(tables)
    with pytest.raises(InvalidError, match="Full scan is not supported"):
        tables.rows(**{"read.allow.fullScan": "false"})
    assert len(tables.rows(where="dt = '20250811'", **{"read.allow.fullScan": "false"})) == 4


def test_partial_updates_merge_across_branches(tmp_path: Path) -> None:
    tables = Chain(tmp_path, **{"merge-engine": "partial-update"})
    tables.write(WHOLE, ("20250810", 1, 1, "a"), ("20250810", 2, 1, "a"))
    tables.write(DELTA, ("20250811", 1, 2, None))
    assert tables.rows(where="dt = '20250811'") == [("20250811", 1, 2, "a"), ("20250811", 2, 1, "a")]
    assert tables.rows(where="dt = '20250811' AND v = 'a' AND s = 2") == [("20250811", 1, 2, "a")]


def test_columns_are_matched_by_each_branchs_own_schemas(tmp_path: Path) -> None:
    tables = Chain(tmp_path)
    tables.write(WHOLE, ("20250810", 1, 1, "a"))
    tables.write(DELTA, ("20250811", 2, 1, "b"))
    tables.catalog.table(WHOLE).alter(AddColumn("more", INT), RenameColumn("v", "w"))
    with pytest.raises(InvalidError, match="does not have the same row type"):
        tables.rows()
    for name in (MAIN, DELTA):
        tables.catalog.table(name).alter(RenameColumn("v", "w"))
        tables.catalog.table(name).alter(AddColumn("more", INT))
    assert tables.rows(where="dt = '20250811'") == [("20250811", 1, 1, "a", None), ("20250811", 2, 1, "b", None)]


def test_time_travel_sees_both_branches_as_they_were(tmp_path: Path) -> None:
    tables = Chain(tmp_path)
    tables.write(WHOLE, ("20250810", 1, 1, "a"))
    tables.write(DELTA, ("20250811", 2, 1, "b"))
    then = tables.catalog.table(DELTA).latest_snapshot()
    assert then is not None
    tables.write(DELTA, ("20250811", 3, 1, "c"))
    tables.write(WHOLE, ("20250811", 9, 1, "z"))
    assert tables.rows(where="dt = '20250811'") == [("20250811", 9, 1, "z")]
    past = tables.rows(where="dt = '20250811'", scan_timestamp_millis=then.time_millis)
    assert past == [("20250811", 1, 1, "a"), ("20250811", 2, 1, "b")]


# ---------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"sequence.field": None}, "Sequence field is required for chain table."),
        ({"bucket": "-1", "bucket-key": None}, "Bucket number must be greater than 0 for chain table."),
        ({"changelog-producer": "lookup"}, "Changelog producer must be none or input for chain table."),
        (
            {"merge-engine": "partial-update", "deletion-vectors.enabled": "true"},
            "Chain tables only support deletion vectors with the deduplicate merge engine.",
        ),
        ({"partition.timestamp-pattern": None}, "Partition timestamp pattern is required for chain table."),
        ({"partition.timestamp-formatter": None}, "Partition timestamp formatter is required for chain table."),
        (
            {"partition.expiration-time": "1 d", "partition.expiration-strategy": "update-time"},
            "Chain table only supports 'values-time' partition expiration strategy, but found 'update-time'.",
        ),
        (
            {"chain-table.chain-partition-keys": "region"},
            r"must be a contiguous suffix of the table's partition keys. Partition keys: \[region, dt\], chain "
            r"partition keys: \[region\].",
        ),
        ({"scan.fallback-delta-branch": "no"}, "because the branch 'no' does not exist"),
    ],
)
def test_what_a_chain_table_needs(tmp_path: Path, changed: dict[str, str | None], reason: str) -> None:
    catalog = bucketlake.open(str(tmp_path))
    catalog.create_database("db")
    schema = pa.schema([("region", pa.string()), ("dt", pa.string()), ("k", pa.int64()), ("s", pa.int64())])
    options = {
        "chain-table.enabled": "true",
        "sequence.field": "s",
        "bucket-key": "k",
        "bucket": "1",
        **DAILY,
        **changed,
    }
    given = {key: value for key, value in options.items() if value is not None}
    with pytest.raises(InvalidError, match=reason):
        catalog.create_table(MAIN, schema, ["region", "dt"], ["region", "dt", "k"], given)
    assert catalog.tables("db") == []


def test_a_chain_table_has_a_key_and_partitions(tmp_path: Path) -> None:
    catalog = bucketlake.open(str(tmp_path))
    catalog.create_database("db")
    schema = pa.schema([("dt", pa.string()), ("k", pa.int64()), ("s", pa.int64())])
    options = {"chain-table.enabled": "true", "bucket-key": "k", "bucket": "1", **DAILY}
    with pytest.raises(InvalidError, match="Primary key is required for chain table"):
        catalog.create_table(MAIN, schema, ["dt"], options=options)
    with pytest.raises(InvalidError, match="Chain table must be partition table"):
        catalog.create_table(MAIN, schema, [], ["k"], {**options, "sequence.field": "s"})


def test_partitions_that_are_not_in_the_order_of_their_times_are_refused(tmp_path: Path) -> None:
    tables = Chain(tmp_path, **{"partition.timestamp-formatter": "dd.MM.yyyy"})
    tables.write(WHOLE, ("01.02.2025", 1, 1, "a"))
    tables.write(DELTA, ("02.02.2025", 2, 1, "b"), ("03.01.2025", 3, 1, "c"))
    assert len(tables.rows(where="dt = '02.02.2025'")) == 2
    for wrong in ("dt = '03.01.2025'", None):
        with pytest.raises(InvalidError, match="not in the order of the times"):
            tables.rows(where=wrong)
    tables.catalog.table(DELTA).drop_partitions([{"dt": "03.01.2025"}])
    tables.write(DELTA, ("2 Feb 2025", 3, 1, "c"))
    with pytest.raises(InvalidError, match="not in the order of the times"):
        tables.rows()
    tables.write(WHOLE, ("02.01.2024", 1, 1, "a"))
    with pytest.raises(InvalidError, match="not in the order of the times"):
        tables.catalog.table(MAIN).expire_partitions({"partition.expiration-time": "1 d"})
    assert len(tables.partitions(WHOLE)) == 2


def test_branches_with_other_numbers_of_buckets_are_refused(tmp_path: Path) -> None:
    tables = Chain(tmp_path)
    tables.write(WHOLE, ("20250810", 1, 1, "a"))
    tables.set(DELTA, bucket="3")
    tables.write(DELTA, ("20250811", 2, 1, "b"))
    with pytest.raises(InvalidError, match="different numbers of buckets"):
        tables.rows()
    assert tables.rows(where="dt = '20250810'") == [("20250810", 1, 1, "a")]


def test_reads_of_other_kinds_are_of_a_branch(tmp_path: Path) -> None:
    tables = Chain(tmp_path)
    paimons_example(tables)
    table = tables.catalog.table(MAIN)
    with pytest.raises(UnsupportedError, match="lookups in a chain table"):
        table.lookup({"dt": ["20250811"], "k": [1]})
    with pytest.raises(UnsupportedError, match="cloning a chain table"):
        tables.catalog.clone_table(table, "db.copy")
    tables.catalog.clone_table(tables.catalog.table(WHOLE), "db.copy")
    assert tables.rows("db.copy") == tables.rows(WHOLE)
    with pytest.raises(UnsupportedError, match=r"\$ro of a chain table"):
        tables.rows(f"{MAIN}$ro")
    with pytest.raises(UnsupportedError, match="age of files"):
        tables.rows(scan_file_creation_time_millis=1)
    with pytest.raises(InvalidError, match="Unset 'scan.fallback-delta-branch' first"):
        table.delete_branch("delta")
    with pytest.raises(InvalidError, match="Cannot rename branch 'snapshot'"):
        table.rename_branch("snapshot", "other")
    with pytest.raises(InvalidError, match="tells no branch"):
        table.read_split(table.plan(where="dt = '20250811'").splits_of(table.store)[0][1])
    parts = table.splits(where="dt = '20250811'")
    assert sum(batch.num_rows for part in parts for batch in part.scan_batches()) == 4


# ---------------------------------------------------------------------------------------------- histories


class Model:
    """What a chain table holds, branch by branch: partition -> key -> (s, kind, v)."""

    def __init__(self) -> None:
        self.main: dict[str, dict[int, tuple[int, int, str]]] = {}
        self.whole: dict[str, dict[int, tuple[int, int, str]]] = {}
        self.delta: dict[str, dict[int, tuple[int, int, str]]] = {}

    @staticmethod
    def merged(*parts: dict[int, tuple[int, int, str]]) -> dict[int, tuple[int, int, str]]:
        found: dict[int, tuple[int, int, str]] = {}
        for part in parts:
            for key, row in part.items():
                if key not in found or found[key][0] <= row[0]:
                    found[key] = row
        return found

    def partition(self, day: str) -> dict[int, tuple[int, int, str]]:
        for branch in (self.main, self.whole):
            if day in branch:
                return branch[day]
        return self.chained(day)

    def chained(self, day: str) -> dict[int, tuple[int, int, str]]:
        anchor = max((one for one in self.whole if one < day), default="")
        deltas = [self.delta[one] for one in sorted(self.delta) if anchor < one <= day]
        return self.merged(self.whole.get(anchor, {}), *deltas)

    def rows(self) -> list[Row]:
        return [
            (day, key, s, v)
            for day in sorted({*self.main, *self.whole, *self.delta})
            for key, (s, kind, v) in sorted(self.partition(day).items())
            if kind == INSERT
        ]


@pytest.mark.parametrize("seed", seeds(5, 300))
def test_histories(tmp_path: Path, seed: int) -> None:
    chance, model = random.Random(seed), Model()
    engine = chance.choice([{}, {"deletion-vectors.enabled": "true"}, {"file.format": "orc"}])
    tables = Chain(tmp_path, bucket=str(chance.randint(1, 3)), **engine)
    places = {MAIN: model.main, WHOLE: model.whole, DELTA: model.delta}
    for step in range(16):
        name, day = chance.choice([MAIN, WHOLE, WHOLE, DELTA, DELTA, DELTA, DELTA]), f"202508{chance.randint(10, 16)}"
        branch, lot = places[name], chance.random()
        # No two rows have one sequence number, and later ones may have lower.
        rows = {key: (chance.randrange(1000) * 32 + step, INSERT, f"v{step}") for key in chance.sample(range(8), 4)}
        if lot < 0.12:
            tables.catalog.table(name).compact()
        elif lot < 0.24 and day in model.delta:
            overwrite = chance.random() < 0.5
            if day not in model.whole or overwrite:
                merged = {key: row for key, row in model.chained(day).items() if row[1] == INSERT}
                model.whole[day] = merged
                if not merged:
                    del model.whole[day]
            tables.catalog.table(MAIN).compact_chain({"dt": day}, overwrite)
        elif lot < 0.5:
            try:
                tables.write(name, *((day, key, s, v) for key, (s, _, v) in rows.items()), mode="overwrite")
            except InvalidError as error:
                assert "Snapshot partition cannot be dropped" in str(error)
                assert name == DELTA and day in model.whole
                continue
            branch[day] = rows
            if name == DELTA:
                model.whole.pop(day, None)
        else:
            if name == DELTA:
                rows = {key: (s, chance.choice([INSERT, INSERT, DELETE]), v) for key, (s, _, v) in rows.items()}
            tables.change(name, *((kind, (day, key, s, v)) for key, (s, kind, v) in rows.items()))
            branch[day] = model.merged(branch.get(day, {}), rows)
        assert tables.rows() == sorted(model.rows(), key=repr), (seed, step)
    day = f"202508{chance.randint(10, 16)}"
    keys = chance.sample(range(8), 3)
    asked = tables.rows(where=f"dt <= '{day}' AND k IN ({', '.join(map(str, keys))}) AND v <> 'v3'")
    assert asked == sorted((r for r in model.rows() if r[0] <= day and r[1] in keys and r[3] != "v3"), key=repr)
