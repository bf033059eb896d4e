"""UPDATE and DELETE by statements: what others commit between the read and the commit is neither undone nor lost."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.profile import later

import bucketlake
from bucketlake.env.local import LocalStorage
from bucketlake.errors import ConflictError
from bucketlake.ops.table.messages import WriteTask
from bucketlake.ops.write.prepare import prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.schema.change import RenameColumn
from bucketlake.spark.datasource import CommitWriter, Written
from bucketlake.spark.write import writer
from bucketlake.sql.query import query

Rival = Callable[["bucketlake.Table"], object]


def amid(monkeypatch: pytest.MonkeyPatch, lake: bucketlake.Lake, rival: Rival) -> list[str]:
    """Let a rival commit right before the next snapshot is published."""
    fired: list[str] = []
    real = LocalStorage.put_if_absent

    def put(self: LocalStorage, path: str, data: bytes) -> bool:
        if "/snapshot/" in path and not fired:
            fired.append(path)
            rival(bucketlake.open(lake.catalog.warehouse).table("db.t"))
        return real(self, path, data)

    monkeypatch.setattr(LocalStorage, "put_if_absent", put)
    return fired


@pytest.mark.spark
@pytest.mark.parametrize("key", ["id,dt", "id"])
def test_a_statement_reads_again_what_others_changed(
    classic: bucketlake.Lake, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """The second key: an UPDATE that moves rows between partitions."""
    lake = classic
    lake.sql(
        "CREATE TABLE db.t (id INT, v INT, dt STRING) PARTITIONED BY (dt) "
        f"TBLPROPERTIES ('primary-key' = '{key}', 'bucket' = '{2 if 'dt' in key else -1}')"
    )
    lake.sql("INSERT INTO db.t VALUES (1, 1, 'a'), (2, 2, 'a'), (3, 3, 'b'), (4, 4, 'b')")
    fired = amid(monkeypatch, lake, lambda t: t.drop_partitions([{"dt": "a"}]))
    moved = ", dt = 'c'" if key == "id" else ""
    lake.sql(f"UPDATE db.t SET v = v + 10{moved} WHERE length(concat('x', id)) = 2 AND id > 1")
    seen = sorted(tuple(row) for row in lake.sql("SELECT * FROM db.t").collect())
    place = "c" if key == "id" else "b"
    assert fired and seen == [(3, 13, place), (4, 14, place)]
    fired = amid(monkeypatch, lake, lambda t: t.update({"v": 0}, "id = 3"))
    lake.sql("DELETE FROM db.t WHERE concat('x', v) LIKE 'x1%'")
    assert fired and [row[0] for row in lake.sql("SELECT id FROM db.t").collect()] == [3]


@pytest.mark.spark
def test_versions_that_readers_see_after_their_compaction_are_the_ones_that_are_changed(
    classic: bucketlake.Lake,
) -> None:
    """Batch reads of a table with deletion vectors leave level 0 out: what changes rows begins with what lies there."""
    lake = classic
    lake.sql(
        "CREATE TABLE db.t (id INT, v INT, w INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2', "
        "'deletion-vectors.enabled' = 'true', 'write-only' = 'true')"
    )
    lake.sql("INSERT INTO db.t VALUES " + ", ".join(f"({k}, 1, 0)" for k in range(12)))
    assert lake.sql("SELECT * FROM db.t").count() == 0
    lake.sql("UPDATE db.t SET v = v + 1 WHERE length(concat('x', id)) = 2")
    lake.sql("UPDATE db.t AS a SET v = a.v + 1 WHERE id > 1")
    lake.sql("DELETE FROM db.t WHERE concat('x', v) = 'x2' AND id = 0")
    lake.sql("DELETE FROM db.t WHERE id = 1 AND v = 2")
    lake.table("db.t").update({"v": "v + 1"}, "length(concat('x', id)) = 3")
    lake.table("db.t").delete("concat('x', v) = 'x3' AND id = 2")
    source = "(SELECT explode(array(3, 20)) AS id) AS s"
    same = (
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = t.v + 10 WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 7)"
    )
    lake.sql(f"MERGE INTO db.t AS t USING {source} {same}")
    frame = lake.spark.createDataFrame([(4,), (20,)], "id INT")
    merge = lake.table("db.t").merge(frame, "t.id = source.id")
    merge.whenMatched().update({"w": "t.v"}).whenNotMatchedBySource("t.id = 5").delete().merge()
    lake.sql("CALL sys.compact(table => 'db.t')")
    expected = {
        **dict.fromkeys((6, 7, 8, 9, 10, 11), (3, 0)),
        3: (13, 0),
        4: (3, 3),
        20: (7, 7),
    }
    assert {row.id: (row.v, row.w) for row in lake.sql("SELECT * FROM db.t").collect()} == expected


def test_spark_taking_back_a_commit_removes_nothing_that_may_be_published(tmp_path: Path) -> None:
    """Spark calls abort after every commit that raises, in another process; and after tasks that failed."""
    catalog = bucketlake.open(tmp_path)
    catalog.create_database("db")
    table = catalog.create_table("db.t", pa.schema([("k", pa.int64())]), [], [], {"bucket": "-1"})
    task: WriteTask = replace(prepare_write(table.store, None), commit_user="me")
    messages = write_batches(table.store, pa.table({"k": [1, 2]}).to_batches(), task)
    writer = CommitWriter(table, ["k"], task, "append")
    table.commit(messages, "me")
    writer.abort([Written(messages)])
    assert table.to_arrow().num_rows == 2
    lost = write_batches(table.store, pa.table({"k": [3]}).to_batches(), task)
    writer.abort([Written(lost), None])
    assert len(list((tmp_path / "db.db" / "t" / "bucket-0").iterdir())) == 1


@pytest.mark.spark
@pytest.mark.parametrize(
    ("statement", "moment", "left"),
    [
        ("DELETE FROM db.items WHERE a < (SELECT max(a) FROM db.items)", 2, [(5, 50)]),
        ("DELETE FROM db.parted WHERE a < (SELECT max(a) FROM db.parted)", 1, [(5, 50)]),
        ("UPDATE db.items SET b = 0 WHERE a < (SELECT max(a) FROM db.items)", 2, [(1, 0), (2, 0), (4, 0), (5, 50)]),
        ("UPDATE db.evolved SET b = 0 WHERE a < (SELECT max(a) FROM db.evolved)", 2, [(1, 0), (2, 0), (4, 0), (5, 50)]),
        ("UPDATE db.items SET b = (SELECT count(*) FROM db.items)", 3, [(1, 4), (2, 4), (4, 4), (5, 4)]),
    ],
)
def test_subqueries_see_the_rows_that_are_changed(
    classic: bucketlake.Lake, monkeypatch: pytest.MonkeyPatch, statement: str, moment: int, left: list[tuple[int, int]]
) -> None:
    """Rows of an append table that come after it was looked at, and before a subquery reads it, count in both."""
    (table,) = {word for word in re.split(r"[ )]", statement) if word.startswith("db.")}
    more = {
        "db.parted": "PARTITIONED BY (a)",
        "db.evolved": "TBLPROPERTIES ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true')",
    }
    classic.sql(f"CREATE TABLE {table} (a INT, b INT) {more.get(table, '')}")
    classic.sql(f"INSERT INTO {table} VALUES (1, 10), (2, 20)")
    run, calls = query.run, []

    def late(*given: Any, **more: Any) -> Any:
        calls.append(True)
        if len(calls) == moment:
            new = {"a": pa.array([4, 5], pa.int32()), "b": pa.array([40, 50], pa.int32())}
            classic.table(table).table.write_arrow(pa.table(new))
        return run(*given, **more)

    monkeypatch.setattr(query, "run", late)
    classic.sql(statement)
    monkeypatch.undo()
    assert sorted(map(tuple, classic.sql(f"SELECT * FROM {table}").collect())) == left


@pytest.mark.spark
@pytest.mark.parametrize("moment", later(["before the commit", "before the read"], 1))
@pytest.mark.parametrize(
    ("statement", "left"),
    [
        ("INSERT OVERWRITE db.items SELECT a, b + 1 FROM db.items", [(1, 11), (2, 21), (4, 41)]),
        (
            "INSERT INTO db.items REPLACE WHERE a = 4 SELECT 4, sum(b) FROM db.items",
            [(1, 10), (2, 20), (4, 70)],
        ),
        ("INSERT OVERWRITE db.items SELECT 7, 7", [(7, 7)]),
        (
            "CREATE OR REPLACE TABLE db.items PARTITIONED BY (a) AS SELECT a, b + 1 AS b FROM db.items",
            [(1, 11), (2, 21), (4, 41)],
        ),
    ],
)
def test_an_overwrite_of_what_it_reads_loses_no_row(
    classic: bucketlake.Lake,
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
    left: list[tuple[int, int]],
    moment: str,
) -> None:
    classic.sql("CREATE TABLE db.items (a INT, b INT) PARTITIONED BY (a)")
    classic.sql("INSERT INTO db.items VALUES (1, 10), (2, 20)")
    new = pa.table({"a": pa.array([4], pa.int32()), "b": pa.array([40], pa.int32())})
    place, name = (query, "run") if moment == "before the read" else (writer, "_written")
    real, calls = getattr(place, name), []

    def late(*given: Any, **more: Any) -> Any:
        calls.append(True)
        if len(calls) == 1:
            classic.table("db.items").table.write_arrow(new)
        return real(*given, **more)

    monkeypatch.setattr(place, name, late)
    classic.sql(statement)
    monkeypatch.undo()
    assert sorted(map(tuple, classic.sql("SELECT * FROM db.items").collect())) == left


@pytest.mark.spark
def test_an_overwrite_among_several_inserts_is_refused_beside_a_writer(
    classic: bucketlake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    classic.sql("CREATE TABLE db.items (a INT, b INT)")
    classic.sql("CREATE TABLE db.log (a INT)")
    classic.sql("INSERT INTO db.items VALUES (1, 10)")
    statement = "FROM db.items INSERT INTO db.log SELECT a INSERT OVERWRITE db.items SELECT a, b + 1"
    classic.sql(statement)
    real, calls = writer._written, []

    def late(*given: Any, **more: Any) -> Any:
        calls.append(True)
        if len(calls) == 1:
            new = {"a": pa.array([4], pa.int32()), "b": pa.array([40], pa.int32())}
            classic.table("db.items").table.write_arrow(pa.table(new))
        return real(*given, **more)

    monkeypatch.setattr(writer, "_written", late)
    with pytest.raises(ConflictError, match="an overwrite has read"):
        classic.sql(statement)
    monkeypatch.undo()
    assert sorted(map(tuple, classic.sql("SELECT * FROM db.items").collect())) == [(1, 11), (4, 40)]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("statement", "moment", "left"),
    [
        ("INSERT INTO db.items BY NAME SELECT a + 10 AS a, b FROM db.items WHERE a = 1", 1, [(11, 100, None)]),
        ("DELETE FROM db.items WHERE a IN (SELECT a + 1 FROM db.items WHERE b >= 20)", 2, None),
        ("MERGE INTO db.items AS t USING (SELECT a, b FROM db.items) AS s ON t.a = s.a "
         "WHEN MATCHED THEN UPDATE SET b = s.b + 1", 2, None),
    ],
)  # fmt: skip
def test_columns_that_are_altered_between_two_looks_at_a_table(
    classic: bucketlake.Lake, monkeypatch: pytest.MonkeyPatch, statement: str, moment: int, left: Any
) -> None:
    """Two columns change their names: what the statement reads of the table goes into the columns that it read. DELETE
    took the column that its subquery no longer had for that of the row, and removed others."""
    classic.sql("CREATE TABLE db.items (a INT, b INT, c INT)")
    classic.sql("INSERT INTO db.items VALUES (1, 10, 100), (2, 20, 200), (3, 30, 300)")
    run, calls = query.run, []

    def late(*given: Any, **more: Any) -> Any:
        calls.append(True)
        if len(calls) == moment:
            named = [("b", "x"), ("c", "b"), ("x", "c")] if "DELETE" not in statement else [("b", "x")]
            for old, new in named:
                classic.table("db.items").table.alter(RenameColumn(old, new))
        return run(*given, **more)

    monkeypatch.setattr(query, "run", late)
    if left is None:
        with pytest.raises(ConflictError, match="the table was altered while .*try again"):
            classic.sql(statement)
    else:
        classic.sql(statement)
    monkeypatch.undo()
    found = {row["a"]: row for row in classic.table("db.items").table.to_arrow().to_pylist()}
    kept = {1: (10, 100), 2: (20, 200), 3: (30, 300)}
    now = ("x", "c") if "DELETE" in statement else ("c", "b")
    assert {a: tuple(found[a][name] for name in now) for a in (1, 2, 3)} == kept
    assert [(row["a"], row["b"], row["c"]) for a, row in found.items() if a > 3] == (left or [])


@pytest.mark.spark
def test_a_table_is_altered_between_a_look_at_it_and_its_replacement(
    classic: bucketlake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is made of its rows is made anew, of the columns as they are by then."""
    classic.sql("CREATE TABLE db.items (a INT, b INT, c INT)")
    classic.sql("INSERT INTO db.items VALUES (1, 10, 100)")
    run, calls = query.run, []

    def late(*given: Any, **more: Any) -> Any:
        found = run(*given, **more)
        if not calls:
            for old, new in (("b", "x"), ("c", "b"), ("x", "c")):
                classic.table("db.items").table.alter(RenameColumn(old, new))
        calls.append(True)
        return found

    monkeypatch.setattr(query, "run", late)
    classic.sql("CREATE OR REPLACE TABLE db.items AS SELECT a, b FROM db.items")
    monkeypatch.undo()
    assert classic.table("db.items").table.to_arrow().to_pylist() == [{"a": 1, "b": 100}]
