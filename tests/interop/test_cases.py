"""Every table that is made for the others is first what Bucketlake itself reads."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop.cases import Case
from tests.interop.catalogue import catalogue
from tests.interop.values import arrow_rows, canonical

import bucketlake
from bucketlake.errors import UnsupportedError

CASES = {case.name: case for case in catalogue()}


@pytest.mark.parametrize("name", CASES)
def test_bucketlake_reads_its_own_table(name: str, tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    catalog.create_database("ours")
    made = CASES[name].make(catalog, "ours")
    table = catalog.table(f"ours.{name}")
    assert canonical(arrow_rows(table.to_arrow(), table.schema.fields)) == made.expected()


@pytest.mark.parametrize("kind", ["TIMESTAMP(6)", "ARRAY<TIMESTAMP_LTZ(9)>"])
def test_orc_refuses_instants_that_no_reader_tells_from_others(kind: str, tmp_path: Path) -> None:
    """Java's reader takes them for after 1970 where the nanoseconds are positive, and fails where they are negative."""
    catalog = bucketlake.open(tmp_path)
    catalog.create_database("ours")
    options = {"bucket": "-1", "file.format": "orc"}
    table = Case("t", "", {"t": kind}, lambda maker: None, options=options).create(catalog, "ours")
    flat, listed = pa.array([-1, None], pa.timestamp("us")), pa.array([[None, -1]], pa.list_(pa.timestamp("ns", "UTC")))
    with pytest.raises(UnsupportedError, match="orc cannot hold instants of the last 999 ms before 1970") as failure:
        table.write_arrow(pa.table({"t": flat if kind.startswith("TIMESTAMP") else listed}))
    assert failure.value.details["column"] == "t"
    assert table.latest_snapshot() is None
    assert not list(Path(table.path).rglob("*.orc"))
