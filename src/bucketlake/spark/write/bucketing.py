"""The bucket of a row as a Spark column, equal to what `format.row.hashing.assign_buckets` gives.

Simple keys: SQL functions build the key's BinaryRow, `hash` of which is Paimon's hash. Others: an Arrow function, to
which only the key columns travel.

    BinaryRow = 8 bytes of null bits | 8 bytes a field, little-endian | strings over 7 bytes, each padded to 8

Spec: docs/spec/buckets.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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

_SIZES = {Root.BOOLEAN: 1, Root.TINYINT: 1, Root.SMALLINT: 2, Root.INT: 4, Root.TIME: 4, Root.DATE: 4, Root.BIGINT: 8}
_TEXTS = (Root.CHAR, Root.VARCHAR)
_SIMPLE = {*_SIZES, *_TEXTS}
_MAX_FIELDS = 56  # one word of null bits
_MAX_TEXTS = 16  # each looks at the lengths of those before it: beyond, Spark compiles for longer than it hashes
_INLINE_MARKS = bytes(range(0x80, 0x88))


def bucket_column(schema: TableSchema, buckets: int) -> Column:
    """The bucket (int) of each row of a DataFrame that has the table's columns in their Spark types."""
    return _column(schema, buckets, schema.table_options.get("bucket-function.type"))


def varying_bucket_column(schema: TableSchema, buckets: Column, most: int) -> Column:
    """As `bucket_column`, where rows differ in their bucket number, at most `most`: taken for all of them where Spark
    cannot hash the bucket key by itself."""
    keys = schema.select(schema.bucket_keys)
    if schema.table_options.get("bucket-function.type") == "default" and _is_simple(keys):
        return F.abs(F.expr(_hash(keys)) % buckets).cast("int")
    return bucket_column(schema, most)


def share_column(schema: TableSchema, assigners: int) -> Column:
    """Which of so many assigners (int) of a table with dynamic buckets each row of a DataFrame belongs to."""
    return _column(schema, assigners, "default")


def range_column(schema: TableSchema, ranges: int, names: Sequence[str] | None = None) -> Column:
    """Into which of so many ranges (int) of equal width each row's key hash falls, for tables with dynamic buckets.
    `names`: the key's columns, if it is not the bucket key."""
    keys = schema.select(schema.bucket_keys if names is None else names)
    if _is_simple(keys):
        return F.expr(f"CAST(shiftrightunsigned((CAST({_hash(keys)} AS BIGINT) + {1 << 31}L) * {ranges}, 32) AS INT)")

    def range_of(batch: pa.RecordBatch) -> pa.Array:
        hashes = hash_rows(encode_rows(batch.columns, [key.type for key in keys])).astype(np.int64)
        return pa.array((((hashes + (1 << 31)) * ranges) >> 32).astype(np.int32))

    return _computed(keys, range_of)


def hash_column(schema: TableSchema) -> Column:
    """The hash (int) by which a table with dynamic buckets finds each row's key."""
    keys = schema.select(schema.trimmed_primary_keys)
    if _is_simple(keys):
        return F.expr(_hash(keys))
    return _computed(
        keys, lambda batch: pa.array(hash_rows(encode_rows(batch.columns, [key.type for key in keys])), pa.int32())
    )


def _column(schema: TableSchema, buckets: int, function: str) -> Column:
    keys = schema.select(schema.bucket_keys)
    if function == "default" and _is_simple(keys):
        return F.expr(f"CAST(abs({_hash(keys)} % {buckets}) AS INT)")
    return _computed(keys, lambda batch: pa.array(assign_buckets(batch, keys, buckets, function), pa.int32()))


def _is_simple(keys: Sequence[DataField]) -> bool:
    few = len(keys) <= _MAX_FIELDS and sum(key.type.root in _TEXTS for key in keys) <= _MAX_TEXTS
    return few and all(key.type.root in _SIMPLE for key in keys)


