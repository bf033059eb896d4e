"""Can a commit stand on a base that it was not planned on? Pure: entries in, a verdict or an error out.

The rules, in the order of checking (each is a row of docs/conflicts.md):

1. a commit adds and deletes a file once each;
2. a deleted file is live in the base (so what was read for a rewrite is still there);
3. all files of a partition count the same number of buckets;
4. files of one level above 0 have disjoint key ranges;
5. index files replace exactly those that they were built on, and deletion vectors speak of live files;
6. files of tables whose columns lie in several files have the rows of others, or none of them; columns alone are those
   of rows that are there, and blob files of rows of one file;
7. sequence ranges of two commits to one bucket do not overlap: this one never fails, it says what to renumber.

Spec: docs/spec/commit.md#conflicts
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from bucketlake.errors import ConflictError, CorruptError
from bucketlake.format.data.blob import is_blob
from bucketlake.format.index.index_manifest import DELETION_VECTORS, HASH, IndexEntry
from bucketlake.format.metadata.manifest import DataFile, FileKind, FileSource, ManifestEntry
from bucketlake.format.metadata.snapshot import CommitKind, Snapshot
from bucketlake.lsm.levels import KeyRange
from bucketlake.ops.table.entries import EntryKey, bucket_key, entry_key, fold
from bucketlake.values import dataclass

SHOWN_FILES = 5


@dataclass(frozen=True, slots=True)
class CommitName:
    """Who commits what; `snapshot` is the id published or aimed at."""

    snapshot: int
    user: str
    identifier: int
    kind: CommitKind

    def __str__(self) -> str:
        return f"snapshot {self.snapshot} ({self.kind.value} {self.identifier} by {self.user})"


def name_of(snapshot: Snapshot) -> CommitName:
    """The name of a published commit."""
    return CommitName(snapshot.id, snapshot.commit_user, snapshot.commit_identifier, snapshot.commit_kind)


@dataclass(frozen=True, slots=True)
class Rules:
    """What of a table decides conflicts. `key_range`: of a file's trimmed primary key, None without one.
    `unaware`: deletion vectors lie per partition, several index files each. `column_files`: the columns of a row may
    lie in several files, which have the same first row id and the same number of rows."""

    key_range: KeyRange | None = None
    unaware: bool = False
    column_files: bool = False


@dataclass(frozen=True, slots=True)
class Base:
    """The newest published state of the partitions that a commit touches. `entries`: their live files;
    `total_buckets` is derived; `indexes`: live index entries of the whole table; `name`: the newest commit."""

    name: CommitName
    entries: tuple[ManifestEntry, ...]
    indexes: tuple[IndexEntry, ...]


def check(
    rules: Rules, base: Base | None, ours: CommitName, delta: Sequence[ManifestEntry], indexes: Sequence[IndexEntry]
) -> None:
    """Raise ConflictError (naming both commits and the files) unless the delta can be applied to the base.

    `base` is None for the first commit of a table.
    Spec: docs/spec/commit.md#conflicts
    """
    entries = base.entries if base else ()
    try:
        fold(delta)
        merged = fold([*entries, *delta])
    except CorruptError as error:
        raise _conflict(f"File deletion conflicts detected! {error.what}", base, ours, delta) from error
    gone = [entry for entry in merged.values() if entry.kind == FileKind.DELETE]
    if gone:
        raise _conflict(
            "File deletion conflicts detected! Trying to delete files which are not live any more", base, ours, gone
        )
    _check_bucket_numbers(merged, delta, base, ours)
    if rules.key_range is not None:
        _check_key_ranges(rules.key_range, merged, delta, base, ours)
    if rules.column_files:
        _check_same_ids(entries, delta, base, ours)
        _check_row_ranges(merged, delta, base, ours)
    _check_indexes(rules, base, ours, indexes)
    _check_vectors(base, ours, merged, delta, indexes)


def _check_bucket_numbers(
    merged: Mapping[EntryKey, ManifestEntry], delta: Sequence[ManifestEntry], base: Base | None, ours: CommitName
) -> None:
    wanted: dict[bytes, ManifestEntry] = {}
    for entry in delta:
        if entry.kind == FileKind.ADD and entry.total_buckets > 0:
            first = wanted.setdefault(entry.partition, entry)
            if first.total_buckets != entry.total_buckets:
                raise _bucket_number_error(entry, first.total_buckets, base, ours)
    if not wanted:
        return
    added = {id(entry) for entry in delta}
    for entry in merged.values():
        if entry.total_buckets > 0 and entry.partition in wanted and id(entry) not in added:
            mine = wanted[entry.partition]
            if mine.total_buckets != entry.total_buckets:
                raise _bucket_number_error(mine, entry.total_buckets, base, ours)


def _bucket_number_error(entry: ManifestEntry, previous: int, base: Base | None, ours: CommitName) -> ConflictError:
    place = "partition" if decoded_arity(entry.partition) else "table"
    return ConflictError(
        f"Try to write {place} with a new bucket num {entry.total_buckets}, but the previous bucket num is {previous}.",
        remedy="Please switch to batch mode, and perform INSERT OVERWRITE to rescale current data layout first "
        "(or CALL sys.rescale)",
        commit=ours,
        base=base.name if base else None,
        file=entry.file.file_name,
    )


def decoded_arity(partition: bytes) -> int:
    """How many columns a serialized row has."""
    return int.from_bytes(partition[:4], "big")


def _check_key_ranges(
    key_range: KeyRange,
    merged: Mapping[EntryKey, ManifestEntry],
    delta: Sequence[ManifestEntry],
    base: Base | None,
    ours: CommitName,
) -> None:
    touched = {(*bucket_key(e), e.file.level) for e in delta if e.kind == FileKind.ADD and e.file.level > 0}
    if not touched:
        return
    groups: dict[tuple[bytes, int, int], list[ManifestEntry]] = {}
    for entry in merged.values():
        group = (*bucket_key(entry), entry.file.level)
        if group in touched:
            groups.setdefault(group, []).append(entry)
    for entries in groups.values():
        ranges = sorted((*key_range(e.file), i) for i, e in enumerate(entries))
        for (_, last, i), (first, _, j) in pairwise(ranges):
            left, right = entries[i], entries[j]
            if last >= first:
                raise _conflict(
                    "LSM conflicts detected! Files of one level would overlap in their keys", base, ours, [left, right]
                )


def row_range(file: DataFile) -> tuple[int, int] | None:
    """The ids of a file's rows: the first, and that behind the last; None where they are not given out yet."""
    return None if file.first_row_id is None else (file.first_row_id, file.first_row_id + file.row_count)


