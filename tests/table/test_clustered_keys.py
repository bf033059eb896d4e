"""Keyed tables whose files lie in the order of other columns: random histories against a dict, and what they refuse."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bucketlake
from bucketlake import Table
from bucketlake.errors import InvalidError, UnsupportedError

SCHEMA = pa.schema([("k", pa.int64()), ("city", pa.string()), ("v", pa.int32())])
CITIES = ("a", "b", "Ω", None, "z" * 40)
OPTIONS = {
    "pk-clustering-override": "true",
    "clustering.columns": "city",
    "deletion-vectors.enabled": "true",
    "bucket": "1",
}
FIRST = {"merge-engine": "first-row", "deletion-vectors.enabled": "false"}
KINDS: tuple[dict[str, str], ...] = (
    {},
    {"write-only": "true", "clustering.columns": "v", "changelog-producer": "input"},
    {"bucket": "2", "target-file-size": "2 kb", "clustering.columns": "city,v", "file.format": "orc"},
    {"bucket": "-1", "data-file.thin-mode": "true", "write-buffer-size": "1 kb"},
    {"bucket": "-2", "deletion-vectors.bitmap64": "true"},
    {**FIRST},
    {**FIRST, "write-only": "true", "clustering.columns": "v,city", "file.format": "avro"},
)
POSTPONED = 4
Rows = dict[int, tuple[Any, Any]]


def made(path: Path, **options: str) -> Table:
    catalog = bucketlake.open(path)
    catalog.create_database("d")
    return catalog.create_table("d.t", SCHEMA, primary_keys=["k"], options={**OPTIONS, **options})


def arrow(rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)


def held(table: Table, **asked: Any) -> Rows:
    found = table.to_arrow(**asked).to_pylist()
    rows = {row["k"]: (row["city"], row["v"]) for row in found}
    assert len(rows) == len(found)
    return rows


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_histories_equal_a_dict(tmp_path: Path, kind: int) -> None:
    chosen, table = random.Random(kind), made(tmp_path, **KINDS[kind])
    first, model = "merge-engine" in KINDS[kind], Rows()
    for _ in range(9):
        step = chosen.choice(("write", "write", "write", "delete", "compact", "full"))
        if step == "write":
            keys = [chosen.randrange(60) for _ in range(chosen.randrange(1, 50))]
            rows = [(k, chosen.choice(CITIES), chosen.choice((None, *range(40)))) for k in keys]
            table.write_arrow(arrow(rows))
            for k, *values in rows:
                model[k] = model.get(k, tuple(values)) if first else tuple(values)
        elif step == "delete" and not first:
            low = chosen.randrange(60)
            table.delete(f"k BETWEEN {low} AND {low + 7}")
            model = {k: row for k, row in model.items() if not low <= k <= low + 7}
        elif step in ("compact", "full"):
            table.compact(full=step == "full")
        if not first and kind != POSTPONED:
            assert held(table, **{"deletion-vectors.merge-on-read": "true"}) == model
        table.compact()
        assert held(table) == model
        assert held(table, where="city = 'a' AND v > 3") == {
            k: row for k, row in model.items() if row[0] == "a" and row[1] is not None and row[1] > 3
        }
        asked = chosen.randrange(60)
        assert held(table, where=f"k = {asked}") == {k: row for k, row in model.items() if k == asked}
    assert table.fsck("rows").findings == ()
