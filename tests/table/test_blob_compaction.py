"""`blob-compaction.enabled`: blob files of one column become one; rows, ids and what others commit stay."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.table.blobs import rows_of

from bucketlake.catalog import Catalog
from bucketlake.env.local import LocalStorage
from bucketlake.errors import CorruptError
from bucketlake.format.data.blob import is_blob
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.ops.compact import column_compact
from bucketlake.ops.compact.blob_compact import merges
from bucketlake.ops.rows import blob_columns, blob_merge
from bucketlake.table import Table

OPTIONS = {
    **{"row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"},
    **{"blob-field": "pic,pics", "blob-compaction.enabled": "true", "compaction.min.file-num": "100"},
}
SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string()), ("pic", pa.binary()), ("pics", pa.list_(pa.binary()))])


def some(*ids: int) -> pa.Table:
    pic = [None if n % 7 == 3 else bytes([n % 256]) * (n * 5 % 90) for n in ids]
    pics = [None if n % 5 == 1 else [bytes([n % 256]), None][: n % 3] for n in ids]
    return pa.table([ids, [f"n{n}" for n in ids], pic, pics], SCHEMA)


def rows(table: Table) -> list[tuple[Any, ...]]:
    return rows_of(table, SCHEMA.names)


def blobs(table: Table, column: str = "pic") -> list[DataFile]:
    files = [file.file for file in table.refresh().files() if is_blob(file.path) and file.file.write_cols == (column,)]
    return sorted(files, key=lambda file: file.first_row_id or 0)


def spans(table: Table, column: str = "pic") -> list[tuple[int | None, int]]:
    return [(file.first_row_id, file.row_count) for file in blobs(table, column)]


def file(first: int, count: int, size: int = 10, number: int = 1) -> Any:
    class File:
        first_row_id, row_count, file_size, max_sequence_number = first, count, size, number

    return File()


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ([], []),
        ([(0, 5)], []),
        ([(0, 5), (5, 5)], [[(0, 5), (5, 5)]]),
        ([(0, 5), (6, 5)], []),
        ([(5, 5), (0, 5), (20, 5), (25, 5)], [[(0, 5), (5, 5)], [(20, 5), (25, 5)]]),
        ([(0, 5, 100), (5, 5)], []),
        ([(0, 5), (5, 5, 100), (10, 5), (15, 5)], [[(10, 5), (15, 5)]]),
        ([(0, 5, 60), (5, 5, 60), (10, 5), (15, 5)], [[(0, 5), (5, 5)], [(10, 5), (15, 5)]]),
        ([(0, 5, 60), (5, 5, 60), (10, 5)], [[(0, 5), (5, 5)]]),
        ([(0, 10, 500), (0, 10, 5, 2)], [[(0, 10), (0, 10)]]),
        ([(0, 10, 500), (3, 2, 5, 2), (10, 5), (15, 5)], [[(0, 10), (3, 2)], [(10, 5), (15, 5)]]),
        ([(0, 4), (4, 4), (2, 4, 5, 2), (8, 2)], [[(0, 4), (2, 4), (4, 4)]]),
    ],
)
def test_which_files_become_one(files: list[Any], found: list[Any]) -> None:
    chosen = merges([file(*given) for given in files], 100)
    assert [[(one.first_row_id, one.row_count) for one in own] for own in chosen] == found


def test_files_become_one(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that rolled within a file of rows, and new values over old ones; the other files stay."""
    monkeypatch.setattr(blob_columns, "AT_ONCE", 200)
    monkeypatch.setattr(blob_merge, "STEP", 11)
    table = catalog.create_table("db.t", SCHEMA, options={**OPTIONS, "blob.target-file-size": "300 b"})
    table.write_arrow(some(*range(40)))
    table.refresh().write_arrow(some(*range(40, 50)))
    before, expected = table.refresh().files(), rows(table)
    table = table.with_options({"blob.target-file-size": "1 mb"})
    assert len(blobs(table)) > 4
    ids = catalog.table("db.t$row_tracking").to_arrow(columns=["id", "_ROW_ID"]).to_pylist()
    assert table.compact() is not None
    assert rows(table) == expected
    assert spans(table) == spans(table, "pics") == [(0, 40), (40, 10)]
    assert catalog.table("db.t$row_tracking").to_arrow(columns=["id", "_ROW_ID"]).to_pylist() == ids
    kept = {file.path for file in table.refresh().files()}
    assert {file.path for file in before if not is_blob(file.path)} <= kept
    assert table.refresh().with_options({"blob.target-file-size": "1 mb"}).compact() is None
    table.refresh().update({"pic": b"new"}, "id >= 5 and id < 9")
    table.refresh().update({"pic": None}, "id = 8 or id = 30")
    table.refresh().delete("id = 1 or id = 6")
    expected = rows(table)
    assert len(blobs(table)) == 4
    assert table.refresh().compact() is not None
    assert rows(table) == expected
    assert spans(table) == [(0, 40), (40, 10)]
    assert [one.max_sequence_number > 3 for one in blobs(table)] == [True, False]
    assert not table.refresh().fsck(level="rows").findings
    table.refresh().materialize_deletion_vectors()
    assert rows(table) == expected


def test_with_the_rows_files(catalog: Catalog) -> None:
    """Where files of rows become one, so do the blob files of all of them."""
    table = catalog.create_table("db.t", SCHEMA, options={**OPTIONS, "compaction.min.file-num": "2"})
    for start in range(0, 50, 10):
        table.refresh().write_arrow(some(*range(start, start + 10)))
    table.refresh().delete("id = 11")
    table.refresh().update({"pics": [b"u"]}, "id = 12")
    expected = rows(table)
    assert table.refresh().compact() is not None
    assert rows(table) == expected
    assert (spans(table), spans(table, "pics")) == ([(0, 50)], [(0, 10), (10, 10), (20, 30)])
    table.refresh().compact()
    assert spans(table) == spans(table, "pics") == [(0, 50)]
    assert rows(table) == expected
    assert len(table.refresh().files()) == 3
    assert not table.refresh().fsck(level="rows").findings


