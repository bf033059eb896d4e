"""Clones: the same rows, vectors and indexes in another place; whatever happens on the way, no half of one is seen."""

from __future__ import annotations

import io
import shutil
import uuid
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.profile import SOAK, first, later
from tests.sim.clock import FakeClock
from tests.sim.storage import (
    FAIL_AFTER,
    FAIL_BEFORE,
    KILL_AFTER,
    KILL_BEFORE,
    FaultStorage,
    Killed,
    MapStorage,
    fault_at,
    fault_on,
)

from bucketlake import Catalog, Table
from bucketlake.catalogs.clone import Cloning
from bucketlake.env.local import LocalStorage
from bucketlake.env.object_store import ObjectStorage
from bucketlake.errors import (
    BucketlakeError,
    CorruptError,
    InvalidError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from bucketlake.ops.clone.files import CopyFiles, FileCopy
from bucketlake.schema.change import AddColumn, RenameColumn
from bucketlake.types.model import INT

SCHEMA = pa.schema([pa.field("p", pa.int32(), False), pa.field("k", pa.int64(), False), ("v", pa.string())])
KINDS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "append": ((), {}),
    "append vectors": ((), {"deletion-vectors.enabled": "true"}),
    "append buckets": ((), {"bucket": "2", "bucket-key": "k"}),
    "fixed": (("p", "k"), {"bucket": "2"}),
    "vectors": (("p", "k"), {"bucket": "2", "deletion-vectors.enabled": "true"}),
    "dynamic": (("p", "k"), {"bucket": "-1"}),
    "cross": (("k",), {"bucket": "-1"}),
    "postpone": (("p", "k"), {"bucket": "-2"}),
    "lookup": (("p", "k"), {"bucket": "1", "changelog-producer": "lookup"}),
    "index": ((), {"file-index.bloom-filter.columns": "k", "file-index.in-manifest-threshold": "1 b"}),
}


def batch(low: int, high: int, value: str = "x") -> pa.Table:
    ks = list(range(low, high))
    return pa.table({"p": [k % 2 for k in ks], "k": ks, "v": [value] * len(ks)}, schema=SCHEMA)


def make(catalog: Catalog, kind: str = "append", name: str = "db.s") -> Table:
    keys, options = KINDS[kind]
    table = catalog.create_table(name, SCHEMA, ["p"], list(keys), options)
    table.write_arrow(batch(0, 30))
    table.write_arrow(batch(20, 40, "y"))
    if kind != "postpone":
        table.delete("k IN (5, 25)")
    else:
        table.compact()
        table.write_arrow(batch(50, 53), **{"postpone.batch-write-fixed-bucket": "false"})
    return table


def rows(table: Table, **read: Any) -> list[tuple[Any, ...]]:
    found = table.to_arrow(**read)
    return sorted(tuple(row.values()) for row in found.to_pylist())


@pytest.mark.parametrize("kind", first(list(KINDS), 5))
def test_a_clone_has_the_rows_and_lives_on(catalog: Catalog, kind: str) -> None:
    source = make(catalog, kind)
    done = catalog.clone_table(source, "db.t")
    clone = catalog.table("db.t")
    assert done is not None and done.files and done.bytes
    assert rows(clone) == rows(source)
    assert clone.schema == replace(source.schema, options=clone.schema.options)
    assert not source.tags()
    expected = rows(source)
    catalog.drop_table("db.s")
    assert rows(clone) == expected
    clone.write_arrow(batch(38, 60, "z"))
    clone.delete("k = 39")
    clone.compact()
    if kind != "postpone":
        assert {(row[1], row[2]) for row in rows(clone) if row[1] >= 41} == {(k, "z") for k in range(41, 60)}
    clone.expire_snapshots(1, 1)
    assert rows(clone) == rows(catalog.table("db.t"))


@pytest.mark.parametrize("kind", first(["vectors", "append", "dynamic", "index"], 2))
def test_a_table_that_is_there_has_its_partitions_replaced(catalog: Catalog, kind: str) -> None:
    source, target = make(catalog, kind), make(catalog, kind, "db.t")
    target.write_arrow(pa.table({"p": [9], "k": [900], "v": ["own"]}, schema=SCHEMA))
    for _ in range(2):
        source.write_arrow(batch(60, 66, "more"))
        catalog.clone_table(source, "db.t", Cloning(where="p = 1"))
        assert rows(target, where="p = 1") == rows(source, where="p = 1")
        assert (9, 900, "own") in rows(target)
    catalog.clone_table(source, "db.t")
    assert rows(target) == [*rows(source), (9, 900, "own")]
    assert catalog.clone_table(source, "db.t", Cloning(if_exists=False)) is None
    target.expire_snapshots(1, 1)
    assert rows(catalog.table("db.t")) == [*rows(source), (9, 900, "own")]
    before = target.latest_snapshot()
    catalog.clone_table(source, "db.t")  # it has just been cloned
    assert target.latest_snapshot() == before


