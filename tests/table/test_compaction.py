"""Random upserts, deletes and compactions: rows equal a dict model, and so do the changelog files applied in order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from tests.profile import examples, first

import bucketlake
from bucketlake.format.index.index_manifest import DELETION_VECTORS
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.lsm.levels import Levels, key_range_of
from bucketlake.ops.rows.one_file import read_key_values
from bucketlake.ops.scan.scan import changelog_entries, live_entries
from bucketlake.schema.schema import KIND_FIELD
from bucketlake.table import Table

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int32()), pa.field("s", pa.string())])
NAMES = ("k", "v", "s")
BASE = 120
Row = tuple[int, int | None, str | None]
State = dict[int, Row]

keys = st.integers(-5, BASE + 10)
values = st.tuples(st.none() | st.integers(-50, 50), st.none() | st.sampled_from(["a", "b", "c" * 30]))
rows = st.dictionaries(keys, values, max_size=8).map(lambda found: [(k, v, s) for k, (v, s) in found.items()])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), rows),
        st.tuples(st.just("upsert"), rows),
        st.tuples(st.just("quiet"), rows),
        st.tuples(st.just("delete"), st.integers(-2, BASE), st.integers(1, 9)),
        st.tuples(st.just("due")),
        st.tuples(st.just("full")),
    ),
    min_size=1,
    max_size=8,
)


def coalesced(old: Any, new: Any) -> Any:
    return old if new is None else new


def upserted(engine: str, state: State, new: Sequence[Row]) -> None:
    for row in new:
        key, v, s = row
        old = state.get(key)
        if old is None or engine == "deduplicate":
            state[key] = row
        elif engine == "partial-update":
            state[key] = (key, coalesced(old[1], v), coalesced(old[2], s))
        elif engine == "aggregation":
            total = v if old[1] is None else old[1] if v is None else old[1] + v
            state[key] = (key, total, max((x for x in (old[2], s) if x is not None), default=None))


ENGINES = {
    "deduplicate": {},
    "first-row": {"merge-engine": "first-row"},
    "partial-update": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "fields.s.aggregate-function": "max",
    },
}
PRODUCERS = ["none", "lookup", "full-compaction", "input"]
SMALL = {
    "bucket": "2",
    "num-sorted-run.compaction-trigger": "3",
    "compaction.max-size-amplification-percent": "100000",
    "target-file-size": "2 kb",
    "file.block-size": "1 kb",
    "write-buffer-size": "4 kb",
    "write-buffer-spillable": "false",
}


def supported(engine: str, producer: str, vectors: bool) -> bool:
    if engine == "first-row":
        return producer in ("none", "lookup") and not vectors
    return not (vectors and producer == "full-compaction")


CASES = [
    (engine, producer, vectors)
    for engine in ENGINES
    for producer in PRODUCERS
    for vectors in (False, True)
    if supported(engine, producer, vectors)
]


def arrow(content: Sequence[Row]) -> pa.Table:
    columns = list(zip(*content, strict=True)) if content else [[], [], []]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def state_of(table: Table) -> State:
    found = [tuple(row[name] for name in NAMES) for row in table.to_arrow().to_pylist()]
    state = {row[0]: row for row in found}
    assert len(state) == len(found), "a key was read twice"
    return state


def changes_of(table: Table, snapshot: Snapshot) -> list[tuple[int, Row]]:
    """(row kind, row) of a snapshot's changelog files, in order."""
    store = table.store
    found = []
    for entry in changelog_entries(store, snapshot):
        folder = store.paths.bucket_dir(entry.partition, entry.bucket)
        for batch in read_key_values(store, folder, entry.file):
            for row in batch.select([KIND_FIELD.name, *NAMES]).to_pylist():
                kind, *row_values = row.values()
                found.append((kind, tuple(row_values)))
    return found


def replay(state: State, changes: Sequence[tuple[int, Row]], strict: bool) -> None:
    """Apply changes; `strict`: each says truly what was there before."""
    expected = None
    for kind, row in changes:
        if strict:
            assert (expected is None) == (kind != 2), "an update without its other half"
            assert kind != 2 or expected == row[0]
            expected = row[0] if kind == 1 else None
            assert kind != 0 or row[0] not in state, "inserted twice"
            assert kind not in (1, 3) or state.get(row[0]) == row, "not what was there before"
        if kind in (0, 2):
            state[row[0]] = row
        elif kind == 3:
            state.pop(row[0], None)
    assert expected is None


