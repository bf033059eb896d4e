"""A base on which no snapshot can stand is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.check.forged import live, settle, some, table_of, with_file

from bucketlake import CorruptError
from bucketlake.format.metadata.manifest import SEQUENCE


def test_a_base_that_counts_as_many_rows_as_there_may_be_is_named(tmp_path: Path) -> None:
    table = table_of(tmp_path, (), bucket="-1")
    table.write_arrow(some(0, 10))
    settle(table, total_record_count=2**63 - 1)
    with pytest.raises(
        CorruptError, match=r"contradictory.*totalRecordCount.*base=.*/t/snapshot/snapshot-1\b.*sys.fsck"
    ):
        table.refresh().write_arrow(some(10, 20))


def test_files_whose_sequence_numbers_leave_the_range_are_named(tmp_path: Path) -> None:
    table = table_of(tmp_path, bucket="1")
    table.write_arrow(some(0, 10))
    settle(table, [with_file(entry, max_sequence_number=SEQUENCE[1]) for entry in live(table)])
    with pytest.raises(CorruptError, match=r"contradictory.*sequence.*base=.*/snapshot-1\b.*data-"):
        table.refresh().write_arrow(some(10, 20))
