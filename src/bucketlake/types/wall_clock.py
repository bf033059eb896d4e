"""Local-zoned times as the clock on the wall shows them, in the time zone of this process, as Paimon prints them; and
back, as epoch milliseconds.

Spec: docs/spec/schema.md#reading-older-files
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone

from bucketlake.lazy import np, npt, pa

# 0001-01-02 to 9999-12-30, in epoch milliseconds: what is no time of any zone's calendar is no moment of ours.
EARLIEST_MILLIS, LATEST_MILLIS = -62_135_510_400_000, 253_402_214_399_999
_DAY = 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def epoch_of(moment: datetime) -> int:
    """Epoch milliseconds of a moment, rounded down; without a zone it is this process's. A thousand times its
    `timestamp()` is a millisecond less now and then."""
    if moment.tzinfo is None:
        try:
            moment = moment.astimezone(timezone.utc)
        except (OverflowError, ValueError):  # in UTC it is before the year 1, or after 9999
            millis = (moment.replace(tzinfo=timezone.utc) - _EPOCH) // timedelta(milliseconds=1)
            return millis - 1000 * _offset(millis // 1000)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def wall_clock(array: pa.Array) -> pa.Array:
    """The zoneless timestamps of local-zoned ones, of the same unit."""
    kind = pa.timestamp(array.type.unit)
    values = array.cast(kind).cast(pa.int64())
    ticks = values.fill_null(0).to_numpy(zero_copy_only=False)
    if not len(ticks):
        return values.cast(kind)
    unit = _PER_SECOND[array.type.unit]
    shifted = ticks + _offsets(np.floor_divide(ticks, unit)) * unit
    return pa.array(shifted, pa.int64(), mask=values.is_null().to_numpy(zero_copy_only=False)).cast(kind)


def _offsets(seconds: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Seconds east of UTC at each of these times since the epoch."""
    starts, offsets = _stretches(int(seconds.min()), int(seconds.max()))
    found: npt.NDArray[np.int64] = offsets[np.searchsorted(starts, seconds, side="right") - 1]
    return found


def _stretches(first: int, last: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where stretches of one offset begin between two times, and their offsets. Days with a change are halved until it
    is found: the work hangs on the calendar, not on the rows."""
    starts, offsets = [first], [_offset(first)]
    low = first
    while low < last:
        high = min(low + _DAY, last)
        if _offset(high) != offsets[-1]:
            before, after = low, high
            while after - before > 1:
                middle = (before + after) // 2
                before, after = (middle, after) if _offset(middle) == offsets[-1] else (before, middle)
            starts.append(after)
            offsets.append(_offset(after))
            low = after
        else:
            low = high
    return np.array(starts, np.int64), np.array(offsets, np.int64)


def _offset(second: int) -> int:
    return time.localtime(second).tm_gmtoff
