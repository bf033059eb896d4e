"""Histories that fork: a rollback, another history in the gap, and above it what a writer put that slept meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from tests.sim.clock import FakeClock
from tests.sim.storage import MapStorage

from bucketlake.catalog import Catalog
from bucketlake.env.env import Env
from bucketlake.format.metadata.statistics import TableStatistics
from bucketlake.ops.commit.analyze import commit_statistics
from bucketlake.ops.compact.running import inline
from bucketlake.ops.key_index.key_scan import delta_since
from bucketlake.ops.rescale.rescale import RescaleRequest, rescale
from bucketlake.ops.scan.line import line
from bucketlake.ops.table.store import clear_cache
from bucketlake.table import Table

FIELDS = pa.schema([pa.field("pt", pa.int32(), False), pa.field("k", pa.int64(), False), ("v", pa.int64())])
Rows = list[tuple[int, int, int]]


def rows_of(table: Table) -> Rows:
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


def write(table: Table, *rows: tuple[int, int, int]) -> None:
    columns = list(zip(*rows, strict=True))
    table.write_arrow(
        pa.table({name: list(column) for name, column in zip(FIELDS.names, columns, strict=True)}, FIELDS)
    )


def appends(table: Table) -> None:
    for value in (21, 31):
        write(table, (1, 2, value), (1, value, value))


def replaces(table: Table) -> None:
    """The second of the two commits adds and removes no file."""
    table.write_arrow(pa.table({"pt": [1], "k": [9], "v": [9]}, FIELDS), "overwrite")
    commit_statistics(table.store, "u", TableStatistics(2, 0, merged_record_count=1))


class Fork:
    """A table whose snapshots are 1, 2b and 3b, and whose snapshot 4, which stood on 2a and 3a, comes with `back`."""

    def __init__(self, fill: Callable[[Table], None] = appends, **options: str) -> None:
        self.storage = MapStorage()
        catalog = Catalog(Env(self.storage, FakeClock()), "memory://wh")
        chosen = {"bucket": "1", "scan.manifest.parallelism": "1", "write-only": "true", **options}
        self.table = catalog.create_table("default.t", FIELDS, ["pt"], primary_keys=["pt", "k"], options=chosen)
        write(self.table, (1, 1, 10), (1, 2, 10))
        for value in (20, 30, 40):
            write(self.table, (1, 1, value), (1, value, value))
        self.lost = rows_of(self.table)
        path = self.table.store.paths.snapshot(4)
        self._path, self._stray = path, self.storage.read(path)
        for number in (4, 3, 2):
            self.storage.delete(self.table.store.paths.snapshot(number))
        clear_cache()
        fill(self.table)

    def back(self) -> None:
        assert self.storage.put_if_absent(self._path, self._stray)


def rescaled(fork: Fork) -> Rows:
    def meanwhile(tasks: object) -> object:
        if not fork.storage.info(fork._path):
            fork.back()
        return inline(tasks)

    rescale(fork.table.store, RescaleRequest(3), run=meanwhile)
    return fork.lost


def updated(fork: Fork) -> Rows:
    storage, put = fork.storage, fork.storage.put_if_absent

    def meanwhile(path: str, data: bytes) -> bool:
        if path == fork._path and not storage.info(path):
            put(path, fork._stray)
        return put(path, data)

    storage.put_if_absent = meanwhile  # type: ignore[method-assign]
    fork.table.update({"v": 99}, "v = 31")  # of which the other history has none
    return fork.lost


@pytest.mark.parametrize("change", [rescaled, updated])
def test_what_was_read_of_one_history_does_not_change_another(change: Callable[[Fork], Rows]) -> None:
    fork = Fork()
    wanted = change(fork)
    clear_cache()
    assert rows_of(fork.table) == wanted


@pytest.mark.parametrize("merges", ["30", "2"])
def test_a_line_is_what_stands_on_each_other(merges: str) -> None:
    fork = Fork(**{"manifest.merge-min-count": merges})
    store, newest = fork.table.store, fork.table.store.latest_snapshot()
    assert newest is not None and newest.id == 3
    found = line(store, 1, newest)
    assert found is not None and [step.id for step in found] == [2, 3]
    assert [step.id for step in line(store, 0, newest) or ()] == [1, 2, 3]
    fork.back()
    clear_cache()
    above = store.latest_snapshot()
    assert above is not None and above.id == 4
    assert line(store, 1, above) is None and line(store, 3, above) is None
    assert delta_since(store, 2, above) is None, "an index of keys is built anew"
    assert line(store, 4, above) == []
    fork.storage.delete(store.paths.snapshot(2))
    clear_cache()
    assert line(store, 1, newest) is None


def test_expiry_keeps_the_files_of_a_history_above_a_gap() -> None:
    fork = Fork(replaces)
    fork.back()
    clear_cache()
    fork.table.expire_snapshots(2, 2)
    clear_cache()
    assert [snapshot.id for snapshot in fork.table.snapshots()] == [3, 4]
    assert rows_of(fork.table) == fork.lost
