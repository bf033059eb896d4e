"""A live data file, for who asks a table for its files."""

from __future__ import annotations

from bucketlake.format.metadata.manifest import DataFile
from bucketlake.values import dataclass


@dataclass(frozen=True, slots=True)
class TableFile:
    """One live data file, as `Table.files` lists it. `partition`: column → text as `partitions` tells it."""

    partition: dict[str, str]
    bucket: int
    total_buckets: int
    path: str
    file: DataFile

    def __repr__(self) -> str:
        """What people look for; `file` has the rest."""
        facts = f"{self.path!r}, partition={self.partition}, bucket={self.bucket}, level={self.level}"
        return f"TableFile({facts}, row_count={self.row_count}, file_size={self.file_size})"

    @property
    def level(self) -> int:
        """The file's level in its bucket, 0 for new ones and in append tables."""
        return self.file.level

    @property
    def row_count(self) -> int:
        """Rows in the file, deletes and replaced ones too."""
        return self.file.row_count

    @property
    def file_size(self) -> int:
        """Bytes."""
        return self.file.file_size
