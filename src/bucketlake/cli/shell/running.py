"""Statements and their answers: run one after the other, rows written as they are asked for, errors with their place.

Start(…)                 the lake, made beside the prompt: Spark takes its time
Runner(start, console)   script(text) -> exit status; Ctrl-C cancels what runs, of Spark's jobs too
"""

from __future__ import annotations

import io
import os
import pydoc
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bucketlake.amounts import span_text
from bucketlake.cli.answer import Streamed
from bucketlake.cli.output import DONE, FAILED, Console
from bucketlake.cli.shell.cancelling import cancelled_with_us
from bucketlake.cli.text import clean, count, is_terminal, look_of
from bucketlake.cli.warehouse import open_warehouse
from bucketlake.env.env import SystemClock
from bucketlake.errors import BucketlakeError
from bucketlake.events import bus
from bucketlake.lazy import lazy
from bucketlake.traces import message

if TYPE_CHECKING:
    import pyarrow as pa

    from bucketlake.catalog import Catalog
    from bucketlake.cli import rows as row_output
    from bucketlake.spark import instants, quiet
    from bucketlake.spark import session as sessions
    from bucketlake.spark.session import Lake
    from bucketlake.sql.query import retold
    from bucketlake.sql.text import pieces as scripts
else:
    row_output = lazy("bucketlake.cli.rows")
    scripts = lazy("bucketlake.sql.text.pieces")
    retold = lazy("bucketlake.sql.query.retold")
    instants = lazy("bucketlake.spark.instants")
    quiet = lazy("bucketlake.spark.quiet")
    sessions = lazy("bucketlake.spark.session")
sql = lazy("bucketlake.sql")

SHOWN = 1000  # rows at the prompt
_SCREEN = (80, 24)
_MONTHS = re.compile(r"\binterval\b(?! (day|hour|minute|second))")


class Start:
    """A warehouse now, and its lake as soon as Spark is there. Errors: those of opening a warehouse."""

    def __init__(
        self, warehouse: str | None, database: str | None, settings: Mapping[str, str], verbose: bool = False
    ) -> None:
        self.catalog: Catalog = open_warehouse(warehouse, must_exist=False)
        self._database, self._settings, self._verbose = database, settings, verbose
        if database is not None:
            self.catalog.list_tables(database)  # NotFoundError
        # One of this thread's own is not seen by another; who has not loaded PySpark has none.
        loaded = sys.modules.get("pyspark.sql")
        self._session: Any = None if loaded is None else loaded.SparkSession.getActiveSession()
        self._made: Future[Lake] = Future()
        threading.Thread(target=self._make, daemon=True).start()

    def _make(self) -> None:
        try:
            lake = sessions.connect(
                self.catalog.warehouse,
                spark=self._session,
                front=sql.FRONT,
                options=self.catalog.options,
                verbose=self._verbose,
                settings=self._settings,
            )
            lake.current_database = self._database or lake.current_database
            self._made.set_result(lake)
        except BaseException as error:
            self._made.set_exception(error)

    @property
    def is_ready(self) -> bool:
        """Whether the lake is there."""
        return self._made.done()

    @property
    def database(self) -> str:
        """The database of names without one."""
        if self._made.done() and self._made.exception() is None:
            return self._made.result().current_database
        return self._database or "default"

    def lake(self) -> Lake:
        """The lake, waited for."""
        return self._made.result()


