"""Changing rows of append tables: find the rows, then mark them in vectors or rewrite their files.

    delete_rows(store, where, find=None) -> Snapshot | None
    update_rows(store, where, {column: value}, find=None) -> Snapshot | None
    change_rows(store, where, Means(find, write, rewrite), operation)      what Spark finds, writes and rewrites
    assign_values(schema, {column: value}) -> assign

With `deletion-vectors.enabled` the rows found join their files' vectors; else files with such rows are written anew
without them. A file that keeps no row is removed. All of it is one OVERWRITE commit. A commit that another one made
impossible is planned again on the newest snapshot: positions found in a file stay true as long as the file exists, so
only files that are new are looked at.

Spec: docs/spec/deletion_vector.md#deleting
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from bucketlake.errors import InvalidError, did_you_mean
from bucketlake.format.index.deletion_vector import Vector, apart, either, positions_of, vector_of
from bucketlake.format.index.index_manifest import IndexFile
from bucketlake.format.metadata.manifest import DataFile, FileSource
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.change.new_values import NewValues, in_place, rewrite_changed
from bucketlake.ops.change.row_changes import is_everything, whole_partitions
from bucketlake.ops.change.touched import LEAST_PART, Touched, mask_of, numbered, path_of
from bucketlake.ops.commit.commit import Check, Commit, CommitProperties
from bucketlake.ops.commit.outcome import SHORTEST_PAUSE, Attempt, Attempts
from bucketlake.ops.rows.carried import carried, carried_columns
from bucketlake.ops.rows.column_files import refuse_rewriting
from bucketlake.ops.rows.deletions import load_deletions, load_vectors, new_vector, vector_entries, write_vectors
from bucketlake.ops.rows.one_file import file_layout, read_file
from bucketlake.ops.rows.read import matching_positions, read_rows
from bucketlake.ops.rows.roll import TARGET_APPEND, Rolling, rolled
from bucketlake.ops.rows.row_ids import is_tracked, plain_schema, tracked
from bucketlake.ops.scan.scan import Scan, plan
from bucketlake.ops.scan.select import Selection
from bucketlake.ops.table.entries import BucketKey
from bucketlake.ops.table.known import check_known
from bucketlake.ops.table.made import remove_files
from bucketlake.ops.table.messages import CommitMessage, Split
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.prepare import new_commit_user, prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.predicate.tree import Constant, Predicate
from bucketlake.schema.default import default_scalar
from bucketlake.schema.schema import ROW_ID_FIELD, SEQUENCE_FIELD, BucketMode, TableSchema
from bucketlake.types.model import DataField, arrow_field, arrow_schema
from bucketlake.values import dataclass

__all__ = [
    "Assign",
    "Find",
    "Means",
    "Write",
    "assign_values",
    "change_rows",
    "delete_rows",
    "found_here",
    "hit_rows",
    "replaced_vectors",
    "rewrite_part",
    "rewritten_here",
    "update_rows",
]

ATTEMPTS = 20
LEAST_ALONE = 4 << 20  # bytes of a file that stays one file where its rows stay
SET_AT_ONCE = 1 << 16  # rows
_NONE = vector_of(np.empty(0, np.int64), bits64=False)
Find = Callable[[Store, Sequence[Split], "Snapshot | None"], Mapping[str, Vector]]
"""Positions of the rows wanted in files of raw splits of a snapshot, by `path_of`; rows that vectors name may be among
them."""
Assign = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Rows as they are (all columns of the table) to rows as they shall be."""


Write = Callable[[Store, "Snapshot | None", Sequence[Touched]], Iterable[CommitMessage]]
"""Writes the rows that come in the place of those touched, and others, as of a snapshot."""
Rewrite = Callable[[Store, Sequence[Sequence[Touched]]], list[list[DataFile]]]
"""Writes, for each group of files of one bucket, new files with the rows that are left; on failure none stays."""


