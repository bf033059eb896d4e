"""Tables whose rows have ids: who gives them out, who keeps them, and what is refused."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bucketlake.catalog import Catalog
from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.format.metadata.manifest import FileSource
from bucketlake.ops.scan.scan import Scan, plan
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.change import AddColumn, RenameColumn, SetOption
from bucketlake.table import Table
from bucketlake.types.model import INT

TRACKED = {"row-tracking.enabled": "true"}
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string()), ("p", pa.int32())])
Rows = list[tuple[Any, ...]]


def create(catalog: Catalog, name: str = "db.t", *, by: tuple[str, ...] = (), **options: str) -> Table:
    given = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return catalog.create_table(name, SCHEMA, partition_keys=by, options={**TRACKED, **given})


def insert(table: Table, *ids: int, v: str = "a", p: int = 0) -> None:
    table.write_arrow(pa.table({"id": ids, "v": [v] * len(ids), "p": [p] * len(ids)}, SCHEMA))


def rows(catalog: Catalog, name: str = "db.t") -> Rows:
    """(id, v, _ROW_ID, _SEQUENCE_NUMBER), by id."""
    found = catalog.table(f"{name}$row_tracking").to_arrow(columns=["id", "v", "_ROW_ID", "_SEQUENCE_NUMBER"])
    return sorted(tuple(row.values()) for row in found.to_pylist())


def files(table: Table) -> list[Any]:
    return [file for split in plan(table.store, Scan()).splits for file in split.files]


def next_row_id(table: Table) -> int | None:
    found = table.latest_snapshot()
    return None if found is None else found.next_row_id


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_ids_of_new_rows_and_those_that_stay(catalog: Catalog, format: str) -> None:
    table = create(catalog, file__format=format, compaction__min__file_num="2")
    insert(table, 1, 2)
    insert(table, 3, 4)
    assert rows(catalog) == [(1, "a", 0, 1), (2, "a", 1, 1), (3, "a", 2, 2), (4, "a", 3, 2)]
    assert [(f.first_row_id, f.min_sequence_number, f.max_sequence_number) for f in files(table)] == [
        (0, 1, 1),
        (2, 2, 2),
    ]
    assert table.compact() is not None
    (file,) = files(table)
    assert (file.first_row_id, file.file_source) == (None, FileSource.COMPACT)
    assert file.write_cols == ("id", "v", "p", "_ROW_ID", "_SEQUENCE_NUMBER")
    assert (file.min_sequence_number, file.max_sequence_number) == (1, 2)
    assert rows(catalog) == [(1, "a", 0, 1), (2, "a", 1, 1), (3, "a", 2, 2), (4, "a", 3, 2)]
    table.update({"v": "b"}, "id = 3")
    table.delete("id = 1")
    insert(table, 5)
    assert rows(catalog) == [(2, "a", 1, 1), (3, "b", 2, 4), (4, "a", 3, 2), (5, "a", 4, 6)]
    assert next_row_id(table) == 5
    assert table.to_arrow(where="v = 'b'").to_pylist() == [{"id": 3, "v": "b", "p": 0}]


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_changes_of_rows_keep_their_ids(catalog: Catalog, vectors: str) -> None:
    table = create(catalog, by=("p",), deletion_vectors__enabled=vectors, compaction__min__file_num="2")
    insert(table, 1, 2, 3, p=1)
    insert(table, 4, 5, p=2)
    table.update({"p": 2}, "id = 2")  # moves
    table.update({"v": "b"})
    table.delete("id in (1, 4)")
    expected = [(2, "b", 1, 4), (3, "b", 2, 4), (5, "b", 4, 4)]
    assert rows(catalog) == expected
    table.compact()
    assert rows(catalog) == expected
    table.compact(order_by="id")
    assert rows(catalog) == expected
    insert(table, 6, p=2)
    assert rows(catalog)[-1][2] == 5
    assert all(file.first_row_id is not None or "_ROW_ID" in file.write_cols for file in files(table))


def test_row_groups_that_are_skipped_count(catalog: Catalog) -> None:
    table = create(catalog, parquet__block__size="1 kb", file__block_size="1 kb")
    table.write_arrow(pa.table({"id": range(20000), "v": ["x"] * 20000, "p": [1] * 20000}, SCHEMA))
    found = catalog.table("db.t$row_tracking").to_arrow(where="id = 17777").to_pylist()
    assert found == [{"id": 17777, "v": "x", "p": 1, "_ROW_ID": 17777, "_SEQUENCE_NUMBER": 1}]
    found = catalog.table("db.t$row_tracking").to_arrow(where="_ROW_ID = 5 AND _SEQUENCE_NUMBER = 1", columns=["id"])
    assert found.to_pylist() == [{"id": 5}]
    table.update({"v": "y"}, "id = 3")
    found = catalog.table("db.t$row_tracking").to_arrow(where="_SEQUENCE_NUMBER = 2", columns=["id", "_ROW_ID"])
    assert found.to_pylist() == [{"id": 3, "_ROW_ID": 3}]


def test_files_are_left_out_by_ids(catalog: Catalog) -> None:
    """Two files whose ids are counted, 2 and 3, 4 and 5, and one that holds them: 0, which was changed, and 1."""
    table = create(catalog)
    for first in (0, 2, 4):
        insert(table, first, first + 1)
    table.update({"v": "b"}, "id = 0")
    view = catalog.table("db.t$row_tracking")
    for where, opened, expected in (
        ("_ROW_ID = 3", 2, [3]),
        ("_ROW_ID > 4", 2, [5]),
        ("_SEQUENCE_NUMBER >= 4", 1, [0]),
        ("_SEQUENCE_NUMBER < 2", 1, [1]),
        ("_ROW_ID < 2 AND _SEQUENCE_NUMBER = 4", 1, [0]),
        ("_ROW_ID IN (9, 99)", 1, []),
    ):
        found = view.scanned(view.predicate(where), view.as_of({})[1])
        assert len(found.entries) == opened, where
        assert sorted(view.to_arrow(where=where, columns=["id"])["id"].to_pylist()) == expected, where


def test_an_update_leaves_one_file_one(catalog: Catalog) -> None:
    table = create(catalog)
    insert(table, *range(4))
    table.update({"v": "b"}, "id = 2")
    table.update({"v": "c"}, "id = 0")
    (file,) = files(table)
    assert (file.min_sequence_number, file.max_sequence_number) == (1, 3)
    assert rows(catalog) == [(0, "c", 0, 3), (1, "a", 1, 1), (2, "b", 2, 2), (3, "a", 3, 1)]


def test_evolved_columns(catalog: Catalog) -> None:
    table = create(catalog, compaction__min__file_num="2")
    insert(table, 1)
    catalog.alter_table("db.t", AddColumn("w", INT), RenameColumn("v", "u"))
    table = catalog.table("db.t")
    table.update({"w": 7})
    table.write_arrow(pa.table({"id": [2], "u": ["c"], "p": [0], "w": [8]}))
    table.compact()
    found = catalog.table("db.t$row_tracking").to_arrow().sort_by("id").to_pylist()
    assert found == [
        {"id": 1, "u": "a", "p": 0, "w": 7, "_ROW_ID": 0, "_SEQUENCE_NUMBER": 2},
        {"id": 2, "u": "c", "p": 0, "w": 8, "_ROW_ID": 1, "_SEQUENCE_NUMBER": 3},
    ]


def test_partitions_get_ids_one_after_the_other(catalog: Catalog) -> None:
    table = create(catalog, by=("p",))
    data = {"id": list(range(6)), "v": ["a"] * 6, "p": [1, 2] * 3}
    table.write_arrow(pa.table(data, SCHEMA))
    ids: dict[int, list[int]] = {}
    for row in catalog.table("db.t$row_tracking").to_arrow().to_pylist():
        ids.setdefault(row["p"], []).append(row["_ROW_ID"])
    assert sorted(map(sorted, ids.values())) == [[0, 1, 2], [3, 4, 5]]
    table.write_arrow(pa.table({"id": [9], "v": ["z"], "p": [1]}, SCHEMA), mode="overwrite", partition={"p": 1})
    assert [(row[0], row[2]) for row in rows(catalog)] == [(1, ids[2][0]), (3, ids[2][1]), (5, ids[2][2]), (9, 6)]
    assert next_row_id(table) == 7


def test_writers_at_once_never_share_ids(catalog: Catalog) -> None:
    table = create(catalog, commit__max_retries="100", commit__min_retry_wait="1 ms")
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(4):
                insert(catalog.table("db.t"), number * 100 + turn * 10, number * 100 + turn * 10 + 1)
                if turn == 2:
                    catalog.table("db.t").update({"v": str(number)}, f"id = {number * 100}")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    found = rows(catalog)
    assert sorted(row[2] for row in found) == list(range(32))
    assert next_row_id(table) == 32


def test_ids_that_are_taken_stay_taken(catalog: Catalog) -> None:
    """Clones, merged branches and snapshots that come back."""
    table = create(catalog)
    insert(table, 1, 2)
    table.create_tag("first")
    table.create_branch("b", "first")
    insert(catalog.table("db.t$branch_b"), 10, 11)
    insert(table, 3)
    table.merge_branch("b")
    assert [(row[0], row[2]) for row in rows(catalog)] == [(1, 0), (2, 1), (3, 2), (10, 3), (11, 4)]
    assert next_row_id(table) == 5
    table.update({"v": "b"}, "id = 1")
    changed = rows(catalog)
    catalog.clone_table(table, "db.c")
    assert rows(catalog, "db.c") == changed
    clone = catalog.table("db.c")
    insert(clone, 12)
    assert rows(catalog, "db.c")[-1][2] == 5
    with pytest.raises(UnsupportedError, match="rows with ids"):
        catalog.clone_table(table, "db.c")
    table.rollback_to_as_latest("first")
    assert rows(catalog) == [(1, "a", 0, 1), (2, "a", 1, 1)]
    insert(table, 13)
    assert rows(catalog)[-1][2] == 5
    assert not table.fsck(level="rows").findings


def test_files_written_anew(catalog: Catalog) -> None:
    table = create(catalog)
    insert(table, 1, 2)
    table.update({"v": "b"}, "id = 2")
    before = rows(catalog)
    table.rewrite(every=True)
    assert all("_ROW_ID" in file.write_cols for file in files(table))
    assert rows(catalog) == before
    table.alter(SetOption("file-index.bloom-filter.columns", "id"))
    catalog.table("db.t").rewrite_file_index()
    assert rows(catalog) == before
    insert(table, 3)
    assert rows(catalog) == [*before, (3, "a", 2, table.latest_snapshot().id)]  # type: ignore[union-attr]
    assert not table.fsck(level="rows").findings


@pytest.mark.parametrize(
    ("keys", "options", "message"),
    [
        (("id",), {}, "Cannot define primary-key for row tracking table."),
        ((), {"bucket": "2", "bucket-key": "id"}, "it only support bucket = -1"),
    ],
)
def test_refused_shapes(catalog: Catalog, keys: tuple[str, ...], options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        catalog.create_table("db.x", SCHEMA, primary_keys=keys, options={**TRACKED, **options})


def test_without_the_feature(catalog: Catalog) -> None:
    made = catalog.create_table("db.n", SCHEMA)
    insert(made, 1)
    with pytest.raises(InvalidError, match="does not support row tracking"):
        catalog.table("db.n$row_tracking")
    assert [file.first_row_id for file in files(made)] == [None]
    assert next_row_id(made) == 0
    with pytest.raises(InvalidError, match="data-evolution"):
        catalog.alter_table("db.n", SetOption("data-evolution.enabled", "true"))


@pytest.mark.parametrize("evolving", ["true", "false"])
def test_a_next_row_id_that_is_too_low_gives_no_id_twice(catalog: Catalog, evolving: str) -> None:
    """A damaged snapshot's: its manifests tell which ids rows have, and the next snapshot is right again."""
    table = create(catalog, data_evolution__enabled=evolving)
    insert(table, 0, 1, 2)
    path = Path(table.path) / "snapshot" / "snapshot-1"
    path.write_text(json.dumps({**json.loads(path.read_text()), "nextRowId": 1}))
    clear_cache()
    assert "row-ids-free" in table.fsck().codes
    insert(table, 3, 4)
    assert [(id, row_id) for id, _, row_id, _ in rows(catalog)] == [(id, id) for id in range(5)]
    assert (next_row_id(table), table.fsck().codes) == (5, set())
