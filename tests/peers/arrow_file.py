"""Arrow IPC files between the test process and a peer's Python."""

from __future__ import annotations

import pyarrow as pa


def save(table: pa.Table, path: str) -> None:
    """Write `table` to `path`."""
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def load(path: str) -> pa.Table:
    """The table in `path`."""
    with pa.OSFile(path, "rb") as source, pa.ipc.open_file(source) as reader:
        return reader.read_all()
