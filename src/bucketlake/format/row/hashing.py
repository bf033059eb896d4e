"""Which bucket a row belongs to: Paimon's bucket functions over the bucket key, vectorised.

    default   |hash % n| (Java's truncating %), hash: murmur3 of the BinaryRow's 4-byte words, seed 42
    mod       floorMod(key, n), a single INT or BIGINT key
    hive      (31 * (31 * h(k1) + h(k2)) …) & 0x7fffffff % n, h: Hive's hash of each value, 0 for null

Spec: docs/spec/buckets.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.format.row.binary_row import BinaryRows, encode_rows
from bucketlake.lazy import np, npt, pa
from bucketlake.types.model import DataField, Root, type_text

Hashes = npt.NDArray["np.int32"]
Indices = npt.NDArray["np.int64"]
SEED = 42
CHUNK = 1 << 14  # rows hashed at once, few enough that what lies between stays in the cache
BLOCK = 1 << 15  # words that are scrambled at once
FEW = 12  # rows for which a step over all of them takes as long as a step of Python's for each


def hash_rows(rows: BinaryRows) -> Hashes:
    """`BinaryRow.hashCode` of every row."""
    count = len(rows)
    words = rows.buffer.view("<u4")
    result = np.zeros(count, np.uint32)
    lengths = np.diff(rows.offsets)
    if count and (lengths == lengths[0]).all():
        grid = words.reshape(count, -1)
        for start in range(0, count, CHUNK):
            part = grid[start : start + CHUNK].T
            result[start : start + CHUNK] = _murmur(part, int(lengths[0]))
        return result.view(np.int32)
    longest = np.argsort(-lengths, kind="stable")
    for start in range(0, count, CHUNK):
        chosen = longest[start : start + CHUNK]
        result[chosen] = _murmur_of(words, rows.offsets[chosen] // 4, lengths[chosen])
    return result.view(np.int32)


def _murmur_of(words: npt.NDArray[np.uint32], begins: Indices, lengths: Indices) -> npt.NDArray[np.uint32]:
    """Of rows of several lengths, the longest first: those that have ended are left out of each step. What few rows
    have beyond the others is mixed row by row, as a step takes much longer than its numbers."""
    counts = lengths // 4
    h = np.full(len(counts), SEED, np.uint32)
    together = int(counts[FEW]) if len(counts) > FEW else 0
    reaching = np.searchsorted(-counts, -np.arange(together), side="left")
    changes = [0, *(np.flatnonzero(np.diff(reaching)) + 1).tolist(), together]
    for first, end in pairwise(changes if together else []):
        left = int(reaching[first])
        for start, stop in _blocks(first, end, left):
            _mix(h[:left], words[begins[:left] + np.arange(start, stop)[:, None]])
    for row in np.flatnonzero(counts > together).tolist():
        rest = words[begins[row] + together : begins[row] + counts[row]]
        h[row] = _mixed_all(int(h[row]), _scrambled(rest).tolist())
    return _finished(h, lengths.astype(np.uint32))


def _murmur(columns: npt.NDArray[np.uint32], length: int) -> npt.NDArray[np.uint32]:
    """Of rows of one length, their first words, their second ones, …"""
    h = np.full(columns.shape[1], SEED, np.uint32)
    for start, stop in _blocks(0, len(columns), columns.shape[1]):
        _mix(h, columns[start:stop])
    return _finished(h, np.uint32(length))


def _blocks(first: int, end: int, rows: int) -> Iterator[tuple[int, int]]:
    """The places of words from `first` to `end`, so many at once as a block of so many rows has."""
    size = max(BLOCK // max(rows, 1), 1)
    return ((start, min(start + size, end)) for start in range(first, end, size))


def _mix(h: npt.NDArray[np.uint32], columns: npt.NDArray[np.uint32]) -> None:
    """Mixes words of every row, each column one of all rows, into their hashes: one column after the other, as each
    step needs the one before."""
    turned, left, right, either = np.empty_like(h), np.left_shift, np.right_shift, np.bitwise_or
    low, high, five, more = np.uint32(13), np.uint32(19), np.uint32(5), np.uint32(0xE6546B64)
    with np.errstate(over="ignore"):
        for k in _scrambled(np.ascontiguousarray(columns)):
            h ^= k
            left(h, low, out=turned)
            right(h, high, out=h)
            either(h, turned, out=h)
            h *= five
            h += more


def _mixed_all(h: int, scrambled: list[int]) -> int:
    """Mixes all words of one row into its hash, one after the other, as each step needs the one before."""
    for k in scrambled:
        h ^= k
        h = (((h << 13) & 0xFFFFFFFF | h >> 19) * 5 + 0xE6546B64) & 0xFFFFFFFF
    return h


def _scrambled(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    with np.errstate(over="ignore"):
        k = words * np.uint32(0xCC9E2D51)
        turned = k >> np.uint32(17)
        k <<= np.uint32(15)
        k |= turned
        k *= np.uint32(0x1B873593)
    return k


def _finished(h: npt.NDArray[np.uint32], lengths: npt.NDArray[np.uint32] | np.uint32) -> npt.NDArray[np.uint32]:
    with np.errstate(over="ignore"):
        h ^= lengths
        h ^= h >> np.uint32(16)
        h *= np.uint32(0x85EBCA6B)
        h ^= h >> np.uint32(13)
        h *= np.uint32(0xC2B2AE35)
        h ^= h >> np.uint32(16)
    return h


def bucket_of(hashes: Hashes, buckets: int) -> Hashes:
    """`|hash % n|`, % as Java has it."""
    return np.abs(np.fmod(hashes, np.int32(buckets)))


def assign_buckets(
    batch: pa.RecordBatch, fields: Sequence[DataField], buckets: int, function: str = "default"
) -> Hashes:
    """The bucket of every row of a canonical batch. `fields`: the bucket key, found in the batch by name; none in
    tables of Paimon 0.7, which have one bucket."""
    if not fields:
        if buckets != 1:
            raise InvalidError("a table of several buckets has no bucket key", buckets=buckets)
        return np.zeros(batch.num_rows, np.int32)
    columns = [batch.column(item.name) for item in fields]
    if function == "default":
        return bucket_of(hash_rows(encode_rows(columns, [item.type for item in fields])), buckets)
    if function == "mod":
        return _mod(columns, fields, buckets)
    if function == "hive":
        return _hive(columns, fields, buckets)
    raise InvalidError("unknown bucket function", function=function, remedy="use default, mod or hive")


def _mod(columns: Sequence[pa.Array], fields: Sequence[DataField], buckets: int) -> Hashes:
    if len(fields) != 1:
        raise InvalidError("bucket key must have exactly one field in mod bucket function", fields=len(fields))
    if fields[0].type.root not in (Root.INT, Root.BIGINT):
        raise InvalidError(
            "bucket key type must be INT or BIGINT in mod bucket function", type=type_text(fields[0].type)
        )
    values = np.asarray(columns[0].fill_null(0)).astype(np.int64)  # a null slot reads as zero
    return np.mod(values, buckets).astype(np.int32)


def _hive(columns: Sequence[pa.Array], fields: Sequence[DataField], buckets: int) -> Hashes:
    total = np.zeros(len(columns[0]), np.int32)
    with np.errstate(over="ignore"):
        for column, item in zip(columns, fields, strict=True):
            part = _hive_hash(column, item)
            if column.null_count:
                part = np.where(np.asarray(column.is_null()), np.int32(0), part)
            total = total * np.int32(31) + part
    return (total & np.int32(0x7FFFFFFF)) % np.int32(buckets)


def _hive_hash(column: pa.Array, item: DataField) -> Hashes:
    root = item.type.root
    if root in (Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY):
        return _hive_bytes(column)
    if root is Root.DECIMAL:
        return _hive_decimal(column, item)
    if root is Root.BOOLEAN:
        return np.asarray(column.fill_null(False)).astype(np.int32)
    if root in (Root.TINYINT, Root.SMALLINT, Root.INT, Root.DATE, Root.TIME):
        plain = column.cast(pa.int32()) if root in (Root.DATE, Root.TIME) else column
        return np.asarray(plain.fill_null(0)).astype(np.int32)
    if root is Root.BIGINT:
        return _fold(np.asarray(column.fill_null(0)))
    if root is Root.FLOAT:
        return (_canonical(np.asarray(column.fill_null(0.0)))).view(np.int32)
    if root is Root.DOUBLE:
        return _fold(_canonical(np.asarray(column.fill_null(0.0))).view(np.int64))
    raise UnsupportedError(
        "type as a bucket key of the hive bucket function", column=item.name, type=type_text(item.type)
    )


def _canonical(values: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """-0.0 as 0.0 and every NaN as Java's."""
    plain = values + values.dtype.type(0)
    plain[np.isnan(plain)] = np.nan
    return plain


