"""`import`: files of rows to a table, in bounded memory: there whole, or not at all."""

from __future__ import annotations

import codecs
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from bucketlake.cli.answer import Facts, UsageError, columns
from bucketlake.cli.command import CHANGING, add
from bucketlake.cli.grammar import Argument, Group, Option
from bucketlake.cli.output import confirmed
from bucketlake.cli.progress import Drawn
from bucketlake.cli.text import clean, count
from bucketlake.cli.warehouse import InWarehouse, names_in, open_warehouse, pairs_of, told_options
from bucketlake.errors import AlreadyExistsError, InvalidError, did_you_mean
from bucketlake.events import bus
from bucketlake.lazy import lazy
from bucketlake.ops.progress import Meter

if TYPE_CHECKING:
    import pyarrow as pa

    from bucketlake import catalog as catalogs
    from bucketlake.cli import files, infer, loading, sources
    from bucketlake.cli.loading import Incoming
    from bucketlake.cli.sources import Source
    from bucketlake.env.storage import Storage
    from bucketlake.ops.check import remedy as remedies
    from bucketlake.ops.migrate import source as migrating
    from bucketlake.table import Table
    from bucketlake.types import model, parse
else:
    pa = lazy("pyarrow")
    catalogs = lazy("bucketlake.catalog")
    files, infer = lazy("bucketlake.cli.files"), lazy("bucketlake.cli.infer")
    loading, sources = lazy("bucketlake.cli.loading"), lazy("bucketlake.cli.sources")
    remedies = lazy("bucketlake.ops.check.remedy")
    migrating = lazy("bucketlake.ops.migrate.source")
    model, parse = lazy("bucketlake.types.model"), lazy("bucketlake.types.parse")

EXISTING = ("fail", "append", "replace", "skip")


class CsvDialect(InWarehouse):
    """How a CSV is written."""

    delimiter: Annotated[
        str | None, Option("--delimiter", metavar="TEXT", help="Of CSV: between values; found out otherwise.")
    ] = None
    no_header: Annotated[bool, Option("--no-header", help="Of CSV: the first line is a row.")] = False
    encoding: Annotated[str, Option("--encoding", metavar="NAME", help="Of CSV.")] = "utf8"
    null: Annotated[
        list[str] | None, Option("--null", metavar="TEXT", help="Of CSV: means nothing, in columns of text too.")
    ] = None
    decimal: Annotated[
        str, Option("--decimal", metavar="SIGN", help="Of CSV: before the fraction; `,` for 1.234,56.")
    ] = "."
    date_format: Annotated[
        list[str] | None,
        Option("--date-format", metavar="FORMAT", help="Of CSV: of dates or times beside ISO 8601: %d.%m.%Y."),
    ] = None
    format: Annotated[
        str | None,
        Option("--format", metavar="FORMAT", help="parquet, csv, json, jsonl or arrow; by the name otherwise."),
    ] = None

    def dialect(self) -> sources.Dialect:
        """All of it. Errors: UsageError for what is none."""
        try:
            codecs.lookup(self.encoding)
        except LookupError as error:
            remedy = "such as utf-8, latin-1, cp1252 or utf-16"
            raise UsageError("no such encoding", encoding=self.encoding, remedy=remedy) from error
        nulls, times = tuple(self.null or ()), tuple(self.date_format or ())
        return sources.Dialect(self.delimiter, not self.no_header, self.encoding, nulls, self.decimal, times)


