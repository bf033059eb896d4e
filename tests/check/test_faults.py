"""Every fault that a check knows: injected, found by its code, and where that is possible mended."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.check.cases import buckets, contents, history, manifests
from tests.check.cases.case import CASES, Case
from tests.check.forged import read

from bucketlake.ops.check.faults import FAULTS, Mend

MODULES = (history, manifests, buckets, contents)  # their cases are in CASES


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.code)
def test_a_fault_is_found_and_mended(one: Case, tmp_path: Path) -> None:
    table, wanted = one.make(tmp_path)
    level = FAULTS[one.code].level
    report = table.fsck(level)
    assert one.code in report.codes, report.findings
    assert report.codes - {one.code} <= one.also | {"orphan-file"}, report.findings
    finding = next(found for found in report.findings if found.code == one.code)
    assert finding.cause
    assert finding.remedies("db.t")
    mends = FAULTS[one.code].mend is not Mend.NONE and wanted is not None
    allow = [found.code for found in report.findings if found.fault.loses] if mends else []
    planned = table.repair(report, allow)
    assert planned.snapshot is None
    assert table.fsck(level).codes == report.codes, "a dry run changes nothing"
    if not mends:
        return
    if FAULTS[one.code].loses:
        refused = table.repair(report, dry_run=False)
        assert {action.state for action in refused.actions if action.finding.code == one.code} == {"to be named"}
        assert one.code in table.fsck(level).codes
    done = table.repair(report, allow, dry_run=False)
    assert {action.state for action in done.actions if action.finding.code == one.code} == {"mended"}
    after = table.fsck("rows")
    newest_only = [found for found in after.findings if found.place.holder in (None, f"snapshot {after.snapshot}")]
    assert not [found for found in newest_only if found.code == one.code], newest_only
    assert read(table) == wanted


def test_every_fault_has_a_case() -> None:
    assert {one.code for one in CASES} == set(FAULTS)