@dataclass(frozen=True, slots=True)
class Means:
    """Who does the work of a change. `anew`: what is found depends on all files, not on each alone: every attempt finds
    it again, and an empty table has rows to write, too. `width`: how many groups of files are rewritten at once.
    `replaces`: rows that are found stay, `rewrite` gives these columns of them new values; else they go."""

    find: Find
    write: Write | None = None
    rewrite: Rewrite | None = None
    anew: bool = False
    width: int = 1
    check: Callable[[Snapshot | None], Check] | None = None
    replaces: tuple[str, ...] = ()


def delete_rows(
    store: Store, where: Predicate | None, find: Find | None = None, rewrite: Rewrite | None = None
) -> Snapshot | None:
    """Delete the rows of an append table that `where` is true for (None: all), as one commit; None if there are none.

    Whole partitions, and all rows, go without being looked at. Safe under concurrent writers: rows that other commits
    bring before ours are deleted too. `find` finds the rows where only Spark can evaluate `where`. On failure nothing
    is visible and no file stays.
    Raises ConflictError when the files keep being replaced, and what a commit raises.
    Spec: docs/spec/deletion_vector.md#deleting
    """
    done, snapshot = deleted_unseen(store, where)
    if done or where is None:
        return snapshot
    return change_rows(store, where, Means(find or found_here(where), rewrite=rewrite), "DELETE")


def deleted_unseen(store: Store, where: Predicate | None) -> tuple[bool, Snapshot | None]:
    """Delete all rows or whole partitions by metadata alone, where that is what a condition says: whether it was, and
    the snapshot, if there was anything."""
    if where is None or is_everything(where):
        if store.latest_snapshot_id() is None:
            return True, None
        return True, Commit(store, new_commit_user(store)).truncate()
    whole = whole_partitions(store, where)
    if whole is None:
        return False, None
    return True, Commit(store, new_commit_user(store)).drop_partitions(whole) if whole else None


def update_rows(
    store: Store, where: Predicate | None, values: Mapping[str, Any], find: Find | None = None
) -> Snapshot | None:
    """Set columns of the rows of an append table that `where` is true for (None: all) to constants, as one commit; None
    where there are none. Rows stay where they are where these columns allow it; else new ones are written, perhaps in
    other partitions and buckets. Otherwise as `delete_rows`; values as in `assign_values`."""
    where, schema = Constant(True) if where is None else where, store.schema
    assign = assign_values(schema, values)
    find = find or found_here(where)
    if not in_place(schema, values):
        return change_rows(store, where, Means(find, partial(_assigned_here, assign)), "UPDATE")
    names = tuple(item.name for item in schema.fields if item.name in values)
    constants = {name: _constant(schema.field(name), values[name]) for name in names}
    return change_rows(store, where, Means(find, rewrite=partial(_set_here, constants), replaces=names), "UPDATE")


def change_rows(store: Store, where: Predicate | None, means: Means, operation: str) -> Snapshot | None:
    """Delete the rows that are found in files where `where` may be true, and write others, as one commit; None where
    there is nothing to commit. Safe under concurrent writers as `delete_rows`."""
    refuse_rewriting(store.schema, operation)
    return _Change(store, where, means, operation).run()


