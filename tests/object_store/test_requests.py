"""How often a store is asked: each request waits for an answer."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, BinaryIO

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.object_store.conftest import S3, rows
from tests.sim.clock import FakeClock
from tests.sim.storage import MapStorage

import bucketlake
from bucketlake import Catalog, Table
from bucketlake.env.env import Env
from bucketlake.env.storage import FileInfo
from bucketlake.errors import CorruptError, NotFoundError
from bucketlake.schema.change import AddColumn
from bucketlake.spark.session import Lake
from bucketlake.sql import FRONT
from bucketlake.types.model import INT

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
KINDS: dict[str, Mapping[str, Any]] = {
    "append": {},
    "keyed": {"primary_keys": ["k"], "options": {"bucket": "1", "write-only": "true"}},
    "dynamic": {"primary_keys": ["k"]},
}


def of_files(catalog: Catalog, kind: str, count: int = 12) -> Table:
    """A table of so many small files of two rows."""
    table = catalog.create_table("t", SCHEMA, **KINDS[kind])
    for number in range(count):
        table.write_arrow(pa.table({"k": [number, number + 1], "v": [str(number)] * 2}, schema=SCHEMA))
    return table


def expected(kind: str, count: int = 12) -> list[tuple[Any, ...]]:
    given = [(number + more, str(number)) for number in range(count) for more in (0, 1)]
    return sorted(given if kind == "append" else list(dict(given).items()))


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_a_small_file_is_one_request(kind: str, catalog: Catalog, s3: S3) -> None:
    table = of_files(catalog, kind)
    assert rows(table) == expected(kind)
    s3.fail()
    assert rows(table) == expected(kind)
    looks = s3.looks(table.path)
    assert len([look for look in looks if look.startswith("bucket-0/")]) == 12
    others = sorted(look for look in looks if not look.startswith("bucket-0/"))
    assert others == ["snapshot/LATEST", "snapshot/snapshot-12", "snapshot/snapshot-13"]


def test_what_a_commit_has_written_is_not_read_after_it(catalog: Catalog, s3: S3) -> None:
    table = of_files(catalog, "keyed", 2)
    s3.fail()
    table.write_arrow(pa.table({"k": [0], "v": ["new"]}, schema=SCHEMA))
    assert [look for look in s3.looks(table.path) if look.startswith("manifest/")] == []
    assert rows(table) == [(0, "new"), (1, "1"), (2, "1")]


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_files_that_are_gone(kind: str, catalog: Catalog, s3: S3) -> None:
    """One of several that are asked for at once: told where it is read, or passed over where the table says so."""
    table = of_files(catalog, kind, 1)
    (gone,) = [file.path for file in table.files()]
    for number in (1, 2, 3):
        table.write_arrow(pa.table({"k": [number, number + 1], "v": [str(number)] * 2}, schema=SCHEMA))
    table.store.env.storage.delete(gone)
    with pytest.raises(NotFoundError, match="data file is gone"):
        table.to_arrow()
    if kind == "append":
        passing = bucketlake.open(catalog.warehouse, s3.options).table("t")
        with pytest.warns(UserWarning, match="left out"):
            found = rows(passing.with_options({"scan.ignore-lost-files": "true"}))
        assert found == [row for row in expected(kind, 4) if row[1] != "0"]


def test_parts_of_objects(catalog: Catalog, s3: S3) -> None:
    """Ranges that reach beyond an object's end, begin behind it, or are of an empty one."""
    storage, path = catalog.env.storage, f"{catalog.warehouse}/some"
    storage.write(path, b"abcdef")
    storage.write(f"{path}-empty", b"")
    asked = [(0, 3), (4, 100), (6, 1), (100, 1), (0, 0), (2, None), (9, None)]
    assert [storage.read(path, *part) for part in asked] == [b"abc", b"ef", b"", b"", b"", b"cdef", b""]
    assert storage.read(f"{path}-empty", 0, 64) == storage.read(f"{path}-empty", 5) == b""
    for name, content in ((path, b"abcdef"), (f"{path}-empty", b"")):
        with storage.open_input(name) as opened:
            assert opened.read() == content
    for part in ((0, 64), (3, 0), (0, 0)):
        with pytest.raises(NotFoundError):
            storage.read(f"{path}-gone", *part)
    with pytest.raises(NotFoundError):
        storage.open_input(f"{path}-gone")


