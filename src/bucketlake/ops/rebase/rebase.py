"""The write side of a commit on changing bases.

Spec: docs/spec/commit.md#sequence-numbers, docs/conflicts.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bucketlake.format.index.index_manifest import IndexFile
from bucketlake.format.metadata.manifest import DataFile, FileKind
from bucketlake.ops.rebase.modes import Moves
from bucketlake.ops.rebase.numbers import shift_metadata, shifts
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.changes import Changes, append_changes, changes_of
from bucketlake.ops.table.entries import BucketKey
from bucketlake.ops.table.made import made, remove_made
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store


class Rebase:
    """The write side of a commit on changing bases: moves rows whose keys lie in another bucket by now, and renumbers
    where a bucket's sequence numbers were taken."""

    def __init__(
        self, store: Store, messages: Sequence[CommitMessage], moves: Moves, *, relocates: bool = True
    ) -> None:
        """`relocates`: whether rows may move to other buckets; else they are only renumbered."""
        self.messages = self._given = tuple(messages)
        self._store = store
        self._moves = moves
        self._relocates = relocates
        self._replaced: list[tuple[CommitMessage, DataFile | IndexFile]] = []
        self._rewritten: list[tuple[CommitMessage, DataFile | IndexFile]] = []
        numbered = store.schema.bucket_mode.name != "UNAWARE" and not store.options.get("sequence.snapshot-ordering")
        self._numbered = numbered

    def plan(self, view: View) -> Changes:
        """The changes on this base."""
        if self._relocates:
            self._adopt(self._moves.relocate(self.messages, view))
        changes = changes_of(append_changes(message) for message in self.messages)
        if not self._numbered or view.snapshot is None or not any(message.new_files for message in self.messages):
            return self._without_duplicates(view, changes)
        moves = shifts(self.messages, view.entries(changes.partitions))
        if moves:
            self.messages = tuple(self._moved(message, moves) for message in self.messages)
            changes = changes_of(append_changes(message) for message in self.messages)
        return self._without_duplicates(view, changes)

    @property
    def settles(self) -> bool:
        """Whether an overwrite of partitions has to look at the others: keys lie in one partition of the table."""
        return self._moves.settles

    def settle(self, view: View, replaced: PartitionFilter) -> tuple[CommitMessage, ...]:
        """The messages of an overwrite on this base, made anew from the caller's."""
        self.messages = self._given
        self._adopt(self._moves.settle(self._given, view, replaced))
        return self.messages

    def _adopt(self, messages: tuple[CommitMessage, ...]) -> None:
        """Go on with these messages, and know which files they replace."""
        before = {(m.partition, m.bucket, file.file_name): (m, file) for m in self.messages for file in made(m)}
        after = {(m.partition, m.bucket, file.file_name): (m, file) for m in messages for file in made(m)}
        self._replaced += [item for key, item in before.items() if key not in after]
        self._rewritten += [item for key, item in after.items() if key not in before]
        self.messages = messages

    def _moved(self, message: CommitMessage, moves: Mapping[BucketKey, int]) -> CommitMessage:
        delta = moves.get((message.partition, message.bucket), 0)
        if not delta or not message.new_files or message.deleted_files:
            return message
        if not self._store.schema.primary_keys:
            return shift_metadata(message, delta)
        first = min(file.min_sequence_number for file in message.new_files) + delta
        moved = self._moves.renumber(message, first)
        self._replaced += [(message, file) for file in message.new_files]
        self._rewritten += [(moved, file) for file in moved.new_files]
        own = {file.file_name for file in message.new_files}
        if any(file.file_name in own for file in message.compact_before):
            kept = {file.file_name for file in message.compact_before}
            gone = [f for f in (*message.compact_after, *message.compact_changelog) if f.file_name not in kept]
            self._replaced += [(message, file) for file in gone]
            moved = moved.writes_only()
        return moved

    def _without_duplicates(self, view: View, changes: Changes) -> Changes:
        if not self._store.options.get("commit.discard-duplicate-files"):
            return changes
        live = {(e.partition, e.bucket, e.file.file_name) for e in view.entries(changes.partitions)}
        table = tuple(
            e
            for e in changes.table
            if e.kind == FileKind.DELETE or (e.partition, e.bucket, e.file.file_name) not in live
        )
        return replace(changes, table=table)

    def discard_replaced(self) -> None:
        """After publishing: remove the files that rebasing replaced, the caller's own among them."""
        published = {(m.partition, m.bucket, file.file_name) for m in self.messages for file in made(m)}
        for message, file in (*self._replaced, *self._rewritten):
            if (message.partition, message.bucket, file.file_name) not in published:
                remove_made(self._store, message, file)

    def discard_rewritten(self) -> None:
        """After a failure: remove what rebasing wrote; the caller's files stay."""
        for message, file in self._rewritten:
            remove_made(self._store, message, file)
