"""Appends and overwrites of every extent, defaults, deletes, what is returned."""

from __future__ import annotations

import datetime
import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.errors import AlreadyExistsError, InvalidError, StorageError
from bucketlake.format.metadata.snapshot import CommitKind
from bucketlake.table import Table, open_table
from bucketlake.types.model import DataField
from bucketlake.types.parse import parse_type_text

Rows = list[tuple[Any, ...]]
UTC = datetime.timezone.utc
SCHEMA = pa.schema([pa.field("dt", pa.date32()), pa.field("hh", pa.int32()), pa.field("k", pa.int64())])
MONDAY, TUESDAY = datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)


@pytest.fixture(params=["keyed", "append"])
def table(catalog: Catalog, request: pytest.FixtureRequest) -> Table:
    keyed = request.param == "keyed"
    options = {"bucket": "2"} if keyed else {"bucket": "-1"}
    made = catalog.create_table("t", SCHEMA, ["dt", "hh"], ["dt", "hh", "k"] if keyed else [], options)
    made.write_arrow(data((MONDAY, 1, 10), (MONDAY, 2, 20), (TUESDAY, 1, 30), (None, None, 40) if not keyed else None))
    return made


def data(*content: tuple[Any, ...] | None) -> pa.Table:
    kept = [row for row in content if row is not None]
    columns = list(zip(*kept, strict=True)) if kept else [[], [], []]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], names=SCHEMA.names)


def numbers(table: Table) -> list[int]:
    return sorted(table.to_arrow(columns=["k"]).column(0).to_pylist())


def kept(table: Table, *expected: int) -> bool:
    """Whether these are the rows, besides the one in the null partition of append tables."""
    return [number for number in numbers(table) if number != 40] == list(expected)


def test_append_says_what_it_did(table: Table) -> None:
    snapshot = table.write_arrow(data((MONDAY, 1, 11)))
    assert snapshot is not None
    assert (snapshot.commit_kind, snapshot.delta_record_count) == (CommitKind.APPEND, 1)
    assert table.write_arrow(data()) is None
    assert table.write_arrow(iter(())) is None


def test_null_partition_is_one_of_its_own(catalog: Catalog) -> None:
    made = catalog.create_table("n", SCHEMA, ["dt", "hh"])
    made.write_arrow(data((None, None, 40), (MONDAY, None, 50)))
    assert made.to_arrow(where="dt IS NULL").to_pylist() == [{"dt": None, "hh": None, "k": 40}]
    assert [file.partition["hh"] for file in made.files()] == ["__DEFAULT_PARTITION__"] * 2
    made.drop_partitions([{"dt": None}])
    assert numbers(made) == [50]


def test_dynamic_overwrite_replaces_what_the_rows_lie_in(table: Table) -> None:
    snapshot = table.write_arrow(data((MONDAY, 1, 11), (TUESDAY, 2, 31)), mode="overwrite")
    assert snapshot is not None and snapshot.commit_kind is CommitKind.OVERWRITE
    assert kept(table, 11, 20, 30, 31)
    assert table.write_arrow(data(), mode="overwrite") is None
    assert kept(table, 11, 20, 30, 31)


def test_static_overwrite_of_a_whole_and_of_a_partial_partition(table: Table) -> None:
    table.write_arrow(data((MONDAY, 1, 11)), mode="overwrite", partition={"dt": MONDAY, "hh": 1})
    assert kept(table, 11, 20, 30)
    table.write_arrow(data((MONDAY, 3, 12)), mode="overwrite", partition={"dt": MONDAY})
    assert kept(table, 12, 30)
    table.write_arrow(data(), mode="overwrite", partition={"dt": MONDAY})
    assert kept(table, 30)


def test_fixed_partition_columns_may_be_left_out(table: Table) -> None:
    table.write_arrow(pa.table({"k": [12]}), mode="overwrite", partition={"dt": "2024-01-01", "hh": 1})
    assert kept(table, 12, 20, 30)
    table.write_arrow(pa.table({"k": [13], "hh": pa.array([5], pa.int32())}), partition={"dt": MONDAY})
    assert table.to_arrow(where="hh = 5").to_pylist() == [{"dt": MONDAY, "hh": 5, "k": 13}]


