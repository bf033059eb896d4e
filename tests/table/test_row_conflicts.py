"""UPDATE and DELETE of primary-key tables read, then write: what others commit in between is neither undone nor lost."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.profile import later
from tests.sim.clock import FakeClock
from tests.sim.storage import (
    FAIL_AFTER,
    FAIL_BEFORE,
    KILL_AFTER,
    KILL_BEFORE,
    FaultStorage,
    Killed,
    MapStorage,
)
from tests.sim.tables import ROOT, create_table

from bucketlake.env.env import Env
from bucketlake.errors import BucketlakeError, ConflictError
from bucketlake.format.metadata.snapshot import CommitKind
from bucketlake.ops.change import row_conflicts
from bucketlake.ops.commit.conflicts import CommitName
from bucketlake.ops.commit.publish import Publisher, Request
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.table.changes import Changes
from bucketlake.ops.table.entries import deletion
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.versions import create_schema
from bucketlake.table import Table, open_table
from bucketlake.types.model import BIGINT, INT, DataField, arrow_schema

FIELDS = (
    DataField(0, "pt", INT.with_nullable(False)),
    DataField(1, "k", BIGINT.with_nullable(False)),
    DataField(2, "a", BIGINT),
    DataField(3, "b", BIGINT),
)
SEEDS = itertools.count(1)
Row = tuple[int, int, int, int]
KINDS = {
    "fixed": (("pt", "k"), {"bucket": "2"}),
    "dynamic": (("pt", "k"), {"bucket": "-1"}),
    "postpone": (("pt", "k"), {"bucket": "-2"}),
    "pending": (
        ("pt", "k"),
        {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false", "postpone.merge-on-read": "true"},
    ),
    "cross-partition": (("k",), {"bucket": "-1"}),
}


def rows(*found: Row) -> pa.Table:
    names = [item.name for item in FIELDS]
    columns = list(zip(*found, strict=True)) or [[]] * 4
    return pa.table({name: list(column) for name, column in zip(names, columns, strict=True)}, arrow_schema(FIELDS))


def through(storage: Any) -> Table:
    return open_table(ROOT, Env(storage, FakeClock(next(SEEDS))))


def seen(storage: Any) -> set[Row]:
    found = through(storage).to_arrow().to_pydict()
    return set(zip(*found.values(), strict=True))


def table_of(kind: str, **options: str) -> MapStorage:
    clear_cache()
    keys, given = KINDS[kind]
    storage = MapStorage()
    create_table(storage, FakeClock(), create_schema(FIELDS, ("pt",), keys, {**given, **options}))
    through(storage).write_arrow(rows(*((pt, 10 * pt + k, k, 0) for pt in (1, 2) for k in range(5))))
    return storage


def amid(storage: MapStorage, rival: Callable[[Table], Any], times: int = 1) -> tuple[Table, list[int]]:
    """A table whose next commits find that a rival has committed since they read; how often it did."""
    fired: list[int] = []

    def plan(k: int, operation: str, path: str) -> None:
        if operation == "put_if_absent" and "/snapshot/" in path and len(fired) < times:
            fired.append(k)
            rival(through(storage))

    return through(FaultStorage(storage, plan)), fired


USUAL = tuple(KINDS)


@pytest.mark.parametrize("kind", USUAL)
@pytest.mark.parametrize("change", ["update", "delete"])
def test_a_dropped_partition_stays_dropped(kind: str, change: str) -> None:
    storage = table_of(kind)
    table, fired = amid(storage, lambda t: t.drop_partitions([{"pt": 1}]))
    table.update({"a": 7}, "a >= 3") if change == "update" else table.delete("a >= 3")
    assert fired
    kept = {(2, 20, 0, 0), (2, 21, 1, 0), (2, 22, 2, 0)}
    assert seen(storage) == kept | ({(2, 23, 7, 0), (2, 24, 7, 0)} if change == "update" else set())


@pytest.mark.parametrize("kind", USUAL)
def test_a_row_deleted_meanwhile_is_not_brought_back(kind: str) -> None:
    storage = table_of(kind)
    table, fired = amid(storage, lambda t: t.delete("k = 13"))
    table.update({"a": 7}, "a >= 3")
    assert fired and {row for row in seen(storage) if row[0] == 1} == {
        *((1, 10 + k, k, 0) for k in range(3)),
        (1, 14, 7, 0),
    }


@pytest.mark.parametrize("kind", USUAL)
def test_an_update_of_other_columns_is_kept(kind: str) -> None:
    storage = table_of(kind)
    table, fired = amid(storage, lambda t: t.update({"b": 9}, "k = 13"))
    table.update({"a": 7}, "a >= 3")
    assert fired and (1, 13, 7, 9) in seen(storage)


@pytest.mark.parametrize("kind", USUAL)
def test_an_upsert_meanwhile_is_read_again(kind: str) -> None:
    """It decides anew whether the row is meant."""
    storage = table_of(kind)
    table, fired = amid(storage, lambda t: t.write_arrow(rows((1, 13, 1, 5), (1, 14, 4, 6))))
    table.delete("a >= 3")
    assert fired and {row for row in seen(storage) if row[1] in (13, 14)} == {(1, 13, 1, 5)}


@pytest.mark.parametrize("kind", ["fixed", "dynamic", "cross-partition"])
def test_a_version_that_readers_see_after_its_compaction_is_the_one_that_is_changed(kind: str) -> None:
    """Batch reads of a table with deletion vectors leave level 0 out: what changes rows begins with what lies there."""
    storage = table_of(kind, **{"deletion-vectors.enabled": "true"})
    table, fired = amid(storage, lambda t: t.update({"b": 9}, "k IN (12, 13)", write_only=True))
    table.update({"a": 7}, "k = 13")
    assert fired and (1, 13, 7, 9) in seen(storage)
    through(storage).write_arrow(rows((1, 14, 4, 5)), write_only=True)
    through(storage).delete("b = 5")
    through(storage).update({"a": 8}, "b = 9")
    through(storage).compact()
    assert {row for row in seen(storage) if row[0] == 1} == {(1, 10, 0, 0), (1, 11, 1, 0), (1, 12, 8, 9), (1, 13, 8, 9)}


@pytest.mark.parametrize("kind", ["fixed", "dynamic", "cross-partition"])
@pytest.mark.parametrize("again", ["k BETWEEN 11 AND 13", "k = 14 OR k >= 21", "k = 11"])
def test_a_change_that_is_done_again_shows_what_an_earlier_one_left_unseen(kind: str, again: str) -> None:
    """A process that dies between its commit and the compaction leaves rows in level 0, which readers do not see; who
    repeats the change finds none of them, or others only."""
    storage = table_of(kind, **{"deletion-vectors.enabled": "true"})
    through(storage).delete("k IN (11, 12, 13) OR k >= 21", write_only=True)
    assert len(seen(storage)) == 10
    through(storage).delete(again, write_only=True)
    assert len(seen(storage)) == 10, "write-only leaves compaction to others"
    through(storage).delete(again)
    left = {(1, 10, 0, 0), (1, 14, 4, 0), (2, 20, 0, 0)}
    assert seen(storage) == {row for row in left if "14" not in again or row[1] != 14}
    newest = through(storage).latest_snapshot()
    assert through(storage).delete(again) is None and through(storage).latest_snapshot() == newest


@pytest.mark.parametrize("fault", later([KILL_AFTER, KILL_BEFORE, FAIL_BEFORE, FAIL_AFTER], 1))
def test_a_change_that_died_anywhere_is_seen_when_it_is_repeated(fault: str) -> None:
    options = {"deletion-vectors.enabled": "true"}
    counting = FaultStorage(table_of("fixed", **options))
    through(counting).delete("k IN (11, 22)")
    expected = seen(counting)
    for call in range(len(counting.calls)):
        storage = table_of("fixed", **options)
        broken = FaultStorage(storage, lambda k, operation, path, call=call: fault if k == call else None)  # type: ignore[misc]
        with contextlib.suppress(BucketlakeError, Killed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            through(broken).delete("k IN (11, 22)")
        clear_cache()
        through(storage).delete("k IN (11, 22)")
        assert seen(storage) == expected, (call, counting.calls[call])


@pytest.mark.parametrize("kind", USUAL)
def test_an_overwrite_and_a_rescale_are_read_again(kind: str) -> None:
    storage = table_of(kind)
    table, fired = amid(storage, lambda t: t.write_arrow(rows((1, 13, 8, 8)), mode="overwrite"))
    table.update({"a": 7}, "k = 13")
    assert fired and {row for row in seen(storage) if row[0] == 1} == {(1, 13, 7, 8)}
    if kind == "fixed":
        table, fired = amid(storage, lambda t: t.rescale(3))
        table.update({"b": 1}, "k = 13")
        assert fired and {row for row in seen(storage) if row[0] == 1} == {(1, 13, 7, 1)}


PAGE = Path(__file__).parents[2] / "docs" / "conflicts.md"
RIVALS: dict[str, list[Callable[[Table], Any]]] = {
    "insert, UPDATE or DELETE of the same keys": [
        lambda t: t.write_arrow(rows((1, 14, 4, 1))),
        lambda t: t.update({"b": 1}, "k = 14"),
        lambda t: t.delete("k = 14"),
    ],
    "insert, UPDATE or DELETE of other keys": [  # between those that are updated
        lambda t: t.write_arrow(rows((1, 12, 9, 9))),
        lambda t: t.update({"b": 1}, "k = 12"),
        lambda t: t.delete("k = 12"),
    ],
    "overwrite, drop, truncate, rewrite, vectors: in a partition of the change": [
        lambda t: t.write_arrow(rows((1, 14, 4, 1), (1, 10, 0, 1)), mode="overwrite"),
        lambda t: t.drop_partitions([{"pt": 1}]),
        lambda t: t.truncate(),
    ],
    "the same in other partitions": [
        lambda t: t.write_arrow(rows((2, 23, 9, 9)), mode="overwrite"),
        lambda t: t.drop_partitions([{"pt": 2}]),
    ],
    "compact, `CALL sys.rescale`": [lambda t: t.compact(), lambda t: t.rescale(3)],
}


def page() -> dict[str, str]:
    """The page's table of row-level changes: what came first → what becomes of the change."""
    lines = [line.strip().strip("|").split("|") for line in PAGE.read_text().splitlines() if line.startswith(" |")]
    return {first.strip(): outcome.strip() for first, outcome in lines[2:]}


