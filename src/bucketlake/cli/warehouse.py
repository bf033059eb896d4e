"""Which warehouse a command is about, and which table of it.

`--warehouse`, else BUCKETLAKE_WAREHOUSE, else the configuration's default: a folder, a URI, or a name of the
configuration. Tables: `db.table`, `table` of the database `default`, `db.table$branch_x`, `db.table$files`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from bucketlake.cli.answer import UsageError
from bucketlake.cli.command import Arguments, WithJson
from bucketlake.cli.ending import interrupt
from bucketlake.cli.grammar import Argument, Context, Option
from bucketlake.errors import BucketlakeError, CorruptError, InvalidError, NotFoundError, is_interrupt
from bucketlake.lazy import lazy
from bucketlake.redaction import redact
from bucketlake.types.model import quote_identifier

if TYPE_CHECKING:
    from typing_extensions import Self  # in typing since Python 3.11

    from bucketlake import catalog as catalogs
    from bucketlake.catalog import Catalog
    from bucketlake.cli import settings
    from bucketlake.cli.output import Console
    from bucketlake.format.metadata.snapshot import Snapshot
    from bucketlake.ops.check import remedy
    from bucketlake.ops.table.store import Store
    from bucketlake.options import options as known_options
    from bucketlake.table import Table
else:
    catalogs = lazy("bucketlake.catalog")
    settings = lazy("bucketlake.cli.settings")
    remedy = lazy("bucketlake.ops.check.remedy")
    known_options = lazy("bucketlake.options.options")

__all__ = [
    *("VARIABLE", "InWarehouse", "OfTable", "OfTables", "Travel", "Where", "WithWarehouse"),
    *("millis_of", "numbered", "open_warehouse", "pairs_of", "partition_text", "table_names", "told_options"),
]

T = TypeVar("T")
VARIABLE = "BUCKETLAKE_WAREHOUSE"
_A_TIME = "2026-01-31, or 2026-01-31 10:00:00"
_PLAIN = re.compile(r"[\w.-]+")


def open_warehouse(given: str | None, must_exist: bool = True) -> Catalog:
    """The catalog of the warehouse that is meant. UsageError where none is, NotFoundError where it is not there."""
    meant = given or os.environ.get(VARIABLE) or settings.default_warehouse()
    if not meant:
        raise UsageError(
            "which warehouse?",
            remedy=f"add --warehouse FOLDER, set {VARIABLE}, or name one: bucketlake config add NAME FOLDER --default",
        )
    named = settings.warehouse(meant)
    place, options = (meant, {}) if named is None else (named.warehouse, settings.resolved(named))
    if named is None and _is_bare(meant) and not os.path.exists(meant) and must_exist:
        raise NotFoundError(
            "no such warehouse",
            warehouse=meant,
            remedy=f"it is neither a folder here nor a name of the configuration{_known()}",
        )
    catalog = catalogs.open_catalog(place, options)
    if not catalog.metastore.has_folder:
        return catalog
    if must_exist and "://" not in catalog.warehouse and catalog.env.storage.info(catalog.warehouse) is None:
        raise NotFoundError(
            "no such warehouse", warehouse=catalog.warehouse, remedy="look at the path; `bucketlake import` makes one"
        )
    return catalog


def _is_bare(text: str) -> bool:
    return "/" not in text and "\\" not in text and "." not in text


def _known() -> str:
    names = sorted(settings.load().warehouses)
    return f" (configured: {', '.join(names)})" if names else ""


def table_names(ctx: Context, incomplete: str) -> list[str]:
    """Names of tables that begin like this, for the shell; never an error."""
    try:
        own = ctx.params.get("warehouse")
        above = (ctx.parent.params if ctx.parent is not None else {}).get("warehouse")
        catalog = open_warehouse(own or above)
        database, dot, _ = incomplete.partition(".")
        if dot:
            return [f"{database}.{name}" for name in catalog.list_tables(database)]
        databases = [f"{name}." for name in catalog.list_databases() if name != catalogs.DEFAULT_DATABASE]
        return [*catalog.list_tables(), *databases]
    except (BucketlakeError, OSError, ValueError):
        return []


def completed(ctx: Context, incomplete: str) -> list[str]:
    """Shells evaluate what they are given: a name that is more than letters, digits and `.-_` is not offered."""
    return [name for name in table_names(ctx, incomplete) if name.startswith(incomplete) and _PLAIN.fullmatch(name)]


class WithWarehouse(Arguments):
    """A command about a warehouse."""

    warehouse: Annotated[
        str | None,
        Option("--warehouse", "-w", metavar="PLACE", help=f"Folder, URI or configured name; by default ${VARIABLE}."),
    ] = None

    @property
    def catalog(self) -> Catalog:
        """The warehouse, opened once."""
        found: Catalog | None = self.__dict__.get("_catalog")
        if found is None:
            found = self.__dict__["_catalog"] = open_warehouse(self.warehouse)
        return found

    @property
    def place(self) -> str:
        """The warehouse as a command to copy says it; empty where nobody said it, or it holds what nobody may see."""
        said = self.warehouse or ""
        return said if redact(said) == said else ""


class InWarehouse(WithJson, WithWarehouse):
    """A command about a warehouse that programs may read."""


class OfTable(InWarehouse):
    """A command about one table."""

    table: Annotated[
        str,
        Argument(metavar="TABLE", help="db.table, or table of the database default.", completed=completed),
    ]

    branch: Annotated[
        str | None, Option("--branch", metavar="NAME", help="A branch of the table, as TABLE$branch_NAME.")
    ] = None

    def opened(self, options: Mapping[str, Any] | None = None) -> Table:
        """The table that is meant, or the system table, with dynamic options."""
        return self.catalog.table(self.named(), options)

    def named(self, system: str | None = None) -> str:
        """The full name, with its branch, of the table, or of a system table over it."""
        found = catalogs.parse_name(self.table)
        if self.branch is not None and found.branch not in (None, self.branch):
            raise UsageError("two branches", table=self.table, branch=self.branch, remedy="name one")
        branch = self.branch or found.branch
        behind = [f"branch_{branch}" if branch else None, system or found.system_table]
        text = "$".join([found.table, *(part for part in behind if part)])
        return f"{quote_identifier(found.database)}.{quote_identifier(text)}"

    def said(self, command: str, *words: str) -> str:
        """A command of this program about the same table, for a shell to take as it stands."""
        branch = ("--branch", self.branch) if self.branch else ()
        return remedy.shell_line(command, self.place, (self.table, *words), branch)

    def next_step(self, error: BaseException) -> str | None:
        """A file of the table is damaged or missing: `fsck` says what that means, and what mends it."""
        missing = isinstance(error, NotFoundError) and error.what == "no such file"
        return self.said("fsck") if missing or isinstance(error, CorruptError) else None

    def system(self, name: str) -> list[dict[str, Any]]:
        """The rows of a system table over the table."""
        self.plain_table()  # refuses what is none
        rows: list[dict[str, Any]] = self.catalog.table(self.named(name)).to_arrow().to_pylist()
        return rows

    def plain_table(self) -> Table:
        """The table itself: InvalidError for a system table."""
        found = catalogs.parse_name(self.table)
        if found.system_table is not None or found.database == catalogs.SYSTEM_DATABASE:
            raise InvalidError("this command is about tables, not system tables", table=found.text)
        return self.opened()


TABLES = Annotated[
    str | None, Option("--tables", metavar="PATTERN", help="Only tables whose db.table matches: 'db[.].*'.")
]
EXCLUDING = Annotated[str | None, Option("--excluding", metavar="PATTERN", help="No tables whose db.table matches.")]


class OfTables(OfTable):
    """A command about one table, or about those of the warehouse that are chosen: one that fails stops no other."""

    failed = 0  # the exit status by what could not be looked at

    table: Annotated[
        str,
        Argument(metavar="[TABLE]", help="db.table, or table of the database default; else all.", completed=completed),
    ] = ""
    tables: TABLES = None
    excluding: EXCLUDING = None

    def check(self) -> None:
        """UsageError for a table and a choice of several, and for patterns that are none."""
        super().check()
        if self.table and (self.tables or self.excluding):
            raise UsageError("one table, or several by a pattern?", remedy="leave TABLE out, or the patterns")
        if self.branch and not self.table:
            raise UsageError("a branch of which table?", branch=self.branch, remedy="name the table")
        for pattern in (self.tables, self.excluding):
            try:
                re.compile(pattern or "")
            except re.error as error:
                raise UsageError("not a regular expression", pattern=pattern, reason=str(error)) from error

    def each(self, work: Callable[[Self], T]) -> Iterator[T]:
        """What the work of a command about one table gives for the table that is named, or, one after the other, for
        each that is chosen. An error is the command's where one is named; else it is told, and `failed` is 1."""
        if self.table:
            yield work(self)
            return
        chosen = 0
        for name in self._chosen():
            chosen += 1
            one = self.__dict__["_one"] = self._about(name)
            try:
                yield work(one)
            except Exception as error:
                if is_interrupt(error) or isinstance(interrupt(), SystemExit):
                    raise
                if not isinstance(error, NotFoundError) or self.catalog.table_exists(name):  # else dropped meanwhile
                    self.__dict__["failed"] = self.console.failure(error, one.next_step(error), name)
        if not chosen and (self.tables or self.excluding):
            raise NotFoundError("no table matches", tables=self.tables, excluding=self.excluding)
        if not chosen:
            self.console.note("no tables")

    def _about(self, name: str) -> Self:
        """The command about one of them."""
        said = {key: value for key, value in vars(self).items() if not key.startswith("_") and key != "console"}
        one = type(self)(**{**said, "table": name, "tables": None, "excluding": None})
        one.__dict__.update(console=self.console, _catalog=self.catalog)
        return one

    def _chosen(self) -> Iterator[str]:
        """The names, database by database."""
        for database in self.catalog.list_databases():
            with suppress(NotFoundError):  # dropped meanwhile
                for name in self.catalog.tables(database):
                    if re.fullmatch(self.tables or ".*", name) and not re.fullmatch(self.excluding or "(?!)", name):
                        yield name

    def kept(self) -> str:
        """What stays of the table that was at work."""
        one: OfTable | None = self.__dict__.get("_one")
        return super().kept() if one is None else one.kept()


