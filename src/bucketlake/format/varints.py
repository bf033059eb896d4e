"""Numbers in few bytes, many at once: seven bits a byte, the lowest first; a set top bit says that more follow.

sequence := varint*, zigzag: the first number, then the difference of each to the one before; modulo 2^64

zigzag(numbers), unzigzag(…)  signed numbers as unsigned ones that are small where they are near 0, and back
encoded(numbers)              unsigned numbers one after the other, and where each begins
decoded(data)                 the numbers of bytes that are nothing else
varint(number)                one of them
found_at(data, places)        the numbers that begin at these places, and where each ends
packed(numbers, bounds)       sequences one after the other, and the bytes of each
unpacked(data, sizes)         the numbers of such sequences, and how many each has
"""

from __future__ import annotations

from bucketlake.errors import CorruptError
from bucketlake.lazy import np, npt

Numbers = npt.NDArray["np.int64"]
Unsigned = npt.NDArray["np.uint64"]
Bytes = npt.NDArray["np.uint8"]
_WIDEST = 10  # bytes of a varint of 64 bits
_STEP = 1 << 18  # numbers at once


def zigzag(numbers: Numbers) -> Unsigned:
    """0, -1, 1, -2, … as 0, 1, 2, 3, …"""
    found: Unsigned = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    return found


def unzigzag(numbers: Unsigned) -> Numbers:
    """What `zigzag` made so of."""
    found: Numbers = (numbers >> np.uint64(1)).view(np.int64) ^ -(numbers & np.uint64(1)).view(np.int64)
    return found


def encoded(numbers: Unsigned) -> tuple[Bytes, Numbers]:
    """The bytes, and where each number begins; one more entry for the end."""
    most = max(1, -(-int(numbers.max(initial=0)).bit_length() // 7))
    if most == 1:
        return numbers.astype(np.uint8), np.arange(len(numbers) + 1, dtype=np.int64)
    lengths = np.ones(len(numbers), np.int64)
    for place in range(1, most):
        lengths += numbers >= np.uint64(1 << 7 * place)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    data = np.empty(int(offsets[-1]), np.uint8)
    at = np.arange(len(numbers))
    for place in range(most):
        if place:
            at = at[lengths[at] > place]
        limbs = (numbers[at] >> np.uint64(7 * place)).astype(np.uint8) & 0x7F
        data[offsets[at] + place] = limbs | np.where(lengths[at] > place + 1, 0x80, 0).astype(np.uint8)
    return data, offsets


def varint(number: int) -> bytes:
    """A number that is at least 0."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def decoded(data: Bytes) -> Unsigned:
    """The numbers. Raises: CorruptError where the last is cut short, or one is longer than 64 bits take."""
    ends = np.flatnonzero(data < 0x80)
    if len(data) != (int(ends[-1]) + 1 if len(ends) else 0):
        raise CorruptError("a number is cut short")
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])[: len(ends)]
    if int((ends - starts).max(initial=0)) >= _WIDEST:
        raise CorruptError("a number is too long")
    found = np.empty(len(ends), np.uint64)
    for first in range(0, len(ends), _STEP):
        part = slice(first, first + _STEP)
        found[part] = _summed(data[starts[first] : ends[part][-1] + 1], starts[part] - starts[first])
    return found


def found_at(data: Bytes, places: Numbers) -> tuple[Numbers, Numbers]:
    """The numbers that begin at these places, none of more than 63 bits, and where what follows them begins.

    Raises: ValueError where one is longer, or cut short.
    """
    found = np.zeros(len(places), np.int64)
    ends = places.astype(np.int64)
    left = np.arange(len(places))
    for shift in range(0, 63, 7):
        at = ends[left]
        if len(at) and (int(at.min()) < 0 or int(at.max()) >= len(data)):
            raise ValueError("a number is cut short")
        octets = data[at]
        found[left] |= (octets & 0x7F).astype(np.int64) << shift
        ends[left] += 1
        left = left[octets >= 0x80]
        if not len(left):
            return found, ends
    raise ValueError("a number is too long")


def _summed(raw: Bytes, starts: Numbers) -> Unsigned:
    widths = np.diff(starts, append=len(raw))
    places = np.arange(len(raw)) - np.repeat(starts, widths)
    bits = (raw & 0x7F).astype(np.uint64) << (places * 7).astype(np.uint64)
    found: Unsigned = np.bitwise_or.reduceat(bits, starts)
    return found


# ---------------------------------------------------------------------------------------------- sequences


def packed(numbers: Numbers, bounds: Numbers) -> tuple[bytes, Numbers]:
    """Sequences, of which number `i` has the numbers from `bounds[i]` to `bounds[i + 1]`, one after the other, and how
    many bytes each takes."""
    parts, ends = [], [np.zeros(1, np.int64)]
    deltas = numbers - _before(numbers, bounds)
    for start in range(0, len(deltas), _STEP):
        data, offsets = encoded(zigzag(deltas[start : start + _STEP]))
        parts.append(data.tobytes())
        ends.append(offsets[1:] + ends[-1][-1])
    return b"".join(parts), np.diff(np.concatenate(ends)[bounds])


def _before(numbers: Numbers, bounds: Numbers) -> Numbers:
    """The number before each in its sequence, 0 before the first."""
    found: Numbers = np.concatenate([np.zeros(1, np.int64), numbers])[:-1]
    firsts = bounds[:-1][bounds[:-1] < bounds[1:]]
    found[firsts] = 0
    return found


def unpacked(data: Bytes, sizes: Numbers) -> tuple[Numbers, Numbers]:
    """The numbers of sequences that take so many bytes each, one after the other, and how many numbers each has.

    Raises CorruptError for a number that is cut short or too long; whether the numbers can be is the caller's to ask.
    """
    last = data < 0x80
    stops = np.cumsum(sizes)
    if len(data) != (int(stops[-1]) if len(stops) else 0) or not last[stops[sizes > 0] - 1].all():
        raise CorruptError("a number is cut short")
    counts = np.diff(np.searchsorted(np.flatnonzero(last), np.concatenate([[0], stops])))
    sums = np.cumsum(unzigzag(decoded(data)))  # modulo 2^64, as their differences are
    firsts = np.cumsum(counts) - counts
    base = np.concatenate([np.zeros(1, np.int64), sums])[firsts]
    return sums - np.repeat(base, counts), counts
