"""A write to a dynamic table on a base that it was not planned on: keep every key in one bucket, without a lock.

Since the write looked keys up, another commit may have put one of its new keys into another bucket, replaced an index
file, or taken a partition away. Index files are made anew as the union with the newest; only rows of keys that now lie
elsewhere move: they are copied out of this write's own files into files of the other bucket.

Spec: docs/spec/hash_index.md#concurrent-writers
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

import numpy as np
import pyarrow as pa

from bucketlake.errors import NotFoundError
from bucketlake.format.index.index_manifest import HASH, IndexFile
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.numbers import distinct, without
from bucketlake.format.row.hashing import Hashes
from bucketlake.ops.buckets.assigner import Buckets, Run, run_of
from bucketlake.ops.buckets.dynamic import (
    DYNAMIC_TOTAL,
    PartitionIndex,
    hash_files,
    key_hashes,
    load_run,
    read_hashes,
    remove_index,
    union,
    write_hashes,
)
from bucketlake.ops.rewrite.rebucket import renumbered
from bucketlake.ops.rows.one_file import file_layout, read_file, read_key_values
from bucketlake.ops.rows.roll import NEW_FILES, Roller, Rolling
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.entries import max_sequences
from bucketlake.ops.table.made import all_or_nothing, remove_files
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.store import Store
from bucketlake.values import dataclass

CHANGELOG = Rolling(changelog=True)


def reassign(store: Store, messages: Sequence[CommitMessage], view: View) -> tuple[CommitMessage, ...]:
    """The messages as they stand on this base: each key in the bucket that its index says, or in its own if it is new
    there too. Messages whose index is unchanged are returned as they are.

    Files of messages are never changed: what must differ is written under new names, and the old are the caller's to
    remove. Messages that replace files they have read (`deleted_files`) are left alone. On failure nothing new remains.
    Spec: docs/spec/hash_index.md#concurrent-writers
    """
    name = None if view.snapshot is None else view.snapshot.index_manifest
    stale = [message for message in messages if _assigned(message) and message.index_base != name]
    if not stale:
        return tuple(messages)
    live = hash_files(view.indexes)
    result = [message for message in messages if not _assigned(message) or message.index_base == name]
    work = _Work(store)
    try:
        for partition in dict.fromkeys(message.partition for message in stale):
            mine = [message for message in stale if message.partition == partition]
            files = live.get(partition, {})
            task = _Partition(store, partition, files, view, work)
            result += [replace(message, index_base=name) for message in task.placed(mine)]
    except BaseException:
        work.remove()
        raise
    return tuple(result)


def _assigned(message: CommitMessage) -> bool:
    """Whether a message holds rows that an assigner placed."""
    return bool(message.new_files) and not message.deleted_files


@dataclass(slots=True)
class _Work:
    """What was written so far."""

    store: Store
    files: list[tuple[bytes, int, DataFile]] = field(default_factory=list)
    indexes: list[tuple[bytes, int, IndexFile]] = field(default_factory=list)

    def remove(self) -> None:
        """Take all of it back."""
        for partition, bucket, file in self.files:
            remove_files(self.store, partition, bucket, [file])
        for partition, bucket, index in self.indexes:
            remove_index(self.store, partition, bucket, index)


@dataclass(slots=True)
class _Partition:
    """One partition's messages on a new base. `live`: its index files there."""

    store: Store
    partition: bytes
    live: PartitionIndex
    view: View
    work: _Work
    _next: dict[int, int] = field(default_factory=dict)

    def placed(self, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
        """The messages with rows, index files and sequence numbers as this base needs them."""
        base = self._base(messages[0].index_base)
        if base is not None and _names(base) == _names(self.live):
            return list(messages)
        gained = None if base is None else self._gained(base)
        known = load_run(self.store, self.partition, self.live) if gained is None else gained
        same = set(_names(base or {}).items()) & set(_names(self.live).items())
        moves: list[_Moves] = []
        new = _New()
        for bucket in dict.fromkeys(message.bucket for message in messages):
            group = [message for message in messages if message.bucket == bucket]
            hashes = self._stored(group) if base is None or gained is None else self._new(group, base)
            target = known.find(hashes)
            away = (target >= 0) & (target != bucket)
            moves += [_Moves(message, hashes[away], target[away]) for message in group]
            new.parts[bucket] = hashes[target < 0]
            old = self.live.get(bucket)
            if gained is not None and not away.any() and (old is None or (bucket, old.file_name) in same):
                new.kept.add(bucket)
        self._next = self._sequences(messages)
        return self._indexed([piece for move in moves for piece in self._moved(move)], new)

    # ---- what is new, and what others did

    def _base(self, name: str | None) -> PartitionIndex | None:
        """The index files that the write looked keys up in, None if their list is gone."""
        try:
            return hash_files(self.store.index_entries(name)).get(self.partition, {})
        except NotFoundError:
            return None

    def _gained(self, base: PartitionIndex) -> Run | None:
        """The keys that others added since, None if they took keys away or the old files are gone."""
        parts = []
        if set(base) - set(self.live):
            return None
        for bucket, file in self.live.items():
            old = base.get(bucket)
            if old is not None and old.file_name == file.file_name:
                continue
            hashes = read_hashes(self.store, self.partition, bucket, file)
            try:
                before = hashes[:0] if old is None else read_hashes(self.store, self.partition, bucket, old)
            except NotFoundError:
                return None
            added = without(hashes, before)
            if len(added) + len(before) != len(hashes):
                return None
            parts.append((bucket, added))
        return run_of(parts)[0]

    def _new(self, messages: Sequence[CommitMessage], base: PartitionIndex) -> Hashes:
        """The keys that the messages of one bucket add to the index that they were made on, ascending."""
        empty, bucket = np.zeros(0, np.int32), messages[0].bucket
        files = [file for message in messages for file in message.new_index_files if file.index_type == HASH]
        if not files:
            return empty
        whole = read_hashes(self.store, self.partition, bucket, files[0])
        old = base.get(bucket)
        before = empty if old is None else read_hashes(self.store, self.partition, bucket, old)
        return without(whole, before)

    def _stored(self, messages: Sequence[CommitMessage]) -> Hashes:
        """The keys of all rows of the messages of one bucket, read from their files, ascending."""
        keys = self.store.schema.key_fields
        folder = self.store.paths.bucket_dir(self.partition, messages[0].bucket)
        parts = [np.zeros(0, np.int32)]
        for file in [file for message in messages for file in message.new_files]:
            layout = file_layout(self.store, file, keys)
            for batch in read_file(self.store, self.store.paths.file_path(folder, file), layout, None):
                parts.append(key_hashes(layout.rows(batch), keys))
        return distinct(parts)

    def _sequences(self, messages: Sequence[CommitMessage]) -> dict[int, int]:
        """The first sequence number of each bucket that neither the base nor this write uses."""
        entries = self.view.entries(frozenset([self.partition]))
        found = {bucket: number + 1 for (_, bucket), number in max_sequences(entries).items()}
        for message in messages:
            highest = max(file.max_sequence_number for file in message.new_files)
            found[message.bucket] = max(found.get(message.bucket, 0), highest + 1)
        return found

    # ---- moving rows

    def _moved(self, move: _Moves) -> Iterator[CommitMessage]:
        """The message without the rows that move, and messages of the buckets they go to."""
        message = move.message
        if not len(move.hashes):
            yield message
            return
        lowest = min(file.min_sequence_number for file in message.new_files)
        targets = np.unique(move.targets).tolist()
        shifts = {bucket: self._next.get(bucket, lowest) - lowest for bucket in targets}
        files = self._split(move, message.new_files, shifts, NEW_FILES)
        logs = self._split(move, message.changelog_files, shifts, CHANGELOG)
        for bucket in shifts:
            numbers = [file.max_sequence_number for file in (*files.get(bucket, ()), *logs.get(bucket, ()))]
            self._next[bucket] = max([*numbers, self._next.get(bucket, 0) - 1]) + 1
        emptied = replace(message.writes_only(), new_files=(), changelog_files=())
        for bucket in {**files, **logs}:
            piece = emptied if bucket == message.bucket else CommitMessage(self.partition, bucket, DYNAMIC_TOTAL)
            rows, log = tuple(files.get(bucket, ())), tuple(logs.get(bucket, ()))
            yield replace(piece, new_files=rows, changelog_files=log)

    def _split(
        self, move: _Moves, files: Iterable[DataFile], shifts: Mapping[int, int], rolling: Rolling
    ) -> dict[int, list[DataFile]]:
        """The files of each bucket that the rows of `files` go to; a file from which no row moves stays as it is."""
        result: dict[int, list[DataFile]] = {}
        for file in files:
            parts = self._parts(move, file, shifts, rolling)
            if set(parts) <= {move.message.bucket}:
                self._forget(move.message.bucket, parts)
                parts = {move.message.bucket: [file]}
            for bucket, made in parts.items():
                result.setdefault(bucket, []).extend(made)
        return result

    def _parts(
        self, move: _Moves, file: DataFile, shifts: Mapping[int, int], rolling: Rolling
    ) -> dict[int, list[DataFile]]:
        """The rows of one file as files of the buckets that they go to."""
        folder = self.store.paths.bucket_dir(self.partition, move.message.bucket)
        rollers: dict[int, Roller] = {}
        with all_or_nothing(rollers.values()):
            for batch in read_key_values(self.store, folder, file):
                places = move.places(key_hashes(batch, self.store.schema.key_fields))
                for bucket in np.unique(places).tolist():
                    if bucket not in rollers:
                        rollers[bucket] = Roller(self.store, self.partition, bucket, rolling)
                    rows = batch.filter(pa.array(places == bucket))
                    rollers[bucket].write(renumbered(rows, shifts.get(bucket, 0)))
            made = {bucket: roller.close() for bucket, roller in rollers.items()}
        self.work.files += [(self.partition, bucket, new) for bucket, files in made.items() for new in files]
        return made

    def _forget(self, bucket: int, parts: Mapping[int, Sequence[DataFile]]) -> None:
        """Remove copies that turned out to be needless."""
        copies = [file for files in parts.values() for file in files]
        remove_files(self.store, self.partition, bucket, copies)
        names = {file.file_name for file in copies}
        self.work.files = [item for item in self.work.files if item[2].file_name not in names]

    # ---- index files

    def _indexed(self, messages: Sequence[CommitMessage], new: _New) -> list[CommitMessage]:
        """The messages with one index file for each bucket that gets keys which the base does not know there."""
        result: list[CommitMessage] = []
        done: set[int] = set()
        for message in messages:
            if message.bucket in new.kept:
                result.append(message)
                continue
            kept = [file for file in message.new_index_files if file.index_type != HASH]
            gone = [file for file in message.deleted_index_files if file.index_type != HASH]
            added = new.parts.get(message.bucket, ())
            if message.bucket not in done and len(added) and message.new_files:
                done.add(message.bucket)
                file, old = self._union(message.bucket, np.asarray(added, np.int32))
                kept.append(file)
                gone += [] if old is None else [old]
            result.append(replace(message, new_index_files=tuple(kept), deleted_index_files=tuple(gone)))
        return [message for message in result if message.new_files or message.changelog_files or _compacts(message)]

    def _union(self, bucket: int, added: Hashes) -> tuple[IndexFile, IndexFile | None]:
        old = self.live.get(bucket)
        known = added[:0] if old is None else read_hashes(self.store, self.partition, bucket, old)
        file = write_hashes(self.store, self.partition, bucket, union(known, added))
        self.work.indexes.append((self.partition, bucket, file))
        return file, old


@dataclass(slots=True)
class _New:
    """The keys that this write adds, by bucket; `kept`: buckets whose index file stays as it was written."""

    parts: dict[int, Hashes] = field(default_factory=dict)
    kept: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Moves:
    """Which keys of a message go to which other bucket. `hashes`: ascending."""

    message: CommitMessage
    hashes: Hashes
    targets: Buckets

    def places(self, hashes: Hashes) -> Buckets:
        """The bucket of each row."""
        found = Run(self.hashes, self.targets.astype(np.uint16)).find(hashes)
        return np.where(found < 0, self.message.bucket, found)


def _names(files: PartitionIndex) -> dict[int, str]:
    return {bucket: file.file_name for bucket, file in files.items()}


def _compacts(message: CommitMessage) -> bool:
    return bool(message.compact_before or message.compact_after or message.compact_new_index_files)