class Import(CsvDialect):
    """What `import` takes."""

    names: Annotated[
        list[str],
        Argument(metavar="FILE... [TABLE]", help="Files (- for standard input), then the table."),
    ]
    key: Annotated[
        str | None,
        Option("--key", "-k", metavar="COLUMNS", help="Primary key; `none` for an append table."),
    ] = None
    partition_by: Annotated[
        str | None, Option("--partition-by", "-p", metavar="COLUMNS", help="Partition columns.")
    ] = None
    bucket: Annotated[int | None, Option("--bucket", metavar="N", help="Number of buckets, -1, or -2.")] = None
    type: Annotated[list[str] | None, Option("--type", metavar="COLUMN=TYPE", help="A column's type: zip=STRING.")] = (
        None
    )
    option: Annotated[list[str] | None, Option("--option", metavar="KEY=VALUE", help="An option of the new table.")] = (
        None
    )
    comment: Annotated[str | None, Option("--comment", metavar="TEXT", help="The new table's comment.")] = None
    if_exists: Annotated[
        str, Option("--if-exists", metavar="WHAT", help="fail, append, replace (all rows) or skip.")
    ] = "fail"
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would be made.")] = False
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask.")] = False

    def kept(self) -> str:
        """A table that is new is there whole or not at all, rows that are added too; what follows a commit may be
        interrupted as well."""
        name, number = self.__dict__.get("_was", ("", 0))
        newest = self.catalog.table(name).store.latest_snapshot_id() if name and _there(self.catalog, name) else None
        if (newest or 0) == number:
            return "no rows were imported"
        return f"{name} is at snapshot {newest}, and was at {number}: the rows are in it, unless others committed"


def import_(given: Import) -> Facts:
    """Create a table from CSV, Parquet, JSON or Arrow files.

    Types are found out from all rows. Without --key a column that is named like a key becomes it where all its values
    are proved to differ, else the table has none. The rows are there in one commit, or not at all. Options that nobody
    knows are told of, and kept. Tables hold times of day in milliseconds: finer ones are refused, unless they are to be
    text (--type t=STRING).
    """
    if given.if_exists not in EXISTING:
        raise UsageError("no such way", if_exists=given.if_exists, remedy=f"one of {', '.join(EXISTING)}")
    catalog = given.__dict__["_catalog"] = open_warehouse(given.warehouse, must_exist=False)
    meter = Meter("import", "", catalog.env.clock, Drawn())
    name, found_files = _files(given)
    there = _there(catalog, name)
    if there and given.if_exists == "fail":
        remedy = "--if-exists append adds the rows, replace takes them instead of all that it holds"
        raise AlreadyExistsError("table exists", table=name, remedy=remedy)
    if there and given.if_exists == "skip":
        return _nothing(name)
    try:
        if there:
            return _added(given, catalog.table(name), found_files, meter)
        return _created(given, name, found_files, meter)
    finally:
        meter.finish()


def _there(catalog: catalogs.Catalog, name: str) -> bool:
    return _has_database(catalog, name) and catalog.table_exists(name)


def _has_database(catalog: catalogs.Catalog, name: str) -> bool:
    return catalog.database_exists(catalogs.parse_name(name).database)


def _files(given: Import) -> tuple[str, list[Source]]:
    """The table's name, and the files."""
    names = list(given.names)
    if len(names) > 1:
        table = names.pop()
        _refuse_file(given, table)
    elif files.is_standard(names[0]):
        raise UsageError("which table?", remedy="name it behind the file: bucketlake import - TABLE")
    else:
        stem = re.split(r"[/\\]", names[0].rstrip("/\\"))[-1].split(".")[0]
        table = re.sub(r"\W+", "_", stem).strip("_").lower() or "imported"
    catalogs.parse_name(table)
    found = [one for name in names for one in _sources(given, name)]
    if not found:
        raise InvalidError("no files", path=names[0], remedy=f"a folder's {', '.join(files.FILE_FORMATS)} are taken")
    return table, found


def _refuse_file(given: Import, name: str) -> None:
    """UsageError where a file stands in the place of the table: its rows would be left out."""
    if files.is_standard(name):
        raise UsageError("which table?", remedy=f"name it behind the files: … {name} TABLE")
    storage, path = files.place_of(name, given.catalog.options)
    info = storage.info(path)
    if info is not None and not info.is_dir:
        remedy = f"name it behind the files: … {shlex.quote(name)} TABLE; a table of this name is default.NAME"
        raise UsageError("which table? The last name is that of a file", file=name, remedy=remedy)
    if info is None and files.is_known(name) and not _has_database(given.catalog, name):
        remedy = "look at the path, and name the table behind it; or create its database first"
        raise UsageError("the last name is neither a file nor a table of a database", name=name, remedy=remedy)


