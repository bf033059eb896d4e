from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from bucketlake.errors import InvalidError
from bucketlake.types.model import arrow_schema, canonical_batch

from .strategies import column, columns


def canonical(array, text, **flags):
    fields = [column("c", text)]
    result = canonical_batch(pa.record_batch({"c": array}), fields, **flags)
    result.validate(full=True)
    assert result.schema == arrow_schema(fields)
    return result.column(0).to_pylist()


TEXT = pa.array(["a", None, "bc"])
NOT_UTF_8 = pa.array([b"a", b"\xff\xfe", b"z"]).view(pa.string())


@pytest.mark.parametrize(
    "array",
    [
        TEXT,
        TEXT.cast(pa.large_string()),
        TEXT.cast(pa.string_view()),
        TEXT.dictionary_encode(),
        *(
            pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 4], pa.int32()), one).slice(1)
            for one in (TEXT, TEXT.dictionary_encode(), TEXT.cast(pa.large_string()))
        ),
        pa.concat_arrays([pa.array(["x"]), TEXT]).slice(1),
    ],
)
def test_layouts_of_text(array):
    assert canonical(array, "STRING") == ["a", None, "bc"]


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list, pa.list_view, pa.large_list_view])
def test_layouts_of_lists(kind):
    array = pa.array([[9], [1, 2], None, [], [3, None]], kind(pa.int64())).slice(1)
    assert canonical(array, "ARRAY<INT>") == [[1, 2], None, [], [3, None]]


def test_values_hidden_under_nulls_do_not_count():
    lists = pa.ListArray.from_arrays([0, 1, 2, 3], pa.array([1, None, 3]), mask=pa.array([False, True, False]))
    assert canonical(lists, "ARRAY<INT NOT NULL>") == [[1], None, [3]]
    rows = pa.StructArray.from_arrays([pa.array([1, None])], ["a"], mask=pa.array([False, True]))
    assert canonical(rows, "ROW<a INT NOT NULL>") == [{"a": 1}, None]


def test_rows_are_matched_by_name_and_maps_keep_order():
    rows = pa.array([{"b": "x", "a": 1}, None, {"b": None, "a": 2}]).slice(1)
    assert canonical(rows, "ROW<a BIGINT, b STRING>") == [None, {"a": 2, "b": None}]
    maps = pa.array([[("q", 0)], [("k", 1), ("j", None)], None, []], pa.map_(pa.string_view(), pa.int64())).slice(1)
    assert canonical(maps, "MAP<STRING, INT>") == [[("k", 1), ("j", None)], None, []]


def test_columns_are_picked_by_name_and_extras_left_out():
    batch = pa.record_batch({"x": [1], "b": [2], "a": [3]})
    assert canonical_batch(batch, columns(a="BIGINT", b="INT")).to_pylist() == [{"a": 3, "b": 2}]


NEGATIVE = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)


@pytest.mark.parametrize(
    ("array", "text", "expected"),
    [
        (pa.array([NEGATIVE]), "TIMESTAMP(3)", [dt.datetime(1969, 12, 31, 23, 59, 59, 999_000)]),
        (pa.array([5], pa.int64()).cast(pa.timestamp("s")), "TIMESTAMP(6)", [dt.datetime(1970, 1, 1, 0, 0, 5)]),
        (pa.array([1001], pa.int32()), "TIME(3)", [dt.time(0, 0, 1, 1000)]),
        (pa.array([dt.time(1, 2, 3, 4567)], pa.time64("us")), "TIME(3)", [dt.time(1, 2, 3, 4000)]),
        (pa.array([86_400_000], pa.int64()).cast(pa.timestamp("ms")).cast(pa.date64()), "DATE", [dt.date(1970, 1, 2)]),
        (pa.array([7], pa.int64()), "DECIMAL(10, 2)", [Decimal("7.00")]),
        (pa.array([7], pa.int64()), "DECIMAL(38, 30)", [Decimal(7)]),
        (pa.array([Decimal("1.5")]), "DECIMAL(10, 2)", [Decimal("1.50")]),
        (pa.array([3], pa.uint64()), "TINYINT", [3]),
        (pa.array([1.5]), "FLOAT", [1.5]),
        (pa.array([2]), "DOUBLE", [2.0]),
        (pa.array([None, None]), "ROW<a INT>", [None, None]),
    ],
)
def test_conversions(array, text, expected):
    assert canonical(array, text) == expected


