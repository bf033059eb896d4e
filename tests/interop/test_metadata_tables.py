"""System tables of metadata: what Apache Paimon shows of a table is what we show, text by text."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.peers.flink import FlinkPaimon

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.ops.system.registry import SYSTEM_TABLES
from bucketlake.schema.change import AddColumn, SetOption
from bucketlake.types.model import DataType, Root

pytestmark = pytest.mark.peer

SCHEMA = pa.schema(
    [
        *(("p", pa.string()), ("q", pa.date32()), ("k", pa.int64()), ("d", pa.float64()), ("f", pa.float32())),
        *(("t", pa.timestamp("us")), ("u", pa.timestamp("ms")), ("c", pa.decimal128(10, 2)), ("b", pa.bool_())),
        *(("l", pa.list_(pa.int32())), ("s", pa.string())),
    ]
)
TABLES = ("keyed", "plain", "hashed", "keyed$branch_b1")
OF_ROWS = ("audit_log", "binlog", "ro")  # whose columns are the table's
NAMES = [name for name in SYSTEM_TABLES if name not in ("file_indexes", "consumers")]


def row(number: int, part: str | None) -> dict[str, Any]:
    moment = dt.datetime(2024, 1, 31, 2, 3) + dt.timedelta(seconds=number, microseconds=500 * number)
    return {
        **{
            "p": part,
            "q": dt.date(2024, 1, 1 + number % 3),
            "k": number,
            "d": 10.0 ** (number - 6) * 1.5,
            "f": number / 7,
        },
        **{
            "t": moment,
            "u": moment,
            "c": Decimal(number) / 100,
            "b": number % 2 == 0,
            "l": [number],
            "s": f"text {number}",
        },
    }


def made(catalog: Catalog) -> None:
    options = {"bucket": "2", "merge-engine": "aggregation", "fields.d.aggregate-function": "max"}
    keyed = catalog.create_table("default.keyed", SCHEMA, ["p", "q"], ["p", "q", "k", "t"], options)
    for start in range(0, 12, 3):
        keyed.write_arrow(pa.Table.from_pylist([row(start + at, "a b") for at in range(3)], SCHEMA))
    keyed.alter(AddColumn("n", DataType(Root.INT), "added"), SetOption("snapshot.num-retained.max", "90"))
    keyed = catalog.table("default.keyed")
    keyed.write_arrow(pa.Table.from_pylist([row(20, "x")], SCHEMA))
    keyed.compact()
    options = {"deletion-vectors.enabled": "true", "metadata.stats-mode": "truncate(4)"}
    plain = catalog.create_table("default.plain", SCHEMA, ["p"], (), options)
    plain.write_arrow(pa.Table.from_pylist([row(number, part) for number in range(4) for part in ("a", None)], SCHEMA))
    plain.delete("k = 2")
    hashed = catalog.create_table("default.hashed", SCHEMA, (), ["k"], {"bucket": "-1"})
    hashed.write_arrow(pa.Table.from_pylist([row(number, None) for number in range(4)], SCHEMA))


@pytest.mark.slow
def test_metadata_tables(flink: FlinkPaimon, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("metadata")
    catalog = bucketlake.open(folder)
    made(catalog)
    flink.use(folder)
    flink.sql("CALL sys.create_tag('default.keyed', 'one', 1, '1 d')")
    flink.sql("CALL sys.create_branch('default.keyed', 'b1', 'one')")
    differences = []
    for name in NAMES:
        for table, (columns, rows) in read_all(flink, TABLES, name).items():
            ours = catalog.table(f"default.{table}${name}")
            assert [column for column in ours.schema.field_names if column in columns] == columns, name
            data = ours.to_arrow(columns=columns).to_pylist()
            shown = [tuple(_shown(column, value) for column, value in each.items()) for each in data]
            theirs = [tuple(_shown(c, v) for c, v in zip(columns, each, strict=True)) for each in rows]
            if sorted(shown, key=repr) != sorted(theirs, key=repr):
                differences.append((table, name, sorted(shown, key=repr), sorted(theirs, key=repr)))
    assert not differences, differences[0]


def read_all(flink: FlinkPaimon, tables: Sequence[str], name: str) -> dict[str, tuple[list[str], list[Any]]]:
    """Table -> columns and rows of its system table; in one statement where all have the same columns."""
    if name not in OF_ROWS:
        parts = [f"SELECT '{table}' AS `of`, * FROM `{table}${name}`" for table in tables]
        found = flink.sql(" UNION ALL ".join(parts))
        return {
            table: (found.columns[1:], [row[1:] for row in found.rows if row[0].strip() == table]) for table in tables
        }
    each = {table: flink.sql(f"SELECT * FROM `{table}${name}`") for table in tables}
    return {table: (found.columns, found.rows) for table, found in each.items()}


def _shown(column: str, value: Any) -> Any:
    """Values as both have them: paths without a scheme, structs as tuples, times that only one storage knows left out."""
    if column == "create_time" and isinstance(value, dt.datetime):
        return None
    if isinstance(value, str) and column.endswith("path"):
        return value.removeprefix("file:")
    if isinstance(value, list):
        return [tuple(item.values()) if isinstance(item, dict) else item for item in value]
    return value
