"""Remedies of errors about a snapshot, tag or branch that there is not: the nearest one, or those that there are."""

from __future__ import annotations

from collections.abc import Sequence

from bucketlake.errors import did_you_mean

_SHOWN_TAGS = 10


def snapshot_remedy(known: Sequence[int]) -> str:
    """`known`: ids, ascending."""
    return f"snapshots of the table: {known[0]} to {known[-1]}" if known else "the table has no snapshots"


def tag_remedy(name: str, known: Sequence[str]) -> str:
    """`known`: names, sorted."""
    shown = ", ".join(known[:_SHOWN_TAGS]) + (", …" if len(known) > _SHOWN_TAGS else "")
    return did_you_mean(name, known) or (f"tags of the table: {shown}" if known else "the table has no tags")


def branch_remedy(name: str, known: Sequence[str]) -> str:
    """`known`: names, sorted."""
    return did_you_mean(name, known) or f"branches: {', '.join(known) or 'none'}"
