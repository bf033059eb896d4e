"""Tables whose schema says no version, as Paimon 0.7 wrote them: one bucket and ORC where nothing is said, no bucket key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import bucketlake
from bucketlake.errors import InvalidError
from bucketlake.table import Table

SCHEMA = {
    "id": 0,
    "fields": [{"id": 0, "name": "k", "type": "INT"}, {"id": 1, "name": "v", "type": "STRING"}],
    "highestFieldId": 1,
    "partitionKeys": [],
    "primaryKeys": [],
    "options": {},
    "comment": "",
}


def first_table(folder: Path) -> str:
    """A table of rows without a key: its name."""
    (folder / "db.db" / "t" / "schema").mkdir(parents=True)
    (folder / "db.db" / "t" / "schema" / "schema-0").write_text(json.dumps(SCHEMA))
    return "db.t"


def content(table: Table, where: str | None = None) -> list[tuple[int, str]]:
    return sorted((row["k"], row["v"]) for row in table.refresh().to_arrow(where).to_pylist())


def test_rows_without_a_key_lie_in_one_bucket(tmp_path: Path) -> None:
    table = bucketlake.open(tmp_path).table(first_table(tmp_path))
    table.write_arrow([{"k": k, "v": "a"} for k in range(5)])
    table.write_arrow([{"k": k, "v": "b"} for k in range(5, 9)])
    rows = [(k, "a" if k < 5 else "b") for k in range(9)]
    assert content(table) == rows
    assert content(table, "k = 7") == rows[7:8]
    assert {(entry.bucket, entry.file.file_name.rpartition(".")[2]) for entry in table.plan().entries} == {(0, "orc")}
    table.refresh().compact(full=True)
    assert content(table) == rows
    table.refresh().delete("k IN (1, 2)")
    table.refresh().update({"v": "c"}, "k = 3")
    assert content(table) == [(0, "a"), (3, "c"), *rows[4:]]
    with pytest.raises(InvalidError, match="bucket"):
        table.refresh().rescale(2)
    assert not table.refresh().fsck("rows").findings
