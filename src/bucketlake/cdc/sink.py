"""A micro-batch of events into tables: what it asks is checked, schemas follow, then each table's rows are one commit.

A batch that comes again, after a crash anywhere, completes what is missing: schemas that hold its columns are left as
they are, and a table that has its rows recognises them.

Spec: docs/cdc.md#batches
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import field, replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bucketlake.catalog import Catalog, parse_name
from bucketlake.cdc import formats, letters
from bucketlake.cdc.avro import Registry
from bucketlake.cdc.ddl import renames_in
from bucketlake.cdc.names import TableNames
from bucketlake.cdc.plan import Rules, TablePlan, plan_table
from bucketlake.cdc.rows import KIND, ORDER, REASON, converted, in_order, rows
from bucketlake.cdc.shapes import Shape, columns_of
from bucketlake.cdc.source import decoded, numbered
from bucketlake.env.object_store import open_beside
from bucketlake.errors import (
    AlreadyExistsError,
    BucketlakeError,
    ConflictError,
    InvalidError,
    NotFoundError,
    UnsupportedError,
    about,
)
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.stream.batches import BatchName
from bucketlake.spark.cluster import ensure_package
from bucketlake.spark.raised import brief_in_batch
from bucketlake.spark.stream.checkpoint import Checkpoint, Query
from bucketlake.spark.stream.lane import Lane
from bucketlake.spark.stream.sink import Written, write_batch
from bucketlake.spark.types import spark_schema
from bucketlake.spark.write.kept import decided, shaped
from bucketlake.table import Table
from bucketlake.values import dataclass

MOST_SHAPES = 20_000
BINDING = "bucketlake-cdc.json"
_ATTEMPTS = 20
_KINDS = {formats.INSERT: "insert", formats.UPDATE: "update", formats.DELETE: "delete"}
_DIVIDED = 4  # tables that are written at the same time


@dataclass(frozen=True, slots=True)
class TableDone:
    """What a batch made of one table. `rows`: changed, by "insert", "update" and "delete"; `snapshot`: None without
    rows; `changes`: of its schema, None where the table was made; `truncated`: its rows before were removed."""

    table: str
    rows: Mapping[str, int]
    snapshot: Snapshot | None
    changes: tuple[Any, ...] | None
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class SyncDone:
    """What became of a batch. `events`: all that it held; `dead_letters`: those that were put aside, into the table
    `letters`."""

    query: str
    batch: int
    events: int
    dead_letters: int
    tables: tuple[TableDone, ...]
    millis: int
    letters: str | None = None


@dataclass(frozen=True)
class Job:
    """A synchronisation. `target`: a table, or with `names` a database; `letters`: the table of dead letters;
    `binding`: what a checkpoint belongs to."""

    catalog: Catalog
    format: str
    target: str
    rules: Rules
    letters: str
    binding: Mapping[str, str]
    names: TableNames | None = None
    stops: bool = False  # at the first bad event
    truncates: bool = True
    divided: bool = False
    files: bool = False
    on_batch: Callable[[SyncDone], None] | None = None
    source_names: TableNames | None = None  # which source tables go to one table
    registry: Registry | None = None


@dataclass
class _Wanted:
    """What a batch holds for one target. `truncated`: where it was last; `parts`: of the source that its events are of,
    `cut` those of truncations."""

    shapes: list[Shape] = field(default_factory=list)
    statements: list[tuple[Any, str]] = field(default_factory=list)
    truncated: Any = None
    parts: set[str] = field(default_factory=set)
    cut: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class _Found:
    """What a batch holds. `odd`: shapes of events that cannot be rows, with what is wrong; `bad`: how many events are
    none, or odd; `events`: how many there are."""

    targets: Mapping[str, _Wanted]
    odd: Mapping[int, str]
    bad: int
    events: int


@dataclass
class CdcSink:
    """What `foreachBatch` calls. Picklable: on Spark Connect it runs beside the server."""

    job: Job
    query: Query
    _lanes: dict[str, Lane] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {"job": self.job, "query": replace(self.query, spark=None)}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Write one batch."""
        with brief_in_batch():
            self._follow(frame, number)

    def _follow(self, frame: DataFrame, number: int) -> None:
        clock = self.job.catalog.env.clock
        started = clock.now_millis()
        known = self.query.is_known
        batch = self.query.batch(number, first=True)
        if not known:
            with suppress(UnsupportedError):
                bind(self.query.folder, self.job.binding, number > 0)
            if self.job.files:  # it may come again, long after its files were found
                _check_files(self.query.folder, number)
        with ExitStack() as kept:
            events = decided(self._events(frame))
            found = self._discovered(events)
            plans, made = [], []
            for target, wanted in sorted(found.targets.items()):
                with about(table=target):
                    plans.append(self._plan(target, wanted))
            for plan in plans:
                with about(table=plan.target):
                    made.append(self._published(plan, found.targets[plan.target]))
            done, aside = self._written(kept, events, made, found, batch)
        if self.job.on_batch is not None:
            spent = clock.now_millis() - started
            self.job.on_batch(
                SyncDone(
                    batch.query, number, found.events, aside, tuple(done), spent, self.job.letters if aside else None
                )
            )
        elif aside:
            told = f"{aside} of {found.events} events of batch {number} could not be written"
            warnings.warn(f"cdc: {told}: SELECT reason, event FROM {self.job.letters}", stacklevel=3)

    # ---- what the batch holds

    def _events(self, frame: DataFrame) -> DataFrame:
        if self.job.registry is None:
            return formats.events(numbered(frame, self.job.files), self.job.format)
        ensure_package(frame.sparkSession)
        return formats.events(numbered(decoded(frame, self.job.registry), False), "debezium-json")

    def _discovered(self, events: DataFrame) -> _Found:
        """What the batch holds, by target. Everything that can be refused without its rows is."""
        part = F.concat_ws("/", "topic", F.col("partition").cast("string"))
        grouped = (
            events.where(F.col("what") != formats.NOTHING)
            .groupBy("what", "db", "tbl", "keys", "types", "names", "sql", "shape", "reason")
            .agg(
                F.min("at").alias("first"),
                F.max("at").alias("last"),
                F.count(F.lit(1)).alias("n"),
                F.collect_set(part).alias("parts"),
            )
            .limit(MOST_SHAPES + 1)
            .collect()
        )
        if len(grouped) > MOST_SHAPES:
            raise InvalidError(
                "too many shapes of events in one batch", most=MOST_SHAPES, remedy="take smaller batches"
            )
        bad = sum(int(row["n"]) for row in grouped if row["what"] == formats.BAD)
        found: dict[str, _Wanted] = {}
        odd: dict[int, str] = {}
        for row in sorted((row for row in grouped if row["what"] != formats.BAD), key=lambda row: tuple(row["first"])):
            fault = None
            target = self._target(row["db"], row["tbl"])
            if target == "":
                fault = "it does not say which table it is of, or one that the lake cannot have"
            elif target is not None:
                fault = _noticed(found.setdefault(target, _Wanted()), row, self.job.rules.modes)
            if fault is not None:
                odd[int(row["shape"])] = fault
                bad += int(row["n"])
        targets = {target: wanted for target, wanted in found.items() if self._matters(target, wanted)}
        return _Found(targets, odd, bad, sum(int(row["n"]) for row in grouped))

    def _matters(self, target: str, wanted: _Wanted) -> bool:
        if wanted.truncated is not None and self.job.truncates and len(wanted.parts | wanted.cut) > 1:
            raise InvalidError(
                "the order of a truncation and of rows in other partitions of the topic is not known",
                table=target,
                partitions=sorted(wanted.parts | wanted.cut),
                remedy="one partition for the table's events, or truncate='ignore'",
            )
        if not self.job.truncates:
            wanted.truncated = None
        return bool(wanted.shapes) or (
            (wanted.truncated is not None or bool(renames_in((text for _, text in wanted.statements), target)))
            and self.job.catalog.table_exists(target)
        )

    def _target(self, database: str | None, table: str | None) -> str | None:
        """The table in the lake for a source table; None where it is left out, "" where there can be none."""
        names = self.job.names
        if names is None:
            chosen = self.job.source_names
            return self.job.target if chosen is None or chosen.takes(database, table) else None
        if not names.takes(database, table):
            return None
        if not database or not table:
            return ""
        name = names.target(database, table)
        text = f"{self.job.target}.{name}" if re.fullmatch(r"\w+", name) else f"{self.job.target}.`{name}`"
        try:
            found = parse_name(text)
        except InvalidError:
            return ""
        return text if found.system is None and found.table == name else ""

    # ---- schemas

    def _plan(self, target: str, wanted: _Wanted) -> TablePlan:
        table = self.job.catalog.table(target) if self.job.catalog.table_exists(target) else None
        renames = renames_in((text for _, text in wanted.statements), target)
        if table is not None:
            table.for_writing()
        return plan_table(target, table, wanted.shapes, self.job.rules, renames)

    def _published(self, plan: TablePlan, wanted: _Wanted) -> TablePlan:
        """The plan with the table's schema as it is then; it is made, or changed, where it has to be."""
        catalog = self.job.catalog
        for _ in range(_ATTEMPTS):
            if plan.base is None:
                try:
                    catalog.create_table(plan.target, plan.schema)
                    return plan
                except AlreadyExistsError:
                    pass
            elif not plan.changes:
                return plan
            else:
                try:
                    catalog.table(plan.target).alter(*plan.changes)
                    return plan
                except (BucketlakeError, ConflictError):
                    if catalog.table(plan.target).schema.id == plan.base.id:
                        raise
            plan = self._plan(plan.target, wanted)  # somebody else made or changed the table meanwhile
        raise ConflictError("the table's schema keeps changing", table=plan.target, remedy="try again")

    # ---- rows

    def _written(
        self, kept: ExitStack, events: DataFrame, plans: Sequence[TablePlan], found: _Found, batch: BatchName
    ) -> tuple[list[TableDone], int]:
        """Write dead letters, then each table's rows; what became of the tables, and how many letters there are."""
        ready: list[tuple[TablePlan, DataFrame, dict[str, int]]] = []
        aside, faulty = found.bad, []
        if found.bad:
            named, what = F.concat_ws(".", "db", "tbl"), F.col("reason")
            for number, reason in found.odd.items():
                what = F.when(F.col("shape") == number, F.lit(reason)).otherwise(what)
            is_bad = F.col("what") == formats.BAD
            if found.odd:
                is_bad = is_bad | F.col("shape").isin(*found.odd)
            faulty.append(events.where(is_bad).withColumn("target", named).withColumn("reason", what))
        for plan in plans:
            taken, truncated = events, found.targets[plan.target].truncated
            if truncated is not None:
                taken = events.where(F.col("at") > _literal(events, truncated))
            if not plan.columns:
                if truncated is not None:
                    ready.append((plan, _no_rows(events, plan), {}))
                continue
            step = kept.enter_context(shaped(converted(taken, plan, self.job.rules)))
            frame = kept.enter_context(shaped(in_order(rows(step, plan.schema), plan.schema)))
            good = F.col(REASON).isNull()
            counted = step.groupBy("kind", good.alias("good")).count().collect()
            counts = {_KINDS[row["kind"]]: int(row["count"]) for row in counted if row["good"]}
            amount = sum(int(row["count"]) for row in counted if not row["good"])
            if amount:
                aside += amount
                wrong = step.where(~good)
                faulty.append(wrong.withColumn("reason", F.col(REASON)).withColumn("target", F.lit(plan.target)))
            ready.append((plan, frame.drop(ORDER), counts))
        self._put_aside(events, faulty, batch)
        return self._committed(ready, found, batch), aside

    def _put_aside(self, events: DataFrame, faulty: Sequence[DataFrame], batch: BatchName) -> None:
        if not faulty:
            return
        names = ["reason", "target", "topic", "partition", "offset", "file", "value", "at"]
        bad = reduce(DataFrame.unionByName, [one.select(*names) for one in faulty])
        made = letters.letters(bad, events, batch.query, batch.number, self.job.files)
        if self.job.stops:
            first = made.orderBy("file", "line", "topic", "partition", "offset").first()
            assert first is not None
            where = {name: first[name] for name in ("topic", "partition", "offset", "file", "line")}
            told = {"reason": first["reason"], "table": first["target"], **where}
            raise InvalidError(
                "an event cannot be written",
                **{name: value for name, value in told.items() if value not in (None, "")},
                remedy="on_error='dead-letter' puts such events aside",
            )
        table = letters.letter_table(self.job.catalog, self.job.letters)
        write_batch(table, made, batch, Written(), self._lane(table))

    def _committed(
        self, ready: Sequence[tuple[TablePlan, DataFrame, dict[str, int]]], found: _Found, batch: BatchName
    ) -> list[TableDone]:
        def write(item: tuple[TablePlan, DataFrame, dict[str, int]]) -> TableDone:
            plan, frame, counts = item
            truncated = found.targets[plan.target].truncated is not None
            table = self.job.catalog.table(plan.target)
            kinds = KIND if plan.schema.primary_keys else None
            rows_in = frame if kinds else frame.drop(KIND)
            how = Written("complete" if truncated else "append", kinds)
            snapshot = write_batch(table, rows_in, batch, how, self._lane(table))
            changes = None if plan.base is None else plan.changes
            return TableDone(plan.target, counts, snapshot, changes, truncated)

        if not self.job.divided or len(ready) < 2:
            return [write(item) for item in ready]
        with ThreadPoolExecutor(_DIVIDED) as pool:
            return list(pool.map(write, ready))

    def _lane(self, table: Table) -> Lane:
        return self._lanes.setdefault(table.name, Lane(2))


