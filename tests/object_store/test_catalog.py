"""Databases and tables where there are no folders."""

from __future__ import annotations

import multiprocessing
import time
from typing import Any

import pyarrow as pa
import pytest
from tests.object_store.conftest import S3, SECRET, rows

import bucketlake
from bucketlake import AlreadyExistsError, Catalog, InvalidError, NotFoundError, StorageError
from bucketlake.schema.change import AddColumn, RenameColumn, SetOption
from bucketlake.types.model import STRING

SCHEMA = pa.schema([pa.field("k", pa.int64()), pa.field("v", pa.int64())])


def test_databases(catalog: Catalog, s3: S3) -> None:
    assert catalog.list_databases() == ["default"]
    catalog.create_database("shop")
    assert catalog.list_databases() == ["default", "shop"]
    assert catalog.list_tables("shop") == []
    with pytest.raises(AlreadyExistsError):
        catalog.create_database("shop")
    with pytest.raises(NotFoundError, match="did you mean 'shop'"):
        catalog.create_table("shp.t", SCHEMA)
    catalog.create_table("shop.t", SCHEMA)
    with pytest.raises(InvalidError, match="not empty"):
        catalog.drop_database("shop")
    catalog.drop_database("shop", cascade=True)
    assert catalog.list_databases() == ["default"]
    assert s3.keys(catalog.warehouse) == set()


def test_databases_outlive_their_last_table(catalog: Catalog, s3: S3) -> None:
    catalog.create_database("a")
    catalog.create_database("b")
    for name in ("a", "b"):  # as if Paimon had made them, whose empty folder objects go with the first file
        s3.client.delete_object(Bucket="lake", Key=f"{catalog.database_path(name)}/.folder".removeprefix("s3://lake/"))
    catalog.create_table("default.t", SCHEMA).write_arrow(pa.table({"k": [1], "v": [2]}))
    with pytest.raises(NotFoundError, match="no such database"):
        catalog.rename_table("t", "b.t")
    catalog.create_database("b")
    catalog.rename_table("t", "b.t")
    catalog.create_database("a")
    catalog.rename_table("b.t", "a.u")
    assert catalog.list_databases() == ["a", "b", "default"]
    assert rows(catalog.table("a.u")) == [(1, 2)]
    assert catalog.list_tables("b") == []
    catalog.drop_table("a.u")
    assert catalog.list_databases() == ["a", "b", "default"]
    assert catalog.list_tables("a") == []
    assert s3.keys(catalog.warehouse) == {"a.db/.folder", "b.db/.folder"}


def test_tables(catalog: Catalog, s3: S3) -> None:
    table = catalog.create_table("t", SCHEMA, primary_keys=["k"], options={"bucket": "2"})
    assert table.path == f"{catalog.warehouse}/default.db/t"
    assert catalog.list_tables() == ["t"]
    with pytest.raises(AlreadyExistsError):
        catalog.create_table("t", SCHEMA)
    catalog.create_table("t", SCHEMA, ignore_if_exists=True)
    with pytest.raises(NotFoundError, match="did you mean 't'"):
        catalog.table("tt")
    table.write_arrow(pa.table({"k": [1, 2], "v": [1, 2]}))
    catalog.create_table("taken", SCHEMA)
    with pytest.raises(AlreadyExistsError):
        catalog.rename_table("t", "taken")
    catalog.rename_table("t", "u")
    assert catalog.list_tables() == ["taken", "u"]
    assert rows(catalog.table("u")) == [(1, 1), (2, 2)]
    catalog.table("u").write_arrow(pa.table({"k": [1], "v": [3]}))
    assert rows(catalog.table("u")) == [(1, 3), (2, 2)]
    assert not any(key.startswith("default.db/t/") for key in s3.keys(catalog.warehouse))
    catalog.drop_table("u")
    catalog.drop_table("u", ignore_if_missing=True)
    with pytest.raises(NotFoundError):
        catalog.drop_table("u")
    assert catalog.list_tables() == ["taken"]


@pytest.mark.slow
def test_many_objects_are_dropped(catalog: Catalog, s3: S3) -> None:
    table = catalog.create_table("t", SCHEMA)
    storage = table.store.env.storage
    for number in range(1050):  # more than one request removes
        storage.write(f"{table.path}/bucket-0/data-{number}", b"")
    catalog.drop_table("t")
    assert s3.keys(table.path) == set()


