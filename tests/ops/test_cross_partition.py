"""Cross-partition upserts against a plain dict: each key lies once, where its merge engine puts it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.profile import examples

import bucketlake
from bucketlake.env.env import SystemClock
from bucketlake.lsm import key_run
from bucketlake.lsm.key_run import ABSENT, GrowingRun, KeyRun, Keys
from bucketlake.ops.key_index import cache, cross_partition, key_layers
from bucketlake.ops.key_index.cache import IndexReader, cached_index, open_index
from bucketlake.ops.key_index.key_scan import PlaceNumbers, key_fields, look_up
from bucketlake.ops.write.prepare import new_commit_user, prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.schema.schema import KIND_FIELD
from bucketlake.table import Table
from bucketlake.types.model import INT, STRING, DataField

Row = tuple[int, int, int | None, int]  # key, partition, value, kind
State = dict[int, tuple[int, int | None]]  # key -> partition, value
ENGINES = {
    "deduplicate": {},
    "partial-update": {"partial-update.remove-record-on-delete": "true"},
    "aggregation": {"fields.v.aggregate-function": "sum"},
    "first-row": {},
}
keys, parts, values = st.integers(0, 6), st.integers(1, 3), st.one_of(st.none(), st.integers(0, 9))


def rows_of(engine: str) -> st.SearchStrategy[Row]:
    kinds = st.sampled_from([0, 0, 0, 3]) if engine in ("deduplicate", "partial-update") else st.just(0)
    found = st.tuples(keys, parts, values, kinds)
    if engine == "partial-update":  # the values of a delete row stay for rows that follow it, in Paimon too
        return found.map(lambda row: (*row[:2], None, 3) if row[3] == 3 else row)
    return found


def model(state: State, engine: str, rows: list[Row]) -> State:
    """One write: rows one after the other. A key that the write itself takes back keeps its partition until the end."""
    state, held = dict(state), {key: part for key, (part, _) in state.items()}
    for key, part, value, kind in rows:
        here = held.get(key)
        if engine == "first-row":
            state.setdefault(key, (part, value))
        elif kind == 3:
            state.pop(key, None)
            held.setdefault(key, part)
        elif engine == "deduplicate":
            state[key] = (part, value)
        else:
            part = part if here is None else here
            old = state[key][1] if key in state else None
            merged = value if old is None else old if value is None else old + value
            latest = old if value is None else value
            state[key] = (part, merged if engine == "aggregation" else latest)
        if kind != 3 and engine != "first-row":
            held[key] = state[key][0]
    return state


def create(folder: Path | str, engine: str = "deduplicate", **options: str) -> Table:
    catalog = bucketlake.open(str(folder))
    fields = [pa.field("k", pa.int64(), False), pa.field("pt", pa.int32()), pa.field("v", pa.int32())]
    texts = {"bucket": "-1", "merge-engine": engine, "dynamic-bucket.target-row-num": "2", **ENGINES[engine], **options}
    return catalog.create_table("t", pa.schema(fields), primary_keys=["k"], partition_keys=["pt"], options=texts)


def batch(rows: list[Row]) -> pa.RecordBatch:
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], [], []]
    types = [pa.int64(), pa.int32(), pa.int32(), pa.int8()]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=["k", "pt", "v", KIND_FIELD.name])


def put(table: Table, rows: list[Row], sizes: int = 100, indexed: bool = False) -> None:
    """One write of one task, in batches of so many rows."""
    store, user = table.store, new_commit_user(table.store)
    base = store.latest_snapshot()
    task = prepare_write(store, base, commit_user=user)
    if indexed and base is not None:
        task = replace(task, key_index=open_index(store, base))
    batches = [batch(rows[start : start + sizes]) for start in range(0, len(rows), sizes)]
    messages = write_batches(store, batches, task, KIND_FIELD.name)
    table.compacted(table.commit(messages, user), messages)


def state_of(table: Table) -> State:
    if table.schema.options.get("merge-engine") == "first-row":
        table.compact()
    rows = table.to_arrow().to_pylist()
    assert len({row["k"] for row in rows}) == len(rows), rows
    return {row["k"]: (row["pt"], row["v"]) for row in rows}


def check_index(table: Table, expected: State) -> None:
    """The index finds every live key where its partition says, and no other key."""
    store = table.store
    snapshot = store.latest_snapshot()
    if snapshot is None:
        return
    wanted = pa.RecordBatch.from_pydict({"k": pa.array(range(9), pa.int64())})
    index = open_index(store, snapshot)
    assert index is not None
    reader = IndexReader(store, index)
    there = Keys.of(wanted, key_fields(store))
    order = np.argsort(there.hashes)
    places = np.empty(len(there), np.int32)
    places[order] = reader.find(there.take(order))
    found = {k: reader.numbers.places[p] for k, p in enumerate(places.tolist()) if p >= 0}
    assert {k: int(store.paths.partition_texts(p)["pt"]) for k, (p, _) in found.items()} == {
        key: part for key, (part, _) in expected.items()
    }
    numbers = PlaceNumbers()
    direct = look_up(store, snapshot, wanted, numbers).tolist()
    assert {k: numbers.places[p] for k, p in enumerate(direct) if p >= 0} == found
    counts = {place: count for place, count in index.counts.items() if count}
    assert counts == {place: list(found.values()).count(place) for place in set(found.values())}


def without_returns(rows: list[Row]) -> list[Row]:
    """The rows of a write up to the first delete of each key: partial-update takes nulls of what follows for "as it
    was", and where a flush or a compaction cut decides whether the delete lies between. So it is with Paimon."""
    gone: set[int] = set()
    kept = []
    for row in rows:
        if row[0] not in gone:
            kept.append(row)
        if row[3] == 3:
            gone.add(row[0])
    return kept


