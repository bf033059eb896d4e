"""Which blob files become one (`blob-compaction.enabled`), as Apache Paimon chooses them.

    merges(files, target)             pure: of one column
    with_blobs(store, units, groups)  units of a compaction of columns, with the blob files of their rows

Files that hold values of the same rows become one, whatever their size; else small ones that lie side by side.
Spec: docs/spec/blob.md#compacting-blob-files
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from bucketlake.format.data.blob import is_blob
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.ops.compact.column_units import ColumnUnit, Groups
from bucketlake.ops.rows.column_files import held
from bucketlake.ops.table.entries import BucketKey
from bucketlake.ops.table.store import Store

FEWEST = 2
LARGE = 256 << 20


def with_blobs(store: Store, units: Sequence[ColumnUnit], groups: Groups) -> list[ColumnUnit]:
    """The units, each with the blob files of its rows that become one, and units of such files alone. Files of
    different groups are merged where these are."""
    options = store.options
    target = options.get("blob.target-file-size") or options.get("target-file-size") or LARGE
    found = []
    taken: set[tuple[BucketKey, int | None]] = set()
    for unit in units:
        key = unit.partition, unit.bucket
        by_first = {group[0].first_row_id: group for group in groups.of[key]}
        own = []
        for merged in unit.bins:
            firsts = [group[0].first_row_id for group in merged]
            taken.update((key, first) for first in firsts)
            own += _merges_of(store, chain.from_iterable(by_first[first] for first in firsts), target)
        found.append(replace(unit, blobs=tuple(own)))
    for key, every in groups.of.items():
        for group in every:
            own = [] if (key, group[0].first_row_id) in taken else _merges_of(store, group, target)
            if own:
                found.append(ColumnUnit(*key, groups.totals[key], (), groups.snapshot_id, (), tuple(own)))
    return found


def _merges_of(store: Store, files: Iterable[DataFile], target: int) -> list[tuple[DataFile, ...]]:
    present = {item.id for item in store.schema.blob_fields}
    columns: dict[int, list[DataFile]] = {}
    for file in files:
        if is_blob(file.file_name):
            for item in held(store.schema_of(file.schema_id), file):
                if item.id in present:
                    columns.setdefault(item.id, []).append(file)
    return [found for own in columns.values() for found in merges(own, target)]


def merges(files: Iterable[DataFile], target: int) -> list[tuple[DataFile, ...]]:
    """Which files of one column become one, each time. `target`: bytes of a file that is left alone, and that is
    enough."""
    found: list[tuple[DataFile, ...]] = []
    side: list[DataFile] = []
    for own in _overlapping(files):
        if len(own) >= FEWEST:
            found.append(tuple(own))
        else:
            side += own
    for run in _runs(side, target):
        waiting: list[DataFile] = []
        size = 0
        for file in run:
            waiting.append(file)
            size += file.file_size
            if size >= target and len(waiting) >= FEWEST:
                found.append(tuple(waiting))
                waiting, size = [], 0
        if len(waiting) >= FEWEST:
            found.append(tuple(waiting))
    return found


def _overlapping(files: Iterable[DataFile]) -> Iterator[list[DataFile]]:
    """Files that share rows with one another, by ascending row id."""
    own: list[DataFile] = []
    end = 0
    for file in sorted(files, key=lambda file: (file.first_row_id or 0, file.max_sequence_number)):
        first = file.first_row_id or 0
        if own and first >= end:
            yield own
            own = []
        end = max(end, first + file.row_count) if own else first + file.row_count
        own.append(file)
    if own:
        yield own


def _runs(files: Iterable[DataFile], target: int) -> Iterator[list[DataFile]]:
    """Files smaller than the target that lie side by side."""
    run: list[DataFile] = []
    end = -1
    for file in files:
        if run and (file.first_row_id != end or file.file_size >= target):
            yield run
            run = []
        if file.file_size < target:
            run.append(file)
            end = (file.first_row_id or 0) + file.row_count
    if run:
        yield run
