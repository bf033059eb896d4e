"""Streams that start at a time, where what was there then has expired."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bucketlake.ops.table.store import clear_cache

from .streams import Reader, make, rows_of


@pytest.mark.parametrize("decoupled", [True, False])
def test_a_time_before_the_earliest_snapshot(tmp_path: Path, decoupled: bool) -> None:
    """What changelogs tell that outlive their snapshots is told; else files since that time are those of the start."""
    keep = {"changelog.num-retained.max": "9", "changelog.num-retained.min": "9"} if decoupled else {}
    table = make(tmp_path, True, {"bucket": "1", "changelog-producer": "input", "write-only": "true", **keep})
    for key in range(4):
        table.write_arrow(rows_of(table, k=key, v=0))
    times = [snapshot.time_millis for snapshot in table.refresh().snapshots()]
    for number, made in enumerate(sorted(times)):  # whole seconds apart
        path = Path(table.store.paths.snapshot(number + 1))
        path.write_text(path.read_text().replace(str(made), str(1000 + 1000 * number)))
    clear_cache()
    table.expire_snapshots(retain_max=1, retain_min=1)

    def told(**options: Any) -> list[int]:
        reader = Reader(table.refresh(), **options)
        reader.read_all()
        return sorted(key for _, key, _ in reader.told)

    def since(millis: int) -> list[int]:
        return told(scan_mode="from-creation-timestamp", scan_creation_time_millis=millis)

    assert told(scan_timestamp_millis=4000) == [3] and since(5000) == []
    if decoupled:
        stands = {"scan_snapshot_id": 1, "read_stream_ignore_expired": "true"}
        assert told(scan_timestamp_millis=0) == told(scan_timestamp_millis=1000) == [0, 1, 2, 3]
        assert told(scan_timestamp_millis=1001) == since(2000) == [1, 2, 3]
        assert since(2001) == [2, 3]
        table.with_options(changelog_num_retained_min=1, changelog_num_retained_max=2).expire_changelogs()
        assert told(**stands) == [2, 3]
    else:
        assert told(scan_timestamp_millis=0) == [3]
        assert since(0) == since(4000) == [0, 1, 2, 3]  # made since then, if all by another clock
