"""The changelog that a table tells, read snapshot by snapshot and all at once, applied to a dict: it gives the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.profile import examples

import bucketlake
from bucketlake.table import Table

TYPES = {"p": pa.int32(), "k": pa.int64(), "v": pa.int64(), "s": pa.string(), "_VALUE_KIND": pa.int8()}
SCHEMA = pa.schema([pa.field(name, TYPES[name]) for name in "pkvs"])
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "partial-update": {"partial-update.remove-record-on-delete": "true"},
    "aggregation": {
        "fields.v.aggregate-function": "sum",
        "fields.s.aggregate-function": "last_value",
        "aggregation.remove-record-on-delete": "true",
    },
    "first-row": {},
}
PRODUCERS = ("none", "input", "lookup", "full-compaction")
CASES = [
    (engine, producer)
    for engine in ENGINES
    for producer in PRODUCERS
    # A table that tells no changelog has deltas: they are its changes where rows replace each other whole.
    if (engine, producer) not in {("first-row", "input"), ("first-row", "full-compaction")}
    and (engine == "deduplicate" or producer in ("lookup", "full-compaction"))
]
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = "+I", "-U", "+U", "-D"
State = dict[tuple[Any, ...], tuple[Any, ...]]


def write(table: Table, rows: Sequence[tuple[Any, ...]], kinds: Sequence[int]) -> None:
    columns = {name: pa.array([row[i] for row in rows], TYPES[name]) for i, name in enumerate("pkvs")}
    table.write_arrow(pa.table({**columns, "_VALUE_KIND": pa.array(kinds, pa.int8())}))


def changes(table: Table, start: int, end: int, mode: str) -> list[tuple[Any, ...]]:
    found = log(table).to_arrow(incremental_between=f"{start},{end}", incremental_between_scan_mode=mode)
    return [tuple(row.values()) for row in found.to_pylist()]


def log(table: Table) -> Table:
    root = table.path.rsplit("/", 2)[0]
    return bucketlake.open(root).table("db.t$audit_log")


def apply(state: State, told: Iterable[tuple[Any, ...]], complete: bool) -> None:
    """A change says what is there before it, and what it says is true."""
    for kind, *row in told:
        key = (row[0], row[1])
        if kind in (UPDATE_BEFORE, DELETE):
            if complete:
                assert state[key] == tuple(row), (kind, row)
            if kind == DELETE:
                state.pop(key, None)
        else:
            if complete:
                assert (key in state) == (kind == UPDATE_AFTER), (kind, row)
            state[key] = tuple(row)


def rows_of(table: Table) -> State:
    return {(row["p"], row["k"]): tuple(row.values()) for row in table.refresh().to_arrow().to_pylist()}


batches = st.lists(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 6), st.integers(-3, 3), st.sampled_from(["a", "b", None])),
        min_size=1,
        max_size=8,
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.parametrize(("engine", "producer"), CASES)
@settings(max_examples=examples(3, 64), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=batches, deletes=st.sets(st.integers(0, 4)), buckets=st.sampled_from([1, 2]))
def test_the_changelog_applied_gives_the_table(
    tmp_path_factory: pytest.TempPathFactory,
    engine: str,
    producer: str,
    batches: list[list[tuple[Any, ...]]],
    deletes: set[int],
    buckets: int,
) -> None:
    catalog = bucketlake.open(tmp_path_factory.mktemp("log"))
    catalog.create_database("db")
    given_options = {
        **{"merge-engine": engine, "changelog-producer": producer, "bucket": str(buckets)},
        **{"num-sorted-run.compaction-trigger": "2", "source.split.target-size": "1 b"},
        **ENGINES[engine],
    }
    if producer == "full-compaction":
        given_options["full-compaction.delta-commits"] = "1"
    table = catalog.create_table("db.t", SCHEMA, ["p"], ["p", "k"], options=given_options)
    complete, mode = producer in ("lookup", "full-compaction"), "auto"
    state: State = {}
    known = 0
    for number, batch in enumerate(batches):
        kinds = [3 if engine != "first-row" and number in deletes and i % 3 == 0 else 0 for i in range(len(batch))]
        if producer == "input":
            batch, kinds = as_changelog(rows_of(table), batch, kinds)
        write(table, batch, kinds)
        newest = table.latest_snapshot()
        assert newest is not None
        for snapshot in range(known, newest.id):
            apply(state, changes(table, snapshot, snapshot + 1, mode), complete)
        known = newest.id
        assert state == rows_of(table)
    whole: State = {}
    apply(whole, changes(table, 0, known, mode), complete)
    assert whole == state


def as_changelog(
    before: State, batch: list[tuple[Any, ...]], kinds: list[int]
) -> tuple[list[tuple[Any, ...]], list[int]]:
    """The same upserts and deletes as a complete changelog, as a source of changes gives it: one change a key."""
    told, codes = [], []
    for (p, k), (row, kind) in {(row[0], row[1]): (row, kind) for row, kind in zip(batch, kinds, strict=True)}.items():
        old = before.get((p, k))
        if kind == 3:
            told, codes = [*told, old or row], [*codes, 3]
        elif old is None:
            told, codes = [*told, row], [*codes, 0]
        else:
            told, codes = [*told, old, row], [*codes, 1, 2]
    return told, codes


def test_only_what_a_compaction_tells_comes_late(tmp_path: Path) -> None:
    """Without inline compaction the changelog stays behind the table until somebody compacts."""
    catalog = bucketlake.open(tmp_path)
    catalog.create_database("db")
    options = {"bucket": "1", "changelog-producer": "full-compaction", "write-only": "true"}
    table = catalog.create_table("db.t", SCHEMA, ["p"], ["p", "k"], options=options)
    write(table, [(0, 1, 1, "a")], [0])
    write(table, [(0, 1, 2, "a"), (1, 1, 1, None)], [0, 0])
    assert changes(table, 0, 2, "changelog") == []
    table.compact()
    assert sorted(changes(table, 2, 3, "changelog")) == [("+I", 0, 1, 2, "a"), ("+I", 1, 1, 1, None)]
