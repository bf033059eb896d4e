"""Indexes of tables with a primary key: random histories against a dict, files left out, damage, and what is refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketlake
from bucketlake import Table
from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.format.index.btree import MAGIC
from bucketlake.format.index.sources import Sources
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.change import DropColumn, RemoveOption, RenameColumn, SetOption, UpdateColumnType
from bucketlake.types.model import BIGINT

SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.string()), ("city", pa.string()), ("v", pa.int32())])
BOTH = {"pk-bitmap.index.columns": "city", "pk-btree.index.columns": "v"}
KINDS: tuple[dict[str, str], ...] = (
    BOTH,
    {"pk-btree.index.columns": "city,v", "bucket": "2", "fields.v.pk-btree.index.options": '{"block-size":"1 kb"}'},
    {"pk-bitmap.index.columns": "v,city", "file.format": "orc", "changelog-producer": "lookup"},
    {**BOTH, "bucket": "-2", "index-file-in-data-file-dir": "true"},
    {**BOTH, "merge-engine": "partial-update", "num-sorted-run.compaction-trigger": "2"},
)
Rows = dict[tuple[int, str], tuple[Any, Any]]


def made(path: Path, **options: str) -> Table:
    catalog = bucketlake.open(path)
    catalog.create_database("d")
    chosen = {"bucket": "1", "deletion-vectors.enabled": "true", "target-file-size": "4 kb", **options}
    return catalog.create_table("d.t", SCHEMA, ["p"], ["k", "p"], chosen)


def arrow(rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)


def held(table: Table, where: str | None = None) -> Rows:
    found = table.to_arrow(where=where).to_pylist()
    rows = {(row["k"], row["p"]): (row["city"], row["v"]) for row in found}
    assert len(rows) == len(found)
    return rows


def kinds(table: Table) -> list[str]:
    """Of the newest snapshot: the kinds of its index files."""
    table = table.refresh()
    return sorted(entry.file.index_type for entry in table.store.index_manifest(table.latest_snapshot()))


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_histories_equal_a_dict(tmp_path: Path, kind: int) -> None:
    chosen, table, model = random.Random(kind), made(tmp_path, **KINDS[kind]), Rows()
    partial = "merge-engine" in KINDS[kind]
    for _ in range(8):
        step = chosen.choice(("write", "write", "write", "delete", "full", "overwrite"))
        if step == "write":
            for k, p, *values in (rows := _some(chosen)):
                old = model.get((k, p), (None, None)) if partial else (None, None)
                model[k, p] = (values[0] or old[0], old[1] if values[1] is None else values[1])
            table.write_arrow(arrow(rows))
        elif step == "delete" and not partial:
            low = chosen.randrange(200)
            table.delete(f"k BETWEEN {low} AND {low + 20}")
            model = {key: row for key, row in model.items() if not low <= key[0] <= low + 20}
        elif step == "full":
            table.compact(full=True)
        elif step == "overwrite":
            table.write_arrow(arrow([(1, "x", "new", 1)]), mode="overwrite", partition={"p": "x"})
            model = {**{key: row for key, row in model.items() if key[1] != "x"}, (1, "x"): ("new", 1)}
        table.compact()
        v = chosen.randrange(300)
        for where, told in _conditions(v):
            assert held(table, where) == {key: row for key, row in model.items() if told(*row)}, where
    assert table.fsck("rows").findings == ()


def _some(chosen: random.Random) -> list[tuple[Any, ...]]:
    return [
        (k, chosen.choice("xy"), chosen.choice(("a", "b", "Ω", None)), chosen.choice((None, *range(300))))
        for k in chosen.sample(range(200), chosen.randrange(1, 120))
    ]


def _conditions(v: int) -> list[tuple[str | None, Callable[[Any, Any], bool]]]:
    return [
        (None, lambda city, found: True),
        ("city = 'b'", lambda city, found: city == "b"),
        ("city IS NULL", lambda city, found: city is None),
        (f"v = {v} OR city = 'new'", lambda city, found: found == v or city == "new"),
        (f"v > {v} AND city <> 'a'", lambda city, found: found is not None and found > v and city not in (None, "a")),
    ]


def loaded(path: Path, **options: str) -> Table:
    """Files whose values lie between each other: statistics leave none out. Two writes, as what only moves up to
    another level is in no index."""
    table = made(path, **{**BOTH, "write-only": "true", **options})
    for start in (0, 1):
        table.write_arrow(arrow([(k, "x", f"c{k % 97}", k * 7919 % 6000) for k in range(start, 6000, 2)]))
    table.compact(full=True)
    table.write_arrow(arrow([(k, "x", "z", 9000 + k) for k in range(20)]))
    table.compact()
    return table.refresh()


def test_files_without_a_match_are_left_out(tmp_path: Path) -> None:
    table = loaded(tmp_path)
    every = table.files()
    assert len(every) > 8 and {"btree", "bitmap"} <= set(kinds(table))
    assert len(table.files(where="v = 3000")) <= 2
    assert held(table, "v = 3000") == {(3000, "x"): ("c90", 3000)}
    assert held(table, "v = 9003") == {(3, "x"): ("z", 9003)}
    assert held(table, "v = 5757") == {}
    without = table.with_options({"global-index.enabled": "false"})
    assert len(without.files(where="v = 3000")) > 8


def test_files_that_damaged_indexes_name_are_read(tmp_path: Path) -> None:
    table = loaded(tmp_path)
    for file in (tmp_path / "d.db/t/index").iterdir():
        data = bytearray(file.read_bytes())
        if data[-4:] == MAGIC.to_bytes(4, "little"):
            data[: len(data) // 2] = bytes(len(data) // 2)
            file.write_bytes(data)
    clear_cache()
    table = bucketlake.open(tmp_path).table("d.t")
    with pytest.warns(UserWarning, match="an index is passed over"):
        assert held(table, "v = 3000") == {(3000, "x"): ("c90", 3000)}


def test_an_index_goes_with_its_files(tmp_path: Path) -> None:
    table = loaded(tmp_path)
    before = kinds(table)
    table.compact(full=True)
    assert kinds(table).count("btree") == kinds(table).count("bitmap") == 1 <= len(before)
    names = {entry.file.file_name for entry in table.refresh().store.index_manifest(table.latest_snapshot())}
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert {file.name for file in (tmp_path / "d.db/t/index").iterdir()} == names
    assert held(table, "v = 9003") == {(3, "x"): ("z", 9003)}


def test_an_index_that_is_no_option_any_more_goes(tmp_path: Path) -> None:
    table = loaded(tmp_path).alter(RemoveOption("pk-btree.index.columns"))
    table.write_arrow(arrow([(1, "x", "w", 1)]))
    table.compact(full=True)
    assert "btree" not in kinds(table) and "bitmap" in kinds(table)


def test_other_buckets_and_clones_have_indexes_of_their_own(tmp_path: Path) -> None:
    table = loaded(tmp_path)
    catalog = bucketlake.open(tmp_path)
    catalog.clone_table(table, "d.copy")
    copy = catalog.table("d.copy")
    assert held(copy, "v = 3000") == {(3000, "x"): ("c90", 3000)} and held(copy) == held(table)
    table.rescale(3)
    assert held(table.refresh(), "v = 3000") == {(3000, "x"): ("c90", 3000)}
    table = table.refresh().alter(SetOption("bucket", "3"))
    table.write_arrow(arrow([(k, "x", "new", 20_000 + k) for k in range(0, 6000, 50)]))
    table.compact(full=True)
    table = table.refresh()
    assert held(table, "v = 20100") == {(100, "x"): ("new", 20_100)} and held(table, "v = 3000") == {}
    assert len(table.files(where="v = 20100")) < len(table.files())
    assert table.fsck("rows").findings == ()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"deletion-vectors.enabled": "false"}, "require deletion-vectors.enabled"),
        ({"bucket": "-1"}, "fixed or postpone bucket mode"),
        ({"deletion-vectors.merge-on-read": "true"}, "merge-on-read = false"),
        ({"pk-btree.index.columns": "nope"}, "must reference an existing column"),
        ({"pk-btree.index.columns": "v,v"}, "duplicate column 'v'"),
        ({"pk-btree.index.columns": "city"}, "at most one primary-key index"),
        ({"fields.v.pk-btree.index.options": "[1]"}, "must be a JSON object"),
        ({"fields.v.pk-btree.index.options": '{" ":"1"}'}, "empty option key"),
        ({"btree-index.block-size": "2 kb", "fields.v.pk-btree.index.options": '{"block-size":"1 kb"}'}, "conflicting"),
    ],
)
def test_what_does_not_go_with_it_is_refused(tmp_path: Path, options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidError, match=said):
        made(tmp_path, **{**BOTH, **options})
    assert not (tmp_path / "d.db" / "t").exists()


def test_an_indexed_column_stays(tmp_path: Path) -> None:
    table = made(tmp_path, **BOTH)
    for change in (DropColumn("v"), RenameColumn("city", "town"), UpdateColumnType("v", BIGINT)):
        with pytest.raises(UnsupportedError, match="primary-key index column"):
            table.alter(change)
    with pytest.raises(InvalidError, match="merge-on-read = false"):
        table.alter(SetOption("deletion-vectors.merge-on-read", "true"))
    table.with_options({"write-only": "true"}).write_arrow(arrow([(1, "x", "a", 1)]))
    assert held(table.with_options({"deletion-vectors.merge-on-read": "true"})) == {(1, "x"): ("a", 1)}


def test_what_an_index_says_of_its_files_comes_back() -> None:
    sources = Sources(3, (("data-a-0.parquet", 7), ("data-b-1.parquet", 1 << 40)))
    assert Sources.of(sources.encode(), "i") == sources
    data = sources.encode()
    for end in range(len(data)):
        with pytest.raises(bucketlake.errors.CorruptError):
            Sources.of(data[:end], "i")
    many = Sources(1, (("a", (1 << 63) - 1), ("b", 1))).encode()
    for damaged in (data + b"\0", b"\0\0\0\2" + data[4:], data[:4] + bytes(4) + data[8:], many):
        with pytest.raises(bucketlake.errors.CorruptError):
            Sources.of(damaged, "i")


def test_a_rescale_beside_a_compaction_keeps_deleted_rows_away(tmp_path: Path) -> None:
    """What is compacted on the way has deletion vectors, whatever indexes its table has."""
    table, times = loaded(tmp_path), []

    def meanwhile(_: Any) -> None:
        times.append(1)
        if len(times) == 1:
            other = bucketlake.open(tmp_path).table("d.t")
            other.write_arrow(arrow([(k, "x", "new", 50_000 + k) for k in range(0, 6000, 7)]))
            other.compact()

    table.rescale(3, on_progress=meanwhile)
    clear_cache()
    model = {(k, "x"): (f"c{k % 97}", k * 7919 % 6000) for k in range(6000)}
    model.update({(k, "x"): ("z", 9000 + k) for k in range(20)})
    model.update({(k, "x"): ("new", 50_000 + k) for k in range(0, 6000, 7)})
    table = table.refresh()
    assert times and held(table) == model
    assert held(table, "v = 50007") == {(7, "x"): ("new", 50_007)}
    assert table.fsck("rows").findings == ()
