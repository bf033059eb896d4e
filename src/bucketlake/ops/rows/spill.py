"""Batches that a writer puts aside on local disk, by group, and reads back in the order in which they came.

One Arrow IPC file per flush holds the batches of all groups; an index in memory says which are whose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

import pyarrow as pa

from bucketlake.env.env import new_scratch_folder
from bucketlake.env.local import LocalStorage, scratch_output
from bucketlake.options.options import TableOptions
from bucketlake.values import dataclass

LEAST_BATCH, MOST_BATCH = 1 << 20, 8 << 20
MOST_RUNS = 128  # merged at once, a batch of each in memory: no more than the writer's buffer
COMPRESSIONS = {"zstd": "zstd", "lz4": "lz4", "none": None}


@dataclass(slots=True)
class Spill:
    """One writer's spill files. `compression`: of the IPC buffers, "zstd", "lz4" or "none"; `level` for zstd.
    `batch`: bytes of what is written and read at once; of many columns small ones cost more than their values."""

    compression: str = "zstd"
    level: int | None = 1
    batch: int = LEAST_BATCH
    size: int = 0  # bytes on disk
    within: str | None = None  # the folder in which its own is made
    _folder: str | None = None
    _files: list[tuple[str, dict[int, list[int]]]] = field(default_factory=list)

    @classmethod
    def of(cls, options: TableOptions) -> Spill:
        """As a table's options say. lz4 where they do not: zstd, Paimon's default, takes half as long again to make
        and twice as long to read, for files half the size that live for minutes."""
        chosen = options.is_set("spill-compression") or options.is_set("spill-compression.zstd-level")
        compression = options.get("spill-compression") if chosen else "lz4"
        batch = max(LEAST_BATCH, min(options.get("write-buffer-size") // MOST_RUNS, MOST_BATCH))
        return cls(compression, options.get("spill-compression.zstd-level"), batch)

    @property
    def files(self) -> int:
        """How many flushes lie on disk: the most runs that one group can have."""
        return len(self._files)

    def write(self, groups: Iterable[tuple[int, Iterable[pa.RecordBatch]]]) -> None:
        """Put one flush aside: the batches of each group that has rows, in order."""
        if self._folder is None:
            self._folder = new_scratch_folder(self.within)
        path = f"{self._folder}/spill-{len(self._files)}.arrow"
        index: dict[int, list[int]] = {}
        count = 0
        with scratch_output(path) as file, pa.BufferedOutputStream(pa.PythonFile(file, "w"), LEAST_BATCH) as sink:
            writer: pa.RecordBatchFileWriter | None = None
            for group, piece in ((g, p) for g, batches in groups for b in batches for p in pieces(b, self.batch)):
                if writer is None:
                    writer = pa.ipc.new_file(sink, piece.schema, options=self._options())
                writer.write_batch(piece)
                index.setdefault(group, []).append(count)
                count += 1
            if writer is not None:
                writer.close()
        found = LocalStorage().info(path)
        self.size += found.size if found else 0
        self._files.append((path, index))

    def runs(self, group: int) -> list[Iterator[pa.RecordBatch]]:
        """What was put aside for a group, one iterator per flush, oldest first; lazy, a batch at a time."""
        return [read_batches(path, index[group]) for path, index in self._files if group in index]

    def places(self) -> list[tuple[str, dict[int, list[int]]]]:
        """Where all of it lies: each flush's file, and the numbers of its batches by group, for `read_batches`."""
        return list(self._files)

    def groups(self) -> set[int]:
        """The groups that have something on disk."""
        return {group for _, index in self._files for group in index}

    def clear(self) -> None:
        """Remove all spill files; the spill can be used again."""
        if self._folder is not None:
            LocalStorage().delete_tree(self._folder)
        self._folder = None
        self._files.clear()
        self.size = 0

    def _options(self) -> pa.ipc.IpcWriteOptions:
        codec = COMPRESSIONS.get(self.compression, "zstd")
        if codec == "zstd":
            return pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=self.level))
        return pa.ipc.IpcWriteOptions(compression=codec)


def pieces(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """Slices of a batch of about `size` bytes each, at least one row."""
    rows = batch.num_rows
    if rows == 0:
        return
    step = max(1, int(rows * size / max(batch.nbytes, 1)))
    for start in range(0, rows, step):
        yield batch.slice(start, step)


def read_batches(path: str, numbers: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Batches of a spill file, one at a time."""
    with pa.memory_map(path) as source:
        reader = pa.ipc.open_file(source)
        for number in numbers:
            yield reader.get_batch(number)
