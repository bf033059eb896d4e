"""Dynamic buckets: the hash index of a snapshot decides where rows go, and a write says what it added to it.

    base snapshot's index → hashes of the partitions that rows arrive for → assign → files → new index files

An index file is read when the first row of its partition (and assigner) arrives, and replaced whole.

Spec: docs/spec/hash_index.md
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa

from bucketlake.errors import BucketlakeError, ConflictError, CorruptError, NotFoundError
from bucketlake.format.guard import check_size
from bucketlake.format.index.hash_index import ascending, decode_hashes, encode_hashes, verify
from bucketlake.format.index.index_manifest import HASH, IndexEntry, IndexFile
from bucketlake.format.row.binary_row import BinaryRows, encode_rows
from bucketlake.format.row.hashing import Hashes, bucket_of, hash_rows
from bucketlake.format.row.layout import ARITY_BYTES
from bucketlake.ops.buckets.assigner import BucketRule, PartitionBuckets, Run, first_load_buckets, run_of
from bucketlake.ops.buckets.hash_spill import HashSpill
from bucketlake.ops.rows.assign import Assigner, Codes, slices
from bucketlake.ops.table.entries import BucketKey
from bucketlake.ops.table.messages import CommitMessage, WriteTask
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.retry import on_newest
from bucketlake.ops.table.store import Store
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

T = TypeVar("T")
DYNAMIC_TOTAL = -1  # what manifest entries record as bucket number
SHOWN = 5

PartitionIndex = Mapping[int, IndexFile]
"""The hash index files of one partition, by bucket."""


def hash_files(entries: Iterable[IndexEntry]) -> dict[bytes, dict[int, IndexFile]]:
    """The hash index files among live index entries, by partition and bucket."""
    found: dict[bytes, dict[int, IndexFile]] = {}
    for entry in entries:
        if entry.file.index_type == HASH:
            found.setdefault(entry.partition, {})[entry.bucket] = entry.file
    return found


def read_hashes(store: Store, partition: bytes, bucket: int, file: IndexFile) -> Hashes:
    """The key hashes of one bucket, ascending. CorruptError names a file that is not what the manifest says."""
    path = store.paths.index_path(partition, bucket, file)
    data = store.env.storage.read(path)
    check_size(path, len(data), file.file_size)
    return ascending(decode_hashes(data, path, file.row_count))


def key_check(store: Store, partition: bytes, bucket: int, file: IndexFile) -> Callable[[pa.RecordBatch], None]:
    """What raises CorruptError, naming the bucket's index file, for key-value rows whose keys the index lacks."""
    known = read_hashes(store, partition, bucket, file)
    fields = store.schema.key_fields

    def check(batch: pa.RecordBatch) -> None:
        _refuse_lacking(store, (partition, bucket), file, verify(known, key_hashes(batch, fields)))

    return check


def _refuse_lacking(store: Store, place: BucketKey, file: IndexFile, lacking: Hashes) -> None:
    if len(lacking):
        raise CorruptError(
            "a hash index lacks keys that lie in its bucket: they would be doubled",
            path=store.paths.index_path(*place, file),
            bucket=place[1],
            hashes=lacking[:SHOWN].tolist(),
            remedy="rewrite the partition with INSERT OVERWRITE, which builds its index anew",
        )


def write_hashes(store: Store, partition: bytes, bucket: int, hashes: Hashes) -> IndexFile:
    """Write the index file of a bucket, whole, under a fresh name. `hashes`: ascending."""
    data = encode_hashes(hashes)
    file = IndexFile(HASH, store.paths.new_index(store.env), len(data), len(hashes))
    store.env.storage.write(store.paths.index_path(partition, bucket, file), data)
    return file


def remove_index(store: Store, partition: bytes, bucket: int, file: IndexFile) -> None:
    """Delete an index file that nothing refers to, best effort."""
    with suppress(BucketlakeError):
        store.env.storage.delete(store.paths.index_path(partition, bucket, file))


def key_hashes(batch: pa.RecordBatch, keys: Sequence[DataField]) -> Hashes:
    """The hash of each row's key: of the BinaryRow of the trimmed primary key. `keys`: its columns in the batch."""
    return hash_rows(encode_rows([batch.column(item.name) for item in keys], [item.type for item in keys]))


