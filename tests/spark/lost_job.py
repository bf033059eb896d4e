"""Random statements against their model, by tasks that run twice at once, or whose executors are killed.

    python -m tests.spark.lost_job speculation|killed <master> <folder> <kind> <seed> <steps>

`speculation`: one task of a stage waits at its beginning, or before it ends, until another attempt of it is as far; both
write all of their files. `killed`: first attempts kill their executor, before one of their first changes of files or at
their end. Half of the statements that change rows are given in `BEGIN … END`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from pyspark import TaskContext, cloudpickle
from pyspark.sql.classic.dataframe import DataFrame
from tests.queries.run import QUICK
from tests.spark import driver_job
from tests.spark.driver_job import at_change
from tests.spark.load_job import by_tasks
from tests.sql.test_by_tasks import KINDS
from tests.statements.history import played

import bucketlake
from bucketlake.ops.check.fault import LEVELS
from bucketlake.ops.check.fsck import FsckRequest, fsck
from bucketlake.spark.session import Lake, new_session

Action = Callable[[Iterator[Any]], Iterator[Any]]
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SESSION = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "600m",
    "spark.log.level": "OFF",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.executor.extraJavaOptions": JAVA,
    "spark.ui.enabled": "false",
    "spark.stage.maxConsecutiveAttempts": "20",  # shuffled rows go with an executor
    "spark.task.maxFailures": "10",
    **QUICK,
    "spark.sql.ansi.enabled": "true",
    "spark.sql.shuffle.partitions": "2",
}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "50ms",
    "spark.speculation.efficiency.enabled": "false",
    "spark.speculation.task.duration.threshold": "300ms",  # of a stage of one task
}
CHANGES = ("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE")
PATIENCE = 10  # seconds until an attempt goes on without another one


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])


def doubled(action: Action, marks: str, seed: str) -> Action:
    """A task's work, of which one a stage waits for another attempt of it."""

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        stage = f"{seed} {context.stageId()}".replace(" ", "-")
        chance = Random(stage)
        waits, place = context.partitionId() == chance.randrange(2), chance.choice(["begin", "end"])
        again = Path(marks) / f"{stage}-{context.partitionId()}"

        def meet(at: str) -> None:
            if at != place or not waits:
                return
            if context.attemptNumber():
                again.touch()
                return
            ticks, waiting = count(), threading.Event()
            while not again.exists() and next(ticks) < PATIENCE * 20:
                waiting.wait(0.05)

        meet("begin")
        yield from action(batches)
        meet("end")

    return task


def killing(action: Action, marks: str, seed: str, folder: str) -> Action:
    """A task's work, of which some first attempts kill their executor."""

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        chance = Random(f"{seed} {context.partitionId()}")
        if context.attemptNumber() or context.stageAttemptNumber() or chance.random() < 0.6:
            yield from action(batches)
            return

        def die() -> None:
            (Path(marks) / f"{os.getpid()}").touch()
            os.kill(parent(parent(os.getpid())), signal.SIGKILL)  # this worker's daemon's executor
            threading.Event().wait(60)

        if chance.random() < 0.5:
            at_change(chance.randrange(4), folder, die)
        yield from action(batches)
        die()

    return task


class Scripted:
    """A lake that puts half of the statements that change rows into scripts."""

    def __init__(self, lake: Lake, seed: str) -> None:
        self._lake, self._chance = lake, Random(f"scripts {seed}")
        self.scripts = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lake, name)

    def sql(self, text: str) -> Any:
        """Run a statement."""
        if text.split()[0] in CHANGES and self._chance.random() < 0.5:
            self.scripts += 1
            text = f"BEGIN DECLARE n INT DEFAULT 1; IF n = 1 THEN {text}; END IF; END"
        return self._lake.sql(text)


def main(how: str, master: str, folder: Path, kind: str, seed: int, steps: int) -> None:
    """One history."""
    cloudpickle.register_pickle_by_value(driver_job)  # executors have no tests
    marks = folder / "marks"
    marks.mkdir(exist_ok=True)
    more = SPECULATION if how == "speculation" else {}
    spark = new_session(**SESSION, **more, **{"spark.master": master, "spark.sql.warehouse.dir": str(folder / "spark")})
    lake = bucketlake.connect(str(folder / "warehouse"), spark=spark)
    lake.catalog.create_database("db")
    by_tasks()
    mapped, numbers = DataFrame.mapInArrow, count()

    def wrapped(self: Any, action: Action, *given: Any, **others: Any) -> Any:
        told = f"{kind} {seed} {next(numbers)}"
        if how == "speculation":
            return mapped(self, doubled(action, str(marks), told), *given, **others)
        return mapped(self, killing(action, str(marks), told, lake.catalog.warehouse), *given, **others)

    DataFrame.mapInArrow = wrapped  # type: ignore[method-assign]
    scripted: Any = Scripted(lake, f"{kind} {seed}")
    history = played(scripted, KINDS[kind], f"{how} {kind} {seed}", steps)
    table = lake.catalog.table("db.t")
    faults = [str(fault) for fault in fsck(table.store, FsckRequest(level=LEVELS[-1])).errors]
    answer = {"statements": len(history.told), "marks": len([*marks.iterdir()]), "faults": faults}
    answer["scripts"] = scripted.scripts
    print("ANSWER " + json.dumps(answer), flush=True)
    os._exit(0)


if __name__ == "__main__":
    how, master, folder, kind, seed, steps = sys.argv[1:]
    main(how, master, Path(folder), kind, int(seed), int(steps))
