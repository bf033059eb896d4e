"""What removes and rewrites files, where there are no folders and lists of objects go in one request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.object_store.conftest import S3, rows
from tests.profile import first

import bucketlake
from bucketlake import Catalog, Table
from bucketlake.env.object_store import ObjectStorage
from bucketlake.format.metadata.snapshot import Snapshot, encode_snapshot
from bucketlake.lsm.key_run import Keys
from bucketlake.ops.clean.orphans import remove_orphans
from bucketlake.ops.key_index import cache
from bucketlake.ops.key_index.cache import IndexReader, open_index
from bucketlake.ops.key_index.key_scan import key_fields
from bucketlake.ops.scan.scan import changelog_entries
from bucketlake.ops.table.store import clear_cache
from bucketlake.ops.write.prepare import new_commit_user, prepare_write
from bucketlake.ops.write.write import write_batches

SCHEMA = pa.schema([pa.field("p", pa.string()), pa.field("k", pa.int64()), pa.field("v", pa.int64())])
NEVER = {"snapshot.num-retained.min": "1000", "snapshot.num-retained.max": "1000"}
KINDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "keyed": (["p", "k"], {"bucket": "2", "num-sorted-run.compaction-trigger": "2"}),
    "lookup": (["p", "k"], {"bucket": "1", "changelog-producer": "lookup"}),
    "dynamic": (["p", "k"], {"bucket": "-1", "dynamic-bucket.target-row-num": "3"}),
    "append": ([], {"bucket": "-1", "deletion-vectors.enabled": "true"}),
    "bucketed": ([], {"bucket": "2", "bucket-key": "k", "file-index.bloom-filter.columns": "v"}),
}
ODD = "a&b <ü>/x%2F+'"  # a partition whose folder every protocol has to escape
FUTURE = 1 << 60
Row = tuple[str, int, int]


def made(catalog: Catalog, kind: str, **options: str) -> Table:
    keys, fixed = KINDS[kind]
    return catalog.create_table("t", SCHEMA, ["p"], keys, {**NEVER, **fixed, **options})


def put(table: Table, *given: Row) -> Snapshot | None:
    return table.write_arrow(pa.Table.from_pylist([dict(zip("pkv", row, strict=True)) for row in given], SCHEMA))


def left_over(table: Table) -> tuple[str, ...]:
    clear_cache()
    return remove_orphans(table.store, FUTURE, dry_run=True).paths


def tag(table: Table, name: str, number: int) -> None:
    store = table.store
    store.env.storage.write(store.paths.tag(name), encode_snapshot(store.snapshot(number)))


def history(table: Table) -> dict[int, list[Any]]:
    return {snapshot.id: rows(table, scan_snapshot_id=snapshot.id) for snapshot in table.snapshots()}


# ---- expiry


@pytest.mark.slow
@pytest.mark.parametrize("kind", first(list(KINDS), 2))
def test_what_expires_leaves_no_object_and_what_stays_can_be_read(catalog: Catalog, s3: S3, kind: str) -> None:
    table = made(catalog, kind)
    for number in range(4):
        put(table, (ODD, number, number), (ODD, 1, 10 + number), ("b", 1, number))
    table.delete("k = 2")
    table.compact()
    tag(table, "old", 1)
    before, first = history(table), rows(table, scan_snapshot_id=1)
    size = len(s3.keys(table.path))
    s3.fail()
    done = table.expire_snapshots(retain_max=2, retain_min=1)
    assert done.snapshots == len(before) - 2 and done.files == size - len(s3.keys(table.path)) - done.snapshots
    assert set(s3.deletes()) == {"POST"} and len(s3.deletes()) <= done.snapshots + 34
    assert set(table.store.snapshot_ids()) == set(sorted(before)[-2:])
    clear_cache()
    assert history(table) == {number: before[number] for number in table.store.snapshot_ids()}
    assert rows(table, scan_tag_name="old") == first
    assert left_over(table) == ()
    table.store.env.storage.delete(table.store.paths.tag("old"))
    assert remove_orphans(table.store, FUTURE).count > 0
    assert left_over(table) == ()
    assert history(table) == {number: before[number] for number in table.store.snapshot_ids()}
    assert table.expire_snapshots(retain_max=1, retain_min=1).snapshots == 1
    assert not {key for key in s3.keys(table.path) if key.startswith("snapshot/snapshot-")} - {
        f"snapshot/snapshot-{max(before)}"
    }


@pytest.mark.parametrize("kind", first(["lookup", "keyed"], 1))
def test_changelogs_outlive_their_snapshots(catalog: Catalog, s3: S3, kind: str) -> None:
    wide = {"changelog.num-retained.max": "2000", "changelog.num-retained.min": "2000"}
    table = made(catalog, kind, **wide)
    for number in range(5):
        put(table, (ODD, number % 2, number))
    newest = table.latest_snapshot()
    assert newest is not None

    def told() -> list[int]:
        clear_cache()
        found = [table.store.find_changes(number) for number in range(1, newest.id + 1)]
        return [sum(e.file.row_count for e in changelog_entries(table.store, one)) for one in found if one is not None]

    before = told()
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert table.store.changelog_ends() == (1, newest.id - 1)
    assert told() == before and len(before) == newest.id
    assert left_over(table) == ()
    assert table.expire_changelogs(retain_max=3, retain_min=1).changelogs > 0
    if kind == "lookup":  # what a kept compaction replaced goes with it
        assert left_over(table) == ()
    table.expire_changelogs(everything=True)
    assert table.store.changelog_ids() == [] == [key for key in s3.keys(table.path) if key.startswith("changelog/")]
    if kind == "lookup":
        assert left_over(table) == ()
    assert len(rows(table)) == 2


def test_commits_expire_by_the_table_s_options(catalog: Catalog) -> None:
    more = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2", "snapshot.time-retained": "1 ms"}
    table = made(catalog, "bucketed", **more)
    for number in range(6):
        put(table, ("a", number, number))
    assert len(table.snapshots()) <= 2
    assert len(rows(table)) == 6
    assert left_over(table) == ()


# ---- orphans


def stray(table: Table, *names: str) -> set[str]:
    paths = {f"{table.path}/{name}" for name in names}
    for path in paths:
        table.store.env.storage.write(path, b"12345")
    return paths


OURS = (
    "manifest/manifest-gone-0",
    "index/index-gone-0",
    "statistics/stat-gone",
    "p=1/bucket-0/data-gone & more-0.parquet",
    "p=7 +ü/bucket-3/data-gone-1.parquet",
    "snapshot/.probe-0123456789abcdef0123456789abcdef",
    "schema/.probe-0123456789abcdef0123456789abcdef",
    ".staging-x/p=1/part-0.parquet",
)
OTHERS = ("readme.txt", "p=1/x", "p=1/other/x", "bucket-0/x", "tag/notes", "key-index/layer-1")


@pytest.mark.slow
def test_exactly_the_strays_go_in_few_requests(catalog: Catalog, s3: S3) -> None:
    table = made(catalog, "keyed")
    put(table, (ODD, 1, 1), ("b", 2, 2))
    put(table, (ODD, 1, 2))
    root = table.path.removeprefix("s3://lake/")
    markers = ("", "manifest/", "snapshot/", "tag/", "branch/", "p=1/", "p=1/bucket-0/", "p=9/bucket-5/")
    for marker in markers:  # the empty folders of Hadoop and Paimon
        s3.client.put_object(Bucket="lake", Key=f"{root}/{marker}", Body=b"")
    before = s3.keys(table.path)
    many = [f"p=1/bucket-0/data-gone-{number}.parquet" for number in range(1100)]  # more than a page of a listing
    strays, others = stray(table, *OURS, *many), stray(table, *OTHERS)
    dry = remove_orphans(table.store, FUTURE, dry_run=True)
    assert set(dry.paths) == strays and (dry.count, dry.size) == (len(strays), 5 * len(strays))
    s3.fail()
    done = remove_orphans(table.store, FUTURE)
    assert set(done.paths) == strays
    assert s3.keys(table.path) == before | {path[len(table.path) + 1 :] for path in others}
    assert set(s3.deletes()) == {"POST"} and len(s3.deletes()) <= 17
    assert rows(table) == [(ODD, 1, 2), ("b", 2, 2)]
    assert remove_orphans(table.store, FUTURE).count == 0


def test_stores_that_take_no_lists(catalog: Catalog, s3: S3) -> None:
    """Some speak S3 without its requests for many deletes; Hadoop's option says so."""
    given = {**s3.options, "fs.s3a.multiobjectdelete.enable": "false"}
    catalog = bucketlake.open(catalog.warehouse, given)
    table = made(catalog, "keyed")
    for number in range(4):
        put(table, ("a", 1, number))
    strays = stray(table, *OURS)
    s3.fail(("?delete", "refuse", 1000))
    assert remove_orphans(table.store, FUTURE).count == len(strays)
    assert table.expire_snapshots(retain_max=1, retain_min=1).snapshots > 0
    assert left_over(table) == ()
    assert rows(table) == [("a", 1, 3)]
    catalog.drop_table("t")
    assert s3.keys(table.path) == set() and set(s3.deletes()) == {"DELETE"}


