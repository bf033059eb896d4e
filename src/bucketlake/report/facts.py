"""What is told of a table: frozen values of numbers, texts and lists, each of which `to_dict` gives as JSON takes it.

Every collection is bounded and says in `left_out` what it does not hold. Texts are data: names of tables, partitions,
users and files may hold anything. Times are epoch milliseconds, sizes bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from bucketlake.values import dataclass


class Fact:
    """What every fact has."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Dicts, lists, texts and numbers."""
        return asdict(self)  # type: ignore[call-overload,no-any-return]


# ---------------------------------------------------------------------------------------------- history


@dataclass(frozen=True, slots=True)
class Commit(Fact):
    """One snapshot and what it changed. `rows`: of all files, `delta_rows`: what it added less what it took away;
    `moved_files`: put on another level without being written; `consumers`: that read it next; `words`: what was done,
    as one says it; `stream`: the batch of a streaming query that made it, as `query #number`."""

    snapshot: int
    time: int
    kind: str
    operation: str | None
    words: str
    user: str
    schema_id: int
    rows: int
    delta_rows: int
    changelog_rows: int
    added_files: int
    added_bytes: int
    removed_files: int
    removed_bytes: int
    moved_files: int
    tags: list[str]
    branches: list[str]
    consumers: list[str]
    watermark: int | None
    stream: str | None
    damaged: str | None


@dataclass(frozen=True, slots=True)
class Branch(Fact):
    """A branch beside this one. `forked_from`: the newest snapshot that both have, None without any."""

    name: str
    forked_from: int | None
    newest: int | None
    newest_time: int | None
    commits: int


@dataclass(frozen=True, slots=True)
class Tag(Fact):
    """A tag; `expired`: its snapshot itself is gone."""

    name: str
    snapshot: int
    time: int
    rows: int
    expired: bool


@dataclass(frozen=True, slots=True)
class Consumer(Fact):
    """Who reads the table as a stream. `lag`: snapshots that are still to be read."""

    name: str
    next_snapshot: int
    lag: int


@dataclass(frozen=True, slots=True)
class Timeline(Fact):
    """The newest commits, oldest first, and what names them; iterates over its commits. `left_out`: older snapshots."""

    commits: list[Commit]
    tags: list[Tag]
    branches: list[Branch]
    consumers: list[Consumer]
    left_out: int

    def __len__(self) -> int:
        return len(self.commits)

    def __iter__(self) -> Iterator[Commit]:
        return iter(self.commits)

    def __getitem__(self, place: int) -> Commit:
        return self.commits[place]


@dataclass(frozen=True, slots=True)
class Moment(Fact):
    """The table's files after one snapshot. `written`, `rewritten`: bytes of data files that commits and compactions
    have made since the first moment; `write`: (written + rewritten) / written, None before anything was written;
    `live`: bytes of its data files; `settled`: those of the highest level that has any; `held`: live, and what went
    since the first moment and is kept for older snapshots; `space`: held / live; `overlap`: live / settled, which is 1
    where nothing is to merge; `levels`: bytes by level, the lowest first."""

    snapshot: int
    time: int
    kind: str
    written: int
    rewritten: int
    write: float | None
    files: int
    live: int
    settled: int
    held: int
    space: float | None
    overlap: float | None
    levels: dict[int, int]


@dataclass(frozen=True, slots=True)
class Amplification(Fact):
    """Moments, oldest first. `left_out`: older snapshots."""

    moments: list[Moment]
    left_out: int


# ---------------------------------------------------------------------------------------------- where files lie


@dataclass(frozen=True, slots=True)
class Cell(Fact):
    """One bucket of one partition. `runs`: sorted runs, that a read of a keyed table merges; files elsewhere; `skew`:
    its bytes over the mean of its partition's buckets; `pending`: rows wait here for their bucket; `levels`: how many
    have files."""

    bucket: int
    rows: int
    bytes: int
    files: int
    runs: int
    levels: int
    skew: float
    pending: bool


@dataclass(frozen=True, slots=True)
class PartitionRow(Fact):
    """The buckets of one partition. `key`: its identity, as hexadecimal digits; `text`: as its folder is called, "" for
    a table without partitions; `buckets`: as its files count them, at least those there are; `skew`: the largest
    bucket over the mean."""

    key: str
    text: str
    values: dict[str, str]
    rows: int
    bytes: int
    files: int
    buckets: int
    skew: float
    cells: list[Cell]


@dataclass(frozen=True, slots=True)
class Heat(Fact):
    """Partitions x buckets, by the partition's text; totals of the whole table. `left_out`: smaller partitions,
    `left_out_buckets`: buckets of those shown."""

    snapshot: int | None
    partitions: list[PartitionRow]
    keyed: bool
    rows: int
    bytes: int
    files: int
    total_partitions: int
    left_out: int
    left_out_buckets: int


@dataclass(frozen=True, slots=True)
class LevelFile(Fact):
    """One file of a bucket. `run`: the sorted run that it belongs to, 0 the newest; `low`, `high`: where its keys begin
    and end, 0 to 1, None without keys; `min_key`, `max_key`: as text, cut where they are long."""

    name: str
    level: int
    run: int
    size: int
    rows: int
    deletes: int | None
    created: int | None
    source: str | None
    schema_id: int
    min_key: str | None
    max_key: str | None
    low: float | None
    high: float | None
    min_sequence: int
    max_sequence: int