def test_long_objects(catalog: Catalog) -> None:
    """Their last bytes come with their size; all others when they are asked for."""
    storage, path = catalog.env.storage, f"{catalog.warehouse}/long"
    content = bytes(range(256)) * 4096
    storage.write(path, content)
    with storage.open_input(path) as opened:
        for place in (len(content) - 10, 0, len(content) - (1 << 18) - 3, len(content) // 2, len(content) - 1):
            opened.seek(place)
            assert opened.read(300_000) == content[place : place + 300_000]


class AtOnce(MapStorage):
    """A look at a file waits until others come, too."""

    barrier: threading.Barrier | None = None

    def info(self, path: str) -> FileInfo | None:
        self.look()
        return super().info(path)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        if "/snapshot/" in path:
            self.look()
        return super().read(path, offset, length)

    def look(self) -> None:
        if self.barrier is not None:
            self.barrier.wait(30)


def test_tables_are_looked_for_at_once() -> None:
    storage = AtOnce()
    catalog = Catalog(Env(storage, FakeClock()), "s3://bucket/wh")
    names = [f"t{number}" for number in range(8)]
    for name in names:
        catalog.create_table(name, SCHEMA)
    storage.barrier = threading.Barrier(4)
    assert catalog.metastore.tables("default") == names
    storage.barrier = None
    assert catalog.table("sys.tables").to_arrow(columns=["table_name"]).column(0).to_pylist() == names


def test_the_newest_snapshot_is_asked_for_beside_its_hint() -> None:
    storage = AtOnce()
    table = Catalog(Env(storage, FakeClock()), "s3://bucket/wh").create_table("t", SCHEMA)
    table.write_arrow(pa.table({"k": [1], "v": ["a"]}, schema=SCHEMA))
    storage.barrier = threading.Barrier(3)
    assert table.store.latest_snapshot_id() == 1


def test_a_hint_that_others_moved_is_followed() -> None:
    """The process knows what the hint was; the snapshot of that name may be damaged, gone, or not the newest."""
    storage, others = AtOnce(), AtOnce()
    others.files = storage.files
    mine = Catalog(Env(storage, FakeClock()), "s3://bucket/wh").create_table("t", SCHEMA)
    theirs = Catalog(Env(others, FakeClock(1)), "s3://bucket/wh").table("t")
    row = pa.table({"k": [1], "v": ["a"]}, schema=SCHEMA)
    mine.write_arrow(row)
    for number in range(2, 6):
        theirs.write_arrow(row)
        assert mine.store.latest_snapshot_id() == number
    theirs.write_arrow(row)
    storage.files[mine.store.paths.snapshot(5)] = b"damaged"
    assert mine.store.latest_snapshot_id() == 6
    theirs.write_arrow(row)
    del storage.files[mine.store.paths.snapshot(6)]
    assert mine.store.latest_snapshot_id() == 7
    storage.files[mine.store.paths.snapshot(7)] = b"damaged"
    with pytest.raises(CorruptError):
        mine.store.latest_snapshot()


class Meeting(MapStorage):
    """What is asked of some files waits until as many others are asked for, each once."""

    def __init__(self) -> None:
        super().__init__()
        self.meetings: dict[tuple[str, ...], threading.Barrier] = {}

    def meet(self, *parts: str) -> None:
        """From now on, requests for paths with these parts go on when all of them are there."""
        self.meetings[parts] = threading.Barrier(len(parts))

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        self._wait(path)
        return super().read(path, offset, length)

    def open_input(self, path: str) -> BinaryIO:
        self._wait(path)
        return super().open_input(path)

    def list(self, path: str) -> list[FileInfo]:
        self._wait(path)
        return super().list(path)

    def write(self, path: str, data: bytes) -> None:
        self._wait(path)
        super().write(path, data)

    def _wait(self, path: str) -> None:
        for parts, barrier in self.meetings.items():
            if any(part in path for part in parts):
                barrier.wait(30)


def test_what_a_snapshot_names_is_written_at_once() -> None:
    storage = Meeting()
    table = Catalog(Env(storage, FakeClock()), "s3://bucket/wh").create_table("t", SCHEMA, **KINDS["dynamic"])
    storage.meet("/manifest/manifest-list", "/manifest/manifest-list", "/manifest/manifest-", "/manifest/index-")
    table.write_arrow(pa.table({"k": [1], "v": ["a"]}, schema=SCHEMA))
    assert rows(table) == [(1, "a")]


def test_whether_a_table_was_altered_or_replaced_is_asked_at_once() -> None:
    storage = Meeting()
    table = Catalog(Env(storage, FakeClock()), "s3://bucket/wh").create_table("t", SCHEMA)
    table.write_arrow(pa.table({"k": [1], "v": ["a"]}, schema=SCHEMA))
    storage.meet("/schema/schema-0", "/schema/schema-1")
    assert table.store.latest_schema() == table.schema


def test_the_newest_schema_is_asked_for_beside_the_list() -> None:
    storage, others = Meeting(), MapStorage()
    others.files = storage.files
    catalog = Catalog(Env(storage, FakeClock()), "s3://bucket/wh")
    catalog.create_table("t", SCHEMA)
    assert catalog.table("t").schema.id == 0
    storage.meet("/t/schema", "/schema/schema-0")
    assert catalog.table("t").schema.id == 0
    storage.meetings.clear()
    theirs = Catalog(Env(others, FakeClock(1)), "s3://bucket/wh")
    theirs.table("t").alter(AddColumn(("w",), INT))
    assert [catalog.table("t").schema.id for _ in range(2)] == [1, 1]
    theirs.drop_table("t")
    theirs.create_table("t", pa.schema([("other", pa.int64())]))
    assert catalog.table("t").arrow_schema.names == ["other"]


@pytest.mark.parametrize("other", ["disjoint", "overlapping"])
def test_small_files_of_a_merge_are_asked_for_ahead(other: str) -> None:
    storage = Meeting()
    table = Catalog(Env(storage, FakeClock()), "s3://bucket/wh").create_table("t", SCHEMA, **KINDS["keyed"])
    wide = 10 if other == "disjoint" else 15
    for number in range(8):
        keys = range(10 * number, 10 * number + wide)
        table.write_arrow(pa.table({"k": keys, "v": [str(number)] * wide}, schema=SCHEMA))
    storage.meet(*["/bucket-0/data-"] * 8)
    assert rows(table) == [(key, str(min(key // 10, 7))) for key in range(70 + wide)]


class OpenedAtOnce(MapStorage):
    """The look at a table's first schema, and the list of its schemas, wait until others are asked for."""

    barrier: threading.Barrier | None = None

    def info(self, path: str) -> FileInfo | None:
        if self.barrier is not None and path.endswith("/schema/schema-0"):
            self.barrier.wait(30)
        return super().info(path)

    def list(self, path: str) -> list[FileInfo]:
        if self.barrier is not None and path.endswith("/schema"):
            self.barrier.wait(30)
        return super().list(path)


@pytest.mark.spark
def test_tables_of_a_query_are_opened_at_once(classic_session: SparkSession) -> None:
    storage = OpenedAtOnce()
    lake = Lake(classic_session, Catalog(Env(storage, FakeClock()), "s3://bucket/wh"), FRONT)
    for name in "abcd":
        lake.catalog.create_table(name, SCHEMA)
    storage.barrier = threading.Barrier(4)
    joined = lake.sql("SELECT count(*) FROM a JOIN b USING (k) JOIN c USING (k) JOIN d USING (k) JOIN a AS e USING (k)")
    assert [tuple(row) for row in joined.collect()] == [(0,)]
