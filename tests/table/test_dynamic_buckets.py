"""Tables with dynamic buckets, without Spark: every key in one bucket, in the one that the index says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from tests.profile import examples

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.env.local import LocalStorage
from bucketlake.errors import CorruptError, InvalidError
from bucketlake.format.index.hash_index import decode_hashes
from bucketlake.ops.buckets.dynamic import hash_files, key_hashes
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.write.prepare import new_commit_user, prepare_write
from bucketlake.ops.write.write import write_batches
from bucketlake.table import Table
from bucketlake.types.model import canonical_batch

SCHEMA = pa.schema([pa.field("pt", pa.string()), pa.field("k", pa.int64()), pa.field("v", pa.int64())])
Row = tuple[str, int, int]


def create(catalog: Catalog, name: str = "t", **options: str) -> Table:
    texts = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return catalog.create_table(name, SCHEMA, partition_keys=["pt"], primary_keys=["pt", "k"], options=texts)


def arrow(rows: Sequence[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [[], [], []]
    return pa.table([pa.array(column, item.type) for column, item in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def numbered(keys: Sequence[int], value: int = 0, pt: str = "a") -> pa.Table:
    return arrow([(pt, key, value) for key in keys])


def rows(table: Table) -> set[Row]:
    found = [tuple(row.values()) for row in table.to_arrow().to_pylist()]
    assert len(found) == len(set(found))
    return set(found)


def index_of(table: Table) -> dict[tuple[str, int], list[int]]:
    """Partition and bucket -> the hashes that its index file holds, in the order stored."""
    store = table.store
    found = {}
    for partition, files in hash_files(store.index_manifest(store.latest_snapshot())).items():
        for bucket, file in files.items():
            data = Path(store.paths.index_path(partition, bucket, file)).read_bytes()
            assert len(data) == file.file_size
            texts = store.paths.partition_texts(partition)
            found["/".join(texts.values()), bucket] = decode_hashes(data, rows=file.row_count).tolist()
    return found


def buckets_of(table: Table) -> dict[tuple[str, int], set[int]]:
    """Partition and key -> the buckets of all live files that hold it, superseded rows included."""
    found: dict[tuple[str, int], set[int]] = {}
    for file in table.files():
        assert file.total_buckets == -1
        for key in pq.ParquetFile(file.path).read(columns=["k"]).column("k").to_pylist():
            found.setdefault((file.partition.get("pt", ""), key), set()).add(file.bucket)
    return found


def hash_of(key: int) -> int:
    fields = bucketlake.types.DataField(0, "k", bucketlake.types.BIGINT.with_nullable(False))
    batch = canonical_batch(pa.record_batch({"k": [key]}), [fields])
    return int(key_hashes(batch, [fields])[0])


def check(table: Table) -> dict[tuple[str, int], int]:
    """Every key lies in one bucket, and its hash in the index of that bucket alone. Partition and key -> bucket."""
    places = {key: sorted(found) for key, found in buckets_of(table).items()}
    assert all(len(found) == 1 for found in places.values()), {k: f for k, f in places.items() if len(f) > 1}
    index = index_of(table)
    by_hash: dict[tuple[str, int], list[int]] = {}
    for (pt, bucket), hashes in index.items():
        assert hashes == sorted(set(hashes)), "files are written sorted"
        for value in hashes:
            by_hash.setdefault((pt, value), []).append(bucket)
    assert all(len(found) == 1 for found in by_hash.values())
    for (pt, key), found in places.items():
        assert by_hash[pt, hash_of(key)] == found
    return {key: found[0] for key, found in places.items()}


def test_ten_keys_with_a_target_of_two_fill_five_buckets_and_stay(catalog: Catalog) -> None:
    table = create(catalog, dynamic_bucket__target_row_num="2")
    table.write_arrow(numbered(range(10)))
    first = check(table)
    assert sorted(set(first.values())) == [0, 1, 2, 3, 4]
    table.write_arrow(numbered(range(9, -1, -1), 1))
    assert check(table) == first
    table.write_arrow(numbered([3, 100], 2))
    assert {key: bucket for key, bucket in check(table).items() if key != ("a", 100)} == first
    assert check(table)["a", 100] == 5
    assert rows(table) == {("a", k, 1) for k in range(10) if k != 3} | {("a", 3, 2), ("a", 100, 2)}


def test_the_default_bucket_of_a_keyed_table_is_dynamic(catalog: Catalog) -> None:
    table = catalog.create_table("t", SCHEMA.remove(0), primary_keys=["k"])
    for keys in ([1], [2, 3], [4, 5, 6, 7]):
        table.write_arrow(pa.table({"k": keys, "v": keys}))
    table.delete("k in (2, 3)")
    assert {row["k"] for row in table.to_arrow().to_pylist()} == {1, 4, 5, 6, 7}
    assert set(check(table).values()) == {0}
    assert [len(hashes) for hashes in index_of(table).values()] == [7], "deleting keeps the hash"


def test_keys_with_the_partition_column(catalog: Catalog) -> None:
    table = create(catalog, dynamic_bucket__target_row_num="2")
    table.write_arrow(arrow([("1", k, 10 * k) for k in range(1, 5)]))
    table.write_arrow(arrow([("2", 1, 11)]))
    assert rows(table) == {("1", 1, 10), ("1", 2, 20), ("1", 3, 30), ("1", 4, 40), ("2", 1, 11)}
    assert set(check(table).values()) == {0, 1}
    assert {place: len(found) for place, found in index_of(table).items()} == {("1", 0): 2, ("1", 1): 2, ("2", 0): 1}


def test_a_repeated_key_of_one_write_gets_one_bucket(catalog: Catalog) -> None:
    table = create(catalog, dynamic_bucket__target_row_num="1", write_buffer_size="300 b")
    keys = [1, 2, 1, 3, 2, 1] * 50
    table.write_arrow(
        pa.Table.from_batches([b for k in range(0, 300, 7) for b in numbered(keys[k : k + 7], k).to_batches()])
    )
    assert sorted(check(table).values()) == [0, 1, 2]


def test_initial_and_most_buckets(catalog: Catalog) -> None:
    many = create(catalog, "many", dynamic_bucket__initial_buckets="4")
    many.write_arrow(numbered(range(100)))
    assert set(check(many).values()) == {0, 1, 2, 3}
    capped = create(catalog, "capped", dynamic_bucket__target_row_num="2", dynamic_bucket__max_buckets="3")
    capped.write_arrow(numbered(range(30)))
    sizes = np.bincount(list(check(capped).values()))
    assert sizes.tolist() == [10, 10, 10]
    capped.write_arrow(numbered(range(30, 33)))
    assert np.bincount(list(check(capped).values())).tolist() == [11, 11, 11]


def test_the_options_do_nothing_with_a_fixed_number(catalog: Catalog) -> None:
    table = create(catalog, bucket="2", dynamic_bucket__target_row_num="1")
    table.write_arrow(numbered(range(20)))
    assert {file.total_buckets for file in table.files()} == {2}
    assert index_of(table) == {}


def test_only_the_index_of_partitions_that_get_rows_is_read(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create(catalog)
    table.write_arrow(arrow([(pt, k, 0) for pt in "abc" for k in range(3)]))
    read: list[str] = []
    real = LocalStorage.read

    def spy(self: Any, path: str, offset: int = 0, length: int | None = None) -> bytes:
        read.append(path)
        return real(self, path, offset, length)

    monkeypatch.setattr(LocalStorage, "read", spy)
    table.write_arrow(numbered([1, 2], 1, "b"))
    assert len([path for path in read if "/index/index-" in path]) == 1, "known keys: looked up, and no new file"


def test_overwrites_and_drops_take_the_index_with_them(catalog: Catalog) -> None:
    table = create(catalog, dynamic_bucket__target_row_num="2")
    table.write_arrow(arrow([(pt, k, 0) for pt in "ab" for k in range(6)]))
    table.write_arrow(numbered([7]), "overwrite")
    assert {place: len(found) for place, found in index_of(table).items()} == {
        ("a", 0): 1,
        ("b", 0): 2,
        ("b", 1): 2,
        ("b", 2): 2,
    }
    check(table)
    table.write_arrow(numbered([5], 1, "b"), "overwrite", partition={"pt": "b"})
    table.write_arrow(numbered([1, 2, 3], 1, "b"))
    assert {place: len(found) for place, found in index_of(table).items()} == {("a", 0): 1, ("b", 0): 2, ("b", 1): 2}
    table.drop_partitions([{"pt": "a"}])
    assert {place[0] for place in index_of(table)} == {"b"}
    table.write_arrow(numbered([1], pt="c"), "overwrite", dynamic_partition_overwrite=False)
    assert {place: len(found) for place, found in index_of(table).items()} == {("c", 0): 1}
    table.truncate()
    assert index_of(table) == {}
    table.write_arrow(numbered(range(3)))
    assert len(check(table)) == 3


def test_a_failed_write_leaves_no_index_file(catalog: Catalog, tmp_path: Path) -> None:
    table = create(catalog, dynamic_bucket__target_row_num="1")
    table.write_arrow(numbered([1]))
    before = {str(path) for path in tmp_path.rglob("index-*")}
    bad = pa.table({"pt": ["a", "a"], "k": [2, None], "v": [0, 0]})
    with pytest.raises(InvalidError):
        table.write_arrow(pa.Table.from_batches([*numbered([3]).to_batches(), *bad.cast(SCHEMA).to_batches()]))
    assert {str(path) for path in tmp_path.rglob("index-*")} == before


def test_a_damaged_index_is_named_and_nothing_is_written(catalog: Catalog, tmp_path: Path) -> None:
    table = create(catalog)
    table.write_arrow(numbered([1, 2]))
    (path,) = (path for path in tmp_path.rglob("index-*") if path.parent.name == "index")
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(CorruptError, match=path.name):
        table.write_arrow(numbered([3]))
    path.write_bytes(path.read_bytes()[:4])
    with pytest.raises(CorruptError, match=path.name):
        table.write_arrow(numbered([3]))
    assert rows(table) == {("a", 1, 0), ("a", 2, 0)}
    table.write_arrow(numbered([3]), "overwrite")
    check(table)


def test_files_without_an_index_are_refused(catalog: Catalog) -> None:
    from bucketlake.ops.commit.commit import Commit
    from bucketlake.ops.table.messages import CommitMessage

    table = create(catalog)
    table.write_arrow(numbered([1]))
    store = table.store
    (entry,) = live_entries(store, store.latest_snapshot())
    (index,) = store.index_manifest(store.latest_snapshot())
    gone = CommitMessage(entry.partition, 0, -1, deleted_index_files=(index.file,))
    Commit(store, "someone").commit([gone])
    with pytest.raises(CorruptError, match=r"no hash index.*buckets=\[0\]"):
        table.write_arrow(numbered([1], 2))
    table.write_arrow(numbered([1], pt="b"))
    table.write_arrow(numbered([1], 2), "overwrite")
    assert rows(table) == {("a", 1, 2), ("b", 1, 0)}


def test_a_hash_in_two_buckets_is_told(catalog: Catalog) -> None:
    from bucketlake.format.index.index_manifest import IndexFile
    from bucketlake.ops.buckets.dynamic import write_hashes
    from bucketlake.ops.commit.commit import Commit
    from bucketlake.ops.table.messages import CommitMessage

    table = create(catalog)
    table.write_arrow(numbered([1]))
    store = table.store
    (entry,) = live_entries(store, store.latest_snapshot())
    torn: IndexFile = write_hashes(store, entry.partition, 1, np.array([hash_of(1)], np.int32))
    Commit(store, "a java writer").commit([CommitMessage(entry.partition, 1, -1, new_index_files=(torn,))])
    with pytest.warns(UserWarning, match="two buckets"):
        table.write_arrow(numbered([1], 2))
    assert set(buckets_of(table)["a", 1]) == {0}


def test_filters_on_keys_do_not_prune_by_hash(catalog: Catalog) -> None:
    table = create(catalog, dynamic_bucket__target_row_num="2")
    table.write_arrow(numbered(range(50)))
    for key in range(50):
        assert [row["k"] for row in table.to_arrow(where=f"k = {key} and pt = 'a'").to_pylist()] == [key]


def test_compaction_leaves_the_index_alone(catalog: Catalog) -> None:
    table = create(catalog, dynamic_bucket__target_row_num="3")
    for value in range(3):
        table.write_arrow(numbered(range(8), value))
    table.delete("k < 2")
    before, index = check(table), index_of(table)
    table.compact()
    assert index_of(table) == index
    assert check(table) == {key: bucket for key, bucket in before.items() if key[1] >= 2}
    assert rows(table) == {("a", k, 2) for k in range(2, 8)}
    table.write_arrow(numbered(range(8), 9))
    assert check(table) == before


some_rows = st.lists(st.tuples(st.sampled_from("ab"), st.integers(-5, 12), st.integers(0, 99)), max_size=15)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), some_rows),
        st.tuples(st.just("overwrite"), some_rows),
        st.tuples(st.just("delete"), st.integers(-5, 12)),
        st.tuples(st.just("drop"), st.sampled_from("ab")),
    ),
    max_size=6,
)


@pytest.mark.parametrize("options", [{}, {"write_buffer_size": "300 b"}, {"dynamic_bucket__initial_buckets": "3"}])
@settings(max_examples=examples(6, 120), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=steps, target=st.integers(1, 4))
def test_histories_equal_the_model_and_keys_never_move(
    tmp_path_factory: pytest.TempPathFactory, options: dict[str, str], history: list[tuple[str, Any]], target: int
) -> None:
    catalog = bucketlake.open(tmp_path_factory.mktemp("warehouse"))
    table = create(catalog, dynamic_bucket__target_row_num=str(target), **options)
    model: dict[tuple[str, int], int] = {}
    places: dict[tuple[str, int], int] = {}
    for kind, argument in history:
        gone: set[str] = set()
        if kind == "append":
            table.write_arrow(arrow(argument))
            model |= {(pt, k): v for pt, k, v in argument}
        elif kind == "overwrite":
            table.write_arrow(arrow(argument), "overwrite")
            gone = {pt for pt, _, _ in argument}
            model = {key: v for key, v in model.items() if key[0] not in gone} | {(p, k): v for p, k, v in argument}
        elif kind == "delete":
            table.delete(f"k = {argument}")
            model = {key: v for key, v in model.items() if key[1] != argument}
        else:
            table.drop_partitions([{"pt": argument}])
            gone = {argument}
            model = {key: v for key, v in model.items() if key[0] != argument}
        places = {key: bucket for key, bucket in places.items() if key[0] not in gone}
        now = check(table)
        assert all(now.get(key, bucket) == bucket for key, bucket in places.items()), "a key keeps its bucket"
        places |= now
        assert rows(table) == {(*key, v) for key, v in model.items()}


@pytest.mark.parametrize("options", [{"deletion_vectors__enabled": "true"}, {"changelog_producer": "lookup"}])
def test_rows_that_a_rebase_moves_are_compacted_where_they_went(catalog: Catalog, options: dict[str, str]) -> None:
    """Until then a table with deletion vectors does not show them, and lookup does not tell them."""
    table = create(catalog, dynamic_bucket__target_row_num="2", **options)
    prepared = []
    for batch in (numbered(range(6), 1), numbered([5, 7], 2)):
        user = new_commit_user(table.store)
        task = prepare_write(table.store, table.latest_snapshot(), commit_user=user)
        prepared.append((user, write_batches(table.store, batch.to_batches(), task)))
    for user, messages in prepared:
        table.compacted(table.commit(messages, user), messages)
    assert rows(table) == {("a", key, 1) for key in range(5)} | {("a", 5, 2), ("a", 7, 2)}
    newest = table.latest_snapshot()
    assert newest is not None
    assert all(entry.file.level for entry in live_entries(table.store, newest)), "nothing waits in level 0"
