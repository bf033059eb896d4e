"""`connect`: a warehouse and a Spark session, which together are a lake."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field
from functools import cached_property, partial
from os import PathLike
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, SparkSession

from bucketlake.catalog import DEFAULT_DATABASE, Catalog, open_catalog, parse_name
from bucketlake.errors import InvalidError, UnsupportedError, check_flags, check_types, no_attribute
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.maintenance.rules import Event, Rule
from bucketlake.ops.progress import OnProgress
from bucketlake.options.catalog import current_database, without_secrets
from bucketlake.options.options import option_keys
from bucketlake.options.session import CATALOG_NAMES, options_of
from bucketlake.predicate.tree import Predicate
from bucketlake.shown import listing_html, listing_text
from bucketlake.spark import instants
from bucketlake.spark.cluster import memory_bytes, use_this_python
from bucketlake.spark.daemon import daemon_settings
from bucketlake.spark.datasource import register
from bucketlake.spark.handed import frame_of
from bucketlake.spark.java import ensure_java, java_of_every_name
from bucketlake.spark.maintainer import maintain_lake
from bucketlake.spark.merge.builder import MergeBuilder
from bucketlake.spark.quiet import announce, is_interactive, java_settings, quiet_java, quiet_queries
from bucketlake.spark.raised import in_one_process, told_as_ours
from bucketlake.spark.read.kept import KeptFrames
from bucketlake.spark.settings import LISTED, settings_of
from bucketlake.spark.table import LakeTable
from bucketlake.values import dataclass

SqlRunner = Callable[["Lake", str, Any, Mapping[str, Any]], DataFrame]


@dataclass(frozen=True, slots=True)
class Front:
    """What stands before a lake, where it has SQL: statements, scripts, DataFrames saved as tables and merged."""

    sql: SqlRunner
    script: Callable[[Lake, str], DataFrame | None]
    save: Callable[[Lake, DataFrame, Saving], Snapshot | None]
    merge: Callable[[Lake, LakeTable, MergeBuilder], Snapshot | None]


@dataclass(frozen=True, slots=True)
class Saving:
    """How `Lake.write_table` writes. `spelled`: the options stand by their own keys, as Spark's writers have them,
    unknown ones among them."""

    name: str
    mode: str = "append"
    partition_by: tuple[str, ...] = ()
    by_position: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    spelled: bool = False


_NAMES = {"read": "lake.read_table(name)", "load": "lake.table(name)", "write": "lake.write_table(frame, name)"}
_NOT_OFFERED = frozenset(  # by completion: what statements leave here for each other
    ("cached", "catalog_names", "default_database", "in_spark_catalog", "kept", "nothing", "other_catalogs", "working")
)
GIB = 1 << 30


class Lake:
    """The tables of one warehouse, through one Spark session. `current_database` resolves unqualified names, unless
    `in_spark_catalog`: then statements that do not say which catalog mean Spark's own."""

    def __init__(
        self, spark: SparkSession, catalog: Catalog, front: Front | None = None, database: str = DEFAULT_DATABASE
    ) -> None:
        self.spark = spark
        self.catalog = catalog
        self.current_database = self.default_database = database  # the latter: what USE of the catalog alone means
        self.in_spark_catalog = False
        self.catalog_names: tuple[str, ...] = CATALOG_NAMES  # in lower case, before `db.t`; the first is its own
        self.other_catalogs: frozenset[str] = frozenset()  # what is Spark's to read if it stands there
        self.working: Callable[[], AbstractContextManager[Any]] = nullcontext  # around what asks an attached session
        self._front = front
        self.cached: dict[str, DataFrame] = {}  # by table: what CACHE TABLE keeps

    def table(self, name: str, options: Mapping[str, Any] | None = None) -> LakeTable:
        """A table by `db.t` or `t`; `options` hold for this handle only. NotFoundError if there is none."""
        found = parse_name(name, self.current_database)
        merger = None if self._front is None else partial(self._front.merge, self)
        table = instants.told(self.spark, self.catalog.table(found.text, options), options or {})
        return LakeTable(self.spark, table, merger)

    @cached_property
    def nothing(self) -> DataFrame:
        """No rows of no columns: what a statement returns that yields none."""
        return self.spark.createDataFrame([], "result string").select()

    @cached_property
    def kept(self) -> KeptFrames:
        """Frames of small tables that queries read again."""
        return KeptFrames(self.spark)

    def tables(self, database: str | None = None) -> list[str]:
        """`db.t` of every table of the warehouse, or of one database, sorted, as `table` takes them. NotFoundError
        without the database."""
        return self.catalog.tables(database)

    def databases(self) -> list[str]:
        """The databases of the warehouse, sorted."""
        return self.catalog.list_databases()

    def sql(self, text: str, args: Any = None, **given: Any) -> DataFrame:
        """Run one statement: Spark SQL over the lake's tables, Spark's own and temp views, and the table language.
        `args` binds `:name` (a mapping) and `?` (a list) markers, `given` what stands in braces, as in `spark.sql`:
        DataFrames, columns and values."""
        _check_text(text)
        with self.working():
            return self._fronted.sql(self, text, args, given)

    def sql_script(self, text: str) -> DataFrame | None:
        """Run the statements of a script, in order, each ended by `;`, up to the first that fails: its error says
        which one that is and where. The last one's rows, None where there was no statement.

        The script is read to its end first: nothing is run where a literal or comment is not closed.
        """
        _check_text(text)
        with self.working():
            return self._fronted.script(self, text)

    def read_table(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        where: str | Predicate | Column | None = None,
        limit: int | None = None,
        **scan_options: Any,
    ) -> DataFrame:
        """The rows of a table, branch or system table as of now, as `LakeTable.read` gives them, with the session's
        options (`spark.paimon.…`) as SQL has them; `scan_options` go before these."""
        found = parse_name(name, self.current_database)
        names = (found.object, found.table)
        options = options_of(settings_of(self.spark), self.catalog_names, found.database, names)
        return self.table(name).read(columns, where, limit, **{**options, **option_keys(scan_options)})

    def write_table(
        self,
        frame: Any,
        name: str,
        mode: str = "append",
        partition_by: str | Sequence[str] = (),
        by_position: bool = False,
        **options: Any,
    ) -> Snapshot | None:
        """Write a DataFrame's rows, or those of this process (pandas, polars, Arrow, dicts), to a table, which is made
        for them where there is none; the new snapshot (of the compaction, where one followed).

        `mode`: "append"; "overwrite": all rows, with `replace_where="dt = '…'"` those of a partition, and where the
        session overwrites dynamically the partitions that rows are in, as always with "overwrite_partitions"; "error"
        or "create": a table that is there is an error; "ignore": nothing is done then; "replace", "create_or_replace":
        another definition in its place. `options`: of the table where it is made (`primary_key="id"`, `bucket=4`,
        `comment`), else of the write (`write_merge_schema=True`). Columns are matched by name, or `by_position`.
        Spec: docs/dataframes.md
        """
        check_flags(by_position=by_position)
        if isinstance(frame, str) and not isinstance(name, str):
            raise InvalidError("the rows come first", remedy="write_table(rows, 'db.table')")
        check_types(Iterable, "give a list of columns, or a text with one", partition_by=partition_by)
        rows = frame_of(self.spark, frame)
        columns = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        with told_as_ours():
            return self._fronted.save(self, rows, Saving(name, mode, columns, by_position, options))

    def maintain(
        self,
        rules: Sequence[Rule | Mapping[str, Any]] | None = None,
        once: bool = False,
        lease: str = "5 min",
        on_event: Callable[[Event], None] | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Event]:
        """Maintain the tables of the warehouse by rules, until Ctrl-C or SIGTERM: compaction, expiry, orphans; of
        several maintainers one leads, by a lease in the warehouse. `once`: one pass, no waiting. The events of the last
        pass.

        `rules`: `{"action": "compact", "tables": "db[.].*", "every": "1 min", "small_files": 20}` and the like, by
        default those that fit most warehouses. `lease`: how long others wait for a maintainer that died.
        Spec: docs/spec/maintenance.md#service
        """
        check_flags(once=once)
        more = {"lease": lease, "on_event": on_event, "on_progress": on_progress}
        return maintain_lake(self.spark, self.catalog, rules, once, more)

    @property
    def _fronted(self) -> Front:
        if self._front is None:
            raise UnsupportedError("this lake was made without SQL", remedy="make it by bucketlake.connect()")
        return self._front

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in _NOT_OFFERED]

    def __reduce__(self) -> Any:
        raise in_one_process("Lake", "lake.catalog")

    def __copy__(self) -> Lake:
        made = object.__new__(type(self))
        vars(made).update(vars(self))
        return made

    def __repr__(self) -> str:
        return listing_text("Lake", self.catalog.warehouse, f"Spark {self._version()}")

    def _repr_html_(self) -> str:
        details = [("Spark", self._version()), ("current database", self.current_database)]
        return listing_html(self.catalog.warehouse, details, self.catalog.tables)

    if not TYPE_CHECKING:  # a checker must know which names there are

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, {"lake.catalog": Catalog, "lake.spark": SparkSession}, _NAMES)

    def _version(self) -> str:
        try:
            return str(self.spark.version)
        except Exception:  # of a server that is gone: a picture is no place to fail
            return "(not reached)"


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise InvalidError("a statement is text", type=type(text).__name__)