def test_schema_changes(catalog: Catalog) -> None:
    table = catalog.create_table("t", SCHEMA, primary_keys=["k"], options={"bucket": "1"})
    table.write_arrow(pa.table({"k": [1], "v": [10]}))
    table = table.alter(AddColumn("w", STRING), RenameColumn("v", "x"))
    table.write_arrow(pa.table({"k": [2], "x": [20], "w": ["new"]}))
    assert rows(table) == [(1, 10, None), (2, 20, "new")]
    assert table.schema.id == 1


@pytest.mark.parametrize("fault", ["lose", "refuse"])
def test_answers_lost_on_creation_and_change(catalog: Catalog, s3: S3, fault: str) -> None:
    s3.fail(("/t/schema/schema-", fault, 1))
    table = catalog.create_table("t", SCHEMA)
    s3.fail(("/t/schema/schema-1", fault, 1))
    table = table.alter(AddColumn("w", STRING))
    statuses = [status for _, _, status in s3.puts("/t/schema/schema-1")]
    assert statuses == [500, 412 if fault == "lose" else 200], "the client asked again by itself"
    assert table.schema.id == 1
    assert table.schema.field_names == ("k", "v", "w")
    with pytest.raises(AlreadyExistsError):
        catalog.create_table("t", SCHEMA)


def test_changes_by_many_at_once_all_stay(catalog: Catalog) -> None:
    from concurrent.futures import ThreadPoolExecutor

    table = catalog.create_table("t", SCHEMA)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: table.alter(AddColumn(f"c{number}", STRING)), range(4)))
        made = list(pool.map(lambda _: _create(catalog), range(4)))
    assert made.count(True) == 1
    assert sorted(catalog.table("t").schema.field_names) == ["c0", "c1", "c2", "c3", "k", "v"]
    assert catalog.table("t").alter(SetOption("snapshot.num-retained.min", "3")).schema.id == 5


def _create(catalog: Catalog) -> bool:
    try:
        catalog.create_table("one", SCHEMA)
    except AlreadyExistsError:
        return False
    return True


def test_folder_objects_of_other_programs(catalog: Catalog, s3: S3) -> None:
    """Hadoop's S3A, and so Paimon, keeps an empty folder as an object `folder/`."""
    root = catalog.warehouse.removeprefix("s3://lake/")
    for folder in ("db.db/", "db.db/t/", "db.db/t/schema/", "db.db/t/bucket-0/", "db.db/t/tag/"):
        s3.client.put_object(Bucket="lake", Key=f"{root}/{folder}", Body=b"")
    assert catalog.list_databases() == ["db", "default"]
    assert catalog.list_tables("db") == []
    table = catalog.create_table("db.t", SCHEMA)
    table.write_arrow(pa.table({"k": [1], "v": [1]}))
    assert catalog.list_tables("db") == ["t"]
    storage = table.store.env.storage
    assert table.path not in [info.path for info in storage.walk(table.path)]
    assert all(info.is_dir for info in storage.list(table.path))
    catalog.rename_table("db.t", "db.u")
    assert rows(catalog.table("db.u")) == [(1, 1)]
    assert catalog.list_tables("db") == ["u"]
    with pytest.raises(StorageError, match="stands for its folder remains"):
        catalog.drop_database("db", cascade=True)
    assert catalog.list_tables("db") == []
    assert all(key.endswith("/") for key in s3.keys(catalog.warehouse))


def test_mistakes_are_told_soon(s3: S3, catalog: Catalog) -> None:
    started = time.monotonic()
    with pytest.raises(StorageError, match="NoSuchBucket"):
        bucketlake.open("s3://nowhere/wh", s3.options).list_databases()
    s3.client.put_object(Bucket="lake", Key="a-file", Body=b"x")
    with pytest.raises(InvalidError, match="warehouse is a file"):
        bucketlake.open("s3://lake/a-file", s3.options)
    assert time.monotonic() - started < 5


def _listed(options: dict[str, str], warehouse: str, answers: Any) -> None:
    try:
        answers.put(bucketlake.open(warehouse, options).list_databases())
    except Exception as error:
        answers.put(str(error))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forks_are_refused_rather_than_stuck(catalog: Catalog, s3: S3) -> None:
    catalog.list_databases()
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_listed, args=(s3.options, catalog.warehouse, answers))
    child.start()
    assert "forked" in answers.get(timeout=30)
    child.join(30)


def test_secrets_are_not_shown(catalog: Catalog) -> None:
    table = catalog.create_table("t", SCHEMA)
    for shown in (catalog, catalog.env, table, table.store):
        assert SECRET not in repr(shown)
