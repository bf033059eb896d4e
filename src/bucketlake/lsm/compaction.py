"""Which sorted runs of a bucket to merge, and what becomes of each file: pure functions of metadata.

    CompactionRule.of(options)                       the options that decide, typed
    pick(levels, rule, moment, …) -> CompactionPick | None        the runs to merge next
    plan_task(pick, levels, rule) -> TaskPlan        its files: moved to another level, rewritten, or left alone
    upgrade_of(file, …) -> Upgrade                   what moving a file asks for: nothing, a changelog, new bytes
    tracks_changes(sections, …) -> bool              whether rewriting these sections must look at old rows
    full_is_due(rule, identifier) -> bool            `full-compaction.delta-commits`

Every decision is Apache Paimon's, down to the arithmetic, so that both may compact one table in turns.

Spec: docs/spec/compaction.md
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import Enum
from itertools import pairwise

from bucketlake.errors import InvalidError
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.metadata.snapshot import BATCH_COMMIT_IDENTIFIER
from bucketlake.lsm.levels import Levels, SortedRun, sections
from bucketlake.options.options import TableOptions
from bucketlake.values import dataclass

__all__ = [
    "CompactionPick",
    "CompactionRule",
    "Moment",
    "OffPeak",
    "Section",
    "TaskPlan",
    "Upgrade",
    "full_is_due",
    "last_full_of",
    "looks_up",
    "pick",
    "plan_task",
    "tracks_changes",
    "upgrade_of",
]

Section = tuple[SortedRun, ...]
Run = tuple[int, SortedRun]

TARGET_FILE_SIZE = 128 << 20
HOUR = 3_600_000
INT_MAX = (1 << 31) - 1
MOST_LEVELS = 1000  # a trigger may be set out of reach: levels are still few


def _never(_: DataFile) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class OffPeak:
    """Quiet hours, from `start` up to but without `end` (over midnight if start > end), and the percent they add to the
    size ratio."""

    start: int
    end: int
    ratio: int

    def ratio_at(self, hour: int) -> int:
        """Percent to add at this hour (0 to 23)."""
        inside = self.start <= hour < self.end if self.start <= self.end else hour < self.end or hour >= self.start
        return self.ratio if inside else 0


@dataclass(frozen=True, slots=True)
class CompactionRule:
    """The options of a primary-key table that decide what is compacted and how.

    Sizes in bytes, times in milliseconds, ratios in percent; None: the rule does not apply. `small_size`: files below
    it are rewritten together with their neighbours. `raises_level_0`: if nothing else is due, level 0 is taken in;
    `raise_interval`: only every so many rounds. `lookup`: compaction looks up old rows (for changelog, deletion
    vectors, first-row, force-lookup). `newest_wins`: a newer row replaces all older ones whole. `level_formats`:
    (level, format) where it differs from `default_format`. `keeps_deletes`: rows that take others back stay even where
    no older row lies below: of a chain table, they take back rows of other partitions.
    Spec: docs/spec/compaction.md#options
    """

    size_amplification: int = 200
    size_ratio: int = 1
    run_trigger: int = 5
    stop_trigger: int = 8
    num_levels: int = 6
    small_size: int = 93_952_409
    off_peak: OffPeak | None = None
    full_interval: int | None = None
    total_size: int | None = None
    incremental_size: int | None = None
    delta_commits: int | None = None
    raises_level_0: bool = False
    raise_interval: int | None = None
    rewrites_all: bool = False
    deletion_vectors: bool = False
    lookup: bool = False
    full_changelog: bool = False
    newest_wins: bool = True
    default_format: str = "parquet"
    level_formats: tuple[tuple[int, str], ...] = ()
    keeps_deletes: bool = False

    @classmethod
    def of(cls, options: TableOptions) -> CompactionRule:
        """The rule that a primary-key table's options set.

        Raises InvalidError naming option and value.
        """
        get = options.get
        trigger = int(get("num-sorted-run.compaction-trigger"))
        stop, levels = get("num-sorted-run.stop-trigger"), get("num-levels")
        lookup = looks_up(options)
        target = get("target-file-size") or TARGET_FILE_SIZE
        formats = get("file.format.per.level") or {}
        return cls(
            size_amplification=get("compaction.max-size-amplification-percent"),
            size_ratio=get("compaction.size-ratio"),
            run_trigger=trigger,
            stop_trigger=max(trigger, min(trigger + 3, INT_MAX) if stop is None else stop),
            num_levels=_checked_levels(min(trigger + 1, MOST_LEVELS) if levels is None else levels),
            small_size=int(target * get("compaction.small-file-ratio")),
            off_peak=_off_peak(options),
            full_interval=get("compaction.optimization-interval"),
            total_size=get("compaction.total-size-threshold"),
            incremental_size=get("compaction.incremental-size-threshold"),
            delta_commits=get("full-compaction.delta-commits"),
            raises_level_0=lookup or bool(get("compaction.force-up-level-0")),
            raise_interval=_raise_interval(options, trigger) if lookup else None,
            rewrites_all=bool(get("compaction.force-rewrite-all-files")),
            deletion_vectors=bool(get("deletion-vectors.enabled")),
            lookup=lookup,
            full_changelog=get("changelog-producer") == "full-compaction",
            newest_wins=get("merge-engine") == "deduplicate" and not options.names("sequence.field"),
            default_format=get("file.format"),
            level_formats=tuple(sorted((int(level), name) for level, name in formats.items())),
            keeps_deletes=bool(get("chain-table.enabled")),
        )

    def format_of(self, level: int) -> str:
        """The file format of data files of a level."""
        return dict(self.level_formats).get(level, self.default_format)


def looks_up(options: TableOptions) -> bool:
    """Whether a compaction looks up what was before a row that comes from level 0."""
    get = options.get
    asked = get("changelog-producer") == "lookup" or get("merge-engine") == "first-row"
    return asked or bool(get("deletion-vectors.enabled") or get("force-lookup"))


def _checked_levels(count: int) -> int:
    if count < 2:
        raise InvalidError("too few levels", option="num-levels", value=count, remedy="set num-levels to 2 or more")
    if count > MOST_LEVELS:
        remedy = f"set num-levels to {MOST_LEVELS} or less"
        raise InvalidError("too many levels", option="num-levels", value=count, remedy=remedy)
    return count


def _off_peak(options: TableOptions) -> OffPeak | None:
    start, end = options.get("compaction.offpeak.start.hour"), options.get("compaction.offpeak.end.hour")
    if -1 in (start, end) or start == end:
        return None
    return OffPeak(start, end, options.get("compaction.offpeak-ratio"))


def _raise_interval(options: TableOptions, trigger: int) -> int | None:
    if options.get("lookup-compact") != "gentle":
        return None
    interval = options.get("lookup-compact.max-interval")
    return max(trigger, min(trigger * 2, INT_MAX) if interval is None else interval)


@dataclass(frozen=True, slots=True)
class Moment:
    """What a pick depends on beside files and options.

    `now`: milliseconds of the local wall clock, as `DataFile.creation_time`; the hour of the day is taken from it.
    `last_full`: when the bucket was last compacted in full, on the same clock; None: when the youngest file of the top
    level was made. `skipped`: rounds since level 0 was last taken in by force, this one not counted; None: as many as
    level 0 has files beyond the newest (a round adds one or more).
    """

    now: int
    last_full: int | None = None
    skipped: int | None = None

    @property
    def hour(self) -> int:
        """Hour of the day, 0 to 23."""
        return self.now // HOUR % 24


@dataclass(frozen=True, slots=True)
class CompactionPick:
    """Files of adjacent runs, newest run first, to merge into `output_level`. `drop_deletes`: no older row lies below.
    `each`: every file is rewritten by itself, whatever its size. `sinks`: the files of level 0 behind the picked ones,
    which go to the top level as they are."""

    files: tuple[DataFile, ...]
    output_level: int
    drop_deletes: bool
    each: bool = False
    sinks: tuple[DataFile, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """What becomes of a pick's files. `upgrade`: change their level, see `upgrade_of`. `rewrite`: groups of sections;
    each group is merged section after section through one writer, into files of the output level. Files of the pick in
    neither stay as they are. Sections ascend by key, their runs are listed oldest first."""

    upgrade: tuple[DataFile, ...]
    rewrite: tuple[tuple[Section, ...], ...]


class Upgrade(Enum):
    """What it takes to move a file to another level."""

    MOVE = "move"
    MOVE_WITH_CHANGELOG = "move, its rows read for changelog and deletion vectors"
    REWRITE_WITH_CHANGELOG = "rewrite by itself, with changelog and deletion vectors"


def pick(
    levels: Levels,
    rule: CompactionRule,
    moment: Moment,
    *,
    full: bool = False,
    expired: Callable[[DataFile], bool] = _never,
    marked: Collection[str] = (),
) -> CompactionPick | None:
    """Choose the runs to merge next, or None if nothing is to be done.

    Requires: `levels` holds every live file of one bucket, `Levels.of(files, key_range, rule.num_levels)`.
    `full`: everything into the top level; a bucket that has only the top level gives just the files that need it: those
    with rows that `expired`, those with a deletion vector (names in `marked`), all with `rewrites_all`.
    Ensures: picked runs are adjacent and begin with the newest, `sinks` is the one behind them; None rather than a pick
    that changes nothing.
    Spec: docs/spec/compaction.md#picking
    """
    runs = _runs_of(levels)
    if not runs:
        return None
    if full:
        return _pick_full(levels, runs, rule, expired, marked)
    found = _pick_universal(levels, runs, rule, moment, expired)
    if found is None and _raise_is_due(levels, rule, moment):
        found = _pick_level_0(levels, runs, rule, moment)
    if found is None or (len(found.files) == 1 and found.files[0].level == found.output_level):
        return None
    return found


def _runs_of(levels: Levels) -> list[Run]:
    """The sorted runs of a bucket, newest first. What the tasks of one commit wrote side by side, numbered alike and
    without a key in common, is one run, as if one task had written it."""
    count = len(levels.level0)
    runs = levels.sorted_runs()
    found: list[Run] = []
    at = 0
    while at < count:
        end, least = at + 1, levels.level0[at].min_sequence_number
        while end < count and levels.level0[end].max_sequence_number >= least:
            least = min(least, levels.level0[end].min_sequence_number)
            end += 1
        beside = levels.level0[at:end]
        ranged = sorted((*levels.key_range(file), file.file_name, file) for file in beside) if len(beside) > 1 else []
        if not ranged or any(two[0] <= one[1] for one, two in pairwise(ranged)):
            found += runs[at:end]
        else:
            found.append((0, SortedRun(tuple(item[3] for item in ranged))))
        at = end
    return found + runs[count:]


def full_is_due(rule: CompactionRule, identifier: int = BATCH_COMMIT_IDENTIFIER) -> bool:
    """Whether the commit of this identifier compacts every bucket it or an earlier one touched in full.

    `full-compaction.delta-commits` n: batch commits always, of a stream's, which are numbered from 0 on, every n-th.
    The changelog producer full-compaction counts as n = 1 where the option is not set.
    Spec: docs/spec/compaction.md#full-compaction
    """
    if rule.delta_commits is None and not rule.full_changelog:
        return False
    return identifier == BATCH_COMMIT_IDENTIFIER or (identifier + 1) % max(rule.delta_commits or 1, 1) == 0


def last_full_of(levels: Levels, rule: CompactionRule) -> int | None:
    """When the youngest file of the top level was made, milliseconds of the local wall clock; None if it has none."""
    top = [file for run in levels.runs[rule.num_levels - 2 : rule.num_levels - 1] for file in run.files]
    return max((file.creation_time for file in top if file.creation_time is not None), default=None)


def _pick_full(
    levels: Levels,
    runs: Sequence[Run],
    rule: CompactionRule,
    expired: Callable[[DataFile], bool],
    marked: Collection[str],
) -> CompactionPick | None:
    top = levels.max_level
    if len(runs) > 1 or runs[0][0] != top:
        return _unit(levels, rule, runs, top)
    files = [file for file in runs[0][1].files if rule.rewrites_all or expired(file) or file.file_name in marked]
    drops = not rule.keeps_deletes
    return CompactionPick(tuple(files), top, drop_deletes=drops, each=True) if files else None


def _pick_universal(
    levels: Levels, runs: Sequence[Run], rule: CompactionRule, moment: Moment, expired: Callable[[DataFile], bool]
) -> CompactionPick | None:
    """Early full compaction, size amplification, size ratio, number of runs, in this order."""
    top, sizes = levels.max_level, [run.size for _, run in runs]
    if _early_full(levels, runs, rule, moment):
        return _unit(levels, rule, runs, top)
    if len(runs) < rule.run_trigger:
        return None
    if _int64(sum(sizes[:-1]) * 100) > _int64(rule.size_amplification * sizes[-1]):
        return _unit(levels, rule, runs, top)
    count = _extended(sizes, 1, rule, moment)
    if count == 1 and len(runs) > rule.run_trigger:
        count = _extended(sizes, len(runs) - rule.run_trigger + 1, rule, moment)
    if count <= 1:
        return None
    return _above_sunk(levels, rule, runs, count, expired) or _unit_of(levels, rule, runs, count)


def _early_full(levels: Levels, runs: Sequence[Run], rule: CompactionRule, moment: Moment) -> bool:
    if len(runs) == 1:
        return False
    if rule.full_interval is not None:
        last = last_full_of(levels, rule) if moment.last_full is None else moment.last_full
        if last is None or moment.now - last > rule.full_interval:
            return True
    if rule.total_size is not None and levels.size < rule.total_size:
        return True
    if rule.incremental_size is None:
        return False
    return sum(run.size for level, run in runs if level != levels.max_level) > rule.incremental_size


def _raise_is_due(levels: Levels, rule: CompactionRule, moment: Moment) -> bool:
    if not rule.raises_level_0:
        return False
    skipped = max(len(levels.level0) - 1, 0) if moment.skipped is None else moment.skipped
    return rule.raise_interval is None or skipped + 1 >= rule.raise_interval


def _pick_level_0(levels: Levels, runs: Sequence[Run], rule: CompactionRule, moment: Moment) -> CompactionPick | None:
    """All of level 0, with level 1, for the result must not lie in level 0, and what the size ratio adds."""
    count = sum(level == 0 for level, _ in runs)
    if count == 0:
        return None
    if count < len(runs) and runs[count][0] == 1:
        count += 1
    return _unit_of(levels, rule, runs, _extended([run.size for _, run in runs], count, rule, moment))


def _extended(sizes: Sequence[int], count: int, rule: CompactionRule, moment: Moment) -> int:
    """How many runs join if the first `count` do: each next one that is no larger, by ratio, than all before it."""
    percent = 100.0 + rule.size_ratio + (rule.off_peak.ratio_at(moment.hour) if rule.off_peak else 0)
    size = sum(sizes[:count])
    for following in sizes[count:]:
        if float(size) * percent / 100.0 < float(following):
            break
        size += following
        count += 1
    return count


def _above_sunk(
    levels: Levels, rule: CompactionRule, runs: Sequence[Run], count: int, expired: Callable[[DataFile], bool]
) -> CompactionPick | None:
    """The first `count` runs, where all that is left is what several tasks loaded into the empty bucket: that goes to
    the top level as it is, instead of being merged with what is smaller because it lies in level 0."""
    top = levels.max_level
    if count != len(runs) - 1 or runs[count][0] != 0 or top < 2:
        return None
    loaded = runs[count][1].files
    told = rule.lookup or rule.full_changelog or rule.rewrites_all
    if told or len(loaded) < 2 or any(file.delete_row_count != 0 or expired(file) for file in loaded):
        return None
    picked = tuple(file for _, run in runs[:count] for file in run.files)
    return CompactionPick(picked, top - 1, drop_deletes=False, sinks=loaded)


def _unit_of(levels: Levels, rule: CompactionRule, runs: Sequence[Run], count: int) -> CompactionPick:
    """The first `count` runs, into the level above the next run; as many more as it takes to leave level 0."""
    output = levels.max_level if count == len(runs) else max(0, runs[count][0] - 1)
    while output == 0 and count < len(runs):
        output = runs[count][0]
        count += 1
    if count == len(runs):
        output = levels.max_level
    return _unit(levels, rule, runs[:count], output)


def _unit(levels: Levels, rule: CompactionRule, runs: Sequence[Run], output: int) -> CompactionPick:
    """Spec: docs/spec/compaction.md#deletes"""
    lowest = output >= levels.highest_filled
    drop = output != 0 and (lowest or rule.deletion_vectors) and not rule.keeps_deletes
    return CompactionPick(tuple(file for _, run in runs for file in run.files), output, drop)


