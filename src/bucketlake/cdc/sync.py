"""`sync_table` and `sync_database`: streams of events that keep tables of the lake as those of a source are.

Spec: docs/cdc.md
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, fields, replace
from typing import Any

from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from bucketlake.catalog import parse_name
from bucketlake.cdc.computed import parse_computed
from bucketlake.cdc.formats import NAMELESS
from bucketlake.cdc.letters import check_letters
from bucketlake.cdc.modes import parse_modes
from bucketlake.cdc.names import TableNames
from bucketlake.cdc.plan import Rules
from bucketlake.cdc.sink import CdcSink, Job, SyncDone, bind
from bucketlake.cdc.source import Source, absolute
from bucketlake.errors import InvalidError, NotFoundError, UnsupportedError, check_flags, check_types, did_you_mean
from bucketlake.ops.check.remedy import identifier
from bucketlake.options.options import option_keys, option_text, validate
from bucketlake.schema.change import SetOption
from bucketlake.spark.raised import interrupts_stay, told_by
from bucketlake.spark.session import Lake
from bucketlake.spark.stream.checkpoint import Checkpoint, Query, check_trigger
from bucketlake.table import Table
from bucketlake.values import dataclass

Names = str | Sequence[str]


@dataclass(frozen=True)
class How:
    """How tables follow their source: the further arguments of `sync_table` and `sync_database`.

    primary_keys, partition_keys: of tables that are made; by default the primary key is the source's, as far as events
    say it. `primary_keys_from_source=False`: not even then.
    computed_columns: texts `name=function(column, …)`. metadata_columns: `topic`, `offset`, `op_ts`, …, each with
    `metadata_column_prefix` before its name.
    type_mapping: as MODES. case_sensitive=False: names in small letters.
    table_options: of tables that are made; those of a table that is there are set where they differ.
    on_error: "dead-letter" puts events that cannot be written into the table `dead_letters`; "stop" ends the query.
    truncate: "apply" or "ignore" truncations of the source.
    trigger: as Spark takes it. on_batch: is given what became of each batch. query_name: of the query in Spark.
    """

    primary_keys: Names = ()
    partition_keys: Names = ()
    primary_keys_from_source: bool = True
    computed_columns: Names = ()
    metadata_columns: Names = ()
    metadata_column_prefix: str = ""
    type_mapping: Names = ()
    case_sensitive: bool = True
    table_options: Mapping[str, Any] = field(default_factory=dict)
    on_error: str = "dead-letter"
    dead_letters: str | None = None
    truncate: str = "apply"
    trigger: Mapping[str, Any] | None = None
    on_batch: Callable[[SyncDone], None] | None = None
    query_name: str | None = None
    including_tables: str = ".*"
    excluding_tables: str | None = None
    including_dbs: str = ".*"
    excluding_dbs: str | None = None

    def __post_init__(self) -> None:
        for name, known in (("on_error", ("dead-letter", "stop")), ("truncate", ("apply", "ignore"))):
            if getattr(self, name) not in known:
                raise InvalidError(f"{name} is one of {', '.join(known)}", given=getattr(self, name))
        check_flags(**{item.name: getattr(self, item.name) for item in fields(self) if isinstance(item.default, bool)})
        for item in fields(self):
            _check_kind(item.name, str(item.type), getattr(self, item.name))
        check_trigger(self.trigger)


@dataclass(frozen=True)
class HowDatabase(How):
    """As `How`, for a whole database. table_prefix, table_suffix: of names in the lake; `…_db`: by source database;
    table_mapping: by source table. including_tables and the like: regular expressions over whole names. merge_shards:
    tables of one name in several databases are one table. mode: "combined" writes one table after the other, "divided"
    several at the same time. multiple_table_partition_keys: by source table."""

    table_prefix: str = ""
    table_suffix: str = ""
    table_prefix_db: Mapping[str, str] = field(default_factory=dict)
    table_suffix_db: Mapping[str, str] = field(default_factory=dict)
    table_mapping: Mapping[str, str] = field(default_factory=dict)
    merge_shards: bool = True
    mode: str = "combined"
    multiple_table_partition_keys: Mapping[str, Names] = field(default_factory=dict)

    def __post_init__(self) -> None:
        How.__post_init__(self)
        if self.mode not in ("combined", "divided"):
            raise InvalidError("mode is one of combined, divided", given=self.mode)


def _check_kind(name: str, declared: str, value: Any) -> None:
    """InvalidError where an argument is of another type than it is declared with: a batch would meet it."""
    texts = None
    if declared.startswith("str"):
        check_types(str if declared == "str" else (str, type(None)), "give a text", **{name: value})
    elif declared == "Names":
        check_types((str, Sequence), "give a list of texts", **{name: value})
        texts = () if isinstance(value, str) else value
    elif declared.startswith("Mapping") and name != "trigger":
        check_types(Mapping, "give a dict", **{name: value})
        texts = [*value, *(value.values() if declared == "Mapping[str, str]" else ())]
    elif declared.startswith("Callable") and value is not None and not callable(value):
        raise InvalidError("not a function", argument=name, given=type(value).__name__)
    for text in texts or ():
        check_types(str, "give texts alone", **{name: text})


def sync_table(lake: Lake, source: Source, table: str, checkpoint: str, **how: Any) -> StreamingQuery:
    """Start a query that keeps a table as its source is: made where there is none, its schema following, every batch
    one commit, once. All tables that events are of go to the one table, unless `including_tables` and the like choose.

    `how`: as `How` says. Errors: InvalidError, UnsupportedError before anything is started.
    Spec: docs/cdc.md#follow-one-table
    """
    given = _taken(How, how)
    return _start(lake, source, table_job(lake, source, table, given), checkpoint, given)


def table_job(lake: Lake, source: Source, table: str, given: How) -> Job:
    """What `sync_table` starts, checked."""
    _check_source(source)
    name = parse_name(table, lake.current_database)
    if name.system is not None:
        raise InvalidError("not a table to write to", table=table)
    _check_database(lake, name.database)
    rules = _rules(given, source, strict=True)
    if lake.catalog.table_exists(name.text):
        _check_table(lake.catalog.table(name.text), rules)
    chosen = _chosen(given)
    job = _job(
        lake, source, given, rules, name.text, given.dead_letters or f"{name.database}.{name.table}_dead_letters"
    )
    return replace(job, source_names=chosen)


def sync_database(lake: Lake, source: Source, database: str, checkpoint: str, **how: Any) -> StreamingQuery:
    """Start a query that keeps the tables of a database as those of a source are; tables that are new to it are made on
    the way. Each table's rows of a batch are one commit, once.

    `how`: as `HowDatabase` says. Errors: InvalidError, UnsupportedError before anything is started.
    Spec: docs/cdc.md#follow-a-whole-database
    """
    given = _taken(HowDatabase, how)
    assert isinstance(given, HowDatabase)
    return _start(lake, source, database_job(lake, source, database, given), checkpoint, given)


def database_job(lake: Lake, source: Source, database: str, given: HowDatabase) -> Job:
    """What `sync_database` starts, checked."""
    _check_source(source)
    if source.format in NAMELESS:
        raise InvalidError(
            "events of this format do not say which table they are of", format=source.format, remedy="sync_table"
        )
    _check_database(lake, database)
    names = TableNames(
        prefix=given.table_prefix,
        suffix=given.table_suffix,
        prefix_of=given.table_prefix_db,
        suffix_of=given.table_suffix_db,
        mapping=given.table_mapping,
        including_tables=given.including_tables,
        excluding_tables=given.excluding_tables,
        including_dbs=given.including_dbs,
        excluding_dbs=given.excluding_dbs,
        merge_shards=given.merge_shards,
        case_sensitive=given.case_sensitive,
    )
    rules = _rules(given, source, strict=False)
    job = _job(lake, source, given, rules, database, given.dead_letters or f"{database}.cdc_dead_letters")
    return replace(job, names=names, divided=given.mode == "divided")


def _check_database(lake: Lake, database: str) -> None:
    if not lake.catalog.database_exists(database):
        near = did_you_mean(database, lake.catalog.list_databases())
        create = f"CREATE DATABASE {identifier(database)}"
        raise NotFoundError("no such database", database=database, remedy=f"{near} Else {create}" if near else create)


def _check_source(source: Any) -> None:
    if not isinstance(source, Source):
        remedy = "cdc.files(path, format=…), cdc.kafka(…), or cdc.stream(frame, format=…) make one"
        raise InvalidError("not a source of events", type=type(source).__name__, remedy=remedy)


def _taken(kind: type[How], how: Mapping[str, Any]) -> How:
    known = [item.name for item in fields(kind)]
    for name in how:
        if name not in known:
            raise InvalidError("no such argument", argument=name, remedy=did_you_mean(name, known))
    return kind(**how)


def _rules(how: How, source: Source, strict: bool) -> Rules:
    metadata = _listed(how.metadata_columns)
    for kind in metadata:
        if kind not in source.metadata:
            raise InvalidError(
                "no such metadata column",
                column=kind,
                columns=list(source.metadata),
                remedy=did_you_mean(kind, source.metadata),
            )
    partitions = getattr(how, "multiple_table_partition_keys", {})
    rules = Rules(
        primary_keys=_listed(how.primary_keys),
        partition_keys=_listed(how.partition_keys),
        partition_keys_of={name: _listed(keys) for name, keys in partitions.items()},
        computed=parse_computed(_texts(how.computed_columns), how.case_sensitive),
        metadata=metadata,
        metadata_prefix=how.metadata_column_prefix,
        modes=parse_modes(how.type_mapping),
        table_options={key: option_text(value) for key, value in option_keys(how.table_options).items()},
        case_sensitive=how.case_sensitive,
        keys_from_source=how.primary_keys_from_source,
        strict=strict,
    )
    validate(rules.table_options)
    if "rowkind.field" in rules.table_options:
        raise UnsupportedError("rowkind.field: row kinds are what events say", option="rowkind.field")
    for option, argument in (("primary-key", "primary_keys"), ("partition", "partition_keys")):
        if option in rules.table_options:
            raise InvalidError("keys are no table option here", option=option, remedy=f"give {argument}")
    return rules


def _job(lake: Lake, source: Source, how: How, rules: Rules, target: str, dead_letters: str) -> Job:
    letters = parse_name(dead_letters, lake.current_database).text
    if lake.catalog.table_exists(letters):
        check_letters(lake.catalog.table(letters))
    return Job(
        catalog=lake.catalog,
        format=source.format,
        target=target,
        rules=rules,
        letters=letters,
        binding={"target": target, "source": source.what, "warehouse": lake.catalog.warehouse},
        stops=how.on_error == "stop",
        truncates=how.truncate == "apply",
        files=source.kind == "files",
        on_batch=how.on_batch,
        registry=source.registry,
    )


def _check_table(table: Table, rules: Rules) -> None:
    """Refuse what a table that is there cannot take, and give it the options that it lacks."""
    own = table.schema.options
    if "rowkind.field" in own:
        raise UnsupportedError("rowkind.field: row kinds are what events say", table=table.name)
    for what, given, has in (
        ("primary_keys", rules.primary_keys, table.schema.primary_keys),
        ("partition_keys", rules.partition_keys, table.schema.partition_keys),
    ):
        if given and tuple(rules.name(key) for key in given) != tuple(has):
            raise InvalidError(
                f"the table has other {what}",
                table=table.name,
                given=list(given),
                own=list(has),
                remedy="leave them out",
            )
    changes = [SetOption(key, value) for key, value in rules.table_options.items() if own.get(key) != value]
    if changes:
        table.alter(*changes)


def _start(lake: Lake, source: Source, job: Job, checkpoint: str, how: How) -> StreamingQuery:
    _check_patterns(lake, job.rules)
    checkpoint = absolute(str(checkpoint))
    with interrupts_stay():
        events = source.load(lake.spark)  # a source that is not there takes no checkpoint
    folder = Checkpoint(checkpoint, job.catalog.env)
    folder.check()
    _bind(folder, job)
    name = how.query_name or f"cdc {job.target} {lake.catalog.env.clock.new_uuid()[:8]}"
    sink = CdcSink(job, Query(name, checkpoint, lake.spark, job.catalog.env))
    stream = events.writeStream.queryName(name).option("checkpointLocation", checkpoint)
    if how.trigger is not None:
        stream = stream.trigger(**how.trigger)
    with interrupts_stay():
        return told_by(stream.foreachBatch(sink).start())


def _bind(checkpoint: Checkpoint, job: Job) -> None:
    """Refuse a checkpoint of something else, where it can be read here; else its first batch does."""
    with suppress(UnsupportedError):
        bind(checkpoint, job.binding, checkpoint.has_begun())


def _check_patterns(lake: Lake, rules: Rules) -> None:
    """Refuse patterns of times that Spark does not take, before a batch meets them."""
    for item in rules.computed:
        if item.function == "date_format":
            try:
                lake.spark.range(1).select(F.date_format(F.lit("2020-01-01"), item.arguments[0])).collect()
            except Exception as error:
                raise InvalidError("not a pattern of a time", computed=item.name, pattern=item.arguments[0]) from error


def _chosen(how: How) -> TableNames | None:
    if (how.including_tables, how.excluding_tables, how.including_dbs, how.excluding_dbs) == (".*", None, ".*", None):
        return None
    return TableNames(
        including_tables=how.including_tables,
        excluding_tables=how.excluding_tables,
        including_dbs=how.including_dbs,
        excluding_dbs=how.excluding_dbs,
    )


def _listed(given: Names) -> tuple[str, ...]:
    items = given.split(",") if isinstance(given, str) else given
    return tuple(item.strip() for item in items if item.strip())


def _texts(given: Names) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
