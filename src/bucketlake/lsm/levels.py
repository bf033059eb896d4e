"""Which files of a bucket lie where: levels, sorted runs, and sections that do not overlap. Metadata only.

    SortedRun(files)                       .size, .row_count
    Levels.of(files, key_range, num_levels=2)   .level0 (newest first), .runs, .sorted_runs(), .update(before, after) …
    sections(files, key_range) -> list[list[SortedRun]]     sections ascend by key; runs of one oldest first
    KeyRange = Callable[[DataFile], tuple[Bound, Bound]]    (min, max) of a file: key_range_of(key fields)
    file_ranges(schema) -> KeyRange | None                  None where files are not in the order of the key

Spec: docs/spec/merge.md#levels
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from heapq import heappop, heappush
from itertools import pairwise

from bucketlake.errors import CorruptError, InvalidError
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.row.binary_row import without_arity_header
from bucketlake.format.row.order import ranked_row
from bucketlake.lsm.keys import Bound
from bucketlake.schema.schema import TableSchema
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

__all__ = ["KeyRange", "Levels", "SortedRun", "file_ranges", "key_range_of", "sections"]

KeyRange = Callable[[DataFile], tuple[Bound, Bound]]
FEW = 16  # a level this many times larger than what joins it is not sorted anew


def key_range_of(fields: Sequence[DataField]) -> KeyRange:
    """How to read a file's first and last key, given the key fields, as values that compare in key order.

    It raises CorruptError naming the file whose keys are cut short.
    """
    types = [field.type for field in fields]

    def key_range(file: DataFile) -> tuple[Bound, Bound]:
        try:
            low = ranked_row(without_arity_header(file.min_key), types)
            return low, ranked_row(without_arity_header(file.max_key), types)
        except CorruptError as error:
            raise CorruptError(error.what, file=file.file_name, **error.details) from error

    return key_range


def file_ranges(schema: TableSchema) -> KeyRange | None:
    """How to read the key range of a file of keyed rows; None where files are in another order than the key's."""
    return None if schema.clustered else key_range_of(schema.key_fields)


@dataclass(frozen=True, slots=True)
class SortedRun:
    """Files whose key ranges do not overlap, ascending by key: one sorted sequence of rows. `size`: their bytes."""

    files: tuple[DataFile, ...] = ()
    size: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", sum([file.file_size for file in self.files]))

    @property
    def row_count(self) -> int:
        """Rows of its files."""
        return sum(file.row_count for file in self.files)

    @property
    def max_sequence_number(self) -> int:
        """The greatest sequence number in it; -1 if it is empty."""
        return max((file.max_sequence_number for file in self.files), default=-1)


@dataclass(frozen=True, slots=True)
class Levels:
    """The live files of one bucket. `level0`: every file a run of its own, newest first; `runs[i]`: level i + 1."""

    level0: tuple[DataFile, ...]
    runs: tuple[SortedRun, ...]
    key_range: KeyRange

    @classmethod
    def of(cls, files: Iterable[DataFile], key_range: KeyRange, num_levels: int = 2) -> Levels:
        """Sort files into at least `num_levels` levels, more if a file lies higher.

        Raises InvalidError for fewer than 2 levels, CorruptError naming two files of one level above 0 that overlap.
        """
        listed = list(files)
        count = max(num_levels, 1 + max((file.level for file in listed), default=-1))
        if count < 2:
            raise InvalidError("too few levels", num_levels=num_levels, remedy="set num-levels to 2 or more")
        return cls((), (SortedRun(),) * (count - 1), key_range).update((), listed)

    @property
    def max_level(self) -> int:
        """The number of the highest level, filled or not."""
        return len(self.runs)

    @property
    def highest_filled(self) -> int:
        """The highest level that has files; -1 if there are none."""
        for level in range(len(self.runs), 0, -1):
            if self.runs[level - 1].files:
                return level
        return 0 if self.level0 else -1

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.file_size for file in self.level0) + sum(run.size for run in self.runs)

    def files(self) -> list[DataFile]:
        """All files, newest run first."""
        return [*self.level0, *(file for run in self.runs for file in run.files)]

    def sorted_runs(self) -> list[tuple[int, SortedRun]]:
        """(level, run) of every run that has files, newest first: level 0 file by file, then level by level."""
        fresh = [(0, SortedRun((file,))) for file in self.level0]
        return fresh + [(level, run) for level, run in enumerate(self.runs, 1) if run.files]

    def update(self, before: Iterable[DataFile], after: Iterable[DataFile]) -> Levels:
        """The levels without `before` and with `after`; files are told apart by name and level.

        Raises CorruptError naming two files of one level above 0 that overlap, InvalidError for a level out of range.
        """
        gone: dict[int, set[str]] = {}
        come: dict[int, list[DataFile]] = {}
        for file in before:
            gone.setdefault(file.level, set()).add(file.file_name)
        for file in after:
            come.setdefault(file.level, []).append(file)
        touched = gone.keys() | come.keys()
        outside = [level for level in touched if not 0 <= level <= self.max_level]
        if outside:
            raise InvalidError("no such level", level=outside[0], max_level=self.max_level, remedy="raise num-levels")
        level0, runs = self.level0, list(self.runs)
        for level in touched:
            names, added = gone.get(level, ()), come.get(level, [])
            old = level0 if level == 0 else runs[level - 1].files
            kept = [file for file in old if file.file_name not in names] if names else list(old)
            if level == 0:
                level0 = tuple(sorted(kept + added, key=_newest_first) if added else kept)
            else:
                runs[level - 1] = _run_of(kept, added, self.key_range)
        return Levels(level0, tuple(runs), self.key_range)