def _sources(given: Import, name: str) -> list[Source]:
    """A file, or those of a folder whose names tell a format."""
    if files.is_standard(name):
        return [sources.Source("-", files.format_of(name, given.format), None, sources.spooled())]
    storage, path = files.place_of(name, given.catalog.options)
    info = storage.info(path)
    if info is None:
        raise InvalidError("no such file", path=path, remedy="look at the path")
    if not info.is_dir:
        return [_source(given, storage, path)]
    migrating.refuse_tables(storage, path)
    inside = sorted(one.path for one in storage.list(path) if not one.is_dir and one.name[:1] not in "._")
    told = [one for one in inside if given.format or files.is_known(one)]
    return [_source(given, storage, one) for one in told]


def _source(given: Import, storage: Storage, path: str) -> Source:
    shape = files.format_of(path, given.format)
    if files.is_pipe(storage, path):  # it says nothing twice
        return sources.Source(path, shape, None, sources.spooled(path))
    return sources.Source(path, shape, storage)


def _tell(meter: Meter) -> Callable[[Source, int], None]:
    """A function that counts what was read."""
    before: dict[int, int] = {}

    def tell(source: Source, rows: int) -> None:
        now = source.passed[0]
        meter.add(units=0, rows=rows, bytes=max(now - before.get(id(source), 0), 0))
        before[id(source)] = now

    return tell


def _looked(given: Import, found: list[Source], wanted: Mapping[str, pa.DataType], table: str | None) -> Incoming:
    """Look at the files; at columns that could be the key of `table`, if it is said, too."""
    dialect = given.dialect()
    meter = Meter("look at", found[0].path, given.catalog.env.clock, Drawn())
    meter.expect(bytes=sum(one.size for one in found))
    try:
        return loading.incoming(found, dialect, wanted, partial(_candidates, table), _tell(meter))
    finally:
        meter.finish()


def _candidates(table: str | None, names: Sequence[str]) -> list[str]:
    return [] if table is None else infer.candidates(names, table)


def _said_types(given: Import) -> dict[str, pa.DataType]:
    said = {name: parse.parse_type_text(text, "flink") for name, text in pairs_of(given.type, "--type").items()}
    return {name: model.arrow_type(kind) for name, kind in said.items()}


def _created(given: Import, name: str, found: list[Source], meter: Meter) -> Facts:
    """Import into a table that is not there yet."""
    short = catalogs.parse_name(name).table
    auto = given.key is None
    auto = auto and "primary-key" not in pairs_of(given.option, "--option")
    looked = _looked(given, found, _said_types(given), short if auto else None)
    if not looked.types:
        raise InvalidError("no object is in the files", path=found[0].path)
    if found[0].shape.form == "csv" and not given.no_header and infer.are_values(looked.types):
        names = ", ".join(looked.types)
        given.console.warn(f"the first line gave the columns' names: {names}; --no-header where it is a row")
    folded = [one.lower() for one in looked.types]
    alike = [one for one in looked.types if folded.count(one.lower()) > 1]
    if alike:
        given.console.warn(f"{', '.join(alike)}: names that SQL does not tell apart; rename them in the file")
    for column, hint in looked.hints.items():
        if column not in pairs_of(given.type, "--type"):
            given.console.warn(f"{column} is text, and looks like {hint}")
    proved = looked.unique
    taken = auto and proved is not None and infer.is_named_like_a_key(proved, short)
    key = [] if given.key == "none" else names_in(given.key) or ([proved] if taken and proved is not None else [])
    partition = names_in(given.partition_by)
    reason = _reason(given, key, proved)
    bucket, why = infer.advised_buckets(looked.size, bool(key), set(partition) <= set(key))
    bucket = given.bucket if given.bucket is not None else bucket
    options = {**({} if bucket is None else {"bucket": str(bucket)}), **pairs_of(given.option, "--option")}
    told_options(given.console, options)
    missing = [one for one in (*key, *partition, *pairs_of(given.type, "--type")) if one not in looked.types]
    if missing:
        remedy = did_you_mean(missing[0], looked.types)
        raise InvalidError("no such column", column=missing[0], columns=list(looked.types), remedy=remedy)
    values = _values(name, looked, (key, partition, bucket))
    if given.dry_run:
        return _told(values, f"would make {name}: {reason}, {why}", given)
    catalog, made = given.catalog, catalogs.parse_name(name).database
    new_database = not catalog.database_exists(made)
    if new_database:
        catalog.create_database(made, ignore_if_exists=True)
    try:
        draft = catalog.draft_table(name, looked.schema, partition, key, options, given.comment)
        return _stored(given, draft, looked, "create", meter, (values, f"{reason}, {why}"))
    except BaseException:
        if new_database and catalog.metastore.has_folder:
            catalog.env.storage.delete_empty(catalog.database_path(made))
        raise


