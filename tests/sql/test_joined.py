"""What a small table's keys leave out of a large one: which equalities say it, and which files a query opens."""

from __future__ import annotations

import pyarrow as pa
import pytest
from sqlglot import exp
from tests.sql.test_pushdown import settings

from bucketlake.spark.session import Lake
from bucketlake.sql.query import joined
from bucketlake.sql.query.joined import meetings
from bucketlake.sql.query.parser import Source, parse
from bucketlake.sql.query.pushdown import proof
from bucketlake.types.model import DataField
from bucketlake.types.parse import parse_type_text

TABLES = {
    "f": {"k": "BIGINT", "dt": "STRING", "day": "DATE", "n": "DECIMAL(10,2)", "x": "DOUBLE", "c": "CHAR(3)"},
    "d": {"k": "INT", "dt": "STRING", "day": "DATE", "n": "DECIMAL(12,2)", "x": "DOUBLE", "c": "CHAR(3)", "m": "INT"},
}
FIELDS = {
    table: [DataField(at, name, parse_type_text(kind)) for at, (name, kind) in enumerate(columns.items())]
    for table, columns in TABLES.items()
}


def met(statement: str, table: str = "f", **given: str) -> list[str]:
    """Columns of a table that have to meet another's, as `column=key`."""
    parsed = parse(statement)
    found = proof(parsed, settings(**given)) if parsed is not None else None
    if parsed is None or found is None:
        return []
    nodes = [node for node in parsed.tree.find_all(exp.Table) if node.name.lower() in FIELDS]
    sources = [Source(node, node.alias_or_name, FIELDS[node.name.lower()]) for node in nodes]
    at = next(at for at, node in enumerate(nodes) if node.name == table)
    return [f"{one.column.name}={one.key.name}" for one in meetings(found, sources, at)]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT 1 FROM f JOIN d ON f.dt = d.dt", ["dt=dt"]),
        ("SELECT 1 FROM f JOIN d ON d.k = f.k AND f.day = d.day", ["k=k", "day=day"]),
        ("SELECT 1 FROM f, d WHERE (F.dt = D.DT) AND d.m = 1", ["dt=dt"]),
        ("SELECT 1 FROM f JOIN d USING (dt, k)", ["dt=dt", "k=k"]),
        ("SELECT 1 FROM d JOIN f USING (dt)", ["dt=dt"]),
        ("SELECT 1 FROM f LEFT SEMI JOIN d ON f.dt = d.dt", ["dt=dt"]),
        ("SELECT 1 FROM d LEFT JOIN f ON f.dt = d.dt", ["dt=dt"]),
        ("SELECT 1 FROM d LEFT ANTI JOIN f ON f.dt = d.dt", ["dt=dt"]),
        ("SELECT 1 FROM f LEFT JOIN d ON f.dt = d.dt WHERE f.k = d.k", ["k=k"]),
        ("SELECT 1 FROM f WHERE dt IN (SELECT dt FROM d WHERE m = 1)", ["dt=dt"]),
        ("SELECT 1 FROM f WHERE k IN (SELECT d.m FROM d)", ["k=m"]),
        ("SELECT 1 FROM f JOIN (SELECT dt AS z, count(*) AS c FROM d GROUP BY dt) s ON s.z = f.dt", ["dt=dt"]),
        ("SELECT 1 FROM f JOIN (SELECT * FROM d WHERE m = 1) s ON s.dt = f.dt", ["dt=dt"]),
        ("WITH s AS (SELECT dt FROM d), r AS (SELECT dt FROM s) SELECT 1 FROM f JOIN r ON r.dt = f.dt", ["dt=dt"]),
        ("SELECT 1 FROM (SELECT f.k FROM f JOIN d ON f.dt = d.dt) LIMIT 1", ["dt=dt"]),
        # ---- rows without a match are shown, or mean something
        ("SELECT 1 FROM f LEFT JOIN d ON f.dt = d.dt", []),
        ("SELECT 1 FROM f LEFT ANTI JOIN d ON f.dt = d.dt", []),
        ("SELECT 1 FROM f FULL JOIN d ON f.dt = d.dt", []),
        ("SELECT 1 FROM d RIGHT JOIN f ON f.dt = d.dt", []),
        ("SELECT 1 FROM d RIGHT JOIN f USING (dt)", []),
        ("SELECT 1 FROM f JOIN d ON f.dt = d.dt RIGHT JOIN d e ON true", []),
        ("SELECT 1 FROM f WHERE dt NOT IN (SELECT dt FROM d)", []),
        ("SELECT 1 FROM f WHERE dt IN (SELECT dt FROM d) OR k = 1", []),
        ("SELECT dt IN (SELECT dt FROM d) FROM f", []),
        # ---- values that are no column's, or may be equal otherwise
        ("SELECT 1 FROM f JOIN d ON f.dt <=> d.dt", []),
        ("SELECT 1 FROM f JOIN d ON f.dt = upper(d.dt)", []),
        ("SELECT 1 FROM f JOIN d ON f.n = d.n AND f.x = d.x AND f.c = d.c AND f.dt = d.m", []),
        ("SELECT 1 FROM f WHERE dt IN (SELECT max(dt) FROM d)", []),
        ("SELECT 1 FROM f WHERE dt IN (SELECT dt FROM d UNION SELECT 'x')", []),
        ("SELECT 1 FROM f JOIN (SELECT coalesce(dt, 'x') AS dt FROM d) s ON s.dt = f.dt", []),
        ("SELECT 1 FROM f JOIN (SELECT *, 'x' AS dt FROM d) s ON s.dt = f.dt", []),
        ("SELECT 1 FROM f JOIN d AS s(k, day, dt, n, x, c, m) ON s.dt = f.dt", []),
        ("SELECT 1 FROM f JOIN (SELECT dt, k FROM d) AS s(k, dt) ON s.dt = f.dt", []),
        ("WITH s(k, dt) AS (SELECT dt, k FROM d) SELECT 1 FROM f JOIN s ON s.dt = f.dt", []),
        ("WITH RECURSIVE s AS (SELECT dt FROM d) SELECT 1 FROM f JOIN s ON s.dt = f.dt", []),
        # ---- names that may mean something else
        ("SELECT 1 FROM f JOIN d ON dt = d.dt", []),
        ("SELECT 1 FROM f JOIN d USING (dt) JOIN d e USING (k)", []),
        ("SELECT 1 FROM f NATURAL JOIN d", []),
        ("SELECT 1 FROM f JOIN d TABLESAMPLE (1 ROWS) ON f.dt = d.dt", []),
        ("SELECT 1 FROM f WHERE EXISTS (SELECT 1 FROM d WHERE d.dt = f.dt)", []),
        ("SELECT 1 FROM f LATERAL VIEW explode(array(1)) l AS dt WHERE dt IN (SELECT dt FROM d)", []),
        ("SELECT 1 FROM f WHERE f.dt IN (SELECT f.dt FROM d)", []),
    ],
)
def test_which_equalities_say_it(statement: str, expected: list[str]) -> None:
    assert met(statement) == expected


