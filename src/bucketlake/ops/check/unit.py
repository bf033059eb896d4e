"""What a check looks at as a whole."""

from __future__ import annotations

from bucketlake.format.index.index_manifest import IndexEntry
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.values import dataclass


@dataclass(frozen=True, slots=True)
class CheckUnit:
    """Live files of one bucket; of tables without buckets, of one partition, as many as go together. `vectors`: index
    files of deletion vectors that speak of them; `hashes`: the bucket's hash index. `told`: files known to be missing
    or of a wrong size."""

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFile, ...]
    vectors: tuple[IndexEntry, ...] = ()
    hashes: IndexEntry | None = None
    told: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(max(file.file_size, 0) for file in self.files)

    @property
    def row_count(self) -> int:
        """Rows of the files, as recorded."""
        return sum(file.row_count for file in self.files)
