"""Pending files whose rows are sorted already, all of one bucket: they become level-0 files without being encoded anew.

    placed_whole(store, Pending(partition, total_buckets, files, share), first_number) -> list[CommitMessage] | None

A load in the order of keys leaves such files, since large ones hold rows of one residue (`ops.rows.residues`). Their
keys and row kinds are read; sequence numbers are given anew, all else is copied as bytes. None, and nothing is
written, wherever sorting and merging could make other files of the rows: then they have to be sorted and merged. The
first rows that tell so end the look.

Spec: docs/spec/postpone.md#compaction
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from bucketlake.file_names import own_uuid
from bucketlake.format.data.column_rewrite import Joining, Part, join_files
from bucketlake.format.data.datafile import Recorded, file_format
from bucketlake.format.data.file_format import format_of
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.row.hashing import assign_buckets
from bucketlake.lsm.keys import Bound, KeyOrder
from bucketlake.ops.progress import refuse_stopped
from bucketlake.ops.rows.one_file import file_layout, keeps_columns, read_file
from bucketlake.ops.rows.places import Places
from bucketlake.ops.rows.residues import Share, residue_of
from bucketlake.ops.rows.roll import TARGET_KEYED, KeyRange, described_keyed, stats_modes, stored_key
from bucketlake.ops.table.made import MadeFiles, all_or_nothing
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.store import Store
from bucketlake.paths import POSTPONE_BUCKET
from bucketlake.schema.schema import KIND_FIELD, SEQUENCE_FIELD
from bucketlake.types.model import Root
from bucketlake.values import dataclass

JOINED_BYTES = 4 << 20  # of a file that is put before or behind others: many small row groups are slow to read
PLAIN = frozenset(
    {
        *(Root.BOOLEAN, Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.FLOAT, Root.DOUBLE, Root.DECIMAL),
        *(Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY),
        *(Root.DATE, Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ),
    }
)


@dataclass(frozen=True, slots=True)
class Pending:
    """Pending files of one partition, in their order, that may hold rows of a share of its buckets."""

    partition: bytes
    total_buckets: int
    files: tuple[DataFile, ...]
    share: Share


@dataclass(frozen=True, slots=True)
class _Sorted:
    """A file whose keys ascend, all in one bucket: its first and last key, as they are compared and as manifests have
    them, and the sequence number of its first row."""

    file: DataFile
    bucket: int
    bounds: tuple[Bound, Bound]
    keys: tuple[bytes, bytes]
    first: int = 0


_Buckets = dict[int, list[list[_Sorted]]]


def placed_whole(store: Store, pending: Pending, first_number: Callable[[int], int]) -> list[CommitMessage] | None:
    """Write level-0 files of all these files' rows; one message a bucket. `first_number`: of a bucket's rows.

    Raises CorruptError for files that hold other rows than is said of them, NotFoundError, StorageError; then the files
    written are removed."""
    if not _takes_whole(store) or not all(keeps_columns(store, file) for file in pending.files):
        return None
    if len(pending.files) * pending.share[1] > pending.total_buckets and any(map(_is_small, pending.files)):
        return None  # some are joined; no need to open a thousand files to know it
    buckets = _by_bucket(store, pending, first_number)
    if buckets is None:
        return None
    made = MadeFiles(store)
    with all_or_nothing([made]):
        messages = []
        for bucket, groups in buckets.items():
            files = _written(store, pending.partition, bucket, groups)
            made.add(pending.partition, bucket, files)
            if len(files) < len(groups):
                made.abort()
                return None
            messages.append(CommitMessage(pending.partition, bucket, pending.total_buckets, tuple(files)))
        return messages


def _takes_whole(store: Store) -> bool:
    """Whether writing a row of this table that no other has the key of leaves it as it is, and tells no one."""
    schema, options = store.schema, store.options
    return (
        options.get("merge-engine") == "deduplicate"
        and options.get("changelog-producer") != "input"
        and not options.get("sequence.snapshot-ordering")
        and not schema.clustered
        and not schema.tracks_rows
        and all(item.type.root in PLAIN and item.default is None for item in schema.fields)
    )


def _is_small(file: DataFile) -> bool:
    return file.file_size < JOINED_BYTES


def _by_bucket(store: Store, pending: Pending, first_number: Callable[[int], int]) -> _Buckets | None:
    """The files of each bucket, in groups that one file takes, in the order of their keys; None where rows have to be
    sorted or merged."""
    found: dict[int, list[_Sorted]] = {}
    share, shares = pending.share
    for file in pending.files:
        one = _sorted(store, pending, file)
        if one is None or one.bucket % shares != share:
            return None
        before = found.setdefault(one.bucket, [])
        number = before[-1].first + before[-1].file.row_count if before else first_number(one.bucket)
        before.append(replace(one, first=number))
    buckets = {}
    for bucket, files in found.items():
        files.sort(key=lambda one: one.bounds[0])
        if any(not one.bounds[1] < other.bounds[0] for one, other in pairwise(files)):
            return None
        if len(files) > 1 and any(_is_small(one.file) for one in files):
            return None
        groups = _groups(store, files)
        if groups is None:
            return None
        buckets[bucket] = groups
    return buckets


def _sorted(store: Store, pending: Pending, file: DataFile) -> _Sorted | None:
    """What a file's rows are, if they are inserts of one bucket whose keys ascend."""
    schema, total = store.schema, pending.total_buckets
    keys, places = schema.select(schema.trimmed_primary_keys), schema.select(schema.bucket_keys)
    order, residue, function = KeyOrder(keys), residue_of(store, file), store.options.get("bucket-function.type")
    layout = file_layout(store, file, [*keys, KIND_FIELD])
    path = store.paths.file_path(store.paths.bucket_dir(pending.partition, POSTPONE_BUCKET), file)
    found: _Sorted | None = None
    for batch in read_file(store, path, layout, None):
        rows = layout.rows(batch)
        if not rows.num_rows:
            continue
        if any(column.null_count for column in rows.columns) or rows.column(KIND_FIELD.name).to_numpy().any():
            return None
        view = order.view(rows)
        first, last = view.at(0), view.at(rows.num_rows - 1)
        if not order.is_strict(rows) or (found is not None and not found.bounds[1] < first):
            return None
        buckets = np.asarray(assign_buckets(rows, places, total, function), np.int64)
        if residue is not None:
            residue.check(buckets, total, file)
        bucket = int(buckets[0]) if found is None else found.bucket
        if (buckets != bucket).any():
            return None
        high = stored_key(rows.slice(rows.num_rows - 1), keys)
        if found is None:
            found = _Sorted(file, bucket, (first, last), (stored_key(rows.slice(0, 1), keys), high))
        else:
            found = replace(found, bounds=(found.bounds[0], last), keys=(found.keys[0], high))
    return found


