"""COPY INTO: files into tables, rows into files, as Paimon's connector has it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from bucketlake.errors import InvalidError, NotFoundError, UnsupportedError
from bucketlake.spark.copy import load
from bucketlake.spark.session import Lake

CSV = "FILE_FORMAT = (TYPE = CSV)"
Row = tuple[object, ...]


def rows(lake: Lake, statement: str) -> list[Row]:
    return sorted((tuple(row) for row in lake.sql(statement).collect()), key=repr)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "given [1]"
    made.mkdir()
    return made


def table(lake: Lake, columns: str = "id INT, name STRING", options: str = "'bucket' = '-1'") -> None:
    lake.sql(f"CREATE OR REPLACE TABLE db.t ({columns}) TBLPROPERTIES ({options})")


def copy(lake: Lake, folder: object, clauses: str = CSV, columns: str = "") -> list[Row]:
    return rows(lake, f"COPY INTO db.t {columns} FROM '{folder}' {clauses}")


def test_files_are_loaded_once(lake: Lake, folder: Path) -> None:
    table(lake)
    (folder / "a.csv").write_text("1,Alice\n2,Bob\n")
    (folder / "b.csv").write_text("3,Carol\n")
    (folder / "_hidden").write_text("9,no\n")
    (folder / "below").mkdir()
    (folder / "below" / "c.csv").write_text("9,no\n")
    assert copy(lake, folder) == [("a.csv", "LOADED", 2, 2, 0, None), ("b.csv", "LOADED", 1, 1, 0, None)]
    assert lake.table("db.t").latest_snapshot().id == 1  # type: ignore[union-attr]
    assert copy(lake, folder) == [("a.csv", "SKIPPED", 0, 0, 0, None), ("b.csv", "SKIPPED", 0, 0, 0, None)]
    (folder / "b.csv").write_text("4,Dave\n5,Eve\n")
    assert [row[:3] for row in copy(lake, folder)] == [("a.csv", "SKIPPED", 0), ("b.csv", "LOADED", 2)]
    assert [row[:3] for row in copy(lake, folder, f"{CSV} PATTERN = 'a.*\\.csv' FORCE = TRUE")] == [
        ("a.csv", "LOADED", 2)
    ]
    assert [row[0] for row in rows(lake, "SELECT id FROM db.t")] == [1, 1, 2, 2, 3, 4, 5]
    kept = sorted((Path(lake.table("db.t").path) / "copy-into" / "history").iterdir())
    assert len(kept) == 4
    record = json.loads(kept[0].read_text())
    assert set(record) == {"filePath", "fileSize", "lastModified", "loadedAt", "snapshotId", "rowsLoaded"}
    for path in kept:
        os.utime(path, (0, 0))
    assert lake.table("db.t").remove_orphan_files(older_than="2020-01-01").paths == ()


def test_forms_of_csv_and_json(classic: Lake, folder: Path) -> None:
    cases = [
        ("1|Alice\n", "(type = csv, field_delimiter = '|')", [(1, "Alice")]),
        ("id,name\n1,Alice\n", "(TYPE = CSV, SKIP_HEADER = 1)", [(1, "Alice")]),
        ('1,"Alice ""the great"""\n', "(TYPE = CSV, QUOTE = '\"', ESCAPE = '\"')", [(1, 'Alice "the great"')]),
        ("1,NULL\n2,\\N\n", "(TYPE = CSV, NULL_IF = ('NULL', '\\N'))", [(1, None), (2, None)]),
        ('1,""\n', "(TYPE = CSV, EMPTY_FIELD_AS_NULL = TRUE)", [(1, None)]),
        ('{"name":"Alice","id":"1","x":2}\n{"id":2.0}\n', "(TYPE = JSON)", None),
        ('[{"id":1,"name":"a"},\n{"id":2}]', "(TYPE = JSON, MULTI_LINE = TRUE)", [(1, "a"), (2, None)]),
        ('{"id":"1","name":"NULL"}\n', "(TYPE = JSON, NULL_IF = ('NULL'))", [(1, None)]),
    ]
    for number, (text, form, expected) in enumerate(cases):
        table(classic)
        (folder / "data").write_text(text)
        os.utime(folder / "data", (number, number))
        if expected is None:
            with pytest.raises(InvalidError, match="ABORT_STATEMENT: Cast failure in column 'id'"):
                copy(classic, folder, f"FILE_FORMAT = {form}")
            assert rows(classic, "SELECT * FROM db.t") == []
            continue
        copy(classic, folder, f"FILE_FORMAT = {form}")
        assert rows(classic, "SELECT * FROM db.t") == expected, form


