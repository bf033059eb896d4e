"""Which partition and bucket every row of a batch belongs to. Vectorised: Python sees partitions, never rows.

Spec: docs/spec/buckets.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from bucketlake.format.binary_row import encode_rows
from bucketlake.format.hashing import assign_buckets
from bucketlake.schema import BucketMode, TableSchema

from bucketlake.errors import InvalidError
from bucketlake.types import DataField

Codes = npt.NDArray[np.int64]
EMPTY_PARTITION = with_arity_header(encode_row((), ()), 0)


@dataclass(slots=True)
class Assigner:
    """Numbers the groups (partition, bucket) that a writer meets, in order of first sight.

    `total_buckets`: bucket number by partition bytes where it is not the table's own; `refused`: partitions whose live
    files have another number than the table's, with that number: writing there raises InvalidError.
    """

    schema: TableSchema
    default_buckets: int
    bucket_function: str = "default"
    total_buckets: Mapping[bytes, int] = field(default_factory=dict)
    refused: Mapping[bytes, int] = field(default_factory=dict)
    groups: list[tuple[bytes, int]] = field(default_factory=list)
    _numbers: dict[tuple[bytes, int], int] = field(default_factory=dict)

    def assign(self, batch: pa.RecordBatch) -> Codes:
        """The group number of every row of a canonical batch; `groups[number]` is (partition bytes, bucket)."""
        rows_partition, partitions = partition_codes(batch, self._partition_fields())
        for partition in partitions:
            self._check(partition)
        buckets = self._buckets(batch, rows_partition, partitions)
        width = int(buckets.max(initial=0)) + 1
        local, inverse = np.unique(rows_partition * width + buckets, return_inverse=True)
        numbers = np.fromiter(
            (self._number(partitions[code // width], int(code % width)) for code in local.tolist()), np.int64, len(local)
        )
        return numbers[inverse]

    def total(self, partition: bytes) -> int:
        """The bucket number that new files of a partition record."""
        return self.total_buckets.get(partition, self.default_buckets)

    def _partition_fields(self) -> list[DataField]:
        return [self.schema.field(name) for name in self.schema.partition_keys]

    def _check(self, partition: bytes) -> None:
        found = self.refused.get(partition)
        if found is not None:
            raise bucket_mismatch(self.schema, partition, found, self.default_buckets)

    def _buckets(self, batch: pa.RecordBatch, rows_partition: Codes, partitions: Sequence[bytes]) -> Codes:
        if self.schema.bucket_mode is BucketMode.UNAWARE:
            return np.zeros(batch.num_rows, np.int64)
        totals = np.array([self.total(partition) for partition in partitions], np.int64)
        fields = [self.schema.field(name) for name in self.schema.bucket_keys]
        buckets = np.zeros(batch.num_rows, np.int64)
        distinct = np.unique(totals)
        if len(distinct) == 1:
            return np.asarray(assign_buckets(batch, fields, int(distinct[0]), self.bucket_function), np.int64)
        for total in distinct.tolist():
            rows = np.flatnonzero(totals[rows_partition] == total)
            part = batch.take(pa.array(rows))
            buckets[rows] = assign_buckets(part, fields, total, self.bucket_function)
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
    if not fields or batch.num_rows == 0:
        return np.zeros(batch.num_rows, np.int64), [EMPTY_PARTITION] if batch.num_rows else []
    codes = np.zeros(batch.num_rows, np.int64)
    for item in fields:
        encoded = pc.dictionary_encode(batch.column(item.name), null_encoding="encode")
        part = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        codes = np.unique(codes * (len(encoded.dictionary) + 1) + part, return_inverse=True)[1].reshape(-1)
    _, first = np.unique(codes, return_index=True)
    distinct = batch.select([item.name for item in fields]).take(pa.array(first))
    rows = encode_rows(distinct, [item.type for item in fields])
    return codes, list(_each_row(rows.buffer, rows.offsets))


def slices(codes: Codes) -> tuple[npt.NDArray[np.int64], Iterator[tuple[int, int, int]]]:
    """A stable order of rows by group, and (group, start, end) of every group in that order."""
    top = int(codes.max(initial=0))
    narrow = codes.astype(np.uint16) if top < 1 << 16 else codes  # numpy sorts 16-bit integers by radix
    order = np.argsort(narrow, kind="stable")
    sorted_codes = codes[order]
    starts = np.flatnonzero(np.concatenate(([True], sorted_codes[1:] != sorted_codes[:-1]))) if len(codes) else order
    ends = np.append(starts[1:], len(codes))
    return order, zip(sorted_codes[starts].tolist(), starts.tolist(), ends.tolist(), strict=False)


def bucket_mismatch(schema: TableSchema, partition: bytes, found: int, wanted: int) -> InvalidError:
    """The error of a write into a partition that has another bucket number than the table's option."""
    where = f"partition {partition.hex()}" if schema.partition_keys else "table"
    return InvalidError(
        f"Try to write {where} with a new bucket num {wanted}, but the previous bucket num is {found}.",
        remedy="perform INSERT OVERWRITE of it, or CALL sys.rescale, to rescale the current data layout first",
    )


def _each_row(buffer: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> Iterator[bytes]:
    data = buffer.tobytes()
    bounds = offsets.tolist()
    return (data[start:end] for start, end in zip(bounds[:-1], bounds[1:], strict=True))
