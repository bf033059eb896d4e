"""What a caller hands over as rows, as record batches: Arrow data, data frames, columns and rows in Python.

    Arrow table, batch, reader, anything with `__arrow_c_stream__` or `__arrow_c_array__`      as it is, lazily
    pandas DataFrame        its columns; the index is left out
    polars LazyFrame        its rows, batch by batch
    DuckDB relation         its rows, batch by batch as it is executed
    mapping                 name → values of the column
    list of mappings        rows; what a row lacks is null
    iterable                of any of these, lazily: Arrow tables or batches, data frames

Spec: docs/spec/writing.md#input
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.ops.table.partitions import partition_scalar, require_partition_columns
from bucketlake.schema.schema import TableSchema
from bucketlake.types.model import DataField, arrow_schema, from_arrow_type

Given = Any  # see above
_TAKEN = "an Arrow table, batch or reader, a data frame, a dict of columns, a list of dicts"
STREAMED_ROWS = 65_536  # of a batch of a query that is executed while it is written


def arrow_input(data: Given) -> pa.Table | pa.RecordBatch | Iterable[Any]:
    """Rows in Python as an Arrow table, Arrow data as it is; InvalidError for what is neither."""
    try:
        if isinstance(data, (pa.Table, pa.RecordBatch, pa.RecordBatchReader)):
            return data
        if type(data).__module__.partition(".")[0] == "pandas":
            return _of_pandas(data)
        if _is(data, "polars", "LazyFrame"):
            return _of_lazy_frame(data)
        if hasattr(data, "__arrow_c_stream__"):
            return _of_stream(data)
        if hasattr(data, "__arrow_c_array__"):
            return pa.record_batch(data)
        if isinstance(data, Mapping):
            return pa.table(dict(data))
        if isinstance(data, (list, tuple)) and data and isinstance(data[0], Mapping):
            return _of_rows(data)
    except InvalidError:
        raise
    except (pa.ArrowException, ValueError, TypeError, OverflowError, AttributeError) as error:
        one = isinstance(data, Mapping) and any(isinstance(v, (str, int, float)) for v in data.values())
        remedy = "give a list of values for each column, or a list of dicts" if one else None
        column, reason = _at_fault(data) or (None, str(error))
        where = {} if column is None else {"column": column}
        if column is not None and remedy is None:
            remedy = "give the column values of one type, which Arrow has"
        raise InvalidError(
            "these rows do not become columns", type=_kind(data), **where, reason=reason, remedy=remedy
        ) from error
    if isinstance(data, (str, bytes, bytearray)) or not isinstance(data, Iterable):
        raise InvalidError("cannot write this", type=_kind(data), remedy=f"give {_TAKEN}, or an iterable of batches")
    return data


def _at_fault(data: Given) -> tuple[str, str] | None:
    """The first column that does not become Arrow's by itself, and why; pyarrow names columns of data frames only."""
    rows = isinstance(data, (list, tuple))
    frame = type(data).__module__.partition(".")[0] == "pandas"
    if not (rows or frame or isinstance(data, Mapping)):
        return None
    for name in dict.fromkeys(key for row in data for key in row) if rows else data:
        try:
            pa.array([row.get(name) for row in data] if rows else data[name], from_pandas=frame)
        except (pa.ArrowException, ValueError, TypeError, OverflowError, AttributeError) as error:
            return name, str(error)
    return None


def _is(data: Any, library: str, name: str) -> bool:
    """Whether this is an object of a library's class, which need not be loaded for that."""
    return type(data).__name__ == name and type(data).__module__.partition(".")[0] == library


def _of_lazy_frame(data: Any) -> pa.RecordBatchReader:
    """The rows of a polars LazyFrame as its engine makes them, never all at once."""
    empty = data.head(0).collect().to_arrow()
    if not hasattr(data, "collect_batches"):
        return pa.RecordBatchReader.from_stream(data.collect())
    frames = data.collect_batches(chunk_size=STREAMED_ROWS, maintain_order=True)
    batches = (batch for frame in frames for batch in frame.to_arrow().cast(empty.schema).to_batches())
    return pa.RecordBatchReader.from_batches(empty.schema, batches)


def _of_stream(data: Any) -> pa.RecordBatchReader:
    """An Arrow C stream. A DuckDB relation is asked for its reader: its stream is the whole result."""
    execute = getattr(data, "to_arrow_reader", None) or getattr(data, "fetch_record_batch", None)
    if type(data).__name__ == "DuckDBPyRelation" and execute is not None:
        found: pa.RecordBatchReader = execute(STREAMED_ROWS)
        return found
    return pa.RecordBatchReader.from_stream(data)


