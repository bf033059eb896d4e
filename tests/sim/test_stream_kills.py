"""Whole processes that die: a job streams rows into a table, from it into another and the changes of that into a log, is
killed at random places and started again. In the end each row is there once, for every way in which a table tells its
changes and every bucket mode."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.profile import SOAK, seeds
from tests.sim.stream_job import CASES, Case, replayed, rows_of_feed

import bucketlake

BATCHES = 6 if SOAK else 4
LIVES = 12 if SOAK else 4  # that are killed
DEATHS = (-signal.SIGKILL, -signal.SIGPROF)


class Server:
    """The process that jobs are forked from."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.sim.stream_job"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, **job: Any) -> int:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return int(json.loads(self.process.stdout.readline()))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    served = Server()
    yield served
    assert served.process.stdin is not None
    served.process.stdin.close()
    served.process.wait(120)


@pytest.mark.parametrize("seed", seeds(6, 200))
def test_each_row_once_at_the_end_of_the_streams(server: Server, seed: int, tmp_path: Path) -> None:
    chance = random.Random(f"kills {seed}")
    name = list(CASES)[seed % len(CASES)]
    job = {"root": str(tmp_path / "job"), "case": name, "seed": seed, "batches": BATCHES}
    for life in range(LIVES):
        place = death(chance)
        ended = server.run(**job, **place, twice=chance.random() < 0.15)
        assert ended == 0 or ended in DEATHS, (seed, life, place, _error(tmp_path))
        if ended == 0 and life > 1:
            break
    assert server.run(**job) == 0, (seed, _error(tmp_path))
    check(tmp_path / "job", CASES[name], seed)


def death(chance: random.Random) -> dict[str, Any]:
    """Where a process dies: after some time, before some change of a file, or soon after some snapshot was published,
    when it is not known to the query yet."""
    kind = chance.random()
    if kind < 0.25:
        return {"seconds": round(chance.uniform(0.02, 0.4), 3)}
    if kind < 0.5:
        return {"at": int(chance.expovariate(1 / 60))}
    return {"at": int(chance.expovariate(1 / 4)), "published": chance.randint(1, 6)}


def _error(folder: Path) -> str:
    found = folder / "job.error"
    return found.read_text() if found.exists() else ""


def check(root: Path, case: Case, seed: int) -> None:
    _, state, put = rows_of_feed(case, seed, BATCHES)
    catalog = bucketlake.open(str(root / "warehouse"))
    expected = sorted(state.items() if case.keyed else put)
    for table in ("source", "copy"):
        found = catalog.table(f"db.{table}").to_arrow(columns=["k", "v"]).to_pylist()
        assert sorted((row["k"], row["v"]) for row in found) == expected, f"{table}, seed {seed}"
    log = catalog.table("db.log").to_arrow().sort_by([("batch", "ascending"), ("place", "ascending")]).to_pylist()
    told = [(row["kind"], row["k"], row["v"]) for row in log]
    if not case.keyed:
        assert sorted(told) == sorted(("+I", *row) for row in put), f"seed {seed}"
        return
    if case.partitioned:  # a key's rows in two partitions have no order
        assert len(set(told)) == len(told), f"seed {seed}: {told}"
        return
    assert replayed(told, case.producer != "none") == state, f"seed {seed}: {told}"
