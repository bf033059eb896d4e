"""Pending rows of a postpone table keep their order beside a rollback that died half-way."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.sim.clock import FakeClock
from tests.sim.storage import MapStorage

from bucketlake.catalog import Catalog
from bucketlake.env.env import Env
from bucketlake.ops.compact.postpone_compact import PendingPlan, place_pending
from bucketlake.ops.table.store import clear_cache

from .test_postpone import FIELDS, SEEING, data, rows_of


@pytest.mark.parametrize("filled", [False, True])
@pytest.mark.parametrize("gone", [(2,), (3,), (4,), (2, 3)])
def test_pending_rows_keep_their_order_above_the_gap_of_a_rollback_that_died(gone: Sequence[int], filled: bool) -> None:
    """It takes the oldest away first, and others may have filled the gap since. The writers' clocks run backwards, but
    for what came in one gap. Each commit has the last word on the key before its own."""
    storage, clock = MapStorage(), FakeClock()
    catalog = Catalog(Env(storage, clock), "memory://wh")
    options = {"bucket": "-2", "scan.manifest.parallelism": "1", **SEEING}
    table = catalog.create_table("default.t", FIELDS, ["pt"], primary_keys=["pt", "k"], options=options)
    for value, time in enumerate((9, 5, 6, 2, 1) if len(gone) > 1 else (5, 4, 3, 2, 1), 1):
        clock.millis = 1_700_000_000_000 + 1000 * time
        table.write_arrow(data((1, value - 1, value), (1, value, value)))
    for number in gone:
        storage.delete(table.store.paths.snapshot(number))
    if filled:  # on what lies below
        paths = table.store.paths
        above = {path: storage.files.pop(path) for path in map(paths.snapshot, range(max(gone) + 1, 6))}
        for value in gone:
            storage.files.pop(paths.latest_hint, None)
            clear_cache()
            table.write_arrow(data((2, value, value)))
        storage.files.pop(paths.latest_hint, None)
        storage.files.update(above)
        assert table.store.snapshot_ids() == [1, 2, 3, 4, 5]
    clear_cache()
    wanted = [(1, value - 1, value) for value in range(1, 6)] + [(1, 5, 5)]
    assert rows_of(table) == wanted
    place_pending(table.store, PendingPlan())
    assert rows_of(table) == wanted
