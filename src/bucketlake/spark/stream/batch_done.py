"""What became of a micro-batch: rows, files, times, and how far compaction is behind.

    steps = Steps(clock)                 takes what a write tells of its steps
    BatchDone.of(…)                      with what its snapshot says

Spec: docs/streaming.md#watch-a-stream
"""

from __future__ import annotations

from dataclasses import field

from bucketlake.env.env import Clock
from bucketlake.events.bus import BatchCommitted, emit
from bucketlake.format.metadata.manifest import FileKind
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.scan.scan import EntryFilter, delta_entries, live_entries
from bucketlake.ops.table.entries import BucketKey, bucket_key
from bucketlake.ops.table.store import Store
from bucketlake.values import dataclass

KEPT = 1000  # of what became of batches, the newest


@dataclass(frozen=True, slots=True)
class BatchDone:
    """What became of a micro-batch. `snapshot`: None where it had no rows; `again`: it was committed before, by a run
    that died. `rows`, `files`: what the snapshot added; `behind`: batches whose compaction is still to come, the oldest
    since `lag_millis`. `planning_millis` until tasks write, then `writing_millis`, `commit_millis`; what is left of
    `millis` followed the commit. `runs`: the most sorted runs that a bucket of the batch has now, 0 for append
    tables; `conflicts`: commits of others that came between; `watermark`: of the query, epoch milliseconds."""

    query: str
    batch: int
    snapshot: Snapshot | None
    again: bool
    rows: int
    files: int
    millis: int
    behind: int
    lag_millis: int = 0
    planning_millis: int = 0
    writing_millis: int = 0
    commit_millis: int = 0
    runs: int = 0
    conflicts: int = 0
    watermark: int | None = None


@dataclass(slots=True)
class Steps:
    """When each step of a write began, in epoch milliseconds."""

    clock: Clock
    began: int = 0
    at: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.began = self.clock.now_millis()

    def __call__(self, step: str) -> None:
        """Take what a write tells: its first word says which step begins."""
        self.at.setdefault(step.partition(" ")[0], self.clock.now_millis())

    @property
    def millis(self) -> int:
        """Since the beginning."""
        return self.clock.now_millis() - self.began

    def between(self, first: str, last: str) -> int:
        """From one step to another; 0 where one of them did not come. "": the beginning."""
        start = self.began if not first else self.at.get(first)
        end = self.at.get(last)
        return 0 if start is None or end is None else end - start


def added_by(store: Store, snapshot: Snapshot) -> tuple[int, int, int]:
    """Rows and files that a snapshot added, and the most sorted runs that one of its buckets has by now."""
    added = [entry for entry in delta_entries(store, snapshot) if entry.kind is FileKind.ADD]
    rows = sum(entry.file.row_count for entry in added)
    if not store.schema.primary_keys or not added:
        return rows, len(added), 0
    buckets = {bucket_key(entry) for entry in added}
    newest = store.latest_snapshot() or snapshot
    runs: dict[BucketKey, set[object]] = {}
    for entry in live_entries(store, newest, EntryFilter(partitions=frozenset(place[0] for place in buckets))):
        if bucket_key(entry) in buckets and entry.bucket >= 0:
            run = entry.file.level or entry.file.file_name  # each file of level 0 is a run
            runs.setdefault(bucket_key(entry), set()).add(run)
    return rows, len(added), max((len(found) for found in runs.values()), default=0)


def tell_batch(store: Store, done: BatchDone) -> None:
    """Tell those who listen (`bucketlake.events`) of a batch."""
    emit(
        lambda: BatchCommitted(
            store.paths.root,
            store.options.text("branch") or "main",
            store.env.clock.now_millis(),
            done.query,
            done.batch,
            None if done.snapshot is None else done.snapshot.id,
            done.again,
            done.rows,
            done.files,
            done.millis,
            done.behind,
        )
    )
