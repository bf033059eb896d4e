"""Tables whose columns lie in several files, written here: against a model that knows rows by their ids."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.profile import SOAK

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.errors import ConflictError, CorruptError, InvalidError, UnsupportedError
from bucketlake.format.metadata.manifest import DataFile, FileSource
from bucketlake.ops.change import column_updates
from bucketlake.ops.compact import job
from bucketlake.ops.scan.scan import Scan, plan
from bucketlake.ops.stream.units import Follow, changed
from bucketlake.schema.change import AddColumn, DropColumn, RenameColumn
from bucketlake.table import Table
from bucketlake.types.model import INT

EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "compaction.min.file-num": "2"}
VECTORS = {"deletion-vectors.enabled": "true"}
SCHEMA = pa.schema([("id", pa.int64()), ("b", pa.int64()), ("c", pa.string()), ("p", pa.int32())])


def create(catalog: Catalog, *, by: tuple[str, ...] = (), **options: str) -> Table:
    given = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return catalog.create_table("db.t", SCHEMA, partition_keys=by, options={**EVOLVING, **given})


def insert(table: Table, *ids: int, p: int = 0) -> None:
    data = {"id": ids, "b": ids, "c": [f"c{i}" for i in ids], "p": [p] * len(ids)}
    table.write_arrow(pa.table(data, SCHEMA))


def rows(catalog: Catalog, *columns: str, name: str = "db.t") -> list[tuple[Any, ...]]:
    wanted = [*(columns or ("id", "b", "c")), "_ROW_ID", "_SEQUENCE_NUMBER"]
    found = catalog.table(f"{name}$row_tracking").to_arrow(columns=wanted)
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=lambda row: row[-2])


def files(table: Table) -> list[DataFile]:
    return [file for split in plan(table.store, Scan()).splits for file in split.files]


def indexes(table: Table) -> list[Any]:
    snapshot = table.latest_snapshot()
    return [] if snapshot is None else list(table.store.index_manifest(snapshot))


def same(table: Table) -> None:
    assert not table.refresh().fsck(level="rows").findings


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_columns_are_written_beside_the_others(catalog: Catalog, format: str) -> None:
    table = create(catalog, file__format=format)
    insert(table, 1, 2, 3)
    insert(table, 4, 5)
    before = {file.file_name for file in files(table)}
    assert table.update({"b": 20}, "id = 2 OR id = 3") is not None
    found = files(table)
    (new,) = [file for file in found if file.file_name not in before]
    assert before < {file.file_name for file in found}
    assert (new.write_cols, new.first_row_id, new.row_count) == (("b",), 0, 3)
    assert (new.min_sequence_number, new.max_sequence_number, new.file_source) == (3, 3, FileSource.APPEND)
    assert all(file.write_cols is None for file in found if file is not new)
    assert rows(catalog) == [
        (1, 1, "c1", 0, 3),
        (2, 20, "c2", 1, 3),
        (3, 20, "c3", 2, 3),
        (4, 4, "c4", 3, 2),
        (5, 5, "c5", 4, 2),
    ]
    assert table.to_arrow(where="b = 20", columns=["id"])["id"].to_pylist() == [2, 3]
    assert table.to_arrow(where="b = 3").num_rows == 0
    assert table.update({"b": 7}, "id = 99") is None
    snapshot = table.latest_snapshot()
    assert snapshot is not None and (snapshot.id, snapshot.next_row_id, snapshot.operation) == (3, 5, "UPDATE")
    same(table)
    assert table.compact() is not None
    (file,) = files(table)
    assert (file.write_cols, file.first_row_id, file.row_count, file.max_sequence_number) == (None, 0, 5, 3)
    assert [row[:4] for row in rows(catalog)] == [
        (1, 1, "c1", 0),
        (2, 20, "c2", 1),
        (3, 20, "c3", 2),
        (4, 4, "c4", 3),
        (5, 5, "c5", 4),
    ]
    assert table.to_arrow(snapshot_id=2, columns=["b"])["b"].to_pylist() == [1, 2, 3, 4, 5]
    insert(table, 6)
    assert rows(catalog)[-1] == (6, 6, "c6", 5, 5)
    same(table)


def test_columns_that_are_new(catalog: Catalog) -> None:
    table = create(catalog)
    insert(table, 1, 2)
    catalog.alter_table("db.t", AddColumn("d", INT), RenameColumn("c", "e"))
    old, table = table, catalog.table("db.t")
    table.update({"d": 7}, "id = 2")
    table.update({"e": "x"}, "id = 1")
    table.write_arrow(pa.table({"id": [3], "b": [3], "e": ["z"], "p": [0], "d": [9]}))
    expected = [(1, 1, "x", None), (2, 2, "c2", 7), (3, 3, "z", 9)]
    assert [row[:4] for row in rows(catalog, "id", "b", "e", "d")] == expected
    assert old.compact() is not None  # by a handle that does not know of the column
    assert len(files(table)) == 1
    assert [row[:4] for row in rows(catalog, "id", "b", "e", "d")] == expected
    catalog.alter_table("db.t", DropColumn("b"))
    catalog.alter_table("db.t", AddColumn("b", INT))
    assert [row[:2] for row in rows(catalog, "id", "b")] == [(1, None), (2, None), (3, None)]
    same(table)


def test_partitions_and_overwrites(catalog: Catalog) -> None:
    table = create(catalog, by=("p",))
    insert(table, 1, 2, p=1)
    insert(table, 3, 4, p=2)
    table.update({"b": 9}, "p = 1 OR id = 4")
    assert [row[:2] for row in rows(catalog, "id", "b")] == [(1, 9), (2, 9), (3, 3), (4, 9)]
    with pytest.raises(UnsupportedError, match="Update to partition columns is not supported"):
        table.update({"p": 3}, "id = 1")
    table.write_arrow(pa.table({"id": [5], "b": [5], "c": ["c5"], "p": [1]}, SCHEMA), mode="overwrite")
    assert [row[:3] for row in rows(catalog, "id", "b")] == [(3, 3, 2), (4, 9, 3), (5, 5, 4)]
    table.delete("p = 2")
    assert [row[:3] for row in rows(catalog, "id", "b")] == [(5, 5, 4)]
    same(table)
    table.truncate()
    insert(table, 6)
    assert rows(catalog) == [(6, 6, "c6", 5, 7)]


def test_deleted_rows(catalog: Catalog) -> None:
    table = create(catalog, **{"deletion_vectors__enabled": "true"})
    insert(table, 1, 2, 3)
    insert(table, 4, 5, 6)
    table.delete("id in (2, 6)")
    table.update({"b": 0}, "id < 4")
    table.delete("b = 0 AND c = 'c1'")
    table.update({"c": "x"})
    expected = [(3, 0, "x", 2), (4, 4, "x", 3), (5, 5, "x", 4)]
    assert [row[:4] for row in rows(catalog)] == expected
    assert table.delete("id = 2") is None
    same(table)
    assert table.compact() is not None
    (file,) = files(table)
    assert file.row_count == 6
    assert [row[:4] for row in rows(catalog)] == expected
    table.update({"b": 8}, "id = 5")
    table.delete("id = 4")
    assert [row[:4] for row in rows(catalog)] == [(3, 0, "x", 2), (5, 8, "x", 4)]
    same(table)
    insert(table, 7)
    done = table.materialize_deletion_vectors()
    assert done is not None and (done.commit_kind.value, done.next_row_id, indexes(table)) == ("COMPACT", 9, [])
    assert rows(catalog) == [(7, 7, "c7", 6, done.id - 1), (3, 0, "x", 7, done.id), (5, 8, "x", 8, done.id)]
    assert table.materialize_deletion_vectors() is None
    table.delete("id = 7")
    assert table.materialize_deletion_vectors() is not None
    assert [row[:4] for row in rows(catalog)] == [(3, 0, "x", 7), (5, 8, "x", 8)]
    same(table)


def test_a_compaction_that_may_give_out_ids_removes_deleted_rows(catalog: Catalog) -> None:
    anew = {"data-evolution.compaction.rewrite-row-ids": "true"}
    table = create(catalog, **{"deletion_vectors__enabled": "true"})
    insert(table, 1, 2, 3)
    insert(table, 4, 5)
    table.delete("id = 2")
    done = table.with_options(anew).compact()
    assert done is not None and (done.commit_kind.value, indexes(table)) == ("COMPACT", [])
    assert sorted(row[:4] for row in rows(catalog)) == [
        (1, 1, "c1", 5),
        (3, 3, "c3", 6),
        (4, 4, "c4", 3),
        (5, 5, "c5", 4),
    ]
    assert sum(file.row_count for file in files(table)) == 4
    assert table.compact(**{"data_evolution_compaction_rewrite_row_ids": True}) is None
    same(table)
    insert(table, 7)  # no deleted rows: ids stay
    table.compact(**{"data_evolution_compaction_rewrite_row_ids": True})
    assert [row[0] for row in rows(catalog)] == [4, 5, 1, 3, 7]
    catalog.drop_table("db.t")
    plain = create(catalog, **{key.replace(".", "__").replace("-", "_"): value for key, value in anew.items()})
    insert(plain, 1)
    insert(plain, 2)
    assert plain.compact() is not None
    assert [row[:4] for row in rows(catalog)] == [(1, 1, "c1", 0), (2, 2, "c2", 1)]


RACED = {
    "an insert": lambda t: insert(t, 9),
    "columns of the rows": lambda t: t.update({"b": 100}, "id = 1"),
    "columns of other rows": lambda t: t.update({"b": 100}, "id = 5"),
    "more deleted rows": lambda t: t.delete("id = 3"),
    "deleted rows elsewhere": lambda t: t.delete("id = 5"),
    "a compaction": lambda t: t.compact(),
    "an overwrite": lambda t: (t.truncate(), insert(t, 1)),
}


@pytest.mark.parametrize("name", RACED)
def test_deleted_rows_are_not_back_whoever_commits_first(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What comes while the rows beside deleted ones are written anew is seen, in either order."""
    action, real, left = RACED[name], job.publish_standing, [True]
    found = []
    for racing in (True, False):
        table = create(catalog, **{"deletion_vectors__enabled": "true"})
        insert(table, 1, 2, 3)
        insert(table, 4, 5)
        table.delete("id = 2")
        other = catalog.table("db.t")

        def publish(*args: Any, **more: Any) -> Any:
            if left:
                left.pop()
                action(other)
            return real(*args, **more)

        monkeypatch.setattr(job, "publish_standing", publish if racing else real)
        if not racing:
            action(other)
        table.materialize_deletion_vectors()
        found.append([row[:3] for row in sorted(rows(catalog))])
        same(table)
        catalog.drop_table("db.t")
    assert found[0] == found[1]


