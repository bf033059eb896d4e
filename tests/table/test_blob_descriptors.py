"""Columns of descriptors ('blob-descriptor-field'): files of the table's format say where blobs lie, reads follow it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.errors import BucketlakeError, InvalidError, NotFoundError, UnsupportedError
from bucketlake.format.data import descriptor
from bucketlake.format.data.blob import is_blob
from bucketlake.ops.rows import blob_columns
from bucketlake.schema.change import AddColumn, DropColumn, RenameColumn, UpdateColumnType
from bucketlake.table import Table
from bucketlake.types.model import BYTES, INT, DataField, DataType, Root

OPTIONS = {
    **{"row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"},
    **{"compaction.min.file-num": "2", "blob-descriptor-field": "pic"},
}
SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string()), ("pic", pa.large_binary())])


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A folder of blobs beside the warehouse: many in one file, one in a file of its own."""
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "all").write_bytes(b"".join(value_of(number) for number in range(100)))
    (folder / "one").write_bytes(b"a whole file")
    return folder


def value_of(number: int) -> bytes:
    return bytes([number]) * (number % 9)


@pytest.fixture
def catalog(tmp_path: Path, images: Path) -> Catalog:
    made = bucketlake.open(tmp_path / "wh", {"allowed-external-paths": str(images)})
    made.create_database("db")
    return made


def described(images: Path, *ids: int) -> pa.Table:
    """Rows with descriptors: null for some, the whole file for some."""
    starts = np.concatenate([[0], np.cumsum([len(value_of(number)) for number in range(100)])])
    values = []
    for number in ids:
        if number % 7 == 3:
            values.append(None)
        elif number % 7 == 5:
            values.append(one(images / "one"))
        else:
            values.append(one(images / "all", int(starts[number]), len(value_of(number))))
    return pa.table([ids, [f"n{number}" for number in ids], values], SCHEMA)


def one(path: Path | str, offset: int = 0, length: int = -1) -> bytes:
    found: bytes = descriptor.describe(str(path), np.array([offset]), np.array([length]))[0].as_py()
    return found


def expected(*ids: int) -> list[tuple[Any, ...]]:
    values = {3: lambda _: None, 5: lambda _: b"a whole file"}
    return [(number, f"n{number}", values.get(number % 7, value_of)(number)) for number in ids]


def rows(table: Table, **given: Any) -> list[tuple[Any, ...]]:
    found = table.refresh().to_arrow(columns=SCHEMA.names, **given)
    return [tuple(row.values()) for row in found.sort_by("id").to_pylist()]


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_descriptors_stay_what_they_are(
    catalog: Catalog, images: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blob_columns, "AT_ONCE", 100)
    table = catalog.create_table("db.t", SCHEMA, options={**OPTIONS, "file.format": form})
    table.write_arrow(described(images, *range(50)))
    table.refresh().write_arrow(described(images, *range(50, 60)))
    assert not any(is_blob(file.path) for file in table.refresh().files())
    assert rows(table) == expected(*range(60))
    assert rows(table, where="id > 20 and id < 25") == expected(21, 22, 23, 24)
    assert rows(table, where="pic = X'0A'") == [row for row in expected(*range(60)) if row[2] == b"\x0a"]
    assert [row[0] for row in rows(table, where="pic IS NULL")] == [n for n in range(60) if n % 7 == 3]
    assert rows(table, where="name = 'n4' or pic = X'0A'") == [
        r for r in expected(*range(60)) if r[1] == "n4" or r[2] == b"\x0a"
    ]
    stored = table.with_options({"blob-as-descriptor": "true"}).to_arrow(columns=SCHEMA.names).sort_by("id")
    assert stored["pic"].to_pylist() == described(images, *range(60))["pic"].to_pylist()
    table.refresh().update({"name": "x"}, "id < 10")
    table.refresh().update({"pic": one(images / "one")}, "id = 1 or id = 3")
    table.refresh().delete("pic = X'0A'")
    gone = {row[0] for row in expected(*range(60)) if row[2] == b"\x0a"}
    left = [
        (n, "x" if n < 10 else name, b"a whole file" if n in (1, 3) else pic) for n, name, pic in expected(*range(60))
    ]
    left = [row for row in left if row[0] not in gone]
    assert rows(table) == left
    stored = table.refresh().with_options({"blob-as-descriptor": "true"}).to_arrow(columns=["id", "pic"])
    for work in (table.refresh().compact, table.refresh().materialize_deletion_vectors):
        work()
        assert rows(table) == left
        again = table.refresh().with_options({"blob-as-descriptor": "true"}).to_arrow(columns=["id", "pic"])
        assert sorted(map(str, again.to_pylist())) == sorted(map(str, stored.to_pylist()))
    assert not table.refresh().fsck(level="rows").findings


