"""What CALL sys.compact asks for, of a table of any kind, as one job: sorted runs of buckets, or small files.

    Compaction(full, partitions, buckets)        what is wanted
    compaction_job(store, wanted, on_progress) -> Job
    removal_before(store, partitions, on_progress) -> Job | None

Spec: docs/spec/maintenance.md
"""

from __future__ import annotations

import re

from bucketlake.errors import InvalidError
from bucketlake.ops.compact.append_compact import AppendPlan
from bucketlake.ops.compact.column_compact import ColumnPlan
from bucketlake.ops.compact.job import Job, Plan
from bucketlake.ops.compact.maintain import Wanted
from bucketlake.ops.compact.materialize import MaterializePlan, refuse_materializing
from bucketlake.ops.progress import OnProgress
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import BucketMode
from bucketlake.values import dataclass

_RANGE = re.compile(r"([0-9]{1,18})(?:\s*-\s*([0-9]{1,18}))?")
_MODES = {
    BucketMode.FIXED: "HASH_FIXED",
    BucketMode.DYNAMIC: "HASH_DYNAMIC",
    BucketMode.KEY_DYNAMIC: "KEY_DYNAMIC",
    BucketMode.UNAWARE: "BUCKET_UNAWARE",
    BucketMode.POSTPONE: "POSTPONE_MODE",
}


@dataclass(frozen=True, slots=True)
class Compaction:
    """`full`: all files, else what the table's policy picks; `partitions`, `buckets`: of these only (None: all);
    `deleted`: groups of files with deleted rows, to be rid of these."""

    full: bool = True
    partitions: PartitionFilter | None = None
    buckets: frozenset[int] | None = None
    deleted: bool = False


def compaction_job(store: Store, wanted: Compaction, on_progress: OnProgress | None = None) -> Job:
    """The job; InvalidError where buckets are named of a table whose buckets have no fixed numbers."""
    if wanted.buckets is not None and store.schema.bucket_mode is not BucketMode.FIXED:
        mode = _MODES[store.schema.bucket_mode]
        raise InvalidError(
            f"Specifying buckets is only supported for fixed-bucket tables, but the table bucket mode is {mode}."
        )
    plan: Plan
    if wanted.deleted:
        refuse_materializing(store)
        return Job.of(store, MaterializePlan(wanted.partitions), "materialize deletion vectors", on_progress)
    if store.schema.primary_keys:
        plan = Wanted(wanted.full, wanted.partitions, wanted.buckets)
    elif store.schema.data_evolution:
        plan = ColumnPlan(wanted.partitions)
    else:
        plan = AppendPlan(wanted.full, wanted.partitions, numbers=wanted.buckets)
    return Job.of(store, plan, "compact", on_progress)


def removal_before(store: Store, partitions: PartitionFilter | None, on_progress: OnProgress | None) -> Job | None:
    """What `data-evolution.compaction.rewrite-row-ids` asks for before a compaction, which would keep deleted rows."""
    if not store.schema.data_evolution or not store.options.get("data-evolution.compaction.rewrite-row-ids"):
        return None
    wanted = Compaction(partitions=partitions, deleted=True)
    return compaction_job(store, wanted, on_progress) if store.options.get("deletion-vectors.enabled") else None


def parse_buckets(text: str, count: int) -> frozenset[int]:
    """Numbers of buckets, from 0 to `count` - 1: `3`, `0,2`, closed ranges `0-99,200-299`.

    Raises InvalidError for any other text, and for numbers that there are not.
    """
    if not text.strip():
        raise InvalidError("Integer ranges must not be empty.")
    if count <= 0:
        raise InvalidError("Exclusive upper bound must be greater than 0.", buckets=count)
    found: set[int] = set()
    for part in (piece.strip() for piece in text.split(",")):
        if not part:
            raise InvalidError("Integer ranges must not contain an empty item.", text=text)
        matched = _RANGE.fullmatch(part)
        if matched is None:
            raise InvalidError(f"Invalid integer or range: '{part}'.", remedy="write numbers and ranges: 0-99,200-299")
        low = int(matched[1])
        high = int(matched[2] or low)
        if low > high:
            raise InvalidError(f"Integer range start {low} must not be greater than end {high}.")
        if high >= count:
            raise InvalidError(f"Integer or range '{part}' is out of range [0, {count}).")
        found.update(range(low, high + 1))
    return frozenset(found)
