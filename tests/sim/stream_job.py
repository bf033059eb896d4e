"""A job of streams that dies: rows are fed into a table, streamed into another, and its changes into a log.

    python -m tests.sim.stream_job      takes jobs as lines of JSON, runs each in a forked child, says how it ended

What Spark does with a checkpoint is done here without Spark: an offset is noted, the batch is written, its end is noted.
A child dies by SIGKILL before the n-th change of a file, or wherever it is after so much time on a processor.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

import bucketlake
from bucketlake import lazy
from bucketlake.env.local import LocalStorage
from bucketlake.env.object_store import open_env
from bucketlake.errors import ConflictError, InvalidError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.compact.maintain import must_compact
from bucketlake.ops.scan.system_tables import RowView, read_view
from bucketlake.ops.stream.batches import BatchName, written_once
from bucketlake.ops.stream.journal import Journal
from bucketlake.ops.stream.limits import Limits
from bucketlake.ops.stream.position import Position
from bucketlake.ops.stream.source import Source
from bucketlake.ops.write.postpone_write import write_counted
from bucketlake.ops.write.prepare import new_commit_user, prepare_write
from bucketlake.table import Table

COLUMNS = pa.schema([pa.field("k", pa.int64(), False), pa.field("v", pa.int64()), pa.field("pt", pa.int32(), False)])
LOG = pa.schema([("kind", pa.string()), *COLUMNS, ("batch", pa.int64()), ("place", pa.int64())])
KINDS = "_VALUE_KIND"
KEYS = 8
FEW = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "6", "num-sorted-run.compaction-trigger": "3"}


@dataclass(frozen=True)
class Case:
    """Tables of one job. `keyed`: with a primary key; `tells`: whether changes are told by a changelog."""

    source: dict[str, str]
    copy: dict[str, str]
    keyed: bool = True
    partitioned: bool = False

    @property
    def producer(self) -> str:
        return self.copy.get("changelog-producer", "none")

    @property
    def complete(self) -> bool:
        """Whether rows are fed with what they replace."""
        return self.source.get("changelog-producer") == "input"


def _keyed(producer: str, bucket: str = "2", **more: str) -> dict[str, str]:
    full = {"full-compaction.delta-commits": "2"} if producer == "full-compaction" else {}
    return {"bucket": bucket, "changelog-producer": producer, **full, **more}


_FIXED = _keyed("input")
CASES = {
    "none": Case(_keyed("none"), _keyed("none")),
    "input": Case(_FIXED, _keyed("input")),
    "lookup": Case(_keyed("lookup"), _keyed("lookup")),
    "full-compaction": Case(_keyed("full-compaction"), _keyed("full-compaction")),
    "lookup beside": Case(_FIXED, _keyed("lookup", **{"lookup-wait": "false"})),
    "dynamic": Case(_FIXED, _keyed("lookup", "-1", **{"dynamic-bucket.target-row-num": "3"})),
    "postpone": Case(_FIXED, _keyed("lookup", "-2", **{"postpone.batch-write-fixed-bucket": "false"})),
    "postpone told at once": Case(_FIXED, _keyed("none", "-2", **{"postpone.batch-write-fixed-bucket": "false"})),
    "vectors told at once": Case(_FIXED, _keyed("none", **{"deletion-vectors.enabled": "true"})),
    "cross-partition": Case(_FIXED, _keyed("none", "-1"), partitioned=True),
    "deletion vectors": Case(_FIXED, _keyed("lookup", **{"deletion-vectors.enabled": "true"})),
    "append": Case({"bucket": "-1"}, {"bucket": "-1"}, keyed=False),
    "append buckets": Case({"bucket": "2", "bucket-key": "k"}, {"bucket": "2", "bucket-key": "k"}, keyed=False),
}


def rows_of_feed(case: Case, seed: int, batches: int) -> tuple[list[pa.Table], dict[int, int], list[tuple[int, int]]]:
    """What is fed, batch by batch; which value each key has in the end; and all rows that were ever put."""
    chance, state, put, made = random.Random(seed), {}, [], []
    for number in range(batches):
        rows: list[tuple[str, int, int]] = []
        for key in chance.sample(range(KEYS), 3):
            value, old = number * 100 + key, state.get(key)
            if old is not None and case.keyed and chance.random() < 0.3:
                rows.append(("-D", key, old))
                del state[key]
                continue
            if case.complete and old is not None:
                rows.append(("-U", key, old))
            rows.append(("+U" if case.complete and old is not None else "+I", key, value))
            state[key] = value
            put.append((key, value))
        kinds, keys, values = zip(*rows, strict=True)
        partitions = pa.array([value % 2 for value in values], pa.int32())
        given = pa.table({"k": keys, "v": values, "pt": partitions}, schema=COLUMNS)
        made.append(given.append_column(KINDS, pa.array(kinds)) if case.keyed else given)
    return made, state, put


class Job:
    """The tables and queries of one folder."""

    def __init__(self, root: Path, name: str, seed: int, batches: int) -> None:
        self.case, self.root, self.seed = CASES[name], root, seed
        self.fed = rows_of_feed(self.case, seed, batches)[0]
        catalog = bucketlake.open(str(root / "warehouse"))
        catalog.create_database("db", ignore_if_exists=True)
        keys = ["k"] if self.case.keyed else []

        def table(called: str, schema: pa.Schema, options: dict[str, str], **more: Any) -> Table:
            given = {**FEW, **options}
            return catalog.create_table(f"db.{called}", schema, options=given, ignore_if_exists=True, **more)

        parts = ["pt"] if self.case.partitioned else []
        self.source = table("source", COLUMNS, self.case.source, primary_keys=keys)
        self.copy = table("copy", COLUMNS, self.case.copy, primary_keys=keys, partition_keys=parts)
        self.log = table("log", LOG, {"bucket": "-1", "compaction.min.file-num": "4"})
        most = random.Random(seed).choice([None, 1, 2])
        self.first = Query(root / "first", self.source, self.copy, Limits(most), self._copied)
        self.second = Query(root / "second", self.copy, self.log, Limits(most), self._logged)

    def run(self) -> None:
        """Everything to its end; what was done before is not done again."""
        while self._feed() | self.first.step() | self.second.step():
            pass
        if not self.case.keyed:
            return
        for table, query in ((self.source, self.first), (self.copy, self.second)):
            table.compact(full=True)
            while query.step():
                pass

    def _feed(self) -> bool:
        number = sum(1 for _ in self.root.glob("fed-*"))  # a note for each: a run that is behind takes nothing back
        if number < len(self.fed):
            write_batch(self.source, self.fed[number], BatchName("feed", number))
            LocalStorage().write(str(self.root / f"fed-{number}"), b"")
        return number < len(self.fed)

    def _copied(self, rows: pa.Table, batch: int) -> pa.Table:
        kinds = rows.column("rowkind")
        rows = rows.select(COLUMNS.names)
        return rows.append_column(KINDS, kinds) if self.case.keyed else rows

    def _logged(self, rows: pa.Table, batch: int) -> pa.Table:
        count = rows.num_rows
        places = [pa.array([batch] * count, pa.int64()), pa.array(range(count), pa.int64())]
        return pa.Table.from_arrays([rows.column("rowkind"), *rows.select(COLUMNS.names).columns, *places], schema=LOG)


@dataclass
class Query:
    """A query with a checkpoint: batches of a table's changes into another table."""

    checkpoint: Path
    read: Table
    written: Table
    limits: Limits
    shape: Callable[[pa.Table, int], pa.Table]

    def step(self) -> bool:
        """Run the batch that comes next, or comes again; False where there is none."""
        store = self.read.with_options({"consumer-id": self.checkpoint.name}).store
        source, journal = (
            Source.of(store),
            Journal(open_env(str(self.checkpoint))[0], str(self.checkpoint), self.read.path),
        )
        batch = journal.pending()
        if batch is None:
            start = journal.position or source.origin()
            end = source.following(start, self.limits)
            if end.place == start.place:
                return False
            batch = journal.begin(start, end)
        rows = self.shape(self._rows(source, batch.start, batch.end), batch.number)
        note = str((batch.start, batch.end))
        write_batch(self.written, rows, BatchName(f"query-{self.checkpoint.name}", batch.number, note))
        journal.finish(batch)
        source.progress(batch.end)
        return True

    def _rows(self, source: Source, start: Position, end: Position) -> pa.Table:
        view = RowView("audit_log")
        names = ["rowkind", *COLUMNS.names]
        found: Iterator[pa.RecordBatch] = (
            batch
            for group in source.batch(start, end)
            for split in group
            for batch in read_view(source.store, view, split, names)
        )
        return pa.Table.from_batches(found, pa.schema([("rowkind", pa.string()), *COLUMNS]))