def connect(
    warehouse: str | PathLike[str],
    *,
    spark: SparkSession | None = None,
    front: Front | None = None,
    options: Mapping[str, Any] | None = None,
    verbose: bool | None = None,
    settings: Mapping[str, str] | None = None,
) -> Lake:
    """A lake over a warehouse folder or URI. `options`: as for `open` (storage, table defaults), and `defaultDatabase`,
    the database that names without one mean until USE says another; it is made where it is missing.

    Spark is the session given, else the active one, else the one that SPARK_REMOTE names, else a local one made for
    the purpose, of these `settings`. Such a one logs nothing but what is fatal; `verbose` leaves Spark's own logging
    and says in a line what was made, as without a word to that is said where somebody types. No configuration of a
    session that exists is changed.
    Errors: InvalidError (`settings` of a session that is there, a name that no database has).
    Spec: docs/sessions.md
    """
    check_flags(verbose=verbose is not None and verbose)
    if spark is not None and not hasattr(spark, "conf"):
        remedy = "spark=SparkSession.builder.….getOrCreate(), or leave it out"
        if isinstance(spark, Mapping):
            remedy = "name them: connect(warehouse, options={…})"
        raise InvalidError("not a Spark session", type=type(spark).__name__, remedy=remedy)
    database, options = current_database(options or {})
    catalog = open_catalog(warehouse, options)
    found = spark or SparkSession.getActiveSession()
    if found is not None and settings:
        raise InvalidError(
            "these are settings of a session that is made here, and there is one",
            settings=sorted(settings),
            remedy="stop that session first, or leave them out",
        )
    if database is not None and not catalog.database_exists(database):
        catalog.create_database(database, ignore_if_exists=True)
    session = found or new_session(bool(verbose), **(settings or {}))
    register(session, catalog.warehouse, without_secrets(options) if catalog.kept_by else options)
    if found is None and (verbose or (verbose is None and is_interactive())):
        print(announce(session, catalog.warehouse), file=sys.stderr)
    return Lake(session, catalog, front, DEFAULT_DATABASE if database is None else database)


