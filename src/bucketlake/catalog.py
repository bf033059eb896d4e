"""Databases, tables and views of one warehouse, without Spark. Where they are registered is a metastore's affair.

Spec: docs/spec/catalog.md, docs/catalogs.md
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from difflib import get_close_matches
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from bucketlake.catalogs.files import FileSystem, has_schema
from bucketlake.catalogs.model import DialectChange, Found, Metastore, View, not_empty
from bucketlake.catalogs.names import (
    DEFAULT_DATABASE,
    SYSTEM_DATABASE,
    Identifier,
    check_name,
    is_name,
    parse_name,
    written,
)
from bucketlake.catalogs.near import around_database, meant_system_table, meant_table, there_are
from bucketlake.env.env import Env
from bucketlake.env.object_store import STORAGE_PREFIXES, open_env, storage_for
from bucketlake.errors import (
    AlreadyExistsError,
    BucketlakeError,
    InvalidError,
    NotFoundError,
    UnsupportedError,
    already_done,
    check_flags,
    check_types,
    no_attribute,
)
from bucketlake.file_names import lies_in
from bucketlake.lazy import lazy, pa
from bucketlake.options.catalog import catalog_options, metastore_of, table_defaults
from bucketlake.options.options import given_options, option_keys
from bucketlake.schema.change import SchemaChange
from bucketlake.schema.given import new_schema
from bucketlake.schema.schema import TableSchema
from bucketlake.schema.validation import refuse_undelivered
from bucketlake.shown import listing_html, listing_text
from bucketlake.types.model import DataField
from bucketlake.values import dataclass

__all__ = [
    "DEFAULT_DATABASE",
    "SYSTEM_DATABASE",
    "Catalog",
    "Identifier",
    "check_name",
    "open_catalog",
    "open_named",
    "parse_name",
]

if TYPE_CHECKING:
    from bucketlake import catalog_tables
    from bucketlake import table as tables
    from bucketlake.catalogs import clone as clones
    from bucketlake.catalogs import migrate as folders
    from bucketlake.catalogs import rest, sql
    from bucketlake.catalogs.clone import Cloning
    from bucketlake.catalogs.migrate import Draft
    from bucketlake.lsm.engines import rules as merging
    from bucketlake.ops.clone.clone import Cloned
    from bucketlake.ops.migrate.migrate import Migrated
    from bucketlake.ops.scan import fallback, system_tables
    from bucketlake.ops.system import registry
    from bucketlake.ops.system.model import SystemTable
    from bucketlake.table import Table
else:  # a warehouse is often opened for its names, schemas or files alone
    tables = lazy("bucketlake.table")
    sql = lazy("bucketlake.catalogs.sql")
    rest = lazy("bucketlake.catalogs.rest")
    catalog_tables = lazy("bucketlake.catalog_tables")
    fallback = lazy("bucketlake.ops.scan.fallback")
    merging = lazy("bucketlake.lsm.engines.rules")
    system_tables = lazy("bucketlake.ops.scan.system_tables")
    registry = lazy("bucketlake.ops.system.registry")
    folders = lazy("bucketlake.catalogs.migrate")
    clones = lazy("bucketlake.catalogs.clone")


# What a lake on Spark has, and a catalog has not.
_NAMES = {
    "sql": "bucketlake.connect(warehouse).sql(text)",
    "read_table": "catalog.table(name).to_arrow()",
    "write_table": "catalog.table(name).write_arrow(rows)",
    "databases": "catalog.list_databases()",
}


@dataclass(frozen=True, slots=True)
class Catalog:
    """One warehouse. Every call asks the metastore: nothing is remembered but the connection.

    `kept_by`: what holds the names of databases and tables; None: the folders of the warehouse themselves.
    """

    env: Env
    warehouse: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold secrets
    kept_by: Metastore | None = field(default=None, repr=False)

    @property
    def metastore(self) -> Metastore:
        """What holds the names of databases, tables and views."""
        return FileSystem(self.env, self.warehouse) if self.kept_by is None else self.kept_by

    # ---- databases

    def list_databases(self) -> list[str]:
        """Names of all databases that can be asked for, sorted; `default` is always there."""
        found = {name for name in self.metastore.databases() if is_name(name, "database")}
        return sorted(found | {DEFAULT_DATABASE})

    def database_exists(self, name: str) -> bool:
        """Whether the database is there."""
        check_types(str, "give the database's name, a text", name=name)
        return name == DEFAULT_DATABASE or self.metastore.has_database(name)

    def create_database(
        self, name: str, ignore_if_exists: bool = False, properties: Mapping[str, str] | None = None
    ) -> None:
        """Make an empty database; AlreadyExistsError if the name is taken.

        A filesystem catalog has no place for `properties`: they are dropped with a warning, a `location` is refused.
        """
        check_flags(ignore_if_exists=ignore_if_exists)
        check_name(name, "database")
        check_types((Mapping, type(None)), "give keys and values", properties=properties)
        _refuse_system_database(name)
        if self.database_exists(name):
            if ignore_if_exists:
                return
            raise AlreadyExistsError("database exists", database=name, remedy=_MAY_BE_THERE)
        try:
            self.metastore.create_database(name, properties or {})
        except AlreadyExistsError:
            if not ignore_if_exists:
                raise

    def database_properties(self, name: str) -> dict[str, str]:
        """Properties of a database, as far as the catalog stores any. NotFoundError without the database."""
        if not self.database_exists(name):
            raise self._no_database(name)
        return self.metastore.properties_of(name) if name != SYSTEM_DATABASE else {}

    def alter_database(self, name: str, properties: Mapping[str, str | None]) -> None:
        """Set properties, remove those whose value is None. Refused where the catalog stores none."""
        check_types(Mapping, "give keys and values; None removes a key", properties=properties)
        _refuse_system_database(name)
        self.metastore.alter_database(name, properties)

    def drop_database(self, name: str, cascade: bool = False, ignore_if_missing: bool = False) -> None:
        """Remove a database, with its tables and all that lies in its folder if `cascade`; InvalidError if it has any
        and not."""
        check_flags(cascade=cascade, ignore_if_missing=ignore_if_missing)
        _refuse_system_database(name)
        if not self.database_exists(name):
            if ignore_if_missing:
                return
            raise self._no_database(name)
        tables = [*self.metastore.tables(name), *self.list_views(name)]
        if tables and not cascade:
            raise not_empty(name, tables=len(tables))
        self.metastore.drop_database(name, cascade)

    def database_path(self, name: str) -> str:
        """The folder of a database."""
        check_name(name, "database")
        return self.metastore.database_path(name)

    # ---- tables

    def list_tables(self, database: str = DEFAULT_DATABASE) -> list[str]:
        """Names of the tables of one database, without a name those of `default`, sorted; `tables` has all databases'.
        Folders that hold no schema are none, nor those whose name no table has. Those of `sys` are built in."""
        if database == SYSTEM_DATABASE:
            return sorted(catalog_tables.CATALOG_TABLES)
        if not self.database_exists(database):
            raise self._no_database(database)
        return [name for name in self.metastore.tables(database) if is_name(name, "table")]

    def tables(self, database: str | None = None) -> list[str]:
        """`db.t` of every table of every database, or of one, sorted, as `table` takes them. Warns where there are none
        because the folder of a database or table was taken for a warehouse."""
        databases = self.list_databases() if database is None else [database]
        named = ((one, table) for one in databases for table in self.list_tables(one))
        found = [written(*parts) for parts in named]
        if not found and database is None and (around := around_database(self)):
            warnings.warn(f"nothing is in the warehouse {self.warehouse}: is {around} meant?", stacklevel=2)
        return found

    def table_exists(self, name: str) -> bool:
        """Whether the table is there."""
        return self.metastore.find(parse_name(name)) is not None

    def table_path(self, name: str) -> str:
        """The folder of a table, existing or not; where the catalog's server places tables, of one that exists."""
        return self.placed(name).path

    def placed(self, name: str) -> Found:
        """Where a table lies or is to lie, and how its files are reached."""
        found = parse_name(name)
        if self.metastore.has_folder:
            return self.metastore.place(found)
        return self.metastore.find(found) or self.metastore.place(found)

    def table(self, name: str, options: Mapping[str, Any] | None = None) -> Table:
        """A table to read and write, or a system table over it (`t$ro`, `t$files`, …) or of the catalog (`sys.tables`,
        …) to read. `options`: dynamic options for this handle only."""
        found = parse_name(name)
        if found.database == SYSTEM_DATABASE:
            return catalog_tables.catalog_table(self, self.env, found.table, found.text)
        branch = {"branch": found.branch} if found.branch else {}
        rows = system_tables.view_of((found.system_table or "").lower())
        if rows is not None:
            rows.check_options(option_keys(given_options(options)))
        elif found.system_table is not None:
            registry.system_table(found.system_table, found.text)  # refuses unknown names before it looks for the table
        sure = not self.metastore.is_folders
        here = self.metastore.find(found) if sure else self.metastore.place(found)
        if here is None:
            raise self._no_table(found)
        given = {**given_options(options), **branch}
        try:
            table = tables.open_table(here.path, here.env, name=found.text, options=given)
        except NotFoundError as error:
            apart = sure and self.metastore.has_folder  # names are known in one place, tables lie in another
            if apart and not found.branch and not has_schema(here.env, here.path):
                raise _without_folder(found, here.path) from error
            if sure or self.metastore.find(found) is not None:
                raise
            raise self._no_table(found) from None
        return replace(table, view=_view(table, found.system_table, found.text))

    def _no_table(self, name: Identifier, otherwise: str = "create it first") -> NotFoundError:
        if not self.database_exists(name.database):
            return self._no_database(name.database, name.table)
        with suppress(BucketlakeError):  # a catalog that does not tell
            if self.metastore.view(Identifier(name.database, name.table)) is not None:
                return NotFoundError(
                    "not a table but a view", view=name.text, remedy="only queries and DROP VIEW take it"
                )
        return NotFoundError("no such table", table=name.text, remedy=self._near(name, otherwise))

    def create_table(
        self,
        name: str,
        schema: TableSchema | pa.Schema | Sequence[DataField],
        partition_keys: Sequence[str] = (),
        primary_keys: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        comment: str | None = None,
        ignore_if_exists: bool = False,
    ) -> Table:
        """Make a table and return it; AlreadyExistsError if the name is taken, NotFoundError without its database.

        `schema`: Arrow schema, fields, or a whole table schema (then keys, options and comment come from there).
        Keys are lists of columns, or a text with commas, as in SQL.
        """
        check_flags(ignore_if_exists=ignore_if_exists)
        found = parse_name(name)
        self._require_data_table(found, "create")
        if not self.database_exists(found.database):
            raise self._no_database(found.database)
        if ignore_if_exists and self.metastore.find(found) is not None:
            return self.table(name)
        draft = self.draft_table(name, schema, partition_keys, primary_keys, options, comment)
        if not self.publish_table(draft) and not ignore_if_exists:
            raise AlreadyExistsError("table exists", table=found.text, remedy="another process has just created it")
        with already_done("the table is created, but cannot be opened", "open it again", table=found.text):
            here = self.placed(name)
            return tables.open_table(here.path, here.env, name=found.text)

    def draft_table(
        self,
        name: str,
        schema: TableSchema | pa.Schema | Sequence[DataField],
        partition_keys: Sequence[str] = (),
        primary_keys: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        comment: str | None = None,
    ) -> Table:
        """The table that `create_table` would make, checked but not there yet: files can be written for it, and nobody
        sees it before `publish_table`. Errors as `create_table`. Where the catalog's server places tables, no file can
        be written before it is published and opened."""
        found = parse_name(name)
        self._require_data_table(found, "create")
        if not self.database_exists(found.database):
            raise self._no_database(found.database)
        if self.metastore.find(found) is not None:
            raise AlreadyExistsError("table exists", table=found.text, remedy=_MAY_BE_THERE)
        self._refuse_view(found)
        place = self.metastore.place(found)
        made = new_schema(
            schema, partition_keys, primary_keys, {**table_defaults(self.options), **given_options(options)}, comment
        )
        refuse_undelivered(made)
        merging.check_merges(made)
        made = replace(made, time_millis=self.env.clock.now_millis())
        draft = tables.new_table(place.env, place.path, made, found.text)
        fallback.check_branches(draft.store, {}, made.options)
        return draft

    def publish_table(self, draft: Table) -> bool:
        """Make a drafted table be there; False if its name was taken meanwhile: one of several callers gets True."""
        return self.metastore.publish(draft, parse_name(draft.name))

    def withdraw_table(self, published: Table) -> bool:
        """Take back a table that `publish_table` has just made, unless it is used: False, and it stays, once there is
        another schema or a snapshot. Nothing but its schema file is removed: data files are their writers' affair."""
        return self.metastore.withdraw(published, parse_name(published.name))

    def adopt_table(self, name: str) -> None:
        """Take up a table whose files lie in the place of one of this name: those that a clone has copied there, or
        that a catalog's database has lost. InvalidError where there are none."""
        found = parse_name(name)
        self._require_data_table(found, "repair")
        self.metastore.adopt(found)

    def drop_table(self, name: str, ignore_if_missing: bool = False) -> None:
        """Remove a table with all that lies in its folder. Files on external paths stay; a warning names their
        folders."""
        check_flags(ignore_if_missing=ignore_if_missing)
        found = parse_name(name)
        self._require_data_table(found, "drop")
        outside = self._outside(found)
        if self.metastore.drop_table(found):
            if outside:
                warnings.warn(
                    f"the files of {found.text} on external paths stay: {', '.join(outside)}; "
                    "remove the folders if nothing else uses them",
                    stacklevel=2,
                )
        elif not ignore_if_missing:
            raise self._no_table(found, "say IF EXISTS where it may be missing")

    def _outside(self, name: Identifier) -> tuple[str, ...]:
        """Folders outside of its own that a table may keep files in, as far as it can be opened."""
        with suppress(BucketlakeError):
            here = self.metastore.find(name)
            if here is not None:
                paths = tables.open_table(here.path, here.env, name=name.text).store.paths
                return tuple(root for root in paths.external_roots if not lies_in(root, paths.root))
        return ()

    def rename_table(self, source: str, target: str, ignore_if_missing: bool = False) -> None:
        """Move a table to a free name, perhaps in another database. Not atomic on object stores."""
        check_flags(ignore_if_missing=ignore_if_missing)
        old, new = parse_name(source), parse_name(target)
        self._require_data_table(old, "rename")
        self._require_data_table(new, "rename")
        here = self.metastore.find(old)
        if here is None:
            if ignore_if_missing:
                return
            raise self._no_table(old)
        if not self.database_exists(new.database):
            raise self._no_database(new.database)
        if self.metastore.find(new) is not None:
            raise AlreadyExistsError("table exists", table=new.text)
        self._refuse_view(new)
        if self.metastore.has_folder:
            _refuse_moving(here, old)
        self.metastore.rename_table(old, new)

    # ---- views

    def list_views(self, database: str = DEFAULT_DATABASE) -> list[str]:
        """Names of the database's persistent views, sorted; a file-system catalog has none."""
        return [] if database == SYSTEM_DATABASE else self.metastore.views(database)

    def view(self, name: str) -> View | None:
        """A persistent view, None where there is none of this name."""
        found = parse_name(name)
        return None if found.system or found.database == SYSTEM_DATABASE else self.metastore.view(found)

    def create_view(self, name: str, view: View, replace: bool = False, ignore_if_exists: bool = False) -> None:
        """Store a view. AlreadyExistsError where the name is a table's or, unless `replace`, a view's; UnsupportedError
        where the catalog has no place for views."""
        check_flags(replace=replace, ignore_if_exists=ignore_if_exists)
        found = parse_name(name)
        self._require_data_table(found, "create")
        if not self.database_exists(found.database):
            raise self._no_database(found.database)
        if self.metastore.find(found) is not None:
            raise AlreadyExistsError("a table has the view's name", view=found.text)
        try:
            self.metastore.create_view(found, view, replace)
        except AlreadyExistsError:
            if not ignore_if_exists:
                raise

    def change_view(self, name: str, change: DialectChange) -> None:
        """Give a view another text for one engine. AlreadyExistsError where a dialect is there to add, NotFoundError
        where it is not to update or drop, or there is no view."""
        found = parse_name(name)
        if found.system or found.database == SYSTEM_DATABASE:
            raise NotFoundError("no such view", view=found.text)
        self.metastore.change_view(found, change)

    def drop_view(self, name: str, ignore_if_missing: bool = False) -> None:
        """Remove a view; NotFoundError where there is none."""
        check_flags(ignore_if_missing=ignore_if_missing)
        found = parse_name(name)
        if not self.metastore.drop_view(found) and not ignore_if_missing:
            raise NotFoundError("no such view", view=found.text)

    # ---- other programs' files, other tables' files

    def migrate_folder(
        self, folder: str, name: str, file_format: str = "parquet", draft: Draft | None = None
    ) -> Migrated:
        """Make the parquet or ORC files of a folder, partitioned as Hive does it, those of a table, in place: of `name`
        where it is there, else of a new one of `draft`; without it of what the first file's footer says, partition
        columns as texts. Call again where it failed. Errors as `ops.migrate.migrate.migrate`.
        Spec: docs/spec/migration.md
        """
        return folders.migrate_folder(self, folder, name, file_format, draft)

    def clone_table(self, source: Table, name: str, how: Cloning | None = None) -> Cloned | None:
        """Copy the files of a table's snapshot as a table of this catalog: a new one, or over the partitions of one
        that is there. Call again where it failed: what was copied is not copied again. None where `how` leaves a table
        that is there alone.
        Spec: docs/spec/clone.md
        """
        check_types(tables.Table, "give a table: catalog.table(name)", source=source)
        return clones.clone_table(source, self, name, how)

    def require_database(self, name: str) -> None:
        """NotFoundError where the database of a table's name is not there."""
        found = parse_name(name)
        self._require_data_table(found, "create")
        if not self.database_exists(found.database):
            raise self._no_database(found.database)

    def alter_table(self, name: str, *changes: SchemaChange, ignore_if_missing: bool = False) -> Table | None:
        """Publish the next schema and return the table as it is now; None if it is missing and that is ignored."""
        check_flags(ignore_if_missing=ignore_if_missing)
        if ignore_if_missing and not self.table_exists(name):
            return None
        return self.table(name).alter(*changes)

    # ---- shown

    if not TYPE_CHECKING:  # a checker must know which names there are

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, {}, _NAMES)

    def __repr__(self) -> str:
        return listing_text("Catalog", self.warehouse)

    def _repr_html_(self) -> str:
        return listing_html(self.warehouse, (), self.tables)

    # ---- parts

    def _refuse_view(self, found: Identifier) -> None:
        if self.metastore.view(found) is not None:
            raise AlreadyExistsError("a view has the table's name", table=found.text, remedy="drop the view first")

    def _require_data_table(self, found: Identifier, action: str) -> None:
        if found.system is None and found.database != SYSTEM_DATABASE:
            return
        raise InvalidError(
            f"Cannot '{action}' for system table '{found.text}', please use data table.", table=found.text
        )

    def _no_database(self, name: str, table: str | None = None) -> NotFoundError:
        known = self.list_databases()
        near = get_close_matches(name, known, 1)
        remedy = f"did you mean '{near[0]}'?" if near else f"create it first{there_are('databases', known)}"
        remedy = (table and meant_system_table(self, (name, table))) or remedy
        return NotFoundError("no such database", database=name, warehouse=self.warehouse, remedy=remedy)

    def _near(self, found: Identifier, otherwise: str = "create it first") -> str:
        if not self.database_exists(found.database):
            return f"there is no database '{found.database}'"
        known = self.list_tables(found.database)
        return meant_table(self, found.database, found.table, known) or f"{otherwise}{there_are('tables', known)}"


