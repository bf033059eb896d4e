from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from bucketlake.errors import InvalidError
from bucketlake.predicate.evaluate import Bounds, mask, may_match_all
from bucketlake.predicate.parse import parse_where
from bucketlake.predicate.tree import (
    And,
    Compare,
    Constant,
    Contains,
    EndsWith,
    In,
    IsNotNull,
    IsNull,
    Like,
    Not,
    Opaque,
    Or,
    StartsWith,
    columns_of,
    is_exact,
    key_values,
    rename,
    restrict,
    to_spark_sql,
)

from .strategies import columns

UTC = dt.timezone.utc
FIELDS = columns(
    id="BIGINT", i="INT", s="STRING", d="DATE", t="TIMESTAMP(3)", z="TIMESTAMP_LTZ(6)", p="DECIMAL(10, 2)",
    b="BOOLEAN", f="DOUBLE", r="ROW<a INT>", x="BYTES", m="TIME(3)", größe="INT",
)  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("id = 5", Compare("id", "=", 5)),
        ("5 < id", Compare("id", ">", 5)),
        ("ID != -5L", Compare("id", "<>", -5)),
        ("id <=> 3", Compare("id", "<=>", 3)),
        ("id <=> NULL", IsNull("id")),
        ("id = NULL", Constant(None)),
        ("id IS NOT NULL", IsNotNull("id")),
        ("NOT id IS NULL", IsNotNull("id")),
        ("id IN (1, 2, 2, NULL)", In("id", (1, 2, None))),
        ("id NOT IN (1)", Not(In("id", (1,)))),
        ("id BETWEEN 1 AND 3", And((Compare("id", ">=", 1), Compare("id", "<=", 3)))),
        ("id NOT BETWEEN 1 AND 3", Or((Compare("id", "<", 1), Compare("id", ">", 3)))),
        ("NOT (id = 1 OR s = 'x')", And((Compare("id", "<>", 1), Compare("s", "<>", "x")))),
        ("(((id = 1)))", Compare("id", "=", 1)),
        ("id = '7'", Compare("id", "=", 7)),
        ("id IS DISTINCT FROM 3", Not(Compare("id", "<=>", 3))),
        ("b", Compare("b", "=", True)),
        ("NOT b", Compare("b", "<>", True)),
        ("b IS TRUE", Compare("b", "<=>", True)),
        ("b IS NOT TRUE", Not(Compare("b", "<=>", True))),
        (r"s = 'it\'s'", Compare("s", "=", "it's")),
        ("s LIKE 'a%'", StartsWith("s", "a")),
        ("s LIKE '%a'", EndsWith("s", "a")),
        ("s LIKE '%a%'", Contains("s", "a")),
        ("s LIKE 'a'", Compare("s", "=", "a")),
        ("s LIKE 'a_c%'", Like("s", "a_c%")),
        ("s NOT LIKE 'a%'", Not(StartsWith("s", "a"))),
        ("startswith(s, 'q')", StartsWith("s", "q")),
        ("d = '2024-02-29'", Compare("d", "=", dt.date(2024, 2, 29))),
        ("d >= DATE '2024-02-29'", Compare("d", ">=", dt.date(2024, 2, 29))),
        ("t = CAST('2025-04-05 11:45:00' AS TIMESTAMP(3))", Compare("t", "=", dt.datetime(2025, 4, 5, 11, 45))),
        ("t > '2025-04-05 00:00:00.0005'", Compare("t", ">=", dt.datetime(2025, 4, 5, 0, 0, 0, 1000))),
        ("t <= '2025-04-05 00:00:00.0005'", Compare("t", "<=", dt.datetime(2025, 4, 5))),
        ("t = DATE '2025-04-05'", Compare("t", "=", dt.datetime(2025, 4, 5))),
        ("z = '2025-04-05 12:00:00'", Compare("z", "=", dt.datetime(2025, 4, 5, 12, tzinfo=UTC))),
        ("z = TIMESTAMP '2025-04-05 12:00:00+02:00'", Compare("z", "=", dt.datetime(2025, 4, 5, 10, tzinfo=UTC))),
        ("p = 1.5", Compare("p", "=", Decimal("1.50"))),
        ("p = CAST('1.5' AS DECIMAL(2,1))", Compare("p", "=", Decimal("1.50"))),
        ("p = 1.255", In("p", ())),
        ("p < 1.255", Compare("p", "<=", Decimal("1.25"))),
        ("i < 2.5", Compare("i", "<=", 2)),
        ("i >= 2.5", Compare("i", ">=", 3)),
        ("i <> 2.5", Not(In("i", ()))),
        ("i < 3000000000", Not(In("i", ()))),
        ("i > 3000000000", In("i", ())),
        ("f = 1", Compare("f", "=", 1.0)),
        ("f < -1.5E0", Compare("f", "<", -1.5)),
        ("x = X'00FF'", Compare("x", "=", b"\x00\xff")),
        ("m = '01:02:03'", Compare("m", "=", dt.time(1, 2, 3))),
        ("m = 1000", Compare("m", "=", dt.time(0, 0, 1))),
        ("größe = 1", Compare("größe", "=", 1)),
        ("TRUE", Constant(True)),
    ],
)
def test_conditions(sql, expected):
    assert parse_where(sql, FIELDS) == expected