@pytest.mark.parametrize("engine", ENGINES)
def test_every_history_is_what_a_dict_says(engine: str) -> None:
    rows = rows_of(engine)
    step = st.tuples(
        st.sampled_from(["put"] * 6 + ["compact", "drop", "truncate"]), st.lists(rows, max_size=9), st.booleans()
    )

    @settings(max_examples=examples(10, 320), deadline=None)
    @given(st.lists(step, max_size=5), st.integers(1, 10))
    def run(steps: list[tuple[str, list[Row], bool]], sizes: int) -> None:
        with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            patch.setattr(cross_partition, "BATCH_ROWS", 1)
            patch.setattr(cache, "RECENT_ROWS", sizes)
            patch.setattr(key_layers, "BLOCK_ROWS", 1 + sizes % 3)
            patch.setattr(cross_partition, "FEW_ROWS", 9 if sizes % 2 else cross_partition.FEW_ROWS)
            table, expected = create(folder, engine), {}
            for kind, given_rows, indexed in steps:
                if kind == "put":
                    if engine == "partial-update":
                        given_rows = without_returns(given_rows)
                    put(table, given_rows, sizes, indexed)
                    expected = model(expected, engine, given_rows)
                elif kind == "compact":
                    table.compact()
                elif kind == "drop":
                    table.drop_partitions([{"pt": 2}])
                    expected = {key: value for key, value in expected.items() if value[0] != 2}
                else:
                    table.truncate()
                    expected = {}
                if indexed:
                    check_index(table, expected)
            assert state_of(table) == expected
            check_index(table, expected)

    run()


def test_new_keys_are_dealt_out_to_all_assigners(tmp_path: Path) -> None:
    limits = {"dynamic-bucket.assigner-parallelism": "3", "dynamic-bucket.target-row-num": "2"}
    table = create(tmp_path, **limits)
    put(table, [(key, 1, key, 0) for key in range(5)])
    assert {file.bucket for file in table.files()} == {0, 1, 2}
    put(table, [(key, 1, key, 0) for key in range(5, 9)], indexed=True)
    assert {file.bucket for file in table.files()} == {0, 1, 2, 3, 4}  # the third bucket had room
    assert len(state_of(table)) == 9


def alike(values: list[int]) -> Keys:
    """Keys of which many share a hash."""
    return Keys(np.array([value % 3 for value in values], np.uint32), pa.array(values, pa.int64()))


@given(st.lists(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), max_size=8), max_size=8))
def test_keys_that_share_a_hash_are_told_apart(arrivals: list[list[tuple[int, int]]]) -> None:
    known, expected = GrowingRun([]), {}
    for rows in arrivals:
        last = dict(rows)
        known.put(alike(list(last)), np.array(list(last.values()), np.int32))
        expected |= last
        assert known.find(alike(list(range(22)))).tolist() == [expected.get(key, ABSENT) for key in range(22)]
    assert sum(len(run) for run in known.runs) == len(expected)


