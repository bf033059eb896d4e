"""Keys that live in two places: in two buckets of a dynamic table, in two partitions of one whose keys cross them.

Keys are compared by ranges of their hashes, so that memory is bounded whatever the table's size; each range is a unit
of work, and reads the key columns of all files concerned.

Spec: docs/maintenance.md#levels
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from bucketlake.errors import BucketlakeError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.lsm.key_run import Keys
from bucketlake.ops.check.findings import Finding, Findings, Place
from bucketlake.ops.check.reach import partition_text
from bucketlake.ops.check.roots import attempted
from bucketlake.ops.key_index.key_scan import key_fields, key_splits
from bucketlake.ops.rows.read import read_split
from bucketlake.ops.table.entries import BucketKey
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import BucketMode
from bucketlake.values import dataclass

SPAN_ROWS = 10_000_000  # rows whose keys are held at once
HASHES = 1 << 32


@dataclass(frozen=True, slots=True)
class PlaceUnit:
    """Live files whose keys are compared, those with low <= hash < high."""

    splits: tuple[Split, ...]
    span: tuple[int, int]

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(split.size for split in self.splits)


def place_units(store: Store, snapshot: Snapshot | None) -> list[PlaceUnit]:
    """The comparisons to make, none for tables whose keys have one place by their hash."""
    mode = store.schema.bucket_mode
    if snapshot is None or mode not in (BucketMode.DYNAMIC, BucketMode.KEY_DYNAMIC):
        return []
    splits = attempted(lambda: key_splits(store, snapshot))
    if isinstance(splits, BucketlakeError):
        return []  # told from metadata
    groups: dict[bytes, list[Split]] = {}
    for split in splits:
        groups.setdefault(split.partition if mode is BucketMode.DYNAMIC else b"", []).append(split)
    found = []
    for group in groups.values():
        if len({(split.partition, split.bucket) for split in group}) > 1:
            parts = 1 + sum(split.row_count for split in group) // SPAN_ROWS
            edges = [HASHES * number // parts for number in range(parts + 1)]
            found += [PlaceUnit(tuple(group), span) for span in pairwise(edges)]
    return found


def check_places(store: Store, unit: PlaceUnit) -> tuple[Finding, ...]:
    """The keys of a unit that live in two places. Files that cannot be read are left out: others tell of them."""
    fields = key_fields(store)
    places: list[BucketKey] = []
    keys, marks = [Keys.none(fields)], [np.zeros(0, np.int32)]
    for split in unit.splits:
        read = attempted(lambda s=split: list(_keys(store, s, unit.span)))  # type: ignore[misc]
        if isinstance(read, BucketlakeError):
            continue
        place = (split.partition, split.bucket)
        if place not in places:
            places.append(place)
        for part in read:
            keys.append(part)
            marks.append(np.full(len(part), places.index(place), np.int32))
    return _twice(store, Keys.all_of(keys), np.concatenate(marks), places)


def _keys(store: Store, split: Split, span: tuple[int, int]) -> list[Keys]:
    found = []
    for batch in read_split(store, split, store.schema.primary_keys):
        keys = Keys.of(batch, key_fields(store))
        found.append(keys if span == (0, HASHES) else keys.take(keys.within(span)))
    return found


def _twice(store: Store, keys: Keys, marks: npt.NDArray[np.int32], places: Sequence[BucketKey]) -> tuple[Finding, ...]:
    """One finding for each pair of places that share keys."""
    codes, _ = keys.distinct()
    order = np.lexsort((marks, codes))
    same = (np.diff(codes[order]) == 0) & (np.diff(marks[order]) != 0)
    hits = np.flatnonzero(same)
    pairs = np.stack([marks[order[hits]], marks[order[hits + 1]]], 1)
    findings = Findings()
    distinct, first, counts = np.unique(pairs, axis=0, return_index=True, return_counts=True)
    for (one, two), at, count in zip(distinct.tolist(), first.tolist(), counts.tolist(), strict=True):
        (partition, bucket), (other, another) = places[one], places[two]
        key = keys.values[int(order[hits[at]])].as_py()
        shown = key.hex() if isinstance(key, bytes) else str(key)
        within = partition == other
        where = f"bucket {another}" if within else f"partition {partition_text(store, other)}, bucket {another}"
        place = Place(None, partition, partition_text(store, partition), bucket, other=another)
        code = "key-two-buckets" if within else "key-two-partitions"
        findings.add(code, f"{count} keys lie in {where}, too; one is {shown}", place, count)
    return findings.listed()
