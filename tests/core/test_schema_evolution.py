from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.schema.evolution import cast_allowed, cast_array, evolve_batch, read_mapping
from bucketlake.types.model import arrow_schema, arrow_type
from bucketlake.types.parse import parse_type_text

from .strategies import column, columns


def flink(text):
    return parse_type_text(text, "flink")


def cast(values, source, target):
    found = cast_array(pa.array(values, arrow_type(flink(source))), flink(source), flink(target))
    found.validate(full=True)
    assert found.type == arrow_type(flink(target))
    return found.to_pylist()


@pytest.mark.parametrize(
    ("source", "target", "values", "expected"),
    [
        ("INT", "BIGINT", [1, None, -1], [1, None, -1]),
        ("BIGINT", "TINYINT", [300, -1], [44, -1]),
        ("DOUBLE", "INT", [1.9, -1.9, 1e20, -1e20, float("nan"), None], [1, -1, 2**31 - 1, -(2**31), 0, None]),
        ("DOUBLE", "BIGINT", [1e30, 2.5], [2**63 - 1, 2]),
        ("DECIMAL(10, 2)", "INT", [Decimal("1.99"), Decimal("-1.99"), None], [1, -1, None]),
        ("DECIMAL(10, 2)", "DECIMAL(4, 1)", [Decimal("1.25"), Decimal("-1.25"), Decimal("1000.00")],
         [Decimal("1.3"), Decimal("-1.3"), None]),
        ("DECIMAL(10, 2)", "DECIMAL(38, 20)", [Decimal("1.25")], [Decimal("1.25")]),
        ("INT", "DECIMAL(4, 2)", [12, 100, None], [Decimal(12), None, None]),
        ("DOUBLE", "DECIMAL(4, 2)", [1.5, 1e9, None], [Decimal("1.50"), None, None]),
        ("DECIMAL(10, 2)", "DOUBLE", [Decimal("1.25")], [1.25]),
        ("BOOLEAN", "INT", [True, False, None], [1, 0, None]),
        ("INT", "BOOLEAN", [0, 2, None], [False, True, None]),
        ("INT", "STRING", [5, None], ["5", None]),
        ("BOOLEAN", "STRING", [True, False], ["true", "false"]),
        ("DECIMAL(10, 2)", "STRING", [Decimal("1.20")], ["1.20"]),
        ("DATE", "STRING", [dt.date(2024, 2, 29)], ["2024-02-29"]),
        ("TIMESTAMP(3)", "STRING", [dt.datetime(2024, 1, 1)], ["2024-01-01 00:00:00.000"]),
        ("TIMESTAMP(0)", "STRING", [dt.datetime(2024, 1, 1)], ["2024-01-01 00:00:00"]),
        ("TIMESTAMP(2)", "STRING", [dt.datetime(2024, 1, 1, 0, 0, 0, 120_000)], ["2024-01-01 00:00:00.12"]),
        ("STRING", "VARCHAR(2)", ["äbc", "a"], ["äb", "a"]),
        ("STRING", "CHAR(3)", ["a"], ["a  "]),
        ("STRING", "INT", [" 5 ", None], [5, None]),
        ("STRING", "DOUBLE", ["1.5"], [1.5]),
        ("STRING", "DECIMAL(4, 1)", ["1.25", "12345"], [Decimal("1.3"), None]),
        ("STRING", "BOOLEAN", ["Yes", "f", None], [True, False, None]),
        ("STRING", "INT", ["1.9", "-1.", "+3"], [1, -1, 3]),
        # no digit is lost, and none is made up
        ("STRING", "DECIMAL(38, 0)", ["9" * 30, "9" * 60, f"0.5{'1' * 30}", None], [Decimal("9" * 30), None, 1, None]),
        ("STRING", "DECIMAL(38, 38)", [" 7 ", "-.5", f"1e-{'0' * 3}2"], [None, Decimal("-0.5"), Decimal("0.01")]),
        ("STRING", "DECIMAL(5, 2)", ["1.005E2", "12e-1", "1e400", "0e400", "1e-400"],
         [Decimal("100.5"), Decimal("1.2"), None, 0, 0]),
        ("DOUBLE", "DECIMAL(38, 18)", [1.1, 1e-7, float("nan"), float("inf")],
         [Decimal("1.1"), Decimal("1e-7"), None, None]),
        ("DOUBLE", "DECIMAL(4, 0)", [2.5, -0.5, None], [3, -1, None]),
        ("FLOAT", "DECIMAL(38, 18)", [0.5], [Decimal("0.5")]),
        ("DECIMAL(20, 8)", "STRING", [Decimal("1e-8"), 0, Decimal("-0.5"), None],
         ["0.00000001", "0.00000000", "-0.50000000", None]),
        ("DECIMAL(20, 8)", "VARCHAR(3)", [Decimal("1e-8")], ["0.0"]),
        ("DECIMAL(38, 38)", "DECIMAL(38, 0)", [Decimal(f"0.{'9' * 38}"), None], [1, None]),
        ("DECIMAL(38, 38)", "BIGINT", [Decimal(f"-0.{'9' * 38}"), None], [0, None]),
        ("DECIMAL(38, 0)", "BIGINT", [Decimal("9" * 38)], [687399551400673279]),  # the lowest 64 bits, as Java's
        ("DECIMAL(38, 38)", "DOUBLE", [Decimal(f"0.{'9' * 38}")], [1.0]),
        ("DECIMAL(18, 3)", "DOUBLE", [Decimal("123456789012345.678")], [123456789012345678 / 1000.0]),  # rounded twice
        ("STRING", "DATE", ["2024-02-29"], [dt.date(2024, 2, 29)]),
        ("STRING", "TIMESTAMP(3)", ["2024-02-29 01:02:03.5"], [dt.datetime(2024, 2, 29, 1, 2, 3, 500_000)]),
        ("STRING", "DATE", ["2024-2-9", "2024-02", "2024-02-29 01:02:03", None],
         [dt.date(2024, 2, 9), dt.date(2024, 2, 1), dt.date(2024, 2, 29), None]),
        ("STRING", "TIMESTAMP(3)", ["2024-2-9 1:02:3.12399", "2024-02-29", "2024-02-29T01:02:03", None],
         [dt.datetime(2024, 2, 9, 1, 2, 3, 123_000), dt.datetime(2024, 2, 29), dt.datetime(2024, 2, 29, 1, 2, 3), None]),
        ("STRING", "BYTES", ["ab"], [b"ab"]),
        ("BYTES", "STRING", [b"ab"], ["ab"]),
        ("BYTES", "VARBINARY(1)", [b"ab"], [b"a"]),
        ("TIMESTAMP(6)", "TIMESTAMP(3)", [dt.datetime(1969, 1, 1, 0, 0, 0, 1999)],
         [dt.datetime(1969, 1, 1, 0, 0, 0, 1000)]),
        ("STRING", "BINARY(3)", ["a", "abcd", "", None], [b"a\0\0", b"abc", b"\0\0\0", None]),
        ("BINARY(1)", "BINARY(2)", [b"a", None], [b"a\0", None]),
        ("BYTES", "BINARY(2)", [None], [None]),
        # of a second's digits those that the type has not are cut off, of milliseconds towards 1970, as Paimon does
        ("TIMESTAMP(3)", "TIMESTAMP(0)", [dt.datetime(2024, 1, 1, 0, 0, 1, 789_000), None],
         [dt.datetime(2024, 1, 1, 0, 0, 1), None]),
        ("TIMESTAMP(6)", "TIMESTAMP(2)", [dt.datetime(1969, 12, 31, 23, 59, 59, 123_456)],
         [dt.datetime(1969, 12, 31, 23, 59, 59, 130_000)]),
        ("TIMESTAMP(6)", "TIMESTAMP(4)", [dt.datetime(1969, 12, 31, 23, 59, 59, 123_456)],
         [dt.datetime(1969, 12, 31, 23, 59, 59, 123_400)]),
        ("TIMESTAMP(9)", "TIMESTAMP(1)", [1_999_999_999, -1], [dt.datetime(1970, 1, 1, 0, 0, 1, 900_000),
         dt.datetime(1970, 1, 1)]),
        ("TIMESTAMP(9)", "TIMESTAMP(5)", [1_999_999_999, -1], [dt.datetime(1970, 1, 1, 0, 0, 1, 999_990),
         dt.datetime(1969, 12, 31, 23, 59, 59, 999_990)]),
        ("TIMESTAMP(3)", "TIMESTAMP(1)", [dt.datetime(2024, 1, 1, 0, 0, 0, 250_000)],
         [dt.datetime(2024, 1, 1, 0, 0, 0, 200_000)]),
        ("TIMESTAMP(6)", "DATE", [dt.datetime(1969, 12, 31, 23), dt.datetime(1969, 12, 31), dt.datetime(1970, 1, 1, 23)],
         [dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1)]),
        ("TIMESTAMP(6)", "TIME(3)", [dt.datetime(2024, 1, 1, 1, 2, 3)], [dt.time(1, 2, 3)]),
        ("DATE", "TIMESTAMP(6)", [dt.date(2024, 1, 1)], [dt.datetime(2024, 1, 1)]),
        ("ARRAY<INT>", "ARRAY<BIGINT>", [[1, None], None, []], [[1, None], None, []]),
        ("MAP<STRING, INT>", "MAP<STRING, BIGINT>", [[("a", 1)], None, []], [[("a", 1)], None, []]),
    ],
)  # fmt: skip
def test_casts(source, target, values, expected):
    assert cast(values, source, target) == expected


