"""The read path of one split: raw files or merged sections → drop deletes → filter → project.

Spec: docs/spec/reading.md
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.format.binary_row import decode_row, without_arity_header
from bucketlake.format.datafile import read_data_file
from bucketlake.format.manifest import DataFile
from bucketlake.lsm.engines import Deduplicate
from bucketlake.lsm.keys import KeyOrder
from bucketlake.lsm.levels import sections
from bucketlake.lsm.merge import merge_runs
from bucketlake.ops.messages import Split
from bucketlake.ops.store import Store
from bucketlake.predicate import Predicate, columns_of, mask, restrict
from bucketlake.schema import TableSchema, read_mapping
from bucketlake.types import DataField, arrow_schema, arrow_type

KIND_COLUMN = "_VALUE_KIND"
SEQUENCE_COLUMN = "_SEQUENCE_NUMBER"
KEPT_KINDS = pa.array([0, 2], pa.int8())  # +I, +U


def read_split(
    store: Store, split: Split, columns: Sequence[str] | None = None, predicate: Predicate | None = None
) -> Iterator[pa.RecordBatch]:
    """The live rows of a split that satisfy the predicate, in the layout of `store.schema`, `columns` in their order.

    Empty batches are left out; memory stays within a few blocks whatever the split's size.
    Raises InvalidError for unknown columns, NotFoundError or CorruptError for files that are gone or damaged.
    Spec: docs/spec/reading.md
    """
    if split.deletions:
        raise UnsupportedError("deletion vectors are not read yet", bucket=split.bucket, path=split.bucket_path)
    wanted = column_names(store.schema, columns)
    needed = list(dict.fromkeys([*wanted, *(columns_of(predicate) if predicate is not None else ())]))
    reader = _Reader(store, split, [store.schema.field(name) for name in needed])
    for batch in reader.raw(predicate) if split.raw else reader.merged(predicate):
        rows = batch if predicate is None else batch.filter(mask(predicate, batch))
        if rows.num_rows:
            yield rows.select(wanted)


def column_names(schema: TableSchema, columns: Sequence[str] | None) -> list[str]:
    """The columns asked for, all by default; InvalidError for one that the table does not have."""
    known = [item.name for item in schema.fields]
    if columns is None:
        return known
    for name in columns:
        if name not in known:
            near = get_close_matches(name, known, 1)
            remedy = f"did you mean '{near[0]}'?" if near else f"choose from {known}"
            raise InvalidError("no such column", column=name, remedy=remedy)
    return list(columns)
