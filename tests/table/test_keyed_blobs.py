"""Tables with a primary key and BLOB columns: values lie in packs, and rows point at them wherever they go."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bucketlake.catalog import Catalog
from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.format.data import descriptor
from bucketlake.ops.rows.roll import Roller
from bucketlake.schema.change import AddColumn, SetOption
from bucketlake.table import Table
from bucketlake.types.model import BYTES

KIND = pa.int8()
SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("p", pa.int32()),
        ("pic", pa.binary()),
        ("parts", pa.list_(pa.binary())),
        ("named", pa.map_(pa.string(), pa.binary())),
    ]
)
BLOBS = {"bucket": "2", "blob-field": "pic,parts,named", "blob.target-file-size": "1 kb"}


def create(catalog: Catalog, by: tuple[str, ...] = (), **options: str) -> Table:
    return catalog.create_table("db.t", SCHEMA, by, ["id", *by], options={**BLOBS, **options})


def some(*ids: int, sign: bytes = b"v", p: int = 0) -> pa.Table:
    """Nulls, values that are empty or long, lists and maps with nulls in them."""
    values = [None if number % 7 == 3 else sign * (number * 5 % 400) for number in ids]
    columns = [
        list(ids),
        [p] * len(ids),
        values,
        [
            None if number % 3 == 0 else [value, None, b""][: number % 4]
            for number, value in zip(ids, values, strict=True)
        ],
        [None if number % 4 == 0 else {"a": value, "b": sign} for number, value in zip(ids, values, strict=True)],
    ]
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), SCHEMA)


def rows(table: Table, where: str | None = None) -> list[tuple[Any, ...]]:
    return listed(table.refresh().to_arrow(where))


def listed(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.select(SCHEMA.names).sort_by("id").to_pylist()]


def packs(table: Table) -> set[str]:
    return {path.name for path in Path(table.path).rglob("*.managed.blob")}


def referred(path: Path) -> set[str]:
    """What a file beside a data file says, read as its grammar has it."""
    data = path.read_bytes()
    magic, version, count = struct.unpack_from(">IBi", data)
    assert (magic, version) == (0x50424C52, 1) and struct.unpack(">I", data[-4:])[0] == zlib.crc32(data[4:-4])
    place, texts = 9, []
    for _ in range(2 * count):
        (size,) = struct.unpack_from(">H", data, place)
        texts.append(data[place + 2 : place + 2 + size].decode())
        place += 2 + size
    assert place == len(data) - 4
    assert all(folder.startswith("file:/") for folder in texts[::2])
    return set(texts[1::2])


def pointed(table: Table) -> set[str]:
    """The packs that rows point at, by their descriptors."""
    found = table.with_options({"blob-as-descriptor": "true"}).to_arrow()
    values = [found["pic"], found["parts"].combine_chunks().flatten(), found["named"].combine_chunks().items]
    uris = set()
    for one in values:
        flat = pa.chunked_array(one.chunks if isinstance(one, pa.ChunkedArray) else [one]).combine_chunks().drop_null()
        uris |= set(descriptor.parsed(flat)[0].to_pylist())
    return {uri.rsplit("/", 1)[-1] for uri in uris}


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("vectors", ["false", "true"])
def test_values_are_written_once(catalog: Catalog, form: str, vectors: str) -> None:
    table = create(catalog, **{"file.format": form, "deletion-vectors.enabled": vectors})
    table.write_arrow(some(*range(60)))
    table.write_arrow(some(*range(40, 90), sign=b"w"))
    table.delete("id in (3, 50)")
    expected = [
        row
        for row in listed(pa.concat_tables([some(*range(40)), some(*range(40, 90), sign=b"w")]))
        if row[0] not in (3, 50)
    ]
    assert rows(table) == expected
    before = packs(table)
    assert len(before) > 20, "they roll"
    table.refresh().compact(full=True)
    assert rows(table) == expected and packs(table) == before
    table.refresh().update({"p": 5}, "id < 10")
    assert [row[2:] for row in rows(table)] == [row[2:] for row in expected]
    live = {f"{file.path}.blobref" for file in table.refresh().files()}
    told = set().union(*(referred(Path(path)) for path in live))
    assert pointed(table.refresh()) <= told <= packs(table)
    assert rows(table, "id = 41") == [row for row in expected if row[0] == 41]
    assert not table.refresh().fsck(level="rows").findings


def test_a_rescale_and_another_format_keep_the_values_where_they_are(catalog: Catalog) -> None:
    table = create(catalog)
    table.write_arrow(some(*range(50)))
    before = packs(table)
    table = table.alter(SetOption("bucket", "5"))
    table.rescale()
    assert rows(table) == listed(some(*range(50))) and packs(table) == before
    assert pointed(table.refresh()) == before


def test_many_buckets_and_partitions(catalog: Catalog) -> None:
    table = create(catalog, by=("p",), bucket="40")
    table.write_arrow(pa.concat_tables([some(*range(150)), some(*range(150, 300), p=1)]))
    assert rows(table) == listed(pa.concat_tables([some(*range(150)), some(*range(150, 300), p=1)]))
    assert all("bucket-" in str(path) and "p=" in str(path) for path in Path(table.path).rglob("*.managed.blob"))


def test_a_key_that_moves_to_another_partition_takes_its_values_along(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA, ["p"], ["id"], options={**BLOBS, "bucket": "-1"})
    table.write_arrow(some(*range(20)))
    table.write_arrow(some(*range(5), sign=b"w", p=1))
    assert rows(table) == listed(pa.concat_tables([some(*range(5), sign=b"w", p=1), some(*range(5, 20))]))


def test_descriptors_are_followed_as_rows_are_written(catalog: Catalog) -> None:
    """They may name a file of the table's own; a copy is made."""
    table = create(catalog)
    table.write_arrow(some(1, 2, 4))
    told = table.with_options({"blob-as-descriptor": "true"}).to_arrow()
    before = packs(table)
    table.write_arrow(told.set_column(0, "id", pa.array([10, 11, 12], pa.int32())))
    assert len(packs(table)) > len(before)
    assert [row[2:] for row in rows(table, "id >= 10")] == [row[2:] for row in listed(told_values(table, told))]
    outside = descriptor.of_files(pa.array(["/etc/hostname"]))
    with pytest.raises(InvalidError, match="does not let the table read"):
        table.write_arrow(pa.table({"id": [1], "p": [0], "pic": outside}))


