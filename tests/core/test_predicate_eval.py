"""Masks against a three-valued model in plain Python, and pruning against masks."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.profile import examples

from bucketlake.errors import UnsupportedError
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
    Predicate,
    StartsWith,
    key_values,
    negate,
    restrict,
)
from bucketlake.types.model import arrow_schema

from .strategies import VALUES, column, columns

FIELDS = [column(text.split("(")[0].lower(), text, i) for i, text in enumerate(VALUES)]
BY_NAME = dict(zip([item.name for item in FIELDS], VALUES.values(), strict=True))
OPS = ["=", "<>", "<", "<=", ">", ">=", "<=>"]


def may_match(
    predicate: Predicate,
    mins: Mapping[str, Any],
    maxs: Mapping[str, Any],
    null_counts: Mapping[str, int | None],
    row_count: int,
) -> bool:
    """`may_match_all` for one file; absent means unknown."""
    columns = {
        name: Bounds(
            pa.array([mins.get(name)]), pa.array([maxs.get(name)]), pa.array([null_counts.get(name)], pa.int64()), False
        )
        for name in {*mins, *maxs, *null_counts}
    }
    return bool(may_match_all(predicate, columns, np.array([row_count]))[0])


def leaves(name):
    values = BY_NAME[name]
    found = [
        st.builds(Compare, st.just(name), st.sampled_from(OPS), values),
        st.builds(In, st.just(name), st.lists(values | st.none(), max_size=4).map(tuple)),
        st.just(IsNull(name)),
        st.just(IsNotNull(name)),
    ]
    if name == "string":
        found += [st.builds(kind, st.just(name), values) for kind in (StartsWith, EndsWith, Contains)]
        found.append(st.builds(Like, st.just(name), st.text("ab%_", max_size=3)))
    return st.one_of(found)


predicates = st.recursive(
    st.sampled_from(list(BY_NAME)).flatmap(leaves) | st.sampled_from([Constant(v) for v in (True, False, None)]),
    lambda inner: st.one_of(
        st.builds(And, st.lists(inner, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, max_size=3).map(tuple)),
        inner.map(negate),
    ),
    max_leaves=6,
)
rows = st.lists(st.fixed_dictionaries({n: v | st.none() for n, v in BY_NAME.items()}), min_size=1, max_size=6)


def order(value):
    """A sort key: NaN is one value above all numbers, -0.0 is 0.0, text goes by its bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value.encode() if isinstance(value, str) else value


