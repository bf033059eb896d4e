"""Files that come to a level for the second time, after a rollback: Paimon, where it merges all manifests, forgets a file
that one of them deletes, also where a later one adds it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import bucketlake
from bucketlake import Table
from bucketlake.format.metadata.manifest import FileKind, ManifestEntry
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.table.entries import entry_key
from bucketlake.ops.table.store import clear_cache

SCHEMA = pa.schema([("p", pa.int32()), ("k", pa.int32()), ("v", pa.int32())])


def live(table: Table) -> list[ManifestEntry]:
    newest = table.store.latest_snapshot()
    assert newest is not None
    return live_entries(table.store, newest)


def forgotten(table: Table) -> list[str]:
    """Live files that a manifest of the newest snapshot deletes."""
    newest = table.store.latest_snapshot()
    assert newest is not None
    told = [entry for part in table.store.manifests(table.store.data_manifests(newest)) for entry in part]
    deleted = {entry_key(entry) for entry in told if entry.kind == FileKind.DELETE}
    return [entry.file.file_name for entry in live(table) if entry_key(entry) in deleted]


@pytest.mark.parametrize("parts", [[], ["p"]])
@pytest.mark.parametrize("between", [0, 2])
def test_a_file_that_is_moved_up_again_is_not_forgotten(tmp_path: Path, parts: list[str], between: int) -> None:
    options = {"bucket": "1", "write-only": "true", "deletion-vectors.enabled": "true"}
    table = bucketlake.open(tmp_path).create_table("t", SCHEMA, parts, [*parts, "k"], options)
    table.write_arrow(pa.table([[1, 1], [1, 2], [1, 2]], schema=SCHEMA))
    busy = table.with_options({"write-only": "false"})
    busy.compact(full=True)
    (up,) = live(table.refresh())
    table.refresh().rollback_to_as_latest(1)
    for number in range(between):
        table.refresh().write_arrow(pa.table([[2], [7 + number], [7]], schema=SCHEMA))
    busy.refresh().compact(full=True)
    clear_cache()
    table = table.refresh()
    if parts or not between:  # else it was merged with others
        assert entry_key(up) in map(entry_key, live(table))
    assert not forgotten(table)
    rows = table.to_arrow().sort_by("k").column("k").to_pylist()
    table.compact_manifests()
    assert table.refresh().to_arrow().sort_by("k").column("k").to_pylist() == rows == [1, 2, 7, 8][: 2 + between]
    assert not table.fsck("rows").errors
