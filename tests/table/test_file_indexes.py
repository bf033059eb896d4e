"""File indexes of tables: written by every writer as the options say, used by plans, removed with their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.profile import examples

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.errors import CorruptError, InvalidError, StorageError
from bucketlake.ops.rows import file_indexes
from bucketlake.predicate.evaluate import mask
from bucketlake.predicate.tree import Compare, EndsWith, In, Not, StartsWith
from bucketlake.schema.change import RenameColumn, SetOption
from bucketlake.table import Table
from bucketlake.types.model import DataField
from bucketlake.types.parse import parse_type_text

SCHEMA = pa.schema([pa.field("k", pa.int64()), pa.field("v", pa.string()), pa.field("n", pa.int32())])
INDEXED = {
    "file-index.bloom-filter.columns": "k",
    "file-index.bloom-filter.k.items": "100",
    "file-index.bitmap.columns": "v",
    "file-index.range-bitmap.columns": "n",
    "file-index.in-manifest-threshold": "1 mb",
    "metadata.stats-mode": "none",
}
APPEND = {**INDEXED, "bucket": "-1"}


def rows(*ks: int, text: str = "v", step: int = 10) -> pa.Table:
    return pa.table([list(ks), [f"{text}{k % 3}" for k in ks], [k * step for k in ks]], schema=SCHEMA)


def made(catalog: Catalog, options: dict[str, str], keys: list[str] | None = None) -> Table:
    """Three commits: k from 0 to 2, from 1000 to 1002, from 2000 to 2002, v unlike by commit."""
    table = catalog.create_table("t", SCHEMA, [], keys or [], options)
    for number in range(3):
        table.write_arrow(rows(*range(1000 * number, 1000 * number + 3), text="abc"[number]))
    return table


def planned(table: Table, where: str, **options: Any) -> int:
    return len(table.files(where, **options))


@pytest.mark.parametrize("place", ["embedded", "beside"])
def test_files_without_a_match_are_left_out(catalog: Catalog, place: str) -> None:
    threshold = "1 mb" if place == "embedded" else "0 b"
    table = made(catalog, {**APPEND, "file-index.in-manifest-threshold": threshold})
    for found in table.files():
        beside = Path(found.path + ".index")
        assert (found.file.embedded_index is None, beside.exists()) == (place == "beside",) * 2
        assert found.file.extra_files == ((beside.name,) if place == "beside" else ())
    for where in ("v = 'b1'", "n = 10010", "n > 10000 AND n < 10020", "v IN ('b0', 'b2')", "n BETWEEN 10005 AND 10015"):
        assert planned(table, where) == 1, where
        assert planned(table, where, **{"file-index.read.enabled": "false"}) == 3
    assert planned(table, "v = 'z'") == planned(table, "n < 0") == planned(table, "n IS NULL") == 0
    assert planned(table, "k = 1001") < 3
    assert planned(table, "v LIKE '%1'") == planned(table, "n IS NOT NULL") == 3
    assert table.to_arrow("v = 'b1'").to_pylist() == [{"k": 1000, "v": "b1", "n": 10000}]


def test_every_writer_of_data_files_builds_them(catalog: Catalog) -> None:
    """Flush and append, overwrite, several files of one bucket, dynamic options."""
    table = catalog.create_table("t", SCHEMA, [], [], {**APPEND, "target-file-row-num": "2"})
    table.write_arrow(rows(1, 2, 3, 4, 5))
    table.write_arrow(rows(6), mode="overwrite")
    assert all(found.file.embedded_index for found in table.files())
    plain = catalog.create_table("p", SCHEMA, [], [], {"bucket": "-1"})
    plain.write_arrow(rows(1), **{"file-index.bitmap.columns": "v"})
    plain.write_arrow(rows(2))
    assert sorted(bool(found.file.embedded_index) for found in plain.files()) == [False, True]
    assert planned(plain, "v = 'v2'") == 1


def test_compaction_builds_them_anew(catalog: Catalog) -> None:
    options = {**INDEXED, "bucket": "1", "num-sorted-run.compaction-trigger": "2"}
    table = catalog.create_table("t", SCHEMA, [], ["k"], options)
    for text in "abcd":
        table.write_arrow(rows(1, 2, 3, text=text))
    compacted = [found.file for found in table.files() if found.file.level > 0]
    assert compacted
    assert all(file.embedded_index for file in compacted)
    assert table.to_arrow("v = 'd1'").column("k").to_pylist() == [1]
    assert table.to_arrow("v = 'a1'").num_rows == 0


KEYED = {**INDEXED, "bucket": "1", "write-only": "true"}


def test_sections_to_merge_stay_whole(catalog: Catalog) -> None:
    """A newer version that does not match must not bring the older one back."""
    table = catalog.create_table("t", SCHEMA, [], ["k"], KEYED)
    table.write_arrow(rows(1, 2, 3, text="old"))
    table.write_arrow(rows(1, 2, 3, text="new"))
    assert planned(table, "v = 'old1'") == 2
    assert table.to_arrow("v = 'old1'").num_rows == 0
    assert table.to_arrow("v = 'new1'").column("k").to_pylist() == [1]
    assert planned(table, "v = 'none'") == 0


def test_files_are_left_out_by_their_keys_even_of_sections(catalog: Catalog) -> None:
    """Statistics see the range of keys, the filter the keys."""
    table = catalog.create_table("t", SCHEMA, [], ["k"], {**KEYED, "file-index.bloom-filter.k.fpp": "0.001"})
    table.write_arrow(rows(1, 3, 9))
    table.write_arrow(rows(2, 4, 8, text="w"))
    assert planned(table, "k = 3") == 1
    assert planned(table, "k = 3", **{"file-index.read.enabled": "false"}) == 2
    assert table.to_arrow("k = 4").to_pylist() == [{"k": 4, "v": "w1", "n": 40}]
    table.delete("k = 3")
    assert table.to_arrow("k = 3").num_rows == 0
    assert sorted(table.to_arrow("k >= 3").column("k").to_pylist()) == [4, 8, 9]


def test_thin_files_and_their_keys(catalog: Catalog) -> None:
    table = made(catalog, {**KEYED, "data-file.thin-mode": "true"}, ["k"])
    assert planned(table, "v = 'c0'") == 1
    assert table.to_arrow("n = 20010").column("k").to_pylist() == [2001]


def test_renamed_and_retyped_columns(catalog: Catalog) -> None:
    options = {key: value for key, value in APPEND.items() if "bitmap" not in key}
    table = catalog.create_table("t", SCHEMA, [], [], options)
    table.write_arrow(rows(1, 2), **{"file-index.bitmap.columns": "v", "file-index.range-bitmap.columns": "n"})
    table.write_arrow(
        rows(4, 5, text="w"), **{"file-index.bitmap.columns": "v", "file-index.range-bitmap.columns": "n"}
    )
    table = table.alter(RenameColumn(("v",), "w"), RenameColumn(("n",), "v"))
    assert planned(table, "w = 'v1'") == 1
    assert planned(table, "v = 50") == 1
    assert table.to_arrow("w = 'v1'").column("k").to_pylist() == [1]


def test_a_damaged_index_is_named(catalog: Catalog) -> None:
    table = made(catalog, {**APPEND, "file-index.in-manifest-threshold": "0 b"})
    path = Path(table.files()[0].path + ".index")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(CorruptError, match=path.name):
        table.to_arrow("n = 1")
    assert table.to_arrow("n = 10", **{"file-index.read.enabled": "false"}).num_rows == 1
    assert table.to_arrow().num_rows == 9


def test_a_plan_reads_a_bounded_number_beside(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_indexes, "MOST_BESIDE", 2)
    table = made(catalog, {**APPEND, "file-index.in-manifest-threshold": "0 b"})
    assert planned(table, "v = 'z'") == 1


def test_failed_writes_leave_no_index(catalog: Catalog) -> None:
    table = catalog.create_table("t", SCHEMA, [], [], {**APPEND, "file-index.in-manifest-threshold": "0 b"})

    def broken() -> Any:
        yield rows(1, 2).to_batches()[0]
        yield rows(3).to_batches()[0]
        raise StorageError("gone")

    with pytest.raises(StorageError):
        table.write_arrow(broken(), **{"target-file-row-num": "1", "write-buffer-size": "1 b"})
    assert not [path for path in Path(table.path).rglob("*") if path.suffix in (".index", ".parquet")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"file-index.bitmap.columns": "x"}, "Column 'x' specified in .* does not exist in table schema"),
        ({"file-index.tree.columns": "k"}, "Can't find file index for type: tree"),
        ({"file-index.bitmap.columns": "k, "}, "should not have empty column"),
        ({"file-index.bitmap.k.version": "1"}, "column 'k' is not declared in 'file-index.bitmap.columns'"),
        ({"file-index.bsi.columns": "v"}, "Column 'v' with type 'STRING' is not supported by 'bsi' index"),
        ({"file-index.bitmap.columns": "k[a]"}, "is not a map type"),
        ({"file-index.bitmap.columns": "k", "file-index.bitmap.k.version": "3"}, "version"),
        ({"file-index.bloom-filter.columns": "k", "file-index.bloom-filter.k.fpp": "2"}, "probability"),
        ({"file-index.bloom-filter.columns": "k", "file-index.bloom-filter.k.items": "x"}, "items"),
    ],
)
def test_what_makes_no_sense_is_refused(catalog: Catalog, options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        catalog.create_table("t", SCHEMA, [], [], options)
    table = catalog.create_table("u", SCHEMA, [], [], {"bucket": "-1"})
    with pytest.raises(InvalidError, match=message):
        table.alter(*(SetOption(key, value) for key, value in options.items()))


VALUES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5), st.integers(-3, 3) | st.none()), max_size=6)


@settings(max_examples=examples(15, 320), deadline=None)
@given(commits=st.lists(VALUES, max_size=5), keyed=st.booleans(), data=st.data())
def test_reads_are_those_without_indexes(
    tmp_path_factory: pytest.TempPathFactory, commits: list[list[Any]], keyed: bool, data: st.DataObject
) -> None:
    options = KEYED if keyed else {**APPEND, "file-index.in-manifest-threshold": "200 b"}
    table = bucketlake.open(tmp_path_factory.mktemp("w")).create_table("t", SCHEMA, [], ["k"] if keyed else [], options)
    for commit in commits:
        columns = [[k for k, _, _ in commit], [f"v{v}" for _, v, _ in commit], [n for _, _, n in commit]]
        table.write_arrow(pa.table(columns, schema=SCHEMA))
    one = st.sampled_from(["k = {}", "v = 'v{}'", "n > {}", "n <= {}", "n <> {}", "v IN ('v{}', 'v1')", "n IS NULL"])
    parts = data.draw(st.lists(st.tuples(one, st.integers(-3, 30)), min_size=1, max_size=3))
    where = data.draw(st.sampled_from([" AND ", " OR "])).join(text.format(number) for text, number in parts)
    order = [("k", "ascending"), ("v", "ascending"), ("n", "ascending")]
    without = table.to_arrow(where, **{"file-index.read.enabled": "false"}).sort_by(order)
    assert table.to_arrow(where).sort_by(order).equals(without), where


@pytest.mark.parametrize(("form", "index"), [("orc", "none"), ("orc", "bitmap"), ("parquet", "bloom-filter")])
def test_predicates_of_char_hold_of_what_is_read(catalog: Catalog, form: str, index: str) -> None:
    """ORC takes the blanks behind CHAR values off as they are read, and statistics and indexes had them."""
    indexed = {} if index == "none" else {f"file-index.{index}.columns": "c"}
    fields = [DataField(0, "k", parse_type_text("INT")), DataField(1, "c", parse_type_text("CHAR(4)"))]
    table = catalog.create_table("t", fields, options={"bucket": "-1", **indexed, "file.format": form})
    for number, text in enumerate(("a", "a   ", "a\t", "b ", "", None)):
        table.write_arrow(pa.table({"k": pa.array([number], pa.int32()), "c": pa.array([text], pa.string())}))
    whole = table.to_arrow()
    for text in ("a", "a   ", "a\t", "b", "", "toolong"):
        leaves = [Compare("c", op, text) for op in ("=", "<>", "<", "<=", ">", ">=", "<=>")]
        for where in (
            *leaves,
            In("c", (text, "z")),
            Not(In("c", (text, None))),
            StartsWith("c", text),
            EndsWith("c", text),
        ):
            (batch,) = whole.combine_chunks().to_batches()
            expected = batch.filter(mask(where, batch)).column("k").to_pylist()
            assert sorted(table.to_arrow(where).column("k").to_pylist()) == sorted(expected), where
