"""What `write_arrow` takes: frames, relations, streams; a source that fails leaves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from bucketlake import Catalog, InvalidError, Table

COLUMNS = pa.schema([("id", pa.int64()), ("s", pa.string())])
MODES: dict[str, dict[str, Any]] = {
    "append": {},
    "fixed": {"primary_keys": ["id"], "options": {"bucket": "2"}},
    "dynamic": {"primary_keys": ["id"], "options": {"bucket": "-1"}},
    "postpone": {"primary_keys": ["id"], "options": {"bucket": "-2"}},
}


def rows(table: Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


class Stream:
    """Something that has nothing but an Arrow C stream."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.rows.__arrow_c_stream__(requested_schema)


def sources(other: Table) -> Iterator[tuple[str, Any]]:
    given = pa.table({"id": [1, 2, 3], "s": ["a", None, "c"]}, COLUMNS)
    connection = duckdb.connect()
    connection.register("given", given)
    yield "table", given
    yield "reader", given.to_reader()
    yield "polars", pl.from_arrow(given)
    yield "polars categories", pl.from_arrow(given).cast({"s": pl.Categorical})
    yield "lazy", pl.from_arrow(given).lazy().filter(pl.col("id") < 9)
    yield "pandas", given.to_pandas()
    yield "duckdb", connection.sql("SELECT * FROM given WHERE id < 9")
    yield "stream", Stream(given)
    yield "frames", (pl.from_arrow(given.slice(n, 1)) for n in range(3))
    yield "mixed", iter([given.slice(0, 1), given.slice(1, 1).to_pandas(), Stream(given.slice(2))])
    yield "scan", other.scan()
    yield "handle", other
    yield "lake's own", other.to_polars()
    yield "lake's duckdb", other.to_duckdb(connection)


def test_every_source(catalog: Catalog) -> None:
    other = catalog.create_table("db.other", COLUMNS)
    other.write_arrow([{"id": 1, "s": "a"}, {"id": 2, "s": None}, {"id": 3, "s": "c"}])
    for number, (name, source) in enumerate(sources(other)):
        table = catalog.create_table(f"db.t{number}", COLUMNS)
        assert table.write_arrow(source) is not None, name
        assert rows(table) == [(1, "a"), (2, None), (3, "c")], name


class Broken(RuntimeError):
    pass


def failing(after: int) -> Iterator[pa.RecordBatch]:
    for start in range(after):
        yield pa.record_batch({"id": [start * 2, start * 2 + 1], "s": ["x", "y"]}, schema=COLUMNS)
    raise Broken("the source broke")


@pytest.mark.parametrize("mode", list(MODES))
def test_a_source_that_fails_leaves_nothing(catalog: Catalog, mode: str) -> None:
    table = catalog.create_table("db.t", COLUMNS, **MODES[mode])
    table.write_arrow([{"id": 1000, "s": "kept"}])
    before = {path for path in Path(table.path).rglob("*") if path.is_file()}
    for overwrite in ("append", "overwrite"):
        for source in (failing(5), pa.RecordBatchReader.from_batches(COLUMNS, failing(5))):
            with pytest.raises(Broken, match="the source broke"):
                table.write_arrow(source, mode=overwrite, target_file_size="1 b")
    lazy = pl.LazyFrame({"id": [1, 2], "s": ["1", "x"]}).with_columns(id=pl.col("s").str.to_integer(strict=True))
    with pytest.raises(pl.exceptions.PolarsError):
        table.write_arrow(lazy)
    with pytest.raises((duckdb.Error, OSError)):
        table.write_arrow(
            duckdb.sql("SELECT CASE WHEN i = 999999 THEN error('x')::BIGINT ELSE i END id FROM range(1000000) r(i)")
        )
    assert {path for path in Path(table.path).rglob("*") if path.is_file()} == before
    assert [row[1] for row in rows(table)] in (["kept"], [])  # pending rows of a postpone table are not seen yet


def test_what_is_no_source(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", COLUMNS)
    odd: list[Any] = [3, "rows", b"rows", object(), iter([3]), [pd.Series([1])], pl.DataFrame({"id": ["x"]}).lazy()]
    for source in odd:
        with pytest.raises(InvalidError):
            table.write_arrow(source)
    assert table.latest_snapshot() is None
