"""Java's ORC library, which Spark has, reads instants before 1970 that Bucketlake wrote."""

from __future__ import annotations

import pyarrow as pa
import pytest

from bucketlake.spark.read import reader
from bucketlake.spark.session import Lake

SECOND = 10**6
MICROS = [-SECOND, -SECOND + 1, -SECOND + 999, -SECOND - 1, -1_500_000, -86_400_123_456, 7, 0, -8 * 10**15 - 123]


@pytest.mark.spark
def test_spark_reads_files_of_instants_before_1970(classic: Lake) -> None:
    instants = ["t", "l"] if not classic.spark.version.startswith("4.1.") else ["t"]  # 4.1 opens no file with the other
    count = 3000
    micros = [MICROS[at % len(MICROS)] - at // len(MICROS) * SECOND * (at % len(MICROS) != 6) for at in range(count)]
    micros = [None if at % 11 == 5 else value for at, value in enumerate(micros)]
    options = {"bucket": "-1", "file.format": "orc", "orc.row.index.stride": "500"}
    kinds = {"t": pa.timestamp("us"), "l": pa.timestamp("us", "UTC")}
    schema = pa.schema([("id", pa.int32()), *((name, kinds[name]) for name in instants)])
    table = classic.catalog.create_table("default.t", schema, (), (), options)
    stamps = [pa.array(micros, kinds[name]) for name in instants]
    table.write_arrow(pa.Table.from_arrays([pa.array(range(count), pa.int32()), *stamps], schema=schema))

    (file,) = table.files()
    read = classic.spark.read.schema(", ".join(["id INT", *(f"{name} TIMESTAMP" for name in instants)])).orc(file.path)
    asked = read.selectExpr("id", *(f"unix_micros({name})" for name in instants))
    some = sorted(map(tuple, asked.where("id >= 1700 AND id < 1703").collect()))
    assert some == [(at, *[micros[at]] * len(instants)) for at in range(1700, 1703)]
    assert sorted(map(tuple, asked.collect())) == [(at, *[value] * len(instants)) for at, value in enumerate(micros)]

    through = classic.sql("SELECT id, unix_micros(CAST(t AS TIMESTAMP)) FROM t WHERE t < TIMESTAMP_NTZ '1969-12-01'")
    early = [(at, value) for at, value in enumerate(micros) if value is not None and value < -31 * 86_400 * SECOND]
    assert sorted(map(tuple, through.collect())) == early


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["TIMESTAMP", "ARRAY<TIMESTAMP>"])
def test_columns_beside_instants_are_read(classic: Lake, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Spark 4.1 opens no ORC file that has an instant with a zone, whichever column is asked for."""
    classic.sql(f"CREATE TABLE t (id INT, l {kind}) TBLPROPERTIES ('bucket' = '-1', 'file.format' = 'orc')")
    classic.sql("INSERT INTO t SELECT id, NULL FROM range(10)")
    monkeypatch.setattr(reader, "SMALL_ROWS", 0)  # nothing is read in the driver
    assert classic.sql("SELECT sum(id) FROM t WHERE id > 5").collect() == [(30,)]


@pytest.mark.spark
@pytest.mark.parametrize("file_format", ["orc", "parquet"])
def test_nanoseconds_before_1970_are_rounded_down(classic: Lake, file_format: str) -> None:
    """As Paimon's `Timestamp.toMicros`, which Spark is given."""
    nanos = [-(10**9) - 1, -2 * 10**9 + 1, -(10**10) - 1999, 1999, -(2**63) + 10**9, None]
    schema = pa.schema([("n", pa.timestamp("ns")), ("a", pa.list_(pa.timestamp("ns", "UTC")))])
    table = classic.catalog.create_table("default.t", schema, (), (), {"bucket": "-1", "file.format": file_format})
    arrays = [pa.array(nanos, schema.field("n").type), pa.array([[value] for value in nanos], schema.field("a").type)]
    table.write_arrow(pa.Table.from_arrays(arrays, schema=schema))
    found = classic.sql("SELECT unix_micros(CAST(n AS TIMESTAMP)), unix_micros(a[0]) FROM t").collect()
    micros = [None if value is None else value // 1000 for value in nanos]
    assert {tuple(row) for row in found} == {(value, value) for value in micros}
