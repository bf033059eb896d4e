"""What changes a table, interrupted (Ctrl-C), killed or failed at one call of the storage: its rows, and those of its tags
and branches, are as before or as after, nothing but orphans is left, and the next write works."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.profile import seeds
from tests.sim.clock import FakeClock
from tests.sim.storage import (
    FAIL_AFTER,
    FAIL_BEFORE,
    KILL_AFTER,
    KILL_BEFORE,
    FaultStorage,
    Killed,
    MapStorage,
    Raised,
    fault_at,
)

from bucketlake.catalog import Catalog
from bucketlake.env.env import Env
from bucketlake.errors import BucketlakeError, InvalidError, UnsupportedError
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.change import AddColumn, RenameColumn
from bucketlake.table import Table
from bucketlake.types.model import BIGINT

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64()), pa.field("p", pa.int32(), False)])
OPTIONS = {"scan.manifest.parallelism": "1", "snapshot.num-retained.min": "1"}
EVOLVING = {"data-evolution.enabled": "true", "deletion-vectors.enabled": "true"}
SUMMED = {"fields.v.aggregate-function": "sum", "aggregation.remove-record-on-delete": "true"}
KINDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "append": ([], {"bucket": "-1"}),
    "vectors": ([], {"bucket": "-1", "deletion-vectors.enabled": "true"}),
    "tracked": ([], {"row-tracking.enabled": "true"}),
    "keyed": (["k", "p"], {"bucket": "1", "write-only": "true"}),
    "lookup": (["k", "p"], {"bucket": "1", "changelog-producer": "lookup"}),
    "dynamic": (["k", "p"], {"bucket": "-1"}),
    "crossing": (["k"], {"bucket": "-1"}),
    "bucketed": ([], {"bucket": "2", "bucket-key": "k"}),
    "bucketed vectors": ([], {"bucket": "2", "bucket-key": "k", "deletion-vectors.enabled": "true"}),
    "evolving": ([], {"row-tracking.enabled": "true", **EVOLVING}),
    "summed": (["k", "p"], {"bucket": "2", "merge-engine": "aggregation", **SUMMED}),
    "full": (["k", "p"], {"bucket": "1", "changelog-producer": "full-compaction"}),
    "input": (["k", "p"], {"bucket": "1", "changelog-producer": "input", "changelog.num-retained.max": "50"}),
}
CHANGES: dict[str, Callable[[Catalog], Any]] = {
    "write": lambda c: c.table("t").write_arrow(rows_of([7, 8], 7)),
    "overwrite": lambda c: c.table("t").write_arrow(rows_of([7, 9], 7), mode="overwrite"),
    "delete": lambda c: c.table("t").delete("k >= 3"),
    "compact": lambda c: c.table("t").compact(full=True),
    "rollback as latest": lambda c: c.table("t").rollback_to_as_latest(2),
    "merge branch": lambda c: c.table("t").merge_branch("dev"),
    "tag": lambda c: c.table("t").create_tag("n", 2),
    "replace tag": lambda c: c.table("t").replace_tag("v1", 2),
    "rename tag": lambda c: c.table("t").rename_tag("v1", "w"),
    "add": lambda c: c.table("t").alter(AddColumn("w", BIGINT)),
    "rename column": lambda c: c.table("t").alter(RenameColumn("v", "w")),
    "expire": lambda c: c.table("t").expire_snapshots(retain_max=1, retain_min=1),
    "drop partition": lambda c: c.table("t").drop_partitions([{"p": "1"}]),
    "truncate": lambda c: c.table("t").truncate(),
    "manifests": lambda c: c.table("t").compact_manifests(),
    "rewrite": lambda c: c.table("t").rewrite(),
}
FAULTS = (Raised(KeyboardInterrupt), Raised(KeyboardInterrupt, True), KILL_BEFORE, KILL_AFTER, FAIL_BEFORE, FAIL_AFTER)
HINTS = ("hint-latest", "hint-earliest")  # they lag behind, as they may
CLOCKS = itertools.count(1)


def rows_of(keys: list[int], value: int) -> pa.Table:
    return pa.table({"k": keys, "v": [value] * len(keys), "p": [key % 2 for key in keys]}, schema=SCHEMA)


def through(storage: Any) -> Catalog:
    clear_cache()
    return Catalog(Env(storage, FakeClock(next(CLOCKS))), "memory://wh")


@cache
def made(kind: str) -> dict[str, bytes]:
    """A table with some snapshots, two tags and a branch of its own."""
    storage = MapStorage()
    keys, options = KINDS[kind]
    table = through(storage).create_table("t", SCHEMA, ["p"], keys, {**OPTIONS, **options})
    table.write_arrow(rows_of([1, 2, 3, 4], 1))
    table.write_arrow(rows_of([3, 4, 5] if keys else [5], 2))
    table.create_tag("v1", 1)
    table.create_branch("dev", "v1")
    table.with_options(branch="dev").write_arrow(rows_of([9], 3))
    table.delete("k = 2")
    table.create_tag("v2", 2)
    return storage.files


def copied(kind: str) -> MapStorage:
    storage = MapStorage()
    storage.files = dict(made(kind))
    return storage


def seen(table: Table) -> list[tuple[Any, ...]]:
    return sorted(zip(*(column.to_pylist() for column in table.to_arrow().columns[:3]), strict=True), key=repr)


def state(storage: MapStorage) -> dict[str, list[tuple[Any, ...]]]:
    """Rows of the table, its branches and its tags but those that keep files for a while."""
    table = through(storage).table("t")
    found = {"": seen(table)}
    found |= {f"branch {name}": seen(table.with_options(branch=name)) for name in table.branches()}
    named = [name for name in table.tags() if not name.startswith("rollback-")]
    return found | {f"tag {name}": seen(table.with_options({"scan.tag-name": name})) for name in named}


def faults(storage: MapStorage) -> list[str]:
    found = through(storage).table("t").fsck().findings
    return [str(one) for one in found if "orphan" not in one.code and one.code not in HINTS]


@pytest.mark.parametrize("seed", seeds(24, 5000))
def test_a_change_is_done_or_not(seed: int) -> None:
    chance = Random(seed)
    kind, name = chance.choice(list(KINDS)), chance.choice(list(CHANGES))
    change = CHANGES[name]
    plain = FaultStorage(copied(kind))
    try:
        change(through(plain))
    except (InvalidError, UnsupportedError):
        return  # not of this kind of table
    before, after = state(copied(kind)), state(plain.inner)
    writes = [
        k for k, (call, _) in enumerate(plain.calls) if call not in ("read", "read_ranges", "list", "info", "walk")
    ]
    for _ in range(6):
        call, fault = chance.choice(writes or [0]), chance.choice(FAULTS)
        storage = copied(kind)
        said = f"seed {seed}: {kind}, {name}, {fault} at call {call}: {plain.calls[call]}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what was given up behind a commit
            with suppress(KeyboardInterrupt, Killed, BucketlakeError):
                change(through(FaultStorage(storage, fault_at(call, fault))))
        now = state(storage)
        assert all(now.get(one) in (before.get(one), after.get(one)) for one in {*before, *after, *now}), said
        assert not faults(storage), said
        table = through(storage).table("t")
        table.write_arrow(rows_of([99], 99).select(["k", "p"]))
        assert Counter(seen(table)) == Counter([*now[""], (99, None, 1)]), said
