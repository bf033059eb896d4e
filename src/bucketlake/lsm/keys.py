"""The order of keys, as arrays that sort fast.

    KeyOrder(fields, sequence=(), descending=False)   fields: the key columns (DataField; a column is found by its name)
        .columns -> list[str]                         what it reads: keys, sequence fields, _SEQUENCE_NUMBER
        .sort(rows: RecordBatch) -> (order, starts)   order of rows by (key, sequence…, _SEQUENCE_NUMBER, position)
        .view(batch) -> KeyView                       .at(row) -> Bound; .upper(bound, start=0) -> int; .is_strict()

`fields` may be schema.key_fields ("_KEY_a", …) or the plain columns of the primary key.

Order: numbers by value; BOOLEAN false first; FLOAT and DOUBLE as IEEE total order with one NaN, the greatest, and
-0.0 < 0.0; strings and binaries byte by byte, unsigned; decimals, dates, times and timestamps by value.

A key is a sequence of 64-bit words, most significant first. The words of a slice are packed into one integer where
their ranges allow; otherwise rows are ordered by the first word, and later words are only looked at where rows tie.

Spec: docs/spec/merge.md#order
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from bucketlake.errors import InvalidError
from bucketlake.lazy import np, npt, pa
from bucketlake.lsm.words import (
    Indices,
    Values,
    Word,
    byte_ranges,
    decimal_pairs,
    integers_of,
    sequence_words,
    words_of,
)
from bucketlake.schema.schema import SEQUENCE_FIELD
from bucketlake.types.model import DataField

__all__ = ["Bound", "KeyOrder", "KeyView", "ranks"]

Bound = tuple[Any, ...]  # ints and bytes, one or two per key column: compares as the key does
Flags = npt.NDArray["np.bool_"]

_PACKED_BITS = 63


class KeyOrder:
    """The order of rows in a sorted run: by key, then by sequence. Immutable and picklable.

    `sequence`: the table's `sequence.field` columns; `descending`: `sequence.field.sort-order` is descending. Nulls
    in sequence columns come first, as the oldest, in either direction.
    """

    __slots__ = ("descending", "fields", "sequence")

    def __init__(
        self, fields: Sequence[DataField], sequence: Sequence[DataField] = (), descending: bool = False
    ) -> None:
        self.fields = tuple(fields)
        self.sequence = tuple(sequence)
        self.descending = descending

    @property
    def columns(self) -> list[str]:
        """The columns that ordering rows reads."""
        return [item.name for item in (*self.fields, *self.sequence)] + [SEQUENCE_FIELD.name]

    def sort(self, rows: pa.RecordBatch) -> tuple[Indices | None, Indices | None]:
        """(order, starts): row numbers ordered by key, sequence fields, sequence number, position; and where in that
        order each group of equal keys starts. None for `order`: as they lie; None for `starts`: all keys differ.

        Fast where the rows are a few sorted stretches. Raises InvalidError naming a key column that holds nulls.
        """
        count = rows.num_rows
        words = [word for item in self.fields for word in words_of(self._key(rows, item))]
        order, tied = _by_lead(words, count)
        for word in words:
            order, tied = _refined(order, tied, word)
        if tied is None or not tied.any():
            return _unless_identity(order), None
        starts = np.flatnonzero(np.concatenate(([True], ~tied)))
        for item in self.sequence:
            for word in sequence_words(rows.column(item.name), self.descending):
                order, tied = _refined(order, tied, word)
        for word in words_of(rows.column(SEQUENCE_FIELD.name)):
            order, tied = _refined(order, tied, word)
        return _unless_identity(order), starts

    def view(self, batch: pa.RecordBatch) -> KeyView:
        """Single keys of a sorted batch. Raises InvalidError naming a key column that holds nulls."""
        return KeyView(batch.num_rows, [_reader(self._key(batch, item)) for item in self.fields])

    def _key(self, rows: pa.RecordBatch, item: DataField) -> pa.Array:
        column = rows.column(item.name)
        if column.null_count:
            name = item.name.removeprefix("_KEY_")
            raise InvalidError(
                "null in primary key", column=name, rows=column.null_count, remedy="filter the nulls out, or fill them"
            )
        return column

    def is_strict(self, rows: pa.RecordBatch) -> bool:
        """Whether every key is greater than the one before it."""
        pending: Indices | None = None
        for word in (word for item in self.fields for word in words_of(self._key(rows, item))):
            if pending is None:
                values = word.values(None)
                left, right = values[:-1], values[1:]
            else:
                left, right = word.values(pending), word.values(pending + 1)
            if (left > right).any():
                return False
            equal = np.flatnonzero(left == right)
            pending = equal if pending is None else pending[equal]
            if not len(pending):
                return True
        return False


def ranks(order: Indices, starts: Indices, columns: Sequence[pa.Array]) -> Indices:
    """For each row of `order`, cut into groups at `starts`, a number that ascends by (group, columns ascending); equal
    for equal rows of a group, never negative. Nulls come first. `columns` are in storage order, the result is in that
    of `order`. Numbers are packed where they fit, else counted off in sorted order.
    """
    words = [word for column in columns for word in sequence_words(column, False)]
    sizes = np.diff(starts, append=len(order))
    packed = np.repeat(np.arange(len(starts), dtype=np.uint64), sizes)
    bits = len(starts).bit_length()
    for word in words:
        values = word.values(order)
        low, width = _range(values)
        bits += width
        if bits > _PACKED_BITS:
            return _counted(order, starts, words)
        packed = (packed << np.uint64(width)) | _offset(values, low)
    return packed.view(np.int64)


def _counted(order: Indices, starts: Indices, words: Sequence[Word]) -> Indices:
    place = order.copy()
    tied = np.ones(max(len(order) - 1, 0), np.bool_)
    tied[starts[1:] - 1] = False
    for word in words:
        place, tied = _refined(place, tied, word)
    rank = np.zeros(int(order.max(initial=-1)) + 1, np.int64)
    rank[place] = np.concatenate(([0], np.cumsum(~tied)))[: len(place)]
    return rank[order]


class KeyView:
    """The keys of one sorted batch, one at a time."""

    __slots__ = ("_readers", "rows")

    def __init__(self, rows: int, readers: list[Callable[[int], Any]]) -> None:
        self.rows = rows
        self._readers = readers

    def at(self, row: int) -> Bound:
        """The key of a row."""
        return tuple(read(row) for read in self._readers)

    def upper(self, bound: Bound, start: int = 0) -> int:
        """The first row from `start` on whose key is greater than the bound; `rows` if there is none."""
        return bisect_right(range(self.rows), bound, start, self.rows, key=self.at)


def _reader(column: pa.Array) -> Callable[[int], Any]:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        content, bounds = byte_ranges(column)
        data = content.data
        return lambda row: bytes(data[bounds[row] : bounds[row + 1]])
    if pa.types.is_decimal(kind):
        pairs = decimal_pairs(column)
        return lambda row: (int(pairs[row, 1]) << 64) + (int(pairs[row, 0]) & 0xFFFFFFFFFFFFFFFF)
    values = integers_of(column)
    return values.item


def _by_lead(words: list[Word], count: int) -> tuple[Indices, Flags]:
    """Order rows by as many leading words as fit into one integer, and say which neighbours tie there. Takes the words
    that it used from the list."""
    lead = words.pop(0).values(None)
    if words and count:
        low, bits = _range(lead)
        while words and bits < _PACKED_BITS:
            values = words[0].values(None)
            least, width = _range(values)
            if bits + width > _PACKED_BITS:
                break
            lead = (_offset(lead, low) << np.uint64(width)) | _offset(values, least)
            low, bits = 0, bits + width
            words.pop(0)
    order = np.argsort(lead, kind="stable")
    ordered = lead[order]
    return order, ordered[1:] == ordered[:-1]


def _range(values: Values) -> tuple[int, int]:
    """(minimum, bits of maximum - minimum)."""
    low = int(values.min())
    return low, (int(values.max()) - low).bit_length()


def _offset(values: Values, low: int) -> npt.NDArray[np.uint64]:
    """values - low, exact although either may be signed."""
    return values.view(np.uint64) - np.uint64(low & 0xFFFFFFFFFFFFFFFF)


def _refined(order: Indices, tied: Flags, word: Word) -> tuple[Indices, Flags]:
    """Order by one more word what ties so far; only rows that tie are looked at, only those out of order moved."""
    if not tied.any():
        return order, tied
    member = np.zeros(len(order), np.bool_)
    member[:-1] = tied
    member[1:] |= tied
    places = np.flatnonzero(member)
    values = word.values(order[places])
    same = tied[places[:-1]]
    falls = same & (values[1:] < values[:-1])
    if falls.any():
        segments = np.concatenate(([0], np.cumsum(~same)))
        wrong = np.zeros(segments[-1] + 1, np.bool_)
        wrong[segments[1:][falls]] = True
        moved = np.flatnonzero(wrong[segments])
        sorting = _segment_order(segments[moved], values[moved], order[places[moved]], len(order))
        order[places[moved]] = order[places[moved[sorting]]]
        values[moved] = values[moved[sorting]]
    still = np.zeros(len(tied), np.bool_)
    still[places[:-1]] = same & (values[1:] == values[:-1])
    return order, still


def _segment_order(segments: Indices, values: Values, rows: Indices, count: int) -> Indices:
    """Stable order by (segment, value), segments ascending; `rows`: row numbers, below `count`.

    Sorted in storage order, where runs are sorted stretches, rather than in the order so far.
    """
    stored = np.full(count, -1, np.int64)
    stored[rows] = np.arange(len(rows))
    stored = stored[stored >= 0]
    low, width = _range(values)
    if int(segments[-1] - segments[0]).bit_length() + width > _PACKED_BITS:
        return stored[np.lexsort((values[stored], segments[stored]))]
    packed = (_offset(segments, int(segments[0])) << np.uint64(width)) | _offset(values, low)
    return stored[np.argsort(packed[stored], kind="stable")]


def _unless_identity(order: Indices) -> Indices | None:
    count = len(order)
    if count == 0 or (order[0] == 0 and order[-1] == count - 1 and bool((order[1:] > order[:-1]).all())):
        return None
    return order