def test_nobody_reads_a_file_that_is_not_asked_for(catalog: Catalog, images: Path) -> None:
    table = catalog.create_table("db.t", SCHEMA, options=OPTIONS)
    table.write_arrow(described(images, *range(20)))
    (images / "one").unlink()
    assert table.refresh().to_arrow(columns=["id", "name"]).num_rows == 20
    assert rows(table, where="id < 5") == expected(*range(5))
    for options in ({}, {"scan.ignore-lost-files": "true", "scan.ignore-corrupt-files": "true"}):
        with pytest.raises(InvalidError, match="not there"):
            table.refresh().with_options(options).to_arrow()
    assert table.with_options({"blob-as-descriptor": "true"}).to_arrow().num_rows == 20
    table.refresh().update({"name": "y"}, "id = 5")
    table.refresh().compact()
    table.refresh().delete("id = 5 or id = 12 or id = 19")
    table.refresh().materialize_deletion_vectors()
    assert rows(table) == expected(*[n for n in range(20) if n % 7 != 5])


def test_what_is_stored_is_a_descriptor(catalog: Catalog, images: Path) -> None:
    table = catalog.create_table("db.t", SCHEMA, options=OPTIONS)
    message = "BLOB inline fields configured by blob-descriptor-field or blob-view-field require values to be"
    view = b"\1" + (0x424C4F4256494557).to_bytes(8, "little") + b"rest"
    for value, error in ((b"raw", InvalidError), (b"", InvalidError), (view, UnsupportedError)):
        with pytest.raises(error, match=message if error is InvalidError else "views"):
            table.write_arrow(pa.table([[1], ["n"], [value]], SCHEMA))
    table.write_arrow(described(images, 1, 2))
    with pytest.raises(InvalidError, match=message):
        table.refresh().update({"pic": b"raw"}, "id = 1")
    assert rows(table) == expected(1, 2)
    assert not list(Path(table.path).rglob("*.blob"))


def test_what_a_read_may_follow(catalog: Catalog, images: Path, tmp_path: Path) -> None:
    """A table may say anything of where its blobs lie: nothing outside is read, whoever wrote it."""
    table = catalog.create_table("db.t", SCHEMA, options=OPTIONS)
    (tmp_path / "secret").write_bytes(b"secret")
    (images / "link").symlink_to(tmp_path / "secret")
    for uri in (tmp_path / "secret", "file:/etc/passwd", "http://host/x", f"{images}/../secret", images / "link", ""):
        table.refresh().write_arrow(pa.table([[1], ["n"], [one(uri)]], SCHEMA))
        with pytest.raises(BucketlakeError) as raised:
            rows(table)
        assert "secret'" not in str(raised.value) and not isinstance(raised.value, NotFoundError)
        assert table.to_arrow(columns=["id"]).num_rows == 1
        table.refresh().truncate()
    size = (images / "all").stat().st_size
    for offset, length in ((size, 1), (size + 1, -1), (0, size + 1), (1 << 61, 1 << 61)):
        table.refresh().write_arrow(pa.table([[1], ["n"], [one(images / "all", offset, length)]], SCHEMA))
        with pytest.raises(InvalidError, match="does not have"):
            rows(table)
        table.refresh().truncate()
    other = bucketlake.open(tmp_path / "wh").table("db.t")
    table.refresh().write_arrow(described(images, 1))
    with pytest.raises(InvalidError, match="does not let the table read"):
        rows(other)


