"""Where a stream stands: the unit that it reads next, as offsets keep it.

    {"version": 1, "snapshot": 7, "index": 2, "full": false, "seen": "manifest-list-…-1", "made": 1764000000000}
    with "full": true also "producer": "lookup", "created": 1764000000000

Spec: docs/spec/streaming.md#offsets
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.values import dataclass

VERSION = 1
PRODUCERS = ("none", "input", "lookup", "full-compaction")


@dataclass(frozen=True, slots=True)
class Position:
    """The unit `index` of what a snapshot holds (`full`) or changed is read next. `seen`: the delta manifest list of
    the snapshot that was read last, "" where none was: what tells a history that was rolled back and went on
    otherwise. `made`: when the table was created, epoch milliseconds, 0 where that is not known: what tells another
    table in its place. `producer`: with `full`, the changelog producer by which rows count as held or are left to later
    snapshots, however the table is altered meanwhile; "" by earlier versions: the one that the table has now.
    `created`: with `full`, since when the files were made that count, epoch milliseconds, 0 for all; None by earlier
    versions: as the options say now."""

    snapshot: int
    index: int = 0
    full: bool = False
    seen: str = ""
    made: int = 0
    producer: str = ""
    created: int | None = None

    @property
    def last(self) -> int:
        """The snapshot that was read last, in part or whole."""
        return self.snapshot if self.full or self.index else self.snapshot - 1

    @property
    def place(self) -> tuple[int, int, int]:
        """What positions are ordered by: all of a snapshot, then the changes of the next."""
        return (self.snapshot, int(not self.full), self.index)

    def as_offset(self) -> dict[str, Any]:
        """JSON values."""
        by: dict[str, Any] = {"producer": self.producer} if self.full and self.producer else {}
        if self.full and self.created is not None:
            by["created"] = self.created
        return {
            "version": VERSION,
            "snapshot": self.snapshot,
            "index": self.index,
            "full": self.full,
            "seen": self.seen,
            "made": self.made,
            **by,
        }

    @classmethod
    def of(cls, offset: Mapping[str, Any]) -> Position:
        """The position that an offset holds. CorruptError; UnsupportedError for one of a later version."""
        version, snapshot, index = (offset.get(key) for key in ("version", "snapshot", "index"))
        made, full = offset.get("made", 0), offset.get("full", False)
        numbers = [value for value in (version, snapshot, index, made) if type(value) is int and value >= 0]
        producer = offset.get("producer", "")
        created = offset.get("created")
        known = created is None or (type(created) is int and created >= 0)
        if len(numbers) != 4 or not isinstance(full, bool) or producer not in ("", *PRODUCERS) or not known:
            raise CorruptError("not an offset of a stream", offset=str(dict(offset))[:200])
        if numbers[0] != VERSION:
            raise UnsupportedError("an offset of a later version", version=numbers[0], remedy="use a newer bucketlake")
        return cls(numbers[1], numbers[2], full, str(offset.get("seen") or ""), numbers[3], producer, created)