@dataclass(slots=True)
class DynamicAssigner(Assigner):
    """Numbers the groups of a dynamic table; new keys get a bucket by the table's rule.

    `index_base`: the index manifest that known keys are looked up in; `occupied`: (partition, bucket) with live files,
    of these `key_samples`, a key each that must be in the index, lest this be another bucket's; `rule`: how buckets
    fill; `first_load`: partitions that had no bucket, and how many they get; others are none of which rows were
    expected. Made by `dynamic_assigner`.
    """

    rule: BucketRule = field(default_factory=lambda: BucketRule(1))
    index_base: str | None = None
    occupied: Collection[BucketKey] = ()
    key_samples: Mapping[BucketKey, bytes] = field(default_factory=dict)
    first_load: Mapping[bytes, int] = field(default_factory=dict)
    _loaded: HashSpill = field(default_factory=HashSpill)
    _index: dict[bytes, dict[int, IndexFile]] | None = None
    _occupied: dict[bytes, list[int]] | None = None
    _partitions: dict[bytes, PartitionBuckets] = field(default_factory=dict)
    _written: list[tuple[bytes, int, IndexFile]] = field(default_factory=list)

    def _buckets(self, batch: pa.RecordBatch, rows_partition: Codes, partitions: Sequence[bytes]) -> Codes:
        hashes = key_hashes(batch, self.store.schema.select(self.store.schema.trimmed_primary_keys))
        if len(partitions) == 1:
            return self._assigned(partitions[0], hashes)
        order, spans = slices(rows_partition)
        result = np.empty(batch.num_rows, np.int64)
        for code, start, end in spans:
            rows = order[start:end]
            result[rows] = self._assigned(partitions[code], hashes[rows])
        return result

    def _assigned(self, partition: bytes, hashes: Hashes) -> Codes:
        if self.first_load:
            return self._loaded_first(partition, hashes, self._first_count(partition))
        return self._on_base(lambda: self._looked_up(partition, hashes))

    def _first_count(self, partition: bytes) -> int:
        """How many buckets a partition gets in a first load; one that was not counted (its rows are evaluated again to
        be written, and chance and times come out otherwise) as many as the largest: all tasks must agree.

        Raises ConflictError for one that has buckets: tasks would not agree about keys that are new there.
        """
        count = self.first_load.get(partition)
        if count is not None:
            return count
        if any(partition == other for other, _ in self.occupied):
            raise ConflictError(
                "rows came for another partition than when they were counted",
                table=self.store.paths.root,
                partition=self.store.paths.partition_texts(partition),
                remedy="write again",
            )
        self.first_load = {**self.first_load, partition: max(self.first_load.values())}
        return self.first_load[partition]

    def _on_base(self, look: Callable[[], T]) -> T:
        """What is found in the index of the base, in the newest one where that has expired. The messages keep the base,
        since which keys may have moved."""
        try:
            return look()
        except NotFoundError:
            return on_newest(self.store, lambda: self._on_newest(look))

    def _on_newest(self, look: Callable[[], T]) -> T:
        snapshot = self.store.latest_snapshot()
        entries = self.store.index_entries(None if snapshot is None else snapshot.index_manifest)
        self._index, self._occupied = hash_files(entries), {}  # which buckets have files there is not known
        self.key_samples = {}
        return look()

    def _looked_up(self, partition: bytes, hashes: Hashes) -> Codes:
        known = self._partitions.get(partition)
        if known is None:
            files = self._files(partition)
            self._check_index(partition, files)
            counts = {bucket: file.row_count for bucket, file in files.items()}
            known = self._partitions[partition] = PartitionBuckets(self.rule, counts)
        missing = known.missing(hashes)
        if missing:
            held = {bucket: key for (place, bucket), key in self.key_samples.items() if place == partition}
            files = self._files(partition)
            known.load(missing, load_run(self.store, partition, files, self.rule.assigners, missing, held))
        return known.assign(hashes)

    def _loaded_first(self, partition: bytes, hashes: Hashes, count: int) -> Codes:
        buckets = first_load_buckets(hashes, count)
        order, spans = slices(buckets)
        for bucket, start, end in spans:
            self._loaded.add((partition, bucket), hashes[order[start:end]])
        return buckets

    def _added(self, partition: bytes, bucket: int) -> Hashes:
        if partition in self.first_load:
            return self._loaded.of((partition, bucket))
        known = self._partitions.get(partition)
        return np.zeros(0, np.int32) if known is None else np.asarray(known.added(bucket), np.int32)

    def _files(self, partition: bytes) -> dict[int, IndexFile]:
        if self._index is None:
            self._index = hash_files(self.store.index_entries(self.index_base))
        return self._index.get(partition, {})

    def _check_index(self, partition: bytes, files: PartitionIndex) -> None:
        if self._occupied is None:
            self._occupied = {}
            for other, bucket in self.occupied:
                self._occupied.setdefault(other, []).append(bucket)
        bare = sorted(set(self._occupied.get(partition, ())) - set(files))
        if bare:
            raise CorruptError(
                "buckets of a dynamic table have data files but no hash index: their keys would be doubled",
                table=self.store.paths.root,
                index_manifest=self.index_base,
                partition=self.store.paths.partition_texts(partition),
                buckets=bare,
                remedy="rewrite the partition with INSERT OVERWRITE, which builds its index anew",
            )

    def indexed(self, messages: list[CommitMessage]) -> list[CommitMessage]:
        """The messages with the index files of the buckets that got new keys; on failure `abort` removes these."""
        result = []
        for message in messages:
            message = replace(message, index_base=self.index_base)
            added = self._added(message.partition, message.bucket)
            if len(added):
                message = self._on_base(partial(self._with_index, message, added))
            result.append(message)
        self._clear()
        return result

    def _with_index(self, message: CommitMessage, added: Hashes) -> CommitMessage:
        partition, bucket = message.partition, message.bucket
        old = self._files(partition).get(bucket)
        known = added[:0] if old is None else read_hashes(self.store, partition, bucket, old)
        file = write_hashes(self.store, partition, bucket, union(known, added))
        self._written.append((partition, bucket, file))
        return replace(message, new_index_files=(file,), deleted_index_files=() if old is None else (old,))

    def _clear(self) -> None:
        self._loaded.clear()
        for known in self._partitions.values():
            known.clear()

    def abort(self) -> None:
        """Remove the index files that were written."""
        self._clear()
        for partition, bucket, file in self._written:
            remove_index(self.store, partition, bucket, file)


