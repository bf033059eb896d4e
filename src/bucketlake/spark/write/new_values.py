"""New values of columns in rows of append tables that stay: files written anew in the driver or by Spark's tasks.

    replacer(spark, fields, find) -> Rewrite       `find` gives the values; see `ops.change.new_values`

Values that the driver has travel with the files that they are for. Others are shuffled: each task gets the files that
it writes, and their values in the files' order.

Spec: docs/spec/row_changes.md#new-values-in-place
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bucketlake.errors import BucketlakeError, CorruptError
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.lazy import pc
from bucketlake.ops.change.append_rows import Rewrite
from bucketlake.ops.change.new_values import NewValues, rewrite_changed
from bucketlake.ops.change.touched import Touched, path_of
from bucketlake.ops.table.made import MadeFiles, all_or_nothing, remove_files
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.store import Store
from bucketlake.spark.arrow_rows import arrow_frame, collected
from bucketlake.spark.cluster import ensure_package, is_answer, pack, parallelism, run_tasks, run_values, unpickled
from bucketlake.spark.conform import conform
from bucketlake.spark.instants import rules
from bucketlake.spark.read import reader
from bucketlake.spark.read.native import ROW_INDEX
from bucketlake.spark.read.placed import FILE
from bucketlake.spark.types import quoted
from bucketlake.spark.write.append_changes import PARTS_A_TASK
from bucketlake.spark.write.narrow import narrowed, widened
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

_TASK, _ORDER, _NUMBER = "__bucketlake_task", "__bucketlake_order", "__bucketlake_number"


@dataclass(frozen=True)
class Found:
    """New values: columns, then `FILE` and `ROW_INDEX`, one row for each row that changes. `numbers`: the files'
    numbers by `path_of`; `make`: gives the frame; `few`: the driver takes them all; `data`: they are there, and need no
    cast of Spark's."""

    numbers: Mapping[str, int]
    make: Callable[[], DataFrame]
    few: bool = False
    data: pa.Table | None = None


Find = Callable[[Store, Sequence[Touched]], Found]
Made = tuple[int, list[DataFile]]
"""The place of a group, and its new files."""


@dataclass(frozen=True)
class _Part:
    """Files that become new ones together, numbered in the order in which their values come. `place`: among the groups
    that are rewritten; `values`: an Arrow stream of theirs, None where they come by a shuffle."""

    place: int
    files: tuple[tuple[int, Touched], ...]
    values: bytes | None = None

    @property
    def size(self) -> int:
        """Bytes to read and to write."""
        return sum(touched.size for _, touched in self.files)


def replacer(spark: SparkSession, fields: Sequence[DataField], find: Find) -> Rewrite:
    """Rewrites files with new values of `fields` in rows that stay; on failure no file stays but those of killed tasks.

    Raises InvalidError for values that do not fit."""

    def rewrite(store: Store, groups: Sequence[Sequence[Touched]]) -> list[list[DataFile]]:
        parts, replacing = _parts(groups), _Replacing(store, tuple(fields))
        found = find(store, [touched for group in groups for touched in group])
        orders = _orders(store, parts, found.numbers)
        data = found.data
        if data is None:
            rows = found.make().select(*[quoted(item.name) for item in fields], FILE, ROW_INDEX)
            rows = conform(rows, fields, (FILE, ROW_INDEX), rules(spark, store.options))
            if not found.few:
                return _shuffled(spark, replacing, parts, rows, orders)
            data = collected(rows)
        parts = _with_values(parts, data.select([*(item.name for item in fields), FILE, ROW_INDEX]), orders)
        few = sum(touched.row_count for group in groups for touched in group) <= reader.SMALL_ROWS
        if few and sum(part.size for part in parts) <= reader.SMALL_BYTES:
            return replacing.here(parts)
        ensure_package(spark)
        tasks = pack(parts, parallelism(spark) * PARTS_A_TASK)
        return _in_order(store, parts, run_values(spark, tasks, replacing))

    return rewrite


def _parts(groups: Sequence[Sequence[Touched]]) -> list[_Part]:
    found, number = [], 0
    for place, group in enumerate(groups):
        found.append(_Part(place, tuple(enumerate(group, number))))
        number += len(group)
    return found


def _orders(store: Store, parts: Sequence[_Part], numbers: Mapping[str, int]) -> np.ndarray:
    """By a file's number among the values: its number among the parts."""
    orders = np.full(max(numbers.values(), default=-1) + 1, -1, np.int64)
    for part in parts:
        for order, touched in part.files:
            orders[numbers[path_of(store, touched.split, touched.file)]] = order
    return orders


def _with_values(parts: Sequence[_Part], data: pa.Table, orders: np.ndarray) -> list[_Part]:
    """The parts with the values that are for their files."""
    of_files = orders[data.column(FILE).to_numpy()]
    data = data.set_column(data.num_columns - 2, FILE, pa.array(of_files))
    data = data.take(pc.sort_indices(data, [(FILE, "ascending"), (ROW_INDEX, "ascending")])).combine_chunks()
    sorted_files = np.sort(of_files)
    found = []
    for part in parts:
        low, high = np.searchsorted(sorted_files, [part.files[0][0], part.files[-1][0] + 1]).tolist()
        found.append(replace(part, values=_stream(data.slice(low, high - low))))
    return found


