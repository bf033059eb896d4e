"""Many roaring bitmaps at once: sorted positions -> the portable serialized form, vectorised; and reading one safely:
the library that takes it on trusts what it is told of containers.

    bitmap    := 12346: u32, containers: u32, descriptor*, offset: u32*, container*                     without runs
               | 12347 | (containers - 1) << 16: u32, run flags: bit*, descriptor*, [offset: u32*], container*
    descriptor := high 16 bits: u16, cardinality - 1: u16
    container  := array of u16 | 8192 bytes of bits | runs: u16, (start: u16, length - 1: u16)*

Little-endian; offsets from 4 containers on where there are runs. An array holds up to 4096 values; a run container is
taken where it is smaller, as `runOptimize` of the Java library decides.

Spec: docs/spec/file_index.md#bitmaps
"""

from __future__ import annotations

from typing import Any

from pyroaring import BitMap

from bucketlake.lazy import np, npt

Bytes = npt.NDArray["np.uint8"]
Ints = npt.NDArray["np.int64"]

PLAIN_COOKIE = 12346
RUN_COOKIE = 12347
MOST_IN_ARRAY = 4096
BITS_SIZE = 8192
OFFSETS_FROM = 4
BLOCK = 1 << 20  # positions that are serialized together


def serialize_bitmap(positions: npt.NDArray[Any]) -> bytes:
    """One bitmap of ascending positions."""
    data, _ = serialize_bitmaps(positions, np.array([0, len(positions)], np.int64))
    return data.tobytes()


def serialize_bitmaps(positions: npt.NDArray[Any], starts: Ints) -> tuple[Bytes, Ints]:
    """Bitmap g holds `positions[starts[g] : starts[g + 1]]`, ascending, each below 2^32.

    All serialized one after the other, and where each begins; one more entry for the end.
    """
    groups = len(starts) - 1
    parts: list[Bytes] = []
    ends = [np.zeros(1, np.int64)]
    first, size = 0, 0
    while first < groups:
        last = int(np.searchsorted(starts, starts[first] + BLOCK, side="right")) - 1
        last = min(max(last, first + 1), groups)
        rows = positions[starts[first] : starts[last]]
        data, offsets = _serialize(rows, starts[first : last + 1] - starts[first])
        parts.append(data)
        ends.append(offsets[1:] + size)
        size += len(data)
        first = last
    return (np.concatenate(parts) if parts else np.zeros(0, np.uint8)), np.concatenate(ends)


