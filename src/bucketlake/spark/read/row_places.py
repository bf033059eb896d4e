"""Rows of append tables with their places, so that any condition of Spark's can say which of them go.

    rows_with_places(spark, store, files, chosen)   rows with their file's number and their position in it
    positions_in(spark, frame, small)               which positions a frame names, by file number, as bitmaps

Spec: docs/spec/row_changes.md#append-tables
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.format.index.deletion_vector import Vector, either, positions_of, vector_of
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.change.append_rows import Find
from bucketlake.ops.change.touched import Touched, path_of
from bucketlake.ops.rows.deletions import Mask, load_all_deletions, packed
from bucketlake.ops.rows.read import read_rows
from bucketlake.ops.rows.row_ids import tracked
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import TRACKING
from bucketlake.spark import actions
from bucketlake.spark.arrow_rows import arrow_frame, arrow_layout, framed, spark_batch, spread
from bucketlake.spark.beside import Beside
from bucketlake.spark.cluster import ensure_package, parallelism, rows_made, run_tasks, unpickled
from bucketlake.spark.instants import as_shown, shown
from bucketlake.spark.read import hidden, native, placed, reader
from bucketlake.spark.read.native import ROW_INDEX
from bucketlake.spark.read.placed import FILE
from bucketlake.spark.read.united import united
from bucketlake.spark.types import quoted, spark_schema
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

FILES_A_TASK = 4  # tasks a core
_BITS = "__bucketlake_bits"
_BIT = f"""coalesce(CAST(bit_get(try_element_at({_BITS}, CAST(shiftright({ROW_INDEX}, 6) AS INT) + 1),
 CAST({ROW_INDEX} & 63 AS INT)) AS INT), 0)"""
Choose = Callable[[DataFrame], DataFrame]
"""Rows of the table with `FILE` and `ROW_INDEX` to these two columns of the rows wanted."""
Places = dict[int, tuple[Vector, int]]
"""By file number: positions in it, and how many rows name one."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Rows of one file: those `named`, or all others."""

    split: Split
    file: DataFile
    named: Vector | None = None
    others: bool = True

    @property
    def count(self) -> int:
        """How many rows these are."""
        named = 0 if self.named is None else len(self.named)
        return self.file.row_count - named if self.others else named

    def left_out(self) -> Mask:
        """One boolean a row of the file: whether it is not among them."""
        mask = np.full(self.file.row_count, not self.others, np.bool_)
        if self.named is not None:
            mask[positions_of(self.named)] = self.others
        return mask

    def words(self) -> np.ndarray:
        """The rows named, as bits of words."""
        mask = self.left_out()
        return packed(mask if self.others else ~mask).view(np.int64)


DRIVER_ROWS = 2_000_000  # stored rows among which the driver looks for few by itself


def live(store: Store, splits: Sequence[Split]) -> list[Chosen]:
    """The rows of raw splits that no deletion vector names."""
    vectors = load_all_deletions(store, [split.deletions for split in splits]) if splits else []
    return [
        Chosen(split, file, found.get(file.file_name))
        for split, found in zip(splits, vectors, strict=True)
        for file in split.files
    ]


def hits(touched: Sequence[Touched]) -> list[Chosen]:
    """The rows that are to be deleted."""
    return [Chosen(item.split, item.file, item.hits, others=False) for item in touched]


def finder(spark: SparkSession, choose: Choose, beside: Beside) -> Find:
    """How `ops.change.append_rows` finds rows by a condition that Spark evaluates. `beside`: what that looks at."""

    def find(store: Store, splits: Sequence[Split], base: Snapshot | None) -> dict[str, Vector]:
        files = [Chosen(split, file) for split in splits for file in split.files]
        if not files:
            return {}
        chosen = choose(rows_with_places(spark, store, files, beside.extra, beside.columns))
        found = positions_in(spark, chosen, is_small(files))
        return {path_of(store, files[number].split, files[number].file): at for number, (at, _) in found.items()}

    return find


