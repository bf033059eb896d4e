"""Tables with columns ARRAY<BLOB> and MAP<K, BLOB>: what lies in blob files, one record a row."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from tests.table.blobs import EVOLVING, SMALL, blobs, listed, rows_of

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.errors import BucketlakeError, InvalidError, UnsupportedError
from bucketlake.format.data import descriptor
from bucketlake.ops.rows import blob_columns
from bucketlake.schema.change import AddColumn, DropColumn, RenameColumn, UpdateColumnType
from bucketlake.table import Table
from bucketlake.types.model import BIGINT, BYTES, INT, STRING, DataField, DataType, Root

BLOBS = {**EVOLVING, "deletion-vectors.enabled": "true", "blob-field": "pics,parts"}
SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("name", pa.string()),
        ("pics", pa.large_list(pa.large_binary())),
        ("parts", pa.map_(pa.string(), pa.large_binary())),
    ]
)
COLUMNS = SCHEMA.names
PICS = DataType(Root.ARRAY, element=BYTES)
PARTS = DataType(Root.MAP, key=STRING, element=BYTES)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = bucketlake.open(tmp_path / "wh")
    made.create_database("db")
    return made


def some(*ids: int) -> pa.Table:
    pics = [
        None if n % 7 == 3 else [None if m % 3 == 1 else bytes([n % 256]) * (m * 20) for m in range(n % 6)] for n in ids
    ]
    parts = [None if n % 5 == 2 else [(f"k{m}", None if m == 2 else b"v" * n) for m in range(n % 4)] for n in ids]
    return pa.table([ids, [f"n{n}" for n in ids], pics, parts], SCHEMA)


def rows(table: Table, **given: Any) -> list[tuple[Any, ...]]:
    return rows_of(table, COLUMNS, **given)


def test_a_history_of_changes(catalog: Catalog) -> None:
    """Random changes against a model; small files, readers of single rows and columns."""
    table = catalog.create_table("db.t", SCHEMA, options={**BLOBS, **SMALL, "target-file-row-num": "7"})
    chance, model, free = random.Random(5), {}, 0
    for _ in range(25):
        kinds = ["insert", "insert", "update", "replace", "replace", "delete", "compact", "materialize", "reassign"]
        kind = chance.choice(kinds)
        low = chance.randrange(free + 1)
        within = f"id >= {low} and id < {low + 5}"
        own = [k for k in model if low <= k < low + 5]
        if kind == "insert" or not model:
            new = some(*range(free, free := free + chance.randrange(1, 20)))
            table.refresh().write_arrow(new)
            model.update({row[0]: row for row in listed(new)})
        elif kind == "update":
            table.refresh().update({"name": f"u{low}"}, within)
            model.update({k: (k, f"u{low}", *model[k][2:]) for k in own})
        elif kind == "replace":
            pics = chance.choice([None, [], [b"", None], [f"v{low}".encode() * 30] * 2])
            parts = chance.choice([None, [], [("a", None), ("b", b"new")]])
            both = chance.random() < 0.5
            table.refresh().update({"pics": pics, "parts": parts} if both else {"pics": pics}, within)
            model.update({k: (*model[k][:2], pics, parts if both else model[k][3]) for k in own})
        elif kind == "delete":
            table.refresh().delete(within)
            model = {k: row for k, row in model.items() if k not in own}
        elif kind == "compact":
            table.refresh().compact()
        elif kind == "materialize":
            table.refresh().materialize_deletion_vectors()
        else:
            table.refresh().reassign_row_ids()
        assert rows(table) == [model[k] for k in sorted(model)], kind
        assert rows(table, where=within) == [model[k] for k in sorted(model) if low <= k < low + 5]
        assert sorted(table.to_arrow(columns=["id"])["id"].to_pylist()) == sorted(model)
        only = table.to_arrow(columns=["parts", "id"]).sort_by("id")
        assert only["parts"].to_pylist() == [model[k][3] for k in sorted(model)]
    assert not table.refresh().fsck(level="rows").findings


def test_large_values(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are written and read one by one, among nulls and small ones, in files that each has filled."""
    monkeypatch.setattr(blob_columns, "AT_ONCE", 1 << 20)
    table = catalog.create_table("db.t", SCHEMA, options={**BLOBS, "blob.target-file-size": "1 mb"})
    pics = [[b"a" * 2_000_000, None, b"b" * 1_000_000], None, [], [b"c" * 700_000] * 2, [b"d"], [b"", b"e" * 700_000]]
    parts = [[("k", b"f" * 1_200_000), ("n", None)], [("x", b"y")], None, [], None, [("large", b"g" * 500_000)]]
    data = pa.table([range(6), ["n"] * 6, pics, parts], SCHEMA)
    table.write_arrow(data)
    assert rows(table) == listed(data)
    counted = sorted((file.file.write_cols[0], file.file.row_count) for file in blobs(table))
    assert counted == [("parts", 1), ("parts", 5), ("pics", 1), ("pics", 2), ("pics", 3)]
    table.refresh().update({"pics": [b"h" * 600_000, None, b"h" * 600_000]}, "id = 1 or id = 4")
    assert [row[2] for row in rows(table, where="id = 1 or id = 4")] == [[b"h" * 600_000, None, b"h" * 600_000]] * 2
    table.refresh().delete("id = 0")
    table.refresh().materialize_deletion_vectors()
    assert rows(table, where="id = 3 or id = 5") == [listed(data)[3], listed(data)[5]]


