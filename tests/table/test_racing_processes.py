"""Processes that race for one table's name, one of which drops, renames and makes it anew: no row comes into another
table than it was written to, none that was acknowledged is lost, and what is left can be read, dropped and made anew."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from tests.profile import SOAK, seeds
from tests.table.race import Racer

import bucketlake
from bucketlake.table import Table

ROLES = {"dropper": 12, "writer1": 60, "writer2": 60, "keeper": 40, "reader": 60}  # and how many rounds each has
TIMES = 4 if SOAK else 1


def raced(seed: int, folder: Path) -> list[dict[str, Any]]:
    """What the processes wrote down."""
    bucketlake.open(folder / "wh").create_database("db")
    (folder / "journal").mkdir()
    Racer("first", seed, folder / "wh", folder / "journal").make(0)
    end = [str(folder / "wh"), str(folder / "journal")]
    processes = [
        subprocess.Popen([sys.executable, "-m", "tests.table.race", role, str(seed), str(TIMES * rounds), *end])
        for role, rounds in ROLES.items()
    ]
    assert [process.wait() for process in processes] == [0] * len(ROLES)
    return [json.loads(line) for path in (folder / "journal").iterdir() for line in path.read_text().splitlines()]


def said(lines: list[dict[str, Any]], what: str) -> dict[int, set[int]]:
    """The rows of which the processes said something, by the number of their table."""
    found: dict[int, set[int]] = defaultdict(set)
    for line in lines:
        if line["what"] == what:
            found[line["made"]].update(line["ids"])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2, 30))
def test_no_row_is_lost_or_comes_into_another_table(tmp_path: Path, seed: int) -> None:
    lines = raced(seed, tmp_path)
    assert [line["error"] for line in lines if line["what"] == "fault"] == []
    put, refused, deleted, maybe = (said(lines, what) for what in ("put", "refused", "deleted", "maybe"))
    catalog = bucketlake.open(tmp_path / "wh")
    tables: dict[int, Table] = {}
    for name in catalog.list_tables("db"):
        table = catalog.table(f"db.{name}")
        tables[int(table.schema.comment or -1)] = table
    assert put, "nothing was written"
    for made, table in tables.items():
        table.compact()  # pending rows of postpone tables go to their buckets
        rows = table.to_arrow().to_pylist()
        ids = Counter(row["id"] for row in rows)
        assert [row for row in rows if row["made"] != made or row["s"] != f"s{row['id']}"] == []
        assert [key for key, count in ids.items() if count > 1] == []
        assert put[made] - deleted[made] - maybe[made] <= ids.keys()
        assert not (refused[made] | deleted[made]) & ids.keys()
        assert [finding for finding in table.fsck().findings if finding.severity == "error"] == []
    for name in catalog.list_tables("db"):
        catalog.drop_table(f"db.{name}")
    assert not any((tmp_path / "wh" / "db.db").iterdir())
