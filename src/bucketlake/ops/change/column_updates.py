"""Changes of rows whose columns may lie in several files (`data-evolution.enabled`): new values of some columns beside
the files that are there, deleted rows in vectors.

    write_columns(store, group, names, patches)    one file with these columns of every row of a group
    delete_ids(store, base, {group: ids})          messages that mark rows by their ids
    ColumnsRead(store, base, groups, used)         check: are they still what was read?
    update_columns(store, where, values)           UPDATE with constants, without Spark
    delete_evolving(store, where)                  DELETE, without Spark

Spec: docs/spec/row_tracking.md#writing-columns
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.errors import ConflictError, InvalidError, UnsupportedError
from bucketlake.format.data.blob import is_blob
from bucketlake.format.index.deletion_vector import Vector, positions_of, vector_of
from bucketlake.format.index.index_manifest import IndexEntry, IndexFile
from bucketlake.format.metadata.manifest import DataFile, FileKind, FileSource, ManifestEntry
from bucketlake.format.metadata.snapshot import CommitKind, Snapshot
from bucketlake.format.numbers import distinct
from bucketlake.ops.change.append_rows import Assign, deleted_unseen, replaced_vectors
from bucketlake.ops.change.row_conflicts import MergeRead
from bucketlake.ops.commit.commit import Check, Commit, CommitProperties
from bucketlake.ops.commit.outcome import SHORTEST_PAUSE, Attempt, Attempts
from bucketlake.ops.rows.column_files import anchor_of, held, rows_files
from bucketlake.ops.rows.column_roll import BlobPatches, ColumnRoller, first_id, groups_of
from bucketlake.ops.rows.deletions import load_deletions, new_vector
from bucketlake.ops.rows.described import as_stored, keeping
from bucketlake.ops.rows.global_index import stale_indexes
from bucketlake.ops.rows.read import read_split
from bucketlake.ops.rows.row_ids import tracked
from bucketlake.ops.scan.scan import Scan, delta_entries, plan
from bucketlake.ops.scan.select import Selection
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.made import all_or_nothing
from bucketlake.ops.table.messages import CommitMessage, Split
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.prepare import new_commit_user
from bucketlake.predicate.tree import Constant, Predicate, columns_of
from bucketlake.schema.schema import ROW_ID_FIELD, SEQUENCE_FIELD, TableSchema
from bucketlake.types.arrow import canonical_array, has_required
from bucketlake.types.model import arrow_schema
from bucketlake.values import dataclass

ATTEMPTS = 20
ROW_ID = ROW_ID_FIELD.name
Ids = npt.NDArray[np.int64]
Found = tuple[Split, Vector]
"""Rows of a group, as positions in it."""


# ---------------------------------------------------------------------------------------------- which changes


def refuse_moves(schema: TableSchema, columns: Iterable[str]) -> None:
    """UnsupportedError, in Paimon's words, where rows would move to other partitions: they could not keep their ids."""
    found = sorted(set(columns) & set(schema.partition_keys))
    if found:
        raise UnsupportedError(
            "Update to partition columns is not supported for data evolution tables.",
            columns=found,
            remedy="insert the rows anew and delete the old ones",
        )


def refuse_deletes(schema: TableSchema, statement: str = "DELETE") -> None:
    """UnsupportedError, in Paimon's words, where rows cannot be marked as deleted."""
    if schema.table_options.get("deletion-vectors.enabled"):
        return
    what = "Can only perform deletion operation on data evolution tables with DeletionVector enabled."
    if statement == "MERGE":
        what = "MERGE INTO DELETE on DataEvolution table requires deletion-vectors.enabled=true."
    raise UnsupportedError(what, remedy="create the table with 'deletion-vectors.enabled' = 'true'")