def test_files_are_opened_for_their_rows_alone(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA, options=BLOBS)
    table.write_arrow(some(*range(10)))
    table.refresh().write_arrow(some(*range(10, 20)))
    for file in blobs(table):
        if file.file.write_cols == ("pics",) or file.file.first_row_id == 10:
            Path(file.path).unlink()
    assert table.to_arrow(columns=["id", "name"]).num_rows == 20
    found = table.to_arrow(columns=["id", "parts"], where="id < 10").sort_by("id")
    assert found["parts"].to_pylist() == [row[3] for row in listed(some(*range(10)))]
    with pytest.raises(BucketlakeError, match=r"\.blob"):
        rows(table)


def test_other_libraries(catalog: Catalog) -> None:
    """Rows are lists and maps of binary values there, too."""
    table = catalog.create_table("db.t", SCHEMA, options=BLOBS)
    table.write_arrow(some(1, 2, 4, 8))
    expected = listed(some(1, 2, 4, 8))
    frame = table.refresh().to_polars().sort("id").collect()
    assert frame["pics"].to_list() == [row[2] for row in expected]
    connection = duckdb.connect()  # whose relations end with it in some versions
    found = table.to_duckdb(connection).select("id, pics, parts").order("id").fetchall()
    assert [row[1] for row in found] == [row[2] for row in expected]
    assert [None if row[2] is None else list(row[2].items()) for row in found] == [row[3] for row in expected]
    assert [list(one) for one in table.to_pandas().sort_values("id")["pics"] if one is not None] == [
        row[2] for row in expected if row[2] is not None
    ]