def sections(files: Iterable[DataFile], key_range: KeyRange) -> list[list[SortedRun]]:
    """Split files into sections whose key ranges do not meet, each into as few sorted runs as can be.

    Ensures: sections ascend by key; the runs of a section are listed oldest first (by greatest sequence number), ready
    for `merge_runs`; a section of one run needs no merge.
    Spec: docs/spec/merge.md#sections
    """
    ranged = sorted((*key_range(file), number, file) for number, file in enumerate(files))
    found: list[list[SortedRun]] = []
    section: list[tuple[Bound, Bound, int, DataFile]] = []
    reach: Bound = ()
    for item in ranged:
        if section and item[0] > reach:
            found.append(_runs_of(section))
            section = []
        reach = max(reach, item[1]) if section else item[1]
        section.append(item)
    if section:
        found.append(_runs_of(section))
    return found


def _runs_of(section: Sequence[tuple[Bound, Bound, int, DataFile]]) -> list[SortedRun]:
    """Give each file, by ascending key, to the run that ends first, if it ends before the file begins."""
    ends: list[tuple[Bound, int]] = []
    runs: list[list[DataFile]] = []
    for low, high, _, file in section:
        if ends and ends[0][0] < low:
            _, number = heappop(ends)
        else:
            number = len(runs)
            runs.append([])
        runs[number].append(file)
        heappush(ends, (high, number))
    return sorted((SortedRun(tuple(run)) for run in runs), key=lambda run: run.max_sequence_number)


def _newest_first(file: DataFile) -> tuple[int, int, int, str]:
    """Level 0's order; all but the first part tells apart what two writers numbered alike."""
    return (-file.max_sequence_number, file.min_sequence_number, file.creation_time or 0, file.file_name)


def _run_of(kept: list[DataFile], added: Sequence[DataFile], key_range: KeyRange) -> SortedRun:
    """The run of `kept`, which is in order, and `added`. Few files find their place by bisection: reading the keys of
    every file costs more than all else where a level has thousands."""
    if not added:
        return SortedRun(tuple(kept))
    if len(kept) > FEW * len(added):
        for file in added:
            _insert(kept, file, key_range)
        return SortedRun(tuple(kept))
    ranged = sorted((*key_range(file), number, file) for number, file in enumerate((*kept, *added)))
    for one, two in pairwise(ranged):
        if two[0] <= one[1]:
            raise _overlap(one[3], two[3])
    return SortedRun(tuple(item[3] for item in ranged))


def _insert(files: list[DataFile], file: DataFile, key_range: KeyRange) -> None:
    low, high = key_range(file)
    at = bisect_left(files, low, key=lambda other: key_range(other)[0])
    if at > 0 and key_range(files[at - 1])[1] >= low:
        raise _overlap(files[at - 1], file)
    if at < len(files) and key_range(files[at])[0] <= high:
        raise _overlap(file, files[at])
    files.insert(at, file)


def _overlap(one: DataFile, two: DataFile) -> CorruptError:
    return CorruptError("two files of one level overlap in keys", level=one.level, files=(one.file_name, two.file_name))
