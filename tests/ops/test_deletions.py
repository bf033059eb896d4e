"""Deletion vectors of a bucket: how many index files, where they lie, and which commits go together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyroaring import BitMap, BitMap64
from tests.sim.clock import FakeClock
from tests.sim.storage import MapStorage
from tests.sim.tables import NO_PARTITION, appended, commit_of, create_table, message, partition, table_schema

from bucketlake.errors import ConflictError, CorruptError, NotFoundError
from bucketlake.format.index.deletion_vector import positions_of, vector_of
from bucketlake.format.index.index_manifest import IndexEntry
from bucketlake.format.metadata.manifest import FileKind
from bucketlake.format.metadata.snapshot import CommitKind
from bucketlake.ops.rows.deletions import (
    dead_words,
    deleted_mask,
    load_deletions,
    load_vectors,
    new_vector,
    packed,
    vector_entries,
    write_vectors,
)
from bucketlake.ops.scan.scan import plan
from bucketlake.ops.table.store import Store


def store_of(bucket: int = 2, keyed: bool = False, **options: str) -> Store:
    given = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    schema = table_schema(keyed=keyed, partitioned=False, bucket=bucket, options=given)
    return create_table(MapStorage(), FakeClock(), schema)


def vectors(*names: str, rows: tuple[int, ...] = (1, 2, 300)) -> dict[str, Any]:
    return {name: vector_of(np.array(rows), bits64=False) for name in names}


def entries(files: list[Any], bucket: int = 0) -> list[IndexEntry]:
    return [IndexEntry(FileKind.ADD, NO_PARTITION, bucket, file) for file in files]


@pytest.mark.parametrize("bits64", ["false", "true"])
def test_a_bucket_has_one_index_file_whatever_its_size(bits64: str) -> None:
    store = store_of(deletion_vector__index_file__target_size="10 b", deletion_vectors__bitmap64=bits64)
    (file,) = write_vectors(store, NO_PARTITION, 1, vectors("a", "b", "c"))
    assert (file.index_type, file.row_count) == ("DELETION_VECTORS", 3)
    path = store.paths.index_path(NO_PARTITION, 1, file)
    assert path == store.paths.index(file.file_name)
    assert len(store.env.storage.read(path)) == file.file_size
    found = load_vectors(store, entries([file], 1))
    assert {name: list(one) for name, one in found.items()} == {name: [1, 2, 300] for name in "abc"}
    assert all(isinstance(one, BitMap64 if bits64 == "true" else BitMap) for one in found.values())


def test_unaware_tables_roll_index_files() -> None:
    store = store_of(bucket=-1, deletion_vector__index_file__target_size="60 b")
    files = write_vectors(store, NO_PARTITION, 0, vectors(*"abcde"))
    assert [file.row_count for file in files] == [2, 2, 1]
    assert set(load_vectors(store, entries(files))) == set("abcde")
    assert write_vectors(store, NO_PARTITION, 0, {}) == []
    assert write_vectors(store, NO_PARTITION, 0, {"a": BitMap()}) == []


def test_index_files_lie_in_the_bucket_where_the_option_says_so() -> None:
    store = store_of(index_file_in_data_file_dir="true")
    (file,) = write_vectors(store, NO_PARTITION, 1, vectors("a"))
    path = f"{store.paths.bucket_dir(NO_PARTITION, 1)}/{file.file_name}"
    assert store.env.storage.info(path) is not None
    assert list(load_vectors(store, entries([file], 1))) == ["a"]


def test_vectors_grow() -> None:
    store = store_of()
    old = new_vector(store, np.array([7, 3]))
    assert positions_of(new_vector(store, np.array([3, 1]), old)).tolist() == [1, 3, 7]
    wide = new_vector(store_of(deletion_vectors__bitmap64="true"), np.array([9]), old)
    assert isinstance(wide, BitMap64)
    assert positions_of(wide).tolist() == [3, 7, 9]


def test_masks_and_words() -> None:
    file = appended("a", sequences=(0, 129))
    vector = vector_of(np.array([0, 64, 66]), bits64=False)
    assert np.flatnonzero(deleted_mask(vector, file, "i")).tolist() == [0, 64, 66]
    assert dead_words(vector, file, "i").tolist() == [1, 5]
    assert packed(np.ones(65, np.bool_)).tolist() == [(1 << 64) - 1, 1]
    with pytest.raises(CorruptError, match="rows that the data file does not have") as caught:
        deleted_mask(vector_of(np.array([130]), bits64=False), file, "i")
    assert (caught.value.details["path"], caught.value.details["data_file"]) == ("i", "a")


def test_an_index_file_that_is_gone_or_another_is_named() -> None:
    store = store_of()
    (file,) = write_vectors(store, NO_PARTITION, 0, vectors("a"))
    path = store.paths.index(file.file_name)
    store.env.storage.write(path, b"\x02" + store.env.storage.read(path)[1:])
    with pytest.raises(CorruptError, match="unknown version") as caught:
        load_vectors(store, entries([file]))
    assert caught.value.details["path"] == path
    store.env.storage.write(path, b"")
    with pytest.raises(CorruptError):
        load_vectors(store, entries([file]))
    store.env.storage.delete(path)
    with pytest.raises(NotFoundError):
        load_vectors(store, entries([file]))


# ---- what may be committed together


def committed(store: Store) -> tuple[Any, ...]:
    """A table with the files a and b, and how to commit vectors to it."""
    commit = commit_of(store)
    total = store.schema.bucket
    commit.commit([message(appended("a"), appended("b"), part=NO_PARTITION, total=total)])

    def mark(*names: str, replacing: Any = ()) -> tuple[Any, Any]:
        files = tuple(write_vectors(store, NO_PARTITION, 0, vectors(*names, rows=(1, 2))))
        change = {"new_index_files": files, "deleted_index_files": tuple(replacing)}
        return commit.commit([message(part=NO_PARTITION, total=total, **change)]), files

    return commit, mark


@pytest.mark.parametrize("bucket", [-1, 2])
def test_vectors_are_an_overwrite_and_splits_say_where_they_lie(bucket: int) -> None:
    store = store_of(bucket)
    _, mark = committed(store)
    snapshot, (file,) = mark("a")
    assert snapshot.commit_kind is CommitKind.OVERWRITE
    (split,) = plan(store).splits
    assert list(split.deletions) == ["a"]
    assert split.raw
    assert {name: list(one) for name, one in load_deletions(store, split.deletions).items()} == {"a": [1, 2]}
    assert vector_entries(store.index_manifest(snapshot), NO_PARTITION, 0)[0].file == file
    assert vector_entries(store.index_manifest(snapshot), partition(), 0) == []


def test_a_file_has_one_vector_in_unaware_tables_too() -> None:
    store = store_of(-1)
    _, mark = committed(store)
    _, (old,) = mark("a")
    mark("b")
    with pytest.raises(ConflictError, match="deleted rows of the same file"):
        mark("a")
    mark("a", replacing=[old])
    with pytest.raises(ConflictError, match="not live any more"):
        mark("a", replacing=[old])
    assert len(store.index_manifest(store.latest_snapshot())) == 2


def test_a_bucket_takes_no_second_index_file() -> None:
    store = store_of(2)
    _, mark = committed(store)
    _, (old,) = mark("a")
    with pytest.raises(ConflictError, match="another commit wrote the index of this bucket"):
        mark("b")
    mark("a", "b", replacing=[old])
    assert len(store.index_manifest(store.latest_snapshot())) == 1


@pytest.mark.parametrize("bucket", [-1, 2])
def test_vectors_and_rewrites_of_one_file_exclude_each_other(bucket: int) -> None:
    store = store_of(bucket)
    commit, mark = committed(store)
    _, (old,) = mark("a")
    rewrite = message(part=NO_PARTITION, total=bucket, compact_before=(appended("a"),), compact_after=(appended("c"),))
    with pytest.raises(ConflictError, match="deleted rows of a file that this commit replaces"):
        commit.commit([rewrite])
    with pytest.raises(ConflictError, match="speaks of a file that is not live"):
        mark("gone", replacing=[old])


def test_a_vector_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    store = store_of(-1, deletion_vector__index_file__target_size="10 b")
    names = vectors(*"abc")
    write = store.env.storage.write
    written: list[str] = []

    def failing(path: str, data: bytes) -> None:
        if len(written) == 2:
            raise OSError("full")
        written.append(path)
        write(path, data)

    store.env.storage.write = failing  # type: ignore[method-assign]
    with pytest.raises(OSError, match="full"):
        write_vectors(store, NO_PARTITION, 0, names)
    assert len(written) == 2
    assert not any(store.env.storage.info(path) for path in written)
