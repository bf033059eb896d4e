"""VECTOR columns in SQL and DataFrames, where they are arrays."""

from __future__ import annotations

from typing import Any

import pytest

from bucketlake.errors import InvalidError
from bucketlake.spark.session import Lake
from bucketlake.types.parse import parse_type_text

pytestmark = pytest.mark.spark

VECTOR = parse_type_text("VECTOR<FLOAT, 3>", "flink")
KINDS = {
    "append": "'file.format' = 'parquet'",
    "keyed": "'primary-key' = 'id', 'bucket' = '2'",
    "avro": "'primary-key' = 'id', 'file.format' = 'avro', 'merge-engine' = 'partial-update'",
    "evolving": "'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true', 'deletion-vectors.enabled' = 'true'",
}


def rows(classic: Lake, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in classic.sql(query).collect()]


@pytest.mark.parametrize("kind", KINDS)
def test_statements(classic: Lake, kind: str) -> None:
    declared = "ARRAY<FLOAT> COMMENT '__VECTOR_FIELD;3; of it'" if kind in ("append", "avro") else "VECTOR<FLOAT, 3>"
    classic.sql(f"CREATE TABLE db.v (id BIGINT, v {declared}, name STRING) TBLPROPERTIES ({KINDS[kind]})")
    classic.sql("INSERT INTO db.v VALUES (1, array(1.0, 2.0, 3.0), 'a'), (2, NULL, 'b'), (3, array(1f, 2f, 3f), 'c')")
    classic.sql(
        "MERGE INTO db.v t USING (SELECT 1L id, array(5f, 5f, 5f) v, 'm' name UNION ALL SELECT 7L, array(7d, 7d, 7d), "
        "'n') s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    ordered = "SELECT * FROM db.v ORDER BY id"
    expected = [(1, [5.0] * 3, "m"), (2, None, "b"), (3, [1.0, 2.0, 3.0], "c"), (7, [7.0] * 3, "n")]
    assert rows(classic, ordered) == expected
    if kind != "avro":  # partial-update takes no UPDATE of nulls and no DELETE
        classic.sql("UPDATE db.v SET v = array(0, 0, 0) WHERE v IS NULL")
        classic.sql("DELETE FROM db.v WHERE v[0] > 6")
        expected = [(1, [5.0] * 3, "m"), (2, [0.0] * 3, "b"), (3, [1.0, 2.0, 3.0], "c")]
        assert rows(classic, ordered) == expected
    classic.sql("CALL sys.compact(table => 'db.v')")
    assert rows(classic, ordered) == expected
    assert rows(classic, "SELECT id FROM db.v WHERE v[1] = 2") == [(3,)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("vector", ["array(1.0, 2.0)", "array(1.0, NULL, 3.0)", "array()"])
def test_what_is_no_such_vector_is_refused(classic: Lake, kind: str, vector: str) -> None:
    classic.sql(f"CREATE TABLE db.v (id BIGINT, v VECTOR<FLOAT, 3>) TBLPROPERTIES ({KINDS[kind]})")
    classic.sql("INSERT INTO db.v VALUES (1, array(1, 2, 3))")
    cast = f"CAST({vector} AS ARRAY<FLOAT>)"
    source = f"(SELECT 1L id, {cast} v) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v"
    statements = [f"INSERT INTO db.v VALUES (2, {cast})", f"MERGE INTO db.v t USING {source}"]
    if kind != "avro":
        statements.append(f"UPDATE db.v SET v = {cast}")
    for statement in statements:
        with pytest.raises(InvalidError, match=r"Vector length mismatch|an element of a vector is null"):
            classic.sql(statement)
    with pytest.raises(Exception, match=r"Vector length mismatch|an element of a vector is null"):
        classic.sql(f"SELECT 2L id, {cast} v").write.format("bucketlake").mode("append").save(
            classic.table("db.v").path
        )
    assert rows(classic, "SELECT * FROM db.v") == [(1, [1.0, 2.0, 3.0])]


def test_its_declaration_goes_on(classic: Lake) -> None:
    """SHOW CREATE, LIKE and ALTER keep and make vectors; rows for `write.merge-schema` bring arrays."""
    classic.sql("CREATE TABLE db.v (id BIGINT, v ARRAY<FLOAT> COMMENT '__VECTOR_FIELD;3; it''s') USING paimon")
    text = rows(classic, "SHOW CREATE TABLE db.v")[0][0]
    classic.sql("CREATE TABLE db.like LIKE db.v")
    assert classic.table("db.like").schema.field("v").type == VECTOR
    classic.sql("DROP TABLE db.v")
    classic.sql(text)
    table = classic.table("db.v")
    assert (table.schema.field("v").type, table.schema.field("v").description) == (VECTOR, "it's")
    classic.sql("ALTER TABLE db.v ADD COLUMN w ARRAY<DOUBLE> COMMENT '__VECTOR_FIELD;2'")
    wide = classic.sql("SELECT 1L id, array(1d, 2d, 3d) v, array(1d, 2d) w, 'x' more")
    for options in (
        {"write.merge-schema": "true"},
        {"write.merge-schema": "true", "write.merge-schema.type-widening": "true"},
    ):
        classic.table("db.v").write(wide, **options)
    assert rows(classic, "SELECT DISTINCT * FROM db.v") == [(1, [1.0, 2.0, 3.0], [1.0, 2.0], "x")]
    assert classic.table("db.v").schema.field("v").type == VECTOR
    assert classic.spark.read.format("bucketlake").load(classic.table("db.v").path).schema[
        "v"
    ].dataType.simpleString() == ("array<float>")
