"""Tables of older releases are read as these read them, and written on: upserts, compaction, changes, expiry."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.corpus.older import DATABASE, RELEASES, Rows, unpack

import bucketlake
from bucketlake.ops.check.fault import LEVELS
from bucketlake.table import Table

NEW = [{"pt": f"p{k % 2}", "k": k, "v": 1000 + k, "w": "new"} for k in (0, 1, 5, 50)]


def text(value: Any) -> Any:
    """A value as Flink's CAST to STRING has it, of columns that are read so."""
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, (date, time, Decimal)):
        return str(value)
    return value.decode() if isinstance(value, bytes) else value


def typed(row: dict[str, Any], most_digits: int) -> list[Any]:
    """A row of every type with what Flink was asked for in the places of nested values and timestamps, whose fractions
    have so many digits at most."""
    found = dict(row)
    array, pairs, members = found.pop("ar"), found.pop("m"), found.pop("r")
    stamps = {name: found[name] for name in ("ts", "t6", "t9", "tz")}
    digits = {"ts": 3, "t6": 6, "t9": most_digits, "tz": 6}
    found |= {name: stamp if stamp is None else _stamp(stamp, digits[name]) for name, stamp in stamps.items()}
    nested = [array and array[0], pairs and dict(pairs)["a"], members and members["x"], members and members["y"]]
    return [*map(text, found.values()), *nested]


def _stamp(value: Any, digits: int) -> str:
    whole = str(value)[:19]
    fraction = f"{value.microsecond:06}{getattr(value, 'nanosecond', 0):03}"
    return f"{whole}.{fraction[:digits]}"


def rows_of(table: Table, name: str, **options: Any) -> Rows:
    found = table.to_arrow(**options).to_pylist()
    digits = 6 if "avro" in name else 9
    rows = [typed(row, digits) if "types" in name else [text(value) for value in row.values()] for row in found]
    return sorted(rows, key=str)


@pytest.mark.parametrize("release", RELEASES)
def test_rows_are_as_the_release_read_them(tmp_path: Path, release: str) -> None:
    expected = unpack(release, tmp_path)
    catalog = bucketlake.open(tmp_path)
    assert {name.partition(".")[2] for name in catalog.tables(DATABASE)} == {n for n in expected if n.isidentifier()}
    codes: set[str] = set()
    for name, rows in expected.items():
        table = catalog.table(f"{DATABASE}.{name.partition(' at ')[0]}")
        tag = {"scan_tag_name": "one"} if " at " in name else {}
        assert rows_of(table, name, **tag) == rows, name
        codes |= {finding.code for finding in table.fsck(LEVELS[-1]).findings}
    assert codes == ({"vector-left"} if release >= "1.2" else set())


@pytest.mark.parametrize("release", RELEASES)
def test_they_are_written_on(tmp_path: Path, release: str) -> None:
    unpack(release, tmp_path)
    catalog = bucketlake.open(tmp_path)
    for name in catalog.tables(DATABASE):
        table = catalog.table(name)
        rows = table.to_arrow().to_pylist()
        if "postponed" in name or table.schema.data_evolution:
            continue  # what is pending is newer than what is written: see the tests of these tables
        if table.schema.field_names == ["pt", "k", "v", "w"]:
            table.write_arrow(NEW)
            rows = written(table, rows)
        table.refresh().compact(full=True)
        table = table.refresh()
        assert ordered(table.to_arrow().to_pylist()) == ordered(rows), name
        if table.options.get("merge-engine") == "deduplicate" or not table.schema.primary_keys:
            table.delete("k = 1")
            rows = [row for row in rows if row["k"] != 1]
        table = table.refresh()
        table.expire_snapshots(retain_max=1, retain_min=1)
        assert ordered(table.to_arrow().to_pylist()) == ordered(rows), name
        assert not table.fsck(LEVELS[-1]).errors, name


def written(table: Table, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that there are once the new ones are written."""
    keys = table.schema.primary_keys
    if not keys:
        return [*rows, *NEW]
    first = table.options.get("merge-engine") == "first-row"
    later, earlier = (rows, NEW) if first else (NEW, rows)
    return list({tuple(row[key] for key in keys): row for row in [*earlier, *later]}.values())


def ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=str)