def test_names_that_differ_by_case() -> None:
    text = "SELECT 1 FROM f JOIN d ON F.dt = d.dt"
    assert met(text) == ["dt=dt"]
    assert met(text, caseSensitive="true") == []


def test_a_table_joined_with_itself() -> None:
    assert met("SELECT 1 FROM f a JOIN f b ON a.k = b.k WHERE b.dt = 'x'") == ["k=k"]
    assert met("SELECT 1 FROM f WHERE f.k = f.k") == []


@pytest.mark.spark
def test_a_query_opens_the_partitions_and_buckets_that_the_small_table_names(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joined, "WORTH_ROWS", 100)
    lake.sql(
        "CREATE TABLE db.f (k INT, v INT, dt STRING) PARTITIONED BY (dt) "
        "TBLPROPERTIES ('primary-key' = 'k,dt', 'bucket' = '4')"
    )
    lake.sql("INSERT INTO db.f SELECT CAST(id AS INT), CAST(id AS INT), concat('d', id % 10) FROM range(1000)")
    lake.sql("CREATE TABLE db.d (dt STRING, m INT)")
    lake.sql("INSERT INTO db.d VALUES ('d1', 1), ('d4', 1), ('d4', 1), ('d99', 1), (NULL, 1), ('d2', 2)")

    def opened(text: str) -> tuple[str, list[list[int]]]:
        told = lake.sql(f"EXPLAIN {text}").collect()[0][0]
        lines = [line.strip() for line in told.partition("db.f:")[2].splitlines()]
        return " ".join(lines[1:3]), [list(row) for row in lake.sql(text).collect()]

    sums = "SELECT count(*), sum(v) FROM db.f"
    two = [[200, 99_500]]
    for text in (
        f"{sums} JOIN (SELECT DISTINCT dt FROM db.d WHERE m = 1) x ON f.dt = x.dt",
        f"{sums} WHERE dt IN (SELECT dt FROM db.d WHERE m = 1)",
        f"{sums} LEFT SEMI JOIN db.d ON d.dt = f.dt AND d.m = 1",
    ):
        assert opened(text) == ("partitions: 2 of 10 files: 8 of 40", two)
    assert opened(f"{sums} WHERE dt IN (SELECT dt FROM db.d WHERE m = 3)")[0] == "partitions: 0 of 10 files: 0 of 40"
    assert opened(f"{sums} JOIN db.d ON f.k = d.m")[0] == "partitions: 2 of 10 files: 2 of 40"
    assert opened(f"{sums} WHERE dt NOT IN (SELECT dt FROM db.d WHERE m = 2)")[0].startswith("partitions: 10 of 10")
    monkeypatch.setattr(joined, "MOST_VALUES", 2)
    assert opened(f"{sums} JOIN db.d ON f.dt = d.dt WHERE m = 1")[0].startswith("partitions: 10 of 10")


