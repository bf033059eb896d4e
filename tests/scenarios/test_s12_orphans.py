"""S12, the last sentence: what a failed write leaves behind, remove_orphan_files removes, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.sim.storage import KILL_BEFORE, FaultStorage, Killed, fault_on

import bucketlake
from bucketlake import Table
from bucketlake.env.env import Env
from bucketlake.env.local import LocalStorage
from bucketlake.ops.table.store import Store

from .spelling import SPELLINGS, create

pytestmark = pytest.mark.spark


def files(folder: str) -> set[str]:
    return {info.path for info in LocalStorage().walk(folder)}


@pytest.mark.parametrize("key", ["k, pt", ""])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_what_a_failed_write_leaves(lake: bucketlake.Lake, spelling: str, key: str) -> None:
    lake.sql(create(spelling, "db.t", "k INT, v INT, pt STRING", key=key, partition="pt", bucket="2" if key else "-1"))
    lake.sql("INSERT INTO db.t SELECT cast(id AS INT), 1, 'a' FROM range(40)")
    table = lake.table("db.t").table
    data, kept = table.to_arrow(), files(table.path)
    for place in ("/manifest/manifest-list-", "/snapshot/snapshot-2"):
        for operation in ("write", "put_if_absent"):
            storage = FaultStorage(LocalStorage(), fault_on(operation, place, KILL_BEFORE))
            env = Env(storage, table.store.env.clock)  # type: ignore[arg-type]
            victim = Table(Store(env, table.store.paths, table.schema, table.options), table.name)
            if (operation == "write") == ("manifest" in place):
                with pytest.raises(Killed):
                    victim.write_arrow(data)
    left = files(table.path) - kept
    assert any("/bucket-" in path for path in left) and any("/manifest/" in path for path in left)
    mine = Path(table.path) / "notes.txt"
    mine.write_text("not Paimon's")
    assert lake.sql("CALL sys.remove_orphan_files('db.t')").collect()[0][0] == 0  # too young
    for path in left:
        os.utime(path, (10**9, 10**9))
    sizes = sum(os.path.getsize(path) for path in left)
    assert lake.sql("CALL sys.remove_orphan_files('db.t')").collect()[0][:] == (len(left), sizes)
    assert files(table.path) == kept | {str(mine)}
    assert lake.sql("SELECT count(*), sum(v) FROM db.t").collect()[0][:] == (40, 40)
