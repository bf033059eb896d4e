"""Where a table's files lie: partitions x buckets, the levels of one bucket, sizes, a list of all of them.

heat(store) -> Heat            levels(store, partition, bucket) -> BucketLevels
file_sizes(store) -> FileSizes     files(store, wanted) -> Listing     file_changes(store, a, b) -> FileChanges
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.errors import BucketlakeError, CorruptError, InvalidError
from bucketlake.format.guard import decoding
from bucketlake.format.metadata.manifest import FileSource
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.format.row.binary_row import decode_columns
from bucketlake.format.row.binary_rows import check_rows
from bucketlake.lazy import pc, pl
from bucketlake.lsm.compaction import CompactionRule
from bucketlake.ops.rows.roll import TARGET_APPEND, TARGET_KEYED
from bucketlake.ops.scan.scan import EntryFilter
from bucketlake.ops.system.texts import cast_texts
from bucketlake.ops.table.store import Store
from bucketlake.ops.table.wall_clock import local_to_epoch
from bucketlake.paths import POSTPONE_BUCKET
from bucketlake.report.facts import (
    BucketLevels,
    Cell,
    FileChanges,
    FileSizes,
    Heat,
    LevelFile,
    LevelSum,
    ListedFile,
    Listing,
    PartitionRow,
    SizeBin,
)
from bucketlake.report.frames import live
from bucketlake.report.history import cut
from bucketlake.types.model import DataType, Root
from bucketlake.values import dataclass

MOST_PARTITIONS = 400
_NUMBERS = re.compile("([0-9]+)")
MOST_CELLS = 20_000
MOST_FILES = 4_000
MOST_LISTED = 500
KEY_TEXT = 80
SORTS = ("size", "rows", "level", "bucket", "partition", "created", "name")
_LINEAR = {
    *(Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.FLOAT, Root.DOUBLE, Root.DECIMAL),
    *(Root.DATE, Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ),
}
Floats = npt.NDArray[np.float64]


def shown_snapshot(store: Store, number: int | None) -> Snapshot | None:
    """The snapshot of a number, the newest without one. Errors: NotFoundError."""
    return store.latest_snapshot() if number is None else store.snapshot(number)


def partition_text(store: Store, partition: bytes) -> tuple[dict[str, str], str]:
    """Column → text, and all of it as one text; a partition that cannot be read is its hexadecimal digits."""
    try:
        texts = {cut(name): cut(text) for name, text in store.paths.shown_texts(partition).items()}
    except BucketlakeError:
        return {}, partition.hex()
    return texts, "/".join(f"{name}={text}" for name, text in texts.items())


# ---------------------------------------------------------------------------------------------- heat


def heat(store: Store, snapshot: int | None = None) -> Heat:
    """Rows, bytes, files and runs of every bucket of the newest snapshot, or of another. The largest partitions are
    kept where there are too many, in the order of their texts, numbers as numbers.

    Errors: those of reading manifests.
    """
    shown = shown_snapshot(store, snapshot)
    files = live(store, shown)
    keyed = bool(store.schema.primary_keys)
    cells = _cells(files, keyed)
    sums = cells.group_by("partition").agg(
        pl.col("rows").sum(),
        pl.col("bytes").sum(),
        pl.col("files").sum(),
        pl.len().alias("there"),
        pl.col("total").max(),
        pl.col("bytes").filter(pl.col("bucket") >= 0).max().alias("largest"),
        pl.col("bytes").filter(pl.col("bucket") >= 0).sum().alias("placed"),
    )
    largest = sums.sort(["bytes", "partition"], descending=[True, False]).head(MOST_PARTITIONS)
    each = max(1, MOST_CELLS // max(1, largest.height))
    parts = {part["partition"][0]: part for part in _by_partition(cells, largest)}
    rows, hidden = [], 0
    for row in largest.rows(named=True):
        own = parts[row["partition"]]
        hidden += max(0, own.height - each)
        rows.append(_partition(store, row, own.sort(["bytes"], descending=True).head(each)))
    return Heat(
        snapshot=None if shown is None else shown.id,
        partitions=sorted(rows, key=lambda one: _natural(one.text)),
        keyed=keyed,
        rows=int(sums["rows"].sum()),
        bytes=int(sums["bytes"].sum()),
        files=files.height,
        total_partitions=sums.height,
        left_out=sums.height - largest.height,
        left_out_buckets=hidden,
    )


def _natural(text: str) -> list[tuple[int, str]]:
    """Where a text stands among others, the numbers in it as numbers: of two the one with more digits is larger."""
    parts = enumerate(_NUMBERS.split(text))  # every second is a number
    return [(len(part.lstrip("0")) if place % 2 else 0, part) for place, part in parts]


def _cells(files: pl.DataFrame, keyed: bool) -> pl.DataFrame:
    """A row a bucket. Runs: each file of level 0 is one, every level above is one; outside of keyed tables and in the
    pending bucket each file is."""
    runs = pl.len()
    if keyed:
        fresh = (pl.col("level") == 0).sum()
        above = pl.col("level").filter(pl.col("level") > 0).n_unique()
        runs = pl.when(pl.col("bucket").first() < 0).then(pl.len()).otherwise(fresh + above)
    return files.group_by(["partition", "bucket"]).agg(
        pl.col("row_count").sum().alias("rows"),
        pl.col("file_size").sum().alias("bytes"),
        pl.len().alias("files"),
        runs.alias("runs"),
        pl.col("level").n_unique().alias("levels"),
        pl.col("total_buckets").max().alias("total"),
    )


def _by_partition(cells: pl.DataFrame, chosen: pl.DataFrame) -> list[pl.DataFrame]:
    kept = cells.filter(pl.col("partition").is_in(chosen["partition"].to_list()))
    return kept.partition_by("partition") if kept.height else []


def _partition(store: Store, row: dict[str, int | bytes], cells: pl.DataFrame) -> PartitionRow:
    key = row["partition"]
    assert isinstance(key, bytes)
    values, text = partition_text(store, key)
    buckets = max(int(row["total"]), int(row["there"]), 1)
    placed = int(row["placed"] or 0)
    mean = placed / buckets
    found = [
        Cell(
            bucket=cell["bucket"],
            rows=cell["rows"],
            bytes=cell["bytes"],
            files=cell["files"],
            runs=cell["runs"],
            levels=cell["levels"],
            skew=round(cell["bytes"] / mean, 3) if mean and cell["bucket"] >= 0 else 1.0,
            pending=cell["bucket"] == POSTPONE_BUCKET,
        )
        for cell in cells.sort("bucket").rows(named=True)
    ]
    return PartitionRow(
        key=key.hex(),
        text=text,
        values=values,
        rows=int(row["rows"]),
        bytes=int(row["bytes"]),
        files=int(row["files"]),
        buckets=buckets,
        skew=round(int(row["largest"] or 0) / mean, 3) if mean else 1.0,
        cells=found,
    )


# ---------------------------------------------------------------------------------------------- one bucket


def levels(store: Store, partition: bytes, bucket: int, snapshot: int | None = None) -> BucketLevels:
    """The files of one bucket by level, their key ranges to scale. The largest files are listed where there are too
    many. Errors: those of reading manifests; CorruptError for keys that cannot be read."""
    shown = shown_snapshot(store, snapshot)
    wanted = EntryFilter(partitions=frozenset([partition]), buckets=frozenset([bucket]))
    files = live(store, shown, wanted)
    keyed = bool(store.schema.primary_keys) and bucket >= 0
    files = files.sort(["level", "max_sequence_number", "file_name"], descending=[False, True, False]).with_columns(
        run=_runs(keyed)
    )
    sums = files.group_by("level").agg(
        pl.len().alias("files"),
        pl.col("row_count").sum().alias("rows"),
        pl.col("file_size").sum().alias("size"),
        pl.col("run").n_unique().alias("runs"),
    )
    listed = files
    if files.height > MOST_FILES:
        largest = files["file_size"].arg_sort(descending=True).head(MOST_FILES).sort()
        listed = files[largest]
    names = [item.name.removeprefix("_KEY_") for item in store.schema.bound_fields(1)] if keyed else []
    low_texts, high_texts, low, high, scale = _key_ranges(store, listed)
    found = [
        LevelFile(
            name=cut(row["file_name"]),
            level=row["level"],
            run=row["run"],
            size=row["file_size"],
            rows=row["row_count"],
            deletes=row["delete_row_count"],
            created=_epoch(row["creation_time"]),
            source=_source(row["file_source"]),
            schema_id=row["schema_id"],
            min_key=low_texts[place],
            max_key=high_texts[place],
            low=low[place],
            high=high[place],
            min_sequence=row["min_sequence_number"],
            max_sequence=row["max_sequence_number"],
        )
        for place, row in enumerate(listed.rows(named=True))
    ]
    return BucketLevels(
        snapshot=None if shown is None else shown.id,
        partition=partition_text(store, partition)[1],
        bucket=bucket,
        key=names,
        scale=scale,
        levels=[LevelSum(**row) for row in sums.sort("level").rows(named=True)],
        files=found,
        runs=int(files["run"].n_unique()),
        trigger=CompactionRule.of(store.options).run_trigger if keyed else None,
        left_out=files.height - listed.height,
    )


def _runs(keyed: bool) -> pl.Expr:
    """Numbers of runs, 0 the newest: files of level 0 one by one, then a level each."""
    if not keyed:
        return pl.int_range(pl.len(), dtype=pl.Int64)
    fresh = (pl.col("level") == 0).sum().cast(pl.Int64)
    above = pl.col("level").rank("dense").cast(pl.Int64) - 1 - (pl.col("level") == 0).any().cast(pl.Int64)
    return pl.when(pl.col("level") == 0).then(pl.int_range(pl.len(), dtype=pl.Int64)).otherwise(fresh + above)


def _epoch(local: int | None) -> int | None:
    try:
        return None if local is None else local_to_epoch(local)
    except (ValueError, OverflowError, OSError):
        return None


def _source(number: int | None) -> str | None:
    return None if number is None else FileSource(number).name.lower() if number in (0, 1) else str(number)


Texts = Sequence[str | None]
Ranges = tuple[Texts, Texts, Sequence[float | None], Sequence[float | None], str | None]


def _key_ranges(store: Store, files: pl.DataFrame) -> Ranges:
    """Texts of first and last keys, where they lie from 0 to 1, and by which scale; none where files of level 0 are in
    another order than others."""
    none = [None] * files.height
    levels = {min(level, 1) for level in files["level"].to_list()}
    schemas = (
        [store.schema_of(number) for number in set(files["schema_id"].to_list())] if store.schema.clustered else []
    )
    made = {tuple(field.type for field in schema.bound_fields(level)) for schema in schemas for level in levels}
    if not store.schema.primary_keys or not levels or len(made) > 1:
        return none, none, none, none, None
    types = [field.type for field in store.schema.bound_fields(max(levels))]
    rows = files["min_key"].to_list() + files["max_key"].to_list()
    with decoding("keys of files cannot be read", store.paths.root):
        check_rows(rows, types)
        columns = decode_columns(rows, types, range(len(types)))
    texts = _key_texts(columns, types)
    places, scale = _positions(columns, types)
    half = files.height
    low, high = places[:half].tolist(), places[half:].tolist()
    return texts[:half], texts[half:], low, high, scale


def _key_texts(columns: Sequence[pa.Array], types: Sequence[DataType]) -> list[str | None]:
    shown = [cast_texts(column, kind) for column, kind in zip(columns, types, strict=True)]
    cuts = [pc.utf8_slice_codeunits(text, 0, KEY_TEXT + 1) for text in shown]
    texts = cuts[0] if len(cuts) == 1 else pc.binary_join_element_wise(*cuts, " · ", null_handling="replace")
    return [None if text is None else cut(text, KEY_TEXT) for text in texts.to_pylist()]


def _positions(columns: Sequence[pa.Array], types: Sequence[DataType]) -> tuple[Floats, str]:
    """Where keys lie between the least and the greatest: by value for a single number or time, else by rank."""
    if len(types) == 1 and types[0].root in _LINEAR:
        values = _numbers(columns[0], types[0])
        span = np.nanmax(values) - np.nanmin(values)
        if np.isfinite(span):
            return np.nan_to_num((values - np.nanmin(values)) / span if span else values * 0), "value"
    ranks = _ranks(columns)
    most = ranks.max(initial=0)
    return ranks / most if most else ranks * 0.0, "rank"


def _numbers(column: pa.Array, kind: DataType) -> Floats:
    if kind.root in (Root.DATE, Root.TIME):
        column = column.view(pa.int32()) if column.type.bit_width == 32 else column.view(pa.int64())
    elif kind.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        column = column.view(pa.int64())
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)


def _ranks(columns: Sequence[pa.Array]) -> Floats:
    """Dense ranks of rows in the order of their columns."""
    named = {str(place): column for place, column in enumerate(columns)}
    table = pa.table(named)
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in named])
    rises = np.zeros(len(order), np.bool_)
    for column in named.values():
        sorted_ = column.take(order)
        same = pc.fill_null(pc.equal(sorted_.slice(1), sorted_.slice(0, len(order) - 1)), False)
        rises[1:] |= ~np.asarray(same.to_numpy(zero_copy_only=False), np.bool_)
    ranks = np.zeros(len(order), np.float64)
    ranks[np.asarray(order)] = np.cumsum(rises)
    return ranks


# ---------------------------------------------------------------------------------------------- sizes


def file_sizes(store: Store, snapshot: int | None = None) -> FileSizes:
    """How large the files are, in bins of powers of two. Errors: those of reading manifests."""
    shown = shown_snapshot(store, snapshot)
    files = live(store, shown)
    sizes = files["file_size"].to_numpy().astype(np.int64)
    target = int(
        store.options.get("target-file-size") or (TARGET_KEYED if store.schema.primary_keys else TARGET_APPEND)
    )
    bins: list[SizeBin] = []
    if len(sizes):
        powers = np.floor(np.log2(np.maximum(sizes, 1))).astype(np.int64)
        first, last = int(powers.min()), int(powers.max())
        counts = np.bincount(powers - first, minlength=last - first + 1)
        sums = np.bincount(powers - first, sizes, minlength=last - first + 1)
        bins = [
            SizeBin(1 << power, 2 << power, int(counts[power - first]), int(sums[power - first]))
            for power in range(first, last + 1)
        ]
    return FileSizes(
        snapshot=None if shown is None else shown.id,
        bins=bins,
        files=len(sizes),
        bytes=int(sizes.sum()),
        rows=int(files["row_count"].sum()),
        smallest=int(sizes.min()) if len(sizes) else 0,
        median=int(np.median(sizes)) if len(sizes) else 0,
        largest=int(sizes.max(initial=0)),
        target=target,
        small=int((sizes < target // 4).sum()),
    )


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which stretch of the files a list shows, and in which order (one of `SORTS`). `partition`, `bucket`: only of
    these."""

    sort: str = "size"
    descending: bool = True
    start: int = 0
    count: int = 100
    partition: bytes | None = None
    bucket: int | None = None

    def __post_init__(self) -> None:
        if self.sort not in SORTS:
            raise InvalidError("unknown order of files", sort=self.sort, remedy=f"use one of {', '.join(SORTS)}")


