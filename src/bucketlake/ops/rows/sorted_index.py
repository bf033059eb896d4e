"""The rows of one column as an index file in the order of its values: of global indexes, and of keyed tables.

    index_blocks(options, kind) -> Blocks                how a file of a kind is written
    encoded_index(field, kind, rows, first, …)           the file, and what the index manifest records of it

Spec: docs/spec/global_index.md#building
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.errors import InvalidError
from bucketlake.format.index.bitmap_index import BITMAP, encode_bitmap
from bucketlake.format.index.blocks import CODECS
from bucketlake.format.index.btree import BTREE, Blocks, encode_btree
from bucketlake.format.index.sorted_keys import encoded_keys
from bucketlake.lsm.keys import KeyOrder
from bucketlake.options.options import TableOptions
from bucketlake.schema.schema import SEQUENCE_FIELD
from bucketlake.types.model import DataField


def index_blocks(options: TableOptions, kind: str) -> Blocks:
    """How a file of a kind is written. InvalidError for a codec that there is not."""
    if kind == BTREE:
        size, codec, level = (
            options.get("btree-index.block-size"),
            options.get("btree-index.compression"),
            options.get("btree-index.compression-level"),
        )
    else:
        size, codec, level = (
            options.get("bitmap-index.dictionary-block-size"),
            options.get("bitmap-index.compression"),
            options.get("bitmap-index.compression-level"),
        )
    codec = codec.strip().lower()
    if codec not in (*CODECS, "lzo"):
        raise InvalidError(f"unknown compression of a {kind} index: '{codec}'", remedy=f"one of {', '.join(CODECS)}")
    return Blocks(int(size), codec if codec in CODECS else "none", int(level))  # readers take plain blocks as well


def encoded_index(
    field: DataField, kind: str, rows: pa.RecordBatch, first: int, snapshot: int, blocks: Blocks
) -> tuple[bytes, bytes]:
    """The file, and what the index manifest records of it. `rows`: values with their ids, ascending by id, of which
    `first` is taken off; `snapshot`: the one whose rows these are."""
    nulls = rows.filter(rows.column(0).is_null()).column(1).to_numpy()
    known = rows.filter(rows.column(0).is_valid())
    ordered, starts = _in_order(field, known)
    keys = encoded_keys(ordered.column(0).take(pa.array(starts)), field.type)
    encode = encode_bitmap if kind == BITMAP else encode_btree
    return encode(keys, starts, ordered.column(1).to_numpy() - first, nulls - first, snapshot, blocks)


def _in_order(field: DataField, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
    """Rows by value, then id, and where each value begins."""
    named = pa.RecordBatch.from_arrays(rows.columns, names=[field.name, SEQUENCE_FIELD.name])
    order, starts = KeyOrder([field]).sort(named)
    ordered = rows if order is None else rows.take(pa.array(order))
    return ordered, np.arange(rows.num_rows) if starts is None else starts