def test_damage_is_not_made_whole(catalog: Catalog) -> None:
    """Records are copied with their sums: what was damaged is told afterwards, too."""
    table = catalog.create_table("db.t", SCHEMA, options={**OPTIONS, "blob.target-file-size": "1 kb"})
    table.write_arrow(some(*range(40)))
    (first,) = (f for f in table.refresh().files() if f.file.write_cols == ("pic",) and f.file.first_row_id == 0)
    data = bytearray(Path(first.path).read_bytes())
    data[data.index(b"\2\2\2")] ^= 1
    Path(first.path).write_bytes(bytes(data))
    table.refresh().with_options({"blob.target-file-size": "1 mb"}).compact()
    assert spans(table) == [(0, 40)]
    with pytest.raises(CorruptError, match="damaged"):
        rows(table)


def test_what_others_commit_meanwhile(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """New values win over a compaction of older ones, wherever it stands in the history; deletes stay deletes."""
    changes = [
        lambda other: other.update({"pic": b"late"}, "id = 3"),
        lambda other: other.update({"name": "late"}, "id = 4"),
        lambda other: other.delete("id = 5"),
        lambda other: other.write_arrow(some(100)),
        lambda other: other.with_options({"blob-compaction.enabled": "true"}).compact(),
    ]
    for number, change in enumerate(changes):
        name = f"db.t{number}"
        table = catalog.create_table(name, SCHEMA, options={**OPTIONS, "blob.target-file-size": "300 b"})
        table.write_arrow(some(*range(40)))
        told: list[int] = []

        def merged(*given: Any, change: Any = change, name: str = name, told: list[int] = told) -> Any:
            if not told:
                told.append(1)
                change(catalog.table(name).with_options({"blob.target-file-size": "1 mb"}))
            return blob_merge.merge_blobs(*given)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(column_compact, "merge_blobs", merged)
            table.refresh().with_options({"blob.target-file-size": "1 mb"}).compact()
        assert told
        expected = {row[0]: row for row in map(tuple, (row.values() for row in some(*range(40)).to_pylist()))}
        if number == 0:
            expected[3] = (3, "n3", b"late", expected[3][3])
        elif number == 1:
            expected[4] = (4, "late", *expected[4][2:])
        elif number == 2:
            del expected[5]
        elif number == 3:
            expected[100] = tuple(some(100).to_pylist()[0].values())
        assert rows(table) == sorted(expected.values()), number
        table.refresh().with_options({"blob.target-file-size": "1 mb"}).compact()
        assert rows(table) == sorted(expected.values()), number
        assert not table.refresh().fsck(level="rows").findings


def test_a_failure_leaves_nothing(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = catalog.create_table("db.t", SCHEMA, options={**OPTIONS, "blob.target-file-size": "300 b"})
    table.write_arrow(some(*range(40)))
    before, names = rows(table), set(Path(table.path).rglob("data-*"))
    read, calls = LocalStorage.read_ranges, [0]

    def fails(self: Any, path: str, ranges: Any) -> Any:
        calls[0] += path.endswith(".blob")
        if calls[0] > 3:
            raise RuntimeError("it dies here")
        return read(self, path, ranges)

    monkeypatch.setattr(LocalStorage, "read_ranges", fails)
    with pytest.raises(RuntimeError):
        table.refresh().with_options({"blob.target-file-size": "1 mb"}).compact()
    monkeypatch.undo()
    assert set(Path(table.path).rglob("data-*")) == names
    assert rows(table) == before


def test_a_history_of_changes(catalog: Catalog) -> None:
    """Random changes against a model, compacted again and again."""
    options = {**OPTIONS, "blob.target-file-size": "200 b", "target-file-row-num": "9", "compaction.min.file-num": "3"}
    table = catalog.create_table("db.t", SCHEMA, options=options)
    chance, model, free = random.Random(9), {}, 0
    for _ in range(30):
        kind = chance.choice(["insert", "insert", "update", "replace", "delete", "compact", "compact", "dropped"])
        low = chance.randrange(free + 1)
        within, own = f"id >= {low} and id < {low + 6}", [k for k in model if low <= k < low + 6]
        if kind == "insert" or not model:
            new = some(*range(free, free := free + chance.randrange(1, 25)))
            table.refresh().write_arrow(new)
            model.update({row["id"]: tuple(row.values()) for row in new.to_pylist()})
        elif kind == "update":
            table.refresh().update({"name": f"u{low}"}, within)
            model.update({k: (k, f"u{low}", *model[k][2:]) for k in own})
        elif kind == "replace":
            value = chance.choice([None, b"", f"v{low}".encode()])
            table.refresh().update({"pic": value, "pics": [value]}, within)
            model.update({k: (k, model[k][1], value, [value]) for k in own})
        elif kind == "delete":
            table.refresh().delete(within)
            model = {k: row for k, row in model.items() if k not in own}
        elif kind == "compact":
            size = chance.choice(["200 b", "1 kb", "1 mb"])
            table.refresh().with_options({"blob.target-file-size": size}).compact()
        else:
            table.refresh().materialize_deletion_vectors()
        assert rows(table) == [model[k] for k in sorted(model)], kind
    assert not table.refresh().fsck(level="rows").findings
