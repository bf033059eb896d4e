"""How much of a file is read at once."""

from __future__ import annotations

from bucketlake.errors import CorruptError

MOST_AT_ONCE = 1 << 30  # bytes of what is read whole: metadata and indexes, which are far smaller


def whole(path: str, size: int) -> int:
    """The size of a file that is to be read whole; CorruptError where nothing that is read so is as large."""
    if size > MOST_AT_ONCE:
        raise CorruptError("a file is larger than any of its kind", path=path, size=size, remedy="restore the file")
    return size
