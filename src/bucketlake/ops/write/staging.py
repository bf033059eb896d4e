"""Rows put aside as files of the table's folder, for writes whose tasks cannot have the rows of a key together.

Spark gives a Python data source no shuffle. Where the bucket of a row hangs on all rows of the write, tasks therefore
write what they have as plain files of no bucket, which nothing refers to, and the one process that commits reads them,
assigns buckets, writes, commits and removes them. If it dies, they are orphans like others.

Spec: docs/dataframes.md#buckets
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from bucketlake.ops.rows.one_file import file_layout, read_file
from bucketlake.ops.table.made import remove_files
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.store import Store
from bucketlake.ops.write.prepare import new_commit_user, prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.schema.external_folders import STRATEGY

_KEPT = ("branch", "partition.default-name", "partition.legacy-name", "path")
_LAYOUT = {"bucket": "-1", "file.format": "parquet", "file.compression": "lz4", "write-only": "true", STRATEGY: "none"}


def stage(store: Store, batches: Iterable[pa.RecordBatch], task: int, tasks: int) -> list[CommitMessage]:
    """Write one task's rows aside; where they are. `tasks`: more than there are."""
    kept = {key: value for key, value in store.schema.options.items() if key in _KEPT or key.startswith("data-file.")}
    plain = store.with_schema(replace(store.schema, primary_keys=(), options={**kept, **_LAYOUT}))
    template = prepare_write(plain, None, tasks, new_commit_user(plain), False)
    return write_batches(plain, batches, replace(template, task=task))


def staged(store: Store, messages: Sequence[CommitMessage]) -> Iterator[pa.RecordBatch]:
    """The rows that were put aside, in the table's columns, batch by batch."""
    for message in messages:
        folder = store.paths.bucket_dir(message.partition, message.bucket)
        for file in message.new_files:
            layout = file_layout(store, file, store.schema.fields)
            for batch in read_file(store, store.paths.file_path(folder, file), layout, None):
                yield layout.rows(batch)


def unstage(store: Store, messages: Sequence[CommitMessage]) -> None:
    """Remove what was put aside."""
    for message in messages:
        remove_files(store, message.partition, message.bucket, message.new_files)
