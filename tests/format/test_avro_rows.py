"""Rows as Avro, against fastavro, which encodes the same a row at a time."""

from __future__ import annotations

import io
import itertools
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketlake.errors import CorruptError, InvalidError
from bucketlake.format.data.avro import avro_schema, decimal_bytes, decimals
from bucketlake.format.data.avro_rows import encoded_rows
from bucketlake.types.model import DataField, DataType, Root, arrow_schema
from bucketlake.types.parse import parse_type_text

PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "INT": st.integers(-(1 << 31), (1 << 31) - 1),
    "BIGINT": st.integers(-(1 << 63), (1 << 63) - 1),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "STRING": st.text(max_size=200),
    "BYTES": st.binary(max_size=70),
}


def _row_of(parts: list[str]) -> str:
    return f"ROW<{', '.join(f'f{place} {part}' for place, part in enumerate(parts))}>"


texts = st.recursive(
    st.tuples(st.sampled_from(list(PLAIN)), st.sampled_from(["", " NOT NULL"])).map("".join),
    lambda part: st.one_of(
        part.map(lambda text: f"ARRAY<{text}>"),
        part.map(lambda text: f"MAP<STRING NOT NULL, {text}> NOT NULL"),
        st.tuples(st.sampled_from(["INT", "BIGINT NOT NULL"]), part).map(lambda two: f"MAP<{two[0]}, {two[1]}>"),
        st.lists(part, min_size=1, max_size=3).map(_row_of),
    ),
    max_leaves=5,
)


def values(t: DataType) -> st.SearchStrategy[Any]:
    """Values of a type as Arrow takes them."""
    if t.root is Root.ROW:
        found = st.fixed_dictionaries({item.name: values(item.type) for item in t.fields})
    elif t.root is Root.ARRAY and t.element is not None:
        found = st.lists(values(t.element), max_size=3)
    elif t.root is Root.MAP and t.key is not None and t.element is not None:
        key = PLAIN["STRING"] if t.key.root is Root.VARCHAR else PLAIN[t.key.root.name]
        found = st.dictionaries(key, values(t.element), max_size=3).map(lambda made: list(made.items()))
    else:
        found = PLAIN[{"VARCHAR": "STRING", "VARBINARY": "BYTES"}.get(t.root.name, t.root.name)]
    return found if not t.nullable else st.none() | found


def spelled(value: Any, t: DataType) -> Any:
    """As fastavro takes and gives it: maps that are not keyed by text are entries."""
    if value is None:
        return None
    if t.root is Root.ROW:
        return {item.name: spelled(value[item.name], item.type) for item in t.fields}
    if t.root is Root.ARRAY and t.element is not None:
        return [spelled(one, t.element) for one in value]
    if t.root is Root.MAP and t.key is not None and t.element is not None:
        pairs = [(key, spelled(one, t.element)) for key, one in value]
        return dict(pairs) if t.key.root is Root.VARCHAR else [{"key": key, "value": one} for key, one in pairs]
    return value


@given(st.data())
def test_fastavro_reads_what_was_written(data: st.DataObject) -> None:
    types = [parse_type_text(text, "flink") for text in data.draw(st.lists(texts, min_size=1, max_size=3), "types")]
    fields = [DataField(place, f"c{place}", t) for place, t in enumerate(types)]
    rows = data.draw(st.lists(st.tuples(*[values(t) for t in types]), max_size=6), "rows")
    schema = arrow_schema(fields)
    arrays = [pa.array([row[i] for row in rows], schema.field(i).type) for i in range(len(fields))]
    batch = pa.RecordBatch.from_arrays(arrays, names=schema.names)
    first = data.draw(st.integers(0, len(rows)), "first")
    stream = io.BytesIO(encoded_rows(batch.slice(first), fields))
    parsed = fastavro.parse_schema(unique(avro_schema(fields), itertools.count()))
    found = [fastavro.schemaless_reader(stream, parsed) for _ in rows[first:]]
    assert stream.read() == b""
    assert found == [
        {item.name: spelled(value, item.type) for item, value in zip(fields, row, strict=True)} for row in rows[first:]
    ]


