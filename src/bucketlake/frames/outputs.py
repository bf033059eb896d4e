"""A scan's rows as the frames of other libraries: pandas, polars, DuckDB, pyarrow datasets.

Each library is loaded when its frame is asked for. polars and DuckDB hand down what their queries need; a condition
that is not understood for certain stays with them (`polars_filter`, `arrow_filter`).

Spec: docs/without-spark.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bucketlake.errors import InvalidError, UnsupportedError, check_flags
from bucketlake.frames.polars_filter import of_polars
from bucketlake.lazy import lazy, pl

if TYPE_CHECKING:
    from bucketlake.frames import dataset
    from bucketlake.frames.dataset import Scan
else:
    dataset = lazy("bucketlake.frames.dataset")

_NULLABLE = {f"int{width}": f"Int{width}" for width in (8, 16, 32, 64)} | {"bool": "boolean"}


def needed(module: str, extra: str) -> Any:
    """A library that is not among the plain dependencies. UnsupportedError, with the extra to install, without it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UnsupportedError(
            "this needs a package that cannot be loaded",
            package=module,
            reason=str(error),
            remedy=f"pip install 'bucketlake[{extra}]'",
        ) from error


def to_pandas(rows: pa.Table, arrow_types: bool = False) -> Any:
    """See `TableScan.to_pandas`."""
    check_flags(arrow_types=arrow_types)
    pandas = needed("pandas", "pandas")
    _refuse_repeated(rows.schema.names)
    try:
        if arrow_types:
            return rows.to_pandas(types_mapper=pandas.ArrowDtype)
        with_nulls = {
            name: column.to_pandas(types_mapper=lambda kind: pandas.api.types.pandas_dtype(_NULLABLE[str(kind)]))
            for name, column in zip(rows.schema.names, rows.columns, strict=True)
            if column.null_count and str(column.type) in _NULLABLE
        }
        plain = rows.drop_columns(list(with_nulls)).to_pandas()
        if not with_nulls:
            return plain
        return pandas.DataFrame(
            {name: with_nulls[name] if name in with_nulls else plain[name] for name in rows.schema.names}
        )
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise UnsupportedError(
            "values that pandas has no counterpart for",
            reason=str(error),
            remedy="use arrow_types=True, or leave the columns out",
        ) from error


def to_polars(scan: Scan) -> Any:
    """See `TableScan.to_polars`."""
    plugins = needed("polars.io.plugins", "polars")
    _refuse_repeated(scan.columns)
    empty = pl.from_arrow(scan.schema.empty_table())

    def batches(columns: Sequence[str] | None, predicate: Any, rows: int | None, size: int | None) -> Iterator[Any]:
        asked = list(scan.columns if columns is None else columns)
        there = dict.fromkeys([*asked, *(predicate.meta.root_names() if predicate is not None else ())])
        pushed = None if predicate is None or rows is not None else of_polars(predicate, scan.fields)
        part = scan.narrowed(list(there) or None, pushed, rows)
        frame = empty.select(list(there)) if there else empty
        some = False
        for batch in part.scan_batches(size or None):
            found = pl.from_arrow(batch) if batch.num_columns else batch
            found = found if predicate is None else found.filter(predicate)
            some = True
            yield found.select(asked)
        if not some:
            yield frame.select(asked)

    return plugins.register_io_source(batches, schema=empty.schema)


def to_duckdb(scan: Scan, connection: Any = None) -> Any:
    """See `TableScan.to_duckdb`."""
    duckdb = needed("duckdb", "duckdb")
    folded = [name.lower() for name in scan.columns]
    twice = sorted({name for name in scan.columns if folded.count(name.lower()) > 1})
    if twice:
        raise InvalidError("columns that DuckDB cannot tell apart", columns=twice, remedy="choose columns")
    return (connection if connection is not None else duckdb.default_connection()).from_arrow(to_dataset(scan))


def to_dataset(scan: Scan) -> Any:
    """See `TableScan.to_dataset`."""
    _refuse_repeated(scan.columns)
    return dataset.ScannedDataset(scan)


def _refuse_repeated(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise InvalidError("columns that occur more than once", columns=sorted(set(names)))
