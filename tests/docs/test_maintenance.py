"""docs/maintenance.md says what the code knows."""

from __future__ import annotations

from tests.docs.maintenance import PAGE, written


def test_the_table_of_faults_is_that_of_the_code() -> None:
    assert PAGE.read_text() == written(PAGE.read_text()), "python -m tests.docs.maintenance"