def _reason(given: Import, key: list[str], proved: str | None) -> str:
    if given.key is not None:
        return f"key {', '.join(key)}" if key else "no key"
    if key:
        return f"key {key[0]}, whose values all differ (--key none: no key)"
    return "no key" if proved is None else f"no key ({proved} is unique, too: --key {shlex.quote(proved)} makes it one)"


def _require_same_table(given: Import, table: Table) -> None:
    """UsageError for what describes a table other than the one that is there: a script may say it each time."""
    schema = table.schema
    named = {"--key": (given.key, schema.primary_keys), "--partition-by": (given.partition_by, schema.partition_keys)}
    for option, (text, has) in named.items():
        if text is not None and ([] if text == "none" else names_in(text)) != list(has):
            remedy = f"leave it out: the table has {', '.join(has) or 'none'}"
            raise UsageError("the table has another", option=option, given=text, table=table.name, remedy=remedy)
    fixed = {"--bucket": given.bucket, "--type": given.type, "--option": given.option, "--comment": given.comment}
    said = [name for name, value in fixed.items() if value]
    if said:
        raise UsageError("of a new table only", option=said[0], table=table.name, remedy="leave it out")


def _added(given: Import, table: Table, found: list[Source], meter: Meter) -> Facts:
    """Import into a table that is there: its columns say the types."""
    _require_same_table(given, table)
    looked = _looked(given, found, {item.name: item.type for item in table.arrow_schema}, None)
    unknown = [name for name in looked.types if name not in table.schema.field_names]
    if unknown:
        remedy = did_you_mean(unknown[0], table.schema.field_names)
        kind = model.type_text(model.from_arrow_type(looked.types[unknown[0]]))
        column = f"{model.quote_identifier(unknown[0])} {kind}"
        step = remedies.Statement(f"ALTER TABLE {remedies.identifier(table.name)} ADD COLUMN {column}")
        made = remedies.command_line(step, given.place)
        remedy = remedy or f"rename it in the file, or make it first: {made}"
        known = list(table.schema.field_names)
        raise InvalidError("the table has no such column", column=unknown[0], columns=known, remedy=remedy)
    schema = table.schema
    values = _values(table.name, looked, (list(schema.primary_keys), list(schema.partition_keys), schema.bucket))
    if given.dry_run:
        return _told(values, f"would {given.if_exists} rows of {table.name}", given)
    if given.if_exists == "replace":
        confirmed(f"Replace all rows of {table.name}?", given.yes)
    keyed = given.if_exists == "append" and bool(schema.primary_keys)
    reason = f"rows of one {', '.join(schema.primary_keys)} are one ({_engine(table)})" if keyed else ""
    return _stored(given, table, looked, given.if_exists, meter, (values, reason))


