"""The schema of a new table, from what a caller gives: Arrow's, columns, or a whole one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bucketlake.errors import InvalidError, check_types
from bucketlake.lazy import pa
from bucketlake.options.options import refuse_key_words
from bucketlake.schema.schema import TableSchema
from bucketlake.schema.versions import create_schema
from bucketlake.types.model import DataField, DataType, from_arrow_type


def new_schema(
    schema: TableSchema | pa.Schema | Sequence[DataField],
    partition_keys: Sequence[str],
    primary_keys: Sequence[str],
    options: Mapping[str, Any],
    comment: str | None,
) -> TableSchema:
    """The validated schema 0 of a new table."""
    check_types((str, type(None)), "give a text", comment=comment)
    fields: Sequence[DataField]
    if isinstance(schema, TableSchema):
        fields, partition_keys, primary_keys = schema.fields, schema.partition_keys, schema.primary_keys
        options, comment = {**options, **schema.options}, schema.comment or comment
    elif isinstance(schema, pa.Schema):
        fields = [DataField(i, f.name, from_arrow_type(f.type, f.nullable)) for i, f in enumerate(schema)]
    elif isinstance(schema, Sequence) and all(isinstance(one, DataField) for one in schema):
        fields = schema
    else:
        raise InvalidError(
            "not a schema",
            type=type(schema).__name__,
            remedy="give Arrow's: pa.schema([…]), or frame.to_arrow().schema",
        )
    for item in fields:
        check_types(str, "name each column by a text", name=item.name)
        check_types(DataType, "give a type, as bucketlake.types.model has them", type=item.type)
        check_types((str, type(None)), "give a text", description=item.description, default=item.default)
    if not fields:
        raise InvalidError("table has no columns", remedy="give its columns")
    if not isinstance(schema, TableSchema):  # whose options may be another engine's
        keyed = bool(primary_keys or "primary-key" in options)
        partitioned = bool(partition_keys or "partition" in options)
        refuse_key_words(options, [item.name for item in fields], keyed=keyed, partitioned=partitioned)
    return create_schema(fields, _listed(partition_keys), _listed(primary_keys), options, comment or None)


def _listed(keys: Sequence[str]) -> Sequence[str]:
    """Columns; a text is one, or several between commas, and not a list of its letters."""
    check_types(Iterable, "give a list of columns, or a text with commas", keys=keys)
    return [one.strip() for one in keys.split(",") if one.strip()] if isinstance(keys, str) else keys