def test_the_page_says_what_is_tested() -> None:
    assert page().keys() == RIVALS.keys() and set(page().values()) == {"read again", "rebase"}


@pytest.mark.parametrize("kind", USUAL)
@pytest.mark.parametrize("first", RIVALS)
def test_the_page(kind: str, first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[None] = []
    real = row_conflicts.write_counted
    monkeypatch.setattr(row_conflicts, "write_counted", lambda *given: (written.append(None), real(*given))[1])
    for rival in RIVALS[first] if kind == "fixed" else RIVALS[first][:2]:
        if rival is RIVALS["compact, `CALL sys.rescale`"][1] and kind != "fixed":
            continue
        storage = table_of(kind)

        def alone(table: Table, rival: Callable[[Table], Any] = rival) -> None:
            rival(table)
            written.clear()
            written.append(None)  # the change's first

        table, fired = amid(storage, alone)
        table.update({"a": 7}, "k = 10 OR k = 14")
        assert fired and (len(written) == 1) == (page()[first] == "rebase"), first


def test_one_that_never_gets_through_is_a_conflict_that_leaves_nothing() -> None:
    storage = table_of("fixed")
    number = itertools.count(100)
    table, fired = amid(storage, lambda t: t.update({"b": next(number)}, "k = 13", write_only=True), times=1000)
    with pytest.raises(ConflictError, match="changed rows that were read"):
        table.update({"a": 7}, "k = 13")
    assert 2 < len(fired) < 50
    assert (1, 13, 3, 99 + len(fired)) in seen(storage)
    named = {e.file.file_name for s in table.store.snapshots() for e in _all(table, s)}
    files = {path.rsplit("/", 1)[-1] for path in storage.files if "/bucket-" in path}
    assert files == named


def _all(table: Table, snapshot: Any) -> list[Any]:
    return [e for part in table.store.manifests(table.store.data_manifests(snapshot)) for e in part]


def test_a_rollback_to_a_rescale_is_no_rescale() -> None:
    """Paimon's rollback copies the properties of the snapshot that it goes back to."""
    storage = table_of("fixed")
    through(storage).rescale(2)
    target = through(storage).latest_snapshot()
    through(storage).write_arrow(rows((1, 13, 3, 8)), write_only=True)

    def roll_back(table: Table) -> None:
        now = {e.file.file_name: e for e in live_entries(table.store, table.latest_snapshot())}
        then = {e.file.file_name for e in live_entries(table.store, target)}
        gone = tuple(deletion(entry) for name, entry in now.items() if name not in then)
        name = CommitName(0, "rollback", 9, CommitKind.OVERWRITE)
        Publisher(table.store).publish(Request(name, lambda view: Changes(gone), properties=target.properties or {}))

    table, fired = amid(storage, roll_back)
    table.update({"a": 7}, "k = 13")
    assert fired and (1, 13, 7, 0) in seen(storage)
