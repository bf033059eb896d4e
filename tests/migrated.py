"""Append tables as `migrate_table` makes them of Hive's and Spark's: files of one name in every partition, without the
partition columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from bucketlake import Catalog, Table
from bucketlake.format.metadata.manifest import DataFile, FileSource, SimpleStats
from bucketlake.format.row.binary_row import EMPTY_ROW, serialized
from bucketlake.ops.commit.commit import Commit
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.write.prepare import new_commit_user

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string()), ("pt", pa.string())])
NAME = "000000_0"


def migrated(
    catalog: Catalog,
    partitions: Mapping[Any, Sequence[pa.Table]],
    options: Mapping[str, str],
    *,
    schema: pa.Schema = SCHEMA,
    keys: Sequence[str] = ("pt",),
    stats: bool = False,
    name: str = "t",
) -> Table:
    """A table of these files, by the value of the (first) partition column; all are called `000000_0.<format>`, file n of
    a partition lies in bucket n. `stats`: with statistics that count columns which a file lacks as null in every row."""
    table = catalog.create_table(name, schema, list(keys), [], dict(options))
    messages = []
    for value, files in partitions.items():
        values = value if isinstance(value, tuple) else (value,)
        partition = serialized(values, [item.type for item in table.schema.partition_fields])
        for bucket, rows in enumerate(files):
            file = write_file(table, partition, bucket, rows, stats)
            messages.append(CommitMessage(partition, bucket, int(options.get("bucket", "-1")), new_files=(file,)))
    Commit(table.store, new_commit_user(table.store)).commit(messages)
    return table.refresh()


def write_file(table: Table, partition: bytes, bucket: int, rows: pa.Table, stats: bool, name: str = NAME) -> DataFile:
    """Write one file of a bucket; what a manifest says of it."""
    kind = table.options.get("file.format")
    folder = Path(table.store.paths.bucket_dir(partition, bucket))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.{kind}"
    if kind == "parquet":
        pq.write_table(rows, path)
    elif kind == "orc":
        orc.write_table(rows, str(path))
    else:
        pl.from_arrow(rows).write_avro(path)
    number = len(table.schema.fields)
    kinds = [item.type for item in table.schema.fields]
    unknown = serialized([None] * number, kinds)
    nulls = tuple(None if item.name in rows.schema.names else rows.num_rows for item in table.schema.fields)
    found = SimpleStats(unknown, unknown, nulls) if stats else SimpleStats(EMPTY_ROW, EMPTY_ROW, ())
    return DataFile(
        file_name=path.name,
        file_size=path.stat().st_size,
        row_count=rows.num_rows,
        min_key=EMPTY_ROW,
        max_key=EMPTY_ROW,
        key_stats=SimpleStats(EMPTY_ROW, EMPTY_ROW, ()),
        value_stats=found,
        min_sequence_number=0,
        max_sequence_number=0,
        schema_id=table.schema.id,
        level=0,
        value_stats_cols=None if stats else (),
        file_source=FileSource.APPEND,
        delete_row_count=0,
        creation_time=0,
    )


def rows_of(low: int, high: int, value: str = "x") -> pa.Table:
    """Rows low … high without the partition column."""
    ks = range(low, high)
    return pa.table({"k": pa.array(ks, pa.int64()), "v": [value] * len(ks)})
