"""What an index of a table with a primary key says of the files whose rows it names: `_SOURCE_META`.

    meta := version 1: i32, level: i32, files: i32, (length: u16, name in UTF-8, rows: i64)*

Big-endian. A row's id is its position in its file, behind the rows of the files before.
Spec: docs/spec/keyed_index.md
"""

from __future__ import annotations

import struct

from bucketlake.errors import CorruptError
from bucketlake.format.guard import LARGEST_LONG
from bucketlake.values import dataclass

VERSION = 1
_HEAD = struct.Struct(">iii")
_LENGTH = struct.Struct(">H")
_ROWS = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class Sources:
    """The files of an index, all of one level above 0, by name, each with its number of rows."""

    level: int
    files: tuple[tuple[str, int], ...]

    @property
    def rows(self) -> int:
        """How many ids there are."""
        return sum(rows for _, rows in self.files)

    def encode(self) -> bytes:
        """The bytes of `_SOURCE_META`."""
        parts = [_HEAD.pack(VERSION, self.level, len(self.files))]
        for name, rows in self.files:
            text = name.encode()  # file names are ASCII, which Java's modified UTF-8 has alike
            parts += [_LENGTH.pack(len(text)), text, _ROWS.pack(rows)]
        return b"".join(parts)

    @classmethod
    def of(cls, data: bytes, source: str) -> Sources:
        """Raises CorruptError naming `source` for what is none."""
        try:
            version, level, count = _HEAD.unpack_from(data)
            files, at = [], _HEAD.size
            if version != VERSION or level < 1 or not 0 < count <= len(data) // (_LENGTH.size + _ROWS.size):
                raise ValueError("no such head")
            for _ in range(count):
                (length,) = _LENGTH.unpack_from(data, at)
                at += _LENGTH.size
                name = data[at : at + length].decode()
                (rows,) = _ROWS.unpack_from(data, at + length)
                at += length + _ROWS.size
                files.append((name, rows))
            if at != len(data) or any(rows < 0 for _, rows in files) or sum(rows for _, rows in files) > LARGEST_LONG:
                raise ValueError("other lengths")
        except (struct.error, ValueError) as error:
            raise CorruptError("not what an index says of its files", index=source, reason=str(error)) from None
        return cls(level, tuple(files))
