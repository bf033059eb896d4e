"""Watermarks and computed columns that Flink declares: changes here leave tables that Flink opens."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.peers.flink import FlinkPaimon

import bucketlake
from bucketlake.errors import AlreadyExistsError, UnsupportedError
from bucketlake.schema.change import AddColumn, DropColumn, RemoveOption, RenameColumn, SchemaChange
from bucketlake.types.model import INT

pytestmark = pytest.mark.peer

REFUSED: tuple[tuple[str, SchemaChange, type[Exception]], ...] = (
    ("w", RenameColumn("ts", "at"), UnsupportedError),
    ("w", DropColumn("ts"), UnsupportedError),
    ("c", RenameColumn("v", "value"), UnsupportedError),
    ("c", DropColumn("v"), UnsupportedError),
    ("c", AddColumn("sum", INT), AlreadyExistsError),
    ("c", RenameColumn("k", "sum"), AlreadyExistsError),
)


def test_what_flink_declares_is_kept(flink: FlinkPaimon, tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    flink.use(catalog.warehouse)
    flink.sql("CREATE TABLE w (k INT, ts TIMESTAMP(3), o INT, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)")
    flink.sql("CREATE TABLE c (k INT, v INT, `sum` AS v + 1)")
    for name, change, error in REFUSED:
        with pytest.raises(error, match=r"schema\."):
            catalog.table(name).alter(change)
    catalog.table("w").alter(RenameColumn("o", "other"), AddColumn("n", INT))
    catalog.table("c").alter(AddColumn("n", INT), RenameColumn("k", "key"))
    flink.sql("INSERT INTO w VALUES (1, TIMESTAMP '2024-01-01 00:00:00', 2, 3)")
    flink.sql("INSERT INTO c VALUES (1, 2, 3)")
    assert flink.sql("SELECT k, other, n FROM w").rows == [(1, 2, 3)]
    assert flink.sql("SELECT `key`, v, n, `sum` FROM c").rows == [(1, 2, 3, 3)]
    declared = [key for key in catalog.table("w").schema.options if key.startswith("schema.")]
    catalog.table("w").alter(*map(RemoveOption, declared), RenameColumn("ts", "at"))
    assert flink.sql("SELECT COUNT(`at`) FROM w").scalar() == 1
