"""A file that is read by ranges: of an object, or of another file.

class X(RangedInput): _at(place, count)     io.BufferedReader(X(size), …) is a seekable file
"""

from __future__ import annotations

import io
from abc import abstractmethod
from typing import Any


class RangedInput(io.RawIOBase):
    """`size`: bytes. What is read is asked of `_at`."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._place = 0

    @abstractmethod
    def _at(self, place: int, count: int) -> bytes:
        """So many bytes from a place on, fewer where there are no more."""

    def readable(self) -> bool:
        """See io.RawIOBase."""
        return True

    def seekable(self) -> bool:
        """See io.RawIOBase."""
        return True

    def tell(self) -> int:
        """See io.RawIOBase."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """See io.RawIOBase."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = max(0, start + offset)
        return self._place

    def readinto(self, buffer: Any) -> int:
        """See io.RawIOBase."""
        count = min(len(buffer), self._size - self._place)
        if count <= 0:
            return 0
        data = self._at(self._place, count)
        buffer[: len(data)] = memoryview(data)
        self._place += len(data)
        return len(data)
