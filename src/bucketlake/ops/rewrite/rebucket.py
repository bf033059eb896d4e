"""Rows of one bucket number into files of another: what one task of a rescale does, and what a writer does that lost to
one. Nothing is committed here.

    copy_units(partition, total, sources)   the buckets of a partition, packed into units; pure
    move(store, unit) -> [CommitMessage]    one message a new bucket; `compact_before`: the files that were read
    spread_file(store, source, target)      one file's rows, by new bucket

A hash h lies in bucket |h % n|, so of n and m buckets only those with the same remainder modulo gcd(n, m) share rows:
doubling splits each bucket in two, halving merges two into one, and no unit sees the rest.

Spec: docs/spec/rescale.md#units
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import gcd

import numpy as np
import pyarrow as pa

from bucketlake.format.index.index_manifest import IndexEntry, IndexFile
from bucketlake.format.metadata.manifest import DataFile, FileKind, FileSource, ManifestEntry
from bucketlake.format.row.hashing import assign_buckets
from bucketlake.lazy import pc
from bucketlake.lsm.compaction import CompactionRule
from bucketlake.lsm.engines.engines import Deduplicate
from bucketlake.lsm.engines.rules import order_of
from bucketlake.lsm.levels import Levels, key_range_of
from bucketlake.lsm.merge import merge_runs
from bucketlake.ops.rewrite.rewrite import Bucket, Rewrite
from bucketlake.ops.rows.assign import slices
from bucketlake.ops.rows.deletions import load_vectors
from bucketlake.ops.rows.one_file import read_key_values
from bucketlake.ops.rows.read import read_split
from bucketlake.ops.rows.roll import NEW_FILES, Roller, Rolling
from bucketlake.ops.scan.splits import deletion_files
from bucketlake.ops.table.made import all_or_nothing, remove_files
from bucketlake.ops.table.messages import CommitMessage, Split
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import SEQUENCE_FIELD
from bucketlake.values import dataclass

FAN = 16  # files open at once: each holds a group of rows

Rows = Iterable[pa.RecordBatch]
Files = dict[int, list[DataFile]]


@dataclass(frozen=True, slots=True)
class OldBucket:
    """Files of one bucket that are read as one. `total_buckets`: of how many; `vectors`: the index file that holds
    their deletion vectors."""

    number: int
    total_buckets: int
    files: tuple[DataFile, ...]
    vectors: IndexFile | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """Buckets that rows go to: those of `buckets` out of `total_buckets`; rows of others are left out."""

    partition: bytes
    total_buckets: int
    buckets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MoveUnit:
    """Rows to be moved by one task. `merged`: all of the sources' rows merged into one sorted run a bucket, of the top
    level; else the source is one file that becomes files of level 0, its sequence numbers moved by `shift`. Small,
    picklable."""

    target: Target
    sources: tuple[OldBucket, ...]
    merged: bool = True
    shift: int = 0

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.file_size for source in self.sources for file in source.files)

    @property
    def row_count(self) -> int:
        """Rows of the files."""
        return sum(file.row_count for source in self.sources for file in source.files)


# ---------------------------------------------------------------------------------------------- planning, pure


def copy_units(partition: bytes, total_buckets: int, sources: Sequence[OldBucket]) -> list[MoveUnit]:
    """Units that together move all rows of the sources, each a class of buckets that share rows, or a part of the new
    buckets of one class where these are more than can be open at once."""
    step = gcd(total_buckets, *(source.total_buckets for source in sources))
    classes: dict[int, list[OldBucket]] = {}
    for source in sources:
        classes.setdefault(source.number % step, []).append(source)
    units = []
    for number, members in sorted(classes.items()):
        targets = range(number, total_buckets, step)
        for start in range(0, len(targets), FAN):
            target = Target(partition, total_buckets, tuple(targets[start : start + FAN]))
            units.append(MoveUnit(target, tuple(members)))
    return units


def replay_unit(entry: ManifestEntry, total_buckets: int, shift: int = 0) -> MoveUnit:
    """The unit that splits one newly written file."""
    (source,) = sources_of([entry], {})
    return MoveUnit(target_of(entry.partition, total_buckets, source), (source,), merged=False, shift=shift)


def target_of(partition: bytes, total_buckets: int, source: OldBucket) -> Target:
    """The buckets that rows of one old bucket can go to."""
    step = gcd(total_buckets, source.total_buckets)
    return Target(partition, total_buckets, tuple(range(source.number % step, total_buckets, step)))


# ---------------------------------------------------------------------------------------------- moving


def move(store: Store, unit: MoveUnit) -> list[CommitMessage]:
    """Move one unit's rows; a message a new bucket that gets rows: `new_files`, and in `compact_before` the files read.

    Primary-key tables: merged units are merged by the table's engine, deletes dropped, sequence numbers kept, as the
    one run of the top level. Append tables: rows in their order; the caller numbers the files.
    On an error nothing that was written stays. NotFoundError for files that have expired.
    Spec: docs/spec/rescale.md#copy
    """
    keyed, target = bool(store.schema.primary_keys), unit.target
    read = tuple(file for source in unit.sources for file in source.files)
    if unit.merged:
        level = CompactionRule.of(store.options).num_levels - 1 if keyed else 0
        rolling = Rolling(level=level, source=FileSource.COMPACT)
        files = spread(store, target, rolling, lambda: _merged(store, target.partition, unit.sources))
    else:
        files = spread_file(store, unit.sources[0], target, _level_0(store), unit.shift)
    return [CommitMessage(target.partition, b, target.total_buckets, tuple(f), compact_before=read) for b, f in files]


def _level_0(store: Store) -> Rolling:
    """With `sequence.snapshot-ordering` moved rows carry the snapshot that they came with, as compacted rows do."""
    return Rolling(source=FileSource.COMPACT) if store.options.get("sequence.snapshot-ordering") else NEW_FILES


def spread_file(
    store: Store, source: OldBucket, target: Target, rolling: Rolling = NEW_FILES, shift: int = 0
) -> list[tuple[int, list[DataFile]]]:
    """The rows of the one file of `source` as files of the target's buckets, in their order, sequence numbers moved by
    `shift`."""

    def rows() -> Iterator[pa.RecordBatch]:
        if not store.schema.primary_keys:
            yield from _append_rows(store, target.partition, [source])
            return
        folder = store.paths.bucket_dir(target.partition, source.number)
        for batch in read_key_values(store, folder, source.files[0]):
            yield renumbered(batch, shift)

    return spread(store, target, rolling, rows)


def spread(
    store: Store, target: Target, rolling: Rolling, rows: Callable[[], Rows]
) -> list[tuple[int, list[DataFile]]]:
    """Write rows into files of their buckets; (bucket, files) of each bucket that got rows. `rows` is asked once for
    each `FAN` buckets. On an error nothing that was written stays."""
    done: Files = {}
    try:
        for start in range(0, len(target.buckets), FAN):
            some = Target(target.partition, target.total_buckets, target.buckets[start : start + FAN])
            done.update(_pass(store, some, rolling, rows()))
    except BaseException:
        for bucket, files in done.items():
            remove_files(store, target.partition, bucket, files)
        raise
    return sorted(done.items())


def _pass(store: Store, target: Target, rolling: Rolling, rows: Rows) -> Files:
    fields = store.schema.select(store.schema.bucket_keys)
    function = store.options.get("bucket-function.type")
    rollers: dict[int, Roller] = {}
    wanted = frozenset(target.buckets)
    with all_or_nothing(rollers.values()):
        for batch in rows:
            codes = np.asarray(assign_buckets(batch, fields, target.total_buckets, function), np.int64)
            order, spans = slices(codes)
            for bucket, start, end in spans:
                if bucket in wanted:
                    if bucket not in rollers:
                        rollers[bucket] = Roller(store, target.partition, bucket, rolling)
                    whole = end - start == batch.num_rows
                    rollers[bucket].write(batch if whole else batch.take(pa.array(order[start:end])))
        return {bucket: roller.close() for bucket, roller in rollers.items()}


def _merged(store: Store, partition: bytes, sources: Sequence[OldBucket]) -> Rows:
    """All live rows of the buckets: by key, or of append tables in their order."""
    if not store.schema.primary_keys:
        return _append_rows(store, partition, sources)
    runs = [_bucket_rows(store, partition, source) for source in sources]
    if len(runs) == 1:
        return runs[0]
    return merge_runs(runs, order_of(store.schema, store.options), Deduplicate(False))  # no key is in two buckets


def _bucket_rows(store: Store, partition: bytes, source: OldBucket) -> Iterator[pa.RecordBatch]:
    rule = CompactionRule.of(store.options)
    levels = Levels.of(source.files, key_range_of(store.schema.key_fields), rule.num_levels)
    entry = None if source.vectors is None else IndexEntry(FileKind.ADD, partition, source.number, source.vectors)
    vectors = {} if entry is None else load_vectors(store, [entry])
    index = "" if entry is None else store.paths.index_path(partition, source.number, entry.file)
    return Rewrite(store, Bucket(partition, source.number, levels, vectors, index), rule).merged()


def _append_rows(store: Store, partition: bytes, sources: Sequence[OldBucket]) -> Iterator[pa.RecordBatch]:
    for source in sources:
        entries = [] if source.vectors is None else [IndexEntry(FileKind.ADD, partition, source.number, source.vectors)]
        split = Split(
            snapshot_id=0,
            partition=partition,
            bucket=source.number,
            total_buckets=source.total_buckets,
            bucket_path=store.paths.bucket_dir(partition, source.number),
            files=tuple(sorted(source.files, key=lambda file: (file.min_sequence_number, file.file_name))),
            raw=True,
            deletions=deletion_files(store, entries).get((partition, source.number), {}),
            replaced=True,
        )
        yield from read_split(store, split)


def renumbered(rows: pa.RecordBatch, shift: int) -> pa.RecordBatch:
    """Key-value rows with their sequence numbers moved."""
    if not shift:
        return rows
    place = rows.schema.get_field_index(SEQUENCE_FIELD.name)
    moved = pc.add(rows.column(place), pa.scalar(shift, pa.int64()))
    return rows.set_column(place, rows.schema.field(place), moved)


def sources_of(entries: Iterable[ManifestEntry], vectors: dict[int, IndexFile]) -> list[OldBucket]:
    """The buckets of one partition. `vectors`: by bucket."""
    groups: dict[int, list[ManifestEntry]] = {}
    for entry in entries:
        groups.setdefault(entry.bucket, []).append(entry)
    return [
        OldBucket(bucket, max(group[0].total_buckets, 1), tuple(entry.file for entry in group), vectors.get(bucket))
        for bucket, group in sorted(groups.items())
    ]