def test_young_objects_stay(catalog: Catalog) -> None:
    table = made(catalog, "append")
    put(table, ("a", 1, 1))
    stray(table, *OURS)
    assert table.remove_orphan_files().count == 0


def test_a_commit_during_the_cleaning_keeps_its_files(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(catalog, "keyed")
    put(table, ("a", 1, 1))
    stray(table, *OURS)
    real, once = ObjectStorage.walk, []

    def walk(self: ObjectStorage, path: str) -> Any:
        if not once:
            once.append(put(table, ("a", 2, 2)))
        return real(self, path)

    monkeypatch.setattr(ObjectStorage, "walk", walk)
    assert remove_orphans(table.store, FUTURE).count == len(OURS)
    clear_cache()
    assert rows(table) == [("a", 1, 1), ("a", 2, 2)]


def test_branches_keep_what_they_share(catalog: Catalog, s3: S3) -> None:
    table = made(catalog, "keyed")
    put(table, ("a", 1, 1))
    store = table.store.on_branch("b")
    first = table.store.snapshot(1)
    store.env.storage.write(store.paths.snapshot(1), encode_snapshot(first))
    assert remove_orphans(table.store, FUTURE).count == 0  # nobody can open it yet, and what it names is kept
    store.env.storage.write(store.paths.schema(0), store.env.storage.read(table.store.paths.schema(0)))
    branch = catalog.table("t$branch_b")
    put(branch, ("a", 5, 5))
    for number in range(3):
        put(table, ("a", 1, number))
    table.compact()
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert left_over(table) == ()
    assert (rows(branch), rows(table)) == ([("a", 1, 1), ("a", 5, 5)], [("a", 1, 2)])


# ---- buckets


def test_pending_rows_are_placed(catalog: Catalog) -> None:
    pending = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false", "postpone.default-bucket-num": "2"}
    table = catalog.create_table("t", SCHEMA, ["p"], ["p", "k"], {**NEVER, **pending})
    for number in range(3):
        put(table, *((part, k, 10 * number + k) for part in (ODD, "b") for k in range(number, 6)))
    expected = sorted((part, k, 10 * min(k, 2) + k) for part in (ODD, "b") for k in range(6))
    assert rows(table) == []
    assert rows(table.with_options({"postpone.merge-on-read": "true"})) == expected
    assert table.compact(where="p = 'b'") is not None
    assert rows(table) == [row for row in expected if row[0] == "b"]
    table.compact()
    assert rows(table) == expected
    table.rescale(3)
    assert rows(table) == expected and {found.bucket for found in table.files()} <= {0, 1, 2}
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert left_over(table) == ()
    assert rows(table) == expected


@pytest.mark.parametrize("kind", first(["keyed", "bucketed"], 1))
def test_rescale(catalog: Catalog, kind: str) -> None:
    table = made(catalog, kind)
    put(table, *((ODD, k, k) for k in range(20)), *(("b", k, k) for k in range(20)))
    put(table, *((ODD, k, -k) for k in range(20, 30)))
    expected = rows(table)
    for number in (4, 1, 3):
        table.rescale(number)
        clear_cache()
        assert rows(table) == expected
        assert {found.bucket for found in table.files()} == set(range(number))
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert left_over(table) == ()
    assert rows(table) == expected


def upsert(table: Table, given: Sequence[Row]) -> None:
    """One write of one task that finds its keys by the cached index."""
    store, user = table.store, new_commit_user(table.store)
    base = store.latest_snapshot()
    task = prepare_write(store, base, commit_user=user)
    if base is not None:
        assert open_index(store, base) is not None
    batch = pa.RecordBatch.from_pylist([dict(zip("pkv", row, strict=True)) for row in given], SCHEMA)
    table.commit(write_batches(store, [batch], task), user)


@pytest.mark.slow
def test_the_cached_key_index(catalog: Catalog, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []
    real = cache.build
    monkeypatch.setattr(cache, "build", lambda store, snapshot: built.append(snapshot.id) or real(store, snapshot))
    monkeypatch.setattr(cache, "RECENT_ROWS", 0)
    table = catalog.create_table("t", SCHEMA, ["p"], ["k"], {**NEVER, "bucket": "-1"})
    upsert(table, [("a", k, k) for k in range(50)])
    expected = {k: ("a", k) for k in range(50)}
    for number, part in enumerate((ODD, "b", "a", ODD)):
        upsert(table, [(part, k, 100 * number + k) for k in range(number * 10, number * 10 + 20)])
        expected |= {k: (part, 100 * number + k) for k in range(number * 10, number * 10 + 20)}
    assert {k: (p, v) for p, k, v in rows(table)} == expected
    assert len(built) == 1, "later writes read what was new"
    check_places(table, expected)
    assert left_over(table) == ()
    table.compact()
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert remove_orphans(table.store, FUTURE).count == 0
    kept = {key for key in s3.keys(table.path) if key.startswith("key-index/")}
    assert kept
    for key in kept:
        table.store.env.storage.write(f"{table.path}/{key}", b"{}")
    clear_cache()
    upsert(bucketlake.open(catalog.warehouse, s3.options).table("t"), [("b", 7, 7), ("c", 60, 60)])
    assert len(built) == 2
    assert {k: (p, v) for p, k, v in rows(table)} == expected | {7: ("b", 7), 60: ("c", 60)}
    for key in kept:
        table.store.env.storage.delete(f"{table.path}/{key}")
    check_places(table, expected | {7: ("b", 7), 60: ("c", 60)})


def check_places(table: Table, expected: dict[int, tuple[str, int]]) -> None:
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    index = open_index(table.store, snapshot)
    assert index is not None
    wanted = sorted(expected)
    keys = Keys.of(pa.RecordBatch.from_pydict({"k": pa.array(wanted, pa.int64())}), key_fields(table.store))
    order = np.argsort(keys.hashes)
    reader = IndexReader(table.store, index)
    found = reader.find(keys.take(order)).tolist()
    for place, k in zip(found, np.array(wanted)[order].tolist(), strict=True):
        partition, _ = reader.numbers.places[place]
        assert table.store.paths.partition_texts(partition)["p"] == expected[k][0]


def test_a_table_is_one_under_each_scheme_of_its_store(s3: S3, warehouse: str) -> None:
    """Its folder, its folders outside, and those that the session allows are spelled as it happens."""
    outside = f"{warehouse}-outside".removeprefix("s3://")
    options = {"data-file.external-paths": f"s3a://{outside}", "data-file.external-paths.strategy": "round-robin"}
    first_seen = bucketlake.open(warehouse, {**s3.options, "allowed-external-paths": f"s3://{outside}"})
    table = made(first_seen, "append", **options)
    put(table, ("a", 1, 1))
    other = warehouse.replace("s3://", "s3a://")
    seen = bucketlake.open(other, {**s3.options, "allowed-external-paths": f"s3n://{outside}/"}).table("t")
    put(seen, ("a", 2, 2))
    for one in (first_seen.table("t"), seen):
        assert rows(one) == [("a", 1, 1), ("a", 2, 2)]
        assert not one.fsck("rows").findings
        assert left_over(one) == ()
    assert len(s3.keys(f"s3://{outside}")) == 2
