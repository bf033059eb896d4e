"""Consumers, tags and snapshots that Apache Paimon writes in place, emptied first, while they are read here."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sim.clock import FakeClock
from tests.sim.storage import MapStorage

from bucketlake.catalog import Catalog
from bucketlake.env.env import Env
from bucketlake.errors import CorruptError
from bucketlake.ops.check.fault import LEVELS
from bucketlake.ops.check.fsck import FsckRequest, fsck
from bucketlake.ops.clean.consumers import needed_by_consumers, place_of_consumer
from bucketlake.table import Table

from .streams import SCHEMA, rows_of


def _made(clock: FakeClock) -> Table:
    catalog = Catalog(Env(MapStorage(), clock), "/wh")
    table = catalog.create_table("t", SCHEMA)
    for key in range(2):
        table.write_arrow(rows_of(table, k=key, v=0))
    table.create_tag("t")
    table.store.env.storage.write(table.store.paths.consumer("c"), b'{\n  "nextSnapshot" : 2\n}')
    return table


@pytest.mark.parametrize("left", [b"", b'{\n  "'])
@pytest.mark.parametrize("which", ["tag", "consumer", "snapshot"])
def test_a_file_that_is_being_overwritten_is_read_again(left: bytes, which: str) -> None:
    clock = FakeClock(on_sleep=lambda: written and written.pop()())
    written: list[Any] = []
    table = _made(clock)
    store = table.store
    path = {"tag": store.paths.tag("t"), "consumer": store.paths.consumer("c")}.get(which, store.paths.snapshot(2))
    whole = store.env.storage.read(path)

    def overwriting() -> None:
        store.env.storage.write(path, left)
        written.append(lambda: store.env.storage.write(path, whole))

    found = [
        lambda: table.to_arrow().num_rows == 2,
        lambda: [tag.id for tag in store.tags().values()] == [2],
        lambda: [tag.id for tag in store.known_tags().values()] == [2],
        lambda: store.consumers() == {"c": 2},
        lambda: needed_by_consumers(store) == [2],
        lambda: (place := place_of_consumer(store, "c")) is not None and place.following == 2,
        lambda: not fsck(store, FsckRequest(level=LEVELS[0])).errors,
        lambda: table.expire_snapshots(retain_min=1, retain_max=1, older_than="2100-01-01") is not None,
    ]
    for each in found:
        overwriting()
        assert each()
        written.clear()


def test_what_stays_so_is_damaged() -> None:
    clock = FakeClock()
    store = _made(clock).store
    store.env.storage.write(store.paths.consumer("c"), b"")
    with pytest.raises(CorruptError, match="not a consumer"):
        store.consumers()
    assert clock.slept < 1
