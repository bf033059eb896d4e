"""`cat`, `diff`, `export`: rows of a table to the terminal, to programs, to files; without Spark, in bounded memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import pyarrow as pa

from bucketlake.amounts import size_text
from bucketlake.cli import files
from bucketlake.cli.answer import Facts, Streamed, columns
from bucketlake.cli.command import READING, WithFormat, WithJson, add
from bucketlake.cli.grammar import Argument, Group, Option
from bucketlake.cli.progress import Drawn
from bucketlake.cli.text import clean, count, is_terminal
from bucketlake.cli.warehouse import OfTable, Travel, Where, numbered
from bucketlake.errors import NotFoundError
from bucketlake.lazy import lazy
from bucketlake.ops.progress import Meter

if TYPE_CHECKING:
    from bucketlake.predicate import evaluate
    from bucketlake.table import Table
    from bucketlake.types import model
    from bucketlake.ui import difference
else:
    evaluate = lazy("bucketlake.predicate.evaluate")
    model = lazy("bucketlake.types.model")
    difference = lazy("bucketlake.ui.difference")

KEYS = 20_000  # of a difference, looked up at once
SCREEN = 100  # rows that a terminal shows where nothing else is said


class Reading(OfTable, Where):
    """Which rows of a table, and which columns."""

    columns: Annotated[
        str | None, Option("--columns", "-c", metavar="NAMES", help="Only these, separated by commas.")
    ] = None
    limit: Annotated[int | None, Option("--limit", "-n", min=0, help="At most this many rows; 0: all.")] = None

    def names(self) -> list[str] | None:
        """The columns asked for; None: all."""
        return None if self.columns is None else [one.strip() for one in self.columns.split(",")]


class Cat(Reading, Travel, WithFormat):
    """What `cat` takes."""

    output: Annotated[
        str | None,
        Option("--output", "-o", metavar="FILE", help="To a file: .parquet, .csv, .json, .jsonl, .arrow."),
    ] = None
    overwrite: Annotated[bool, Option("--overwrite", help="Replace an existing file.")] = False

    def check(self) -> None:
        """As usual, but that files have formats of their own."""
        if self.output is None:
            super().check()


def cat(given: Cat) -> Streamed | Facts:
    """Show the rows of a table, or of a system table.

    A system table stands behind the table's name: 'db.t$files'.
    A terminal shows 100 rows unless --limit says otherwise; files and pipes get all.
    """
    found = given.opened()
    if given.output is not None:
        shape = files.format_of(given.output, given.format if given.format in files.FILE_FORMATS else None)
        target = files.Target(given.output, shape, given.catalog.options, given.overwrite)
        return _saved(_rows(found, given, given.travel()), target, _stored(found, given.travel()))
    cut = given.limit is None and given.console.form == "table" and is_terminal(sys.stdout)
    rows = _rows(found, given, given.travel(), SCREEN + 1 if cut else given.limit)
    return _first_screen(given, rows) if cut else rows


def _first_screen(given: Cat, rows: Streamed) -> Streamed:
    found = pa.Table.from_batches(list(rows.batches), rows.schema)
    if found.num_rows > SCREEN:
        given.console.note(f"the first {SCREEN} rows; --limit 0 shows all")
    return Streamed(rows.schema, iter(found.slice(0, SCREEN).combine_chunks().to_batches()))


def _rows(found: Table, given: Reading, options: dict[str, str], limit: int | None = None) -> Streamed:
    """The rows asked for. A limit of 0 is none."""
    names = given.names()
    limit = given.limit if limit is None else limit
    read, _ = found.as_of(options)
    chosen = read.schema.fields if names is None else read.schema.select(names)
    schema = model.arrow_schema(chosen)
    batches = found.to_batches(given.where, names, **options)
    return Streamed(schema, _limited(batches, limit) if limit else batches)


def _limited(batches: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.slice(0, limit)
        limit -= batch.num_rows
        if limit <= 0:
            return


# ---- the difference of two snapshots


class Diff(Reading, WithFormat):
    """What `diff` takes."""

    start: Annotated[str, Argument(metavar="FROM", help="A snapshot's id or a tag's name.")]
    end: Annotated[str | None, Argument(metavar="[TO]", help="A later one; the newest snapshot by default.")] = None


def diff(given: Diff) -> Streamed:
    """Show the rows that differ between two snapshots or tags.

    Each with its kind: +I of new rows, -U and +U of changed ones, before and after, -D of deleted ones. Of append
    tables, and those of merge engine first-row, the rows of new files.
    """
    table = given.plain_table()
    store = table.store
    newest = store.latest_snapshot_id()
    if newest is None:
        raise NotFoundError("nothing was committed yet", table=given.table)
    ends = [given.start, str(newest) if given.end is None else given.end]
    tags = [store.find_tag(one) for one in ends]
    key = "scan.tag-name"
    if None in tags:  # two tags may hold what is no snapshot any more; a tag beside an id must have one
        pairs = zip(ends, tags, strict=True)
        ends = [one if tag is None or numbered(store, one) else str(tag.id) for one, tag in pairs]
        key = "scan.snapshot-id"
    span = ",".join(ends)
    if difference.has_changes(table) and not table.options.get("chain-table.enabled"):
        return _changes(table, given, difference.changed_rows(table, span, [{key: one} for one in ends], KEYS))
    options = {"incremental-between": span, "incremental-between-scan-mode": "diff"}
    names = given.names()
    given.columns = None if names is None else ",".join(["rowkind", *(one for one in names if one != "rowkind")])
    return _rows(given.catalog.table(given.named("audit_log")), given, options)


def _changes(table: Table, given: Diff, parts: Iterator[tuple[int, pa.Table]]) -> Streamed:
    names = [one for one in given.names() or table.schema.field_names if one != "rowkind"]
    schema = pa.schema([pa.field("rowkind", pa.string()), *model.arrow_schema(table.schema.select(names))])
    where = table.predicate(given.where)

    def batches() -> Iterator[pa.RecordBatch]:
        for _, part in parts:
            for batch in part.combine_chunks().to_batches():
                found = batch if where is None else batch.filter(evaluate.mask(where, batch))
                yield found.select(schema.names)

    return Streamed(schema, _limited(batches(), given.limit) if given.limit else batches())


# ---- to files


class Export(Reading, Travel, WithJson):
    """What `export` takes."""

    output: Annotated[str, Argument(metavar="FILE", help="Where to: a path, a URI, or - for standard output.")]
    format: Annotated[
        str | None,
        Option("--format", metavar="FORMAT", help="parquet, csv, json, jsonl or arrow; by the name otherwise."),
    ] = None
    overwrite: Annotated[bool, Option("--overwrite", help="Replace an existing file.")] = False

    def kept(self) -> str:
        """Nothing stays of a file that is not whole."""
        return "no file was written"


def export(given: Export) -> Facts | None:
    """Write rows to a file: parquet, CSV, JSON or Arrow.

    The file is there whole or not at all; pipes and devices are written to, not replaced. `.gz`, `.zst` and `.bz2`
    behind .csv and .jsonl pack it.
    """
    shape = files.format_of(given.output, given.format)
    found = given.opened()
    target = files.Target(given.output, shape, given.catalog.options, given.overwrite)
    answer = _saved(_rows(found, given, given.travel()), target, _stored(found, given.travel()))
    if not files.is_open(target):
        return answer
    given.console.note(" ".join(answer.text or ()))
    return None


def _stored(found: Table, options: dict[str, str]) -> Meter:
    """A meter that knows how many records lie in the files: rows to come, at most."""
    meter = Meter("export", found.name, found.store.env.clock, Drawn())
    if found.view is None:
        meter.expect(rows=found.plan(None, None, **options).row_count)
    return meter


def _saved(rows: Streamed, target: files.Target, meter: Meter) -> Facts:
    records = 0
    try:
        with files.written(target, rows.schema) as write:
            for batch in rows.batches:
                write(batch)
                records += batch.num_rows
                meter.add(units=0, rows=batch.num_rows)
    finally:
        meter.finish()
    bytes_ = None if files.is_open(target) else files.size_of(target)
    told = f"{count(records, 'row')} to {target.path}" + ("" if bytes_ is None else f", {size_text(bytes_)}")
    return Facts(
        {"file": target.path, "format": target.shape.form, "rows": records, "bytes": bytes_}, text=[clean(told)]
    )


EXPORTED = columns(
    file="where the rows went",
    format="parquet, csv, json, jsonl or arrow",
    rows="count: rows written",
    bytes="size: of the file; null for standard output, pipes and devices",
)


def register(app: Group) -> None:
    """Register the family."""
    add(app, cat, panel=READING, answers=("stream", EXPORTED))
    changed = columns(rowkind="+I new, -U and +U changed, before and after, -D deleted; then the table's columns")
    add(app, diff, panel=READING, answers=("stream", changed))
    add(app, export, panel=READING, answers=("facts", EXPORTED))
