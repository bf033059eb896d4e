"""What Apache Paimon 2.0.0 compacted, as metadata: every commit of tables that Flink wrote, pinned by checksum.

`traces()` gives the tables, `replay(trace)` feeds each of its commits to the policy and says where the two differ.
`python -m tests.corpus.make_picks` makes the archive; `tests.corpus.pick_cases` defines the tables.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bucketlake.format.metadata.manifest import DataFile, SimpleStats
from bucketlake.lsm.compaction import CompactionRule, Moment, Upgrade, full_is_due, pick, plan_task, upgrade_of
from bucketlake.lsm.keys import Bound
from bucketlake.lsm.levels import Levels
from bucketlake.options.options import TableOptions

HERE = Path(__file__).parent
ARCHIVE = HERE / "picks-paimon-2.0.0.json.gz"
SUMS = HERE / "PICKS-SHA256SUMS"
NO_STATS = SimpleStats(b"", b"", None)
FIELDS = (
    "file_size", "row_count", "delete_row_count", "min_key", "max_key", "min_sequence_number", "max_sequence_number",
    "creation_time",
)  # fmt: skip

Place = tuple[str, int]


@dataclass(frozen=True)
class Change:
    """What one snapshot did: places, names and levels of the files it removed, and the files it added with `FIELDS`."""

    removed: list[list[Any]] = field(default_factory=list)
    added: list[list[Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Step:
    """One statement. `kind`: write, write-only, full or minor; `now`: wall clock in milliseconds; `marked`: names of
    files with deletion vectors before the compaction; `compact` None: it made no COMPACT snapshot."""

    kind: str
    now: int
    append: Change | None = None
    compact: Change | None = None
    marked: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Trace:
    """One table: options and steps. `places` are (partition, bucket); files name theirs by position."""

    name: str
    covers: str
    options: dict[str, str]
    places: list[Place]
    steps: list[Step]

    @property
    def compactions(self) -> int:
        """How many steps compacted something."""
        return sum(step.compact is not None for step in self.steps)


def traces() -> list[Trace]:
    """Every table of the archive; one that was changed is refused."""
    digest, name = SUMS.read_text().split()
    data = ARCHIVE.read_bytes()
    if name != ARCHIVE.name or hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"{ARCHIVE.name}: its sha256 is not that of {SUMS.name}")
    return [_trace(json.loads(line)) for line in gzip.decompress(data).splitlines()]


def save(made: Iterable[Trace]) -> None:
    """Write the archive and its digest."""
    lines = [json.dumps(asdict(trace), separators=(",", ":")) for trace in made]
    ARCHIVE.write_bytes(gzip.compress("\n".join(lines).encode(), compresslevel=9, mtime=0))
    SUMS.write_text(f"{hashlib.sha256(ARCHIVE.read_bytes()).hexdigest()}  {ARCHIVE.name}\n")


def _trace(found: dict[str, Any]) -> Trace:
    steps = [
        Step(**{**step, **{side: Change(**step[side]) for side in ("append", "compact") if step[side] is not None}})
        for step in found["steps"]
    ]
    return Trace(**{**found, "steps": steps, "places": [(part, bucket) for part, bucket in found["places"]]})


def key_range(file: DataFile) -> tuple[Bound, Bound]:
    """The keys of a trace are integers."""
    low, high = (int.from_bytes(key, "big", signed=True) for key in (file.min_key, file.max_key))
    return (low,), (high,)


def _file(row: Sequence[Any]) -> DataFile:
    values = dict(zip(FIELDS, row[3:], strict=True))
    values |= {key: values[key].to_bytes(8, "big", signed=True) for key in ("min_key", "max_key")}
    return DataFile(
        file_name=row[1], level=row[2], key_stats=NO_STATS, value_stats=NO_STATS, schema_id=0, **values
    )  # fmt: skip


@dataclass
class _Table:
    """The live files of every bucket, by place."""

    num_levels: int
    live: dict[int, dict[tuple[str, int], DataFile]] = field(default_factory=dict)

    def apply(self, change: Change) -> set[int]:
        """The places it touched."""
        for place, name, level in change.removed:
            del self.live[place][name, level]
        for row in change.added:
            self.live.setdefault(row[0], {})[row[1], row[2]] = _file(row)
        return {row[0] for row in (*change.removed, *change.added)}

    def levels(self, place: int) -> Levels:
        return Levels.of(self.live.get(place, {}).values(), key_range, self.num_levels)


def replay(trace: Trace) -> list[str]:
    """Where the policy differs from the trace: inputs, output level, or what is moved and what rewritten."""
    rule = CompactionRule.of(TableOptions(trace.options))
    table, found = _Table(rule.num_levels), []
    for number, step in enumerate(trace.steps):
        touched = table.apply(step.append) if step.append else set()
        if step.kind != "write-only":
            places = sorted(table.live) if step.kind in ("full", "minor") else sorted(touched)
            for place in places:
                expected = _by_place(step.compact, place)
                if step.kind == "write" and rule.raise_interval is not None:
                    skipped = 0  # every statement is a writer of its own and counts anew
                else:
                    skipped = None
                actual = _decide(table.levels(place), rule, step, skipped)
                if expected[2] is None and expected[0]:  # no row was left to write
                    actual = (*actual[:2], None)
                if actual != expected:
                    found.append(f"{trace.name} step {number} {step.kind} place {place}: {actual} != {expected}")
        if step.compact:
            table.apply(step.compact)
    return found


Decision = tuple[list[tuple[str, int]], list[tuple[str, int]], int | None]


def _decide(levels: Levels, rule: CompactionRule, step: Step, skipped: int | None) -> Decision:
    """(name, level) of the files that go, (name, new level) of those that only move, the level of new files."""
    full = step.kind == "full" or (step.kind == "write" and full_is_due(rule))
    chosen = pick(levels, rule, Moment(step.now, skipped=skipped), full=full, marked=step.marked)
    if chosen is None:
        return [], [], None
    plan = plan_task(chosen, levels, rule)
    rewritten = [file for group in plan.rewrite for section in group for run in section for file in run.files]
    gone = sorted((file.file_name, file.level) for file in (*plan.upgrade, *rewritten))
    top, anew = levels.max_level, Upgrade.REWRITE_WITH_CHANGELOG
    moves = [file for file in plan.upgrade if upgrade_of(file, chosen.output_level, top, rule) is not anew]
    return gone, sorted((file.file_name, chosen.output_level) for file in moves), chosen.output_level if gone else None


def _by_place(change: Change | None, place: int) -> Decision:
    removed = [row for row in change.removed if row[0] == place] if change else []
    added = [row for row in change.added if row[0] == place] if change else []
    names = {row[1] for row in removed}
    moved = sorted((row[1], row[2]) for row in added if row[1] in names)
    levels = {row[2] for row in added}
    return sorted((row[1], row[2]) for row in removed), moved, levels.pop() if len(levels) == 1 else None
