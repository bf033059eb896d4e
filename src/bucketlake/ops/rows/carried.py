"""Rows for those who write them to files again and look at few of their columns: texts may stay as a file has them.

    carried(store, split) -> batches            of append tables
    carried_columns(store) -> names             what is looked at nowhere

Spec: docs/spec/datafile.md#encoded-columns
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace

import pyarrow as pa

from bucketlake.ops.rows.deletions import Mask
from bucketlake.ops.rows.read import RawSplit
from bucketlake.ops.rows.split_files import SplitFiles
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.store import Store
from bucketlake.schema.file_indexes import index_specs


def carried(
    store: Store, split: Split, left_out: Mask | None = None, columns: Set[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The live rows of a raw split of an append table. `left_out`: instead of what deletion vectors name, rows of the
    split's one file; `columns`: fewer than `carried_columns`. Errors as `read_split`."""
    whole = split if left_out is None else replace(split, deletions={})
    encoded = carried_columns(store) if columns is None else frozenset(columns)
    reader = RawSplit(SplitFiles(store, whole, store.schema.fields, encoded=encoded))
    return reader.rows(None) if left_out is None else reader.rows_of(split.files[0], left_out)


def carried_columns(store: Store) -> frozenset[str]:
    """The columns that moving rows from files to files looks at nowhere: neither keys, nor what orders or places rows,
    nor indexed."""
    schema, options = store.schema, store.options
    looked = {*schema.primary_keys, *schema.partition_keys, *schema.bucket_keys, *options.names("sequence.field")}
    looked.update(spec.column for spec in index_specs(options.raw))
    return frozenset(schema.field_names) - looked
