"""What several tests ask of the engines: many tables in few statements, and the keys of each bucket."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.interop.values import arrow_rows, canonical, shortest
from tests.peers.flink import FlinkPaimon, Result
from tests.peers.python_peers import PaimonRust, PyPaimon
from tests.peers.rpc import PeerError

from bucketlake import Table
from bucketlake.format.metadata.manifest import SimpleStats
from bucketlake.format.row.binary_row import decode_row, without_arity_header
from bucketlake.types.model import DataField

DATABASE = "ours"
COPIES = "copies"
AT_ONCE = 20
FILES = (
    "file_path, bucket, schema_id, `level`, record_count, file_size_in_bytes, min_sequence_number,"
    " max_sequence_number, deleteRowCount"
)


def read_by_flink(flink: FlinkPaimon, tables: Sequence[Table]) -> dict[str, list[str] | PeerError]:
    """Table name -> its rows in `values.canonical` form, or why they cannot be read."""
    found: dict[str, list[str] | PeerError] = {}
    alike: dict[tuple[str, ...], list[Table]] = {}
    for table in tables:
        alike.setdefault(tuple(str(item.type) for item in table.schema.fields), []).append(table)
    for group in alike.values():
        for start in range(0, len(group), AT_ONCE):
            names = [table.name for table in group[start : start + AT_ONCE]]
            found.update(select_each(flink, "*", names))
    return found


def select_each(flink: FlinkPaimon, what: str, names: Sequence[str], suffix: str = "") -> dict[str, Any]:
    """`SELECT what` from every table in one statement: name -> canonical rows; one by one if that fails."""
    try:
        result = flink.sql(_union(what, names, suffix))
    except PeerError as error:
        if len(names) == 1:
            return {names[0]: error}
        return {name: found for each in names for name, found in select_each(flink, what, [each], suffix).items()}
    rows = shortest(result.rows, result.types)
    return {name: canonical(row[1:] for row in rows if row[0] == name) for name in names}


def _union(what: str, names: Sequence[str], suffix: str) -> str:
    parts = []
    for name in names:
        database, table = name.split(".")
        parts.append(f"SELECT CAST('{name}' AS STRING), {what} FROM `{database}`.`{table}{suffix}`")
    return " UNION ALL ".join(parts)


def listing(flink: FlinkPaimon, names: Sequence[str]) -> dict[str, list[tuple[Any, ...]]]:
    """Table name -> what its `$files` says of each file: see FILES."""
    found: dict[str, list[tuple[Any, ...]]] = {name: [] for name in names}
    for start in range(0, len(names), AT_ONCE):
        result = flink.sql(_union(FILES, names[start : start + AT_ONCE], "$files"))
        for row in result.rows:
            path = row[1].rsplit("/", 1)[-1]
            found[row[0]].append((path, *row[2:]))
    return {name: sorted(rows) for name, rows in found.items()}


def listed_here(table: Table) -> list[tuple[Any, ...]]:
    """The same as Bucketlake sees it."""
    return sorted(
        (
            found.file.file_name,
            found.bucket,
            found.file.schema_id,
            found.file.level,
            found.file.row_count,
            found.file.file_size,
            found.file.min_sequence_number,
            found.file.max_sequence_number,
            found.file.delete_row_count,
        )
        for found in table.files()
    )


def insert_all(flink: FlinkPaimon, pairs: Sequence[tuple[str, str]]) -> dict[str, PeerError]:
    """Fill each second table with the rows of the first, many in one job; name -> why that failed."""
    failures: dict[str, PeerError] = {}
    for start in range(0, len(pairs), AT_ONCE):
        failures.update(_insert(flink, pairs[start : start + AT_ONCE]))
    return failures


def _insert(flink: FlinkPaimon, pairs: Sequence[tuple[str, str]]) -> dict[str, PeerError]:
    inserts = [f"INSERT INTO {into} SELECT * FROM {source}" for source, into in pairs]
    try:
        flink.sql(f"EXECUTE STATEMENT SET BEGIN {'; '.join(inserts)}; END" if len(pairs) > 1 else inserts[0])
    except PeerError as error:
        if len(pairs) == 1:
            return {pairs[0][1]: error}
        # Others of the set may have committed before it failed.
        for _, into in pairs:
            flink.sql(f"TRUNCATE TABLE {into}")
        return {name: found for pair in pairs for name, found in _insert(flink, [pair]).items()}
    return {}


def result_rows(result: Result) -> list[str]:
    """A result's rows in `values.canonical` form."""
    return canonical(shortest(result.rows, result.types))


def keys_by_bucket(table: Table, columns: Sequence[str]) -> dict[str, list[str]]:
    """Bucket folder, relative to the table -> its rows' key values, read by pyarrow from every live parquet file."""
    found: dict[str, list[str]] = {}
    for file in table.refresh().files():
        read = pq.ParquetFile(file.path).read(columns=list(columns))
        texts = [repr(row) for row in zip(*(_plain(read.column(column)) for column in columns), strict=True)]
        found.setdefault(str(Path(file.path).parent.relative_to(table.path)), []).extend(texts)
    return {folder: sorted(keys) for folder, keys in found.items()}


def _plain(column: pa.ChunkedArray) -> list[Any]:
    """Values; instants in nanoseconds, as files of several writers name their unit and zone differently."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64()).to_pylist()
    return column.to_pylist()


def described(table: Table) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """What the manifests say of each live file, without what differs from write to write: facts, and statistics by
    column, those of keys under the names that files give them."""
    schema = table.schema
    keys = schema.key_fields
    found = []
    for each in table.refresh().files():
        file = each.file
        columns = schema.fields if file.value_stats_cols is None else schema.select(file.value_stats_cols)
        facts = {
            "partition": tuple(each.partition.values()),
            "bucket": each.bucket,
            "total_buckets": each.total_buckets,
            "level": file.level,
            "rows": file.row_count,
            "sequence": (file.min_sequence_number, file.max_sequence_number),
            "deletes": file.delete_row_count,
            "source": file.file_source,
            "min_key": file.min_key,
            "max_key": file.max_key,
        }
        found.append((facts, {**by_column(file.key_stats, keys), **by_column(file.value_stats, columns)}))
    return sorted(found, key=lambda item: (item[0]["partition"], item[0]["bucket"], item[0]["sequence"], repr(item[1])))


def by_column(stats: SimpleStats, fields: Sequence[DataField]) -> dict[str, tuple[Any, Any, int | None]]:
    """Column -> minimum, maximum, null count."""
    if not fields:
        return {}
    kinds = [field.type for field in fields]
    lows, highs = (decode_row(without_arity_header(row), kinds) for row in (stats.min_values, stats.max_values))
    nulls = stats.null_counts or (None,) * len(fields)
    return {field.name: tuple(parts) for field, *parts in zip(fields, lows, highs, nulls, strict=True)}


def read_by(peer: PyPaimon | PaimonRust, table: Table) -> list[str]:
    """The table's rows as a Python peer reads them, in `values.canonical` form. Errors: PeerError, and what a
    result of other columns or types raises."""
    database, name = table.name.split(".")
    read = peer.read(database, name)
    return canonical(arrow_rows(read, table.schema.fields)) if read.num_columns else []
