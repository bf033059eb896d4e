"""Forged files: well-formed containers, JSON and footers that say what no writer would, chosen by a seed."""

from __future__ import annotations

import io
import json
import random
import struct
import zlib
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from bucketlake.errors import CorruptError
from bucketlake.format.avro.container import encode_long
from bucketlake.format.data import thrift
from bucketlake.format.data.orc_tail import (
    VARINT,
    Message,
    encode,
    number_of,
    parse,
    parts_of,
    read_tail,
    replaced,
    unpacked,
)
from bucketlake.format.roaring import serialize_bitmap

NUMBERS = [-1, 0, 1, 7, -(2**31), 2**31 - 1, 2**31, 2**40, 2**62, -(2**63), 2**63 - 1]
WIDER = [*NUMBERS, 2**64, 10**30, 1.5, float("nan")]
TEXTS = ["", "x", "\0", "é" * 40, "a" * 5000, "²", "-1", "default"]
DEEP = 100_000
BOMB = 1 << 32


def _node(rng: random.Random) -> Any:
    return rng.choice([*WIDER, *TEXTS, None, True, [], {}, [1], {"a": 1}])


def _paths(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(found for key, value in inner for found in _paths(value, (*path, key)))]


def _with(tree: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    if not path:
        return change(tree)
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[path[0]] = _with(tree[path[0]], path[1:], change)
    return copy


def json_value(data: bytes, rng: random.Random) -> bytes:
    """A field of a wrong type, out of range or missing; nesting without end."""
    tree = json.loads(data)
    if rng.random() < 0.1:
        return b"[" * DEEP if rng.random() < 0.5 else b'{"id":' * DEEP
    path = rng.choice(_paths(tree)[1:] or [()])
    if rng.random() < 0.1:
        return json.dumps(_with(tree, path, lambda _: "~")).replace('"~"', "[" * DEEP + "]" * DEEP).encode()
    if rng.random() < 0.1 and isinstance(path[-1] if path else None, str):
        return json.dumps(
            _with(tree, path[:-1], lambda inner: {k: v for k, v in inner.items() if k != path[-1]})
        ).encode()
    if rng.random() < 0.1:
        return json.dumps(_with(tree, path, lambda _: "ARRAY<" * DEEP)).encode()
    return json.dumps(_with(tree, path, lambda _: _node(rng))).encode()


# ---- avro


def _kept(value: Any, rng: random.Random) -> Any:
    """Another value of the same avro type."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return rng.choice([number for number in NUMBERS if -(2**31) <= number < 2**31 or rng.random() < 0.5])
    if isinstance(value, str):
        return rng.choice(TEXTS)
    if isinstance(value, bytes):
        return rng.choice([b"", b"\0", value[:-1], value + b"\0" * 8, bytes(len(value)), b"\xff" * len(value)])
    return value


def avro_record(data: bytes, rng: random.Random) -> bytes:
    """Records with a value that is out of range, records missing or twice."""
    reader = fastavro.reader(io.BytesIO(data))
    schema, records = reader.writer_schema, list(reader)
    if not records or rng.random() < 0.1:
        records = rng.choice([[], records[:-1], records + records])
    else:
        paths = [path for path in _paths(records) if path and not isinstance(_at(records, path), (dict, list))]
        records = _with(records, rng.choice(paths), lambda value: _kept(value, rng))
    out = io.BytesIO()
    try:
        fastavro.writer(out, schema, records, codec=rng.choice(["null", "deflate"]))
    except (ValueError, OverflowError, struct.error):
        return b""
    return out.getvalue()


def _at(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def container(schema: Any, blocks: list[tuple[int, bytes]], codec: str = "null", header: int = 2) -> bytes:
    """An avro file of raw blocks."""
    pairs = {
        "avro.schema": schema if isinstance(schema, bytes) else json.dumps(schema).encode(),
        "avro.codec": codec.encode(),
    }
    out = [b"Obj\x01", encode_long(header)]
    for key, value in pairs.items():
        out += [encode_long(len(key)), key.encode(), encode_long(len(value)), value]
    sync = b"s" * 16
    out += [encode_long(0), sync]
    for count, body in blocks:
        out += [encode_long(count), encode_long(len(body)), body, sync]
    return b"".join(out)


def _bomb(codec: str) -> bytes:
    """Zeros that unpack to gigabytes."""
    if codec == "zstandard":
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as out:
            for _ in range(BOMB >> 24):
                out.write(bytes(1 << 24))
        return sink.getvalue().to_pybytes()
    packer = zlib.compressobj(wbits=-15)
    return b"".join([*(packer.compress(bytes(1 << 24)) for _ in range(1 << 4)), packer.flush()]) * 1


_BOMBS: dict[str, bytes] = {}


def avro_container(data: bytes, rng: random.Random) -> bytes:
    """Counts, lengths, schemas and codecs that no file has."""
    reader = fastavro.block_reader(io.BytesIO(data))
    schema: Any = reader.writer_schema
    schema.pop("__fastavro_parsed__", None)
    schema.pop("__named_schemas", None)
    first = next(iter(reader), None)
    body = first.bytes_.getvalue() if first is not None else b""
    kind = rng.randrange(12)
    if kind == 0:
        return container(schema, [(rng.choice([2**40, -1, -(2**62), 2**62, 0, 10**6]), body)])
    if kind == 1:
        return container(schema, [(1, body)], header=rng.choice([-2, 2**40, -(2**40), 3]))
    if kind == 2:
        again = {"type": "record", "name": "r", "fields": [{"name": "r", "type": rng.choice(["r", ["null", "r"]])}]}
        fields = [*schema["fields"], {"name": "more", "type": again}]
        return container({**schema, "fields": fields}, [(1, body + b"\x02" * 500)])
    if kind == 3:
        nothing = {"type": "record", "name": "n", "fields": rng.choice([[], [{"name": "a", "type": "null"}]])}
        return container(rng.choice([nothing, {**schema, "fields": []}]), [(2**40, b"")])
    if kind in (4, 5):
        codec = "zstandard" if kind == 4 else "deflate"
        if codec not in _BOMBS:
            _BOMBS[codec] = _bomb(codec)
        return container(schema, [(1, _BOMBS[codec])], codec)
    if kind == 6:
        deep: Any = b'{"type":"array","items":' * DEEP + b'"int"' + b"}" * DEEP
        return container(deep, [(1, body)])
    if kind == 7:
        deep = "int"
        for _ in range(rng.choice([50, 400])):
            deep = {"type": "array", "items": deep}
        return container(
            {**schema, "fields": [*schema["fields"], {"name": "deep", "type": deep}]}, [(1, body + b"\x02" * 900)]
        )
    if kind == 8:
        fields = [dict(field) for field in schema["fields"]]
        rng.choice(fields)["type"] = rng.choice(
            [
                "string",
                "int",
                "null",
                "bytes",
                {"type": "fixed", "name": "f", "size": 2**40},
                ["null", "int", "string"],
                {"type": "array", "items": "null"},
                {"type": "enum", "name": "e", "symbols": []},
                7,
                [],
                {},
                {"type": {}},
            ]
        )
        return container({**schema, "fields": fields}, [(1, body)])
    if kind == 9:
        return container(
            rng.choice([b"null", b"[]", b"7", b'"int"', b"{}", b"\xff\xfe", b'{"type":"record"}']), [(1, body)]
        )
    if kind == 10:
        nulls = [*schema["fields"], {"name": "many", "type": {"type": "array", "items": "null"}}]
        return container({**schema, "fields": nulls}, [(1, body + encode_long(2**40) + b"\0")])
    return container(
        schema,
        [(first.num_records if first else 0, body)],
        rng.choice(["lzma", "", "bzip2", "snappy", "zstandard", "deflate"]),
    )


# ---- parquet


def parquet_footer(data: bytes, rng: random.Random) -> bytes:
    """A number or a text of the footer changed."""
    length = struct.unpack("<I", data[-8:-4])[0]
    tree = thrift.decode_struct(data[-8 - length : -8])
    places = _thrift_places(tree)
    box, key, kind = rng.choice(places)
    if kind in (thrift.I16, thrift.I32, thrift.I64):
        box[key] = rng.choice(NUMBERS)
    elif kind == thrift.BINARY:
        box[key] = rng.choice([b"", b"\xff\xfe", b"x" * 1000, box[key][:-1], b"k"])
    else:
        box.pop(rng.randrange(len(box)))
    footer = thrift.encode_struct(tree)
    return data[: -8 - length] + footer + struct.pack("<I", len(footer)) + b"PAR1"


def _thrift_places(struct_: list[Any]) -> list[tuple[Any, Any, int]]:
    found: list[tuple[Any, Any, int]] = []
    if struct_:
        found.append((struct_, 0, thrift.STRUCT))
    for item in struct_:
        found += _value_places(item, 2, item[1])
    return found


def _value_places(box: Any, key: Any, kind: int) -> list[tuple[Any, Any, int]]:
    if kind == thrift.STRUCT:
        return _thrift_places(box[key])
    if kind in (thrift.LIST, thrift.SET):
        inner, values = box[key]
        found: list[tuple[Any, Any, int]] = [(values, 0, thrift.LIST)] if values else []
        for number in range(len(values)):
            found += _value_places(values, number, inner)
        return found
    return [(box, key, kind)]


# ---- data files of other programs


def _other(kind: pa.DataType, rng: random.Random) -> pa.DataType:
    """Another type for a column: mostly of the same kind."""
    return rng.choice(
        [
            *(pa.int8(), pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.binary(), pa.bool_(), pa.date32()),
            *(pa.timestamp("ms"), pa.decimal128(38, 10), pa.list_(pa.int64()), pa.struct([("x", pa.string())]), kind),
        ]
    )


def _foreign(table: pa.Table, rng: random.Random) -> pa.Table:
    """As many rows, under other names or of other types."""
    way, rows = rng.randrange(5), table.num_rows
    fields = [table.schema.field(number) for number in range(table.num_columns)]
    if way == 0:
        return pa.table({"another": pa.nulls(rows, pa.int64())})
    if way == 1:
        return table.rename_columns([name.upper() for name in table.schema.names])
    if way == 2:
        return table.select(rng.sample(table.schema.names, rng.randrange(1, len(fields) + 1)))
    if way == 3:
        return pa.table({f.name: pa.nulls(rows, _other(f.type, rng)) for f in fields})
    kept = rng.randrange(len(fields))
    values = [pa.array([None if k % 3 else k for k in range(rows)], pa.int64()) for _ in fields]
    return pa.table({f.name: table.column(n) if n == kept else values[n] for n, f in enumerate(fields)})


def foreign_parquet(data: bytes, rng: random.Random) -> bytes:
    """A whole file with other columns."""
    out = io.BytesIO()
    pq.write_table(_foreign(pq.read_table(io.BytesIO(data)), rng), out)
    return out.getvalue()


def foreign_orc(data: bytes, rng: random.Random) -> bytes:
    """As `foreign_parquet`."""
    out = io.BytesIO()
    try:
        orc.write_table(_foreign(orc.read_table(io.BytesIO(data)), rng), out)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return b""
    return out.getvalue()


# ---- orc


def orc_footer(data: bytes, rng: random.Random) -> bytes:
    """A number or a text of the file's end changed, or of a stripe's, which is put behind the others with its streams; a
    part missing or twice."""
    tail = read_tail(io.BytesIO(data))
    body, post, footer = data[: tail.body], tail.postscript, tail.footer
    place = rng.choice(["footer", "footer", "metadata", "postscript", "stripe"])
    if place == "postscript":
        told = encode(_changed_message(post, rng))[:255]
        return data[: -1 - data[-1]] + told + bytes([len(told)])
    if place == "footer":
        footer = _changed_message(footer, rng)
    if place == "stripe":
        stripes = parts_of(footer, 3)
        number = rng.randrange(len(stripes))
        start, index, size, length = (number_of(parse(stripes[number]), at) for at in range(1, 5))
        end = start + index + size
        told = tail.framed(encode(_changed_message(parse(unpacked(tail, body[end : end + length])), rng)))
        stripes[number] = encode(replaced(parse(stripes[number]), {1: len(body), 4: len(told)}))
        body, footer = body + body[start:end] + told, replaced(footer, {3: stripes})
    metadata = _changed_message(tail.metadata, rng) if place == "metadata" else tail.metadata
    return body + tail.closed(footer, metadata)


def _changed_message(message: Message, rng: random.Random) -> Message:
    """With a change of one of its fields, or of a message within."""
    found = [list(item) for item in message]
    place = rng.randrange(len(found))
    _, wire, value = found[place]
    if rng.random() < 0.15:
        return found[:place] + rng.choice([[], [found[place]] * 2]) + found[place + 1 :]
    if wire == VARINT:
        found[place][2] = rng.choice(NUMBERS) % 2**64
        return found
    try:
        inner = parse(value)
    except CorruptError:
        inner = []
    if inner and len(value) > 3 and encode(inner) == value and rng.random() < 0.9:
        found[place][2] = encode(_changed_message(inner, rng))
    else:
        found[place][2] = rng.choice([b"", b"\xff\xfe", b"x" * 1000, value[:-1], value + b"\0"])
    return found


# ---- deletion vectors


def deletion_vector(data: bytes, rng: random.Random) -> bytes:
    """The bitmap changed, with a checksum that fits."""
    (length,) = struct.unpack(">i", data[1:5])
    body = bytearray(data[5 : 5 + length])
    if rng.random() < 0.2:
        whole = serialize_bitmap(__import__("numpy").arange(rng.choice([100, 70_000, 1 << 20])))
        body = bytearray(body[:4] + whole)[: len(body)].ljust(len(body), b"\0")
    else:
        for _ in range(rng.choice([1, 1, 2, 4])):
            at = rng.randrange(4, len(body))
            body[at] = rng.choice([0, 1, 255, 128, rng.randrange(256)])
    return data[:5] + bytes(body) + struct.pack(">I", zlib.crc32(bytes(body))) + data[9 + length :]


FORGERIES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "json_value": json_value,
    "avro_record": avro_record,
    "avro_container": avro_container,
    "parquet_footer": parquet_footer,
    "deletion_vector": deletion_vector,
    "foreign_parquet": foreign_parquet,
    "foreign_orc": foreign_orc,
    "orc_footer": orc_footer,
}
WRONG = (ValueError, KeyError, IndexError, struct.error, CorruptError, OverflowError, TypeError, pa.ArrowException)


def forgeries(name: str, kind: str) -> list[str]:
    """Which forgeries a file takes. `kind`: as `suite.kind_of` says."""
    if kind in ("snapshot", "schema", "tag", "consumer", "statistics"):
        return ["json_value"]
    if kind in ("manifest", "manifest list", "index manifest"):
        return ["avro_record", "avro_container"]
    if kind == "avro data":
        return ["avro_container"]
    if kind == "parquet data":
        return ["parquet_footer", "foreign_parquet"]
    if kind == "orc data":
        return ["foreign_orc", "orc_footer"]
    return ["deletion_vector"] if kind == "deletion vectors" else []