def refuse_indexed(store: Store, stale: Sequence[IndexEntry]) -> None:
    """UnsupportedError where a global index speaks of columns that get new values, unless the table says otherwise: it
    would find rows by their old values."""
    if stale and store.options.get("global-index.column-update-action") == "THROW_ERROR":
        raise UnsupportedError(
            "MergeInto: update columns contain globally indexed columns, not supported now.",
            table=store.paths.root,
            index=stale[0].file.file_name,
            remedy="CALL sys.drop_global_index, or set 'global-index.column-update-action' to DROP_PARTITION_INDEX",
        )


# ---------------------------------------------------------------------------------------------- columns


def groups_at(store: Store, snapshot: Snapshot, where: Predicate | None) -> list[Split]:
    """The groups of a snapshot that may hold matching rows."""
    return groups_of(plan(store, Scan(where, Selection(snapshot))).splits)


def write_columns(
    store: Store, group: Split, names: Sequence[str], patches: Iterable[pa.RecordBatch]
) -> CommitMessage | None:
    """Write columns of all rows of a group: those of the patches, which come by strictly ascending `_ROW_ID`, the
    others as they are; of BLOB columns those of the patches alone. None where no patch comes. On an error nothing
    stays.

    Raises InvalidError for an id that comes twice, is not the group's, or for a null where none may be.
    """
    end = first_id(group) + group.files[0].row_count
    ahead = _Patches(map(keeping(store), patches), first_id(group), end)
    if ahead.done:
        return None
    apart = [item.name for item in store.schema.blob_fields if item.name in names]
    beside = [name for name in names if name not in apart]
    blobs = BlobPatches(store, group.partition, apart, first_id(group), end) if apart else None
    roller = ColumnRoller(store, group.partition, beside) if beside else None
    with all_or_nothing([writer for writer in (roller, blobs) if writer is not None]):
        place = first_id(group)
        for old in read_split(as_stored(store), replace(group, raw=False, deletions={}), beside) if beside else ():
            rows = old
            for patch in ahead.below(place + old.num_rows):
                rows = _patched(rows, patch, place)
                if blobs is not None:
                    blobs.write(patch)
            if roller is not None:
                roller.write(rows)
            place += old.num_rows
        for patch in ahead.below(end):
            if blobs is not None:
                blobs.write(patch)
        files = [] if roller is None else [roller.close(first_id(group), _numbers(group))]
        files += [] if blobs is None else blobs.close(_numbers(group))
    return CommitMessage(group.partition, group.bucket, group.total_buckets, new_files=tuple(files))


def _numbers(group: Split) -> tuple[int, int]:
    """The sequence numbers of a new file of a group: those of its commit, but where the group has greater ones, of
    another table that it was cloned from, the next."""
    highest = max(file.max_sequence_number for file in group.files)
    return (0, 0) if highest <= group.snapshot_id else (highest + 1, highest + 1)


