"""Postpone buckets: rows lie pending in bucket -2 until a compaction gives them their bucket. Names and order of
pending files, bucket numbers of partitions. Rules, and metadata reads; no data is touched here.

    pending file := <data-file.prefix> "-u-" <user> "-s-" <writer> "-w-" [<mark>] <uuid> "-" <counter> "." <format>

Spec: docs/spec/postpone.md
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from bucketlake.errors import InvalidError
from bucketlake.format.metadata.manifest import DataFile, FileKind, ManifestEntry, ManifestFile
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.lazy import np, pa, pc
from bucketlake.ops.rows.assign import partition_codes
from bucketlake.ops.rows.residues import MODULUS, MOST, Residue
from bucketlake.ops.table.store import Store
from bucketlake.ops.table.wall_clock import local_from_epoch
from bucketlake.options.options import TableOptions
from bucketlake.paths import POSTPONE_BUCKET
from bucketlake.schema.schema import BucketMode, TableSchema
from bucketlake.types.model import LISTS, DataType, Root
from bucketlake.values import dataclass

WRITER = "bucketlake-s-0"
"""User and number in the names of all files written here: Apache Paimon keeps the order of files of one writer alone,
by creation time, so all of ours name the same one, and the order of commits is kept whoever compacts them."""

_NAME = re.compile(r"(?P<writer>.*-w-).*-(?P<counter>\d+)\.[^-]+", re.DOTALL)
_INLINE = 7  # bytes of a text that fit into its slot of a row
_COMPACT_DIGITS = 18
_COMPACT_FRACTION = 3
_TEXTS = (Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY)
_NESTED = (*LISTS, Root.MAP, Root.ROW, Root.MULTISET, Root.VARIANT)


# ---- names and order


def pending_store(store: Store, residue: Residue | None = None) -> Store:
    """The store that pending files are written with: they have names of their own. `residue`: that of all rows.

    Raises InvalidError for a `data-file.prefix` that readers could not tell from the marks.
    """
    prefix = store.options.text("data-file.prefix") or ""
    if "-s-" in prefix or "-w-" in prefix:
        raise InvalidError(
            "names of pending postpone files could not be read back",
            prefix=prefix,
            remedy="choose a data-file.prefix without '-s-' and '-w-'",
        )
    mark = "" if residue is None else residue.mark
    return store.with_options({"data-file.prefix": f"{prefix}-u-{WRITER}-w-{mark}"})


def in_order(files: Iterable[DataFile], committed: Mapping[str, float]) -> list[DataFile]:
    """Pending files of one partition in the order in which their rows apply.

    By the snapshot that committed them, then by creation time, writer and the writer's counter. `committed`: snapshot
    by file name, or a half more than the snapshot that a gap comes after; files without one are older than all others.
    Spec: docs/spec/postpone.md#order
    """

    def place(file: DataFile) -> tuple[float, int, str, int, str]:
        found = _NAME.fullmatch(file.file_name)
        writer, counter = (found["writer"], int(found["counter"])) if found else (file.file_name, 0)
        return committed.get(file.file_name, 0), file.creation_time or 0, writer, counter, file.file_name

    return sorted(files, key=place)


def after(base: Snapshot | None, entries: Sequence[ManifestEntry], now: int) -> tuple[ManifestEntry, ...]:
    """A commit's entries, its pending files as if made after the snapshot that it stands on: who has no snapshots to
    ask goes by creation time, and a writer that was slow to commit made its files before that. `now`: epoch
    milliseconds, later than which nothing is made: the clock may have gone back."""
    pending = [entry.file for entry in entries if _is_pending(entry)]
    if base is None or not pending:
        return tuple(entries)
    least = min(local_from_epoch(base.time_millis) + 1, local_from_epoch(now))
    made = {file.file_name: max(file.creation_time or 0, least + n) for n, file in enumerate(in_order(pending, {}))}
    return tuple(made_at(entry, made[entry.file.file_name]) if _is_pending(entry) else entry for entry in entries)


def as_made_in_order(files: Sequence[DataFile]) -> dict[str, int]:
    """By name of files that are in their order: creation times that tell it, none later than it was."""
    found: dict[str, int] = {}
    latest: int | None = None
    for file in reversed(files):
        made = file.creation_time or 0
        latest = made if latest is None else min(made, latest - 1)
        found[file.file_name] = latest
    return found


def made_at(entry: ManifestEntry, millis: int) -> ManifestEntry:
    """The entry with another creation time of its file, in milliseconds of the local wall clock."""
    return replace(entry, file=replace(entry.file, creation_time=millis))


def _is_pending(entry: ManifestEntry) -> bool:
    return entry.kind == FileKind.ADD and entry.bucket == POSTPONE_BUCKET


def committed_in(
    store: Store, snapshot: Snapshot, files: Collection[tuple[bytes, str]]
) -> dict[tuple[bytes, str], float]:
    """Which retained snapshot added each of these pending files (partition, name), live in `snapshot`; those of expired
    ones lack. Where a rollback that died left a gap, which others may have filled since, those that came in it have
    half an id: see `in_order`.

    Reads delta manifests backwards from `snapshot`, only as far as needed.
    """
    wanted = set(files)
    found_in: dict[tuple[bytes, str], float] = {}
    gaps: list[Snapshot] = []  # what lies below them
    seen: list[Snapshot] = []
    at: Snapshot | None = snapshot
    while wanted and at is not None:
        seen.append(at)
        deltas = [m for m in store.delta_manifests(at) if _may_be_pending(m)]
        for entries in store.manifests(deltas):
            for entry in entries:
                key = (entry.partition, entry.file.file_name)
                if entry.kind == FileKind.ADD and key in wanted:
                    found_in[key] = at.id
                    wanted.discard(key)
        number = at.id
        at = store.find_snapshot(number - 1) if number > 1 else None
        if at is None and wanted and number > 1 and (at := _below_gap(store, number)) is not None:
            gaps.append(at)
    for below in gaps:
        if wanted:
            before = _pending_in(store, below)
            found_in.update(dict.fromkeys(wanted - before, below.id + 0.5))
            wanted &= before
    if wanted:
        found_in.update(_came_between(store, wanted, seen))
    return found_in


def _came_between(
    store: Store, wanted: set[tuple[bytes, str]], seen: Sequence[Snapshot]
) -> dict[tuple[bytes, str], float]:
    """Of pending files that no snapshot seen has added those that the oldest has not: their snapshot was rolled back,
    and another has its id. `seen`: newest first."""
    found: dict[tuple[bytes, str], float] = {}
    left = wanted - _pending_in(store, seen[-1])
    for above in reversed(seen[:-1]):
        if left:
            came = left & _pending_in(store, above)
            found.update(dict.fromkeys(came, above.id - 0.5))
            left -= came
    return found


def _below_gap(store: Store, number: int) -> Snapshot | None:
    """The newest snapshot of the history below an id that has none right below it."""
    first = store.hint(store.paths.earliest_hint) or 1
    below = [other for other in store.snapshot_ids() if first <= other < number]
    return store.find_snapshot(below[-1]) if below else None


def _pending_in(store: Store, snapshot: Snapshot) -> set[tuple[bytes, str]]:
    """The pending files (partition, name) that are live in a snapshot."""
    counts = Counter[tuple[bytes, str]]()
    for entries in store.manifests([m for m in store.data_manifests(snapshot) if _may_be_pending(m)]):
        for entry in entries:
            if entry.bucket == POSTPONE_BUCKET:
                counts[entry.partition, entry.file.file_name] += 1 if entry.kind == FileKind.ADD else -1
    return {key for key, count in counts.items() if count > 0}


def _may_be_pending(manifest: ManifestFile) -> bool:
    return manifest.min_bucket is None or manifest.min_bucket <= POSTPONE_BUCKET


def ordered_by_partition(
    store: Store, snapshot: Snapshot, pending: Iterable[ManifestEntry]
) -> dict[bytes, list[DataFile]]:
    """The live pending files of each partition, in their order."""
    groups: dict[bytes, list[DataFile]] = {}
    for entry in pending:
        groups.setdefault(entry.partition, []).append(entry.file)
    several = [(place, file.file_name) for place, files in groups.items() if len(files) > 1 for file in files]
    committed: dict[bytes, dict[str, float]] = {}
    for (place, name), number in committed_in(store, snapshot, several).items():
        committed.setdefault(place, {})[name] = number
    return {place: in_order(files, committed.get(place, {})) for place, files in groups.items()}


def in_commit_order(store: Store, snapshot: Snapshot, entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """The entries, with creation times that tell the order of pending files: for a commit that brings files at once
    which several snapshots brought."""
    pending = [entry for entry in entries if entry.bucket == POSTPONE_BUCKET]
    made = {
        (partition, name): millis
        for partition, files in ordered_by_partition(store, snapshot, pending).items()
        for name, millis in as_made_in_order(files).items()
    }
    places = [(entry, (entry.partition, entry.file.file_name)) for entry in entries]
    return [made_at(entry, made[place]) if place in made else entry for entry, place in places]


# ---- modes


def writes_pending(schema: TableSchema) -> bool:
    """Whether batch writes put rows aside rather than into real buckets."""
    postponed = schema.bucket_mode is BucketMode.POSTPONE
    return postponed and not schema.table_options.get("postpone.batch-write-fixed-bucket")


def reads_pending(store: Store) -> bool:
    """Whether batch reads see pending rows; reads of what was compacted do not."""
    if store.schema.bucket_mode is not BucketMode.POSTPONE or store.options.get("scan.mode") == "compacted-full":
        return False
    return bool(store.options.get("postpone.merge-on-read"))


# ---- bucket numbers


@dataclass(frozen=True, slots=True)
class Amount:
    """Rows of one partition, and their bytes as uncompressed rows."""

    rows: int = 0
    size: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.rows + other.rows, self.size + other.size)


def buckets_for_write(options: TableOptions, incoming: Amount, pending_rows: int = 0) -> int:
    """The bucket number of a partition that a batch write is the first to give real buckets.

    Rows / `postpone.target-row-num-per-bucket`, else bytes / `postpone.target-size-per-bucket`, rounded up, at least 1,
    at most `postpone.batch-write-fixed-bucket.max-parallelism`. Rows pending there count at the incoming rows' size.
    Spec: docs/spec/postpone.md#bucket-numbers
    """
    most = max(1, int(options.get("postpone.batch-write-fixed-bucket.max-parallelism")))
    rows = incoming.rows + pending_rows
    target = options.get("postpone.target-row-num-per-bucket")
    if target is not None:
        return min(most, _share(rows, target, "postpone.target-row-num-per-bucket"))
    size = -(-incoming.size * rows // incoming.rows) if incoming.rows else 0
    target = options.get("postpone.target-size-per-bucket")
    return min(most, _share(size, target, "postpone.target-size-per-bucket"))


def buckets_for_compaction(options: TableOptions, pending_rows: int, parallelism: int) -> int:
    """The bucket number of a partition that a compaction is the first to give real buckets: rows /
    `postpone.target-row-num-per-bucket`, else `postpone.default-bucket-num` if set, else the parallelism."""
    target = options.get("postpone.target-row-num-per-bucket")
    if target is not None:
        return _share(pending_rows, target, "postpone.target-row-num-per-bucket")
    if options.is_set("postpone.default-bucket-num"):
        number = int(options.get("postpone.default-bucket-num"))
        if number < 1:
            raise InvalidError("Option 'postpone.default-bucket-num' must be greater than 0.")
        return number
    return max(1, parallelism)


def modulus_for(options: TableOptions, parallelism: int) -> int:
    """By how many residues pending rows of a partition are dealt out: the number of buckets that a compaction would
    give it, so that each file is one bucket's, if that does not depend on rows to come and is small. `parallelism`: 0
    if it is not known. 1: they are not dealt out."""
    fixed = options.get("postpone.target-row-num-per-bucket") is None
    known = fixed and (parallelism > 0 or options.is_set("postpone.default-bucket-num"))
    number = buckets_for_compaction(options, 0, parallelism) if known else MODULUS
    return number if number <= MOST else MODULUS


def _share(amount: int, target: int, key: str) -> int:
    if target <= 0:
        raise InvalidError(f"Option '{key}' must be greater than 0.")
    return max(1, -(-amount // target))


def real_totals(entries: Iterable[ManifestEntry]) -> dict[bytes, int]:
    """The bucket number of each partition that has real buckets."""
    return {entry.partition: entry.total_buckets for entry in entries if entry.bucket >= 0 and entry.total_buckets > 0}


def counts_rows(schema: TableSchema, known: Mapping[bytes, int]) -> bool:
    """Whether a batch write must count its rows to know the bucket numbers of new partitions. `known`: numbers of
    partitions that have theirs."""
    if schema.bucket_mode is not BucketMode.POSTPONE or writes_pending(schema):
        return False
    if schema.table_options.get("postpone.batch-write-fixed-bucket.max-parallelism") <= 1:
        return False
    return bool(schema.partition_keys) or not known


def amounts(schema: TableSchema, batch: pa.RecordBatch) -> dict[bytes, Amount]:
    """Rows and row bytes by partition of a canonical batch that has the table's columns."""
    codes, partitions = partition_codes(batch, schema.partition_fields)
    rows = np.bincount(codes, minlength=len(partitions))
    sizes = rows * fixed_row_size(schema)
    for item in schema.fields:
        column = batch.column(item.name)
        if item.type.root in _TEXTS:
            lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
            lengths = np.where(lengths > _INLINE, (lengths + 7) // 8 * 8, 0)
            sizes = sizes + np.bincount(codes, weights=lengths, minlength=len(partitions)).astype(np.int64)
        elif item.type.root in _NESTED and batch.num_rows:
            sizes = sizes + rows * (column.nbytes // batch.num_rows)
    found = zip(partitions, rows.tolist(), sizes.tolist(), strict=True)
    return {partition: Amount(int(count), int(size)) for partition, count, size in found}


def fixed_row_size(schema: TableSchema) -> int:
    """Bytes that every row takes, whatever its texts: null bits, a slot a column, values too wide for a slot."""
    return (len(schema.fields) + 8 + 63) // 64 * 8 + sum(8 + _beside(item.type) for item in schema.fields)


def is_text(kind: DataType) -> bool:
    """Whether values have a length of their own."""
    return kind.root in _TEXTS


def is_nested(kind: DataType) -> bool:
    """Whether values consist of others."""
    return kind.root in _NESTED


def _beside(kind: DataType) -> int:
    if kind.root is Root.DECIMAL and (kind.precision or 0) > _COMPACT_DIGITS:
        return 16
    if kind.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ) and (kind.precision or 0) > _COMPACT_FRACTION:
        return 8
    return 0
