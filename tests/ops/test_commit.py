"""Commits of one writer: kinds, contents of snapshots, overwrite, idempotence, cleaning up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.sim.clock import FakeClock
from tests.sim.storage import FAIL_BEFORE, FaultStorage, MapStorage
from tests.sim.tables import (
    NO_PARTITION,
    check_table,
    commit_of,
    create_table,
    data_file,
    live_names,
    make_store,
    message,
    partition,
    table_schema,
)

from bucketlake.errors import ConflictError, InvalidError, StorageError
from bucketlake.format.index.index_manifest import IndexFile
from bucketlake.format.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, encode_snapshot
from bucketlake.ops.commit.commit import CommitProperties
from bucketlake.ops.scan.scan import changelog_entries, delta_entries, live_entries
from bucketlake.ops.table.changes import MAX_SEQUENCE_PROPERTY


def store_of(**options: Any) -> Any:
    return create_table(MapStorage(), FakeClock(), table_schema(**options))


def test_first_append() -> None:
    store = store_of()
    done = commit_of(store).commit([message(data_file("a"))], notes=CommitProperties(operation="WRITE"))
    assert done == store.latest_snapshot()
    assert (done.id, done.commit_kind, done.commit_user) == (1, CommitKind.APPEND, "me")
    assert done.commit_identifier == BATCH_COMMIT_IDENTIFIER
    assert (done.total_record_count, done.delta_record_count) == (10, 10)
    assert (done.next_row_id, done.operation, done.watermark, done.properties) == (0, "WRITE", None, None)
    assert done.base_manifest_list_size == len(store.env.storage.read(store.paths.manifest(done.base_manifest_list)))
    assert done.delta_manifest_list_size == len(store.env.storage.read(store.paths.manifest(done.delta_manifest_list)))
    assert store.env.storage.read(store.paths.latest_hint) == b"1"
    assert store.env.storage.read(store.paths.earliest_hint) == b"1"


def test_nothing_to_commit() -> None:
    store = store_of()
    assert commit_of(store).commit([]) is None
    assert commit_of(store).commit([message()]) is None
    assert store.latest_snapshot() is None
    done = commit_of(store).commit([], 3, allow_empty=True)
    assert (done.commit_kind, done.delta_record_count) == (CommitKind.APPEND, 0)


def test_write_and_compaction_are_two_snapshots() -> None:
    store = store_of()
    new = data_file("a")
    after = data_file("b", level=5)
    done = commit_of(store).commit([message(new, compact_before=(new,), compact_after=(after,))], 7)
    assert [s.commit_kind for s in store.snapshots()] == [CommitKind.APPEND, CommitKind.COMPACT]
    assert {s.commit_identifier for s in store.snapshots()} == {7}
    assert done.id == 2
    assert live_names(store) == {"b"}
    check_table(store)


def test_deleting_files_makes_an_overwrite() -> None:
    store = store_of()
    old = data_file("a")
    commit_of(store).commit([message(old)])
    done = commit_of(store).commit([message(data_file("b", sequences=(0, 3)), deleted_files=(old,))])
    assert done.commit_kind is CommitKind.OVERWRITE
    assert (done.total_record_count, done.delta_record_count) == (4, -6)


def test_vectors_make_an_overwrite() -> None:
    store = store_of()
    done = commit_of(store).commit([message(new_index_files=(IndexFile("DELETION_VECTORS", "i", 1, 0, ()),))])
    assert done.commit_kind is CommitKind.OVERWRITE


def test_watermark_properties_and_changelog() -> None:
    store = store_of()
    commit = commit_of(store)
    notes = CommitProperties({"a": "b"}, watermark=100)
    first = commit.commit([message(data_file("a"), changelog_files=(data_file("log"),))], 1, notes=notes)
    assert (first.watermark, first.properties, first.changelog_record_count) == (100, {"a": "b"}, 10)
    assert [e.file.file_name for e in changelog_entries(store, first)] == ["log"]
    late = commit.commit([message(data_file("b", sequences=(10, 19)))], 2, notes=CommitProperties(watermark=50))
    assert (late.watermark, late.properties, late.changelog_manifest_list) == (100, None, None)


def test_statistics_are_carried_while_the_schema_is_the_same() -> None:
    store = store_of()
    commit_of(store).commit([message(data_file("a"))])
    snapshot = store.latest_snapshot()
    with_stats = replace(snapshot, id=2, statistics="stats-1")
    store.env.storage.write(store.paths.snapshot(2), encode_snapshot(with_stats))
    store.env.storage.write(store.paths.statistics("stats-1"), b'{"snapshotId": 1, "schemaId": 0}')
    assert commit_of(store).commit([message(data_file("b"), bucket=1)]).statistics == "stats-1"
    store.env.storage.write(store.paths.schema(1), replace(store.schema, id=1).encode())
    after = commit_of(store).commit([message(data_file("c"), part=partition(2))])
    assert (after.schema_id, after.statistics) == (1, None)


@pytest.mark.parametrize("content", [None, b"[]", b"{"])
def test_statistics_that_are_gone_or_damaged_end_with_their_snapshot(content: bytes | None) -> None:
    store = store_of()
    commit_of(store).commit([message(data_file("a"))])
    with_stats = replace(store.latest_snapshot(), id=2, statistics="stats-1")
    store.env.storage.write(store.paths.snapshot(2), encode_snapshot(with_stats))
    if content is not None:
        store.env.storage.write(store.paths.statistics("stats-1"), content)
    with pytest.warns(UserWarning, match="stats-1"):
        assert commit_of(store).commit([message(data_file("b"), bucket=1)]).statistics is None
    assert commit_of(store).commit([message(data_file("c"), bucket=1)]).id == 4


def test_sequence_property() -> None:
    store = store_of(options={"write.sequence-number-init-mode": "snapshot"})
    first = commit_of(store).commit([message(data_file("a", sequences=(0, 41)))])
    assert first.properties == {MAX_SEQUENCE_PROPERTY: "41"}
    second = commit_of(store).commit([message(data_file("b", sequences=(0, 3)), bucket=1)])
    assert second.properties == {MAX_SEQUENCE_PROPERTY: "41"}


def test_static_overwrite_replaces_the_partition_as_it_is_now() -> None:
    store = store_of()
    commit = commit_of(store)
    commit.commit([message(data_file("a")), message(data_file("b"), part=partition(2))])
    done = commit.overwrite([message(data_file("c"))], {"pt": "1"})
    assert done.commit_kind is CommitKind.OVERWRITE
    assert live_names(store) == {"b", "c"}
    assert {e.file.file_name: int(e.kind) for e in delta_entries(store, done)} == {"a": 1, "c": 0}
    commit.overwrite([], {"pt": 1})
    assert live_names(store) == {"b"}


def test_static_overwrite_refuses_files_outside() -> None:
    store = store_of()
    with pytest.raises(InvalidError, match="does not belong"):
        commit_of(store).overwrite([message(data_file("a"))], {"pt": 2})
    with pytest.raises(InvalidError, match="not partition columns"):
        commit_of(store).overwrite([message(data_file("a"))], {"k": 2})
    assert store.latest_snapshot() is None


def test_whole_table_overwrite() -> None:
    store = store_of()
    commit = commit_of(store)
    commit.commit([message(data_file("a")), message(data_file("b"), part=partition(2))])
    commit.overwrite([message(data_file("c"), changelog_files=(data_file("log"),))])
    assert live_names(store) == {"c"}
    assert store.latest_snapshot().changelog_manifest_list is None, "overwrites commit no changelog"


def test_dynamic_overwrite_replaces_the_partitions_written() -> None:
    store = store_of()
    commit = commit_of(store)
    commit.commit([message(data_file("a")), message(data_file("b"), part=partition(2))])
    commit.overwrite([message(data_file("c"), part=partition(2))], dynamic=True)
    assert live_names(store) == {"a", "c"}
    assert commit.overwrite([], dynamic=True) is None
    assert live_names(store) == {"a", "c"}


def test_overwrite_of_a_partition_may_change_its_bucket_number() -> None:
    store = store_of()
    commit = commit_of(store)
    commit.commit([message(data_file("a")), message(data_file("b"), part=partition(2))])
    commit.overwrite([message(data_file("c"), bucket=6, total=8)], {"pt": 1})
    commit.commit([message(data_file("d", sequences=(10, 11)), bucket=6, total=8)])
    with pytest.raises(ConflictError, match="bucket num 8, but the previous bucket num is 2"):
        commit.commit([message(data_file("e"), part=partition(2), bucket=6, total=8)])
    check_table(store)


def test_overwrite_upgrade() -> None:
    store = store_of()
    commit = commit_of(store)
    apart = [data_file("a", keys=(0, 4)), data_file("b", keys=(5, 9), sequences=(10, 19))]
    meeting = [data_file("c", keys=(0, 5)), data_file("d", keys=(5, 9), sequences=(10, 19))]
    commit.overwrite([message(*apart), message(*meeting, bucket=1)])
    levels = {e.file.file_name: e.file.level for e in live_entries(store, store.latest_snapshot())}
    assert levels["a"] == levels["b"] > 0
    assert levels["c"] == levels["d"] == 0


def test_truncate_and_drop() -> None:
    store = store_of()
    commit = commit_of(store)
    commit.commit([message(data_file(f"p{n}"), part=partition(n)) for n in (1, 2, 3)])
    commit.commit([message(data_file("null"), part=partition(None))])
    commit.drop_partitions([{"pt": 1}, {"pt": "2"}])
    assert live_names(store) == {"p3", "null"}
    commit.drop_partitions([{"pt": None}])
    assert live_names(store) == {"p3"}
    done = commit.truncate()
    assert (done.operation, done.total_record_count) == ("TRUNCATE", 0)
    with pytest.raises(InvalidError, match="cannot be empty"):
        commit.drop_partitions([])


def test_index_files() -> None:
    store = store_of()
    commit = commit_of(store)

    def index(name: str, kind: str = "HASH") -> IndexFile:
        return IndexFile(kind, name, 4, 1)

    commit.commit([message(data_file("a"), new_index_files=(index("h1"), index("x", "STRANGE")))])
    commit.commit([message(data_file("b"), part=partition(2), new_index_files=(index("h2"),))])
    plain = commit.commit([message(data_file("c"), part=partition(3))])
    assert plain.index_manifest == store.snapshot(2).index_manifest, "nothing changed, nothing written"
    replaced = message(
        data_file("d", sequences=(10, 10)), new_index_files=(index("h3"),), deleted_index_files=(index("h1"),)
    )
    done = commit.commit([replaced])
    assert {e.file.file_name for e in store.index_manifest(done)} == {"h2", "h3", "x"}
    done = commit.drop_partitions([{"pt": 1}])
    assert {e.file.file_name for e in store.index_manifest(done)} == {"h2"}


def test_streaming_identifiers_commit_once() -> None:
    store = store_of()
    new = data_file("a")
    work = [message(new, compact_before=(new,), compact_after=(data_file("b", level=5),))]
    first = commit_of(store).commit(work, 5)
    again = commit_of(store).commit(work, 5)
    assert again == first
    assert store.snapshot_ids() == [1, 2]


def test_a_restart_between_the_two_snapshots_commits_only_the_second() -> None:
    store = store_of()
    new = data_file("a")
    commit_of(store).commit([message(new)], 5)
    done = commit_of(store).commit([message(new, compact_before=(new,), compact_after=(data_file("b", level=5),))], 5)
    assert (done.id, done.commit_kind) == (2, CommitKind.COMPACT)


def test_batch_commits_of_one_user_are_told_apart() -> None:
    store = store_of()
    commit_of(store).commit([message(data_file("a"))])
    assert commit_of(store).commit([message(data_file("b"), bucket=1)]).id == 2


def test_a_conflicting_compaction_gives_way_to_its_own_write() -> None:
    store = store_of()
    base = data_file("base")
    commit_of(store).commit([message(base)])
    commit_of(store, "other").commit([message(compact_before=(base,), compact_after=(data_file("o", level=5),))])
    store.env.storage.write(store.paths.file_path(store.paths.bucket_dir(partition(), 0), data_file("c")), b"x")
    work = message(
        data_file("new", sequences=(10, 12)), compact_before=(base,), compact_after=(data_file("c", level=4),)
    )
    done = commit_of(store).commit([work])
    assert done.commit_kind is CommitKind.APPEND
    assert live_names(store) == {"o", "new"}
    assert not [path for path in store.env.storage.files if path.endswith("/c")]


def test_renumbered_files_are_cleaned_up() -> None:
    store = store_of()
    folder = store.paths.bucket_dir(partition(), 0)
    path = store.paths.file_path(folder, data_file("b"))
    commit_of(store).commit([message(data_file("a"))])
    store.env.storage.write(path, b"rows")
    commit_of(store).commit([message(data_file("b"))])
    assert live_names(store) == {"a", "b'"}
    assert path not in store.env.storage.files


def test_abort_removes_what_messages_wrote() -> None:
    store = store_of()
    folder = store.paths.bucket_dir(partition(), 0)
    kept, new = data_file("kept"), data_file("new")
    paths = {f.file_name: store.paths.file_path(folder, f) for f in (kept, new)}
    for path in paths.values():
        store.env.storage.write(path, b"rows")
    commit_of(store).abort([message(new, compact_before=(kept,), compact_after=(replace(kept, level=5),))])
    assert paths["kept"] in store.env.storage.files
    assert paths["new"] not in store.env.storage.files


def test_snapshot_ordering_stamps_the_files() -> None:
    store = store_of(options={"sequence.snapshot-ordering": "true", "write-only": "true"})
    for name in ("a", "b"):
        commit_of(store).commit([message(data_file(name))])
    files = {e.file.file_name: e.file for e in live_entries(store, store.latest_snapshot())}
    assert [(f.min_sequence_number, f.max_sequence_number) for f in files.values()] == [(1, 1), (2, 2)]


def test_discard_duplicate_files() -> None:
    store = store_of(keyed=False, bucket=-1, partitioned=False, options={"commit.discard-duplicate-files": "true"})
    work = [message(data_file("a"), part=NO_PARTITION, total=-1)]
    commit_of(store).commit(work)
    assert commit_of(store).commit(work).delta_record_count == 0
    assert live_names(store) == {"a"}


@pytest.mark.parametrize("identifier", [BATCH_COMMIT_IDENTIFIER, 4])
def test_a_failing_compaction_does_not_hide_that_the_write_landed(identifier: int) -> None:
    inner, clock = MapStorage(), FakeClock()
    store = create_table(inner, clock)
    new, after = data_file("new"), data_file("after", level=5)
    storage = FaultStorage(inner, lambda k, operation, path: FAIL_BEFORE if "snapshot-2" in path else None)
    commit = commit_of(make_store(storage, clock))
    work = [message(new, compact_before=(new,), compact_after=(after,))]
    if identifier == BATCH_COMMIT_IDENTIFIER:
        assert commit.commit(work, identifier).id == 1
    else:
        with pytest.raises(StorageError):
            commit.commit(work, identifier)
    assert live_names(store) == {"new"}


def test_strict_mode() -> None:
    schema = table_schema(options={"commit.strict-mode.last-safe-snapshot": "1"})
    store = create_table(MapStorage(), FakeClock(), schema)
    base = data_file("base")
    commit_of(store, "other").commit([message(base)])
    mine = commit_of(store, "me")
    mine.commit([message(data_file("a", sequences=(10, 10)))])
    after = data_file("c", level=5)
    commit_of(store, "me2").commit([message(compact_before=(base,), compact_after=(after,))], 1)
    with pytest.raises(ConflictError, match="strict-mode"):
        mine.commit([message(data_file("b", sequences=(11, 11)))])
    mine.commit([message(data_file("b"), part=partition(2))])


def test_deletes_may_drop_their_statistics() -> None:
    store = store_of(options={"manifest.delete-file-drop-stats": "true"})
    commit_of(store).commit([message(data_file("a"))])
    done = commit_of(store).truncate()
    (entry,) = delta_entries(store, done)
    assert entry.file.value_stats_cols == ()
    assert live_names(store) == set()
