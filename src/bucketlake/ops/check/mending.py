"""What a repair writes: files and indexes in the place of those that are at fault, as changes to commit.

    Work.of(store, findings)               which buckets, partitions and files are concerned
    Draft(store, snapshot, work).changes() -> Changes         written, and not committed
        .abort() / .tidy()                 remove all that was written / what was only needed on the way

Spec: docs/maintenance.md#repair
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field, replace

import numpy as np
import numpy.typing as npt

from bucketlake.errors import BucketlakeError
from bucketlake.format.data.blob import is_blob
from bucketlake.format.index.index_manifest import HASH, IndexEntry
from bucketlake.format.metadata.manifest import DataFile, FileKind, FileSource, ManifestEntry
from bucketlake.format.metadata.snapshot import CommitKind, Snapshot
from bucketlake.format.numbers import distinct
from bucketlake.lsm.compaction import CompactionRule
from bucketlake.ops.buckets.assigner import first_load_buckets
from bucketlake.ops.buckets.dynamic import DYNAMIC_TOTAL, key_hashes, write_hashes
from bucketlake.ops.check.faults import Mend
from bucketlake.ops.check.findings import Finding
from bucketlake.ops.check.sorting import BucketRows, Rows
from bucketlake.ops.check.vectors import Marks
from bucketlake.ops.commit.conflicts import row_range
from bucketlake.ops.rebase.numbers import numbered
from bucketlake.ops.rewrite.rebucket import Target, spread
from bucketlake.ops.rows.roll import Roller, Rolling, rolled
from bucketlake.ops.rows.row_ids import tracked
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.table.changes import Changes
from bucketlake.ops.table.entries import BucketKey, bucket_key, by_bucket, deletion
from bucketlake.ops.table.made import all_or_nothing, remove_files
from bucketlake.ops.table.store import Store
from bucketlake.paths import POSTPONE_BUCKET
from bucketlake.schema.schema import BucketMode
from bucketlake.values import dataclass


@dataclass(slots=True)
class Work:
    """What is to be mended. `merge`: files to write anew, by bucket; `move`: partitions, and of dynamic tables the
    buckets, whose rows go to their buckets; `take_out`: paths."""

    merge: dict[BucketKey, set[str]] = field(default_factory=dict)
    move: dict[bytes, set[int]] = field(default_factory=dict)
    hashes: set[BucketKey] = field(default_factory=set)
    vectors: set[BucketKey] = field(default_factory=set)
    unmark: set[BucketKey] = field(default_factory=set)
    take_out: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, findings: Sequence[Finding]) -> Work:
        """What findings ask for."""
        work = cls()
        for finding in findings:
            place, mend = finding.place, finding.fault.mend
            if mend is Mend.TAKE_OUT and place.file is not None:
                work.take_out.add(place.file)
            if place.partition is None:
                continue
            key = (place.partition, place.bucket if place.bucket is not None else 0)
            if mend is Mend.MERGE:
                work.merge.setdefault(key, set()).add((place.file or "").rsplit("/", 1)[-1])
            elif mend is Mend.MOVE:
                buckets = {one for one in (place.bucket, place.other) if one is not None}
                work.move.setdefault(place.partition, set()).update(buckets)
            elif mend is Mend.HASHES:
                work.hashes.add(key)
            elif mend is Mend.VECTORS:
                work.vectors.add(key)
            elif mend is Mend.UNMARK:
                work.unmark.add(key)
        return work


class Draft:
    """One attempt at mending on one snapshot."""

    def __init__(self, store: Store, snapshot: Snapshot, work: Work) -> None:
        store = tracked(store)  # rows that move keep their ids
        self._store, self._work = store, work
        self._mode = store.schema.bucket_mode
        self._keyed = bool(store.schema.primary_keys)
        self._live = by_bucket(live_entries(store, snapshot))
        self._indexes = store.index_manifest(snapshot)
        self._marks = Marks(store, self._indexes, work.unmark)
        self._rows = BucketRows(store, self._marks)
        self._gone: list[ManifestEntry] = []
        self._new: list[ManifestEntry] = []
        self._hash_changes: list[IndexEntry] = []
        self._made: list[IndexEntry] = []
        self._top = CompactionRule.of(store.options).num_levels - 1 if self._keyed else 0

    @property
    def kind(self) -> CommitKind:
        """An overwrite where rows move or go, else a compaction."""
        return CommitKind.OVERWRITE if self._work.move or self.loses else CommitKind.COMPACT

    @property
    def loses(self) -> bool:
        """Whether rows go, or come back."""
        return bool(self._work.take_out or self._work.unmark)

    def changes(self) -> Changes:
        """Write all, and say what changes. Where it raises, call `abort`."""
        try:
            self._take_out()
            for partition, buckets in self._work.move.items():
                self._move(partition, buckets)
            for key, names in self._work.merge.items():
                if key[0] not in self._work.move:
                    self._merge(key, names)
            for key in self._work.hashes:
                if key[0] not in self._work.move:
                    self._rehash(key)
            indexes = self._marks.changes(self._names_after(), self._work.vectors | self._work.unmark)
        except BaseException:
            self.abort()
            raise
        self._made += [entry for entry in indexes if entry.kind == FileKind.ADD]
        table = (*(deletion(entry) for entry in self._gone), *self._new)
        return Changes(table, (), (*self._hash_changes, *indexes))

    def abort(self) -> None:
        """Remove everything that was written, best effort."""
        self.tidy()
        for entry in self._new:
            remove_files(self._store, entry.partition, entry.bucket, [entry.file])
        for index in (*self._made, *self._marks.made):
            with suppress(BucketlakeError):
                path = self._store.paths.index_path(index.partition, index.bucket, index.file)
                self._store.env.storage.delete(path)

    def tidy(self) -> None:
        """Remove what was only needed on the way, best effort."""
        self._rows.tidy()

    # ---- files out

    def _take_out(self) -> None:
        for (partition, bucket), entries in self._live.items():
            folder = self._store.paths.bucket_dir(partition, bucket)
            gone = [e for e in entries if self._store.paths.file_path(folder, e.file) in self._work.take_out]
            if self._store.schema.data_evolution:  # what is left of a row would be read as one
                rows = [entry for entry in entries if not is_blob(entry.file.file_name)]
                gone = _meeting(entries, _meeting(rows, gone)) or gone
            self._drop((partition, bucket), gone)

    def _drop(self, key: BucketKey, entries: Sequence[ManifestEntry]) -> None:
        """Entries that are not live any more, and whose vectors go."""
        if entries:
            names = {entry.file.file_name for entry in entries}
            self._gone += entries
            self._live[key] = [entry for entry in self._live[key] if entry.file.file_name not in names]
            self._marks.drop(self._place(key), names)

    def _place(self, key: BucketKey) -> BucketKey:
        """Where the deletion vectors of a bucket's files are told of."""
        return (key[0], 0) if self._mode is BucketMode.UNAWARE else key

    def _add(self, key: BucketKey, total: int, files: Iterable[DataFile]) -> None:
        self._new += [ManifestEntry(FileKind.ADD, *key, total, file) for file in files]

    def _names_after(self) -> dict[BucketKey, set[str]]:
        """The files that vectors may speak of afterwards."""
        found: dict[BucketKey, set[str]] = {}
        for key, entries in self._live.items():
            found.setdefault(self._place(key), set()).update(entry.file.file_name for entry in entries)
        return found

    # ---- files anew, in their bucket

    def _merge(self, key: BucketKey, names: set[str]) -> None:
        """Flagged files of level 0 are written anew one by one; of the levels above all become one run of the top."""
        entries = self._live.get(key, [])
        flagged = [entry for entry in entries if entry.file.file_name in names]
        if not flagged or key[1] == POSTPONE_BUCKET:
            return
        total = flagged[0].total_buckets
        if not self._keyed:
            for entry in flagged:
                files = self._written(key, Rolling(source=FileSource.COMPACT), self._rows.plain(entry))
                self._replace(key, [entry], numbered(files, entry.file.min_sequence_number), total)
            return
        for entry in flagged:
            if entry.file.level == 0:
                files = self._written(key, self._level_0(entry), self._rows.sorted_file(entry))
                self._replace(key, [entry], files, total)
        if any(entry.file.level > 0 for entry in flagged):
            upper = [entry for entry in entries if entry.file.level > 0]
            rows = self._rows.merged(upper, names)
            files = self._written(key, Rolling(level=self._top, source=FileSource.COMPACT), rows)
            self._replace(key, upper, files, total)

    def _level_0(self, entry: ManifestEntry) -> Rolling:
        """With `sequence.snapshot-ordering` rows carry the snapshot that they came with, as compacted rows do."""
        ordered = self._store.options.get("sequence.snapshot-ordering")
        return Rolling(source=FileSource.COMPACT if ordered else entry.file.file_source or FileSource.APPEND)

    def _replace(self, key: BucketKey, old: Sequence[ManifestEntry], files: Iterable[DataFile], total: int) -> None:
        self._drop(key, old)
        self._add(key, total, files)

    def _written(self, key: BucketKey, rolling: Rolling, rows: Rows) -> list[DataFile]:
        return rolled(self._store, *key, rows, rolling)

    # ---- rows to other buckets

    def _move(self, partition: bytes, flagged: set[int]) -> None:
        """All rows of a partition to the buckets of their keys; of dynamic tables those of the buckets flagged."""
        own = [key for key in self._live if key[0] == partition]
        if self._mode is BucketMode.UNAWARE:
            self._gather(partition, [key for key in own if key[1] != 0])
        elif self._mode is BucketMode.DYNAMIC:
            self._reassign(partition, [key for key in own if key[1] in flagged])
        elif self._mode in (BucketMode.FIXED, BucketMode.POSTPONE):
            pending = self._mode is BucketMode.POSTPONE
            self._redistribute(partition, [k for k in own if not (pending and k[1] == POSTPONE_BUCKET)])

    def _gather(self, partition: bytes, keys: Sequence[BucketKey]) -> None:
        """Files of tables without buckets that lie in one, written anew where they belong."""
        for key in keys:
            entries = list(self._live[key])
            for entry in entries:
                files = self._written((partition, 0), Rolling(source=FileSource.COMPACT), self._rows.plain(entry))
                self._drop(key, [entry])
                self._add((partition, 0), DYNAMIC_TOTAL, files)

    def _redistribute(self, partition: bytes, keys: Sequence[BucketKey]) -> None:
        entries = [entry for key in keys for entry in self._live[key]]
        total = self._number(entries)
        target = Target(partition, total, tuple(range(total)))
        entries = self._by_age(entries)

        def place(rolling: Rolling, rows: Callable[[], Rows]) -> Iterator[tuple[int, list[DataFile]]]:
            yield from spread(self._store, target, rolling, rows)

        for rolling, rows in self._sources(entries):
            for bucket, files in place(rolling, rows):
                self._add((partition, bucket), total, files if self._keyed else numbered(files, 0))
        self._rows.shifts = {}
        for key in keys:
            self._drop(key, list(self._live[key]))

    def _by_age(self, entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
        """The files of each number of buckets behind those that were written under an earlier one.

        Sequence numbers count within a bucket, so those of two numbers say nothing of each other: they are moved behind
        all of the number before. Writers take the table's number, which is thus the newest where files have it.
        """
        groups: dict[int, list[ManifestEntry]] = {}
        for entry in entries:
            groups.setdefault(entry.total_buckets, []).append(entry)

        def age(number: int) -> tuple[bool, int, int]:
            files = [entry.file for entry in groups[number]]
            newest = max(file.creation_time or 0 for file in files)
            return number == self._store.schema.bucket, max(file.schema_id for file in files), newest

        ordered, shifts, behind = sorted(groups, key=age), dict[int, int](), 0
        for number in ordered:
            shifts[number] = behind
            behind += max(entry.file.max_sequence_number for entry in groups[number]) + 1
        self._rows.shifts = shifts
        return [entry for number in ordered for entry in groups[number]]

    def _number(self, entries: Sequence[ManifestEntry]) -> int:
        """How many buckets the partition is to have: as the table says, if files have so many, else the most."""
        known = {entry.total_buckets for entry in entries if entry.total_buckets > 0}
        wanted = self._store.schema.bucket
        if wanted in known or not known:
            return max(wanted, 1)
        return max(known)

    def _sources(self, entries: Sequence[ManifestEntry]) -> Iterator[tuple[Rolling, Callable[[], Rows]]]:
        """What is spread together: all runs above level 0 as one, then file by file of level 0."""
        if not self._keyed:
            places = {number: at for at, number in enumerate(dict.fromkeys(entry.total_buckets for entry in entries))}
            ordered = sorted(
                entries,
                key=lambda e: (places[e.total_buckets], e.bucket, e.file.min_sequence_number, e.file.file_name),
            )
            yield Rolling(source=FileSource.COMPACT), lambda: (b for e in ordered for b in self._rows.plain(e))
            return
        upper = [entry for entry in entries if entry.file.level > 0]
        names = {entry.file.file_name for entry in upper}
        if upper:
            rolling = Rolling(level=self._top, source=FileSource.COMPACT)
            yield rolling, lambda: self._rows.merged(upper, names)
        for entry in entries:
            if entry.file.level == 0:
                yield self._level_0(entry), lambda e=entry: self._rows.sorted_file(e)  # type: ignore[misc]

    def _reassign(self, partition: bytes, keys: Sequence[BucketKey]) -> None:
        """Rows of dynamic buckets that share keys are dealt out among these buckets by their hash; their indexes are
        built anew."""
        targets = sorted(key[1] for key in keys if key[1] >= 0)
        entries = [entry for key in keys for entry in self._live[key]]
        known: dict[int, list[npt.NDArray[np.int32]]] = {bucket: [] for bucket in targets}
        for rolling, rows in self._sources(entries):
            rollers = {bucket: Roller(self._store, partition, bucket, rolling) for bucket in targets}
            with all_or_nothing(rollers.values()):
                for batch in rows():
                    hashes = key_hashes(batch, self._store.schema.key_fields)
                    chosen = first_load_buckets(hashes, len(targets))
                    for number, bucket in enumerate(targets):
                        hit = np.flatnonzero(chosen == number)
                        rollers[bucket].write(batch.take(hit))
                        known[bucket].append(distinct([hashes[hit]]))
                files = {bucket: roller.close() for bucket, roller in rollers.items()}
            for bucket, made in files.items():
                self._add((partition, bucket), DYNAMIC_TOTAL, made)
        for key in keys:
            self._drop(key, list(self._live[key]))
        for bucket, parts in known.items():
            self._index((partition, bucket), distinct([np.zeros(0, np.int32), *parts]))

    # ---- hash indexes

    def _rehash(self, key: BucketKey) -> None:
        """The index of a bucket from the keys of its files."""
        parts = [np.zeros(0, np.int32)]
        for entry in (*self._live.get(key, ()), *(e for e in self._new if bucket_key(e) == key)):
            for batch in self._rows.keys(entry):
                parts.append(distinct([key_hashes(batch, self._store.schema.key_fields)]))
        self._index(key, distinct(parts))

    def _index(self, key: BucketKey, hashes: npt.NDArray[np.int32]) -> None:
        old = [e for e in self._indexes if (e.partition, e.bucket) == key and e.file.index_type == HASH]
        self._hash_changes += [replace(entry, kind=FileKind.DELETE) for entry in old]
        if len(hashes):
            entry = IndexEntry(FileKind.ADD, *key, write_hashes(self._store, *key, hashes.astype(np.int32)))
            self._made.append(entry)
            self._hash_changes.append(entry)


def _meeting(entries: Sequence[ManifestEntry], others: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """The entries that have rows which one of the others has."""
    spans = [row_range(entry.file) for entry in others]
    return [entry for entry in entries if any(_meet(row_range(entry.file), span) for span in spans)]


def _meet(one: tuple[int, int] | None, two: tuple[int, int] | None) -> bool:
    if one is None or two is None:
        return one == two
    return one[0] < two[1] and two[0] < one[1]
