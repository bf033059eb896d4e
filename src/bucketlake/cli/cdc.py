"""`cdc`: a source database's events, from Kafka or files, into tables that follow it, until Ctrl-C."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from bucketlake.cli.answer import UsageError, columns, document
from bucketlake.cli.command import CHANGING, add
from bucketlake.cli.grammar import Argument, Group, Option
from bucketlake.cli.text import clean, count, is_terminal
from bucketlake.cli.warehouse import InWarehouse, pairs_of
from bucketlake.lazy import lazy

if TYPE_CHECKING:
    from bucketlake import cdc
    from bucketlake.cdc.sink import SyncDone
    from bucketlake.cli.shell import running
    from bucketlake.ops.check import remedy
    from bucketlake.spark.session import Lake
else:
    cdc = lazy("bucketlake.cdc")
    remedy = lazy("bucketlake.ops.check.remedy")
    running = lazy("bucketlake.cli.shell.running")


class Sync(InWarehouse):
    """What both commands take."""

    format: Annotated[str, Option("--format", metavar="FORMAT", help="debezium-json, canal-json, maxwell-json, …")]
    checkpoint: Annotated[
        str,
        Option("--checkpoint", metavar="FOLDER", help="Where this job keeps its position; no other job may use it."),
    ]
    kafka: Annotated[str | None, Option("--kafka", metavar="SERVERS", help="host:port, separated by commas.")] = None
    topic: Annotated[
        str | None, Option("--topic", metavar="TOPICS", help="Separated by commas, or pattern:REGULAR-EXPRESSION.")
    ] = None
    files: Annotated[str | None, Option("--files", metavar="FOLDER", help="Instead of Kafka: files of lines.")] = None
    registry: Annotated[str | None, Option("--registry", metavar="URL", help="The registry of Avro schemas.")] = None
    source_option: Annotated[
        list[str] | None, Option("--source-option", metavar="KEY=VALUE", help="An option of Spark's source.")
    ] = None
    primary_keys: Annotated[
        str | None, Option("--primary-keys", "--key", "-k", metavar="COLUMNS", help="Key of new tables.")
    ] = None
    partition_keys: Annotated[
        str | None,
        Option("--partition-keys", "--partition-by", "-p", metavar="COLUMNS", help="Partition columns of new tables."),
    ] = None
    computed_column: Annotated[
        list[str] | None, Option("--computed-column", metavar="NAME=FUNCTION(COLUMN)", help="A column made of another.")
    ] = None
    metadata_column: Annotated[
        list[str] | None, Option("--metadata-column", metavar="KIND", help="topic, offset, op_ts, …")
    ] = None
    metadata_column_prefix: Annotated[
        str | None, Option("--metadata-column-prefix", metavar="TEXT", help="In front of their names.")
    ] = None
    type_mapping: Annotated[str | None, Option("--type-mapping", metavar="MODES", help="to-string, …")] = None
    table_option: Annotated[
        list[str] | None, Option("--table-option", metavar="KEY=VALUE", help="An option of the tables.")
    ] = None
    including_tables: Annotated[
        str | None, Option("--including-tables", metavar="PATTERN", help="Source tables, whole names.")
    ] = None
    excluding_tables: Annotated[
        str | None, Option("--excluding-tables", metavar="PATTERN", help="Source tables left out.")
    ] = None
    on_error: Annotated[str | None, Option("--on-error", metavar="WHAT", help="dead-letter or stop.")] = None
    dead_letters: Annotated[str | None, Option("--dead-letters", metavar="TABLE", help="Table for bad events.")] = None
    every: Annotated[str, Option("--every", metavar="TIME", help="Time between batches.")] = "5 seconds"
    once: Annotated[bool, Option("--once", help="Take what is there now, then end.")] = False

    def kept(self) -> str:
        """Batches that are committed stay; the checkpoint goes on from there."""
        return "batches that were told are committed"

    def source(self) -> cdc.Source:
        """Where events come from; UsageError unless one place is said."""
        options = pairs_of(self.source_option, "--source-option")
        if (self.kafka is None) == (self.files is None):
            raise UsageError("where do events come from?", remedy="give --kafka and --topic, or --files")
        if self.files is not None:
            return cdc.files(self.files, self.format, **options)
        if self.topic is None:
            raise UsageError("which topics?", remedy="--topic NAMES")
        return cdc.kafka(str(self.kafka), self.topic, self.format, registry=self.registry, **options)

    def how(self) -> dict[str, Any]:
        """The arguments that were said, as `cdc.sync_table` names them."""
        said: dict[str, Any] = {name: getattr(self, name, None) for name in self._names()}
        said["computed_columns"] = self.computed_column
        said["metadata_columns"] = self.metadata_column
        said["table_options"] = pairs_of(self.table_option, "--table-option") if self.table_option else None
        trigger = {"availableNow": True} if self.once else {"processingTime": self.every}
        return {"trigger": trigger, **{name: value for name, value in said.items() if value not in (None, False)}}

    def _names(self) -> Sequence[str]:
        return (
            *("primary_keys", "partition_keys", "metadata_column_prefix", "type_mapping", "including_tables"),
            *("excluding_tables", "on_error", "dead_letters"),
        )


class SyncTable(Sync):
    """What `cdc table` takes."""

    table: Annotated[str, Argument(metavar="TABLE", help="db.table, or table of the database default.")]


class SyncDatabase(Sync):
    """What `cdc database` takes."""

    database: Annotated[str, Argument(metavar="DATABASE", help="The lake's database; it must exist.")]
    table_prefix: Annotated[
        str | None, Option("--table-prefix", metavar="TEXT", help="In front of table names here.")
    ] = None
    table_suffix: Annotated[str | None, Option("--table-suffix", metavar="TEXT", help="Behind them.")] = None
    table_map: Annotated[
        list[str] | None, Option("--table-map", metavar="SOURCE=NAME", help="A table's name here.")
    ] = None
    mode: Annotated[str | None, Option("--mode", metavar="MODE", help="combined or divided.")] = None

    def _names(self) -> Sequence[str]:
        return (*super()._names(), "table_prefix", "table_suffix", "mode")

    def how(self) -> dict[str, Any]:
        """As above, with names of tables."""
        mapping = pairs_of(self.table_map, "--table-map") if self.table_map else None
        return {**super().how(), **({"table_mapping": mapping} if mapping else {})}


def table(given: SyncTable) -> None:
    """Follow a source with a table until Ctrl-C. With --once, take what is there and end.

    The table is made where there is none; new columns and wider types follow. A batch is told by a line, or object.
    """
    _run(given, given.table, "sync_table")


def database(given: SyncDatabase) -> None:
    """Follow a source with a database's tables until Ctrl-C. New tables are created on the way."""
    _run(given, given.database, "sync_database")


