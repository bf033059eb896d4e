"""A file of an append table with rows that a change is about: what travels to those who write it anew.

Spec: docs/spec/row_changes.md#append-tables
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from bucketlake.format.data.file_format import format_of
from bucketlake.format.index.deletion_vector import Vector, positions_of
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.ops.rows.deletions import Mask
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.store import Store
from bucketlake.values import dataclass

LEAST_PART = 16 << 20  # bytes that are rewritten together rather than at once with others


@dataclass(frozen=True, slots=True)
class Touched:
    """One file with rows to delete, small enough to travel. `dead`: all its deleted rows then; `hits`: those that live
    until now. `split` has no other file. `first`, `end`: the stretch of the file's rows that is meant."""

    split: Split
    file: DataFile
    hits: Vector
    dead: Vector
    first: int = 0
    end: int | None = None

    @property
    def survives(self) -> bool:
        """Whether a row is left."""
        return len(self.dead) < self.file.row_count

    @property
    def row_count(self) -> int:
        """Rows of the stretch."""
        return (self.file.row_count if self.end is None else self.end) - self.first

    @property
    def size(self) -> int:
        """Bytes of the stretch, about."""
        return self.file.file_size * self.row_count // max(self.file.row_count, 1)

    @property
    def left_out(self) -> Mask:
        """The file's rows that are not in the stretch, or deleted."""
        mask = mask_of(self.file, self.dead)
        mask[: self.first] = True
        mask[self.first + self.row_count :] = True
        return mask

    def cut(self, size: int) -> list[Touched]:
        """Stretches of about so many bytes, where row groups of other stretches need not be read."""
        count = round(self.file.file_size / max(size, 1)) if format_of(self.file.file_name) == "parquet" else 1
        if count < 2:
            return [self]
        ends = [self.file.row_count * place // count for place in range(count + 1)]
        return [replace(self, first=first, end=end) for first, end in pairwise(ends)]


def path_of(store: Store, split: Split, file: DataFile) -> str:
    """What tells a file from all others of the table: files of several partitions may have one name."""
    return store.paths.file_path(split.bucket_path, file)


def mask_of(file: DataFile, vector: Vector) -> Mask:
    """One boolean a row of the file: whether the vector names it."""
    mask = np.zeros(file.row_count, np.bool_)
    mask[positions_of(vector)] = True
    return mask


def numbered(files: Sequence[DataFile], replaced: DataFile) -> list[DataFile]:
    """Files of a bucket with sequence numbers from the first of the file that they replace on."""
    found, first = [], replaced.min_sequence_number
    for file in files:
        last = first + file.row_count - 1
        found.append(replace(file, min_sequence_number=first, max_sequence_number=last))
        first = last + 1
    return found
