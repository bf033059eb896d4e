"""Changes of a schema that only some rows allow, and a write that comes between the look at the rows and the schema, or
that was begun before: the one or the other is told to try again, and every key has one row."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketlake
from bucketlake import CommitError, ConflictError, InvalidError, Table, UnsupportedError
from bucketlake.env.local import LocalStorage
from bucketlake.ops.table.store import clear_cache
from bucketlake.ops.write.prepare import new_commit_user, prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.schema.change import (
    AddColumn,
    DropPrimaryKey,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnType,
)
from bucketlake.types.model import BIGINT, INT, STRING

FIRST = {key: f"a{key}" for key in range(20)}
NEXT = {key: f"b{key}" for key in range(20)}
CASES: dict[str, tuple[dict[str, str], list[str], SchemaChange]] = {
    "hash": ({"bucket": "4"}, ["k"], SetOption("bucket-function.type", "mod")),
    "to dynamic": ({"bucket": "4"}, ["k"], SetOption("bucket", "-1")),
    "to fixed": ({"bucket": "-1", "dynamic-bucket.target-row-num": "5"}, ["k"], SetOption("bucket", "4")),
    "key": ({"bucket": "4", "bucket-key": "k"}, [], SetOption("primary-key", "k")),
    "no key": ({"bucket": "4", "bucket-key": "k"}, ["k"], DropPrimaryKey()),
}


def made(folder: Path, options: Mapping[str, str], keys: list[str]) -> Table:
    schema = pa.schema([("k", pa.int32()), ("v", pa.string())])
    return bucketlake.open(folder).create_table("t", schema, primary_keys=keys, options=dict(options))


def batch(values: Mapping[int, str], key: pa.DataType | None = None) -> pa.Table:
    return pa.table({"k": pa.array(list(values), key or pa.int32()), "v": pa.array(list(values.values()), pa.string())})


def prepared(table: Table, values: Mapping[int, str]) -> Callable[[], Any]:
    """A write up to its commit."""
    user = new_commit_user(table.store)
    task = prepare_write(table.store, table.latest_snapshot(), commit_user=user)
    messages = write_batches(table.store, batch(values).to_batches(), task)
    return lambda: table.commit(messages, user)


def before_schema(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], Any]) -> None:
    """Have something happen right before a schema is published."""
    put = LocalStorage.put_if_absent

    def late(self: LocalStorage, path: str, data: bytes) -> bool:
        if path.endswith(f"schema-{number}"):
            monkeypatch.setattr(LocalStorage, "put_if_absent", put)
            act()
        return put(self, path, data)

    monkeypatch.setattr(LocalStorage, "put_if_absent", late)


def rows(table: Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.refresh().to_arrow().to_pylist())


@pytest.mark.parametrize("case", CASES)
def test_rows_that_come_before_the_schema_keep_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    options, keys, change = CASES[case]
    table = made(tmp_path, options, keys)
    before_schema(monkeypatch, 1, prepared(table, FIRST))
    with pytest.raises(ConflictError, match="rows that do not allow the change"):
        table.alter(change)
    assert rows(table) == sorted(FIRST.items())
    table = table.refresh()
    assert (table.schema.options, table.schema.primary_keys) == (
        made(tmp_path / "o", options, keys).schema.options,
        tuple(keys),
    )
    table.write_arrow(batch(NEXT))
    table.compact(full=True)
    assert rows(table) == sorted(NEXT.items() if keys else [*FIRST.items(), *NEXT.items()])
    assert not table.refresh().fsck("rows").findings


@pytest.mark.parametrize("case", CASES)
def test_rows_written_for_the_schema_before_do_not_come_after_it(tmp_path: Path, case: str) -> None:
    options, keys, change = CASES[case]
    table = made(tmp_path, options, keys)
    slow = prepared(table, FIRST)
    altered = table.alter(change)
    with pytest.raises(ConflictError, match="altered meanwhile"):
        slow()
    assert altered.latest_snapshot() is None
    altered.write_arrow(batch(FIRST))
    altered.write_arrow(batch(NEXT))
    altered.compact(full=True)
    assert rows(altered) == sorted(NEXT.items() if altered.schema.primary_keys else [*FIRST.items(), *NEXT.items()])
    assert not altered.refresh().fsck("rows").findings


def test_a_negative_key_that_comes_before_a_wider_type_keeps_it_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path, {"bucket": "4"}, ["k"])
    table.write_arrow(batch(FIRST))
    merging = table.with_options({"write.merge-schema": "true", "write.merge-schema.type-widening": "true"})
    before_schema(monkeypatch, 1, prepared(table, {-1: "x"}))
    with pytest.raises(ConflictError, match="rows that do not allow the change"):
        merging.write_arrow(batch({3: "c"}, pa.int64()))
    assert rows(table) == sorted({**FIRST, -1: "x"}.items())
    table.refresh().write_arrow(batch({-1: "y"}))
    assert rows(table) == sorted({**FIRST, -1: "y"}.items())


def test_other_writes_and_changes_do_not_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path, {"bucket": "4", "bucket-key": "k", "sequence.field": "v"}, ["k"])
    before_schema(monkeypatch, 1, prepared(table, FIRST))
    table.alter(AddColumn("w", BIGINT))
    slow = prepared(table, NEXT)
    renamed = table.refresh().alter(RenameColumn("k", "key"), RenameColumn("v", "value"), SetOption("bucket", "4"))
    slow()
    assert rows(renamed) == sorted((key, value, None) for key, value in NEXT.items())


def test_what_is_no_change_changes_nothing(tmp_path: Path) -> None:
    table = made(tmp_path, {"bucket": "4"}, ["k"])
    for given in ([AddColumn("w", BIGINT)], None, "k"):
        with pytest.raises(InvalidError, match="not a change of a schema"):
            table.alter(given)  # type: ignore[arg-type]
    assert table.refresh().schema == table.schema


SEVERAL_LEVELS = {
    "bucket": "1",
    "merge-engine": "aggregation",
    "fields.v.aggregate-function": "listagg",
    "num-sorted-run.compaction-trigger": "3",
    "compaction.size-ratio": "0",
    "compaction.max-size-amplification-percent": "100000",
}


@pytest.mark.parametrize("producers", [("none", "lookup"), ("lookup", "none")])
def test_a_lookup_is_begun_and_ended_where_every_bucket_has_one_level(
    tmp_path: Path, producers: tuple[str, str]
) -> None:
    """A row above level 0 holds all that was before it, or does not: sums would count twice, or only in part."""
    before, after = producers
    table = made(tmp_path, {**SEVERAL_LEVELS, "changelog-producer": before}, ["k"])
    table.write_arrow(batch(dict.fromkeys(range(3000), "a")))
    table.compact()
    for _ in range(6):
        table.write_arrow(batch({1: "b"}))
    expected = rows(table)
    assert expected[1] == (1, "a,b,b,b,b,b,b")
    with pytest.raises(InvalidError, match="files in several levels"):
        table.alter(SetOption("changelog-producer", after))
    then = table.latest_snapshot()
    table.compact()
    new = table.alter(SetOption("changelog-producer", after))
    assert then is not None
    assert sorted(tuple(row.values()) for row in new.to_arrow(scan_snapshot_id=then.id).to_pylist()) == expected
    for back in (new.rollback_to, new.rollback_to_as_latest):
        with pytest.raises(InvalidError, match="files in several levels"):
            back(then.id)
    for handle in (table, new) * 4:  # the older one compacts by the rules that were
        with suppress(CommitError):  # rows are committed; who looks up must compact, and cannot
            handle.write_arrow(batch({1: "c"}))
    assert rows(new)[1] == (1, "a,b,b,b,b,b,b,c,c,c,c,c,c,c,c")


def test_compacting_manifests_keeps_the_schema_that_rows_were_committed_under(tmp_path: Path) -> None:
    table = bucketlake.open(tmp_path).create_table("t", pa.schema([("id", pa.int64())]))
    for number in range(2):
        table.write_arrow({"id": [number]})
    table = table.alter(AddColumn("later", INT))
    compacted = table.compact_manifests()
    assert compacted is not None and compacted.schema_id == 0
    assert table.to_arrow(scan_snapshot_id=compacted.id).column_names == ["id"]
    assert table.refresh().to_arrow().column_names == ["id", "later"]
    after = table.write_arrow({"id": [2], "later": [1]})
    assert after is not None and after.schema_id == 1


@pytest.mark.parametrize(
    ("key", "value"), [("partition.default-name", "none"), ("partition.legacy-name", "false"), ("branch", "b")]
)
def test_where_rows_lie_is_not_altered(tmp_path: Path, key: str, value: str) -> None:
    """Paimon takes these, and finds no file of the table then."""
    day = pa.array([datetime.date(2024, 1, 1), None], pa.date32())
    given = pa.table({"day": day, "v": pa.array([1, 2], pa.int64())})
    catalog = bucketlake.open(tmp_path)
    table = catalog.create_table("t", given.schema, ["day"])
    if key != "branch":
        table.alter(SetOption(key, value)).alter(RemoveOption(key))  # no rows yet
    table.write_arrow(given)
    table.create_branch("b")
    with pytest.raises((InvalidError, UnsupportedError), match=key):
        table.alter(SetOption(key, value))
    if key != "branch":  # which a call may name
        for call in (Table.to_arrow, lambda one, **options: one.write_arrow(given, **options)):
            with pytest.raises(InvalidError, match="the folders that the rows lie in"):
                call(table, **{key: value})
        assert table.alter(SetOption(key, table.options.get(key))).to_arrow().num_rows == 2  # as it is
    table.write_arrow(given)
    assert catalog.table("t").to_arrow().num_rows == 4
    assert catalog.table("t").to_arrow(where="day is null").num_rows == 2


def test_partition_names_of_a_table_without_partitions_are_altered(tmp_path: Path) -> None:
    table = made(tmp_path, {}, [])
    table.write_arrow(batch(FIRST))
    assert len(rows(table.alter(SetOption("partition.default-name", "none")))) == len(FIRST)


def test_a_table_whose_schema_says_a_branch_is_refused(tmp_path: Path) -> None:
    """As ALTER TABLE of Paimon's leaves it: Paimon reads the branch's rows by the table's schema."""
    table = made(tmp_path, {}, [])
    table.write_arrow(batch(FIRST))
    table.create_tag("v1")
    table.create_branch("b", "v1")
    schema = Path(table.path, "schema", "schema-0")
    told = json.loads(schema.read_bytes())
    schema.write_text(json.dumps({**told, "options": {**told["options"], "branch": "b"}}))
    catalog = bucketlake.open(tmp_path)
    with pytest.raises(UnsupportedError, match="its rows are a branch's.*RESET"):
        catalog.table("t")
    assert len(rows(catalog.table("t$branch_b"))) == len(FIRST)


