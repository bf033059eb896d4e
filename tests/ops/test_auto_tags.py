"""Automatic tags by times at the ends of the calendar, and beyond."""

from __future__ import annotations

import pytest
from tests.sim.clock import FakeClock
from tests.sim.storage import MapStorage
from tests.sim.tables import commit_of, create_table, data_file, message, partition

from bucketlake.ops.commit.commit import CommitProperties
from bucketlake.ops.refs.tags import create_tag
from bucketlake.ops.refs.upkeep import run_auto_tags
from bucketlake.ops.table.store import Store, clear_cache

OCTOBER = 1_793_000_000_000  # 2026-10-26 in UTC


def marked(*watermarks: int, period: str = "daily") -> Store:
    clear_cache()
    options = {"tag.automatic-creation": "watermark", "tag.creation-period": period, "sink.watermark-time-zone": "UTC"}
    store = create_table(MapStorage(), FakeClock()).with_options(options)
    for n, mark in enumerate(watermarks):
        file = data_file(f"f{n}", sequences=(10 * n, 10 * n + 9))
        notes = CommitProperties(watermark=mark)
        commit_of(store, f"w{n}").commit([message(file, part=partition(1))], notes=notes)
    return store


@pytest.mark.parametrize("end", [2**63 - 1, 253_402_300_799_999])
def test_the_watermark_that_ends_a_bounded_stream_stands_for_no_time(end: int) -> None:
    store = marked(OCTOBER, end, end)
    run_auto_tags(store)
    assert {name: tag.id for name, tag in store.tags().items()} == {"2026-10-25": 1}


@pytest.mark.parametrize("first", [-(2**63) + 1, -62_135_596_800_000, -1])
def test_watermarks_before_1970(first: int) -> None:
    store = marked(first, OCTOBER)
    run_auto_tags(store)
    assert "2026-10-25" in store.tags() and len(store.tags()) == (2 if first == -1 else 1)


def test_after_a_tag_of_the_last_day_none_is_due() -> None:
    store = marked(OCTOBER)
    create_tag(store, "9999-12-31", 1)
    run_auto_tags(store)
    assert list(store.tags()) == ["9999-12-31"]
