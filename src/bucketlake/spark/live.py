"""Merge-on-read without moving rows: which rows of overlapping files are live, decided from their key columns alone.

The answer for a split depends only on its files, which never change: it is kept, within bounds, for the process.
Spark's scan then drops the other rows by a join on the file name with bitmaps of what is superseded.

Spec: docs/spec/reading.md#live-rows
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bucketlake.format.binary_row import decode_row, without_arity_header
from bucketlake.format.manifest import DataFile
from bucketlake.lsm.keys import Bound, KeyOrder
from bucketlake.lsm.levels import sections
from bucketlake.lsm.live import live_rows
from bucketlake.lsm.merge import BlockSize
from bucketlake.ops.messages import Split
from bucketlake.ops.read import file_layout, read_file
from bucketlake.ops.store import Store, parallel
from bucketlake.schema import KIND_FIELD, SEQUENCE_FIELD
from bucketlake.spark.cluster import ensure_package, parallelism, run_tasks, spread, unpickled
from bucketlake.spark.native import FILE_NAME, ROW_INDEX, FileAt

DRIVER_ROWS = 50_000_000  # above this, Spark's tasks read the keys
BITMAP_BYTES = 256 << 20  # of one scan; they travel with its plan
CACHE_BYTES = 256 << 20
BLOCK = BlockSize(rows=1 << 19, bytes=64 << 20)
_BITS = "__bucketlake_superseded"
_NAME = "__bucketlake_name"

Words = npt.NDArray[np.uint64]
Dead = dict[str, Words]  # by file name: bit i & 63 of word i >> 6 is set if row i is superseded or a delete


@dataclass(frozen=True, slots=True)
class Decision:
    """What a scan does with the files of its merge splits: `whole` are read as they are, of those in `dropped` the
    rows set in the bitmap are left out, and files in neither have no live row."""

    whole: list[str] = field(default_factory=list)
    dropped: Dead = field(default_factory=dict)


def is_decidable(store: Store, files: Sequence[FileAt]) -> bool:
    """Whether live rows say it all: a merge engine that picks rows, and files whose scan gives row positions."""
    return (
        store.options.get("merge-engine") == "deduplicate"
        and not store.options.is_set("sequence.field")
        and all(found.format == "parquet" for found in files)
        and sum(found.file.row_count for found in files) <= BITMAP_BYTES * 8
    )


def decide(spark: SparkSession, store: Store, splits: Sequence[Split]) -> Decision:
    """Which rows of these merge splits are live; answers known from before cost nothing."""
    answers = {_key(split): _CACHE.get(_key(split)) for split in splits}
    unknown = [split for split in splits if answers[_key(split)] is None]
    if sum(split.row_count for split in unknown) > DRIVER_ROWS:
        found = _in_tasks(spark, store, unknown)
    else:
        found = parallel(lambda split: dead_rows(store, split), unknown, parallelism(spark))
    for split, dead in zip(unknown, found, strict=True):
        answers[_key(split)] = dead
        _CACHE.put(_key(split), dead)
    decision = Decision()
    for split in splits:
        dead = answers[_key(split)] or {}
        for file in split.files:
            words = dead.get(file.file_name)
            if words is None:
                decision.whole.append(file.file_name)
            elif len(words):
                decision.dropped[file.file_name] = words
    return decision


def filtered(spark: SparkSession, frame: DataFrame, decision: Decision) -> DataFrame:
    """The live rows of a scan with positions. SQL alone: no Python sees a row."""
    values = [words.view(np.int64) for words in decision.dropped.values()]
    offsets = np.concatenate([[0], np.cumsum([len(words) for words in values])]).astype(np.int32)
    bits = pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.concatenate(values)))
    names = pa.array(list(decision.dropped), pa.string())
    bitmaps = spark.createDataFrame(pa.table({_NAME: names, _BITS: bits}))
    row = F.col(ROW_INDEX)
    word = F.try_element_at(F.col(_BITS), F.shiftright(row, 6).cast("int") + 1)
    dead = F.coalesce(F.bit_get(word, row.bitwiseAND(63).cast("int")), F.lit(0))
    return frame.join(F.broadcast(bitmaps), F.col(FILE_NAME) == F.col(_NAME), "left").where(dead == 0)


def dead_rows(store: Store, split: Split) -> Dead:
    """By file: the rows that a merge leaves out. No entry: all rows live; an empty one: none does. Trailing words
    without a bit set are left out.
    """
    schema = store.schema
    order = KeyOrder(schema.key_fields)
    types = [item.type for item in schema.key_fields]

    def key_range(file: DataFile) -> tuple[Bound, Bound]:
        low, high = (decode_row(without_arity_header(key), types) for key in (file.min_key, file.max_key))
        return order.bound(low), order.bound(high)

    found: Dead = {}
    for section in sections(split.files, key_range):
        runs = [_keys(store, split, run.files) for run in section]
        for run, live in zip(section, live_rows(runs, order, block=BLOCK), strict=True):
            start = 0
            for file in run.files:
                mask = ~live.mask(start, start + file.row_count)
                start += file.row_count
                if mask.all():
                    found[file.file_name] = np.zeros(0, np.uint64)
                elif mask.any():
                    found[file.file_name] = _packed(mask)
    return found


def forget() -> None:
    """Drop all answers kept in this process (tests, benchmarks)."""
    _CACHE.clear()


def _keys(store: Store, split: Split, files: Sequence[DataFile]) -> Iterator[pa.RecordBatch]:
    """Key columns, sequence and kind of a run, every row, in order."""
    fields = [*store.schema.key_fields, SEQUENCE_FIELD, KIND_FIELD]
    for file in files:
        layout = file_layout(store, file, fields)
        path = store.paths.file_path(split.bucket_path, file)
        for batch in read_file(store, path, layout, None):
            yield layout.rows(batch)


def _packed(mask: npt.NDArray[np.bool_]) -> Words:
    octets = np.packbits(mask, bitorder="little")
    padded = np.zeros(-(-len(octets) // 8) * 8, np.uint8)
    padded[: len(octets)] = octets
    return np.trim_zeros(padded.view(np.uint64), "b")


def _in_tasks(spark: SparkSession, store: Store, splits: Sequence[Split]) -> list[Dead]:
    ensure_package(spark)
    numbered = list(enumerate(splits))

    def action(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, Dead]]:
        for number, split in unpickled(batches):
            yield number, dead_rows(store, split)

    answers = dict(run_tasks(spread(spark, numbered), action))
    return [answers[number] for number, _ in numbered]


def _key(split: Split) -> tuple[str, ...]:
    return tuple(file.file_name for file in split.files)


class _Answers:
    """Answers by the names of a split's files, least recently used out first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._items: OrderedDict[tuple[str, ...], Dead] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, key: tuple[str, ...]) -> Dead | None:
        with self._lock:
            found = self._items.get(key)
            if found is not None:
                self._items.move_to_end(key)
            return found

    def put(self, key: tuple[str, ...], dead: Dead) -> None:
        with self._lock:
            self._drop(key)
            self._items[key] = dead
            self._size += _weight(dead)
            while self._size > self._capacity and len(self._items) > 1:
                self._drop(next(iter(self._items)))

    def clear(self) -> None:
        with self._lock:
            self._items.clear()
            self._size = 0

    def _drop(self, key: tuple[str, ...]) -> None:
        dropped = self._items.pop(key, None)
        self._size -= _weight(dropped) if dropped is not None else 0


def _weight(dead: Dead) -> int:
    return sum(words.nbytes + 200 for words in dead.values()) + 200


_CACHE = _Answers(CACHE_BYTES)
