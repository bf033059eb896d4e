"""Deletion vectors of files that their bucket does not have: left over, or made by damage.

Paimon 1.2 to 1.4 leave vectors behind where a full compaction writes single files anew; they mark nothing. Damage of
an index manifest makes such ones, too, by another name, bucket or partition, of vectors that mark something: rows that
were deleted would come back unnoticed. A vector is taken for left over only where no file of its bucket can be meant.

Source: `org.apache.paimon.mergetree.compact.FileRewriteCompactTask` before release 2.0.0
Spec: docs/spec/deletion_vector.md#left-over
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from bucketlake.format.index.index_manifest import DeletionVectorRange, IndexEntry
from bucketlake.format.metadata.manifest import DataFile

_NAME = re.compile(r".*-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-\d+(?:\.[a-z0-9]+)+")
UNLIKE = 8  # digits in which names of two writers differ at least: thirty of 32 as a rule


class LeftOver:
    """Decides, of the vectors of one snapshot. `indexes`: all of its index files."""

    def __init__(self, indexes: Iterable[IndexEntry]) -> None:
        self._marked: set[tuple[bytes, int, str]] = set()
        self._places: dict[str, set[tuple[bytes, int]]] = {}  # of what one writer wrote
        for entry in indexes:
            for part in entry.file.dv_ranges or ():
                self._marked.add((entry.partition, entry.bucket, part.data_file_name))
                writer = _writer(part.data_file_name)
                if writer is not None:
                    self._places.setdefault(writer, set()).add((entry.partition, entry.bucket))

    def is_sure(self, partition: bytes, bucket: int, part: DeletionVectorRange, files: Sequence[DataFile]) -> bool:
        """Whether none of the bucket's live files can be meant by a vector that may be left over."""
        return not any(
            _alike(part.data_file_name, file.file_name) for file in self._unmarked(partition, bucket, part, files)
        )

    def is_possible(self, partition: bytes, bucket: int, part: DeletionVectorRange) -> bool:
        """Whether a vector of a file that is not there may be left over: names that no writer gives, and those of files
        of other buckets, are damage."""
        writer = _writer(part.data_file_name)
        return writer is not None and self._places[writer] == {(partition, bucket)}

    def _unmarked(
        self, partition: bytes, bucket: int, part: DeletionVectorRange, files: Sequence[DataFile]
    ) -> list[DataFile]:
        """The files without a vector that can have one with so many rows: level 0 has none."""
        return [
            file
            for file in files
            if file.level > 0
            and file.row_count >= (part.cardinality or 1)
            and (partition, bucket, file.file_name) not in self._marked
        ]


def _writer(name: str) -> str | None:
    """The part of a data file's name that its writer made by chance; None for names of another form."""
    found = _NAME.fullmatch(name)
    return found and found.group(1)


def _alike(name: str, other: str) -> bool:
    """Whether damage may make one name of the other."""
    first, second = _writer(name), _writer(other)
    if first is None or second is None:
        return True
    return sum(a != b for a, b in zip(first, second, strict=True)) < UNLIKE
