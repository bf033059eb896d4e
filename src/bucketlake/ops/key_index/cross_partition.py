"""Cross-partition upserts: rows of a key that lies in another partition than the row says.

    deduplicate                   -D where the key lies, the row into its own partition
    partial-update, aggregation   the row goes where the key lies, and takes that partition's values
    first-row                     the row is dropped

A key that lies nowhere takes a bucket of its row's partition. Rows that take a key back go where it lies.

Spec: docs/spec/cross_partition.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.errors import NotFoundError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.lazy import pc
from bucketlake.lsm.engines.engines import is_retract
from bucketlake.lsm.key_run import ABSENT, GrowingRun, Keys, Mask, Places, ascending
from bucketlake.ops.buckets.assigner import BucketRule, fill
from bucketlake.ops.key_index.cache import PASS_ROWS, IndexReader, cached_index, open_index
from bucketlake.ops.key_index.key_scan import PlaceNumbers, key_fields, look_up
from bucketlake.ops.rows.assign import Assigner, Codes, partition_codes
from bucketlake.ops.rows.incoming import DELETE
from bucketlake.ops.table.messages import CommitMessage, WriteTask
from bucketlake.ops.table.partitions import partition_values
from bucketlake.ops.table.retry import on_newest
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import KIND_FIELD
from bucketlake.types.model import arrow_schema
from bucketlake.values import dataclass

BATCH_ROWS = 1 << 17
FEW_KEYS = 5_000  # so many a task looks up in the table itself, where there is no cache
FEW_ROWS = 500_000  # in a table of more an index is built for fewer keys too, if one pass of its rows does
KEY_DYNAMIC_TOTAL = -1  # what manifest entries record as bucket number
Groups = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Placed:
    """Rows to write. `rows`: which of the batch, in order; `groups`: where; `deletes`: which become -D."""

    rows: Codes
    groups: Groups
    deletes: Mask


@dataclass(slots=True)
class CrossPartitionAssigner(Assigner):
    """Numbers the groups of a cross-partition table, and says which rows go where. Made by `cross_partition_assigner`.

    Every key that this write puts somewhere is remembered with its group, so that rows of a key follow each other;
    others are looked up in the task's base snapshot.
    """

    rule: BucketRule = field(default_factory=lambda: BucketRule(1))
    task: WriteTask = field(default_factory=lambda: WriteTask(""))
    engine: str = "deduplicate"
    _known: GrowingRun = field(default_factory=lambda: GrowingRun([]))
    _partitions: PlaceNumbers = field(default_factory=PlaceNumbers)
    _group_partitions: list[int] = field(default_factory=list)
    _counts: dict[bytes, dict[int, int]] = field(default_factory=dict)
    _reader: IndexReader | None = None
    _base: Snapshot | None = None
    _looked_up: int = 0
    _receiving: set[int] = field(default_factory=set)
    _tried: bool | None = None  # to open an index: None not yet, True also to build one

    def place(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Codes]:
        """The rows to write, and the group number of each."""
        if not rows.num_rows:
            return rows, np.zeros(0, np.int64)
        fields = key_fields(self.store)
        keys = Keys.of(rows, fields)
        codes, first = keys.distinct()
        local, partitions = partition_codes(rows, self.store.schema.partition_fields)
        own = np.array([self._partition(partition) for partition in partitions], np.int64)[local]
        order = ascending(keys.hashes[first])
        distinct = keys.take(first[order])  # ascending by hash, for the lookups
        known = np.empty(len(first), np.int64)
        known[order] = self._groups_of(distinct, rows, first[order])
        retract = is_retract(rows.column(KIND_FIELD.name).to_numpy())
        before = known.copy()
        placed = self._decide(_Batch(codes, first, own, retract, known))
        changed = (known != before)[order]
        if changed.any():
            self._known.put(distinct.take(changed), known[order][changed].astype(np.int32))
        return self._written(rows, own, placed), placed.groups

    def indexed(self, messages: list[CommitMessage]) -> list[CommitMessage]:
        """The messages with the snapshot that their keys were looked up in."""
        strange = {self.groups[number] for number in self._receiving}
        return [replace(m, key_base=self.task.key_base, received=(m.partition, m.bucket) in strange) for m in messages]

    # ---- where keys lie

    def _groups_of(self, keys: Keys, rows: pa.RecordBatch, first: Codes) -> Groups:
        """The group of each key, ABSENT for new ones. `keys`: distinct, ascending by hash; `first`: a row of each."""
        found = self._known.find(keys).astype(np.int64)
        missing = np.flatnonzero(found == ABSENT)
        if len(missing) and self.task.key_base:
            columns = rows.select(self.store.schema.primary_keys).take(pa.array(first[missing]))
            wanted = keys.take(missing)
            try:
                found[missing] = self._stored(wanted, columns)
            except NotFoundError:
                found[missing] = on_newest(self.store, lambda: self._stored_now(wanted, columns))
        return found

    def _stored_now(self, keys: Keys, columns: pa.RecordBatch) -> Groups:
        """As `_stored`, in the newest snapshot: that of the task has expired. The messages keep the task's, since which
        keys may have moved."""
        self._base = self.store.latest_snapshot()
        self._reader, self._tried = None, None
        self.task = replace(self.task, key_index=None)
        return self._in_table(columns) if self._base is None else self._stored(keys, columns)

    def _stored(self, keys: Keys, columns: pa.RecordBatch) -> Groups:
        self._open(len(keys))
        if self._reader is None:
            return self._in_table(columns)
        found = self._numbered(self._reader.find(keys), self._reader.numbers)
        absent = np.flatnonzero(found == ABSENT)
        if len(absent) and not self._reader.index.complete:
            found[absent] = self._in_table(columns.take(pa.array(absent)))
        return found

    def _in_table(self, columns: pa.RecordBatch) -> Groups:
        numbers = PlaceNumbers()
        return self._numbered(look_up(self.store, self._base, columns, numbers), numbers)

    def _numbered(self, places: Places, numbers: PlaceNumbers) -> Groups:
        """Places as groups of this writer."""
        groups = np.full(len(numbers.places) + 1, ABSENT, np.int64)
        for number in np.unique(places[places >= 0]).tolist():
            groups[number] = self._group(*numbers.places[number])
        return groups[places]

    def _open(self, wanted: int) -> None:
        """Make ready what keys are looked up in: the index of the task, else the cache, else an index built where that
        pays, else the table."""
        base = self.task.key_base
        assert base is not None
        if self._base is None:
            self._base = self.store.snapshot(base)
        self._looked_up += wanted
        pays = self._looked_up > FEW_KEYS or FEW_ROWS < self._base.total_record_count <= PASS_ROWS
        if self._reader is not None or self._tried is pays:
            return
        index = self.task.key_index
        if index is None:
            index = (open_index if pays else cached_index)(self.store, self._base)
        if index is not None:
            self._reader = IndexReader(self.store, index)
        self._tried = pays

    # ---- where rows go

    def _decide(self, batch: _Batch) -> _Placed:
        if self.engine == "deduplicate":
            return self._moving(batch)
        fresh = np.flatnonzero(batch.known == ABSENT)
        if self.engine == "first-row":
            rows = np.sort(batch.first[fresh])
            batch.known[batch.codes[rows]] = self._new(batch.own[rows])
            return _Placed(rows, batch.known[batch.codes[rows]], np.zeros(len(rows), np.bool_))
        batch.known[fresh] = self._new(batch.own[batch.first[fresh]])
        groups = batch.known[batch.codes]
        return _Placed(np.arange(len(groups)), groups, np.zeros(len(groups), np.bool_))

    def _moving(self, batch: _Batch) -> _Placed:
        """Each row into its own partition, with -D before it where the key lay until then. A row that takes a key back
        stays where the key lies."""
        count = len(batch.codes)
        order = np.argsort(batch.codes, kind="stable") if len(batch.first) < count else np.arange(count)
        codes, own, retract = batch.codes[order], batch.own[order], batch.retract[order]
        starts = np.ones(count, np.bool_)
        starts[1:] = codes[1:] != codes[:-1]
        known = batch.known[codes]
        lay = np.append(np.array(self._group_partitions, np.int64), ABSENT)[known]  # by group; the last: nowhere
        place = np.where(retract & starts & (lay >= 0), lay, own)
        row = np.arange(count)
        place = place[np.maximum.accumulate(np.where(~retract | starts, row, 0))]
        before = np.where(starts, lay, np.roll(place, 1))
        moved = place != before
        groups = np.where(starts, known, 0)
        entered = np.flatnonzero(moved)
        entered = entered[np.argsort(order[entered], kind="stable")]  # buckets fill in order of arrival
        groups[entered] = self._new(place[entered])
        groups = groups[np.maximum.accumulate(np.where(moved | starts, row, 0))]
        left = np.flatnonzero(moved & (before >= 0))
        sources = np.where(starts[left], known[left], groups[np.maximum(left - 1, 0)])
        self._leave(sources)
        batch.known[codes] = groups  # the last of a key stays
        rows = np.concatenate([order[left], order])
        arrival = np.argsort(rows, kind="stable")
        deletes = np.repeat([True, False], [len(left), count])
        return _Placed(rows[arrival], np.concatenate([sources, groups])[arrival], deletes[arrival])

    def _new(self, partitions: Codes) -> Groups:
        """Groups of keys that are new to these partitions, in order of arrival: their buckets fill by the rule."""
        groups = np.empty(len(partitions), np.int64)
        for number in np.unique(partitions).tolist():
            partition = self._partitions.places[number][0]
            arrived = np.flatnonzero(partitions == number)
            counts = self._counts_of(partition)
            owners = self._owners()
            for place, owner in enumerate(owners):
                rows = arrived[place :: len(owners)]
                shares = fill(counts, len(rows), self.rule, owner)
                numbers = [self._group(partition, bucket) for bucket in shares]
                groups[rows] = np.repeat(np.array(numbers, np.int64), list(shares.values()))
                for bucket, count in shares.items():
                    counts[bucket] = counts.get(bucket, 0) + count
        return groups

    def _owners(self) -> Sequence[int]:
        """The assigners that this task is: one, and the driver all, which deals its keys out to them."""
        last = self.task.task == self.task.tasks - 1
        return range(self.rule.assigners) if last else (self.task.task % self.rule.assigners,)

    def _leave(self, groups: Groups) -> None:
        for number, count in zip(*np.unique(groups, return_counts=True), strict=True):
            partition, bucket = self.groups[int(number)]
            counts = self._counts_of(partition)
            counts[bucket] = max(counts.get(bucket, 0) - int(count), 0)

    def _counts_of(self, partition: bytes) -> dict[int, int]:
        """Keys of every bucket of a partition; buckets of which nothing is known count as empty."""
        found = self._counts.get(partition)
        if found is None:
            self._counts[partition] = found = {b: 0 for p, b in self.task.sequence_start if p == partition}
            index = self.task.key_index if self._reader is None else self._reader.index
            if index is not None:
                found.update({b: count for (p, b), count in index.counts.items() if p == partition})
        return found

    def _group(self, partition: bytes, bucket: int) -> int:
        number = self._number(partition, bucket)
        if number == len(self._group_partitions):
            self._group_partitions.append(self._partition(partition))
        return number

    def _partition(self, partition: bytes) -> int:
        self._check(partition)
        return self._partitions.number((partition, 0))

    # ---- what is written

    def _written(self, rows: pa.RecordBatch, own: Codes, placed: _Placed) -> pa.RecordBatch:
        """The rows chosen, with the partition columns of where they go, and the kinds that they are given."""
        partitions = np.array(self._group_partitions, np.int64)[placed.groups]
        if len(placed.rows) != rows.num_rows or placed.deletes.any():
            rows = rows.take(pa.array(placed.rows))
        strange = partitions != own[placed.rows]
        if strange.any():
            if self.engine != "deduplicate":
                self._receiving.update(np.unique(placed.groups[strange]).tolist())
            rows = repartitioned(self.store, rows, strange, [p for p, _ in self._partitions.places], partitions)
        if placed.deletes.any():
            at = rows.schema.get_field_index(KIND_FIELD.name)
            kinds = np.where(placed.deletes, np.int8(DELETE), rows.column(at).to_numpy())
            rows = rows.set_column(at, rows.schema.field(at), pa.array(kinds, pa.int8()))
        return rows


@dataclass(slots=True)
class _Batch:
    """One batch: which key each row has, where each key is first, the partition that each row says, whether it takes
    the key back; `known`: the group of each key, ABSENT for none, updated by what is decided."""

    codes: Codes
    first: Codes
    own: Codes
    retract: Mask
    known: Groups


def repartitioned(
    store: Store, rows: pa.RecordBatch, which: Mask, partitions: Sequence[bytes], numbers: Codes
) -> pa.RecordBatch:
    """Rows of which some get the partition columns of another partition: `partitions[numbers[i]]`."""
    values = [partition_values(store, partition) for partition in partitions]
    fields = arrow_schema(store.schema.partition_fields)
    for place, item in enumerate(fields):
        wanted = pa.array([value[place] for value in values], item.type).take(pa.array(numbers))
        at = rows.schema.get_field_index(item.name)
        column = pc.if_else(pa.array(which), wanted, rows.column(at))
        rows = rows.set_column(at, rows.schema.field(at), column)
    return rows


def cross_partition_assigner(store: Store, task: WriteTask) -> CrossPartitionAssigner:
    """The assigner of a task that writes to a cross-partition table."""
    return CrossPartitionAssigner(
        store,
        KEY_DYNAMIC_TOTAL,
        batch_rows=BATCH_ROWS,
        rule=BucketRule.of(store.options, task.assigners),
        task=task,
        engine=str(store.options.get("merge-engine")),
    )
