"""Planning: which snapshot, which files, which splits."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest
from tests.check.forged import write_list
from tests.sim.clock import FakeClock
from tests.sim.storage import FaultStorage, MapStorage
from tests.sim.tables import (
    NO_PARTITION,
    appended,
    commit_of,
    create_table,
    data_file,
    make_store,
    message,
    partition,
    table_schema,
)

from bucketlake.errors import CorruptError, InvalidError, NotFoundError, UnsupportedError
from bucketlake.format.index.index_manifest import DeletionVectorRange, IndexFile
from bucketlake.format.metadata.manifest import FileKind, ManifestEntry, SimpleStats
from bucketlake.format.metadata.snapshot import encode_snapshot
from bucketlake.format.row.binary_row import encode_row, with_arity_header
from bucketlake.ops.commit.commit import CommitProperties
from bucketlake.ops.commit.manifests import write_manifests
from bucketlake.ops.scan.scan import EntryFilter, Scan, changelog_entries, delta_entries, live_entries, plan
from bucketlake.ops.scan.select import select_snapshot
from bucketlake.predicate.parse import parse_where
from bucketlake.predicate.tree import Compare, In, Or, Predicate
from bucketlake.types.model import BIGINT, INT, STRING, DataField

TYPES = [INT, BIGINT, STRING]


def row(*values: Any) -> bytes:
    return with_arity_header(encode_row(values, TYPES[: len(values)]), len(values))


def value_stats(low: tuple[Any, ...], high: tuple[Any, ...], nulls: tuple[int, ...] = (0, 0, 0)) -> SimpleStats:
    return SimpleStats(row(*low), row(*high), nulls)


def store_of(storage: Any = None, **options: Any) -> Any:
    return create_table(storage or MapStorage(), FakeClock(), table_schema(**options))


def with_values(name: str, keys: tuple[int, int], texts: tuple[str, str], keyed: bool = False, **more: Any) -> Any:
    stats = value_stats((1, keys[0], texts[0]), (1, keys[1], texts[1]))
    made = data_file if keyed else appended
    return made(name, keys=keys, value_stats=stats, value_stats_cols=None, **more)


def found(store: Any, where: str | Predicate) -> list[str]:
    planned = plan(store, Scan(parse_where(where, store.schema.fields) if isinstance(where, str) else where))
    assert sorted(e.file.file_name for e in planned.entries) == sorted(
        f.file_name for s in planned.splits for f in s.files
    )
    return sorted(e.file.file_name for e in planned.entries)


def shape(store: Any, **scan: Any) -> list[tuple[bool, list[str]]]:
    return [(s.raw, [f.file_name for f in s.files]) for s in plan(store, Scan(**scan)).splits]


# ---- snapshots


def chosen(store: Any, **options: Any) -> int | None:
    texts = {key.replace("_", "-").replace("scan-", "scan.", 1): str(value) for key, value in options.items()}
    selected = select_snapshot(store.with_options(texts)).snapshot
    return None if selected is None else selected.id


def travelled() -> Any:
    store = store_of()
    for n in range(4):
        notes = CommitProperties(watermark=100 * n)
        commit_of(store).commit([message(data_file(f"f{n}", sequences=(n, n)))], notes=notes)
    store.env.storage.write(store.paths.tag("v1"), encode_snapshot(store.snapshot(2)))
    return store


def test_snapshot_selection() -> None:
    store = travelled()
    times = [s.time_millis for s in store.snapshots()]
    assert chosen(store) == 4
    assert chosen(store, scan_mode="latest-full") == 4
    assert chosen(store, scan_mode="latest") == 4
    assert chosen(store, scan_snapshot_id=2) == 2
    assert chosen(store, scan_mode="from-snapshot-full", scan_snapshot_id=3) == 3
    assert chosen(store, scan_tag_name="v1") == 2
    assert chosen(store, scan_version="v1") == 2
    assert chosen(store, scan_version="3") == 3
    assert chosen(store, scan_version="watermark-150") == 3
    assert chosen(store, scan_watermark=200) == 3
    assert chosen(store, scan_timestamp_millis=times[2]) == 3
    text = datetime.fromtimestamp(times[1] / 1000).isoformat(sep=" ", timespec="milliseconds")
    assert chosen(store, scan_timestamp=text) == 2
    assert chosen(store, scan_creation_time_millis=times[2]) == 3
    assert chosen(store, scan_mode="compacted-full") == 4
    assert chosen(store_of()) is None


def test_a_snapshot_is_found_by_its_own_time() -> None:
    store = store_of()
    for n, millis in enumerate([1_075_403_331_876, 1_700_000_000_413]):
        store.env.clock.millis = millis - 1
        store.env.clock.now_millis = lambda: store.env.clock.millis + 1
        commit_of(store).commit([message(data_file(f"f{n}", sequences=(n, n)))])
    for snapshot in store.snapshots():
        for zone in (None, timezone.utc):
            moment = datetime.fromtimestamp(snapshot.time_millis // 1000, zone)
            text = moment.isoformat(" ").replace("+", f".{snapshot.time_millis % 1000:03}+")
            text = text if "+" in text else f"{text}.{snapshot.time_millis % 1000:03}"
            assert chosen(store, scan_timestamp=text) == snapshot.id


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"scan_snapshot_id": 9}, NotFoundError, "scan snapshotId 9 is out of available snapshotId range"),
        ({"scan_tag_name": "x"}, NotFoundError, "Tag 'x' doesn't exist"),
        ({"scan_version": "x"}, NotFoundError, "Tag 'x' doesn't exist.*tags of the table: v1"),
        ({"scan_watermark": 999}, NotFoundError, "later than or equal to watermark"),
        ({"scan_timestamp_millis": 5}, InvalidError, "no snapshot earlier than or equal to timestamp"),
        ({"scan_timestamp": "yesterday"}, InvalidError, "not a timestamp"),
        ({"scan_snapshot_id": 1, "scan_tag_name": "v1"}, InvalidError, "Only one of the following"),
        ({"scan_snapshot_id": 1, "scan_version": "v1"}, InvalidError, "Only one of the following"),
        ({"scan_mode": "latest-full", "scan_version": "2"}, InvalidError, "scan.snapshot-id must be null when you use"),
        ({"scan_timestamp_millis": 9, "scan_version": "2"}, InvalidError, "Only one of the following"),
        ({"scan_snapshot_id": 1, "incremental_between": "1,2"}, InvalidError, "must be null when you set"),
        ({"scan_version": 1, "incremental_between": "1,2"}, InvalidError, "must be null when you set"),
        (
            {"incremental_between": "1,2", "incremental_between_timestamp": "1,2"},
            InvalidError,
            "must set only one key in",
        ),
        ({"scan_version": "09"}, NotFoundError, "scan snapshotId 9 is out of available snapshotId range"),
        ({"scan_mode": "from-snapshot-full"}, InvalidError, "must be set when startupMode is FROM_SNAPSHOT_FULL"),
        ({"scan_mode": "incremental"}, UnsupportedError, "Unknown incremental read mode"),
    ],
)
def test_snapshot_selection_errors(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        chosen(travelled(), **options)


def test_files_by_creation_time() -> None:
    store = store_of()
    commit_of(store).commit([message(data_file("old", creation_time=1_000_000_000_000), data_file("new"), bucket=1)])
    late = replace(store, options=store.options.with_({"scan.file-creation-time-millis": "1600000000000"}))
    assert [e.file.file_name for e in plan(late).entries] == ["new"]


# ---- entries


def test_entries_by_partition_bucket_and_level() -> None:
    store = store_of()
    commit_of(store).commit(
        [message(data_file(f"p{p}b{b}", level=b), part=partition(p), bucket=b) for p in (1, 2) for b in (0, 1)]
    )
    snapshot = store.latest_snapshot()

    def names(**wanted: Any) -> list[str]:
        return [e.file.file_name for e in live_entries(store, snapshot, EntryFilter(**wanted))]

    assert names() == ["p1b0", "p1b1", "p2b0", "p2b1"]
    assert names(partitions=frozenset([partition(2)])) == ["p2b0", "p2b1"]
    assert names(partition=parse_where("pt < 2", store.schema.fields)) == ["p1b0", "p1b1"]
    assert names(buckets=frozenset([1])) == ["p1b1", "p2b1"]
    assert names(min_level=1) == ["p1b1", "p2b1"]
    assert names(partitions=frozenset()) == []
    assert [
        e.file.file_name for e in plan(replace(store, options=store.options.with_({"scan.bucket": 1}))).entries
    ] == [
        "p1b1",
        "p2b1",
    ]


def test_manifests_of_other_partitions_are_not_read() -> None:
    inner = MapStorage()
    store = store_of(inner)
    for p in range(10):
        commit_of(store).commit([message(data_file(f"p{p}"), part=partition(p))])
    storage = FaultStorage(inner)
    reader = make_store(storage, FakeClock(), store.schema)
    assert found(reader, "pt = 7") == ["p7"]
    assert sum("/manifest-" in path and "list" not in path for _, path in storage.calls) == 1


def test_deltas_and_changelogs() -> None:
    store = store_of()
    commit_of(store).commit([message(data_file("a"), changelog_files=(data_file("log"),))])
    done = commit_of(store).truncate()
    assert [(int(e.kind), e.file.file_name) for e in delta_entries(store, done)] == [(1, "a")]
    assert [e.file.file_name for e in changelog_entries(store, store.snapshot(1))] == ["log"]


def test_a_delete_without_add_is_corruption() -> None:
    store = store_of()
    snapshot = commit_of(store).commit([message(data_file("a"))])
    lone = ManifestEntry(FileKind.DELETE, partition(), 0, 2, data_file("gone"))
    written = write_list(store, write_manifests(store, [lone]))
    broken = replace(snapshot, delta_manifest_list=written.name, delta_manifest_list_size=written.size)
    with pytest.raises(CorruptError, match="never added"):
        live_entries(store, broken)


# ---- pruning


def test_buckets_are_chosen_by_key() -> None:
    store = store_of(bucket=4)
    commit_of(store).commit([message(data_file(f"b{b}"), bucket=b, total=4) for b in range(4)])
    hits = {k: found(store, f"pt = 1 AND k = {k}") for k in range(10)}
    assert all(len(names) == 1 for names in hits.values())
    assert len({names[0] for names in hits.values()}) > 1
    assert len(found(store, "k IN (1, 2)")) <= 2
    assert len(found(store, "k > 1 AND k < 3")) == 4


def test_values_that_a_bucket_key_cannot_have_are_in_no_bucket() -> None:
    """A join hands on the keys of a table whose column is wider."""
    store = store_of(bucket=4)
    commit_of(store).commit([message(data_file(f"b{b}"), bucket=b, total=4) for b in range(4)])
    beyond = 1 << 70
    assert found(store, In("k", (1, beyond))) == found(store, "k = 1")
    assert found(store, Or((In("k", (-beyond, None)), Compare("k", "=", beyond)))) == []
    assert len(found(store, Compare("k", "<>", beyond))) == 4


def test_buckets_are_chosen_by_each_partitions_number() -> None:
    store = store_of(bucket=4)
    commit_of(store).commit([message(data_file(f"a{b}"), bucket=b, total=4) for b in range(4)])
    commit_of(store).commit([message(data_file(f"b{b}"), part=partition(2), bucket=b, total=8) for b in range(8)])
    names = found(store, "k = 5")
    assert [name[0] for name in names] == ["a", "b"]


def test_append_files_are_pruned_by_every_column() -> None:
    store = store_of(keyed=False, bucket=-1)
    files = [with_values(f"f{n}", (10 * n, 10 * n + 9), (f"{n}a", f"{n}z")) for n in range(5)]
    commit_of(store).commit([message(*files, total=-1)])
    assert found(store, "k = 25") == ["f2"]
    assert found(store, "v >= '3b'") == ["f3", "f4"]
    assert found(store, "k < 15 AND v > '1'") == ["f1"]
    assert found(store, "k = 5 OR v = '4b'") == ["f0", "f4"]
    assert found(store, "v IS NULL") == []
    assert found(store, "pt = 2") == []


def test_files_without_statistics_stay() -> None:
    store = store_of(keyed=False, bucket=-1)
    known = with_values("known", (0, 9), ("a", "b"))
    only_k = appended(
        "dense",
        value_stats=SimpleStats(*[with_arity_header(encode_row((v,), [BIGINT]), 1) for v in (50, 59)], (0,)),
        value_stats_cols=("k",),
    )
    commit_of(store).commit([message(known, appended("none"), only_k, total=-1)])
    assert found(store, "k = 55") == ["dense", "none"]
    assert found(store, "v = 'zz'") == ["dense", "none"]


def test_statistics_follow_columns_through_schema_changes() -> None:
    store = store_of(keyed=False, bucket=-1)
    old = with_values("old", (0, 9), ("a", "b"))
    commit_of(store).commit([message(old, total=-1)])
    fields = (store.schema.fields[0], replace(store.schema.fields[1], name="key"), DataField(9, "w", STRING))
    schema = replace(store.schema, id=1, fields=fields, highest_field_id=9)
    store.env.storage.write(store.paths.schema(1), schema.encode())
    renamed = replace(store, schema=schema)
    assert found(renamed, "key = 5") == ["old"]
    assert found(renamed, "key = 50") == []
    assert found(renamed, "w = 'x'") == [], "a column added later is null"
    assert found(renamed, "w IS NULL") == ["old"]
    retyped = replace(renamed, schema=replace(schema, fields=(fields[0], replace(fields[1], type=STRING), fields[2])))
    assert found(retyped, "key = '50'") == ["old"], "statistics of another type decide nothing"


def test_versions_of_a_row_are_pruned_together() -> None:
    store = store_of(bucket=1)
    old = with_values("old", (0, 9), ("a", "c"), level=5, keyed=True)
    new = with_values("new", (5, 6), ("x", "z"), sequences=(10, 19), keyed=True)
    apart = with_values("apart", (100, 109), ("m", "n"), sequences=(20, 29), keyed=True)
    commit_of(store).commit([message(old, new, apart, total=1)])
    assert found(store, "v = 'b'") == ["new", "old"], "the newer version decides"
    assert found(store, "v = 'm'") == ["apart"]
    assert found(store, "v = 'q'") == []
    assert found(store, "k > 50") == ["apart"]
    assert found(store, "k = 2") == ["old"], "keys prune each file"
    made = replace(store, options=store.options.with_({"merge-engine": "aggregation"}))
    assert found(made, "v = 'q'") == ["new", "old"], "an aggregate can be in no file"


# ---- splits


def test_sections_and_raw_splits() -> None:
    store = store_of(bucket=1)
    files = [
        data_file("a", keys=(0, 9), level=5),
        data_file("b", keys=(10, 19), level=5),
        data_file("c", keys=(15, 25), sequences=(10, 19)),
        data_file("d", keys=(30, 39), level=5),
        data_file("e", keys=(50, 59), sequences=(20, 29), delete_row_count=1),
    ]
    commit_of(store).commit([message(*files, total=1)])
    assert shape(store) == [(True, ["a", "d"]), (False, ["b", "c", "e"])]
    tiny = replace(store, options=store.options.with_({"source.split.target-size": "1 kb"}))
    assert shape(tiny) == [(True, ["a"]), (False, ["b", "c"]), (True, ["d"]), (False, ["e"])], "by key"


def test_one_level_is_raw() -> None:
    store = store_of(bucket=1)
    files = [data_file(f"f{n}", keys=(10 * n, 10 * n + 9), level=5) for n in range(4)]
    commit_of(store).commit([message(*files, total=1)])
    assert shape(store) == [(True, ["f0", "f1", "f2", "f3"])]


def test_append_tables_pack_in_file_order() -> None:
    store = store_of(keyed=False, bucket=-1, partitioned=False)
    options = {"source.split.target-size": "100 b", "source.split.open-file-cost": "10 b"}
    sizes = [60, 30, 5, 200, 5, 5]
    for n in reversed(range(6)):
        one = appended(f"f{n}", sequences=(n, n), file_size=sizes[n])
        commit_of(store).commit([message(one, part=NO_PARTITION, total=-1)])
    small = replace(store, options=store.options.with_(options))
    assert shape(small) == [(True, ["f0", "f1", "f2"]), (True, ["f3"]), (True, ["f4", "f5"])]


def test_splits_say_where_and_what() -> None:
    store = store_of()
    vectors = IndexFile("DELETION_VECTORS", "i", 9, 1, (DeletionVectorRange("a", 1, 8, 2),))
    commit_of(store).commit([message(data_file("a"), bucket=1, new_index_files=(vectors,))])
    (split,) = plan(store).splits
    assert (split.snapshot_id, split.partition, split.bucket, split.total_buckets) == (1, partition(), 1, 2)
    assert split.bucket_path == store.paths.bucket_dir(partition(), 1)
    assert split.deletions["a"].path == store.paths.index("i")
    assert split.deletions["a"].range.cardinality == 2
    planned = plan(store)
    assert (planned.row_count, planned.size) == (10, 1000)


def test_level_0_is_hidden_where_reads_do_not_see_it() -> None:
    store = store_of()
    commit_of(store).commit([message(data_file("new"), data_file("done", level=5))])
    for options, names in [
        ({"merge-engine": "first-row"}, ["done"]),
        ({"deletion-vectors.enabled": True}, ["done"]),
        ({"deletion-vectors.enabled": True, "deletion-vectors.merge-on-read": True}, ["done", "new"]),
    ]:
        other = replace(store, options=store.options.with_(options))
        assert sorted(e.file.file_name for e in plan(other).entries) == names


def test_an_empty_table() -> None:
    assert plan(store_of()).splits == ()
