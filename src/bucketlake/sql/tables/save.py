"""A DataFrame as a table: written to one that is there, or made into one.

Spec: docs/dataframes.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bucketlake.errors import AlreadyExistsError, InvalidError, NotFoundError, UnsupportedError, check_types
from bucketlake.options.engines import CONNECTOR_KEYS
from bucketlake.options.options import option_keys, option_text
from bucketlake.spark import instants
from bucketlake.spark.settings import require_quotes, substituted
from bucketlake.spark.write.parquet_rows import Source
from bucketlake.spark.write.replacing import DYNAMIC_OVERWRITE, replaced_partition
from bucketlake.spark.write.writer import OVERWRITE_MODE, WriteRequest, write
from bucketlake.sql.query.travel import session_options
from bucketlake.sql.rows.insert import positioned
from bucketlake.sql.rows.upsert import upserted, upserts
from bucketlake.sql.tables.create import CreateTable
from bucketlake.sql.tables.create_table import COMMENT, create_as
from bucketlake.sql.text import names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.format.metadata.snapshot import Snapshot
    from bucketlake.spark.session import Lake, Saving
    from bucketlake.spark.table import LakeTable

_MODES = {
    **{mode: mode for mode in ("append", "overwrite", "ignore", "create", "replace")},
    **dict.fromkeys(("error", "errorifexists", "default"), "create"),
    **dict.fromkeys(("create_or_replace", "createorreplace"), "create_or_replace"),
    **dict.fromkeys(("overwrite_partitions", "overwritepartitions"), "overwrite_partitions"),
}
_UPSERTS = ("upsert", "merge", "update")  # as other libraries name it
_WHERE = ("replace_where", "replaceWhere")


def save(lake: Lake, frame: DataFrame, request: Saving) -> Snapshot | None:
    """Write the frame as `Lake.write_table` says; the new snapshot, None where there was nothing to commit."""
    check_types(str, f"use {', '.join(sorted(_MODES))}", mode=request.mode)
    check_types(str, "write `database.table`, as a text", name=request.name)
    mode = _MODES.get(request.mode.lower())
    if mode is None:
        upsert = "append: in a table with a primary key it upserts" if request.mode.lower() in _UPSERTS else None
        raise InvalidError("unknown save mode", mode=request.mode, remedy=upsert or f"use {', '.join(sorted(_MODES))}")
    name = names.target(lake, names.parts_of(request.name))
    kept = {key: value for key, value in request.options.items() if key in (*_WHERE, COMMENT) and value is not None}
    others = {key: value for key, value in request.options.items() if key not in (*_WHERE, COMMENT)}
    exists = lake.catalog.table_exists(names.LakeName(name.database, name.base).full)
    if exists and mode == "ignore":
        return None  # whatever the call says of the table, as with Spark
    makes = not exists or mode in ("replace", "create_or_replace")
    options = option_keys(others, unknown=makes and request.spelled)
    request = replace(request, mode=mode, options={**options, **kept})
    if exists and mode == "create":
        raise AlreadyExistsError(
            "[TABLE_OR_VIEW_ALREADY_EXISTS] table already exists",
            table=name.full,
            remedy="mode append adds the rows, overwrite replaces those that are there",
        )
    if not exists and mode == "replace":
        raise NotFoundError("no such table", table=name.full, remedy="use mode create_or_replace")
    if makes:
        if request.by_position:
            raise NotFoundError("no such table", table=name.full, remedy="rows are taken by position of its columns")
        try:
            return _created(lake, frame, name, request)
        except AlreadyExistsError:
            if mode not in ("append", "overwrite", "overwrite_partitions", "ignore"):
                raise  # another job has just made it
        if mode == "ignore":
            return None
    return _written(lake, frame, name, request)


def _created(lake: Lake, frame: DataFrame, name: names.LakeName, request: Saving) -> Snapshot | None:
    """The table made with the frame's rows. Options of the write alone are no table's."""
    given = {k: v for k, v in request.options.items() if v is not None and k not in (*CONNECTOR_KEYS, *_WHERE)}
    options = {key: option_text(value) for key, value in given.items()}
    clause = CreateTable((name.database, name.table), partition_keys=list(request.partition_by), options=options)
    clause.replace = request.mode in ("replace", "create_or_replace")
    create_as(lake, clause, instants.as_stored(frame) if instants.of_call(lake.spark, request.options) else frame)
    return lake.table(name.full).latest_snapshot()


def _written(lake: Lake, frame: DataFrame, name: names.LakeName, request: Saving) -> Snapshot | None:
    own = {key: value for key, value in request.options.items() if key not in (*_WHERE, COMMENT)}
    options = {**session_options(lake, name), **own}
    table = lake.table(name.full)
    keys = list(table.schema.partition_keys)
    check_definition(table, request, own)
    table = table.with_options(options)
    written = WriteRequest(evolves=not request.by_position)
    if request.by_position:
        written = replace(written, source=Source(frame, tuple(table.schema.field_names)))
        frame = positioned(frame, table.schema.field_names, table, {})
    where = next((request.options[key] for key in _WHERE if key in request.options), None)
    if where is not None and request.mode != "overwrite":
        raise UnsupportedError("replace_where goes with mode overwrite", mode=request.mode)
    if where is not None:
        where = substituted(lake.spark, where)
        require_quotes(lake.spark, [where])
        partition = replaced_partition(where, table.table)
        written = replace(written, mode="overwrite", partition=partition, dynamic=False)
    elif request.mode != "append":
        mode = str(lake.spark.conf.get(OVERWRITE_MODE, "static"))
        dynamic = str(options.get(DYNAMIC_OVERWRITE, mode.lower() == "dynamic")).lower() == "true"
        dynamic = bool(keys) and (dynamic or request.mode == "overwrite_partitions")
        written = replace(written, mode="overwrite", dynamic=dynamic)
    if written.mode == "append" and upserts(table):
        return upserted(table, frame)
    return write(lake.spark, table.table, frame, written)


def check_definition(table: LakeTable, request: Saving, options: Mapping[str, Any]) -> None:
    """InvalidError where the call names other partition columns, or another primary key, than the table has."""
    key = option_text(options["primary-key"]).split(",") if "primary-key" in options else []
    for what, given, has in (
        ("partition_by", list(request.partition_by), list(table.schema.partition_keys)),
        ("primary_key", [name.strip() for name in key], list(table.schema.primary_keys)),
    ):
        if given and given != has:
            remedy = f"leave {what} out, or mode='replace' makes the table anew"
            raise InvalidError(f"the table has another {what}", table=table.name, given=given, has=has, remedy=remedy)
