"""The bucket of a row as a Spark column, equal to what `format.row.hashing.assign_buckets` gives.

Simple keys: SQL functions build the key's BinaryRow, `hash` of which is Paimon's hash. Others: an Arrow function, to
which only the key columns travel.

    BinaryRow = 8 bytes of null bits | 8 bytes a field, little-endian | strings over 7 bytes, each padded to 8

Spec: docs/spec/buckets.md
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from bucketlake.format.row.binary_row import encode_rows
from bucketlake.format.row.hashing import assign_buckets, hash_rows
from bucketlake.schema.schema import TableSchema
from bucketlake.spark.types import quoted
from bucketlake.types.model import DataField, Root, canonical_batch

_LOW_BYTES = 0x00FF00FF00FF00FF
_LOW_PAIRS = 0x0000FFFF0000FFFF
_MASKS = {Root.BOOLEAN: 0xFF, Root.TINYINT: 0xFF, Root.SMALLINT: 0xFFFF, Root.INT: 0xFFFFFFFF, Root.TIME: 0xFFFFFFFF}
_TEXTS = (Root.CHAR, Root.VARCHAR)
_SIMPLE = {*_MASKS, *_TEXTS, Root.BIGINT, Root.DATE}
_MAX_FIELDS = 56  # one word of null bits
_INLINE_MARKS = bytes(range(0x80, 0x88))


def bucket_column(schema: TableSchema, buckets: int) -> Column:
    """The bucket (int) of each row of a DataFrame that has the table's columns in their Spark types."""
    return _column(schema, buckets, schema.table_options.get("bucket-function.type"))


def varying_bucket_column(schema: TableSchema, buckets: Column, most: int) -> Column:
    """As `bucket_column`, where rows differ in their bucket number, at most `most`: taken for all of them where Spark
    cannot hash the bucket key by itself."""
    keys = schema.select(schema.bucket_keys)
    if schema.table_options.get("bucket-function.type") == "default" and _is_simple(keys):
        return F.abs(F.hash(_binary_row(keys)) % buckets).cast("int")
    return bucket_column(schema, most)


def share_column(schema: TableSchema, assigners: int) -> Column:
    """Which of so many assigners (int) of a table with dynamic buckets each row of a DataFrame belongs to."""
    return _column(schema, assigners, "default")


def range_column(schema: TableSchema, ranges: int, names: Sequence[str] | None = None) -> Column:
    """Into which of so many ranges (int) of equal width each row's key hash falls, for tables with dynamic buckets.
    `names`: the key's columns, if it is not the bucket key."""
    keys = schema.select(schema.bucket_keys if names is None else names)
    if _is_simple(keys):
        code = F.hash(_binary_row(keys)).cast("long") + F.lit(1 << 31).cast("long")
        return F.shiftrightunsigned(code * F.lit(ranges), 32).cast("int")

    def range_of(batch: pa.RecordBatch) -> pa.Array:
        hashes = hash_rows(encode_rows(batch.columns, [key.type for key in keys])).astype(np.int64)
        return pa.array((((hashes + (1 << 31)) * ranges) >> 32).astype(np.int32))

    return _computed(keys, range_of)


def hash_column(schema: TableSchema) -> Column:
    """The hash (int) by which a table with dynamic buckets finds each row's key."""
    keys = schema.select(schema.trimmed_primary_keys)
    if _is_simple(keys):
        return F.hash(_binary_row(keys))
    return _computed(
        keys, lambda batch: pa.array(hash_rows(encode_rows(batch.columns, [key.type for key in keys])), pa.int32())
    )


def _column(schema: TableSchema, buckets: int, function: str) -> Column:
    keys = schema.select(schema.bucket_keys)
    if function == "default" and _is_simple(keys):
        return F.abs(F.hash(_binary_row(keys)) % F.lit(buckets)).cast("int")
    return _computed(keys, lambda batch: pa.array(assign_buckets(batch, keys, buckets, function), pa.int32()))


