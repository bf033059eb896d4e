"""What is asked of a compaction beside merging files: an order of its own, or the clustering of the table's options.

Everything is checked here, before a file is read.

Spec: docs/spec/clustering.md
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bucketlake.errors import InvalidError, UnsupportedError, check_types
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.cluster import keyed
from bucketlake.ops.cluster.incremental import is_incremental, picks
from bucketlake.ops.cluster.job import Job, put_in_order
from bucketlake.ops.cluster.order import SortOrder, clustering_order
from bucketlake.ops.progress import OnProgress
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import BucketMode
from bucketlake.values import dataclass

NONE = "none"


@dataclass(frozen=True, slots=True)
class OrderRequest:
    """An order as a caller names it. `by`: columns, as a list or as text, comma between them; `strategy`: order,
    zorder, hilbert or none."""

    by: str | Sequence[str] | None = None
    strategy: str | None = None

    def __post_init__(self) -> None:
        check_types((Iterable, type(None)), "give a list of columns, or a text with commas", order_by=self.by)
        if self.by is not None and not isinstance(self.by, str):
            object.__setattr__(self, "by", tuple(self.by))  # a generator gives its names once

    @property
    def columns(self) -> list[str]:
        """The columns named."""
        names = self.by.split(",") if isinstance(self.by, str) else list(self.by or ())
        return [name.strip() for name in names if name.strip()]

    @property
    def is_asked(self) -> bool:
        """Whether rows are to be put in an order of their own."""
        return self._strategy != NONE

    @property
    def _strategy(self) -> str:
        return (self.strategy or ("order" if self.columns else NONE)).lower()

    def order(self, store: Store) -> SortOrder:
        """The order, checked against the table. Errors: InvalidError, UnsupportedError (types, tables with buckets)."""
        if store.schema.data_evolution:
            raise UnsupportedError(
                "Data Evolution table cannot be sorted!", remedy="its rows lie in the order of their ids"
            )
        columns, keys = self.columns, list(store.schema.partition_keys)
        if set(columns) & set(keys):
            raise InvalidError(
                "order_by should not contain partition cols, because it is meaningless, "
                f"your order_by cols are {columns}, and partition cols are {keys}"
            )
        if store.options.get("clustering.incremental"):
            raise InvalidError("The table has enabled incremental clustering, do not support sort compact.")
        order = SortOrder.of(store.schema, self._strategy, columns, store.options)
        if store.schema.bucket_mode is BucketMode.DYNAMIC:
            keyed.refuse(store)
        elif store.schema.bucket_mode is not BucketMode.UNAWARE:
            raise UnsupportedError(
                f"compact with sort_type {order.strategy} only support unaware-bucket append-only table yet.",
                bucket=store.schema.bucket,
                primary_key=list(store.schema.primary_keys),
                remedy="rows of buckets lie in the order of their keys, or in that in which they came",
            )
        return order


def clustering_job(
    store: Store,
    request: OrderRequest,
    full: bool | None,
    partitions: PartitionFilter | None,
    progress: OnProgress | None = None,
) -> Job | None:
    """The job that a compaction is, where it puts rows in order; None where it merges files as they are.

    `full`: of tables that are clustered incrementally: all files (None: what is due).
    """
    if request.strategy is not None and request.strategy.lower() == NONE and request.columns:
        raise InvalidError('order_strategy "none" cannot work with order_by columns.')
    if request.is_asked:
        return Job(request.order(store), partitions=partitions, progress=progress)
    if not is_incremental(store):
        return None
    pick, wanted = picks(store, bool(full), partitions)
    order = clustering_order(store.schema, store.options)
    if order is None:
        return None
    local = store.options.get("clustering.incremental.mode") == "local-sort"
    return Job(order, pick, wanted, local and store.schema.bucket_mode is BucketMode.UNAWARE, progress)


def perform(store: Store, job: Job) -> Snapshot | None:
    """Run a job in this process; the last snapshot, None where there was nothing to do."""
    return keyed.put_in_order(store, job) if store.schema.primary_keys else put_in_order(store, job)
