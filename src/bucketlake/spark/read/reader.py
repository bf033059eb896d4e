"""From a plan to a DataFrame. What needs no merge is Spark's own scan; merges of engines that pick rows, over large
parquet files, are that scan too, less the rows that are superseded, and so are files with deletion vectors, less the
rows that these name; what is small is read in the driver; the rest crosses as Arrow.

Spec: docs/spec/reading.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bucketlake.errors import names_listed
from bucketlake.format.metadata.manifest import FileKind, ManifestEntry
from bucketlake.ops.refs import read_tags
from bucketlake.ops.rows.column_files import narrowed
from bucketlake.ops.rows.described import followed
from bucketlake.ops.rows.read import exact_part
from bucketlake.ops.scan.scan import Plan
from bucketlake.ops.scan.select import Selection
from bucketlake.ops.scan.system_tables import RowView, read_view, view_schema
from bucketlake.ops.system.model import SystemTable
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.retry import on_newest
from bucketlake.ops.table.store import Store
from bucketlake.paths import POSTPONE_BUCKET
from bucketlake.predicate.scan import names_in
from bucketlake.predicate.tree import Predicate, columns_of, key_values, longest_list, to_spark_sql
from bucketlake.schema.schema import column_names
from bucketlake.spark import actions
from bucketlake.spark.arrow_rows import arrow_layout, framed, spark_batch
from bucketlake.spark.cluster import ensure_package, pack, parallelism, rows_made, unpickled
from bucketlake.spark.conform import char_columns
from bucketlake.spark.instants import as_shown, known_part, shown
from bucketlake.spark.read import filtered as live
from bucketlake.spark.read import hidden, metadata, native, placed
from bucketlake.spark.read.kept import KeptFrames
from bucketlake.spark.read.united import united
from bucketlake.spark.settings import condition_of, substituted
from bucketlake.spark.types import quoted, spark_schema
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.table import Table

SMALL_ROWS = 100_000  # stored rows that the driver reads by itself
SMALL_BYTES = 8 << 20
LONG_LIST = 100  # values of an IN
LOOKUP_ROWS = 20_000_000  # where the whole key is given, of which few are decoded
LARGE_MERGE_ROWS = 200_000  # above this, deciding live rows is cheaper than moving rows
TASK_BYTES = 128 << 20


def read(
    spark: SparkSession,
    table: Table,
    columns: Sequence[str] | None = None,
    where: str | Predicate | None = None,
    options: Mapping[str, Any] | None = None,
    limit: int | None = None,
) -> DataFrame:
    """The rows of one snapshot that satisfy `where`, with these columns, as of this call. With `limit`, at least as
    many as asked for if there are so many: files that are not needed for them are not opened."""
    columns = None if columns is None else names_listed(columns)
    if isinstance(table.view, SystemTable):
        frame, wanted = _metadata(spark, table.with_options(options), columns, where, limit)
        return _chosen(frame, frame.columns, wanted, where)
    handle, extra = table, hidden.of_columns(columns, table.schema)

    def once() -> tuple[Table, list[str], Need, Plan]:
        past, selection = handle.as_of(options)
        own = columns if not extra else [name for name in columns or () if name not in extra]
        predicate, wanted = predicate_of(spark, past, where), column_names(past.schema, own)
        asked = named(spark, past, where).union(wanted)
        need = Need(tuple(name for name in past.schema.field_names if name in asked), predicate, limit)
        return past, wanted, need, _plan(past, selection, need)

    table, wanted, need, found = on_newest(table.store, once)
    if extra:
        frame = hidden.frame(spark, table, found, hidden.Wanted(need.columns, extra, need.predicate))
        return _chosen(frame, frame.columns, list(columns or ()), where)
    return _chosen(_shown(spark, table, need, found), list(need.columns or ()), wanted, where)


def _metadata(
    spark: SparkSession, table: Table, columns: Sequence[str] | None, where: str | Predicate | None, limit: int | None
) -> tuple[DataFrame, list[str]]:
    """The rows that a system table of metadata may have for a condition, with the columns that it names, too."""
    predicate, wanted = predicate_of(spark, table, where), column_names(table.schema, columns)
    asked = named(spark, table, where).union(wanted)
    names = [name for name in table.schema.field_names if name in asked]
    return metadata.read(spark, table, names, predicate, limit if predicate is None else None), wanted


def _chosen(frame: DataFrame, names: list[str], wanted: list[str], where: str | Predicate | None) -> DataFrame:
    """The rows for which the condition is true, with the columns `wanted`; `names`: those of the frame."""
    if where is not None:
        frame = frame.where(where if isinstance(where, str) else to_spark_sql(where))
    return frame if names == wanted else frame.select(*[quoted(name) for name in wanted])


@dataclass(frozen=True, slots=True)
class Need:
    """What is enough of a table: columns (None: all), rows for which `predicate` may be true, `limit` rows, any."""

    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None
    limit: int | None = None


def pruned(
    spark: SparkSession, table: Table, selection: Selection, need: Need, kept: KeptFrames | None = None
) -> DataFrame:
    """At least the rows that are needed of what `Table.as_of` selected, with just these columns: who asks filters and
    limits them. `kept`: the session's, where the same rows may be asked for again."""
    if isinstance(table.view, SystemTable):
        return metadata.read(spark, table, need.columns, need.predicate, need.limit if need.predicate is None else None)
    if selection.span is not None and selection.span.rescaled:
        return _told_apart(spark, table, selection, need)
    return _shown(spark, table, need, _plan(table, selection, need), kept)


