from __future__ import annotations

import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.types.arrow import filled
from bucketlake.types.model import (
    DataField,
    DataType,
    Root,
    arrow_type,
    format_type,
    from_arrow_type,
    refuse_type,
    type_text,
)
from bucketlake.types.parse import parse_field, parse_type, parse_type_text

from .strategies import types


@given(types())
def test_schema_json_round_trip(t):
    assert parse_type(format_type(t)) == t


@given(types())
def test_sql_text_round_trip_but_for_ids(t):
    again = parse_type_text(type_text(t), "flink")
    assert type_text(again) == type_text(t)


@given(types())
def test_types_pickle(t):
    assert pickle.loads(pickle.dumps(t)) == t


@given(types())
def test_arrow_type_maps_back_to_a_type_with_the_same_arrow_type(t):
    assert arrow_type(from_arrow_type(arrow_type(t))) == arrow_type(t)


@pytest.mark.parametrize(
    ("text", "json"),
    [
        ("INT NOT NULL", "INT NOT NULL"),
        ("STRING", "STRING"),
        ("VARCHAR(2147483647)", "STRING"),
        ("VARBINARY(2147483647) NOT NULL", "BYTES NOT NULL"),
        ("TIMESTAMP_LTZ(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        ("TIMESTAMP WITHOUT TIME ZONE", "TIMESTAMP(6)"),
        ("TIME", "TIME(0)"),
        ("DECIMAL(5)", "DECIMAL(5, 0)"),
        ("DOUBLE PRECISION", "DOUBLE"),
        ("INT NOT NULL ARRAY", {"type": "ARRAY", "element": "INT NOT NULL"}),
        ("MULTISET<INT>", {"type": "MULTISET", "element": "INT"}),
        ("VECTOR<FLOAT, 3> NOT NULL", {"type": "VECTOR NOT NULL", "element": "FLOAT", "length": 3}),
        (
            "MAP<STRING NOT NULL, ARRAY<INT>> NOT NULL",
            {"type": "MAP NOT NULL", "key": "STRING NOT NULL", "value": {"type": "ARRAY", "element": "INT"}},
        ),
        (
            "ROW<a INT, `b c` STRING 'it''s'>",
            {
                "type": "ROW",
                "fields": [
                    {"id": 0, "name": "a", "type": "INT"},
                    {"id": 1, "name": "b c", "type": "STRING", "description": "it's"},
                ],
            },
        ),
    ],
)
def test_text_and_json_forms(text, json):
    assert format_type(parse_type_text(text, "flink")) == json
    assert parse_type(json) == parse_type_text(text, "flink")


@pytest.mark.parametrize(
    ("text", "spark", "flink"),
    [
        ("TIMESTAMP", "TIMESTAMP(6) WITH LOCAL TIME ZONE", "TIMESTAMP(6)"),
        ("TIMESTAMP(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(3)"),
        ("TIMESTAMP_NTZ", "TIMESTAMP(6)", "TIMESTAMP(6)"),
        ("BINARY", "BYTES", "BINARY(1)"),
        ("LONG", "BIGINT", "BIGINT"),
        ("STRUCT<a: INT COMMENT 'x', b STRING>", "ROW<`a` INT COMMENT 'x', `b` STRING>", None),
    ],
)
def test_dialects(text, spark, flink):
    assert type_text(parse_type_text(text, "spark")) == spark
    assert flink is None or type_text(parse_type_text(text, "flink")) == flink


@pytest.mark.parametrize(
    "text", ["", "NOPE", "INT INT", "DECIMAL(39, 1)", "DECIMAL(3, 4)", "ARRAY<INT", "CHAR(0)", "TIMESTAMP(10)", "INT;"]
)
def test_what_is_no_type_is_refused(text):
    with pytest.raises(InvalidError):
        parse_type_text(text)


@pytest.mark.parametrize("root", [Root.MULTISET, Root.BLOB])
def test_types_without_values_are_refused_by_name(root):
    inner = DataType(root, element=DataType(Root.INT) if root is Root.MULTISET else None)
    nested = DataType(Root.ARRAY, element=inner)
    if root is Root.BLOB:  # an ARRAY of it is a column of blob files
        refuse_type(nested)
        nested = DataType(Root.ARRAY, element=nested)
    with pytest.raises(UnsupportedError, match=root.value):
        refuse_type(nested)
    with pytest.raises(UnsupportedError, match=root.value):
        arrow_type(nested)


def test_field_with_default_and_description():
    json = {"id": 7, "name": "a", "type": "INT", "description": "d", "defaultValue": "1"}
    assert parse_field(json) == DataField(7, "a", DataType(Root.INT), "d", "1")


@pytest.mark.parametrize(
    ("arrow", "text"),
    [
        (pa.uint8(), "SMALLINT"),
        (pa.uint64(), "DECIMAL(20, 0)"),
        (pa.timestamp("s"), "TIMESTAMP(0)"),
        (pa.timestamp("ns", "Europe/Paris"), "TIMESTAMP(9) WITH LOCAL TIME ZONE"),
        (pa.time64("us"), "TIME(6)"),
        (pa.large_string(), "STRING"),
        (pa.string_view(), "STRING"),
        (pa.dictionary(pa.int32(), pa.string()), "STRING"),
        (pa.binary(4), "BINARY(4)"),
        (pa.large_list(pa.int8()), "ARRAY<TINYINT>"),
        (pa.list_(pa.int8(), 3), "ARRAY<TINYINT>"),
    ],
)
def test_from_arrow(arrow, text):
    assert type_text(from_arrow_type(arrow)) == text


def test_from_arrow_refuses_what_has_no_counterpart():
    with pytest.raises(UnsupportedError):
        from_arrow_type(pa.duration("s"))


@pytest.mark.parametrize(
    "text", ["ARRAY<" * 10_000 + "INT" + ">" * 10_000, "INT" + " ARRAY" * 10_000, "ROW<a " * 2_000 + "INT" + ">" * 2_000,
             "DECIMAL(" + "9" * 5_000 + ")"],
)  # fmt: skip
def test_texts_without_measure_are_refused(text):
    with pytest.raises(InvalidError, match="cannot parse type"):
        parse_type_text(text)
    assert parse_type_text("ARRAY<" * 49 + "INT" + ">" * 49).element is not None


@pytest.mark.parametrize(
    "text",
    ["INT", "TINYINT", "BIGINT", "DOUBLE", "BOOLEAN", "DECIMAL(38, 9)", "STRING", "BYTES", "DATE", "TIME(3)", "VARIANT"]
    + [
        "TIMESTAMP(3)",
        "TIMESTAMP(6)",
        "TIMESTAMP(9)",
        "TIMESTAMP_LTZ(6)",
        "ARRAY<INT NOT NULL>",
        "ROW<z INT NOT NULL>",
    ],
)
def test_null_rows_of_members_that_are_not_null_can_be_stored(text):
    row = arrow_type(parse_type_text(f"ROW<x {text} NOT NULL, y INT>", "flink"))
    rows = pa.StructArray.from_arrays(
        [pa.nulls(3, row.field(0).type), pa.nulls(3, pa.int32())], fields=list(row.fields), mask=pa.array([True] * 3)
    )
    for array in (
        rows.slice(1),
        pa.array([None, [None]], pa.list_(row)),
        pa.array([[("a", None)]], pa.map_("string", row)),
    ):
        found = filled(array)
        assert found.type == array.type and found.to_pylist() == array.to_pylist()
        pq.write_table(pa.table({"c": found}), pa.BufferOutputStream())


def test_collations():
    """Spark writes that of bytes behind every text (SHOW CREATE TABLE); tables have no other."""
    for plain in ("STRING", "CHAR(3) NOT NULL", "ARRAY<VARCHAR(2)>", "MAP<STRING, INT>"):
        written = plain.replace("STRING", "STRING COLLATE UTF8_BINARY").replace(")", ") collate `utf8_binary`")
        assert parse_type_text(written) == parse_type_text(plain)
    with pytest.raises(UnsupportedError, match="tables store no collation.*collation=UTF8_LCASE"):
        parse_type_text("ROW<a: STRING COLLATE UTF8_LCASE>")
    for odd in ("INT COLLATE UTF8_BINARY", "STRING COLLATE"):
        with pytest.raises(InvalidError, match="cannot parse type"):
            parse_type_text(odd)