class Where(Arguments):
    """A command that takes a condition."""

    where: Annotated[
        str | None, Option("--where", metavar="CONDITION", help="A SQL condition: \"id > 3 AND city = 'Oslo'\".")
    ] = None


class Travel(Arguments):
    """A command that may read an older state."""

    snapshot: Annotated[int | None, Option("--snapshot", metavar="ID", help="As of this snapshot.")] = None
    tag: Annotated[str | None, Option("--tag", metavar="NAME", help="As of this tag.")] = None
    as_of: Annotated[
        str | None,
        Option("--as-of", metavar="TIME", help="As of a time: 2026-01-31, 2026-01-31 10:00:00, with a zone too."),
    ] = None

    def travel(self) -> dict[str, str]:
        """The options of a read that go back to what was said; UsageError for two of them."""
        said = {
            "scan.snapshot-id": None if self.snapshot is None else str(self.snapshot),
            "scan.tag-name": self.tag,
            "scan.timestamp-millis": None if self.as_of is None else str(millis_of(self.as_of)),
        }
        found = {key: value for key, value in said.items() if value is not None}
        if len(found) > 1:
            raise UsageError("one state only", remedy="give --snapshot, --tag or --as-of")
        return found


def millis_of(text: str, otherwise: str = "") -> int:
    """Epoch milliseconds of a time; without a zone it is this machine's. UsageError for what is none; `otherwise`: what
    else could have been written."""
    try:
        told = text.strip()
        moment = datetime.fromisoformat(told[:-1] + "+00:00" if told[-1:] in "zZ" else told)
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError("not a time", value=text, remedy=f"write {_A_TIME}{otherwise}") from error