def write_batch(table: Table, rows: pa.Table, batch: BatchName) -> None:
    """Write a batch once, as `spark.stream.sink` does, and what follows it."""
    store = table.store
    done: list[Snapshot] = []

    def write(name: BatchName) -> Snapshot | None:
        task = replace(prepare_write(store, store.latest_snapshot(), commit_user=name.query), options={"threads": 1})
        messages = write_counted(store, rows.to_batches(), task, overwrite=False)
        made = table.commit(messages, name)
        if made is not None:
            done.append(made)
            table.compacted(replace(made, commit_user=new_commit_user(store)), messages)
        return made

    snapshot = written_once(store, batch, write)
    if snapshot is not None and not done and must_compact(store):
        table.compact(full=False)


def replayed(told: list[tuple[str, int, int]], exact: bool) -> dict[int, int]:
    """The rows that changes lead to. `exact`: each change says what was there before."""
    state: dict[int, int] = {}
    for kind, key, value in told:
        if exact:
            before = state.get(key)
            assert before is None if kind == "+I" else True, (kind, key, value, told)
            assert before == value if kind == "-U" else True, (kind, key, value, told)
            assert before in (None, value) if kind == "-D" else True, (kind, key, value, told)  # None: read whole
        if kind in ("-U", "-D"):
            state.pop(key, None)
        else:
            state[key] = value
    return state


