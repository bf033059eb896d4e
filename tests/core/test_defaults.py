"""Defaults of columns: what a schema file's text means, what SQL's constants are stored as, what is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
import sqlglot

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.schema import constant
from bucketlake.schema.change import AddColumn, UpdateColumnDefault, UpdateColumnType
from bucketlake.schema.default import default_scalar, default_sql, stored_default
from bucketlake.schema.versions import apply, create_schema
from bucketlake.types.model import DataField
from bucketlake.types.parse import parse_type_text


def field(kind: str, default: str | None = None) -> DataField:
    return DataField(0, "c", parse_type_text(kind, "spark"), None, default)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("INT", "5", 5),
        ("INT", "'5'", 5),
        ("INT", " -5 ", -5),
        ("STRING", "abc", "abc"),
        ("STRING", "'abc'", "abc"),
        ("STRING", "'it's'", "it's"),
        ("STRING", "a b (c)", "a b (c)"),
        ("STRING", "NULL", None),
        ("STRING", "'NULL'", "NULL"),
        ("STRING", "1+1", "1+1"),
        ("BOOLEAN", "yes", True),
        ("DATE", "2024-02-03", dt.date(2024, 2, 3)),
        ("DECIMAL(5,2)", "1.5", Decimal("1.50")),
        ("ARRAY<INT>", "[1, 2]", [1, 2]),
        ("ARRAY<INT>", "ARRAY(1, null)", [1, None]),
        ("ARRAY<INT>", "[]", []),
        ("ARRAY<STRING>", "[a, b c]", ["a", "b c"]),
        ("ARRAY<ARRAY<INT>>", "[[1, 2], [3]]", [[1, 2], [3]]),
        ("MAP<STRING,INT>", "{a -> 1, b -> 2}", [("a", 1), ("b", 2)]),
        ("MAP<INT,DOUBLE>", "map(99, 99.99D)", [(99, 99.99)]),
        ("MAP<BIGINT,STRING>", 'map(9999, "hello")', [(9999, "hello")]),
        ("MAP<INT,INT>", "map()", []),
        ("MAP<INT,INT>", "NULL", None),
        ("STRUCT<a:INT,b:STRING>", "{1, x}", {"a": 1, "b": "x"}),
        ("STRUCT<a:INT,b:STRING>", "{}", {"a": None, "b": None}),
        # what only SQL can mean: earlier versions stored expressions as they were written
        ("INT", "1+1", 2),
        ("DATE", "DATE '2024-02-03'", dt.date(2024, 2, 3)),
        ("ARRAY<STRING>", "array('a', 'b')", ["a", "b"]),
        ("STRUCT<a:INT,b:STRING>", "named_struct('a', 1, 'b', 'x')", {"a": 1, "b": "x"}),
    ],
)
def test_stored_text_means_what_paimon_casts_it_to(kind: str, text: str, value: object) -> None:
    assert default_scalar(field(kind, text)).as_py() == value


@pytest.mark.parametrize(
    ("kind", "text", "stored"),
    [
        ("INT", "1 + 1", "2"),
        ("BIGINT", "-(2 * 3)", "-6"),
        ("INT", "7 DIV 2", "3"),
        ("DOUBLE", "1 / 4", "0.25"),
        ("BIGINT", "CAST('7' AS BIGINT)", "7"),
        ("STRING", "'O''Brien'", "'O'Brien'"),
        ("STRING", r"'a\'b\\c'", r"'a'b\c'"),
        ("STRING", "'a' 'b'", "'ab'"),
        ("STRING", "'a' || 'b'", "'ab'"),
        ("STRING", "5", "'5'"),
        ("STRING", "NULL", None),
        ("STRING", "'NULL'", "'NULL'"),
        ("BOOLEAN", "true", "true"),
        ("DATE", "DATE '2024-02-03'", "2024-02-03"),
        ("TIMESTAMP_NTZ", "TIMESTAMP '2024-02-03 04:05:06'", "2024-02-03 04:05:06"),
        ("BINARY", "X'6162'", "'ab'"),
        ("DECIMAL(38,18)", "99999999999999999999.999999999999999999", "99999999999999999999.999999999999999999"),
        ("ARRAY<INT>", "array(1, NULL)", "[1, null]"),
        ("ARRAY<STRING>", "array('a', 'b c')", "[a, b c]"),
        ("MAP<STRING,INT>", "map('a', 1)", "{a -> 1}"),
        ("STRUCT<a:INT,b:STRING>", "named_struct('A', 1, 'B', 'x')", "{1, x}"),
        ("ARRAY<STRUCT<a:INT,b:ARRAY<INT>>>", "array(struct(1, array(1, 2)))", "[{1, [1, 2]}]"),
        ("INT", "1 -- one\n", "1"),
        ("TINYINT", "-128Y", "-128"),
        ("BIGINT", "- 9223372036854775808l", "-9223372036854775808"),
        ("DECIMAL(38,0)", f"{'9' * 38}BD", "9" * 38),
        ("DECIMAL(38,18)", "-12345678901234567890.123456789012345678", "-12345678901234567890.123456789012345678"),
        ("DECIMAL(38,18)", "1234567890123456789.5 + 0.000000000000000001", "1234567890123456789.500000000000000001"),
        # as Java reads them
        ("DOUBLE", "double('NaN')", "NaN"),
        ("ARRAY<FLOAT>", "array(float('-Infinity'), float('inf'))", "[-Infinity, Infinity]"),
    ],
)
def test_constants_are_stored_as_paimon_reads_them(kind: str, text: str, stored: str | None) -> None:
    assert stored_default(text, field(kind)) == stored
    again = field(kind, stored)
    assert stored_default(default_sql(again), field(kind)) == stored  # what SHOW CREATE TABLE says means the same


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("INT", "(SELECT max(k) FROM t)"),
        ("INT", "0) AS n, 1 AS m FROM payroll --"),
        ("INT", "1 FROM t"),
        ("INT", "1, 2"),
        ("INT", "1 AS x"),
        ("INT", "other"),
        ("INT", "1 UNION SELECT 2"),
        ("INT", "1; DROP TABLE t"),
        ("INT", "3000000000"),
        ("BIGINT", "2147483647 + 1"),
        ("INT", "1.5"),
        ("TINYINT", "-CAST(128 AS TINYINT)"),
        ("DECIMAL(38,18)", "12345678901234567890.123456789012345678 * 2"),  # to Spark it has 16 digits after the point
        ("INT", "1 / 0"),
        ("INT", "'x'"),
        ("INT", "true"),
        ("INT", "(" * 300 + "1" + ")" * 300),
        ("INT", ""),
        ("STRING", "current_user()"),
        ("STRING", "upper('a')"),
        ("STRING", "'a"),
        ("STRING", r"'\u0041'"),
        ("DATE", "current_date"),
        ("DATE", "DATE 'today'"),
        ("TIMESTAMP", "TIMESTAMP '2024-02-03 04:05:06'"),
        ("VARCHAR(3)", "'abcd'"),
        ("DECIMAL(5,2)", "1.555"),
        ("DECIMAL(5,2)", "1234"),
        ("BINARY", "X'ff'"),
        ("ARRAY<INT>", "array('x')"),
        ("ARRAY<STRING>", "array('a,b')"),
        ("ARRAY<STRING>", "array('')"),
        ("MAP<STRING,INT>", "map('a', 1, 'a', 2)"),
        ("STRUCT<a:INT,b:STRING>", "named_struct('b', 'x', 'a', 1)"),
        ("STRUCT<a:INT,b:STRING>", "struct(1)"),
    ],
)
def test_anything_else_is_refused_by_name(kind: str, text: str) -> None:
    with pytest.raises((InvalidError, UnsupportedError), match="column=c|Paimon stores text"):
        stored_default(text, field(kind))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("INT", "0) AS n, 1 AS m FROM payroll --"),
        ("INT", "(SELECT max(k) FROM t)"),
        ("STRING", "(SELECT max(name) FROM payroll)"),
        ("STRING", "current_user()"),
        ("INT", "99999999999"),
        ("ARRAY<INT>", "foo"),
        ("ARRAY<INT>", "[x]"),
        ("MAP<INT,INT>", "{1}"),
        ("STRUCT<a:INT,b:INT>", "{1}"),
    ],
)
def test_hostile_or_damaged_text_is_named_where_it_is_read(kind: str, text: str) -> None:
    with pytest.raises(InvalidError, match=r"Unsupported default value.*column=c"):
        default_scalar(field(kind, text))


def test_schemas_hold_defaults_that_are_values() -> None:
    with pytest.raises(InvalidError, match="Unsupported default value"):
        create_schema([field("INT", "(SELECT 1)")])
    schema = create_schema([field("INT", "5")])
    with pytest.raises(InvalidError, match="Unsupported default value"):
        apply(schema, [UpdateColumnDefault("c", "many")])
    schema = create_schema([field("STRING", "many")])
    with pytest.raises(InvalidError, match="Unsupported default value"):
        apply(schema, [UpdateColumnType("c", parse_type_text("INT"))])
    assert apply(schema, [AddColumn("d", parse_type_text("INT"))]).field("c").default == "many"


@pytest.mark.parametrize(
    ("kind", "text", "kept"),
    [("INT", "1+1", "2"), ("INT", " 7 ", " 7 "), ("INT", "NULL", None), ("STRING", "null", None), ("STRING", "a", "a"),
     ("DATE", "DATE '2024-01-02'", "2024-01-02"), ("ARRAY<INT>", "[1]", "[1]")],
)  # fmt: skip
def test_schemas_hold_texts_that_paimon_reads(kind: str, text: str, kept: str | None) -> None:
    """Of an expression Paimon makes no value: it could not write to the table."""
    made = create_schema([field(kind, text)])
    changed = apply(create_schema([field(kind, None)]), [UpdateColumnDefault("c", text)])
    assert made.field("c").default == changed.field("c").default == kept


def test_texts_beside_each_other() -> None:
    for text, value in {
        "'a''b'": "a'b",
        '"a""b"': 'a"b',
        "'a' 'b'": "ab",
        "'a'\"b\"": "ab",
        "'a''b' 'c'": "a'bc",
    }.items():
        assert constant.constant(text) == value, text


def test_rows_are_read_whichever_way_the_parser_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Older parsers know no named_struct: a function of this name is left, with its arguments."""
    names = [sqlglot.exp.Literal.string("a"), sqlglot.exp.Literal.number(1)]
    older = sqlglot.exp.Anonymous(this="NAMED_STRUCT", expressions=names)
    monkeypatch.setattr(constant, "_tree", lambda text: older)
    assert constant.constant("named_struct('a', 1)") == constant.Struct((("a", 1),), True)
    names.append(sqlglot.exp.Literal.string("b"))
    monkeypatch.setattr(constant, "_tree", lambda text: sqlglot.exp.Anonymous(this="named_struct", expressions=names))
    with pytest.raises(InvalidError, match="a row's members are constants"):
        constant.constant("named_struct('a', 1, 'b')")
