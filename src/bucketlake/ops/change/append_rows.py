"""Deleting and updating rows of append tables: find the rows, then mark them in vectors or rewrite their files.

    delete_rows(store, where, find=None) -> Snapshot | None
    update_rows(store, where, assign, find=None) -> Snapshot | None        assign: RecordBatch -> RecordBatch
    assign_values(schema, {column: value}) -> assign

With `deletion-vectors.enabled` the rows found join their files' vectors; else files with such rows are written anew
without them. A file that keeps no row is removed. All of it is one OVERWRITE commit. A commit that another one made
impossible is planned again on the newest snapshot: positions found in a file stay true as long as the file exists, so
only files that are new are looked at.

Spec: docs/spec/deletion_vector.md#deleting
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.errors import InvalidError
from bucketlake.format.index.deletion_vector import Vector, positions_of
from bucketlake.format.index.index_manifest import IndexFile
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.change.row_changes import is_everything, whole_partitions
from bucketlake.ops.commit.commit import Commit, CommitProperties
from bucketlake.ops.commit.outcome import SHORTEST_PAUSE, Attempt, Attempts
from bucketlake.ops.rows.deletions import Mask, load_deletions, load_vectors, new_vector, vector_entries, write_vectors
from bucketlake.ops.rows.read import matching_positions, read_rows
from bucketlake.ops.rows.roll import Roller
from bucketlake.ops.scan.scan import Scan, plan
from bucketlake.ops.scan.select import Selection
from bucketlake.ops.table.entries import BucketKey
from bucketlake.ops.table.made import remove_files
from bucketlake.ops.table.messages import CommitMessage, Split
from bucketlake.ops.table.store import Store, parallel
from bucketlake.ops.write.prepare import new_commit_user, prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.predicate.tree import Constant, Predicate
from bucketlake.schema.schema import BucketMode, TableSchema
from bucketlake.types.model import arrow_schema
from bucketlake.values import dataclass

__all__ = ["Assign", "Find", "Positions", "assign_values", "delete_rows", "found_here", "path_of", "update_rows"]

ATTEMPTS = 20
Positions = npt.NDArray[np.int64]
Find = Callable[[Store, Sequence[Split]], Mapping[str, Positions]]
"""Positions, ascending, of the rows wanted in every file of raw splits, by `path_of`; rows that vectors name may be
among them."""
Assign = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Rows as they are (all columns of the table) to rows as they shall be."""


def delete_rows(store: Store, where: Predicate | None, find: Find | None = None) -> Snapshot | None:
    """Delete the rows of an append table that `where` is true for (None: all), as one commit; None if there are none.

    Whole partitions, and all rows, go without being looked at. Safe under concurrent writers: rows that other commits
    bring before ours are deleted too. `find` finds the rows where only Spark can evaluate `where`. On failure nothing
    is visible and no file stays.
    Raises ConflictError when the files keep being replaced, and what a commit raises.
    Spec: docs/spec/deletion_vector.md#deleting
    """
    if store.latest_snapshot_id() is None:
        return None
    if where is None or is_everything(where):
        return Commit(store, new_commit_user(store)).truncate()
    whole = whole_partitions(store, where)
    if whole is not None:
        notes = CommitProperties(operation="DELETE")
        return Commit(store, new_commit_user(store)).drop_partitions(whole, notes=notes) if whole else None
    return _Change(store, where, find or found_here(where), "DELETE").run()


def update_rows(store: Store, where: Predicate | None, assign: Assign, find: Find | None = None) -> Snapshot | None:
    """Replace the rows of an append table that `where` is true for (None: all) by what `assign` makes of them, as one
    commit; None where there are none. New rows may lie in other partitions and buckets. Otherwise as `delete_rows`."""
    where = Constant(True) if where is None else where
    return _Change(store, where, find or found_here(where), "UPDATE", assign).run()


