"""What an unknown name of a catalog may mean: what an error says of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING

from bucketlake.catalogs.files import old_snapshots
from bucketlake.catalogs.names import DATABASE_SUFFIX, DEFAULT_DATABASE, Identifier, written
from bucketlake.errors import BucketlakeError, did_you_mean
from bucketlake.lazy import lazy
from bucketlake.paths import TablePaths

if TYPE_CHECKING:
    from bucketlake.catalogs.warehouse import Warehouse
    from bucketlake.ops.system import registry
else:
    registry = lazy("bucketlake.ops.system.registry")

_NAMED = 5
_LOOKED_AT = 20  # databases in which an error looks for a table's name


def meant_table(catalog: Warehouse, database: str, table: str, known: Sequence[str]) -> str | None:
    """A remedy that names what an unknown table of a database may mean: one that has lost its schema, one that is
    spelled like it among those known there, one of this name in another database, or another warehouse, where this one
    is empty; None otherwise."""
    lost = _without_schema(catalog, Identifier(database, table))
    if lost is not None:
        return lost
    near = did_you_mean(table, known)
    if near is not None:
        return near
    databases = catalog.list_databases()
    if not known and databases == [DEFAULT_DATABASE]:
        around = f"; is {around_database(catalog)} meant?" if around_database(catalog) else ""
        return f"nothing is in the warehouse {catalog.warehouse} yet: look at its path{around}, or make the table first"
    for other in islice((one for one in databases if one != database), _LOOKED_AT):
        with suppress(BucketlakeError):  # a database that this caller may not look into
            if catalog.metastore.find(Identifier(other, table)) is not None:
                return f"did you mean '{written(other, table)}'?"
    return None


def meant_system_table(catalog: Warehouse, parts: Sequence[str], database: str = DEFAULT_DATABASE) -> str | None:
    """A remedy for `t.files` or `db.t.files`, as other engines write a system table of a table that there is; None for
    other names."""
    if len(parts) not in (2, 3):
        return None
    database, table, behind = parts if len(parts) == 3 else (database, *parts)
    near = get_close_matches(behind.lower(), registry.NAMES, 1)
    with suppress(BucketlakeError):  # what cannot be a name
        if near and catalog.metastore.find(Identifier(database, table)) is not None:
            return f"did you mean '{written(database, f'{table}${near[0]}')}'?"
    return None


def there_are(kind: str, names: Sequence[str]) -> str:
    """What an error says of names that there are: some of them."""
    shown = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    return f"; existing {kind}: {shown}" if names else ""


def around_database(catalog: Warehouse) -> str | None:
    """The warehouse that a folder taken for one lies in: one of a database or table of it; None for any other."""
    root = catalog.warehouse
    for folder in (root, root.rpartition("/")[0]):
        if folder.endswith(DATABASE_SUFFIX):
            return folder.rpartition("/")[0] or None
    return None


def _without_schema(catalog: Warehouse, name: Identifier) -> str | None:
    """What to do where a table's folder is there and holds snapshots, but its schema is gone."""
    with suppress(BucketlakeError):
        here = catalog.metastore.place(name)
        if catalog.metastore.has_folder and old_snapshots(here.env, TablePaths(here.path)):
            return f"its folder {here.path} holds snapshots, but no schema: put the files of its folder schema back"
    return None
