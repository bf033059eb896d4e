"""Text columns that are carried along as places in a dictionary, as the file has them: encoded.

What only moves rows from files to files never looks at most of their columns: to decode a text of few different values,
to gather and to encode it again costs several times what it costs to keep what the file had.

    plain(batch) -> RecordBatch                        every column as its values
    alike(batches) -> list[RecordBatch]                columns that are encoded in some and not in others as values
    concatenated(batches) -> RecordBatch
    fitting(schema, arrays) -> Schema                  the canonical schema, with the types of encoded arrays
    is_small(array) -> bool                            whether an encoded array is worth to be kept

Only those who ask for encoded columns get them: `FileLayout.encoded`. Spec: docs/spec/datafile.md#encoded-columns
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import pyarrow as pa

MOST_VALUES = 1024  # of a dictionary: each part of a merge joins those of its runs
MOST_BYTES = 64 << 10  # as each batch counts its dictionary whole


def is_small(array: pa.DictionaryArray) -> bool:
    """Whether the dictionary is so small that batches may carry it."""
    return len(array.dictionary) <= MOST_VALUES and array.dictionary.nbytes <= MOST_BYTES


def plain(batch: pa.RecordBatch, names: Set[str] | None = None) -> pa.RecordBatch:
    """The batch with the values of its encoded columns, all or these."""
    for place, field in enumerate(batch.schema):
        if pa.types.is_dictionary(field.type) and (names is None or field.name in names):
            column = batch.column(place).dictionary_decode()
            batch = batch.set_column(place, field.with_type(column.type), column)
    return batch


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema that `plain` gives."""
    fields = [f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in schema]
    return pa.schema(fields, schema.metadata)


def alike(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The batches, which differ in nothing else, with the same columns encoded: those that are in all."""
    if all(batch.schema.equals(batches[0].schema) for batch in batches[1:]):
        return list(batches)
    values = {f.name for batch in batches for f in batch.schema if not pa.types.is_dictionary(f.type)}
    return [plain(batch, values) for batch in batches]


def concatenated(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch with the rows of all, at least one."""
    return pa.concat_batches(alike(batches))


def fitting(schema: pa.Schema, arrays: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Schema:
    """The schema with the types of those arrays that are encoded."""
    if not any(pa.types.is_dictionary(array.type) for array in arrays):
        return schema
    fields = [
        field.with_type(array.type) if pa.types.is_dictionary(array.type) else field
        for field, array in zip(schema, arrays, strict=True)
    ]
    return pa.schema(fields, schema.metadata)
