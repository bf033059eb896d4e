"""pypaimon and paimon-rust, each in a process of its own; tables travel as Arrow IPC files."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import pyarrow as pa
from tests.peers import install
from tests.peers.arrow_file import load, save
from tests.peers.rpc import Driver

SECONDS = 300.0
Self = TypeVar("Self", bound="_PythonPeer")


class _PythonPeer:
    """One peer over one warehouse folder at a time."""

    PEER = ""
    DRIVER = ""

    def __init__(self, warehouse: str | Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="bucketlake-peer-")
        self._driver = Driver(install.python_of(install.ensure(self.PEER)), self.DRIVER)
        self._count = 0
        self.use(warehouse)

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._driver.close()
        self._folder.cleanup()

    def use(self: Self, warehouse: str | Path) -> Self:
        """Switch to another warehouse folder."""
        self._warehouse = str(Path(warehouse).resolve())
        return self

    def read(
        self,
        database: str,
        table: str,
        *,
        columns: Sequence[str] | None = None,
        options: Mapping[str, str] | None = None,
        where: tuple[Any, ...] | None = None,
    ) -> pa.Table:
        """The table's rows; `options` are dynamic, as `scan.snapshot-id`; `where`: those whose column has a value, or
        more, for pypaimon: (column, method of its predicate builder, other arguments)."""
        path = self._path()
        more = {} if where is None else {"where": [str(v) if isinstance(v, Decimal) else v for v in where]}
        wanted = None if columns is None else list(columns)
        self._call("read", f"{database}.{table}", path=path, columns=wanted, options=dict(options or {}), **more)
        return load(path)

    def write(
        self,
        database: str,
        table: str,
        rows: pa.Table,
        *,
        overwrite: bool | Mapping[str, Any] = False,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Commit `rows`. `overwrite`: True for the whole table (by the table's own rule), or a partition's values."""
        path = self._path()
        save(rows, path)
        partition = dict(overwrite) if isinstance(overwrite, Mapping) else {}
        replace = isinstance(overwrite, Mapping) or overwrite
        args = {"path": path, "overwrite": replace, "partition": partition, "options": dict(options or {})}
        self._call("write", f"{database}.{table}", **args)

    def plan(self, database: str, table: str, *, options: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """The files a read takes: partition, bucket, file_name, level, row_count, schema_id, sequence numbers."""
        found: list[dict[str, Any]] = self._call("plan", f"{database}.{table}", options=dict(options or {}))
        return found

    def _call(self, op: str, name: str, **args: Any) -> Any:
        return self._driver.call(op, {"warehouse": self._warehouse, "name": name, **args}, SECONDS)

    def _path(self) -> str:
        self._count += 1
        return str(Path(self._folder.name) / f"{self._count}.arrow")


class PyPaimon(_PythonPeer):
    """pypaimon without its native extension: upstream's Python, all of it."""

    PEER = "pypaimon"
    DRIVER = "tests.peers.pypaimon_driver"

    def create(self, database: str, table: str, schema: pa.Schema, **spec: Any) -> None:
        """Make a table and, if need be, its database; spec: partition_keys, primary_keys, options, comment."""
        path = self._path()
        save(schema.empty_table(), path)
        self._call("create", f"{database}.{table}", schema=path, spec=spec)

    def update_by_ids(self, database: str, table: str, rows: pa.Table) -> None:
        """Commit new values of the columns of `rows`, which has `_ROW_ID` beside them."""
        path = self._path()
        save(rows, path)
        columns = [name for name in rows.column_names if name != "_ROW_ID"]
        self._call("update_by_ids", f"{database}.{table}", path=path, columns=columns)

    def create_global_index(self, database: str, table: str, column: str, kind: str, **options: str) -> int:
        """Index a column; how many files were added."""
        added: int = self._call(
            "create_global_index", f"{database}.{table}", column=column, kind=kind, options=dict(options)
        )
        return added


class PaimonRust(_PythonPeer):
    """paimon-rust through its Python wheel, with DataFusion's SQL over it. Cannot list only what a read would take."""

    PEER = "rust"
    DRIVER = "tests.peers.rust_driver"

    def sql(self, text: str) -> pa.Table:
        """What a DataFusion statement returns; the warehouse is the catalog `paimon`, names are quoted by ""."""
        path = self._path()
        self._driver.call("sql", {"warehouse": self._warehouse, "text": text, "path": path}, SECONDS)
        return load(path)
