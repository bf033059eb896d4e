"""The catalog's own system tables: `sys.tables`, `sys.partitions`, `sys.all_table_options`, `sys.catalog_options`.

A table that goes away while they are read is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from bucketlake.env.env import Env
from bucketlake.env.storage import threads_for
from bucketlake.errors import NotFoundError
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.system.history import OPTION_FIELDS, option_rows, stored_schema
from bucketlake.ops.system.model import (
    FLAG,
    LONG,
    TEXT,
    Ask,
    Column,
    SystemTable,
    columns_table,
    each,
    listed,
    longs,
    texts,
)
from bucketlake.ops.system.summaries import Sums, partition_sums
from bucketlake.ops.system.texts import hash_order
from bucketlake.ops.table.parallel import ahead
from bucketlake.ops.table.store import Store
from bucketlake.ops.table.wall_clock import local_to_epoch
from bucketlake.paths import POSTPONE_BUCKET
from bucketlake.redaction import redact_options
from bucketlake.schema.versions import create_schema
from bucketlake.table import Table
from bucketlake.types.model import DataField

TABLE_FIELDS = columns_table(
    ("database_name", TEXT, True),
    ("table_name", TEXT, True),
    ("table_type", TEXT, True),
    ("partitioned", FLAG, True),
    ("primary_key", FLAG, True),
    ("owner", TEXT, True),
    ("created_at", LONG, True),
    ("created_by", TEXT, True),
    ("updated_at", LONG, True),
    ("updated_by", TEXT, True),
    ("record_count", LONG, True),
    ("file_size_in_bytes", LONG, True),
    ("file_count", LONG, True),
    ("last_file_creation_time", LONG, True),
)
ALL_PARTITION_FIELDS = columns_table(
    ("database_name", TEXT, True),
    ("table_name", TEXT, True),
    ("partition_name", TEXT, True),
    ("record_count", LONG, True),
    ("file_size_in_bytes", LONG, True),
    ("file_count", LONG, True),
    ("last_file_creation_time", LONG, True),
    ("done", FLAG, True),
)
ALL_OPTION_FIELDS = columns_table(
    ("database_name", TEXT, True), ("table_name", TEXT, True), ("key", TEXT, True), ("value", TEXT, True)
)


class Tables(Protocol):
    """What of a catalog is listed."""

    @property
    def warehouse(self) -> str:
        """Its folder."""

    @property
    def options(self) -> Mapping[str, str]:
        """Its options, which may hold secrets."""

    def list_databases(self) -> list[str]:
        """Names of all databases."""

    def list_tables(self, database: str = ...) -> list[str]:
        """Names of a database's tables."""

    def table(self, name: str) -> Table:
        """A table by name."""


Found = tuple[str, str, Table]


def _tables(catalog: Tables, ask: Ask) -> Iterator[Found]:
    """The tables that rows asked for can be about."""
    for database in ask.kept(TABLE_FIELDS[0], catalog.list_databases()):
        try:
            names = ask.kept(TABLE_FIELDS[1], catalog.list_tables(database))
        except NotFoundError:
            continue
        tables = ahead(partial(_table, catalog, database), names, threads_for(catalog.warehouse))
        yield from ((database, name, table) for name, table in zip(names, tables, strict=True) if table is not None)


def _table(catalog: Tables, database: str, name: str) -> Table | None:
    try:
        return catalog.table(f"`{database}`.`{name}`")
    except NotFoundError:
        return None


def _flags(value: Callable[[Any], bool]) -> Column[Any]:
    return each(pa.bool_(), value)


_NAMES = {"database_name": texts(lambda item: item[0]), "table_name": texts(lambda item: item[1])}


def _all_tables(catalog: Tables, store: Store, ask: Ask) -> Iterator[pa.RecordBatch]:
    def option(key: str) -> Callable[[Found], str | None]:
        return lambda found: found[2].store.schema.options.get(key)

    def number(key: str) -> Callable[[Found], int | None]:
        return lambda found: None if (text := option(key)(found)) is None else int(text)

    unknown = ("record_count", "file_size_in_bytes", "file_count", "last_file_creation_time")
    columns = {
        **_NAMES,
        "table_type": texts(lambda found: option("type")(found) or "table"),
        "partitioned": _flags(lambda found: bool(found[2].store.schema.partition_keys)),
        "primary_key": _flags(lambda found: bool(found[2].store.schema.primary_keys)),
        "owner": texts(option("owner")),
        "created_at": longs(number("createdAt")),
        "created_by": texts(option("createdBy")),
        "updated_at": longs(number("updatedAt")),
        "updated_by": texts(option("updatedBy")),
        **dict.fromkeys(unknown, longs(lambda found: None)),
    }
    yield from listed(TABLE_FIELDS, ask, list(_tables(catalog, ask)), columns)


