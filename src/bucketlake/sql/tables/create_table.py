"""CREATE and REPLACE TABLE carried out: an empty table, one like another, or one with a query's rows (CTAS, RTAS).

CTAS writes the rows' files first, then publishes the schema, which one job alone can, and commits the rows last: a
query that fails leaves no table, and no table has to be dropped that another job may have made or filled.

Spec: docs/spec/catalog.md#create-table-as-select
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from bucketlake.creation import sweep
from bucketlake.errors import (
    AlreadyExistsError,
    BucketlakeError,
    CommitUnknownError,
    InvalidError,
    UnsupportedError,
)
from bucketlake.ops.change.row_conflicts import Read, check_of, made_anew
from bucketlake.ops.commit.replacement import draft_replacement
from bucketlake.options.catalog import table_defaults
from bucketlake.options.options import refuse_key_words, validate
from bucketlake.schema.default import stored_default
from bucketlake.schema.given import new_schema
from bucketlake.schema.schema import TableSchema
from bucketlake.schema.versions import create_schema
from bucketlake.spark import instants
from bucketlake.spark.settings import is_case_sensitive, require_quotes
from bucketlake.spark.types import as_nullable, field_types, quoted
from bucketlake.spark.write.parquet_rows import Source
from bucketlake.spark.write.writer import WriteRequest, write
from bucketlake.sql.query import query
from bucketlake.sql.rows.target import may_read
from bucketlake.sql.rows.ways import Explained
from bucketlake.sql.tables.columns import refuse_alike
from bucketlake.sql.tables.create import CreateTable
from bucketlake.sql.tables.foreign import EXPLAINED, refuse_like
from bucketlake.sql.text import names
from bucketlake.table import Table
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bucketlake.spark.session import Lake

PATH = "path"  # among a table's options: where it lies
_OF_ONE_TABLE = (PATH, "branch")  # options that say which table it is: no other one takes them over
_ELSEWHERE = ("data-file.external-paths", "global-index.external-path")  # folders of one table's own, by their prefixes
_FORMATS = ("parquet", "orc", "csv", "json", "text", "avro")  # of upstream's format tables
_DEFAULT = "CURRENT_DEFAULT"  # among what Spark notes beside a column: the text of its default
COMMENT = "comment"  # in a list of options: the table's comment, which is none of them


@dataclass(slots=True)
class _Definition:
    """What a table is made of, as `Catalog.draft_table` takes it. `copied`: of another table."""

    fields: list[DataField]
    partition_keys: list[str]
    primary_keys: list[str]
    options: dict[str, str]
    comment: str | None
    copied: bool = False

    @property
    def schema(self) -> list[DataField] | TableSchema:
        """The columns; a whole schema where its options are another table's, which are taken as they are."""
        if not self.copied:
            return self.fields
        return create_schema(self.fields, self.partition_keys, self.primary_keys, self.options, self.comment)


@dataclass(frozen=True, slots=True)
class OtherProvider:
    """A CREATE TABLE … USING a format that is not the lake's: a table of Spark's own, if its name says so."""

    name: tuple[str, ...]
    statement: str
    provider: str
    if_not_exists: bool = False

    def run(self, lake: Lake, name: names.LakeName) -> DataFrame:
        """Spark makes it, or says that it has no such format. UnsupportedError where the name is the lake's; in an
        attached session the format decides where it does not say so, or the lake has no such table."""
        there = names.find(lake, self.name) if lake.other_catalogs else None
        if there is not None and self.if_not_exists:
            return lake.nothing
        if there is not None or self._is_lakes(lake):
            plain = self.provider in _FORMATS
            title = lake.catalog.metastore.title
            own = ".".join(self.name[-2:] if len(self.name) > 1 else (names.DEFAULT_DATABASE, *self.name))
            raise UnsupportedError(
                f"{title} currently does not support format table"
                if plain
                else f"Provider '{self.provider}' is not supported by {title}",
                table=".".join(self.name),
                provider=self.provider,
                remedy=f"USING paimon; a table of Spark's own is spark_catalog.{own}",
            )
        refuse_like(lake, self.statement)
        return query.run(lake, self.statement)

    def _is_lakes(self, lake: Lake) -> bool:
        if lake.other_catalogs:
            return len(self.name) > 2 and self.name[0].lower() in lake.catalog_names
        if len(self.name) == 2:
            return lake.catalog.database_exists(self.name[0])
        return len(self.name) == 1 or self.name[0].lower() in lake.catalog_names


