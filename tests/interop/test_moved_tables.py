"""Tables that were migrated, cloned and rewritten here, read and written by Apache Paimon on Flink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.ops.test_clone import SCHEMA, batch
from tests.ops.test_migrate import PT, put, rows
from tests.peers.flink import FlinkPaimon

import bucketlake
from bucketlake import Table
from bucketlake.ops.table.store import clear_cache

pytestmark = pytest.mark.peer


def theirs(flink: FlinkPaimon, name: str, where: str = "") -> list[tuple[Any, ...]]:
    return sorted(flink.sql(f"SELECT * FROM `{name}` {where}").rows, key=repr)


def ours(table: Table, where: str | None = None) -> list[tuple[Any, ...]]:
    clear_cache()
    return sorted((tuple(row.values()) for row in table.to_arrow(where=where).to_pylist()), key=repr)


@pytest.mark.slow
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_a_migrated_table(flink: FlinkPaimon, tmp_path: Path, file_format: str) -> None:
    catalog = bucketlake.open(tmp_path / "wh")
    folder = tmp_path / "hive"
    put(folder / "pt=1" / "000000_0", rows(0, 10), file_format)
    put(folder / "pt=__HIVE_DEFAULT_PARTITION__" / "000000_0", rows(10, 20), file_format)
    name = f"m_{file_format}"
    catalog.migrate_folder(str(folder), f"default.{name}", file_format, PT)
    table = catalog.table(f"default.{name}")
    flink.use(catalog.warehouse)
    assert theirs(flink, name) == ours(table)
    assert theirs(flink, name, "WHERE pt = 1 AND id > 5") == ours(table, "pt = 1 AND id > 5")
    assert len(theirs(flink, name, "WHERE pt IS NULL")) == 10
    flink.sql(f"INSERT INTO `{name}` VALUES (CAST(99 AS BIGINT), 'x', CAST(NULL AS INT))")
    assert theirs(flink, name) == ours(table)
    assert len(ours(table, "pt IS NULL")) == 11


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["vectors", "dynamic"])
def test_a_clone_and_what_was_rewritten(flink: FlinkPaimon, tmp_path: Path, kind: str) -> None:
    catalog = bucketlake.open(tmp_path / "wh")
    options = {"vectors": {"bucket": "2", "deletion-vectors.enabled": "true"}, "dynamic": {"bucket": "-1"}}[kind]
    source = catalog.create_table(f"default.s_{kind}", SCHEMA, ["p"], ["p", "k"], options)
    source.write_arrow(batch(0, 30))
    source.write_arrow(batch(20, 40, "y"))
    source.delete("k IN (5, 25)")
    catalog.clone_table(source, f"default.c_{kind}")
    clone = catalog.table(f"default.c_{kind}")
    clone.rewrite("p = 1", options={"file.format": "orc"})
    flink.use(catalog.warehouse)
    assert theirs(flink, f"c_{kind}") == ours(clone) == ours(source)
    value = "(0, CAST(28 AS BIGINT), 'flink'), (2, CAST(98 AS BIGINT), 'flink')"
    flink.sql(f"INSERT INTO `c_{kind}` VALUES {value}")
    assert theirs(flink, f"c_{kind}") == ours(clone)
    assert {row[2] for row in ours(clone) if row[1] in (28, 98)} == {"flink"}
    assert theirs(flink, f"s_{kind}") == ours(source)
