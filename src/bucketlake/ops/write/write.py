"""The write path of one task: canonical batches → (partition, bucket) → buffer → sort and merge → roll → messages.

One buffer serves all groups of the task. Full, it is ordered by group with one argsort; primary-key groups are sorted
and merged and, while more may come, spilled as sorted runs; append groups, and pending rows of postpone tables, go to
their open file as they came, or are spilled where there are more groups than `write-max-writers-to-spill`. At the end
each group's runs are merged into its files.

Spec: docs/spec/writing.md
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import field, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.format.metadata.manifest import DataFile
from bucketlake.lsm.engines.rules import engine_of, order_of
from bucketlake.lsm.merge import DEFAULT_BLOCK, PIECE_BYTES, BlockSize, merge_runs, sorted_pieces
from bucketlake.ops.buckets.dealt import PendingRoller
from bucketlake.ops.buckets.postpone import modulus_for
from bucketlake.ops.rows.assign import Codes, slices
from bucketlake.ops.rows.described import keeping
from bucketlake.ops.rows.incoming import Incoming
from bucketlake.ops.rows.managed_blobs import Packing
from bucketlake.ops.rows.roll import NEW_FILES, Roller, Rolling
from bucketlake.ops.rows.row_ids import is_tracked
from bucketlake.ops.rows.spill import MOST_RUNS, Spill, pieces
from bucketlake.ops.table.made import all_or_nothing, remove_files
from bucketlake.ops.table.memory import give_back, joined, large_buffers
from bucketlake.ops.table.messages import CommitMessage, WriteTask
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.prepare import writes_of
from bucketlake.paths import POSTPONE_BUCKET
from bucketlake.schema.schema import KIND_FIELD, BucketMode, TableSchema
from bucketlake.types.model import arrow_schema
from bucketlake.values import dataclass

MAX_BUFFER = 1 << 30  # string columns of one buffer must stay below 2 GiB, the reach of 32-bit offsets
PASS_BYTES = 32 << 20  # append tables with few groups need no larger slices
PART_BYTES = 8 << 20  # rows are taken up in parts of this size, each column in memory of its own


def write_batches(
    store: Store, batches: Iterable[pa.RecordBatch], task: WriteTask, kinds: str | None = None
) -> list[CommitMessage]:
    """Write rows as new data files of their partitions and buckets and say what was written; nothing is visible yet.

    Batches may have any Arrow layout and column order, but all columns of the schema. `kinds`: name of an extra
    column with row kinds (0 +I, 1 -U, 2 +U, 3 -D, or these texts); without it see `Incoming`.
    Raises InvalidError for rows that do not fit the schema or a partition with another bucket number. On any error the
    files written so far are removed.
    Spec: docs/spec/writing.md
    """
    writer = TaskWriter(store, task, kinds)
    with large_buffers(), all_or_nothing([writer]):
        for batch in batches:
            writer.write(batch)
        return writer.close()


@dataclass(slots=True)
class _Group:
    """One (partition, bucket) of a task: rows numbered so far, its open file, its finished files."""

    rows: int = 0
    roller: Roller | PendingRoller | None = None
    files: list[DataFile] = field(default_factory=list)
    changelog: list[DataFile] = field(default_factory=list)


class TaskWriter:
    """Takes batches in memory bounded by `write-buffer-size`; `close` gives the messages, `abort` removes all files."""

    def __init__(self, store: Store, task: WriteTask, kinds: str | None = None) -> None:
        options = store.options
        self._store, self._task, self._schema = store, task, store.schema
        self._keyed = bool(store.schema.primary_keys)
        self._unaware = store.schema.bucket_mode is BucketMode.UNAWARE
        self._incoming = Incoming(store.schema, kinds)
        self._assigner = writes_of(store).assigner(task)
        self._order, self._engine = order_of(store.schema, options), engine_of(store.schema, options)
        self._budget = min(options.get("write-buffer-size"), MAX_BUFFER)
        self._max_writers = options.get("write-max-writers-to-spill")
        self._spillable = options.get("write-buffer-spillable")
        self._max_spill = options.get("write-buffer-spill.max-disk-size")
        self._spill = Spill.of(options)
        self._keeping, self._packing = keeping(self._store), Packing(self._store)
        totals = {self._assigner.default_buckets, *task.total_buckets.values()}
        self._pends = self._keyed and totals == {POSTPONE_BUCKET}
        self._buffered = (self._keyed and not self._pends) or options.get("write-buffer-for-append")
        self._tells = self._keyed and task.changelog and options.get("changelog-producer") == "input"
        self._buffer: list[tuple[pa.RecordBatch, npt.NDArray[np.int32]]] = []
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._bytes = 0
        self._groups: list[_Group] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Take the rows of one batch."""
        for piece in pieces(batch, self._budget):
            rows = self._keeping(self._incoming.rows(piece))
            self._waiting.append(rows)
            self._waiting_bytes += rows.nbytes
            enough = self._waiting_bytes >= PART_BYTES and (
                sum(part.num_rows for part in self._waiting) >= self._assigner.batch_rows
            )
            if enough or self._bytes + self._waiting_bytes >= self._budget:
                self._take()

    def close(self) -> list[CommitMessage]:
        """Write what is left, merge the spills, close all files; one message per (partition, bucket) with rows."""
        self._take()
        self._packing.finish()
        if self._spill.files and self._bytes > self._budget // 4:
            self._flush()  # so that merging has the buffer's memory
        self._emit(self._drain())
        messages = []
        for (partition, bucket), group in zip(self._assigner.groups, self._groups, strict=True):
            if group.files:
                total = self._assigner.total(partition)
                told = tuple(group.changelog)
                messages.append(CommitMessage(partition, bucket, total, tuple(group.files), changelog_files=told))
        return self._assigner.indexed(messages)

    def abort(self) -> None:
        """Remove everything that was written."""
        self._spill.clear()
        self._packing.abort()
        self._assigner.abort()
        for (partition, bucket), group in zip(self._assigner.groups, self._groups, strict=False):
            if group.roller is not None:
                group.roller.abort()
            remove_files(self._store, partition, bucket, [*group.files, *group.changelog])

    def _take(self) -> None:
        if not self._waiting:
            return
        rows = joined(self._waiting)
        self._waiting_bytes = 0
        rows, codes = self._assigner.place(rows)
        rows = self._packing.stored(rows, codes.astype(np.int32), self._assigner.groups)
        self._groups.extend(_Group() for _ in range(len(self._assigner.groups) - len(self._groups)))
        self._buffer.append((rows, codes.astype(np.int32)))
        self._bytes += rows.nbytes
        self._buffered = self._buffered or len(self._groups) > self._max_writers
        if self._bytes >= (self._budget if self._buffered else min(self._budget, PASS_BYTES)):
            self._flush()

    def _flush(self) -> None:
        """Empty the buffer: to spilled runs, or to files."""
        grouped = self._drain()
        if not self._buffered:
            for number, batches in grouped:
                self._append(self._groups[number], number, batches)
            self._relieve()
        elif not self._spillable:
            self._emit(grouped)
        else:
            self._close_rollers()
            self._spill.write(grouped)
            give_back()
            if self._spill.files >= MOST_RUNS or self._spill.size >= self._max_spill:
                self._emit(iter(()))

    def _drain(self) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
        """The buffered rows by group, in pieces: numbered, and for primary-key tables sorted and merged."""
        if not self._buffer:
            return
        codes = np.concatenate([part for _, part in self._buffer])
        parts = [rows for rows, _ in self._buffer]
        self._buffer.clear()
        batch = joined(parts)
        self._bytes = 0
        order, found = slices(codes)
        spans = list(found)
        if self._keyed:
            batch = self._numbered_rows(batch, order, spans)
        for number, start, end in spans:
            within = None if end - start == len(codes) else order[start:end]
            merges = self._merges(number)
            if self._tells and merges:
                self._tell(number, batch if within is None else batch.take(pa.array(within)))
            if merges:
                yield number, sorted_pieces(batch, self._order, self._engine, within=within)
            else:
                yield number, iter([batch]) if within is None else _taken(batch, within)

    def _numbered_rows(
        self, rows: pa.RecordBatch, order: Codes, spans: Sequence[tuple[int, int, int]]
    ) -> pa.RecordBatch:
        """The rows of several groups as key-value rows, each group's numbered on in the order in which they came."""
        sequence = np.empty(rows.num_rows, np.int64)
        for number, start, end in spans:
            group = self._groups[number]
            first = self._start(number) + self._task.task + self._task.tasks * group.rows
            sequence[order[start:end]] = first + self._task.tasks * np.arange(end - start, dtype=np.int64)
            group.rows += end - start
        return key_values(rows, sequence, self._schema)

    def _tell(self, number: int, rows: pa.RecordBatch) -> None:
        """Write rows as they came, by key and sequence, into a changelog file. Spec: docs/spec/changelog.md#input"""
        partition, bucket = self._assigner.groups[number]
        roller = Roller(self._store, partition, bucket, Rolling(changelog=True))
        order, _ = self._order.sort(rows)
        with all_or_nothing([roller]):
            roller.write(rows if order is None else rows.take(pa.array(order)))
            self._groups[number].changelog += roller.close()

    def _merges(self, number: int) -> bool:
        """Whether a group's rows are sorted and merged; pending rows and those of append tables stay as they came."""
        return self._keyed and self._assigner.groups[number][1] != POSTPONE_BUCKET

    def _start(self, number: int) -> int:
        return self._task.sequence_start.get(self._assigner.groups[number], self._task.first_sequence)

    def _emit(self, grouped: Iterator[tuple[int, Iterator[pa.RecordBatch]]]) -> None:
        """Write the rows given and what was spilled before them into files, group by group."""
        spilled = self._spill.groups()

        def groups() -> Iterator[tuple[int, list[Iterator[pa.RecordBatch]]]]:
            for number, batches in grouped:
                spilled.discard(number)
                yield number, [*self._spill.runs(number), batches]
            for number in sorted(spilled):
                yield number, self._spill.runs(number)

        in_threads(self._write_group, groups(), self._task.options.get("threads", 1))
        self._close_rollers()
        self._spill.clear()

    def _write_group(self, number: int, runs: list[Iterator[pa.RecordBatch]]) -> None:
        """Merge sorted runs into level-0 files, or append arrivals one after the other."""
        group = self._groups[number]
        rows: Iterable[pa.RecordBatch]
        merges = self._merges(number)
        if not merges:
            rows = chain.from_iterable(runs)
        else:
            size = BlockSize(bytes=max(1, min(DEFAULT_BLOCK.bytes, self._budget // (4 * len(runs)))))
            rows = runs[0] if len(runs) == 1 else merge_runs(runs, self._order, self._engine, block=size)
        self._append(group, number, rows)
        if merges or self._buffered:
            self._close_roller(group, number)

    def _append(self, group: _Group, number: int, batches: Iterable[pa.RecordBatch]) -> None:
        if group.roller is None:
            partition, bucket = self._assigner.groups[number]
            pending = bucket == POSTPONE_BUCKET
            group.roller = (
                PendingRoller(self._store, partition, modulus_for(self._store.options, self._task.parallelism))
                if pending
                else Roller(self._store, partition, bucket, NEW_FILES)
            )
        for batch in batches:
            group.roller.write(batch)

    def _relieve(self) -> None:
        """Encode what the open files have gathered, the most first, while it is more than the buffer may hold."""
        while True:
            waiting = {number: group.roller.pending for number, group in enumerate(self._groups) if group.roller}
            if sum(waiting.values()) <= self._budget:
                return
            largest = self._groups[max(waiting, key=waiting.__getitem__)].roller
            if largest is not None:
                largest.flush()

    def _close_rollers(self) -> None:
        for number, group in enumerate(self._groups):
            self._close_roller(group, number)

    def _close_roller(self, group: _Group, number: int) -> None:
        if group.roller is None:
            return
        files = group.roller.close()
        group.roller = None
        if not self._keyed and not is_tracked(self._store):
            files = [self._numbered(group, number, file) for file in files]
        group.files.extend(files)

    def _numbered(self, group: _Group, number: int, file: DataFile) -> DataFile:
        """An append file with the sequence numbers of its rows: they are counted, not stored."""
        task = self._task
        step, first = (1, 0) if self._unaware else (task.tasks, task.task)
        first += self._start(number) + step * group.rows
        group.rows += file.row_count
        last = first + step * (file.row_count - 1)
        return replace(file, min_sequence_number=first, max_sequence_number=last)


def _taken(batch: pa.RecordBatch, rows: Codes) -> Iterator[pa.RecordBatch]:
    """The rows of these numbers, in pieces."""
    step = max(1, PIECE_BYTES * batch.num_rows // max(batch.nbytes, 1))
    for start in range(0, len(rows), step):
        yield batch.take(pa.array(rows[start : start + step]))


def in_threads(action: Callable[..., None], calls: Iterator[tuple[Any, ...]], threads: int) -> None:
    """Run `action(*call)` for every call, at most `threads` at a time and as many taken from the iterator ahead; when
    this returns or raises none is running."""
    if threads <= 1:
        for call in calls:
            action(*call)
        return
    running: deque[Future[None]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for call in calls:
            if len(running) >= threads:
                running.popleft().result()
            running.append(pool.submit(action, *call))
        for future in running:
            future.result()


def key_values(rows: pa.RecordBatch, sequence: Codes, schema: TableSchema) -> pa.RecordBatch:
    """Value columns and `_VALUE_KIND` in the layout of primary-key files: keys, sequence, kind, values."""
    keys = [rows.column(name) for name in schema.trimmed_primary_keys]
    kind = rows.column(KIND_FIELD.name)
    values = [rows.column(item.name) for item in schema.fields]
    layout = arrow_schema(schema.key_value_fields)
    return pa.RecordBatch.from_arrays([*keys, pa.array(sequence), kind, *values], schema=layout)
