"""Rows deleted and updated in append tables, with deletion vectors and by rewriting files; reading what they left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import corpus
from tests.interop.values import arrow_rows, canonical
from tests.profile import examples
from tests.table.threads import together

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.errors import ConflictError, CorruptError, InvalidError
from bucketlake.format.metadata.snapshot import CommitKind
from bucketlake.ops.change import append_rows as delete_module
from bucketlake.ops.rows.read import matching_positions
from bucketlake.ops.scan.scan import plan
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.write.prepare import new_commit_user
from bucketlake.predicate.parse import parse_where
from bucketlake.schema.change import RenameColumn
from bucketlake.table import Table

SCHEMA = pa.schema([("pt", pa.string()), ("k", pa.int64()), ("v", pa.string())])
KINDS = {
    "vectors": {"deletion-vectors.enabled": "true"},
    "vectors64": {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"},
    "rewrite": {},
}
PLACES = {"unaware": {"bucket": "-1"}, "buckets": {"bucket": "3", "bucket-key": "k"}}


def make(catalog: Catalog, kind: str, place: str, partitioned: bool = False, **more: str) -> Table:
    options = {**KINDS[kind], **PLACES[place], **more}
    return catalog.create_table(f"{kind}_{place}", SCHEMA, ["pt"] if partitioned else [], [], options)


def data(low: int, high: int, value: str = "x") -> pa.Table:
    ks = range(low, high)
    return pa.table({"pt": [f"p{k % 2}" for k in ks], "k": list(ks), "v": [value] * len(ks)}, schema=SCHEMA)


def rows(table: Table, **read: Any) -> list[tuple[Any, ...]]:
    found = table.to_arrow(**read)
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True), key=str)


def keys(table: Table, **read: Any) -> list[int]:
    return sorted(table.to_arrow(columns=["k"], **read).column(0).to_pylist())


@pytest.fixture(params=[f"{kind} {place}" for kind in KINDS for place in PLACES])
def table(catalog: Catalog, request: pytest.FixtureRequest) -> Table:
    made = make(catalog, *request.param.split())
    for start in (0, 100, 200):
        made.write_arrow(data(start, start + 100))
    return made


def marks(table: Table) -> bool:
    return bool(table.options.get("deletion-vectors.enabled"))


def vector_count(table: Table) -> int:
    indexes = table.store.index_manifest(table.latest_snapshot())
    return sum(len(entry.file.dv_ranges or ()) for entry in indexes)


# ---- deleting


def test_rows_go_and_the_snapshot_says_so(table: Table) -> None:
    before = {file.path for file in table.files()}
    snapshot = table.delete("k IN (3, 117, 299)")
    assert snapshot is not None
    assert (snapshot.commit_kind, snapshot.operation) == (CommitKind.OVERWRITE, "DELETE")
    assert keys(table) == [k for k in range(300) if k not in (3, 117, 299)]
    after = {file.path for file in table.files()}
    assert (after == before) == marks(table)
    assert vector_count(table) == (3 if marks(table) else 0)
    assert table.delete("k IN (3, 117)") is None
    assert keys(table, scan_snapshot_id=snapshot.id - 1) == list(range(300))


def test_deletes_add_up_and_empty_files_go(table: Table) -> None:
    table.delete("k < 50")
    table.delete("k >= 250")
    table.delete("k BETWEEN 40 AND 60")
    assert keys(table) == list(range(61, 250))
    table.delete("k < 100")
    assert keys(table) == list(range(100, 250))
    assert sum(file.file.row_count for file in table.files()) == (200 if marks(table) else 150)
    table.delete("k >= 0")
    assert keys(table) == []
    assert table.files() == []
    assert table.store.index_manifest(table.latest_snapshot()) == ()
    table.write_arrow(data(0, 3))
    assert keys(table) == [0, 1, 2]


def test_a_condition_that_is_null_deletes_nothing(table: Table) -> None:
    table.write_arrow(pa.table({"pt": [None], "k": [None], "v": [None]}, schema=SCHEMA))
    assert table.delete("k > 1000 OR NOT (k < 2000)") is None
    assert table.delete("v IS NULL") is not None
    assert len(rows(table)) == 300


def test_limits_counts_columns_and_conditions_see_what_is_left(table: Table) -> None:
    table.delete("k < 280")
    assert keys(table, limit=15) == sorted(keys(table, limit=15))
    assert len(keys(table, limit=15)) == 15
    assert set(keys(table, limit=15)) <= set(range(280, 300))
    assert len(keys(table, limit=100)) == 20
    assert table.to_arrow(columns=[]).num_rows == 20
    assert keys(table, where="k < 285") == [280, 281, 282, 283, 284]
    assert sum(batch.num_rows for batch in table.to_batches()) == 20


def test_all_and_whole_partitions_go_by_metadata(catalog: Catalog) -> None:
    for kind in KINDS:
        made = make(catalog, kind, "unaware", partitioned=True)
        made.write_arrow(data(0, 10))
        made.delete("k = 4")
        files = {file.path for file in made.files()}
        made.delete("pt = 'p1'")
        assert {file.path for file in made.files()} < files
        assert keys(made) == [0, 2, 6, 8]
        assert made.delete("pt = 'p7'") is None
        made.delete("true")
        assert keys(made) == []
        assert made.store.index_manifest(made.latest_snapshot()) == ()


def test_an_empty_table_has_nothing_to_delete(catalog: Catalog) -> None:
    made = make(catalog, "vectors", "unaware")
    assert made.delete("k = 1") is None
    assert made.delete("true") is None
    assert made.update({"v": "a"}) is None
    with pytest.raises(InvalidError):
        made.delete("nothing = 1")


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_positions_hold_in_every_format_with_row_groups_left_out(catalog: Catalog, format: str) -> None:
    more = {"file.format": format, "parquet.block.size": "4096", "file.block-size": "4 kb"}
    made = make(catalog, "vectors", "unaware", **more)
    made.write_arrow(data(0, 30_000))
    made.delete("k IN (0, 5, 12345, 29999)")
    made.delete("k >= 20000 AND k < 20010")
    gone = {0, 5, 12345, 29999, *range(20000, 20010)}
    assert keys(made) == [k for k in range(30_000) if k not in gone]
    assert keys(made, where="k >= 19990 AND k < 20020") == [k for k in range(19990, 20020) if k not in gone]
    (split,) = plan(made.store).splits
    predicate = parse_where("k >= 12344 AND k < 12347", made.schema.fields)
    assert matching_positions(made.store, split, split.files[0], predicate).tolist() == [12344, 12345, 12346]


def test_rows_written_under_older_schemas_are_found_and_rewritten(table: Table) -> None:
    changed = table.alter(RenameColumn(("v",), "w"))
    changed.write_arrow(pa.table({"pt": ["p0"], "k": [300], "w": ["new"]}))
    changed.delete("w = 'x' AND k < 295")
    assert keys(changed) == [295, 296, 297, 298, 299, 300]
    assert changed.to_arrow(where="k = 299", columns=["w"]).column(0).to_pylist() == ["x"]


def test_rewritten_files_of_buckets_keep_their_sequence_numbers(catalog: Catalog) -> None:
    made = make(catalog, "rewrite", "buckets")
    for start in (0, 100, 200):
        made.write_arrow(data(start, start + 100))
    before = {(f.bucket, f.file.min_sequence_number): f.file.max_sequence_number for f in made.files()}
    made.delete("k IN (1, 2, 101, 205)")
    for file in made.files():
        assert file.file.max_sequence_number <= before[file.bucket, file.file.min_sequence_number]
    made.write_arrow(data(300, 400))
    assert keys(made) == [k for k in range(400) if k not in (1, 2, 101, 205)]


# ---- updating


def test_updates_replace_rows_in_one_commit(table: Table) -> None:
    table.delete("k = 7")
    before = table.latest_snapshot()
    snapshot = table.update({"v": "new", "pt": None}, where="k < 10 OR k = 250")
    assert snapshot is not None and before is not None
    assert (snapshot.id, snapshot.commit_kind, snapshot.operation) == (before.id + 1, CommitKind.OVERWRITE, "UPDATE")
    changed = sorted(row[1] for row in rows(table) if row[2] == "new" and row[0] is None)
    assert changed == [0, 1, 2, 3, 4, 5, 6, 8, 9, 250]
    assert keys(table) == [k for k in range(300) if k != 7]
    assert table.update({"v": "none"}, where="k = 7") is None


def test_updates_of_all_rows_and_of_bucket_keys(table: Table) -> None:
    table.update({"v": "all"})
    assert {row[2] for row in rows(table)} == {"all"}
    table.update({"k": 1000}, where="k IN (1, 2)")
    assert keys(table) == [0, *range(3, 300), 1000, 1000]
    assert len(keys(table, where="k = 1000")) == 2


def test_updates_move_rows_between_partitions(catalog: Catalog) -> None:
    made = make(catalog, "vectors", "buckets", partitioned=True)
    made.write_arrow(data(0, 10))
    made.update({"pt": "p9"}, where="k < 4")
    assert keys(made, where="pt = 'p9'") == [0, 1, 2, 3]
    assert keys(made) == list(range(10))


def test_updates_that_cannot_be_are_refused(table: Table, catalog: Catalog) -> None:
    snapshot = table.latest_snapshot()
    for values, reason in (
        ({}, "sets nothing"),
        ({"nope": 1}, "no such column"),
        ({"k": "seven"}, "does not fit"),
        ({"k": 1 << 70}, "does not fit"),
    ):
        with pytest.raises(InvalidError, match=reason):
            table.update(values, where="k = 1")
    assert table.latest_snapshot() == snapshot
    keyed = catalog.create_table("keyed", SCHEMA, [], ["k"], {"bucket": "1"})
    keyed.write_arrow(data(0, 4))
    with pytest.raises(InvalidError, match="primary key"):
        keyed.update({"k": 1})
    keyed.update({"v": "two"}, where="k >= 2")
    assert [row[2] for row in rows(keyed)] == ["x", "two", "x", "two"]


# ---- damaged and lost


@pytest.mark.parametrize("place", PLACES)
def test_a_damaged_index_file_is_named_and_no_row_comes_back(catalog: Catalog, place: str) -> None:
    made = make(catalog, "vectors", place)
    made.write_arrow(data(0, 10))
    made.delete("k = 4")
    (entry,) = made.store.index_manifest(made.latest_snapshot())
    path = Path(made.store.paths.index_path(entry.partition, entry.bucket, entry.file))
    content = path.read_bytes()
    path.write_bytes(content[:12] + b"\xff" + content[13:])
    for act in (made.to_arrow, lambda: made.delete("k < 8"), lambda: made.update({"v": "n"})):
        with pytest.raises(CorruptError) as caught:
            act()
        assert caught.value.details["path"] == str(path)
        assert caught.value.details["data_file"] == (entry.file.dv_ranges or ())[0].data_file_name
    path.write_bytes(content)
    assert keys(made) == [0, 1, 2, 3, 5, 6, 7, 8, 9]


# ---- as Paimon wrote it


@pytest.mark.parametrize("name", ["dv_pk", "dv_pk_bitmap64"])
def test_merge_on_read_sees_level_0_over_vectors(name: str, tmp_path: Path) -> None:
    """What is merged over a write's level 0 is what Flink reads after the compaction that follows."""
    found = bucketlake.open(corpus.unpack(tmp_path)).table(f"corpus.{name}")
    truth = corpus.expected(name)
    compacted = [snapshot.id for snapshot in found.snapshots() if snapshot.commit_kind is CommitKind.COMPACT]
    vectors = 0
    for number in compacted:
        read = {"deletion_vectors_merge_on_read": True, "scan_snapshot_id": number - 1}
        splits = found.plan(**read).splits
        assert any(file.level == 0 for split in splits for file in split.files)
        vectors += sum(len(split.deletions) for split in splits)
        mine = arrow_rows(found.to_arrow(**read), found.schema.fields)
        assert canonical(mine) == canonical(truth.versions[f"snapshot {number}"].rows)
    assert vectors