def test_what_is_refused(catalog: Catalog) -> None:
    with pytest.raises(InvalidError, match="row-tracking"):
        catalog.create_table("db.x", SCHEMA, options={"data-evolution.enabled": "true"})
    with pytest.raises(InvalidError, match="primary-key"):
        catalog.create_table("db.x", SCHEMA, primary_keys=["id"], options=EVOLVING)
    table = create(catalog)
    insert(table, 1, 2)
    snapshot = table.latest_snapshot()
    with pytest.raises(UnsupportedError, match="DeletionVector enabled"):
        table.delete("id = 1")
    with pytest.raises(UnsupportedError, match="cannot be sorted"):
        table.compact(order_by="id")
    assert table.latest_snapshot() == snapshot
    with pytest.raises(InvalidError, match="null"):
        catalog.create_table("db.n", pa.schema([pa.field("v", pa.int64(), False)]), options=EVOLVING).update(
            {"v": None}
        )


def at_commit(monkeypatch: pytest.MonkeyPatch, action: Any) -> None:
    """Run something once, after a change was written and before it is committed."""
    real, left = column_updates.Commit.commit, [action]

    def commit(self: Any, messages: Any, *args: Any, **more: Any) -> Any:
        if left:
            left.pop()()
        return real(self, messages, *args, **more)

    monkeypatch.setattr(column_updates.Commit, "commit", commit)


