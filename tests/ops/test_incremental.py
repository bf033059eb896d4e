"""Incremental batch reads: which snapshots count, in which mode, and the rows that differ between two of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.profile import examples

import bucketlake
from bucketlake.errors import InvalidError, NotFoundError
from bucketlake.lsm.difference import difference
from bucketlake.lsm.keys import KeyOrder
from bucketlake.lsm.merge import BlockSize
from bucketlake.ops.rows.read import read_split
from bucketlake.schema.change import AddColumn, SetOption
from bucketlake.table import Table
from bucketlake.types.model import BIGINT, DataField

SCHEMA = pa.schema([pa.field("p", pa.int32()), pa.field("k", pa.int64()), pa.field("v", pa.int64())])
Rows = Sequence[tuple[Any, ...]]


def create(folder: Path, keyed: bool = True, **options: Any) -> Table:
    catalog = bucketlake.open(folder)
    catalog.create_database("db", ignore_if_exists=True)
    given_options = {"bucket": 1 if keyed else -1, "write-only": True, **options}
    return catalog.create_table("db.t", SCHEMA, ["p"], ["p", "k"] if keyed else [], options=given_options)


def put(table: Table, rows: Rows, **options: Any) -> None:
    columns = [pa.array(column, f.type) for column, f in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    table.write_arrow(pa.table(columns, schema=SCHEMA), **options)


def between(table: Table, span: str, mode: str = "auto", where: str | None = None) -> list[tuple[Any, ...]]:
    found = table.to_arrow(where=where, incremental_between=span, incremental_between_scan_mode=mode)
    return sorted(tuple(row.values()) for row in found.to_pylist())


def log(table: Table, span: str, mode: str = "auto") -> list[tuple[Any, ...]]:
    view = bucketlake.open(table.path.rsplit("/", 2)[0]).table("db.t$audit_log")
    found = view.to_arrow(incremental_between=span, incremental_between_scan_mode=mode)
    return sorted(tuple(row.values()) for row in found.to_pylist())


def tag(table: Table, name: str, snapshot: int) -> None:
    storage, paths = table.store.env.storage, table.store.paths
    storage.write(paths.tag(name), storage.read(paths.snapshot(snapshot)))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Snapshots: 1 rows, 2 rows, 3 compaction, 4 overwrite of partition 1, 5 rows, 6 a delete."""
    made = create(tmp_path)
    put(made, [(1, 1, 1), (1, 2, 1), (2, 1, 1)])
    put(made, [(1, 1, 2), (1, 4, 1), (2, 1, 2)])
    made.compact()
    put(made, [(1, 9, 9)], mode="overwrite", partition={"p": 1})
    put(made, [(2, 2, 5), (2, 1, 3)])
    made.delete("p = 2 and k = 2")
    return made


def test_deltas_are_what_writers_appended(table: Table) -> None:
    assert between(table, "0,1") == [(1, 1, 1), (1, 2, 1), (2, 1, 1)]
    assert between(table, "1,2") == [(1, 1, 2), (1, 4, 1), (2, 1, 2)]
    assert between(table, "2,3") == [] == between(table, "3,4")  # a compaction, an overwrite
    assert between(table, "1,5", "delta") == [(1, 1, 2), (1, 4, 1), (2, 1, 2), (2, 1, 3), (2, 2, 5)]
    assert between(table, "0,6", "changelog") == []
    assert between(table, "3,3") == []
    # Deletes are no rows of a batch: the audit log has them.
    assert between(table, "5,6") == []
    assert log(table, "5,6") == [("-D", 2, 2, 5)]


def test_every_version_of_a_key_is_told(table: Table) -> None:
    assert [row for row in between(table, "0,6") if row[:2] == (2, 1)] == [(2, 1, 1), (2, 1, 2), (2, 1, 3)]


def test_difference_of_two_snapshots(table: Table) -> None:
    assert between(table, "1,2", "diff") == [(1, 1, 2), (1, 4, 1), (2, 1, 2)]
    assert between(table, "2,3", "diff") == []  # a compaction changes nothing
    assert between(table, "1,4", "diff") == [(1, 9, 9), (2, 1, 2)]
    gone = [("-D", 1, 1, 2), ("-D", 1, 2, 1), ("-D", 1, 4, 1)]
    assert log(table, "3,4", "diff") == [("+I", 1, 9, 9), *gone]
    assert log(table, "5,6", "diff") == [("-D", 2, 2, 5)]


