"""Columns of statistics rows equal what decoding row by row gives."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from tests.sim.tables import entry

from bucketlake.format.binary_row import decode_row, encode_row, with_arity_header, without_arity_header
from bucketlake.format.manifest import decode_manifest, encode_manifest
from bucketlake.format.manifest_columns import decode_columns
from bucketlake.ops.statcolumns import column
from bucketlake.types import arrow_type, parse_type_text

CASES = {
    "BOOLEAN": [True, False],
    "TINYINT": [-128, 127],
    "SMALLINT": [-(2**15), 5],
    "INT": [-(2**31), 2**31 - 1],
    "BIGINT": [-(2**63), 2**63 - 1],
    "FLOAT": [1.5, -0.25],
    "DOUBLE": [1e300, -2.5],
    "DECIMAL(18, 2)": [Decimal("-1.25"), Decimal("9999999999999999.99")],
    "DECIMAL(30, 3)": [Decimal("123456789012345678901.125"), Decimal("-1.000")],
    "DATE": [dt.date(1900, 1, 1), dt.date(2024, 2, 29)],
    "STRING": ["", "short", "1234567", "12345678", "é" * 40],
    "BYTES": [b"", b"\x00\xff", b"x" * 100],
    "TIMESTAMP(3)": [dt.datetime(1969, 12, 31, 23, 59, 59, 999000), dt.datetime(2024, 1, 1)],
    "TIMESTAMP(6)": [dt.datetime(2024, 1, 1, 0, 0, 0, 123456), dt.datetime(1900, 1, 1)],
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("others", [0, 1, 70])
def test_a_column_is_what_rows_hold(name: str, others: int) -> None:
    kind = parse_type_text(name, "spark")
    types = [parse_type_text("INT", "spark")] * others + [kind]
    values = [*CASES[name], None]
    rows = [with_arity_header(encode_row((*range(others), value), types), len(types)) for value in values]
    decoded = [decode_row(without_arity_header(row), types)[-1] for row in rows]
    found = column(rows, types, others)
    assert found.type == arrow_type(kind)
    assert found.equals(pa.array(decoded, arrow_type(kind)))


@pytest.mark.parametrize("compression", ["zstd", "none", "deflate", "snappy"])
def test_manifests_by_column_equal_manifests_by_record(compression: str) -> None:
    entries = [
        entry("a", 1, level=3, extra_files=("x", "y"), embedded_index=b"i"),
        entry("b", None, 7, value_stats_cols=None, delete_row_count=None, external_path="s3://b/c"),
        entry("c", 2, first_row_id=5, write_cols=("k",), file_source=None, creation_time=None),
    ]
    data = encode_manifest(entries * 200, compression)
    assert decode_columns(data) == decode_manifest(data) == entries * 200


def test_what_is_no_manifest_is_left_to_the_other_reader() -> None:
    assert decode_columns(b"") is None
    assert decode_columns(b"Obj\x01junk") is None
    assert decode_columns(encode_manifest([entry("a")])[:-30]) is None
