"""Damage under compaction, deletes, updates, upserts and reads by many conditions: what cannot be read is not published."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.profile import number

ROOT = Path(__file__).parents[2]
CASES = number("BUCKETLAKE_CHANGES_CASES", 150, 3000)
SEED = number("BUCKETLAKE_CHANGES_SEED", 1, 1)
OF_VALUES = ("other", "fewer", "more")  # formats sum up no values, nor do footers what a condition leaves out


@pytest.mark.slow
def test_what_cannot_be_read_is_not_published() -> None:
    command = [sys.executable, "-m", "tests.hostile.changes", str(CASES), str(SEED)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"died over {done.stderr.splitlines()[-1:]}"
    failures = [
        case for line in done.stdout.splitlines() if line.startswith("{") and not allowed(case := json.loads(line))
    ]
    assert not failures, "\n".join(map(json.dumps, failures[:20]))


def allowed(case: dict[str, str]) -> bool:
    """Whether a table keeps what docs/reliability.md promises."""
    if "text that is not UTF-8 [column=" in case["detail"]:  # what is written again is looked at like any row given
        return True
    return case["outcome"] in OF_VALUES and case["kind"].startswith(("data ", "changelog "))
