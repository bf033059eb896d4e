"""`bucketlake cdc` as a process that is killed, or told to end, at any place of its work, and started again: tables
follow their source, each row without a key is there once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests import quick
from tests.cdc.feeds import debezium
from tests.profile import SOAK, seeds

import bucketlake

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FILES, KEYS, LIVES = 12, 6, 6 if SOAK else 3
FIELDS = [["id", "int32"], ["v", "int32"]]
WIDER = [*FIELDS, ["w", "string"]]
STATUS = {signal.SIGKILL: (-9, -9), signal.SIGTERM: (0, 143), signal.SIGINT: (130, 130), signal.SIGHUP: (129, 129)}


class Source:
    """A database with a table of keys, which gets another column, and one of rows without."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.chance, self.folder = random.Random(f"cdc {seed}"), folder
        self.rows: dict[int, Any] = {}
        self.news: list[int] = []
        folder.mkdir()

    def arrive(self, number: int) -> None:
        """The next file: a few changes of each table."""
        lines = [self._change(number) for _ in range(3)]
        news = [number * 10 + place for place in range(2)]
        lines += [debezium("c", None, {"n": n}, "news", [["n", "int32"]]) for n in news]
        self.news += news
        (self.folder / f"_{number}").write_text("".join(json.dumps(line) + "\n" for line in lines))
        os.utime(self.folder / f"_{number}", (1_700_000_000 + number, 1_700_000_000 + number))  # their order
        (self.folder / f"_{number}").rename(self.folder / f"{number:03}.json")

    def _change(self, number: int) -> Any:
        key, wide = self.chance.randrange(KEYS), number > FILES // 2
        before = self.rows.get(key)
        fields, place = (WIDER if wide else FIELDS), {"pkNames": ["id"]}
        if before is not None and self.chance.random() < 0.3:
            del self.rows[key]
            return debezium("d", before, None, "keyed", fields, **place)
        after = {"id": key, "v": self.chance.randrange(1000), **({"w": f"w{number}"} if wide else {})}
        self.rows[key] = after
        return debezium("c" if before is None else "u", before, after, "keyed", fields, **place)


def steps(folder: Path) -> int:
    """How far a job is: batches that were begun and done, schemas and snapshots that were published."""
    places = [*folder.glob("checkpoint/offsets/*"), *folder.glob("checkpoint/commits/*")]
    return len(
        [*places, *folder.glob("warehouse/*/*/snapshot/snapshot-*"), *folder.glob("warehouse/*/*/schema/schema-*")]
    )


def run(folder: Path, once: bool, ends: tuple[int, int] | None) -> tuple[int, str]:
    """A life of the command: its status and what it said. `ends`: which signal, after how many steps."""
    environment = {**quick.environment(folder / "conf"), "PYTHONPATH": os.pathsep.join(sys.path)}
    with (folder / "conf" / "spark-defaults.conf").open("a") as defaults:
        defaults.write("spark.master local[2]\n")
    words = ["cdc", "database", "db", "--files", str(folder / "in"), "--format", "debezium-json", "-w", "warehouse"]
    words += [
        "--checkpoint",
        str(folder / "checkpoint"),
        "--table-option",
        "snapshot.num-retained.min=2",
        "--every",
        "10 milliseconds",
    ]
    words += ["--source-option", "maxFilesPerTrigger=1", "--table-option", "snapshot.num-retained.max=4"]
    words += ["--once"] if once else []
    command = [sys.executable, "-m", "bucketlake", *words]
    start, wait = steps(folder), threading.Event()
    with (folder / "said").open("w+b") as said:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=said, stderr=said)
        while ends is not None and process.poll() is None:
            if steps(folder) - start >= ends[1]:
                process.send_signal(ends[0])
                break
            wait.wait(0.005)
        process.wait()
        said.seek(0)
        return process.returncode, said.read().decode()


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_a_source_is_followed_whatever_ends_the_command(tmp_path: Path, seed: int) -> None:
    chance, source = random.Random(f"ends {seed}"), Source(seed, tmp_path / "in")
    bucketlake.open(tmp_path / "warehouse").create_database("db")
    share = FILES // LIVES
    for life in range(LIVES):
        for number in range(life * share, (life + 1) * share):
            source.arrive(number)
        number, once = chance.choice(list(STATUS)), chance.random() < 0.5
        status, said = run(tmp_path, once, (number, 1 + int(chance.expovariate(1 / 5))))
        assert status == STATUS[number][once] or (once and status == 0), (number, once, status, said)
        assert number == signal.SIGKILL or "Traceback" not in said, said
    status, said = run(tmp_path, True, None)
    assert status == 0, said
    catalog = bucketlake.open(tmp_path / "warehouse")
    found = {row["id"]: row for row in catalog.table("db.keyed").to_arrow().to_pylist()}
    assert found == {key: {"w": None, **row} for key, row in source.rows.items()}, said
    assert sorted(catalog.table("db.news").to_arrow().column("n").to_pylist()) == source.news, said
    for name in catalog.tables("db"):
        assert not [one for one in catalog.table(name).fsck("rows").findings if one.severity == "error"], name
