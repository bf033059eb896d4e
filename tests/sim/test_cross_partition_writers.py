"""Writers of one cross-partition table, interleaved at every storage call by a seed, with faults and kills.

Every snapshot must hold the rows that the commits up to it mean, and each key once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from tests.profile import first, often, seeds
from tests.sim import team
from tests.sim.storage import MapStorage

from bucketlake.lsm.key_run import Keys
from bucketlake.ops.key_index import cache, key_layers
from bucketlake.ops.key_index.cache import IndexReader, open_index
from bucketlake.ops.key_index.key_scan import file_rows, key_splits
from bucketlake.ops.rebase import cross_partition
from bucketlake.ops.rows.read import read_split
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.table.store import clear_cache
from bucketlake.ops.write.prepare import prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.schema.schema import KIND_FIELD, TableSchema
from bucketlake.schema.versions import create_schema
from bucketlake.table import Table
from bucketlake.types.model import BIGINT, INT, DataField, arrow_schema, canonical_batch

FIELDS = (DataField(0, "pt", INT), DataField(1, "k", BIGINT.with_nullable(False)), DataField(2, "v", INT))
KEY = FIELDS[1:2]
OPERATIONS = ("append",) * 6 + ("delete", "overwrite", "drop", "compact")
SEEDS = seeds(5, 100)
PARTS = 3
Rows = dict[int, tuple[int, int]]  # key -> partition, value


def schema_of(engine: str, **options: str) -> TableSchema:
    texts = {
        "scan.manifest.parallelism": "1",
        "cross-partition-upsert.bootstrap-parallelism": "1",
        "dynamic-bucket.target-row-num": "3",
        "commit.max-retries": "300",
        "write-only": "true",
        "merge-engine": engine,
        **options,
    }
    return create_schema(FIELDS, ("pt",), ("k",), texts)


def batch(rows: Rows, kind: int = 0) -> pa.RecordBatch:
    columns = [[pt for pt, _ in rows.values()], list(rows), [v for _, v in rows.values()]]
    arrays = [pa.array(column, item.type) for column, item in zip(columns, arrow_schema(FIELDS), strict=True)]
    plain = pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(FIELDS))
    return plain.append_column(KIND_FIELD.name, pa.array([kind] * len(rows), pa.int8()))


@dataclass
class Writer(team.Writer):
    """Its rows and how it writes them."""

    tasks: int = 1

    def rows(self) -> Rows:
        count = self.random.randint(1, 6)
        return {
            self.random.randint(0, 9): (self.random.randint(1, PARTS), self.random.randint(0, 999))
            for _ in range(count)
        }

    def append(self, user: str) -> None:
        rows = self.rows()
        self.log[user] = ("append", rows)
        self.write(user, rows, 0)

    def delete(self, user: str) -> None:
        rows = self.rows()
        self.log[user] = ("delete", rows)
        self.write(user, rows, 3)

    def write(self, user: str, rows: Rows, kind: int) -> None:
        """By several tasks, each of which owns a share of the keys, as on Spark."""
        store = self.table.store
        base = store.latest_snapshot()
        task = replace(prepare_write(store, base, tasks=self.tasks, commit_user=user), assigners=self.tasks)
        if base is not None and self.random.random() < 0.7:
            task = replace(task, key_index=open_index(store, base))
        whole = batch(rows, kind)
        share = Keys.of(canonical_batch(whole, FIELDS), KEY).hashes.astype("int64") * self.tasks >> 32
        messages = []
        for number in range(self.tasks):
            part = whole.filter(pa.array(share == number))
            messages += write_batches(store, [part], replace(task, task=number), KIND_FIELD.name)
        self.table.commit(messages, user)

    def overwrite(self, user: str) -> None:
        rows = self.rows()
        self.log[user] = ("overwrite", rows)
        task = prepare_write(self.table.store, None, commit_user=user, overwrite=True)
        messages = write_batches(self.table.store, [batch(rows)], task, KIND_FIELD.name)
        self.table.commit(messages, user, mode="overwrite")


def meaning(state: Rows, kind: str, what: Any, engine: str, seen: tuple[Rows, set[int]]) -> Rows:
    """The rows after a commit, by the engine. A key that is new there lies where the write saw it, if it saw it, else
    where its row says. `seen`: the rows that are there after it, which tell, and the keys that ever were before."""
    found, ever = seen
    if kind == "delete":
        return {key: row for key, row in state.items() if key not in what}
    if kind == "drop":
        return {key: row for key, row in state.items() if row[0] != what}
    if kind == "overwrite":
        touched = {part for part, _ in what.values()}
        state = {key: row for key, row in state.items() if row[0] not in touched}
    if engine == "deduplicate":
        return state | what
    if engine == "first-row":  # a row whose key was there when the write looked is ignored, though it be dropped since
        return {key: row for key, row in (what | state).items() if key in state or key in found or key not in ever}
    placed = {k: (state[k][0] if k in state else found.get(k, row)[0], row[1]) for k, row in what.items()}
    return state | placed


def rows_at(store: Any, snapshot: Any, engine: str) -> Rows:
    """The rows of a snapshot; of first-row tables, level 0 too."""
    batches = (batch for split in key_splits(store, snapshot) for batch in read_split(store, split))
    found = [row for batch in batches for row in batch.to_pylist()]
    if engine != "first-row":
        assert sorted(map(str, Table(store, "t").to_arrow(scan_snapshot_id=snapshot.id).to_pylist())) == sorted(
            map(str, found)
        )
    assert len({row["k"] for row in found}) == len(found), f"snapshot {snapshot.id}: a key twice: {found}"
    return {row["k"]: (row["pt"], row["v"]) for row in found}


def check_numbers(store: Any, snapshot: Any) -> None:
    """No two versions of a key in one bucket have one number."""
    numbers: Counter[tuple[bytes, int, int, int]] = Counter()
    for entry in live_entries(store, snapshot):
        for rows in file_rows(store, (entry.partition, entry.bucket), entry.file):
            found = zip(rows.column("k").to_pylist(), rows.column("_SEQUENCE_NUMBER").to_pylist(), strict=True)
            numbers.update((entry.partition, entry.bucket, key, number) for key, number in found)
    assert max(numbers.values(), default=1) == 1, f"snapshot {snapshot.id}: versions of a key with one number"


def check_index(store: Any, expected: Rows) -> None:
    """The index, made of whatever caches the writers left, agrees with the newest snapshot."""
    snapshot = store.latest_snapshot()
    if snapshot is None:
        return
    index = open_index(store, snapshot)
    assert index is not None
    reader = IndexReader(store, index)
    for key in range(10):
        wanted = pa.RecordBatch.from_pydict({"k": pa.array([key], pa.int64())})
        place = int(reader.find(Keys.of(wanted, KEY))[0])
        part = None if place < 0 else int(store.paths.partition_texts(reader.numbers.places[place][0])["pt"])
        assert part == (expected[key][0] if key in expected else None) or (part is None and not index.complete), key


def simulate(seed: int, engine: str, faults: float, **options: str) -> tuple[Any, MapStorage, list[Writer]]:
    chosen = [name for name in OPERATIONS if engine == "deduplicate" or name != "delete"]
    members = [partial(Writer, operations=chosen, parts=PARTS, tasks=1 + number % 3) for number in range(4)]
    return team.simulate(seed, schema_of(engine, **options), members, faults)


def check_run(store: Any, writers: list[Writer], engine: str) -> Counter[str]:
    seen: Counter[str] = Counter()
    log = {user: entry for writer in writers for user, entry in writer.log.items()}
    state: Rows = {}
    ever: set[int] = set()
    clear_cache()
    for snapshot in store.snapshots():
        found = rows_at(store, snapshot, engine)
        if snapshot.commit_user in log and snapshot.commit_kind.value != "COMPACT":
            kind, what = log[snapshot.commit_user]
            state = meaning(state, kind, what, engine, (found, ever))
            ever |= set(state)
            seen[kind] += 1
        else:
            assert snapshot.commit_kind.value == "COMPACT"
            seen["compact"] += 1
        assert found == state, f"snapshot {snapshot.id}"
        check_numbers(store, snapshot)
    check_index(store, state)
    for writer in writers:
        seen.update(writer.failures)
    return seen


@pytest.mark.parametrize("engine", first(["deduplicate", "partial-update", "first-row"], 1))
def test_interleaved_writers_keep_each_key_once(engine: str) -> None:
    run_all(engine, 0.0)


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "first-row"])
def test_so_they_do_when_storage_fails_and_writers_die(engine: str) -> None:
    run_all(engine, 0.02)


@pytest.mark.slow
def test_so_they_do_where_keys_leave_the_index() -> None:
    run_all("deduplicate", 0.0, **{"cross-partition-upsert.index-ttl": "1 ms"})


def run_all(engine: str, faults: float, **options: str) -> None:
    seen: Counter[str] = Counter()
    mended: list[int] = []
    real = cross_partition._Settling._sequences

    def spy(self: Any, messages: Any) -> Any:
        mended.append(len(messages))
        return real(self, messages)

    for seed in SEEDS:
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(cross_partition._Settling, "_sequences", spy)
                patch.setattr(cache, "RECENT_ROWS", seed % 3)
                patch.setattr(key_layers, "BLOCK_ROWS", 1 + seed % 4)
                store, inner, writers = simulate(seed, engine, faults, **options)
            seen += check_run(store, writers, engine)
            assert faults or not team.unreferenced(store, inner.files), "losers clean up"
        except Exception as error:
            pytest.fail(f"seed {seed}: {type(error).__name__}: {error}", pytrace=True)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    used = {name for name in OPERATIONS if engine == "deduplicate" or name != "delete"}
    assert faults or min(seen[kind] for kind in used) > often(5), seen
    assert bool(seen["StorageError"]) == (faults > 0), seen
    assert len(mended) > often(10), "keys had to be mended"