def _serialize(positions: npt.NDArray[Any], starts: Ints) -> tuple[Bytes, Ints]:
    count, groups = len(positions), len(starts) - 1
    high, low = (positions >> 16).astype(np.int32), (positions & 0xFFFF).astype(np.int32)
    opens = np.zeros(count, np.bool_)  # whether a container begins here
    opens[starts[:-1][starts[:-1] < starts[1:]]] = True
    opens[1:] |= high[1:] != high[:-1]
    breaks = opens.copy()  # whether a run begins here
    breaks[1:] |= low[1:] != low[:-1] + 1
    first = np.flatnonzero(opens)
    cards = np.diff(np.append(first, count))
    owner = np.searchsorted(starts, first, side="right") - 1
    runs = np.add.reduceat(breaks.astype(np.int64), first) if count else np.zeros(0, np.int64)
    plain = np.where(cards > MOST_IN_ARRAY, BITS_SIZE, 2 * cards)
    is_run = 2 + 4 * runs < plain
    sizes = np.where(is_run, 2 + 4 * runs, plain)

    containers = np.bincount(owner, minlength=groups)
    with_runs = np.bincount(owner, weights=is_run, minlength=groups) > 0
    flags = (containers + 7) // 8
    described = np.where(with_runs, 4 + flags, 8)
    listed = np.where(with_runs & (containers < OFFSETS_FROM), 0, 4 * containers)
    header = described + 4 * containers + listed
    before = np.append(0, np.cumsum(sizes))  # bytes of containers before each
    edge = np.append(0, np.cumsum(containers))  # containers before each group
    offsets = np.append(0, np.cumsum(header + before[edge[1:]] - before[edge[:-1]]))
    out = np.zeros(int(offsets[-1]), np.uint8)

    begin = offsets[:-1]
    _put(out, begin, np.where(with_runs, RUN_COOKIE | (containers - 1) << 16, PLAIN_COOKIE), 4)
    _put(out, begin[~with_runs] + 4, containers[~with_runs], 4)
    place = np.arange(len(first)) - edge[owner]
    np.bitwise_or.at(out, (begin[owner] + 4 + place // 8)[is_run], (1 << (place % 8)).astype(np.uint8)[is_run])
    _put(out, (begin + described)[owner] + 4 * place, high[first], 2)
    _put(out, (begin + described)[owner] + 4 * place + 2, cards - 1, 2)
    inside = header[owner] + before[:-1] - before[edge[owner]]
    has = listed[owner] > 0
    _put(out, ((begin + described + 4 * containers)[owner] + 4 * place)[has], inside[has], 4)
    _put_containers(out, low, begin[owner] + inside, (first, cards, is_run), breaks)
    return out, offsets


def _put_containers(
    out: Bytes, low: npt.NDArray[np.int32], at: Ints, found: tuple[Ints, Ints, npt.NDArray[np.bool_]], breaks: Any
) -> None:
    """Write the bodies. `found`: first row, rows, and whether it is of runs, by container."""
    first, cards, is_run = found
    of_row = np.repeat(np.arange(len(first)), cards)
    arrays = (~is_run & (cards <= MOST_IN_ARRAY))[of_row]
    rows = np.flatnonzero(arrays)
    _put(out, at[of_row[rows]] + 2 * (rows - first[of_row[rows]]), low[rows], 2)

    starts = np.flatnonzero(breaks)
    lengths = np.diff(np.append(starts, len(low)))
    of_run = of_row[starts]
    number = np.arange(len(starts)) - np.searchsorted(starts, first)[of_run] if len(starts) else starts
    wanted = is_run[of_run]
    _put(out, at[is_run], np.bincount(of_run, minlength=len(first))[is_run], 2)
    body = at[of_run[wanted]] + 2 + 4 * number[wanted]
    _put(out, body, low[starts[wanted]], 2)
    _put(out, body + 2, lengths[wanted] - 1, 2)

    for index in np.flatnonzero(~is_run & (cards > MOST_IN_ARRAY)).tolist():
        bits = np.zeros(1 << 16, np.bool_)
        bits[low[first[index] : first[index] + cards[index]]] = True
        out[at[index] : at[index] + BITS_SIZE] = np.packbits(bits, bitorder="little")


def _put(out: Bytes, at: Ints, values: Any, width: int) -> None:
    """Write little-endian integers at byte positions."""
    for byte in range(width):
        out[at + byte] = (values >> (8 * byte)) & 0xFF


# ---------------------------------------------------------------------------------------------- reading


def read_bitmap(data: bytes | memoryview, at: int = 0) -> tuple[BitMap, int]:
    """The bitmap that begins at a byte, and where it ends. Raises: ValueError where it is none: cut off, containers out
    of order, or not of as many values as they say."""
    if at < 0:
        raise ValueError("a bitmap before the first byte")
    end = _end_of_bitmap(data, at)
    return BitMap.deserialize(bytes(data[at:end])), end


def _end_of_bitmap(data: bytes | memoryview, at: int) -> int:
    cookie = int(_numbers(data, at, 1, "<u4")[0])
    flags = np.zeros(0, np.bool_)
    if cookie & 0xFFFF == RUN_COOKIE:
        count = (cookie >> 16) + 1
        octets = (count + 7) // 8
        flags = np.unpackbits(_numbers(data, at + 4, octets, "u1"), bitorder="little")[:count].astype(np.bool_)
        at += 4 + octets
    elif cookie == PLAIN_COOKIE:
        count = int(_numbers(data, at + 4, 1, "<u4")[0])
        at += 8
    else:
        raise ValueError(f"not a roaring bitmap: it begins with {cookie}")
    if count > 1 << 16:
        raise ValueError(f"a roaring bitmap of {count} containers")
    described = _numbers(data, at, 2 * count, "<u2").astype(np.int64)
    keys, cards = described[::2], described[1::2] + 1
    if (keys[1:] <= keys[:-1]).any():
        raise ValueError("containers of a roaring bitmap are out of order")
    at += 4 * count + (4 * count if not len(flags) or count >= OFFSETS_FROM else 0)
    runs = flags.tolist() if len(flags) else [False] * count
    for card, is_run in zip(cards.tolist(), runs, strict=True):
        at = _end_of_container(data, at, card, is_run)
    return at


def _end_of_container(data: bytes | memoryview, at: int, card: int, is_run: bool) -> int:
    if is_run:
        count = int(_numbers(data, at, 1, "<u2")[0])
        pairs = _numbers(data, at + 2, 2 * count, "<u2").astype(np.int64)
        starts, ends = pairs[::2], pairs[::2] + pairs[1::2]
        good = (ends <= 0xFFFF).all() and (starts[1:] > ends[:-1]).all() and int((ends - starts + 1).sum()) == card
        at += 2 + 4 * count
    elif card <= MOST_IN_ARRAY:
        values = _numbers(data, at, card, "<u2")
        good = (values[1:] > values[:-1]).all()
        at += 2 * card
    else:
        good = int(np.unpackbits(_numbers(data, at, BITS_SIZE, "u1")).sum()) == card
        at += BITS_SIZE
    if not good:
        raise ValueError("a container of a roaring bitmap is not what it says")
    return at


def _numbers(data: bytes | memoryview, at: int, count: int, form: str) -> npt.NDArray[Any]:
    width = np.dtype(form).itemsize
    if at + count * width > len(data):
        raise ValueError("a roaring bitmap is cut off")
    return np.frombuffer(data, form, count, at)
