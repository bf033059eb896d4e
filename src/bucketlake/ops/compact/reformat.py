"""Files written anew in another format, compression or row-group size; nothing else about a table changes.

Each file becomes one file of the same rows in the same order, at the same level, with the same keys and sequence
numbers: what a merge, a deletion vector or a changelog means stays. Only the vectors' index file is written anew, since
it names data files. A unit is the files of one bucket that one index file speaks of, or some that none does.

Units are committed in batches as COMPACT snapshots, each planned on the newest snapshot and anew where another commit
took one of its files: writers never wait, and what a run that died had committed is found done by the next.

Spec: docs/spec/rewrite.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from bucketlake.errors import CorruptError
from bucketlake.format.data.file_format import file_format, format_of
from bucketlake.format.data.orc_tail import open_orc
from bucketlake.format.data.parquet import ParquetSource
from bucketlake.format.data.parquet_writing import CODECS
from bucketlake.format.guard import decoding
from bucketlake.format.index.index_manifest import IndexEntry, IndexFile
from bucketlake.format.metadata.manifest import DataFile, FileSource, ManifestEntry
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.commit.commit import Commit
from bucketlake.ops.commit.outcome import Attempt, Attempts
from bucketlake.ops.commit.units import run_units
from bucketlake.ops.rows.column_files import refuse_rewriting
from bucketlake.ops.rows.deletions import load_vectors, vector_entries, write_vectors
from bucketlake.ops.rows.one_file import read_key_values
from bucketlake.ops.rows.read import read_split
from bucketlake.ops.rows.roll import Roller, Rolling
from bucketlake.ops.rows.row_ids import tracked
from bucketlake.ops.rows.units import compacted, vector_entries_of
from bucketlake.ops.scan.scan import EntryFilter, check_apart, live_entries
from bucketlake.ops.table.entries import BucketKey, by_bucket
from bucketlake.ops.table.known import knowing
from bucketlake.ops.table.made import all_or_nothing
from bucketlake.ops.table.messages import CommitMessage, Split
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.prepare import new_commit_user
from bucketlake.options.map_layout import map_layouts
from bucketlake.schema.schema import TableSchema
from bucketlake.values import dataclass

BATCH_BYTES = 4 << 30  # of one commit
UNIT_BYTES = 512 << 20  # of files that no vectors hold together
_WHOLE = f"{1 << 50} b"  # a file becomes one file, however large


@dataclass(frozen=True, slots=True)
class ReformatUnit:
    """Files of one bucket to write anew. `indexes`: the index files that hold their deletion vectors."""

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFile, ...]
    indexes: tuple[IndexFile, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.file_size for file in self.files)


@dataclass(frozen=True, slots=True)
class Reformatted:
    """What was done: files and their bytes before and after, and the newest snapshot, None where there was nothing."""

    files: int = 0
    before: int = 0
    after: int = 0
    snapshot: Snapshot | None = None


Run = Callable[[Store, Sequence[ReformatUnit]], list[CommitMessage]]
"""Rewrites units and gives their messages; where it raises, the files that it wrote are gone."""


def rewrite_here(store: Store, units: Sequence[ReformatUnit]) -> list[CommitMessage]:
    """Rewrite in this process, several units at a time. On an error the files of all units are removed."""
    return run_units(store, units, lambda store, unit: [rewrite_unit(store, unit)])


def reformat(
    store: Store, chosen: PartitionFilter | None = None, *, every: bool = False, run: Run = rewrite_here
) -> Reformatted:
    """Write the files of a table, or of the partitions chosen, as its options now say, batch after batch. `every`: also
    those that have the format and compression already, as a new size of row groups asks for.

    Errors: ConflictError where other commits take files away again and again; what was committed until then stays.
    """
    refuse_rewriting(store.schema, "files in another format")
    done = Reformatted()
    first = store.latest_snapshot()
    units = [] if first is None else units_due(store, first, chosen, every=every)
    for batch in _batches(units):
        done = _added(done, *_rewritten(store, batch, every, run))
    return done


def _batches(units: Iterable[ReformatUnit]) -> list[list[ReformatUnit]]:
    batches: list[list[ReformatUnit]] = []
    room = 0
    for unit in units:
        if not batches or unit.size > room:
            batches.append([])
            room = BATCH_BYTES
        batches[-1].append(unit)
        room -= unit.size
    return batches


def _rewritten(
    store: Store, batch: Sequence[ReformatUnit], every: bool, run: Run
) -> tuple[list[CommitMessage], Snapshot | None]:
    """Rewrite and commit what is still there of a batch's files."""
    commit = Commit(store, new_commit_user(store))
    wanted = {(unit.partition, unit.bucket, file.file_name) for unit in batch for file in unit.files}
    buckets = frozenset((unit.partition, unit.bucket) for unit in batch)

    def once(attempt: Attempt) -> tuple[list[CommitMessage], Snapshot | None]:
        newest = attempt.on(store.latest_snapshot())
        known = knowing(store, newest)
        units = [] if newest is None else units_due(known, newest, every=every, buckets=buckets, files=wanted)
        messages = attempt.made(run(known, units) if units else [])
        return messages, commit.commit(messages, outcome=attempt.outcome) if messages else None

    return Attempts(store, commit.abort).run(once)