_MAY_BE_THERE = "IF NOT EXISTS (in Python ignore_if_exists=True) accepts one that exists"


def open_catalog(warehouse: str | PathLike[str], options: Mapping[str, Any] | None = None, **more: Any) -> Catalog:
    """The catalog of a warehouse folder: a local path or a URI (`s3://bucket/wh`).

    `options`: storage options (`s3.endpoint`, …), `table-default.<option>` for new tables. Nothing is made yet: the
    warehouse appears with its first database or table. With `metastore="jdbc"` names are rows of the database at `uri`;
    with `metastore="rest"` the warehouse is one that the server at `uri` knows by this name.
    Raises: UnsupportedError naming an option of Paimon's that would change where tables lie, how they are named or who
    locks them; InvalidError for another warehouse among the options.
    Spec: docs/spec/catalog.md#options, docs/catalogs.md
    """
    if not isinstance(warehouse, (str, PathLike)) or not fspath(warehouse):  # no text would be the working folder
        what = type(warehouse).__name__ if warehouse != "" else "''"
        remedy = 'bucketlake.connect("warehouse", spark=spark)'
        raise InvalidError("a warehouse is a folder or a URI", given=what, remedy=remedy)
    given = catalog_options(given_options(options, **more), STORAGE_PREFIXES)
    metastore = metastore_of(given)
    if metastore == "rest":
        nowhere, told, server = rest.open_rest(fspath(warehouse), given)
        return Catalog(nowhere, fspath(warehouse), told, server)
    env, root = open_env(fspath(warehouse), given)
    other = given.get("warehouse")
    if other is not None and storage_for(other, given)[1].rstrip("/") != root.rstrip("/"):
        raise InvalidError("two warehouses", warehouse=root, remedy="leave the option 'warehouse' out")
    found = env.storage.info(root)
    if found is not None and not found.is_dir:
        raise InvalidError("warehouse is a file", warehouse=root, remedy="name a folder")
    root = root.rstrip("/") or "/"
    return Catalog(env, root, given, sql.open_sql(env, root, given) if metastore == "jdbc" else None)


