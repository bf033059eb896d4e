"""The simulator: what it counts is what the policy did, and the policy keeps its promises over many flushes."""

from __future__ import annotations

import json

import pytest
from benchmarks.compaction_sim import Simulation, Workload, main

from bucketlake.lsm.compaction import CompactionRule
from bucketlake.options.options import TableOptions


def simulated(work: Workload, **options: str) -> Simulation:
    spelled = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return Simulation(CompactionRule.of(TableOptions(spelled)), work)


def test_runs_and_space_stay_bounded() -> None:
    work = Workload(flushes=3000, buckets=2, keys=2_000_000)
    simulation = simulated(work)
    points = simulation.run()
    assert [point.flushes for point in points] == list(range(300, 3001, 300))
    assert simulation.totals.most_runs <= 5
    for point in points:
        assert 1.0 <= point.read <= 5.0
        assert point.write >= 1.0
        assert 0.99 <= point.space <= 3.01, "size amplification of 200 percent"
    assert simulation.totals.made >= work.flushes


def test_two_runs_of_one_seed_are_equal() -> None:
    work = Workload(flushes=500)
    assert simulated(work).run() == simulated(work).run() != simulated(Workload(flushes=500, seed=2)).run()


def test_more_runs_allowed_cost_reads_and_save_writes() -> None:
    work = Workload(flushes=2000, buckets=1)
    few, many = (
        simulated(work, num_sorted_run__compaction_trigger=text).run()[-1] for text in ("3", "10")
    )  # fmt: skip
    assert few.read < many.read
    assert few.write > many.write


def test_keys_in_order_are_written_once() -> None:
    """Files that meet no others in keys and have the target size are only moved."""
    work = Workload(flushes=600, buckets=1, fresh=1.0, rows=3_000_000)
    last = simulated(work).run()[-1]
    assert last.write == 1.0
    assert last.space == 1.0


def test_lookup_leaves_no_level_0() -> None:
    simulation = simulated(Workload(flushes=200), changelog_producer="lookup")
    simulation.run()
    assert not any(bucket.levels.level0 for bucket in simulation.buckets)


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--flushes", "40", "--option", "num-sorted-run.compaction-trigger=3", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["flushes"] for line in lines] == list(range(4, 41, 4))
    assert main(["--flushes", "40"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 11