def is_small(files: Sequence[Chosen]) -> bool:
    """Whether the driver reads these rows by itself."""
    return sum(chosen.count for chosen in files) <= reader.SMALL_ROWS


def positions_in(spark: SparkSession, frame: DataFrame, small: bool) -> Places:
    """By file number: the positions that the rows of a frame of `FILE` and `ROW_INDEX` name, and how many rows name
    one. One Spark action; what travels are bitmaps, unless the rows are few."""
    if small:
        return positions_of_rows(actions.to_arrow(frame))
    ensure_package(spark)
    return _merged(run_tasks(frame, lambda batches: iter([_bitmaps(batches)])))


def positions_of_rows(rows: pa.Table) -> Places:
    """As `positions_in`, of rows in the driver."""
    return _merged([_bitmaps(rows.select([FILE, ROW_INDEX]).to_batches())])


def _merged(parts: Sequence[Places]) -> Places:
    found: Places = {}
    for part in parts:
        for number, (positions, count) in part.items():
            known = found.get(number)
            found[number] = (positions, count) if known is None else (either(known[0], positions), known[1] + count)
    return found


def _bitmaps(batches: Iterator[pa.RecordBatch] | Sequence[pa.RecordBatch]) -> Places:
    found: Places = {}
    for batch in batches:
        if not batch.num_rows:
            continue
        files, positions = (batch.column(place).to_numpy(zero_copy_only=False) for place in (0, 1))
        order = np.argsort(files, kind="stable")
        numbers, starts = np.unique(files[order], return_index=True)
        for number, own in zip(numbers.tolist(), np.split(positions[order], starts[1:]), strict=True):
            named = vector_of(own, bits64=bool(own.max() >= 1 << 31))
            known = found.get(number)
            found[number] = (named, len(own)) if known is None else (either(known[0], named), known[1] + len(own))
    return found


def rows_with_places(
    spark: SparkSession,
    store: Store,
    files: Sequence[Chosen],
    extra: Sequence[str] = (),
    columns: Collection[str] | None = None,
    joined: bool = False,
) -> DataFrame:
    """The rows chosen as a read shows them, with the file's number (its place in `files`), the position in the file,
    and the metadata columns `extra`. `columns`: those that are asked for; `joined`: Spark is to know how many rows
    they are."""
    if any(name in TRACKING for name in extra):
        store, extra = tracked(store), [name for name in extra if name not in TRACKING]
    fields: Sequence[DataField] = store.schema.fields
    if columns is not None:
        fields = [item for item in fields if item.name in (*columns, *TRACKING)] or fields[:1]
    stored = stored_with_places(spark, store, files, fields, joined or bool(extra))
    frame = shown(stored, fields, store.options)
    if not extra:
        return frame
    columns = {FILE: pa.array(range(len(files)), pa.int64())}
    columns |= {name: _of_files(store, files, name) for name in extra if name != hidden.ROW_INDEX}
    kinds = [T.StructField(name, hidden.hidden_type(name, store.schema)) for name in columns if name != FILE]
    known = arrow_frame(spark, pa.table(columns), T.StructType([T.StructField(FILE, T.LongType()), *kinds]))
    if hidden.ROW_INDEX in extra:
        frame = frame.withColumn(hidden.ROW_INDEX, F.col(ROW_INDEX))
    return frame if len(columns) == 1 else frame.join(F.broadcast(as_shown(known, store.options)), FILE)


def _of_files(store: Store, files: Sequence[Chosen], name: str) -> pa.Array:
    """A metadata column's value a file."""
    if name == hidden.PARTITION:
        values = [hidden.partition_row(store, chosen.split.partition) for chosen in files]
        return pa.array([value.as_py() for value in values], hidden.partition_kind(store))
    if name == hidden.BUCKET:
        return pa.array([chosen.split.bucket for chosen in files], pa.int32())
    return pa.array([path_of(store, chosen.split, chosen.file) for chosen in files], pa.string())


