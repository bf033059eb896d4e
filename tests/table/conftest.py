"""What tests of tables without Spark begin with; a file that needs another catalog has its own."""

from __future__ import annotations

from pathlib import Path

import pytest

import bucketlake
from bucketlake.catalog import Catalog


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """A catalog with the database `db`."""
    made = bucketlake.open(tmp_path)
    made.create_database("db")
    return made