def _stored(
    given: Import, table: Table, looked: Incoming, how: str, meter: Meter, told: tuple[dict[str, Any], str]
) -> Facts:
    values, reason = told
    meter.now = type(meter.now)(f"{how} rows of", table.name)
    meter.expect(bytes=sum(one.size for one in looked.sources))
    for one in looked.sources:
        one.passed[0] = 0
    given.__dict__["_was"] = (table.name, 0 if how == "create" else table.store.latest_snapshot_id() or 0)
    written: list[int] = []

    def note(event: bus.Event) -> None:
        if isinstance(event, bus.WriteCommitted):
            written.append(event.added_rows)

    stop = bus.subscribe(note, bus.WriteCommitted)
    try:
        snapshot = loading.store_rows(given.catalog, table, loading.rows_of(looked, _tell(meter)), how)
    finally:
        stop()
    if snapshot is not None and table.schema.primary_keys:
        # What is there stays beside rows that are added, until a compaction.
        _tell_of_equal_keys(
            given, table, sum(written) if how == "append" else snapshot.total_record_count, meter.now.rows
        )
    values |= {
        "rows": meter.now.rows,
        "snapshot": None if snapshot is None else snapshot.id,
        "created": how == "create",
    }
    verb, to = {"create": ("imported", "into"), "append": ("added", "to"), "replace": ("put", "into")}[how]
    rest = f"; {reason}" if reason else ""
    return _told(values, f"{verb} {count(meter.now.rows, 'row')} {to} {table.name}{rest}", given)


def _tell_of_equal_keys(given: Import, table: Table, stored: int, rows: int) -> None:
    """A warning where rows of a table's key are fewer than were read."""
    if stored < rows:
        key, engine = ", ".join(table.schema.primary_keys), _engine(table)
        given.console.warn(f"rows with the same {key} became one: {rows:,} rows, {count(stored, 'record')} ({engine})")


def _engine(table: Table) -> str:
    return str(table.store.options.get("merge-engine"))


def _values(name: str, looked: Incoming, shape: tuple[list[str], list[str], int | None]) -> dict[str, Any]:
    key, partition, bucket = shape
    types = {one: model.type_text(model.from_arrow_type(kind)) for one, kind in looked.types.items()}
    return {
        "table": catalogs.parse_name(name).text,
        "created": False,
        "rows": looked.records,
        "snapshot": None,
        "files": [one.path for one in looked.sources],
        "columns": types,
        "primary_key": key,
        "partition_by": partition,
        "bucket": bucket,
        "unique": looked.unique,
    }


def _told(values: dict[str, Any], head: str, given: Import) -> Facts:
    listed = ", ".join(f"{name} {kind}" for name, kind in values["columns"].items())
    lines = [head, f"  columns: {listed}"]
    if not given.dry_run:
        lines.append(f"  look: {remedies.shell_line('cat', given.place, [values['table']])}")
    return Facts(values, text=[clean(line) for line in lines])


def _nothing(name: str) -> Facts:
    empty: dict[str, Any] = {"files": [], "columns": {}, "primary_key": [], "partition_by": []}
    rest = {"created": False, "rows": 0, "snapshot": None, "bucket": None, "unique": None}
    return Facts({"table": name, **empty, **rest}, text=[clean(f"{name} is there: nothing was imported")])


IMPORTED = columns(
    table="its full name",
    created="flag: whether it is new",
    rows="count: rows read of the files",
    snapshot="id: the snapshot that holds them; null where there were none, and with --dry-run",
    files="list: the files",
    columns="map: the columns of the files and their types",
    primary_key="list: the table's primary key",
    partition_by="list: its partition columns",
    bucket="id: the option bucket; null where it was left out",
    unique="a column whose values were proved to differ; null where none was, or none was looked for",
)


def register(app: Group) -> None:
    """Register the family."""
    add(app, import_, "import", panel=CHANGING, answers=("facts", IMPORTED))
