"""Which warehouse a command is about, and which table of it.

`--warehouse`, else BUCKETLAKE_WAREHOUSE, else the configuration's default: a folder, a URI, or a name of the
configuration. Tables: `db.table`, `table` of the database `default`, `db.table$branch_x`, `db.table$files`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bucketlake.cli.answer import UsageError
from bucketlake.cli.command import Arguments, WithJson
from bucketlake.errors import BucketlakeError, InvalidError, NotFoundError
from bucketlake.lazy import lazy

if TYPE_CHECKING:
    from bucketlake import catalog as catalogs
    from bucketlake.catalog import Catalog
    from bucketlake.cli import settings
    from bucketlake.table import Table
else:
    catalogs = lazy("bucketlake.catalog")
    settings = lazy("bucketlake.cli.settings")

__all__ = ["VARIABLE", "InWarehouse", "OfTable", "WithWarehouse", "open_warehouse", "table_names"]

VARIABLE = "BUCKETLAKE_WAREHOUSE"


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
    if must_exist and "://" not in catalog.warehouse and catalog.env.storage.info(catalog.warehouse) is None:
        raise NotFoundError(
            "no such warehouse", warehouse=catalog.warehouse, remedy="look at the path; `bucketlake import` makes one"
        )
    return catalog


def _is_bare(text: str) -> bool:
    return "/" not in text and "\\" not in text and "." not in text


def _known() -> str:
    names = sorted(settings.load().warehouses)
    return f" (there are {', '.join(names)})" if names else ""


def table_names(ctx: typer.Context, incomplete: str) -> list[str]:
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


def _completed(ctx: typer.Context, incomplete: str) -> list[str]:
    return [name for name in table_names(ctx, incomplete) if name.startswith(incomplete)]


class WithWarehouse(Arguments):
    """A command about a warehouse."""

    warehouse: Annotated[
        str | None,
        typer.Option(
            "--warehouse", "-w", metavar="PLACE", help=f"Folder, URI or configured name; by default ${VARIABLE}."
        ),
    ] = None

    @property
    def catalog(self) -> Catalog:
        """The warehouse, opened once."""
        found: Catalog | None = self.__dict__.get("_catalog")
        if found is None:
            found = self.__dict__["_catalog"] = open_warehouse(self.warehouse)
        return found


class InWarehouse(WithJson, WithWarehouse):
    """A command about a warehouse that programs may read."""


class OfTable(InWarehouse):
    """A command about one table."""

    table: Annotated[
        str,
        typer.Argument(metavar="TABLE", help="db.table, or table of the database default.", autocompletion=_completed),
    ]

    def opened(self, **options: Any) -> Table:
        """The table that is meant, with dynamic options."""
        return self.catalog.table(self.table, options or None)

    def plain_table(self, **options: Any) -> Table:
        """The table itself: InvalidError for a system table."""
        found = catalogs.parse_name(self.table)
        if found.system_table is not None:
            remedy = f"name the table: {found.database}.{found.table}"
            raise InvalidError("a system table has rows and nothing else", table=found.text, remedy=remedy)
        return self.opened(**options)