whole = st.one_of(st.integers(-300, 300), st.integers(-(1 << 66), 1 << 66), st.integers(-(10**38) + 1, 10**38 - 1))
edges = st.builds(
    lambda bits, sign, more: sign * (1 << bits) + more,
    *(st.integers(0, 125), st.sampled_from([1, -1]), st.integers(-1, 1)),
)


@given(st.lists(st.none() | whole | edges, max_size=12), st.integers(0, 3))
def test_decimals_take_the_fewest_bytes_and_come_back(numbers: list[int | None], first: int) -> None:
    t = parse_type_text("DECIMAL(38, 0)", "flink")
    kept = [None if one is None or abs(one) >= 10**38 else one for one in numbers]
    given = pa.array([None if one is None else Decimal(one) for one in kept], pa.decimal128(38, 0)).slice(first)
    stored = decimal_bytes(given)
    fewest = [
        None if one is None else one.to_bytes((one if one >= 0 else ~one).bit_length() // 8 + 1, "big", signed=True)
        for one in kept[first:]
    ]
    assert stored.to_pylist() == fewest
    assert decimals(stored, t).equals(given)
    assert decimals(pa.array(fewest, pa.binary()).slice(1), t).equals(given.slice(1))


@pytest.mark.parametrize("data", [b"", b"\x00" * 5 + b"\x07", b"\xff" * 16, b"\xff" * 9 + b"\x01"])
def test_decimals_of_more_bytes_than_needed(data: bytes) -> None:
    t = parse_type_text("DECIMAL(38, 0)", "flink")
    expected = Decimal(int.from_bytes(data, "big", signed=True))
    assert decimals(pa.array([b"\x7f", data], pa.binary()), t).to_pylist() == [Decimal(127), expected]
    with pytest.raises(CorruptError, match="more than 16 bytes"):
        decimals(pa.array([b"\x00" * 17], pa.binary()), t)


def unique(schema: Any, numbers: Any) -> Any:
    """The schema with record names of their own: Paimon's repeat, which fastavro minds."""
    if isinstance(schema, list):
        return [unique(one, numbers) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: unique(one, numbers) if key in ("items", "values", "type") else one for key, one in schema.items()}
    if schema.get("type") == "record":
        fields = [{"name": one["name"], "type": unique(one["type"], numbers)} for one in schema["fields"]]
        return {"type": "record", "name": f"r{next(numbers)}", "fields": fields}
    return {key: one for key, one in made.items() if key != "logicalType"}


@pytest.mark.parametrize("number", [0, -1, 63, 64, -64, -65, 8191, 8192, -(1 << 63), (1 << 63) - 1, 1 << 62])
def test_numbers_take_the_fewest_bytes(number: int) -> None:
    field = DataField(0, "c", parse_type_text("BIGINT NOT NULL", "flink"))
    expected = io.BytesIO()
    fastavro.schemaless_writer(expected, fastavro.parse_schema({"type": "long"}), number)
    batch = pa.RecordBatch.from_arrays([pa.array([number, 0], pa.int64())], names=["c"])
    assert encoded_rows(batch, [field]) == expected.getvalue() + b"\x00"


@pytest.mark.parametrize("text", ["BIGINT NOT NULL", "ROW<x BIGINT NOT NULL>", "ARRAY<BIGINT NOT NULL>"])
def test_null_has_no_encoding_where_there_is_none(text: str) -> None:
    value = {"B": None, "R": {"x": None}, "A": [None]}[text[0]]
    fields = [DataField(0, "c", parse_type_text(text, "flink"))]
    kind = arrow_schema([DataField(0, "c", parse_type_text(text.replace(" NOT NULL", ""), "flink"))]).field(0).type
    with pytest.raises(InvalidError, match="NOT NULL"):
        encoded_rows(pa.RecordBatch.from_arrays([pa.array([value], kind)], names=["c"]), fields)
