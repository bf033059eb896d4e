"""Levels and sections of files, against definitions written out."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketlake.errors import CorruptError, InvalidError
from bucketlake.format.metadata.manifest import DataFile, SimpleStats
from bucketlake.lsm.keys import Bound
from bucketlake.lsm.levels import Levels, SortedRun, sections

from .model import examples

STATS = SimpleStats(b"", b"", None)


def file(
    name: str, low: int, high: int, level: int = 0, sequence: tuple[int, int] = (0, 0), created: int = 0
) -> DataFile:
    keys = [value.to_bytes(8, "big") for value in (low, high)]
    return DataFile(
        file_name=name, file_size=100 + high - low, row_count=high - low + 1, min_key=keys[0], max_key=keys[1],
        key_stats=STATS, value_stats=STATS, min_sequence_number=sequence[0], max_sequence_number=sequence[1],
        schema_id=0, level=level, creation_time=created,
    )  # fmt: skip


def key_range(one: DataFile) -> tuple[Bound, Bound]:
    return (int.from_bytes(one.min_key, "big"),), (int.from_bytes(one.max_key, "big"),)


FILES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 15), st.integers(0, 9)), max_size=25).map(
    lambda drawn: [file(f"f{i}", low, low + span, sequence=(0, top)) for i, (low, span, top) in enumerate(drawn)]
)


@examples
@given(files=FILES)
def test_sections_do_not_meet_and_have_the_fewest_runs(files: list[DataFile]) -> None:
    found = sections(files, key_range)
    assert sorted(f.file_name for part in found for run in part for f in run.files) == sorted(
        f.file_name for f in files
    )
    spans = []
    for part in found:
        members = [key_range(f) for run in part for f in run.files]
        spans.append((min(low for low, _ in members), max(high for _, high in members)))
        depth = max(sum(low <= (point,) <= high for low, high in members) for point in range(76))
        assert len(part) == depth
        for run in part:
            assert all(key_range(a)[1] < key_range(b)[0] for a, b in pairwise(run.files))
        assert [run.max_sequence_number for run in part] == sorted(run.max_sequence_number for run in part)
        for low, high in pairwise(sorted(members)):
            reach = max(end for start, end in members if start <= low[0])
            assert high[0] <= reach, "a section cannot be cut"
    assert all(a[1] < b[0] for a, b in pairwise(spans))


def test_touching_ranges_meet() -> None:
    assert [len(part) for part in sections([file("a", 0, 5), file("b", 5, 9), file("c", 10, 11)], key_range)] == [2, 1]


def test_no_files_no_sections() -> None:
    assert sections([], key_range) == []


def test_level_zero_lies_newest_first() -> None:
    files = [
        file("b", 0, 1, sequence=(3, 9)),
        file("old", 0, 1, sequence=(0, 4)),
        file("a", 0, 1, sequence=(3, 9)),
        file("early", 0, 1, sequence=(2, 9)),
        file("younger", 0, 1, sequence=(3, 9), created=7),
    ]
    levels = Levels.of(files, key_range)
    assert [f.file_name for f in levels.level0] == ["early", "a", "b", "younger", "old"]
    assert [level for level, _ in levels.sorted_runs()] == [0] * 5


def test_higher_levels_are_one_run_each_in_key_order() -> None:
    files = [file("d", 7, 9, 5), file("c", 0, 3, 5), file("x", 0, 9, 2), file("z", 4, 5, 0)]
    levels = Levels.of(files, key_range, num_levels=3)
    assert levels.max_level == 5
    assert levels.highest_filled == 5
    assert [(level, [f.file_name for f in run.files]) for level, run in levels.sorted_runs()] == [
        (0, ["z"]), (2, ["x"]), (5, ["c", "d"]),
    ]  # fmt: skip
    assert [f.file_name for f in levels.files()] == ["z", "x", "c", "d"]
    assert levels.size == sum(f.file_size for f in files)
    assert levels.runs[4] == SortedRun((files[1], files[0]))
    assert (levels.runs[4].size, levels.runs[4].row_count) == (205, 7)


def test_empty_levels() -> None:
    levels = Levels.of([], key_range, num_levels=6)
    assert (levels.max_level, levels.highest_filled, levels.size, levels.files()) == (5, -1, 0, [])


def test_update_moves_files_between_levels() -> None:
    one, two = file("one", 0, 5), file("two", 3, 9)
    levels = Levels.of([one, two], key_range, num_levels=3)
    assert levels.highest_filled == 0
    done = levels.update([one, two], [file("all", 0, 9, 2)])
    assert [f.file_name for f in done.files()] == ["all"]
    upgraded = Levels.of([one], key_range, num_levels=3).update([one], [file("one", 0, 5, 2)])
    assert [(level, f.file_name) for level, run in upgraded.sorted_runs() for f in run.files] == [(2, "one")]
    assert [f.file_name for f in levels.files()] == ["one", "two"], "the old value is untouched"


def test_overlap_above_level_zero_is_corrupt() -> None:
    with pytest.raises(CorruptError, match="'a', 'b'"):
        Levels.of([file("b", 5, 9, 1), file("a", 0, 5, 1)], key_range)


def test_levels_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidError, match="too few levels"):
        Levels.of([], key_range, num_levels=1)
    with pytest.raises(InvalidError, match="no such level"):
        Levels.of([], key_range).update([], [file("a", 0, 1, 3)])


def test_a_hundred_thousand_files_in_many_sections() -> None:
    files = [file(f"f{i}", 10 * (i // 2), 10 * (i // 2) + 5 + i % 2, sequence=(i, i)) for i in range(100_000)]
    found = sections(files, key_range)
    assert len(found) == 50_000
    assert all(len(part) == 2 for part in found)
