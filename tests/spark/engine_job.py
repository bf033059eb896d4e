"""A process without Spark that works at the table of the drivers (`driver_job.py`), and may be killed at any moment.

    python -m tests.spark.engine_job '{"root", "number", "kind", "seed", "life", "statements", "die"}'

It changes rows of its own and keeps the table up; it writes down what it begins and what became of it, as drivers do.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.spark.driver_job import KEYS, Driver, Log, at_change, death

import bucketlake
from bucketlake.errors import BucketlakeError, CommitError, NotFoundError
from bucketlake.table import Table


class Engine(Driver):
    """One life of one process."""

    parts = ("t",)

    def __init__(self, job: dict[str, Any]) -> None:
        self.number, self.kind, self.root = job["number"], job["kind"], Path(job["root"])
        self.log = Log(self.root / f"log-{self.number}")
        self.chance = random.Random(f"engine {job['seed']} {self.number} {len(self.log.lines)} {job['life']}")
        self.lake: Any = SimpleNamespace(catalog=bucketlake.open(str(self.root / "warehouse")))
        self.state, pending = self.log.replayed()
        if pending is not None:
            self._resolve(pending, None)

    @property
    def table(self) -> Table:
        found: Table = self.lake.catalog.table("db.t")
        return found

    def step(self) -> None:
        """One change, by chance."""
        if self.chance.random() < 0.3:
            self._keep()
        else:
            self._rows()

    def _rows(self) -> None:
        own, chance, rows = self.number, self.chance, [tuple(row) for row in self.state["t"]]
        what = "insert" if self.kind == "summed" else chance.choice(["insert", "insert", "update", "delete"])
        if self.kind != "crossing" and chance.random() < 0.2:
            what = chance.choice(["overwrite", "drop"])
        new = [(key, chance.randrange(1000)) for key in chance.sample(range(KEYS), chance.choice([1, 3, 6]))]
        given = [{"owner": own, "k": key, "v": value, "pt": value % 2} for key, value in new]
        named = {key for key, _ in new}
        where = f"owner = {own} AND k IN ({', '.join(map(str, named))})"
        if what == "insert":
            self.change("t", self._put(rows, new), lambda: self.table.write_arrow(given))
        elif what == "update":
            after = sorted([key, -1 if key in named else value] for key, value in rows)
            self.change("t", after, lambda: self.table.update({"v": -1}, where))
        elif what == "delete":
            after = [[key, value] for key, value in rows if key not in named]
            self.change("t", after, lambda: self.table.delete(where))
        elif what == "overwrite":
            after, only = sorted([key, value] for key, value in new), {"owner": own}
            self.change("t", after, lambda: self.table.write_arrow(given, mode="overwrite", partition=only))
        elif rows:
            self.change("t", [], lambda: self.table.drop_partitions([{"owner": own}]))

    def _keep(self) -> None:
        table, tag = self.table, f"e{self.number}_{len(self.log.lines)}"
        calls: dict[str, Callable[[], Any]] = {
            "compact": partial(table.compact, full=True),
            "minor": partial(table.compact, full=False),
            "expire": partial(table.expire_snapshots, retain_max=1, retain_min=1),
            "manifests": table.compact_manifests,
            "orphans": table.remove_orphan_files,
            "tag": lambda: (table.create_tag(tag), table.delete_tag(tag)),
        }
        called = self.chance.choice(list(calls))
        self.log.say(upkeep=called)
        try:
            calls[called]()
        except (CommitError, NotFoundError) as error:
            self.log.say(told=repr(error)[:300])
        except BucketlakeError as error:
            self._fail(f"{called} raised {error!r}")


def main(job: dict[str, Any]) -> None:
    """Live once: until the changes are done, or the file `stop` is there, or a death."""
    root, engine = Path(job["root"]), Engine(job)
    engine.check()
    if job["die"]:
        at_change(job["die"]["at"], str(root / "warehouse"), death(job["die"]["whom"]))
    for _ in range(job["statements"]):
        if (root / "stop").exists():
            break
        engine.step()
        if engine.chance.random() < 0.2:
            engine.check()
    engine.check()
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
