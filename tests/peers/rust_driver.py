"""Runs in paimon-rust's Python; driven by tests.peers.python_peers.PaimonRust."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pypaimon_rust.datafusion import PaimonCatalog, SQLContext
from tests.peers.arrow_file import load, save
from tests.peers.rpc import serve


def read(warehouse: str, name: str, path: str, columns: list[str] | None, options: dict[str, str]) -> None:
    """Save the table's rows to `path`."""
    builder = PaimonCatalog({"warehouse": warehouse}).get_table(name).new_read_builder(options or None)
    if columns is not None:
        builder = builder.with_projection(columns)
    batches = builder.new_read().read(builder.new_scan().plan().splits())
    if batches:
        save(pa.Table.from_batches(batches), path)
    else:
        wanted = "*" if columns is None else ", ".join(f'"{column}"' for column in columns)
        database, table = name.split(".", 1)
        empty = sql(warehouse, f'SELECT {wanted} FROM paimon."{database}"."{table}" LIMIT 0')
        save(empty, path)


def write(
    warehouse: str, name: str, path: str, overwrite: bool, partition: dict[str, Any], options: dict[str, str]
) -> None:
    """Commit the rows of `path`."""
    if options:
        raise ValueError("paimon-rust writes with the table's own options only")
    builder = PaimonCatalog({"warehouse": warehouse}).get_table(name).new_batch_write_builder()
    if overwrite:
        builder = builder.with_overwrite(partition)
    writer, commit = builder.new_write(), builder.new_commit()
    try:
        for batch in load(path).to_batches():
            writer.write_arrow(batch)
        commit.commit(writer.prepare_commit())
    finally:
        writer.close()
        commit.close()


def sql(warehouse: str, text: str) -> pa.Table:
    """What a statement returns; the warehouse's catalog is called `paimon`."""
    context = SQLContext()
    context.register_catalog("paimon", {"warehouse": warehouse})
    context.set_current_catalog("paimon")
    batches = context.sql(text)
    return pa.Table.from_batches(batches) if batches else pa.table({})


def sql_to_file(warehouse: str, text: str, path: str) -> None:
    """Save what a statement returns to `path`."""
    save(sql(warehouse, text), path)


def plan(warehouse: str, name: str, options: dict[str, str]) -> list[dict[str, Any]]:
    """The live files of the newest snapshot, a dictionary each."""
    if options:
        raise ValueError("paimon-rust lists the newest snapshot's files only")
    database, table = name.split(".", 1)
    rows = sql(warehouse, f'SELECT * FROM paimon."{database}"."{table}$files"').to_pylist()
    return [
        {
            "partition": row["partition"],
            "bucket": row["bucket"],
            "file_name": row["file_path"].rsplit("/", 1)[-1],
            "level": row["level"],
            "row_count": row["record_count"],
            "schema_id": row["schema_id"],
            "min_sequence_number": row["min_sequence_number"],
            "max_sequence_number": row["max_sequence_number"],
        }
        for row in rows
    ]


def start() -> dict[str, Callable[..., Any]]:
    """The operations by name."""
    return {"read": read, "write": write, "plan": plan, "sql": sql_to_file}


if __name__ == "__main__":
    serve(start)
