"""What `write_arrow` is given: rows of every kind come out right, or an InvalidError says what is wrong and nothing is
written."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bucketlake
from bucketlake import Catalog, InvalidError, Table
from bucketlake.ops.rows import incoming
from bucketlake.schema.schema import column_names
from bucketlake.schema.versions import create_schema
from bucketlake.types.model import INT, DataField

SCHEMA = pa.schema(
    [
        pa.field("p", pa.string()),
        pa.field("k", pa.int32()),
        pa.field("s", pa.string()),
        pa.field("e", pa.decimal128(5, 2)),
        pa.field("t", pa.timestamp("us")),
        pa.field("d", pa.date32()),
    ]
)
ROW = {"p": "a", "k": 1, "s": "x", "e": Decimal("1.50"), "t": dt.datetime(2020, 1, 2), "d": dt.date(2020, 1, 2)}
COLUMNS = {name: [value] for name, value in ROW.items()}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return bucketlake.open(tmp_path)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.create_table("t", SCHEMA, ["p"], ["p", "k"], {"bucket": "1"})


class Stream:
    """Arrow data of another library."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.table(COLUMNS).__arrow_c_stream__(requested_schema)


TAKEN = {
    "dict": lambda: COLUMNS,
    "rows": lambda: [ROW],
    "tuple of rows": lambda: (ROW,),
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "pandas with an index": lambda: pd.DataFrame(COLUMNS, index=["i"]),
    "pandas categories": lambda: pd.DataFrame(COLUMNS).astype({"p": "category"}),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "batch": lambda: pa.record_batch(COLUMNS),
    "reader": lambda: pa.table(COLUMNS).to_reader(),
    "iterator": lambda: iter(pa.table(COLUMNS).to_batches()),
    "tables": lambda: [pa.table(COLUMNS)],
    "stream": Stream,
}


@pytest.mark.parametrize("kind", TAKEN)
def test_rows_of_every_kind(table: Table, kind: str) -> None:
    table.write_arrow(TAKEN[kind]())
    assert table.to_arrow().to_pylist() == [ROW]


def test_a_pandas_index_with_a_name_is_left_out_with_a_warning(table: Table) -> None:
    """It was a column before `groupby` or `set_index`."""
    with pytest.warns(UserWarning, match=r"the index \(s\) is left out: reset_index"):
        table.write_arrow(pd.DataFrame([ROW]).set_index("s"))
    assert table.to_arrow().column("s").to_pylist() == [None]


def test_a_key_that_only_a_later_row_has(table: Table) -> None:
    table.write_arrow([{"p": "b", "k": 2, "s": None, "e": None, "d": None}, ROW])
    assert table.to_arrow(where="k = 2").to_pylist() == [{**dict.fromkeys(ROW), "p": "b", "k": 2}]
    assert table.to_arrow(where="k = 1").to_pylist() == [ROW]


def invalid_text() -> pa.Array:
    offsets = pa.py_buffer(np.array([0, 2], np.int32).tobytes())
    return pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"\xff\xfe")])


def twice(*names: str) -> pa.Table:
    return pa.Table.from_arrays([pa.array(COLUMNS[name]) for name in names], names=list(names))