_COLUMNS = {"size": "file_size", "rows": "row_count", "created": "creation_time", "name": "file_name"}


def files(store: Store, wanted: Wanted | None = None, snapshot: int | None = None) -> Listing:
    """A stretch of the live files. Errors: those of reading manifests."""
    wanted = wanted or Wanted()
    shown = shown_snapshot(store, snapshot)
    only = EntryFilter(
        partitions=None if wanted.partition is None else frozenset([wanted.partition]),
        buckets=None if wanted.bucket is None else frozenset([wanted.bucket]),
    )
    found = live(store, shown, only)
    start, count = max(0, wanted.start), max(0, min(wanted.count, MOST_LISTED))
    column = _COLUMNS.get(wanted.sort, wanted.sort)
    keys = [column, "file_name", "bucket"]
    places = found.select(pl.arg_sort_by(keys, descending=[wanted.descending, False, False], nulls_last=True))
    listed = found[places.to_series().slice(start, count)]
    known: dict[bytes, str] = {}
    rows = []
    for row in listed.rows(named=True):
        partition = row["partition"]
        if partition not in known:
            known[partition] = partition_text(store, partition)[1]
        rows.append(
            ListedFile(
                name=cut(row["file_name"]),
                partition=known[partition],
                bucket=row["bucket"],
                level=row["level"],
                size=row["file_size"],
                rows=row["row_count"],
                created=_epoch(row["creation_time"]),
                source=_source(row["file_source"]),
            )
        )
    return Listing(None if shown is None else shown.id, rows, start, found.height)


def file_changes(store: Store, before: int, after: int) -> FileChanges:
    """What differs between the files of two snapshots, whatever came between. Errors: NotFoundError, those of reading
    manifests."""
    one, two = (live(store, store.snapshot(number)) for number in (before, after))
    place = ["partition", "bucket", "file_name"]
    both = [*place, "level"]
    came, went = two.join(one, on=place, how="anti"), one.join(two, on=place, how="anti")
    same = two.join(one, on=both, how="semi").height
    return FileChanges(
        before=before,
        after=after,
        added_files=came.height,
        added_bytes=int(came["file_size"].sum()),
        added_rows=int(came["row_count"].sum()),
        removed_files=went.height,
        removed_bytes=int(went["file_size"].sum()),
        removed_rows=int(went["row_count"].sum()),
        same_files=same,
        moved_files=two.height - came.height - same,
    )


def partition_key(store: Store, text: str) -> bytes:
    """The partition of hexadecimal digits, as `PartitionRow.key` has them. Errors: InvalidError."""
    try:
        key = bytes.fromhex(text)
        store.paths.partition_texts(key)
    except (ValueError, CorruptError) as error:
        raise InvalidError("not a partition", key=cut(text, 60)) from error
    return key
