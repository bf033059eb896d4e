"""Key columns that merged schemas give a wider type, and those that may not have one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.profile import examples

import bucketlake
from bucketlake import ConflictError, InvalidError, Table, UnsupportedError
from bucketlake.ops.table.publishing import publish_schema
from bucketlake.ops.write.prepare import new_commit_user, prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.schema.change import UpdateColumnType
from bucketlake.schema.versions import apply
from bucketlake.types.model import BIGINT

WIDENING = {"write.merge-schema": "true", "write.merge-schema.type-widening": "true"}
KINDS: dict[str, dict[str, str]] = {
    "fixed": {"bucket": "3"},
    "mod": {"bucket": "3", "bucket-function.type": "mod"},
    "hive": {"bucket": "3", "bucket-function.type": "hive"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "5"},
    "vectors": {"bucket": "3", "deletion-vectors.enabled": "true"},
    "changes": {"bucket": "3", "changelog-producer": "lookup"},
    "thin": {"bucket": "3", "data-file.thin-mode": "true"},
    "indexed": {"bucket": "3", "file-index.bloom-filter.columns": "k"},
    "postpone": {"bucket": "-2", "postpone.merge-on-read": "true"},
}


def made(folder: Path, options: Mapping[str, str], keyed: bool = True, key: pa.DataType | None = None) -> Table:
    schema = pa.schema([("k", key or pa.int32()), ("v", pa.string())])
    keys = ["k"] if keyed else []
    bucket = {} if keyed else {"bucket-key": "k"}
    return bucketlake.open(folder).create_table("t", schema, primary_keys=keys, options={**bucket, **options})


def batch(t: pa.DataType, values: Mapping[int, str]) -> pa.Table:
    return pa.table({"k": pa.array(list(values), t), "v": pa.array(list(values.values()), pa.string())})


def widened(table: Table, values: Mapping[int, str]) -> Table:
    table.with_options(WIDENING).write_arrow(batch(pa.int64(), values))
    return table.refresh()


def rows(table: Table, **arguments: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow(**arguments).to_pylist())


def prepared(table: Table, values: Mapping[int, str]) -> Callable[[], object]:
    """A write up to its commit."""
    user = new_commit_user(table.store)
    task = prepare_write(table.store, table.latest_snapshot(), commit_user=user)
    messages = write_batches(table.store, batch(pa.int32(), values).to_batches(), task)
    return lambda: table.commit(messages, user)


def retyped_by_path(table: Table) -> Table:
    """As Paimon retypes a key where the table is opened by its path, whatever it holds."""
    following = apply(table.schema, [UpdateColumnType("k", BIGINT)], retypable={"k"})
    assert publish_schema(table.store, following)
    return table.refresh()


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_is_widened_where_none_is_negative(tmp_path: Path, kind: str) -> None:
    table = made(tmp_path, KINDS[kind])
    model = {key: f"a{key}" for key in range(20)}
    table.write_arrow(batch(pa.int32(), model))
    if kind == "postpone":
        table.compact()
    newer = {key: f"b{key}" for key in (0, 7, 19, 2**31, 2**40)}
    table = widened(table, newer)
    model |= newer
    assert table.schema.field("k").type.with_nullable(True) == BIGINT
    for _ in range(2):
        assert rows(table) == sorted(model.items())
        assert rows(table, where="k IN (1, 7, 1099511627776)") == [(1, "a1"), (7, "b7"), (2**40, "b1099511627776")]
        assert rows(table, where="k = 2147483648") == [(2**31, "b2147483648")]
        table.compact(full=True)
    table.write_arrow(batch(pa.int64(), {1: "c", -1: "d"}))
    model |= {1: "c", -1: "d"}
    table.delete("k = 7")
    del model[7]
    table.compact(full=True)
    assert rows(table) == sorted(model.items())
    assert rows(table, where="k < 2") == [(-1, "d"), (0, "b0"), (1, "c")]


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_a_bucket_key_is_widened_where_none_is_negative(tmp_path: Path, form: str) -> None:
    table = made(tmp_path, {"bucket": "3", "file.format": form}, keyed=False)
    table.write_arrow(batch(pa.int32(), {1: "a", 2: "b"}))
    table = widened(table, {2: "c", 2**40: "d"})
    assert rows(table) == [(1, "a"), (2, "b"), (2, "c"), (2**40, "d")]
    assert rows(table, where="k = 2") == [(2, "b"), (2, "c")]
    table.compact(full=True)
    assert rows(table, where="k = 2") == [(2, "b"), (2, "c")]


@settings(max_examples=examples(15), deadline=None)
@given(
    st.dictionaries(st.integers(0, 2**15 - 1), st.text(max_size=2), max_size=30),
    st.lists(st.dictionaries(st.integers(-5, 40) | st.integers(-(2**63), 2**63 - 1), st.text(max_size=2)), max_size=3),
)
def test_widened_keys_are_the_same_keys(
    tmp_path_factory: pytest.TempPathFactory, first: dict[int, str], later: list[dict[int, str]]
) -> None:
    table = made(tmp_path_factory.mktemp("keys"), {"bucket": "4"}, key=pa.int16())
    table.write_arrow(batch(pa.int16(), first))
    model = dict(first)
    for number, values in enumerate(later):
        table = widened(table, values)
        model |= values
        if number == 1:
            table.compact(full=True)
    assert rows(table) == sorted(model.items())
    for key in [*first, *(key for values in later for key in values)][:5]:
        assert rows(table, where=f"k = {key}") == [(key, model[key])]


@pytest.mark.parametrize("keyed", [True, False])
def test_negative_keys_keep_their_type(tmp_path: Path, keyed: bool) -> None:
    table = made(tmp_path, {"bucket": "3"}, keyed)
    table.write_arrow(batch(pa.int32(), {-1: "a", 2: "b"}))
    message = "Cannot update primary key" if keyed else r"Cannot update bucket key column: \[k\]"
    with pytest.raises(InvalidError, match=message):
        widened(table, {3: "c"})
    assert table.refresh().schema.id == 0
    assert rows(table) == [(-1, "a"), (2, "b")]
    table.delete("k = -1")
    if keyed:
        table.compact(full=True)
    assert rows(widened(table.refresh(), {3: "c"})) == [(2, "b"), (3, "c")]


def test_statistics_must_show_it(tmp_path: Path) -> None:
    table = made(tmp_path, {"bucket": "3", "metadata.stats-mode": "none"}, keyed=False)
    table.write_arrow(batch(pa.int32(), {1: "a"}))
    with pytest.raises(InvalidError, match="Cannot update bucket key column"):
        widened(table, {3: "c"})


def test_other_types_stay(tmp_path: Path) -> None:
    table = made(tmp_path, {"bucket": "3"})
    table.write_arrow(batch(pa.int32(), {1: "a"}))
    texts = pa.table({"k": ["2"], "v": ["b"]})
    with pytest.raises(InvalidError, match="Cannot update primary key"):
        table.with_options({**WIDENING, "write.merge-schema.explicit-cast": "true"}).write_arrow(texts)
    with pytest.raises(InvalidError, match="Cannot update primary key"):
        table.alter(UpdateColumnType("k", BIGINT))  # as Paimon has it


def test_a_slow_writer_of_negative_keys_is_told(tmp_path: Path) -> None:
    table = made(tmp_path, {"bucket": "3"})
    table.write_arrow(batch(pa.int32(), {1: "a"}))
    slow, good = prepared(table, {-2: "x"}), prepared(table, {2: "y"})
    wide = widened(table, {1: "b"})
    with pytest.raises(ConflictError, match="given a key column another type"):
        slow()
    good()
    assert rows(wide.refresh()) == [(1, "b"), (2, "y")]


def test_keys_that_may_lie_elsewhere_are_not_read(tmp_path: Path) -> None:
    table = made(tmp_path, {"bucket": "3"})
    table.write_arrow(batch(pa.int32(), {-1: "a", 2: "b"}))
    table = retyped_by_path(table)
    for read in (table.to_arrow, lambda: table.to_arrow(where="k = -1"), lambda: table.compact(full=True)):
        with pytest.raises(UnsupportedError, match="a key column had another type"):
            read()
    assert rows(table, scan_snapshot_id=1) == [(-1, "a"), (2, "b")]
    table.write_arrow(batch(pa.int64(), {-1: "a", 2: "c"}), mode="overwrite")
    assert rows(table) == [(-1, "a"), (2, "c")]
    with pytest.raises(UnsupportedError, match="a key column had another type"):
        table.with_options({"incremental-between": "0,1"}).to_arrow()


def test_keys_that_lie_where_they_did_are_read(tmp_path: Path) -> None:
    table = made(tmp_path, {"bucket": "3"})
    table.write_arrow(batch(pa.int32(), {1: "a", 2: "b"}))
    old = table
    table = retyped_by_path(table)
    table.write_arrow(batch(pa.int64(), {2: "c", 3: "d"}))
    assert rows(table) == [(1, "a"), (2, "c"), (3, "d")]
    with pytest.raises(UnsupportedError, match="a key column had another type"):
        old.to_arrow()
