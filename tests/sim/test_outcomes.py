"""Errors that are not ours, and interrupts, at the storage calls of everything that writes files and commits: every
snapshot that there is afterwards can be read, and holds the rows from before or after."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from tests.profile import SOAK
from tests.sim.clock import FakeClock
from tests.sim.storage import FaultStorage, MapStorage, Raised, fault_on
from tests.sim.tables import ROOT, create_table

from bucketlake.env.env import Env
from bucketlake.errors import CommitError, CommitUnknownError
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.versions import create_schema
from bucketlake.table import Table, open_table
from bucketlake.types.model import BIGINT, DataField, arrow_schema

FIELDS = (DataField(0, "k", BIGINT.with_nullable(False)), DataField(1, "v", BIGINT))
SCHEMA = arrow_schema(FIELDS)
FAULTS = [Raised(error, after) for error in (KeyboardInterrupt, RuntimeError) for after in (False, True)]
SEEDS = itertools.count(1)  # no two processes give the same names
STRIDE = 1 if SOAK else 23  # of the calls before the first put every so many


def rows(keys: Any, shift: int = 0) -> pa.Table:
    return pa.table({"k": list(keys), "v": [key + shift for key in keys]}, schema=SCHEMA)


@dataclass(frozen=True)
class Case:
    """`options` of a table with the keys 0 to 19 in two commits, and what is done to it."""

    action: Callable[[Table], Any]
    options: dict[str, str] = field(default_factory=lambda: {"bucket": "2"})
    keyed: bool = True


APPEND = {"bucket": "-1"}
CASES = {
    "write and compact": Case(
        lambda t: t.write_arrow(rows(range(5), 100)), {"bucket": "2", "full-compaction.delta-commits": "1"}
    ),
    "overwrite": Case(lambda t: t.write_arrow(rows(range(5), 100), mode="overwrite")),
    "compact": Case(lambda t: t.compact()),
    "rescale": Case(lambda t: t.rescale(3)),
    "dynamic": Case(lambda t: t.write_arrow(rows(range(5), 100)), {"bucket": "-1"}),
    "place pending": Case(lambda t: t.compact(), {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}),
    "delete by key": Case(lambda t: t.delete("k < 5")),
    "update by key": Case(lambda t: t.update({"v": 7}, "k < 5")),
    "delete, rewriting": Case(lambda t: t.delete("k < 5"), APPEND, keyed=False),
    "delete, marking": Case(lambda t: t.delete("k < 5"), {**APPEND, "deletion-vectors.enabled": "true"}, keyed=False),
    "update rows": Case(lambda t: t.update({"v": 7}, "k < 5"), APPEND, keyed=False),
    "merge small files": Case(lambda t: t.compact(), {**APPEND, "compaction.min.file-num": "2"}, keyed=False),
}


def base_of(case: Case) -> tuple[MapStorage, Table]:
    storage = MapStorage()
    keys = ("k",) if case.keyed else ()
    given = {"scan.manifest.parallelism": "1", **case.options}
    create_table(storage, FakeClock(), create_schema(FIELDS, (), keys, given))
    table = through(storage)
    for start in (0, 10):
        table.write_arrow(rows(range(start, start + 10)), write_only=True)
    return storage, table


def through(storage: Any) -> Table:
    return open_table(ROOT, Env(storage, FakeClock(next(SEEDS))))


def content(table: Table, snapshot: int) -> list[tuple[int, int]]:
    found = table.to_arrow(scan_snapshot_id=snapshot).to_pydict()
    return sorted(zip(found["k"], found["v"], strict=True))


def calls_of(files: dict[str, bytes], case: Case) -> tuple[list[tuple[str, str]], list[list[tuple[int, int]]]]:
    """The calls that the action makes, and the rows of the table before, between and after its commits."""
    inner = MapStorage()
    inner.files = dict(files)
    storage = FaultStorage(inner)
    clear_cache()
    table = through(storage)
    storage.calls.clear()
    case.action(table)
    calls = list(storage.calls)
    return calls, [content(through(inner), number) for number in table.store.snapshot_ids()[1:]]


@pytest.mark.parametrize("name", CASES)
def test_every_snapshot_that_exists_can_be_read(name: str) -> None:
    case = CASES[name]
    files = base_of(case)[0].files
    calls, states = calls_of(files, case)
    first = next(k for k, (operation, path) in enumerate(calls) if operation == "put_if_absent" and "snapshot-" in path)
    chosen = [k for k in range(len(calls)) if k >= first - 1 or k % STRIDE == 0]
    for number, call in enumerate(chosen):
        for fault in FAULTS if call >= first and "/snapshot/snapshot-" in calls[call][1] else FAULTS[number % 4 :][:1]:
            inner = MapStorage()
            inner.files = dict(files)
            clear_cache()
            storage = FaultStorage(inner)
            table = through(storage)
            storage.calls.clear()
            storage.plan = lambda k, operation, path, call=call, fault=fault: fault if k == call else None
            where = f"{name}: call {call} {calls[call]}, {fault}"
            error = None
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    case.action(table)
            except (KeyboardInterrupt, RuntimeError, CommitError) as caught:
                error = caught
            clear_cache()
            seen = through(inner)
            ids = seen.store.snapshot_ids()
            for snapshot in ids[1:]:
                assert content(seen, snapshot) in states, where
            if isinstance(error, RuntimeError) and name != "place pending":  # which can be repeated
                assert content(seen, ids[-1]) == content(seen, 2), f"reads as if nothing was changed, {where}"
            if error is None:
                assert content(seen, ids[-1]) == states[-1], where


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", ["overwrite", "delete, rewriting", "rescale", "place pending"])
def test_an_answer_that_is_lost_to_another_error_is_unknown(name: str, fault: Raised) -> None:
    case = CASES[name]
    storage, _ = base_of(case)
    before = set(storage.files)
    table = through(FaultStorage(storage, fault_on("put_if_absent", "snapshot-3", fault)))
    expected = CommitUnknownError if fault.error is RuntimeError else KeyboardInterrupt
    with pytest.raises(expected) as caught:
        case.action(table)
    made = {path for path in set(storage.files) - before if "/bucket-" in path}
    assert made, "nothing was removed"
    if expected is CommitUnknownError and fault.after:
        assert str(through(storage).store.snapshot(3).uuid) in str(caught.value)


@pytest.mark.parametrize("name", ["overwrite", "compact", "delete, rewriting", "update by key"])
def test_what_is_interrupted_before_its_put_leaves_no_file(name: str) -> None:
    case = CASES[name]
    storage, _ = base_of(case)
    before = set(storage.files)
    table = through(FaultStorage(storage, fault_on("write", "manifest-list", Raised(KeyboardInterrupt))))
    with pytest.raises(KeyboardInterrupt):
        case.action(table)
    left = {path for path in set(storage.files) - before if "/bucket-" in path or "/index/" in path}
    if name == "compact":  # what it has finished is committed before it ends
        left -= {file.path for file in through(storage).files()}
    assert not left
    case.action(through(storage))


def test_a_compaction_that_is_interrupted_again_and_again_leaves_no_file() -> None:
    case = CASES["compact"]
    storage, _ = base_of(case)
    before = set(storage.files)
    table = through(FaultStorage(storage, fault_on("write", "manifest-list", Raised(KeyboardInterrupt), times=9)))
    with pytest.raises(KeyboardInterrupt):
        case.action(table)
    assert not {path for path in set(storage.files) - before if "/bucket-" in path}


def test_a_hint_that_cannot_be_written_is_no_failure() -> None:
    case = CASES["overwrite"]
    storage, _ = base_of(case)
    table = through(FaultStorage(storage, fault_on("write", "LATEST", Raised(RuntimeError))))
    done = case.action(table)
    assert done is not None and content(through(storage), done.id) == [(key, key + 100) for key in range(5)]
