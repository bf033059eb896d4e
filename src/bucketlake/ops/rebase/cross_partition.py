"""A write to a cross-partition table on a base that it was not planned on: keep every key in one place, without a lock.

Since the write looked keys up, another commit may have put one of them elsewhere. Only these keys are mended:

    deduplicate                   the later commit wins: -D rows where the other put the key
    partial-update, aggregation   the rows move to where the other put the key
    first-row                     the rows are dropped

Spec: docs/spec/cross_partition.md#concurrent-writers
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial

import numpy as np
import pyarrow as pa

from bucketlake.errors import ConflictError
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.lsm.engines.rules import engine_of, order_of, removing_kinds
from bucketlake.lsm.key_run import ABSENT, KeyRun, Keys
from bucketlake.lsm.merge import sort_and_merge
from bucketlake.ops.key_index.cross_partition import KEY_DYNAMIC_TOTAL, repartitioned
from bucketlake.ops.key_index.key_scan import (
    PlaceNumbers,
    delta_since,
    file_rows,
    key_fields,
    last_states,
    look_up,
    written_keys,
)
from bucketlake.ops.rewrite.rebucket import renumbered
from bucketlake.ops.rows.assign import Codes
from bucketlake.ops.rows.incoming import DELETE
from bucketlake.ops.rows.one_file import read_key_values
from bucketlake.ops.rows.roll import NEW_FILES, Roller, Rolling, rolled
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.entries import BucketKey, max_sequences
from bucketlake.ops.table.made import all_or_nothing, remove_files
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import KIND_FIELD, SEQUENCE_FIELD
from bucketlake.values import dataclass

CHANGELOG = Rolling(changelog=True)
Parts = dict[BucketKey, list[DataFile]]


def resettle(
    store: Store, messages: Sequence[CommitMessage], view: View, replaced: PartitionFilter | None = None
) -> tuple[CommitMessage, ...]:
    """The messages as they stand on this base: each key in one place. Those without a conflict are kept as they are.

    `replaced`: the write replaces these partitions whole, and its keys were not looked up; they are mended against all
    others. Files of messages are never changed: what must differ is written under new names, and the old are the
    caller's to remove. On failure nothing new remains.
    """
    now = 0 if view.snapshot is None else view.snapshot.id
    stale = [m for m in messages if m.new_files and not m.deleted_files and (replaced is not None or m.key_base != now)]
    stale = [message for message in stale if replaced is not None or message.key_base is not None]
    if not stale or view.snapshot is None:
        return tuple(messages)
    known = {id(message) for message in stale}
    others = [message for message in messages if id(message) not in known]
    settling = _Settling(store, view, replaced)
    try:
        settled = settling.run(stale)
    except BaseException:
        settling.remove()
        raise
    base = None if replaced is not None else now
    return (*others, *(replace(message, key_base=base) for message in settled))


@dataclass(slots=True)
class _Settling:
    """One mending. `_numbers`: places on the new base; `_next`: the first free sequence number of each."""

    store: Store
    view: View
    replaced: PartitionFilter | None
    _numbers: PlaceNumbers = field(default_factory=PlaceNumbers)
    _next: dict[BucketKey, int] = field(default_factory=dict)
    _made: list[tuple[BucketKey, DataFile]] = field(default_factory=list)
    _cleared: set[BucketKey] = field(default_factory=set)  # places from which others took files since

    def run(self, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
        """The messages mended."""
        theirs = self._theirs(messages)
        emptied = any(message.received and self._is_cleared(message) for message in messages)
        if theirs is not None and not len(theirs) and not emptied:
            return list(messages)
        own, wanted = self._wanted(messages, theirs)
        places = look_up(self.store, self.view.snapshot, wanted, self._numbers, self.replaced)
        there = places != ABSENT
        self._refuse_strangers(messages, own, Keys.of(wanted, key_fields(self.store)).take(~there))
        found = KeyRun.of(Keys.of(wanted, key_fields(self.store)).take(there), places[there])
        if not len(found):
            return list(messages)
        self._next = self._sequences(messages)
        if self.store.options.get("merge-engine") == "deduplicate":
            return [*messages, *self._deletes(messages, self._elsewhere(own, found))]
        return [piece for message in messages for piece in self._moved(message, found)]

    def remove(self) -> None:
        """Take back what was written."""
        for place, file in self._made:
            remove_files(self.store, *place, [file])

    def _is_cleared(self, message: CommitMessage) -> bool:
        return (message.partition, message.bucket) in self._cleared

    def _refuse_strangers(self, messages: Sequence[CommitMessage], own: Mapping[BucketKey, Keys], absent: Keys) -> None:
        """ConflictError for rows of other partitions that were put where their keys lay, if these lie nowhere any more:
        which partition the rows said is not known here, and where they are now the keys were taken away. An overwrite
        was written as if nothing were there: its rows lie with keys of its own."""
        if not len(absent) or self.replaced is not None:
            return
        gone = KeyRun.of(absent, np.zeros(len(absent), np.int32))
        for message in messages:
            place = (message.partition, message.bucket)
            if message.received and place in own and bool((gone.rows_of(own[place]) >= 0).any()):
                raise ConflictError(
                    "another commit took away the keys of rows that were to be merged with theirs",
                    table=self.store.paths.root,
                    partition=self.store.paths.partition_texts(message.partition),
                    base=self.view.snapshot.id if self.view.snapshot else None,
                    remedy="write the rows again",
                )

    # ---- which keys

    def _theirs(self, messages: Sequence[CommitMessage]) -> KeyRun | None:
        """The keys that others wrote since; None where that is not known, and any key may be among them."""
        assert self.view.snapshot is not None
        if self.replaced is not None:
            return None
        bases = [message.key_base for message in messages if message.key_base is not None]
        delta = delta_since(self.store, min(bases), self.view.snapshot)
        if delta is None:
            return None
        self._cleared = delta.cleared
        parts = [written_keys(self.store, place, files) for place, files in delta.added.items()]
        keys = Keys.all_of([Keys.none(key_fields(self.store)), *parts])
        once = keys.take(keys.distinct()[1])
        return KeyRun.of(once, np.zeros(len(once), np.int32))

    def _wanted(
        self, messages: Sequence[CommitMessage], theirs: KeyRun | None
    ) -> tuple[dict[BucketKey, Keys], pa.RecordBatch]:
        """This write's keys that others may have written too: by place, and once each as rows of the key columns."""
        fields, names = key_fields(self.store), self.store.schema.primary_keys
        own: dict[BucketKey, list[Keys]] = {}
        parts: list[pa.RecordBatch] = []
        for message in messages:
            place = (message.partition, message.bucket)
            asked = self._living(message) if self.replaced is not None else theirs
            for rows in (rows for file in message.new_files for rows in file_rows(self.store, place, file)):
                keys, columns = Keys.of(rows, fields), rows.select(names)
                if asked is not None and not (message.received and self._is_cleared(message)):
                    hit = asked.rows_of(keys) >= 0
                    keys, columns = keys.take(hit), columns.filter(pa.array(hit))
                own.setdefault(place, []).append(keys)
                parts.append(columns)
        whole = pa.concat_batches(parts)
        first = Keys.of(whole, fields).distinct()[1]
        return {place: Keys.all_of(found) for place, found in own.items()}, whole.take(pa.array(first))

    def _living(self, message: CommitMessage) -> KeyRun:
        """The keys of which a message brings a row: what an overwrite, or a clone, holds of keys that were deleted
        takes none away from a partition that it does not replace."""
        place, removes = (message.partition, message.bucket), removing_kinds(self.store.options)
        at_once = {(place, file.file_name): 0 for file in message.new_files}
        keys, alive = last_states(
            self.store, place, message.new_files, partial(np.isin, test_elements=removes), at_once
        )
        living = keys.take(alive)
        return KeyRun.of(living, np.zeros(len(living), np.int32))

    def _elsewhere(self, own: Mapping[BucketKey, Keys], found: KeyRun) -> KeyRun:
        """Of the keys found those that this write has no row for in the place where they lie."""
        left = np.ones(len(found), np.bool_)
        for place, keys in own.items():
            rows = found.rows_of(keys)
            rows = rows[rows >= 0]
            left[rows[found.places[rows] == self._numbers.get(place)]] = False
        return KeyRun(found.keys.take(left), found.places[left])

    def _sequences(self, messages: Sequence[CommitMessage]) -> dict[BucketKey, int]:
        """The first sequence number of each place that neither the base nor this write uses."""
        touched = frozenset([p for p, _ in self._numbers.places] + [message.partition for message in messages])
        found = {place: number + 1 for place, number in max_sequences(self.view.entries(touched)).items()}
        for message in messages:
            place = (message.partition, message.bucket)
            highest = max(file.max_sequence_number for file in message.new_files)
            found[place] = max(found.get(place, 0), highest + 1)
        return found

    # ---- deduplicate

    def _deletes(self, messages: Sequence[CommitMessage], away: KeyRun) -> Iterator[CommitMessage]:
        """-D rows where keys lie that this write puts, or deletes, elsewhere."""
        if not len(away):
            return
        rows, numbers = self._rows_of(messages, away)
        for number in np.unique(numbers).tolist():
            place = self._numbers.places[number]
            chosen = rows.filter(pa.array(numbers == number))
            chosen = _in_partition(self.store, chosen, place[0])
            first = self._next.get(place, 0)
            chosen = _with(chosen, SEQUENCE_FIELD.name, np.arange(first, first + chosen.num_rows))
            chosen = _with(chosen, KIND_FIELD.name, np.full(chosen.num_rows, DELETE, np.int8))
            options = self.store.options
            order, engine = order_of(self.store.schema, options), engine_of(self.store.schema, options)
            run = sort_and_merge(chosen, order, engine)
            files = self._file(place, [run], NEW_FILES)
            told = self._file(place, [run], CHANGELOG) if options.get("changelog-producer") == "input" else []
            yield CommitMessage(place[0], place[1], KEY_DYNAMIC_TOTAL, tuple(files), changelog_files=tuple(told))

    def _rows_of(self, messages: Sequence[CommitMessage], away: KeyRun) -> tuple[pa.RecordBatch, Codes]:
        """One row of each key, any, and the number of the place where the key lies."""
        taken = np.zeros(len(away), np.bool_)
        parts, numbers = [], []
        for message in messages:
            for rows in self._stored(message, message.new_files):
                found = away.rows_of(Keys.of(rows, key_fields(self.store)))
                chosen = np.flatnonzero(found >= 0)
                chosen = chosen[~taken[found[chosen]]]
                if len(chosen):
                    taken[found[chosen]] = True
                    parts.append(rows.take(pa.array(chosen)))
                    numbers.append(away.places[found[chosen]])
        return pa.concat_batches(parts), np.concatenate(numbers).astype(np.int64)

    # ---- the other engines

    def _moved(self, message: CommitMessage, found: KeyRun) -> Iterator[CommitMessage]:
        """The message without the rows whose keys lie elsewhere, and messages of where they go."""
        place = (message.partition, message.bucket)
        lowest = min(file.min_sequence_number for file in message.new_files)
        files = self._split(message, message.new_files, found, lowest, NEW_FILES)
        logs = self._split(message, message.changelog_files, found, lowest, CHANGELOG)
        if set(files) <= {place} and files.get(place) == list(message.new_files):
            yield message
            return
        for other in {**files, **logs}:
            rows, told = tuple(files.get(other, ())), tuple(logs.get(other, ()))
            own = replace(message.writes_only(), new_files=(), changelog_files=())
            piece = own if other == place else CommitMessage(*other, KEY_DYNAMIC_TOTAL, received=True)
            if other != place:
                numbers = [file.max_sequence_number for file in (*rows, *told)]
                self._next[other] = max([*numbers, self._next.get(other, 0) - 1]) + 1
            yield replace(piece, new_files=rows, changelog_files=told)

    def _split(
        self, message: CommitMessage, files: Iterable[DataFile], found: KeyRun, lowest: int, rolling: Rolling
    ) -> Parts:
        """The files of each place that rows go to; a file from which no row goes stays as it is."""
        place = (message.partition, message.bucket)
        own = self._numbers.number(place)
        fields = key_fields(self.store)
        result: Parts = {}
        for file in files:
            keys = (Keys.of(rows, fields) for rows in file_rows(self.store, place, file))
            goes = any(bool(((at >= 0) & (at != own)).any()) for at in (found.find(part) for part in keys))
            parts = self._parts(message, file, found, lowest, rolling) if goes else {place: [file]}
            for other, made in parts.items():
                result.setdefault(other, []).extend(made)
        return result

    def _parts(self, message: CommitMessage, file: DataFile, found: KeyRun, lowest: int, rolling: Rolling) -> Parts:
        """The rows of one file as files of the places that they go to."""
        place = (message.partition, message.bucket)
        own = self._numbers.number(place)
        drops = self.store.options.get("merge-engine") == "first-row"
        rollers: dict[BucketKey, Roller] = {}
        with all_or_nothing(rollers.values()):
            for rows in self._stored(message, [file]):
                goes = found.find(Keys.of(rows, key_fields(self.store)))
                goes = np.where(goes < 0, own, goes)
                for number in np.unique(goes).tolist():
                    if number != own and drops:
                        continue
                    other = self._numbers.places[number]
                    part = rows.filter(pa.array(goes == number))
                    if number != own:
                        shift = self._next.get(other, lowest) - lowest
                        part = renumbered(_in_partition(self.store, part, other[0]), shift)
                    if other not in rollers:
                        rollers[other] = Roller(self.store, other[0], other[1], rolling)
                    rollers[other].write(part)
            made = {other: roller.close() for other, roller in rollers.items()}
        self._made += [(other, new) for other, news in made.items() for new in news]
        return made

    # ---- files

    def _stored(self, message: CommitMessage, files: Iterable[DataFile]) -> Iterator[pa.RecordBatch]:
        folder = self.store.paths.bucket_dir(message.partition, message.bucket)
        for file in files:
            yield from read_key_values(self.store, folder, file)

    def _file(self, place: BucketKey, runs: Iterable[pa.RecordBatch], rolling: Rolling) -> list[DataFile]:
        made = rolled(self.store, *place, runs, rolling)
        self._made += [(place, file) for file in made]
        return made


def _in_partition(store: Store, rows: pa.RecordBatch, partition: bytes) -> pa.RecordBatch:
    return repartitioned(store, rows, np.ones(rows.num_rows, np.bool_), [partition], np.zeros(rows.num_rows, np.int64))


def _with(rows: pa.RecordBatch, name: str, values: Codes) -> pa.RecordBatch:
    place = rows.schema.get_field_index(name)
    return rows.set_column(place, rows.schema.field(place), pa.array(values, rows.schema.field(place).type))
