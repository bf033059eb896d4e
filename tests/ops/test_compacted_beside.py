"""Another program's writer compacts what it has just written beside rows of level 0 that it does not know: the
compaction of these rows here, planned before, looks old rows up in files that are not the newest any more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from tests.histories.changes import changes_of

import bucketlake
from bucketlake.errors import ConflictError
from bucketlake.format.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind
from bucketlake.ops.commit.commit import Commit
from bucketlake.ops.commit.conflicts import CommitName
from bucketlake.ops.commit.publish import Publisher, Request
from bucketlake.ops.compact.bucket import CompactUnit, Planner, compact_bucket, units_due
from bucketlake.ops.compact.maintain import after_write, compact_here
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.table.changes import append_changes, compact_changes
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.prepare import new_commit_user, prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.table import Table

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
# 9 comes first, so that 1 has another sequence number than the other writer's: ties are nobody's.
SUM = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
TABLES: dict[str, tuple[dict[str, str], dict[int, int]]] = {
    "sums": ({**SUM, "changelog-producer": "lookup"}, {1: 17, 2: 12, 3: 2, 4: 1, 9: 0}),
    "newest": ({"changelog-producer": "lookup"}, {1: 5, 2: 10, 3: 1, 4: 1, 9: 0}),
    "new keys": ({"deletion-vectors.enabled": "true"}, {1: 5, 2: 10, 9: 0}),
}


def rows(values: dict[int, int]) -> pa.Table:
    return pa.table({"k": list(values), "v": list(values.values())}, schema=SCHEMA)


def foreign(table: Table, values: dict[int, int]) -> Callable[[], None]:
    """Rows written and compacted by a writer that sees the table as it is now; the commit of both."""
    store, user = table.store, "foreign"
    base = store.latest_snapshot()
    (written,) = write_batches(store, rows(values).to_batches(), prepare_write(store, base, commit_user=user))
    known = [] if base is None else live_entries(store, base)
    files = (*(entry.file for entry in known), *written.new_files)
    pick = Planner(store, True).pick(files, None)
    assert pick is not None
    done = compact_bucket(store, CompactUnit(written.partition, written.bucket, 1, files, pick))
    assert done is not None

    def commit() -> None:
        """As Paimon's: what it wrote keeps its sequence numbers, and nobody asks what the compaction looked at."""
        for kind, changes in (
            (CommitKind.APPEND, append_changes(written)),
            (CommitKind.COMPACT, compact_changes(done)),
        ):
            name = CommitName(0, user, BATCH_COMMIT_IDENTIFIER, kind)
            Publisher(store).publish(Request(name, lambda view, made=changes: made))  # type: ignore[misc]

    return commit


def made(folder: Path, kind: str, options: dict[str, str]) -> Table:
    """A table with rows above level 0; "new keys": of other keys."""
    trigger = {"bucket": "1", "num-sorted-run.compaction-trigger": "5"}
    table = bucketlake.open(folder).create_table("t", SCHEMA, primary_keys=["k"], options={**trigger, **options})
    for values in (
        [dict.fromkeys(range(100, 3100), 0)] if kind == "new keys" else [{1: 1, 2: 1, 3: 1, 4: 1}, {1: 1, 2: 1, 3: 1}]
    ):
        table.write_arrow(rows(values))
    return table.refresh()


def held(table: Table) -> dict[int, int]:
    found = table.refresh().to_arrow().to_pylist()
    assert len({row["k"] for row in found}) == len(found), "a key twice"
    return {row["k"]: row["v"] for row in found}


@pytest.mark.parametrize("kind", TABLES)
def test_what_was_looked_up_before_is_looked_up_again(tmp_path: Path, kind: str) -> None:
    options, expected = TABLES[kind]
    table = made(tmp_path, kind, options)
    commit = foreign(table, {1: 10, 2: 10})
    table.refresh().write_arrow(rows({9: 0, 1: 5}), write_only=True)
    store = table.refresh().store
    newest = store.latest_snapshot()
    assert newest is not None
    (unit,) = units_due(store, newest)
    planned = compact_bucket(store, unit)
    assert planned is not None
    commit()
    with pytest.raises(ConflictError, match="looked old rows up"):
        Commit(store, new_commit_user(store)).commit([planned])
    table.refresh().compact(full=False)
    assert {key: value for key, value in held(table).items() if key < 100} == expected
    told: dict[int, int] = {}
    for snapshot in table.refresh().snapshots():
        for kind_of_row, row in changes_of(table, snapshot):
            if kind_of_row in (1, 3):
                assert told.pop(row["k"]) == row["v"], "not what was there before"
            else:
                told[row["k"]] = row["v"]
    assert "changelog-producer" not in options or told == expected


def test_a_writer_compacts_again_by_itself(tmp_path: Path) -> None:
    options, expected = TABLES["sums"]
    table = made(tmp_path, "sums", options)
    commits = [foreign(table, {1: 10, 2: 10})]

    def meanwhile(store: Store, units: Sequence[CompactUnit]) -> list[CommitMessage]:
        done = compact_here(store, units)
        if commits:
            commits.pop()()
        return done

    store, user = table.store, new_commit_user(table.store)
    task = prepare_write(store, store.latest_snapshot(), commit_user=user)
    messages = write_batches(store, rows({9: 0, 1: 5}).to_batches(), task)
    snapshot = Commit(store, user).commit(messages)
    assert snapshot is not None
    assert after_write(store, snapshot, messages, meanwhile) is not None
    assert not commits, "it was committed between the plan and the commit"
    assert held(table) == expected