def test_reset_follows_the_rules_of_set(tmp_path: Path) -> None:
    table = made(tmp_path, {"bucket": "1", "deletion-vectors.enabled": "true", "ignore-delete": "true"}, ["k"])
    table.write_arrow(batch(FIRST))
    for key, match in (("deletion-vectors.enabled", "modifiable"), ("ignore-delete", "from true to false")):
        with pytest.raises(InvalidError, match=match):
            table.alter(RemoveOption(key))


@pytest.mark.parametrize("options", [{}, {"changelog-producer": "lookup"}])
def test_deletion_vectors_are_compacted_away_where_they_are_not_wanted_any_more(
    tmp_path: Path, options: dict[str, str]
) -> None:
    vectors = {"deletion-vectors.enabled": "true", "deletion-vectors.modifiable": "true"}
    table = made(tmp_path, {"bucket": "1", **vectors, **options}, ["k"])
    for values in (FIRST, {1: "c"}):
        table.write_arrow(batch(values))
        table.compact(full=values is FIRST)
    assert table.store.index_manifest(table.latest_snapshot())
    table = table.alter(SetOption("deletion-vectors.enabled", "false"))
    table.write_arrow(batch({2: "d"}))
    table.compact(full=True)
    assert rows(table) == sorted({**FIRST, 1: "c", 2: "d"}.items())
    assert not table.store.index_manifest(table.latest_snapshot())
    table = table.alter(SetOption("deletion-vectors.enabled", "true"))
    table.write_arrow(batch({3: "e"}))
    table.compact()
    assert rows(table) == sorted({**FIRST, 1: "c", 2: "d", 3: "e"}.items())


def test_aggregates_of_another_type_are_refused_where_they_come_in(tmp_path: Path) -> None:
    """The first write failed, where rows were already on their way."""
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
    table = bucketlake.open(str(tmp_path)).create_table("t", schema, primary_keys=["k"], options=options)
    for change in (SetOption("fields.s.aggregate-function", "sum"), UpdateColumnType("v", STRING)):
        with pytest.raises(InvalidError, match=r"sum column must be 'NumericType' but was 'STRING'.*function=sum"):
            table.alter(change)
    path = Path(table.store.paths.schema(0))
    path.write_text(path.read_text().replace('"fields.v.', '"fields.s.'))  # as another engine lets it be made
    clear_cache()
    table = bucketlake.open(str(tmp_path)).table("t")
    table = table.alter(SetOption("write-buffer-size", "1 mb"))
    with pytest.raises(InvalidError, match="sum column"):
        table.write_arrow(pa.table({"k": [1], "v": [1], "s": ["a"]}))
    table = table.alter(RemoveOption("fields.s.aggregate-function"))
    assert table.write_arrow(pa.table({"k": [1], "v": [1], "s": ["a"]})) is not None
