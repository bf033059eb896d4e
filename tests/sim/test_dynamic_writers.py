"""Writers of one table with dynamic buckets, interleaved at every storage call by a seed, with faults and kills.

Every snapshot must hold the rows that the commits up to it mean, each key in one bucket, and that bucket in the index.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.profile import often, seeds
from tests.sim import team
from tests.sim.storage import MapStorage

from bucketlake.format.index.hash_index import is_ascending
from bucketlake.format.row.hashing import bucket_of
from bucketlake.ops.buckets.dynamic import hash_files, key_hashes, read_hashes
from bucketlake.ops.rebase import dynamic as reassigning
from bucketlake.ops.rows.one_file import read_key_values
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.table.store import clear_cache
from bucketlake.ops.write.prepare import prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.schema.schema import KIND_FIELD, SEQUENCE_FIELD, TableSchema
from bucketlake.schema.versions import create_schema
from bucketlake.table import Table
from bucketlake.types.model import BIGINT, INT, DataField, arrow_schema, canonical_batch

FIELDS = (
    DataField(0, "pt", INT.with_nullable(False)),
    DataField(1, "k", BIGINT.with_nullable(False)),
    DataField(2, "v", INT),
)
OPERATIONS = ("append",) * 6 + ("delete", "overwrite", "drop", "compact")
SEEDS = seeds(4, 150)
Rows = dict[tuple[int, int], int]


def schema_of(**options: str) -> TableSchema:
    texts = {
        "scan.manifest.parallelism": "1",
        "dynamic-bucket.target-row-num": "3",
        "commit.max-retries": "300",
        "write-only": "true",
        **options,
    }
    return create_schema(FIELDS, ("pt",), ("pt", "k"), texts)


def batch(rows: Rows, kind: int = 0) -> pa.RecordBatch:
    parts, keys = [list(column) for column in zip(*rows, strict=True)] if rows else ([], [])
    columns = [pa.array(parts, pa.int32()), pa.array(keys, pa.int64()), pa.array(list(rows.values()), pa.int32())]
    plain = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(FIELDS))
    return plain.append_column(KIND_FIELD.name, pa.array([kind] * len(rows), pa.int8()))


@dataclass
class Writer(team.Writer):
    """Its rows and how it writes them."""

    tasks: int = 1

    def rows(self) -> Rows:
        count = self.random.randint(1, 8)
        return {
            (self.random.randint(1, 2), self.random.randint(0, 9)): self.random.randint(0, 999) for _ in range(count)
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
        task = prepare_write(store, store.latest_snapshot(), tasks=self.tasks, commit_user=user)
        task = replace(task, assigners=self.tasks)
        whole = batch(rows, kind)
        share = bucket_of(key_hashes(canonical_batch(whole, FIELDS), FIELDS[1:2]), self.tasks)
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


def meaning(state: Rows, kind: str, what: Any) -> Rows:
    if kind == "append":
        return state | what
    if kind == "delete":
        return {key: value for key, value in state.items() if key not in what}
    touched = {what} if kind == "drop" else {part for part, _ in what}
    kept = {key: value for key, value in state.items() if key[0] not in touched}
    return kept if kind == "drop" else kept | what


def check_snapshot(store: Any, files: dict[str, bytes], snapshot: Any, expected: Rows) -> None:
    """Rows as expected, each key in one bucket, its hash in the index of that bucket and of no other."""
    found = Table(store, "t").to_arrow(scan_snapshot_id=snapshot.id).to_pylist()
    rows = Counter((row["pt"], row["k"], row["v"]) for row in found)
    assert rows == Counter((*key, value) for key, value in expected.items()), f"snapshot {snapshot.id}"
    places: dict[tuple[bytes, int], set[int]] = {}
    numbers: Counter[tuple[bytes, int, int]] = Counter()
    for entry in live_entries(store, snapshot):
        path = store.paths.file_path(store.paths.bucket_dir(entry.partition, entry.bucket), entry.file)
        keys = pq.read_table(pa.BufferReader(files[path]), columns=["k", SEQUENCE_FIELD.name]).combine_chunks()
        numbers.update((entry.partition, row["k"], row[SEQUENCE_FIELD.name]) for row in keys.to_pylist())
        hashed = canonical_batch(keys.to_batches()[0], FIELDS[1:2])
        for value in key_hashes(hashed, FIELDS[1:2]).tolist():
            places.setdefault((entry.partition, value), set()).add(entry.bucket)
    index: dict[tuple[bytes, int], set[int]] = {}
    for partition, buckets in hash_files(store.index_manifest(snapshot)).items():
        for bucket, file in buckets.items():
            hashes = read_hashes(store, partition, bucket, file)
            assert is_ascending(hashes)
            for value in hashes.tolist():
                index.setdefault((partition, value), set()).add(bucket)
    assert all(len(buckets) == 1 for buckets in index.values()), f"snapshot {snapshot.id}: two buckets in the index"
    wrong = {key: (buckets, index.get(key)) for key, buckets in places.items() if buckets != index.get(key)}
    assert max(numbers.values(), default=1) == 1, f"snapshot {snapshot.id}: versions of a key with one number"
    assert not wrong, f"snapshot {snapshot.id}: {wrong}"


def changed(store: Any) -> None:
    """The changelog of every write lies in the buckets of its keys: as many rows as the write has, each where its
    hash is indexed."""
    for snapshot in store.snapshots():
        entries = [entry for part in store.manifests(store.changelog_manifests(snapshot)) for entry in part]
        index = hash_files(store.index_manifest(snapshot))
        for entry in entries:
            folder = store.paths.bucket_dir(entry.partition, entry.bucket)
            known = read_hashes(store, entry.partition, entry.bucket, index[entry.partition][entry.bucket])
            for rows in read_key_values(store, folder, entry.file):
                assert set(key_hashes(rows, store.schema.key_fields).tolist()) <= set(known.tolist())


def simulate(seed: int, faults: float, **options: str) -> tuple[Any, MapStorage, list[Writer]]:
    members = [partial(Writer, operations=OPERATIONS, tasks=1 + number % 3) for number in range(4)]
    return team.simulate(seed, schema_of(**options), members, faults)


def check_run(store: Any, inner: MapStorage, writers: list[Writer]) -> Counter[str]:
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
            assert snapshot.commit_kind.value == "COMPACT"
            seen["compact"] += 1
        check_snapshot(store, inner.files, snapshot, state)
    for writer in writers:
        seen.update(writer.failures)
    return seen


def test_interleaved_writers_keep_each_key_in_one_bucket() -> None:
    run_all(0.0)


def test_so_they_do_when_storage_fails_and_writers_die() -> None:
    run_all(0.02)


def test_changelogs_move_with_their_rows() -> None:
    run_all(0.0, **{"changelog-producer": "input"})


def run_all(faults: float, **options: str) -> None:
    seen: Counter[str] = Counter()
    moved: list[int] = []
    real = reassigning._Partition._moved

    def spy(self: Any, move: Any) -> Any:
        moved.extend(move.hashes.tolist())
        return real(self, move)

    for seed in (seed + (7 if faults else 0) for seed in SEEDS):  # few seeds in which everything occurs
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(reassigning._Partition, "_moved", spy)
                store, inner, writers = simulate(seed, faults, **options)
            seen += check_run(store, inner, writers)
            changed(store)
            assert faults or not team.unreferenced(store, inner.files), "losers clean up"
        except Exception as error:
            pytest.fail(f"seed {seed}: {type(error).__name__}: {error}", pytrace=True)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    assert min(seen[kind] for kind in set(OPERATIONS)) > often(5), seen
    assert bool(seen["StorageError"]) == (faults > 0), seen
    assert len(moved) > often(20), "rows had to move"
