"""Predicates: made from SQL text, evaluated over Arrow, used to prune files, partitions and buckets.

The parts: `predicate_tree` (nodes and what follows from a tree), `predicate_sql` (text to tree), `predicate_eval`
(masks and pruning). This module is what the rest of the package imports.

Spec: docs/spec/types.md#predicates
"""

from __future__ import annotations

from bucketlake.predicate_eval import Bounds, mask, may_match, may_match_all
from bucketlake.predicate_sql import parse_where
from bucketlake.predicate_tree import (
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