@dataclass(frozen=True, slots=True)
class TableCreation:
    """A CREATE or REPLACE TABLE that is the lake's."""

    clause: CreateTable

    @property
    def place(self) -> tuple[str, ...]:
        """The catalog that is named."""
        return self.clause.name[:-2]

    def run(self, lake: Lake, name: names.LakeName) -> None:
        """Make the table, with the query's rows if there is one."""
        clause = self.clause
        require_quotes(lake.spark, clause.literals)
        name = names.target(lake, clause.name)
        _check_location(clause, lake.catalog.table_path(name.full), lake.catalog.metastore.title, name.full)
        exists = lake.catalog.table_exists(name.full)
        if exists and clause.if_not_exists:
            return
        if not exists and not clause.create:
            lake.table(name.full)  # says what is not there
        if exists and clause.replace:
            self._replace(lake, name)
            return
        frame = self._rows(lake)
        made = _definition(lake, clause, frame)
        draft = lake.catalog.draft_table(
            name.full, made.schema, made.partition_keys, made.primary_keys, made.options, made.comment
        )
        if frame is not None:
            request = WriteRequest(operation=clause.operation, source=_source(frame, made))
            _filled(lake, draft, frame.toDF(*[f.name for f in made.fields]), request, clause.if_not_exists)
        elif not lake.catalog.publish_table(draft) and not clause.if_not_exists:
            raise _taken(draft)

    def explained(self, lake: Lake, name: names.LakeName) -> Explained:
        """What the table would be made of, nothing done. UnsupportedError for one that gets no rows.

        Spec: docs/spec/row_changes.md#explain
        """
        clause = self.clause
        name = names.target(lake, clause.name)
        if clause.query is None:
            raise UnsupportedError("EXPLAIN of CREATE TABLE without a query", table=name.full, remedy=EXPLAINED)
        require_quotes(lake.spark, clause.literals)
        _check_location(clause, lake.catalog.table_path(name.full), lake.catalog.metastore.title, name.full)
        exists = lake.catalog.table_exists(name.full)
        if exists and clause.if_not_exists:
            return Explained(name.full, "nothing is done, the table is there", None)
        if not exists and not clause.create:
            lake.table(name.full)  # says what is not there
        made = _definition(lake, clause, self._rows(lake))
        if not clause.replace:
            lake.catalog.draft_table(name.full, made.schema, made.partition_keys, made.primary_keys, made.options)
        told = "another table in its place" if exists else "a new table"
        return Explained(name.full, f"{told}, of the query's rows", clause.query)

    def _rows(self, lake: Lake) -> DataFrame | None:
        if self.clause.query is None:
            return None
        frame = query.run(lake, self.clause.query)
        return instants.as_stored(frame) if instants.of_session(lake.spark) else frame

    def _replace(self, lake: Lake, name: names.LakeName) -> None:
        """Another table in its place; rows that are made of the old ones are made again where others changed these."""
        clause, table = self.clause, lake.table(name.full)

        def prepared(read: Read | None) -> Callable[[], None]:
            old = lake.catalog.table(name.full)  # before the query looks at it: altered since, it is not replaced
            frame = self._rows(lake)
            made = _definition(lake, clause, frame)
            return partial(_replaced, lake, old, made, frame, clause.operation, read)

        if clause.query is None or not may_read(lake, table, clause.query):
            prepared(None)()
        else:
            made_anew(table.table.store, prepared)


def _check_location(clause: CreateTable, path: str, title: str, table: str) -> None:
    """A warehouse's catalog places its tables itself: their own place may be said, as SHOW CREATE TABLE says it."""
    for given in (clause.location, clause.options.pop(PATH, None)):
        if given is not None and given.rstrip("/").removeprefix("file:") != path:
            raise UnsupportedError(
                f"The current catalog {title} does not support specifying the table path when creating a table.",
                table=table,
                remedy="leave LOCATION out: tables of a warehouse lie in it",
            )