def new_session(verbose: bool = False, /, **settings: str) -> SparkSession:
    """A Spark session for a machine of its own: all cores, half of the memory up to 16 GiB, no UI, fast Python workers.

    With SPARK_REMOTE or SPARK_CONNECT_MODE_ENABLED set: a session of that server. `settings` overlay the defaults.
    Not `verbose`: it logs nothing but what is fatal, and PySpark logs no errors that it raises.
    """
    use_this_python()
    builder = SparkSession.builder.appName("bucketlake")
    if os.environ.get("SPARK_REMOTE") or os.environ.get("MASTER") or os.environ.get("SPARK_MASTER"):
        for key, value in settings.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()
    ensure_java()
    chosen = {**_local_settings(), **java_settings(verbose), **settings}
    here = re.fullmatch(r"local(\[.*\])?", chosen["spark.master"])
    for key, value in {**(daemon_settings() if here else {}), **chosen}.items():
        builder = builder.config(key, value)
    # What looks at the JVM's lines would keep a bar, which is none, until it ends.
    if verbose or not here or chosen["spark.ui.showConsoleProgress"] == "true":
        with java_of_every_name():
            return builder.getOrCreate()
    quiet_queries()
    with quiet_java(), java_of_every_name():
        return builder.getOrCreate()


def _local_settings() -> dict[str, str]:
    cores = os.cpu_count() or 1
    return {
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": f"{_driver_memory() >> 20}m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        LISTED: "1000",  # else Spark starts a job, or we a scan for each 32 files
        "spark.sql.shuffle.partitions": str(max(8, 2 * cores)),
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }


def _driver_memory() -> int:
    """Bytes: half of the machine, at least 1 GiB, at most 16."""
    return max(GIB, min(16 * GIB, memory_bytes() // 2))