def test_text_without_offset_is_in_the_sessions_zone():
    found = parse_where("z = '2025-07-01 12:00:00'", FIELDS, zone="Europe/Paris")
    assert found == Compare("z", "=", dt.datetime(2025, 7, 1, 10, tzinfo=UTC))


@pytest.mark.parametrize(
    ("zone", "hour"),
    [("+05:30", 6.5), ("-3", 15), ("UTC+2", 10), ("GMT-01:00", 13), ("+0200", 10), ("Z", 12), ("UTC", 12)],
)
def test_a_zone_may_be_an_offset(zone: str, hour: float) -> None:
    found = parse_where("z = '2025-07-01 12:00:00'", FIELDS, zone=zone)
    moment = dt.datetime(2025, 7, 1, tzinfo=dt.timezone.utc) + dt.timedelta(hours=hour)
    assert found == Compare("z", "=", moment)


def test_what_a_time_of_day_means_in_an_unknown_zone_only_spark_can_say() -> None:
    found = parse_where("z = '2025-07-01 12:00:00' AND z < '2025-07-01 12:00:00Z'", FIELDS, zone="Mars/Olympus")
    assert isinstance(found, And)
    assert [type(part) for part in found.children] == [Opaque, Compare]


@pytest.mark.parametrize(
    "sql",
    [
        "upper(s) = 'X'", "s RLIKE 'x'", "s ILIKE 'x'", "s LIKE 'a' ESCAPE '!'", "r.a = 3", "id = i", "s = 5",
        "id = 'x'", "id IN (SELECT 1)", "EXISTS (SELECT 1)", "id + 1 = 2", "CASE WHEN b THEN true ELSE false END",
        "CAST(id AS STRING) = '1'",
        "f = 'x'", "b = 'true'", "s > NULL || 'a'",
    ],
)  # fmt: skip
def test_what_the_tree_cannot_say_keeps_the_users_words(sql):
    found = parse_where(sql, FIELDS)
    assert isinstance(found, Opaque)
    assert found.sql == sql == to_spark_sql(found)
    assert not is_exact(found)


def test_only_the_conjuncts_that_need_it_are_opaque():
    found = parse_where("(upper(s) = 'A AND B' AND (id = 1)) AND größe BETWEEN 1 AND 2 and i=3 -- end", FIELDS)
    assert isinstance(found, And)
    assert found.children[0] == Opaque("upper(s) = 'A AND B'", ("s",))
    assert found.children[1:] == (
        Compare("id", "=", 1), Compare("größe", ">=", 1), Compare("größe", "<=", 2), Compare("i", "=", 3),
    )  # fmt: skip
    assert columns_of(found) == {"s", "id", "größe", "i"}
    assert restrict(found, ["id", "s"]) == Compare("id", "=", 1)


