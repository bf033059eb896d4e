"""What a bucket mode does to messages whose base has moved: one object a mode.

    mode               rows of a newer base are put …
    fixed, unaware,    into the buckets that their partition has now (`rescaled`)
    postpone
    dynamic            into the bucket that the hash index says now (`dynamic`)
    cross-partition    into the place that their key lies in now (`cross_partition`)

Spec: docs/spec/commit.md#sequence-numbers, docs/conflicts.md
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from bucketlake.ops.rebase.cross_partition import resettle
from bucketlake.ops.rebase.dynamic import reassign
from bucketlake.ops.rebase.numbers import renumber
from bucketlake.ops.rebase.rescaled import rehash
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import BucketMode


class Moves(Protocol):
    """Files of messages are never changed: what must differ is written under new names, the old are the caller's to
    remove. On failure nothing new remains."""

    @property
    def settles(self) -> bool:
        """Whether an overwrite of partitions has to look at the others."""

    def renumber(self, message: CommitMessage, first: int) -> CommitMessage:
        """The message with its new files numbered from `first`, all shifted alike."""

    def relocate(self, messages: Sequence[CommitMessage], view: View) -> tuple[CommitMessage, ...]:
        """The messages as they stand on the base that `view` shows."""

    def settle(
        self, messages: Sequence[CommitMessage], view: View, replaced: PartitionFilter
    ) -> tuple[CommitMessage, ...]:
        """The messages of an overwrite of the partitions `replaced`, on this base."""


class Hashed:
    """Buckets follow from a row's hash, or say nothing of its key."""

    settles = False

    def __init__(self, store: Store) -> None:
        self._store = store

    def renumber(self, message: CommitMessage, first: int) -> CommitMessage:
        """As `Moves`."""
        return renumber(self._store, message, first)

    def relocate(self, messages: Sequence[CommitMessage], view: View) -> tuple[CommitMessage, ...]:
        """As `Moves`."""
        return rehash(self._store, messages, view)

    def settle(
        self, messages: Sequence[CommitMessage], view: View, replaced: PartitionFilter
    ) -> tuple[CommitMessage, ...]:
        """As they are: a replaced partition is written with any number of buckets."""
        return tuple(messages)


class Indexed(Hashed):
    """Buckets are looked up in the partition's hash index."""

    def relocate(self, messages: Sequence[CommitMessage], view: View) -> tuple[CommitMessage, ...]:
        """As `Moves`."""
        return reassign(self._store, messages, view)


class CrossPartition(Hashed):
    """A key lies in one partition of the table."""

    settles = True

    def relocate(self, messages: Sequence[CommitMessage], view: View) -> tuple[CommitMessage, ...]:
        """As `Moves`."""
        return resettle(self._store, messages, view)

    def settle(
        self, messages: Sequence[CommitMessage], view: View, replaced: PartitionFilter
    ) -> tuple[CommitMessage, ...]:
        """As `Moves`."""
        return resettle(self._store, messages, view, replaced)


def moves_of(store: Store) -> Moves:
    """How rows move in a table of this bucket mode."""
    kinds = {BucketMode.DYNAMIC: Indexed, BucketMode.KEY_DYNAMIC: CrossPartition}
    return kinds.get(store.schema.bucket_mode, Hashed)(store)
