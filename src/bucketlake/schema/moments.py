"""Texts, and finer timestamps, as dates and timestamps, as Apache Paimon casts them.

Texts may have one digit or two, and parts that are left out; those of digits alone, which Paimon takes for days or
milliseconds and Spark for years, are refused. Of timestamps before 1970 whole milliseconds are cut towards 1970.
"""

from __future__ import annotations

from bucketlake.lazy import np, pa, pc

_DATE = r"^(?P<year>\d{4,})-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2}))?(?: .*)?$"
_STAMP = (
    r"^(?P<year>\d{4,})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
    r"(?: (?P<hour>\d{1,2}):(?P<minute>\d{1,2}):(?P<second>\d{1,2})(?:\.(?P<part>\d{0,9}))?)?$"
)


def dates_of(texts: pa.Array) -> pa.Array:
    """ArrowInvalid for a text that is no date."""
    found = pc.extract_regex(texts, _DATE)
    plain = _joined("-", found.field("year"), _padded(found, "month"), _padded(found, "day", "01"))
    return _chosen(found, plain, texts).cast(pa.date32())


def timestamps_of(texts: pa.Array, precision: int) -> pa.Array:
    """Timestamps of that precision, what is finer cut off, as microseconds or, beyond 6 digits, nanoseconds.
    ArrowInvalid for a text that is none."""
    found = pc.extract_regex(texts, _STAMP)
    day = _joined("-", found.field("year"), _padded(found, "month"), _padded(found, "day"))
    time = _joined(":", *(_padded(found, name, "00") for name in ("hour", "minute", "second")))
    plain = _joined(" ", day, time)
    if precision:
        part = pc.utf8_rpad(pc.utf8_slice_codeunits(found.field("part"), 0, precision), precision, "0")
        plain = _joined(".", plain, part)
    return _chosen(found, plain, texts).cast(pa.timestamp("ns" if precision > 6 else "us"))


def cut_to_digits(stamps: pa.Array, precision: int) -> pa.Array:
    """Timestamps with this many digits of a second at most, in their own unit: those of milliseconds are cut towards
    1970, finer ones towards the past."""
    finest = {"ms": 3, "us": 6, "ns": 9}[stamps.type.unit]
    if precision >= finest:
        return stamps
    values = stamps.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if precision > 3:
        step = 10 ** (finest - precision)
        values = values // step * step
    else:
        milli, step = 10 ** (finest - 3), 10 ** (3 - precision)
        values = np.sign(floors := values // milli) * (np.abs(floors) // step * step) * milli
    cut = pa.array(values, pa.int64(), mask=stamps.is_null().to_numpy(zero_copy_only=False))
    return cut.cast(stamps.type)


def dates_of_stamps(stamps: pa.Array) -> pa.Array:
    """The days of zoneless timestamps; of those before 1970, the next one but where they are midnight."""
    unit = {"ms": 1, "us": 1_000, "ns": 1_000_000}[stamps.type.unit]
    values = stamps.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) // unit
    days = np.sign(values) * (np.abs(values) // 86_400_000)
    found = pa.array(days, pa.int64(), mask=stamps.is_null().to_numpy(zero_copy_only=False))
    return found.cast(pa.int32()).cast(pa.date32())


def _padded(found: pa.Array, name: str, missing: str = "") -> pa.Array:
    part = found.field(name)
    return pc.utf8_lpad(pc.if_else(pc.equal(part, ""), missing, part) if missing else part, 2, "0")


def _joined(sign: str, *parts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*parts, sign)


def _chosen(found: pa.Array, plain: pa.Array, texts: pa.Array) -> pa.Array:
    """What was understood; other texts are Arrow's to read, or to refuse."""
    return pc.if_else(found.is_valid(), plain, texts)