def test_columns_are_named(classic: Lake, folder: Path) -> None:
    table(classic, "id INT, name STRING, age INT, status STRING DEFAULT 'active'")
    (folder / "data.csv").write_text("Alice,1\n")
    copy(classic, folder, CSV, "(NAME, id)")
    assert rows(classic, "SELECT * FROM db.t") == [(1, "Alice", None, "active")]
    for columns, message in (
        ("(id, ID)", "Duplicate columns"),
        ("(id, nope)", "Column 'nope' does not exist in target table. Available columns: id, name, age, status"),
    ):
        with pytest.raises(InvalidError, match=message):
            copy(classic, folder, CSV, columns)
    table(classic, "id INT, k INT NOT NULL, name STRING")
    with pytest.raises(InvalidError, match="Non-nullable column 'k' is not in the column list"):
        copy(classic, folder, CSV, "(name, id)")


def test_parquet_goes_out_and_comes_back(lake: Lake, folder: Path) -> None:
    table(lake, "id INT, name STRING, score DOUBLE")
    lake.sql("INSERT INTO db.t VALUES (1, 'Alice', 95.5), (2, 'Bob', 87.3), (3, NULL, NULL)")
    out = folder / "out"
    told = rows(lake, f"COPY INTO '{out}' FROM db.t FILE_FORMAT = (TYPE = PARQUET, COMPRESSION = GZIP)")
    assert told == [(str(out), len(list(out.glob("part-*.parquet"))), 3)]
    lake.sql("CREATE TABLE db.u (score DOUBLE, id BIGINT, more STRING)")
    loaded = rows(lake, f"COPY INTO db.u FROM '{out}' FILE_FORMAT = (TYPE = PARQUET)")
    assert sum(row[2] for row in loaded) == 3  # type: ignore[misc]
    assert rows(lake, "SELECT * FROM db.u") == [(87.3, 2, None), (95.5, 1, None), (None, 3, None)]


def test_a_column_may_be_named_as_spark_s_own_metadata(classic: Lake, folder: Path) -> None:
    table(classic, "id INT, _metadata STRUCT<file_name: STRING>")
    made = classic.spark.sql("SELECT 1 AS id, named_struct('file_name', 'x') AS _metadata")
    made.coalesce(1).write.mode("append").parquet(str(folder))
    (loaded,) = copy(classic, folder, "FILE_FORMAT = (TYPE = PARQUET)")
    assert str(loaded[0]).endswith(".parquet") and loaded[1:] == ("LOADED", 1, 1, 0, None)
    assert rows(classic, "SELECT id, _metadata.file_name FROM db.t") == [(1, "x")]


