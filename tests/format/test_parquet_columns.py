"""Columns of a parquet file replaced: readers find what a file written anew would have, other columns byte for byte."""

from __future__ import annotations

import io
import random
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.format import datafile_values
from tests.format.reading import read_data_file
from tests.sim.storage import MapStorage

from bucketlake.errors import BucketlakeError
from bucketlake.format.data.column_rewrite import Replacement, replace_columns
from bucketlake.format.data.datafile import DataFileWriter, FileFormat, Recorded
from bucketlake.format.metadata.stats import StatsMode
from bucketlake.types.model import DataField, arrow_schema
from bucketlake.types.parse import parse_type_text

FULL = StatsMode("full")
BEFORE, AFTER = "memory://t/before.parquet", "memory://t/after.parquet"
FIELDS = tuple(
    DataField(number, name, parse_type_text(kind, "flink"))
    for number, (name, kind) in enumerate(
        {"k": "BIGINT NOT NULL", "few": "STRING", "many": "STRING", "x": "DOUBLE", "d": "DECIMAL(12, 2)"}.items()
    )
)


def batch_of(rows: int, seed: int = 1) -> pa.RecordBatch:
    chance = random.Random(seed)
    columns: list[list[Any]] = [
        list(range(rows)),
        [chance.choice(["red", "green", None]) for _ in range(rows)],
        [f"text {chance.random()}" if chance.random() < 0.9 else None for _ in range(rows)],
        [chance.random() for _ in range(rows)],
        [None if chance.random() < 0.1 else chance.randrange(10**6) for _ in range(rows)],
    ]
    schema = arrow_schema(FIELDS)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def written(storage: MapStorage, fields: Any, batches: list[pa.RecordBatch], form: FileFormat = FileFormat()) -> bytes:
    """A file with a row group for each batch."""
    writer = DataFileWriter(storage, BEFORE, fields, form, [FULL] * len(fields))
    for batch in batches:
        writer.write(batch)
        writer.flush()
    writer.close()
    return storage.read(BEFORE)


def replaced(
    storage: MapStorage,
    fields: tuple[DataField, ...],
    places: list[int],
    new: pa.Table,
    form: FileFormat = FileFormat(),
) -> Any:
    data = storage.read(BEFORE)
    at = np.array(places, np.int64)

    def change(first: int, end: int) -> tuple[np.ndarray, pa.Table]:
        low, high = np.searchsorted(at, [first, end]).tolist()
        return at[low:high], new.slice(low, high - low)

    file = Recorded(BEFORE, "parquet", len(data))
    return replace_columns(storage, file, AFTER, Replacement(fields, (FULL,) * len(fields), form), change)


def patched(whole: pa.Table, places: list[int], new: pa.Table) -> pa.Table:
    for name in new.column_names:
        values = whole.column(name).to_pylist()
        for place, value in zip(places, new.column(name).to_pylist(), strict=True):
            values[place] = value
        at = whole.schema.get_field_index(name)
        whole = whole.set_column(at, whole.schema.field(at), pa.array(values, whole.schema.field(at).type))
    return whole


def chunks(data: bytes) -> list[list[bytes]]:
    """The bytes of each column chunk, by row group."""
    found = []
    metadata = pq.read_metadata(io.BytesIO(data))
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        own = []
        for leaf in range(group.num_columns):
            chunk = group.column(leaf)
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            own.append(data[start : start + chunk.total_compressed_size])
        found.append(own)
    return found


@pytest.mark.parametrize("codec", ["zstd", "snappy", "none", "gzip"])
def test_other_columns_and_other_row_groups_stay_byte_for_byte(codec: str) -> None:
    storage, form = MapStorage(), FileFormat(compression=codec)
    batches = [batch_of(3000, seed) for seed in (1, 2, 3)]
    before = written(storage, FIELDS, batches, form)
    places = [3000, 3001, 4444, 5999]
    new = pa.table({"many": [None, "a", "b" * 5000, ""]}, arrow_schema(FIELDS[2:3]))
    found = replaced(storage, FIELDS[2:3], places, new, form)
    after = storage.read(AFTER)
    assert (found.size, found.rows) == (len(after), 9000)
    expected = patched(pa.Table.from_batches(batches), places, new)
    assert pq.read_table(io.BytesIO(after)).equals(expected)
    assert pa.Table.from_batches(read_data_file(storage, AFTER, "parquet", FIELDS)).equals(expected)
    assert pl.read_parquet(io.BytesIO(after)).to_arrow().cast(expected.schema).equals(expected)
    old, now = chunks(before), chunks(after)
    for group, leaf in [(g, c) for g in range(3) for c in range(5)]:
        assert (old[group][leaf] == now[group][leaf]) == ((group, leaf) != (1, 2))
    values = [value for value in expected["many"].to_pylist() if value is not None]
    assert (found.stats[0].min, found.stats[0].max) == (min(values), max(values))
    assert found.stats[0].null_count == expected["many"].null_count