def test_keys_that_a_clone_holds_deleted_stay_elsewhere(catalog: Catalog) -> None:
    """Of a table whose keys go across partitions: only rows that come take their keys from the other partitions."""
    source, target = (catalog.create_table(name, SCHEMA, ["p"], ["k"], {"bucket": "-1"}) for name in ("db.s", "db.t"))
    source.write_arrow(pa.table({"p": [1, 1, 1], "k": [1, 2, 3], "v": ["s", "s", "s"]}, schema=SCHEMA))
    source.delete("k = 2")
    target.write_arrow(pa.table({"p": [0, 0, 0, 1], "k": [1, 2, 4, 5], "v": ["t"] * 4}, schema=SCHEMA))
    catalog.clone_table(source, "db.t")
    assert rows(target) == [(0, 2, "t"), (0, 4, "t"), (1, 1, "s"), (1, 3, "s")]


def test_a_snapshot_a_tag_a_branch_or_a_condition_may_be_chosen(catalog: Catalog) -> None:
    source = make(catalog)
    source.create_tag("first", 1)
    source.create_branch("b", "first")
    catalog.table("db.s$branch_b").write_arrow(batch(70, 72))
    clones = {
        "db.a": Cloning(scan={"scan.snapshot-id": "2"}),
        "db.b": Cloning(scan={"scan.tag-name": "first"}),
        "db.c": Cloning(where="p > 0", options={"comment.x": "y"}),
        "db.d": Cloning(meta_only=True),
    }
    for name, how in clones.items():
        catalog.clone_table(source, name, how)
    assert rows(catalog.table("db.a")) == rows(source, scan_snapshot_id=2)
    assert rows(catalog.table("db.b")) == rows(source, scan_snapshot_id=1)
    assert rows(catalog.table("db.c")) == rows(source, where="p > 0")
    assert catalog.table("db.c").options.text("comment.x") == "y"
    assert catalog.table("db.d").latest_snapshot() is None
    catalog.clone_table(catalog.table("db.s$branch_b"), "db.e")
    assert rows(catalog.table("db.e")) == rows(catalog.table("db.s$branch_b"))
    assert catalog.table("db.e").options.text("branch") in (None, "main")


def test_files_of_older_schemas_mean_what_they_meant(catalog: Catalog) -> None:
    source = make(catalog).alter(RenameColumn(("v",), "w"), AddColumn(("n",), INT))
    source.write_arrow(pa.table({"p": [1], "k": [99], "w": ["new"], "n": pa.array([7], pa.int32())}))
    other = make(catalog, name="db.other")
    catalog.clone_table(source, "db.t")
    clone = catalog.table("db.t")
    assert rows(clone) == rows(source)
    assert clone.schema.id == source.schema.id
    with pytest.raises(InvalidError, match="never had the columns"):
        catalog.clone_table(source, "db.other")
    assert rows(other) == rows(make(catalog, name="db.again"))


def test_what_is_refused(catalog: Catalog) -> None:
    source = make(catalog)
    make(catalog, "fixed", "db.pk")
    pending, target = make(catalog, "postpone", "db.pending"), make(catalog, "postpone", "db.target")
    for name, how, error in (
        ("db.pk", None, "other primary keys and bucket mode"),
        ("db.s", None, "to itself"),
        ("db.t", Cloning(where="k = 1"), "Only partition predicate"),
        ("db.t", Cloning(options={"bucket": "3"}), "how files lie"),
        ("db.t", Cloning(options={"merge-engine": "first-row"}), "Change 'merge-engine'"),  # of the same files
        ("db.t", Cloning(options={"target-file-size": "abc"}), "Could not parse value 'abc'"),
    ):
        with pytest.raises(InvalidError, match=error):
            catalog.clone_table(source, name, how)
    with pytest.raises(NotFoundError, match="no such database"):
        catalog.clone_table(source, "none.t")
    with pytest.raises(InvalidError, match="system table"):
        catalog.clone_table(catalog.table("db.s$files"), "db.t")
    with pytest.raises(UnsupportedError, match="pending"):
        catalog.clone_table(pending, target.name)
    assert not catalog.table_exists("db.t")


