"""Keys of a bucket's files: their order, their ranges, their bucket, their numbers. Only key columns are read.

Spec: docs/maintenance.md#levels
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.errors import BucketlakeError, NotFoundError
from bucketlake.format.index.hash_index import verify
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.row.binary_row import encode_rows, with_arity_header
from bucketlake.format.row.hashing import assign_buckets
from bucketlake.lsm.engines.engines import is_retract
from bucketlake.lsm.keys import Bound, KeyOrder
from bucketlake.lsm.levels import key_range_of
from bucketlake.ops.buckets.dynamic import hash_of_key, key_hashes
from bucketlake.ops.check.findings import shown
from bucketlake.ops.check.roots import attempted
from bucketlake.ops.check.rows import code_of
from bucketlake.ops.rows.deletions import deleted_mask, load_vectors
from bucketlake.ops.rows.one_file import file_layout, read_file
from bucketlake.ops.scan.scan import MERGE_ON_READ
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import KIND_FIELD, SEQUENCE_FIELD, BucketMode
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.ops.check.unit import CheckUnit

Add = Callable[[str, str, int], None]
MOST_TIES = 50_000_000  # rows whose numbers are compared at once


def check_keys(store: Store, unit: CheckUnit, file: DataFile, known: Any, add: Add) -> None:
    """Read the keys of a file and compare them with what is recorded of them. `known`: the bucket's hash index,
    ascending, None without one."""
    look = _Keys(store, unit, file, known)
    error = attempted(look.read)
    if isinstance(error, BucketlakeError):
        if not isinstance(error, NotFoundError):
            add(code_of(error), shown(error), 1)
        return
    for code, cause, count in look.faults():
        add(code, cause, count)


def key_batches(store: Store, unit: CheckUnit, file: DataFile, fields: Sequence[DataField]) -> Iterator[pa.RecordBatch]:
    """Columns of a file's rows, whatever number of rows or bytes is recorded."""
    layout = replace(file_layout(store, file, fields), row_count=None, size=None)
    path = store.paths.file_path(store.paths.bucket_dir(unit.partition, unit.bucket), file)
    return (layout.rows(batch) for batch in read_file(store, path, layout, None))


