"""The cached key index of a cross-partition table: a list of layers, and layers of keys with the places they lie in.

    index-<snapshot>-<uuid>.json   one line {"checksum": crc32 of the rest}, then a JSON object:
        version, facts (what the keys are, by the table's schema), snapshot, mark (its delta manifest list),
        built, since (epoch ms; keys of older files are left out), places [[partition hex, bucket] …], counts,
        layers [[{name, low, high, rows, block, directory, checksum} …] …], oldest first: the files of each layer
    layer-<uuid>                   keys with low <= hash < high, ascending by hash, in blocks of `block` keys (the last
        may have fewer), then at `directory` of each block
            first hash uint32 … | crc32 uint32 … | end offset int64 …
        a block: hash uint32 … | place int32 … | word int64 … | bytes of the keys, zeros up to a multiple of 8

All numbers are little endian. A word is the key where that is a whole number, else the length of its bytes. A place is
a number into `places`, or -2: the key lies nowhere since. This format is ours: Paimon does not know it.

Spec: docs/spec/cross_partition.md#cache
"""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import pairwise
from zlib import crc32

from bucketlake.errors import CorruptError
from bucketlake.file_names import check_names
from bucketlake.format.guard import decoding, json_object
from bucketlake.lazy import np, npt, pa
from bucketlake.values import dataclass

VERSION = 2
HASHES = 1 << 32
KEY_BYTES = 16  # of a key in a block, less the bytes that it may have
_ENTRY_BYTES = 16  # of a block in a directory
_WORD = 8

U32 = npt.NDArray["np.uint32"]
I32 = npt.NDArray["np.int32"]
I64 = npt.NDArray["np.int64"]


