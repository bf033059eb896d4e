"""Every table that is made for the others is first what Bucketlake itself reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interop.catalogue import catalogue
from tests.interop.values import arrow_rows, canonical

import bucketlake

CASES = {case.name: case for case in catalogue()}


@pytest.mark.parametrize("name", CASES)
def test_bucketlake_reads_its_own_table(name: str, tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    catalog.create_database("ours")
    made = CASES[name].make(catalog, "ours")
    table = catalog.table(f"ours.{name}")
    assert canonical(arrow_rows(table.to_arrow(), table.schema.fields)) == made.expected()