def test_conditions_prune_files(table: Table) -> None:
    for mode in ("delta", "diff"):
        options = {"incremental_between": "0,2" if mode == "delta" else "1,2", "incremental_between_scan_mode": mode}
        every, one = table.plan(**options), table.plan("p = 2", **options)
        assert {split.partition for split in one.splits} < {split.partition for split in every.splits}
        assert between(table, options["incremental_between"], mode, "p = 2 and v > 1") == [(2, 1, 2)]
        assert table.plan("k = 77", **options).entries == ()


def test_the_schema_is_todays(table: Table) -> None:
    changed = table.alter(AddColumn("n", BIGINT))
    assert changed.to_arrow(incremental_between="0,1").column_names == ["p", "k", "v", "n"]
    assert changed.to_arrow(incremental_between="1,2", incremental_between_scan_mode="diff").num_columns == 4


def test_times(table: Table) -> None:
    millis = [snapshot.time_millis for snapshot in table.snapshots()]

    def at(start: int, end: int, mode: str = "auto") -> list[tuple[Any, ...]]:
        found = table.to_arrow(
            incremental_between_timestamp=f"{start},{end}", incremental_between_scan_mode=mode
        ).to_pylist()
        return sorted(tuple(row.values()) for row in found)

    assert at(millis[0] - 10, millis[-1]) == between(table, "0,6")
    assert at(millis[0] - 10, millis[-1] + 10_000) == between(table, "0,6")
    assert at(0, millis[0] - 1) == [] == at(millis[-1] + 1, millis[-1] + 2)
    # A difference starts with the first snapshot itself.
    assert at(millis[0] - 10, millis[-1], "diff") == between(table, "1,6", "diff")
    assert table.to_arrow(incremental_between_timestamp="2020-01-01 00:00:00,2100-01-01 00:00:00").num_rows == len(
        between(table, "0,6")
    )
    with pytest.raises(InvalidError, match="Ending timestamp 1 should be >= starting timestamp 2"):
        at(2, 1)


def test_tags(table: Table) -> None:
    tag(table, "one", 1)
    tag(table, "two", 2)
    tag(table, "4", 2)
    assert between(table, "one,two") == between(table, "1,2", "diff")
    # Names of tags come before numbers.
    tag(table, "1", 1)
    assert between(table, "1,4", "delta") == between(table, "1,2", "diff")
    found = table.to_arrow(incremental_between="one,two", incremental_between_tag_to_snapshot=True)
    assert sorted(tuple(row.values()) for row in found.to_pylist()) == [(1, 1, 2), (1, 4, 1), (2, 1, 2)]
    # A tag outlives its snapshot.
    table.store.env.storage.delete(table.store.paths.snapshot(1))
    assert between(table, "one,two") == [(1, 1, 2), (1, 4, 1), (2, 1, 2)]
    with pytest.raises(InvalidError, match="Tag end one with snapshot id 1 should be >= tag start two"):
        between(table, "two,one")
    with pytest.raises(InvalidError, match="no tag is 'tvo': did you mean 'two'"):
        between(table, "one,tvo")


def test_spans_that_are_none(table: Table) -> None:
    with pytest.raises(InvalidError, match=r"range \[0, 9\] is out of available snapshotId range \[1, 6\]"):
        between(table, "0,9")
    with pytest.raises(InvalidError, match="Ending snapshotId should >= starting snapshotId 2"):
        between(table, "2,1")
    with pytest.raises(InvalidError, match="must specific start"):
        between(table, "2")
    with pytest.raises(
        InvalidError, match=r"Didn't find two tags for start 'a' and end 'b'.*'a': the table has no tags"
    ):
        between(table, "a,b")
    with pytest.raises(NotFoundError):
        between(table, "0,1", "diff")


def to_tag(table: Table, name: str, **options: str) -> Rows:
    found = table.with_options(options).to_arrow(incremental_to_auto_tag=name)
    return sorted(tuple(row.values()) for row in found.to_pylist())


