"""Drivers that die: two work at one table, and at tables of their own; one of them is killed at random places again and
again, or its JVM, or its Python workers. What was answered is there, nothing is there in part, and each row that was
streamed came once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests import quick
from tests.profile import SOAK, seeds
from tests.spark.driver_job import KINDS, prepare

import bucketlake
from bucketlake.ops.check.fault import LEVELS
from bucketlake.ops.check.fsck import FsckRequest, fsck

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LIVES = 10 if SOAK else 3  # that are ended early
STATEMENTS = 40 if SOAK else 20
WRONG = 3  # the exit status of a process that found something else than it should


class Drivers:
    """The processes of one folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed, self.kind = folder, seed, list(KINDS)[seed % len(KINDS)]
        self.environment = {**quick.environment(folder / "conf"), "PYTHONPATH": os.pathsep.join(sys.path)}
        with (folder / "conf" / "spark-defaults.conf").open("a") as defaults:
            defaults.write("spark.master local[1]\nspark.python.authenticate.socketTimeout 300s\n")

    def start(
        self, number: int, life: int, statements: int, module: str = "driver_job", **more: Any
    ) -> subprocess.Popen[bytes]:
        job = {"root": str(self.folder), "number": number, "kind": self.kind, "seed": self.seed, "life": life}
        job |= {"statements": statements, "die": None, "jobs": False, "last": False, **more}
        place = self.folder / f"cwd-{number}"
        place.mkdir(exist_ok=True)
        with (self.folder / f"told-{number}").open("ab") as told:
            command = [sys.executable, "-m", f"tests.spark.{module}", json.dumps(job)]
            return subprocess.Popen(command, cwd=place, env=self.environment, stdout=told, stderr=told)

    def told(self, number: int) -> str:
        """The end of what a process said, and what it did last."""
        log = self.folder / f"log-{number}"
        done = "\n".join(log.read_text().splitlines()[-6:]) if log.exists() else ""
        return f"seed {self.seed}, {self.kind}\n{(self.folder / f'told-{number}').read_text()[-3000:]}\n{done}"


@pytest.mark.parametrize("seed", seeds(2, 44))
def test_what_was_answered_is_there(tmp_path: Path, seed: int) -> None:
    chance, drivers = random.Random(f"drivers {seed}"), Drivers(tmp_path, seed)
    prepare(tmp_path, drivers.kind)
    other = drivers.start(1, 0, 100_000, jobs=chance.random() < 0.3, last=True)
    try:
        for life in range(LIVES):
            whom = chance.choice(["KILL", "KILL", "KILL", "TERM", "INT", "jvm", "workers"])
            die = {"at": int(chance.expovariate(1 / 100)), "whom": whom}
            ended = drivers.start(0, life, STATEMENTS, die=die, jobs=chance.random() < 0.5).wait()
            assert ended != WRONG, drivers.told(0)
            assert whom not in ("KILL", "TERM") or ended in (0, -signal.Signals[f"SIG{whom}"]), drivers.told(0)
            assert other.poll() is None, drivers.told(1)
        assert drivers.start(0, LIVES, 3, last=True).wait() == 0, drivers.told(0)
        (tmp_path / "stop").touch()
        assert other.wait() == 0, drivers.told(1)
    finally:
        other.kill()
        other.wait()
    whole(tmp_path)


@pytest.mark.parametrize("seed", seeds(1, 44))
def test_engines_die_beside_a_driver(tmp_path: Path, seed: int) -> None:
    """Two processes without Spark and a driver work at one table; one of these processes is killed again and again."""
    chance, drivers = random.Random(f"engines {seed}"), Drivers(tmp_path, seed)
    prepare(tmp_path, drivers.kind)
    others = [drivers.start(1, 0, 100_000, jobs=chance.random() < 0.5, last=True)]
    others.append(drivers.start(3, 0, 100_000, "engine_job"))
    life = 0
    try:
        while life < 4 * LIVES or len(_done(tmp_path / "log-1")) < STATEMENTS:
            whom = chance.choice(["KILL", "KILL", "TERM", "INT"])
            die = {"at": int(chance.expovariate(1 / 60)), "whom": whom}
            ended = drivers.start(2, life, STATEMENTS, "engine_job", die=die).wait()
            assert ended in (0, 1 if whom == "INT" else 0, -signal.Signals[f"SIG{whom}"]), drivers.told(2)
            for number, other in zip((1, 3), others, strict=True):
                assert other.poll() is None, drivers.told(number)
            life += 1
        assert drivers.start(2, life, 3, "engine_job").wait() == 0, drivers.told(2)
        (tmp_path / "stop").touch()
        for number, other in zip((1, 3), others, strict=True):
            assert other.wait() == 0, drivers.told(number)
    finally:
        for other in others:
            other.kill()
            other.wait()
    whole(tmp_path)


def _done(log: Path) -> list[str]:
    """What a process has written down that it ended."""
    return [line for line in log.read_text().splitlines() if '"ended"' in line] if log.exists() else []


def whole(folder: Path) -> None:
    """Nothing is wrong with any table."""
    catalog = bucketlake.open(str(folder / "warehouse"))
    for name in catalog.tables("db"):
        assert not fsck(catalog.table(name).store, FsckRequest(level=LEVELS[-1])).errors, name