def _int64(value: int) -> int:
    """The value that 64 bits in two's complement keep of it."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def plan_task(
    picked: CompactionPick,
    levels: Levels,
    rule: CompactionRule,
    *,
    expired: Callable[[DataFile], bool] = _never,
) -> TaskPlan:
    """Split a pick into files that change their level as they are and sections that are merged into new ones.

    Requires: `levels` is what the pick was made from. `expired`: whether a file has rows past their time.
    Ensures: a file of `small_size` or more that meets no other in keys is not rewritten, unless it holds deletes and
    goes to the top level, or expired rows, or the rule `rewrites_all`; smaller ones join their neighbours.
    Spec: docs/spec/compaction.md#tasks
    """
    if picked.each:
        return TaskPlan((), tuple(((SortedRun((file,)),),) for file in picked.files))
    upgrade: list[DataFile] = []
    rewrite: list[tuple[Section, ...]] = []
    group: list[Section] = []

    def settle(file: DataFile) -> None:
        deletes = file.delete_row_count is None or file.delete_row_count > 0
        if (picked.output_level == levels.max_level and deletes) or rule.rewrites_all or expired(file):
            rewrite.append(((SortedRun((file,)),),))
        elif file.level != picked.output_level:
            upgrade.append(file)

    def close() -> None:
        if len(group) == 1 and len(group[0]) == 1:
            for file in group[0][0].files:
                settle(file)
        elif group:
            rewrite.append(tuple(group))
        group.clear()

    for section in sections(picked.files, levels.key_range):
        if len(section) > 1:
            group.append(tuple(section))
            continue
        for file in section[0].files:
            if file.file_size < rule.small_size:
                group.append((SortedRun((file,)),))
            else:
                close()
                settle(file)
    close()
    return TaskPlan(tuple(upgrade), tuple(rewrite))


def upgrade_of(file: DataFile, output_level: int, max_level: int, rule: CompactionRule) -> Upgrade:
    """What moving `file` to `output_level` takes; `max_level`: the bucket's highest.

    REWRITE_WITH_CHANGELOG drops deletes from the file exactly if the table has deletion vectors and does not keep them.
    Spec: docs/spec/compaction.md#upgrades
    """
    if rule.full_changelog:
        return Upgrade.MOVE_WITH_CHANGELOG if output_level == max_level else Upgrade.MOVE
    if not rule.lookup or file.level != 0:
        return Upgrade.MOVE
    if rule.format_of(0) != rule.format_of(output_level):
        return Upgrade.REWRITE_WITH_CHANGELOG
    deletes = file.delete_row_count is None or file.delete_row_count > 0
    if rule.deletion_vectors and deletes:
        return Upgrade.REWRITE_WITH_CHANGELOG
    if output_level == max_level or rule.newest_wins:
        return Upgrade.MOVE_WITH_CHANGELOG
    return Upgrade.REWRITE_WITH_CHANGELOG


def tracks_changes(group: Sequence[Section], output_level: int, max_level: int, rule: CompactionRule) -> bool:
    """Whether rewriting `group` must find out what changes: for a changelog or for deletion vectors below.

    Changelog producer full-compaction: into the top level. With lookup: when a file of level 0 is among them.
    Spec: docs/spec/compaction.md#upgrades
    """
    if rule.full_changelog:
        return output_level == max_level
    if not rule.lookup or output_level == 0:
        return False
    return any(file.level == 0 for section in group for run in section for file in run.files)
