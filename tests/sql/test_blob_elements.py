"""ARRAY<BLOB> and MAP<K, BLOB> in statements: those of Apache Paimon's Spark tests, with the rows that it finds, and more."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.profile import later

from bucketlake.errors import BucketlakeError, InvalidError, UnsupportedError
from bucketlake.format.data import descriptor
from bucketlake.format.data.blob import is_blob
from bucketlake.spark.read import hidden, reader
from bucketlake.spark.session import Lake
from bucketlake.spark.write import column_updates as stages

pytestmark = pytest.mark.spark

EVOLVING = "'row-tracking.enabled'='true', 'data-evolution.enabled'='true'"
HELLO, YE, ABC = b"Hello", b"YE", b"ABC"


def made(lake: Lake, kind: str, options: str = "") -> None:
    lake.sql(
        f"CREATE TABLE db.t (id INT, name STRING, pictures {kind}) "
        f"TBLPROPERTIES ({EVOLVING}, 'blob-field'='pictures'{options})"
    )


def plain(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def rows(lake: Lake, text: str = "SELECT * FROM db.t ORDER BY id") -> list[tuple[Any, ...]]:
    return [tuple(plain(value) for value in row) for row in lake.sql(text).collect()]


def blobs(lake: Lake) -> set[str]:
    return {file.path for file in lake.table("db.t").refresh().files() if is_blob(file.path)}


def where_it_lies(value: bytes) -> bytes:
    """What a descriptor names."""
    (uri,), (offset,), (length,) = (list(part) for part in descriptor.parsed(pa.array([value])))
    return Path(uri.as_py().removeprefix("file:")).read_bytes()[offset : offset + length]


# ------------------------------------------------------------------------------------ statements of Paimon's tests


def test_array_blob(classic: Lake) -> None:
    made(classic, "ARRAY<BINARY>")
    classic.sql(
        "INSERT INTO db.t VALUES (1, 'paimon', array(X'48656C6C6F', CAST(NULL AS BINARY), X'5945')), "
        "(2, 'one', array(X'414243')), (3, 'null-array', CAST(NULL AS ARRAY<BINARY>))"
    )
    assert rows(classic, "SELECT pictures FROM db.t WHERE id = 1") == [([HELLO, None, YE],)]
    first = "SELECT id, size(pictures), pictures[0], pictures[1], pictures[2] FROM db.t WHERE id = 1"
    assert rows(classic, first) == [(1, 3, HELLO, None, YE)]
    assert rows(classic, "SELECT id, size(pictures), pictures[0] FROM db.t WHERE id = 2") == [(2, 1, ABC)]
    assert rows(classic, "SELECT id, pictures IS NULL FROM db.t WHERE id = 3") == [(3, True)]
    assert rows(classic, "SELECT COUNT(*) > 0 FROM `db`.`t$files` WHERE file_path LIKE '%.blob'") == [(True,)]


def test_map_blob(classic: Lake) -> None:
    made(classic, "MAP<STRING, BINARY>")
    classic.sql(
        "INSERT INTO db.t VALUES "
        "(1, 'paimon', map('first', X'48656C6C6F', 'null', CAST(NULL AS BINARY), 'second', X'5945')), "
        "(2, 'empty', CAST(map() AS MAP<STRING, BINARY>)), (3, 'null-map', CAST(NULL AS MAP<STRING, BINARY>))"
    )
    first = "SELECT id, size(pictures), pictures['first'], pictures['null'], pictures['second'] FROM db.t WHERE id = 1"
    assert rows(classic, first) == [(1, 3, HELLO, None, YE)]
    assert rows(classic, "SELECT id, size(pictures) FROM db.t WHERE id = 2") == [(2, 0)]
    assert rows(classic, "SELECT id, pictures IS NULL FROM db.t WHERE id = 3") == [(3, True)]
    assert rows(classic, "SELECT COUNT(*) > 0 FROM `db`.`t$files` WHERE file_path LIKE '%.blob'") == [(True,)]


@pytest.mark.parametrize("kind", ["ARRAY<BINARY>", "MAP<STRING, BINARY>"])
def test_descriptors_of_elements(classic: Lake, kind: str) -> None:
    """Written: the bytes that they name; read: where the elements lie."""
    data = os.urandom(1024)
    source = Path(classic.catalog.warehouse) / "db.db" / "t" / "external"
    made(classic, kind, ", 'blob-as-descriptor'='true'")
    source.write_bytes(data)
    given = f"sys.path_to_descriptor('file:{source}')"
    value = f"array({given}, X'5945')" if kind[0] == "A" else f"map('external', {given}, 'inline', X'5945')"
    classic.sql(f"INSERT INTO db.t VALUES (1, 'paimon', {value})")
    both = "pictures[0], pictures[1]" if kind[0] == "A" else "pictures['external'], pictures['inline']"
    ((first, second),) = rows(classic, f"SELECT {both} FROM db.t WHERE id = 1")
    assert (where_it_lies(first), where_it_lies(second)) == (data, YE)
    classic.sql("ALTER TABLE db.t SET TBLPROPERTIES ('blob-as-descriptor'='false')")
    assert rows(classic, f"SELECT {both} FROM db.t WHERE id = 1") == [(data, YE)]


@pytest.mark.parametrize(("kind", "shown"), [("ARRAY<BINARY>", "ARRAY<BLOB>"), ("MAP<STRING, BINARY>", "MAP<X, BLOB>")])
@pytest.mark.parametrize("option", ["blob-descriptor-field", "blob-view-field"])
def test_inline_fields_are_rejected(classic: Lake, kind: str, shown: str, option: str) -> None:
    with pytest.raises(BucketlakeError, match=f"{shown} is only supported by 'blob-field'"):
        classic.sql(f"CREATE TABLE db.x (id INT, pictures {kind}) TBLPROPERTIES ({EVOLVING}, '{option}'='pictures')")


def test_keys_that_no_blob_file_holds(classic: Lake) -> None:
    """Paimon makes such a table, and fails as it writes the first map."""
    made(classic, "MAP<BOOLEAN, BINARY>")
    with pytest.raises(UnsupportedError, match="Unsupported key type for MAP<X, BLOB>: BOOLEAN"):
        classic.sql("INSERT INTO db.t VALUES (1, 'a', map(true, X'01'))")
    assert rows(classic) == []


@pytest.mark.parametrize("kind", ["ARRAY<BINARY>", "MAP<STRING, BINARY>"])
def test_merge_of_another_column_with_split_files(classic: Lake, kind: str) -> None:
    made(classic, kind, ", 'blob.target-file-size'='1 b'")
    values = (
        ("array(X'48656C6C6F', X'5945')", "array(X'414243')", [HELLO, YE], [ABC])
        if kind[0] == "A"
        else (
            "map('first', X'48656C6C6F', 'second', X'5945')",
            "map('only', X'414243')",
            {"first": HELLO, "second": YE},
        )
        + ({"only": ABC},)
    )
    classic.sql(
        f"INSERT INTO db.t VALUES (1, 'name1', {values[0]}), (2, 'name2', {values[1]}), (3, 'name3', CAST(NULL AS {kind}))"
    )
    assert rows(classic, "SELECT COUNT(*) > 1 FROM `db`.`t$files` WHERE file_path LIKE '%.blob'") == [(True,)]
    classic.sql("CREATE TABLE db.s (id INT, name STRING)")
    classic.sql("INSERT INTO db.s VALUES (1, 'updated_name1')")
    files = blobs(classic)
    classic.sql("MERGE INTO db.t USING db.s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.name = s.name")
    assert rows(classic, "SELECT id, name FROM db.t ORDER BY id") == [(1, "updated_name1"), (2, "name2"), (3, "name3")]
    assert rows(classic) == [(1, "updated_name1", values[2]), (2, "name2", values[3]), (3, "name3", None)]
    assert blobs(classic) == files


@pytest.mark.parametrize("where", later(["driver", "tasks"], 1))
def test_merge_of_an_array(classic: Lake, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    in_tasks(where, monkeypatch)
    made(classic, "ARRAY<BINARY>")
    classic.sql(
        "INSERT INTO db.t VALUES (1, 'name1', array(X'48656C6C6F')), (2, 'name2', array(X'414243')), "
        "(3, 'name3', CAST(NULL AS ARRAY<BINARY>))"
    )
    classic.sql("CREATE TABLE db.s (id INT, pictures ARRAY<BINARY>, picture BINARY)")
    classic.sql(
        "INSERT INTO db.s VALUES (1, array(X'4E4557', CAST(NULL AS BINARY)), X'21'), "
        "(3, CAST(array() AS ARRAY<BINARY>), CAST(NULL AS BINARY))"
    )
    classic.sql(
        "MERGE INTO db.t USING db.s ON t.id = s.id "
        "WHEN MATCHED AND s.id = 1 THEN UPDATE SET t.pictures = concat(t.pictures, s.pictures, array(s.picture)) "
        "WHEN MATCHED THEN UPDATE SET t.pictures = s.pictures"
    )
    updated = "SELECT size(pictures), pictures[0], pictures[1], pictures[2] IS NULL, pictures[3] FROM db.t WHERE id = 1"
    assert rows(classic, updated) == [(4, HELLO, b"NEW", True, b"!")]
    assert rows(classic, "SELECT size(pictures), pictures[0] FROM db.t WHERE id = 2") == [(1, ABC)]
    assert rows(classic, "SELECT pictures IS NOT NULL, size(pictures) FROM db.t WHERE id = 3") == [(True, 0)]


@pytest.mark.parametrize("where", later(["tasks", "driver"], 1))
def test_merge_of_a_map(classic: Lake, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    in_tasks(where, monkeypatch)
    made(classic, "MAP<STRING, BINARY>")
    classic.sql(
        "INSERT INTO db.t VALUES (1, 'name1', map('old', X'48656C6C6F')), (2, 'name2', map('keep', X'414243')), "
        "(3, 'name3', CAST(NULL AS MAP<STRING, BINARY>))"
    )
    classic.sql("CREATE TABLE db.s (id INT, pictures MAP<STRING, BINARY>)")
    classic.sql(
        "INSERT INTO db.s VALUES (1, map('new', X'4E4557', 'missing', CAST(NULL AS BINARY))), "
        "(3, CAST(map() AS MAP<STRING, BINARY>))"
    )
    classic.sql(
        "MERGE INTO db.t USING db.s ON t.id = s.id "
        "WHEN MATCHED AND s.id = 1 THEN UPDATE SET t.pictures = map_concat(t.pictures, s.pictures) "
        "WHEN MATCHED THEN UPDATE SET t.pictures = s.pictures"
    )
    updated = (
        "SELECT size(pictures), pictures['old'], pictures['new'], pictures['missing'] IS NULL FROM db.t WHERE id = 1"
    )
    assert rows(classic, updated) == [(3, HELLO, b"NEW", True)]
    assert rows(classic, "SELECT size(pictures), pictures['keep'] FROM db.t WHERE id = 2") == [(1, ABC)]
    assert rows(classic, "SELECT pictures IS NOT NULL, size(pictures) FROM db.t WHERE id = 3") == [(True, 0)]


@pytest.mark.parametrize("kind", ["ARRAY<BINARY>", "MAP<STRING, BINARY>"])
def test_self_merge_of_descriptors(classic: Lake, kind: str) -> None:
    array = kind[0] == "A"
    made(classic, kind, ", 'blob-as-descriptor'='true'")
    first, second = (
        ("array(X'48656C6C6F', X'5945')", "array(X'414243')")
        if array
        else ("map('old', X'48656C6C6F', 'small', X'5945')", "map('keep', X'414243')")
    )
    classic.sql(f"INSERT INTO db.t VALUES (1, 'a', {first}), (2, 'b', {second})")
    one = "pictures[0]" if array else "pictures['old']"
    ((source,),) = rows(classic, f"SELECT {one} FROM db.t WHERE id = 1")
    assert len(where_it_lies(source)) == 5
    new = (
        f"concat(source.pictures, array(source.{one}))"
        if array
        else f"map_concat(source.pictures, map('copied', source.{one}))"
    )
    classic.sql(
        "MERGE INTO db.t USING db.t AS source ON t._ROW_ID = source._ROW_ID "
        f"WHEN MATCHED AND source.id = 1 THEN UPDATE SET t.pictures = {new}"
    )
    every = (
        "pictures[0], pictures[1], pictures[2]" if array else "pictures['old'], pictures['small'], pictures['copied']"
    )
    ((count, *described),) = rows(classic, f"SELECT size(pictures), {every} FROM db.t WHERE id = 1")
    assert (count, [where_it_lies(value) for value in described]) == (3, [HELLO, YE, HELLO])
    classic.sql("ALTER TABLE db.t SET TBLPROPERTIES ('blob-as-descriptor'='false')")
    assert rows(classic, f"SELECT {every} FROM db.t WHERE id = 1") == [(HELLO, YE, HELLO)]
    assert rows(classic, "SELECT pictures FROM db.t WHERE id = 2") == [([ABC] if array else {"keep": ABC},)]


# ------------------------------------------------------------------------------------ more


def in_tasks(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if where == "tasks":
        for module in (reader, hidden, stages):
            monkeypatch.setattr(module, "SMALL_ROWS", -1)
        monkeypatch.setattr("bucketlake.spark.merge.held.FEW_ROWS", -1)


@pytest.mark.parametrize("where", ["driver", "tasks"])
def test_every_statement(classic: Lake, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    in_tasks(where, monkeypatch)
    classic.sql(
        "CREATE TABLE db.t (id INT, name STRING, pics ARRAY<BINARY> COMMENT '__BLOB_FIELD; several', "
        "parts MAP<INT, BINARY> COMMENT '__BLOB_FIELD') TBLPROPERTIES "
        f"({EVOLVING}, 'deletion-vectors.enabled'='true', 'compaction.min.file-num'='2')"
    )
    described = {row[0]: row[1:] for row in rows(classic, "DESCRIBE db.t")}
    assert described["pics"] == ("array<binary>", "several")
    assert described["parts"][0] == "map<int,binary>"
    classic.sql(
        "INSERT INTO db.t SELECT id, concat('n', id), transform(sequence(1, id), n -> encode(repeat('x', n), 'utf-8')), "
        "map(id, encode(name, 'utf-8'), -1, NULL) FROM (SELECT CAST(id AS INT) AS id, concat('v', id) AS name FROM range(1, 6))"
    )
    expected = {
        n: (n, f"n{n}", [b"x" * m for m in range(1, n + 1)], {n: f"v{n}".encode(), -1: None}) for n in range(1, 6)
    }
    assert rows(classic) == list(expected.values())
    assert rows(classic, "SELECT id, parts[3] FROM db.t WHERE size(pics) = 3") == [(3, b"v3")]
    classic.sql("UPDATE db.t SET pics = array(X'FF', NULL) WHERE id = 2 OR parts[4] = X'7634'")
    for n in (2, 4):
        expected[n] = (*expected[n][:2], [b"\xff", None], expected[n][3])
    classic.sql("UPDATE db.t SET name = 'x', parts = NULL WHERE id = 5")
    expected[5] = (5, "x", expected[5][2], None)
    classic.sql("DELETE FROM db.t WHERE array_contains(pics, X'FF') AND id = 2")
    del expected[2]
    assert rows(classic) == list(expected.values())
    for statement in ("CALL sys.compact('db.t')", "CALL sys.materialize_deletion_vectors('db.t')"):
        classic.sql(statement)
        assert rows(classic) == list(expected.values())
    frame = classic.table("db.t").read().where("id = 3").selectExpr("id + 100 AS id", "name", "pics", "parts")
    classic.table("db.t").write(frame)
    assert rows(classic)[-1] == (103, *expected[3][1:])
    classic.sql("ALTER TABLE db.t ADD COLUMN more ARRAY<BINARY> COMMENT '__BLOB_FIELD'")
    classic.sql("ALTER TABLE db.t DROP COLUMN pics")
    classic.sql("INSERT INTO db.t VALUES (200, 'late', map(1, X'01'), array(X'02'))")
    assert rows(classic)[-2:] == [(103, "n3", expected[3][3], None), (200, "late", {1: b"\1"}, [b"\2"])]
    with pytest.raises(InvalidError, match="Cannot rename BLOB column"):
        classic.sql("ALTER TABLE db.t RENAME COLUMN parts TO p")
    classic.sql("INSERT OVERWRITE db.t SELECT * FROM db.t WHERE id > 100")
    assert [row[0] for row in rows(classic)] == [103, 200]


def test_other_ways_to_tables(classic: Lake) -> None:
    """The data source, LIKE, CTAS, tags and ids: everywhere the columns are what they are here."""
    made(classic, "ARRAY<BINARY>")
    classic.sql("INSERT INTO db.t VALUES (1, 'a', array(X'01', NULL)), (2, 'b', NULL)")
    whole = [(1, "a", [b"\1", None]), (2, "b", None)]
    classic.sql("CREATE TABLE db.l LIKE db.t")
    classic.sql("INSERT INTO db.l SELECT * FROM db.t")
    classic.sql(f"CREATE TABLE db.c TBLPROPERTIES ({EVOLVING}, 'blob-field'='pictures') AS SELECT * FROM db.t")
    for name in ("l", "c"):
        assert rows(classic, f"SELECT * FROM db.{name} ORDER BY id") == whole
        (blob,) = classic.table(f"db.{name}").table.schema.blob_fields
        assert blob.name == "pictures"
    path, spark = classic.table("db.t").table.path, classic.spark
    frame = spark.read.format("bucketlake").load(path)
    frame.selectExpr("id + 10 AS id", "name", "pictures").write.format("bucketlake").mode("append").save(path)
    assert rows(classic) == [*whole, *[(row[0] + 10, *row[1:]) for row in whole]]
    classic.sql("CALL sys.create_tag('db.t', 'x')")
    classic.sql("DELETE FROM db.t WHERE true")
    assert rows(classic, "SELECT * FROM db.t VERSION AS OF 'x' WHERE id < 10 ORDER BY id") == whole
    tracked = "SELECT id, pictures, _ROW_ID FROM db.`t$row_tracking` VERSION AS OF 'x' WHERE id = 11"
    assert rows(classic, tracked) == [(11, [b"\1", None], 2)]
