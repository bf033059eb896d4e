"""Statistics: what is collected, how bounds are cut, the stored form, and what Paimon collected of the same rows."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.format.rows import BOOLEAN, DATE, DOUBLE, KINDS, TIME, decimal, stamp, values_of, zoned

from bucketlake.errors import InvalidError
from bucketlake.format.metadata.manifest import SimpleStats
from bucketlake.format.metadata.stats import (
    EMPTY_STATS,
    ColumnStats,
    StatsCollector,
    StatsMode,
    decode_stats,
    decode_stats_columns,
    encode_dense,
    encode_stats,
    limited,
    truncated_max,
)
from bucketlake.format.row.binary_row import EMPTY_ROW
from bucketlake.types.model import BYTES, INT, STRING, DataField, DataType, Root, arrow_schema

FULL, CUT = StatsMode("full"), StatsMode("truncate", 3)


def collect(kind: DataType, *batches: list, mode: StatsMode = FULL) -> ColumnStats:
    fields = [DataField(0, "c", kind)]
    collector = StatsCollector(fields, [mode])
    for values in batches:
        collector.update(pa.record_batch([pa.array(values, arrow_schema(fields).field(0).type)], names=["c"]))
    return collector.result()[0]


@pytest.mark.parametrize(
    ("text", "mode"),
    [("none", StatsMode("none")), ("COUNTS", StatsMode("counts")), ("full", FULL), ("Truncate(3)", CUT)],
)
def test_modes(text, mode):
    assert StatsMode.parse(text) == mode


@pytest.mark.parametrize("text", ["", "truncate", "truncate(0)", "truncate(x)", "min"])
def test_unknown_modes_are_refused(text):
    with pytest.raises(InvalidError, match="unknown statistics mode"):
        StatsMode.parse(text)


@pytest.mark.parametrize(
    ("kind", "batches", "expected"),
    [
        (INT, [[3, None], [1, 2]], ColumnStats(1, 3, 1)),
        (INT, [[None], []], ColumnStats(None, None, 1)),
        (STRING, [["b", "é"], ["a", None]], ColumnStats("a", "é", 1)),
        (BYTES, [[b"\xff", b"\x00"]], ColumnStats(b"\x00", b"\xff", 0)),
        (BOOLEAN, [[True], [False]], ColumnStats(False, True, 0)),
        (decimal(38, 2), [[Decimal("-1.50"), Decimal("7.00")]], ColumnStats(Decimal("-1.50"), Decimal("7.00"), 0)),
        (DATE, [[dt.date(1, 1, 1), dt.date(9999, 12, 31)]], ColumnStats(dt.date(1, 1, 1), dt.date(9999, 12, 31), 0)),
        (TIME, [[dt.time(1), dt.time(2)]], ColumnStats(dt.time(1), dt.time(2), 0)),
        (stamp(9), [[5, -7]], ColumnStats(-7, 5, 0)),
        (zoned(3), [[dt.datetime(2024, 1, 1)]], ColumnStats(*[dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)] * 2, 0)),
        (DataType(Root.ARRAY, element=INT), [[[1], None]], ColumnStats(None, None, 1)),
    ],
)
def test_bounds_and_counts(kind, batches, expected):
    assert collect(kind, *batches) == expected


def test_not_a_number_is_the_greatest():
    assert math.isnan(collect(DOUBLE, [1.0], [math.nan, 2.0]).max)
    assert collect(DOUBLE, [math.nan], [2.0, 1.0]).min == 1.0
    alone = collect(DOUBLE, [math.nan, None])
    assert math.isnan(alone.min)
    assert math.isnan(alone.max)
    zeros = collect(DOUBLE, [0.0, -0.0])
    assert (math.copysign(1, zeros.min), math.copysign(1, zeros.max)) == (-1, 1)


def test_modes_keep_less():
    assert collect(STRING, ["abcdef", None], mode=StatsMode("none")) == ColumnStats()
    assert collect(STRING, ["abcdef", None], mode=StatsMode("counts")) == ColumnStats(None, None, 1)
    assert collect(STRING, ["abcdef", None], mode=CUT) == ColumnStats("abc", "abd", 1)
    assert collect(INT, [123456], mode=CUT) == ColumnStats(123456, 123456, 0)


@pytest.mark.parametrize(
    ("value", "bound"),
    [
        ("abc", "abc"),
        ("abcd", "abd"),
        ("ab\U0010ffffd", "ac"),
        ("\U0010ffff" * 4, None),
        ("ab\ud7ff?", "ab\ue000"),
        (b"abcd", b"abd"),
        (b"a\xff\xffd", b"b"),
        (b"\xff\xff\xff\xff", None),
        (b"\xff\xff\xff", b"\xff\xff\xff"),
    ],
)
def test_maxima_are_rounded_up(value, bound):
    assert truncated_max(value, 3) == bound
    if bound is None:
        assert limited(ColumnStats(value, value, 2), CUT) == ColumnStats(None, None, 2)


@given(st.one_of(st.text(st.characters(exclude_categories=["Cs"])), st.binary()), st.integers(1, 5))
def test_cut_bounds_enclose_the_value(value, length):
    cut = limited(ColumnStats(value, value, 0), StatsMode("truncate", length))
    assert cut.min is None or (cut.min <= value <= cut.max and len(cut.max) <= max(length, 0))


@st.composite
def described(draw):
    kinds = draw(st.lists(st.sampled_from(KINDS), max_size=5))
    counts = st.none() | st.integers(0, 9)
    stats = [ColumnStats(*(draw(st.none() | values_of(kind)) for _ in range(2)), draw(counts)) for kind in kinds]
    return kinds, stats


@given(described())
def test_stored_form_round_trips(found):
    kinds, stats = found
    assert decode_stats(encode_stats(stats, kinds), kinds) == stats


def test_dense_form_leaves_out_what_is_unknown():
    fields = [DataField(0, "a", INT), DataField(1, "b", STRING), DataField(2, "c", INT)]
    some = [ColumnStats(1, 2, 0), ColumnStats(), ColumnStats(None, None, 3)]
    stored, names = encode_dense(some, fields)
    assert names == ("a", "c")
    assert decode_stats(stored, [INT, INT]) == [some[0], some[2]]
    assert encode_dense([some[0]], fields[:1])[1] is None
    assert encode_dense([ColumnStats()], fields[:1]) == (EMPTY_STATS, ())


def test_empty_stats():
    assert SimpleStats(EMPTY_ROW, EMPTY_ROW, ()) == EMPTY_STATS


def test_columns_of_many_files():
    kinds = [INT, STRING, DOUBLE]
    all_nan = ColumnStats(math.nan, math.nan, 0)
    files = [
        encode_stats([ColumnStats(1, 5, 0), ColumnStats("a", "a longer text", 2), all_nan], kinds),
        encode_stats([ColumnStats(None, None, 7), ColumnStats(), ColumnStats(0.5, math.nan, 0)], kinds),
        encode_stats([ColumnStats(9, 9, 0)], kinds[:1]),
        EMPTY_STATS,
    ]  # fmt: skip
    numbers, texts, floats = decode_stats_columns(files, kinds, [0, 1, 2])
    assert numbers.mins.to_pylist() == [1, None, 9, None]
    assert numbers.null_counts.to_pylist() == [0, 7, 0, None]
    assert texts.maxs.to_pylist() == ["a longer text", None, None, None]
    assert texts.null_counts.to_pylist() == [2, None, None, None]
    assert floats.mins.to_pylist() == [None, 0.5, None, None]
    assert decode_stats_columns([], kinds, [1])[0].mins.to_pylist() == []
