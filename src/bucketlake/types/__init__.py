"""Paimon's data types as plain values, and how they meet Arrow, JSON and field ids."""

from __future__ import annotations

from bucketlake.types.model import (
    BIGINT,
    BYTES,
    INT,
    MAX_LENGTH,
    STRING,
    TINYINT,
    DataField,
    DataType,
    Root,
    arrow_field,
    arrow_schema,
    arrow_type,
    canonical_batch,
    decimal_type,
    format_field,
    format_type,
    from_arrow_type,
    quote_identifier,
    refuse_type,
    type_text,
)
from bucketlake.types.parse import Dialect, parse_field, parse_type, parse_type_text

__all__ = [
    "BIGINT",
    "BYTES",
    "DataField",
    "DataType",
    "Dialect",
    "INT",
    "MAX_LENGTH",
    "Root",
    "STRING",
    "TINYINT",
    "arrow_field",
    "arrow_schema",
    "arrow_type",
    "canonical_batch",
    "decimal_type",
    "format_field",
    "format_type",
    "from_arrow_type",
    "parse_field",
    "parse_type",
    "parse_type_text",
    "quote_identifier",
    "refuse_type",
    "type_text",
]
