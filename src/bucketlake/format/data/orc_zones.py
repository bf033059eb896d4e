"""Wall clocks of instants in a time zone, as Java's `TimeZone` has them: ORC files name the zone that Java was in.

    before 1900   the zone's standard time of today
    1900 to 2037  the time zone database
    later         the zone's last rules, for ever

Spec: docs/spec/datafile.md#orc-instants
"""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.errors import UnsupportedError
from bucketlake.lazy import pc

Seconds = npt.NDArray[np.int64]

_FIRST = -2_208_988_800  # 1900-01-01
_LAST = 2_145_916_800  # 2038-01-01
_RULES = 2101  # a year by which zones have rules alone: Morocco's moon is foretold until 2087
_CYCLE = 28  # years after which days of the week and leap years come again
_DAY = 86_400
_FAR = 1 << 40  # seconds: year 36812
_UTC = dt.timezone.utc


def wall_clock(seconds: Seconds, zone: str) -> Seconds:
    """Seconds since 1970 in UTC as those that the zone's clocks show. Raises: UnsupportedError for an unknown zone."""
    found = _zone(zone)
    early, late = seconds < _FIRST, seconds >= _LAST
    known = pa.array(np.clip(seconds, _FIRST, _LAST - 1)).cast(pa.timestamp("s", zone))
    offsets = pc.local_timestamp(known).cast(pa.int64()).to_numpy() - known.cast(pa.int64()).to_numpy()
    if early.any():
        offsets = np.where(early, _rules(found)[1].min(), offsets)
    if late.any():
        starts, values = _rules(found)
        offsets = np.where(late, values[np.searchsorted(starts, _alike(seconds), "right") - 1], offsets)
    shown: Seconds = seconds + offsets
    return shown


def epoch(zone: str, year: int) -> int:
    """The instant at which a zone's clocks show the first of January, after 1900 and before 2038."""
    return int(dt.datetime(year, 1, 1, tzinfo=_zone(zone)).timestamp())


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError) as error:  # ZoneInfoNotFoundError is a KeyError
        raise _unknown(name) from error
    except KeyError as error:
        raise _unknown(name) from error


def _unknown(name: str) -> UnsupportedError:
    remedy = "read the table with the engine that wrote it, and write it as parquet"
    return UnsupportedError("orc timestamps of an unknown time zone", zone=name, remedy=remedy)


def _offset(zone: ZoneInfo, seconds: int) -> int:
    return int(
        (dt.datetime.fromtimestamp(seconds, _UTC).astimezone(zone).utcoffset() or dt.timedelta()).total_seconds()
    )


@lru_cache(maxsize=64)
def _rules(zone: ZoneInfo) -> tuple[Seconds, Seconds]:
    """From when on which offset holds, from 2038 to the end of the cycle of years that stands for all later ones."""
    days = range(_LAST - _DAY, _start(_RULES + _CYCLE) + _DAY, _DAY)
    offsets = [_offset(zone, day) for day in days]
    starts, values = [days[0]], [offsets[0]]
    for before, old, new in zip(days, offsets, offsets[1:], strict=False):
        if old != new:
            low, high = before, before + _DAY
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if _offset(zone, middle) == new else (middle, high)
            starts.append(high)
            values.append(new)
    return np.array(starts, np.int64), np.array(values, np.int64)


def _alike(seconds: Seconds) -> Seconds:
    """Later moments as the same ones of years of the cycle, which have the same days of the week."""
    moments = np.clip(seconds, _LAST, _FAR).astype("datetime64[s]")
    years = moments.astype("datetime64[Y]")
    starts = years.astype("datetime64[D]").astype(np.int64)
    leap = (years + np.timedelta64(1, "Y")).astype("datetime64[D]").astype(np.int64) - starts - 365
    moved = moments.astype(np.int64) + (np.array(_kinds(), np.int64)[np.mod(starts, 7), leap] - starts) * _DAY
    found: Seconds = np.where(moments < np.datetime64(str(_RULES)), moments.astype(np.int64), moved)
    return found


@lru_cache(maxsize=1)
def _kinds() -> tuple[tuple[int, int], ...]:
    """By the day of the week of the first of January, and whether it is a leap year: the first day of such a year."""
    found: dict[tuple[int, int], int] = {}
    for year in range(_RULES, _RULES + _CYCLE):
        days = (_start(year + 1) - _start(year)) // _DAY
        found[_start(year) // _DAY % 7, days - 365] = _start(year) // _DAY
    return tuple((found[day, 0], found[day, 1]) for day in range(7))


def _start(year: int) -> int:
    return int(dt.datetime(year, 1, 1, tzinfo=_UTC).timestamp())
