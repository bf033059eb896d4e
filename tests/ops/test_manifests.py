"""Writing and merging manifests; combining index files."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from tests.sim.clock import FakeClock
from tests.sim.storage import MapStorage
from tests.sim.tables import create_table, entry, partition, table_schema

from bucketlake.errors import ConflictError, CorruptError, InvalidError
from bucketlake.format.index.index_manifest import IndexEntry, IndexFile
from bucketlake.format.metadata.manifest import FileKind, ManifestFile, SimpleStats
from bucketlake.format.row.binary_row import serialized
from bucketlake.ops.commit.manifests import combine_indexes, merge_manifests, write_manifests
from bucketlake.ops.table.entries import fold, record_count
from bucketlake.ops.table.partition_stats import may_hold, partition_stats
from bucketlake.types.model import INT
from bucketlake.types.parse import parse_type_text


def store_of(**options: str) -> Any:
    keys = {key.replace("_", "-").replace("manifest-", "manifest."): value for key, value in options.items()}
    return create_table(MapStorage(), FakeClock(), table_schema(options=keys))


def names(store: Any, manifests: Any) -> list[str]:
    return [e.file.file_name for part in store.manifests(manifests) for e in part]


def test_a_manifest_says_what_it_holds() -> None:
    store = store_of()
    (written,) = write_manifests(
        store,
        [
            entry("a", 3, 1, level=2),
            entry("b", 1, 4, FileKind.DELETE, schema_id=0),
            entry("c", None, 2, level=5),
        ],
    )
    assert (written.num_added_files, written.num_deleted_files) == (2, 1)
    assert (written.min_bucket, written.max_bucket, written.min_level, written.max_level) == (1, 4, 0, 5)
    assert (written.min_row_id, written.max_row_id, written.schema_id) == (None, None, 0)
    assert written.file_size == len(store.env.storage.read(store.paths.manifest(written.file_name)))
    assert written.partition_stats.min_values == partition(1)
    assert written.partition_stats.max_values == partition(3)
    assert written.partition_stats.null_counts == (1,)


def test_manifests_roll_at_their_target_size() -> None:
    store = store_of(manifest_target_file_size="4 kb", manifest_compression="null")
    entries = [entry(f"f{n}") for n in range(200)]
    written = write_manifests(store, entries)
    assert len(written) > 3
    assert max(m.file_size for m in written) < 8 * 1024
    assert names(store, written) == [e.file.file_name for e in entries]
    assert write_manifests(store, []) == ()


def test_small_manifests_stay_until_there_are_enough() -> None:
    store = store_of(manifest_merge_min_count="3")
    parts = [m for n in range(2) for m in write_manifests(store, [entry(f"f{n}")])]
    assert merge_manifests(store, parts) == tuple(parts)
    parts += write_manifests(store, [entry("f2")])
    (merged,) = merge_manifests(store, parts)
    assert names(store, [merged]) == ["f0", "f1", "f2"]


def test_merging_cancels_adds_and_deletes_and_keeps_lone_deletes() -> None:
    store = store_of(manifest_merge_min_count="2")
    parts = [
        *write_manifests(store, [entry("a"), entry("b")]),
        *write_manifests(store, [entry("a", kind=FileKind.DELETE), entry("z", kind=FileKind.DELETE)]),
    ]
    (merged,) = merge_manifests(store, parts)
    assert (merged.num_added_files, merged.num_deleted_files) == (1, 1)
    assert names(store, [merged]) == ["b", "z"]


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("sorts", ["true", "false"])
def test_what_a_rollback_brought_back_is_kept(full: bool, sorts: str) -> None:
    """A file is deleted, and comes back in a later commit, as it was or told anew; again and again."""
    least = {"manifest.full-compaction-threshold-size": "1 b"} if full else {"manifest.merge-min-count": "2"}
    options = {**least, "manifest-sort.enabled": sorts}
    store = create_table(MapStorage(), FakeClock(), table_schema(options=options))
    gone = entry("a", 1, kind=FileKind.DELETE)
    turns = [[entry("a", 1, level=0), entry("b", 1)], [gone], [entry("a", 1)], [gone, entry("c", 1)], [entry("a", 1)]]
    parts = [m for turn in turns for m in write_manifests(store, turn)]
    for first in range(len(parts)):
        for last in range(first + 2, len(parts) + 1):
            if full and first:
                continue  # all of a table's manifests
            merged = (*parts[:first], *merge_manifests(store, parts[first:last]), *parts[last:])
            assert len(merged) < len(parts)
            left = fold(e for part in store.manifests(merged) for e in part).values()
            assert {(e.kind, e.file.file_name) for e in left} == {(FileKind.ADD, name) for name in "abc"}


def test_everything_cancelled_leaves_no_manifest() -> None:
    store = store_of(manifest_merge_min_count="2")
    parts = [
        *write_manifests(store, [entry("a")]),
        *write_manifests(store, [entry("a", kind=FileKind.DELETE)]),
    ]
    assert merge_manifests(store, parts) == ()


def test_full_rewrite_leaves_untouched_partitions_alone() -> None:
    store = store_of(manifest_target_file_size="1 b", manifest_full_compaction_threshold_size="1 b")
    (one,) = write_manifests(store, [entry("a", 1)])
    (two,) = write_manifests(store, [entry("b", 2)])
    (gone,) = write_manifests(store, [entry("a", 1, kind=FileKind.DELETE)])
    merged = merge_manifests(store, [one, two, gone])
    assert merged == (two,)


def test_full_rewrite_keeps_every_live_file() -> None:
    store = store_of(manifest_target_file_size="2 kb", manifest_full_compaction_threshold_size="3 kb")
    live: set[str] = set()
    manifests: tuple[Any, ...] = ()
    for n in range(60):
        delta = [entry(f"f{n}", n % 3)]
        live.add(f"f{n}")
        if n % 4 == 3:
            live.discard(f"f{n - 2}")
            delta.append(entry(f"f{n - 2}", (n - 2) % 3, kind=FileKind.DELETE))
        manifests = merge_manifests(store, (*manifests, *write_manifests(store, delta)))
        folded = fold(e for part in store.manifests(manifests) for e in part).values()
        assert {e.file.file_name for e in folded} == live
    assert len(manifests) < 60


def test_pruning_by_partitions() -> None:
    store = store_of()
    (manifest,) = write_manifests(store, [entry("a", 3), entry("b", 5)])
    hits = [n for n in (None, 2, 3, 4, 5, 6) if may_hold(manifest, [partition(n)], [INT])]
    assert hits == [3, 4, 5]


def test_folding() -> None:
    upgrade = [entry("a", kind=FileKind.DELETE), entry("a", level=5)]
    assert [e.file.level for e in fold([entry("a"), *upgrade]).values()] == [5]
    assert [e.kind for e in fold([entry("x", kind=FileKind.DELETE)]).values()] == [FileKind.DELETE]
    with pytest.raises(CorruptError, match="already added"):
        fold([entry("a"), entry("a")])
    assert record_count([entry("a"), entry("b", kind=FileKind.DELETE, sequences=(0, 2))]) == 7


def index(name: str, kind: str = "HASH", change: FileKind = FileKind.ADD, bucket: int = 0) -> IndexEntry:
    return IndexEntry(change, partition(1), bucket, IndexFile(kind, name, 4, 1))


def combined(previous: list[IndexEntry], changes: list[IndexEntry], unaware: bool = False) -> list[str]:
    return [e.file.file_name for e in combine_indexes(previous, changes, unaware=unaware)]


def test_index_files_combine() -> None:
    old = [index("h"), index("d", "DELETION_VECTORS"), index("x", "NEW")]
    assert combined(old, [index("h2")]) == ["h2", "d", "x"]
    assert combined(old, [index("h2", bucket=1)]) == ["h", "d", "x", "h2"]
    assert combined(old, [index("d2", "DELETION_VECTORS")]) == ["h", "d2", "x"]
    assert combined(old, [index("d2", "DELETION_VECTORS")], unaware=True) == ["h", "d", "x", "d2"]
    assert combined(old, [index("x2", "NEW")]) == ["h", "d", "x", "x2"]
    assert combined(old, [index("h2"), index("h", change=FileKind.DELETE)]) == ["d", "x", "h2"]


@pytest.mark.parametrize(
    "change", [index("gone", change=FileKind.DELETE), index("x", "NEW"), replace(index("h"), kind=FileKind.ADD)]
)
def test_index_files_that_do_not_fit(change: IndexEntry) -> None:
    with pytest.raises(ConflictError):
        combined([index("h"), index("x", "NEW")], [change])


@pytest.mark.parametrize(
    ("text", "values", "low", "high"),
    [
        ("DATE", [dt.date(2024, 1, 1), 3_000_000, -900_000], 2, 1),
        ("TIMESTAMP(6)", [dt.datetime(2024, 1, 1), 1 << 60, -(1 << 60)], 2, 1),
        ("DOUBLE", [math.nan, 1.0, -1.0], 2, 0),
        ("DOUBLE", [1.0, math.nan, 2.0], 0, 1),
        ("DOUBLE", [0.0, -0.0], 1, 0),
        ("STRING", ["z", "\U0001f600", "\uffff"], 0, 1),
        ("BYTES", [b"\x80", b"", b"\x7f"], 1, 0),
        ("DECIMAL(38, 0)", [Decimal(10**38 - 1), Decimal(-(10**38) + 1), Decimal(0)], 1, 0),
    ],
)
def test_partitions_of_any_values_have_an_order(text: str, values: list[Any], low: int, high: int) -> None:
    kind = parse_type_text(text, "flink")
    partitions = [serialized([value], [kind]) for value in values]
    for order in itertools.permutations(partitions):
        stats = partition_stats(order, [kind])
        assert (stats.min_values, stats.max_values) == (partitions[low], partitions[high])
        manifest = ManifestFile("m", 1, len(values), 0, stats, 0)
        assert all(may_hold(manifest, [one], [kind]) for one in partitions)


def test_bounds_that_other_engines_leave_out_or_order_otherwise_prune_nothing() -> None:
    double, data = parse_type_text("DOUBLE"), parse_type_text("BYTES")
    low, high = (serialized([value], [double]) for value in (0.5, 2.0))
    there = ManifestFile("m", 1, 3, 0, SimpleStats(low, high, (0,)), 0)
    assert may_hold(there, [serialized([math.nan], [double])], [double])
    nothing = serialized([None], [data])
    unknown = ManifestFile("m", 1, 1, 0, SimpleStats(nothing, nothing, (0,)), 0)
    assert may_hold(unknown, [serialized([b"a"], [data])], [data])
    only_nulls = ManifestFile("m", 1, 1, 0, SimpleStats(nothing, nothing, (1,)), 0)
    assert not may_hold(only_nulls, [serialized([b"a"], [data])], [data])
    assert may_hold(only_nulls, [nothing], [data])


# ---- sorting


def sorted_store(**options: str) -> Any:
    texts = {"manifest-sort.enabled": "true", "manifest.target-file-size": "2 kb", "manifest.compression": "null"}
    keys = {key.replace("_", "-").replace("manifest-", "manifest."): value for key, value in options.items()}
    return create_table(MapStorage(), FakeClock(), table_schema(options={**texts, **keys}))


def partitions_of(store: Any, manifests: Any) -> list[list[bytes]]:
    return [[e.partition for e in part] for part in store.manifests(manifests)]


def test_manifests_are_merged_in_the_order_of_partitions() -> None:
    store = sorted_store(manifest_full_compaction_threshold_size="0 b", manifest_target_file_size="1 mb")
    before = [m for n in range(6) for m in write_manifests(store, [entry(f"f{n}-{p}", p) for p in (3, None, -1, 2)])]
    before += write_manifests(store, [entry("f1-3", 3, kind=FileKind.DELETE)])
    merged = merge_manifests(store, before)
    flat = [p for part in partitions_of(store, merged) for p in part]
    wanted = [partition(None)] * 6 + [partition(-1)] * 6 + [partition(2)] * 6 + [partition(3)] * 5
    assert flat == wanted
    assert sorted(names(store, merged)) == sorted(e for e in names(store, before) if e != "f1-3")


def test_large_manifests_out_of_order_are_rewritten_as_far_as_the_budget_goes() -> None:
    low = "manifest.full-compaction-threshold-size"
    store = sorted_store()
    before = [m for n in range(3) for m in write_manifests(store, [entry(f"f{n}-{p}", p) for p in range(8)])]
    assert all(m.file_size >= 2 * 1024 for m in before)
    assert merge_manifests(store, before) == tuple(before)  # nothing is due
    at_once = store.with_options({low: "0 b"})
    merged = merge_manifests(at_once, before)
    flat = [p for part in partitions_of(store, merged) for p in part]
    assert flat == sorted(flat, key=[partition(p) for p in range(8)].index)
    assert merge_manifests(at_once, merged) == merged
    assert merge_manifests(at_once.with_options({"manifest-sort.max-rewrite-size": "1 kb"}), before) == tuple(before)
    off = at_once.with_options({"manifest-sort.enabled": "false"})
    assert merge_manifests(off, before) == tuple(before)


def test_few_small_manifests_are_put_in_order_at_once() -> None:
    store = sorted_store(manifest_target_file_size="1 mb")
    before = [m for n in (0, 1) for m in write_manifests(store, [entry(f"f{n}-{p}", p) for p in (2, 1)])]
    (merged,) = merge_manifests(store, before)
    assert partitions_of(store, [merged]) == [[partition(1)] * 2 + [partition(2)] * 2]
    assert len(merge_manifests(store.with_options({"manifest-sort.enabled": None}), before)) == 2


def test_the_sorted_column_is_one_of_the_partition() -> None:
    with pytest.raises(InvalidError, match="must be one of the partition fields"):
        table_schema(options={"manifest-sort.partition-field": "v"})


def test_manifests_of_tables_without_partitions_are_not_sorted() -> None:
    sorts = {"manifest-sort.enabled": "true"}
    with pytest.raises(InvalidError, match="non-partition table"):
        table_schema(partitioned=False, options=sorts)
    evolving = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", **sorts}
    assert table_schema(keyed=False, partitioned=False, bucket=-1, options=evolving)  # as Paimon has it