# ---------------------------------------------------------------------------------------------- death

_CHANGES = {"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}


def die_at(change: int, root: str, published: int = 0) -> None:
    """End this process before its n-th change of files below a folder; with `published`, counted from the moment when
    so many snapshots have been published."""
    left, snapshots = [change], [published]

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" and event not in _CHANGES:
            return
        path = arguments[0]
        if not isinstance(path, str) or not path.startswith(root):
            return
        if event == "open" and not int(arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
        if snapshots[0] > 0:
            snapshots[0] -= event == "os.link" and "/snapshot/snapshot-" in str(arguments[1])
            return
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)


def _child(job: dict[str, Any]) -> None:
    warnings.simplefilter("ignore")
    root = Path(job["root"])
    if job.get("at") is not None:
        die_at(job["at"], job["root"], job.get("published", 0))
    if job.get("seconds") is not None:
        signal.setitimer(signal.ITIMER_PROF, job["seconds"])  # SIGPROF ends the process where it is
    try:
        Job(root, job["case"], job["seed"], job["batches"]).run()
    except (ConflictError, InvalidError) as error:
        if not (job.get("twice") and _beside(error)):
            raise


def _beside(error: Exception) -> bool:
    """Whether an error tells one of two runs that the other goes on: a batch that both have begun, or one that is behind
    what the other has written since this one read the checkpoint."""
    return isinstance(error, ConflictError) or "checkpoint is older" in str(error)


def _fork(job: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        _child(job)
        status = 0
    except BaseException:
        Path(f"{job['root']}.error").write_text(traceback.format_exc())
    finally:
        os._exit(status)


def main() -> None:
    """Serve jobs until the input ends: `{"root", "case", "seed", "batches", "at", "published", "seconds", "twice"}`. Answers with
    the exit status of each: negative for a signal."""
    _ = lazy.pc.equal, lazy.pq.read_table, lazy.pl.DataFrame, lazy.fastavro.writer, pa.array([1])  # loaded here, once
    for line in sys.stdin:
        job = json.loads(line)
        pids = [_fork(job) for _ in range(2 if job.get("twice") else 1)]
        ends = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
        print(json.dumps(max(ends, key=abs)), flush=True)


if __name__ == "__main__":
    main()
