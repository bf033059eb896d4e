"""What travels between driver and tasks: small picklable values."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from bucketlake.format.index.index_manifest import DeletionVectorRange, IndexFile
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.lsm.key_run import KeyIndex
from bucketlake.paths import POSTPONE_BUCKET
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.ops.table.store import Store


@dataclass(frozen=True, slots=True)
class CommitMessage:
    """What one task did to one bucket. `partition`: BinaryRow bytes. Append side: `new_files`, `deleted_files`,
    `changelog_files`; compact side: `compact_before`, `compact_after`, `compact_changelog`. Index files replace.
    `index_base`: dynamic tables, the index manifest that the rows' buckets were looked up in; None: an empty index.
    `key_base`: cross-partition tables, the snapshot that the rows' places were looked up in, 0 for none before the
    first; None where they were not looked up. `received`: rows of other partitions are among them, put here because
    their keys lay here then. `compact_beside`: of a compaction of rows with keys, which files above level 0 it left
    where they are (`entries.beside`)."""

    partition: bytes
    bucket: int
    total_buckets: int
    new_files: tuple[DataFile, ...] = ()
    deleted_files: tuple[DataFile, ...] = ()
    changelog_files: tuple[DataFile, ...] = ()
    compact_before: tuple[DataFile, ...] = ()
    compact_after: tuple[DataFile, ...] = ()
    compact_changelog: tuple[DataFile, ...] = ()
    new_index_files: tuple[IndexFile, ...] = ()
    deleted_index_files: tuple[IndexFile, ...] = ()
    compact_new_index_files: tuple[IndexFile, ...] = ()
    compact_deleted_index_files: tuple[IndexFile, ...] = ()
    index_base: str | None = None
    key_base: int | None = None
    received: bool = False
    compact_beside: str | None = None

    def writes_only(self) -> CommitMessage:
        """Without the compact side: where its files changed under a compaction, that is left to the next."""
        return replace(
            self,
            compact_before=(),
            compact_after=(),
            compact_changelog=(),
            compact_new_index_files=(),
            compact_deleted_index_files=(),
            compact_beside=None,
        )


BucketVectors = dict[tuple[bytes, int], "dict[str, DeletionFile]"]
"""Where deletion vectors lie: by (partition, bucket), then by data file name. A name alone tells no file: migrated
tables have files of one name in many partitions."""


@dataclass(frozen=True, slots=True)
class DeletionFile:
    """A deletion vector of one data file: where it lies."""

    path: str
    range: DeletionVectorRange


@dataclass(frozen=True, slots=True)
class Split:
    """Files of one bucket that one task reads together. `raw`: no merge is needed, every file can be read by itself
    in any order (it holds no deletes and overlaps nothing); else `files` are merged by key.
    `bucket_path`: folder of the files that have no external path. `deletions`: by file name.
    `changes`: the files tell changes (delta or changelog files), in the order in which they came.
    `before`: the rows wanted are those that differ from this split's; files that both had are in neither.
    `replaced`: other files take their place, so none may be passed over, whatever the options say of reads.
    Bucket -2: `files` are pending rows of a postpone table in their order; they apply on top of `parts`, the real
    buckets whose number modulo `share[1]` is `share[0]`, and rows of other buckets are left out.
    Other buckets with `parts`: the files of the parts are merged by key and shown as rows of `partition`, though they
    lie in other partitions, and in other branches: each is read by its `store`, None: by the split's own. With
    `before` the parts are buckets of the partition that have no row in common, as those of `before` are."""

    snapshot_id: int
    partition: bytes
    bucket: int
    total_buckets: int
    bucket_path: str
    files: tuple[DataFile, ...]
    raw: bool
    deletions: dict[str, DeletionFile] = field(default_factory=dict)
    changes: bool = False
    before: Split | None = None
    parts: tuple[Split, ...] = ()
    share: tuple[int, int] = (0, 1)
    replaced: bool = False
    store: Store | None = None

    @property
    def row_count(self) -> int:
        """Rows stored in the files, superseded ones included."""
        return sum(file.row_count for file in self.files) + sum(part.row_count for part in self._others)

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.file_size for file in self.files) + sum(part.size for part in self._others)

    @property
    def chained(self) -> bool:
        """Whether its rows are merged from the files of its parts."""
        return bool(self.parts) and self.bucket != POSTPONE_BUCKET

    @property
    def _others(self) -> tuple[Split, ...]:
        return self.parts if self.before is None else (*self.parts, self.before)


@dataclass(frozen=True, slots=True)
class WriteTask:
    """How one task writes. `sequence_start`: next sequence number by (partition bytes, bucket), `first_sequence` where
    absent; task k of n numbers its rows start + k, start + k + n, … so that no two tasks ever give the same number.
    `total_buckets`: by partition bytes, where it differs from the table's option (overwrites, rescales, postpone
    tables; -2: rows there stay pending).
    `options`: "threads", how many buckets may be written at a time (1).
    `refused`: partitions that must not be written because their live files have another bucket number, with it.
    Dynamic tables: `index_base`, the index manifest that keys are looked up in (None: an empty index), and `assigners`,
    into how many shares each partition's keys are dealt out: all rows of one share must go to one task; `owner`: the
    share that all rows of this task are, whatever their hashes (no other task may have rows of one); `first_load`:
    partitions without a bucket yet and how many they get, there a row's bucket follows from its hash, in any task;
    `key_samples`: of buckets by (partition bytes, bucket), a key that lies there, as manifests have it.
    Cross-partition tables: `key_base`, the snapshot that keys are looked up in (0: none; None: keys are not looked up),
    and `key_index`, what is known of it. All rows of a key must go to one task.
    `changelog`: whether flushes write changelog files, if the table's changelog producer is input. `parallelism`: how
    many tasks a compaction would run at once, which gives partitions of postpone tables their buckets; 0: not known."""

    commit_user: str
    task: int = 0
    tasks: int = 1
    sequence_start: dict[tuple[bytes, int], int] = field(default_factory=dict)
    total_buckets: dict[bytes, int] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    refused: dict[bytes, int] = field(default_factory=dict)
    first_sequence: int = 0
    index_base: str | None = None
    assigners: int = 1
    owner: int | None = None
    key_base: int | None = None
    key_index: KeyIndex | None = None
    first_load: dict[bytes, int] = field(default_factory=dict)
    key_samples: dict[tuple[bytes, int], bytes] = field(default_factory=dict)
    changelog: bool = True
    parallelism: int = 0
