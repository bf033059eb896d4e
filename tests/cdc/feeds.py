"""A synchronisation fed batch by batch, without a streaming query: a batch can be cut, given twice, or fail half-way."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bucketlake.cdc.sink import CdcSink, Job, SyncDone
from bucketlake.cdc.source import Source, kafka_shaped
from bucketlake.cdc.sync import How, HowDatabase, database_job, table_job
from bucketlake.spark.session import Lake
from bucketlake.spark.stream.checkpoint import Query

COLUMNS = "value string, key string, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"


class Feed:
    """Events of a topic, as batches of its lines."""

    def __init__(self, lake: Lake, format: str, target: str, folder: Path, registry: Any = None, **how: Any) -> None:
        self.lake, self.done, self.offset = lake, [], 0
        self.number = 0
        source = Source("kafka", format, "kafka t", registry=registry)
        self.checkpoint = folder / f"checkpoint-{target}-{format}"
        self.checkpoint.mkdir(parents=True, exist_ok=True)
        (self.checkpoint / "metadata").write_text(json.dumps({"id": f"query of {target}"}))
        told: list[SyncDone] = []
        self.told = told
        if "." in target:
            self.job: Job = table_job(lake, source, target, How(on_batch=told.append, **how))
        else:
            self.job = database_job(lake, source, target, HowDatabase(on_batch=told.append, **how))

    def sink(self) -> CdcSink:
        """A query that has just been started, again perhaps."""
        return CdcSink(self.job, Query("feed", str(self.checkpoint)))

    def frame(self, events: list[Any], partition: int = 0) -> Any:
        """Events as a batch of Kafka's; a pair is a key and a value."""
        rows = []
        for event in events:
            key, value = event if isinstance(event, tuple) else (None, event)
            text, named = (
                one if one is None or isinstance(one, (str, bytes)) else json.dumps(one) for one in (value, key)
            )
            rows.append((text, named, "t", partition, self.offset, None, 0))
            self.offset += 1
        columns = COLUMNS if self.job.registry is None else COLUMNS.replace("string", "binary", 2)
        return kafka_shaped(self.lake.spark.createDataFrame(rows, columns).repartition(3))

    def give(self, events: list[Any]) -> SyncDone:
        """The next batch."""
        self.sink()(self.frame(events), self.number)
        self.number += 1
        return self.told[-1]

    def rows(self, table: str, order: str = "1") -> list[tuple[Any, ...]]:
        """The table's rows, in order."""
        return [tuple(row) for row in self.lake.sql(f"SELECT * FROM {table} ORDER BY {order}").collect()]


def debezium(op: str, before: Any, after: Any, table: str = "t", fields: list[Any] | None = None, **more: Any) -> Any:
    """An event of debezium-json; with `fields`, lists of name, type and logical name, its schema stands beside it."""
    payload = {"op": op, "before": before, "after": after, "source": {"db": "shop", "table": table, "ts_ms": 5}, **more}
    if fields is None:
        return payload
    told = [
        {"field": name, "type": kind, "optional": True, **({"name": logical[0]} if logical else {}), **_more(logical)}
        for name, kind, *logical in fields
    ]
    image = [{"type": "struct", "field": name, "fields": told} for name in ("before", "after")]
    return {"schema": {"type": "struct", "fields": image}, "payload": payload}


def _more(logical: list[Any]) -> dict[str, Any]:
    return {"parameters": logical[1]} if len(logical) > 1 else {}


def begun_by(lake: Lake, folder: Path, first: list[Any]) -> tuple[Feed, Callable[[], Path]]:
    """A synchronisation after a first batch of these events; what makes a copy of all that it has written."""
    feed = Feed(lake, "debezium-json", "db", folder, table_options={"write-only": True})
    feed.give(first)
    original, made = Path(lake.catalog.warehouse), []

    def copied() -> Path:
        copy = folder / f"copy {len(made)}"
        made.append(copy)
        shutil.copytree(original, copy / "warehouse")
        shutil.copytree(feed.checkpoint, copy / "checkpoint")
        return copy

    return feed, copied