def test_to_an_automatic_tag(tmp_path: Path) -> None:
    table = create(tmp_path, **{"snapshot.num-retained.min": "1", "tag.creation-period": "daily"})
    for number, name in enumerate(("2024-12-01", "2024-12-02", "2024-12-04"), 1):
        put(table, [(1, number, number)])
        tag(table, name, number)
    put(table, [(1, 9, 9)])
    tag(table, "other", 4)
    for _ in range(2):
        assert to_tag(table, "2024-12-01") == [] == to_tag(table, "2024-12-03")
        assert to_tag(table, "2024-12-02") == [(1, 2, 2)]
        assert to_tag(table, "2024-12-04") == [(1, 3, 3)]
        table.expire_snapshots(retain_max=1, retain_min=1)
    assert len(table.snapshots()) == 1
    view = bucketlake.open(tmp_path).table("db.t$audit_log")
    assert view.to_arrow(incremental_to_auto_tag="2024-12-04").to_pylist()[0]["rowkind"] == "+I"
    for name in ("other", "2024-13-01", "2024-12-1", "20241204", ""):
        with pytest.raises(InvalidError, match="is not an auto-created tag"):
            to_tag(table, name)
    with pytest.raises(InvalidError, match="must set only one key"):
        between(table.with_options({"incremental-to-auto-tag": "2024-12-04", "scan.mode": "incremental"}), "1,2")


@pytest.mark.parametrize(
    ("period", "form", "earlier", "name"),
    [
        ("daily", "with_dashes", "2024-02-28", "2024-02-29"),
        ("daily", "without_dashes", "20240228", "20240229 again"),
        ("daily", "without_dashes_and_spaces", "20240228", "20240229"),
        ("hourly", "with_dashes", "2023-12-31 23", "2024-01-01 00"),
        ("hourly", "without_dashes", "20231231 23", "20240101 00"),
        ("hourly", "without_dashes_and_spaces", "2023123123", "2024010100"),
        ("two-hours", "without_dashes", "2024-01-01 00", "2024-01-01 02"),
        ("15 min", "with_dashes", "202312312345", "202401010000"),
    ],
)
def test_names_of_automatic_tags(tmp_path: Path, period: str, form: str, earlier: str, name: str) -> None:
    duration = period.endswith("min")
    options = {f"tag.creation-period{'-duration' if duration else ''}": period, "tag.period-formatter": form}
    table = create(tmp_path, **options)
    for number, text in enumerate((earlier, name), 1):
        put(table, [(1, number, number)])
        tag(table, text, number)
    tag(table, "1999-01-01 00", 1)
    assert to_tag(table, name) == [(1, 2, 2)]
    with pytest.raises(InvalidError, match="is not an auto-created tag"):
        to_tag(table, "2024.01.01")


def test_other_numbers_of_buckets_do_not_compare(tmp_path: Path) -> None:
    table = create(tmp_path)
    put(table, [(1, 1, 1)])
    table = table.alter(SetOption("bucket", "2"))
    put(table, [(1, 1, 1)], mode="overwrite")
    with pytest.raises(InvalidError, match=r"bucket number of two snapshots are different \(1, 2\)"):
        between(table, "1,2", "diff")


@pytest.mark.parametrize("vectors", ["false", "true"])
def test_keys_that_a_rescale_moved_are_compared_with_themselves(tmp_path: Path, vectors: str) -> None:
    """A rescale changes the files, not the option: keys in other buckets were told as new, and as gone."""
    table = create(tmp_path, bucket=2, **{"deletion-vectors.enabled": vectors, "write-only": False})
    put(table, [(p, k, k) for p in (1, 2) for k in range(8)])
    first = table.store.latest_snapshot_id()
    table.rescale(3, [{"p": "1"}])
    assert between(table, f"{first},{table.store.latest_snapshot_id()}", "diff") == []
    put(table.alter(SetOption("bucket", "3")), [(1, 3, 9), (1, 8, 8)])
    table = table.alter(SetOption("bucket", "2"))
    table.delete("p = 2 AND k = 5")
    span = f"{first},{table.store.latest_snapshot_id()}"
    assert between(table, span, "diff") == [(1, 3, 9), (1, 8, 8)]
    assert between(table, span, "diff", "k = 8") == [(1, 8, 8)]
    assert log(table, span, "diff") == [("+I", 1, 3, 9), ("+I", 1, 8, 8), ("-D", 2, 5, 5)]


