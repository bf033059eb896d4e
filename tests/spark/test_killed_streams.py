"""Drivers of streaming queries that die, at any change of a file or at any time, by signals, with their JVM or their
Python workers: started again, each row is there once, and changes are told once and in order."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from tests import quick
from tests.profile import SOAK, seeds
from tests.sim.stream_job import replayed
from tests.spark.stream_driver import KINDS, WRONG, lines_of, prepare

import bucketlake
from bucketlake.errors import InvalidError
from bucketlake.ops.check.fault import LEVELS
from bucketlake.ops.check.fsck import FsckRequest, fsck
from bucketlake.spark.stream.checkpoint import Checkpoint

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LIVES = 6 if SOAK else 3
FILES = 40 if SOAK else 20


def lived(folder: Path, job: dict[str, Any]) -> int:
    """How a life of the driver ended."""
    for checkpoint in folder.glob("checkpoint-*"):
        try:
            Checkpoint(str(checkpoint)).check()
        except InvalidError as error:  # the life before died as it noted its first batch
            for name in error.details["files"]:
                (checkpoint / name).unlink()
    environment = {**quick.environment(folder / "conf"), "PYTHONPATH": os.pathsep.join(sys.path)}
    with (folder / "conf" / "spark-defaults.conf").open("a") as defaults:
        defaults.write("spark.master local[2]\nspark.python.authenticate.socketTimeout 300s\n")
    place = folder / "cwd"
    place.mkdir(exist_ok=True)
    with (folder / "told").open("ab") as told:
        told.write(f"---- {job}\n".encode())
        told.flush()
        command = [sys.executable, "-m", "tests.spark.stream_driver", json.dumps({"root": str(folder), **job})]
        return subprocess.run(command, cwd=place, env=environment, stdout=told, stderr=told, check=False).returncode


@pytest.mark.parametrize("seed", seeds(1, 35))
def test_each_row_once_whatever_dies(tmp_path: Path, seed: int) -> None:
    chance, kind = random.Random(f"streams {seed}"), list(KINDS)[seed % len(KINDS)]
    prepare(tmp_path, kind)
    job = {"kind": kind, "seed": seed, "files": FILES, "last": False}
    for _ in range(LIVES):
        whom = chance.choice(["KILL", "KILL", "KILL", "TERM", "INT", "jvm", "workers"])
        die: dict[str, Any] = {"whom": whom}
        if chance.random() < 0.6:
            die["at"] = 60 + int(chance.expovariate(1 / 150))
        else:
            die["steps"] = 1 + int(chance.expovariate(1 / 12))
        # Without workers the driver goes on: it ends where all is through.
        last = whom == "workers"
        ended = lived(tmp_path, {**job, "die": die, "jobs": chance.random() < 0.5, "last": last})
        assert ended != WRONG, said(tmp_path, seed)
        assert whom not in ("KILL", "TERM") or ended == -signal.Signals[f"SIG{whom}"], said(tmp_path, seed)
    assert lived(tmp_path, {**job, "die": None, "jobs": False, "last": True}) == 0, said(tmp_path, seed)
    check(tmp_path, kind, seed)


def said(folder: Path, seed: int) -> str:
    return f"seed {seed}\n{(folder / 'told').read_text()[-4000:]}"


def check(folder: Path, kind: str, seed: int) -> None:
    rows = [row for number in range(FILES) for row in lines_of(seed, number)]
    sums: dict[int, int] = defaultdict(int)
    for _, key, value in rows:
        sums[key] += value
    last = {key: (number, value) for number, key, value in rows}
    catalog = bucketlake.open(str(folder / "warehouse"))

    def found(name: str, *columns: str) -> list[tuple[Any, ...]]:
        return sorted(tuple(row.values()) for row in catalog.table(name).to_arrow(columns=columns).to_pylist())

    assert found("db.events", "n", "k", "v") == rows, f"seed {seed}"
    assert found("db.sums", "k", "v") == sorted(sums.items()), f"seed {seed}"
    for name in ("db.state", "db.merged"):
        assert found(name, "k", "n", "v") == sorted((key, *pair) for key, pair in last.items()), f"{name}, seed {seed}"
    log = sorted(catalog.table("db.log").to_arrow().to_pylist(), key=lambda row: (row["batch"], row["place"]))
    told = [(row["kind"], row["k"], row["n"]) for row in log]
    exact = "changelog-producer" in KINDS[kind]
    assert replayed(told, exact) == {key: number for key, (number, _) in last.items()}, f"seed {seed}: {told}"
    for name in catalog.tables("db"):
        assert not fsck(catalog.table(name).store, FsckRequest(level=LEVELS[-1])).errors, name
