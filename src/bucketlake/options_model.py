"""The form of one option's row."""

from __future__ import annotations

from dataclasses import dataclass

HONOURED, KEPT, REFUSED = "honoured", "kept", "refused"


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `kind`: bool, int, float, string, enum, memory, duration or map; `default` as text; `mutable` False
    if a table with snapshots cannot alter it; `fallback`: older names that are read too."""

    key: str
    kind: str
    default: str | None
    effect: str
    doc: str
    mutable: bool = True
    values: tuple[str, ...] = ()
    fallback: tuple[str, ...] = ()