def _check_same_ids(
    entries: Sequence[ManifestEntry], delta: Sequence[ManifestEntry], base: Base | None, ours: CommitName
) -> None:
    """Files that go have the ids that they had when they were read: what comes in their place has these."""
    gone = {entry_key(entry): entry for entry in delta if entry.kind == FileKind.DELETE}
    others = [
        e for e in entries if (old := gone.get(entry_key(e))) is not None and row_range(old.file) != row_range(e.file)
    ]
    if others:
        what = "Row id conflicts detected! The rows of files that would be deleted have got other ids"
        raise _conflict(what, base, ours, others)


def _check_row_ranges(
    merged: Mapping[EntryKey, ManifestEntry], delta: Sequence[ManifestEntry], base: Base | None, ours: CommitName
) -> None:
    """Files that come have the rows of others or none of them, and no columns are alone: without them, rows that
    a commit took away would be back with nulls. A compaction leaves none alone that came meanwhile."""
    came = {id(entry) for entry in delta if entry.kind == FileKind.ADD}
    compacts = ours.kind is CommitKind.COMPACT
    leaving = (entry.file for entry in delta if compacts and entry.kind == FileKind.DELETE)
    gone = {row_range(file) for file in leaving if not is_blob(file.file_name)}
    if not gone and not any(id(entry) in came and entry.file.first_row_id is not None for entry in merged.values()):
        return
    ranged = sorted((*span, n, e) for n, e in enumerate(merged.values()) if (span := row_range(e.file)) is not None)
    blobs = [(first, end, entry) for first, end, _, entry in ranged if is_blob(entry.file.file_name)]
    ranged = [item for item in ranged if not is_blob(item[3].file.file_name)]
    whole: set[tuple[int, int]] = set()
    parts: dict[tuple[int, int], ManifestEntry] = {}
    for place, (first, end, _, entry) in enumerate(ranged):
        if place and first < ranged[place - 1][1] and ranged[place - 1][:2] != (first, end):
            other = ranged[place - 1][3]
            if id(entry) in came or id(other) in came:
                what = "Row id conflicts detected! Files would hold columns of overlapping rows"
                raise _conflict(what, base, ours, [other, entry])
        if entry.file.write_cols is not None and (id(entry) in came or (first, end) in gone):
            parts[(first, end)] = entry
        if _holds_rows(entry, id(entry) in came, (first, end) in gone):
            whole.add((first, end))
    alone = [entry for span, entry in parts.items() if span not in whole]
    alone += [entry for first, end, entry in blobs if not _within(first, end, ranged)]
    if alone and base is not None:
        what = "Row id conflicts detected! The rows that these columns are of are not there any more"
        raise _conflict(what, base, ours, alone)


def _holds_rows(entry: ManifestEntry, came: bool, gone: bool) -> bool:
    """Whether a file shows that the rows are there that it has columns of: it has all columns, was there before, or
    comes from a compaction. `gone`: files of these rows are taken away."""
    file = entry.file
    if file.write_cols is None:
        return True
    return file.file_source is FileSource.COMPACT if came else not gone


