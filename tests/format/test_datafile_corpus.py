"""Data files that Apache Paimon 2.0.0 wrote: every one is read, values are Flink's, and ours have their schema."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from tests import corpus
from tests.format.reading import read_data_file

from bucketlake.env.local import LocalStorage
from bucketlake.errors import CorruptError, UnsupportedError
from bucketlake.format.data.datafile import DataFileWriter, stats_from_parquet_footer
from bucketlake.format.data.file_format import FileFormat, format_of
from bucketlake.format.metadata.stats import StatsMode
from bucketlake.schema.schema import TableSchema
from bucketlake.types.model import DataField, DataType, Root

STORAGE = LocalStorage()
FORMATS = ["parquet", "orc", "avro"]
FAR = ("types_far_orc", "types_far_parquet")  # TIMESTAMP(9) outside of 64-bit nanoseconds


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus.unpack(tmp_path_factory.mktemp("corpus")) / f"{corpus.DATABASE}.db"


def schemas(table: Path) -> list[TableSchema]:
    return [TableSchema.decode(path.read_bytes()) for path in sorted(table.glob("**/schema/schema-*"))]


def files(table: Path) -> Iterator[Path]:
    for name in FORMATS:
        yield from table.rglob(f"bucket-*/*.{name}")


def rows(path: Path, fields: tuple[DataField, ...]) -> pa.Table:
    found = list(read_data_file(STORAGE, str(path), format_of(path.name), fields))
    return pa.Table.from_batches(found)


def as_flink(value: Any, t: DataType) -> Any:
    """A value of Arrow's as the corpus's truths have it."""
    if value is None:
        return None
    if t.root is Root.ARRAY and t.element is not None:
        return [as_flink(item, t.element) for item in value]
    if t.root is Root.MAP and t.key is not None and t.element is not None:
        return {as_flink(k, t.key): as_flink(v, t.element) for k, v in value}
    if t.root is Root.ROW:
        return tuple(as_flink(value[item.name], item.type) for item in t.fields)
    if t.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ) and (t.precision or 0) > 6:
        text = (dt.datetime(1970, 1, 1) + dt.timedelta(seconds=value.value // 10**9)).isoformat()
        return f"{text}.{value.value % 10**9:09d}" + ("Z" if t.root is Root.TIMESTAMP_LTZ else "")
    if t.root is Root.FLOAT:
        return _single(value)
    return value


def _single(value: float | None) -> float | None:
    return None if value is None else float(np.float32(value))


def test_every_file_is_read(tables: Path) -> None:
    count = 0
    for table in sorted(tables.iterdir()):
        if table.name in FAR:
            continue
        for path in files(table):
            names = physical_names(path)
            fitting = [s for s in schemas(table) if [f.name for f in s.file_fields] == names]
            assert any(_reads(path, schema) for schema in fitting), path
            count += 1
    assert count > 300


def _reads(path: Path, schema: TableSchema) -> bool:
    """Whether the file is of this schema; two may differ in members of rows alone."""
    try:
        return rows(path, schema.file_fields).num_rows > 0
    except CorruptError as error:
        assert "member of a ROW" in str(error) or "does not fit the column" in str(error)
        return False


def physical_names(path: Path) -> list[str]:
    if path.suffix == ".parquet":
        return list(pq.ParquetFile(path).schema_arrow.names)
    if path.suffix == ".orc":
        return list(orc.ORCFile(path).schema.names)
    with path.open("rb") as file:
        return [item["name"] for item in fastavro.reader(file).writer_schema["fields"]]  # type: ignore[index, call-overload]


@pytest.mark.parametrize("name", [f"{kind}_{form}" for kind in ("types", "codecs") for form in FORMATS])
def test_values_are_flinks(tables: Path, name: str) -> None:
    schema = schemas(tables / name)[-1]
    found = []
    for path in files(tables / name):
        for row in rows(path, schema.fields).to_pylist():
            found.append(tuple(as_flink(row[item.name], item.type) for item in schema.fields))
    singles = [i for i, item in enumerate(schema.fields) if item.type.root is Root.FLOAT]
    truth = [
        tuple(_single(value) if i in singles else value for i, value in enumerate(row))
        for row in corpus.expected(name).rows
    ]
    assert corpus.encode(corpus.sort_rows(found)) == corpus.encode(corpus.sort_rows(truth))


@pytest.mark.parametrize("name", FAR)
def test_what_nanoseconds_do_not_hold_is_refused(tables: Path, name: str) -> None:
    (schema,) = schemas(tables / name)
    (path,) = files(tables / name)
    with pytest.raises(UnsupportedError, match="64-bit nanoseconds"):
        rows(path, schema.fields)
    others = [f.name for f in schema.fields if f.name != "c_timestamp_9"]
    found = list(read_data_file(STORAGE, str(path), format_of(path.name), schema.fields, others))
    assert found[0].num_rows == 5


@pytest.mark.parametrize("name", ["types_parquet", "types_orc", "types_avro", "key_composite", "pk_avro", "pk_orc"])
def test_our_files_have_the_schema_of_paimons(tables: Path, tmp_path: Path, name: str) -> None:
    schema = schemas(tables / name)[-1]
    path = next(files(tables / name))
    data = rows(path, schema.file_fields)
    ours = tmp_path / path.name
    writer = DataFileWriter(
        STORAGE, str(ours), schema.file_fields, FileFormat(format_of(path.name)), [StatsMode("full")] * data.num_columns
    )
    for batch in data.to_batches():
        writer.write(batch)
    writer.close()
    assert rows(ours, schema.file_fields).equals(data)
    if path.suffix == ".parquet":
        assert _parquet_lines(ours) == _parquet_lines(path)
    elif path.suffix == ".orc":
        assert orc.ORCFile(ours).schema.equals(orc.ORCFile(path).schema, check_metadata=True)
    else:
        assert physical_names(ours) == physical_names(path)


def _parquet_lines(path: Path) -> list[str]:
    lines = str(pq.ParquetFile(path).schema).splitlines()[2:]
    return [line.replace("key_value (Map)", "key_value") for line in lines]


def test_footer_statistics_of_paimons_files(tables: Path) -> None:
    (schema,) = schemas(tables / "types_parquet")
    (path,) = files(tables / "types_parquet")
    modes = [StatsMode("full")] * len(schema.fields)
    found = stats_from_parquet_footer(STORAGE, str(path), schema.fields, modes)
    by_name = dict(zip(schema.field_names, found.stats, strict=True))
    assert found.rows == 5
    assert (by_name["c_int"].min, by_name["c_int"].max, by_name["c_int"].null_count) == (-(2**31), 2**31 - 1, 1)
    assert (by_name["c_bytes"].min, by_name["c_bytes"].max) == (b"", b"\xff")
    assert by_name["c_date"].min == dt.date(1700, 1, 1)
    assert by_name["c_timestamp_9"].min is None
    assert by_name["c_array"].null_count is None