@dataclass(slots=True)
class _Keys:
    """What is seen of a file's keys, batch by batch."""

    store: Store
    unit: CheckUnit
    file: DataFile
    known: Any
    unsorted: int = 0
    repeated: int = 0
    strangers: int = 0
    lacking: int = 0
    deletes: int = 0
    numbers: list[int] = field(default_factory=list)  # smallest and greatest of each batch
    edges: list[bytes] = field(default_factory=list)  # first and last key of each batch
    last: Bound | None = None

    def read(self) -> None:
        """All batches."""
        schema = self.store.schema
        if schema.primary_keys:
            fields = (*schema.key_fields, SEQUENCE_FIELD, KIND_FIELD)
            order = KeyOrder(schema.key_fields)
            for batch in key_batches(self.store, self.unit, self.file, fields):
                if batch.num_rows:
                    self._keyed(batch, order)
        elif schema.bucket_mode is BucketMode.FIXED:
            fields = schema.select(schema.bucket_keys)
            for batch in key_batches(self.store, self.unit, self.file, fields):
                self._placed(batch, fields)

    def _keyed(self, batch: pa.RecordBatch, order: KeyOrder) -> None:
        keys = self.store.schema.key_fields
        self.deletes += int(is_retract(batch.column(KIND_FIELD.name).to_numpy()).sum())
        numbers = batch.column(SEQUENCE_FIELD.name).to_numpy()
        self.numbers += [int(numbers.min()), int(numbers.max())]
        self._ordered(batch, order)
        columns = [batch.column(item.name) for item in keys]
        ends = [column.take(pa.array([0, batch.num_rows - 1])) for column in columns]
        rows = encode_rows(ends, [item.type for item in keys])
        data = rows.buffer.tobytes()
        for at in range(2):
            row = data[rows.offsets[at] : rows.offsets[at + 1]]
            self.edges.append(with_arity_header(row, len(keys)))
        if self.known is not None:
            self.lacking += len(verify(self.known, key_hashes(batch, keys)))
        if self.store.schema.bucket_mode in (BucketMode.FIXED, BucketMode.POSTPONE):
            by_name = {item.name.removeprefix("_KEY_"): item for item in keys}
            self._placed(batch, [by_name[name] for name in self.store.schema.bucket_keys])

    @property
    def _unordered(self) -> bool:
        """Whether the file is in the order of other columns than the key's."""
        return self.store.schema.clustered and self.file.level > 0

    def _ordered(self, batch: pa.RecordBatch, order: KeyOrder) -> None:
        if self._unordered:
            return
        view = order.view(batch)
        first = view.at(0)
        if self.last is not None:
            self.unsorted += first < self.last
            self.repeated += first == self.last
        self.last = view.at(batch.num_rows - 1)
        if order.is_strict(batch):
            return
        places, starts = order.sort(batch)
        if starts is None:
            self.unsorted += 1
            return
        self.repeated += batch.num_rows - len(starts)
        if places is not None:
            groups = np.zeros(batch.num_rows, np.int64)
            groups[starts] = 1
            ranks = np.empty(batch.num_rows, np.int64)
            ranks[places] = np.cumsum(groups)
            self.unsorted += int((np.diff(ranks) < 0).sum())

    def _placed(self, batch: pa.RecordBatch, fields: Sequence[DataField]) -> None:
        total = self.unit.total_buckets
        if total > 0 and batch.num_rows:
            function = self.store.options.get("bucket-function.type")
            self.strangers += int((assign_buckets(batch, fields, total, function) != self.unit.bucket).sum())

    def faults(self) -> Iterator[tuple[str, str, int]]:
        """(code, cause, count) of what was seen."""
        file = self.file
        told = (
            ("key-order", self.unsorted, "places where a key is smaller than the one before"),
            ("key-twice", self.repeated, "rows whose key came before in the file"),
            ("bucket-wrong", self.strangers, "rows of other buckets"),
            ("hash-index-lacks", self.lacking, "rows whose key the index lacks"),
        )
        for code, count, what in told:
            if count:
                yield code, f"{count} {what}", count
        if self.store.schema.primary_keys and self.edges:
            if not self._unordered:
                yield from self._beyond()
            if file.delete_row_count is not None and file.delete_row_count not in (-1, self.deletes):
                yield "delete-count", f"{self.deletes} deletes, {file.delete_row_count} are recorded", 1
        if self.numbers and not self.store.options.get("sequence.snapshot-ordering"):
            low, high = min(self.numbers), max(self.numbers)
            if high > file.max_sequence_number:
                yield "sequence-beyond", f"up to {high}, {file.max_sequence_number} is recorded", 1
            if low < file.min_sequence_number:
                yield "sequence-outside", f"from {low} on, {file.min_sequence_number} is recorded", 1

    def _beyond(self) -> Iterator[tuple[str, str, int]]:
        if {self.edges[0], self.edges[-1]} == {self.file.min_key, self.file.max_key}:
            return
        key_range = key_range_of(self.store.schema.key_fields)
        recorded = attempted(lambda: key_range(self.file))
        if isinstance(recorded, BucketlakeError):
            return  # told from metadata
        found = [key_range(replace(self.file, min_key=edge, max_key=edge))[0] for edge in self.edges]
        if min(found) < recorded[0] or max(found) > recorded[1]:
            yield "key-outside", "its first or last key is beyond that recorded", 1
        elif not self.unsorted and self.known is not None:
            told = np.concatenate([hash_of_key(self.file.min_key), hash_of_key(self.file.max_key)])
            if len(verify(self.known, told)):
                yield "key-range-wide", "its first or last key is within those recorded", 1


# ---------------------------------------------------------------------------------------------- across files


