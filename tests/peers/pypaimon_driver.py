"""Runs in pypaimon's Python; driven by tests.peers.python_peers.PyPaimon."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory
from tests.peers.arrow_file import load, save
from tests.peers.rpc import serve


def _table(warehouse: str, name: str, options: dict[str, str]) -> Any:
    table = CatalogFactory.create({"warehouse": warehouse}).get_table(name)
    return table.copy(options) if options else table


def read(
    warehouse: str,
    name: str,
    path: str,
    columns: list[str] | None,
    options: dict[str, str],
    where: tuple[Any, ...] | None = None,
) -> None:
    """Save the table's rows to `path`; `where`: those whose column has a value, or more (a column, a method of the
    predicate builder, its other arguments)."""
    table = _table(warehouse, name, options)
    builder = table.new_read_builder()
    if where is not None:
        column, method, *values = where if len(where) > 2 else (where[0], "equal", where[1])
        (kind,) = (str(field.type) for field in table.fields if field.name == column)
        given = [Decimal(value) if kind.startswith("DECIMAL") else value for value in values]
        builder = builder.with_filter(getattr(builder.new_predicate_builder(), method)(column, *given))
    if columns is not None:
        builder = builder.with_projection(columns)
    splits = builder.new_scan().plan().splits()
    save(builder.new_read().to_arrow(splits), path)


def write(
    warehouse: str, name: str, path: str, overwrite: bool, partition: dict[str, Any], options: dict[str, str]
) -> None:
    """Commit the rows of `path`."""
    table = _table(warehouse, name, options)
    builder = table.new_batch_write_builder()
    if overwrite:
        builder = builder.overwrite(partition)
    writer, commit = builder.new_write(), builder.new_commit()
    try:
        writer.write_arrow(_fitted(load(path), table))
        commit.commit(writer.prepare_commit())
    finally:
        writer.close()
        commit.close()


def create_global_index(warehouse: str, name: str, column: str, kind: str, options: dict[str, str]) -> int:
    """Index a column; how many files were added."""
    added: int = _table(warehouse, name, {}).create_global_index(column, index_type=kind, options=options)
    return added


def update_by_ids(warehouse: str, name: str, path: str, columns: list[str]) -> None:
    """Commit new values of columns: `path` has them beside `_ROW_ID`."""
    builder = _table(warehouse, name, {}).new_batch_write_builder()
    update, commit = builder.new_update().with_update_type(columns), builder.new_commit()
    try:
        commit.commit(update.update_by_arrow_with_row_id(load(path)))
    finally:
        commit.close()


def _fitted(rows: pa.Table, table: Any) -> pa.Table:
    """`rows` with exactly the Arrow schema that pypaimon wants for the table."""
    from pypaimon.schema.data_types import PyarrowFieldParser

    return rows.cast(PyarrowFieldParser.from_paimon_schema(table.table_schema.fields))


def create(warehouse: str, name: str, schema: str, spec: dict[str, Any]) -> None:
    """Make a table with the Arrow schema of the file `schema` and spec's partition_keys, primary_keys, options."""
    from pypaimon import Schema

    catalog = CatalogFactory.create({"warehouse": warehouse})
    catalog.create_database(name.split(".")[0], True)
    catalog.create_table(name, Schema.from_pyarrow_schema(load(schema).schema, **spec), False)


def plan(warehouse: str, name: str, options: dict[str, str]) -> list[dict[str, Any]]:
    """The live files of the newest snapshot, a dictionary each."""
    splits = _table(warehouse, name, options).new_read_builder().new_scan().plan().splits()
    return [
        {
            "partition": [None if value is None else str(value) for value in split.partition.values],
            "bucket": split.bucket,
            "file_name": file.file_name,
            "level": file.level,
            "row_count": file.row_count,
            "schema_id": file.schema_id,
            "min_sequence_number": file.min_sequence_number,
            "max_sequence_number": file.max_sequence_number,
            "raw_convertible": getattr(split, "raw_convertible", None),
        }
        for split in splits
        for file in split.files
    ]


def start() -> dict[str, Callable[..., Any]]:
    """The operations by name."""
    return {
        "read": read,
        "write": write,
        "create": create,
        "plan": plan,
        "update_by_ids": update_by_ids,
        "create_global_index": create_global_index,
    }


if __name__ == "__main__":
    serve(start)
