"""Streams between Bucketlake and Apache Paimon on Flink: what batches of one write, a streaming read of the other tells,
while both compact and snapshots expire."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.peers.flink import FlinkPaimon, Result
from tests.sim.stream_job import replayed, write_batch

import bucketlake
from bucketlake import Table
from bucketlake.ops.scan.system_tables import RowView, read_view
from bucketlake.ops.stream.batches import BatchName
from bucketlake.ops.stream.position import Position
from bucketlake.ops.stream.source import Source

pytestmark = pytest.mark.peer

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
FEW = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "3", "num-sorted-run.compaction-trigger": "2"}
BATCHES = 6


def made(folder: Path, name: str, options: dict[str, str]) -> Table:
    catalog = bucketlake.open(str(folder))
    return catalog.create_table(f"default.{name}", SCHEMA, primary_keys=["k"], options={**FEW, **options})


def test_flink_follows_batches_of_ours_while_snapshots_expire(flink: FlinkPaimon, tmp_path: Path) -> None:
    flink.use(tmp_path)
    table = made(tmp_path, "ours", {"bucket": "2", "changelog-producer": "lookup"})
    write_batch(table, pa.table({"k": [0, 1], "v": [0, 0]}, schema=SCHEMA), BatchName("q", 0))
    table.store.env.storage.write(table.store.paths.consumer("flink"), b'{"nextSnapshot": 1}')  # holds what it needs
    hint = "/*+ OPTIONS('consumer-id'='flink', 'consumer.expiration-time'='1 h', 'continuous.discovery-interval'='50 ms') */"
    told: list[Result] = []
    expected = 2 + 3 * (BATCHES - 1)
    reader = threading.Thread(
        target=lambda: told.append(flink.collect(f"SELECT * FROM ours {hint}", expected, timeout=120))
    )
    reader.start()
    for number in range(1, BATCHES):
        for _ in range(2):  # each batch comes twice
            rows = pa.table({"k": [number, number + 1], "v": [number, number]}, schema=SCHEMA)
            write_batch(table, rows, BatchName("q", number))
    reader.join()
    assert len(told) == 1 and len(told[0].rows) == expected
    changes = [(kind, *row) for kind, row in zip(told[0].kinds, told[0].rows, strict=True)]
    assert replayed(changes, exact=True) == {row["k"]: row["v"] for row in table.to_arrow().to_pylist()}
    table.clear_consumers()
    table.expire_snapshots()
    assert len(table.snapshots()) <= 3, "only the consumer kept what Flink had to read"


def test_a_stream_of_ours_follows_flink_while_both_compact(flink: FlinkPaimon, tmp_path: Path) -> None:
    flink.use(tmp_path)
    table = made(tmp_path, "theirs", {"bucket": "2", "changelog-producer": "lookup"}).with_options({"consumer-id": "c"})
    told: list[tuple[Any, ...]] = []
    at = json.dumps(Source.of(table.store).origin().as_offset())

    def follow() -> str:
        source, start = Source.of(table.store), Position.of(json.loads(at))
        end = source.following(start)
        for group in source.batch(start, end):
            for split in group:
                for batch in read_view(table.store, RowView("audit_log"), split):
                    told.extend(tuple(row.values()) for row in batch.to_pylist())
        source.progress(end)
        return json.dumps(end.as_offset())

    for number in range(3):
        flink.sql(f"INSERT INTO theirs VALUES ({number}, {number}), ({number + 1}, {number})")
        at = follow() if number % 2 else at
        table.compact()
        table.expire_snapshots(retain_min=1, retain_max=1, older_than="2100-01-01")
    at = follow()
    held = {row["k"]: row["v"] for row in table.to_arrow().to_pylist()}
    assert replayed(told, exact=True) == held == {0: 0, 1: 1, 2: 2, 3: 2}
    assert len(told) == 2 + 3 + 3