def test_whole_table_overwrite(table: Table) -> None:
    table.write_arrow(data((TUESDAY, 9, 1)), mode="overwrite", dynamic_partition_overwrite=False)
    assert numbers(table) == [1]
    table.write_arrow(data(), mode="overwrite", **{"dynamic-partition-overwrite": "false"})
    assert numbers(table) == []


def test_unpartitioned_overwrite_is_of_the_whole_table(catalog: Catalog) -> None:
    made = catalog.create_table("u", SCHEMA)
    for number in (1, 2):
        made.write_arrow(data((MONDAY, 1, number)), mode="overwrite")
    assert numbers(made) == [2]
    made.write_arrow(data(), mode="overwrite")
    assert numbers(made) == []


def test_truncate_and_drop_partitions(table: Table) -> None:
    table.drop_partitions([{"hh": 1}, {"dt": "2024-01-09", "hh": 2}])
    assert kept(table, 20)
    snapshot = table.truncate()
    assert snapshot.total_record_count == 0
    assert numbers(table) == []


def test_rows_come_in_any_order_of_columns_and_kind_of_source(table: Table) -> None:
    more = data((MONDAY, 7, 70)).select(["k", "dt", "hh"])
    table.write_arrow(more.to_batches()[0])
    table.write_arrow(
        pa.RecordBatchReader.from_batches(more.schema, data((MONDAY, 7, 71)).select(more.schema.names).to_batches())
    )
    table.write_arrow(batch for batch in data((MONDAY, 7, 72)).to_batches())
    assert sorted(table.to_arrow(where="hh = 7", columns=["k"]).column(0).to_pylist()) == [70, 71, 72]


def test_column_defaults_replace_nulls_and_fill_absent_columns(catalog: Catalog) -> None:
    fields = [
        DataField(0, "k", parse_type_text("BIGINT")),
        DataField(1, "n", parse_type_text("INT"), default="7"),
        DataField(2, "s", parse_type_text("STRING"), default="'none'"),
    ]
    made = catalog.create_table("d", fields)
    made.write_arrow(pa.table({"k": [1], "n": pa.array([None], pa.int32()), "s": ["x"]}))
    made.write_arrow(pa.table({"k": [2]}))
    assert sorted(tuple(r.values()) for r in made.to_arrow().to_pylist()) == [(1, 7, "x"), (2, 7, "none")]


def test_deletes_by_metadata_alone_truncate(catalog: Catalog) -> None:
    made = catalog.create_table("t", SCHEMA, partition_keys=["dt"])
    made.write_arrow(data((MONDAY, 1, 1), (TUESDAY, 1, 2)))
    for where, left in (("dt = '2024-01-02'", [1]), ("true", [])):
        snapshot = made.delete(where)
        assert snapshot is not None and snapshot.operation == "TRUNCATE"
        assert numbers(made) == left


def test_delete_by_value_and_by_key(catalog: Catalog) -> None:
    made = catalog.create_table("t", SCHEMA, primary_keys=["k"], options={"bucket": "2"})
    made.write_arrow(data(*[(MONDAY, number % 3, number) for number in range(9)]))
    snapshot = made.delete("hh = 1")
    assert snapshot is not None and snapshot.operation == "DELETE"
    assert numbers(made) == [0, 2, 3, 5, 6, 8]
    assert made.delete("k = 77") is None
    made.delete("k IN (0, 2)")
    made.write_arrow(data((TUESDAY, 1, 2)))
    assert numbers(made) == [2, 3, 5, 6, 8]


def test_limit_and_batches(table: Table) -> None:
    assert table.to_arrow(limit=2).num_rows == 2
    assert table.to_arrow(limit=0).num_rows == 0
    assert table.to_arrow(where="k > 15", limit=100).num_rows == table.to_arrow(where="k > 15").num_rows
    assert sum(batch.num_rows for batch in table.to_batches(columns=[])) == len(numbers(table))
    assert table.to_arrow(columns=["hh", "dt"]).schema.names == ["hh", "dt"]


def test_result_has_the_table_s_schema_even_if_empty(catalog: Catalog) -> None:
    made = catalog.create_table("e", SCHEMA, primary_keys=["k"], options={"bucket": "1"})
    assert made.to_arrow().schema == made.arrow_schema
    assert made.to_arrow(columns=["k"]).schema.field("k").nullable is False
    assert made.partitions() == [] and made.files() == [] and made.snapshots() == []


