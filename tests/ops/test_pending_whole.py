"""Pending files that become level-0 files without being encoded anew: the same rows and the same words in manifests as
when they are sorted and merged, and only where that is so."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.profile import examples

import bucketlake
from bucketlake.errors import CorruptError
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.ops.buckets import dealt
from bucketlake.ops.compact import pending_whole, postpone_compact
from bucketlake.ops.compact.postpone_compact import PendingPlan, place_pending
from bucketlake.ops.scan.scan import live_entries
from bucketlake.schema.change import AddColumn, SetOption
from bucketlake.table import Table
from bucketlake.types.model import STRING

PENDING = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false", "target-file-size": "1 mb"}
SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("text", pa.string()),
        pa.field("price", pa.decimal128(12, 2)),
        pa.field("rate", pa.float64()),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us")),
        pa.field("yes", pa.bool_()),
        pa.field("raw", pa.binary()),
    ]
)


@pytest.fixture(autouse=True)
def as_if_many() -> Iterator[None]:
    with (
        patch.object(dealt, "DEALT_BYTES", 1),
        patch.object(postpone_compact, "UNIT_BYTES", 1),
        patch.object(pending_whole, "JOINED_BYTES", 1),
    ):
        yield


def create(folder: Path, **options: str) -> Table:
    catalog = bucketlake.open(folder)
    catalog.create_database("db", ignore_if_exists=True)
    texts = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return catalog.create_table("db.t", SCHEMA, primary_keys=["k", "name"], options={**PENDING, **texts})


def row(key: int, version: int) -> dict[str, Any]:
    seed = key * 7 + version
    return {
        "k": key,
        "name": "n" * (abs(key) % 20),
        "text": None if seed % 5 == 0 else f"{'t' * 30}{seed}",
        "price": None if seed % 7 == 0 else Decimal(seed).scaleb(-2),
        "rate": float("nan") if seed % 11 == 0 else seed / 3,
        "day": date.fromordinal(700_000 + seed),
        "at": datetime(2026, 1, 1, 0, 0, 0, seed % 1000),
        "yes": seed % 2 == 0,
        "raw": b"\x00\xff" * (seed % 4),
    }


def rows(keys: Any, version: int, kinds: Any = None) -> pa.Table:
    table = pa.Table.from_pylist([row(key, version) for key in keys], SCHEMA)
    return table if kinds is None else table.append_column("_VALUE_KIND", pa.array(kinds, pa.int8()))


def files(table: Table, *, pending: bool) -> list[tuple[int, DataFile]]:
    store = table.refresh().store
    found = live_entries(store, store.latest_snapshot())
    return [(entry.bucket, entry.file) for entry in found if (entry.bucket == -2) == pending]


def path_of(table: Table, bucket: int, file: DataFile) -> Path:
    return Path(table.path) / ("bucket-postpone" if bucket == -2 else f"bucket-{bucket}") / file.file_name


def stored(table: Table) -> dict[int, list[dict[str, Any]]]:
    """All that is stored in each bucket, in the order of keys and numbers."""
    found: dict[int, list[dict[str, Any]]] = {}
    for bucket, file in files(table, pending=False):
        assert file.level == 0
        found.setdefault(bucket, []).extend(pq.read_table(path_of(table, bucket, file)).to_pylist())
    return {
        bucket: sorted((repr(sorted(one.items(), key=str)), one["k"], one["_SEQUENCE_NUMBER"]) for one in several)
        for bucket, several in found.items()
    }


def told(table: Table) -> list[Any]:
    """What manifests say of the files of each bucket, apart from names, times and bytes."""
    return sorted(
        (bucket, f.row_count, f.min_key, f.max_key, f.key_stats, f.value_stats, f.min_sequence_number,
         f.max_sequence_number, f.delete_row_count, f.schema_id, f.value_stats_cols, f.file_source)
        for bucket, f in files(table, pending=False)
    )  # fmt: skip


def placed(table: Table) -> bool:
    """Place what is pending; whether all of it was copied."""
    whole, seen = postpone_compact.placed_whole, []
    with patch.object(postpone_compact, "placed_whole", lambda *given: seen.append(whole(*given)) or seen[-1]):
        place_pending(table.store, PendingPlan(parallelism=2))
    assert seen and not files(table, pending=True)
    return None not in seen


def by_merging(table: Table) -> None:
    with patch.object(postpone_compact, "placed_whole", lambda *_: None):
        place_pending(table.store, PendingPlan(parallelism=2))


OPTIONS: list[dict[str, str]] = [
    {},
    {"data_file__thin_mode": "true"},
    {"metadata__stats_mode": "full"},
    {"metadata__stats_mode": "none", "fields__rate__stats_mode": "counts"},
    {"metadata__stats_dense_store": "true", "metadata__stats_mode": "truncate(3)", "file__compression": "lz4"},
    {"deletion_vectors__enabled": "true", "sequence__field": "at"},
    {"changelog_producer": "lookup", "bucket_key": "k"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: ",".join(options) or "plain")
@pytest.mark.parametrize("buckets", ["1", "11"])
def test_loads_in_key_order_are_copied(tmp_path: Path, options: dict[str, str], buckets: str) -> None:
    """Loads whose keys follow one another, the later ones first."""
    ours, merged = (create(tmp_path / way, postpone__default_bucket_num=buckets, **options) for way in ("a", "b"))
    loads = [rows(range(200, 400), 0), rows(range(-50, 200), 1)]
    for table in (ours, merged):
        for load in loads:
            table.write_arrow(load)
    assert placed(ours)
    by_merging(merged)
    assert stored(ours) == stored(merged)
    assert told(ours) == told(merged)
    for table in (ours, merged):
        table.compact()
    everything = rows([*range(-50, 200)], 1).to_pylist() + loads[0].to_pylist()
    for table in (ours, merged):
        assert repr(table.refresh().to_arrow().sort_by("k").to_pylist()) == repr(everything)


def test_later_rows_of_the_same_keys_win(tmp_path: Path) -> None:
    table = create(tmp_path, postpone__default_bucket_num="8")
    for version in range(3):
        table.write_arrow(rows(range(0, 100 + version, version + 1), version))
        assert placed(table)
        for keys in (range(30), range(30, 130)):  # by tasks of their own, the same keys twice
            table.write_arrow(rows(keys, version + 10))
        assert placed(table)
    expected = rows(range(130), 12).to_pylist()
    assert repr(table.refresh().to_arrow().sort_by("k").to_pylist()) == repr(expected)
    table.compact()
    assert repr(table.refresh().to_arrow().sort_by("k").to_pylist()) == repr(expected)


WRITES = st.lists(
    st.tuples(
        st.integers(-20, 60),
        st.integers(1, 40),
        st.sampled_from(["as they are"] * 4 + ["backwards", "twice", "deleted", "undealt", "altered"]),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=examples(8, 300), deadline=None, suppress_health_check=list(HealthCheck))
@given(WRITES, st.sampled_from([1, 2, 3, 4, 8, 16]), st.sampled_from(OPTIONS), st.booleans())
def test_any_writes_are_placed_as_merged(
    tmp_path_factory: pytest.TempPathFactory, writes: Any, buckets: int, options: dict[str, str], again: bool
) -> None:
    """`writes`: first key, how many, and what is special. `again`: rows lie in the buckets already."""
    folder = tmp_path_factory.mktemp("wh")
    number = str(buckets)
    ours, merged = (create(folder / way, postpone__default_bucket_num=number, **options) for way in ("a", "b"))
    for table in (ours, merged):
        if again:
            table.write_arrow(rows(range(0, 50, 3), 99))
            place_pending(table.store, PendingPlan(parallelism=2))
        for version, (start, count, how) in enumerate(writes):
            keys = [*range(start, start + count)]
            kinds = [3 * (how == "deleted" and key % 3 == 0) for key in keys]
            if how == "altered":
                change = SetOption("file.compression", "snappy") if version % 2 else AddColumn(f"c{version}", STRING)
                table.refresh().alter(change)
            keys, kinds = (keys[::-1], kinds[::-1]) if how == "backwards" else (keys, kinds)
            keys, kinds = (keys * 2, kinds * 2) if how == "twice" else (keys, kinds)
            with patch.object(dealt, "DEALT_BYTES", 1 << 30 if how == "undealt" else 1):
                table.refresh().write_arrow(rows(keys, version, kinds))
    place_pending(ours.refresh().store, PendingPlan(parallelism=2))
    by_merging(merged.refresh())
    assert not files(ours, pending=True) and not files(merged, pending=True)

    def seen(table: Table) -> str:
        return repr(table.refresh().to_arrow().sort_by("k").to_pylist())

    assert seen(ours) == seen(merged)
    for table in (ours, merged):
        table.refresh().compact()
    assert seen(ours) == seen(merged)
    assert ours.refresh().latest_snapshot().total_record_count == merged.refresh().latest_snapshot().total_record_count


@pytest.mark.parametrize(
    "option",
    [
        {"merge_engine": "first-row"},
        {"merge_engine": "partial-update"},
        {"changelog_producer": "input"},
        {"file__format": "avro"},
        {"file_index__bloom_filter__columns": "text"},
    ],
    ids=lambda option: ",".join(option.values()),
)
def test_what_a_write_would_do_more_of_is_merged(tmp_path: Path, option: dict[str, str]) -> None:
    table = create(tmp_path, postpone__default_bucket_num="8", **option)
    table.write_arrow(rows(range(100), 0))
    with patch.object(pending_whole, "join_files", side_effect=AssertionError("copied")):
        table.compact()
    assert repr(table.refresh().to_arrow().sort_by("k").to_pylist()) == repr(rows(range(100), 0).to_pylist())


def test_files_of_one_bucket_that_overlap_are_merged(tmp_path: Path) -> None:
    table = create(tmp_path, postpone__default_bucket_num="4")
    table.write_arrow(rows(range(100), 0), postpone_default_bucket_num="8")
    assert not placed(table)
    table.write_arrow(rows(range(100), 1), postpone_default_bucket_num="2")  # each of two buckets
    assert not placed(table)
    assert repr(table.refresh().to_arrow().sort_by("k").to_pylist()) == repr(rows(range(100), 1).to_pylist())


def test_few_rows_are_not_joined(tmp_path: Path) -> None:
    table = create(tmp_path, postpone__default_bucket_num="8")
    for start in (0, 100):
        table.write_arrow(rows(range(start, start + 100), 0))
    with patch.object(pending_whole, "JOINED_BYTES", 1 << 20):
        assert not placed(table)


def test_files_fill_up_to_the_target(tmp_path: Path) -> None:
    table = create(tmp_path, postpone__default_bucket_num="8", target_file_row_num="60", target_file_size="1 gb")
    for start in range(0, 1000, 200):  # about 25 a bucket
        table.write_arrow(rows(range(start, start + 200), 0))
    assert placed(table)
    counts = [file.row_count for _, file in files(table, pending=False)]
    assert sum(counts) == 1000 and max(counts) <= 60 and len(counts) < 40
    assert repr(table.refresh().to_arrow().sort_by("k").to_pylist()) == repr(rows(range(1000), 0).to_pylist())


def test_statistics_are_those_of_the_rows(tmp_path: Path) -> None:
    """Whatever a footer says: other programs shorten bounds, and a damaged one hides rows from every later read."""
    ours, merged = (create(tmp_path / way, postpone__default_bucket_num="8") for way in ("a", "b"))
    for table in (ours, merged):
        table.write_arrow(rows(range(100), 0))
    for bucket, file in files(ours, pending=True):
        path = path_of(ours, bucket, file)
        place = pq.read_schema(path).names.index("text")
        most = pq.read_metadata(path).row_group(0).column(place).statistics.max.encode()
        data = path.read_bytes()
        start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        assert most in data[start:]
        path.write_bytes(data[:start] + data[start:].replace(most, most[:-1] + b"!"))
    assert placed(ours)
    by_merging(merged)
    assert told(ours) == told(merged)


def test_damage_of_any_column_is_told_before_the_pending_file_goes(tmp_path: Path) -> None:
    table = create(tmp_path, postpone__default_bucket_num="8")
    table.write_arrow(rows(range(100), 0))
    bucket, file = files(table, pending=True)[3]
    path = path_of(table, bucket, file)
    column = pq.read_metadata(path).row_group(0).column(pq.read_schema(path).names.index("text"))
    start = column.dictionary_page_offset or column.data_page_offset
    data = bytearray(path.read_bytes())
    data[start + 5 : start + column.total_compressed_size - 5] = b"\xa5" * (column.total_compressed_size - 10)
    path.write_bytes(data)
    with pytest.raises(CorruptError, match=file.file_name):
        place_pending(table.store)
    assert len(files(table, pending=True)) == 8
    assert not list(Path(table.path).glob("bucket-[0-9]*/*"))


@pytest.mark.parametrize("step", range(3))
def test_a_copy_that_fails_leaves_nothing(tmp_path: Path, step: int) -> None:
    table = create(tmp_path, postpone__default_bucket_num="1", target_file_row_num="30")
    with patch.object(dealt, "DEALT_BYTES", 1 << 30):
        for start in (0, 30, 60):
            table.write_arrow(rows(range(start, start + 30), 0))
    join, calls = pending_whole.join_files, []

    def dies(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == step + 1:
            raise OSError("no space left on device")
        return join(*given)

    with patch.object(pending_whole, "join_files", dies), pytest.raises(OSError, match="no space"):
        place_pending(table.store)
    assert len(calls) == step + 1
    assert not list((Path(table.path)).glob("bucket-0/*"))
    assert len(files(table, pending=True)) == 3
    assert placed(table)
    assert repr(table.refresh().to_arrow().sort_by("k").to_pylist()) == repr(rows(range(90), 0).to_pylist())


def test_a_file_that_cannot_be_taken_over_has_all_merged(tmp_path: Path) -> None:
    """Found out while another of its bucket has been copied."""
    table = create(tmp_path, postpone__default_bucket_num="1", target_file_row_num="30")
    table.write_arrow(rows(range(30, 60), 0))
    table.alter(SetOption("file.compression", "lz4"))
    table.refresh().write_arrow(rows(range(30), 0))
    with patch.object(pending_whole, "join_files", wraps=pending_whole.join_files) as join:
        assert not placed(table.refresh())
    assert join.call_count == 2
    assert len(list(Path(table.path).glob("bucket-0/*"))) == len(files(table, pending=False))
    assert repr(table.refresh().to_arrow().sort_by("k").to_pylist()) == repr(rows(range(60), 0).to_pylist())


def test_a_name_or_a_count_that_lies_is_told(tmp_path: Path) -> None:
    table = create(tmp_path, postpone__default_bucket_num="8")
    table.write_arrow(rows(range(100), 0))
    named = {file.file_name.split("-w-")[1][:2]: path_of(table, -2, file) for _, file in files(table, pending=True)}
    first, second = named["r0"].read_bytes(), named["r1"].read_bytes()
    named["r0"].write_bytes(second)
    named["r1"].write_bytes(first)
    with pytest.raises(CorruptError):
        place_pending(table.store)
    assert not list(Path(table.path).glob("bucket-[0-9]*/*"))
