"""Columns whose members are NOT NULL and which are null themselves: statements that leave them out, change them, or carry
them along."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from bucketlake.spark.arrow_rows import framed
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark

TYPES = (
    "st STRUCT<m: INT NOT NULL, k: STRING>, ar ARRAY<STRUCT<q: INT NOT NULL>>, mm MAP<STRING, STRUCT<w: INT NOT NULL>>"
)
KINDS = {
    "appended": "",
    "keyed": "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')",
    "marked": "TBLPROPERTIES ('deletion-vectors.enabled' = 'true')",
    "evolving": "TBLPROPERTIES ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true')",
}
FULL = "named_struct('m', 1, 'k', 'a'), array(named_struct('q', 1), NULL), map('a', named_struct('w', 1), 'b', NULL)"
SOURCE = "USING (VALUES (1), (3)) s (i) ON id = i"


def _rows(lake: Lake, text: str) -> list[Any]:
    return sorted(repr([value if value is None else repr(value) for value in row]) for row in lake.sql(text).collect())


@pytest.mark.parametrize("kind", KINDS)
def test_members_not_null_of_columns_that_are_null(classic: Lake, kind: str) -> None:
    """MERGE, and UPDATE of a table with data evolution, ended with Arrow's error: it casts no null to such a type."""
    classic.sql(f"CREATE TABLE db.t (id INT, {TYPES}, x INT) {KINDS[kind]}")
    classic.sql("INSERT INTO db.t (id) VALUES (1)")
    classic.sql(f"INSERT INTO db.t SELECT 2, {FULL}, 0")
    classic.sql(
        f"MERGE INTO db.t {SOURCE} WHEN MATCHED THEN UPDATE SET x = 9 WHEN NOT MATCHED THEN INSERT (id) VALUES (i)"
    )
    assert _rows(classic, "SELECT id, st, x FROM db.t WHERE id <> 2") == _rows(
        classic, "SELECT * FROM VALUES (1, NULL, 9), (3, NULL, NULL)"
    )
    new = "(VALUES (2, named_struct('k', 'z'))) s (id, st)"
    classic.sql(f"MERGE INTO db.t USING {new} ON t.id = s.id WHEN MATCHED THEN UPDATE SET st.k = s.st.k")
    changed = FULL.replace("'k', 'a'", "'k', 'z'")
    assert _rows(classic, "SELECT * FROM db.t WHERE id = 2") == _rows(classic, f"SELECT 2, {changed}, 0")
    classic.sql("UPDATE db.t SET st = NULL WHERE id = 2")
    classic.sql("UPDATE db.t SET st = named_struct('m', 3, 'k', NULL) WHERE id = 1")
    assert _rows(classic, "SELECT id, st.m, ar IS NULL FROM db.t") == _rows(
        classic, "VALUES (1, 3, true), (2, NULL, false), (3, NULL, true)"
    )


def test_scripts_take_them_along(classic: Lake) -> None:
    """FOR over lists and maps of which some are null, and the rows that a script gives, ended with Arrow's errors."""
    classic.sql(f"CREATE TABLE db.t (id INT, {TYPES})")
    classic.sql(
        f"INSERT INTO db.t SELECT 1, NULL, NULL, NULL UNION ALL SELECT 2, {FULL} UNION ALL SELECT 3, NULL, NULL, NULL"
    )
    each = "SELECT id AS i, st AS s, ar AS a, mm AS m FROM db.t"
    script = f"BEGIN FOR r AS {each} DO INSERT INTO db.t SELECT i + 10, s, a, r.m; END FOR; SELECT * FROM db.t; END"
    found = sorted(map(repr, classic.sql(script).collect()))
    assert len(found) == 6
    assert _rows(classic, "SELECT id - 10, st, ar, mm FROM db.t WHERE id > 10") == _rows(
        classic, "SELECT * FROM db.t WHERE id < 10"
    )


def test_parts_of_tables_become_frames(classic: Lake) -> None:
    values = [None, [{"c": 1}], None, [{"c": 2}, None]]
    column = pa.array(values, pa.list_(pa.struct([("c", pa.int32())])))
    rows = pa.table({"a": column, "s": pa.StructArray.from_arrays([column], ["b"])})
    schema = StructType.fromDDL("a ARRAY<STRUCT<c: INT>>, s STRUCT<b: ARRAY<STRUCT<c: INT>>>")
    found = framed(classic.spark, rows.slice(2, 2), schema).collect()
    assert [(row.a, row.s.b) for row in found] == [(None, None), ([(2,), None], [(2,), None])]