def _replaced(
    lake: Lake, old: Table, made: _Definition, frame: DataFrame | None, operation: str, read: Read | None = None
) -> None:
    """REPLACE TABLE: the rows are written first, of the snapshot that the query saw, and then the table is switched.
    `read`: the old table's snapshot that they are made of; ConflictError if it is not its newest rows' any more."""
    name = old.name
    if "$" in name:
        raise InvalidError(f"Cannot 'replaceTable' for '{name}', please use data table.", table=name)
    options = {**table_defaults(lake.catalog.options), **made.options}
    schema = new_schema(made.schema, made.partition_keys, made.primary_keys, options, made.comment)
    replacement = draft_replacement(old.for_writing().store, schema, name)
    with replacement.finished_or_told():
        if frame is None:
            replacement.switch()
            replacement.finish()
            return
        rows = frame.toDF(*[f.name for f in made.fields])
        switch = partial(replacement.switch, check_of(replacement.old, read, whole=True))
        how = WriteRequest(
            "overwrite", dynamic=False, operation=operation, before_commit=switch, source=_source(frame, made)
        )
        write(lake.spark, Table(replacement.new, name), rows, how)


def create_as(lake: Lake, clause: CreateTable, frame: DataFrame) -> None:
    """Make the table that the clause names, of a frame's columns and rows; AlreadyExistsError where another job has
    just made one."""
    name, made = names.target(lake, clause.name), _definition(lake, clause, frame)
    if clause.replace and lake.catalog.table_exists(name.full):
        _replaced(lake, lake.catalog.table(name.full), made, frame, clause.operation)
        return
    draft = lake.catalog.draft_table(
        name.full, made.fields, made.partition_keys, made.primary_keys, made.options, made.comment
    )
    request = WriteRequest(operation=clause.operation, source=_source(frame, made))
    _filled(lake, draft, frame.toDF(*[f.name for f in made.fields]), request, if_not_exists=False)


def _source(frame: DataFrame, made: _Definition) -> Source:
    return Source(frame, tuple(field.name for field in made.fields))


def _taken(draft: Table) -> AlreadyExistsError:
    return AlreadyExistsError("table exists", table=draft.name, remedy="another process has just created it")


def _filled(lake: Lake, draft: Table, frame: DataFrame, request: WriteRequest, if_not_exists: bool) -> None:
    """Publish the table with the frame's rows; nothing where another job published one of its name first and that is
    asked for.

    After a commit that may have landed the table stays, and after one that certainly failed it goes, unless anybody
    has used it: it was made by this call, because `publish_table` said so.
    """
    if not lake.catalog.metastore.has_folder:
        _filled_afterwards(lake, draft, frame, request, if_not_exists)
        return
    published = False

    def publish() -> None:
        nonlocal published
        published = lake.catalog.publish_table(draft)
        if not published:
            raise _taken(draft)

    env, path = lake.catalog.env, draft.path
    try:
        write(lake.spark, draft, frame, replace(request, before_commit=publish))
    except BucketlakeError as error:
        gone = not published
        if published and not isinstance(error, CommitUnknownError) and draft.latest_snapshot() is None:
            gone = lake.catalog.withdraw_table(draft)
        if gone:
            sweep(env, path)
        if published or not isinstance(error, AlreadyExistsError) or not if_not_exists:
            raise
    except BaseException:
        if not published:
            sweep(env, path)
        raise


def _filled_afterwards(lake: Lake, draft: Table, frame: DataFrame, request: WriteRequest, if_not_exists: bool) -> None:
    """As `_filled`, where the catalog's server says where the table lies once it has made it: others see it empty until
    the rows are committed."""
    if not lake.catalog.publish_table(draft):
        if not if_not_exists:
            raise _taken(draft)
        return
    table = lake.catalog.table(draft.name)
    try:
        write(lake.spark, table, frame, request)
    except BaseException as error:
        if not isinstance(error, CommitUnknownError):
            with suppress(BucketlakeError):
                lake.catalog.withdraw_table(table)
        raise


