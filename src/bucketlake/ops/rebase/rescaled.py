"""A write to a partition that was rescaled since it was planned: its rows into the buckets that there are now.

Spec: docs/spec/rescale.md#writers
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from bucketlake.format.metadata.manifest import DataFile
from bucketlake.ops.rebase.numbers import numbered
from bucketlake.ops.rewrite.rebucket import OldBucket, spread_file, target_of
from bucketlake.ops.rows.roll import NEW_FILES, Rolling
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.entries import BucketKey, max_sequences
from bucketlake.ops.table.made import remove_files
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.store import Store
from bucketlake.values import dataclass

CHANGELOG = Rolling(changelog=True)


def rehash(store: Store, messages: Sequence[CommitMessage], view: View) -> tuple[CommitMessage, ...]:
    """The messages as they stand on this base: where the live files of a partition count other buckets, rows and
    changelogs in these, numbered after all that is committed; messages of other partitions as they are.

    Files of messages are never changed: what must differ is written under new names, and the old are the caller's to
    remove. Messages that replace files they have read (`deleted_files`) are left alone, compactions that came with
    rehashed rows are dropped. On failure nothing new remains.
    Spec: docs/spec/rescale.md#writers
    """
    partitions = frozenset(message.partition for message in messages if _is_hashed(message))
    totals = {e.partition: e.total_buckets for e in view.entries(partitions) if e.bucket >= 0 and e.total_buckets > 0}
    stale = [m for m in messages if _is_hashed(m) and totals.get(m.partition, m.total_buckets) != m.total_buckets]
    if not stale:
        return tuple(messages)
    known = {id(message) for message in stale}
    result = [message for message in messages if id(message) not in known]
    made: list[_Moved] = []
    try:
        for partition in dict.fromkeys(message.partition for message in stale):
            mine = [message for message in stale if message.partition == partition]
            moved = _Moved(store, partition, totals[partition])
            made.append(moved)
            result += moved.messages(mine, max_sequences(view.entries(frozenset([partition]))))
    except BaseException:
        for moved in made:
            moved.remove()
        raise
    return tuple(result)


def _is_hashed(message: CommitMessage) -> bool:
    """Whether a message holds new rows that lie in a bucket by their hash."""
    return message.total_buckets > 0 and bool(message.new_files) and not message.deleted_files


@dataclass(slots=True)
class _Moved:
    """One partition's rows in their new buckets."""

    store: Store
    partition: bytes
    total: int
    rows: dict[int, list[DataFile]] = field(default_factory=dict)
    changes: dict[int, list[DataFile]] = field(default_factory=dict)

    def messages(self, stale: Sequence[CommitMessage], committed: Mapping[BucketKey, int]) -> list[CommitMessage]:
        """One message a bucket. All rows of primary-key tables are renumbered alike, so that those of one key keep
        their order; append files are counted on from what their bucket has."""
        lowest = min(file.min_sequence_number for message in stale for file in message.new_files)
        shift = max(0, max(committed.values(), default=-1) + 1 - lowest)
        for message in stale:
            oldest_first = sorted(message.new_files, key=lambda file: file.min_sequence_number)
            self._spread(message, oldest_first, shift, self.rows, NEW_FILES)
            self._spread(message, message.changelog_files, shift, self.changes, CHANGELOG)
        if not self.store.schema.primary_keys:
            for bucket, files in self.rows.items():
                self.rows[bucket] = numbered(files, committed.get((self.partition, bucket), -1) + 1)
        return [
            CommitMessage(
                self.partition,
                bucket,
                self.total,
                new_files=tuple(self.rows.get(bucket, ())),
                changelog_files=tuple(self.changes.get(bucket, ())),
            )
            for bucket in sorted({*self.rows, *self.changes})
        ]

    def remove(self) -> None:
        """Take all of it back."""
        for made in (self.rows, self.changes):
            for bucket, files in made.items():
                remove_files(self.store, self.partition, bucket, files)

    def _spread(
        self,
        message: CommitMessage,
        files: Sequence[DataFile],
        shift: int,
        made: dict[int, list[DataFile]],
        rolling: Rolling,
    ) -> None:
        for file in files:  # those of a changelog as they were written: a key's changes may be in several
            source = OldBucket(message.bucket, message.total_buckets, (file,))
            target = target_of(self.partition, self.total, source)
            for bucket, new in spread_file(self.store, source, target, rolling, shift):
                made.setdefault(bucket, []).extend(new)
