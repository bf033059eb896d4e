"""BinaryRow: single rows and columns of rows agree, round trips, and the bytes that Paimon writes."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.format.rows import BOOLEAN, DATE, DOUBLE, FLOAT, KINDS, TIME, decimal, stamp, values_of, zoned
from tests.profile import examples

from bucketlake.errors import CorruptError, InvalidError, UnsupportedError
from bucketlake.format.row.binary_row import (
    EMPTY_ROW,
    decode_columns,
    decode_row,
    encode_row,
    from_serialized,
    serialized,
    with_arity_header,
    without_arity_header,
)
from bucketlake.format.row.binary_rows import check_rows, encode_rows
from bucketlake.types.model import BIGINT, BYTES, INT, STRING, DataType, Root, arrow_type

ARRAY = DataType(Root.ARRAY, element=INT)


@st.composite
def tables(draw):
    types = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=6))
    rows = draw(st.lists(st.tuples(*[st.none() | values_of(kind) for kind in types]), max_size=6))
    return types, rows


@given(tables())
@settings(max_examples=examples(100, 2400), deadline=None)
def test_columns_encode_as_single_rows_do_and_decode_to_what_they_were(table):
    types, rows = table
    arrays = [pa.array([row[i] for row in rows], arrow_type(kind)) for i, kind in enumerate(types)]
    encoded = encode_rows(arrays, types)
    assert [encoded.row(i) for i in range(len(encoded))] == [encode_row(row, types) for row in rows]
    stored = [with_arity_header(encoded.row(i), len(types)) for i in range(len(encoded))]
    assert [from_serialized(row, types) for row in stored] == rows
    for found, array in zip(decode_columns(stored, types, range(len(types))), arrays, strict=True):
        found.validate(full=True)
        assert found.equals(array)


def test_slices_of_arrays_encode_as_their_rows():
    types = [STRING, decimal(30, 2), stamp(6), BOOLEAN, BYTES]
    rows = [
        ("a longer text", Decimal("1.50"), dt.datetime(2024, 1, 2), True, b"0123456789"),
        (None, None, None, None, None),
        ("short", Decimal("-99999999999999999999.99"), dt.datetime(1960, 1, 1, 0, 0, 0, 1), False, b""),
        ("x" * 100, Decimal(0), dt.datetime(2000, 1, 1), True, b"\xff"),
    ]
    arrays = [pa.array([row[i] for row in rows], arrow_type(kind)).slice(1) for i, kind in enumerate(types)]
    encoded = encode_rows(arrays, types)
    assert [encoded.row(i) for i in range(3)] == [encode_row(row, types) for row in rows[1:]]


def test_bytes_of_fixed_fields():
    row = encode_row([-2, True, 1.5, dt.date(1970, 1, 3)], [INT, BOOLEAN, FLOAT, DATE])
    assert row.hex(" ", 8) == ("0000000000000000 feffffff00000000 0100000000000000 0000c03f00000000 0200000000000000")


def test_bytes_of_texts_inline_and_outside():
    row = encode_row(["abc", "hello world", b""], [STRING, STRING, BYTES])
    assert row.hex(" ", 8) == (
        "0000000000000000 6162630000000083 0b00000020000000 0000000000000080 68656c6c6f20776f 726c640000000000"
    )


def test_null_decimals_and_timestamps_keep_their_place():
    row = encode_row([None, None, None, None], [decimal(38, 10), stamp(6), STRING, decimal(18, 2)])
    assert row.hex(" ", 8) == (
        "000f000000000000 0000000028000000 0000000038000000 0000000000000000 0000000000000000 "
        "0000000000000000 0000000000000000 0000000000000000"
    )


def test_bytes_of_large_decimals_and_precise_timestamps():
    row = encode_row([Decimal("-1.28"), dt.datetime(1970, 1, 1, 0, 0, 1, 500)], [decimal(20, 2), stamp(6)])
    assert row.hex(" ", 8) == (
        "0000000000000000 0100000018000000 20a1070028000000 8000000000000000 0000000000000000 e803000000000000"
    )


def test_many_fields_take_more_null_words():
    types = [INT] * 57
    row = encode_row([None] * 57, types)
    assert len(row) == 16 + 57 * 8
    assert row[:16] == b"\0" + b"\xff" * 7 + b"\x01" + bytes(7)
    assert decode_row(row, types) == (None,) * 57


def test_empty_row():
    assert bytes(12) == EMPTY_ROW
    assert serialized([], []) == EMPTY_ROW
    assert decode_row(without_arity_header(EMPTY_ROW), []) == ()
    assert len(encode_rows(pa.record_batch({"a": [1, 2]}).select([]), [])) == 2


def test_values_beyond_python_are_integers():
    assert decode_row(encode_row([10_000_000], [DATE]), [DATE]) == (10_000_000,)
    far = encode_row([10**15], [stamp(3)])
    assert decode_row(far, [stamp(3)]) == (10**15,)
    assert decode_columns([with_arity_header(far, 1)], [stamp(3)], [0])[0].cast(pa.int64()).to_pylist() == [10**15]


def test_precise_timestamps_beyond_64_bit_nanoseconds_are_unknown_in_columns():
    values = [10**22, -(10**22), 2**63 - 1, 2**63, -(2**63), -(2**63) - 1]
    rows = [serialized([value], [stamp(9)]) for value in values]
    assert [from_serialized(row, [stamp(9)])[0] for row in rows] == values
    found = decode_columns(rows, [stamp(9)], [0])[0].cast(pa.int64()).to_pylist()
    assert found == [None, None, 2**63 - 1, None, -(2**63), None]


def test_zoned_timestamps_take_any_zone():
    noon = dt.datetime(2024, 1, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    assert decode_row(encode_row([noon], [zoned(6)]), [zoned(6)]) == (noon,)


def test_rows_of_fewer_fields_give_nulls():
    rows = [serialized([1, "x"], [INT, STRING]), serialized([2], [INT]), EMPTY_ROW]
    first, second = decode_columns(rows, [INT, STRING], [0, 1])
    assert first.to_pylist() == [1, 2, None]
    assert second.to_pylist() == ["x", None, None]


def test_nested_values_are_null_or_raw():
    row = serialized([None, 5], [ARRAY, BIGINT])
    assert from_serialized(row, [ARRAY, BIGINT]) == (None, 5)
    assert decode_columns([row], [ARRAY, BIGINT], [0])[0].to_pylist() == [None]
    assert decode_row(encode_row([b"raw bytes of it"], [BYTES]), [ARRAY]) == (b"raw bytes of it",)
    with pytest.raises(UnsupportedError):
        encode_row([[1]], [ARRAY])
    with pytest.raises(UnsupportedError):
        encode_rows([pa.array([[1]])], [ARRAY])


@pytest.mark.parametrize(
    ("value", "kind"),
    [(1 << 31, INT), ("x", INT), (Decimal("1.234"), decimal(5, 2)), (Decimal(1000), decimal(5, 2)), (5, STRING),
     ("x", DOUBLE), ("10:00", TIME)],
)  # fmt: skip
def test_values_that_do_not_fit_are_named(value, kind):
    with pytest.raises(InvalidError, match="does not fit its type"):
        encode_row([value], [kind])


@pytest.mark.parametrize("data", [b"", b"\0\0\0\1", bytes(12)])
def test_rows_that_are_too_short_are_corrupt(data):
    with pytest.raises(CorruptError):
        from_serialized(data, [INT])


@pytest.mark.parametrize("many", [1, 100])
def test_few_rows_are_checked_as_many_are(many):
    good = with_arity_header(encode_row([1, None], [INT, BIGINT]), 2)
    check_rows([good] * many, [INT, BIGINT])
    check_rows([EMPTY_ROW] * many, [])
    for row in (b"", good[:-1], EMPTY_ROW, with_arity_header(good[4:], 3)):
        with pytest.raises(CorruptError):
            check_rows([good] * (many - 1) + [row], [INT, BIGINT])
    with pytest.raises(CorruptError):
        check_rows([EMPTY_ROW] * many + [good], [])


def test_fields_outside_their_row_are_corrupt():
    row = with_arity_header(bytes(8) + (100 << 32 | 20).to_bytes(8, "little"), 1)
    with pytest.raises(CorruptError, match="outside"):
        from_serialized(row, [STRING])
    with pytest.raises(CorruptError, match="outside"):
        decode_columns([row], [STRING], [0])