@dataclass(frozen=True, slots=True)
class LayerFile:
    """A file of keys with low <= hash < high. `block`: keys of each block but the last; `directory`: where it starts,
    which is where the blocks end; `checksum`: of the directory."""

    name: str
    low: int
    high: int
    rows: int
    block: int
    directory: int
    checksum: int

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return -(-self.rows // self.block)

    @property
    def directory_bytes(self) -> int:
        """How long the directory is."""
        return self.blocks * _ENTRY_BYTES


@dataclass(frozen=True, slots=True)
class Layer:
    """Keys of one age: files of ranges of hashes that do not meet, ascending."""

    files: tuple[LayerFile, ...]

    @property
    def rows(self) -> int:
        """Keys in all files."""
        return sum(file.rows for file in self.files)


@dataclass(frozen=True, slots=True)
class KeyIndexFile:
    """The list of layers of one snapshot. `counts`: keys in every place."""

    facts: str
    snapshot: int
    mark: str
    built: int
    since: int | None
    places: tuple[tuple[bytes, int], ...]
    counts: tuple[int, ...]
    layers: tuple[Layer, ...]


def encode_key_index(index: KeyIndexFile) -> bytes:
    """The bytes of the list file."""
    tree = {
        "version": VERSION,
        "facts": index.facts,
        "snapshot": index.snapshot,
        "mark": index.mark,
        "built": index.built,
        "since": index.since,
        "places": [[partition.hex(), bucket] for partition, bucket in index.places],
        "counts": list(index.counts),
        "layers": [[asdict(file) for file in layer.files] for layer in index.layers],
    }
    body = json.dumps(tree, separators=(",", ":")).encode()
    return json.dumps({"checksum": crc32(body)}).encode() + b"\n" + body


def decode_key_index(data: bytes, path: str) -> KeyIndexFile:
    """The list file's content. CorruptError for one that is damaged, or of another version."""
    head, _, body = data.partition(b"\n")
    with decoding("not a key index", path):
        if json_object(head)["checksum"] != crc32(body):
            raise CorruptError("the checksum of a key index does not match", path=path)
        tree = json_object(body)
        if tree["version"] != VERSION:
            raise CorruptError("a key index of another version", path=path, version=tree["version"])
        check_names([file["name"] for files in tree["layers"] for file in files], path)
        return KeyIndexFile(
            tree["facts"],
            tree["snapshot"],
            tree["mark"],
            tree["built"],
            tree["since"],
            tuple((bytes.fromhex(partition), bucket) for partition, bucket in tree["places"]),
            tuple(tree["counts"]),
            tuple(Layer(tuple(LayerFile(**file) for file in files)) for files in tree["layers"]),
        )


# ---- directories


@dataclass(frozen=True, slots=True, eq=False)
class Directory:
    """Of each block of a file: its first hash, the checksum of its bytes, and where it ends."""

    firsts: U32
    checksums: U32
    ends: I64


def encode_directory(directory: Directory) -> bytes:
    """What follows the blocks."""
    columns = directory.firsts.astype("<u4"), directory.checksums.astype("<u4"), directory.ends.astype("<i8")
    return b"".join(column.tobytes() for column in columns)


def decode_directory(data: bytes, file: LayerFile, path: str) -> Directory:
    """The directory of a file. CorruptError where it is not what the list says."""
    if len(data) != file.directory_bytes or crc32(data) != file.checksum:
        raise CorruptError("the directory of a key index's layer is damaged", path=path, offset=file.directory)
    count = file.blocks
    halves = np.frombuffer(data, "<u4", 2 * count)
    return Directory(halves[:count], halves[count:], np.frombuffer(data, "<i8", count, 8 * count))


# ---- blocks


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Keys side by side. `words`: keys that are whole numbers, else the lengths of their bytes."""

    hashes: U32
    places: I32
    words: I64

    @classmethod
    def empty(cls, rows: int) -> Columns:
        """Room for so many keys."""
        return cls(np.empty(rows, np.uint32), np.empty(rows, np.int32), np.empty(rows, np.int64))

    def part(self, start: int, stop: int) -> Columns:
        """A slice, without a copy."""
        return Columns(self.hashes[start:stop], self.places[start:stop], self.words[start:stop])


def values_of(words: I64, heap: bytes | None) -> pa.Array:
    """The keys: the words themselves, or the bytes in `heap` that they are the lengths of."""
    if heap is None:
        return pa.array(words)
    offsets = np.zeros(len(words) + 1, np.int64)
    np.cumsum(words, out=offsets[1:])
    parts = [None, pa.py_buffer(offsets), pa.py_buffer(heap)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(words), parts)


def words_of(values: pa.Array) -> tuple[I64, memoryview | None]:
    """The words of keys, and the bytes of those that are no whole numbers, one after the other."""
    if pa.types.is_int64(values.type):
        return np.asarray(values.to_numpy(zero_copy_only=True)), None
    buffers = values.buffers()
    if not len(values):
        return np.zeros(0, np.int64), memoryview(b"")
    offsets = np.frombuffer(buffers[1], np.int64)[values.offset : values.offset + len(values) + 1]
    heap = memoryview(b"" if buffers[2] is None else buffers[2]).cast("B")
    return np.diff(offsets), heap[int(offsets[0]) : int(offsets[-1])]


def encode_blocks(keys: Columns, heap: memoryview | None, rows: int) -> tuple[bytes, list[int], list[int]]:
    """Whole blocks of so many keys each: their bytes, and of each block checksum and size."""
    count = len(keys.hashes) // rows
    fixed = np.empty((count, 2 * rows), "<u8")
    halves = fixed.view("<u4")
    halves[:, :rows] = keys.hashes.reshape(count, rows)
    halves[:, rows : 2 * rows] = keys.places.view(np.uint32).reshape(count, rows)
    fixed[:, rows:] = keys.words.view(np.uint64).reshape(count, rows)
    size = rows * KEY_BYTES
    view = memoryview(fixed.tobytes())
    heads = [view[at : at + size] for at in range(0, count * size, size)]
    if heap is None:
        return bytes(view), [crc32(head) for head in heads], [size] * count
    ends = [0, *np.cumsum(keys.words.reshape(count, rows).sum(1)).tolist()]
    bodies = [heap[start:stop] for start, stop in pairwise(ends)]
    gaps = [bytes(-len(body) % _WORD) for body in bodies]
    blocks = [b"".join(parts) for parts in zip(heads, bodies, gaps, strict=True)]
    return b"".join(blocks), [crc32(block) for block in blocks], [len(block) for block in blocks]


@dataclass(frozen=True, slots=True)
class BlockReader:
    """Decodes blocks of one file. `whole`: keys are whole numbers."""

    file: LayerFile
    directory: Directory
    whole: bool
    path: str

    def rows(self, blocks: I64) -> int:
        """Keys in blocks."""
        ends = np.minimum((blocks + 1) * self.file.block, self.file.rows)
        return int((ends - blocks * self.file.block).sum())

    def sizes(self, blocks: I64) -> I64:
        """Bytes of each block."""
        return np.asarray(self.directory.ends[blocks] - self.starts(blocks))

    def starts(self, blocks: I64) -> I64:
        """Where each block starts in the file."""
        return np.where(blocks > 0, self.directory.ends[blocks - 1], 0)

    def decode(self, data: bytes, blocks: I64, out: Columns) -> bytes:
        """Put the keys of blocks, whose bytes follow each other in `data`, into `out`, which has room for just these;
        the bytes of the keys. `blocks`: ascending. CorruptError where they are not what the directory says."""
        bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.sizes(blocks))])
        view, ends = memoryview(data), bounds.tolist()
        found = [crc32(view[low:high]) for low, high in pairwise(ends)]
        if len(data) != ends[-1] or found != self.directory.checksums[blocks].tolist():
            raise CorruptError("a layer of a key index is damaged", path=self.path)
        full = int(np.searchsorted(blocks, self.file.rows // self.file.block))
        at = full * self.file.block
        heap = self._fill(data, bounds[: full + 1], self.file.block, out) if full else b""
        if full == len(blocks):
            return heap
        return heap + self._fill(data, bounds[full:], len(out.hashes) - at, out.part(at, len(out.hashes)))

    def _fill(self, data: bytes, bounds: I64, rows: int, out: Columns) -> bytes:
        """Decode blocks of so many keys each, which start at `bounds`, the last of which is an end."""
        count, size = len(bounds) - 1, rows * KEY_BYTES
        view = memoryview(data)[int(bounds[0]) : int(bounds[-1])]
        heap = b""
        if not self.whole:
            starts = (bounds[:-1] - bounds[0]).tolist()
            heads = b"".join([view[start : start + size] for start in starts])
            view, body = memoryview(heads), view
        fixed = np.frombuffer(view, "<u8").reshape(count, 2 * rows)
        halves = fixed.view("<u4")
        keys = out.part(0, count * rows)
        keys.hashes.reshape(count, rows)[...] = halves[:, :rows]
        keys.places.reshape(count, rows)[...] = halves[:, rows : 2 * rows].view("<i4")
        keys.words.reshape(count, rows)[...] = fixed[:, rows:].view("<i8")
        if not self.whole:
            lengths = keys.words.reshape(count, rows).sum(1).tolist()
            bodies = [body[s + size : s + size + length] for s, length in zip(starts, lengths, strict=True)]
            heap = b"".join(bodies)
        return heap
