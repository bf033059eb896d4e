"""Which partition and bucket every row of a batch belongs to. Vectorised: Python sees partitions, never rows.

Spec: docs/spec/writing.md#groups
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import pairwise

from bucketlake.errors import InvalidError
from bucketlake.format.row.binary_row import encode_row, encode_rows, with_arity_header
from bucketlake.format.row.hashing import assign_buckets
from bucketlake.lazy import np, npt, pa, pc
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.store import Store
from bucketlake.paths import POSTPONE_BUCKET
from bucketlake.schema.schema import BucketMode, TableSchema
from bucketlake.types.model import DataField, canonical_batch
from bucketlake.values import dataclass

Codes = npt.NDArray["np.int64"]
EMPTY_PARTITION = with_arity_header(encode_row((), ()), 0)


@dataclass(slots=True)
class Assigner:
    """Numbers the groups (partition, bucket) that a writer meets, in order of first sight.

    `total_buckets`: bucket number by partition bytes where it is not the table's own, -2: rows there stay pending;
    `refused`: partitions whose live files have another number than the table's, with that number: writing there raises
    InvalidError.
    """

    store: Store
    default_buckets: int
    total_buckets: Mapping[bytes, int] = field(default_factory=dict)
    refused: Mapping[bytes, int] = field(default_factory=dict)
    groups: list[tuple[bytes, int]] = field(default_factory=list)
    batch_rows: int = 0  # rows that `place` is best given at a time, 0: as they come
    _numbers: dict[tuple[bytes, int], int] = field(default_factory=dict)

    def place(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Codes]:
        """The rows to write for canonical rows with kinds, and the group number of each: here the rows that came."""
        return rows, self.assign(rows)

    def assign(self, batch: pa.RecordBatch) -> Codes:
        """The group number of every row of a canonical batch; `groups[number]` is (partition bytes, bucket)."""
        rows_partition, partitions = partition_codes(batch, self.store.schema.partition_fields)
        for partition in partitions:
            self._check(partition)
        buckets = self._buckets(batch, rows_partition, partitions)
        low = min(int(buckets.min(initial=0)), 0)  # pending rows lie in bucket -2
        width = int(buckets.max(initial=0)) - low + 1
        local, inverse = dense(rows_partition * width + (buckets - low), len(partitions) * width)
        numbers = np.fromiter(
            (self._number(partitions[code // width], int(code % width) + low) for code in local.tolist()),
            np.int64,
            len(local),
        )
        return numbers[inverse]

    def total(self, partition: bytes) -> int:
        """The bucket number that new files of a partition record."""
        return self.total_buckets.get(partition, self.default_buckets)

    def indexed(self, messages: list[CommitMessage]) -> list[CommitMessage]:
        """The messages of a finished write with what the assignment itself has to commit: here nothing."""
        return messages

    def abort(self) -> None:
        """Remove what `indexed` wrote."""

    def _check(self, partition: bytes) -> None:
        found = self.refused.get(partition)
        if found is not None:
            raise bucket_mismatch(self.store, partition, found, self.default_buckets)

    def _buckets(self, batch: pa.RecordBatch, rows_partition: Codes, partitions: Sequence[bytes]) -> Codes:
        if self.store.schema.bucket_mode is BucketMode.UNAWARE:
            return np.zeros(batch.num_rows, np.int64)
        totals = np.array([self.total(partition) for partition in partitions], np.int64)
        fields = self.store.schema.select(self.store.schema.bucket_keys)
        function = self.store.options.get("bucket-function.type")
        buckets = np.full(batch.num_rows, POSTPONE_BUCKET, np.int64)
        distinct = [total for total in np.unique(totals).tolist() if total != POSTPONE_BUCKET]
        if len(distinct) == 1 and (totals == distinct[0]).all():
            return np.asarray(assign_buckets(batch, fields, distinct[0], function), np.int64)
        for total in distinct:
            rows = np.flatnonzero(totals[rows_partition] == total)
            part = batch.take(pa.array(rows))
            buckets[rows] = assign_buckets(part, fields, total, function)
        return buckets

    def _number(self, partition: bytes, bucket: int) -> int:
        key = (partition, bucket)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.groups)
            self.groups.append(key)
        return number


def partition_codes(batch: pa.RecordBatch, fields: Sequence[DataField]) -> tuple[Codes, list[bytes]]:
    """For every row the index of its partition, and the partitions' BinaryRow bytes."""
    if batch.num_rows == 0:
        return np.zeros(0, np.int64), []
    if not fields:
        return np.zeros(batch.num_rows, np.int64), [EMPTY_PARTITION]
    codes, count = np.zeros(batch.num_rows, np.int64), 1
    for item in fields:
        encoded = pc.dictionary_encode(batch.column(item.name), null_encoding="encode")
        part = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        width = len(encoded.dictionary)
        known, codes = dense(codes * width + part, count * width)
        count = len(known)
    first = np.empty(count, np.int64)
    first[codes[::-1]] = np.arange(batch.num_rows - 1, -1, -1)
    distinct = batch.select([item.name for item in fields]).take(pa.array(first))
    rows = encode_rows(distinct, [item.type for item in fields])
    return codes, [with_arity_header(row, len(fields)) for row in _each_row(rows.buffer, rows.offsets)]