def test_partitions_are_listed_as_sql_writes_them(table: Table) -> None:
    """A date was the number of its folder's name, 19723."""
    listed = table.partitions()
    assert {"dt": "2024-01-01", "hh": "2"} in listed
    assert len(listed) in (3, 4)
    table.drop_partitions(listed[0])
    assert table.partitions() == listed[1:]


def test_commit_user_prefix(table: Table) -> None:
    snapshot = table.write_arrow(data((MONDAY, 1, 1)), commit_user_prefix="etl")
    assert snapshot is not None and snapshot.commit_user.startswith("etl_")


def test_sequence_numbers_grow_across_overwrites_if_asked(catalog: Catalog) -> None:
    options = {"bucket": "1", "write.sequence-number-init-mode": "snapshot"}
    made = catalog.create_table("t", SCHEMA, primary_keys=["k"], options=options)
    for number in range(3):
        made.write_arrow(data((MONDAY, 1, number), (MONDAY, 1, number + 1)))
    made.truncate()
    made.write_arrow(data((MONDAY, 1, 9)))
    assert [file.file.min_sequence_number for file in made.files()] == [6]
    made.write_arrow(data((MONDAY, 1, 8)), mode="overwrite")
    assert [file.file.min_sequence_number for file in made.files()] == [7]


def test_bucket_of_another_process_is_refused_at_the_commit(catalog: Catalog) -> None:
    made = catalog.create_table("t", SCHEMA, primary_keys=["k"], options={"bucket": "1"})
    stale = replace(made)
    made.write_arrow(data((MONDAY, 1, 1)))
    wider = replace(made.schema, options={**made.schema.options, "bucket": "4"})
    from bucketlake.ops.table.store import Store

    late = Table(Store.of(made.store.env, made.path, wider), "t")
    with pytest.raises(InvalidError, match="new bucket num 4"):
        late.write_arrow(data((MONDAY, 1, 2)))
    assert numbers(stale) == [1]


# ---- options that name files


NAMES = {
    "data-file.prefix": "mine-",
    "changelog-file.prefix": "changed-",
    "file.suffix.include.compression": "true",
}


def test_options_of_a_call_name_the_files_that_it_writes(tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("p", pa.string(), nullable=False)])
    made = catalog.create_table("t", schema, ["p"], ["p", "k"], {"bucket": "1", "changelog-producer": "input"})
    data = pa.table({"k": [1], "p": ["a"]}, schema=schema)
    made.write_arrow(data)
    made.with_options(NAMES).write_arrow(data)
    open_table(made.path, made.store.env, options=NAMES).write_arrow(data)
    files = sorted(file.name for file in Path(made.path).glob("p=a/bucket-0/*"))
    assert [name.split("-")[0] for name in files] == ["changed", "changed", "changelog", "data", "mine", "mine"]
    assert [".zst." in name for name in files] == [True, True, False, False, True, True]
    assert made.to_arrow().num_rows == 1


@pytest.mark.parametrize("key", ["data-file.path-directory", "index-file-in-data-file-dir"])
def test_options_that_fix_where_data_lies_are_no_call_s(tmp_path: Path, key: str) -> None:
    made = bucketlake.open(tmp_path).create_table("t", pa.schema([("k", pa.int64())]), [], [], {})
    with pytest.raises(InvalidError, match="not supported yet"):
        made.with_options({key: "true"})


def test_options_stand_in_one_place(tmp_path: Path) -> None:
    store = bucketlake.open(tmp_path).create_table("t", pa.schema([("k", pa.int64())]), [], [], {}).store
    changed = store.with_options({"data-file.prefix": "x-", "branch": "b"})
    assert changed.options.raw == changed.schema.options == changed.paths.options
    assert changed.paths.meta_root.endswith("/branch/branch-b")
    assert store.with_options({}).paths == store.paths


def test_defaults_of_nested_types_fill_nulls_and_absent_columns(tmp_path: Path) -> None:
    fields = [
        DataField(0, "k", parse_type_text("INT")),
        DataField(1, "l", parse_type_text("ARRAY<STRING>"), default="[a, b]"),
        DataField(2, "m", parse_type_text("MAP<STRING, INT>"), default="{x -> 1}"),
        DataField(3, "at", parse_type_text("TIMESTAMP(3) WITH LOCAL TIME ZONE")),
    ]
    made = bucketlake.open(tmp_path).create_table("default.n", fields)
    made.write_arrow(pa.table({"k": [1]}))
    made.write_arrow(pa.table({"k": [2, 3], "l": [None, ["c"]]}))
    found = made.to_arrow().sort_by("k").to_pydict()
    assert found["l"] == [["a", "b"], ["a", "b"], ["c"]]
    assert found["m"] == [[("x", 1)]] * 3


