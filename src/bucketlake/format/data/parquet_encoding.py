"""Which columns of a parquet file are worth a dictionary, by a sample of their values.

A dictionary that holds nearly as many values as there are rows costs time to build, room in the file, and time to read:
the writer begins with it all the same and gives up only when the dictionary page is full. So the first rows of a file
are sampled, and columns of mostly different values are stored plainly.

Spec: docs/spec/datafile.md#dictionaries
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from bucketlake.format.data.file_format import FileFormat
from bucketlake.lazy import pc
from bucketlake.types.model import LISTS, DataField, Root

SAMPLE_ROWS = 4096
_WORTH = 0.7  # of the plain size that dictionary and indices may take together
NESTED = (*LISTS, Root.MAP, Root.ROW, Root.VARIANT)
"""Types with several leaves, or none of their own name."""


def dictionary_columns(table: pa.Table, fields: Sequence[DataField], form: FileFormat) -> bool | list[str]:
    """The leaf columns to encode with a dictionary, as pyarrow's writer takes them: all, none, or paths.

    `table`: the first rows of the file, of which a sample decides; `parquet.enable.dictionary`, for all columns or with
    `#<column>` for one, decides instead where it is set. Nested columns and VARIANT keep theirs, but VECTOR: its
    numbers hardly repeat.
    """
    all_columns = form.setting("parquet.enable.dictionary")
    chosen: list[str] = []
    leaves = 0
    for item in fields:
        paths = _leaf_paths(table.schema.field(item.name))
        leaves += len(paths)
        own = form.setting(f"parquet.enable.dictionary#{item.name}") or all_columns
        if form.flag(f"parquet.enable.dictionary#{item.name}", form.flag("parquet.enable.dictionary", True)) and (
            own is not None or _is_worth(item, table.column(item.name), table.num_rows)
        ):
            chosen += paths
    return True if len(chosen) == leaves else chosen or False


def _is_worth(item: DataField, column: pa.ChunkedArray, rows: int) -> bool:
    """Whether a dictionary and its indices are expected to take clearly less than the values themselves."""
    if item.type.root in NESTED:
        return item.type.root is not Root.VECTOR
    if rows == 0 or pa.types.is_boolean(column.type) or pa.types.is_dictionary(column.type):
        return True
    sample = column if rows <= SAMPLE_ROWS else _sampled(column, rows)
    taken = len(sample) - sample.null_count
    if taken == 0:
        return True
    distinct = _estimated_distinct(sample, taken, rows)
    width = _value_bytes(sample, taken)
    bits = max(1, math.ceil(math.log2(max(distinct, 2))))
    return bool(distinct * width + rows * bits / 8 <= _WORTH * rows * width)


def _sampled(column: pa.ChunkedArray, rows: int) -> pa.ChunkedArray:
    """Rows at equal distances, shifted so that a period in the data does not fall in with the step."""
    places = np.arange(SAMPLE_ROWS, dtype=np.int64) * rows // SAMPLE_ROWS
    return column.take(pa.array(places))


def _estimated_distinct(sample: pa.ChunkedArray, taken: int, rows: int) -> float:
    """Distinct values among all rows: those seen and, by Chao's estimate from values seen once and twice, those not."""
    counts = pc.value_counts(sample.drop_null()).field("counts").to_numpy()
    seen = len(counts)
    if taken >= rows:
        return seen
    once, twice = int(np.count_nonzero(counts == 1)), int(np.count_nonzero(counts == 2))
    unseen = once * once / (2 * twice) if twice else once * (once - 1) / 2
    return min(float(rows), seen + unseen)


def _value_bytes(sample: pa.ChunkedArray, taken: int) -> float:
    """Bytes of one value, stored plainly."""
    kind = sample.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return 4 + (pc.sum(pc.binary_length(sample)).as_py() or 0) / taken
    if pa.types.is_decimal(kind):
        return 4 if kind.precision <= 9 else 8 if kind.precision <= 18 else 16
    return float(max(4, kind.bit_width // 8))


def _leaf_paths(item: pa.Field, above: str = "") -> list[str]:
    """The paths of a column's leaves, as parquet names them."""
    path = above + item.name
    kind = item.type
    if pa.types.is_struct(kind):
        return [leaf for member in kind.fields for leaf in _leaf_paths(member, f"{path}.")]
    if pa.types.is_map(kind):
        entries = (kind.key_field.with_name("key"), kind.item_field.with_name("value"))
        return [leaf for part in entries for leaf in _leaf_paths(part, f"{path}.key_value.")]
    if pa.types.is_list(kind):
        return _leaf_paths(kind.value_field.with_name("element"), f"{path}.list.")
    return [path]
