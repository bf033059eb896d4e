"""Damaged and forged files of every kind: rows as written, or an error that names the file, in bounded time and memory.

`BUCKETLAKE_FUZZ_CASES=20000 BUCKETLAKE_FUZZ_SEED=7` runs longer; `python -m tests.hostile.suite 20000 7 2` counts, too.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.hostile import suite, tables
from tests.profile import number

CASES = number("BUCKETLAKE_FUZZ_CASES", 100, 20_000)
SEED = number("BUCKETLAKE_FUZZ_SEED", 1, 1)


@pytest.mark.parametrize("sizes", [True, False], ids=["sized", "unsized"])
def test_damage_is_noticed_or_harmless(tmp_path: Path, sizes: bool) -> None:
    warehouse = tmp_path / "warehouse"
    tables.make(warehouse)
    if not sizes:
        tables.unsized(warehouse)
    counts = suite.run(warehouse, list(suite.cases(warehouse, CASES // 2, SEED)), tmp_path)
    shown = "\n".join(json.dumps(failure) for failure in counts.failures[:20])
    assert not counts.failures, f"{len(counts.failures)} of {CASES // 2} cases of seed {SEED}:\n{shown}"
    assert sum(found.total() for found in counts.by_kind.values()) > CASES // 4
