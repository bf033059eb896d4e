"""Rows of files that have one of some values, with their positions: any format, any schema that wrote them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import bucketlake
from bucketlake.errors import CorruptError
from bucketlake.ops.rows.among import Among, has_one_form
from bucketlake.ops.scan.scan import plan
from bucketlake.schema.change import AddColumn, UpdateColumnType
from bucketlake.table import Table
from bucketlake.types.model import BIGINT, INT, STRING, DataType, Root, arrow_type

ROWS = pa.table(
    {
        "a": pa.array([*range(2000), None], pa.int32()),
        "p": pa.array([f"p{number % 2}" for number in range(2001)]),
        "s": pa.array([f"s{number % 50}" for number in range(2001)]),
        "v": pa.array([f"v{number}" for number in range(2001)]),
    }
)


def made(folder: Path, **options: str) -> Table:
    catalog = bucketlake.open(str(folder))
    catalog.create_database("d")
    catalog.create_table("d.t", ROWS.schema, ["p"], (), {name.replace("_", "."): v for name, v in options.items()})
    catalog.table("d.t").write_arrow(ROWS)
    return catalog.table("d.t")


def found(table: Table, among: Among, columns: list[str], dead: tuple[int, ...] = ()) -> list[tuple[object, ...]]:
    """Rows with their positions before them, by partition."""
    rows: list[tuple[object, ...]] = []
    for split in plan(table.store).splits:
        for file in split.files:
            gone = np.isin(np.arange(file.row_count), dead)
            for positions, batch in among.rows(table.store, split, file, gone, table.schema.select(columns)):
                rows += zip(positions.tolist(), *(column.to_pylist() for column in batch.columns), strict=True)
    return sorted(rows)


def values(table: Table, **columns: list[object]) -> Among:
    fields = table.schema.select(list(columns))
    return Among.of(
        fields, pa.table({item.name: pa.array(columns[item.name], arrow_type(item.type)) for item in fields})
    )


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_rows_with_their_positions(tmp_path: Path, form: str) -> None:
    table = made(tmp_path, file_format=form)
    among = values(table, a=[4, 7, 5000, None, 4], s=["s4", "s7", "s0", "s1", "s4"])
    assert found(table, among, ["v", "a", "p"]) == [(2, "v4", 4, "p0"), (3, "v7", 7, "p1")]
    assert found(table, among, ["v"], dead=(2,)) == [(3, "v7")]
    assert found(table, values(table, a=[4, 7], s=["s7", "s4"]), ["v"]) == []  # values of other rows
    assert found(table, values(table, a=[10, 11, 12], p=["p0", "p0", "p0"]), ["a"]) == [(5, 10), (6, 12)]
    assert found(table, values(table, a=[None]), ["a"]) == []


NUMBERS = [None, -(1 << 63), (1 << 63) - 1, -129, -128, -1, 0, 1, 2, 126, 127, 128, 1 << 24, (1 << 24) + 1]


@pytest.mark.parametrize("root", [Root.TINYINT, Root.INT, Root.BIGINT, Root.DATE])
@pytest.mark.parametrize("asked", [slice(None), slice(1, 3), slice(3, 11), slice(6, 13), slice(2, None), slice(0, 1)])
def test_whole_numbers_near_and_far(tmp_path: Path, root: Root, asked: slice) -> None:
    """Values at the ends of their types, far apart and near each other, and nulls among the rows."""
    kind = arrow_type(DataType(root))
    width = kind.bit_width
    numbers = [n for n in NUMBERS if n is None or -(1 << width - 1) <= n < 1 << width - 1]
    plain = pa.int32() if root is Root.DATE else kind
    given = [n for n in NUMBERS[asked] if n in numbers]
    catalog = bucketlake.open(str(tmp_path))
    catalog.create_database("d")
    rows = pa.table({"n": pa.array(numbers, plain).cast(kind), "v": [f"v{n}" for n in numbers]})
    catalog.create_table("d.t", rows.schema).write_arrow(rows)
    table = catalog.table("d.t")
    among = Among.of(table.schema.select(["n"]), pa.table({"n": pa.array(given, plain).cast(kind)}))
    expected = [(at, f"v{n}") for at, n in enumerate(numbers) if n in given and n is not None]
    assert found(table, among, ["v"]) == expected
    assert root is Root.DATE or found(table, among, ["n"]) == [(at, numbers[at]) for at, _ in expected]


@pytest.mark.parametrize(
    "asked", [[-(1 << 62), 3, 5, 1999, 1 << 62], [-(1 << 62), 1 << 62], [-5, 7, 1 << 62], [-9, 2000, 1 << 40]]
)
def test_few_of_far_numbers_are_near_what_a_file_holds(tmp_path: Path, asked: list[object]) -> None:
    catalog = bucketlake.open(str(tmp_path))
    catalog.create_database("d")
    numbers = [None if number % 100 == 42 else number for number in range(2000)]
    rows = pa.table({"n": pa.array(numbers, pa.int64()), "v": [f"v{number}" for number in range(2000)]})
    table = catalog.create_table("d.t", rows.schema)
    table.write_arrow(rows)
    table.write_arrow(pa.table({"n": pa.array([None, None], pa.int64()), "v": ["x", "y"]}))
    kept = [number for number in asked if number in numbers]
    assert found(catalog.table("d.t"), values(table, n=asked), ["v"]) == sorted((n, f"v{n}") for n in kept)


def test_files_of_older_schemas(tmp_path: Path) -> None:
    table = made(tmp_path)
    catalog = bucketlake.open(str(tmp_path))
    catalog.alter_table("d.t", UpdateColumnType(("a",), BIGINT), AddColumn(("n",), INT))
    table = catalog.table("d.t")
    table.write_arrow(
        pa.table({"a": pa.array([1 << 40]), "p": ["p0"], "s": ["x"], "v": ["y"], "n": pa.array([3], "int32")})
    )
    assert found(table, values(table, a=[6, 1 << 40]), ["a", "n"]) == [(0, 1 << 40, 3), (3, 6, None)]
    assert found(table, values(table, n=[3]), ["a", "n"]) == [(0, 1 << 40, 3)]


def test_a_file_with_other_rows_than_its_manifest_says(tmp_path: Path) -> None:
    table = made(tmp_path)
    first, second = (Path(file.path) for file in table.files())
    first.write_bytes(second.read_bytes())
    with pytest.raises(CorruptError):
        found(table, values(table, a=[4, 7]), ["v"])


def test_types_whose_equal_values_are_the_same() -> None:
    assert all(has_one_form(kind) for kind in (INT, BIGINT, STRING, DataType(Root.DATE)))
    others = (DataType(Root.DOUBLE), DataType(Root.CHAR, length=3), DataType(Root.VARCHAR, length=3))
    assert not any(has_one_form(kind) for kind in others)
