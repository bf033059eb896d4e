"""What a data file says of MAP columns that it holds shredded, and the columns that these are there.

    m MAP<STRING, V>  ->  m ROW<__field_mapping ARRAY<INT>, __col_0 V, …, __col_<n-1> V, __overflow MAP<INT, V>>

Keys are numbered: the numbers' names, and how many value columns there are, stand as metadata of the column `m` in an
Arrow schema, under `ARROW:schema` in the file's footer.

Spec: docs/spec/map_shredding.md#metadata
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.errors import CorruptError
from bucketlake.format.guard import MOST_JSON, integer, json_object, text
from bucketlake.options.map_layout import SHREDDED
from bucketlake.types.model import INT, DataField, DataType, Root
from bucketlake.values import dataclass

ARROW_SCHEMA = "ARROW:schema"
MAPPING, OVERFLOW = "__field_mapping", "__overflow"
NOTHING = -1
"""In the mapping of a row: no key of it lies in this value column."""

_LAYOUT = b"paimon.map.storage-layout"
_PREFIX = b"paimon.map.shared-shredding."
_VERSION, _DICT = _PREFIX + b"version", _PREFIX + b"field-dict"
_CODEC, _SIZE = _PREFIX + b"field-dict-compression", _PREFIX + b"field-dict-original-size"
_PLACES, _LEFT = _PREFIX + b"field-columns", _PREFIX + b"overflow-set"
_COLUMNS, _WIDTH = _PREFIX + b"num-columns", _PREFIX + b"max-row-width"
_KNOWN_VERSION = 1
_MOST_NUMBER = (1 << 31) - 1
_LZ4_HEADER = 8
CODECS = ("none", "lz4", "zstd")


@dataclass(frozen=True)
class FileMap:
    """A MAP column of one file. `numbers`: of its keys, ascending, and their `names`; `columns`: its value columns;
    `places`: pairs (number of a key, value column where it lies in some row); `overflowing`: numbers of keys that lie
    in no column of some row; `width`: the most keys that a row has. A reader needs none of the last three."""

    numbers: npt.NDArray[np.int64]
    names: pa.Array
    columns: int
    places: npt.NDArray[np.int64]
    overflowing: npt.NDArray[np.int64]
    width: int = 0


def value_column(number: int) -> str:
    """The name of a value column."""
    return f"__col_{number}"


def is_shreddable(t: DataType) -> bool:
    """Whether Paimon shreds maps of the type: those whose keys are texts."""
    return t.root is Root.MAP and t.key is not None and t.key.root is Root.VARCHAR


def shredded_field(item: DataField, columns: int) -> DataField:
    """The column as a file holds it. Its parts may be null whatever the map's may be: most value columns of a row are.

    Spec: docs/spec/map_shredding.md#columns
    """
    assert item.type.element is not None
    value = item.type.element.with_nullable(True)
    kinds = {MAPPING: DataType(Root.ARRAY, element=INT)}
    kinds |= {value_column(number): value for number in range(columns)}
    kinds |= {OVERFLOW: DataType(Root.MAP, key=INT.with_nullable(False), element=value)}
    members = tuple(DataField(at, name, kind) for at, (name, kind) in enumerate(kinds.items()))
    return DataField(item.id, item.name, DataType(Root.ROW, item.type.nullable, fields=members))


# ---------------------------------------------------------------------------------------------- reading


def maps_of(notes: Mapping[bytes, bytes] | None, schema: pa.Schema, fields: Sequence[DataField]) -> dict[str, FileMap]:
    """Those of `fields` that a file holds shredded. `notes`: what its footer says by key; `schema`: what its columns
    are. Call it inside of `decoding`.

    Raises: CorruptError for metadata of another version, or that does not fit the columns.
    """
    data = (notes or {}).get(ARROW_SCHEMA.encode())
    wanted = [item.name for item in fields if is_shreddable(item.type)]
    if data is None or not wanted:
        return {}
    told = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(data)))
    found = {}
    for name in wanted:
        at = told.get_field_index(name)
        said = (told.field(at).metadata or {}) if at >= 0 else {}
        if said.get(_LAYOUT) == SHREDDED.encode():
            found[name] = _decoded(said, name)
            _check_columns(schema.field(name).type, name, found[name].columns)
    return found


def _check_columns(kind: pa.DataType, name: str, columns: int) -> None:
    """CorruptError unless the file has just the columns that its metadata speaks of."""
    known = kind.num_fields == columns + 2 and pa.types.is_struct(kind)
    if known:
        wanted = [MAPPING, *(value_column(number) for number in range(columns)), OVERFLOW]
        known = [kind.field(at).name for at in range(kind.num_fields)] == wanted
    if not known:
        raise CorruptError("a shredded map does not have the columns that it says", column=name, columns=columns)


def _decoded(said: Mapping[bytes, bytes], name: str) -> FileMap:
    version = said.get(_VERSION, b"").decode()
    if version != str(_KNOWN_VERSION):
        raise CorruptError("a shredded map is of an unknown version", column=name, version=version)
    columns, width = (_number(said, key, name) for key in (_COLUMNS, _WIDTH))
    if columns < 1:
        raise CorruptError("a shredded map has no value columns", column=name)
    tree = json_object(_unpacked(said, name))
    if not all(text(key) and integer(value, high=_MOST_NUMBER) for key, value in tree.items()):
        raise CorruptError("the keys of a shredded map are not numbered", column=name)
    numbers = np.fromiter(tree.values(), np.int64, len(tree))
    order = np.argsort(numbers, kind="stable")
    numbers, names = numbers[order], pa.array(tree, pa.string()).take(pa.array(order))
    if (numbers[1:] == numbers[:-1]).any():
        raise CorruptError("two keys of a shredded map have one number", column=name)
    nothing = np.zeros(0, np.int64)
    return FileMap(numbers, names, columns, nothing.reshape(0, 2), nothing, width)


def _number(said: Mapping[bytes, bytes], key: bytes, name: str) -> int:
    value = said.get(key, b"")
    if not value.isdigit() or len(value) > 10 or int(value) > _MOST_NUMBER:
        raise CorruptError("the metadata of a shredded map is not whole", column=name, key=key.decode())
    return int(value)


def _unpacked(said: Mapping[bytes, bytes], name: str) -> bytes:
    """The keys' numbers as JSON. Bytes stand in the metadata as characters of ISO 8859-1."""
    size = _number(said, _SIZE, name)
    data = said.get(_DICT, b"").decode().encode("latin-1")
    codec = said.get(_CODEC, b"zstd").decode().lower()
    if codec not in CODECS:
        raise CorruptError("the keys of a shredded map have an unknown compression", column=name, compression=codec)
    if size > MOST_JSON:
        raise CorruptError("a shredded map names more keys than any file has", column=name, size=size)
    plain = data
    if codec == "zstd":
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            plain = stream.read(size + 1)
    elif codec == "lz4":
        packed, whole = struct.unpack("<ii", data[:_LZ4_HEADER])
        if whole != size or packed != len(data) - _LZ4_HEADER or size > 256 * max(packed, 1):
            raise CorruptError("the keys of a shredded map do not decompress", column=name, size=size)
        plain = pa.decompress(data[_LZ4_HEADER:], size, "lz4_raw", asbytes=True)
    if len(plain) != size:
        raise CorruptError("the keys of a shredded map are not as long as they say", column=name, size=size)
    return bytes(plain)