def _fold(values: npt.NDArray[np.int64]) -> Hashes:
    bits = values.view(np.uint64)
    return ((bits ^ (bits >> np.uint64(32))) & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.int32)


def _hive_bytes(column: pa.Array) -> Hashes:
    """h = 31 * h + byte (signed), byte position by byte position over all rows that are long enough."""
    count = len(column)
    result = np.zeros(count, np.int32)
    if count == 0:
        return result
    _, bounds, values = column.buffers()
    offsets = np.frombuffer(bounds, np.int32)[column.offset : column.offset + count + 1].astype(np.int64)
    data = np.frombuffer(values, np.int8) if values is not None and values.size else np.zeros(0, np.int8)
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")
    active = count
    sorted_lengths = lengths[order]
    for place in range(int(sorted_lengths[0]) if count else 0):
        active = int(np.searchsorted(-sorted_lengths[:active], -place, side="left"))
        rows = order[:active]
        result[rows] = result[rows] * np.int32(31) + data[offsets[rows] + place]
    return result


def _hive_decimal(column: pa.Array, item: DataField) -> Hashes:
    """Java's BigDecimal.hashCode (31 * hash of the unscaled integer + scale) after trailing zeros are stripped."""
    limbs, negative = _magnitudes(column)
    scale = np.full(len(column), item.type.scale or 0, np.int32)
    for _ in range(item.type.scale or 0):
        quotient, rest = _tenth(limbs)
        strip = (scale > 0) & (rest == 0)
        limbs = np.where(strip, quotient, limbs)
        scale = scale - strip.astype(np.int32)
    number = np.zeros(len(column), np.int32)
    for limb in limbs[::-1]:
        number = number * np.int32(31) + limb.astype(np.uint32).view(np.int32)
    number = np.where(negative, -number, number)
    zero = (limbs == 0).all(axis=0)
    hashes: Hashes = np.where(zero, np.int32(0), number * np.int32(31) + scale).astype(np.int32)
    return hashes


def _magnitudes(column: pa.Array) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
    """Absolute 128-bit values as four rows of 32 bits, lowest first; and which values are negative."""
    start = 2 * column.offset
    words = np.frombuffer(column.buffers()[1], "<u8")[start : start + 2 * len(column)].reshape(-1, 2)
    negative = words[:, 1] >> np.uint64(63) != 0
    flip = np.where(negative, ~np.uint64(0), np.uint64(0))
    low, high = words[:, 0] ^ flip, words[:, 1] ^ flip
    one = negative.astype(np.uint64)
    high = high + (one & (low == ~np.uint64(0)).astype(np.uint64))
    low = low + one
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    return np.stack([low & mask, low >> half, high & mask, high >> half]), negative


def _tenth(limbs: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Quotient and remainder of a division by ten."""
    quotient = np.empty_like(limbs)
    rest = np.zeros(limbs.shape[1], np.uint64)
    for place in range(len(limbs) - 1, -1, -1):
        part = (rest << np.uint64(32)) | limbs[place]
        quotient[place], rest = part // np.uint64(10), part % np.uint64(10)
    return quotient, rest
