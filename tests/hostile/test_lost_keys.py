"""A schema file that has lost the primary key of its table: files by key are not taken for rows of an append table."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import bucketlake
from bucketlake.errors import CorruptError
from bucketlake.ops.stream.units import Follow, changed

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])


@pytest.mark.parametrize("options", [{"bucket": "1", "bucket-key": "k"}, {"bucket": "-1"}], ids=["fixed", "dynamic"])
def test_a_schema_that_lost_its_primary_key_is_told(tmp_path: Path, options: dict[str, str]) -> None:
    """Superseded versions and deletes came as rows."""
    catalog = bucketlake.open(tmp_path)
    catalog.create_database("db")
    table = catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options=options)
    for value in (1, 2):
        table.write_arrow(pa.table({"k": [1, 2], "v": [value] * 2}, schema=SCHEMA), write_only=True)
    table.delete("k = 2")
    rows, snapshots = table.to_arrow().to_pylist(), len(table.snapshots())
    schema = Path(table.path, "schema", "schema-0")
    written = schema.read_bytes()
    schema.write_text(json.dumps({**json.loads(written), "primaryKeys": []}))
    table = catalog.table("db.t")
    for action in (
        table.to_arrow,
        lambda: table.to_arrow(where="k = 1"),
        lambda: table.to_arrow(scan_snapshot_id=1),
        lambda: table.compact(full=True),
        lambda: table.rewrite(),
        lambda: table.update({"v": 8}, "k = 1"),
        lambda: table.delete("k = 1"),
        lambda: table.to_arrow(incremental_between="1,2"),
        lambda: table.to_arrow(incremental_between="1,2", incremental_between_scan_mode="diff"),
        lambda: changed(table.store, table.store.snapshot(2), Follow(changelog=False)),
    ):
        with pytest.raises(CorruptError, match=r"no primary key.*schema-0"):
            action()
    assert len(table.snapshots()) == snapshots
    schema.write_bytes(written)
    assert catalog.table("db.t").to_arrow().to_pylist() == rows


@pytest.mark.parametrize("keys", [[], ["p", "q"]], ids=["lost", "more"])
def test_nothing_is_appended_by_a_schema_of_other_partition_columns(tmp_path: Path, keys: list[str]) -> None:
    """Nobody could read the table then, not even with its schema back."""
    catalog = bucketlake.open(tmp_path)
    catalog.create_database("db")
    kinds = pa.schema([(name, pa.int32()) for name in "pqv"])
    table = catalog.create_table("db.t", kinds, partition_keys=["p"])
    rows = pa.table({"p": [1, 2], "q": [1, 1], "v": [1, 2]}, schema=kinds)
    table.write_arrow(rows)
    schema, files = Path(table.path, "schema", "schema-0"), sorted(Path(table.path).rglob("*"))
    written = schema.read_bytes()
    schema.write_text(json.dumps({**json.loads(written), "partitionKeys": keys}))
    with pytest.raises(CorruptError, match=r"another number of partition columns than its schema.*schema-0, found=1"):
        catalog.table("db.t").write_arrow(rows)
    schema.write_bytes(written)
    assert [path for path in sorted(Path(table.path).rglob("*")) if path.is_file()] == [p for p in files if p.is_file()]
    catalog.table("db.t").write_arrow(rows)
    assert catalog.table("db.t").to_arrow().num_rows == 4
