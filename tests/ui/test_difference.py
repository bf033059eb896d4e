"""What the page tells of two snapshots is what became of rows, whatever files were written for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketlake
from bucketlake.schema.change import AddColumn
from bucketlake.types.model import STRING
from bucketlake.ui import difference as compared
from bucketlake.ui.difference import difference

COLUMNS = pa.schema([("id", pa.int64()), ("v", pa.string()), ("x", pa.float64())])
Rows = list[list[str | None]]


def rows(*given: tuple[int, str | None, float | None]) -> pa.Table:
    names = COLUMNS.names
    return pa.Table.from_pylist([dict(zip(names, one, strict=True)) for one in given], schema=COLUMNS)


def told(table: Any, low: int = 1, high: int | None = None, limit: int = 100) -> Rows:
    table = table.refresh()
    found = difference(table, low, high or table.latest_snapshot().id, limit)
    assert found["why"] is None, found["why"]
    shown: Rows = found["rows"]["rows"]
    return sorted(shown, key=lambda row: (str(row[1]), row[0] == "+U"))


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Any]:
    lake = bucketlake.open(tmp_path)

    def make(key: list[str] | None = None, **options: str) -> Any:
        named = {name.replace("_", "-").replace("--", "."): value for name, value in options.items()}
        return lake.create_table("default.t", COLUMNS, primary_keys=key or [], options=named)

    return make


@pytest.mark.parametrize(
    "options",
    [
        {"bucket": "2"},
        {"bucket": "-1"},
        {"bucket": "-2"},
        {"bucket": "2", "deletion_vectors__enabled": "true"},
        {"bucket": "1", "merge_engine": "partial-update"},
    ],
    ids=["fixed", "dynamic", "postpone", "vectors", "partial"],
)
@pytest.mark.parametrize("compacted", [False, True])
def test_rows_with_a_key_are_added_deleted_and_changed(made: Any, options: dict[str, str], compacted: bool) -> None:
    partial = "merge_engine" in options
    # Deletes of a table with deletion vectors see what is compacted.
    table = made(["id"], write_only=str("deletion_vectors__enabled" not in options).lower(), **options)
    nan = float("nan")
    table.write_arrow(rows((1, "a", 1.0), (2, "b", nan), (3, "c", 3.0), (4, "d", 4.0)))
    table.write_arrow(rows((1, "a", 1.0), (2, "b", nan), (3, "C", None if partial else 3.5), (5, "e", None)))
    if not partial:
        table.delete("id = 4")
        table.write_arrow(rows((6, "never", None)))
        table.delete("id = 6")
    if compacted:
        table.compact(full=True)
    after = ["+U", "3", "C", "3.0" if partial else "3.5"]
    expected = [["-U", "3", "c", "3.0"], after, ["-D", "4", "d", "4.0"], ["+I", "5", "e", None]]
    assert told(table) == [one for one in expected if not (partial and one[0] == "-D")]


def test_a_column_that_came_later_is_null_before(made: Any) -> None:
    table = made(["id"], bucket="1")
    table.write_arrow(rows((1, "a", 1.0), (2, "b", 2.0)))
    table = table.alter(AddColumn("w", STRING))
    table.write_arrow(pa.table({"id": [1], "v": ["a"], "x": [1.0], "w": ["new"]}))
    assert told(table) == [["-U", "1", "a", "1.0", None], ["+U", "1", "a", "1.0", "new"]]


def test_a_compaction_of_an_append_table_changes_no_row_and_deletes_are_told(made: Any) -> None:
    table = made(write_only="true")
    for n in range(8):
        table.write_arrow(rows((n, "same", None), (n, "same", None)))
    table.compact(full=True)
    assert told(table, 8, 9) == []
    assert told(table, 6, 9) == [["+I", str(n), "same", None] for n in (6, 7)]  # equal rows once
    newest = table.refresh().latest_snapshot().id
    table.refresh().delete("id = 1")
    assert {tuple(row) for row in told(table, newest)} == {("-D", "1", "same", None)}


def test_rows_of_an_append_table_that_deletion_vectors_name_are_deleted(made: Any) -> None:
    table = made(deletion_vectors__enabled="true")
    table.write_arrow(rows((1, "a", None), (2, "b", None), (3, "c", None)))
    table.delete("id = 2")
    assert told(table) == [["-D", "2", "b", None]]


def test_rows_of_a_first_row_table_come_with_their_compaction(made: Any) -> None:
    table = made(["id"], bucket="1", merge_engine="first-row", changelog_producer="lookup", write_only="true")
    table.write_arrow(rows((1, "a", None)))
    table.write_arrow(rows((1, "later", None), (2, "b", None)))
    table.compact(full=True)
    assert told(table, 1) == [["+I", "1", "a", None], ["+I", "2", "b", None]]


def test_a_comparison_is_bounded_and_says_so(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(["id"], bucket="2")
    table.write_arrow(rows((0, "a", None)))
    table.write_arrow(rows(*((n, "b", None) for n in range(500))))
    few = difference(table.refresh(), 1, 2, 10)
    assert (len(few["rows"]["rows"]), few["rows"]["more"]) == (10, True)
    monkeypatch.setattr(compared, "MOST_KEYS", 50)
    monkeypatch.setattr(compared, "AT_ONCE", 25)
    part = difference(table.refresh(), 1, 2, 400)
    assert not part["whole"] and len(part["rows"]["rows"]) in (50, 51)  # of one key both rows


def test_what_cannot_be_compared_is_said(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made()
    for n in range(8):
        table.write_arrow(rows((n, "a", None)))
    table.compact(full=True)
    monkeypatch.setattr(compared, "MOST_ROWS", 2)
    found = difference(table.refresh(), 1, table.refresh().latest_snapshot().id, 10)
    assert found["rows"] is None and "too many rows" in found["why"]