def test_splits_of_paimon_s_table_are_raw_with_vectors(tmp_path: Path) -> None:
    found = bucketlake.open(corpus.unpack(tmp_path)).table("corpus.dv_pk")
    vectors = 0
    for snapshot in found.snapshots():
        splits = found.plan(scan_snapshot_id=snapshot.id).splits
        assert all(split.raw and all(file.level > 0 for file in split.files) for split in splits)
        vectors += sum(len(split.deletions) for split in splits)
    assert vectors


# ---- several writers


def test_deletes_and_writes_at_once_lose_nothing(table: Table) -> None:
    def deleter(part: int) -> Callable[[], None]:
        def run() -> None:
            for low in range(0, 300, 100):
                table.delete(f"k >= {low + part * 10} AND k < {low + part * 10 + 5}")

        return run

    together(deleter(0), deleter(1), deleter(2), lambda: table.write_arrow(data(300, 350)))
    gone = {low + part * 10 + n for low in (0, 100, 200) for part in range(3) for n in range(5)}
    assert keys(table) == [k for k in range(350) if k not in gone]
    names = [
        part.data_file_name
        for e in table.store.index_manifest(table.latest_snapshot())
        for part in e.file.dv_ranges or ()
    ]
    assert len(names) == len(set(names))


def race(table: Table, monkeypatch: pytest.MonkeyPatch, times: int, meanwhile: Callable[[], Any]) -> None:
    """Something else is committed between planning and publishing of the next `times` deletes and updates."""
    left = [times]
    commit = delete_module.Commit.commit

    def late(self: Any, messages: list[CommitMessage], *args: Any, **more: Any) -> Any:
        if left[0] and any(message.deleted_files or message.new_index_files for message in messages):
            left[0] -= 1
            kept, left[0] = left[0], 0
            meanwhile()
            left[0] = kept
        return commit(self, messages, *args, **more)

    monkeypatch.setattr(delete_module.Commit, "commit", late)