def _run(given: Sync, target: str, call: str) -> None:
    source = given.source()
    lake = _lake(given)
    came, told, unread = threading.Event(), threading.Event(), list[BrokenPipeError]()

    def tell(done: SyncDone) -> None:
        came.set()
        try:
            print(document(_object(done)) if given.json else _line(given, done), flush=True)
        except BrokenPipeError as error:  # the batch is committed: its query has nothing to do with it
            unread.append(error)
            told.set()

    query = getattr(cdc, call)(lake, source, target, given.checkpoint, on_batch=tell, **given.how())
    given.console.note(f"{source.what} into {target}" + ("" if given.once else "; Ctrl-C ends it"))
    ended, errors = threading.Event(), list[Exception]()
    threading.Thread(target=_await, args=(query, ended, errors), daemon=True).start()
    # With an end of its own it has not come to that: the status says so, as any command's that a signal ends.
    before = None if given.once else signal.signal(signal.SIGTERM, lambda *_: told.set())
    try:
        while not told.is_set() and not ended.wait(1):
            pass
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
        by_itself = ended.is_set()
        if not by_itself:
            query.stop()
    for error in (*unread, *(errors if by_itself else ())):
        raise error
    if given.once and not came.is_set():
        given.console.note("nothing new")


def _await(query: Any, ended: threading.Event, errors: list[Exception]) -> None:
    """Wait for a query's end beside the main thread: Ctrl-C in the midst of Py4J would be told by traces."""
    try:
        query.awaitTermination()
    except Exception as error:
        errors.append(error)
    finally:
        ended.set()


def _lake(given: Sync) -> Lake:
    """The warehouse, on a Spark that is started beside: its client in this thread would tell Ctrl-C by traces."""
    start = running.Start(given.warehouse, None, {})
    if is_terminal(sys.stderr):
        given.console.note("starting Spark …")
    return start.lake()


def _object(done: SyncDone) -> Mapping[str, Any]:
    tables = [
        {
            "table": item.table,
            "new": item.changes is None,
            "rows": dict(item.rows),
            "snapshot": None if item.snapshot is None else item.snapshot.id,
        }
        for item in done.tables
    ]
    return {
        "batch": done.batch,
        "events": done.events,
        "dead_letters": done.dead_letters,
        "letters": done.letters,
        "tables": tables,
        "millis": done.millis,
    }


def _line(given: Sync, done: SyncDone) -> str:
    parts = [
        f"{item.table}{'' if item.changes is not None else ' (new table)'} "
        + ", ".join(count(rows, kind) for kind, rows in item.rows.items())
        for item in done.tables
    ]
    bad = ""
    if done.letters is not None:
        look = remedy.shell_line("cat", given.place, (done.letters,))
        bad = f"; {count(done.dead_letters, 'dead letter')}: {look}"
    return clean(
        f"batch {done.batch}: {count(done.events, 'event')}; {'; '.join(parts) or 'no rows'}{bad}; {done.millis:,} ms"
    )


def register(app: Group) -> None:
    """Register the family."""
    group = Group("cdc", "A source database's changes into tables that follow it.", CHANGING)
    batches = columns(
        batch="id: its number",
        events="count: what it held",
        dead_letters="count: events that were put aside",
        letters="text: the table that they are in",
        tables="json: each table: whether this batch made it (new), its changes, its snapshot",
        millis="count: how long it took",
    )
    add(group, table, answers=("rows", batches))
    add(group, database, answers=("rows", batches))
    app.add_command(group)
