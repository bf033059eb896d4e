"""What the executors of a session are: how many tasks run at once, and whether they can import this package.

Executors of `local[…]` on classic Spark are this machine. All others are asked once an application; where the package
is missing or another, it is sent along; where something that it needs is missing, an error says what.
"""

from __future__ import annotations

import atexit
import os
import pickle
import re
import sys
import weakref
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, TypeGuard, TypeVar, cast
from zlib import crc32

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bucketlake.env.env import new_scratch_folder, program
from bucketlake.env.local import LocalStorage
from bucketlake.errors import BucketlakeError, StorageError, UnsupportedError
from bucketlake.ops.buckets.write_plan import MOST_TASKS
from bucketlake.ops.table.made import discard
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.store import Store
from bucketlake.spark.actions import to_arrow
from bucketlake.spark.arrow_rows import arrow_frame, mapped
from bucketlake.spark.types import row_bytes
from bucketlake.values import dataclass

REQUIRED = ("fastavro", "numpy", "obstore", "polars", "pyarrow", "pyroaring", "sqlglot")


class _Sized(Protocol):
    @property
    def size(self) -> int: ...


S = TypeVar("S", bound=_Sized)
_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")
_USUAL_MEMORY = 4 << 30
_MAPPED_SHARE = 16  # part of what a process may map that buffers rows: libraries map much that they never use
_LEAST_BUFFER = 16 << 20
_BUFFER_SHARE = 8  # part of a core's memory that buffers rows; sorting takes twice as much again

_PARALLELISM: weakref.WeakKeyDictionary[SparkSession, int] = weakref.WeakKeyDictionary()
_READY: weakref.WeakSet[Any] = weakref.WeakSet()  # by `_application`

_SMALL = 1 << 20  # bytes
_CARRIED = 4 << 20  # bytes of values that every task is sent, rather than its own by a shuffle
_MOST_NUMBERS = 1 << 22  # which Spark counts in some milliseconds
# Bytes for which Spark takes a row of a range, of values with numbers, of both joined, and of values.
_OF_RANGE, _NUMBERED, _JOINED, _VALUE = 8, 116, 124, 108
ArrowMap = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Action = Callable[[Iterator[pa.RecordBatch]], Iterator[Any]]
A = TypeVar("A", bound=Action)


