"""BLOB columns in statements: made by comments and options, read as BINARY, written by INSERT and MERGE."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.profile import later

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.format.data.blob import is_blob
from bucketlake.spark.read import hidden, reader
from bucketlake.spark.session import Lake
from bucketlake.spark.write import column_updates as stages

pytestmark = pytest.mark.spark

OPTIONS = (
    "'row-tracking.enabled'='true', 'data-evolution.enabled'='true', 'deletion-vectors.enabled'='true', "
    "'compaction.min.file-num'='2'"
)


@pytest.fixture
def made(classic: Lake) -> Lake:
    classic.sql(
        f"CREATE TABLE db.t (id INT, name STRING, pic BINARY COMMENT '__BLOB_FIELD; a picture') TBLPROPERTIES ({OPTIONS})"
    )
    return classic


def rows(lake: Lake, text: str = "SELECT * FROM db.t ORDER BY id") -> list[tuple[object, ...]]:
    values = (tuple(row) for row in lake.sql(text).collect())
    return [tuple(bytes(one) if isinstance(one, bytearray) else one for one in row) for row in values]


def blobs(lake: Lake) -> set[str]:
    return {file.path for file in lake.table("db.t").refresh().files() if is_blob(file.path)}


def test_statements(made: Lake) -> None:
    made.sql("INSERT INTO db.t VALUES (1, 'a', X'0102'), (2, 'b', NULL), (3, 'c', X'')")
    assert rows(made) == [(1, "a", b"\1\2"), (2, "b", None), (3, "c", b"")]
    described = {row[0]: row[1:] for row in rows(made, "DESCRIBE db.t")}
    assert described["pic"] == ("binary", "a picture")
    files = blobs(made)
    made.sql("UPDATE db.t SET name = 'x' WHERE id = 1 OR pic IS NULL")
    assert rows(made) == [(1, "x", b"\1\2"), (2, "x", None), (3, "c", b"")]
    assert blobs(made) == files
    made.sql("CREATE TABLE db.s (id INT, name STRING, pic BINARY)")
    made.sql("INSERT INTO db.s VALUES (3, 'm', X'AA'), (4, 'n', X'BB')")
    made.sql(
        "MERGE INTO db.t USING db.s AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(made)[2:] == [(3, "m", b""), (4, "n", b"\xbb")]
    made.sql("DELETE FROM db.t WHERE pic = X'0102'")
    assert rows(made, "SELECT id, hex(pic) FROM db.t ORDER BY id") == [(2, None), (3, ""), (4, "BB")]
    assert rows(made, "SELECT count(*), max(id) FROM db.t") == [(3, 4)]
    assert rows(made, "SELECT id, _ROW_ID FROM db.t WHERE pic IS NOT NULL ORDER BY id") == [(3, 2), (4, 3)]
    assert rows(made, "SELECT id FROM db.t LIMIT 2") == [(2,), (3,)]
    before = rows(made)
    made.sql("CALL sys.compact('db.t')")
    assert rows(made) == before
    made.sql("CALL sys.materialize_deletion_vectors('db.t')")
    assert rows(made) == before
    assert rows(made, "SELECT * FROM db.t VERSION AS OF 1 ORDER BY id") == [
        (1, "a", b"\1\2"),
        (2, "b", None),
        (3, "c", b""),
    ]
    made.sql("INSERT OVERWRITE db.t SELECT id, name, pic FROM db.s")
    assert rows(made) == [(3, "m", b"\xaa"), (4, "n", b"\xbb")]


@pytest.mark.parametrize("where", later(["tasks", "driver"], 1))
def test_new_values(made: Lake, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """UPDATE and MERGE of the column: rows that do not change keep their values."""
    if where == "tasks":
        for module in (reader, hidden, stages):
            monkeypatch.setattr(module, "SMALL_ROWS", -1)
        monkeypatch.setattr("bucketlake.spark.merge.held.FEW_ROWS", -1)
    made.sql("INSERT INTO db.t SELECT id, concat('n', id), encode(concat('v', id), 'utf-8') FROM range(6)")
    made.sql("UPDATE db.t SET pic = concat(pic, X'21') WHERE id = 1")
    made.sql("UPDATE db.t SET pic = NULL, name = 'x' WHERE id = 2")
    made.sql("CREATE TABLE db.s (id INT, name STRING, pic BINARY)")
    made.sql("INSERT INTO db.s VALUES (3, 'm', X'AA'), (4, 'n', X'BB'), (9, 'o', X'CC')")
    merge = "MERGE INTO db.t USING db.s AS s ON t.id = s.id WHEN MATCHED AND s.id = 4 THEN UPDATE SET name = s.name "
    made.sql(merge + "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")
    expected = [
        *((0, "n0", b"v0"), (1, "n1", b"v1!"), (2, "x", None), (3, "m", b"\xaa")),
        *((4, "n", b"v4"), (5, "n5", b"v5"), (9, "o", b"\xcc")),
    ]
    assert rows(made) == expected
    made.sql("CALL sys.compact('db.t')")
    assert rows(made) == expected


def test_what_would_change_blobs_is_refused(made: Lake) -> None:
    made.sql("INSERT INTO db.t VALUES (1, 'a', X'01')")
    with pytest.raises(InvalidError, match="Cannot rename BLOB"):
        made.sql("ALTER TABLE db.t RENAME COLUMN pic TO p")
    with pytest.raises(UnsupportedError, match="blob-view-field"):
        made.sql("ALTER TABLE db.t ADD COLUMN v BINARY COMMENT '__BLOB_VIEW_FIELD'")
    assert rows(made) == [(1, "a", b"\1")]


def test_columns_come_and_go(made: Lake) -> None:
    made.sql("INSERT INTO db.t VALUES (1, 'a', X'01')")
    made.sql("ALTER TABLE db.t ADD COLUMN more BINARY COMMENT '__BLOB_FIELD'")
    made.sql("INSERT INTO db.t VALUES (2, 'b', X'02', X'03')")
    made.sql("ALTER TABLE db.t DROP COLUMN pic")
    assert rows(made) == [(1, "a", None), (2, "b", b"\3")]
    assert made.table("db.t").options.text("blob-field") == "more"


@pytest.mark.slow
def test_many_rows(made: Lake) -> None:
    """More than the driver reads by itself: Spark's own scan without the blobs, tasks with them."""
    made.sql("INSERT INTO db.t SELECT id, concat('n', id), encode(repeat(id, 1 + id % 5), 'utf-8') FROM range(120000)")
    sums = "SELECT count(*), sum(id), count(DISTINCT name) FROM db.t"
    whole = [(120000, 120000 * 119999 // 2, 120000)]
    assert rows(made, sums) == whole
    checked = "SELECT count(*) FROM db.t WHERE decode(pic, 'utf-8') = repeat(id, 1 + id % 5) AND name = concat('n', id)"
    assert rows(made, checked) == [(120000,)]
    assert rows(made, "SELECT pic FROM db.t WHERE id = 77777") == [(b"77777" * 3,)]
    for path in blobs(made):
        Path(path).unlink()
    assert rows(made, sums) == whole


def test_descriptors(made: Lake, tmp_path: Path) -> None:
    made.sql("INSERT INTO db.t VALUES (1, 'a', X'48656C6C6F')")
    made.sql("ALTER TABLE db.t SET TBLPROPERTIES ('blob-as-descriptor'='true')")
    ((text, value),) = rows(made, "SELECT sys.descriptor_to_string(pic), pic FROM db.t")
    (path,) = blobs(made)
    assert text == f"BlobDescriptor{{version=2, uri='file:{path}', offset=4, length=5}}"
    made.sql(f"INSERT INTO db.t VALUES (2, 'b', X'{value.hex()}'), (3, 'c', sys.path_to_descriptor('{path}'))")
    made.sql(
        "INSERT INTO db.t SELECT id, 'd', sys.path_to_descriptor(concat('file:', '" + path + "')) FROM range(4, 5)"
    )
    made.sql("ALTER TABLE db.t SET TBLPROPERTIES ('blob-as-descriptor'='false')")
    assert rows(made, "SELECT pic FROM db.t WHERE id = 4") == [(Path(path).read_bytes(),)]
    made.sql("DELETE FROM db.t WHERE id = 4")
    assert rows(made) == [(1, "a", b"Hello"), (2, "b", b"Hello"), (3, "c", Path(path).read_bytes())]
    outside = tmp_path / "outside"
    outside.write_bytes(b"secret")
    with pytest.raises(Exception, match="does not let the table read"):
        made.sql(f"INSERT INTO db.t VALUES (4, 'd', sys.path_to_descriptor('{outside}'))")
    assert len(rows(made)) == 3


def test_compaction_of_blob_files(made: Lake) -> None:
    """Blob files become one, those of deleted rows too; descriptors follow."""
    for number in range(4):
        made.sql(f"INSERT INTO db.t VALUES ({number}, 'a', X'0{number}')")
    made.sql("UPDATE db.t SET pic = X'FF' WHERE id = 2")
    made.sql("DELETE FROM db.t WHERE id = 1")
    made.sql("ALTER TABLE db.t SET TBLPROPERTIES ('blob-compaction.enabled'='true')")
    assert len(blobs(made)) == 5
    made.sql("CALL sys.compact('db.t')")
    made.sql("CALL sys.compact('db.t')")
    assert len(blobs(made)) == 1
    assert rows(made) == [(0, "a", b"\0"), (2, "a", b"\xff"), (3, "a", b"\3")]


@pytest.mark.parametrize("where", ["driver", "tasks"])
def test_columns_of_descriptors(classic: Lake, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`blob-descriptor-field`: statements store descriptors, queries give what they name."""
    if where == "tasks":
        for module in (reader, hidden, stages):
            monkeypatch.setattr(module, "SMALL_ROWS", -1)
        monkeypatch.setattr("bucketlake.spark.merge.held.FEW_ROWS", -1)
    classic.sql(
        f"CREATE TABLE db.t (id INT, name STRING, pic BINARY COMMENT '__BLOB_DESCRIPTOR_FIELD; a picture') "
        f"TBLPROPERTIES ({OPTIONS})"
    )
    created = rows(classic, "SHOW CREATE TABLE db.t")[0][0]
    assert "'blob-descriptor-field' = 'pic'" in str(created) and "__BLOB" not in str(created)
    source = Path(classic.catalog.warehouse) / "db.db" / "t" / "external"
    source.write_bytes(b"0123456789")
    at = f"sys.path_to_descriptor('file:{source}')"
    classic.sql(f"INSERT INTO db.t VALUES (1, 'name1', {at})")
    classic.sql(f"INSERT INTO db.t SELECT id, concat('name', id), IF(id = 3, NULL, {at}) FROM range(2, 4)")
    assert rows(classic) == [(1, "name1", b"0123456789"), (2, "name2", b"0123456789"), (3, "name3", None)]
    assert not blobs(classic)
    assert rows(classic, "SELECT pic, __paimon_row_index FROM db.t WHERE id = 1") == [(b"0123456789", 0)]
    classic.sql("CREATE TABLE db.s (id INT, name STRING)")
    classic.sql("INSERT INTO db.s VALUES (1, 'updated_name1')")
    classic.sql("MERGE INTO db.t USING db.s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.name = s.name")
    assert rows(classic, "SELECT id, name FROM db.t ORDER BY id") == [(1, "updated_name1"), (2, "name2"), (3, "name3")]
    assert rows(classic, "SELECT id, length(pic) FROM db.t WHERE pic IS NOT NULL ORDER BY id") == [(1, 10), (2, 10)]
    assert rows(classic, "SELECT id, _ROW_ID FROM db.t WHERE decode(pic, 'utf-8') LIKE '01%' ORDER BY id") == [
        (1, 0),
        (2, 1),
    ]
    classic.sql(f"UPDATE db.t SET pic = {at} WHERE id = 3")
    classic.sql("UPDATE db.t SET name = CAST(length(pic) AS STRING) WHERE id = 2")
    assert rows(classic)[1:] == [(2, "10", b"0123456789"), (3, "name3", b"0123456789")]
    with pytest.raises(Exception, match="require values to be a BlobDescriptor"):
        classic.sql("UPDATE db.t SET pic = X'01' WHERE id = 3")
    with pytest.raises(Exception, match="require values to be a BlobDescriptor"):
        classic.sql("INSERT INTO db.t VALUES (4, 'd', X'01')")
    classic.sql("DELETE FROM db.t WHERE id = 1 OR length(pic) = 9")
    before = rows(classic)
    for statement in ("CALL sys.compact('db.t')", "CALL sys.materialize_deletion_vectors('db.t')"):
        classic.sql(statement)
        assert rows(classic) == before == [(2, "10", b"0123456789"), (3, "name3", b"0123456789")]
    classic.sql("ALTER TABLE db.t SET TBLPROPERTIES ('blob-as-descriptor'='true')")
    ((text,), _) = rows(classic, "SELECT sys.descriptor_to_string(pic) FROM db.t")
    assert text == f"BlobDescriptor{{version=2, uri='file:{source}', offset=0, length=-1}}"
    classic.sql("INSERT INTO db.t SELECT id + 10, name, pic FROM db.t")
    classic.sql("ALTER TABLE db.t SET TBLPROPERTIES ('blob-as-descriptor'='false')")
    assert rows(classic) == [*before, (12, *before[0][1:]), (13, *before[1][1:])]


@pytest.mark.parametrize("buckets", later(["1", "-1"], 1))
def test_statements_over_a_table_with_a_primary_key(classic: Lake, buckets: str) -> None:
    lake = classic
    lake.sql(
        "CREATE TABLE db.k (id INT, n INT, pic BINARY, parts ARRAY<BINARY>, named MAP<STRING, BINARY>) "
        f"TBLPROPERTIES ('primary-key'='id', 'bucket'='{buckets}', 'blob-field'='pic,parts,named')"
    )

    def found(more: str = "") -> list[tuple[Any, ...]]:
        text = f"SELECT id, n, hex(pic), hex(get(parts, 0)), hex(named['a']), size(parts) FROM db.k {more} ORDER BY id"
        return [tuple(row) for row in lake.sql(text).collect()]

    lake.sql(
        "INSERT INTO db.k VALUES (1, 1, X'01', array(X'02', CAST(NULL AS BINARY)), map('a', X'03')), "
        "(2, 2, NULL, NULL, NULL), (3, 3, X'', array(), map())"
    )
    lake.sql("INSERT INTO db.k SELECT id + 3, n, pic, parts, named FROM db.k WHERE id = 1")
    one = (1, "01", "02", "03", 2)
    assert found() == [(1, *one), (2, 2, None, None, None, None), (3, 3, "", None, None, 0), (4, *one)]
    lake.sql("UPDATE db.k SET n = 9 WHERE pic = X'01' AND id < 4")
    lake.sql("DELETE FROM db.k WHERE id = 3")
    lake.sql(
        "MERGE INTO db.k USING (SELECT 4 AS id, X'07' AS pic UNION ALL SELECT 5, X'08') s ON k.id = s.id "
        "WHEN MATCHED THEN UPDATE SET pic = s.pic "
        "WHEN NOT MATCHED THEN INSERT (id, n, pic, parts, named) VALUES (s.id, 0, s.pic, NULL, NULL)"
    )
    expected = [
        (1, 9, *one[1:]),
        (2, 2, None, None, None, None),
        (4, 1, "07", "02", "03", 2),
        (5, 0, "08", None, None, None),
    ]
    assert found() == expected
    lake.sql("CALL sys.compact(table => 'db.k')")
    assert found() == expected and found("WHERE pic = X'08'") == expected[-1:]
    described = (
        "SELECT sys.descriptor_to_string(pic) AS d FROM db.k /*+ OPTIONS('blob-as-descriptor'='true') */ WHERE id = 5"
    )
    assert "managed.blob" in lake.sql(described).first().d
    lake.sql("CREATE TABLE db.copy TBLPROPERTIES ('primary-key'='id') AS SELECT id, pic FROM db.k")
    assert [tuple(row) for row in lake.sql("SELECT id, hex(pic) FROM db.copy ORDER BY id").collect()] == [
        (row[0], row[2]) for row in expected
    ]