def _patched(rows: pa.RecordBatch, patch: pa.RecordBatch, first: int) -> pa.RecordBatch:
    """Rows with the values of a patch at its ids; `first`: the id of the first row."""
    chosen = np.arange(rows.num_rows, dtype=np.int64)
    chosen[patch.column(ROW_ID).to_numpy() - first] = rows.num_rows + np.arange(patch.num_rows)
    indices = pa.array(chosen)
    columns = [
        pa.concat_arrays([old, _alike(patch.column(name), old.type, name)]).take(indices)
        for name, old in zip(rows.schema.names, rows.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _alike(values: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    """The values in the type of those that are there. Arrow casts no null to a type whose members are NOT NULL."""
    return canonical_array(values, pa.field(name, kind), name) if has_required(kind) else values.cast(kind)


class _Patches:
    """New values by ascending row id, taken as far as they are needed."""

    def __init__(self, batches: Iterable[pa.RecordBatch], first: int, end: int) -> None:
        self._batches, self._last, self._end = iter(batches), first - 1, end
        self._head = self._next()

    @property
    def done(self) -> bool:
        """Whether none is left."""
        return self._head is None

    def below(self, end: int) -> Iterator[pa.RecordBatch]:
        """Those of lower ids than `end` that are left."""
        while self._head is not None:
            count = int(np.searchsorted(self._head.column(ROW_ID).to_numpy(), end))
            if count:
                yield self._head.slice(0, count)
            if count < self._head.num_rows:
                self._head = self._head.slice(count)
                return
            self._head = self._next()

    def _next(self) -> pa.RecordBatch | None:
        found = next((batch for batch in self._batches if batch.num_rows), None)
        if found is not None:
            ids = found.column(ROW_ID).to_numpy()
            if ids[0] <= self._last or not (ids[1:] > ids[:-1]).all() or ids[-1] >= self._end:
                raise InvalidError("row ids come twice, or are not of these rows", end=self._end)
            self._last = int(ids[-1])
        return found


# ---------------------------------------------------------------------------------------------- rows that go


def delete_ids(store: Store, base: Snapshot, found: Sequence[Found]) -> Iterator[CommitMessage]:
    """Messages, one a partition, by which rows of groups join the deletion vectors of their oldest files. Rows that
    these name already are no change."""
    partitions: dict[bytes, list[Found]] = {}
    for group, hits in found:
        partitions.setdefault(group.partition, []).append((group, hits))
    for own in partitions.values():
        vectors = {}
        for group, hits in own:
            name = anchor_of(group.files).file_name
            old = load_deletions(store, group.deletions).get(name)
            known = np.zeros(0, np.int64) if old is None else positions_of(old)
            wanted = distinct([known, positions_of(hits)])
            if len(wanted) > len(known):
                vectors[name] = new_vector(store, wanted)
        if not vectors:
            continue
        first = own[0][0]
        message = CommitMessage(first.partition, first.bucket, first.total_buckets)
        added, removed = replaced_vectors(store, base, message, vectors, list(vectors))
        yield replace(message, new_index_files=tuple(added), deleted_index_files=tuple(removed))


# ---------------------------------------------------------------------------------------------- conflicts


@dataclass(slots=True)
class ColumnsRead:
    """What a change was made of: columns, by field id, of groups of a snapshot. It may be committed while every one of
    these groups is there, with the same rows, and each of the columns is as it was; what others do to other groups, to
    other columns of these and to the order of files is no conflict.

    Spec: docs/conflicts.md#tables-whose-columns-lie-in-several-files
    """

    store: Store
    snapshot: Snapshot
    groups: Sequence[Split]
    used: frozenset[int]
    written: frozenset[int] = frozenset()
    more: Check | None = None
    _seen: dict[tuple[int, tuple[str, ...] | None], frozenset[int]] = field(default_factory=dict)

    def check(self, messages: Sequence[CommitMessage], view: View) -> None:
        """Raise ConflictError where it may not be committed."""
        newest, base = view.snapshot, self.snapshot
        if self.more is not None:
            self.more(messages, view)
        if newest is not None and (newest.id, newest.uuid) == (base.id, base.uuid):
            return
        self._check_indexes(messages, view)
        before = self.store.find_snapshot(base.id)
        if newest is None or newest.id < base.id or before is None or before.uuid != base.uuid:
            raise self._conflict("the table was rolled back, or the snapshot that was read has expired", newest, None)
        there: dict[tuple[bytes, int], list[ManifestEntry]] = {}
        blobs: dict[bytes, list[ManifestEntry]] = {}
        for entry in view.entries(frozenset(group.partition for group in self.groups)):
            if is_blob(entry.file.file_name):
                blobs.setdefault(entry.partition, []).append(entry)
            elif entry.file.first_row_id is not None:
                there.setdefault((entry.partition, entry.file.first_row_id), []).append(entry)
        for found in blobs.values():
            found.sort(key=_first)
        for group in self.groups:
            files = [entry.file for entry in there.get((group.partition, first_id(group)), ())]
            self._compare(group, files, newest)
            own, end = blobs.get(group.partition, []), first_id(group) + group.files[0].row_count
            span = slice(bisect_left(own, first_id(group), key=_first), bisect_left(own, end, key=_first))
            if self._blobs(entry.file for entry in own[span]) != self._blobs(group.files):
                raise self._conflict("another commit changed columns that were read", newest, group)

    def _check_indexes(self, messages: Sequence[CommitMessage], view: View) -> None:
        """Indexes of the columns written that others have built meanwhile are dropped, too, by the next attempt."""
        stale = stale_indexes(view.indexes, self.written, frozenset(group.partition for group in self.groups))
        refuse_indexed(self.store, stale)
        gone = {file.file_name for message in messages for file in message.deleted_index_files}
        drops = self.store.options.get("global-index.column-update-action") == "DROP_PARTITION_INDEX"
        if drops and any(entry.file.file_name not in gone for entry in stale):
            raise self._conflict("another program has indexed columns that change", view.snapshot, None)

    def _compare(self, group: Split, files: Sequence[DataFile], newest: Snapshot) -> None:
        if not files or any(file.row_count != group.files[0].row_count for file in files):
            raise self._conflict("another commit replaced the files of rows that were read", newest, group)
        ordered = sorted(files, key=lambda file: (file.max_sequence_number, file.file_name), reverse=True)
        highest = max(file.max_sequence_number for file in group.files)
        old, new = self._givers(rows_files(group.files)), self._givers(ordered)
        for column in self.used:
            giver = new.get(column)
            was = old.get(column)
            if giver is None or (was is not None and giver.file_name == was.file_name):
                continue
            moved = giver.file_source is FileSource.COMPACT and giver.max_sequence_number <= highest
            if not moved:
                raise self._conflict("another commit changed columns that were read", newest, group)

    def _blobs(self, files: Iterable[DataFile]) -> set[str]:
        """The blob files among some that hold columns used."""
        return {file.file_name for file in files if is_blob(file.file_name) and self._columns(file) & self.used}

    def _givers(self, files: Sequence[DataFile]) -> dict[int, DataFile]:
        """Which file gives each of the columns used, of files with the newest first."""
        found: dict[int, DataFile] = {}
        for file in files:
            for column in self._columns(file) & self.used:
                found.setdefault(column, file)
        return found

    def _columns(self, file: DataFile) -> frozenset[int]:
        key = (file.schema_id, file.write_cols)
        if key not in self._seen:
            written = self.store.schema_of(file.schema_id)
            self._seen[key] = frozenset(item.id for item in held(written, file))
        return self._seen[key]

    def _conflict(self, what: str, newest: Snapshot | None, group: Split | None) -> ConflictError:
        return ConflictError(
            what,
            table=self.store.paths.root,
            read=self.snapshot.id,
            base=None if newest is None else newest.id,
            first_row_id=None if group is None else first_id(group),
            remedy="read the table again and repeat the change",
        )


@dataclass(slots=True)
class AddingRead(MergeRead):
    """As `MergeRead`, of a table whose columns lie in several files: new values of columns that it looked at would have
    to be seen, too, whoever wrote them."""

    used: frozenset[int] = frozenset()

    def _check_step(self, messages: Sequence[CommitMessage], before: Snapshot | None, step: Snapshot) -> None:
        MergeRead._check_step(self, messages, before, step)
        if step.commit_kind is not CommitKind.APPEND:
            return
        there = (before or self.snapshot or step).next_row_id or 0
        for entry in delta_entries(self.store, step):
            first = entry.file.first_row_id
            if entry.kind == FileKind.ADD and first is not None and first < there:
                written = self.store.schema_of(entry.file.schema_id)
                if self.used & {item.id for item in held(written, entry.file)}:
                    raise self._conflict("another commit changed columns that a MERGE looked at", step, [entry.file])


def _first(entry: ManifestEntry) -> int:
    return entry.file.first_row_id or 0


# A star, a name that is worked out, or an expression for names (`spark.sql.parser.quotedRegexColumnNames`).
_EVERY = re.compile(r"[.(,]\s*\*|\$\{|\bidentifier\b|`[^`]*[*+?|.\[({^$\\][^`]*`")


def named_columns(schema: TableSchema, texts: Iterable[object]) -> set[str]:
    """The columns that texts of Spark's SQL may read, found by their names; all of them for what is no text, names a
    star or what only Spark works out, or rows' numbers: every change of a row changes its number. Names beyond ASCII
    count as found: who knows which letters are one to Spark."""
    known = list(texts)
    words = " ".join(text.lower() for text in known if isinstance(text, str))
    plain = all(isinstance(text, str) for text in known)
    if not plain or _EVERY.search(words) or SEQUENCE_FIELD.name.lower() in words:
        return set(schema.field_names)
    return {
        name
        for name in schema.field_names
        if not name.isascii() or name.lower() in words or name.replace("`", "``").lower() in words
    }


def used_columns(schema: TableSchema, names: Collection[str]) -> frozenset[int]:
    """Field ids of columns; of all where rows' numbers are among them: every change of a row changes its number."""
    every = SEQUENCE_FIELD.name in names
    return frozenset(item.id for item in schema.fields if every or item.name in names)


# ---------------------------------------------------------------------------------------------- statements


@dataclass(frozen=True, slots=True)
class Changed:
    """What one attempt of a change has written, and what it was made of. `more`: what else is to be checked."""

    messages: Sequence[CommitMessage]
    groups: Sequence[Split] = ()
    more: Check | None = None


Attempted = Callable[["Snapshot | None", Attempt], Changed]
"""Evaluates and writes a change as of a snapshot; files are told to the attempt as soon as they are there."""


def until_done(
    store: Store, once: Attempted, used: frozenset[int], operation: str | None, written: Collection[str] = ()
) -> Snapshot | None:
    """Evaluate, write and commit a change, all of it again where others changed what it has read, a bounded number of
    times; the snapshot, None where there was nothing to commit. `written`: the columns that get new values.

    Raises UnsupportedError where a global index of one of these columns would be out of date, unless the table wants it
    to be dropped, or does not mind.
    """
    aborting, own = Commit(store, ""), used_columns(store.schema, written)

    def tried(attempt: Attempt) -> Snapshot | None:
        base = attempt.on(store.latest_snapshot())
        if not store.schema.partition_keys:  # else of the partitions of rows that are found
            refuse_indexed(store, stale_indexes(store.index_manifest(base), own))
        changed = once(base, attempt)
        touched = frozenset(group.partition for group in changed.groups)
        stale = stale_indexes(store.index_manifest(base), own, touched)
        refuse_indexed(store, stale)
        if store.options.get("global-index.column-update-action") == "DROP_PARTITION_INDEX":
            changed = replace(changed, messages=[*changed.messages, *dropping(store, stale)])
        check = changed.more
        if base is not None and changed.groups:
            check = ColumnsRead(store, base, changed.groups, used, own, changed.more).check
        commit = Commit(store, new_commit_user(store), check=check)
        notes = CommitProperties(operation=operation)
        return commit.commit(changed.messages, notes=notes, outcome=attempt.outcome)

    return Attempts(store, aborting.abort, ATTEMPTS, pause=SHORTEST_PAUSE).run(tried)


def dropping(store: Store, entries: Iterable[IndexEntry]) -> list[CommitMessage]:
    """Messages that take index files out of the table."""
    places: dict[tuple[bytes, int], list[IndexFile]] = {}
    for entry in entries:
        places.setdefault((entry.partition, entry.bucket), []).append(entry.file)
    total = int(store.options.get("bucket"))
    return [CommitMessage(*place, total, deleted_index_files=tuple(files)) for place, files in places.items()]


def update_columns(store: Store, where: Predicate | None, assign: Assign, assigned: Collection[str]) -> Snapshot | None:
    """Set columns of the rows that an exact condition is true for (None: all) to what `assign` makes of these rows."""
    refuse_moves(store.schema, assigned)
    where = Constant(True) if where is None else where
    names = [name for name in store.schema.field_names if name in assigned]
    blobs = (*store.schema.blob_fields, *store.schema.described_fields)
    rows, apart = tracked(store), {item.name for item in blobs} - columns_of(where)
    read = [name for name in store.schema.field_names if name not in apart]

    def patches(group: Split) -> Iterator[pa.RecordBatch]:
        for batch in read_split(rows, group, [*read, ROW_ID], where):
            whole = batch.select(read)
            for item in arrow_schema(store.schema.select([name for name in names if name in apart])):
                whole = whole.append_column(item.with_nullable(True), pa.nulls(batch.num_rows, item.type))
            made = assign(whole).select(names)
            yield made.append_column(pa.field(ROW_ID, pa.int64()), batch.column(ROW_ID))

    def once(base: Snapshot | None, attempt: Attempt) -> Changed:
        touched = []
        for group in [] if base is None else groups_at(store, base, where):
            message = write_columns(store, group, names, patches(group))
            if message is not None:
                attempt.made([message])
                touched.append(group)
        return Changed(attempt.messages, touched)

    return until_done(store, once, used_columns(store.schema, {*names, *columns_of(where)}), "UPDATE", names)


def delete_evolving(store: Store, where: Predicate | None) -> Snapshot | None:
    """Delete the rows that an exact condition is true for; all rows and whole partitions by metadata alone."""
    done, snapshot = deleted_unseen(store, where)
    if done or where is None:
        return snapshot
    refuse_deletes(store.schema)
    rows = tracked(store)

    def once(base: Snapshot | None, attempt: Attempt) -> Changed:
        found = []
        for group in [] if base is None else groups_at(store, base, where):
            parts = [batch.column(ROW_ID).to_numpy() for batch in read_split(rows, group, [ROW_ID], where)]
            found += by_group([group], np.concatenate([np.zeros(0, np.int64), *parts]))
        return deleted(store, base, found, attempt)

    return until_done(store, once, used_columns(store.schema, columns_of(where)), "DELETE")


def deleted(store: Store, base: Snapshot | None, found: Sequence[Found], attempt: Attempt) -> Changed:
    """What an attempt that deletes rows of groups has written."""
    if base is not None:
        for message in delete_ids(store, base, found):
            attempt.made([message])
    return Changed(attempt.messages, [group for group, _ in found])


def by_group(groups: Sequence[Split], ids: Ids) -> list[Found]:
    """Row ids, in any order, as rows of the groups that they are of. InvalidError for one that no group has."""
    named = RowsNamed.of(groups)
    return [(named.groups[number], hits) for number, hits in sorted(named.places(ids).items())]


@dataclass(frozen=True)
class RowsNamed:
    """Tells by row ids which rows of groups are meant; travels to tasks. `starts`, `counts`: first row ids, ascending,
    and how many rows there are."""

    starts: Ids
    counts: Ids
    groups: tuple[Split, ...] = ()

    @classmethod
    def of(cls, groups: Sequence[Split]) -> RowsNamed:
        """Of these groups."""
        ordered = sorted(groups, key=first_id)
        counts = [group.files[0].row_count for group in ordered]
        return cls(np.array([*map(first_id, ordered)], np.int64), np.array(counts, np.int64), tuple(ordered))

    def places(self, ids: Ids) -> dict[int, Vector]:
        """Rows by the number of their group, as positions in it; `ids` in any order."""
        ids = distinct([ids])
        if not len(ids):
            return {}
        places = np.searchsorted(self.starts, ids, side="right") - 1
        numbers, first = np.unique(places, return_index=True)
        found = {}
        for number, own in zip(numbers.tolist(), np.split(ids, first[1:]), strict=True):
            if number < 0 or own[-1] >= self.starts[number] + self.counts[number]:
                raise InvalidError("row ids that the table does not have", ids=own[-5:].tolist())
            positions = own - self.starts[number]
            found[number] = vector_of(positions, bits64=bool(positions[-1] >= 1 << 31))
        return found