def _noticed(wanted: _Wanted, row: Any, modes: frozenset[str]) -> str | None:
    """Take in events of one shape; what is wrong with them, None where nothing is. Errors: UnsupportedError for types
    that no column can have."""
    wanted.parts.update(row["parts"])
    if row["what"] == formats.ROW:
        try:
            keys = tuple(str(key) for key in json.loads(row["keys"] or "[]"))
            columns = columns_of(row["names"], row["types"], modes)
        except (InvalidError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return "its schema cannot be read"
        if not columns:
            return "it has no column"
        if len({column.name for column in columns}) < len(columns):
            return "it names a column twice"
        if any(shape.number == row["shape"] for shape in wanted.shapes):
            raise InvalidError("two shapes of events have one number", remedy="take smaller batches")
        wanted.shapes.append(Shape(int(row["shape"]), row["db"], row["tbl"], columns, keys))
    elif row["what"] == formats.TRUNCATE:
        wanted.truncated = max(wanted.truncated or row["last"], row["last"], key=tuple)
        wanted.cut.update(row["parts"])
    elif row["sql"]:
        wanted.statements.append((row["first"], row["sql"]))
    return None


def _check_files(folder: Checkpoint, number: int) -> None:
    """Raise NotFoundError where files of a batch went before they were read: it would be written without their events,
    and the job would go on behind them."""
    lost = folder.lost_files(number)
    if lost:
        raise NotFoundError(
            "files of events are gone that a batch has still to read",
            checkpoint=folder.folder,
            batch=number,
            files=lost[:10],
            count=len(lost),
            remedy="put them back; empty files of these names stand for events that are in the tables already, or that "
            "nobody needs",
        )


def bind(checkpoint: Checkpoint, binding: Mapping[str, str], began: bool) -> None:
    """Note in a checkpoint what it is of; InvalidError where it is of something else. `began`: it has batches."""
    wanted = json.dumps(dict(binding), sort_keys=True)
    try:
        own = checkpoint.read(BINDING).decode(errors="replace")
    except NotFoundError:
        if began:
            raise InvalidError(
                "the checkpoint is of another query", checkpoint=checkpoint.folder, remedy="use a checkpoint of its own"
            ) from None
        env, root = open_beside(checkpoint.env, checkpoint.folder)
        env.storage.put_if_absent(f"{root}/{BINDING}", wanted.encode())
        own = checkpoint.read(BINDING).decode(errors="replace")
    if own != wanted:
        raise InvalidError(
            "the checkpoint is of another synchronisation",
            checkpoint=checkpoint.folder,
            of=own,
            wanted=dict(binding),
            remedy="use a checkpoint of its own",
        )


def _literal(events: DataFrame, at: Any) -> Any:
    """A position as a column."""
    kind = events.schema["at"].dataType
    values = [F.lit(at[item.name]).cast(item.dataType).alias(item.name) for item in kind.fields]
    return F.struct(*values)


def _no_rows(events: DataFrame, plan: TablePlan) -> DataFrame:
    """No rows of a table that is only truncated."""
    schema = spark_schema(plan.schema.fields).add(KIND, "string")
    return events.sparkSession.createDataFrame([], schema)