# ---------------------------------------------------------------------------------------------- writing


def described(schema: pa.Schema, maps: Mapping[str, FileMap], compression: str) -> str:
    """What stands under `ARROW_SCHEMA` in a file whose columns are these: its schema, with the metadata of maps.

    `compression`: of the file; the keys are packed by the same."""
    codec = compression if compression in CODECS else "zstd"
    fields = [
        item.with_metadata({**_encoded(maps[item.name], codec), **(item.metadata or {})}) if item.name in maps else item
        for item in schema
    ]
    return base64.b64encode(pa.schema(fields).serialize().to_pybytes()).decode()


def _encoded(found: FileMap, codec: str) -> dict[bytes, bytes]:
    named = dict(sorted(zip(found.names.to_pylist(), found.numbers.tolist(), strict=True)))
    plain = _json(named)
    packed = plain
    if codec == "zstd":
        packed = pa.Codec("zstd", compression_level=1).compress(plain, asbytes=True)
    elif codec == "lz4":
        packed = pa.compress(plain, "lz4_raw", asbytes=True)
        packed = struct.pack("<ii", len(packed), len(plain)) + packed
    numbers, starts = np.unique(found.places[:, 0], return_index=True)
    lists = np.split(found.places[:, 1], starts[1:]) if len(numbers) else []
    places = {str(number): part.tolist() for number, part in zip(numbers.tolist(), lists, strict=True)}
    return {
        _LAYOUT: SHREDDED.encode(),
        _VERSION: str(_KNOWN_VERSION).encode(),
        _CODEC: codec.encode(),
        _SIZE: str(len(plain)).encode(),
        _DICT: packed.decode("latin-1").encode(),
        _PLACES: _json(places),
        _LEFT: _json(found.overflowing.tolist()),
        _COLUMNS: str(found.columns).encode(),
        _WIDTH: str(found.width).encode(),
    }


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
