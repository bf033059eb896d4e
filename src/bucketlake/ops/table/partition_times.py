"""Texts of partition values as times, by Java's patterns.

    pattern    letters y M d H m s S, 'quoted text', any other sign for itself
    default    yyyy-M-d, and behind a blank H:m:s[.fraction]

Spec: docs/spec/tags.md#partitions
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import datetime, timedelta

from bucketlake.errors import InvalidError
from bucketlake.ops.table.partitions import partition_values
from bucketlake.ops.table.store import Store
from bucketlake.types.model import Root

_FIELDS = {
    "y": "year",
    "u": "year",
    "M": "month",
    "d": "day",
    "H": "hour",
    "m": "minute",
    "s": "second",
    "S": "fraction",
}
_DEFAULT = re.compile(r"(\d{1,10})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?)?", re.ASCII)
_TOKENS = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']")


def parse_time(text: str, pattern: str | None) -> datetime | None:
    """The time that a text spells by a pattern (None: the default forms), None where it spells none. InvalidError for a
    pattern with letters that are not known."""
    if pattern is None:
        return _default(text)
    found = re.fullmatch(_regex(pattern), text, re.ASCII)
    if found is None:
        return None
    parts = {name: value for name, value in found.groupdict().items() if value is not None}
    fraction = (parts.pop("fraction", "") + "000000")[:6]
    if "year" not in parts:
        return None
    try:
        numbers = {name: int(value) for name, value in parts.items()}
        year = numbers.pop("year") + (2000 if len(parts["year"]) == 2 else 0)
        date = (year, numbers.get("month", 1), numbers.get("day", 1))
        clock = (numbers.get("hour", 0), numbers.get("minute", 0), numbers.get("second", 0), int(fraction))
        return datetime(*date, *clock)
    except (ValueError, OverflowError):
        return None


def _regex(pattern: str) -> str:
    made, seen, end = [], set(), 0
    for token in _TOKENS.finditer(pattern):
        if token.start() != end:
            break
        end = token.end()
        letter, quoted = token[2], token[1]
        if letter is None:
            made.append(re.escape(token[0] if quoted is None else quoted.replace("''", "'") or "'"))
            continue
        name = _FIELDS.get(letter)
        if name is None or name in seen:
            raise InvalidError("this pattern of a time is not supported", pattern=pattern, letters=token[0])
        seen.add(name)
        count = len(token[0])
        digits = r"\d{1,9}" if count == 1 and name == "year" else r"\d{1,2}" if count == 1 else rf"\d{{{count}}}"
        made.append(f"(?P<{name}>{digits})")
    if end != len(pattern):
        raise InvalidError("this pattern of a time is not supported", pattern=pattern, remedy="close its quote")
    return "".join(made)


def _default(text: str) -> datetime | None:
    found = _DEFAULT.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    fraction = int(((found[7] or "") + "000000")[:6])
    try:  # months and days beyond their ends run over, as in Java's lenient forms
        start = datetime(year + (month - 1) // 12, (month - 1) % 12 + 1, 1)
        rest = timedelta(days=day - 1, hours=hour, minutes=minute, seconds=second, microseconds=fraction)
        return start + rest
    except (ValueError, OverflowError):
        return None


def filled_pattern(pattern: str, values: dict[str, str]) -> str:
    """A pattern such as `$dt $hour:00` with the values of partition columns; of names that begin alike the longest."""
    if not values:
        return pattern
    names = "|".join(re.escape(name) for name in sorted(values, key=len, reverse=True))
    return re.sub(rf"\$({names})", lambda found: values[found[1]], pattern)


def time_partitions(store: Store, partitions: Collection[bytes]) -> None:
    """With `partition.timestamp-format.strict`, refuse to write to partitions whose values stand for no time
    (InvalidError)."""
    options = store.options
    if not options.get("partition.timestamp-format.strict") or not store.schema.partition_keys:
        return
    if options.text("partition.timestamp-formatter") is None and options.text("partition.timestamp-pattern") is None:
        return
    for partition in partitions:
        if partition_time(store, partition) is None:
            told = ", ".join(f"{name}={text}" for name, text in store.paths.partition_texts(partition).items())
            raise InvalidError(
                f"Partition {told} does not match the 'partition.timestamp-formatter' or 'partition.timestamp-pattern' "
                "configuration. This might be caused by an incorrectly specified partition field.",
                table=store.paths.root,
                remedy="check the value, or the table's 'partition.timestamp-format.strict'",
            )


def partition_time(store: Store, partition: bytes) -> datetime | None:
    """The time that a partition's values stand for, by the table's `partition.timestamp-*`; None where they stand for
    none, or one is null."""
    pattern, form = (
        store.options.text(key) for key in ("partition.timestamp-pattern", "partition.timestamp-formatter")
    )
    values = partition_values(store, partition)
    fields = store.schema.partition_fields
    if any(value is None for value in values):
        return None
    texts = store.paths.partition_texts(partition)
    for field, value in zip(fields, values, strict=True):
        if field.type.root is Root.DATE:
            texts[field.name] = value.isoformat() if hasattr(value, "isoformat") else str(value)
    return parse_time(texts[fields[0].name] if pattern is None else filled_pattern(pattern, texts), form)
