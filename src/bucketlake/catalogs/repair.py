"""What a catalog's database has lost, taken up again from the folders of the warehouse.

Spec: docs/catalogs.md#repair
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bucketlake.catalogs.files import FileSystem
from bucketlake.catalogs.names import parse_name
from bucketlake.errors import NotFoundError, UnsupportedError

if TYPE_CHECKING:
    from bucketlake.catalogs.warehouse import Warehouse


def repair(catalog: Warehouse, name: str = "") -> list[str]:
    """Tell the metastore of a table (`db.t`), of all tables in a database's folder (`db`), or in the warehouse (""):
    those that it lacks are added, none is removed. Names of what was added.

    UnsupportedError where nothing could be told: the folders are the catalog, or a server has it.
    """
    metastore = catalog.metastore
    if metastore.kind != "jdbc":
        raise UnsupportedError(
            "only the database of a SQL catalog can be repaired from its warehouse",
            metastore=metastore.kind,
            remedy="the folders are the catalog" if metastore.has_folder else "repair it at the server",
        )
    folders = FileSystem(catalog.env, catalog.warehouse)
    if "." in name:
        found = parse_name(name)
        names = [(found.database, found.table)]
    else:
        wanted = [name] if name else sorted(folders.databases())
        if name and name not in folders.databases():
            raise NotFoundError("no such folder of a database", database=name, warehouse=catalog.warehouse)
        names = [(database, table) for database in wanted for table in folders.tables(database)]
    added = []
    for database in dict.fromkeys([*([name] if name and "." not in name else []), *(one for one, _ in names)]):
        catalog.create_database(database, ignore_if_exists=True)
    for database, table in names:
        full = f"`{database}`.`{table}`"
        if not catalog.table_exists(full):
            catalog.adopt_table(full)
            added.append(f"{database}.{table}")
    return added