def _definition(lake: Lake, clause: CreateTable, frame: DataFrame | None) -> _Definition:
    made = _written(lake, clause, frame)
    if not is_case_sensitive(lake.spark):  # Spark finds the columns of PARTITIONED BY so
        if not made.copied:
            refuse_alike(made.fields)
        own = {item.name: item.name for item in made.fields}
        by_case = {name.lower(): name for name in reversed(own)}
        made.partition_keys = [own.get(name) or by_case.get(name.lower(), name) for name in made.partition_keys]
    return made


def _written(lake: Lake, clause: CreateTable, frame: DataFrame | None) -> _Definition:
    options = dict(clause.options)
    comment = options.pop(COMMENT, None)
    made = _Definition(
        [],
        clause.partition_keys or _listed(options.pop("partition", "")),
        clause.primary_keys or _listed(options.pop("primary-key", "")),
        options,
        clause.comment if clause.comment is not None else comment,
    )
    if clause.like is not None:
        return _like(lake, clause.like, made, clause.like_options)
    if frame is not None:
        if clause.columns:
            raise InvalidError("CREATE TABLE … AS takes its columns from the query", remedy="leave the column list out")
        made.fields = field_types(as_nullable(frame.schema), as_declared=True)  # as Spark makes tables of queries
        if not made.fields:
            raise InvalidError(
                "table has no columns", table=".".join(clause.name), remedy="give rows that have columns"
            )
        return made
    if not clause.columns:
        validate(options)  # of a type whose tables need none
        raise InvalidError("table has no columns", table=".".join(clause.name), remedy="list the columns")
    made.fields = [
        _with_default(DataField(place, column.name, kind, column.comment), column.default)
        for place, (column, kind) in enumerate(clause.column_types(instants.of_session(lake.spark)))
    ]
    return made


def _with_default(field: DataField, text: str | None) -> DataField:
    if text is None:
        return field
    return DataField(field.id, field.name, field.type, field.description, stored_default(text, field))


def _like(lake: Lake, parts: tuple[str, ...], given: _Definition, options: bool) -> _Definition:
    """Columns, keys, `options` and comment of another table; what the statement gives itself goes before. Of Spark's
    tables and views, whose properties are none of a table here: columns with their defaults, partitioning, comment."""
    source = names.find(lake, parts)
    if source is None and (names.is_elsewhere(lake, parts) or names.is_sparks(lake, parts)):
        return _like_sparks(lake, ".".join(map(quoted, parts)), given)
    schema = lake.catalog.table((source or names.target(lake, parts)).full).schema  # which says what is not there
    taken = {key: value for key, value in schema.options.items() if options and not key.startswith(_ELSEWHERE)}
    made = _Definition(
        list(schema.fields),
        given.partition_keys or list(schema.partition_keys),
        given.primary_keys or list(schema.primary_keys),
        {key: value for key, value in {**taken, **given.options}.items() if key not in _OF_ONE_TABLE},
        given.comment if given.comment is not None else schema.comment,
        copied=True,
    )
    named = {"keyed": bool(made.primary_keys), "partitioned": bool(made.partition_keys)}
    refuse_key_words(given.options, schema.field_names, **named)  # the other table's may be another engine's
    return made


def _like_sparks(lake: Lake, name: str, given: _Definition) -> _Definition:
    """As CTAS makes columns, whatever values a view's expressions cannot have."""
    columns, catalog = lake.spark.table(name).schema, lake.spark.catalog
    fields = field_types(as_nullable(columns), as_declared=True)
    given.fields = [
        _with_default(field, (column.metadata or {}).get(_DEFAULT))
        for field, column in zip(fields, columns, strict=True)
    ]
    given.partition_keys = given.partition_keys or [one.name for one in catalog.listColumns(name) if one.isPartition]
    if given.comment is None:
        given.comment = catalog.getTable(name).description
    return given


def _listed(value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]