def test_a_default_that_is_no_value_is_refused_where_a_row_needs_it(tmp_path: Path) -> None:
    made = bucketlake.open(tmp_path).create_table(
        "default.n", [DataField(0, "k", parse_type_text("INT")), DataField(1, "v", parse_type_text("INT"))]
    )
    schema = Path(made.path) / "schema" / "schema-0"
    schema.write_text(schema.read_text().replace('"id" : 1,', '"id" : 1, "defaultValue" : "(SELECT 1)",'))
    made = made.refresh()
    made.write_arrow(pa.table({"k": [1], "v": [2]}))
    for rows in (pa.table({"k": [1]}), pa.table({"k": [1], "v": pa.array([None], pa.int32())})):
        with pytest.raises(InvalidError, match=r"Unsupported default value.*column=v"):
            made.write_arrow(rows)
    assert made.to_arrow().num_rows == 1


def test_members_that_a_row_does_not_have_are_refused(tmp_path: Path) -> None:
    kind = parse_type_text("ROW<a STRING, b INT>")
    made = bucketlake.open(tmp_path).create_table("default.n", [DataField(0, "r", kind)])
    made.write_arrow(pa.table({"r": [{"b": 1, "a": "x"}]}))
    with pytest.raises(InvalidError, match=r"r\.c"):
        made.write_arrow(pa.table({"r": [{"a": "x", "b": 1, "c": 2}]}))
    assert made.to_arrow().to_pydict() == {"r": [{"a": "x", "b": 1}]}


def test_nulls_that_become_a_partition_by_default_are_numbered_in_it(tmp_path: Path) -> None:
    """A row's partition is known only once the defaults are in: its sequence number goes on there."""
    kinds = {"k": "INT", "v": "INT", "pt": "STRING"}
    fields = [DataField(i, name, parse_type_text(kind)) for i, (name, kind) in enumerate(kinds.items())]
    fields[2] = replace(fields[2], default="'a'")
    options = {"bucket": "1", "write-only": "true"}
    made = bucketlake.open(tmp_path).create_table("n", fields, ["pt"], ["pt", "k"], options)
    for value in range(3):
        made.write_arrow(pa.table({"k": [1], "v": [value], "pt": ["a"]}))
    made.write_arrow(pa.table({"k": [1], "v": [9], "pt": pa.array([None], pa.string())}))
    assert made.to_arrow().to_pydict() == {"k": [1], "v": [9], "pt": ["a"]}


def test_partitions_of_bytes_that_are_text(catalog: Catalog) -> None:
    schema = pa.schema([pa.field("day", pa.binary()), pa.field("k", pa.int64())])
    made = catalog.create_table("b", schema, ["day"], [], {"bucket": "-1", "partition.legacy-name": "false"})
    made.write_arrow(pa.table({"day": [b"2021", b"2022", None], "k": [1, 2, 3]}, schema=schema))
    assert {file.path.split("/")[-3] for file in made.files()} == {"day=2021", "day=2022", "day=__DEFAULT_PARTITION__"}
    made.write_arrow(pa.table({"day": [b"2022"], "k": [4]}, schema=schema), mode="overwrite", partition={"day": "2022"})
    found = made.to_arrow().sort_by("k").to_pydict()
    assert found == {"day": [b"2021", None, b"2022"], "k": [1, 3, 4]}
    assert made.to_arrow(where="day = X'32303232'")["k"].to_pylist() == [4]
    with pytest.raises(InvalidError, match="not UTF-8"):
        made.write_arrow(pa.table({"day": [b"\xff"], "k": [5]}, schema=schema))


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        ("TIMESTAMP WITH LOCAL TIME ZONE", datetime.datetime(2025, 1, 1, tzinfo=UTC), datetime.datetime(2025, 1, 1)),
        ("TIMESTAMP_NTZ", datetime.datetime(2025, 1, 1), datetime.datetime(2025, 1, 1, tzinfo=UTC)),
        ("DATE", MONDAY, datetime.datetime(2024, 1, 1, 5)),
        ("INT", 5, 5.5),
        ("STRING", "5", 5),
    ],
)
def test_what_is_no_value_of_a_partition_column_is_refused_before_anything_is_done(
    catalog: Catalog, kind: str, right: Any, wrong: Any
) -> None:
    fields = [DataField(0, "id", parse_type_text("INT")), DataField(1, "p", parse_type_text(kind))]
    made = catalog.create_table("t", fields, ["p"])
    rows = pa.table({"id": pa.array([1], pa.int32())})
    for mode in ("append", "overwrite"):
        with pytest.raises(InvalidError, match="not a value of its partition column.*column=p") as raised:
            made.write_arrow(rows, mode=mode, partition={"p": wrong})
        assert (raised.value.remedy is not None) is ("TIMESTAMP" in kind)
    assert made.write_arrow(rows, partition={"p": right}) is not None
    with pytest.raises(InvalidError, match="not a value of its partition column"):
        made.drop_partitions([{"p": wrong}])  # it would match nothing, and nothing would be dropped
    assert made.to_arrow().num_rows == 1
    made.drop_partitions([{"p": right}])
    assert made.to_arrow().num_rows == 0


