"""Changelog files that Flink merged (`precommit-compact`): the files of several buckets, one behind the other, as one.

    piece_of(name) -> Piece | None                       what a file's name means
    open_piece(opened, path, start, length) -> BinaryIO  the piece of an open file, as a file

The file lies in the bucket whose piece comes first: `compacted-changelog-<id>$<bucket>-<length>.cc-<format>`, whose own
entry means these first bytes. Other buckets' entries add `-<offset>-<length>` to the name; no file has it.

Spec: docs/spec/datafile.md#pieces
"""

from __future__ import annotations

import io
import re
from typing import BinaryIO, cast

from bucketlake.env.ranges import RangedInput
from bucketlake.format.guard import check_size
from bucketlake.values import dataclass

PREFIX = "compacted-changelog-"
FORMAT = "cc-"  # in front of the suffix that tells the format
_NAME = re.compile(
    r"(compacted-changelog-[^$./]+\$(\d{1,9})-(\d{1,18}))(?:-(\d{1,18})-(\d{1,18}))?(\.cc-\w+)", re.ASCII
)
BUFFER = 1 << 16


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bytes of a file: `file_name`, in the folder of `bucket`, from `start` on."""

    file_name: str
    bucket: int
    start: int
    length: int


def piece_of(name: str) -> Piece | None:
    """What the name of a merged changelog file, or of a piece of one, means; None for any other name."""
    found = _NAME.fullmatch(name) if name.startswith(PREFIX) else None
    if found is None:
        return None
    file, bucket, first, start, length, suffix = found.groups()
    return Piece(f"{file}{suffix}", int(bucket), int(start or 0), int(length or first))


def open_piece(opened: BinaryIO, path: str, start: int, length: int) -> BinaryIO:
    """So many bytes of the open file of a path, from `start` on. CorruptError where it ends before."""
    check_size(path, min(length, opened.seek(0, io.SEEK_END) - start), length)
    return cast("BinaryIO", io.BufferedReader(_Piece(opened, start, length), BUFFER))


class _Piece(RangedInput):
    def __init__(self, opened: BinaryIO, start: int, length: int) -> None:
        super().__init__(length)
        self._opened, self._start = opened, start

    def _at(self, place: int, count: int) -> bytes:
        self._opened.seek(self._start + place)
        return self._opened.read(count)