RACES = {
    "an insert": (lambda t: insert(t, 9), 1),
    "another column": (lambda t: t.update({"c": "y"}, "id = 1"), 1),
    "the same column": (lambda t: t.update({"b": 100}, "id = 1"), 2),
    "a column that is looked at": (lambda t: t.update({"id": 12}, "id = 1"), 2),
    "the same column of other rows' files": (lambda t: t.update({"b": 100}, "id = 5"), 1),
    "a compaction": (lambda t: t.compact(), 2),
    "deleted rows": (lambda t: t.delete("id = 3"), 1),
    "an overwrite": (lambda t: (t.truncate(), insert(t, 1)), 2),
}


@pytest.mark.parametrize("name", RACES)
def test_races(catalog: Catalog, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """What came between is seen or stands beside; the update is what it would be had it come after."""
    action, attempts = RACES[name]
    written = []
    real = column_updates.write_columns
    monkeypatch.setattr(column_updates, "write_columns", lambda *a: (written.append(1), real(*a))[1])

    def play(table: Table, racing: bool) -> list[tuple[Any, ...]]:
        insert(table, 1, 2, 3)
        insert(table, 4, 5)
        other = catalog.table("db.t")
        if racing:
            at_commit(monkeypatch, lambda: action(other))
        else:
            action(other)
        written.clear()
        table.update({"b": 50}, "id < 3")
        found = [row[:4] for row in rows(catalog)]
        same(table)
        catalog.drop_table("db.t")
        return found

    racing = play(create(catalog, **{"deletion_vectors__enabled": "true"}), True)
    if name not in ("the same column", "a column that is looked at", "the same column of other rows' files"):
        assert len(written) <= 2 * attempts
    assert racing == play(create(catalog, **{"deletion_vectors__enabled": "true"}), False)


def test_rows_that_are_gone_do_not_come_back(catalog: Catalog) -> None:
    """Columns committed by whoever does not look are refused where their rows are gone."""
    table = create(catalog)
    insert(table, 1, 2)
    store, snapshot = table.store, table.latest_snapshot()
    assert snapshot is not None
    (group,) = column_updates.groups_at(store, snapshot, None)
    patch = pa.record_batch({"b": pa.array([7]), "_ROW_ID": pa.array([1])})
    message = column_updates.write_columns(store, group, ["b"], [patch])
    assert message is not None
    table.truncate()
    with pytest.raises(ConflictError, match="not there any more"):
        table.commit([message], "u")
    assert table.refresh().to_arrow().num_rows == 0


class Model:
    """Rows by id."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, Any]] = {}
        self.next = 0
        self.columns = ["id", "b", "c", "p"]
        self.past: dict[int, dict[int, dict[str, Any]]] = {}


@pytest.mark.parametrize("seed", range(200 if SOAK else 6))
def test_against_a_model(catalog: Catalog, seed: int) -> None:
    chance = random.Random(seed)
    marks = seed % 2 == 0
    by = ("p",) if seed % 3 == 0 else ()
    table = create(catalog, by=by, **({"deletion_vectors__enabled": "true"} if marks else {}))
    model, made = Model(), 0
    for step in range(14):
        table = catalog.table("db.t")
        kind = chance.choice(["insert", "insert", "update", "update", "update", "delete", "compact", "add", "renew"])
        bound = chance.randrange(1, 40)
        if kind == "insert":
            data = []
            for _ in range(chance.randrange(1, 6)):
                data.append(dict.fromkeys(model.columns) | {"id": made, "b": made, "c": f"c{made}", "p": step % 2})
                made += 1
            table.write_arrow(pa.Table.from_pylist(data, schema=table.arrow_schema))
            ordered = sorted(data, key=lambda row: row["p"]) if by else data
            for row in ordered:
                model.rows[model.next] = row
                model.next += 1
        elif kind == "update":
            columns = chance.sample([c for c in model.columns if c not in ("id", "p")], chance.choice([1, 1, 2]))
            values = {c: f"v{step}" if c == "c" else step for c in columns}
            table.update(values, f"id < {bound} AND id >= {step}")
            for row in model.rows.values():
                if step <= row["id"] < bound:
                    row.update(values)
        elif kind == "delete" and marks:
            table.delete(f"id = {bound} OR b = {step}")
            model.rows = {k: r for k, r in model.rows.items() if not (r["id"] == bound or r["b"] == step)}
        elif kind == "compact":
            table.compact()
        elif kind == "renew" and marks and model.rows:
            table.materialize_deletion_vectors()
            every = catalog.table("db.t$row_tracking").to_arrow(columns=[*model.columns, "_ROW_ID"]).to_pylist()
            renewed = {row.pop("_ROW_ID"): row for row in every}
            assert sorted(map(str, renewed.values())) == sorted(map(str, model.rows.values())), (seed, step)
            model.rows, model.next = renewed, table.latest_snapshot().next_row_id  # type: ignore[union-attr]
        elif kind == "add" and len(model.columns) < 7:
            name = f"x{step}"
            catalog.alter_table("db.t", AddColumn(name, INT))
            model.columns.append(name)
            for row in model.rows.values():
                row[name] = None
        table = catalog.table("db.t")
        found = catalog.table("db.t$row_tracking").to_arrow(columns=[*model.columns, "_ROW_ID"]).to_pylist()
        assert {row.pop("_ROW_ID"): row for row in found} == model.rows, (seed, step, kind)
        snapshot = table.latest_snapshot()
        if snapshot is not None:
            assert snapshot.next_row_id == model.next
            model.past[snapshot.id] = {k: dict(r) for k, r in model.rows.items()}
    for number, past in model.past.items():
        found = catalog.table("db.t").to_arrow(snapshot_id=number, columns=["id", "b", "c"]).to_pylist()
        expected = [{c: row[c] for c in ("id", "b", "c")} for row in past.values()]
        assert sorted(map(str, found)) == sorted(map(str, expected)), (seed, number)
    same(table)


def test_history_and_orphans(catalog: Catalog) -> None:
    """Expiry, tags, branches, rollbacks, clones and the sweep of orphans know files with columns of the same rows."""
    table = create(catalog)
    insert(table, 1, 2)
    table.update({"b": 5}, "id = 1")
    table.create_tag("early")
    table.update({"b": 6}, "id = 2")
    before = rows(catalog)
    with pytest.raises(UnsupportedError, match="merging branches.*fast_forward"):
        table.create_branch("side")
        table.merge_branch("side")
    assert table.compact() is not None
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="2999-01-01 00:00:00")
    assert [row[:4] for row in rows(catalog)] == [row[:4] for row in before]
    assert sorted(table.to_arrow(tag_name="early")["b"].to_pylist()) == [2, 5]
    same(table)


def test_a_clone_goes_on(catalog: Catalog, tmp_path: Path) -> None:
    """A clone's files have greater numbers than its first snapshots: what is written next is the newest all the same."""
    table = create(catalog)
    insert(table, 1, 2)
    for value in (5, 6, 7):
        table.update({"b": value}, "id = 1")
    from_clone = bucketlake.open(tmp_path / "other")
    from_clone.create_database("db")
    from_clone.clone_table(table.refresh(), "db.t")
    found = from_clone.table("db.t")
    found.update({"b": 8}, "id = 1")
    found.update({"c": "z", "b": 9}, "id = 2")
    assert sorted(tuple(row.values()) for row in found.to_arrow(columns=["id", "b", "c"]).to_pylist()) == [
        (1, 8, "c1"),
        (2, 9, "z"),
    ]
    same(found)


def test_a_lost_file_takes_its_rows_along(catalog: Catalog) -> None:
    """What is left of a row is no row: without the newest values of a column the older ones would come back."""
    table = create(catalog)
    insert(table, 1, 2)
    insert(table, 3)
    table.update({"b": 9}, "id = 1")
    (lost,) = [file for file in files(table) if file.write_cols is not None]
    (path,) = Path(table.path).rglob(lost.file_name)
    path.unlink()
    report = table.refresh().fsck(level="footers")
    (finding,) = report.findings
    assert finding.place.file is not None and finding.place.file.endswith(lost.file_name)
    done = table.repair(report, allow=[finding.fault.code], dry_run=False)
    assert done.snapshot is not None
    assert [row[:3] for row in rows(catalog)] == [(3, 3, "c3")]
    left = table.refresh().fsck(level="rows").findings
    assert [finding.place.snapshot for finding in left] == [3]  # the one before still names the file


def test_files_tell_nulls_of_columns_that_they_lack(catalog: Catalog) -> None:
    """As in Apache Paimon: all rows, for columns that lie in other files."""
    table = create(catalog)
    insert(table, 1, 2, 3)
    table.update({"b": 20}, "id = 2")
    found = catalog.table("db.t$files").to_arrow(columns=["write_cols", "null_value_counts", "min_value_stats"])
    told = {
        tuple(row["write_cols"] or ()): (row["null_value_counts"], row["min_value_stats"]) for row in found.to_pylist()
    }
    assert told == {
        (): ("{b=0, c=0, id=0, p=0}", "{b=1, c=c1, id=1, p=0}"),
        ("b",): ("{b=0, c=3, id=3, p=3}", "{b=1, c=null, id=null, p=null}"),
    }


@pytest.mark.parametrize("lost", [("data-evolution.enabled",), ("data-evolution.enabled", "row-tracking.enabled")])
def test_a_schema_that_lost_the_option_is_told(catalog: Catalog, lost: tuple[str, ...]) -> None:
    """Each file would be read as rows of its own."""
    table = create(catalog)
    insert(table, 1, 2, 3)
    table.update({"b": 7}, "id > 1")
    schema = Path(table.path, "schema", "schema-0")
    told = json.loads(schema.read_bytes())
    told["options"] = {key: value for key, value in told["options"].items() if key not in lost}
    schema.write_text(json.dumps(told))
    table = catalog.table("db.t")
    for action in (
        table.to_arrow,
        lambda: table.to_arrow(where="id = 1"),
        lambda: table.update({"b": 8}, "id = 1"),
        lambda: table.delete("id = 1"),
        lambda: table.compact(full=True),
        lambda: table.compact(order_by=["id"], order_strategy="order"),
        lambda: table.rewrite(),
        lambda: table.to_arrow(incremental_between="1,2"),
        lambda: table.to_arrow(incremental_between="1,2", incremental_between_scan_mode="diff"),
        lambda: changed(table.store, table.snapshots()[1], Follow(changelog=False)),
    ):
        with pytest.raises(CorruptError, match="data-evolution.enabled.*schema-0"):
            action()
    assert len(table.snapshots()) == 2
