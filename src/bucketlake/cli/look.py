"""`databases`, `tables`, `describe`, `schemas`, `options`, `partitions`: what there is, and what it is made of."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from bucketlake.cli.answer import Facts, Rows, UsageError, columns, local_millis, shown
from bucketlake.cli.command import READING, WithFormat, add
from bucketlake.cli.grammar import Argument, Group, Option
from bucketlake.cli.text import aligned, look_of, table
from bucketlake.cli.warehouse import InWarehouse, OfTable, completed
from bucketlake.errors import NotFoundError
from bucketlake.lazy import lazy
from bucketlake.redaction import redact_options

if TYPE_CHECKING:
    from bucketlake import catalog as catalogs
    from bucketlake.catalogs import near
    from bucketlake.env import storage
    from bucketlake.ops.system import history
    from bucketlake.ops.table import parallel as threads
    from bucketlake.options import options as known_options
    from bucketlake.report import definition
    from bucketlake.report.facts import ColumnChange
    from bucketlake.types import model
else:
    catalogs = lazy("bucketlake.catalog")
    near = lazy("bucketlake.catalogs.near")
    storage = lazy("bucketlake.env.storage")
    threads = lazy("bucketlake.ops.table.parallel")
    history = lazy("bucketlake.ops.system.history")
    known_options = lazy("bucketlake.options.options")
    definition = lazy("bucketlake.report.definition")
    model = lazy("bucketlake.types.model")


class Databases(InWarehouse, WithFormat):
    """`databases` takes nothing of its own."""


def databases(given: Databases) -> Rows:
    """List the databases of a warehouse."""
    catalog = given.catalog
    return Rows([(name, len(_tables(catalog, name))) for name in catalog.list_databases()])


class Tables(InWarehouse, WithFormat):
    """What `tables` takes."""

    database: Annotated[str | None, Argument(metavar="[DATABASE]", help="Only those of this database.")] = None
    long: Annotated[bool, Option("--long", "-l", help="With keys, rows and the last commit.")] = False


def tables(given: Tables) -> Rows:
    """List the tables of a warehouse, or of one database."""
    catalog = given.catalog
    if given.database is not None:
        names = [(given.database, name) for name in catalog.list_tables(given.database)]
    else:
        names = [(one, name) for one in catalog.list_databases() for name in _tables(catalog, one)]
    count = storage.threads_for(catalog.warehouse)
    told: list[tuple[Any, ...]] = [(None,) * 5] * len(names)
    if given.long:
        told = threads.parallel(lambda one: _long(catalog, *one), names, count)
    rows = [(*one, *more) for one, more in zip(names, told, strict=True)]
    around = near.around_database(catalog)
    makes = "bucketlake import FILE.csv TABLE makes one"
    return Rows(rows, hint=f"no tables here: is the warehouse {around} meant?" if around else f"no tables yet: {makes}")


def _tables(catalog: catalogs.Catalog, database: str) -> list[str]:
    try:
        return catalog.list_tables(database)
    except NotFoundError:  # dropped while we look
        return []


def _long(catalog: catalogs.Catalog, database: str, name: str) -> tuple[Any, ...]:
    try:
        found = catalog.table(f"`{database}`.`{name}`")
    except NotFoundError:
        return (None,) * 5
    last = found.latest_snapshot()
    schema = found.schema
    newest = (None, 0, None) if last is None else (last.id, last.total_record_count, last.time_millis)
    return (list(schema.primary_keys), list(schema.partition_keys), *newest)


class Describe(OfTable):
    """`describe` takes a table."""


def describe(given: Describe) -> Facts:
    """Show what a table is: columns, keys, options, size."""
    found = given.opened()
    schema = found.schema
    last = None if found.view is not None else found.latest_snapshot()
    files = found.plan() if last is not None else None
    none = 0 if found.view is None else None  # a system table has no files of its own
    values = {
        "table": catalogs.parse_name(given.named()).text,
        "path": found.path,
        "comment": schema.comment,
        "schema_id": schema.id if found.view is None else None,
        "columns": [_field(one) for one in schema.fields],
        "primary_key": list(schema.primary_keys),
        "partition_by": list(schema.partition_keys),
        "bucket_mode": None if found.view is not None else schema.bucket_mode.value,
        "bucket": None if found.view is not None else schema.bucket,
        "options": {} if found.view is not None else redact_options(history.stored_schema(found.store).options),
        "snapshot": None if last is None else last.id,
        "last_commit": None if last is None else last.time_millis,
        "records": none if files is None else files.row_count,
        "files": none if files is None else sum(len(part.entries) for _, part in files.parts(found.store)),
        "bytes": none if files is None else files.size,
        "tags": [] if found.view is not None else list(found.store.tag_names()),
        "branches": [] if found.view is not None else found.branches(),
    }
    return Facts(values, text=list(_described(values)))


def _field(one: Any) -> dict[str, Any]:
    return {
        "name": one.name,
        "type": model.type_text(one.type.with_nullable(True)),
        "nullable": one.type.nullable,
        "default": one.default,
        "comment": one.description,
    }


def _described(values: dict[str, Any]) -> Iterator[str]:
    look = look_of(sys.stdout)
    kinds = {one.name: one.kind for one in DESCRIBED}
    above = [name for name in values if name not in ("columns", "options")]
    pairs = [(name.replace("_", " "), shown(values[name], kinds[name])) for name in above]
    yield from aligned([pair for pair in pairs if pair[1]], look)
    keys, parts = values["primary_key"], values["partition_by"]
    rows = []
    for one in values["columns"]:
        name = one["name"]
        roles = [role for role, those in (("key", keys), ("partition", parts)) if name in those]
        null = "" if one["nullable"] else "not null"
        rows.append([name, one["type"], null, ", ".join(roles), one["default"] or "", one["comment"] or ""])
    yield ""
    yield from _sparse(["column", "type", "null", "role", "default", "comment"], rows)
    if values["options"]:
        yield ""
        options = [[key, str(value)] for key, value in sorted(values["options"].items())]
        yield from table(["option", "value"], options, [False, False], look)


def _sparse(head: list[str], rows: list[list[str]]) -> list[str]:
    """A table without the columns in which nothing stands."""
    kept = [place for place in range(len(head)) if any(row[place] for row in rows)]
    return table(
        [head[place] for place in kept],
        [[row[place] for place in kept] for row in rows],
        [False] * len(kept),
        look_of(sys.stdout),
    )


class Schemas(OfTable, WithFormat):
    """What `schemas` takes."""


def schemas(given: Schemas) -> Rows:
    """List the schemas that a table has had, oldest first."""
    store = given.plain_table().store
    found = [history.stored_schema(store, number) for number in store.schema_ids()]
    rows = []
    before = found[0].fields if found else ()
    for one in found:
        changed = _changed(definition.column_changes(before, one.fields))
        rows.append((one.id, one.time_millis, len(one.fields), *changed, redact_options(one.options)))
        before = one.fields
    return Rows(rows)


def _changed(changes: Sequence[ColumnChange]) -> tuple[list[str], list[str], list[str]]:
    """Columns that came, that went, and what became of others, as texts."""
    added = [f"{one.column} {one.after}" for one in changes if one.change == "added"]
    removed = [f"{one.column} {one.before}" for one in changes if one.change == "dropped"]
    return added, removed, [_became(one) for one in changes if one.change not in ("added", "dropped")]


def _became(one: ColumnChange) -> str:
    if one.change == "renamed":
        return f"{one.before} → {one.after}"
    word = "" if one.change == "type" else f" {one.change}"
    return f"{one.column}{word} {one.before or 'none'} → {one.after or 'none'}"


class Options(OfTable, WithFormat):
    """What `options` takes."""

    table: Annotated[
        str, Argument(metavar="[TABLE]", help="db.table; with --all it may be left out.", completed=completed)
    ] = ""
    all: Annotated[bool, Option("--all", help="Also options that are not set, with their defaults.")] = False


def options(given: Options) -> Rows:
    """List the options that a table sets, or all that there are."""
    if not given.table and not given.all:
        raise UsageError("options of which table?", remedy="name it, or add --all for every option that there is")
    found = given.plain_table() if given.table else None
    stored = {} if found is None else redact_options(history.stored_schema(found.store).options)
    keys = sorted({*stored, *known_options.OPTIONS} if given.all else stored)
    rows = []
    for key in keys:
        row = known_options.find_option(key)
        default, about = (None, None) if row is None else (row.default, row.doc)
        rows.append((key, stored.get(key), default, key in stored, about))
    return Rows(rows, hint="the table sets no options; --all shows what there is")


class Partitions(OfTable, WithFormat):
    """What `partitions` takes."""


def partitions(given: Partitions) -> Rows:
    """List the partitions of a table with rows, bytes and files."""
    found = given.plain_table()
    if not found.schema.partition_keys:
        return Rows([], hint=f"{found.name} is not partitioned")
    rows = given.system("partitions")
    told = [
        (
            row["partition"],
            row["record_count"],
            row["file_size_in_bytes"],
            row["file_count"],
            row["total_buckets"],
            local_millis(row["last_update_time"]),
        )
        for row in sorted(rows, key=lambda row: row["partition"] or "")
    ]
    return Rows(told, hint="no partition has files")


DESCRIBED = columns(
    table="its full name",
    path="its folder",
    comment="its comment",
    schema_id="id: number of the newest schema; null of a system table",
    columns="json: name, type, nullable, default, comment of each",
    primary_key="list: columns of the primary key",
    partition_by="list: partition columns",
    bucket_mode="how rows come to buckets",
    bucket="id: the option bucket: a number, -1 dynamic or none, -2 postponed",
    options="map: options that the table sets; secrets as ***",
    snapshot="id: id of the newest snapshot",
    last_commit="time: when it was committed",
    records="count: records in its files, superseded ones included; null of a system table",
    files="count: live data files; null of a system table",
    bytes="size: their size; null of a system table",
    tags="list: names of the tags",
    branches="list: names of the branches",
)


def register(app: Group) -> None:
    """Register the family."""
    named = columns(database="its name", tables="count: tables in it")
    add(app, databases, panel=READING, answers=("rows", named))
    listed = columns(
        database="its database",
        table="its name",
        primary_key="list: columns of the primary key; null without --long",
        partition_by="list: partition columns; null without --long",
        snapshot="id: id of the newest snapshot; null without --long or commit",
        records="count: records in its files; null without --long",
        last_commit="time: of the newest snapshot; null without --long or commit",
    )
    add(app, tables, panel=READING, answers=("rows", listed))
    add(app, describe, panel=READING, answers=("facts", DESCRIBED))
    schema = columns(
        schema_id="id: its number",
        created="time: when it was made",
        columns="count: number of columns",
        added="list: columns, with their types, that the schema before had not",
        removed="list: columns, with their types, that only the schema before had",
        changed="list: what became of others: a new name (`a → b`), type, place, comment, default",
        options="map: options; secrets as ***",
    )
    add(app, schemas, panel=READING, answers=("rows", schema))
    option = columns(
        key="the option",
        value="what the table sets; null where it does not",
        default="what holds otherwise; null for nothing",
        set="flag: whether the table sets it",
        about="what it does; null for an option that is not known",
    )
    add(app, options, panel=READING, answers=("rows", option))
    partition = columns(
        partition="the partition, `dt=2026-01-01/hour=5`",
        records="count: records in its files",
        bytes="size: of its files",
        files="count: data files",
        buckets="count: number of buckets, -1 where it is not fixed",
        updated="time: of its newest file",
    )
    add(app, partitions, panel=READING, answers=("rows", partition))