@pytest.mark.spark
def test_keys_of_a_wider_type(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined, "WORTH_ROWS", 1)
    classic.sql("CREATE TABLE db.f (k TINYINT, v INT) TBLPROPERTIES ('bucket' = '4', 'bucket-key' = 'k')")
    classic.sql("INSERT INTO db.f SELECT CAST(id AS TINYINT), CAST(id AS INT) FROM range(100)")
    classic.sql("CREATE TABLE db.d (k BIGINT, n DECIMAL(20, 0))")
    classic.sql("INSERT INTO db.d VALUES (7, 7), (300, 300), (3000000000, 8), (-1, 9), (NULL, NULL)")
    for text, rows in (
        ("SELECT v FROM db.f JOIN db.d ON f.k = d.k", [7]),
        ("SELECT v FROM db.f WHERE k IN (SELECT k FROM db.d WHERE k > 200)", []),
        ("SELECT v FROM db.f JOIN db.d ON f.k = d.n", [7, 8, 9]),
    ):
        assert sorted(row.v for row in classic.sql(text).collect()) == rows, text


def facts_and_days(lake: Lake, number: int, days: str) -> None:
    lake.sql(f"CREATE TABLE db.f{number} (v INT, dt STRING) PARTITIONED BY (dt)")
    lake.sql(f"INSERT INTO db.f{number} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    lake.sql(f"CREATE TABLE db.d{number} (dt STRING) TBLPROPERTIES ('primary-key' = 'dt', 'bucket' = '1')")
    lake.sql(f"INSERT INTO db.d{number} VALUES {days}")


@pytest.mark.spark
def test_both_tables_are_read_as_of_one_moment(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The small table's keys are those of the snapshot that the query reads, not the newest ones."""
    monkeypatch.setattr(joined, "WORTH_ROWS", 1)
    facts_and_days(lake, 2, "('a'), ('b')")
    lake.sql("DELETE FROM db.d2 WHERE dt = 'a'")
    rows = lambda text: sorted(row[0] for row in lake.sql(text).collect())  # noqa: E731
    assert rows("SELECT v FROM db.f2 JOIN db.d2 ON f2.dt = d2.dt") == [2]
    assert rows("SELECT v FROM db.f2 JOIN db.d2 VERSION AS OF 1 x ON f2.dt = x.dt") == [1, 2]


@pytest.mark.spark
def test_a_commit_after_the_keys_were_read_changes_nothing(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined, "WORTH_ROWS", 1)
    facts_and_days(classic, 3, "('a')")
    known = joined.few_values
    found: list[list[str] | None] = []

    def then_another_commits(*given: object) -> list[str] | None:
        found.append(known(*given))  # type: ignore[arg-type]
        classic.catalog.table("db.d3").write_arrow(pa.table({"dt": ["b"]}))
        classic.catalog.table("db.f3").write_arrow(pa.table({"v": [4], "dt": ["a"]}))
        return found[-1]

    monkeypatch.setattr(joined, "few_values", then_another_commits)
    text = "SELECT v FROM db.f3 JOIN db.d3 ON f3.dt = d3.dt ORDER BY v"
    assert [row.v for row in classic.sql(text).collect()] == [1]
    monkeypatch.setattr(joined, "few_values", known)
    assert found == [["a"], ["a", "b", "c"]]  # each narrows the other, both as of the statement's beginning
    assert [row.v for row in classic.sql(text).collect()] == [1, 2, 4, 4]
