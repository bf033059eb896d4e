"""Run the compaction policy over a stream of flushes, metadata only, and print what it costs.

    python -m benchmarks.compaction_sim [--flushes 100000] [--buckets 8] [--rows 200000] [--row-bytes 80]
        [--keys 50000000] [--fresh 0.1] [--seed 1] [--json] [--option num-sorted-run.compaction-trigger=5 …]

Every flush adds one file of level 0 to a bucket, in turns; then the bucket is compacted until nothing is due. A flush
holds keys drawn evenly from the bucket's `keys`, or, with the chance `fresh`, keys in order that were never there.
Rows that survive a merge are estimated from how densely its runs fill their common range, so no row exists anywhere.

Printed at ten points in time, of all buckets: runs (mean, most), live files, gigabytes live, and
    write   bytes written by flushes and compactions / bytes flushed
    read    sorted runs that a read must merge, mean over all flushes so far
    space   live bytes / bytes of the newest row of every key
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from bucketlake.format.metadata.manifest import DataFile, FileSource, SimpleStats
from bucketlake.lsm.compaction import CompactionRule, Moment, Section, pick, plan_task
from bucketlake.lsm.keys import Bound
from bucketlake.lsm.levels import Levels
from bucketlake.options.options import TableOptions

STATS = SimpleStats(b"", b"", None)
DAY = 86_400_000
MOST_ROUNDS = 50


@dataclass(frozen=True)
class Workload:
    """A stream of flushes; `keys` of each bucket; `millis` between two flushes of the whole table."""

    flushes: int = 100_000
    buckets: int = 8
    rows: int = 200_000
    row_bytes: int = 80
    keys: int = 50_000_000
    fresh: float = 0.1
    seed: int = 1
    millis: int = 1000


@dataclass
class Totals:
    """Sums over all buckets. `runs`: sum of the flushed buckets' runs after each flush; `rewritten`: bytes."""

    flushes: int = 0
    flushed: int = 0
    rewritten: int = 0
    compactions: int = 0
    moved: int = 0
    made: int = 0
    runs: int = 0
    most_runs: int = 0


@dataclass(frozen=True)
class Point:
    """The state at one time, as the module's head explains."""

    flushes: int
    files_made: int
    live_files: int
    live_bytes: int
    runs_mean: float
    runs_most: int
    write: float
    read: float
    space: float


@dataclass
class Bucket:
    """One bucket: its files; `absent`: share of `keys` never written; `fresh`: rows of keys written in order."""

    levels: Levels
    absent: float = 1.0
    fresh: int = 0

    def distinct(self, keys: int) -> float:
        """Keys that it holds."""
        return keys * (1.0 - self.absent) + self.fresh


def key_range(file: DataFile) -> tuple[Bound, Bound]:
    """Keys are eight bytes, most significant first."""
    return (file.min_key,), (file.max_key,)


