"""Sequence numbers of a commit on a newer base: which are taken, and files numbered after them.

Spec: docs/spec/commit.md#sequence-numbers
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bucketlake.format.metadata.manifest import DataFile, ManifestEntry
from bucketlake.ops.rewrite.rebucket import renumbered
from bucketlake.ops.rows.one_file import read_key_values
from bucketlake.ops.rows.roll import rolled
from bucketlake.ops.table.entries import BucketKey, bucket_key, max_sequences
from bucketlake.ops.table.made import remove_files
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.store import Store
from bucketlake.paths import POSTPONE_BUCKET
from bucketlake.schema.schema import SEQUENCE_FIELD


def shifts(messages: Sequence[CommitMessage], base: Sequence[ManifestEntry]) -> dict[BucketKey, int]:
    """By how much the new files of each bucket must be renumbered to follow all that is committed; only buckets where
    that is needed. All messages of one bucket shift together, so tasks that numbered disjointly stay disjoint.

    Messages that delete files rewrite rows under the numbers that these have, and are left alone; so are messages with
    files that are live already, which are refused (or dropped) as they are.
    Spec: docs/spec/commit.md#sequence-numbers
    """
    committed = max_sequences(base)
    live = {(*bucket_key(entry), entry.file.file_name) for entry in base}
    lowest: dict[BucketKey, int] = {}
    for message in messages:
        key = (message.partition, message.bucket)
        if message.deleted_files or message.bucket == POSTPONE_BUCKET:
            continue
        if any((*key, file.file_name) in live for file in message.new_files):
            continue
        for file in message.new_files:
            lowest[key] = min(lowest.get(key, file.min_sequence_number), file.min_sequence_number)
    return {
        key: committed[key] + 1 - first for key, first in lowest.items() if key in committed and first <= committed[key]
    }


def shift_metadata(message: CommitMessage, delta: int) -> CommitMessage:
    """The message with its new files' sequence range moved by `delta`: right where rows do not hold their number
    (append tables)."""
    return replace(
        message,
        new_files=tuple(
            replace(
                file,
                min_sequence_number=file.min_sequence_number + delta,
                max_sequence_number=file.max_sequence_number + delta,
            )
            for file in message.new_files
        ),
    )


def renumber(store: Store, message: CommitMessage, next_sequence: int) -> CommitMessage:
    """The message with its new files numbered from `next_sequence`, gaps kept.

    Level-0 files of primary-key tables are written anew under new names (the caller deletes the old ones); append files
    only change in metadata. Compaction results and changelogs are left alone.
    """
    lowest = min((file.min_sequence_number for file in message.new_files), default=next_sequence)
    shift = next_sequence - lowest
    if shift == 0 or not message.new_files:
        return message
    if not store.schema.primary_keys:
        return replace(message, new_files=tuple(_shifted(file, shift) for file in message.new_files))
    files: list[DataFile] = []
    try:
        for file in message.new_files:
            files.extend(_rewritten(store, message, file, shift))
    except BaseException:
        remove_files(store, message.partition, message.bucket, files)
        raise
    return replace(message, new_files=tuple(files))


def numbered(files: Sequence[DataFile], first: int) -> list[DataFile]:
    """Append files, one after the other, with their rows counted from `first`; those that hold numbers stay."""
    result = []
    for file in files:
        if file.write_cols is not None and SEQUENCE_FIELD.name in file.write_cols:
            result.append(file)
            continue
        last = first + file.row_count - 1
        result.append(replace(file, min_sequence_number=first, max_sequence_number=last))
        first = last + 1
    return result


def _rewritten(store: Store, message: CommitMessage, file: DataFile, shift: int) -> list[DataFile]:
    read = read_key_values(store, store.paths.bucket_dir(message.partition, message.bucket), file)
    return rolled(store, message.partition, message.bucket, (renumbered(batch, shift) for batch in read))


def _shifted(file: DataFile, shift: int) -> DataFile:
    low, high = file.min_sequence_number + shift, file.max_sequence_number + shift
    return replace(file, min_sequence_number=low, max_sequence_number=high)