def _is_simple(keys: Sequence[DataField]) -> bool:
    return len(keys) <= _MAX_FIELDS and all(key.type.root in _SIMPLE for key in keys)


def _computed(keys: Sequence[DataField], number: Callable[[pa.RecordBatch], pa.Array]) -> Column:
    """What Python computes from the key columns, which alone travel to it. Nulls get a number too: whoever writes the
    rows refuses them by column name."""
    names = [key.name for key in keys]
    keys = [replace(key, type=key.type.with_nullable(True)) for key in keys]

    @F.arrow_udf("int")  # type: ignore[untyped-decorator]
    def computed(*columns: pa.Array) -> pa.Array:
        return number(canonical_batch(pa.RecordBatch.from_arrays(list(columns), names=names), keys))

    return computed(*[F.col(quoted(name)) for name in names])


def _binary_row(keys: Sequence[DataField]) -> Column:
    start = 8 + 8 * len(keys)
    nulls: Column | None = None
    offset = F.lit(start).cast("long")
    words: list[Column] = []
    tails: list[Column] = []
    for place, key in enumerate(keys):
        column = F.col(quoted(key.name))
        bit = F.when(column.isNull(), F.lit(1 << (8 + place))).otherwise(F.lit(0)).cast("long")
        if key.type.nullable:
            nulls = bit if nulls is None else nulls.bitwiseOR(bit)
        if key.type.root in _TEXTS:
            data = F.coalesce(column, F.lit("")).cast("binary")
            length = F.octet_length(data).cast("long")
            long = length > 7
            padded = F.floor((length + 7) / 8).cast("long") * 8
            word = F.when(long, _bytes(F.shiftleft(offset, 32).bitwiseOR(length))).otherwise(_inline(data, column))
            words.append(word)
            tails.append(F.when(long, F.rpad(data, padded.cast("int"), F.lit(b"\0"))).otherwise(F.lit(b"")))
            offset = offset + F.when(long, padded).otherwise(F.lit(0))
        else:
            words.append(_bytes(_word(key, column)))
    head = F.lit(bytes(8)) if nulls is None else _bytes(nulls)
    return F.concat(head, *words, *tails)


def _word(key: DataField, column: Column) -> Column:
    """The value in the low bytes of a long, the rest zero; 0 for null."""
    number = (
        F.unix_date(column)
        if key.type.root is Root.DATE
        else column.cast("int" if key.type.root is Root.BOOLEAN else "long")
    )
    number = F.coalesce(number.cast("long"), F.lit(0).cast("long"))
    mask = _MASKS.get(key.type.root, 0xFFFFFFFF if key.type.root is Root.DATE else None)
    return number if mask is None else number.bitwiseAND(F.lit(mask).cast("long"))


def _inline(data: Column, column: Column) -> Column:
    """A string of at most 7 bytes: its bytes, zeros, and a mark with its length; all zero for null."""
    mark = F.substring(F.lit(_INLINE_MARKS), F.octet_length(data) + 1, F.lit(1))
    return F.when(column.isNull(), F.lit(bytes(8))).otherwise(F.concat(F.rpad(data, 7, F.lit(b"\0")), mark))


def _bytes(number: Column) -> Column:
    """The eight little-endian bytes of a long."""
    return F.unhex(F.lpad(F.hex(_swapped(number)), 16, "0"))


def _swapped(number: Column) -> Column:
    low, pairs = F.lit(_LOW_BYTES).cast("long"), F.lit(_LOW_PAIRS).cast("long")
    single = F.shiftleft(number.bitwiseAND(low), 8).bitwiseOR(F.shiftrightunsigned(number, 8).bitwiseAND(low))
    double = F.shiftleft(single.bitwiseAND(pairs), 16).bitwiseOR(F.shiftrightunsigned(single, 16).bitwiseAND(pairs))
    return F.shiftleft(double, 32).bitwiseOR(F.shiftrightunsigned(double, 32))