def _computed(keys: Sequence[DataField], number: Callable[[pa.RecordBatch], pa.Array]) -> Column:
    """What Python computes from the key columns, which alone travel to it. Nulls get a number too: whoever writes the
    rows refuses them by column name."""
    names = [key.name for key in keys]
    keys = [replace(key, type=key.type.with_nullable(True)) for key in keys]

    @F.arrow_udf("int")  # type: ignore[untyped-decorator]
    def computed(*columns: pa.Array) -> pa.Array:
        return number(canonical_batch(pa.RecordBatch.from_arrays(list(columns), names=names), keys))

    return computed(*[F.col(quoted(name)) for name in names])


def _hash(keys: Sequence[DataField]) -> str:
    """Paimon's hash (int) of a simple key, as text: built of Columns it would be 300 calls of Java and more."""
    return f"hash({_binary_row(keys)})"


def _binary_row(keys: Sequence[DataField]) -> str:
    nulls: list[str] = []
    offset = str(8 + 8 * len(keys))
    words: list[str] = []
    tails: list[str] = []
    for place, key in enumerate(keys):
        column = quoted(key.name)
        if key.type.nullable:
            bit = 48 - place // 8 * 8 + place % 8  # behind a byte of the row's kind, from the highest byte on
            nulls.append(f"CASE WHEN {column} IS NULL THEN shiftleft(1L, {bit}) ELSE 0L END")
        if key.type.root in _TEXTS:
            length = f"coalesce(octet_length({column}), 0)"
            padded = f"({length} + 7 & -8)"
            far = _concat(_little(length, 4), _little(f"({offset})", 4))
            words.append(f"CASE WHEN {length} > 7 THEN {far} ELSE {_inline(column)} END")
            tails.append(f"CASE WHEN {length} > 7 THEN {_filled(column, f'{padded} - {length}')} ELSE X'' END")
            offset = f"{offset} + CASE WHEN {length} > 7 THEN {padded} ELSE 0 END"
        else:
            words += _word(key, column)
    head = _big(" | ".join(nulls), 8) if nulls else _binary(bytes(8))
    return _concat(head, *words, *tails)


def _word(key: DataField, column: str) -> Iterator[str]:
    """The value in the low bytes of a long, the rest zero; 0 for null."""
    root, size = key.type.root, _SIZES[key.type.root]
    number = column
    if root is Root.DATE:
        number = f"unix_date({column})"
    elif root is Root.BOOLEAN:
        number = f"CAST({column} AS INT)"
    yield _little(f"CAST(coalesce({number}, 0) AS BIGINT)", size)
    if size < 8:
        yield _binary(bytes(8 - size))


def _inline(column: str) -> str:
    """A string of at most 7 bytes: its bytes, zeros, and a mark with its length; all zero for null."""
    length = f"octet_length({column})"
    mark = f"substring({_binary(_INLINE_MARKS)}, {length} + 1, 1)"
    return f"coalesce({_concat(_filled(column, f'7 - {length}'), mark)}, {_binary(bytes(8))})"


def _filled(column: str, zeros: str) -> str:
    """The bytes of a string, and so many zeros. Not by `rpad`, which counts characters where a setting says so."""
    return _concat(f"CAST({column} AS BINARY)", f"substring({_binary(bytes(8))}, 1, {zeros})")


def _little(number: str, size: int) -> str:
    """The lowest bytes of a number, the lowest first. Each byte looks at the number anew, which Spark computes once."""
    last = size - 1
    parts = [f"shiftleft(shiftrightunsigned({number}, {8 * n}) & 255L, {8 * (last - n)})" for n in range(size)]
    return _big(" | ".join(parts), size)


def _big(number: str, size: int) -> str:
    """The lowest bytes of a number that has no others, the highest first."""
    return f"unhex(lpad(hex({number}), {2 * size}, '0'))"


def _concat(*parts: str) -> str:
    return f"CAST(concat({', '.join(parts)}) AS BINARY)"  # it is a string where a setting says so


def _binary(value: bytes) -> str:
    return f"X'{value.hex()}'"