@pytest.mark.parametrize(
    ("root", "text", "why"),
    [
        *(
            (root, "x", f"'x' is not of type {root}")
            for root in ("INT", "BIGINT", "DECIMAL", "DOUBLE", "DATE", "TIMESTAMP")
        ),
        ("BIGINT", "12abc", "'12abc' is not of type BIGINT"),
        ("DOUBLE", "1,5 kg", "'1,5 kg' is not of type DOUBLE"),
        ("DATE", "2024-02-30", ""),  # these are left to Spark: which texts it takes differs between its versions
        ("BIGINT", "1.5", ""),
        ("DOUBLE", "0x1p3", ""),
        ("DOUBLE", "1.5d", ""),
    ],
)
def test_a_text_that_is_no_value_of_the_column_is_told(root, text, why):
    fields = columns(c=root)
    for sql in (f"c = '{text}'", f"NOT c IN ('{text}')", f"c < '{text}' OR c IS NULL"):
        found = parse_where(sql, fields)
        assert isinstance(found, Opaque)
        assert (found.sql.removeprefix("NOT ").strip("()"), found.why) == (sql.removeprefix("NOT ").strip("()"), why)
    assert parse_where("c = 'Infinity'", columns(c="DOUBLE")) == Compare("c", "=", float("inf"))


@pytest.mark.parametrize("sql", ["id = ", "", "1=1) OR (1=1", "id = 1; DROP TABLE x", "id = 1 GROUP BY 2", "id ="])
def test_what_is_no_condition(sql):
    with pytest.raises(InvalidError):
        parse_where(sql, FIELDS)


@pytest.mark.parametrize("sql", ["nope = 1", "id = 1 AND nope = 1", "upper(nope) = 'x'"])
def test_unknown_columns_are_named_with_their_position(sql):
    with pytest.raises(InvalidError) as caught:
        parse_where(sql, FIELDS)
    assert caught.value.details["column"] == "nope"
    assert caught.value.details["position"] == sql.index("nope")


def test_long_chains_and_lists():
    sql = " OR ".join(f"id = {n}" for n in range(400))
    found = parse_where(sql, FIELDS)
    assert isinstance(found, Or)
    assert len(found.children) == 400
    assert key_values(found, ["id"]) == [(n,) for n in range(400)]


@pytest.mark.parametrize(
    ("sql", "columns", "expected"),
    [
        ("id = 1 AND s = 'a'", ["id", "s"], [(1, "a")]),
        ("id IN (1, 2) AND s IN ('a', 'b')", ["s", "id"], [("a", 1), ("a", 2), ("b", 1), ("b", 2)]),
        ("id IN (1, 2) AND id IN (2, 3)", ["id"], [(2,)]),
        ("id = 1 AND id = 2", ["id"], []),
        ("id = 1 OR id = 2", ["id"], [(1,), (2,)]),
        ("id = 1 OR s = 'a'", ["id"], None),
        ("id > 1", ["id"], None),
        ("id = 1", ["id", "s"], None),
        ("f = 0.0", ["f"], None),
        ("id NOT IN (1)", ["id"], None),
        ("id IN (1, NULL)", ["id"], [(1,)]),
    ],
)
def test_key_values(sql, columns, expected):
    assert key_values(parse_where(sql, FIELDS), columns) == expected


def test_key_values_are_bounded():
    where = parse_where(f"id IN ({','.join(map(str, range(100)))}) AND i IN ({','.join(map(str, range(11)))})", FIELDS)
    assert key_values(where, ["id", "i"]) is None
    assert len(key_values(where, ["id", "i"], limit=1100) or []) == 1100