def _of_pandas(data: Any) -> pa.Table:
    columns = getattr(data, "columns", None)
    if columns is None:
        raise InvalidError("cannot write this", type=_kind(data), remedy="give a DataFrame with the table's columns")
    odd = [name for name in columns if not isinstance(name, str)]
    if odd:
        raise InvalidError("columns whose names are not text", columns=odd[:10], remedy="rename the columns")
    if len(set(columns)) < len(columns):
        raise InvalidError("columns that occur more than once", columns=sorted({*columns})[:10])
    index = [str(name) for name in data.index.names if name is not None]
    if index:  # as `groupby` and `set_index` make it of a column
        warnings.warn(f"the index ({', '.join(index)}) is left out: reset_index() makes it a column", stacklevel=2)
    return pa.Table.from_pandas(data, preserve_index=False)


def _of_rows(rows: Sequence[Any]) -> pa.Table:
    """All rows count, and all their keys: a key that only a later row has is a column too."""
    other = next((row for row in rows if not isinstance(row, Mapping)), None)
    if other is not None:
        raise InvalidError("rows of different kinds", types=["dict", _kind(other)], remedy="give a list of dicts")
    names = dict.fromkeys(name for row in rows for name in row)
    odd = [name for name in names if not isinstance(name, str)]
    if odd:
        raise InvalidError("columns whose names are not text", columns=odd[:10])
    return pa.table({name: [row.get(name) for row in rows] for name in names})


def given_fields(data: pa.Table | pa.RecordBatch | Iterable[Any]) -> list[DataField]:
    """The columns of what `arrow_input` gave, numbered by place; UnsupportedError where no row tells them yet."""
    schema = getattr(data, "schema", None)
    if not isinstance(schema, pa.Schema):
        raise UnsupportedError(
            "write.merge-schema with batches whose columns are not known beforehand",
            type=_kind(data),
            remedy="give an Arrow table or a RecordBatchReader",
        )
    return [DataField(place, item.name, from_arrow_type(item.type)) for place, item in enumerate(schema)]


def record_batches(data: Given, partition: Mapping[str, Any], schema: TableSchema) -> Iterator[pa.RecordBatch]:
    """The batches of what `arrow_input` gave, with the columns that `partition` fixes where they lack them.

    Raises InvalidError for what is no batch, for text that is not UTF-8, and for a partition value that is none of its
    column.
    """
    require_partition_columns(partition, schema.partition_keys)
    named = schema.select(list(partition))
    fields = {item.name: item for item in arrow_schema(named)}
    constants = {item.name: partition_scalar(partition[item.name], item) for item in named}
    return _batches(data, fields, constants)


def batches_of(data: Given) -> Iterator[pa.RecordBatch]:
    """The batches of what `arrow_input` gave, checked as those of `record_batches`."""
    return _batches(data, {}, {})


def _batches(
    data: Given, fields: Mapping[str, pa.Field], constants: Mapping[str, pa.Scalar]
) -> Iterator[pa.RecordBatch]:
    for batch in _plain_batches(data):
        _check(batch)
        there = set(batch.schema.names)
        for name in fields.keys() - there:
            batch = batch.append_column(fields[name], pa.repeat(constants[name], batch.num_rows))
        yield batch


def _plain_batches(data: Given) -> Iterator[pa.RecordBatch]:
    if isinstance(data, pa.RecordBatch):
        yield data
        return
    if isinstance(data, pa.Table):
        yield from data.to_batches()
        return
    for part in data:
        if isinstance(part, pa.RecordBatch):
            yield part
        elif isinstance(part, pa.Table):
            yield from part.to_batches()
        elif _is_frame(part):
            yield from _plain_batches(arrow_input(part))
        else:
            remedy = f"give {_TAKEN}, or an iterable of batches"
            if isinstance(part, tuple) and hasattr(part, "__fields__"):
                remedy = "give PySpark's rows as dicts, row.asDict(True); lake.write_table takes them as they are"
            elif isinstance(part, tuple) and hasattr(part, "_asdict"):
                remedy = "give named tuples as dicts, row._asdict()"
            raise InvalidError("not a record batch", type=_kind(part), remedy=remedy)


def _is_frame(part: Any) -> bool:
    """Whether one of several parts is a data frame or Arrow data of another library."""
    return hasattr(part, "__arrow_c_stream__") or hasattr(part, "__arrow_c_array__") or _is(part, "pandas", "DataFrame")


def _check(batch: pa.RecordBatch) -> None:
    """Names occur once; memory that is not ours holds what its types say (text is UTF-8, offsets ascend)."""
    if len(set(batch.schema.names)) < batch.num_columns:
        repeated = sorted(name for name, times in Counter(batch.schema.names).items() if times > 1)
        raise InvalidError("columns that occur more than once", columns=repeated)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowException as error:
            raise InvalidError("not valid values of their type", column=name, reason=str(error)) from error


def _kind(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
