"""Names and texts as a statement has them: what SHOW prints can be run again."""

from __future__ import annotations

from bucketlake.types.model import quote_identifier


def quoted_if_needed(name: str) -> str:
    """The name, in backquotes where it is no plain word."""
    return name if name.isidentifier() and name.isascii() else quote_identifier(name)
