"""VARIANT columns: written, merged and read through Spark and Arrow, in the files that Apache Paimon has."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.profile import first

import bucketlake
from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.spark.session import Lake
from bucketlake.types import arrow_type, parse_type_text
from bucketlake.types.model import DataField, canonical_batch, from_arrow_type, type_text

PARTS = pa.struct([pa.field("value", pa.binary()), pa.field("metadata", pa.binary())])
ONE, TWO = ({"value": bytes([12, n]), "metadata": b"\x01\x00\x00"} for n in (1, 2))
DECLARED = "id INT, v VARIANT, l ARRAY<VARIANT>, s STRUCT<x: VARIANT, y: INT>"
KINDS = {
    "append": "",
    "keyed": "'primary-key' = 'id'",
    "vectors": "'deletion-vectors.enabled' = 'true'",
    "pending": "'primary-key' = 'id', 'bucket' = '-2'",
    "partial": "'primary-key' = 'id', 'bucket' = '1', 'merge-engine' = 'partial-update'",
}


def columns(declared: str) -> list[DataField]:
    return list(parse_type_text(f"ROW<{declared}>", "flink").fields)


def shown(lake: Lake, name: str) -> list[tuple[object, ...]]:
    text = "SELECT id, to_json(v), to_json(l), variant_get(s.x, '$', 'int'), s.y FROM {} ORDER BY id"
    return [tuple(row) for row in lake.sql(text.format(name)).collect()]


@pytest.mark.parametrize("kind", first(list(KINDS), 2))
def test_rows_change(classic: Lake, kind: str) -> None:
    lake = classic
    lake.sql("USE db")
    lake.sql(f"CREATE TABLE t ({DECLARED}) TBLPROPERTIES ({KINDS[kind] or repr('k') + '=' + repr('v')})")
    lake.sql(
        "INSERT INTO t SELECT 1, parse_json('{\"a\":1}'), array(parse_json('1'), null), struct(parse_json('2'), 3)"
        " UNION ALL SELECT 2, null, null, null"
        " UNION ALL SELECT 3, parse_json('[1,2]'), null, struct(cast(null AS VARIANT), 4)"
    )
    lake.sql("UPDATE t SET v = parse_json('\"u\"') WHERE variant_get(v, '$[0]', 'int') = 1")
    lake.sql(
        "MERGE INTO t USING (SELECT 2 id, cast(null AS VARIANT) v UNION ALL SELECT 7, parse_json('7')) n ON t.id = n.id"
        " WHEN MATCHED THEN UPDATE SET v = n.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (n.id, n.v)"
    )
    expected = [
        (1, '{"a":1}', "[1,null]", 2, 3),
        (2, None, None, None, None),
        (3, '"u"', None, None, 4),
        (7, "7", None, None, None),
    ]
    assert shown(lake, "t") == expected
    lake.sql("ALTER TABLE t ADD COLUMN w VARIANT")
    lake.sql("CALL sys.compact(table => 't', compact_strategy => 'full')")
    assert shown(lake, "t") == expected
    found = lake.catalog.table("db.t").to_arrow().sort_by("id")
    assert found.column("v").null_count == 1 and found.column("w").null_count == 4
    assert type_text(from_arrow_type(found.schema.field("v").type)) == "VARIANT"


@pytest.mark.slow
def test_by_data_source(lake: Lake) -> None:
    lake.sql(f"CREATE TABLE db.t ({DECLARED})")
    for value in ("parse_json('1')", "null", "4", "'text'"):
        lake.sql(f"INSERT INTO db.t (id, v) SELECT 1 + count(*), {value} FROM db.t")
    path = lake.table("db.t").table.path
    frame = lake.spark.read.format("bucketlake").load(path)
    assert [str(row.v) for row in frame.orderBy("id").collect()] == ["1", "None", "4", '"text"']
    frame.write.format("bucketlake").mode("append").save(path)
    assert lake.sql("SELECT count(*), count(v) FROM db.t").first() == (8, 6)
    assert lake.sql("DESCRIBE db.t").collect()[1][1] == "variant"
    lake.sql("ALTER TABLE db.t ADD COLUMN w VARIANT")
    lake.sql(
        "MERGE INTO db.t USING (SELECT 1 id, cast(null AS VARIANT) w) n ON t.id = n.id AND t.v IS NULL"
        " WHEN NOT MATCHED THEN INSERT (id, w) VALUES (9, n.w)"
    )
    found = lake.sql("SELECT id, to_json(v), w FROM db.t WHERE id > 2 ORDER BY id LIMIT 3").collect()
    assert [tuple(row) for row in found] == [(3, "4", None), (3, "4", None), (4, '"text"', None)]


def test_files_without_spark(tmp_path: Path) -> None:
    """Parts as Apache Paimon writes them; rows whose values are null have nulls nowhere else."""
    catalog = bucketlake.open(str(tmp_path))
    catalog.create_database("db")
    table = catalog.create_table("db.t", columns("id INT, v VARIANT, r ROW<x INT NOT NULL>"))
    rows = pa.table(
        {"id": [1, 2, 3], "v": pa.array([ONE, None, TWO], PARTS), "r": pa.array([None, {"x": 1}, {"x": 2}])},
        schema=pa.schema([("id", pa.int32()), ("v", PARTS), ("r", pa.struct([("x", pa.int32())]))]),
    )
    table.write_arrow(rows)
    found = table.to_arrow()
    assert found.column("v").to_pylist() == [ONE, None, TWO] and found.column("r").null_count == 1
    (file,) = tmp_path.glob("db.db/t/bucket-0/*.parquet")
    leaves = [str(pq.ParquetFile(file).schema.column(i)) for i in (1, 2)]
    assert all("physical_type: BYTE_ARRAY" in leaf and "max_definition_level: 1" in leaf for leaf in leaves)
    assert [pq.ParquetFile(file).schema.column(i).path for i in (1, 2)] == ["v.value", "v.metadata"]


def test_what_is_refused(tmp_path: Path) -> None:
    catalog = bucketlake.open(str(tmp_path))
    catalog.create_database("db")
    for more in ({"file.format": "orc"}, {"file.format": "avro"}, {"changelog-file.format": "avro"}):
        with pytest.raises(InvalidError, match="VARIANT is supported by file.format parquet alone"):
            catalog.create_table("db.t", columns("id INT, v VARIANT"), options=more)
    with pytest.raises(InvalidError, match="VariantType in primary key field v is unsupported"):
        catalog.create_table("db.t", columns("v VARIANT"), primary_keys=["v"])
    table = catalog.create_table("db.t", columns("id INT, v VARIANT"))
    rows = pa.table({"id": pa.array([1], pa.int32()), "v": pa.array([ONE], PARTS)})
    for kind in ("orc", "avro"):
        with pytest.raises(InvalidError, match="VARIANT is supported by file.format parquet alone"):
            table.write_arrow(rows, **{"file.format": kind})
    assert table.snapshots() == [] and not list(tmp_path.glob("db.db/t/bucket-0/*"))
    table.write_arrow(rows)
    for kind in ("orc", "avro"):
        with pytest.raises((InvalidError, UnsupportedError), match=kind):
            table.refresh().rewrite(options={"file.format": kind})
    assert len(table.snapshots()) == 1
    shredded = pa.struct([*PARTS, pa.field("typed_value", pa.int32())])
    stored = pa.record_batch({"v": pa.array([{**ONE, "typed_value": 1}], shredded)})
    with pytest.raises(UnsupportedError, match="a shredded VARIANT is read by Spark alone"):
        canonical_batch(stored, columns("v VARIANT"), trusted=True)


def test_arrow_type() -> None:
    """What Spark marks is VARIANT, two columns that are called alike are a ROW."""
    kind = arrow_type(parse_type_text("VARIANT"))
    assert type_text(from_arrow_type(kind)) == "VARIANT"
    assert type_text(from_arrow_type(PARTS)) == "ROW<`value` BYTES, `metadata` BYTES>"
