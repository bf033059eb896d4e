"""Files whose rows have other keys, another order or other numbers than their manifest says: formats sum up no values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.check.cases.case import keyed
from tests.check.forged import file_of, key_values, live, path_of, read, settle, with_file

import bucketlake
from bucketlake import CorruptError, Table
from bucketlake.ops.table.store import clear_cache

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
PLAIN = {"file.compression": "none", "parquet.enable.dictionary": "false"}
CHANGES: dict[str, Callable[[Table], object]] = {
    "compact": lambda table: table.compact(),
    "delete": lambda table: table.delete("v = 'x'"),
    "read": lambda table: table.to_arrow(),
    "read keys": lambda table: table.to_arrow("k > 1010"),
    "delete keys": lambda table: table.delete("k < 5"),
}


def made(folder: Path, **options: str) -> Table:
    """Four files, of which the second and the third have one length, and the last meets both."""
    given = {"bucket": "1", "num-sorted-run.compaction-trigger": "9", **PLAIN, **options}
    table = bucketlake.open(folder).create_table("t", SCHEMA, [], ["k"], given)
    for low, high in ((5000, 5200), (1000, 1050), (1100, 1150), (1025, 1125)):
        table.write_arrow(pa.table([range(low, high), ["x"] * (high - low)], schema=SCHEMA))
    return table


@pytest.mark.parametrize("change", ["compact", "delete", "read", "read keys"])
@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_a_file_in_the_place_of_another_is_not_merged(tmp_path: Path, format: str, change: str) -> None:
    table = made(tmp_path, **{"file.format": format})
    entries = sorted(live(table), key=lambda entry: entry.file.min_sequence_number)
    first, second = (path_of(table, entry) for entry in entries[1:3])
    original = first.read_bytes()
    assert len(original) == second.stat().st_size, "else its length tells it"
    first.write_bytes(second.read_bytes())
    clear_cache()
    with pytest.raises(CorruptError, match=f"beyond the first and the last.*{first.name}"):
        CHANGES[change](table.refresh())
    first.write_bytes(original)
    assert len(table.refresh().snapshots()) == 4, "nothing was published"
    assert len(read(table)) == 350


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(1, 20, 0, "c"), (7, 21, 0, "d"), (3, 22, 0, "e"), (9, 23, 0, "f")], "not in the order"),
        ([(1, 20, 0, "c"), (9, (1 << 63) - 5, 0, "d")], "sequence numbers"),
        ([(1, 20, 7, "c"), (9, 21, 0, "d")], "row kinds"),
        ([(1, 20, 0, "c"), (9, 21, -4, "d")], "row kinds"),
    ],
)
def test_what_no_writer_writes_is_not_written_again(
    tmp_path: Path, rows: list[tuple[int, int, int, str]], said: str
) -> None:
    table = keyed(tmp_path)
    wrong = with_file(file_of(table, live(table)[0], key_values(table, rows)), max_sequence_number=30)
    settle(table, [*live(table), wrong])
    with pytest.raises(CorruptError, match=f"{said}.*{wrong.file.file_name}"):
        table.refresh().compact()
    assert len(table.refresh().snapshots()) == 1


@pytest.mark.parametrize("change", ["read", "delete keys"])
def test_a_row_kind_that_there_is_not_is_told(tmp_path: Path, change: str) -> None:
    """Odd ones were deletes to a merge, even ones rows; to a file read alone neither was a row."""
    table = keyed(tmp_path)
    wrong = file_of(table, live(table)[0], key_values(table, [(1, 20, 7, "c"), (9, 21, 0, "d")]))
    settle(table, [*live(table), wrong])
    with pytest.raises(CorruptError, match=f"row kinds.*{wrong.file.file_name}.*kind=7"):
        CHANGES[change](table.refresh())
    assert table.refresh().fsck("keys").errors


@pytest.mark.parametrize("change", ["read", "delete keys", "compact"])
def test_numbers_beyond_the_greatest_recorded_are_told(tmp_path: Path, change: str) -> None:
    """New rows would be numbered below those of the file, and lose to them."""
    table = keyed(tmp_path)
    rows = [(1, 50, 0, "c"), (4, 51, 0, "d")]
    wrong = with_file(file_of(table, live(table)[0], key_values(table, rows)), max_sequence_number=20)
    settle(table, [*live(table), wrong])
    with pytest.raises(CorruptError, match=f"greater sequence numbers.*{wrong.file.file_name}"):
        CHANGES[change](table.refresh())
    assert table.refresh().fsck("keys").errors
    table.repair(table.fsck("keys"), dry_run=False)
    table.refresh().write_arrow(pa.table([["x"], [4], ["new"]], names=["p", "k", "v"]))
    assert [row for row in read(table) if row[1] in (1, 4)] == [("x", 1, "c"), ("x", 4, "new")]


def test_a_key_that_is_there_twice_is_merged(tmp_path: Path) -> None:
    table = keyed(tmp_path)
    rows = [(1, 20, 0, "c"), (1, 21, 0, "d"), (9, 22, 0, "e")]
    settle(table, [*live(table), file_of(table, live(table)[0], key_values(table, rows))])
    table.refresh().compact()
    assert [row for row in read(table) if row[1] in (1, 9)] == [("x", 1, "d"), ("x", 9, "e")]
