"""Names of automatic tags: which names are such, and the time that each stands for.

    period                          name
    daily                           yyyy-MM-dd | yyyyMMdd, and whatever follows a blank
    hourly                          yyyy-MM-dd HH | yyyyMMdd HH | yyyyMMddHH
    two-hours                       yyyy-MM-dd HH
    tag.creation-period-duration    yyyyMMddHHmm

The forms of one line go by `tag.period-formatter`: with_dashes | without_dashes | without_dashes_and_spaces (as
without_dashes for days). A tag that a user gave such a name counts as automatic.

Spec: docs/spec/incremental.md#automatic-tags
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from bucketlake.ops.table.store import Store
from bucketlake.options.options import TableOptions

__all__ = ["earlier_tags", "previous_tag_time", "tag_name", "tag_period", "tag_time"]

_DAYS = {"with_dashes": r"(\d{4})-(\d\d)-(\d\d)", "without_dashes": r"(\d{4})(\d\d)(\d\d)"}
_DAYS["without_dashes_and_spaces"] = _DAYS["without_dashes"]
_HOURS = {name: day + ("" if name.endswith("spaces") else " ") + r"(\d\d)" for name, day in _DAYS.items()}
_MINUTES = r"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)"


def tag_time(name: str, options: TableOptions) -> datetime | None:
    """The time that an automatic tag's name stands for, None for other names."""
    form, period = options.get("tag.period-formatter"), options.get("tag.creation-period")
    if options.is_set("tag.creation-period-duration"):
        pattern = _MINUTES
    elif period == "daily":
        name, pattern = name.split(" ", 1)[0], _DAYS[form]
    else:
        pattern = _HOURS["with_dashes" if period == "two-hours" else form]
    found = re.fullmatch(pattern, name, re.ASCII)
    if found is None:
        return None
    year, month, day, hour, minute = (*map(int, found.groups()), 0, 0)[:5]
    try:
        return datetime(year, month, day, hour, minute)
    except ValueError:
        return None


_EPOCH = datetime(1970, 1, 1)
_PERIODS = {"daily": timedelta(days=1), "hourly": timedelta(hours=1), "two-hours": timedelta(hours=2)}


def tag_period(options: TableOptions) -> timedelta:
    """The time from one automatic tag to the next."""
    given = options.get("tag.creation-period-duration")
    return _PERIODS[options.get("tag.creation-period")] if given is None else timedelta(milliseconds=given)


def previous_tag_time(time: datetime, options: TableOptions) -> datetime:
    """The time of the automatic tag that holds what came before `time`: the period before the one that it is in."""
    period = tag_period(options)
    return _EPOCH + (time - _EPOCH) // period * period - period


def tag_name(time: datetime, options: TableOptions) -> str:
    """The name of the automatic tag of a time."""
    form, period = options.get("tag.period-formatter"), options.get("tag.creation-period")
    dashes = "-" if form == "with_dashes" else ""
    if options.is_set("tag.creation-period-duration"):
        return time.strftime("%Y%m%d%H%M")
    if period == "daily":
        return time.strftime(f"%Y{dashes}%m{dashes}%d")
    if period == "two-hours":
        return time.strftime("%Y-%m-%d %H")
    return time.strftime(f"%Y{dashes}%m{dashes}%d{'' if form.endswith('spaces') else ' '}%H")


def earlier_tags(store: Store, name: str, options: TableOptions) -> list[str]:
    """Automatic tags of times before that of `name`, the latest first; `name` is one itself."""
    end = tag_time(name, options)
    assert end is not None
    found = [(time, other) for other in store.tag_names() if (time := tag_time(other, options)) and time < end]
    return [other for _, other in sorted(found, key=lambda pair: pair[0], reverse=True)]
