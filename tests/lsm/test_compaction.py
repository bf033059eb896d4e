"""Which runs are picked and what becomes of their files: worked examples, and what must hold of every pick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketlake.errors import InvalidError
from bucketlake.format.metadata.manifest import DataFile, SimpleStats
from bucketlake.lsm.compaction import (
    CompactionPick,
    CompactionRule,
    Moment,
    OffPeak,
    Upgrade,
    full_is_due,
    last_full_of,
    pick,
    plan_task,
    tracks_changes,
    upgrade_of,
)
from bucketlake.lsm.keys import Bound
from bucketlake.lsm.levels import Levels, SortedRun
from bucketlake.options.options import TableOptions

from .model import examples

STATS = SimpleStats(b"", b"", None)
HOUR = 3_600_000
NOON = Moment(12 * HOUR)


def file(name: str, level: int, size: int, keys: tuple[int, int] = (0, 9), *, sequence: int = 0, created: int = 0,
         deletes: int | None = 0) -> DataFile:  # fmt: skip
    low, high = (value.to_bytes(8, "big") for value in keys)
    return DataFile(
        file_name=name, file_size=size, row_count=10, min_key=low, max_key=high, key_stats=STATS, value_stats=STATS,
        min_sequence_number=sequence, max_sequence_number=sequence, schema_id=0, level=level, creation_time=created,
        delete_row_count=deletes,
    )  # fmt: skip


def key_range(one: DataFile) -> tuple[Bound, Bound]:
    return (int.from_bytes(one.min_key, "big"),), (int.from_bytes(one.max_key, "big"),)


def runs(text: str, num_levels: int = 6, *, created: int = 0) -> Levels:
    """Levels of runs of one file: "0:1 0:2 3:50" is two files of level 0, the newest first, and one of level 3."""
    parts = [tuple(map(int, part.split(":"))) for part in text.split()]
    files = [file(f"f{n}", level, size, sequence=-n, created=created) for n, (level, size) in enumerate(parts)]
    return Levels.of(files, key_range, num_levels)


def rule(**options: object) -> CompactionRule:
    """Keywords are option names, with __ for a dot and _ for a dash."""
    spelled = {key.replace("__", ".").replace("_", "-"): str(value) for key, value in options.items()}
    return CompactionRule.of(TableOptions(spelled))


def decided(picked: CompactionPick | None) -> tuple[list[int], int, bool] | None:
    return None if picked is None else ([f.file_size for f in picked.files], picked.output_level, picked.drop_deletes)


TRIGGER = {"num_sorted_run__compaction_trigger": 3}
AMPLIFIED = {"compaction__max_size_amplification_percent": 25, **TRIGGER}
LOOKUP, VECTORS = {"changelog_producer": "lookup"}, {"deletion_vectors__enabled": "true"}
DEEP = {"compaction__max_size_amplification_percent": 10**6, "num_levels": 6}


@pytest.mark.parametrize(
    ("options", "before", "expected"),
    [
        pytest.param({}, "", None, id="no files"),
        pytest.param({}, "0:1 0:1 0:1 5:1", None, id="fewer runs than the trigger"),
        pytest.param({}, "0:1 0:1 0:1 0:1 5:1", ([1, 1, 1, 1, 1], 5, True), id="amplification of 400 percent"),
        pytest.param({}, "0:50 0:50 0:50 0:50 5:100", ([50, 50, 50, 50, 100], 5, True), id="ratio takes all"),
        pytest.param({}, "0:1 0:1 0:1 0:1 5:100", ([1, 1, 1, 1], 4, False), id="all of level 0 below the top"),
        pytest.param(AMPLIFIED, "0:1 1:1 2:1 5:12", ([1, 1, 1], 4, False), id="exactly 25 percent"),
        pytest.param(AMPLIFIED, "0:1 1:1 2:2 5:12", ([1, 1, 2, 12], 5, True), id="more than 25 percent"),
        pytest.param({**TRIGGER, **DEEP}, "0:100 2:101 4:500", ([100, 101], 3, False), id="ratio of 1 percent, reached"),
        pytest.param({**TRIGGER, **DEEP}, "0:100 2:102 4:500", None, id="ratio of 1 percent, missed"),
        pytest.param(
            {**TRIGGER, **DEEP, "compaction__size_ratio": 2}, "0:100 2:102 4:500", ([100, 102], 3, False),
            id="ratio of 2 percent",
        ),
        pytest.param({**TRIGGER, **DEEP}, "0:1 2:2 3:4 5:90", ([1, 2], 2, False), id="one run too many"),
        pytest.param({**TRIGGER, **DEEP}, "0:1 1:2 2:3 5:90", ([1, 2, 3], 4, False), id="one too many, and the ratio"),
        pytest.param({**TRIGGER, **DEEP}, "0:1 0:9 2:99", None, id="three runs are not too many"),
        pytest.param({**TRIGGER, **DEEP}, "0:1 0:1 0:9 2:99", ([1, 1, 9, 99], 5, True), id="never into level 0"),
        pytest.param({**TRIGGER, **DEEP}, "0:1 0:1 0:9 1:99 2:999", ([1, 1, 9, 99], 1, False), id="level 0 ends in 1"),
        pytest.param({**TRIGGER, **DEEP}, "0:1 0:1 0:9 0:99", ([1, 1, 9, 99], 5, True), id="only level 0"),
    ],
)  # fmt: skip
def test_picks(options: dict[str, object], before: str, expected: tuple[list[int], int, bool] | None) -> None:
    assert decided(pick(runs(before), rule(**options), NOON)) == expected


def side_by_side(sequences: list[tuple[int, int]], keys: list[tuple[int, int]], **more: int) -> list[DataFile]:
    """Files of level 0 of one commit: first and last number, first and last key of each."""
    ranges = zip(sequences, keys, strict=True)
    return [
        replace(file(f"s{at}", 0, 100, key, **more), min_sequence_number=first, max_sequence_number=last)
        for at, ((first, last), key) in enumerate(ranges)
    ]


LOADED = side_by_side([(0, 9), (0, 8), (0, 7)], [(20, 29), (0, 9), (10, 19)])
UPSERTS = [file(f"u{n}", 0, 10, sequence=10 + n) for n in range(4)]


def test_files_that_tasks_wrote_side_by_side_are_one_run() -> None:
    """Numbered alike and without a key in common; else each is a run of its own, as Apache Paimon counts them."""
    options = rule()
    assert pick(Levels.of([*LOADED, *UPSERTS[:3]], key_range, 6), options, NOON) is None, "four runs of six files"
    meeting = side_by_side([(0, 9), (0, 8), (0, 7)], [(20, 29), (0, 10), (10, 19)])
    later = side_by_side([(0, 3), (4, 6), (7, 9)], [(20, 29), (0, 9), (10, 19)])
    for files in (meeting, later):
        found = pick(Levels.of([*files, *UPSERTS[:3]], key_range, 6), options, NOON)
        assert found is not None
        assert (len(found.files), found.output_level, found.sinks) == (6, 5, ())


def test_a_load_that_is_not_due_sinks_to_the_top_below_what_is_merged() -> None:
    found = pick(Levels.of([*LOADED, *UPSERTS], key_range, 6), rule(), NOON)
    assert found is not None
    assert [one.file_name for one in found.files] == ["u3", "u2", "u1", "u0"]
    assert (found.output_level, found.drop_deletes) == (4, False)
    assert [one.file_name for one in found.sinks] == ["s1", "s2", "s0"]


@pytest.mark.parametrize(
    "options",
    [LOOKUP, VECTORS, {"changelog_producer": "full-compaction"}, {"compaction__force_rewrite_all_files": "true"},
     {"num_levels": 2}],
)  # fmt: skip
def test_a_load_does_not_sink_where_files_are_not_moved_without_a_look(options: dict[str, object]) -> None:
    options = {"lookup_compact": "gentle", **options} if options is LOOKUP else options
    rules = replace(rule(**options), raises_level_0=False)
    found = pick(Levels.of([*LOADED, *UPSERTS], key_range, rules.num_levels), rules, NOON)
    assert found is not None
    assert (len(found.files), found.output_level, found.sinks) == (7, rules.num_levels - 1, ())


@pytest.mark.parametrize("deletes", [1, None])
def test_a_load_with_deletes_or_expired_rows_does_not_sink(deletes: int | None) -> None:
    withdrawn = side_by_side([(0, 9), (0, 8)], [(10, 19), (0, 9)])
    withdrawn[1] = replace(withdrawn[1], delete_row_count=deletes)
    found = pick(Levels.of([*withdrawn, *UPSERTS], key_range, 6), rule(), NOON)
    assert found is not None
    assert (len(found.files), found.sinks) == (6, ())
    found = pick(Levels.of([*LOADED, *UPSERTS], key_range, 6), rule(), NOON, expired=lambda one: one.file_name == "s1")
    assert found is not None
    assert (len(found.files), found.sinks) == (7, ())


def test_amplification_keeps_64_bits() -> None:
    options = rule(compaction__max_size_amplification_percent=2**31 - 1)
    assert pick(runs("0:1 1:3 2:9 3:27 5:4294967300"), options, NOON) is not None
    assert pick(runs("0:1 1:3 2:9 3:27 5:4294967298"), options, NOON) is None


def test_ratio_is_of_doubles() -> None:
    """2**53 + 1 is no double: the two sizes count as equal."""
    options = rule(compaction__size_ratio=0, compaction__max_size_amplification_percent=100, num_levels=6, **TRIGGER)
    size = 2**53
    assert decided(pick(runs(f"0:{size} 2:{size + 1} 5:{2**56}"), options, NOON)) == ([size, size + 1], 4, False)
    assert pick(runs(f"0:{size} 2:{size + 2} 5:{2**56}"), options, NOON) is None


@pytest.mark.parametrize(("hour", "quiet"), [(3, True), (21, False), (22, True), (23, True), (4, False)])
def test_quiet_hours_over_midnight(hour: int, quiet: bool) -> None:
    options = rule(
        compaction__offpeak__start__hour=22, compaction__offpeak__end__hour=4, compaction__offpeak_ratio=10,
        **DEEP, **TRIGGER,
    )  # fmt: skip
    found = pick(runs("0:100 2:110 4:500"), options, Moment(1000 * 24 * HOUR + hour * HOUR + 5))
    assert (found is not None) == quiet


def test_quiet_hours_within_a_day() -> None:
    peak = OffPeak(9, 17, 7)
    assert [peak.ratio_at(hour) for hour in (8, 9, 16, 17)] == [0, 7, 7, 0]
    assert rule(compaction__offpeak__start__hour=5, compaction__offpeak__end__hour=5).off_peak is None
    assert rule(compaction__offpeak__start__hour=5).off_peak is None


def test_interval_of_full_compaction() -> None:
    options = rule(compaction__optimization_interval="1 h")
    young = runs("0:1 2:5 5:1000", created=10 * HOUR)
    everything = ([1, 5, 1000], 5, True)
    assert pick(young, options, Moment(11 * HOUR)) is None
    assert decided(pick(young, options, Moment(11 * HOUR + 1))) == everything
    assert pick(young, options, Moment(12 * HOUR, last_full=11 * HOUR)) is None
    assert decided(pick(young, options, Moment(11 * HOUR, last_full=9 * HOUR))) == everything
    assert decided(pick(runs("0:1 2:5"), options, Moment(0))) == ([1, 5], 5, True), "never compacted in full"
    assert pick(runs("5:5"), options, Moment(0)) is None
    assert last_full_of(runs("0:1 4:2"), options) is None
    assert last_full_of(young, options) == 10 * HOUR


def test_sizes_of_early_full_compaction() -> None:
    small = rule(compaction__total_size_threshold="10 b")
    assert decided(pick(runs("0:1 2:3 5:5"), small, NOON)) == ([1, 3, 5], 5, True)
    assert pick(runs("0:1 2:3 5:6"), small, NOON) is None
    fresh = rule(compaction__incremental_size_threshold="10 b")
    assert pick(runs("0:7 2:3 5:500"), fresh, NOON) is None
    assert decided(pick(runs("0:8 2:3 5:500"), fresh, NOON)) == ([8, 3, 500], 5, True)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("0:1 5:500", ([1], 4, False)),
        ("0:1 0:1 0:1 5:500", ([1, 1, 1], 4, False)),
        ("0:1 1:500 5:9000", ([1, 500], 4, False)),
        ("0:1 1:5 2:7 5:9000", ([1, 5], 1, False)),
        ("0:1 1:5 2:6 5:9000", ([1, 5, 6], 4, False)),
        ("0:1", ([1], 5, True)),
        ("0:5 5:5", ([5, 5], 5, True)),
        ("4:5 5:500", None),
    ],
)
def test_forced_level_0(before: str, expected: tuple[list[int], int, bool] | None) -> None:
    for options in ({"changelog_producer": "lookup"}, {"force_lookup": "true"}, {"merge_engine": "first-row"},
                    {"compaction__force_up_level_0": "true"}):  # fmt: skip
        assert decided(pick(runs(before), rule(**options), NOON)) == expected
    assert pick(runs(before), rule(), NOON) is None
    dropped = pick(runs(before), rule(deletion_vectors__enabled="true"), NOON)
    assert dropped is None or dropped.drop_deletes, "older rows are marked, so deletes need not stay"


def test_gentle_lookup_compaction_waits() -> None:
    gentle = rule(changelog_producer="lookup", lookup_compact="gentle")
    assert gentle.raise_interval == 10
    assert (
        rule(changelog_producer="lookup", lookup_compact="gentle", lookup_compact__max_interval=2).raise_interval == 5
    )
    assert rule(lookup_compact="gentle", compaction__force_up_level_0="true").raise_interval is None
    bucket = runs("0:1 0:1 5:500")
    assert pick(bucket, gentle, NOON) is None
    assert pick(bucket, gentle, Moment(0, skipped=8)) is None
    assert decided(pick(bucket, gentle, Moment(0, skipped=9))) == ([1, 1], 4, False)
    assert pick(runs(f"{'0:9 ' * 5} 5:500"), gentle, NOON) is not None, "the other rules do not wait"


def test_gentle_without_memory_counts_files() -> None:
    gentle = rule(changelog_producer="lookup", lookup_compact="gentle", lookup_compact__max_interval=9, **DEEP,
                  num_sorted_run__compaction_trigger=9)  # fmt: skip
    descending = [f"0:{10**n}" for n in range(9)]
    assert pick(runs(" ".join(descending[:7])), gentle, NOON) is None
    assert pick(runs(" ".join(descending[:8])), gentle, NOON) is None
    assert pick(runs(" ".join(descending)), gentle, NOON) is not None


def test_full() -> None:
    assert pick(runs(""), rule(), NOON, full=True) is None
    assert decided(pick(runs("0:1"), rule(), NOON, full=True)) == ([1], 5, True)
    assert decided(pick(runs("0:1 3:9"), rule(), NOON, full=True)) == ([1, 9], 5, True)
    assert decided(pick(runs("4:9"), rule(), NOON, full=True)) == ([9], 5, True)
    assert pick(runs("5:9"), rule(), NOON, full=True) is None
    assert decided(pick(runs("0:1 7:9"), rule(), NOON, full=True)) == ([1, 9], 7, True), "levels above num-levels stay"


def test_full_over_the_top_level_alone() -> None:
    files = [file(name, 5, 10, (10 * n, 10 * n + 9)) for n, name in enumerate("abcd")]
    levels = Levels.of(files, key_range, 6)

    def names(options: CompactionRule, **more: object) -> str:
        found = pick(levels, options, NOON, full=True, **more)  # type: ignore[arg-type]
        assert found is None or (found.each and found.output_level == 5 and found.drop_deletes)
        return "" if found is None else "".join(f.file_name for f in found.files)

    assert names(rule(), marked={"b", "elsewhere"}) == "b"
    assert names(rule(), expired=lambda f: f.file_name > "b") == "cd"
    assert names(rule(), marked={"d"}, expired=lambda f: f.file_name == "a") == "ad"
    assert names(rule(compaction__force_rewrite_all_files="true")) == "abcd"
    found = pick(levels, rule(), NOON, full=True, marked={"b", "c"})
    assert found is not None
    plan = plan_task(found, levels, rule())
    assert plan.upgrade == ()
    assert plan.rewrite == tuple(((SortedRun((files[n],)),),) for n in (1, 2)), "each by itself"


def test_full_is_due() -> None:
    assert not full_is_due(rule())
    assert full_is_due(rule(changelog_producer="full-compaction"), 7)
    third = rule(full_compaction__delta_commits=3)
    assert [n for n in range(8) if full_is_due(third, n)] == [2, 5], "a stream's third and sixth batch"
    assert full_is_due(third), "batch commits"


def test_stop_trigger() -> None:
    assert (rule().stop_trigger, rule(num_sorted_run__compaction_trigger=9).stop_trigger) == (8, 12)
    assert rule(num_sorted_run__stop_trigger=2).stop_trigger == 5


def test_options() -> None:
    assert rule() == CompactionRule()
    assert rule(target_file_size="1 mb").small_size == int((1 << 20) * 0.7)
    assert rule(num_sorted_run__compaction_trigger=2**31 - 1).num_levels == 1000
    assert rule(sequence__field="s").newest_wins is False
    for levels in (1, 0, -1, 1001, 2**31 - 1):
        with pytest.raises(InvalidError, match="num-levels"):
            rule(num_levels=levels)


# ---- tasks


def planned(files: Sequence[DataFile], output: int = 5, **options: object) -> tuple[str, list[list[str]]]:
    """Names of moved files, and of rewritten ones: one list a writer, one text a section, runs divided by a bar."""
    levels = Levels.of(files, key_range, 6)
    plan = plan_task(CompactionPick(tuple(files), output, True), levels, rule(target_file_size="100 b", **options))
    rewritten = [
        ["|".join("".join(f.file_name for f in run.files) for run in section) for section in group]
        for group in plan.rewrite
    ]
    return "".join(f.file_name for f in plan.upgrade), rewritten


def test_large_files_that_meet_no_other_are_moved() -> None:
    assert planned([file("a", 0, 70, (0, 9)), file("b", 1, 500, (10, 19))]) == ("ab", [])
    assert planned([file("a", 0, 69, (0, 9)), file("b", 0, 500, (10, 19))]) == ("ab", []), "a small file by itself"
    assert planned([file("a", 0, 70, (0, 9)), file("b", 5, 500, (10, 19))]) == ("a", []), "b stays where it is"


def test_small_neighbours_are_written_together() -> None:
    small = [file(name, 0, 10, (10 * n, 10 * n + 9)) for n, name in enumerate("abc")]
    large = file("L", 0, 100, (30, 39))
    after = [file("d", 0, 10, (40, 49)), file("e", 0, 10, (50, 59))]
    assert planned([*small, large, *after]) == ("L", [["a", "b", "c"], ["d", "e"]])
    assert planned([large, after[0]]) == ("Ld", [])


def test_overlapping_files_are_merged_with_small_neighbours() -> None:
    files = [file("a", 0, 500, (0, 20), sequence=5), file("b", 5, 500, (15, 30), sequence=1), file("c", 5, 9, (40, 49)),
             file("d", 5, 500, (50, 59)), file("e", 0, 500, (60, 69))]  # fmt: skip
    assert planned(files) == ("e", [["b|a", "c"]])


def test_deletes_do_not_reach_the_top_level() -> None:
    files = [
        file("a", 0, 500, (0, 9), deletes=1),
        file("b", 0, 500, (10, 19), deletes=None),
        file("c", 0, 500, (20, 29)),
    ]
    assert planned(files) == ("c", [["a"], ["b"]])
    assert planned(files, output=4) == ("abc", [])


def test_files_with_expired_rows_are_rewritten() -> None:
    files = [file("a", 0, 500, (0, 9)), file("b", 0, 500, (10, 19))]
    levels = Levels.of(files, key_range, 6)
    found = plan_task(
        CompactionPick(tuple(files), 4, False), levels, rule(target_file_size="100 b"),
        expired=lambda f: f.file_name == "b",
    )  # fmt: skip
    assert found.upgrade == (files[0],)
    assert found.rewrite == (((SortedRun((files[1],)),),),)


def test_all_files_are_rewritten_if_asked_for() -> None:
    files = [file("a", 5, 500, (0, 9)), file("b", 5, 500, (10, 19))]
    assert planned(files, compaction__force_rewrite_all_files="true") == ("", [["a"], ["b"]])


# ---- what moving and rewriting take


MOVE, TELL, REWRITE = Upgrade.MOVE, Upgrade.MOVE_WITH_CHANGELOG, Upgrade.REWRITE_WITH_CHANGELOG


@pytest.mark.parametrize(
    ("options", "level", "output", "deletes", "expected"),
    [
        ({}, 0, 5, 0, MOVE),
        ({"changelog_producer": "input"}, 0, 5, 0, MOVE),
        ({"changelog_producer": "full-compaction"}, 0, 4, 0, MOVE),
        ({"changelog_producer": "full-compaction"}, 3, 5, 0, TELL),
        ({"changelog_producer": "full-compaction", **VECTORS}, 0, 5, 9, TELL),
        (LOOKUP, 0, 4, 9, TELL),
        (LOOKUP, 1, 5, 9, MOVE),
        ({**LOOKUP, "sequence_field": "s"}, 0, 4, 0, REWRITE),
        ({**LOOKUP, "sequence_field": "s"}, 0, 5, 0, TELL),
        ({**LOOKUP, "merge_engine": "partial-update"}, 0, 4, 0, REWRITE),
        ({**LOOKUP, "merge_engine": "partial-update"}, 0, 5, 0, TELL),
        ({"merge_engine": "first-row"}, 0, 4, 0, REWRITE),
        ({"force_lookup": "true"}, 0, 4, 0, TELL),
        (VECTORS, 0, 4, 0, TELL),
        (VECTORS, 0, 4, 1, REWRITE),
        (VECTORS, 0, 5, None, REWRITE),
        ({**LOOKUP, "file__format__per__level": "0:avro"}, 0, 4, 0, REWRITE),
        ({**LOOKUP, "file__format__per__level": "0:avro,4:avro"}, 0, 4, 0, TELL),
        ({"file__format__per__level": "0:avro"}, 0, 4, 0, MOVE),
    ],
)
def test_upgrades(options: dict[str, object], level: int, output: int, deletes: int | None, expected: Upgrade) -> None:
    options = {key if key != "sequence_field" else "sequence__field": value for key, value in options.items()}
    assert upgrade_of(file("a", level, 10, deletes=deletes), output, 5, rule(**options)) is expected


@pytest.mark.parametrize(
    ("options", "level", "output", "expected"),
    [({}, 0, 5, False), (LOOKUP, 0, 3, True), (LOOKUP, 1, 3, False), (LOOKUP, 0, 0, False), (VECTORS, 0, 3, True),
     ({"changelog_producer": "full-compaction"}, 0, 4, False), ({"changelog_producer": "full-compaction"}, 4, 5, True)],
)  # fmt: skip
def test_rewrites_that_look_at_old_rows(options: dict[str, object], level: int, output: int, expected: bool) -> None:
    group = ((SortedRun((file("a", 2, 1), file("b", level, 1, (20, 29)))),),)
    assert tracks_changes(group, output, 5, rule(**options)) == expected


# ---- what holds of every pick


@st.composite
def buckets(draw: st.DrawFn) -> Levels:
    """Level 0 files of any keys, some written side by side, and runs of files that do not overlap."""
    num_levels = draw(st.integers(2, 7))
    size = st.one_of(st.integers(1, 20), st.integers(1, 5000))
    files = []
    for number in range(draw(st.integers(0, 3))):
        keys = (30 * number, 30 * number + draw(st.integers(0, 31)))
        loaded = file(f"t{number}", 0, draw(st.integers(1, 5000)), keys, sequence=999, deletes=draw(st.just(0)))
        files.append(replace(loaded, min_sequence_number=990))
    for number in range(draw(st.integers(0, 8))):
        low = draw(st.integers(0, 90))
        high = low + draw(st.integers(0, 20))
        deletes = draw(st.sampled_from([0, 0, 1, None]))
        files.append(file(f"n{number}", 0, draw(size), (low, high), sequence=1000 + number, deletes=deletes))
    for level in range(1, num_levels):
        points = sorted(draw(st.sets(st.integers(0, 110), max_size=8)))
        for n in range(len(points) // 2):
            keys = (points[2 * n], points[2 * n + 1])
            files.append(file(f"l{level}-{n}", level, draw(size), keys, sequence=100 - level, deletes=draw(st.just(0))))
    return Levels.of(files, key_range, num_levels)


@st.composite
def rules(draw: st.DrawFn) -> CompactionRule:
    options = {
        "num_sorted_run__compaction_trigger": draw(st.integers(1, 6)), "num_levels": 2,
        "compaction__size_ratio": draw(st.sampled_from([0, 1, 50])),
        "compaction__max_size_amplification_percent": draw(st.sampled_from([0, 25, 200, 10**6])),
        "target_file_size": draw(st.sampled_from(["10 b", "100 b", "1 gb"])),
        **draw(st.sampled_from([{}, LOOKUP, VECTORS, {"compaction__force_up_level_0": "true"},
                                {"compaction__total_size_threshold": "2 kb"}])),
    }  # fmt: skip
    return rule(**options)


def compacted(levels: Levels, picked: CompactionPick, options: CompactionRule) -> Levels:
    """What the plan of a pick makes of the bucket: moved files, and one file a rewritten group."""
    plan = plan_task(picked, levels, options)
    before, after = list(plan.upgrade), [replace(f, level=picked.output_level) for f in plan.upgrade]
    before, after = [*before, *picked.sinks], [*after, *(replace(f, level=levels.max_level) for f in picked.sinks)]
    for group in plan.rewrite:
        files = [f for section in group for run in section for f in run.files]
        low, high = min(f.min_key for f in files), max(f.max_key for f in files)
        keys = (int.from_bytes(low, "big"), int.from_bytes(high, "big"))
        size, sequence = sum(f.file_size for f in files), max(f.max_sequence_number for f in files)
        after.append(file("+".join(f.file_name for f in files), picked.output_level, size, keys, sequence=sequence))
        before += files
    return levels.update(before, after)


@examples
@given(levels=buckets(), options=rules(), full=st.booleans())
def test_a_pick_takes_the_newest_runs_and_leaves_the_levels_in_order(
    levels: Levels, options: CompactionRule, full: bool
) -> None:
    options = replace(options, num_levels=levels.max_level + 1)
    picked = pick(levels, options, NOON, full=full)
    if picked is None:
        assert not full or all(level == levels.max_level for level, _ in levels.sorted_runs())
        return
    everything = levels.files()
    taken = len(picked.files)
    assert sorted(one.file_name for one in picked.files) == sorted(one.file_name for one in everything[:taken])
    if len(picked.sinks) > 1:
        assert {one.level for one in everything[taken:]} == {0}
        assert sorted(picked.sinks, key=key_range) == sorted(everything[taken:], key=key_range)
        assert picked.output_level == levels.max_level - 1
        after = compacted(levels, picked, options)
        assert {level for level, _ in after.sorted_runs()} <= {picked.output_level, levels.max_level}
        return
    assert picked.sinks == ()
    left = everything[taken:]
    assert picked.output_level >= 1
    assert all(f.level > picked.output_level for f in left), "nothing older lies at or above the output"
    assert picked.drop_deletes == (not left or options.deletion_vectors)
    plan = plan_task(picked, levels, options)
    rewritten = [f for group in plan.rewrite for section in group for run in section for f in run.files]
    names = [f.file_name for f in (*plan.upgrade, *rewritten)]
    assert len(names) == len(set(names))
    stay = [f for f in picked.files if f.file_name not in names]
    assert all(f.level == picked.output_level for f in stay)
    after = compacted(levels, picked, options)
    assert {level for level, _ in after.sorted_runs()} <= {picked.output_level} | {f.level for f in left}


@examples
@given(levels=buckets(), options=rules())
def test_picking_comes_to_an_end(levels: Levels, options: CompactionRule) -> None:
    options = replace(options, num_levels=levels.max_level + 1)
    for _ in range(20):
        picked = pick(levels, options, NOON)
        if picked is None:
            break
        levels = compacted(levels, picked, options)
    else:
        raise AssertionError("it goes on for ever")
    beside = sum(one.min_sequence_number != one.max_sequence_number for one in levels.level0)
    assert len(levels.sorted_runs()) - max(beside - 1, 0) <= max(options.run_trigger, 1)
    assert not (options.raises_level_0 and levels.level0)