def few_values(
    table: Table, selection: Selection, predicate: Predicate | None, column: str, most: int
) -> list[Any] | None:
    """The different values of a column, null aside, in the rows for which the predicate may be true; None where the
    driver does not read these by itself, or where there are more than `most`."""
    exact = None if predicate is None else exact_part(predicate)
    asked = frozenset([column]) if exact is None else columns_of(exact) | {column}
    needed = tuple(name for name in table.schema.field_names if name in asked)
    found = pa.array([], arrow_layout(table.schema.select([column])).field(0).type)
    for store, part in table.planned(predicate, selection).parts(table.store):
        scan = _Scan(store, needed, exact)
        part = _of_columns(scan, part)
        if not are_few(part.splits):
            return None
        columns = [batch.column(column) for split in part.splits for batch in scan.split_batches(split)]
        found = pa.chunked_array([found, *columns]).unique().drop_null()
        if len(found) > most:
            return None
    values: list[Any] = found.to_pylist()
    return values


def has_short_texts(spark: SparkSession, table: Table, selection: Selection, need: Need) -> bool:
    """Whether a row that may be needed has less characters in one of the columns needed, which are CHAR, than its type:
    engines but Spark store such values as they come, and a read pads them."""
    names = need.columns or ()
    frame = _stored(spark, table, need, _plan(table, selection, need))
    short = [F.char_length(F.col(quoted(name))) < (table.schema.field(name).type.length or 0) for name in names]
    return bool(actions.count(frame.where(reduce(lambda left, right: left | right, short)).limit(1)))


def _told_apart(spark: SparkSession, table: Table, selection: Selection, need: Need) -> DataFrame:
    """The rows of the newer snapshot that the older one lacks, where the two have no buckets in common.

    Spec: docs/spec/incremental.md#diff
    """
    assert selection.span is not None
    whole, older = Need(predicate=need.predicate), Selection(selection.span.before)
    newer, before = (
        char_columns(_stored(spark, table, whole, _plan(table, s, whole)), table.schema.fields)
        for s in (replace(selection, span=None), older)
    )
    wanted = column_names(table.schema, need.columns)
    return as_shown(newer.subtract(before).select(*[quoted(name) for name in wanted]), table.options)


def rows_of(spark: SparkSession, store: Store, found: Plan) -> DataFrame:
    """All live rows of the splits of a plan, in the table's columns."""
    return _frame(spark, _Scan(store, tuple(store.schema.field_names), None), found)


def of_splits(spark: SparkSession, table: Table, splits: Sequence[Split], need: Need) -> DataFrame:
    """The rows of some splits, in any order, with the columns needed: Spark's own scan where files need no merge."""
    names = tuple(need.columns or table.schema.field_names)
    entries = tuple(
        ManifestEntry(FileKind.ADD, part.partition, part.bucket, part.total_buckets, file)
        for split in splits
        for part in (split, *([split.before] if split.before is not None else []), *split.parts)
        for file in part.files
    )
    exact = None if need.predicate is None else exact_part(need.predicate)
    view = table.view if isinstance(table.view, RowView) else None
    asked = names if exact is None else tuple(dict.fromkeys([*names, *columns_of(exact)]))
    frame = _frame(spark, _Scan(table.store, asked, exact, view), Plan(None, entries, tuple(splits)))
    return shown(frame, table.schema.fields, table.options)


