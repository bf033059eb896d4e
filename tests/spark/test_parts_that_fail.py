"""Work cut into parts, of which one fails: no file of the others stays, whatever the error is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.sim.clock import FakeClock
from tests.sim.storage import MapStorage
from tests.sim.tables import create_table, data_file, partition, table_schema

from bucketlake.errors import CorruptError, StorageError
from bucketlake.ops.table.store import Store
from bucketlake.spark import sort_compaction
from bucketlake.spark.write import new_values

ERRORS = [RuntimeError("x"), KeyboardInterrupt(), StorageError("x", path="p"), CorruptError("x", path="p")]


def written(store: Store, name: str) -> list[Any]:
    """A data file that is there."""
    file = data_file(name)
    path = store.paths.file_path(store.paths.bucket_dir(partition(1), 0), file)
    store.env.storage.write(path, b"rows")
    return [file]


@pytest.mark.parametrize("error", ERRORS, ids=lambda one: type(one).__name__)
def test_new_values_written_here(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MapStorage()
    store = create_table(storage, FakeClock(), table_schema())
    before = set(storage.files)
    split = SimpleNamespace(partition=partition(1), bucket=0)
    parts = [SimpleNamespace(place=k, files=((k, SimpleNamespace(split=split)),), values=b"") for k in range(4)]

    def rewrite(store: Store, files: Any, values: Any) -> list[Any]:
        if files[0][0] == 2:
            raise error
        return written(store, f"f{files[0][0]}")

    monkeypatch.setattr(new_values, "rewrite_changed", rewrite)
    monkeypatch.setattr(new_values, "_opened", lambda part: iter(()))
    with pytest.raises(type(error)):
        new_values._Replacing(store, ()).here(parts)  # type: ignore[arg-type]
    assert set(storage.files) == before


@pytest.mark.parametrize("error", ERRORS, ids=lambda one: type(one).__name__)
def test_parts_sorted_by_one_task(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MapStorage()
    store = create_table(storage, FakeClock(), table_schema(keyed=False, bucket=-1))
    before = set(storage.files)
    unit = SimpleNamespace(partition=partition(1), bucket=0)
    parts = [SimpleNamespace(unit=unit, number=k, files=(k,)) for k in range(4)]

    def sort(store: Store, unit: Any, files: Any, order: Any, roller: Any) -> list[Any]:
        if files == (2,):
            raise error
        return written(store, f"f{files[0]}")

    monkeypatch.setattr(sort_compaction, "sort_files", sort)
    monkeypatch.setattr(sort_compaction, "unpickled", lambda batches: iter([parts]))
    task = sort_compaction._Sorting(store, None)  # type: ignore[arg-type]
    told = []
    try:
        told = list(task(iter(())))
    except BaseException as raised:
        assert raised is error
    assert told in ([], [error])
    assert set(storage.files) == before