def model(node: Predicate, row) -> bool | None:
    if isinstance(node, And):
        found = [model(child, row) for child in node.children]
        return False if False in found else None if None in found else True
    if isinstance(node, Or):
        found = [model(child, row) for child in node.children]
        return True if True in found else None if None in found else False
    if isinstance(node, Not):
        found = model(node.child, row)
        return None if found is None else not found
    if isinstance(node, Constant):
        return node.value
    value = row[node.column]
    if isinstance(node, IsNull):
        return value is None
    if isinstance(node, IsNotNull):
        return value is not None
    if isinstance(node, Compare) and node.op == "<=>":
        return value is not None and order(value) == order(node.literal)
    if value is None:
        return None
    if isinstance(node, Compare):
        a, b = order(value), order(node.literal)
        return {"=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[node.op]
    if isinstance(node, In):
        if order(value) in [order(item) for item in node.values if item is not None]:
            return True
        return None if None in node.values else False
    if isinstance(node, Like):
        pattern = "".join({"%": ".*", "_": "."}.get(mark, re.escape(mark)) for mark in node.pattern)
        return re.fullmatch(pattern, value, re.DOTALL) is not None
    if isinstance(node, StartsWith):
        return value.startswith(node.text)
    return value.endswith(node.text) if isinstance(node, EndsWith) else node.text in value


def batch_of(found):
    return pa.RecordBatch.from_pylist(found, schema=arrow_schema(FIELDS))


@settings(max_examples=examples(100, 2400), deadline=None)
@given(predicates, rows)
def test_mask_is_the_three_valued_model(predicate, found):
    assert mask(predicate, batch_of(found)).to_pylist() == [model(predicate, row) for row in found]


def bounds_of(values):
    known = sorted((v for v in values if v is not None and order(v) != (1, 0.0)), key=order)
    return (known[0], known[-1]) if known else (None, None)


@settings(max_examples=examples(100, 2400), deadline=None)
@given(predicates, st.lists(rows, min_size=1, max_size=3), st.data())
def test_pruning_never_drops_a_file_with_a_match(predicate, files, data):
    hidden = {name for name in BY_NAME if data.draw(st.integers(0, 5)) == 0}
    stats = []
    for found in files:
        lows, highs, nulls = {}, {}, {}
        for name in BY_NAME.keys() - hidden:
            lows[name], highs[name] = bounds_of([row[name] for row in found])
            nulls[name] = data.draw(st.sampled_from([sum(row[name] is None for row in found), None]))
        stats.append((lows, highs, nulls))
        if any(model(predicate, row) for row in found):
            assert may_match(predicate, lows, highs, nulls, len(found))
    schema = arrow_schema(FIELDS)
    together = {
        name: Bounds(
            pa.array([low[name] for low, _, _ in stats], schema.field(name).type),
            pa.array([high[name] for _, high, _ in stats], schema.field(name).type),
            pa.array([null[name] for _, _, null in stats], pa.int64()),
        )
        for name in BY_NAME.keys() - hidden
    }
    kept = may_match_all(predicate, together, np.array([len(found) for found in files]))
    for found, keep in zip(files, kept, strict=True):
        assert keep or not any(model(predicate, row) for row in found)


@settings(max_examples=examples(70, 1600), deadline=None)
@given(predicates, rows, st.sets(st.sampled_from(list(BY_NAME))))
def test_restriction_and_key_values_follow_from_the_predicate(predicate, found, names):
    part = restrict(predicate, names)
    pinned = key_values(predicate, sorted(names))
    for row in found:
        if model(predicate, row):
            assert part is None or model(part, row)
            assert pinned is None or tuple(row[name] for name in sorted(names)) in pinned


@settings(max_examples=examples(40, 800), deadline=None)
@given(predicates, rows)
def test_negation(predicate, found):
    opposite = {True: False, False: True, None: None}
    assert [model(negate(predicate), row) for row in found] == [opposite[model(predicate, row)] for row in found]


@pytest.mark.parametrize(
    ("sql", "low", "high", "nulls", "expected"),
    [
        ("i = 5", 1, 4, 0, False),
        ("i = 4", 1, 4, 0, True),
        ("i < 1", 1, 4, 0, False),
        ("i <= 1", 1, 4, 0, True),
        ("i > 4", 1, 4, 0, False),
        ("i <> 4", 4, 4, 0, False),
        ("i <> 4", 4, 5, 0, True),
        ("i IN (7, 8)", 1, 4, 0, False),
        ("i IN (0, 9)", 1, 4, 0, False),
        ("i NOT IN (1, NULL)", 1, 4, 0, False),
        ("i IS NULL", 1, 4, 0, False),
        ("i IS NULL", 1, 4, None, True),
        ("i IS NOT NULL", None, None, 10, False),
        ("i = 1", None, None, 10, False),
        ("i = 1", None, None, 3, True),
        ("NOT (i <=> 1)", None, None, 10, True),
        ("s LIKE 'b%'", "aa", "az", 0, False),
        ("s LIKE 'az%'", "aa", "az", 0, True),
        ("s LIKE 'a%'", "b", "c", 0, False),
        ("s = 'b'", "aa", "az", 0, False),
        ("f > 9", 1.0, 2.0, 0, True),  # NaN is greater than 9 and in no bounds
        ("f < 1", 1.0, 2.0, 0, False),
        ("f < 1", float("nan"), float("nan"), 0, True),
        ("upper(s) = 'x'", "a", "b", 0, True),
    ],
)
def test_one_file(sql, low, high, nulls, expected):
    predicate = parse_where(sql, columns(i="INT", s="STRING", f="DOUBLE"))
    names = {"i", "s", "f"} & set(re.findall(r"\b[isf]\b", sql))
    stats = [dict.fromkeys(names, value) for value in (low, high, nulls)]
    assert may_match(predicate, *stats, 10) is expected


def test_long_lists_prune_by_their_range():
    wanted = In("i", tuple(range(100, 300)))
    assert not may_match(wanted, {"i": 0}, {"i": 99}, {"i": 0}, 10)
    assert may_match(wanted, {"i": 0}, {"i": 100}, {"i": 0}, 10)


@pytest.mark.parametrize("of", [int, lambda n: f"k{n:06d}", lambda n: dt.date(2000, 1, 1) + dt.timedelta(days=n)])
def test_long_lists_prune_what_lies_between_their_values(of):
    wanted = In("c", (None, *(of(n) for n in range(0, 2000, 20))))
    assert may_match(wanted, {"c": of(21)}, {"c": of(40)}, {"c": 0}, 10)
    assert may_match(wanted, {"c": of(40)}, {"c": of(59)}, {"c": 0}, 10)
    assert may_match(wanted, {"c": None}, {"c": None}, {"c": 0}, 10)
    assert not may_match(wanted, {"c": of(21)}, {"c": of(39)}, {"c": 0}, 10)
    assert not may_match(wanted, {"c": of(1981)}, {"c": of(3000)}, {"c": 0}, 10)


def test_float_columns_compare_in_double():
    batch = pa.record_batch({"f": pa.array([0.1, 0.5], pa.float32())})
    assert mask(Compare("f", "=", 0.1), batch).to_pylist() == [False, False]
    assert mask(Compare("f", "=", 0.5), batch).to_pylist() == [False, True]


def test_opaque_is_sparks_affair():
    with pytest.raises(UnsupportedError, match="Spark"):
        mask(Opaque("f(x)"), pa.record_batch({"x": [1]}))


@pytest.mark.parametrize("text", ["TIMESTAMP(0)", "TIMESTAMP(9)", "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(9)"])
def test_timestamps_of_every_unit(text):
    field = column("t", text)
    day = parse_where("t = '2024-01-02'", [field])
    moment = dt.datetime(2024, 1, 2, tzinfo=dt.timezone.utc if "LTZ" in text else None)
    batch = pa.RecordBatch.from_pylist([{"t": moment}, {"t": None}], schema=arrow_schema([field]))
    assert mask(day, batch).to_pylist() == [True, None]
    assert mask(parse_where("t IN ('2024-01-02', '2024-01-03')", [field]), batch).to_pylist() == [True, None]
    assert mask(parse_where("t < '2024-01-02'", [field]), batch).to_pylist() == [False, None]


def test_bytes_times_and_decimals():
    fields = columns(x="BYTES", m="TIME(3)", p="DECIMAL(38, 18)")
    batch = pa.RecordBatch.from_pylist([{"x": b"\x01", "m": 1000, "p": None}], schema=arrow_schema(fields))
    assert mask(parse_where("x = X'01' AND m = '00:00:01' AND p IS NULL", fields), batch).to_pylist() == [True]
    assert mask(parse_where("p = 1.5", fields), batch).to_pylist() == [None]
