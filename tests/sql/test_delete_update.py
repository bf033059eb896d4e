"""DELETE and UPDATE on lake tables: which rows, what is refused, and that each is one commit."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from tests.profile import first, later, pairs

import bucketlake
from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.spark.read import reader
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark

Row = tuple[object, ...]


def content(lake: bucketlake.Lake, table: str = "db.t") -> list[Row]:
    return sorted((tuple(row) for row in lake.sql(f"SELECT * FROM {table}").collect()), key=repr)


def keyed(lake: bucketlake.Lake, more: str = "", partition: str = "") -> None:
    clause = f"PARTITIONED BY ({partition})" if partition else ""
    lake.sql(
        f"CREATE TABLE db.t (id INT, name STRING, dt STRING) {clause} "
        f"TBLPROPERTIES ('primary-key' = 'id{',' + partition if partition else ''}', 'bucket' = '2'{more})"
    )
    lake.sql("INSERT INTO db.t VALUES (1, 'a', '11'), (2, 'b', '22'), (3, 'c', '33'), (4, null, '33')")


def snapshots(lake: bucketlake.Lake) -> int:
    newest = lake.table("db.t").latest_snapshot()
    return 0 if newest is None else newest.id


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("id = 1", [2, 3, 4]),
        ("id IN (1, 2)", [3, 4]),
        ("name <> 'a'", [1, 4]),
        ("t.id = 1 OR t.name IS NULL", [2, 3]),
        ("upper(name) = 'B'", [1, 3, 4]),
        ("id IN (SELECT max(id) FROM db.t)", [1, 2, 3]),
        ("EXISTS (SELECT * FROM db.t AS o WHERE o.id = t.id + 1)", [4]),
        ("id NOT IN (SELECT id FROM wanted)", [1, 3]),
        ("id > 10", [1, 2, 3, 4]),
        ("db.t.dt = '33'", [1, 2]),
    ],
)
def test_delete_finds_its_rows(lake: bucketlake.Lake, condition: str, left: list[int]) -> None:
    keyed(lake)
    lake.spark.createDataFrame([(1,), (3,)], "id int").createOrReplaceTempView("wanted")
    before = snapshots(lake)
    shown = lake.sql(f"DELETE FROM db.t WHERE {condition}")
    assert shown.collect() == []
    assert [row[0] for row in content(lake)] == left
    assert snapshots(lake) <= before + 1
    if len(left) < 4:
        newest = lake.table("db.t").latest_snapshot()
        assert newest is not None and newest.operation == "DELETE"


def test_delete_takes_an_alias(lake: bucketlake.Lake) -> None:
    keyed(lake)
    lake.sql("DELETE FROM db.t AS x WHERE x.id = 1")
    lake.sql("delete from db.t y where y.id = 2;")
    assert [row[0] for row in content(lake)] == [3, 4]


def test_delete_without_condition_empties_the_table_by_metadata(lake: bucketlake.Lake) -> None:
    keyed(lake)
    lake.sql("DELETE FROM db.t")
    assert content(lake) == []
    newest = lake.table("db.t").latest_snapshot()
    assert newest is not None and newest.commit_kind.value == "OVERWRITE" and newest.total_record_count == 0


@pytest.mark.parametrize(
    "condition", ["dt = '33'", "dt IN (SELECT dt FROM db.t WHERE id = 3)", "dt > '22' AND dt IS NOT NULL"]
)
def test_delete_of_whole_partitions_is_metadata_only(lake: bucketlake.Lake, condition: str) -> None:
    keyed(lake, partition="dt")
    lake.sql(f"DELETE FROM db.t WHERE {condition}")
    assert [row[0] for row in content(lake)] == [1, 2]
    newest = lake.table("db.t").latest_snapshot()
    assert newest is not None and newest.commit_kind.value == "OVERWRITE" and newest.delta_record_count == -2


def test_delete_on_partition_columns_by_chance_looks_at_rows(lake: bucketlake.Lake) -> None:
    keyed(lake, partition="dt")
    lake.sql("DELETE FROM db.t WHERE dt = '33' AND rand() < 0")
    assert len(content(lake)) == 4


def test_delete_of_a_null_partition(lake: bucketlake.Lake) -> None:
    lake.sql(
        "CREATE TABLE db.t (id INT, v INT, dt STRING) PARTITIONED BY (dt) "
        "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')"
    )
    lake.sql("INSERT INTO db.t VALUES (1, 1, null), (2, 2, 'x')")
    lake.sql("DELETE FROM db.t WHERE dt IS NULL")
    assert content(lake) == [(2, 2, "x")]


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        ("SET name = 'n' WHERE id = 1", [(1, "n", "11"), (2, "b", "22"), (3, "c", "33"), (4, None, "33")]),
        (
            "SET name = concat(name, dt), dt = name WHERE id <> 3",
            [(1, "a11", "a"), (2, "b22", "b"), (3, "c", "33"), (4, None, None)],
        ),
        (
            "AS x SET x.name = CASE WHEN x.id < 3 THEN 'low' ELSE 'high' END",
            [(1, "low", "11"), (2, "low", "22"), (3, "high", "33"), (4, "high", "33")],
        ),
        (
            "SET name = (SELECT max(o.name) FROM db.t o), dt = NULL WHERE id IN (SELECT id + 1 FROM db.t)",
            [(1, "a", "11"), (2, "c", None), (3, "c", None), (4, "c", None)],
        ),
        ("SET id = id WHERE id = 99", None),
        ("SET name = 'n' WHERE id = 99", [(1, "a", "11"), (2, "b", "22"), (3, "c", "33"), (4, None, "33")]),
    ],
)
def test_update_sets_its_rows(lake: bucketlake.Lake, statement: str, rows: list[Row] | None) -> None:
    keyed(lake)
    before = snapshots(lake)
    if rows is None:
        with pytest.raises(InvalidError, match="Can't update the primary key column"):
            lake.sql(f"UPDATE db.t {statement}")
        return
    assert lake.sql(f"UPDATE db.t {statement}").collect() == []
    assert content(lake) == rows
    assert snapshots(lake) <= before + 1


def test_update_of_a_member(lake: bucketlake.Lake) -> None:
    lake.sql(
        "CREATE TABLE db.t (id INT, s STRUCT<c1: INT, c2: STRING>) TBLPROPERTIES ('primary-key'='id', 'bucket'='1')"
    )
    lake.sql("INSERT INTO db.t VALUES (1, struct(1, 'a')), (2, struct(2, 'b'))")
    lake.sql("UPDATE db.t SET s.c2 = 'new', s.c1 = s.c1 + 10 WHERE s.c1 = 1")
    assert content(lake) == [(1, (11, "new")), (2, (2, "b"))]
    with pytest.raises(InvalidError, match="Conflicting assignments for 's'"):
        lake.sql("UPDATE db.t SET s.c2 = 'x', s = struct(1, 'x')")


@pytest.mark.parametrize(
    "options", ["'primary-key'='id'", "'bucket'='-1'", "'row-tracking.enabled'='true','data-evolution.enabled'='true'"]
)
def test_a_member_of_a_null_row_is_set(lake: bucketlake.Lake, options: str) -> None:
    """The assignment was lost: a null ROW stayed null."""
    lake.sql(f"CREATE TABLE db.t (id INT, s STRUCT<a: INT, r: STRUCT<b: INT, c: STRING>>) TBLPROPERTIES ({options})")
    lake.sql("INSERT INTO db.t VALUES (1, NULL), (2, struct(2, NULL)), (3, struct(3, struct(4, 'x')))")
    lake.sql("UPDATE db.t SET s.r.b = id + 10, s.a = 7 WHERE id < 3")
    assert content(lake) == [(1, (7, (11, None))), (2, (7, (12, None))), (3, (3, (4, "x")))]
    lake.sql("UPDATE db.t x SET x.s.r.c = CAST(x.s.r.b AS STRING)")
    assert [row[1][1][1] for row in content(lake)] == ["11", "12", "4"]


def test_names_that_differ_in_case_are_others_where_the_session_says_so(classic: Lake) -> None:
    lake = classic
    merge = "MERGE INTO db.t t USING (SELECT 1 AS k, 'y' AS S) q ON t.k = q.k WHEN MATCHED THEN UPDATE SET "
    lake.spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        lake.sql("CREATE TABLE db.t (k INT, s STRING, r STRUCT<a: INT, A: INT>)")
        lake.sql("INSERT INTO db.t VALUES (1, 'x', named_struct('a', 1, 'A', 2))")
        for statement in (
            "UPDATE db.t SET S = 'y'",
            "UPDATE db.t AS x SET X.s = 'y'",
            "UPDATE db.t SET R.a = 7",
            merge + "S = q.S",
            merge + "T.s = q.S",
            merge + "s = q.S WHEN NOT MATCHED THEN INSERT (K, s) VALUES (q.k, q.S)",
        ):
            with pytest.raises(InvalidError, match="no such column"):
                lake.sql(statement)
        with pytest.raises(InvalidError, match="members of ROW"):
            lake.sql("UPDATE db.t SET s.A = 7")
        lake.sql("UPDATE db.t SET r.A = 7, s = 'z'")
        assert [tuple(row) for row in lake.sql("SELECT * FROM db.t").collect()] == [(1, "z", (1, 7))]
    finally:
        lake.spark.conf.unset("spark.sql.caseSensitive")
    lake.sql("UPDATE db.t AS x SET X.S = 'y' WHERE K = 1")
    assert [row.s for row in lake.sql("SELECT * FROM db.t").collect()] == ["y"]


def test_a_table_goes_before_a_column_of_its_name(lake: bucketlake.Lake) -> None:
    """`t.s` is the column s of t, not the member s of a column t, as everywhere in Spark."""
    lake.sql("CREATE TABLE db.t (id INT, s INT, t STRUCT<s: INT, r: INT>) TBLPROPERTIES ('primary-key' = 'id')")
    lake.sql("INSERT INTO db.t VALUES (1, 1, struct(2, 3))")
    lake.sql("UPDATE db.t SET t.s = t.s + 10, t.r = 4")
    assert content(lake) == [(1, 11, (2, 4))]
    lake.sql("UPDATE db.t SET db.t.s = 12, t.t.s = 5")
    assert content(lake) == [(1, 12, (5, 4))]
    lake.sql("MERGE INTO db.t x USING (SELECT 1 AS id) s ON x.id = s.id WHEN MATCHED THEN UPDATE SET x.s = 7, t.s = 8")
    assert content(lake) == [(1, 7, (8, 4))]


def test_update_moves_between_partitions_even_onto_each_other(lake: bucketlake.Lake) -> None:
    lake.sql(
        "CREATE TABLE db.t (pk INT, v INT, pt INT) PARTITIONED BY (pt) "
        "TBLPROPERTIES ('primary-key' = 'pk', 'bucket' = '2')"
    )
    lake.sql("INSERT INTO db.t VALUES (1, 10, 1), (1, 11, 2), (2, 20, 1), (3, 30, null)")
    lake.sql("UPDATE db.t SET pt = CASE pt WHEN 1 THEN 2 WHEN 2 THEN 1 ELSE 5 END WHERE pk <> 2")
    assert content(lake) == [(1, 10, 2), (1, 11, 1), (2, 20, 1), (3, 30, 5)]


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("UPDATE db.t SET id = 5 WHERE name = 'a'", InvalidError, "Can't update the primary key column."),
        ("UPDATE db.t SET nope = 5", InvalidError, "no such column"),
        ("UPDATE db.t SET name = 'a', NAME = 'b'", InvalidError, "Conflicting assignments"),
        ("UPDATE db.t SET name", InvalidError, "expected ="),
        ("UPDATE db.t SET name = WHERE id = 1", InvalidError, "needs an expression"),
        ("DELETE db.t", InvalidError, "expected FROM"),
        ("DELETE FROM db.t WHERE", InvalidError, "needs a condition"),
    ],
)
def test_what_is_refused_leaves_the_table(
    lake: bucketlake.Lake, statement: str, error: type[Exception], message: str
) -> None:
    keyed(lake)
    before = content(lake), snapshots(lake)
    with pytest.raises(error, match=message):
        lake.sql(statement)
    assert (content(lake), snapshots(lake)) == before


def test_a_value_that_does_not_fit_fails_the_update(lake: bucketlake.Lake) -> None:
    keyed(lake)
    before = snapshots(lake)
    with pytest.raises(Exception, match="INVALID_ARRAY_INDEX"):
        lake.sql("UPDATE db.t SET name = array('a')[id + 5]")
    assert snapshots(lake) == before


def test_the_handle_deletes_and_updates(lake: bucketlake.Lake) -> None:
    keyed(lake)
    table = lake.table("db.t")
    assert table.update({"name": "concat(name, '!')"}, where="upper(name) IN ('A', 'B')") is not None
    assert table.delete("length(name) = 1") is not None
    assert table.delete("id = 99") is None
    assert content(lake) == [(1, "a!", "11"), (2, "b!", "22"), (4, None, "33")]
    for nothing in (None, ""):
        with pytest.raises(InvalidError):
            table.delete(nothing)  # type: ignore[arg-type]
    assert content(lake) != []
    assert table.delete("true") is not None
    assert content(lake) == []


def test_random_statements_leave_what_a_dict_has(lake: bucketlake.Lake, tmp_path: Path) -> None:
    """Inserts, deletes and moving updates against a dict by (pk, pt)."""
    chance = random.Random(4)
    lake.sql(
        "CREATE TABLE db.t (pk INT, v INT, pt INT) PARTITIONED BY (pt) "
        "TBLPROPERTIES ('primary-key' = 'pk', 'bucket' = '2')"
    )
    model: dict[tuple[int, int], int] = {}
    for _ in range(8):
        kind, low = chance.choice(["insert", "delete", "update", "move"]), chance.randrange(8)
        if kind == "insert":
            rows = {(chance.randrange(10), chance.randrange(3)): chance.randrange(100) for _ in range(6)}
            listed = ", ".join(f"({pk}, {v}, {pt})" for (pk, pt), v in rows.items())
            lake.sql(f"INSERT INTO db.t VALUES {listed}")
            model |= rows
        elif kind == "delete":
            lake.sql(f"DELETE FROM db.t WHERE abs(pk) >= {low}")
            model = {key: v for key, v in model.items() if key[0] < low}
        elif kind == "update":
            lake.sql(f"UPDATE db.t SET v = v + 1 WHERE pk <= {low}")
            model = {key: v + (key[0] <= low) for key, v in model.items()}
        else:
            lake.sql(f"UPDATE db.t SET pt = (pt + 1) % 3 WHERE pk > {low}")
            model = {(pk, (pt + 1) % 3 if pk > low else pt): v for (pk, pt), v in model.items()}
        assert content(lake) == sorted(((pk, v, pt) for (pk, pt), v in model.items()), key=repr)


# ---- append tables

APPEND = {"unaware": "'bucket' = '-1'", "bucketed": "'bucket' = '2', 'bucket-key' = 'id'"}


def append(lake: bucketlake.Lake, options: str, more: str = "") -> None:
    lake.sql(f"CREATE TABLE db.t (id INT, name STRING, pt INT) PARTITIONED BY (pt) TBLPROPERTIES ({options}{more})")
    lake.sql("INSERT INTO db.t VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 2)")
    lake.sql("INSERT INTO db.t VALUES (4, null, 2), (1, 'again', 2)")


CONDITIONS: list[tuple[str, list[int]]] = [
    ("id = 1", [2, 3, 4]),
    ("name = 'b'", [1, 1, 3, 4]),
    ("upper(t.name) IN ('A', 'B')", [1, 3, 4]),
    ("id IN (SELECT max(id) FROM db.t)", [1, 1, 2, 3]),
    ("EXISTS (SELECT * FROM db.t o WHERE o.id = t.id AND o.pt < t.pt)", [1, 2, 3, 4]),
    ("pt = 2", [1, 2]),
    ("pt IN (SELECT max(pt) FROM db.t)", [1, 2]),
    ("true", []),
]


@pytest.mark.parametrize(("case", "vectors", "kind"), later(pairs(CONDITIONS, ["false", "true"], list(APPEND)), 9))
def test_delete_from_append_tables(
    classic: bucketlake.Lake, case: tuple[str, list[int]], vectors: str, kind: str
) -> None:
    condition, left = case
    append(classic, APPEND[kind], f", 'deletion-vectors.enabled' = '{vectors}'")
    before = snapshots(classic)
    classic.sql(f"DELETE FROM db.t WHERE {condition}")
    assert sorted(row[0] for row in content(classic)) == left  # type: ignore[type-var]
    newest = classic.table("db.t").latest_snapshot()
    assert newest is not None and newest.id == before + 1 and newest.commit_kind.value == "OVERWRITE"


@pytest.mark.parametrize("options", APPEND.values(), ids=APPEND)
@pytest.mark.parametrize("vectors", later(["true", "false"], 1))
def test_update_of_append_tables(lake: bucketlake.Lake, options: str, vectors: str) -> None:
    append(lake, options, f", 'deletion-vectors.enabled' = '{vectors}'")
    before = snapshots(lake)
    lake.sql("UPDATE db.t x SET name = concat(x.name, '!'), id = id + 10 WHERE upper(x.name) >= 'B' OR id = 1")
    assert snapshots(lake) == before + 1
    assert content(lake) == [(11, "a!", 1), (11, "again!", 2), (12, "b!", 1), (13, "c!", 2), (4, None, 2)]
    lake.sql("UPDATE db.t SET pt = 3, name = (SELECT max(name) FROM db.t) WHERE id = 4")
    assert content(lake) == [(11, "a!", 1), (11, "again!", 2), (12, "b!", 1), (13, "c!", 2), (4, "c!", 3)]
    assert lake.table("db.t").update({"name": "'z'"}, where="length(name) > 3") is not None
    assert lake.table("db.t").delete("length(name) = 2 AND id > 4") is not None
    assert content(lake) == [(11, "z", 2), (4, "c!", 3)]


@pytest.mark.parametrize("kind", first(["parquet", "orc", "avro"], 1))
def test_conditions_of_sparks_own_over_larger_append_tables(
    lake: bucketlake.Lake, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(reader, "SMALL_ROWS", 0)
    lake.sql(
        "CREATE TABLE db.t (id INT, `v``1` STRING, `a.t` TIMESTAMP) "
        f"TBLPROPERTIES ('bucket' = '-1', 'file.format' = '{kind}', 'deletion-vectors.enabled' = 'true')"
    )
    lake.sql("INSERT INTO db.t SELECT id, concat('v', id), timestamp_micros(id) FROM range(3000)")
    lake.sql("DELETE FROM db.t WHERE id < 10")
    lake.sql("DELETE FROM db.t WHERE pmod(id, 2) = 1 AND length(`v``1`) > 1")
    lake.sql("UPDATE db.t t SET `v``1` = upper(t.`v``1`), `a.t` = `a.t` + INTERVAL 1 SECOND WHERE pmod(t.id, 4) = 0")
    found = lake.sql("SELECT id, `v``1`, unix_micros(`a.t`) FROM db.t ORDER BY id").collect()
    kept = range(10, 3000, 2)
    assert [row[0] for row in found] == list(kept)
    assert [row[1] for row in found] == [("V" if i % 4 == 0 else "v") + str(i) for i in kept]
    assert [row[2] for row in found] == [i + (1_000_000 if i % 4 == 0 else 0) for i in kept]


def test_few_rows_of_larger_keyed_tables(lake: bucketlake.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "SMALL_ROWS", 0)
    lake.sql(
        "CREATE TABLE db.t (id INT, v STRING, n INT, w STRING, x STRING) "
        "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')"
    )
    for shift in (0, 20):
        lake.sql(f"INSERT INTO db.t SELECT id + {shift}, concat('v', id), id, 'w', 'x' FROM range(40)")
    lake.sql("UPDATE db.t t SET v = upper(t.v), n = n + id WHERE t.id % 10 = 5")
    lake.sql("UPDATE db.t SET w = concat(w, n) WHERE n = 7")
    assert lake.table("db.t").update({"x": "v"}, where="id IN (1, 2)") is not None
    lake.sql("DELETE FROM db.t WHERE pmod(id, 2) = 0")
    expected = []
    for key in range(1, 60, 2):
        number = key if key < 20 else key - 20
        changed = key % 10 == 5
        row = (f"{'V' if changed else 'v'}{number}", number + key * changed, "w7" if number == 7 else "w")
        expected.append((key, *row, "v1" if key == 1 else "x"))
    assert sorted(map(tuple, lake.sql("SELECT * FROM db.t").collect())) == expected


@pytest.mark.parametrize(
    ("options", "rewrites", "updates"),
    later(
        [
            ("'merge-engine' = 'partial-update', 'partial-update.remove-record-on-delete' = 'true'", False, None),
            ("'merge-engine' = 'aggregation'", True, "aggregation can not"),
            ("'merge-engine' = 'first-row'", True, "first-row can not"),
            ("", False, None),
            ("'merge-engine' = 'partial-update'", True, None),
            (
                "'merge-engine' = 'aggregation', 'aggregation.remove-record-on-delete' = 'true'",
                False,
                "can not support",
            ),
        ],
        3,
    ),
)
def test_merge_engines(classic: bucketlake.Lake, options: str, rewrites: bool, updates: str | None) -> None:
    more = f", {options}" if options else ""
    classic.sql(
        "CREATE TABLE db.t (id INT, v INT, pt INT) PARTITIONED BY (pt) "
        f"TBLPROPERTIES ('primary-key' = 'id,pt', 'bucket' = '1', 'write-only' = 'true'{more})"
    )
    classic.sql("INSERT INTO db.t VALUES (1, 10, 1), (2, 20, 1), (3, 30, 2), (4, 40, 1), (5, 50, 1)")
    if updates is None:
        classic.sql("UPDATE db.t SET v = v + 1 WHERE id = 1")
    else:
        with pytest.raises(UnsupportedError, match=updates):
            classic.sql("UPDATE db.t SET v = v + 1 WHERE id = 1")
    classic.sql("INSERT INTO db.t VALUES (4, 40, 1), (5, 50, 1)")
    if rewrites:
        with pytest.raises(UnsupportedError, match="please use 'COMPACT' procedure first"):
            classic.sql("DELETE FROM db.t WHERE abs(id) = 2")
        classic.sql("CALL sys.compact(table => 'db.t', options => 'write-only=false')")
    rows = content(classic)
    classic.sql("DELETE FROM db.t WHERE abs(id) = 2")
    classic.sql("DELETE FROM db.t WHERE id = 5")
    assert content(classic) == [row for row in rows if row[0] not in (2, 5)]
    assert [row[0] for row in content(classic)] == [1, 3, 4]
    if rewrites:
        assert {found.file.level for found in classic.table("db.t").files()} == {5}
    classic.sql("INSERT INTO db.t VALUES (2, 7, 1)")
    classic.sql("CALL sys.compact(table => 'db.t', options => 'write-only=false')")
    assert (2, 7, 1) in content(classic)
    classic.sql("DELETE FROM db.t WHERE pt = 2")  # metadata alone: every engine
    assert (3, 30, 2) not in content(classic)


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM db.t WHERE abs(id) = 2",
        "DELETE FROM db.t WHERE id = 2",
        "UPDATE db.t SET name = upper(name) WHERE abs(id) = 2",
        "MERGE INTO db.t USING (SELECT 2 AS id) AS s ON t.id = s.id AND t.name <> 'z' WHEN MATCHED THEN DELETE",
    ],
)
def test_a_change_that_finds_nothing_shows_what_waits_for_its_compaction(classic: bucketlake.Lake, change: str) -> None:
    keyed(classic, ", 'deletion-vectors.enabled' = 'true'")
    classic.table("db.t").delete("id = 2", write_only=True)  # as if it had died before it compacted
    assert [row[0] for row in content(classic)] == [1, 2, 3, 4]
    classic.sql(change)
    assert [row[0] for row in content(classic)] == [1, 3, 4]


def test_conditions_are_read_as_written(classic: bucketlake.Lake) -> None:
    classic.sql("CREATE TABLE db.t (id INT, name STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    names = ["O'Brien", 'a"b', "c\\d", "x%", "plain", "last"]
    listed = ", ".join(
        f"({place}, '{name.replace(chr(92), chr(92) * 2).replace(chr(39), chr(39) * 2)}')"
        for place, name in enumerate(names)
    )
    classic.sql(f"INSERT INTO db.t VALUES {listed}")
    classic.sql("UPDATE db.t SET name = concat(name, '!') WHERE name = 'O''Brien'")
    classic.sql('UPDATE db.t SET name = concat(name, \'!\') WHERE log10(id) = 0 AND name = "a""b"')
    assert [row[1] for row in content(classic)] == ["O'Brien!", 'a"b!', *names[2:]]
    classic.sql("DELETE FROM db.t WHERE name IN ('O''Brien!', r'c\\d')")
    classic.sql("DELETE FROM db.t WHERE name = 'x' '%'")
    classic.sql("DELETE FROM db.t WHERE name LIKE 'pl%' AND rand() >= 0")
    assert [row[0] for row in content(classic)] == [1, 5]


@pytest.mark.parametrize("keys", ["", "'primary-key' = 'k', 'bucket' = '1'", "'bucket' = '-1'"])
def test_what_spark_refuses_is_refused_where_no_row_is_found_too(classic: Lake, keys: str) -> None:
    """UPDATE with a value of another type, and a MERGE that only writes rows of a source without any, did nothing."""
    classic.sql("CREATE TABLE db.none (k INT NOT NULL, d DATE, r STRUCT<m: DATE>)")
    classic.sql("CREATE TABLE db.t (k INT NOT NULL, d DATE)" + (f" TBLPROPERTIES ({keys})" if keys else ""))
    for count in range(2):
        for statement in (
            "UPDATE db.t SET k = k + 1 WHERE d IN (1, DATE'2020-01-01')",
            "UPDATE db.t SET d = k WHERE k = 99",
            "UPDATE db.none SET r.m = k",
            "DELETE FROM db.t WHERE nowhere > 1",
            "MERGE INTO db.t USING db.none s ON t.k = s.k WHEN MATCHED THEN UPDATE SET k = s.k, d = s.nowhere "
            "WHEN NOT MATCHED THEN INSERT (k, d) VALUES (s.k, s.nowhere)",
        ):
            with pytest.raises((AnalysisException, InvalidError)):
                classic.sql(statement)
        for values in ({"d": "k"}, {"d": "nowhere"}, {"d": F.col("k")}):
            with pytest.raises((AnalysisException, InvalidError)):
                classic.table("db.t").update(values, "k = 99")
        assert snapshots(classic) == count
        classic.sql("INSERT INTO db.t VALUES (1, NULL)")


@pytest.mark.parametrize("keys", ["'deletion-vectors.enabled' = 'true'", "'primary-key' = 'k', 'bucket' = '1'"])
def test_values_and_conditions_are_of_one_row(classic: Lake, keys: str) -> None:
    """A generator in SET made several rows of one (`explode`), or one of them at random where there is a key."""
    classic.sql(f"CREATE TABLE db.t (k INT, v INT) TBLPROPERTIES ({keys})")
    classic.sql("INSERT INTO db.t VALUES (1, 10), (2, 20)")
    source = classic.spark.createDataFrame([(2, 5), (3, 6)], "k INT, v INT")
    source.createOrReplaceTempView("s")
    two, rank = "explode(array(7, 8))", "row_number() OVER (ORDER BY k)"
    merge = "MERGE INTO db.t USING s ON t.k = s.k WHEN"
    table = classic.table("db.t")
    builder = table.merge(source, "t.k = source.k")
    for call, condition in (
        (lambda: classic.sql(f"UPDATE db.t SET v = {two}"), "UNSUPPORTED_GENERATOR.OUTSIDE_SELECT"),
        (lambda: classic.sql(f"UPDATE db.t SET v = {rank} WHERE k = 1"), "UNSUPPORTED_EXPR_FOR_OPERATOR"),
        (lambda: classic.sql("UPDATE db.t SET v = max(v)"), "UNSUPPORTED_EXPR_FOR_OPERATOR"),
        (lambda: table.update({"v": two}), "UNSUPPORTED_GENERATOR.OUTSIDE_SELECT"),
        (lambda: table.update({"v": F.explode(F.array(F.lit(7), F.lit(8)))}), "UNSUPPORTED_GENERATOR.OUTSIDE_SELECT"),
        (lambda: classic.sql(f"{merge} MATCHED THEN UPDATE SET v = {two}"), "UNSUPPORTED_GENERATOR.OUTSIDE_SELECT"),
        (
            lambda: classic.sql(f"{merge} NOT MATCHED THEN INSERT (k, v) VALUES ({two}, 1)"),
            "UNSUPPORTED_GENERATOR.OUTSIDE_SELECT",
        ),
        (
            lambda: classic.sql(f"{merge} MATCHED AND row_number() OVER (ORDER BY s.k) = 1 THEN DELETE"),
            "UNSUPPORTED_EXPR_FOR_OPERATOR",
        ),
        (
            lambda: builder.whenNotMatched().insert({"k": F.explode(F.array(F.lit(7), F.lit(8)))}).merge(),
            "UNSUPPORTED_GENERATOR.OUTSIDE_SELECT",
        ),
    ):
        with pytest.raises(AnalysisException) as refused:
            call()
        assert refused.value.getCondition() == condition and isinstance(refused.value, InvalidError)
    assert content(classic) == [(1, 10), (2, 20)] and snapshots(classic) == 1
    classic.sql("UPDATE db.t SET v = v + (SELECT max(v) FROM s) WHERE k IN (SELECT explode(array(2, 3)))")
    assert content(classic) == [(1, 10), (2, 26)]