def _stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def _opened(part: _Part) -> Iterator[pa.RecordBatch]:
    yield from pa.ipc.open_stream(part.values)


def _shuffled(
    spark: SparkSession, replacing: _Replacing, parts: Sequence[_Part], rows: DataFrame, orders: np.ndarray
) -> list[list[DataFile]]:
    """Rewrite parts whose values are the rows of a frame: each goes to the task that writes its file."""
    ensure_package(spark)
    tasks = [sorted(task, key=lambda part: part.place) for task in pack(parts, parallelism(spark) * PARTS_A_TASK)]
    owner = {order: number for number, task in enumerate(tasks) for part in task for order, _ in part.files}
    known = [number for number in range(len(orders)) if orders[number] >= 0]
    places = pa.table(
        {
            _NUMBER: pa.array(known, pa.int64()),
            _ORDER: pa.array(orders[known]),
            _TASK: pa.array([owner[order] for order in orders[known].tolist()], pa.int32()),
        }
    )
    placed = rows.join(F.broadcast(arrow_frame(spark, places)), F.col(FILE) == F.col(_NUMBER))
    placed = placed.repartitionById(len(tasks), _TASK).sortWithinPartitions(_ORDER, ROW_INDEX)
    names = [quoted(item.name) for item in replacing.fields]
    stage = _Shuffled(replacing, tuple(tuple(task) for task in tasks))
    return _in_order(
        replacing.store, parts, run_tasks(narrowed(placed.select(*names, _ORDER, ROW_INDEX), replacing.fields), stage)
    )


def _in_order(store: Store, parts: Sequence[_Part], results: Sequence[Made | BucketlakeError]) -> list[list[DataFile]]:
    """What tasks have written, by group; the first error that one says, and then no file stays."""
    made = [result for result in results if not isinstance(result, BucketlakeError)]
    for result in results:
        if isinstance(result, BucketlakeError):
            _remove(store, parts, made)
            raise result
    found = dict(made)
    missing = [part for part in parts if part.place not in found]
    if missing:
        _remove(store, parts, made)
        raise CorruptError(
            "no new values came for a file with rows that change", file=missing[0].files[0][1].file.file_name
        )
    return [found[part.place] for part in parts]


def _remove(store: Store, parts: Sequence[_Part], made: Sequence[Made]) -> None:
    by_place = {part.place: part.files[0][1].split for part in parts}
    for place, files in made:
        remove_files(store, by_place[place].partition, by_place[place].bucket, files)


@dataclass(frozen=True)
class _Replacing:
    """Writes parts that have their values; travels to tasks."""

    store: Store
    fields: tuple[DataField, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Made | BucketlakeError]:
        """The task: parts in, their new files out."""
        parts = [part for some in unpickled(batches) for part in some]
        yield from self.written((part, NewValues(self.fields, _opened(part))) for part in parts)

    def written(self, parts: Iterable[tuple[_Part, NewValues]]) -> list[Made | BucketlakeError]:
        """The new files of parts, or the error in their values; then none of them stays."""
        made: list[tuple[_Part, list[DataFile]]] = []
        try:
            for part, values in parts:
                made.append((part, rewrite_changed(self.store, part.files, values)))
        except BaseException as error:
            _remove(self.store, [part for part, _ in made], [(part.place, files) for part, files in made])
            if not is_answer(error):
                raise
            return [error]
        return [(part.place, files) for part, files in made]

    def here(self, parts: Sequence[_Part]) -> list[list[DataFile]]:
        """Write in this process, several parts at a time."""
        made = MadeFiles(self.store)

        def write(part: _Part) -> list[Made | BucketlakeError]:
            written = self.written([(part, NewValues(self.fields, _opened(part)))])
            split = part.files[0][1].split
            for one in written:
                if not isinstance(one, BucketlakeError):
                    made.add(split.partition, split.bucket, one[1])
            return written

        with all_or_nothing([made]):  # `parallel` ends when the last part does
            results = parallel(write, parts)
        return _in_order(self.store, parts, list(chain.from_iterable(results)))


@dataclass(frozen=True)
class _Shuffled:
    """Writes the parts of a task, whose values come in the files' order; travels to tasks."""

    replacing: _Replacing
    tasks: tuple[tuple[_Part, ...], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Made | BucketlakeError]:
        """The task: rows in, new files out."""
        fields = self.replacing.fields
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        values = NewValues(fields, (widened(batch, fields) for batch in chain([first], batches)))
        order = first.column(_ORDER)[0].as_py()
        task = next(task for task in self.tasks if any(order == number for part in task for number, _ in part.files))
        yield from self.replacing.written((part, values) for part in task)
