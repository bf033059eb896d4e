"""The option table: all rows together, one module a subject. One row, one option; `options` gives them meaning.

Spec: docs/spec/schema.md#options
"""

from __future__ import annotations

from bucketlake.options import (
    buckets,
    commit,
    compaction,
    engines,
    features,
    formats,
    layout,
    merge,
    read,
    retention,
    write,
)
from bucketlake.options.model import HONOURED, KEPT, REFUSED, Option

__all__ = ["HONOURED", "KEPT", "REFUSED", "ROWS", "Option"]

_SUBJECTS = (layout, buckets, write, merge, formats, compaction, commit, read, retention, features, engines)
ROWS: tuple[Option, ...] = tuple(row for subject in _SUBJECTS for row in subject.ROWS)
