"""Which rows of overlapping runs are live: bitmaps for scans that filter natively.

    live_rows(runs of key columns, order, engine=Deduplicate(), *, block=BlockSize()) -> list[Bitmap], one a run
    Bitmap: .rows, .bits (uint64 words, bit i & 63 of word i >> 6 is row i), .count(), .mask(start=0, stop=rows),
            .part(start, stop) -> Bitmap

Spec: docs/spec/merge.md#live-rows
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.errors import UnsupportedError
from bucketlake.lsm.engines.engines import Deduplicate, Groups, MergeEngine
from bucketlake.lsm.keys import KeyOrder
from bucketlake.lsm.merge import DEFAULT_BLOCK, BlockSize, decided, slices
from bucketlake.values import dataclass

__all__ = ["Bitmap", "live_rows"]

Mask = npt.NDArray[np.bool_]
DEDUPLICATE = Deduplicate()


@dataclass(frozen=True, slots=True, eq=False)
class Bitmap:
    """One bit a row: bit `i & 63` of `bits[i >> 6]` (uint64) belongs to row i; bits past `rows` are 0."""

    bits: npt.NDArray[np.uint64]
    rows: int

    def count(self) -> int:
        """How many rows are set."""
        return int(np.count_nonzero(self.mask()))

    def mask(self, start: int = 0, stop: int | None = None) -> Mask:
        """The bits of rows start..stop as booleans."""
        end = self.rows if stop is None else stop
        octets = self.bits.view(np.uint8)[start >> 3 : -(-end // 8)]
        skip = start & 7
        return np.unpackbits(octets, bitorder="little").view(np.bool_)[skip : skip + end - start]

    def part(self, start: int, stop: int) -> Bitmap:
        """The bits of rows start..stop, numbered from 0: one file of a run."""
        return Bitmap(_packed(self.mask(start, stop)), stop - start)


def live_rows(
    runs: Sequence[Iterable[pa.RecordBatch]],
    order: KeyOrder,
    engine: MergeEngine = DEDUPLICATE,
    *,
    block: BlockSize = DEFAULT_BLOCK,
) -> list[Bitmap]:
    """For every run (oldest first), which of its rows a read of them all gives; deletes never are.

    Batches need no more than `order.columns` and `_VALUE_KIND`; a row's number is its position in its run. Memory: a
    few blocks a run, and one bit a row. The engine must be one that picks rows and computes none.
    Raises InvalidError naming a key column that holds nulls, UnsupportedError for an engine that computes values.
    Spec: docs/spec/merge.md#live-rows
    """
    bitmaps = [_Bits() for _ in runs]
    for parts in slices(runs, order, block):
        masks = _live_slice(parts, order, engine)
        for bits, part in zip(bitmaps, parts, strict=True):
            for _ in part:
                bits.add(next(masks))
    return [bits.done() for bits in bitmaps]


def _live_slice(parts: list[list[pa.RecordBatch]], order: KeyOrder, engine: MergeEngine) -> Iterator[Mask]:
    """One mask for every batch of a slice, run by run."""
    batches = [batch for part in parts for batch in part]
    rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    merged = decided(Groups(*order.sort(rows), rows.num_rows, rows.column), engine, True)
    if merged.columns:
        name = type(engine).__name__
        raise UnsupportedError("this merge engine computes rows", engine=name, remedy="read merged rows")
    live = np.full(rows.num_rows, merged.rows is None)
    if merged.rows is not None:
        live[merged.rows] = True
    return iter(np.split(live, np.cumsum([batch.num_rows for batch in batches])[:-1]))


class _Bits:
    """A bitmap that grows: whole octets are packed at once, the rest waits."""

    __slots__ = ("_packed", "_rest", "_rows")

    def __init__(self) -> None:
        self._packed: list[npt.NDArray[np.uint8]] = []
        self._rest: Mask = np.zeros(0, np.bool_)
        self._rows = 0

    def add(self, mask: Mask) -> None:
        self._rows += len(mask)
        bits = np.concatenate((self._rest, mask)) if len(self._rest) else mask
        whole = len(bits) & ~7
        self._packed.append(np.packbits(bits[:whole], bitorder="little"))
        self._rest = bits[whole:].copy()

    def done(self) -> Bitmap:
        octets = np.concatenate([*self._packed, np.packbits(self._rest, bitorder="little")])
        return Bitmap(_words(octets), self._rows)


def _packed(mask: Mask) -> npt.NDArray[np.uint64]:
    return _words(np.packbits(mask, bitorder="little"))


def _words(octets: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    padded = np.zeros(-(-len(octets) // 8) * 8, np.uint8)
    padded[: len(octets)] = octets
    return padded.view(np.uint64)
