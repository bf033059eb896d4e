"""The same behaviour where executors are other processes, which share nothing with the driver but the storage."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.profile import SOAK

CASES = ("test_rows.py", "test_failures.py", "test_datasource.py", "test_bucketing.py", "over_executors.py")
FEW = "written_rows and 60000 and keyed-partitioned or failed_tasks and append or lost_executors and keyed"


@pytest.mark.slow
@pytest.mark.cluster
def test_suite_over_executors_of_their_own(tmp_path: Path) -> None:
    folder = Path(__file__).parent
    environment = {**os.environ, "BUCKETLAKE_TEST_MASTER": "local-cluster[2,1,1024]"}
    paths = [str(folder / name) for name in CASES]
    arguments = [
        "-m",
        "pytest",
        "-q",
        "-x",
        "-m",
        "spark",
        "-k",
        "not killed_writer" if SOAK else FEW,
        f"--basetemp={tmp_path / 'cases'}",
        *paths,
    ]
    run = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=folder.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-6000:]
