"""Row ids given out anew: which rows get which, and what that does to everything that knows rows by their ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from bucketlake.catalog import Catalog
from bucketlake.errors import InvalidError
from bucketlake.ops.change import column_updates
from bucketlake.ops.compact import job, reassign
from bucketlake.ops.compact.reassign import Moves, runs_to_move
from bucketlake.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("b", pa.int64()), ("p", pa.string())])
EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"}


def create(catalog: Catalog, **options: str) -> Table:
    given = {**EVOLVING, "compaction.min.file-num": "2", **options}
    return catalog.create_table("db.t", SCHEMA, partition_keys=("p",), options=given)


def scattered(catalog: Catalog, **options: str) -> Table:
    """Rows 0 to 4, of partition a, b, a, b, a."""
    table = create(catalog, **options)
    for number in range(5):
        insert(table, number, "ab"[number % 2])
    return table


def with_blobs(catalog: Catalog) -> Table:
    """The same rows, each with a blob."""
    given = {**EVOLVING, "compaction.min.file-num": "2", "blob-field": "c"}
    schema = pa.schema([*SCHEMA, ("c", pa.binary())])
    table = catalog.create_table("db.t", schema, partition_keys=("p",), options=given)
    for number in range(5):
        row = {"id": number, "b": number, "p": "ab"[number % 2], "c": bytes([number])}
        table.write_arrow(pa.Table.from_pylist([row], schema))
    return table


def insert(table: Table, number: int, p: str) -> None:
    table.write_arrow(pa.table({"id": [number], "b": [number], "p": [p]}, SCHEMA))


def ids(catalog: Catalog, **options: Any) -> list[tuple[Any, ...]]:
    found = catalog.table("db.t$row_tracking").to_arrow(columns=["id", "b", "p", "_ROW_ID"], **options)
    return sorted(tuple(row.values()) for row in found.to_pylist())


def test_which_ranges_move() -> None:
    assert runs_to_move([(0, 2), (2, 5)], 0) == []
    assert runs_to_move([(0, 2), (3, 5)], 0) == [(0, 2), (3, 5)]
    assert runs_to_move([(0, 2), (2, 3), (4, 5), (6, 7)], 2) == [(4, 5), (6, 7)]
    assert runs_to_move([(0, 2), (2, 3), (4, 5)], 2) == []
    moves = Moves(((0, 5), (7, 9)), (20, 25))
    spans = [(0, 5), (2, 4), (7, 8), (4, 6), (5, 7), (30, 31)]
    assert [moves.of(span) for span in spans] == [20, 22, 25, None, None, None]


def test_rows_of_a_partition_lie_side_by_side(catalog: Catalog) -> None:
    table = scattered(catalog)
    table.update({"b": 20}, "id = 2")
    table.delete("id = 3")
    before, snapshot = ids(catalog), table.latest_snapshot()
    assert snapshot is not None
    files = {file.path for file in table.files()}
    done = table.reassign_row_ids()
    assert (done.previous, done.snapshot, done.first, done.next) == (snapshot.id, snapshot.id + 1, 5, 10)
    assert (done.files, done.rows) == (6, 5)
    assert ids(catalog) == [(0, 0, "a", 5), (1, 1, "b", 8), (2, 20, "a", 6), (4, 4, "a", 7)]
    assert {file.path for file in table.files()} == files
    assert ids(catalog, snapshot_id=snapshot.id) == before
    newest = table.latest_snapshot()
    assert newest is not None and (newest.commit_kind.value, newest.next_row_id) == ("COMPACT", 10)
    assert (newest.total_record_count, newest.delta_record_count) == (snapshot.total_record_count, 0)
    again = table.reassign_row_ids()
    assert (again.snapshot, again.previous, again.next) == (None, newest.id, 10)
    assert again.reason == "no partition requires row-id reassignment"
    insert(table, 9, "b")
    table.update({"b": 7}, "p = 'a'")
    assert table.compact() is not None
    table.materialize_deletion_vectors()
    assert [row[:3] for row in ids(catalog)] == [(0, 7, "a"), (1, 1, "b"), (2, 7, "a"), (4, 7, "a"), (9, 9, "b")]
    assert not table.refresh().fsck(level="rows").findings
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert len(ids(catalog)) == 5


def test_partitions_and_what_is_refused(catalog: Catalog) -> None:
    table = scattered(catalog, **{reassign.KEEP: "0"})
    assert table.reassign_row_ids([{"p": "c"}]).snapshot is None
    assert table.reassign_row_ids([{"p": "b"}]).rows == 2
    assert ids(catalog) == [(0, 0, "a", 0), (1, 1, "b", 5), (2, 2, "a", 2), (3, 3, "b", 6), (4, 4, "a", 4)]
    for options, says in [({}, "row-tracking.enabled=true"), ({"row-tracking.enabled": "true"}, "data-evolution")]:
        with pytest.raises(InvalidError, match=says):
            catalog.create_table(f"db.u{len(options)}", SCHEMA, options=options).reassign_row_ids()
    plain = catalog.create_table("db.plain", SCHEMA, options=EVOLVING)
    with pytest.raises(InvalidError, match="empty table"):
        plain.reassign_row_ids()
    insert(plain, 1, "a")
    assert plain.reassign_row_ids().reason == "table is not partitioned"


STATEMENTS: dict[str, Callable[[Table], Any]] = {
    "an insert": lambda t: insert(t, 9, "a"),
    "new columns": lambda t: t.update({"b": 100}, "id < 3"),
    "deleted rows": lambda t: t.delete("id = 2"),
    "a compaction": lambda t: t.compact(),
    "rows written anew": lambda t: t.materialize_deletion_vectors(),
    "an overwrite": lambda t: t.write_arrow(pa.table({"id": [7], "b": [7], "p": ["a"]}, SCHEMA), mode="overwrite"),
}


@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.parametrize("first", ["the ids", "the statement"])
def test_whoever_commits_first(catalog: Catalog, monkeypatch: pytest.MonkeyPatch, name: str, first: str) -> None:
    """What was read before is evaluated anew: rows are those of the statements one after the other, ids are unique."""
    table = scattered(catalog)
    insert(table, 5, "a")
    table.delete("id = 4")
    other, statement, left = catalog.table("db.t"), STATEMENTS[name], [True]

    def once(action: Callable[[], Any], real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **more: Any) -> Any:
            if left:
                left.pop()
                action()
            return real(*args, **more)

        return wrapped

    if first == "the ids":
        for way in ("commit", "overwrite"):
            real = getattr(column_updates.Commit, way)
            monkeypatch.setattr(column_updates.Commit, way, once(other.reassign_row_ids, real))
        monkeypatch.setattr(job, "publish_standing", once(other.reassign_row_ids, job.publish_standing))
        statement(table)
    else:
        monkeypatch.setattr(reassign, "write_manifests", once(lambda: statement(other), reassign.write_manifests))
        table.reassign_row_ids()
    assert not left
    found = ids(catalog)
    expected = {0: 0, 1: 1, 2: 2, 3: 3, 5: 5}
    if name == "an insert":
        expected[9] = 9
    elif name == "new columns":
        expected |= {0: 100, 1: 100, 2: 100}
    elif name == "deleted rows":
        del expected[2]
    elif name == "an overwrite":
        expected = {1: 1, 3: 3, 7: 7}
    assert {row[0]: row[1] for row in found} == expected
    assert len({row[3] for row in found}) == len(found)
    assert not table.refresh().fsck(level="rows").findings


@pytest.mark.parametrize("blobs", [False, True], ids=["plain", "blobs"])
@pytest.mark.parametrize("change", ["reassign", "materialize", "compact", "truncate", "overwrite"])
def test_what_an_old_snapshot_had_comes_back_with_its_ids(catalog: Catalog, change: str, blobs: bool) -> None:
    table = with_blobs(catalog) if blobs else scattered(catalog)
    table.update({"b": 20}, "id = 2")
    assert table.create_global_index("id") > 0
    table.delete("id = 3")
    target, before, rows = table.snapshots()[-1].id, ids(catalog), sorted(map(repr, table.to_arrow().to_pylist()))
    if change == "reassign":
        table.reassign_row_ids()
    elif change == "materialize":
        table.reassign_row_ids()
        table.materialize_deletion_vectors()
    elif change == "compact":
        table.compact(full=True)
    elif change == "truncate":
        table.truncate()
    else:
        table.write_arrow(table.to_arrow("id = 0"), mode="overwrite", partition={"p": "a"})
    table.rollback_to_as_latest(target)
    assert ids(catalog) == before
    assert sorted(map(repr, table.to_arrow().to_pylist())) == rows
    for number in range(5):
        assert table.to_arrow(f"id = {number}").num_rows == (number != 3), "by the index"
    assert table.fsck(level="rows").errors == ()
