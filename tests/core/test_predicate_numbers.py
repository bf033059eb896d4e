"""Numbers beside columns: against a model in fractions that does what Spark's casts do."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.profile import examples

from bucketlake.errors import InvalidError
from bucketlake.predicate.evaluate import Bounds, mask, may_match_all
from bucketlake.predicate.parse import parse_where
from bucketlake.predicate.tree import Compare, In, Opaque, is_exact, to_spark_sql
from bucketlake.types.model import arrow_schema

from .strategies import column

EXACT = Context(prec=200)
TYPES = ["TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL(1, 0)", "DECIMAL(10, 2)", "DECIMAL(18, 0)", "DECIMAL(38, 0)",
         "DECIMAL(38, 18)", "DECIMAL(38, 38)", "DECIMAL(20, 20)", "DOUBLE", "FLOAT"]  # fmt: skip
DIGITS = {"TINYINT": (3, 0), "SMALLINT": (5, 0), "INT": (10, 0), "BIGINT": (20, 0)}
BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "<=>"]


def digits_of(kind: str) -> tuple[int, int]:
    if kind in DIGITS:
        return DIGITS[kind]
    precision, scale = (int(part) for part in kind.removeprefix("DECIMAL(").rstrip(")").split(","))
    return precision - scale, scale


def half_up(value: Fraction, scale: int) -> Fraction:
    whole = math.floor(abs(value) * 10**scale + Fraction(1, 2))
    return Fraction(whole if value >= 0 else -whole, 10**scale)


def double(value: Any) -> float:
    exact = value if isinstance(value, float) else Fraction(value)
    return exact if isinstance(exact, float) else exact.numerator / exact.denominator


def sides(kind: str, op: str, value: Any, literal: str) -> tuple[Any, Any]:
    """Both sides of a comparison as Spark casts them; NaN is beyond infinity."""
    if "E" in literal or kind in ("DOUBLE", "FLOAT"):
        left, right = double(value), double(float(literal) if "E" in literal else Fraction(literal))
        return tuple((math.isnan(side), 0.0 if math.isnan(side) else side) for side in (left, right))
    right = Fraction(literal)
    before, after = digits_of(kind)
    body = literal.lstrip("-")
    scale = len(body.partition(".")[2])
    whole = len(str(abs(int(body.replace(".", ""))))) - scale
    room = 38 - max(before, whole, 0)
    if max(after, scale) > room and whole + scale <= 38 and not (kind in BITS and op in ("<", "<=", ">", ">=")):
        return half_up(Fraction(value), room), half_up(right, room)
    return Fraction(value), right


def outcome(kind: str, op: str, value: Any, literal: str) -> bool | None:
    if value is None:
        return False if op == "<=>" else None
    left, right = sides(kind, op, value, literal)
    return {"=": left == right, "<=>": left == right, "<>": left != right, "<": left < right, "<=": left <= right,
            ">": left > right, ">=": left >= right}[op]  # fmt: skip


def values_of(kind: str, near: str) -> st.SearchStrategy[Any]:
    """Values of a column, most of them about the literal."""
    if kind in ("DOUBLE", "FLOAT"):
        width = 64 if kind == "DOUBLE" else 32
        return st.one_of(st.floats(width=width), st.sampled_from([0.0, -0.0, 0.5, 1.0, math.nan, math.inf, -math.inf]))
    _, scale = (0, 0) if kind in BITS else digits_of(kind)
    top = (1 << (BITS[kind] - 1)) - 1 if kind in BITS else 10 ** sum(digits_of(kind)) - 1
    low = -top - 1 if kind in BITS else -top
    middle = math.floor(Fraction(Decimal(near)) * 10**scale) if abs(Decimal(near)) < Decimal("1e60") else 0
    steps = st.one_of(st.integers(-3, 3), st.integers(-(10**20), 10**20))
    numbers = st.one_of(steps.map(lambda step: middle + step), st.sampled_from([low, low + 1, -1, 0, 1, top - 1, top]),
                        st.integers(low, top))  # fmt: skip
    bounded = numbers.map(lambda number: min(max(number, low), top))
    return bounded if kind in BITS else bounded.map(lambda number: Decimal(number).scaleb(-scale, EXACT))


LITERALS = st.one_of(
    st.builds(
        lambda sign, whole, part: f"{sign}{whole}{'.' + part if part else ''}",
        st.sampled_from(["", "-"]),
        st.one_of(st.integers(0, 130), st.integers(0, 10**20), st.integers(0, 10**38 - 1)).map(str),
        st.one_of(st.just(""), st.text("059", max_size=3), st.text("0123456789", max_size=40)),
    ).filter(lambda text: len(text.replace("-", "").replace(".", "")) <= 38),
    st.floats(-1e40, 1e40).map(lambda number: f"{Decimal(number):E}" if "E" in f"{Decimal(number):E}" else "0E0"),
    st.sampled_from(["-99999999999999999999.999999999999999999", "9223372036854775807", "9223372036854775808",
                     "-9223372036854775808", "0." + "0" * 37 + "1", "0." + "9" * 38, "9" * 38, "2.5E0", "9.3E18",
                     "-1E-400", "1E300", "9.007199254740993E15", "16777217", "0.1"]),
)  # fmt: skip


@settings(deadline=None, max_examples=examples(100, 2400))
@given(data=st.data(), kind=st.sampled_from(TYPES), op=st.sampled_from(OPERATORS), literal=LITERALS)
def test_every_number_beside_every_column(data: st.DataObject, kind: str, op: str, literal: str) -> None:
    field = column("c", kind)
    values = data.draw(st.lists(st.one_of(st.none(), values_of(kind, literal)), min_size=1, max_size=8))
    found = parse_where(f"c {op} {literal}", [field])
    if isinstance(found, Opaque):
        assert kind == "FLOAT", "only FLOAT beside whole numbers that it cannot hold depends on the session's mode"
        return
    batch = pa.record_batch([pa.array(values, arrow_schema([field]).field(0).type)], names=["c"])
    stored = batch.column(0).to_pylist()
    expected = [outcome(kind, op, value, literal) for value in stored]
    assert mask(found, batch).to_pylist() == expected
    assert mask(parse_where(f"NOT (c {op} {literal})", [field]), batch).to_pylist() == [
        None if hit is None else not hit for hit in expected
    ]
    array = batch.column(0)
    bounds = Bounds(array, array, array.is_null().cast(pa.int64()))
    kept = may_match_all(found, {"c": bounds}, pa.array([1] * len(values)).to_numpy())
    assert all(keep for keep, hit in zip(kept.tolist(), expected, strict=True) if hit)
    if "CAST('inf'" not in to_spark_sql(found):
        again = parse_where(to_spark_sql(found), [field])
        if is_exact(again):
            assert mask(again, batch).to_pylist() == expected


@settings(deadline=None, max_examples=examples(40, 800))
@given(data=st.data(), kind=st.sampled_from(TYPES[:11]), literals=st.lists(LITERALS, min_size=1, max_size=3))
def test_lists_of_numbers(data: st.DataObject, kind: str, literals: list[str]) -> None:
    """Spark brings a column and a list to one type: doubles if any is one."""
    field = column("c", kind)
    found = parse_where(f"c IN ({', '.join(literals)})", [field])
    if isinstance(found, Opaque):
        return
    values = data.draw(st.lists(values_of(kind, literals[0]), min_size=1, max_size=6))
    batch = pa.record_batch([pa.array(values, arrow_schema([field]).field(0).type)], names=["c"])
    floats = any("E" in text for text in literals)
    texts = [f"{text}E0" if floats and "E" not in text else text for text in literals]
    expected = [any(outcome(kind, "=", value, text) for text in texts) for value in values]
    assert mask(found, batch).to_pylist() == expected


@pytest.mark.parametrize(
    ("kind", "sql", "expected"),
    [
        ("DECIMAL(38, 18)", "c = -99999999999999999999.999999999999999999",
         Compare("c", "=", Decimal("-99999999999999999999.999999999999999999"))),
        ("DECIMAL(38, 18)", "c = 0.0000000000000000005", Compare("c", "=", Decimal("1E-18"))),
        ("BIGINT", "c = 1E-30BD", Compare("c", "=", 0)),
        ("BIGINT", "c < 99999999999999999999999999999999999999999", None),
        ("DECIMAL(38, 0)", "c = " + "9" * 39, In("c", ())),
        ("INT", "c = CAST('7' AS DECIMAL(38, 10))", Compare("c", "=", 7)),
        ("DOUBLE", "c = CAST('Infinity' AS DOUBLE)", Compare("c", "=", math.inf)),
        ("INT", "c < CAST('NaN' AS DOUBLE)", None),
        ("TINYINT", "c = '300'", Opaque("c = '300'", ("c",))),
        ("FLOAT", "c = 16777217", Opaque("c = 16777217", ("c",))),
        ("DECIMAL(10, 2)", "c = '7'", Compare("c", "=", Decimal("7.00"))),
    ],
)  # fmt: skip
def test_what_a_literal_becomes(kind: str, sql: str, expected: Any) -> None:
    found = parse_where(sql, [column("c", kind)])
    if expected is None:
        batch = pa.record_batch([pa.array([1], arrow_schema([column("c", kind)]).field(0).type)], names=["c"])
        assert mask(found, batch).to_pylist() == [True]
    else:
        assert found == expected


@pytest.mark.parametrize("literal", [2.5, Decimal("2.5"), 1 << 70, Decimal("1E+40"), math.inf, math.nan])
@pytest.mark.parametrize("kind", ["BIGINT", "DECIMAL(10, 2)", "DECIMAL(38, 18)"])
def test_predicates_that_are_made_by_hand_compare_as_exactly(kind: str, literal: Any) -> None:
    batch = pa.record_batch([pa.array([2, 3, None], arrow_schema([column("c", kind)]).field(0).type)], names=["c"])
    above = not literal < 2
    assert mask(Compare("c", "<", literal), batch).to_pylist() == [above, above and not literal <= 3, None]
    assert mask(In("c", (literal, 3)), batch).to_pylist() == [False, True, None]


def test_a_literal_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidError, match="column=c"):
        mask(Compare("c", "=", "x"), pa.record_batch({"c": [1]}))
