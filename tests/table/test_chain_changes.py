"""Changes of chain tables: what overwrites, drops, compaction and expiry do to their branches."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from tests.table.chain import DELETE, DELTA, INSERT, MAIN, WHOLE, Chain, paimons_example

from bucketlake import ConflictError, InvalidError, StorageError
from bucketlake.errors import CommitError
from bucketlake.ops.change import chain_compact
from bucketlake.ops.commit import publish

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


def test_an_overwrite_of_all_deltas_is_another_chain(tmp_path: Path) -> None:
    """As `INSERT OVERWRITE` without PARTITION does in Apache Paimon's own tests; it was refused for the old ones' sake."""
    tables = Chain(tmp_path)
    paimons_example(tables)
    new = [("20250813", 5, 2, "x"), ("20250814", 6, 2, "y")]
    tables.write(DELTA, *new, mode="overwrite", **{"dynamic-partition-overwrite": False})
    assert tables.partitions(WHOLE) == [] and tables.partitions(DELTA) == ["20250813", "20250814"]
    chained = [*new[:1], ("20250814", 5, 2, "x"), *new[1:]]
    assert tables.rows(where="dt > '20250810'") == chained  # the main branch's partition is before
    tables.write(WHOLE, ("20250812", 1, 1, "a"))
    with pytest.raises(InvalidError, match="Snapshot partition cannot be dropped"):  # 20250813 stays as it was
        tables.write(DELTA, ("20250812", 7, 1, "z"), ("20250814", 7, 1, "z"), mode="overwrite")


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