@dataclass
class Simulation:
    """Buckets under one rule; `run` yields points in time."""

    rule: CompactionRule
    work: Workload
    totals: Totals = field(default_factory=Totals)

    def __post_init__(self) -> None:
        empty = Levels.of((), key_range, self.rule.num_levels)
        self.buckets = [Bucket(empty) for _ in range(self.work.buckets)]
        self._chance = random.Random(self.work.seed)
        self._sequence = 0
        self._target = max(1, int(self.rule.small_size / 0.7))

    def run(self, points: int = 10, report: Callable[[Point], None] | None = None) -> list[Point]:
        """Flush and compact to the end of the workload."""
        found = []
        marks = {max(1, self.work.flushes * (n + 1) // points) for n in range(points)}
        for number in range(self.work.flushes):
            bucket = self.buckets[number % len(self.buckets)]
            moment = Moment(DAY + number * self.work.millis)
            bucket.levels = bucket.levels.update((), (self._flush(bucket, moment),))
            self._compact(bucket, moment)
            count = len(bucket.levels.sorted_runs())
            self.totals.runs += count
            self.totals.most_runs = max(self.totals.most_runs, count)
            if number + 1 in marks:
                found.append(self.point())
                if report is not None:
                    report(found[-1])
        return found

    def point(self) -> Point:
        """The state now."""
        totals, work = self.totals, self.work
        live = [file for bucket in self.buckets for file in bucket.levels.files()]
        size = sum(file.file_size for file in live)
        needed = sum(bucket.distinct(work.keys) for bucket in self.buckets) * work.row_bytes
        return Point(
            flushes=totals.flushes,
            files_made=totals.made,
            live_files=len(live),
            live_bytes=size,
            runs_mean=sum(len(bucket.levels.sorted_runs()) for bucket in self.buckets) / len(self.buckets),
            runs_most=totals.most_runs,
            write=(totals.flushed + totals.rewritten) / totals.flushed,
            read=totals.runs / totals.flushes,
            space=size / needed,
        )

    def _flush(self, bucket: Bucket, moment: Moment) -> DataFile:
        work, rows = self.work, max(1, round(self.work.rows * self._chance.uniform(0.5, 1.5)))
        if self._chance.random() < work.fresh:
            low = work.keys + bucket.fresh
            high = low + rows - 1
            bucket.fresh += rows
        else:
            rows = max(1, round(work.keys * -math.expm1(-rows / work.keys)))
            bucket.absent *= max(0.0, 1.0 - rows / work.keys)
            low, high = self._chance.randrange(max(1, work.keys // rows)), work.keys - 1
        self._sequence += rows
        self.totals.flushes += 1
        file = self._file(low, max(low, high), rows, 0, moment)
        self.totals.flushed += file.file_size
        return file

    def _compact(self, bucket: Bucket, moment: Moment) -> None:
        for _ in range(MOST_ROUNDS):
            picked = pick(bucket.levels, self.rule, moment)
            if picked is None:
                return
            plan = plan_task(picked, bucket.levels, self.rule)
            gone, come = list(plan.upgrade), [replace(file, level=picked.output_level) for file in plan.upgrade]
            for group in plan.rewrite:
                gone += [file for section in group for run in section for file in run.files]
                made = self._merged(group, picked.output_level, moment)
                self.totals.rewritten += sum(file.file_size for file in made)
                come += made
            self.totals.compactions += 1
            self.totals.moved += len(plan.upgrade)
            bucket.levels = bucket.levels.update(gone, come)

    def _merged(self, group: Sequence[Section], level: int, moment: Moment) -> list[DataFile]:
        """Files of the target size that hold what the sections' runs have in common once."""
        files: list[DataFile] = []
        room = most = max(1, self._target // self.work.row_bytes)
        begun, rows = -1, 0
        for section in group:
            low = int.from_bytes(min(run.files[0].min_key for run in section), "big")
            high = int.from_bytes(max(run.files[-1].max_key for run in section), "big")
            left = _distinct([run.row_count for run in section], high - low + 1)
            while left > 0:
                begun = low if begun < 0 else begun
                take = min(left, room)
                end = high if take == left else low + max(1, (high - low + 1) * take // left) - 1
                rows, room, left, low = rows + take, room - take, left - take, end + 1
                if room == 0:
                    files.append(self._file(begun, end, rows, level, moment))
                    begun, rows, room = -1, 0, most
                last = end
        if rows:
            files.append(self._file(begun, last, rows, level, moment))
        return files

    def _file(self, low: int, high: int, rows: int, level: int, moment: Moment) -> DataFile:
        self.totals.made += 1
        return DataFile(
            file_name=str(self.totals.made),
            file_size=rows * self.work.row_bytes,
            row_count=rows,
            min_key=low.to_bytes(8, "big"),
            max_key=high.to_bytes(8, "big"),
            key_stats=STATS,
            value_stats=STATS,
            min_sequence_number=self._sequence - rows + 1,
            max_sequence_number=self._sequence,
            schema_id=0,
            level=level,
            creation_time=moment.now,
            file_source=FileSource.APPEND if level == 0 else FileSource.COMPACT,
        )


def _distinct(rows: Sequence[int], span: int) -> int:
    """Keys in at least one of several runs of so many rows, each spread evenly over a range of `span` keys."""
    if len(rows) == 1:
        return rows[0]
    absent = math.prod(max(0.0, 1.0 - count / span) for count in rows)
    return max(*rows, min(span, sum(rows), round(span * (1.0 - absent))))


HEAD = "   flushes  files made  live files    GB live  runs mean  most   write    read   space"


def _line(point: Point) -> str:
    return (
        f"{point.flushes:>10,}{point.files_made:>12,}{point.live_files:>12,}{point.live_bytes / 1e9:>11,.1f}"
        f"{point.runs_mean:>11.1f}{point.runs_most:>6}{point.write:>8.2f}{point.read:>8.2f}{point.space:>8.2f}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    default = Workload()
    parser = argparse.ArgumentParser(description="Run the compaction policy over flushes, metadata only.")
    parser.add_argument("--flushes", type=int, default=default.flushes, help="files that writers add")
    parser.add_argument("--buckets", type=int, default=default.buckets)
    parser.add_argument("--rows", type=int, default=default.rows, help="rows of a flush, about")
    parser.add_argument("--row-bytes", type=int, default=default.row_bytes)
    parser.add_argument("--keys", type=int, default=default.keys, help="keys of a bucket that are written again")
    parser.add_argument("--fresh", type=float, default=default.fresh, help="share of flushes of keys in order, all new")
    parser.add_argument("--seed", type=int, default=default.seed)
    parser.add_argument("--millis", type=int, default=default.millis, help="between two flushes")
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="a table option")
    parser.add_argument("--json", action="store_true", help="one JSON object a point")
    given = vars(parser.parse_args(arguments))
    as_json, pairs = given.pop("json"), given.pop("option")
    rule = CompactionRule.of(TableOptions(dict(pair.split("=", 1) for pair in pairs)))
    if not as_json:
        print(HEAD)
    start = time.perf_counter()
    simulation = Simulation(rule, Workload(**given))
    simulation.run(report=lambda point: print(json.dumps(vars(point)) if as_json else _line(point), flush=True))
    totals, seconds = simulation.totals, time.perf_counter() - start
    summary = f"{totals.compactions:,} compactions, {totals.moved:,} files moved, {totals.made:,} made; {seconds:.1f} s"
    print(summary, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