@pytest.mark.parametrize(
    ("source", "target", "allowed", "implicit"),
    [
        ("INT", "BIGINT", True, True),
        ("BIGINT", "INT", True, False),
        ("INT NOT NULL", "INT", True, True),
        ("BIGINT", "FLOAT", True, True),
        ("DOUBLE", "FLOAT", True, False),
        ("VARCHAR(3)", "STRING", True, True),
        ("STRING", "CHAR(3)", True, False),
        ("INT", "DATE", False, False),
        ("DATE", "INT", False, False),
        ("DOUBLE", "STRING", False, False),
        ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", False, False),
        ("TIMESTAMP_LTZ(6)", "TIMESTAMP_LTZ(3)", True, True),
        ("ARRAY<INT>", "ARRAY<BIGINT>", False, False),
        ("BOOLEAN", "DOUBLE", True, False),
        # Paimon would cast none of these, and not read the table
        ("DATE", "STRING", True, False),
        ("DATE NOT NULL", "STRING NOT NULL", False, False),
        ("TIMESTAMP(3)", "VARCHAR(30)", False, False),
        ("TIMESTAMP_LTZ(3)", "CHAR(30)", False, False),
        ("TIME(3)", "TIME(0)", False, False),
    ],
)
def test_which_casts_alter_allows(source, target, allowed, implicit):
    assert cast_allowed(flink(source), flink(target)) is allowed
    assert cast_allowed(flink(source), flink(target), explicit=False) is implicit


