"""The policy picks what Apache Paimon picked: same files in, same files moved, same output level, at every commit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.corpus import picks
from tests.corpus.make_picks import record
from tests.corpus.pick_cases import CASES
from tests.corpus.picks import Trace, replay
from tests.peers.flink import FlinkPaimon
from tests.profile import examples

TRACES = {trace.name: trace for trace in picks.traces()}


def test_the_archive_holds_every_case() -> None:
    assert list(TRACES) == [case.name for case in CASES]
    for case in CASES:
        assert (TRACES[case.name].covers, TRACES[case.name].options) == (case.covers, case.options)


@pytest.mark.parametrize("name", TRACES)
def test_every_pick_is_that_of_paimon(name: str) -> None:
    assert replay(TRACES[name]) == []


def test_the_archive_shows_what_it_is_for() -> None:
    """Steps that compact and steps that do not; files moved, files left where they are; levels of all kinds."""

    def levels(trace: Trace) -> set[int]:
        return {row[2] for step in trace.steps if step.compact for row in step.compact.added}

    assert sum(trace.compactions for trace in TRACES.values()) > 400
    assert sum(len(trace.steps) - trace.compactions for trace in TRACES.values()) > 200
    assert levels(TRACES["levels_12"]) >= {8, 9, 10, 11}
    assert levels(TRACES["levels_3"]) == {1, 2}
    moved = {
        trace.name
        for trace in TRACES.values()
        for step in trace.steps
        if step.compact and {row[1] for row in step.compact.added} & {row[1] for row in step.compact.removed}
    }
    assert {"large_files", "lookup_large", "vectors_large", "minor_large", "full"} <= moved


def test_a_wrong_policy_is_found_out() -> None:
    """The replay is no formality: other options than the table's give other picks."""
    trace = TRACES["trigger"]
    for key, value in (("num-sorted-run.compaction-trigger", "4"), ("compaction.size-ratio", "80")):
        assert replay(Trace(trace.name, "", trace.options | {key: value}, trace.places, trace.steps)) != []


def test_a_changed_archive_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = tmp_path / picks.ARCHIVE.name
    changed.write_bytes(picks.ARCHIVE.read_bytes() + b"\0")
    monkeypatch.setattr(picks, "ARCHIVE", changed)
    with pytest.raises(ValueError, match="sha256"):
        picks.traces()


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize("name", ["vectors_large", "trigger"])
def test_fresh_tables_of_flink_are_picked_alike(name: str, flink: FlinkPaimon, tmp_path: Path) -> None:
    flink.use(tmp_path)
    case = next(case for case in CASES if case.name == name)
    trace = record(flink, tmp_path, replace(case, steps=examples(16, case.steps)))
    assert trace.compactions > 5
    assert replay(trace) == []
