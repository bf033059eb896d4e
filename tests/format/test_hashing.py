"""Hashes and buckets: against the algorithm written out row by row, and against where Paimon put its rows."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import corpus
from tests.format.rows import BOOLEAN, DATE, DOUBLE, FLOAT, KINDS, decimal, stamp, values_of
from tests.profile import examples

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.format.metadata.manifest import decode_manifest
from bucketlake.format.row.binary_row import encode_row
from bucketlake.format.row.binary_rows import encode_rows
from bucketlake.format.row.hashing import assign_buckets, bucket_of, hash_rows
from bucketlake.paths import TablePaths
from bucketlake.schema.schema import TableSchema
from bucketlake.types.model import BIGINT, BYTES, INT, STRING, DataField, arrow_type, canonical_batch

MASK = 0xFFFFFFFF


def murmur(data: bytes) -> int:
    """Murmur3 over 4-byte words, seed 42, as a signed 32-bit integer."""
    h = 42
    for at in range(0, len(data), 4):
        k = int.from_bytes(data[at : at + 4], "little") * 0xCC9E2D51 & MASK
        k = (k << 15 | k >> 17) & MASK
        h ^= k * 0x1B873593 & MASK
        h = (h << 13 | h >> 19) & MASK
        h = (h * 5 + 0xE6546B64) & MASK
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & MASK
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def column(values, kind):
    return pa.record_batch([pa.array(values, arrow_type(kind))], names=["k"]), [DataField(0, "k", kind)]


@st.composite
def keys(draw):
    types = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    return types, draw(st.lists(st.tuples(*[st.none() | values_of(kind) for kind in types]), max_size=8))


@given(keys())
@settings(max_examples=examples(100, 1600), deadline=None)
def test_hashes_are_those_of_single_rows(table):
    types, rows = table
    arrays = [pa.array([row[i] for row in rows], arrow_type(kind)) for i, kind in enumerate(types)]
    assert hash_rows(encode_rows(arrays, types)).tolist() == [murmur(encode_row(row, types)) for row in rows]


def test_buckets_of_negative_hashes_truncate():
    hashes = np.array([-7, 7, -(2**31), 2**31 - 1, 0], np.int32)
    assert bucket_of(hashes, 5).tolist() == [2, 2, 3, 2, 0]


def test_mod_is_floor_mod():
    batch, fields = column([-1, 0, 7, -(2**63), None], BIGINT)
    assert assign_buckets(batch, fields, 5, "mod").tolist() == [4, 0, 2, 2, 0]
    with pytest.raises(InvalidError, match="exactly one field"):
        assign_buckets(batch, fields * 2, 5, "mod")
    with pytest.raises(InvalidError, match="INT or BIGINT"):
        assign_buckets(*column(["a"], STRING), 5, "mod")
    with pytest.raises(InvalidError, match="unknown bucket function"):
        assign_buckets(batch, fields, 5, "modulo")


@pytest.mark.parametrize(
    ("values", "kind", "hashes"),
    [
        ([5, -5, None], INT, [5, -5, 0]),
        ([True, False], BOOLEAN, [1, 0]),
        ([2**32 + 3, -1], BIGINT, [2, 0]),
        ([1.0, -0.0, float("nan")], FLOAT, [0x3F800000, 0, 0x7FC00000]),
        ([1.0, -0.0, float("nan")], DOUBLE, [0x3FF00000, 0, 0x7FF80000]),
        (["abc", "", "é", "x" * 40], STRING, [96354, 0, -1978, None]),
        ([b"abc", b"\xff"], BYTES, [96354, -1]),
        ([Decimal("1.50"), Decimal("-2.00"), Decimal("0.00")], decimal(10, 2), [31 * 15 + 1, -62, 0]),
        ([Decimal("100.00")], decimal(30, 2), [31 * 100]),
    ],
)
def test_hive_hashes(values, kind, hashes):
    found = assign_buckets(*column(values, kind), 2**31 - 1, "hive").tolist()
    for bucket, expected in zip(found, hashes, strict=True):
        assert expected is None or bucket == (expected & 0x7FFFFFFF) % (2**31 - 1)


@given(st.lists(values_of(decimal(38, 10)), min_size=1, max_size=5))
def test_hive_hashes_of_decimals_are_those_of_java(values):
    assert assign_buckets(*column(values, decimal(38, 10)), 1 << 30, "hive").tolist() == [
        (java_decimal_hash(value) & 0x7FFFFFFF) % (1 << 30) for value in values
    ]


def java_decimal_hash(value: Decimal) -> int:
    sign, digits, exponent = value.as_tuple()
    whole, scale = int("".join(map(str, digits))), -int(exponent)
    if whole == 0:
        return 0
    while scale > 0 and whole % 10 == 0:
        whole, scale = whole // 10, scale - 1
    h = 0
    for at in range(0, 16, 4):
        h = (31 * h + int.from_bytes(whole.to_bytes(16, "big")[at : at + 4], "big")) & MASK
    return (31 * (-h if sign else h) + scale) & MASK


def test_hive_combines_fields():
    fields = [DataField(0, "a", INT), DataField(1, "b", STRING)]
    batch = pa.record_batch({"a": pa.array([3], pa.int32()), "b": ["abc"]})
    assert assign_buckets(batch, fields, 1000, "hive").tolist() == [(31 * 3 + 96354) % 1000]
    dates, of_dates = column([10], DATE)
    assert assign_buckets(dates, of_dates, 7, "hive").tolist() == [3]
    with pytest.raises(UnsupportedError):
        assign_buckets(*column([], stamp(3)), 7, "hive")


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    return corpus.unpack(tmp_path_factory.mktemp("corpus"))


BUCKETED = [name for name in corpus.names() if name.startswith("key_")]


@pytest.mark.parametrize("name", [*BUCKETED, "append_bucketed", "pk_three_buckets", "pk_bucket_mod", "pk_bucket_hive"])
def test_rows_are_in_the_buckets_that_paimon_chose(warehouse, name):
    root = warehouse / "corpus.db" / name
    schema = TableSchema.decode((root / "schema" / "schema-0").read_bytes())
    paths = TablePaths(str(root), schema.partition_fields, schema.options)
    fields = [DataField(f.id, f.name, f.type.with_nullable(True)) for f in schema.select(schema.bucket_keys)]
    function = schema.options.get("bucket-function.type", "default")
    checked = 0
    for manifest in sorted((root / "manifest").glob("manifest-[0-9a-f]*")):
        for entry in decode_manifest(manifest.read_bytes(), manifest.name):
            path = paths.file_path(paths.bucket_dir(entry.partition, entry.bucket), entry.file)
            if entry.total_buckets < 2 or not path.endswith(".parquet"):
                continue
            try:
                table = pq.read_table(path, columns=[item.name for item in fields])
            except FileNotFoundError:
                continue
            for batch in table.to_batches():
                rows = canonical_batch(batch, fields, trusted=True)
                assert set(assign_buckets(rows, fields, entry.total_buckets, function).tolist()) == {entry.bucket}
                checked += batch.num_rows
    assert checked


@pytest.mark.parametrize("rows", [1, 2, 64, 65, 66, 300, 17_000])
def test_rows_of_many_lengths(rows: int) -> None:
    """Also where few of them are much longer than the others."""
    lengths = np.random.default_rng(rows).integers(0, 40, rows)
    lengths[:: max(1, rows // 3)] *= 50
    array = pa.array(["x" * int(length) + str(at) for at, length in enumerate(lengths)])
    found = hash_rows(encode_rows([array], [STRING]))
    some = range(0, rows, max(1, rows // 300))
    assert [int(found[at]) for at in some] == [murmur(encode_row([array[at].as_py()], [STRING])) for at in some]
