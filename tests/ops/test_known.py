"""Columns that come while a handle is open, or while it rewrites rows: no value of theirs is lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from tests.profile import SOAK
from tests.sim.clock import FakeClock
from tests.sim.storage import FaultStorage, MapStorage
from tests.sim.tables import ROOT, create_table

from bucketlake.env.env import Env
from bucketlake.errors import ConflictError, InvalidError
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.change import AddColumn
from bucketlake.schema.versions import create_schema
from bucketlake.table import Table, open_table
from bucketlake.types.model import BIGINT, INT, DataField, arrow_schema

FIELDS = (
    DataField(0, "pt", INT.with_nullable(False)),
    DataField(1, "k", BIGINT.with_nullable(False)),
    DataField(2, "v", INT),
)
ROWS = arrow_schema(FIELDS)
WIDER = ROWS.append(pa.field("z", pa.int64()))
QUIET = {"scan.manifest.parallelism": "1", "file-operation.thread-num": "1", "compaction.min.file-num": "2"}
TRACKED = {"row-tracking.enabled": "true"}
EVOLVING = {**TRACKED, "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"}
KINDS: dict[str, tuple[int, tuple[str, ...], Mapping[str, str]]] = {
    "append": (-1, (), {}),
    "append, vectors": (-1, (), {"deletion-vectors.enabled": "true"}),
    "append, buckets": (1, (), {"bucket-key": "k"}),
    "append, tracked": (-1, (), TRACKED),
    "append, evolving": (-1, (), EVOLVING),
    "keyed": (1, ("pt", "k"), {}),
    "keyed, vectors": (1, ("pt", "k"), {"deletion-vectors.enabled": "true"}),
    "keyed, dynamic": (-1, ("pt", "k"), {}),
    "keyed, across": (-1, ("k",), {}),
}
ACTIONS: dict[str, Callable[[Table], Any]] = {
    "compact": lambda t: t.compact(full=True),
    "update": lambda t: t.update({"v": 7}, "k <= 2"),
    "sort": lambda t: t.compact(order_by="v"),
    "rescale": lambda t: t.rescale(2),
    "rewrite": lambda t: t.rewrite(every=True),
    "write": lambda t: put(t, [50]),
}
TAKES = {"sort": ("append", "append, tracked", "keyed, dynamic"), "rescale": ("keyed", "keyed, vectors")}
CASES = [
    (kind, action)
    for kind in KINDS
    for action in ACTIONS
    if kind in TAKES.get(action, KINDS) and (kind, action) != ("append, evolving", "rewrite")
]


def put(table: Table, keys: list[int], **more: list[int]) -> None:
    columns = {"pt": [1] * len(keys), "k": keys, "v": keys, **more}
    table.write_arrow(pa.table(columns, schema=WIDER if more else ROWS))


def through(storage: Any, seed: int) -> Table:
    clear_cache()
    return open_table(ROOT, Env(storage, FakeClock(seed)))


def base(kind: str) -> MapStorage:
    bucket, keys, options = KINDS[kind]
    storage = MapStorage()
    schema = create_schema(FIELDS, ("pt",), keys, {"bucket": str(bucket), **QUIET, **options})
    create_table(storage, FakeClock(), schema)
    for seed, some in ((1, [1, 2]), (2, [3, 4])):
        put(through(storage, seed), some)
    return storage


def widened(storage: Any, kind: str) -> dict[int, int]:
    """Another process adds a column, and rows with it; their values of it by key."""
    through(storage, 5).alter(AddColumn(("z",), BIGINT))
    keys = [1, 5] if KINDS[kind][1] else [11, 15]
    with suppress(InvalidError):  # the bucket number is another one already
        put(through(storage, 6), keys, z=[10, 30])
        return dict(zip(keys, (10, 30), strict=True))
    return {}


def check(storage: Any, wanted: Mapping[int, int]) -> None:
    found = through(storage, 9).to_arrow().to_pylist()
    assert len({row["k"] for row in found}) == len(found)
    assert {row["k"]: row["z"] for row in found if row["k"] in wanted} == wanted, found


@pytest.mark.parametrize(("kind", "action"), CASES)
def test_a_handle_that_was_opened_before(kind: str, action: str) -> None:
    storage = base(kind)
    table = through(storage, 3)
    wanted = widened(storage, kind)
    ACTIONS[action](table)
    check(storage, wanted)


@pytest.mark.parametrize(
    ("kind", "action"), [("append", "update"), ("keyed", "update"), ("keyed", "rescale"), *CASES][: None if SOAK else 3]
)
def test_columns_that_come_in_the_midst(kind: str, action: str) -> None:
    files, at, calls = base(kind).files, 0, 1
    while at < calls:
        inner = MapStorage()
        inner.files = dict(files)
        storage, wanted = FaultStorage(inner), dict[int, int]()
        table = through(storage, 3)
        storage.calls.clear()

        def plan(k: int, operation: str, path: str, at: int = at, to: Any = inner, found: Any = wanted) -> None:
            if k == at:
                found.update(widened(to, kind))

        storage.plan = plan
        with suppress(ConflictError):
            ACTIONS[action](table)
        calls = len(storage.calls)
        check(inner, wanted)
        at += 1 if SOAK else 5