def numbered(store: Store, text: str | None) -> Snapshot | None:
    """The snapshot of a number; None for other texts, and numbers of none: they may be a tag's name."""
    return store.find_snapshot(int(text)) if text and text.isdecimal() else None


def partition_text(partition: Mapping[str, str]) -> str:
    """`dt=2026-01-01/hour=5`, whatever its folder is named."""
    return "/".join(f"{name}={value}" for name, value in partition.items())


def pairs_of(given: Sequence[str] | None, name: str) -> dict[str, str]:
    """`KEY=VALUE` as they were said; UsageError for what has no `=`. `name`: of the option, for the error."""
    found = {}
    for one in given or ():
        key, sign, value = one.partition("=")
        if not sign or not key.strip():
            raise UsageError("not KEY=VALUE", option=name, value=one.partition("=")[0])
        found[key.strip()] = value.strip()
    return found


def names_in(text: str | None) -> list[str]:
    """The names of a list with commas."""
    return [one.strip() for one in (text or "").split(",") if one.strip()]


def told_options(console: Console, options: Mapping[str, str]) -> None:
    """Say which options of a new table nobody knows: they are kept, as others' programs may know them. Those that look
    like a known one are told of where the schema is made."""
    for key in options:
        if known_options.find_option(key) is None and known_options.near_key(key) is None:
            console.warn(f"option '{key}' is not known: it is kept with the table and has no effect here")