def _added(done: Reformatted, messages: Sequence[CommitMessage], snapshot: Snapshot | None) -> Reformatted:
    before = [file for message in messages for file in message.compact_before]
    after = [file for message in messages for file in message.compact_after]
    return Reformatted(
        done.files + len(before),
        done.before + sum(file.file_size for file in before),
        done.after + sum(file.file_size for file in after),
        snapshot or done.snapshot,
    )


# ---------------------------------------------------------------------------------------------- planning


def units_due(
    store: Store,
    snapshot: Snapshot,
    chosen: PartitionFilter | None = None,
    *,
    every: bool = False,
    buckets: frozenset[BucketKey] | None = None,
    files: set[tuple[bytes, int, str]] | None = None,
) -> list[ReformatUnit]:
    """What of a snapshot is not as the options say; `buckets`, `files`: of these only. Footers are read of files whose
    name does not tell. Pending files of postpone tables stay: their names mean something, and compaction reads them."""
    narrow = EntryFilter(min_bucket=0)
    if buckets is not None:
        parts = frozenset(partition for partition, _ in buckets)
        narrow = replace(narrow, partitions=parts, buckets=frozenset(bucket for _, bucket in buckets))
    live = live_entries(store, snapshot, narrow)
    check_apart(store, snapshot, live)
    entries = [
        entry
        for entry in live
        if (chosen is None or chosen(entry.partition))
        and (files is None or (entry.partition, entry.bucket, entry.file.file_name) in files)
    ]
    due = parallel(lambda entry: every or not _is_as_asked(store, entry), entries)
    groups = by_bucket(entry for entry, wanted in zip(entries, due, strict=True) if wanted)
    indexes = store.index_manifest(snapshot)
    return [
        unit
        for (partition, bucket), group in groups.items()
        for unit in _units(group, vector_entries(indexes, partition, bucket))
    ]


def _units(group: list[ManifestEntry], indexes: list[IndexEntry]) -> list[ReformatUnit]:
    """Files with vectors in one index file go together; two messages could not replace it."""
    like = group[0]
    left = {entry.file.file_name: entry.file for entry in group}
    units = []
    for index in indexes:
        names = [part.data_file_name for part in index.file.dv_ranges or ()]
        held = tuple(left.pop(name) for name in names if name in left)
        if held:
            units.append(ReformatUnit(like.partition, like.bucket, like.total_buckets, held, (index.file,)))
    room = 0
    rest: list[list[DataFile]] = []
    for file in left.values():
        if not rest or file.file_size > room:
            rest.append([])
            room = UNIT_BYTES
        rest[-1].append(file)
        room -= file.file_size
    units += [ReformatUnit(like.partition, like.bucket, like.total_buckets, tuple(files)) for files in rest]
    return units