@dataclass(frozen=True, slots=True)
class LevelSum(Fact):
    """All files of one level, also those that are not listed."""

    level: int
    files: int
    rows: int
    size: int
    runs: int


@dataclass(frozen=True, slots=True)
class BucketLevels(Fact):
    """A bucket's files by level. `scale`: whether positions follow the "value" of the key or its "rank" among the ends
    of files, None without keys; `trigger`: sorted runs from which on it is compacted; `left_out`: smaller files."""

    snapshot: int | None
    partition: str
    bucket: int
    key: list[str]
    scale: str | None
    levels: list[LevelSum]
    files: list[LevelFile]
    runs: int
    trigger: int | None
    left_out: int


@dataclass(frozen=True, slots=True)
class SizeBin(Fact):
    """Files of `low` up to less than `high` bytes."""

    low: int
    high: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class FileSizes(Fact):
    """A histogram over powers of two. `target`: the size at which files are rolled; `small`: files below a quarter."""

    snapshot: int | None
    bins: list[SizeBin]
    files: int
    bytes: int
    rows: int
    smallest: int
    median: int
    largest: int
    target: int
    small: int


@dataclass(frozen=True, slots=True)
class ListedFile(Fact):
    """One live file, as a list of all of them shows it."""

    name: str
    partition: str
    bucket: int
    level: int
    size: int
    rows: int
    created: int | None
    source: str | None


@dataclass(frozen=True, slots=True)
class Listing(Fact):
    """A stretch of the live files in some order. `total`: how many there are; `start`: the place of the first."""

    snapshot: int | None
    files: list[ListedFile]
    start: int
    total: int


@dataclass(frozen=True, slots=True)
class FileChanges(Fact):
    """Files that one snapshot has and the other has not, whatever came between."""

    before: int
    after: int
    added_files: int
    added_bytes: int
    added_rows: int
    removed_files: int
    removed_bytes: int
    removed_rows: int
    same_files: int
    moved_files: int


# ---------------------------------------------------------------------------------------------- what it is


@dataclass(frozen=True, slots=True)
class ColumnChange(Fact):
    """What became of a column. `change`: added, dropped, renamed, type, nullability, comment, default, moved."""

    column: str
    change: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class OptionChange(Fact):
    """What became of an option, or of keys and the comment of the table; secrets are hidden."""

    key: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class SchemaStep(Fact):
    """One schema against the one before; the first has all its columns as added. `snapshots`: of those that are there,
    how many were written with it, None where that was not counted."""

    id: int
    time: int
    columns: list[ColumnChange]
    options: list[OptionChange]
    fields: int
    current: bool


@dataclass(frozen=True, slots=True)
class Evolution(Fact):
    """Schemas, oldest first. `left_out`: older ones; `unreadable`: ids of schemas that are damaged."""

    steps: list[SchemaStep]
    left_out: int
    unreadable: list[int]


@dataclass(frozen=True, slots=True)
class Setting(Fact):
    """One option. `value`: what holds, None where nothing does; `set`: it stands in the table; `differs`: with another
    meaning than the default; `effect`: honoured, kept or refused, `unknown` for a key that nobody knows; `why`: what
    makes a kept one harmless."""

    key: str
    value: str | None
    default: str | None
    set: bool
    differs: bool
    effect: str
    why: str
    doc: str
    mutable: bool


@dataclass(frozen=True, slots=True)
class ColumnFact(Fact):
    """One column as it is now. `role`: partition, key, partition key, "" ."""

    id: int
    name: str
    type: str
    nullable: bool
    comment: str | None
    default: str | None
    role: str


@dataclass(frozen=True, slots=True)
class Overview(Fact):
    """A table at a glance: its newest snapshot, its columns and keys. `bucket_mode`: fixed, dynamic, key-dynamic,
    unaware, postpone; `rows`: of its files, superseded ones included. Sums of files are None where its manifests cannot
    be read; `damaged` then says why."""

    name: str
    path: str
    branch: str
    comment: str | None
    keyed: bool
    merge_engine: str
    bucket_mode: str
    bucket: int
    primary_key: list[str]
    partition_key: list[str]
    columns: list[ColumnFact]
    schema_id: int
    snapshot: int | None
    time: int | None
    earliest: int | None
    rows: int
    files: int | None
    bytes: int | None
    partitions: int | None
    damaged: str | None


@dataclass(frozen=True, slots=True)
class StreamState(Fact):
    """A streaming query that writes the table: its batch begun last. `snapshot`, `time`: of its newest commit among the
    newest snapshots, None where that is older; `rows`: of these commits together, `commits`: how many."""

    query: str
    batch: int | None
    done: bool
    snapshot: int | None
    time: int | None
    commits: int
    rows: int


@dataclass(frozen=True, slots=True)
class Activity(Fact):
    """Who is at work on a table. `now`: the clock of this machine; `left_out`: queries that are not listed."""

    now: int
    snapshot: int | None
    time: int | None
    streams: list[StreamState]
    consumers: list[Consumer]
    recent: int
    left_out: int