@pytest.mark.parametrize("window", [13, 40, 256])
def test_descriptors_say_where_values_lie(catalog: Catalog, monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    """However little of each end is read at first; also where descriptors are many."""
    monkeypatch.setattr(blob_columns, "_WINDOW", max(window, 17))
    monkeypatch.setattr(blob_columns, "AT_ONCE", 2000)
    monkeypatch.setattr(blob_columns, "ROWS_AT_ONCE", 7)
    table = catalog.create_table("db.t", SCHEMA, options={**BLOBS, **SMALL})
    table.write_arrow(some(*range(60)))
    many = pa.table(
        [[60], ["many"], [[bytes([n % 256]) * (n % 5) for n in range(300)]], [[(f"key{n}", b"v") for n in range(90)]]],
        SCHEMA,
    )
    table.refresh().write_arrow(many)
    described = table.with_options({"blob-as-descriptor": "true"}).to_arrow().sort_by("id")

    def followed(value: bytes | None) -> bytes | None:
        if value is None:
            return None
        (uri,), (offset,), (length,) = (list(part) for part in descriptor.parsed(pa.array([value])))
        return Path(uri.as_py().removeprefix("file:")).read_bytes()[offset : offset + length]

    found = [
        (number, name, pics and [followed(v) for v in pics], parts and [(k, followed(v)) for k, v in parts])
        for number, name, pics, parts in listed(described)
    ]
    assert found == listed(some(*range(60)), many)
    copy = described.set_column(0, SCHEMA.field("id"), pa.array(range(100, 161), pa.int32()))
    table.refresh().write_arrow(copy)
    assert [row[2:] for row in rows(table, where="id >= 100")] == [row[2:] for row in listed(some(*range(60)), many)]
    assert not table.refresh().fsck(level="rows").findings


def test_descriptors_beside_values(catalog: Catalog, tmp_path: Path) -> None:
    """Each stands for what it names; what the session does not allow is refused, and leaves nothing."""
    source = tmp_path / "allowed" / "image"
    source.parent.mkdir()
    source.write_bytes(b"0123456789")
    given = [
        descriptor.describe(str(source), np.array([at]), np.array([size]))[0].as_py()
        for at, size in ((0, -1), (2, 3), (4, 0))
    ]
    data = pa.table(
        [[1], ["n"], [[b"a", given[0], given[1], None, b"b" * 300_000, given[2]]], [[("x", given[1]), ("y", b"z")]]],
        SCHEMA,
    )
    table = catalog.create_table("db.t", SCHEMA, options=BLOBS)
    with pytest.raises(InvalidError, match="does not let the table read"):
        table.write_arrow(data)
    assert not list(Path(table.path).rglob("*.blob"))
    opened = bucketlake.open(tmp_path / "wh", {"allowed-external-paths": str(source.parent)}).table("db.t")
    opened.write_arrow(data)
    assert rows(table) == [
        (1, "n", [b"a", b"0123456789", b"234", None, b"b" * 300_000, b""], [("x", b"234"), ("y", b"z")])
    ]


def test_damaged_files(catalog: Catalog) -> None:
    """Whatever byte is changed: an error, or the rows; with descriptors, which read no value, no failure of a library."""
    table = catalog.create_table("db.t", SCHEMA, options=BLOBS)
    table.write_arrow(some(1, 2, 4, 5))
    chance, expected = random.Random(5), rows(table)
    described = table.with_options({"blob-as-descriptor": "true"})
    for file in blobs(table):
        path = Path(file.path)
        whole = path.read_bytes()
        for _ in range(80):
            data = bytearray(whole)
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            path.write_bytes(bytes(data[: chance.choice([len(data), len(data), chance.randrange(len(data))])]))
            with pytest.raises(BucketlakeError):
                assert rows(table) != expected
            try:
                described.to_arrow()
            except BucketlakeError as error:
                assert ".blob" in str(error)
        path.write_bytes(whole)
    assert rows(table) == expected


# ---------------------------------------------------------------------------------------------- schemas


def test_columns_come_and_go(catalog: Catalog) -> None:
    fields = [
        DataField(0, "id", INT),
        DataField(1, "pics", PICS, "__BLOB_FIELD; several"),
        DataField(2, "k", PARTS, "__BLOB_FIELD"),
    ]
    table = catalog.create_table("db.t", fields, options=EVOLVING)
    kinds = [item.type for item in table.schema.fields[1:]]
    assert [(kind.root, kind.element and kind.element.root) for kind in kinds] == [
        (Root.ARRAY, Root.BLOB),
        (Root.MAP, Root.BLOB),
    ]
    assert table.schema.options["blob-field"] == "pics,k"
    schema = pa.schema([("id", pa.int32()), ("pics", pa.list_(pa.binary())), ("k", pa.map_(pa.string(), pa.binary()))])
    table.write_arrow(pa.table([[1], [[b"1"]], [[("a", b"2")]]], schema))
    table.refresh().alter(AddColumn("late", PICS, "__BLOB_FIELD"), DropColumn("pics"))
    table = catalog.table("db.t")
    assert table.schema.options["blob-field"] == "k,late"
    more = pa.schema([schema.field("id"), schema.field("k"), ("late", pa.list_(pa.binary()))])
    table.write_arrow(pa.table([[2], [None], [[b"3", None]]], more))
    assert listed(table.refresh().to_arrow().sort_by("id")) == [(1, [("a", b"2")], None), (2, None, [b"3", None])]
    table.compact()
    assert listed(table.refresh().to_arrow().sort_by("id")) == [(1, [("a", b"2")], None), (2, None, [b"3", None])]
    for change in (
        RenameColumn("k", "m"),
        UpdateColumnType("late", PICS),
        UpdateColumnType("late", DataType(Root.BLOB)),
        UpdateColumnType(("k", "value"), BYTES),
        UpdateColumnType(("late", "element"), DataType(Root.BLOB)),
    ):
        with pytest.raises((InvalidError, UnsupportedError)):
            table.alter(change)
    assert not table.fsck(level="rows").findings


BLOB = DataType(Root.BLOB)


@pytest.mark.parametrize(
    ("kind", "comment", "found"),
    [
        (DataType(Root.ARRAY, element=INT), "__BLOB_FIELD", InvalidError),
        (DataType(Root.MAP, key=BYTES, element=INT), "__BLOB_FIELD", InvalidError),
        (DataType(Root.ARRAY, element=PICS), "__BLOB_FIELD", InvalidError),
        (PICS, "__BLOB_VIEW_FIELD", InvalidError),
        (PARTS, "__BLOB_DESCRIPTOR_FIELD", InvalidError),
        (DataType(Root.ARRAY, element=DataType(Root.ARRAY, element=BLOB)), None, InvalidError),
        (DataType(Root.MAP, key=INT, element=DataType(Root.MAP, key=INT, element=BLOB)), None, InvalidError),
        (DataType(Root.ROW, fields=(DataField(2, "m", BLOB),)), None, InvalidError),
        (DataType(Root.ROW, fields=(DataField(2, "m", DataType(Root.ARRAY, element=BLOB)),)), None, InvalidError),
    ],
)
def test_what_cannot_be_such_a_column(
    catalog: Catalog, kind: DataType, comment: str | None, found: type[Exception]
) -> None:
    with pytest.raises(found, match=r"BLOB"):
        catalog.create_table("db.t", [DataField(0, "id", INT), DataField(1, "x", kind, comment)], options=EVOLVING)
    assert catalog.list_tables("db") == []


def test_values_that_do_not_fit(catalog: Catalog) -> None:
    required = DataType(Root.ARRAY, element=BYTES.with_nullable(False))
    fields = [
        DataField(0, "id", INT),
        DataField(1, "x", required, "__BLOB_FIELD"),
        DataField(2, "y", DataType(Root.MAP, key=BIGINT, element=BYTES), "__BLOB_FIELD"),
    ]
    table = catalog.create_table("db.t", fields, options=EVOLVING)
    schema = pa.schema([("id", pa.int32()), ("x", pa.list_(pa.binary())), ("y", pa.map_(pa.int64(), pa.binary()))])
    with pytest.raises(InvalidError, match="x.element"):
        table.write_arrow(pa.table([[1], [[None]], [None]], schema))
    assert not list(Path(table.path).rglob("*.blob"))
    table.write_arrow(pa.table([[1], [[b"a"]], [[(-(1 << 63), b"b")]]], schema))
    assert listed(table.refresh().to_arrow()) == [(1, [b"a"], [(-(1 << 63), b"b")])]
    other = catalog.create_table(
        "db.u",
        [fields[0], DataField(1, "y", DataType(Root.MAP, key=DataType(Root.DATE), element=BYTES), "__BLOB_FIELD")],
        options=EVOLVING,
    )
    with pytest.raises(UnsupportedError, match="Unsupported key type"):
        other.write_arrow(
            pa.table([[1], [None]], pa.schema([("id", pa.int32()), ("y", pa.map_(pa.date32(), pa.binary()))]))
        )
    assert not list(Path(other.path).rglob("data-*"))
