"""Rescale: every row stays, in the bucket of its hash, whatever is committed meanwhile.

What a table holds is compared with a twin that gets the same writes and is never rescaled, and with a dict.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from tests.profile import SOAK, examples, first, later
from tests.sim.clock import FakeClock
from tests.sim.storage import FAIL_AFTER, FAIL_BEFORE, KILL_AFTER, FaultStorage, Killed, MapStorage
from tests.sim.tables import check_buckets, create_table, make_store

from bucketlake.errors import BucketlakeError, InvalidError, UnsupportedError
from bucketlake.format.metadata.snapshot import CommitKind
from bucketlake.format.row.hashing import assign_buckets
from bucketlake.ops.commit.commit import Commit
from bucketlake.ops.compact.running import inline
from bucketlake.ops.rescale.rescale import RescaleRequest, rescale
from bucketlake.ops.rewrite.rebucket import MoveUnit, OldBucket, Target, copy_units, move
from bucketlake.ops.scan.incremental import plan_read
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.scan.system_tables import RowView, read_view
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.change import SetOption
from bucketlake.schema.schema import KIND_FIELD, TableSchema
from bucketlake.schema.versions import create_schema
from bucketlake.table import Table
from bucketlake.types.model import BIGINT, INT, DataField, canonical_batch

FIELDS = (
    DataField(0, "pt", INT.with_nullable(False)),
    DataField(1, "k", BIGINT.with_nullable(False)),
    DataField(2, "v", INT),
)
ARROW = pa.schema([pa.field("pt", pa.int32()), pa.field("k", pa.int64()), pa.field("v", pa.int32())])
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "aggregation": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "partial-update": {"merge-engine": "partial-update"},
    "first-row": {"merge-engine": "first-row"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "lookup": {"changelog-producer": "lookup"},
    "full-compaction": {"changelog-producer": "full-compaction"},
    "input": {"changelog-producer": "input"},
    "summed vectors": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "deletion-vectors.enabled": "true",
    },
    "ordered by snapshot": {"sequence.snapshot-ordering": "true", "write-only": "true"},
    "write-only": {"write-only": "true"},
    "append": {"bucket-key": "k"},
    "append with vectors": {"bucket-key": "k", "deletion-vectors.enabled": "true"},
}
Rows = Sequence[tuple[int, int, int]]
SEEDS = itertools.count()  # decoded files are cached by name: no two tables name theirs alike


def schema_of(engine: str, bucket: int) -> TableSchema:
    keyed = not engine.startswith("append")
    options = {"scan.manifest.parallelism": "1", "commit.max-retries": "50", "bucket": str(bucket), **ENGINES[engine]}
    return create_schema(FIELDS, ("pt",), ("pt", "k") if keyed else (), options)


def new_table(engine: str, bucket: int, storage: Any = None) -> Table:
    return Table(create_table(storage or MapStorage(), FakeClock(next(SEEDS)), schema_of(engine, bucket)), "t")


def handle(table: Table, storage: Any) -> Table:
    """The same table through another storage."""
    return Table(make_store(storage, table.store.env.clock, table.schema), "t")


def write(table: Table, rows: Rows, kind: int = 0, **options: Any) -> None:
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], []]
    data = pa.table([pa.array(c, t.type) for c, t in zip(columns, ARROW, strict=True)], schema=ARROW)
    if kind:
        data = data.append_column(KIND_FIELD.name, pa.array([kind] * len(rows), pa.int8()))
    table.write_arrow(data, **options)


def content(table: Table) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in table.to_arrow().to_pylist())


def check_places(table: Table, numbers: Mapping[int, int]) -> None:
    """Every row lies in the bucket of its hash, out of the partition's number."""
    store = table.store
    entries = live_entries(store, store.latest_snapshot())
    keyed = bool(table.schema.primary_keys)
    for entry in entries:
        texts = store.paths.partition_texts(entry.partition)
        assert entry.total_buckets == numbers[int(texts["pt"])], (texts, entry.total_buckets)
        everything = Target(entry.partition, entry.total_buckets, tuple(range(entry.total_buckets)))
        source = OldBucket(entry.bucket, entry.total_buckets, (entry.file,))
        whole = MoveUnit(everything, (source,), merged=False)
        found = move(store, whole)
        Commit(store, "").abort(found)
        assert {message.bucket for message in found} == {entry.bucket}, "a row lies elsewhere than its hash says"
    if keyed:
        totals: dict[bytes, set[int]] = {}
        for entry in entries:
            totals.setdefault(entry.partition, set()).add(entry.total_buckets)
        assert all(len(found) == 1 for found in totals.values())
    else:
        check_buckets(store, entries)