def stored_rows(spark: SparkSession, table: Table, found: Plan, names: Sequence[str]) -> DataFrame | None:
    """Some columns of every row that the files of a plan hold, superseded and deleted ones as well; None where Spark's
    scan does not read them all."""
    store, fields = table.store, table.schema.select(names)
    files = [file for split in found.splits for file in native.files_at(store, split)]
    postponed = any(split.bucket == POSTPONE_BUCKET for split in found.splits)
    if not files or found.beside or postponed or not all(native.is_native(store, file, fields) for file in files):
        return None
    return shown(placed.scan(spark, store, files, fields), fields, table.options)


def _plan(table: Table, selection: Selection, need: Need) -> Plan:
    found = table.scanned(need.predicate, selection)
    if need.limit is not None and need.predicate is None and table.view is None:
        return _enough(table.store, found, need.limit)
    return found


def _shown(spark: SparkSession, table: Table, need: Need, found: Plan, kept: KeptFrames | None = None) -> DataFrame:
    return shown(_stored(spark, table, need, found, kept), table.schema.fields, table.options)


def _stored(spark: SparkSession, table: Table, need: Need, found: Plan, kept: KeptFrames | None = None) -> DataFrame:
    """The rows of a plan, CHAR as it is stored."""
    wanted = column_names(table.schema, need.columns)
    row_view = table.view if isinstance(table.view, RowView) else None
    exact = None if need.predicate is None else exact_part(need.predicate)
    asked = frozenset(wanted) if exact is None else columns_of(exact).union(wanted)
    needed = tuple(name for name in table.schema.field_names if name in asked)
    scans = [(_Scan(store, needed, exact, row_view), part) for store, part in found.parts(table.store)]
    frame = united(_frame(spark, scan, part, kept) for scan, part in scans)
    if all(_is_small(scan, part) for scan, part in scans):
        read_tags.release(table.store, found)  # the rows are here
    return frame if list(needed) == wanted else frame.select(*[quoted(name) for name in wanted])


def _enough(store: Store, found: Plan, limit: int) -> Plan:
    """The plan with only so many splits as hold `limit` rows for certain; the whole plan if none do."""
    if found.beside:
        return found
    rows, chosen = 0, []
    for split in found.splits:
        gone = [place.range.cardinality for place in split.deletions.values()]
        if split.raw and split.before is None and None not in gone and not _holds_deletes(store, split):
            chosen.append(split)
            rows += split.row_count - sum(number or 0 for number in gone)
            if rows >= limit:
                names = {(split.partition, split.bucket, file.file_name) for split in chosen for file in split.files}
                kept = tuple(e for e in found.entries if (e.partition, e.bucket, e.file.file_name) in names)
                return replace(found, entries=kept, splits=tuple(chosen))
    return found


def predicate_of(spark: SparkSession, table: Table, where: str | Predicate | None) -> Predicate | None:
    """The condition, a text as Spark itself reads it: with its variables, times of day in the session's zone."""
    if isinstance(where, str):
        where = condition_of(spark, where, table.schema.fields)
    return known_part(where, table.schema.fields, table.options)


def named(spark: SparkSession, table: Table, where: str | Predicate | None) -> frozenset[str]:
    """The columns that Spark looks for where it evaluates the condition: of a text also those of which the predicate
    says nothing, as of `c = NULL`."""
    if isinstance(where, str):
        return names_in(substituted(spark, where), table.schema.field_names)
    return frozenset() if where is None else columns_of(where)


