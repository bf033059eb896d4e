"""Counts and bounds from metadata: answered without the files where the whole statement is proved, and always as the
rows answer."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from bucketlake.spark.session import Lake

Case = tuple[str, list[tuple[Any, ...]], bool]  # a query, its rows, whether metadata answers it


def rows(lake: Lake, text: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in lake.sql(text).collect()), key=str)


def check(lake: Lake, table: str, cases: list[Case]) -> None:
    """Queries that read rows first; then the data files are out of the way."""
    for text, expected, metadata in cases:
        if not metadata:
            assert rows(lake, text) == expected, text
    files = [path for path in Path(lake.table(table).path).rglob("data-*") if path.is_file()]
    lake.kept.cache.clear()
    hidden = [path.rename(path.with_name(f".{path.name}")) for path in files]
    try:
        for text, expected, metadata in cases:
            if metadata:
                assert rows(lake, text) == expected, text
            elif files:
                with pytest.raises(Exception, match="data-"):
                    lake.sql(text).collect()
    finally:
        for path, original in zip(hidden, files, strict=True):
            path.rename(original)


def test_append_table(lake: Lake) -> None:
    lake.sql("CREATE TABLE db.t (i INT, s STRING, f DOUBLE, d DATE)")
    empty = lake.sql("SELECT COUNT(*), MIN(i), count(1) AS m FROM db.t")
    assert (empty.columns, empty.collect()[0][:]) == (["count(1)", "min(i)", "m"], (0, None, 0))
    assert lake.sql("SELECT count(*) FROM db.t").columns == ["count(1)"]
    lake.sql("INSERT INTO db.t VALUES (1, 'x', 1.5, DATE'2025-01-01'), (3, 'a', 0.5, NULL), (NULL, NULL, NULL, NULL)")
    late = datetime.date(2025, 1, 1)
    check(
        lake,
        "db.t",
        [
            ("SELECT count(*) FROM db.t", [(3,)], True),
            ("SELECT count(*) + 1 AS a, count(1) FROM db.t AS x LIMIT 5", [(4, 3)], True),
            ("SELECT COUNT(*), MIN(i), MAX(T.I) * 2, max(d) FROM db.t", [(3, 1, 6, late)], True),
            ("SELECT count(*) FROM db.t HAVING count(*) > 3", [], True),
            ("SELECT count(*) FROM db.t WHERE i = 3", [(1,)], False),
            ("SELECT count(i) FROM db.t", [(2,)], False),
            ("SELECT min(s), max(f) FROM db.t", [("a", 1.5)], False),
            ("SELECT count(DISTINCT i), count(*) FROM db.t", [(2, 3)], False),
            ("SELECT count(*), sum(i) FROM db.t", [(3, 4)], False),
            ("SELECT count(*) FILTER (WHERE i = 3) AS n FROM db.t", [(1,)], False),
            ("SELECT count(*) OVER () AS n FROM db.t", [(3,)] * 3, False),
            ("SELECT count(*) FROM db.t, db.t AS u", [(9,)], False),
            ("SELECT (SELECT count(*) FROM db.t) AS n", [(3,)], False),
            ("SELECT i, count(*) FROM db.t GROUP BY i", [(1, 1), (3, 1), (None, 1)], False),
        ],
    )
    lake.sql("ALTER TABLE db.t ADD COLUMN n INT")
    lake.sql("INSERT INTO db.t VALUES (9, 'z', 1.0, NULL, 5)")
    check(
        lake,
        "db.t",
        [
            ("SELECT count(*), max(i) FROM db.t", [(4, 9)], True),
            ("SELECT count(*), max(n) FROM db.t", [(4, 5)], False),
            ("SELECT count(*) FROM db.t VERSION AS OF 1", [(3,)], True),
        ],
    )


def test_partitions(classic: Lake) -> None:
    classic.sql("CREATE TABLE db.p (i INT, b BIGINT) PARTITIONED BY (day STRING, hour INT)")
    classic.sql("INSERT INTO db.p VALUES (1, 100, 'a', 1), (2, NULL, 'a', 1), (3, 300, 'b', 3), (NULL, 400, 'b', NULL)")
    check(
        classic,
        "db.p",
        [
            ("SELECT count(*) FROM db.p GROUP BY day", [(2,), (2,)], True),
            ("SELECT day, count(*) c, hour, min(i), max(b) FROM db.p GROUP BY day, hour",
             [("a", 2, 1, 1, 100), ("b", 1, 3, 3, 300), ("b", 1, None, None, 400)], True),
            ("SELECT count(*) FROM db.p WHERE day = 'b' AND hour IS NULL", [(1,)], True),
            ("SELECT day, count(*) FROM db.p WHERE hour IN (1, 3) GROUP BY 1 ORDER BY count(*) DESC LIMIT 1",
             [("a", 2)], True),
            ("SELECT max(day), min(hour) FROM db.p", [("b", 1)], True),
            ("SELECT count(*) FROM db.p WHERE i > 1", [(2,)], False),
        ],
    )  # fmt: skip


@pytest.mark.parametrize("keyed", [False, True])
def test_deletions(classic: Lake, keyed: bool) -> None:
    key = "'primary-key' = 'id'" if keyed else "'bucket-key' = 'id'"
    classic.sql(
        f"CREATE TABLE db.t (id INT) TBLPROPERTIES ({key}, 'bucket' = '1', 'deletion-vectors.enabled' = 'true')"
    )
    classic.sql("INSERT INTO db.t SELECT CAST(id AS INT) FROM range(100)")
    classic.sql("DELETE FROM db.t WHERE id >= 90")
    check(classic, "db.t", [("SELECT count(*) FROM db.t", [(90,)], True), ("SELECT max(id) FROM db.t", [(89,)], False)])


def test_merged_rows_are_counted_after_merging(classic: Lake) -> None:
    classic.sql(
        "CREATE TABLE db.k (id INT, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'write-only' = 'true')"
    )
    classic.sql("INSERT INTO db.k VALUES (1, 1), (2, 2)")
    check(classic, "db.k", [("SELECT count(*) FROM db.k", [(2,)], True)])
    classic.sql("INSERT INTO db.k VALUES (2, 3)")
    check(classic, "db.k", [("SELECT count(*), max(v) FROM db.k", [(2, 3)], False)])
    classic.sql("CREATE TABLE db.n (i INT) TBLPROPERTIES ('metadata.stats-mode' = 'none')")
    classic.sql("INSERT INTO db.n VALUES (1), (2)")
    check(
        classic,
        "db.n",
        [("SELECT count(*), max(i) FROM db.n", [(2, 2)], False), ("SELECT count(*) FROM db.n", [(2,)], True)],
    )


@pytest.mark.parametrize("between", ["OR", "AND"])
def test_a_condition_of_many_parts(classic: Lake, between: str) -> None:
    """Each part is a level deeper than the one before."""
    classic.sql("CREATE TABLE db.t (i INT)")
    classic.sql("INSERT INTO db.t VALUES (1), (700)")
    parts = [f"i = {number} OR i + 1 = {number}" for number in range(3, 703)]
    text = f" {between} ".join(parts if between == "OR" else [f"NOT ({part})" for part in parts])
    found = [(1,)]
    assert rows(classic, f"SELECT count(*) FROM db.t WHERE {text}") == found
