"""Chain tables: which partitions make up which, what conditions leave out, what overwrites and drops do to branches."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.profile import seeds

import bucketlake
from bucketlake import ConflictError, InvalidError, StorageError, UnsupportedError
from bucketlake.errors import CommitError
from bucketlake.ops.change import chain_compact
from bucketlake.ops.commit import publish
from bucketlake.ops.write.prepare import new_commit_user, prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.schema.change import AddColumn, RenameColumn, SetOption
from bucketlake.schema.schema import KIND_FIELD
from bucketlake.types.model import INT

MAIN, WHOLE, DELTA = "db.t", "db.t$branch_snapshot", "db.t$branch_delta"
DAILY = {"partition.timestamp-pattern": "$dt", "partition.timestamp-formatter": "yyyyMMdd"}
HOURLY = {"partition.timestamp-pattern": "$dt $hh:00", "partition.timestamp-formatter": "yyyyMMdd HH:mm"}
INSERT, DELETE = 0, 3

Row = tuple[Any, ...]  # the partition's values, k, s, v


class Chain:
    """A chain table `db.t`, partitioned by text columns, with key k, sequence s and value v."""

    def __init__(self, folder: Path, keys: Sequence[str] = ("dt",), **options: str) -> None:
        self.catalog, self.keys = bucketlake.open(str(folder)), list(keys)
        self.catalog.create_database("db")
        columns = [*((key, pa.string()) for key in keys), ("k", pa.int64()), ("s", pa.int64()), ("v", pa.string())]
        self.schema = pa.schema(columns)
        every = {"chain-table.enabled": "true", "sequence.field": "s", "bucket-key": "k", "bucket": "2", **DAILY}
        self.catalog.create_table(MAIN, self.schema, keys, [*keys, "k"], {**every, **options})
        for name in ("snapshot", "delta"):
            self.catalog.table(MAIN).create_branch(name)
        for name in (MAIN, WHOLE, DELTA):
            self.set(name, **{f"scan.fallback-{one}-branch": one for one in ("snapshot", "delta")})

    def set(self, name: str, **options: str) -> None:
        self.catalog.table(name).alter(*(SetOption(key, value) for key, value in options.items()))

    def rows_of(self, *rows: Row) -> pa.Table:
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(self.schema)
        arrays = [pa.array(column, item.type) for column, item in zip(columns, self.schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def write(self, name: str, *rows: Row, **how: Any) -> None:
        self.catalog.table(name).write_arrow(self.rows_of(*rows), **how)

    def change(self, name: str, *rows: tuple[int, Row]) -> None:
        """Write rows with their kinds."""
        table = self.catalog.table(name)
        store, user = table.store, new_commit_user(table.store)
        kinds = pa.array([kind for kind, _ in rows], pa.int8())
        data = self.rows_of(*(row for _, row in rows)).append_column(KIND_FIELD.name, kinds)
        task = prepare_write(store, store.latest_snapshot(), commit_user=user)
        messages = write_batches(store, data.to_batches(), task, KIND_FIELD.name)
        table.compacted(table.commit(messages, user), messages)

    def rows(self, name: str = MAIN, **options: Any) -> list[Row]:
        found = self.catalog.table(name).to_arrow(**options).to_pylist()
        return sorted((tuple(row.values()) for row in found), key=repr)

    def partitions(self, name: str) -> list[str]:
        return ["/".join(one.values()) for one in self.catalog.table(name).partitions()]


def paimons_example(tables: Chain) -> None:
    """The rows of Paimon's own test of its Spark connector."""
    tables.write(MAIN, ("20250810", 1, 1, "1"), ("20250810", 2, 1, "1"))
    for day, *rows in (
        ("20250809", (1, 1, "1"), (2, 1, "1")),
        ("20250810", (1, 2, "1-1"), (3, 1, "1")),
        ("20250811", (2, 2, "1-1"), (4, 1, "1")),
        ("20250812", (3, 2, "1-1"), (4, 2, "1-1"), (7, 1, "d7")),
        ("20250813", (5, 1, "1"), (6, 1, "1")),
        ("20250814", (5, 2, "1-1"), (6, 2, "1-1")),
    ):
        tables.write(DELTA, *((day, *row) for row in rows), mode="overwrite")
    twelfth = [(1, 2, "1-1"), (2, 2, "1-1"), (3, 2, "1-1"), (4, 2, "1-1")]
    for day, *rows in (
        ("20250810", (1, 2, "1-1"), (2, 1, "1"), (3, 1, "1")),
        ("20250812", *twelfth),
        ("20250814", *twelfth, (5, 1, "1"), (6, 1, "1")),
    ):
        tables.write(WHOLE, *((day, *row) for row in rows), mode="overwrite")


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