def stored_with_places(
    spark: SparkSession,
    store: Store,
    files: Sequence[Chosen],
    fields: Sequence[DataField] | None = None,
    joined: bool = False,
) -> DataFrame:
    """As `rows_with_places`, values as they are stored; all columns, or these."""
    fields = tuple(store.schema.fields if fields is None else fields)
    schema, scan = placed_schema(fields), PlaceScan(store, fields)
    items = list(enumerate(files))
    few = is_small(files)
    if few and sum(chosen.file.row_count for chosen in files) <= DRIVER_ROWS:
        parts = parallel(lambda item: list(scan.batches([item])), items, parallelism(spark))
        batches = [batch for part in parts for batch in part]
        if not batches:
            return spark.createDataFrame([], schema)
        return (framed if joined else spread)(spark, pa.Table.from_batches(batches), schema)
    scanned: list[tuple[int, native.FileAt]] = []
    others: list[tuple[int, Chosen]] = []
    for number, chosen in items:
        found = native.FileAt(path_of(store, chosen.split, chosen.file), chosen.file, chosen.split.partition)
        if not few and found.format == "parquet" and native.is_native(store, found, fields):
            scanned.append((number, found))
        else:
            others.append((number, chosen))
    frames = []
    if scanned:
        frames.append(_scanned(spark, store, scanned, files, fields))
    if others:
        ensure_package(spark)
        count = max(1, min(len(others), parallelism(spark) * FILES_A_TASK))
        groups = [others[number::count] for number in range(count)]
        rows = sum(chosen.file.row_count for _, chosen in others)
        frames.append(rows_made(spark, groups, scan, schema, rows))
    return united(frames)


def _scanned(
    spark: SparkSession,
    store: Store,
    scanned: Sequence[tuple[int, native.FileAt]],
    files: Sequence[Chosen],
    fields: Sequence[DataField],
) -> DataFrame:
    """Spark's own scan of parquet files, less the rows that bitmaps leave out: no Python sees a row."""
    given: dict[str, pa.Array] = {FILE: pa.array([number for number, _ in scanned], pa.int64())}
    bits = any(files[number].named is not None for number, _ in scanned)
    if bits:
        words = [np.zeros(0, np.int64) if files[n].named is None else files[n].words() for n, _ in scanned]
        offsets = np.concatenate([[0], np.cumsum([len(found) for found in words])]).astype(np.int32)
        given[_BITS] = pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.concatenate(words)))
    frame = placed.scan_with_positions(spark, store, [found for _, found in scanned], fields, given)
    if bits:
        frame = frame.where(f"{_BIT} = {0 if files[scanned[0][0]].others else 1}")
    return frame.select(*map(quoted, placed_schema(fields).names))


def placed_schema(fields: Sequence[DataField]) -> T.StructType:
    """These columns, file and position behind them."""
    places = [T.StructField(FILE, T.LongType()), T.StructField(ROW_INDEX, T.LongType())]
    return T.StructType([*spark_schema(fields).fields, *places])


@dataclass(frozen=True)
class PlaceScan:
    """Reads files with the places of their rows; travels to tasks."""

    store: Store
    fields: tuple[DataField, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The task of `mapInArrow`: files in, their rows out."""
        for files in unpickled(batches):
            yield from self.batches(files)

    def batches(self, files: Sequence[tuple[int, Chosen]]) -> Iterator[pa.RecordBatch]:
        """The rows of these files in the layout of DataFrames, file and position behind the columns."""
        layout = arrow_layout(self.fields)
        for name in (FILE, ROW_INDEX):
            layout = layout.append(pa.field(name, pa.int64()))
        for number, chosen in files:
            mask = chosen.left_out()
            positions, start = np.flatnonzero(~mask), 0
            for batch in read_rows(self.store, chosen.split, chosen.file, mask, self.fields):
                rows = spark_batch(batch, self.fields)
                places = [
                    pa.repeat(pa.scalar(number, pa.int64()), rows.num_rows),
                    pa.array(positions[start : start + rows.num_rows]),
                ]
                start += rows.num_rows
                yield pa.RecordBatch.from_arrays([*rows.columns, *places], schema=layout)
