"""Chain tables that Bucketlake and Apache Paimon write and compact in turns: both read the same rows of the table and of
its branches after every step. In `make soak` 60 a kind; BUCKETLAKE_SEED is the first."""

from __future__ import annotations

import datetime as dt
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.interop.co_writing import World, arrow
from tests.peers.flink import FlinkPaimon
from tests.peers.rpc import PeerError
from tests.profile import SOAK, later, seeds

from bucketlake.errors import InvalidError
from bucketlake.ops.write.prepare import new_commit_user, prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.schema.change import SetOption
from bucketlake.schema.schema import KIND_FIELD
from bucketlake.types.model import BIGINT, STRING, DataField

pytestmark = pytest.mark.peer

FIRST = int(os.environ.get("BUCKETLAKE_SEED") or 0)
STEPS = 14 if SOAK else 8
MAIN, WHOLE, DELTA = "db.t", "db.t$branch_snapshot", "db.t$branch_delta"
HOURS_OF_ONE_COLUMN = {"partition.timestamp-pattern": "$dt", "partition.timestamp-formatter": "yyyyMMddHH"}
KINDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "daily": (["dt"], {"partition.timestamp-pattern": "$dt", "partition.timestamp-formatter": "yyyyMMdd"}),
    "hourly": (
        ["dt", "hour"],
        {
            "partition.timestamp-pattern": "$dt $hour:00:00",
            "partition.timestamp-formatter": "yyyyMMdd HH:mm:ss",
        },
    ),
    "groups": (
        ["region", "dt"],
        {
            "partition.timestamp-pattern": "$dt",
            "partition.timestamp-formatter": "yyyyMMdd",
            "chain-table.chain-partition-keys": "dt",
        },
    ),
}
ENGINES: list[dict[str, str]] = [
    {},
    {"deletion-vectors.enabled": "true"},
    {"changelog-producer": "input"},
    {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
]


class Both:
    """A chain table in the hands of both engines."""

    def __init__(self, folder: Path, flink: FlinkPaimon, kind: str, options: dict[str, str]) -> None:
        self.world = World(folder, flink)
        self.keys, own = KINDS[kind]
        names = [*((key, STRING) for key in self.keys), ("k", BIGINT), ("s", BIGINT), ("v", STRING)]
        keyed = (*self.keys, "k")
        self.fields = [
            DataField(at, name, kind.with_nullable(name not in keyed)) for at, (name, kind) in enumerate(names)
        ]
        every = {"chain-table.enabled": "true", "sequence.field": "s", "bucket-key": "k", **own, **options}
        catalog = self.catalog = self.world.catalog
        catalog.create_table(MAIN, self.fields, self.keys, keyed, every)
        for branch in ("snapshot", "delta"):
            catalog.table(MAIN).create_branch(branch)
        for name in (MAIN, WHOLE, DELTA):
            catalog.table(name).alter(*(SetOption(f"scan.fallback-{one}-branch", one) for one in ("snapshot", "delta")))

    def write(
        self, who: str, name: str, rows: Sequence[tuple[int, dict[str, Any]]], spec: dict[str, str] | None
    ) -> None:
        """Rows with their kinds; `spec`: the partition that they replace."""
        if who == "paimon":
            staged = self.world.stage(self.fields, rows)
            self.world.paimon("write", name=name, staged=staged, options={}, overwrite=spec, kinds=True)
            return
        table = self.catalog.table(name)
        if spec is not None:
            table.write_arrow(arrow(self.fields, rows, False), mode="overwrite", partition=spec)
            return
        store, user = table.store, new_commit_user(table.store)
        task = prepare_write(store, store.latest_snapshot(), commit_user=user)
        messages = write_batches(store, arrow(self.fields, rows, True).to_batches(), task, KIND_FIELD.name)
        table.compacted(table.commit(messages, user), messages)

    def compact(self, who: str, name: str) -> None:
        if who == "paimon":
            self.world.paimon("compact", name=name, options={}, full=True)
        else:
            self.catalog.table(name).compact()

    def agree(self) -> None:
        for name in (MAIN, WHOLE, DELTA):
            theirs = sorted(map(repr, self.world.read(name)[1]))
            ours = sorted(repr(tuple(row.values())) for row in self.catalog.table(name).to_arrow().to_pylist())
            assert ours == theirs, name


def some_partition(kind: str, chance: random.Random) -> dict[str, str]:
    if kind == "hourly":
        return {"dt": f"202508{chance.randint(9, 10):02}", "hour": f"{chance.randint(20, 23):02}"}
    day = {"dt": f"202508{chance.randint(9, 15):02}"}
    return day if kind == "daily" else {"region": chance.choice(["CN", "US"]), **day}


@pytest.mark.parametrize("kind", later([*KINDS], 1))
@pytest.mark.parametrize("seed", seeds(1, 60))
def test_both_write_one_chain(flink: FlinkPaimon, tmp_path: Path, kind: str, seed: int) -> None:
    chance = random.Random(f"chain {kind} {FIRST + seed}")
    both = Both(tmp_path, flink, kind, {"bucket": str(chance.randint(1, 3)), **chance.choice(ENGINES)})
    sequence = 0
    for step in range(STEPS):
        name = chance.choice([MAIN, WHOLE, WHOLE, WHOLE, DELTA, DELTA, DELTA, DELTA])
        who, spec, overwrites = chance.choice(["ours", "paimon"]), some_partition(kind, chance), chance.random() < 0.4
        rows: list[tuple[int, dict[str, Any]]] = []
        for key in chance.sample(range(8), chance.randint(1, 6)):
            sequence += chance.randint(0, 2)  # some are alike, of other branches too
            change = chance.choice([1, 3]) if name == DELTA and not overwrites and chance.random() < 0.25 else 0
            row = {**spec, "k": key, "s": sequence, "v": chance.choice([None, f"v{step}"])}
            rows.append((change, row))
        try:
            if chance.random() < 0.15:
                both.compact(who, name)
            else:
                both.write(who, name, rows, spec if overwrites else None)
        except (InvalidError, PeerError) as error:
            assert "Snapshot partition cannot be dropped" in str(error)
        both.agree()


@pytest.mark.parametrize("who", later(["ours", "paimon"], 1))
def test_both_compact_a_partition_into_the_snapshot_branch(flink: FlinkPaimon, tmp_path: Path, who: str) -> None:
    both = Both(tmp_path, flink, "groups", {"bucket": "2"})

    def row(region: str, day: str, key: int, sequence: int) -> tuple[int, dict[str, Any]]:
        return 0, {"region": region, "dt": day, "k": key, "s": sequence, "v": f"{day}"}

    def called(spec: str, overwrite: bool) -> None:
        if who == "paimon":
            flink.sql(f"CALL sys.compact_chain_table('{MAIN}', '{spec}', {overwrite})")
        else:
            columns = dict(pair.split("=") for pair in spec.split(","))
            both.catalog.table(MAIN).compact_chain(columns, overwrite)

    both.write("ours", WHOLE, [row("CN", "20250810", 1, 1), row("FR", "20250811", 9, 1)], None)
    both.write("paimon", DELTA, [row("CN", "20250811", 2, 1), row("US", "20250811", 3, 1)], None)
    before = both.world.read(MAIN)[1]
    called("region=CN,dt=20250811", False)
    both.agree()
    assert sorted(map(repr, both.world.read(MAIN)[1])) == sorted(map(repr, before))
    assert {"region": "CN", "dt": "20250811"} in both.catalog.table(WHOLE).partitions()
    both.write("ours", DELTA, [row("CN", "20250811", 1, 5)], None)
    called("dt=20250811", False)  # one of them is there: nothing is done
    assert {"region": "US", "dt": "20250811"} not in both.catalog.table(WHOLE).partitions()
    called("dt=20250811", True)
    both.agree()
    found = both.catalog.table(WHOLE).to_arrow(where="dt = '20250811'").to_pylist()
    assert sorted((one["region"], one["k"], one["s"]) for one in found) == [
        *(("CN", 1, 5), ("CN", 2, 1), ("FR", 9, 1), ("US", 3, 1))
    ]


def test_paimon_goes_by_days_where_one_column_chains(flink: FlinkPaimon, tmp_path: Path) -> None:
    """It takes other hours' deltas, or none. See docs/spec/chain_table.md#reading"""
    both = Both(tmp_path, flink, "daily", {"bucket": "1", **HOURS_OF_ONE_COLUMN})

    def row(hour: str, key: int) -> tuple[int, dict[str, Any]]:
        return 0, {"dt": hour, "k": key, "s": 1, "v": None}

    both.write("ours", WHOLE, [row("2025081020", 1)], None)
    both.write("ours", DELTA, [row("2025081021", 2), row("2025081022", 3), row("2025081101", 4)], None)
    found = both.catalog.table(MAIN).to_arrow(where="dt <> '2025081020'").to_pylist()
    ours = sorted((one["dt"], one["k"]) for one in found)
    assert ours == [("2025081021", key) for key in (1, 2)] + [("2025081022", key) for key in (1, 2, 3)] + [
        ("2025081101", key) for key in (1, 2, 3, 4)
    ]
    theirs = sorted(one[:2] for one in both.world.read(MAIN)[1] if one[0] != "2025081020")
    assert theirs != ours and ("2025081021", 4) in theirs and ("2025081101", 4) not in theirs


def test_both_expire_the_same_segments(flink: FlinkPaimon, tmp_path: Path) -> None:
    left: list[list[dict[str, str]]] = []
    for who in ("ours", "paimon"):
        both = Both(tmp_path / who, flink, "daily", {"bucket": "1", "partition.expiration-time": "30 d"})
        for name, ages in ((WHOLE, (90, 60, 20)), (DELTA, (95, 90, 80, 50, 10))):
            for age in ages:
                day = (dt.datetime.now() - dt.timedelta(days=age)).strftime("%Y%m%d")
                both.write("ours", name, [(0, {"dt": day, "k": age, "s": 1, "v": "x"})], None)
        if who == "paimon":
            flink.sql(f"CALL sys.expire_partitions(`table` => '{MAIN}', expiration_time => '30 d')")
        else:
            both.catalog.table(MAIN).expire_partitions()
        both.agree()
        left.append([*both.catalog.table(WHOLE).partitions(), {}, *both.catalog.table(DELTA).partitions()])
    assert left[0] == left[1] and len(left[0]) == 5
