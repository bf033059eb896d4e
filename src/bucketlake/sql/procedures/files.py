"""CALL sys.copy, sys.rewrite_file_index."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bucketlake.errors import InvalidError
from bucketlake.ops.compact.reindex import reindex
from bucketlake.ops.scan.partition_choice import chosen_partitions, parse_specs
from bucketlake.spark.maintain.compaction import run_indexing
from bucketlake.spark.read.partition_rows import partitions_where
from bucketlake.spark.write import writer
from bucketlake.sql.procedures.arguments import check_choice, table_name, table_of
from bucketlake.sql.procedures.registry import DONE, TABLE, Argument, Arguments, Procedure, Rows
from bucketlake.types.instants import LEGACY_TIMESTAMPS
from bucketlake.types.model import type_text

if TYPE_CHECKING:
    from bucketlake.spark.session import Lake
    from bucketlake.spark.table import LakeTable

_PLACES = ("path", "branch")  # options that say where a table lies
_STORED = {LEGACY_TIMESTAMPS: False}  # values are copied as they are stored


def _rewrite_index(lake: Lake, given: Arguments) -> Rows:
    table = table_of(lake, given)
    if "partitions" in given:
        store = table.table.for_writing().store
        chosen = chosen_partitions(store, parse_specs(given["partitions"]), None)
        done = reindex(store, chosen, run_indexing(lake.spark))
    else:
        done = table.rewrite_file_index(given.get("where"))
    return [(done.partitions, done.files)]


def _copy(lake: Lake, given: Arguments) -> Rows:
    """Rows are read and written, file formats and layouts are the target's."""
    source = lake.table(table_name(lake, given["source_table"]), _STORED)
    where = given.get("where")
    if where is not None:
        partitions_where(lake.spark, source.table.store, where)
    target = _target(lake, source, table_name(lake, given["target_table"]))
    request = writer.WriteRequest("overwrite", None, None, dynamic=bool(target.schema.partition_keys))
    writer.write(lake.spark, target.table, source.read(where=where), request)
    return DONE


def _target(lake: Lake, source: LakeTable, name: str) -> LakeTable:
    """The table to copy to, made like the source where it is not there."""
    if lake.catalog.table_exists(name):
        found = lake.table(name, _STORED)
        _check_compatible(source, found)
        return found
    made = replace(source.schema, options={k: v for k, v in source.schema.options.items() if k not in _PLACES})
    lake.catalog.create_database(name.split(".")[0].strip("`"), ignore_if_exists=True)
    lake.catalog.create_table(name, made)
    return lake.table(name, _STORED)


def _check_compatible(source: LakeTable, target: LakeTable) -> None:
    ours, theirs = source.schema, target.schema
    known = {(item.name, type_text(item.type)) for item in theirs.fields}
    differ = {
        "bucket": source.options.get("bucket") != target.options.get("bucket"),
        "format": source.options.text("file.format") != target.options.text("file.format"),
        "primary keys": set(ours.primary_keys) != set(theirs.primary_keys),
        "partition keys": set(ours.partition_keys) != set(theirs.partition_keys),
        "fields": not {(item.name, type_text(item.type)) for item in ours.fields} <= known,
    }
    for what, found in differ.items():
        if found:
            raise InvalidError(
                f"source table {what} is not compatible with existed paimon table {what}.",
                source=source.name,
                target=target.name,
            )


PROCEDURES = (
    Procedure(
        "copy",
        "Copies a table's rows to another table, which is created if missing; its partitions are replaced.",
        (
            Argument("source_table", "the table", required=True),
            Argument("target_table", "the table that they go to", required=True),
            Argument("where", "a condition over partition columns"),
        ),
        _copy,
        engines="Spark",
    ),
    Procedure(
        "rewrite_file_index",
        "Builds the file indexes that the table's options ask for on existing files.",
        (
            TABLE,
            Argument("where", "a condition over partition columns"),
            Argument("partitions", "specs of partitions: `dt=a,hh=1;dt=b`", engine="flink"),
        ),
        _rewrite_index,
        "written_partitions int not null, written_indexes int not null",
        check_choice,
        flink=("table", "partitions"),
    ),
)