@pytest.mark.parametrize("expired", [False, True])
def test_keys_that_an_overwrite_put_into_other_buckets_are_compared_with_themselves(
    tmp_path: Path, expired: bool
) -> None:
    table = create(tmp_path, bucket=-1, **{"dynamic-bucket.target-row-num": 3})
    put(table, [(1, k, k) for k in range(9)])
    table.create_tag("a")
    put(table, [(1, k, k) for k in (8, 0, 3, 5, 6, 7, 2, 1)], mode="overwrite")
    put(table, [(1, 5, 55)])
    table.create_tag("b")
    if expired:
        put(table, [(1, 0, 0)])
        table.expire_snapshots(retain_max=1, retain_min=1, older_than="2100-01-01")
    assert between(table, "a,b") == [(1, 5, 55)]
    assert log(table, "a,b") == [("+I", 1, 5, 55), ("-D", 1, 4, 4)]


def test_a_key_that_comes_back_from_another_partition_is_compared_with_itself(tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    catalog.create_database("db")
    options = {"bucket": -1, "dynamic-bucket.target-row-num": 2}
    table = catalog.create_table("db.t", SCHEMA, ["p"], ["k"], options)
    put(table, [(1, k, k) for k in range(4)])
    first = table.store.latest_snapshot_id()
    put(table, [(2, 0, 0), (2, 1, 1)], write_only=True)
    put(table, [*((1, k, k) for k in range(10, 16)), (1, 0, 0)], write_only=True)  # 0 comes into the last bucket
    span = f"{first},{table.store.latest_snapshot_id()}"
    new = [(1, k, k) for k in range(10, 16)]
    assert between(table, span, "diff") == [*new, (2, 1, 1)]
    found = {row for row in log(table, span, "diff") if row[1] == 1}
    assert found == {("-D", 1, 1, 1), *(("+I", *row) for row in new)}


def test_append_tables(tmp_path: Path) -> None:
    table = create(tmp_path, keyed=False, **{"deletion-vectors.enabled": True})
    put(table, [(1, 1, 1), (1, 2, 2)])
    put(table, [(1, 1, 1), (2, 3, 3)])
    assert between(table, "1,2") == [(1, 1, 1), (2, 3, 3)] == between(table, "1,2", "diff")
    assert log(table, "1,2") == [("+I", 1, 1, 1), ("+I", 2, 3, 3)]
    table.delete("v = 3")
    # The newer files less what is deleted in them.
    assert between(table, "1,3", "diff") == [(1, 1, 1)]
    assert between(table, "1,2", "delta", "v = 3") == [(2, 3, 3)]


def test_deletion_vectors_and_level_0(tmp_path: Path) -> None:
    """Batch reads of such tables do not see level 0; deltas lie nowhere else."""
    table = create(tmp_path, **{"deletion-vectors.enabled": True, "write-only": False})
    put(table, [(1, 1, 1), (1, 2, 2)])
    put(table, [(1, 1, 5)])
    newest = table.latest_snapshot()
    assert newest is not None and newest.id == 4
    assert between(table, "0,4") == [(1, 1, 1), (1, 1, 5), (1, 2, 2)]
    assert between(table, "2,4", "diff") == [(1, 1, 5)]


steps = st.lists(
    st.one_of(
        st.lists(st.tuples(st.integers(1, 2), st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=6),
        st.tuples(st.just("delete"), st.integers(0, 9)),
        st.just("compact"),
    ),
    min_size=2,
    max_size=8,
)


@settings(max_examples=examples(10, 200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps, vectors=st.booleans(), ends=st.tuples(st.integers(0, 7), st.integers(0, 7)))
def test_difference_against_a_model(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any], vectors: bool, ends: tuple[int, int]
) -> None:
    options = {"write-only": not vectors, "deletion-vectors.enabled": vectors, "source.split.target-size": "1 b"}
    table = create(tmp_path_factory.mktemp("diff"), **options)
    states: list[dict[Any, Any]] = []
    ids: list[int] = []
    state: dict[Any, Any] = {}
    for step in steps:
        if isinstance(step, list):
            put(table, step)
            state = {**state, **{(p, k): v for p, k, v in step}}
        elif step == "compact":
            table.compact()
        else:
            table.delete(f"k = {step[1]}")
            state = {key: value for key, value in state.items() if key[1] != step[1]}
        newest = table.latest_snapshot()
        if newest is not None:
            states.append(state)
            ids.append(newest.id)
    if len(states) < 2:
        return
    first, last = sorted(place % len(states) for place in ends)
    if ids[first] == ids[last]:
        return
    old, new = states[first], states[last]
    told = log(table, f"{ids[first]},{ids[last]}", "diff")
    after = dict(old)
    for kind, p, k, v in told:
        if kind == "-D":
            after.pop((p, k), None)
        else:
            after[(p, k)] = v
    assert after == new
    plain = between(table, f"{ids[first]},{ids[last]}", "diff")
    assert {(p, k, v) for p, k, v in plain} >= {(*key, v) for key, v in new.items() if old.get(key) != v}
    assert all(new[(p, k)] == v for p, k, v in plain)


@pytest.mark.parametrize("vectors", [False, True])
def test_versions_that_an_overwrite_brings_back(tmp_path: Path, vectors: bool) -> None:
    """Files that both snapshots have hold them."""
    table = create(tmp_path, **{"write-only": not vectors, "deletion-vectors.enabled": vectors})
    put(table, [(1, 1, 1), (1, 2, 1), (2, 1, 1)])
    before = table.latest_snapshot()
    put(table, [(1, 1, 2), (1, 3, 2)])
    table.delete("p = 1 AND k = 2")
    last = table.latest_snapshot()
    assert before is not None and last is not None
    table.rollback_to_as_latest(before.id)
    span = f"{last.id},{last.id + 1}"
    assert between(table, span, "diff") == [(1, 1, 1), (1, 2, 1)]
    assert log(table, span, "diff") == [("+I", 1, 1, 1), ("+I", 1, 2, 1), ("-D", 1, 3, 2)]
    assert log(table, f"{before.id},{last.id + 1}", "diff") == []


def test_splits_are_read_in_any_process(table: Table) -> None:
    planned = table.plan(incremental_between="1,2", incremental_between_scan_mode="diff")
    rows = [row for split in planned.splits for batch in read_split(table.store, split) for row in batch.to_pylist()]
    assert sorted(tuple(row.values()) for row in rows) == [(1, 1, 2), (1, 4, 1), (2, 1, 2)]


def test_difference_compares_bits() -> None:
    """NaN is NaN, and -0.0 is another value than 0.0, as for Apache Paimon."""
    names = ["k", "_SEQUENCE_NUMBER", "_VALUE_KIND", "v"]

    def state(values: list[float | None]) -> pa.RecordBatch:
        count = len(values)
        columns = [range(count), [0] * count, [0] * count, values]
        types = [pa.int64(), pa.int64(), pa.int8(), pa.float64()]
        return pa.RecordBatch.from_arrays([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=names)

    order = KeyOrder([DataField(0, "k", BIGINT)])
    old, new = state([math.nan, 0.0, None, 1.0, None]), state([math.nan, -0.0, None, 2.0, 3.0, 4.0])
    for size in (1, 2, 100):
        found = list(difference([old], [new], order, block=BlockSize(rows=size)))
        assert [k for batch in found for k in batch.column("k").to_pylist()] == [1, 3, 4, 5]
    gone = list(difference([new], [old], order, keep_deletes=True, block=BlockSize(rows=2)))
    assert [pair for b in gone for pair in zip(b["k"].to_pylist(), b["_VALUE_KIND"].to_pylist(), strict=True)] == [
        (1, 0),
        (3, 0),
        (4, 0),
        (5, 3),
    ]


@pytest.mark.parametrize("where", ["p = 1", "k = 7"])
def test_a_condition_changes_no_row_of_a_difference(tmp_path: Path, where: str) -> None:
    """What an overwrite took away elsewhere says nothing of this bucket; what it took of this one does for all keys."""
    summed = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    table = create(tmp_path, **summed)
    put(table, [(1, 7, 1), (2, 7, 1)])
    put(table, [(1, 1, 1), (2, 9, 1)])
    put(table, [(2, 1, 5)], mode="overwrite", partition={"p": 2})
    put(table, [(1, 7, 2), (2, 7, 2)])
    found = between(table, f"2,{len(table.snapshots())}", "diff")
    column, value = "pk".index(where[0]), int(where[-1])
    assert between(table, f"2,{len(table.snapshots())}", "diff", where) == [
        row for row in found if row[column] == value
    ]
    assert (1, 7, 2) in found