# ---------------------------------------------------------------------------------------------- overwrites and drops


def test_deltas_that_are_overwritten_show(tmp_path: Path) -> None:
    tables = Chain(tmp_path)
    paimons_example(tables)
    tables.write(DELTA, ("20250813", 5, 2, "x"), ("20250814", 6, 2, "y"), mode="overwrite")
    assert tables.partitions(WHOLE) == ["20250810", "20250812"]
    assert tables.rows(where="dt = '20250814' AND k > 4") == [("20250814", 5, 2, "x"), ("20250814", 6, 2, "y")]
    tables.write(DELTA, ("20250812", 1, 3, "added"))  # no overwrite: the whole partition stays
    assert tables.partitions(WHOLE) == ["20250810", "20250812"]
    before = tables.catalog.table(DELTA).latest_snapshot()
    with pytest.raises(InvalidError, match="Snapshot partition cannot be dropped"):
        tables.write(DELTA, ("20250810", 1, 3, "z"), mode="overwrite")
    assert tables.catalog.table(DELTA).latest_snapshot() == before


def test_a_snapshot_partition_that_deltas_need_stays(tmp_path: Path) -> None:
    tables = Chain(tmp_path)
    paimons_example(tables)
    whole = tables.catalog.table(WHOLE)
    for specs in ([{"dt": "20250810"}], [{"dt": "20250810"}, {"dt": "20250812"}, {"dt": "20250814"}]):
        with pytest.raises(InvalidError, match="Snapshot partition cannot be dropped"):
            whole.drop_partitions(specs)
    with pytest.raises(InvalidError, match="Snapshot partition cannot be dropped"):
        whole.truncate()
    whole.drop_partitions([{"dt": "20250812"}])  # what follows builds on the one before
    assert tables.partitions(WHOLE) == ["20250810", "20250814"]
    assert len(tables.rows(where="dt = '20250812'")) == 5
    tables.catalog.table(DELTA).drop_partitions([{"dt": f"202508{day}"} for day in (11, 12, 13)])
    whole.drop_partitions([{"dt": "20250810"}])
    assert tables.partitions(WHOLE) == ["20250814"]


def test_going_back_as_the_newest_snapshot_is_an_overwrite(tmp_path: Path) -> None:
    tables = Chain(tmp_path)
    for day in ("20250812", "20250810"):
        tables.write(WHOLE, (day, 1, 1, "a"))
    tables.write(DELTA, ("20250811", 2, 1, "b"))
    with pytest.raises(InvalidError, match="Snapshot partition cannot be dropped"):
        tables.catalog.table(WHOLE).rollback_to_as_latest(1)
    assert tables.partitions(WHOLE) == ["20250810", "20250812"]
    tables.write(WHOLE, ("20250809", 1, 1, "a"))
    tables.write(DELTA, ("20250810", 5, 1, "late"))
    tables.catalog.table(DELTA).rollback_to_as_latest(1)
    assert tables.partitions(WHOLE) == ["20250809", "20250812"]


def test_an_overwrite_that_dies_before_the_drop_says_so_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = Chain(tmp_path)
    paimons_example(tables)
    with monkeypatch.context() as patch:

        def fails(*_: Any) -> None:
            raise StorageError("the storage is away")

        patch.setattr(publish, "_dropped_beside", fails)
        with pytest.raises(CommitError, match="deltas were overwritten.*drop them from t.branch_snapshot"):
            tables.write(DELTA, ("20250814", 6, 2, "y"), mode="overwrite")
    assert tables.rows(DELTA, where="dt = '20250814'") == [("20250814", 6, 2, "y")]
    assert "20250814" in tables.partitions(WHOLE)
    tables.write(DELTA, ("20250814", 6, 2, "y"), mode="overwrite")
    assert "20250814" not in tables.partitions(WHOLE)


def test_a_repair_of_the_delta_branch_leaves_whole_partitions(tmp_path: Path) -> None:
    tables = Chain(tmp_path, bucket="1")
    tables.write(WHOLE, ("20250810", 1, 1, "a"), ("20250811", 1, 1, "whole"))
    tables.write(DELTA, ("20250811", 2, 1, "b"), ("20250812", 3, 1, "c"))
    for day, branch in (("20250811", DELTA), ("20250810", WHOLE)):
        (lost,) = tables.catalog.table(branch).files(where=f"dt = '{day}'")
        Path(lost.path).unlink()
    assert len(tables.catalog.table(DELTA).remove_unexisting_files()) == 1
    assert tables.partitions(WHOLE) == ["20250810", "20250811"] and tables.partitions(DELTA) == ["20250812"]
    assert len(tables.catalog.table(WHOLE).remove_unexisting_files()) == 1  # the one behind it is whole
    (lost,) = tables.catalog.table(WHOLE).files()
    Path(lost.path).unlink()
    with pytest.raises(InvalidError, match="Snapshot partition cannot be dropped"):
        tables.catalog.table(WHOLE).remove_unexisting_files()


