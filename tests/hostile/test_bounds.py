"""Lengths, counts, nesting and numbers that no file has: an error that names the file, before anything is reserved."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyroaring import BitMap

import bucketlake
from bucketlake import CorruptError, InvalidError, UnsupportedError
from bucketlake.format.avro import zstd
from bucketlake.format.avro.container import (
    LEAST_LIMIT,
    Block,
    Header,
    check_schema,
    compress,
    decompress,
    encode_block,
    encode_header,
    encode_long,
    read_blocks,
)
from bucketlake.format.data import thrift
from bucketlake.format.data.avro import AvroSource
from bucketlake.format.data.file_format import BatchSize
from bucketlake.format.data.orc import OrcSource
from bucketlake.format.data.orc_tail import encode, parse, parts_of, read_tail, replaced
from bucketlake.format.data.parquet import ParquetSource
from bucketlake.format.index.deletion_vector import decode_vector
from bucketlake.format.index.index_manifest import DeletionVectorRange, decode_index_manifest
from bucketlake.format.metadata.manifest import MANIFEST_SCHEMA, decode_manifest, decode_manifest_list
from bucketlake.format.metadata.manifest_columns import decode_columns
from bucketlake.format.metadata.snapshot import decode_snapshot
from bucketlake.format.roaring import read_bitmap, serialize_bitmap
from bucketlake.schema.schema import TableSchema
from bucketlake.types.model import BIGINT, DataField, arrow_schema
from bucketlake.types.parse import parse_type_text

SYNC = bytes(16)


def container(blocks: bytes, schema: object = MANIFEST_SCHEMA) -> bytes:
    return encode_header(Header(schema, "null", SYNC)) + blocks


@pytest.mark.parametrize("decode", [decode_manifest, decode_columns, decode_manifest_list, decode_index_manifest])
@pytest.mark.parametrize("count", [1 << 40, -1, 1 << 62])
def test_counts_beyond_the_bytes(decode: Callable[[bytes, str], object], count: int) -> None:
    block = encode_long(3) + b"abc" + SYNC
    for blocks in (encode_long(count) + block, encode_long(1) + encode_long(count) + block):
        with pytest.raises(CorruptError, match="m-1"):
            decode(container(blocks), "m-1")
    with pytest.raises(CorruptError, match="m-1"):
        decode(b"Obj\x01" + encode_long(count) + b"\0" * 40, "m-1")


def record(kind: object) -> object:
    return {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}


def nested(depth: int) -> object:
    return {"type": "array", "items": nested(depth - 1)} if depth else "int"


@pytest.mark.parametrize(
    "schema",
    [
        record(["null", "r"]),
        {"type": "record", "name": "r", "fields": []},
        record("null"),
        record({"type": "array", "items": "null"}),
        record({"type": "fixed", "name": "f", "size": 1 << 40}),
        record(["null", "int", "string"]),
        record(nested(200)),
        None,
        7,
    ],
)
def test_schemas_that_bound_nothing(schema: object) -> None:
    with pytest.raises(CorruptError):
        check_schema(schema)
    with pytest.raises(CorruptError, match="m-1"):
        decode_manifest(container(encode_long(1 << 40) + encode_long(0) + SYNC, schema), "m-1")


@pytest.mark.parametrize("codec", ["zstandard", "deflate", "bzip2", "xz"])
def test_bombs_are_not_unpacked(codec: str) -> None:
    packed = compress(bytes(LEAST_LIMIT + (1 << 20)), codec, 1)
    assert len(packed) < LEAST_LIMIT // 900
    with pytest.raises(CorruptError, match="unpacks to too much"):
        decompress(packed, codec)
    header = Header("bytes", codec, SYNC)
    with pytest.raises(UnsupportedError, match=r"would not be read again.*file\.compression"):
        encode_block(Block(1, bytes(LEAST_LIMIT + (1 << 20))), header, 1)
    noise = np.random.default_rng(1).bytes(3 << 20)
    assert decompress(compress(noise, codec, 1), codec) == noise


def test_zstd_frames_are_the_same_to_the_library_and_to_arrow() -> None:
    library = zstd._module()
    assert library is not None
    one, two = (compress(data, "zstandard", 1) for data in (b"abc" * 100, b"xyz"))
    empty = compress(b"", "zstandard", 1)
    for data in (one, one + two, one + empty, b"", empty, one[:-2], one + b"junk", b"\x28\xb5\x2f\xfd", one + two[:4]):
        found = []
        for unpack in (partial(zstd._by_module, library), zstd._by_arrow):
            for limit in (2, 299, 300, 303, 1000):
                try:
                    found.append(unpack(data, limit))
                except OSError:
                    found.append(OSError)
        assert found[:5] == found[5:], data


def test_a_snappy_block_says_no_size_that_it_cannot_have() -> None:
    with pytest.raises(CorruptError, match="unpacks to too much"):
        decompress(b"\xff\xff\xff\xff\x0fabcdefgh", "snappy")


@pytest.mark.parametrize("text", ["ARRAY<" * 100_000, "INT" + " ARRAY" * 100_000, "MAP<INT," * 5000])
def test_types_nest_within_bounds(text: str) -> None:
    with pytest.raises(InvalidError, match="nested more than") as found:
        parse_type_text(text)
    assert len(str(found.value)) < 2000


WRAPPED = {
    "row": lambda part: pa.struct([("a", part), ("b", pa.string())]),
    "array": pa.list_,
    "map": lambda part: pa.map_(pa.string(), part),
}


def nested(kind: str, depth: int) -> pa.Schema:
    part = pa.int32()
    for _ in range(depth):
        part = WRAPPED[kind](part)
    return pa.schema([("id", pa.int64()), ("n", part)])


@pytest.mark.parametrize("format", ["avro", "parquet", "orc"])
def test_a_row_needs_a_member(format: str, tmp_path: Path) -> None:
    for kind in (pa.struct([]), pa.list_(pa.struct([]))):
        with pytest.raises(InvalidError, match="A ROW needs a member"):
            bucketlake.open(tmp_path).create_table("t", pa.schema({"n": kind}), options={"file.format": format})


@pytest.mark.parametrize("kind", WRAPPED)
@pytest.mark.parametrize(("format", "most"), [("avro", 24), ("parquet", 49), ("orc", 50)])
def test_what_may_be_created_can_be_read(format: str, most: int, kind: str, tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    catalog.create_database("db")
    options = {"bucket": "1", "file.format": format}
    with pytest.raises(InvalidError, match=f"nested {most} deep in {format}, column 'n'"):
        catalog.create_table("db.t", nested(kind, most + 1), primary_keys=["id"], options=options)
    assert catalog.tables("db") == []
    columns = nested(kind, most)
    table = catalog.create_table("db.t", columns, primary_keys=["id"], options=options)
    text = {"row": ['{"a": '] * most + ["1"] + ["}"] * most, "array": ["["] * most + ["1"] + ["]"] * most}
    value = [("k", 1)] if kind == "map" else json.loads("".join(text[kind]))
    for _ in range(most - 1 if kind == "map" else 0):
        value = [("k", value)]
    for ids in ([1, 2], [2, 3]):
        table.write_arrow(pa.table({"id": ids, "n": pa.array([value, value], columns.field("n").type)}, schema=columns))
    table.compact()
    rows = catalog.table("db.t").to_arrow().column("n")
    assert rows.to_pylist() == pa.array([value] * 3, columns.field("n").type).to_pylist()


# ---- metadata in JSON

SNAPSHOT = {
    "version": 3,
    "id": 7,
    "schemaId": 0,
    "baseManifestList": "manifest-list-a-0",
    "deltaManifestList": "manifest-list-a-1",
    "commitUser": "u",
    "commitIdentifier": 1,
    "commitKind": "APPEND",
    "timeMillis": 1,
}
FIELDS = [{"id": 0, "name": "k", "type": "INT NOT NULL"}, {"id": 1, "name": "v", "type": "STRING"}]
TABLE = {
    "version": 3,
    "id": 0,
    "fields": FIELDS,
    "highestFieldId": 1,
    "partitionKeys": [],
    "primaryKeys": ["k"],
    "options": {},
}


@pytest.mark.parametrize(
    "change",
    [
        {"id": 0},
        {"id": True},
        {"id": 2**70},
        {"schemaId": -1},
        {"schemaId": 2**40},
        {"timeMillis": 2**62},
        {"timeMillis": 253_402_300_799_999},  # the next year, in zones east of UTC
        {"baseManifestList": ""},
        {"commitKind": []},
        {"version": "x"},
        {"properties": {"a": 1}},
        {"watermark": 1.5},
    ],
)
def test_fields_of_snapshots_have_types_and_ranges(change: dict[str, object]) -> None:
    assert decode_snapshot(json.dumps(SNAPSHOT).encode(), "snapshot-7").id == 7
    with pytest.raises(CorruptError, match="snapshot-7"):
        decode_snapshot(json.dumps({**SNAPSHOT, **change}).encode(), "snapshot-7")


@pytest.mark.parametrize(
    "change",
    [
        {"id": -1},
        {"id": "0"},
        {"version": None},
        {"highestFieldId": []},
        {"timeMillis": 253_402_300_799_999},
        {"timeMillis": -100_000_000_000_000},  # before the year 1
        {"partitionKeys": "k"},
        {"partitionKeys": ["absent"]},
        {"primaryKeys": [7]},
        {"primaryKeys": ["k", "k"]},
        {"options": []},
        {"options": {"bucket": "many"}},
        {"options": {"bucket-key": "absent"}},
        {"comment": 7},
        {"fields": [{"id": 0, "name": 7, "type": "INT"}], "primaryKeys": []},
        {"fields": [FIELDS[0], FIELDS[0]]},
        {"fields": [{**FIELDS[0], "id": 2**40}]},
        {"fields": [{**FIELDS[0], "type": "ARRAY<" * 9000}]},
        {"fields": [{**FIELDS[0], "defaultValue": 7}]},
    ],
)
def test_fields_of_schemas_have_types_and_ranges(change: dict[str, object]) -> None:
    assert TableSchema.decode(json.dumps(TABLE), "schema-0").primary_keys == ("k",)
    with pytest.raises(CorruptError, match="schema-0"):
        TableSchema.decode(json.dumps({**TABLE, **change}), "schema-0")


@pytest.mark.parametrize(
    "data",
    [b"[" * 100_000, b'{"id":' * 100_000, b"7", b"[]", b"\xff\xfe", b'{"id": ' + b"9" * 9000 + b"}"],
    ids=["lists", "objects", "number", "list", "no text", "digits"],
)
def test_json_that_is_none_is_named(data: bytes) -> None:
    with pytest.raises(CorruptError, match="snapshot-7"):
        decode_snapshot(data, "snapshot-7")
    with pytest.raises(CorruptError, match="schema-7"):
        TableSchema.decode(data, "schema-7")


# ---- bitmaps


@pytest.mark.parametrize("positions", [range(10), range(0, 9000, 2), range(70_000), [5, 1 << 20, 1 << 30]])
def test_bitmaps_end_where_they_end(positions: list[int]) -> None:
    rows = np.array(list(positions))
    data = serialize_bitmap(rows)
    found, end = read_bitmap(b"xx" + data + b"yy", 2)
    assert found == BitMap(rows.tolist())
    assert end == 2 + len(data)
    for cut in {0, 3, len(data) // 2, len(data) - 1}:
        with pytest.raises(ValueError):
            read_bitmap(data[:cut])


@pytest.mark.parametrize(
    "data",
    [
        b"\x3a\x30\0\0" + b"\xff\xff\xff\xff",
        b"\x3a\x30\0\0\1\0\0\0" + b"\0\0\2\0" + b"\x10\0\0\0" + b"\5\0\5\0\7\0",
        b"\x3a\x30\0\0\1\0\0\0" + b"\0\0\xff\xff" + b"\x10\0\0\0" + bytes(8192),
        b"\x3b\x30\0\0\1" + b"\0\0\x63\0" + b"\2\0" + b"\0\0\x31\0" + b"\x10\0\x31\0",
    ],
    ids=["containers", "values that repeat", "bits that are not set", "runs that overlap"],
)
def test_containers_are_what_they_say(data: bytes) -> None:
    with pytest.raises(ValueError):
        read_bitmap(data)
    body = (1581511376).to_bytes(4, "big") + data
    file = b"\1" + len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    with pytest.raises(CorruptError, match="index-1"):
        decode_vector(file, DeletionVectorRange("data-1", 1, len(body), None), "index-1")


def test_panics_of_libraries_are_errors_of_ours() -> None:
    """A text whose length is beyond its block makes polars panic."""
    schema = record("string")
    data = container(encode_long(1) + encode_long(2) + b"\x50a" + SYNC, schema)
    with pytest.raises(CorruptError, match="m-1"):
        decode_columns(data, "m-1") or decode_manifest(data, "m-1")
    assert pa is not None


def test_a_file_that_has_none_of_the_columns() -> None:
    """As files of other programs: to check no column at all ended the process."""
    written = io.BytesIO()
    pq.write_table(pa.table({"other": [1, 2, 3]}), written)
    source = ParquetSource(written, [DataField(0, "k", BIGINT)])
    with pytest.raises(InvalidError, match="column is missing"):
        list(source.batches(BatchSize(10)))


@pytest.mark.parametrize("names", [["k", "k"], ["k", "other", "k"]])
def test_a_column_that_is_in_a_file_twice(names: list[str]) -> None:
    """The ORC library gave the last of them."""
    written = io.BytesIO()
    orc.write_table(pa.Table.from_arrays([pa.array([1, 2])] * len(names), names), written)
    with pytest.raises(InvalidError, match=r"more than once.*column=k"):
        OrcSource(io.BytesIO(written.getvalue()), [DataField(0, "k", BIGINT)])


@pytest.mark.parametrize("kind", ["STRING", "BYTES", "ARRAY<STRING>", "ARRAY<BIGINT>"])
@pytest.mark.parametrize("encoded", [True, False])
def test_few_bytes_that_stand_for_many_are_read_in_parts(kind: str, encoded: bool) -> None:
    """200 MB in a file of some KB, as a long text that all rows have: the footer says nothing of its length."""
    count, text = 20_000, "x" * 10_000
    values = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([text])).cast(pa.string())
    if kind == "ARRAY<BIGINT>":
        values = pa.array(np.zeros(count * 1000, np.int64))
    if kind.startswith("ARRAY"):
        values = pa.ListArray.from_arrays(pa.array(range(0, len(values) + 1, len(values) // count), pa.int32()), values)
    written = io.BytesIO()
    pq.write_table(pa.table({"v": values.cast(pa.binary()) if kind == "BYTES" else values}), written)
    assert written.tell() < 200_000
    source = ParquetSource(
        written, [DataField(0, "v", parse_type_text(kind))], encoded=frozenset(["v"] if encoded else [])
    )
    found = 0
    for batch in source.batches(BatchSize(bytes=1 << 20)):
        assert batch.get_total_buffer_size() <= 10 << 20
        assert batch.column("v").null_count == 0
        found += batch.num_rows
    assert found == count


def test_a_column_chunk_of_another_type_than_its_column() -> None:
    """Its statistics, asked of the C++ library, ended the process."""
    written = io.BytesIO()
    pq.write_table(pa.table({"k": [1, 2, 3]}), written)
    data = written.getvalue()
    length = int.from_bytes(data[-8:-4], "little")
    tree = thrift.decode_struct(data[-8 - length : -8])
    chunk = thrift.get(thrift.get(tree, 4)[1][0], 1)[1][0]  # row groups, their columns
    thrift.put(thrift.get(chunk, 3), 1, thrift.I32, 0)  # ColumnMetaData.type: BOOLEAN
    footer = thrift.encode_struct(tree)
    forged = data[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    fields = [DataField(0, "k", BIGINT)]
    with pytest.raises(CorruptError, match="another type"):
        ParquetSource(io.BytesIO(forged), fields).bounds(fields)
    with pytest.raises(CorruptError, match="another type"):
        ParquetSource(io.BytesIO(forged), ()).codecs()


@pytest.mark.parametrize("kind", ["BIGINT", "INT", "BOOLEAN", "DOUBLE", "DECIMAL(30, 2)"])
@pytest.mark.parametrize("ordered", [True, False])
def test_a_bound_of_fewer_bytes_than_its_column_has(kind: str, ordered: bool) -> None:
    """Asked for it, the C++ library ended the process."""
    item = DataField(0, "k", parse_type_text(kind))
    written = io.BytesIO()
    values = pa.array([1, 0, 1]).cast(arrow_schema([item]).field(0).type)
    pq.write_table(pa.table({"a": [[1], [], [2, 3]], "k": values}), written, row_group_size=2)
    data = written.getvalue()
    length = int.from_bytes(data[-8:-4], "little")
    tree = thrift.decode_struct(data[-8 - length : -8])
    chunk = thrift.get(thrift.get(tree, 4)[1][-1], 1)[1][-1]  # the last row group's last column
    for bound in (5, 6) if ordered else (1, 2):
        thrift.put(thrift.get(thrift.get(chunk, 3), 12), bound, thrift.BINARY, b"")
    if not ordered:
        thrift.remove(tree, 7)
    footer = thrift.encode_struct(tree)
    forged = data[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    with pytest.raises(CorruptError, match="too short.*column=k"):
        ParquetSource(io.BytesIO(forged), [item]).bounds([item])
    assert ParquetSource(io.BytesIO(data), [item]).bounds([item])["k"].mins.null_count == 0


@pytest.mark.parametrize("codec", ["uncompressed", "zstd"])
@pytest.mark.parametrize("rows", [-1, 0, 2, 4, None])
def test_a_stripe_of_other_rows_than_its_file_says(codec: str, rows: int | None) -> None:
    """They were missing in reads, and after a compaction for good; below 0 they ended the process. None: no stripe."""
    written = io.BytesIO()
    orc.write_table(pa.table({"k": [1, 2, 3]}), written, compression=codec)
    whole, fields = written.getvalue(), [DataField(0, "k", BIGINT)]
    tail = read_tail(io.BytesIO(whole))
    (stripe,) = parts_of(tail.footer, 3)
    forged = [] if rows is None else [encode(replaced(parse(stripe), {5: rows % 2**64}))]
    end = tail.closed(replaced(tail.footer, {3: forged}), tail.metadata)
    assert OrcSource(io.BytesIO(whole), fields).rows == 3
    with pytest.raises(CorruptError, match="stripes have other rows"):
        OrcSource(io.BytesIO(whole[: tail.body] + end), fields)


@pytest.mark.parametrize("field", [5, 6])
@pytest.mark.parametrize("digits", [39, 2**31, 2**64 - 1])
def test_a_file_of_decimals_of_more_digits_than_there_are(field: int, digits: int) -> None:
    """The library ended the process."""
    written = io.BytesIO()
    orc.write_table(pa.table({"d": pa.array([None, 1], pa.decimal128(9, 2))}), written)
    tail = read_tail(written)
    row, kind = parts_of(tail.footer, 4)
    footer = replaced(tail.footer, {4: [row, encode(replaced(parse(kind), {field: digits}))]})
    forged = written.getvalue()[: tail.body] + tail.closed(footer, tail.metadata)
    with pytest.raises(CorruptError, match="more digits"):
        OrcSource(io.BytesIO(forged), [DataField(0, "d", parse_type_text("DECIMAL(9, 2)"))])


@pytest.mark.parametrize("field", [1, 5])
@pytest.mark.parametrize("length", [2**40, 2**63 - 1, 2**64 - 1])
def test_a_footer_longer_than_its_file(field: int, length: int) -> None:
    """The library ended the process."""
    written = io.BytesIO()
    orc.write_table(pa.table({"k": [1, 2, 3]}), written)
    data, tail = written.getvalue(), read_tail(written)
    end = encode(replaced(tail.postscript, {field: length}))
    with pytest.raises(CorruptError, match="bytes that it does not have"):
        OrcSource(io.BytesIO(data[: -1 - data[-1]] + end + bytes([len(end)])), [DataField(0, "k", BIGINT)])


@pytest.mark.parametrize("data", [b"", b"\x02x"])
def test_a_block_without_rows_does_not_end_an_avro_file(data: bytes) -> None:
    """The rows behind it were missing in reads, and after a compaction for good."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "k", "type": ["null", "long"]}]}
    header = Header(schema, "null", bytes(16))
    blocks = [Block(2, b"\x02\x02\x02\x04"), Block(0, data), Block(1, b"\x02\x06")]
    file = encode_header(header) + b"".join(encode_block(block, header, 0) for block in blocks)
    source = AvroSource(io.BytesIO(file), [DataField(0, "k", BIGINT)], most=3)
    (batch,) = source.batches(BatchSize())
    assert batch.column("k").to_pylist() == [1, 2, 3]
    assert [block.rows for block in read_blocks(io.BytesIO(file[len(encode_header(header)) :]), header)] == [2, 1]
