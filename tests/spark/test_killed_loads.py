"""Drivers that die while tasks load files, overwrite rows, or make and replace tables, beside another one: old rows or
new rows, never a mix; each file is loaded once; names stay of use; what dead ones left can be removed. pypaimon reads the
same rows, then and later."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from tests.peers.python_peers import PyPaimon
from tests.profile import seeds
from tests.spark.load_job import KINDS, prepare
from tests.spark.test_killed_drivers import LIVES, STATEMENTS, WRONG, Drivers, whole

import bucketlake
from bucketlake.table import Table

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("seed", seeds(2, 44))
def test_old_rows_or_new_ones(tmp_path: Path, seed: int) -> None:
    killed(tmp_path, seed, STATEMENTS)
    whole(tmp_path)
    swept(tmp_path)


@pytest.mark.peer
@pytest.mark.parametrize("seed", seeds(1, 11))
def test_pypaimon_reads_what_they_left_and_what_comes_after(tmp_path: Path, pypaimon: PyPaimon, seed: int) -> None:
    killed(tmp_path, 100 + seed, 6)
    catalog = bucketlake.open(tmp_path / "warehouse")
    pypaimon.use(tmp_path / "warehouse")
    for goes_on in (False, True):
        for name in catalog.tables("db"):
            table = catalog.table(name)
            if goes_on:
                fields = table.schema.fields
                table.write_arrow([{item.name: 1 if item.name in ("k", "pt") else 7_000 for item in fields}])
                table.delete("k = 2") if may_delete(table) else table.compact(full=True)
            expected = sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())
            found = pypaimon.read("db", name.removeprefix("db.")).select(table.arrow_schema.names)
            assert sorted(tuple(row.values()) for row in found.to_pylist()) == expected, (name, goes_on)


def may_delete(table: Table) -> bool:
    """Whether single rows of it can be deleted."""
    options = table.schema.options
    evolves = "data-evolution.enabled" in options and "deletion-vectors.enabled" not in options
    return not evolves and options.get("merge-engine") != "first-row"


def killed(folder: Path, seed: int, statements: int) -> None:
    """Two processes at work, one of which dies a few times; both end well."""
    chance, drivers = random.Random(f"loads {seed}"), Drivers(folder, seed)
    drivers.kind = list(KINDS)[seed % len(KINDS)]
    prepare(folder, drivers.kind)
    other = drivers.start(1, 0, 100_000, "load_job", last=True)
    try:
        for life in range(LIVES):
            whom = chance.choice(["KILL", "KILL", "task", "task", "TERM", "INT", "jvm", "workers"])
            die = {"at": int(chance.expovariate(1 / (3 if whom == "task" else 60))), "whom": whom}
            ended = drivers.start(0, life, statements, "load_job", die=die).wait()
            assert ended != WRONG, drivers.told(0)
            dead = signal.Signals[f"SIG{'KILL' if whom == 'task' else whom}"] if whom.isupper() or whom == "task" else 0
            assert whom in ("INT", "jvm", "workers") or ended in (0, -dead), drivers.told(0)
            assert other.poll() is None, drivers.told(1)
        assert drivers.start(0, LIVES, 3, "load_job", last=True).wait() == 0, drivers.told(0)
        (folder / "stop").touch()
        assert other.wait() == 0, drivers.told(1)
    finally:
        other.kill()
        other.wait()


def swept(folder: Path) -> None:
    """Without an older snapshot and orphans, what lies there is what the newest snapshot has."""
    catalog = bucketlake.open(str(folder / "warehouse"))
    long_ago = time.time() - 3 * 86_400
    for name in catalog.tables("db"):
        table = catalog.table(name)
        rows = table.to_arrow().num_rows
        table.expire_snapshots(retain_max=1, retain_min=1, older_than="2100-01-01")
        for path in Path(table.path).rglob("*"):
            if path.is_file():
                os.utime(path, (long_ago, long_ago))
        table.remove_orphan_files()
        assert table.to_arrow().num_rows == rows, name
        used = table.usage()
        assert (used.orphans, used.foreign, used.history) == (0, 0, 0), (name, used)
        live = {Path(file.path).name for file in table.files()}
        there = {path.name for path in Path(table.path).rglob("bucket-*/*") if path.suffix != ".index"}
        assert there == live, name