def test_the_main_branchs_options_hold_for_branches_that_name_none(tmp_path: Path) -> None:
    tables = Chain(tmp_path)
    paimons_example(tables)
    blank = {"scan.fallback-snapshot-branch": "", "scan.fallback-delta-branch": ""}
    tables.set(DELTA, **blank)
    tables.write(DELTA, ("20250814", 6, 2, "y"), mode="overwrite")
    assert tables.partitions(WHOLE) == ["20250810", "20250812"]


# ---------------------------------------------------------------------------------------------- compaction


def test_a_partition_is_compacted_into_the_snapshot_branch(tmp_path: Path) -> None:
    tables = Chain(tmp_path)
    tables.write(WHOLE, ("20250810", 1, 1, "a"), ("20250810", 2, 1, "a"))
    tables.change(DELTA, (INSERT, ("20250811", 1, 2, "b")), (DELETE, ("20250811", 2, 2, "a")))
    table = tables.catalog.table(MAIN)
    assert table.compact_chain({"dt": "20250812"}) is None and table.compact_chain({"dt": "20250810"}) is None
    merged = tables.rows(where="dt = '20250811'")
    done = table.compact_chain({"dt": "20250811"})
    assert done is not None and done.commit_kind.value == "APPEND"
    assert merged == tables.rows()[-1:] == tables.rows(WHOLE, where="dt = '20250811'") == [("20250811", 1, 2, "b")]
    assert table.compact_chain({"dt": "20250811"}) is None
    tables.write(DELTA, ("20250811", 3, 1, "late"))
    assert tables.rows(where="dt = '20250811'") == merged
    again = table.compact_chain({"dt": "20250811"}, overwrite=True)
    assert again is not None and again.commit_kind.value == "OVERWRITE"
    assert tables.rows(where="dt = '20250811'") == [*merged, ("20250811", 3, 1, "late")]


def test_a_partition_that_deltas_empty_is_gone_when_it_is_compacted_anew(tmp_path: Path) -> None:
    tables = Chain(tmp_path)
    tables.write(WHOLE, ("20250810", 1, 1, "a"), ("20250811", 1, 1, "stale"))
    tables.change(DELTA, (DELETE, ("20250811", 1, 2, "a")))
    tables.catalog.table(MAIN).compact_chain({"dt": "20250811"}, overwrite=True)
    assert tables.rows() == [("20250810", 1, 1, "a")]


def test_some_columns_name_partitions_of_every_group(tmp_path: Path) -> None:
    tables = Chain(tmp_path, ("region", "dt"), **{"chain-table.chain-partition-keys": "dt"})
    tables.write(WHOLE, ("CN", "20250810", 1, 1, "a"), ("CN", "20250811", 9, 1, "old"), ("FR", "20250811", 7, 1, "fr"))
    tables.write(DELTA, ("CN", "20250811", 2, 1, "b"), ("US", "20250811", 3, 1, "c"))
    table = tables.catalog.table(MAIN)
    assert table.compact_chain({"dt": "20250811"}) is None  # some of them are there
    assert table.compact_chain({"dt": "20250811"}, overwrite=True) is not None
    assert tables.rows(WHOLE, where="dt = '20250811'") == [
        ("CN", "20250811", 1, 1, "a"),
        ("CN", "20250811", 2, 1, "b"),
        ("FR", "20250811", 7, 1, "fr"),
        ("US", "20250811", 3, 1, "c"),
    ]
    with pytest.raises(InvalidError, match="Available partition keys"):
        table.compact_chain({"no": "1"})
    with pytest.raises(InvalidError, match="is not a chain table"):
        tables.catalog.table(DELTA).compact_chain({"dt": "20250811"})
    tables.catalog.create_table("db.plain", tables.schema)
    with pytest.raises(InvalidError, match="compact_chain_table only supports chain table"):
        tables.catalog.table("db.plain").compact_chain({"dt": "20250811"})