def test_null_for_files_that_are_not_there(catalog: Catalog, images: Path) -> None:
    table = catalog.create_table("db.t", SCHEMA, options={**OPTIONS, "blob-write-null-on-missing-file": "true"})
    data = pa.table([range(4), ["n"] * 4, [one(images / "no"), None, one(images / "one"), one(images / "no")]], SCHEMA)
    with pytest.warns(UserWarning, match="null for a blob of column pic"):
        table.write_arrow(data)
    assert [row[2] for row in rows(table)] == [None, None, b"a whole file", None]
    (images / "one").unlink()
    table.refresh().update({"name": "m"}, "id = 2")
    table.refresh().compact()
    stored = table.refresh().with_options({"blob-as-descriptor": "true"}).to_arrow().sort_by("id")
    assert stored["pic"].to_pylist() == [None, None, one(images / "one"), None]


def test_damaged_descriptors(catalog: Catalog, images: Path) -> None:
    """Whatever of a descriptor is changed: an error of ours, or bytes of what may be read."""
    table = catalog.create_table("db.t", SCHEMA, options={**OPTIONS, "file.compression": "none"})
    chance, good = random.Random(3), one(images / "all", 5, 20)
    for _ in range(60):
        data = bytearray(good)
        data[chance.randrange(9, len(data))] ^= 1 << chance.randrange(8)
        value = bytes(data[: chance.choice([len(data), len(data), chance.randrange(9, len(data))])])
        try:
            table.refresh().write_arrow(pa.table([[1], ["n"], [value]], SCHEMA))
            assert len(rows(table)) == 1
        except BucketlakeError:
            pass
        table.refresh().truncate()


def test_both_kinds_beside_each_other(catalog: Catalog, images: Path) -> None:
    fields = [
        DataField(0, "id", INT),
        DataField(1, "own", BYTES, "__BLOB_FIELD"),
        DataField(2, "pic", BYTES, "__BLOB_DESCRIPTOR_FIELD; elsewhere"),
    ]
    options = {key: value for key, value in OPTIONS.items() if key != "blob-descriptor-field"}
    table = catalog.create_table("db.t", fields, options=options)
    assert [item.type.root for item in table.schema.fields] == [Root.INT, Root.BLOB, Root.BLOB]
    assert (table.schema.options["blob-field"], table.schema.options["blob-descriptor-field"]) == ("own", "pic")
    assert [item.name for item in table.schema.blob_fields] == ["own"]
    schema = pa.schema([("id", pa.int32()), ("own", pa.binary()), ("pic", pa.binary())])
    table.write_arrow(
        pa.table([[1, 2, 3], [b"a", None, b"c"], [one(images / "one"), one(images / "all", 1, 2), None]], schema)
    )
    whole = [(1, b"a", b"a whole file"), (2, None, b"\2\2"), (3, b"c", None)]

    def found(**given: Any) -> list[tuple[Any, ...]]:
        data = table.refresh().to_arrow(columns=["id", "own", "pic"], **given)
        return [tuple(row.values()) for row in data.sort_by("id").to_pylist()]

    assert found() == whole
    table.refresh().update({"own": b"new"}, "pic = X'0202'")
    assert found() == [whole[0], (2, b"new", b"\2\2"), whole[2]]
    table.refresh().delete("own = X'61'")
    table.refresh().materialize_deletion_vectors()
    assert found() == [(2, b"new", b"\2\2"), whole[2]]
    table.refresh().alter(AddColumn("late", BYTES, "__BLOB_DESCRIPTOR_FIELD"), DropColumn("pic"))
    table = catalog.table("db.t")
    assert table.schema.options["blob-descriptor-field"] == "late"
    assert table.to_arrow()["late"].to_pylist() == [None, None]
    for change in (
        RenameColumn("late", "m"),
        UpdateColumnType("late", BYTES),
        UpdateColumnType("late", DataType(Root.BLOB)),
    ):
        with pytest.raises(InvalidError, match="BLOB"):
            table.alter(change)


def test_the_older_name_of_the_option(catalog: Catalog, images: Path) -> None:
    options = {key: value for key, value in OPTIONS.items() if key != "blob-descriptor-field"}
    table = catalog.create_table("db.t", SCHEMA, options={**options, "blob.stored-descriptor-fields": "pic"})
    table.write_arrow(described(images, 1, 5))
    assert rows(table) == expected(1, 5)
    table.refresh().alter(AddColumn("more", BYTES, "__BLOB_DESCRIPTOR_FIELD"))
    assert catalog.table("db.t").schema.options["blob-descriptor-field"] == "pic,more"
