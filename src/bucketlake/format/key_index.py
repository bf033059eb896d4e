"""The cached key index of a cross-partition table: a list of layers, and layers of keys with the places they lie in.

    index-<snapshot>-<uuid>.json   one line {"checksum": crc32 of the rest}, then a JSON object:
        version, facts (what the keys are, by the table's schema), snapshot, mark (its delta manifest list),
        built, since (epoch ms; keys of older files are left out), places [[partition hex, bucket] …], counts,
        layers [{name, parts [[offset, length, crc32, rows] × 256]} …], oldest first
    layer-<uuid>                   256 Arrow IPC record batches (no schema message): part i holds the keys whose hash
        starts with byte i, ascending by hash: hash uint32, place int32, key int64 | large_binary

A place is a number into `places`, or -2: the key lies nowhere since. This format is ours: Paimon does not know it.

Spec: docs/spec/cross_partition.md#cache
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import pyarrow as pa

from bucketlake.errors import CorruptError

VERSION = 1
PARTS = 256  # by the first byte of a key's hash


@dataclass(frozen=True, slots=True)
class Part:
    """Where the keys of one first byte lie in a layer's file."""

    offset: int
    length: int
    checksum: int
    rows: int


@dataclass(frozen=True, slots=True)
class Layer:
    """One file of keys, and its 256 parts."""

    name: str
    parts: tuple[Part, ...]

    @property
    def rows(self) -> int:
        """Keys in all parts."""
        return sum(part.rows for part in self.parts)


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
        "layers": [
            {"name": layer.name, "parts": [[p.offset, p.length, p.checksum, p.rows] for p in layer.parts]}
            for layer in index.layers
        ],
    }
    body = json.dumps(tree, separators=(",", ":")).encode()
    return json.dumps({"checksum": crc32(body)}).encode() + b"\n" + body


def decode_key_index(data: bytes, path: str) -> KeyIndexFile:
    """The list file's content. CorruptError for one that is damaged, or of another version."""
    head, _, body = data.partition(b"\n")
    try:
        if json.loads(head)["checksum"] != crc32(body):
            raise CorruptError("the checksum of a key index does not match", path=path)
        tree: dict[str, Any] = json.loads(body)
        if tree["version"] != VERSION:
            raise CorruptError("a key index of another version", path=path, version=tree["version"])
        return KeyIndexFile(
            tree["facts"],
            tree["snapshot"],
            tree["mark"],
            tree["built"],
            tree["since"],
            tuple((bytes.fromhex(partition), bucket) for partition, bucket in tree["places"]),
            tuple(tree["counts"]),
            tuple(Layer(layer["name"], tuple(Part(*part) for part in layer["parts"])) for layer in tree["layers"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptError("not a key index", path=path, detail=str(error)) from error


def part_schema(keys: pa.DataType) -> pa.Schema:
    """The columns of a layer's parts."""
    return pa.schema([("hash", pa.uint32()), ("place", pa.int32()), ("key", keys)])


def encode_part(batch: pa.RecordBatch) -> bytes:
    """One part of a layer."""
    return bytes(batch.serialize())


def decode_part(data: memoryview, part: Part, keys: pa.DataType, path: str) -> pa.RecordBatch:
    """One part of a layer. CorruptError where it is not what the list says."""
    if len(data) != part.length or crc32(data) != part.checksum:
        raise CorruptError("a layer of a key index is damaged", path=path, offset=part.offset)
    return pa.ipc.read_record_batch(pa.py_buffer(data), part_schema(keys))