REFUSED: dict[str, tuple[Any, str]] = {
    "invalid UTF-8": (pa.table({**COLUMNS, "s": invalid_text()}), r"column=s.*UTF8"),
    "invalid UTF-8 in a struct": (
        pa.table({**COLUMNS, "s": pa.StructArray.from_arrays([invalid_text()], ["x"])}),
        r"column=s.*UTF8",
    ),
    "bytes": ({**COLUMNS, "s": [b"\xff"]}, "column=s"),
    "half of a surrogate": ({**COLUMNS, "s": ["\ud800"]}, "surrogates"),
    "finer decimal": ({**COLUMNS, "e": [Decimal("1.555")]}, "column=e"),
    "wider decimal": ({**COLUMNS, "e": [Decimal("12345.5")]}, "column=e"),
    "decimal of 50 digits": ({**COLUMNS, "e": [Decimal("1" * 50)]}, "column=e"),
    "decimal of 80 digits": ({**COLUMNS, "e": [Decimal("1" * 80)]}, "do not become columns.*column=e"),
    "decimal that is none": ({**COLUMNS, "e": [Decimal("NaN")]}, "do not become columns"),
    "text for a number": ({**COLUMNS, "k": ["x"]}, "column=k"),
    "struct for a number": ({**COLUMNS, "k": [{"a": 1}]}, "column=k"),
    "list for a text": ({**COLUMNS, "s": [[1]]}, "column=s"),
    "33 bits": ({**COLUMNS, "k": [2**40]}, "column=k"),
    "70 bits": ({**COLUMNS, "k": [2**70]}, "do not become columns.*column=k"),
    "fraction": ({**COLUMNS, "k": [1.5]}, "column=k"),
    "instant for a day": ({**COLUMNS, "d": [dt.datetime(2020, 1, 1)]}, "column=d"),
    "missing column": ({"p": ["a"]}, "column=k"),
    "extra column": ({**COLUMNS, "z": [1]}, "does not have.*z"),
    "column twice": (twice(*ROW, "k"), r"more than once.*'k'"),
    "partition column twice": (twice(*ROW, "p"), r"more than once.*'p'"),
    "pandas column twice": (pd.DataFrame([["a", 1, 2]], columns=["p", "k", "k"]), "more than once"),
    "null in a key": ({**COLUMNS, "k": [None]}, "non-null column.*column=k"),
    "null in a partition key": ({**COLUMNS, "p": [None]}, "non-null column.*column=p"),
    "columns of two lengths": ({**COLUMNS, "k": [1, 2]}, "do not become columns"),
    "row kinds of a struct": ({**COLUMNS, "_VALUE_KIND": [{"a": 1}]}, "_VALUE_KIND"),
    "row kind 9": ({**COLUMNS, "_VALUE_KIND": [9]}, "not a row kind"),
    "pandas column of several types": (pd.DataFrame([ROW, {**ROW, "s": 5}]), "column=s,.*int"),
    "rows with a column of several types": ([ROW, {"p": "a", "k": "x"}], "column=k,.*one type"),
    "names that are no text": (pd.DataFrame({1: [1]}), "not text"),
    "row names that are no text": ([{1: 1}], "not text"),
    "series": (pd.Series([1]), "Series"),
    "array": (pa.array([1]), "do not become columns"),
    "rows and others": ([ROW, 3], "different kinds"),
    "numbers": ([1, 2], "not a record batch"),
    "text": ("abc", "cannot write"),
    "nothing": (None, "cannot write"),
    "number": (5, "cannot write"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_rows_that_are_refused(table: Table, case: str) -> None:
    data, message = REFUSED[case]
    with pytest.raises(InvalidError, match=message):
        table.write_arrow(data)
    assert table.snapshots() == []
    assert not list(Path(table.path).rglob("data-*"))


@pytest.mark.parametrize("value", ["x", 2**70, [1], {}])
def test_partition_values_that_are_none(catalog: Catalog, value: object) -> None:
    table = catalog.create_table("n", pa.schema([("n", pa.int32()), ("v", pa.int32())]), ["n"])
    with pytest.raises(InvalidError, match="column=n"):
        table.write_arrow({"v": [1]}, mode="overwrite", partition={"n": value})


@pytest.mark.parametrize("number", [2**31, 2**63, 10**30, 0, -3])
def test_bucket_numbers_that_are_none(catalog: Catalog, number: int) -> None:
    with pytest.raises(InvalidError, match="bucket"):
        catalog.create_table("b", SCHEMA, ["p"], ["p", "k"], {"bucket": str(number)})


def test_wide_tables_look_at_each_column_a_bounded_number_of_times(catalog: Catalog) -> None:
    """Two rows of 10,000 columns took half a minute: names were counted, listed and searched once a column."""
    looked: Counter[str] = Counter()

    class Name(str):
        def __eq__(self, other: object) -> bool:
            looked["compared"] += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    count = 2000
    names = [Name(f"column_{number}") for number in range(count)]
    schema = create_schema([DataField(i, name, INT) for i, name in enumerate(names)])
    incoming.Incoming(schema)._check(names, None)
    assert column_names(schema, [str(name) for name in names]) == names
    assert looked["compared"] < 50 * count
    table = catalog.create_table("wide", pa.schema([(str(name), pa.int64()) for name in names]))
    data = pa.table({str(name): [1, 2] for name in names})
    table.write_arrow(data)
    assert table.to_arrow().equals(data)
