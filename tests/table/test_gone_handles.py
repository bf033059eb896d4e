"""A handle of a table that was dropped says so, whatever it is asked: a table that is gone is no table without tags,
branches, files or work to do. What is made anew in its place is another table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.errors import ConflictError, NotFoundError
from bucketlake.ops.commit import draft
from bucketlake.table import Table

SCHEMA = pa.schema([pa.field("pt", pa.int32(), False), pa.field("k", pa.int64(), False), pa.field("v", pa.int64())])
CALLS: dict[str, Callable[[Table], Any]] = {
    "advise": Table.advise,
    "advise_buckets": Table.advise_buckets,
    "branches": Table.branches,
    "clear_consumers": Table.clear_consumers,
    "compact": Table.compact,
    "compact_manifests": Table.compact_manifests,
    "consumers": Table.consumers,
    "create_branch": lambda table: table.create_branch("b"),
    "create_tag": lambda table: table.create_tag("t"),
    "delete": lambda table: table.delete("k = 1"),
    "delete_branch": lambda table: table.delete_branch("b"),
    "delete_tag": lambda table: table.delete_tag("t"),
    "drop_partitions": lambda table: table.drop_partitions([{"pt": 1}]),
    "expire_changelogs": Table.expire_changelogs,
    "expire_partitions": lambda table: table.expire_partitions({"partition.expiration-time": "1 d"}),
    "expire_snapshots": Table.expire_snapshots,
    "expire_tags": Table.expire_tags,
    "fast_forward": lambda table: table.fast_forward("b"),
    "files": Table.files,
    "latest_snapshot": Table.latest_snapshot,
    "mark_partitions_done": lambda table: table.mark_partitions_done([{"pt": "1"}]),
    "partitions": Table.partitions,
    "purge": Table.purge,
    "remove_unexisting_files": Table.remove_unexisting_files,
    "remove_unexisting_manifests": Table.remove_unexisting_manifests,
    "repair_earliest_snapshot": lambda table: table.repair_earliest_snapshot(1),
    "rescale": lambda table: table.rescale(2),
    "reset_consumer": lambda table: table.reset_consumer("c", 1),
    "rewrite": Table.rewrite,
    "rewrite_file_index": Table.rewrite_file_index,
    "rollback_to": lambda table: table.rollback_to(1),
    "snapshots": Table.snapshots,
    "tags": Table.tags,
    "to_arrow": Table.to_arrow,
    "trigger_tag_automatic_creation": Table.trigger_tag_automatic_creation,
    "truncate": Table.truncate,
    "update": lambda table: table.update({"v": 1}),
    "usage": Table.usage,
}


def made(catalog: Catalog) -> Table:
    table = catalog.create_table("d.t", SCHEMA, ["pt"], ["pt", "k"], {"bucket": "1"})
    table.write_arrow(pa.table([[1], [1], [1]], schema=SCHEMA))
    return table


@pytest.mark.parametrize("call", CALLS)
def test_a_table_that_was_dropped_is_not_an_empty_one(tmp_path: Path, call: str) -> None:
    catalog = bucketlake.open(tmp_path)
    catalog.create_database("d")
    table = made(catalog)
    catalog.drop_table("d.t")
    with pytest.raises(NotFoundError, match="dropped or renamed since"):
        CALLS[call](table)
    assert not (tmp_path / "d.db" / "t").exists()
    made(catalog)
    schema = json.loads((place := tmp_path / "d.db" / "t" / "schema" / "schema-0").read_bytes())
    place.write_text(json.dumps({**schema, "timeMillis": schema["timeMillis"] + 1000}))
    if call not in ("latest_snapshot", "snapshots"):  # which list what lies there
        with pytest.raises(ConflictError, match="another table lies here"):
            CALLS[call](table)
    assert [snapshot.id for snapshot in catalog.table("d.t").snapshots()] == [1]


def test_a_first_write_whose_table_is_renamed_meanwhile_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = bucketlake.open(tmp_path)
    table = catalog.create_table("t", SCHEMA)
    write_files = draft.write_files

    def renamed(*given: Any) -> None:
        monkeypatch.undo()
        catalog.rename_table("t", "u")
        write_files(*given)

    monkeypatch.setattr(draft, "write_files", renamed)
    with pytest.raises(NotFoundError, match="no such table.*/t.*dropped or renamed since"):
        table.write_arrow(pa.table([[1], [1], [1]], schema=SCHEMA))
    assert catalog.list_tables() == ["u"] and catalog.table("u").snapshots() == []
