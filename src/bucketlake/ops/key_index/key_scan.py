"""Reading primary keys with the place, a (partition, bucket), where each lies: of all live rows, of the few that are
wanted, of what was committed since a snapshot. Only key columns are read, and the few that a merge engine decides by.

Spec: docs/spec/cross_partition.md#reading-keys
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from itertools import chain

import numpy as np
import pyarrow as pa

from bucketlake.format.index.key_index import HASHES
from bucketlake.format.metadata.manifest import DataFile, FileKind
from bucketlake.format.metadata.snapshot import CommitKind, Snapshot
from bucketlake.lazy import pc
from bucketlake.lsm.key_run import ABSENT, DealtKeys, KeyRun, Keys, Mask, Places
from bucketlake.ops.rows.one_file import file_layout, read_file
from bucketlake.ops.rows.read import read_split
from bucketlake.ops.scan.line import line
from bucketlake.ops.scan.pruning import Pruner
from bucketlake.ops.scan.scan import EntryFilter, delta_entries, keyed_entries
from bucketlake.ops.scan.splits import make_splits
from bucketlake.ops.table.entries import BucketKey, bucket_key
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.partitions import PartitionFilter, partition_values
from bucketlake.ops.table.store import Store
from bucketlake.ops.table.wall_clock import local_to_epoch
from bucketlake.predicate.tree import Compare, In, Predicate, conjunction
from bucketlake.schema.schema import KIND_FIELD, SEQUENCE_FIELD
from bucketlake.types.model import DataField, Root, arrow_schema
from bucketlake.values import dataclass

LISTED = 200  # up to so many values are looked for one by one, more as a range
COMPARED = {Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.CHAR, Root.VARCHAR, Root.DATE}
SHOWN = 5
SHARE_ROWS = 1 << 16  # keys that are sorted at once
MOST_SHARES = 256


@dataclass(slots=True)
class PlaceNumbers:
    """Places, a (partition, bucket) each, numbered by first sight."""

    places: list[BucketKey] = field(default_factory=list)
    _numbers: dict[BucketKey, int] = field(default_factory=dict)

    @classmethod
    def of(cls, places: Iterable[BucketKey]) -> PlaceNumbers:
        """Places that have numbers already: their positions."""
        known = list(places)
        return cls(known, {place: number for number, place in enumerate(known)})

    def number(self, place: BucketKey) -> int:
        """The number of a place, a new one if it has none."""
        found = self._numbers.get(place)
        if found is None:
            found = self._numbers[place] = len(self.places)
            self.places.append(place)
        return found

    def get(self, place: BucketKey) -> int:
        """The number of a place, ABSENT if it has none."""
        return self._numbers.get(place, ABSENT)


def key_fields(store: Store) -> tuple[DataField, ...]:
    """The columns of the primary key, whole, in its order."""
    return store.schema.select(store.schema.primary_keys)


# ---- live keys


def key_splits(
    store: Store, snapshot: Snapshot, where: Predicate | None = None, wanted: EntryFilter | None = None
) -> list[Split]:
    """All files whose keys count, level 0 too where batch reads do not see it. `where`: over key columns, prunes."""
    entries = keyed_entries(store, snapshot, wanted or EntryFilter())
    pruner = Pruner(store, where)
    return make_splits(store, snapshot, pruner.by_key(entries), pruner)[0]


def is_young(split: Split, since: int) -> bool:
    """Whether a file of the split was made at or after `since`, in epoch milliseconds."""
    return any(local_to_epoch(file.creation_time or 0) >= since for file in split.files)


def live_run(
    store: Store, splits: Sequence[Split], numbers: PlaceNumbers, span: tuple[int, int] | None = None
) -> KeyRun:
    """The keys of the live rows of splits. `span`: only keys with low <= hash < high."""
    return KeyRun.following(list(live_runs(store, splits, numbers, span)))


def live_runs(
    store: Store, splits: Sequence[Split], numbers: PlaceNumbers, span: tuple[int, int] | None = None
) -> Iterator[KeyRun]:
    """As `live_run`, in several runs (at least one) of ascending hashes: each is sorted by itself, so that the keys as
    they were read and one run are all that is in memory.

    As many splits are read at once as `cross-partition-upsert.bootstrap-parallelism` says.
    """
    fields, whole = key_fields(store), span or (0, HASHES)
    marks = [numbers.number((split.partition, split.bucket)) for split in splits]
    shares = sorting_shares(sum(split.row_count for split in splits) * (whole[1] - whole[0]) // HASHES)

    def read(part: tuple[int, Split]) -> list[DealtKeys]:
        found = []
        for batch in read_split(store, part[1], store.schema.primary_keys):
            keys = Keys.of(batch, fields)
            keys = keys if span is None else keys.take(keys.within(span))
            found.append(DealtKeys.of(keys, np.full(len(keys), part[0], np.int32), whole, shares))
        return found

    threads = store.options.get("cross-partition-upsert.bootstrap-parallelism")
    parts = parallel(read, list(zip(marks, splits, strict=True)), max(1, min(threads, len(splits))))
    dealt, torn = list(chain.from_iterable(parts)), Torn()
    del parts
    yield from sorted_runs(store, dealt, shares, torn)
    warn_of_torn(store, torn.count, torn.shown)


@dataclass(slots=True)
class Torn:
    """Keys that were found in more than one place: how many, and some of them."""

    count: int = 0
    shown: list[object] = field(default_factory=list)

    def add(self, keys: Keys) -> None:
        """Take down more of them."""
        self.count += len(keys)
        self.shown += keys.part(0, max(SHOWN - len(self.shown), 0)).values.to_pylist()


def sorting_shares(rows: int) -> int:
    """In how many shares so many keys are sorted."""
    return max(1, min(rows // SHARE_ROWS, MOST_SHARES))


def sorted_runs(store: Store, dealt: Sequence[DealtKeys], shares: int, torn: Torn) -> Iterator[KeyRun]:
    """All the keys, share by share: each once, in the first of its places."""
    none = Keys.none(key_fields(store)), np.zeros(0, np.int32)
    for number in range(shares):
        parts = [none, *(one.share(number) for one in dealt)]
        keys = Keys.all_of([keys for keys, _ in parts])
        run, again = once(KeyRun.of(keys, np.concatenate([places for _, places in parts])))
        torn.add(again)
        yield run


def once(run: KeyRun) -> tuple[KeyRun, Keys]:
    """A run with each key once, in the first of its places; and those that came again."""
    hashes = run.keys.hashes
    ties = np.flatnonzero(hashes[1:] == hashes[:-1])
    torn = ties[run.keys.same(ties, run.keys, ties + 1)] if len(ties) else ties
    if not len(torn):
        return run, run.keys.part(0, 0)
    kept = np.ones(len(run), np.bool_)
    kept[torn + 1] = False
    rows = np.flatnonzero(kept)
    return KeyRun(run.keys.take(rows), np.minimum.reduceat(run.places, rows)), run.keys.take(torn)


def warn_of_torn(store: Store, count: int, shown: Sequence[object]) -> None:
    """Say that so many keys, `shown` some of them, lie in two places, if any do."""
    if count:
        warnings.warn(
            f"{count} keys of {store.paths.root} lie in two partitions or buckets (the first: {shown}): writers that "
            "did not know of each other wrote to it; delete these keys and write them again",
            stacklevel=3,
        )


# ---- the keys wanted


def look_up(
    store: Store,
    snapshot: Snapshot | None,
    wanted: pa.RecordBatch,
    numbers: PlaceNumbers,
    left_out: PartitionFilter | None = None,
) -> Places:
    """The place of each key among the live rows, ABSENT where there is none. `wanted`: the key columns of distinct
    keys; `left_out`: partitions not to look into. Files and row groups that cannot hold them are not read."""
    fields = key_fields(store)
    keys = Keys.of(wanted, fields)
    if snapshot is None or not len(keys):
        return np.full(len(keys), ABSENT, np.int32)
    where = conjunction(_near(wanted.column(item.name), item) for item in fields if item.name in _trimmed(store))
    splits = key_splits(store, snapshot, where)
    splits = [split for split in splits if left_out is None or not left_out(split.partition)]
    return find_live(store, splits, keys, numbers, where)


def find_live(
    store: Store, splits: Sequence[Split], keys: Keys, numbers: PlaceNumbers, where: Predicate | None = None
) -> Places:
    """The place of each of these distinct keys among the live rows of splits, ABSENT where there is none. `where`: over
    key columns, what all of the keys fulfil."""
    fields = key_fields(store)
    found = np.full(len(keys), ABSENT, np.int32)
    run = KeyRun.of(keys, np.arange(len(keys), dtype=np.int32))

    def read(split: Split) -> list[Places]:
        batches = read_split(store, split, store.schema.primary_keys, where)
        hits = [run.find(Keys.of(batch, fields)) for batch in batches]
        return [part[part >= 0] for part in hits]

    for split, hits in zip(splits, parallel(read, splits), strict=True):
        number = numbers.number((split.partition, split.bucket))
        for part in hits:
            found[part] = number
    return found


def _trimmed(store: Store) -> tuple[str, ...]:
    return store.schema.trimmed_primary_keys


def _near(column: pa.Array, item: DataField) -> Predicate | None:
    """What all wanted keys have in common in one column."""
    if item.type.root not in COMPARED:
        return None
    if pa.types.is_date(column.type) or pa.types.is_timestamp(
        column.type
    ):  # beyond Python's years: as literals in units
        column = column.view(pa.int32())
    if len(column) <= LISTED:
        return In(item.name, tuple(column.unique().to_pylist()))
    ends = pc.min_max(column)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    return conjunction([Compare(item.name, ">=", low), Compare(item.name, "<=", high)])


# ---- what was committed since


@dataclass(slots=True)
class Delta:
    """What writes did after a snapshot. `added`: their files by place; `cleared`: places from which files were taken,
    whose keys must be read anew; `commits`: how many snapshots lie between."""

    commits: int = 0
    added: dict[BucketKey, list[DataFile]] = field(default_factory=dict)
    cleared: set[BucketKey] = field(default_factory=set)
    committed: dict[tuple[BucketKey, str], int] = field(
        default_factory=dict
    )  # snapshot by place and file name: numbers of an emptied bucket restart

    @property
    def rows(self) -> int:
        """Rows of the files added."""
        return sum(file.row_count for files in self.added.values() for file in files)


def delta_since(store: Store, after: int, snapshot: Snapshot) -> Delta | None:
    """What was written after snapshot `after` up to this one; None where that cannot be told, as `line`. Compactions
    move no key."""
    delta = Delta(snapshot.id - after)
    steps = line(store, after, snapshot)
    for step in steps or ():
        if step.commit_kind in (CommitKind.COMPACT, CommitKind.ANALYZE):
            continue
        for entry in delta_entries(store, step):
            if entry.kind == FileKind.ADD:
                delta.added.setdefault(bucket_key(entry), []).append(entry.file)
                delta.committed[bucket_key(entry), entry.file.file_name] = step.id
            else:
                delta.cleared.add(bucket_key(entry))
    return None if steps is None else delta


def file_rows(store: Store, place: BucketKey, file: DataFile) -> Iterator[pa.RecordBatch]:
    """The primary key, sequence number and kind of every row of one file."""
    schema = store.schema
    trimmed = [schema.field(name) for name in schema.trimmed_primary_keys]
    layout = file_layout(store, file, [*trimmed, SEQUENCE_FIELD, KIND_FIELD])
    fixed = dict(zip(schema.partition_keys, partition_values(store, place[0]), strict=True))
    target = arrow_schema([*key_fields(store), SEQUENCE_FIELD, KIND_FIELD])
    path = store.paths.file_path(store.paths.bucket_dir(*place), file)
    for stored in read_file(store, path, layout, None):
        rows = layout.rows(stored)
        columns = [
            pa.repeat(pa.scalar(fixed[item.name], item.type), rows.num_rows)
            if item.name in fixed
            else rows.column(item.name)
            for item in target
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=target)


def written_keys(store: Store, place: BucketKey, files: Sequence[DataFile]) -> Keys:
    """The keys of all rows of files, repeated or not."""
    fields = key_fields(store)
    return Keys.all_of([Keys.none(fields), *(Keys.of(b, fields) for f in files for b in file_rows(store, place, f))])


def last_states(
    store: Store,
    place: BucketKey,
    files: Sequence[DataFile],
    removes: Callable[[Places], Mask],
    committed: dict[tuple[BucketKey, str], int],
) -> tuple[Keys, Mask]:
    """The distinct keys of files of one place, and whether each lives after its last row. `removes`: which kinds of
    rows take a key away."""
    fields = key_fields(store)
    read = [(committed[place, file.file_name], batch) for file in files for batch in file_rows(store, place, file)]
    batches = [batch for _, batch in read]
    snapshots = np.repeat([number for number, _ in read], [batch.num_rows for batch in batches])
    keys = Keys.all_of([Keys.none(fields), *(Keys.of(batch, fields) for batch in batches)])
    empty = pa.array([], pa.int64())
    sequence = pa.concat_arrays([empty, *(batch.column(SEQUENCE_FIELD.name) for batch in batches)]).to_numpy()
    kinds = np.concatenate([np.zeros(0, np.int8), *(batch.column(KIND_FIELD.name).to_numpy() for batch in batches)])
    codes, first = keys.distinct()
    order = np.lexsort((sequence, snapshots, codes))
    ends = np.flatnonzero(np.diff(codes[order], append=-1))
    return keys.take(first), ~removes(kinds[order[ends]].astype(np.int32))