def parallelism(spark: SparkSession) -> int:
    """How many tasks the session runs at once: on a cluster as many as the executors that are there by now, and with
    dynamic allocation those that there may be, where that is limited."""
    known = _PARALLELISM.get(spark)
    if known is None:
        local = _LOCAL.fullmatch(_master(spark))
        if local and local[1] != "*":
            known = int(local[1] or 1)
        elif is_connect(spark):
            row = spark.range(0, 1 << 16).select(F.spark_partition_id().alias("p")).agg(F.max("p")).collect()[0]
            known = int(row[0]) + 1
        else:
            known = int(spark.sparkContext.defaultParallelism)
        known = max(known // _cores_a_task(spark.conf.get), 1)
        may_be = tasks_to_come(spark.conf.get)
        if may_be is not None:
            return max(known, may_be)
        if local or is_connect(spark):  # others begin with few executors, or none, and more come
            _PARALLELISM[spark] = known
    return known


def tasks_to_come(setting: Callable[[str, str], str | None]) -> int | None:
    """How many tasks may run at once with dynamic allocation, 0 where there is no limit; None without it."""
    if str(setting("spark.dynamicAllocation.enabled", "false")).lower() != "true":
        return None
    cores = int(setting("spark.executor.cores", "1") or 1) // _cores_a_task(setting)
    most = int(setting("spark.dynamicAllocation.maxExecutors", "0") or 0) * max(cores, 1)
    return most if most <= MOST_TASKS else 0


def _cores_a_task(setting: Callable[[str, str], str | None]) -> int:
    return max(int(setting("spark.task.cpus", "1") or 1), 1)


def is_connect(spark: SparkSession) -> bool:
    """Whether the session talks to a Spark Connect server."""
    return ".connect." in type(spark).__module__


def runs_here(spark: SparkSession) -> bool:
    """Whether the tasks are known to run on this machine."""
    return not is_connect(spark) and bool(_LOCAL.fullmatch(_master(spark)))


def _application(spark: SparkSession) -> Any:
    """What the executors are of: a classic session's context, since each micro-batch of a stream comes with a session
    of its own; a Connect session itself, for what is sent to its tasks is its own."""
    return spark if is_connect(spark) else spark.sparkContext


def ensure_package(spark: SparkSession) -> None:
    """Make sure that tasks can import this package, sending it along where they cannot.

    Raises UnsupportedError naming the packages that executors lack.
    """
    if _application(spark) in _READY:
        return
    local = runs_here(spark)
    if not local or not _is_this_python(spark):
        own = digest()
        missing, found = _ask(spark)
        if found != own:
            _ship(spark)
            missing, found = _ask(spark)
        if missing:
            raise UnsupportedError(
                "executors lack Python packages",
                missing=missing,
                remedy="install them there (pip install), or set PYSPARK_PYTHON to an environment that has them"
                + (f", before the session starts: {sys.executable}" if local else ""),
            )
        if found != own:
            raise UnsupportedError(
                "executors import another version of the package bucketlake than the driver",
                remedy="remove it there, or install the driver's version",
            )
    _READY.add(_application(spark))


def run_tasks(frame: DataFrame, action: Action) -> list[Any]:
    """Run `action` once over each partition's batches and collect the picklable values that it yields.

    Exactly one Spark action: effects of the tasks that it counts happen once; retries leave orphans at most.
    """

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for value in action(batches):
            yield pa.record_batch({"value": pa.array([pickle.dumps(value)], pa.binary())})

    table = to_arrow(mapped(frame, task, "value binary"))
    return [pickle.loads(value) for chunk in table.column("value").chunks for value in chunk.to_pylist()]


def is_answer(error: BaseException) -> TypeGuard[BucketlakeError]:
    """Whether a task answers with this error: one of ours, which another try would not mend. With those of the storage,
    and all others, it fails, and Spark tries it again."""
    return isinstance(error, BucketlakeError) and not isinstance(error, StorageError)


def messages_of(store: Store, results: Sequence[Any]) -> list[CommitMessage]:
    """The messages, and those of lists, among what tasks answered. The first error with which one answered is raised;
    then no file of the others stays."""
    lists = [result if isinstance(result, list) else [result] for result in results]
    messages = [found for found in chain.from_iterable(lists) if isinstance(found, CommitMessage)]
    failed = next((result for result in results if isinstance(result, BucketlakeError)), None)
    if failed is not None:
        discard(store, messages)
        raise failed
    return messages


def run_values(spark: SparkSession, values: Sequence[Any], action: Action) -> list[Any]:
    """`run_tasks` with a task for each picklable value, which gets it by `unpickled(batches)`."""
    return run_tasks(*_tasks(spark, values, action))


def made_of(spark: SparkSession, values: Sequence[Any], action: ArrowMap, schema: T.StructType | str) -> DataFrame:
    """The rows that `action` makes of each picklable value, in a task of its own, which gets it by `unpickled`."""
    frame, task = _tasks(spark, values, action)
    return frame.mapInArrow(task, schema)


def _tasks(spark: SparkSession, values: Sequence[Any], action: A) -> tuple[DataFrame, A]:
    """A frame of a partition for each value, and what makes of it what `action` makes of a batch with that value.

    Few bytes travel with what tasks do, to all of them: a shuffle that gives each its own is a job of Spark's before
    the first task begins."""
    pickled = [pickle.dumps(value) for value in values]
    count = max(len(values), 1)
    if sum(map(len, pickled)) <= _CARRIED:
        return spark.range(0, len(values), 1, count), cast("A", _Numbered(tuple(pickled), action))
    data = pa.table({"id": pa.array(range(count), pa.int32()), "value": pa.array(pickled, pa.binary())})
    return arrow_frame(spark, data).repartitionById(count, "id").select("value"), action


@dataclass(frozen=True)
class _Numbered:
    """`action` upon the values whose numbers come."""

    values: tuple[bytes, ...]
    action: Action

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        yield from self.action(self._chosen(batches))

    def _chosen(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            values = [self.values[number] for number in batch.column(0).to_pylist()]
            yield pa.record_batch({"value": pa.array(values, pa.binary())})


def rows_made(spark: SparkSession, values: list[Any], action: ArrowMap, schema: T.StructType, rows: int) -> DataFrame:
    """The rows that `action` makes of each value, in a task of its own, for queries; `rows`: about how many.

    Spark would take rows of Python's for as many as there are values, and send all of a large table to every task where
    it is joined. What tells it better is a join of the values with a range: sides of known sizes, as large as both
    multiplied. Few rows are left to look small, and come sooner.
    """
    count, size = max(len(values), 1), rows * row_bytes(schema)
    step = min(size * _JOINED // (_OF_RANGE * _NUMBERED * _VALUE * count**2), _MOST_NUMBERS // count)
    if size < _SMALL or step < 1:
        return made_of(spark, values, action, schema)
    numbers = pa.array([place * step for place in range(len(values))], pa.int64())
    known = arrow_frame(spark, pa.table({"id": numbers, "value": [pickle.dumps(value) for value in values]}))
    placed = spark.range(0, count * step, 1, count).join(F.broadcast(known), "id")
    return placed.select("value").mapInArrow(action, schema)


def pack(items: Sequence[S], tasks: int) -> list[list[S]]:
    """At most `tasks` groups of about the same bytes, each item whole; one empty group of nothing."""
    groups: list[list[S]] = [[] for _ in range(min(max(tasks, 1), len(items)) or 1)]
    sizes = [0] * len(groups)
    for item in sorted(items, key=lambda item: item.size, reverse=True):
        lightest = sizes.index(min(sizes))
        groups[lightest].append(item)
        sizes[lightest] += item.size + 1
    return groups


def unpickled(batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
    """The values that a task of `run_values`, `made_of` or `rows_made` got."""
    for batch in batches:
        for value in batch.column(0).to_pylist():
            yield pickle.loads(value)


@cache
def digest() -> str:
    """A checksum over the package's modules, as this process found them when it first asked."""
    total = 0
    for path in sorted(_sources()):
        total = crc32(path.read_bytes(), crc32(str(path.relative_to(_root())).encode(), total))
    return f"{total:08x}"


def memory_bytes() -> int:
    """Memory of this machine, or of the container that this process runs in."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        total = _USUAL_MEMORY
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdigit() else total


def address_space() -> int | None:
    """Bytes that this process may map, as Spark limits its Python workers; None where nothing does."""
    try:
        resource = import_module("resource")
    except ImportError:  # no such limits on this system
        return None
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if soft == resource.RLIM_INFINITY else int(soft)


def roomy(store: Store) -> Store:
    """The store with a write buffer of twice the usual size, where the machine has the memory and the table does not
    say how large it should be; with a smaller one where Spark gives its Python workers less
    (`spark.executor.pyspark.memory`).

    A buffer that holds all rows of a task spares it the spill, which costs as much as encoding the files. A task's
    memory stays below three times `write-buffer-size` and 300 MB (docs/spec/writing.md#memory).
    """
    if store.options.is_set("write-buffer-size"):
        return store
    usual = store.options.get("write-buffer-size")
    room = memory_bytes() // (_BUFFER_SHARE * (os.cpu_count() or 1))
    size = max(usual, min(room, 2 * usual))
    limit = address_space()
    if limit is not None:
        size = min(size, max(limit // _MAPPED_SHARE, _LEAST_BUFFER))
    return store.with_options({"write-buffer-size": f"{size} b"})


def _root() -> Path:
    return Path(__file__).parents[1]


def _sources() -> list[Path]:
    return [path for path in _root().rglob("*.py") if "__pycache__" not in path.parts]


def _ask(spark: SparkSession) -> tuple[list[str], str | None]:
    """Which required packages some task lacks, and the digest of the package where all tasks have the same."""
    required = REQUIRED

    def answer() -> tuple[list[str], str | None]:
        missing = []
        for name in required:
            try:
                import_module(name)
            except ImportError:
                missing.append(name)
        if missing:
            return missing, None
        try:
            return [], str(import_module("bucketlake.spark.cluster").digest_here())
        except (ImportError, AttributeError):
            return [], None

    # By no Arrow, which may be what they lack.
    ask = F.udf(lambda _: pickle.dumps(answer()), "binary", useArrow=False)
    rows = spark.range(0, 64, 1, parallelism(spark)).select(ask("id")).collect()
    values = [pickle.loads(bytes(row[0])) for row in rows]
    missing = sorted({name for names, _ in values for name in names})
    digests = {found for _, found in values}
    return missing, digests.pop() if len(digests) == 1 else None


def digest_here() -> str:
    """The digest of the package that this process imported, from its folder or from the zip that it came in."""
    if _root().is_dir():
        return digest()
    return _root().parent.stem.removeprefix("bucketlake-")


def _ship(spark: SparkSession) -> None:
    folder = new_scratch_folder()
    path = f"{folder}/bucketlake-{digest()}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in _sources():
            archive.write(source, f"bucketlake/{source.relative_to(_root())}")
    spark.addArtifacts(path, pyfile=True)
    atexit.register(LocalStorage().delete_tree, folder)  # executors that start later fetch it from here


def _master(spark: SparkSession) -> str:
    return str(spark.conf.get("spark.master", ""))


def _is_this_python(spark: SparkSession) -> bool:
    """Whether Python workers of a session on this machine run in this process's environment, for all that is known.

    A session that was made without a word of it takes the `python3` that the shell finds: it is told of this one.
    """
    context = spark.sparkContext
    workers = program(str(context.pythonExec))
    if workers is not None and Path(workers).parent == Path(sys.executable).parent:
        return True
    if "PYSPARK_PYTHON" in os.environ:
        return False
    context.pythonExec = sys.executable
    return True


def use_this_python() -> None:
    """Let Python workers of a local session run on the interpreter of this process, unless the user chose one."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
