"""Change data into tables of a store that lists for a while what is gone: every event is in its table once, while snapshots
expire with each batch, batches come again, and each is of a process of its own."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.profile import SOAK, seeds

import bucketlake
from bucketlake.cdc.sink import CdcSink
from bucketlake.env.storage import FileInfo
from bucketlake.ops.table.store import clear_cache
from bucketlake.spark.session import Lake
from bucketlake.spark.stream.checkpoint import Query

from .feeds import Feed, debezium

MOST = 40  # calls that a LIST may be late
FIELDS = [["id", "int32"], ["v", "int32"]]
FEW = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"}


class LateDriver:
    """Files on a disk, of which what is gone is listed for so many calls; what goes to tasks is the storage as it is."""

    def __init__(self, inner: Any, seed: int) -> None:
        self.inner, self.chance = inner, random.Random(f"late {seed}")
        self.calls, self.late = 0, 0
        self.gone: dict[str, tuple[int, FileInfo]] = {}

    def __reduce__(self) -> Any:
        return copy.copy, (self.inner,)  # what tasks can import

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def delete(self, path: str) -> None:
        there = self.inner.info(path)
        self.inner.delete(path)
        if there is not None and not there.is_dir:
            self.gone[path] = self.calls + self.chance.randrange(MOST), there

    def delete_all(self, paths: Any) -> int:
        for path in paths:
            self.delete(path)
        return len(paths)

    def list(self, path: str) -> list[FileInfo]:
        found = {info.path: info for info in self.inner.list(path)}
        return list(self._with(found, lambda name: name.rpartition("/")[0] == path.rstrip("/")).values())

    def walk(self, path: str) -> Iterator[FileInfo]:
        found = {info.path: info for info in self.inner.walk(path)}
        return iter(self._with(found, lambda name: name.startswith(path.rstrip("/") + "/")).values())

    def _with(self, found: dict[str, FileInfo], below: Any) -> dict[str, FileInfo]:
        self.calls += 1
        self.gone = {path: one for path, one in self.gone.items() if one[0] > self.calls}
        for path, (_, info) in self.gone.items():
            if below(path) and path not in found:
                found[path] = info
                self.late += 1
        return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2, 12))
def test_every_event_is_there_once(classic: Lake, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    feed = Feed(classic, "debezium-json", "db", tmp_path, table_options=FEW)
    real = feed.job.catalog.env.storage
    late = LateDriver(real, seed)
    model: dict[int, int] = {}
    log: list[int] = []
    for number in range(14 if SOAK else 8):
        events = []
        for _ in range(chance.randint(1, 6)):
            key, value = chance.randrange(6), chance.randrange(100)
            if chance.random() < 0.3:
                events.append(debezium("c", None, {"n": value}, "log", [["n", "int32"]]))
                log.append(value)
            elif key in model and chance.random() < 0.3:
                events.append(debezium("d", {"id": key, "v": model.pop(key)}, None, "a", FIELDS, pkNames=["id"]))
            else:
                before = {"id": key, "v": model[key]} if key in model else None
                row = {"id": key, "v": value}
                events.append(debezium("u" if before else "c", before, row, "a", FIELDS, pkNames=["id"]))
                model[key] = value
        frame = feed.frame(events)
        for _ in range(chance.choice([1, 1, 2])):  # the batch comes again
            clear_cache()
            catalog = bucketlake.open(str(classic.catalog.warehouse))
            job = replace(feed.job, catalog=replace(catalog, env=replace(catalog.env, storage=late)))
            CdcSink(job, Query("feed", str(feed.checkpoint)))(frame, number)
        if chance.random() < 0.4:
            for name in classic.catalog.tables("db"):
                table = replace(catalog, env=replace(catalog.env, storage=late)).table(name)
                table.expire_snapshots(retain_max=1, retain_min=1)
        clear_cache()
        plain = bucketlake.open(str(classic.catalog.warehouse))
        tables = plain.tables("db")
        if "db.a" in tables:
            found = [(row["id"], row["v"]) for row in plain.table("db.a").to_arrow().to_pylist()]
            assert sorted(found) == sorted(model.items()), number
        if "db.log" in tables:
            assert sorted(plain.table("db.log").to_arrow().column("n").to_pylist()) == sorted(log), number
    assert late.late