def check_ties(store: Store, unit: CheckUnit, files: Sequence[DataFile], add: Add) -> None:
    """Rows of one key and one sequence number in two files; only files whose ranges of numbers meet are read."""
    near = [file for file in files if any(file is not other and _meets(file, other) for other in files)]
    if store.options.get("sequence.snapshot-ordering") or sum(file.row_count for file in near) > MOST_TIES:
        return
    hashes: list[npt.NDArray[Any]] = []
    numbers: list[npt.NDArray[Any]] = []
    owners: list[npt.NDArray[Any]] = []
    fields = (*store.schema.key_fields, SEQUENCE_FIELD)
    for place, file in enumerate(near):
        read = attempted(lambda f=file: list(key_batches(store, unit, f, fields)))  # type: ignore[misc]
        for batch in [] if isinstance(read, BucketlakeError) else read:
            hashes.append(key_hashes(batch, store.schema.key_fields))
            numbers.append(batch.column(SEQUENCE_FIELD.name).to_numpy())
            owners.append(np.full(batch.num_rows, place))
    if not hashes:
        return
    of_key, of_row, of_file = np.concatenate(hashes), np.concatenate(numbers), np.concatenate(owners)
    order = np.lexsort((of_file, of_row, of_key))
    same = (np.diff(of_key[order]) == 0) & (np.diff(of_row[order]) == 0) & (np.diff(of_file[order]) != 0)
    if same.any():
        add("sequence-tie", f"{int(same.sum())} rows", int(same.sum()))


def _meets(left: DataFile, right: DataFile) -> bool:
    return (
        left.min_sequence_number <= right.max_sequence_number and right.min_sequence_number <= left.max_sequence_number
    )


def check_unmarked(store: Store, unit: CheckUnit, files: Sequence[DataFile], adder: Callable[[DataFile], Add]) -> None:
    """Keys that two files above level 0 have unmarked, in a table whose deletion vectors stand for merging them; only
    files whose keys may meet are read. `adder`: notes of a file."""
    options = store.options
    if not options.get("deletion-vectors.enabled") or options.get(MERGE_ON_READ) or store.schema.clustered:
        return
    near = _near(store, [file for file in files if file.level > 0])
    if len(near) < 2 or sum(file.row_count for file in near) > MOST_TIES:
        return
    count = attempted(lambda: _unmarked(store, unit, near))
    if not isinstance(count, BucketlakeError) and count:
        adder(near[0])("key-unmarked", f"{count} keys of {len(near)} files", count)


def _near(store: Store, files: Sequence[DataFile]) -> list[DataFile]:
    """Files whose range of keys meets that of a file of another level, the newest level first; none where a range
    cannot be read."""
    key_range = key_range_of(store.schema.key_fields)
    ranges = [attempted(lambda f=file: key_range(f)) for file in files]  # type: ignore[misc]
    known = [(file, one) for file, one in zip(files, ranges, strict=True) if not isinstance(one, BucketlakeError)]
    if len(known) < len(files):
        return []
    near = [
        file
        for file, (low, high) in known
        if any(other.level != file.level and low <= top and bottom <= high for other, (bottom, top) in known)
    ]
    return sorted(near, key=lambda file: file.level)


def _unmarked(store: Store, unit: CheckUnit, files: Sequence[DataFile]) -> int:
    """How many rows have the key of another one. Hashes tell which may; only those are compared. Errors of reading."""
    keys, names = store.schema.key_fields, {file.file_name for file in files}
    own = [
        replace(one, file=replace(one.file, dv_ranges=tuple(p for p in parts if p.data_file_name in names)))
        for one in unit.vectors
        if (parts := one.file.dv_ranges)
    ]
    vectors = load_vectors(store, own)

    def rows() -> Iterator[pa.RecordBatch]:
        for file in files:
            vector, start = vectors.get(file.file_name), 0
            dead = None if vector is None else deleted_mask(vector, file, file.file_name)
            for batch in key_batches(store, unit, file, (*keys, SEQUENCE_FIELD)):
                count = batch.num_rows
                yield batch if dead is None else batch.filter(pa.array(~dead[start : start + count]))
                start += count

    found, times = np.unique(np.concatenate([key_hashes(batch, keys) for batch in rows()]), return_counts=True)
    twice = found[times > 1]
    if not len(twice):
        return 0
    chosen = [batch.filter(pa.array(np.isin(key_hashes(batch, keys), twice))) for batch in rows()]
    joined = pa.Table.from_batches(chosen).combine_chunks().to_batches()
    if not joined:
        return 0
    (one,) = joined
    _, starts = KeyOrder(keys).sort(one)
    return 0 if starts is None else one.num_rows - len(starts)