def told_values(table: Table, told: pa.Table) -> pa.Table:
    ids = told["id"].to_pylist()
    return table.to_arrow(f"id in ({', '.join(map(str, ids))})")


def test_a_write_that_fails_leaves_no_pack(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create(catalog)

    def failing(self: Roller, batch: pa.RecordBatch) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(Roller, "write", failing)
        with pytest.raises(OSError, match="no space"):
            table.write_arrow(some(*range(30)))
    assert packs(table) == set()


def test_packs_are_no_orphans(catalog: Catalog) -> None:
    table = create(catalog)
    table.write_arrow(some(*range(30)))
    table.write_arrow(some(*range(30), sign=b"w"), mode="overwrite")
    before = packs(table)
    for path in (path for path in Path(table.path).rglob("*") if path.is_file()):
        os.utime(path, (0, 0))
    (Path(table.path) / "bucket-0" / "data-left.parquet").touch()
    os.utime(Path(table.path) / "bucket-0" / "data-left.parquet", (0, 0))
    assert table.remove_orphan_files().count == 1
    assert packs(table) == before and rows(table) == listed(some(*range(30), sign=b"w"))


@pytest.mark.parametrize(
    ("options", "keys", "error", "said"),
    [
        ({"merge-engine": "partial-update"}, ["id"], InvalidError, "only support the deduplicate merge engine"),
        ({"changelog-producer": "lookup"}, ["id"], InvalidError, "only support changelog-producer 'none'"),
        ({"sequence.field": "pic"}, ["id"], InvalidError, "cannot be sequence fields"),
        ({}, ["id", "pic"], InvalidError, "cannot be primary keys"),
        ({"bucket": "-2"}, ["id"], UnsupportedError, "bucket"),
        (
            {"data-file.external-paths": "file:///x", "data-file.external-paths.strategy": "round-robin"},
            ["id"],
            InvalidError,
            "external-paths",
        ),
    ],
)
def test_what_is_refused(
    catalog: Catalog, options: dict[str, str], keys: list[str], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        catalog.create_table("db.t", SCHEMA, primary_keys=keys, options={**BLOBS, **options})
    assert catalog.list_tables("db") == []


def test_what_would_leave_the_values_behind_is_refused(catalog: Catalog) -> None:
    table = create(catalog)
    table.write_arrow(some(1))
    with pytest.raises(UnsupportedError, match="point at their blobs by path"):
        catalog.rename_table("db.t", "db.u")
    with pytest.raises(UnsupportedError, match="point at the source's files"):
        catalog.clone_table(table, "db.u")
    with pytest.raises(InvalidError, match="changelog-producer"):
        table.alter(SetOption("changelog-producer", "lookup"))
    assert catalog.list_tables("db") == ["t"] and rows(table) == listed(some(1))


def test_a_column_that_is_added(catalog: Catalog) -> None:
    table = catalog.create_table(
        "db.t", SCHEMA.empty_table().select(["id", "p"]).schema, primary_keys=["id"], options={"bucket": "1"}
    )
    table.write_arrow(some(1, 2).select(["id", "p"]))
    table = table.alter(AddColumn("pic", BYTES, comment="__BLOB_FIELD; a picture"))
    table.write_arrow(some(2, 4).select(["id", "p", "pic"]))
    assert table.to_arrow().sort_by("id")["pic"].to_pylist() == [None, *some(2, 4)["pic"].to_pylist()]
