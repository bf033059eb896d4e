"""Reading without moving rows: Spark's own scan, less the rows that deletion vectors name or that are superseded.

Which rows of overlapping files are live is decided from their key columns alone. The answer for a split depends only on
its files and their vectors, which never change: it is kept, within bounds, for the process. Spark's scan then drops the
other rows by a join on the file name with bitmaps of them.

Spec: docs/spec/reading.md#live-rows
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bucketlake.format.metadata.manifest import DataFile
from bucketlake.lsm.engines.rules import engine_of, order_of
from bucketlake.lsm.levels import key_range_of, sections
from bucketlake.lsm.live_rows import live_rows
from bucketlake.lsm.merge import BlockSize
from bucketlake.ops.rows.deletions import (
    Mask,
    Words,
    dead_words,
    deleted_mask,
    load_all_deletions,
    load_deletions,
    packed,
)
from bucketlake.ops.rows.key_bounds import within_bounds
from bucketlake.ops.rows.one_file import file_layout, read_file
from bucketlake.ops.table.cache import Cache
from bucketlake.ops.table.decoded import identity
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import KIND_FIELD, SEQUENCE_FIELD
from bucketlake.spark.cluster import ensure_package, parallelism, run_values, unpickled
from bucketlake.spark.read.native import FileAt, files_at
from bucketlake.spark.read.placed import MOST_LOOKED_UP, scan_without
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

DRIVER_ROWS = 50_000_000  # above this, Spark's tasks read the keys
BITMAP_BYTES = 256 << 20  # of one scan; they travel with its plan
CACHE_BYTES = 256 << 20
_CACHE = Cache(CACHE_BYTES)  # which rows of a split are dead
BLOCK = BlockSize(rows=1 << 19, bytes=64 << 20)
_NONE: Words = np.zeros(0, np.uint64)
Dead = dict[
    str, Words
]  # by the name of a split's file: bit i & 63 of word i >> 6 is set if row i is superseded or a delete


@dataclass(frozen=True, slots=True)
class Decision:
    """What a scan does with the files of its splits: `whole` are read as they are, of those in `dropped` the rows set
    in the bitmap are left out, and files in neither have no live row."""

    whole: list[FileAt] = field(default_factory=list)
    dropped: list[tuple[FileAt, Words]] = field(default_factory=list)

    def take(self, store: Store, split: Split, dead: Dead) -> None:
        """Add the files of a split. `dead`: by the names of its files, which lie in one bucket."""
        for found in files_at(store, split):
            words = dead.get(found.file.file_name)
            if words is None:
                self.whole.append(found)
            elif len(words):
                self.dropped.append((found, words))

    def beside(self, raw: list[FileAt]) -> list[FileAt]:
        """Those of the files, read as they are, that need a scan of their own. Few are read with the others, less no
        row: Spark plans what follows a union once for each side, a semi-join with all that it is joined to."""
        few = len(raw) + len(self.dropped) <= MOST_LOOKED_UP and all(found.format == "parquet" for found in raw)
        if not self.dropped or not few or _rows(raw) > _rows([found for found, _ in self.dropped]):
            return raw
        self.dropped.extend((found, _NONE) for found in raw)
        return []


def _rows(files: Sequence[FileAt]) -> int:
    return sum(found.file.row_count for found in files)


def is_markable(files: Sequence[FileAt]) -> bool:
    """Whether vectors of these raw files can be put to Spark's scan, which gives row positions of parquet alone."""
    return (
        all(found.format == "parquet" for found in files)
        and sum(found.file.row_count for found in files) <= BITMAP_BYTES * 8
    )


def mark(store: Store, splits: Sequence[Split], decision: Decision) -> None:
    """Add raw splits to a decision: their deletion vectors say what is left out.

    Raises NotFoundError or CorruptError for index files that are gone or damaged.
    """
    for split, vectors in zip(splits, load_all_deletions(store, [split.deletions for split in splits]), strict=True):
        dead: Dead = {}
        for file in split.files:
            vector = vectors.get(file.file_name)
            if vector is not None and len(vector):
                words = dead_words(vector, file, split.deletions[file.file_name].path)
                dead[file.file_name] = words if len(vector) < file.row_count else words[:0]
        decision.take(store, split, dead)


def is_decidable(store: Store, files: Sequence[FileAt]) -> bool:
    """Whether live rows say it all: a merge engine that picks rows, and files whose scan gives row positions."""
    return (
        not store.schema.clustered
        and not engine_of(store.schema, store.options).computes
        and all(found.format == "parquet" for found in files)
        and sum(found.file.row_count for found in files) <= BITMAP_BYTES * 8
    )


