"""Java's ORC library, which Spark has, reads instants before 1970 that Bucketlake wrote."""

from __future__ import annotations

import pyarrow as pa
import pytest

from bucketlake.spark.session import Lake

SECOND = 10**6
MICROS = [-SECOND, -SECOND + 1, -SECOND + 999, -SECOND - 1, -1_500_000, -86_400_123_456, 7, 0, -8 * 10**15 - 123]


@pytest.mark.spark
def test_spark_reads_files_of_instants_before_1970(classic: Lake) -> None:
    count = 3000
    micros = [MICROS[at % len(MICROS)] - at // len(MICROS) * SECOND * (at % len(MICROS) != 6) for at in range(count)]
    micros = [None if at % 11 == 5 else value for at, value in enumerate(micros)]
    options = {"bucket": "-1", "file.format": "orc", "orc.row.index.stride": "500"}
    schema = pa.schema([("id", pa.int32()), ("t", pa.timestamp("us")), ("l", pa.timestamp("us", "UTC"))])
    table = classic.catalog.create_table("default.t", schema, (), (), options)
    stamps = [pa.array(micros, schema.field(name).type) for name in ("t", "l")]
    table.write_arrow(pa.Table.from_arrays([pa.array(range(count), pa.int32()), *stamps], schema=schema))

    (file,) = table.files()
    read = classic.spark.read.schema("id INT, t TIMESTAMP, l TIMESTAMP").orc(file.path)
    asked = read.where("id >= 1700 AND id < 1703").selectExpr("id", "unix_micros(t)", "unix_micros(l)")
    assert sorted(map(tuple, asked.collect())) == [(at, micros[at], micros[at]) for at in range(1700, 1703)]
    found = sorted(map(tuple, read.selectExpr("id", "unix_micros(t)", "unix_micros(l)").collect()))
    assert found == [(at, value, value) for at, value in enumerate(micros)]

    through = classic.sql("SELECT id, unix_micros(CAST(t AS TIMESTAMP)) FROM t WHERE t < TIMESTAMP_NTZ '1969-12-01'")
    early = [(at, value) for at, value in enumerate(micros) if value is not None and value < -31 * 86_400 * SECOND]
    assert sorted(map(tuple, through.collect())) == early


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