@pytest.mark.parametrize("text", ["2025-01-01 00:00:00Z", "2025-01-01T00:00", "2025-01-01 02:00:00+02:00"])
def test_a_moment_is_dropped_by_any_of_its_texts(catalog: Catalog, text: str) -> None:
    fields = [DataField(0, "id", parse_type_text("INT")), DataField(1, "p", parse_type_text("TIMESTAMP_LTZ"))]
    made = catalog.create_table("t", fields, ["p"])
    made.write_arrow(pa.table({"id": pa.array([1], pa.int32())}), partition={"p": "2025-01-01 00:00:00Z"})
    made.drop_partitions([{"p": text}])
    assert made.to_arrow().num_rows == 0


def test_the_text_none_is_no_null(catalog: Catalog) -> None:
    made = catalog.create_table("t", pa.schema([("id", pa.int32()), ("p", pa.string())]), ["p"])
    made.write_arrow(pa.table({"id": pa.array([1, 2], pa.int32()), "p": [None, "None"]}))
    made.drop_partitions([{"p": "None"}])
    assert made.to_arrow().to_pylist() == [{"id": 1, "p": None}]
    made.drop_partitions([{"p": "__DEFAULT_PARTITION__"}])
    assert made.to_arrow().num_rows == 0


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="files are known by their descriptors")
def test_a_disk_that_is_full_at_the_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was published for certain: the storage's error is told, what was written is gone, as it takes room."""
    catalog = bucketlake.open(tmp_path)
    catalog.create_database("db")
    columns = pa.schema([("id", pa.int64())])
    table = catalog.create_table("db.t", columns, options={"commit.max-retries": "1", "commit.min-retry-wait": "1 ms"})
    first = table.write_arrow([{"id": 1}])
    before = sorted(path for path in (tmp_path / "db.db" / "t").rglob("*"))
    synced = os.fsync

    def full(file: int) -> None:
        if "/.snapshot-" in os.readlink(f"/proc/self/fd/{file}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        synced(file)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        table.write_arrow([{"id": 2}])
    monkeypatch.undo()
    assert sorted(path for path in (tmp_path / "db.db" / "t").rglob("*")) == before
    assert table.latest_snapshot() == first
    table.write_arrow([{"id": 3}])
    assert sorted(table.to_arrow().column("id").to_pylist()) == [1, 3]


def test_a_disk_that_is_full_at_a_new_branch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that was made for its first file took its name, and fsck called it a dead branch."""
    catalog = bucketlake.open(tmp_path)
    catalog.create_database("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]))
    synced = os.fsync

    def full(file: int) -> None:
        if "/branch-side/." in os.readlink(f"/proc/self/fd/{file}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        synced(file)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="No space left"):
            table.create_branch("side")
    assert table.branches() == []
    Path(table.path, "branch", "branch-side", "schema").mkdir(parents=True)  # of a writer that died there
    table.create_branch("side")
    assert table.branches() == ["side"] and table.fsck().findings == ()
    with pytest.raises(AlreadyExistsError):
        table.create_branch("side")
