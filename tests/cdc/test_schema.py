"""What events say of columns, and what a table makes of it: types, names, computed columns, evolution. No Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bucketlake
from bucketlake.cdc.computed import parse_computed
from bucketlake.cdc.ddl import renames_in
from bucketlake.cdc.evolution import widened
from bucketlake.cdc.modes import parse_modes
from bucketlake.cdc.mysql import MySqlType, mysql_type
from bucketlake.cdc.names import TableNames
from bucketlake.cdc.plan import Rules, plan_table
from bucketlake.cdc.shapes import Shape, SourceColumn, columns_of
from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.types.model import DataType, type_text
from bucketlake.types.parse import parse_type_text

NONE: frozenset[str] = frozenset()


def _type(text: str) -> DataType:
    return parse_type_text(text, "flink")


@pytest.mark.parametrize(
    ("mysql", "expected"),
    [
        ("tinyint(1)", "BOOLEAN"),
        ("tinyint(4)", "TINYINT"),
        ("tinyint(3) unsigned zerofill", "SMALLINT"),
        ("smallint", "SMALLINT"),
        ("mediumint(8) unsigned", "BIGINT"),
        ("int unsigned", "BIGINT"),
        ("int(11)", "INT"),
        ("bigint(20) unsigned", "DECIMAL(20, 0)"),
        ("serial", "DECIMAL(20, 0)"),
        ("double(10,2)", "DOUBLE"),
        ("float unsigned", "FLOAT"),
        ("decimal(10,2) unsigned", "DECIMAL(10, 2)"),
        ("decimal", "DECIMAL(38, 18)"),
        ("decimal(60,2)", "STRING"),
        ("bit", "BOOLEAN"),
        ("bit(17)", "BINARY(3)"),
        ("char(3)", "CHAR(3)"),
        ("varchar(10)", "VARCHAR(10)"),
        ("varchar(20) character set utf8mb4", "VARCHAR(20)"),
        ("datetime", "TIMESTAMP(0)"),
        ("datetime(6)", "TIMESTAMP(6)"),
        ("timestamp(23)", "TIMESTAMP(3)"),
        ("time(3)", "TIME(3)"),
        ("year", "INT"),
        ("binary(4)", "VARBINARY(4)"),
        ("longblob", "BYTES"),
        ("longtext", "STRING"),
        ("json", "STRING"),
        ("enum('a','b(1)')", "STRING"),
        ("set('x','y')", "ARRAY<STRING>"),
        ("geometry", "STRING"),
    ],
)
def test_types_of_mysql(mysql: str, expected: str) -> None:
    assert type_text(mysql_type(MySqlType.parse(mysql))) == expected


@pytest.mark.parametrize(
    ("mysql", "mode", "expected"),
    [
        ("tinyint(1)", "tinyint1-not-bool", "TINYINT"),
        ("varchar(9)", "char_to_string", "STRING"),
        ("longtext", "longtext-to-bytes", "BYTES"),
        ("bigint unsigned", "bigint-unsigned-to-bigint", "BIGINT"),
        ("set('a')", "to-string", "STRING"),
    ],
)
def test_modes_of_types(mysql: str, mode: str, expected: str) -> None:
    assert type_text(mysql_type(MySqlType.parse(mysql), parse_modes(mode))) == expected


def test_unknown_types_and_modes_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="VECTOR"):
        mysql_type(MySqlType.parse("vector(3)"))
    with pytest.raises(InvalidError, match="tinyint1-not-bool"):
        parse_modes("tinyint1-is-bool")
    assert MySqlType.parse("enum('it''s','b')").members == ("it's", "b")


def test_types_of_debezium() -> None:
    fields: list[dict[str, Any]] = [
        {"field": "id", "type": "int64"},
        {"field": "d", "type": "int32", "name": "io.debezium.time.Date"},
        {"field": "ts", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
        {"field": "z", "type": "string", "name": "io.debezium.time.ZonedTimestamp"},
        {"field": "t", "type": "int64", "name": "io.debezium.time.MicroTime"},
        {"field": "r", "type": "float64"},
        {
            "field": "n",
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "2", "connect.decimal.precision": "12"},
        },
        {"field": "m", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "4"}},
        {"field": "b", "type": "bytes", "name": "io.debezium.data.Bits", "parameters": {"length": "9"}},
        {"field": "x", "type": "bytes"},
        {"field": "e", "type": "string", "name": "io.debezium.data.Enum"},
        {"field": "a", "type": "array"},
    ]
    told = json.dumps(
        {"type": "struct", "fields": [{"field": "before", "fields": []}, {"field": "after", "fields": fields}]}
    )
    found = columns_of(None, told, NONE)
    assert [type_text(item.type) for item in found if item.type] == [
        *("BIGINT", "DATE", "TIMESTAMP(6)", "TIMESTAMP(6)", "TIME(6)", "DOUBLE", "DECIMAL(12, 2)", "DECIMAL(38, 4)"),
        *("BINARY(2)", "BYTES", "STRING", "STRING"),
    ]
    assert {type_text(item.type) for item in columns_of(None, told, parse_modes("to-string")) if item.type} == {
        "STRING"
    }


def test_events_without_types_say_names() -> None:
    assert columns_of('["a","b"]', None, NONE) == (SourceColumn("a"), SourceColumn("b"))


@pytest.mark.parametrize(
    ("own", "given", "expected"),
    [
        ("INT", "BIGINT", "BIGINT"),
        ("BIGINT", "INT", "BIGINT"),
        ("TINYINT", "SMALLINT", "SMALLINT"),
        ("FLOAT", "DOUBLE", "DOUBLE"),
        ("VARCHAR(5)", "VARCHAR(9)", "VARCHAR(9)"),
        ("VARCHAR(9)", "VARCHAR(5)", "VARCHAR(9)"),
        ("CHAR(3)", "VARCHAR(9)", "VARCHAR(9)"),
        ("VARCHAR(9)", "STRING", "STRING"),
        ("VARBINARY(2)", "BYTES", "BYTES"),
        ("DECIMAL(10, 2)", "DECIMAL(8, 4)", "DECIMAL(12, 4)"),
        ("DECIMAL(38, 0)", "DECIMAL(38, 18)", None),
        ("TIMESTAMP(0)", "TIMESTAMP(6)", "TIMESTAMP(6)"),
        ("TIME(3)", "TIME(0)", "TIME(3)"),
        ("INT", "STRING", None),
        ("STRING", "INT", None),
        ("INT", "DOUBLE", None),
        ("BIGINT", "DECIMAL(20, 0)", None),
        ("DATE", "TIMESTAMP(3)", None),
        ("TIMESTAMP(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", None),
    ],
)
def test_types_widen_within_their_family(own: str, given: str, expected: str | None) -> None:
    found = widened(_type(own), _type(given))
    assert (None if found is None else type_text(found)) == expected


def test_any_column_becomes_text_where_that_is_allowed() -> None:
    assert widened(_type("INT"), _type("STRING"), parse_modes("allow-non-string-to-string")) == _type("STRING")


_FAMILIES = st.sampled_from(
    [
        *("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "CHAR(3)", "VARCHAR(7)", "STRING", "BINARY(2)"),
        *("VARBINARY(5)", "BYTES", "DECIMAL(5, 2)", "DECIMAL(7, 0)", "DECIMAL(9, 6)", "TIME(0)", "TIME(3)", "DATE"),
        *("TIMESTAMP(0)", "TIMESTAMP(6)", "BOOLEAN"),
    ]
)


@given(own=_FAMILIES, given=_FAMILIES, third=_FAMILIES)
def test_widening_loses_nothing_and_ends(own: str, given: str, third: str) -> None:
    found = widened(_type(own), _type(given))
    if found is None:
        assert widened(_type(given), _type(own)) is None
        return
    assert widened(found, _type(own)) == found, "what was widened holds the old"
    assert widened(found, _type(given)) == found, "and the new"
    more = widened(found, _type(third))
    assert (more is None) == (widened(_type(own), _type(third)) is None)


def test_computed_columns_come_after_what_they_are_computed_of() -> None:
    found = parse_computed(["b=upper(a)", "a=date_format(ts, yyyy-MM-dd HH:mm, 3)", "k=cast(x', INT)", "n=now()"][:2])
    assert [(item.name, item.function, item.column, item.arguments) for item in found] == [
        ("a", "date_format", "ts", ("yyyy-MM-dd HH:mm", "3")),
        ("b", "upper", "a", ()),
    ]
    [one, two] = parse_computed(["k=cast(7, INT)", "t=cast('a,b')"])
    assert (one.constant, one.arguments, two.constant, two.arguments) == ("7", ("INT",), "a,b", ())


@pytest.mark.parametrize(
    ("texts", "match"),
    [
        (["a"], "not a computed column"),
        (["a=f(b)"], "no such function"),
        (["a=substring(b)"], "number of arguments"),
        (["a=substring(b, 4, 2)"], "begin < end"),
        (["a=substring(b, x)"], "whole number"),
        (["a=truncate(b, 0)"], "width"),
        (["a=year(b, 4)"], "precision"),
        (["a=date_format(b, 'yyyy-MM-dd')"], r"same text .*date_format\(b, yyyy-MM-dd\)"),
        (["a=date_format(b)"], "1 to 2 beside the column"),
        (["a=upper()"], "number of arguments"),
        (["a=upper(b)", "b=lower(a)"], "circle"),
        (["a=upper(a)"], "from itself"),
        (["a=upper(b)", "a=lower(b)"], "twice"),
    ],
)
def test_wrong_computed_columns(texts: list[str], match: str) -> None:
    with pytest.raises(InvalidError, match=match):
        parse_computed(texts)


def test_names_of_tables() -> None:
    names = TableNames(
        prefix="ods_", suffix="_t", prefix_of={"Crm": "crm_"}, mapping={"Users": "people"},
        including_tables="ord.*|users|t", excluding_tables="ord_tmp", excluding_dbs="test_.*",
    )  # fmt: skip
    assert names.target("shop", "orders") == "ods_orders_t"
    assert names.target("CRM", "orders") == "crm_orders_t"
    assert names.target("shop", "USERS") == "people"
    assert [names.takes("shop", one) for one in ("orders", "ord_tmp", "xorders", "t", "tt", None)] == [
        *(True, False, False, True, False, True),
    ]
    assert not names.takes("test_1", "orders")
    assert TableNames(merge_shards=False, case_sensitive=False).target("Shop", "T1") == "shop_t1"
    with pytest.raises(InvalidError, match="including_tables"):
        TableNames(including_tables="(")
    for made in (
        {"mapping": {"orders": "a/b"}},
        {"prefix": "../"},
        {"suffix_of": {"shop": "/"}},
        {"mapping": {"t": ""}},
    ):
        with pytest.raises(InvalidError, match="not a table name"):
            TableNames(**made)


def test_renames_in_statements() -> None:
    assert renames_in(["ALTER TABLE `s`.`t` RENAME COLUMN a TO `b`, ADD COLUMN x INT DEFAULT (1+2)"]) == {"a": "b"}
    assert renames_in(["alter table t change column a b varchar(10) comment ', RENAME COLUMN x TO y'"]) == {"a": "b"}
    assert _renames("a b", "b c") == {"a": "c", "b": "c"}
    assert _renames("b c", "a b") == _renames("b c, a b") == _renames("a b, b c") == {"a": "b", "b": "c"}
    assert _renames("a b", "b a") == {"b": "a"}
    assert _renames("a t", "b c", "t b") == {"a": "b", "t": "b", "b": "c"}
    assert renames_in(["ALTER TABLE t CHANGE a a BIGINT", "ALTER TABLE t RENAME TO u", "DROP TABLE t"]) == {}
    assert renames_in(['ALTER TABLE ONLY public.t RENAME "A b" TO c']) == {"A b": "c"}


def _renames(*statements: str) -> dict[str, str]:
    """Of statements that each rename columns: `old new, old new`."""
    renamed = [[" TO ".join(pair.split()) for pair in one.split(",")] for one in statements]
    return renames_in(
        ["ALTER TABLE t " + ", ".join(f"RENAME COLUMN {pair}" for pair in one) for one in renamed], "db.t"
    )


@pytest.mark.parametrize(
    "statements", [["a b, b a"], ["a t", "b a", "t b"], ["a b, b c, c a"], ["a b", "a c"], ["a t, b a", "t b"]]
)
def test_columns_that_change_places_are_refused(statements: list[str]) -> None:
    """Else the rows that are there would show one column's values as the other's."""
    with pytest.raises(UnsupportedError, match=r"the name of another \[table=db.t, columns=\['a', "):
        _renames(*statements)


@pytest.mark.parametrize("statements", [["b c", "a b"], ["a t", "b c", "t b"], ["a b, b c"]])
def test_a_column_takes_the_name_that_another_has_left(tmp_path: Path, statements: list[str]) -> None:
    catalog = bucketlake.open(tmp_path)
    catalog.create_database("db")
    table = catalog.create_table("db.t", pa.schema([("k", pa.int32()), ("a", pa.int32()), ("b", pa.int32())]))
    table.write_arrow(pa.table({"k": [1], "a": [10], "b": [20]}))
    shapes = [
        _shape(1, ("k", "INT"), ("a", "INT"), ("b", "INT")),
        _shape(2, ("k", "INT"), ("b", "INT"), ("c", "INT")),
        _shape(3, ("k", "INT"), ("a", "INT"), ("c", "INT")),
    ]
    for _ in range(2):  # the second time they have been followed
        plan = plan_table("db.t", table, shapes, Rules(), _renames(*statements))
        taken = {
            name: {number: way.name for way in ways for number in way.shapes or (1, 2, 3)}
            for name, ways in plan.columns.items()
        }
        assert taken["b"] == {1: "a", 2: "b", 3: "a"}
        assert taken["c"] == {1: "b", 2: "c", 3: "c"}
        table = table.alter(*plan.changes) if plan.changes else table
        assert table.to_arrow().to_pylist() == [{"k": 1, "b": 10, "c": 20}]
    assert not plan.changes


def test_a_name_that_cannot_be_left_is_not_taken(tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    catalog.create_database("db")
    table = catalog.create_table("db.t", pa.schema([(name, pa.int32()) for name in "kabc"]))
    shapes = [_shape(1, ("k", "INT"), ("b", "INT"), ("c", "INT"))]
    with pytest.raises(UnsupportedError, match=r"column=b, new=c.*rename or drop the table's column 'c'"):
        plan_table("db.t", table, shapes, Rules(), _renames("b c", "a b"))


def _shape(number: int, *columns: tuple[str, str | None], keys: tuple[str, ...] = ()) -> Shape:
    made = tuple(SourceColumn(name, None if kind is None else _type(kind)) for name, kind in columns)
    return Shape(number, "db", "t", made, keys)


def _fields(shapes: list[Shape], rules: Rules) -> list[str]:
    plan = plan_table("db.t", None, shapes, rules, {})
    return [f"{item.name} {type_text(item.type)}" for item in plan.schema.fields]


def test_a_new_table_holds_all_shapes_of_the_batch() -> None:
    shapes = [_shape(1, ("id", "INT"), ("a", "VARCHAR(3)"), keys=("id",)), _shape(2, ("id", "BIGINT"), ("b", None))]
    rules = Rules(computed=parse_computed(["h=truncate(id, 10)"]), metadata=("topic",), metadata_prefix="k_")
    plan = plan_table("db.t", None, shapes, rules, {})
    assert plan.schema.primary_keys == ("id",)
    assert _fields(shapes, rules) == [
        *("id BIGINT NOT NULL", "a VARCHAR(3)", "b STRING", "h BIGINT", "k_topic STRING"),
    ]
    assert [way.shapes for way in plan.columns["id"]] == [frozenset({1, 2})]


def test_keys_of_a_new_table() -> None:
    shapes = [_shape(1, ("Id", "INT"), ("dt", "STRING"), keys=("Id",))]
    made = plan_table(
        "db.t", None, shapes, Rules(primary_keys=("id", "dt"), partition_keys=("dt",), case_sensitive=False), {}
    )
    assert (made.schema.primary_keys, made.schema.partition_keys) == (("id", "dt"), ("dt",))
    assert plan_table("db.t", None, shapes, Rules(keys_from_source=False), {}).schema.primary_keys == ()
    lax = plan_table("db.t", None, shapes, Rules(primary_keys=("k",), partition_keys=("p",), strict=False), {})
    assert (lax.schema.primary_keys, lax.schema.partition_keys) == (("Id",), ())
    with pytest.raises(InvalidError, match=r"primary_keys.*missing=\['k'\]"):
        plan_table("db.t", None, shapes, Rules(primary_keys=("k",)), {})


def test_columns_that_meet_are_refused() -> None:
    with pytest.raises(InvalidError, match="one name in the lake"):
        plan_table("db.t", None, [_shape(1, ("A", None), ("a", None))], Rules(case_sensitive=False), {})
    with pytest.raises(InvalidError, match="column=a"):
        plan_table("db.t", None, [_shape(1, ("a", None))], Rules(computed=parse_computed(["a=now()"])), {})
    with pytest.raises(InvalidError, match="column=nowhere"):
        plan_table("db.t", None, [_shape(1, ("a", None))], Rules(computed=parse_computed(["x=upper(nowhere)"])), {})
