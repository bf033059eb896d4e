"""Predicates: made from SQL text, evaluated over Arrow, used to prune files, partitions and buckets.

Spec: docs/spec/types.md#predicates
"""

from __future__ import annotations

from bucketlake.predicate.evaluate import Bounds, mask, may_match, may_match_all
from bucketlake.predicate.parse import parse_where
from bucketlake.predicate.tree import (
    And,
    Compare,
    Constant,
    Contains,
    EndsWith,
    In,
    IsNotNull,
    IsNull,
    Like,
    Not,
    Opaque,
    Operator,
    Or,
    Predicate,
    StartsWith,
    columns_of,
    conjunction,
    is_exact,
    key_values,
    negate,
    rename,
    restrict,
    to_spark_sql,
)

__all__ = [
    "And",
    "Bounds",
    "Compare",
    "Constant",
    "Contains",
    "EndsWith",
    "In",
    "IsNotNull",
    "IsNull",
    "Like",
    "Not",
    "Opaque",
    "Operator",
    "Or",
    "Predicate",
    "StartsWith",
    "columns_of",
    "conjunction",
    "is_exact",
    "key_values",
    "mask",
    "may_match",
    "may_match_all",
    "negate",
    "parse_where",
    "rename",
    "restrict",
    "to_spark_sql",
]