def test_restrict_keeps_what_follows():
    where = parse_where("(id = 1 AND s = 'a') OR (id = 2 AND s = 'b')", FIELDS)
    assert restrict(where, ["id"]) == Or((Compare("id", "=", 1), Compare("id", "=", 2)))
    assert restrict(parse_where("id = 1 OR s = 'a'", FIELDS), ["id"]) is None


def test_rename():
    where = parse_where("id = 1 AND s LIKE 'a%'", FIELDS)
    assert rename(where, {"id": "_KEY_id"}) == And((Compare("_KEY_id", "=", 1), StartsWith("s", "a")))


@pytest.mark.parametrize(
    "sql",
    [
        r"id = 5 AND (s = 'it\'s' OR s IS NULL)", "p = 1.5", "d < '2024-01-01'", "t >= '2024-01-01 01:02:03.5'",
        "f > 1.5", "x = X'00FF'", "b", "NOT (id IN (1, 2))", "s LIKE 'a_c'", "i < 3000000000", r"s = 'a\\b'",
    ],
)  # fmt: skip
def test_spark_text_parses_to_the_same(sql):
    found = parse_where(sql, FIELDS)
    again = parse_where(to_spark_sql(found), FIELDS)
    assert to_spark_sql(again) == to_spark_sql(found)


DEEP = 10_000


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("(" * DEEP + "id = 1" + ")" * DEEP, Compare("id", "=", 1)),
        ("id = " + "(" * DEEP + "1" + ")" * DEEP, Compare("id", "=", 1)),
        ("id IN (" + "(" * DEEP + "1" + ")" * DEEP + ", 2)", In("id", (1, 2))),
        ("NOT " * DEEP + "id = 1", Compare("id", "=", 1)),
        ("NOT (" * (DEEP + 1) + "id = 1" + ")" * (DEEP + 1), Compare("id", "<>", 1)),
    ],
    ids=["around a condition", "around a value", "in a list", "not", "not of parentheses"],
)
def test_nesting_that_says_nothing_is_read_at_any_depth(sql, expected):
    assert parse_where(sql, FIELDS) == expected


@pytest.mark.parametrize("word", ["AND", "OR"])
def test_chains_of_ten_thousand(word):
    found = parse_where(f" {word} ".join(f"id <> {n}" for n in range(DEEP)), FIELDS)
    assert len(found.children) == DEEP
    assert columns_of(found) == {"id"}
    assert to_spark_sql(found).count("<>") == DEEP


@pytest.mark.parametrize(
    "sql",
    [
        "id = 1 AND (s = 'a' OR (" * 100 + "id = 2" + "))" * 100,
        "abs(" * 300 + "id" + ")" * 300 + " = 1",
        "id = " + "-(" * 300 + "1" + ")" * 300,
    ],
)
def test_nesting_too_deep_to_be_read_is_refused(sql):
    with pytest.raises(InvalidError, match="nested too deeply"):
        parse_where(sql, FIELDS)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("x = X'F'", Compare("x", "=", b"\x0f")),
        ("x = X'ABC'", Compare("x", "=", b"\x0a\xbc")),
        ("x = x ''", Compare("x", "=", b"")),
        ("s = 'O''Brien'", Compare("s", "=", "O'Brien")),
        ('s = "a""b"', Compare("s", "=", 'a"b')),
        ("s = ''", Compare("s", "=", "")),
        (r"s = r'a\b'", Compare("s", "=", r"a\b")),
        ("s = '-- not /* a comment'", Compare("s", "=", "-- not /* a comment")),
        ("id = 1 /* a /* nested */ AND b */ -- AND c", Compare("id", "=", 1)),
        ("s = ') OR (' AND id = 1", And((Compare("s", "=", ") OR ("), Compare("id", "=", 1)))),
    ],
)
def test_literals_are_cut_as_spark_cuts_them(sql, expected):
    assert parse_where(sql, FIELDS) == expected


