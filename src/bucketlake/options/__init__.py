"""Table options: typed access, and what becomes of each."""

from __future__ import annotations

from bucketlake.options.model import Effect, Option
from bucketlake.options.options import (
    OPTIONS,
    TableOptions,
    find_option,
    immutable,
    near_key,
    near_misses,
    option_keys,
    option_text,
    parse_duration,
    parse_memory_size,
    refuse_options,
    undone,
    validate,
    warn_of_undone,
)

__all__ = [
    "Effect",
    "OPTIONS",
    "Option",
    "TableOptions",
    "find_option",
    "immutable",
    "near_key",
    "near_misses",
    "option_keys",
    "option_text",
    "parse_duration",
    "parse_memory_size",
    "refuse_options",
    "undone",
    "validate",
    "warn_of_undone",
]
