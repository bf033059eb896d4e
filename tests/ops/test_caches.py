"""What a process remembers of a file it remembers of that storage's file alone."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.sim.clock import FakeClock
from tests.sim.storage import MapStorage
from tests.sim.tables import create_table

from bucketlake.schema.versions import create_schema
from bucketlake.table import Table
from bucketlake.types.model import BIGINT, DataField

FIELDS = (DataField(0, "k", BIGINT.with_nullable(False)), DataField(1, "v", BIGINT))
KINDS = {
    "merged": {},
    "vectors": {"deletion-vectors.enabled": "true"},
    "lookup": {"changelog-producer": "lookup"},
    "first row": {"merge-engine": "first-row"},
    "dynamic buckets": {"bucket": "-1"},
}


def updated(options: dict[str, str], keys: range) -> list[tuple[int, int]]:
    """A table whose every other key is written twice; its files are named alike whatever the keys."""
    schema = create_schema(FIELDS, (), ("k",), {"bucket": "1", **options})
    table = Table(create_table(MapStorage(), FakeClock(11), schema), "t")
    for given in (keys, keys[::2]):
        table.write_arrow(pa.table({"k": pa.array(given, pa.int64()), "v": pa.array([len(given)] * len(given))}))
    table.compact()
    table.lookup(pa.table({"k": pa.array(keys, pa.int64())}))
    return sorted((row["k"], row["v"]) for row in table.to_arrow().to_pylist())


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_the_same_name_in_two_storages_are_two_files(kind: str) -> None:
    for keys in (range(20), range(5, 25), range(300, 330)):
        want = {k: len(keys) for k in keys}
        if kind != "first row":
            want |= dict.fromkeys(keys[::2], len(keys[::2]))
        assert updated(KINDS[kind], keys) == sorted(want.items())
