"""`databases`, `tables`, `describe`, `schemas`, `options`, `partitions`: what there is, and what it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bucketlake.cli.answer import Rows, columns
from bucketlake.cli.command import READING, WithFormat, add
from bucketlake.cli.warehouse import InWarehouse
from bucketlake.errors import NotFoundError
from bucketlake.lazy import lazy

if TYPE_CHECKING:
    from bucketlake import catalog as catalogs
else:
    catalogs = lazy("bucketlake.catalog")


class Databases(InWarehouse, WithFormat):
    """`databases` takes nothing of its own."""


def databases(given: Databases) -> Rows:
    """List the databases of a warehouse."""
    catalog = given.catalog
    return Rows([(name, len(catalog.list_tables(name))) for name in catalog.list_databases()])


class Tables(InWarehouse, WithFormat):
    """What `tables` takes."""

    database: Annotated[str | None, typer.Argument(metavar="[DATABASE]", help="Only those of this database.")] = None


def tables(given: Tables) -> Rows:
    """List the tables of a warehouse, or of one database."""
    catalog = given.catalog
    names = catalog.list_databases() if given.database is None else [given.database]
    rows = [(name, table) for name in names for table in _tables(catalog, name, given.database is not None)]
    return Rows(rows, hint="no tables yet: bucketlake import FILE.csv TABLE makes one")


def _tables(catalog: catalogs.Catalog, database: str, asked: bool) -> list[str]:
    try:
        return catalog.list_tables(database)
    except NotFoundError:  # dropped while we look
        if asked:
            raise
        return []


def register(app: typer.Typer) -> None:
    """Register the family."""
    add(
        app,
        databases,
        panel=READING,
        answers=("rows", columns(database="its name", tables="count: tables in it")),
    )
    add(app, tables, panel=READING, answers=("rows", columns(database="its database", table="its name")))