def touched_partitions(schema: TableSchema, batches: Iterable[pa.RecordBatch]) -> frozenset[bytes] | None:
    """The partitions that rows lie in; None for tables without partitions, and where a partition column is missing or
    has a default, which nulls become."""
    fields = schema.partition_fields
    if any(field.default is not None for field in fields):
        return None
    found: set[bytes] = set()
    for batch in batches:
        if not fields or not set(schema.partition_keys) <= set(batch.schema.names):
            return None
        found.update(partition_codes(canonical_batch(batch, fields), fields)[1])
    return frozenset(found) if fields else None


def dense(codes: Codes, bound: int) -> tuple[Codes, Codes]:
    """The distinct codes (all below `bound`), ascending, and for every row the place of its code among them."""
    if bound > max(1 << 16, 4 * len(codes)):
        known, places = np.unique(codes, return_inverse=True)
        return known, places.reshape(-1)
    present = np.zeros(bound, np.bool_)
    present[codes] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[codes]


def slices(codes: Codes) -> tuple[npt.NDArray[np.int64], Iterator[tuple[int, int, int]]]:
    """A stable order of rows by group, and (group, start, end) of every group in that order."""
    top = int(codes.max(initial=0))
    narrow = codes.astype(np.uint16) if top < 1 << 16 else codes  # numpy sorts 16-bit integers by radix
    order = np.argsort(narrow, kind="stable")
    sorted_codes = codes[order]
    starts = np.flatnonzero(np.concatenate(([True], sorted_codes[1:] != sorted_codes[:-1]))) if len(codes) else order
    ends = np.append(starts[1:], len(codes))
    return order, zip(sorted_codes[starts].tolist(), starts.tolist(), ends.tolist(), strict=False)


def bucket_mismatch(store: Store, partition: bytes, found: int, wanted: int) -> InvalidError:
    """The error of a write into a partition that has another bucket number than the table's option."""
    texts = store.paths.partition_texts(partition) if store.schema.partition_keys else {}
    where = "partition " + "/".join(f"{name}={text}" for name, text in texts.items()) if texts else "table"
    return InvalidError(
        f"Try to write {where} with a new bucket num {wanted}, but the previous bucket num is {found}.",
        remedy="perform INSERT OVERWRITE of it, or CALL sys.rescale, to rescale the current data layout first; or set "
        f"the option 'bucket' to {found}, and where that is done open the table again",
    )


def _each_row(buffer: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> Iterator[bytes]:
    data = buffer.tobytes()
    bounds = offsets.tolist()
    return (data[start:end] for start, end in pairwise(bounds))