def _groups(store: Store, files: Sequence[_Sorted]) -> list[list[_Sorted]] | None:
    """The files that are joined to one each, in their order; None where one holds more than a new file may."""
    target = store.options.get("target-file-size") or TARGET_KEYED
    most = store.options.get("target-file-row-num")
    groups: list[list[_Sorted]] = []
    size = rows = 0
    for one in files:
        if one.file.row_count > most or one.file.file_size > 2 * target:  # closed files are a little above the target
            return None
        size, rows = size + one.file.file_size, rows + one.file.row_count
        if not groups or size > target or rows > most:
            groups.append([])
            size, rows = one.file.file_size, one.file.row_count
        groups[-1].append(one)
    return groups


def _written(store: Store, partition: bytes, bucket: int, groups: Sequence[Sequence[_Sorted]]) -> list[DataFile]:
    """A bucket's new files; fewer than groups where a pending file cannot be taken over. On failure none stays."""
    schema, form = store.schema, file_format(store.options)
    places, unique = Places(store, partition, bucket), own_uuid(store.env.clock.new_uuid())
    modes = stats_modes(schema, store.options)
    joining = Joining(schema.file_fields, modes, form, SEQUENCE_FIELD, refuse_stopped)
    pending = store.paths.bucket_dir(partition, POSTPONE_BUCKET)
    files: list[DataFile] = []
    made = MadeFiles(store)
    with all_or_nothing([made]):
        for number, group in enumerate(groups):
            parts = [Part(_recorded(store.paths.file_path(pending, one.file), one.file), one.first) for one in group]
            name = store.paths.data_file_name(unique, number, form.name, form.compression, False)
            place = places.next(name)
            written = join_files(store.env.storage, parts, place.path, joining)
            if written is None:
                break
            last = max(one.first + one.file.row_count for one in group) - 1
            bounds = KeyRange(group[0].keys[0], group[-1].keys[1], min(one.first for one in group), last)
            file = replace(described_keyed(store, written, bounds), external_path=place.external)
            made.add(partition, bucket, [file])
            files.append(file)
    return files


def _recorded(path: str, file: DataFile) -> Recorded:
    return Recorded(path, format_of(file.file_name), file.file_size, file.row_count)
