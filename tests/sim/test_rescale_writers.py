"""Writers of one table with a bucket number, a compactor and a rescaler, interleaved at every storage call by a seed, with
faults and kills.

Every snapshot must hold the rows that the commits up to it mean, each in the bucket of its hash, out of one number of
buckets in a partition.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from tests.profile import later, often, seeds
from tests.sim import team

from bucketlake.errors import BucketlakeError
from bucketlake.format.row.hashing import assign_buckets
from bucketlake.ops.compact.running import inline
from bucketlake.ops.rebase import rescaled as rehashing
from bucketlake.ops.rescale.rescale import RescaleRequest, rescale
from bucketlake.ops.rows.one_file import read_key_values
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.table.store import clear_cache
from bucketlake.ops.write.prepare import prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.schema.schema import KIND_FIELD, SEQUENCE_FIELD, TableSchema
from bucketlake.schema.versions import create_schema
from bucketlake.table import Table
from bucketlake.types.model import BIGINT, INT, DataField, arrow_schema

FIELDS = (
    DataField(0, "pt", INT.with_nullable(False)),
    DataField(1, "k", BIGINT.with_nullable(False)),
    DataField(2, "v", INT),
)
SEEDS = seeds(3, 100)
Rows = dict[tuple[int, int], int]


def schema_of(**options: str) -> TableSchema:
    texts = {
        "bucket": "2",
        "bucket.auto": "true",  # writers go by the number that a partition has
        "scan.manifest.parallelism": "1",
        "commit.max-retries": "300",
        "write-only": "true",
        **options,
    }
    return create_schema(FIELDS, ("pt",), ("pt", "k"), texts)


def batch(rows: Rows, kind: int) -> pa.RecordBatch:
    parts, keys = [list(column) for column in zip(*rows, strict=True)]
    columns = [pa.array(parts, pa.int32()), pa.array(keys, pa.int64()), pa.array(list(rows.values()), pa.int32())]
    plain = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(FIELDS))
    return plain.append_column(KIND_FIELD.name, pa.array([kind] * len(rows), pa.int8()))


@dataclass
class Writer(team.Writer):
    """Its rows and how it writes them."""

    def steps(self) -> int:
        return super().steps() + 3 * (len(self.operations) == 1)

    def append(self, user: str, kind: int = 0) -> None:
        count = self.random.randint(1, 8)
        choose = self.random.randint
        rows = {(choose(1, 2), choose(0, 19)): choose(0, 999) for _ in range(count)}
        self.log[user] = ("delete" if kind else "append", rows)
        store = self.table.store
        task = prepare_write(store, store.latest_snapshot(), commit_user=user)
        messages = write_batches(store, [batch(rows, kind)], task, KIND_FIELD.name)
        self.table.commit(messages, user)

    def delete(self, user: str) -> None:
        self.append(user, 3)

    def compact(self, user: str) -> None:
        self.table.compact(bucket_auto=False)

    def rescale(self, user: str) -> None:
        if self.table.latest_snapshot() is None:
            return
        number = self.random.choice([1, 2, 3, 4, 6, 8])
        part = self.random.choice([None, 1, 2])
        wanted = None if part is None else (lambda partition: partition.endswith(part_bytes(part)))
        rescale(
            self.table.store,
            RescaleRequest(number, wanted),
            run=inline,
        )


def part_bytes(part: int) -> bytes:
    return part.to_bytes(4, "little") + bytes(4)


def meaning(state: Rows, kind: str, what: Any) -> Rows:
    if kind == "append":
        return state | what
    if kind == "delete":
        return {key: value for key, value in state.items() if key not in what}
    return {key: value for key, value in state.items() if key[0] != what}


def check_snapshot(store: Any, snapshot: Any, expected: Rows) -> None:
    found = Table(store, "t").to_arrow(scan_snapshot_id=snapshot.id).to_pylist()
    rows = Counter((row["pt"], row["k"], row["v"]) for row in found)
    assert rows == Counter((*key, value) for key, value in expected.items()), f"snapshot {snapshot.id}"
    totals: dict[bytes, set[int]] = {}
    numbers: Counter[tuple[bytes, int, int]] = Counter()
    for entry in live_entries(store, snapshot):
        totals.setdefault(entry.partition, set()).add(entry.total_buckets)
        folder = store.paths.bucket_dir(entry.partition, entry.bucket)
        for part in read_key_values(store, folder, entry.file):
            buckets = assign_buckets(part, FIELDS[1:2], entry.total_buckets)
            assert set(buckets.tolist()) <= {entry.bucket}, f"snapshot {snapshot.id}: rows in another bucket"
            keys = zip(part.column("k").to_pylist(), part.column(SEQUENCE_FIELD.name).to_pylist(), strict=True)
            numbers.update((entry.partition, key, number) for key, number in keys)
    assert all(len(found) == 1 for found in totals.values()), f"snapshot {snapshot.id}: {totals}"
    assert max(numbers.values(), default=1) == 1, f"snapshot {snapshot.id}: versions of a key with one number"


def simulate(seed: int, faults: float, **options: str) -> tuple[Any, list[Writer]]:
    roles = [("append", "append", "append", "delete")] * 3
    roles += [("append", "delete", "drop"), ("compact",), ("rescale",)]
    members = [partial(Writer, operations=role) for role in roles]
    store, _, writers = team.simulate(seed, schema_of(**options), members, faults, partial(Writer, operations=()))
    return store, writers


def check_run(store: Any, writers: list[Writer]) -> Counter[str]:
    seen: Counter[str] = Counter()
    log = {user: entry for writer in writers for user, entry in writer.log.items()}
    state: Rows = {}
    clear_cache()
    for snapshot in store.snapshots():
        if snapshot.commit_user in log and snapshot.commit_kind.value != "COMPACT":
            kind, what = log[snapshot.commit_user]
            state = meaning(state, kind, what)
            seen[kind] += 1
        else:
            seen[snapshot.commit_kind.value] += 1
        check_snapshot(store, snapshot, state)
    for writer in writers:
        seen.update(writer.failures)
    return seen


@pytest.mark.parametrize("faults", later([0.01, 0.0], 1))
@pytest.mark.parametrize(
    "options",
    [{}, {"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"}],
    ids=["plain", "vectors"],
)
def test_rescaling_loses_and_doubles_nothing(faults: float, options: dict[str, str]) -> None:
    seen: Counter[str] = Counter()
    rehashed: list[int] = []
    real = rehashing._Moved.messages

    def spy(self: Any, *arguments: Any) -> Any:
        rehashed.append(self.total)
        return real(self, *arguments)

    for seed in SEEDS:
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(rehashing._Moved, "messages", spy)
                store, writers = simulate(seed, faults, **options)
            seen += check_run(store, writers)
        except (BucketlakeError, AssertionError) as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    assert min(seen[kind] for kind in ("append", "delete", "drop", "COMPACT", "OVERWRITE")) > often(5), seen
    assert bool(seen["StorageError"]) == (faults > 0), seen
    assert len(rehashed) > often(5), "writers had to hash anew"