def runs(table: Table) -> dict[tuple[bytes, int], set[int]]:
    """The levels of every bucket's files."""
    found: dict[tuple[bytes, int], set[int]] = {}
    for entry in live_entries(table.store, table.store.latest_snapshot()):
        found.setdefault((entry.partition, entry.bucket), set()).add(entry.file.level)
    return found


NUMBERS = [
    (engine, before, after)
    for engine in sorted(ENGINES)
    for before, after in [(4, 8), (8, 4), (3, 5), (6, 4), (1, 40), (2, 2)]
]
rows_of = st.lists(st.tuples(st.integers(1, 2), st.integers(-8, 30), st.integers(0, 99)), min_size=1, max_size=12)


@settings(max_examples=examples(8, 200), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(sorted(ENGINES)),
    st.integers(1, 9),
    st.lists(st.one_of(rows_of, st.integers(1, 20), st.tuples(st.just("delete"), st.integers(-8, 30))), max_size=8),
)
def test_rows_survive_any_numbers_in_any_order(engine: str, first: int, steps: list[Any]) -> None:
    table, twin = new_table(engine, first), new_table(engine, first)
    refuses = engine in ("first-row", "aggregation", "summed vectors", "partial-update")
    for step in steps:
        if isinstance(step, list):
            for one in (table, twin):
                write(one, step)
        elif isinstance(step, tuple):
            if not refuses:
                for one in (table, twin):
                    one.delete(f"k = {step[1]}")
        elif table.latest_snapshot() is not None:
            before = table.store.latest_snapshot_id()
            done = table.rescale(step)
            table = table.alter(SetOption("bucket", str(step)))
            assert done is None or (done.id == before + 1 and done.commit_kind is CommitKind.OVERWRITE)
            check_places(table, {1: step, 2: step})
        assert content(table) == content(twin)


@pytest.mark.parametrize(("engine", "before", "after"), first(NUMBERS, 13))
def test_one_bucket_becomes_one_run(engine: str, before: int, after: int) -> None:
    table = new_table(engine, before)
    for start in range(0, 120, 40):
        write(table, [(1, k, k) for k in range(start, start + 50)])
    held = content(table)
    table.rescale(after)
    assert content(table) == held
    check_places(table, {1: after})
    if table.schema.primary_keys and table.options.get("changelog-producer") == "none":
        assert all(len(levels) == 1 and 0 not in levels for levels in runs(table).values())
    assert len(runs(table)) == min(after, len(runs(table)))


PAIRS = [(engine, "append") for engine in sorted(ENGINES)] + [
    (engine, event)
    for engine in ("deduplicate", "vectors", "lookup", "append with vectors")
    for event in ("delete", "compact", "overwrite", "drop", "new partition")
]


