"""Every aggregate gives what folding its rows one by one gives."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.profile import examples

from bucketlake.errors import InvalidError
from bucketlake.lsm.aggregates.functions import aggregate
from bucketlake.lsm.aggregates.rows import AggregateOptions
from bucketlake.types.model import BIGINT, DataField, DataType, Root, arrow_type, decimal_type
from bucketlake.types.parse import parse_type_text

from .aggregate_model import Refused, folded, row

PLAIN = AggregateOptions()
IGNORE = AggregateOptions(ignore_retract=True)


def times(count: int) -> settings:
    """As many examples; the time of one is not looked at."""
    return settings(
        max_examples=examples(count // 8, 5 * count), deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )


def kind_of(text: str) -> DataType:
    return parse_type_text(text, "flink")


def array_of(values: list[Any], kind: DataType) -> pa.Array:
    """The column, with an offset, as slices have."""
    whole = pa.array([None, *values], arrow_type(kind))
    return whole.slice(1)


def computed(name: str, kind: DataType, options: AggregateOptions, groups: list[list[tuple[str, Any]]]) -> list[Any]:
    """The results of all groups at once."""
    rows = [item for group in groups for item in group]
    marks = np.array([what for what, _ in rows])
    starts = np.cumsum([0, *(len(group) for group in groups)])[:-1].astype(np.int64)
    one = aggregate(name, DataField(1, "f", kind), options)
    result = one.apply(
        array_of([value for _, value in rows], kind), marks == "-", starts, late=marks == "<", seed=marks == "="
    )
    result.validate(full=True)
    assert result.type == arrow_type(kind)
    return result.to_pylist()


def image(value: Any, any_order: bool) -> Any:
    """What two equal results have in common: floats by their bits, entries in any order where order is free."""
    if isinstance(value, float):
        return np.float64(value).tobytes() if value == value else "nan"
    if any_order and isinstance(value, list):
        return sorted(map(repr, map(row, value)))
    return row(value)


def check(name: str, kind: DataType, options: AggregateOptions, groups: Any, any_order: bool = False) -> None:
    try:
        expected = [folded(name, kind, options, group) for group in groups]
    except Refused:
        with pytest.raises(InvalidError, match=f"field=f, function={name}"):
            computed(name, kind, options, groups)
        return
    if kind.root is Root.FLOAT:
        expected = [None if value is None else float(value) for value in expected]
    found = computed(name, kind, options, groups)
    assert [image(value, any_order) for value in found] == [image(value, any_order) for value in expected]


def groups_of(values: st.SearchStrategy[Any], marks: str, opening: str = "") -> st.SearchStrategy[Any]:
    """Groups of rows; `opening`: marks that a first row may have, all of them if empty."""
    rows = st.tuples(st.sampled_from(marks), st.none() | values)
    first = st.tuples(st.sampled_from(opening or marks), st.none() | values)
    group = st.builds(lambda head, tail: [head, *tail], first, st.lists(rows, max_size=6))
    return st.lists(group, min_size=1, max_size=5)


INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


@pytest.mark.parametrize("name", ["sum", "product"])
@given(data=st.data(), text=st.sampled_from(sorted(INTEGERS)), marks=st.sampled_from(["+", "+-", "+-<"]))
@times(120)
def test_integers(name: str, data: st.DataObject, text: str, marks: str) -> None:
    top = 1 << INTEGERS[text] - 1
    numbers = st.integers(-3, 3) | st.integers(-top, top - 1) | st.sampled_from([-top, top - 1, top // 2, -top // 2])
    check(name, kind_of(text), PLAIN, data.draw(groups_of(numbers, marks, marks + "=")))


@pytest.mark.parametrize("name", ["sum", "product"])
@given(data=st.data(), precision=st.integers(1, 38), marks=st.sampled_from(["+", "+-"]))
@times(150)
def test_decimals(name: str, data: st.DataObject, precision: int, marks: str) -> None:
    scale = data.draw(st.integers(0, precision))
    top = 10**precision - 1
    small = min(top, 30)
    unscaled = st.integers(-small, small) | st.integers(-top, top) | st.sampled_from([-top, top, top // 2, 10**scale])
    numbers = unscaled.filter(lambda n: abs(n) <= top).map(lambda n: Decimal(f"{n}e-{scale}"))
    check(name, decimal_type(precision, scale), PLAIN, data.draw(groups_of(numbers, marks)))


@pytest.mark.parametrize("name", ["sum", "product"])
@given(data=st.data(), width=st.sampled_from([32, 64]), marks=st.sampled_from(["+", "+-=<"]))
@times(100)
def test_floats(name: str, data: st.DataObject, width: int, marks: str) -> None:
    numbers = st.floats(width=width) | st.sampled_from([0.0, -0.0, 1.0, 0.5, 3.0])
    if width == 32:
        numbers = numbers.map(np.float32)
    check(name, kind_of("FLOAT" if width == 32 else "DOUBLE"), PLAIN, data.draw(groups_of(numbers, marks)))


COMPARED = {
    "BIGINT": st.integers(-(1 << 63), (1 << 63) - 1),
    "TINYINT": st.integers(-128, 127),
    "DOUBLE": st.floats() | st.sampled_from([0.0, -0.0]),
    "STRING": st.text("ab\0é𐀀", max_size=20),
    "BYTES": st.binary(max_size=10),
    "DATE": st.dates(),
    "DECIMAL(30, 2)": st.integers(-(10**29), 10**29).map(lambda n: Decimal(f"{n}e-2")),
    "DECIMAL(9, 0)": st.integers(-(10**9) + 1, 10**9 - 1).map(Decimal),
}


@pytest.mark.parametrize("text", COMPARED)
@given(data=st.data(), name=st.sampled_from(["max", "min"]), options=st.sampled_from([PLAIN, IGNORE]))
@times(60)
def test_comparing(text: str, data: st.DataObject, name: str, options: AggregateOptions) -> None:
    check(name, kind_of(text), options, data.draw(groups_of(COMPARED[text], "+++-<=")))


@given(
    groups=groups_of(st.booleans(), "+++-<="),
    name=st.sampled_from(["bool_and", "bool_or"]),
    options=st.sampled_from([PLAIN, IGNORE]),
)
@times(60)
def test_bools(groups: Any, name: str, options: AggregateOptions) -> None:
    check(name, kind_of("BOOLEAN"), options, groups)


PICKS = ["first_value", "first_non_null_value", "last_value", "last_non_null_value", "primary-key"]


@pytest.mark.parametrize("name", PICKS)
@given(groups=groups_of(st.integers(0, 9), "++--<<="), options=st.sampled_from([PLAIN, IGNORE]))
@times(250)
def test_picking(name: str, groups: Any, options: AggregateOptions) -> None:
    check(name, BIGINT, options, groups)


@given(
    groups=groups_of(st.sampled_from(["", " ", "a", "b", "a,b", "b,c,,b", "a;b", " ,a", "\t", "c"]), "++<="),
    distinct=st.booleans(),
    delimiter=st.sampled_from([",", ";", " "]),
)
@times(300)
def test_listagg(groups: Any, distinct: bool, delimiter: str) -> None:
    check("listagg", kind_of("STRING"), AggregateOptions(distinct=distinct, delimiter=delimiter), groups)


NAN_FREE = st.sampled_from([0.5, 1.5, None])
ELEMENTS = {
    "ARRAY<INT>": st.integers(0, 3) | st.none(),
    "ARRAY<STRING>": st.sampled_from(["a", "b", None]),
    "ARRAY<ROW<x INT, y DOUBLE>>": st.none()
    | st.fixed_dictionaries({"x": st.integers(0, 1) | st.none(), "y": NAN_FREE}),
    "ARRAY<ARRAY<INT>>": st.none() | st.lists(st.integers(0, 1) | st.none(), max_size=2),
    "ARRAY<MAP<INT, INT>>": st.none() | st.lists(st.tuples(st.just(1), st.integers(0, 1)), max_size=1),
}


@pytest.mark.parametrize("text", ELEMENTS)
@given(data=st.data(), distinct=st.booleans(), ignore=st.booleans())
@times(120)
def test_collect(text: str, data: st.DataObject, distinct: bool, ignore: bool) -> None:
    options = AggregateOptions(distinct=distinct, ignore_retract=ignore)
    groups = data.draw(groups_of(st.lists(ELEMENTS[text], max_size=3), "++-<"))
    check("collect", kind_of(text), options, groups, any_order=distinct)


@given(
    groups=groups_of(
        st.dictionaries(st.sampled_from("abc"), st.integers(0, 9) | st.none()).map(lambda d: list(d.items())), "++-<="
    ),
    ignore=st.booleans(),
)
@times(200)
def test_merge_map(groups: Any, ignore: bool) -> None:
    check("merge_map", kind_of("MAP<STRING, INT>"), AggregateOptions(ignore_retract=ignore), groups, any_order=True)


TIMED = st.fixed_dictionaries({"v": st.integers(0, 99), "ts": st.sampled_from(["1", "2", "30", None])})


@given(
    groups=groups_of(st.dictionaries(st.sampled_from("abc"), TIMED | st.none()).map(lambda d: list(d.items())), "+="),
    first=st.booleans(),
)
@times(300)
def test_merge_map_with_keytime(groups: Any, first: bool) -> None:
    text = "MAP<STRING, ROW<ts STRING, v INT>>" if first else "MAP<STRING, ROW<v INT, ts STRING>>"
    options = AggregateOptions(ts_field="ts" if first else None)
    if first:
        groups = [[(what, turned(value)) for what, value in group] for group in groups]
    check("merge_map_with_keytime", kind_of(text), options, groups, any_order=True)


def turned(entries: Any) -> Any:
    if entries is None:
        return None
    return [(key, None if item is None else {"ts": item["ts"], "v": item["v"]}) for key, item in entries]


ALL_TIMED = st.fixed_dictionaries({"v": st.integers(0, 99), "ts": st.sampled_from(["1", "2", "30"])})


@given(groups=groups_of(st.dictionaries(st.sampled_from("abc"), ALL_TIMED).map(lambda d: list(d.items())), "+<", "+"))
@times(150)
def test_merge_map_with_keytime_out_of_order(groups: Any) -> None:
    kind = kind_of("MAP<STRING, ROW<v INT, ts STRING>>")
    check("merge_map_with_keytime", kind, PLAIN, groups, any_order=True)


def items(members: dict[str, st.SearchStrategy[Any]], nulls: bool = True) -> st.SearchStrategy[Any]:
    item = st.fixed_dictionaries(members)
    return st.lists(st.none() | item if nulls else item, max_size=4)


SMALL = st.integers(0, 2) | st.none()
NESTED = {
    "k": SMALL,
    "j": st.sampled_from(["a", "b", None]),
    "s": st.integers(-2, 2) | st.none(),
    "v": st.integers(0, 99),
}
NESTED_TYPE = "ARRAY<ROW<k INT, j STRING, s INT, v INT>>"
KEYS = st.sampled_from([("k",), ("k", "j")])
STRATEGIES = st.sampled_from([None, "merge", "ignore", "error"])


@given(data=st.data(), keys=KEYS, sequence=st.sampled_from([(), ("s",), ("s", "v")]), strategy=STRATEGIES)
@times(300)
def test_nested_update_by_key(data: st.DataObject, keys: Any, sequence: Any, strategy: str | None) -> None:
    options = AggregateOptions(nested_key=keys, nested_sequence_field=sequence, nested_key_null_strategy=strategy)
    groups = data.draw(groups_of(items(NESTED), "++-<", "+"))
    check("nested_update", kind_of(NESTED_TYPE), options, groups, any_order=True)


@given(groups=groups_of(items({"k": SMALL, "v": st.integers(0, 1)}), "++-<"))
@times(200)
def test_nested_update_appends(groups: Any) -> None:
    check("nested_update", kind_of("ARRAY<ROW<k INT, v INT>>"), PLAIN, groups)


@given(
    groups=groups_of(items({"k": st.integers(0, 5), "v": st.integers(0, 2)}, nulls=False), "++-<"),
    keys=st.sampled_from([(), ("k",)]),
    limit=st.integers(4, 6),
)
@times(300)
def test_nested_update_up_to_a_limit(groups: Any, keys: Any, limit: int) -> None:
    options = AggregateOptions(nested_key=keys, count_limit=limit)
    check("nested_update", kind_of("ARRAY<ROW<k INT, v INT>>"), options, groups, any_order=bool(keys))


@given(groups=groups_of(items(NESTED | {"v": SMALL}), "++<", "+"), keys=KEYS, strategy=STRATEGIES)
@times(200)
def test_nested_partial_update(groups: Any, keys: Any, strategy: str | None) -> None:
    options = AggregateOptions(nested_key=keys, nested_key_null_strategy=strategy)
    check("nested_partial_update", kind_of(NESTED_TYPE), options, groups, any_order=True)
