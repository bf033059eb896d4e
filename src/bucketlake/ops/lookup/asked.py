"""Which of many keys may lie in which splits of a plan: by partition, by bucket, by the files' key ranges.

    asked(store, plan, keys)      the splits in which some of these keys may lie, each with those keys
        .rows(columns)            the rows that a split has of its keys, merged as a read merges them

Spec: docs/streaming.md#look-up-rows
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.format.row.hashing import assign_buckets
from bucketlake.lsm.keys import KeyOrder
from bucketlake.ops.lookup.parts import AskedKeys, PartCache
from bucketlake.ops.rows.assign import partition_codes
from bucketlake.ops.rows.keyed_files import KeyedFiles, Ranged
from bucketlake.ops.rows.read import read_keys
from bucketlake.ops.scan.scan import Plan
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.store import Store
from bucketlake.paths import POSTPONE_BUCKET
from bucketlake.schema.schema import SEQUENCE_FIELD, BucketMode
from bucketlake.types.model import DataField, arrow_schema
from bucketlake.values import dataclass

Codes = npt.NDArray[np.int64]


@dataclass(slots=True)
class Place:
    """A split of a snapshot, its files' key ranges, and the store to read it with."""

    store: Store
    split: Split
    files: KeyedFiles
    ranges: list[Ranged]

    @classmethod
    def of(cls, store: Store, split: Split) -> Place:
        """A split as a place; files in no order of keys have no ranges."""
        files = KeyedFiles(store, split.bucket_path)
        ordered = split.bucket != POSTPONE_BUCKET and not store.schema.clustered
        return cls(store, split, files, files.bounds(split.files) if ordered else [])


@dataclass(frozen=True, slots=True)
class Asked:
    """A split and the keys that may lie in it: the table's key columns, ascending, all different. Travels to tasks."""

    store: Store
    split: Split
    keys: pa.RecordBatch

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return self.split.size

    @property
    def row_count(self) -> int:
        """Rows of its files."""
        return self.split.row_count

    def rows(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The live rows that have one of the keys. Of a file key columns are read, and of the parts that hold such
        rows the other columns that are wanted."""
        files = KeyedFiles(self.store, self.split.bucket_path)
        yield from read_keys(self.store, self.split, columns, AskedKeys(self.store, self.keys, files, PartCache(0)))


def asked(store: Store, plan: Plan, keys: pa.RecordBatch) -> list[Asked]:
    """The splits of a plan in which some of these distinct keys may lie. `keys`: the columns of the primary key under
    their names, in the table's layout, without nulls."""
    places: dict[bytes, list[Place]] = {}
    for own, split in plan.splits_of(store):
        places.setdefault(split.partition, []).append(Place.of(own, split))
    found = keys_by_place(store, places, keys, PartCache(0))
    return [Asked(place.store, place.split, part.keys) for place, part in found]


def keys_by_place(
    store: Store, places: Mapping[bytes, Sequence[Place]], keys: pa.RecordBatch, cache: PartCache
) -> Iterator[tuple[Place, AskedKeys]]:
    """The places, by partition, in which some of the keys may lie, each with those of its bucket."""
    for partition, part in _by_partition(store, keys, places):
        for place, own in _of_buckets(store, places.get(partition, ()), part):
            found = AskedKeys(place.store, own, place.files, cache)
            if not place.ranges or found.meets(place.ranges):
                yield place, found


def _by_partition(
    store: Store, keys: pa.RecordBatch, places: Mapping[bytes, Sequence[Place]]
) -> Iterable[tuple[bytes, pa.RecordBatch]]:
    """The keys that may lie in each partition."""
    schema = store.schema
    if not set(schema.partition_keys) <= set(schema.primary_keys):
        return [(partition, keys) for partition in places]
    codes, partitions = partition_codes(keys, schema.partition_fields)
    if len(partitions) == 1:
        return [(partitions[0], keys)]
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(len(partitions) + 1))
    parts = [keys.take(pa.array(order[ends[i] : ends[i + 1]])) for i in range(len(partitions))]
    return list(zip(partitions, parts, strict=True))


def _of_buckets(store: Store, places: Sequence[Place], keys: pa.RecordBatch) -> Iterable[tuple[Place, pa.RecordBatch]]:
    """The splits of one partition, each with the keys that may lie in its bucket."""
    fields = store.schema.key_fields
    ordered, order = _sorted([keys.column(item.name.removeprefix("_KEY_")) for item in fields], fields)
    hashed = store.schema.bucket_mode in (BucketMode.FIXED, BucketMode.POSTPONE)
    buckets: dict[int, Codes] = {}
    asked: dict[tuple[int, int] | None, pa.RecordBatch] = {None: ordered}
    for place in places:
        total, bucket = place.split.total_buckets, place.split.bucket
        name = (total, bucket) if hashed and bucket >= 0 and total > 0 else None
        if name is not None and name not in asked:
            if total not in buckets:
                buckets[total] = _buckets(store, keys, total)[order]
            asked[name] = ordered.filter(pa.array(buckets[total] == bucket))
        if asked[name].num_rows:
            yield place, asked[name]


def _buckets(store: Store, keys: pa.RecordBatch, total: int) -> Codes:
    fields = store.schema.select(store.schema.bucket_keys)
    columns = [keys.column(item.name) for item in fields]
    batch = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(fields))
    return np.asarray(assign_buckets(batch, fields, total, store.options.get("bucket-function.type")), np.int64)


def _sorted(columns: Sequence[pa.Array], fields: Sequence[DataField]) -> tuple[pa.RecordBatch, Codes]:
    """The keys under the names of key columns, ascending, and where each came from."""
    batch = pa.RecordBatch.from_arrays(list(columns), schema=arrow_schema(fields))
    numbers = pa.array(np.zeros(batch.num_rows, np.int64))
    order, _ = KeyOrder(fields).sort(batch.append_column(SEQUENCE_FIELD.name, numbers))
    if order is None:
        return batch, np.arange(batch.num_rows)
    return batch.take(pa.array(order)), order
