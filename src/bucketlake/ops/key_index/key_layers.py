"""The files of the key index's layers: written in one go, read block by block as keys are wanted.

A directory at a file's end says which block has which hashes, so that few keys need few reads however large the file
is; many keys need one. What was read is kept.

Spec: docs/spec/cross_partition.md#cache
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import field
from zlib import crc32

import numpy as np

from bucketlake.errors import BucketlakeError
from bucketlake.format.index.key_index import (
    HASHES,
    I64,
    BlockReader,
    Columns,
    Directory,
    Layer,
    LayerFile,
    decode_directory,
    encode_blocks,
    encode_directory,
    values_of,
    words_of,
)
from bucketlake.lsm.key_run import ABSENT, KeyHashes, KeyRun, Keys, Mask, Places, is_whole
from bucketlake.ops.key_index.key_scan import key_fields
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.store import Store
from bucketlake.values import dataclass

BLOCK_ROWS = 256  # keys of a block: what is read for one key
WRITTEN_BLOCKS = 1 << 12  # encoded at a time
READ_BYTES = 16 << 20  # at a time
DENSE = 4  # where one block of so many is wanted, all between are read: one read is quicker than many
ALL = (0, HASHES)


# ---- writing


def write_layer_file(store: Store, runs: Iterable[KeyRun], span: tuple[int, int] = ALL) -> LayerFile:
    """Write the keys of consecutive ascending runs. `span`: their hashes, low <= hash < high. Nothing is left on an
    error."""
    name = store.paths.new_key_layer(store.env)
    path = store.paths.key_index(name)
    rows, firsts = 0, [np.zeros(0, np.uint32)]
    checksums: list[int] = []
    sizes: list[int] = []
    out = store.env.storage.open_output(path)
    try:
        with out:
            for run in _even(runs, BLOCK_ROWS):
                words, heap = words_of(run.keys.values)
                data, sums, lengths = encode_blocks(
                    Columns(run.keys.hashes, run.places, words), heap, min(len(run), BLOCK_ROWS)
                )
                out.write(data)
                checksums += sums
                sizes += lengths
                firsts.append(run.keys.hashes[::BLOCK_ROWS])
                rows += len(run)
            ends = np.cumsum(np.array(sizes, np.int64))
            directory = encode_directory(Directory(np.concatenate(firsts), np.array(checksums, np.uint32), ends))
            out.write(directory)
    except BaseException:
        with suppress(BucketlakeError):
            store.env.storage.delete(path)
        raise
    return LayerFile(name, *span, rows, BLOCK_ROWS, int(sum(sizes)), crc32(directory))


def _even(runs: Iterable[KeyRun], block: int) -> Iterator[KeyRun]:
    """The keys of consecutive runs in runs of whole blocks, the last excepted."""
    held: KeyRun | None = None
    for run in runs:
        start = 0
        if held is not None:
            start = min(block - len(held), len(run))
            held = KeyRun.following([held, run.part(0, start)])
            if len(held) < block:
                continue
            yield held
        stop = len(run) - (len(run) - start) % block
        for at in range(start, stop, WRITTEN_BLOCKS * block):
            yield run.part(at, min(at + WRITTEN_BLOCKS * block, stop))
        held = run.take(np.arange(stop, len(run))) if stop < len(run) else None  # a copy: the run may go
    if held is not None:
        yield held


# ---- reading


@dataclass(slots=True)
class LayerReader:
    """Finds keys in a layer. Raises NotFoundError, CorruptError where it is not what the list says."""

    store: Store
    layer: Layer
    _files: list[_FileReader] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._files = [_FileReader(self.store, file) for file in self.layer.files if file.rows]

    def find(self, keys: Keys) -> Places:
        """The place of each key, GONE too, ABSENT where the layer does not have it."""
        if len(self._files) == 1 and (self._files[0].file.low, self._files[0].file.high) == ALL:
            return self._files[0].find(keys)
        found = np.full(len(keys), ABSENT, np.int32)
        parts = [(reader, np.flatnonzero(keys.within((reader.file.low, reader.file.high)))) for reader in self._files]
        parts = [(reader, inside) for reader, inside in parts if len(inside)]
        places = parallel(lambda part: part[0].find(keys.take(part[1])), parts)
        for (_, inside), there in zip(parts, places, strict=True):
            found[inside] = there
        return found

    def span(self, low: int, high: int) -> KeyRun:
        """All keys with low <= hash < high, which are not kept."""
        none = KeyRun(Keys.none(key_fields(self.store)), np.zeros(0, np.int32))
        runs = [reader.span(low, high) for reader in self._files if reader.file.low < high and low < reader.file.high]
        return KeyRun.following([run for run in runs if len(run)] or [none])


@dataclass(slots=True)
class _FileReader:
    """One file of a layer, and what of it was read: runs of different blocks that fall in size by half and more."""

    store: Store
    file: LayerFile
    _blocks: BlockReader | None = None
    _loaded: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))
    _runs: list[KeyRun] = field(default_factory=list)

    def find(self, keys: Keys) -> Places:
        self._load(self._wanted(keys.hashes))
        found = np.full(len(keys), ABSENT, np.int32)
        for run in self._runs:
            unknown = np.flatnonzero(found == ABSENT)
            found[unknown] = run.find(keys if len(unknown) == len(keys) else keys.take(unknown))
        return found

    def span(self, low: int, high: int) -> KeyRun:
        firsts = self._opened().directory.firsts
        start = max(int(np.searchsorted(firsts, np.uint32(low))) - 1, 0)
        return self._read(np.arange(start, int(np.searchsorted(firsts, np.uint32(high - 1), "right")))).span(low, high)

    def _opened(self) -> BlockReader:
        if self._blocks is None:
            path = self.store.paths.key_index(self.file.name)
            data = self.store.env.storage.read_ranges(path, [(self.file.directory, self.file.directory_bytes)])[0]
            directory = decode_directory(data, self.file, path)
            self._blocks = BlockReader(self.file, directory, is_whole(key_fields(self.store)), path)
            self._loaded = np.zeros(self.file.blocks, np.bool_)
        return self._blocks

    def _wanted(self, hashes: KeyHashes) -> Mask:
        """Which blocks may have keys of these hashes: equal ones may go on from one block to the next."""
        firsts = self._opened().directory.firsts
        start = np.maximum(np.searchsorted(firsts, hashes) - 1, 0)
        stop = np.searchsorted(firsts, hashes, "right")
        there = stop > 0  # others lie below the first key
        edges = np.zeros(len(firsts) + 1, np.int64)
        np.add.at(edges, start[there], 1)
        np.subtract.at(edges, stop[there], 1)
        return np.asarray(np.cumsum(edges[:-1]) > 0)

    def _load(self, wanted: Mask) -> None:
        missing = np.flatnonzero(wanted & ~self._loaded)
        if not len(missing):
            return
        low, high = int(missing[0]), int(missing[-1]) + 1
        if len(missing) * DENSE > high - low:
            missing = low + np.flatnonzero(~self._loaded[low:high])
        run = self._read(missing)
        while self._runs and len(self._runs[-1]) < 2 * len(run):
            run = KeyRun.merged([self._runs.pop(), run])
        self._runs.append(run)
        self._loaded[missing] = True

    def _read(self, blocks: I64) -> KeyRun:
        """The keys of ascending blocks."""
        reader = self._opened()
        storage, path = self.store.env.storage, reader.path
        out = Columns.empty(reader.rows(blocks))
        heaps: list[bytes] = []
        done = 0
        sizes = reader.sizes(blocks)
        steps = np.flatnonzero(np.diff((np.cumsum(sizes) - 1) // READ_BYTES)) + 1
        for some in np.split(blocks, steps) if len(blocks) else []:
            starts = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(np.diff(some) > 1) + 1])
            lengths = np.add.reduceat(reader.sizes(some), starts)
            ranges = list(zip(reader.starts(some)[starts].tolist(), lengths.tolist(), strict=True))
            parts = storage.read_ranges(path, ranges)
            rows = reader.rows(some)
            heaps.append(reader.decode(b"".join(parts), some, out.part(done, done + rows)))
            done += rows
        values = values_of(out.words, None if reader.whole else b"".join(heaps))
        return KeyRun(Keys(out.hashes, values), out.places)