def test_zoned_timestamps_become_utc():
    array = pa.array([0], pa.int64()).cast(pa.timestamp("ns", "Asia/Tokyo"))
    assert canonical(array, "TIMESTAMP_LTZ(6)") == [dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)]


def test_zones_are_not_guessed_unless_trusted():
    naive = pa.array([0], pa.int64()).cast(pa.timestamp("us"))
    with pytest.raises(InvalidError, match=r"column=c.*time zone"):
        canonical(naive, "TIMESTAMP_LTZ(6)")
    with pytest.raises(InvalidError, match="column=c"):
        canonical(naive.cast(pa.timestamp("us", "UTC")), "TIMESTAMP(6)")
    assert canonical(naive, "TIMESTAMP_LTZ(6)", trusted=True) == [dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)]


@pytest.mark.parametrize(
    ("array", "text", "what"),
    [
        (pa.array([1, None]), "INT NOT NULL", "null value appeared in non-nullable field"),
        (pa.array([300]), "TINYINT", "does not fit"),
        (pa.array([1e300]), "FLOAT", "does not fit"),
        (pa.array([1.5]), "INT", "wrong type"),
        (pa.array(["1"]), "INT", "wrong type"),
        (pa.array([1]), "STRING", "wrong type"),
        (pa.array([1]), "BOOLEAN", "wrong type"),
        (pa.array([Decimal("123.45")]), "DECIMAL(4, 2)", "does not fit"),
        (pa.array([Decimal("1.255")]), "DECIMAL(10, 2)", "does not fit"),
        (pa.array([100]), "DECIMAL(2, 0)", "does not fit"),
        (pa.array([86_400_000], pa.int32()), "TIME(3)", "does not fit"),
        (pa.array(["abcd"]), "VARCHAR(3)", "longer than its column"),
        (pa.array([None, ["a", "abcd"]]), "ARRAY<CHAR(3)>", "longer than its column.*element"),
        (pa.array([[(1, "abcd")]], pa.map_(pa.int32(), pa.string())), "MAP<INT, VARCHAR(3)>", "longer .*value"),
        (pa.array([{"a": {"b": b"abcd"}}]), "ROW<a ROW<b VARBINARY(3)>>", r"longer .*a\.b"),
        (NOT_UTF_8, "STRING", "text that is not UTF-8"),
        (NOT_UTF_8.slice(1, 1), "VARCHAR(9)", "text that is not UTF-8"),
        (pa.ListArray.from_arrays([0, 3], NOT_UTF_8), "ARRAY<STRING>", "text that is not UTF-8"),
        (pa.array([b"abcd"]), "VARBINARY(3)", "longer than its column"),
        (pa.array([1]), "ARRAY<INT>", "wrong type"),
        (pa.array([[1]]), "ROW<a INT>", "wrong type"),
        (pa.array([{"b": 1}]), "ROW<a INT>", "missing"),
        (pa.array([[None]], pa.list_(pa.int32())), "ARRAY<INT NOT NULL>", "null value appeared in non-nullable field"),
        (
            pa.array([{"a": None}], pa.struct([("a", pa.int32())])),
            "ROW<a INT NOT NULL>",
            "null value appeared in non-nullable field",
        ),
    ],
)
def test_misfits_name_the_column(array, text, what):
    with pytest.raises(InvalidError, match=what) as caught:
        canonical(array, text)
    assert caught.value.details["column"].split(".")[0] == "c"


def test_text_of_table_files_is_as_it_is():
    trusted = canonical_batch(pa.record_batch({"c": NOT_UTF_8}), [column("c", "STRING")], trusted=True)
    assert trusted.column(0).view(pa.binary()).to_pylist() == [b"a", b"\xff\xfe", b"z"]


def test_missing_column():
    with pytest.raises(InvalidError, match="column=b"):
        canonical_batch(pa.record_batch({"a": [1]}), columns(b="INT"))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["x", "x", "y"], r"more than once \[members=\['c.x'\]"),
        (["X", "y", "z"], "missing .*column=c.x.*: members of the rows: X, y, z"),
        (["y", "y", "y"], "missing .*column=c.x.*: give every member"),
    ],
)
def test_members_that_are_not_those_of_the_column(names, message):
    array = pa.StructArray.from_arrays([pa.array([1])] * 3, names=names)
    with pytest.raises(InvalidError, match=message):
        canonical(array, "ROW<x BIGINT, y BIGINT>")