def open_named(path: str, env: Env, options: Mapping[str, Any] | None = None) -> Table:
    """The table in a folder; behind the folder's name may stand `$branch_<name>`, a system table's name, or both."""
    folder, _, last = path.rstrip("/").rpartition("/")
    name, sign, system = last.partition("$")
    if not sign:
        return tables.open_table(path, env, options=options)
    found = Identifier("", name, system)
    branch = {"branch": found.branch} if found.branch else {}
    table = tables.open_table(f"{folder}/{name}", env, options={**given_options(options), **branch})
    return replace(table, name=last, view=_view(table, found.system_table, last))


def _view(table: Table, system: str | None, name: str) -> system_tables.RowView | SystemTable | None:
    """The system table of this name over a table. `name`: of both, for errors."""
    if system is None:
        return None
    found = system_tables.view_of(system.lower()) or registry.system_table(system, name)
    if found is not None and found.name == system_tables.ROW_TRACKING:
        registry.check_row_tracking(table.store, name)
    return found


def _without_folder(name: Identifier, path: str) -> NotFoundError:
    return NotFoundError(
        "the catalog's database knows a table that does not lie in its folder: a RENAME TABLE was interrupted, or the "
        "folder was removed",
        table=name.text,
        path=path,
        remedy=f"CALL sys.repair('{name.database}') takes up a folder of its old name; DROP TABLE takes this name "
        "from the database",
    )


def _refuse_moving(here: Found, name: Identifier) -> None:
    """UnsupportedError for a table whose rows point at files by their paths."""
    try:
        schema = tables.open_table(here.path, here.env, name=name.text).schema
    except BucketlakeError:
        return  # it can be moved, whatever is wrong with it
    if schema.managed_fields:
        raise UnsupportedError(
            "another name, and with it another folder, for a table with a primary key and BLOB columns, whose rows "
            "point at their blobs by path",
            table=name.text,
            remedy="CREATE TABLE … AS SELECT, and DROP TABLE",
        )


def _refuse_system_database(name: str) -> None:
    if name == SYSTEM_DATABASE:
        raise InvalidError("the system database cannot be changed", database=name)