def test_errors_of_rows(classic: Lake, folder: Path) -> None:
    table(classic)
    (folder / "good.csv").write_text("1,Alice\n2,Bob\n")
    (folder / "mixed.csv").write_text("3,Carol\nabc,Dave\n4,Eve,more\n5\n")
    (folder / "bad.csv").write_text("x,y\n")
    with pytest.raises(InvalidError, match="ON_ERROR = ABORT_STATEMENT: "):
        copy(classic, folder)
    assert classic.table("db.t").latest_snapshot() is None
    whole = {row[0]: row for row in copy(classic, folder, f"{CSV} ON_ERROR = SKIP_FILE")}
    assert whole["good.csv"] == ("good.csv", "LOADED", 2, 2, 0, None)
    assert whole["mixed.csv"][1:5] == ("LOAD_FAILED", 0, 4, 3)
    assert rows(classic, "SELECT id FROM db.t") == [(1,), (2,)]
    found = {row[0]: row for row in copy(classic, folder, f"{CSV} ON_ERROR = CONTINUE")}
    assert found["good.csv"][1] == "SKIPPED"
    assert found["mixed.csv"][1:5] == ("PARTIALLY_LOADED", 1, 4, 3)
    assert str(found["mixed.csv"][5]).startswith("Malformed record: ")
    assert found["bad.csv"][1:5] == ("LOAD_FAILED", 0, 1, 1)
    assert str(found["bad.csv"][5]).startswith("Cast failure in column 'id'")
    assert rows(classic, "SELECT id FROM db.t") == [(1,), (2,), (3,)]
    again = {row[0]: row[1] for row in copy(classic, folder, f"{CSV} ON_ERROR = CONTINUE")}
    assert again == {"good.csv": "SKIPPED", "mixed.csv": "SKIPPED", "bad.csv": "LOAD_FAILED"}


def test_folders_that_are_named_in_another_way(classic: Lake, folder: Path) -> None:
    """Relative to where Spark is, and with `.` and `..`: they were taken for empty ones."""
    table(classic)
    ((working,),) = classic.spark.sql("SELECT java_method('java.lang.System', 'getProperty', 'user.dir')").collect()
    relative = Path(os.path.relpath(folder, working))
    (folder / "a.csv").write_text("1,Alice\n")
    (folder / "below" / "deeper").mkdir(parents=True)
    (folder / "below" / "b.csv").write_text("9,no\n")
    (folder / "below" / "deeper" / "c.csv").write_text("9,no\n")
    for name in (relative, f"{folder}/./below/..", relative / "a.csv", f"{relative}/"):
        assert copy(classic, name, f"{CSV} FORCE = TRUE") == [("a.csv", "LOADED", 1, 1, 0, None)], name
    assert copy(classic, relative / "below" / "deeper")[0][:2] == ("c.csv", "LOADED")
    assert rows(classic, f"COPY INTO '{relative}/out' FROM (SELECT 1) {CSV}")[0][1:] == (1, 1)
    with pytest.raises(NotFoundError, match="no such folder"):
        copy(classic, relative / "gone")


def test_exports(classic: Lake, folder: Path) -> None:
    table(classic)
    classic.sql("INSERT INTO db.t VALUES (1, 'Alice'), (2, 'Bob')")
    out = folder / "out"
    query = "(SELECT id, count(*) AS n FROM db.t WHERE id IN (1, 2) GROUP BY id)"
    assert rows(classic, f"COPY INTO '{out}' FROM {query} FILE_FORMAT = (TYPE = CSV, HEADER = TRUE)")[0][2] == 2
    assert sorted("".join(p.read_text() for p in out.glob("part-*")).split()) == ["1,1", "2,1", "id,n"]
    with pytest.raises(PySparkException, match="ALREADY_EXISTS"):
        classic.sql(f"COPY INTO '{out}' FROM db.t {CSV}")
    told = rows(classic, f"COPY INTO '{out}' FROM (VALUES (1, 'a')) FILE_FORMAT = (TYPE = JSON) OVERWRITE = TRUE")
    assert told == [(str(out), 1, 1)]
    assert [json.loads(p.read_text()) for p in out.glob("part-*")] == [{"col1": 1, "col2": "a"}]
    for text in (
        "DROP TABLE db.t",
        "INSERT INTO db.t VALUES (3, '')",
        "WITH a AS (SELECT 1) INSERT INTO db.t SELECT 1, ''",
    ):
        with pytest.raises(InvalidError, match="only supports read-only queries"):
            classic.sql(f"COPY INTO '{folder}/x' FROM ({text}) {CSV}")
    with pytest.raises(InvalidError, match="where tables lie"):
        classic.sql(f"COPY INTO 'file:{classic.table('db.t').path}/x' FROM db.t {CSV} OVERWRITE = TRUE")
    assert len(rows(classic, "SELECT * FROM db.t")) == 2