def test_a_file_of_another_length_is_named(catalog: Catalog) -> None:
    source = make(catalog)
    path = Path(source.files()[0].path)
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(CorruptError, match=path.name):
        catalog.clone_table(source, "db.t")
    assert not catalog.table_exists("db.t")
    assert not source.tags()
    path.unlink()
    with pytest.raises(NotFoundError, match=path.name):
        catalog.clone_table(source, "db.t")


def test_the_source_s_snapshot_is_held_while_it_is_copied(catalog: Catalog) -> None:
    source = make(catalog, "fixed")
    expected, seen = rows(source), []

    class Expiring(FaultStorage):
        def open_output(self, path: str) -> Any:
            if not seen:
                seen.append(True)
                source.compact(full=True)
                source.write_arrow(batch(0, 3, "late"))
                source.expire_snapshots(1, 1)
            return super().open_output(path)

    target = replace(catalog, env=replace(catalog.env, storage=Expiring(LocalStorage())))
    target.clone_table(source, "db.t")
    assert seen
    assert rows(catalog.table("db.t")) == expected


def test_what_was_copied_is_not_copied_again(catalog: Catalog) -> None:
    source = make(catalog)
    storage = FaultStorage(LocalStorage(), fault_on("put_if_absent", "schema-0", KILL_BEFORE))
    with pytest.raises(Killed):
        replace(catalog, env=replace(catalog.env, storage=storage)).clone_table(source, "db.t")
    assert not catalog.table_exists("db.t")
    again = FaultStorage(LocalStorage())
    replace(catalog, env=replace(catalog.env, storage=again)).clone_table(source, "db.t")
    assert not [path for operation, path in again.calls if operation == "open_output" and "bucket-" in path]
    assert rows(catalog.table("db.t")) == rows(source)


@pytest.mark.parametrize("fault", later([KILL_AFTER, FAIL_BEFORE, KILL_BEFORE, FAIL_AFTER], 2))
@pytest.mark.parametrize("there", [False, True])
def test_a_fault_at_any_step_leaves_the_old_rows_or_the_new(catalog: Catalog, fault: str, there: bool) -> None:
    source = make(catalog, "vectors")
    old: list[tuple[Any, ...]] = []
    if there:
        old = rows(make(catalog, "vectors", "db.t0"))
        catalog.table("db.t0").write_arrow(batch(100, 104))
        old = rows(catalog.table("db.t0"))
    new, path = rows(source), catalog.table_path("db.t")

    def restore() -> None:
        shutil.rmtree(path, ignore_errors=True)
        if there:
            shutil.copytree(catalog.table_path("db.t0"), path)

    restore()
    count = FaultStorage(LocalStorage())
    replace(catalog, env=replace(catalog.env, storage=count)).clone_table(source, "db.t")
    step = 1 if SOAK else 31
    start = 9 * [KILL_BEFORE, KILL_AFTER, FAIL_BEFORE, FAIL_AFTER].index(fault) % step
    for call in range(start, len(count.calls), step):
        restore()
        storage = FaultStorage(LocalStorage(), fault_at(call, fault))
        with suppress(Killed, BucketlakeError):
            replace(catalog, env=replace(catalog.env, storage=storage)).clone_table(source, "db.t")
        seen = rows(catalog.table("db.t")) if catalog.table_exists("db.t") else []
        assert seen in ([], old, new), call
        catalog.clone_table(source, "db.t")
        assert rows(catalog.table("db.t")) == new, call
        assert rows(source) == new, call


def test_a_copy_that_fails_leaves_what_another_one_has_copied() -> None:
    """Two clones copy one file to an object store. One is cut off when the other is done: the file stays."""
    target = ObjectStorage(f"memory://{uuid.uuid4().hex}")
    path = f"{target.url}/t/data-1.parquet"

    class Cut(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            target.write(path, b"whole")
            raise StorageError("the connection is cut")

    class Far(MapStorage):
        def open_input(self, path: str) -> io.BytesIO:
            return Cut()

    source = Far()
    source.files["memory://s/data-1.parquet"] = b"whole"
    with pytest.raises(StorageError, match="cut"):
        CopyFiles(source, target, FakeClock())([FileCopy("memory://s/data-1.parquet", path, 5)])
    assert target.read(path) == b"whole"
