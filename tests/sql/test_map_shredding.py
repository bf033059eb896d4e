"""Shredded MAP columns in statements: what Apache Paimon's Spark connector tests of them, and which files Spark reads
itself."""

from __future__ import annotations

from typing import Any

import pytest
from tests.profile import later

from bucketlake.errors import InvalidError
from bucketlake.spark.read import hidden, reader
from bucketlake.spark.session import Lake

LAYOUT = "fields.attrs.map.storage-layout"
ONE = f"'{LAYOUT}' = 'shared-shredding', 'fields.attrs.map.shared-shredding.max-columns' = '1'"
TWO = "(1, map('key1', 10L, 'key2', 20L)), (2, map('key2', 30L, 'cold', 40L))"
FORMATS = pytest.mark.parametrize("format", later(["parquet", "orc"], 1))
Rows = list[tuple[Any, ...]]


@pytest.fixture(params=["driver", "tasks"])
def lake(request: pytest.FixtureRequest, classic: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Where splits are read that Spark's scan does not read."""
    if request.param == "tasks":
        for module in (reader, hidden):
            monkeypatch.setattr(module, "SMALL_ROWS", -1)
    return classic


def rows(lake: Lake, statement: str) -> Rows:
    return [tuple(row) for row in lake.sql(statement).collect()]


def create(lake: Lake, format: str, more: str, keys: str = "'bucket' = '-1'") -> None:
    lake.sql(
        f"CREATE TABLE T (id INT, attrs MAP<STRING, BIGINT>) TBLPROPERTIES ({keys}, 'file.format' = '{format}'{more})"
    )


@FORMATS
def test_selected_keys(lake: Lake, format: str) -> None:
    create(lake, format, f", {ONE}")
    lake.sql(f"INSERT INTO T VALUES {TWO}")
    selected = "SELECT id, attrs['key1'], attrs['key2'], attrs['missing'] FROM T ORDER BY id"
    assert rows(lake, selected) == [(1, 10, 20, None), (2, None, 30, None)]
    assert rows(lake, "SELECT id FROM T WHERE attrs['cold'] = 40") == [(2,)]
    assert rows(lake, "SELECT count(*), max(attrs['key2']) FROM T") == [(2, 30)]


@FORMATS
def test_layouts_that_switch(lake: Lake, format: str) -> None:
    create(lake, format, "")
    lake.sql("INSERT INTO T VALUES (1, map('key1', 10L, 'key2', 20L))")
    lake.sql(f"ALTER TABLE T SET TBLPROPERTIES ({ONE})")
    lake.sql("INSERT INTO T VALUES (2, map('key2', 30L, 'cold', 40L))")
    selected = "SELECT id, attrs['key1'], attrs['key2'] FROM T ORDER BY id"
    assert rows(lake, selected) == [(1, 10, 20), (2, None, 30)]
    lake.sql(f"ALTER TABLE T SET TBLPROPERTIES ('{LAYOUT}' = 'default')")
    lake.sql("INSERT INTO T VALUES (3, map('key1', 50L))")
    assert rows(lake, selected) == [(1, 10, 20), (2, None, 30), (3, 50, None)]
    lake.sql(f"ALTER TABLE T SET TBLPROPERTIES ('{LAYOUT}' = 'shared-shredding')")
    lake.sql("INSERT INTO T VALUES (4, map('key2', 60L))")
    assert rows(lake, selected) == [(1, 10, 20), (2, None, 30), (3, 50, None), (4, None, 60)]
    whole = [
        (1, {"key1": 10, "key2": 20}),
        (2, {"key2": 30, "cold": 40}),
        (3, {"key1": 50}),
        (4, {"key2": 60}),
    ]
    assert rows(lake, "SELECT id, attrs FROM T ORDER BY id") == whole
    for version in (1, 2, 3, 4):  # under the options of its time, or of today: files are read as they were written
        found = rows(lake, f"SELECT id, attrs FROM T VERSION AS OF {version} ORDER BY id")
        assert found == whole[:version]


@FORMATS
@pytest.mark.parametrize("thin", later(["true", "false"], 1))
@pytest.mark.parametrize("aggregate", ["fields.attrs.aggregate-function", "fields.default-aggregate-function"])
def test_merged_maps(lake: Lake, format: str, thin: str, aggregate: str) -> None:
    more = f", 'merge-engine' = 'aggregation', '{aggregate}' = 'merge_map', 'write-only' = 'true', {ONE}"
    keys = f"'primary-key' = 'id', 'bucket' = '1', 'data-file.thin-mode' = '{thin}'"
    create(lake, format, more, keys)
    lake.sql("INSERT INTO T VALUES (1, map('key1', 10L, 'key2', 20L)), (2, NULL)")
    lake.sql("INSERT INTO T VALUES (1, map('key2', 30L, 'cold', 40L)), (2, map('key1', 50L))")
    assert rows(lake, "SELECT id, attrs['key1'], attrs['key2'] FROM T ORDER BY id") == [(1, 10, 30), (2, 50, None)]


@FORMATS
@pytest.mark.parametrize("more", ["", f", {ONE}"])
def test_whole_maps(lake: Lake, format: str, more: str) -> None:
    create(lake, format, more)
    lake.sql(f"INSERT INTO T VALUES {TWO}, (3, NULL)")
    assert rows(lake, "SELECT id, attrs FROM T ORDER BY id") == [
        (1, {"key1": 10, "key2": 20}),
        (2, {"key2": 30, "cold": 40}),
        (3, None),
    ]
    selected = "SELECT id, attrs['key1'], attrs['key2'], attrs['missing'] FROM T ORDER BY id"
    assert rows(lake, selected) == [(1, 10, 20, None), (2, None, 30, None), (3, None, None, None)]


def test_spark_reads_files_of_other_columns(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its scan has no maps of shredded files, and all else of them."""
    monkeypatch.setattr(reader, "SMALL_ROWS", -1)
    create(lake, "parquet", f", {ONE}")
    lake.sql("INSERT INTO T SELECT /*+ REPARTITION(1) */ id, map('a', id, 'b', 2 * id) FROM range(100)")
    whole = lake.table("T").read()
    assert not whole.inputFiles()
    assert sum(row.attrs["b"] for row in whole.collect()) == 9900
    ids = lake.table("T").read(columns=["id"])
    assert len(ids.inputFiles()) == 1
    assert ids.count() == 100
    lake.sql(f"ALTER TABLE T SET TBLPROPERTIES ('{LAYOUT}' = 'default')")
    lake.sql("INSERT INTO T SELECT /*+ REPARTITION(1) */ id, map('a', id, 'b', 2 * id) FROM range(100, 200)")
    both = lake.table("T").read(**{"source.split.target-size": "1kb"})
    assert len(both.inputFiles()) == 1
    assert sum(row.attrs["b"] for row in both.collect()) == 39_800


def test_changes_of_rows(lake: Lake) -> None:
    create(lake, "parquet", f", 'deletion-vectors.enabled' = 'true', {ONE}")
    lake.sql(f"INSERT INTO T VALUES {TWO}, (3, NULL), (4, map())")
    lake.sql("UPDATE T SET attrs = map_concat(attrs, map('new', 1L)) WHERE attrs['key2'] = 20")
    lake.sql("DELETE FROM T WHERE attrs IS NULL OR id = 4")
    lake.sql(
        "MERGE INTO T USING (SELECT 2 AS id, map('key1', 7L) AS m UNION ALL SELECT 9, map('x', 8L)) s ON T.id = s.id "
        "WHEN MATCHED THEN UPDATE SET attrs = s.m WHEN NOT MATCHED THEN INSERT (id, attrs) VALUES (s.id, s.m)"
    )
    expected = [(1, {"key1": 10, "key2": 20, "new": 1}), (2, {"key1": 7}), (9, {"x": 8})]
    assert rows(lake, "SELECT id, attrs FROM T ORDER BY id") == expected
    lake.sql("CALL sys.compact(table => 'T', compact_strategy => 'full')")
    assert rows(lake, "SELECT id, attrs FROM T ORDER BY id") == expected


def test_keys_of_maps_are_not_null_in_sparks_words(classic: Lake) -> None:
    """As Paimon's connector has them; Flink's words say so, or not."""
    create(classic, "parquet", "")
    (key,) = [item.type.key for item in classic.table("T").schema.fields if item.type.key is not None]
    assert not key.nullable
    classic.sql(f"ALTER TABLE T SET TBLPROPERTIES ({ONE})")
    flinks = "CREATE TABLE F (id INT, attrs MAP<STRING{}, BIGINT>) WITH ('bucket' = '-1', " + ONE + ")"
    with pytest.raises(InvalidError, match="key type is nullable"):
        classic.sql(flinks.format(""))
    classic.sql(flinks.format(" NOT NULL"))


def test_a_layout_is_no_option_of_a_call(classic: Lake) -> None:
    create(classic, "parquet", "")
    hint = f"/*+ OPTIONS('{LAYOUT}' = 'shared-shredding') */"
    for statement in (f"INSERT INTO T {hint} VALUES (1, map('a', 1L))", f"SELECT * FROM T {hint}"):
        with pytest.raises(InvalidError, match="cannot be set for a call"):
            classic.sql(statement)