REFUSED = {
    "FILE_FORMAT = (TYPE = ORC)": "Unsupported file format type: ORC. Supported types",
    "FILE_FORMAT = (FIELD_DELIMITER = ',')": "FILE_FORMAT must include TYPE",
    "FILE_FORMAT = (TYPE = CSV SKIP_HEADER = 1)": "expected , or .*SKIP_HEADER.*commas between options",
    "FILE_FORMAT = (TYPE = CSV, TYPE = CSV)": "Duplicate FILE_FORMAT option",
    "FILE_FORMAT = (TYPE = CSV, QUOTES = TRUE)": "Unsupported FILE_FORMAT options for import: QUOTES.*did you mean QUOTE",
    "FILE_FORMAT = (TYPE = JSON, FIELD_DELIMITER = ',')": "Unsupported FILE_FORMAT options",
    "FILE_FORMAT = (TYPE = CSV, SKIP_HEADER = 2)": "SKIP_HEADER supports only 0 or 1",
    "FILE_FORMAT = (TYPE = CSV, MODE = PERMISSIVE)": "MODE cannot be specified",
    "FILE_FORMAT = (TYPE = CSV) PATTERN = '['": "PATTERN is not a regular expression",
    "FILE_FORMAT = (TYPE = CSV) ON_ERROR = SKIP_FILE_3": "ON_ERROR = SKIP_FILE_3",
    "FILE_FORMAT = (TYPE = CSV) ON_ERROR = CONTINUE FORCE = TRUE": "unexpected text",
}


def test_what_is_refused(classic: Lake, folder: Path) -> None:
    table(classic)
    for clauses, message in REFUSED.items():
        with pytest.raises((InvalidError, UnsupportedError), match=message):
            copy(classic, folder, clauses)
    with pytest.raises(InvalidError, match="Unsupported FILE_FORMAT options for export"):
        classic.sql(f"COPY INTO '{folder}/x' FROM db.t FILE_FORMAT = (TYPE = CSV, SKIP_HEADER = 1)")
    with pytest.raises(InvalidError, match="requires a non-empty query"):
        classic.sql(f"COPY INTO '{folder}/x' FROM () {CSV}")
    with pytest.raises(NotFoundError, match="no such folder"):
        copy(classic, folder / "nowhere")
    assert copy(classic, folder) == []


def test_places_that_spark_has_no_connector_for(classic: Lake) -> None:
    """They were a trace of Java's."""
    table(classic)
    events = classic.spark.readStream.format("rate").load().selectExpr("CAST(value AS INT) AS id", "'x' AS name")
    for place in ("nobody://somewhere/else", "s3a://somewhere/else"):
        with pytest.raises(UnsupportedError, match="no connector"):
            copy(classic, place)
        with pytest.raises(UnsupportedError, match="no connector"):
            classic.table("db.t").write_stream(events, "s3a://somewhere/checkpoint")
    assert rows(classic, "SELECT * FROM db.t") == []


