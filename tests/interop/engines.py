"""What several tests ask of the engines: many tables in few statements, and the keys of each bucket."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from tests.interop.values import canonical, shortest
from tests.peers.flink import FlinkPaimon, Result
from tests.peers.rpc import PeerError

from bucketlake import Table

DATABASE = "ours"
COPIES = "copies"
AT_ONCE = 12
FILES = (
    "`partition`, bucket, file_format, schema_id, `level`, record_count, min_key, max_key, null_value_counts,"
    " min_value_stats, max_value_stats, min_sequence_number, max_sequence_number, deleteRowCount, file_source"
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


def listing(flink: FlinkPaimon, names: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Table name -> the rows of its `$files`, without what differs from write to write."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for start in range(0, len(names), AT_ONCE):
        result = flink.sql(_union(FILES, names[start : start + AT_ONCE], "$files"))
        for row in result.rows:
            found[row[0]].append(dict(zip(result.columns[1:], row[1:], strict=True)))
    for rows in found.values():
        rows.sort(key=lambda row: (str(row["partition"]), row["bucket"], row["min_sequence_number"]))
    return found


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
    """Bucket folder, relative to the table -> its rows' key values, read by pyarrow from every parquet file."""
    found: dict[str, list[str]] = {}
    root = Path(table.path)
    for file in sorted(root.rglob("*.parquet")):
        rows = pq.ParquetFile(file).read(columns=list(columns)).to_pylist()
        texts = [repr(tuple(row[column] for column in columns)) for row in rows]
        found.setdefault(str(file.parent.relative_to(root)), []).extend(texts)
    return {folder: sorted(keys) for folder, keys in found.items()}