def _within(first: int, end: int, ranged: Sequence[tuple[int, int, int, ManifestEntry]]) -> bool:
    """Whether rows are all in one file of some that are ordered by their rows."""
    place = bisect_right(ranged, first, key=lambda item: item[0]) - 1
    return place >= 0 and end <= ranged[place][1]


def _check_indexes(rules: Rules, base: Base | None, ours: CommitName, indexes: Sequence[IndexEntry]) -> None:
    if not indexes:
        return
    live = {_index_place(entry) for entry in (base.indexes if base else ())}
    for entry in indexes:
        key = _index_place(entry)
        if entry.kind == FileKind.DELETE:
            if key not in live:
                raise _index_conflict("an index file that this commit replaces is not live any more", base, ours, entry)
            live.discard(key)
    occupied = {key[:3]: key[3] for key in live}
    for entry in indexes:
        if entry.kind != FileKind.ADD or entry.file.index_type not in (HASH, DELETION_VECTORS):
            continue
        bucketed = entry.file.index_type == HASH or not rules.unaware
        other = occupied.get((entry.partition, entry.bucket, entry.file.index_type))
        if bucketed and other is not None and other != entry.file.file_name:
            raise _index_conflict("another commit wrote the index of this bucket", base, ours, entry, other=other)


def _check_vectors(
    base: Base | None,
    ours: CommitName,
    merged: Mapping[EntryKey, ManifestEntry],
    delta: Sequence[ManifestEntry],
    indexes: Sequence[IndexEntry],
) -> None:
    """New vectors speak of live files, but for those that were left over and are carried along; a file has one vector,
    and no vector that stays speaks of a file that this commit takes away."""
    files = {(e.partition, e.bucket, e.file.file_name) for e in merged.values()}
    replaced = {_index_place(e) for e in indexes if e.kind == FileKind.DELETE}
    staying = [e for e in (base.indexes if base else ()) if _index_place(e) not in replaced]
    known = {name: entry for entry in staying for name in _vectors(entry)}
    taken = {(e.partition, e.bucket, e.file.file_name) for e in delta if e.kind == FileKind.DELETE} - files
    carried = _rows_marked(e for e in (base.indexes if base else ()) if _index_place(e) in replaced)
    for entry in indexes:
        if entry.kind != FileKind.ADD:
            continue
        for name in _vectors(entry):
            if name not in files and (name in taken or carried.get(name) != _rows_marked([entry])[name]):
                what = "a deletion vector speaks of a file that is not live"
                raise _index_conflict(what, base, ours, entry, file=name[2])
            if name in known:
                what = "another commit deleted rows of the same file"
                other = known[name].file.file_name
                raise _index_conflict(what, base, ours, entry, file=name[2], other=other)
            known[name] = entry
    for entry in staying if taken else ():
        for name in _vectors(entry):
            if name in taken:
                what = "another commit deleted rows of a file that this commit replaces"
                raise _index_conflict(what, base, ours, entry, file=name[2])


def _index_place(entry: IndexEntry) -> tuple[bytes, int, str, str]:
    return entry.partition, entry.bucket, entry.file.index_type, entry.file.file_name


def _vectors(entry: IndexEntry) -> list[tuple[bytes, int, str]]:
    """The data files that an index file has deletion vectors of."""
    if entry.file.index_type != DELETION_VECTORS:
        return []
    return [(entry.partition, entry.bucket, vector.data_file_name) for vector in entry.file.dv_ranges or ()]


def _rows_marked(entries: Iterable[IndexEntry]) -> dict[tuple[bytes, int, str], int]:
    """How many rows the vectors of index files mark, by data file: more where somebody marked others meanwhile."""
    return {
        (entry.partition, entry.bucket, part.data_file_name): part.cardinality or 0
        for entry in entries
        for part in entry.file.dv_ranges or ()
    }


def _conflict(what: str, base: Base | None, ours: CommitName, entries: Iterable[ManifestEntry]) -> ConflictError:
    names = [f"bucket {e.bucket} level {e.file.level} {e.file.file_name}" for e in entries]
    shown = "; ".join(names[:SHOWN_FILES]) + (
        f"; and {len(names) - SHOWN_FILES} more" if len(names) > SHOWN_FILES else ""
    )
    return ConflictError(
        what,
        commit=ours,
        base=base.name if base else None,
        files=shown,
        remedy="another commit changed these files: read the table again and repeat the operation",
    )


def _index_conflict(what: str, base: Base | None, ours: CommitName, entry: IndexEntry, **more: str) -> ConflictError:
    return ConflictError(
        f"Index conflicts detected! {what}",
        commit=ours,
        base=base.name if base else None,
        index=entry.file.file_name,
        bucket=entry.bucket,
        **more,
        remedy="read the table again and repeat the operation",
    )