def test_columns_are_found_by_id():
    stored = columns(a="INT", b="STRING", c="INT")
    wanted = [replace(stored[2], name="cc"), column("new", "DATE", 9), replace(stored[0], type=flink("BIGINT"))]
    mapping = read_mapping(stored, wanted)
    assert [(m.source.name if m.source else None, m.cast) for m in mapping] == [
        ("c", False),
        (None, False),
        ("a", True),
    ]
    batch = pa.record_batch({"a": [1, 2], "b": ["x", "y"], "c": [3, None]}, schema=arrow_schema(stored))
    found = evolve_batch(batch, mapping)
    assert found.to_pylist() == [{"cc": 3, "new": None, "a": 1}, {"cc": None, "new": None, "a": 2}]
    assert found.schema == arrow_schema(wanted)


def test_rows_evolve_by_id_too():
    stored = column("r", "ROW<a INT, b ROW<c INT>, d INT>")
    _, b, d = stored.type.fields
    inner = replace(b, type=replace(b.type, fields=(replace(b.type.fields[0], name="cc", type=flink("STRING")),)))
    wanted = replace(stored, type=replace(stored.type, fields=(d, inner, column("n", "INT", 77))))
    mapping = read_mapping([stored], [wanted])
    batch = pa.RecordBatch.from_pylist(
        [{"r": {"a": 1, "b": {"c": 2}, "d": 3}}, {"r": None}, {"r": {"a": 1, "b": None, "d": None}}],
        schema=arrow_schema([stored]),
    )
    assert evolve_batch(batch, mapping).to_pylist() == [
        {"r": {"d": 3, "b": {"cc": "2"}, "n": None}},
        {"r": None},
        {"r": {"d": None, "b": None, "n": None}},
    ]
    assert evolve_batch(batch.slice(1), mapping).to_pylist()[1]["r"] == {"d": None, "b": None, "n": None}


def test_no_cast_names_the_column():
    with pytest.raises(UnsupportedError, match="column=c"):
        read_mapping([column("x", "DOUBLE")], [column("c", "STRING")])


def test_text_that_is_no_number():
    with pytest.raises(InvalidError, match="cannot be cast"):
        cast(["five"], "STRING", "INT")


def test_a_stored_value_that_no_cast_takes_names_the_column_and_the_way_back():
    stored, wanted = [column("x", "STRING")], [column("c", "INT")]
    batch = pa.RecordBatch.from_arrays([pa.array(["1", "Rome"])], schema=arrow_schema(stored))
    with pytest.raises(InvalidError, match=r"cannot be cast.*column=c,.*'Rome'.*ALTER the column back to STRING"):
        evolve_batch(batch, read_mapping(stored, wanted))