def test_statistics_that_the_footer_does_not_tell_are_of_all_row_groups() -> None:
    storage = MapStorage()
    written(storage, FIELDS, [batch_of(10, 1), batch_of(10, 2)])
    new = pa.table({"x": [-5.0]}, arrow_schema(FIELDS[3:4]))
    found = replaced(storage, FIELDS[3:4], [3], new)
    values = pq.read_table(io.BytesIO(storage.read(AFTER)))["x"].to_pylist()
    assert (found.stats[0].min, found.stats[0].max, found.stats[0].null_count) == (-5.0, max(values), 0)


@st.composite
def changes(draw: st.DrawFn) -> tuple[list[DataField], list[pa.RecordBatch], list[int], list[int], pa.Table]:
    """Columns, row groups, which columns are replaced, in which rows, by what."""
    fields, first = draw(datafile_values.tables(depth=1))
    schema = arrow_schema(fields)
    groups = [first]
    for _ in range(draw(st.integers(0, 2))):
        rows = draw(st.integers(1, 5))
        columns = [draw(st.lists(datafile_values.values(f.type), min_size=rows, max_size=rows)) for f in fields]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
        groups.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    groups = [group for group in groups if group.num_rows]
    total = sum(group.num_rows for group in groups)
    chosen = sorted(draw(st.sets(st.integers(0, len(fields) - 1), min_size=1)))
    places = sorted(draw(st.sets(st.integers(0, total - 1)))) if total else []
    own = [fields[at] for at in chosen]
    columns = [draw(st.lists(datafile_values.values(f.type), min_size=len(places), max_size=len(places))) for f in own]
    kinds = arrow_schema(own)
    new = pa.table([pa.array(column, kind) for column, kind in zip(columns, kinds.types, strict=True)], kinds)
    return fields, groups, chosen, places, new


@given(changes())
def test_any_types_in_any_row_groups(case: Any) -> None:
    fields, groups, chosen, places, new = case
    storage = MapStorage()
    written(storage, fields, groups)
    before = pa.Table.from_batches(read_data_file(storage, BEFORE, "parquet", fields), arrow_schema(fields))
    found = replaced(storage, tuple(fields[at] for at in chosen), places, new)
    assert found is not None or any("TIMESTAMP" in str(field) for field in fields)  # INT96 changes other timestamps
    if found is not None:
        after = pa.Table.from_batches(read_data_file(storage, AFTER, "parquet", fields), arrow_schema(fields))
        assert after.to_pylist() == patched(before, places, new).to_pylist()


def test_files_of_other_settings() -> None:
    """No page index, no dictionary, pages of the second version, a schema of Arrow's: none of it is ours."""
    whole = pa.Table.from_batches([batch_of(500)])
    for settings in (
        {},
        {"write_page_index": True, "max_rows_per_page": 20},
        {"use_dictionary": False, "compression": "snappy"},
        {"data_page_version": "2.0", "store_schema": False},
        {"row_group_size": 100, "write_statistics": False},
        {"use_byte_stream_split": ["x"], "use_dictionary": ["few"]},
    ):
        storage, data = MapStorage(), io.BytesIO()
        pq.write_table(whole, data, **{"store_decimal_as_integer": True, **settings})
        storage.write(BEFORE, data.getvalue())
        new = pa.table({"few": ["blue"], "many": ["m"]}, arrow_schema(FIELDS[1:3]))
        assert replaced(storage, FIELDS[1:3], [250], new) is not None
        assert pq.read_table(io.BytesIO(storage.read(AFTER))).equals(patched(whole, [250], new))


@pytest.mark.parametrize("kind", [pa.int32(), pa.float64(), pa.string()])
def test_a_column_that_the_file_holds_otherwise_is_not_replaced(kind: pa.DataType) -> None:
    storage, data = MapStorage(), io.BytesIO()
    pq.write_table(pa.table({"k": pa.array([1]).cast(kind)}), data)
    storage.write(BEFORE, data.getvalue())
    new = pa.table({"k": pa.array([5], pa.int64())}, arrow_schema(FIELDS[:1]))
    assert replaced(storage, FIELDS[:1], [0], new) is None
    assert replaced(storage, (DataField(9, "other", FIELDS[0].type),), [0], new.rename_columns(["other"])) is None
    assert storage.info(AFTER) is None


def test_every_damaged_byte_of_the_footer_is_an_error_or_harmless() -> None:
    """A file whose footer is damaged never becomes one that reads otherwise without an error than the file itself."""
    storage = MapStorage()
    whole = written(storage, FIELDS[:3], [batch_of(40).select(["k", "few", "many"])])
    new = pa.table({"few": ["new"]}, arrow_schema(FIELDS[1:2]))
    start = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for at in range(start, len(whole)):
        for bit in (1, 16, 128):
            damaged = bytearray(whole)
            damaged[at] ^= bit
            storage.write(BEFORE, bytes(damaged))
            try:
                before = pa.Table.from_batches(read_data_file(storage, BEFORE, "parquet", FIELDS[:3]))
            except BucketlakeError:
                before = None
            try:
                found = replaced(storage, FIELDS[1:2], [7], new)
            except BucketlakeError as error:
                assert "before.parquet" in str(error)
                assert storage.info(AFTER) is None
                continue
            if found is not None and before is not None:
                after = pa.Table.from_batches(read_data_file(storage, AFTER, "parquet", FIELDS[:3]))
                assert after.to_pylist() == patched(before, [7], new).to_pylist(), (at, bit)
            storage.delete(AFTER)
