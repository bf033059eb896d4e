"""MERGE beside other writers, after failures and in sequence."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from tests.catalogs.servers import sqlite
from tests.profile import SOAK, first, later
from tests.sql.merges import ALL_CLAUSES, CHANGES, FIVE, NINE, TWO, content, made, view

import bucketlake
from bucketlake.errors import ConflictError
from bucketlake.ops.commit.commit import Commit
from bucketlake.spark.session import Lake
from bucketlake.sql.rows.merge import Source

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("kind", first(["keyed", "append", "marked"], 2))
def test_others_change_the_rows_meanwhile(classic: Lake, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made(classic, kind, TWO)
    view(classic, CHANGES)
    publish, done = Commit.commit, []

    def late(self: Commit, *args: object, **more: object) -> object:
        if not done:
            done.append(True)
            classic.sql("MERGE INTO db.t USING source s ON t.a = s.a WHEN NOT MATCHED THEN INSERT (a, b) VALUES (a, 1)")
            classic.sql("UPDATE db.t SET b = 11 WHERE a = 1")
        return publish(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Commit, "commit", late)
    classic.sql(
        """MERGE INTO db.t USING source s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = t.b + s.b
        WHEN NOT MATCHED THEN INSERT *"""
    )
    assert content(classic) == [(1, 111, "c1"), (2, 20, "c2"), (3, 301, None)]


@pytest.mark.parametrize("kind", later(["keyed", "append"], 1))
def test_a_table_that_was_empty_is_merged_into_twice(classic: Lake, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made(classic, kind)
    view(classic, CHANGES)
    publish, done = Commit.commit, []
    statement = """MERGE INTO db.t USING source s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = t.b + 1
        WHEN NOT MATCHED THEN INSERT *"""

    def late(self: Commit, *args: object, **more: object) -> object:
        if not done:
            done.append(True)
            classic.sql(statement)
        return publish(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Commit, "commit", late)
    classic.sql(statement)
    assert content(classic) == [(1, 101, "c11"), (3, 301, "c33")]


@pytest.mark.parametrize("source", ["db.items", "db.v"])
def test_a_source_that_reads_the_target_sees_the_same_rows(
    classic: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """Rows that come between looking at the target and at the source match themselves: none is there twice."""
    lake = bucketlake.connect(str(tmp_path / "w"), spark=classic.spark, options=sqlite(tmp_path))
    lake.sql("CREATE DATABASE db")
    made(lake, "append", TWO, name="db.items")
    lake.sql("CREATE VIEW db.v AS SELECT * FROM db.items")
    evaluate, calls = Source.frame, []

    def late(self: Source, given: Lake, *more: int) -> DataFrame:
        calls.append(True)
        if len(calls) == 2:  # the first tells its columns
            lake.sql("INSERT INTO db.items VALUES (3, 30, 'c3')")
        return evaluate(self, given, *more)

    monkeypatch.setattr(Source, "frame", late)
    lake.sql(
        f"MERGE INTO db.items t USING {source} s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = s.b + 1 WHEN NOT MATCHED THEN INSERT *"
    )
    assert content(lake, "db.items") == [(1, 11, "c1"), (2, 21, "c2"), (3, 31, "c3")]


def test_a_failed_merge_leaves_no_file(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    made(classic, "append", FIVE)
    view(classic, NINE)
    store = classic.table("db.t").table.store

    def files() -> set[str]:
        return {str(path) for path in Path(store.paths.root).rglob("*") if "bucket-" in str(path)}

    before = files()

    def fail(self: Commit, *args: object, **more: object) -> None:
        raise ConflictError("lost")

    monkeypatch.setattr(Commit, "commit", fail)
    monkeypatch.setattr("bucketlake.ops.change.append_rows.ATTEMPTS", 2)
    with pytest.raises(ConflictError):
        classic.sql(f"MERGE INTO db.t USING source ON t.a = source.a {ALL_CLAUSES}")
    assert files() == before


@pytest.mark.slow
def test_merges_in_sequence_equal_a_model(classic: Lake) -> None:
    chance = random.Random(11)
    for kind in ("keyed", "marked"):
        made(classic, kind, FIVE)
        model = {row[0]: row for row in FIVE}
        for _ in range(8 if SOAK else 3):
            keys = chance.sample(range(1, 9), 4)
            rows = [(key, chance.randrange(100), f"s{key}") for key in keys]
            view(classic, rows)
            limit = chance.randrange(100)
            classic.sql(
                f"""MERGE INTO db.t USING source s ON t.a = s.a
                WHEN MATCHED AND s.b < {limit} THEN DELETE WHEN MATCHED THEN UPDATE SET b = s.b + t.b
                WHEN NOT MATCHED AND s.b >= {limit} THEN INSERT *
                WHEN NOT MATCHED BY SOURCE AND t.b % 2 = 0 THEN UPDATE SET c = concat(c, '-')"""
            )
            given, before = {row[0]: row for row in rows}, set(model)
            for key, old in list(model.items()):
                if key in given and given[key][1] < limit:
                    del model[key]
                elif key in given:
                    model[key] = (key, given[key][1] + old[1], old[2])
                elif old[1] % 2 == 0:
                    model[key] = (key, old[1], f"{old[2]}-")
            model.update({key: row for key, row in given.items() if key not in before and row[1] >= limit})
        assert content(classic) == sorted(model.values(), key=repr)
        classic.sql("DROP TABLE db.t")
