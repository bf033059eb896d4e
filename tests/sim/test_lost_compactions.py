"""The storage does not say whether the compaction behind a write was published: the rows are committed all the same."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.sim.clock import FakeClock
from tests.sim.storage import FAIL_AFTER, FAIL_BEFORE, FaultStorage, fault_on

import bucketlake
from bucketlake import Table
from bucketlake.catalog import Catalog
from bucketlake.env.env import Env
from bucketlake.errors import CommitError, CommitUnknownError

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])


def table_with(folder: Path, fault: str, **options: Any) -> tuple[Table, Table]:
    """A table with one snapshot, and the same over a storage that never answers when snapshot 3 is published."""
    catalog = bucketlake.open(folder)
    catalog.create_database("db")
    given = {"bucket": "1", "full-compaction.delta-commits": "1", "commit.max-retries": "2", **options}
    table = catalog.create_table("db.t", SCHEMA, [], ["k"], given)
    table.write_arrow(rows([1, 2]), write_only=True)
    storage = FaultStorage(catalog.env.storage, fault_on("put_if_absent", "snapshot-3", fault, 1000))
    return table, Catalog(Env(storage, FakeClock(1)), catalog.warehouse).table("db.t")


def rows(keys: list[int]) -> pa.Table:
    return pa.table({"k": keys, "v": keys}, schema=SCHEMA)


def test_one_that_landed_is_found_by_its_name(tmp_path: Path) -> None:
    table, faulty = table_with(tmp_path, FAIL_AFTER)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = faulty.write_arrow(rows([3]))
    assert done is not None and done == table.store.snapshot(3)
    assert done.commit_kind.value == "COMPACT"
    assert table.to_arrow().num_rows == 3


def test_one_that_may_have_landed_is_left_with_a_warning(tmp_path: Path) -> None:
    table, faulty = table_with(tmp_path, FAIL_BEFORE)
    with pytest.warns(UserWarning, match="rows are committed, compaction was given up"):
        done = faulty.write_arrow(rows([3]))
    assert done is not None and done.id == 2 == table.store.latest_snapshot_id()
    assert table.to_arrow().num_rows == 3


def test_rows_that_stay_unseen_are_an_error_that_says_so(tmp_path: Path) -> None:
    table, faulty = table_with(tmp_path, FAIL_BEFORE, **{"deletion-vectors.enabled": "true"})
    with pytest.raises(CommitError, match="rows are committed, but not known to be compacted") as caught:
        faulty.write_arrow(rows([3]))
    assert not isinstance(caught.value, CommitUnknownError)
    assert table.store.latest_snapshot_id() == 2
    table.compact()
    assert table.to_arrow().num_rows == 3
