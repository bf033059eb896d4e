"""File indexes never miss a row: every kind of index, every type that it takes, against the values themselves."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap
from tests.profile import examples

from bucketlake.errors import InvalidError
from bucketlake.format.file_index.container import FileIndex, FileIndexBuilder
from bucketlake.predicate.evaluate import mask
from bucketlake.predicate.tree import And, Compare, In, IsNotNull, IsNull, Not, Or, Predicate, StartsWith
from bucketlake.schema.file_indexes import index_specs
from bucketlake.types.model import DataField, arrow_schema
from bucketlake.types.parse import parse_type_text

UTC = dt.timezone.utc
EPOCH = dt.datetime(1970, 1, 1)
STAMPS = st.integers(-5, 5).map(lambda n: EPOCH + dt.timedelta(milliseconds=n)) | st.datetimes(
    dt.datetime(1700, 1, 1), dt.datetime(2250, 1, 1)
)


def near(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(-3, 3) | st.sampled_from([low, low + 1, high - 1, high]) | st.integers(low, high)


def millis(value: dt.datetime) -> dt.datetime:
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


def aware(value: dt.datetime) -> dt.datetime:
    return value.replace(tzinfo=UTC)


TYPES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": near(-128, 127),
    "SMALLINT": near(-(1 << 15), (1 << 15) - 1),
    "INT": near(-(1 << 31), (1 << 31) - 1),
    "BIGINT": near(-(1 << 63) + 1, (1 << 63) - 1),
    "FLOAT": st.floats(width=32) | st.sampled_from([0.0, -0.0, 0.1]),
    "DOUBLE": st.floats() | st.sampled_from([0.0, -0.0]),
    "DECIMAL(18, 2)": st.decimals(-(10**16) + 1, 10**16 - 1, places=2) | st.integers(-2, 2).map(Decimal),
    "STRING": st.text(max_size=5) | st.sampled_from(["", "a", "aa", "b", "ä" * 20]),
    "BINARY": st.binary(max_size=4),
    "DATE": st.dates(),
    "TIMESTAMP_NTZ(3)": STAMPS.map(millis),
    "TIMESTAMP_NTZ(6)": STAMPS,
    "TIMESTAMP_NTZ(9)": STAMPS,
    "TIMESTAMP_LTZ(6)": STAMPS.map(aware),
}
SMALL = {"items": "50", "fpp": "0.3"}
INDEXES: dict[str, dict[str, str]] = {
    "bloom-filter": SMALL,
    "bitmap": {"version": "2", "index-block-size": "40b"},
    "bitmap/v1": {"version": "1"},
    "range-bitmap": {"chunk-size": "20b"},
    "range-bitmap/default": {},
    "bsi": {},
}


def declared(kind: str, column: str = "a", **more: str) -> dict[str, str]:
    name = kind.split("/")[0]
    options = {f"file-index.{name}.{column}.{key}": value for key, value in {**INDEXES[kind], **more}.items()}
    return {f"file-index.{name}.columns": column, **options}


def possible() -> list[tuple[str, str]]:
    numbers = {"TINYINT", "SMALLINT", "INT", "BIGINT", "DATE"} | {
        name for name in TYPES if name.startswith("TIMESTAMP")
    }
    found = {
        "bloom-filter": set(TYPES) - {"BOOLEAN", "DECIMAL(18, 2)"},
        "bitmap": set(TYPES) - {"BINARY", "DECIMAL(18, 2)"},
        "range-bitmap": set(TYPES) - {"BINARY", "TIMESTAMP_NTZ(9)"},
        "bsi": numbers | {"DECIMAL(18, 2)"},
    }
    return [(kind, name) for kind in INDEXES for name in TYPES if name in found[kind.split("/")[0]]]


def field_of(name: str) -> DataField:
    text = name.replace("TIMESTAMP_NTZ", "TIMESTAMP").replace("BINARY", "BYTES")
    return DataField(0, "a", parse_type_text(text, "flink"))


@st.composite
def leaves(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> Predicate:
    op = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>", "in", "not in", "null", "not null", "not <=>"]))
    if op in ("in", "not in"):
        found = In("a", tuple(draw(st.lists(values | st.none(), max_size=3))))
        return found if op == "in" else Not(found)
    if op in ("null", "not null"):
        return IsNull("a") if op == "null" else IsNotNull("a")
    if op == "not <=>":
        return Not(Compare("a", "<=>", draw(values)))
    return Compare("a", op, draw(values))  # type: ignore[arg-type]


def conditions(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Predicate]:
    pairs = st.tuples(leaves(values), leaves(values))
    return leaves(values) | pairs.map(And) | pairs.map(Or)


@pytest.mark.parametrize(("kind", "name"), possible())
@settings(max_examples=examples(8, 480), deadline=None)
@given(data=st.data())
def test_no_row_is_missed(kind: str, name: str, data: st.DataObject) -> None:
    field = field_of(name)
    pool = data.draw(st.lists(TYPES[name], min_size=1, max_size=8))
    rows = data.draw(st.lists(st.sampled_from(pool) | st.none(), min_size=1, max_size=40))
    predicate = data.draw(conditions(st.sampled_from(pool) | TYPES[name]))
    batch = pa.record_batch([pa.array(rows, arrow_schema([field]).field(0).type)], ["a"])
    index = build(declared(kind), [field], [batch.slice(0, len(rows) // 2), batch.slice(len(rows) // 2)])
    matching = index.matching(predicate)
    truth = BitMap([at for at, hit in enumerate(mask(predicate, batch).to_pylist()) if hit])
    if matching is not None:
        assert truth <= matching
        exact = kind != "bloom-filter" and "(9)" not in name and not isinstance(predicate, (And, Or))
        assert not exact or matching == truth


def build(options: dict[str, str], fields: list[DataField], batches: list[pa.RecordBatch]) -> FileIndex:
    builder = FileIndexBuilder(index_specs(options), fields)
    for batch in batches:
        builder.update(batch)
    data = builder.finish()
    rows = sum(batch.num_rows for batch in batches)
    return FileIndex(lambda start, length: data[start : start + length], fields, rows, "an index")


@pytest.mark.parametrize(
    ("kind", "name"), [pair for pair in possible() if pair[1] not in ("FLOAT", "TIMESTAMP_NTZ(9)")]
)
def test_what_is_not_there_is_found_out(kind: str, name: str) -> None:
    """Indexes do leave out: a file of one value, asked for another."""
    here, other = PAIRS[name.split("(")[0]]
    field = field_of(name)
    batch = pa.record_batch([pa.array([here] * 5, arrow_schema([field]).field(0).type)], ["a"])
    index = build(declared(kind), [field], [batch])
    assert index.matching(Compare("a", "=", other)) == BitMap()
    assert index.matching(In("a", (other, None))) == BitMap()
    assert index.matching(Compare("a", "=", here)) in (None, BitMap(range(5)))


PAIRS: dict[str, tuple[Any, Any]] = {
    "BOOLEAN": (True, False),
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), (7, 100)),
    "DOUBLE": (1.5, 2.5),
    "DECIMAL": (Decimal("1.50"), Decimal("1.51")),
    "STRING": ("here", "other"),
    "BINARY": (b"here", b"other"),
    "DATE": (dt.date(2024, 1, 1), dt.date(2024, 1, 2)),
    "TIMESTAMP_NTZ": (EPOCH, EPOCH + dt.timedelta(milliseconds=1)),
    "TIMESTAMP_LTZ": (aware(EPOCH), aware(EPOCH + dt.timedelta(milliseconds=1))),
}


@pytest.mark.parametrize("kind", ["bitmap", "bitmap/v1", "range-bitmap", "range-bitmap/default"])
def test_many_values_of_every_length(kind: str) -> None:
    """Blocks and chunks of any filling, values longer than one of them."""
    texts = [f"{n * 7919 % 5003}" * (n % 9) for n in range(5000)] + ["x" * 20_000]
    field = field_of("STRING")
    batch = pa.record_batch([pa.array(texts)], ["a"])
    index = build(declared(kind), [field], [batch])
    for text in [texts[i] for i in range(0, 5001, 250)] + ["", "absent", "~"]:
        for op in ("=", "<", ">="):
            predicate = Compare("a", op, text)  # type: ignore[arg-type]
            found = index.matching(predicate)
            if found is not None:
                assert found == BitMap([at for at, hit in enumerate(mask(predicate, batch).to_pylist()) if hit])


@pytest.mark.parametrize("kind", sorted(INDEXES))
def test_all_null_columns(kind: str) -> None:
    batch = pa.record_batch([pa.nulls(6, pa.int32())], ["a"])
    index = build(declared(kind), [field_of("INT")], [batch])
    assert index.matching(Compare("a", "=", 1)) == BitMap()
    assert index.matching(IsNull("a")) in (None, BitMap(range(6)))


def test_values_of_one_key_of_a_map() -> None:
    field = DataField(0, "m", parse_type_text("MAP<STRING, INT>"))
    rows = [[("a", 1), ("b", 2)], None, [("b", 3)], [], [("a", None)], [("a", 4)]]
    batch = pa.record_batch([pa.array(rows, arrow_schema([field]).field(0).type)], ["m"])
    options = {"file-index.bitmap.columns": "m[a], m[b]", "file-index.bitmap.m.version": "1"}
    builder = FileIndexBuilder(index_specs(options), [field])
    builder.update(batch.slice(1))
    data = builder.finish()
    of_key = [DataField(0, "m[a]", parse_type_text("INT")), DataField(1, "m[b]", parse_type_text("INT"))]
    index = FileIndex(lambda start, length: data[start : start + length], of_key, 5, "an index")
    assert index.columns == {"m[a]", "m[b]"}
    assert index.index("m[a]", "bitmap")[:1] == b"\1"  # type: ignore[index]
    assert index.matching(Compare("m[a]", "=", 4)) == BitMap([4])
    assert index.matching(Compare("m[b]", "=", 3)) == BitMap([1])
    assert index.matching(IsNull("m[a]")) == BitMap([0, 1, 2, 3])


def test_conditions_that_an_index_cannot_answer_keep_all() -> None:
    index = build(declared("bitmap"), [field_of("STRING")], [pa.record_batch([pa.array(["x"])], ["a"])])
    assert index.matching(StartsWith("a", "y")) is None
    assert index.matching(Compare("b", "=", 1)) is None
    assert index.matching(Compare("a", "=", 1)) is None
    assert index.matching(Or((Compare("a", "=", "y"), Compare("b", "=", 1)))) is None
    assert index.matching(And((Compare("a", "=", "y"), Compare("b", "=", 1)))) == BitMap()


def test_what_an_index_cannot_hold_is_refused_by_name() -> None:
    field = DataField(0, "a", parse_type_text("DECIMAL(30, 0)"))
    batch = pa.record_batch([pa.array([Decimal(10**25)], pa.decimal128(30, 0))], ["a"])
    with pytest.raises(InvalidError, match="a"):
        build(declared("bsi"), [field], [batch])
    least = pa.record_batch([pa.array([-(1 << 63)], pa.int64())], ["a"])
    with pytest.raises(InvalidError, match="column=a, index=bsi"):
        build(declared("bsi"), [field_of("BIGINT")], [least])