@pytest.mark.parametrize(
    "sql", ["x = X'G'", "s = 'open", "id = 1) OR (id = 2", "(id = 1", "id = 1 /* open", "id = 1 AND", ""]
)
def test_texts_that_do_not_close_are_refused_with_their_position(sql):
    with pytest.raises(InvalidError, match="position="):
        parse_where(sql, FIELDS)


@pytest.mark.parametrize(
    ("precision", "op", "expected"),
    [(9, "=", [True, True, False]), (9, "<=", [True, True, False]), (9, ">", [False, False, True]),
     (9, "<>", [False, False, True]), (9, "<=>", [True, True, False])],
)  # fmt: skip
def test_nanoseconds_compare_by_the_microseconds_that_spark_sees(precision, op, expected):
    (field,) = columns(t=f"TIMESTAMP({precision})")
    base = 1_704_067_200_000_000_000
    array = pa.array([base, base + 999, base + 1000], pa.int64()).view(pa.timestamp("ns"))
    assert mask(parse_where(f"t {op} '2024-01-01'", [field]), pa.record_batch({"t": array})).to_pylist() == expected


def test_timestamps_out_of_nanoseconds_are_compared():
    (field,) = columns(t="TIMESTAMP(9)")
    batch = pa.record_batch({"t": pa.array([0, None], pa.int64()).view(pa.timestamp("ns"))})
    assert mask(parse_where("t < '3000-01-01'", [field]), batch).to_pylist() == [True, None]
    assert mask(parse_where("t = '3000-01-01'", [field]), batch).to_pylist() == [False, None]
    unknown = Bounds(pa.nulls(1, pa.timestamp("ns")), pa.nulls(1, pa.timestamp("ns")), pa.array([0]))
    assert may_match_all(parse_where("t > '3000-01-01'", [field]), {"t": unknown}, np.array([1])).tolist() == [True]


def test_a_literal_of_another_zone_beside_a_zoneless_column_is_sparks_affair():
    (field,) = columns(t="TIMESTAMP(6)")
    assert isinstance(parse_where("t = TIMESTAMP '2024-01-01 00:00:00'", [field], "Europe/Berlin"), Opaque)
    assert isinstance(parse_where("t = TIMESTAMP '2024-01-01 00:00:00'", [field], "UTC"), Compare)


@pytest.mark.parametrize("op", ["=", "<>", "<", "<=", ">", ">=", "<=>"])
def test_what_stands_beside_char_is_padded(op: str) -> None:
    [field] = columns(c="CHAR(3)")
    stored = ["", " ", "   ", "a", "a  ", " a", "ab", "abc", "a\t", "a\t ", "\t", "b", "b\u00e4 ", None]
    rows = pa.RecordBatch.from_arrays([pa.array(stored)], names=["c"])
    compare = {
        **{"=": str.__eq__, "<>": str.__ne__, "<": str.__lt__, "<=": str.__le__, ">": str.__gt__, ">=": str.__ge__},
        "<=>": str.__eq__,
    }[op]
    for text in ["", "  ", "a", "a ", "a    ", "ab", "abc ", "abcd", "b", " a", "bä"]:
        width = max(3, len(text))
        expected = [None if one is None else compare(one.ljust(width), text.ljust(width)) for one in stored]
        if op == "<=>":
            expected[-1] = False
        found = parse_where(f"c {op} '{text}'", [field])
        assert mask(found, rows).to_pylist() == expected, text
        wanted = [None if one is None else not one for one in expected]
        assert mask(parse_where(f"NOT (c {op} '{text}')", [field]), rows).to_pylist() == wanted, text
    assert isinstance(parse_where(f"c {op} 'a\t'", [field]), Opaque)


def test_char_of_any_length_beside_a_text() -> None:
    [field] = columns(c="CHAR(2147483647)")
    assert isinstance(parse_where("c = 'a'", [field]), Opaque)