def _is_as_asked(store: Store, entry: ManifestEntry) -> bool:
    """Whether a file has the format and the compression that the options ask for at its level, and the layout of maps,
    by the schema that it was written under."""
    form = file_format(store.options, entry.file.level)
    if format_of(entry.file.file_name) != form.name:
        return False
    if _shredded(store.schema_of(entry.file.schema_id)) != _shredded(store.schema):
        return False
    folder = store.paths.bucket_dir(entry.partition, entry.bucket)
    path = store.paths.file_path(folder, entry.file)
    if form.name == "avro":
        return form.compression == "none" or f".{form.compression}" in entry.file.file_name
    with decoding("data file cannot be read", path), store.env.storage.open_input(path) as opened:
        if form.name == "orc":
            found = open_orc(opened).compression.lower()
            return bool(found == (form.setting("orc.compress") or form.compression).replace("none", "uncompressed"))
        asked = CODECS.get((form.setting("parquet.compression") or form.compression).strip().lower(), "")
        codecs = ParquetSource(opened, ()).codecs(1)
        return codecs <= {asked.replace("none", "uncompressed").upper()}


def _shredded(schema: TableSchema) -> set[int]:
    """The MAP columns, by field id, that files of a schema hold shredded."""
    names = map_layouts(schema.options)
    return {item.id for item in schema.fields if item.name in names}


# ---------------------------------------------------------------------------------------------- rewriting


def rewrite_unit(store: Store, unit: ReformatUnit) -> CommitMessage:
    """Write the files of a unit anew; the message to commit (compact side only). On an error nothing that it wrote
    stays. Errors: NotFoundError or CorruptError for files that are gone or damaged."""
    store = tracked(store)
    whole = store.with_options({"target-file-size": _WHOLE})
    rollers: list[Roller] = []
    names: dict[str, str] = {}
    with all_or_nothing(rollers):
        after = []
        for file in unit.files:
            rollers.append(
                Roller(whole, unit.partition, unit.bucket, Rolling(level=file.level, source=FileSource.COMPACT))
            )
            after.append(_again(store, unit, file, rollers[-1]))
            names[file.file_name] = after[-1].file_name
        indexes = _renamed_vectors(store, unit, names)
    return compacted(unit, after, indexes)


def _again(store: Store, unit: ReformatUnit, file: DataFile, roller: Roller) -> DataFile:
    folder = store.paths.bucket_dir(unit.partition, unit.bucket)
    if store.schema.primary_keys:
        batches = read_key_values(store, folder, file)
    else:
        split = Split(0, unit.partition, unit.bucket, unit.total_buckets, folder, (file,), raw=True, replaced=True)
        batches = iter(read_split(store, split))
    for batch in batches:
        roller.write(batch)
    made = roller.close()
    if len(made) != 1 or made[0].row_count != file.row_count:
        raise CorruptError(
            "a file does not have the rows that its manifest says",
            path=store.paths.file_path(folder, file),
            rows=sum(one.row_count for one in made),
            recorded=file.row_count,
        )
    return replace(
        made[0],
        min_sequence_number=file.min_sequence_number,
        max_sequence_number=file.max_sequence_number,
        file_source=file.file_source,
        creation_time=file.creation_time,
    )


def _renamed_vectors(store: Store, unit: ReformatUnit, names: dict[str, str]) -> list[IndexFile]:
    """The vectors of the unit's index files, those of its files under their new names."""
    if not unit.indexes:
        return []
    found = {names.get(name, name): vector for name, vector in load_vectors(store, vector_entries_of(unit)).items()}
    return write_vectors(store, unit.partition, unit.bucket, found)
