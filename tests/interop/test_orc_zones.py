"""Apache Paimon on Flink in a JVM outside of UTC: its ORC files name that zone."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interop.engines import DATABASE, result_rows
from tests.interop.values import arrow_rows, canonical
from tests.peers.flink import FlinkPaimon

import bucketlake

pytestmark = pytest.mark.peer

CLOCKS = [
    "0001-01-05 00:00:00", "1500-03-01 12:00:00.123456", "1582-10-15 00:00:00", "1677-01-01 00:00:00",
    "1800-06-01 00:00:00.000001", "1890-01-01 00:00:00", "1901-12-31 23:59:59.999999", "1950-07-01 00:00:00",
    "1969-12-31 12:00:00.000001", "2024-07-01 00:00:00", "2040-07-01 00:00:00", "2261-12-31 00:00:00",
    "2500-03-10 03:00:00", "2500-07-01 00:00:00", "9999-12-31 23:59:59.999999",
]  # fmt: skip


def test_clocks_are_as_flink_reads_them(flink: FlinkPaimon, tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    catalog.create_database(DATABASE)
    flink.use(tmp_path)
    with flink.jvm_zone("America/New_York"):
        options = "'bucket' = '-1', 'file.format' = 'orc', 'file.compression' = 'none'"
        flink.sql(f"CREATE TABLE {DATABASE}.far (t TIMESTAMP(6)) WITH ({options})")
        flink.sql(f"CREATE TABLE {DATABASE}.held (t TIMESTAMP(6)) WITH ({options})")
        held = [clock for clock in CLOCKS if "1700" < clock < "2262"]
        for name, clocks in (("far", CLOCKS), ("held", held)):
            flink.sql(
                f"INSERT INTO {DATABASE}.{name} VALUES " + ", ".join(f"(TIMESTAMP '{clock}')" for clock in clocks)
            )
            table = catalog.table(f"{DATABASE}.{name}")
            assert all(b"America/New_York" in Path(file.path).read_bytes() for file in table.files())
            assert canonical(arrow_rows(table.to_arrow(), table.schema.fields)) == result_rows(
                flink.sql(f"SELECT * FROM {DATABASE}.{name}")
            )
