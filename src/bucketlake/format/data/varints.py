"""Numbers of blob files: sequences of 64-bit numbers, each as what it is more than the one before, in few bytes.

    sequence := varint*, zigzag: the first number, then the difference of each to the one before; modulo 2^64

    packed(numbers, bounds)       sequences one after the other, and the bytes of each
    unpacked(data, sizes)         the numbers of such sequences, and how many each has

Spec: docs/spec/blob.md#numbers
"""

from __future__ import annotations

from bucketlake.errors import CorruptError
from bucketlake.lazy import np, npt

Numbers = npt.NDArray["np.int64"]
Bytes = npt.NDArray["np.uint8"]
_WIDEST = 10  # bytes of a varint of 64 bits
_STEP = 1 << 18  # numbers at once


def packed(numbers: Numbers, bounds: Numbers) -> tuple[bytes, Numbers]:
    """Sequences, of which number `i` has the numbers from `bounds[i]` to `bounds[i + 1]`, one after the other, and how
    many bytes each takes."""
    parts, ends = [], [np.zeros(1, np.int64)]
    deltas = numbers - _before(numbers, bounds)
    for start in range(0, len(deltas), _STEP):
        data, sizes = _varints(deltas[start : start + _STEP])
        parts.append(data)
        ends.append(np.cumsum(sizes) + ends[-1][-1])
    return b"".join(parts), np.diff(np.concatenate(ends)[bounds])


def _before(numbers: Numbers, bounds: Numbers) -> Numbers:
    """The number before each in its sequence, 0 before the first."""
    found: Numbers = np.concatenate([np.zeros(1, np.int64), numbers])[:-1]
    firsts = bounds[:-1][bounds[:-1] < bounds[1:]]
    found[firsts] = 0
    return found


def _varints(deltas: Numbers) -> tuple[bytes, Numbers]:
    zigzag = ((deltas << 1) ^ (deltas >> 63)).view(np.uint64)
    shifts = np.arange(0, 7 * _WIDEST, 7, dtype=np.uint64)
    groups = zigzag[:, None] >> shifts
    more = np.zeros(groups.shape, np.bool_)
    more[:, :-1] = groups[:, 1:] != 0
    used = np.concatenate([np.ones((len(deltas), 1), np.bool_), more[:, :-1]], axis=1)
    found = (groups & np.uint64(0x7F)).astype(np.uint8) | (more.astype(np.uint8) << 7)
    return bytes(found[used]), used.sum(axis=1, dtype=np.int64)


def unpacked(data: Bytes, sizes: Numbers) -> tuple[Numbers, Numbers]:
    """The numbers of sequences that take so many bytes each, one after the other, and how many numbers each has.

    Raises CorruptError for a number that is cut short or too long; whether the numbers can be is the caller's to ask.
    """
    last = (data & 0x80) == 0
    stops = np.cumsum(sizes)
    if len(data) != (int(stops[-1]) if len(stops) else 0) or not last[stops[sizes > 0] - 1].all():
        raise CorruptError("an index of a blob file is cut short")
    ends = np.flatnonzero(last)
    if not len(ends):
        return np.zeros(0, np.int64), np.zeros(len(sizes), np.int64)
    starts = np.concatenate([[0], ends[:-1] + 1])
    if int((ends - starts).max()) >= _WIDEST:
        raise CorruptError("a number in an index of a blob file is too long")
    deltas = np.empty(len(ends), np.int64)
    for first in range(0, len(ends), _STEP):
        part = slice(first, first + _STEP)
        deltas[part] = _deltas(data[starts[first] : ends[part][-1] + 1], starts[part] - starts[first])
    counts = np.diff(np.searchsorted(ends, np.concatenate([[0], stops])))
    sums = np.cumsum(deltas)  # modulo 2^64, as their differences are
    firsts = np.cumsum(counts) - counts
    base = np.concatenate([np.zeros(1, np.int64), sums])[firsts]
    return sums - np.repeat(base, counts), counts


def _deltas(raw: Bytes, starts: Numbers) -> Numbers:
    widths = np.diff(starts, append=len(raw))
    places = np.arange(len(raw)) - np.repeat(starts, widths)
    bits = (raw & 0x7F).astype(np.uint64) << (places * 7).astype(np.uint64)
    zigzag = np.bitwise_or.reduceat(bits, starts)
    found: Numbers = (zigzag >> np.uint64(1)).view(np.int64) ^ -(zigzag & np.uint64(1)).view(np.int64)
    return found