@pytest.mark.parametrize("branch", [DELTA, WHOLE])
def test_rows_that_come_while_a_partition_is_compacted_are_in_it(
    tmp_path: Path, branch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = Chain(tmp_path)
    tables.write(WHOLE, ("20250810", 1, 1, "a"))
    tables.write(DELTA, ("20250811", 2, 1, "b"))
    write, times = chain_compact._write, iter((0, 1))

    def beside(*given: Any) -> Any:
        if next(times, 2) == 0:
            day = "20250811" if branch == DELTA else "20250810"
            tables.write(branch, (day, 5, 1, "meanwhile"))
        return write(*given)

    monkeypatch.setattr(chain_compact, "_write", beside)
    assert tables.catalog.table(MAIN).compact_chain({"dt": "20250811"}) is not None
    assert [row[1] for row in tables.rows(WHOLE, where="dt = '20250811'")] == [1, 2, 5]
    files = [file.path for file in tables.catalog.table(WHOLE).files(where="dt = '20250811'")]
    folder = tmp_path / "db.db" / "t" / "dt=20250811"
    mine = {path.name for path in folder.rglob("*.parquet")}
    deltas = {Path(file.path).name for file in tables.catalog.table(DELTA).files()}
    assert mine - deltas == {Path(path).name for path in files}  # what the lost attempt wrote is gone


def test_writers_that_never_rest_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = Chain(tmp_path)
    tables.write(DELTA, ("20250811", 2, 1, "b"))
    write, count = chain_compact._write, iter(range(1000))

    def beside(*given: Any) -> Any:
        tables.write(DELTA, ("20250811", next(count), 9, "more"))
        return write(*given)

    monkeypatch.setattr(chain_compact, "_write", beside)
    with pytest.raises(ConflictError, match="deltas of the partition were written"):
        tables.catalog.table(MAIN).compact_chain({"dt": "20250811"})
    assert tables.partitions(WHOLE) == []


# ---------------------------------------------------------------------------------------------- expiry


def ago(days: int) -> str:
    return (dt.datetime.now() - dt.timedelta(days=days)).strftime("%Y%m%d")


def old_chain(folder: Path, **options: str) -> Chain:
    """Paimon's example of what expires: 30 days are kept."""
    tables = Chain(folder, **{"partition.expiration-time": "30 d", **options})
    for days in (90, 60, 20):
        tables.write(WHOLE, (ago(days), days, 1, "whole"))
    for days in (95, 90, 80, 50, 10):
        tables.write(DELTA, (ago(days), days, 1, "delta"))
    return tables


@pytest.mark.parametrize("name", [MAIN, WHOLE, DELTA])
@pytest.mark.parametrize("batch", ["0", "1"])
def test_whole_segments_expire(tmp_path: Path, name: str, batch: str) -> None:
    tables = old_chain(tmp_path, **{"partition.expiration-batch-size": batch})
    kept = tables.rows(where=f"dt = '{ago(50)}'")
    gone = tables.catalog.table(name).expire_partitions()
    assert [one["dt"] for one in gone] == [ago(95), ago(90), ago(80), ago(90)]
    assert tables.partitions(WHOLE) == [ago(60), ago(20)] and tables.partitions(DELTA) == [ago(50), ago(10)]
    assert tables.rows(where=f"dt = '{ago(50)}'") == kept
    assert tables.catalog.table(name).expire_partitions() == []


def test_one_whole_partition_that_is_too_old_stays(tmp_path: Path) -> None:
    tables = old_chain(tmp_path)
    tables.catalog.table(WHOLE).drop_partitions([{"dt": ago(60)}])
    assert tables.catalog.table(MAIN).expire_partitions() == []
    assert tables.catalog.table(MAIN).expire_partitions({"partition.expiration-time": "15 d"})[-1] == {"dt": ago(90)}
    assert tables.partitions(WHOLE) == [ago(20)]


def test_expiry_is_bounded_and_of_groups_apart(tmp_path: Path) -> None:
    options = {"chain-table.chain-partition-keys": "dt", "partition.expiration-time": "5 d"}
    tables = Chain(tmp_path, ("region", "dt"), **options)
    for region, many in (("CN", (40, 30, 20, 10)), ("US", (40,))):
        for days in many:
            tables.write(WHOLE, (region, ago(days), 1, 1, "a"))
            tables.write(DELTA, (region, ago(days - 1), 1, 2, "b"))
    tables.write(DELTA, ("UK", ago(90), 1, 1, "only deltas"))
    gone = tables.catalog.table(MAIN).expire_partitions({"partition.expiration-max-num": "2"})
    assert [tuple(one.values()) for one in gone] == [("CN", ago(days)) for days in (39, 29, 40, 30)]
    assert tables.partitions(WHOLE) == [f"CN/{ago(20)}", f"CN/{ago(10)}", f"US/{ago(40)}"]
    assert f"UK/{ago(90)}" in tables.partitions(DELTA)


def test_writers_expire_and_what_cannot_is_said(tmp_path: Path) -> None:
    tables = old_chain(tmp_path, **{"end-input.check-partition-expire": "true"})
    assert tables.partitions(WHOLE) == [ago(60), ago(20)]  # the writes above did it
    with pytest.raises(InvalidError, match="only supports 'values-time'"):
        tables.catalog.table(MAIN).expire_partitions({"partition.expiration-strategy": "update-time"})


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