@pytest.mark.parametrize(("engine", "event"), first(PAIRS, 6))
def test_commits_at_every_step_are_kept(engine: str, event: str) -> None:
    """Something is committed at the k-th storage call of a rescale, for k over the whole of it."""
    events: dict[str, Callable[[Table], Any]] = {
        "append": lambda table: write(table, [(1, k, 100 + k) for k in range(5, 15)]),
        "delete": lambda table: table.delete("k < 4"),
        "compact": lambda table: (write(table, [(1, 1, 7), (1, 77, 7)]), table.compact()),
        "overwrite": lambda table: write(table, [(1, k, 9) for k in range(3)], mode="overwrite"),
        "drop": lambda table: table.drop_partitions([{"pt": 1}]),
        "new partition": lambda table: write(table, [(2, 1, 1), (1, 2, 2)]),
    }
    k, calls = 0, 1
    while k < calls:
        inner = MapStorage()
        table, twin = new_table(engine, 2, inner), new_table(engine, 2)
        for one in (table, twin):
            write(one, [(1, k, k) for k in range(10)])
            write(one, [(1, k, k + 1) for k in range(5)])
        fired: list[int] = []

        def plan(number: int, operation: str, path: str, k: int = k, table: Table = table, fired: Any = fired) -> None:
            if number == k:
                with suppress(InvalidError):  # once the table is switched: it has another number than the option
                    events[event](table)
                    fired.append(number)

        storage = FaultStorage(inner, plan)
        rescale(handle(table, storage).store, RescaleRequest(4), run=inline)
        calls = len(storage.calls)
        if not fired:
            break
        events[event](twin)
        assert content(table) == content(twin), f"call {k} of {calls}: {storage.calls[k : k + 1]}"
        k += max(1, calls // (40 if SOAK else 4))


@pytest.mark.parametrize("engine", later(["deduplicate", "append", "vectors"], 1))
def test_a_rescale_that_fails_or_dies_at_any_step_loses_nothing(engine: str) -> None:
    for fault in (FAIL_BEFORE, FAIL_AFTER, KILL_AFTER):
        k, calls = 0, 1
        while k < calls:
            inner = MapStorage()
            table = new_table(engine, 4, inner)
            write(table, [(1, k, k) for k in range(20)])
            write(table, [(1, k, k + 1) for k in range(5)])
            held, files = content(table), set(inner.files)
            storage = FaultStorage(inner, lambda number, *_, k=k, fault=fault: fault if number == k else None)
            try:
                rescale(handle(table, storage).store, RescaleRequest(2), run=inline)
                failed = False
            except (BucketlakeError, Killed):
                failed = True
            calls = max(calls, len(storage.calls))
            clear_cache()
            assert content(table) == held, (fault, storage.calls[-1])
            number = {file.total_buckets for file in table.files()}
            assert number == ({4} if failed and table.store.latest_snapshot_id() == len_of(files) else {2})
            k += 1 if SOAK else 4


def len_of(files: set[str]) -> int:
    return sum("/snapshot/snapshot-" in path for path in files)


def test_partitions_by_themselves() -> None:
    table = new_table("deduplicate", 2)
    write(table, [(pt, k, k) for pt in (1, 2) for k in range(20)])
    other = {f.path for f in table.files("pt = 2")}
    table.rescale(6, partitions=[{"pt": 1}])
    assert {f.path for f in table.files("pt = 2")} == other
    check_places(table, {1: 6, 2: 2})
    with pytest.raises(InvalidError, match="new bucket num 2, but the previous bucket num is 6"):
        write(table, [(1, 1, 1)])
    write(table, [(2, 1, 99)])
    assert table.rescale(4, where="pt = 7") is None
    table.rescale(where="pt = 1")  # the option's number
    write(table, [(1, 1, 1)])


@pytest.mark.slow
def test_appends_are_hashed_anew_when_they_lose() -> None:
    for engine in sorted(ENGINES):
        if ENGINES[engine].get("merge-engine") == "first-row":
            continue
        inner = MapStorage()
        table, twin = new_table(engine, 2, inner), new_table(engine, 2)
        for one in (table, twin):
            write(one, [(1, k, k) for k in range(20)])
        fired: list[int] = []

        def plan(number: int, operation: str, path: str, table: Table = table, fired: Any = fired) -> None:
            if operation == "put_if_absent" and not fired:
                fired.append(number)
                table.rescale(7)

        storage = FaultStorage(inner, plan)
        write(handle(table, storage), [(1, k, k + 1) for k in range(10, 40)])
        write(twin, [(1, k, k + 1) for k in range(10, 40)])
        assert fired and content(table) == content(twin), engine
        check_places(table, {1: 7})
        orphans = {p for p in inner.files if "/bucket-" in p} - referenced(table)
        assert not orphans, (engine, orphans)


def referenced(table: Table) -> set[str]:
    store, known = table.store, set()
    for snapshot in store.snapshots():
        changes = [entry for part in store.manifests(store.changelog_manifests(snapshot)) for entry in part]
        for entry in (*live_entries(store, snapshot), *changes):
            known.add(store.paths.file_path(store.paths.bucket_dir(entry.partition, entry.bucket), entry.file))
    return known


def test_overwriting_a_partition_of_a_table_whose_keys_may_lie_in_several() -> None:
    """Buckets with a number: keys of other partitions are the user's affair, and the option's number counts."""
    options = {"bucket": "2", "scan.manifest.parallelism": "1"}
    schema = create_schema(FIELDS, ("pt",), ("k",), options)
    table = Table(create_table(MapStorage(), FakeClock(next(SEEDS)), schema), "t")
    write(table, [(pt, k, k) for pt in (1, 2) for k in range(10)])
    table = table.alter(SetOption("bucket", "5"))
    write(table, [(1, k, 7) for k in range(4)], mode="overwrite")
    write(table, [(2, 3, 8)], mode="overwrite", partition={"pt": 2})
    assert sorted(content(table)) == [*((1, k, 7) for k in range(4)), (2, 3, 8)]
    check_places(table, {1: 5, 2: 5})


def test_changelogs_move_with_their_rows() -> None:
    inner = MapStorage()
    table = new_table("input", 2, inner)
    write(table, [(1, k, k) for k in range(20)])

    def plan(number: int, operation: str, path: str) -> None:
        if operation == "put_if_absent" and table.store.latest_snapshot().commit_kind is not CommitKind.OVERWRITE:
            table.rescale(5)

    write(handle(table, FaultStorage(inner, plan)), [(1, k, 1) for k in range(9)])
    store = table.store
    entries = [e for part in store.manifests(store.changelog_manifests(store.latest_snapshot())) for e in part]
    assert sum(entry.file.row_count for entry in entries) == 9
    assert {entry.total_buckets for entry in entries} == {5}


def test_changes_of_a_key_that_lie_in_several_files_move_in_their_order() -> None:
    inner, keys = MapStorage(), random.Random(7).sample(range(12), 12)
    table = new_table("input", 2, inner)
    write(table, [(1, k, 0) for k in keys])
    rows = [(1, k, v) for v in (0, 1) for k in keys]
    columns = [pa.array(column, f.type) for column, f in zip(zip(*rows, strict=True), ARROW, strict=True)]
    kinds = pa.array([1] * 12 + [2] * 12, pa.int8())

    def plan(number: int, operation: str, path: str) -> None:
        if operation == "put_if_absent" and table.store.latest_snapshot().commit_kind is not CommitKind.OVERWRITE:
            table.rescale(1)

    late = handle(table, FaultStorage(inner, plan)).with_options({"target-file-size": "600 b"})
    late.write_arrow(pa.table(columns, schema=ARROW).append_column(KIND_FIELD.name, kinds))
    store = table.refresh().with_options({"incremental-between": "2,3"}).store
    batches = [batch for split in plan_read(store).splits for batch in read_view(store, RowView("audit_log"), split)]
    told = [row for batch in batches for row in batch.to_pylist()]
    for key in keys:
        assert [(row["rowkind"], row["v"]) for row in told if row["k"] == key] == [("-U", 0), ("+U", 1)]


@pytest.mark.parametrize("engine", ["lookup", "full-compaction"])
def test_changes_not_yet_told_are_told_after_a_rescale(engine: str) -> None:
    table = new_table(engine, 2)
    write(table, [(1, k, 0) for k in range(10)])
    table.compact()
    write(table.with_options({"write-only": "true"}), [(1, k, 1) for k in range(4)])
    table.rescale(3)
    told = changes(table)
    table.compact()
    assert changes(table) - told == 8, "-U and +U of four rows"


def test_changes_whose_files_are_written_anew_meanwhile_are_told_after_a_rescale() -> None:
    """Their files have gone from level 0, as those of a compaction have, which tells of them."""
    inner = MapStorage()
    table = new_table("lookup", 2, inner)
    write(table, [(1, k, 0) for k in range(10)])
    table.compact()
    write(table.with_options({"write-only": "true"}), [(1, k, 1) for k in range(4)])
    told, done = changes(table), list[int]()

    def plan(number: int, operation: str, path: str) -> None:
        if operation == "put_if_absent" and not done:
            done.append(number)
            table.rewrite(every=True)

    rescale(handle(table, FaultStorage(inner, plan)).store, RescaleRequest(3), run=inline)
    assert done
    table.compact()
    assert changes(table) - told == 8, "-U and +U of four rows"


def test_what_is_replayed_may_expire_while_it_is_read() -> None:
    """No snapshot has come since then: the partition is copied anew all the same."""
    inner = MapStorage()
    table = new_table("deduplicate", 2, inner)
    write(table, [(1, k, 0) for k in range(10)])
    done = list[str]()

    def plan(number: int, operation: str, path: str) -> None:
        if operation == "put_if_absent" and not done:  # the switch: others come first
            done.append("lost")
            write(table.with_options({"write-only": "true"}), [(1, k, 1) for k in range(4)])
            table.compact()

    def run(*given: Any) -> Any:
        if done == ["lost"]:  # about to replay
            done.append("expired")
            assert table.expire_snapshots(retain_max=1, retain_min=1)
        return inline(*given)

    rescale(handle(table, FaultStorage(inner, plan)).store, RescaleRequest(3), run=run)
    assert done == ["lost", "expired"]
    assert content(table) == Counter((1, k, int(k < 4)) for k in range(10))
    check_places(table, {1: 3})


def changes(table: Table) -> int:
    return sum(snapshot.changelog_record_count or 0 for snapshot in table.snapshots())


def test_what_cannot_be_rescaled_is_refused() -> None:
    table = new_table("deduplicate", 2)
    with pytest.raises(InvalidError, match="has no snapshot"):
        table.rescale(4)
    write(table, [(1, 1, 1)])
    with pytest.raises(InvalidError, match="greater than 0"):
        table.rescale(-3)
    with pytest.raises(InvalidError, match="greater than 0"):
        table.rescale(0)
    dynamic = create_schema(FIELDS, ("pt",), ("pt", "k"), {})
    with pytest.raises(UnsupportedError, match="fixed number"):
        Table(create_table(MapStorage(), FakeClock(), dynamic), "t").rescale(4)


@given(st.integers(1, 40), st.integers(1, 40))
def test_units_cover_every_pair_of_buckets_that_share_rows_once(before: int, after: int) -> None:
    sources = [OldBucket(number, before, ()) for number in range(before)]
    seen: Counter[tuple[int, int]] = Counter()
    for unit in copy_units(b"", after, sources):
        assert len(unit.target.buckets) <= 16
        seen.update((source.number, bucket) for source in unit.sources for bucket in unit.target.buckets)
    shared = {(h % before, h % after) for h in range(before * after)}
    assert set(seen) >= shared
    assert max(seen.values()) == 1


def test_hashes_agree_with_the_reader() -> None:
    """A filter on the key still finds its row after any rescale."""
    table = new_table("deduplicate", 5)
    write(table, [(1, k, k) for k in range(60)])
    table.rescale(12)
    for k in range(0, 60, 7):
        assert table.to_arrow(where=f"pt = 1 AND k = {k}").num_rows == 1
    keys = canonical_batch(table.to_arrow(columns=["k"]).combine_chunks().to_batches()[0], FIELDS[1:2])
    assert len(set(assign_buckets(keys, FIELDS[1:2], 12).tolist())) > 6


PENDING = {"postpone.batch-write-fixed-bucket": "false"}


def postponed(storage: MapStorage) -> Table:
    options = {"bucket": "-2", "scan.manifest.parallelism": "1", "postpone.default-bucket-num": "3"}
    schema = create_schema(FIELDS, ("pt",), ("pt", "k"), options)
    table = Table(create_table(storage, FakeClock(next(SEEDS)), schema), "t")
    write(table, [(1, k, k) for k in range(20)])
    write(table, [(1, k, k + 1) for k in range(5, 30)], **PENDING)
    write(table, [(2, 1, 1)], **PENDING)
    return table


def test_pending_rows_stay_pending() -> None:
    table = postponed(MapStorage())
    with pytest.raises(InvalidError, match="you must provide the resulting bucket number"):
        table.rescale()
    pending = {e.file.file_name for e in entries_of(table) if e.bucket < 0}
    table.rescale(4)
    assert {e.file.file_name for e in entries_of(table) if e.bucket < 0} == pending
    assert {(e.bucket >= 0, e.total_buckets) for e in entries_of(table)} == {(True, 4), (False, -2)}
    assert sorted(content(table)) == [(1, k, k) for k in range(20)]
    write(table, [(1, 3, 9)])
    table.compact()
    assert {e.total_buckets for e in entries_of(table) if table.store.paths.partition_path(e.partition) == "pt=1"} == {
        4
    }
    expected = {k: k for k in range(20)} | {3: 9} | {k: k + 1 for k in range(5, 30)}
    assert sorted(content(table)) == [*((1, k, v) for k, v in sorted(expected.items())), (2, 1, 1)]


def entries_of(table: Table) -> list[Any]:
    return live_entries(table.store, table.store.latest_snapshot())


@pytest.mark.parametrize("event", ["compact", "write", "pend"])
def test_postpone_tables_at_every_step(event: str) -> None:
    events: dict[str, Callable[[Table], Any]] = {
        "compact": lambda table: table.compact(),
        "write": lambda table: write(table, [(1, k, 50) for k in range(3, 33, 3)]),
        "pend": lambda table: write(table, [(1, k, 60) for k in range(3, 33, 3)], **PENDING),
    }
    k, calls = 0, 1
    while k < calls:
        inner = MapStorage()
        table, twin = postponed(inner), postponed(MapStorage())

        def plan(number: int, operation: str, path: str, k: int = k, table: Table = table) -> None:
            if number == k:
                events[event](table)

        storage = FaultStorage(inner, plan)
        rescale(handle(table, storage).store, RescaleRequest(4), run=inline)
        calls = len(storage.calls)
        events[event](twin)
        if k < calls:
            assert content(table) == content(twin), f"call {k} of {calls}"
            twin.compact()
            table.compact()
            assert content(table) == content(twin), f"call {k} of {calls}"
        k += max(1, calls // (40 if SOAK else 4))