def assign_values(schema: TableSchema, values: Mapping[str, Any]) -> Assign:
    """Rows with some columns set to constants: Python values or Arrow scalars. InvalidError for unknown columns, for
    none, and for values that are not of their column's type."""
    if not values:
        raise InvalidError("an update that sets nothing", remedy="give column -> value")
    unknown = sorted(set(values) - set(schema.field_names))
    if unknown:
        raise InvalidError("no such column", columns=unknown, remedy=f"choose from {list(schema.field_names)}")
    fields = arrow_schema(schema.select(list(values)))
    scalars = {field.name: _scalar(values[field.name], field) for field in fields}

    def assign(batch: pa.RecordBatch) -> pa.RecordBatch:
        for name, value in scalars.items():
            place = batch.schema.get_field_index(name)
            batch = batch.set_column(place, batch.schema.field(place), pa.repeat(value, batch.num_rows))
        return batch

    return assign


def _scalar(value: Any, field: pa.Field) -> pa.Scalar:
    if value is None and not field.nullable:
        raise InvalidError("a column that is NOT NULL cannot be set to null", column=field.name)
    try:
        return value.cast(field.type) if isinstance(value, pa.Scalar) else pa.scalar(value, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidError(
            "value does not fit its column", column=field.name, type=str(field.type), reason=str(error)
        ) from error


def found_here(where: Predicate) -> Find:
    """Reads the files in this process, several at a time; the condition must be exact."""

    def find(store: Store, splits: Sequence[Split]) -> dict[str, Positions]:
        files = [(split, file) for split in splits for file in split.files]
        found = parallel(lambda item: matching_positions(store, *item, where), files)
        return {path_of(store, *item): positions for item, positions in zip(files, found, strict=True)}

    return find


def path_of(store: Store, split: Split, file: DataFile) -> str:
    """What tells a file from all others of the table: files of several partitions may have one name."""
    return store.paths.file_path(split.bucket_path, file)


@dataclass(slots=True)
class _Touched:
    """One file with rows to delete. `dead`: all its deleted rows then; `hits`: those that live until now."""

    split: Split
    file: DataFile
    hits: Mask
    dead: Mask

    @property
    def survives(self) -> bool:
        """Whether a row is left."""
        return not self.dead.all()


@dataclass(slots=True)
class _Change:
    """A delete or an update on changing bases. `known`: positions found so far, by path."""

    store: Store
    where: Predicate
    find: Find
    operation: str
    assign: Assign | None = None
    known: dict[str, Positions] = field(default_factory=dict)

    def run(self) -> Snapshot | None:
        """Plan and commit until it holds."""
        commit = Commit(self.store, new_commit_user(self.store))
        notes = CommitProperties(operation=self.operation)

        def once(attempt: Attempt) -> Snapshot | None:
            for message in self._messages(attempt.on(self.store.latest_snapshot())):
                attempt.made([message])
            messages = attempt.messages
            return commit.commit(messages, notes=notes, outcome=attempt.outcome) if messages else None

        return Attempts(self.store, commit.abort, ATTEMPTS, pause=SHORTEST_PAUSE).run(once)

    # ---- one attempt

    def _messages(self, snapshot: Snapshot | None) -> Iterator[CommitMessage]:
        """What to commit on this snapshot; each message as soon as its files are written."""
        if snapshot is None:
            return
        buckets: dict[BucketKey, list[_Touched]] = {}
        for touched in self._touched(plan(self.store, Scan(self.where, Selection(snapshot))).splits):
            buckets.setdefault((touched.split.partition, touched.split.bucket), []).append(touched)
        for group in buckets.values():
            yield _bucket_message(self.store, snapshot, group)
        if self.assign is not None and buckets:
            everything = [touched for group in buckets.values() for touched in group]
            rows = (self.assign(batch) for touched in everything for batch in _hit_rows(self.store, touched))
            yield from write_batches(self.store, rows, prepare_write(self.store, snapshot))

    def _touched(self, splits: Sequence[Split]) -> list[_Touched]:
        new = [_part(split, [f for f in split.files if self._path(split, f) not in self.known]) for split in splits]
        self.known.update(self.find(self.store, [split for split in new if split.files]))
        return [touched for split in splits for touched in self._touched_in(split)]

    def _touched_in(self, split: Split) -> list[_Touched]:
        files = [file for file in split.files if len(self.known.get(self._path(split, file), ()))]
        deletions = {f.file_name: split.deletions[f.file_name] for f in files if f.file_name in split.deletions}
        vectors = load_deletions(self.store, deletions)
        found = []
        for file in files:
            old = np.zeros(file.row_count, np.bool_)
            if file.file_name in vectors:
                old[positions_of(vectors[file.file_name])] = True
            hits = np.zeros(file.row_count, np.bool_)
            hits[self.known[self._path(split, file)]] = True
            hits &= ~old
            if hits.any():
                found.append(_Touched(split, file, hits, hits | old))
        return found

    def _path(self, split: Split, file: DataFile) -> str:
        return path_of(self.store, split, file)


def _part(split: Split, files: Sequence[DataFile]) -> Split:
    return replace(split, files=tuple(files))


def _hit_rows(store: Store, touched: _Touched) -> Iterator[pa.RecordBatch]:
    return read_rows(store, touched.split, touched.file, ~touched.hits)


# ---- one bucket


def _bucket_message(store: Store, snapshot: Snapshot, group: Sequence[_Touched]) -> CommitMessage:
    """The files of one bucket that go, those that come, and the index files that say what is deleted."""
    first = group[0].split
    marks = bool(store.options.get("deletion-vectors.enabled"))
    marked = [touched for touched in group if marks and touched.survives]
    gone = [touched for touched in group if not (marks and touched.survives)]
    vectors = {item.file.file_name: new_vector(store, np.flatnonzero(item.dead)) for item in marked}
    message = CommitMessage(first.partition, first.bucket, first.total_buckets)
    new = _rewritten(store, [touched for touched in gone if touched.survives])
    try:
        added, removed = _indexes(store, snapshot, message, vectors, [touched.file.file_name for touched in group])
    except BaseException:
        remove_files(store, message.partition, message.bucket, new)
        raise
    return replace(
        message,
        new_files=tuple(new),
        deleted_files=tuple(touched.file for touched in gone),
        new_index_files=tuple(added),
        deleted_index_files=tuple(removed),
    )


def _indexes(
    store: Store, snapshot: Snapshot, place: CommitMessage, vectors: Mapping[str, Vector], touched: Sequence[str]
) -> tuple[list[IndexFile], list[IndexFile]]:
    """Index files to add and to remove, so that the `touched` files have these vectors and all others keep theirs.

    A bucket's one index file is replaced; unaware tables replace those with vectors of files that are touched."""
    entries = vector_entries(store.index_manifest(snapshot), place.partition, place.bucket)
    names = set(touched)
    if store.schema.bucket_mode is BucketMode.UNAWARE:
        entries = [e for e in entries if any(part.data_file_name in names for part in e.file.dv_ranges or ())]
    kept = {name: vector for name, vector in load_vectors(store, entries).items() if name not in names}
    added = write_vectors(store, place.partition, place.bucket, {**kept, **vectors})
    return added, [entry.file for entry in entries]


def _rewritten(store: Store, group: Sequence[_Touched]) -> list[DataFile]:
    """New files with the rows that are left; in bucketed tables with sequence numbers of the file that they replace."""
    if not group:
        return []
    if store.schema.bucket_mode is BucketMode.UNAWARE:
        by_split: dict[int, list[_Touched]] = {}
        for touched in group:
            by_split.setdefault(id(touched.split), []).append(touched)
        parts = list(by_split.values())
    else:
        parts = [[touched] for touched in group]
    written: list[list[DataFile]] = []
    try:
        parallel(lambda part: written.append(_rolled(store, part)), parts)
    except BaseException:
        remove_files(store, group[0].split.partition, group[0].split.bucket, [f for files in written for f in files])
        raise
    return [file for files in written for file in files]


def _rolled(store: Store, part: Sequence[_Touched]) -> list[DataFile]:
    roller = Roller(store, part[0].split.partition, part[0].split.bucket)
    try:
        for touched in part:
            for batch in read_rows(store, touched.split, touched.file, touched.dead):
                roller.write(batch)
        files = roller.close()
    except BaseException:
        roller.abort()
        raise
    if store.schema.bucket_mode is BucketMode.UNAWARE:
        return files
    numbered = []
    first = part[0].file.min_sequence_number
    for file in files:
        last = first + file.row_count - 1
        numbered.append(replace(file, min_sequence_number=first, max_sequence_number=last))
        first = last + 1
    return numbered