def dynamic_assigner(store: Store, task: WriteTask) -> DynamicAssigner:
    """The assigner of a task that writes to a dynamic table."""
    return DynamicAssigner(
        store,
        DYNAMIC_TOTAL,
        rule=replace(BucketRule.of(store.options, task.assigners), owner=task.owner),
        index_base=task.index_base,
        occupied=task.sequence_start.keys(),
        key_samples=task.key_samples,
        first_load=task.first_load,
    )


def joined(store: Store, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
    """The messages of a first load, in which several tasks wrote to one bucket, with one index file a bucket.

    Files that are replaced are removed; on failure none of the messages' own is.
    """
    groups: dict[tuple[bytes, int], list[CommitMessage]] = {}
    for message in messages:
        groups.setdefault((message.partition, message.bucket), []).append(message)
    torn = [group for group in groups.values() if sum(len(message.new_index_files) for message in group) > 1]

    def join(group: list[CommitMessage]) -> IndexFile:
        partition, bucket = group[0].partition, group[0].bucket
        files = [file for message in group for file in message.new_index_files]
        hashes = np.concatenate([read_hashes(store, partition, bucket, file) for file in files])
        return write_hashes(store, partition, bucket, ascending(np.sort(hashes)))

    for group, file in zip(torn, parallel(join, torn), strict=True):
        for message in group:
            for old in message.new_index_files:
                remove_index(store, message.partition, message.bucket, old)
        group[:] = [replace(m, new_index_files=() if number else (file,)) for number, m in enumerate(group)]
    return [message for group in groups.values() for message in group]


def load_run(
    store: Store,
    partition: bytes,
    files: PartitionIndex,
    assigners: int = 1,
    wanted: Collection[int] = (0,),
    held: Mapping[int, bytes] | None = None,
) -> Run:
    """The known hashes of a partition with their buckets; of several assigners only the hashes of those wanted.
    CorruptError where a bucket's index lacks the key that is `held` there: it may be another bucket's.

    Warns of hashes that lie in two buckets, which single-writer engines leave behind when two of them wrote at once.
    """
    share = np.zeros(assigners, np.bool_)
    share[list(wanted)] = True
    whole = bool(share.all())

    def read(item: tuple[int, IndexFile]) -> tuple[int, Hashes]:
        hashes = read_hashes(store, partition, *item)
        _refuse_lacking(store, (partition, item[0]), item[1], verify(hashes, hash_of_key((held or {}).get(item[0]))))
        return item[0], hashes if whole else hashes[share[bucket_of(hashes, assigners)]]

    run, torn = run_of(parallel(read, list(files.items())))
    if len(torn):
        warnings.warn(
            f"{len(torn)} key hashes of {store.paths.root} lie in two buckets (the first: {torn[:SHOWN].tolist()}): "
            "two writers that did not know of each other wrote to it, and keys may be doubled; rewrite the partition "
            f"{store.paths.partition_texts(partition)} with INSERT OVERWRITE",
            stacklevel=2,
        )
    return run


def hash_of_key(key: bytes | None) -> Hashes:
    """The hash of a key, as manifests have it, as an array of one; empty without one."""
    row = (key or b"")[ARITY_BYTES:]
    if not row or len(row) % 8:  # nothing that a BinaryRow could be: whoever reads it says so
        return np.zeros(0, np.int32)
    return hash_rows(BinaryRows(np.frombuffer(row, np.uint8), np.array([0, len(row)], np.int64)))


def union(left: Hashes, right: Hashes) -> Hashes:
    """All hashes of two ascending arrays, ascending and once each."""
    both = np.concatenate([left, right])
    both.sort(kind="stable")
    return ascending(both)
