"""Local-zoned times as text: the wall clock of the process's zone, also around changes of the clock."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from bucketlake.ops.table.wall_clock import local_to_epoch
from bucketlake.schema.evolution import cast_array
from bucketlake.types.parse import parse_type_text
from bucketlake.types.wall_clock import epoch_of, wall_clock


@pytest.fixture(params=["America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ZoneInfo]:
    with monkeypatch.context() as changed:
        changed.setenv("TZ", request.param)
        time.tzset()
        yield ZoneInfo(request.param)
    time.tzset()


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_wall_clock(zone: ZoneInfo, unit: str) -> None:
    day = 86_400
    first = int(dt.datetime(2023, 2, 1, tzinfo=dt.timezone.utc).timestamp())
    near = np.arange(first, first + 300 * day, 1_799)  # both changes of the clock, to the half hour
    far = np.array([-5 * day, -1, 0, 1])
    seconds = [*near.tolist(), None, *far.tolist()]
    array = pa.array(seconds, pa.int64()).cast(pa.timestamp("s", tz="UTC")).cast(pa.timestamp(unit, tz="UTC"))
    expected = [None if s is None else dt.datetime.fromtimestamp(s, zone).replace(tzinfo=None) for s in seconds]
    assert wall_clock(array).to_pylist() == expected
    assert wall_clock(array[:0]).to_pylist() == []


def test_local_zoned_times_become_text(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "Asia/Shanghai")
        time.tzset()
        moments = [dt.datetime(2023, 8, 1, 2, 0, 0, 500_000, dt.timezone.utc), None]
        source, target = (parse_type_text(text, "flink") for text in ("TIMESTAMP_LTZ(6)", "STRING"))
        found = cast_array(pa.array(moments, pa.timestamp("us", tz="UTC")), source, target).to_pylist()
        assert found == ["2023-08-01 10:00:00.500000", None]
    time.tzset()


def test_moments_are_exact_to_the_millisecond(zone: ZoneInfo) -> None:
    """Also those whose seconds, as a float, come to a millisecond less."""
    start = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
    for millis in (1_075_403_331_876, -1_075_403_331_877, -1, 0, *range(1_700_000_000_000, 1_700_000_002_000, 7)):
        moment = start + dt.timedelta(milliseconds=millis)
        wall = moment.astimezone(zone).replace(tzinfo=None)
        assert epoch_of(moment) == epoch_of(wall) == epoch_of(wall + dt.timedelta(microseconds=999)) == millis
        local = (wall - start.replace(tzinfo=None)) // dt.timedelta(milliseconds=1)
        assert local_to_epoch(local) == millis


def test_moments_of_the_first_and_last_hours_of_the_calendar(zone: ZoneInfo) -> None:
    """Also those that are in other years in UTC: users write 9999-12-31 for what never comes."""
    for wall in (dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59)):
        offset = wall.replace(tzinfo=zone).utcoffset() or dt.timedelta()
        plain = wall.replace(tzinfo=dt.timezone.utc) - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
        expected = (plain - offset) // dt.timedelta(milliseconds=1)
        assert epoch_of(wall) == epoch_of(wall.replace(tzinfo=dt.timezone(offset))) == expected
