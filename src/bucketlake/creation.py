"""A new table with its first rows, without Spark: nobody sees the table before its rows lie in files.

    create_with_rows(catalog, draft, batches) -> Snapshot | None

The files are written first, then the schema is published, which one process alone can, and the rows are committed last.
What fails before leaves no table; what fails between is taken back, unless anybody has used the table meanwhile or the
commit may have landed.

Spec: docs/spec/catalog.md#create-table-as-select
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from bucketlake.catalog import Catalog
from bucketlake.env.env import Env
from bucketlake.errors import AlreadyExistsError, BucketlakeError, CommitUnknownError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.frames.table_scan import threads
from bucketlake.ops.cluster.order import write_order
from bucketlake.ops.cluster.rows import incoming_in_order
from bucketlake.ops.commit.commit import Commit
from bucketlake.ops.rows.given import record_batches
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.write.postpone_write import write_counted
from bucketlake.ops.write.prepare import new_commit_user, prepare_write, refuse_plain_append
from bucketlake.table import Table

__all__ = ["create_with_rows"]


def create_with_rows(catalog: Catalog, draft: Table, batches: Iterable[pa.RecordBatch]) -> Snapshot | None:
    """Make the drafted table (`Catalog.draft_table`) be there with these rows; the snapshot, None where there are none.

    Bounded memory. Errors: AlreadyExistsError where another process made the table first, and those of
    `Table.write_arrow`; after CommitUnknownError the table stays, and may hold the rows.
    """
    if not catalog.metastore.has_folder:
        return _by_server(catalog, draft, batches)
    table = draft.for_writing()
    user = new_commit_user(table.store)
    try:
        messages = _written(table, batches, user)
    except BaseException:
        sweep(catalog.env, draft.path)
        raise
    if not catalog.publish_table(draft):
        Commit(table.store, user).abort(messages)
        raise AlreadyExistsError("table exists", table=draft.name, remedy="another process has just created it")
    try:
        snapshot = table.commit(messages, user)
    except BaseException as error:
        if not isinstance(error, CommitUnknownError):
            _taken_back(catalog, draft)
        raise
    return table.compacted(snapshot, messages)


def _by_server(catalog: Catalog, draft: Table, batches: Iterable[pa.RecordBatch]) -> Snapshot | None:
    """As `create_with_rows`, where the catalog's server says where the table lies once it has made it: others see it
    empty until the rows are committed."""
    if not catalog.publish_table(draft):
        raise AlreadyExistsError("table exists", table=draft.name, remedy="another process has just created it")
    table = catalog.table(draft.name)
    try:
        return table.write_arrow(batches)
    except BaseException as error:
        if not isinstance(error, CommitUnknownError):
            with suppress(BucketlakeError):
                catalog.withdraw_table(table)
        raise


def _written(table: Table, batches: Iterable[pa.RecordBatch], user: str) -> list[CommitMessage]:
    store = table.store
    refuse_plain_append(store)
    rows: Iterable[pa.RecordBatch] = record_batches(batches, {}, table.schema)
    order = write_order(store.schema, store.options)
    if order is not None:
        rows = incoming_in_order(rows, order, store)
    task = prepare_write(store, None, commit_user=user)
    return write_counted(store, rows, replace(task, options={"threads": threads()}))


def _taken_back(catalog: Catalog, draft: Table) -> None:
    """Remove the table again if nobody has used it; the first error is the one that counts."""
    with suppress(BucketlakeError):
        if draft.latest_snapshot() is None and catalog.withdraw_table(draft):
            sweep(catalog.env, draft.path)


def sweep(env: Env, path: str) -> None:
    """Remove the empty folders that a write left, best effort; folders that hold a file stay, whoever's it is."""
    with suppress(BucketlakeError):
        for info in env.storage.list(path):
            if info.is_dir:
                sweep(env, f"{path}/{info.name}")
        env.storage.delete_empty(path)