def check_files(table: Table) -> None:
    """Levels above 0 do not overlap, vectors speak of live files and rows that these have."""
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    entries = live_entries(table.store, snapshot)
    key_range = key_range_of(table.schema.key_fields)
    for bucket in {entry.bucket for entry in entries}:
        Levels.of([entry.file for entry in entries if entry.bucket == bucket], key_range)
    live = {(entry.bucket, entry.file.file_name): entry.file.row_count for entry in entries}
    for index in table.store.index_manifest(snapshot):
        if index.file.index_type == DELETION_VECTORS:
            for part in index.file.dv_ranges or ():
                assert 0 < (part.cardinality or 0) <= live[index.bucket, part.data_file_name]


@pytest.mark.parametrize(
    ("engine", "producer", "vectors", "large"), first([(*case, large) for case in CASES for large in (False, True)], 10)
)
@settings(max_examples=examples(2, 24), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=steps)
def test_history_equals_model(
    tmp_path_factory: pytest.TempPathFactory,
    engine: str,
    producer: str,
    vectors: bool,
    large: bool,
    history: list[Sequence[Any]],
) -> None:
    options = {**SMALL, **ENGINES[engine], "changelog-producer": producer}
    if vectors:
        options["deletion-vectors.enabled"] = "true"
    if large:  # nothing is small enough to be rewritten for its size: files move up as they are
        options["compaction.small-file-ratio"] = "0.0001"
    catalog = bucketlake.open(tmp_path_factory.mktemp("warehouse"))
    table = catalog.create_table("default.t", SCHEMA, primary_keys=["k"], options=options)
    state: State = {}
    told: State = {}
    seen = 0
    waiting = False
    dead: set[int] = set()
    clearing = ("full",) if producer == "full-compaction" else ("full", "due")
    base = [(k, k, f"row number {k:06d}") for k in range(BASE)]
    for step in [("upsert", base), *history]:
        kind, *arguments = step
        if kind in ("upsert", "quiet"):
            new = [row for row in arguments[0] if row[0] not in dead]
            table.write_arrow(arrow(new), write_only=kind == "quiet")
            upserted(engine, state, new)
        elif kind == "delete":
            if engine in ("first-row", "aggregation") or waiting:
                continue
            low, count = arguments
            table.delete(f"k >= {low} and k < {low + count}")
            for key in range(low, low + count):
                state.pop(key, None)
            if engine == "partial-update":  # a row put in after its delete goes on from the values of that
                dead.update(range(low, low + count))
        else:
            table.compact(full=kind == "full")
        hidden = engine == "first-row" or vectors or producer in ("lookup", "full-compaction")
        waiting = hidden and (kind == "quiet" or (waiting and kind not in clearing))
        for snapshot in table.snapshots()[seen:]:
            replay(told, changes_of(table, snapshot), producer != "input")
            seen += 1
        check_files(table)
        if not waiting:
            assert state_of(table) == state
            if producer in ("lookup", "full-compaction") or (producer == "input" and engine == "deduplicate"):
                assert told == state
    table.compact()
    for snapshot in table.snapshots()[seen:]:
        replay(told, changes_of(table, snapshot), producer != "input")
    assert state_of(table) == state
    if producer in ("lookup", "full-compaction"):
        assert told == state


@pytest.mark.parametrize("keys", ["", "k"])
def test_text_of_others_that_is_not_utf_8_stays_as_it_is(tmp_path: Path, keys: str) -> None:
    options = {"write-only": "true", "file.compression": "none", "primary-key": keys, "bucket": "1", "bucket-key": "k"}
    catalog = bucketlake.open(tmp_path)
    table = catalog.create_table("default.t", SCHEMA, options={key: value for key, value in options.items() if value})
    for key in (1, 2):
        table.write_arrow(pa.table({"k": [key], "v": [0], "s": ["forged"]}, SCHEMA))
    for path in tmp_path.glob("default.db/t/bucket-0/data-*"):
        path.write_bytes(path.read_bytes().replace(b"forged", b"\xff\xfe\x80ged"))  # in its statistics too
    table = bucketlake.open(tmp_path).table("default.t")
    for _ in range(2):
        read = table.to_arrow(where="s >= 'a'")
        assert read.column("s").cast(pa.binary()).to_pylist() == [b"\xff\xfe\x80ged"] * 2
        assert table.to_arrow(where="s = 'a'").num_rows == 0
        table.compact(full=True)
        table.refresh()