def test_a_delete_of_the_same_rows_meanwhile_is_joined(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    race(table, monkeypatch, 1, lambda: table.delete("k < 20"))
    table.delete("k BETWEEN 10 AND 29")
    assert keys(table) == list(range(30, 300))


def test_an_update_does_not_bring_back_rows_deleted_meanwhile(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    race(table, monkeypatch, 1, lambda: table.delete("k < 20"))
    table.update({"v": "new"}, where="k BETWEEN 10 AND 29")
    assert keys(table) == list(range(20, 300))
    assert keys(table, where="v = 'new'") == list(range(20, 30))


def test_files_that_are_gone_are_looked_for_anew(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    race(table, monkeypatch, 1, lambda: table.write_arrow(data(0, 300, "over"), mode="overwrite"))
    table.delete("k < 10")
    assert keys(table) == list(range(10, 300))
    assert {row[2] for row in rows(table)} == {"over"}


def test_a_delete_that_always_loses_gives_up_and_leaves_no_file(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delete_module, "ATTEMPTS", 3)
    monkeypatch.setattr(delete_module, "SHORTEST_PAUSE", 0)
    race(table, monkeypatch, 3, lambda: table.write_arrow(data(0, 300, "over"), mode="overwrite"))
    with pytest.raises(ConflictError):
        table.delete("k < 10")
    assert keys(table) == list(range(300))
    snapshots = [entry for s in table.snapshots() for entry in table.store.index_manifest(s)]
    stored = {
        path.name
        for path in Path(table.path).rglob("*")
        if path.is_file() and path.parent.name.startswith(("bucket-", "index"))
    }
    written = {f.path.rsplit("/", 1)[-1] for s in table.snapshots() for f in table.files(scan_snapshot_id=s.id)}
    assert stored == written | {entry.file.file_name for entry in snapshots}


def test_a_failed_commit_leaves_no_file(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(Path(table.path).rglob("*"))

    def fail(*args: Any, **more: Any) -> None:
        raise bucketlake.StorageError("no more room")

    monkeypatch.setattr(delete_module.Commit, "commit", fail)
    with pytest.raises(bucketlake.StorageError):
        table.delete("k IN (1, 101)")
    with pytest.raises(bucketlake.StorageError):
        table.update({"v": "n"}, where="k IN (1, 101)")
    assert [path for path in sorted(Path(table.path).rglob("*")) if path not in before and path.is_file()] == []
    assert new_commit_user(table.store)


# ---- against a model

STEP = st.one_of(
    st.tuples(st.just("write"), st.lists(st.integers(0, 40), min_size=1, max_size=30)),
    st.tuples(st.just("delete"), st.tuples(st.integers(0, 40), st.integers(0, 12))),
    st.tuples(st.just("update"), st.tuples(st.integers(0, 40), st.integers(0, 12))),
)


@settings(max_examples=examples(10, 200), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from(sorted(KINDS)),
    place=st.sampled_from(sorted(PLACES)),
    partitioned=st.booleans(),
    steps=st.lists(STEP, max_size=7),
)
def test_any_sequence_of_steps_equals_a_list(
    tmp_path_factory: pytest.TempPathFactory, kind: str, place: str, partitioned: bool, steps: list[Any]
) -> None:
    made = make(bucketlake.open(tmp_path_factory.mktemp("model")), kind, place, partitioned)
    model: list[tuple[Any, ...]] = []
    for number, (step, what) in enumerate(steps):
        if step == "write":
            new = [(f"p{k % 2}", k, f"v{number}") for k in what]
            made.write_arrow(pa.table([list(column) for column in zip(*new, strict=True)], schema=SCHEMA))
            model += new
            continue
        low, count = what
        hits = [row for row in model if low <= row[1] < low + count]
        model = [row for row in model if row not in hits]
        condition = f"k >= {low} AND k < {low + count}"
        if step == "delete":
            found = made.delete(condition)
        else:
            found = made.update({"v": f"u{number}"}, where=condition)
            model += [(row[0], row[1], f"u{number}") for row in hits]
        assert (found is None) == (not hits)
    assert rows(made) == sorted(model, key=str)
    assert pc.sum(pa.array(np.array([row[1] for row in model] or [0]))).as_py() == sum(keys(made))


def test_files_are_rewritten_in_as_many_parts_as_run_at_once(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(catalog, "rewrite", "unaware")
    for start in range(0, 600, 100):
        made.write_arrow(data(start, start + 100))
    asked: list[list[int]] = []

    def rewrite(store: Any, parts: Any) -> Any:
        asked.append([len(part) for part in parts])
        return delete_module.rewritten_here(store, parts)

    where = parse_where("k IN (7, 107, 207, 307, 407, 507)", made.schema.fields)
    find = delete_module.found_here(where)
    delete_module.change_rows(made.store, where, delete_module.Means(find, rewrite=rewrite, width=2), "DELETE")
    assert asked == [[6]]  # small files become one
    assert len(made.files()) == 1
    for start in range(600, 1000, 100):
        made.write_arrow(data(start, start + 100))
    monkeypatch.setattr(delete_module, "LEAST_PART", 1)
    where = parse_where("k IN (8, 608, 708, 808, 908)", made.schema.fields)
    find = delete_module.found_here(where)
    delete_module.change_rows(made.store, where, delete_module.Means(find, rewrite=rewrite, width=2), "DELETE")
    assert len(asked[1]) == 2
    assert sum(asked[1]) == 5
    assert keys(made) == [k for k in range(1000) if k not in (7, 107, 207, 307, 407, 507, 8, 608, 708, 808, 908)]


@pytest.mark.parametrize("form", ["parquet", "orc"])
@pytest.mark.parametrize("tracks", [False, True])
def test_one_large_file_is_rewritten_in_stretches(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, form: str, tracks: bool
) -> None:
    options = {"file.format": form, "file.block-size": "1 kb", "row-tracking.enabled": str(tracks).lower()}
    made = catalog.create_table("db.t", SCHEMA, options=options)
    for start in range(0, 40_000, 4000):
        made.write_arrow(data(start, start + 4000))
    made.compact(full=True)
    assert len(made.files()) == 1
    view = catalog.table("db.t$row_tracking") if tracks else made
    before = {row["k"]: row for row in view.to_arrow().to_pylist()}
    parts: list[Any] = []

    def rewrite(store: Any, given: Any) -> Any:
        parts.extend(given)
        return delete_module.rewritten_here(store, given)

    monkeypatch.setattr(delete_module, "LEAST_PART", 1)
    where = parse_where("k >= 10 AND k < 12 OR k > 25000", made.schema.fields)  # the last stretch goes as a whole
    find = delete_module.found_here(where)
    delete_module.change_rows(made.store, where, delete_module.Means(find, rewrite=rewrite, width=3), "DELETE")
    assert len(parts) == (3 if form == "parquet" else 1)
    assert len(made.files()) == (2 if form == "parquet" else 1)
    assert keys(made) == [k for k in range(25_001) if k not in (10, 11)]
    assert {row["k"]: row for row in view.to_arrow().to_pylist()} == {k: before[k] for k in keys(made)}
