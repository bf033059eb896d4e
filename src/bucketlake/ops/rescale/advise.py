"""How many buckets a partition should have, from metadata alone: pure, so it can be simulated at any scale.

    advise(store) -> [BucketAdvice]                     one a partition, largest first
    can_rescale(schema)                                 whether numbers can be changed at all
    recommended(buckets, size, rows) -> (number, why)   the rule

Spec: docs/spec/rescale.md#advice
"""

from __future__ import annotations

from collections.abc import Iterable
from math import log2

from bucketlake.amounts import size_text
from bucketlake.format.metadata.manifest import ManifestEntry
from bucketlake.ops.scan.scan import EntryFilter, live_entries
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import BucketMode, TableSchema
from bucketlake.values import dataclass

TARGET_BYTES = 512 << 20
TARGET_ROWS = 10_000_000
FULL = 2.0  # times the target: from here on a bucket is too large
EMPTY = 0.4  # of the target: up to here it is too small
SKEWED = 2.0
MOST_BUCKETS = 32_767


@dataclass(frozen=True, slots=True)
class BucketAdvice:
    """What a partition holds and how many buckets it should have. `partition`: column → text, as SQL casts the value;
    `rows`, `bytes`: of the files, superseded rows included; `buckets`: as its files count them, or that have files
    where they do not; `skew`: the largest bucket over the mean; `sorted_runs`: most that a bucket has (files, in append
    tables)."""

    key: bytes
    partition: dict[str, str]
    rows: int
    bytes: int
    buckets: int
    skew: float
    sorted_runs: int
    recommended: int
    reason: str


def advise(store: Store) -> list[BucketAdvice]:
    """Advice on every partition of the newest snapshot, largest first; pending postpone files are left out."""
    snapshot = store.latest_snapshot()
    groups: dict[bytes, list[ManifestEntry]] = {}
    for entry in live_entries(store, snapshot, EntryFilter(min_bucket=0)) if snapshot is not None else ():
        groups.setdefault(entry.partition, []).append(entry)
    found = [_of(store, partition, entries) for partition, entries in groups.items()]
    return sorted(found, key=lambda advice: advice.bytes, reverse=True)


def _of(store: Store, partition: bytes, entries: list[ManifestEntry]) -> BucketAdvice:
    keyed = bool(store.schema.primary_keys)
    sizes: dict[int, int] = {}
    runs: dict[int, set[object]] = {}
    for entry in entries:
        sizes[entry.bucket] = sizes.get(entry.bucket, 0) + entry.file.file_size
        alone = not keyed or entry.file.level == 0
        runs.setdefault(entry.bucket, set()).add(entry.file.file_name if alone else entry.file.level)
    size, rows = sum(sizes.values()), sum(entry.file.row_count for entry in entries)
    total = max(entry.total_buckets for entry in entries)
    buckets = total if total > 0 else len(sizes)
    skew = max(sizes.values()) * buckets / size if size else 1.0
    number, reason = _reasoned(store, buckets, size, rows)
    if skew > SKEWED and buckets > 1:
        reason += f"; the largest bucket has {skew:.1f} times the mean: few keys hold much of the data"
    most = max(len(found) for found in runs.values())
    texts = store.paths.shown_texts(partition)
    return BucketAdvice(partition, texts, rows, size, buckets, round(skew, 3), most, number, reason)


def _reasoned(store: Store, buckets: int, size: int, rows: int) -> tuple[int, str]:
    mode = store.schema.bucket_mode
    if mode is BucketMode.UNAWARE:
        return buckets, "the table has no buckets"
    if mode not in (BucketMode.FIXED, BucketMode.POSTPONE):
        return buckets, "dynamic buckets are opened as keys arrive: see dynamic-bucket.target-row-num"
    if not can_rescale(store.schema):
        return buckets, "tables with 'pk-clustering-override' are not rescaled"
    return recommended(buckets, size, rows)


def can_rescale(schema: TableSchema) -> bool:
    """Whether the table's partitions can be given other numbers of buckets."""
    return schema.bucket_mode in (BucketMode.FIXED, BucketMode.POSTPONE) and not schema.clustered


def recommended(buckets: int, size: int, rows: int) -> tuple[int, str]:
    """The number of buckets for so many bytes and rows, and why.

    It stays between two fifths and twice the target a bucket. Beyond, it is the multiple by a power of two, or the
    divisor, of the present number that comes closest to the target: buckets are split or joined whole, and what it
    gives is itself left as it is.
    Spec: docs/spec/rescale.md#advice
    """
    load = max(size / TARGET_BYTES, rows / TARGET_ROWS)
    each = f"a bucket holds {_held(size, rows, buckets)}"
    if EMPTY * buckets <= load <= FULL * buckets:
        return buckets, f"{each}: as it should be"
    choices = _finer(buckets) if load > FULL * buckets else _coarser(buckets, load)
    best = min(choices, key=lambda number: (abs(log2(max(load, 1e-9) / number)), number))
    if best == buckets:
        return buckets, f"{each}: no other number fits better"
    word = "too much" if best > buckets else "too little"
    return best, f"{each}, {word}: with {best} it would hold {_held(size, rows, best)}"


def _held(size: int, rows: int, buckets: int) -> str:
    each = rows / buckets
    counted = "less than one row" if 0 < each < 1 else "one row" if each == 1 else f"{each:,.0f} rows"
    return f"{size_text(size / buckets)} and {counted}"


def _finer(buckets: int) -> Iterable[int]:
    number = buckets
    while number <= max(MOST_BUCKETS, buckets):
        yield number
        number *= 2


def _coarser(buckets: int, load: float) -> Iterable[int]:
    """Divisors that would not be too few in their turn."""
    return [number for number in range(1, buckets + 1) if buckets % number == 0 and load <= FULL * number]


def numbers_due(store: Store) -> dict[bytes, int]:
    """The partitions whose number should change by a factor of two or more, with the new number."""
    return {
        advice.key: advice.recommended
        for advice in advise(store)
        if advice.recommended >= 2 * advice.buckets or 2 * advice.recommended <= advice.buckets
    }