def test_what_was_counted_is_what_is_loaded(classic: Lake, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody who frees cached rows, or writes the file anew, comes between the count and the commit."""
    table(classic)
    given, real = folder / "a.csv", load.write
    given.write_text("1,Alice\n2,Bob\n")

    def meanwhile(*arguments: Any) -> Any:
        classic.spark.catalog.clearCache()
        given.write_text("x,Alice\n7,Eve\n")
        return real(*arguments)

    monkeypatch.setattr(load, "write", meanwhile)
    assert copy(classic, folder) == [("a.csv", "LOADED", 2, 2, 0, None)]
    assert rows(classic, "SELECT * FROM db.t") == [(1, "Alice"), (2, "Bob")]


def test_a_load_that_died_after_its_commit_is_known(
    classic: Lake, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(classic)
    (folder / "a.csv").write_text("1,Alice\n2,Bob\n")
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(load.Loading, "finish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        copy(classic, folder)
    assert copy(classic, folder) == [("a.csv", "SKIPPED", 0, 0, 0, None)]
    assert rows(classic, "SELECT * FROM db.t") == [(1, "Alice"), (2, "Bob")]
    history = Path(classic.table("db.t").path) / "copy-into"
    (record,) = [json.loads(path.read_text()) for path in (history / "history").iterdir()]
    assert (record["rowsLoaded"], record["snapshotId"]) == (2, 1)
    assert list((history / "intents").iterdir()) == []


def test_two_loads_of_the_same_files_side_by_side(classic: Lake, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that commits second leaves out what the first has loaded."""
    table(classic)
    (folder / "a.csv").write_text("1,Alice\n")
    (folder / "b.csv").write_text("2,Bob\n")
    real, first = load.write, []

    def meanwhile(*arguments: Any) -> Any:
        if not first:
            first.append([])
            first[0] = copy(classic, folder, f"{CSV} PATTERN = 'a'")
        return real(*arguments)

    monkeypatch.setattr(load, "write", meanwhile)
    second = copy(classic, folder)
    assert [row[:3] for row in first[0]] == [("a.csv", "LOADED", 1)]
    assert [row[:3] for row in second] == [("a.csv", "SKIPPED", 0), ("b.csv", "LOADED", 1)]
    assert rows(classic, "SELECT * FROM db.t") == [(1, "Alice"), (2, "Bob")]
    data = [path for path in (Path(classic.table("db.t").path) / "bucket-0").iterdir() if path.name.startswith("data-")]
    assert len(data) == 2, "what the second had written of both is gone"


def test_names_of_files_may_need_escapes(classic: Lake, folder: Path) -> None:
    """Such a file was told of with 0 rows, and one whose rows were left out was taken for loaded: it was skipped."""
    classic.sql("CREATE TABLE db.u (id INT, s STRING)")
    names = ["a b.csv", "ü.csv", "p%20+q.csv"]
    for name in names:
        (folder / name).write_text("1,a\n")
        (folder / f"bad {name}").write_text("1,b\nx,c\n")
    copy = f"COPY INTO db.u FROM '{folder}' {CSV} PATTERN = '^(bad )?[aüp]( b|%20.q)?[.]csv$'"
    for mode, good in (("SKIP_FILE", 0), ("CONTINUE", 1)):
        found = {row.file_name: tuple(row)[1:5] for row in classic.sql(f"{copy} ON_ERROR = {mode}").collect()}
        status = "PARTIALLY_LOADED" if good else "LOAD_FAILED"
        skipped = ("SKIPPED", 0, 0, 0)
        assert {name: found[name] for name in names} == dict.fromkeys(names, skipped if good else ("LOADED", 1, 1, 0))
        assert {found[f"bad {name}"] for name in names} == {(status, good, 2, 1)}
    assert rows(classic, "SELECT s, count(*) FROM db.u GROUP BY s ORDER BY s") == [("a", 3), ("b", 3)]


def test_files_that_are_not_what_is_said(classic: Lake, folder: Path) -> None:
    classic.sql("CREATE TABLE db.u (id INT, l ARRAY<INT>)")
    (folder / "no.parquet").write_text("no parquet")
    (folder / "l.json").write_text('{"id": 1, "l": [1]}')
    pq.write_table(pa.table({"id": pa.array([1], pa.int32())}), folder / "yes.parquet")
    for pattern in ("no.parquet", "parquet"):
        with pytest.raises(InvalidError, match=r"not PARQUET, or is damaged.*no\.parquet.*PATTERN"):
            classic.sql(f"COPY INTO db.u FROM '{folder}' FILE_FORMAT = (TYPE = PARQUET) PATTERN = '{pattern}'")
    with pytest.raises(UnsupportedError, match=r"nested values from JSON files.*column=l.*FROM json\.`"):
        classic.sql(f"COPY INTO db.u FROM '{folder}' FILE_FORMAT = (TYPE = JSON) PATTERN = 'l.json'")


def test_members_that_are_not_null(classic: Lake, folder: Path) -> None:
    """Files with such a column were refused by an error of Spark's about the cast of their rows."""
    classic.sql("CREATE TABLE db.m (id INT, s STRUCT<a: INT NOT NULL>)")
    load_it = f"COPY INTO db.m FROM '{folder}/p' FILE_FORMAT = (TYPE = PARQUET)"
    classic.spark.sql("SELECT 1 AS id, named_struct('a', 5) AS s").write.parquet(f"{folder}/p")
    classic.sql(load_it)
    assert rows(classic, "SELECT id, s.a FROM db.m") == [(1, 5)]
    classic.spark.sql("SELECT 2 AS id, named_struct('a', CAST(NULL AS INT)) AS s").write.mode("append").parquet(
        f"{folder}/p"
    )
    with pytest.raises(Exception, match="NOT_NULL_ASSERT_VIOLATION"):
        classic.sql(load_it)
    assert rows(classic, "SELECT id, s.a FROM db.m") == [(1, 5)]


def test_columns_that_no_cast_makes_the_table_s(classic: Lake, folder: Path) -> None:
    """It was Spark's error about a cast, of no file and of no column."""
    classic.sql("CREATE TABLE db.c (id INT, s STRUCT<a: INT, b: INT>, l ARRAY<INT>)")
    classic.spark.sql("SELECT 1 AS id, named_struct('a', 5) AS s, map(1, 2) AS l").write.parquet(f"{folder}/p")
    load_it = f"COPY INTO db.c {{}} FROM '{folder}/p' FILE_FORMAT = (TYPE = PARQUET)"
    with pytest.raises(InvalidError, match=r"cannot be cast.*column=s, of_files=struct<a:int>.*FROM parquet\.`"):
        classic.sql(load_it.format(""))
    with pytest.raises(InvalidError, match=r"cannot be cast.*column=l, of_files=map<int,int>.*ARRAY<INT>"):
        classic.sql(load_it.format("(id, l)"))
    classic.sql(load_it.format("(id)"))
    assert rows(classic, "SELECT * FROM db.c") == [(1, None, None)]


def test_nested_values_lose_nothing(classic: Lake, folder: Path) -> None:
    """Members of rows went by place, so that those of another order were exchanged, and what could not be cast within
    a nested value became NULL there, without a word."""
    classic.sql("CREATE TABLE db.o (id INT, s STRUCT<a: STRING, b: STRING>, l ARRAY<INT>)")
    made = classic.spark.sql("SELECT * FROM VALUES (1, '5'), (2, 'x') AS v (id, t)")
    row = "named_struct('B', 'b', 'a', 'a') AS s"
    made.selectExpr("id", row, "array('1', t, NULL) AS l").coalesce(1).write.parquet(f"{folder}/p")
    load_it = f"COPY INTO db.o FROM '{folder}/p' FILE_FORMAT = (TYPE = PARQUET)"
    with pytest.raises(InvalidError, match="Cast failure in column 'l'"):
        classic.sql(load_it)
    (told,) = classic.sql(f"{load_it} ON_ERROR = CONTINUE").collect()
    assert (told.status, told.rows_loaded, told.errors_seen) == ("PARTIALLY_LOADED", 1, 1)
    assert rows(classic, "SELECT id, s.a, s.b, l FROM db.o") == [(1, "a", "b", [1, 5, None])]


def test_parquet_files_of_other_columns(classic: Lake, folder: Path) -> None:
    """What one of them lacked, others lost: it was loaded as NULL, and never again."""
    classic.sql("CREATE TABLE db.v (id INT, s STRING)")
    for name, text in {"a": "SELECT 1 AS id", "b": "SELECT 2 AS id, 'x' AS s", "c": "SELECT 'y' AS id"}.items():
        made = classic.spark.sql(text).toArrow()
        pq.write_table(made, f"{folder}/{name}.parquet")
    load_it = f"COPY INTO db.v FROM '{folder}' FILE_FORMAT = (TYPE = PARQUET)"
    with pytest.raises(InvalidError, match=r"of one name have other types.*id: STRING.*PATTERN"):
        classic.sql(load_it)
    classic.sql(f"{load_it} PATTERN = '^[ab]'")
    assert rows(classic, "SELECT * FROM db.v ORDER BY id") == [(1, None), (2, "x")]
