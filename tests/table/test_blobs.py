"""Tables with BLOB columns: their values lie in blob files beside the rows, which have them by their ids."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.table.blobs import EVOLVING, SMALL, blobs, listed, rows_of

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.errors import (
    BucketlakeError,
    CorruptError,
    InvalidError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from bucketlake.format.data import descriptor
from bucketlake.format.data.blob import is_blob
from bucketlake.ops.change import column_updates
from bucketlake.schema.change import AddColumn, DropColumn, RenameColumn, SetOption, UpdateColumnType
from bucketlake.table import Table
from bucketlake.types.model import BYTES, INT, DataField, DataType, Root

BLOBS = {**EVOLVING, "deletion-vectors.enabled": "true", "blob-field": "pic"}
SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string()), ("pic", pa.large_binary())])
COLUMNS = ["id", "name", "pic"]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = bucketlake.open(tmp_path / "wh")
    made.create_database("db")
    return made


def some(*ids: int) -> pa.Table:
    values = [None if number % 7 == 3 else bytes([number % 256]) * (number * 5 % 400) for number in ids]
    return pa.table({"id": ids, "name": [f"n{number}" for number in ids], "pic": values}, SCHEMA)


def rows(table: Table, **given: Any) -> list[tuple[Any, ...]]:
    return rows_of(table, COLUMNS, **given)


def without_blob_files(table: Table) -> None:
    """Whoever opens a blob file from now on fails."""
    for file in blobs(table):
        Path(file.path).unlink()


# ---------------------------------------------------------------------------------------------- rows and files


def test_rows_have_their_blobs(catalog: Catalog) -> None:
    """Files of both kinds roll by themselves; every change but that of the column itself."""
    table = catalog.create_table("db.t", SCHEMA, options={**BLOBS, **SMALL})
    table.write_arrow(some(*range(100)))
    normal = [file for file in table.refresh().files() if not is_blob(file.path)]
    assert [file.file.row_count for file in normal] == [40, 40, 20]
    assert len(blobs(table)) > 3
    assert all(file.file.write_cols == ("pic",) for file in blobs(table))
    expected = listed(some(*range(100)))
    assert rows(table) == expected
    table.write_arrow(some(*range(100, 130)))
    expected += listed(some(*range(100, 130)))
    assert rows(table) == expected
    table.refresh().update({"name": "x"}, "id < 50")
    expected = [(row[0], "x", row[2]) if row[0] < 50 else row for row in expected]
    assert rows(table) == expected
    table.refresh().delete("id >= 20 and id < 90 or id = 101")
    expected = [row for row in expected if not (20 <= row[0] < 90 or row[0] == 101)]
    assert rows(table) == expected
    before = {file.path for file in blobs(table)}
    assert table.refresh().compact() is not None
    assert {file.path for file in blobs(table)} == before
    assert rows(table) == expected
    assert len(table.files()) == len(before) + 1
    assert not table.refresh().fsck(level="rows").findings
    assert table.refresh().materialize_deletion_vectors() is not None
    assert before.isdisjoint(file.path for file in blobs(table))
    assert rows(table) == expected
    table.refresh().delete("name = 'x'")
    assert rows(table) == [row for row in expected if row[1] != "x"]
    assert not table.refresh().fsck(level="rows").findings


def test_a_history_of_changes(catalog: Catalog) -> None:
    """Random changes against a model; partitions, small files, readers of single rows and columns."""
    schema = pa.schema([*SCHEMA, ("p", pa.int32())])
    table = catalog.create_table("db.t", schema, ["p"], options={**BLOBS, **SMALL, "target-file-row-num": "7"})
    chance, model, free = random.Random(3), {}, 0
    for _ in range(25):
        kinds = ["insert", "insert", "update", "replace", "replace", "delete", "compact", "materialize", "reassign"]
        kind = chance.choice(kinds)
        low = chance.randrange(free + 1)
        within = f"id >= {low} and id < {low + 5}"
        if kind == "insert" or not model:
            ids = range(free, free := free + chance.randrange(1, 20))
            new = some(*ids).append_column("p", pa.array([number % 2 for number in ids], pa.int32()))
            table.refresh().write_arrow(new)
            model.update({row[0]: row[:3] for row in listed(new)})
        elif kind == "update":
            table.refresh().update({"name": f"u{low}"}, within)
            model.update({k: (k, f"u{low}", row[2]) for k, row in model.items() if low <= k < low + 5})
        elif kind == "replace":
            value = chance.choice([None, b"", f"v{low}".encode() * 30])
            table.refresh().update({"pic": value, "name": "r"} if chance.random() < 0.5 else {"pic": value}, within)
            new = catalog.table("db.t").to_arrow(columns=COLUMNS, where=within).to_pylist()
            assert all(row["pic"] == value for row in new)
            model.update({row["id"]: tuple(row.values()) for row in new})
        elif kind == "delete":
            table.refresh().delete(within)
            model = {k: row for k, row in model.items() if not low <= k < low + 5}
        elif kind == "compact":
            table.refresh().compact()
        elif kind == "materialize":
            table.refresh().materialize_deletion_vectors()
        else:
            table.refresh().reassign_row_ids()
        assert rows(table) == sorted(model.values()), kind
        assert rows(table, where=within) == sorted(r for r in model.values() if low <= r[0] < low + 5)
        assert rows(table, where=f"p = {low % 2}") == sorted(r for r in model.values() if r[0] % 2 == low % 2)
        assert sorted(table.to_arrow(columns=["id"])["id"].to_pylist()) == sorted(model)
    assert not table.refresh().fsck(level="rows").findings


def test_large_values(catalog: Catalog) -> None:
    """Values that are written one by one, among nulls and small ones, in files that each has filled."""
    table = catalog.create_table("db.t", SCHEMA, options={**BLOBS, "blob.target-file-size": "1 mb"})
    values = [b"a" * 3_000_000, None, b"", b"b" * 700_000, b"c" * 700_000, b"d"]
    data = pa.table({"id": range(6), "name": ["n"] * 6, "pic": values}).cast(SCHEMA)
    table.write_arrow(data)
    assert rows(table) == listed(data)
    assert [file.file.row_count for file in blobs(table)] == [1, 4, 1]
    table.refresh().update({"pic": b"e" * 600_000}, "id = 1 or id = 3 or id = 4")
    assert [row[2] for row in rows(table)] == [values[0], b"e" * 600_000, b"", *[b"e" * 600_000] * 2, b"d"]


def test_blob_files_are_opened_for_their_rows_alone(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA, options=BLOBS)
    for start in (0, 10, 20):
        table.refresh().write_arrow(some(*range(start, start + 10)))
    kept = {file.path: Path(file.path).read_bytes() for file in blobs(table)}
    without_blob_files(table)
    assert table.to_arrow(columns=["id", "name"]).num_rows == 30
    assert table.to_arrow(columns=["id"], where="name = 'n4'").num_rows == 1
    assert catalog.table("db.t$row_tracking").to_arrow(columns=["id", "_ROW_ID"]).num_rows == 30
    (second,) = (path for path, data in kept.items() if b"\x0c" * 60 in data)
    Path(second).write_bytes(kept[second])
    assert rows(table, where="id > 11 and id < 15") == listed(some(12, 13, 14))
    with pytest.raises(BucketlakeError, match=r"\.blob"):
        rows(table)


def test_new_values_lie_beside_the_old_ones(catalog: Catalog) -> None:
    """An update of the column writes the new values alone, however large the others are."""
    table = catalog.create_table("db.t", SCHEMA, options=BLOBS)
    table.write_arrow(some(*range(50)))
    without_blob_files(table)  # none of the values that are there is read
    table.refresh().update({"pic": b"new"}, "id = 7 or id = 40")
    (path,) = (file.path for file in blobs(table) if Path(file.path).exists())
    assert Path(path).stat().st_size < 2 * (3 + 16) + 50 + 5 + 10
    assert rows(table, where="id = 7 or id = 40") == [(7, "n7", b"new"), (40, "n40", b"new")]
    table.refresh().update({"pic": None}, "id = 7")
    assert rows(table, where="id = 7") == [(7, "n7", None)]


def test_updates_of_blobs_at_the_same_time(catalog: Catalog) -> None:
    """Updates of other columns stand beside one of the blobs; what looks at them is evaluated anew."""
    table = catalog.create_table("db.t", SCHEMA, options=BLOBS)
    table.write_arrow(some(1, 2))
    told: list[int] = []

    def meanwhile(change: Any) -> Any:
        def hook(*_: Any) -> None:
            if not told:
                told.append(1)
                change(catalog.table("db.t"))

        return hook

    for first, second, expected in (
        ({"pic": b"a"}, {"name": "x"}, [(1, "x", b"a"), (2, "x", b"a")]),
        ({"name": "y"}, {"pic": b"b"}, [(1, "y", b"b"), (2, "y", b"b")]),
        ({"pic": b"c"}, {"pic": b"d"}, [(1, "y", b"c"), (2, "y", b"c")]),
    ):
        told.clear()
        hook = meanwhile(lambda other, values=second: other.update(values))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(column_updates.Commit, "commit", before(column_updates.Commit.commit, hook))
            table.refresh().update(first)
        assert rows(table) == expected


def before(method: Any, hook: Any) -> Any:
    def called(*given: Any, **named: Any) -> Any:
        hook()
        return method(*given, **named)

    return called


def test_time_travel_tags_and_expiry(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA, options=BLOBS)
    table.write_arrow(some(1, 2))
    table.refresh().create_tag("first")
    table.refresh().write_arrow(some(4, 5))
    table.refresh().truncate()
    table.refresh().write_arrow(some(6))
    assert rows(table, snapshot_id=2) == listed(some(1, 2, 4, 5))
    table.refresh().expire_snapshots(retain_max=1, retain_min=1)
    assert rows(table) == listed(some(6))
    assert [tuple(r.values()) for r in table.to_arrow(scan_tag_name="first").to_pylist()] == listed(some(1, 2))
    folder = Path(table.path) / "bucket-0"
    assert len(list(folder.glob("*.blob"))) == 2
    table.refresh().delete_tag("first")
    assert len(list(folder.glob("*.blob"))) == 1
    assert not table.refresh().fsck(level="rows").findings


def test_orphans_clones_and_lost_files(catalog: Catalog, tmp_path: Path) -> None:
    table = catalog.create_table("db.t", SCHEMA, options=BLOBS)
    table.write_arrow(some(1, 2))
    table.refresh().write_arrow(some(4, 5))
    stray = Path(table.path) / "bucket-0" / "data-00000000-0000-0000-0000-000000000000-0.blob"
    shutil.copy(blobs(table)[0].path, stray)
    for path in (stray, Path(blobs(table)[0].path)):
        os.utime(path, (10**9, 10**9))
    table.refresh().remove_orphan_files(older_than="2010-01-01 00:00:00")
    assert not stray.exists()
    table.refresh().update({"pic": b"new"}, "id = 4")
    expected = [row if row[0] != 4 else (4, "n4", b"new") for row in listed(some(1, 2, 4, 5))]
    assert rows(table) == expected
    catalog.clone_table(table.refresh(), "db.copy")
    copy = catalog.table("db.copy")
    assert rows(copy) == expected
    copy.refresh().update({"pic": b"newer"}, "id = 5")
    copy.refresh().write_arrow(some(8))
    assert rows(copy) == [*expected[:3], (5, "n5", b"newer"), *listed(some(8))]
    assert not copy.refresh().fsck(level="rows").findings
    Path(min(blobs(table), key=lambda file: file.file.first_row_id).path).unlink()
    assert {finding.code for finding in table.refresh().fsck().findings} == {"data-file-missing"}
    table.refresh().repair(allow=["data-file-missing"], dry_run=False)
    assert rows(table) == expected[2:]
    table.refresh().expire_snapshots(retain_max=1, retain_min=1)
    assert not table.refresh().fsck(level="rows").findings


def test_system_tables(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA, options=BLOBS)
    table.write_arrow(some(1, 2))
    found = catalog.table("db.t$files").to_arrow().to_pylist()
    assert sorted((row["file_format"], row["record_count"], row["first_row_id"]) for row in found) == [
        ("blob", 2, 0),
        ("parquet", 2, 0),
    ]
    tracked = catalog.table("db.t$row_tracking").to_arrow(columns=["id", "pic", "_ROW_ID", "_SEQUENCE_NUMBER"])
    assert [tuple(row.values())[2:] for row in tracked.to_pylist()] == [(0, 1), (1, 1)]


def test_damaged_blob_files(catalog: Catalog) -> None:
    """Whatever byte is changed: an error, or the rows."""
    table = catalog.create_table("db.t", SCHEMA, options=BLOBS)
    table.write_arrow(some(1, 2, 3, 4))
    path, chance = Path(blobs(table)[0].path), random.Random(5)
    whole, expected = path.read_bytes(), rows(table)
    for _ in range(60):
        data = bytearray(whole)
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(bytes(data[: chance.choice([len(data), len(data), chance.randrange(len(data))])]))
        with pytest.raises(BucketlakeError):
            assert rows(table) != expected
    path.write_bytes(whole[:-9] + whole[-8:])
    with pytest.raises(CorruptError):
        rows(table)


# ---------------------------------------------------------------------------------------------- descriptors


def test_descriptors_say_where_blobs_lie(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA, options={**BLOBS, **SMALL})
    table.write_arrow(some(*range(60)))
    described = table.with_options({"blob-as-descriptor": "true"}).to_arrow().sort_by("id")
    values = dict(zip(described["id"].to_pylist(), described["pic"].to_pylist(), strict=True))
    for number, name, value in listed(some(*range(60))):
        if value is None:
            assert values[number] is None, name
            continue
        (uri,), (offset,), (length,) = (list(part) for part in descriptor.parsed(pa.array([values[number]])))
        data = Path(uri.as_py().removeprefix("file:")).read_bytes()
        assert data[offset : offset + length] == value
    copy = described.set_column(0, SCHEMA.field("id"), pa.array(range(100, 160), pa.int32()))
    table.refresh().write_arrow(copy)
    assert [row[2] for row in rows(table, where="id >= 100")] == [row[2] for row in listed(some(*range(60)))]


def test_descriptors_of_other_files(catalog: Catalog, tmp_path: Path) -> None:
    """Nothing outside is read unless the session allows it, whatever a value says."""
    table = catalog.create_table("db.t", SCHEMA, options=BLOBS)
    source = tmp_path / "allowed" / "image"
    source.parent.mkdir()
    source.write_bytes(b"0123456789")
    places = [(f"file:{source}", 0, -1), (str(source), 2, 3), (f"file://{source}", 10, -1), (str(source), 4, 0)]

    def one(*given: tuple[str, int, int]) -> pa.Table:
        made = [descriptor.describe(uri, np.array([at]), np.array([size])) for uri, at, size in given]
        pics = pa.concat_arrays(made).cast(pa.large_binary())
        return pa.table({"id": range(len(given)), "name": ["n"] * len(given), "pic": pics}).cast(SCHEMA)

    for uri in (str(source), "file:/etc/passwd", "s3://bucket/key", "http://host/x", f"{table.path}/../../x", "", "x"):
        with pytest.raises(InvalidError, match="does not let the table read"):
            table.refresh().write_arrow(one((uri, 0, -1)))
    opened = bucketlake.open(tmp_path / "wh", {"allowed-external-paths": str(source.parent)}).table("db.t")
    for place in ((str(source), 8, 3), (str(source), 11, -1)):
        with pytest.raises(InvalidError, match="does not have"):
            opened.refresh().write_arrow(one(place))
    with pytest.raises(BucketlakeError, match="nothing"):
        opened.refresh().write_arrow(one((f"{source.parent}/nothing", 0, -1)))
    link = source.parent / "link"
    link.symlink_to("/etc/passwd")
    with pytest.raises(CorruptError):
        opened.refresh().write_arrow(one((str(link), 0, -1)))
    assert rows(table) == []
    assert not list(Path(table.path).rglob("*.blob"))
    opened.refresh().write_arrow(one(*places))
    assert [row[2] for row in rows(table)] == [b"0123456789", b"234", b"", b""]


MISSING, FAILED = "blob-write-null-on-missing-file", "blob-write-null-on-fetch-failure"


@pytest.mark.parametrize("kind", ["BLOB", "ARRAY"])
@pytest.mark.parametrize(
    ("given", "null_for"), [((), ()), ((MISSING,), (1,)), ((FAILED,), (1, 2)), ((MISSING, FAILED), (1, 2))]
)
def test_null_for_what_cannot_be_read(
    catalog: Catalog, tmp_path: Path, given: tuple[str, ...], null_for: tuple[int, ...], kind: str
) -> None:
    """A file that is not there, and one that cannot be opened: what is no failure, but not allowed, is no null."""
    source = tmp_path / "allowed" / "image"
    source.parent.mkdir()
    source.write_bytes(b"0123456789")
    schema = SCHEMA if kind == "BLOB" else SCHEMA.set(2, pa.field("pic", pa.list_(pa.binary())))
    catalog.create_table("db.t", schema, options={**BLOBS, **dict.fromkeys(given, "true")})
    opened = bucketlake.open(tmp_path / "wh", {"allowed-external-paths": str(source.parent)}).table("db.t")

    def written(*uris: str, length: int = -1) -> list[Any]:
        one = [descriptor.describe(uri, np.array([0]), np.array([length]))[0].as_py() for uri in uris]
        pics = one if kind == "BLOB" else [[value, b"x"] for value in one]
        opened.refresh().write_arrow(pa.table([range(len(uris)), ["n"] * len(uris), pics], schema))
        found = [row["pic"] for row in opened.refresh().to_arrow().sort_by("id").to_pylist()]
        opened.refresh().truncate()
        return found if kind == "BLOB" else [row[0] for row in found]

    def fails(*_: Any, **__: Any) -> Any:
        raise StorageError("the storage is away")

    for case, uris in ((1, (str(source), f"{source.parent}/nothing")), (2, (str(source),))):
        with pytest.MonkeyPatch.context() as patch:
            if case == 2:
                patch.setattr("bucketlake.ops.rows.described.Sources._pieces", fails)
            if case in null_for:
                with pytest.warns(UserWarning, match="null for a blob of column pic"):
                    assert written(*uris) == ([b"0123456789", None] if case == 1 else [None])
            else:
                with pytest.raises(NotFoundError if case == 1 else StorageError):
                    written(*uris)
    for uri in ("file:/etc/passwd", "http://host/x"):
        with pytest.raises(InvalidError, match="does not let the table read"):
            written(uri)
    with pytest.raises(InvalidError, match="does not have"):
        written(str(source), length=11)


def test_no_null_where_none_may_be(catalog: Catalog) -> None:
    fields = [DataField(0, "id", INT), DataField(1, "pic", BYTES.with_nullable(False), "__BLOB_FIELD")]
    table = catalog.create_table("db.t", fields, options={**EVOLVING, MISSING: "true"})
    gone = descriptor.describe(f"{table.path}/gone", np.array([0]), np.array([-1])).cast(pa.binary())
    schema = pa.schema([("id", pa.int32()), pa.field("pic", pa.binary(), nullable=False)])
    with pytest.raises(InvalidError, match="Cannot write null to non-null column"):
        table.write_arrow(pa.table([pa.array([1], pa.int32()), gone], schema))
    assert not list(Path(table.path).rglob("*.blob"))


# ---------------------------------------------------------------------------------------------- schemas


def test_columns_become_blobs_by_their_comment(catalog: Catalog) -> None:
    fields = [
        DataField(0, "id", INT),
        DataField(1, "a", BYTES, " __BLOB_FIELD; a picture "),
        DataField(2, "b", BYTES, "__BLOB_FIELD"),
        DataField(3, "c", BYTES, "a __BLOB_FIELD"),
    ]
    table = catalog.create_table("db.t", fields, options=EVOLVING)
    assert [(f.type.root, f.description) for f in table.schema.fields[1:]] == [
        (Root.BLOB, "a picture"),
        (Root.BLOB, None),
        (Root.VARBINARY, "a __BLOB_FIELD"),
    ]
    assert table.schema.options["blob-field"] == "a,b"
    schema = pa.schema([("id", pa.int32()), ("a", pa.binary()), ("b", pa.binary()), ("c", pa.binary())])
    table.write_arrow(pa.table({"id": [1], "a": [b"1"], "b": [b"2"], "c": [b"3"]}, schema))
    table.alter(AddColumn("d", BYTES, "__BLOB_FIELD; late"), DropColumn("a"))
    table = catalog.table("db.t")
    assert table.schema.options["blob-field"] == "b,d"
    more = pa.schema([("id", pa.int32()), ("b", pa.binary()), ("c", pa.binary()), ("d", pa.binary())])
    table.write_arrow(pa.table({"id": [2], "b": [None], "c": [b"6"], "d": [b"7"]}, more))
    assert [tuple(row.values()) for row in table.refresh().to_arrow().sort_by("id").to_pylist()] == [
        (1, b"2", b"3", None),
        (2, None, b"6", b"7"),
    ]
    table.compact()
    assert table.refresh().to_arrow(columns=["d"], where="id = 2").to_pylist() == [{"d": b"7"}]
    assert not table.fsck(level="rows").findings


@pytest.mark.parametrize(
    ("kind", "comment", "options", "found"),
    [
        (BYTES, "__BLOB_FIELDS", {}, InvalidError),
        (BYTES, "__BLOB_VIEW_FIELD", {}, UnsupportedError),
        (BYTES, "__VECTOR_FIELD;3", {}, InvalidError),
        (INT, "__BLOB_FIELD", {}, InvalidError),
        (INT, None, {"blob-field": "x"}, InvalidError),
        (BYTES, None, {"blob-field": "y"}, InvalidError),
        (BYTES, None, {"blob-descriptor-field": "y"}, InvalidError),
        (INT, None, {"blob-descriptor-field": "x"}, InvalidError),
        (BYTES, None, {"blob-view-field": "x"}, UnsupportedError),
        (BYTES, None, {"blob-field": "x", "data-evolution.enabled": "false"}, InvalidError),
        (BYTES, None, {"blob-field": "x", "blob-descriptor.source-table": "db.s"}, UnsupportedError),
    ],
)
def test_what_cannot_be_a_blob_column(
    catalog: Catalog, kind: DataType, comment: str | None, options: dict[str, str], found: type[Exception]
) -> None:
    fields = [DataField(0, "id", INT), DataField(1, "x", kind, comment)]
    with pytest.raises(found):
        catalog.create_table("db.t", fields, options={**EVOLVING, **options})
    assert catalog.list_tables("db") == []


def test_where_blobs_cannot_be(catalog: Catalog) -> None:
    only = pa.schema([("pic", pa.binary())])
    with pytest.raises(InvalidError, match="other normal columns"):
        catalog.create_table("db.t", only, options=BLOBS)
    with pytest.raises(InvalidError, match="partition keys"):
        catalog.create_table("db.t", SCHEMA, ["pic"], options=BLOBS)
    table = catalog.create_table("db.t", SCHEMA, options=BLOBS)
    table.write_arrow(some(1))
    table.refresh()
    for change in (
        RenameColumn("pic", "p"),
        UpdateColumnType("pic", BYTES),
        UpdateColumnType("name", DataType(Root.BLOB)),
    ):
        with pytest.raises(InvalidError, match="BLOB"):
            table.alter(change)
    with pytest.raises(InvalidError, match="blob-field"):
        table.alter(SetOption("blob-field", "name"))
    with pytest.raises(UnsupportedError, match="blob-view-field"):
        table.alter(AddColumn("x", BYTES, "__BLOB_VIEW_FIELD"))
    assert rows(table) == listed(some(1))


def test_a_failed_write_leaves_no_file(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA, options={**BLOBS, **SMALL})

    def batches() -> Any:
        yield from some(*range(200)).to_batches(max_chunksize=50)
        raise RuntimeError("the source is gone")

    with pytest.raises(RuntimeError):
        table.write_arrow(batches())
    assert not [path for path in Path(table.path).rglob("*.*") if path.suffix in (".blob", ".parquet")]
    assert rows(table) == []