def _all_partitions(catalog: Tables, store: Store, ask: Ask) -> Iterator[pa.RecordBatch]:
    columns = {
        **_NAMES,
        "partition_name": texts(lambda item: _partition_name(item[2].store, item[3])),
        "record_count": longs(lambda item: item[3].rows),
        "file_size_in_bytes": longs(lambda item: item[3].size),
        "file_count": longs(lambda item: item[3].files),
        "last_file_creation_time": longs(lambda item: None if (t := item[3].updated) is None else local_to_epoch(t)),
        "done": _flags(lambda item: False),
    }
    for database, name, table in _tables(catalog, ask):
        if table.store.schema.partition_keys:
            found = [(database, name, table, sums) for sums in _sums(table.store)]
            yield from listed(ALL_PARTITION_FIELDS, ask, found, columns)


def _sums(store: Store) -> Sequence[Sums]:
    snapshot = store.latest_snapshot()
    entries = [] if snapshot is None else live_entries(store, snapshot)
    return partition_sums([entry for entry in entries if entry.bucket != POSTPONE_BUCKET])


def _partition_name(store: Store, sums: Sums) -> str:
    return "/".join(f"{name}={text}" for name, text in store.paths.partition_texts(sums.partition).items())


def _all_options(catalog: Tables, store: Store, ask: Ask) -> Iterator[pa.RecordBatch]:
    columns = {**_NAMES, "key": texts(lambda item: item[2]), "value": texts(lambda item: item[3])}
    for database, name, table in _tables(catalog, ask):
        options = {**stored_schema(table.store).options, "path": table.path}
        found = [(database, name, key, options[key]) for key in hash_order(options)]
        yield from listed(ALL_OPTION_FIELDS, ask, found, columns)


def _catalog_options(catalog: Tables, store: Store, ask: Ask) -> Iterator[pa.RecordBatch]:
    options = redact_options({**catalog.options, "warehouse": catalog.warehouse})
    yield from option_rows([(str(key), str(options[key])) for key in sorted(options)], ask)


_MADE = {
    "tables": (TABLE_FIELDS, _all_tables, ("database_name", "table_name")),
    "partitions": (ALL_PARTITION_FIELDS, _all_partitions, ("database_name", "table_name", "partition_name")),
    "all_table_options": (ALL_OPTION_FIELDS, _all_options, ("table_name",)),
    "catalog_options": (OPTION_FIELDS, _catalog_options, ("key",)),
}
ABOUT = {
    "database_name": "database; a condition on it leaves out other databases",
    "table_name": "table; a condition on it leaves out other tables",
    "table_type": "option `type`: table",
    "partitioned": "whether it has partition columns",
    "primary_key": "whether it has a primary key",
    "owner": "option `owner`, null on a filesystem catalog",
    "created_at": "option `createdAt`, null on a filesystem catalog",
    "created_by": "option `createdBy`, null on a filesystem catalog",
    "updated_at": "option `updatedAt`, null on a filesystem catalog",
    "updated_by": "option `updatedBy`, null on a filesystem catalog",
    "record_count": "records in its files; null in `sys.tables`: a filesystem catalog does not count them",
    "file_size_in_bytes": "bytes of its files; null in `sys.tables`",
    "file_count": "number of its files; null in `sys.tables`",
    "last_file_creation_time": "when its newest file was made, epoch milliseconds; null in `sys.tables`",
    "partition_name": "the partition, `dt=2024-01-01/hour=5`",
    "done": "false",
    "key": "option",
    "value": "its value; of secrets `***`, for options of the catalog",
}


CATALOG_TABLES: dict[str, tuple[DataField, ...]] = {name: made[0] for name, made in _MADE.items()}


def catalog_table(catalog: Tables, env: Env, name: str, full: str) -> Table:
    """A table of `sys`. NotFoundError with the nearest name."""
    wanted = name.lower()
    if wanted not in _MADE or (wanted == "catalog_options" and _is_off(catalog)):
        near = get_close_matches(wanted, CATALOG_TABLES, 1, 0.5)
        remedy = f"did you mean 'sys.{near[0]}'?" if near and wanted not in near else f"use {sorted(_MADE)}"
        raise NotFoundError("no such system table", table=full, remedy=remedy)
    fields, rows, key = _MADE[wanted]
    view = SystemTable(wanted, fields, partial(rows, catalog), key, of_catalog=True, about=ABOUT)
    schema = create_schema(fields)
    return Table(Store.of(env, f"{catalog.warehouse}/sys.db/{wanted}", schema), full, view)


def _is_off(catalog: Tables) -> bool:
    return str(catalog.options.get("catalog-options-table.enabled", "true")).strip().lower() == "false"