class Runner:
    """Runs statements. `limit`: rows of an answer that are written, None: all; `form`: how; `is_paged`: at a prompt."""

    def __init__(self, start: Start, console: Console, limit: int | None = None) -> None:
        self.start, self.console, self.limit = start, console, limit
        self.form = console.form
        self.is_timed = self.is_paged = self._is_told = self._has_run = False
        self._clock = SystemClock()
        self._committed: list[str] = []  # by the statement that runs, or ran last

    def cancelled(self) -> str:
        """What is said of a statement that was interrupted: what it had committed stays."""
        if not self._has_run:
            return "nothing ran"
        if not self._committed:
            return "the statement that ran was cancelled"
        return f"the statement that ran was cancelled after it had committed {', '.join(self._committed)}"

    def script(self, text: str, name: str = "") -> int:
        """Run the statements up to the first that fails, which is told; the exit status. KeyboardInterrupt when the
        running statement was cancelled."""
        try:
            pieces = scripts.pieces(text)
        except BucketlakeError as error:
            return self.failed(error, name)
        for piece in pieces:
            try:
                self._run(piece.text)
            except BrokenPipeError:
                raise  # whoever read the rows has gone, as `head` does
            except Exception as error:
                return self.failed(scripts.located(error, text, piece), name)
        return DONE

    def _run(self, statement: str) -> None:
        lake = self._lake()
        self._has_run = True
        began = self._clock.now_millis()
        with self._noting_commits(), cancelled_with_us(lake.spark):
            frame = lake.sql(statement)
            if not frame.columns:
                found, more = None, False
            else:
                try:
                    found, more = self._rows(frame)
                except Exception as error:
                    told = retold.of_rows(error, statement)
                    if told is None:
                        raise
                    raise told from error
        millis = self._clock.now_millis() - began  # not what is spent in the pager
        if found is not None:
            self._write(found)
        self._summary(found, more, millis)

    @contextmanager
    def _noting_commits(self) -> Iterator[None]:
        self._committed = []

        def note(event: bus.Event) -> None:
            if isinstance(event, bus.Committed):
                self._committed.append(f"snapshot {event.snapshot_id} of {event.name}")

        stop = bus.subscribe(note, bus.Committed)
        try:
            yield
        finally:
            stop()

    def _lake(self) -> Lake:
        if not self.start.is_ready and (self.is_paged or is_terminal(sys.stderr)):
            self.console.note("starting Spark …")
        lake = self.start.lake()
        if self.is_paged and not self._is_told:
            self._is_told = True
            self.console.note(quiet.announce(lake.spark, self.start.catalog.warehouse))
        return lake

    def _rows(self, frame: Any) -> tuple[pa.Table, bool]:
        """The rows that are written, and whether there are more."""
        wanted = frame if self.limit is None else frame.limit(self.limit + 1)
        if self.form == "table":
            wanted = instants.on_clocks(wanted)
        try:
            found = wanted.toArrow()
        except Exception as error:
            if "UNSUPPORTED" not in str(error):
                raise
            found = _texts(wanted).toArrow()
        more = self.limit is not None and found.num_rows > self.limit
        found = found.slice(0, self.limit) if more else found
        return found.rename_columns(_distinct(found.column_names)), more

    def _write(self, found: pa.Table) -> None:
        rows = Streamed(found.schema, iter(found.to_batches()))
        if not self.is_paged or self.form == "arrow":
            row_output.write(rows, self.form, sys.stdout)
            sys.stdout.flush()
            return
        text = io.StringIO()
        row_output.write(rows, self.form, text)
        _page(text.getvalue())

    def _summary(self, found: pa.Table | None, more: bool, millis: int) -> None:
        """What is said after an answer, to people."""
        if not self.is_paged and not self.is_timed:
            return
        told = "done" if found is None else count(found.num_rows, "row")
        if more:
            told = f"the first {told}: \\limit N shows more"
        self.console.note(f"{told} ({span_text(millis / 1000)})")

    def failed(self, error: Exception, name: str = "") -> int:
        """Tell an error: message, place, remedy; the exit status."""
        if self.console.is_json or (isinstance(error, BucketlakeError) and not hasattr(error, "place")):
            status = self.console.failure(error)
            note = getattr(error, "note", None)
            if note and not self.console.is_json:
                print(f"  in: {clean(note)}" + (f" ({clean(name)})" if name not in ("", "-e") else ""), file=sys.stderr)
            return status
        look = look_of(sys.stderr)
        lines = [clean(line) if "\t" not in line else line for line in message(error).splitlines()]
        print("\n".join([f"{look.style('error:', '1;31')} {lines[0]}", *lines[1:]]), file=sys.stderr)
        return FAILED


def _texts(frame: Any) -> Any:
    """Rows with texts for what Arrow has no type for: lengths of time in months. Others are written as ever."""
    names = [str(place) for place in range(len(frame.columns))]
    odd = [_MONTHS.search(field.dataType.simpleString()) is not None for field in frame.schema]
    cast = [
        f"CAST(`{name}` AS STRING)" if one or not any(odd) else f"`{name}`"
        for name, one in zip(names, odd, strict=True)
    ]
    return frame.toDF(*names).selectExpr(*cast).toDF(*frame.columns)


def _distinct(names: list[str]) -> list[str]:
    """Names of columns, each once: JSON and CSV know columns by them."""
    seen: set[str] = set()
    made = []
    for name in names:
        number = 1
        fresh = name
        while fresh in seen:
            number += 1
            fresh = f"{name}_{number}"
        seen.add(fresh)
        made.append(fresh)
    return made


def _page(text: str) -> None:
    """Show a text, by the user's pager where it is more than a screen."""
    lines = text.splitlines()
    try:
        size: tuple[int, int] = tuple(os.get_terminal_size())  # type: ignore[assignment]
    except OSError:
        size = _SCREEN
    if (len(lines) < size[1] - 2 and all(len(line) <= size[0] for line in lines)) or not is_terminal(sys.stdout):
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    # Wide tables are scrolled, short ones stay; the last line says how to leave.
    os.environ.setdefault("LESS", "-SRFX -Psarrow keys scroll, q leaves$")
    pydoc.pager(text)
