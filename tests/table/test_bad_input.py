"""Every kind of wrong input: the error's class, the place that it names, the remedy; and that nothing was written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from bucketlake import BucketlakeError, Catalog, CorruptError, InvalidError, NotFoundError, Table, UnsupportedError
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.change import AddColumn, SetOption, UpdateColumnType, UpdateComment
from bucketlake.table import open_table
from bucketlake.types.model import BIGINT, INT, STRING

SCHEMA = pa.schema([pa.field("pt", pa.string()), pa.field("k", pa.int32()), pa.field("v", pa.int8())])


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.create_table("t", SCHEMA, ["pt"], ["pt", "k"], {"bucket": "2"})


CREATIONS: dict[str, tuple[dict[str, Any], type[BucketlakeError], str]] = {
    "bucket-key without bucket": (
        {"options": {"bucket": "-1", "bucket-key": "k"}},
        InvalidError,
        "Cannot define 'bucket-key' with bucket = -1, please remove the 'bucket-key' setting or specify a bucket",
    ),
    "bucket without bucket-key": ({"options": {"bucket": "2"}}, InvalidError, "bucket-key"),
    "bucket-key that is no column": ({"options": {"bucket": "2", "bucket-key": "x"}}, InvalidError, "x"),
    "value that does not parse": ({"options": {"target-file-size": "big"}}, InvalidError, "target-file-size"),
    "unknown choice": ({"options": {"merge-engine": "newest"}}, InvalidError, "merge-engine"),
    "unknown file format": ({"options": {"file.format": "csv"}}, UnsupportedError, "csv"),
    "refused option": ({"options": {"commit.callbacks": "x.Y"}}, UnsupportedError, "commit.callbacks"),
    "unknown aggregate": (
        {
            "primary_keys": ["pt", "k"],
            "options": {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "count"},
        },
        InvalidError,
        "identifier 'count'",
    ),
    "aggregate of another type": (
        {
            "primary_keys": ["pt", "k"],
            "schema": pa.schema([*SCHEMA, ("s", pa.string())]),
            "options": {"bucket": "1", "merge-engine": "aggregation", "fields.s.aggregate-function": "sum"},
        },
        InvalidError,
        "Data type for sum column must be 'NumericType' but was 'STRING'",
    ),
    "no columns": ({"schema": pa.schema([]), "primary_keys": [], "partition_keys": []}, InvalidError, "no columns"),
    "partition column twice": ({"partition_keys": ["pt", "pt"]}, InvalidError, "duplicate"),
    "primary-key column twice": ({"primary_keys": ["k", "k"]}, InvalidError, "duplicate"),
    "partition column that is none": ({"partition_keys": ["x"]}, InvalidError, "partition"),
    "primary key that is no column": ({"primary_keys": ["x"]}, InvalidError, "primary key"),
    "primary key misspelled": ({"primary_keys": ["ptt", "k"]}, InvalidError, r"\[ptt, k\].*did you mean 'pt'"),
}


@pytest.mark.parametrize("case", CREATIONS)
def test_table_that_cannot_be(catalog: Catalog, case: str) -> None:
    arguments, kind, message = CREATIONS[case]
    with pytest.raises(kind, match=message):
        catalog.create_table("bad", **{"schema": SCHEMA, **arguments})
    assert not catalog.table_exists("bad")


def test_column_twice_and_key_in_two_places(catalog: Catalog) -> None:
    twice = pa.schema([pa.field("k", pa.int32()), pa.field("k", pa.int32())])
    with pytest.raises(InvalidError, match="duplicate"):
        catalog.create_table("bad", twice)
    with pytest.raises(InvalidError, match="primary key on DDL and table options"):
        catalog.create_table("bad", SCHEMA, primary_keys=["k"], options={"primary-key": "k"})
    with pytest.raises(NotFoundError, match="no such database"):
        catalog.create_table("nowhere.t", SCHEMA)


def good(**changes: Any) -> pa.Table:
    columns = {"pt": ["a"], "k": pa.array([1], pa.int32()), "v": pa.array([1], pa.int8()), **changes}
    return pa.table({name: column for name, column in columns.items() if column is not None})


WRITES: dict[str, tuple[Callable[[], pa.Table], str]] = {
    "null key": (lambda: good(k=pa.array([None], pa.int32())), r"null.*column=k.*"),
    "key column missing": (lambda: good(k=None), r"missing.*column=k"),
    "column unknown": (lambda: good(w=[1]), r"does not have.*w"),
    "column misspelled": (lambda: good(pt=None, ptt=["a"]), r"does not have.*ptt.*did you mean 'pt'"),
    "a row for columns": (lambda: {"pt": "a", "k": 1, "v": 1}, r"give a list of values for each column"),
    "wrong type": (lambda: good(v=["x"]), r"column=v"),
    "overflow": (lambda: good(v=[1000]), r"column=v"),
    "fraction": (lambda: good(k=[1.5]), r"column=k"),
}


@pytest.mark.parametrize("case", WRITES)
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_rows_that_do_not_fit(table: Table, tmp_path: Path, case: str, mode: str) -> None:
    make, message = WRITES[case]
    table.write_arrow(good())
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidError, match=message):
        table.write_arrow(make(), mode=mode)
    assert sorted(tmp_path.rglob("*")) == before
    assert table.to_arrow() == good().select(["pt", "k", "v"]).cast(table.arrow_schema)


def test_column_twice_in_the_rows(table: Table) -> None:
    arrays = [pa.array(["a"]), pa.array([1], pa.int32()), pa.array([1], pa.int8()), pa.array([2], pa.int8())]
    batch = pa.RecordBatch.from_arrays(arrays, names=["pt", "k", "v", "v"])
    with pytest.raises(InvalidError, match=r"more than once \[columns=\['v'\]"):
        table.write_arrow(batch)


CALLS: dict[str, tuple[Callable[[Table], Any], type[BucketlakeError], str]] = {
    "mode": (lambda t: t.write_arrow(good(), mode="replace"), InvalidError, "mode=replace"),
    "partition column": (lambda t: t.write_arrow(good(), partition={"k": 1}), InvalidError, "not partition columns"),
    "rows outside of the partition appended to": (
        lambda t: t.write_arrow(good(), partition={"pt": "b"}),
        InvalidError,
        "belong",
    ),
    "rows outside of the partition": (
        lambda t: t.write_arrow(good(), mode="overwrite", partition={"pt": "b"}),
        InvalidError,
        "belong",
    ),
    "projection": (lambda t: t.to_arrow(columns=["vv"]), InvalidError, "no such column.*did you mean 'v'"),
    "condition's column": (lambda t: t.to_arrow(where="x = 1"), InvalidError, "x"),
    "text without quotes": (lambda t: t.to_arrow(where="pt = Oslo"), InvalidError, "stands in quotes: 'Oslo'"),
    "texts without quotes": (lambda t: t.to_arrow(where="pt IN (Oslo, Rome)"), InvalidError, "quotes: 'Oslo'"),
    "condition's text": (lambda t: t.to_arrow(where="k = = 1"), InvalidError, "k = = 1|="),
    "condition's type": (lambda t: t.to_arrow(where="k = 'one'"), BucketlakeError, "k = 'one'"),
    "parameter": (lambda t: t.to_arrow(colums=["v"]), InvalidError, "did you mean 'columns'"),
    "option name": (lambda t: t.to_arrow(scan_snapshotid=1), InvalidError, "did you mean 'scan_snapshot_id'"),
    "option value": (lambda t: t.to_arrow(scan_snapshot_id="first"), InvalidError, "scan.snapshot-id"),
    "snapshot": (lambda t: t.to_arrow(scan_snapshot_id=7), NotFoundError, "7"),
    "tag": (lambda t: t.to_arrow(scan_tag_name="t"), NotFoundError, "Tag 't'"),
    "two times": (lambda t: t.to_arrow(scan_snapshot_id=1, scan_tag_name="t"), InvalidError, "Only one"),
    "fixed option": (lambda t: t.with_options({"bucket-key": "v"}), BucketlakeError, "bucket-key"),
    "refused option": (
        lambda t: t.write_arrow(good(), **{"commit.callbacks": "v"}),
        UnsupportedError,
        "commit.callbacks",
    ),
    "delete spec": (lambda t: t.drop_partitions([{"x": 1}]), InvalidError, "not partition columns"),
    "spec that is text": (lambda t: t.write_arrow(good(), partition="pt=a"), InvalidError, "not a partition.*'pt': …"),
    "limit that is text": (lambda t: t.expire_snapshots(retain_max="1"), InvalidError, "retain_max must be a whole"),
    "lookup of no rows": (lambda t: t.lookup([1]), InvalidError, "not rows to look up.*list of dicts"),
    "expression without Spark": (
        lambda t: t.update({"v": "v + 1"}, "k = 1"),
        InvalidError,
        r"lake\.table\(…\)\.update",
    ),
    "type that is none": (lambda t: t.alter(AddColumn("n", int)), InvalidError, "write it as text, as SQL does: 'INT'"),
    "type of no such name": (lambda t: t.alter(AddColumn("n", "INTT")), InvalidError, "unknown type INTT"),
    "no spec": (lambda t: t.drop_partitions([]), InvalidError, "cannot be empty"),
    "type change of a key": (lambda t: t.alter(UpdateColumnType("k", BIGINT)), BucketlakeError, "primary key"),
    "type change of a partition": (lambda t: t.alter(UpdateColumnType("pt", INT)), BucketlakeError, "partition"),
    "column that is there": (lambda t: t.alter(AddColumn("v", STRING)), BucketlakeError, "v"),
    "not null column": (lambda t: t.alter(AddColumn("n", INT.with_nullable(False))), InvalidError, "NOT NULL"),
    "bucket to -1": (lambda t: t.alter(SetOption("bucket", "-1")), BucketlakeError, "Cannot change bucket to -1"),
}


@pytest.mark.parametrize("case", CALLS)
def test_calls_that_cannot_be(table: Table, case: str) -> None:
    call, kind, message = CALLS[case]
    table.write_arrow(good())
    with pytest.raises(kind, match=message):
        call(table)
    assert table.refresh().schema.id == 0
    assert [snapshot.id for snapshot in table.snapshots()] == [1]


def test_path_that_is_no_table(catalog: Catalog, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no table in this folder"):
        open_table(str(tmp_path / "nothing"), catalog.env)
    catalog.create_table("near", SCHEMA)
    with pytest.raises(NotFoundError, match="this is a warehouse"):
        open_table(catalog.warehouse, catalog.env)
    with pytest.raises(NotFoundError, match=r"this is a database: .* near"):
        open_table(f"{catalog.warehouse}/default.db", catalog.env)


def test_newer_and_broken_schema_files(table: Table, catalog: Catalog) -> None:
    schema = Path(table.path) / "schema" / "schema-0"
    tree = json.loads(schema.read_text())
    schema.write_text(json.dumps({**tree, "version": 99}))
    with pytest.raises((UnsupportedError, CorruptError), match="99"):
        catalog.table("t")
    schema.write_text("{")
    with pytest.raises(CorruptError, match="schema-0"):
        catalog.table("t")


def test_broken_and_missing_files_are_named(table: Table) -> None:
    table.write_arrow(good())
    data = next(Path(table.path).rglob("data-*"))
    content = data.read_bytes()
    data.write_bytes(b"PAR1 nonsense")
    with pytest.raises(CorruptError, match=data.name):
        table.to_arrow()
    data.unlink()
    with pytest.raises(NotFoundError, match=data.name):
        table.to_arrow()
    with pytest.warns(UserWarning, match=data.name):
        assert table.to_arrow(scan_ignore_lost_files=True).num_rows == 0
    data.write_bytes(content)
    for pattern in ("manifest/manifest-*", "snapshot/snapshot-1"):
        clear_cache()
        broken = sorted(Path(table.path).glob(pattern))[0]
        kept = broken.read_bytes()
        broken.write_bytes(b"{")
        with pytest.raises(CorruptError, match=broken.name):
            table.to_arrow()
        broken.write_bytes(kept)
    clear_cache()
    assert table.to_arrow().num_rows == 1


def test_a_text_is_no_list_of_letters(catalog: Catalog) -> None:
    schema = pa.schema([("k", pa.int64()), ("day", pa.string()), ("d", pa.int64())])
    table = catalog.create_table("texts", schema, partition_keys="day", primary_keys="k, day", options={"bucket": "1"})
    assert (table.schema.partition_keys, table.schema.primary_keys) == (("day",), ("k", "day"))
    assert catalog.create_table("none", schema, "", "").schema.primary_keys == ()
    for read in (table.to_arrow, table.plan, table.to_polars):
        with pytest.raises(InvalidError, match=r"list of names .*use \['d'\]"):
            read(columns="d")


@pytest.mark.parametrize("schema", [{"k": "bigint"}, ["k"], None, "k BIGINT"], ids=str)
def test_what_is_no_schema(catalog: Catalog, schema: Any) -> None:
    with pytest.raises(InvalidError, match="not a schema .*pa.schema"):
        catalog.create_table("shapeless", schema)


@pytest.mark.parametrize(
    "options",
    [
        {"changelog-producer": "lookup", "changelog-file.format": "orc", "file.compression": "gzip"},
        {"file.format.per.level": "5:avro", "file.compression": "gzip"},
        {"file.compression.per.level": "5:brotlo"},
        {"file.format": "orc", "file.format.per.level": "0:parquet", "file.compression": "gzip"},
    ],
)
def test_files_that_a_compaction_could_not_write_are_refused_before(catalog: Catalog, options: dict[str, str]) -> None:
    table = catalog.create_table("t", SCHEMA, ["pt"], ["pt", "k"], {"bucket": "1", **options})
    with pytest.raises(UnsupportedError, match="compression is not supported in"):
        table.write_arrow(pa.table({"pt": ["a"], "k": [1], "v": [1]}))
    assert table.latest_snapshot() is None
    assert not [path for path in Path(table.path).rglob("*.*") if path.is_file() and "schema" not in path.parts]


@pytest.mark.parametrize("given", [lambda row: True, pc.field("k") == 1, {"k": 1}], ids=lambda one: type(one).__name__)
def test_a_condition_that_is_none(table: Table, given: Any) -> None:
    for call in (table.to_arrow, table.plan, table.files):
        with pytest.raises(InvalidError, match=r"not a condition \[type=\w+\]: write it as SQL"):
            call(where=given)


def test_names_that_a_lake_on_spark_has_say_what_they_are_here(catalog: Catalog, table: Table) -> None:
    for call, said in (
        (lambda: catalog.sql("SELECT 1"), "bucketlake.connect(warehouse).sql(text)"),  # type: ignore[attr-defined]
        (lambda: catalog.read_table("t"), "catalog.table(name).to_arrow()"),  # type: ignore[attr-defined]
        (lambda: table.read(), "table.to_arrow()"),  # type: ignore[attr-defined]
        (lambda: table.write([]), "table.write_arrow(rows)"),  # type: ignore[attr-defined]
        (lambda: table.overwrite([]), 'table.write_arrow(rows, mode="overwrite")'),  # type: ignore[attr-defined]
        (lambda: table.columns, "table.arrow_schema.names"),  # type: ignore[attr-defined]
        (lambda: table.primary_keys, "table.schema.primary_keys"),  # type: ignore[attr-defined]
    ):
        with pytest.raises(AttributeError, match=re.escape(f": write {said}")):
            call()
    with pytest.raises(AttributeError, match="'Catalog' object has no attribute 'nope'$"):
        catalog.nope  # type: ignore[attr-defined]


def test_partitions_are_named_by_one_spec_several_or_text(catalog: Catalog, table: Table) -> None:
    for _ in range(2):
        table.write_arrow(pa.table({"pt": ["a", "b", "c"], "k": pa.array([1, 1, 1], pa.int32())}))
    named: tuple[Any, ...] = ({"pt": "a"}, [{"pt": "b"}], "pt=c", [])
    assert [table.compact(partitions=one) is not None for one in named] == [True, True, True, False]
    assert len(table.files()) == 3
    for given in (["pt=a"], "pt", [("pt", "a")]):
        for call in (table.compact, table.rescale, table.drop_partitions):
            with pytest.raises(InvalidError, match="not a partition"):
                call(partitions=given)
    table.drop_partitions({"pt": "a"})
    assert table.partitions() == [{"pt": "b"}, {"pt": "c"}]


def test_a_number_of_buckets_is_one(table: Table) -> None:
    table.write_arrow(pa.table({"pt": ["a"], "k": pa.array([1], pa.int32())}))
    with pytest.raises(InvalidError, match="not a number of buckets.*'2'.*give a whole number"):
        table.rescale("2")  # type: ignore[arg-type]


OTHER_TYPES: dict[str, Callable[[Catalog, Table], object]] = {
    "a table's name": lambda catalog, _: catalog.table(Path("t")),
    "a database's name": lambda catalog, _: catalog.create_database(5),
    "a database to list": lambda catalog, _: catalog.list_tables(5),
    "properties of a database": lambda catalog, _: catalog.create_database("d", properties=5),
    "a comment": lambda catalog, _: catalog.create_table("new", SCHEMA, comment=5),
    "partition keys": lambda catalog, _: catalog.create_table("new", SCHEMA, 5),
    "options": lambda catalog, _: catalog.create_table("new", SCHEMA, options=["a"]),
    "an option's name": lambda catalog, _: catalog.create_table("new", SCHEMA, options={5: "a"}),
    "options of a handle": lambda _, table: table.with_options(5),
    "columns": lambda _, table: table.to_arrow(columns=5),
    "a column": lambda _, table: table.to_arrow(columns=[1]),
    "a column to set": lambda _, table: table.update({1: 2}, "k = 1"),
    "columns to look up by": lambda _, table: table.lookup(pa.table({"k": [1]}), on=5),
    "partitions": lambda _, table: table.compact(partitions=5),
    "an order": lambda _, table: table.compact(order_by=5),
    "files to rewrite": lambda _, table: table.rewrite(5),
    "a tag's name": lambda _, table: table.create_tag(5),
    "a tag's life": lambda _, table: table.create_tag("x", time_retained=5),
    "a tag's snapshot": lambda _, table: table.create_tag("x", snapshot_id="1"),
    "a version": lambda _, table: table.rollback_to_as_latest(None),
    "a branch's name": lambda _, table: table.create_branch(5),
    "an index's column": lambda _, table: table.create_global_index(5),
    "a number of buckets": lambda _, table: table.rescale(2**70),
    "a column's comment": lambda _, table: table.alter(UpdateComment("v", 5)),
    "a table's comment": lambda _, table: table.alter(UpdateComment(None, [1])),
    "a new column's name": lambda _, table: table.alter(AddColumn(5, INT)),
    "a member's name": lambda _, table: table.alter(AddColumn(["v", 5], INT)),
    "an option to set": lambda _, table: table.alter(SetOption(5, "a")),
}


@pytest.mark.parametrize("case", OTHER_TYPES)
def test_arguments_of_another_type(catalog: Catalog, table: Table, case: str) -> None:
    """A value that is no text would be written into the schema file, and nobody could open the table again."""
    table.write_arrow(pa.table({"pt": ["a"], "k": pa.array([1], pa.int32()), "v": pa.array([1], pa.int8())}))
    before = sorted(Path(catalog.warehouse).rglob("*"))
    with pytest.raises(InvalidError):
        OTHER_TYPES[case](catalog, table)
    assert sorted(Path(catalog.warehouse).rglob("*")) == before
    assert catalog.table("t").to_arrow().num_rows == 1


def test_columns_of_a_generator_and_limits_beyond_all_rows(table: Table) -> None:
    table.write_arrow(pa.table({"pt": ["a"], "k": pa.array([1], pa.int32()), "v": pa.array([1], pa.int8())}))
    assert table.to_arrow(columns=(name for name in ("k", "v"))).to_pylist() == [{"k": 1, "v": 1}]
    keys = pa.table({"pt": ["a"], "k": pa.array([1], pa.int32())})
    assert table.lookup(keys, columns=(name for name in ("v",))).to_pylist() == [{"pt": "a", "k": 1, "v": 1}]
    assert table.to_arrow(limit=2**70).num_rows == 1