@dataclass(frozen=True)
class _Scan:
    """What every split is read with; travels to tasks."""

    store: Store
    columns: tuple[str, ...]
    predicate: Predicate | None
    view: RowView | None = None

    @property
    def fields(self) -> tuple[DataField, ...]:
        return view_schema(self.store, self.view).select(self.columns)

    @property
    def computes(self) -> bool:
        """Whether no file holds the rows as they are shown."""
        return self.view is not None and self.view.computes

    @property
    def follows(self) -> bool:
        """Whether rows have blobs of any size, which lie elsewhere: they are not for the driver."""
        return bool(followed(self.store, self.columns))

    def split_batches(self, split: Split) -> Iterator[pa.RecordBatch]:
        fields = self.fields
        for batch in read_view(self.store, self.view, split, list(self.columns), self.predicate):
            yield spark_batch(batch, fields)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The task of `mapInArrow`: splits in, their rows out."""
        for splits in unpickled(batches):
            for split in splits:
                yield from self.split_batches(split)


def _frame(spark: SparkSession, scan: _Scan, plan: Plan, kept: KeptFrames | None = None) -> DataFrame:
    plan = _of_columns(scan, plan)
    if _is_small(scan, plan):
        return _in_driver(spark, scan, plan.splits, kept)
    raw: list[native.FileAt] = []
    marked: list[Split] = []
    merged: list[Split] = []
    others: list[Split] = []
    for split in plan.splits:
        files = native.files_at(scan.store, split)
        if split.bucket == POSTPONE_BUCKET or split.chained or not _is_native(scan, split, files):
            others.append(split)
        elif split.raw and not _holds_deletes(scan.store, split):
            if not split.deletions:
                raw.extend(files)
            else:
                (marked if live.is_markable(files) else others).append(split)
        elif split.raw:
            others.append(split)
        elif live.is_decidable(scan.store, files):
            merged.append(split)
        else:
            others.append(split)
    if sum(split.row_count for split in merged) < LARGE_MERGE_ROWS:
        others, merged = others + merged, []
    frames = _native_frames(spark, scan, raw, marked, merged)
    if are_few(others) and not scan.follows:
        frames += [_in_driver(spark, scan, others)] if others or not frames else []
    else:
        frames.append(_in_tasks(spark, scan, others))
    return united(frames)


def _of_columns(scan: _Scan, plan: Plan) -> Plan:
    """The plan without blob files of columns that are not read."""
    if not scan.store.schema.blob_fields:
        return plan
    splits = tuple(part for split in plan.splits for part in narrowed(scan.store, split, scan.columns))
    read = {file.file_name for split in splits for file in split.files}
    return replace(plan, splits=splits, entries=tuple(e for e in plan.entries if e.file.file_name in read))


def _is_native(scan: _Scan, split: Split, files: Sequence[native.FileAt]) -> bool:
    """Whether rows of the split are rows of its files, which Spark's scan reads."""
    joins = not split.raw and not scan.store.schema.primary_keys  # columns of several files
    if scan.computes or split.before is not None or joins:
        return False
    return all(native.is_native(scan.store, found, scan.fields) for found in files)


def _native_frames(
    spark: SparkSession, scan: _Scan, raw: list[native.FileAt], marked: list[Split], merged: list[Split]
) -> list[DataFrame]:
    frames = []
    if marked or merged:
        decided = live.decide(spark, scan.store, merged) if merged else live.Decision()
        live.mark(scan.store, marked, decided)
        raw = decided.beside(raw + decided.whole)
        if decided.dropped:
            frames.append(live.filtered(spark, scan.store, decided.dropped, scan.fields))
    if raw:
        frames.append(placed.scan(spark, scan.store, raw, scan.fields))
    return frames


def are_few(splits: Sequence[Split]) -> bool:
    """Whether the driver reads these splits by itself."""
    return sum(split.row_count for split in splits) <= SMALL_ROWS and sum(split.size for split in splits) <= SMALL_BYTES


def _holds_deletes(store: Store, split: Split) -> bool:
    return bool(store.schema.primary_keys) and any(file.delete_row_count != 0 for file in split.files)


def _is_small(scan: _Scan, plan: Plan) -> bool:
    if scan.follows:
        return False
    chained = any(split.chained for split in plan.splits)  # a file of a chain is read for each partition behind it
    if plan.row_count <= SMALL_ROWS and plan.size <= SMALL_BYTES:
        return not chained or are_few(plan.splits)
    if chained:
        return False
    keys = scan.store.schema.primary_keys or scan.store.schema.bucket_keys
    if scan.predicate is None or not keys or plan.row_count > LOOKUP_ROWS:
        return False
    return key_values(scan.predicate, keys) is not None


def _in_driver(spark: SparkSession, scan: _Scan, splits: Sequence[Split], kept: KeptFrames | None = None) -> DataFrame:
    def rows() -> pa.Table:
        batches = parallel(lambda split: list(scan.split_batches(split)), splits)
        return pa.Table.from_batches([batch for found in batches for batch in found], arrow_layout(scan.fields))

    schema = spark_schema(scan.fields)
    if kept is None:
        frame = framed(spark, rows(), schema)
    else:
        frame = kept.frame(scan.store.env.storage, (scan, tuple(splits)), rows, schema)
    # Of rows in its plan Spark works a filter out at once, before it makes sets of lists: value by value, for each row.
    listed = 0 if scan.predicate is None else longest_list(scan.predicate)
    return frame.coalesce(1) if listed > LONG_LIST else frame


def _in_tasks(spark: SparkSession, scan: _Scan, splits: Sequence[Split]) -> DataFrame:
    ensure_package(spark)
    tasks = max(parallelism(spark), sum(split.size for split in splits) // TASK_BYTES)
    rows = sum(split.row_count for split in splits)
    return rows_made(spark, pack(splits, tasks), scan, spark_schema(scan.fields), rows)
