"""Rows in another order: curves, sorting in bounded memory, ranges, sort compaction and clustering, and that what others
commit meanwhile is never lost."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import bucketlake
from bucketlake.env.env import SystemClock
from bucketlake.errors import ConflictError, InvalidError, UnsupportedError
from bucketlake.format.metadata.snapshot import CommitKind
from bucketlake.ops.cluster.curves import hilbert, zorder
from bucketlake.ops.cluster.job import Job, put_in_order, sort_here
from bucketlake.ops.cluster.order import SortOrder
from bucketlake.ops.cluster.plan import ClusterUnit
from bucketlake.ops.cluster.ranges import Sample, bounds_of
from bucketlake.ops.progress import Progress
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.store import Store
from bucketlake.table import Table

SQUARE = pa.table({"a": pa.array([i // 3 for i in range(9)], pa.int32()), "b": pa.array([i % 3 for i in range(9)])})
Z = [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2), (2, 0), (2, 1), (2, 2)]
HILBERT = [(0, 0), (0, 1), (1, 1), (1, 0), (2, 0), (2, 1), (2, 2), (1, 2), (0, 2)]
PLAIN = [(a, b) for a in range(3) for b in range(3)]


def by(keys: pa.Array) -> list[int]:
    values = keys.to_pylist()
    return sorted(range(len(values)), key=lambda row: bytes(values[row]))


# ---------------------------------------------------------------------------------------------- curves

ASCENDING: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-128, -1, 0, 1, 127]),
    (pa.int16(), [-300, 0, 300]),
    (pa.int64(), [-(1 << 63), -5, 0, 7, (1 << 63) - 1]),
    (pa.float32(), [-math.inf, -1.5, -0.0, 0.0, 1e-30, 3.0, math.inf, math.nan]),
    (pa.float64(), [-math.inf, -1e300, -0.0, 0.0, 2.5, math.inf, math.nan]),
    (pa.bool_(), [False, True]),
    (pa.string(), ["", "a", "ab", "b", "zebra", "é"]),
    (pa.binary(), [b"", b"\x01", b"\x7f", b"\xff"]),
    (pa.decimal128(9, 2), [decimal.Decimal(x) for x in ("-10.50", "-0.01", "0.00", "12.34")]),
    (pa.decimal128(38, 18), [decimal.Decimal(x) for x in ("-99999999999", "-1", "0", "1", "12345678901234567890")]),
    (pa.date32(), [dt.date(1, 1, 1), dt.date(1969, 1, 1), dt.date(2024, 5, 6), dt.date(9999, 1, 1)]),
    (pa.timestamp("us"), [dt.datetime(1900, 1, 1), dt.datetime(1970, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 0, 9000)]),
    (pa.time32("ms"), [dt.time(0), dt.time(12, 30), dt.time(23, 59)]),
]


@pytest.mark.parametrize(("kind", "values"), ASCENDING, ids=[str(kind) for kind, _ in ASCENDING])
def test_curves_keep_the_order_of_every_type(kind: pa.DataType, values: list[Any]) -> None:
    column = pa.array([*values, None], kind).slice(0)
    other = pa.array([7] * len(column), pa.int32())
    for found in (zorder([column, other]), zorder([column]), hilbert([column])):
        keys = found.to_pylist()
        assert keys[:-1] == sorted(keys[:-1]) and len(set(keys[:-1])) == len(values)
    assert zorder([column]).to_pylist()[-1] == bytes(8)  # null is first
    assert hilbert([column]).to_pylist()[-1] == b"\xff" * 8  # null is last
    part = [column.slice(1), other.slice(1)]
    assert hilbert(part).to_pylist() == hilbert([column, other]).to_pylist()[1:]


def test_curves_run_as_paimons() -> None:
    columns = [SQUARE["a"].combine_chunks(), SQUARE["b"].combine_chunks()]
    assert [PLAIN[row] for row in by(zorder(columns))] == Z
    assert [PLAIN[row] for row in by(hilbert(columns))] == HILBERT


def test_a_z_order_of_many_columns_and_of_texts_of_other_lengths() -> None:
    rng = random.Random(5)
    columns = [pa.array([rng.randrange(4) for _ in range(50)]) for _ in range(10)]
    bits = [[f"{value + (1 << 63):064b}" for value in column.to_pylist()] for column in columns]
    expected = [int("".join("".join(bit) for bit in zip(*row, strict=True)), 2) for row in zip(*bits, strict=True)]
    assert [int.from_bytes(key, "big") for key in zorder(columns).to_pylist()] == expected
    texts = pa.array(["abc", "abd", "b"])
    keys = zorder([texts, pa.array([3, 2, 1], pa.int8())], var_length=2).to_pylist()
    assert [len(key) for key in keys] == [10, 10, 10] and keys[2] > keys[0] > keys[1]


def test_neighbours_on_a_hilbert_curve_are_neighbours_in_the_plane() -> None:
    side = 16
    points = [(x, y) for x in range(side) for y in range(side)]
    keys = hilbert([pa.array([x for x, _ in points]), pa.array([y for _, y in points])])
    path = [points[row] for row in by(keys)]
    assert all(abs(a - c) + abs(b - d) == 1 for (a, b), (c, d) in pairwise(path))


# ---------------------------------------------------------------------------------------------- ranges


@pytest.mark.parametrize("share", [0.0, 0.5, 0.95, 1.0])
def test_ranges_are_of_about_equal_weight_whatever_the_skew(share: float) -> None:
    rng = np.random.default_rng(3)
    rows = 40_000
    keys = pa.array(np.where(rng.random(rows) < share, 7, rng.integers(0, 1_000_000, rows)))
    text = pa.array([f"https://example.org/{key}" for key in keys.to_pylist()])
    for columns in ((keys,), (text, keys)):
        sample = Sample(
            tuple(columns[i].take(pa.array(range(0, rows, 10))) for i in range(len(columns))), np.ones(4000)
        )
        bounds = bounds_of([sample], 8)
        places = bounds.place(columns)
        counts = np.bincount(places, minlength=8)
        assert counts.min() > 0.8 * rows / 8 and counts.max() < 1.25 * rows / 8
        order = np.argsort(np.array(columns[0].to_pylist()), kind="stable")
        assert (np.diff(places[order]) >= 0).all() or share > 0
        assert (bounds.place(columns) == places).all()  # the same for a task that is run again


def test_ranges_of_nothing_and_of_one_row() -> None:
    assert bounds_of([], 4).ranges == 1
    one = Sample((pa.array([None], pa.int32()),), np.ones(1))
    assert bounds_of([one], 4).place([pa.array([None, 3], pa.int32())]).max() <= 3


@pytest.mark.parametrize("drawn", [slice(0, 400), slice(100, 300), slice(200, 201)])
def test_leads_of_keys_on_a_curve_ascend_with_them(drawn: slice) -> None:
    """Also with those of keys that lie outside of all that were drawn."""
    values = np.random.default_rng(3).integers(-40, 5000, 400)
    keys = zorder([pa.array(np.sort(values)), pa.array(values, pa.int32())])
    ordered = keys.take(pa.array(np.argsort(np.array(keys.to_pylist(), object))))
    sample = Sample((ordered[drawn],), np.ones(drawn.stop - drawn.start))
    bounds = bounds_of([sample], 4)
    for some in (ordered, ordered.slice(7, 300), ordered.slice(0, 0)):
        leads = bounds.leads(some)
        assert len(leads) == len(some) and (np.diff(leads) >= 0).all()
    if drawn.start == 100:
        inside = bounds.leads(ordered[drawn])
        assert len(set(inside.tolist())) == len(set(ordered[drawn].to_pylist()))  # none has more than eight bytes more
    assert not bounds.leads(pa.array([b"abc", b"d"])).any()
    assert not bounds.leads(pa.array([b"abc", None])).any()


# ---------------------------------------------------------------------------------------------- tables

SCHEMA = pa.schema([("a", pa.int32()), ("b", pa.int64()), ("c", pa.string()), ("pt", pa.int32())])
SMALL = {"target-file-size": "4 kb", "parquet.enable.dictionary": "false", "write-only": "true"}
VECTORS = {"deletion-vectors.enabled": "true"}
CLUSTERED = {
    "num-levels": "6",
    "num-sorted-run.compaction-trigger": "2",
    "clustering.columns": "a,b",
    "clustering.strategy": "zorder",
    "clustering.incremental": "true",
}


def table(folder: Path, keys: Sequence[str] = (), **options: str) -> Table:
    fields = SCHEMA if keys else SCHEMA.remove(3)
    return bucketlake.open(folder).create_table("t", fields, list(keys), [], options)


def rows(count: int, seed: int = 1, pt: int | None = None) -> pa.Table:
    rng = random.Random(seed)
    a = [rng.choice([None, *range(100)]) for _ in range(count)]
    found = pa.table(
        {
            "a": pa.array(a, pa.int32()),
            "b": pa.array([rng.randrange(-1000, 1000) for _ in range(count)], pa.int64()),
            "c": pa.array([f"{seed}-{number}" for number in range(count)]),
        }
    )
    return found if pt is None else found.append_column("pt", pa.array([pt] * count, pa.int32()))


def all_rows(made: Table) -> list[tuple[Any, ...]]:
    data = made.to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in data), key=str)


def pairs(made: Table) -> list[tuple[int, int]]:
    return [(row["a"], row["b"]) for row in made.to_arrow().to_pylist()]


@pytest.mark.parametrize(
    ("strategy", "expected"), [("order", PLAIN), ("zorder", Z), ("hilbert", HILBERT), ("HILBERT", HILBERT)]
)
def test_rows_lie_in_the_order_asked_for(tmp_path: Path, strategy: str, expected: list[tuple[int, int]]) -> None:
    made = bucketlake.open(tmp_path).create_table("t", SQUARE.schema, [], [])
    for row in reversed(range(9)):
        made.write_arrow(SQUARE.slice(row, 1))
    done = made.compact(order_by="a, b", order_strategy=strategy)
    assert done is not None and done.commit_kind is CommitKind.OVERWRITE
    assert pairs(made) == expected and len(made.files()) == 1
    assert made.to_arrow(**{"scan.snapshot-id": "9"}).num_rows == 9


def test_a_point_query_opens_few_files_and_rows_that_vectors_name_are_gone(tmp_path: Path) -> None:
    made = table(tmp_path, **SMALL, **VECTORS)
    for seed in range(4):
        made.write_arrow(rows(4000, seed))
    made.delete("b = 5")
    before = all_rows(made)
    made.compact(order_by=["b"])
    assert all_rows(made) == before
    count = len(made.files())
    assert count >= 20 and len(made.files("b = 17")) <= max(2, 0.05 * count)
    assert made.store.index_manifest(made.store.latest_snapshot()) == ()  # type: ignore[arg-type]


def test_a_curve_prunes_by_each_of_its_columns(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    data = pa.table({name: rng.integers(0, 1000, 16000) for name in "xy"})
    for strategy in ("zorder", "hilbert"):
        options = {**SMALL, "target-file-size": "2 kb"}
        made = bucketlake.open(tmp_path).create_table(strategy, data.schema, [], [], options)
        made.write_arrow(data)
        made.compact(order_by="x,y", order_strategy=strategy)
        count = len(made.files())
        assert count >= 16
        for query in ("x = 300", "y = 300"):
            assert len(made.files(query)) <= 0.5 * count
        assert len(made.files("x = 300 and y = 700")) <= 3


def test_only_the_partitions_asked_for(tmp_path: Path) -> None:
    made = table(tmp_path, ["pt"])
    for pt in (1, 2):
        for seed in range(2):
            made.write_arrow(rows(50, seed, pt))
    before, untouched = all_rows(made), {file.path for file in made.files("pt = 2")}
    told: list[Progress] = []
    store = made.store
    order = SortOrder.of(made.schema, "order", ["b"], made.options)
    assert made.compact(order_by="b", where="pt = 1") is not None
    assert {file.path for file in made.files("pt = 2")} == untouched and len(made.files("pt = 1")) == 1
    put_in_order(store, Job(order, progress=told.append))
    assert all_rows(made) == before
    last = told[-1]
    assert (last.rows, last.units, last.total_units, last.commits, last.done) == (200, 2, 2, 1, True)


def test_nothing_to_do(tmp_path: Path) -> None:
    made = table(tmp_path, ["pt"])
    assert made.compact(order_by="b") is None
    made.write_arrow(rows(3, 1, 1))
    assert made.compact(order_by="b", where="pt = 9") is None


REFUSALS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"order_by": "nope"}, InvalidError, "Can't find column nope in table columns"),
    ({"order_by": "bb"}, InvalidError, "did you mean 'b'"),
    ({"order_by": "pt"}, InvalidError, "order_by should not contain partition cols"),
    ({"order_by": "pt", "order_strategy": "sort"}, InvalidError, "order_by should not contain partition cols"),
    ({"order_by": "a", "order_strategy": "sort"}, InvalidError, "cannot match order type: sort"),
    ({"order_by": "a", "order_strategy": "none"}, InvalidError, 'order_strategy "none" cannot work'),
    ({"order_by": "a,a"}, InvalidError, "named twice"),
    ({"order_strategy": "zorder"}, InvalidError, "order column could not be empty"),
    ({"order_by": "a", "where": "a = 1"}, InvalidError, "Only partition predicate is supported"),
    ({"order_by": "a", "zorder.var-length-contribution": "0"}, InvalidError, "not a number of bytes"),
]


@pytest.mark.parametrize(("asked", "error", "words"), REFUSALS)
def test_what_cannot_be_meant_is_refused_before_a_file_is_read(
    tmp_path: Path, asked: dict[str, Any], error: type[Exception], words: str
) -> None:
    made = table(tmp_path, ["pt"])
    made.write_arrow(rows(3, 1, 1))
    for path in Path(made.path).rglob("bucket-0/*.parquet"):
        path.unlink()
    with pytest.raises(error, match=words):
        made.compact(**asked)
    assert len(made.snapshots()) == 1


def test_tables_and_types_that_have_no_order_of_their_own(tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    nested = pa.schema([("id", pa.int32()), ("tags", pa.list_(pa.string()))])
    plain = catalog.create_table("plain", nested, [], [])
    keyed = catalog.create_table("keyed", nested, [], ["id"], {"bucket": "2"})
    fixed = catalog.create_table("fixed", nested, [], [], {"bucket": "2", "bucket-key": "id"})
    with pytest.raises(UnsupportedError, match="Cannot use column tags"):
        plain.compact(order_by="tags")
    for made in (keyed, fixed):
        with pytest.raises(UnsupportedError, match="only support unaware-bucket append-only table"):
            made.compact(order_by="id")


# ---------------------------------------------------------------------------------------------- beside others


class Meddling:
    """Sorts, and lets another writer commit between reading and committing, the first few times."""

    def __init__(self, *steps: Any) -> None:
        self.steps, self.units = list(steps), 0

    def __call__(self, store: Store, units: Sequence[ClusterUnit], order: SortOrder) -> list[CommitMessage]:
        messages = sort_here(store, units, order)
        self.units += len(units)
        if self.steps:
            self.steps.pop(0)()
        return messages


@pytest.mark.parametrize("marks", [True, False], ids=["vectors", "files"])
def test_what_others_commit_meanwhile_stays(tmp_path: Path, marks: bool) -> None:
    made = table(tmp_path, ["pt"], **SMALL, **(VECTORS if marks else {}))
    for pt in (1, 2, 3):
        made.write_arrow(rows(300, 1, pt))
        made.write_arrow(rows(300, 2, pt))
    made.delete("pt = 3 and b < -900")
    run = Meddling(
        lambda: made.delete("pt = 2 and b > 0"),
        lambda: made.update({"c": "new"}, "pt = 3 and b < 0"),
        lambda: made.write_arrow(rows(10, 9, 1)),
    )
    order = SortOrder.of(made.schema, "zorder", ["a", "b"], made.options)
    done = put_in_order(made.store, Job(order), run)
    assert done is not None
    expected = [row for seed in (1, 2) for pt in (1, 2, 3) for row in rows(300, seed, pt).to_pylist()]
    expected = [row for row in expected if not (row["pt"] == 3 and row["b"] < -900)]
    expected = [row for row in expected if not (row["pt"] == 2 and row["b"] > 0)]
    for row in expected:
        if row["pt"] == 3 and row["b"] < 0:
            row["c"] = "new"
    expected += rows(10, 9, 1).to_pylist()
    assert all_rows(made) == sorted((tuple(row.values()) for row in expected), key=str)
    assert not run.steps and run.units == 3 + 1 + 1  # only the partition concerned is read again


def test_files_that_keep_changing_are_given_up_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SystemClock, "sleep", lambda clock, seconds: None)  # attempts pause longer and longer
    made = table(tmp_path, **VECTORS)
    made.write_arrow(rows(200))
    numbers = iter(range(200))

    def again(store: Store, units: Sequence[ClusterUnit], order: SortOrder) -> list[CommitMessage]:
        messages = sort_here(store, units, order)
        made.delete(f"c = '1-{next(numbers)}'")
        return messages

    with pytest.raises(ConflictError, match="kept changing"):
        put_in_order(made.store, Job(SortOrder.of(made.schema, "order", ["b"], made.options)), again)
    assert made.to_arrow().num_rows == 180
    assert made.remove_orphan_files(older_than=dt.datetime.now() - dt.timedelta(days=2), dry_run=True).count == 0


def test_appended_files_stay_as_they_are(tmp_path: Path) -> None:
    made = table(tmp_path)
    made.write_arrow(rows(20))
    run = Meddling(lambda: made.write_arrow(rows(20, 2)))
    put_in_order(made.store, Job(SortOrder.of(made.schema, "order", ["b"], made.options)), run)
    assert all_rows(made) == sorted(
        (tuple(row.values()) for seed in (1, 2) for row in rows(20, seed).to_pylist()), key=str
    )
    assert run.units == 1 and len(made.files()) == 2


# ---------------------------------------------------------------------------------------------- memory


def test_more_rows_than_the_buffer_holds_are_merged_from_disk(tmp_path: Path) -> None:
    made = table(tmp_path, **SMALL)
    for seed in range(3):
        made.write_arrow(rows(6000, seed))
    before = all_rows(made)
    for strategy in ("order", "hilbert"):
        made.compact(order_by="c,a", order_strategy=strategy, **{"write-buffer-size": "100 kb"})
        assert all_rows(made) == before
    made.compact(order_by="c,b", **{"write-buffer-size": "100 kb"})
    found = [(row["c"], row["b"]) for row in made.to_arrow().to_pylist()]
    assert found == sorted(found)


# ---------------------------------------------------------------------------------------------- clustering on write


@pytest.mark.parametrize(("strategy", "expected"), [("order", PLAIN), ("zorder", Z), ("hilbert", HILBERT), ("auto", Z)])
def test_a_write_clusters(tmp_path: Path, strategy: str, expected: list[tuple[int, int]]) -> None:
    options = {"clustering.columns": "a,b", "clustering.strategy": strategy}
    made = bucketlake.open(tmp_path).create_table("t", SQUARE.schema, [], [], options)
    shuffled = SQUARE.take(pa.array(random.Random(2).sample(range(9), 9)))
    made.write_arrow(shuffled)
    assert pairs(made) == expected
    made.write_arrow(shuffled, mode="overwrite")
    assert pairs(made) == expected


def test_auto_is_an_order_of_one_column(tmp_path: Path) -> None:
    made = table(tmp_path, **{"sink.clustering.by-columns": "b"})
    made.write_arrow(rows(50))
    values = made.to_arrow()["b"].to_pylist()
    assert values == sorted(values)


def test_a_write_that_cannot_cluster_is_refused(tmp_path: Path) -> None:
    for number, (columns, strategy) in enumerate([("nope", "order"), ("a", "sort")]):
        options = {"clustering.columns": columns, "clustering.strategy": strategy}
        made = bucketlake.open(tmp_path).create_table(f"t{number}", SQUARE.schema, [], [], options)
        with pytest.raises(InvalidError, match=columns if columns == "nope" else "cannot match order type"):
            made.write_arrow(SQUARE)
        assert not list(Path(made.path).rglob("*.parquet"))


@pytest.mark.parametrize("optimize", [True, False])
def test_incremental_tables_are_clustered_on_write_where_that_is_asked_for(tmp_path: Path, optimize: bool) -> None:
    options = {**CLUSTERED, "clustering.incremental.optimize-write": str(optimize).lower()}
    made = bucketlake.open(tmp_path).create_table("t", SQUARE.schema, [], [], options)
    made.write_arrow(SQUARE)
    assert pairs(made) == (Z if optimize else PLAIN)


# ---------------------------------------------------------------------------------------------- incremental clustering


def levels(made: Table) -> list[int]:
    return sorted(entry.file.level for entry in made.plan().entries)


def test_incremental_clustering_goes_level_by_level(tmp_path: Path) -> None:
    made = table(tmp_path, **CLUSTERED, **VECTORS)
    made.write_arrow(rows(3000, 1))
    made.write_arrow(rows(3000, 2))
    first = made.compact()
    assert first is not None and first.commit_kind is CommitKind.COMPACT and levels(made) == [5]
    assert made.compact() is None
    made.write_arrow(rows(20, 3))
    made.write_arrow(rows(1, 6))
    made.delete("c = '3-1' or c = '1-1'")
    expected = all_rows(made)
    made.compact()
    assert levels(made) == [4, 5] and all_rows(made) == expected
    made.compact(full=True)
    assert levels(made) == [5] and all_rows(made) == expected and len(expected) == 6019
    assert made.compact(full=True) is None
    made.write_arrow(rows(20, 4))
    run = Meddling(lambda: made.delete("c = '4-3'"), lambda: made.write_arrow(rows(2, 5)))
    from bucketlake.ops.cluster.request import OrderRequest, clustering_job

    job = clustering_job(made.store, OrderRequest(), True, None)
    assert job is not None
    put_in_order(made.store, job, run)
    assert made.to_arrow().num_rows == 6019 + 19 + 2 and levels(made) == [0, 5]


def test_other_columns_are_a_reason_to_cluster_again(tmp_path: Path) -> None:
    from bucketlake.schema.change import SetOption

    made = table(tmp_path, **CLUSTERED)
    made.write_arrow(rows(10))
    made.compact(full=True)
    assert made.compact(full=True) is None
    assert made.alter(SetOption("clustering.columns", "b,a")).compact(full=True) is not None


def test_old_partitions_are_clustered_whole_beside_those_named(tmp_path: Path) -> None:
    options = {
        **CLUSTERED,
        "clustering.history-partition.idle-to-full-sort": "1 ms",
        "clustering.history-partition.limit": "1",
    }
    made = table(tmp_path, ["pt"], **options)
    for pt in (1, 2, 3):
        made.write_arrow(rows(5, 1, pt))
        made.write_arrow(rows(5, 2, pt))
    made.store.env.clock.sleep(0.01)
    assert made.compact(where="pt = 3") is not None
    paths, found = made.store.paths, made.plan().entries
    lie = sorted((paths.partition_texts(entry.partition)["pt"], entry.file.level) for entry in found)
    assert lie == [("1", 5), ("2", 0), ("2", 0), ("3", 5)]


def test_parts_are_sorted_each_by_itself(tmp_path: Path) -> None:
    made = table(tmp_path, **{**CLUSTERED, "clustering.incremental.mode": "local-sort", "clustering.columns": "b"})
    for seed in range(4):
        made.write_arrow(rows(30, seed))
    before = all_rows(made)
    made.compact()
    assert all_rows(made) == before and 1 < len(made.files()) < 4 and set(levels(made)) == {5}


def test_clustering_inside_buckets_that_keep_no_order(tmp_path: Path) -> None:
    options = {**CLUSTERED, "bucket": "2", "bucket-key": "c", "bucket-append-ordered": "false"}
    made = table(tmp_path, **options)
    for seed in range(3):
        made.write_arrow(rows(40, seed))
    before = all_rows(made)
    made.compact(full=True)
    assert all_rows(made) == before and levels(made) == [5, 5]


def test_a_table_that_is_clustered_bit_by_bit_takes_no_order_of_its_own(tmp_path: Path) -> None:
    made = table(tmp_path, **CLUSTERED)
    with pytest.raises(InvalidError, match="has enabled incremental clustering, do not support sort compact"):
        made.compact(order_by="a")
    catalog = bucketlake.open(tmp_path)
    for number, (keys, options, words) in enumerate(
        [
            (["a"], {"bucket": "1"}, "Cannot define primary-key for incremental clustering table"),
            ([], {"bucket": "1", "bucket-key": "a"}, "bucket-append-ordered must be false"),
            (
                [],
                {"bucket": "1", "bucket-key": "a", "bucket-append-ordered": "false", **VECTORS},
                "Cannot enable deletion-vectors",
            ),
        ]
    ):
        with pytest.raises(InvalidError, match=words):
            catalog.create_table(f"u{number}", SCHEMA, [], keys, {**CLUSTERED, **options})


# ---------------------------------------------------------------------------------------------- dynamic buckets


def keyed_table(folder: Path, **options: str) -> Table:
    fixed = {"dynamic-bucket.target-row-num": "100", "write-only": "true", **options}
    return bucketlake.open(folder).create_table("t", SCHEMA, ["pt"], ["b", "pt"], fixed)


def test_a_bucket_of_a_dynamic_table_is_a_stretch_of_the_order(tmp_path: Path) -> None:
    made = keyed_table(tmp_path)
    for seed in range(3):
        made.write_arrow(rows(800, seed, seed % 2))
    made.delete("b >= 900")
    before = all_rows(made)
    done = made.compact(order_by="c")
    assert done is not None and done.commit_kind is CommitKind.OVERWRITE and all_rows(made) == before
    for query in ("c = '1-77'", "c = '0-5'"):
        assert len(made.files(query)) <= 0.3 * len(made.files())
    made.write_arrow(rows(800, 1, 1).slice(0, 100))  # keys are found where they lie now
    made.write_arrow(rows(30, 7, 0))
    keys = [(row["b"], row["pt"]) for row in made.to_arrow().to_pylist()]
    assert len(keys) == len(set(keys))
    after = all_rows(made)
    assert made.compact(order_by="a", order_strategy="zorder", where="pt = 1") is not None and all_rows(made) == after


def test_a_dynamic_table_that_others_write_to_meanwhile(tmp_path: Path) -> None:
    from bucketlake.ops.cluster import keyed
    from bucketlake.ops.commit.commit import Commit
    from bucketlake.ops.write.prepare import prepare_write
    from bucketlake.ops.write.write import write_batches

    made = keyed_table(tmp_path)
    for pt in (0, 1):
        made.write_arrow(rows(500, 1, pt))
    late = prepare_write(
        made.store, made.store.latest_snapshot()
    )  # a writer that is slow: its buckets are the old ones
    messages = write_batches(made.store, rows(100, 2, 0).to_batches(), late)
    units = 0
    steps = [lambda: made.write_arrow(rows(50, 3, 1)), lambda: made.delete("pt = 1 and b < 0")]

    def run(store: Store, found: Sequence[keyed.KeyedUnit], order: SortOrder) -> list[CommitMessage]:
        nonlocal units
        units += len(found)
        sorted_ = keyed.sort_here(store, found, order)
        if steps:
            steps.pop(0)()
        return sorted_

    assert keyed.put_in_order(made.store, Job(SortOrder.of(made.schema, "order", ["c"], made.options)), run) is not None
    assert units == 2 + 1 + 1  # the other partition is read once
    Commit(made.store, "late").commit(messages)
    expected: dict[tuple[int, int], Any] = {}
    for part in (rows(500, 1, 0), rows(500, 1, 1), rows(50, 3, 1)):
        expected.update({(row["b"], row["pt"]): row for row in part.to_pylist()})
    expected = {key: row for key, row in expected.items() if not (key[1] == 1 and key[0] < 0)}
    expected.update({(row["b"], row["pt"]): row for row in rows(100, 2, 0).to_pylist()})
    assert all_rows(made) == sorted((tuple(row.values()) for row in expected.values()), key=str)
    made.compact()
    assert all_rows(made) == sorted((tuple(row.values()) for row in expected.values()), key=str)


@pytest.mark.parametrize(
    "options",
    [
        {"changelog-producer": "lookup"},
        {"changelog-producer": "full-compaction"},
        {"deletion-vectors.enabled": "true"},
        {"merge-engine": "first-row"},
        {"rowkind.field": "c"},
    ],
)
def test_dynamic_tables_whose_rows_an_overwrite_would_not_see(tmp_path: Path, options: dict[str, str]) -> None:
    with pytest.raises(UnsupportedError, match=next(iter(options)).split(".")[0].replace("merge-engine", "first-row")):
        keyed_table(tmp_path, **options).compact(order_by="a")
