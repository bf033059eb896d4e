"""Building the key index of a large cross-partition table in Spark's tasks.

Tasks read the key columns of splits; the keys are brought together by ranges of their hashes, and the task that has a
range writes the file of it. Only what the one collect brought is listed: retries leave files that nothing names.

Spec: docs/spec/cross_partition.md#reading-keys
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from bucketlake.format.index.key_index import LayerFile
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.lsm.key_run import DealtKeys, KeyIndex, KeyRun, Keys, is_whole
from bucketlake.ops.key_index.cache import Counts, build, building, shares
from bucketlake.ops.key_index.key_layers import write_layer_file
from bucketlake.ops.key_index.key_scan import SHOWN, Torn, key_fields, sorted_runs, sorting_shares, warn_of_torn
from bucketlake.ops.rows.read import read_split
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.store import Store
from bucketlake.spark.cluster import ensure_package, made_of, pack, parallelism, run_tasks, unpickled
from bucketlake.values import dataclass

DRIVER_ROWS = 50_000_000  # above this, Spark's tasks build the index
TASK_ROWS = 8 << 20  # keys that a task sorts
READERS = 4  # groups of splits for every task that runs at once


@dataclass(frozen=True, slots=True)
class PlacedSplit:
    """A split and the number of its place."""

    place: int
    split: Split

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return self.split.size


@dataclass(frozen=True, slots=True)
class WrittenLayers:
    """What a task made of a range of hashes. `counts`: keys by number of place; `torn`: how many keys lie in two
    places, `shown`: some of these."""

    file: LayerFile
    counts: Counts
    torn: int
    shown: list[object]


@dataclass(frozen=True)
class KeyReading:
    """Reads the keys of the splits that a task got: share of the hashes, hash, place and key of each."""

    store: Store
    shares: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One task."""
        fields = key_fields(self.store)
        lows = np.array([low for low, _ in shares(self.shares)[1:]], np.uint32)
        kind = pa.int64() if is_whole(fields) else pa.binary()
        for group in unpickled(batches):
            for placed in group:
                for batch in read_split(self.store, placed.split, self.store.schema.primary_keys):
                    keys = Keys.of(batch, fields)
                    columns = {
                        "share": pa.array(np.searchsorted(lows, keys.hashes, "right").astype(np.int32)),
                        "hash": pa.array(keys.hashes.view(np.int32)),
                        "place": pa.array(np.full(len(keys), placed.place, np.int32)),
                        "key": keys.values.cast(kind),
                    }
                    yield pa.record_batch(columns)


@dataclass(frozen=True)
class LayerWriting:
    """Writes the file of each share of the hashes that a task got: a task gets shares whole."""

    store: Store
    shares: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[WrittenLayers]:
        """One task."""
        kind = pa.int64() if is_whole(key_fields(self.store)) else pa.large_binary()
        found: dict[int, list[DealtKeys]] = {}
        parts = sorting_shares(TASK_ROWS)
        for batch in batches:
            numbers, hashes, places = (batch.column(at).to_numpy() for at in range(3))
            keys = Keys(hashes.view(np.uint32), batch.column(3).cast(kind))
            for share in np.unique(numbers).tolist():
                rows = np.flatnonzero(numbers == share)
                dealt = DealtKeys.of(keys.take(rows), places[rows], shares(self.shares)[share], parts)
                found.setdefault(share, []).append(dealt)
        for share, own in found.items():
            yield self._written(share, own, parts)

    def _written(self, share: int, dealt: Sequence[DealtKeys], parts: int) -> WrittenLayers:
        counts, torn = np.zeros(0, np.int64), Torn()

        def runs() -> Iterator[KeyRun]:
            nonlocal counts
            for run in sorted_runs(self.store, dealt, parts, torn):
                more = np.bincount(run.places, minlength=len(counts))
                more[: len(counts)] += counts
                counts = more
                yield run

        file = write_layer_file(self.store, runs(), shares(self.shares)[share])
        return WrittenLayers(file, counts, torn.count, torn.shown)


def build_index(spark: SparkSession, store: Store, snapshot: Snapshot) -> KeyIndex:
    """As `ops.key_index.cache.build`, in Spark's tasks where the table is large."""
    work = building(store, snapshot)
    if work.rows <= DRIVER_ROWS:
        return build(store, snapshot)
    ensure_package(spark)
    tasks = parallelism(spark)
    count = max(tasks, -(-work.rows // TASK_ROWS))
    placed = [PlacedSplit(work.numbers.number((split.partition, split.bucket)), split) for split in work.splits]
    key = "bigint" if is_whole(key_fields(store)) else "binary"
    keys = made_of(
        spark,
        pack(placed, tasks * READERS),
        KeyReading(store, count),
        f"share int, hash int, place int, key {key}",
    )
    written = run_tasks(keys.repartitionById(count, "share"), LayerWriting(store, count))
    counts = np.zeros(len(work.numbers.places), np.int64)
    for part in written:
        counts[: len(part.counts)] += part.counts
    shown = [value for part in written for value in part.shown]
    warn_of_torn(store, sum(part.torn for part in written), shown[:SHOWN])
    return work.index(store, counts, [part.file for part in written])
