"""Columns of type VECTOR: lists of one length without nulls, declared by options, comments or a type."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.schema.change import AddColumn, DropColumn, RenameColumn, SetOption, UpdateColumnType
from bucketlake.table import Table
from bucketlake.types.model import BIGINT, DataField, DataType
from bucketlake.types.parse import parse_type_text

FLOATS = parse_type_text("ARRAY<FLOAT>", "flink")
VECTOR = parse_type_text("VECTOR<FLOAT, 3>", "flink")
ARROW = pa.schema([("id", pa.int64()), ("v", pa.list_(pa.float32()))])


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = bucketlake.open(tmp_path / "wh")
    made.create_database("db")
    return made


def fields(kind: DataType = VECTOR, comment: str | None = None) -> list[DataField]:
    return [DataField(0, "id", BIGINT), DataField(1, "v", kind, comment)]


def made(catalog: Catalog, keys: bool = True, **options: Any) -> Table:
    own = {"bucket": "2"} if keys else {}
    options = {**own, **{key.replace("__", "-"): value for key, value in options.items()}}
    return catalog.create_table("db.t", fields(), primary_keys=["id"] if keys else [], options=options)


def some(*rows: tuple[int, list[Any] | None]) -> pa.Table:
    return pa.table({"id": [key for key, _ in rows], "v": [vector for _, vector in rows]}, ARROW)


def found(table: Table, **given: Any) -> dict[int, Any]:
    got = table.refresh().to_arrow(**given)
    return dict(zip(got.column("id").to_pylist(), got.column("v").to_pylist(), strict=True))


# ---------------------------------------------------------------------------------------------- declared


@pytest.mark.parametrize(
    ("column", "options", "comment"),
    [
        (fields(FLOATS), {"vector-field": "v", "field.v.vector-dim": "3"}, None),
        (fields(FLOATS, "__VECTOR_FIELD;3"), {}, None),
        (fields(FLOATS, " __VECTOR_FIELD; 3 ; what it is; for us "), {}, "what it is; for us"),
        (fields(VECTOR, "plain"), {}, "plain"),
    ],
)
def test_a_column_is_declared(
    catalog: Catalog, column: list[DataField], options: dict[str, str], comment: str | None
) -> None:
    table = catalog.create_table("db.t", column, options=options)
    stored = json.loads((Path(table.path) / "schema" / "schema-0").read_text())
    assert stored["fields"][1]["type"] == {"type": "VECTOR", "element": "FLOAT", "length": 3}
    assert stored["fields"][1].get("description") == comment
    assert stored["options"]["vector-field"] == "v"
    assert stored["options"]["field.v.vector-dim"] == "3"
    assert found(table) == {}


@pytest.mark.parametrize(
    ("column", "options", "message"),
    [
        (fields(FLOATS), {"vector-field": "v"}, "you must also set 'field.%s.vector-dim'"),
        (fields(FLOATS), {"vector-field": "v", "field.v.vector-dim": "x"}, "Expected an integer"),
        (fields(FLOATS), {"vector-field": "v", "field.v.vector-dim": "0"}, "must be >= 1, but got: 0"),
        (fields(FLOATS), {"vector-field": "w", "field.w.vector-dim": "3"}, "vector-field are unknown"),
        (fields(BIGINT), {"vector-field": "v", "field.v.vector-dim": "3"}, "must be of ARRAY type"),
        (fields(FLOATS, "__VECTOR_FIELD"), {}, "requires a dimension"),
        (fields(FLOATS, "__VECTOR_FIELD;many"), {}, "Expected an integer dimension"),
        (fields(FLOATS, "__VECTOR;3"), {}, "Unsupported VECTOR directive"),
        (fields(BIGINT, "__VECTOR_FIELD;3"), {}, "must be of ARRAY type, but was BIGINT"),
        (fields(parse_type_text("ARRAY<STRING>", "flink"), "__VECTOR_FIELD;3"), {}, "Invalid element type for vector"),
        (fields(), {"file.format": "orc"}, "VECTOR is supported by file.format parquet and avro, not by orc"),
        (fields(), {"bucket": "1", "bucket-key": "v"}, "nested type can not in bucket-key"),
    ],
)
def test_what_cannot_be_a_vector_is_refused(
    catalog: Catalog, column: list[DataField], options: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidError, match=message):
        catalog.create_table("db.t", column, options=options)
    assert catalog.tables("db") == []


@pytest.mark.parametrize("how", ["primary_keys", "partition_keys"])
def test_a_vector_is_no_key(catalog: Catalog, how: str) -> None:
    with pytest.raises(InvalidError, match=r"v|VECTOR"):
        catalog.create_table("db.t", fields(), **{how: ["v"]})


@pytest.mark.parametrize("text", ["VECTOR<STRING, 3>", "VECTOR<FLOAT, 0>", "VECTOR<FLOAT, 2147483648>"])
def test_a_type_that_none_is(text: str) -> None:
    with pytest.raises(InvalidError, match=r"Invalid element type|Vector length must be between"):
        parse_type_text(text, "flink")


@pytest.mark.parametrize("text", ["ARRAY<VECTOR<FLOAT, 3>>", "ROW<v VECTOR<FLOAT, 3>>", "MAP<INT, VECTOR<FLOAT, 3>>"])
def test_a_vector_inside_another_type_is_refused(catalog: Catalog, text: str) -> None:
    with pytest.raises(UnsupportedError, match="VECTOR"):
        catalog.create_table("db.t", fields(parse_type_text(text, "flink")))
    assert catalog.tables("db") == []


def test_files_of_vectors_alone_are_refused(catalog: Catalog) -> None:
    with pytest.raises(UnsupportedError, match=r"vector\.file\.format"):
        catalog.create_table("db.t", fields(), options={"vector.file.format": "vortex"})


# ---------------------------------------------------------------------------------------------- rows

KINDS: dict[str, tuple[bool, dict[str, str]]] = {
    "append": (False, {}),
    "bucketed": (False, {"bucket": "2", "bucket-key": "id"}),
    "fixed": (True, {}),
    "dynamic": (True, {"bucket": "-1"}),
    "postpone": (True, {"bucket": "-2"}),
    "marked": (True, {"deletion-vectors.enabled": "true"}),
    "partial": (True, {"merge-engine": "partial-update"}),
    "lookup": (True, {"changelog-producer": "lookup"}),
    "evolving": (False, {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}),
}


@pytest.mark.parametrize("format", ["parquet", "avro"])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_come_back(catalog: Catalog, kind: str, format: str) -> None:
    keys, options = KINDS[kind]
    table = catalog.create_table(
        "db.t",
        fields(),
        primary_keys=["id"] if keys else [],
        options={**({"bucket": "2"} if keys else {}), **options, "file.format": format},
    )
    table.write_arrow(some((1, [1.0, 2.0, 3.0]), (2, None), (3, [float("inf"), -0.0, 1e-30])))
    new = 2 if keys else 4
    table.write_arrow(some((new, [7.0, 8.0, 9.0])))
    table.refresh().compact()
    expected = {1: [1.0, 2.0, 3.0], 2: None, 3: [float("inf"), -0.0, pytest.approx(1e-30)], new: [7.0, 8.0, 9.0]}
    assert found(table) == expected
    assert found(table, where="v IS NULL") == {key: vector for key, vector in expected.items() if vector is None}


@pytest.mark.parametrize(
    ("element", "values"),
    [
        ("BOOLEAN", [True, False, True]),
        ("TINYINT", [1, -128, 127]),
        ("SMALLINT", [1, -32768, 32767]),
        ("INT", [1, -(2**31), 2**31 - 1]),
        ("BIGINT", [1, -(2**63), 2**63 - 1]),
        ("FLOAT NOT NULL", [0.5, -0.25, 2.0]),
        ("DOUBLE", [0.1, -1e300, 2.0]),
    ],
)
@pytest.mark.parametrize("format", ["parquet", "avro"])
def test_every_element_type(catalog: Catalog, element: str, values: list[Any], format: str) -> None:
    kind = parse_type_text(f"VECTOR<{element}, 3>", "flink")
    table = catalog.create_table("db.t", fields(kind), options={"file.format": format})
    table.write_arrow(pa.table({"id": [1, 2], "v": [values, None]}))
    assert found(table) == {1: values, 2: None}


def test_arrays_of_one_length_are_taken(catalog: Catalog) -> None:
    """Whatever the layout of lists: those of fixed size, with large offsets, slices."""
    table = made(catalog)
    flat = pa.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], pa.float32())
    layouts: list[Callable[[], pa.Array]] = [
        lambda: pa.FixedSizeListArray.from_arrays(flat, 3),
        lambda: pa.array([[1, 2, 3], [4, 5, 6]], pa.large_list(pa.float64())),
        lambda: pa.array([[9, 9], [1, 2, 3], [4, 5, 6], [7]], pa.list_(pa.float32())).slice(1, 2),
    ]
    for number, layout in enumerate(layouts):
        table.write_arrow(pa.table({"id": [number, number + 10], "v": layout()}))
    assert found(table) == {0: [1, 2, 3], 10: [4, 5, 6]} | {
        n + m: v for n in (1, 2) for m, v in ((0, [1, 2, 3]), (10, [4, 5, 6]))
    }


@pytest.mark.parametrize("keys", [True, False])
@pytest.mark.parametrize(
    ("vector", "message"),
    [
        ([1.0, 2.0], "Vector length mismatch. Expected 3 but was 2"),
        ([], "Vector length mismatch. Expected 3 but was 0"),
        ([1.0, 2.0, 3.0, 4.0], "Vector length mismatch. Expected 3 but was 4"),
        ([1.0, None, 3.0], "an element of a vector is null"),
    ],
)
def test_other_lengths_and_nulls_are_refused(catalog: Catalog, keys: bool, vector: list[Any], message: str) -> None:
    table = made(catalog, keys)
    with pytest.raises(InvalidError, match=message):
        table.write_arrow(some((1, [1.0, 2.0, 3.0]), (2, vector)))
    assert table.refresh().latest_snapshot() is None


def test_rows_change(catalog: Catalog) -> None:
    table = made(catalog, keys=False)
    table.write_arrow(some((1, [1.0, 2.0, 3.0]), (2, [4.0, 5.0, 6.0]), (3, None)))
    table.delete("id = 3")
    table.update({"v": [0.0, 0.5, 1.0]}, "id = 2")
    assert found(table) == {1: [1, 2, 3], 2: [0, 0.5, 1]}
    with pytest.raises(InvalidError, match="Expected 3 but was 1"):
        table.update({"v": [0.0]}, "id = 2")
    assert found(table) == {1: [1, 2, 3], 2: [0, 0.5, 1]}


# ---------------------------------------------------------------------------------------------- altered


def test_columns_come_and_go(catalog: Catalog) -> None:
    table = made(catalog, keys=False)
    table.write_arrow(some((1, [1.0, 2.0, 3.0])))
    table = table.alter(AddColumn(("w",), parse_type_text("ARRAY<DOUBLE>", "flink"), "__VECTOR_FIELD;2; new"))
    assert table.schema.options["vector-field"] == "v,w"
    assert table.schema.field("w").type == parse_type_text("VECTOR<DOUBLE, 2>", "flink")
    assert table.schema.field("w").description == "new"
    table.write_arrow(
        pa.table({"id": [2], "v": [None], "w": [[1.0, 2.0]]}, pa.schema([*ARROW, ("w", pa.list_(pa.float64()))]))
    )
    table = table.alter(RenameColumn(("w",), "u"))
    assert table.schema.options["vector-field"] == "v,u"
    assert table.schema.options["field.u.vector-dim"] == "2"
    assert "field.w.vector-dim" not in table.schema.options
    assert table.to_arrow().sort_by("id").column("u").to_pylist() == [None, [1.0, 2.0]]
    table = table.alter(DropColumn(("u",)))
    assert table.schema.options["vector-field"] == "v"
    assert "field.u.vector-dim" not in table.schema.options
    assert found(table) == {1: [1, 2, 3], 2: None}


def test_options_do_not_contradict_the_type(catalog: Catalog) -> None:
    four = {"field.v.vector-dim": "4"}
    for column in (fields(VECTOR), fields(FLOATS, "__VECTOR_FIELD;3")):
        with pytest.raises(InvalidError, match="is 4, but the column is VECTOR<FLOAT, 3>"):
            catalog.create_table("db.t", column, options=four)
    table = made(catalog)
    with pytest.raises(InvalidError, match="is 4, but the column is VECTOR<FLOAT, 3>"):
        table.alter(SetOption("field.v.vector-dim", "4"))
    assert table.refresh().schema.options["field.v.vector-dim"] == "3"


@pytest.mark.parametrize("text", ["VECTOR<FLOAT, 4>", "VECTOR<DOUBLE, 3>", "ARRAY<FLOAT>", "STRING"])
def test_its_type_stays(catalog: Catalog, text: str) -> None:
    table = made(catalog)
    with pytest.raises(InvalidError, match="cannot be converted"):
        table.alter(UpdateColumnType(("v",), parse_type_text(text, "flink")))


def test_a_default_has_its_length(catalog: Catalog) -> None:
    def with_default(text: str) -> list[DataField]:
        return [DataField(0, "id", BIGINT), DataField(1, "v", VECTOR, None, text)]

    with pytest.raises(InvalidError, match="Expected 3 but was 2"):
        catalog.create_table("db.t", with_default("[1, 2]"))
    table = catalog.create_table("db.t", with_default("[1, 2, 3]"))
    table.write_arrow(pa.table({"id": pa.array([1], pa.int64())}))
    assert found(table) == {1: [1, 2, 3]}


def test_a_vector_is_not_compared(catalog: Catalog) -> None:
    table = made(catalog)
    table.write_arrow(some((1, [1.0, 2.0, 3.0])))
    with pytest.raises((InvalidError, UnsupportedError), match="v"):
        table.to_arrow(where="v > 1")
