"""Ranges of rows that are sorted apart from each other, as many as tasks: bounds from a sample, and the range of a row.

    Sample(columns, weights)                what was seen of the rows: their keys, and what each stands for
    bounds_of(samples, count) -> Bounds     ranges of about equal weight
    Bounds.place(columns) -> int32 array    the range of every row
    Bounds.leads(keys) -> int64 array       numbers that ascend with keys on a curve

A key that is so frequent that several ranges hold nothing else is spread over them by a number that each row is given.

Spec: docs/spec/clustering.md#ranges
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.lazy import pc
from bucketlake.ops.cluster.order import ranks_of
from bucketlake.values import dataclass

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SPREAD_FROM = 0.2  # of a range: less of one key stays together
Numbers = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows that were drawn. `columns`: their keys, in the canonical layout; `weights`: what each stands for."""

    columns: tuple[pa.Array, ...]
    weights: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where ranges end. `columns`: the first key of every range but the first, ascending; `shares`: which share of the
    rows with just this key still belongs to the range before; `prefix`: the bytes that all keys drawn begin with, where
    keys are bytes. Picklable."""

    columns: tuple[pa.Array, ...] = ()
    shares: tuple[float, ...] = ()
    prefix: bytes = b""

    @property
    def ranges(self) -> int:
        """How many ranges there are."""
        return len(self.shares) + 1

    def place(self, columns: Sequence[pa.Array]) -> npt.NDArray[np.int32]:
        """The range of every row, by its keys in the canonical layout."""
        count, cuts = len(columns[0]), len(self.shares)
        if not cuts or not count:
            return np.zeros(count, np.int32)
        both = ranks_of(
            [pa.concat_arrays([bound, column]) for bound, column in zip(self.columns, columns, strict=True)]
        )
        bounds, rows = both[:cuts], both[cuts:]
        low = np.searchsorted(bounds, rows, "left")
        high = np.searchsorted(bounds, rows, "right")
        found = high.astype(np.int32)
        tied = np.flatnonzero(low < high)
        if len(tied):
            own = mixed(np.arange(len(tied), dtype=np.uint64)).astype(np.float64) / 2.0**64
            shares = np.asarray(self.shares)
            for start in np.unique(low[tied]):
                within = low[tied] == start
                places, end = tied[within], high[tied[within]][0]
                found[places] = start + np.searchsorted(shares[start:end], own[within], "right")
        return found

    def leads(self, keys: pa.Array) -> npt.NDArray[np.int64]:
        """For keys of bytes, a number each that never falls where they ascend: what follows the prefix. Whoever sorts
        by bytes compares the first eight of them cheaply, and those of a curve of long integers are all zero.

        On a curve all keys have one length, and none is null; of others each gets 0."""
        width = 0 if keys.null_count or not len(keys) else len(keys[0].as_py())
        if not width or len(self.prefix) >= width or not _all_of(keys, width):
            return np.zeros(len(keys), np.int64)
        start = keys.offset * width
        data = np.frombuffer(keys.buffers()[2], np.uint8)[start : start + len(keys) * width].reshape(-1, width)
        prefix = np.frombuffer(self.prefix, np.uint8)
        lead = np.zeros((len(data), 8), np.uint8)
        rest = data[:, len(prefix) : len(prefix) + 8]
        lead[:, : rest.shape[1]] = rest
        other = data[:, : len(prefix)] != prefix
        apart = np.flatnonzero(other.any(axis=1))
        if len(apart):  # keys below, or above, all that were drawn
            first = other[apart].argmax(axis=1)
            lead[apart] = np.where(data[apart, first] < prefix[first], 0, 0xFF)[:, None]
        return (lead.view(">u8").ravel().astype(np.uint64) ^ np.uint64(1 << 63)).view(np.int64)


def _all_of(keys: pa.Array, width: int) -> bool:
    offsets = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + len(keys) + 1]
    return int(offsets[0]) == keys.offset * width and bool((np.diff(offsets) == width).all())


def mixed(numbers: Numbers) -> Numbers:
    """Numbers that look like chance and are the same each time: SplitMix64."""
    with np.errstate(over="ignore"):
        value = (numbers + np.uint64(1)) * _GOLDEN
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return value ^ (value >> np.uint64(31))


def bounds_of(samples: Sequence[Sample], count: int) -> Bounds:
    """Bounds of at most `count` ranges of about equal weight."""
    samples = [sample for sample in samples if len(sample.weights)]
    if not samples or count < 2:
        return Bounds()
    parts = zip(*(sample.columns for sample in samples), strict=True)
    columns = [pa.concat_arrays(list(part)) for part in parts]
    weights = np.concatenate([sample.weights for sample in samples])
    ranks = ranks_of(columns)
    order = np.argsort(ranks, kind="stable")
    ranks, reach = ranks[order], np.cumsum(weights[order])
    total = float(reach[-1])
    cuts = total * np.arange(1, count) / count
    places = np.minimum(np.searchsorted(reach, cuts, "right"), len(order) - 1)
    first, last = np.searchsorted(ranks, ranks[places], "left"), np.searchsorted(ranks, ranks[places], "right") - 1
    below = np.where(first > 0, reach[np.maximum(first, 1) - 1], 0.0)
    weight = reach[last] - below
    shares = np.where(weight < _SPREAD_FROM * total / count, 0.0, (cuts - below) / np.maximum(weight, 1e-300))
    shares = np.clip(shares, 0.0, 1.0)
    kept = np.concatenate([[True], (ranks[places][1:] != ranks[places][:-1]) | (shares[1:] > shares[:-1])])
    kept &= ~((places == 0) & (shares <= 0.0)) | (first > 0)
    chosen = pa.array(order[places[kept]])
    bounds = tuple(column.take(chosen) for column in columns)
    return Bounds(bounds, tuple(float(share) for share in shares[kept]), _prefix(columns[-1]))


def _prefix(keys: pa.Array) -> bytes:
    """What all keys begin with, if they are bytes."""
    if not pa.types.is_binary(keys.type) or keys.null_count == len(keys):
        return b""
    ends = pc.min_max(keys)
    least, greatest = ends["min"].as_py(), ends["max"].as_py()
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(least, greatest, strict=False))
    return bytes(byte for byte, _ in alike)
