"""Which columns of a parquet file get a dictionary, seen from the files."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bucketlake.format.data.file_format import FileFormat
from bucketlake.format.data.parquet_writing import ParquetSink
from bucketlake.types.model import DataField, from_arrow_type

ROWS = 60_000


def dictionaries(columns: dict[str, Any], **settings: str) -> set[str]:
    """The leaves of a file with these columns that are encoded with a dictionary; its rows are checked too."""
    table = pa.table(columns)
    fields = [DataField(n, f.name, from_arrow_type(f.type, nullable=True)) for n, f in enumerate(table.schema)]
    out = io.BytesIO()
    sink = ParquetSink(out, fields, FileFormat("parquet", "zstd", settings=settings))
    sink.write(table)
    sink.close()
    file = pq.ParquetFile(io.BytesIO(out.getvalue()))
    assert file.read().to_pylist() == table.to_pylist()
    group = file.metadata.row_group(0)
    leaves = [group.column(number) for number in range(group.num_columns)]
    return {leaf.path_in_schema for leaf in leaves if leaf.has_dictionary_page}


def test_values_that_repeat_get_a_dictionary_and_values_that_do_not_are_plain() -> None:
    random = np.random.default_rng(7)
    few = random.integers(0, 100, ROWS)
    many = random.integers(0, 1 << 60, ROWS)
    found = dictionaries(
        {
            "few": few,
            "many": many,
            "ascending": np.arange(ROWS),
            "text_few": [f"some words {value}" for value in few],
            "text_many": [f"some words {value}" for value in many],
            "nulls": pa.nulls(ROWS, pa.int64()),
            "truth": few > 50,
        }
    )
    assert {"few", "text_few"} <= found
    assert not {"many", "ascending", "text_many"} & found


def test_what_the_table_says_goes_before_the_sample() -> None:
    columns = {"a": np.zeros(ROWS, np.int64), "b": np.arange(ROWS), "c": np.arange(ROWS)}
    assert dictionaries(columns, **{"parquet.enable.dictionary": "true"}) == {"a", "b", "c"}
    assert dictionaries(columns, **{"parquet.enable.dictionary": "false"}) == set()
    assert dictionaries(columns, **{"parquet.enable.dictionary#b": "true"}) == {"a", "b"}
    assert dictionaries(columns, **{"parquet.enable.dictionary#a": "false"}) == set()


def test_nested_columns_keep_their_dictionaries_beside_plain_ones() -> None:
    columns = {
        "plain": pa.array(np.arange(1000)),
        "list": pa.array([[1, 2]] * 1000, pa.list_(pa.int64())),
        "row": pa.array([{"x": 1, "y": "a"}] * 1000),
        "map": pa.array([[("k", 1)]] * 1000, pa.map_(pa.string(), pa.int64())),
    }
    found = dictionaries(columns)
    assert "plain" not in found
    assert {path.split(".")[0] for path in found} == {"list", "row", "map"}
    assert len(found) == 5


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_files_of_hardly_any_rows(rows: int) -> None:
    columns = {"a": pa.array(range(rows), pa.int64()), "b": pa.array(["x"] * rows, pa.string())}
    table = pa.table(columns)
    fields = [DataField(n, f.name, from_arrow_type(f.type, nullable=True)) for n, f in enumerate(table.schema)]
    out = io.BytesIO()
    sink = ParquetSink(out, fields, FileFormat("parquet", "zstd"))
    if rows:
        sink.write(table)
    sink.close()
    assert pq.read_table(io.BytesIO(out.getvalue())).num_rows == rows