def test_large_runs_grow_only_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_run, "LARGE_RUN", 64)
    known = GrowingRun([])
    for start in range(0, 4_000, 10):
        values = np.arange(start, start + 10)
        known.put(Keys((values * 7_919 % 1_000).astype(np.uint32), pa.array(values)), (values % 9).astype(np.int32))
        assert max(map(len, known.runs)) <= max(64, sum(map(len, known.runs)) // 8)
    values = np.arange(4_010)
    found = known.find(Keys((values * 7_919 % 1_000).astype(np.uint32), pa.array(values)))
    assert found.tolist() == [*(values[:4_000] % 9).tolist(), *[ABSENT] * 10]
    assert len(known.runs) < 40


def test_runs_of_texts_are_compared_by_value() -> None:
    fields = (DataField(0, "a", STRING.with_nullable(False)), DataField(1, "b", INT.with_nullable(False)))
    rows = pa.RecordBatch.from_pydict({"a": ["x", "a long text", "x", "x"], "b": pa.array([1, 1, 2, 1], pa.int32())})
    keys = Keys.of(rows, fields)
    codes, first = keys.distinct()
    assert (codes.tolist(), first.tolist()) == ([0, 1, 2, 0], [0, 1, 2])
    run = KeyRun.of(keys.take(first), np.arange(3, dtype=np.int32))
    assert run.find(keys).tolist() == [0, 1, 2, 0]
    assert run.find(Keys.none(fields)).tolist() == []


def cache_files(table: Table) -> list[Path]:
    return sorted(Path(table.store.paths.key_index_dir).glob("*"))


def test_a_cache_is_found_brought_up_to_date_and_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, reads = create(tmp_path), []
    real = cache.build
    monkeypatch.setattr(cache, "build", lambda *given: reads.append(1) or real(*given))
    monkeypatch.setattr(cache, "RECENT_ROWS", 0)
    rows = [(key, key % 3, key, 0) for key in range(9)]
    put(table, rows, indexed=True)
    check_index(table, {key: (part, value) for key, part, value, _ in rows})
    assert len(reads) == 1
    put(table, [(1, 2, 0, 0), (2, 0, 0, 3)], indexed=True)
    expected = {key: (part, value) for key, part, value, _ in rows if key != 2} | {1: (2, 0)}
    check_index(table, expected)
    table.compact()
    check_index(table, expected)
    assert len(reads) == 1, "only what is new was read"
    names = [path.name for path in cache_files(table)]
    assert len([name for name in names if name.startswith("index-")]) == 2, names
    for path in cache_files(table):
        if path.name.startswith("layer-"):
            path.write_bytes(path.read_bytes()[:-9] + b"123456789")
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    index = cached_index(table.store, snapshot)
    assert index is not None
    check_index(table, expected)
    put(table, [(3, 1, 7, 0)], indexed=True)
    assert state_of(table) == expected | {3: (1, 7)}
    for path in cache_files(table):
        path.write_bytes(b"{}")
    put(table, [(4, 2, 8, 0)], indexed=True)
    assert state_of(table) == expected | {3: (1, 7), 4: (2, 8)}
    assert len(reads) > 1


def test_a_cache_of_another_history_is_not_used(tmp_path: Path) -> None:
    table = create(tmp_path)
    put(table, [(1, 1, 1, 0)])
    put(table, [(2, 2, 2, 0)], indexed=True)
    first, second = table.snapshots()
    index = open_index(table.store, second)
    assert index is not None
    other = replace(first, delta_manifest_list="manifest-list-of-another-life-0")
    assert cached_index(table.store, other) is None
    assert open_index(table.store, first) is not None


def test_a_key_that_left_the_index_is_looked_up_in_the_table(tmp_path: Path) -> None:
    table = create(tmp_path, **{"cross-partition-upsert.index-ttl": "1 d"})
    put(table, [(1, 1, 1, 0), (2, 1, 2, 0)])
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    later = replace(table.store.env, clock=Later())
    store = replace(table.store, env=later)
    index = open_index(store, snapshot)
    assert index is not None and not index.complete and not sum(index.file.counts)
    moved = replace(table, store=store)
    put(moved, [(1, 2, 5, 0)], indexed=True)
    assert state_of(table) == {1: (2, 5), 2: (1, 2)}


class Later(SystemClock):
    """Two days from now."""

    def now_millis(self) -> int:
        return super().now_millis() + 2 * 86_400_000


@pytest.mark.parametrize("engine", ENGINES)
def test_an_overwrite_of_a_partition_mends_keys_of_the_others(tmp_path: Path, engine: str) -> None:
    table = create(tmp_path, engine)
    put(table, [(1, 1, 1, 0), (2, 2, 2, 0), (3, 2, 3, 0)])
    rows = batch([(1, 2, 10, 0), (2, 2, 20, 0)]).select(["k", "pt", "v"])
    table.write_arrow(pa.Table.from_batches([rows]), mode="overwrite")
    kept = {"deduplicate": (2, 10), "partial-update": (1, 10), "aggregation": (1, 11), "first-row": (1, 1)}
    assert state_of(table) == {1: kept[engine], 2: (2, 20)}
    check_index(table, state_of(table))
    table.write_arrow(pa.Table.from_batches([rows]), mode="overwrite", **{"dynamic-partition-overwrite": "false"})
    assert state_of(table) == {1: (2, 10), 2: (2, 20)}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("whole", [False, True])
def test_an_overwrite_may_hold_a_key_in_two_partitions(tmp_path: Path, engine: str, whole: bool) -> None:
    """Its rows are merged with each other alone: nobody took away what they go to."""
    table = create(tmp_path, engine)
    put(table, [(1, 3, 7, 0), (4, 4, 4, 0)])
    given = [(5, 1, 1, 0), (5, 2, 10, 0), (6, 3, 6, 0)]
    options = {"dynamic-partition-overwrite": "false"} if whole else {}
    rows = pa.Table.from_batches([batch(given).select(["k", "pt", "v"])])
    table.write_arrow(rows, mode="overwrite", **options)
    assert state_of(table) == model({} if whole else {4: (4, 4)}, engine, given)
    check_index(table, state_of(table))