def assign_values(schema: TableSchema, values: Mapping[str, Any]) -> Assign:
    """Rows with some columns set to constants: Python values or Arrow scalars. InvalidError for unknown columns, for
    none, and for values that are not of their column's type."""
    if not values or not isinstance(values, Mapping):
        raise InvalidError("an update that sets nothing", given=values, remedy="give column -> value, then where")
    unknown = sorted(set(values) - set(schema.field_names))
    if unknown:
        remedy = did_you_mean(unknown[0], schema.field_names)
        raise InvalidError("no such column", columns=unknown, columns_there=list(schema.field_names), remedy=remedy)
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
        what = "[NOT_NULL_ASSERT_VIOLATION] a column that is NOT NULL cannot be set to null"
        raise InvalidError(what, column=field.name)
    try:
        return value.cast(field.type) if isinstance(value, pa.Scalar) else pa.scalar(value, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidError(
            "value does not fit its column",
            column=field.name,
            type=str(field.type),
            reason=str(error),
            remedy="give a value of Python's; SQL expressions need Spark: lake.table(…).update",
        ) from error


def _constant(item: DataField, value: Any) -> pa.Scalar:
    """What a column is set to: its default in the place of null."""
    found = _scalar(value, arrow_field(item.name, item.type.with_nullable(True)))
    return found if found.is_valid or item.default is None else default_scalar(item)


def found_here(where: Predicate) -> Find:
    """Reads the files in this process, several at a time; the condition must be exact."""

    def find(store: Store, splits: Sequence[Split], base: Snapshot | None) -> dict[str, Vector]:
        files = [(split, file) for split in splits for file in split.files]
        found = parallel(lambda item: matching_positions(store, *item, where), files)
        return {path_of(store, *item): _vector(positions) for item, positions in zip(files, found, strict=True)}

    return find


def _vector(positions: Any) -> Vector:
    return vector_of(positions, bits64=bool(len(positions) and positions[-1] >= 1 << 31))


@dataclass(slots=True)
class _Change:
    """A change on changing bases. `known`: positions found so far, by path."""

    store: Store
    where: Predicate | None
    means: Means
    operation: str
    known: dict[str, Vector] = field(default_factory=dict)

    def run(self) -> Snapshot | None:
        """Plan and commit until it holds."""
        commit = Commit(self.store, new_commit_user(self.store))
        notes = CommitProperties(operation=self.operation)

        def once(attempt: Attempt) -> Snapshot | None:
            base = attempt.on(self.store.latest_snapshot())
            check_known(self.store, base)
            for message in self._messages(base):
                attempt.made([message])
            messages = attempt.messages
            own = commit
            if messages and self.means.check is not None:
                own = Commit(self.store, new_commit_user(self.store), check=self.means.check(base))
            return own.commit(messages, notes=notes, outcome=attempt.outcome)  # of nothing only where that is wanted

        return Attempts(self.store, commit.abort, ATTEMPTS, pause=SHORTEST_PAUSE).run(once)

    # ---- one attempt

    def _messages(self, snapshot: Snapshot | None) -> Iterator[CommitMessage]:
        """What to commit on this snapshot; each message as soon as its files are written."""
        splits: Sequence[Split] = ()
        if snapshot is not None:
            splits = plan(self.store, Scan(self.where, Selection(snapshot))).splits
        elif not self.means.anew:
            return
        touched = self._touched(splits, snapshot)
        if snapshot is not None and touched:
            yield from self._removals(snapshot, touched)
        if self.means.write is not None and (touched or self.means.anew):
            yield from self.means.write(self.store, snapshot, touched)

    def _removals(self, snapshot: Snapshot, touched: Sequence[Touched]) -> Iterator[CommitMessage]:
        """A message a bucket: the files that go, those with what is left of them, vectors."""
        buckets: dict[BucketKey, list[Touched]] = {}
        for item in touched:
            buckets.setdefault((item.split.partition, item.split.bucket), []).append(item)
        marks = bool(self.store.options.get("deletion-vectors.enabled"))
        parts = [] if marks else self._parts(list(buckets.values()))
        written = (self.means.rewrite or rewritten_here)(self.store, parts) if parts else []
        new: dict[BucketKey, list[DataFile]] = {}
        for part, files in zip(parts, written, strict=True):
            new.setdefault((part[0].split.partition, part[0].split.bucket), []).extend(files)
        try:
            for place, group in buckets.items():
                yield _bucket_message(self.store, snapshot, group, new.get(place, []), marks)
                new.pop(place, None)
        except BaseException:
            for place, files in new.items():
                remove_files(self.store, *place, files)
            raise

    def _parts(self, groups: Sequence[Sequence[Touched]]) -> list[list[Touched]]:
        """The files to rewrite, in groups of which each becomes new files."""
        total = sum(touched.file.file_size for group in groups for touched in group if touched.survives)
        share = max(LEAST_PART, total // self.means.width)
        return [part for group in groups for part in _parts(self.store, group, share, bool(self.means.replaces))]

    def _touched(self, splits: Sequence[Split], base: Snapshot | None) -> list[Touched]:
        if self.means.anew:
            self.known = dict(self.means.find(self.store, splits, base))
        else:
            new = [_part(split, [f for f in split.files if self._path(split, f) not in self.known]) for split in splits]
            self.known.update(self.means.find(self.store, [split for split in new if split.files], base))
        return [touched for split in splits for touched in self._touched_in(split)]

    def _touched_in(self, split: Split) -> list[Touched]:
        files = [file for file in split.files if self.known.get(self._path(split, file))]
        if not files:
            return []
        deletions = {f.file_name: split.deletions[f.file_name] for f in files if f.file_name in split.deletions}
        vectors = load_deletions(self.store, deletions)
        found = []
        for file in files:
            wanted, old = self.known[self._path(split, file)], vectors.get(file.file_name)
            hits = wanted if old is None else apart(wanted, old)
            if len(hits):
                gone = _NONE if self.means.replaces else hits
                dead = gone if old is None else either(gone, old)
                found.append(Touched(replace(_part(split, [file]), deletions={}), file, hits, dead))
        return found

    def _path(self, split: Split, file: DataFile) -> str:
        return path_of(self.store, split, file)


def _part(split: Split, files: Sequence[DataFile]) -> Split:
    return replace(split, files=tuple(files))


def hit_rows(store: Store, touched: Touched) -> Iterator[pa.RecordBatch]:
    """The rows of a file that live until now and are to be deleted."""
    return read_rows(store, touched.split, touched.file, ~mask_of(touched.file, touched.hits))


def _assigned_here(
    assign: Assign, store: Store, snapshot: Snapshot | None, touched: Sequence[Touched]
) -> list[CommitMessage]:
    store = tracked(store)
    rows = (_assigned(assign, store, batch) for item in touched for batch in hit_rows(store, item))
    return write_batches(store, rows, prepare_write(store, snapshot))


def _assigned(assign: Assign, store: Store, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with their new values; those with ids keep them."""
    if not is_tracked(store):
        return assign(batch)
    ids = batch.column(ROW_ID_FIELD.name)
    rows = assign(batch.select(plain_schema(store.schema).field_names))
    if rows.num_rows != len(ids):
        raise InvalidError(
            "an update gives as many rows as it is given, in their order", rows=len(ids), given=rows.num_rows
        )
    rows = rows.append_column(pa.field(ROW_ID_FIELD.name, pa.int64()), ids)
    return rows.append_column(pa.field(SEQUENCE_FIELD.name, pa.int64()), pa.nulls(len(ids), pa.int64()))


def _set_here(
    constants: Mapping[str, pa.Scalar], store: Store, parts: Sequence[Sequence[Touched]]
) -> list[list[DataFile]]:
    """New files in the place of these, with constants in the rows that are found."""
    fields = [store.schema.field(name) for name in constants]

    def batches(part: Sequence[Touched]) -> Iterator[pa.RecordBatch]:
        for number, touched in enumerate(part):
            places = positions_of(touched.hits)
            for start in range(0, len(places), SET_AT_ONCE):
                own = places[start : start + SET_AT_ONCE]
                columns = [pa.repeat(value, len(own)) for value in constants.values()]
                numbers = [pa.repeat(pa.scalar(number, pa.int64()), len(own)), pa.array(own, pa.int64())]
                yield pa.RecordBatch.from_arrays([*columns, *numbers], names=[*constants, "file", "position"])

    def rewrite(part: Sequence[Touched]) -> list[DataFile]:
        return rewrite_changed(store, list(enumerate(part)), NewValues(fields, batches(part)))

    return _rewritten(store, parts, rewrite)


# ---- one bucket


def _bucket_message(
    store: Store, snapshot: Snapshot, group: Sequence[Touched], new: Sequence[DataFile], marks: bool
) -> CommitMessage:
    """The files of one bucket that go, those that come, and the index files that say what is deleted."""
    first = group[0].split
    marked = [touched for touched in group if marks and touched.survives]
    gone = [touched for touched in group if not (marks and touched.survives)]
    vectors = {item.file.file_name: new_vector(store, positions_of(item.dead)) for item in marked}
    message = CommitMessage(first.partition, first.bucket, first.total_buckets)
    added, removed = replaced_vectors(store, snapshot, message, vectors, [touched.file.file_name for touched in group])
    return replace(
        message,
        new_files=tuple(new),
        deleted_files=tuple(touched.file for touched in gone),
        new_index_files=tuple(added),
        deleted_index_files=tuple(removed),
    )


def replaced_vectors(
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


def _parts(store: Store, group: Sequence[Touched], share: int, stay: bool) -> list[list[Touched]]:
    """The files of a bucket to rewrite, in groups of which each becomes new files: in bucketed tables every file by
    itself, else neighbours, of about `share` bytes or what a file may have, all groups of much the same size; of larger
    files stretches. Where rows stay, no file is cut, and those that are not small are by themselves, too."""
    group = [touched for touched in group if touched.survives]
    if store.schema.bucket_mode is not BucketMode.UNAWARE:
        return [[touched] for touched in group]
    size = min(share, store.options.get("target-file-size") or TARGET_APPEND)
    if stay:
        alone = [[touched] for touched in group if touched.size >= LEAST_ALONE]
        group = [touched for touched in group if touched.size < LEAST_ALONE]
        return alone + _neighbours(group, size)
    return _neighbours([stretch for touched in group for stretch in touched.cut(max(size, LEAST_PART))], size)


def _neighbours(group: list[Touched], size: int) -> list[list[Touched]]:
    """Groups of neighbours, of about so many bytes each."""
    sizes = np.array([touched.size for touched in group], np.int64)
    count = max(1, round(int(sizes.sum()) / size))
    middle = np.cumsum(sizes) - sizes / 2
    places = np.minimum(middle * count // max(int(sizes.sum()), 1), count - 1).astype(np.int64)
    return [[group[at] for at in np.flatnonzero(places == place)] for place in np.unique(places)]


def rewritten_here(store: Store, parts: Sequence[Sequence[Touched]]) -> list[list[DataFile]]:
    """Rewrite in this process, several groups at a time."""
    return _rewritten(store, parts, partial(rewrite_part, store))


def _rewritten(
    store: Store, parts: Sequence[Sequence[Touched]], rewrite: Callable[[Sequence[Touched]], list[DataFile]]
) -> list[list[DataFile]]:
    written: dict[int, list[DataFile]] = {}

    def run(number: int) -> None:
        written[number] = rewrite(parts[number])

    try:
        parallel(run, range(len(parts)))
    except BaseException:
        for number, files in written.items():
            remove_files(store, parts[number][0].split.partition, parts[number][0].split.bucket, files)
        raise
    return [written[number] for number in range(len(parts))]


def rewrite_part(store: Store, part: Sequence[Touched]) -> list[DataFile]:
    """New files with the rows that are left of these, with their ids if they have some; in bucketed tables with
    sequence numbers of the file that they replace, in primary-key tables on its level, each row with its own. On
    failure none stays."""
    if store.schema.primary_keys:
        return [file for touched in part for file in _rewritten_keyed(store, touched)]
    store = tracked(store)
    rows = (batch for touched in part for batch in carried(store, touched.split, touched.left_out))
    files = rolled(store, part[0].split.partition, part[0].split.bucket, rows)
    if store.schema.bucket_mode is BucketMode.UNAWARE:
        return files
    return numbered(files, part[0].file)


def _rewritten_keyed(store: Store, touched: Touched) -> list[DataFile]:
    """The rows that are left of a file of a primary-key table that needs no merge."""
    split, file = touched.split, touched.file
    layout = file_layout(store, file, store.schema.key_value_fields).encoding(carried_columns(store))
    read = read_file(store, path_of(store, split, file), layout, None, mask_of(file, touched.dead))
    rows = (layout.rows(batch) for batch in read if batch.num_rows)
    return rolled(store, split.partition, split.bucket, rows, Rolling(file.level, FileSource.COMPACT))