def decide(spark: SparkSession, store: Store, splits: Sequence[Split]) -> Decision:
    """Which rows of these merge splits are live; answers known from before cost nothing."""
    answers: dict[Hashable, Dead | None] = {_key(store, split): _CACHE.get(_key(store, split)) for split in splits}
    unknown = [split for split in splits if answers[_key(store, split)] is None]
    if sum(split.row_count for split in unknown) > DRIVER_ROWS:
        found = _in_tasks(spark, store, unknown)
    else:
        found = parallel(lambda split: dead_rows(store, split), unknown, parallelism(spark))
    for split, dead in zip(unknown, found, strict=True):
        answers[_key(store, split)] = dead
        _CACHE.put(_key(store, split), _weight(dead), dead)
    decision = Decision()
    for split in splits:
        decision.take(store, split, answers[_key(store, split)] or {})
    return decision


def filtered(
    spark: SparkSession, store: Store, dropped: Sequence[tuple[FileAt, Words]], fields: Sequence[DataField]
) -> DataFrame:
    """The rows of parquet files less those that the bitmaps beside them name. SQL alone: no Python sees a row."""
    words = [found.view(np.int64) for _, found in dropped]
    offsets = np.concatenate([[0], np.cumsum([len(found) for found in words])]).astype(np.int32)
    bits = pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.concatenate(words)))
    return scan_without(spark, store, [found for found, _ in dropped], fields, bits, _is_dead)


def _is_dead(bits: Column, row: Column) -> Column:
    word = F.try_element_at(bits, F.shiftright(row, 6).cast("int") + 1)
    return F.coalesce(F.bit_get(word, row.bitwiseAND(63).cast("int")).cast("int"), F.lit(0)) == 1


def dead_rows(store: Store, split: Split) -> Dead:
    """By file: the rows that a merge leaves out, and those that deletion vectors keep from it. No entry: all rows live;
    an empty one: none does. Trailing words without a bit set are left out.
    """
    schema = store.schema
    engine, order = engine_of(schema, store.options), order_of(schema, store.options)
    deleted = _deleted(store, split)
    found: Dead = {}
    for section in sections(split.files, key_range_of(schema.key_fields)):
        runs = [_keys(store, split, run.files, deleted) for run in section]
        for run, live in zip(section, live_rows(runs, order, engine, block=BLOCK), strict=True):
            start = 0
            for file in run.files:
                mask = np.ones(file.row_count, np.bool_)
                merged = ~deleted[file.file_name] if file.file_name in deleted else slice(None)
                stop = start + len(mask[merged])
                mask[merged] = ~live.mask(start, stop)
                start = stop
                if mask.all():
                    found[file.file_name] = np.zeros(0, np.uint64)
                elif mask.any():
                    found[file.file_name] = packed(mask)
    return found


def forget() -> None:
    """Drop all answers kept in this process (tests, benchmarks)."""
    _CACHE.clear()


def _deleted(store: Store, split: Split) -> dict[str, Mask]:
    """By file what its deletion vector keeps from the merge."""
    vectors = load_deletions(store, split.deletions)
    files = [file for file in split.files if file.file_name in vectors]
    return {f.file_name: deleted_mask(vectors[f.file_name], f, split.deletions[f.file_name].path) for f in files}


def _keys(
    store: Store, split: Split, files: Sequence[DataFile], deleted: Mapping[str, Mask]
) -> Iterator[pa.RecordBatch]:
    """Key columns, what orders rows of a key, and kind of a run, every row that is not deleted, in order."""
    sequence = order_of(store.schema, store.options).sequence
    fields = [*store.schema.key_fields, SEQUENCE_FIELD, KIND_FIELD, *sequence]
    for file in files:
        layout = file_layout(store, file, fields)
        path = store.paths.file_path(split.bucket_path, file)
        rows = read_file(store, path, layout, None, deleted.get(file.file_name))
        yield from within_bounds(store, split.bucket_path, file, map(layout.rows, rows))


def _in_tasks(spark: SparkSession, store: Store, splits: Sequence[Split]) -> list[Dead]:
    ensure_package(spark)
    numbered = list(enumerate(splits))

    def action(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, Dead]]:
        for number, split in unpickled(batches):
            yield number, dead_rows(store, split)

    answers = dict(run_values(spark, numbered, action))
    return [answers[number] for number, _ in numbered]


def _key(store: Store, split: Split) -> Hashable:
    order = order_of(store.schema, store.options)
    rule = f"{engine_of(store.schema, store.options)} {order.descending} {[item.name for item in order.sequence]}"
    vectors = (f"{name} {place.path} {place.range.offset}" for name, place in sorted(split.deletions.items()))
    files = (f"{file.external_path or file.file_name} {file.file_size} {file.creation_time}" for file in split.files)
    return (identity(store.env.storage), rule, split.bucket_path, *files, *vectors)


def _weight(dead: Dead) -> int:
    return sum(words.nbytes + 200 for words in dead.values()) + 200
